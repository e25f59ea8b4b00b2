// SPDX-License-Identifier: Apache-2.0
#include "codec/pb.h"
#include "lib/arena.h"
#include "querier/head/fetch.h"
#include "unit/querier/heads.h"

// An answer of stream `id` whose Partial says `profiles`, so that the chosen one can be told.
struct said {
    uint8_t id;
    const char *owner;
    bool held;  // only reported
    bool incomplete;
    uint64_t profiles;
};

static struct head_reply reply(const char *member, const struct said *said, size_t n)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 16);
    for (size_t i = 0; i < n; i++) {
        if (said[i].held) {
            head_put_stream(&out, 2, said[i].id, said[i].owner);
            continue;
        }
        size_t mark = pb_begin(&out, 1);
        head_put_stream(&out, 1, said[i].id, said[i].owner);
        pb_put_u64_opt(&out, 2, !said[i].incomplete);
        size_t partial = pb_begin(&out, 4);
        pb_put_u64_opt(&out, 3, said[i].profiles);
        pb_end(&out, partial);
        pb_end(&out, mark);
    }
    struct head_reply r = {.member = str_of(member), .bytes = arena_str(&arena, buf_view(&out))};
    buf_release(&out);
    return r;
}

static uint64_t profiles_of(const struct fetched *f)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < f->partial_count; i++) {
        struct pb_reader r = pb_reader(f->partials[i]);
        while (pb_next(&r))
            sum += r.field == 3 ? r.number : 0;
    }
    return sum;
}

struct pair {
    const char *name;
    struct said one[3];
    struct said two[3];
    uint64_t profiles;
    const char *missing;
};

static void choose_of_two(const struct pair *p, bool swap)
{
    size_t n = 0;
    size_t m = 0;
    while (n < 3 && p->one[n].id)
        n++;
    while (m < 3 && p->two[m].id)
        m++;
    struct head_reply v[2];
    v[swap] = reply("one", p->one, n);
    v[!swap] = reply("two", p->two, m);
    struct fetched f = {0};
    assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 2}, &f, e));
    if (profiles_of(&f) != p->profiles) fail_msg("%s: partials", p->name);
    str missing = fetch_missing(&arena, &f);
    if (!str_is(missing, p->missing)) fail_msg("%s: missing %.*s", p->name, STR(missing));
}

