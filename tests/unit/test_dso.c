/* SPDX-License-Identifier: GPL-2.0-only */
/* Identities, finding files and debug files, damaged ELF files. */
#include "scratch.h"
#include "dso/dso.h"
#include "dso/elf_image.h"
#include "dso/elf_symbol.h"
#include "dso/notes.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <elf.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Makes the test's folder, and its files with shell commands, which must succeed. */
static int make_folder(void **state)
{
    (void)state;
    snprintf(scratch_folder, sizeof(scratch_folder), "/tmp/test_dso.XXXXXX");
    if (!mkdtemp(scratch_folder))
        return -1;
    shell("printf 'static __attribute__((noinline)) int inner(int x) { return x * 3; }\\n"
          "int outer(int x) { return inner(x) + 1; }\\nint main(int c, char **v) { (void)v; return "
          "outer(c); }\\n' > p.c");
    shell("gcc -g -O1 -Wl,--build-id -o whole p.c");
    shell("objcopy --only-keep-debug whole whole.debug && cp whole stripped && strip stripped && "
          "cp stripped linked && objcopy --add-gnu-debuglink=whole.debug linked && "
          "printf 'int main(void) { return 7; }\\n' > other.c && gcc -Wl,--build-id -o other "
          "other.c");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    return 0;
}

static struct dsos *table(const struct dso_options *more)
{
    struct dso_options o = more ? *more : (struct dso_options){0};
    if (!o.buildid_dir)
        o.buildid_dir = path("no-cache");
    if (!o.debug_dir)
        o.debug_dir = path("no-debug");
    o.no_debuginfod = true;
    struct dsos *all = dsos_create(&o);
    assert_non_null(all);
    return all;
}

static struct build_id id_of(const char *file)
{
    struct elf_image *e = NULL;
    assert_int_equal(elf_image_open(file, &e, NULL), 0);
    struct build_id id = e->build_id;
    elf_image_free(e);
    assert_int_equal(id.size, 20);
    return id;
}

static void identity_is_kind_name_and_build_id(void **state)
{
    (void)state;
    struct dsos *all = table(NULL);
    struct build_id a = {.size = 20, .bytes = {1}}, b = {.size = 20, .bytes = {2}};
    struct dso *x = dsos_get(all, DSO_FILE, "/bin/x", &a, 0);
    assert_string_equal(x->short_name, "x");
    assert_int_equal(x->id, 1);
    assert_ptr_equal(dsos_get(all, DSO_FILE, "/bin/x", &a, 0), x);
    assert_ptr_equal(dsos_get(all, DSO_FILE, "/bin/x", NULL, 0), x);
    struct dso *replaced = dsos_get(all, DSO_FILE, "/bin/x", &b, 0);
    assert_ptr_not_equal(replaced, x);
    assert_ptr_not_equal(dsos_get(all, DSO_KMODULE, "/bin/x", &a, 0), x);
    /* A build id learned later goes to the dso of that name that had none. */
    struct dso *y = dsos_get(all, DSO_FILE, "/bin/y", NULL, 0);
    dsos_set_build_id(all, "/bin/y", &a);
    assert_true(build_id_equal(&y->build_id, &a));
    assert_ptr_equal(dsos_get(all, DSO_FILE, "/bin/y", &a, 0), y);
    for (int i = 0; i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "/lib/%d", i);
        assert_int_equal(dsos_get(all, DSO_FILE, name, NULL, 0)->id, i + 5);
    }
    assert_int_equal(dsos_count(all), 2004);
    assert_string_equal(dsos_at(all, 4)->name, "/lib/0");
    dsos_free(all);
}

