/* SPDX-License-Identifier: GPL-2.0-only */
/* Event names, as perf list prints them. The numbers are from linux/perf_event.h. */
#include "record/event_parse.h"
#include "base/first_line.h"
#include "perfdata/resident.h"

#include <errno.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct named {
    const char *name;
    uint32_t type;
    uint64_t config;
} names[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"idle-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"idle-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES},
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
    {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
    {"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS},
    {"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS},
    {"cgroup-switches", PERF_TYPE_SOFTWARE, 11 /* PERF_COUNT_SW_CGROUP_SWITCHES */},
    {"dummy", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY},
};

static const struct cache_word {
    const char *word;
    uint64_t value;
} cache_units[] = {{"L1-dcache", PERF_COUNT_HW_CACHE_L1D}, {"L1-icache", PERF_COUNT_HW_CACHE_L1I},
                   {"LLC", PERF_COUNT_HW_CACHE_LL},        {"dTLB", PERF_COUNT_HW_CACHE_DTLB},
                   {"iTLB", PERF_COUNT_HW_CACHE_ITLB},     {"branch", PERF_COUNT_HW_CACHE_BPU},
                   {"node", PERF_COUNT_HW_CACHE_NODE}},
  cache_actions[] = {{"load-misses", PERF_COUNT_HW_CACHE_OP_READ << 8 | 1 << 16},
                     {"loads", PERF_COUNT_HW_CACHE_OP_READ << 8},
                     {"store-misses", PERF_COUNT_HW_CACHE_OP_WRITE << 8 | 1 << 16},
                     {"stores", PERF_COUNT_HW_CACHE_OP_WRITE << 8},
                     {"prefetch-misses", PERF_COUNT_HW_CACHE_OP_PREFETCH << 8 | 1 << 16},
                     {"prefetches", PERF_COUNT_HW_CACHE_OP_PREFETCH << 8}};

enum { EVENTS_MAX = 4096 }; /* events that a pattern may match */

const char *tracefs_root(void)
{
    static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    char path[64];
    for (unsigned i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
        snprintf(path, sizeof(path), "%s/events", roots[i]);
        if (access(path, R_OK | X_OK) == 0)
            return roots[i];
    }
    return NULL;
}

static void spec_free(struct event_spec *s)
{
    free(s->name);
    free(s->group);
    free(s->member);
    free(s->filter);
}

void event_specs_free(event_spec_vec *specs)
{
    vec_foreach (s, specs)
        spec_free(s);
    vec_free(specs);
}

static int spec_push(event_spec_vec *specs, struct event_spec *s, struct error *err)
{
    if (s->name && (!s->group || s->member) && vec_push(specs, *s))
        return 0;
    spec_free(s);
    return error_no_memory(err);
}

/* ---- modifiers ----------------------------------------------------------------------------- */

/* Parse the letters after the last colon. False: they are not modifiers. */
static bool modifiers_parse(const char *letters, size_t size, struct event_spec *s)
{
    bool user = false, kernel = false, hv = false, guest = false, host = false;
    unsigned precise = 0;
    for (size_t i = 0; i < size; i++)
        switch (letters[i]) {
        case 'u':
            user = true;
            break;
        case 'k':
            kernel = true;
            break;
        case 'h':
            hv = true;
            break;
        case 'G':
            guest = true;
            break;
        case 'H':
            host = true;
            break;
        case 'p':
            precise++;
            break;
        case 'P':
            break; /* as precise as possible, which is decided at open: not requested here */
        default:
            return false;
        }
    if (precise > 3)
        return false;
    if (user || kernel || hv) {
        s->attr.exclude_user = !user;
        s->attr.exclude_kernel = !kernel;
        s->attr.exclude_hv = !hv;
        s->modified = true;
    }
    if (guest || host) {
        s->attr.exclude_guest = !guest;
        s->attr.exclude_host = !host;
    }
    s->attr.precise_ip = precise & 3;
    return true;
}

/* ---- kinds of events ----------------------------------------------------------------------- */

static bool plain_parse(const char *name, struct perf_event_attr *attr)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i].name) == 0) {
            attr->type = names[i].type;
            attr->config = names[i].config;
            return true;
        }
    return false;
}

static bool raw_parse(const char *name, struct perf_event_attr *attr)
{
    char *end;
    if (name[0] != 'r' || !name[1] || strspn(name + 1, "0123456789abcdefABCDEF") > 16)
        return false;
    attr->config = strtoull(name + 1, &end, 16);
    attr->type = PERF_TYPE_RAW;
    return *end == 0;
}

