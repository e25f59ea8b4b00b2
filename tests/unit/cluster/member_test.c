// SPDX-License-Identifier: Apache-2.0
#include "cluster/member.h"
#include "lib/clock.h"
#include "lib/test.h"
#include "sys/metric.h"

static void members_are_listed_by_kind_in_order_of_id(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S(" b = 10.0.0.2:4041 "), e));
    assert_ok(members_add(m, MEMBER_QUERIER, S("q=10.0.0.9:4041"), e));
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=unix:/run/a.sock"), e));
    assert_ok(members_add(m, MEMBER_INGESTER, S("10.0.0.1:4041"), e));
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    size_t n = 0;
    struct member *v = members_of(m, &a, MEMBER_INGESTER, &n);
    assert_int_equal(n, 3);
    assert_true(str_is(v[0].id, "10.0.0.1:4041"));
    assert_true(str_is(v[0].address, "10.0.0.1:4041"));
    assert_true(str_is(v[1].id, "a"));
    assert_true(str_is(v[1].address, "unix:/run/a.sock"));
    assert_true(str_is(v[2].id, "b"));
    assert_true(str_is(v[2].address, "10.0.0.2:4041"));
    assert_true(v[0].alive && v[1].alive && v[2].alive);
    assert_null(members_of(m, &a, MEMBER_COMPACTOR, &n));
    assert_int_equal(n, 0);
    arena_release(&a);
    members_free(m);
}

static bool alive(struct members *m)
{
    struct arena a;
    arena_init(&a, NULL, 4096);
    size_t n = 0;
    struct member *v = members_of(m, &a, MEMBER_INGESTER, &n);
    bool is = v && v[0].alive;
    arena_release(&a);
    return is;
}

// "id=address" of each ingester, with a "-" in front of those that seem dead.
static str listed(struct members *m, struct arena *a)
{
    size_t n = 0;
    str text = {0};
    const struct member *v = members_of(m, a, MEMBER_INGESTER, &n);
    for (size_t i = 0; i < n; i++)
        text = arena_printf(a, "%.*s%s%s%.*s=%.*s", STR(text), i ? " " : "", v[i].alive ? "" : "-",
                            STR(v[i].id), STR(v[i].address));
    return text;
}

#define EXPECT_LISTED(m, a, text)                                                \
    do {                                                                         \
        assert_string_equal(arena_printf(a, "%.*s", STR(listed(m, a))).p, text); \
    } while (0)

static void a_print_is_that_of_the_ids(void **state)
{
    (void)state;
    const struct member ab[] = {{.id = S("a"), .address = S("h:1"), .alive = true}, {.id = S("b")}};
    const struct member moved[] = {{.id = S("a"), .address = S("h:2")}, {.id = S("b")}};
    const struct member other[] = {{.id = S("ab")}};
    assert_true(members_print(ab, 2) == members_print(moved, 2));
    assert_true(members_print(ab, 2) != members_print(ab, 1));
    assert_true(members_print(ab, 2) != members_print(other, 1));
    assert_true(members_print(NULL, 0) != 0);
}

static str weights(struct members *m, struct arena *a)
{
    size_t n = 0;
    str text = {0};
    const struct member *v = members_of(m, a, MEMBER_INGESTER, &n);
    for (size_t i = 0; i < n; i++)
        text = arena_printf(a, "%.*s%s%u", STR(text), i ? " " : "", v[i].weight);
    return text;
}

#define EXPECT_WEIGHTS(m, a, text)                                                \
    do {                                                                          \
        assert_string_equal(arena_printf(a, "%.*s", STR(weights(m, a))).p, text); \
    } while (0)