/* Two files of one name, of which only one has the build id given for the name. */
static void a_doubted_build_id_proves_nothing(void **state)
{
    (void)state;
    struct dsos *all = table(NULL);
    struct build_id id = id_of(path("whole"));
    uint8_t byte;
    bool proven;
    struct dso *used = dsos_get(all, DSO_FILE, path("whole"), &id, 0);
    assert_true(dso_read(used, 0, &byte, 1, &proven) && proven);
    assert_false(dso_is_doubted(used, 9));
    dsos_doubt_build_id(all, path("whole"), &id, 9);
    assert_false(dso_is_doubted(used, 8));
    assert_true(dso_is_doubted(used, 9));
    struct dso *second = dsos_get_apart(all, DSO_FILE, path("whole"), 0);
    assert_ptr_not_equal(second, used);
    dsos_set_build_id(all, path("whole"), &id);
    assert_int_equal(second->build_id.size, 0);
    assert_true(dso_read(second, 0, &byte, 1, &proven) && !proven);
    assert_ptr_equal(dsos_get_apart(all, DSO_FILE, path("whole"), 0), second);
    /* A dso that nobody has searched for yet is searched for without the id. */
    struct dso *unused = dsos_get(all, DSO_FILE, path("other"), &id, 0);
    struct dso *recorded = dsos_get(all, DSO_FILE, path("other"), &(struct build_id){20, {1}}, 0);
    dsos_doubt_build_id(all, path("other"), &id, 9);
    assert_int_equal(unused->build_id.size, 20); /* the dso may be in use */
    dsos_doubt_build_id(all, path("other"), &id, 0);
    assert_int_equal(unused->build_id.size, 0);
    assert_int_equal(recorded->build_id.size, 20);
    assert_ptr_equal(dsos_get_apart(all, DSO_FILE, path("other"), 0), unused);
    assert_ptr_equal(dsos_get(all, DSO_FILE, path("other"), NULL, 0), recorded);
    dsos_free(all);
}

/* Any offset of a file: those in its segment's range are converted alike, and those just outside
 * are not of the segment. */
static void offsets_of_a_segment_are_converted_alike(void **state)
{
    (void)state;
    struct elf_image *e;
    assert_int_equal(elf_image_open(path("whole"), &e, NULL), 0);
    size_t in = 0;
    for (uint64_t offset = 0; offset < e->size; offset += 7) {
        uint64_t first, end, vaddr, other;
        bool found = elf_image_offset_to_vaddr(e, offset, &vaddr);
        assert_int_equal(elf_image_loaded_around(e, offset, &first, &end), found);
        if (!found)
            continue;
        in++;
        assert_true(first <= offset && offset < end);
        assert_true(elf_image_offset_to_vaddr(e, first, &other));
        assert_int_equal(other - first, vaddr - offset);
        assert_true(elf_image_offset_to_vaddr(e, end - 1, &other));
        assert_int_equal(other - (end - 1), vaddr - offset);
        uint64_t mid = first + (end - first) / 2;
        assert_true(elf_image_offset_to_vaddr(e, mid, &other));
        assert_int_equal(other - mid, vaddr - offset);
    }
    assert_true(in > 100);
    elf_image_free(e);
}

static void a_file_is_mapped_and_read(void **state)
{
    (void)state;
    struct dsos *all = table(NULL);
    struct build_id id = id_of(path("whole"));
    struct dso *d = dsos_get(all, DSO_FILE, path("whole"), &id, 0);
    const struct elf_image *e = dso_image(d);
    assert_non_null(e);
    assert_null(dso_problem(d));
    assert_int_equal(e->machine, EM_X86_64);
    assert_ptr_equal(dso_debug_image(d), e);
    struct elf_section text, bss;
    assert_true(elf_image_section(e, ".text", &text));
    assert_true(elf_image_section(e, ".bss", &bss));
    assert_null(bss.bytes);
    assert_false(elf_image_section(e, ".nothing", &text));
    uint64_t vaddr;
    assert_true(dso_offset_to_vaddr(d, text.offset, &vaddr));
    assert_int_equal(vaddr, text.address);
    assert_false(dso_offset_to_vaddr(d, 1 << 30, &vaddr));
    uint64_t first, end;
    assert_true(dso_loaded_around(d, text.offset, &first, &end));
    assert_true(first <= text.offset && end >= text.offset + text.size);
    assert_false(dso_loaded_around(d, 1 << 30, &first, &end));
    uint8_t bytes[16];
    bool proven;
    assert_true(dso_read(d, text.offset, bytes, sizeof(bytes), &proven));
    assert_true(proven);
    assert_memory_equal(bytes, text.bytes, sizeof(bytes));
    assert_false(dso_read(d, 1 << 30, bytes, sizeof(bytes), &proven));
    assert_false(dso_read(d, UINT64_MAX - 4, bytes, sizeof(bytes), &proven));
    assert_non_null(dso_cfi(d));
    dsos_free(all);
}

