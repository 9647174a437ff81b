/* SPDX-License-Identifier: GPL-2.0-only */
/* Open events, with perf's fallbacks, and explain failures. */
#include "record/events.h"
#include "perfdata/vmevent_layout.h"
#include "record/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <perf/cpumap.h>
#include <perf/evlist.h>
#include <perf/evsel.h>
#include <perf/threadmap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RING_DEFAULT = 16 << 20, /* bytes per cpu at most: 256 samples of 64 KiB */
    RING_SMALL = 512 << 10,  /* bytes: perf's default, which an ordinary user may lock */
    RINGS_MAX = 256 << 20,   /* bytes of all rings, when the user gave no size */
    RING_MS = 500,           /* ms of the largest samples that fit into a ring */
    SAMPLE_REST = 2 << 10,  /* bytes of a sample beside its stack, and of records between samples */
    WAKE_SHARE = 4,         /* wake the reader when one WAKE_SHARE-th of the ring is full */
    WAKE_EACH_HZ_MAX = 250, /* samples a second and cpu up to which each may wake the reader */
};

static const char *const paranoid_cure =
    "sysctl kernel.perf_event_paranoid=1, or run as root, or setcap cap_perfmon+ep on ljperf";

/* ---- attributes ---------------------------------------------------------------------------- */

static void callgraph_set(const struct record_options *o, struct perf_event_attr *a)
{
    if (o->callgraph == CALLGRAPH_NONE)
        return;
    a->sample_type |= PERF_SAMPLE_CALLCHAIN;
    if (o->callgraph != CALLGRAPH_DWARF)
        return;
    a->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    a->sample_regs_user = perfdata_user_registers();
    a->sample_stack_user = o->stack_size;
    a->exclude_callchain_user = 1;
}

static void tracking_set(const struct record_options *o, struct perf_event_attr *a)
{
    a->mmap = a->mmap2 = a->comm = a->comm_exec = a->task = 1;
    a->ksymbol = a->bpf_event = 1;
    a->mmap_data = o->callgraph == CALLGRAPH_DWARF; /* [heap], [stack], arenas of generated code */
    a->build_id = 1;
    a->namespaces = o->namespaces;
    a->context_switch = o->switch_events;
    a->cgroup = o->all_cgroups;
    a->mmap_data |= o->data;
}

/* What is recorded of samples if the user asks for it. */
static void extras_set(const struct record_options *o, struct perf_event_attr *a)
{
    if (o->data)
        a->sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC;
    if (o->weight)
        a->sample_type |= PERF_SAMPLE_WEIGHT;
    if (o->all_cgroups)
        a->sample_type |= PERF_SAMPLE_CGROUP;
    if (o->branches)
        a->sample_type |= PERF_SAMPLE_BRANCH_STACK;
    a->branch_sample_type = o->branches;
    a->inherit_stat = o->stat && a->inherit;
    if (o->no_samples)
        a->freq = a->sample_period = 0;
}

static void common_set(const struct record_options *o, const struct events *e,
                       struct perf_event_attr *a)
{
    a->size = sizeof(*a);
    a->sample_type = CAPTURE_IDS | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD;
    a->read_format = CAPTURE_READ_FORMAT | (o->stat ? CAPTURE_TIMES : 0);
    a->sample_id_all = 1;
    a->disabled = 1;
    a->inherit = !o->no_inherit;
    a->use_clockid = o->use_clockid;
    a->clockid = o->clockid;
    a->watermark = !o->wake_each;
    if (o->wake_each)
        a->wakeup_events = 1;
    else
        a->wakeup_watermark = e->wakes_early ? 1 : (uint32_t)(e->ring_bytes / WAKE_SHARE);
}

/* Samples of user code alone have no kernel frames. Newer kernels (6.12) require the right to watch
 * the kernel unless exclude_callchain_kernel is set, too. */
static void exclude_kernel_chain(struct perf_event_attr *a)
{
    if (a->exclude_kernel && a->sample_type & PERF_SAMPLE_CALLCHAIN)
        a->exclude_callchain_kernel = 1;
}

