/* SPDX-License-Identifier: GPL-2.0-only */
/* Load eBPF programs, and explain why one was refused. See bpf_load.h. */
#include "live/bpf_load.h"

#include "base/first_line.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    LOG_STATISTICS = 4,       /* BPF_LOG_STATS of include/linux/bpf_verifier.h: errors and counts */
    LOG_SIZE = 64 << 10,      /* bytes; such a log has some hundred */
    OLDEST = 508,             /* Linux 5.8: has BPF_MAP_TYPE_RINGBUF, CAP_BPF and bpf_link_create */
    NO_LOCKED_MEMORY = 511,   /* Linux 5.11 and later charge maps to the memory cgroup */
    COOKIES = 515,            /* Linux 5.15: bpf_get_attach_cookie() */
    MAPS_BY_DESCRIPTOR = 519, /* Linux 5.19: who has a map's descriptor may use it */
};

/* ---- what this machine is ------------------------------------------------------------------ */

/* Reads the kernel's release; "?": not known. Returns its version, 601 for Linux 6.1; 0: not
 * known. */
static int kernel_release(struct utsname *ret)
{
    int major = 0, minor = 0;
    if (uname(ret) < 0)
        snprintf(ret->release, sizeof(ret->release), "?");
    bool known = sscanf(ret->release, "%d.%d", &major, &minor) == 2;
    return known ? 100 * major + minor : 0;
}

bool bpf_maps_need_capability(void)
{
    struct utsname kernel;
    return kernel_release(&kernel) < MAPS_BY_DESCRIPTOR;
}

bool bpf_has_cookies(void)
{
    struct utsname kernel;
    int version = kernel_release(&kernel);
    return !version || version >= COOKIES;
}

/* Read the lockdown mode: "none", "integrity", "confidentiality". It is "none", too, where the
 * kernel has no lockdown. */
static void read_lockdown(char *to, size_t size)
{
    char line[128];
    snprintf(to, size, "none");
    if (!first_line("/sys/kernel/security/lockdown", line, sizeof(line)))
        return;
    char *open = strchr(line, '['), *close = open ? strchr(open, ']') : NULL;
    if (close)
        snprintf(to, size, "%.*s", (int)(close - open - 1), open + 1);
}

bool bpf_may_read_kernel(void)
{
    char mode[32];
    read_lockdown(mode, sizeof(mode));
    return strcmp(mode, "confidentiality") != 0;
}

static bool has_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &head, data) < 0)
        return true; /* nothing shows that capabilities are the obstacle */
    uint64_t effective = data[0].effective | (uint64_t)data[1].effective << 32;
    bool admin = effective >> CAP_SYS_ADMIN & 1;
    return admin || ((effective >> CAP_BPF & 1) && (effective >> CAP_PERFMON & 1));
}

static bool in_user_namespace(void)
{
    enum { FIRST = 0xeffffffd }; /* the kernel's PROC_USER_INIT_INO */
    struct stat ns;
    return stat("/proc/self/ns/user", &ns) == 0 && ns.st_ino != FIRST;
}

static bool is_filtered(void)
{
    char line[256];
    int mode = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "Seccomp: %d", &mode) != 1)
        ;
    if (f)
        fclose(f);
    return mode == 2;
}

/* Whether something forbids the call. The kernel itself answers EINVAL to an unknown command, if
 * the caller is privileged. */
static bool is_call_forbidden(void)
{
    enum { NO_COMMAND = 9999 };
    union bpf_attr attr = {0};
    return syscall(SYS_bpf, NO_COMMAND, &attr, sizeof(attr)) < 0 && errno != EINVAL;
}

/* ---- reasons ------------------------------------------------------------------------------- */

/* Whether maps count as locked memory and this memory is limited. *ret: the limit in KiB. */
static bool is_memory_limited(uint64_t *ret)
{
    struct utsname kernel;
    struct rlimit locked;
    if (kernel_release(&kernel) >= NO_LOCKED_MEMORY || getrlimit(RLIMIT_MEMLOCK, &locked) < 0)
        return false;
    *ret = (uint64_t)locked.rlim_cur >> 10;
    return locked.rlim_cur != RLIM_INFINITY;
}

