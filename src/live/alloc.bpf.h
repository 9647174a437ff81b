/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Allocations of memory. Part of vmstack.bpf.c.
 *
 * - alloc_session: at the entry of an allocator's function, and, if this call became a sample, at
 * its return (Linux 6.13).
 * - alloc_call, alloc_return: the same as two programs, for older kernels.
 *
 * A call becomes a sample by chance, in proportion to its size: bytes are counted down, and a call
 * that takes the count below 0 is one. The next count is drawn from an exponential distribution, so
 * a call of n bytes is a sample with probability 1 - exp(-n / mean), whatever came before.
 *
 * The sample is written at the entry, with the registers and the stack of the caller. The block's
 * address is known at the return: it goes into a table, which a free looks up. So only frees of
 * sampled blocks are recorded.
 *
 * One allocator's function may call another one: that counts once. The inner call returns into the
 * code of such a function, or, if it was a jump, has the same stack pointer and size.
 */

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct alloc_settings);
} alloc_settings SEC(".maps");

/* What one cpu has counted. */
struct alloc_count {
    int64_t left;     /* bytes until the next sample */
    int64_t burst;    /* the same of functions with ALLOC_BURST */
    int64_t v8_burst; /* the same of those that are V8's, too */
    uint64_t round;   /* in which it was drawn */
    uint64_t serial;
    /* The call seen last: */
    uint64_t thread, sp, caller, size;
    uint64_t function;
    /* The thread for which V8 allocates, and its origin. */
    uint64_t noted_thread, noted_origin;
    /* What is written is put together here: the stacks of all functions together have 512 bytes. */
    struct alloc_sample sample;
    struct vmevent_header freed;
    struct here here;
    uint32_t busy; /* a thread was preempted while it used these */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct alloc_count);
} alloc_counts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* set at load if allocations are recorded, like those below */
    __type(key, uint32_t);  /* pid, in the first pid namespace */
    __type(value, struct alloc_code);
} alloc_codes SEC(".maps");

/* Sampled calls that have not returned. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, uint64_t); /* pid and tid, as the helper returns them */
    __type(value, struct alloc_pending);
} alloc_pendings SEC(".maps");

/* Sampled blocks that were not freed. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, struct alloc_block);
    __type(value, uint64_t); /* serial */
} alloc_blocks SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __type(key, struct alloc_block); /* a heap */
    __type(value, struct alloc_heap);
} alloc_areas SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, ALLOC_USDTS);
    __type(key, uint32_t);
    __type(value, struct alloc_usdt);
} alloc_usdts SEC(".maps");

/* Frees that found no room in the ring: serial, and time (CLOCK_MONOTONIC ns). */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, uint64_t);
    __type(value, uint64_t);
} alloc_unwritten SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(max_entries, 1); /* set to the number of cpus at load */
    __uint(key_size, sizeof(uint32_t));
    __uint(value_size, sizeof(uint32_t));
} alloc_outputs SEC(".maps");

/* Since Linux 6.13 a program may get a stack of its own for each cpu, as if nothing could interrupt
 * it there but itself. But a thread in a probe can be preempted, and another one runs the same
 * program. A program that has a tail call gets no such stack (check_max_stack_depth() of
 * kernel/bpf/verifier.c). On Linux 7.3 one of 150 sampled calls had another thread's numbers
 * before. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(uint32_t));
    __uint(value_size, sizeof(uint32_t));
} alloc_no_private_stack SEC(".maps");

int alloc_session(user_registers *ctx);
int alloc_call(user_registers *ctx);
int alloc_return(user_registers *ctx);

static __always_inline uint64_t alloc_field(uint64_t function, unsigned shift)
{
    return function >> shift & ALLOC_ARGUMENT_MASK;
}

/* Returns the binary logarithm of a number from 1, with 16 bits behind the point. log2(1 + x) is
 * about x + k x (1 - x); with k = 0.3438 the mean over x is exact. */
