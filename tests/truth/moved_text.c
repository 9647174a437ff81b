/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text that is moved to anonymous memory at its own addresses, in the ways of programs that want
 * huge pages, and a known call chain in it: main -> sorter -> qsort -> compare -> outer -> leaf.
 * usage: moved_text copy|protect|remap|other SECONDS
 *   copy     new memory over the text, the text copied back, executable from the start
 *   protect  the same, made executable at last
 *   remap    a copy is made elsewhere and moved over the text
 *   other    the text is left alone; generated code lies in a hole of it, huge pages wide
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { HUGE = 2 << 20 };

/* A function of the file whose pages nobody needs. */
__asm__(".pushsection .text.hole,\"ax\",@progbits\n"
        ".balign 2097152\n"
        ".globl unneeded\n"
        ".type unneeded, @function\n"
        "unneeded: ret\n"
        ".skip 2097151\n"
        ".size unneeded, 2097152\n"
        ".popsection\n");
extern char unneeded[];

static volatile unsigned long sink;

__attribute__((noipa)) static unsigned long leaf(unsigned long n)
{
    unsigned long s = 0;
    for (unsigned long i = 0; i < n; i++)
        s += (i * i) ^ (s >> 3);
    return s;
}

__attribute__((noipa)) static unsigned long outer(unsigned long n)
{
    unsigned long r = leaf(n) + 1;
    sink += r;
    return r;
}

static int compare(const void *a, const void *b)
{
    sink += outer(3000);
    return *(const int *)a - *(const int *)b;
}

__attribute__((noipa)) static void sorter(void)
{
    int v[16];
    for (int i = 0; i < 16; i++)
        v[i] = (i * 7) % 16;
    qsort(v, 16, sizeof(int), compare);
    sink += (unsigned long)v[0];
}

/* dec %edi; jnz; ret */
static const uint8_t loop[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};

static void find_text(char **from, size_t *size)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512], prot[8];
    uintptr_t a, b;
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%lx-%lx %7s", &a, &b, prot) == 3 && prot[2] == 'x' &&
            a <= (uintptr_t)leaf && (uintptr_t)leaf < b) {
            *from = (char *)a;
            *size = b - a;
        }
    if (f)
        fclose(f);
}

static void must(void *at)
{
    if (at == MAP_FAILED) {
        perror("moved_text");
        exit(1);
    }
}

static void move(const char *how)
{
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *text = NULL;
    size_t size = 0;
    find_text(&text, &size);
    char *copy = mmap(NULL, size, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(copy);
    memcpy(copy, text, size);
    if (strcmp(how, "protect") == 0)
        mprotect(copy, size, PROT_READ | PROT_EXEC);
    must(mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, text));
    if (strcmp(how, "copy") == 0)
        mprotect(text, size, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
    struct timespec t;
    if (argc < 3)
        return 2;
    const double seconds = atof(argv[2]);
    void (*in_hole)(unsigned) = (void (*)(unsigned))(uintptr_t)unneeded;
    if (strcmp(argv[1], "other") == 0) {
        must(mmap(unneeded, HUGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        memcpy(unneeded, loop, sizeof(loop));
        mprotect(unneeded, HUGE, PROT_READ | PROT_EXEC);
    } else {
        move(argv[1]);
        in_hole = NULL;
    }
    do {
        if (in_hole)
            in_hole(1000000);
        else
            sorter();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    } while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < seconds);
    return 0;
}
