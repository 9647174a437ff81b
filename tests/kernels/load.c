// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads each program of the copier's objects into this kernel, alone, configured as in
 * src/live/copier.c, and prints a line for each:
 *
 *     vmstack_task: loads, 263696 instructions verified, 1.74 s
 *     vmstack_task: REFUSED (Permission denied) after 2.31 s: R1 unbounded memory access ...
 *
 * A refused program is loaded again with the verifier's whole log, whose end goes to
 * PROGRAM.verifier.
 *
 * usage: load OBJECT...    exits 0: all load; 1: some do not
 */
#include "src/live/vmstack.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>

#define LOG_STATISTICS 4 /* BPF_LOG_STATS, BPF_LOG_LEVEL1: include/linux/bpf_verifier.h */
#define LOG_ALL 5
#define LOG_SIZE (256u << 20)
#define LOG_KEPT (1u << 20)
#define STACK 65528

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int no_print(enum libbpf_print_level level, const char *format, va_list arguments)
{
    (void)level;
    (void)format;
    (void)arguments;
    return 0;
}

/* Sets what the copier sets before it loads: the verifier takes it as constant. */
static int configure(struct bpf_object *object)
{
    const unsigned cpus = (unsigned)libbpf_num_possible_cpus();
    const struct vmstack_config config = {.nr_cpus = cpus, .stack = STACK};
    struct bpf_map *map;
    bpf_object__for_each_map(map, object)
    {
        const char *name = bpf_map__name(map);
        int failed = 0;
        if (strcmp(name, "scratches") == 0 || strcmp(name, "lua_scratches") == 0 ||
            strcmp(name, "outputs") == 0)
            failed = bpf_map__set_max_entries(map, cpus);
        else if (strstr(name, ".rodata"))
            failed = bpf_map__set_initial_value(map, &config, sizeof(config));
        if (failed)
            return failed;
    }
    return 0;
}

/* Prints the last line of a log that gives the reason. Only statistics follow that line. */
static void print_reason(const char *log)
{
    const char *end = strstr(log, "\nverification time ");
    if (!end)
        end = strstr(log, "\nprocessed ");
    if (!end)
        end = log + strlen(log);
    while (end > log && end[-1] == '\n')
        end--;
    const char *line = end;
    while (line > log && line[-1] != '\n')
        line--;
    printf("%.*s\n", (int)(end - line), line);
}

static void keep_log(const char *program, const char *log)
{
    char path[256];
    size_t size = strlen(log);
    snprintf(path, sizeof(path), "%s.verifier", program);
    FILE *out = fopen(path, "w");
    if (!out)
        return;
    fwrite(size > LOG_KEPT ? log + size - LOG_KEPT : log, 1, size > LOG_KEPT ? LOG_KEPT : size,
           out);
    fclose(out);
}

/* Programs that need a later kernel than the others, and how they are attached (enum
 * bpf_attach_type; 0: as their section says). */
static const struct later {
    const char *program;
    int major, minor, attach_type;
} later[] = {{"alloc_session", 6, 13, 57}, /* BPF_TRACE_UPROBE_SESSION, where headers know it */
             {"alloc_call", 5, 15, 0},
             {"alloc_return", 5, 15, 0},
             {"alloc_collect", 5, 15, 0}};

static const struct later *later_find(const char *program)
{
    for (size_t i = 0; i < sizeof(later) / sizeof(*later); i++)
        if (strcmp(later[i].program, program) == 0)
            return &later[i];
    return NULL;
}

static bool is_too_new(const struct later *l)
{
    struct utsname kernel;
    int major = 0, minor = 0;
    if (uname(&kernel) < 0 || sscanf(kernel.release, "%d.%d", &major, &minor) != 2)
        return false;
    return major < l->major || (major == l->major && minor < l->minor);
}

/* Returns 0, or the reason (a negative errno). */
static int load_one(const char *path, const char *program, unsigned level, char *log,
                    double *ret_seconds)
{
    LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "vmstack", .kernel_log_buf = log,
                .kernel_log_size = LOG_SIZE, .kernel_log_level = level);
    *log = 0;
    struct bpf_object *object = bpf_object__open_file(path, &options);
    struct bpf_program *p;
    if (!object)
        return -errno;
    bpf_object__for_each_program(p, object)
        bpf_program__set_autoload(p, strcmp(bpf_program__name(p), program) == 0);
    const struct later *l = later_find(program);
    p = bpf_object__find_program_by_name(object, program);
    if (p && l && l->attach_type)
        bpf_program__set_expected_attach_type(p, (enum bpf_attach_type)l->attach_type);
    int failed = configure(object);
    double begin = now();
    if (!failed)
        failed = bpf_object__load(object);
    *ret_seconds = now() - begin;
    bpf_object__close(object);
    return failed;
}

static int load_told(const char *path, const char *program, char *log)
{
    double seconds = 0;
    const struct later *l = later_find(program);
    if (l && is_too_new(l)) {
        printf("%s: needs Linux %d.%d\n", program, l->major, l->minor);
        return 0;
    }
    int failed = load_one(path, program, LOG_STATISTICS, log, &seconds);
    if (!failed) {
        const char *counted = strstr(log, "processed ");
        printf("%s: loads, %d instructions verified, %.2f s\n", program,
               counted ? atoi(counted + 10) : 0, seconds);
        return 0;
    }
    printf("%s: REFUSED (%s) after %.2f s: ", program, strerror(-failed), seconds);
    print_reason(log);
    fflush(stdout);
    load_one(path, program, LOG_ALL, log, &seconds);
    keep_log(program, log);
    return -1;
}

int main(int argc, char **argv)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}; /* for kernels before 5.11 */
    int status = 0;
    char *log = malloc(LOG_SIZE);
    setrlimit(RLIMIT_MEMLOCK, &all);
    libbpf_set_print(no_print);
    if (!log)
        return 2;
    for (int i = 1; i < argc; i++) {
        struct bpf_object *object = bpf_object__open_file(argv[i], NULL);
        struct bpf_program *p;
        if (!object) {
            printf("%s: %s\n", argv[i], strerror(errno));
            status = 1;
            continue;
        }
        bpf_object__for_each_program(p, object) if (load_told(argv[i], bpf_program__name(p), log) !=
                                                    0) status = 1;
        bpf_object__close(object);
    }
    free(log);
    return status;
}
