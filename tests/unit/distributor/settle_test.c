// SPDX-License-Identifier: Apache-2.0
#include "distributor/settle.h"
#include "lib/dir.h"
#include "lib/test.h"
#include "sys/file.h"

#define SECOND UINT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define SETTLE (5 * MINUTE)
#define BEGIN  (1000 * SECOND)

static char dir[DIR_MAX];
static char path[DIR_PATH_MAX];

static struct settle *open_at(uint64_t mono_ns)
{
    struct settle *s = NULL;
    assert_ok(settle_open(path, SETTLE, mono_ns, &s, e));
    return s;
}

// The lists that a record of now is compared with, as text: "a,b a,b,c"; "?" if they are unknown.
// `list`: ids of one letter, and a digit behind one that has so many times the usual weight.
static const char *past_of(struct settle *s, struct arena *a, const char *list, uint64_t mono_ns)
{
    struct member v[26];
    size_t n = 0;
    struct settle_past past;
    for (size_t i = 0; list[i]; i++) {
        if (list[i] >= '0' && list[i] <= '9')
            v[n - 1].weight = (uint32_t)(list[i] - '0') * MEMBER_WEIGHT;
        else
            v[n++] = (struct member){.id = str_make(list + i, 1), .alive = n % 2};
    }
    assert_ok(settle_use(s, v, n, mono_ns, a, &past, e));
    if (past.unknown) return "?";
    const char *text = "";
    for (size_t i = 0; i < past.n; i++) {
        for (size_t k = 0; k < past.counts[i]; k++) {
            assert_true(past.lists[i][k].alive);
            const struct member *x = &past.lists[i][k];
            text = arena_printf(a, "%s%s%.*s", text, i && k == 0 ? " " : "", STR(x->id)).p;
            if (member_weight(x) != MEMBER_WEIGHT)
                text = arena_printf(a, "%s%u", text, x->weight / MEMBER_WEIGHT).p;
        }
        assert_true(past.counts[i] <= past.most);
    }
    return text;
}

static void fresh(void)
{
    dir_path(path, dir, "members");
    assert_ok(file_remove(path, e));
}

static void a_list_matters_until_the_time_after_its_last_use(void **state)
{
    (void)state;
    struct arena a;
    fresh();
    arena_init(&a, NULL, 1 << 20);
    struct settle *s = open_at(BEGIN);
    // Without a file nobody knows what others have used.
    assert_string_equal(past_of(s, &a, "ab", BEGIN), "?");
    assert_string_equal(past_of(s, &a, "ab", BEGIN + SETTLE - 1), "?");
    uint64_t t = BEGIN + SETTLE;
    assert_string_equal(past_of(s, &a, "ab", t), "");
    assert_string_equal(past_of(s, &a, "abc", t + 1), "ab");
    assert_string_equal(past_of(s, &a, "bc", t + MINUTE), "ab abc");
    assert_string_equal(past_of(s, &a, "bc", t + SETTLE), "ab abc");
    assert_string_equal(past_of(s, &a, "bc", t + SETTLE + 1), "abc");
    // Back to one that was used before: it is the present one, the other ones are past.
    assert_string_equal(past_of(s, &a, "abc", t + SETTLE + 1), "bc");
    assert_string_equal(past_of(s, &a, "abc", t + 3 * SETTLE), "");
    settle_close(s, BEGIN + 2 * SETTLE);
    arena_release(&a);
}

static void a_restart_forgets_no_list(void **state)
{
    (void)state;
    struct arena a;
    fresh();
    arena_init(&a, NULL, 1 << 20);
    struct settle *s = open_at(BEGIN);
    assert_string_equal(past_of(s, &a, "ab", BEGIN + SETTLE), "");
    assert_string_equal(past_of(s, &a, "abc", BEGIN + SETTLE), "ab");
    settle_close(s, BEGIN + SETTLE);
    // The same list: what was before it still matters; and another one: the last one, too.
    s = open_at(BEGIN + SETTLE + MINUTE);
    assert_string_equal(past_of(s, &a, "abc", BEGIN + SETTLE + MINUTE), "ab");
    assert_string_equal(past_of(s, &a, "d", BEGIN + SETTLE + MINUTE), "ab abc");
    settle_close(s, BEGIN + SETTLE + MINUTE);
    arena_release(&a);
}

