/* SPDX-License-Identifier: GPL-2.0-only */
/* The internals of ELF images: opening them and reading their headers. */
#ifndef DSO_ELF_IMAGE_H
#define DSO_ELF_IMAGE_H

#include "dso/dso.h"

#include <pthread.h>

/* A section header in our byte order, for both ELF classes. */
struct elf_shdr {
    const char *name; /* "" when the file has no usable names */
    uint32_t type, link, info;
    uint64_t flags, addr, offset, size, entsize;
};

struct elf_phdr {
    uint32_t type, flags;
    uint64_t offset, vaddr, filesz, memsz;
};

struct elf_tables {
    struct elf_shdr *sections;
    struct elf_phdr *segments;
    uint32_t nr_sections, nr_segments;
    pthread_mutex_t lock;         /* protects `inflated` */
    struct elf_section *inflated; /* [nr_sections] decompressed copies, made at first use */
    uint8_t *inflate_state;       /* [nr_sections] 0: not tried, 1: done, 2: damaged */
    bool mapped;                  /* true: the bytes are mmapped; false: malloced */
};

/* Map a regular file and read its headers. */
int elf_image_open(const char *path, struct elf_image **ret, struct error *err);
/* The same for a regular file that is open (base/other_file.h), and that is called `path` in
 * messages. The descriptor is closed, on failure too; -1: there is no regular file. */
int elf_image_take(const char *path, int fd, struct elf_image **ret, struct error *err);
/* Like elf_image_open(), for malloced bytes in memory. The image owns the bytes from then on; they
 * are freed on failure too. */
int elf_image_adopt(const char *path, uint8_t *bytes, size_t size, struct elf_image **ret,
                    struct error *err);
void elf_image_free(struct elf_image *image);
/* Did somebody cut the file short while it was read? What was read since may be zero. */
bool elf_image_was_cut(const struct elf_image *image);

/* Is there a section of that name with bytes in it? Decompresses nothing. */
bool elf_image_has(const struct elf_image *image, const char *name);
/* Get a section by index; otherwise like elf_image_section(). */
bool elf_image_section_at(const struct elf_image *image, uint32_t index, struct elf_section *ret);
/* Does the file hold all bytes of the segment that its header promises? */
bool elf_image_holds(const struct elf_image *image, const struct elf_phdr *segment);
/* Convert a file offset to a virtual address by PT_LOAD. Returns false when it is in none. */
bool elf_image_offset_to_vaddr(const struct elf_image *image, uint64_t offset, uint64_t *vaddr);
/* Get the offsets [first, end) around `offset` that are in the same segment: all are converted by
 * adding the same. Returns false when it is in none. */
bool elf_image_loaded_around(const struct elf_image *image, uint64_t offset, uint64_t *first,
                             uint64_t *end);

bool build_id_equal(const struct build_id *a, const struct build_id *b);

/* Returns the ELF file of more symbols in .gnu_debugdata (xz stream); NULL: none or damaged. */
struct elf_image *elf_image_minidebuginfo(const struct elf_image *image);

#endif