static __always_inline uint64_t alloc_log2(uint32_t n)
{
    enum { K = 22532 }; /* 0.3438 */
    uint64_t whole = 31;
    if (!(n >> 16)) {
        whole -= 16;
        n <<= 16;
    }
    if (!(n >> 24)) {
        whole -= 8;
        n <<= 8;
    }
    if (!(n >> 28)) {
        whole -= 4;
        n <<= 4;
    }
    if (!(n >> 30)) {
        whole -= 2;
        n <<= 2;
    }
    if (!(n >> 31)) {
        whole -= 1;
        n <<= 1;
    }
    uint64_t x = n >> 15 & 0xffff;
    return (whole << 16) + x + (K * (x * (0x10000 - x) >> 16) >> 16);
}

/* Returns a number of bytes drawn from the exponential distribution with this mean. */
static __always_inline uint64_t alloc_draw(uint64_t mean)
{
    enum { LN_2 = 45426 }; /* 16 bits behind the point */
    uint64_t below = ((uint64_t)32 << 16) - alloc_log2(bpf_get_prandom_u32() | 1);
    return mean * (below * LN_2 >> 16) >> 16;
}

struct return_instance {
    unsigned long stack, orig_ret_vaddr;
} RELOCATED;
struct uprobe_task {
    struct return_instance *return_instances;
} RELOCATED;
struct task_struct___probed {
    struct uprobe_task *utask;
} RELOCATED;

/* Returns where the call at this stack pointer returns to, if the kernel has put its own address
 * there, to see the return; 0: it has not. It does so for calls that we want to see return. Before
 * Linux 6.13 these are all, and while others probe the same file in another process, all, too. */
static __always_inline uint64_t alloc_replaced_return(uint64_t sp)
{
    const struct task_struct___probed *task = (const void *)bpf_get_current_task();
    if (!bpf_core_field_exists(task->utask))
        return 0;
    const struct return_instance *last = BPF_CORE_READ(task, utask, return_instances);
    return last && BPF_CORE_READ(last, stack) == sp ? BPF_CORE_READ(last, orig_ret_vaddr) : 0;
}

/* Whether this call is one that another function of the allocator has made. */
static __always_inline int alloc_is_inner(struct alloc_count *c, uint64_t thread, uint64_t sp,
                                          uint64_t caller, uint64_t size, uint64_t function)
{
    int jumped = c->thread == thread && c->sp == sp && c->size == size && c->function != function &&
                 (c->caller == caller || c->caller == alloc_replaced_return(sp));
    uint32_t pid = (uint32_t)(thread >> 32);
    const struct alloc_code *code = bpf_map_lookup_elem(&alloc_codes, &pid);
    if (jumped) /* (the next call from the same place begins with the same function again) */
        return 1;
    c->thread = thread;
    c->sp = sp;
    c->caller = caller;
    c->size = size;
    c->function = function;
    if (!code || caller < code->low || caller >= code->high)
        return 0;
    for (uint32_t i = 0; i < ALLOC_FUNCTIONS; i++) {
        if (i >= code->nr)
            break;
        if (caller > code->functions[i].start && caller < code->functions[i].end)
            return 1;
    }
    return 0;
}

/* Say something of a thread's process that has a number. `head`: where it is put together. */
static __always_inline void alloc_say(void *ctx, struct vmevent_header *head, uint64_t thread,
                                      uint64_t serial, uint8_t kind)
{
    uint64_t now = bpf_ktime_get_ns();
    *head = (struct vmevent_header){
        .magic = VMEVENT_MAGIC,
        .version = VMEVENT_VERSION,
        .order = VMEVENT_LITTLE,
        .word_size = 8,
        .kind = kind,
        .size = sizeof(*head),
        .cpu = bpf_get_smp_processor_id(),
        .pid = (uint32_t)(thread >> 32),
        .tid = (uint32_t)thread,
        .sequence = serial,
        .before = now,
        .after = now,
    };
    if (bpf_perf_event_output(ctx, &outputs, BPF_F_CURRENT_CPU, head, sizeof(*head)) &&
        (kind != VMEVENT_FREED || bpf_map_update_elem(&alloc_unwritten, &serial, &now, BPF_ANY)))
        count(ALLOC_OVER, 1);
}

