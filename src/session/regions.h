/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions of an address space, sorted and without overlap, in a B+tree whose nodes are shared
 * between versions. A copy takes one reference. A change copies only those nodes on its path that
 * another version still uses. So with n mappings a change costs O(log n), however often the space
 * is looked at in between; a fork costs nothing; and a lookup is two short searches in sorted
 * words.
 *
 * One thread changes a tree. A version that other threads hold a reference to never changes.
 */
#ifndef SESSION_REGIONS_H
#define SESSION_REGIONS_H

#include "session/session.h"

#include <stdatomic.h>

struct kernel_map;

struct region {
    struct mapping map;
    const char *name; /* as recorded, interned */
    uint64_t inode;   /* 0: not recorded */
    /* The file whose text this anonymous mapping replaced (huge page remapping); NULL: none. */
    struct dso *under;
    uint64_t under_pgoff;
    const struct kernel_map *kernel; /* the whole mapping that a kernel region is a piece of */
    bool anonymous;
    bool written; /* was writable before, so its bytes may differ from the file's (RELRO) */
};

/* What codemap lookups found out about a region; the first lookup fills it. It holds for [start,
 * end), which is the whole region except for the rest of its outer pages. */
struct region_code {
    _Atomic uint32_t ready;
    _Atomic uint64_t start, end, bias;
    const struct cfi *_Atomic cfi;
};

struct region_slot {
    struct region region;
    struct region_code code;
};

struct regions_node;
struct regions {
    struct regions_node *root; /* NULL: empty */
};

struct regions regions_share(struct regions r);
void regions_release(struct regions *r);

/* Returns the region that contains `address`; NULL: none. It is valid while the caller holds the
 * version that it came from. */
struct region_slot *regions_find(struct regions r, uint64_t address);
/* Returns the first region that ends above `address`; NULL: none. Valid likewise. */
struct region_slot *regions_next(struct regions r, uint64_t address);

/* Insert a region and cut away whatever it overlaps. Returns false when out of memory. */
bool regions_put(struct regions *r, const struct region *region);
/* Remove everything in [start, end); regions that cross an end are cut there. */
bool regions_clear(struct regions *r, uint64_t start, uint64_t end);
/* Returns the region that starts at `start`, to be changed (but not its start); NULL when out of
 * memory. */
struct region *regions_edit(struct regions *r, uint64_t start);

#endif