static void sampling_set(const struct record_options *o, const struct events *e,
                         const struct event_spec *spec, struct perf_event_attr *a)
{
    bool tracepoint = spec->attr.type == PERF_TYPE_TRACEPOINT;
    *a = spec->attr;
    common_set(o, e, a);
    callgraph_set(o, a);
    if (tracepoint)
        a->sample_type |= PERF_SAMPLE_RAW;
    bool fixed = o->period || (tracepoint && !o->user_frequency);
    if (spec->period || (fixed && !spec->frequency)) {
        a->sample_period = spec->period ? spec->period : o->period ? o->period : 1;
    } else {
        a->freq = 1;
        a->sample_freq = spec->frequency ? spec->frequency : e->frequency;
        if (spec->resident && a->sample_freq > e->frequency_most)
            a->sample_freq = e->frequency_most;
    }
    if (o->all_user)
        a->exclude_kernel = a->exclude_hv = 1;
    if (o->all_kernel)
        a->exclude_user = 1;
    if (e->user_only && !spec->modified)
        a->exclude_kernel = a->exclude_hv = 1;
    exclude_kernel_chain(a);
    extras_set(o, a);
    if (spec->resident)
        a->sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE;
}

/* ---- errors -------------------------------------------------------------------------------- */

static long read_setting(const char *path)
{
    long value = -100;
    FILE *f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%ld", &value) != 1)
            value = -100;
        fclose(f);
    }
    return value;
}

static int denied_error(const char *name, bool others, int why, struct error *err)
{
    long level = read_setting("/proc/sys/kernel/perf_event_paranoid");
    err->sys_errno = why;
    if (level == -100)
        return error_set(err, ERROR_SYSTEM,
                         "event %s: %s: this kernel has no perf events, or a container hides them",
                         name, strerror(why));
    if (others)
        error_set(err, ERROR_SYSTEM,
                  "event %s: %s: the process belongs to another user; run as root, or setcap "
                  "cap_perfmon,cap_sys_ptrace+ep on ljperf",
                  name, strerror(why));
    else
        error_set(err, ERROR_SYSTEM, "event %s: %s (kernel.perf_event_paranoid is %ld); try: %s",
                  name, strerror(why), level, paranoid_cure);
    err->sys_errno = why;
    return -1;
}

/* Whether there are counters, but none that samples as precisely as was asked for. */
static bool is_too_precise(const struct perf_event_attr *a, int why)
{
    return why == EOPNOTSUPP && a->precise_ip;
}

/* Whether no branches come with an event. */
static bool has_no_branches(const struct perf_event_attr *a, int why)
{
    return (why == EOPNOTSUPP || why == EINVAL) && a->sample_type & PERF_SAMPLE_BRANCH_STACK;
}

static int open_error(const char *name, const struct perf_event_attr *a, const char *cpus,
                      bool others, int why, struct error *err)
{
    const char *cure = "";
    if (has_no_branches(a, why))
        return error_set(
            err, ERROR_SYSTEM,
            "event %s: the processor or this event has no branches to sample (perf says: "
            "PMU Hardware or event type doesn't support branch stack sampling): leave "
            "out -b and -j",
            name);
    switch (why) {
    case EACCES:
    case EPERM:
        if (a->namespaces) /* whatever else is allowed */
            return error_set(
                err, ERROR_SYSTEM,
                "event %s: %s: --namespaces needs CAP_PERFMON: leave it out, run as root, "
                "or setcap cap_perfmon+ep on ljperf",
                name, strerror(why));
        return denied_error(name, others, why, err);
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        cure = is_too_precise(a, why)
                   ? "; this machine does not sample so precisely: try without the modifier p"
               : a->type == PERF_TYPE_SOFTWARE || a->type == PERF_TYPE_TRACEPOINT
                   ? "; this kernel does not have it"
                   : "; no hardware counters here (a virtual machine?): -e cpu-clock works";
        break;
    case EMFILE:
        cure = "; too many tasks for the limit of open files: ulimit -n 65536";
        break;
    case EINVAL:
        cure = cpus ? "; is each cpu of -C online?" : "";
        break;
    case ENOSYS:
        cure = "; perf_event_open is forbidden here (a container's seccomp rules?)";
        break;
    case EBUSY:
        cure = "; another program holds the counter: -e cpu-clock works";
        break;
    default:
        break;
    }
    error_set(err, ERROR_SYSTEM, "event %s cannot be opened: %s%s", name, strerror(why), cure);
    err->sys_errno = why;
    return -1;
}

