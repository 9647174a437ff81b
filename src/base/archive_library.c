/* SPDX-License-Identifier: GPL-2.0-only */
/* See archive_library.h. */
#include "base/archive_library.h"

#include <dlfcn.h>
#include <stdbool.h>

#define LOAD(name)                                    \
    *(void **)&lib->name = dlsym(lib->handle, #name); \
    whole &= lib->name != NULL;

int archive_library_load(struct archive_library *lib, struct error *err)
{
    bool whole = true;
    lib->handle = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle)
        return error_set(err, ERROR_UNSUPPORTED, "libarchive cannot be loaded: %s", dlerror());
    ARCHIVE_FUNCTIONS(LOAD)
    return whole ? 0 : error_set(err, ERROR_UNSUPPORTED, "libarchive is too old");
}

void archive_library_close(struct archive_library *lib)
{
    if (lib->handle)
        dlclose(lib->handle);
    lib->handle = NULL;
}
