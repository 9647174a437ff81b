/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A runtime: an implementation of a managed language. All that the program knows of one is in the
 * runtime's own folder below unwind/, and reaches the rest through one `struct runtime`. The table
 * `runtimes` has a row for each (unwind/runtimes/table.c). docs/adding.md adds one, step by step.
 */
#ifndef UNWIND_RUNTIME_H
#define UNWIND_RUNTIME_H

#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"
#include "unwind/unwind.h"
#include "unwind/variable.h"
#include "unwind/walker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- finding a runtime in a file --------------------------------------------------------- */

/* A loaded segment of an ELF file, as far as its bytes are in the file. Addresses are the file's
 * own (vaddr). */
struct runtime_segment {
    uint64_t address, size;
    bool executable, writable;
};

/* One symbol table, as it stands in the file: `nr` entries of the type Elf64_Sym, of which the
 * first `nr_local` are local ones (a .dynsym has `nr_local` == `nr`: its order says nothing).
 * `strings` ends with a zero byte; no name's offset has been checked. */
struct runtime_symbols {
    const uint8_t *entries;
    size_t nr, nr_local;
    const char *strings;
    size_t strings_size; /* bytes */
};

/* An ELF file of this machine's byte order, as discovery sees it. */
struct runtime_image {
    const char *name; /* for messages */
    bool stays; /* bytes and names live as long as the layout that is made of them; false: only
                   during the call, so the layout may not refer to them */
    const struct cfi *cfi; /* the file's unwind rules; NULL: it has none */
    /* Returns `size` bytes at an address; NULL: they are not in the file. */
    const uint8_t *(*bytes)(void *context, uint64_t address, size_t size);
    /* Get the address of an exported symbol. Returns false: it is not exported. */
    bool (*exported)(void *context, const char *name, uint64_t *address);
    /* Get the index-th loaded segment. Returns false: no more. */
    bool (*segment)(void *context, size_t index, struct runtime_segment *ret);
    /* Returns the word at an address as the loader leaves it (relocated); 0: there is none. */
    uint64_t (*word)(void *context, uint64_t address);
    /* Get the symbol tables: .dynsym, .symtab, the debug file's .symtab. Tables that do not exist
     * have nr 0. Opens the debug file if the file itself has no .symtab. */
    void (*symbols)(void *context, struct runtime_symbols ret[static 3]);
    void *context;
};

/* What a VM does, if it is known beside the frames. */
enum runtime_activity {
    RUNTIME_IN_UNKNOWN, /* not known, or a trace */
    RUNTIME_IN_INTERPRETER,
    RUNTIME_IN_C,
    RUNTIME_IN_GC,
    RUNTIME_IN_EXIT, /* leaves a trace */
    RUNTIME_IN_RECORDER,
    RUNTIME_IN_OPTIMIZER,
    RUNTIME_IN_ASSEMBLER,
};

/* ---- a runtime in a process -------------------------------------------------------------- */

/* Where a runtime is mapped. */
enum { RUNTIME_INSTANCES_MAX = 8 }; /* of one runtime in one process */
struct runtime;
struct runtime_instance {
    const struct runtime *runtime;
    const void *layout;
    uint64_t bias;       /* address in the process minus address in the file */
    uint64_t start, end; /* the executable mapping of the file */
};

/* A VM: one interpreter with its objects. */
struct runtime_vm {
    uint64_t address;                        /* of the VM's central structure */
    const struct runtime_instance *instance; /* the code that runs it; NULL: not known */
};
typedef VEC(struct runtime_vm) runtime_vm_list;

/* All memory of a process that may hold VMs and their objects. */
struct runtime_memory {
    const struct memory *memory;
    const struct memory_range *writable,
        *anonymous; /* anonymous: of no file, whatever its rights */
    size_t nr_writable, nr_anonymous;
};

/* Lists of a process's objects that were made when its memory was read as a whole (a snapshot). */
enum runtime_list {
    RUNTIME_LIST_VMS,       /* addresses of VMs; there is no key */
    RUNTIME_LIST_BLOCKS,    /* the object whose memory has the address `key` */
    RUNTIME_LIST_FUNCTIONS, /* functions by the address of their code object */
};

typedef int runtime_add_object(void *context, enum runtime_list list, uint64_t key, uint64_t size,
                               uint64_t value, struct error *err);

