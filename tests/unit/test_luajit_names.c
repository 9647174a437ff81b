/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compares names and lines of Lua functions with LuaJIT's own account. luajit_names.lua calls
 * functions in every form; at the bottom of each call it prints debug.getinfo's account of the
 * stack and waits. The test then walks the same stack from outside (with its own walk, which knows
 * the interpreter's frames only) and names the frames. Runs with the luajit of this machine, those
 * of the test data, and those listed in the environment variable LUAJITS.
 */
#include "scratch.h"
#include "tests/unit/memory_fixture.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "live/lua_scan.h"
#include "live/runtime_files.h"
#include "unwind/frame.h"
#include "unwind/luajit/names.h"
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/names_call.h"
#include "unwind/luajit/names_scan.h"
#include "unwind/luajit/object.h"
#include "tests/unit/memory_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "kernel_fixture.h"
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES_MAX = 64, LINES_MAX = 512 };

/* One frame of the program's account. */
struct told {
    char what[8], kind[16], name[128], source[512], library[64];
    int line, defined;
};

/* The program under test, and the readers of its memory. */
struct target {
    pid_t pid;
    FILE *from, *to;
    struct process_memory *process;
    struct memory_layer layer;
    struct memory memory;
    struct runtime_files *files;
    lua_scan_vm_list vms;
    struct luajit_layout layout;
    struct luajit_vm vm;
    uint64_t main_L;
    struct luajit_builtins builtins;
    struct managed_names *managed;
    struct luajit_names *names;
    unsigned frames; /* number of frames compared */
    unsigned library_names;
    unsigned callees[LUAJIT_CALLEE_ANOTHER + 1]; /* number of each verdict */
    char *builtin[BUILTINS_MAX];                 /* the program's own names, by number */
};

static char source_path[PATH_MAX];
static char *marker[LINES_MAX]; /* by line: the display name expected there */
static char *binaries[32];
static unsigned nr_binaries;

/* ---- reading the target ---------------------------------------------------------------------- */

static uint64_t ref(const struct target *t, uint64_t address)
{
    uint64_t v = 0;
    enum provenance ignored = PROVENANCE_EXACT;
    assert_true(memory_read(&t->memory, address, &v, (size_t)t->layout.ref_size, &ignored));
    return v;
}

static uint64_t word(const struct target *t, uint64_t address, size_t size)
{
    uint64_t v = 0;
    enum provenance ignored = PROVENANCE_EXACT;
    assert_true(memory_read(&t->memory, address, &v, size, &ignored));
    return v;
}

/* The function and the link of the frame at `base`. */
static uint64_t frame_func(const struct target *t, uint64_t base)
{
    return t->layout.gc64 ? word(t, base - 16, 8) & UINT64_C(0x7fffffffffff) : word(t, base - 8, 4);
}

static uint64_t frame_link(const struct target *t, uint64_t base)
{
    return t->layout.gc64 ? word(t, base - 8, 8) : word(t, base - 4, 4);
}

static uint64_t continuation_pc(const struct target *t, uint64_t base)
{
    return t->layout.gc64 ? word(t, base - 24, 8) : word(t, base - 12, 4);
}

static uint64_t proto_of(const struct target *t, uint64_t func)
{
    if (word(t, func + (uint64_t)t->layout.gct, 1) != 8 ||
        word(t, func + (uint64_t)t->layout.func_ffid, 1) != 0)
        return 0;
    return ref(t, func + (uint64_t)t->layout.func_pc) - (uint64_t)t->layout.proto_size;
}

static struct luajit_frame frame_at(const struct target *t, uint64_t L, uint64_t func, uint64_t pc)
{
    struct luajit_frame f = {.g = t->vm.g, .L = L, .func = func, .position = -1};
    f.ffid = (uint8_t)word(t, func + (uint64_t)t->layout.func_ffid, 1);
    f.kind = f.ffid == 0 ? LUAJIT_FRAME_LUA : f.ffid == 1 ? LUAJIT_FRAME_C : LUAJIT_FRAME_BUILTIN;
    f.proto = proto_of(t, func);
    if (f.proto && pc)
        f.position = (int32_t)((pc - f.proto - (uint64_t)t->layout.proto_size) / 4) - 1;
    return f;
}

