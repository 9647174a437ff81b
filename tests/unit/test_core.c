/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core files: gcore's core of a small program, compared with what gdb says of the live process; the
 * same with the program moved elsewhere; the same cut short and damaged.
 */
#include "memory_fixture.h"
#include "scratch.h"
#include "dso/core.h"
#include "dso/elf_image.h"
#include "session/core_process.h"
#include "unwind/arch_x86_64.h"
#include "session/walk_input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <elf.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES_MAX = 32 };

/* gdb's account of the process that the core is of. */
static struct {
    bool made;
    uint64_t pc[FRAMES_MAX];
    unsigned nr;
    uint64_t pattern; /* address of the program's variable */
} truth;

static const char program[] =
    "#include <pthread.h>\\n#include <unistd.h>\\n#include <stdlib.h>\\n"
    "unsigned char pattern[10000];\\nconst char fixed[] = \\\"read only, in the file\\\";\\n"
    "static void *other(void *p) { sleep(60); return p; }\\n"
    "__attribute__((noinline)) int leaf(int x) { for (int i = 0; i < 10000; i++) pattern[i] = "
    "(unsigned char)(i * 7); pause(); return x; }\\n"
    "__attribute__((noinline)) int middle(int x) { return leaf(x) + 1; }\\n"
    "int main(int c, char **v) { (void)v; pthread_t t; pthread_create(&t, 0, other, 0); "
    "return middle(c); }\\n";

static void read_truth(void)
{
    char line[512];
    FILE *f = fopen(path("gdb.out"), "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        unsigned n;
        uint64_t pc;
        if (sscanf(line, "frame %u 0x%" SCNx64, &n, &pc) == 2 && truth.nr < FRAMES_MAX)
            truth.pc[truth.nr++] = pc;
        (void)sscanf(line, "pattern 0x%" SCNx64, &truth.pattern);
    }
    fclose(f);
}

static int make_core(void **state)
{
    (void)state;
    snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/test_core.XXXXXX");
    if (!mkdtemp(scratch_folder))
        return -1;
    if (system("command -v gdb >/dev/null 2>&1"))
        return 0;
    shell("printf \"%s\" > p.c && gcc -O1 -pthread -Wl,--build-id -o p p.c", program);
    shell(
        "printf 'set pagination off\\nset $i = 0\\npython\\n"
        "f = gdb.selected_frame()\\nn = 0\\nwhile f:\\n    print(\"frame %%%%d 0x%%%%x\" %%%% (n, "
        "f.pc()))\\n    n += 1\\n    f = f.older()\\nend\\n"
        "printf \"pattern 0x%%%%lx\\\\n\", (unsigned long)&pattern\\ngcore core\\n' > script");
    shell("./p & pid=$!; sleep 0.5; gdb -batch -p $pid -x script > gdb.out 2> gdb.err; kill $pid; "
          "wait $pid; true");
    read_truth();
    truth.made = access(path("core"), R_OK) == 0 && truth.nr > 3 && truth.pattern;
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    return 0;
}

static void need_core(void)
{
    if (!truth.made) {
        print_message("no gdb, or it may not attach to a process: no core to read\n");
        skip();
    }
}

static struct core_process open_core(const struct path_replacement *replace)
{
    struct core_process p;
    struct error err = {0};
    struct dso_options dso = {.buildid_dir = path("no-cache"), .no_debuginfod = true};
    struct core_process_options o = {
        .replace = replace, .nr_replace = replace ? 1 : 0, .dso = &dso};
    if (core_process_open(path("core"), &o, &p, &err))
        fail_msg("%s", err.text);
    return p;
}

