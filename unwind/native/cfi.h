/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Call frame information of one module, private to unwind/: finds the entry (FDE) of an address,
 * and the row of rules that the FDE's program gives for this address.
 *
 * Layouts: the LSB's ".eh_frame" and ".eh_frame_hdr", DWARF 5 section 6.4. The CIE is parsed again
 * for each row. This is cheap enough: the rule cache keeps rows, and the first lookup of a row
 * costs well below 1 us (bench_unwind). So a cfi stays immutable and needs no locks.
 */
#ifndef UNWIND_NATIVE_CFI_H
#define UNWIND_NATIVE_CFI_H

#include "base/cursor.h"
#include "unwind/runtime.h"

/* DW_EH_PE_*: encodings of a pointer. */
enum {
    PE_ABSPTR = 0x00,
    PE_ULEB128 = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SIGNED = 0x08,
    PE_SLEB128 = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_FORMAT = 0x0f,
    PE_PCREL = 0x10,
    PE_TEXTREL = 0x20,
    PE_DATAREL = 0x30,
    PE_FUNCREL = 0x40,
    PE_ALIGNED = 0x50,
    PE_BASE = 0x70,
    PE_INDIRECT = 0x80,
    PE_OMIT = 0xff,
};

struct fde_place {
    uint64_t begin;
    uint64_t offset; /* offset in the section */
};

/* One section, and a way to find the FDE of an address: the header's own table, or an index. */
struct cfi_table {
    struct cfi_section section;
    bool is_eh;             /* true: .eh_frame; false: .debug_frame */
    const uint8_t *entries; /* .eh_frame_hdr: nr x (s32 begin, s32 FDE), relative to `base` */
    uint64_t base;
    struct fde_place *index; /* the index, sorted by begin; NULL when `entries` is used */
    size_t nr;
};

struct cfi {
    struct cfi_table tables[2]; /* in the order of lookup */
    unsigned nr_tables;
    uint64_t low; /* no FDE begins below this address */
    uint64_t text_address, data_address;
    uint64_t entry;
    bool swapped;
    uint32_t id;
    const struct arch *arch;
    char *name;
    struct {
        const struct runtime *runtime;
        void *layout; /* owned */
    } runtimes[RUNTIMES_MAX];
    unsigned nr_runtimes;
};

/* Bytes in a section: a program or an expression. */
struct cfi_bytes {
    const uint8_t *at;
    size_t size;
};

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_register;
    uint8_t pointer_encoding;
    uint8_t address_size;
    bool has_augmentation; /* 'z': FDEs carry sized data */
    bool signal_frame;     /* 'S' */
    struct cfi_bytes program;
};

struct fde {
    struct cie cie;
    uint64_t begin, size;
    struct cfi_bytes program;
};

/* How to find a register of the caller. */
enum reg_rule_kind {
    REG_UNSPECIFIED, /* the program has no rule: the ABI's default applies */
    REG_UNDEFINED,
    REG_SAME,
    REG_OFFSET,     /* the value is at CFA + offset */
    REG_VAL_OFFSET, /* the value is CFA + offset */
    REG_REGISTER,   /* the value is in register `offset` of this frame */
    REG_EXPRESSION, /* the value is at the address that the expression gives; its stack begins with
                       the CFA */
    REG_VAL_EXPRESSION,
};

struct reg_rule {
    enum reg_rule_kind kind;
    int64_t offset;
    struct cfi_bytes expression;
};

enum { CFA_NONE = ARCH_REGISTERS_MAX };

/* Everything that CFI says about one pc. */
struct cfi_row {
    bool cfa_is_expression;
    bool signal_frame;
    uint64_t cfa_register; /* CFA_NONE: the program has not set the CFA */
    int64_t cfa_offset;
    struct cfi_bytes cfa_expression;
    const struct arch *arch;
    struct reg_rule regs[ARCH_REGISTERS_MAX]; /* only DWARF's columns are used */
    uint64_t told; /* bits of registers that are not REG_UNSPECIFIED; may have others, too */
    /* How far below the CFA the stack pointer has been in earlier rows of the function. INT64_MAX
     * when an earlier row's CFA was not computed from the stack pointer. */
    int64_t reach;
};

/* Finds the offset in its section of the FDE in this table that may cover `address`: the last FDE
 * that begins at or below it. false: there is none. */
bool cfi_fde_at(const struct cfi *cfi, const struct cfi_table *table, uint64_t address,
                uint64_t *ret);

/* Finds the FDE that covers `address` (in the module's terms). Returns its table; NULL: none does.
 */
const struct cfi_table *cfi_find_fde(const struct cfi *cfi, uint64_t address, struct fde *ret);

/* Finds the row for `address` (in the module's terms). false: no FDE covers it, or the FDE is
 * damaged. */
bool cfi_row(const struct cfi *cfi, uint64_t address, struct cfi_row *ret);

/* Visits every FDE of a table in the order of the section, until `each` returns false (for the
 * index and tests). */
void cfi_walk(const struct cfi *cfi, const struct cfi_table *table,
              bool (*each)(void *context, const struct fde *fde, uint64_t offset), void *context);

/* Visits, in order of address, the FDEs of at least `least` bytes in which no other FDE begins.
 * Reads only these FDEs from the section. */
void cfi_walk_large(const struct cfi *cfi, const struct cfi_table *table, uint64_t least,
                    bool (*each)(void *context, const struct fde *fde, uint64_t offset),
                    void *context);

/* cfi_entry.c: reads the FDE at `offset` of the section, with its CIE. false: it is damaged, or no
 * FDE. `next` (may be NULL): the offset of the entry behind it, if at least its length is valid;
 * else the section's size. */
bool cfi_read_fde(const struct cfi *cfi, const struct cfi_table *table, uint64_t offset,
                  struct fde *ret, uint64_t *next);
/* Reads a pointer at the cursor. `address`: where the section is loaded (the cursor's start). */
bool cfi_read_pointer(const struct cfi *cfi, struct cursor *c, uint64_t address, uint8_t encoding,
                      unsigned address_size, uint64_t *ret);

/* cfi_program.c: runs both programs up to `address`. */
bool cfi_run(const struct cfi *cfi, const struct cfi_table *table, const struct fde *fde,
             uint64_t address, struct cfi_row *ret);
/* Gives all rows to `each`, as cfi_run gives them. A row is for the addresses from the previous
 * row's `end` (at first the FDE's begin) up to `end`; UINT64_MAX: up to the FDE's end. If the
 * program is damaged, the rows stop there and false is returned. */
typedef void (*cfi_each_row)(void *context, const struct cfi_row *row, uint64_t end);
bool cfi_run_all(const struct cfi *cfi, const struct cfi_table *table, const struct fde *fde,
                 cfi_each_row each, void *context);
/* Returns the address at which the row after the one of `address` begins; the FDE's end if there is
 * none. For tests. */
uint64_t cfi_next_row(const struct cfi *cfi, const struct cfi_table *table, const struct fde *fde,
                      uint64_t address);

#endif
