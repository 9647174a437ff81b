/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads prototypes. Every offset is checked against the block before it is followed. */
#include "unwind/luajit/names_proto.h"

#include "base/cursor.h"
#include "base/hash.h"
#include "unwind/luajit/object.h"
#include "unwind/provenance.h"

#include <stdio.h>
#include <stdlib.h>

enum { STRING_MAX = 4096, HEAD_MAX = 0x80, SIZEBC_MAX = 1 << 26 };

static uint64_t load_ref(const struct luajit_layout *l, const uint8_t *at)
{
    return l->ref_size == 8 ? load_u64(at, false) : load_u32(at, false);
}

static bool inside(uint64_t at, uint64_t start, uint64_t end)
{
    return at >= start && at <= end;
}

/* ---- strings ------------------------------------------------------------------------------- */

/* GCstr: from 2.0 to June 2020 the hash stands right before the length. Since then it stands 8
 * bytes before the length (hash, then the algorithm's byte). Both words are used in either case. */
static bool string_head_of(const struct luajit_layout *l, const uint8_t *head, uint32_t *hash,
                           uint32_t *len)
{
    *len = load_u32(head + l->str_len, false);
    *hash = (uint32_t)hash_u64(load_u64(head + l->str_len - 8, false) & ~UINT64_C(0xff));
    return head[l->gct] == LUAJIT_GCT_STR;
}

static bool string_head(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                        uint32_t *hash, uint32_t *len, enum provenance *provenance)
{
    uint8_t head[HEAD_MAX];
    return address && l->str_size <= HEAD_MAX && l->str_len >= 8 && l->str_len + 4 <= l->str_size &&
           memory_read(m, address, head, (size_t)l->str_size, provenance) &&
           string_head_of(l, head, hash, len);
}

/* Read the characters behind a head; false: they are not recorded. `same` is narrowed to the times
 * that have the same answer. They may be of another reading
 * than the head, which comes with the sample. They count if the same head stood before them. */
static bool string_text(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                        uint32_t hash, uint32_t length, char *buffer, size_t cap,
                        enum provenance *provenance, struct memory_span *same)
{
    uint8_t block[HEAD_MAX + STRING_MAX];
    struct memory_answer answer;
    uint32_t block_hash, block_length;
    size_t size = length < cap - 1 ? length : cap - 1, head = (size_t)l->str_size;
    size = size < STRING_MAX ? size : STRING_MAX;
    buffer[size] = 0;
    if (size == 0)
        return true;
    const struct memory_query q = {.address = address, .size = head + size, .time = m->time};
    if (!memory_ask(m, &q, block, &answer))
        return false;
    memory_span_narrow(same, &answer.same);
    *provenance = answer.provenance > *provenance ? answer.provenance : *provenance;
    if (!string_head_of(l, block, &block_hash, &block_length) || block_hash != hash ||
        block_length != length)
        return false;
    memcpy(buffer, block + head, size);
    return true;
}

bool luajit_string_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                        char *buffer, size_t cap, uint32_t *length, enum provenance *provenance)
{
    uint32_t hash;
    struct memory_span ignored = {0, UINT64_MAX};
    return string_head(m, l, address, &hash, length, provenance) &&
           string_text(m, l, address, hash, *length, buffer, cap, provenance, &ignored);
}

/* ---- the header ---------------------------------------------------------------------------- */

static bool head_fits(const struct luajit_proto_head *h, const struct luajit_layout *l,
                      uint64_t address)
{
    uint64_t end = address + h->sizept;
    uint64_t code_end = address + (uint64_t)l->proto_size + 4 * (uint64_t)h->sizebc;
    if (h->sizebc == 0 || h->sizebc > SIZEBC_MAX || code_end < address || end < code_end)
        return false;
    if (!inside(h->k, code_end, end) ||
        h->k - code_end < (uint64_t)h->sizekgc * (uint64_t)l->ref_size)
        return false;
    uint64_t from = code_end;
    const uint64_t parts[] = {h->lineinfo, h->uvinfo, h->varinfo};
    for (unsigned i = 0; i < 3; i++) { /* the parts stand in this order, if they exist */
        if (parts[i] && !inside(parts[i], from, end))
            return false;
        from = parts[i] ? parts[i] : from;
    }
    return h->firstline >= -1 && h->numline >= 0;
}

