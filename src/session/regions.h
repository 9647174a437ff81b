/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions of an address space, sorted and without overlap, in a B+tree whose nodes are shared
 * between versions: a copy is one reference, a change copies the nodes on its path that somebody
 * else still sees. So a space of n mappings costs O(log n) a change however often it is looked
 * at in between, a fork costs nothing, and a lookup is two short searches in sorted words.
 *
 * One thread changes; what other threads hold a reference of never changes under them.
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
    /* A file's text which this anonymous mapping was put over (huge page remapping); NULL: none. */
    struct dso *under;
    uint64_t under_pgoff;
    const struct kernel_map *kernel; /* of a kernel region: the whole it is a piece of */
    bool anonymous;
    bool written; /* was writable before: its bytes need not be the file's (RELRO) */
};

/* What codemap lookups found out about a region, filled by whoever asks first: for [start, end),
 * which is all of it but for the rest of its outer pages. */
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

/* The region that holds `address`; NULL: none. Valid while the version it came from is held. */
struct region_slot *regions_find(struct regions r, uint64_t address);
/* The first region that ends behind `address`; NULL: none. */
struct region_slot *regions_next(struct regions r, uint64_t address);

/* Put a region in, cutting away what it overlaps. False when memory is out. */
bool regions_put(struct regions *r, const struct region *region);
/* Take out whatever stands in [start, end), cutting at both ends. */
bool regions_clear(struct regions *r, uint64_t start, uint64_t end);
/* The region that starts at `start`, to be changed (not its start); NULL when memory is out. */
struct region *regions_edit(struct regions *r, uint64_t start);

#endif
