// SPDX-License-Identifier: Apache-2.0
//
// Stacks are runs of locations, "from-to" in leaf-first order with gaps; what they become.
#include "intake/normalise.h"
#include "lib/arena.h"

#define STACKS_MAX 6
#define RUNS_MAX   3
#define LOCATIONS  400

struct stack {
    uint32_t runs[RUNS_MAX][2];  // {first, count}; count 0: the end
};

// A program's stack is 100 (leaf) .. 199 (root); what was cut ends earlier. The stack from 200 is
// the last group, which is left alone.
#define WHOLE(leaf, n)      \
    {                       \
        {                   \
            {               \
                (leaf), (n) \
            }               \
        }                   \
    }

static const struct {
    const char *name;
    const char *type;
    struct stack in[STACKS_MAX];
    struct stack out[STACKS_MAX];
} cases[] = {
    {"a root is found 4 below",
     "inuse_space",
     {WHOLE(104, 28), {{{1, 4}, {100, 28}}}, WHOLE(200, 24)},
     {WHOLE(104, 28), {{{1, 4}, {100, 28}, {128, 4}}}, WHOLE(200, 24)}},
    {"of two sources the one that knows more",
     "alloc_objects",
     {WHOLE(102, 28), WHOLE(108, 28), {{{1, 4}, {100, 28}}}, WHOLE(200, 24)},
     {{{{102, 28}, {130, 6}}}, WHOLE(108, 28), {{{1, 4}, {100, 28}, {128, 8}}}, WHOLE(200, 24)}},
    {"a chain of sources",
     "inuse_objects",
     {WHOLE(100, 32), WHOLE(106, 32), WHOLE(112, 30), WHOLE(200, 24)},
     {{{{100, 32}, {132, 10}}}, {{{106, 32}, {138, 4}}}, WHOLE(112, 30), WHOLE(200, 24)}},
    {"15 locations are no proof",
     "inuse_space",
     {{{{1, 13}, {100, 15}}}, {{{20, 9}, {100, 15}, {115, 4}}}, WHOLE(200, 24)},
     {{{{1, 13}, {100, 15}}}, {{{20, 9}, {100, 15}, {115, 4}}}, WHOLE(200, 24)}},
    {"9 below is too far",
     "inuse_space",
     {WHOLE(100, 30), WHOLE(109, 30), WHOLE(200, 24)},
     {WHOLE(100, 30), WHOLE(109, 30), WHOLE(200, 24)}},
    {"no stack is deep: nothing was cut",
     "inuse_space",
     {WHOLE(104, 27), WHOLE(100, 27), WHOLE(200, 24)},
     {WHOLE(104, 27), WHOLE(100, 27), WHOLE(200, 24)}},
    {"a heap deeper than 32 is of a newer Go",
     "inuse_space",
     {WHOLE(104, 33), WHOLE(100, 33), WHOLE(200, 24)},
     {WHOLE(104, 33), WHOLE(100, 33), WHOLE(200, 24)}},
    {"CPU",
     "cpu",
     {WHOLE(104, 60), WHOLE(100, 60), WHOLE(200, 24)},
     {WHOLE(104, 60), {{{100, 60}, {160, 4}}}, WHOLE(200, 24)}},
    {"CPU that is not deep",
     "cpu",
     {WHOLE(104, 59), WHOLE(100, 59), WHOLE(200, 24)},
     {WHOLE(104, 59), WHOLE(100, 59), WHOLE(200, 24)}},
    {"contentions are left alone",
     "contentions",
     {WHOLE(104, 60), WHOLE(100, 60), WHOLE(200, 24)},
     {WHOLE(104, 60), WHOLE(100, 60), WHOLE(200, 24)}},
};

static uint32_t put(const struct stack *s, uint32_t *v)
{
    uint32_t n = 0;
    for (size_t i = 0; i < RUNS_MAX; i++) {
        for (uint32_t k = 0; k < s->runs[i][1]; k++)
            v[n++] = s->runs[i][0] + k;
    }
    return n;
}

