/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A host of many Lua VMs: THREADS threads share VMS states. A thread takes a state from a pool,
 * runs it for a while, and gives it back, so that states move between threads. Usage: lua_host TREE
 * SECONDS. LuaJIT's library is opened at run time; its header is not needed for these few
 * functions.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 8, VMS = 24, GLOBALS = -10002 };

typedef struct lua_State lua_State;
static lua_State *(*newstate)(void);
static void (*openlibs)(lua_State *);
static int (*loadfile)(lua_State *, const char *);
static int (*call)(lua_State *, int, int, int);
static void (*getfield)(lua_State *, int, const char *);
static void (*pushinteger)(lua_State *, intptr_t);
static void (*settop)(lua_State *, int);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lua_State *pool[VMS];
static int nr;
static double until;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static lua_State *take(void)
{
    pthread_mutex_lock(&lock);
    lua_State *L = pool[0]; /* the one that has waited longest */
    nr--;
    for (int i = 0; i < nr; i++)
        pool[i] = pool[i + 1];
    pthread_mutex_unlock(&lock);
    return L;
}

static void give(lua_State *L)
{
    pthread_mutex_lock(&lock);
    pool[nr++] = L;
    pthread_mutex_unlock(&lock);
}

static void *run(void *unused)
{
    while (now() < until) {
        lua_State *L = take();
        getfield(L, GLOBALS, "t");
        pushinteger(L, 3);
        if (call(L, 1, 1, 0))
            abort();
        settop(L, 0);
        give(L);
    }
    return unused;
}

static lua_State *create(const char *tree)
{
    lua_State *L = newstate();
    if (!L)
        abort();
    openlibs(L);
    if (loadfile(L, tree) || call(L, 0, 0, 0))
        abort();
    return L;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    void *lib = dlopen("libluajit-5.1.so.2", RTLD_NOW);
    if (!lib || argc < 3) {
        fprintf(stderr, "%s\n", lib ? "usage: lua_host TREE SECONDS" : dlerror());
        return 77;
    }
    *(void **)&newstate = dlsym(lib, "luaL_newstate");
    *(void **)&openlibs = dlsym(lib, "luaL_openlibs");
    *(void **)&loadfile = dlsym(lib, "luaL_loadfile");
    *(void **)&call = dlsym(lib, "lua_pcall");
    *(void **)&getfield = dlsym(lib, "lua_getfield");
    *(void **)&pushinteger = dlsym(lib, "lua_pushinteger");
    *(void **)&settop = dlsym(lib, "lua_settop");
    for (; nr < VMS; nr++)
        pool[nr] = create(argv[1]);
    until = now() + atof(argv[2]);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
