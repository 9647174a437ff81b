/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a Lua program is, told by itself: preloaded into a process, it replaces libm's sin(). A
 * program of lua_plain_generate.py calls math.sin(K) at each of its places; sin() stores K on the
 * thread's own native stack, near its base, so that each sample's copy of the stack holds the place
 * that the program was at in the sample's instant. No cooperation of the interpreter or of the host
 * is needed.
 *
 * A mark is MAGIC << 48 | previous K << 24 | K. sin() returns the previous K. The main thread's
 * place is AT_RANDOM's 16 bytes, which the C library has read before; other threads name a place
 * with lua_mark_here(). Each place is told to the file LUA_MARK_FACTS: "mark TID ADDRESS".
 */
#define _GNU_SOURCE
#include "lua_mark.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint64_t MAGIC = UINT64_C(0x4c4d) << 48, NUMBER = 0xffffff;
static __thread volatile uint64_t *place;

void lua_mark_here(volatile uint64_t *at)
{
    const char *path = getenv("LUA_MARK_FACTS");
    char text[64];
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    int size = snprintf(text, sizeof(text), "mark %ld %lx\n", (long)syscall(SYS_gettid),
                        (unsigned long)at);
    place = at;
    *at = MAGIC;
    if (file < 0 || write(file, text, (size_t)size) != size)
        _exit(99);
    close(file);
}

uint64_t lua_mark_set(uint64_t mark)
{
    uint64_t old = *place;
    *place = mark ? mark : MAGIC;
    return old;
}

double sin(double x)
{
    if (!place)
        return 0;
    uint64_t old = *place & NUMBER;
    *place = MAGIC | old << 24 | ((uint64_t)x & NUMBER);
    return (double)old;
}

__attribute__((constructor)) static void begin(void)
{
    uint64_t at = (getauxval(AT_RANDOM) + 7) & ~UINT64_C(7);
    if (getenv("LUA_MARK_FACTS"))
        lua_mark_here((volatile uint64_t *)at); /* NOLINT(performance-no-int-to-ptr) */
}
