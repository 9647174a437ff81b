/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The copier: runs on perf events, in the interrupt of a sample. It copies the bytes of this
 * thread's Lua stacks into one bpf-output record before the sample itself is written. It only
 * copies: which VM, which frame and what they mean is decided offline.
 *
 * A VM runs on this thread if the C frame through which its running lua_State was entered lies
 * between the user's stack pointer and the end of the thread's stack. The lowest such C frame
 * belongs to the innermost VM. The resumer of a coroutine is found by the C frame right above the
 * coroutine's own, if the return address lies in the interpreter.
 *
 * Every address comes from the target and may have any value: reads fail, they do not fault. Loops
 * are bounded. The verifier checks each turn of a loop, but checks a function that is not inlined
 * only once: so what a long loop does seldom is a function of its own. No vmlinux.h is needed: the
 * few kernel fields used are declared here and relocated.
 *
 * One source makes two objects. vmstack_task (VMSTACK_BTF) reads the kernel's structures, and needs
 * the kernel's type information (BTF) for that. vmstack_plain needs none.
 *
 * Both load on Linux 5.8 and later (tests/kernels), which requires some care:
 *   - No atomic instructions: before 5.12 none of them returns a value. The counters here belong to
 *     one cpu, and an interrupt in an interrupt has ended when the outer one goes on.
 *   - A bound is checked right before its use, after the calls, and on the very value that is used
 *     (HIDDEN): older verifiers lose it for a copy of the value, or a value kept on the stack.
 *   - A helper that older kernels lack is called only if the kernel's types name it.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "perfdata/vmevent_layout.h"
#include "src/live/vmstack.h"

#ifdef VMSTACK_BTF
int vmstack_task(struct bpf_perf_event_data *ctx);
int vmstack_trace(void *ctx);
int vmstack_probe(void *ctx);
#else
int vmstack_plain(struct bpf_perf_event_data *ctx);
#endif
int copy(uint64_t address, uint64_t length, uint32_t what);
int copy_pages(uint64_t from, uint64_t to, uint32_t what);
int copy_function(uint32_t slot, uint32_t level);
int copy_proto(uint32_t function, uint32_t level);
int copy_call(uint64_t link, uint32_t level);
int copy_group(uint32_t at, uint32_t nr, uint32_t first, uint32_t what);
int copy_functions(uint32_t at, uint32_t nr, uint32_t level, uint32_t upward);
int copy_state(uint64_t L, uint32_t level);
uint64_t first_frame(uint64_t L);
uint64_t state_of(uint64_t si);
uint64_t find_in_words(uint64_t from);
uint64_t find_enterer(uint64_t from);
uint64_t outer_of(uint64_t L);
int copy_outer(uint64_t L);
uint64_t inner_of(uint64_t L, uint64_t sp);
uint64_t innermost_state(uint64_t sp);
int digest_words(uint32_t size, uint32_t second, uint32_t third);
int digest_range(uint64_t from, uint32_t size, uint32_t second, uint32_t third);
int copy_digest(uint64_t trace, uint32_t head);
int copy_code(uint64_t code, uint32_t size);
int copy_trace(int32_t n);
int is_entered(uint32_t n, uint64_t cframe);
int entered_of(uint64_t word, uint64_t cframe, uint32_t size);
int find_collecting(uint64_t cframe, uint32_t size);
int find_newest(uint64_t cframe);
int copy_vm(uint64_t L);
int find_candidate(uint32_t i, uint64_t sp, uint64_t end);
int find_candidates(uint64_t sp, uint64_t end);
int find_lowest(uint32_t nr, uint64_t from);
int copy_native(uint64_t sp, uint64_t end, int look);

/* For the fields of the kernel's structures: libbpf relocates them through BTF. */
#define RELOCATED __attribute__((preserve_access_index))

enum {
    VMSTACK_WORDS = 64, /* words of the native stack that are examined at once */
    VMSTACK_GROUP = 32, /* slots of a Lua stack, likewise; divides VMSTACK_SCANNED */
    /* Places of two registers in here.kept: the interpreter's PC, and the frame pointer. */
    KEPT_PC = 0,
    KEPT_FP = 1,
};

/* ---- maps ------------------------------------------------------------------------------------ */

/* Where the lines of a function's instructions are. */
struct lines {
    uint64_t code, at; /* addresses of the first instruction, and of the second one's line */
    uint32_t sizebc;   /* 0: none, or copied already */
    uint32_t width;    /* bytes of a line */
};

/* Working memory of one cpu's interrupt. The verifier checks each function below that is not
 * inlined by itself, and knows nothing of its arguments. So these functions take numbers, and look
 * this up. */
struct scratch {
    uint64_t cframe[VMSTACK_VMS];
    uint64_t state[VMSTACK_VMS];
    uint64_t g[VMSTACK_VMS];
    uint32_t busy, best;
    uint32_t process; /* key of the process whose VMs are looked up */
    uint32_t size;    /* bytes of the payload so far */
    uint32_t bad;     /* VMs whose words could not be read */
    uint32_t runs;    /* whether a VM was found that runs on this thread */
    uint32_t nr;      /* index of the VM that is being copied */
    /* Other possible bases of the state being copied; 0: none. */
    uint64_t jit_base, base;
    uint64_t pc, save_pc; /* possible PCs of the state's newest frame */
    uint64_t sp;          /* the user's; 0: another VM is below the one being copied */
    uint64_t digest;      /* so far, of the trace being copied */
    uint32_t tried;       /* traces tried so far as the one that runs */
    struct vmstack_vm vm; /* the VM being examined */
    struct vmstack_v8 v8; /* the sampled thread's */
    uint64_t functions[VMSTACK_RECENT]; /* copied last: recursion names the same over and over */
    struct lines lines[VMSTACK_RECENT]; /* of these functions */
    uint64_t pcs[VMSTACK_RECENT];       /* met last, of functions that were not met yet */
    uint32_t nr_pcs;
    uint64_t calls[2];               /* the call instructions copied last */
    uint64_t chunks[VMSTACK_RECENT]; /* the strings, copied last, that name chunks */
    uint32_t nr_chunks;
    uint32_t nr_functions; /* number copied of this state */
    uint32_t nr_calls;
    uint64_t kept[VMSTACK_KEPT];   /* the user's callee-saved registers */
    uint64_t dispatch;             /* the user's register DISPATCH (GL) of LuaJIT */
    uint64_t returned;             /* where the code below the C frame returns (AArch64) */
    uint64_t end;                  /* end of the native stack */
    uint64_t words[VMSTACK_WORDS]; /* a piece of the native stack */
    uint8_t payload[VMEVENT_MAX];
    uint8_t room[VMSTACK_BYTES + 64]; /* makes a copy's bounds plain to the verifier */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set to the number of cpus at load */
    __type(key, uint32_t);
    __type(value, struct scratch);
} scratches SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, VMSTACK_PROCESSES);
    __type(key, uint32_t);
    __type(value, struct vmstack_process);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(key_size, sizeof(uint32_t));
    __uint(value_size, sizeof(uint32_t));
} outputs SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct vmstack_counters);
} counters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, uint64_t);
} sequences SEC(".maps");

/* When traces were first met, by a hash of the key: of the process, the trace, its digest and where
 * its machine code is. (A VM of many that live one after the other puts its code anywhere.) Cpus
 * that write at once, or traces with one place, may cause a trace to be copied more often. */
struct traces_met {
    struct {
        uint64_t key, when;
    } at[VMSTACK_TRACES_MET];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct traces_met);
} traces_met_map SEC(".maps");

const volatile struct vmstack_config config = {0};

char license_text[] SEC("license") = "GPL";

/* ---- helpers --------------------------------------------------------------------------------- */

/* The compiler may prove a bound through another value, or drop a check that it can prove. After
 * HIDDEN it knows nothing of the value: it emits the check that follows, on the register that is
 * used. */
