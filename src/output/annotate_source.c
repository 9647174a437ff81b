/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints a function's source with weights. */
#include "output/annotate_internal.h"
#include "output/output.h"
#include "output/source_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    AROUND = 3, /* lines shown before and after a line with weight */
    GAP = 3,    /* a gap of fewer lines than this is shown, too */
    TAB = 4,
};

/* ---- the file ------------------------------------------------------------------------------- */

struct source {
    const char *name; /* the program's name for it */
    struct source_file file;
    VEC(const char *) lines; /* each line ends at its newline */
};

static void source_free(struct source *s)
{
    source_file_free(&s->file);
    vec_free(&s->lines);
}

static bool find_source(const struct annotate_options *o, const struct replay *r, const char *file,
                        struct source *ret)
{
    const struct source_place place = {.folder = o->source_dir,
                                       .symfs = replay_options(r)->session.symfs};
    return source_file_read(&place, file, &ret->file);
}

static bool split_lines(struct source *s)
{
    const char *last = s->file.bytes + s->file.size;
    for (const char *at = s->file.bytes; at && at < last;) {
        const char *end = memchr(at, '\n', (size_t)(last - at));
        if (!vec_push(&s->lines, at))
            return false;
        at = end ? end + 1 : NULL;
    }
    return true;
}

void annotate_text(FILE *out, const char *line)
{
    struct text plain = {0}, clean = {0};
    for (; *line && *line != '\n'; line++) {
        if (*line == '\t')
            text_bytes(&plain, "        ", TAB);
        else if (*line != '\r')
            text_char(&plain, *line);
    }
    text_char(&plain, 0);
    if (!plain.failed)
        text_clean(&clean, plain.at);
    fwrite(clean.at ? clean.at : "", 1, clean.failed ? 0 : clean.size, out);
    text_free(&plain);
    text_free(&clean);
}

static struct source *open_source(struct source_files *files, const char *name)
{
    vec_foreach (known, &files->files)
        if (strcmp((*known)->name, name) == 0)
            return *known;
    struct source *s = calloc(1, sizeof(*s));
    if (!s || !vec_push(&files->files, s)) {
        free(s);
        return NULL;
    }
    s->name = name;
    if (find_source(files->options, files->replay, name, s))
        split_lines(s);
    return s;
}

const char *annotate_line(struct source_files *files, const char *file, uint32_t line)
{
    const struct source *s = open_source(files, file);
    return s && line && line <= s->lines.nr ? s->lines.at[line - 1] : NULL;
}

bool annotate_is_newer(struct source_files *files, const char *file, uint64_t recorded)
{
    const struct source *s = open_source(files, file);
    return s && s->file.bytes && recorded && (uint64_t)s->file.changed > recorded;
}

