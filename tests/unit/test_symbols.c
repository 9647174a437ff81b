/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names, inlined functions and lines of programs compiled here. Oracles: nm for symbols, addr2line
 * -i -f for inlined functions (it cannot read .dwo files: those builds have the same code as a
 * build for which it gave the answers).
 */
#include "scratch.h"
#include "dso/elf_image.h"
#include "symbols/demangle.h"
#include "symbols/debug_info.h"
#include "base/sort.h"
#include "symbols/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program[] = /* each line's functions inline into those of the next line */
    "#include <cstdlib>\n"
    "namespace deep { struct Base { virtual ~Base(); virtual int f(int x) = 0; };\n"
    "Base::~Base() { }\n"
    "template <int N> struct Sum : Base { int a[N];\n"
    "  static inline int mix(int x) { return (x << 3) ^ (x >> 5); }\n"
    "  int f(int x) override { int s = 0; for (int i = 0; i < N; i++) s += mix(a[i] + x) * i; "
    "return s; } };\n"
    "static inline int pick(int x) { auto l = [x](int y) { return Sum<4>::mix(x * y); }; return "
    "l(3) + l(x); }\n"
    "extern volatile int sink; volatile int sink; }\n"
    /* An out-of-line lambda of a function with linkage: its code is in a class in a function. */
    "template <class T> __attribute__((noinline)) int call(T k) { int s = 0;\n"
    "  auto f = [&](T y) __attribute__((noinline)) { return deep::pick(y) * k; };\n"
    "  for (T i = 0; i < 9; i++) s += f(i);\n"
    "  return s; }\n"
    "extern \"C\" int plain(int x) { return deep::pick(x) + 1; }\n"
    "int main(int c, char **) { deep::Sum<3> three; deep::Sum<7> seven; for (int &v : three.a) v = "
    "c;\n"
    "  for (int &v : seven.a) v = rand();\n"
    "  deep::sink = call(c);\n"
    "  return (three.f(c) + seven.f(deep::pick(c)) + plain(c)) & 1; }\n";

static int make_folder(void **state)
{
    (void)state;
    snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/test_symbols.XXXXXX");
    if (!mkdtemp(scratch_folder))
        return -1;
    FILE *f = fopen(path("p.cc"), "w");
    fputs(program, f);
    fclose(f);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    return 0;
}

/* A table, symbols and a cache over one file. */
struct world {
    struct dsos *dsos;
    struct symbols *symbols;
    struct symbol_cache *cache;
    struct dso *dso;
};

static struct world world_open(const char *file, struct symbols_options so)
{
    struct dso_options o = {
        .buildid_dir = path("none"), .debug_dir = path("none"), .no_debuginfod = true};
    struct world w = {.dsos = dsos_create(&o)};
    w.symbols = symbols_create(w.dsos, &so);
    w.cache = symbol_cache_create(w.symbols);
    w.dso = dsos_get(w.dsos, DSO_FILE, file, NULL, 0);
    assert_non_null(w.cache);
    return w;
}

static void world_close(struct world *w)
{
    symbol_cache_free(w->cache);
    symbols_free(w->symbols);
    dsos_free(w->dsos);
}

/* Returns the file offset of a virtual address. */
static uint64_t offset_of(const struct elf_image *e, uint64_t vaddr)
{
    for (uint32_t i = 0; i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        if (p->type == 1 && vaddr - p->vaddr < p->filesz)
            return vaddr - p->vaddr + p->offset;
    }
    fail();
    return 0;
}

/* ---- symbols ----------------------------------------------------------------------------- */

static void every_function_is_named_as_nm_names_it(void **state)
{
    (void)state;
    shell("g++ -O1 -no-pie -o fixed p.cc && g++ -O1 -o pie p.cc && nm -S fixed > fixed.nm && nm -S "
          "pie > pie.nm");
    for (int k = 0; k < 2; k++) {
        struct world w =
            world_open(path(k ? "pie" : "fixed"), (struct symbols_options){.no_demangle = true});
        FILE *f = fopen(path(k ? "pie.nm" : "fixed.nm"), "r");
        uint64_t start, size;
        char type, name[512];
        char line[1024];
        unsigned checked = 0;
        while (fgets(line, sizeof(line), f)) {
            if (sscanf(line, "%lx %lx %c %500s", &start, &size, &type, name) != 4 ||
                !strchr("TtWw", type) || strstr(name, "D1Ev") ||
                strstr(name, "D2Ev")) /* one address, two names */
                continue;
            uint64_t at = offset_of(dso_image(w.dso), start);
            const struct resolved *r =
                symbols_resolve(w.cache, w.dso, at + size - 1, at + size - 1);
            assert_string_equal(r->symbol, name);
            assert_int_equal(r->offset, size - 1);
            assert_int_equal(r->symbol_size, size);
            /* A return address behind the last instruction is looked up inside the call. */
            r = symbols_resolve(w.cache, w.dso, at + size, at + size - 1);
            assert_string_equal(r->symbol, name);
            assert_int_equal(r->offset, size);
            checked++;
        }
        assert_true(checked >= 6);
        fclose(f);
        const struct resolved *none = symbols_resolve(w.cache, w.dso, 1u << 30, 1u << 30);
        assert_null(none->symbol);
        world_close(&w);
    }
}

