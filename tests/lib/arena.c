// SPDX-License-Identifier: Apache-2.0
#include "lib/arena.h"

struct arena arena;

int arena_set_up(void **state)
{
    (void)state;
    arena_init(&arena, NULL, (size_t)256 << 20);
    return 0;
}

int arena_tear_down(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}