void source_files_free(struct source_files *files)
{
    vec_foreach (s, &files->files) {
        source_free(*s);
        free(*s);
    }
    vec_free(&files->files);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int compare_lines(const void *x, const void *y)
{
    const struct weighed_line *a = x, *b = y;
    if (a->file != b->file)
        return !a->file ? 1 : !b->file ? -1 : strcmp(a->file, b->file);
    return (a->line > b->line) - (a->line < b->line);
}

static void print_line(const struct annotated *a, const struct weight *w, uint32_t number,
                       const char *text)
{
    annotate_share(a->options, a->out, w->self, a->weight.self);
    annotate_share(a->options, a->out, w->total, a->weight.total);
    if (number)
        fprintf(a->out, "  %6" PRIu32 "  ", number);
    else
        fputs("       ?  ", a->out);
    annotate_text(a->out, text);
    fputc('\n', a->out);
}

static void print_columns(const struct annotated *a, const char *what)
{
    struct text name = {0};
    text_name(&name, what);
    fprintf(a->out, "#\n#    Self    Total    Line  %.*s\n# .......  .......  ......  ....\n",
            (int)name.size, name.at ? name.at : "");
    text_free(&name);
}

/* Choose the lines of a file to show: those around lines with weight, from the function's first
 * line on. The result is indexed by line number; NULL: memory is out. */
static bool *choose_lines(const struct annotated *a, const struct source *s,
                          const struct weighed_line *lines, size_t nr)
{
    bool *shown = calloc(s->lines.nr + 2, sizeof(*shown));
    size_t defined = lines->file == a->function->file ? a->function->line : 0;
    size_t first = defined && defined <= lines->line ? defined : 1, last = first;
    if (shown && defined && defined <= s->lines.nr)
        shown[defined] = true;
    for (size_t i = 0; shown && i < nr && lines[i].line <= s->lines.nr; i++) {
        size_t from = lines[i].line > AROUND ? lines[i].line - AROUND : 1;
        size_t to = lines[i].line + AROUND < s->lines.nr ? lines[i].line + AROUND : s->lines.nr;
        from = from > last + GAP ? from : last; /* a small gap is shown */
        for (last = from; last <= to; last++)
            shown[last] = true;
    }
    return shown;
}

/* Print the lines of one file. */
static bool print_file(const struct annotated *a, const struct source *s,
                       const struct weighed_line *lines, size_t nr)
{
    static const struct weight none;
    bool *shown = choose_lines(a, s, lines, nr), before = true;
    size_t next = 0;
    for (size_t line = 1; shown && line <= s->lines.nr; line++) {
        bool weighs = next < nr && lines[next].line == line;
        if (!shown[line] && before && line > 1)
            fputs("                              ...\n", a->out);
        before = shown[line];
        if (shown[line])
            print_line(a, weighs ? &lines[next].weight : &none, (uint32_t)line,
                       s->lines.at[line - 1]);
        next += weighs;
    }
    for (; shown && next < nr; next++)
        print_line(a, &lines[next].weight, lines[next].line, "(the file has no such line)");
    free(shown);
    return shown;
}

static void print_without(const struct annotated *a, const struct weighed_line *lines, size_t nr)
{
    for (size_t i = 0; i < nr; i++)
        print_line(a, &lines[i].weight, lines[i].line, "");
}

uint64_t annotate_recorded_at(const struct annotated *a)
{
    uint64_t ns = export_wall_clock(&(struct export){.replay = a->replay}, a->last);
    struct stat st;
    if (ns)
        return ns / 1000000000;
    return stat(perfdata_path(replay_perfdata(a->replay)), &st) == 0 ? (uint64_t)st.st_mtime : 0;
}

static int print_group(const struct annotated *a, const struct weighed_line *lines, size_t nr,
                       struct error *err)
{
    struct source s = {0};
    bool found = lines->file && find_source(a->options, a->replay, lines->file, &s);
    if (found && !split_lines(&s)) {
        source_free(&s);
        return error_no_memory(err);
    }
    if (!lines->file) {
        print_columns(a, "(where in the source is not known)");
        print_without(a, lines, nr);
    } else if (!found) {
        print_columns(a, lines->file);
        fprintf(a->out, "# the source was not found; --source-dir tells where it is\n");
        print_without(a, lines, nr);
    } else {
        uint64_t when = annotate_recorded_at(a);
        print_columns(a, s.file.path);
        if (when && (uint64_t)s.file.changed > when)
            fputs("# the source was changed after the recording: lines may not be those\n", a->out);
        found = print_file(a, &s, lines, nr);
        source_free(&s);
        return found ? 0 : error_no_memory(err);
    }
    source_free(&s);
    return 0;
}

int annotate_source(const struct annotated *a, struct error *err)
{
    if (a->lines.nr)
        qsort(a->lines.at, a->lines.nr, sizeof(*a->lines.at), compare_lines);
    for (size_t i = 0, nr; i < a->lines.nr; i += nr) {
        for (nr = 1; i + nr < a->lines.nr && a->lines.at[i + nr].file == a->lines.at[i].file;)
            nr++;
        if (print_group(a, a->lines.at + i, nr, err) < 0)
            return -1;
    }
    return 0;
}