static int refused_by_permission(int why, const char *what, struct error *err)
{
    char mode[32];
    uint64_t locked;
    if (!has_capabilities())
        return error_system(
            err, why,
            "eBPF: %s: it needs the capabilities CAP_BPF and CAP_PERFMON (run as root, "
            "or setcap cap_bpf,cap_perfmon+ep ljperf)",
            what);
    if (in_user_namespace())
        return error_system(err, why,
                            "eBPF: %s: capabilities of a user namespace do not count (run outside "
                            "of it, or in a container without one)",
                            what);
    if (is_call_forbidden() && is_filtered())
        return error_system(err, why,
                            "eBPF: %s: a seccomp filter forbids it (a container's: allow bpf and "
                            "perf_event_open in its profile)",
                            what);
    if (is_memory_limited(&locked))
        return error_system(err, why,
                            "eBPF: %s: it exceeds the limit of locked memory, %" PRIu64
                            " KiB, which applies before Linux 5.11 (ulimit -l unlimited)",
                            what, locked);
    read_lockdown(mode, sizeof(mode));
    if (strcmp(mode, "none") != 0)
        return error_system(
            err, why, "eBPF: %s: the kernel is locked down (%s: /sys/kernel/security/lockdown)",
            what, mode);
    return error_system(err, why,
                        "eBPF: %s: it is forbidden although the capabilities are there, perhaps by "
                        "a security module (see dmesg or the audit log)",
                        what);
}

static int refused_by_kernel(int why, const char *what, struct error *err)
{
    struct utsname kernel;
    int version = kernel_release(&kernel);
    if (version && version < OLDEST)
        return error_system(err, why, "eBPF: %s: Linux 5.8 is needed, this is %s", what,
                            kernel.release);
    if (why == E2BIG)
        return error_system(err, why, "eBPF: %s: it is too large for Linux %s", what,
                            kernel.release);
    return error_system(err, why, "eBPF: %s: Linux %s lacks something that it needs", what,
                        kernel.release);
}

int bpf_refused(int why, const char *what, struct error *err)
{
    switch (why) {
    case EPERM:
    case EACCES:
        return refused_by_permission(why, what, err);
    case ENOMEM:
        return error_system(err, why, "eBPF: %s: the kernel has no memory for it", what);
    case ENOSYS:
        return error_system(err, why, "eBPF: %s: %s", what,
                            is_filtered()
                                ? "a seccomp filter hides it (a container's: allow bpf in "
                                  "its profile)"
                                : "this kernel has none (CONFIG_BPF_SYSCALL)");
    case EINVAL:
    case E2BIG:
    case ENOTSUP:
    case ESRCH:
        return refused_by_kernel(why, what, err);
    case EEXIST:
        return error_system(err, why, "eBPF: %s: another eBPF program runs on that event already",
                            what);
    default:
        return error_system(err, why, "eBPF: %s", what);
    }
}

/* ---- the verifier's log -------------------------------------------------------------------- */

static unsigned count_in(const char *log)
{
    const char *counted = strstr(log, "processed ");
    return counted ? (unsigned)strtoul(counted + strlen("processed "), NULL, 10) : 0;
}

/* Returns the last line that gives a reason, which only statistics follow. *length 0: there is
 * none. */
static const char *reason_in(const char *log, int *length)
{
    static const char *const counts[] = {"verification time ", "processed ", "stack depth "};
    const char *end = log + strlen(log);
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        const char *at = strncmp(log, counts[i], strlen(counts[i])) == 0 ? log : NULL;
        for (const char *line = log; !at && (line = strchr(line, '\n')); line++)
            if (strncmp(line + 1, counts[i], strlen(counts[i])) == 0)
                at = line + 1;
        end = at && at < end ? at : end;
    }
    while (end > log && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    const char *line = end;
    while (line > log && line[-1] != '\n')
        line--;
    *length = (int)(end - line);
    return line;
}

static int refused_by_verifier(const char *name, int why, const char *log, struct error *err)
{
    enum { SHOWN = 110 };
    struct utsname kernel;
    int length;
    const char *line = reason_in(log, &length);
    (void)kernel_release(&kernel);
    error_set(err, ERROR_UNSUPPORTED,
              "eBPF: the verifier of Linux %.40s refuses %s after %u instructions: %.*s (please "
              "report this line)",
              kernel.release, name, count_in(log), length < SHOWN ? length : SHOWN, line);
    if (err)
        err->sys_errno = why;
    return -1;
}

/* ---- loading ------------------------------------------------------------------------------- */

/* libbpf does not print; errors report what failed. */
static int no_print(enum libbpf_print_level level, const char *format, va_list arguments)
{
    (void)level;
    (void)format;
    (void)arguments;
    return 0;
}

static bool is_helper_call(const struct bpf_insn *i, int helper)
{
    return i->code == (BPF_JMP | BPF_CALL) && !i->src_reg && !i->dst_reg && i->imm == helper;
}

