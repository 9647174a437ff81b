/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs with known call trees, and verdicts on their stacks. */
#include "luajit_tree.h"

#include "base/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 4096, FUNCTIONS = 1024, NAME = 32 };

/* ---- the programs' text -------------------------------------------------------------------- */

struct tree_function {
    char name[NAME]; /* f0_1, or froot */
    int first, last; /* first and last line */
};

struct program {
    char name[64];
    char *lines[LINES];
    int nr_lines;
    struct tree_function functions[FUNCTIONS];
    int nr_functions;
};

static struct program programs[8];
static int nr_programs;

static void read_program(const char *folder, const char *file)
{
    struct program *p = &programs[nr_programs++];
    char path[4096], line[4096];
    snprintf(p->name, sizeof(p->name), "%s", file);
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        exit(1);
    }
    struct tree_function *open = NULL;
    while (fgets(line, sizeof(line), f) && p->nr_lines + 1 < LINES) {
        int n = ++p->nr_lines;
        p->lines[n] = strdup(line);
        char name[NAME];
        if (sscanf(line, "F.%31[a-z0-9_] = function", name) == 1 && strstr(line, "= function")) {
            open = &p->functions[p->nr_functions++];
            snprintf(open->name, sizeof(open->name), "%s", name);
            open->first = n;
        } else if (open && !strncmp(line, "end", 3)) {
            open->last = n;
            open = NULL;
        }
    }
    fclose(f);
}

static const struct tree_function *defined_at(const struct program *p, int line)
{
    for (int i = 0; i < p->nr_functions; i++) {
        if (p->functions[i].first == line)
            return &p->functions[i];
    }
    return NULL;
}

/* Gives the only caller of a tree function: "" for froot, whose caller is the main chunk. */
static void parent_of(const char *name, char *ret)
{
    snprintf(ret, NAME, "%s", name);
    char *last = strrchr(ret, '_');
    if (!strcmp(name, "froot"))
        *ret = 0;
    else if (last)
        *last = 0;
    else
        snprintf(ret, NAME, "froot");
}
/* ---- the walker's frames, as the test sees them -------------------------------------------- */

static struct luajit_frame noted[65536];
static uint32_t nr_noted;

static bool note(void *context, const struct memory *m, const struct luajit_vm *vm,
                 const struct luajit_frame *frame, struct frame *ret)
{
    (void)context, (void)m, (void)vm;
    if (nr_noted + 1 < sizeof(noted) / sizeof(*noted)) {
        noted[++nr_noted] = *frame;
        ret->function = nr_noted;
    }
    return true;
}

/* Reads the lines of the definition and of execution from the prototype, without the walker's
 * code. */
static void read_lines(const struct memory *m, const struct luajit_layout *l,
                       const struct luajit_frame *f, struct seen *ret)
{
    uint8_t proto[0x68];
    enum provenance p = PROVENANCE_EXACT;
    if (!memory_read(m, f->proto, proto, (size_t)l->proto_size, &p))
        return;
    ret->first = (int)load_u32(proto + l->proto_firstline, false);
    int numline = (int)load_u32(proto + l->proto_numline, false);
    uint64_t info = l->gc64 ? load_u64(proto + l->proto_lineinfo, false)
                            : load_u32(proto + l->proto_lineinfo, false);
    uint64_t chunk = l->gc64 ? load_u64(proto + l->proto_chunkname, false)
                             : load_u32(proto + l->proto_chunkname, false);
    for (size_t size = sizeof(ret->chunk) - 1; size > 32; size /= 2) {
        if (memory_read(m, chunk + (uint64_t)l->str_size, ret->chunk, size, &p))
            break;
    }
    int width = numline < 256 ? 1 : numline < 65536 ? 2 : 4;
    uint32_t delta = 0;
    if (f->position < 0)
        return;
    ret->has_line = true;
    ret->line = ret->first;
    if (f->position > 0 && info &&
        memory_read(m, info + (uint64_t)((f->position - 1) * width), &delta, (size_t)width, &p))
        ret->line += (int)delta;
}

static void look(const struct memory *m, const struct luajit_layout *l, const struct frame *f,
                 struct seen *ret)
{
    *ret = (struct seen){.pc = f->pc, .provenance = f->provenance, .trace = f->trace};
    if (f->kind != FRAME_LUA)
        return;
    ret->lua = true;
    ret->inlined = f->flags & FRAME_INLINED;
    ret->unknown = f->function == 0;
    if (ret->unknown)
        return;
    const struct luajit_frame *n = &noted[f->function];
    ret->unknown = n->kind == LUAJIT_FRAME_UNKNOWN;
    ret->c = n->kind == LUAJIT_FRAME_C;
    ret->builtin = n->kind == LUAJIT_FRAME_BUILTIN;
    if (n->kind == LUAJIT_FRAME_LUA)
        read_lines(m, l, n, ret);
}
/* ---- verdicts ------------------------------------------------------------------------------ */

static const struct program *program_of(const char *chunk)
{
    for (int i = 0; i < nr_programs; i++) {
        size_t n = strlen(programs[i].name), have = strlen(chunk);
        if (have >= n && !strcmp(chunk + have - n, programs[i].name))
            return &programs[i];
    }
    return NULL;
}

static const struct tree_function *tree_frame(struct judge *j, const struct seen *s)
{
    if (!s->lua || s->unknown || s->c || s->builtin || s->first <= 0)
        return NULL;
    const struct program *p = program_of(s->chunk);
    if (!p)
        return NULL;
    j->program = p;
    return defined_at(p, s->first);
}

/* Returns whether the caller's line calls `child`. A caller without a line is no fault, but is
 * counted. */
