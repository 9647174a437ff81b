/* SPDX-License-Identifier: GPL-2.0-only */
/* Samples of allocations: their records and weights, and which functions of a process allocate. */
#include "dso/dso.h"
#include "live/alloc_functions.h"
#include "live/alloc_record.h"
#include "live/alloc_v8.h"
#include "perfdata/alloc.h"
#include "perfdata/vmevent_layout.h"
#include "session/allocations.h"
#include "unwind/v8/layout.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__aarch64__)
enum { REGISTERS = 33 };
#else
enum { REGISTERS = 20 };
#endif

/* ---- weights --------------------------------------------------------------------------------- */

static void a_weight_is_the_size_by_its_chance(void **state)
{
    (void)state;
    assert_int_equal(alloc_weight(0, 1000), 0);
    assert_int_equal(alloc_weight(7, 0), 7);
    assert_int_equal(alloc_weight(1, 1 << 20),
                     (1 << 20) + 1);                  /* 1 / (1 - exp(-1 / mean)) is mean + 1/2 */
    assert_int_equal(alloc_weight(1000, 1000), 1582); /* e / (e - 1) */
    assert_int_equal(alloc_weight(UINT64_C(1) << 40, 512 << 10), UINT64_C(1) << 40);
}

static void objects_are_right_on_average(void **state)
{
    (void)state;
    const struct {
        uint64_t period, size;
    } rows[] = {{1582, 1000}, {5243, 100}, {1000, 1000}, {1999, 1000}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        enum { SAMPLES = 100000 };
        struct sample s = {
            .present = PERF_SAMPLE_WEIGHT, .period = rows[i].period, .weight = rows[i].size};
        double sum = 0, exact = (double)rows[i].period / (double)rows[i].size;
        for (s.addr = 1; s.addr <= SAMPLES; s.addr++)
            sum += (double)alloc_objects(&s);
        assert_true(fabs(sum / SAMPLES - exact) < 0.01);
    }
    const struct sample other = {.period = 10, .weight = 5};
    assert_int_equal(alloc_objects(&other), 0);
}

/* ---- records --------------------------------------------------------------------------------- */

static struct alloc_form form;
static const uint64_t ids[] = {77};
static uint8_t kernel[1 << 16], written[1 << 16];

static size_t put(size_t at, const void *from, size_t size)
{
    memcpy(kernel + at, from, size);
    return at + size;
}

static size_t put_u64(size_t at, uint64_t value)
{
    return put(at, &value, sizeof(value));
}

static struct perfdata_event begin(enum alloc_kind kind, uint32_t stack, bool chain)
{
    const struct perf_event_attr first = {.sample_type = (chain ? PERF_SAMPLE_CALLCHAIN : 0) |
                                                         PERF_SAMPLE_REGS_USER |
                                                         PERF_SAMPLE_STACK_USER,
                                          .sample_regs_user = perfdata_user_registers(),
                                          .sample_stack_user = stack};
    alloc_form_set(&form, &first);
    return (struct perfdata_event){
        .name = alloc_event_name(kind), .ids = ids, .nr_ids = 1, .attr = form.attr};
}

/* Write a record as the kernel does: `copied` bytes of stack, of which `used` are the stack's. */
static const struct perf_event_header *kernel_writes(const struct alloc_sample *of, size_t copied,
                                                     size_t used, bool chain)
{
    const uint32_t raw = (uint32_t)((sizeof(*of) + 4 + 7) / 8 * 8 - 4), tids[] = {10, 11};
    size_t at = sizeof(struct perf_event_header);
    memset(kernel, 0xee, sizeof(kernel));
    at = put_u64(at, ids[0]);
    at = put_u64(at, 0x401000);
    at = put(at, tids, sizeof(tids));
    at = put_u64(at, 5000);
    at = put_u64(at, 0); /* address */
    at = put_u64(at, 3); /* cpu */
    at = put_u64(at, 0); /* period */
    if (chain)
        at = put_u64(at, 0);
    at = put(at, &raw, sizeof(raw));
    put(at, of, sizeof(*of));
    at += raw;
    at = put_u64(at, PERF_SAMPLE_REGS_ABI_64);
    for (uint64_t i = 0; i < REGISTERS; i++)
        at = put_u64(at, 100 + i);
    at = put_u64(at, copied);
    if (copied) {
        memset(kernel + at, 0x5a, used);
        at += copied;
        at = put_u64(at, used);
    }
    const struct perf_event_header h = {PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, (uint16_t)at};
    put(0, &h, sizeof(h));
    return (const struct perf_event_header *)kernel;
}

