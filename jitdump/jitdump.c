/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The jitdump reader. The layout is that of the kernel's
 * tools/perf/Documentation/jitdump-specification.txt. Where writers differ from it, we accept what
 * perf inject accepts. The total size of a record is trusted for finding the next one; everything
 * inside is checked against it.
 */
#include "base/cursor.h"
#include "jitdump/jitcode.h"

#include <inttypes.h>
#include <unistd.h>

enum {
    MAGIC = 0x4A695444,
    MAGIC_SWAPPED = 0x4454694A,
    VERSION = 1,
    HEADER_SIZE = 40,
    RECORD_SIZE = 16, /* u32 id, u32 total size, u64 stamp */
    FLAG_TSC = 1,
};

/* V8 counts DEBUG_INFO addresses from the ELF header that old perf versions put before the code. We
 * recognise V8 by the value it writes into the padding of the file header. */
enum { V8_PAD = 0xDEADBEEF, V8_ROW_BIAS = 0x40 };

enum { CODE_LOAD, CODE_MOVE, CODE_DEBUG_INFO, CODE_CLOSE, CODE_UNWINDING_INFO };

struct reader {
    struct jitcode *code;
    const struct jitdump_options *options;
    uint64_t row_bias;
    bool swap;
    /* The next LOAD takes these. */
    struct jit_lines *lines;
    uint64_t lines_address;
    const uint8_t *eh_frame, *eh_frame_hdr;
    uint32_t eh_frame_size, eh_frame_hdr_size;
};

static uint64_t to_clock(const struct reader *r, uint64_t stamp)
{
    return r->code->tsc && r->options->to_clock ? r->options->to_clock(r->options->context, stamp)
                                                : stamp;
}

static int bad(struct reader *r)
{
    r->code->loss.records_bad++;
    return 0;
}

static bool wraps(uint64_t start, uint64_t size)
{
    return start + size < start;
}

/* Give the rows to the function that is loaded next, if they were written for it. */
static void take_lines(struct reader *r, struct jit_function *f)
{
    if (r->lines && r->lines_address == f->start)
        f->lines = r->lines;
    r->lines = NULL;
}

static void take_unwinding(struct reader *r, struct jit_function *f)
{
    f->eh_frame = r->eh_frame;
    f->eh_frame_size = r->eh_frame_size;
    f->eh_frame_hdr = r->eh_frame_hdr;
    f->eh_frame_hdr_size = r->eh_frame_hdr_size;
    r->eh_frame = r->eh_frame_hdr = NULL;
    r->eh_frame_size = r->eh_frame_hdr_size = 0;
}

static int read_load(struct reader *r, struct cursor *c, uint64_t stamp, struct error *err)
{
    cursor_skip(c, 4 + 4 + 8); /* pid, tid, vma: only the code address matters */
    uint64_t address = cursor_u64(c);
    uint64_t size = cursor_u64(c);
    uint64_t index = cursor_u64(c);
    const char *name = cursor_string(c);
    if (c->failed || wraps(address, size))
        return bad(r);
    if (size == 0)
        return 0;
    /* The code is the last bytes of the record. Some writers omit it. */
    const uint8_t *bytes = size <= cursor_left(c) ? c->end - size : NULL;
    if (!bytes && cursor_left(c) >= 8)
        return bad(r);
    struct jit_function *f = jitcode_add(r->code, address, size, to_clock(r, stamp), err);
    if (!f)
        return -1;
    f->index = index;
    f->name = name;
    f->code = bytes;
    f->lua = jit_lua_take(r->code, index);
    take_lines(r, f);
    take_unwinding(r, f);
    return 0;
}

static int read_move(struct reader *r, struct cursor *c, uint64_t stamp, struct error *err)
{
    cursor_skip(c, 4 + 4 + 8);
    uint64_t old = cursor_u64(c);
    uint64_t address = cursor_u64(c);
    uint64_t size = cursor_u64(c);
    if (c->failed || size == 0 || wraps(address, size))
        return bad(r);
    if (!jitcode_add(r->code, address, size, to_clock(r, stamp), err))
        return -1;
    struct jit_load *load = &r->code->loads.at[r->code->loads.nr - 1];
    load->event = JIT_MOVE;
    load->old = old;
    return 0;
}

static int read_debug_info(struct reader *r, struct cursor *c, struct error *err)
{
    uint64_t address = cursor_u64(c);
    uint64_t count = cursor_u64(c);
    if (c->failed)
        return bad(r);
    struct jit_lines *l = calloc(1, sizeof(*l));
    if (!l)
        return error_no_memory(err);
    *l = (struct jit_lines){.bytes = c->at,
                            .size = cursor_left(c),
                            .count = count,
                            .base = address + r->row_bias,
                            .swap = r->swap,
                            .next = r->code->lines};
    r->code->lines = r->lines = l;
    r->lines_address = address;
    return 0;
}

/* perf inject takes .eh_frame first and .eh_frame_hdr as the last bytes (the specification has the
 * opposite order). V8 sends only an empty header for code that keeps a frame pointer. */
