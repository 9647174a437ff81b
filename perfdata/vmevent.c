/* SPDX-License-Identifier: GPL-2.0-only */
#include "perfdata/vmevent.h"

_Static_assert(sizeof(struct vmevent_header) == 80, "read field by field in vmevent_open");
_Static_assert(sizeof(struct vmevent_entry_header) == 16, "read field by field in vmevent_next");

bool vmevent_may_be(const struct perf_event_attr *attr)
{
    return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_BPF_OUTPUT &&
           attr->sample_type & PERF_SAMPLE_RAW;
}

/* ---- reading ----------------------------------------------------------------------------- */

static void read_head(struct cursor *c, struct vmevent_header *h)
{
    h->magic = cursor_u32(c);
    h->version = cursor_u8(c);
    h->order = cursor_u8(c);
    h->word_size = cursor_u8(c);
    h->kind = cursor_u8(c);
    h->size = cursor_u32(c);
    h->reason = cursor_u16(c);
    h->nr_entries = cursor_u16(c);
    h->cpu = cursor_u32(c);
    h->flags = cursor_u32(c);
    h->pid = cursor_u32(c);
    h->tid = cursor_u32(c);
    h->other = cursor_u32(c);
    h->reserved = cursor_u32(c);
    h->sequence = cursor_u64(c);
    h->user_ip = cursor_u64(c);
    h->user_sp = cursor_u64(c);
    h->before = cursor_u64(c);
    h->after = cursor_u64(c);
}

int vmevent_open(const void *payload, size_t size, struct vmevent *ret, struct error *err)
{
    struct vmevent_header *h = &ret->head;
    struct cursor *c = &ret->cursor;
    *c = cursor_make(payload, size, false, "ljperf event", "payload", 0);
    c->swap = size >= sizeof(*h) && load_u32(payload, true) == VMEVENT_MAGIC;
    ret->taken = 0;
    read_head(c, h);
    if (c->failed)
        return error_set(err, ERROR_TRUNCATED, "ljperf event: %zu bytes are less than its header",
                         size);
    if (h->magic != VMEVENT_MAGIC)
        return error_set(err, ERROR_FORMAT, "ljperf event: magic 0x%x is not its own", h->magic);
    if (h->version != VMEVENT_VERSION)
        return error_set(err, ERROR_UNSUPPORTED, "ljperf event: version %u is not known",
                         h->version);
    bool big = c->swap != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    if (h->word_size != 8 || h->order != (big ? VMEVENT_BIG : VMEVENT_LITTLE))
        return error_set(err, ERROR_UNSUPPORTED,
                         "ljperf event: byte order %u with words of %u bytes is not known",
                         h->order, h->word_size);
    if (h->size < sizeof(*h) || h->size > size)
        return error_set(err, ERROR_FORMAT, "ljperf event: its size %u is not within %zu", h->size,
                         size);
    c->end = c->start + h->size;
    return 0;
}

int vmevent_next(struct vmevent *e, struct vmevent_entry *ret, struct error *err)
{
    struct cursor *c = &e->cursor;
    if (e->taken == e->head.nr_entries)
        return 0;
    *ret = (struct vmevent_entry){.before = e->head.before, .after = e->head.after};
    const uint8_t *head = cursor_bytes(c, sizeof(struct vmevent_entry_header));
    if (head) {
        ret->address = load_u64(head, c->swap);
        ret->length = load_u32(head + 8, c->swap);
        ret->kind = head[12];
        ret->flags = head[13];
        ret->vm = head[14];
        ret->level = head[15];
    }
    if (ret->flags & VMENTRY_TIMED) {
        ret->before = cursor_u64(c);
        ret->after = cursor_u64(c);
    }
    if (!(ret->flags & (VMENTRY_UNCHANGED | VMENTRY_FAILED))) {
        ret->bytes = cursor_bytes(c, ret->length);
        cursor_skip(c, -ret->length & 7);
    }
    if (c->failed || ret->length > UINT64_MAX - ret->address) {
        e->taken = e->head.nr_entries;
        return cursor_error(c, err, "an entry's length is malformed");
    }
    e->taken++;
    return 1;
}

const char *vmevent_reason_text(unsigned reason)
{
    static const char *const texts[VMEVENT_NR_REASONS] = {
        [VMEVENT_MATCHED] = "copied",
        [VMEVENT_NO_VM] = "the process has no VM that is known",
        [VMEVENT_ELSEWHERE] = "no VM of the process runs on this thread",
        [VMEVENT_BAD_READ] = "the VM's memory could not be read in the interrupt",
        [VMEVENT_NO_USER_REGS] = "sampled in the kernel, which does not tell the user's registers",
    };
    return reason < VMEVENT_NR_REASONS ? texts[reason] : "for a reason that is not known";
}

/* ---- writing ----------------------------------------------------------------------------- */

void vmevent_begin(struct vmevent_writer *w, void *buffer, size_t cap,
                   const struct vmevent_header *head)
{
    struct vmevent_header h = *head;
    h.magic = VMEVENT_MAGIC;
    h.version = VMEVENT_VERSION;
    h.order = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? VMEVENT_BIG : VMEVENT_LITTLE;
    h.word_size = 8;
    h.nr_entries = 0;
    h.size = sizeof(h);
    w->at = buffer;
    w->cap = cap < VMEVENT_MAX ? cap : VMEVENT_MAX;
    w->size = sizeof(h);
    memcpy(w->at, &h, sizeof(h));
}

static bool has_bytes(const struct vmevent_entry *e)
{
    return !(e->flags & (VMENTRY_UNCHANGED | VMENTRY_FAILED));
}

size_t vmevent_entry_size(const struct vmevent_entry *e)
{
    size_t size = sizeof(struct vmevent_entry_header);
    if (e->flags & VMENTRY_TIMED)
        size += 2 * sizeof(uint64_t);
    if (has_bytes(e))
        size += ((size_t)e->length + 7) & ~(size_t)7;
    return size;
}

static void put(struct vmevent_writer *w, const void *bytes, size_t size)
{
    memcpy(w->at + w->size, bytes, size);
    w->size += size;
}

bool vmevent_add(struct vmevent_writer *w, const struct vmevent_entry *e)
{
    struct vmevent_header h;
    const struct vmevent_entry_header eh = {.address = e->address,
                                            .length = e->length,
                                            .kind = e->kind,
                                            .flags = e->flags,
                                            .vm = e->vm,
                                            .level = e->level};
    memcpy(&h, w->at, sizeof(h));
    if (vmevent_entry_size(e) > w->cap - w->size || h.nr_entries == UINT16_MAX)
        return false;
    h.nr_entries++;
    memcpy(w->at, &h, sizeof(h));
    put(w, &eh, sizeof(eh));
    if (e->flags & VMENTRY_TIMED) {
        put(w, &e->before, sizeof(e->before));
        put(w, &e->after, sizeof(e->after));
    }
    if (has_bytes(e)) {
        put(w, e->bytes, e->length);
        static const uint8_t zeros[8];
        put(w, zeros, -e->length & 7);
    }
    return true;
}

size_t vmevent_end(struct vmevent_writer *w, uint64_t after)
{
    struct vmevent_header h;
    memcpy(&h, w->at, sizeof(h));
    h.size = (uint32_t)w->size;
    if (after)
        h.after = after;
    memcpy(w->at, &h, sizeof(h));
    return w->size;
}
