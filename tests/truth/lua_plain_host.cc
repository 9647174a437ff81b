/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A C++ host of plain Lua, of one version or of several in one process. Threads take a free state,
 * run its program for a while with lua_pcall or lua_resume, and give it back: states, and coroutines
 * suspended in the middle, move between threads. Lua functions may enter another state, of whatever
 * version (host_enter): Lua, C++, Lua in one native stack.
 *
 * usage: host SECONDS THREADS STATES CALLS VERSION:LIBRARY:PROGRAM...
 *
 * SECONDS is processor time, CALLS how often a state is called before it is given back; programs are those of
 * lua_plain_generate.py --kind host. State i runs program i mod their number. The libraries are opened
 * at run time, so that no headers are needed. Run it with lua_mark.c preloaded.
 */
#include "lua_mark.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

struct lua_State;

namespace {

/* What differs between the versions is hidden here. */
struct Api {
    using Function = int (*)(lua_State *);
    int version;
    void *library;
    lua_State *(*newstate)();
    lua_State *(*newthread)(lua_State *);
    void (*settop)(lua_State *, int);
    void (*xmove)(lua_State *, lua_State *, int);
    void (*pushboolean)(lua_State *, int);
    void (*pushnumber)(lua_State *, double);
    void (*pushcclosure)(lua_State *, Function, int);
    const char *(*tolstring)(lua_State *, int, size_t *);

    void *find(const std::string &name) const
    {
        void *at = dlsym(library, name.c_str());
        if (!at) {
            fprintf(stderr, "host: no %s in Lua %d\n", name.c_str(), version);
            exit(1);
        }
        return at;
    }
    template <typename F> F as(const std::string &name) const { return reinterpret_cast<F>(find(name)); }
    Api(int v, const char *path) : version(v), library(dlopen(path, RTLD_NOW | RTLD_LOCAL))
    {
        if (!library) {
            fprintf(stderr, "host: %s\n", dlerror());
            exit(1);
        }
        newstate = as<decltype(newstate)>("luaL_newstate");
        newthread = as<decltype(newthread)>("lua_newthread");
        settop = as<decltype(settop)>("lua_settop");
        xmove = as<decltype(xmove)>("lua_xmove");
        pushboolean = as<decltype(pushboolean)>("lua_pushboolean");
        pushnumber = as<decltype(pushnumber)>("lua_pushnumber");
        pushcclosure = as<decltype(pushcclosure)>("lua_pushcclosure");
        tolstring = as<decltype(tolstring)>("lua_tolstring");
    }
    void openlibs(lua_State *L) const
    {
        if (version >= 55)
            as<void (*)(lua_State *, int, int)>("luaL_openselectedlibs")(L, -1, 0);
        else
            as<void (*)(lua_State *)>("luaL_openlibs")(L);
    }
    int load(lua_State *L, const char *path) const
    {
        if (version == 51)
            return as<int (*)(lua_State *, const char *)>("luaL_loadfile")(L, path);
        return as<int (*)(lua_State *, const char *, const char *)>("luaL_loadfilex")(L, path, nullptr);
    }
    void global(lua_State *L, const char *name) const
    {
        if (version == 51)
            as<void (*)(lua_State *, int, const char *)>("lua_getfield")(L, -10002, name);
        else
            as<void (*)(lua_State *, const char *)>("lua_getglobal")(L, name);
    }
    void set_global(lua_State *L, const char *name) const
    {
        if (version == 51)
            as<void (*)(lua_State *, int, const char *)>("lua_setfield")(L, -10002, name);
        else
            as<void (*)(lua_State *, const char *)>("lua_setglobal")(L, name);
    }
    int pcall(lua_State *L, int args, int results) const
    {
        if (version == 51)
            return as<int (*)(lua_State *, int, int, int)>("lua_pcall")(L, args, results, 0);
        if (version == 52)
            return as<int (*)(lua_State *, int, int, int, int, void *)>("lua_pcallk")(L, args, results, 0, 0, nullptr);
        return as<int (*)(lua_State *, int, int, int, intptr_t, void *)>("lua_pcallk")(L, args, results, 0, 0, nullptr);
    }
    int resume(lua_State *L, lua_State *from, int args) const
    {
        int results = 0;
        if (version == 51)
            return as<int (*)(lua_State *, int)>("lua_resume")(L, args);
        if (version <= 53)
            return as<int (*)(lua_State *, lua_State *, int)>("lua_resume")(L, from, args);
        return as<int (*)(lua_State *, lua_State *, int, int *)>("lua_resume")(L, from, args, &results);
    }
};

struct State {
    std::mutex mutex;
    const Api *api = nullptr;
    lua_State *L = nullptr, *co = nullptr; /* co: suspended in the middle; else null */
    uint64_t mark = 0;                     /* of the suspended coroutine */
};

std::vector<std::unique_ptr<Api>> apis;
std::deque<State> states;
double until; /* of processor time */
int calls;
std::atomic<long> total;
thread_local int nested;
thread_local unsigned seed;
enum { NESTED_MAX = 3, YIELDED = 1 };

[[noreturn]] void die(const State &s, lua_State *L, const char *what)
{
    fprintf(stderr, "host: Lua %d: %s: %s\n", s.api->version, what, s.api->tolstring(L, -1, nullptr));
    exit(1);
}

double processor_time()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/* A free state, searched for from a random one on. */
State *take()
{
    size_t from = static_cast<size_t>(rand_r(&seed)) % states.size();
    for (size_t i = 0; i < states.size(); i++) {
        State &s = states[(from + i) % states.size()];
        if (s.mutex.try_lock())
            return &s;
    }
    return nullptr;
}

void call(State &s)
{
    s.api->global(s.L, "top");
    s.api->pushboolean(s.L, 0);
    if (s.api->pcall(s.L, 1, 0))
        die(s, s.L, "pcall");
    lua_mark_set(0);
}

void resume(State &s)
{
    int args = 0;
    if (!s.co) {
        s.co = s.api->newthread(s.L); /* stays on the stack of s.L */
        s.api->global(s.L, "top");
        s.api->xmove(s.L, s.co, 1);
        s.api->pushboolean(s.co, 1);
        s.mark = 0;
        args = 1;
    }
    lua_mark_set(s.mark);
    int got = s.api->resume(s.co, s.L, args);
    s.mark = lua_mark_set(0);
    if (got > YIELDED)
        die(s, s.co, "resume");
    s.api->settop(s.co, 0);
    if (got == 0) {
        s.co = nullptr;
        s.api->settop(s.L, 0);
    }
}

template <typename Run> class Guard {
    Run run;

public:
    explicit Guard(Run r) : run(r) {}
    ~Guard() { run(); }
};

int enter(const Api *api, lua_State *L)
{
    State *s = nested < NESTED_MAX && rand_r(&seed) % 4 == 0 ? take() : nullptr;
    if (s) {
        uint64_t mark = lua_mark_set(0);
        nested++;
        Guard done([&] {
            nested--;
            s->mutex.unlock();
            lua_mark_set(mark);
        });
        call(*s);
    }
    api->pushnumber(L, 1);
    return 1;
}

/* One function for each of the versions, that it be known which one has called. */
template <int N> int host_enter(lua_State *L)
{
    return enter(apis[N].get(), L);
}

void run(unsigned number)
{
    volatile uint64_t place = 0;
    lua_mark_here(&place);
    seed = number + 1;
    while (processor_time() < until) {
        State *s = take();
        if (!s)
            continue;
        bool resumes = rand_r(&seed) % 2;
        for (int i = 0; i < calls; i++)
            resumes ? resume(*s) : call(*s);
        total += calls;
        s->mutex.unlock();
    }
}

} // namespace