/* Expects gdb's frames in the walk of the first thread. */
static void expect_backtrace(const struct core_process *p)
{
    struct unwind_stack stack = {0};
    const struct walk_parts parts = {.thread = &p->thread, .stopped = &p->layers[0]};
    struct walk_memory memory;
    struct unwind_input in = {.registers = core_thread(p->core, 0)->registers};
    struct unwinder *u = unwinder_create(NULL);
    walk_input(&parts, FRAMES_MAX, &memory, &in);
    assert_int_equal(unwind(u, &in, &stack, NULL), 0);
    assert_int_equal(stack.end, STACK_COMPLETE);
    assert_true(stack.frames.nr >= truth.nr);
    for (unsigned i = 0; i < truth.nr; i++) {
        assert_int_equal(stack.frames.at[i].pc, truth.pc[i]);
        assert_int_equal(stack.frames.at[i].provenance, PROVENANCE_EXACT);
    }
    vec_free(&stack.frames);
    unwinder_free(u);
}

static void threads_memory_and_files_of_a_gcore(void **state)
{
    (void)state;
    need_core();
    struct core_process p = open_core(NULL);
    assert_int_equal(core_nr_threads(p.core), 2);
    assert_int_equal(core_thread(p.core, 0)->tid, core_pid(p.core));
    assert_int_not_equal(core_thread(p.core, 1)->tid, core_pid(p.core));
    assert_int_equal(core_thread(p.core, 0)->registers.value[DWARF_RIP], truth.pc[0]);
    expect_backtrace(&p);

    uint8_t bytes[10000];
    enum provenance proven = PROVENANCE_EXACT;
    struct memory m = {.layers = p.layers, .nr_layers = 2};
    assert_true(memory_read(&m, truth.pattern, bytes, sizeof(bytes), &proven));
    for (unsigned i = 0; i < sizeof(bytes); i++)
        assert_int_equal(bytes[i], (uint8_t)(i * 7));
    assert_int_equal(proven, PROVENANCE_EXACT);
    /* The core has no code; the file has, and is proven to be the same. */
    assert_false(layer_read(&p.layers[0], truth.pc[1], bytes, 16, 0, &proven));
    assert_true(memory_read(&m, truth.pc[1], bytes, 16, &proven));
    assert_int_equal(proven, PROVENANCE_EXACT);
    assert_false(memory_read(&m, 0x1000, bytes, 1, &proven));
    core_process_free(&p);
}

static void mappings_have_names_and_rights(void **state)
{
    (void)state;
    need_core();
    struct core_process p = open_core(NULL);
    bool program_code = false, stack = false, vdso = false;
    uint64_t last = 0;
    for (size_t i = 0; i < core_nr_mappings(p.core); i++) {
        const struct core_mapping *m = core_mapping(p.core, i);
        assert_true(m->start >= last && m->end > m->start);
        last = m->end;
        bool ours = m->file && strcmp(m->file, path("p")) == 0;
        program_code |= ours && truth.pc[1] >= m->start && truth.pc[1] < m->end;
        vdso |= m->file && strcmp(m->file, "[vdso]") == 0;
        uint64_t sp = core_thread(p.core, 0)->registers.value[DWARF_RSP];
        stack |= !m->file && sp >= m->start && sp < m->end;
    }
    assert_true(program_code && stack && vdso);
    struct code code;
    assert_true(codemap_lookup(&p.code, truth.pc[1], 0, &code));
    assert_true(code.executable);
    core_process_free(&p);
}

static void files_are_found_where_they_were_moved(void **state)
{
    (void)state;
    need_core();
    shell("mkdir -p moved && mv p moved/p");
    struct path_replacement r = {.from = scratch_folder, .to = path("moved")};
    struct core_process p = open_core(&r);
    expect_backtrace(&p);
    core_process_free(&p);
    /* Another program in its place is detected by its build id. */
    shell("printf 'int main(void) { return 3; }\\n' > q.c && gcc -Wl,--build-id -o p q.c");
    p = open_core(NULL);
    uint8_t byte;
    enum provenance proven = PROVENANCE_EXACT;
    struct memory m = {.layers = p.layers, .nr_layers = 2};
    uint64_t of_program = truth.pc[truth.nr - 1];
    for (unsigned i = 0; i < truth.nr; i++)
        for (size_t k = 0; k < core_nr_mappings(p.core); k++) {
            const struct core_mapping *at = core_mapping(p.core, k);
            if (truth.pc[i] >= at->start && truth.pc[i] < at->end && at->file &&
                strcmp(at->file, path("p")) == 0)
                of_program = truth.pc[i];
        }
    assert_false(memory_read(&m, of_program, &byte, 1, &proven));
    core_process_free(&p);
    shell("mv moved/p p");
}

