/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The copier's part for plain (PUC-Rio) Lua. Included by vmstack.bpf.c.
 *
 * No global variable names the lua_States that run. Each of them is in a frame of execute
 * (luaV_execute) on the native stack, in one of its slots, or in a callee-saved register, which the
 * function that execute called has pushed. So every return address into execute is looked for, and
 * the words around it are tested. A word is a lua_State if its memory says so, and if its
 * global_State's main thread names the same global_State: so neither states nor VMs need to be
 * known before. Words that were states a moment ago are tested wherever they are.
 *
 * A state is copied with its stack, its CallInfos (newest first, bounded), and the heads of the
 * functions and prototypes of these: the recorder may come too late for the latter.
 */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, VMSTACK_LUA_PROCESSES);
    __type(key, uint32_t);
    __type(value, struct vmstack_lua_process);
} lua_processes SEC(".maps");

enum {
    LUA_BELOW = 64,   /* words below a return address that are tested, until one is a state */
    LUA_PUSHED = 16,  /* of these, the words in which the called function has pushed registers */
    LUA_OWN = 6,      /* ... and of these, those of execute: as many as a call preserves */
    LUA_CHUNK = 128,  /* words of the native stack that are examined at once, besides these */
    LUA_TESTED = 256, /* words whose test is remembered; a power of two */
    /* For so long a word of execute's registers that was no state is not tested again: reading what
     * words point to is most of what a sample costs. They point to what the running function uses,
     * which is in use, and so no state the next moment. (In other functions' registers may be what
     * the collector frees, and what is a coroutine soon.) */
    LUA_TESTED_NS = 2000000,
    LUA_HEAD = 48, /* bytes of a lua_State that a test needs */
    LUA_SLOT = 16, /* bytes of a slot of the Lua stack */
    /* CallInfos that are copied at once where they lie side by side, besides the one that is
     * wanted; and how many bytes may be between two of them. */
    LUA_AHEAD = 4,
    LUA_BETWEEN = 32,
    LUA_RECENT = 8, /* functions, and prototypes, that are known as copied; a power of two */
    LUA_PLACES =
        64, /* calls of execute whose words with the state are remembered; a power of two */
    LUA_TT_THREAD = 8,
    LUA_TT_MASK = 0x3f,   /* of a type: without the bit "collectable" */
    LUA_OFFSETS = 1 << 26 /* bytes: a larger distance to the stack is none */
};

/* What was found lately, of all processes: by a hash of the address, an address mixed with the
 * process (LUA_KEY). Cpus that write at once may lose an entry, which is found again. */
struct lua_known {
    uint64_t states[VMSTACK_LUA_RECENT];
    uint64_t globals[VMSTACK_LUA_GLOBALS]; /* with the number of the build in the low bits, mixed
                                              with the version of the builds */
};
#define LUA_KEY(l, address) ((address) ^ (uint64_t)(l)->process << 40)

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct lua_known);
} lua_known_map SEC(".maps");

/* Working memory of one cpu's interrupt, beside struct scratch. */
struct lua_scratch {
    uint64_t from, end;           /* the native stack */
    uint32_t process;             /* key in lua_processes */
    uint32_t nr;                  /* states found */
    uint32_t in_registers, outer; /* of these, in registers; frames of execute were met already */
    uint64_t states[VMSTACK_LUA_STATES];
    uint32_t builds[VMSTACK_LUA_STATES];
    uint64_t lowest, highest;     /* addresses of states of this process */
    struct vmstack_lua_builds of; /* of the process that was sampled last */
    /* Words tested lately. */
    struct {
        uint64_t key, when; /* LUA_KEY; time of the run (ns) */
        uint32_t is, kept;  /* the result; whether it is valid for a while */
    } tested[LUA_TESTED];
    /* The words below a return address in which the state was last: a function that is called there
     * pushes the same registers each time. */
    struct {
        uint64_t key;      /* LUA_KEY of the return address */
        uint32_t below[2]; /* newest first */
    } places[LUA_PLACES];
    uint32_t own_register; /* in which execute's state was last */
    uint64_t now;          /* of this run */
    uint64_t head[LUA_HEAD / 8];
    uint64_t words[LUA_BELOW + LUA_CHUNK];
    /* The state that is being copied. */
    struct vmstack_lua build;
    uint64_t L, stack, ci, moved; /* `moved`: where the stack was, while pointers still say so */
    uint64_t slots;               /* address of the copied part of its stack */
    uint32_t slots_at, slots_size;
    uint32_t state_at;              /* where the state is in the payload */
    uint64_t calls_from, last_call; /* address of the CallInfos copied last; the last one used */
    uint32_t calls_at, calls_size;
    /* Copied last for this sample: states have functions in common. */
    uint64_t functions[LUA_RECENT], protos[LUA_RECENT];
    uint64_t sources[2];
    uint32_t nr_functions, nr_protos, nr_sources;
    uint32_t calls; /* of this sample so far */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set to the number of cpus at load */
    __type(key, uint32_t);
    __type(value, struct lua_scratch);
} lua_scratches SEC(".maps");

