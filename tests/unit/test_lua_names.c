/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compares names, lines and variables of Lua functions with the program's own account.
 * lua_names.lua calls functions in every form; at the bottom of each chain of calls it prints what
 * the debug library says of the stack, and waits. The test then reads the same stack from outside
 * and names its calls. Runs with the lua5.x of this machine, and those listed in the environment
 * variable LUAS. LUA_STOPS: number of stops of each; LUA_LIES: of rounds with damaged objects.
 */
#include "dso/dso.h"
#include "dso/runtime_image.h"
#include "live/lua_scan.h"
#include "tests/unit/memory_fixture.h"
#include "unwind/frame.h"
#include "unwind/lua/discover.h"
#include "unwind/lua/names.h"
#include "unwind/lua/names_bytecode.h"
#include "unwind/lua/variables.h"
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

enum { LINES_MAX = 1024, WAYS_MIN = 20, TOLD_MAX = 1 << 20 };

/* The program under test, and the readers of its memory. */
struct target {
    const char *binary;
    pid_t pid;
    FILE *from, *to;
    struct process_memory *process;
    struct memory_layer layer;
    struct memory memory;
    struct dsos *files;
    struct lua_layout layout;
    struct managed_names *managed;
    struct lua_names *names;
    struct lua_reader reader;
    uint64_t global;
    lua_call_list calls;
    unsigned stops, frames, values, displays, libraries, failures;
    bool has_learned;
    unsigned liar_rounds; /* 0: compare */
};

static char source_path[PATH_MAX];
static char *marker[LINES_MAX]; /* by line: the display name expected there */
static char *binaries[32];
static unsigned nr_binaries;
static char told[TOLD_MAX]; /* the program's account of a stop */

#define EXPECT(condition, ...)                                                   \
    do {                                                                         \
        if (!(condition) && t->failures++ < 40) {                                \
            print_message("%s, stop %u, call %u: ", t->binary, t->stops, index); \
            print_message(__VA_ARGS__);                                          \
            print_message("\n");                                                 \
        }                                                                        \
    } while (0)

/* ---- layouts --------------------------------------------------------------------------------- */

static void find_layout(struct target *t)
{
    const struct dso_options options = {.no_debuginfod = true};
    struct elf_runtime_image elf;
    struct error err = {0};
    t->files = dsos_create(&options);
    struct dso *dso = dsos_get(t->files, DSO_FILE, t->binary, NULL, 0);
    const struct runtime_image image = dso_runtime_image(dso, dso_cfi(dso), &elf);
    if (machine_of_file(t->binary) != EM_X86_64) {
        print_message("plain Lua is read on x86-64 only\n");
        skip();
    }
    if (lua_discover(&image, &t->layout, &err) != 1)
        fail_msg("%s: %s", t->binary, err.text);
}

/* ---- what the program told ------------------------------------------------------------------- */

/* Cuts a field off a line; fields have tabs between them. */
static char *field(char **at)
{
    char *start = *at ? *at : "", *tab = strchr(start, '\t');
    *at = tab ? tab + 1 : NULL;
    if (tab)
        *tab = 0;
    return start;
}

static const char *unhex(char *hex)
{
    char *out = hex;
    unsigned byte;
    for (char *in = hex; sscanf(in, "%2x", &byte) == 1; in += 2)
        *out++ = (char)byte;
    *out = 0;
    return hex;
}

