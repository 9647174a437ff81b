/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A DSO: one ELF file (or kernel, module, vdso, pseudo file) as a recording names it, and where its
 * bytes are found today. Its identity is (kind, name, build id). Everything else is loaded once, at
 * first use, under its own lock, and is immutable afterwards: all functions may be called from any
 * thread.
 */
#ifndef DSO_DSO_H
#define DSO_DSO_H

#include "base/error.h"
#include "base/intern.h"
#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dso_kind {
    DSO_FILE,    /* a path */
    DSO_VDSO,    /* [vdso] */
    DSO_KERNEL,  /* [kernel.kallsyms] */
    DSO_KMODULE, /* a kernel module, by path or [name] */
    DSO_PSEUDO,  /* //anon, [heap], [stack], anon_inode:..., memfd without a file: no bytes */
};

struct dso {
    uint32_t id; /* from 1; identifies the dso in caches; also its cfi_id */
    enum dso_kind kind;
    const char *name;       /* as the recording writes it */
    const char *short_name; /* after the last slash; as perf prints with --sort dso */
    struct build_id build_id;
};

struct dso_options {
    const char *symfs;       /* prefix of every path of the recording; NULL: none */
    const char *kallsyms;    /* NULL: recorded cache entry by build id, then /proc/kallsyms */
    const char *vmlinux;     /* NULL: none */
    const char *debug_dir;   /* NULL: /usr/lib/debug */
    const char *buildid_dir; /* NULL: .debug below symfs if it exists, else ~/.debug */
    const char *release;     /* `uname -r` of the recording's machine; NULL: not known */
    int64_t recorded;        /* s since 1970: when the recording was written; 0: not known */
    bool no_debuginfod;      /* else debuginfod is asked when DEBUGINFOD_URLS is set */
    bool force;              /* also use files whose build id differs */
};

struct dsos;
struct dsos *dsos_create(const struct dso_options *options);
void dsos_free(struct dsos *all);

/* Returns the dso of that identity, made at the first call. `build_id` NULL or size 0: any; a build
 * id learned later (dsos_set_build_id) is attached. `root`: pid whose /proc/PID/root may resolve
 * the path while the process lives (other mount namespaces), 0: none. NULL: out of memory. */
struct dso *dsos_get(struct dsos *all, enum dso_kind kind, const char *name,
                     const struct build_id *build_id, uint32_t root);
/* Like dsos_get(), for one of several files of this name when it is not known which of them has the
 * build id that is recorded for the name. Returns a dso that has no build id and never gets one. */
struct dso *dsos_get_apart(struct dsos *all, enum dso_kind kind, const char *name, uint32_t root);
/* Copy an open file, which has this build id, into perf's build-id cache (~/.debug), for the time
 * when it is gone from its place. Returns whether the cache has it now. */
bool dso_keep_copy(int from, const struct build_id *id);
/* Say where a live process has the file of a dso whose name is " (deleted)":
 * /proc/PID/map_files/... . Only the first call before the file is looked for counts. */
void dso_add_path(struct dso *dso, const char *path);
/* Say which inode the recorded file had. A dso without a build id then uses no other file, unless
 * it is looked for below symfs. Only the first call before the file is looked for counts; 0: not
 * known. */
void dso_expect_inode(struct dso *dso, uint64_t inode);
size_t dsos_count(const struct dsos *all);
struct dso *dsos_at(struct dsos *all, size_t index);
/* Set the build id of dsos of that name that have none yet (BUILD_ID features and records). */
void dsos_set_build_id(struct dsos *all, const char *name, const struct build_id *build_id);
/* From time `from` on it is not known which of several files of that name has the build id, so dsos
 * that have the id are doubted from then on. With `from` 0, dsos whose files were not looked for
 * yet lose the id and become apart, as by dsos_get_apart(). */
void dsos_doubt_build_id(struct dsos *all, const char *name, const struct build_id *build_id,
                         uint64_t from);
bool dso_is_doubted(const struct dso *dso, uint64_t time);

/* Writes "" for a build id that is not known. */
void build_id_hex(const struct build_id *id, char hex[2 * BUILD_ID_MAX + 1]);
/* Reads what build_id_hex() writes, up to the first other character. Returns false when that is no
 * whole number of bytes, or more than BUILD_ID_MAX. */
bool build_id_from_hex(const char *hex, struct build_id *ret);

/* ---- ELF images -------------------------------------------------------------------------- */

/* One ELF file, mapped. Our own bounded reader reads its headers. Any thread may use it. */
struct elf_image {
    const char *path;
    const uint8_t *bytes;
    size_t size;
    struct elf_tables *tables; /* section and program headers, decompressed sections: elf_image.h */
    struct build_id build_id;
    uint64_t entry; /* address of the first instruction; 0: none */
    uint16_t machine, type;
    bool is64, swapped;
};

