/* SPDX-License-Identifier: GPL-2.0-only */
/* Mapped files that others may cut. See file_map.h. */
#include "base/file_map.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* One map. The handler reads the list while other threads change it, so entries are never freed: an
 * unused one (start UINTPTR_MAX) is used again. `end` is written while `start` says unused. */
struct entry {
    atomic_uintptr_t start, end;
    atomic_bool cut;
    struct entry *next;
};

static _Atomic(struct entry *) entries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects changes of the list */
static struct sigaction before;                          /* of SIGBUS: the handler that was there */
static uintptr_t page;

static struct entry *find(uintptr_t at, uintptr_t *end)
{
    for (struct entry *e = atomic_load(&entries); e; e = e->next) {
        uintptr_t start = atomic_load(&e->start);
        *end = atomic_load(&e->end);
        if (at >= start && at < *end && atomic_load(&e->start) == start)
            return e;
    }
    return NULL;
}

/* A page of a map is gone, so all behind it is, too: the file ends before it. (Or the page cannot
 * be read from its disk. Then what is behind it counts as gone, too.) */
static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    int kept = errno;
    uintptr_t at = (uintptr_t)info->si_addr, end;
    struct entry *e = find(at, &end);
    (void)context;
    at &= ~(page - 1);
    if (e && mmap((void *)at, end - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                  0) != MAP_FAILED)
        atomic_store(&e->cut, true);
    else
        sigaction(signal, &before, NULL); /* the access is repeated, and fails again */
    errno = kept;
}

/* Be the handler of SIGBUS, also when somebody else has become it since. */
static void install(void)
{
    const struct sigaction a = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction now;
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &now) < 0 ||
        (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus_error))
        return;
    before = now;
    sigaction(SIGBUS, &a, NULL);
}

/* Returns an unused entry; NULL: memory is out. */
static struct entry *take_entry(void)
{
    struct entry *e = atomic_load(&entries);
    while (e && atomic_load(&e->start) != UINTPTR_MAX)
        e = e->next;
    if (e)
        return e;
    e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    atomic_init(&e->start, UINTPTR_MAX);
    e->next = atomic_load(&entries);
    atomic_store(&entries, e);
    return e;
}

void *file_map(int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    pthread_mutex_lock(&lock);
    install();
    struct entry *e = take_entry();
    if (e) {
        atomic_store(&e->cut, false);
        atomic_store(&e->end, (uintptr_t)map + ((size + page - 1) & ~(page - 1)));
        atomic_store(&e->start, (uintptr_t)map);
    }
    pthread_mutex_unlock(&lock);
    if (e)
        return map;
    munmap(map, size);
    errno = ENOMEM;
    return NULL;
}

static struct entry *entry_of(const void *map)
{
    struct entry *e = atomic_load(&entries);
    while (e && atomic_load(&e->start) != (uintptr_t)map)
        e = e->next;
    return e;
}

void file_unmap(void *map, size_t size)
{
    pthread_mutex_lock(&lock);
    struct entry *e = entry_of(map);
    if (e)
        atomic_store(&e->start, UINTPTR_MAX);
    pthread_mutex_unlock(&lock);
    munmap(map, size);
}

bool file_map_was_cut(const void *map)
{
    const struct entry *e = entry_of(map);
    return e && atomic_load(&e->cut);
}
