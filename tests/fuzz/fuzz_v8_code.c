/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as V8's machine code, of each machine. The code is followed to its end; what a few
 * bytes tell, and the cache, must not contradict that. An input is: where the pc is, then the code.
 */
#include "unwind/runtime.h"
#include "unwind/v8/machine.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const uint8_t *code;
static size_t code_size;

static const uint8_t *bytes_at(void *context, uint64_t address, size_t size)
{
    (void)context;
    return address <= code_size && size <= code_size - address ? code + address : NULL;
}

static uint64_t word_at(void *context, uint64_t address)
{
    (void)context;
    return address * 8;
}

static void check(const struct v8_machine *m, struct v8_code_states *known, size_t at)
{
    const struct v8_state s = v8_code_state(m, code, code_size, at);
    const struct v8_state again = v8_code_states_get(known, m, code, code_size, at);
    if (s.kind != again.kind || s.offset != again.offset || s.doubtful != again.doubtful ||
        s.return_register != again.return_register)
        abort();
    if (s.kind == V8_STATE_PUSHED && s.return_register != V8_RETURN_ON_STACK)
        abort(); /* both words are on the stack */
    size_t head = code_size < V8_BYTES_HEAD ? code_size : V8_BYTES_HEAD;
    size_t before = at < V8_BYTES_BEFORE ? at : V8_BYTES_BEFORE;
    (void)m->has_frame(code, head, at, code + at - before, before);
}

static void check_machine(const struct v8_machine *m, size_t at)
{
    const struct v8_layout layout = {.machine = m};
    const struct runtime_image image = {.bytes = bytes_at, .word = word_at};
    struct v8_code_states *known = v8_code_states_create();
    uint64_t value;
    if (!known)
        return;
    for (size_t i = 0; i < 4; i++)
        check(m, known, (at + i) % code_size);
    v8_code_states_free(known);
    (void)m->returned(&image, at % code_size, at & 1, &value);
    if (code_size >= V8_BYTES_LIFTOFF) {
        (void)m->made_type(&layout, code);
        if (m->liftoff_begun && m->liftoff_begun(code) > V8_BYTES_LIFTOFF)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint16_t at;
    if (size <= sizeof(at))
        return 0;
    memcpy(&at, bytes, sizeof(at));
    code_size = size - sizeof(at);
    uint8_t *copy = malloc(code_size); /* a sanitizer sees each byte behind its end */
    if (!copy)
        return 0;
    memcpy(copy, bytes + sizeof(at), code_size);
    code = copy;
    check_machine(&v8_machine_x86_64, at);
    check_machine(&v8_machine_aarch64, at);
    free(copy);
    return 0;
}
