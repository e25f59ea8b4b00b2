// SPDX-License-Identifier: Apache-2.0
//
// An index of rows finds each row again, among equal hashes too.
#include "base/hash.h"
#include "base/map.h"
#include "lib/test.h"

struct want {
    const uint32_t *rows;
    uint32_t key;
};

static bool same(const void *ctx, uint32_t row)
{
    const struct want *w = ctx;
    return w->rows[row] == w->key;
}

static uint32_t find(const struct map *m, uint64_t hash, const uint32_t *rows, uint32_t key)
{
    struct want w = {.rows = rows, .key = key};
    return map_find(m, hash, same, &w);
}

#define ROWS 5000

static bool fill(void *arg, err *e)
{
    static uint32_t rows[ROWS];
    bool collide = *(bool *)arg;
    struct map m;
    map_init(&m, NULL);
    uint32_t n = collide ? 300 : ROWS;
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++) {
        uint32_t key = i * 2654435761u;
        uint64_t hash = collide ? 7 : hash_bytes(&key, sizeof key);
        assert_int_equal(find(&m, hash, rows, key), MAP_NONE);
        rows[i] = key;
        ok = map_put(&m, hash, i, e);
    }
    for (uint32_t i = 0; ok && i < n; i++) {
        uint64_t hash = collide ? 7 : hash_bytes(&rows[i], sizeof rows[i]);
        assert_int_equal(find(&m, hash, rows, rows[i]), i);
    }
    if (ok) assert_int_equal(m.count, n);
    map_release(&m);
    return ok;
}

static void every_row_is_found_again(void **state)
{
    (void)state;
    bool collide = false;
    assert_ok(fill(&collide, e));
    assert_true(torture(fill, &collide) >= 5);
}

static void equal_hashes_are_told_apart_by_the_owner(void **state)
{
    (void)state;
    bool collide = true;
    assert_ok(fill(&collide, e));
}

static void an_empty_map_finds_nothing(void **state)
{
    (void)state;
    struct map m;
    map_init(&m, NULL);
    assert_int_equal(find(&m, 0, NULL, 0), MAP_NONE);
    map_release(&m);
    map_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found_again),
        cmocka_unit_test(equal_hashes_are_told_apart_by_the_owner),
        cmocka_unit_test(an_empty_map_finds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
