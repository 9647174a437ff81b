/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unprivileged processes that harm whoever looks at them. usage: strangers WHAT FOLDER
 *   cut FOLDER       maps an ELF file as code, and cuts it short whenever somebody opens it
 *   headers FOLDER   maps an ELF file of 4 KB whose header promises 30 million sections
 *   notes FOLDER     maps an ELF file of 60,000 note sections, all of the same 8 MB of zeros
 *   links FOLDER     puts a link to a file that only root reads where its perf map is looked for
 *   churn FOLDER     maps and unmaps code, and makes processes that end at once
 *   dump FOLDER      maps a jitdump of 8 GB whose records lie about their sizes
 *   fifos FOLDER     puts FIFOs and links where the perf maps of many processes are looked for
 *   closed FOLDER    may not be read or traced by its user
 *   root FOLDER      is root in a user namespace of its own, below a root of its own
 *   fuse FOLDER      (begun by root) maps code of a file system in user space that answers no more
 */
#include "many_sections.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
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

static void ready(void)
{
    puts("ready");
    fflush(stdout);
}

/* Records of a jitdump: a head that is right, then sizes that are not. */
static void dump(const char *folder)
{
    const uint32_t head[] = {0x4A695444, 1, 40, 62, 0, (uint32_t)getpid(), 0, 0, 0, 0};
    const uint32_t records[][4] = {
        {0, 0xffffffff, 0, 0}, {1, 0, 0, 0}, {0, 16, 0, 0}, {7, 8, 0, 0}};
    snprintf(file, sizeof(file), "%s/jit-%d.dump", folder, (int)getpid());
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, head, sizeof(head)) < 0 || write(fd, records, sizeof(records)) < 0 ||
        ftruncate(fd, (off_t)8 << 30))
        die(file);
    close(fd);
    map_code(O_RDONLY, 4096);
    ready();
}

static void fifos(void)
{
    enum { NR = 500 };
    char path[64];
    for (int i = 0; i < NR; i++) {
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid() + i);
        if (i % 2 ? symlink("/proc/1/mem", path) : mkfifo(path, 0666))
            continue; /* another's */
    }
    ready();
    for (;;) { /* processes whose perf maps they are */
        pid_t child = fork();
        if (!child) {
            mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (volatile int i = 0; i < 10000000; i++)
                ;
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        die(path);
    close(fd);
}

/* Its perf map's name leads out of its root. */
static void own_root(const char *folder)
{
    char map[64], own[64];
    snprintf(own, sizeof(own), "0 %d 1", (int)getuid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
        puts("no user namespaces here");
        exit(1);
    }
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", own);
    snprintf(own, sizeof(own), "0 %d 1", (int)getgid());
    put("/proc/self/gid_map", own);
    if (mount("tmpfs", folder, "tmpfs", 0, NULL) || chdir(folder) || mkdir("tmp", 0777) ||
        chroot("."))
        die("chroot");
    snprintf(map, sizeof(map), "tmp/perf-%d.map", (int)getpid());
    if (symlink("../../../../../../etc/shadow", map))
        die(map);
    char *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        die("code");
    ready();
}

/* ---- a file system of one file ------------------------------------------------------------- */

enum { FOLDER = FUSE_ROOT_ID, CODE = 2, SIZE = 1 << 20 };

static struct fuse_attr attr_of(uint64_t node)
{
    return (struct fuse_attr){.ino = node,
                              .mode = node == CODE ? S_IFREG | 0755 : S_IFDIR | 0755,
                              .nlink = 1,
                              .size = node == CODE ? SIZE : 0,
                              .blksize = 4096};
}

static void answer(int fd, const struct fuse_in_header *to, int error, const void *with,
                   size_t size)
{
    static char out[sizeof(struct fuse_out_header) + SIZE];
    struct fuse_out_header head = {(uint32_t)(sizeof(head) + size), -error, to->unique};
    memcpy(out, &head, sizeof(head));
    if (size)
        memcpy(out + sizeof(head), with, size);
    if (write(fd, out, head.len) < 0 && to->opcode != FUSE_FORGET)
        perror("fuse");
}

static void answer_one(int fd, const char *request)
{
    static char content[SIZE];
    const struct fuse_in_header *in = (const struct fuse_in_header *)request;
    const struct fuse_init_in *init = (const struct fuse_init_in *)(in + 1);
    const struct fuse_read_in *part = (const struct fuse_read_in *)(in + 1);
    const struct fuse_entry_out entry = {.nodeid = CODE, .attr = attr_of(CODE)};
    const struct fuse_attr_out attr = {.attr = attr_of(in->nodeid)};
    const struct fuse_open_out opened = {.fh = 1};
    const struct fuse_init_out begun = {.major = FUSE_KERNEL_VERSION,
                                        .minor = init->minor,
                                        .max_readahead = 4096,
                                        .max_write = 4096};
    switch (in->opcode) {
    case FUSE_INIT:
        answer(fd, in, 0, &begun, sizeof(begun));
        break;
    case FUSE_LOOKUP:
        answer(fd, in, 0, &entry, sizeof(entry));
        break;
    case FUSE_GETATTR:
        answer(fd, in, 0, &attr, sizeof(attr));
        break;
    case FUSE_OPEN:
        answer(fd, in, 0, &opened, sizeof(opened));
        break;
    case FUSE_READ:
        answer(fd, in, 0, content, part->offset < SIZE ? part->size : 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        break;
    default:
        answer(fd, in, ENOSYS, NULL, 0);
    }
}

/* Answer until another process has written a byte, and never again. */
static void serve(int fd, int enough)
{
    static char request[1 << 20];
    struct pollfd of[] = {{.fd = fd, .events = POLLIN}, {.fd = enough, .events = POLLIN}};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (poll(of, 2, -1) > 0 && !of[1].revents)
        if (read(fd, request, sizeof(request)) > 0)
            answer_one(fd, request);
    for (;;)
        pause();
}

static void fuse(const char *folder)
{
    enum { NOBODY = 65534 };
    char options[160];
    int fd = open("/dev/fuse", O_RDWR), enough[2];
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other",
             fd, NOBODY, NOBODY);
    if (fd < 0 || pipe(enough) ||
        mount("strangers", folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
        puts("no FUSE here");
        exit(1);
    }
    if (setgid(NOBODY) || setuid(NOBODY))
        die("setuid");
    if (!fork())
        serve(fd, enough[0]);
    close(fd);
    snprintf(file, sizeof(file), "%s/code", folder);
    volatile char *code = map_code(O_RDONLY, SIZE);
    (void)*code;
    if (write(enough[1], "x", 1) != 1)
        die("pipe");
    usleep(50000);
    ready();
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
    else if (!strcmp(what, "dump"))
        dump(argv[2]);
    else if (!strcmp(what, "fifos"))
        fifos();
    else if (!strcmp(what, "closed") && !prctl(PR_SET_DUMPABLE, 0))
        ready();
    else if (!strcmp(what, "root"))
        own_root(argv[2]);
    else if (!strcmp(what, "fuse"))
        fuse(argv[2]);
    else if (!strcmp(what, "headers"))
        write_elf(30000000, (Elf64_Shdr){0}, 0);
    else if (!strcmp(what, "notes"))
        write_elf(60000, notes, 8 << 20);
    else
        return 2;
    if (!strcmp(what, "headers") || !strcmp(what, "notes")) {
        map_code(O_RDONLY, 4096);
        ready();
    }
    for (;;)
        for (volatile int i = 0; i < 1000000; i++) /* samples are wanted of it */
            usleep(i % 1000 ? 0 : 1000);
}
