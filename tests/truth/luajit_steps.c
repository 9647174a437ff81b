/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs a LuaJIT program under ptrace, stops it at random, and walks its stack, then again after
 * each of some single steps: so every instruction of the interpreter, of traces and of their
 * callees gets its turn. The memory is the process's own at that instant, so any fault is the
 * walker's.
 *
 * usage: luajit_steps PROGRAMS STOPS STEPS LUAJIT ARGUMENT...
 * Exits 77 where processes may not be traced.
 */
#include "luajit_tree.h"
#include "dso/dso.h"
#include "unwind/arch_x86_64.h"
#include "unwind/luajit/runtime.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAPS = 4096, BLOBS = 4, SHOWN = 3, WARM_US = 300000, BETWEEN_US = 3000 };

struct map {
    uint64_t start, end, offset;
    bool executable;
    struct dso *dso; /* NULL: no file */
};

static struct target {
    pid_t pid;
    struct dsos *dsos;
    struct map maps[MAPS];
    int nr_maps;
    struct luajit_blob blobs[BLOBS];
    size_t nr_blobs;
    luajit_vm_list vms;
} target;

static bool read_process(void *context, const struct memory_query *q, void *to,
                         struct memory_answer *answer)
{
    struct iovec local = {to, q->size}, remote = {(void *)(uintptr_t)q->address, q->size};
    (void)context, (void)answer;
    return process_vm_readv(target.pid, &local, 1, &remote, 1, 0) == (ssize_t)q->size;
}

static const struct memory_layer process_layer = {.read = read_process};

static void read_maps(void)
{
    char path[64], line[4096 + 128];
    snprintf(path, sizeof(path), "/proc/%d/maps", target.pid);
    FILE *f = fopen(path, "r");
    target.nr_maps = 0;
    while (f && target.nr_maps < MAPS && fgets(line, sizeof(line), f)) {
        unsigned long start, end, offset;
        char rights[8];
        int name = 0;
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &start, &end, rights, &offset, &name) < 4)
            continue;
        line[strcspn(line, "\n")] = 0;
        struct map *m = &target.maps[target.nr_maps++];
        *m = (struct map){start, end, offset, rights[2] == 'x', NULL};
        if (line[name] == '/')
            m->dso = dsos_get(target.dsos, DSO_FILE, line + name, NULL, 0);
    }
    if (f)
        fclose(f);
}

static bool lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    (void)context, (void)time;
    for (int i = 0; i < target.nr_maps; i++) {
        const struct map *m = &target.maps[i];
        uint64_t vaddr;
        if (pc < m->start || pc >= m->end)
            continue;
        *ret = (struct code){.owner = m->dso ? CODE_ELF : CODE_ANON,
                             .start = m->start,
                             .end = m->end,
                             .executable = m->executable,
                             .token = m};
        if (m->dso && dso_offset_to_vaddr(m->dso, pc - m->start + m->offset, &vaddr)) {
            ret->bias = pc - vaddr;
            ret->cfi = dso_cfi(m->dso);
            ret->cfi_id = ret->cfi ? m->dso->id : 0;
        }
        return true;
    }
    *ret = (struct code){.owner = CODE_NONE};
    return false;
}

static void find_vms(void)
{
    struct memory m = {.layers = &process_layer, .nr_layers = 1};
    for (int i = 0; i < target.nr_maps && target.nr_blobs < BLOBS; i++) {
        struct code code;
        const struct luajit_layout *l = NULL;
        if (target.maps[i].executable && target.maps[i].dso &&
            lookup(NULL, target.maps[i].start, 0, &code))
            l = luajit_of_module(code.cfi);
        if (l)
            target.blobs[target.nr_blobs++] = (struct luajit_blob){l, l->blob + code.bias};
    }
    for (int i = 0; i < target.nr_maps && target.nr_blobs; i++) {
        const struct memory_range range = {target.maps[i].start, target.maps[i].end};
        if (!target.maps[i].dso)
            luajit_vms_find(&m, &range, 1, target.blobs, target.nr_blobs, &target.vms, NULL);
    }
}

static void read_registers(struct registers *ret)
{
    struct user_regs_struct u = {0};
    ptrace(PTRACE_GETREGS, target.pid, NULL, &u);
    const uint64_t value[DWARF_NR] = {u.rax, u.rdx, u.rcx, u.rbx, u.rsi, u.rdi, u.rbp, u.rsp, u.r8,
                                      u.r9,  u.r10, u.r11, u.r12, u.r13, u.r14, u.r15, u.rip};
    memcpy(ret->value, value, sizeof(value));
    ret->arch = &arch_x86_64;
    ret->known = (1u << DWARF_NR) - 1;
}