#define HIDDEN(value) asm volatile("" : "+r"(value))

static __always_inline struct scratch *scratch_get(void)
{
    uint32_t cpu = bpf_get_smp_processor_id();
    return bpf_map_lookup_elem(&scratches, &cpu);
}

static __always_inline void count(enum vmstack_counter which, uint64_t by)
{
    uint32_t zero = 0;
    struct vmstack_counters *c = bpf_map_lookup_elem(&counters, &zero);
    if (c)
        c->value[which] += by;
}

static __always_inline uint64_t read_u64(uint64_t address)
{
    uint64_t value = 0;
    bpf_probe_read_user(&value, sizeof(value), (const void *)address);
    return value;
}

static __always_inline uint64_t read_ref(uint64_t address, uint32_t flags)
{
    uint32_t value = 0;
    if (flags & VMSTACK_GC64)
        return read_u64(address);
    bpf_probe_read_user(&value, sizeof(value), (const void *)address);
    return value;
}

static __always_inline struct vmevent_header *head_of(struct scratch *s)
{
    return (struct vmevent_header *)s->payload;
}

enum { COPY_FAILED = -1, COPY_FULL = 1 };

/* Add an entry of `length` bytes at `address`; `what`: kind, flags and level, one byte each.
 * Returns 0, or COPY_FAILED, or COPY_FULL. */
__noinline int copy(uint64_t address, uint64_t length, uint32_t what)
{
    struct scratch *s = scratch_get();
    if (!s)
        return COPY_FAILED;
    uint32_t at = s->size;
    uint32_t n = length > VMSTACK_BYTES ? VMSTACK_BYTES : (uint32_t)length;
    HIDDEN(at);
    HIDDEN(n);
    if (!address || !n || n > VMSTACK_BYTES)
        return COPY_FAILED;
    if (at > VMEVENT_MAX - sizeof(struct vmevent_entry_header) ||
        at + sizeof(struct vmevent_entry_header) + ((n + 7) & ~7u) > VMEVENT_MAX) {
        head_of(s)->flags |= VMEVENT_FULL;
        return COPY_FULL;
    }
    struct vmevent_entry_header *e = (struct vmevent_entry_header *)(s->payload + at);
    if (bpf_probe_read_user(e + 1, n, (const void *)address))
        return COPY_FAILED;
    e->address = address;
    e->length = n;
    e->kind = (uint8_t)what;
    e->flags = (uint8_t)(what >> 8);
    e->vm = (uint8_t)s->nr;
    e->level = (uint8_t)(what >> 16);
    s->size = at + sizeof(*e) + ((n + 7) & ~7u);
    head_of(s)->nr_entries++;
    return 0;
}

/* Read a word of what was copied already, `offset` bytes from `at` in the payload. */
static __always_inline uint64_t copied_u64(const struct scratch *s, uint32_t at, uint32_t offset)
{
    uint32_t place = at + offset;
    HIDDEN(place);
    return place <= VMEVENT_MAX - 8 ? *(const uint64_t *)(s->payload + place) : 0;
}

static __always_inline uint64_t copied_ref(const struct scratch *s, uint32_t at, uint32_t offset)
{
    uint64_t value = copied_u64(s, at, offset);
    return s->vm.flags & VMSTACK_GC64 ? value : (uint32_t)value;
}

#ifdef VMSTACK_BTF
/* Read a word that the kernel has saved; 0: it cannot be read. */
static __always_inline uint64_t saved(const void *at)
{
    uint64_t value = 0;
    bpf_probe_read_kernel(&value, sizeof(value), at);
    return value;
}
#endif

#if defined(__TARGET_ARCH_arm64)
#include "src/live/vmstack_aarch64.bpf.h"
#else
#include "src/live/vmstack_x86_64.bpf.h"
#endif

/* ---- a lua_State ----------------------------------------------------------------------------- */

/* The part of a Lua stack that may be in use: up to the highest base plus the largest frame. */
struct span {
    uint64_t from, base, to;
};

static __always_inline uint64_t higher(uint64_t to, uint64_t candidate, uint64_t from, uint64_t end)
{
    return candidate >= from && candidate < end && candidate > to ? candidate : to;
}

static __always_inline int stack_span(const struct scratch *s, uint64_t L, struct span *ret)
{
    const struct vmstack_vm *vm = &s->vm;
    uint64_t stack = read_ref(L + vm->L_stack, vm->flags);
    uint64_t end = read_ref(L + vm->L_maxstack, vm->flags) + 8 * VMSTACK_EXTRA;
    if (!stack || end <= stack || end - stack > 1 << 20)
        return -1;
    uint64_t to = higher(stack, read_u64(L + vm->L_base), stack, end);
    to = higher(to, s->jit_base, stack, end);
    to = higher(to, s->base, stack, end);
    ret->base = to;
    to = higher(to, read_u64(L + vm->L_top), stack, end);
    to += 8 * VMSTACK_SLOTS_ABOVE;
    ret->from = stack;
    ret->to = to < end ? to : end;
    return 0;
}

/* Copy a stack that cannot be read in one piece (a page is swapped out) by pages, newest first. */
__noinline int copy_pages(uint64_t from, uint64_t to, uint32_t what)
{
    enum { PAGE = 4096, PAGES = VMSTACK_BYTES / PAGE + 1 };
    count(VMSTACK_FAILED, 1);
    for (int i = 0; i < PAGES; i++) {
        if (to <= from)
            break;
        uint64_t start = (to - 1) & ~(uint64_t)(PAGE - 1);
        if (start < from)
            start = from;
        copy(start, to - start, what | VMENTRY_CUT << 8);
        to = start;
    }
    return 0;
}

enum {
    TAG_SHIFT = 47,
    TAG_FUNCTION = 0x1fff7, /* tag of a slot in a GC64 build: ~8 */
    TAGS = 0xfff00000,      /* in other builds upper halves from here up are tags */
    GCT_FUNCTION = 8,
    LINK_CONT = 2, /* low bits of the link of a metamethod's frame */
};

/* Whether a slot could name a function. In a GC64 build its tag says so. In other builds, the slot
 * of a frame has a link in its upper half: the slot could name a function if this half is no
 * tag. */
static __always_inline int may_be_function(const struct vmstack_vm *vm, uint64_t slot)
{
    if (vm->flags & VMSTACK_GC64)
        return slot >> TAG_SHIFT == TAG_FUNCTION;
    return (uint32_t)slot && !(slot & 7) && slot >> 32 && slot >> 32 < TAGS;
}

/* Copy the line of the instruction before `pc`, if this is an instruction of the function. Returns
 * 1 if it is. (A function made anew may have the same head at the same address, but other
 * lines.) */
static __always_inline int copy_line(const struct lines *l, uint64_t pc, uint32_t level)
{
    uint64_t n = (pc - l->code) / 4 - 2;
    if (pc < l->code + 8 || n + 1 >= l->sizebc)
        return 0;
    copy(l->at + n * l->width, l->width, VMENTRY_BYTES | level << 16);
    return 1;
}

/* Copy a function's lines: all if they are few, else those of the instructions that were met.
 * `head`: offset of its prototype's head in the payload. */
static __always_inline void copy_lines(struct scratch *s, struct lines *l, uint64_t proto,
                                       uint32_t head, uint32_t level)
{
    const struct vmstack_vm *vm = &s->vm;
    uint64_t at = copied_ref(s, head, vm->proto_lineinfo);
    if (!at || !vm->proto_numline)
        return;
    uint32_t sizebc = (uint32_t)copied_u64(s, head, vm->proto_sizebc);
    uint32_t numline = (uint32_t)copied_u64(s, head, vm->proto_numline);
    uint32_t width = numline < 1 << 8 ? 1 : numline < 1 << 16 ? 2 : 4;
    uint64_t size = ((uint64_t)sizebc - 1) * width;
    if (size <= VMSTACK_LINES) {
        copy(at, size, VMENTRY_BYTES | level << 16);
        return;
    }
    *l = (struct lines){.code = proto + vm->proto_size, .at = at, .sizebc = sizebc, .width = width};
    for (int i = 0; i < VMSTACK_RECENT; i++)
        if (s->pcs[i] && copy_line(l, s->pcs[i], level))
            s->pcs[i] = 0;
}

