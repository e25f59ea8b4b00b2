// SPDX-License-Identifier: Apache-2.0
#include "base/ulid.h"
#include "lib/test.h"
#include "querier/head/missed.h"
#include "sys/clock.h"

static struct missed_table table;

static int set_up(void **state)
{
    (void)state;
    missed_init(&table);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    missed_release(&table);
    missed_release(&table);
    return 0;
}

// A ULID of that time.
static id128 at(uint64_t ms, uint8_t n)
{
    return ulid_make(ms, (uint8_t[10]){n});
}

static int64_t ns(int64_t ms)
{
    return ms * NS_PER_MS;
}

// With another data directory a node cannot answer for what is in the former one.
static void a_newer_data_directory_tells_since_when(void **state)
{
    (void)state;
    struct registered_stream v[] = {
        {.stream = at(1000, 1), .node = S("a"), .directory = at(500, 1)},
        {.stream = at(2000, 2), .node = S("b"), .directory = at(1500, 2)},
        {.stream = at(5000, 3), .node = S("a"), .directory = at(4000, 3)},
        {.stream = at(7000, 4), .node = S("a"), .directory = at(6000, 4)},
        {.stream = at(8000, 5), .node = {0}, .directory = at(6000, 5)},
    };
    const struct registered list = {.v = v, .n = COUNT(v)};
    static const int64_t want[] = {4000, 9000, 6000, 9000, 9000};
    for (size_t i = 0; i < COUNT(v); i++) {
        int64_t since = 0;
        assert_non_null(missed_note(&table, &list, &v[i], ns(9000), &since));
        if (since != ns(want[i])) fail_msg("stream %zu: %lld", i, (long long)since);
    }
    // A clock that was wrong tells of a time to come.
    struct registered_stream far = {.stream = at(1, 9), .node = S("a"), .directory = at(1, 9)};
    int64_t since = 0;
    v[2].directory = v[3].directory = at(UINT64_C(0xffffffffffff), 3);
    v[0].directory = far.directory;
    assert_non_null(missed_note(&table, &list, &far, ns(9000), &since));
    assert_int_equal(since, ns(9000));
}

static void the_table_has_an_end(void **state)
{
    (void)state;
    const struct registered list = {0};
    int64_t since = 0;
    for (size_t i = 0; i <= MISSED_MAX; i++) {
        const struct registered_stream o = {.stream = at(i + 1, 0)};
        const struct missed *m = missed_note(&table, &list, &o, ns(5), &since);
        assert_true((m != NULL) == (i < MISSED_MAX) && since == ns(5));
    }
    missed_prune(&table, &list);
    assert_int_equal(table.n, 0);
}

static void print(struct buf *out)
{
    buf_init(out, NULL, 1 << 20);
    missed_print(&table, out);
}

static void a_file_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct registered list = {0};
    int64_t since = 0;
    struct buf text;
    for (uint8_t i = 1; i <= 3; i++) {
        const struct registered_stream o = {.stream = at(i, i)};
        struct missed *m = missed_note(&table, &list, &o, ns(1000 + i), &since);
        m->waited = m->lost = true;
    }
    assert_true(table.changed);
    print(&text);
    assert_false(table.changed);
    for (size_t n = 0; n <= text.n; n++) {
        struct missed_table again;
        missed_init(&again);
        missed_parse(&again, str_make(tail_guard(text.p, n), n));
        assert_true(again.n <= 3 && (n < text.n || again.n == 3));
        for (size_t i = 0; i < again.n; i++) {
            const struct missed *m = &again.v[i];
            assert_true(id128_eq(m->stream, at(i + 1, (uint8_t)(i + 1))));
            // The last line may be cut within its number.
            if (i + 1 < again.n) assert_int_equal(m->since_wall_ns, ns(1001 + (int64_t)i));
            assert_false(m->waited || m->lost);
        }
        missed_release(&again);
    }
    buf_release(&text);
}

static void what_cannot_be_read_is_passed_over(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "flametree missed streams 2\n00000000000000000000000001 5\n",
        "flametree missed streams 1\n00000000000000000000000001\n",
        "flametree missed streams 1\n00000000000000000000000001 -5\n",
        "flametree missed streams 1\n00000000000000000000000001 9999999999999999\n",
        "flametree missed streams 1\n00000000000000000000000001 999999999999999\n",
        "flametree missed streams 1\nx 5\n\n \n",
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        missed_parse(&table, str_of(rows[i]));
        if (table.n) fail_msg("%s", rows[i]);
    }
    missed_parse(&table, S("flametree missed streams 1\nx 5\n00000000000000000000000001 5\n"
                           "00000000000000000000000001 6\n"));
    assert_true(table.n == 1 && table.v[0].since_wall_ns == ns(5));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_newer_data_directory_tells_since_when),
        CASE(the_table_has_an_end),
        CASE(a_file_is_read_as_it_was_written),
        CASE(what_cannot_be_read_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
