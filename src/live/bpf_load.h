/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load an eBPF program into the kernel, and explain why the kernel refused it. "Operation not
 * permitted" has half a dozen causes, each with a different cure, and a refusal by the verifier is
 * not a question of permission at all. Each cause gets its own error message.
 */
#ifndef LIVE_BPF_LOAD_H
#define LIVE_BPF_LOAD_H

#include "base/error.h"

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stddef.h>

/* Programs in a compiled object. Others of the object are not loaded. */
struct bpf_image {
    const char *name; /* of the program */
    const void *bytes;
    size_t size;
    const char *const *more; /* names of further programs; ended by NULL. NULL: there are none */
    int attach_type; /* enum bpf_attach_type of the program; 0: that which its section names */
};

/* Set the sizes and values of the maps of an opened object. */
typedef int (*bpf_configure)(void *context, struct bpf_object *object, struct error *err);

struct bpf_loaded {
    struct bpf_object *object; /* owned by the caller: bpf_object__close() */
    int program;               /* descriptor of the program; owned by `object` */
    unsigned instructions;     /* that the verifier processed; 0: the kernel does not report them */
};

/* Load `image`. `configure` may be NULL. Errors: ERROR_UNSUPPORTED: the verifier refuses the
 * program, with the line of its log that gives the reason; ERROR_SYSTEM: something else refuses the
 * program (see bpf_refused). */
int bpf_load(const struct bpf_image *image, bpf_configure configure, void *context,
             struct bpf_loaded *ret, struct error *err);

/* Explain why a call for eBPF failed with errno `why` without a message from the verifier: set
 * `err` (ERROR_SYSTEM) to the obstacle on this machine and its cure. `what`: the operation that was
 * tried. Returns -1. */
int bpf_refused(int why, const char *what, struct error *err);

/* Whether eBPF programs may read kernel memory: not when the kernel is locked down in the mode
 * "confidentiality". */
bool bpf_may_read_kernel(void);

/* Whether a map that another process has created can be used only with CAP_BPF: before Linux 5.19,
 * or where the version is not known. */
bool bpf_maps_need_capability(void);

/* Whether a program can be linked to a probe with a word of its own: since Linux 5.15, or where the
 * version is not known. */
bool bpf_has_cookies(void);

#endif
