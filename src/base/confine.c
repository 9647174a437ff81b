/* SPDX-License-Identifier: GPL-2.0-only */
/* See confine.h. */
#include "base/confine.h"

#include "base/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- privileges ---------------------------------------------------------------------------- */

/* CAP_SYS_PTRACE: /proc/PID/mem, /proc/PID/root. CAP_DAC_READ_SEARCH: files that their user alone
 * may read. CAP_CHECKPOINT_RESTORE: /proc/PID/map_files, where a deleted file is found. */
static const uint64_t to_read = UINT64_C(1) << CAP_SYS_PTRACE | UINT64_C(1) << CAP_DAC_READ_SEARCH |
                                UINT64_C(1) << CAP_CHECKPOINT_RESTORE;

static bool get_capabilities(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    return syscall(SYS_capget, &head, data) == 0;
}

bool confine_is_wanted(void)
{
    struct __user_cap_data_struct now[2];
    return get_capabilities(now) && now[0].effective & 1U << CAP_SYS_PTRACE;
}

static bool keep_capabilities(uint64_t keep)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct now[2];
    if (!get_capabilities(now))
        return false;
    for (int i = 0; i < 2; i++) {
        now[i].permitted &= (uint32_t)(keep >> 32 * i);
        now[i].effective = now[i].permitted;
        now[i].inheritable = 0;
    }
    return syscall(SYS_capset, &head, now) == 0;
}

/* A user that owns nothing, so that no file can be written by its owner's right, and whom nobody
 * else is: a process may send signals to those of its user. systemd names this range as unused, and
 * no tool gives it away. In a container of which the range is no part, the user stays. */
static void change_user(void)
{
    enum { FIRST = 1879048192, RANGE = 1 << 22 };
    const uid_t user = FIRST + (uid_t)getpid() % RANGE;
    if (geteuid() != 0 || prctl(PR_SET_KEEPCAPS, 1) < 0)
        return;
    (void)setgroups(0, NULL);
    const bool changed = setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
    (void)changed;
}

static int leave_privileges(uint64_t keep, struct error *err)
{
    change_user();
    if (!keep_capabilities(keep))
        return error_system(err, errno, "capabilities cannot be given up");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* (a change of the user undoes it) */
    (void)prctl(PR_SET_DUMPABLE, 0); /* its memory is not for others, and a core file less so */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_system(err, errno, "privileges cannot be renounced for good");
    return 0;
}

/* ---- descriptors --------------------------------------------------------------------------- */

static void close_from(int first, int last)
{
    enum { MOST = 1 << 16 }; /* before Linux 5.9: one by one */
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    for (int fd = first; fd <= last && fd < MOST; fd++)
        close(fd);
}

/* The lowest descriptor of `keep` that is not below `from`; INT_MAX: there is none. */
static int next_kept(const int *keep, size_t nr, int from)
{
    int next = INT_MAX;
    for (size_t i = 0; i < nr; i++)
        next = keep[i] >= from && keep[i] < next ? keep[i] : next;
    return next;
}

/* Close all descriptors but standard error and `keep`, and lead standard input and output to
 * nowhere. */
static void leave_files(const int *keep, size_t nr)
{
    int from = STDERR_FILENO + 1, kept;
    while ((kept = next_kept(keep, nr, from)) < INT_MAX) {
        close_from(from, kept - 1);
        from = kept + 1;
    }
    close_from(from, INT_MAX);
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0)
        return;
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
}

/* ---- system calls -------------------------------------------------------------------------- */

#ifdef HAVE_SECCOMP
#include <linux/bpf.h>
#include <linux/fs.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static const int allowed[] = {
    SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(preadv), SCMP_SYS(lseek),
    SCMP_SYS(write), SCMP_SYS(writev), /* to standard error: no other descriptor can be written */
    SCMP_SYS(close), SCMP_SYS(fstat),
    /* its memory */
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(membarrier),
    /* itself */
    SCMP_SYS(futex), SCMP_SYS(rseq), SCMP_SYS(set_robust_list), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(restart_syscall), SCMP_SYS(getpid), SCMP_SYS(getppid),
    SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu), SCMP_SYS(getrandom), SCMP_SYS(uname), SCMP_SYS(sysinfo),
    SCMP_SYS(wait4), /* for its broker */
    /* time */
    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep)};

/* A broker's, besides those. */
static const int to_open[] = {SCMP_SYS(openat2),    SCMP_SYS(stat),     SCMP_SYS(lstat),
                              SCMP_SYS(newfstatat), SCMP_SYS(statx),    SCMP_SYS(fstatfs),
                              SCMP_SYS(statfs),     SCMP_SYS(readlink), SCMP_SYS(readlinkat),
                              SCMP_SYS(getdents64)};

#ifndef PAGEMAP_SCAN /* Linux 6.7: its argument has 96 bytes */
#define PAGEMAP_SCAN _IOC(_IOC_READ | _IOC_WRITE, 'f', 16, 96)
#endif

