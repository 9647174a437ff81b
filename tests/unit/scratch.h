/* SPDX-License-Identifier: GPL-2.0-only */
/* A scratch folder for tests that build files with shell commands. */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

/* The folder. The test's setup makes it (mkdtemp), its teardown removes it. */
extern char scratch_folder[256];

/* Runs a shell command in the folder. The test fails when the command fails. */
void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Returns the path of a file in the folder. It stays valid for four more calls. */
const char *path(const char *name);

#endif
