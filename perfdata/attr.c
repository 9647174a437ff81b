/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads perf_event_attr from the bytes of any producer, and derives the name that perf gives it. */
#include "perfdata/perfdata_internal.h"

#include <stdlib.h>

/* With the opposite byte order, bit fields are laid out from the other end of each byte. */
static uint64_t flags_unswap(const uint8_t *p)
{
    uint64_t flags = 0;
    for (unsigned i = 0; i < 8; i++)
        for (unsigned bit = 0; bit < 8; bit++)
            if (p[i] & (0x80 >> bit))
                flags |= UINT64_C(1) << (8 * i + bit);
    return flags;
}

enum { ATTR_FLAGS_AT = 40 };

/* Swap every field of a zero-padded attr in place. linux/perf_event.h defines the widths. */
static void attr_unswap(struct perf_event_attr *a)
{
    uint64_t flags = flags_unswap((const uint8_t *)a + ATTR_FLAGS_AT);
    memcpy((uint8_t *)a + ATTR_FLAGS_AT, &flags, sizeof(flags));
    a->type = bswap_32(a->type);
    a->size = bswap_32(a->size);
    a->config = bswap_64(a->config);
    a->sample_period = bswap_64(a->sample_period);
    a->sample_type = bswap_64(a->sample_type);
    a->read_format = bswap_64(a->read_format);
    a->wakeup_events = bswap_32(a->wakeup_events);
    a->bp_type = bswap_32(a->bp_type);
    a->config1 = bswap_64(a->config1);
    a->config2 = bswap_64(a->config2);
    a->branch_sample_type = bswap_64(a->branch_sample_type);
    a->sample_regs_user = bswap_64(a->sample_regs_user);
    a->sample_stack_user = bswap_32(a->sample_stack_user);
    a->clockid = (int32_t)bswap_32((uint32_t)a->clockid);
    a->sample_regs_intr = bswap_64(a->sample_regs_intr);
    a->aux_watermark = bswap_32(a->aux_watermark);
    a->sample_max_stack = bswap_16(a->sample_max_stack);
    a->aux_sample_size = bswap_32(a->aux_sample_size);
    a->sig_data = bswap_64(a->sig_data);
}

int attr_parse(struct cursor *c, size_t size, struct perf_event_attr *ret)
{
    const uint8_t *p = cursor_bytes(c, size);
    if (!p || size < ATTR_MIN)
        return -1;
    /* The attr's own size says which fields exist. In files before VER1 it may be 0. */
    uint32_t own = load_u32(p + 4, c->swap);
    if (own && own < size)
        size = own < ATTR_MIN ? ATTR_MIN : own;
    if (size > sizeof(*ret))
        size = sizeof(*ret);
    memset(ret, 0, sizeof(*ret));
    memcpy(ret, p, size);
    if (c->swap)
        attr_unswap(ret);
    return 0;
}

int attr_parse_own(struct cursor *c, struct perf_event_attr *ret)
{
    size_t left = cursor_left(c);
    uint32_t size = left >= ATTR_MIN ? load_u32(c->at + 4, c->swap) : 0;
    if (size < ATTR_MIN || size > left)
        size = left >= ATTR_MIN ? ATTR_MIN : 0;
    return attr_parse(c, size, ret);
}

/* ---- names ------------------------------------------------------------------------------- */

static const char *const HARDWARE[] = {
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
};

/* perf calls the last ones, bpf-output and cgroup-switches, unknown: it names them in another
 * way. */
static const char *const SOFTWARE[] = {
    "cpu-clock",    "task-clock",   "page-faults",      "context-switches", "cpu-migrations",
    "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy",
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define NAME_OF(table, n, unknown) ((n) < LENGTH(table) ? (table)[n] : (unknown))

/* Append perf's ":ukhpppHG", for what the attr counts or excludes. */
static void name_modifiers(FILE *out, const struct perf_event_attr *a)
{
    char mods[16], *m = mods;
    bool guest_left_out = false; /* perf excludes guests implicitly once another modifier is set */
    if (a->exclude_kernel || a->exclude_user || a->exclude_hv) {
        if (!a->exclude_kernel)
            *m++ = 'k';
        if (!a->exclude_user)
            *m++ = 'u';
        if (!a->exclude_hv)
            *m++ = 'h';
        guest_left_out = true;
    }
    if (a->precise_ip) {
        for (unsigned i = 0; i < a->precise_ip; i++)
            *m++ = 'p';
        guest_left_out = true;
    }
    if (a->exclude_host || a->exclude_guest == guest_left_out) {
        if (!a->exclude_host)
            *m++ = 'H';
        if (!a->exclude_guest)
            *m++ = 'G';
    }
    if (m > mods)
        fprintf(out, ":%.*s", (int)(m - mods), mods);
}

static void name_cache(FILE *out, uint64_t config)
{
    static const char *const CACHES[] = {"L1-dcache", "L1-icache", "LLC", "dTLB",
                                         "iTLB",      "branch",    "node"};
    static const char *const OPS[] = {"load", "store", "prefetch"};
    static const char *const ALL[] = {"loads", "stores", "prefetches"};
    static const uint8_t HAS[] = {7, 5, 7, 7, 1, 1, 7}; /* bits of OPS that a cache can count */
    unsigned cache = config & 0xff, op = config >> 8 & 0xff, result = config >> 16 & 0xff;
    if (cache >= LENGTH(CACHES))
        fputs("unknown-ext-hardware-cache-type", out);
    else if (op >= LENGTH(OPS))
        fputs("unknown-ext-hardware-cache-op", out);
    else if (result > 1)
        fputs("unknown-ext-hardware-cache-result", out);
    else if (!(HAS[cache] & 1 << op))
        fputs("invalid-cache", out);
    else if (result)
        fprintf(out, "%s-%s-misses", CACHES[cache], OPS[op]);
    else
        fprintf(out, "%s-%s", CACHES[cache], ALL[op]);
}

static void name_body(FILE *out, const struct perf_event_attr *a)
{
    switch (a->type) {
    case PERF_TYPE_RAW:
        fprintf(out, "raw 0x%llx", (unsigned long long)a->config);
        break;
    case PERF_TYPE_HARDWARE:
        fputs(NAME_OF(HARDWARE, a->config, "unknown-hardware"), out);
        break;
    case PERF_TYPE_HW_CACHE:
        name_cache(out, a->config);
        break;
    case PERF_TYPE_SOFTWARE:
        fputs(NAME_OF(SOFTWARE, a->config, "unknown-software"), out);
        break;
    case PERF_TYPE_BREAKPOINT:
        fprintf(out, "mem:0x%llx:%s%s%s", (unsigned long long)a->bp_addr, a->bp_type & 1 ? "r" : "",
                a->bp_type & 2 ? "w" : "", a->bp_type & 4 ? "x" : "");
        break;
    default:
        break;
    }
}

char *attr_name(const struct perf_event_attr *a)
{
    char *name = NULL;
    size_t size;
    FILE *out = open_memstream(&name, &size);
    if (!out)
        return NULL;
    if (a->type == PERF_TYPE_TRACEPOINT) {
        fputs("unknown tracepoint", out);
    } else if (a->type >= PERF_TYPE_MAX) {
        fprintf(out, "unknown attr type: %d", (int)a->type);
    } else {
        name_body(out, a);
        name_modifiers(out, a);
    }
    if (fclose(out)) {
        free(name);
        return NULL;
    }
    return name;
}