/* Allow a call if these bits (`mask`) of an argument are `value`. */
static bool allow(scmp_filter_ctx filter, int call, unsigned argument, uint64_t mask,
                  uint64_t value)
{
    const struct scmp_arg_cmp is = {argument, SCMP_CMP_MASKED_EQ, mask, value};
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &is) == 0;
}

/* A call that is harmless with these bits of an argument. */
struct some_call {
    int call;
    unsigned argument;
    uint64_t mask, value;
};

static bool allow_some(scmp_filter_ctx filter, const struct some_call *some, size_t nr)
{
    bool ok = true;
    for (size_t i = 0; i < nr && ok; i++)
        ok = some[i].call < 0 || /* this machine has no such call */
             allow(filter, some[i].call, some[i].argument, some[i].mask, some[i].value);
    return ok;
}

/* What a process may do with its own memory, what it has open, and itself. */
static bool allow_own(scmp_filter_ctx filter)
{
    const struct some_call some[] = {
        {SCMP_SYS(mmap), 2, PROT_EXEC, 0},
        {SCMP_SYS(mprotect), 2, PROT_EXEC, 0},
        {SCMP_SYS(newfstatat), 3, AT_EMPTY_PATH, AT_EMPTY_PATH}, /* fstat() of some C libraries */
        {SCMP_SYS(ioctl), 1, UINT32_MAX, PAGEMAP_SCAN},
        {SCMP_SYS(fcntl), 1, UINT32_MAX, F_GETFD},
        {SCMP_SYS(fcntl), 1, UINT32_MAX, F_SETFD},
        {SCMP_SYS(fcntl), 1, UINT32_MAX, F_GETFL},
        {SCMP_SYS(fcntl), 1, UINT32_MAX, F_DUPFD_CLOEXEC},
        {SCMP_SYS(bpf), 0, UINT32_MAX, BPF_MAP_LOOKUP_ELEM},
        {SCMP_SYS(bpf), 0, UINT32_MAX, BPF_MAP_UPDATE_ELEM},
        {SCMP_SYS(bpf), 0, UINT32_MAX, BPF_MAP_DELETE_ELEM},
        {SCMP_SYS(prlimit64), 2, UINT64_MAX, 0},         /* no new limit */
        {SCMP_SYS(sched_setaffinity), 0, UINT32_MAX, 0}, /* itself */
        {SCMP_SYS(tgkill), 0, UINT32_MAX, (uint64_t)getpid()},
    };
    return allow_some(filter, some, sizeof(some) / sizeof(*some));
}

/* What a broker may open: nothing that it could write. */
static bool allow_open(scmp_filter_ctx filter)
{
    const struct some_call some[] = {
        {SCMP_SYS(openat), 2, O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND, O_RDONLY},
        {SCMP_SYS(open), 1, O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND, O_RDONLY},
    };
    return allow_some(filter, some, sizeof(some) / sizeof(*some));
}

/* A call with a socket. (-1: no socket.) */
static bool allow_with(scmp_filter_ctx filter, int call, int socket)
{
    return socket < 0 || allow(filter, call, 0, UINT32_MAX, (uint64_t)(unsigned)socket);
}

/* Add a rule for each call that this machine has. */
static bool add_all(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t nr)
{
    bool ok = true;
    for (size_t i = 0; i < nr && ok; i++)
        ok = calls[i] < 0 || seccomp_rule_add(filter, action, calls[i], 0) == 0;
    return ok;
}

/* Load the filter if it is complete, and free it. */
static int load_filter(scmp_filter_ctx filter, bool ok, struct error *err)
{
    int why = !filter ? ENOMEM : ok ? -seccomp_load(filter) : EINVAL;
    if (filter)
        seccomp_release(filter);
    return why ? error_system(err, why, "system calls cannot be filtered") : 0;
}

/* A reader's calls: with what is open, its own memory and itself; and messages to `socket` (-1:
 * none), and to its broker and back. */
static int allow_reading(int socket, int broker, struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool ok = filter && allow_own(filter) &&
              add_all(filter, SCMP_ACT_ALLOW, allowed, sizeof(allowed) / sizeof(*allowed)) &&
              allow_with(filter, SCMP_SYS(sendmsg), socket) &&
              allow_with(filter, SCMP_SYS(sendmsg), broker) &&
              allow_with(filter, SCMP_SYS(recvmsg), broker);
    return load_filter(filter, ok, err);
}

/* A broker's calls: those to open, too, and messages to its reader and back. */
static int allow_opening(int reader, struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool ok = filter && allow_own(filter) && allow_open(filter) &&
              add_all(filter, SCMP_ACT_ALLOW, allowed, sizeof(allowed) / sizeof(*allowed)) &&
              add_all(filter, SCMP_ACT_ALLOW, to_open, sizeof(to_open) / sizeof(*to_open)) &&
              allow_with(filter, SCMP_SYS(sendmsg), reader) &&
              allow_with(filter, SCMP_SYS(recvfrom), reader);
    return load_filter(filter, ok, err);
}