static void aliases_are_chosen_as_perf_does(void **state)
{
    (void)state;
    FILE *f = fopen(path("a.s"), "w");
    fputs(
        ".text\n.macro fn name\n.globl \\name\n.type \\name,@function\n.endm\n"
        /* global before local and weak; fewer underscores; longer */
        ".weak weak_one\n.type weak_one,@function\nweak_one:\n.type "
        "local_one,@function\nlocal_one:\n"
        "fn strong\nstrong:\n nop\n nop\n.size weak_one,2\n.size local_one,2\n.size strong,2\n"
        "fn __under\n__under:\nfn _under\n_under:\n nop\n nop\n.size __under,2\n.size _under,2\n"
        "fn ab\nab:\nfn abcd\nabcd:\n nop\n nop\n.size ab,2\n.size abcd,2\n"
        /* a symbol with a size before one without; one without a size reaches to the next */
        "fn sized\nsized:\nfn longer_unsized\nlonger_unsized:\n nop\n nop\n.size sized,2\n"
        "fn reaches\nreaches:\n nop\n nop\n nop\n nop\n"
        /* a hole belongs to no symbol */
        "fn last\nlast:\n nop\n.size last,1\n nop\n nop\n nop\n"
        /* a symbol inside another: the inner one, then the outer one again */
        "fn outer_\nouter_:\n nop\n nop\nfn inner_\ninner_:\n nop\n.size inner_,1\n nop\n.size "
        "outer_,4\n"
        "fn end_\nend_:\n nop\n.size end_,1\n nop\n"
        /* a label's code belongs to the function around it, else to the label */
        "fn has_label\nhas_label:\n nop\nin_it:\n nop\n nop\n.size has_label,3\n"
        "alone:\n nop\nfn behind\nbehind:\n nop\n.size behind,1\n"
        /* a label at a function's first byte; one inside a function names nothing behind its end */
        ".globl code_begin\ncode_begin:\nfn first\nfirst:\n nop\nwithin:\n nop\n.size first,2\n"
        " nop\n nop\n.globl code_end\ncode_end:\n nop\n",
        f);
    fclose(f);
    shell("gcc -c -o a.o a.s && gcc -shared -nostdlib -o a.so a.o");
    struct world w = world_open(path("a.so"), (struct symbols_options){0});
    struct elf_section text;
    assert_true(elf_image_section(dso_image(w.dso), ".text", &text));
    static const struct {
        int at;
        const char *name;
        int offset;
    } want[] = {
        {0, "strong", 0},     {1, "strong", 1},     {2, "_under", 0},     {4, "abcd", 0},
        {6, "sized", 0},      {7, "sized", 1},      {8, "reaches", 0},    {11, "reaches", 3},
        {12, "last", 0},      {13, NULL, 0},        {15, NULL, 0},        {16, "outer_", 0},
        {18, "inner_", 0},    {19, "outer_", 3},    {20, "end_", 0},      {21, NULL, 0},
        {22, "has_label", 0}, {23, "has_label", 1}, {24, "has_label", 2}, {25, "alone", 0},
        {26, "behind", 0},    {27, "first", 0},     {28, "first", 1},     {29, NULL, 0},
        {30, NULL, 0},        {31, "code_end", 0}};
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        uint64_t at = text.offset + (uint64_t)want[i].at;
        const struct resolved *r = symbols_resolve(w.cache, w.dso, at, at);
        if (!want[i].name) {
            assert_null(r->symbol);
            continue;
        }
        assert_non_null(r->symbol);
        assert_string_equal(r->symbol, want[i].name);
        assert_int_equal(r->offset, want[i].offset);
    }
    world_close(&w);
}

/* A symbol with hundreds of symbols inside, some of which hold another one. The owner of each byte
 * is computed. */
