/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of LuaJIT's own functions by number (GCfunc.ffid), read from the binary. Each library is
 * registered from a small program in the binary's read-only data, which lists names in the order of
 * their numbers. This works on stripped files of any version: there is no table of numbers here.
 *
 * Form (lj_lib.h's LIBINIT_*, the same in 2.0.5 to August 2026): the first number, the first index
 * of the assembler functions' headers, the size of the table; then tags. Top two bits 00, 40, 80: a
 * function, whose name follows (low 6 bits: its length, which may be 0); c0..f8: a string of that
 * length; f9: a Lua function (name, then a prototype in the form of string.dump, without its
 * header); fa: set; fb: number (8 bytes); fc: copy (1 byte); fd: last function; fe: one number is
 * left out; ff: end.
 */
#ifndef UNWIND_LUAJIT_NAMES_BUILTINS_H
#define UNWIND_LUAJIT_NAMES_BUILTINS_H

#include "base/error.h"
#include "unwind/luajit/layout.h"

#include <pthread.h>
#include <stdatomic.h>

enum { BUILTINS_MAX = 256, BUILTIN_NAME_MAX = 40, BUILTIN_PLACES = 8 };

struct luajit_builtins {
    char name[BUILTINS_MAX][BUILTIN_NAME_MAX]; /* "string.gsub"; "": not known */
    struct {
        char bare[BUILTIN_NAME_MAX], whole[BUILTIN_NAME_MAX]; /* "len", "string.len" */
    } lua[32]; /* functions written in Lua: they have no number */
    unsigned nr_lua;
    unsigned nr; /* number of known names */
    /* Bytes to search at the first luajit_builtins_get(). */
    struct {
        const uint8_t *bytes;
        size_t size;
    } places[BUILTIN_PLACES];
    unsigned nr_places;
    atomic_bool searched;
    pthread_mutex_t lock;
};

/* Search a binary's read-only bytes. Call it for each segment or section, first with a zeroed
 * `ret`. A name that is in no known library, or in two, is left out. */
void luajit_builtins_scan(struct luajit_builtins *ret, const uint8_t *bytes, size_t size);

/* A search that is put off until luajit_builtins_get(), because it takes milliseconds and most
 * recordings never need it. luajit_builtins_create() returns all zeros, or NULL when memory is out.
 * luajit_builtins_add() adds bytes to search, which must stay; bytes beyond BUILTIN_PLACES places
 * are not searched. */
struct luajit_builtins *luajit_builtins_create(void);
void luajit_builtins_free(struct luajit_builtins *b);
void luajit_builtins_add(struct luajit_builtins *b, const uint8_t *bytes, size_t size);
/* Returns the names, from any thread. Returns NULL for NULL. */
const struct luajit_builtins *luajit_builtins_get(const struct luajit_builtins *b);

#endif