/* Copy the string with the name of a chunk, if it is not among the last few: its head, and its text
 * with the NUL behind it. The text names the function's file even if the VM is closed before the
 * recorder comes. */
static __always_inline void copy_chunk(struct scratch *s, uint64_t chunk, uint32_t level)
{
    uint32_t length = 0, what = VMENTRY_HEAD | level << 16;
    for (int i = 0; i < VMSTACK_RECENT; i++)
        if (s->chunks[i] == chunk)
            return;
    s->chunks[s->nr_chunks++ & (VMSTACK_RECENT - 1)] = chunk;
    bpf_probe_read_user(&length, sizeof(length), (const void *)(chunk + s->vm.str_len));
    length = length < VMSTACK_CHUNK ? length + 1 : 0;
    if (copy(chunk, s->vm.str_size + length, what) == COPY_FAILED && length)
        copy(chunk, s->vm.str_size, what);
}

/* Copy what distinguishes a Lua function's prototype from any other that may later have the same
 * address: its head, its chunk's name, and lines. `function`: offset in the payload. */
__noinline int copy_proto(uint32_t function, uint32_t level)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    const struct vmstack_vm *vm = &s->vm;
    struct lines *lines = &s->lines[(s->nr_functions - 1) & (VMSTACK_RECENT - 1)];
    lines->sizebc = 0;
    if ((uint8_t)copied_u64(s, function, vm->func_ffid)) /* in C */
        return 0;
    uint64_t proto = copied_ref(s, function, vm->func_pc) - vm->proto_size;
    uint32_t head = s->size + sizeof(struct vmevent_entry_header);
    if (copy(proto, vm->proto_size, VMENTRY_HEAD | level << 16))
        return 0;
    copy_chunk(s, copied_ref(s, head, vm->proto_chunkname), level);
    copy_lines(s, lines, proto, head, level);
    return 0;
}

/* Note an executing instruction, the one before `pc`. Copy its line if its function was met
 * already, else keep `pc` for functions that are still to be met. */
static __always_inline void note_pc(struct scratch *s, uint64_t pc, uint32_t level)
{
    int met = 0;
    for (int i = 0; i < VMSTACK_RECENT; i++)
        met |= copy_line(&s->lines[i], pc, level);
    if (!met)
        s->pcs[s->nr_pcs++ & (VMSTACK_RECENT - 1)] = pc;
}

/* Copy the instruction that called a frame: it shows where the caller's frame begins. `link`: the
 * link in the called frame's header. */
__noinline int copy_call(uint64_t link, uint32_t level)
{
    struct scratch *s = scratch_get();
    if (!s || link & 3 || !link || link >> TAG_SHIFT || s->nr_calls >= VMSTACK_CALLS)
        return 0;
    if (link == s->calls[0] || link == s->calls[1])
        return 0;
    s->calls[s->nr_calls++ & 1] = link;
    note_pc(s, link, level);
    return copy(link - 4, 4, VMENTRY_BYTES | level << 16);
}

/* For a slot in the payload: copy the instruction that called the frame it names, and the function,
 * if the slot names one and it is not among the last few. Returns 1 when enough are copied. */
__noinline int copy_function(uint32_t slot, uint32_t level)
{
    struct scratch *s = scratch_get();
    uint8_t type = 0;
    HIDDEN(slot);
    if (!s || slot > VMEVENT_MAX - 16)
        return 1;
    uint64_t value = *(uint64_t *)(s->payload + slot), next = *(uint64_t *)(s->payload + slot + 8);
    uint64_t link = s->vm.flags & VMSTACK_GC64 ? next : value >> 32;
    /* A metamethod's frame: where it continues is in the slot below. */
    if ((link & 7) == LINK_CONT && slot >= 8) {
        link = *(uint64_t *)(s->payload + slot - 8);
        if (!(s->vm.flags & VMSTACK_GC64))
            link >>= 32;
    }
    copy_call(link, level);
    if (s->nr_functions >= VMSTACK_FUNCTIONS)
        return 1;
    uint64_t function =
        s->vm.flags & VMSTACK_GC64 ? value & ((1ull << TAG_SHIFT) - 1) : (uint32_t)value;
    if (function == s->functions[0] || function == s->functions[1] || function == s->functions[2] ||
        function == s->functions[3])
        return 0;
    if (!(s->vm.flags & VMSTACK_GC64)) {
        bpf_probe_read_user(&type, sizeof(type), (const void *)(function + s->vm.gct));
        if (type != GCT_FUNCTION)
            return 0;
    }
    s->functions[s->nr_functions++ & (VMSTACK_RECENT - 1)] = function;
    uint32_t at = s->size + sizeof(struct vmevent_entry_header);
    int got = copy(function, s->vm.function_size, VMENTRY_FUNCTION | level << 16);
    if (got)
        return got == COPY_FULL;
    copy_proto(at, level);
    return 0;
}

/* The same for a group of slots: of `nr` slots, from number `first` on. `what`: bit 0: upward; the
 * bits above: the level. Returns 1 when enough are copied. */
__noinline int copy_group(uint32_t at, uint32_t nr, uint32_t first, uint32_t what)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 1;
    for (uint32_t i = 0; i < VMSTACK_GROUP; i++) {
        uint32_t n = first + i;
        if (n >= nr)
            return 1;
        uint32_t slot = at + 8 * (what & 1 ? n : nr - 1 - n);
        HIDDEN(slot);
        if (slot > VMEVENT_MAX - 16)
            return 1;
        if (may_be_function(&s->vm, *(uint64_t *)(s->payload + slot)) &&
            copy_function(slot, what >> 1))
            return 1;
    }
    return 0;
}

/* Copy the functions that the copied slots name, newest first, or upward from the lowest. They say
 * which prototypes run. A recorder may come too late to read them: they may be dead, and their
 * memory used by others. `at`: offset of the slots in the payload. */
__noinline int copy_functions(uint32_t at, uint32_t nr, uint32_t level, uint32_t upward)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    for (int i = 0; i < VMSTACK_RECENT; i++) {
        s->functions[i] = s->pcs[i] = 0;
        s->lines[i].sizebc = 0;
    }
    s->pcs[0] = level == 0 ? s->pc : 0;
    s->pcs[1] = s->save_pc;
    s->nr_pcs = 2;
    s->calls[0] = s->calls[1] = 0;
    s->nr_calls = 0;
    s->nr_functions = upward ? VMSTACK_FUNCTIONS - VMSTACK_UPWARD : 0;
    for (uint32_t first = 0; first < VMSTACK_SCANNED; first += VMSTACK_GROUP) {
        if (first >= nr || copy_group(at, nr, first, level << 1 | !!upward))
            break;
    }
    return 0;
}

/* Copy the state itself and its stack. If the stack is larger than a record may be, copy only the
 * newest slots. */