static void the_innermost_of_many_is_found(void **state)
{
    (void)state;
    enum { NR = 300, STEP = 16 };
    FILE *f = fopen(path("b.s"), "w");
    fputs(".text\n.globl outer\n.type outer,@function\nouter: .skip 16\n", f);
    for (int i = 0; i < NR; i++) {
        /* in each step, [0, 8) is the inner symbol's; in each third, [2, 4) is of a symbol inside
         * it */
        fprintf(f, ".globl in%d\n.type in%d,@function\nin%d: nop\n nop\n", i, i, i);
        if (i % 3 == 0)
            fprintf(f, ".globl deep%d\n.type deep%d,@function\ndeep%d: .size deep%d,2\n", i, i, i,
                    i);
        fprintf(f, " .skip 6\n.size in%d,8\n .skip 8\n", i);
    }
    fputs(".size outer,.-outer\n .skip 64\n", f);
    fclose(f);
    shell("gcc -c -o b.o b.s && gcc -shared -nostdlib -o b.so b.o");
    struct world w = world_open(path("b.so"), (struct symbols_options){0});
    struct elf_section text;
    assert_true(elf_image_section(dso_image(w.dso), ".text", &text));
    for (unsigned byte = 0; byte < STEP + NR * STEP + 32; byte++) {
        char want[32] = "outer";
        unsigned nr = byte / STEP - 1, in = byte % STEP, start = 0;
        uint64_t at = text.offset + byte;
        const struct resolved *r = symbols_resolve(w.cache, w.dso, at, at);
        if (byte >= STEP + NR * STEP) {
            assert_null(r->symbol);
            continue;
        }
        if (byte >= STEP && in < 8) {
            start = byte - in + (nr % 3 == 0 && in / 2 == 1 ? 2 : 0);
            snprintf(want, sizeof(want), nr % 3 == 0 && in / 2 == 1 ? "deep%u" : "in%u", nr);
        }
        assert_string_equal(r->symbol, want);
        assert_int_equal(r->offset, byte - start);
    }
    world_close(&w);
}

/* A symbol without a size reaches to the next symbol, however far; one with a size no further than
 * its size, even if it is the last. */
static void far_symbols_are_found(void **state)
{
    (void)state;
    enum { NR = 400, HOLE = 100000 };
    FILE *f = fopen(path("c.s"), "w");
    fputs(".text\n", f);
    for (int i = 0; i < NR; i++)
        fprintf(f, ".globl f%d\n.type f%d,@function\nf%d: .skip 16\n.size f%d,16\n", i, i, i, i);
    fprintf(f,
            ".globl open\n.type open,@function\nopen: .skip %d\n"
            ".globl sized\n.type sized,@function\nsized: .skip %d\n.size sized,%d\n"
            ".skip %d\n.globl last\n.type last,@function\nlast: .skip 64\n.size last,16\n",
            HOLE, 2 * HOLE, HOLE, HOLE);
    fclose(f);
    shell("gcc -c -o c.o c.s && gcc -shared -nostdlib -o c.so c.o");
    struct world w = world_open(path("c.so"), (struct symbols_options){0});
    struct elf_section text;
    assert_true(elf_image_section(dso_image(w.dso), ".text", &text));
    static const struct {
        uint64_t from, to;
        const char *name;
    } want[] = {{NR * 16, NR * 16 + HOLE, "open"},
                {NR * 16 + HOLE, NR * 16 + 2 * HOLE, "sized"},
                {NR * 16 + 2 * HOLE, NR * 16 + 4 * HOLE, NULL},
                {NR * 16 + 4 * HOLE, NR * 16 + 4 * HOLE + 16, "last"},
                {NR * 16 + 4 * HOLE + 16, NR * 16 + 4 * HOLE + 64, NULL},
                {0, 16, "f0"},
                {NR * 16 - 16, NR * 16, "f399"}};
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        uint64_t step = (want[i].to - want[i].from) / 101 + 1;
        for (uint64_t byte = want[i].from; byte < want[i].to; byte += step) {
            uint64_t at = text.offset + byte;
            const struct resolved *r = symbols_resolve(w.cache, w.dso, at, at);
            assert_true(!want[i].name == !r->symbol);
            if (!want[i].name)
                continue;
            assert_string_equal(r->symbol, want[i].name);
            assert_int_equal(r->offset, byte - want[i].from);
            assert_int_equal(r->symbol_size, want[i].to - want[i].from);
        }
    }
    world_close(&w);
}

/* Compares the PLT entries of `file`, which exists, with objdump, which must name some entries of
 * that section. */
static void expect_plt(const char *file, const char *section)
{
    char name[256];
    shell(
        "objdump -d -j %s %s | sed -n 's/^0*\\([0-9a-f]*\\) <\\(.*@plt\\)>:$/\\1 \\2/p' > q.plt && "
        "test -s q.plt",
        section, file);
    struct world w = world_open(path(file), (struct symbols_options){0});
    FILE *f = fopen(path("q.plt"), "r");
    uint64_t vaddr;
    while (fscanf(f, "%lx %250s", &vaddr, name) == 2) {
        uint64_t at = offset_of(dso_image(w.dso), vaddr) + 6;
        const struct resolved *r = symbols_resolve(w.cache, w.dso, at, at);
        assert_string_equal(r->symbol, name);
        assert_int_equal(r->offset, 6);
    }
    fclose(f);
    world_close(&w);
}

static void plt_entries_are_named(void **state)
{
    (void)state;
    shell(
        "printf '#include <stdio.h>\nint main(void) { return putchar(65) + getchar(); }\n' > q.c");
    shell("gcc -fcf-protection=none -fno-pie -no-pie -Wl,-z,lazy -o q q.c");
    expect_plt("q", ".plt");
    shell("gcc -fcf-protection=full -fno-pie -no-pie -Wl,-z,lazy -Wl,-z,ibtplt -o q2 q.c");
    expect_plt("q2", ".plt.sec");
}

