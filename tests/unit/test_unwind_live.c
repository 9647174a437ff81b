/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stacks of this process: captured, walked offline from the copy, and compared with libgcc's
 * unwinder at the same place.
 */
#include "unwind_self.h"
#include "unwind/arch_x86_64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

enum { MAX = 256, STACK_COPY = 1 << 20 };

struct capture {
    uint64_t expected[MAX];
    int nr_expected;
    struct registers registers;
    uint8_t *stack;
    size_t stack_size;
};

static struct capture cap; /* filled deep in a call chain or a signal handler */

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *arg)
{
    (void)arg;
    if (cap.nr_expected < MAX && _Unwind_GetIP(context) != 0)
        cap.expected[cap.nr_expected++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static __attribute__((noinline)) void capture(void)
{
    ucontext_t uc;
    cap.nr_expected = 0;
    _Unwind_Backtrace(note_frame, NULL);
    getcontext(&uc);
    cap.registers = self_registers(&uc);
    cap.stack = self_stack(registers_sp(&cap.registers), STACK_COPY, &cap.stack_size);
    assert_non_null(cap.stack);
}

static __attribute__((noinline)) int chain(int depth)
{
    volatile char room[64];
    room[0] = (char)depth;
    if (depth == 0)
        capture();
    else
        room[1] = (char)chain(depth - 1);
    return room[0];
}

struct walked {
    struct self *self;
    struct unwinder *u;
    struct unwind_stack stack;
};

static void walk_capture(struct walked *w, size_t cut, bool whole_memory)
{
    struct memory_layer layer = self_memory();
    struct unwind_input in = {
        .registers = cap.registers,
        .memory = {.stack = cap.stack,
                   .stack_start = registers_sp(&cap.registers),
                   .stack_size = cut < cap.stack_size ? cut : cap.stack_size,
                   .layers = &layer,
                   .nr_layers = whole_memory},
        .code = self_codemap(w->self),
        .max_frames = MAX,
    };
    w->stack.frames.nr = 0;
    assert_int_equal(unwind(w->u, &in, &w->stack, NULL), 0);
}

static int setup(void **state)
{
    struct walked *w = calloc(1, sizeof(*w));
    w->self = self_create();
    w->u = unwinder_create(NULL);
    *state = w;
    memset(&cap, 0, sizeof(cap));
    return w->self && w->u ? 0 : -1;
}

static int teardown(void **state)
{
    struct walked *w = *state;
    vec_free(&w->stack.frames);
    unwinder_free(w->u);
    self_free(w->self);
    free(w);
    free(cap.stack);
    return 0;
}

/* libgcc's frame `i` is in capture() for i = 0, at another pc than getcontext's. */
static void assert_same(const struct walked *w)
{
    assert_int_equal(w->stack.end, STACK_COMPLETE);
    assert_int_equal(w->stack.frames.nr, cap.nr_expected);
    for (int i = 1; i < cap.nr_expected; i++) {
        assert_int_equal(w->stack.frames.at[i].pc, cap.expected[i]);
        assert_int_equal(w->stack.frames.at[i].provenance, PROVENANCE_EXACT);
    }
}

static void calls(void **state)
{
    struct walked *w = *state;
    chain(20);
    walk_capture(w, SIZE_MAX, false);
    assert_same(w);
    assert_true(w->stack.frames.nr > 20);
    struct unwinder_stats before = unwinder_stats(w->u);
    walk_capture(w, SIZE_MAX, false); /* the same from the cache */
    assert_same(w);
    assert_int_equal(unwinder_stats(w->u).rule_misses, before.rule_misses);
}

static void truncated(void **state)
{
    struct walked *w = *state;
    chain(20);
    walk_capture(w, SIZE_MAX, false);
    size_t whole = w->stack.frames.nr;
    struct frame all[MAX];
    memcpy(all, w->stack.frames.at, whole * sizeof(*all));
    for (size_t cut = 0; cut < 2000; cut += 8) {
        walk_capture(w, cut, false);
        size_t nr = w->stack.frames.nr;
        assert_true(nr > 0 && nr <= whole);
        for (size_t i = 0; i < nr; i++) {
            assert_int_equal(w->stack.frames.at[i].pc, all[i].pc);
            assert_int_equal(w->stack.frames.at[i].cfa, all[i].cfa);
        }
        if (nr == whole)
            continue;
        assert_int_equal(w->stack.end, STACK_TRUNCATED);
        assert_true(w->stack.end_address + 8 > registers_sp(&cap.registers) + cut);
    }
}

static void on_signal(int sig)
{
    volatile int frame_of_its_own = sig; /* prevents a tail call */
    capture();
    frame_of_its_own++;
}

static __attribute__((noinline)) int raise_in(int depth)
{
    volatile int value = depth;
    if (depth > 0)
        value += raise_in(depth - 1);
    else
        raise(SIGUSR1);
    return value;
}

static void catch_signal(int flags)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGUSR1, &sa, NULL);
    raise_in(5);
    signal(SIGUSR1, SIG_DFL);
}

static void signal_frame(void **state)
{
    struct walked *w = *state;
#if defined(__aarch64__)
    if (!getauxval(AT_SYSINFO_EHDR)) {
        print_message("no vdso: the trampoline of signals is in no file\n");
        skip();
    }
#endif
    catch_signal(0);
    walk_capture(w, SIZE_MAX, false);
    assert_same(w);
    /* capture, on_signal, the trampoline, then the interrupted frame: its pc is exact. */
    assert_int_equal(w->stack.frames.at[3].flags, FRAME_SIGNAL);
    assert_int_equal(w->stack.frames.at[2].flags, FRAME_MADE);
}

static void alternate_stack(void **state)
{
    struct walked *w = *state;
    size_t size = 1 << 16;
    uint8_t *alternate =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t ss = {.ss_sp = alternate, .ss_size = size}, off = {.ss_flags = SS_DISABLE};
    sigaltstack(&ss, NULL);
    catch_signal(SA_ONSTACK);
    sigaltstack(&off, NULL);
    /* The interrupted frames still exist: this function has not returned. */
    walk_capture(w, SIZE_MAX, false);
    assert_int_equal(w->stack.end, STACK_TRUNCATED); /* the copy is of the other stack */
    assert_int_equal(w->stack.frames.at[3].flags, FRAME_SIGNAL);
    size_t seen = w->stack.frames.nr;
    assert_true(seen >= 4);
    for (size_t i = 1; i < seen; i++)
        assert_int_equal(w->stack.frames.at[i].pc, cap.expected[i]);
    munmap(alternate, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls, setup, teardown),
        cmocka_unit_test_setup_teardown(truncated, setup, teardown),
        cmocka_unit_test_setup_teardown(signal_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(alternate_stack, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