static int ring_error(uint64_t bytes, int why, struct error *err)
{
    if (why != EPERM && why != ENOMEM)
        return error_system(err, why, "rings of %" PRIu64 " KiB a cpu cannot be mapped",
                            bytes >> 10);
    struct rlimit locked = {0};
    getrlimit(RLIMIT_MEMLOCK, &locked);
    return error_set(err, ERROR_SYSTEM,
                     "rings of %" PRIu64 " KiB a cpu cannot be locked (perf_event_mlock_kb %ld, "
                     "ulimit -l %" PRIu64 "): smaller -m, ulimit -l unlimited, or sysctl "
                     "kernel.perf_event_mlock_kb=%" PRIu64,
                     bytes >> 10, read_setting("/proc/sys/kernel/perf_event_mlock_kb"),
                     (uint64_t)locked.rlim_cur >> 10, (bytes >> 10) + 512);
}

/* ---- descriptors --------------------------------------------------------------------------- */

typedef VEC(int) fd_vec;

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* List the descriptors of all perf events that this process holds open, ascending. */
static int list_event_fds(fd_vec *ret, struct error *err)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return error_system(err, errno, "/proc/self/fd cannot be read");
    bool ok = true;
    ret->nr = 0;
    for (struct dirent *d; ok && (d = readdir(dir));) {
        char link[64];
        ssize_t size = readlinkat(dirfd(dir), d->d_name, link, sizeof(link) - 1);
        if (size > 0) {
            link[size] = 0;
            if (strcmp(link, "anon_inode:[perf_event]") == 0)
                ok = vec_push(ret, atoi(d->d_name));
        }
    }
    closedir(dir);
    if (!ok)
        return error_no_memory(err);
    if (ret->nr)
        qsort(ret->at, ret->nr, sizeof(*ret->at), compare_ints);
    return 0;
}

/* Remove from `after` all descriptors that are in `before`. */
static void fds_subtract(fd_vec *after, const fd_vec *before)
{
    size_t kept = 0, j = 0;
    for (size_t i = 0; i < after->nr; i++) {
        while (j < before->nr && before->at[j] < after->at[i])
            j++;
        if (j == before->nr || before->at[j] != after->at[i])
            after->at[kept++] = after->at[i];
    }
    after->nr = kept;
}

/* Take over the descriptors of an event that was just opened, and read their ids. */
static int event_take_fds(struct events *e, struct open_event *ev, fd_vec *fds, struct error *err)
{
    uint64_t *ids = calloc(fds->nr + 1, sizeof(*ids));
    ev->fds = fds->at;
    ev->nr_fds = fds->nr;
    ev->pub.ids = ids;
    *fds = (fd_vec){0};
    if (!ids)
        return error_no_memory(err);
    if (ev->nr_fds != e->nr_cpus * e->nr_tasks)
        return error_set(err, ERROR_SYSTEM, "event %s: %zu descriptors for %zu cpus and %zu tasks",
                         ev->pub.name, ev->nr_fds, e->nr_cpus, e->nr_tasks);
    for (size_t i = 0; i < ev->nr_fds; i++) {
        if (ioctl(ev->fds[i], PERF_EVENT_IOC_ID, &ids[i]) < 0)
            return error_system(err, errno, "event %s: its id cannot be read", ev->pub.name);
        fcntl(ev->fds[i], F_SETFD, FD_CLOEXEC);
        if (!vec_push(&e->ids, (struct id_event){ids[i], (uint32_t)(ev - e->at)}))
            return error_no_memory(err);
    }
    ev->pub.nr_ids = ev->nr_fds;
    return 0;
}