/* ld puts relocations of resolvers last; their entries are between the others. */
static void plt_entries_of_resolvers_are_named(void **state)
{
    (void)state;
    shell("printf '#include <stdio.h>\nstatic int one(void) { return 1; }\n"
          "static int (*pick(void))(void) { return one; }\n"
          "int ours(void) __attribute__((visibility(\"hidden\"), ifunc(\"pick\")));\n"
          "int all(void) { return putchar(65) + ours() + getchar() + puts(\"\"); }\n' > r.c");
    shell("gcc -O0 -fcf-protection=none -fPIC -shared -Wl,-z,lazy -o r.so r.c");
    expect_plt("r.so", ".plt");
}

static void names_are_demangled_without_parameters(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"_ZN3foo3barEi", "foo::bar"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"},
        {"_ZN3foo3barEv.constprop.0", "foo::bar"},
        {"_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"},
        {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
        {"camlStdlib__List__map_12", "Stdlib.List.map_12"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        struct text t = {0};
        assert_true(demangle(pairs[i][0], &t));
        text_char(&t, 0);
        assert_string_equal(t.at, pairs[i][1]);
        text_free(&t);
    }
    static const char *const others[] = {"main", "_start", "",
                                         "_Z",   "_ZN",    "__libc_start_main@@GLIBC_2.34"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct text t = {0};
        assert_false(demangle(others[i], &t));
        assert_int_equal(t.size, 0);
        text_free(&t);
    }
}

/* Each of these names doubles the name inside it, which makes gigabytes without a limit. */
static void a_name_that_explodes_is_left_alone(void **state)
{
    (void)state;
    char name[4096] = "_Z1fI1A";
    size_t at = strlen(name);
    strcpy(name, "_Z1fP1xS0_");
    at = strlen(name);
    for (int i = 0; i < 60; i++)
        at += (size_t)sprintf(name + at, "N1a1bIS%c_S%c_EE", i < 10 ? '0' + i : 'A' + i % 26,
                              i < 10 ? '0' + i : 'A' + i % 26);
    struct text t = {0};
    if (demangle(name, &t))
        assert_true(t.size <= 300 << 10);
    else
        assert_int_equal(t.size, 0);
    text_free(&t);
}

/* Sorts and checks `nr` keys. They are out of order from `from` on, where they are `above` the
 * others or among them. */
static void sort_and_check(uint32_t nr, uint32_t from, uint64_t above)
{
    struct sort_key *keys = calloc(nr, sizeof(*keys));
    bool *seen = calloc(nr, 1);
    uint32_t random = 7;
    for (uint32_t i = 0; i < nr; i++) {
        random = random * 1664525 + 1013904223;
        uint64_t key = i < from ? i : above + ((uint64_t)(random >> 20) << (random % 3 * 20));
        keys[i] = (struct sort_key){.key = key, .index = i, .extra = (uint32_t)key * 3};
    }
    assert_true(sort_keys(keys, nr));
    for (uint32_t i = 0; i < nr; i++) {
        assert_true(i == 0 || keys[i - 1].key < keys[i].key ||
                    (keys[i - 1].key == keys[i].key && keys[i - 1].index < keys[i].index));
        assert_int_equal(keys[i].extra, (uint32_t)keys[i].key * 3);
        assert_false(seen[keys[i].index]);
        seen[keys[i].index] = true;
    }
    free(keys);
    free(seen);
}

static void keys_sort_stably(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 20, 40, 5000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        sort_and_check(sizes[i], 0, 0);
        sort_and_check(sizes[i], sizes[i] / 2, 0);
        sort_and_check(sizes[i], sizes[i] / 2, sizes[i]);
        sort_and_check(sizes[i], sizes[i], 0);
    }
}

/* ---- inlined functions and lines --------------------------------------------------------- */

static void write_frames(FILE *out, const struct resolved *r, uint64_t vaddr)
{
    fprintf(out, "0x%016lx\n", vaddr);
    for (uint32_t i = 0; i <= r->nr_inlined; i++) {
        const struct source_frame *f = i < r->nr_inlined ? &r->inlined[i] : &r->outer;
        const char *name = f->name;
        fprintf(out, "%s\n%s:%u\n", name ? name : "??", f->file ? f->file : "??", f->line);
    }
}

/* Writes our answers for every third byte of the program's own functions, and those addresses. */
static unsigned write_answers(const char *binary, const char *answers, const char *addresses)
{
    struct world w =
        world_open(path(binary),
                   (struct symbols_options){.no_demangle = true, .inlines = true, .lines = true});
    shell("nm -S %s | grep -iE ' [TW] ' | grep -E 'deep|plain|main$|call' | grep -v TV > functions",
          binary);
    FILE *f = fopen(path("functions"), "r"), *to = fopen(path(answers), "w"),
         *list = fopen(path(addresses), "w");
    uint64_t start, size;
    unsigned inlined = 0;
    char line[1024];
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx %lx", &start, &size) != 2)
            continue;
        for (uint64_t at = start; at < start + size; at += 3) {
            uint64_t offset = offset_of(dso_image(w.dso), at);
            const struct resolved *r = symbols_resolve(w.cache, w.dso, offset, offset);
            write_frames(to, r, at);
            fprintf(list, "%lx\n", at);
            inlined += r->nr_inlined;
        }
    }
    fclose(f);
    fclose(to);
    fclose(list);
    world_close(&w);
    return inlined;
}

