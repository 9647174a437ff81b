/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/mem_writer.h"

#include <linux/perf_event.h>
#include <string.h>

enum { PIECE = 32 << 10 }; /* bytes of a range in one entry */

uint64_t mem_writer_now(const struct mem_writer *p)
{
    return p->sink.now(p->sink.context);
}

void mem_writer_looks(const struct mem_writer *p, pid_t pid)
{
    if (p->sink.looks)
        p->sink.looks(p->sink.context, pid);
}

int mem_writer_send(struct mem_writer *p, struct error *err)
{
    struct error why;
    if (p->writing) {
        p->writing = false;
        size_t size = vmevent_end(&p->writer, mem_writer_now(p));
        p->bytes += size;
        if (!p->failed && p->sink.write(p->sink.context, p->buffer, size, &why) < 0) {
            p->failed = true;
            p->error = why;
        }
    }
    if (p->failed && err)
        *err = p->error;
    return p->failed ? -1 : 0;
}

void mem_writer_drop(struct mem_writer *p)
{
    p->writing = false;
}

static void put_piece(struct mem_writer *p, const struct vmevent_entry *entry)
{
    const struct vmevent_header head = {.kind = VMEVENT_MEM,
                                        .pid = (uint32_t)p->pid,
                                        .sequence = p->sequence,
                                        .before = entry->before};
    if (p->writing && vmevent_add(&p->writer, entry))
        return;
    (void)mem_writer_send(p, NULL);
    p->sequence++;
    vmevent_begin(&p->writer, p->buffer, sizeof(p->buffer), &head);
    p->writing = true;
    vmevent_add(&p->writer, entry); /* a piece fits into an empty payload */
}

void mem_writer_put(struct mem_writer *p, const struct vmevent_entry *entry)
{
    for (uint32_t at = 0; at < entry->length; at += PIECE) {
        struct vmevent_entry piece = *entry;
        piece.address += at;
        piece.length = entry->length - at < PIECE ? entry->length - at : PIECE;
        piece.flags |= VMENTRY_TIMED;
        piece.bytes = entry->bytes ? entry->bytes + at : NULL;
        put_piece(p, &piece);
    }
}

size_t mem_writer_record(const void *payload, size_t size, uint64_t id, uint64_t time,
                         uint8_t record[MEM_RECORD_MAX])
{
    struct vmevent_header head;
    memcpy(&head, payload, sizeof(head));
    uint32_t raw = (uint32_t)((size + 4 + 7) & ~(size_t)7) - 4;
    const struct {
        struct perf_event_header header;
        uint64_t id, ip;
        uint32_t pid, tid;
        uint64_t time;
        uint32_t cpu, reserved;
        uint32_t raw_size;
    } __attribute__((packed)) start = {
        .header = {.type = PERF_RECORD_SAMPLE,
                   .misc = PERF_RECORD_MISC_USER,
                   .size = (uint16_t)(sizeof(start) + raw)},
        .id = id,
        .pid = head.pid,
        .tid = head.pid,
        .time = time,
        .raw_size = raw,
    };
    if (sizeof(start) + raw >= MEM_RECORD_MAX)
        return 0;
    memcpy(record, &start, sizeof(start));
    memcpy(record + sizeof(start), payload, size);
    memset(record + sizeof(start) + size, 0, raw - size);
    return sizeof(start) + raw;
}
