/* SPDX-License-Identifier: GPL-2.0-only */
/* The vmstack: the copy of the VM's stack that belongs to one sample. */
#include "session/recorded_memory.h"

#include "base/bytes.h"

bool vmevent_of_sample(const struct sample *s, struct vmevent *ret)
{
    struct error ignored;
    const struct perf_event_attr *a = s->event ? &s->event->attr : NULL;
    return a && a->type == PERF_TYPE_SOFTWARE && a->config == PERF_COUNT_SW_BPF_OUTPUT && s->raw &&
           vmevent_open(s->raw, s->raw_size, ret, &ignored) == 0;
}

/* Returns how many entries begin at or before `address`. */
static uint32_t entries_up_to(const struct vmstack *copy, uint64_t address)
{
    const struct vmstack_entry *from = copy->entries;
    uint32_t nr = copy->nr;
    if (!nr)
        return 0;
    while (nr > 1) { /* without a branch, which nothing could predict */
        uint32_t half = nr / 2;
        from = from[half - 1].address <= address ? from + half : from;
        nr -= half;
    }
    return (uint32_t)(from - copy->entries) + (from->address <= address);
}

/* Keep the entries in order. Of entries that begin at one address the longest is enough, because
 * all are of one instant. */
static void insert(struct vmstack *copy, const struct vmevent_entry *e)
{
    if (!e->bytes || !e->length || copy->nr == VMSTACK_ENTRIES_MAX)
        return;
    uint32_t at = entries_up_to(copy, e->address);
    const struct vmstack_entry entry = {e->address, e->bytes, e->length, e->kind};
    if (at && copy->entries[at - 1].address == e->address) {
        if (copy->entries[at - 1].length < e->length)
            copy->entries[at - 1] = entry;
        return;
    }
    memmove(copy->entries + at + 1, copy->entries + at, (copy->nr - at) * sizeof(entry));
    copy->entries[at] = entry;
    copy->nr++;
}

static uint32_t page_hash(uint64_t page)
{
    return (uint32_t)(page ^ page >> 9) % VMSTACK_PAGE_BITS;
}

static uint32_t line_hash(uint64_t line)
{
    return (uint32_t)(line ^ line >> 10) % VMSTACK_LINE_SLOTS;
}

enum { PAGE_SHIFT = 12, LINE_SHIFT = 6, SHORT = 1024 };

/* Most readings are of bytes that are not there, or of a short entry. */
static void note_places(struct vmstack *copy)
{
    memset(copy->pages, 0, sizeof(copy->pages));
    memset(copy->lines, 0, sizeof(copy->lines));
    for (uint32_t i = 0; i < copy->nr; i++) {
        const struct vmstack_entry *e = &copy->entries[i];
        uint64_t last = e->address + (e->length - 1);
        if (e->length <= SHORT) {
            uint64_t line = e->address >> LINE_SHIFT;
            uint32_t nr = (uint32_t)((last >> LINE_SHIFT) - line) + 1;
            for (uint32_t k = 0; k < nr; k++)
                copy->lines[line_hash(line + k)] = (uint16_t)(i + 1);
            continue;
        }
        uint64_t page = e->address >> PAGE_SHIFT;
        uint32_t nr = (uint32_t)((last >> PAGE_SHIFT) - page) + 1;
        for (uint32_t k = 0; k < nr; k++) {
            uint32_t bit = page_hash(page + k);
            copy->pages[bit / 64] |= UINT64_C(1) << bit % 64;
        }
    }
}

static void note_state(struct vmstack *copy, uint64_t address)
{
    if (copy->nr_states < VMSTACK_STATES_MAX)
        copy->states[copy->nr_states] = address;
    copy->nr_states++;
}

bool vmstack_open(struct vmstack *copy, const uint8_t *payload, size_t size, uint32_t tid,
                  uint64_t user_ip, uint64_t user_sp)
{
    struct vmevent e;
    struct vmevent_entry entry;
    struct error ignored;
    int got;
    copy->nr = copy->nr_vms = copy->nr_states = 0;
    if (vmevent_open(payload, size, &e, &ignored) < 0 || e.head.kind != VMEVENT_STACK ||
        e.head.tid != tid || e.head.user_ip != user_ip || e.head.user_sp != user_sp)
        return false;
    copy->reason = e.head.reason;
    copy->flags = e.head.flags;
    while ((got = vmevent_next(&e, &entry, &ignored)) > 0) {
        if (entry.kind == VMENTRY_GLOBAL && copy->nr_vms < VMSTACK_VMS_MAX)
            copy->g[copy->nr_vms++] = entry.address;
        if (entry.kind == VMENTRY_STATE)
            note_state(copy, entry.address);
        insert(copy, &entry);
    }
    note_places(copy);
    return got >= 0;
}