/* What a recorder has no use for once it records, and what would help whoever takes it over.
 * `probes`: it opens events. */
static int forbid_calls(bool probes, struct error *err)
{
    static const int events[] = {SCMP_SYS(perf_event_open)};
    static const int calls[] = {SCMP_SYS(execve),
                                SCMP_SYS(execveat),
                                SCMP_SYS(ptrace),
                                SCMP_SYS(process_vm_writev),
                                SCMP_SYS(pidfd_getfd),
                                SCMP_SYS(process_madvise),
                                SCMP_SYS(kcmp),
                                SCMP_SYS(userfaultfd),
                                SCMP_SYS(socket),
                                SCMP_SYS(connect),
                                SCMP_SYS(bind),
                                SCMP_SYS(listen),
                                SCMP_SYS(accept),
                                SCMP_SYS(accept4),
                                SCMP_SYS(init_module),
                                SCMP_SYS(finit_module),
                                SCMP_SYS(delete_module),
                                SCMP_SYS(kexec_load),
                                SCMP_SYS(kexec_file_load),
                                SCMP_SYS(reboot),
                                SCMP_SYS(mount),
                                SCMP_SYS(umount2),
                                SCMP_SYS(pivot_root),
                                SCMP_SYS(chroot),
                                SCMP_SYS(setns),
                                SCMP_SYS(unshare),
                                SCMP_SYS(open_tree),
                                SCMP_SYS(move_mount),
                                SCMP_SYS(fsopen),
                                SCMP_SYS(fsconfig),
                                SCMP_SYS(fsmount),
                                SCMP_SYS(fspick),
                                SCMP_SYS(mount_setattr),
                                SCMP_SYS(swapon),
                                SCMP_SYS(swapoff),
                                SCMP_SYS(iopl),
                                SCMP_SYS(ioperm),
                                SCMP_SYS(mknod),
                                SCMP_SYS(mknodat),
                                SCMP_SYS(keyctl),
                                SCMP_SYS(add_key),
                                SCMP_SYS(request_key),
                                SCMP_SYS(open_by_handle_at),
                                SCMP_SYS(acct),
                                SCMP_SYS(clock_settime),
                                SCMP_SYS(settimeofday),
                                SCMP_SYS(sethostname),
                                SCMP_SYS(quotactl),
                                SCMP_SYS(personality),
                                SCMP_SYS(syslog)};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    bool ok = filter &&
              add_all(filter, SCMP_ACT_ERRNO(EPERM), calls, sizeof(calls) / sizeof(*calls)) &&
              add_all(filter, SCMP_ACT_ERRNO(EPERM), events, probes ? 0 : 1);
    return load_filter(filter, ok, err);
}
#else
static int not_filtered(struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED,
                     "system calls are not filtered: built without libseccomp");
}

static int allow_reading(int socket, int broker, struct error *err)
{
    (void)socket;
    (void)broker;
    return not_filtered(err);
}

static int allow_opening(int reader, struct error *err)
{
    (void)reader;
    return not_filtered(err);
}

static int forbid_calls(bool probes, struct error *err)
{
    (void)probes;
    return not_filtered(err);
}
#endif

/* ---- who gives up what --------------------------------------------------------------------- */

/* Called in the broker. It does not use the descriptors that the reader keeps. */
static int confine_broker(int socket, struct error *err)
{
    leave_files(&socket, 1);
    if (leave_privileges(to_read, err) < 0)
        return -1;
    return allow_opening(socket, err) < 0;
}

int confine_reader(const int *keep, size_t nr, int socket, bool bpf, struct error *err)
{
    (void)prctl(PR_SET_NAME, "ljperf-reader");
    leave_files(keep, nr);
    int broker = broker_begin(confine_broker, err);
    if (broker < 0 || leave_privileges(bpf ? UINT64_C(1) << CAP_BPF : 0, err) < 0)
        return -1;
    return allow_reading(socket, broker, err) < 0;
}

int confine_recorder(bool files, bool probes, struct error *err)
{
    /* Those of its own work, and of the processes that it may have to start. */
    static const uint64_t work = to_read | UINT64_C(1) << CAP_PERFMON | UINT64_C(1) << CAP_BPF |
                                 UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID |
                                 UINT64_C(1) << CAP_KILL;
    static const uint64_t more = UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_CHOWN |
                                 UINT64_C(1) << CAP_FOWNER |
                                 UINT64_C(1) << CAP_SYSLOG /* addresses in /proc/kallsyms */;
    static const uint64_t admin = UINT64_C(1) << CAP_SYS_ADMIN;
    if (!keep_capabilities(work | (files ? more : 0) | (probes ? admin : 0)))
        return error_system(err, errno, "capabilities cannot be given up");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_system(err, errno, "privileges cannot be renounced for good");
    return forbid_calls(probes, err);
}