static struct luajit_proto_head head_of(const struct luajit_layout *l, const uint8_t *b)
{
    return (struct luajit_proto_head){
        .k = load_ref(l, b + l->proto_k),
        .chunkname = load_ref(l, b + l->proto_chunkname),
        .lineinfo = load_ref(l, b + l->proto_lineinfo),
        .uvinfo = load_ref(l, b + l->proto_uvinfo),
        .varinfo = load_ref(l, b + l->proto_varinfo),
        .sizebc = load_u32(b + l->proto_sizebc, false),
        .sizekgc = load_u32(b + l->proto_sizekgc, false),
        .sizekn = load_u32(b + l->proto_sizekn, false),
        .sizept = load_u32(b + l->proto_sizept, false),
        .firstline = (int32_t)load_u32(b + l->proto_firstline, false),
        .numline = (int32_t)load_u32(b + l->proto_numline, false),
        .numparams = b[l->proto_numparams],
        .sizeuv = b[l->proto_sizeuv],
    };
}

bool luajit_proto_head_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                            struct luajit_proto_head *ret, enum provenance *provenance)
{
    uint8_t b[HEAD_MAX];
    if (l->proto_size > HEAD_MAX || address & 3 ||
        !memory_read(m, address, b, (size_t)l->proto_size, provenance) ||
        b[l->gct] != LUAJIT_GCT_PROTO)
        return false;
    *ret = head_of(l, b);
    return head_fits(ret, l, address) &&
           string_head(m, l, ret->chunkname, &ret->chunk_hash, &ret->chunk_len, provenance);
}

bool luajit_proto_head_equal(const struct luajit_proto_head *a, const struct luajit_proto_head *b)
{
    return a->k == b->k && a->chunkname == b->chunkname && a->lineinfo == b->lineinfo &&
           a->uvinfo == b->uvinfo && a->varinfo == b->varinfo && a->sizebc == b->sizebc &&
           a->sizekgc == b->sizekgc && a->sizekn == b->sizekn && a->sizept == b->sizept &&
           a->firstline == b->firstline && a->numline == b->numline &&
           a->chunk_hash == b->chunk_hash && a->chunk_len == b->chunk_len &&
           a->numparams == b->numparams && a->sizeuv == b->sizeuv;
}

/* Does the block begin with the same head? If the head was copied with the sample, the block is
 * read at another time. */
static bool is_block_of(const struct luajit_proto *p, const uint8_t *block)
{
    struct luajit_proto_head head = head_of(p->layout, block);
    head.chunk_hash = p->head.chunk_hash;
    head.chunk_len = p->head.chunk_len;
    return luajit_proto_head_equal(&head, &p->head);
}

bool luajit_proto_block_equal(const struct luajit_proto *p, const uint8_t *block)
{
    size_t from = (size_t)p->layout->proto_size;
    return p->copy && is_block_of(p, block) &&
           memcmp(block + from, p->copy + from, p->head.sizept - from) == 0;
}

/* Is the block valid output of the bytecode compiler: first a header instruction, then only known
 * instructions, and no line beyond the function's lines? Of a dead function often only the header
 * is left. Without a copy: is the block too large to be copied? */
static bool is_sound(const struct luajit_proto *p);

bool luajit_proto_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                       struct luajit_proto *ret)
{
    *ret = (struct luajit_proto){.address = address, .layout = l};
    enum provenance block = PROVENANCE_EXACT;
    if (!luajit_proto_head_read(m, l, address, &ret->head, &ret->provenance))
        return false;
    if (ret->head.sizept > PROTO_MAX)
        return true;
    ret->copy = malloc(ret->head.sizept);
    if (ret->copy && (!memory_read(m, address, ret->copy, ret->head.sizept, &block) ||
                      !is_block_of(ret, ret->copy))) {
        free(ret->copy);
        ret->copy = NULL;
    }
    ret->sound = is_sound(ret);
    struct memory_span ignored = {0, UINT64_MAX};
    luajit_proto_prove(ret, m, ret->provenance, block, &ignored);
    return true;
}

void luajit_proto_free(struct luajit_proto *p)
{
    free(p->copy);
    p->copy = NULL;
}

/* ---- code and lines ------------------------------------------------------------------------ */

struct bc luajit_proto_bc(const struct luajit_proto *p, uint32_t position)
{
    if (!p->copy || position >= p->head.sizebc)
        return (struct bc){.op = BC_NONE};
    const uint8_t *code = p->copy + p->layout->proto_size;
    return bc_decode(load_u32(code + 4 * (size_t)position, false), p->layout->bytecode);
}