static void a_list_that_is_read_again_keeps_what_is_known(void **state)
{
    (void)state;
    const str first[] = {S_INIT("a=h:1"), S_INIT("b=h:2"), S_INIT("c=h:3")};
    const str second[] = {S_INIT("d=h:4"), S_INIT("b=h:2"), S_INIT("a=h:9")};
    const str twice[] = {S_INIT("x=h:1"), S_INIT("x=h:2")};
    struct members *m = NULL;
    struct arena a;
    err why = {0};
    arena_init(&a, NULL, 1 << 16);
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_QUERIER, S("q=h:7"), e));
    assert_ok(members_list(m, MEMBER_INGESTER, first, 3, e));
    for (int i = 0; i < MEMBER_FAILURES_MAX; i++) {
        members_failed(m, MEMBER_INGESTER, S("a"), S("no"));
        members_failed(m, MEMBER_INGESTER, S("b"), S("no"));
    }
    EXPECT_LISTED(m, &a, "-a=h:1 -b=h:2 c=h:3");
    const struct node_answer heavy = {.weight = 300};
    members_weigh(m, S("h:1"), 200);
    members_seen(m, MEMBER_INGESTER, S("c"), clock_mono_ns(), &heavy);
    EXPECT_WEIGHTS(m, &a, "200 0 300");
    assert_false(members_list(m, MEMBER_INGESTER, twice, 2, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    EXPECT_LISTED(m, &a, "-a=h:1 -b=h:2 c=h:3");
    // a is elsewhere now, so nothing is held against it; of b nothing is new.
    assert_ok(members_list(m, MEMBER_INGESTER, second, 3, e));
    EXPECT_LISTED(m, &a, "a=h:9 -b=h:2 d=h:4");
    // It is the same node, and its weight a part of the list that distributors agree on.
    EXPECT_WEIGHTS(m, &a, "200 0 0");
    assert_ok(members_list(m, MEMBER_INGESTER, NULL, 0, e));
    EXPECT_LISTED(m, &a, "");
    assert_true(members_has(m, MEMBER_QUERIER));
    arena_release(&a);
    members_free(m);
}

static bool found_at(struct members *m, enum member_kind kind, str id, str address, err *e)
{
    const struct node_answer answer = {.node.node = id, .weight = 250};
    return members_found(m, kind, &answer, address, e);
}

static void nodes_found_by_name_come_move_and_go(void **state)
{
    (void)state;
    const str list[] = {S_INIT("a=h:1")};
    const str kept[] = {S_INIT("10.0.0.2:1"), S_INIT("10.0.0.9:1")};
    struct members *m = NULL;
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_list(m, MEMBER_INGESTER, list, 1, e));
    assert_ok(found_at(m, MEMBER_INGESTER, S("b"), S("10.0.0.1:1"), e));
    assert_ok(found_at(m, MEMBER_INGESTER, S("c"), S("10.0.0.2:1"), e));
    assert_ok(found_at(m, MEMBER_INGESTER, S("a"), S("10.0.0.3:1"), e));  // the list wins
    EXPECT_LISTED(m, &a, "a=h:1 b=10.0.0.1:1 c=10.0.0.2:1");
    EXPECT_WEIGHTS(m, &a, "0 250 250");
    members_weigh(m, S("h:1"), 70);  // this process
    EXPECT_WEIGHTS(m, &a, "70 250 250");
    assert_true(members_has_found(m, MEMBER_INGESTER, S("10.0.0.2:1")));
    assert_false(members_has_found(m, MEMBER_INGESTER, S("h:1")));
    assert_false(members_has_found(m, MEMBER_QUERIER, S("10.0.0.2:1")));
    for (int i = 0; i < MEMBER_FAILURES_MAX; i++)
        members_failed(m, MEMBER_INGESTER, S("c"), S("no"));
    EXPECT_LISTED(m, &a, "a=h:1 b=10.0.0.1:1 -c=10.0.0.2:1");
    assert_ok(found_at(m, MEMBER_INGESTER, S("c"), S("10.0.0.9:1"), e));
    EXPECT_LISTED(m, &a, "a=h:1 b=10.0.0.1:1 c=10.0.0.9:1");
    members_keep_found(m, MEMBER_INGESTER, kept, 2);
    EXPECT_LISTED(m, &a, "a=h:1 c=10.0.0.9:1");
    members_moved(m, MEMBER_INGESTER, S("a"));  // of the list
    members_moved(m, MEMBER_INGESTER, S("c"));
    EXPECT_LISTED(m, &a, "a=h:1");
    // A node that was found stays when the list is read again, until the list has its id.
    assert_ok(found_at(m, MEMBER_INGESTER, S("d"), S("10.0.0.4:1"), e));
    assert_ok(members_list(m, MEMBER_INGESTER, NULL, 0, e));
    EXPECT_LISTED(m, &a, "d=10.0.0.4:1");
    const str as_found[] = {S_INIT("d=10.0.0.4:1")};
    assert_ok(members_list(m, MEMBER_INGESTER, as_found, 1, e));
    members_keep_found(m, MEMBER_INGESTER, NULL, 0);
    EXPECT_LISTED(m, &a, "d=10.0.0.4:1");
    arena_release(&a);
    members_free(m);
}

