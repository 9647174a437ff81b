/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unprivileged processes that harm whoever looks at them. usage: strangers WHAT FOLDER
 *   cut FOLDER       maps an ELF file as code, and cuts it short whenever somebody opens it
 *   headers FOLDER   maps an ELF file of 4 KB whose header promises 30 million sections
 *   notes FOLDER     maps an ELF file of 60,000 note sections, all of the same 8 MB of zeros
 *   links FOLDER     puts a link to a file that only root reads where its perf map is looked for
 *   churn FOLDER     maps and unmaps code, and makes processes that end at once
 */
#include "many_sections.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char file[4096];

static void die(const char *why)
{
    perror(why);
    exit(1);
}

static void write_elf(uint32_t nr, Elf64_Shdr section, off_t tail)
{
    if (write_many_sections(file, nr, section, tail))
        die(file);
}

static void *map_code(int flags, size_t size)
{
    int fd = open(file, flags);
    void *at = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        die(file);
    close(fd);
    return at;
}

static void cut(void)
{
    enum { NR = 60000 };
    char events[4096];
    struct stat st;
    write_elf(NR, (Elf64_Shdr){.sh_type = SHT_NOTE, .sh_offset = 64, .sh_size = 64}, 0);
    map_code(O_RDONLY, 4096);
    int fd = open(file, O_RDWR), watch = inotify_init();
    if (fd < 0 || fstat(fd, &st) || inotify_add_watch(watch, file, IN_OPEN) < 0)
        die(file);
    char *copy = malloc((size_t)st.st_size);
    if (!copy || pread(fd, copy, (size_t)st.st_size, 0) != st.st_size)
        die(file);
    puts("ready");
    fflush(stdout);
    while (read(watch, events, sizeof(events)) > 0) {
        if (ftruncate(fd, 0))
            die(file);
        usleep(20000);
        if (pwrite(fd, copy, (size_t)st.st_size, 0) != st.st_size)
            die(file);
    }
}

/* The pid of the process that will be looked at is this one's. */
static void links(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    unlink(path);
    if (symlink("/etc/shadow", path))
        die(path);
    char *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        die("code");
    memcpy(code, "\xeb\xfe", 2); /* jmp . */
    puts("ready");
    fflush(stdout);
    ((void (*)(void))code)();
}

static void churn(void)
{
    puts("ready");
    fflush(stdout);
    for (;;) {
        pid_t child = fork();
        if (!child) {
            for (int i = 0; i < 100; i++)
                munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                       4096);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *what = argv[1];
    const Elf64_Shdr notes = {.sh_type = SHT_NOTE,
                              .sh_offset = sizeof(Elf64_Ehdr) + 60000 * sizeof(Elf64_Shdr),
                              .sh_size = 8 << 20};
    snprintf(file, sizeof(file), "%s/%s.elf", argv[2], what);
    if (!strcmp(what, "cut"))
        cut();
    else if (!strcmp(what, "links"))
        links();
    else if (!strcmp(what, "churn"))
        churn();
    else if (!strcmp(what, "headers"))
        write_elf(30000000, (Elf64_Shdr){0}, 0);
    else
        write_elf(60000, notes, 8 << 20);
    if (!strcmp(what, "headers") || !strcmp(what, "notes"))
        map_code(O_RDONLY, 4096);
    puts("ready");
    fflush(stdout);
    for (;;)
        for (volatile int i = 0; i < 1000000; i++) /* samples are wanted of it */
            usleep(i % 1000 ? 0 : 1000);
}
