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
#include <sys/mman.h>
#include <unistd.h>

#define assert_ok(call)                                             \
    do {                                                            \
        err e_ = {0};                                               \
        err *e = &e_;                                               \
        if (!(call)) fail_msg("%s: %s", err_name(e_.code), e_.msg); \
    } while (0)

// As cmocka's, one test after the other, and at once over when one fails: without handlers of exit,
// which sanitizers would use to look for leaks.
static inline int test_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
                           CMFixtureFunction tear_down)
{
    void *state = NULL;
    int failed = set_up ? set_up(&state) : 0;
    if (failed) fprintf(stderr, "the tests could not be set up: %d\n", failed);
    for (size_t i = 0; i < n && !failed; i++) {
        struct CMUnitTest test = tests[i];
        if (!test.initial_state) test.initial_state = state;
        failed = _cmocka_run_group_tests(test.name, &test, 1, NULL, NULL);
        if (!failed) continue;
        fprintf(stderr, "%s failed, %zu tests after it were not run\n", test.name, n - i - 1);
    }
    if (failed) {
        fflush(NULL);
        _exit(1);
    }
    return tear_down ? tear_down(&state) : 0;
}
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, set_up, tear_down) \
    test_run(tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down)

static _Thread_local int mem_countdown;
static _Thread_local bool mem_fired;

static inline bool mem_count_down(enum mem_kind kind)
{
    if (kind == MEM_MUST || mem_countdown <= 0 || --mem_countdown > 0) return false;
    mem_fired = true;
    return true;
}

// 0 = none. A build without fault points cannot do it: the test is skipped.
static inline void mem_fail_at(int n)
{
#ifdef FT_FAULTS
    mem_fault = mem_count_down;
#else
    if (n) skip();
#endif
    mem_countdown = n;
    mem_fired = false;
}

static inline bool mem_fault_fired(void)
{
    return mem_fired;
}

static inline int torture(bool (*fn)(void *arg, err *e), void *arg)
{
    for (int n = 1;; n++) {
        err e = {0};
        mem_fail_at(n);
        bool ok = fn(arg, &e);
        bool fired = mem_fault_fired();
        mem_fail_at(0);
        if (!fired) {
            assert_true(ok);
            return n - 1;
        }
        if (!ok) assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    }
}

static inline const uint8_t *tail_guard(const void *bytes, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (n + page - 1) / page * page;
    uint8_t *base = mmap(NULL, room + page, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(mprotect(base, room ? room : page, PROT_READ | PROT_WRITE), 0);
    if (n) memcpy(base + room - n, bytes, n);
    return base + room - n;
}
