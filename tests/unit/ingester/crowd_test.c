// SPDX-License-Identifier: Apache-2.0
#include "ingester/head/ids.h"
#include "ingester/head/index.h"
#include "ingester/head/recent_ids.h"
#include "lib/crowd.h"
#include "lib/test.h"

#include <stdio.h>

// Series {a="v<n>"} of a sender who chose the numbers so that something of them crowds.
static void add_series(bool (*chosen)(str value))
{
    struct index x;
    char value[16];
    uint32_t rows = 0;
    index_init(&x, NULL);
    map_looked = 0;
    for (unsigned i = 0; rows < CROWD; i++) {
        snprintf(value, sizeof value, "v%u", i);
        if (!chosen(str_of(value))) continue;
        const label l = {S("a"), str_of(value)};
        const labels ls = {&l, 1};
        assert_int_equal(index_series(&x, ls, labels_fingerprint(ls), &(err){0}), rows);
        assert_int_equal(index_series(&x, ls, labels_fingerprint(ls), &(err){0}), rows);
        rows++;
    }
    if (map_looked > CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    index_release(&x);
}

static bool value_crowds(str value)
{
    return crowd_has(hash_str(value));
}

static bool fingerprint_crowds(str value)
{
    const label l = {S("a"), value};
    return crowd_has(labels_fingerprint((labels){&l, 1}));
}

static void values_of_labels_do_not_crowd(void **state)
{
    (void)state;
    add_series(value_crowds);
}

static void fingerprints_do_not_crowd(void **state)
{
    (void)state;
    add_series(fingerprint_crowds);
}

// Of these two tables the lower bits of a hash say the slot.
static bool id_crowds(id128 id, uint64_t series)
{
    return crowd_has(hash_mix(hash_bytes(id.b, sizeof id.b), series) << 32);
}

static void ids_of_a_service_do_not_crowd(void **state)
{
    (void)state;
    struct ids s = {0};
    map_looked = 0;
    for (uint64_t i = 0; s.n < CROWD; i++) {
        id128 id = {{0}};
        memcpy(id.b, &i, sizeof i);
        if (!id_crowds(id, 3)) continue;
        assert_ok(ids_promise(&s, NULL, 1, e));
        assert_true(ids_put(&s, 3, id));
    }
    if (map_looked > CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    ids_release(&s, NULL);
}

static void ids_that_are_remembered_do_not_crowd(void **state)
{
    (void)state;
    struct recent_ids p;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    uint64_t series = hash_mix(hash_str(S("t")), 3);
    map_looked = 0;
    unsigned rows = 0;
    for (uint64_t i = 0; rows < CROWD; i++) {
        struct loose_key key = {.series = 3};
        memcpy(key.id.b, &i, sizeof i);
        if (!id_crowds(key.id, series)) continue;
        (void)recent_ids_room(&p, 1, SIZE_MAX);
        recent_ids_add(&p, S("t"), key);
        rows++;
    }
    if (map_looked > CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    recent_ids_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_labels_do_not_crowd),
        cmocka_unit_test(fingerprints_do_not_crowd),
        cmocka_unit_test(ids_of_a_service_do_not_crowd),
        cmocka_unit_test(ids_that_are_remembered_do_not_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
