/* SPDX-License-Identifier: GPL-2.0-only */
/* Which files hold a VM: each file is searched once, and the result is remembered by the file's
 * identity, also across recordings. */
#include "live/runtime_files.h"
#include "unwind/luajit/runtime.h"
#include "live/lua_scan.h"

#include "scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A mapping of a file in this process. */
struct mapped {
    struct process_maps maps;
    struct process_map map;
};

/* Finds the executable mapping whose path contains `part`. */
static bool find_map(const char *part, struct mapped *ret)
{
    assert_int_equal(process_maps_read(getpid(), &ret->maps, NULL), 0);
    vec_foreach (map, &ret->maps.maps) {
        if (map->prot & PROT_EXEC && map->inode && strstr(map->path, part)) {
            ret->map = *map;
            return true;
        }
    }
    process_maps_free(&ret->maps);
    return false;
}

/* (Not by a command, which an emulator would take from another root.) */
static void copy_file(const char *from, const char *to)
{
    char block[4096];
    ssize_t n;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, block, sizeof(block))) > 0)
        assert_int_equal(write(out, block, (size_t)n), n);
    assert_int_equal(n, 0);
    close(in);
    close(out);
}

static void map_copy(const char *from, const char *to)
{
    copy_file(from, to);
    int fd = open(to, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    close(fd);
}

static struct runtime_file look(struct runtime_files *f, const struct process_map *map)
{
    struct runtime_file file;
    assert_int_equal(runtime_files_look(f, getpid(), map, &file, NULL), 0);
    return file;
}

static void a_file_is_looked_into_once(void **state)
{
    (void)state;
    struct mapped libc;
    struct runtime_files *f = runtime_files_create();
    assert_true(find_map("libc", &libc));
    const struct runtime_file_key key = {
        .inode = libc.map.inode, .major = libc.map.major, .minor = libc.map.minor};
    assert_int_equal(runtime_files_find(f, &key), HOLDS_UNKNOWN);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look(f, &libc.map).holds, 0);
    assert_int_equal(runtime_files_looks(f), 1);
    assert_int_equal(runtime_files_find(f, &key), 0);
    process_maps_free(&libc.maps);
    runtime_files_free(f);
}

/* Inode numbers are reused, and files are written in place. */
static void what_was_written_since_is_looked_into_again(void **state)
{
    (void)state;
    struct mapped copy;
    struct runtime_files *f = runtime_files_create();
    map_copy("/bin/true", path("copy"));
    assert_true(find_map(path("copy"), &copy));
    look(f, &copy.map);
    look(f, &copy.map);
    assert_int_equal(runtime_files_looks(f), 1);
    const struct timespec times[2] = {{0, UTIME_OMIT}, {12345, 678}};
    assert_int_equal(utimensat(AT_FDCWD, path("copy"), times, 0), 0);
    look(f, &copy.map);
    /* (the build id is the same: the earlier result still holds) */
    assert_int_equal(runtime_files_looks(f), 1);
    assert_int_equal(truncate(path("copy"), 1000), 0);
    look(f, &copy.map);
    process_maps_free(&copy.maps);
    runtime_files_free(f);
}

static void a_luajit_is_found(void **state)
{
    (void)state;
    static const char *const places[] = {"/usr/bin/luajit",
                                         "/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2",
                                         "/usr/lib/aarch64-linux-gnu/libluajit-5.1.so.2"};
    struct mapped copy;
    struct runtime_files *f = runtime_files_create();
    unsigned found = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        if (access(places[i], R_OK) != 0)
            continue;
        map_copy(places[i], path("luajit"));
        assert_true(find_map(path("luajit"), &copy));
        struct runtime_file file = look(f, &copy.map);
        found |= file.holds;
        assert_int_equal(file.holds == holds_bit(&luajit_runtime),
                         file.layouts[runtime_index(&luajit_runtime)] != NULL);
        process_maps_free(&copy.maps);
        unlink(path("luajit"));
    }
    runtime_files_free(f);
    if (access(places[0], R_OK) != 0)
        skip();
    assert_int_equal(found, holds_bit(&luajit_runtime));
}