static bool line_fits(const struct judge *j, const struct seen *caller, const char *child)
{
    char want[NAME + 8];
    if (!caller->has_line)
        return true;
    if (caller->line <= 0 || caller->line > j->program->nr_lines)
        return false;
    snprintf(want, sizeof(want), "F.%s", child);
    const char *at = strstr(j->program->lines[caller->line], want);
    return at && strchr("(,)", at[strlen(want)]);
}

static bool is_main(const struct seen *s)
{
    return s->lua && !s->unknown && !s->c && !s->builtin && s->first == 0 && program_of(s->chunk);
}

/* Between two tree functions there may be closures of the caller, helpers, builtins and C. A
 * closure must be defined inside the caller. */
static bool between_fits(const struct judge *j, const struct tree_function *caller, int from,
                         int to)
{
    for (int i = from; i < to; i++) {
        const struct seen *s = &j->seen[i];
        if (!s->lua || s->c || s->builtin || s->unknown || s->first <= 0)
            continue;
        bool helper = !strncmp(j->program->lines[s->first], "local ", 6) ||
                      s->first < j->program->functions[0].first;
        bool inside = caller && s->first > caller->first && s->first < caller->last;
        if (!helper && !inside)
            return false;
    }
    return true;
}

static enum verdict fault(struct judge *j, int upto, const char *why, const char *name)
{
    snprintf(j->why, sizeof(j->why), "%s %s", why, name);
    for (int i = 0; i < j->nr && i <= upto; i++) {
        if (j->seen[i].provenance != PROVENANCE_EXACT || j->seen[i].unknown)
            return WRONG_MARKED;
    }
    return WRONG;
}

static enum verdict judge_stack(struct judge *j, enum stack_end end)
{
    char expected[NAME] = "", child[NAME] = "";
    bool any = false, lua = false, unknown = false, main_chunk = false;
    int last = 0;
    *j->why = 0;
    for (int i = 0; i < j->nr; i++) {
        const struct seen *s = &j->seen[i];
        lua |= s->lua;
        unknown |= s->unknown;
        const struct tree_function *t = tree_frame(j, s);
        if (!t && !is_main(s))
            continue;
        const char *name = t ? t->name : "";
        if (main_chunk)
            return fault(j, i, "below the main chunk:", name);
        if (any && strcmp(name, expected) != 0)
            return fault(j, i, "not the caller:", *name ? name : "main chunk");
        if (any && (!between_fits(j, t, last + 1, i)))
            return fault(j, i, "a foreign closure below", child);
        if (any && t && !strcmp(child, expected))
            return fault(j, i, "twice:", name);
        bool direct = any;
        for (int k = last + 1; k < i; k++)
            direct &= !j->seen[k].lua;
        if (any && direct && !line_fits(j, s, child))
            return fault(j, i, "the line does not call", child);
        any = true;
        last = i;
        main_chunk = !t;
        snprintf(child, sizeof(child), "%s", name);
        if (t)
            parent_of(name, expected);
    }
    if (!lua)
        return NOT_IN_LUA;
    bool complete = end == STACK_COMPLETE;
    if (unknown || !complete) {
        snprintf(j->why, sizeof(j->why), "%s%s", unknown ? "unknown frames " : "",
                 complete ? "" : "native end");
        return INCOMPLETE;
    }
    if (!main_chunk)
        return fault(j, j->nr, "no main chunk", "");
    return EXACT;
}
/* ---- one stack ----------------------------------------------------------------------------- */

void tree_read_programs(const char *folder)
{
    static const char *const files[] = {"plain21.lua", "plain22.lua", "mixed21.lua", "mixed22.lua",
                                        "mixed23.lua"};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        read_program(folder, files[i]);
}

struct luajit_namer tree_namer(void)
{
    return (struct luajit_namer){note, NULL};
}

void tree_begin(void)
{
    nr_noted = 0;
}

enum verdict tree_judge(struct judge *j, const struct memory *m, const struct luajit_layout *l,
                        const struct unwind_stack *stack)
{
    j->nr = 0;
    j->guess = j->no_position = false;
    for (size_t i = 0; i < stack->frames.nr && j->nr < TREE_FRAMES; i++)
        look(m, l, &stack->frames.at[i], &j->seen[j->nr++]);
    for (int i = 0; i < j->nr; i++) {
        j->guess |= j->seen[i].provenance == PROVENANCE_GUESS;
        j->no_position |= tree_frame(j, &j->seen[i]) && !j->seen[i].has_line;
    }
    return judge_stack(j, stack->end);
}

const char *tree_verdict(enum verdict v)
{
    static const char *const words[NR_VERDICTS] = {"not in Lua", "exact", "incomplete", "WRONG",
                                                   "wrong, marked"};
    return words[v];
}

void tree_print(const struct judge *j, const struct unwind_stack *stack)
{
    for (int i = 0; i < j->nr; i++) {
        const struct seen *s = &j->seen[i];
        const struct tree_function *t = NULL;
        const struct program *p = program_of(s->chunk);
        if (p && s->first > 0)
            t = defined_at(p, s->first);
        printf("    %16llx %s", (unsigned long long)s->pc,
               !s->lua      ? "native"
               : s->unknown ? "[unknown]"
               : s->c       ? "C"
               : s->builtin ? "builtin"
                            : "lua");
        if (s->lua && !s->unknown && !s->c && !s->builtin)
            printf(" %s first=%d line=%d", t ? t->name : "", s->first, s->has_line ? s->line : -1);
        if (s->trace)
            printf(" trace=%d", s->trace);
        printf("%s prov=%d\n", s->inlined ? " inlined" : "", s->provenance);
    }
    printf("    end %d pc %llx\n", stack->end, (unsigned long long)stack->end_pc);
}