/* A sampled block is gone: say so. */
static __always_inline void alloc_say_freed(void *ctx, struct alloc_count *c, uint64_t serial)
{
    alloc_say(ctx, &c->freed, bpf_get_current_pid_tgid(), serial, VMEVENT_FREED);
}

/* A table has no room for a sampled block: its free will not be seen. It must not seem to be in
 * use. */
static __always_inline void alloc_not_followed(void *ctx, struct alloc_count *c, uint64_t serial)
{
    count(ALLOC_OVER, 1);
    alloc_say_freed(ctx, c, serial);
}

#include "src/live/alloc_v8.bpf.h"

static __always_inline void alloc_free(void *ctx, struct alloc_count *c, uint64_t thread,
                                       uint64_t address)
{
    const struct alloc_block block = {.pid = thread >> 32, .address = address};
    const uint64_t *known = address ? bpf_map_lookup_elem(&alloc_blocks, &block) : 0;
    if (!known)
        return;
    uint64_t serial = *known;
    bpf_map_delete_elem(&alloc_blocks, &block);
    count(ALLOC_FREED, 1);
    alloc_say_freed(ctx, c, serial);
}

/* Returns 1 if the call becomes a sample. */
static __always_inline int alloc_is_due(int64_t *left, uint64_t mean, uint64_t size)
{
    int64_t before = *left;
    if (size > ALLOC_SIZE_MAX) /* it will fail */
        return 0;
    *left = before - (int64_t)size;
    if (before > (int64_t)size)
        return 0;
    *left = (int64_t)alloc_draw(mean);
    return 1;
}

static __always_inline void alloc_begin_round(const struct alloc_settings *settings,
                                              struct alloc_count *c)
{
    if (c->round == settings->round)
        return;
    c->round = settings->round;
    c->left = (int64_t)alloc_draw(settings->mean);
    c->burst = (int64_t)alloc_draw(settings->burst);
    c->v8_burst = (int64_t)alloc_draw(settings->v8_burst);
}

/* Returns the number of the sample; 0: it was not written. */
static __always_inline uint64_t alloc_write(void *ctx, struct alloc_count *c, uint64_t function,
                                            uint64_t size, uint64_t mean)
{
    uint64_t cpu = bpf_get_smp_processor_id();
    volatile uint32_t *busy = &c->busy;
    if (*busy) {
        count(ALLOC_LOST, 1);
        return 0;
    }
    *busy = 1;
    uint64_t serial = cpu << ALLOC_SERIAL_CPU | ++c->serial;
    if (function & ALLOC_OF_LUA)
        serial |= ALLOC_SERIAL_LUA;
    if (function & ALLOC_FOLLOWED)
        serial |= VMEVENT_FOLLOWED;
    __builtin_memset(&c->here, 0, sizeof(c->here));
    of_task_in(ctx, 0, &c->here);
    c->sample.serial = serial;
    c->sample.size = size;
    c->sample.function = function;
    c->sample.mean = mean;
    long failed = bpf_perf_event_output(ctx, &alloc_outputs, BPF_F_CURRENT_CPU, &c->sample,
                                        sizeof(c->sample));
    *busy = 0;
    if (failed && failed != -NOT_THERE) /* else this cpu is not recorded (-C) */
        count(ALLOC_LOST, 1);
    else if (!failed)
        count(ALLOC_SAMPLES, 1);
    return failed ? 0 : serial;
}

/* Count bytes that are allocated. Returns the number of the sample that they have become; 0: none.
 */
