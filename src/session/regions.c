/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Full nodes are split on the way down, so an insertion that runs out of memory leaves a valid
 * tree. Nodes are not merged, only freed when they are empty. Each node was filled by as many
 * insertions as half a node holds, so the number of nodes is bounded by the input's.
 */
#include "session/regions.h"

#include <stdlib.h>
#include <string.h>

enum { FANOUT = 32, DEPTH_MAX = 24 };

/* key[i] is the smallest start under child i. It must not be smaller: a region that ends above
 * key[i] could then be under child i - 1. */
struct regions_node {
    _Atomic uint32_t refs;
    uint16_t nr;
    bool leaf;
    uint64_t key[FANOUT];
};

struct leaf {
    struct regions_node node;
    struct region_slot slot[FANOUT];
};

struct inner {
    struct regions_node node;
    struct regions_node *child[FANOUT];
};

static struct leaf *as_leaf(struct regions_node *n)
{
    return (struct leaf *)n;
}

static struct inner *as_inner(struct regions_node *n)
{
    return (struct inner *)n;
}

static struct regions_node *node_create(bool leaf)
{
    struct regions_node *n = malloc(leaf ? sizeof(struct leaf) : sizeof(struct inner));
    if (!n)
        return NULL;
    atomic_init(&n->refs, 1);
    n->nr = 0;
    n->leaf = leaf;
    return n;
}

static void node_release(struct regions_node *n)
{
    if (!n || atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned i = 0; !n->leaf && i < n->nr; i++)
        node_release(as_inner(n)->child[i]);
    free(n);
}

struct regions regions_share(struct regions r)
{
    if (r.root)
        atomic_fetch_add_explicit(&r.root->refs, 1, memory_order_relaxed);
    return r;
}

void regions_release(struct regions *r)
{
    node_release(r->root);
    r->root = NULL;
}

static void slot_set(struct region_slot *to, const struct region *region)
{
    to->region = *region;
    atomic_init(&to->code.ready, 0);
}

/* Copy a slot, whose code other threads may be filling. */
static void slot_copy(struct region_slot *to, struct region_slot *from)
{
    slot_set(to, &from->region);
    if (atomic_load_explicit(&from->code.ready, memory_order_acquire) != 1)
        return;
    atomic_init(&to->code.start, atomic_load_explicit(&from->code.start, memory_order_relaxed));
    atomic_init(&to->code.end, atomic_load_explicit(&from->code.end, memory_order_relaxed));
    atomic_init(&to->code.bias, atomic_load_explicit(&from->code.bias, memory_order_relaxed));
    atomic_init(&to->code.cfi, atomic_load_explicit(&from->code.cfi, memory_order_relaxed));
    atomic_init(&to->code.ready, 1);
}

/* The children of `from`, from `first` on, become shared with `to`. */
static void node_copy(struct regions_node *to, struct regions_node *from, unsigned first)
{
    to->nr = (uint16_t)(from->nr - first);
    memcpy(to->key, from->key + first, to->nr * sizeof(to->key[0]));
    for (unsigned i = 0; i < to->nr; i++) {
        if (from->leaf)
            slot_copy(&as_leaf(to)->slot[i], &as_leaf(from)->slot[first + i]);
        else
            as_inner(to)->child[i] = as_inner(from)->child[first + i];
    }
}

/* Make *at a node that no other version uses. */
static bool node_own(struct regions_node **at)
{
    struct regions_node *n = *at;
    if (atomic_load_explicit(&n->refs, memory_order_acquire) == 1)
        return true;
    struct regions_node *copy = node_create(n->leaf);
    if (!copy)
        return false;
    node_copy(copy, n, 0);
    for (unsigned i = 0; !n->leaf && i < n->nr; i++)
        atomic_fetch_add_explicit(&as_inner(n)->child[i]->refs, 1, memory_order_relaxed);
    *at = copy;
    node_release(n);
    return true;
}

