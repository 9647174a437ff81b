/* SPDX-License-Identifier: GPL-2.0-only */
/* Texts of kallsyms files (/proc/kallsyms and copies of it), read once for all users. */
#ifndef SYMBOLS_KALLSYMS_H
#define SYMBOLS_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kallsyms_text {
    const char *at, *end; /* not NUL-terminated */
};

struct kallsyms_files;

/* NULL: out of memory. */
struct kallsyms_files *kallsyms_files_create(void);
void kallsyms_files_free(struct kallsyms_files *all);
/* Returns the file's text, which lives as long as `all`; empty: unreadable. Any thread. */
struct kallsyms_text kallsyms_files_text(struct kallsyms_files *all, const char *path);

/* One line: "ADDRESS TYPE NAME", followed by "\t[MODULE]" for a module's symbol. */
struct kallsyms_line {
    uint64_t address;
    const char *name, *name_end;
    const char *module, *module_end; /* with its brackets; NULL: the kernel's own */
    char type;
    /* The first eight digits of the last line as text, and their value: mostly the next line has
     * the same. */
    uint64_t high_digits, high;
};

/* Read the line at `*at` and move `*at` to the next line. Returns false when the line has another
 * form. `ret` is zeroed before the first line; before each further line it is as the previous call
 * left it. */
bool kallsyms_line_read(const char **at, const char *end, struct kallsyms_line *ret);
/* Returns the address of a symbol; 0: there is none. */
uint64_t kallsyms_address(struct kallsyms_text text, const char *symbol);

#endif
