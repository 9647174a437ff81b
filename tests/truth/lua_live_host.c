/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A host of LuaJIT with more VMs than threads. A thread takes a free VM, runs its program for a
 * while with lua_pcall or lua_resume, and gives it back: VMs, and coroutines suspended in the
 * middle, move between threads. Lua functions may enter another VM (host_enter).
 *
 * usage: host SECONDS FACTS THREADS VMS PROGRAM...   (programs of lua_live_generate.py --host)
 *
 * SECONDS is processor time. FACTS receives what each VM tells of itself, and when each thread was
 * in Lua. Lua's functions are declared here: linking needs the library only.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct lua_State lua_State;
enum { REGISTRY = -10000, GLOBALS = -10002, YIELDED = 1 };
lua_State *luaL_newstate(void);
void luaL_openlibs(lua_State *L);
int luaL_loadfile(lua_State *L, const char *path);
int luaL_ref(lua_State *L, int table);
void luaL_unref(lua_State *L, int table, int ref);
int lua_pcall(lua_State *L, int nargs, int nresults, int handler);
int lua_resume(lua_State *L, int nargs);
lua_State *lua_newthread(lua_State *L);
void lua_rawgeti(lua_State *L, int table, int n);
void lua_settop(lua_State *L, int top);
void lua_xmove(lua_State *from, lua_State *to, int n);
void lua_pushboolean(lua_State *L, int value);
void lua_pushnumber(lua_State *L, double value);
void lua_pushcclosure(lua_State *L, int (*f)(lua_State *), int n);
void lua_setfield(lua_State *L, int table, const char *name);
const char *lua_tolstring(lua_State *L, int at, size_t *length);

enum { VMS_MAX = 64, THREADS_MAX = 64, NESTED_MAX = 3, RUNS_MAX = 1 << 18 };

struct vm {
    pthread_mutex_t mutex;
    lua_State *L, *co; /* co: suspended in the middle; NULL: none */
    int top, facts, co_ref;
};

struct run {
    long tid, begin, end;
};

static struct vm vms[VMS_MAX];
static int nr_vms;
static double seconds;
static struct run runs[RUNS_MAX];
static size_t nr_runs;
static __thread int nested;
static __thread unsigned seed;

static void die(lua_State *L, const char *what)
{
    fprintf(stderr, "host: %s: %s\n", what, L ? lua_tolstring(L, -1, NULL) : "");
    exit(1);
}

static long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* Returns a free VM, searching from a random one on; NULL: all are busy. */
static struct vm *take(void)
{
    int from = rand_r(&seed) % nr_vms;
    for (int i = 0; i < nr_vms; i++) {
        struct vm *vm = &vms[(from + i) % nr_vms];
        if (!pthread_mutex_trylock(&vm->mutex))
            return vm;
    }
    return NULL;
}

static void call(struct vm *vm)
{
    lua_rawgeti(vm->L, REGISTRY, vm->top);
    lua_pushboolean(vm->L, false);
    if (lua_pcall(vm->L, 1, 0, 0))
        die(vm->L, "lua_pcall");
}

static void resume(struct vm *vm)
{
    int nargs = 0;
    if (!vm->co) {
        vm->co = lua_newthread(vm->L);
        vm->co_ref = luaL_ref(vm->L, REGISTRY);
        lua_rawgeti(vm->L, REGISTRY, vm->top);
        lua_xmove(vm->L, vm->co, 1);
        lua_pushboolean(vm->co, true);
        nargs = 1;
    }
    int got = lua_resume(vm->co, nargs);
    if (got > YIELDED)
        die(vm->co, "lua_resume");
    lua_settop(vm->co, 0);
    if (got == 0) {
        luaL_unref(vm->L, REGISTRY, vm->co_ref);
        vm->co = NULL;
    }
}

static int host_enter(lua_State *L)
{
    struct vm *vm = nested < NESTED_MAX && rand_r(&seed) % 8 == 0 ? take() : NULL;
    if (vm) {
        nested++;
        call(vm);
        nested--;
        pthread_mutex_unlock(&vm->mutex);
    }
    lua_pushnumber(L, 1);
    return 1;
}

static void note(long begin, long end)
{
    size_t at = __atomic_fetch_add(&nr_runs, 1, __ATOMIC_RELAXED);
    if (at < RUNS_MAX)
        runs[at] = (struct run){syscall(SYS_gettid), begin, end};
}

static void *thread(void *number)
{
    seed = 1 + (unsigned)(size_t)number;
    while (now(CLOCK_PROCESS_CPUTIME_ID) < (long)(seconds * 1e9)) {
        struct vm *vm = take();
        if (!vm)
            continue;
        bool resumes = rand_r(&seed) % 2;
        long begin = now(CLOCK_MONOTONIC);
        for (int i = 0; i < 4; i++)
            resumes ? resume(vm) : call(vm);
        note(begin, now(CLOCK_MONOTONIC));
        pthread_mutex_unlock(&vm->mutex);
    }
    return NULL;
}

static void open_vm(struct vm *vm, const char *program)
{
    pthread_mutex_init(&vm->mutex, NULL);
    vm->L = luaL_newstate();
    luaL_openlibs(vm->L);
    lua_pushcclosure(vm->L, host_enter, 0);
    lua_setfield(vm->L, GLOBALS, "host_enter");
    if (luaL_loadfile(vm->L, program) || lua_pcall(vm->L, 0, 2, 0))
        die(vm->L, program);
    vm->facts = luaL_ref(vm->L, REGISTRY);
    vm->top = luaL_ref(vm->L, REGISTRY);
}

static void tell(const char *path)
{
    FILE *to = fopen(path, "w"), *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    if (!to || !maps)
        die(NULL, path);
    for (int i = 0; i < nr_vms; i++) {
        lua_rawgeti(vms[i].L, REGISTRY, vms[i].facts);
        if (lua_pcall(vms[i].L, 0, 1, 0))
            die(vms[i].L, "facts");
        fprintf(to, "vm %d\n%s\n", i, lua_tolstring(vms[i].L, -1, NULL));
    }
    for (size_t i = 0; i < nr_runs && i < RUNS_MAX; i++)
        fprintf(to, "run %ld %ld %ld\n", runs[i].tid, runs[i].begin, runs[i].end);
    while (fgets(line, sizeof(line), maps))
        fprintf(to, "map %s", line);
    fclose(maps);
    if (fclose(to))
        die(NULL, path);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    if (argc < 6)
        return 2;
    seconds = atof(argv[1]);
    long nr = atol(argv[3]);
    nr_vms = atoi(argv[4]);
    if (nr < 1 || nr > THREADS_MAX || nr_vms < 1 || nr_vms > VMS_MAX)
        return 2;
    for (int i = 0; i < nr_vms; i++)
        open_vm(&vms[i], argv[5 + i % (argc - 5)]);
    for (long i = 0; i < nr; i++)
        pthread_create(&threads[i], NULL, thread, (void *)i);
    for (long i = 0; i < nr; i++)
        pthread_join(threads[i], NULL);
    tell(argv[2]);
    return 0;
}