static void one_answer_of_each_stream_counts(void **state)
{
    (void)state;
    static const struct pair rows[] = {
        {"two streams", {{1, "one", false, false, 10}}, {{2, "two", false, false, 5}}, 15, ""},
        {"old and new stream of one owner",
         {{1, "one", false, false, 10}, {3, "one", false, false, 20}},
         {{2, "two", false, false, 5}},
         35,
         ""},
        {"held by a backup, answered by its owner",
         {{1, "one", false, false, 10}},
         {{1, "one", true, false, 0}, {2, "two", false, false, 5}},
         15,
         ""},
        {"adopted: the complete answer counts",
         {{1, "one", false, true, 7}},
         {{1, "one", false, false, 10}},
         10,
         ""},
        {"both complete: the owner's counts",
         {{1, "two", false, false, 7}},
         {{1, "two", false, false, 10}},
         10,
         ""},
        {"held, answered by nobody",
         {{1, "one", false, false, 10}},
         {{9, "gone", true, false, 0}},
         10,
         "stream 00000000000000000000000009"},
        {"recovering", {{1, "one", false, true, 7}}, {{0}}, 7, "stream 00000000000000000000000001"},
        {"nothing to serve", {{0}}, {{0}}, 0, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        choose_of_two(&rows[i], false);
        choose_of_two(&rows[i], true);
    }
}

static void the_silent_are_named(void **state)
{
    (void)state;
    static const err down = {ERR_UNAVAILABLE, "connection refused"};
    static const struct said said[] = {{1, "one", false, false, 10}, {2, "two", true, false, 0}};
    struct head_reply v[] = {reply("one", said, 2), {.member = S("two"), .fault = &down}};
    struct fetched f = {0};
    assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 2}, &f, e));
    // The stream that one holds for two is named by its owner.
    assert_true(str_is(fetch_missing(&arena, &f), "two"));
    err fault = {0};
    assert_false(fetch_verdict(&arena, &f, FETCH_MARKED, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    assert_string_equal(fault.msg,
                        "the answer would be incomplete, missing: two (connection refused)");
    assert_ok(fetch_verdict(&arena, &f, FETCH_ANY, e));
}

static void a_partial_answer_needs_a_part(void **state)
{
    (void)state;
    static const err down = {ERR_UNAVAILABLE, "connection refused"};
    struct head_reply v[] = {{.member = S("one"), .fault = &down}};
    struct fetched f = {0};
    assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 1}, &f, e));
    err fault = {0};
    assert_false(fetch_verdict(&arena, &f, FETCH_ANY, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
}

static void codes_that_tell_something_are_kept(void **state)
{
    (void)state;
    static const struct {
        enum err_code code;
        enum err_code wanted;
    } rows[] = {
        {ERR_UNAVAILABLE, ERR_UNAVAILABLE},
        {ERR_INTERNAL, ERR_UNAVAILABLE},
        {ERR_UNKNOWN, ERR_UNAVAILABLE},
        {ERR_RESOURCE_EXHAUSTED, ERR_RESOURCE_EXHAUSTED},
        {ERR_OUT_OF_RANGE, ERR_OUT_OF_RANGE},
        {ERR_INVALID_ARGUMENT, ERR_INVALID_ARGUMENT},
        {ERR_DEADLINE_EXCEEDED, ERR_DEADLINE_EXCEEDED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const err why = {rows[i].code, "because"};
        struct head_reply v[] = {{.member = S("one"), .fault = &why}};
        struct fetched f = {0};
        assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 1}, &f, e));
        err fault = {0};
        assert_false(fetch_verdict(&arena, &f, FETCH_MARKED, &fault));
        assert_int_equal(fault.code, rows[i].wanted);
    }
}

static void damaged_replies_count_as_missing(void **state)
{
    (void)state;
    static const struct said said[] = {{1, "one", false, false, 10}, {2, "two", true, false, 0}};
    struct head_reply whole = reply("one", said, 2);
    for (size_t n = 0; n < whole.bytes.n; n++) {
        const uint8_t *cut = tail_guard(whole.bytes.p, n);
        struct head_reply v[] = {{.member = S("one"), .bytes = str_make(cut, n)}};
        struct fetched f = {0};
        assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 1}, &f, e));
        assert_true(f.partial_count <= 1);
        if (f.partial_count == 0 && n > 0) assert_true(f.missing_count > 0);
    }
}

// A reply that says who answers and whom he was told of.
static struct head_reply reply_of(const char *member, const struct said *said, const char *node,
                                  const char *const *known)
{
    struct head_reply r = reply(member, said, 1);
    struct buf out;
    buf_init(&out, NULL, 1 << 16);
    buf_str(&out, r.bytes);
    pb_put_bytes(&out, 14, str_of(node));
    for (size_t i = 0; known[i]; i++)
        pb_put_bytes(&out, 15, str_of(known[i]));
    r.bytes = arena_str(&arena, buf_view(&out));
    buf_release(&out);
    return r;
}