static void fill(struct profile *p, const struct stack *stacks, const char *type)
{
    *p = (struct profile){.location_count = LOCATIONS, .type_count = 1};
    p->types = ARENA_NEW(&arena, struct profile_type);
    p->types[0].type = str_of(type);
    p->samples = ARENA_ARRAY(&arena, struct profile_sample, STACKS_MAX);
    p->stack_locations = ARENA_ARRAY(&arena, uint32_t, LOCATIONS);
    for (; p->sample_count < STACKS_MAX && stacks[p->sample_count].runs[0][1]; p->sample_count++) {
        struct profile_sample *s = &p->samples[p->sample_count];
        s->first_location = p->stack_location_count;
        s->location_count = put(&stacks[p->sample_count], p->stack_locations + s->first_location);
        p->stack_location_count += s->location_count;
    }
}

static void cut_stacks_get_their_root(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct profile p;
        fill(&p, cases[i].in, cases[i].type);
        assert_true(normalise_go_stacks(&arena, &p));
        for (uint32_t k = 0; k < p.sample_count; k++) {
            uint32_t wanted[LOCATIONS];
            const struct profile_sample *s = &p.samples[k];
            uint32_t n = put(&cases[i].out[k], wanted);
            bool right = s->location_count == n &&
                         memcmp(wanted, p.stack_locations + s->first_location, n * 4) == 0;
            if (!right) fail_msg("%s: stack %u has %u", cases[i].name, k, s->location_count);
        }
    }
}

// A stack that is its own continuation must not be followed for ever.
static void recursion_is_given_up(void **state)
{
    (void)state;
    struct profile p = {.type_count = 1, .location_count = 3, .sample_count = 40};
    struct profile_type type = {S("cpu"), S("nanoseconds")};
    p.types = &type;
    p.samples = ARENA_ARRAY(&arena, struct profile_sample, p.sample_count);
    p.stack_locations = ARENA_ARRAY(&arena, uint32_t, 64u * 40);
    for (uint32_t i = 0; i < p.sample_count; i++) {
        p.samples[i] = (struct profile_sample){i * 64, 64, 0, 0};
        for (uint32_t k = 0; k < 64; k++)
            p.stack_locations[i * 64 + k] = (i + k) % 3;
    }
    p.stack_location_count = 64 * 40;
    assert_true(normalise_go_stacks(&arena, &p));
    for (uint32_t i = 0; i < p.sample_count; i++)
        assert_int_equal(p.samples[i].location_count, 64);
}

static void instances_of_a_generic_are_one_location(void **state)
{
    (void)state;
    struct profile_function f[] = {{.name = S("main.f[go.shape.int]"),
                                    .system_name = S("main.f[go.shape.int]")},
                                   {.name = S("main.g")},
                                   {.name = S("main.f[go.shape.string]"),
                                    .system_name = S("main.f[go.shape.string]")}};
    struct profile_line lines[] = {{0, 7}, {1, 1}, {2, 7}, {2, 8}};
    struct profile_location l[] = {{.first_line = 0, .line_count = 1},
                                   {.first_line = 1, .line_count = 1},
                                   {.first_line = 2, .line_count = 1},
                                   {.first_line = 3, .line_count = 1}};
    uint32_t stack[] = {0, 1, 2, 3};
    struct profile p = {.functions = f, .lines = lines, .locations = l, .stack_locations = stack};
    p.function_count = COUNT(f);
    p.line_count = COUNT(lines);
    p.location_count = COUNT(l);
    p.stack_location_count = COUNT(stack);
    assert_true(normalise_go_names(&arena, &p));
    assert_int_equal(p.location_count, 3);
    const uint32_t wanted[] = {0, 1, 0, 2};
    assert_memory_equal(stack, wanted, sizeof wanted);
    assert_true(str_is(f[lines[l[2].first_line].function].name, "main.f"));
}

static void want_of_memory_is_told(void **state)
{
    (void)state;
    struct profile p;
    fill(&p, cases[0].in, cases[0].type);
    struct arena small;
    arena_init(&small, NULL, 64);
    err e = {0};
    assert_false(normalise_go_stacks(&small, &p));
    assert_false(arena_ok(&small, &e));
    arena_release(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(cut_stacks_get_their_root),
        ARENA_TEST(recursion_is_given_up),
        ARENA_TEST(instances_of_a_generic_are_one_location),
        ARENA_TEST(want_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
