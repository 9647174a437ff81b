/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Error messages about eBPF programs that the kernel refuses, each for one reason: the verifier,
 * missing capabilities, a user namespace, a seccomp filter. Needs the right to load eBPF, and
 * clang; skipped otherwise. (Locked memory and lockdown: tests/kernels/cells/refused.)
 */
#include "live/bpf_load.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECT_MAX = 1 << 16 };

/* A compiled program with the given body. Its name is "probe". */
struct object {
    char bytes[OBJECT_MAX];
    size_t size;
};

static void compile(const char *body, struct object *ret)
{
    char command[256], path[] = "/tmp/test_bpf_load.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd); /* clang replaces the file */
    snprintf(command, sizeof(command), "clang -target bpf -O1 -ffreestanding -x c -c -o %s -",
             path);
    FILE *f = popen(command, "w");
    assert_non_null(f);
    fprintf(f,
            "#define SECTION(x) __attribute__((section(x), used))\n"
            "typedef unsigned long long u64;\n"
            "char license_text[] SECTION(\"license\") = \"GPL\";\n"
            "SECTION(\"perf_event\") int probe(volatile u64 *ctx) { %s }\n",
            body);
    if (pclose(f) != 0) {
        print_message("no clang here that compiles for eBPF\n");
        unlink(path);
        skip();
    }
    f = fopen(path, "re");
    assert_non_null(f);
    ret->size = fread(ret->bytes, 1, sizeof(ret->bytes), f);
    fclose(f);
    unlink(path);
    assert_true(ret->size > 0 && ret->size < OBJECT_MAX);
}

static int load(const struct object *o, struct bpf_loaded *ret, struct error *err)
{
    const struct bpf_image image = {.name = "probe", .bytes = o->bytes, .size = o->size};
    return bpf_load(&image, NULL, NULL, ret, err);
}

static const char harmless[] = "return 0;";

static void need_ebpf(struct object *o)
{
    struct bpf_loaded loaded;
    struct error err = {0};
    compile(harmless, o);
    if (load(o, &loaded, &err) < 0) {
        print_message("%s\n", err.text);
        skip();
    }
    bpf_object__close(loaded.object);
}

static void assert_says(const struct error *err, const char *part)
{
    if (!strstr(err->text, part))
        fail_msg("'%s' is not said: %s", part, err->text);
}

static void assert_does_not_say(const struct error *err, const char *part)
{
    if (strstr(err->text, part))
        fail_msg("'%s' is said: %s", part, err->text);
}

/* ---- loaded -------------------------------------------------------------------------------- */

static void what_was_verified_is_counted(void **state)
{
    static struct object o;
    struct bpf_loaded loaded;
    (void)state;
    need_ebpf(&o);
    assert_int_equal(load(&o, &loaded, NULL), 0);
    assert_true(loaded.program >= 0);
    assert_int_equal(loaded.instructions, 2); /* r0 = 0; exit */
    bpf_object__close(loaded.object);
}

/* ---- the verifier -------------------------------------------------------------------------- */

static void refused(const char *body, const char *because)
{
    static struct object o;
    struct utsname kernel;
    struct bpf_loaded loaded;
    struct error err = {0};
    need_ebpf(&o);
    compile(body, &o);
    assert_int_equal(load(&o, &loaded, &err), -1);
    assert_int_equal(err.kind, ERROR_UNSUPPORTED);
    assert_int_equal(uname(&kernel), 0);
    assert_says(&err, "verifier");
    assert_says(&err, kernel.release);
    assert_says(&err, "probe");
    assert_says(&err, because);
    assert_does_not_say(&err, "ermi"); /* permissions are not the problem */
    assert_null(loaded.object);
}

static void an_access_out_of_bounds_is_the_verifiers(void **state)
{
    (void)state;
    refused("return *(volatile int *)0;", "invalid mem access");
}

static void an_unknown_helper_is_the_verifiers(void **state)
{
    (void)state;
    refused("return ((int (*)(void))100000)();", "invalid func");
}

static void a_program_without_end_is_the_verifiers(void **state)
{
    (void)state;
    refused("for (u64 i = 0; i < 100000000; i++) ctx[0]; return 0;", "too large");
}

static void what_is_no_object_is_no_refusal(void **state)
{
    static const struct object o = {"no ELF file", 12};
    struct bpf_loaded loaded;
    struct error err = {0};
    (void)state;
    assert_int_equal(load(&o, &loaded, &err), -1);
    assert_does_not_say(&err, "verifier");
    assert_says(&err, "probe");
}

/* ---- not permitted ------------------------------------------------------------------------- */

/* Loads a program in a child after `lose` has taken the child's rights away, and returns the
 * child's error in `ret`. `lose` returns -1 when it could not take them away. */
static void load_without(int (*lose)(void), struct error *ret)
{
    static struct object o;
    struct bpf_loaded loaded;
    int ends[2], status;
    need_ebpf(&o);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct error err = {0};
        if (lose() < 0)
            _exit(77);
        bool failed = load(&o, &loaded, &err) < 0;
        _exit(failed && write(ends[1], &err, sizeof(err)) == sizeof(err) ? 0 : 1);
    }
    close(ends[1]);
    assert_true(child > 0);
    ssize_t got = read(ends[0], ret, sizeof(*ret));
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("the right to load eBPF could not be given up here\n");
        skip();
    }
    assert_int_equal(got, sizeof(*ret));
    assert_int_equal(ret->kind, ERROR_SYSTEM);
    assert_does_not_say(ret, "verifier");
}

static int lose_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    return (int)syscall(SYS_capset, &head, data);
}

static int enter_user_namespace(void)
{
    return unshare(CLONE_NEWUSER);
}

/* Makes bpf(2) fail with this error. */
static int filter(uint32_t error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int filter_as_containers_do(void)
{
    return filter(EPERM);
}

static int filter_as_old_containers_do(void)
{
    return filter(ENOSYS);
}

static void capabilities_that_are_missing_are_named(void **state)
{
    struct error err;
    (void)state;
    load_without(lose_capabilities, &err);
    assert_says(&err, "CAP_BPF");
    assert_says(&err, "setcap");
    assert_does_not_say(&err, "namespace");
}

static void a_user_namespace_is_named(void **state)
{
    struct error err;
    (void)state;
    load_without(enter_user_namespace, &err);
    assert_says(&err, "user namespace");
}

static void a_seccomp_filter_is_named(void **state)
{
    struct error err;
    (void)state;
    load_without(filter_as_containers_do, &err);
    assert_says(&err, "seccomp");
    load_without(filter_as_old_containers_do, &err);
    assert_says(&err, "seccomp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_verified_is_counted),
        cmocka_unit_test(an_access_out_of_bounds_is_the_verifiers),
        cmocka_unit_test(an_unknown_helper_is_the_verifiers),
        cmocka_unit_test(a_program_without_end_is_the_verifiers),
        cmocka_unit_test(what_is_no_object_is_no_refusal),
        cmocka_unit_test(capabilities_that_are_missing_are_named),
        cmocka_unit_test(a_user_namespace_is_named),
        cmocka_unit_test(a_seccomp_filter_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
