/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An ELF core file (the kernel's, or gdb's gcore): memory, threads' registers, mappings. Only data
 * from the core itself; session/core_process.h adds the files that were mapped.
 *
 * Layouts: PT_LOAD and PT_NOTE as in elf(5); NT_PRSTATUS is struct elf_prstatus; NT_FILE and
 * NT_AUXV as the kernel writes them (fs/binfmt_elf.c: fill_files_note); NT_SIGINFO is siginfo_t. 64
 * bits, little endian.
 */
#ifndef DSO_CORE_H
#define DSO_CORE_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the kernel said about a signal (siginfo_t, sigaction(2)). */
struct core_signal {
    uint32_t number; /* 0: none */
    int32_t code;    /* si_code */
    bool has_address;
    uint64_t address; /* si_addr: of the fault, or of the instruction */
    uint32_t sender;  /* si_pid of the process that sent it; 0: none, or not known */
};

/* Read a siginfo_t, of which `size` bytes are there. Returns false if that is too little. */
bool core_signal_read(const uint8_t *siginfo, size_t size, struct core_signal *ret);

struct core_thread {
    uint32_t tid;
    uint32_t signal; /* signal that stopped the thread; 0: none. In a kernel's core all threads have
                        that of the first */
    struct core_signal info; /* the thread's own; number 0: nothing more is known */
    struct registers registers;
};

enum { CORE_PROT_UNKNOWN = UINT32_MAX };

/* A mapping of the process. */
struct core_mapping {
    uint64_t start, end;
    uint64_t pgoff;   /* file offset of `start`, bytes */
    uint32_t prot;    /* PROT_*; CORE_PROT_UNKNOWN: the core holds none of its bytes */
    const char *file; /* as the process mapped it; "[vdso]"; NULL: anonymous */
    uint64_t page;    /* bytes of the process's pages, a power of two; 0: the core does not say */
};

/* Convert registers from the kernel's form, as cores and ptrace (NT_PRSTATUS) hold them: a word for
 * each of arch->nr_user_regs. */
void core_registers(const struct arch *arch, const uint8_t *user_regs, struct registers *ret);

struct core;

/* Open and check a core file. Errors: not a core file, another machine, damaged headers. */
int core_open(const char *path, struct core **ret, struct error *err);
void core_free(struct core *core);

/* Returns the pid of the process; 0: not in the core. */
uint32_t core_pid(const struct core *core);
/* Returns the name of the process's command, at most 15 bytes; "": not in the core. */
const char *core_command(const struct core *core);
/* Threads; the thread that the signal hit, or gcore's own choice, comes first. */
size_t core_nr_threads(const struct core *core);
const struct core_thread *core_thread(const struct core *core, size_t index);
/* Mappings sorted by address, without overlap. */
size_t core_nr_mappings(const struct core *core);
const struct core_mapping *core_mapping(const struct core *core, size_t index);

/* Returns the memory that was written to the core. A read may cross adjoining segments. Any thread
 * may use it. */
struct memory_layer core_memory(const struct core *core);
/* Read the build id of the ELF file whose first page is mapped at `start` from the core's memory:
 * the kernel and gcore write that page for this purpose. Returns false when it is not there. */
bool core_build_id(const struct core *core, uint64_t start, struct build_id *ret);

#endif