__noinline int copy_state(uint64_t L, uint32_t level)
{
    struct scratch *s = scratch_get();
    struct span span;
    uint32_t what = VMENTRY_STACK | level << 16;
    if (!s || copy(L, s->vm.L_size, VMENTRY_STATE | level << 16) || stack_span(s, L, &span))
        return -1;
    uint64_t cframe = read_u64(L + s->vm.L_cframe) & ~3ull;
    s->save_pc = read_ref(cframe + s->vm.frame_pc, s->vm.flags);
    uint64_t room = VMEVENT_MAX - 512;
    room = s->size < room ? room - s->size : 0;
    if (room > VMSTACK_BYTES)
        room = VMSTACK_BYTES;
    if (span.to - span.from > room) {
        count(VMSTACK_CUT, 1);
        /* the bottom slots prove whose stack it is */
        copy(span.from, 16, what | VMENTRY_CUT << 8);
        what |= VMENTRY_CUT << 8;
        span.from = span.to - (room & ~7ull);
    }
    uint32_t at = s->size + sizeof(struct vmevent_entry_header);
    if (copy(span.from, span.to - span.from, what)) {
        copy_pages(span.from, span.to, what);
        return 0;
    }
    /* the functions of frames are below the frames' bases */
    uint64_t used = span.base > span.from ? (span.base - span.from) / 8 : 0;
    copy_functions(at, (uint32_t)used, level, 0);
    /* Handlers that call a function that cannot fail (pow) do not store L->base, and that function
     * may overwrite BASE: the newest frames are then above, up to where the stack is stale. */
    uint64_t above = (span.to - span.from) / 8;
    above = above > used ? above - used : 0;
    if (level == 0 && above)
        copy_functions(at + 8 * (uint32_t)used,
                       above > VMSTACK_ABOVE ? VMSTACK_ABOVE : (uint32_t)above, level, 1);
    return 0;
}

/* ---- who resumed whom ------------------------------------------------------------------------ */

static __always_inline int in_blob(const struct vmstack_vm *vm, uint64_t pc)
{
    return pc >= vm->blob && pc < vm->blob_end;
}

/* The lua_State that called C from the C frame at `si`. The frame must be the innermost one of that
 * state, apart from the frames that were met already. If g is not known, it may be a state of any
 * VM. 0: no state did. */
static __always_inline uint64_t state_at(const struct vmstack_vm *vm, uint64_t si)
{
    uint64_t L = read_ref(si + vm->frame_L, vm->flags);
    uint64_t g = L ? read_ref(L + vm->L_glref, vm->flags) : 0;
    if (!g || (vm->g && g != vm->g))
        return 0;
    return (read_u64(L + vm->L_cframe) & ~3ull) == si ? L : 0;
}

/* The same for s->vm. */
__noinline uint64_t state_of(uint64_t si)
{
    const struct scratch *s = scratch_get();
    return s ? state_at(&s->vm, si) : 0;
}

/* If the interpreter itself resumed, the C frame right above the resume frame `cf` is the
 * resumer's. Returns the resumer's lua_State; 0: it cannot be found. */
static __always_inline uint64_t resumer(const struct vmstack_vm *vm, uint64_t cf)
{
    uint64_t outer = cf + vm->frame_size;
    if (!in_blob(vm, read_u64(outer - 8)))
        return 0;
    return state_at(vm, outer);
}

/* Returns the outermost C frame of this lua_State, with bit 0 set if that frame resumed it; 0: not
 * found. */
__noinline uint64_t first_frame(uint64_t L)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t link = read_u64(L + s->vm.L_cframe);
    for (int i = 0; i < VMSTACK_CHAIN; i++) {
        uint64_t cf = link & ~3ull, next = 0;
        if (!cf || bpf_probe_read_user(&next, sizeof(next), (const void *)(cf + s->vm.frame_prev)))
            return 0;
        if (!next)
            return link & ~2ull;
        link = next;
    }
    return 0;
}

/* Search s->words, which hold the stack at `from`, for the first return address into the
 * interpreter with a lua_State. Returns that lua_State; 0: there is none. */
__noinline uint64_t find_in_words(uint64_t from)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    const uint64_t blob = s->vm.blob, size = s->vm.blob_end - blob;
    for (uint32_t i = 0; i < VMSTACK_WORDS; i++) {
        if (s->words[i] - blob >= size)
            continue;
        uint64_t L = state_of(frame_of_return(&s->vm, from + 8 * i));
        if (L)
            return L;
    }
    return 0;
}

/* A C function's part of the stack begins at `from`: it runs, or it entered the lua_State whose
 * outermost C frame ends there. Another lua_State may have called that function: its C frame is
 * further up, and a return address into the interpreter tells where. Returns that lua_State; 0:
 * there is none near. */
__noinline uint64_t find_enterer(uint64_t from)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t at = LEAVES_NOTHING ? state_of(from) : 0;
    if (at)
        return at;
    for (uint32_t done = 0; done < VMSTACK_BETWEEN; done += sizeof(s->words)) {
        if (from + done >= s->end ||
            bpf_probe_read_user(s->words, sizeof(s->words), (const void *)(from + done)))
            return 0;
        uint64_t L = find_in_words(from + done);
        if (L)
            return L;
    }
    return 0;
}

/* Returns the state that resumed L, or whose C function did; 0: there is none, or it is not
 * found. */
__noinline uint64_t outer_of(uint64_t L)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t cf = first_frame(L), outer = 0;
    if (!cf)
        return 0;
    if (cf & 1)
        outer = resumer(&s->vm, cf & ~1ull);
    if (!outer && L != s->vm.main_L)
        outer = find_enterer((cf & ~1ull) + s->vm.frame_size);
    if (!outer && cf & 1)
        head_of(s)->flags |= VMEVENT_BROKEN_LINKS;
    return outer;
}

/* Copy outward from L: the states that resumed it, or whose C functions did. */
__noinline int copy_outer(uint64_t L)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    for (uint32_t level = 1; level <= VMSTACK_LEVELS; level++) {
        L = outer_of(L);
        if (!L)
            break;
        if (level == VMSTACK_LEVELS) {
            head_of(s)->flags |= VMEVENT_MORE_LEVELS;
            break;
        }
        s->jit_base = s->base = s->pc = 0;
        copy_state(L, level);
    }
    return 0;
}

/* Returns the state that L resumed, by the rule of resumer(), backward; 0: none. */
__noinline uint64_t inner_of(uint64_t L, uint64_t sp)
{
    const struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t outer = read_u64(L + s->vm.L_cframe) & ~3ull;
    uint64_t inner = outer - s->vm.frame_size;
    if (inner < sp || inner > outer || !in_blob(&s->vm, read_u64(outer - 8)))
        return 0;
    uint64_t next = read_ref(inner + s->vm.frame_L, s->vm.flags);
    uint64_t cf = read_u64(next + s->vm.L_cframe) & ~3ull;
    if (!next || next == L || read_ref(next + s->vm.L_glref, s->vm.flags) != s->vm.g || cf < sp ||
        cf > inner)
        return 0;
    return next;
}

/* LuaJIT 2.0 has no cur_L: search from the main state inward. */
__noinline uint64_t innermost_state(uint64_t sp)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t L = s->vm.main_L;
    for (int i = 0; i < VMSTACK_LEVELS; i++) {
        uint64_t next = inner_of(L, sp);
        if (!next)
            break;
        L = next;
    }
    return L;
}

/* ---- a VM ------------------------------------------------------------------------------------ */

enum { DIGEST_WORDS = 126, DIGEST_PIECE = 4 * DIGEST_WORDS }; /* 126: a multiple of 2 and 3 */

/* Add a piece of `size` bytes, in s->words, to the digest. `second`, `third`: masks for each second
 * word, and for each third word. */
__noinline int digest_words(uint32_t size, uint32_t second, uint32_t third)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    const uint32_t *words = (const uint32_t *)s->words;
    uint64_t digest = s->digest;
    for (uint32_t i = 0; i < DIGEST_WORDS; i++) {
        if (4 * i >= size)
            break;
        uint32_t word = words[i];
        if (i % 2 == 1)
            word &= second;
        if (i % 3 == 2)
            word &= third;
        digest = VMDIGEST_ADD(digest, word);
        digest = VMDIGEST_MIX(digest);
    }
    s->digest = digest;
    return 0;
}

