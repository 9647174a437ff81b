/* SPDX-License-Identifier: GPL-2.0-only */
/* See snapshots.h. */
#include "session/snapshots.h"

#include "base/text.h"
#include "session/core_process.h"
#include "session/session_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file that a process had mapped to execute it. */
struct code_file {
    uint32_t pid;
    uint64_t start, pgoff;
    char *name;
    struct build_id id;
};

typedef VEC(struct code_file) code_file_list;

/* The read-only state of a core that its layer needs. */
struct core_view {
    uint32_t pid;
    struct core_process process;
    struct memory_layer inner;
};

struct snapshots {
    struct memory_log *beside, *other_clock; /* NULL: none */
    VEC(struct core_view *) cores;
    VEC(char *) warnings;
};

/* ---- creating ------------------------------------------------------------------------------ */

void snapshots_free(struct snapshots *s)
{
    if (!s)
        return;
    memory_log_free(s->beside);
    memory_log_free(s->other_clock);
    vec_foreach (core, &s->cores) {
        core_process_free(&(*core)->process);
        free(*core);
    }
    vec_free(&s->cores);
    vec_foreach (line, &s->warnings)
        free(*line);
    vec_free(&s->warnings);
    free(s);
}

const char *snapshots_warning(const struct snapshots *s, size_t index)
{
    return s && index < s->warnings.nr ? s->warnings.at[index] : NULL;
}

static void forget_files(code_file_list *files)
{
    vec_foreach (f, files)
        free(f->name);
    vec_free(files);
}

static int note_file(code_file_list *files, const char *name, const struct code_file *file,
                     struct error *err)
{
    struct code_file f = *file;
    f.name = strdup(name);
    if (f.name && vec_push(files, f))
        return 0;
    free(f.name);
    return error_no_memory(err);
}

/* ---- is it of a process that was recorded? ------------------------------------------------- */

/* Read the recording's processes as they were at the end. */
static int replay_mappings(const struct perfdata *pd, struct session *session,
                           struct memory_log *beside, struct error *err)
{
    enum { AT_ONCE = 256 };
    const struct perfdata_options options = {0};
    struct perfdata *again;
    struct record_batch batch = {0};
    if (perfdata_open(perfdata_path(pd), &options, &again, err) < 0)
        return -1;
    int failed = 0;
    for (size_t nr = 1; nr && !failed;) {
        failed = perfdata_read(again, AT_ONCE, &batch, err);
        nr = batch.nr;
        for (size_t i = 0; i < nr && !failed; i++) {
            const struct record *rec = &batch.records[i];
            struct record_comm comm;
            if (rec->type == PERF_RECORD_SAMPLE)
                continue;
            failed = session_apply(session, rec, err);
            /* Before the exec the process had other objects. */
            if (!failed && beside && rec->type == PERF_RECORD_COMM && rec->time &&
                perfdata_comm(again, rec, &comm, NULL) == 0 && comm.exec &&
                (memory_log_exec(beside, comm.pid, 0, err) < 0 ||
                 memory_log_exec(beside, comm.pid, rec->time, err) < 0))
                failed = -1;
        }
        perfdata_release(again, &batch);
    }
    record_batch_free(&batch);
    perfdata_close(again);
    return failed;
}

static bool ids_differ(const struct build_id *a, const struct build_id *b)
{
    return a->size && b->size && (a->size != b->size || memcmp(a->bytes, b->bytes, a->size) != 0);
}

static int refuse_id(const char *path, const struct code_file *f, const struct build_id *recorded,
                     struct error *err)
{
    char theirs[2 * BUILD_ID_MAX + 1], ours[sizeof(theirs)];
    build_id_hex(&f->id, theirs);
    build_id_hex(recorded, ours);
    return error_set(err, ERROR_FORMAT,
                     "%s: %s of process %" PRIu32
                     " has the build id %.16s... in this file, but %.16s... in the recording",
                     path, f->name, f->pid, theirs, ours);
}

/* Every file of the process that the recording also has must be the same, and there must be at
 * least one. */
