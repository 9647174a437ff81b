/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compares instructions decoded by unwind/insn_x86_64.h with capstone's, over whole text segments
 * of what is installed here (the C library, the disassembler, the test, node if present), and over
 * random bytes: the lengths of all instructions, and the effects of those that move the stack or
 * branch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unwind/insn_x86_64.h"

#include <capstone/capstone.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sweep {
    csh cs;
    cs_insn *insn;
    uint64_t checked, told, wrong;
    bool of_compilers;                     /* the code: its written registers are compared, too */
    uint64_t written_missed, written_more; /* registers that calls keep */
};

static uint8_t number_of(unsigned reg)
{
    static const unsigned low[] = {X86_REG_RAX, X86_REG_RCX, X86_REG_RDX, X86_REG_RBX,
                                   X86_REG_RSP, X86_REG_RBP, X86_REG_RSI, X86_REG_RDI};
    for (uint8_t i = 0; i < 8; i++)
        if (reg == low[i])
            return i;
    return reg >= X86_REG_R8 && reg <= X86_REG_R15 ? (uint8_t)(8 + (reg - X86_REG_R8))
                                                   : INSN_NO_REGISTER;
}

static uint8_t operand(const cs_x86 *x, unsigned i)
{
    return i < x->op_count && x->operands[i].type == X86_OP_REG ? number_of(x->operands[i].reg)
                                                                : INSN_NO_REGISTER;
}

static enum insn_op op_of(const cs_insn *i)
{
    switch (i->id) {
    case X86_INS_PUSH:
        return INSN_PUSH;
    case X86_INS_POP:
        return INSN_POP;
    case X86_INS_PUSHFQ:
        return INSN_PUSHF;
    case X86_INS_POPFQ:
        return INSN_POPF;
    case X86_INS_LEAVE:
        return INSN_LEAVE;
    case X86_INS_RET:
        return INSN_RET;
    case X86_INS_INT3:
    case X86_INS_UD2:
    case X86_INS_HLT:
        return INSN_TRAP;
    case X86_INS_JMP:
        return INSN_JMP;
    case X86_INS_ADD:
        return INSN_ADD;
    case X86_INS_SUB:
        return INSN_SUB;
    case X86_INS_LEA:
        return INSN_LEA;
    case X86_INS_MOV:
        return INSN_MOV;
    default:
        break;
    }
    for (unsigned k = 0; k < i->detail->groups_count; k++)
        if (i->detail->groups[k] == CS_GRP_JUMP)
            return INSN_JCC;
    return INSN_OTHER;
}

static bool moves(uint8_t reg)
{
    return reg == INSN_RSP || reg == INSN_RBP;
}

/* Returns whether our account of an instruction that concerns the stack agrees with capstone's. */
static bool agrees(const struct insn *got, const cs_insn *i)
{
    const cs_x86 *x = &i->detail->x86;
    enum insn_op op = op_of(i);
    switch (op) {
    case INSN_ADD:
    case INSN_SUB:
    case INSN_LEA:
    case INSN_MOV:
        if (!moves(operand(x, 0)))
            return !moves(got->to) || got->op == INSN_OTHER;
        break;
    default:
        break;
    }
    if (got->op != op)
        return false;
    switch (op) {
    case INSN_PUSH:
        return got->from == operand(x, 0);
    case INSN_POP:
        return got->to == operand(x, 0);
    case INSN_JMP:
    case INSN_JCC:
        return x->operands[0].type == X86_OP_IMM
                   ? got->immediate && (int64_t)i->size + got->value == x->operands[0].imm
                   : !got->immediate;
    case INSN_ADD:
    case INSN_SUB:
        return got->to == operand(x, 0) && (x->operands[1].type == X86_OP_IMM
                                                ? got->immediate && got->value == x->operands[1].imm
                                                : !got->immediate);
    case INSN_LEA:
    case INSN_MOV: {
        const x86_op_mem *m = &x->operands[1].mem;
        bool plain = x->operands[1].type == X86_OP_MEM && m->index == X86_REG_INVALID;
        uint8_t base = plain ? number_of(m->base) : INSN_NO_REGISTER;
        return got->to == operand(x, 0) && got->from == operand(x, 1) && got->base == base &&
               (base == INSN_NO_REGISTER || got->value == m->disp);
    }
    default:
        return true;
    }
}

/* Returns whether the operand is a control or segment register, or a part of one. */
static bool is_special(const cs_x86_op *op)
{
    return op->type == X86_OP_REG && number_of(op->reg) == INSN_NO_REGISTER;
}

static bool is_ud(const cs_insn *i)
{
    return i->id == X86_INS_UD0 || !strcmp(i->mnemonic, "ud2b");
}

/* Instructions that the two decoders see differently, and that following code does not meet: 16-bit
 * operands, far branches, loop and similar ones (which capstone does not group), control and
 * segment registers. Capstone leaves out the ModRM of ud0 and ud1; processors differ on branches
 * with a 66 prefix. */
