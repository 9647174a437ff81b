/* SPDX-License-Identifier: GPL-2.0-only */
/* A process that has given up its privileges gets from its broker what a recorder reads, and
 * nothing else. The tests play such a process: they ask, and send what no process should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/broker.h"
#include "base/other_file.h"
#include "base/process_maps.h"
#include "kernel_fixture.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int confine_nothing(int socket, struct error *err)
{
    (void)socket;
    (void)err;
    return 0;
}

static int begin(void **state)
{
    struct error err;
    int *socket = malloc(sizeof(*socket));
    *state = socket;
    *socket = broker_begin(confine_nothing, &err);
    return *socket < 0;
}

static int end(void **state)
{
    free(*state);
    broker_end();
    return 0;
}

static const char *write_file(const char *name, const char *content)
{
    const char *at = path(name);
    FILE *f = fopen(at, "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
    return at;
}

static void assert_opens(int fd)
{
    char byte;
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    assert_true(read(fd, &byte, 1) >= 0);
    close(fd);
}

static void assert_refused(int fd, int why)
{
    assert_int_equal(fd, -1);
    assert_int_equal(errno, why);
}

static void programs_and_written_code_are_given(void **state)
{
    (void)state;
    need_openat2();
    assert_opens(other_file_open("/proc/self/exe")); /* (an ELF file) */
    assert_opens(other_file_open_in_root(getpid(), write_file("x.so", "\177ELF and more")));
    assert_opens(other_file_open(write_file("jit-1.dump", "DTiJ....")));
    assert_opens(other_file_open(write_file("other.dump", "JiTD....")));
    assert_opens(other_file_open_shared(write_file("perf-12.map", "1000 10 f\n")));
    assert_opens(other_file_open(write_file("perf-13.map", "0x1000 0x10 a b\n")));
    assert_opens(other_file_open_in_root(getpid(), write_file("jit-2.dump", "")));
    assert_opens(other_file_open_in_root(getpid(), write_file("perf-14.map", "")));
}

static void other_files_are_not(void **state)
{
    (void)state;
    need_openat2();
    assert_refused(other_file_open("/etc/passwd"), ENOTSUP);
    assert_refused(other_file_open_shared("/etc/passwd"), ENOTSUP);
    assert_refused(other_file_open_in_root(getpid(), "/etc/passwd"), ENOTSUP);
    assert_refused(other_file_open("/dev/null"), ENOTSUP);
    assert_refused(other_file_open("/nowhere"), ENOENT);
    assert_refused(other_file_open(write_file("jit-3.dump", "secret")), ENOTSUP);
    assert_refused(other_file_open_in_root(getpid(), write_file("empty", "")), ENOTSUP);
    assert_refused(other_file_open(write_file("jit-4.dump", "")), ENOTSUP); /* whose is it? */
    if (geteuid() == 0) {
        const char *theirs = write_file("jit-5.dump", "");
        assert_int_equal(chown(theirs, 65534, 65534), 0);
        assert_refused(other_file_open_in_root(getpid(), theirs), ENOTSUP);
    }
    assert_refused(other_file_open(write_file("perf-12.map.secret", "x")), ENOTSUP);
    assert_refused(other_file_open(write_file("perf-x.map", "1000 10 f\n")), ENOTSUP);
    assert_refused(other_file_open(write_file("perf-12.map", "secret")), ENOTSUP);
    assert_refused(other_file_open(write_file("perf-12.map", "12 secret words")), ENOTSUP);
    char longer[PATH_MAX + 2];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    assert_refused(other_file_open(longer), ENAMETOOLONG);
}

/* Who owns the folder puts a link there. */
static void a_name_gives_no_file_away(void **state)
{
    (void)state;
    need_openat2();
    const char *link = path("perf-15.map");
    assert_int_equal(symlink("/etc/passwd", link), 0);
    assert_refused(other_file_open(link), ENOTSUP);
    assert_refused(other_file_open_shared(link), ENOTSUP);
    assert_refused(other_file_open_in_root(getpid(), link), ENOTSUP);
}

/* What a process has mapped is no reason to give a file away. */
static void a_mapped_file_must_be_a_program(void **state)
{
    struct process_maps maps;
    struct stat st;
    bool gone = false;
    (void)state;
    assert_true(other_file_stat("/etc/passwd", &st));
    const struct process_map text = {.path = "/etc/passwd", .inode = st.st_ino, .end = 4096};
    assert_refused(other_file_open_mapped(getpid(), &text, &gone), ENOTSUP);
    assert_int_equal(process_maps_read(getpid(), &maps, NULL), 0);
    size_t first = 0; /* file */
    while (maps.maps.at[first].path[0] != '/')
        first++;
    assert_opens(other_file_open_mapped(getpid(), &maps.maps.at[first], &gone));
    assert_false(gone);
    process_maps_free(&maps);
}