/* Context of comparisons with a prototype's block. */
struct proving {
    const struct luajit_proto *p;
    const struct memory *m;
    struct memory_span *same; /* narrowed to the times that have the same answer */
};

/* Did the header come with the sample? Then readings with another header were not of this
 * prototype. */
static bool has_head(const struct proving *proving)
{
    uint8_t head[HEAD_MAX];
    const struct luajit_proto *p = proving->p;
    return memory_read_instant(proving->m, p->address, head, (size_t)p->layout->proto_size);
}

/* Is this the head of the same chunk name? */
static enum memory_likeness chunk_likeness(const void *context, uint64_t address,
                                           const uint8_t *bytes, size_t size,
                                           const struct memory_span *when)
{
    const struct luajit_proto *p = context;
    uint32_t hash, length;
    (void)address, (void)size, (void)when;
    bool same = string_head_of(p->layout, bytes, &hash, &length) && hash == p->head.chunk_hash &&
                length == p->head.chunk_len;
    return same ? MEMORY_SAME : MEMORY_ANOTHER;
}

/* Was the same header, at another time, of another chunk? It was if a different string was at the
 * chunk name's address during all of `when`, different from the one that came with the sample.
 * Hosts that close a VM and open the next have such headers. */
static bool was_of_another_chunk(const struct proving *proving, const struct memory_span *when)
{
    uint8_t head[HEAD_MAX];
    const struct luajit_proto *p = proving->p;
    const struct memory_compare compare = {chunk_likeness, p};
    const size_t size = (size_t)p->layout->str_size; /* at most HEAD_MAX:
                                                        luajit_proto_head_read() */
    return has_head(proving) && memory_read_instant(proving->m, p->head.chunkname, head, size) &&
           memory_was_unlike(proving->m, p->head.chunkname, size, when, &compare, proving->same);
}

/* The width of an entry of lineinfo: as large as the function's own lines need. */
static unsigned line_width(const struct luajit_proto_head *h)
{
    return h->numline < 1 << 8 ? 1 : h->numline < 1 << 16 ? 2 : 4;
}

/* Are the bytes exactly those that were read? */
static enum memory_likeness line_likeness(const void *context, uint64_t address,
                                          const uint8_t *bytes, size_t size,
                                          const struct memory_span *when)
{
    const struct proving *proving = context;
    const struct luajit_proto *p = proving->p;
    if (was_of_another_chunk(proving, when))
        return MEMORY_APART;
    return memcmp(p->copy + (address - p->address), bytes, size) == 0 ? MEMORY_SAME
                                                                      : MEMORY_ANOTHER;
}

/* Read the bytes of a line. */
static bool read_line(const struct luajit_proto *p, const struct memory *m, uint64_t at,
                      uint8_t *to, unsigned width, enum provenance *provenance)
{
    const struct proving proving = {p, m, NULL};
    const struct memory_compare compare = {line_likeness, &proving};
    if (memory_read_instant(m, at, to, width))
        return true;
    if (!p->copy)
        return p->head.sizept > PROTO_MAX && memory_read(m, at, to, width, provenance);
    memcpy(to, p->copy + (at - p->address), width);
    enum provenance proven = memory_prove(m, at, width, &compare, p->provenance).provenance;
    *provenance = proven > *provenance ? proven : *provenance;
    return true;
}

/* Address of a position's line in the block, 0 < position < sizebc; 0: none. */
static uint64_t line_address(const struct luajit_proto *p, uint32_t position, unsigned *width)
{
    const struct luajit_proto_head *h = &p->head;
    *width = line_width(h);
    uint64_t at = h->lineinfo + (uint64_t)*width * (position - 1);
    return h->lineinfo && at + *width <= p->address + h->sizept ? at : 0;
}

uint32_t luajit_proto_line(const struct luajit_proto *p, const struct memory *m, uint32_t position,
                           enum provenance *provenance)
{
    const struct luajit_proto_head *h = &p->head;
    uint8_t bytes[4] = {0};
    unsigned width;
    if (!h->lineinfo || h->firstline < 0 || position > h->sizebc)
        return 0;
    if (position == 0)
        return (uint32_t)h->firstline;
    if (position == h->sizebc)
        return (uint32_t)h->firstline + (uint32_t)h->numline;
    uint64_t at = line_address(p, position, &width);
    if (!at || !read_line(p, m, at, bytes, width, provenance))
        return 0;
    uint32_t line = load_u32(bytes, false);
    return line <= (uint32_t)h->numline ? (uint32_t)h->firstline + line : 0;
}

