/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks random stacks with random CFI. The input is cut into: choices, registers, a section (either
 * raw, or programs put into a valid CIE and FDE, which reach deeper), a stack. Each input is walked
 * from several random contexts, half of them with registers that point into stack and code. Each
 * walk is done twice: the second one uses the cache, which must not change the result.
 */
#include "unwind/arch_x86_64.h"
#include "unwind/unwind.h"
#include "unwind/walker.h"

#include "base/cursor.h"
#include "base/hash.h"

#include <stdlib.h>

enum { CODE = 0x10000, CODE_SIZE = 0x1000, STACK = 0x7f0000, CONTEXTS = 8, MAX_FRAMES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
    struct cfi *cfi;
    uint32_t id;
    uint8_t choices;
    uint64_t seed; /* of the code, if it is made of instructions */
};

static bool lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    (void)time;
    const struct target *t = context;
    *ret = (struct code){.owner = CODE_NONE};
    if (pc - CODE >= CODE_SIZE)
        return false;
    *ret = (struct code){t->choices & 1 ? CODE_ELF : CODE_JIT,
                         CODE,
                         CODE + CODE_SIZE,
                         0,
                         t->cfi,
                         t->cfi ? t->id : 0,
                         true,
                         NULL};
    return true;
}

/* Instructions that move the stack pointer, branch, call and return, so that code without CFI has
 * ways to be followed. Each fills 8 bytes. A byte 0xfe is a random distance of a jump. */
static void make_instruction(uint64_t random, uint8_t to[8])
{
    static const char *const table[] = {
        "\x55",                     /* push %rbp */
        "\x53",                     /* push %rbx */
        "\x41\x54",                 /* push %r12 */
        "\x5d",                     /* pop %rbp */
        "\x5b",                     /* pop %rbx */
        "\x48\x83\xec\x18",         /* sub $0x18,%rsp */
        "\x48\x83\xc4\x18",         /* add $0x18,%rsp */
        "\x48\x89\xe5",             /* mov %rsp,%rbp */
        "\x48\x8d\x65\xf0",         /* lea -0x10(%rbp),%rsp */
        "\xc9\xc3",                 /* leave; ret */
        "\xc3",                     /* ret */
        "\xeb\xfe",                 /* jmp */
        "\x74\xfe",                 /* je */
        "\xe8\xfe\xff\xff\xff",     /* call */
        "\xff\xd0",                 /* call *%rax */
        "\x48\x8b\x64\x24\x08",     /* mov 8(%rsp),%rsp */
        "\x48\x89\x5c\x24\x08",     /* mov %rbx,8(%rsp) */
        "\x48\x83\xe4\xf0",         /* and $-16,%rsp */
        "\xff\x24\xc5\xfe\x00\x01", /* jmp *table(,%rax,8), its address is 0x100xx */
        "\xff\x25\xfe",             /* jmp *slot(%rip) */
    };
    const char *insn = table[random % (sizeof(table) / sizeof(*table))];
    memset(to, 0x90, 8);
    memcpy(to, insn, strlen(insn));
    for (int i = 0; i < 8; i++)
        to[i] = to[i] == 0xfe ? (uint8_t)(random >> 16) : to[i];
}

static void make_code(uint64_t seed, uint64_t address, uint8_t *to, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t insn[8];
        make_instruction(hash_u64(seed ^ (address + i) / 8), insn);
        to[i] = insn[(address + i) % 8];
    }
}

/* Code bytes: calls and trampolines, so that the check of a return address can succeed or fail. */
static bool read_code(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    static const uint8_t pattern[16] = {0xe8, 0, 0, 0, 0,    0x48, 0xc7, 0xc0,
                                        0x0f, 0, 0, 0, 0x0f, 0x05, 0xff, 0xd0};
    const struct target *t = context;
    answer->provenance = PROVENANCE_STALE;
    if (q->address - CODE >= CODE_SIZE || CODE + CODE_SIZE - q->address < q->size)
        return false;
    if (t->seed) {
        make_code(t->seed, q->address, to, q->size);
        return true;
    }
    for (size_t i = 0; i < q->size; i++)
        ((uint8_t *)to)[i] = pattern[(q->address + i) % sizeof(pattern)];
    return true;
}

/* Writes a CIE and an FDE around two programs to `section` (at most `room` bytes). Returns the
 * size. */
static size_t wrap_programs(const uint8_t *bytes, size_t size, uint8_t *section, size_t room)
{
    static const uint8_t cie[] = {0, 0, 0,    0,  0, 0, 0,    0, 1, 'z',  'R', 'S',
                                  0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1};
    bool signal = size > 0 && bytes[0] % 8 == 0;
    size_t head = sizeof(cie), first = size / 3, at = 0;
    if (head + first + 32 + size - first > room)
        return 0;
    memcpy(section, cie, head);
    if (!signal)
        section[11] = 'B';
    memcpy(section + head, bytes, first);
    uint32_t length = (uint32_t)(head + first - 4);
    memcpy(section, &length, 4);
    at = head + first;
    uint32_t back = (uint32_t)at + 4;
    uint64_t range[2] = {CODE, CODE_SIZE};
    length = (uint32_t)(4 + 16 + 1 + size - first);
    memcpy(section + at, &length, 4);
    memcpy(section + at + 4, &back, 4);
    memcpy(section + at + 8, range, 16);
    section[at + 24] = 0; /* no augmentation data */
    memcpy(section + at + 25, bytes + first, size - first);
    return at + 25 + size - first;
}

