/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as payloads of ljperf's own events (each with its size in two bytes before it), through
 * the layers of memory that are made of them. Payloads get a sound start, so that their entries are
 * reached. What a layer yields must be there, and exact reads must agree with each other.
 */
#include "session/vmmemory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_around(struct memory_layer layer, uint64_t address, uint64_t time)
{
    static const int64_t offsets[] = {0, -1, 1, 7, 4096, -4096};
    uint8_t once[64], again[64];
    enum provenance p, q;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
        for (size_t n = 1; n <= sizeof(once); n *= 4) {
            uint64_t at = address + (uint64_t)offsets[i];
            if (!layer.read(layer.context, at, once, n, time, &p))
                continue;
            if (!layer.read(layer.context, at, again, n, time, &q) || p != q ||
                memcmp(once, again, n))
                abort();
        }
    }
}

static void use_copy(const uint8_t *payload, size_t size, const struct vmevent *e)
{
    static struct vm_copy copy;
    if (!vm_copy_open(&copy, payload, size, e->head.tid, e->head.user_ip, e->head.user_sp))
        return;
    for (uint32_t i = 0; i < copy.nr; i++) {
        if (i && copy.entries[i - 1].address >= copy.entries[i].address)
            abort();
        read_around(vm_copy_layer(&copy), copy.entries[i].address, 0);
    }
}

/* What snapshots note: never more than there is room for, and blocks hold what they were asked for.
 */
static void use_notes(const struct vmlog *log, uint32_t pid, const struct vmevent_entry *entry)
{
    enum { MAX = 2 };
    uint64_t found[MAX + 1] = {[MAX] = 1}, words[2] = {entry->address, entry->length};
    if (entry->bytes && entry->length >= sizeof(words))
        memcpy(words, entry->bytes, sizeof(words));
    (void)vmlog_globals(log, pid, found, MAX);
    (void)vmlog_functions(log, pid, words[0], found, MAX);
    uint64_t proto = vmlog_prototype(log, pid, words[0] + words[1] / 2);
    if (found[MAX] != 1 || proto > words[0] + words[1] / 2)
        abort();
}

static void use_log(struct vmlog *log, const uint8_t *payload, size_t size)
{
    struct vmevent e;
    struct vmevent_entry entry;
    if (vmevent_open(payload, size, &e, NULL) < 0)
        return;
    const struct vmlog_view view = {.log = log, .pid = e.head.pid};
    while (vmevent_next(&e, &entry, NULL) > 0) {
        use_notes(log, e.head.pid, &entry);
        read_around(vmlog_layer(&view), entry.address, entry.before);
        read_around(vmlog_layer(&view), entry.address, entry.after + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { PAYLOADS = 16, LARGEST = 4096 };
    static uint8_t payloads[PAYLOADS][LARGEST];
    size_t sizes[PAYLOADS], nr = 0;
    struct vmlog *log;
    if (vmlog_create(&log, NULL) < 0)
        abort();
    vmlog_set_order(log, size ? (enum vmlog_order)(bytes[size - 1] % 3) : VMLOG_RECORDED);
    for (size_t at = 0; nr < PAYLOADS && at + 2 + sizeof(struct vmevent_header) <= size; nr++) {
        struct vmevent_header h;
        size_t n = bytes[at] | (size_t)(bytes[at + 1] & 0xf) << 8;
        at += 2;
        n = n < sizeof(h) ? sizeof(h) : n;
        n = n < size - at ? n : size - at;
        memcpy(payloads[nr], bytes + at, n);
        memcpy(&h, payloads[nr], sizeof(h));
        h.magic = VMEVENT_MAGIC;
        h.version = VMEVENT_VERSION;
        h.order = VMEVENT_LITTLE;
        h.word_size = 8;
        h.kind = (uint8_t)(1 + h.kind % 3);
        h.size = (uint32_t)n;
        h.pid %= 4;
        memcpy(payloads[nr], &h, sizeof(h));
        sizes[nr] = n;
        at += n;
        struct vmevent e;
        if (vmevent_open(payloads[nr], n, &e, NULL) < 0)
            abort();
        use_copy(payloads[nr], n, &e);
        if (vmlog_add(log, &e, NULL) < 0)
            abort();
    }
    if (vmlog_settle(log, NULL) < 0)
        abort();
    for (size_t i = 0; i < nr; i++)
        use_log(log, payloads[i], sizes[i]);
    vmlog_free(log);
    return 0;
}