// What may be lost for good: the answer is given, and says so.
static void a_lost_data_directory_marks_and_refuses_nothing(void **state)
{
    (void)state;
    static const struct said said = {1, "one", false, false, 10};
    static const err away = {ERR_UNAVAILABLE, "away"};
    struct head_reply one = reply("one", &said, 1);
    struct buf out;
    buf_init(&out, NULL, 1 << 16);
    buf_str(&out, one.bytes);
    pb_put_bytes(&out, 17, S("one: data directory 01J of then is gone"));
    pb_put_bytes(&out, 17, S("one: data directory 01J of then is gone"));
    one.bytes = arena_str(&arena, buf_view(&out));
    buf_release(&out);
    for (size_t n = 1; n <= 2; n++) {
        struct head_reply v[] = {one, {.member = S("two"), .fault = &away}};
        struct fetched f = {0};
        err fault = {0};
        assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = n}, &f, e));
        assert_int_equal(f.missing_count, n);
        assert_int_equal(fetch_lacking(&f), n - 1);
        assert_true(str_contains(fetch_missing(&arena, &f), S("one: data directory 01J")));
        assert_int_equal(fetch_verdict(&arena, &f, FETCH_MARKED, &fault), n == 1);
        assert_string_equal(f.why.msg, n == 1 ? "" : "away");
        // A request for a whole answer or none gets none, and the reason.
        assert_false(fetch_verdict(&arena, &f, FETCH_EXACT, &fault));
        assert_int_equal(fault.code, ERR_UNAVAILABLE);
        assert_non_null(strstr(fault.msg, n == 1 ? "(what was acknowledged there" : "(away)"));
    }
}

// A log that is damaged stays so: what there is of the stream is given, and the stream is named.
static void a_damaged_stream_marks(void **state)
{
    (void)state;
    static const struct said said[] = {{1, "one", false, true, 7}};
    struct head_reply v[] = {reply("one", said, 1)};
    struct fetched f = {0};
    err fault = {0};
    assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 1}, &f, e));
    assert_int_equal(profiles_of(&f), 7);
    assert_ok(fetch_verdict(&arena, &f, FETCH_MARKED, e));
    assert_ok(fetch_verdict(&arena, &f, FETCH_ANY, e));
    assert_false(fetch_verdict(&arena, &f, FETCH_EXACT, &fault));
    assert_string_equal(fault.msg,
                        "the answer would be incomplete, missing: stream "
                        "00000000000000000000000001 (ingester one has not recovered it yet)");
    assert_true(str_is(fetch_missing_first(&arena, &f), "stream 00000000000000000000000001"));
}

// An ingester that is away is a mark, and the answer says that it did not answer.
static void an_ingester_that_is_away_marks_by_its_name(void **state)
{
    (void)state;
    static const err down = {ERR_UNAVAILABLE, "connection refused"};
    static const err full = {ERR_RESOURCE_EXHAUSTED, "too large"};
    struct fetched f = {0};
    err fault = {0};
    assert_ok(fetch_mark(&arena, &f, S("two"), &down, e));
    assert_ok(fetch_mark(&arena, &f, S("two"), &down, e));
    assert_int_equal(f.marks, 1);
    assert_true(str_is(fetch_missing_first(&arena, &f), "two did not answer"));
    assert_false(fetch_refuses(&f, FETCH_MARKED) || fetch_refuses(&f, FETCH_ANY));
    assert_true(fetch_refuses(&f, FETCH_EXACT));
    assert_false(fetch_verdict(&arena, &f, FETCH_EXACT, &fault));
    assert_non_null(strstr(fault.msg, "missing: two (connection refused)"));
    // A missing name that is no mark refuses the answer, and its fault is the reason.
    assert_ok(fetch_miss(&arena, &f, S("three"), &full, e));
    assert_true(fetch_refuses(&f, FETCH_MARKED) && !fetch_refuses(&f, FETCH_ANY));
    assert_false(fetch_verdict(&arena, &f, FETCH_MARKED, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(fault.msg, "missing: two, three (too large)"));
}

static void member_lists_that_differ_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *node;   // that answers at the second member's address
        uint8_t stream;     // that it owns
        const char *known;  // to the first, besides itself
        const char *missing;
        const char *why;
    } rows[] = {
        {"the same lists", "two", 2, "two", "", ""},
        {"another name for a node", "host", 2, "two", "", ""},
        {"one that we were not told of", "two", 2, "three", "three",
         "one knows it, but it is not in this querier's cluster.ingesters"},
        {"two names for one node", "one", 1, "two", "two",
         "at its address in cluster.ingesters answers one, as at that of one"},
        {"two nodes of one name", "one", 2, "two", "", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *const first[] = {"one", rows[i].known, NULL};
        const char *const second[] = {NULL};
        const struct said one = {1, "one", false, false, 10};
        const struct said two = {rows[i].stream, rows[i].node, false, false, 5};
        struct head_reply v[] = {reply_of("one", &one, "one", first),
                                 reply_of("two", &two, rows[i].node, second)};
        struct fetched f = {0};
        assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 2}, &f, e));
        str missing = fetch_missing(&arena, &f);
        if (!str_is(missing, rows[i].missing)) fail_msg("%s: %.*s", rows[i].name, STR(missing));
        if (missing.n) assert_string_equal(f.why.msg, rows[i].why);
    }
}

