/* SPDX-License-Identifier: GPL-2.0-only */
/* The toy runtime's row. */
#ifndef TESTS_TOY_RUNTIME_H
#define TESTS_TOY_RUNTIME_H

#include "unwind/runtime.h"

extern const struct runtime toy_runtime;

#endif
