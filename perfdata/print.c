/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints any record as one line of text or one JSON object, for `ljperf dump`. */
#include "perfdata/fields.h"
#include "perfdata/perfdata_internal.h"
#include "perfdata/sample.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>

/* The record being printed. */
struct print {
    const struct perfdata *pd;
    const struct record *rec;
    struct cursor c; /* reads the record, without its header */
    struct fields f;
};

static void dec32(struct print *p, const char *name)
{
    uint32_t v = cursor_u32(&p->c);
    if (!p->c.failed)
        field_dec(&p->f, name, v);
}

/* Print a process or thread id; -1 means none. */
static void id32(struct print *p, const char *name)
{
    uint32_t v = cursor_u32(&p->c);
    if (!p->c.failed)
        field_signed(&p->f, name, (int32_t)v);
}

static void dec64(struct print *p, const char *name)
{
    uint64_t v = cursor_u64(&p->c);
    if (!p->c.failed)
        field_dec(&p->f, name, v);
}

static void hex64(struct print *p, const char *name)
{
    uint64_t v = cursor_u64(&p->c);
    if (!p->c.failed)
        field_hex(&p->f, name, v);
}

static void dec16(struct print *p, const char *name)
{
    uint16_t v = cursor_u16(&p->c);
    if (!p->c.failed)
        field_dec(&p->f, name, v);
}

static void string(struct print *p, const char *name)
{
    const char *s = cursor_string(&p->c);
    if (s)
        field_string(&p->f, name, s, SIZE_MAX);
}

/* Print text in a field of fixed size. */
static void string_fixed(struct print *p, const char *name, size_t size)
{
    const char *s = (const char *)cursor_bytes(&p->c, size);
    if (s)
        field_string(&p->f, name, s, size);
}

static void pid_tid(struct print *p)
{
    id32(p, "pid");
    id32(p, "tid");
}

/* ---- the kernel's records ----------------------------------------------------------------- */

static void print_mmap(struct print *p)
{
    struct record_mmap m;
    if (perfdata_mmap(p->pd, p->rec, &m, NULL) < 0) {
        p->c.failed = true;
        return;
    }
    field_signed(&p->f, "pid", (int32_t)m.pid);
    field_signed(&p->f, "tid", (int32_t)m.tid);
    field_hex(&p->f, "addr", m.addr);
    field_hex(&p->f, "len", m.len);
    field_hex(&p->f, "pgoff", m.pgoff);
    field_flag(&p->f, "data", m.is_data);
    if (p->rec->type == PERF_RECORD_MMAP2) {
        if (p->rec->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
            field_bytes(&p->f, "build_id", m.build_id.bytes, m.build_id.size);
        } else {
            field_dec(&p->f, "maj", m.maj);
            field_dec(&p->f, "min", m.min);
            field_dec(&p->f, "ino", m.ino);
            field_dec(&p->f, "ino_generation", m.ino_generation);
        }
        field_hex(&p->f, "prot", m.prot);
        field_hex(&p->f, "flags", m.flags);
    }
    field_string(&p->f, "filename", m.filename, SIZE_MAX);
}

static void print_lost(struct print *p)
{
    dec64(p, "id");
    dec64(p, "lost");
}

static void print_comm(struct print *p)
{
    pid_tid(p);
    field_flag(&p->f, "exec", p->rec->misc & PERF_RECORD_MISC_COMM_EXEC);
    string(p, "comm");
}

static void print_task(struct print *p)
{
    id32(p, "pid");
    id32(p, "ppid");
    id32(p, "tid");
    id32(p, "ptid");
    dec64(p, "task_time");
    if (p->rec->type == PERF_RECORD_FORK)
        field_flag(&p->f, "synthesized", p->rec->misc & PERF_RECORD_MISC_FORK_EXEC);
}

static void print_throttle(struct print *p)
{
    dec64(p, "throttle_time");
    dec64(p, "id");
    dec64(p, "stream_id");
}

