/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of perf record's options that ljperf record does not have (perf 6.1 to 6.17). */
#include "record/options.h"

#include <string.h>

static const char *const NAMES[] = {
    "-b",
    "--branch-any",
    "-j",
    "--branch-filter",
    "-B",
    "--no-buildid",
    "--data",
    "-G",
    "--cgroup",
    "-I",
    "--intr-regs",
    "-n",
    "--no-samples",
    "-S",
    "--snapshot",
    "-s",
    "--stat",
    "-W",
    "--weight",
    "--affinity",
    "--aio",
    "--all-cgroups",
    "--aux-sample",
    "--bpf-counters",
    "--clang-opt",
    "--clang-path",
    "--code-page-size",
    "--control",
    "--data-page-size",
    "--debuginfod",
    "--filter",
    "--exclude-guest",
    "--group",
    "--kcore",
    "--kernel-callchains",
    "--mmap-flush",
    "--namespaces",
    "--no-bpf-event",
    "--no-buffering",
    "--num-thread-synthesize",
    "--off-cpu-thresh",
    "--overwrite",
    "--per-thread",
    "--phys-data",
    "--proc-map-timeout",
    "--running-time",
    "--setup-filter",
    "--switch-events",
    "--switch-output-event",
    "--synth",
    "--tail-synthesize",
    "--threads",
    "--transaction",
    "--user-callchains",
    "--user-regs",
    "--vmlinux",
};

bool perf_record_option(const char *name)
{
    size_t length = strcspn(name, "=");
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++)
        if (strlen(NAMES[i]) == length && strncmp(NAMES[i], name, length) == 0)
            return true;
    return false;
}
