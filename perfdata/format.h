/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks that the text of a tracepoint's format looks as the kernel writes it. libtraceevent trusts
 * its input: a single damaged byte can make its parser follow a NULL pointer or recurse without
 * end. Therefore it gets only texts that obey the grammar in format.c.
 */
#ifndef PERFDATA_FORMAT_H
#define PERFDATA_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

bool format_is_sound(const char *text, size_t size);

#endif
