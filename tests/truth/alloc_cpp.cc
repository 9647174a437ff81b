/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions of C++ that allocate, in three threads, and count what they ask for: containers, strings, objects. One of a hundred
 * allocations is lost. Prints FUNCTION BYTES BLOCKS, and how much of these is never freed. */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define SITE extern "C" __attribute__((noinline))
struct Count {
    const char *name;
    std::atomic<long> bytes{0}, blocks{0}, left{0}, blocks_left{0};
    void add(long size, long nr = 1)
    {
        bytes += size * nr;
        blocks += nr;
    }
};
static Count vectors{"make_vectors"}, maps{"make_maps"}, strings{"make_strings"}, objects{"make_objects"}, arrays{"make_arrays"},
    lost{"lose_sessions"};
struct Object {
    long fields[9];
};
struct Session {
    std::unique_ptr<char[]> buffer;
    long id;
};
static volatile long sink;

SITE void make_vectors(int n)
{
    std::vector<int> v(static_cast<size_t>(n));
    sink = v[static_cast<size_t>(n) / 2];
    vectors.add(4L * n);
}
SITE void make_maps(int n)
{
    std::map<long, long> m; /* of each node: colour, three pointers, key and value */
    for (int i = 0; i < n; i++)
        m[i] = i;
    sink = m[n / 2];
    maps.add(4 * 8 + 16, n);
}
SITE void make_strings(int n)
{
    std::string s(static_cast<size_t>(n), 'x');
    sink = s[1];
    strings.add(n + 1);
}
SITE void make_objects(int n)
{
    for (int i = 0; i < n; i++) {
        auto o = std::make_unique<Object>();
        sink = o->fields[3];
        asm volatile("" : : "r"(o.get()) : "memory");
    }
    objects.add(sizeof(Object), n);
}
SITE void make_arrays(int n)
{
    auto *a = new long[static_cast<size_t>(n)];
    asm volatile("" : : "r"(a) : "memory");
    delete[] a;
    arrays.add(8L * n);
}
SITE void lose_sessions(int n)
{
    auto *s = new Session{std::make_unique<char[]>(static_cast<size_t>(n)), n};
    asm volatile("" : : "r"(s) : "memory");
    lost.add(static_cast<long>(sizeof(Session)) + n, 1);
    lost.left += static_cast<long>(sizeof(Session)) + n;
    lost.blocks_left++;
}

static void work(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        make_vectors(1000);
        make_maps(40);
        make_strings(700);
        make_objects(50);
        make_arrays(300);
        if (i % 2)
            lose_sessions(600); /* two calls of two hundred */
        usleep(1000);
    }
}

int main(int, char **argv)
{
    const int rounds = atoi(argv[1]);
    std::thread a(work, rounds), b(work, rounds);
    work(rounds);
    a.join();
    b.join();
    for (Count *c : {&vectors, &maps, &strings, &objects, &arrays, &lost})
        printf("%s %ld %ld %ld %ld\n", c->name, c->bytes.load(), c->blocks.load(), c->left.load(), c->blocks_left.load());
}