static __always_inline uint64_t alloc_take(void *ctx, const struct alloc_settings *settings,
                                           struct alloc_count *c, uint64_t function, uint64_t size)
{
    int in_burst = (function & ALLOC_BURST) != 0, of_v8 = (function & ALLOC_OF_V8) != 0;
    uint64_t mean = !in_burst ? settings->mean : of_v8 ? settings->v8_burst : settings->burst;
    alloc_begin_round(settings, c);
    count(!in_burst ? ALLOC_BYTES : of_v8 ? ALLOC_V8_IN_BURST : ALLOC_BURST_BYTES, size);
    if (!alloc_is_due(!in_burst ? &c->left : of_v8 ? &c->v8_burst : &c->burst, mean, size))
        return 0;
    return alloc_write(ctx, c, function, size, mean);
}

/* Whether V8 allocates for the program, as far as was noted. */
static __always_inline int alloc_is_programs(const struct alloc_count *c, uint64_t thread)
{
    return c->noted_thread == thread && c->noted_origin != ALLOC_BY_GC;
}

/* Returns how many bytes a heap has allocated for the program in its last area, and notes the area
 * that follows. `object`: bytes of the object that will be at its beginning; 0: it is not asked for
 * yet, and the bytes count when it is. */
static __always_inline uint64_t alloc_area_used(const struct alloc_count *c, uint64_t thread,
                                                uint64_t heap, uint64_t start, uint64_t end,
                                                uint64_t object, int collects)
{
    const struct alloc_block key = {.pid = thread, .address = heap};
    struct alloc_heap *of = bpf_map_lookup_elem(&alloc_areas, &key);
    if (!of) {
        const struct alloc_heap new = {.area = {.start = start, .end = end}};
        bpf_map_update_elem(&alloc_areas, &key, &new, BPF_ANY);
        return 0;
    }
    struct alloc_area *known = &of->area;
    /* An area that begins within the last one is its rest; else the last one became full. */
    uint64_t to = start >= known->start && start <= known->end ? start : known->end;
    uint64_t used = to - known->start;
    known->start = start;
    known->end = end;
    used = used < ALLOC_AREA_MAX ? used : 0;
    if (collects || !alloc_is_programs(c, thread)) {
        if (collects && !of->is_copies) /* up to now it was the program's */
            of->carried += used;
        of->is_copies = collects;
        return 0;
    }
    of->is_copies = 0;
    used += of->carried;
    of->carried = object ? 0 : used;
    return object ? used : 0;
}

/* Returns how many bytes a call allocates; 0: none that count. */
static __always_inline uint64_t alloc_size_of(user_registers *ctx, struct alloc_count *c,
                                              uint64_t thread, uint64_t function)
{
    uint64_t origin = alloc_field(function, ALLOC_ORIGIN), size;
    if (origin) {
        c->noted_thread = thread;
        c->noted_origin = argument(ctx, origin);
    }
    if (function & ALLOC_ENDS_AREA)
        v8_area_ends(ctx, thread);
    if (function & ALLOC_NOTES)
        return 0;
    uint64_t heap =
        function & ALLOC_OLD_AREA ? v8_old_area(ctx, thread, function) : argument(ctx, 1);
    if (function & ALLOC_AREA && !heap)
        return 0;
    size = function & ALLOC_AREA
               ? alloc_area_used(c, thread, heap, argument(ctx, 2), argument(ctx, 3),
                                 argument(ctx, 4), v8_collects(thread, heap))
               : argument(ctx, alloc_field(function, ALLOC_SIZE));
    if (origin && !alloc_is_programs(c, thread))
        return 0;
    uint64_t times = alloc_field(function, ALLOC_TIMES);
    return times ? size * argument(ctx, times) : size;
}