static void three_failures_in_a_row_make_a_member_seem_dead(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    static const struct {
        bool answered;
        bool alive;
    } steps[] = {{false, true},  {false, true},  {true, true}, {false, true}, {false, true},
                 {false, false}, {false, false}, {true, true}, {false, true}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        if (steps[i].answered)
            members_heard(m, MEMBER_INGESTER, S("a"), clock_mono_ns());
        else
            members_failed(m, MEMBER_INGESTER, S("a"), S("refused"));
        members_failed(m, MEMBER_INGESTER, S("nobody"), S("refused"));
        members_failed(m, MEMBER_QUERIER, S("a"), S("refused"));
        if (alive(m) != steps[i].alive) fail_msg("step %zu", i);
    }
    members_free(m);
}

// Silence takes time, and a probe that failed: a slow answer of a member that lives is waited for.
static void only_a_silent_member_is_given_up(void **state)
{
    (void)state;
    const enum member_kind kind = MEMBER_INGESTER;
    const str id = S("a");
    const uint64_t patience = MEMBER_SILENCE_NS;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, kind, S("a=x:1"), e));
    uint64_t call = clock_mono_ns();
    clock_pass_mono(20 * NS_PER_S);
    assert_false(members_is_silent(m, kind, id, call, patience));  // no probe failed

    call = clock_mono_ns();
    members_probe_failed(m, kind, id, S("late"));
    clock_pass_mono(NS_PER_S);
    assert_false(members_is_silent(m, kind, id, call, patience));  // too early
    members_heard(m, kind, id, clock_mono_ns());
    members_probe_failed(m, kind, id, S("late"));
    clock_pass_mono(2 * NS_PER_S);
    assert_false(members_is_silent(m, kind, id, call, patience));  // it answered meanwhile
    assert_true(alive(m));
    clock_pass_mono(NS_PER_S);
    assert_true(members_is_silent(m, kind, id, call, patience));  // and then no more
    assert_false(alive(m));

    members_heard(m, kind, id, clock_mono_ns());
    members_probe_failed(m, kind, id, S("late"));
    call = clock_mono_ns();
    clock_pass_mono(2 * NS_PER_S);
    assert_true(members_is_silent(m, kind, id, call, patience / 2));
    assert_true(alive(m));  // a caller without patience is not believed
    clock_pass_mono(NS_PER_S);
    assert_true(members_is_silent(m, kind, id, call, patience));
    assert_false(alive(m));

    call = clock_mono_ns();
    assert_false(members_is_silent(m, kind, id, call, patience));  // it may have come back
    clock_pass_mono(NS_PER_S);
    assert_true(members_is_silent(m, kind, id, call, patience));
    struct node_answer answer = {.ready = true};
    members_seen(m, kind, id, clock_mono_ns(), &answer);
    assert_true(alive(m));
    assert_false(members_is_silent(m, kind, id, call, patience));
    members_free(m);
}

// A push waits for all its ingesters before it tells who answered: one may have frozen meanwhile.
static void an_answer_that_is_told_late_does_not_hide_the_silence_after_it(void **state)
{
    (void)state;
    const enum member_kind kind = MEMBER_INGESTER;
    const str id = S("a");
    const uint64_t patience = MEMBER_SILENCE_NS;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, kind, S("a=x:1"), e));
    uint64_t call = clock_mono_ns();
    uint64_t answered = call;
    clock_pass_mono(2 * NS_PER_S);
    members_probe_failed(m, kind, id, S("late"));
    members_heard(m, kind, id, answered);
    clock_pass_mono(NS_PER_S);
    assert_true(members_is_silent(m, kind, id, call, patience));
    assert_false(alive(m));
    members_heard(m, kind, id, answered);
    assert_false(alive(m));
    members_heard(m, kind, id, clock_mono_ns());
    assert_true(alive(m));
    members_free(m);
}