/* Print the block that read_block_take() found. */
static void print_values(struct print *p, struct cursor c, uint64_t format)
{
    bool group = format & PERF_FORMAT_GROUP;
    uint64_t nr = group ? cursor_u64(&c) : 1;
    field_open(&p->f, "read", '{');
    uint64_t value = group ? 0 : cursor_u64(&c);
    if (!group)
        field_dec(&p->f, "value", value);
    if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
        field_dec(&p->f, "enabled", cursor_u64(&c));
    if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
        field_dec(&p->f, "running", cursor_u64(&c));
    if (group)
        field_open(&p->f, "values", '[');
    for (uint64_t i = 0; i < nr && !c.failed && (group || i == 0); i++) {
        if (group) {
            field_open(&p->f, NULL, '{');
            field_dec(&p->f, "value", cursor_u64(&c));
        }
        if (format & PERF_FORMAT_ID)
            field_dec(&p->f, "id", cursor_u64(&c));
        if (format & 1u << 4) /* PERF_FORMAT_LOST */
            field_dec(&p->f, "lost", cursor_u64(&c));
        if (group)
            field_close(&p->f, '}');
    }
    if (group)
        field_close(&p->f, ']');
    field_close(&p->f, '}');
}

static void print_read(struct print *p)
{
    const uint8_t *block;
    size_t size;
    pid_tid(p);
    if (!p->pd->nr_events)
        return;
    size_t index = p->rec->event < p->pd->nr_events ? p->rec->event : 0;
    uint64_t format = event_at(p->pd, index)->pub.attr.read_format;
    struct cursor c = p->c;
    read_block_take(&p->c, format, &block, &size);
    if (block)
        print_values(p, c, format);
}

static void print_aux(struct print *p)
{
    hex64(p, "aux_offset");
    hex64(p, "aux_size");
    hex64(p, "aux_flags");
}

static void print_pid_tid(struct print *p)
{
    pid_tid(p);
}

static void print_lost_samples(struct print *p)
{
    dec64(p, "lost");
}

