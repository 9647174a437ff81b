/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as payloads of ljperf's own events (a two-byte size before each), read through the
 * memory layers made of them. Payloads get a valid header, so that their entries are reached; or
 * the bytes describe the entries, which then are near each other in memory and time. What a layer
 * returns must be there, and exact reads must agree with each other. The bytes of an entry encode
 * its address, so that a check can see that they are of that address: a log's contents are one
 * file, in which no sanitizer can tell the end of an entry from the start of the next.
 */
#include "session/recorded_memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PAYLOADS = 16, LARGEST = 4096 };

/* The byte at an address, as a payload has it. */
static uint8_t byte_at(uint64_t address, size_t payload)
{
    return (uint8_t)(address * PAYLOADS + payload);
}

static void check_bytes(uint64_t address, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] / PAYLOADS != byte_at(address + i, 0) / PAYLOADS)
            abort();
}

static void write_bytes(uint8_t *payload, size_t size, size_t nr)
{
    struct vmevent e;
    struct vmevent_entry entry;
    if (vmevent_open(payload, size, &e, NULL) < 0)
        abort();
    while (vmevent_next(&e, &entry, NULL) > 0)
        for (uint32_t i = 0; entry.bytes && i < entry.length; i++)
            payload[entry.bytes - payload + i] = byte_at(entry.address + i, nr);
}

static enum memory_likeness likeness(const void *context, uint64_t address, const uint8_t *bytes,
                                     size_t size, const struct memory_span *when)
{
    (void)when;
    check_bytes(address, bytes, size);
    return bytes[0] % PAYLOADS == *(const uint8_t *)context ? MEMORY_SAME : MEMORY_ANOTHER;
}

/* Calls the proofs, whose comparisons check the bytes. */
static void prove(struct memory_layer layer, uint64_t address, size_t size, uint64_t time)
{
    const struct memory_span when = {time / 2, time};
    uint8_t payload = (uint8_t)(time % PAYLOADS);
    const struct memory_compare compare = {likeness, &payload};
    struct memory_span same = {0, UINT64_MAX};
    struct memory_proof proof;
    if (layer.prove)
        (void)layer.prove(layer.context, address, size, time, &compare, &proof);
    if (layer.unlike)
        (void)layer.unlike(layer.context, address, size, time, &when, &compare, &same);
}

static bool ask(const struct memory_layer *layer, uint64_t address, void *to, size_t size,
                uint64_t time, struct memory_answer *ret)
{
    const struct memory m = {.layers = layer, .nr_layers = 1};
    const struct memory_query q = {.address = address,
                                   .size = size,
                                   .time = time,
                                   .kind = (enum memory_kind)(time % (MEMORY_OBJECT + 1)),
                                   .moment = (enum memory_moment)(time / 4 % (MEMORY_AFTER + 1)),
                                   .alive = time / 16 % 2};
    return memory_ask(&m, &q, to, ret);
}

static void read_around(struct memory_layer layer, uint64_t address, uint64_t time)
{
    static const int64_t offsets[] = {0, -1, 1, 7, 4096, -4096};
    uint8_t once[64], again[64];
    struct memory_answer p, q;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
        for (size_t n = 1; n <= sizeof(once); n *= 4) {
            uint64_t at = address + (uint64_t)offsets[i];
            prove(layer, at, n, time);
            if (!ask(&layer, at, once, n, time, &p))
                continue;
            if (!ask(&layer, at, again, n, time, &q) || p.provenance != q.provenance ||
                p.by_one_reading != q.by_one_reading || memcmp(once, again, n))
                abort();
            check_bytes(at, once, n);
        }
    }
}

static void use_copy(const uint8_t *payload, size_t size, const struct vmevent *e)
{
    static struct vmstack copy;
    if (!vmstack_open(&copy, payload, size, e->head.tid, e->head.user_ip, e->head.user_sp))
        return;
    for (uint32_t i = 0; i < copy.nr; i++) {
        if (i && copy.entries[i - 1].address >= copy.entries[i].address)
            abort();
        read_around(vmstack_layer(&copy), copy.entries[i].address, 0);
    }
}

/* Checks what snapshots note: no more results than there is room for, and blocks contain the
 * address that was asked for. */
static void use_notes(const struct memory_log *log, uint32_t pid, const struct vmevent_entry *entry)
{
    enum { MAX = 2 };
    uint64_t found[MAX + 1] = {[MAX] = 1}, words[2] = {entry->address, entry->length};
    if (entry->bytes && entry->length >= sizeof(words))
        memcpy(words, entry->bytes, sizeof(words));
    (void)memory_log_globals(log, pid, found, MAX);
    (void)memory_log_functions(log, pid, words[0], found, MAX);
    uint64_t proto = memory_log_prototype(log, pid, words[0] + words[1] / 2);
    if (found[MAX] != 1 || proto > words[0] + words[1] / 2)
        abort();
}