static void a_sample_gets_its_form(void **state)
{
    static const struct {
        size_t copied, used;
        bool chain;
        enum alloc_kind kind;
    } rows[] = {{64, 40, true, ALLOC_MALLOC},       {64, 64, false, ALLOC_MALLOC},
                {4096, 8, true, ALLOC_JS},          {0, 0, true, ALLOC_LUA},
                {65000, 64000, true, ALLOC_BURSTS}, {4096, 4096, false, ALLOC_JS_BURSTS}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct perfdata_event event =
            begin(rows[i].kind, (uint32_t)rows[i].copied, rows[i].chain);
        const struct alloc_sample of = {.serial = 0x100000000042,
                                        .size = 1000,
                                        .function = (uint64_t)rows[i].kind << ALLOC_KIND,
                                        .mean = 1000};
        struct sample s, read;
        struct trimmed t;
        size_t size = 0;
        uint64_t value;
        assert_int_equal(
            alloc_form_sample(&form, &event,
                              kernel_writes(&of, rows[i].copied, rows[i].used, rows[i].chain), &s,
                              &t),
            1);
        assert_true(t.nr <= TRIM_PARTS);
        for (int k = 0; k < t.nr; k++) {
            memcpy(written + size, t.parts[k].iov_base, t.parts[k].iov_len);
            size += t.parts[k].iov_len;
        }
        const struct perf_event_header *h = (const struct perf_event_header *)written;
        assert_int_equal(h->size, size);
        assert_int_equal(perfdata_sample_parse(&event, h, size, &read, NULL), 0);
        assert_true(read.id ==
                    (rows[i].kind == ALLOC_MALLOC ? ids[0] : alloc_form_id(rows[i].kind)));
        assert_int_equal(read.ip, 0x401000);
        assert_int_equal(read.tid, 11);
        assert_int_equal(read.time, 5000);
        assert_int_equal(read.cpu, 3);
        assert_int_equal(read.addr, 0x100000000042);
        assert_int_equal(read.period, 1582);
        assert_int_equal(read.weight, 1000);
        assert_int_equal(read.stack_dyn_size, rows[i].used);
        assert_int_equal(read.misc & PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_USER);
        assert_true(sample_user_reg(&read, 0, &value) && value == 100);
    }
}

static void damage_and_other_events_are_told(void **state)
{
    struct perfdata_event event = begin(ALLOC_MALLOC, 64, true);
    struct alloc_sample of = {.size = 1, .function = (uint64_t)ALLOC_KINDS << ALLOC_KIND};
    struct sample s;
    struct trimmed t;
    (void)state;
    assert_int_equal(alloc_form_sample(&form, &event, kernel_writes(&of, 64, 8, true), &s, &t), -1);
    of.function = 0;
    struct perf_event_header *h =
        (struct perf_event_header *)(uintptr_t)kernel_writes(&of, 64, 8, true);
    h->size = 96; /* within the payload */
    assert_int_equal(alloc_form_sample(&form, &event, h, &s, &t), -1);
    event.name = "another";
    assert_int_equal(alloc_form_sample(&form, &event, kernel_writes(&of, 64, 8, true), &s, &t), 0);
}

/* ---- what is in use -------------------------------------------------------------------------- */

static void take(struct allocations *a, const struct perfdata_event *event, uint64_t serial,
                 uint64_t time, uint64_t bytes)
{
    const struct sample s = {.event = event, .addr = serial, .time = time, .period = bytes};
    assert_true(allocations_take(a, &s));
}

