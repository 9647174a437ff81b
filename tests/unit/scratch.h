/* SPDX-License-Identifier: GPL-2.0-only */
/* A scratch folder for tests that build files with shell commands. */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

/* The folder; the test's setup makes it (mkdtemp) and its teardown removes it. */
extern char scratch_folder[256];

/* Run a shell command in the folder; the test fails when it fails. */
void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The path of a file in the folder; good for four more calls. */
const char *path(const char *name);

#endif