static void use_log(struct memory_log *log, const uint8_t *payload, size_t size)
{
    struct vmevent e;
    struct vmevent_entry entry;
    if (vmevent_open(payload, size, &e, NULL) < 0)
        return;
    const struct memory_log_view view = {.log = log, .pid = e.head.pid};
    while (vmevent_next(&e, &entry, NULL) > 0) {
        use_notes(log, e.head.pid, &entry);
        read_around(memory_log_layer(&view), entry.address, entry.before);
        read_around(memory_log_layer(&view), entry.address, entry.after + 1);
    }
}

/* Copies the next payload, with a valid header. Returns the number of its bytes. */
static size_t take_payload(const uint8_t *bytes, size_t size, uint8_t *payload)
{
    struct vmevent_header h;
    size_t n = size > 2 ? bytes[0] | (size_t)(bytes[1] & 0xf) << 8 : 0;
    n = n < sizeof(h) ? sizeof(h) : n;
    if (size < 2 + sizeof(h))
        return 0;
    n = n < size - 2 ? n : size - 2; /* the last payload may be cut */
    memcpy(payload, bytes + 2, n);
    memcpy(&h, payload, sizeof(h));
    h.magic = VMEVENT_MAGIC;
    h.version = VMEVENT_VERSION;
    h.order = VMEVENT_LITTLE;
    h.word_size = 8;
    h.kind = (uint8_t)(1 + h.kind % 3);
    h.size = (uint32_t)n;
    h.pid %= 4;
    memcpy(payload, &h, sizeof(h));
    return n;
}

/* Makes a payload of up to 4 entries, each described by four bytes. Returns the number of bytes
 * used. */
static size_t make_payload(const uint8_t *bytes, size_t size, uint8_t *payload)
{
    enum { ENTRIES = 4, SAID = 4, LONGEST = 64 };
    static const uint8_t zeros[LONGEST];
    struct vmevent_writer w;
    if (size < SAID)
        return 0;
    vmevent_begin(&w, payload, LARGEST,
                  &(struct vmevent_header){.kind = VMEVENT_MEM, .pid = bytes[0] % 8 == 0});
    for (size_t i = 0; i < ENTRIES && size >= SAID; i++, bytes += SAID, size -= SAID) {
        const uint64_t before = 1000 + 100 * (uint64_t)bytes[3];
        const struct vmevent_entry entry = {
            .address = 0x1000 + 8 * (uint64_t)(bytes[0] % 16),
            .length = 1 + bytes[1] % LONGEST,
            .kind = bytes[2] % 16,
            .flags = VMENTRY_TIMED | (bytes[1] / LONGEST == 3 ? VMENTRY_UNCHANGED : 0),
            .before = before,
            .after = before + bytes[2],
            .bytes = zeros,
        };
        (void)vmevent_add(&w, &entry);
    }
    return vmevent_end(&w, 0);
}

static size_t next_payload(const uint8_t **at, const uint8_t *end, uint8_t *payload, bool make)
{
    enum { SAID = 16 };
    size_t left = (size_t)(end - *at);
    size_t size = make ? make_payload(*at, left, payload) : take_payload(*at, left, payload);
    size_t used = make ? SAID : size + 2;
    *at += used < left ? used : left;
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint8_t payloads[PAYLOADS][LARGEST];
    const uint8_t *at = bytes, *end = bytes + size;
    size_t sizes[PAYLOADS], nr = 0;
    struct memory_log *log;
    if (memory_log_create(&log, NULL) < 0)
        abort();
    memory_log_set_order(log, size ? (enum memory_log_order)(end[-1] % 3) : MEMORY_LOG_RECORDED);
    for (; nr < PAYLOADS; nr++) {
        struct vmevent e;
        sizes[nr] = next_payload(&at, end, payloads[nr], size && end[-1] & 0x80);
        if (!sizes[nr])
            break;
        write_bytes(payloads[nr], sizes[nr], nr);
        if (vmevent_open(payloads[nr], sizes[nr], &e, NULL) < 0)
            abort();
        use_copy(payloads[nr], sizes[nr], &e);
        if (memory_log_add(log, &e, NULL) < 0)
            abort();
    }
    if (memory_log_seal(log, NULL) < 0)
        abort();
    for (size_t i = 0; i < nr; i++)
        use_log(log, payloads[i], sizes[i]);
    memory_log_free(log);
    return 0;
}
