/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads /proc/PID/mountinfo (proc(5)). See mounts.h. */
#include "base/mounts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* One line of mountinfo. */
struct mount {
    uint32_t major, minor;
    char *place;         /* the mount's path */
    const char *kind;    /* of file system */
    const char *options; /* of the file system */
};

/* Undo the escapes of white space and backslashes, in place. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        unsigned code;
        if (*s == '\\' && sscanf(s + 1, "%3o", &code) == 1 && s[1] && s[2] && s[3]) {
            *to++ = (char)code;
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
}

/* id parent major:minor root place options fields... - kind source options */
static bool parse(char *line, struct mount *ret)
{
    char *rest, *words[5];
    char *tail = strstr(line, " - ");
    if (!tail)
        return false;
    *tail = 0;
    words[0] = strtok_r(line, " ", &rest);
    for (int i = 1; i < 5; i++)
        words[i] = words[i - 1] ? strtok_r(NULL, " ", &rest) : NULL;
    if (!words[4] || sscanf(words[2], "%u:%u", &ret->major, &ret->minor) != 2)
        return false;
    ret->place = words[4];
    unescape(ret->place);
    ret->kind = strtok_r(tail + 3, " ", &rest);
    const char *source = strtok_r(NULL, " ", &rest);
    ret->options = source ? strtok_r(NULL, "\n", &rest) : NULL;
    return ret->kind != NULL;
}

static bool is_strangers(const struct mount *m)
{
    if (strcmp(m->kind, "fuse") != 0 && strncmp(m->kind, "fuse.", 5) != 0)
        return false;
    const char *user = m->options ? strstr(m->options, "user_id=") : NULL;
    unsigned long id = user ? strtoul(user + strlen("user_id="), NULL, 10) : UINT32_MAX;
    return id != 0 && id != geteuid();
}

/* Call `visit` for each mount that the process sees. */
static void for_each(pid_t pid, void (*visit)(void *context, const struct mount *m), void *context)
{
    enum { LINES_MAX = 1 << 17 }; /* (the kernel allows 100,000 mounts) */
    char path[64], *line = NULL;
    size_t room = 0;
    struct mount m;
    snprintf(path, sizeof(path), pid ? "/proc/%d/mountinfo" : "/proc/self/mountinfo", (int)pid);
    FILE *f = fopen(path, "re");
    for (int i = 0; f && i < LINES_MAX && getline(&line, &room, f) > 0; i++) {
        if (parse(line, &m))
            visit(context, &m);
    }
    free(line);
    if (f)
        fclose(f);
}

/* Whether a device may be FUSE's. The kernel lists all of them as folders of fusectl, if that is
 * mounted: a machine with many containers has thousands of mounts to look through otherwise. */
static bool may_be_fuse(uint32_t minor)
{
    enum { FUSECTL_MAGIC = 0x65735543 };
    static const char folder[] = "/sys/fs/fuse/connections";
    char path[64];
    struct statfs fs;
    struct stat st;
    if (statfs(folder, &fs) < 0 || fs.f_type != FUSECTL_MAGIC)
        return true;
    snprintf(path, sizeof(path), "%s/%" PRIu32, folder, minor);
    return stat(path, &st) == 0;
}

struct by_device {
    uint32_t major, minor;
    bool strangers;
};

static void visit_device(void *context, const struct mount *m)
{
    struct by_device *d = context;
    if (m->major == d->major && m->minor == d->minor)
        d->strangers |= is_strangers(m);
}

bool mounts_is_strangers(pid_t pid, uint32_t major, uint32_t minor)
{
    struct by_device d = {.major = major, .minor = minor};
    if (!major && may_be_fuse(minor))
        for_each(pid, visit_device, &d);
    return d.strangers;
}

struct by_path {
    const char *path;
    size_t longest; /* bytes of the longest mount path that the path begins with, and 1 */
    bool strangers;
};

static void visit_path(void *context, const struct mount *m)
{
    struct by_path *p = context;
    size_t length = strlen(m->place);
    bool is_root = length == 1;
    if (strncmp(p->path, m->place, length) != 0 ||
        (!is_root && p->path[length] && p->path[length] != '/') || length + 1 < p->longest)
        return;
    p->longest = length + 1; /* of equal ones the last is on top */
    p->strangers = is_strangers(m);
}

bool mounts_path_is_strangers(pid_t pid, const char *path)
{
    struct by_path p = {.path = path};
    for_each(pid, visit_path, &p);
    return p.strangers;
}
