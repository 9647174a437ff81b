/* SPDX-License-Identifier: GPL-2.0-only */
/* Where plain Lua is in a process. See plain_lua.h. */
#include "live/plain_lua.h"

#include "base/proc.h"
#include "unwind/lua/runtime.h"

#include <sys/mman.h>

/* Find the Lua whose code is in this mapping. Returns 1; 0: there is none; -1: memory is out. */
static int find(struct runtime_files *files, pid_t pid, const struct process_map *map,
                struct copier_lua *ret, struct error *err)
{
    const size_t number = runtime_index(&lua_runtime);
    struct runtime_file f;
    if (!(map->prot & PROT_EXEC) || !map->inode || map->path[0] != '/')
        return 0;
    if (runtime_files_look(files, pid, map, &f, err) < 0)
        return -1;
    const struct lua_layout *layout = f.layouts[number];
    uint64_t into = f.code_offset[number] - map->pgoff;
    if (!layout || f.code_offset[number] < map->pgoff || into >= map->end - map->start)
        return 0;
    *ret = (struct copier_lua){layout, map->start + into - lua_runtime.code_start(layout)};
    return 1;
}

int plain_lua_tell(struct copier *c, struct runtime_files *files, pid_t pid, struct error *err)
{
    struct copier_lua found[VMSTACK_LUA_BUILDS];
    struct process_maps maps;
    size_t nr = 0;
    int failed = 0;
    if (process_maps_read(pid, &maps, NULL) < 0)
        return 0;
    vec_foreach (map, &maps.maps) {
        int got = !failed && nr < VMSTACK_LUA_BUILDS ? find(files, pid, map, &found[nr], err) : 0;
        failed |= got < 0;
        nr += got > 0;
    }
    process_maps_free(&maps);
    if (failed)
        return -1;
    return nr ? copier_set_lua(c, pid, found, nr, err) : 0;
}
