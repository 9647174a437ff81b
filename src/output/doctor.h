/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Three diagnoses: can this machine record what is needed (doctor_machine.c), how well does a
 * recording unwind, and why not (doctor_file.c), and which Lua VMs are somewhere, and how that is
 * known (doctor_vm.c). They say what is so, and the cure beside it.
 */
#ifndef OUTPUT_DOCTOR_H
#define OUTPUT_DOCTOR_H

#include "base/error.h"
#include "base/text.h"
#include "replay/replay.h"

#include <stdbool.h>

/* Try what recording needs, one line each: "ok", "warn" (recording works, with less in it) or
 * "missing". *able: nothing is missing. */
void doctor_machine(struct text *out, bool *able);

/* Run the recording and say how its stacks ended, where, and what would help. */
int doctor_file(struct replay *r, struct text *out, struct error *err);

/* What doctor_vm() tells of one V8 (doctor_v8.c). */
struct v8_layout;
void doctor_put_v8(struct text *out, const char *file, const struct v8_layout *l);

/* Look for LuaJIT and V8 in `target`: a process id, a core file, or an ELF file. Each layout is
 * told with the evidence for each value, each VM with its state. *found: there was one. Errors: no
 * such process or file, not permitted. */
int doctor_vm(const char *target, const struct dso_options *options, struct text *out, bool *found,
              struct error *err);

#endif