static int event_filter(const struct open_event *ev, const struct event_spec *spec,
                        struct error *err)
{
    const char *root = tracefs_root();
    for (size_t i = 0; spec->filter && i < ev->nr_fds; i++)
        if (ioctl(ev->fds[i], PERF_EVENT_IOC_SET_FILTER, spec->filter) < 0)
            return error_system(
                err, errno,
                "event %s: the kernel does not take the filter '%.60s', whose fields "
                "are in %s/events/%.30s/%.30s/format",
                ev->pub.name, spec->filter, root ? root : "tracefs", spec->group, spec->member);
    return 0;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Give up one feature that an older kernel may lack. False: no feature is left to give up. */
static bool give_up_feature(struct events *e, struct perf_event_attr *a)
{
    if (a->build_id) {
        a->build_id = 0;
        e->build_ids = false;
    } else if (a->sample_type & PERF_SAMPLE_DATA_PAGE_SIZE) {
        a->sample_type &= ~(uint64_t)PERF_SAMPLE_DATA_PAGE_SIZE;
    } else if (a->read_format & ~(uint64_t)PERF_FORMAT_ID) {
        a->read_format = PERF_FORMAT_ID;
    } else if (a->bpf_event || a->ksymbol) {
        a->bpf_event = a->ksymbol = 0;
    } else {
        return false;
    }
    return true;
}

/* Change the event, which failed to open with errno `why`, so that it may open. False: it will
 * not. */
static bool event_fall_back(const struct record_options *o, struct events *e,
                            struct event_spec *spec, struct perf_event_attr *a, int why,
                            struct error *err)
{
    bool no_counter = (why == ENOENT || why == ENODEV || why == ENXIO || why == EOPNOTSUPP) &&
                      !is_too_precise(a, why) && !has_no_branches(a, why);
    if (why == EINVAL && give_up_feature(e, a))
        return true;
    if (no_counter && spec && a->type == PERF_TYPE_HARDWARE && !o->period &&
        a->config == PERF_COUNT_HW_CPU_CYCLES && event_spec_to_clock(spec, err) == 0) {
        e->to_clock = true;
        a->type = spec->attr.type;
        a->config = spec->attr.config;
        a->precise_ip = 0;
        return true;
    }
    if ((why == EACCES || why == EPERM) && spec && !spec->modified && !a->exclude_kernel &&
        !o->all_kernel && a->type != PERF_TYPE_TRACEPOINT) {
        e->user_only = true;
        a->exclude_kernel = a->exclude_hv = 1;
        exclude_kernel_chain(a);
        return true;
    }
    return false;
}

/* Returns the event's name: "cycles" of user code only is "cycles:u", as perf names it. */
static char *event_name(const struct event_spec *spec, const struct perf_event_attr *a)
{
    char *name = NULL;
    if (!spec)
        return strdup("dummy:u");
    if (a->exclude_kernel && !spec->attr.exclude_kernel && !strchr(spec->name, ':'))
        return asprintf(&name, "%s:u", spec->name) < 0 ? NULL : name;
    return strdup(spec->name);
}

/* Open an event of a control group on each cpu. Returns 0 or an errno; with one, *fds is empty. */
static int open_in_cgroup(const struct events *e, struct perf_evsel *evsel, fd_vec *fds)
{
    const unsigned long flags = PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC;
    struct perf_cpu_map *cpus = perf_evsel__cpus(evsel);
    int why = 0;
    for (int i = 0; i < perf_cpu_map__nr(cpus) && !why; i++) {
        int fd = (int)syscall(SYS_perf_event_open, perf_evsel__attr(evsel), e->cgroup,
                              perf_cpu_map__cpu(cpus, i).cpu, -1, flags);
        why = fd < 0 ? errno : vec_push(fds, fd) ? 0 : ENOMEM;
    }
    vec_foreach (fd, fds)
        if (why)
            close(*fd);
    fds->nr = why ? 0 : fds->nr;
    return why;
}

/* Open an event, with libperf or by ourselves. Returns 0 or an errno. */
static int open_once(const struct events *e, struct perf_evsel *evsel, bool own, fd_vec *fds)
{
    return own ? open_in_cgroup(e, evsel, fds)
               : -perf_evsel__open(evsel, perf_evsel__cpus(evsel), perf_evsel__threads(evsel));
}

static int event_open(const struct record_options *o, struct events *e, struct perf_evsel *evsel,
                      struct event_spec *spec, struct open_event *ev, struct error *err)
{
    struct perf_event_attr *a = perf_evsel__attr(evsel);
    fd_vec before = {0}, after = {0};
    int why, r = list_event_fds(&before, err);
    if (r < 0)
        return -1;
    ev->own = spec && e->cgroup >= 0;
    while ((why = open_once(e, evsel, ev->own, &after)) && event_fall_back(o, e, spec, a, why, err))
        ;
    ev->pub.attr = *a;
    ev->pub.name = event_name(spec, a);
    ev->samples = spec != NULL;
    if (!ev->pub.name)
        r = error_no_memory(err);
    else if (why)
        r = open_error(ev->pub.name, a, o->cpus, e->others, why, err);
    if (!r && !ev->own) {
        r = list_event_fds(&after, err);
        fds_subtract(&after, &before);
    }
    if (!r)
        r = event_take_fds(e, ev, &after, err);
    if (!r && spec)
        r = event_filter(ev, spec, err);
    vec_free(&before);
    vec_free(&after);
    return r;
}

static struct perf_evsel *evlist_add(struct events *e, struct perf_event_attr *a)
{
    struct perf_evsel *evsel = perf_evsel__new(a);
    if (evsel)
        perf_evlist__add(e->list, evsel);
    return evsel;
}

/* Add the attributes of all events to libperf's list. */
static int events_describe(const struct record_options *o, const struct event_targets *t,
                           struct events *e, struct error *err)
{
    struct perf_event_attr a;
    /* A running task may map and fork before its events are enabled, so track it at once. */
    e->tracking = !t->on_exec || o->delay_ms;
    e->others = t->others;
    for (size_t i = 0; i < o->events.nr; i++) {
        sampling_set(o, e, &o->events.at[i], &a);
        a.enable_on_exec = t->on_exec && !e->tracking;
        if (!e->tracking && i == 0)
            tracking_set(o, &a);
        if (!evlist_add(e, &a))
            return error_no_memory(err);
    }
    if (!e->tracking)
        return 0;
    a = (struct perf_event_attr){.type = PERF_TYPE_SOFTWARE,
                                 .config = PERF_COUNT_SW_DUMMY,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1};
    common_set(o, e, &a);
    tracking_set(o, &a);
    a.sample_period = 1;
    a.disabled = 0;
    return evlist_add(e, &a) ? 0 : error_no_memory(err);
}

/* Open each event of the list on these cpus and tasks. */
static int events_open_each(const struct record_options *o, struct events *e,
                            struct perf_cpu_map *cpus, struct perf_thread_map *tasks,
                            struct error *err)
{
    struct perf_evsel *evsel;
    perf_evlist__set_maps(e->list, cpus, tasks);
    e->nr_cpus = (size_t)perf_cpu_map__nr(cpus);
    e->nr_tasks = (size_t)perf_thread_map__nr(tasks);
    perf_evlist__for_each_evsel(e->list, evsel)
    {
        struct event_spec *spec = e->nr < o->events.nr ? &o->events.at[e->nr] : NULL;
        if (event_open(o, e, evsel, spec, &e->at[e->nr++], err) < 0)
            return -1;
    }
    if (!e->nr || !e->at[0].fds)
        return error_set(err, ERROR_NOT_FOUND, "there is no event to record");
    for (size_t i = 0; i < e->nr_cpus; i++) {
        struct capture_ring ring = {perf_cpu_map__cpu(cpus, (int)i).cpu,
                                    e->at[0].fds[i * e->nr_tasks]};
        if (!vec_push(&e->rings, ring))
            return error_no_memory(err);
    }
    return 0;
}

static int events_open_all(const struct record_options *o, const struct event_targets *t,
                           struct events *e, struct error *err)
{
    struct perf_cpu_map *cpus = perf_cpu_map__new(o->cpus);
    struct perf_thread_map *tasks =
        t->tids ? perf_thread_map__new_array((int)t->nr_tids, (pid_t *)t->tids)
                : perf_thread_map__new_dummy();
    int r = 0;
    e->cgroup = o->cgroup ? cgroup_open(o->cgroup, err) : -1;
    if (o->cgroup && e->cgroup < 0)
        r = -1;
    e->list = perf_evlist__new();
    e->at = calloc(o->events.nr + 1, sizeof(*e->at));
    if (!r && !cpus)
        r = error_set(err, ERROR_FORMAT, "-C %s: this is not a list of cpus",
                      o->cpus ? o->cpus : "");
    else if (!r && (!tasks || !e->list || !e->at))
        r = error_no_memory(err);
    if (!r)
        r = events_describe(o, t, e, err);
    if (!r)
        r = events_open_each(o, e, cpus, tasks, err);
    if (e->cgroup >= 0)
        close(e->cgroup); /* the events hold the group */
    e->cgroup = -1;
    perf_cpu_map__put(cpus); /* the list holds its own references */
    perf_thread_map__put(tasks);
    return r;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    const struct id_event *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int events_index(struct events *e, struct error *err)
{
    if (e->ids.nr)
        qsort(e->ids.at, e->ids.nr, sizeof(*e->ids.at), compare_ids);
    for (size_t i = 0; i < e->nr; i++) {
        const struct open_event *o = &e->at[i];
        for (size_t k = 0; o->samples && k < o->nr_fds; k++)
            if (!vec_push(&e->sampling, (struct capture_sampling){o->fds[k], &o->pub.attr}))
                return error_no_memory(err);
    }
    return 0;
}

/* Returns how many samples a second the machine allows; UINT64_MAX: it does not say. */
static uint64_t frequency_limit(void)
{
    long max = read_setting("/proc/sys/kernel/perf_event_max_sample_rate");
    return max > 0 ? (uint64_t)max : UINT64_MAX;
}

/* As perf does, reduce a frequency above the machine's limit (the user is told). */
static uint64_t allowed_frequency(const struct record_options *o)
{
    const uint64_t limit = frequency_limit();
    bool most = o->max_frequency && limit != UINT64_MAX;
    return most || o->frequency > limit ? limit : o->frequency;
}

/* There is one descriptor for each event, cpu and task: raise the limit as far as possible. */
static void raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* Returns samples a second and cpu; 0: not known, since they come by an event's period. */
static uint64_t expected_rate(const struct record_options *o)
{
    uint64_t rate = 0;
    vec_foreach (spec, &o->events) {
        bool tracepoint = spec->attr.type == PERF_TYPE_TRACEPOINT;
        if (o->period || (tracepoint && !o->user_frequency))
            return 0;
        rate += spec->resident ? spec->frequency : allowed_frequency(o);
    }
    return rate;
}

/* Choose the ring size by the rate: half a second of the largest samples, but not more than all
 * rings together may have. */
static uint64_t default_ring(const struct record_options *o)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t rate = expected_rate(o), bytes = RING_DEFAULT, sample = SAMPLE_REST;
    sample += o->callgraph == CALLGRAPH_DWARF ? o->stack_size : 0;
    sample += o->no_vm ? 0 : VMEVENT_MAX;
    while (rate && bytes > RING_SMALL && bytes / 2 * 1000 >= rate * RING_MS * sample)
        bytes /= 2;
    while (bytes > RING_SMALL && cpus > 0 && bytes * (uint64_t)cpus > RINGS_MAX)
        bytes /= 2;
    return bytes;
}

static int libperf_silent(enum libperf_print_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

/* Map one ring per cpu; the first event's first task owns it. */
static int events_map(struct events *e, struct error *err)
{
    size_t each = e->nr * e->nr_tasks;
    e->ring = calloc(e->nr_cpus + 1, sizeof(*e->ring));
    e->ring_fds = calloc(e->nr_cpus * each + 1, sizeof(*e->ring_fds));
    if (!e->ring || !e->ring_fds)
        return error_no_memory(err);
    size_t i = 0;
    vec_foreach (ring, &e->rings) {
        int *fds = e->ring_fds + i * each;
        for (size_t j = 0; j < e->nr; j++)
            for (size_t k = 0; k < e->nr_tasks && e->at[j].fds; k++)
                fds[j * e->nr_tasks + k] = e->at[j].fds[i * e->nr_tasks + k];
        if (ring_map(&e->ring[i++], ring->cpu, fds, each, e->ring_bytes, err) < 0)
            return -1;
    }
    return 0;
}

void events_enable(struct events *e, bool on)
{
    const unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
    for (size_t i = 0; i < e->nr; i++)
        for (size_t k = 0; k < e->at[i].nr_fds; k++)
            ioctl(e->at[i].fds[k], request, 0);
}

int events_open(const struct record_options *o, const struct event_targets *targets,
                struct events *ret, struct error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t ring = o->ring_bytes ? o->ring_bytes : default_ring(o), rate = expected_rate(o);
    raise_file_limit();
    libperf_init(libperf_silent); /* also sets libperf's page size */
    const uint64_t wanted = ring;
    bool to_clock = false, again = true;
    for (; again; ring /= 2) {
        struct events e = {.ring_bytes = ring,
                           .ring_wanted = wanted,
                           .build_ids = true,
                           .to_clock = to_clock, /* the first try changed the options' event */
                           .frequency = allowed_frequency(o),
                           .frequency_most = frequency_limit(),
                           .wakes_early =
                               o->wake_early && !o->wake_each && rate && rate <= WAKE_EACH_HZ_MAX};
        int r = events_open_all(o, targets, &e, err);
        again = false;
        if (!r && events_map(&e, err) < 0) {
            int why = err->kind == ERROR_SYSTEM ? err->sys_errno : ENOMEM;
            r = ring_error(ring, why, err);
            /* Smaller rings also wake the reader earlier, so the events are opened again. */
            again = !o->ring_bytes && (why == EPERM || why == ENOMEM) && ring > 16 * page;
        }
        if (!r)
            r = events_index(&e, err);
        if (!r) {
            *ret = e;
            return 0;
        }
        to_clock = e.to_clock;
        events_close(&e);
    }
    return -1;
}

void events_close(struct events *e)
{
    for (size_t i = 0; e->at && i < e->nr; i++) {
        free((char *)e->at[i].pub.name);
        free((uint64_t *)e->at[i].pub.ids);
        for (size_t k = 0; e->at[i].own && k < e->at[i].nr_fds; k++)
            close(e->at[i].fds[k]);
        free(e->at[i].fds);
    }
    for (size_t i = 0; e->ring && i < e->nr_cpus; i++)
        ring_unmap(&e->ring[i]);
    free(e->ring);
    free(e->ring_fds);
    if (e->list) /* not every libperf frees an event's references to the maps with the event */
        perf_evlist__set_maps(e->list, NULL, NULL);
    perf_evlist__delete(e->list); /* also closes the descriptors */
    free(e->at);
    vec_free(&e->sampling);
    vec_free(&e->rings);
    vec_free(&e->ids);
    *e = (struct events){0};
}

int events_add_ids(struct events *e, const uint64_t *ids, size_t nr, size_t index,
                   struct error *err)
{
    for (size_t i = 0; i < nr; i++)
        if (!vec_push(&e->ids, (struct id_event){ids[i], (uint32_t)index}))
            return error_no_memory(err);
    if (e->ids.nr)
        qsort(e->ids.at, e->ids.nr, sizeof(*e->ids.at), compare_ids);
    return 0;
}

int events_by_id(const struct events *e, uint64_t id)
{
    size_t low = 0, high = e->ids.nr;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (e->ids.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->ids.nr && e->ids.at[low].id == id ? (int)e->ids.at[low].event : -1;
}

uint64_t events_lost(const struct events *e, size_t event)
{
    const struct open_event *ev = &e->at[event];
    const uint64_t format = ev->pub.attr.read_format;
    const size_t nr = format & CAPTURE_TIMES ? 5 : 3; /* value, times, id, lost */
    uint64_t all = 0;
    if ((format | CAPTURE_TIMES) != (CAPTURE_READ_FORMAT | CAPTURE_TIMES))
        return 0;
    for (size_t i = 0; i < ev->nr_fds; i++) {
        uint64_t words[5];
        if (read(ev->fds[i], words, nr * sizeof(*words)) == (ssize_t)(nr * sizeof(*words)))
            all += words[nr - 1];
    }
    return all;
}
