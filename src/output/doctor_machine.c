/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Can this machine record? The answer comes from trying (events are opened, a ring is mapped, a
 * program is loaded), because privileges, security modules and virtual machines make any conclusion
 * from settings wrong. Settings are read only to explain the results.
 */
#include "base/first_line.h"
#include "live/copier.h"
#include "output/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum verdict { OK, WARN, MISSING };

enum { STACK_BYTES = 65528 }; /* the most that perf copies */

struct examination {
    struct text *out;
    bool able;
    uint64_t capabilities; /* effective capabilities, one bit each */
};

/* Print one line: the verdict, what was examined, what was found, and the cure. */
static void say(struct examination *x, enum verdict verdict, const char *what, const char *found,
                const char *cure)
{
    static const char *const words[] = {"ok", "warn", "missing"};
    text_printf(x->out, "%-8s %-16s %s\n", words[verdict], what, found);
    if (verdict != OK && cure)
        text_printf(x->out, "%-25s -> %s\n", "", cure);
    x->able &= verdict != MISSING;
}

/* ---- reading settings ---------------------------------------------------------------------- */

static bool read_number(const char *path, long *ret)
{
    char line[64];
    if (!first_line(path, line, sizeof(line)))
        return false;
    char *end;
    *ret = strtol(line, &end, 10);
    return end != line;
}

static uint64_t read_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    if (syscall(SYS_capget, &head, data) < 0)
        return 0;
    return data[0].effective | (uint64_t)data[1].effective << 32;
}

static bool capable(const struct examination *x, unsigned capability)
{
    return x->capabilities >> capability & 1;
}

static bool may_perf(const struct examination *x)
{
    return capable(x, CAP_PERFMON) || capable(x, CAP_SYS_ADMIN);
}

/* ---- perf ---------------------------------------------------------------------------------- */

static void check_perf(struct examination *x)
{
    char line[128] = "";
    FILE *f = popen("perf --version 2>/dev/null", "re");
    bool got = f && fgets(line, sizeof(line), f);
    int status = f ? pclose(f) : -1;
    line[strcspn(line, "\n")] = 0;
    if (got && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        say(x, OK, "perf", line, NULL);
    else
        say(x, WARN, "perf", "perf cannot be run",
            "ljperf record does not need it; its package is linux-perf (Debian), "
            "linux-tools-$(uname "
            "-r) (Ubuntu) or perf (Fedora, Arch)");
}

/* ---- events -------------------------------------------------------------------------------- */

/* Open an event on ljperf itself in the way of perf record --call-graph=dwarf,65528 -k mono.
 * Returns its descriptor, or -errno. */
static int open_event(uint32_t type, uint64_t config, bool user_only)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = type,
        .config = config,
        .sample_freq = 999,
        .freq = 1,
        .disabled = 1,
        .exclude_kernel = user_only,
        .exclude_hv = user_only,
        .exclude_callchain_user = 1,
        .exclude_callchain_kernel = user_only,
        .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
                       PERF_SAMPLE_PERIOD | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_regs_user = perfdata_user_registers(),
        .sample_stack_user = STACK_BYTES,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static const char *const paranoid_cure =
    "set sysctl kernel.perf_event_paranoid=1, or run as root, or setcap cap_perfmon+ep perf";

/* Returns the event's descriptor, or -1. */
static int check_event(struct examination *x, const char *what, uint32_t type, uint64_t config,
                       enum verdict without, const char *cure)
{
    char found[160];
    int fd = open_event(type, config, false);
    if (fd >= 0) {
        say(x, OK, what, "opens with user registers, 64 KiB of stack and the monotonic clock",
            NULL);
        return fd;
    }
    int why = -fd;
    bool denied = why == EACCES || why == EPERM;
    fd = denied ? open_event(type, config, true) : fd;
    if (fd >= 0) {
        say(x, WARN, what, "opens for user code only, so stacks will have no kernel frames",
            paranoid_cure);
        return fd;
    }
    why = -fd;
    denied = why == EACCES || why == EPERM;
    snprintf(found, sizeof(found), "does not open: %s", strerror(why));
    say(x, without, what, found, denied ? paranoid_cure : cure);
    return -1;
}

static void check_ring(struct examination *x, int fd)
{
    enum { RING_MB = 16 };
    size_t size = ((size_t)RING_MB << 20) + (size_t)sysconf(_SC_PAGESIZE);
    char found[160];
    struct rlimit locked = {0};
    long kb = 0;
    void *ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring != MAP_FAILED) {
        munmap(ring, size);
        say(x, OK, "buffers", "16 MiB for each cpu can be mapped (-m 16M)", NULL);
        return;
    }
    getrlimit(RLIMIT_MEMLOCK, &locked);
    read_number("/proc/sys/kernel/perf_event_mlock_kb", &kb);
    snprintf(found, sizeof(found),
             "16 MiB for each cpu cannot be mapped (perf_event_mlock_kb %ld, locked memory %" PRIu64
             " KiB)",
             kb, (uint64_t)locked.rlim_cur / 1024);
    say(x, WARN, "buffers", found,
        "set ulimit -l unlimited or sysctl kernel.perf_event_mlock_kb=16896; otherwise samples may "
        "be lost");
}

static void check_events(struct examination *x)
{
    int cycles = check_event(x, "event cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, WARN,
                             "the machine has no hardware counters, perhaps because it is virtual; "
                             "record with -e cpu-clock");
    int clock =
        check_event(x, "event cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, MISSING,
                    "this kernel has no perf events (CONFIG_PERF_EVENTS), or a "
                    "container forbids them");
    if (clock >= 0)
        check_ring(x, clock);
    if (clock >= 0)
        close(clock);
    if (cycles >= 0)
        close(cycles);
}

