/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Three diagnoses: whether this machine can record what is needed (doctor_machine.c); how well a
 * recording unwinds, and why not better (doctor_file.c); and which runtimes and VMs a process or a
 * file has, with the evidence (doctor_vm.c). Each states what it found, and the cure beside it.
 */
#ifndef OUTPUT_DOCTOR_H
#define OUTPUT_DOCTOR_H

#include "base/error.h"
#include "base/text.h"
#include "replay/replay.h"

#include <stdbool.h>

/* Try everything that recording needs and print one line for each thing: "ok", "warn" (recording
 * works, but records less) or "missing". *able: nothing is missing. */
void doctor_machine(struct text *out, bool *able);

/* Replay the recording and print how its stacks ended, where they ended, and what would help. */
int doctor_file(struct replay *r, struct text *out, struct error *err);

/* Look for runtimes in `target`: a process id, a core file, or an ELF file. Print each layout
 * with the evidence for each value, and each VM with its state. *found: there was one. It is an
 * error if there is no such process or file, or if access is not permitted. */
int doctor_vm(const char *target, const struct dso_options *options, struct text *out, bool *found,
              struct error *err);

#endif