/* Find the entry that has the most bytes from `address` on, or all that are wanted. Returns how
 * many. Entries overlap only where bytes were recorded twice: a few steps back are enough. */
static uint64_t longest(const struct vmstack *copy, uint64_t address, uint64_t want,
                        const struct vmstack_entry **ret)
{
    enum { BACK = 4 };
    uint64_t most = 0;
    uint32_t low = entries_up_to(copy, address);
    for (uint32_t i = 0; i < BACK && low && most < want; i++) {
        const struct vmstack_entry *e = &copy->entries[--low];
        uint64_t into = address - e->address;
        if (into >= e->length || e->length - into <= most)
            continue;
        most = e->length - into;
        *ret = e;
    }
    return most;
}

/* Read across entries: a stack may have been copied page by page. */
static __attribute__((noinline)) bool read_across(const struct vmstack *copy, uint64_t address,
                                                  uint8_t *out, size_t size)
{
    while (size) {
        const struct vmstack_entry *e = NULL;
        uint64_t there = longest(copy, address, size, &e);
        size_t part = there < size ? (size_t)there : size;
        if (!part)
            return false;
        memcpy(out, e->bytes + (address - e->address), part);
        out += part;
        address += part;
        size -= part;
    }
    return true;
}

static inline bool covers(const struct vmstack_entry *e, uint64_t address, uint64_t size)
{
    uint64_t into = address - e->address;
    return into < e->length && size <= e->length - into;
}

/* Returns the short entry that is noted for the line of `address`; NULL: none. */
static inline const struct vmstack_entry *find_short(const struct vmstack *copy, uint64_t address)
{
    uint32_t line = copy->lines[line_hash(address >> LINE_SHIFT)];
    return line ? &copy->entries[line - 1] : NULL;
}

/* Returns whether a long entry may contain `address`. */
static inline bool is_in_page(const struct vmstack *copy, uint64_t address)
{
    uint32_t bit = page_hash(address >> PAGE_SHIFT);
    return copy->pages[bit / 64] >> bit % 64 & 1;
}

static bool copy_read(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const struct vmstack *copy = context;
    const struct vmstack_entry *e = find_short(copy, q->address);
    if (e && covers(e, q->address, q->size))
        bytes_copy(to, e->bytes + (q->address - e->address), q->size);
    else if ((!e && !is_in_page(copy, q->address)) || !read_across(copy, q->address, to, q->size))
        return false;
    (void)answer; /* exact */
    return true;
}

static inline const uint8_t *place(const struct vmstack_entry *e, uint64_t address,
                                   struct memory_piece *ret)
{
    if (ret)
        *ret = (struct memory_piece){e->address, e->length};
    return e->bytes + (address - e->address);
}

static __attribute__((noinline)) const uint8_t *
place_longest(const struct vmstack *copy, uint64_t address, size_t size, struct memory_piece *ret)
{
    const struct vmstack_entry *e = NULL;
    return size && longest(copy, address, size, &e) >= size ? place(e, address, ret) : NULL;
}

static const uint8_t *copy_piece(void *context, uint64_t address, size_t size,
                                 struct memory_piece *ret)
{
    const struct vmstack *copy = context;
    const struct vmstack_entry *e = find_short(copy, address);
    if (e && covers(e, address, size))
        return place(e, address, ret);
    return e || is_in_page(copy, address) ? place_longest(copy, address, size, ret) : NULL;
}

static uint32_t copy_states(void *context, const uint64_t **ret)
{
    const struct vmstack *copy = context;
    *ret = copy->states;
    return copy->nr_states <= VMSTACK_STATES_MAX ? copy->nr_states : UINT32_MAX;
}

/* Like longest(), for entries that end above `address`: some may be missed. */
static bool copy_has(void *context, uint64_t address, uint64_t size)
{
    enum { BACK = 4 };
    const struct vmstack *copy = context;
    uint32_t low = size ? entries_up_to(copy, address + (size - 1)) : 0;
    for (uint32_t i = 0; i < BACK && low; i++) {
        const struct vmstack_entry *e = &copy->entries[--low];
        if (e->address >= address || address - e->address < e->length)
            return true;
    }
    return false;
}

struct memory_layer vmstack_layer(const struct vmstack *copy)
{
    return (struct memory_layer){.name = "vmstack",
                                 .read = copy_read,
                                 .piece = copy_piece,
                                 .states = copy_states,
                                 .has = copy_has,
                                 .context = (void *)(uintptr_t)copy,
                                 .when = MEMORY_OF_SAMPLE};
}
