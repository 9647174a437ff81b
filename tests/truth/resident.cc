/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions that make memory resident in known ways. Prints of each by how much the resident memory of the process has grown, as
 * the kernel's page tables tell (smaps_rollup), in bytes. The names are those of the functions. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define SITE extern "C" __attribute__((noinline))
static const size_t MB = 1 << 20;

static long resident(void)
{
    char text[4096] = "";
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    const char *at = size > 0 ? strstr(text, "Anonymous:") : NULL;
    return at ? atol(at + 10) * 1024 : 0;
}

static char *map(size_t size, int advice)
{
    char *p = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, size, advice);
    return p;
}

static void write_pages(char *p, size_t size)
{
    for (size_t i = 0; i < size; i += 4096)
        ((volatile char *)p)[i] = 1;
}

SITE void small_pages(void) { write_pages(map(24 * MB, MADV_NOHUGEPAGE), 24 * MB); }
SITE void huge_pages(void)
{
    char *p = map(98 * MB, MADV_HUGEPAGE);
    p += -(uintptr_t)p % (2 * MB); /* else small pages before and behind */
    write_pages(p, 96 * MB);
}
/* A fault each ms. */
static void write_slowly(char *p, size_t size)
{
    for (size_t i = 0; i < size; i += 4096, usleep(1000))
        write_pages(p + i, 4096);
}
SITE void slow_pages(void) { write_slowly(map(MB, MADV_NOHUGEPAGE), MB); }
SITE void given_back(void)
{
    char *p = map(MB / 2, MADV_NOHUGEPAGE);
    for (int i = 0; i < 3; i++) {
        madvise(p, MB / 2, MADV_DONTNEED);
        write_slowly(p, MB / 2);
    }
}
/* Pages of zeros are no memory of the process; what it writes later is. */
SITE void of_zeros(void)
{
    char *p = map(MB / 2, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < MB / 2; i += 4096)
        (void)((volatile char *)p)[i];
    write_slowly(p, MB / 2);
}
SITE void a_vector(void)
{
    static std::vector<long> v;
    v.reserve(3 * MB);
    for (size_t i = 0; i < 3 * MB; i++)
        v.push_back((long)i);
}
SITE void of_a_thread(void) { write_pages(map(12 * MB, MADV_NOHUGEPAGE), 12 * MB); }
SITE void many_small(void)
{
    static char *all[200000];
    for (auto &p : all)
        p = (char *)calloc(1, 100);
}
SITE void of_a_file(const char *path)
{
    int fd = open(path, O_RDONLY);
    const volatile char *p = (const char *)mmap(NULL, 8 * MB, PROT_READ, MAP_PRIVATE, fd, 0);
    for (size_t i = 0; i < 8 * MB; i += 4096)
        (void)p[i];
    close(fd);
}
SITE void read_in(const char *path)
{
    int fd = open(path, O_RDONLY);
    char *p = map(16 * MB, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < 16 * MB; at += 8 * MB)
        if (pread(fd, p + at, 8 * MB, 0) < 0)
            abort();
    close(fd);
}

template <typename F> static void judge(const char *name, F f)
{
    long before = resident();
    f();
    printf("%s %ld\n", name, resident() - before);
    fflush(stdout);
}

int main(int, char **argv)
{
    const char *path = argv[1];
    cpu_set_t one; /* each cpu chooses its own number of faults for a sample */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    resident();
    judge("slow_pages", slow_pages); /* from here on each fault is a sample, if others do not follow quickly */
    judge("huge_pages", huge_pages);
    judge("given_back", given_back);
    judge("of_zeros", of_zeros);
    judge("small_pages", small_pages);
    judge("a_vector", a_vector);
    judge("many_small", many_small);
    judge("of_a_file", [&] { of_a_file(path); });
    judge("read_in", [&] { read_in(path); });
    judge("of_a_thread", [] { std::thread(of_a_thread).join(); });
}
