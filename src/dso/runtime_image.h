/* SPDX-License-Identifier: GPL-2.0-only */
/* An ELF file as the discovery of runtimes sees it (unwind/runtime.h). */
#ifndef DSO_RUNTIME_IMAGE_H
#define DSO_RUNTIME_IMAGE_H

#include "dso/elf_image.h"
#include "unwind/runtime.h"

struct elf_runtime_image {
    const struct elf_image *image;
    /* Returns the file with .symtab, if the image has none; NULL: there is none. The function
     * pointer may be NULL. */
    const struct elf_image *(*debug)(void *context);
    void *debug_context;
    bool stays;                     /* the files stay open as long as what is found in them */
    struct elf_section relocations; /* .rela.dyn; set by elf_runtime_image() */
};

/* Returns the view of a file of this machine's byte order and word size. `of` must stay as long as
 * the result is used. */
struct runtime_image elf_runtime_image(struct elf_runtime_image *of, const struct cfi *cfi);

/* The same of a dso whose image was found; `cfi`: its unwind rules. `ret` must stay as long as the
 * result is used. */
struct runtime_image dso_runtime_image(struct dso *dso, const struct cfi *cfi,
                                       struct elf_runtime_image *ret);

#endif