struct elf_section {
    const uint8_t *bytes; /* uncompressed; NULL: absent or NOBITS */
    size_t size;
    uint64_t address, offset, link;
    uint32_t type, index;
};
/* Get a section by name, decompressed when SHF_COMPRESSED or .zdebug_. Returns false when it is
 * absent or damaged. */
bool elf_image_section(const struct elf_image *image, const char *name, struct elf_section *ret);

/* Returns the file that the code came from: mapped, its build id compared. NULL: not found (see
 * dso_problem). */
const struct elf_image *dso_image(struct dso *dso);
/* Returns the file with .symtab and DWARF: the image itself, or its debug link / build-id /
 * debuginfod file. Never NULL when dso_image is not. */
const struct elf_image *dso_debug_image(struct dso *dso);
/* Returns the file of .gnu_debugaltlink (dwz) that the debug image refers to; NULL: none. */
const struct elf_image *dso_alt_image(struct dso *dso);
/* Returns a split DWARF file that the debug image names (absolute, or relative to `comp_dir` or to
 * the debug image's own folder); NULL: not found. The same names give the same file. */
const struct elf_image *dso_dwo_image(struct dso *dso, const char *comp_dir, const char *name);
/* Returns the .dwp package beside the image or its debug file; NULL: none. */
const struct elf_image *dso_dwp_image(struct dso *dso);
/* DSO_KERNEL, DSO_KMODULE: returns the path of the kallsyms file to use (option, build-id cache,
 * /proc when the running kernel is the recorded one); NULL: none. */
const char *dso_kallsyms(struct dso *dso);
/* DSO_KMODULE: write the module's name as the kernel spells it, "x_y" for "/lib/x-y.ko.xz" and
 * "[x_y]". Returns false when it cannot be a module's name. */
bool dso_module_name(const struct dso *dso, char *to, size_t room);
/* Is the kallsyms file the kernel's own or a copy of it, and not one given as an option? Then it is
 * sorted by address up to the first module's line. */
bool dso_kallsyms_in_order(struct dso *dso);
/* DSO_KERNEL: the address in the recording of the symbol that gives the relocation (the name and
 * pgoff of the kernel's MMAP, "_text" or "_stext"). Needed with vmlinux or another boot's
 * kallsyms. */
void dso_set_reference(struct dso *dso, const char *symbol, uint64_t address);
bool dso_reference(const struct dso *dso, const char **symbol, uint64_t *address);

/* Files of a dso that have been opened so far. Use it only while no thread asks for more. */
enum dso_part {
    DSO_PART_IMAGE,
    DSO_PART_DEBUG, /* if it is not the image itself */
    DSO_PART_ALT,
    DSO_PART_DWP,
    DSO_PART_DWO, /* several: `index` counts them, whether found or not */
};
/* NULL: not asked for, or not found. */
const struct elf_image *dso_opened(const struct dso *dso, enum dso_part part, size_t index);
size_t dso_nr_dwos(const struct dso *dso);
/* Was the dso's image (or its kallsyms) asked for? */
bool dso_was_asked(const struct dso *dso);
bool dso_kallsyms_was_asked(const struct dso *dso);

/* Returns why there is no image, or why the image is doubtful (replaced since, build id differs);
 * NULL: no problem. */
const char *dso_problem(const struct dso *dso);

/* Returns why a runtime in the file is not understood, in a line that names the file; NULL: none
 * is, or nobody has asked for the file's unwind rules. */
const char *dso_runtime_problem(const struct dso *dso);

/* Set that text to "NAME: WHY", unless there is one already. `why` is static. */
void dso_note_problem(struct dso *dso, const char *why);

/* Convert a file offset (pc - mapping start + pgoff) to a virtual address by PT_LOAD. Returns false
 * when no segment contains it. */
bool dso_offset_to_vaddr(struct dso *dso, uint64_t offset, uint64_t *vaddr);
/* Get the file offsets around one that are converted by adding the same (elf_image_loaded_around).
 */
bool dso_loaded_around(struct dso *dso, uint64_t offset, uint64_t *first, uint64_t *end);
/* Returns the unwind rules, which are empty for a file without CFI; NULL: there is no file. Damaged
 * rules: NULL, and dso_problem() tells why. */
const struct cfi *dso_cfi(struct dso *dso);
/* Get where the function begins and ends that contains an address of the file, by its symbols: for
 * code without CFI. `end` is 0 if its size is not known. Returns false if no symbol tells. */
bool dso_function(struct dso *dso, uint64_t vaddr, uint64_t *start, uint64_t *end);
/* Read bytes of a read-only, file-backed page at that file offset. Returns false when they are not
 * in the file. `proven`: a build id shows that the file is the one that ran; perf's pipes record
 * none. */
bool dso_read(struct dso *dso, uint64_t offset, void *to, size_t size, bool *proven);

#endif
