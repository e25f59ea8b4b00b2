// SPDX-License-Identifier: Apache-2.0
//
// random.c - numbers, symbol tables and sums that follow from a seed.
#include "unit/model/random.h"

uint64_t random_next(struct random *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state * 0x2545f4914f6cdd1du;
}

uint32_t random_below(struct random *r, uint32_t n)
{
    return (uint32_t)(random_next(r) >> 33) % n;
}

static uint32_t random_string(struct random *r, struct symbols *s, err *e)
{
    char text[16];
    int n = snprintf(text, sizeof text, "n%u", random_below(r, 40));
    return symbols_string(s, str_make(text, random_below(r, 8) ? (size_t)n : 0), e);
}

static uint32_t random_frame(struct random *r, struct symbols *s, err *e)
{
    struct symbol_frame f = {.line = (int64_t)random_below(r, 9) - 4,
                             .address = random_below(r, 3) ? 0 : random_next(r),
                             .inlined = random_below(r, 4) == 0};
    struct symbol_function g = {.name = random_string(r, s, e),
                                .start_line = (int64_t)random_below(r, 3) - 1};
    if (random_below(r, 2)) g.system_name = random_string(r, s, e);
    if (random_below(r, 2)) g.filename = random_string(r, s, e);
    f.function = symbols_function(s, g, e);
    if (random_below(r, 2)) {
        f.mapping = symbols_mapping(s,
                                    (struct symbol_mapping){.start = random_below(r, 3),
                                                            .limit = random_next(r) >> 40,
                                                            .filename = random_string(r, s, e),
                                                            .flags = random_below(r, 16)},
                                    e);
    }
    return symbols_frame(s, f, e);
}

void random_symbols(struct random *r, struct symbols *s, int n)
{
    err e = {0};
    for (int i = 0; i < n; i++) {
        uint32_t frame = random_below(r, 3) && s->t.frame_count > 1
                             ? random_below(r, s->t.frame_count)
                             : random_frame(r, s, &e);
        assert_int_not_equal(frame, MAP_NONE);
        assert_int_not_equal(symbols_stack(s, random_below(r, s->t.stack_count), frame, &e),
                             MAP_NONE);
    }
}