int lua_widen(uint64_t L);
int lua_main_thread_is(uint64_t g, uint32_t build);
int lua_test_at(uint64_t word, uint32_t own);
int lua_test_register(uint64_t word, uint32_t own);
int lua_return_address(uint32_t at, uint64_t frame);
int lua_scan(uint64_t from);
int lua_find(uint32_t build, uint64_t bp);
int lua_copy_proto(uint64_t proto, uint32_t level);
int lua_copy_function(uint64_t slot, uint32_t level);
uint32_t lua_copy_call(uint64_t ci, uint32_t level);
int lua_copy_list(uint32_t level);
int lua_copy_array(uint32_t level);
int lua_copy_stack(uint64_t top, uint32_t level);
int lua_copy_state(uint32_t n);

static __always_inline struct lua_scratch *lua_scratch_get(void)
{
    uint32_t cpu = bpf_get_smp_processor_id();
    return bpf_map_lookup_elem(&lua_scratches, &cpu);
}

static __always_inline struct lua_known *lua_known_get(void)
{
    uint32_t zero = 0;
    return bpf_map_lookup_elem(&lua_known_map, &zero);
}

/* ---- which states ---------------------------------------------------------------------------- */

static __always_inline uint32_t lua_hash(uint64_t address)
{
    return (uint32_t)(address >> 4 ^ address >> 14);
}

/* Whether `g` is a global_State of this build: its main thread must name it. */
__noinline int lua_main_thread_is(uint64_t g, uint32_t build)
{
    struct lua_scratch *l = lua_scratch_get();
    struct lua_known *known = lua_known_get();
    if (!l || !known || !g || g & 7)
        return 0;
    build &= VMSTACK_LUA_BUILDS - 1;
    const struct vmstack_lua *b = &l->of.builds[build];
    uint64_t *at = &known->globals[lua_hash(g) & (VMSTACK_LUA_GLOBALS - 1)];
    /* A library that is opened later may change the builds' numbers. */
    uint64_t key = LUA_KEY(l, g | build) ^ l->of.version * UINT64_C(0x9e3779b97f4a7c15);
    uint8_t type = 0;
    if (*at == key)
        return 1;
    uint64_t thread = g + b->main_thread;
    if (!(b->flags & VMSTACK_LUA_EMBEDDED))
        thread = read_u64(thread);
    bpf_probe_read_user(&type, sizeof(type), (const void *)(thread + 8));
    if ((type & LUA_TT_MASK) != LUA_TT_THREAD || read_u64(thread + b->global) != g)
        return 0;
    *at = key;
    return 1;
}

/* Note that the process's states reach to this one. */
__noinline int lua_widen(uint64_t L)
{
    struct lua_scratch *l = lua_scratch_get();
    uint32_t key = l ? l->process : 0;
    struct vmstack_lua_process *p = bpf_map_lookup_elem(&lua_processes, &key);
    if (!l || !p)
        return 0;
    if (!p->highest || L < p->lowest)
        p->lowest = L;
    if (L > p->highest)
        p->highest = L;
    l->lowest = p->lowest;
    l->highest = p->highest;
    return 0;
}

