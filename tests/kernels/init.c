// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first program of a guest (tests/kernels/run): mounts what programs expect, loads the modules
 * in /modules in the order of their names, runs /kernels/guest, and switches the machine off.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *type, *where, *options;
} mounts[] = {
    {"proc", "/proc", NULL},
    {"sysfs", "/sys", NULL},
    {"devtmpfs", "/dev", NULL},
    {"tmpfs", "/dev/shm", "mode=1777"},
    {"tracefs", "/sys/kernel/tracing", NULL},
    {"bpf", "/sys/fs/bpf", NULL},
    {"securityfs", "/sys/kernel/security", NULL},
};

static void load_modules(void)
{
    struct dirent **entries;
    int nr = scandir("/modules", &entries, NULL, alphasort);
    for (int i = 0; i < nr; i++) {
        char path[512];
        if (entries[i]->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/modules/%s", entries[i]->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST)
            printf("init: %s: %s\n", path, strerror(errno));
        close(fd);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
        mkdir(mounts[i].where, 0755);
        if (mount(mounts[i].type, mounts[i].where, mounts[i].type, 0, mounts[i].options) != 0)
            printf("init: %s: %s\n", mounts[i].where, strerror(errno));
    }
    load_modules();
    fflush(stdout);
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    setenv("HOME", "/root", 1);
    setenv("LC_ALL", "C", 1);
    pid_t guest = fork();
    if (guest == 0) {
        execl("/kernels/guest", "guest", (char *)NULL);
        perror("init: /kernels/guest");
        _exit(127);
    }
    /* also reap processes that lost their parent */
    while (wait(NULL) != guest)
        ;
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
