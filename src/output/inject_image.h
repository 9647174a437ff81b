/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Places in managed functions and generated code, and the ELF images that give them addresses. Each
 * language and provenance has an image of its own, so that the module shows what is not proven.
 */
#ifndef OUTPUT_INJECT_IMAGE_H
#define OUTPUT_INJECT_IMAGE_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "unwind/arch.h"
#include "unwind/managed.h"

#include <stddef.h>
#include <stdint.h>

enum inject_language {
    INJECT_LUA,
    INJECT_JS,
    INJECT_WASM,
    INJECT_MANAGED,
    INJECT_CODE,
    INJECT_LANGUAGES
};
enum { INJECT_DOUBTS = 3, INJECT_IMAGES = INJECT_LANGUAGES * INJECT_DOUBTS };

/* A place. Two places are the same if all fields are equal. Strings are interned. */
struct inject_place {
    const char *symbol; /* for generated code; NULL: a managed function */
    const char *file;   /* for generated code; NULL: unknown */
    uint32_t function;  /* for a managed frame: function id; 0: not recorded */
    uint32_t line;      /* the line that executes; 0: unknown */
    uint8_t language, provenance;
};

struct inject_images;
/* `managed` gives the functions' names when the images are written. Returns NULL if memory is
 * out. */
struct inject_images *inject_images_create(struct managed_names *managed);
void inject_images_free(struct inject_images *all);

/* Get the place's number; a new place is added. Returns -1 if memory is out or there are too many
 * places. Only one thread may call it at a time. */
int inject_images_add(struct inject_images *all, const struct inject_place *place, uint32_t *ret,
                      struct error *err);
/* Give all places addresses and write the images into `folder`. The folder is made if there is
 * something to write. `arch`: the recording's machine; NULL: it is not known. */
int inject_images_write(struct inject_images *all, const struct arch *arch, const char *folder,
                        struct error *err);

/* Returns an address inside the place; the byte before it is inside the place, too. Call it after
 * inject_images_write(). */
uint64_t inject_images_address(const struct inject_images *all, uint32_t place);
struct inject_image {
    const char *path; /* absolute */
    uint64_t start, size;
    struct build_id build_id;
    size_t nr_functions, nr_places;
};
/* Returns the image of this index, from 0; NULL: there are no more. */
const struct inject_image *inject_images_at(const struct inject_images *all, size_t index);

#endif
