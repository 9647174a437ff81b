/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints the header and the feature sections as `perf script --header-only` does. */
#include "perfdata/perfdata_internal.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

static const char *const FEATURE_NAMES[] = {
    [HEADER_TRACING_DATA] = "TRACING_DATA",
    [HEADER_BUILD_ID] = "BUILD_ID",
    [HEADER_HOSTNAME] = "HOSTNAME",
    [HEADER_OSRELEASE] = "OSRELEASE",
    [HEADER_VERSION] = "VERSION",
    [HEADER_ARCH] = "ARCH",
    [HEADER_NRCPUS] = "NRCPUS",
    [HEADER_CPUDESC] = "CPUDESC",
    [HEADER_CPUID] = "CPUID",
    [HEADER_TOTAL_MEM] = "TOTAL_MEM",
    [HEADER_CMDLINE] = "CMDLINE",
    [HEADER_EVENT_DESC] = "EVENT_DESC",
    [HEADER_CPU_TOPOLOGY] = "CPU_TOPOLOGY",
    [HEADER_NUMA_TOPOLOGY] = "NUMA_TOPOLOGY",
    [HEADER_BRANCH_STACK] = "BRANCH_STACK",
    [HEADER_PMU_MAPPINGS] = "PMU_MAPPINGS",
    [HEADER_GROUP_DESC] = "GROUP_DESC",
    [HEADER_AUXTRACE] = "AUXTRACE",
    [HEADER_STAT] = "STAT",
    [HEADER_CACHE] = "CACHE",
    [HEADER_SAMPLE_TIME] = "SAMPLE_TIME",
    [HEADER_MEM_TOPOLOGY] = "MEM_TOPOLOGY",
    [HEADER_CLOCKID] = "CLOCKID",
    [HEADER_DIR_FORMAT] = "DIR_FORMAT",
    [HEADER_BPF_PROG_INFO] = "BPF_PROG_INFO",
    [HEADER_BPF_BTF] = "BPF_BTF",
    [HEADER_COMPRESSED] = "COMPRESSED",
    [HEADER_CPU_PMU_CAPS] = "CPU_PMU_CAPS",
    [HEADER_CLOCK_DATA] = "CLOCK_DATA",
    [HEADER_HYBRID_TOPOLOGY] = "HYBRID_TOPOLOGY",
    [HEADER_PMU_CAPS] = "PMU_CAPS",
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- one attr, field by field ------------------------------------------------------------- */

struct bit_name {
    uint64_t bit;
    const char *name;
};

static void print_bits(FILE *out, const char *name, uint64_t value, const struct bit_name *bits,
                       size_t nr)
{
    const char *between = "";
    if (!value)
        return;
    fprintf(out, ", %s = ", name);
    for (size_t i = 0; i < nr; i++) {
        if (!(value & bits[i].bit))
            continue;
        fprintf(out, "%s%s", between, bits[i].name);
        between = "|";
    }
}

static void print_number(FILE *out, const char *name, uint64_t value)
{
    if (value)
        fprintf(out, ", %s = %" PRIu64, name, value);
}

static void print_hex(FILE *out, const char *name, uint64_t value)
{
    if (value)
        fprintf(out, ", %s = 0x%" PRIx64, name, value);
}

#define SAMPLE_BIT(n)       \
    {                       \
        PERF_SAMPLE_##n, #n \
    }
static const struct bit_name SAMPLE_BITS[] = {
    SAMPLE_BIT(IP),
    SAMPLE_BIT(TID),
    SAMPLE_BIT(TIME),
    SAMPLE_BIT(ADDR),
    SAMPLE_BIT(READ),
    SAMPLE_BIT(CALLCHAIN),
    SAMPLE_BIT(ID),
    SAMPLE_BIT(CPU),
    SAMPLE_BIT(PERIOD),
    SAMPLE_BIT(STREAM_ID),
    SAMPLE_BIT(RAW),
    SAMPLE_BIT(BRANCH_STACK),
    SAMPLE_BIT(REGS_USER),
    SAMPLE_BIT(STACK_USER),
    SAMPLE_BIT(IDENTIFIER),
    SAMPLE_BIT(REGS_INTR),
    SAMPLE_BIT(DATA_SRC),
    SAMPLE_BIT(WEIGHT),
    SAMPLE_BIT(PHYS_ADDR),
    SAMPLE_BIT(AUX),
    SAMPLE_BIT(CGROUP),
    SAMPLE_BIT(DATA_PAGE_SIZE),
    SAMPLE_BIT(CODE_PAGE_SIZE),
    SAMPLE_BIT(WEIGHT_STRUCT),
};

#define BRANCH_BIT(n)              \
    {                              \
        PERF_SAMPLE_BRANCH_##n, #n \
    }
static const struct bit_name BRANCH_BITS[] = {
    BRANCH_BIT(USER),      BRANCH_BIT(KERNEL),     BRANCH_BIT(HV),          BRANCH_BIT(ANY),
    BRANCH_BIT(ANY_CALL),  BRANCH_BIT(ANY_RETURN), BRANCH_BIT(IND_CALL),    BRANCH_BIT(ABORT_TX),
    BRANCH_BIT(IN_TX),     BRANCH_BIT(NO_TX),      BRANCH_BIT(COND),        BRANCH_BIT(CALL_STACK),
    BRANCH_BIT(IND_JUMP),  BRANCH_BIT(CALL),       BRANCH_BIT(NO_FLAGS),    BRANCH_BIT(NO_CYCLES),
    BRANCH_BIT(TYPE_SAVE), BRANCH_BIT(HW_INDEX),   {1u << 18, "PRIV_SAVE"},
};

static const struct bit_name READ_BITS[] = {
    {PERF_FORMAT_TOTAL_TIME_ENABLED, "TOTAL_TIME_ENABLED"},
    {PERF_FORMAT_TOTAL_TIME_RUNNING, "TOTAL_TIME_RUNNING"},
    {PERF_FORMAT_ID, "ID"},
    {PERF_FORMAT_GROUP, "GROUP"},
    {1u << 4, "LOST"},
};

static void print_flags(FILE *out, const struct perf_event_attr *a)
{
#define FLAG(n) print_number(out, #n, a->n)
    FLAG(disabled);
    FLAG(inherit);
    FLAG(pinned);
    FLAG(exclusive);
    FLAG(exclude_user);
    FLAG(exclude_kernel);
    FLAG(exclude_hv);
    FLAG(exclude_idle);
    FLAG(mmap);
    FLAG(comm);
    FLAG(freq);
    FLAG(inherit_stat);
    FLAG(enable_on_exec);
    FLAG(task);
    FLAG(watermark);
    FLAG(precise_ip);
    FLAG(mmap_data);
    FLAG(sample_id_all);
    FLAG(exclude_host);
    FLAG(exclude_guest);
    FLAG(exclude_callchain_kernel);
    FLAG(exclude_callchain_user);
    FLAG(mmap2);
    FLAG(comm_exec);
    FLAG(use_clockid);
    FLAG(context_switch);
    FLAG(write_backward);
    FLAG(namespaces);
    FLAG(ksymbol);
    FLAG(bpf_event);
    FLAG(aux_output);
    FLAG(cgroup);
    FLAG(text_poke);
    FLAG(build_id);
    FLAG(inherit_thread);
    FLAG(remove_on_exec);
    FLAG(sigtrap);
#undef FLAG
}

static void print_attr(FILE *out, const struct perf_event_attr *a)
{
    print_number(out, "type", a->type);
    print_number(out, "size", a->size);
    print_hex(out, "config", a->config);
    print_number(out, "{ sample_period, sample_freq }", a->sample_period);
    print_bits(out, "sample_type", a->sample_type, SAMPLE_BITS, LENGTH(SAMPLE_BITS));
    print_bits(out, "read_format", a->read_format, READ_BITS, LENGTH(READ_BITS));
    print_flags(out, a);
    print_number(out, "{ wakeup_events, wakeup_watermark }", a->wakeup_events);
    print_number(out, "bp_type", a->bp_type);
    print_hex(out, "{ bp_addr, config1 }", a->bp_addr);
    print_hex(out, "{ bp_len, config2 }", a->bp_len);
    print_bits(out, "branch_sample_type", a->branch_sample_type, BRANCH_BITS, LENGTH(BRANCH_BITS));
    print_hex(out, "sample_regs_user", a->sample_regs_user);
    print_number(out, "sample_stack_user", a->sample_stack_user);
    if (a->clockid)
        fprintf(out, ", clockid = %d", a->clockid);
    print_hex(out, "sample_regs_intr", a->sample_regs_intr);
    print_number(out, "aux_watermark", a->aux_watermark);
    print_number(out, "sample_max_stack", a->sample_max_stack);
    print_number(out, "aux_sample_size", a->aux_sample_size);
    print_number(out, "sig_data", a->sig_data);
}

/* ---- sections ----------------------------------------------------------------------------- */

static void print_string(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    const char *s = feature_string(c);
    (void)pd;
    fprintf(out, "%s\n", s ? s : "(null)");
}

static void print_nrcpus(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    uint32_t avail = cursor_u32(c), online = cursor_u32(c);
    (void)pd;
    fprintf(out, "# nrcpus online : %" PRIu32 "\n# nrcpus avail : %" PRIu32 "\n", online, avail);
}

static void print_total_mem(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    fprintf(out, "%" PRIu64 " kB\n", cursor_u64(c));
}

static void print_cmdline(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)c;
    fprintf(out, "%s\n", pd->cmdline ? pd->cmdline : "");
}

