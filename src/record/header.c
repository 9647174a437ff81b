/* SPDX-License-Identifier: GPL-2.0-only */
/* Write feature sections, in the layouts that readers know (perfdata/header.c). A string is a u32
 * length, a multiple of 64, and that many bytes. */
#include "record/header.h"
#include "base/first_line.h"
#include "base/text.h"
#include "base/vec.h"
#include "release.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

enum { STRING_ALIGN = 64, CPUS_MAX = 1 << 14, LIST_LINE = 4096 };

static void add_u32(struct text *t, uint32_t v)
{
    text_bytes(t, (const char *)&v, sizeof(v));
}

static void add_u64(struct text *t, uint64_t v)
{
    text_bytes(t, (const char *)&v, sizeof(v));
}

static void add_string(struct text *t, const char *s)
{
    static const char zeros[STRING_ALIGN];
    size_t size = strlen(s) + 1, padded = (size + STRING_ALIGN - 1) & ~(size_t)(STRING_ALIGN - 1);
    add_u32(t, (uint32_t)padded);
    text_bytes(t, s, size);
    text_bytes(t, zeros, padded - size);
}

/* Write the collected bytes as a feature section, and empty `t`. */
static int put(struct perfdata_writer *w, unsigned feature, struct text *t, struct error *err)
{
    int r =
        t->failed ? error_no_memory(err) : perfdata_writer_feature(w, feature, t->at, t->size, err);
    text_free(t);
    *t = (struct text){0};
    return r;
}

static int put_string(struct perfdata_writer *w, unsigned feature, const char *s, struct error *err)
{
    struct text t = {0};
    add_string(&t, s);
    return put(w, feature, &t, err);
}

/* Read the value of a line "WORD : value" of a file in /proc. */
static bool read_field(const char *path, const char *word, char *to, size_t size)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, word, strlen(word)) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(to, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        found = true;
    }
    if (f)
        fclose(f);
    return found;
}

/* ---- the machine --------------------------------------------------------------------------- */

#if defined(__x86_64__) || defined(__i386__)
/* Write "VENDOR,family,model,stepping", decoded as the processor manuals say. */
static int write_cpuid(struct perfdata_writer *w, struct error *err)
{
    unsigned a, b, c, d;
    char vendor[13] = "", id[64];
    if (!__get_cpuid(0, &a, &b, &c, &d))
        return 0;
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    if (family == 6 || family == 15)
        model += (a >> 16 & 15) << 4;
    if (family == 15)
        family += a >> 20 & 255;
    snprintf(id, sizeof(id), "%s,%u,%u,%u", vendor, family, model, a & 15);
    return put_string(w, HEADER_CPUID, id, err);
}
#elif defined(__aarch64__)
/* Write the main id register (MIDR_EL1), without the variant and the revision, as perf does. All
 * cpus of one kind have the same; perf takes the first one's, too. */
static int write_cpuid(struct perfdata_writer *w, struct error *err)
{
    const uint64_t variant_and_revision = 0xf0000f;
    char line[64], id[32];
    uint64_t midr;
    if (!first_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", line,
                    sizeof(line)) ||
        sscanf(line, "%" SCNx64, &midr) != 1)
        return 0;
    snprintf(id, sizeof(id), "0x%016" PRIx64, midr & ~variant_and_revision);
    return put_string(w, HEADER_CPUID, id, err);
}
#else
static int write_cpuid(struct perfdata_writer *w, struct error *err)
{
    (void)w, (void)err;
    return 0;
}
#endif