static int check_process(const char *path, const code_file_list *files, uint32_t pid,
                         struct session *session, struct error *err)
{
    struct thread_context thread;
    unsigned same = 0;
    int failed = 0;
    const char *missing = NULL;
    if (session_context(session, pid, pid, &thread, err) < 0)
        return -1;
    bool known = session_mapping_next(&thread, 0) != NULL;
    vec_foreach (f, files) {
        const struct mapping *m = f->pid == pid ? session_mapping(&thread, f->start) : NULL;
        if (failed || f->pid != pid)
            continue;
        if (!m || m->dso->kind != DSO_FILE || strcmp(m->dso->name, f->name) != 0 ||
            f->start - m->start + m->pgoff != f->pgoff)
            missing = missing ? missing : f->name;
        else if (ids_differ(&m->dso->build_id, &f->id))
            failed = refuse_id(path, f, &m->dso->build_id, err);
        else
            same++;
    }
    thread_context_release(&thread);
    if (failed || same)
        return failed;
    if (!known)
        return error_set(err, ERROR_FORMAT,
                         "%s: it belongs to process %" PRIu32 ", which is not in the recording",
                         path, pid);
    return error_set(err, ERROR_FORMAT,
                     "%s: process %" PRIu32
                     " is not the process of the recording: %s is mapped at another place",
                     path, pid, missing ? missing : "its program");
}