static struct member_facts facts(struct members *m, struct arena *a)
{
    size_t n = 0;
    const struct member_facts *v = members_facts(m, a, &n);
    assert_int_equal(n, 1);
    return v[0];
}

static void what_is_known_of_a_member_is_told(void **state)
{
    (void)state;
    const enum member_kind kind = MEMBER_INGESTER;
    const str id = S("a");
    struct arena a;
    struct members *m = NULL;
    size_t n = 1;
    arena_init(&a, NULL, 1 << 16);
    assert_ok((m = members_new(e)) != NULL);
    assert_null(members_facts(m, &a, &n));
    assert_int_equal(n, 0);
    uint64_t begin = clock_mono_ns();
    assert_ok(found_at(m, kind, id, S("x:1"), e));
    struct member_facts f = facts(m, &a);
    assert_true(f.found && f.member.alive && f.since_mono_ns >= begin);
    assert_true(!f.heard_mono_ns && !f.failed_mono_ns && !f.answered_mono_ns && !f.why.n);

    struct node_answer answer = {.node = {.services = {S_INIT("ingester"), S_INIT("querier")},
                                          .service_count = 2,
                                          .boot.b = {7}},
                                 .load = 0.5,
                                 .ready = true,
                                 .version = S("1.2.3")};
    clock_pass_mono(NS_PER_S);
    uint64_t heard = clock_mono_ns();
    members_seen(m, kind, id, heard, &answer);
    f = facts(m, &a);
    assert_true(f.answered_mono_ns == heard && f.heard_mono_ns == heard && f.load == 0.5);
    assert_true(f.since_mono_ns < heard);
    assert_true(str_is(f.version, "1.2.3") && str_is(f.services, "ingester querier"));
    assert_true(id128_eq(f.boot, answer.node.boot));

    answer.ready = false;
    members_seen(m, kind, id, heard, &answer);
    f = facts(m, &a);
    assert_true(f.member.unready && f.since_mono_ns == heard);

    // Dead, for a reason and since a time; what it answered last stays.
    clock_pass_mono(NS_PER_S);
    for (int i = 0; i < MEMBER_FAILURES_MAX; i++)
        members_probe_failed(m, kind, id, i ? S("gone") : S("slow"));
    f = facts(m, &a);
    assert_true(!f.member.alive && str_is(f.why, "gone") && f.since_mono_ns > heard);
    assert_int_equal(f.failures, MEMBER_FAILURES_MAX);
    assert_true(f.failed_mono_ns > heard && str_is(f.version, "1.2.3"));

    // Alive again: the reason of before is still told, with its time.
    clock_pass_mono(NS_PER_S);
    members_heard(m, kind, id, clock_mono_ns());
    struct member_facts back = facts(m, &a);
    assert_true(back.member.alive && back.since_mono_ns > f.since_mono_ns && back.failures == 0);
    assert_true(str_is(back.why, "gone") && back.failed_mono_ns == f.failed_mono_ns);
    arena_release(&a);
    members_free(m);
}

// This node's own list and those that living members tell, each once.
static void lists_of_members_are_compared(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_int_equal(members_list_print(m), 0);
    assert_int_equal(members_lists(m), 0);
    assert_ok(members_add(m, MEMBER_QUERIER, S("q=x:9"), e));
    assert_int_equal(members_lists(m), 0);
    assert_ok(members_add(m, MEMBER_INGESTER, S("b=x:2"), e));
    uint64_t one = members_list_print(m);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    uint64_t two = members_list_print(m);
    assert_true(one && two && one != two);
    assert_int_equal(members_lists(m), 1);

    struct node_answer answer = {.ready = true, .list = two};
    members_seen(m, MEMBER_INGESTER, S("a"), clock_mono_ns(), &answer);
    assert_int_equal(members_lists(m), 1);
    answer.list = one;
    members_seen(m, MEMBER_INGESTER, S("b"), clock_mono_ns(), &answer);
    assert_int_equal(members_lists(m), 2);
    members_seen(m, MEMBER_QUERIER, S("q"), clock_mono_ns(), &answer);
    assert_int_equal(members_lists(m), 2);
    answer.list = 0;  // of an older version
    members_seen(m, MEMBER_QUERIER, S("q"), clock_mono_ns(), &answer);
    assert_int_equal(members_lists(m), 2);
    for (int i = 0; i < MEMBER_FAILURES_MAX; i++)
        members_probe_failed(m, MEMBER_INGESTER, S("b"), S("gone"));
    assert_int_equal(members_lists(m), 1);

    // A weight is part of the list.
    members_weigh(m, S("x:1"), 500);
    assert_int_not_equal(members_list_print(m), two);
    assert_int_equal(members_lists(m), 2);
    members_free(m);
}