struct totals {
    int counts[NR_VERDICTS], guess, no_position, nr, shown;
};

static void walk(struct unwinder *u, struct totals *t)
{
    static struct judge j;
    struct luajit_process process = {.vms = target.vms.at,
                                     .nr_vms = target.vms.nr,
                                     .blobs = target.blobs,
                                     .nr_blobs = target.nr_blobs,
                                     .namer = tree_namer()};
    struct walker walker = luajit_walker(&process);
    struct unwind_input in = {.memory = {.layers = &process_layer, .nr_layers = 1},
                              .code = {.lookup = lookup, .context = NULL},
                              .max_frames = TREE_FRAMES,
                              .walker = &walker};
    struct unwind_stack stack = {0};
    read_registers(&in.registers);
    tree_begin();
    if (unwind(u, &in, &stack, NULL))
        exit(1);
    enum verdict v = tree_judge(&j, &in.memory, target.blobs[0].layout, &stack);
    t->counts[v]++;
    t->nr++;
    t->guess += j.guess;
    t->no_position += j.no_position;
    if (v != EXACT && t->shown++ < SHOWN) {
        printf("  %s: %s; pc 0x%llx, in the interpreter 0x%llx\n", tree_verdict(v), j.why,
               (unsigned long long)in.registers.value[DWARF_RIP],
               (unsigned long long)(in.registers.value[DWARF_RIP] - target.blobs[0].address));
        tree_print(&j, &stack);
    }
    vec_free(&stack.frames);
}

static bool stopped(void)
{
    int status;
    return waitpid(target.pid, &status, 0) == target.pid && WIFSTOPPED(status);
}

/* Makes one stop and its steps. Returns false when the program is gone. */
static bool stop_and_step(struct unwinder *u, int steps, struct totals *t)
{
    enum { MAPS_EVERY = 256 };
    if (ptrace(PTRACE_INTERRUPT, target.pid, NULL, NULL) || !stopped())
        return false;
    for (int i = 0; i <= steps; i++) {
        if (i % MAPS_EVERY == 0)
            read_maps();
        /* on a slow machine LuaJIT may not have begun yet */
        if (target.vms.nr == 0) {
            target.nr_blobs = 0;
            find_vms();
        }
        if (target.nr_blobs == 0) {
            fprintf(stderr, "luajit_steps: no LuaJIT in the process\n");
            return false;
        }
        walk(u, t);
        if (i < steps && (ptrace(PTRACE_SINGLESTEP, target.pid, NULL, NULL) || !stopped()))
            return false;
    }
    return ptrace(PTRACE_CONT, target.pid, NULL, NULL) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: luajit_steps PROGRAMS STOPS STEPS LUAJIT ARGUMENT...\n");
        return 2;
    }
    int stops = atoi(argv[2]), steps = atoi(argv[3]);
    struct totals t = {0};
    tree_read_programs(argv[1]);
    target.dsos = dsos_create(NULL);
    struct unwinder *u = unwinder_create(NULL);
    target.pid = fork();
    if (target.pid == 0) {
        execv(argv[4], argv + 4);
        _exit(127);
    }
    usleep(WARM_US);
    if (!u || !target.dsos || target.pid < 0 || ptrace(PTRACE_SEIZE, target.pid, NULL, NULL)) {
        printf("processes may not be traced here\n");
        kill(target.pid, SIGKILL);
        return 77;
    }
    srand(1);
    for (int i = 0; i < stops && stop_and_step(u, steps, &t); i++)
        usleep((useconds_t)(rand() % BETWEEN_US));
    kill(target.pid, SIGKILL);
    waitpid(target.pid, NULL, 0);
    printf("%d stacks: exact %d, incomplete %d, wrong unmarked %d, wrong marked %d, not in Lua %d; "
           "guess %d, a position unknown %d\n",
           t.nr, t.counts[EXACT], t.counts[INCOMPLETE], t.counts[WRONG], t.counts[WRONG_MARKED],
           t.counts[NOT_IN_LUA], t.guess, t.no_position);
    unwinder_free(u);
    dsos_free(target.dsos);
    vec_free(&target.vms);
    /* The steps of one stop are correlated. The script asks for 99.5 % of the sum of all runs. */
    bool whole = t.nr >= stops && 100 * (int64_t)t.counts[EXACT] >= 90 * (int64_t)t.nr;
    return whole && 2000 * (int64_t)t.counts[WRONG] <= t.nr ? 0 : 1;
}
