/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by sample.c and the record decoders. */
#ifndef PERFDATA_SAMPLE_H
#define PERFDATA_SAMPLE_H

#include "base/cursor.h"

/* Take the READ block of a SAMPLE or READ record, whose layout attr.read_format defines. */
void read_block_take(struct cursor *c, uint64_t format, const uint8_t **ret, size_t *size);

#endif
