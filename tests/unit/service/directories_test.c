// SPDX-License-Identifier: Apache-2.0
//
// What a process without a store knows of data directories that ingesters had before.
#include "lib/test.h"
#include "service/directories.h"
#include "sys/clock.h"

#define HOUR (3600 * NS_PER_S)

static const id128 one = {{1}};
static const id128 two = {{2}};

static bool lacks(struct directories *d, const char *node, id128 directory, int64_t from_ns)
{
    char text[DIRECTORIES_TEXT];
    return directories_lack(d, str_of(node), directory, from_ns, text);
}

static void what_a_former_directory_had_is_lacking_also_when_the_first_one_is_back(void **state)
{
    (void)state;
    struct directories *d = directories_new(NULL);
    int64_t now = clock_wall_ns();
    char text[DIRECTORIES_TEXT];
    directories_saw(d, S("a"), one);
    directories_saw(d, S("a"), one);
    directories_saw(d, S("b"), two);  // of another node
    assert_false(lacks(d, "a", one, INT64_MIN));
    directories_saw(d, S("a"), two);
    assert_true(directories_lack(d, S("a"), two, now, text));
    assert_string_equal(text, "a: data directory 01000000000000000000000000 is gone");
    assert_true(lacks(d, "a", two, now + HOUR / 2));  // clocks differ
    assert_false(lacks(d, "a", two, now + 2 * HOUR));
    assert_false(lacks(d, "b", two, INT64_MIN));
    directories_saw(d, S("a"), one);
    assert_true(lacks(d, "a", one, now));
    assert_false(lacks(d, "a", one, now + 2 * HOUR));
    directories_free(d);
}

static void a_node_that_names_no_directory_lacks_nothing(void **state)
{
    (void)state;
    struct directories *d = directories_new(NULL);
    directories_saw(d, S("a"), one);
    directories_saw(d, S("a"), (id128){{0}});
    assert_false(lacks(d, "a", (id128){{0}}, INT64_MIN));
    assert_false(lacks(d, "a", one, INT64_MIN));
    directories_saw(NULL, S("a"), two);  // there is a store
    assert_false(lacks(NULL, "a", one, INT64_MIN));
    directories_free(d);
}

static void a_full_table_still_knows_what_was_replaced(void **state)
{
    (void)state;
    struct directories *d = directories_new(NULL);
    for (unsigned i = 0; i < 300; i++) {
        char node[16];
        snprintf(node, sizeof node, "n%u", i);
        directories_saw(d, str_of(node), one);
    }
    directories_saw(d, S("n0"), two);
    assert_true(lacks(d, "n0", two, clock_wall_ns()));
    assert_false(lacks(d, "n299", two, INT64_MIN));  // not noted any more
    directories_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_former_directory_had_is_lacking_also_when_the_first_one_is_back),
        cmocka_unit_test(a_node_that_names_no_directory_lacks_nothing),
        cmocka_unit_test(a_full_table_still_knows_what_was_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
