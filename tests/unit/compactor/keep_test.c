// SPDX-License-Identifier: Apache-2.0
//
// How long blocks are kept where a tenant may have so many bytes only: a row is a rule and blocks
// of 100 bytes, and what is kept after so many days.
#include "compactor/keep.h"
#include "lib/test.h"

#define DAYS(n) ((n)*SLOT_DAY)
#define DAY_0   INT64_C(20000)

struct keep_case {
    const char *name;
    uint64_t bytes;  // that it may have
    int raw[2];      // days that there are leaves of, from and until
    int hours[2];
    int days[2];
    uint64_t segments;  // bytes of a segment of today
    int want[3];        // days that raw, hours and days are kept; 0: for ever
    bool by_size;
    uint64_t over;
};

#define NOW_DAY 40  // it is the end of day 39

static size_t add(struct manifest_block *v, size_t n, enum block_kind kind, const int range[2])
{
    for (int day = range[0]; day < range[1]; day++)
        v[n++] = (struct manifest_block){.kind = kind,
                                         .from_hour = (DAY_0 + day) * 24,
                                         .hours = 24,
                                         .bytes = 100};
    return n;
}

static void blocks_go_in_order(void **state)
{
    (void)state;
    static const struct keep_case cases[] = {
        {"no limit", 0, {0, 40}, {0, 40}, {0, 40}, 7, {0, 0, 0}, false, 0},
        {"enough", 12007, {0, 40}, {0, 40}, {0, 40}, 7, {0, 0, 0}, false, 0},
        {"the first byte above: leaves until nine tenths are left",
         12000,
         {0, 40},
         {0, 40},
         {0, 40},
         100,
         {27, 0, 0},  // 13 leaves of days 0 to 12 go
         true,
         0},
        {"segments count", 4500, {0, 40}, {0, 0}, {0, 0}, 900, {31, 0, 0}, true, 0},
        {"all leaves but two days, then hours",
         4000,
         {0, 40},
         {0, 40},
         {0, 0},
         0,
         {2, 34, 0},  // 38 leaves and 6 days of hours
         true,
         0},
        {"days go last", 1000, {30, 40}, {30, 40}, {0, 40}, 0, {2, 2, 5}, true, 0},
        {"what is left is too much", 300, {30, 40}, {0, 0}, {30, 40}, 0, {2, 0, 2}, true, 100},
        {"segments alone", 100, {0, 0}, {0, 0}, {0, 0}, 500, {0, 0, 0}, false, 400},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct keep_case *c = &cases[i];
        struct manifest_block v[128];
        const struct snapshot_segment segment = {.bytes = c->segments};
        const struct keep_rule rule = {.bytes = c->bytes};
        size_t n = add(v, 0, BLOCK_RAW, c->raw);
        n = add(v, n, BLOCK_HOURS, c->hours);
        n = add(v, n, BLOCK_DAYS, c->days);
        const struct keep_bytes bytes = keep_count(v, n, &segment, 1);
        const struct keep got =
            keep_for(&rule, &bytes, v, n, slot_start(DAY_0 + NOW_DAY, SLOT_DAY));
        const int64_t kept[] = {got.raw_ns, got.hours_ns, got.days_ns};
        for (size_t k = 0; k < COUNT(kept); k++) {
            if (kept[k] != DAYS(c->want[k]))
                fail_msg("%s: period %zu is %lld days", c->name, k,
                         (long long)(kept[k] / SLOT_DAY));
        }
        if (got.by_size != c->by_size || got.over != c->over)
            fail_msg("%s: by size %d, %llu over", c->name, got.by_size,
                     (unsigned long long)got.over);
    }
}

// They go when the day's last hour does. So the two halves of a day have one time, that of its end.
static void hours_of_a_day_go_together(void **state)
{
    (void)state;
    struct manifest_block v[2 * NOW_DAY];
    const struct keep_rule rule = {.bytes = 3950};
    for (size_t i = 0; i < COUNT(v); i++)
        v[i] = (struct manifest_block){.kind = BLOCK_HOURS,
                                       .from_hour = DAY_0 * 24 + (int64_t)i * 12,
                                       .hours = 12,
                                       .bytes = 50};
    const struct keep_bytes bytes = keep_count(v, COUNT(v), NULL, 0);
    const struct keep got =
        keep_for(&rule, &bytes, v, COUNT(v), slot_start(DAY_0 + NOW_DAY, SLOT_DAY));
    // Of 4000 bytes 445 are to go: four days and a half, so five days.
    assert_int_equal(got.hours_ns, DAYS(35));
    assert_true(got.by_size);
    assert_int_equal(got.over, 0);
}

static void a_rule_that_is_shorter_holds(void **state)
{
    (void)state;
    struct manifest_block v[40];
    const struct keep_rule rule = {.raw_ns = DAYS(10),
                                   .hours_ns = DAYS(20),
                                   .days_ns = DAYS(30),
                                   .bytes = 3000};
    size_t n = add(v, 0, BLOCK_RAW, (const int[]){0, 40});
    const struct keep_bytes bytes = keep_count(v, n, NULL, 0);
    const struct keep got = keep_for(&rule, &bytes, v, n, slot_start(DAY_0 + NOW_DAY, SLOT_DAY));
    // Bytes alone would keep 27 days of leaves.
    assert_int_equal(got.raw_ns, DAYS(10));
    assert_int_equal(got.hours_ns, DAYS(20));
    assert_int_equal(got.days_ns, DAYS(30));
    assert_false(got.by_size);
}

static void each_tenant_gives_the_same_share(void **state)
{
    (void)state;
    assert_int_equal(keep_share(900, 500, 1000), 450);
    assert_int_equal(keep_share(900, 0, 1000), 1);
    assert_int_equal(keep_share(900, 0, 0), 900);
    assert_true(keep_share(UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 2) > UINT64_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_go_in_order),
                                       cmocka_unit_test(hours_of_a_day_go_together),
                                       cmocka_unit_test(a_rule_that_is_shorter_holds),
                                       cmocka_unit_test(each_tenant_gives_the_same_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