/* Note a state to be copied. */
static __always_inline void lua_note(struct lua_scratch *l, uint64_t L, uint32_t build)
{
    struct lua_known *known = lua_known_get();
    for (uint32_t i = 0; i < VMSTACK_LUA_STATES; i++)
        if (i < l->nr && l->states[i] == L)
            return;
    if (known)
        known->states[lua_hash(L) & (VMSTACK_LUA_RECENT - 1)] = LUA_KEY(l, L);
    if (L < l->lowest || L > l->highest)
        lua_widen(L);
    uint32_t nr = l->nr;
    HIDDEN(nr);
    if (nr >= VMSTACK_LUA_STATES)
        return;
    l->states[nr] = L;
    l->builds[nr] = build;
    l->nr = nr + 1;
}

/* Whether the head of a state in l->head belongs to build `i`. */
static __always_inline int lua_is_of(const struct lua_scratch *l, uint32_t i)
{
    uint32_t at = l->of.builds[i].global / 8;
    HIDDEN(at);
    return at < LUA_HEAD / 8 && lua_main_thread_is(l->head[at], i);
}

/* Whether a state was found at this address before. A coroutine often has the memory of one that is
 * dead. */
static __always_inline int lua_was_state(const struct lua_scratch *l, uint64_t word)
{
    const struct lua_known *known = lua_known_get();
    return known && known->states[lua_hash(word) & (VMSTACK_LUA_RECENT - 1)] == LUA_KEY(l, word);
}

/* Whether a word looks like an address outside of the native stack. */
static __always_inline int lua_is_address(const struct lua_scratch *l, uint64_t word)
{
    return !(word & 7) && word >= 1 << 16 && !(word >> ADDRESS_BITS) &&
           word - l->from >= l->end - l->from;
}

/* Test whether the memory at an address is a lua_State, and note the state. `own`: the word is of
 * execute's registers. Returns 1 if it is one. */
__noinline int lua_test_at(uint64_t word, uint32_t own)
{
    struct lua_scratch *l = lua_scratch_get();
    if (!l)
        return 0;
    uint32_t slot = lua_hash(word) & (LUA_TESTED - 1);
    l->tested[slot].key = LUA_KEY(l, word);
    l->tested[slot].when = l->now;
    l->tested[slot].is = 0;
    l->tested[slot].kept = own;
    if (bpf_probe_read_user(l->head, sizeof(l->head), (const void *)word) ||
        (l->head[1] & LUA_TT_MASK) != LUA_TT_THREAD)
        return 0;
    for (uint32_t i = 0; i < VMSTACK_LUA_BUILDS; i++) {
        if (i >= l->of.nr)
            break;
        if (!lua_is_of(l, i))
            continue;
        lua_note(l, word, i);
        l->tested[slot].is = 1;
        l->tested[slot].kept = 0;
        return 1;
    }
    return 0;
}

/* The same of any word. Most were tested before, for this sample or lately: they cost no call. */
static __always_inline int lua_test(const struct lua_scratch *l, uint64_t word, int own)
{
    if (!lua_is_address(l, word))
        return 0;
    uint32_t slot = lua_hash(word) & (LUA_TESTED - 1);
    if (l->tested[slot].key == LUA_KEY(l, word)) {
        uint64_t age = l->now - l->tested[slot].when;
        if (!age || (own && l->tested[slot].kept && age < LUA_TESTED_NS && !lua_was_state(l, word)))
            return (int)l->tested[slot].is;
    }
    return lua_test_at(word, own);
}

/* The same of one of the sample's registers. (Not inlined: the program's own frame has no room.) */
__noinline int lua_test_register(uint64_t word, uint32_t own)
{
    const struct lua_scratch *l = lua_scratch_get();
    return l ? lua_test(l, word, (int)own) : 0;
}

/* Returns the number of the build in whose execute `pc` is; VMSTACK_LUA_BUILDS: none. */
static __always_inline uint32_t lua_build_at(const struct lua_scratch *l, uint64_t pc)
{
    for (uint32_t i = 0; i < VMSTACK_LUA_BUILDS; i++) {
        if (i >= l->of.nr)
            break;
        for (int k = 0; k < VMSTACK_LUA_PARTS; k++)
            if (pc - l->of.builds[i].parts[k].start < l->of.builds[i].parts[k].size)
                return i;
    }
    return VMSTACK_LUA_BUILDS;
}