/* Are all lines in the block within the function? */
static bool are_lines_sound(const struct luajit_proto *p)
{
    for (uint32_t at = 1; at < p->head.sizebc; at++) {
        uint8_t bytes[4] = {0};
        unsigned width;
        uint64_t line = line_address(p, at, &width);
        if (!line)
            return false;
        memcpy(bytes, p->copy + (line - p->address), width);
        if (load_u32(bytes, false) > (uint32_t)p->head.numline)
            return false;
    }
    return true;
}

static bool is_sound(const struct luajit_proto *p)
{
    const struct luajit_proto_head *h = &p->head;
    if (!p->copy)
        return h->sizept > PROTO_MAX;
    uint8_t first = luajit_proto_bc(p, 0).op;
    if (first < BC_FUNCF || first > BC_JFUNCV)
        return false;
    for (uint32_t at = 1; at < h->sizebc; at++) {
        uint8_t op = luajit_proto_bc(p, at).op;
        if (op >= BC_FUNCF && op <= BC_FUNCCW)
            return false;
        if (op == BC_NONE)
            return false;
    }
    uint64_t lines = h->lineinfo - p->address, bytes = (uint64_t)line_width(h) * (h->sizebc - 1);
    if (!h->lineinfo || lines > h->sizept || h->sizept - lines < bytes)
        return true;
    return are_lines_sound(p);
}

/* May the JIT compiler or the interpreter patch this instruction in place? They patch loops,
 * function headers, returns, and the generic loop over next. */
static bool may_be_patched(uint8_t op)
{
    return op == BC_ITERC || op == BC_ITERN || op == BC_ISNEXT || (op > BC_RETM && op <= BC_JFUNCV);
}

/* ---- proof --------------------------------------------------------------------------------- */

