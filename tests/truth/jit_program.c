/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Makes code at run time, with a known call chain: main -> call_NAME -> NAME (generated) -> spin.
 * First alpha at one place; then alpha is moved, and beta is put where alpha was. Argument:
 * "unwind" (no frame pointer, a jitdump with unwinding info), "bare" (the same without), "frame"
 * (frame pointer, a jitdump), "map" (frame pointer, a perf map, which has no times: alpha stays).
 * A second argument: how many times as long it runs.
 * Layout of a jitdump: tools/perf/Documentation/jitdump-specification.txt.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef void callback(long rounds);
typedef void generated(callback *c, long rounds);

static const uint8_t code_bare[] = {
    0x90,                         /* nop */
    0x48, 0x83, 0xec, 0x58,       /* sub $0x58,%rsp */
    0x48, 0x89, 0xf8,             /* mov %rdi,%rax */
    0x48, 0x89, 0xf7,             /* mov %rsi,%rdi */
    0xff, 0xd0,                   /* call *%rax */
    0xb9, 0x00, 0x00, 0x04, 0x00, /* mov $0x40000,%ecx */
    0xff, 0xc9,                   /* dec %ecx */
    0x75, 0xfc,                   /* jnz, to the dec */
    0x48, 0x83, 0xc4, 0x58,       /* add $0x58,%rsp */
    0xc3,                         /* ret */
};
static const uint8_t code_framed[] = {
    0x55,                         /* push %rbp */
    0x48, 0x89, 0xe5,             /* mov %rsp,%rbp */
    0x48, 0x83, 0xec, 0x50,       /* sub $0x50,%rsp */
    0x48, 0x89, 0xf8,             /* mov %rdi,%rax */
    0x48, 0x89, 0xf7,             /* mov %rsi,%rdi */
    0xff, 0xd0,                   /* call *%rax */
    0xb9, 0x00, 0x00, 0x04, 0x00, /* mov $0x40000,%ecx */
    0xff, 0xc9,                   /* dec %ecx */
    0x75, 0xfc,                   /* jnz, to the dec */
    0xc9,                         /* leave */
    0xc3,                         /* ret */
};
enum { CODE_SIZE = sizeof(code_bare), FRAME_AT = (CODE_SIZE + 7) / 8 * 8, CODE_INDEX = 1 };
_Static_assert(sizeof(code_framed) == CODE_SIZE, "both are written alike");

/* The bytes behind the code. Addresses in them count from there. */
struct __attribute__((packed)) unwinding {
    uint32_t cie_size, cie_id;
    uint8_t cie[16];
    uint32_t fde_size, fde_back;
    int32_t start;
    uint32_t size;
    uint8_t fde[12];
    uint32_t end;
    uint8_t hdr_kinds[4];
    int32_t hdr_frame;
    uint32_t hdr_count;
    int32_t hdr_start, hdr_fde;
};

static const struct unwinding unwinding = {
    .cie_size = 4 + 16,
    /* version 1, "zR", code 1, data -8, ra 16, pcrel sdata4; cfa rsp+8; ra at cfa-8 */
    .cie = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1},
    .fde_size = 4 + 4 + 4 + 12,
    .fde_back = offsetof(struct unwinding, fde_back),
    .start = -(int32_t)(FRAME_AT + offsetof(struct unwinding, start)),
    .size = CODE_SIZE,
    /* behind the sub: cfa rsp+0x60; behind the add: rsp+8 */
    .fde = {0, 0x45, 0x0e, 0x60, 0x40 + CODE_SIZE - 6, 0x0e, 8},
    .hdr_kinds = {1, 0x1b, 0x03, 0x3b},
    .hdr_frame = -(int32_t)offsetof(struct unwinding, hdr_frame),
    .hdr_count = 1,
    .hdr_start = -(int32_t)(FRAME_AT + offsetof(struct unwinding, hdr_kinds)),
    .hdr_fde = (int32_t)offsetof(struct unwinding, fde_size) -
               (int32_t)offsetof(struct unwinding, hdr_kinds),
};

static FILE *dump;
static bool with_unwinding;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void put32(uint32_t v)
{
    fwrite(&v, sizeof(v), 1, dump);
}
static void put64(uint64_t v)
{
    fwrite(&v, sizeof(v), 1, dump);
}

static void put_head(uint32_t id, size_t body)
{
    put32(id);
    put32((uint32_t)(16 + body));
    put64(now());
}

static void put_task(uint64_t vma)
{
    put32((uint32_t)getpid());
    put32((uint32_t)syscall(SYS_gettid));
    put64(vma);
}

static void dump_open(void)
{
    char name[64];
    snprintf(name, sizeof(name), "jit-%d.dump", (int)getpid());
    dump = fopen(name, "w+");
    put32(0x4A695444);
    put32(1);
    put32(40);
    put32(62); /* EM_X86_64 */
    put32(0);
    put32((uint32_t)getpid());
    put64(now());
    put64(0);
    fflush(dump);
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
}

static void dump_load(const char *name, const void *at, uint64_t index)
{
    const size_t hdr = sizeof(unwinding) - offsetof(struct unwinding, hdr_kinds);
    if (with_unwinding) {
        put_head(4, 24 + sizeof(unwinding));
        put64(sizeof(unwinding));
        put64(hdr);
        put64(sizeof(unwinding));
        fwrite(&unwinding, sizeof(unwinding), 1, dump);
    }
    put_head(0, 40 + strlen(name) + 1 + CODE_SIZE);
    put_task((uintptr_t)at);
    put64((uintptr_t)at);
    put64(CODE_SIZE);
    put64(index);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(at, CODE_SIZE, 1, dump);
    fflush(dump);
}

static void dump_move(const void *from, const void *to, uint64_t index)
{
    put_head(1, 48);
    put_task((uintptr_t)to);
    put64((uintptr_t)from);
    put64((uintptr_t)to);
    put64(CODE_SIZE);
    put64(index);
    fflush(dump);
}

static volatile long sink;
static int times = 1;
__attribute__((noinline)) static void spin(long rounds)
{
    for (long i = 0; i < rounds; i++)
        sink += i;
}

#define CALLER(name, number)                                 \
    __attribute__((noinline)) static void name(generated *f) \
    {                                                        \
        for (int i = 0; i < 250 * times; i++)                \
            f(spin, 300000);                                 \
        sink += number;                                      \
    }
CALLER(call_alpha, 1)
CALLER(call_alpha_moved, 2)
CALLER(call_beta, 3)

static void write_map(const void *at)
{
    char name[64];
    snprintf(name, sizeof(name), "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %x alpha\n", (unsigned long)at, (unsigned)CODE_SIZE);
    fclose(map);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    times = argc > 2 ? atoi(argv[2]) : 1;
    bool framed = strcmp(mode, "frame") == 0 || strcmp(mode, "map") == 0;
    const uint8_t *code = framed ? code_framed : code_bare;
    uint8_t *at =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    with_unwinding = strcmp(mode, "unwind") == 0;
    memcpy(at, code, CODE_SIZE);
    if (strcmp(mode, "map") == 0) {
        write_map(at);
        call_alpha((generated *)at);
        return 0;
    }
    dump_open();
    dump_load("alpha", at, CODE_INDEX);
    call_alpha((generated *)at);
    memcpy(at + 4096, code, CODE_SIZE);
    dump_move(at, at + 4096, CODE_INDEX);
    dump_load("beta", at, CODE_INDEX + 1);
    call_beta((generated *)at);
    call_alpha_moved((generated *)(at + 4096));
    fclose(dump);
    return 0;
}
