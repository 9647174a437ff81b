/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A unit test takes a pattern as its argument and runs only the cases whose names match it:
 * build/tests/test_cfi 'a_rule_*'. The C library passes the arguments to constructors, so no main()
 * has to pass them on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

__attribute__((constructor)) static void run_matching_cases(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
}
