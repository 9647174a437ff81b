/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loads capstone when something is disassembled for the first time. Walking stacks does not need
 * it, and its tables would cost 2 ms at every start of the program: 80,000 pointers in them are
 * relocated. This file defines capstone's functions under their own names. Without the library no
 * disassembler can be opened.
 *
 * The only variable says where the library is in the process. There is one, as there is one
 * process.
 */
#include <capstone/capstone.h>
#include <dlfcn.h>
#include <pthread.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static struct {
    pthread_once_t once;
    __typeof__(cs_open) *open;
    __typeof__(cs_option) *option;
    __typeof__(cs_malloc) *malloc;
    __typeof__(cs_disasm_iter) *iterate;
    __typeof__(cs_free) *free;
    __typeof__(cs_close) *close;
} library = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    void *handle = dlopen("libcapstone.so." TEXT(CS_API_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return;
    library.option = (__typeof__(cs_option) *)dlsym(handle, "cs_option");
    library.malloc = (__typeof__(cs_malloc) *)dlsym(handle, "cs_malloc");
    library.iterate = (__typeof__(cs_disasm_iter) *)dlsym(handle, "cs_disasm_iter");
    library.free = (__typeof__(cs_free) *)dlsym(handle, "cs_free");
    library.close = (__typeof__(cs_close) *)dlsym(handle, "cs_close");
    if (library.option && library.malloc && library.iterate && library.free && library.close)
        library.open = (__typeof__(cs_open) *)dlsym(handle, "cs_open");
}

cs_err cs_open(cs_arch arch, cs_mode mode, csh *handle)
{
    pthread_once(&library.once, load);
    return library.open ? library.open(arch, mode, handle) : CS_ERR_ARCH;
}

/* The other functions are called with the handle from cs_open. */

cs_err cs_option(csh handle, cs_opt_type type, size_t value)
{
    return library.option(handle, type, value);
}

cs_insn *cs_malloc(csh handle)
{
    return library.malloc(handle);
}

bool cs_disasm_iter(csh handle, const uint8_t **code, size_t *size, uint64_t *address,
                    cs_insn *insn)
{
    return library.iterate(handle, code, size, address, insn);
}

void cs_free(cs_insn *insn, size_t count)
{
    library.free(insn, count);
}

cs_err cs_close(csh *handle)
{
    return library.close(handle);
}