/* Returns how many keys are at most `address`. */
static inline unsigned node_rank(const struct regions_node *n, uint64_t address)
{
    const uint64_t *base = n->key;
    unsigned left = n->nr;
    while (left > 1) {
        unsigned half = left / 2;
        base += base[half - 1] <= address ? half : 0;
        left -= half;
    }
    return (unsigned)(base - n->key) + (left && *base <= address);
}

static inline unsigned child_index(const struct regions_node *n, uint64_t address)
{
    unsigned rank = node_rank(n, address);
    return rank ? rank - 1 : 0;
}

struct region_slot *regions_find(struct regions r, uint64_t address)
{
    struct regions_node *n = r.root;
    if (!n)
        return NULL;
    while (!n->leaf)
        n = as_inner(n)->child[child_index(n, address)];
    unsigned rank = node_rank(n, address);
    if (rank == 0)
        return NULL;
    struct region_slot *s = &as_leaf(n)->slot[rank - 1];
    return address < s->region.map.end ? s : NULL;
}

static struct region_slot *next_under(struct regions_node *n, uint64_t address)
{
    if (!n->leaf) {
        struct region_slot *found = NULL;
        for (unsigned i = child_index(n, address); !found && i < n->nr; i++)
            found = next_under(as_inner(n)->child[i], address);
        return found;
    }
    unsigned rank = node_rank(n, address);
    if (rank && address < as_leaf(n)->slot[rank - 1].region.map.end)
        return &as_leaf(n)->slot[rank - 1];
    return rank < n->nr ? &as_leaf(n)->slot[rank] : NULL;
}

struct region_slot *regions_next(struct regions r, uint64_t address)
{
    return r.root ? next_under(r.root, address) : NULL;
}

static void child_insert(struct inner *in, unsigned at, struct regions_node *child)
{
    unsigned behind = in->node.nr - at;
    memmove(&in->node.key[at + 1], &in->node.key[at], behind * sizeof(in->node.key[0]));
    for (unsigned i = in->node.nr; i > at; i--)
        in->child[i] = in->child[i - 1];
    in->node.key[at] = child->key[0];
    in->child[at] = child;
    in->node.nr++;
}

static void child_remove(struct inner *in, unsigned at)
{
    unsigned behind = --in->node.nr - at;
    memmove(&in->node.key[at], &in->node.key[at + 1], behind * sizeof(in->node.key[0]));
    for (unsigned i = at; i < in->node.nr; i++)
        in->child[i] = in->child[i + 1];
}

/* `in` and its full child `at` belong to this version alone, and `in` has room. */
static bool child_split(struct inner *in, unsigned at)
{
    struct regions_node *left = in->child[at];
    struct regions_node *right = node_create(left->leaf);
    if (!right)
        return false;
    node_copy(right, left, FANOUT / 2);
    left->nr = FANOUT / 2;
    child_insert(in, at + 1, right);
    return true;
}

static bool root_grow(struct regions *r)
{
    struct regions_node *root = node_create(false);
    if (!root)
        return false;
    child_insert(as_inner(root), 0, r->root);
    r->root = root;
    return true;
}

/* Returns the leaf for `start`; it belongs to this version alone and has room. NULL when out of
 * memory. */
static struct leaf *leaf_for(struct regions *r, uint64_t start)
{
    if (!r->root && !(r->root = node_create(true)))
        return NULL;
    if (!node_own(&r->root) || (r->root->nr == FANOUT && !root_grow(r)))
        return NULL;
    struct regions_node *n = r->root;
    while (!n->leaf) {
        struct inner *in = as_inner(n);
        unsigned at = child_index(n, start);
        if (start < n->key[0])
            n->key[0] = start;
        if (!node_own(&in->child[at]) || (in->child[at]->nr == FANOUT && !child_split(in, at)))
            return NULL;
        n = in->child[child_index(n, start)];
    }
    return as_leaf(n);
}