static struct registers random_registers(struct cursor *c, uint64_t seed, size_t stack_size)
{
    struct registers r = {.arch = &arch_x86_64, .known = (1u << DWARF_NR) - 1};
    for (unsigned i = 0; i < DWARF_NR; i++) {
        uint64_t random = hash_u64(seed + i);
        r.value[i] = random;
        if (random & 1)
            r.value[i] = STACK + (random >> 8) % (stack_size + 16);
        if (random & 2)
            r.value[i] &= -8ull;
    }
    if (seed & 1)
        r.value[DWARF_RSP] = STACK;
    if (seed & 6)
        r.value[DWARF_RIP] = CODE + hash_u64(seed) % CODE_SIZE;
    if (seed & 0xf00)
        return r;
    r.known = (uint32_t)hash_u64(seed ^ cursor_u8(c)) | (seed & 0x1000 ? 0 : r.known);
    return r;
}

static void compare(const struct unwind_stack *a, const struct unwind_stack *b)
{
    if (a->end != b->end || a->frames.nr != b->frames.nr || a->end_pc != b->end_pc ||
        a->end_address != b->end_address)
        abort();
    for (size_t i = 0; i < a->frames.nr; i++) {
        if (memcmp(&a->frames.at[i], &b->frames.at[i], sizeof(struct frame)) != 0)
            abort();
    }
}

/* Managed frames: code at odd addresses, whose frame pointer is the caller's. */
static bool wants(const void *context, const struct code *code)
{
    (void)context;
    return code->owner != CODE_NONE;
}

static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    uint64_t rbp = s->value[DWARF_RBP];
    struct frame f = {.pc = s->value[DWARF_RIP], .cfa = rbp + 16, .kind = FRAME_JS};
    (void)context;
    state->begun = true;
    if (!(f.pc & 1) ||
        !memory_read_u64(&s->input->memory, rbp, &s->value[DWARF_RBP], s->provenance) ||
        !memory_read_u64(&s->input->memory, rbp + 8, &s->value[DWARF_RIP], s->provenance) ||
        (*s->frames_left)-- == 0)
        return WALKER_NO;
    s->value[DWARF_RSP] = rbp + 16;
    *s->known &= 1u << DWARF_RBP | 1u << DWARF_RBX | 1u << DWARF_RSP | 1u << DWARF_RIP;
    return vec_push(&s->out->frames, f) ? WALKER_STEPPED : WALKER_NO_MEMORY;
}

static bool is_stateless(const void *context, const struct walker_state *state)
{
    (void)context, (void)state;
    return true;
}

/* Plants a whole stack of managed frames at the end of a copy of the stack. Contexts begin in it or
 * somewhere before it. The random words below it stay, and some words in it. */
enum { PLANTED = 8, ALIKE = 512 };
static void plant(struct unwind_input *in, unsigned i, uint8_t *copy, uint64_t seed)
{
    size_t base = ALIKE - 16 * PLANTED, size = in->memory.stack_size;
    memcpy(copy, in->memory.stack, size < ALIKE ? size : ALIKE);
    for (size_t k = 0; k < PLANTED; k++) {
        uint64_t last = k + 1 == PLANTED, at = base + 16 * k;
        uint64_t words[2] = {last ? 0 : STACK + at + 16, last ? 0 : CODE + 2 * k + 1};
        memcpy(copy + at, words, sizeof(words));
    }
    in->memory.stack_size = ALIKE;
    uint64_t h = hash_u64(seed + i);
    if (h % 4 == 0)
        copy[base + h / 4 % (16 * PLANTED)] ^= (uint8_t)(h >> 32);
    in->memory.stack = copy;
    if (h % 8 == 1)
        return;
    in->registers.known |= 1u << DWARF_RBP | 1u << DWARF_RSP | 1u << DWARF_RIP;
    in->registers.value[DWARF_RBP] = STACK + base + 16 * (h / 64 % 4);
    in->registers.value[DWARF_RSP] = STACK;
    in->registers.value[DWARF_RIP] = CODE + 0x101;
}