static bool is_left_out(const uint8_t *code, const cs_insn *i)
{
    bool small = memchr(code, 0x66, i->size) != NULL;
    if (is_ud(i))
        return true;
    switch ((int)i->id) {
    case X86_INS_PUSH:
    case X86_INS_POP:
        return small;
    case X86_INS_LOOP:
    case X86_INS_LOOPE:
    case X86_INS_LOOPNE:
    case X86_INS_LJMP:
    case X86_INS_RETF:
    case X86_INS_RETFQ:
    case X86_INS_IRET:
    case X86_INS_IRETD:
    case X86_INS_IRETQ:
    case X86_INS_PUSHF:
    case X86_INS_POPF:
    case X86_INS_XBEGIN:
        return true;
    case X86_INS_MOV:
        return is_special(&i->detail->x86.operands[0]) || is_special(&i->detail->x86.operands[1]);
    default:
        return small && op_of(i) != INSN_OTHER;
    }
}

static void show(const uint8_t *code, const struct insn *got, const cs_insn *i)
{
    printf(
        "%s %s: %u bytes, op %d to %u from %u base %u value %d; capstone: %u bytes:", i->mnemonic,
        i->op_str, got->size, (int)got->op, got->to, got->from, got->base, got->value, i->size);
    for (unsigned k = 0; k < i->size; k++)
        printf(" %02x", code[k]);
    printf("\n");
}

/* AMD's SSE4a, which has two bytes behind ModRM, is not decoded as such. */
static bool has_another_size(const uint8_t *code, const cs_insn *i)
{
    return is_ud(i) || i->id == X86_INS_EXTRQ || i->id == X86_INS_INSERTQ ||
           (memchr(code, 0x66, i->size) && (op_of(i) != INSN_OTHER || i->id == X86_INS_CALL));
}

/* The registers that calls keep, and the stack pointer, by capstone's numbers of them and of their
 * parts. */
static uint32_t kept_bit(unsigned reg)
{
    static const struct {
        unsigned reg[5];
        uint8_t number;
    } kept[] = {
        {{X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH}, 3},
        {{X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL}, 4},
        {{X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL}, 5},
        {{X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B}, 12},
        {{X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B}, 13},
        {{X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B}, 14},
        {{X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B}, 15},
    };
    for (size_t i = 0; reg && i < sizeof(kept) / sizeof(*kept); i++)
        for (size_t k = 0; k < 5; k++)
            if (kept[i].reg[k] == reg)
                return 1U << kept[i].number;
    return 0;
}

/* Compares the registers that an instruction writes. The stack pointer of those that push and pop
 * is not told. */
static void check_written(struct sweep *s, const uint8_t *code, size_t left)
{
    enum { KEPT = 1 << 3 | 1 << 4 | 1 << 5 | 0xf << 12 };
    struct insn_parts parts;
    const cs_detail *d = s->insn->detail;
    uint32_t theirs = 0;
    if (!insn_parts(code, left, &parts))
        return;
    for (unsigned i = 0; i < d->regs_write_count; i++)
        theirs |= kept_bit(d->regs_write[i]);
    for (unsigned i = 0; i < d->x86.op_count; i++)
        if (d->x86.operands[i].type == X86_OP_REG && d->x86.operands[i].access & CS_AC_WRITE)
            theirs |= kept_bit(d->x86.operands[i].reg);
    uint32_t ours = insn_written(&parts) & KEPT;
    enum insn_op op = op_of(s->insn);
    if (op == INSN_PUSH || op == INSN_POP || op == INSN_PUSHF || op == INSN_POPF ||
        op == INSN_RET || s->insn->id == X86_INS_CALL)
        theirs &= ~(UINT32_C(1) << INSN_RSP);
    if (theirs & ~ours && s->written_missed++ < 20)
        printf("%s %s: %#x is written, %#x told\n", s->insn->mnemonic, s->insn->op_str, theirs,
               ours);
    s->written_more += (ours & ~theirs) != 0;
}

/* Checks one instruction. Returns its length, or 1 where capstone knows no instruction. */
static size_t check_one(struct sweep *s, const uint8_t *code, size_t left)
{
    const uint8_t *at = code;
    uint64_t address = 0;
    size_t rest = left;
    struct insn got = {0};
    bool decoded = insn_decode(code, left, &got);
    if (!cs_disasm_iter(s->cs, &at, &rest, &address, s->insn))
        return 1;
    s->checked++;
    s->told += op_of(s->insn) != INSN_OTHER;
    bool same_size = got.size == s->insn->size || has_another_size(code, s->insn);
    if (!decoded || !same_size || (!is_left_out(code, s->insn) && !agrees(&got, s->insn))) {
        if (s->wrong++ < 20)
            show(code, &got, s->insn);
    }
    if (s->of_compilers)
        check_written(s, code, left);
    return s->insn->size;
}