/* ---- across recordings --------------------------------------------------------------------- */

static char cache[400], kept[500];

static void new_cache(void)
{
    char folder[450];
    snprintf(cache, sizeof(cache), "%s", path("cache"));
    mkdir(cache, 0700);
    setenv("XDG_CACHE_HOME", cache, 1);
    snprintf(folder, sizeof(folder), "%s/ljperf", cache);
    snprintf(kept, sizeof(kept), "%s/no-vm", folder);
    unlink(kept);
    chmod(folder, 0700);
}

/* Returns the number of files searched to know about libc, after a recording that searched it. */
static uint64_t looks_later(void)
{
    struct mapped libc;
    struct runtime_files *f = runtime_files_create();
    assert_true(find_map("libc", &libc));
    runtime_files_load(f);
    assert_int_equal(look(f, &libc.map).holds, 0);
    uint64_t looks = runtime_files_looks(f);
    process_maps_free(&libc.maps);
    runtime_files_free(f);
    return looks;
}

static void record_once(void)
{
    struct mapped libc;
    struct runtime_files *f = runtime_files_create();
    assert_true(find_map("libc", &libc));
    runtime_files_load(f);
    look(f, &libc.map);
    runtime_files_save(f);
    process_maps_free(&libc.maps);
    runtime_files_free(f);
}

static void what_holds_none_is_remembered(void **state)
{
    struct stat st;
    (void)state;
    new_cache();
    assert_int_equal(looks_later(), 1);
    record_once();
    assert_int_equal(stat(kept, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(looks_later(), 0);
}

static void rewrite(const char *text, size_t size)
{
    FILE *f = fopen(kept, "w");
    assert_non_null(f);
    fwrite(text, 1, size, f);
    fclose(f);
}

/* A file that another user could have written is not trusted, and damage does no harm. */
static void only_the_users_own_is_believed(void **state)
{
    char target[500], text[4096], *big = calloc(1, 2 << 20);
    (void)state;
    new_cache();
    record_once();
    assert_int_equal(looks_later(), 0);
    chmod(kept, 0622);
    assert_int_equal(looks_later(), 1);
    chmod(kept, 0600);
    assert_int_equal(looks_later(), 0);
    snprintf(target, sizeof(target), "%s/elsewhere", cache);
    assert_int_equal(rename(kept, target), 0);
    assert_int_equal(symlink(target, kept), 0);
    assert_int_equal(looks_later(), 1);
    unlink(kept);
    assert_int_equal(mkfifo(kept, 0600), 0); /* nobody writes to it: must not wait */
    assert_int_equal(looks_later(), 1);
    unlink(kept);
    FILE *f = fopen(target, "r");
    size_t size = f ? fread(text, 1, sizeof(text), f) : 0;
    fclose(f);
    assert_true(size > 20);
    for (size_t end = 0; end < size; end++) {
        rewrite(text, end);
        looks_later();
    }
    text[0] = 'N'; /* a file of another version */
    rewrite(text, size);
    assert_int_equal(looks_later(), 1);
    assert_non_null(big);
    rewrite(big, 2 << 20);
    assert_int_equal(looks_later(), 1);
    free(big);
    if (geteuid() == 0) {
        text[0] = 'n';
        rewrite(text, size);
        assert_int_equal(looks_later(), 0);
        assert_int_equal(chown(kept, 65534, 65534), 0);
        assert_int_equal(looks_later(), 1);
    }
}

static int make_scratch(void **state)
{
    (void)state;
    snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/test_vmfiles.XXXXXX");
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", scratch_folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_looked_into_once),
        cmocka_unit_test(what_was_written_since_is_looked_into_again),
        cmocka_unit_test(a_luajit_is_found),
        cmocka_unit_test(what_holds_none_is_remembered),
        cmocka_unit_test(only_the_users_own_is_believed),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
