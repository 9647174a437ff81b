/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints a tracepoint's payload with a format of any text: one byte is the size of the payload,
 * which follows; the rest is the format. The event gets the format's id.
 */
#include "base/text.h"
#include "perfdata/perfdata_internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libtraceevent leaks pieces of formats that it fails to parse, which is not under test here. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libtraceevent";
}

static void put(uint8_t **at, const void *bytes, size_t size)
{
    memcpy(*at, bytes, size);
    *at += size;
}

/* Makes a tracing data section with one format, of system "s". */
static uint8_t *section_make(const uint8_t *format, size_t size, size_t *ret)
{
    static const char head[] = "\027\bDtracing0.6\0\0\010\0\020\0\0header_page";
    static const char zeros[16];
    const uint32_t one = 1;
    const uint64_t length = size;
    uint8_t *bytes = malloc(sizeof(head) + size + 128), *at = bytes;
    put(&at, head, sizeof(head));
    put(&at, zeros, 8);
    put(&at, "header_event", 13);
    put(&at, zeros, 8);
    put(&at, zeros, 4); /* number of ftrace formats */
    put(&at, &one, 4);  /* number of systems */
    put(&at, "s", 2);
    put(&at, &one, 4);
    put(&at, &length, 8);
    put(&at, format, size);
    put(&at, zeros, 16); /* kallsyms, printk, command lines */
    *ret = (size_t)(at - bytes);
    return bytes;
}

static uint64_t id_of(const uint8_t *format, size_t size)
{
    const char *id = memmem(format, size, "\nID:", 4);
    char digits[24] = {0};
    size_t left = id ? size - (size_t)((const uint8_t *)id + 4 - format) : 0;
    memcpy(digits, id ? id + 4 : "", left < 23 ? left : 23);
    return strtoull(digits, NULL, 10);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size < 1 + (size_t)data[0])
        return 0;
    const uint8_t *format = data + 1 + data[0];
    size_t format_size = size - 1 - data[0], section_size;
    /* allocated by itself, for the sanitizer */
    uint8_t *payload = malloc(data[0] + 1);
    uint8_t *section = section_make(format, format_size, &section_size);
    struct perfdata pd = {0};
    struct text out = {0};
    memcpy(payload, data + 1, data[0]);
    if (tracing_create(section, section_size, &pd.tracing, NULL) == 0) {
        const struct perfdata_event event = {.attr.config = id_of(format, format_size),
                                             .is_tracepoint = true};
        const struct sample s = {.event = &event, .raw = payload, .raw_size = data[0]};
        perfdata_print_tracepoint(&pd, &s, &out);
        tracing_free(pd.tracing);
    }
    text_free(&out);
    free(payload);
    free(section);
    return 0;
}