int main(int argc, char **argv)
{
    static const Api::Function enters[] = {host_enter<0>, host_enter<1>, host_enter<2>, host_enter<3>, host_enter<4>};
    if (argc < 6 || argc > 10)
        return 2;
    unsigned nr_threads = static_cast<unsigned>(atoi(argv[2]));
    states.resize(static_cast<size_t>(atoi(argv[3])));
    calls = atoi(argv[4]);
    std::vector<std::string> programs;
    for (int i = 5; i < argc; i++) {
        std::string text = argv[i];
        size_t first = text.find(':'), last = text.rfind(':');
        apis.push_back(std::make_unique<Api>(atoi(argv[i]), text.substr(first + 1, last - first - 1).c_str()));
        programs.push_back(text.substr(last + 1));
    }
    for (size_t i = 0; i < states.size(); i++) {
        State &s = states[i];
        size_t n = i % apis.size();
        s.api = apis[n].get();
        s.L = s.api->newstate();
        s.api->openlibs(s.L);
        s.api->pushcclosure(s.L, enters[n], 0);
        s.api->set_global(s.L, "host_enter");
        if (s.api->load(s.L, programs[n].c_str()) || s.api->pcall(s.L, 0, 0))
            die(s, s.L, programs[n].c_str());
    }
    until = processor_time() + atof(argv[1]);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < nr_threads; i++)
        threads.emplace_back(run, i);
    for (auto &t : threads)
        t.join();
    printf("done %ld\n", total.load());
    return 0;
}