/* The chunk's name as the output shows it. */
static void shown_source(const char *source, char *out, size_t size)
{
    if (*source == '@' || *source == '=')
        snprintf(out, size, "%s", source + 1);
    else
        snprintf(out, size, "[string \"%.12s", source);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Writes a value as the program does. */
static void write_value(const struct target *t, const struct variables *all,
                        const struct variable *v, char *out, size_t size)
{
    const char *text = variable_bytes(all, v->text);
    size_t n;
    switch (v->kind) {
    case VALUE_NIL:
        snprintf(out, size, "nil");
        return;
    case VALUE_BOOLEAN:
        snprintf(out, size, "boolean %s", v->boolean ? "true" : "false");
        return;
    case VALUE_INTEGER:
        snprintf(out, size, "integer %.17g", (double)v->integer);
        return;
    case VALUE_NUMBER:
    case VALUE_FLOAT:
        snprintf(out, size, "%s %.17g", v->kind == VALUE_FLOAT ? "float" : "number",
                 v->number_value);
        return;
    case VALUE_STRING:
        n = (size_t)snprintf(out, size, "string %" PRIu64 " ", v->length);
        for (unsigned i = 0; i < v->text.size && i < 60; i++)
            n += (size_t)snprintf(out + n, size - n, "%02x", (unsigned char)text[i]);
        return;
    case VALUE_TABLE:
        snprintf(out, size, "table %" PRIx64 " %" PRIu64, v->address, v->array + v->fields);
        return;
    case VALUE_FUNCTION:
        snprintf(out, size, "function %" PRIx64 " %.*s", v->address, (int)v->text.size, text);
        return;
    case VALUE_C_FUNCTION:
        snprintf(out, size, "cfunction %.*s", (int)v->text.size, text);
        return;
    case VALUE_USERDATA:
        snprintf(out, size, "userdata");
        return;
    default:
        snprintf(out, size, "%s %" PRIx64, v->type, v->address);
    }
    (void)t;
}

/* Is the value the one that was told? Of functions, the account has the place of definition in
 * other words; of tables that print themselves, it has no address. */
static bool is_same_value(const char *got, char *want)
{
    char source[256], *at;
    uint64_t address;
    int line = 0;
    if (strcmp(got, want) == 0)
        return true;
    if (strncmp(want, "table 0 ", 8) == 0)
        return strcmp(strrchr(got, ' '), strrchr(want, ' ')) == 0;
    if (strncmp(want, "cfunction", 9) == 0 && !want[10])
        return strncmp(got, "cfunction", 9) == 0;
    if (sscanf(want, "function %" SCNx64 " %255s %d", &address, source, &line) != 3)
        return false;
    at = strstr(got, *source == '@' || *source == '=' ? source + 1 : "[string");
    return strtoull(got + 9, NULL, 16) == address && at;
}

static const char *role_letter(const struct variable *v)
{
    return v->role == VARIABLE_LOCAL ? "L" : v->role == VARIABLE_VARARG ? "V" : "U";
}

/* Skips what the account does not have: fields of tables, 5.1's varargs, parameters without names.
 */
static void skip_untold(const struct target *t, const struct variables *all, size_t *next)
{
    while (*next < all->at.nr &&
           (all->at.at[*next].depth || all->at.at[*next].role == VARIABLE_ARGUMENT ||
            (all->at.at[*next].role == VARIABLE_VARARG && t->layout.version == 51)))
        ++*next;
}

/* Compares the next variable with a line of the account. */
static void compare_variable(struct target *t, unsigned index, const struct variables *all,
                             size_t *next, char *line)
{
    char got[512], number[16];
    char *letter = field(&line), *name = field(&line);
    skip_untold(t, all, next);
    if (*next >= all->at.nr) {
        EXPECT(false, "no variable, told %s %s", letter, name);
        return;
    }
    const struct variable *v = &all->at.at[(*next)++];
    snprintf(number, sizeof(number), "%u", v->number);
    write_value(t, all, v, got, sizeof(got));
    const char *got_name = *letter == 'V'      ? number
                           : v->name.size == 0 ? *name == '(' ? name : ""
                                               : variable_bytes(all, v->name);
    size_t size = *letter == 'V' || v->name.size == 0 ? strlen(got_name) : v->name.size;
    EXPECT(strcmp(role_letter(v), letter) == 0 && size == strlen(name) &&
               memcmp(got_name, name, size) == 0,
           "variable %s %.*s, told %s %s", role_letter(v), (int)size, got_name, letter, name);
    EXPECT(is_same_value(got, line), "%s %s is %s, told %s", letter, name, got, line);
    t->values++;
}

static void place_of(const struct target *t, const struct lua_state *s, unsigned index,
                     struct variable_place *ret)
{
    const struct lua_call *c = &t->calls.at[index];
    *ret = (struct variable_place){
        .layout = &t->layout,
        .word = {[LUA_PLACE_STATE] = s->address,
                 [LUA_PLACE_GLOBAL] = s->global,
                 [LUA_PLACE_FUNC] = c->func,
                 [LUA_PLACE_BASE] = c->base,
                 [LUA_PLACE_TOP] = index ? t->calls.at[index - 1].func : s->top,
                 [LUA_PLACE_CLOSURE] = c->function.closure,
                 [LUA_PLACE_INDEX] = c->index,
                 [LUA_PLACE_EXTRA] = c->nr_extra}};
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct lua_names_source source_of(struct target *t)
{
    return (struct lua_names_source){.reader = &t->reader, .global = t->global, .space = 1};
}

/* Compares the display name that the program's text asks for at the line of definition. */
static void compare_display(struct target *t, unsigned index, uint32_t function)
{
    struct managed_function f = {0};
    const char *base =
        managed_get(t->managed, function, UINT64_MAX, &f) && f.file ? strrchr(f.file, '/') : NULL;
    if (!base || strcmp(base, "/lua_names.lua") != 0 || f.line >= LINES_MAX || !marker[f.line])
        return;
    const char *want = marker[f.line];
    t->displays++;
    if (!*want)
        EXPECT(f.rank < NAME_RANK_DEFINED, "named %s where it is defined", f.name);
    else
        EXPECT(f.rank == NAME_RANK_DEFINED && strcmp(f.name, want) == 0,
               "display name %s (rank %u), not %s", f.name ? f.name : "(none)", f.rank, want);
}

static void compare_lua(struct target *t, unsigned index, const struct lua_named *named,
                        const char *what, int line, int defined, char *source)
{
    struct managed_function f = {0};
    char shown[PATH_MAX];
    assert_true(managed_get(t->managed, named->function, UINT64_MAX, &f));
    shown_source(unhex(source), shown, sizeof(shown));
    if (strcmp(shown, "?") != 0 || t->layout.version == 51)
        EXPECT(f.file && strncmp(f.file, shown, strcspn(shown, "\n")) == 0, "source %s, told %s",
               f.file, shown);
    EXPECT((f.kind == MANAGED_MAIN) == (strcmp(what, "main") == 0), "kind %u, told %s", f.kind,
           what);
    EXPECT((int)f.line == (defined > 0 ? defined : 0), "defined on %u, told %d", f.line, defined);
    EXPECT((int)named->line == (line > 0 ? line : 0), "line %u, told %d", named->line, line);
    EXPECT(named->provenance == PROVENANCE_STALE, "provenance %u", named->provenance);
    compare_display(t, index, named->function);
}

/* Compares one call with its line of the account. Returns its variables. */
static void compare_call(struct target *t, const struct lua_state *s, unsigned index, char *line,
                         struct variables *ret)
{
    struct lua_named named;
    struct managed_function f = {0};
    const struct lua_names_source source = source_of(t);
    const struct lua_call *c = &t->calls.at[index];
    const char *what = field(&line);
    int current = atoi(field(&line)), defined = atoi(field(&line));
    char *chunk = field(&line), *namewhat = field(&line);
    const char *name = unhex(field(&line));
    char *library = field(&line);
    assert_int_equal(
        lua_names_call(t->names, &source, c, index + 1 < t->calls.nr ? c + 1 : NULL, &named, NULL),
        0);
    t->frames++;
    EXPECT(c->is_lua == (strcmp(what, "C") != 0), "Lua: %d, told %s", c->is_lua, what);
    bool unnamed = strcmp(name, "?") == 0; /* by debug */
    EXPECT(strcmp(named.callname ? named.callname : "", unnamed ? "" : name) == 0,
           "called %s, told %s (%s)", named.callname ? named.callname : "-", name, namewhat);
    EXPECT(unnamed || strcmp(lua_name_kind_text(named.callkind), namewhat) == 0,
           "call of kind %s, told %s %s", lua_name_kind_text(named.callkind), namewhat, name);
    if (c->is_lua)
        compare_lua(t, index, &named, what, current, defined, chunk);
    if (*library && !c->is_lua) {
        managed_get(t->managed, named.function, UINT64_MAX, &f);
        EXPECT(named.is_named && f.name && strcmp(f.name, library) == 0, "%s, told %s", f.name,
               library);
        t->libraries++;
    }
    struct variable_place place;
    const struct variables_wanted wanted = variables_wanted_default();
    place_of(t, s, index, &place);
    variables_begin(ret, &wanted);
    assert_int_equal(lua_variables(t->names, &source, &place, ret), 0);
}

/* Memory without the prototypes that one prototype makes. */
struct childless {
    const struct memory_layer *under;
    uint64_t children[LINES_MAX];
    unsigned nr, size; /* size: of a prototype */
};

static void childless_begin(struct childless *c, struct target *t, uint64_t proto)
{
    uint64_t array;
    uint32_t nr;
    c->under = &t->layer;
    c->size = t->layout.fields.proto.size;
    assert_true(lua_read(&t->reader, proto + t->layout.fields.proto.protos, &array, sizeof(array)));
    assert_true(lua_read(&t->reader, proto + t->layout.fields.proto.size_protos, &nr, sizeof(nr)));
    assert_in_range(nr, 1, LINES_MAX);
    assert_true(lua_read(&t->reader, array, c->children, nr * sizeof(*c->children)));
    c->nr = nr;
}

/* struct memory_layer's `read`. */
static bool read_childless(void *context, const struct memory_query *q, void *to,
                           struct memory_answer *answer)
{
    const struct childless *c = context;
    for (unsigned i = 0; i < c->nr; i++)
        if (q->address - c->children[i] < c->size || c->children[i] - q->address < q->size)
            return false;
    return c->under->read(c->under->context, q, to, answer);
}

static void name_calls(struct target *t, const struct memory *m)
{
    struct lua_named named;
    struct lua_reader reader = {.m = m, .layout = &t->layout, .budget = UINT32_MAX};
    struct lua_names_source source = source_of(t);
    source.reader = &reader;
    for (size_t i = 0; i < t->calls.nr; i++)
        assert_int_equal(lua_names_call(t->names, &source, &t->calls.at[i], NULL, &named, NULL), 0);
}

/* Returns how many of the functions have names. */
static unsigned count_named(struct target *t, const struct childless *c)
{
    const struct lua_names_source source = source_of(t);
    unsigned named = 0;
    for (unsigned i = 0; i < c->nr; i++) {
        struct text symbol = {0};
        assert_int_equal(lua_names_function(t->names, &source, c->children[i], &symbol), 0);
        named += memchr(symbol.at, ' ', symbol.size) != NULL;
        text_free(&symbol);
    }
    return named;
}

/* Takes the names that the main chunk gives, which is not on the stacks of coroutines. A recorder
 * may read it before the prototypes that it makes: their names must be taken later. */
static void learn(struct target *t)
{
    struct lua_state s;
    struct childless childless;
    const struct memory_layer layer = {.read = read_childless, .context = &childless};
    struct memory early = t->memory;
    uint64_t main = t->global + t->layout.fields.global.main_thread;
    if (!t->layout.fields.global.main_is_embedded)
        assert_true(lua_read(&t->reader, main, &main, sizeof(main)));
    assert_true(lua_state_read(&t->reader, main, true, &s));
    t->calls.nr = 0;
    assert_int_equal(lua_state_calls(&t->reader, &s, &t->calls), 1);
    size_t chunk = t->calls.nr;
    while (!t->calls.at[--chunk].function.proto)
        ;
    childless_begin(&childless, t, t->calls.at[chunk].function.proto);
    early.layers = &layer;
    early.time -= UINT64_C(100000000);
    name_calls(t, &early);
    unsigned before = count_named(t, &childless);
    name_calls(t, &t->memory);
    assert_true(count_named(t, &childless) > before + 10);
    t->has_learned = true;
}

/* Compares the stack of the thread with the whole account. The newest calls are those of the
 * function that waits, and of what waits. */
static void compare_stop(struct target *t)
{
    struct lua_state s;
    struct variables variables = {0};
    char *line = told, *next;
    unsigned index = 1;
    size_t variable = 0;
    t->stops++;
    t->memory.time += UINT64_C(1000000000);
    t->reader = (struct lua_reader){.m = &t->memory, .layout = &t->layout, .budget = UINT32_MAX};
    assert_int_equal(strncmp(told, "THREAD\t", 7), 0);
    assert_true(lua_state_read(&t->reader, strtoull(told + 7, NULL, 16), true, &s));
    t->global = s.global;
    if (!t->has_learned)
        learn(t);
    t->calls.nr = 0;
    assert_int_equal(lua_state_calls(&t->reader, &s, &t->calls), 1);
    for (line = strchr(line, '\n') + 1; *line; line = next) {
        next = strchr(line, '\n');
        *next++ = 0;
        if (strncmp(line, "F\ttail", 6) == 0)
            continue;
        if (line[0] != 'F') {
            compare_variable(t, index, &variables, &variable, line);
            continue;
        }
        skip_untold(t, &variables, &variable);
        EXPECT(variable == variables.at.nr, "%zu variables, told %zu", variables.at.nr, variable);
        if (++index >= t->calls.nr)
            break;
        variable = 0;
        compare_call(t, &s, index, line + 2, &variables);
    }
    EXPECT(index + 1 == t->calls.nr, "%zu calls, told %u", t->calls.nr, index + 1);
    variables_free(&variables);
}

/* ---- hostile objects ------------------------------------------------------------------------- */

/* Names the calls of a stop, and lists their variables, through a liar. */
static void name_lies(struct target *t, unsigned rounds)
{
    struct liar liar = {t->layer, 0x9e3779b97f4a7c15, 64};
    const struct memory_layer layer = {.read = lie, .context = &liar};
    struct memory memory = {.layers = &layer, .nr_layers = 1, .time = 1000};
    struct lua_state s = {.address = strtoull(told + 7, NULL, 16), .global = t->global};
    struct variables variables = {0};
    struct variables_wanted wanted = variables_wanted_default();
    wanted.depth = 3;
    wanted.temporaries = true;
    for (unsigned i = 0; i < rounds; i++) {
        struct lua_reader reader = {.m = &memory, .layout = &t->layout, .budget = 1 << 12};
        const struct lua_names_source source = {
            .reader = &reader, .global = t->global, .space = 2, .batch = i / 50};
        struct lua_named named;
        struct managed_function f;
        struct variable_place place;
        size_t at = i % (t->calls.nr - 1);
        struct lua_call call = t->calls.at[at], caller = t->calls.at[at + 1];
        memory.time += UINT64_C(500000000);
        liar.one_in = 16u << i % 8;
        if (i % 16 == 0)
            call.index = caller.index = (uint32_t)liar_random(&liar.random);
        assert_int_equal(lua_names_call(t->names, &source, &call, &caller, &named, NULL), 0);
        assert_true(managed_get(t->managed, named.function, UINT64_MAX, &f));
        place_of(t, &s, (unsigned)at, &place);
        if (i % 16 == 1)
            place.word[i / 16 % VARIABLE_WORDS] = liar_random(&liar.random);
        variables_begin(&variables, &wanted);
        assert_int_equal(lua_variables(t->names, &source, &place, &variables), 0);
    }
    variables_free(&variables);
}

/* ---- the target's life ----------------------------------------------------------------------- */

static void start(struct target *t, const char *stops)
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
        execl(t->binary, "lua", source_path, stops, "7", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    t->to = fdopen(in[1], "w");
    t->from = fdopen(out[0], "r");
    t->managed = managed_names_create();
    t->names = lua_names_create(t->managed);
    assert_non_null(t->names);
}

static void attach(struct target *t)
{
    assert_int_equal(process_memory_open(t->pid, &t->process, NULL), 0);
    t->layer = process_memory_layer(t->process);
    t->memory = (struct memory){.layers = &t->layer, .nr_layers = 1, .time = 1000};
}

static void finish(struct target *t)
{
    fclose(t->to);
    fclose(t->from);
    kill(t->pid, SIGKILL);
    waitpid(t->pid, NULL, 0);
    process_memory_close(t->process);
    lua_names_free(t->names);
    managed_names_free(t->managed);
    dsos_free(t->files);
    vec_free(&t->calls);
}

/* Waits until the program waits for input. */
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
            usleep(200);
    }
    assert_int_equal(state, 'S');
}