/* Records of several cpus come in any order. */
static void the_peak_is_when_most_is_in_use(void **state)
{
    const struct perfdata_event malloc_event = begin(ALLOC_MALLOC, 0, false),
                                js_event = begin(ALLOC_JS, 0, false);
    struct allocations a = {0};
    uint64_t when;
    (void)state;
    take(&a, &malloc_event, 3, 30, 500);
    take(&a, &malloc_event, 1, 10, 1000);
    take(&a, &malloc_event, 0, 20, 2000);
    take(&a, &js_event, 9, 25, 1000000);
    take(&a, &malloc_event, 4, 40, 2400);
    assert_true(allocations_freed(&a, 0, 30)); /* at 30 both are in use: 3500 */
    assert_true(allocations_freed(&a, 1, 35));
    assert_true(allocations_freed(&a, 7, 5)); /* of an allocation that was lost */
    assert_true(allocations_seal(&a));
    assert_int_equal(a.peaks[ALLOC_MALLOC], 30);
    assert_int_equal(a.peaks[ALLOC_JS], 0); /* it is not followed */
    assert_true(allocations_when_freed(&a, 0, &when) && when == 30);
    assert_true(allocations_when_freed(&a, 1, &when) && when == 35);
    assert_false(allocations_when_freed(&a, 4, &when));
    allocations_free(&a);
}

/* V8's objects count by themselves, if they are followed, and up to the last full collection of
 * their thread's heap. */
static void what_v8_has_is_known_up_to_a_collection(void **state)
{
    const struct perfdata_event js_event = begin(ALLOC_JS, 0, false),
                                malloc_event = begin(ALLOC_MALLOC, 0, false);
    struct allocations a = {0};
    (void)state;
    take(&a, &malloc_event, 1, 10, 5);
    take(&a, &js_event, 2 | VMEVENT_FOLLOWED, 20, 1000);
    take(&a, &js_event, 3 | VMEVENT_FOLLOWED, 30, 1000);
    take(&a, &js_event, 4, 40, 1000000); /* not followed */
    assert_true(allocations_freed(&a, 2 | VMEVENT_FOLLOWED, 50));
    assert_true(allocations_collected(&a, 7, 8, 60));
    assert_true(allocations_collected(&a, 7, 8, 55)); /* of another cpu's ring */
    assert_true(allocations_seal(&a));
    assert_int_equal(a.peaks[ALLOC_JS], 30);
    assert_int_equal(a.peaks[ALLOC_MALLOC], 10);
    assert_int_equal(allocations_known(&a, ALLOC_JS, 7, 8), 60);
    assert_int_equal(allocations_known(&a, ALLOC_JS_EXTERNAL, 7, 8), 60);
    assert_int_equal(allocations_known(&a, ALLOC_JS, 7, 9), 0);
    assert_int_equal(allocations_known(&a, ALLOC_JS, 8, 7), 0);
    assert_true(allocations_known(&a, ALLOC_MALLOC, 7, 9) == UINT64_MAX);
    allocations_free(&a);
}

static void without_allocations_there_is_no_peak(void **state)
{
    struct allocations a = {0};
    uint64_t when;
    (void)state;
    assert_true(allocations_seal(&a));
    assert_int_equal(a.peaks[ALLOC_MALLOC], 0);
    assert_false(allocations_when_freed(&a, 0, &when));
    allocations_free(&a);
}

/* ---- V8 -------------------------------------------------------------------------------------- */

/* Its objects are followed only if all functions are found that collect, and its layout is known.
 */
