/* SPDX-License-Identifier: GPL-2.0-only */
/* Decodes the side-band records of the kernel and perf. Layouts: linux/perf_event.h,
 * perf/event.h. */
#include "perfdata/perfdata_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

const char *perfdata_record_name(uint32_t type)
{
    static const char *const NAMES[RECORD_TYPES] = {
        [1] = "MMAP",
        [2] = "LOST",
        [3] = "COMM",
        [4] = "EXIT",
        [5] = "THROTTLE",
        [6] = "UNTHROTTLE",
        [7] = "FORK",
        [8] = "READ",
        [9] = "SAMPLE",
        [10] = "MMAP2",
        [11] = "AUX",
        [12] = "ITRACE_START",
        [13] = "LOST_SAMPLES",
        [14] = "SWITCH",
        [15] = "SWITCH_CPU_WIDE",
        [16] = "NAMESPACES",
        [17] = "KSYMBOL",
        [18] = "BPF_EVENT",
        [19] = "CGROUP",
        [20] = "TEXT_POKE",
        [21] = "AUX_OUTPUT_HW_ID",
        [22] = "CALLCHAIN_DEFERRED",
        [64] = "HEADER_ATTR",
        [65] = "HEADER_EVENT_TYPE",
        [66] = "HEADER_TRACING_DATA",
        [67] = "HEADER_BUILD_ID",
        [68] = "FINISHED_ROUND",
        [69] = "ID_INDEX",
        [70] = "AUXTRACE_INFO",
        [71] = "AUXTRACE",
        [72] = "AUXTRACE_ERROR",
        [73] = "THREAD_MAP",
        [74] = "CPU_MAP",
        [75] = "STAT_CONFIG",
        [76] = "STAT",
        [77] = "STAT_ROUND",
        [78] = "EVENT_UPDATE",
        [79] = "TIME_CONV",
        [80] = "HEADER_FEATURE",
        [81] = "COMPRESSED",
        [82] = "FINISHED_INIT",
        [83] = "COMPRESSED2",
        [84] = "BPF_METADATA",
        [85] = "SCHEDSTAT_CPU",
        [86] = "SCHEDSTAT_DOMAIN",
    };
    return type < RECORD_TYPES ? NAMES[type] : NULL;
}

uint32_t perfdata_record_size(const struct perfdata *pd, const struct record *rec)
{
    /* Only samples are trimmed, and the size in their header is not changed. */
    return rec->type == PERF_RECORD_SAMPLE ? load_u16(rec->data + 6, pd->swap) : rec->size;
}

int perfdata_record_parse(const void *data, size_t size, struct record *ret, struct error *err)
{
    struct perf_event_header h = {0};
    if (size >= sizeof(h))
        memcpy(&h, data, sizeof(h));
    if (h.size < sizeof(h) || h.size > size)
        return error_set(err, ERROR_FORMAT, "a record's size is not its header's");
    *ret = (struct record){
        .data = data, .size = h.size, .type = h.type, .misc = h.misc, .event = PERFDATA_NO_EVENT};
    return 0;
}

static const char *path_of(const struct perfdata *pd)
{
    return pd ? pd->path : "memory";
}

struct cursor record_cursor(const struct perfdata *pd, const struct record *rec)
{
    const char *name = perfdata_record_name(rec->type);
    struct cursor c = cursor_make(rec->data, rec->size, pd && pd->swap, path_of(pd),
                                  name ? name : "record", rec->offset);
    cursor_skip(&c, RECORD_HEADER);
    return c;
}

int record_error(const struct perfdata *pd, const struct record *rec, struct error *err,
                 const char *text)
{
    const char *name = perfdata_record_name(rec->type);
    return error_set(err, ERROR_FORMAT, "%s: offset 0x%" PRIx64 ": %s record: %s", path_of(pd),
                     rec->offset, name ? name : "unknown", text);
}

static int finish(const struct perfdata *pd, const struct record *rec, const struct cursor *c,
                  struct error *err)
{
    return c->failed ? record_error(pd, rec, err, "its fields run past its end") : 0;
}

static int wrong_type(const struct perfdata *pd, const struct record *rec, struct error *err)
{
    return record_error(pd, rec, err, "is of another type");
}

