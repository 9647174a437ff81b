/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Places in managed functions and generated code, and the ELF images in which they get addresses:
 * one image for each language and provenance, so that what is not proven can be told by the module.
 */
#ifndef OUTPUT_INJECT_IMAGE_H
#define OUTPUT_INJECT_IMAGE_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "unwind/managed.h"

#include <stddef.h>
#include <stdint.h>

enum inject_language { INJECT_LUA, INJECT_JS, INJECT_WASM, INJECT_CODE, INJECT_LANGUAGES };
enum { INJECT_DOUBTS = 3, INJECT_IMAGES = INJECT_LANGUAGES * INJECT_DOUBTS };

/* A place: two are the same when all is equal; strings are interned. */
struct inject_place {
    const char *symbol; /* of generated code; NULL: a managed function */
    const char *file;   /* of generated code; NULL: not known */
    uint32_t function;  /* of a managed frame: its id; 0: not recorded */
    uint32_t line;      /* that executes; 0: not known */
    uint8_t language, provenance;
};

struct inject_images;
/* `managed` names functions once all is known. NULL when memory is out. */
struct inject_images *inject_images_create(struct managed_names *managed);
void inject_images_free(struct inject_images *all);

/* The place's number. -1: memory is out, or there are too many. One thread at a time. */
int inject_images_add(struct inject_images *all, const struct inject_place *place, uint32_t *ret,
                      struct error *err);
/* Give all places addresses and write the images into `folder`, which is made when there is
 * something to write. */
int inject_images_write(struct inject_images *all, const char *folder, struct error *err);

/* After that: an address inside the place, whose predecessor is inside, too. */
uint64_t inject_images_address(const struct inject_images *all, uint32_t place);
struct inject_image {
    const char *path; /* absolute */
    uint64_t start, size;
    struct build_id build_id;
    size_t nr_functions, nr_places;
};
/* Index from 0; NULL: no more. */
const struct inject_image *inject_images_at(const struct inject_images *all, size_t index);

#endif
