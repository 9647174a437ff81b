/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether the text of a tracepoint's format is what the kernel writes. libtraceevent trusts its
 * input: a single damaged byte can make its parser follow a NULL pointer or recurse without end, so
 * only texts that obey the grammar below are handed to it.
 */
#ifndef PERFDATA_FORMAT_H
#define PERFDATA_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

bool format_is_sound(const char *text, size_t size);

#endif
