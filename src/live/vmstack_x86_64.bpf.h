/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of the copier depends on the machine, for x86-64. Part of vmstack.bpf.c;
 * vmstack_aarch64.bpf.h defines the same names.
 */

enum {
    ADDRESS_BITS = 47, /* of user addresses */
    SYSCALL_SIZE = 2,  /* bytes of the instruction */
    USER_CODE = 3,     /* low bits of cs in user mode */
    CODE_64 = 0x33,    /* cs of 64-bit code: __USER_CS of asm/segment.h */
};

typedef struct pt_regs user_registers;

static __always_inline int is_user_mode(uint64_t cs)
{
    return (cs & USER_CODE) == USER_CODE;
}
/* The names of registers: the one that says so, the program counter, the stack pointer. */
#define MODE cs
#define IP rip
#define SP rsp

/* X(member of struct here, register). LuaJIT's (vm_x64.dasc): PC rbx, BASE rdx, DISPATCH r14. */
#define FOR_EACH_REGISTER(X)                                              \
    X(ip, IP)                                                             \
    X(sp, SP)                                                             \
    X(kept[KEPT_PC], rbx)                                                 \
    X(kept[KEPT_FP], rbp)                                                 \
    X(kept[2], r12)                                                       \
    X(kept[3], r13)                                                       \
    X(kept[4], r15)                                                       \
    X(dispatch, r14)                                                      \
    X(base, rdx) /* an interrupt has saved it, a system call leaves it */ \
    X(argument, rdi)

/* ---- return addresses ------------------------------------------------------------------------ */

/* Where the C frame would be of an interpreter to which the return address at `at` belongs: right
 * above. */
static __always_inline uint64_t frame_of_return(const struct vmstack_vm *vm, uint64_t at)
{
    (void)vm;
    return at + 8;
}

/* Whether the C function that runs may have left nothing between sp and the C frame of the
 * interpreter that has called it. */
enum { LEAVES_NOTHING = 0 };

/* Get the address at which the code below a C frame returns. A trace has two words of its own below
 * the C frame, and as many bytes as its stack was adjusted by. */
static __always_inline uint64_t returned_into(const struct scratch *s, uint64_t cframe,
                                              uint16_t adjust)
{
    (void)s;
    return read_u64(cframe - 16 - adjust - 8);
}

/* returned_into() needs no search. (An argument that nobody uses would not be passed, which the
 * verifier refuses.) */
static __always_inline void find_return(struct scratch *s, uint64_t cframe)
{
    HIDDEN(cframe);
    (void)s;
}

#ifdef VMSTACK_BTF

/* ---- the kernel's fields --------------------------------------------------------------------- */

struct thread_struct {
    unsigned long fsbase;
} RELOCATED;
#define THREAD_POINTER thread.fsbase

/* Bytes of a kernel stack (THREAD_SIZE of asm/page_64_types.h), and where on it the kernel's entry
 * code has saved the user's registers: at its end (task_pt_regs() of asm/processor.h; the padding
 * that some later kernels have came with 6.9). */
static __always_inline uint64_t registers_on_stack(uint64_t stack, int kasan)
{
    return stack + (kasan ? 32 << 10 : 16 << 10) - sizeof(struct pt_regs);
}

static __always_inline int32_t system_call(const user_registers *from)
{
    return (int32_t)saved(&from->orig_rax);
}

static __always_inline uint32_t is_64bit(const user_registers *from)
{
    return saved(&from->cs) == CODE_64;
}

/* ---- of a probed function, at its first instructions and at its return ------------------------
 */

/* Returns an argument, from 1 to 6 (System V ABI); 0 for number 0. */
static __always_inline uint64_t argument(const user_registers *from, uint64_t n)
{
    const uint64_t *at = n == 1   ? (const uint64_t *)&from->rdi
                         : n == 2 ? (const uint64_t *)&from->rsi
                         : n == 3 ? (const uint64_t *)&from->rdx
                         : n == 4 ? (const uint64_t *)&from->rcx
                         : n == 5 ? (const uint64_t *)&from->r8
                                  : (const uint64_t *)&from->r9;
    return n ? saved(at) : 0; /* (a program may read its context itself at fixed places only) */
}

static __always_inline uint64_t result(const user_registers *from)
{
    return from->rax;
}

static __always_inline uint64_t stack_pointer(const user_registers *from)
{
    return from->rsp;
}

static __always_inline uint64_t return_address(const user_registers *from)
{
    return read_u64(from->rsp);
}

/* Read the user's registers, as perf numbers them (asm/perf_regs.h). */
static __always_inline void read_registers(const user_registers *from, uint64_t *to)
{
    to[0] = saved(&from->rax);
    to[1] = saved(&from->rbx);
    to[2] = saved(&from->rcx);
    to[3] = saved(&from->rdx);
    to[4] = saved(&from->rsi);
    to[5] = saved(&from->rdi);
    to[6] = saved(&from->rbp);
    to[OFF_CPU_SP] = saved(&from->rsp);
    to[OFF_CPU_IP] = saved(&from->rip);
    to[9] = saved(&from->eflags);
    to[10] = saved(&from->cs);
    to[11] = saved(&from->ss);
    to[16] = saved(&from->r8);
    to[17] = saved(&from->r9);
    to[18] = saved(&from->r10);
    to[19] = saved(&from->r11);
    to[20] = saved(&from->r12);
    to[21] = saved(&from->r13);
    to[22] = saved(&from->r14);
    to[23] = saved(&from->r15);
}

#endif
