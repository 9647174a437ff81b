/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pairs vmstacks with their samples: a vmstack belongs to the next sample of its CPU, if that
 * sample is of the same thread (and has the same user registers, as vmstack_open() checks). If a
 * ring is full, vmstacks and samples are lost independently. A recording's samples and a ring's are
 * paired by this. (perfdata/vmstack_times.c gives vmstacks their samples' times before that: in a
 * file's order the one is before the other, by their own times it may be behind.)
 */
#ifndef SESSION_VMSTACK_PAIRING_H
#define SESSION_VMSTACK_PAIRING_H

#include "base/vec.h"
#include "perfdata/perfdata.h"

/* The payload of the vmstack that came with a sample. */
struct vmstack_ref {
    const uint8_t *bytes; /* NULL: none */
    uint32_t size;
    bool owned; /* else `bytes` points into the record */
};

/* The last vmstack of a CPU, while it waits. */
struct vmstack_waiting {
    struct vmstack_ref copy;
    uint32_t tid;
};

/* The vmstacks that wait for their samples. All zeros: none. One thread at a time. */
struct vmstack_pairing {
    VEC(struct vmstack_waiting) cpus;
    size_t nr;     /* vmstacks that wait */
    uint64_t lost; /* vmstacks that found no sample */
};

/* Free what waits. The pairing is empty afterwards. */
void vmstack_pairing_free(struct vmstack_pairing *t);
/* Let the vmstack that is the payload of `s` wait. It points into the record until
 * vmstack_pairing_keep(). Returns -1 when out of memory. */
int vmstack_pairing_hold(struct vmstack_pairing *t, const struct sample *s, struct error *err);
/* Get the sample's vmstack, if one waits. *ret is not changed if none does; otherwise the caller
 * releases it. */
void vmstack_pairing_give(struct vmstack_pairing *t, const struct sample *s,
                          struct vmstack_ref *ret);
/* Copy the vmstacks that wait, so that they outlive their records. Returns -1 when out of
 * memory. */
int vmstack_pairing_keep(struct vmstack_pairing *t, struct error *err);
/* To be called at the end of the recording: drops the vmstacks that still wait. Returns how many
 * found no sample. */
uint64_t vmstack_pairing_end(struct vmstack_pairing *t);

/* Get the same vmstack for another sample. Returns -1 when out of memory. */
int vmstack_ref_share(const struct vmstack_ref *c, struct vmstack_ref *ret, struct error *err);
void vmstack_ref_release(struct vmstack_ref *c);

#endif
