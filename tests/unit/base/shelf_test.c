// SPDX-License-Identifier: Apache-2.0
//
// Items are found by key, and listed in order of last use.
#include "base/hash.h"
#include "base/shelf.h"
#include "lib/test.h"

#define THINGS 1000

struct thing {
    struct shelf_item item;
    uint64_t key;
    bool here;
};

static bool same(const void *ctx, struct shelf_item *item)
{
    return CONTAINER_OF(item, struct thing, item)->key == *(const uint64_t *)ctx;
}

static struct thing *find(struct shelf *s, uint64_t key)
{
    struct shelf_item *item = shelf_find(s, hash_table_word(key), same, &key);
    return item ? CONTAINER_OF(item, struct thing, item) : NULL;
}

static void things_are_found_until_they_are_taken_out(void **state)
{
    (void)state;
    struct shelf s;
    static struct thing things[THINGS];
    shelf_init(&s, NULL);
    assert_null(find(&s, 1));
    for (uint64_t i = 0; i < THINGS; i++) {
        things[i] = (struct thing){.key = i, .here = true};
        assert_ok(shelf_put(&s, &things[i].item, hash_table_word(i), e));
    }
    for (uint64_t i = 0; i < THINGS; i += 3) {
        shelf_remove(&s, &things[i].item);
        things[i].here = false;
    }
    for (uint64_t i = 0; i < THINGS; i++)
        assert_ptr_equal(find(&s, i), things[i].here ? &things[i] : NULL);
    assert_int_equal(s.count, THINGS - (THINGS + 2) / 3);
    while (s.oldest)
        shelf_remove(&s, s.oldest);
    assert_int_equal(s.count, 0);
    assert_null(find(&s, 1));
    shelf_release(&s);
}

static void what_was_found_last_is_the_newest(void **state)
{
    (void)state;
    struct shelf s;
    struct thing things[4] = {{.key = 0}, {.key = 1}, {.key = 2}, {.key = 3}};
    static const uint64_t order[] = {2, 3, 1, 0};  // oldest first, once 1 and then 0 were found
    shelf_init(&s, NULL);
    for (uint64_t i = 0; i < COUNT(things); i++)
        assert_ok(shelf_put(&s, &things[i].item, hash_table_word(i), e));
    assert_ptr_equal(find(&s, 1), &things[1]);
    assert_ptr_equal(find(&s, 0), &things[0]);
    assert_ptr_equal(find(&s, 0), &things[0]);
    for (size_t i = 0; i < COUNT(order); i++) {
        assert_ptr_equal(s.oldest, &things[order[i]].item);
        shelf_remove(&s, s.oldest);
    }
    assert_null(s.newest);
    shelf_release(&s);
}

static void without_memory_nothing_is_put(void **state)
{
    (void)state;
    struct mem_budget b;
    struct shelf s;
    static struct thing things[64];
    err fault = {0};
    mem_budget_init(&b, "shelf", NULL, 300);
    shelf_init(&s, &b);
    size_t n = 0;
    while (shelf_put(&s, &things[n].item, hash_table_word(things[n].key = n), &fault))
        n++;
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(s.count, n);
    for (uint64_t i = 0; i < n; i++)
        assert_ptr_equal(find(&s, i), &things[i]);
    while (s.oldest)
        shelf_remove(&s, s.oldest);
    shelf_release(&s);
    assert_int_equal(b.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(things_are_found_until_they_are_taken_out),
        cmocka_unit_test(what_was_found_last_is_the_newest),
        cmocka_unit_test(without_memory_nothing_is_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