static void inlines_and_lines_equal_addr2line(void **state)
{
    (void)state;
    /* For a split build, addr2line gets the same program without the split. Its older versions
     * cannot read clang's DWARF 5 range lists: there, llvm's is asked. */
    static const struct {
        const char *build, *reference, *tool;
    } builds[] = {
        {"g++ -O2 -gdwarf-5", "g++ -O2 -gdwarf-5", "addr2line"},
        {"g++ -O2 -gdwarf-4", "g++ -O2 -gdwarf-4", "addr2line"},
        {"g++ -O2 -gdwarf-5 -gz", "g++ -O2 -gdwarf-5", "addr2line"},
        {"g++ -O2 -gdwarf-4 -ffunction-sections -Wl,--gc-sections",
         "g++ -O2 -gdwarf-4 -ffunction-sections -Wl,--gc-sections", "addr2line"},
        {"g++ -O2 -gdwarf-5 -gsplit-dwarf", "g++ -O2 -gdwarf-5", "addr2line"},
        {"g++ -O2 -gdwarf-4 -gsplit-dwarf", "g++ -O2 -gdwarf-4", "addr2line"},
        {"clang++ -O2 -gdwarf-4", "clang++ -O2 -gdwarf-4", "addr2line"},
    };
    for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
        shell("%s -o built p.cc && %s -o reference p.cc", builds[i].build, builds[i].reference);
        assert_true(write_answers("built", "ours", "addresses") > 20);
        shell("%s -e reference -i -f -a < addresses | sed 's/ (discriminator.*//; s/:?$/:0/' > "
              "theirs",
              builds[i].tool);
        /* addr2line may name a function without a linkage name by the symbol at its place. */
        shell("test $(wc -l < ours) = $(wc -l < theirs)");
        shell("paste ours theirs > both && ! awk -F'\\t' '$1 != $2 && $1 !~ "
              "/^(operator[(][)]|main|plain|pick)$/' both | grep .");
    }
}

/* Two units in one package: each must be read with its own parts. */
static void packages_serve_where_dwo_files_are_gone(void **state)
{
    (void)state;
    shell("sed 's/deep/deeper/g; s/plain/second/g; s/call/recall/g; s/int main(/int other_main(/' "
          "p.cc > p2.cc");
    static const char *const versions[] = {"-gdwarf-4", "-gdwarf-5"};
    for (int i = 0; i < 2; i++) {
        shell("g++ -O2 %s -o built p.cc p2.cc", versions[i]);
        assert_true(write_answers("built", "whole", "addresses") > 40);
        shell("rm -f *.dwo *.dwp; g++ -O2 -gsplit-dwarf %s -c p.cc p2.cc && g++ -o built p.o p2.o",
              versions[i]);
        assert_true(write_answers("built", "loose", "addresses") > 40);
        shell("cmp whole loose");
        shell("llvm-dwp-14 -e built -o built.dwp 2>/dev/null || llvm-dwp -e built -o built.dwp "
              "2>/dev/null || "
              "dwp -e built -o built.dwp; rm -f *.dwo; test -s built.dwp");
        assert_true(write_answers("built", "packed", "addresses") > 40);
        shell("cmp whole packed; s=$?; rm -f built.dwp; exit $s");
    }
}

static void a_separate_debug_file_serves(void **state)
{
    (void)state;
    shell("g++ -O2 -g -o reference p.cc && objcopy --only-keep-debug reference built.debug && "
          "cp reference built && strip built && objcopy --add-gnu-debuglink=built.debug built");
    assert_true(write_answers("reference", "ours", "addresses") > 20);
    struct world w =
        world_open(path("built"),
                   (struct symbols_options){.no_demangle = true, .inlines = true, .lines = true});
    FILE *list = fopen(path("addresses"), "r"), *to = fopen(path("separate"), "w");
    uint64_t at;
    while (fscanf(list, "%lx", &at) == 1) {
        uint64_t offset = offset_of(dso_image(w.dso), at);
        write_frames(to, symbols_resolve(w.cache, w.dso, offset, offset), at);
    }
    fclose(list);
    fclose(to);
    world_close(&w);
    shell("cmp ours separate");
}