/* Test the slot of a frame of execute that holds its state. `sp`, `bp`: the frame's registers. */
static __always_inline int lua_test_slot(const struct lua_scratch *l, const struct vmstack_lua *b,
                                         uint64_t sp, uint64_t bp)
{
    uint64_t at = b->flags & VMSTACK_LUA_BY_SP ? sp : b->flags & VMSTACK_LUA_BY_BP ? bp : 0;
    return at && lua_test(l, read_u64(at + (int64_t)b->slot), 0);
}

/* Test the `nr` words below the return address l->words[at]. Returns 1 if one is a state. */
static __always_inline int lua_test_below(struct lua_scratch *l, uint32_t at, uint32_t nr)
{
    const uint64_t key = LUA_KEY(l, l->words[at]);
    const uint32_t place = (uint32_t)(l->words[at] ^ l->words[at] >> 6) & (LUA_PLACES - 1);
    for (int k = 0; k < 2; k++) {
        uint32_t below = l->places[place].below[k];
        HIDDEN(below);
        if (l->places[place].key == key && below <= nr && below <= LUA_BELOW &&
            lua_test(l, l->words[at - below], 0))
            return 1;
    }
    for (uint32_t i = 1; i <= LUA_BELOW; i++) {
        if (i > nr)
            return 0;
        if (lua_test(l, l->words[at - i], i <= LUA_OWN)) {
            l->places[place].below[1] = l->places[place].below[0];
            l->places[place].below[0] = i;
            l->places[place].key = key;
            return 1;
        }
    }
    return 0;
}

/* A return address into execute: l->words[at]; execute's frame begins at `frame`. Find its
 * state. */
__noinline int lua_return_address(uint32_t at, uint64_t frame)
{
    struct lua_scratch *l = lua_scratch_get();
    HIDDEN(at);
    if (!l || at < LUA_BELOW || at >= LUA_BELOW + LUA_CHUNK)
        return 0;
    uint32_t build = lua_build_at(l, l->words[at]);
    HIDDEN(build);
    if (build >= VMSTACK_LUA_BUILDS)
        return 0;
    if (lua_test_slot(l, &l->of.builds[build], frame, l->words[at - 1]))
        return 1;
    /* The innermost frame's register may not have been saved: it was tested then. */
    uint32_t most = l->outer || !l->in_registers ? LUA_BELOW : LUA_PUSHED;
    l->outer = 1;
    if (lua_test_below(l, at, most))
        return 1;
    if (most == LUA_BELOW)
        count(VMSTACK_LUA_MISSED, 1);
    return 0;
}

/* Examine LUA_CHUNK words of the native stack. */
__noinline int lua_scan(uint64_t from)
{
    enum { PAGE = 4096 };
    struct lua_scratch *l = lua_scratch_get();
    if (!l)
        return 0;
    uint64_t start = from - 8 * LUA_BELOW;
    if (bpf_probe_read_user(l->words, sizeof(l->words), (const void *)start)) {
        /* The next page may be missing. What the words hold then behind this one are words of the
         * stack, too. */
        uint32_t size = PAGE - (uint32_t)(start & (PAGE - 1));
        HIDDEN(size);
        if (size > sizeof(l->words) || bpf_probe_read_user(l->words, size, (const void *)start))
            return 0;
    }
    const uint64_t low = l->of.low, size = l->of.size, lowest = l->lowest,
                   reach = l->highest - l->lowest;
    for (uint32_t i = LUA_BELOW; i < LUA_BELOW + LUA_CHUNK; i++) {
        uint64_t word = l->words[i];
        if (word - low < size)
            lua_return_address(i, from + 8 * (i - LUA_BELOW + 1));
        else if (word - lowest <= reach && !(word & 7) && lua_was_state(l, word))
            lua_test(l, word, 0);
    }
    return 0;
}

