/* SPDX-License-Identifier: GPL-2.0-only */
/* Where plain Lua is in a process. See plain_lua.h. */
#include "live/plain_lua.h"

#include "live/live_process.h"
#include "session/session.h"
#include "unwind/lua/runtime.h"

int plain_lua_tell(struct copier *c, struct dsos *dsos, pid_t pid, struct error *err)
{
    struct live_process process = {.pid = pid};
    struct copier_lua found[VMSTACK_LUA_BUILDS];
    struct runtime_instance instance;
    size_t nr = 0;
    if (live_process_learn(&process, dsos, err) < 0)
        return -1;
    if (!process.session)
        return 0;
    const struct mapping *m = session_mapping_next(&process.thread, 0);
    for (; m && nr < VMSTACK_LUA_BUILDS; m = session_mapping_next(&process.thread, m->end)) {
        if (session_runtime_in(m, &lua_runtime, &instance))
            found[nr++] = (struct copier_lua){
                .layout = instance.layout, .bias = instance.bias, .cfi = dso_cfi(m->dso)};
        if (m->end == UINT64_MAX)
            break;
    }
    int failed = nr ? copier_set_lua(c, pid, found, nr, err) : 0;
    live_process_free(&process);
    return failed;
}