static bool cache_parse(const char *name, struct perf_event_attr *attr)
{
    for (size_t i = 0; i < sizeof(cache_units) / sizeof(*cache_units); i++) {
        size_t size = strlen(cache_units[i].word);
        if (strncmp(name, cache_units[i].word, size) != 0 || name[size] != '-')
            continue;
        for (size_t j = 0; j < sizeof(cache_actions) / sizeof(*cache_actions); j++)
            if (strcmp(name + size + 1, cache_actions[j].word) == 0) {
                attr->type = PERF_TYPE_HW_CACHE;
                attr->config = cache_units[i].value | cache_actions[j].value;
                return true;
            }
    }
    return false;
}

/* ---- tracepoints --------------------------------------------------------------------------- */

static int tracefs_error(const char *text, struct error *err)
{
    if (access("/sys/kernel/tracing", X_OK) != 0 && errno == EACCES)
        return error_set(err, ERROR_SYSTEM,
                         "-e %s: tracefs cannot be read: Permission denied; run as root, or: mount "
                         "-o remount,mode=755 /sys/kernel/tracing",
                         text);
    return error_set(err, ERROR_NOT_FOUND,
                     "-e %s: tracepoints cannot be found, because tracefs is not mounted; as root: "
                     "mount -t tracefs nodev "
                     "/sys/kernel/tracing",
                     text);
}

static int read_id(const char *path, uint64_t *ret)
{
    FILE *f = fopen(path, "re");
    unsigned long long id;
    bool got = f && fscanf(f, "%llu", &id) == 1;
    if (f)
        fclose(f);
    if (got)
        *ret = id;
    return got ? 0 : -1;
}

/* Add the tracepoint of one file .../events/GROUP/MEMBER/id. */
static int tracepoint_add(const char *path, const struct event_spec *like, const char *suffix,
                          event_spec_vec *specs, struct error *err)
{
    struct event_spec s = *like;
    const char *end = strrchr(path, '/'), *member = memrchr(path, '/', (size_t)(end - path));
    const char *group = memrchr(path, '/', (size_t)(member - path));
    uint64_t id;
    if (read_id(path, &id) < 0)
        return error_set(err, ERROR_SYSTEM, "%s cannot be read; run as root", path);
    s.attr.config = id;
    s.group = strndup(group + 1, (size_t)(member - group - 1));
    s.member = strndup(member + 1, (size_t)(end - member - 1));
    if (!s.group || !s.member || asprintf(&s.name, "%s:%s%s", s.group, s.member, suffix) < 0)
        s.name = NULL;
    return spec_push(specs, &s, err);
}

/* Add the tracepoints that match "sched:sched_switch"; both sides may be fnmatch patterns. */
static int tracepoints_parse(const char *pattern, const char *suffix, struct event_spec *like,
                             event_spec_vec *specs, struct error *err)
{
    const char *root = tracefs_root(), *colon = strchr(pattern, ':');
    char path[512];
    glob_t found;
    int r = 0;
    if (!root)
        return tracefs_error(pattern, err);
    if (strchr(pattern, '/') ||
        snprintf(path, sizeof(path), "%s/events/%.*s/%s/id", root, (int)(colon - pattern), pattern,
                 colon + 1) >= (int)sizeof(path))
        return error_set(err, ERROR_FORMAT, "-e %s: this is not the name of a tracepoint", pattern);
    like->attr.type = PERF_TYPE_TRACEPOINT;
    if (glob(path, 0, NULL, &found) != 0)
        return error_set(err, ERROR_NOT_FOUND,
                         "-e %s: there is no such tracepoint in %s/events (see perf list; perf "
                         "probe creates uprobes)",
                         pattern, root);
    for (size_t i = 0; !r && i < found.gl_pathc && i < EVENTS_MAX; i++)
        r = tracepoint_add(found.gl_pathv[i], like, suffix, specs, err);
    globfree(&found);
    return r;
}

/* ---- PMU/terms/ ---------------------------------------------------------------------------- */

/* Read the first line of a file in sysfs. False: it is not there. */
static bool read_word(const char *dir, const char *name, char *to, size_t size)
{
    char path[512];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return false;
    return first_line(path, to, size);
}

/* Spread `value` over the bits that a format file names ("config1:0-7,32-35"). */
static bool format_place(const char *format, uint64_t value, struct perf_event_attr *attr)
{
    __u64 *to;
    const char *p = strchr(format, ':');
    if (!p)
        return false;
    if (strncmp(format, "config:", 7) == 0)
        to = &attr->config;
    else if (strncmp(format, "config1:", 8) == 0)
        to = &attr->config1;
    else if (strncmp(format, "config2:", 8) == 0)
        to = &attr->config2;
    else
        return false;
    while (*p) {
        char *end;
        unsigned long from = strtoul(p + 1, &end, 10), until = from;
        if (end == p + 1)
            return false;
        if (*end == '-')
            until = strtoul(end + 1, &end, 10);
        if (until > 63 || from > until || (*end && *end != ','))
            return false;
        for (unsigned long bit = from; bit <= until; bit++, value >>= 1)
            *to |= (value & 1) << bit;
        p = end;
    }
    return value == 0;
}