static void trailer_parse(struct cursor *c, uint64_t type, struct record_ids *ret)
{
    if (type & PERF_SAMPLE_TID) {
        ret->pid = cursor_u32(c);
        ret->tid = cursor_u32(c);
    }
    if (type & PERF_SAMPLE_TIME)
        ret->time = cursor_u64(c);
    if (type & PERF_SAMPLE_ID)
        ret->id = cursor_u64(c);
    if (type & PERF_SAMPLE_STREAM_ID)
        ret->stream_id = cursor_u64(c);
    if (type & PERF_SAMPLE_CPU) {
        ret->cpu = cursor_u32(c);
        cursor_skip(c, 4);
    }
    if (type & PERF_SAMPLE_IDENTIFIER)
        ret->id = cursor_u64(c);
}

void perfdata_ids(const struct perfdata *pd, const struct record *rec, struct record_ids *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (rec->type >= PERF_RECORD_USER_TYPE_START || rec->type == PERF_RECORD_SAMPLE ||
        !pd->nr_events)
        return;
    const struct event *e = event_at(pd, rec->event < pd->nr_events ? rec->event : 0);
    if (!e->trailer || rec->size < RECORD_HEADER + (uint32_t)e->trailer)
        return;
    struct cursor c = cursor_make(rec->data + rec->size - e->trailer, e->trailer, pd->swap,
                                  pd->path, "trailer", rec->offset + rec->size - e->trailer);
    trailer_parse(&c, e->pub.attr.sample_type, ret);
}

void perfdata_record_ids(const struct record *rec, uint64_t sample_type, struct record_ids *ret)
{
    uint16_t size = trailer_size(sample_type);
    memset(ret, 0, sizeof(*ret));
    if (rec->size < RECORD_HEADER + (uint32_t)size)
        return;
    struct cursor c =
        cursor_make(rec->data + rec->size - size, size, false, "memory", "trailer", 0);
    trailer_parse(&c, sample_type, ret);
}

bool perfdata_record_identifier(const struct record *rec, uint64_t *ret)
{
    if (rec->type != PERF_RECORD_SAMPLE || rec->size < RECORD_HEADER + sizeof(*ret))
        return false;
    *ret = load_u64(rec->data + RECORD_HEADER, false);
    return true;
}

/* Get a build id: its size, three zeros, its bytes, zeros up to 20 bytes. Returns false if these
 * are no such bytes. Linux, when a mapping is told to several events of which only one wants build
 * ids, sets the bit for the records of those behind it, too (perf_event_mmap_output; seen on 6.18).
 * Such a record has device and inode. */
static bool mmap2_build_id(struct cursor *c, struct build_id *ret)
{
    static const uint8_t zeros[BUILD_ID_MAX];
    const uint8_t *head = cursor_bytes(c, 4), *id = cursor_bytes(c, BUILD_ID_MAX);
    if (!head || !id || head[0] > BUILD_ID_MAX || memcmp(head + 1, zeros, 3) != 0 ||
        memcmp(id + head[0], zeros, BUILD_ID_MAX - head[0]) != 0)
        return false;
    ret->size = head[0];
    memcpy(ret->bytes, id, head[0]);
    return true;
}

/* Read the 24 bytes of MMAP2 that hold either device and inode or a build id. */
static void mmap2_file(struct cursor *c, uint16_t misc, struct record_mmap *ret)
{
    const struct cursor begin = *c;
    if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
        if (mmap2_build_id(c, &ret->build_id))
            return;
        *c = begin;
    }
    ret->maj = cursor_u32(c);
    ret->min = cursor_u32(c);
    ret->ino = cursor_u64(c);
    ret->ino_generation = cursor_u64(c);
}

int perfdata_mmap(const struct perfdata *pd, const struct record *rec, struct record_mmap *ret,
                  struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_MMAP && rec->type != PERF_RECORD_MMAP2)
        return wrong_type(pd, rec, err);
    ret->pid = cursor_u32(&c);
    ret->tid = cursor_u32(&c);
    ret->addr = cursor_u64(&c);
    ret->len = cursor_u64(&c);
    ret->pgoff = cursor_u64(&c);
    ret->is_data = rec->misc & PERF_RECORD_MISC_MMAP_DATA;
    if (rec->type == PERF_RECORD_MMAP2) {
        mmap2_file(&c, rec->misc, ret);
        ret->prot = cursor_u32(&c);
        ret->flags = cursor_u32(&c);
    } else {
        ret->prot = ret->is_data ? PROT_READ : PROT_EXEC;
        ret->flags = MAP_PRIVATE;
    }
    ret->filename = cursor_string(&c);
    return finish(pd, rec, &c, err);
}

