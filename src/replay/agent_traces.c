/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Machine code of LuaJIT traces that the agent's jitdump describes: its frame is replaced by the
 * Lua functions that it executes. Below the outermost of these functions the Lua stack goes on in
 * memory that was not recorded; one frame says so.
 */
#include "base/hash.h"
#include "jitdump/jitdump.h"
#include "replay/replay_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- functions ----------------------------------------------------------------------------- */

enum { FILE_MAX = 1024, NAME_MAX_SIZE = 512 };

/* LuaJIT's rule for chunks that are source text (LUA_IDSIZE 60): the text up to the first control
 * character, at most 48 bytes; if that is not all of the text, at most 45 bytes and three dots. */
static void file_of(const struct jit_lua_function *f, char out[FILE_MAX])
{
    int size = f->chunk_size < FILE_MAX - 32 ? (int)f->chunk_size : FILE_MAX - 32;
    int shown = 0;
    if (size && (*f->chunk == '@' || *f->chunk == '=')) {
        snprintf(out, FILE_MAX, "%.*s", size - 1, f->chunk + 1);
        return;
    }
    while (shown < size && shown < 48 && (unsigned char)f->chunk[shown] >= ' ')
        shown++;
    bool whole = shown == (int)f->chunk_size;
    shown = whole || shown < 45 ? shown : 45;
    snprintf(out, FILE_MAX, "[%s%.*s%s]", f->first_line == UINT32_MAX ? "builtin:" : "string \"",
             shown, f->chunk,
             f->first_line == UINT32_MAX ? ""
             : whole                     ? "\""
                                         : "...\"");
}

/* Returns a hash of what is the same in all records of a function; it also distinguishes two
 * functions on one line. The name is part of it, so that the function is one, whichever record is
 * met first. */
static uint64_t salt_of(const struct jit_lua_function *f)
{
    uint64_t hash = hash_bytes(f->name, f->name_size);
    if (f->is_builtin)
        return hash;
    hash = hash_combine(hash, f->instructions);
    return hash_combine(hash, hash_bytes(f->line_info, (size_t)f->width * (f->instructions - 1)));
}

/* Returns the function's id; 0: out of memory. */
static uint32_t intern_function(struct managed_names *managed, const struct jit_lua_function *f)
{
    char file[FILE_MAX], name[NAME_MAX_SIZE];
    snprintf(name, sizeof(name), "%.*s",
             (int)(f->name_size < NAME_MAX_SIZE ? f->name_size : NAME_MAX_SIZE - 1), f->name);
    file_of(f, file);
    struct managed_identity i = {.kind = MANAGED_FUNCTION, .language = FRAME_LUA, .file = file};
    if (f->is_builtin || f->first_line == UINT32_MAX) { /* C, or Lua code of LuaJIT itself */
        i.kind = MANAGED_BUILTIN;
        if (!f->is_builtin)
            snprintf(name, sizeof(name), "%.*s", (int)(f->chunk_size < 64 ? f->chunk_size : 64),
                     f->chunk);
        i.name = name;
        i.file = f->is_builtin ? NULL : file;
    } else {
        i.salt = salt_of(f);
        i.line = f->first_line;
        i.kind = f->first_line == 0 && f->lines ? MANAGED_MAIN : MANAGED_FUNCTION;
    }
    uint32_t id = managed_intern(managed, &i);
    if (id && i.kind == MANAGED_FUNCTION && *name &&
        managed_propose_name(managed, id, NAME_RANK_DEFINED, name, 0) < 0)
        return 0;
    return id;
}

static uint32_t unknown_function(struct managed_names *managed)
{
    const struct managed_identity i = {.kind = MANAGED_UNKNOWN, .language = FRAME_LUA};
    return managed_intern(managed, &i);
}

static uint32_t function_id(struct trace_frames *t, struct managed_names *managed,
                            const struct jit_lua_function *f)
{
    if (!f)
        return unknown_function(managed);
    uint64_t hash = hash_u64((uintptr_t)f);
    uint32_t n = hash_table_find(&t->table, hash, i, t->names.at[i].function == f);
    if (n != HASH_TABLE_NONE)
        return t->names.at[n].id;
    uint32_t id = intern_function(managed, f);
    return vec_push(&t->names, (struct trace_name){f, id}) &&
                   hash_table_add(&t->table, hash, t->names.nr - 1)
               ? id
               : 0;
}

/* ---- frames -------------------------------------------------------------------------------- */

/* Get the Lua stack of the trace whose machine code the frame is in. */
static bool lua_stack(const struct frame *f, struct jit_lua_stack *ret)
{
    const struct jit_function *j = f->code;
    return f->kind == FRAME_JIT && j && j->lua && jit_function_lua(j, frame_lookup_pc(f), ret);
}

bool trace_frame_is(const struct frame *f)
{
    return f->kind == FRAME_JIT && f->code && ((const struct jit_function *)f->code)->lua;
}

bool trace_frame_is_guess(const struct frame *f)
{
    struct jit_lua_stack stack;
    return trace_frame_is(f) && lua_stack(f, &stack) && stack.guess;
}

/* A C function that the trace is about to call: it has no frame yet, and will have one of its
 * own. */
static bool is_pending_call(const struct jit_lua_stack *stack, unsigned i)
{
    const struct jit_lua_function *f = stack->frames[i].function;
    return i == 0 && stack->nr > 1 && f && f->is_builtin;
}

/* Replace the frame. The innermost Lua frame stands for the machine code: it has its address, its
 * place, and its flags. */
static bool push_frames(struct trace_frames *t, struct managed_names *managed,
                        const struct frame *f, const struct jit_lua_stack *stack)
{
    unsigned first = is_pending_call(stack, 0) ? 1 : 0;
    for (unsigned i = first; i < stack->nr; i++) {
        const struct jit_lua_frame *at = &stack->frames[i];
        struct frame to = {.pc = at->pc,
                           .function = function_id(t, managed, at->function),
                           .line = at->line,
                           .trace = (uint16_t)stack->trace,
                           .kind = FRAME_LUA,
                           .tier = TIER_TRACE,
                           .provenance = f->provenance};
        if (i == first) {
            to.pc = f->pc;
            to.cfa = f->cfa;
            to.flags = f->flags;
        }
        if (i + 1 < stack->nr)
            to.flags |= FRAME_INLINED;
        if (stack->guess)
            to.provenance = PROVENANCE_GUESS;
        if (!to.function || !vec_push(&t->frames, to))
            return false;
    }
    return vec_push(&t->frames, (struct frame){.kind = FRAME_LUA, .provenance = f->provenance});
}

size_t replay_frames_of(const struct frame *f)
{
    struct jit_lua_stack stack;
    return lua_stack(f, &stack) ? stack.nr - (is_pending_call(&stack, 0) ? 1 : 0) + 1 : 1;
}

int trace_frames_expand(struct trace_frames *t, struct managed_names *managed,
                        struct replay_sample *s, struct error *err)
{
    t->frames.nr = 0;
    for (size_t i = 0; i < s->nr_frames; i++) {
        const struct frame *f = &s->frames[i];
        struct jit_lua_stack stack;
        bool good =
            lua_stack(f, &stack) ? push_frames(t, managed, f, &stack) : vec_push(&t->frames, *f);
        if (!good)
            return error_no_memory(err);
    }
    s->frames = t->frames.at;
    s->nr_frames = t->frames.nr;
    return 0;
}

void trace_frames_free(struct trace_frames *t)
{
    vec_free(&t->frames);
    vec_free(&t->names);
    hash_table_free(&t->table);
    *t = (struct trace_frames){0};
}