/* Add memory to the digest. Returns 0, or COPY_FAILED. */
__noinline int digest_range(uint64_t from, uint32_t size, uint32_t second, uint32_t third)
{
    struct scratch *s = scratch_get();
    if (!s || size > VMSTACK_DIGEST)
        return COPY_FAILED;
    for (uint32_t done = 0; done < VMSTACK_DIGEST; done += DIGEST_PIECE) {
        if (done >= size)
            break;
        uint32_t n = size - done < DIGEST_PIECE ? size - done : DIGEST_PIECE;
        HIDDEN(n);
        if (n > DIGEST_PIECE || bpf_probe_read_user(s->words, n, (const void *)(from + done)))
            return COPY_FAILED;
        digest_words(n, second, third);
    }
    return 0;
}

/* Was the trace with this digest first met lately? */
static __always_inline int is_new_trace(const struct scratch *s, uint64_t trace, uint64_t code)
{
    uint32_t zero = 0;
    struct traces_met *met = bpf_map_lookup_elem(&traces_met_map, &zero);
    if (!met)
        return 0;
    uint64_t key = VMDIGEST_ADD(s->digest, trace + ((uint64_t)s->process << 48));
    key = VMDIGEST_ADD(VMDIGEST_MIX(key), code);
    uint64_t now = bpf_ktime_get_ns();
    uint32_t i = (uint32_t)(key >> 32) & (VMSTACK_TRACES_MET - 1);
    HIDDEN(i);
    if (i >= VMSTACK_TRACES_MET)
        return 0;
    if (met->at[i].key != key) {
        met->at[i].key = key;
        met->at[i].when = now;
    }
    return now - met->at[i].when < VMSTACK_TRACE_NEW_NS;
}

/* Is there room for `size` bytes in the payload, and for what comes after a trace? */
static __always_inline int has_room(const struct scratch *s, uint64_t size)
{
    enum { LATER = 4096 };
    return s->size + size < VMEVENT_MAX - LATER;
}

/* Copy a trace's machine code, around the PC if it is long. */
__noinline int copy_code(uint64_t code, uint32_t size)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t pc = head_of(s)->user_ip, from = code, end = code + size;
    if (size > VMSTACK_MCODE && pc - code < size) {
        from = pc - code > VMSTACK_MCODE / 2 ? pc - VMSTACK_MCODE / 2 : code;
        end = end - from > VMSTACK_MCODE ? from + VMSTACK_MCODE : end;
    }
    if (end - from <= VMSTACK_MCODE && has_room(s, end - from))
        copy(from, end - from, VMENTRY_BYTES);
    return 0;
}

/* Add an entry with the digest of a trace, whose head is in the payload; and the trace itself if it
 * is new, because its VM may be closed before the recorder reads it. The trace's parts lie one
 * after the other. Where the trace's numbers of snapshots are shows which form they have (2019; the
 * sheet of facts, GCtrace). */
__noinline int copy_digest(uint64_t trace, uint32_t head)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    const struct vmstack_vm *vm = &s->vm;
    uint32_t gc64 = vm->flags & VMSTACK_GC64;
    uint64_t nk = (uint32_t)copied_u64(s, head, vm->trace_nk);
    uint64_t from = copied_u64(s, head, vm->trace_ir) + 8 * nk;
    uint64_t snap = copied_u64(s, head, vm->trace_snap);
    uint64_t map = copied_u64(s, head, vm->trace_snapmap);
    uint32_t count = (uint16_t)copied_u64(s, head, gc64 ? 0xa : 6);
    uint32_t other = (uint32_t)copied_u64(s, head, gc64 ? 0x2c : 0x1c);
    uint32_t each = map - snap == 12 * count ? 3 : map - snap == 8 * (other & 0xffff) ? 2 : 0;
    uint32_t nr_map = each == 3 ? other : other >> 16;
    if (!vm->trace_ir || !each || snap - from > VMSTACK_DIGEST || map - snap > VMSTACK_DIGEST ||
        nr_map > VMSTACK_DIGEST / 4)
        return 0;
    s->digest = VMDIGEST_BEGIN;
    if (digest_range(from, snap - from, ~0u, ~0u) ||
        digest_range(snap, map - snap, each == 2 ? VMDIGEST_MASK_8 : ~0u,
                     each == 3 ? VMDIGEST_MASK_12 : ~0u) ||
        digest_range(map, 4 * nr_map, ~0u, ~0u))
        return 0;
    uint32_t at = s->size;
    HIDDEN(at);
    if (at > VMEVENT_MAX - sizeof(struct vmevent_entry_header) - 8)
        return 0;
    struct vmevent_entry_header *e = (struct vmevent_entry_header *)(s->payload + at);
    *e = (struct vmevent_entry_header){.address = VMENTRY_DIGEST_OF(trace),
                                       .length = 8,
                                       .kind = VMENTRY_DIGEST,
                                       .vm = (uint8_t)s->nr};
    *(uint64_t *)(e + 1) = s->digest;
    s->size = at + sizeof(*e) + 8;
    head_of(s)->nr_entries++;
    uint64_t code = copied_u64(s, head, vm->trace_mcode), size = map + 4 * nr_map - from;
    if (!is_new_trace(s, trace, code))
        return 0;
    if (has_room(s, size))
        copy(from, size, VMENTRY_BYTES);
    copy_code(code, (uint32_t)copied_u64(s, head, vm->trace_szmcode));
    return 0;
}

/* Copy the trace that runs, or was left: its slot in the trace array, and the head of its
 * GCtrace. */
__noinline int copy_trace(int32_t n)
{
    struct scratch *s = scratch_get();
    uint32_t size = 0;
    if (!s)
        return -1;
    const struct vmstack_vm *vm = &s->vm;
    uint32_t ref = vm->flags & VMSTACK_GC64 ? 8 : 4;
    uint64_t array = read_u64(vm->g + vm->trace);
    bpf_probe_read_user(&size, sizeof(size), (const void *)(vm->g + vm->sizetrace));
    if (n <= 0 || (uint32_t)n >= size)
        return -1;
    uint64_t slot = array + (uint64_t)(uint32_t)n * ref;
    copy(slot, ref, VMENTRY_TRACE);
    uint64_t trace = read_ref(slot, vm->flags);
    uint32_t at = s->size + sizeof(struct vmevent_entry_header);
    if (copy(trace, vm->trace_size, VMENTRY_TRACE) == 0)
        copy_digest(trace, at);
    return 0;
}

/* Get trace `n`, and its machine code. Returns the address of its GCtrace; 0: there is none. */
static __always_inline uint64_t trace_code(const struct vmstack_vm *vm, uint32_t n, uint64_t *code,
                                           uint32_t *size)
{
    uint32_t ref = vm->flags & VMSTACK_GC64 ? 8 : 4;
    uint64_t trace = read_ref(read_u64(vm->g + vm->trace) + (uint64_t)n * ref, vm->flags);
    *code = 0;
    *size = 0;
    if (!trace)
        return 0;
    *code = read_u64(trace + vm->trace_mcode);
    bpf_probe_read_user(size, sizeof(*size), (const void *)(trace + vm->trace_szmcode));
    return trace;
}

/* Whether the code below a C frame returns into trace `n`. */
__noinline int is_entered(uint32_t n, uint64_t cframe)
{
    struct scratch *s = scratch_get();
    uint64_t code;
    uint32_t size;
    uint16_t adjust = 0;
    if (!s || s->tried++ >= VMSTACK_TRACES)
        return 0;
    const struct vmstack_vm *vm = &s->vm;
    uint64_t trace = trace_code(vm, n, &code, &size);
    if (!trace)
        return 0;
    bpf_probe_read_user(&adjust, sizeof(adjust), (const void *)(trace + vm->trace_spadjust));
    return returned_into(s, cframe, adjust) - code < size;
}

