/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * jitdumps and perf maps: finds them, loads each once, and looks functions up in them.
 *
 * A runtime that writes a jitdump maps its first page executable: the name of this mapping
 * announces the file. Nothing announces a perf map. It is looked for once in the life of a program,
 * when the program first makes memory without a file executable. Both are read from the process's
 * own root, if that can still be reached.
 */
#include "base/intern.h"
#include "base/other_file.h"
#include "base/proc.h"
#include "base/text.h"
#include "session/recorded_memory.h"
#include "session/registers.h"
#include "session/snapshots.h"
#include "session/session_internal.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, USES_MAX = 1024 };

static int warn_once(struct session *s, const char *path, const char *what, struct error *err)
{
    const char *key = intern_string(s->names, path);
    if (!key)
        return error_no_memory(err);
    if (table_get(&s->warned, (uintptr_t)key))
        return 0;
    if (!table_put(&s->warned, (uintptr_t)key, (void *)key))
        return error_no_memory(err);
    return session_warn(s, err, "%s: %s", path, what);
}

/* ---- sets of files ------------------------------------------------------------------------- */

void jit_set_release(struct jit_set *set)
{
    if (set && atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) == 1)
        free(set);
}

static struct jit_set *set_create(uint32_t nr)
{
    struct jit_set *set = malloc(sizeof(*set) + nr * sizeof(set->uses[0]));
    if (!set)
        return NULL;
    atomic_init(&set->refs, 1);
    set->nr = nr;
    return set;
}

int jit_set_fork(struct jit_set *from, uint64_t time, struct jit_set **ret, struct error *err)
{
    *ret = NULL;
    if (!from)
        return 0;
    struct jit_set *set = set_create(from->nr);
    if (!set)
        return error_no_memory(err);
    for (uint32_t i = 0; i < set->nr; i++) {
        set->uses[i] = from->uses[i];
        if (time && time < set->uses[i].until)
            set->uses[i].until = time;
    }
    *ret = set;
    return 0;
}

/* Add a file to a process. Dumps are searched before maps, and later dumps before earlier ones. */
static int process_use(struct session *s, struct process *p, struct jit_file *file,
                       struct error *err)
{
    struct jit_set *old = p->space->jit;
    uint32_t nr = old ? old->nr : 0;
    for (uint32_t i = 0; i < nr; i++)
        if (old->uses[i].file == file && old->uses[i].until == UINT64_MAX)
            return 0;
    if (nr >= USES_MAX) /* for example, a host with a VM for each request */
        return warn_once(s, "jitdumps",
                         "a process has more than 1024 of them; the others are ignored", err);
    struct address_space *space = process_space(s, p);
    struct jit_set *set = space ? set_create(nr + 1) : NULL;
    if (!set)
        return error_no_memory(err);
    uint32_t at = file->from_map ? nr : 0;
    for (uint32_t i = 0; i < nr; i++)
        set->uses[i + (i >= at)] = space->jit->uses[i];
    set->uses[at] = (struct jit_use){file, UINT64_MAX};
    jit_set_release(space->jit);
    space->jit = set;
    jitcode_own(file->code, p->pid);
    return 0;
}

/* ---- loading ------------------------------------------------------------------------------ */

static uint64_t tsc_to_clock(const void *context, uint64_t stamp)
{
    const struct perfdata_time_conv *t = context;
    /* Layout and rule: PERF_RECORD_TIME_CONV. Short counters are extended first. */
    if (t->cap_short)
        stamp = t->cycles + ((stamp - t->cycles) & t->mask);
    uint64_t whole = t->shift < 64 ? stamp >> t->shift : 0;
    uint64_t rest = t->shift < 64 ? stamp & ((UINT64_C(1) << t->shift) - 1) : stamp;
    unsigned __int128 product = (unsigned __int128)rest * t->mult;
    return t->zero + whole * t->mult + (uint64_t)(t->shift < 128 ? product >> t->shift : 0);
}

/* If a writer uses some other clock, its stamps are far from the time when it was announced. */
static bool implausible(const struct jitcode *code, uint64_t announced)
{
    const uint64_t second = 1000000000, day = 86400 * second;
    uint64_t first, last;
    jitcode_time_range(code, &first, &last);
    if (announced == 0 || last == 0 || jitcode_is_timeless(code))
        return false;
    return (first > announced && first - announced > 10 * day) ||
           (last < announced && announced - last > 10 * second);
}