int perfdata_comm(const struct perfdata *pd, const struct record *rec, struct record_comm *ret,
                  struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_COMM)
        return wrong_type(pd, rec, err);
    ret->pid = cursor_u32(&c);
    ret->tid = cursor_u32(&c);
    ret->exec = rec->misc & PERF_RECORD_MISC_COMM_EXEC;
    ret->comm = cursor_string(&c);
    return finish(pd, rec, &c, err);
}

int perfdata_cgroup(const struct perfdata *pd, const struct record *rec, struct record_cgroup *ret,
                    struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_CGROUP)
        return wrong_type(pd, rec, err);
    ret->id = cursor_u64(&c);
    ret->path = cursor_string(&c);
    return finish(pd, rec, &c, err);
}

int perfdata_read_count(const struct perfdata *pd, const struct record *rec,
                        struct record_read *ret, struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_READ)
        return wrong_type(pd, rec, err);
    ret->pid = cursor_u32(&c);
    ret->tid = cursor_u32(&c);
    /* readers need one format for all events */
    uint64_t format = perfdata_nr_events(pd) ? perfdata_event(pd, 0)->attr.read_format : 0;
    if (format & PERF_FORMAT_GROUP)
        return error_set(err, ERROR_UNSUPPORTED, "the counts of a group in one record");
    ret->value = cursor_u64(&c);
    cursor_skip(&c, (format & PERF_FORMAT_TOTAL_TIME_ENABLED ? 8 : 0) +
                        (format & PERF_FORMAT_TOTAL_TIME_RUNNING ? 8 : 0));
    const struct perfdata_event *e =
        format & PERF_FORMAT_ID ? perfdata_event_by_id(pd, cursor_u64(&c)) : NULL;
    ret->event = e ? (uint32_t)e->index : 0;
    return finish(pd, rec, &c, err);
}

int perfdata_task(const struct perfdata *pd, const struct record *rec, struct record_task *ret,
                  struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_FORK && rec->type != PERF_RECORD_EXIT)
        return wrong_type(pd, rec, err);
    ret->pid = cursor_u32(&c);
    ret->ppid = cursor_u32(&c);
    ret->tid = cursor_u32(&c);
    ret->ptid = cursor_u32(&c);
    ret->time = cursor_u64(&c);
    ret->synthesized =
        rec->type == PERF_RECORD_FORK && (rec->misc & PERF_RECORD_MISC_FORK_EXEC) != 0;
    return finish(pd, rec, &c, err);
}

int perfdata_lost(const struct perfdata *pd, const struct record *rec, struct record_lost *ret,
                  struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_LOST)
        return wrong_type(pd, rec, err);
    ret->id = cursor_u64(&c);
    ret->lost = cursor_u64(&c);
    return finish(pd, rec, &c, err);
}

int perfdata_namespaces(const struct perfdata *pd, const struct record *rec,
                        struct record_namespaces *ret, struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_NAMESPACES)
        return wrong_type(pd, rec, err);
    ret->pid = cursor_u32(&c);
    ret->tid = cursor_u32(&c);
    ret->nr = cursor_u64(&c);
    if (ret->nr > cursor_left(&c) / 16)
        c.failed = true;
    ret->entries = cursor_bytes(&c, ret->nr * 16);
    return finish(pd, rec, &c, err);
}

int perfdata_ksymbol(const struct perfdata *pd, const struct record *rec,
                     struct record_ksymbol *ret, struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_KSYMBOL)
        return wrong_type(pd, rec, err);
    ret->addr = cursor_u64(&c);
    ret->len = cursor_u32(&c);
    ret->type = cursor_u16(&c);
    ret->flags = cursor_u16(&c);
    ret->name = cursor_string(&c);
    return finish(pd, rec, &c, err);
}

int perfdata_build_id(const struct perfdata *pd, const struct record *rec,
                      struct record_build_id *ret, struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_HEADER_BUILD_ID)
        return wrong_type(pd, rec, err);
    if (build_id_parse(&c, rec->misc, ret) < 0)
        return record_error(pd, rec, err, "its build id or name runs past its end");
    return 0;
}