static void run(struct target *t)
{
    static char line[1 << 16];
    size_t size = 0;
    bool done = false;
    while (!done && fgets(line, sizeof(line), t->from)) {
        size_t length = strlen(line);
        done = strcmp(line, "DONE\n") == 0;
        if (strncmp(line, "FAILED", 6) == 0)
            fail_msg("%s: %s", t->binary, line);
        if (strcmp(line, "END\n") == 0) {
            await_sleep(t->pid);
            if (!t->process)
                attach(t);
            compare_stop(t);
            if (t->liar_rounds)
                name_lies(t, t->liar_rounds);
            size = 0;
            fputs("\n", t->to);
            fflush(t->to);
            continue;
        }
        assert_true(size + length < sizeof(told));
        memcpy(told + size, line, length + 1);
        size += length;
    }
    assert_true(done);
}

static unsigned compare_binary(const char *binary)
{
    struct target *t = calloc(1, sizeof(*t));
    const char *stops = getenv("LUA_STOPS");
    t->binary = binary;
    find_layout(t);
    start(t, stops ? stops : "40");
    run(t);
    print_message("%s: %u stops, %u calls, %u display names, %u library functions, %u values, %u "
                  "failures\n",
                  binary, t->stops, t->frames, t->displays, t->libraries, t->values, t->failures);
    assert_true(t->stops >= WAYS_MIN && t->displays && t->values && t->libraries);
    unsigned failures = t->failures;
    finish(t);
    free(t);
    return failures;
}

