/* SPDX-License-Identifier: GPL-2.0-only */
/* A new folder in $TMPDIR or /var/tmp that only we can enter, and that goes with us. */
#ifndef BASE_TEMPORARY_FOLDER_H
#define BASE_TEMPORARY_FOLDER_H

struct temporary_folder;

/* Make one. A child process removes it when this process ends, however it ends. NULL: errno says
 * why. */
struct temporary_folder *temporary_folder_make(void);
/* Remove it with all that is in it. NULL: nothing. */
void temporary_folder_free(struct temporary_folder *f);

const char *temporary_folder_path(const struct temporary_folder *f);

/* Create the file `name`, and the folders that it is in, below the folder. Returns a descriptor for
 * writing, which the caller closes. -1: errno says why: EEXIST: it is there; EINVAL: `name` is
 * empty or absolute, or has a part "..", "." or "". */
int temporary_folder_create(const struct temporary_folder *f, const char *name);

#endif
