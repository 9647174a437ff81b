/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The heap of a VM, object by object, as `ljperf heap` counts it. A runtime that can list its
 * objects has one `struct census_heap` in its row (unwind/runtime.h); whoever counts them knows no
 * layout. All memory is read through struct memory, which should stand still: a heap that changes
 * while it is read is counted wrong, but every walk ends.
 */
#ifndef UNWIND_CENSUS_H
#define UNWIND_CENSUS_H

#include "base/table.h"
#include "unwind/runtime.h"

#include <stdbool.h>
#include <stdint.h>

enum census_type {
    CENSUS_STRING,
    CENSUS_TABLE,
    CENSUS_FUNCTION,   /* a closure of a function in the language */
    CENSUS_C_FUNCTION, /* a closure of a C function, or a builtin */
    CENSUS_UPVALUE,    /* a variable that closures share */
    CENSUS_PROTO,      /* the code of a function */
    CENSUS_THREAD,     /* a coroutine, with its stack */
    CENSUS_USERDATA,
    CENSUS_TRACE, /* what a JIT compiler knows of its machine code; not the machine code */
    CENSUS_CDATA, /* a value of LuaJIT's FFI */
    /* Of V8 only: */
    CENSUS_OBJECT,  /* a JavaScript object that is no function */
    CENSUS_ARRAY,   /* elements and properties of objects, hash tables, lists of V8's own */
    CENSUS_CONTEXT, /* variables that closures share */
    CENSUS_SHAPE,   /* V8's Map: which fields objects have */
    CENSUS_NUMBER,
    CENSUS_OTHER,
    CENSUS_TYPES
};

struct census_object {
    uint64_t address;
    uint64_t size;    /* bytes that the VM has allocated for it, with the arrays that it owns */
    uint8_t type;     /* enum census_type */
    uint16_t subtype; /* the runtime's own number of the type; 0 where there are none */
};

/* Memory that objects own outside of the VM's heap. */
struct census_outside {
    uint64_t nr, bytes;
};
enum { CENSUS_BUFFERS, CENSUS_STRINGS_OUTSIDE, CENSUS_OUTSIDES };

/* How an object refers to another one. */
enum census_link {
    CENSUS_FIELD,       /* a table's value; `key` is its key */
    CENSUS_KEY,         /* a table's key */
    CENSUS_METATABLE,   /* of a table or userdata */
    CENSUS_ENVIRONMENT, /* of a function, userdata or thread */
    CENSUS_CODE,        /* a closure's prototype */
    CENSUS_CLOSED,      /* a closure's upvalue, number `number` from 1 */
    CENSUS_VALUE,       /* an upvalue's or userdata's value */
    CENSUS_CONSTANT,    /* of a prototype or trace */
    CENSUS_SLOT,        /* a thread's stack slot, number `number` from 0 */
    CENSUS_ROOT,        /* the VM itself; `name` says what */
};

/* The key of a table's field. */
enum census_key { CENSUS_KEY_STRING, CENSUS_KEY_INTEGER, CENSUS_KEY_OTHER };

struct census_reference {
    uint64_t to;  /* address; there need not be an object */
    uint8_t link; /* enum census_link */
    uint8_t key;  /* of CENSUS_FIELD: enum census_key */
    bool is_weak; /* the collector does not follow it */
    int64_t number;
    uint64_t string;  /* of a key that is a string: its address */
    const char *name; /* of CENSUS_ROOT; static */
};

/* Return -1, and set the error, to end a listing. */
typedef int census_take_object(void *context, const struct census_object *o, struct error *err);
/* References are told even if nothing is at their address: whoever takes them knows the objects. */
typedef void census_take_reference(void *context, const struct census_reference *r);

/* How much of an object's description is wanted. */
enum {
    CENSUS_STRING_SHOWN = 60, /* bytes of a string */
    CENSUS_FIELDS_SHOWN = 8,  /* names of fields of a table */
    CENSUS_SHAPE_MAX = 32,    /* a table with more fields is a dictionary: its keys are data */
};