static void lying_objects_are_refused_or_named_in_vain(void **state)
{
    (void)state;
    for (unsigned i = 0; i < nr_binaries; i++) {
        struct target *t = calloc(1, sizeof(*t));
        t->binary = binaries[i];
        t->liar_rounds = getenv("LUA_LIES") ? (unsigned)atoi(getenv("LUA_LIES")) : 200;
        find_layout(t);
        start(t, "3");
        run(t);
        finish(t);
        free(t);
    }
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* The same source line in each version's encoding, as its compiler makes it: `function M.f() end`
 * with a local M in register 0, the key in constant 1, the function in register 2. */
static void instructions_of_all_versions_are_understood(void **state)
{
    static const struct {
        unsigned version;
        uint32_t store, call, jump; /* store; call of register 3; jump over five instructions */
    } all[] = {
        {51, 9 | 0 << 6 | 2 << 14 | UINT32_C(257) << 23, 28 | 3 << 6, 22 | UINT32_C(131076) << 14},
        {52, 10 | 0 << 6 | 2 << 14 | UINT32_C(257) << 23, 29 | 3 << 6, 23 | UINT32_C(131076) << 14},
        {53, 10 | 0 << 6 | 2 << 14 | UINT32_C(257) << 23, 36 | 3 << 6, 30 | UINT32_C(131076) << 14},
        {54, 18 | 0 << 7 | 1 << 16 | 2 << 24, 68 | 3 << 7, 56 | UINT32_C(16777220) << 7},
        {55, 18 | 0 << 7 | 1 << 16 | 2 << 24, 68 | 3 << 7, 56 | UINT32_C(16777220) << 7},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        const struct lua_insn store = lua_insn_decode(all[i].store, all[i].version);
        assert_int_equal(store.op, LUA_OP_SETTABLE);
        assert_int_equal(store.table, 0);
        assert_true(store.key.is_constant && store.key.index == 1);
        assert_true(!store.value.is_constant && store.value.index == 2);
        assert_int_equal(store.event, LUA_EVENT_NEWINDEX);
        const struct lua_insn call = lua_insn_decode(all[i].call, all[i].version);
        assert_true(call.op == LUA_OP_CALL && call.a == 3);
        const struct lua_insn jump = lua_insn_decode(all[i].jump, all[i].version);
        assert_true(jump.op == LUA_OP_JUMP && jump.jump == 5);
        /* the highest number is no opcode */
        assert_int_equal(lua_insn_decode(UINT32_MAX, all[i].version).op, LUA_OP_OTHER);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void names_and_values_are_those_that_lua_tells(void **state)
{
    unsigned failures = 0;
    (void)state;
    for (unsigned i = 0; i < nr_binaries; i++)
        failures += compare_binary(binaries[i]);
    assert_int_equal(failures, 0);
}

static void add_binary(const char *file)
{
    if (nr_binaries < sizeof(binaries) / sizeof(*binaries) && access(file, X_OK) == 0)
        binaries[nr_binaries++] = strdup(file);
}

static void find_binaries(void)
{
    char *list = getenv("LUAS") ? strdup(getenv("LUAS")) : NULL, *at = list;
    add_binary("/usr/bin/lua5.1");
    add_binary("/usr/bin/lua5.2");
    add_binary("/usr/bin/lua5.3");
    add_binary("/usr/bin/lua5.4");
    for (char *file; at && (file = strsep(&at, ":"));)
        add_binary(file);
    free(list);
}

static int prepare(void **state)
{
    char line[512], root[PATH_MAX];
    (void)state;
    ssize_t size = readlink("/proc/self/exe", root, sizeof(root) - 1);
    if (size < 0)
        return -1;
    root[size] = 0;
    for (unsigned up = 0; up < 3; up++) /* build/tests/test_... */
        dirname(root);
    snprintf(source_path, sizeof(source_path), "%.*s/tests/unit/lua_names.lua", PATH_MAX - 64,
             root);
    FILE *f = fopen(source_path, "r");
    if (!f)
        return -1;
    for (unsigned nr = 1; nr < LINES_MAX && fgets(line, sizeof(line), f); nr++) {
        char *at = strstr(line, "--> ");
        if (at && line[0] != '-')
            marker[nr] = strndup(at + 4, strcspn(at + 4, "\n"));
    }
    fclose(f);
    find_binaries();
    return 0;
}

static int clean(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LINES_MAX; i++)
        free(marker[i]);
    for (unsigned i = 0; i < nr_binaries; i++)
        free(binaries[i]);
    return 0;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_of_all_versions_are_understood),
        cmocka_unit_test(names_and_values_are_those_that_lua_tells),
        cmocka_unit_test(lying_objects_are_refused_or_named_in_vain),
    };
    int failed = cmocka_run_group_tests(tests, prepare, clean);
    if (!nr_binaries)
        puts("no lua here");
    return failed || nr_binaries ? failed : 77;
}