// Its file has when each list was first used, which may be long ago for the last one.
static void a_kill_does_not_forget_the_list_in_use(void **state)
{
    (void)state;
    struct arena a;
    fresh();
    arena_init(&a, NULL, 1 << 20);
    assert_ok(file_write(path, S("flametree members 1\n12 61\n13 62\n"), e));
    struct settle *s = open_at(BEGIN);
    assert_string_equal(past_of(s, &a, "c", BEGIN), "b");
    assert_string_equal(past_of(s, &a, "c", BEGIN + SETTLE), "b");
    assert_string_equal(past_of(s, &a, "c", BEGIN + SETTLE + 1), "");
    settle_close(s, BEGIN + SETTLE + 1);
    arena_release(&a);
}

// A home of one weight may be none of another, so a weight that changes is another list.
static void weights_are_a_part_of_a_list(void **state)
{
    (void)state;
    struct arena a;
    fresh();
    arena_init(&a, NULL, 1 << 20);
    struct settle *s = open_at(BEGIN);
    uint64_t t = BEGIN + SETTLE;
    assert_string_equal(past_of(s, &a, "ab", t), "");
    assert_string_equal(past_of(s, &a, "a1b", t), "");  // the weight that all have
    assert_string_equal(past_of(s, &a, "ab2", t + 1), "ab");
    assert_string_equal(past_of(s, &a, "a3b2", t + 2), "ab ab2");
    settle_close(s, t + 3);
    s = open_at(t + MINUTE);
    assert_string_equal(past_of(s, &a, "a3b2", t + MINUTE), "ab ab2");
    assert_string_equal(past_of(s, &a, "ab", t + MINUTE), "ab2 a3b2");
    settle_close(s, t + MINUTE);
    arena_release(&a);
}

static void a_file_that_cannot_be_read_is_as_good_as_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "x",
                                        "flametree members 1\n",
                                        "flametree members 1\n12\n",
                                        "flametree members 1\n12 6\n",
                                        "flametree members 1\nx 61\n",
                                        "flametree members 1\n12 6g\n",
                                        "flametree members 1\n12 61*\n",
                                        "flametree members 1\n12 61*0\n",
                                        "flametree members 1\n12 61*2000\n",
                                        "flametree members 1\n12 61*200*3\n",
                                        "flametree members 2\n12 61\n"};
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    for (size_t i = 0; i < COUNT(texts); i++) {
        fresh();
        assert_ok(file_write(path, str_of(texts[i]), e));
        struct settle *s = open_at(BEGIN);
        assert_string_equal(past_of(s, &a, "a", BEGIN), "?");
        settle_close(s, BEGIN + 2 * SETTLE);
        s = open_at(BEGIN);
        assert_string_equal(past_of(s, &a, "a", BEGIN), "");
        settle_close(s, BEGIN + 2 * SETTLE);
    }
    arena_release(&a);
}

static void too_many_changes_are_unknown_until_they_are_past(void **state)
{
    (void)state;
    struct arena a;
    fresh();
    arena_init(&a, NULL, 1 << 20);
    struct settle *s = open_at(BEGIN);
    uint64_t t = BEGIN + SETTLE;
    for (size_t i = 0; i <= SETTLE_LISTS; i++) {
        char list[2] = {(char)('a' + i), '\0'};
        const char *past = past_of(s, &a, list, t + i);
        assert_int_equal(past[0] == '?', i == SETTLE_LISTS);
    }
    assert_string_equal(past_of(s, &a, "z", t + SETTLE - 1), "?");
    assert_string_not_equal(past_of(s, &a, "z", t + SETTLE + 1), "?");
    settle_close(s, BEGIN + 2 * SETTLE);
    arena_release(&a);
}

int main(void)
{
    dir_new(dir);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_matters_until_the_time_after_its_last_use),
        cmocka_unit_test(a_restart_forgets_no_list),
        cmocka_unit_test(a_kill_does_not_forget_the_list_in_use),
        cmocka_unit_test(weights_are_a_part_of_a_list),
        cmocka_unit_test(a_file_that_cannot_be_read_is_as_good_as_none),
        cmocka_unit_test(too_many_changes_are_unknown_until_they_are_past),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dir_remove(dir);
    return failed;
}