/* Texts that descriptions of objects share: where a prototype is defined, the class of a metatable.
 * Both are by address, and are allocated. */
struct census_names {
    struct table sites, classes;
};
void census_names_free(struct census_names *n);

/* The fields of a table, from which its description is made. */
struct census_fields {
    unsigned nr, others; /* others: fields whose keys are no strings */
    bool is_array;       /* it has elements */
    bool is_large;       /* it has more fields than CENSUS_SHAPE_MAX */
    uint64_t names[CENSUS_SHAPE_MAX];
};
/* Note a field; `name`: the address of its key, 0 for one that is no string. */
void census_fields_add(struct census_fields *f, uint64_t name);
/* Append the fields: {id, name}. `string` as below. */
void census_fields_put(const struct census_fields *f,
                       bool (*string)(void *heap, uint64_t address, size_t max, struct text *out),
                       void *heap, struct text *out);

struct census_heap {
    /* Find the VMs of the given instances, and append them; NULL: as the row's own find_vms. */
    int (*find)(const struct runtime_memory *m, const struct runtime_instance *at, size_t nr,
                runtime_vm_list *ret, struct error *err);
    /* Begin to read a VM's heap. `m` and `vm` stay valid until end(). Returns -1 if memory is out,
     * or if the heap cannot be listed (the error says why). */
    int (*begin)(const struct runtime_memory *m, const struct runtime_vm *vm, void **ret,
                 struct error *err);
    void (*end)(void *heap);
    /* Returns how many bytes the VM has allocated by its own count; 0: not known. Like own(), it is
     * called after objects(). */
    uint64_t (*total)(void *heap);
    /* Returns how many of them are no objects, as far as they are known: the VM's own tables, or
     * gaps between objects. `own_name`: what they are. */
    uint64_t (*own)(void *heap);
    const char *own_name;
    /* Returns the name of a subtype, which lives as long as the heap. NULL: there are none. */
    const char *(*subtype)(void *heap, unsigned subtype);
    /* Get what the objects own outside of the heap, after objects(). NULL: it is not known. */
    void (*outside)(void *heap, struct census_outside ret[CENSUS_OUTSIDES]);
    /* Get a number that strings with the same text have in common, and no others. Returns false:
     * the string is not compared. NULL: the VM has no string twice. */
    bool (*string_identity)(void *heap, const struct census_object *o, uint64_t *ret);
    /* Tell `take` of all objects, each once. Returns -1 if `take` failed, or if the list is broken
     * (the error says where; what was told is right). */
    int (*objects)(void *heap, census_take_object *take, void *context, struct error *err);
    /* Tell `take` of the references from which the collector begins. NULL: which objects are
     * reached is not known; references() is NULL, too. */
    void (*roots)(void *heap, census_take_reference *take, void *context);
    /* The same for references that only count where no way from the others leads to an object.
     * NULL: there are none. */
    void (*late_roots)(void *heap, census_take_reference *take, void *context);
    /* Tell `take` of the references of an object. */
    void (*references)(void *heap, const struct census_object *o, census_take_reference *take,
                       void *context);
    /* Append what an object is: a string's text in quotes, where a function is defined, a table's
     * class or the names of its fields in the order of the alphabet. Objects with the same text are
     * of one kind. Nothing: there is no more to say than its type. The bytes are the program's. */
    void (*describe)(void *heap, const struct census_object *o, struct text *out);
    /* Append the name of a closure's upvalue; `number`: from 1. Returns false: it has no name. */
    bool (*upvalue)(void *heap, uint64_t closure, unsigned number, struct text *out);
    const char *upvalue_name; /* what it is called; NULL: "upvalue" */
    /* Append a string's text, at most `max` bytes. Returns false: there is no string. */
    bool (*string)(void *heap, uint64_t address, size_t max, struct text *out);
};

#endif
