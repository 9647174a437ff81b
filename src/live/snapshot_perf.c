/* SPDX-License-Identifier: GPL-2.0-only */
/* See snapshot_perf.h. The ids in the header of perf's own output say which descriptor is which
 * event; perf writes this header before it begins. */
#include "live/snapshot_perf.h"

#include "base/other_file.h"
#include "live/copier.h"
#include "live/plain_lua.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <perf/cpumap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERF_LINE                                                   \
    "perf record -a -k mono --call-graph=dwarf,65528 -e cpu-clock " \
    "-e bpf-output/no-inherit=1,call-graph=no,period=1,name=ljperf/"

/* A descriptor of perf that we have duplicated. */
struct perf_fd {
    uint64_t id;
    int fd;
};

struct snapshot_perf {
    pid_t pid;
    int pidfd;
    struct copier *copier;
    struct perfdata *output; /* perf's file; only its header is read */
    VEC(struct perf_fd) fds;
};

/* ---- perf's descriptors -------------------------------------------------------------------- */

static int take_event(struct snapshot_perf *p, int theirs, struct error *err)
{
    struct perf_fd f = {.fd = (int)syscall(SYS_pidfd_getfd, p->pidfd, theirs, 0)};
    if (f.fd < 0)
        return error_system(err, errno,
                            "the descriptors of process %d cannot be obtained by pidfd_getfd, "
                            "which needs its user, CAP_SYS_PTRACE and Linux 5.6",
                            (int)p->pid);
    if (ioctl(f.fd, PERF_EVENT_IOC_ID, &f.id) < 0 || !vec_push(&p->fds, f)) {
        close(f.fd);
        return error_system(err, errno, "an event of process %d cannot be used", (int)p->pid);
    }
    return 0;
}

static void try_output(struct snapshot_perf *p, const char *path)
{
    static const struct perfdata_options options = {.unordered = true};
    char magic[8] = "";
    int fd = p->output ? -1 : other_file_open(path);
    bool is = fd >= 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
              memcmp(magic, "PERFILE2", sizeof(magic)) == 0;
    if (fd >= 0)
        close(fd);
    if (is && perfdata_open(path, &options, &p->output, NULL) < 0)
        p->output = NULL;
}

static int take_one(struct snapshot_perf *p, const char *name, struct error *err)
{
    char path[64], target[256];
    snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)p->pid, name);
    ssize_t size = readlink(path, target, sizeof(target) - 1);
    target[size > 0 ? size : 0] = 0;
    if (strcmp(target, "anon_inode:[perf_event]") == 0)
        return take_event(p, atoi(name), err);
    if (target[0] == '/' && strncmp(target, "/dev/", 5) != 0 && strncmp(target, "/proc/", 6) != 0)
        try_output(p, path);
    return 0;
}

static int take_all(struct snapshot_perf *p, struct error *err)
{
    char path[64];
    int failed = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)p->pid);
    DIR *dir = opendir(path);
    if (!dir)
        return error_system(err, errno, "%s", path);
    for (struct dirent *e; !failed && (e = readdir(dir));)
        if (isdigit((unsigned char)e->d_name[0]))
            failed = take_one(p, e->d_name, err);
    closedir(dir);
    return failed;
}

static int fd_of(const struct snapshot_perf *p, uint64_t id)
{
    vec_foreach (f, &p->fds)
        if (f->id == id)
            return f->fd;
    return -1;
}

/* ---- wiring -------------------------------------------------------------------------------- */

static bool is_bpf_output(const struct perf_event_attr *a)
{
    return a->type == PERF_TYPE_SOFTWARE && a->config == PERF_COUNT_SW_BPF_OUTPUT;
}

static bool is_sampling(const struct perf_event_attr *a)
{
    return a->sample_period && !(a->type == PERF_TYPE_SOFTWARE && a->config == PERF_COUNT_SW_DUMMY);
}