// Field 19: a stream that is served; field 20: a directory that is lost.
static struct head_reply speaking(const char *member, uint8_t served, uint8_t lost)
{
    struct buf out;
    id128 id = {{served}};
    buf_init(&out, NULL, 1 << 16);
    pb_put_bytes(&out, 14, str_of(member));
    size_t mark = pb_begin(&out, 19);
    pb_put_bytes(&out, 1, str_make(id.b, sizeof id.b));
    pb_put_fixed64_opt(&out, 2, 7);
    pb_end(&out, mark);
    id = (id128){{lost}};
    if (lost) pb_put_bytes(&out, 20, str_make(id.b, sizeof id.b));
    struct head_reply r = {.member = str_of(member), .bytes = arena_str(&arena, buf_view(&out))};
    buf_release(&out);
    return r;
}

static void replies_say_which_streams_they_speak_for(void **state)
{
    (void)state;
    static const err down = {ERR_UNAVAILABLE, "down"};
    struct fetched f = {0};
    struct head_reply v[] = {speaking("two", 5, 0),
                             speaking("one", 3, 9),
                             {.member = S("gone"), .fault = &down, .unlisted = true}};
    const struct head_replies replies = {.v = v, .n = COUNT(v)};
    assert_false(fetch_serves(&f, (id128){{3}}));
    assert_ok(fetch_choose(&arena, &replies, &f, e));
    assert_int_equal(f.missing_count, 0);  // whoever is in no list may be gone for good
    static const uint8_t known[] = {3, 5, 9};
    for (uint8_t i = 0; i < 12; i++) {
        bool want = memchr(known, i, sizeof known) != NULL;
        if (fetch_serves(&f, (id128){{i}}) != want) fail_msg("%d", i);
    }
    const struct head_replies fewer = {.v = v, .n = 1};
    assert_ok(fetch_choose(&arena, &fewer, &f, e));  // of the last replies
    assert_false(fetch_serves(&f, (id128){{3}}));
}

// Registered streams say whose rows are needed.
static void who_is_away_is_noted_if_streams_say_what_is_needed(void **state)
{
    (void)state;
    static const err down = {ERR_UNAVAILABLE, "down"};
    static const err no = {ERR_FAILED_PRECONDITION, "another cluster"};
    const char *const known[] = {"two", "three", NULL};
    const struct said one = {1, "one", false, false, 10};
    struct head_reply v[] = {
        reply_of("one", &one, "one", known),
        {.member = S("gone"), .address = S("h:1"), .fault = &down, .away = true},
        {.member = S("other"), .address = S("h:2"), .fault = &no}};
    struct fetched f = {0};
    for (int i = 0; i < 2; i++) {
        const struct head_replies replies = {.v = v, .n = COUNT(v), .registered = true};
        assert_ok(fetch_choose(&arena, &replies, &f, e));
        assert_int_equal(f.away_count, 1);
        assert_true(str_is(f.away[0].member, "gone") && str_is(f.away[0].address, "h:1"));
        assert_true(str_is(fetch_missing(&arena, &f), "other"));  // it lives, and refuses
    }
}

