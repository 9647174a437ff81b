/* SPDX-License-Identifier: GPL-2.0-only */
/* What an old kernel lacks, or an emulator of single processes (qemu-user, tests/aarch64/unit).
 * Each function here skips the case if it is not there, and says so. Include it behind cmocka.h. */
#ifndef TESTS_KERNEL_FIXTURE_H
#define TESTS_KERNEL_FIXTURE_H

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Files are opened below the root of another process. */
static inline void need_openat2(void)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
    if (fd >= 0)
        close(fd);
    else if (errno == ENOSYS) {
        print_message("this kernel has no openat2()\n");
        skip();
    }
}

/* Returns e_machine of an ELF file; 0: it has none. */
static inline unsigned machine_of_file(const char *path)
{
    Elf64_Ehdr head = {.e_machine = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, &head, sizeof(head)) != sizeof(head))
        head.e_machine = 0;
    if (fd >= 0)
        close(fd);
    return head.e_machine;
}

/* The program that runs in `pid`, a child that is ended if not, is of this test's machine. */
static inline void need_program_of_our_machine(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    unsigned theirs = machine_of_file(path);
    if (theirs && theirs != machine_of_file("/proc/self/exe")) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        print_message("programs that are started here are of another machine\n");
        skip();
    }
}

/* madvise(MADV_WIPEONFORK) does what it says. */
static inline void need_wipe_on_fork(void)
{
    const int on = MAP_PRIVATE | MAP_ANONYMOUS;
    int status = 0;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, on, -1, 0);
    assert_true(page != MAP_FAILED && madvise(page, 4096, MADV_WIPEONFORK) == 0);
    *page = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(*page);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    munmap(page, 4096);
    if (WEXITSTATUS(status) != 0) {
        print_message("madvise(MADV_WIPEONFORK) has no effect here\n");
        skip();
    }
}

/* Returns how many threads the kernel knows of this process: an emulator has some of its own. */
static inline size_t kernel_threads(void)
{
    size_t nr = 0;
    char path[48];
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(path, sizeof(path), f))
        (void)sscanf(path, "Threads: %zu", &nr);
    if (f)
        fclose(f);
    return nr;
}

#endif
