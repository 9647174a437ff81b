/* SPDX-License-Identifier: GPL-2.0-only */
/* An allocator with probes of its own (USDT), as OpenTelemetry's memory profiling wants them: one
 * of ten calls is a sample, by malloc's own count. Prints FUNCTION, the bytes that its samples
 * stand for, those that are in use, its bytes and its blocks. SEMAPHORE: samples are drawn only
 * while someone listens. ./alloc_usdt ROUNDS [silent] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SEMAPHORE
__attribute__((section(".probes"), used)) volatile unsigned short otel_memory_semaphore;
#define WHO_LISTENS "otel_memory_semaphore"
#define LISTENS (otel_memory_semaphore != 0)
#else
#define WHO_LISTENS "0"
#define LISTENS 1
#endif

/* The note of SystemTap's probes, version 3. */
#define NOTE(name, arguments)                                                                      \
    "990: nop\n .pushsection .note.stapsdt, \"?\", \"note\"\n .balign 4\n .4byte 992f - 991f, "    \
    "994f - 993f, 3\n"                                                                             \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, _.stapsdt.base, " WHO_LISTENS "\n" \
    ".asciz \"otel_memory\"\n .asciz \"" name "\"\n .asciz \"" arguments                           \
    "\"\n994: .balign 4\n .popsection\n"                                                           \
    ".ifndef _.stapsdt.base\n .pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, "   \
    "comdat\n .weak _.stapsdt.base\n"                                                              \
    ".hidden _.stapsdt.base\n _.stapsdt.base: .space 1\n .size _.stapsdt.base, 1\n .popsection\n " \
    ".endif\n"

enum { POOL = 64 << 20, EVERY = 10, SITES = 3 };
static char pool[POOL];
static size_t at;
static unsigned long calls;
static int silent, site;
static struct count {
    unsigned long told, in_use, bytes, blocks;
} counts[SITES];

struct head {
    size_t size;
    uint64_t sampled;
};

__attribute__((noinline)) void *malloc(size_t size)
{
    struct head *h = (struct head *)(pool + at);
    at += sizeof(*h) + ((size + 15) & ~(size_t)15);
    if (at > sizeof(pool))
        _exit(9);
    h->size = size;
    h->sampled = !silent && LISTENS && site && ++calls % EVERY == 0;
    if (site) {
        counts[site].bytes += size;
        counts[site].blocks++;
    }
    if (h->sampled) {
        unsigned weight = EVERY * (unsigned)size; /* of four bytes, in memory or a register */
        counts[site].told += weight;
        counts[site].in_use += weight;
        if (site == 1)
            __asm__ volatile(NOTE("alloc", "8@%0 8@%1 4@%2")
                             :
                             : "r"(h + 1), "r"(size), "m"(weight));
        else
            __asm__ volatile(NOTE("alloc", "8@%0 -4@%1 4@%2")
                             :
                             : "r"(h + 1), "r"((int)size), "r"(weight));
    }
    return h + 1;
}
__attribute__((noinline)) void free(void *p)
{
    struct head *h = p;
    if (p && h[-1].sampled) {
        counts[site].in_use -= EVERY * h[-1].size;
        __asm__ volatile(NOTE("free", "8@%0") : : "nor"(p));
    }
}
void *calloc(size_t n, size_t size)
{
    return memset(malloc(n * size), 0, n * size);
}
void *realloc(void *p, size_t size)
{
    return memcpy(malloc(size), p,
                  p && ((struct head *)p)[-1].size < size ? ((struct head *)p)[-1].size
                  : p                                     ? size
                                                          : 0);
}

#define FUNCTION(name, size)                                         \
    __attribute__((noinline)) void *name(void)                       \
    {                                                                \
        void *p = malloc(size);                                      \
        __asm__ volatile("" : "+r"(p)); /* a call, and not a jump */ \
        return p;                                                    \
    }
FUNCTION(large_blocks, 2000)
FUNCTION(small_blocks, 48)

int main(int argc, char **argv)
{
    const int rounds = atoi(argv[1]);
    silent = argc > 2;
    usleep(1000000); /* until the probes are there */
    for (int i = 0; i < rounds; i++) {
        site = 1;
        void *volatile large = large_blocks();
        free(large);
        site = 2;
        for (int k = 0; k < 6; k++) {
            void *volatile small = small_blocks();
            if (i % 2)
                free(small);
        }
        if (i % 10 == 0)
            usleep(1000);
    }
    site = 0;
    usleep(100000);
    char line[300];
    int size =
        snprintf(line, sizeof(line), "large_blocks %lu %lu %lu %lu\nsmall_blocks %lu %lu %lu %lu\n",
                 counts[1].told, counts[1].in_use, counts[1].bytes, counts[1].blocks,
                 counts[2].told, counts[2].in_use, counts[2].bytes, counts[2].blocks);
    return write(1, line, (size_t)size) != size;
}