static void print_event_desc(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    uint32_t nr = cursor_u32(c), size = cursor_u32(c);
    (void)pd;
    for (uint32_t i = 0; i < nr; i++) {
        struct perf_event_attr attr;
        if (attr_parse(c, size, &attr) < 0)
            break;
        uint32_t nr_ids = cursor_u32(c);
        const char *name = feature_string(c);
        if (!name || nr_ids > cursor_left(c) / 8)
            break;
        fprintf(out, "# event : name = %s, ", name);
        if (nr_ids) {
            fputs(", id = {", out);
            for (uint32_t j = 0; j < nr_ids; j++)
                fprintf(out, "%s %" PRIu64, j ? "," : "", cursor_u64(c));
            fputs(" }", out);
        }
        print_attr(out, &attr);
        fputc('\n', out);
    }
}

static void print_more(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    fprintf(out, "# %s info available, use -I to display\n", c->section);
}

static void print_branch_stack(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    (void)c;
    fputs("# contains samples with branch stack\n", out);
}

static void print_auxtrace(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    (void)c;
    fputs("# contains AUX area data (e.g. instruction trace)\n", out);
}

static void print_stat(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    (void)c;
    fputs("# contains stat data\n", out);
}

static void print_pmus(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    uint32_t nr = cursor_u32(c);
    (void)pd;
    if (!nr) {
        fputs("# pmu mappings: not available\n", out);
        return;
    }
    for (uint32_t i = 0; i < nr && !c->failed; i++) {
        uint32_t type = cursor_u32(c);
        const char *name = feature_string(c);
        if (name)
            fprintf(out, "%s%s = %" PRIu32, i ? ", " : "# pmu mappings: ", name, type);
    }
    fputc('\n', out);
}