static void bytes_of_an_unproven_file_are_said_to_be_so(void **state)
{
    (void)state;
    struct dsos *all = table(NULL);
    struct dso *d = dsos_get(all, DSO_FILE, path("whole"), NULL, 0);
    uint8_t bytes[4];
    bool proven = true;
    assert_non_null(dso_image(d));
    assert_true(dso_read(d, 0, bytes, sizeof(bytes), &proven));
    assert_false(proven);
    dsos_free(all);
}

static void a_replaced_file_is_not_used_unless_forced(void **state)
{
    (void)state;
    struct build_id id = id_of(path("other"));
    for (int force = 0; force < 2; force++) {
        struct dso_options o = {.force = force};
        struct dsos *all = table(&o);
        struct dso *d = dsos_get(all, DSO_FILE, path("whole"), &id, 0);
        assert_int_equal(dso_image(d) != NULL, force);
        assert_non_null(strstr(dso_problem(d), "build id differs"));
        uint8_t byte;
        bool proven = true;
        assert_int_equal(dso_read(d, 0, &byte, 1, &proven), force);
        assert_int_equal(proven, !force); /* unchanged when there is nothing to read */
        dsos_free(all);
    }
}

static void a_deleted_file_is_known_by_its_build_id_alone(void **state)
{
    (void)state;
    struct build_id id = id_of(path("whole"));
    struct dsos *all = table(NULL);
    char name[300];
    snprintf(name, sizeof(name), "%s (deleted)", path("whole"));
    struct dso *unknown = dsos_get(all, DSO_FILE, name, NULL, 0);
    assert_null(dso_image(unknown));
    assert_non_null(strstr(dso_problem(unknown), "deleted"));
    dsos_free(all);
    all = table(NULL);
    assert_non_null(dso_image(dsos_get(all, DSO_FILE, name, &id, 0)));
    dsos_free(all);
}

static void build_id_text(const struct build_id *id, char *text)
{
    for (int i = 0; i < id->size; i++)
        snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
}

static void the_build_id_cache_and_symfs_are_searched(void **state)
{
    (void)state;
    struct build_id id = id_of(path("whole"));
    char hex[48], rest[48];
    build_id_text(&id, hex);
    snprintf(rest, sizeof(rest), "%s", hex + 2);
    hex[2] = 0;
    shell("mkdir -p cache/.build-id/%s/%s && cp whole cache/.build-id/%s/%s/elf", hex, rest, hex,
          rest);
    struct dso_options o = {.buildid_dir = path("cache")};
    struct dsos *all = table(&o);
    assert_non_null(dso_image(dsos_get(all, DSO_FILE, "/no/such/file", &id, 0)));
    dsos_free(all);
    shell("mkdir -p root/opt && cp whole root/opt/program");
    o = (struct dso_options){.symfs = path("root")};
    all = table(&o);
    assert_non_null(dso_image(dsos_get(all, DSO_FILE, "/opt/program", &id, 0)));
    struct dso *missing = dsos_get(all, DSO_FILE, path("whole"), &id, 0);
    assert_null(dso_image(missing));
    assert_non_null(strstr(dso_problem(missing), "not found"));
    dsos_free(all);
}