/* Either half of a word may be a trace's number. Returns the one that is entered, or 0. */
__noinline int entered_of(uint64_t word, uint64_t cframe, uint32_t size)
{
    uint32_t low = (uint32_t)word, high = (uint32_t)(word >> 32);
    uint32_t n = low && low < size ? low : high;
    return n && n < size && is_entered(n, cframe) ? (int)n : 0;
}

/* Find the trace that has called the running collector. The word that named the trace (vmstate)
 * says "collector" meanwhile. Its old value is in a register, or where that register was saved,
 * until it is restored. Returns the trace's number; 0: not found. */
__noinline int find_collecting(uint64_t cframe, uint32_t size)
{
    struct scratch *s = scratch_get();
    if (!s || !s->sp)
        return 0;
    s->tried = 0;
    find_return(s, cframe);
    for (uint32_t i = 0; i < VMSTACK_KEPT; i++) {
        uint32_t n = (uint32_t)s->kept[i];
        if (n && n < size && is_entered(n, cframe))
            return (int)n;
    }
    for (uint32_t done = 0; done < VMSTACK_COLLECTOR; done += sizeof(s->words)) {
        uint64_t from = s->sp + done;
        if (from >= cframe || bpf_probe_read_user(s->words, sizeof(s->words), (const void *)from))
            return 0;
        for (uint32_t i = 0; i < VMSTACK_WORDS; i++) {
            int n = entered_of(s->words[i], cframe, size);
            if (n)
                return n;
        }
    }
    return 0;
}

/* Find the trace that runs among the newest ones, where the VM's state does not say its number (0,
 * on AArch64). Older ones need no copy: the recorder has read them. jit_State.freetrace, the number
 * from which on a free one is searched, is behind the array's address. Returns the number; 0: none
 * of them runs. */
__noinline int find_newest(uint64_t cframe)
{
    enum { NEWEST = 8 };
    struct scratch *s = scratch_get();
    uint32_t free = 0, nr = 0;
    if (!s)
        return 0;
    const struct vmstack_vm *vm = &s->vm;
    const uint32_t ref = vm->flags & VMSTACK_GC64 ? 8 : 4;
    const uint64_t ip = head_of(s)->user_ip;
    find_return(s, cframe);
    bpf_probe_read_user(&free, sizeof(free), (const void *)(vm->g + vm->trace + ref));
    bpf_probe_read_user(&nr, sizeof(nr), (const void *)(vm->g + vm->sizetrace));
    for (uint32_t i = 1; i <= NEWEST; i++) {
        uint32_t n = free - i, size;
        uint64_t code;
        if (!n || n >= nr)
            break;
        if (trace_code(vm, n, &code, &size) && (ip - code < size || s->returned - code < size))
            return (int)n;
    }
    return 0;
}

/* Copy s->vm, whose innermost state is `L`. */
__noinline int copy_vm(uint64_t L)
{
    struct scratch *s = scratch_get();
    int32_t state = -1;
    if (!s)
        return -1;
    const struct vmstack_vm *vm = &s->vm;
    copy(vm->g, vm->global_size, VMENTRY_GLOBAL);
    s->jit_base = read_ref(vm->g + vm->jit_base, vm->flags);
    bpf_probe_read_user(&state, sizeof(state), (const void *)(vm->g + vm->vmstate));
    copy_state(L, 0);
    if (vm->flags & VMSTACK_JIT) {
        copy(vm->g + vm->trace, 16, VMENTRY_JIT);
        copy(vm->g + vm->exit, 8, VMENTRY_JIT);
        /* Leaving, recording, optimizing, assembling: not interpreter, C or GC. */
        if (state < ~2) {
            int32_t left = 0;
            copy(vm->g + vm->jit, vm->jit_size, VMENTRY_JIT);
            bpf_probe_read_user(&left, sizeof(left), (const void *)(vm->g + vm->exit));
            copy_trace(left);
        }
        /* The collector: perhaps called by a trace, or by the exit of one. */
        if (state == ~2) {
            uint32_t size = 0;
            int32_t left = 0;
            bpf_probe_read_user(&size, sizeof(size), (const void *)(vm->g + vm->sizetrace));
            bpf_probe_read_user(&left, sizeof(left), (const void *)(vm->g + vm->exit));
            int32_t n = find_collecting(read_u64(L + vm->L_cframe) & ~3ull, size);
            copy_trace(n ? n : left);
        }
        if (vm->stubs)
            copy(vm->g + vm->stubs, VMSTACK_STUBS, VMENTRY_JIT);
        if (state == 0)
            state = find_newest(read_u64(L + vm->L_cframe) & ~3ull);
        if (state > 0)
            copy_trace(state);
    }
    return 0;
}

/* ---- which VMs ------------------------------------------------------------------------------- */

/* When the state in cur_L has left its last C frame (it has ended or yielded), its resumer is in
 * cur_L again only some instructions later. The resumer's C frame is then at the user's stack
 * pointer, or above the frame that is being left. Returns the resumer; 0: neither. */
static __always_inline uint64_t resumer_near(const struct vmstack_vm *vm, uint64_t sp)
{
    uint64_t L = state_at(vm, sp);
    return L ? L : resumer(vm, sp);
}

/* Returns the VM (g) that DISPATCH names, if it is one of s->vm's LuaJIT: its state must name g,
 * too. 0: DISPATCH names none. */
static __always_inline uint64_t dispatched(const struct scratch *s)
{
    uint64_t g = s->dispatch - s->vm.dispatch;
    uint64_t L = read_ref(g + s->vm.cur_L, s->vm.flags);
    return L && read_ref(L + s->vm.L_glref, s->vm.flags) == g ? g : 0;
}

/* Returns the VM (g) of s->vm's LuaJIT that has called the running C function; 0: none near. */
static __always_inline uint64_t calling(struct scratch *s, uint64_t sp)
{
    s->vm.g = 0; /* any */
    uint64_t L = find_enterer(sp & ~7ull);
    return L ? read_ref(L + s->vm.L_glref, s->vm.flags) : 0;
}

/* Set cframe[i] to the C frame of VM `i` if it is in [sp, end), else to 0. A VM whose g is not
 * known is that of DISPATCH, or, if no known VM runs, the one that has called the running C
 * function. Returns 1 if there are no more VMs. */
__noinline int find_candidate(uint32_t i, uint64_t sp, uint64_t end)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 1;
    const struct vmstack_process *p = bpf_map_lookup_elem(&processes, &s->process);
    if (!p || i >= p->nr || i >= VMSTACK_VMS)
        return 1;
    const struct vmstack_vm *vm = &p->vms[i];
    uint64_t L, link = 0;
    if (!vm->g) {
        s->vm = *vm;
        s->vm.g = dispatched(s);
        if (!s->vm.g && !s->runs)
            s->vm.g = calling(s, sp);
        vm = &s->vm;
        s->cframe[i] = 0;
        if (!vm->g)
            return 0;
    }
    s->g[i] = vm->g;
    if (vm->flags & VMSTACK_CUR_L) {
        L = read_ref(vm->g + vm->cur_L, vm->flags);
    } else {
        s->vm = *vm;
        L = innermost_state(sp);
    }
    s->cframe[i] = 0;
    if (!L)
        return 0;
    if (bpf_probe_read_user(&link, sizeof(link), (const void *)(L + vm->L_cframe)))
        s->bad++;
    else if (!link && (L = resumer_near(vm, sp)))
        link = read_u64(L + vm->L_cframe);
    link &= ~3ull;
    if (link >= sp && link < end) {
        s->cframe[i] = link;
        s->state[i] = L;
        s->runs = 1;
    }
    return 0;
}

/* The same for all VMs. */
__noinline int find_candidates(uint64_t sp, uint64_t end)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    s->bad = s->runs = 0;
    s->end = end;
    for (uint32_t i = 0; i < VMSTACK_VMS; i++)
        if (find_candidate(i, sp, end))
            break;
    return 0;
}