static void begin(struct sweep *s)
{
    *s = (struct sweep){0};
    assert_int_equal(cs_open(CS_ARCH_X86, CS_MODE_64, &s->cs), CS_ERR_OK);
    cs_option(s->cs, CS_OPT_DETAIL, CS_OPT_ON);
    s->insn = cs_malloc(s->cs);
    assert_non_null(s->insn);
}

static void end(struct sweep *s)
{
    cs_free(s->insn, 1);
    cs_close(&s->cs);
}

/* Checks at most that many bytes of a code section, spread over it. */
static void sweep_bytes(struct sweep *s, const uint8_t *code, size_t size)
{
    enum { PARTS = 16, PART = 128 << 10 };
    size_t step = size / PARTS > PART ? size / PARTS : PART;
    for (size_t from = 0; from < size; from += step) {
        size_t to = size - from < PART ? size : from + PART;
        for (size_t at = from; at < to;)
            at += check_one(s, code + at, size - at);
    }
}

static void sweep_file(struct sweep *s, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && !fstat(fd, &st));
    const uint8_t *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    const Elf64_Ehdr *e = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + e->e_shoff);
    for (unsigned i = 0; i < e->e_shnum; i++)
        if (!strcmp((const char *)file + sections[e->e_shstrndx].sh_offset + sections[i].sh_name,
                    ".text"))
            sweep_bytes(s, file + sections[i].sh_offset, sections[i].sh_size);
    munmap((void *)(uintptr_t)file, (size_t)st.st_size);
    close(fd);
}

static void code_that_compilers_made(void **state)
{
    (void)state;
    struct sweep s;
    begin(&s);
    s.of_compilers = true;
    const char *node = getenv("V8_NODE") ? getenv("V8_NODE") : "/usr/bin/node";
    Dl_info libc, self;
    assert_true(dladdr((void *)(uintptr_t)qsort, &libc) && dladdr((void *)(uintptr_t)begin, &self));
    sweep_file(&s, libc.dli_fname);
    sweep_file(&s, "/proc/self/exe");
    if (!access(node, R_OK))
        sweep_file(&s, node);
    end(&s);
    printf("%lu instructions, %lu of them of the stack or ways\n", (unsigned long)s.checked,
           (unsigned long)s.told);
    printf("registers that calls keep: %lu writes missed, %lu told that are none\n",
           (unsigned long)s.written_missed, (unsigned long)s.written_more);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(s.written_missed, 0);
    assert_true(s.written_more < s.checked / 1000);
    assert_true(s.checked > 100000 && s.told > s.checked / 5);
}

/* Every opcode with every ModRM, each behind some prefixes, where capstone knows an instruction. */
static void every_opcode(void **state)
{
    (void)state;
    static const uint8_t prefixes[][2] = {{0}, {0x48}, {0x41}, {0x4d}, {0x66}, {0x66, 0x48}};
    struct sweep s;
    begin(&s);
    for (unsigned p = 0; p < sizeof(prefixes) / sizeof(*prefixes); p++)
        for (unsigned map = 0; map < 2; map++)
            for (unsigned op = 0; op < 256; op++)
                for (unsigned modrm = 0; modrm < 256; modrm++) {
                    uint8_t code[24] = {0};
                    size_t n = strnlen((const char *)prefixes[p], 2);
                    memcpy(code, prefixes[p], n);
                    if (map)
                        code[n++] = 0x0f;
                    code[n++] = (uint8_t)op;
                    code[n++] = (uint8_t)modrm;
                    memset(code + n, 0x11, sizeof(code) - n);
                    check_one(&s, code, sizeof(code));
                }
    end(&s);
    printf("%lu instructions checked, %lu wrong\n", (unsigned long)s.checked,
           (unsigned long)s.wrong);
    assert_int_equal(s.wrong, 0);
}

static void nothing_is_read_behind_the_end(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x48, 0x81, 0xec, 0x10, 0x00, 0x00, 0x00}; /* sub rsp, 0x10 */
    struct insn got;
    for (size_t left = 0; left < sizeof(code); left++) {
        /* (at its exact size, so that a sanitizer sees reads behind it) */
        uint8_t *exact = malloc(left ? left : 1);
        memcpy(exact, code, left);
        assert_false(insn_decode(exact, left, &got));
        free(exact);
    }
    assert_true(insn_decode(code, sizeof(code), &got));
    assert_int_equal(got.op, INSN_SUB);
    assert_int_equal(got.to, INSN_RSP);
    assert_int_equal(got.value, 0x10);
    assert_int_equal(got.size, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_that_compilers_made),
        cmocka_unit_test(every_opcode),
        cmocka_unit_test(nothing_is_read_behind_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
