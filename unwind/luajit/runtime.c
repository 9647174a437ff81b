/* SPDX-License-Identifier: GPL-2.0-only */
/* LuaJIT's row in the table of runtimes. See unwind/runtime.h. */
#include "unwind/luajit/runtime.h"
#include "unwind/luajit/discover.h"
#include "unwind/luajit/names_builtins.h"

#include <stdlib.h>

/* Find names of the library functions in the read-only bytes. */
static const struct luajit_builtins *find_builtins(const struct runtime_image *image)
{
    struct luajit_builtins *found = luajit_builtins_create();
    struct runtime_segment s;
    for (size_t i = 0; found && image->segment(image->context, i, &s); i++) {
        const uint8_t *bytes =
            s.writable || !s.size ? NULL : image->bytes(image->context, s.address, s.size);
        if (bytes)
            luajit_builtins_add(found, bytes, s.size);
    }
    return found;
}

static int discover(const struct runtime_image *image, void **ret, struct error *err)
{
    const struct luajit_image view = luajit_image_of(image);
    struct luajit_layout *layout = malloc(sizeof(*layout));
    if (!layout)
        return error_no_memory(err);
    int found = luajit_discover(&view, layout, err);
    if (found <= 0) {
        free(layout);
        return found;
    }
    if (image->stays)
        layout->builtins = find_builtins(image);
    *ret = layout;
    return 1;
}

static void layout_free(void *layout)
{
    struct luajit_layout *l = layout;
    luajit_builtins_free((struct luajit_builtins *)(uintptr_t)l->builtins);
    free(l);
}

static uint64_t code_start(const void *layout)
{
    return ((const struct luajit_layout *)layout)->blob;
}

const struct runtime luajit_runtime = {
    .name = "LuaJIT", .discover = discover, .layout_free = layout_free, .code_start = code_start};