// At its old address nobody answers any more, or it answers at both: it is one node.
static void a_node_at_two_addresses_is_no_twin(void **state)
{
    (void)state;
    const char *const nobody[] = {NULL};
    const struct said own = {1, "one", false, false, 10};
    struct head_reply v[] = {reply_of("one", &own, "one", nobody),
                             reply_of("one", &own, "one", nobody)};
    v[1].unlisted = true;
    struct fetched f = {0};
    assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = 2}, &f, e));
    assert_int_equal(f.missing_count, 0);
    assert_int_equal(f.partial_count, 1);
}

static void long_lists_are_cut(void **state)
{
    (void)state;
    static const err down = {ERR_UNAVAILABLE, "gone"};
    struct head_reply v[20];
    for (size_t i = 0; i < COUNT(v); i++)
        v[i] = (struct head_reply){.member = arena_printf(&arena, "i%zu", i), .fault = &down};
    struct fetched f = {0};
    assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = COUNT(v)}, &f, e));
    assert_ok(fetch_choose(&arena, &(struct head_replies){.v = v, .n = COUNT(v)}, &f, e));
    assert_int_equal(f.missing_count, COUNT(v));
    str list = fetch_missing(&arena, &f);
    assert_true(str_starts(list, S("i0, i1, ")));
    assert_true(str_ends(list, S(", i15, and 4 more")));
    assert_true(str_is(fetch_missing_first(&arena, &f), "i0, and 19 more did not answer"));
}

static void names_of_objects_are_few_in_a_header(void **state)
{
    (void)state;
    static const err gone = {ERR_NOT_FOUND, "there is none"};
    static const char tail[] = "0000000000079641-0018/00000000-01HZZZZZZZZZZZZZZZZZZZZZZZ";
    struct fetched f = {0};
    str first = arena_printf(&arena, "v1/ab/acme/raw/%s%03d", tail, 0);
    for (int i = 0; i < 300; i++) {
        str name = arena_printf(&arena, "v1/ab/acme/raw/%s%03d", tail, i);
        assert_ok(fetch_miss(&arena, &f, name, &gone, e));
        if (i > 0) continue;
        str one = arena_printf(&arena, "%.*s could not be read", STR(first));
        assert_true(str_eq(fetch_missing_first(&arena, &f), one));
        assert_true(str_eq(fetch_missing(&arena, &f), first));
    }
    str list = fetch_missing(&arena, &f);
    assert_true(list.n < 500 && str_starts(list, first) && str_ends(list, S(" more")));
    str all = arena_printf(&arena, "%.*s, and 299 more could not be read", STR(first));
    assert_true(str_eq(fetch_missing_first(&arena, &f), all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(one_answer_of_each_stream_counts),
        ARENA_TEST(the_silent_are_named),
        ARENA_TEST(a_partial_answer_needs_a_part),
        ARENA_TEST(codes_that_tell_something_are_kept),
        ARENA_TEST(damaged_replies_count_as_missing),
        ARENA_TEST(a_lost_data_directory_marks_and_refuses_nothing),
        ARENA_TEST(a_damaged_stream_marks),
        ARENA_TEST(an_ingester_that_is_away_marks_by_its_name),
        ARENA_TEST(member_lists_that_differ_are_said),
        ARENA_TEST(replies_say_which_streams_they_speak_for),
        ARENA_TEST(who_is_away_is_noted_if_streams_say_what_is_needed),
        ARENA_TEST(a_node_at_two_addresses_is_no_twin),
        ARENA_TEST(long_lists_are_cut),
        ARENA_TEST(names_of_objects_are_few_in_a_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
