/* SPDX-License-Identifier: GPL-2.0-only */
/* Files of ours that are installed beside the program: in PREFIX/lib/ljperf. */
#ifndef CMD_INSTALLED_FILE_H
#define CMD_INSTALLED_FILE_H

#include "base/error.h"

enum { INSTALLED_PATH_MAX = 4096 };

/* Find the file `name`. It is beside the program where that was built, else in ../lib/ljperf. */
int installed_file(const char *name, char ret[INSTALLED_PATH_MAX], struct error *err);

#endif