static void print_groups(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    for (uint32_t nr = cursor_u32(c); nr && !c->failed; nr--) {
        const char *name = feature_string(c);
        uint32_t leader = cursor_u32(c), members = cursor_u32(c);
        if (!name || leader >= pd->nr_events || members > pd->nr_events - leader)
            return;
        fprintf(out, "# group: %s{", strcmp(name, "{anon_group}") != 0 ? name : "");
        for (uint32_t i = 0; i < members; i++)
            fprintf(out, "%s%s", i ? "," : "", event_at(pd, leader + i)->pub.name);
        fputs("}\n", out);
    }
}

static void print_usec(FILE *out, const char *what, uint64_t time)
{
    fprintf(out, "# time of %s sample : %" PRIu64 ".%06" PRIu64 "\n", what, time / 1000000000,
            time % 1000000000 / 1000);
}

static void print_sample_time(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    uint64_t first = cursor_u64(c), last = cursor_u64(c);
    (void)pd;
    print_usec(out, "first", first);
    print_usec(out, "last", last);
    fprintf(out, "# sample duration : %10.3f ms\n", (double)(last - first) / 1e6);
}

static void print_clockid(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    fprintf(out, "# clockid frequency: %" PRIu64 " MHz\n", cursor_u64(c) * 1000);
}

