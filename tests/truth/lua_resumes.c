/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A module for lua_resumes.lua: functions that enter another lua_State from C. Lua's functions are
 * declared here: nothing but luajit itself is needed.
 */
typedef struct lua_State lua_State;
int lua_resume(lua_State *L, int nargs);
lua_State *lua_tothread(lua_State *L, int at);
lua_State *lua_newthread(lua_State *L);
void lua_pushvalue(lua_State *L, int at);
void lua_xmove(lua_State *from, lua_State *to, int n);
void lua_call(lua_State *L, int nargs, int nresults);
void lua_createtable(lua_State *L, int narr, int nrec);
void lua_pushcclosure(lua_State *L, int (*f)(lua_State *), int n);
void lua_setfield(lua_State *L, int table, const char *name);
int luaopen_resumes(lua_State *L);

/* resume(co): resumes with lua_resume, not with the interpreter. */
static int resume(lua_State *L)
{
    volatile char room[600]; /* a frame of some size */
    room[0] = 0;
    lua_resume(lua_tothread(L, 1), 0);
    return room[0];
}

/* call(f): calls f on a lua_State that nobody resumes. */
static int call(lua_State *L)
{
    lua_State *other = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, other, 1);
    lua_call(other, 0, 0);
    return 0;
}

int luaopen_resumes(lua_State *L)
{
    lua_createtable(L, 0, 2);
    lua_pushcclosure(L, resume, 0);
    lua_setfield(L, -2, "resume");
    lua_pushcclosure(L, call, 0);
    lua_setfield(L, -2, "call");
    return 1;
}
