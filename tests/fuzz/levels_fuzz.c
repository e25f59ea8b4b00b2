// SPDX-License-Identifier: Apache-2.0
//
// The planner against points: the bytes are the choices of which a world and a question are made
// (tests/unit/querier/levels_naive.h). Property: every row counts as often as it should.
#include "unit/querier/levels_naive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
    const uint8_t *p;
    size_t n;
    uint32_t more;
};

// Two bytes a choice; when they are used up a plain sequence goes on.
static uint32_t choose(void *arg, uint32_t n)
{
    struct bytes *b = arg;
    if (b->n < 2) return b->more++ * 7919 % n;
    uint32_t v = (uint32_t)b->p[0] << 8 | b->p[1];
    b->p += 2;
    b->n -= 2;
    return v % n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct naive world;
    struct bytes bytes = {data, size, 0};
    naive_make(&world, choose, &bytes);
    struct arena a;
    arena_init(&a, NULL, (size_t)256 << 20);
    const struct level_given given = naive_given(&world);
    struct level_plan p;
    err e = {0};
    if (!level_plan_given(&a, &given, &world.ask, &p, &e)) abort();
    const char *fault = naive_check(&world, &p);
    if (fault) {
        fprintf(stderr, "%s\n", fault);
        abort();
    }
    arena_release(&a);
    return 0;
}