static void lines_alone_give_the_innermost_position(void **state)
{
    (void)state;
    shell("g++ -O2 -g -o built p.cc && nm built | sed -n 's/ T plain$//p' > at");
    struct world lines = world_open(path("built"), (struct symbols_options){.lines = true});
    struct world all =
        world_open(path("built"), (struct symbols_options){.inlines = true, .lines = true});
    FILE *f = fopen(path("at"), "r");
    uint64_t at;
    assert_int_equal(fscanf(f, "%lx", &at), 1);
    fclose(f);
    uint64_t offset = offset_of(dso_image(lines.dso), at) + 4;
    const struct resolved *a = symbols_resolve(lines.cache, lines.dso, offset, offset);
    const struct resolved *b = symbols_resolve(all.cache, all.dso, offset, offset);
    assert_int_equal(a->nr_inlined, 0);
    assert_true(b->nr_inlined > 0);
    assert_int_equal(a->outer.line, b->inlined[0].line);
    assert_string_equal(a->outer.file, b->inlined[0].file);
    assert_string_equal(b->outer.name, "plain");
    /* Functions without lines have the same names. */
    struct world names = world_open(path("built"), (struct symbols_options){.inlines = true});
    const struct resolved *n = symbols_resolve(names.cache, names.dso, offset, offset);
    assert_int_equal(n->nr_inlined, b->nr_inlined);
    for (uint32_t i = 0; i < n->nr_inlined; i++) {
        assert_string_equal(n->inlined[i].name, b->inlined[i].name);
        assert_null(n->inlined[i].file);
        assert_int_equal(n->inlined[i].line, 0);
    }
    assert_string_equal(n->outer.name, "plain");
    assert_null(n->outer.file);
    world_close(&names);
    /* The warm answer is the same object. */
    assert_ptr_equal(symbols_resolve(all.cache, all.dso, offset, offset), b);
    world_close(&lines);
    world_close(&all);
}

/* ---- threads and damage ------------------------------------------------------------------ */

struct job {
    struct world *w;
    uint64_t first, last, sum;
};

static void *resolve_all(void *context)
{
    struct job *j = context;
    struct symbol_cache *c = symbol_cache_create(j->w->symbols);
    for (uint64_t at = j->first; at < j->last; at++) {
        const struct resolved *r = symbols_resolve(c, j->w->dso, at, at);
        j->sum = j->sum * 31 + r->offset + r->nr_inlined + r->outer.line +
                 (r->symbol ? strlen(r->symbol) : 0);
    }
    symbol_cache_free(c);
    return NULL;
}

static void threads_get_the_same_answers(void **state)
{
    (void)state;
    shell("g++ -O2 -g -gsplit-dwarf -o built p.cc");
    struct world w =
        world_open(path("built"), (struct symbols_options){.inlines = true, .lines = true});
    struct job jobs[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){&w, 0x1000, 0x1800, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, resolve_all, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].sum, jobs[0].sum);
    }
    assert_true(jobs[0].sum != 0);
    world_close(&w);
}

/* Flips and cuts in a program with debug info: any answer is acceptable. */
static void damaged_debug_info_does_no_harm(void **state)
{
    (void)state;
    shell("g++ -O2 -g -o built p.cc");
    struct elf_image *e = NULL;
    assert_int_equal(elf_image_open(path("built"), &e, NULL), 0);
    uint8_t *bytes = malloc(e->size);
    uint32_t random = 99;
    for (int round = 0; round < 150; round++) {
        memcpy(bytes, e->bytes, e->size);
        size_t size = e->size;
        for (int k = 0; k < 40; k++) {
            random = random * 1664525 + 1013904223;
            bytes[4096 + random % (size - 4096)] ^= (uint8_t)(1 << random % 8);
        }
        FILE *f = fopen(path("broken"), "w");
        assert_int_equal(fwrite(bytes, 1, round % 5 ? size : size - random % (size / 2), f),
                         round % 5 ? size : size - random % (size / 2));
        fclose(f);
        struct world w =
            world_open(path("broken"), (struct symbols_options){.inlines = true, .lines = true});
        for (uint64_t at = 0x1000; at < 0x1800; at += 5)
            assert_non_null(symbols_resolve(w.cache, w.dso, at, at));
        world_close(&w);
    }
    free(bytes);
    elf_image_free(e);
}

/* ---- kernel ------------------------------------------------------------------------------ */

static void kallsyms_name_the_kernel(void **state)
{
    (void)state;
    FILE *f = fopen(path("kallsyms"), "w");
    fputs("ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 T do_work\n"
          "ffffffff81000200 t helper\nffffffff81000200 a absolute\nffffffff81000300 D data\n"
          "ffffffffc0000000 t mod_init\t[mod]\nffffffffc0000080 T mod_exit\t[mod]\n",
          f);
    fclose(f);
    for (int moved = 0; moved < 2; moved++) {
        struct dso_options o = {.kallsyms = path("kallsyms"), .buildid_dir = path("none")};
        struct dsos *dsos = dsos_create(&o);
        struct symbols_options so = {0};
        struct symbols *s = symbols_create(dsos, &so);
        struct symbol_cache *c = symbol_cache_create(s);
        struct dso *kernel = dsos_get(dsos, DSO_KERNEL, "[kernel.kallsyms]", NULL, 0);
        uint64_t bias = moved ? 0x200000 : 0;
        if (moved)
            dso_set_reference(kernel, "_text", 0xffffffff81000000 + bias);
        uint64_t at = 0xffffffff81000150 + bias;
        assert_string_equal(symbols_resolve(c, kernel, at, at)->symbol, "do_work");
        assert_int_equal(symbols_resolve(c, kernel, at, at)->offset, 0x50);
        at = 0xffffffff81000210 + bias;
        assert_string_equal(symbols_resolve(c, kernel, at, at)->symbol, "helper");
        /* A guest has another kernel. */
        struct dso *guest = dsos_get(dsos, DSO_KERNEL, "[guest.kernel.kallsyms]", NULL, 0);
        assert_null(symbols_resolve(c, guest, at, at)->symbol);
        at = 0xffffffff90000000;
        assert_null(symbols_resolve(c, kernel, at, at)->symbol);
        struct dso *module = dsos_get(dsos, DSO_KMODULE, "[mod]", NULL, 0);
        assert_string_equal(symbols_resolve(c, module, 0x84, 0x84)->symbol, "mod_exit");
        symbol_cache_free(c);
        symbols_free(s);
        dsos_free(dsos);
    }
}