/* A file that was found, and is open: its owner may put another one in its place. */
struct place {
    char path[PATH_SIZE];
    int fd; /* -1: none was found */
    struct stat st;
};

static bool place_take(struct place *at, int fd)
{
    at->fd = fd;
    if (fd >= 0 && fstat(fd, &at->st) == 0)
        return true;
    if (fd >= 0)
        close(fd);
    at->fd = -1;
    return false;
}

static int dump_read(struct session *s, const struct place *at, uint64_t announced,
                     struct jitcode **ret, struct error *err)
{
    /* TIME_CONV converts to perf's own clock, which -k replaces. */
    const struct perfdata_time_conv *conv =
        s->clock_is_monotonic || !s->pd ? NULL : perfdata_time_conv(s->pd);
    /* A live process is asked for what it has now: only the order of times counts. */
    struct jitdump_options options = {.to_clock = conv ? tsc_to_clock : NULL,
                                      .context = conv,
                                      .ignore_times = s->pd && !s->clock_is_monotonic};
    if (jitdump_read(at->fd, at->path, &options, ret, err) < 0)
        return -1;
    bool wrong = implausible(*ret, announced);
    if (wrong) {
        jitcode_free(*ret);
        options = (struct jitdump_options){.ignore_times = true};
        if (jitdump_read(at->fd, at->path, &options, ret, err) < 0)
            return -1;
    }
    if (!jitcode_is_timeless(*ret))
        return 0;
    const char *what =
        wrong ? "its times are of another clock than the recording's; they are ignored, and names "
                "of code whose place was reused may be wrong"
        : jitcode_is_tsc(*ret)
            ? "its times count the processor's time stamps, which the recording does not relate to "
              "its clock; they are ignored, and names of code whose place was reused may be wrong"
            : "its times cannot be matched, because the recording was not made with "
              "CLOCK_MONOTONIC; names of code whose place was reused may be wrong; use perf record "
              "-k mono";
    return warn_once(s, at->path, what, err);
}

static struct jit_file *file_loaded(struct session *s, const struct stat *st, bool from_map)
{
    vec_foreach (f, &s->jit_files)
        if ((*f)->device == st->st_dev && (*f)->inode == st->st_ino && (*f)->from_map == from_map)
            return *f;
    return NULL;
}

static void jit_file_free(struct jit_file *f);

/* Takes ownership of `code` in any case. Returns NULL when out of memory. */
static struct jit_file *file_keep(struct session *s, struct jitcode *code, const struct stat *st,
                                  const struct session_jit_file *from)
{
    struct jit_file *f = calloc(1, sizeof(*f));
    if (!f) {
        jitcode_free(code);
        return NULL;
    }
    *f = (struct jit_file){
        .code = code, .device = st->st_dev, .inode = st->st_ino, .from_map = from->from_map};
    f->path = intern_string(s->names, from->path);
    f->name = intern_string(s->names, from->name);
    f->cfi = calloc(jitcode_count(code) + 1, sizeof(struct jit_cfi_slot));
    if (!f->path || !f->name || !f->cfi || !vec_push(&s->jit_files, f)) {
        jit_file_free(f);
        return NULL;
    }
    s->stats.jit_files++;
    s->stats.jit_functions += jitcode_count(code);
    return f;
}

/* Get a file, which is loaded now or was loaded before. Closes it. *ret NULL: it cannot be used,
 * and a warning says so. */
static int file_get(struct session *s, const struct place *at, const char *name, bool from_map,
                    uint64_t announced, struct jit_file **ret, struct error *err)
{
    struct error why;
    struct jitcode *code;
    *ret = file_loaded(s, &at->st, from_map);
    if (*ret) {
        close(at->fd);
        return 0;
    }
    int failed = from_map ? perfmap_read(at->fd, at->path, &code, &why)
                          : dump_read(s, at, announced, &code, &why);
    close(at->fd);
    if (failed && why.kind == ERROR_NO_MEMORY)
        return error_no_memory(err);
    size_t prefix = strlen(at->path);
    if (failed && strncmp(why.text, at->path, prefix) == 0 && why.text[prefix] == ':')
        return warn_once(s, at->path, why.text + prefix + 2, err);
    if (failed)
        return warn_once(s, at->path, why.text, err);
    const struct session_jit_file from = {.path = at->path, .name = name, .from_map = from_map};
    *ret = file_keep(s, code, &at->st, &from);
    return *ret ? 0 : error_no_memory(err);
}