/* Frames taken over from walks of the same thread must not change a result. */
static void walk_alike(struct unwinder *u, struct unwind_input *in, const struct target *t,
                       uint64_t seed)
{
    enum { ROUNDS = 6 };
    static uint8_t copies[CONTEXTS][ALIKE];
    static struct unwind_stack alike[CONTEXTS], alone;
    static struct memory_reads reads[CONTEXTS];
    const struct walker walker = {.wants = wants,
                                  .step = step,
                                  .is_stateless = is_stateless,
                                  .state_size = sizeof(struct walker_state)};
    for (unsigned i = 0; i < CONTEXTS; i++)
        plant(&in[i], i, copies[i], seed);
    for (unsigned round = 0; round < ROUNDS * CONTEXTS; round++) {
        unsigned i = round % CONTEXTS;
        in[i].walker = &walker;
        in[i].context_key = t;
        in[i].memory.reads = &reads[i];
        alike[i].frames.nr = alone.frames.nr = 0;
        if (unwind_batch(u, &in[i], &alike[i], 1, NULL) || unwind(u, &in[i], &alone, NULL))
            abort();
        compare(&alike[i], &alone);
        if (i + 1 == CONTEXTS && round + 1 < 2 * CONTEXTS)
            unwinder_forget(u);
    }
    unwinder_forget(u);
}

static void walk_contexts(struct target *t, struct cursor *c, const uint8_t *stack,
                          size_t stack_size, uint64_t seed)
{
    static struct unwind_input inputs[CONTEXTS];
    static struct unwinder *u;
    static struct unwind_stack first, second;
    /* one unwinder must never see a cfi's id again */
    static uint32_t id;
    if (!u || ++id >> 20) {
        unwinder_free(u);
        u = unwinder_create(NULL);
        id = 1;
        if (!u)
            abort();
    }
    t->id = t->choices & 32 ? id | 1 << 25 : id; /* too large for a cache key */
    struct memory_layer layer = {.read = read_code, .context = t};
    for (unsigned i = 0; i < CONTEXTS; i++) {
        struct unwind_input in = {
            .registers = random_registers(c, hash_u64(seed + i), stack_size),
            .memory = {.stack = stack,
                       .stack_start = STACK,
                       .stack_size = stack_size,
                       .layers = &layer,
                       .nr_layers = 1},
            .code = {.lookup = lookup, .context = t},
            .max_frames = MAX_FRAMES,
        };
        first.frames.nr = second.frames.nr = 0;
        if (unwind(u, &in, &first, NULL) || unwind(u, &in, &second, NULL))
            abort();
        if (first.frames.nr > MAX_FRAMES)
            abort();
        compare(&first, &second);
        inputs[i] = in;
    }
    if (t->choices & 64)
        walk_alike(u, inputs, t, seed);
}

/* Makes the stack: a third of its words point into code, a third into the stack. */
static uint8_t *make_stack(const uint8_t *bytes, size_t size)
{
    uint8_t *stack = malloc(size ? size : 1); /* at its exact size, for ASan */
    if (!stack)
        abort();
    memcpy(stack, bytes, size);
    for (size_t i = 0; size - i >= 8; i += 8) {
        uint64_t word = load_u64(bytes + i, false);
        if (bytes[i] % 3 == 0)
            word = CODE + (word >> 8) % CODE_SIZE;
        else if (bytes[i] % 3 == 1)
            word = STACK + (word >> 8) % (size + 16);
        memcpy(stack + i, &word, 8);
    }
    return stack;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t wrapped[8192];
    struct cursor c = cursor_make(data, size, false, "input", "fuzz", 0);
    struct target t = {.choices = cursor_u8(&c)};
    uint64_t seed = cursor_u16(&c);
    size_t section_size = cursor_u16(&c) % 1024;
    if (section_size > cursor_left(&c))
        section_size = cursor_left(&c);
    const uint8_t *section = cursor_bytes(&c, section_size);
    size_t stack_size = cursor_left(&c);
    if (!section)
        return 0;
    uint8_t words[8 * 64];
    const uint8_t *bytes = c.at;
    if (t.choices & 16) {
        t.seed = hash_combine(seed, t.choices) | 1;
        for (size_t i = 0; i < sizeof(words); i++)
            words[i] = (uint8_t)hash_u64(t.seed + i);
        bytes = words;
        stack_size = sizeof(words);
    }
    uint8_t *stack = make_stack(bytes, stack_size);
    if (t.choices & 2) {
        section_size = wrap_programs(section, section_size, wrapped, sizeof(wrapped));
        section = wrapped;
    }
    struct cfi_section frame = {section, section_size, 0x20000};
    struct cfi_source source = {
        .arch = &arch_x86_64, .name = "fuzz", .id = 1, .swapped = t.choices >> 7};
    if (t.choices & 4)
        source.debug_frame = frame;
    else
        source.eh_frame = frame;
    if (t.choices & 8) /* a random header */
        source.eh_frame_hdr = (struct cfi_section){stack, stack_size, 0x20000};
    if (!(t.choices & 16) && cfi_create(&source, &t.cfi, NULL))
        t.cfi = NULL;
    const struct cfi_source none = {.arch = &arch_x86_64, .name = "none", .id = 1};
    if (t.choices & 16 && t.choices & 128 && cfi_create(&none, &t.cfi, NULL))
        abort();
    walk_contexts(&t, &c, stack, stack_size, seed);
    cfi_free(t.cfi);
    free(stack);
    return 0;
}