static int check_files(const char *path, const code_file_list *files, struct session *session,
                       struct error *err)
{
    if (!files->nr)
        return error_set(err, ERROR_FORMAT, "%s: it holds no process", path);
    for (size_t i = 0; i < files->nr; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = files->at[k].pid == files->at[i].pid;
        if (!seen && check_process(path, files, files->at[i].pid, session, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- files of ljperf snapshot -------------------------------------------------------------- */

static int take_maps(struct perfdata *pd, code_file_list *files, struct error *err)
{
    enum { AT_ONCE = 256 };
    struct record_batch batch = {0};
    int failed = 0;
    for (size_t nr = 1; nr && !failed;) {
        failed = perfdata_read(pd, AT_ONCE, &batch, err);
        nr = batch.nr;
        for (size_t i = 0; i < nr && !failed; i++) {
            const struct record *rec = &batch.records[i];
            struct record_mmap mm;
            if (rec->type != PERF_RECORD_MMAP2 || perfdata_mmap(pd, rec, &mm, NULL) < 0 ||
                !(mm.prot & PROT_EXEC) || mm.filename[0] != '/')
                continue;
            const struct code_file f = {
                .pid = mm.pid, .start = mm.addr, .pgoff = mm.pgoff, .id = mm.build_id};
            failed = note_file(files, mm.filename, &f, err);
        }
        perfdata_release(pd, &batch);
    }
    record_batch_free(&batch);
    return failed;
}

static int warn(struct snapshots *s, const char *text, struct error *err)
{
    char *copy = strdup(text);
    if (copy && vec_push(&s->warnings, copy))
        return 0;
    free(copy);
    return error_no_memory(err);
}

static bool same_clock(const struct perfdata *a, const struct perfdata *b)
{
    int x, y;
    return perfdata_clockid(a, &x) && perfdata_clockid(b, &y) && x == y;
}

/* Get the log that a file's payloads go to. */
static int log_for(struct snapshots *s, const char *path, bool beside, struct memory_log **ret,
                   struct error *err)
{
    struct memory_log **log = beside ? &s->beside : &s->other_clock;
    char line[300];
    snprintf(
        line, sizeof(line),
        "%s: its clock is not the recording's, so all frames that rest on it are marked image; "
        "record with perf record -k mono",
        path);
    if (!*log && (memory_log_create(log, err) < 0 || (!beside && warn(s, line, err) < 0)))
        return -1;
    memory_log_set_order(*log, beside ? MEMORY_LOG_BESIDE : MEMORY_LOG_OTHER_CLOCK);
    *ret = *log;
    return 0;
}

static int open_file(const char *path, struct perfdata **ret, struct error *err)
{
    const struct perfdata_options options = {.unordered = true};
    return perfdata_open(path, &options, ret, err);
}

/* Read the mappings separately: they decide whether the rest is read. */
static int file_maps(const char *path, code_file_list *files, struct error *err)
{
    struct perfdata *pd;
    if (open_file(path, &pd, err) < 0)
        return -1;
    int failed = take_maps(pd, files, err);
    perfdata_close(pd);
    return failed;
}

static int add_file(struct snapshots *s, const char *path, const struct perfdata *recording,
                    struct error *err)
{
    struct perfdata *pd;
    struct memory_log *log;
    if (open_file(path, &pd, err) < 0)
        return -1;
    int failed = log_for(s, path, same_clock(pd, recording), &log, err);
    uint64_t before = failed ? 0 : memory_log_stats(log).entries;
    if (!failed)
        failed = memory_log_add_all(log, pd, err);
    if (!failed && memory_log_stats(log).entries == before)
        failed = error_set(err, ERROR_FORMAT, "%s: it holds no memory of a process", path);
    perfdata_close(pd);
    return failed;
}

/* ---- cores --------------------------------------------------------------------------------- */

static bool is_core(const char *path)
{
    char magic[4] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is = fd >= 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
              memcmp(magic, "\177ELF", sizeof(magic)) == 0;
    if (fd >= 0)
        close(fd);
    return is;
}

static int core_files(const struct core *core, code_file_list *files, struct error *err)
{
    struct build_id id = {0};
    const char *last = NULL;
    for (size_t i = 0; i < core_nr_mappings(core); i++) {
        const struct core_mapping *m = core_mapping(core, i);
        if (!m->file || m->file[0] != '/')
            continue;
        if (!last || strcmp(last, m->file) != 0)
            id = (struct build_id){0};
        last = m->file;
        if (m->pgoff == 0)
            (void)core_build_id(core, m->start, &id);
        const struct code_file f = {
            .pid = core_pid(core), .start = m->start, .pgoff = m->pgoff, .id = id};
        if ((m->prot == CORE_PROT_UNKNOWN || m->prot & PROT_EXEC) &&
            note_file(files, m->file, &f, err) < 0)
            return -1;
    }
    return 0;
}

/* A core was read at another time than any sample. */
static bool core_read(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const struct core_view *c = context;
    if (!c->inner.read(c->inner.context, q, to, answer))
        return false;
    answer->provenance = PROVENANCE_STALE;
    return true;
}

struct indexing {
    struct memory_log *log;
    uint32_t pid;
};

static int index_object(void *context, enum runtime_list list, uint64_t key, uint64_t size,
                        uint64_t value, struct error *err)
{
    const struct indexing *i = context;
    switch (list) {
    case RUNTIME_LIST_VMS:
        return memory_log_add_global(i->log, i->pid, key, err);
    case RUNTIME_LIST_BLOCKS:
        return memory_log_add_prototype(i->log, i->pid, key, (uint32_t)size, err);
    case RUNTIME_LIST_FUNCTIONS:
        return memory_log_add_function(i->log, i->pid, key, value, err);
    }
    return 0;
}

/* Note the VMs of a core, and the objects that lists have. */
static int index_objects(struct memory_log *log, const struct core_view *c, struct error *err)
{
    const struct memory m = {.layers = c->process.layers, .nr_layers = 2};
    struct indexing i = {log, c->pid};
    struct session_vms vms = {0};
    int failed = session_vms_find(&c->process.thread, &m, &vms, err);
    if (!failed)
        failed = session_vms_list_objects(&m, &vms, index_object, &i, err);
    session_vms_free(&vms);
    return failed;
}

static int add_core(struct snapshots *s, const char *path, const struct dso_options *options,
                    struct session *session, struct error *err)
{
    const struct core_process_options o = {.dso = options};
    struct core_view *c = calloc(1, sizeof(*c));
    code_file_list files = {0};
    struct memory_log *log;
    char line[300];
    if (!c || core_process_open(path, &o, &c->process, err) < 0) {
        int failed = c ? -1 : error_no_memory(err);
        free(c);
        return failed;
    }
    c->pid = core_pid(c->process.core);
    c->inner = c->process.layers[0];
    if (!vec_push(&s->cores, c)) {
        core_process_free(&c->process);
        free(c);
        return error_no_memory(err);
    }
    snprintf(line, sizeof(line),
             "%s: a core has no time, so all frames that rest on it are marked image", path);
    int failed = core_files(c->process.core, &files, err);
    if (!failed)
        failed = check_files(path, &files, session, err);
    forget_files(&files);
    if (!s->other_clock && !failed) {
        failed = memory_log_create(&s->other_clock, err);
        if (!failed)
            memory_log_set_order(s->other_clock, MEMORY_LOG_OTHER_CLOCK);
    }
    log = s->other_clock;
    if (!failed)
        failed = warn(s, line, err);
    return failed ? failed : index_objects(log, c, err);
}

/* ---- opening ------------------------------------------------------------------------------- */

static int check_snapshot(const char *path, struct session *session, struct error *err)
{
    code_file_list files = {0};
    int failed = file_maps(path, &files, err);
    if (!failed)
        failed = check_files(path, &files, session, err);
    forget_files(&files);
    return failed;
}

static int open_all(struct snapshots *s, const char *const *paths, size_t nr,
                    const struct perfdata *pd, const struct dso_options *options,
                    struct session *session, struct error *err)
{
    /* Execs must be known before the memory is added. */
    if (memory_log_create(&s->beside, err) < 0)
        return -1;
    memory_log_set_order(s->beside, MEMORY_LOG_BESIDE);
    if (replay_mappings(pd, session, s->beside, err) < 0)
        return -1;
    for (size_t i = 0; i < nr; i++) {
        if (is_core(paths[i])
                ? add_core(s, paths[i], options, session, err) < 0
                : check_snapshot(paths[i], session, err) < 0 || add_file(s, paths[i], pd, err) < 0)
            return -1;
    }
    if (s->other_clock && memory_log_seal(s->other_clock, err) < 0)
        return -1;
    return memory_log_seal(s->beside, err);
}

int snapshots_open(const char *const *paths, size_t nr, const struct perfdata *pd,
                   struct dsos *dsos, const struct dso_options *options, struct snapshots **ret,
                   struct error *err)
{
    const struct session_options no_jit = {.no_jit = true};
    struct snapshots *s = calloc(1, sizeof(*s));
    struct session *session = NULL;
    *ret = s;
    if (!s)
        return error_no_memory(err);
    int failed = 0;
    if (perfdata_is_pipe(pd))
        failed = error_set(err, ERROR_UNSUPPORTED,
                           "--snapshot cannot be used with a recording from a pipe, because the "
                           "recording is read twice");
    if (!failed)
        failed = session_create(pd, dsos, &no_jit, &session, err);
    if (!failed)
        failed = open_all(s, paths, nr, pd, options, session, err);
    session_free(session);
    if (failed) {
        snapshots_free(s);
        *ret = NULL;
    }
    return failed;
}

/* ---- lookups ------------------------------------------------------------------------------- */

void snapshots_layers(const struct snapshots *s, uint32_t pid, struct snapshot_layers *ret)
{
    struct memory_log *const logs[] = {s ? s->beside : NULL, s ? s->other_clock : NULL};
    ret->nr = 0;
    for (size_t i = 0; i < 2; i++) {
        if (!logs[i])
            continue;
        ret->views[i] = (struct memory_log_view){.log = logs[i], .pid = pid};
        ret->at[ret->nr++] = memory_log_layer(&ret->views[i]);
    }
    for (size_t i = 0; s && i < s->cores.nr && ret->nr < SNAPSHOT_LAYERS; i++)
        if (s->cores.at[i]->pid == pid)
            ret->at[ret->nr++] = (struct memory_layer){.name = "snapshot",
                                                       .read = core_read,
                                                       .context = s->cores.at[i],
                                                       .when = MEMORY_OF_OTHER_TIMES};
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t snapshots_globals(const struct snapshots *s, uint32_t pid, uint64_t *ret, size_t max)
{
    size_t nr = s && s->beside ? min(max, memory_log_globals(s->beside, pid, ret, max)) : 0;
    if (s && s->other_clock)
        nr += min(max - nr, memory_log_globals(s->other_clock, pid, ret + nr, max - nr));
    return nr;
}

size_t snapshots_functions(const struct snapshots *s, uint32_t pid, uint64_t bytecode,
                           uint64_t *ret, size_t max)
{
    size_t nr =
        s && s->beside ? min(max, memory_log_functions(s->beside, pid, bytecode, ret, max)) : 0;
    if (s && s->other_clock)
        nr +=
            min(max - nr, memory_log_functions(s->other_clock, pid, bytecode, ret + nr, max - nr));
    return nr;
}

bool snapshots_code_file(const struct snapshots *s, uint32_t pid, uint8_t kind, char path[32])
{
    return s && (memory_log_code_file(s->beside, pid, kind, path) ||
                 memory_log_code_file(s->other_clock, pid, kind, path));
}

const struct vmentry_text *snapshots_text(const struct snapshots *s, uint32_t pid, uint64_t start,
                                          uint64_t end)
{
    const struct vmentry_text *text = s ? memory_log_text(s->beside, pid, start, end) : NULL;
    return text || !s ? text : memory_log_text(s->other_clock, pid, start, end);
}

uint64_t snapshots_prototype(const struct snapshots *s, uint32_t pid, uint64_t address)
{
    uint64_t found = s && s->beside ? memory_log_prototype(s->beside, pid, address) : 0;
    return found || !s || !s->other_clock ? found
                                          : memory_log_prototype(s->other_clock, pid, address);
}