static void long_texts_of_others_are_cut(void **state)
{
    (void)state;
    static char text[1000];
    struct arena a;
    struct members *m = NULL;
    struct node_answer answer = {.version = str_make(text, sizeof text)};
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < NODE_SERVICES_MAX; i++)
        answer.node.services[answer.node.service_count++] = str_make(text, 60);
    arena_init(&a, NULL, 1 << 16);
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    members_seen(m, MEMBER_INGESTER, S("a"), clock_mono_ns(), &answer);
    members_failed(m, MEMBER_INGESTER, S("a"), str_make(text, sizeof text));
    const struct member_facts f = facts(m, &a);
    assert_in_range(f.version.n, 20, 100);
    assert_in_range(f.services.n, 100, 200);
    assert_in_range(f.why.n, 100, 300);
    arena_release(&a);
    members_free(m);
}

static void each_member_shows_in_the_metrics(void **state)
{
    (void)state;
    struct members *m = NULL;
    struct buf out;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("here=x:1"), e));
    assert_ok(members_add(m, MEMBER_INGESTER, S("gone=x:2"), e));
    for (int i = 0; i < MEMBER_FAILURES_MAX; i++)
        members_failed(m, MEMBER_INGESTER, S("gone"), S("refused"));
    buf_init(&out, NULL, 1 << 20);
    metric_print(&out);
    static const char *const lines[] = {
        "flametree_cluster_member_alive{kind=\"ingester\",member=\"here\"} 1\n",
        "flametree_cluster_member_alive{kind=\"ingester\",member=\"gone\"} 0\n",
        "flametree_cluster_failed_calls_total{kind=\"ingester\",member=\"gone\"} 3\n",
        "flametree_cluster_member_deaths_total{kind=\"ingester\",member=\"gone\"} 1\n",
        "flametree_cluster_members{state=\"alive\"} 1\n",
        "flametree_cluster_members{state=\"dead\"} 1\n",
    };
    for (size_t i = 0; i < COUNT(lines); i++) {
        if (!str_contains(buf_view(&out), str_of(lines[i]))) fail_msg("%s is missing", lines[i]);
    }
    buf_release(&out);
    members_free(m);
}

static void wrong_entries_are_refused(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    static const char *const cases[] = {"", " ", "=", "b=", "=x:1", "a=y:2"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        err fault = {0};
        assert_false(members_add(m, MEMBER_INGESTER, str_of(cases[i]), &fault));
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    }
    assert_ok(members_add(m, MEMBER_QUERIER, S("a=x:1"), e));  // another kind may use the id
    members_free(m);
}

static void nothing_is_returned_from_an_exhausted_arena(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    for (size_t cap = 0; cap < 112; cap += 16) {
        struct arena a;
        arena_init(&a, NULL, cap);
        size_t n = 9;
        if (!members_of(m, &a, MEMBER_INGESTER, &n)) assert_int_equal(n, 0);
        arena_release(&a);
    }
    members_free(m);
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_listed_by_kind_in_order_of_id),
        cmocka_unit_test(a_list_that_is_read_again_keeps_what_is_known),
        cmocka_unit_test(a_print_is_that_of_the_ids),
        cmocka_unit_test(nodes_found_by_name_come_move_and_go),
        cmocka_unit_test(three_failures_in_a_row_make_a_member_seem_dead),
        cmocka_unit_test(only_a_silent_member_is_given_up),
        cmocka_unit_test(an_answer_that_is_told_late_does_not_hide_the_silence_after_it),
        cmocka_unit_test(what_is_known_of_a_member_is_told),
        cmocka_unit_test(long_texts_of_others_are_cut),
        cmocka_unit_test(each_member_shows_in_the_metrics),
        cmocka_unit_test(lists_of_members_are_compared),
        cmocka_unit_test(wrong_entries_are_refused),
        cmocka_unit_test(nothing_is_returned_from_an_exhausted_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