static void print_dir_format(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    fprintf(out, "# directory data version : %" PRIu64 "\n", cursor_u64(c));
}

static void print_compressed(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    cursor_skip(c, 4);
    uint32_t type = cursor_u32(c), level = cursor_u32(c), ratio = cursor_u32(c);
    fprintf(out, "# compressed : %s, level = %" PRIu32 ", ratio = %" PRIu32 "\n",
            type == 1 ? "Zstd" : "Unknown", level, ratio);
}

/* Print a list of nr (name, value) string pairs. `pmu` names their PMU; NULL: the string behind the
 * list does. */
static void print_caps(struct cursor *c, const char *pmu, FILE *out)
{
    uint32_t nr = cursor_u32(c);
    struct cursor list = *c;
    for (uint32_t i = 0; i < nr && !c->failed; i++) {
        feature_string(c);
        feature_string(c);
    }
    if (!pmu)
        pmu = feature_string(c);
    if (c->failed)
        return;
    fprintf(out, "# %s pmu capabilities: ", pmu);
    if (!nr)
        fputs("not available", out);
    for (uint32_t i = 0; i < nr; i++) {
        const char *name = feature_string(&list), *value = feature_string(&list);
        fprintf(out, "%s%s=%s", i ? ", " : "", name, value);
    }
    fputc('\n', out);
}

static void print_cpu_caps(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    print_caps(c, "cpu", out);
}

static void print_pmu_caps(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    (void)pd;
    for (uint32_t nr = cursor_u32(c); nr && !c->failed; nr--)
        print_caps(c, NULL, out);
}

static const char *clock_name(uint32_t id)
{
    switch (id) {
    case CLOCK_REALTIME:
        return "realtime";
    case CLOCK_MONOTONIC:
        return "monotonic";
    case CLOCK_MONOTONIC_RAW:
        return "monotonic_raw";
    case CLOCK_BOOTTIME:
        return "boottime";
    case CLOCK_TAI:
        return "tai";
    default:
        return "(not found)";
    }
}

static void print_clock_data(const struct perfdata *pd, struct cursor *c, FILE *out)
{
    char date[64] = "<error>";
    struct tm tm;
    (void)pd;
    cursor_skip(c, 4);
    uint32_t id = cursor_u32(c);
    uint64_t wall = cursor_u64(c), clock = cursor_u64(c);
    time_t seconds = (time_t)(wall / 1000000000);
    unsigned us = (unsigned)(wall % 1000000000 / 1000);
    if (c->failed)
        return;
    if (localtime_r(&seconds, &tm)) {
        size_t n = strftime(date, sizeof(date), "%F %T", &tm);
        snprintf(date + n, sizeof(date) - n, ".%06u", us);
    }
    fprintf(out, "# clockid: %s (%" PRIu32 ")\n", clock_name(id), id);
    fprintf(out, "# reference time: %s = %" PRIu64 ".%06u (TOD) = %" PRIu64 ".%09" PRIu64 " (%s)\n",
            date, wall / 1000000000, us, clock / 1000000000, clock % 1000000000, clock_name(id));
}

