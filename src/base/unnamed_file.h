/* SPDX-License-Identifier: GPL-2.0-only */
/* A file without a name, for data that does not fit into memory. */
#ifndef BASE_UNNAMED_FILE_H
#define BASE_UNNAMED_FILE_H

/* Returns the descriptor of a new file in $TMPDIR or /tmp, or of a memory file named `what` if that
 * folder cannot hold one. The caller closes it. -1: failed, errno says why. */
int unnamed_file(const char *what);

#endif
