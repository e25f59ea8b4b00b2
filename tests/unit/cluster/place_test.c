// SPDX-License-Identifier: Apache-2.0
#include "cluster/place.h"
#include "lib/test.h"

#include <stdio.h>

#define MEMBERS 10
#define SERIES  20000

static struct member members[MEMBERS];
static char ids[MEMBERS][16];

static void make_members(void)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        int n = snprintf(ids[i], sizeof ids[i], "ingester-%zu", i);
        members[i] = (struct member){.id = str_make(ids[i], (size_t)n), .alive = true};
    }
}

static str owner(const struct member *m, size_t n, struct place_options o, uint64_t labels)
{
    uint32_t order[MEMBERS];
    place_order(m, n, &o, S("tenant"), S("checkout"), labels, order);
    return m[order[0]].id;
}

static void every_member_is_in_the_order_once(void **state)
{
    (void)state;
    make_members();
    members[3].alive = false;
    members[7].unready = true;  // it answers, but wants no traffic
    for (uint64_t labels = 0; labels < 100; labels++) {
        uint32_t order[MEMBERS];
        struct place_options o = {.tenant_members = 6, .service_members = 2};
        place_order(members, MEMBERS, &o, S("t"), S("s"), labels, order);
        unsigned seen = 0;
        for (size_t i = 0; i < MEMBERS; i++)
            seen |= 1u << order[i];
        assert_int_equal(seen, (1u << MEMBERS) - 1);
        for (size_t i = 0; i < MEMBERS; i++) {
            const struct member *m = &members[order[i]];
            assert_int_equal(m->alive && !m->unready, i < MEMBERS - 2);
        }
    }
}

static void a_service_stays_on_its_members(void **state)
{
    (void)state;
    make_members();
    struct place_options o = {.tenant_members = 5, .service_members = 2};
    unsigned used = 0;
    for (uint64_t labels = 0; labels < 1000; labels++) {
        uint32_t order[MEMBERS];
        place_order(members, MEMBERS, &o, S("t"), S("s"), labels, order);
        used |= 1u << order[0];
    }
    assert_int_equal(__builtin_popcount(used), 2);
}

static void services_of_a_tenant_stay_in_its_subset(void **state)
{
    (void)state;
    make_members();
    struct place_options o = {.tenant_members = 3, .service_members = 1};
    unsigned used = 0;
    for (unsigned s = 0; s < 500; s++) {
        uint32_t order[MEMBERS];
        char service[16];
        int n = snprintf(service, sizeof service, "s%u", s);
        place_order(members, MEMBERS, &o, S("t"), str_make(service, (size_t)n), 1, order);
        used |= 1u << order[0];
    }
    assert_int_equal(__builtin_popcount(used), 3);
}

static void load_is_even(void **state)
{
    (void)state;
    make_members();
    size_t count[MEMBERS] = {0};
    for (uint64_t labels = 0; labels < SERIES; labels++) {
        uint32_t order[MEMBERS];
        place_order(members, MEMBERS, &(struct place_options){0}, S("t"), S("s"), labels, order);
        count[order[0]]++;
    }
    for (size_t i = 0; i < MEMBERS; i++)  // expected 2000, standard deviation 42
        assert_in_range(count[i], 1780, 2220);
}

// The point of rendezvous hashing: a change of members moves only what it must.
static void a_member_that_leaves_moves_only_its_share(void **state)
{
    (void)state;
    make_members();
    size_t moved = 0;
    for (uint64_t labels = 0; labels < SERIES; labels++) {
        str was = owner(members, MEMBERS, (struct place_options){0}, labels);
        str is = owner(members, MEMBERS - 1, (struct place_options){0}, labels);
        if (str_eq(was, members[MEMBERS - 1].id))
            moved++;
        else
            assert_true(str_eq(was, is));
    }
    assert_in_range(moved, SERIES / MEMBERS * 8 / 10, SERIES / MEMBERS * 12 / 10);
}

static void a_member_that_seems_dead_moves_only_its_share(void **state)
{
    (void)state;
    make_members();
    struct place_options o = {.tenant_members = 8, .service_members = 4};
    struct member less[MEMBERS];
    memcpy(less, members, sizeof less);
    str gone = owner(members, MEMBERS, o, 17);
    for (size_t i = 0; i < MEMBERS; i++)
        less[i].alive = !str_eq(less[i].id, gone);
    for (uint64_t labels = 0; labels < 2000; labels++) {
        str was = owner(members, MEMBERS, o, labels);
        str is = owner(less, MEMBERS, o, labels);
        assert_false(str_eq(is, gone));
        // One new member may join the four; it takes a share of all, others keep theirs.
        if (!str_eq(was, gone) && !str_eq(was, is)) {
            bool new_here = true;
            for (uint64_t other = 0; other < 200; other++)
                new_here &= !str_eq(owner(members, MEMBERS, o, other), is);
            assert_true(new_here);
        }
    }
}

static void the_listing_order_does_not_matter(void **state)
{
    (void)state;
    make_members();
    struct member reversed[MEMBERS];
    for (size_t i = 0; i < MEMBERS; i++)
        reversed[i] = members[MEMBERS - 1 - i];
    struct place_options o = {.tenant_members = 6, .service_members = 3};
    for (uint64_t labels = 0; labels < 1000; labels++)
        assert_true(
            str_eq(owner(members, MEMBERS, o, labels), owner(reversed, MEMBERS, o, labels)));
}

static void known_placements_stay(void **state)
{
    (void)state;
    make_members();
    // Pinned: an upgrade that changed the hash would scatter every service over new ingesters.
    static const struct {
        const char *tenant;
        const char *service;
        uint64_t labels;
        uint32_t want;
    } cases[] = {{"anonymous", "flametree", 1, 4},
                 {"a", "checkout", 0x9e3779b97f4a7c15u, 9},
                 {"", "", 0, 7}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t order[MEMBERS];
        struct place_options o = {.tenant_members = 4, .service_members = 2};
        place_order(members, MEMBERS, &o, str_of(cases[i].tenant), str_of(cases[i].service),
                    cases[i].labels, order);
        if (order[0] != cases[i].want) fail_msg("case %zu: %u", i, order[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_in_the_order_once),
        cmocka_unit_test(a_service_stays_on_its_members),
        cmocka_unit_test(services_of_a_tenant_stay_in_its_subset),
        cmocka_unit_test(load_is_even),
        cmocka_unit_test(a_member_that_leaves_moves_only_its_share),
        cmocka_unit_test(a_member_that_seems_dead_moves_only_its_share),
        cmocka_unit_test(the_listing_order_does_not_matter),
        cmocka_unit_test(known_placements_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