static void print_switch(struct print *p)
{
    bool out = p->rec->misc & PERF_RECORD_MISC_SWITCH_OUT;
    field_flag(&p->f, "out", out);
    field_flag(&p->f, "preempt", out && p->rec->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
    if (p->rec->type == PERF_RECORD_SWITCH_CPU_WIDE) {
        id32(p, out ? "next_pid" : "prev_pid");
        id32(p, out ? "next_tid" : "prev_tid");
    }
}

static void print_namespaces(struct print *p)
{
    static const char *const NAMES[] = {"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"};
    pid_tid(p);
    uint64_t nr = cursor_u64(&p->c);
    if (nr > cursor_left(&p->c) / 16)
        p->c.failed = true;
    if (p->c.failed)
        return;
    field_open(&p->f, "namespaces", '[');
    for (uint64_t i = 0; i < nr; i++) {
        field_open(&p->f, NULL, '{');
        const char *name = i < sizeof(NAMES) / sizeof(NAMES[0]) ? NAMES[i] : "other";
        field_string(&p->f, "name", name, SIZE_MAX);
        dec64(p, "dev");
        dec64(p, "ino");
        field_close(&p->f, '}');
    }
    field_close(&p->f, ']');
}

static void print_ksymbol(struct print *p)
{
    hex64(p, "addr");
    dec32(p, "len");
    dec16(p, "ksym_type");
    dec16(p, "flags");
    string(p, "name");
}

static void print_bpf(struct print *p)
{
    dec16(p, "bpf_type");
    dec16(p, "flags");
    dec32(p, "id");
    const uint8_t *tag = cursor_bytes(&p->c, 8);
    if (tag)
        field_bytes(&p->f, "tag", tag, 8);
}

static void print_cgroup(struct print *p)
{
    dec64(p, "id");
    string(p, "path");
}

static void print_text_poke(struct print *p)
{
    hex64(p, "addr");
    uint16_t old_size = cursor_u16(&p->c), new_size = cursor_u16(&p->c);
    const uint8_t *old_bytes = cursor_bytes(&p->c, old_size);
    const uint8_t *new_bytes = cursor_bytes(&p->c, new_size);
    if (!new_bytes || !old_bytes)
        return;
    field_bytes(&p->f, "old", old_bytes, old_size);
    field_bytes(&p->f, "new", new_bytes, new_size);
}

static void print_hw_id(struct print *p)
{
    hex64(p, "hw_id");
}

/* Print a list of the `nr` u64 values at `at`. */
static void print_u64s(struct print *p, const char *name, const uint8_t *at, uint64_t nr)
{
    field_open(&p->f, name, '[');
    for (uint64_t i = 0; i < nr; i++)
        field_hex(&p->f, NULL, load_u64(at + 8 * i, p->c.swap));
    field_close(&p->f, ']');
}

static void print_deferred(struct print *p)
{
    hex64(p, "cookie");
    uint64_t nr = cursor_u64(&p->c);
    if (nr > cursor_left(&p->c) / 8)
        p->c.failed = true;
    const uint8_t *at = cursor_bytes(&p->c, nr * 8);
    if (at)
        print_u64s(p, "callchain", at, nr);
}

/* ---- samples ------------------------------------------------------------------------------ */

static void print_regs(struct print *p, const char *name, uint64_t mask, const uint8_t *at)
{
    char bit_name[8];
    field_open(&p->f, name, '{');
    for (unsigned bit = 0; at && bit < 64; bit++) {
        if (!(mask >> bit & 1))
            continue;
        snprintf(bit_name, sizeof(bit_name), "r%u", bit);
        field_hex(&p->f, bit_name, load_u64(at, p->c.swap));
        at += 8;
    }
    field_close(&p->f, '}');
}

static void print_branches(struct print *p, const struct sample *s)
{
    field_open(&p->f, "branches", '[');
    for (uint64_t i = 0; i < s->nr_branches; i++) {
        struct sample_branch b = {0};
        (void)sample_branch_at(s, i, &b);
        field_open(&p->f, NULL, '{');
        field_hex(&p->f, "from", b.from);
        field_hex(&p->f, "to", b.to);
        field_hex(&p->f, "flags", b.flags);
        field_close(&p->f, '}');
    }
    field_close(&p->f, ']');
}

static void print_payload(struct print *p, const struct sample *s)
{
    struct text t = {0};
    field_dec(&p->f, "raw_size", s->raw_size);
    if (perfdata_print_tracepoint(p->pd, s, &t) && !t.failed)
        field_string(&p->f, "trace", t.at ? t.at : "", t.size);
    text_free(&t);
}

struct scalar {
    uint64_t bit;
    const char *name;
    bool hex;
    uint64_t value;
};

static void print_scalars(struct print *p, uint64_t present, const struct scalar *s, size_t nr)
{
    for (size_t i = 0; i < nr; i++) {
        if (!(present & s[i].bit))
            continue;
        if (s[i].hex)
            field_hex(&p->f, s[i].name, s[i].value);
        else
            field_dec(&p->f, s[i].name, s[i].value);
    }
}

#define SCALARS(p, present, ...)                                            \
    do {                                                                    \
        const struct scalar list_[] = {__VA_ARGS__};                        \
        print_scalars(p, present, list_, sizeof(list_) / sizeof(list_[0])); \
    } while (0)

static void print_sample_parts(struct print *p, const struct sample *s)
{
    const struct perf_event_attr *attr = &s->event->attr;
    if (s->present & PERF_SAMPLE_READ) {
        struct cursor c = cursor_make(s->read, s->read_size, p->c.swap, "", "", 0);
        print_values(p, c, attr->read_format);
    }
    if (s->present & PERF_SAMPLE_CALLCHAIN)
        print_u64s(p, "callchain", s->callchain, s->nr_callchain);
    if (s->present & PERF_SAMPLE_RAW)
        print_payload(p, s);
    if (s->present & PERF_SAMPLE_BRANCH_STACK)
        print_branches(p, s);
    if (s->present & PERF_SAMPLE_REGS_USER) {
        field_dec(&p->f, "user_abi", s->user_abi);
        print_regs(p, "user_regs", s->user_mask, s->user_regs);
    }
    if (s->present & PERF_SAMPLE_STACK_USER) {
        field_dec(&p->f, "stack_size", s->stack_size);
        field_dec(&p->f, "stack_dyn_size", s->stack_dyn_size);
    }
    if (s->present & PERF_SAMPLE_REGS_INTR) {
        field_dec(&p->f, "intr_abi", s->intr_abi);
        print_regs(p, "intr_regs", s->intr_mask, s->intr_regs);
    }
}

static void print_sample(struct print *p)
{
    struct sample s;
    struct error e;
    if (perfdata_sample(p->pd, p->rec, &s, &e) < 0) {
        field_string(&p->f, "error", e.text, sizeof(e.text));
        return;
    }
    field_string(&p->f, "event", s.event->name, SIZE_MAX);
    field_dec(&p->f, "cpumode", s.misc & PERF_RECORD_MISC_CPUMODE_MASK);
    SCALARS(p, s.present, {PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER, "id", false, s.id},
            {PERF_SAMPLE_IP, "ip", true, s.ip}, {PERF_SAMPLE_TID, "pid", false, s.pid},
            {PERF_SAMPLE_TID, "tid", false, s.tid}, {PERF_SAMPLE_ADDR, "addr", true, s.addr},
            {PERF_SAMPLE_STREAM_ID, "stream_id", false, s.stream_id},
            {PERF_SAMPLE_CPU, "cpu", false, s.cpu},
            {PERF_SAMPLE_PERIOD, "period", false, s.period});
    print_sample_parts(p, &s);
    SCALARS(p, s.present,
            {PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT, "weight", true, s.weight},
            {PERF_SAMPLE_DATA_SRC, "data_src", true, s.data_src},
            {PERF_SAMPLE_TRANSACTION, "transaction", true, s.transaction},
            {PERF_SAMPLE_PHYS_ADDR, "phys_addr", true, s.phys_addr},
            {PERF_SAMPLE_CGROUP, "cgroup", false, s.cgroup},
            {PERF_SAMPLE_DATA_PAGE_SIZE, "data_page_size", false, s.data_page_size},
            {PERF_SAMPLE_CODE_PAGE_SIZE, "code_page_size", false, s.code_page_size});
}

/* ---- perf's own records ------------------------------------------------------------------- */

static void print_attr(struct print *p)
{
    struct perf_event_attr a;
    size_t left = cursor_left(&p->c);
    uint32_t size = left >= ATTR_MIN ? load_u32(p->c.at + 4, p->c.swap) : 0;
    if (size < ATTR_MIN || size > left || attr_parse(&p->c, size, &a) < 0) {
        p->c.failed = true;
        return;
    }
    field_dec(&p->f, "attr_type", a.type);
    field_dec(&p->f, "attr_size", size);
    field_hex(&p->f, "config", a.config);
    field_dec(&p->f, "sample_period", a.sample_period);
    field_hex(&p->f, "sample_type", a.sample_type);
    field_hex(&p->f, "read_format", a.read_format);
    field_open(&p->f, "ids", '[');
    while (cursor_left(&p->c) >= 8)
        field_dec(&p->f, NULL, cursor_u64(&p->c));
    field_close(&p->f, ']');
}

static void print_tracing_data(struct print *p)
{
    dec32(p, "data_size");
}

static void print_build_id(struct print *p)
{
    struct record_build_id id;
    if (build_id_parse(&p->c, p->rec->misc, &id) < 0) {
        p->c.failed = true;
        return;
    }
    field_signed(&p->f, "pid", id.pid);
    field_bytes(&p->f, "build_id", id.build_id.bytes, id.build_id.size);
    field_string(&p->f, "filename", id.filename, SIZE_MAX);
}

static void print_nothing(struct print *p)
{
    (void)p;
}

static void print_id_index(struct print *p)
{
    uint64_t nr = cursor_u64(&p->c);
    if (nr > cursor_left(&p->c) / 32)
        p->c.failed = true;
    if (p->c.failed)
        return;
    bool guests = cursor_left(&p->c) / 48 >= nr; /* a second table of (machine pid, vcpu) */
    struct cursor second = p->c;
    cursor_skip(&second, nr * 32);
    field_open(&p->f, "entries", '[');
    for (uint64_t i = 0; i < nr; i++) {
        field_open(&p->f, NULL, '{');
        dec64(p, "id");
        dec64(p, "idx");
        field_signed(&p->f, "cpu", (int64_t)cursor_u64(&p->c));
        field_signed(&p->f, "tid", (int64_t)cursor_u64(&p->c));
        if (guests) {
            field_signed(&p->f, "machine_pid", (int64_t)cursor_u64(&second));
            field_signed(&p->f, "vcpu", (int64_t)cursor_u64(&second));
        }
        field_close(&p->f, '}');
    }
    field_close(&p->f, ']');
}

static void print_auxtrace_info(struct print *p)
{
    dec32(p, "auxtrace_type");
    cursor_skip(&p->c, 4);
    uint64_t nr = cursor_left(&p->c) / 8;
    const uint8_t *at = cursor_bytes(&p->c, nr * 8);
    if (at)
        print_u64s(p, "priv", at, nr);
}

static void print_auxtrace(struct print *p)
{
    hex64(p, "aux_size");
    hex64(p, "aux_offset");
    hex64(p, "reference");
    dec32(p, "idx");
    id32(p, "tid");
    id32(p, "cpu");
}

static void print_auxtrace_error(struct print *p)
{
    dec32(p, "auxtrace_type");
    dec32(p, "code");
    id32(p, "cpu");
    pid_tid(p);
    uint32_t format = cursor_u32(&p->c);
    hex64(p, "ip");
    bool timed = format > 0 && cursor_left(&p->c) >= 8 + 64;
    if (timed)
        dec64(p, "error_time");
    string_fixed(p, "message", cursor_left(&p->c) < 64 ? cursor_left(&p->c) : 64);
    if (format > 1) {
        id32(p, "machine_pid");
        id32(p, "vcpu");
    }
}

static void print_thread_map(struct print *p)
{
    uint64_t nr = cursor_u64(&p->c);
    if (nr > cursor_left(&p->c) / 24)
        p->c.failed = true;
    if (p->c.failed)
        return;
    field_open(&p->f, "threads", '[');
    for (uint64_t i = 0; i < nr; i++) {
        field_open(&p->f, NULL, '{');
        field_signed(&p->f, "pid", (int64_t)cursor_u64(&p->c));
        string_fixed(p, "comm", 16);
        field_close(&p->f, '}');
    }
    field_close(&p->f, ']');
}

static void print_cpu_list(struct print *p)
{
    uint16_t nr = cursor_u16(&p->c);
    if (nr > cursor_left(&p->c) / 2)
        p->c.failed = true;
    if (p->c.failed)
        return;
    field_open(&p->f, "cpus", '[');
    for (uint16_t i = 0; i < nr; i++)
        field_signed(&p->f, NULL, (int16_t)cursor_u16(&p->c));
    field_close(&p->f, ']');
}

static void print_cpu_mask(struct print *p)
{
    uint16_t nr = cursor_u16(&p->c), size = cursor_u16(&p->c);
    if (size == 8)
        cursor_skip(&p->c, 4);
    if ((size != 4 && size != 8) || nr > cursor_left(&p->c) / size)
        p->c.failed = true;
    if (p->c.failed)
        return;
    field_open(&p->f, "mask", '[');
    for (uint16_t i = 0; i < nr; i++)
        field_hex(&p->f, NULL, size == 4 ? cursor_u32(&p->c) : cursor_u64(&p->c));
    field_close(&p->f, ']');
}

static void print_cpu_map(struct print *p)
{
    uint16_t kind = cursor_u16(&p->c);
    field_dec(&p->f, "map_type", kind);
    if (kind == PERF_CPU_MAP__CPUS)
        print_cpu_list(p);
    else if (kind == PERF_CPU_MAP__MASK)
        print_cpu_mask(p);
    else if (kind == PERF_CPU_MAP__RANGE_CPUS) {
        field_flag(&p->f, "any", cursor_u8(&p->c) != 0);
        cursor_skip(&p->c, 1);
        dec16(p, "start");
        dec16(p, "end");
    }
}

static void print_stat_config(struct print *p)
{
    uint64_t nr = cursor_u64(&p->c);
    if (nr > cursor_left(&p->c) / 16)
        p->c.failed = true;
    if (p->c.failed)
        return;
    field_open(&p->f, "config", '[');
    for (uint64_t i = 0; i < nr; i++) {
        field_open(&p->f, NULL, '{');
        dec64(p, "tag");
        dec64(p, "value");
        field_close(&p->f, '}');
    }
    field_close(&p->f, ']');
}

static void print_stat(struct print *p)
{
    dec64(p, "id");
    id32(p, "cpu");
    id32(p, "thread");
    dec64(p, "value");
    dec64(p, "enabled");
    dec64(p, "running");
}

static void print_stat_round(struct print *p)
{
    dec64(p, "round_type");
    dec64(p, "round_time");
}

static void print_event_update(struct print *p)
{
    uint64_t kind = cursor_u64(&p->c);
    field_dec(&p->f, "update", kind);
    dec64(p, "id");
    if (kind == PERF_EVENT_UPDATE__UNIT) {
        string(p, "unit");
    } else if (kind == PERF_EVENT_UPDATE__NAME) {
        string(p, "name");
    } else if (kind == PERF_EVENT_UPDATE__SCALE) {
        uint64_t bits = cursor_u64(&p->c);
        double scale;
        memcpy(&scale, &bits, sizeof(scale));
        field_real(&p->f, "scale", scale);
    } else if (kind == PERF_EVENT_UPDATE__CPUS) {
        print_cpu_map(p);
    }
}

static void print_time_conv(struct print *p)
{
    dec64(p, "shift");
    dec64(p, "mult");
    dec64(p, "zero");
    if (cursor_left(&p->c) >= 18) {
        dec64(p, "cycles");
        hex64(p, "mask");
        field_flag(&p->f, "cap_zero", cursor_u8(&p->c) != 0);
        field_flag(&p->f, "cap_short", cursor_u8(&p->c) != 0);
    }
}

static void print_feature(struct print *p)
{
    dec64(p, "feature");
    field_dec(&p->f, "payload", cursor_left(&p->c));
}

static void print_compressed2(struct print *p)
{
    dec64(p, "data_size");
}

static void print_bpf_metadata(struct print *p)
{
    string_fixed(p, "program", 512);
    uint64_t nr = cursor_u64(&p->c);
    if (nr > cursor_left(&p->c) / 320)
        p->c.failed = true;
    if (p->c.failed)
        return;
    field_open(&p->f, "entries", '[');
    for (uint64_t i = 0; i < nr; i++) {
        field_open(&p->f, NULL, '{');
        string_fixed(p, "key", 64);
        string_fixed(p, "value", 256);
        field_close(&p->f, '}');
    }
    field_close(&p->f, ']');
}

/* ---- the line ----------------------------------------------------------------------------- */

static void print_body(struct print *p)
{
    static void (*const PRINTERS[RECORD_TYPES])(struct print *) = {
        [PERF_RECORD_MMAP] = print_mmap,
        [PERF_RECORD_LOST] = print_lost,
        [PERF_RECORD_COMM] = print_comm,
        [PERF_RECORD_EXIT] = print_task,
        [PERF_RECORD_THROTTLE] = print_throttle,
        [PERF_RECORD_UNTHROTTLE] = print_throttle,
        [PERF_RECORD_FORK] = print_task,
        [PERF_RECORD_READ] = print_read,
        [PERF_RECORD_SAMPLE] = print_sample,
        [PERF_RECORD_MMAP2] = print_mmap,
        [PERF_RECORD_AUX] = print_aux,
        [PERF_RECORD_ITRACE_START] = print_pid_tid,
        [PERF_RECORD_LOST_SAMPLES] = print_lost_samples,
        [PERF_RECORD_SWITCH] = print_switch,
        [PERF_RECORD_SWITCH_CPU_WIDE] = print_switch,
        [PERF_RECORD_NAMESPACES] = print_namespaces,
        [PERF_RECORD_KSYMBOL] = print_ksymbol,
        [PERF_RECORD_BPF_EVENT] = print_bpf,
        [PERF_RECORD_CGROUP] = print_cgroup,
        [PERF_RECORD_TEXT_POKE] = print_text_poke,
        [PERF_RECORD_AUX_OUTPUT_HW_ID] = print_hw_id,
        [RECORD_CALLCHAIN_DEFERRED] = print_deferred,
        [PERF_RECORD_HEADER_ATTR] = print_attr,
        [PERF_RECORD_HEADER_TRACING_DATA] = print_tracing_data,
        [PERF_RECORD_HEADER_BUILD_ID] = print_build_id,
        [PERF_RECORD_FINISHED_ROUND] = print_nothing,
        [PERF_RECORD_ID_INDEX] = print_id_index,
        [PERF_RECORD_AUXTRACE_INFO] = print_auxtrace_info,
        [PERF_RECORD_AUXTRACE] = print_auxtrace,
        [PERF_RECORD_AUXTRACE_ERROR] = print_auxtrace_error,
        [PERF_RECORD_THREAD_MAP] = print_thread_map,
        [PERF_RECORD_CPU_MAP] = print_cpu_map,
        [PERF_RECORD_STAT_CONFIG] = print_stat_config,
        [PERF_RECORD_STAT] = print_stat,
        [PERF_RECORD_STAT_ROUND] = print_stat_round,
        [PERF_RECORD_EVENT_UPDATE] = print_event_update,
        [PERF_RECORD_TIME_CONV] = print_time_conv,
        [PERF_RECORD_HEADER_FEATURE] = print_feature,
        [RECORD_COMPRESSED2] = print_compressed2,
        [PERFDATA_RECORD_BPF_METADATA] = print_bpf_metadata,
    };
    if (p->rec->type < RECORD_TYPES && PRINTERS[p->rec->type])
        PRINTERS[p->rec->type](p);
}

static void print_head(struct print *p)
{
    const struct record *rec = p->rec;
    const char *name = perfdata_record_name(rec->type);
    char unknown[24];
    snprintf(unknown, sizeof(unknown), "TYPE_%" PRIu32, rec->type);
    if (!name)
        name = unknown;
    if (p->f.json) {
        field_dec(&p->f, "offset", rec->offset);
        if (rec->stream)
            field_dec(&p->f, "stream", rec->stream);
        field_string(&p->f, "type", name, SIZE_MAX);
        field_dec(&p->f, "size", load_u16(rec->data + 6, p->c.swap));
        field_dec(&p->f, "misc", rec->misc);
        field_dec(&p->f, "time", rec->time);
        return;
    }
    if (rec->stream)
        fprintf(p->f.out, "%u:", rec->stream);
    fprintf(p->f.out, "0x%" PRIx64 " [%u] ", rec->offset, load_u16(rec->data + 6, p->c.swap));
    if (rec->time && rec->time != UINT64_MAX)
        fprintf(p->f.out, "%" PRIu64 ".%09" PRIu64 " ", rec->time / 1000000000,
                rec->time % 1000000000);
    fputs(name, p->f.out);
}

int perfdata_print_record(const struct perfdata *pd, const struct record *rec, bool json, FILE *out)
{
    char *line = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&line, &size);
    if (!memory)
        return -1;
    struct print p = {pd, rec, record_cursor(pd, rec), {memory, json, json}};
    if (json)
        fputc('{', memory);
    print_head(&p);
    print_body(&p);
    if (p.c.failed)
        field_string(&p.f, "error", "its fields run past its end", SIZE_MAX);
    if (json)
        fputc('}', memory);
    int r = fclose(memory) || fwrite(line, 1, size, out) != size ? -1 : (int)size;
    free(line);
    return r;
}