int jit_files_add_options(struct session *s, struct error *err)
{
    for (size_t i = 0; i < s->options.nr_jitdumps && !s->options.no_jit; i++) {
        const char *path = s->options.jitdumps[i];
        struct place at;
        struct jit_file *file;
        snprintf(at.path, sizeof(at.path), "%s", path);
        if (!place_take(&at, other_file_open(path)))
            return errno == ENOTSUP
                       ? error_set(err, ERROR_FORMAT, "%s: this is not a regular file", path)
                       : error_system(err, errno, "%s", path);
        if (file_get(s, &at, path, false, 0, &file, err) < 0)
            return -1;
        if (file)
            file->added = true;
    }
    return 0;
}

/* ---- where files are ----------------------------------------------------------------------- */

/* Make the path below `prefix`, without the mark of an unlinked file. Returns where the prefix
 * ends; NULL: it is too long. */
static const char *place_name(struct place *at, const char *prefix, const char *path)
{
    int used = snprintf(at->path, PATH_SIZE, "%s%.*s", prefix, (int)text_undeleted(path), path);
    return used > 0 && used < PATH_SIZE ? at->path + strlen(prefix) : NULL;
}

/* Search from the most to the least specific place: the user's copy, the process's root, our
 * root. */
static bool find_path(struct session *s, struct process *p, const char *path, struct place *ret)
{
    char prefix[48];
    uint32_t root = process_root(s, p);
    if (s->options.symfs && place_name(ret, s->options.symfs, path) &&
        place_take(ret, other_file_open(ret->path)))
        return true;
    snprintf(prefix, sizeof(prefix), "/proc/%" PRIu32 "/root", root);
    const char *inside = root ? place_name(ret, prefix, path) : NULL;
    if (inside && place_take(ret, other_file_open_in_root((pid_t)root, inside)))
        return true;
    return place_name(ret, "", path) && place_take(ret, other_file_open_shared(ret->path));
}

static bool is_kept(const struct session *s, const struct process *p, uint8_t kind, char path[32])
{
    return memory_log_code_file(s->options.log, p->pid, kind, path) ||
           snapshots_code_file(s->options.snapshots, p->pid, kind, path);
}

/* Find the file that the recorder kept: it is this process's, whatever is there by now. */
static bool find_kept(struct session *s, const struct process *p, uint8_t kind, struct place *ret)
{
    return is_kept(s, p, kind, ret->path) && place_take(ret, other_file_open(ret->path));
}

/* Returns the pid in the process's own namespace, while the process lives and (if its namespace was
 * recorded) is still in that namespace. */
static uint32_t inner_pid(struct process *p)
{
    struct proc_place its;
    if (p->inner_pid)
        return p->inner_pid;
    p->inner_pid = p->pid;
    if (!p->pid_ns || (proc_place((pid_t)p->pid, "ns/pid", &its) && its.ino == p->pid_ns))
        p->inner_pid = proc_inner_pid(p->pid);
    return p->inner_pid;
}

/* ---- jitdumps ------------------------------------------------------------------------------ */

uint32_t session_announced_pid(const char *name)
{
    const char *slash = strrchr(name, '/');
    uint32_t pid;
    int used = 0;
    if (!slash || sscanf(slash, "/jit-%" SCNu32 ".dump%n", &pid, &used) != 1 || used == 0)
        return 0;
    return slash + used == name + text_undeleted(name) ? pid : 0;
}

/* A dump's name has the pid in the writer's own namespace. After a process has ended, that pid
 * cannot be found out any more: then it is enough that the process was in another namespace than
 * the first one. */
static bool may_announce(const struct session *s, struct process *p, uint32_t pid)
{
    const uint64_t first_pid_ns = 0xEFFFFFFC; /* linux/proc_ns.h: PROC_PID_INIT_INO */
    char kept[32];
    if (pid == p->pid || pid == inner_pid(p) || is_kept(s, p, VMENTRY_JITDUMP, kept))
        return true;
    return p->inner_pid == p->pid && p->pid_ns && p->pid_ns != first_pid_ns;
}

