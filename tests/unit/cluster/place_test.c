// SPDX-License-Identifier: Apache-2.0
#include "cluster/place.h"
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>

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

// ---- weights

// Owners of SERIES label sets over ten members of these weights.
static void count_owners(const uint32_t weights[MEMBERS], size_t count[MEMBERS])
{
    make_members();
    memset(count, 0, MEMBERS * sizeof *count);
    for (size_t i = 0; i < MEMBERS; i++)
        members[i].weight = weights[i];
    for (uint64_t labels = 0; labels < SERIES; labels++) {
        uint32_t order[MEMBERS];
        place_order(members, MEMBERS, &(struct place_options){0}, S("t"), S("s"), labels, order);
        count[order[0]]++;
    }
}

static void a_member_gets_its_weight_of_the_whole(void **state)
{
    (void)state;
    static const uint32_t cases[][MEMBERS] = {
        {100, 200, 100, 100, 100, 100, 100, 100, 100, 100},
        {100, 200, 300, 400, 500, 600, 700, 800, 900, 1000},
        {50, 0, 0, 0, 0, 0, 0, 0, 0, 150},  // 0: the weight of one that tells none
        {1, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t count[MEMBERS];
        double all = 0;
        count_owners(cases[i], count);
        for (size_t k = 0; k < MEMBERS; k++)
            all += member_weight(&members[k]);
        for (size_t k = 0; k < MEMBERS; k++) {
            // Five per cent, or the noise of few: four standard deviations are 8 % of 2,000.
            double want = SERIES * member_weight(&members[k]) / all;
            double off = (double)count[k] - want;
            if (off * off > 16 * want && (off > 0.05 * want || off < -0.05 * want))
                fail_msg("case %zu: %zu has %zu, not %.0f", i, k, count[k], want);
        }
    }
}

// Members that are dead take no part, wherever they are in the list, and do not hide that the
// others have different weights.
static void weights_count_among_the_live(void **state)
{
    (void)state;
    for (size_t heavy = 0; heavy < MEMBERS; heavy++) {
        for (size_t gone = 0; gone + 1 < MEMBERS; gone++) {
            size_t count = 0;
            make_members();
            members[heavy].weight = 400;
            for (size_t i = 0, dead = 0; dead < gone; i++) {
                if (i == heavy) continue;
                members[i].alive = false;
                dead++;
            }
            for (uint64_t labels = 0; labels < 1000; labels++) {
                str id = owner(members, MEMBERS, (struct place_options){0}, labels);
                count += str_eq(id, members[heavy].id);
            }
            // 400 of the sum; 70 are more than four standard deviations.
            size_t want = 1000 * 400 / (400 + 100 * (MEMBERS - 1 - gone));
            if (count + 70 < want || count > want + 70)
                fail_msg("%zu among %zu dead has %zu, not %zu", heavy, gone, count, want);
        }
    }
}

// With equal weights, whatever they are, the order is the one without weights: a cluster whose
// members all tell 100 places like one whose members tell nothing.
static void equal_weights_change_nothing(void **state)
{
    (void)state;
    struct member plain[MEMBERS + 1];
    make_members();
    for (size_t i = 0; i < MEMBERS; i++) {
        plain[i] = members[i];
        members[i].weight = 700;
    }
    // One that is dead has another weight: its scores are compared, not the numbers drawn.
    struct member mixed[MEMBERS + 1];
    memcpy(mixed, members, sizeof members);
    mixed[MEMBERS] = plain[MEMBERS] = (struct member){.id = S("dead"), .weight = 10};
    for (uint64_t labels = 0; labels < 2000; labels++) {
        uint32_t want[MEMBERS + 1];
        uint32_t got[MEMBERS + 1];
        struct place_options o = {.tenant_members = 6, .service_members = 3};
        place_order(plain, MEMBERS, &o, S("t"), S("s"), labels, want);
        place_order(members, MEMBERS, &o, S("t"), S("s"), labels, got);
        assert_memory_equal(want, got, MEMBERS * sizeof *got);
        want[MEMBERS] = MEMBERS;
        place_order(mixed, MEMBERS + 1, &o, S("t"), S("s"), labels, got);
        assert_memory_equal(want, got, sizeof got);
    }
}

static void a_weight_that_grows_only_attracts(void **state)
{
    (void)state;
    make_members();
    struct member heavier[MEMBERS];
    memcpy(heavier, members, sizeof members);
    heavier[4].weight = 150;
    size_t moved = 0;
    for (uint64_t labels = 0; labels < SERIES; labels++) {
        str was = owner(members, MEMBERS, (struct place_options){0}, labels);
        str is = owner(heavier, MEMBERS, (struct place_options){0}, labels);
        if (str_eq(was, is)) continue;
        assert_true(str_eq(is, members[4].id));
        moved++;
    }
    // From 10 % to 150 of 1,050.
    assert_in_range(moved, SERIES * 35 / 1000, SERIES * 51 / 1000);
}

// ---- many members

enum {
    MANY = 1500  // more than keep their scores
};

static int by_draw(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

// The large sort gives the order of the small one: each pair of neighbours is in the order that the
// two have by themselves.
static void many_members_are_in_the_order_of_pairs(void **state)
{
    (void)state;
    static struct member many[MANY];
    static char names[MANY][16];
    static uint32_t order[MANY];
    static uint32_t sorted[MANY];
    for (size_t i = 0; i < MANY; i++) {
        int n = snprintf(names[i], sizeof names[i], "m-%zu", i);
        many[i] = (struct member){.id = str_make(names[i], (size_t)n),
                                  .alive = true,
                                  .weight = 100 + (uint32_t)(i % 3) * 50};
    }
    for (size_t n = 2; n <= MANY; n += n < 60 ? 1 : 480) {
        place_order(many, n, &(struct place_options){0}, S("t"), S("s"), n, order);
        memcpy(sorted, order, n * sizeof *order);
        qsort(sorted, n, sizeof *sorted, by_draw);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(sorted[i], i);  // each once
        for (size_t i = 0; i + 1 < n; i++) {
            // A third of another weight, dead: scores are compared in both.
            struct member pair[3] = {many[order[i]],
                                     many[order[i + 1]],
                                     {.id = S("x"), .weight = 7}};
            uint32_t of_pair[3];
            place_order(pair, 3, &(struct place_options){0}, S("t"), S("s"), n, of_pair);
            assert_int_equal(of_pair[0], 0);
        }
    }
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
        uint32_t weighted;
    } cases[] = {{"anonymous", "flametree", 1, 4, 2},
                 {"a", "checkout", 0x9e3779b97f4a7c15u, 9, 2},
                 {"", "", 0, 7, 7}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t order[MEMBERS];
        struct place_options o = {.tenant_members = 4, .service_members = 2};
        place_order(members, MEMBERS, &o, str_of(cases[i].tenant), str_of(cases[i].service),
                    cases[i].labels, order);
        if (order[0] != cases[i].want) fail_msg("case %zu: %u", i, order[0]);
        // Weights differ: the logarithm is the same on every machine.
        members[2].weight = 500;
        place_order(members, MEMBERS, &o, str_of(cases[i].tenant), str_of(cases[i].service),
                    cases[i].labels, order);
        if (order[0] != cases[i].weighted) fail_msg("case %zu, weighted: %u", i, order[0]);
        members[2].weight = 0;
    }
}

// Whoever has the same print gives each record the same home; it is the same on every machine, and
// for ever.
static void a_print_is_of_all_that_decides(void **state)
{
    (void)state;
    const struct place_options all = {.service_members = 1};
    make_members();
    uint64_t print = place_print(members, MEMBERS, &all);
    assert_true(print & 1);
    assert_int_equal(print, UINT64_C(0x7495d18be36569f3));
    // Who is alive decides nothing: a home is that of a restart too.
    members[3].alive = false;
    members[4].unready = true;
    members[5].weight = MEMBER_WEIGHT;
    assert_int_equal(place_print(members, MEMBERS, &all), print);
    const struct place_options others[] = {{.service_members = 2},
                                           {.tenant_members = 3, .service_members = 1},
                                           {.tenant_members = 1, .service_members = 1}};
    for (size_t i = 0; i < COUNT(others); i++)
        assert_int_not_equal(place_print(members, MEMBERS, &others[i]), print);
    // A subset of all is all.
    const struct place_options many = {.tenant_members = 99, .service_members = 1};
    assert_int_equal(place_print(members, MEMBERS, &many), print);
    assert_int_not_equal(place_print(members, MEMBERS - 1, &all), print);
    assert_int_not_equal(place_print(members + 1, MEMBERS - 1, &all), print);
    members[5].weight = MEMBER_WEIGHT + 1;
    assert_int_not_equal(place_print(members, MEMBERS, &all), print);
    members[5].weight = 0;
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
        cmocka_unit_test(a_member_gets_its_weight_of_the_whole),
        cmocka_unit_test(weights_count_among_the_live),
        cmocka_unit_test(equal_weights_change_nothing),
        cmocka_unit_test(a_weight_that_grows_only_attracts),
        cmocka_unit_test(many_members_are_in_the_order_of_pairs),
        cmocka_unit_test(known_placements_stay),
        cmocka_unit_test(a_print_is_of_all_that_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