static void check_paranoid(struct examination *x)
{
    char found[160];
    long level;
    if (!read_number("/proc/sys/kernel/perf_event_paranoid", &level)) {
        say(x, MISSING, "perf_event_paranoid",
            "the file is missing, because this kernel has no perf events",
            "use a kernel with CONFIG_PERF_EVENTS");
        return;
    }
    if (may_perf(x)) {
        snprintf(found, sizeof(found), "%ld, but it does not apply to privileged users", level);
        say(x, OK, "paranoid level", found, NULL);
        return;
    }
    snprintf(found, sizeof(found), "%ld: %s", level,
             level < 0   ? "everything is allowed"
             : level < 1 ? "all processes, kernel included"
             : level < 2 ? "own processes, kernel included"
             : level < 3 ? "own processes, user code only"
                         : "nothing is allowed");
    say(x, level < 2 ? OK : level < 3 ? WARN : MISSING, "paranoid level", found, paranoid_cure);
}

static void check_rate(struct examination *x)
{
    char found[96];
    long rate;
    if (!read_number("/proc/sys/kernel/perf_event_max_sample_rate", &rate))
        return;
    snprintf(found, sizeof(found), "up to %ld samples a second", rate);
    say(x, rate >= 1000 ? OK : WARN, "sample rate", found,
        "set sysctl kernel.perf_event_max_sample_rate=100000 (the kernel lowers it under load)");
}

/* ---- kernel names, memory of other processes, eBPF ------------------------------------------ */

static void check_kallsyms(struct examination *x)
{
    char line[256];
    long restricted = 0;
    char found[96];
    read_number("/proc/sys/kernel/kptr_restrict", &restricted);
    bool shown = first_line("/proc/kallsyms", line, sizeof(line)) && strtoull(line, NULL, 16) != 0;
    snprintf(found, sizeof(found), "%s (kptr_restrict %ld)",
             shown ? "addresses can be read"
                   : "addresses are hidden, so kernel frames get no names",
             restricted);
    say(x, shown ? OK : WARN, "kernel symbols", found,
        "set sysctl kernel.kptr_restrict=0 (and perf_event_paranoid at most 1), or record as root");
}

/* No capability is required as such. What capabilities would allow is tried separately. */
static void check_capabilities(struct examination *x)
{
    char found[96];
    snprintf(found, sizeof(found), "%s%s%s%s%s", capable(x, CAP_PERFMON) ? "perfmon " : "",
             capable(x, CAP_BPF) ? "bpf " : "", capable(x, CAP_SYS_PTRACE) ? "sys_ptrace " : "",
             capable(x, CAP_SYS_ADMIN) ? "sys_admin " : "",
             may_perf(x) ? "" : "(to perf this is an ordinary user)");
    size_t size = strlen(found);
    if (size && found[size - 1] == ' ')
        found[size - 1] = 0;
    say(x, OK, "capabilities", found, NULL);
}

static void check_ptrace(struct examination *x)
{
    long scope = 0;
    char found[128];
    if (!read_number("/proc/sys/kernel/yama/ptrace_scope", &scope))
        scope = 0;
    bool any = capable(x, CAP_SYS_PTRACE);
    snprintf(found, sizeof(found), "memory of %s can be read (ptrace_scope %ld)",
             any          ? "every process"
             : scope == 0 ? "own processes"
             : scope == 1 ? "child processes"
                          : "no process",
             scope);
    say(x, any || scope < 2 ? OK : WARN, "other processes", found,
        "set sysctl kernel.yama.ptrace_scope=1, or run as root");
}

/* Load the same program that records, and unload it. */
static void check_bpf(struct examination *x)
{
    char found[320];
    struct copier *copier;
    struct error why = {0};
    if (copier_create(STACK_BYTES, false, &copier, &why) < 0) {
        static const char prefix[] = "eBPF: ";
        bool named = strncmp(why.text, prefix, strlen(prefix)) == 0;
        say(x, WARN, "eBPF", why.text + (named ? strlen(prefix) : 0),
            "without it, Lua stacks are read after the samples, not with them; native stacks do "
            "not "
            "need it");
        return;
    }
    snprintf(found, sizeof(found), "the copier loads: %s", copier_program(copier));
    say(x, copier_limit(copier) ? WARN : OK, "eBPF", found, copier_limit(copier));
    copier_free(copier);
}

static void check_debuginfod(struct examination *x)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    bool set = urls && *urls;
    say(x, set ? OK : WARN, "debuginfod", set ? urls : "DEBUGINFOD_URLS is not set",
        "install debug packages; without them, functions of stripped system libraries have no "
        "names");
}

void doctor_machine(struct text *out, bool *able)
{
    struct examination x = {.out = out, .able = true, .capabilities = read_capabilities()};
    check_perf(&x);
    check_capabilities(&x);
    check_paranoid(&x);
    check_events(&x);
    check_rate(&x);
    check_kallsyms(&x);
    check_ptrace(&x);
    check_bpf(&x);
    check_debuginfod(&x);
    text_string(out, x.able
                         ? "\nRecording will work: ljperf record COMMAND, or perf record "
                           "--call-graph=dwarf,65528 -k mono [-e cpu-clock] [-m 16M] COMMAND\n"
                         : "\nRecording will not work until everything marked missing is fixed.\n");
    *able = x.able;
}
