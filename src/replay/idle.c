/* SPDX-License-Identifier: GPL-2.0-only */
/* What makes a wait idle: the rules. See idle.h. */
#include "replay/idle.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls --------------------------------------------------------------------------------- */

enum {
    NOT_THERE = 0xffff,
    X86_64_POLL = 7,
    X86_64_PPOLL = 271,
    AARCH64_PPOLL = 73,
    /* perf's bits of the registers of a system call's second argument */
    X86_64_SECOND = 4,  /* PERF_REG_X86_SI */
    AARCH64_SECOND = 1, /* PERF_REG_ARM64_X1 */
};

/* Numbers: asm/unistd_64.h of x86-64, asm-generic/unistd.h. */
static const struct {
    uint16_t x86_64, aarch64;
    uint8_t call;
} calls[] = {
    {232, NOT_THERE, IDLE_MANY}, /* epoll_wait */
    {281, 22, IDLE_MANY},        /* epoll_pwait */
    {441, 441, IDLE_MANY},       /* epoll_pwait2 */
    {43, 202, IDLE_MANY},        /* accept: whoever calls */
    {288, 242, IDLE_MANY},       /* accept4 */
    {208, 4, IDLE_MANY},         /* io_getevents */
    {333, 292, IDLE_MANY},       /* io_pgetevents */
    {426, 426, IDLE_MANY},       /* io_uring_enter */
    {34, NOT_THERE, IDLE_MANY},  /* pause */
    {128, 137, IDLE_MANY},       /* rt_sigtimedwait */
    {130, 133, IDLE_MANY},       /* rt_sigsuspend */
    {70, 188, IDLE_MANY},        /* msgrcv */
    {243, 183, IDLE_MANY},       /* mq_timedreceive */
    {0, 63, IDLE_ONE},           /* read */
    {19, 65, IDLE_ONE},          /* readv */
    {45, 207, IDLE_ONE},         /* recvfrom */
    {47, 212, IDLE_ONE},         /* recvmsg */
    {299, 243, IDLE_ONE},        /* recvmmsg */
    {X86_64_POLL, NOT_THERE, IDLE_ONE},
    {X86_64_PPOLL, AARCH64_PPOLL, IDLE_ONE},
    {23, NOT_THERE, IDLE_ONE}, /* select */
    {270, 72, IDLE_ONE},       /* pselect6 */
    {35, 101, IDLE_ONE},       /* nanosleep */
    {230, 115, IDLE_ONE},      /* clock_nanosleep */
    {202, 98, IDLE_FUTEX},
};

static bool is_aarch64(const struct arch *arch)
{
    return arch->elf_machine == EM_AARCH64;
}

static bool second_argument(const struct arch *arch, const struct sample *s, uint64_t *ret)
{
    return s && sample_user_reg(s, is_aarch64(arch) ? AARCH64_SECOND : X86_64_SECOND, ret);
}

static bool is_poll(const struct arch *arch, unsigned syscall)
{
    return is_aarch64(arch) ? syscall == AARCH64_PPOLL
                            : syscall == X86_64_POLL || syscall == X86_64_PPOLL;
}

enum idle_call idle_call_of(const struct arch *arch, unsigned syscall, const struct sample *s)
{
    uint64_t files;
    if (!arch || (!is_aarch64(arch) && arch->elf_machine != EM_X86_64))
        return IDLE_NO;
    if (is_poll(arch, syscall) && second_argument(arch, s, &files) && (uint32_t)files > 1)
        return IDLE_MANY;
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        if (syscall != NOT_THERE &&
            (is_aarch64(arch) ? calls[i].aarch64 : calls[i].x86_64) == syscall)
            return (enum idle_call)calls[i].call;
    return IDLE_NO;
}

bool idle_is_bitset(const struct arch *arch, const struct sample *s)
{
    enum { COMMAND = 0x7f, WAIT_BITSET = 9 }; /* linux/futex.h */
    uint64_t operation;
    return arch && second_argument(arch, s, &operation) && (operation & COMMAND) == WAIT_BITSET;
}

bool idle_waits_for_work(const char *symbol)
{
    /* Of C libraries, Rust's and Go's; a name begins with the first and has the second in it. */
    static const char *const names[][2] = {{"pthread_cond_", "wait"},
                                           {"sem_", "wait"},
                                           {"new_sem_", "wait"},
                                           {"std::sys::", "::Condvar::wait"},
                                           {"std::sys::", "::Parker::park"},
                                           {"runtime.notesleep", ""},
                                           {"runtime.notetsleep", ""}};
    if (!symbol)
        return false;
    symbol += strspn(symbol, "_");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strncmp(symbol, names[i][0], strlen(names[i][0])) == 0 && strstr(symbol, names[i][1]))
            return true;
    return false;
}

bool idle_takes_lock(const char *symbol)
{
    return symbol && (strstr(symbol, "lock") || strstr(symbol, "mutex"));
}

/* ---- judging ------------------------------------------------------------------------------- */

/* Returns how many outermost frames both have: the last of them calls different functions, or is at
 * different places. */
static size_t shared_frames(const struct idle_stack *a, const struct idle_stack *b)
{
    const size_t most = a->nr < b->nr ? a->nr : b->nr;
    size_t nr = 0;
    while (nr < most && a->frames[nr].pc == b->frames[nr].pc)
        nr++;
    return nr < most && a->frames[nr].function && a->frames[nr].function == b->frames[nr].function
               ? nr + 1
               : nr;
}

/* Returns how many frames a stack has up to the function that waits, or has called a library. */
static size_t outer_frames(const struct idle_stack *s)
{
    return s->nr > s->nr_inner ? s->nr - s->nr_inner : 0;
}

bool idle_judge_begin(struct idle_judge *j, const struct idle_wait *wait)
{
    *j = (struct idle_judge){.wait = wait, .left = calloc(wait->stack.nr + 1, sizeof(*j->left))};
    return j->left != NULL;
}

void idle_judge_add(struct idle_judge *j, const struct idle_stack *other, uint64_t samples)
{
    const size_t shared = shared_frames(&j->wait->stack, other);
    const size_t waiter = outer_frames(&j->wait->stack);
    j->left[shared] += samples;
    if (shared >= waiter && outer_frames(other) > waiter)
        j->work += samples;
}

static bool recurs(const struct idle_judge *j)
{
    const struct idle_wait *w = j->wait;
    if (w->call == IDLE_NO || (w->call == IDLE_FUTEX && w->first_thread))
        return false;
    if (w->call != IDLE_ONE)
        return w->samples > 1 || w->whole;
    return w->samples > 1 ? j->work > 0 : w->whole && !w->first_thread;
}

bool idle_judge_end(struct idle_judge *j)
{
    enum { ELSEWHERE = 20 };
    const struct idle_wait *w = j->wait;
    const size_t waiter = outer_frames(&w->stack);
    uint64_t all = 0, by_waiter = 0, by_loop = 0;
    for (size_t i = 0; i <= w->stack.nr; i++) {
        all += j->left[i];
        if (i >= waiter)
            by_waiter += j->left[i];
        else if (i && w->call != IDLE_ONE && j->left[i] > by_loop)
            by_loop = j->left[i];
    }
    free(j->left);
    return waiter && recurs(j) && all - by_waiter - by_loop <= all / ELSEWHERE;
}
