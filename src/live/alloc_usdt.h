/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an allocator tells of itself: the probes otel_memory:alloc(ptr, size, weighted_bytes) and
 * otel_memory:free(ptr) of OpenTelemetry's memory profiling. The allocator draws the samples itself
 * and knows what each stands for. Frees are told of sampled blocks.
 */
#ifndef LIVE_ALLOC_USDT_H
#define LIVE_ALLOC_USDT_H

#include "dso/elf_usdt.h"
#include "live/alloc_layout.h"

#include <stdbool.h>
#include <stdint.h>

/* Get where the arguments of such a probe are, in a file for this machine (EM_...). Returns false
 * if it is another probe, or if its arguments are in no form that is known. */
bool alloc_usdt_of(const struct elf_usdt *usdt, uint16_t machine, struct alloc_usdt *ret);

/* Whether the eBPF programs can read it: the reader is not trusted. */
bool alloc_usdt_is_valid(const struct alloc_usdt *usdt);

#endif
