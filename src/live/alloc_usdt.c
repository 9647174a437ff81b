/* SPDX-License-Identifier: GPL-2.0-only */
/* Arguments of an allocator's own probes. See alloc_usdt.h. */
#include "live/alloc_usdt.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* Where the kernel keeps registers (struct pt_regs of asm/ptrace.h), by the names that their parts
 * have in instructions. */
static const struct {
    const char *names[4]; /* of 8, 4, 2 and 1 bytes */
    uint32_t at;
} x86_registers[] = {
    {{"r15", "r15d", "r15w", "r15b"}, 0},  {{"r14", "r14d", "r14w", "r14b"}, 8},
    {{"r13", "r13d", "r13w", "r13b"}, 16}, {{"r12", "r12d", "r12w", "r12b"}, 24},
    {{"rbp", "ebp", "bp", "bpl"}, 32},     {{"rbx", "ebx", "bx", "bl"}, 40},
    {{"r11", "r11d", "r11w", "r11b"}, 48}, {{"r10", "r10d", "r10w", "r10b"}, 56},
    {{"r9", "r9d", "r9w", "r9b"}, 64},     {{"r8", "r8d", "r8w", "r8b"}, 72},
    {{"rax", "eax", "ax", "al"}, 80},      {{"rcx", "ecx", "cx", "cl"}, 88},
    {{"rdx", "edx", "dx", "dl"}, 96},      {{"rsi", "esi", "si", "sil"}, 104},
    {{"rdi", "edi", "di", "dil"}, 112},    {{"rsp", "esp", "sp", "spl"}, 152},
};

/* Take a register's name away from the beginning of a text. */
static bool take_x86_register(const char **text, uint32_t *ret)
{
    if (**text != '%')
        return false;
    size_t size = strcspn(++*text, ",)");
    for (size_t i = 0; i < sizeof(x86_registers) / sizeof(*x86_registers); i++)
        for (int n = 0; n < 4; n++) {
            const char *name = x86_registers[i].names[n];
            if (strlen(name) != size || strncmp(name, *text, size) != 0)
                continue;
            *text += size;
            *ret = x86_registers[i].at;
            return true;
        }
    return false;
}

static bool take_arm_register(const char **text, uint32_t *ret)
{
    enum { SP = 248, LAST = 30 };
    char *end;
    if (strncmp(*text, "sp", 2) == 0) {
        *text += 2;
        *ret = SP;
        return true;
    }
    if ((**text != 'x' && **text != 'w') || (*text)[1] < '0' || (*text)[1] > '9')
        return false;
    unsigned long n = strtoul(*text + 1, &end, 10);
    *text = end;
    *ret = (uint32_t)n * 8;
    return n <= LAST;
}

static bool take_number(const char **text, int64_t *ret)
{
    char *end;
    *ret = (int64_t)strtoll(*text, &end, 0);
    bool any = end != *text;
    *text = end;
    return any;
}

/* "$5", "%rdi", "-12(%rbp)", "(%rax)" */
static bool x86_place(const char *text, struct alloc_place *ret)
{
    ret->kind = PLACE_CONSTANT;
    if (*text == '$')
        return text++, take_number(&text, &ret->value) && !*text;
    ret->kind = PLACE_REGISTER;
    if (*text == '%')
        return take_x86_register(&text, &ret->at) && !*text;
    ret->kind = PLACE_MEMORY;
    if (*text != '(' && !take_number(&text, &ret->value))
        return false;
    return *text++ == '(' && take_x86_register(&text, &ret->at) && strcmp(text, ")") == 0;
}

/* "5", "x0", "[sp, 12]", "[x1]" */
static bool arm_place(const char *text, struct alloc_place *ret)
{
    ret->kind = PLACE_CONSTANT;
    if (*text == '-' || (*text >= '0' && *text <= '9'))
        return take_number(&text, &ret->value) && !*text;
    ret->kind = PLACE_REGISTER;
    if (*text != '[')
        return take_arm_register(&text, &ret->at) && !*text;
    ret->kind = PLACE_MEMORY;
    text++;
    if (!take_arm_register(&text, &ret->at))
        return false;
    if (*text == ',') {
        text += 1 + strspn(text + 1, " #");
        if (!take_number(&text, &ret->value))
            return false;
    }
    return strcmp(text, "]") == 0;
}

/* SIZE@PLACE, SIZE below 0 for signed numbers; without a size it is that of an address. */
static bool argument_place(char *text, uint16_t machine, struct alloc_place *ret)
{
    char *end = text;
    long size = strtol(text, &end, 10);
    *ret = (struct alloc_place){0};
    if (end > text && *end == '@') {
        text = end + 1;
    } else {
        size = 8;
    }
    ret->is_signed = size < 0;
    size = size < 0 ? -size : size;
    ret->size = (uint8_t)size;
    if (size != 1 && size != 2 && size != 4 && size != 8)
        return false;
    return machine == EM_X86_64    ? x86_place(text, ret)
           : machine == EM_AARCH64 ? arm_place(text, ret)
                                   : false;
}

/* Cut the next argument off: to the next blank that is in no brackets. NULL: there is none. */
static char *next_argument(char **rest)
{
    char *from = *rest + strspn(*rest, " "), *at = from;
    for (int depth = 0; *at && (*at != ' ' || depth); at++)
        depth += (*at == '[') - (*at == ']');
    *rest = *at ? at + 1 : at;
    *at = 0;
    return *from ? from : NULL;
}

bool alloc_usdt_of(const struct elf_usdt *usdt, uint16_t machine, struct alloc_usdt *ret)
{
    char text[256];
    bool frees = strcmp(usdt->name, "free") == 0;
    struct alloc_place *places[] = {&ret->block, &ret->size, &ret->weight};
    *ret = (struct alloc_usdt){.frees = frees};
    if (strcmp(usdt->provider, "otel_memory") != 0 ||
        (!frees && strcmp(usdt->name, "alloc") != 0) || strlen(usdt->arguments) >= sizeof(text))
        return false;
    char *rest = strcpy(text, usdt->arguments);
    for (int i = 0; i < (frees ? 1 : 3); i++) {
        char *one = next_argument(&rest);
        if (!one || !argument_place(one, machine, places[i]))
            return false;
    }
    return true;
}

static bool is_valid(const struct alloc_place *p)
{
#if defined(__x86_64__)
    enum { LAST = 152 };
#else
    enum { LAST = 248 };
#endif
    return p->kind <= PLACE_MEMORY && p->at <= LAST && p->at % 8 == 0 && p->is_signed <= 1 &&
           (p->size == 1 || p->size == 2 || p->size == 4 || p->size == 8);
}

bool alloc_usdt_is_valid(const struct alloc_usdt *usdt)
{
    return usdt->frees <= 1 && is_valid(&usdt->block) &&
           (usdt->frees || (is_valid(&usdt->size) && is_valid(&usdt->weight)));
}