static bool insert(struct regions *r, const struct region *region)
{
    struct leaf *l = leaf_for(r, region->map.start);
    if (!l)
        return false;
    unsigned at = node_rank(&l->node, region->map.start);
    memmove(&l->node.key[at + 1], &l->node.key[at], (l->node.nr - at) * sizeof(l->node.key[0]));
    for (unsigned i = l->node.nr; i > at; i--)
        slot_copy(&l->slot[i], &l->slot[i - 1]);
    l->node.key[at] = region->map.start;
    slot_set(&l->slot[at], region);
    l->node.nr++;
    return true;
}

/* The path down to a region, through nodes that belong to this version alone. */
struct path {
    struct regions_node *node[DEPTH_MAX];
    unsigned index[DEPTH_MAX]; /* of the child (in the leaf, the slot) that was taken */
    unsigned depth;
};

static bool path_own(struct regions *r, uint64_t start, struct path *p)
{
    p->depth = 0;
    for (struct regions_node **at = &r->root;;) {
        if (p->depth == DEPTH_MAX || !node_own(at))
            return false;
        struct regions_node *n = *at;
        unsigned index = child_index(n, start);
        p->node[p->depth] = n;
        p->index[p->depth++] = index;
        if (n->leaf)
            return true;
        at = &as_inner(n)->child[index];
    }
}

/* Free the nodes at the path's end that have become empty, and update the keys of the nodes
 * above. */
static void path_repair(struct regions *r, struct path *p)
{
    while (p->depth > 1 && p->node[p->depth - 1]->nr == 0) {
        node_release(p->node[--p->depth]);
        child_remove(as_inner(p->node[p->depth - 1]), p->index[p->depth - 1]);
    }
    for (unsigned d = p->depth - 1; d > 0; d--)
        p->node[d - 1]->key[p->index[d - 1]] = p->node[d]->key[0];
    if (r->root->nr == 0)
        regions_release(r);
}

static bool take_out(struct regions *r, uint64_t start)
{
    struct path p;
    if (!path_own(r, start, &p))
        return false;
    struct leaf *l = as_leaf(p.node[p.depth - 1]);
    unsigned at = p.index[p.depth - 1];
    l->node.nr--;
    memmove(&l->node.key[at], &l->node.key[at + 1], (l->node.nr - at) * sizeof(l->node.key[0]));
    for (unsigned i = at; i < l->node.nr; i++)
        slot_copy(&l->slot[i], &l->slot[i + 1]);
    path_repair(r, &p);
    return true;
}

struct region *regions_edit(struct regions *r, uint64_t start)
{
    struct path p;
    if (!path_own(r, start, &p))
        return NULL;
    struct region_slot *slot = &as_leaf(p.node[p.depth - 1])->slot[p.index[p.depth - 1]];
    atomic_init(&slot->code.ready, 0);
    return &slot->region;
}

/* Returns the rest of `old` from `start` on. */
static struct region cut_front(const struct region *old, uint64_t start)
{
    struct region piece = *old;
    piece.map.start = start;
    piece.map.pgoff += start - old->map.start;
    piece.under_pgoff += start - old->map.start;
    return piece;
}

/* Cut one region that overlaps [start, end). */
static bool cut(struct regions *r, const struct region *old, uint64_t start, uint64_t end)
{
    if (old->map.start < start) {
        struct region *front = regions_edit(r, old->map.start);
        if (!front)
            return false;
        front->map.end = start; /* its code is looked up again: see regions_edit */
    } else if (!take_out(r, old->map.start)) {
        return false;
    }
    if (old->map.end <= end)
        return true;
    struct region back = cut_front(old, end);
    return insert(r, &back);
}

bool regions_clear(struct regions *r, uint64_t start, uint64_t end)
{
    for (;;) {
        struct region_slot *s = regions_next(*r, start);
        if (!s || s->region.map.start >= end)
            return true;
        struct region old = s->region;
        if (!cut(r, &old, start, end))
            return false;
    }
}

bool regions_put(struct regions *r, const struct region *region)
{
    return regions_clear(r, region->map.start, region->map.end) && insert(r, region);
}