static void debug_files_are_found_and_checked(void **state)
{
    (void)state;
    struct dsos *all = table(NULL);
    struct dso *linked = dsos_get(all, DSO_FILE, path("linked"), NULL, 0);
    assert_string_equal(dso_debug_image(linked)->path, path("whole.debug"));
    struct dso *stripped = dsos_get(all, DSO_FILE, path("stripped"), NULL, 0);
    assert_ptr_equal(dso_debug_image(stripped), dso_image(stripped));
    dsos_free(all);

    struct build_id id = id_of(path("whole"));
    char hex[48];
    build_id_text(&id, hex);
    shell("mkdir -p debug/.build-id/%.2s && cp whole.debug debug/.build-id/%.2s/%s.debug", hex, hex,
          hex + 2);
    struct dso_options o = {.debug_dir = path("debug")};
    all = table(&o);
    stripped = dsos_get(all, DSO_FILE, path("stripped"), NULL, 0);
    assert_ptr_not_equal(dso_debug_image(stripped), dso_image(stripped));
    dsos_free(all);

    /* Without a build id, the checksum decides. */
    shell("mkdir -p crc && gcc -g -Wl,--build-id=none -o crc/a p.c && objcopy --only-keep-debug "
          "crc/a crc/a.debug && "
          "strip crc/a && objcopy --add-gnu-debuglink=crc/a.debug crc/a && cp crc/a crc/b && "
          "mkdir -p bad && cp crc/a bad/a && gcc -g -O2 -Wl,--build-id=none -o bad/x other.c && cp "
          "bad/x bad/a.debug");
    all = table(NULL);
    assert_string_equal(dso_debug_image(dsos_get(all, DSO_FILE, path("crc/a"), NULL, 0))->path,
                        path("crc/a.debug"));
    assert_string_equal(dso_debug_image(dsos_get(all, DSO_FILE, path("bad/a"), NULL, 0))->path,
                        path("bad/a"));
    dsos_free(all);
}

static void compressed_sections_read_as_plain_ones(void **state)
{
    (void)state;
    struct elf_image *plain = NULL, *other = NULL;
    static const char *const forms[] = {"zlib-gabi", "zlib-gnu"};
    assert_int_equal(elf_image_open(path("whole"), &plain, NULL), 0);
    for (int i = 0; i < 2; i++) {
        shell("objcopy --compress-debug-sections=%s whole packed", forms[i]);
        assert_int_equal(elf_image_open(path("packed"), &other, NULL), 0);
        struct elf_section a, b;
        assert_true(elf_image_section(plain, ".debug_info", &a));
        assert_true(elf_image_section(other, ".debug_info", &b));
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.bytes, b.bytes, a.size);
        elf_image_free(other);
    }
    elf_image_free(plain);
}

static void minidebuginfo_is_unpacked(void **state)
{
    (void)state;
    shell(
        "objcopy --only-keep-debug --strip-debug whole mini && "
        "xz -k -f mini && cp stripped small && objcopy --add-section .gnu_debugdata=mini.xz small");
    struct dsos *all = table(NULL);
    struct dso *d = dsos_get(all, DSO_FILE, path("small"), NULL, 0);
    struct elf_section s;
    assert_ptr_not_equal(dso_debug_image(d), dso_image(d));
    assert_true(elf_image_section(dso_debug_image(d), ".symtab", &s));
    dsos_free(all);
}

/* An emulator of programs gives them none. */
static bool has_vdso(void)
{
    return getauxval(AT_SYSINFO_EHDR) != 0;
}

static void need_vdso(void)
{
    if (!has_vdso()) {
        print_message("no vdso\n");
        skip();
    }
}

