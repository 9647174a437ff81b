/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sampled objects of V8's heap, until they are garbage. Part of alloc.bpf.h.
 *
 * Where a new area is asked for, the object that did not fit into the last one is put at its
 * beginning: that is where a sampled object is. From there on V8's collections move it, or do not.
 * Probes at functions that V8 calls in a collection (alloc_collect) look at each sampled object:
 *
 * - ALLOC_BEGINS, ALLOC_ENDS: of which heap the others tell.
 * - ALLOC_SCAVENGED, of the young ones: the first word of an object that was copied is the address
 * of the copy. One that was not, in a chunk whose objects were to be copied, is garbage.
 * - ALLOC_MARKED, of all: an object without its bit in its chunk's bitmap is garbage.
 * - ALLOC_EVACUATED, of all: as ALLOC_SCAVENGED, but chunks may also stay where they are.
 * - ALLOC_TORN_DOWN: the objects of a heap are gone. Not so those of the main thread's heap, which
 * ends as the process does: what a process has in use in the end is in use.
 *
 * That an object is in use is known when it was marked: between two full collections old garbage
 * looks the same. So each is told (VMEVENT_COLLECTED), by the thread whose heap it is. What a
 * thread has allocated in another heap is not followed on.
 *
 * Layout: unwind/v8/layout.h (chunk_...). Sources: src/heap/scavenger.cc, mark-compact.cc,
 * marking.h, memory-chunk*.h of V8 10.2 to 14.6.
 */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* set at load if allocations are recorded, like those below */
    __type(key, uint32_t);  /* pid */
    __type(value, struct alloc_v8);
} alloc_v8s SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, uint64_t); /* serial */
    __type(value, struct alloc_object);
} alloc_young SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, uint64_t);
    __type(value, struct alloc_object);
} alloc_old SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __type(key, struct alloc_block);
    __type(value, struct alloc_collecting);
} alloc_collecting SEC(".maps");

int alloc_collect(user_registers *ctx);

static __always_inline const struct alloc_v8 *v8_of(uint64_t thread)
{
    uint32_t pid = (uint32_t)(thread >> 32);
    return bpf_map_lookup_elem(&alloc_v8s, &pid);
}

/* Returns ALLOC_FOLLOWED if V8's collections are seen, and, for its own objects, understood. */
static __always_inline uint64_t v8_follows(uint64_t thread, uint64_t function)
{
    if (!(function & (ALLOC_V8_OBJECT | ALLOC_V8_BUFFER)))
        return 0;
    const struct alloc_v8 *v8 = v8_of(thread);
    return v8 && (v8->known || function & ALLOC_V8_BUFFER) ? ALLOC_FOLLOWED : 0;
}

/* Whether the return of a sampled call says something. */
static __always_inline int v8_returns(uint64_t function)
{
    return !(function & (ALLOC_V8_OBJECT | ALLOC_V8_BUFFER)) || function & ALLOC_FOLLOWED;
}

static __always_inline uint64_t v8_pending(uint64_t function)
{
    return function & (ALLOC_V8_OBJECT | ALLOC_V8_BUFFER) ? ALLOC_V8_PENDING : 0;
}

/* Returns what names a block in the table of blocks. What describes a Buffer's memory is such a
 * block by itself, at the same address. When V8 has ended with its process, what is freed does not
 * count. */
static __always_inline uint64_t v8_block(uint64_t thread, uint64_t function, uint64_t address)
{
    if (!(function & ALLOC_V8_BUFFER) || !address)
        return address;
    return v8_of(thread) ? address | 1 : 0;
}

/* Whether the heap of one of V8's spaces collects garbage: what it allocates then is for copies,
 * which its threads may make without saying for whom they allocate. */
static __always_inline int v8_collects(uint64_t thread, uint64_t space)
{
    enum { HEAP = 8 }; /* of a space: its heap */
    const struct alloc_block heap = {.pid = thread >> 32, .address = read_u64(space + HEAP)};
    return bpf_map_lookup_elem(&alloc_collecting, &heap) != 0;
}

/* ---- objects ------------------------------------------------------------------------------- */

static __always_inline uint64_t v8_chunk(uint64_t address)
{
    return address & ~ALLOC_CHUNK_MASK;
}

static __always_inline uint64_t v8_chunk_flags(const struct alloc_v8 *v8, uint64_t address)
{
    return read_u64(v8_chunk(address) + v8->flags);
}

static __always_inline int v8_is_young(const struct alloc_v8 *v8, uint64_t address)
{
    return (v8_chunk_flags(v8, address) & (ALLOC_CHUNK_FROM | ALLOC_CHUNK_TO)) != 0;
}

enum { V8_POLICY_ALLOCATOR = 8, V8_ALLOCATOR_AREA = 0xa0 };

/* An allocator gives back the rest of its area: the bytes in it up to its top were allocated. That
 * these are its area and its top is seen by what was noted when it got the area. */