/* Are the instructions the same, apart from patches? */
static bool is_same_code(const struct luajit_proto *p, uint64_t from, const uint8_t *bytes,
                         uint64_t to)
{
    const uint8_t *known = p->copy + from;
    if (memcmp(known, bytes, to - from) == 0)
        return true;
    for (uint64_t at = 0; at + 4 <= to - from; at += 4) {
        uint32_t x = load_u32(known + at, false), y = load_u32(bytes + at, false);
        if (x != y && !(may_be_patched(bc_decode(x, p->layout->bytecode).op) &&
                        may_be_patched(bc_decode(y, p->layout->bytecode).op)))
            return false;
    }
    return true;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Is the piece [from, to) equal to the block in the part that both have of [start, end)? */
static bool is_same_part(const struct luajit_proto *p, uint64_t from, const uint8_t *bytes,
                         uint64_t to, uint64_t start, uint64_t end)
{
    uint64_t a = max_u64(from, start), b = min_u64(to, end);
    return a >= b || memcmp(p->copy + a, bytes + (a - from), b - a) == 0;
}

/* Offset of the block's last word, where the allocator writes the size of the free memory up to
 * there when the block is free. The allocator's sizes are multiples of 8, and a block has 8 bytes
 * of overhead. */
static uint64_t footer_of(const struct luajit_proto *p)
{
    return ((p->head.sizept + UINT64_C(15)) & ~UINT64_C(7)) - 16;
}

/* Has the allocator written its size into a dead block that is otherwise whole, as far as it was
 * read? Then the block says the same as the living one did. A living block ends in this word with
 * the number of instructions for which its last variable is alive, then 0. The variable's name is
 * in the word, too, only if 5 bytes or more of the word are in the block. */
static bool is_freed(const struct luajit_proto *p, const uint8_t *bytes, uint64_t size)
{
    enum { NAMELESS = 4 };
    const struct luajit_proto_head *h = &p->head;
    uint8_t word[8] = {0};
    bool has_variables = h->varinfo && h->varinfo + 1 < p->address + h->sizept;
    if (!has_variables || size > sizeof(word))
        return false;
    memcpy(word, bytes, size);
    uint64_t freed = load_u64(word, false);
    if (freed % 8 || (size > 1 && freed < h->sizept))
        return false;
    return size <= NAMELESS || (bytes[size - 1] == 0 && bytes[size - 2] == 0);
}

/* Are the variables' names, from `start` on, the same, or were they the same until the block was
 * freed? */
static bool is_same_end(const struct luajit_proto *p, uint64_t from, const uint8_t *bytes,
                        uint64_t to, uint64_t start)
{
    uint64_t end = p->head.sizept, footer = footer_of(p);
    if (is_same_part(p, from, bytes, to, start, end))
        return true;
    return from <= footer && to == end && footer >= start && footer < end &&
           is_same_part(p, from, bytes, to, start, footer) &&
           is_freed(p, bytes + (footer - from), end - footer);
}

/* Is a piece of memory equal to the block, apart from the lines and the parts that change? Behind
 * the bytecode may be up to 7 bytes without meaning. The notes on upvalues behind the numbers are
 * completed later; nobody reads them here. Offsets are relative to the block. */
static bool is_same_piece(const struct luajit_proto *p, uint64_t from, const uint8_t *bytes,
                          uint64_t to)
{
    const struct luajit_proto_head *h = &p->head;
    const uint64_t head = (uint64_t)p->layout->proto_size, code = head + 4 * (uint64_t)h->sizebc;
    uint64_t a = max_u64(from, head), b = min_u64(to, code);
    if (a < b && !is_same_code(p, a, bytes + (a - from), b))
        return false;
    uint64_t lines = h->lineinfo ? h->lineinfo - p->address : h->sizept;
    uint64_t behind = lines + (uint64_t)line_width(h) * (h->sizebc - 1);
    uint64_t k = h->k - p->address, constants = k - (uint64_t)h->sizekgc * p->layout->ref_size;
    return is_same_part(p, from, bytes, to, constants,
                        min_u64(k + 8 * (uint64_t)h->sizekn, lines)) &&
           is_same_end(p, from, bytes, to, behind);
}

static enum memory_likeness proto_likeness(const void *context, uint64_t address,
                                           const uint8_t *bytes, size_t size,
                                           const struct memory_span *when)
{
    const struct proving *proving = context;
    const struct luajit_proto *p = proving->p;
    uint64_t from = address - p->address;
    if (from == 0 && size >= (size_t)p->layout->proto_size && !is_block_of(p, bytes))
        return has_head(proving) ? MEMORY_APART : MEMORY_ANOTHER;
    if (was_of_another_chunk(proving, when))
        return MEMORY_APART;
    return is_same_piece(p, from, bytes, from + size) ? MEMORY_SAME : MEMORY_ANOTHER;
}

void luajit_proto_prove(struct luajit_proto *p, const struct memory *m, enum provenance head,
                        enum provenance block, struct memory_span *same)
{
    const struct proving proving = {p, m, same};
    p->another = false;
    if (p->copy) {
        const struct memory_compare compare = {proto_likeness, &proving};
        struct memory_proof proof = memory_prove(m, p->address, p->head.sizept, &compare, block);
        memory_span_narrow(same, &proof.same);
        block = proof.provenance;
        p->another = proof.another;
        /* the header at the sample's own moment is equal to one that was read later or earlier */
        if (memory_is_near(&proof) && has_head(&proving))
            block = PROVENANCE_EXACT;
    }
    if (!p->sound && block < PROVENANCE_STALE)
        block = PROVENANCE_STALE;
    p->provenance = block > head ? block : head;
}

/* ---- constants ----------------------------------------------------------------------------- */

uint64_t luajit_proto_constant(const struct luajit_proto *p, uint32_t index)
{
    if (!p->copy || index >= p->head.sizekgc)
        return 0;
    uint64_t offset = p->head.k - p->address - (uint64_t)(index + 1) * p->layout->ref_size;
    return load_ref(p->layout, p->copy + offset);
}

/* A name is text without control characters, at most one line. */
static const char *as_name(const char *s, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
            return NULL;
    return size ? s : NULL;
}

const char *luajit_proto_string(const struct luajit_proto *p, const struct memory *m,
                                uint32_t index, char *buffer)
{
    uint32_t length;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t address = luajit_proto_constant(p, index);
    if (!luajit_string_read(m, p->layout, address, buffer, PROTO_NAME_MAX, &length, &ignored) ||
        length >= PROTO_NAME_MAX)
        return NULL;
    return as_name(buffer, length);
}

/* ---- telling apart ------------------------------------------------------------------------- */

static uint64_t code_hash(const struct luajit_proto *p)
{
    uint64_t h = hash_combine(p->head.sizebc, (uint32_t)p->head.numline);
    h = hash_combine(h, (uint64_t)p->head.sizekgc << 32 | p->head.sizekn);
    for (uint32_t i = 0; p->copy && i < p->head.sizebc; i++) {
        struct bc bc = luajit_proto_bc(p, i);
        uint64_t word = bc.op | (uint64_t)bc.a << 8 | (uint64_t)bc.d << 16;
        h = hash_combine(h, may_be_patched(bc.op) ? BC_NONE : word);
    }
    return h;
}

/* Hash the contents of the constants. Their addresses say nothing, because a file may be loaded
 * many times. */
static uint64_t constants_hash(const struct luajit_proto *p, const struct memory *m, uint64_t h)
{
    char buffer[PROTO_NAME_MAX];
    uint64_t numbers = p->head.k - p->address, size = 8 * (uint64_t)p->head.sizekn;
    if (p->copy && numbers <= p->head.sizept && size <= p->head.sizept - numbers)
        h = hash_combine(h, hash_bytes(p->copy + numbers, size));
    for (uint32_t i = 0; p->copy && i < p->head.sizekgc; i++) {
        const char *string = luajit_proto_string(p, m, i, buffer);
        h = hash_combine(h, string ? hash_bytes(string, strlen(string)) : 0);
    }
    return h;
}

/* Does the prototype at `address` begin on the same line? Most of a function's inner functions do
 * not, and need not be read whole. */
static bool is_on_line_of(const struct luajit_proto *p, const struct memory *m, uint64_t address)
{
    struct luajit_proto_head head;
    enum provenance ignored = PROVENANCE_EXACT;
    return luajit_proto_head_read(m, p->layout, address, &head, &ignored) &&
           head.firstline == p->head.firstline && head.chunkname == p->head.chunkname;
}

/* `left`: number of inner functions that may still be read. */
static uint64_t hash_with_twins(const struct luajit_proto *p, const struct memory *m,
                                unsigned *left)
{
    uint64_t h = code_hash(p);
    if (p->head.numline == 0)
        h = constants_hash(p, m, h);
    for (uint32_t i = 1; p->copy && i < p->head.sizebc && *left; i++) {
        struct bc bc = luajit_proto_bc(p, i);
        struct luajit_proto child;
        uint64_t address = bc.op == BC_FNEW ? luajit_proto_constant(p, bc.d) : 0;
        if (!address || !is_on_line_of(p, m, address) ||
            !luajit_proto_read(m, p->layout, address, &child))
            continue;
        --*left;
        h = hash_combine(h, hash_with_twins(&child, m, left));
        luajit_proto_free(&child);
    }
    return h;
}

uint64_t luajit_proto_hash(const struct luajit_proto *p, const struct memory *m)
{
    unsigned left = 16;
    const struct luajit_proto_head *h = &p->head;
    if (h->firstline == 0 && h->numline == 0) /* stripped: nothing else tells functions apart */
        return constants_hash(p, m, code_hash(p));
    return h->firstline > 0 ? hash_with_twins(p, m, &left) : code_hash(p);
}

uint64_t luajit_proto_place(const struct luajit_proto *p)
{
    const struct luajit_proto_head *h = &p->head;
    const uint64_t parts[] = {
        (uint64_t)h->sizebc << 32 | h->sizekgc,
        (uint64_t)h->sizekn << 32 | h->sizept,
        (uint64_t)(uint32_t)h->firstline << 32 | (uint32_t)h->numline,
        (uint64_t)h->numparams << 8 | h->sizeuv,
        h->k - p->address,
        h->lineinfo ? h->lineinfo - p->address : 0,
        h->uvinfo ? h->uvinfo - p->address : 0,
        h->varinfo ? h->varinfo - p->address : 0,
    };
    return hash_bytes(parts, sizeof(parts));
}

uint64_t luajit_proto_sampled_chunk(const struct luajit_proto *p, const struct memory *m)
{
    enum { TEXT_MAX = 256 };
    uint8_t head[HEAD_MAX], block[HEAD_MAX + TEXT_MAX];
    uint32_t hash, length = p->head.chunk_len;
    const size_t size = (size_t)p->layout->str_size; /* at most HEAD_MAX:
                                                        luajit_proto_head_read() */
    if (!length || length > TEXT_MAX ||
        !memory_read_instant(m, p->address, head, (size_t)p->layout->proto_size) ||
        !memory_read_instant(m, p->head.chunkname, block, size + length) ||
        !string_head_of(p->layout, block, &hash, &length) || hash != p->head.chunk_hash ||
        length != p->head.chunk_len)
        return 0;
    return hash_bytes(block + size, length) | 1;
}

/* ---- names of variables -------------------------------------------------------------------- */

/* The bytes from the start of a part of the debug information to the block's end. */
static struct cursor part(const struct luajit_proto *p, uint64_t start)
{
    if (!p->copy || !start)
        return cursor_make("", 0, false, "", "", 0);
    size_t offset = (size_t)(start - p->address);
    return cursor_make(p->copy + offset, p->head.sizept - offset, false, "", "debug info", 0);
}

static const char *copy_name(const char *s, char *buffer)
{
    size_t size = strlen(s);
    if (size >= PROTO_NAME_MAX)
        return NULL;
    memcpy(buffer, s, size + 1);
    return as_name(buffer, size);
}

/* The entries are in order of their beginnings: a name, or one byte for a loop's hidden variable,
 * then two numbers: the distance from the previous entry's beginning, and the number of
 * instructions. The n-th of the living variables is in slot n. */
const char *luajit_proto_local(const struct luajit_proto *p, uint32_t slot, uint32_t position,
                               char *buffer, uint32_t *budget)
{
    static const char *const hidden[] = {"(for index)",     "(for limit)", "(for step)",
                                         "(for generator)", "(for state)", "(for control)"};
    struct cursor c = part(p, p->head.varinfo);
    uint64_t start = 0;
    while (cursor_left(&c) && *budget) {
        const char *name = NULL;
        --*budget;
        uint8_t first = *c.at;
        if (first == 0)
            return NULL;
        if (first <= sizeof(hidden) / sizeof(*hidden)) {
            name = hidden[first - 1];
            cursor_skip(&c, 1);
        } else {
            name = cursor_string(&c);
        }
        start += cursor_uleb128(&c);
        uint64_t length = cursor_uleb128(&c);
        if (c.failed || start > position)
            return NULL;
        if (position - start < length && slot-- == 0)
            return copy_name(name, buffer);
    }
    return NULL;
}

const char *luajit_proto_upvalue(const struct luajit_proto *p, uint32_t index, char *buffer)
{
    struct cursor c = part(p, p->head.uvinfo);
    const char *name = NULL;
    if (index >= p->head.sizeuv)
        return NULL;
    for (uint32_t i = 0; i <= index; i++)
        name = cursor_string(&c);
    return name ? copy_name(name, buffer) : NULL;
}

/* ---- chunk names --------------------------------------------------------------------------- */

/* LuaJIT's rule for source text (LUA_IDSIZE 60): the text up to the first control character or 48
 * bytes; if that is not all, at most 45 bytes and three dots. */
static void source_text(const char *name, uint32_t length, bool builtin, char *out)
{
    enum { WHOLE = 48, CUT = 45 };
    uint32_t n = 0;
    while (n < WHOLE && n < length && (unsigned char)name[n] >= ' ')
        n++;
    const char *dots = "";
    if (n < length && name[n] != 0) {
        n = n < CUT ? n : CUT;
        dots = "...";
    }
    snprintf(out, PROTO_FILE_MAX, "%s%.*s%s%s", builtin ? "[builtin:" : "[string \"", (int)n, name,
             dots, builtin ? "]" : "\"]");
}

/* Collects texts that were read whole, behind the same head as the sample's. */
struct texts {
    const struct luajit_proto *p;
    uint64_t time; /* ns: time of the sample, when the string was alive */
    bool found, alive, several;
    uint8_t text[STRING_MAX];
};

enum { WORD = 8 };

/* How many of a text's last bytes are in the same aligned word as the bytes behind the text. */
static uint32_t bytes_in_last_word(const struct luajit_layout *l, uint32_t length)
{
    return ((uint32_t)l->str_size + length) % WORD;
}

/* lj_alloc and malloc write the size of a free block, a multiple of 8, over the last aligned word
 * of its memory. Before the NUL the size may look like a text's last character: "x" is 0x78. If
 * more characters are in that word and all are printable, the text counts as real: otherwise they
 * would be the size of a free block of 8 to 32 KiB, where names end in "p0". */
static bool ends_like_a_size(const struct luajit_layout *l, const uint8_t *text, uint32_t length)
{
    enum { SIZE_BYTES = 4 };
    uint32_t in_word = bytes_in_last_word(l, length);
    const uint8_t *size = text + length - in_word;
    if (!in_word || in_word > SIZE_BYTES || in_word > length || size[0] % WORD != 0)
        return false;
    bool printable = true;
    for (uint32_t i = 0; i < in_word; i++)
        printable &= size[i] >= ' ' && size[i] < 0x7f;
    return in_word == 1 || !printable;
}

/* Never returns MEMORY_SAME, so that it sees all readings. A dead string keeps its head, but not
 * its end. The next string may be half made. So a text must have a NUL behind it and none inside.
 * Two texts that differ only in the last word are one text and its remains: the hash, which is the
 * same, also covers the last four bytes. */
static enum memory_likeness collect_text(const void *context, uint64_t address,
                                         const uint8_t *bytes, size_t size,
                                         const struct memory_span *when)
{
    struct texts *t = *(struct texts *const *)context;
    uint32_t hash, length = t->p->head.chunk_len;
    const uint8_t *text = bytes + t->p->layout->str_size;
    (void)address, (void)size;
    if (!string_head_of(t->p->layout, bytes, &hash, &length) || hash != t->p->head.chunk_hash ||
        length != t->p->head.chunk_len || text[length] || memchr(text, 0, length))
        return MEMORY_ANOTHER;
    bool late = when->from > t->time && ends_like_a_size(t->p->layout, text, length);
    bool differs = t->found && memcmp(t->text, text, length) != 0;
    uint32_t last = bytes_in_last_word(t->p->layout, length);
    bool at_end = differs && last <= length && !memcmp(t->text, text, length - last);
    if (at_end && late && t->alive) /* the remains of the text found before */
        return MEMORY_ANOTHER;
    t->several |= differs && (!at_end || late || t->alive);
    t->found = true;
    t->alive |= !late;
    memcpy(t->text, text, length);
    return MEMORY_ANOTHER;
}

/* Does the memory have readings of several moments? */
static bool has_readings(const struct memory *m)
{
    for (size_t i = 0; i < m->nr_layers; i++)
        if (m->layers[i].unlike)
            return true;
    return false;
}

/* Choose the text of a chunk's name. When the name was read, it may already have been dead and
 * overwritten, or be composed of readings of several strings. So texts are used that were read
 * whole within two seconds. `doubtful`: the texts differ, or they may be remains of a dead
 * string. */
static void choose_text(const struct luajit_proto *p, const struct memory *m, char *name,
                        uint32_t length, struct memory_span *same, bool *doubtful)
{
    const struct memory_span when = {m->time > PROOF_TEXT_NS ? m->time - PROOF_TEXT_NS : 0,
                                     m->time + PROOF_TEXT_NS};
    struct texts texts = {.p = p, .time = m->time}, *context = &texts;
    const struct memory_compare compare = {collect_text, &context};
    if (length >= STRING_MAX)
        return;
    memory_was_unlike(m, p->head.chunkname, (size_t)p->layout->str_size + length + 1, &when,
                      &compare, same);
    if (texts.found)
        memcpy(name, texts.text, length);
    *doubtful |=
        texts.several || memchr(name, 0, length) || (texts.found ? !texts.alive : has_readings(m));
}

bool luajit_proto_file(const struct luajit_proto *p, const struct memory *m, char *buffer,
                       enum provenance *provenance, struct memory_span *same, bool *doubtful)
{
    char name[PROTO_FILE_MAX - 4];
    const uint32_t length = p->head.chunk_len;
    bool builtin = p->head.firstline == -1;
    if (!string_text(m, p->layout, p->head.chunkname, p->head.chunk_hash, length, name,
                     sizeof(name), provenance, same))
        return false;
    if (length < sizeof(name) && !luajit_proto_sampled_chunk(p, m))
        choose_text(p, m, name, length, same, doubtful);
    if (builtin || (*name != '@' && *name != '='))
        source_text(name, length, builtin, buffer);
    else /* a NUL inside ends the name, as in LuaJIT's messages */
        snprintf(buffer, PROTO_FILE_MAX, "%s%s", name + 1, length >= sizeof(name) ? "..." : "");
    return true;
}
