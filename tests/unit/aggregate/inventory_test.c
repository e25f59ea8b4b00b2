// SPDX-License-Identifier: Apache-2.0
//
// Profiles, series, times and sizes add up.
#include "aggregate/inventory.h"
#include "base/buf.h"
#include "lib/test.h"

static void merge(struct inventory *x, const struct inventory *other, bool as_bytes)
{
    bool any = false;
    struct buf out;
    if (!as_bytes) {
        inventory_merge(x, other);
        return;
    }
    buf_init(&out, NULL, 1000);
    inventory_encode(other, &out, 1);
    // Tag and length go before the message.
    assert_true(out.n < 130);
    assert_ok(inventory_merge_bytes(x, str_make(out.p + 2, out.n - 2), &any, e));
    assert_int_equal(any, other->profiles > 0);
    buf_release(&out);
}

static void what_there_is_adds_up(void **state)
{
    (void)state;
    for (int as_bytes = 0; as_bytes < 2; as_bytes++) {
        struct inventory all = {0};
        struct inventory one = {
            .series = 2, .samples = 3, .profile_bytes = 5, .symbol_bytes = 7, .index_bytes = 11};
        // Without profiles it says nothing, whatever else is in it.
        merge(&all, &one, as_bytes);
        assert_true(all.profiles == 0 && all.series == 0 && all.index_bytes == 0);
        inventory_count(&one, 4, -50, -20);
        inventory_count(&one, 0, INT64_MIN, INT64_MAX);
        inventory_count(&one, 1, -60, -60);
        merge(&all, &one, as_bytes);
        assert_true(all.oldest_ns == -60 && all.newest_ns == -20);
        merge(&all, &one, as_bytes);
        inventory_count(&all, 1, 10, 30);
        assert_true(all.oldest_ns == -60 && all.newest_ns == 30);
        assert_true(all.profiles == 11 && all.series == 4 && all.samples == 6);
        assert_true(all.profile_bytes == 10 && all.symbol_bytes == 14 && all.index_bytes == 22);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_there_is_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