static const char *kernel_name(const char *kallsyms, enum dso_kind kind, const char *name,
                               uint64_t at, struct intern *keep)
{
    struct dso_options o = {.kallsyms = path(kallsyms), .buildid_dir = path("none")};
    struct dsos *dsos = dsos_create(&o);
    struct symbols *s = symbols_create(dsos, &(struct symbols_options){0});
    struct symbol_cache *c = symbol_cache_create(s);
    const char *found = symbols_resolve(c, dsos_get(dsos, kind, name, NULL, 0), at, at)->symbol;
    found = found ? intern_string(keep, found) : NULL;
    symbol_cache_free(c);
    symbols_free(s);
    dsos_free(dsos);
    return found;
}

/* Modules are in any order, and so are their symbols; malformed lines are skipped. */
static void kallsyms_need_no_order(void **state)
{
    (void)state;
    FILE *f = fopen(path("kallsyms"), "w");
    fputs("0000000000000000 D per_cpu\nffffffff81000000 T _text\nffffffff81000100 T last\n"
          "ffffffffc0009000 t y2\t[y_mod]\nffffffffc0008000 t y1\t[y_mod]\n"
          "ffffffffc0003010 W weak\t[x]\nffffffffc0001000 t x0\t[x]\n"
          "ffffffffc0003010 T strong\t[x]\nffffffffc0002000 t x1\t[x]\n"
          "nonsense\n\nffffffff\nffffffffc0002800 t\n ffffffffc0002900 t no\n"
          "ffffffffc0003010 t local\t[x]", /* no newline at the end */
          f);
    fclose(f);
    f = fopen(path("hidden"), "w");
    fputs("0000000000000000 T a\n0000000000000000 T b\n", f);
    fclose(f);
    struct intern *keep = intern_create();
    const char *file = "kallsyms", *none = "hidden", *kernel = "[kernel.kallsyms]";
    assert_string_equal(kernel_name(file, DSO_KERNEL, kernel, 0xffffffff81000180, keep), "last");
    assert_string_equal(kernel_name(file, DSO_KERNEL, kernel, 0xffffffff80fffff0, keep), "per_cpu");
    assert_null(kernel_name(file, DSO_KERNEL, kernel, 0xffffffff81002180, keep));
    assert_string_equal(kernel_name(file, DSO_KERNEL, kernel, 0xffffffffc0002fff, keep), "x1");
    /* Of symbols at one address, all but the last have no size. */
    assert_string_equal(kernel_name(file, DSO_KERNEL, kernel, 0xffffffffc0003010, keep), "local");
    assert_string_equal(kernel_name(file, DSO_KMODULE, "[x]", 0x1004, keep), "x1");
    assert_string_equal(kernel_name(file, DSO_KMODULE, "/lib/y-mod.ko", 0x10, keep), "y1");
    assert_null(kernel_name(none, DSO_KERNEL, kernel, 0, keep));
    assert_null(kernel_name("absent", DSO_KERNEL, kernel, 0xffffffff81000180, keep));
    intern_free(keep);
}

/* Since Linux 6.4 a module's data is allocated apart from its text, and the value of a per-cpu
 * variable is no address of the module. */
static void a_modules_names_count_from_its_text(void **state)
{
    (void)state;
    FILE *f = fopen(path("kallsyms"), "w");
    fputs("ffffffff81000000 T _text\n"
          "0000000000001a40 d per_cpu\t[below]\nffffffffc0001010 t b0\t[below]\n"
          "ffffffffc0000000 b state\t[below]\nffffffffc0002040 T b1\t[below]\n"
          "0000000000000000 w undefined\t[weak]\nffffffffc0010004 W w0\t[weak]\n"
          "ffffffffc0011000 t w1\t[weak]\nffffffffc0020000 d lone\t[data]\n",
          f);
    fclose(f);
    struct intern *keep = intern_create();
    assert_string_equal(kernel_name("kallsyms", DSO_KMODULE, "[below]", 0x14, keep), "b0");
    assert_string_equal(kernel_name("kallsyms", DSO_KMODULE, "[below]", 0x1044, keep), "b1");
    assert_null(kernel_name("kallsyms", DSO_KMODULE, "[below]", 4, keep));
    assert_string_equal(kernel_name("kallsyms", DSO_KMODULE, "[weak]", 0x8, keep), "w0");
    assert_string_equal(kernel_name("kallsyms", DSO_KMODULE, "[weak]", 0x1008, keep), "w1");
    assert_null(kernel_name("kallsyms", DSO_KMODULE, "[data]", 4, keep));
    intern_free(keep);
}