/* Set s->best to the VM with the lowest C frame at or above `from`; VMSTACK_VMS: none. */
__noinline int find_lowest(uint32_t nr, uint64_t from)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t lowest = ~0ull;
    s->best = VMSTACK_VMS;
    for (uint32_t i = 0; i < VMSTACK_VMS; i++) {
        if (i >= nr)
            break;
        uint64_t cf = s->cframe[i];
        if (cf && cf >= from && cf < lowest) {
            lowest = cf;
            s->best = i;
        }
    }
    return 0;
}

/* A thread as the interrupt found it. */
struct here {
    uint32_t pid, tid, parent;
    uint32_t process;     /* the process with its VMs: its own, or the parent */
    uint32_t lua_process; /* the same, for plain Lua */
    uint16_t flags, reason;
    uint64_t ip, sp, end;
    uint64_t v8_job; /* of the thread's V8: the promise's job that runs; 0: none */
    /* What may be in registers (FOR_EACH_REGISTER): LuaJIT's base and DISPATCH, a C function's
     * first argument, and what the callee saves. */
    uint64_t base, dispatch, argument;
    uint64_t kept[VMSTACK_KEPT];
};

static __always_inline uint32_t copy_vms(struct scratch *s, const struct vmstack_process *p,
                                         const struct here *h)
{
    uint64_t from = 1;
    uint32_t nr = 0;
    __builtin_memcpy(s->kept, h->kept, sizeof(s->kept));
    for (; nr < VMSTACK_NESTED; nr++) {
        find_lowest(p->nr, from);
        uint32_t best = s->best;
        if (best >= VMSTACK_VMS)
            break;
        from = s->cframe[best] + 1;
        s->vm = p->vms[best];
        s->vm.g = s->g[best];
        s->nr = nr;
        s->base = nr ? 0 : h->base;
        s->pc = nr ? 0 : h->kept[KEPT_PC];
        s->sp = nr ? 0 : h->sp;
        uint64_t L = s->state[best];
        copy_vm(L);
        copy_outer(L); /* from here: calls nest at most eight deep */
    }
    return nr;
}

#include "src/live/vmstack_lua.bpf.h"
#include "src/live/vmstack_v8.bpf.h"

/* ---- the native stack ------------------------------------------------------------------------ */

/* The kernel's copy of the stack ends at the first missing page, for example in the middle of a
 * large buffer that was never filled (string.gsub and libuv's workers have one of 8 KiB). Copy the
 * pages after the missing ones, at most up to where the kernel's copy would have gone. `look`: copy
 * nothing, return whether there are such pages. */
__noinline int copy_native(uint64_t sp, uint64_t end, int look)
{
    enum { PAGE = 4096, PAGES = VMSTACK_NATIVE / PAGE };
    uint64_t page = (sp & ~(uint64_t)(PAGE - 1)) + PAGE;
    int missing = 0;
    for (int i = 0; i < PAGES; i++, page += PAGE) {
        uint64_t word;
        if (page >= end)
            break;
        if (bpf_probe_read_user(&word, sizeof(word), (const void *)page))
            missing = 1;
        else if (missing && look)
            return 1;
        else if (missing)
            copy(page, end - page < PAGE ? end - page : PAGE, VMENTRY_BYTES);
    }
    return 0;
}

/* ---- the program ----------------------------------------------------------------------------- */

static __always_inline int who(struct here *h)
{
    uint64_t id = bpf_get_current_pid_tgid();
    if (config.pidns_ino) {
        struct bpf_pidns_info ns = {0};
        if (bpf_get_ns_current_pid_tgid(config.pidns_dev, config.pidns_ino, &ns, sizeof(ns)))
            return -1;
        id = (uint64_t)ns.tgid << 32 | ns.pid;
    }
    h->pid = id >> 32;
    h->tid = (uint32_t)id;
    return h->pid ? 0 : -1;
}

static __always_inline void begin(struct scratch *s, const struct here *h, uint64_t now)
{
    uint32_t zero = 0;
    uint64_t *sequence = bpf_map_lookup_elem(&sequences, &zero);
    struct vmevent_header *head = head_of(s);
    __builtin_memset(head, 0, sizeof(*head));
    head->magic = VMEVENT_MAGIC;
    head->version = VMEVENT_VERSION;
    head->order = VMEVENT_LITTLE;
    head->word_size = 8;
    head->kind = VMEVENT_STACK;
    head->cpu = bpf_get_smp_processor_id();
    head->flags = h->flags;
    head->pid = h->pid;
    head->tid = h->tid;
    head->sequence = sequence ? ++*sequence : 0;
    head->user_ip = h->ip;
    head->user_sp = h->sp;
    head->before = now;
    s->size = sizeof(*head);
    s->process = h->process;
    for (int i = 0; i < VMSTACK_RECENT; i++)
        s->chunks[i] = 0;
    s->nr_chunks = 0;
}

/* Look for states in the sample's registers. `own`: they are execute's, which has its state in the
 * same one most of the time, and has no other one. */
static __always_inline void lua_test_registers(struct lua_scratch *l, const struct here *h,
                                               uint32_t own)
{
    if (own)
        for (uint32_t i = 0; i < VMSTACK_KEPT; i++)
            if (i == l->own_register && lua_test_register(h->kept[i], 0))
                return;
    for (uint32_t i = 0; i < VMSTACK_KEPT; i++)
        if (lua_test_register(h->kept[i], own) && own)
            l->own_register = i;
    lua_test_register(h->dispatch, own);
    lua_test_register(h->argument, own);
}

/* Copy the thread's states of plain Lua. Returns how many there are. */
static __always_inline uint32_t copy_lua(const struct vmstack_lua_process *p, const struct here *h,
                                         uint64_t now)
{
    struct lua_scratch *l = lua_scratch_get();
    if (!l)
        return 0;
    if (l->of.version != p->of.version)
        l->of = p->of;
    l->process = h->lua_process;
    l->lowest = p->lowest;
    l->highest = p->highest;
    l->from = h->sp;
    l->end = h->end;
    l->now = now;
    l->nr = l->calls = 0;
    uint32_t build = lua_build_at(l, h->ip);
    uint32_t own = build < VMSTACK_LUA_BUILDS;
    lua_test_registers(l, h, own);
    lua_find(build, h->kept[KEPT_FP]);
    uint32_t nr = l->nr;
    lua_forget_functions(l);
    for (uint32_t i = 0; i < VMSTACK_LUA_STATES; i++)
        if (i < nr)
            lua_copy_state(i);
    return nr;
}

static __always_inline uint32_t fill(struct scratch *s, const struct vmstack_process *p,
                                     const struct vmstack_lua_process *lua, const struct here *h)
{
    if (h->reason)
        return h->reason;
    uint32_t reason = VMEVENT_NO_VM;
    s->nr = 0;
    if (p && p->nr) {
        s->dispatch = h->dispatch;
        find_candidates(h->sp, h->end);
        if (copy_vms(s, p, h))
            reason = VMEVENT_MATCHED;
        else if (p->known)
            reason = s->bad == p->known ? VMEVENT_BAD_READ : VMEVENT_ELSEWHERE;
    }
    if (lua) {
        if (copy_lua(lua, h, head_of(s)->before))
            reason = VMEVENT_MATCHED;
        else if (reason)
            reason = VMEVENT_ELSEWHERE;
    }
    if (h->v8_job) {
        v8_chain(h->v8_job);
        reason = VMEVENT_MATCHED;
    }
    if (!reason || config.stack)
        copy_native(h->sp, h->end, 0);
    return reason;
}