static bool term_parse(const char *dir, char *term, struct perf_event_attr *attr, int depth)
{
    static const struct {
        const char *name;
        size_t at;
    } whole[] = {{"config", offsetof(struct perf_event_attr, config)},
                 {"config1", offsetof(struct perf_event_attr, config1)},
                 {"config2", offsetof(struct perf_event_attr, config2)}};
    char text[256], name[80], *end, *rest = text;
    char *equals = strchr(term, '=');
    if (equals)
        *equals++ = 0;
    uint64_t value = equals ? strtoull(equals, &end, 0) : 1;
    if (equals && (end == equals || *end))
        return false;
    for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++)
        if (strcmp(term, whole[i].name) == 0) {
            memcpy((char *)attr + whole[i].at, &value, sizeof(value));
            return true;
        }
    snprintf(name, sizeof(name), "format/%.60s", term);
    if (read_word(dir, name, text, sizeof(text)))
        return format_place(text, value, attr);
    snprintf(name, sizeof(name), "events/%.60s", term); /* a named event, which stands for terms */
    if (depth || equals || !read_word(dir, name, text, sizeof(text)))
        return false;
    for (char *each; (each = strsep(&rest, ","));)
        if (!term_parse(dir, each, attr, depth + 1))
            return false;
    return true;
}

/* Take a term that says how to sample: period=N, freq=N, name=TEXT. Returns 1; 0: it is another
 * one; -1: it is malformed. */
static int sampling_term(const char *term, struct event_spec *s, struct error *err)
{
    const struct {
        const char *name;
        uint64_t *to; /* NULL: a name */
    } terms[] = {{"period=", &s->period}, {"freq=", &s->frequency}, {"name=", NULL}};
    for (size_t i = 0; i < sizeof(terms) / sizeof(*terms); i++) {
        size_t size = strlen(terms[i].name);
        char *end;
        if (strncmp(term, terms[i].name, size))
            continue;
        if (!terms[i].to) {
            free(s->name);
            s->name = strdup(term + size);
            return s->name ? 1 : error_no_memory(err);
        }
        errno = 0;
        *terms[i].to = strtoull(term + size, &end, 0);
        return *end || errno || !*terms[i].to || term[size] == '-'
                   ? error_set(err, ERROR_FORMAT, "-e: the term '%s' expects a number above 0",
                               term)
                   : 1;
    }
    return 0;
}

/* Parse the terms of an event that is no PMU's: "cpu-clock/period=100000/". */
static int terms_parse(const char *text, char *terms, struct event_spec *s, struct error *err)
{
    for (char *term; (term = strsep(&terms, ","));) {
        int got = *term ? sampling_term(term, s, err) : 1;
        if (got < 0)
            return -1;
        if (!got)
            return error_set(err, ERROR_FORMAT,
                             "-e %s: '%s' is not a term of this event, which has period, freq and "
                             "name",
                             text, term);
    }
    return 0;
}

/* Parse "cpu/event=0x3c,umask=1/". The PMU's files in sysfs define the words. */
static int pmu_parse(const char *text, size_t size, struct event_spec *s, struct error *err)
{
    char dir[128], type[32], terms[256];
    const char *slash = memchr(text, '/', size);
    const char *last = memrchr(text, '/', size);
    char *rest = terms;
    snprintf(dir, sizeof(dir), "/sys/bus/event_source/devices/%.*s", (int)(slash - text), text);
    if (!read_word(dir, "type", type, sizeof(type)))
        return error_set(err, ERROR_NOT_FOUND, "-e %s: there is no PMU %.*s (see %s)", text,
                         (int)(slash - text), text, "/sys/bus/event_source/devices");
    s->attr.type = (uint32_t)strtoul(type, NULL, 10);
    snprintf(terms, sizeof(terms), "%.*s", last > slash ? (int)(last - slash - 1) : 0, slash + 1);
    for (char *term; (term = strsep(&rest, ","));) {
        int got = *term ? sampling_term(term, s, err) : 1;
        if (got < 0)
            return -1;
        if (!got && !term_parse(dir, term, &s->attr, 0))
            return error_set(err, ERROR_FORMAT,
                             "-e %s: '%s' is not a term of this PMU (see %s/format)", text, term,
                             dir);
    }
    return 0;
}