/* What is known about the process of one sample. */
struct runtime_sample {
    uint32_t pid;
    uint64_t batch; /* the recording's batch, for managed_propose_name() */
    /* Get where a runtime is mapped, up to RUNTIME_INSTANCES_MAX times. The first call may open all
     * files of the process: a walker asks only when it meets memory that no file owns. */
    const struct runtime_instance *(*instances)(void *context, const struct runtime *rt,
                                                size_t *nr);
    /* Get up to `max` entries of a list. Returns how many. NULL: there is no snapshot. With one,
     * memory of the process is known, but from other moments. */
    size_t (*find)(void *context, enum runtime_list list, uint64_t key, uint64_t *ret, size_t max);
    void *context;
    /* VMs that are known. With `has_vmstack` they came with the sample, and the recorder has
     * checked them. */
    const struct runtime_vm *vms;
    size_t nr_vms;
    bool has_vmstack;
    bool has_running_vm; /* the vmstack holds the stack of the VM that ran */
    bool no_objects;     /* nothing of the heap was recorded */
    bool reads_anew;     /* no frames are taken over from other samples' walks */
    bool awaits;         /* emit the functions that await the result (TIER_ASYNC), too */
    /* The walker notes here where the variables of its frames are (variable.h). NULL: nobody asks.
     */
    struct variable_places *places;
};

/* ---- a row ------------------------------------------------------------------------------- */

struct managed_names;
struct census_heap;
struct runtime {
    const char *name; /* as messages call it: "LuaJIT" */

    /* Returns whether a file may hold the runtime, by a test that costs less than discovery. NULL:
     * discovery itself is fast enough. */
    bool (*may_hold)(const struct runtime_image *image);
    /* Find the runtime in a file. Returns 1 and its layout; 0: the file has none; -1: it has one
     * whose layout cannot be read, and the error says what is missing. */
    int (*discover)(const struct runtime_image *image, void **layout, struct error *err);
    void (*layout_free)(void *layout);
    /* Returns the address in the file where the runtime's own code begins: only the mapping that
     * holds it is the runtime's. NULL: any executable mapping of the file will do. */
    uint64_t (*code_start)(const void *layout);

    /* Describe a layout to a person, beginning with the runtime's name and version, in whole lines:
     * each value, and what told it. `image`: the file, for evidence that discovery does not need;
     * NULL: it is not there. */
    void (*describe)(const void *layout, const struct runtime_image *image, struct text *out);
    /* Describe a VM that find_vms() found. NULL if that is NULL. */
    void (*describe_vm)(const struct memory *m, const struct runtime_vm *vm, struct text *out);
    /* Returns the name of a relative that the file's text tells and that is not supported; NULL:
     * none. Reads all of the file's constants. May be NULL. */
    const char *(*relative)(const struct runtime_image *image);

    /* Create what one of our threads keeps from sample to sample: names, caches. `has_log`: samples
     * come with a memory log. Returns NULL when memory is out. */
    void *(*tables_create)(struct managed_names *managed, bool has_log);
    void (*tables_free)(void *tables); /* `tables` may be NULL */

    /* Find the VMs of the given instances, and append them. Returns -1 when memory is out. NULL:
     * walks need not know the VMs. */
    int (*find_vms)(const struct runtime_memory *m, const struct runtime_instance *at, size_t nr,
                    runtime_vm_list *ret, struct error *err);
    /* Tell `add` of all objects that lists have (enum runtime_list): of a block, `key` is its
     * address and `size` its bytes; of a function, `key` is its code object and `value` the
     * function. `vms` are those of the instance. Returns -1 when memory is out, or `add` failed.
     * NULL: there are no lists. */
    int (*list_objects)(const struct runtime_memory *m, const struct runtime_instance *at,
                        const struct runtime_vm *vms, size_t nr_vms, runtime_add_object *add,
                        void *context, struct error *err);

    /* Begin the walk of one sample in `walk`, memory of `walk_size` bytes that were zero before the
     * first walk, and get its walker. All
     * that is given stays valid until the walk has ended. */
    void (*walk_begin)(void *walk, void *tables, const struct runtime_sample *s,
                       struct walker *ret);
    size_t walk_size;
    /* Free what a walk's memory owns, which is kept from walk to walk. NULL: nothing. */
    void (*walk_free)(void *walk);
    /* The walk comes into memory that no file owns: look up where the runtime is mapped. Called at
     * most once a walk, before the walker is asked about such code. NULL: the runtime generates no
     * code. */
    void (*look_up)(void *walk);
    /* Returns what the VM of the innermost managed frame did at the sample, an enum
     * runtime_activity. Called after the walk. NULL: it is never known. */
    uint8_t (*activity)(const void *walk);
    /* Add the variables of a frame to `ret`, which is empty: `at` is the place that this walk has
     * noted for it. `m` is the walk's memory. What cannot be read is said (variable_set_unknown,
     * `ret->unknown`). Returns -1 when memory is out. NULL: the runtime tells no variables. */
    int (*variables)(void *walk, const struct memory *m, const struct variable_place *at,
                     struct variables *ret);

    /* Lists the objects of a VM (unwind/census.h). NULL: the runtime does not tell them. */
    const struct census_heap *census;
};

/* All runtimes. The order is the order in which walkers are asked. */
enum { RUNTIMES_MAX = 8 };
extern const struct runtime *const runtimes[];
extern const size_t nr_runtimes; /* at most RUNTIMES_MAX */

/* Returns the runtime's number in the table. It must be in it. */
size_t runtime_index(const struct runtime *rt);

#endif