/* Walks a lua_State that waits in a C function. The first frame is of that function. */
static unsigned walk(const struct target *t, uint64_t L, struct luajit_frame *frames)
{
    const uint64_t slots = (uint64_t)t->layout.frame_slots;
    uint64_t bottom = ref(t, L + (uint64_t)t->layout.L_stack) + 8 * slots;
    uint64_t base = word(t, L + (uint64_t)t->layout.L_base, 8), pc = 0;
    unsigned nr = 0;
    while (base > bottom && nr < FRAMES_MAX) {
        uint64_t func = frame_func(t, base), link = frame_link(t, base);
        if (word(t, func + (uint64_t)t->layout.gct, 1) == 8)
            frames[nr++] = frame_at(t, L, func, pc);
        if ((link & 7) == 3) {
            base -= link & ~UINT64_C(7);
            link = frame_link(t, base);
        }
        bool call = (link & 3) == 0, continuation = (link & 7) == 2;
        pc = call ? link : continuation ? continuation_pc(t, base) : 0;
        uint64_t delta = call ? 8 * (slots + (word(t, link - 4, 4) >> 8 & 0xff)) : link & ~7ULL;
        base -= delta;
        uint64_t caller = pc && base > bottom ? proto_of(t, frame_func(t, base)) : 0;
        if (caller && nr) {
            frames[nr - 1].caller_proto = caller;
            frames[nr - 1].caller_pc = pc;
            frames[nr - 1].caller_func = frame_func(t, base);
            frames[nr - 1].caller_base = base;
        }
    }
    return nr;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void put_escaped(char *out, size_t size, const char *s)
{
    size_t n = 0;
    for (; *s && n + 4 < size; s++) {
        bool plain = (unsigned char)*s >= ' ' && *s != 0x7f && *s != '|' && *s != '%';
        n += (size_t)snprintf(out + n, size - n, plain ? "%c" : "%%%02X", (unsigned char)*s);
    }
    out[n] = 0;
}

/* Returns whether the source is the same. LuaJIT's short form keeps the last bytes of a path, or
 * the first of a name. */
static bool same_source(const char *file, const char *told)
{
    char cut[80], escaped[512];
    size_t size = strlen(file);
    put_escaped(escaped, sizeof(escaped), file);
    if (strcmp(escaped, told) == 0)
        return true;
    if (size < 60)
        return false;
    snprintf(cut, sizeof(cut), "...%s", file + size - 56);
    put_escaped(escaped, sizeof(escaped), cut);
    if (strcmp(escaped, told) == 0)
        return true;
    snprintf(cut, sizeof(cut), "%.59s", file);
    put_escaped(escaped, sizeof(escaped), cut);
    return strcmp(escaped, told) == 0;
}

#define EXPECT(condition, ...)                                 \
    do {                                                       \
        if (!(condition)) {                                    \
            print_message("%s, frame %u: ", case_name, index); \
            print_message(__VA_ARGS__);                        \
            print_message("\n");                               \
            failures++;                                        \
        }                                                      \
    } while (0)

/* Returns whether the call's name is of another function than the running one: tail calls
 * (__tostring's is one), and a choice of which traceback takes the last. */
static bool is_another(const char *case_name, const struct told *told)
{
    static const struct {
        const char *in, *name;
    } cases[] = {{"field", "upvalues"},
                 {"tail call", "tailcaller"},
                 {"first of two", "a2"},
                 {"__tostring", "tostring"}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (strcmp(case_name, cases[i].in) == 0 && strcmp(told->name, cases[i].name) == 0)
            return true;
    return false;
}

/* Checks that these cases are detected, and that all other functions are found to be the same. */
static unsigned compare_callee(struct target *t, const char *case_name, unsigned index,
                               const struct luajit_frame *frame, const struct told *told)
{
    unsigned failures = 0;
    struct luajit_proto caller;
    enum luajit_callee want =
        is_another(case_name, told) ? LUAJIT_CALLEE_ANOTHER : LUAJIT_CALLEE_SAME;
    if (frame->kind != LUAJIT_FRAME_LUA || !*told->kind ||
        !luajit_proto_read(&t->memory, &t->layout, frame->caller_proto, &caller))
        return 0;
    uint64_t code = frame->caller_proto + (uint64_t)t->layout.proto_size;
    uint32_t position = (uint32_t)((frame->caller_pc - code) / 4 - 1);
    enum luajit_callee got =
        luajit_callee_check(&caller, &t->memory, frame, position, PROVENANCE_STALE);
    EXPECT(got == want, "callee %u, not %u, called %s %s", got, want, told->kind, told->name);
    t->callees[got]++;
    luajit_proto_free(&caller);
    return failures;
}

/* Checks the display name that the program's text asks for at the line of definition. Call it only
 * when all frames of the stack were named: the main chunk, which defines most functions, is the
 * last. */
static unsigned compare_display(const struct target *t, const char *case_name, unsigned index,
                                uint32_t function)
{
    unsigned failures = 0;
    struct managed_function f = {0};
    const char *base =
        managed_get(t->managed, function, UINT64_MAX, &f) && f.file ? strrchr(f.file, '/') : NULL;
    if (!base || strcmp(base, "/luajit_names.lua") != 0 || f.line >= LINES_MAX || !marker[f.line])
        return 0;
    const char *want = marker[f.line];
    if (strcmp(want, "-") == 0)
        EXPECT(f.rank < NAME_RANK_DEFINED, "named %s where it is defined", f.name);
    else
        EXPECT(f.rank == NAME_RANK_DEFINED && strcmp(f.name, want) == 0, "display name %s, not %s",
               f.name ? f.name : "(none)", want);
    return failures;
}

static unsigned compare_frame(struct target *t, const char *case_name, unsigned index,
                              const struct luajit_frame *frame, const struct told *told,
                              uint32_t *function)
{
    unsigned failures = 0;
    struct luajit_named named;
    struct managed_function f = {0};
    struct luajit_names_source source = {.memory = &t->memory, .vm = &t->vm, .space = 1};
    assert_int_equal(luajit_names_frame(t->names, &source, frame, &named, NULL), 0);
    bool lua = frame->kind == LUAJIT_FRAME_LUA;
    *function = named.function;
    EXPECT(lua == (strcmp(told->what, "C") != 0), "kind %u, told %s", frame->kind, told->what);
    EXPECT(strcmp(named.callname ? named.callname : "", told->name) == 0, "called %s, told %s",
           named.callname ? named.callname : "-", told->name);
    /* For an upvalue whose name was stripped, LuaJIT gives the kind and an empty name. */
    EXPECT(!*told->name || strcmp(luajit_name_kind_text(named.callkind), told->kind) == 0,
           "call of kind %s, told %s", luajit_name_kind_text(named.callkind), told->kind);
    failures += compare_callee(t, case_name, index, frame, told);
    t->frames++;
    if (frame->kind == LUAJIT_FRAME_C)
        return failures;
    assert_true(managed_get(t->managed, named.function, UINT64_MAX, &f));
    if (*told->library) {
        EXPECT(f.name && strcmp(f.name, told->library) == 0, "library function %s, told %s", f.name,
               told->library);
        t->library_names++;
    }
    if (!lua)
        return failures;
    EXPECT(same_source(f.file, told->source), "source %s, told %s", f.file, told->source);
    EXPECT((f.kind == MANAGED_MAIN) == (strcmp(told->what, "main") == 0),
           "kind of function %u, told %s", f.kind, told->what);
    EXPECT((int)f.line == (told->defined > 0 ? told->defined : 0), "defined on %u, told %d", f.line,
           told->defined);
    EXPECT((int)named.line == (told->line > 0 ? told->line : 0), "line %u, told %d", named.line,
           told->line);
    EXPECT(named.provenance == PROVENANCE_STALE, "provenance %u", named.provenance);
    return failures;
}

static unsigned compare_case(struct target *t, const char *case_name, const struct told *told,
                             unsigned nr_told)
{
    struct luajit_frame frames[FRAMES_MAX];
    uint32_t functions[FRAMES_MAX];
    unsigned failures = 0, index = 0;
    uint64_t L =
        t->layout.cur_L == LUAJIT_UNKNOWN ? t->main_L : ref(t, t->vm.g + (uint64_t)t->layout.cur_L);
    t->memory.time++;
    unsigned nr = walk(t, L, frames);
    EXPECT(nr == nr_told + 1, "%u frames, told %u", nr, nr_told);
    for (index = 0; index < nr_told && index + 1 < nr; index++)
        failures +=
            compare_frame(t, case_name, index, &frames[index + 1], &told[index], &functions[index]);
    for (unsigned i = index; i-- > 0;)
        failures += compare_display(t, case_name, i, functions[i]);
    return failures;
}

/* ---- the target's life ----------------------------------------------------------------------- */

static void start(struct target *t, const char *binary)
{
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    t->pid = fork();
    if (t->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(binary, "luajit", "-joff", source_path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    t->to = fdopen(in[1], "w");
    t->from = fdopen(out[0], "r");
}

static void read_builtins(struct target *t, const char *binary)
{
    FILE *f = fopen(binary, "r");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    rewind(f);
    uint8_t *bytes = malloc((size_t)size);
    assert_int_equal(fread(bytes, 1, (size_t)size, f), size);
    fclose(f);
    luajit_builtins_scan(&t->builtins, bytes, (size_t)size);
    free(bytes);
}

/* Call it when the program waits for the first time. */
static void attach(struct target *t, const char *binary)
{
    struct error err = {0};
    need_program_of_our_machine(t->pid);
    if (process_memory_open(t->pid, &t->process, &err))
        fail_msg("%s", err.text);
    t->layer = process_memory_layer(t->process);
    t->memory = (struct memory){.layers = &t->layer, .nr_layers = 1, .time = 1};
    t->files = runtime_files_create();
    if (lua_scan_process(t->files, t->pid, &t->vms, &err))
        fail_msg("%s", err.text);
    assert_int_equal(t->vms.nr, 1);
    t->vm = t->vms.at[0].vm;
    t->main_L = t->vms.at[0].main_L;
    t->layout = *t->vm.layout;
    read_builtins(t, binary);
    t->layout.builtins = &t->builtins;
    t->vm.layout = &t->layout;
    t->managed = managed_names_create();
    t->names = luajit_names_create(t->managed);
}

static void stop(struct target *t)
{
    fclose(t->from);
    fclose(t->to);
    kill(t->pid, SIGKILL);
    waitpid(t->pid, NULL, 0);
    luajit_names_free(t->names);
    managed_names_free(t->managed);
    process_memory_close(t->process);
    vec_free(&t->vms);
    runtime_files_free(t->files);
}

/* Waits until the program has printed and sleeps. */
static void await_sleep(pid_t pid)
{
    char name[32], state = 0;
    snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    for (unsigned i = 0; state != 'S' && i < 20000; i++) {
        FILE *f = fopen(name, "r");
        assert_non_null(f);
        if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
            state = 0;
        fclose(f);
        if (state != 'S')
            usleep(500);
    }
    assert_int_equal(state, 'S');
}

static char *field(char **at)
{
    char *s = strsep(at, "|\n");
    return s ? s : "";
}

static void parse_frame(char *line, struct told *ret)
{
    char *at = line + strlen("frame|");
    snprintf(ret->what, sizeof(ret->what), "%s", field(&at));
    snprintf(ret->kind, sizeof(ret->kind), "%s", field(&at));
    snprintf(ret->name, sizeof(ret->name), "%s", field(&at));
    snprintf(ret->source, sizeof(ret->source), "%s", field(&at));
    ret->line = atoi(field(&at));
    ret->defined = atoi(field(&at));
    snprintf(ret->library, sizeof(ret->library), "%s", field(&at));
}

static void parse_builtin(struct target *t, char *line)
{
    char *at = line + strlen("builtin|");
    int number = atoi(field(&at));
    assert_in_range(number, 2, BUILTINS_MAX - 1);
    free(t->builtin[number]);
    t->builtin[number] = strdup(field(&at));
}

/* Replaces the name that a function has for the sake of older programs. */
static const char *without_alias(const char *name)
{
    static const char *const alias[][2] = {{"math.mod", "math.fmod"},
                                           {"string.gfind", "string.gmatch"}};
    for (size_t i = 0; i < sizeof(alias) / sizeof(*alias); i++)
        if (strcmp(name, alias[i][0]) == 0)
            return alias[i][1];
    return name;
}

/* Compares the binary's own list with the live functions. */
static unsigned compare_builtins(struct target *t)
{
    unsigned failures = 0, told = 0;
    for (unsigned i = 0; i < BUILTINS_MAX; i++) {
        if (!t->builtin[i])
            continue;
        told++;
        if (strcmp(t->builtins.name[i], without_alias(t->builtin[i])) != 0) {
            print_message("function %u: %s, told %s\n", i, t->builtins.name[i], t->builtin[i]);
            failures++;
        }
        free(t->builtin[i]);
    }
    print_message("%u library functions by number, %u told\n", t->builtins.nr, told);
    assert_true(told > 120);
    return failures;
}

/* Without g->cur_L (2.0), this test cannot find coroutines. */
static bool run_cases(struct target *t, const char *binary, unsigned *cases, unsigned *failures)
{
    struct told told[FRAMES_MAX];
    unsigned nr = 0;
    char line[2048];
    while (fgets(line, sizeof(line), t->from)) {
        if (strncmp(line, "frame|", 6) == 0 && nr < FRAMES_MAX)
            parse_frame(line, &told[nr++]);
        if (strncmp(line, "builtin|", 8) == 0)
            parse_builtin(t, line);
        if (strcmp(line, "end\n") == 0)
            return true;
        if (strcmp(line, "coroutines\n") == 0 && t->layout.cur_L == LUAJIT_UNKNOWN)
            return true;
        if (strncmp(line, "case|", 5) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        await_sleep(t->pid);
        if (!t->process)
            attach(t, binary);
        *failures += compare_case(t, line + 5, told, nr);
        ++*cases;
        nr = 0;
        fputc('\n', t->to);
        fflush(t->to);
    }
    return false;
}

static void names_are_those_that_luajit_tells(void **state)
{
    (void)state;
    unsigned all = 0;
    for (unsigned i = 0; i < nr_binaries; i++) {
        struct target t = {0};
        unsigned cases = 0, failures = 0;
        start(&t, binaries[i]);
        bool ended = run_cases(&t, binaries[i], &cases, &failures);
        print_message("%s: %u cases, %u frames, %u library functions, %u failures\n", binaries[i],
                      cases, t.frames, t.library_names, failures);
        failures += compare_builtins(&t);
        assert_true(ended && cases >= 60 && t.library_names >= 8);
        all += failures;
        stop(&t);
    }
    assert_int_equal(all, 0);
}

/* ---- hostile objects ------------------------------------------------------------------------- */

static void name_lies(struct target *t, unsigned rounds)
{
    struct luajit_frame frames[FRAMES_MAX];
    uint64_t L = ref(t, t->vm.g + (uint64_t)t->layout.cur_L);
    unsigned nr = walk(t, L, frames);
    struct liar liar = {t->layer, 0x9e3779b97f4a7c15, 64};
    struct memory_layer layer = {.read = lie, .context = &liar};
    struct memory memory = {.layers = &layer, .nr_layers = 1, .time = 1000};
    struct luajit_names_source source = {.memory = &memory, .vm = &t->vm, .space = 2};
    for (unsigned i = 0; i < rounds; i++) {
        struct luajit_named named;
        struct managed_function f;
        struct luajit_frame frame = frames[i % nr];
        memory.time++;
        liar.one_in = 16u << i % 8;
        if (i % 16 == 0)
            frame.position = (int32_t)liar_random(&liar.random);
        if (i % 16 == 1)
            frame.caller_pc = liar_random(&liar.random);
        assert_int_equal(luajit_names_frame(t->names, &source, &frame, &named, NULL), 0);
        if (frame.kind != LUAJIT_FRAME_C)
            assert_true(managed_get(t->managed, named.function, UINT64_MAX, &f));
    }
}

static void lying_objects_are_refused_or_named_in_vain(void **state)
{
    (void)state;
    for (unsigned i = 0; i < nr_binaries; i++) {
        struct target t = {0};
        char line[2048];
        start(&t, binaries[i]);
        while (fgets(line, sizeof(line), t.from) && strncmp(line, "case|nested field", 17) != 0)
            if (strncmp(line, "case|", 5) == 0) {
                fputc('\n', t.to);
                fflush(t.to);
            }
        await_sleep(t.pid);
        attach(&t, binaries[i]);
        if (t.layout.cur_L != LUAJIT_UNKNOWN)
            name_lies(&t, 3000);
        stop(&t);
    }
}

/* ---- the name of a chunk whose string has died ----------------------------------------------- */

/* A string as it was read at one moment, and (`other`) at another. */
struct dead_string {
    uint8_t bytes[64];
    uint64_t read_at; /* time of the read, ns */
    struct dead_string *other;
};

static bool read_string(void *context, const struct memory_query *q, void *to,
                        struct memory_answer *answer)
{
    struct dead_string *s = context;
    (void)answer;
    if (q->address != 0x1000 || q->size > sizeof(s->bytes))
        return false;
    memcpy(to, s->bytes, q->size);
    return true;
}

static bool unlike_string(void *context, uint64_t address, size_t size, uint64_t time,
                          const struct memory_span *when, const struct memory_compare *compare,
                          struct memory_span *same)
{
    struct dead_string *s = context;
    bool unlike = size <= sizeof(s->bytes);
    (void)time, (void)when, (void)same;
    for (; unlike && s; s = s->other) {
        struct memory_span at = {s->read_at, s->read_at};
        unlike =
            compare->likeness(compare->context, address, s->bytes, size, &at) == MEMORY_ANOTHER;
    }
    return unlike;
}

static struct dead_string string_read_at(const char *name, uint64_t read_at)
{
    struct dead_string s = {.read_at = read_at};
    s.bytes[9] = LUAJIT_GCT_STR;
    s.bytes[20] = (uint8_t)strlen(name);
    strcpy((char *)s.bytes + 24, name);
    return s;
}

/* Returns whether the bytes read are doubted for a sample of time 1000. `name`: the name then
 * expected, unless NULL. */
static bool is_doubted_of(struct dead_string s, const char *name)
{
    struct luajit_layout l = {.str_size = 24, .str_len = 20, .gct = 9};
    char file[PROTO_FILE_MAX];
    enum provenance provenance = PROVENANCE_EXACT;
    bool doubtful = false;
    struct memory_span same = {0, UINT64_MAX};
    struct luajit_proto p = {.layout = &l};
    p.head.chunkname = 0x1000;
    p.head.chunk_len = s.bytes[20];
    p.head.chunk_hash = (uint32_t)hash_u64(load_u64(s.bytes + 12, false) & ~UINT64_C(0xff));
    struct memory_layer layer = {.read = read_string, .unlike = unlike_string, .context = &s};
    struct memory memory = {.layers = &layer, .nr_layers = 1, .time = 1000};
    assert_true(luajit_proto_file(&p, &memory, file, &provenance, &same, &doubtful));
    if (name)
        assert_string_equal(file, name + 1);
    return doubtful;
}

static bool is_doubted(const char *name, uint64_t read_at)
{
    return is_doubted_of(string_read_at(name, read_at), name);
}

/* Returns whether a string is doubted that was read as `name` at one time and as `other` at
 * another, in either order. */
static bool are_doubted(const char *name, uint64_t at, const char *other, uint64_t other_at)
{
    struct dead_string a = string_read_at(name, at), b = string_read_at(other, other_at);
    a.other = &b;
    bool doubted = is_doubted_of(a, NULL);
    a.other = NULL;
    b.other = &a;
    assert_int_equal(is_doubted_of(b, NULL), doubted);
    if (!doubted)
        is_doubted_of(b, name);
    return doubted;
}

/* A name of nine characters: the last one begins the last word of the string's memory, which gets
 * the size of the block when the block is free. */
static void what_is_left_of_a_dead_name_is_doubted(void **state)
{
    (void)state;
    assert_true(is_doubted("@file.lu\x80", 1001));
    assert_false(is_doubted("@file.lu\x80", 999)); /* the string lived when the sample was taken */
    assert_false(is_doubted("@file.lua", 1001));   /* a size is a multiple of 8 */
    /* The end of the program frees what it lived with. */
    assert_false(are_doubted("@file.lua", 999, "@file.lu\x80", 2000));
    assert_false(are_doubted("@file.lua", 1001, "@file.lu\x80", 2000));
    assert_true(are_doubted("@file.lu\x88", 1001, "@file.lu\x80", 2000));
    assert_true(are_doubted("@file.lua", 999, "@fine.lua", 2000));
    assert_true(is_doubted("@file.tx\x20\x01", 1001));
    assert_false(is_doubted("=chunk1_p0", 1001));
    assert_false(is_doubted("@text.x", 1001)); /* the word holds the end of the text and more */
}

/* ---- the binaries to test with --------------------------------------------------------------- */

static void add_binary(const char *file)
{
    if (nr_binaries < sizeof(binaries) / sizeof(*binaries) && access(file, X_OK) == 0)
        binaries[nr_binaries++] = strdup(file);
}

static void read_markers(void)
{
    char line[1024];
    FILE *f = fopen(source_path, "r");
    assert_non_null(f);
    for (unsigned n = 1; n < LINES_MAX && fgets(line, sizeof(line), f); n++) {
        char *at = strstr(line, "--@ ");
        line[strcspn(line, "\n")] = 0;
        if (at)
            marker[n] = strdup(at + 4);
    }
    fclose(f);
}

static void find_archives(const char *root)
{
    static const char *const builds[] = {"2.0.5",    "2.1b3",           "2.1b3-gc64",
                                         "2.1-2308", "2.1-2203-nogc64", "2.1-2608",
                                         "or-1905",  "2.1-2608-nogc64", "or-2403"};
    char file[PATH_MAX + 64];
    for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
        snprintf(file, sizeof(file), "%s/../shared/testdata/luajit/%s.tar.zst", root, builds[i]);
        if (access(file, R_OK))
            continue;
        shell("tar --zstd -xf %s %s/luajit", file, builds[i]);
        snprintf(file, sizeof(file), "%s/%s/luajit", scratch_folder, builds[i]);
        add_binary(file);
    }
}

static int prepare(void **state)
{
    (void)state;
    char root[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", root, sizeof(root) - 1);
    if (size < 0)
        return -1;
    root[size] = 0;
    for (unsigned up = 0; up < 3; up++) /* build/tests/test_... */
        dirname(root);
    snprintf(source_path, sizeof(source_path), "%.*s/tests/unit/luajit_names.lua", PATH_MAX - 64,
             root);
    snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/test_luajit_names.XXXXXX");
    if (!mkdtemp(scratch_folder))
        return -1;
    read_markers();
    add_binary("/usr/bin/luajit");
    find_archives(root);
    char *list = getenv("LUAJITS") ? strdup(getenv("LUAJITS")) : NULL, *at = list;
    for (char *file; at && (file = strsep(&at, ":"));)
        add_binary(file);
    free(list);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    for (unsigned i = 0; i < nr_binaries; i++)
        free(binaries[i]);
    for (unsigned i = 0; i < LINES_MAX; i++)
        free(marker[i]);
    return 0;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_that_luajit_tells),
        cmocka_unit_test(lying_objects_are_refused_or_named_in_vain),
        cmocka_unit_test(what_is_left_of_a_dead_name_is_doubted),
    };
    int failed = cmocka_run_group_tests(tests, prepare, clean);
    if (!nr_binaries)
        puts("no luajit here, and no test data");
    return failed || nr_binaries ? failed : 77;
}