static void a_v8_is_followed_if_it_is_known(void **state)
{
    struct alloc_function all[ALLOC_COLLECTIONS] = {{.shape = ALLOC_V8_OBJECT}};
    struct v8_layout l = {.verified = true,
                          .version = {11, 3},
                          .chunk_flags = 8,
                          .chunk_meta = V8_UNKNOWN,
                          .chunk_heap = 16,
                          .chunk_marks = 320,
                          .smi_shift = 31};
    struct alloc_v8_process p;
    char line[300];
    (void)state;
    for (int i = 1; i < ALLOC_COLLECTIONS; i++)
        all[i].shape = ALLOC_COLLECTS | (uint64_t)i << ALLOC_SIZE;
    alloc_v8_set(&l, all, ALLOC_COLLECTIONS, &p);
    assert_int_equal(p.state, ALLOC_V8_KNOWN);
    assert_true(p.layout.known && p.layout.flags == 8 && p.layout.marks == 320);
    assert_false(p.layout.described);
    assert_false(alloc_v8_problem(&p, 1, "", line, sizeof(line)));
    assert_true(alloc_v8_problem(&p, 1, "the kernel refuses it", line, sizeof(line)));
    assert_non_null(strstr(line, "the kernel refuses it"));
    l.chunk_meta = 8;
    alloc_v8_set(&l, all, ALLOC_COLLECTIONS, &p);
    assert_true(p.layout.described && p.layout.description == 8);
    l.verified = false;
    alloc_v8_set(&l, all, ALLOC_COLLECTIONS, &p);
    assert_int_equal(p.state, ALLOC_V8_NEW);
    assert_false(p.layout.known);
    assert_true(alloc_v8_problem(&p, 1, "", line, sizeof(line)));
    assert_non_null(strstr(line, "11.3"));
    l.verified = true;
    all[ALLOC_MARKED].shape = 0;
    alloc_v8_set(&l, all, ALLOC_COLLECTIONS, &p);
    assert_int_equal(p.state, ALLOC_V8_STRIPPED);
    assert_true(alloc_v8_problem(&p, 1, "", line, sizeof(line)));
    assert_non_null(strstr(line, ".symtab"));
}

/* ---- functions ------------------------------------------------------------------------------- */

/* A pointer to malloc is where a linker has found it: in the C library, or in the sanitizers' part
 * of this program. */
static void the_malloc_of_a_process_is_found(void **state)
{
    static struct alloc_functions all;
    const struct dso_options options = {.no_debuginfod = true};
    struct dsos *dsos = dsos_create(&options);
    struct alloc_files *files = alloc_files_create();
    struct error err;
    bool has_malloc = false, has_free = false;
    (void)state;
    assert_non_null(dsos);
    assert_int_equal(alloc_functions_find(getpid(), files, dsos, &all, &err), 0);
    for (uint32_t i = 0; i < all.nr; i++) {
        const struct alloc_function *f = &all.at[i];
        assert_true(f->start >= f->map && f->end > f->start && f->start < f->map_end);
        assert_int_equal(f->shape & 0xff, i);
        if (f->start == (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "malloc")) {
            has_malloc = true;
            assert_int_equal(f->shape >> ALLOC_SIZE & ALLOC_ARGUMENT_MASK, 1);
            assert_true(f->shape & ALLOC_RETURNS);
        }
        if (f->start == (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "free")) {
            has_free = true;
            assert_int_equal(f->shape >> ALLOC_OLD & ALLOC_ARGUMENT_MASK, 1);
            assert_int_equal(f->shape >> ALLOC_SIZE & ALLOC_ARGUMENT_MASK, 0);
        }
    }
    assert_true(has_malloc && has_free);
    alloc_files_free(files);
    dsos_free(dsos);
}

static void a_process_that_is_gone_has_none(void **state)
{
    static struct alloc_functions all;
    const struct dso_options options = {.no_debuginfod = true};
    struct dsos *dsos = dsos_create(&options);
    struct alloc_files *files = alloc_files_create();
    struct error err;
    (void)state;
    assert_int_equal(alloc_functions_find(0x7ffffff0, files, dsos, &all, &err), 0);
    assert_int_equal(all.nr, 0);
    alloc_files_free(files);
    dsos_free(dsos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_weight_is_the_size_by_its_chance),
        cmocka_unit_test(objects_are_right_on_average),
        cmocka_unit_test(a_sample_gets_its_form),
        cmocka_unit_test(damage_and_other_events_are_told),
        cmocka_unit_test(the_peak_is_when_most_is_in_use),
        cmocka_unit_test(what_v8_has_is_known_up_to_a_collection),
        cmocka_unit_test(without_allocations_there_is_no_peak),
        cmocka_unit_test(a_v8_is_followed_if_it_is_known),
        cmocka_unit_test(the_malloc_of_a_process_is_found),
        cmocka_unit_test(a_process_that_is_gone_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
