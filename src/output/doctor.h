/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two diagnoses: can this machine record what is needed (doctor_machine.c), and how well does a
 * recording unwind, and why not (doctor_file.c). Both say what is so, and the cure beside it.
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

#endif