static void the_live_vdso_serves(void **state)
{
    (void)state;
    need_vdso();
    struct dsos *all = table(NULL);
    struct dso *d = dsos_get(all, DSO_VDSO, "[vdso]", NULL, 0);
    struct elf_section s;
    assert_non_null(dso_image(d));
    assert_true(elf_image_section(dso_image(d), ".dynsym", &s));
    assert_non_null(dso_cfi(d));
    struct build_id wrong = {.size = 20, .bytes = {9, 9}};
    dsos_free(all);
    all = table(NULL);
    assert_null(dso_image(dsos_get(all, DSO_VDSO, "[vdso]", &wrong, 0)));
    dsos_free(all);
}

/* Without build ids, the release reveals the kernel of another machine. */
static void a_kernel_of_another_release_is_not_the_running_one(void **state)
{
    (void)state;
    need_vdso();
    const struct build_id here = notes_file_build_id("/sys/kernel/notes");
    struct utsname u;
    assert_int_equal(uname(&u), 0);
    const char *const releases[] = {"0.99-other", u.release, NULL};
    for (size_t i = 0; i < 3; i++) {
        struct dsos *all = table(&(struct dso_options){.release = releases[i]});
        struct dso *dsos[] = {dsos_get(all, DSO_KERNEL, "[kernel.kallsyms]", NULL, 0),
                              dsos_get(all, DSO_KMODULE, "[no_such_module]", NULL, 0),
                              dsos_get(all, DSO_VDSO, "[vdso]", NULL, 0)};
        assert_int_equal(dso_kallsyms(dsos[0]) != NULL, i != 0);
        assert_int_equal(dso_kallsyms(dsos[1]) != NULL, i != 0);
        assert_int_equal(dso_image(dsos[2]) != NULL, i != 0);
        for (size_t k = 0; k < 3; k++) {
            const char *problem = dso_problem(dsos[k]);
            assert_int_equal(problem != NULL, i == 0);
            assert_true(!problem || strstr(problem, "the running kernel"));
        }
        dsos_free(all);
    }
    /* A build id is stronger than the release. */
    struct dsos *all = table(&(struct dso_options){.release = releases[0]});
    struct dso *kernel = dsos_get(all, DSO_KERNEL, "[kernel.kallsyms]", &here, 0);
    assert_true(!here.size || dso_kallsyms(kernel));
    dsos_free(all);
}

/* A module's own build id is never the kernel's. */
static void modules_have_the_kallsyms_of_their_kernel(void **state)
{
    (void)state;
    const struct build_id own = {.size = 20, .bytes = {7, 7}}, other = {.size = 20, .bytes = {9}};
    const struct build_id here = notes_file_build_id("/sys/kernel/notes");
    const struct dso_options cache = {.buildid_dir = path("cache-of-kernel")};
    shell("mkdir -p cache-of-kernel/.build-id/09/%038d && "
          "echo > cache-of-kernel/.build-id/09/%038d/kallsyms",
          0, 0);
    struct dsos *all = table(&cache);
    dsos_get(all, DSO_KERNEL, "[guest.kernel.kallsyms]", &own, 0);
    dsos_get(all, DSO_KERNEL, "[kernel.kallsyms]", &other, 0);
    const char *found = dso_kallsyms(dsos_get(all, DSO_KMODULE, "[no_such_module]", &own, 0));
    assert_non_null(found);
    assert_non_null(strstr(found, "cache-of-kernel/.build-id/09/"));
    dsos_free(all);
    for (int same = 0; same < 2 && here.size; same++) {
        all = table(NULL);
        dsos_get(all, DSO_KERNEL, "[kernel.kallsyms]", same ? &here : &other, 0);
        struct dso *module = dsos_get(all, DSO_KMODULE, "[no_such_module]", &own, 0);
        assert_int_equal(dso_kallsyms(module) != NULL, same);
        assert_int_equal(dso_problem(module) == NULL, same);
        dsos_free(all);
    }
}