/* Find the states on the thread's native stack. `build`: in whose execute the thread is. */
__noinline int lua_find(uint32_t build, uint64_t bp)
{
    struct lua_scratch *l = lua_scratch_get();
    if (!l)
        return 0;
    HIDDEN(build);
    if (build < VMSTACK_LUA_BUILDS)
        lua_test_slot(l, &l->of.builds[build], l->from, bp);
    l->in_registers = l->nr;
    l->outer = build < VMSTACK_LUA_BUILDS;
    for (uint32_t done = 0; done < VMSTACK_LUA_SEARCHED; done += 8 * LUA_CHUNK) {
        uint64_t from = (l->from & ~7ull) + done;
        if (from >= l->end)
            break;
        lua_scan(from);
    }
    return 0;
}

/* ---- a state --------------------------------------------------------------------------------- */

/* While the stack is reallocated, Lua 5.4.5 and later have offsets in place of pointers into it;
 * before, pointers into the old one are corrected one by one. */
static __always_inline uint64_t lua_pointer(const struct lua_scratch *l, uint64_t value)
{
    if (l->moved && value - l->moved < LUA_OFFSETS && value - l->moved < value - l->stack)
        return value - l->moved + l->stack;
    return value - l->stack >= LUA_OFFSETS && value < LUA_OFFSETS ? l->stack + value : value;
}

/* Whether a slot is in the copied part of the state's stack. */
static __always_inline int lua_has_slot(const struct lua_scratch *l, uint64_t slot)
{
    uint64_t into = slot - l->slots;
    return into < l->slots_size && into + LUA_SLOT <= l->slots_size;
}

/* Copy an array of a prototype, if it is short. `nr`: its length, in entries of `size` bytes. */
static __always_inline void lua_copy_array_of(uint64_t at, uint32_t nr, uint32_t size,
                                              uint32_t level)
{
    if (at && nr && nr <= VMSTACK_LUA_LINES / size)
        copy(at, (uint64_t)nr * size, VMENTRY_BYTES | level << 16);
}

/* Copy a function's prototype, and what tells its source and lines: a chunk that was loaded a
 * moment ago may be dead when the recorder reads it, and its memory in use for another. */
__noinline int lua_copy_proto(uint64_t proto, uint32_t level)
{
    enum { ABSOLUTE_LINE = 8 };
    struct scratch *s = scratch_get();
    struct lua_scratch *l = lua_scratch_get();
    if (!s || !l)
        return 0;
    const struct vmstack_lua *b = &l->build;
    for (int i = 0; i < LUA_RECENT; i++)
        if (l->protos[i] == proto)
            return 0;
    l->protos[l->nr_protos++ & (LUA_RECENT - 1)] = proto;
    uint32_t at = s->size + sizeof(struct vmevent_entry_header);
    if (copy(proto, b->proto_size, VMENTRY_BYTES | level << 16))
        return 0;
    uint64_t source = copied_u64(s, at, b->source);
    if (source != l->sources[0] && source != l->sources[1]) {
        l->sources[l->nr_sources++ & 1] = source;
        if (copy(source, VMSTACK_LUA_SOURCE, VMENTRY_BYTES | level << 16) == COPY_FAILED)
            copy(source, VMSTACK_LUA_SOURCE_LEAST, VMENTRY_BYTES | level << 16);
    }
    lua_copy_array_of(copied_u64(s, at, b->lineinfo), (uint32_t)copied_u64(s, at, b->size_lineinfo),
                      b->line_size == 1 ? 1 : 4, level);
    if (b->abslineinfo)
        lua_copy_array_of(copied_u64(s, at, b->abslineinfo),
                          (uint32_t)copied_u64(s, at, b->size_abslineinfo), ABSOLUTE_LINE, level);
    return 0;
}

/* Copy what tells the function of a call: the head of its closure, and its prototype.
 * `slot`: address of the function in the stack. */
