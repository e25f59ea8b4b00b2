// SPDX-License-Identifier: Apache-2.0
//
// arena.h - an arena that is new for each test of a file: ARENA_TEST(name) stands in its list where
// cmocka_unit_test(name) would.
#pragma once

#include "base/arena.h"
#include "lib/test.h"

static struct arena arena;

static inline int arena_set_up(void **state)
{
    (void)state;
    arena_init(&arena, NULL, (size_t)256 << 20);
    return 0;
}

static inline int arena_tear_down(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

#define ARENA_TEST(name) cmocka_unit_test_setup_teardown(name, arena_set_up, arena_tear_down)