/* Opens damaged bytes. Opening must not trust them; if it succeeds, reads must work. */
static void try_bytes(const uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path("damaged"), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    struct core *core;
    struct error err = {0};
    if (core_open(path("damaged"), &core, &err)) {
        assert_true(err.text[0]);
        return;
    }
    for (size_t i = 0; i < core_nr_mappings(core); i++) {
        uint8_t byte[64];
        enum provenance proven;
        struct build_id id;
        const struct core_mapping *m = core_mapping(core, i);
        struct memory_layer layer = core_memory(core);
        (void)layer_read(&layer, m->start, byte, sizeof(byte), 0, &proven);
        (void)layer_read(&layer, m->end - 1, byte, sizeof(byte), 0, &proven);
        (void)core_build_id(core, m->start, &id);
    }
    core_free(core);
}

static void damaged_cores_are_refused_or_read_in_part(void **state)
{
    (void)state;
    need_core();
    struct elf_image *whole = NULL;
    assert_int_equal(elf_image_open(path("core"), &whole, NULL), 0);
    enum { HEAD = 16384 };
    size_t size = whole->size < 4 * HEAD ? whole->size : 4 * HEAD;
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    for (size_t cut = 0; cut < size; cut += 1 + cut / 8)
        try_bytes(whole->bytes, cut);
    /* Headers, then the notes wherever they are: bytes flipped one after another. */
    for (size_t at = 0; at < 4096; at += 3) {
        memcpy(copy, whole->bytes, size);
        copy[at] ^= (uint8_t)(1 + at % 255);
        try_bytes(copy, size);
    }
    free(copy);
    elf_image_free(whole);
}

/* A handwritten note with malformed counts and sizes. */
static void lying_notes_add_nothing(void **state)
{
    (void)state;
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr note, load;
        Elf64_Nhdr files;
        char name[8];
        uint64_t count, page, start, end, offset;
        Elf64_Nhdr status;
        char status_name[8];
        uint8_t status_bytes[8];
    } core = {.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                       .e_type = ET_CORE,
                       .e_machine = EM_X86_64,
                       .e_phoff = sizeof(Elf64_Ehdr),
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 2},
              .note = {.p_type = PT_NOTE,
                       .p_offset = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr),
                       .p_filesz = UINT64_MAX},
              .load = {.p_type = PT_LOAD,
                       .p_offset = 0,
                       .p_vaddr = UINT64_MAX - 0xfff,
                       .p_filesz = UINT64_MAX,
                       .p_memsz = 0x1000},
              .files = {5, 40, NT_FILE},
              .name = "CORE",
              .count = UINT64_MAX / 8,
              .page = 4096,
              .status = {5, 8, NT_PRSTATUS},
              .status_name = "CORE"};
    FILE *f = fopen(path("lying"), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(&core, sizeof(core), 1, f), 1);
    fclose(f);
    struct core *opened;
    assert_int_equal(core_open(path("lying"), &opened, NULL), 0);
    assert_int_equal(core_nr_threads(opened), 0);
    assert_int_equal(core_nr_mappings(opened), 0);
    core_free(opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_memory_and_files_of_a_gcore),
        cmocka_unit_test(mappings_have_names_and_rights),
        cmocka_unit_test(files_are_found_where_they_were_moved),
        cmocka_unit_test(damaged_cores_are_refused_or_read_in_part),
        cmocka_unit_test(lying_notes_add_nothing),
    };
    return cmocka_run_group_tests(tests, make_core, remove_folder);
}