__noinline int lua_copy_function(uint64_t slot, uint32_t level)
{
    struct scratch *s = scratch_get();
    struct lua_scratch *l = lua_scratch_get();
    if (!s || !l)
        return 0;
    const struct vmstack_lua *b = &l->build;
    slot = lua_pointer(l, slot);
    uint32_t at = l->slots_at + (uint32_t)(slot - l->slots);
    if (!lua_has_slot(l, slot)) {
        /* The stack was cut, or is being moved. */
        at = s->size + sizeof(struct vmevent_entry_header);
        if (copy(slot, LUA_SLOT, VMENTRY_STACK | level << 16))
            return 0;
    }
    uint64_t function = copied_u64(s, at, 0);
    uint8_t tag = (uint8_t)copied_u64(s, at, 8) & LUA_TT_MASK;
    if (tag != b->tag_lua && tag != b->tag_c)
        return 0;
    for (int i = 0; i < LUA_RECENT; i++)
        if (l->functions[i] == function)
            return 0;
    l->functions[l->nr_functions++ & (LUA_RECENT - 1)] = function;
    at = s->size + sizeof(struct vmevent_entry_header);
    if (copy(function, b->closure_size, VMENTRY_FUNCTION | level << 16) || tag != b->tag_lua ||
        (b->is_c && (uint8_t)copied_u64(s, at, b->is_c)))
        return 0;
    return lua_copy_proto(copied_u64(s, at, b->proto), level);
}

static __always_inline void lua_calls_cut(struct scratch *s)
{
    count(VMSTACK_LUA_CUT, 1);
    head_of(s)->flags |= VMEVENT_CUT_CALLS;
}

/* Copy a CallInfo of a list. Returns where it is in the payload; 0: it cannot be copied. A state
 * allocates them one after the other, and each reading costs about as much as their bytes: where
 * this one is next to the last one, those that follow in the same direction are copied with it. The
 * base's is in the state. */
__noinline uint32_t lua_copy_call(uint64_t ci, uint32_t level)
{
    struct scratch *s = scratch_get();
    struct lua_scratch *l = lua_scratch_get();
    if (!s || !l)
        return 0;
    const uint32_t size = l->build.call_size, near = size + LUA_BETWEEN;
    const uint64_t up = ci - l->last_call, down = l->last_call - ci;
    const uint32_t what = VMENTRY_BYTES | level << 16;
    uint64_t into = ci - l->calls_from;
    l->last_call = ci;
    if (into < l->calls_size && into + size <= l->calls_size)
        return l->calls_at + (uint32_t)into;
    into = ci - l->L;
    if (into < l->build.state_size && into + size <= l->build.state_size)
        return l->state_at + (uint32_t)into;
    const uint32_t more = LUA_AHEAD * (uint32_t)(up <= near ? up : down <= near ? down : 0);
    l->calls_from = up <= near ? ci : ci - more;
    l->calls_at = s->size + sizeof(struct vmevent_entry_header);
    l->calls_size = size + more;
    if (!copy(l->calls_from, l->calls_size, what))
        return l->calls_at + (uint32_t)(ci - l->calls_from);
    l->calls_from = ci;
    l->calls_size = size;
    if (!more || copy(ci, size, what)) {
        l->calls_size = 0;
        return 0;
    }
    return l->calls_at;
}

/* Copy the CallInfos: a list, from the newest to the oldest. */
__noinline int lua_copy_list(uint32_t level)
{
    struct scratch *s = scratch_get();
    struct lua_scratch *l = lua_scratch_get();
    if (!s || !l)
        return 0;
    uint64_t ci = l->ci;
    for (int i = 0; i < VMSTACK_LUA_CALLS && l->calls < VMSTACK_LUA_ALL; i++, l->calls++) {
        uint32_t at = lua_copy_call(ci, level);
        if (!at)
            return 0;
        ci = copied_u64(s, at, l->build.call_previous);
        lua_copy_function(copied_u64(s, at, l->build.call_func), level);
        if (!ci)
            return 0;
    }
    lua_calls_cut(s);
    return 0;
}

/* The same for Lua 5.1, where they are an array. */
__noinline int lua_copy_array(uint32_t level)
{
    struct scratch *s = scratch_get();
    struct lua_scratch *l = lua_scratch_get();
    if (!s || !l)
        return 0;
    const uint64_t each = l->build.call_size;
    uint64_t base = read_u64(l->L + l->build.base_ci), size = l->ci - base + each;
    if (base > l->ci || size > VMSTACK_LUA_ARRAY * each) {
        size = VMSTACK_LUA_ARRAY * each;
        lua_calls_cut(s);
    }
    uint32_t at = s->size + sizeof(struct vmevent_entry_header);
    if (copy(l->ci + each - size, size, VMENTRY_BYTES | level << 16))
        return 0;
    for (int i = 0; i < VMSTACK_LUA_CALLS && l->calls < VMSTACK_LUA_ALL; i++, l->calls++) {
        if (size < each)
            break;
        size -= each;
        lua_copy_function(copied_u64(s, at, (uint32_t)size + l->build.call_func), level);
    }
    return 0;
}

