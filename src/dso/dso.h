/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A DSO: one ELF file (or kernel, module, vdso, pseudo file) as a recording names it, and where
 * its bytes are found today. Identity is (kind, name, build id); everything else is loaded at
 * first use, once, under a lock of its own, and then immutable: all functions may be called
 * from any thread.
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
    uint32_t id; /* from 1; names the dso in caches; also its cfi_id */
    enum dso_kind kind;
    const char *name;       /* as the recording writes it */
    const char *short_name; /* after the last slash; as perf prints with --sort dso */
    struct build_id build_id;
};

struct dso_options {
    const char *symfs;       /* prefix of every path of the recording, NULL: none */
    const char *kallsyms;    /* NULL: recorded cache entry by build id, then /proc/kallsyms */
    const char *vmlinux;     /* NULL: none */
    const char *debug_dir;   /* NULL: /usr/lib/debug */
    const char *buildid_dir; /* NULL: .debug below symfs when it is there, else ~/.debug */
    const char *release;     /* `uname -r` of the recording's machine; NULL: not known */
    bool no_debuginfod;      /* else asked when DEBUGINFOD_URLS is set */
    bool force;              /* use files whose build id differs, too */
};

struct dsos;
struct dsos *dsos_create(const struct dso_options *options);
void dsos_free(struct dsos *all);

/* The dso of that identity, made at first call. `build_id` NULL or size 0: any; a build id learned
 * later (dsos_set_build_id) is attached. `root`: pid whose /proc/PID/root may resolve the path
 * while it lives (other mount namespaces), 0: none. NULL when memory is out. */
struct dso *dsos_get(struct dsos *all, enum dso_kind kind, const char *name,
                     const struct build_id *build_id, uint32_t root);
/* The same for one of several files of the name, where it is not known which of them an id that is
 * told for the name is of: one without an id, that gets none later. */
struct dso *dsos_get_apart(struct dsos *all, enum dso_kind kind, const char *name, uint32_t root);
size_t dsos_count(const struct dsos *all);
struct dso *dsos_at(struct dsos *all, size_t index);
/* For dsos of that name that have no build id yet (BUILD_ID features and records). */
void dsos_set_build_id(struct dsos *all, const char *name, const struct build_id *build_id);
/* It is not known, from that time on, which of several files of that name has the id: what has it
 * is doubted since. From time 0 on, what was not looked for yet is one apart, as by
 * dsos_get_apart(). */
void dsos_doubt_build_id(struct dsos *all, const char *name, const struct build_id *build_id,
                         uint64_t from);
bool dso_is_doubted(const struct dso *dso, uint64_t time);

/* "" of a build id that is not known. */
void build_id_hex(const struct build_id *id, char hex[2 * BUILD_ID_MAX + 1]);

/* ---- ELF images -------------------------------------------------------------------------- */

/* One ELF file, mapped. Its headers are read by our own bounded reader; any thread. */
struct elf_image {
    const char *path;
    const uint8_t *bytes;
    size_t size;
    struct elf_tables *tables; /* section and program headers, decompressed sections: elf_image.h */
    struct build_id build_id;
    uint16_t machine, type;
    bool is64, swapped;
};

struct elf_section {
    const uint8_t *bytes; /* uncompressed; NULL: absent or NOBITS */
    size_t size;
    uint64_t address, offset, link;
    uint32_t type, index;
};
/* A section by name, decompressed when SHF_COMPRESSED or .zdebug_. false: absent or damaged. */
bool elf_image_section(const struct elf_image *image, const char *name, struct elf_section *ret);

/* The file the code came from: mapped, its build id compared. NULL: not found (see dso_problem). */
const struct elf_image *dso_image(struct dso *dso);
/* The file with .symtab and DWARF: the image itself, its debug link / build-id / debuginfod file.
 * Never NULL when dso_image is not. */
const struct elf_image *dso_debug_image(struct dso *dso);
/* The file of .gnu_debugaltlink (dwz) that the debug image refers to; NULL: none. */
const struct elf_image *dso_alt_image(struct dso *dso);
/* A split DWARF file that the debug image names (absolute, or relative to `comp_dir` or to the
 * debug image's own folder); NULL: not found. The same file for the same names. */
const struct elf_image *dso_dwo_image(struct dso *dso, const char *comp_dir, const char *name);
/* The .dwp package beside the image or its debug file; NULL: none. */
const struct elf_image *dso_dwp_image(struct dso *dso);
/* DSO_KERNEL, DSO_KMODULE: the kallsyms file to use (option, build-id cache, /proc when the running
 * kernel is the recorded one); NULL: none. */
const char *dso_kallsyms(struct dso *dso);
/* DSO_KMODULE: its name as the kernel writes it, "x_y" of "/lib/x-y.ko.xz" and "[x_y]"; false: it
 * cannot be one. */
bool dso_module_name(const struct dso *dso, char *to, size_t room);
/* Whether that file is the kernel's own or a copy of it, not one that was given: sorted by address
 * up to the first module's line. */
bool dso_kallsyms_in_order(struct dso *dso);
/* DSO_KERNEL: where the recording saw the symbol that tells the relocation (the name and pgoff of
 * the kernel's MMAP, "_text" or "_stext"); needed with vmlinux or another boot's kallsyms. */
void dso_set_reference(struct dso *dso, const char *symbol, uint64_t address);
bool dso_reference(const struct dso *dso, const char **symbol, uint64_t *address);

/* What has been opened of a dso so far, while no thread asks for more. */
enum dso_part {
    DSO_PART_IMAGE,
    DSO_PART_DEBUG, /* when it is another file than the image */
    DSO_PART_ALT,
    DSO_PART_DWP,
    DSO_PART_DWO, /* several: `index` counts them, found or not */
};
/* NULL: not asked for, or not found. */
const struct elf_image *dso_opened(const struct dso *dso, enum dso_part part, size_t index);
size_t dso_nr_dwos(const struct dso *dso);
/* Its image, or its kallsyms, were asked for. */
bool dso_was_asked(const struct dso *dso);
bool dso_kallsyms_was_asked(const struct dso *dso);

/* Why there is no image, or which doubt it carries (replaced since, build id differs); NULL: none.
 */
const char *dso_problem(const struct dso *dso);

/* File offset (pc - mapping start + pgoff) to virtual address by PT_LOAD; false: in none. */
bool dso_offset_to_vaddr(struct dso *dso, uint64_t offset, uint64_t *vaddr);
/* Unwind rules; NULL: none. Damaged ones: NULL and dso_problem. */
const struct cfi *dso_cfi(struct dso *dso);
/* Adds to a copy of the layout of the LuaJIT in it (cfi_luajit) what its exported functions say of
 * it: unwind/luajit/crosscheck.h. Apart, since no walk needs it and it loads a disassembler. */
void dso_luajit_crosscheck(struct dso *dso, struct luajit_layout *layout);
/* Bytes of a read-only, file-backed page at that file offset; false: not in the file. `proven` says
 * whether a build id shows the file to be the one that ran; with perf's pipes none is recorded. */
bool dso_read(struct dso *dso, uint64_t offset, void *to, size_t size, bool *proven);

#endif