static __always_inline void emit(void *ctx, struct scratch *s, const struct vmstack_process *p,
                                 const struct vmstack_lua_process *lua, const struct here *h)
{
    uint64_t now = bpf_ktime_get_ns();
    begin(s, h, now);
    uint32_t reason = fill(s, p, lua, h);
    uint32_t size = s->size;
    uint64_t end = bpf_ktime_get_ns();
    struct vmevent_header *head = head_of(s);
    head->reason = (uint16_t)reason;
    head->size = size;
    head->after = end;
    count(reason ? VMSTACK_NONE : VMSTACK_COPIED, 1);
    if (!reason)
        count(VMSTACK_TIME, end - now);
    if (head->flags & VMEVENT_FULL)
        count(VMSTACK_WHOLE, 1);
    /* The register that is tested must be the one that is used: Linux 6.1 does not know that what
     * was saved on the stack is the same. */
    __asm__ volatile("" : "+r"(size));
    if (size > VMEVENT_MAX)
        return;
    if (bpf_perf_event_output(ctx, &outputs, BPF_F_CURRENT_CPU, s->payload, size))
        count(VMSTACK_LOST, 1);
}

/* Returns the plain Lua of the thread's process, or of its parent. NULL: there is none. */
static __always_inline const struct vmstack_lua_process *lua_process_of(struct here *h)
{
    h->lua_process = h->pid;
    const struct vmstack_lua_process *p = bpf_map_lookup_elem(&lua_processes, &h->lua_process);
    if (p || !h->parent)
        return p;
    h->lua_process = h->parent;
    return bpf_map_lookup_elem(&lua_processes, &h->lua_process);
}

static __always_inline void run(void *ctx, struct here *h)
{
    h->process = h->pid;
    const struct vmstack_process *p = bpf_map_lookup_elem(&processes, &h->process);
    count(VMSTACK_SAMPLES, 1);
    /* A child of which the recorder does not know yet has what its parent had. */
    if (!p && h->parent) {
        h->process = h->parent;
        p = bpf_map_lookup_elem(&processes, &h->process);
    }
    const struct vmstack_lua_process *lua = lua_process_of(h);
    const struct vmstack_v8 *v8 = bpf_map_lookup_elem(&v8_threads, &h->tid);
    h->v8_job = v8_job(v8, h->pid);
    if (!p && !lua && !h->v8_job) {
        count(VMSTACK_UNKNOWN, 1);
        uint64_t to = h->sp + config.stack; /* the sampled event copies no more */
        if (h->reason || !copy_native(h->sp, h->end < to ? h->end : to, 1))
            return;
    }
    struct scratch *s = scratch_get();
    if (!s)
        return;
    volatile uint32_t *busy = &s->busy;
    if (*busy) { /* it interrupts itself: both would write into the same place */
        count(VMSTACK_BUSY, 1);
        return;
    }
    *busy = 1;
    if (v8)
        s->v8 = *v8;
    emit(ctx, s, p, lua, h);
    *busy = 0;
}

enum {
    STACK_MAX = 8 << 20,   /* of a thread whose end of stack is not known */
    STACK_LIMIT = 1 << 30, /* memory further up is no stack of this thread */
};

static __always_inline int user_mode(struct bpf_perf_event_data *ctx, struct here *h)
{
    if (!is_user_mode(ctx->regs.MODE))
        return 0;
#define FROM_SAMPLE(to, from) h->to = ctx->regs.from;
    FOR_EACH_REGISTER(FROM_SAMPLE)
    h->end = h->sp + STACK_MAX;
    return 1;
}

#ifdef VMSTACK_BTF

/* ---- the kernel's fields --------------------------------------------------------------------- */

struct mm_struct {
    unsigned long start_stack;
} RELOCATED;

struct task_struct {
    int pid, tgid;
    unsigned int on_cpu;  /* int; of another size since Linux 7: unsigned, or it is not adjusted */
    unsigned int __state; /* since Linux 5.14 */
    uint64_t start_time;  /* CLOCK_MONOTONIC ns */
    void *rseq;           /* until Linux 6.18 */
    void *stack;
    struct mm_struct *mm;
    struct task_struct *real_parent;
    struct thread_struct thread;
    /* Exists only in a kernel with KASAN, whose stacks are twice as large. */
    unsigned int kasan_depth;
} RELOCATED;

/* A thread of glibc has its control block, to which its thread pointer points, on top of its stack.
 * The first thread's stack ends where the kernel put the arguments. */
static __always_inline uint64_t stack_end(const struct task_struct *task, uint64_t sp)
{
    uint64_t block = BPF_CORE_READ(task, THREAD_POINTER);
    uint64_t top = BPF_CORE_READ(task, mm, start_stack);
    if (top > sp && top - sp < STACK_LIMIT)
        return top;
    if (block > sp && block - sp < STACK_LIMIT)
        return block;
    return sp + STACK_MAX;
}

/* The user's registers, where the kernel's entry code has saved them. */
static __always_inline const user_registers *registers_at(const struct task_struct *task)
{
    int kasan = bpf_core_field_exists(task->kasan_depth);
    return (const user_registers *)registers_on_stack((uint64_t)BPF_CORE_READ(task, stack), kasan);
}

/* The same of the current task. Since Linux 5.15 a helper returns their address. */
static __always_inline const user_registers *user_registers_of(const struct task_struct *task)
{
    if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
        return (const user_registers *)bpf_task_pt_regs(bpf_get_current_task_btf());
    return registers_at(task);
}

/* Read what a system call or an interrupt of user mode has saved. The registers are read one by
 * one, because the stacks of all functions together have 512 bytes. Returns -1: the task has no
 * user mode. */
static __always_inline int kernel_mode(const struct task_struct *task, struct here *h)
{
    const user_registers *regs = user_registers_of(task);
    if (!is_user_mode(saved(&regs->MODE)))
        return -1;
#define FROM_STACK(to, from) h->to = saved(&regs->from);
    FOR_EACH_REGISTER(FROM_STACK)
    h->flags = VMEVENT_KERNEL_MODE;
    return 0;
}

/* Copies what the current task runs. `interrupt`: the sample's registers, which may be the user's;
 * 0: the event is no interrupt. `h`: zeros. */
static __always_inline int of_task_in(void *ctx, struct bpf_perf_event_data *interrupt,
                                      struct here *h)
{
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    if (who(h) || !BPF_CORE_READ(task, mm))
        return 1;
    if (!(interrupt && user_mode(interrupt, h)) && kernel_mode(task, h))
        return 1;
    h->end = stack_end(task, h->sp);
    if (!config.pidns_ino)
        h->parent = BPF_CORE_READ(task, real_parent, tgid);
    run(ctx, h);
    return 1;
}

static __always_inline int of_task(void *ctx, struct bpf_perf_event_data *interrupt)
{
    struct here h = {0};
    return of_task_in(ctx, interrupt, &h);
}

SEC("perf_event")
int vmstack_task(struct bpf_perf_event_data *ctx)
{
    return of_task(ctx, ctx);
}

/* Tracepoints and probes: the program runs at each hit on the machine, before the events that
 * sample it, in the task's own context. It returns 1, so all of them are sampled. The user's
 * registers are those that the task entered the kernel with, which is what the sample has, too. */
SEC("tracepoint")
int vmstack_trace(void *ctx)
{
    return of_task(ctx, 0);
}

SEC("kprobe")
int vmstack_probe(void *ctx)
{
    return of_task(ctx, 0);
}

#include "src/live/off_cpu.bpf.h"
#include "src/live/alloc.bpf.h"

#else

/* Without the kernel's types, samples taken in kernel mode have no user registers. */
SEC("perf_event")
int vmstack_plain(struct bpf_perf_event_data *ctx)
{
    struct here h = {0};
    if (who(&h))
        return 1;
    if (!user_mode(ctx, &h)) {
        h.flags = VMEVENT_KERNEL_MODE;
        h.reason = VMEVENT_NO_USER_REGS;
    }
    run(ctx, &h);
    return 1;
}

#endif