static void files_of_proc_are_given_by_name(void **state)
{
    const uint64_t here = 0x123456789abcdef0;
    uint64_t read = 0;
    (void)state;
    int memory = proc_open(getpid(), "mem");
    assert_int_equal(pread(memory, &read, sizeof(read), (off_t)(uintptr_t)&here), sizeof(read));
    assert_true(read == here);
    close(memory);
    int pages = proc_open(getpid(), "pagemap");
    assert_int_equal(pread(pages, &read, sizeof(read), (off_t)((uintptr_t)&here / 4096 * 8)), 8);
    close(pages);
    assert_opens(proc_open(getpid(), "status"));
    assert_opens(proc_open(getpid(), "maps"));
    assert_refused(proc_open(getpid(), "environ"), EINVAL);
    assert_refused(proc_open(getpid(), "../1/status"), EINVAL);
    assert_refused(proc_open(getpid(), "root/etc/shadow"), EINVAL);
}

/* The broker and we see the same. */
static void places_are_what_they_are(void **state)
{
    char link[64];
    struct proc_place mnt, all[PROC_NAMESPACES], refused;
    struct stat st;
    (void)state;
    assert_true(proc_place(getpid(), "ns/mnt", &mnt));
    assert_int_equal(stat("/proc/self/ns/mnt", &st), 0);
    assert_true(mnt.ino == st.st_ino && mnt.dev == st.st_dev);
    proc_namespaces(getpid(), all);
    assert_true(all[5].ino == mnt.ino && all[0].is_there);
    assert_false(proc_is_apart((uint32_t)getpid(), "mnt"));
    assert_false(proc_has_own_root((uint32_t)getpid()));
    assert_false(proc_is_gone(getpid()));
    assert_true(proc_is_gone(0x7ffffff0));
    assert_false(proc_place(getpid(), "ns/../../1/exe", &refused));
    assert_false(proc_place(getpid(), "cwd", &refused));
    snprintf(link, sizeof(link), "fd/%d", STDERR_FILENO);
    assert_false(proc_place(getpid(), link, &refused));
}

static void processes_and_threads_are_listed(void **state)
{
    struct proc_task tasks[4];
    static pid_t pids[PROC_PIDS_MAX];
    bool found = false;
    char comm[16] = "";
    int maps;
    (void)state;
    const size_t threads = kernel_threads();
    assert_in_range(threads, 1, 4);
    assert_int_equal(prctl(PR_GET_NAME, comm), 0);
    assert_int_equal(proc_tasks(getpid(), 0, tasks, 4, &maps), threads);
    assert_true(tasks[0].tid == getpid() && tasks[0].ppid == (uint32_t)getppid());
    assert_string_equal(tasks[0].comm, comm);
    assert_opens(maps);
    assert_int_equal(proc_tasks(getpid(), 1, tasks, 4, NULL), threads - 1);
    size_t nr = proc_processes(0, pids, PROC_PIDS_MAX);
    for (size_t i = 0; i < nr; i++)
        found |= pids[i] == getpid();
    assert_true(found);
    assert_true(proc_processes(getpid() - 1, pids, 1) == 1 && pids[0] == getpid());
}

/* Send bytes, and look what becomes of the broker: it ends, and says nothing. */
static void assert_ends(int socket, const void *bytes, size_t size)
{
    char answer[64];
    assert_int_equal(send(socket, bytes, size, MSG_NOSIGNAL), size);
    assert_int_equal(recv(socket, answer, sizeof(answer), 0), 0);
    assert_refused(other_file_open("/proc/self/exe"), EPIPE);
}

/* Send a request with bytes behind it. */
static void assert_wrong(int socket, struct broker_request q, const char *path, size_t size)
{
    uint8_t bytes[sizeof(q) + PATH_MAX + 1] = {0};
    memcpy(bytes, &q, sizeof(q));
    memcpy(bytes + sizeof(q), path, strlen(path));
    assert_ends(socket, bytes, sizeof(q) + size);
}

static void a_request_must_be_whole(void **state)
{
    const struct broker_request q = {.what = BROKER_FILE};
    assert_wrong(*(int *)*state, q, "/proc/self/exe", 3); /* no end */
}

static void a_request_has_a_path(void **state)
{
    const struct broker_request q = {.what = BROKER_TASKS, .pid = 1};
    assert_wrong(*(int *)*state, q, "", 0);
}

static void a_path_ends_once(void **state)
{
    const struct broker_request q = {.what = BROKER_FILE};
    assert_wrong(*(int *)*state, q, "/proc/self/exe", PATH_MAX);
}

static void a_request_must_be_known(void **state)
{
    const struct broker_request q = {.what = BROKER_PROCESSES + 1};
    assert_wrong(*(int *)*state, q, "", 1);
}

static void a_process_has_a_number(void **state)
{
    const struct broker_request q = {.what = BROKER_TASKS, .pid = -1};
    assert_wrong(*(int *)*state, q, "", 1);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/test_broker.XXXXXX");
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    return 0;
}

#define with_broker(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_broker(programs_and_written_code_are_given),
        with_broker(other_files_are_not),
        with_broker(a_name_gives_no_file_away),
        with_broker(a_mapped_file_must_be_a_program),
        with_broker(files_of_proc_are_given_by_name),
        with_broker(places_are_what_they_are),
        with_broker(processes_and_threads_are_listed),
        with_broker(a_request_must_be_whole),
        with_broker(a_request_has_a_path),
        with_broker(a_path_ends_once),
        with_broker(a_request_must_be_known),
        with_broker(a_process_has_a_number),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