/* Uses a module that is loaded here, identified by its notes. */
static void a_module_loaded_anew_has_no_kallsyms(void **state)
{
    (void)state;
    char name[256] = "";
    FILE *f = popen("basename \"$(ls -d /sys/module/*/notes/.note.gnu.build-id 2>/dev/null | "
                    "head -1 | sed 's,/notes/.*,,')\"",
                    "r");
    assert_non_null(f);
    bool any = fscanf(f, "%255s", name) == 1;
    pclose(f);
    if (!any) {
        print_message("no module with notes is loaded\n");
        skip();
    }
    char in_brackets[260], notes[320];
    snprintf(in_brackets, sizeof(in_brackets), "[%s]", name);
    snprintf(notes, sizeof(notes), "/sys/module/%s/notes/.note.gnu.build-id", name);
    const struct build_id ids[] = {{.size = 20, .bytes = {7}}, notes_file_build_id(notes)};
    for (int same = 0; same < 2; same++) {
        struct dsos *all = table(NULL);
        struct dso *module = dsos_get(all, DSO_KMODULE, in_brackets, &ids[same], 0);
        assert_int_equal(dso_kallsyms(module) != NULL, same);
        assert_int_equal(dso_problem(module) == NULL, same);
        dsos_free(all);
    }
}

static void unwind_rules_are_found_without_section_headers(void **state)
{
    (void)state;
    struct elf_image *e = NULL;
    assert_int_equal(elf_image_open(path("whole"), &e, NULL), 0);
    FILE *f = fopen(path("headless"), "w");
    uint8_t *copy = malloc(e->size);
    memcpy(copy, e->bytes, e->size);
    Elf64_Ehdr h;
    memcpy(&h, copy, sizeof(h));
    h.e_shoff = h.e_shnum = h.e_shstrndx = 0;
    memcpy(copy, &h, sizeof(h));
    assert_int_equal(fwrite(copy, 1, e->size, f), e->size);
    fclose(f);
    free(copy);
    elf_image_free(e);
    struct dsos *all = table(NULL);
    struct dso *d = dsos_get(all, DSO_FILE, path("headless"), NULL, 0);
    assert_non_null(dso_image(d));
    assert_int_equal(dso_image(d)->build_id.size, 20);
    assert_non_null(dso_cfi(d));
    dsos_free(all);
}

/* Every cut and many flipped bytes: the result is an answer or an error, never a crash. */
static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    struct elf_image *whole = NULL, *e;
    assert_int_equal(elf_image_open(path("whole"), &whole, NULL), 0);
    uint32_t random = 1;
    unsigned opened = 0;
    for (unsigned i = 0; i < 3000; i++) {
        random = random * 1664525 + 1013904223;
        size_t size = i % 2 ? whole->size : random % whole->size;
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, whole->bytes, size);
        for (int k = 0; k < 3 && i % 2; k++) {
            random = random * 1664525 + 1013904223;
            copy[(random >> 8) % (k ? size : 64)] ^= (uint8_t)(1 + (random >> 3));
        }
        if (elf_image_adopt("damaged", copy, size, &e, NULL))
            continue;
        struct elf_section s;
        uint64_t vaddr;
        opened++;
        for (uint32_t k = 0; k < e->tables->nr_sections; k++)
            if (elf_image_section_at(e, k, &s) && s.bytes)
                assert_true(s.bytes >= e->bytes && s.size <= e->size);
        (void)elf_image_offset_to_vaddr(e, random, &vaddr);
        elf_image_free(e);
    }
    assert_true(opened > 1000);
    elf_image_free(whole);
}

/* Finds every name that the C library exports, by its hash table, and by a walk as if it had none.
 * Of a symbol with several versions, any version will do. */
