/* SPDX-License-Identifier: GPL-2.0-only */
/* What sample.c shares with the record decoders. */
#ifndef PERFDATA_SAMPLE_H
#define PERFDATA_SAMPLE_H

#include "base/cursor.h"

/* The READ block of a SAMPLE or READ record, laid out by attr.read_format. */
void read_block_take(struct cursor *c, uint64_t format, const uint8_t **ret, size_t *size);

#endif
