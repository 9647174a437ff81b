/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of the copier depends on the machine, for AArch64. Part of vmstack.bpf.c;
 * vmstack_x86_64.bpf.h defines the same names.
 */

enum {
    ADDRESS_BITS = 48, /* of user addresses */
    SYSCALL_SIZE = 4,  /* bytes of the instruction */
    /* Of pstate (asm/ptrace.h): PSR_MODE_MASK is 0 in user mode, and so is PSR_MODE32_BIT in 64-bit
     * code. */
    MODE_MASK = 0xf,
    MODE_32 = 0x10,
    FRAME_RECORD = 16, /* bytes of x29 and x30, the highest ones in LuaJIT's C frame */
};

/* What the kernel's struct pt_regs begins with. */
typedef struct user_pt_regs user_registers;

static __always_inline int is_user_mode(uint64_t pstate)
{
    return !(pstate & MODE_MASK);
}
/* The names of registers: the one that says so, the program counter, the stack pointer. */
#define MODE pstate
#define IP pc
#define SP sp

/* X(member of struct here, register). LuaJIT's (lj_target_arm64.h, vm_arm64.dasc): PC x21, BASE
 * x19, and GL x22, which is g itself. */
#define FOR_EACH_REGISTER(X)   \
    X(ip, IP)                  \
    X(sp, SP)                  \
    X(kept[KEPT_PC], regs[21]) \
    X(kept[KEPT_FP], regs[29]) \
    X(kept[2], regs[20])       \
    X(kept[3], regs[23])       \
    X(kept[4], regs[24])       \
    X(kept[5], regs[25])       \
    X(kept[6], regs[26])       \
    X(kept[7], regs[27])       \
    X(kept[8], regs[28])       \
    X(dispatch, regs[22])      \
    X(base, regs[19])          \
    X(argument, regs[0])

/* ---- return addresses ------------------------------------------------------------------------ */

/* Where the C frame would be of an interpreter to which the return address at `at` belongs: the
 * word below is the interpreter's x29, which points to the frame record in its C frame. */
static __always_inline uint64_t frame_of_return(const struct vmstack_vm *vm, uint64_t at)
{
    return read_u64(at - 8) + FRAME_RECORD - vm->frame_size;
}

/* Whether the C function that runs may have left nothing between sp and the C frame of the
 * interpreter that has called it: the return address is in x30. */
enum { LEAVES_NOTHING = 1 };

/* Get the address at which the code below a C frame returns: find_return() has found it. (An
 * argument that nobody uses would not be passed, which the verifier refuses.) */
static __always_inline uint64_t returned_into(const struct scratch *s, uint64_t cframe,
                                              uint16_t adjust)
{
    HIDDEN(cframe);
    (void)adjust;
    return s->returned;
}

/* Follow the frame records from x29 to the one that was made by the function that was called while
 * x29 pointed into the C frame. Traces do not change x29. */
static __always_inline void find_return(struct scratch *s, uint64_t cframe)
{
    enum { RECORDS = 16 };
    uint64_t fp = s->kept[KEPT_FP], last = cframe + s->vm.frame_size - FRAME_RECORD;
    s->returned = 0;
    for (int i = 0; i < RECORDS; i++) {
        uint64_t next = read_u64(fp);
        if (next == last) {
            s->returned = read_u64(fp + 8);
            break;
        }
        if (next <= fp)
            break;
        fp = next;
    }
}

#ifdef VMSTACK_BTF

/* ---- the kernel's fields --------------------------------------------------------------------- */

struct thread_struct {
    struct {
        unsigned long tp_value;
    } uw;
} RELOCATED;
#define THREAD_POINTER thread.uw.tp_value

struct pt_regs {
    int syscallno;
} RELOCATED;

/* Bytes of a kernel stack (THREAD_SIZE of asm/memory.h), and where on it the kernel's entry code
 * has saved the user's registers: at its end (task_pt_regs() of asm/processor.h). */
static __always_inline uint64_t registers_on_stack(uint64_t stack, int kasan)
{
    uint64_t size = kasan ? 32 << 10 : 16 << 10;
    size = size < config.page ? config.page : size;
    return stack + size - bpf_core_type_size(struct pt_regs);
}

static __always_inline int32_t system_call(const user_registers *from)
{
    int32_t number = -1;
    bpf_probe_read_kernel(&number, sizeof(number), &((const struct pt_regs *)from)->syscallno);
    return number;
}

static __always_inline uint32_t is_64bit(const user_registers *from)
{
    return !(saved(&from->pstate) & (MODE_MASK | MODE_32));
}

/* ---- of a probed function, at its first instruction and at its return -------------------------
 */

/* Returns an argument, from 1 to 8 (AAPCS64); 0 for number 0. */
static __always_inline uint64_t argument(const user_registers *from, uint64_t n)
{
    return n ? saved(&from->regs[n - 1 & 7]) : 0;
}

static __always_inline uint64_t result(const user_registers *from)
{
    return from->regs[0];
}

static __always_inline uint64_t stack_pointer(const user_registers *from)
{
    return from->sp;
}

static __always_inline uint64_t return_address(const user_registers *from)
{
    return from->regs[30];
}

/* Read the user's registers, as perf numbers them (asm/perf_regs.h): x0 to x30, sp, pc. */
static __always_inline void read_registers(const user_registers *from, uint64_t *to)
{
    bpf_probe_read_kernel(to, OFF_CPU_REGISTERS * sizeof(*to), from);
}

#endif