static int read_unwinding_info(struct reader *r, struct cursor *c)
{
    uint64_t size = cursor_u64(c);
    uint64_t hdr_size = cursor_u64(c);
    cursor_skip(c, 8); /* mapped size, of perf's own mapping */
    const uint8_t *bytes = cursor_bytes(c, size);
    if (c->failed || hdr_size > size)
        return bad(r);
    uint64_t frame_size = size - hdr_size;
    r->eh_frame = frame_size ? bytes : NULL;
    r->eh_frame_size = (uint32_t)frame_size;
    r->eh_frame_hdr = frame_size && hdr_size ? bytes + frame_size : NULL;
    r->eh_frame_hdr_size = frame_size ? (uint32_t)hdr_size : 0;
    return 0;
}

static int read_lua(struct reader *r, uint32_t id, const struct cursor *c, struct error *err)
{
    bool good;
    if (jit_lua_read(r->code, id, c, &good, err) < 0)
        return -1;
    return good ? 0 : bad(r);
}

static int read_record(struct reader *r, uint32_t id, uint64_t stamp, struct cursor *c,
                       struct error *err)
{
    switch (id) {
    case CODE_LOAD:
        return read_load(r, c, stamp, err);
    case CODE_MOVE:
        return read_move(r, c, stamp, err);
    case CODE_DEBUG_INFO:
        return read_debug_info(r, c, err);
    case CODE_CLOSE:
        return 0;
    case CODE_UNWINDING_INFO:
        return read_unwinding_info(r, c);
    case LUA_LAYOUT:
    case LUA_FUNCTION:
    case LUA_TRACE:
    case LUA_STUBS:
        return read_lua(r, id, c, err);
    case LUA_FLUSH:
        return jitcode_flush(r->code, to_clock(r, stamp), err);
    default:
        r->code->loss.records_unknown++;
        return 0;
    }
}

static int read_records(struct reader *r, struct cursor *c, struct error *err)
{
    while (cursor_left(c) >= RECORD_SIZE) {
        struct cursor record = *c;
        uint32_t id = cursor_u32(&record);
        uint32_t size = cursor_u32(&record);
        uint64_t stamp = cursor_u64(&record);
        /* If a writer maps its file, zeros follow the last record until the writer ends. */
        if (id == 0 && size == 0 && stamp == 0)
            return 0;
        if (size < RECORD_SIZE)
            bad(r);
        if (size < RECORD_SIZE || size > cursor_left(c))
            break;
        record.end = c->at + size;
        if (read_record(r, id, stamp, &record, err) < 0)
            return -1;
        cursor_skip(c, size);
    }
    r->code->loss.bytes_cut = cursor_left(c);
    return 0;
}

static int read_header(struct reader *r, struct cursor *c, struct error *err)
{
    uint32_t magic = cursor_u32(c);
    r->swap = r->code->swapped = c->swap = magic == MAGIC_SWAPPED;
    if (c->failed || (magic != MAGIC && magic != MAGIC_SWAPPED))
        return cursor_error(c, err, "this is not a jitdump file");
    uint32_t version = cursor_u32(c);
    uint32_t size = cursor_u32(c);
    r->code->machine = cursor_u32(c);
    uint32_t pad = cursor_u32(c);
    r->code->pid = cursor_u32(c);
    cursor_skip(c, 8); /* stamp: V8 uses another clock here */
    uint64_t flags = cursor_u64(c);
    if (!c->failed && version != VERSION)
        return error_set(err, ERROR_UNSUPPORTED, "%s: the jitdump version %" PRIu32 " is unknown",
                         c->source, version);
    cursor_skip(c, size < HEADER_SIZE ? 0 : size - HEADER_SIZE);
    if (c->failed || size < HEADER_SIZE)
        return cursor_error(c, err, "the header's size does not fit");
    r->row_bias = pad == V8_PAD ? V8_ROW_BIAS : 0;
    r->code->tsc = flags & FLAG_TSC;
    r->code->timeless = r->code->tsc ? !r->options->to_clock : r->options->ignore_times;
    return 0;
}

int jitdump_load(const char *path, const struct jitdump_options *options, struct jitcode **ret,
                 struct error *err)
{
    int fd = jit_file_open(path, err);
    int failed = fd < 0 ? -1 : jitdump_read(fd, path, options, ret, err);
    if (fd >= 0)
        close(fd);
    return failed;
}

int jitdump_read(int fd, const char *path, const struct jitdump_options *options,
                 struct jitcode **ret, struct error *err)
{
    static const struct jitdump_options defaults;
    struct jitcode *code = jitcode_create();
    if (!code)
        return error_no_memory(err);
    if (jit_file_map(fd, path, &code->map, &code->map_size, err) < 0) {
        code->map = NULL;
        jitcode_free(code);
        return -1;
    }
    struct reader r = {.code = code, .options = options ? options : &defaults};
    struct cursor c =
        cursor_make(code->map ? code->map : "", code->map_size, false, path, "jitdump", 0);
    if (read_header(&r, &c, err) < 0 || read_records(&r, &c, err) < 0 ||
        jitcode_index_build(code, err) < 0 || jit_lua_index(code, err) < 0) {
        jitcode_free(code);
        return -1;
    }
    *ret = code;
    return 0;
}