/* Returns the same of a call that returns an area. */
static __always_inline uint64_t alloc_area_returned(user_registers *ctx, struct alloc_count *c,
                                                    uint64_t thread, uint64_t *ret_start)
{
    struct alloc_area area = {0};
    uint64_t at = result(ctx);
    if (!(uint8_t)read_u64(at + sizeof(area)) ||
        bpf_probe_read_user(&area, sizeof(area), (const void *)at))
        area.start = area.end = 0; /* the heap is full */
    *ret_start = area.start;
    const struct alloc_block key = {.pid = thread};
    return alloc_area_used(c, thread, 0, area.start, area.end, area.start,
                           bpf_map_lookup_elem(&alloc_collecting, &key) != 0);
}

static __always_inline uint64_t alloc_place_value(user_registers *ctx, const struct alloc_place *p)
{
    enum { WORD = 8, REGISTERS = 0xf8 };
    uint64_t value = (uint64_t)p->value, size = p->size;
    if (p->kind != PLACE_CONSTANT) {
        uint64_t in = saved((const uint8_t *)ctx + (p->at & REGISTERS));
        value = p->kind == PLACE_MEMORY ? read_u64(in + value) : in;
    }
    if (size >= WORD)
        return value;
    unsigned unused = (unsigned)(WORD - size) * 8 & 63;
    return p->is_signed ? (uint64_t)((int64_t)(value << unused) >> unused)
                        : value << unused >> unused;
}

/* The allocator tells of a sample of its own, or that such a block was freed. */
static __always_inline void alloc_told(user_registers *ctx, struct alloc_count *c, uint64_t thread,
                                       uint64_t function)
{
    uint32_t number = function >> ALLOC_NUMBER & ALLOC_NUMBER_MASK, pid = (uint32_t)(thread >> 32);
    const struct alloc_usdt *usdt = bpf_map_lookup_elem(&alloc_usdts, &number);
    if (!usdt)
        return;
    uint64_t address = alloc_place_value(ctx, &usdt->block);
    if (usdt->frees) {
        alloc_free(ctx, c, thread, address);
        return;
    }
    uint64_t size = alloc_place_value(ctx, &usdt->size);
    uint64_t weight = alloc_place_value(ctx, &usdt->weight);
    struct alloc_code *code = bpf_map_lookup_elem(&alloc_codes, &pid);
    if (code)
        __sync_fetch_and_add(&code->told, 1);
    if (!size || size > ALLOC_SIZE_MAX || !weight || weight > ALLOC_SIZE_MAX)
        return;
    count(ALLOC_BYTES, weight);
    const struct alloc_block block = {.pid = pid, .address = address};
    uint64_t serial = alloc_write(ctx, c, function, size, weight);
    if (serial && bpf_map_update_elem(&alloc_blocks, &block, &serial, BPF_ANY))
        alloc_not_followed(ctx, c, serial);
}

/* Returns the counter (enum vmstack_counter) of such calls. */
static __always_inline uint32_t alloc_calls_counter(uint64_t function)
{
    if (function & ALLOC_OF_LUA)
        return function & ALLOC_BURST ? ALLOC_LUA_SEEN : ALLOC_LUA_CALLS;
    if (function & ALLOC_OF_V8)
        return function & ALLOC_BURST ? ALLOC_V8_SEEN : ALLOC_V8_CALLS;
    return ALLOC_CALLS;
}

