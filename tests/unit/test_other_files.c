/* SPDX-License-Identifier: GPL-2.0-only */
/* Files that others own or change: maps of files that are cut, links, FIFOs, devices, headers that
 * cost memory and time; and files that only the caller may read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel_fixture.h"

#include "base/file_map.h"
#include "base/other_file.h"
#include "base/private_file.h"
#include "base/text.h"
#include "dso/elf_image.h"
#include "scratch.h"
#include "tests/truth/many_sections.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- maps ---------------------------------------------------------------------------------- */

/* A file of PAGES pages of 'a', and its map. Threads use it, so it cannot call path(). */
static uint8_t *map_of(const char *name, int *fd)
{
    char bytes[PAGE], file[512];
    memset(bytes, 'a', sizeof(bytes));
    snprintf(file, sizeof(file), "%s/%s", scratch_folder, name);
    *fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(*fd >= 0);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(write(*fd, bytes, sizeof(bytes)), sizeof(bytes));
    uint8_t *map = file_map(*fd, PAGE * PAGES);
    assert_non_null(map);
    return map;
}

static void what_is_cut_reads_as_zero(void **state)
{
    int fd, other_fd;
    (void)state;
    uint8_t *map = map_of("cut", &fd), *other = map_of("other", &other_fd);
    assert_int_equal(map[PAGE * PAGES - 1], 'a');
    assert_false(file_map_was_cut(map));
    assert_int_equal(ftruncate(fd, PAGE + 10), 0);
    assert_int_equal(map[PAGE + 9], 'a');
    assert_int_equal(map[2 * PAGE], 0);
    assert_int_equal(map[PAGE * PAGES - 1], 0);
    assert_true(file_map_was_cut(map));
    assert_false(file_map_was_cut(other));
    assert_int_equal(other[PAGE * PAGES - 1], 'a');
    file_unmap(map, PAGE * PAGES);
    file_unmap(other, PAGE * PAGES);
    close(fd);
    map = map_of("cut", &fd); /* in an entry that was used before */
    assert_false(file_map_was_cut(map));
    file_unmap(map, PAGE * PAGES);
    close(fd);
    close(other_fd);
}

static void *cut_and_read(void *name)
{
    for (int i = 0; i < 200; i++) {
        int fd;
        uint8_t *map = map_of(name, &fd);
        if (ftruncate(fd, 0) || map[PAGE * (i % PAGES)] || !file_map_was_cut(map))
            return name;
        file_unmap(map, PAGE * PAGES);
        close(fd);
    }
    return NULL;
}