static int write_machine(struct perfdata_writer *w, struct error *err)
{
    struct utsname u;
    struct text t = {0};
    char value[256];
    uint64_t kb = 0;
    if (uname(&u) == 0 && (put_string(w, HEADER_HOSTNAME, u.nodename, err) < 0 ||
                           put_string(w, HEADER_OSRELEASE, u.release, err) < 0 ||
                           put_string(w, HEADER_ARCH, u.machine, err) < 0))
        return -1;
    if (put_string(w, HEADER_VERSION, "ljperf " LJPERF_RELEASE, err) < 0)
        return -1;
    add_u32(&t, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
    add_u32(&t, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
    if (put(w, HEADER_NRCPUS, &t, err) < 0 || write_cpuid(w, err) < 0)
        return -1;
    if (read_field("/proc/cpuinfo", "model name", value, sizeof(value)) &&
        put_string(w, HEADER_CPUDESC, value, err) < 0)
        return -1;
    if (!read_field("/proc/meminfo", "MemTotal", value, sizeof(value)) ||
        sscanf(value, "%" SCNu64, &kb) != 1)
        return 0;
    add_u64(&t, kb);
    return put(w, HEADER_TOTAL_MEM, &t, err);
}

typedef VEC(char *) list_vec;

/* Append a copy of `line` unless it is already there. */
static bool lists_add(list_vec *lists, const char *line)
{
    vec_foreach (known, lists)
        if (strcmp(*known, line) == 0)
            return true;
    char *copy = strdup(line);
    if (copy && vec_push(lists, copy))
        return true;
    free(copy);
    return false;
}

/* Add the distinct values of one topology file over all cpus. Returns -1 when there are none, or
 * memory is out. */
static int add_cpu_lists(struct text *t, long cpus, const char *file)
{
    list_vec lists = {0};
    bool ok = true;
    for (long i = 0; i < cpus && ok; i++) {
        char path[128], line[LIST_LINE];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/topology/%s", i, file);
        if (first_line(path, line, sizeof(line)))
            ok = lists_add(&lists, line);
    }
    ok = ok && lists.nr;
    add_u32(t, ok ? (uint32_t)lists.nr : 0);
    vec_foreach (list, &lists) {
        if (ok)
            add_string(t, *list);
        free(*list);
    }
    vec_free(&lists);
    return ok ? 0 : -1;
}

static uint32_t topology_number(long cpu, const char *file)
{
    char path[128], line[32];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/topology/%s", cpu, file);
    return first_line(path, line, sizeof(line)) ? (uint32_t)strtol(line, NULL, 10) : UINT32_MAX;
}

/* Write sockets and cores, then core and socket of each cpu, then dies and the die of each cpu.
 * Readers of a pipe take the padding of this feature for dies, so dies are written even where they
 * are not known. */
static int write_topology(struct perfdata_writer *w, struct error *err)
{
    struct text t = {0};
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    if (cpus < 1 || cpus > CPUS_MAX || add_cpu_lists(&t, cpus, "core_siblings_list") < 0 ||
        add_cpu_lists(&t, cpus, "thread_siblings_list") < 0) {
        text_free(&t);
        return 0;
    }
    for (long i = 0; i < cpus; i++) {
        add_u32(&t, topology_number(i, "core_id"));
        add_u32(&t, topology_number(i, "physical_package_id"));
    }
    bool dies = add_cpu_lists(&t, cpus, "die_cpus_list") == 0;
    for (long i = 0; i < cpus; i++)
        add_u32(&t, dies ? topology_number(i, "die_id") : 0);
    return put(w, HEADER_CPU_TOPOLOGY, &t, err);
}

static int write_pmus(struct perfdata_writer *w, struct error *err)
{
    struct text body = {0}, t = {0};
    uint32_t nr = 0;
    DIR *dir = opendir("/sys/bus/event_source/devices");
    for (struct dirent *d; dir && (d = readdir(dir));) {
        char path[PATH_MAX], line[32];
        snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", d->d_name);
        if (d->d_name[0] == '.' || !first_line(path, line, sizeof(line)))
            continue;
        add_u32(&body, (uint32_t)strtoul(line, NULL, 10));
        add_string(&body, d->d_name);
        nr++;
    }
    if (dir)
        closedir(dir);
    add_u32(&t, nr);
    text_bytes(&t, body.at, body.size);
    t.failed |= body.failed;
    text_free(&body);
    return put(w, HEADER_PMU_MAPPINGS, &t, err);
}

/* ---- the recording ------------------------------------------------------------------------- */

static int write_cmdline(struct perfdata_writer *w, const struct record_options *o,
                         struct error *err)
{
    struct text t = {0};
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[size > 0 ? size : 0] = 0;
    add_u32(&t, (uint32_t)o->argc + 1);
    add_string(&t, size > 0 ? self : "ljperf");
    for (int i = 0; i < o->argc; i++)
        add_string(&t, o->argv[i]);
    return put(w, HEADER_CMDLINE, &t, err);
}

static uint64_t ns_of(const struct timespec *ts)
{
    return (uint64_t)ts->tv_sec * 1000000000 + (uint64_t)ts->tv_nsec;
}

static int write_clock(struct perfdata_writer *w, const struct record_options *o, struct error *err)
{
    struct text t = {0};
    struct timespec resolution, wall, clock;
    if (!o->use_clockid || clock_getres(o->clockid, &resolution) < 0 ||
        clock_gettime(CLOCK_REALTIME, &wall) < 0 || clock_gettime(o->clockid, &clock) < 0)
        return 0;
    add_u64(&t, ns_of(&resolution));
    if (put(w, HEADER_CLOCKID, &t, err) < 0)
        return -1;
    add_u32(&t, 1);
    add_u32(&t, (uint32_t)o->clockid);
    add_u64(&t, ns_of(&wall));
    add_u64(&t, ns_of(&clock));
    return put(w, HEADER_CLOCK_DATA, &t, err);
}

int header_write_start(struct perfdata_writer *w, const struct record_options *o, struct error *err)
{
    return write_machine(w, err) < 0 || write_cmdline(w, o, err) < 0 ||
                   write_topology(w, err) < 0 || write_pmus(w, err) < 0 ||
                   write_clock(w, o, err) < 0
               ? -1
               : 0;
}

int header_write_times(struct perfdata_writer *w, uint64_t first, uint64_t last, struct error *err)
{
    const uint64_t words[] = {first, last};
    return perfdata_writer_feature(w, HEADER_SAMPLE_TIME, words, sizeof(words), err);
}