/* Copy the stack, up to its top and to that of the newest call. Of a stack that is too long only
 * the newest slots are copied. */
__noinline int lua_copy_stack(uint64_t top, uint32_t level)
{
    enum { STACK_MAX_BYTES = 16 << 20 };
    struct scratch *s = scratch_get();
    struct lua_scratch *l = lua_scratch_get();
    if (!s || !l)
        return 0;
    uint32_t what = VMENTRY_STACK | level << 16;
    uint64_t from = l->stack, to = lua_pointer(l, top);
    uint64_t call_top;
    if (l->build.flags & VMSTACK_LUA_ARRAY_OF_CALLS) {
        call_top = read_u64(l->ci + l->build.call_top);
    } else {
        uint32_t newest = lua_copy_call(l->ci, level);
        call_top = newest ? copied_u64(s, newest, l->build.call_top) : 0;
    }
    call_top = lua_pointer(l, call_top);
    if (call_top > to && call_top - from <= STACK_MAX_BYTES)
        to = call_top;
    l->slots_size = 0;
    if (to <= from || to - from > STACK_MAX_BYTES)
        return 0;
    if (to - from > VMSTACK_LUA_STACK) {
        count(VMSTACK_CUT, 1);
        copy(from, LUA_SLOT, what | VMENTRY_CUT << 8); /* whose stack it is */
        what |= VMENTRY_CUT << 8;
        from = to - VMSTACK_LUA_STACK;
    }
    uint32_t at = s->size + sizeof(struct vmevent_entry_header);
    int got = copy(from, to - from, what);
    if (got == COPY_FAILED)
        return copy_pages(from, to, what);
    l->slots = from;
    l->slots_at = at;
    l->slots_size = got ? 0 : (uint32_t)(to - from);
    return 0;
}

/* Nothing of this sample was copied yet. */
static __always_inline void lua_forget_functions(struct lua_scratch *l)
{
    l->nr_functions = l->nr_protos = l->nr_sources = 0;
    l->sources[0] = l->sources[1] = 0;
    for (int i = 0; i < LUA_RECENT; i++)
        l->functions[i] = l->protos[i] = 0;
}

/* Copy the n-th state that was found. */
__noinline int lua_copy_state(uint32_t n)
{
    struct scratch *s = scratch_get();
    struct lua_scratch *l = lua_scratch_get();
    HIDDEN(n);
    if (!s || !l || n >= VMSTACK_LUA_STATES)
        return 0;
    l->build = l->of.builds[l->builds[n] & (VMSTACK_LUA_BUILDS - 1)];
    l->L = l->states[n];
    uint32_t at = s->size + sizeof(struct vmevent_entry_header);
    if (copy(l->L, l->build.state_size, VMENTRY_STATE | n << 16))
        return 0;
    count(VMSTACK_LUA_COPIED, 1);
    l->state_at = at;
    l->calls_size = 0;
    l->stack = copied_u64(s, at, l->build.stack);
    l->ci = copied_u64(s, at, l->build.ci);
    /* The base's function is the first slot. In a list it is corrected last. */
    uint64_t first = copied_u64(s, at, l->build.base_ci + l->build.call_func);
    if (l->build.flags & VMSTACK_LUA_ARRAY_OF_CALLS)
        first = read_u64(copied_u64(s, at, l->build.base_ci) + l->build.call_func);
    l->moved = first != l->stack && first >= LUA_OFFSETS ? first : 0;
    l->last_call = 0;
    lua_copy_stack(copied_u64(s, at, l->build.top), n);
    return l->build.flags & VMSTACK_LUA_ARRAY_OF_CALLS ? lua_copy_array(n) : lua_copy_list(n);
}