/* Returns 1 if the return of this call is to be seen. */
static __always_inline int alloc_enter(user_registers *ctx)
{
    uint64_t thread = bpf_get_current_pid_tgid(), function = bpf_get_attach_cookie(ctx);
    uint32_t zero = 0;
    const struct alloc_settings *settings = bpf_map_lookup_elem(&alloc_settings, &zero);
    struct alloc_count *c = bpf_map_lookup_elem(&alloc_counts, &zero);
    if (!settings || !c || !settings->on)
        return 0;
    count(alloc_calls_counter(function), 1);
    if (function & ALLOC_USDT) {
        alloc_told(ctx, c, thread, function);
        return 0;
    }
    uint64_t old = alloc_field(function, ALLOC_OLD);
    if (old)
        alloc_free(ctx, c, thread, v8_block(thread, function, argument(ctx, old)));
    uint64_t size = alloc_size_of(ctx, c, thread, function);
    if (function & ALLOC_RETURNS_AREA)
        return 1;
    if (!size)
        return 0;
    uint64_t sp = stack_pointer(ctx), caller = return_address(ctx);
    if (!(function & ALLOC_AREA) && alloc_is_inner(c, thread, sp, caller, size, function)) {
        count(ALLOC_INNER, 1);
        return 0;
    }
    function |= v8_follows(thread, function);
    uint64_t serial = alloc_take(ctx, settings, c, function, size);
    if (serial && function & ALLOC_AREA && function & ALLOC_FOLLOWED)
        v8_follow(ctx, c, thread, argument(ctx, 2), serial);
    if (!serial || !(function & ALLOC_RETURNS) || !v8_returns(function))
        return 0;
    thread |= v8_pending(function);
    uint64_t out = alloc_field(function, ALLOC_OUT);
    const struct alloc_pending pending = {
        .serial = serial, .sp = sp, .out = out ? argument(ctx, out) : 0};
    if (bpf_map_update_elem(&alloc_pendings, &thread, &pending, BPF_ANY)) {
        alloc_not_followed(ctx, c, serial);
        return 0;
    }
    return 1;
}

static __always_inline void alloc_leave(user_registers *ctx)
{
    uint64_t thread = bpf_get_current_pid_tgid(), function = bpf_get_attach_cookie(ctx);
    uint32_t zero = 0;
    const struct alloc_settings *settings = bpf_map_lookup_elem(&alloc_settings, &zero);
    struct alloc_count *c = bpf_map_lookup_elem(&alloc_counts, &zero);
    if (!settings || !settings->on || !c)
        return;
    if (function & ALLOC_RETURNS_AREA) {
        uint64_t start = 0, used = alloc_area_returned(ctx, c, thread, &start), serial;
        function |= v8_follows(thread, function);
        serial = used ? alloc_take(ctx, settings, c, function, used) : 0;
        if (serial && function & ALLOC_FOLLOWED)
            v8_follow(ctx, c, thread, start, serial);
        return;
    }
    thread |= v8_pending(function);
    const struct alloc_pending *pending = bpf_map_lookup_elem(&alloc_pendings, &thread);
    if (!pending || stack_pointer(ctx) < pending->sp) /* the return of an inner call */
        return;
    uint64_t serial = pending->serial;
    struct alloc_block block = {.pid = thread >> 32, .address = result(ctx)};
    if (pending->out)
        block.address = read_u64(pending->out);
    bpf_map_delete_elem(&alloc_pendings, &thread);
    thread &= ~ALLOC_V8_PENDING;
    block.pid = thread >> 32;
    if (function & ALLOC_V8_OBJECT) {
        v8_follow(ctx, c, thread, block.address & 1 ? block.address - 1 : 0, serial);
        return;
    }
    block.address = v8_block(thread, function, block.address);
    if (!block.address)
        alloc_say_freed(ctx, c, serial); /* there was no memory */
    else if (bpf_map_update_elem(&alloc_blocks, &block, &serial, BPF_ANY))
        alloc_not_followed(ctx, c, serial);
}

SEC("kprobe")
int alloc_call(user_registers *ctx)
{
    alloc_enter(ctx);
    return 0;
}

SEC("kprobe")
int alloc_return(user_registers *ctx)
{
    alloc_leave(ctx);
    return 0;
}

/* At the entry, 0 asks for the return, too. At the entry the helper's answer is the program
 * counter, at the return it is still the entry. (The function that tells has other arguments in
 * newer kernels.) */
SEC("kprobe")
int alloc_session(user_registers *ctx)
{
    if (!ctx->IP) /* never */
        bpf_tail_call(ctx, &alloc_no_private_stack, 0);
    if (ctx->IP == bpf_get_func_ip(ctx))
        return !alloc_enter(ctx);
    alloc_leave(ctx);
    return 0;
}
