/* SPDX-License-Identifier: GPL-2.0-only */
/* Texts of kallsyms files (/proc/kallsyms, copies of it), read once for all that need them. */
#ifndef SYMBOLS_KALLSYMS_H
#define SYMBOLS_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kallsyms_text {
    const char *at, *end; /* no NUL stands behind it */
};

struct kallsyms_files;

/* NULL when memory is out. */
struct kallsyms_files *kallsyms_files_create(void);
void kallsyms_files_free(struct kallsyms_files *all);
/* The file's text, which lives as long as `all`; empty: unreadable. Any thread. */
struct kallsyms_text kallsyms_files_text(struct kallsyms_files *all, const char *path);

/* One line: "ADDRESS TYPE NAME" and, of a module's symbol, "\t[MODULE]". */
struct kallsyms_line {
    uint64_t address;
    const char *name, *name_end;
    const char *module, *module_end; /* with its brackets; NULL: the kernel's own */
    char type;
    /* The last line's first eight digits as they stand, and their value: mostly the next one's,
     * too. */
    uint64_t high_digits, high;
};

/* The line at `*at`, which is moved to the next one; false: it is not of that form. `ret` is zeroed
 * before the first line, and then as the line before left it. */
bool kallsyms_line_read(const char **at, const char *end, struct kallsyms_line *ret);
/* The address of a symbol; 0: there is none. */
uint64_t kallsyms_address(struct kallsyms_text text, const char *symbol);

#endif