static void exported_symbols_are_found_by_name(void **state)
{
    (void)state;
    Dl_info libc;
    struct elf_image *e;
    struct elf_section symbols, strings;
    assert_true(dladdr((void *)(uintptr_t)qsort, &libc));
    assert_int_equal(elf_image_open(libc.dli_fname, &e, NULL), 0);
    assert_true(elf_image_has(e, ".gnu.hash"));
    assert_true(elf_image_section(e, ".dynsym", &symbols));
    assert_true(elf_image_section(e, ".dynstr", &strings));
    const Elf64_Sym *all = (const Elf64_Sym *)(const void *)symbols.bytes;
    size_t nr = symbols.size / sizeof(*all), defined = 0;
    for (size_t i = 1; i < nr; i++) {
        const char *name = (const char *)strings.bytes + all[i].st_name;
        uint64_t address = 0;
        bool found = elf_exported_symbol(e, name, &address), same = false;
        for (size_t k = i % 16 ? nr : 0; k < nr; k++) /* (of some names only: it takes long) */
            same |= all[k].st_shndx != SHN_UNDEF && all[k].st_value == address &&
                    !strcmp((const char *)strings.bytes + all[k].st_name, name);
        bool is_local = ELF64_ST_BIND(all[i].st_info) == STB_LOCAL; /* sections, on AArch64 */
        assert_true(found || is_local || all[i].st_shndx == SHN_UNDEF);
        assert_true(!found || i % 16 || same);
        defined += found;
    }
    assert_true(defined > 1000);
    uint64_t ignored;
    assert_false(elf_exported_symbol(e, "no such function", &ignored));
    assert_false(elf_exported_symbol(e, "", &ignored));
    elf_image_free(e);
}

/* Damage in the hash table alone: any symbol found has the right name, and nothing crashes. */
static void a_damaged_hash_table_does_no_harm(void **state)
{
    (void)state;
    Dl_info libc;
    struct elf_image *whole, *e;
    struct elf_section hash, strings;
    uint64_t address, found = 0;
    assert_true(dladdr((void *)(uintptr_t)qsort, &libc));
    assert_int_equal(elf_image_open(libc.dli_fname, &whole, NULL), 0);
    assert_true(elf_image_section(whole, ".gnu.hash", &hash));
    assert_true(elf_image_section(whole, ".dynstr", &strings));
    for (unsigned i = 0; i < 64; i++) {
        uint8_t *copy = malloc(whole->size);
        assert_non_null(copy);
        memcpy(copy, whole->bytes, whole->size);
        /* The head's words first: malformed sizes. */
        size_t at = i < 16 ? i : 16 + (size_t)i * 7919 % (hash.size - 16);
        copy[hash.offset + at] ^= (uint8_t)(0xff - i);
        assert_int_equal(elf_image_adopt("damaged", copy, whole->size, &e, NULL), 0);
        found += elf_exported_symbol(e, "qsort", &address);
        found += elf_exported_symbol(e, "printf", &address);
        elf_image_free(e);
    }
    assert_true(found > 32);
    elf_image_free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_is_kind_name_and_build_id),
        cmocka_unit_test(a_doubted_build_id_proves_nothing),
        cmocka_unit_test(offsets_of_a_segment_are_converted_alike),
        cmocka_unit_test(a_file_is_mapped_and_read),
        cmocka_unit_test(bytes_of_an_unproven_file_are_said_to_be_so),
        cmocka_unit_test(a_replaced_file_is_not_used_unless_forced),
        cmocka_unit_test(a_deleted_file_is_known_by_its_build_id_alone),
        cmocka_unit_test(the_build_id_cache_and_symfs_are_searched),
        cmocka_unit_test(debug_files_are_found_and_checked),
        cmocka_unit_test(compressed_sections_read_as_plain_ones),
        cmocka_unit_test(minidebuginfo_is_unpacked),
        cmocka_unit_test(the_live_vdso_serves),
        cmocka_unit_test(a_kernel_of_another_release_is_not_the_running_one),
        cmocka_unit_test(modules_have_the_kallsyms_of_their_kernel),
        cmocka_unit_test(a_module_loaded_anew_has_no_kallsyms),
        cmocka_unit_test(unwind_rules_are_found_without_section_headers),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(exported_symbols_are_found_by_name),
        cmocka_unit_test(a_damaged_hash_table_does_no_harm),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