/* How to print each section, in the order of the numbers. The line begins with `label`. */
static const struct printer {
    unsigned number;
    const char *label;
    void (*print)(const struct perfdata *pd, struct cursor *c, FILE *out);
} PRINTERS[] = {
    {HEADER_HOSTNAME, "# hostname : ", print_string},
    {HEADER_OSRELEASE, "# os release : ", print_string},
    {HEADER_VERSION, "# perf version : ", print_string},
    {HEADER_ARCH, "# arch : ", print_string},
    {HEADER_NRCPUS, "", print_nrcpus},
    {HEADER_CPUDESC, "# cpudesc : ", print_string},
    {HEADER_CPUID, "# cpuid : ", print_string},
    {HEADER_TOTAL_MEM, "# total memory : ", print_total_mem},
    {HEADER_CMDLINE, "# cmdline : ", print_cmdline},
    {HEADER_EVENT_DESC, "", print_event_desc},
    {HEADER_CPU_TOPOLOGY, "", print_more},
    {HEADER_NUMA_TOPOLOGY, "", print_more},
    {HEADER_BRANCH_STACK, "", print_branch_stack},
    {HEADER_PMU_MAPPINGS, "", print_pmus},
    {HEADER_GROUP_DESC, "", print_groups},
    {HEADER_AUXTRACE, "", print_auxtrace},
    {HEADER_STAT, "", print_stat},
    {HEADER_CACHE, "", print_more},
    {HEADER_SAMPLE_TIME, "", print_sample_time},
    {HEADER_MEM_TOPOLOGY, "", print_more},
    {HEADER_CLOCKID, "", print_clockid},
    {HEADER_DIR_FORMAT, "", print_dir_format},
    {HEADER_COMPRESSED, "", print_compressed},
    {HEADER_CPU_PMU_CAPS, "", print_cpu_caps},
    {HEADER_CLOCK_DATA, "", print_clock_data},
    {HEADER_HYBRID_TOPOLOGY, "", print_more},
    {HEADER_PMU_CAPS, "", print_pmu_caps},
};

static void print_file_facts(const struct perfdata *pd, FILE *out)
{
    struct stat st;
    char date[32];
    if (stat(pd->streams.at[0].path, &st) == 0 && ctime_r(&st.st_mtime, date))
        fprintf(out, "# captured on    : %s", date);
    fprintf(out, "# header version : %" PRIu64 "\n", pd->header_version);
    fprintf(out, "# data offset    : %" PRIu64 "\n", pd->data_offset);
    fprintf(out, "# data size      : %" PRIu64 "\n", pd->data_size);
    fprintf(out, "# feat offset    : %" PRIu64 "\n", pd->feature_offset);
}

int perfdata_print_header(const struct perfdata *pd, FILE *out)
{
    fputs("# ========\n", out);
    print_file_facts(pd, out);
    for (size_t i = 0; i < LENGTH(PRINTERS); i++) {
        const struct printer *p = &PRINTERS[i];
        if (!pd->features[p->number].present)
            continue;
        struct cursor c = feature_cursor(pd, p->number, FEATURE_NAMES[p->number]);
        fputs(p->label, out);
        p->print(pd, &c, out);
    }
    if (!pd->pipe) {
        fputs("# missing features: ", out);
        for (unsigned i = 1; i < LENGTH(FEATURE_NAMES); i++)
            if (!pd->features[i].present)
                fprintf(out, "%s ", FEATURE_NAMES[i]);
        fputc('\n', out);
    }
    fputs("# ========\n#\n", out);
    return ferror(out) ? -1 : 0;
}
