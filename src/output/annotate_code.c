/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints a native function's machine code with weights. */
#include "output/annotate_code.h"
#include "output/annotate_internal.h"
#include "output/output.h"
#include "session/registers.h"

#include <capstone/capstone.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_MAX = 4 << 20 };

/* ---- instructions --------------------------------------------------------------------------- */

int annotate_instructions(const struct arch *arch, enum annotate_syntax syntax, const uint8_t *code,
                          size_t size, uint64_t address,
                          void (*each)(void *context, const struct instruction *i), void *context,
                          struct error *err)
{
    csh handle;
    if (!arch)
        return error_set(err, ERROR_UNSUPPORTED,
                         "machine code cannot be shown: the recording's machine is not known");
    if (cs_open((cs_arch)arch->capstone_arch, (cs_mode)arch->capstone_mode, &handle) != CS_ERR_OK)
        return error_set(err, ERROR_UNSUPPORTED,
                         "machine code cannot be shown: libcapstone is missing");
    if (syntax == ANNOTATE_ATT) /* other machines have one syntax only */
        (void)cs_option(handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
    cs_insn *insn = cs_malloc(handle);
    while (insn && size) {
        struct instruction i = {.address = address, .size = 1, .name = "(bad)", .operands = ""};
        if (cs_disasm_iter(handle, &code, &size, &address, insn)) {
            i.size = insn->size;
            i.name = insn->mnemonic;
            i.operands = insn->op_str;
        } else {
            code++;
            size--;
            address++;
        }
        each(context, &i);
    }
    if (insn)
        cs_free(insn, 1);
    cs_close(&handle);
    return insn ? 0 : error_no_memory(err);
}

/* ---- one function of a file ----------------------------------------------------------------- */

struct listing {
    const struct annotated *a;
    struct dso *dso;
    struct symbol_cache *symbols;
    const struct weighed_address *at; /* the first address that was not passed yet */
    size_t left;
    uint64_t bias;    /* listing address minus symbols_resolve() address */
    const char *file; /* the position of the last instruction */
    uint32_t line;
    struct source_files *sources;
    uint64_t recorded;
};

static int compare_addresses(const void *x, const void *y)
{
    const struct weighed_address *a = x, *b = y;
    if (a->dso != b->dso)
        return a->dso < b->dso ? -1 : 1;
    return (a->address > b->address) - (a->address < b->address);
}

/* The position of an instruction in the source. */
static struct source_frame position_of(struct listing *l, uint64_t address)
{
    const struct source_frame none = {0};
    const struct resolved *r = symbols_resolve(l->symbols, l->dso, address, address);
    return !r ? none : r->nr_inlined ? r->inlined[0] : r->outer;
}

/* Print the line of the source, below the name of its file. Without the file, print where it is. */
static void print_line(struct listing *l, const struct source_frame *at, bool same_file)
{
    const char *line = annotate_line(l->sources, at->file, at->line);
    FILE *out = l->a->out;
    struct text name = {0};
    text_clean(&name, at->file);
    const int size = (int)name.size;
    const char *file = name.at ? name.at : "";
    if (line && !same_file)
        fprintf(out, "          :  %.*s%s\n", size, file,
                annotate_is_newer(l->sources, at->file, l->recorded)
                    ? " (it was changed after the recording: lines may not be those)"
                    : "");
    if (line) {
        fprintf(out, "          : %-5" PRIu32 " ", at->line);
        annotate_text(out, line);
        fputc('\n', out);
    } else {
        fprintf(out, "          :  %.*s:%" PRIu32 "\n", size, file, at->line);
    }
    text_free(&name);
}

/* Print the position if it differs from that of the instruction before. */
static void print_position(struct listing *l, const struct source_frame *at)
{
    bool same_file = at->file && l->file && strcmp(at->file, l->file) == 0;
    if (!at->file || (at->line == l->line && same_file))
        return;
    print_line(l, at, same_file);
    l->file = at->file;
    l->line = at->line;
}

static void print_remark(const struct listing *l, const struct source_frame *at, uint64_t self)
{
    struct text name = {0};
    if (!l->a->options->lines || !at->file || !annotate_is_heavy(l->a, self))
        return;
    text_clean(&name, text_base_name(at->file));
    fprintf(l->a->out, " // %.*s:%" PRIu32, (int)name.size, name.at ? name.at : "", at->line);
    text_free(&name);
}

static void print_instruction(void *context, const struct instruction *i)
{
    struct listing *l = context;
    uint64_t self = 0, address = i->address - l->bias;
    for (; l->left && l->at->address < address + i->size; l->at++, l->left--)
        self += l->at->weight.self;
    const struct source_frame at = position_of(l, address);
    print_position(l, &at);
    annotate_share(l->a->options, l->a->out, self, l->a->weight.self);
    fprintf(l->a->out, " :  %8" PRIx64 ":  %-7s %s", i->address, i->name, i->operands);
    print_remark(l, &at, self);
    fputc('\n', l->a->out);
}

static int print_code(struct listing *l, uint64_t start, uint64_t size, struct error *err)
{
    uint64_t vaddr;
    bool proven = false;
    uint8_t *code = size && size <= CODE_MAX ? malloc(size) : NULL;
    if (!code || !dso_read(l->dso, start, code, size, &proven)) {
        const char *why = dso_problem(l->dso);
        fprintf(l->a->out, "# its machine code cannot be read%s%s\n", why ? ": " : "",
                why ? why : "");
        for (; l->left; l->at++, l->left--) {
            annotate_share(l->a->options, l->a->out, l->at->weight.self, l->a->weight.self);
            fprintf(l->a->out, " :  %8" PRIx64 "\n", l->at->address);
        }
        free(code);
        return 0;
    }
    if (!proven)
        fputs("# nothing proves that the file is the one that ran\n", l->a->out);
    l->bias = dso_offset_to_vaddr(l->dso, start, &vaddr) ? vaddr - start : 0;
    int failed =
        annotate_instructions(recording_arch(replay_perfdata(l->a->replay)), l->a->options->syntax,
                              code, size, start + l->bias, print_instruction, l, err);
    free(code);
    return failed;
}

/* Print the code of the symbol at the first address. *ret_nr is the number of addresses from `at`
 * on that belong to the same symbol of the same file. */
static int print_symbol(const struct annotated *a, struct symbol_cache *symbols,
                        struct source_files *sources, const struct weighed_address *at, size_t left,
                        size_t *ret_nr, struct error *err)
{
    struct dso *dso = dsos_at(replay_dsos(a->replay), at->dso - 1);
    struct listing l = {.a = a,
                        .dso = dso,
                        .symbols = symbols,
                        .at = at,
                        .sources = sources,
                        .recorded = annotate_recorded_at(a)};
    const struct resolved *r = symbols_resolve(symbols, dso, at->address, at->address);
    if (!r)
        return error_no_memory(err);
    uint64_t start = at->address - r->offset, size = r->symbol ? r->symbol_size : 0;
    while (l.left < left && at[l.left].dso == at->dso &&
           (l.left == 0 || at[l.left].address - start < size))
        l.left++;
    *ret_nr = l.left;
    struct text name = {0};
    text_name(&name, dso->name);
    fprintf(a->out, "#\n# %s :  Disassembly of %.*s\n# .......\n",
            a->options->counts ? "Samples" : "Percent", (int)name.size, name.at ? name.at : "");
    text_free(&name);
    return print_code(&l, start, size, err);
}

int annotate_code(const struct annotated *a, struct error *err)
{
    const struct symbols_options options = {.lines = true, .inlines = true};
    struct symbols *symbols = symbols_create(replay_dsos(a->replay), &options);
    struct symbol_cache *cache = symbols ? symbol_cache_create(symbols) : NULL;
    struct source_files sources = {.options = a->options, .replay = a->replay};
    int failed = cache ? 0 : error_no_memory(err);
    if (a->addresses.nr)
        qsort(a->addresses.at, a->addresses.nr, sizeof(*a->addresses.at), compare_addresses);
    for (size_t i = 0, nr = 0; !failed && i < a->addresses.nr; i += nr)
        failed =
            print_symbol(a, cache, &sources, &a->addresses.at[i], a->addresses.nr - i, &nr, err);
    source_files_free(&sources);
    symbol_cache_free(cache);
    symbols_free(symbols);
    return failed;
}