/* Use one descriptor for each cpu, in the order of cpus; only a system-wide recording has these. */
static int wire_output(struct snapshot_perf *p, const struct perfdata_event *e, struct error *err)
{
    struct perf_cpu_map *cpus = perf_cpu_map__new(NULL);
    int nr = cpus ? perf_cpu_map__nr(cpus) : 0, failed = 0;
    if (nr <= 0 || (size_t)nr != e->nr_ids)
        failed = error_set(
            err, ERROR_UNSUPPORTED,
            "process %d does not record all cpus (-a), which is required: " PERF_LINE, (int)p->pid);
    for (int i = 0; i < nr && !failed; i++) {
        int fd = fd_of(p, e->ids[i]);
        if (fd < 0)
            failed = error_set(err, ERROR_UNSUPPORTED, "process %d has no descriptor of event %s",
                               (int)p->pid, e->name);
        else
            failed = copier_use_output(p->copier, perf_cpu_map__cpu(cpus, i).cpu, fd, err);
    }
    perf_cpu_map__put(cpus);
    return failed;
}

static int wire_samples(struct snapshot_perf *p, const struct perfdata_event *e, struct error *err)
{
    for (size_t i = 0; i < e->nr_ids; i++) {
        int fd = fd_of(p, e->ids[i]);
        if (fd >= 0 && copier_link(p->copier, fd, err) < 0)
            return -1;
    }
    return 0;
}

static int wire_all(struct snapshot_perf *p, struct error *err)
{
    const struct perfdata_event *output = NULL;
    for (size_t i = 0; i < perfdata_nr_events(p->output); i++)
        if (is_bpf_output(&perfdata_event(p->output, i)->attr))
            output = perfdata_event(p->output, i);
    if (!output)
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d records no bpf-output event, which vmstacks need: " PERF_LINE,
                         (int)p->pid);
    if (copier_create(0, false, &p->copier, err) < 0 || wire_output(p, output, err) < 0)
        return -1;
    for (size_t i = 0; i < perfdata_nr_events(p->output); i++) {
        const struct perfdata_event *e = perfdata_event(p->output, i);
        if (!is_bpf_output(&e->attr) && is_sampling(&e->attr) && wire_samples(p, e, err) < 0)
            return -1;
    }
    return 0;
}

int snapshot_perf_begin(pid_t perf, struct snapshot_perf **ret, struct error *err)
{
    struct snapshot_perf *p = calloc(1, sizeof(*p));
    if (!p)
        return error_no_memory(err);
    p->pid = perf;
    p->pidfd = (int)syscall(SYS_pidfd_open, perf, 0);
    int failed = p->pidfd < 0 ? error_system(err, errno, "process %d cannot be opened", (int)perf)
                              : take_all(p, err);
    if (!failed && (!p->fds.nr || !p->output))
        failed =
            error_set(err, ERROR_UNSUPPORTED,
                      "process %d is not a perf record that writes a file: " PERF_LINE, (int)perf);
    if (!failed)
        failed = wire_all(p, err);
    if (failed) {
        snapshot_perf_end(p);
        return -1;
    }
    *ret = p;
    return 0;
}

void snapshot_perf_end(struct snapshot_perf *p)
{
    if (!p)
        return;
    copier_free(p->copier);
    vec_foreach (f, &p->fds)
        close(f->fd);
    vec_free(&p->fds);
    perfdata_close(p->output);
    if (p->pidfd >= 0)
        close(p->pidfd);
    free(p);
}

/* ---- while it runs ------------------------------------------------------------------------- */

void snapshot_perf_vms(struct snapshot_perf *p, pid_t pid, const lua_scan_vm_list *vms)
{
    const struct copier_vms of = {.vms = vms->at, .nr = vms->nr};
    if (p)
        (void)copier_set(p->copier, pid, &of, NULL, NULL);
}

void snapshot_perf_plain(struct snapshot_perf *p, pid_t pid, struct runtime_files *files)
{
    if (p)
        (void)plain_lua_tell(p->copier, files, pid, NULL);
}

bool snapshot_perf_ended(const struct snapshot_perf *p)
{
    struct pollfd f = {.fd = p ? p->pidfd : -1, .events = POLLIN};
    return p && poll(&f, 1, 0) > 0;
}

const char *snapshot_perf_limit(const struct snapshot_perf *p)
{
    return p ? copier_limit(p->copier) : NULL;
}

void snapshot_perf_counts(const struct snapshot_perf *p, uint64_t *copies, uint64_t *of)
{
    *copies = *of = 0;
    if (!p)
        return;
    struct vmstack_counters c = copier_counters(p->copier);
    *copies = c.value[VMSTACK_COPIED];
    *of = c.value[VMSTACK_SAMPLES] - c.value[VMSTACK_UNKNOWN];
}
