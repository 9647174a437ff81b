/* SPDX-License-Identifier: GPL-2.0-only */
/* A file without a name, for what does not fit memory. */
#ifndef BASE_UNNAMED_FILE_H
#define BASE_UNNAMED_FILE_H

/* A descriptor, to be closed by the caller, of a file in $TMPDIR or /tmp; of memory where that
 * cannot hold one: `what` is its name then. -1: errno says why. */
int unnamed_file(const char *what);

#endif