static struct jit_file *added_file(struct session *s, uint32_t pid)
{
    vec_foreach (f, &s->jit_files)
        if ((*f)->added && jitcode_pid((*f)->code) == pid)
            return *f;
    return NULL;
}

static int dump_announced(struct session *s, struct process *p, const char *name, uint32_t pid,
                          uint64_t time, struct error *err)
{
    struct place at;
    struct jit_file *file = added_file(s, pid);
    if (!may_announce(s, p, pid))
        return 0;
    p->inner_pid = pid;
    if (file)
        return process_use(s, p, file, err);
    if (!find_kept(s, p, VMENTRY_JITDUMP, &at) && !find_path(s, p, name, &at))
        return warn_once(s, name,
                         "this jitdump is missing, so its functions have no names; give its path "
                         "with --jitdump, or its root with --symfs",
                         err);
    if (file_get(s, &at, name, false, time, &file, err) < 0)
        return -1;
    if (!file)
        return 0;
    if (jitcode_pid(file->code) != pid)
        return warn_once(
            s, at.path,
            "this jitdump is ignored, because it belongs to another process than its name says",
            err);
    return process_use(s, p, file, err);
}

int jit_on_process(struct session *s, struct process *p, struct error *err)
{
    vec_foreach (f, &s->jit_files)
        if ((*f)->added && jitcode_pid((*f)->code) == p->pid && process_use(s, p, *f, err) < 0)
            return -1;
    return 0;
}

/* ---- perf maps ----------------------------------------------------------------------------- */

static int perf_map_seek(struct session *s, struct process *p, struct error *err)
{
    char name[PATH_SIZE / 2];
    struct place at;
    struct jit_file *file;
    if (p->perf_map_sought)
        return 0;
    p->perf_map_sought = true;
    const char *dir = s->options.tmp_dir ? s->options.tmp_dir : "/tmp";
    int used = snprintf(name, sizeof(name), "%s/perf-%" PRIu32 ".map", dir, inner_pid(p));
    bool kept = find_kept(s, p, VMENTRY_PERF_MAP, &at);
    if (!kept && (used < 0 || (size_t)used >= sizeof(name) || !find_path(s, p, name, &at)))
        return 0;
    if (!kept && !s->options.force && at.st.st_uid != 0 && at.st.st_uid != geteuid()) {
        close(at.fd);
        return warn_once(s, at.path,
                         "this file is ignored, because it belongs to another user (-f uses it)",
                         err);
    }
    /* on other machines the pid in another namespace cannot be found out */
    snprintf(name, sizeof(name), "%s/perf-%" PRIu32 ".map", dir, p->pid);
    if (file_get(s, &at, name, true, 0, &file, err) < 0)
        return -1;
    return file ? process_use(s, p, file, err) : 0;
}

int jit_on_mapping(struct session *s, struct process *p, const struct record_mmap *mm,
                   enum dso_kind kind, uint64_t time, struct error *err)
{
    if (s->options.no_jit)
        return 0;
    uint32_t pid = session_announced_pid(mm->filename);
    if (pid && dump_announced(s, p, mm->filename, pid, time, err) < 0)
        return -1;
    bool kernels_own = strncmp(mm->filename, "[v", 2) == 0; /* [vvar], [vsyscall] */
    bool no_file = kind == DSO_PSEUDO || mm->filename[text_undeleted(mm->filename)];
    return no_file && !kernels_own ? perf_map_seek(s, p, err) : 0;
}

/* ---- lookups: any thread ------------------------------------------------------------------- */

static const struct jit_function *use_lookup(const struct jit_use *use, uint64_t pc, uint64_t time,
                                             struct jit_span *span)
{
    bool late = use->until != UINT64_MAX && (time == 0 || time > use->until);
    return jitcode_lookup_span(use->file->code, pc, late ? use->until : time, span);
}

const struct jit_function *jit_set_lookup(const struct jit_set *set, uint64_t pc, uint64_t time,
                                          struct jit_span *span, struct jit_file **file)
{
    for (uint32_t i = 0; set && i < set->nr; i++) {
        const struct jit_use *use = &set->uses[i];
        const struct jit_function *f = use_lookup(use, pc, time, span);
        if (f) {
            *file = use->file;
            return f;
        }
    }
    return NULL;
}