static bool known_parse(const char *name, struct perf_event_attr *attr)
{
    return plain_parse(name, attr) || raw_parse(name, attr) || cache_parse(name, attr);
}

/* Parse "NAME/TERMS/MODIFIERS", which is cut. */
static int with_terms_parse(char *base, struct event_spec *s, struct error *err)
{
    char *slash = strchr(base, '/'), *last = strrchr(base, '/');
    if (last > slash && last[1]) {
        if (!modifiers_parse(last + 1, strlen(last + 1), s))
            return error_set(err, ERROR_FORMAT, "-e %s: '%s' are not modifiers", base, last + 1);
        last[1] = 0;
    }
    *slash = 0;
    bool known = known_parse(base, &s->attr);
    *slash = '/';
    if (!known)
        return pmu_parse(base, strlen(base), s, err);
    if (last == slash)
        return error_set(err, ERROR_FORMAT, "-e %s: the terms do not end with a slash", base);
    *last = 0;
    return terms_parse(base, slash + 1, s, err);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int one_parse(const char *text, event_spec_vec *specs, struct error *err)
{
    struct event_spec s = {.attr = {.size = sizeof(s.attr), .exclude_guest = 1}};
    char base[256];
    const char *slash = strrchr(text, '/'), *colon = strrchr(slash ? slash : text, ':');
    if (strlen(text) >= sizeof(base))
        return error_set(err, ERROR_FORMAT, "-e %.40s...: this list is too long", text);
    snprintf(base, sizeof(base), "%s", text);
    /* "a:b" may be a tracepoint or an event with modifiers: the names known here come first. */
    if (colon && modifiers_parse(colon + 1, strlen(colon + 1), &s))
        base[colon - text] = 0;
    else
        colon = NULL;
    bool known = known_parse(base, &s.attr);
    if (!known && slash) {
        if (with_terms_parse(base, &s, err) < 0) {
            free(s.name);
            return -1;
        }
        known = true;
    }
    if (!known && strchr(base, ':'))
        return tracepoints_parse(base, colon ? colon : "", &s, specs, err);
    if (!known && strchr(text, ':')) { /* "u:k": the letters were a name, not modifiers */
        struct event_spec like = {.attr = {.size = sizeof(s.attr), .exclude_guest = 1}};
        return tracepoints_parse(text, "", &like, specs, err);
    }
    if (!known)
        return error_set(err, ERROR_NOT_FOUND, "-e %s: there is no such event (see: perf list)",
                         text);
    s.name = s.name ? s.name : strdup(text);
    return spec_push(specs, &s, err);
}

int event_specs_parse(const char *text, event_spec_vec *specs, struct error *err)
{
    char one[256];
    if (strpbrk(text, "{}"))
        return error_set(err, ERROR_UNSUPPORTED,
                         "-e %s: groups are not recorded here: name the events one by one, "
                         "without braces; each is sampled by itself",
                         text);
    if (!*text)
        return error_set(err, ERROR_FORMAT, "-e names no event");
    while (*text) {
        bool inside = false;
        size_t size = 0;
        for (; text[size] && (inside || text[size] != ','); size++)
            inside ^= text[size] == '/';
        if (!size || size >= sizeof(one))
            return error_set(err, ERROR_FORMAT, "-e %.40s: this is not a list of events", text);
        memcpy(one, text, size);
        one[size] = 0;
        if (one_parse(one, specs, err) < 0)
            return -1;
        text += size + (text[size] == ',');
    }
    return 0;
}

int event_specs_default(event_spec_vec *specs, struct error *err)
{
    if (one_parse("cycles", specs, err) < 0)
        return -1;
    specs->at[specs->nr - 1].by_default = true;
    return 0;
}

int event_specs_resident(uint64_t frequency, event_spec_vec *specs, struct error *err)
{
    if (event_specs_parse("minor-faults/name=" RESIDENT_NAME "/", specs, err) < 0)
        return -1;
    specs->at[specs->nr - 1].resident = true;
    specs->at[specs->nr - 1].frequency = frequency;
    return 0;
}

int event_spec_to_clock(struct event_spec *s, struct error *err)
{
    const char *colon = strchr(s->name, ':');
    char *name;
    if (asprintf(&name, "cpu-clock%s", colon ? colon : "") < 0)
        return error_no_memory(err);
    free(s->name);
    s->name = name;
    s->attr.type = PERF_TYPE_SOFTWARE;
    s->attr.config = PERF_COUNT_SW_CPU_CLOCK;
    s->attr.precise_ip = 0;
    return 0;
}