/* The running kernel's own kallsyms is searched where it is. The oracle is the same text given as
 * an option, which is loaded whole. Also tries texts that the kernel would not write. */
static void the_kernels_own_kallsyms_is_searched(void **state)
{
    (void)state;
    static const char in_order[] =
        "0000000000000000 A fixed\n0000000000001000 D per_cpu\n0000000000001000 A end\n"
        "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000000 A mark\n"
        "ffffffff81000100 T one\nffffffff81000140 R no_symbol\nffffffff81000180 t $d\n"
        "ffffffff81000200 t two\nffffffff81000200 T twin\nffffffff81000400 W three\n"
        "ffffffff81000500 T last\nffffffff81000600 A _end\n";
    static const char *const rest[] = {
        "", "ffffffffc0002000 t m2\t[m]\nffffffffc0001000 t m1\t[m]\n",
        "ffffffff81000300 T late\nffffffff81000080 T later\n", "nonsense\n\nffffffff\n"};
    struct build_id id = {.size = 3, .bytes = {0xab, 0xcd, 0xef}};
    mkdir(path("cache"), 0700);
    mkdir(path("cache/.build-id"), 0700);
    mkdir(path("cache/.build-id/ab"), 0700);
    mkdir(path("cache/.build-id/ab/cdef"), 0700);
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        FILE *f = fopen(path("cache/.build-id/ab/cdef/kallsyms"), "w");
        fprintf(f, "%s%s", in_order, rest[i]);
        fclose(f);
        struct symbol_cache *caches[2];
        struct symbols *symbols[2];
        struct dsos *dsos[2];
        struct dso *kernels[2];
        for (int given = 0; given < 2; given++) {
            struct dso_options o = {.buildid_dir = path("cache")};
            if (given)
                o.kallsyms = path("cache/.build-id/ab/cdef/kallsyms");
            dsos[given] = dsos_create(&o);
            kernels[given] = dsos_get(dsos[given], DSO_KERNEL, "[kernel.kallsyms]", &id, 0);
            dso_set_reference(kernels[given], "_text", 0xffffffff81200000);
            symbols[given] = symbols_create(dsos[given], &(struct symbols_options){0});
            caches[given] = symbol_cache_create(symbols[given]);
        }
        for (uint64_t at = 0xffffffff811fff00; at < 0xffffffff81203000; at += 16) {
            const struct resolved *own = symbols_resolve(caches[0], kernels[0], at, at);
            const struct resolved *whole = symbols_resolve(caches[1], kernels[1], at, at);
            assert_int_equal(!own->symbol, !whole->symbol);
            if (i != 2 && own->symbol) { /* 2: out of order, which nobody could tell */
                assert_string_equal(own->symbol, whole->symbol);
                assert_int_equal(own->offset, whole->offset);
                assert_int_equal(own->symbol_size, whole->symbol_size);
            }
        }
        uint64_t module = 0xffffffffc0201010;
        assert_int_equal(!symbols_resolve(caches[0], kernels[0], module, module)->symbol, i != 1);
        for (int given = 0; given < 2; given++) {
            symbol_cache_free(caches[given]);
            symbols_free(symbols[given]);
            dsos_free(dsos[given]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_named_as_nm_names_it),
        cmocka_unit_test(aliases_are_chosen_as_perf_does),
        cmocka_unit_test(the_innermost_of_many_is_found),
        cmocka_unit_test(far_symbols_are_found),
        cmocka_unit_test(plt_entries_are_named),
        cmocka_unit_test(plt_entries_of_resolvers_are_named),
        cmocka_unit_test(names_are_demangled_without_parameters),
        cmocka_unit_test(a_name_that_explodes_is_left_alone),
        cmocka_unit_test(keys_sort_stably),
        cmocka_unit_test(inlines_and_lines_equal_addr2line),
        cmocka_unit_test(packages_serve_where_dwo_files_are_gone),
        cmocka_unit_test(a_separate_debug_file_serves),
        cmocka_unit_test(lines_alone_give_the_innermost_position),
        cmocka_unit_test(threads_get_the_same_answers),
        cmocka_unit_test(damaged_debug_info_does_no_harm),
        cmocka_unit_test(kallsyms_name_the_kernel),
        cmocka_unit_test(kallsyms_need_no_order),
        cmocka_unit_test(a_modules_names_count_from_its_text),
        cmocka_unit_test(the_kernels_own_kallsyms_is_searched),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