size_t jit_set_lookup_all(const struct jit_set *set, uint64_t pc, uint64_t time,
                          const struct jit_function **ret, size_t max)
{
    struct jit_span span;
    size_t nr = 0;
    for (uint32_t i = 0; set && i < set->nr && nr < max; i++) {
        const struct jit_function *f = use_lookup(&set->uses[i], pc, time, &span);
        if (f)
            ret[nr++] = f;
    }
    return nr;
}

bool jit_set_is_timeless(const struct jit_set *set)
{
    for (uint32_t i = 0; set && i < set->nr; i++)
        if (!jitcode_is_timeless(set->uses[i].file->code))
            return false;
    return true;
}

/* ---- unwind rules of single functions ------------------------------------------------------ */

struct jit_cfi {
    struct cfi *cfi; /* NULL: the dump's information is unusable */
    uint32_t id;
};

enum { JIT_CFI_FIRST = 1 << 30 }; /* lower ids belong to dsos */

/* The dump names its machine by e_machine. */
static const struct arch *machine_of(const struct session *s, const struct jit_file *file)
{
    uint32_t machine = jitcode_machine(file->code);
    if (machine == EM_NONE)
        return s->pd ? recording_arch(s->pd) : arch_of_host();
    return machine <= UINT16_MAX ? arch_by_elf((uint16_t)machine, true) : NULL;
}

/* Writers lay the unwind information out as perf inject does: .eh_frame is after the code, at the
 * next multiple of 8, and .eh_frame_hdr is after it. Addresses count from the function's start. */
static struct jit_cfi *jit_cfi_create(struct session *s, const struct jit_file *file,
                                      const struct jit_function *f)
{
    struct jit_cfi *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    uint64_t behind = (f->size + 7) & ~UINT64_C(7);
    c->id = JIT_CFI_FIRST + atomic_fetch_add(&s->nr_jit_cfi, 1);
    struct cfi_source source = {
        .name = f->name,
        .arch = machine_of(s, file),
        .eh_frame = {f->eh_frame, f->eh_frame_size, behind},
        .eh_frame_hdr = {f->eh_frame_hdr, f->eh_frame_hdr_size, behind + f->eh_frame_size},
        .swapped = jitcode_swapped(file->code),
        .id = c->id,
    };
    if (cfi_create(&source, &c->cfi, NULL) < 0)
        c->cfi = NULL;
    return c;
}

static void jit_cfi_free(struct jit_cfi *c)
{
    if (c && c->cfi)
        cfi_free(c->cfi);
    free(c);
}

const struct cfi *jit_file_cfi(struct session *s, struct jit_file *file,
                               const struct jit_function *f, uint32_t *id)
{
    *id = 0;
    if (!f->eh_frame)
        return NULL;
    _Atomic(struct jit_cfi *) *at = &file->cfi[jitcode_index(file->code, f)].made;
    struct jit_cfi *c = atomic_load_explicit(at, memory_order_acquire);
    if (!c) {
        struct jit_cfi *made = jit_cfi_create(s, file, f);
        if (!made)
            return NULL;
        if (atomic_compare_exchange_strong(at, &c, made))
            c = made;
        else
            jit_cfi_free(made);
    }
    if (c->cfi)
        *id = c->id;
    return c->cfi;
}

static void jit_file_free(struct jit_file *f)
{
    for (size_t i = 0; f->cfi && i < jitcode_count(f->code); i++)
        jit_cfi_free(atomic_load(&f->cfi[i].made));
    free(f->cfi);
    jitcode_free(f->code);
    free(f);
}

bool session_jit_file(const struct session *s, size_t index, struct session_jit_file *ret)
{
    if (index >= s->jit_files.nr)
        return false;
    const struct jit_file *f = s->jit_files.at[index];
    *ret = (struct session_jit_file){
        .path = f->path, .name = f->name, .from_map = f->from_map, f->device, f->inode};
    return true;
}

void jit_files_free(struct session *s)
{
    vec_foreach (f, &s->jit_files)
        jit_file_free(*f);
    vec_free(&s->jit_files);
}
