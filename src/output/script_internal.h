/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that the files of script share. */
#ifndef OUTPUT_SCRIPT_INTERNAL_H
#define OUTPUT_SCRIPT_INTERNAL_H

#include "output/output.h"

/* Append the branches before the sample, the newest first, with -F dso with the files of both ends.
 */
void script_put_branches(struct text *t, const struct replay_sample *s,
                         const struct session *session, uint32_t fields);
/* Append the bytes of the instruction that the sample hit, and their number, as `fields` ask. */
void script_put_instruction(struct text *t, const struct replay_sample *s, uint32_t fields);

#endif