/* Restore the calls to bpf_probe_read_user that were compiled. libbpf tests whether the kernel has
 * this helper with a program that calls bpf_probe_read_kernel. A locked-down kernel refuses the
 * test program. libbpf then replaces both helpers with bpf_probe_read (Linux 5.4), which is refused
 * as well. */
static int keep_user_reads(struct bpf_program *program, struct bpf_prog_load_opts *options,
                           long cookie)
{
    size_t nr = bpf_program__insn_cnt(program);
    struct bpf_insn *code = malloc(nr * sizeof(*code));
    (void)options;
    (void)cookie;
    if (!code)
        return -ENOMEM;
    memcpy(code, bpf_program__insns(program), nr * sizeof(*code));
    for (size_t i = 0; i < nr; i++)
        if (is_helper_call(&code[i], BPF_FUNC_probe_read))
            code[i].imm = BPF_FUNC_probe_read_user;
    int failed = bpf_program__set_insns(program, code, nr);
    free(code);
    return failed;
}

static bool is_wanted(const struct bpf_image *image, const char *program)
{
    for (const char *const *name = image->more; name && *name; name++)
        if (strcmp(*name, program) == 0)
            return true;
    return strcmp(image->name, program) == 0;
}

/* The programs get their own log: libbpf would write the log of their types (BTF) into a shared
 * one. */
static int open_image(const struct bpf_image *image, char *log, struct bpf_loaded *ret,
                      struct bpf_program **program, struct error *err)
{
    LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "ljperf");
    ret->object = bpf_object__open_mem(image->bytes, image->size, &options);
    if (!ret->object)
        return error_system(err, errno, "eBPF: %s", image->name);
    *program = bpf_object__find_program_by_name(ret->object, image->name);
    if (!*program)
        return error_set(err, ERROR_NOT_FOUND, "eBPF: %s: the object has no such program",
                         image->name);
    if (image->attach_type)
        (void)bpf_program__set_expected_attach_type(*program,
                                                    (enum bpf_attach_type)image->attach_type);
    struct bpf_program *each;
    bpf_object__for_each_program(each, ret->object)
    {
        bool wanted = is_wanted(image, bpf_program__name(each));
        (void)bpf_program__set_autoload(each, wanted);
        if (wanted && log &&
            (bpf_program__set_log_buf(each, log, LOG_SIZE) < 0 ||
             bpf_program__set_log_level(each, LOG_STATISTICS) < 0))
            return error_set(err, ERROR_UNSUPPORTED, "eBPF: %s: the verifier wrote no log",
                             image->name);
    }
    return 0;
}

static int load_logged(const struct bpf_image *image, bpf_configure configure, void *context,
                       char *log, struct bpf_loaded *ret, struct error *err)
{
    struct bpf_program *program = NULL;
    char what[64];
    int length = 0;
    if (open_image(image, log, ret, &program, err) < 0)
        return -1;
    if (configure && configure(context, ret->object, err) < 0)
        return -1;
    int failed = bpf_object__load(ret->object);
    if (failed && log)
        (void)reason_in(log, &length);
    if (failed && length)
        return refused_by_verifier(image->name, -failed, log, err);
    snprintf(what, sizeof(what), "loading %s", image->name);
    if (failed)
        return bpf_refused(-failed, what, err);
    ret->program = bpf_program__fd(program);
    ret->instructions = log ? count_in(log) : 0;
    return 0;
}

int bpf_load(const struct bpf_image *image, bpf_configure configure, void *context,
             struct bpf_loaded *ret, struct error *err)
{
    struct error why = {0};
    char *log = calloc(1, LOG_SIZE);
    if (!log)
        return error_no_memory(err);
    LIBBPF_OPTS(libbpf_prog_handler_opts, user_reads, .prog_prepare_load_fn = keep_user_reads);
    libbpf_print_fn_t before = libbpf_set_print(no_print);
    int handler = -1;
    if (!bpf_may_read_kernel())
        handler =
            libbpf_register_prog_handler("perf_event", BPF_PROG_TYPE_PERF_EVENT, 0, &user_reads);
    *ret = (struct bpf_loaded){.program = -1};
    int failed = load_logged(image, configure, context, log, ret, &why);
    if (failed && why.sys_errno == ENOSPC) { /* the program loads, but its log does not fit */
        bpf_object__close(ret->object);
        *ret = (struct bpf_loaded){.program = -1};
        failed = load_logged(image, configure, context, NULL, ret, &why);
    }
    if (handler >= 0)
        (void)libbpf_unregister_prog_handler(handler);
    libbpf_set_print(before);
    free(log);
    if (!failed)
        return 0;
    bpf_object__close(ret->object);
    ret->object = NULL;
    if (err)
        *err = why;
    return -1;
}
