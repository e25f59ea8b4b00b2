// SPDX-License-Identifier: Apache-2.0
//
// test.h - cmocka, plus what every test here needs.
//
// mem_fail_at(n): makes the calling thread's n-th next allocation fail.
//
// torture(fn, arg): runs fn again and again while its 1st, 2nd, ... allocation fails, until a run
// needs no more. fn must return true, or false with resource_exhausted; leaks are ASan's to find.
// For whole rooms, file calls and failures that last see torture.h.
//
// A test that fails ends the program: what it left behind, its threads above all, works on a frame
// that is gone, and would be reported, or hang, as a fault of its own. The tests before it and its
// own message are told.
//
// ThreadSanitizer finds races of threads, so its part runs only tests that have threads. They are
// the rows of tests/unit/THREADS: "program: test", or "program: *" for all of a program's.
// With FLAMETREE_THREADS set to that file, a build with AddressSanitizer fails a test that starts a
// thread, or begins beside one, and has no row; a build with ThreadSanitizer leaves out all tests
// without a row. FLAMETREE_THREADS_ADD=1 adds the row instead of failing.
//
// tail_guard(bytes, n): a copy whose last byte touches an unreadable page, so that reading one byte
// too far crashes even without a sanitizer.
#pragma once

// clang-format off: cmocka wants these four first, in this order
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
// clang-format on

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define assert_ok(call)                                             \
    do {                                                            \
        err e_ = {0};                                               \
        err *e = &e_;                                               \
        if (!(call)) fail_msg("%s: %s", err_name(e_.code), e_.msg); \
    } while (0)

// As cmocka's, one test after the other, and at once over when one fails: without handlers of exit,
// which sanitizers would use to look for leaks.
int test_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
             CMFixtureFunction tear_down);
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, set_up, tear_down) \
    test_run(tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down)

// 0 = none. A build without fault points cannot do it: the test is skipped.
void mem_fail_at(int n);
bool mem_fault_fired(void);
int torture(bool (*fn)(void *arg, err *e), void *arg);
const uint8_t *tail_guard(const void *bytes, size_t n);