static void threads_cut_and_read_side_by_side(void **state)
{
    static char names[4][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    void *failed;
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, cut_and_read, names[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

/* A fault in memory that is no file_map() is still fatal. */
static void other_faults_stay_fatal(void **state)
{
    int fd, status;
    (void)state;
    pid_t child = fork();
    if (!child) {
        signal(SIGBUS, SIG_DFL); /* cmocka has a handler, too */
        uint8_t *map = map_of("fatal", &fd);
        const volatile uint8_t *plain = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
        _exit(ftruncate(fd, 0) || map[0] || *plain);
    }
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

/* ---- opening ------------------------------------------------------------------------------- */

static void only_regular_files_are_opened(void **state)
{
    (void)state;
    shell("mkfifo fifo; echo text > file; ln -s file link; mkdir folder");
    int fd = other_file_open(path("link"));
    assert_true(fd >= 0);
    close(fd);
    static const char *const others[] = {"fifo", "folder"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(other_file_open(path(others[i])), -1);
        assert_int_equal(errno, ENOTSUP);
    }
    assert_int_equal(other_file_open("/dev/null"), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_int_equal(other_file_open(path("absent")), -1);
    assert_int_equal(errno, ENOENT);
}

/* A process with another root: its links lead to its own files. */
static void links_stay_in_the_processs_root(void **state)
{
    char byte;
    int ready[2];
    struct stat st;
    (void)state;
    if (geteuid() != 0)
        skip();
    need_openat2();
    shell("mkdir -p root/etc; echo theirs > root/etc/secret; echo host > outside; "
          "ln -s /etc/secret root/link; ln -s ../../../../../../../../../../etc/secret root/up; "
          "ln -s %s root/out; ln -s /proc/self/root/etc root/magic",
          path("outside"));
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        byte = chroot(path("root")) == 0 && chdir("/") == 0;
        _exit(write(ready[1], &byte, 1) == 1 ? pause() : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    static const char *const inside[] = {"/etc/secret", "/./etc/../etc/secret"};
    for (size_t i = 0; i < 2; i++) {
        int fd = other_file_open_in_root(child, inside[i]);
        assert_true(fd >= 0);
        char text[8] = {0};
        assert_int_equal(read(fd, text, 6), 6);
        assert_string_equal(text, "theirs");
        close(fd);
    }
    /* a link at the end is not followed, and one on the way stays inside */
    static const char *const refused[] = {"/link", "/up", "/out", "/magic/secret", "/absent"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(other_file_open_in_root(child, refused[i]), -1);
    assert_true(other_file_stat_in_root(child, "/etc/secret", &st));
    assert_true(other_file_stat_in_root(child, "/link", &st) && S_ISLNK(st.st_mode));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

static void a_mapped_file_is_found_after_it_is_gone(void **state)
{
    bool gone;
    struct stat st;
    (void)state;
    if (geteuid() != 0)
        skip();
    shell("head -c 8192 /dev/zero > mapped");
    int fd = open(path("mapped"), O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(at != MAP_FAILED && fstat(fd, &st) == 0);
    const struct process_map map = {.start = (uintptr_t)at,
                                    .end = (uintptr_t)at + PAGE,
                                    .inode = st.st_ino,
                                    .path = path("mapped")};
    int found = other_file_open_mapped(getpid(), &map, &gone);
    assert_true(found >= 0 && !gone);
    close(found);
    shell("rm mapped; mkfifo mapped");
    found = other_file_open_mapped(getpid(), &map, &gone);
    assert_true(found >= 0 && gone);
    close(found);
    struct process_map other = map;
    other.inode++;
    assert_int_equal(other_file_open_mapped(getpid(), &other, &gone), -1);
    munmap(at, PAGE);
    close(fd);
}

/* ---- headers ------------------------------------------------------------------------------- */

static void write_sections(const char *name, uint32_t nr, Elf64_Shdr section, off_t tail)
{
    assert_int_equal(write_many_sections(path(name), nr, section, tail), 0);
}

static void headers_cost_no_more_than_real_ones(void **state)
{
    (void)state;
    struct elf_image *image;
    struct error err;
    double began = seconds();
    write_sections("sparse", 30000000, (Elf64_Shdr){0}, 0); /* 4 KB on disk */
    if (elf_image_open(path("sparse"), &image, &err) == 0) {
        assert_true(image->tables->nr_sections <= 1 << 16);
        elf_image_free(image);
    }
    enum { NR = 60000, ZEROS = 8 << 20 };
    const Elf64_Shdr notes = {.sh_type = SHT_NOTE,
                              .sh_offset = sizeof(Elf64_Ehdr) + NR * sizeof(Elf64_Shdr),
                              .sh_size = ZEROS};
    write_sections("notes", NR, notes, ZEROS); /* each all of the same zeros */
    assert_int_equal(elf_image_open(path("notes"), &image, &err), 0);
    assert_int_equal(image->build_id.size, 0);
    elf_image_free(image);
    assert_true(seconds() - began < 5); /* it was minutes */
}

static void a_file_cut_while_it_is_read_is_said(void **state)
{
    (void)state;
    struct elf_image *image;
    struct error err;
    shell("cp /bin/true cut.elf");
    assert_int_equal(elf_image_open(path("cut.elf"), &image, &err), 0);
    assert_false(elf_image_was_cut(image));
    assert_int_equal(truncate(path("cut.elf"), 0), 0);
    struct elf_section s;
    if (elf_image_section(image, ".text", &s))
        for (size_t i = 0; i < s.size; i++)
            assert_int_equal(s.bytes[i], 0);
    assert_true(elf_image_was_cut(image));
    elf_image_free(image);
}

/* ---- private files ------------------------------------------------------------------------- */

static void recordings_are_the_callers_alone(void **state)
{
    struct stat st;
    (void)state;
    shell("rm -f new old; echo old > old; chmod 644 old");
    int fd = private_file_create(path("new"));
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close(fd);
    fd = private_file_create(path("old"));
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, 0);
    close(fd);
    fd = private_file_create("/dev/null");
    assert_true(fd >= 0);
    close(fd);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(path("old"), 65534, 65534), 0);
    assert_int_equal(private_file_create(path("old")), -1);
    assert_int_equal(errno, EPERM);
    setenv("SUDO_UID", "65534", 1);
    setenv("SUDO_GID", "65534", 1);
    fd = private_file_create(path("old"));
    assert_true(fd >= 0);
    close(fd);
    unlink(path("new"));
    fd = private_file_create(path("new"));
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(st.st_uid, 65534);
    close(fd);
    unsetenv("SUDO_UID");
    unsetenv("SUDO_GID");
}

/* ---- names --------------------------------------------------------------------------------- */

static void what_cannot_be_seen_is_escaped(void **state)
{
    static const struct {
        const char *name, *clean;
    } names[] = {
        {"plain name", "plain name"},
        {"\u00e9t\u00e9 \u65e5 \U0001F600", "\u00e9t\u00e9 \u65e5 \U0001F600"},
        {"a\033[2Jb", "a%1B[2Jb"},
        {"c1\xc2\x9b"
         "2J",
         "c1%C2%9B2J"}, /* CSI of one character */
        {"\x9b"
         "2J",
         "%9B2J"},                   /* the same in Latin-1 */
        {"a\u202eb", "a%E2%80%AEb"}, /* right to left */
        {"a\u2066b", "a%E2%81%A6b"},
        {"a\u200bb\ufeff", "a%E2%80%8Bb%EF%BB%BF"}, /* no width */
        {"a\u2028b", "a%E2%80%A8b"},                /* a line's end */
        {"cut\xe6\x97", "cut%E6%97"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct text t = {0};
        text_clean(&t, names[i].name);
        text_char(&t, 0);
        assert_string_equal(t.at, names[i].clean);
        text_free(&t);
    }
}

static int set_up(void **state)
{
    (void)state;
    snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/test_other_files.XXXXXX");
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_cut_reads_as_zero),
        cmocka_unit_test(threads_cut_and_read_side_by_side),
        cmocka_unit_test(other_faults_stay_fatal),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(links_stay_in_the_processs_root),
        cmocka_unit_test(a_mapped_file_is_found_after_it_is_gone),
        cmocka_unit_test(headers_cost_no_more_than_real_ones),
        cmocka_unit_test(a_file_cut_while_it_is_read_is_said),
        cmocka_unit_test(recordings_are_the_callers_alone),
        cmocka_unit_test(what_cannot_be_seen_is_escaped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
