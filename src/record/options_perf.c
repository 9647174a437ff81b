/* SPDX-License-Identifier: GPL-2.0-only */
/* perf record's options that ljperf record does not have (perf 6.1 to 6.17), and what to do
 * instead. */
#include "record/options.h"

#include <string.h>

static const char WITH_PERF[] = "leave it out, or record with perf, whose files ljperf also reads",
                  NOT_NEEDED[] = "leave it out; it is not needed here",
                  ROOM[] = "leave it out; -m SIZE makes more room";

static const struct {
    const char *names[2];
    const char *instead;
} OPTIONS[] = {
    {{"--per-thread"}, "leave it out; -t TID or -p PID follows threads to any cpu"},
    {{"--overwrite"},
     "--switch-output=10s --switch-max-files 2 keeps the last moments before SIGINT"},
    {{"-S", "--snapshot"}, "--switch-output begins a new file at SIGUSR2"},
    {{"--switch-output-event"}, "--switch-output begins a new file at SIGUSR2"},
    {{"-B", "--no-buildid"}, "leave it out; build ids come with the maps, at no cost"},
    {{"-I", "--intr-regs"}, WITH_PERF},
    {{"--user-regs"}, "leave it out; the registers that unwinding needs are recorded"},
    {{"--user-callchains"}, "--all-user samples user code only"},
    {{"--kernel-callchains"}, "--all-kernel samples kernel code only"},
    {{"--affinity"}, NOT_NEEDED},
    {{"--aio"}, "leave it out; -z makes less to write"},
    {{"--aux-sample"}, WITH_PERF},
    {{"--bpf-counters"}, WITH_PERF},
    {{"--clang-opt"}, WITH_PERF},
    {{"--clang-path"}, WITH_PERF},
    {{"--code-page-size"}, WITH_PERF},
    {{"--control"}, "-D MS begins later, and SIGINT ends the recording"},
    {{"--data-page-size"}, WITH_PERF},
    {{"--debuginfod"}, "leave it out; ljperf report asks the servers of DEBUGINFOD_URLS"},
    {{"--exclude-guest"}, "leave it out; guests are not sampled, except with the modifier G"},
    {{"--group"}, "name the events one by one; each is sampled by itself"},
    {{"--kcore"}, WITH_PERF},
    {{"--mmap-flush"}, ROOM},
    {{"--no-bpf-event"}, NOT_NEEDED},
    {{"--no-buffering"}, NOT_NEEDED},
    {{"--num-thread-synthesize"}, NOT_NEEDED},
    {{"--off-cpu-thresh"}, "--off-cpu=US has the microseconds of a wait"},
    {{"--phys-data"}, WITH_PERF},
    {{"--proc-map-timeout"}, NOT_NEEDED},
    {{"--running-time"}, WITH_PERF},
    {{"--setup-filter"}, WITH_PERF},
    {{"--synth"}, NOT_NEEDED},
    {{"--tail-synthesize"}, NOT_NEEDED},
    {{"--threads"}, ROOM},
    {{"--transaction"}, WITH_PERF},
    {{"--vmlinux"}, "give -k FILE to the command that reads the recording"},
};

const char *perf_record_instead(const char *name)
{
    size_t length = strcspn(name, "=");
    for (size_t i = 0; i < sizeof(OPTIONS) / sizeof(*OPTIONS); i++)
        for (size_t k = 0; k < 2; k++) {
            const char *known = OPTIONS[i].names[k];
            if (known && strlen(known) == length && strncmp(known, name, length) == 0)
                return OPTIONS[i].instead;
        }
    return NULL;
}