static __always_inline void v8_area_ends(user_registers *ctx, uint64_t thread)
{
    struct {
        uint64_t start, top;
    } is = {0};
    uint64_t allocator = read_u64(argument(ctx, 1) + V8_POLICY_ALLOCATOR);
    const struct alloc_block key = {.pid = thread, .address = allocator};
    struct alloc_heap *of = bpf_map_lookup_elem(&alloc_areas, &key);
    bpf_probe_read_user(&is, sizeof(is), (const void *)read_u64(allocator + V8_ALLOCATOR_AREA));
    if (of && is.start >= of->area.start && is.top >= is.start && is.top <= of->area.end)
        of->area.end = is.top;
}

/* Returns what tells an area of the old space apart that a function is called with: its allocator,
 * which has a policy. 0: it is an area of the new space, which others tell. */
static __always_inline uint64_t v8_old_area(user_registers *ctx, uint64_t thread, uint64_t function)
{
    uint64_t self = argument(ctx, 1), start = argument(ctx, 2);
    const struct alloc_v8 *v8 = v8_of(thread);
    if (!v8 || !v8->known || !start || v8_is_young(v8, start))
        return 0;
    return function & ALLOC_OF_POLICY ? read_u64(self + V8_POLICY_ALLOCATOR) : self;
}

static __always_inline uint64_t v8_description(const struct alloc_v8 *v8, uint64_t address)
{
    uint64_t chunk = v8_chunk(address);
    return v8->described ? read_u64(chunk + v8->description) : chunk;
}

static __always_inline int v8_is_marked(const struct alloc_v8 *v8, uint64_t address)
{
    uint8_t bits = 0;
    uint64_t at = v8_description(v8, address) + v8->marks + ((address & ALLOC_CHUNK_MASK) >> 6);
    bpf_probe_read_user(&bits, sizeof(bits), (const void *)at);
    return bits >> (address >> 3 & 7) & 1;
}

static __always_inline void v8_follow(void *ctx, struct alloc_count *c, uint64_t thread,
                                      uint64_t address, uint64_t serial)
{
    const struct alloc_v8 *v8 = v8_of(thread);
    struct alloc_object o = {
        .address = address, .pid = (uint32_t)(thread >> 32), .tid = (uint32_t)thread};
    long failed = 1;
    if (!address) {
        alloc_say_freed(ctx, c, serial); /* there was no memory */
        return;
    }
    if (v8 && v8->known)
        o.heap = read_u64(v8_description(v8, address) + v8->heap);
    if (o.heap && v8_is_young(v8, address))
        failed = bpf_map_update_elem(&alloc_young, &serial, &o, BPF_ANY);
    else if (o.heap)
        failed = bpf_map_update_elem(&alloc_old, &serial, &o, BPF_ANY);
    if (failed)
        alloc_not_followed(ctx, c, serial);
}

/* ---- collections --------------------------------------------------------------------------- */

/* A collection of a heap. */
struct v8_collection {
    void *ctx;
    const struct alloc_v8 *v8;
    uint64_t thread, heap;
};

/* (Not by what a cpu has for that: a thread may be preempted.) */
static __always_inline void v8_say(void *ctx, uint64_t thread, uint64_t serial, uint8_t kind)
{
    struct vmevent_header head;
    alloc_say(ctx, &head, thread, serial, kind);
}

/* A sampled object is garbage, or cannot be followed. */
static __always_inline void v8_forget(void *map, const struct v8_collection *by, uint64_t serial,
                                      enum vmstack_counter why)
{
    bpf_map_delete_elem(map, &serial);
    count(why, 1);
    v8_say(by->ctx, by->thread, serial, VMEVENT_FREED);
}

static __always_inline int v8_is_of(const struct alloc_object *o, const struct v8_collection *by)
{
    return o->pid == (uint32_t)(by->thread >> 32) && o->heap == by->heap;
}

/* Follow an object that may have been copied. Returns 0 if it was not. */
static __always_inline int v8_move(struct alloc_object *o)
{
    uint64_t word = read_u64(o->address);
    if (word & 1 || !word) /* a pointer to its map: not copied */
        return 0;
    o->address = word;
    return 1;
}

/* An object that is not young any more goes into the other table. */
static __always_inline void v8_grow_old(const struct v8_collection *by, const uint64_t *key,
                                        const struct alloc_object *o)
{
    const struct alloc_object old = *o;
    uint64_t serial = *key;
    if (v8_is_young(by->v8, old.address))
        return;
    bpf_map_delete_elem(&alloc_young, &serial);
    if (!bpf_map_update_elem(&alloc_old, &serial, &old, BPF_ANY))
        return;
    count(ALLOC_OVER, 1);
    v8_say(by->ctx, by->thread, serial, VMEVENT_FREED);
}

static long v8_scavenged(void *map, const uint64_t *key, struct alloc_object *o,
                         const struct v8_collection *by)
{
    (void)map;
    if (!v8_is_of(o, by))
        return 0;
    if (!v8_move(o) && v8_chunk_flags(by->v8, o->address) & ALLOC_CHUNK_FROM)
        v8_forget(&alloc_young, by, *key, ALLOC_FREED);
    else
        v8_grow_old(by, key, o);
    return 0;
}

