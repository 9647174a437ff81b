/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loading an eBPF program into the kernel, and why the kernel would not have it. "Operation not
 * permitted" has half a dozen causes, each with another cure, and the verifier's refusals are no
 * matter of permission at all: each is told apart, and told by its own name.
 */
#ifndef CAPTURE_BPF_LOAD_H
#define CAPTURE_BPF_LOAD_H

#include "base/error.h"

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stddef.h>

/* A compiled object with one program, which is named as the object. */
struct bpf_image {
    const char *name;
    const void *bytes;
    size_t size;
};

/* Give the maps of an opened object their sizes and values. */
typedef int (*bpf_configure)(void *context, struct bpf_object *object, struct error *err);

struct bpf_loaded {
    struct bpf_object *object; /* the caller's: bpf_object__close() */
    int program;               /* its descriptor, the object's */
    unsigned instructions;     /* that the verifier went through; 0: the kernel does not say */
};

/* Load it. `configure` may be NULL. Errors: ERROR_UNSUPPORTED: the verifier refuses the program,
 * with the line that says why; ERROR_SYSTEM: something else refuses it (bpf_refused). */
int bpf_load(const struct bpf_image *image, bpf_configure configure, void *context,
             struct bpf_loaded *ret, struct error *err);

/* A call for eBPF failed with `why` (an errno), and no verifier said anything: set `err`
 * (ERROR_SYSTEM) to what stands in the way here, and its cure. `what`: what was tried. Returns -1.
 */
int bpf_refused(int why, const char *what, struct error *err);

/* Whether the kernel's own memory may be read by eBPF programs: not when it is locked down with the
 * word "confidentiality". */
bool bpf_may_read_kernel(void);

#endif
