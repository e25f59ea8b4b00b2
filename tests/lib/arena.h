// SPDX-License-Identifier: Apache-2.0
//
// arena.h - an arena that is new for each test of a file: ARENA_TEST(name) stands in its list where
// cmocka_unit_test(name) would.
#pragma once

#include "base/arena.h"
#include "lib/test.h"

extern struct arena arena;

int arena_set_up(void **state);
int arena_tear_down(void **state);

#define ARENA_TEST(name) cmocka_unit_test_setup_teardown(name, arena_set_up, arena_tear_down)