static long v8_evacuated_young(void *map, const uint64_t *key, struct alloc_object *o,
                               const struct v8_collection *by)
{
    (void)map;
    if (v8_is_of(o, by)) {
        v8_move(o);
        v8_grow_old(by, key, o);
    }
    return 0;
}

static long v8_evacuated(void *map, const uint64_t *key, struct alloc_object *o,
                         const struct v8_collection *by)
{
    (void)map;
    (void)key;
    if (v8_is_of(o, by))
        v8_move(o);
    return 0;
}

static long v8_marked(void *map, const uint64_t *key, struct alloc_object *o,
                      const struct v8_collection *by)
{
    int of_heap = v8_is_of(o, by);
    if (of_heap && !v8_is_marked(by->v8, o->address))
        v8_forget(map, by, *key, ALLOC_FREED);
    else if (!of_heap && o->pid == (uint32_t)(by->thread >> 32) && o->tid == (uint32_t)by->thread)
        v8_forget(map, by, *key, ALLOC_STRAY);
    return 0;
}

static long v8_gone(void *map, const uint64_t *key, struct alloc_object *o,
                    const struct v8_collection *by)
{
    if (v8_is_of(o, by))
        v8_forget(map, by, *key, ALLOC_FREED);
    return 0;
}

/* A heap of a process's main thread ends: the process does, too. */
static __always_inline int v8_ends(uint64_t thread)
{
    uint32_t pid = (uint32_t)(thread >> 32);
    if (pid != (uint32_t)thread)
        return 0;
    bpf_map_delete_elem(&alloc_v8s, &pid);
    return 1;
}

/* Call a function for each object of a table. The text keeps the compiler from making one call of
 * several: before Linux 6.9 a call must always have the same table. */
#define V8_EACH(table, function, by)                    \
    do {                                                \
        bpf_for_each_map_elem(&table, function, by, 0); \
        __asm__ volatile("# " #table ::: "memory");     \
    } while (0)

/* Look at the sampled objects of a heap. */
static __always_inline void v8_look(struct v8_collection *by, uint64_t what,
                                    struct alloc_collecting *c)
{
    by->heap = c->heap;
    if (what == ALLOC_SCAVENGED && !c->marked && !c->scavenged) {
        c->scavenged = 1;
        V8_EACH(alloc_young, v8_scavenged, by);
    } else if (what == ALLOC_MARKED) {
        c->marked = 1;
        v8_say(by->ctx, by->thread, 0, VMEVENT_COLLECTED);
        V8_EACH(alloc_young, v8_marked, by);
        V8_EACH(alloc_old, v8_marked, by);
    } else if (what == ALLOC_EVACUATED) {
        V8_EACH(alloc_young, v8_evacuated_young, by);
        V8_EACH(alloc_old, v8_evacuated, by);
    }
}

SEC("kprobe")
int alloc_collect(user_registers *ctx)
{
    uint64_t thread = bpf_get_current_pid_tgid();
    const uint64_t function = bpf_get_attach_cookie(ctx);
    const uint64_t what = function >> ALLOC_SIZE & ALLOC_ARGUMENT_MASK;
    struct v8_collection by = {.ctx = ctx, .v8 = v8_of(thread), .thread = thread};
    struct alloc_block of_thread = {.pid = thread}, of_heap = {.pid = thread >> 32};
    if (!ctx->IP) /* never: see alloc_no_private_stack */
        bpf_tail_call(ctx, &alloc_no_private_stack, 0);
    count(function & ALLOC_BURST ? ALLOC_V8_SEEN : ALLOC_V8_CALLS, 1);
    if (!by.v8)
        return 1;
    if (what == ALLOC_BEGINS || what == ALLOC_ENDS || what == ALLOC_TORN_DOWN)
        by.heap = of_heap.address = argument(ctx, 1);
    if (what == ALLOC_BEGINS) {
        const struct alloc_collecting new = {.heap = by.heap};
        bpf_map_update_elem(&alloc_collecting, &of_thread, &new, BPF_ANY);
        bpf_map_update_elem(&alloc_collecting, &of_heap, &new, BPF_ANY);
    } else if (what == ALLOC_ENDS) {
        bpf_map_delete_elem(&alloc_collecting, &of_thread);
        bpf_map_delete_elem(&alloc_collecting, &of_heap);
    } else if (what == ALLOC_TORN_DOWN && !v8_ends(thread)) {
        V8_EACH(alloc_young, v8_gone, &by);
        V8_EACH(alloc_old, v8_gone, &by);
    } else if (what != ALLOC_TORN_DOWN) {
        struct alloc_collecting *c = bpf_map_lookup_elem(&alloc_collecting, &of_thread);
        if (c)
            v8_look(&by, what, c);
    }
    return 1;
}
