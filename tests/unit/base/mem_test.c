// SPDX-License-Identifier: Apache-2.0
//
// Budgets, arenas, growing buffers and the pieces that a thread keeps: what is counted, what is
// refused, and what a failed allocation leaves.
#include "base/arena.h"
#include "base/buf.h"
#include "lib/test.h"

static void a_budget_counts_against_its_parents(void **state)
{
    (void)state;
    struct mem_budget process;
    struct mem_budget head;
    mem_budget_init(&process, "process", NULL, 1000);
    mem_budget_init(&head, "head", &process, 0);
    err why = {0};
    assert_ok(mem_reserve(&head, 900, e));
    assert_int_equal(process.used, 900);
    assert_false(mem_reserve(&head, 101, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    assert_string_equal(why.msg,
                        "memory budget process: 101 bytes more do not fit, 900 of 1000 are in use");
    assert_int_equal(head.used, 900);  // all or nothing
    assert_int_equal(process.used, 900);
    assert_int_equal(process.refused, 1);
    assert_false(mem_reserve(&head, SIZE_MAX, &why));
    mem_unreserve(&head, 900);
    assert_int_equal(head.used, 0);
    assert_int_equal(process.used, 0);
    assert_int_equal(process.peak, 900);
    assert_ok(mem_reserve(NULL, SIZE_MAX, e));
}

static void a_budget_leaves_room_to_others(void **state)
{
    (void)state;
    struct mem_budget process;
    struct mem_budget pushes;
    struct mem_budget queries;
    mem_budget_init(&process, "process", NULL, 1000);
    mem_budget_init(&pushes, "pushes", &process, 0);
    mem_budget_init(&queries, "queries", &process, 0);
    pushes.leaves = 100;
    err why = {0};
    assert_ptr_equal(mem_tightest(&pushes), &process);
    assert_false(mem_reserve(&pushes, 901, &why));
    assert_string_equal(why.msg, "memory budget process: 901 bytes more do not fit, 0 of 1000 are "
                                 "in use, 100 are left to others");
    assert_ok(mem_reserve(&pushes, 900, e));
    assert_false(mem_reserve(&pushes, 1, &why));
    assert_ok(mem_reserve(&queries, 100, e));
    assert_false(mem_reserve(&queries, 1, &why));
    mem_unreserve(&queries, 100);
    mem_unreserve(&pushes, 900);
    assert_int_equal(process.used, 0);
}

// A budget with a share leaves nothing as long as it has no more than that.
static void a_budget_leaves_room_once_it_has_its_share(void **state)
{
    (void)state;
    struct mem_budget head;
    struct mem_budget one;
    struct mem_budget other;
    err why = {0};
    mem_budget_init(&head, "head", NULL, 1000);
    mem_budget_init(&one, "one", &head, 0);
    mem_budget_init(&other, "other", &head, 0);
    one.leaves = other.leaves = 200;
    one.share = other.share = 500;
    assert_ok(mem_reserve(&one, 800, e));  // beyond its share it takes what nobody uses,
    assert_int_equal(mem_room(&one), 0);
    assert_int_equal(mem_room(&other), 200);
    assert_int_equal(mem_room(NULL), SIZE_MAX);
    assert_false(mem_reserve(&one, 1, &why));
    assert_string_equal(why.msg, "memory budget head: 1 bytes more do not fit, 800 of 1000 are in "
                                 "use, 200 are left to others");
    assert_int_equal(one.used, 800);
    assert_ok(mem_reserve(&other, 200, e));  // but not what others may need
    assert_false(mem_reserve(&other, 1, &why));
    mem_unreserve(&one, 300);  // it has its share
    assert_ok(mem_reserve(&other, 300, e));
    assert_false(mem_reserve(&one, 1, &why));
    mem_unreserve(&other, 300);
    assert_int_equal(one.used, 500);
    assert_false(mem_reserve(&one, 101, &why));
    assert_ok(mem_reserve(&one, 100, e));
    one.share = 700;  // another setting counts at once
    assert_ok(mem_reserve(&one, 100, e));
    mem_unreserve(&one, 700);
    mem_unreserve(&other, 200);
    assert_int_equal(head.used, 0);
}

static void an_arena_moves_to_another_budget(void **state)
{
    (void)state;
    struct mem_budget process;
    struct mem_budget from;
    struct mem_budget to;
    struct mem_budget full;
    struct arena a;
    err why = {0};
    mem_budget_init(&process, "process", NULL, 100000);
    mem_budget_init(&from, "from", &process, 0);
    mem_budget_init(&to, "to", &process, 0);
    mem_budget_init(&full, "full", &process, 10);
    arena_init(&a, &from, 1 << 20);
    assert_non_null(arena_new(&a, 5000));
    assert_non_null(arena_new(&a, 5000));
    size_t held = from.used;
    arena_move(&a, &to);
    assert_int_equal(from.used, 0);
    assert_int_equal(to.used, held);
    assert_int_equal(process.used, held);
    assert_ok(arena_ok(&a, e));
    arena_move(&a, &full);
    assert_int_equal(to.used, held);
    assert_false(arena_ok(&a, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
    assert_int_equal(process.used, 0);
}

static void an_arena_keeps_what_was_put_aside(void **state)
{
    (void)state;
    struct mem_budget b;
    struct arena a;
    mem_budget_init(&b, "test", NULL, 20000);
    arena_init(&a, &b, 6000);
    assert_true(arena_spare(&a, 1000));
    assert_non_null(arena_new(&a, 5000));
    assert_null(arena_new(&a, 2000));  // at its cap
    assert_false(arena_ok(&a, &(err){0}));
    arena_use_spare(&a);
    assert_ok(arena_ok(&a, e));
    assert_non_null(arena_new(&a, 900));
    arena_use_spare(&a);  // once
    arena_release(&a);
    assert_int_equal(b.used, 0);
    arena_init(&a, &b, 60000);
    assert_true(arena_spare(&a, 1000));
    arena_release(&a);  // unused
    assert_int_equal(b.used, 0);
    arena_init(&a, &b, 60000);
    assert_false(arena_spare(&a, 30000));
    assert_false(arena_ok(&a, &(err){0}));
    arena_release(&a);
    arena_init(&a, &b, SIZE_MAX);
    assert_true(arena_spare(&a, 1000));
    arena_use_spare(&a);
    assert_non_null(arena_new(&a, 5000));  // without a cap there is none afterwards either
    arena_release(&a);
}

static void mem_resize_counts_the_difference_and_zeroes(void **state)
{
    (void)state;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 100);
    err e = {0};
    unsigned char *p = mem_alloc(&b, 10, &e);
    assert_non_null(p);
    memset(p, 0xff, 10);
    p = mem_resize(&b, p, 10, 60, &e);
    assert_non_null(p);
    assert_int_equal(b.used, 60);
    assert_int_equal(p[9], 0xff);
    for (int i = 10; i < 60; i++)
        assert_int_equal(p[i], 0);
    assert_null(mem_resize(&b, p, 60, 101, &e));
    assert_int_equal(p[9], 0xff);
    p = mem_resize(&b, p, 60, 5, &e);
    assert_int_equal(b.used, 5);
    mem_free(&b, p, 5);
    mem_free(&b, NULL, 5);
    assert_int_equal(b.used, 0);
}

static bool grow_two_arrays(void *arg, err *e)
{
    (void)arg;
    uint64_t *v = NULL;
    size_t cap = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < 1000; i++) {
        ok = mem_grow(NULL, &v, &cap, i + 1, sizeof *v, e);
        if (ok) v[i] = i;
    }
    for (size_t i = 0; ok && i < 1000; i++)
        assert_int_equal(v[i], i);
    mem_free(NULL, v, cap * sizeof *v);
    return ok;
}

static void mem_grow_survives_failures(void **state)
{
    (void)state;
    assert_true(torture(grow_two_arrays, NULL) >= 5);
    uint64_t *v = NULL;
    size_t cap = 0;
    err e = {0};
    assert_false(mem_grow(NULL, &v, &cap, SIZE_MAX / 4, sizeof *v, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
}

static void arena_refuses_at_cap(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 64);
    assert_non_null(arena_new(&a, 48));
    assert_null(arena_new(&a, 17));
    assert_null(arena_new(&a, 1));  // exhaustion is sticky
    err e = {0};
    assert_false(arena_ok(&a, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_string_equal(e.msg, "request needs more than its 64 bytes (48 in use)");
    arena_release(&a);
    assert_non_null(arena_new(&a, 64));  // ready for use again
    arena_release(&a);
    arena_release(&a);
}

static void arena_checks_products_and_sums(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, SIZE_MAX);
    assert_null(ARENA_ARRAY(&a, uint64_t, SIZE_MAX / 4));
    arena_release(&a);
    assert_null(arena_new(&a, SIZE_MAX - 3));
    arena_release(&a);
    assert_null(arena_str(&a, (str){"x", SIZE_MAX}).p);
    arena_release(&a);
}

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    unsigned char *before = NULL;
    for (size_t n = 1; n < 600; n += 7) {
        unsigned char *p = arena_new(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xee, n);
        if (before) assert_int_equal(*before, 0xee);
        before = p;
    }
    arena_release(&a);
}

static int order;

static void note(void *arg)
{
    order = order * 10 + *(int *)arg;
}

static void arena_runs_deferred_calls_last_first(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 4096);
    int one = 1;
    int two = 2;
    order = 0;
    assert_true(arena_defer(&a, note, &one));
    assert_true(arena_defer(&a, note, &two));
    arena_release(&a);
    assert_int_equal(order, 21);
    arena_release(&a);
    assert_int_equal(order, 21);
}

static bool build(void *arg, err *e)
{
    struct arena a;
    arena_init(&a, arg, 1 << 20);
    str last = {0};
    int *v = NULL;
    size_t cap = 0;
    for (int i = 0; i < 40; i++) {
        last = arena_printf(&a, "%d: %1000d", i, i);
        if (arena_grow(&a, &v, &cap, (size_t)i + 1, sizeof *v)) v[i] = i;
        str copy = arena_str(&a, last);
        assert_true(!copy.p || copy.p[copy.n] == '\0');
    }
    bool ok = arena_ok(&a, e);
    if (ok) assert_int_equal(v[39], 39);
    arena_release(&a);
    return ok;
}

static void arena_survives_malloc_failures(void **state)
{
    (void)state;
    struct mem_budget b;
    mem_budget_init(&b, "requests", NULL, 0);
    assert_true(torture(build, &b) >= 3);
    assert_int_equal(b.used, 0);
    atomic_store(&b.limit, 8000);
    err e = {0};
    assert_false(build(&b, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(b.used, 0);
}

static void buf_fails_once_and_stays_failed(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 5);
    buf_z(&b, "abc");
    buf_z(&b, "def");
    buf_byte(&b, '!');
    assert_true(b.failed);
    assert_true(str_is(buf_view(&b), "abc"));
    err why = {0};
    assert_false(buf_ok(&b, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    assert_string_equal(why.msg, "output needs more than its 5 bytes (3 written)");
    buf_clear(&b);
    buf_z(&b, "vwxyz");
    assert_ok(buf_ok(&b, e));
    buf_release(&b);
    buf_release(&b);
}

static void what_is_lent_to_a_buf_stays_as_it_is(void **state)
{
    (void)state;
    static const char bytes[] = "of somebody else";
    struct buf b;
    buf_lend(&b, str_of(bytes));
    assert_ptr_equal(buf_view(&b).p, bytes);
    assert_int_equal(buf_view(&b).n, strlen(bytes));
    buf_byte(&b, 'x');
    assert_true(b.failed);
    assert_string_equal(bytes, "of somebody else");
    struct buf moved = buf_take(&b);
    assert_int_equal(b.n, 0);
    buf_release(&moved);
    buf_release(&b);
    assert_null(moved.p);
    buf_lend(&b, (str){0});
    buf_release(&b);
}

// Else a server whose memory is used up tells that an answer of a few bytes is too long.
static void what_lacks_memory_names_the_budget_not_the_cap(void **state)
{
    (void)state;
    struct mem_budget budget;
    struct arena a;
    struct buf b;
    err e = {0};
    mem_budget_init(&budget, "small", NULL, 256);
    buf_init(&b, &budget, 1 << 20);
    buf_z(&b, "abc");
    assert_null(buf_reserve(&b, 1000));
    assert_false(buf_ok(&b, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_string_equal(
        e.msg, "memory budget small: no room for more output (3 bytes), 64 of 256 are in use");
    buf_release(&b);
    arena_init(&a, &budget, 1 << 20);
    assert_null(arena_new(&a, 1000));
    assert_false(arena_ok(&a, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_string_equal(
        e.msg, "memory budget small: no room for this request (0 bytes), 0 of 256 are in use");
    arena_release(&a);
    assert_int_equal(budget.used, 0);
}

static void buf_prints_numbers_and_formats(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 4096);
    buf_u64(&b, UINT64_MAX);
    buf_byte(&b, ' ');
    buf_i64(&b, INT64_MIN);
    buf_byte(&b, ' ');
    buf_i64(&b, 0);
    buf_printf(&b, " %s %05d", "x", 42);
    buf_put(&b, NULL, 0);
    assert_true(str_is(buf_view(&b), "18446744073709551615 -9223372036854775808 0 x 00042"));
    struct buf moved = buf_take(&b);
    assert_int_equal(b.n, 0);
    assert_null(b.p);
    assert_int_equal(moved.n, 51);
    buf_release(&moved);
    buf_release(&b);
}

static void a_paragraph_is_broken_where_it_means_the_same(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"short", "one line", "one line\n"},
        {"empty", "", "\n"},
        {"at a space", "%s b", "%s\nb\n"},
        {"by characters", "…%s b", "…%s\nb\n"},
        {"not in code", "%s `b c` d", "%s\n`b c` d\n"},
        {"not before a list", "a%s - b 1. c", "a%s -\nb 1. c\n"},
    };
    char long_word[BUF_PAGE_COLUMNS];
    memset(long_word, 'x', sizeof long_word);
    long_word[sizeof long_word - 1] = '\0';
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[256];
        char lines[256];
        struct buf b;
        snprintf(text, sizeof text, cases[i][1], long_word);
        snprintf(lines, sizeof lines, cases[i][2], long_word);
        buf_init(&b, NULL, 4096);
        buf_paragraph(&b, text);
        if (!str_is(buf_view(&b), lines)) fail_msg("%s: %.*s", cases[i][0], STR(buf_view(&b)));
        buf_release(&b);
    }
}

static bool write_much(void *arg, err *e)
{
    struct buf b;
    buf_init(&b, arg, 1 << 20);
    for (int i = 0; i < 500; i++)
        buf_printf(&b, "%d and %d, ", i, i * i);
    bool ok = buf_ok(&b, e);
    buf_release(&b);
    return ok;
}

static void buf_survives_malloc_failures(void **state)
{
    (void)state;
    struct mem_budget budget;
    mem_budget_init(&budget, "answers", NULL, 0);
    assert_true(torture(write_much, &budget) >= 5);
    assert_int_equal(budget.used, 0);
}

static void pieces_given_back_come_again_zeroed(void **state)
{
    (void)state;
    struct mem_budget b;
    mem_budget_init(&b, "pieces", NULL, 1 << 20);
    static const size_t sizes[] = {4000,  8000,  4000, 131072, 131073, 4000, 60000,
                                   60000, 60000, 100,  100,    100,    100,  100};
    for (int round = 0; round < 3; round++) {
        unsigned char *v[COUNT(sizes)];
        size_t has[COUNT(sizes)];
        size_t all = 0;
        for (size_t i = 0; i < COUNT(sizes); i++) {
            has[i] = sizes[i];
            assert_ok((v[i] = mem_take(&b, &has[i], e)));
            assert_true(has[i] >= sizes[i] && has[i] < 2 * sizes[i]);
            for (size_t k = 0; k < has[i]; k++)
                assert_int_equal(v[i][k], 0);
            memset(v[i], 0xa5, sizes[i] / 2 + i);
            all += has[i];
            assert_int_equal(atomic_load(&b.used), all);
        }
        for (size_t i = 0; i < COUNT(sizes); i++)
            mem_give(&b, v[i], has[i], sizes[i] / 2 + i);
        assert_int_equal(atomic_load(&b.used), 0);
    }
    err fault = {0};
    size_t much = 2 << 20;
    assert_null(mem_take(&b, &much, &fault));  // the budget holds for them as well
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
}

// A piece that is larger than what is left of the budget does not stand for one that fits.
static void a_kept_piece_that_does_not_fit_is_left(void **state)
{
    (void)state;
    struct mem_budget b;
    mem_budget_init(&b, "pieces", NULL, 10000);
    size_t n = 9000;
    void *p = NULL;
    assert_ok((p = mem_take(&b, &n, e)));
    mem_give(&b, p, n, 0);
    assert_ok(mem_reserve(&b, 4000, e));
    n = 5000;
    assert_ok((p = mem_take(&b, &n, e)));
    assert_int_equal(n, 5000);
    assert_int_equal(atomic_load(&b.refused), 0);
    mem_give(&b, p, n, 0);
    mem_unreserve(&b, 4000);
    assert_int_equal(atomic_load(&b.used), 0);
}

// Requests take sizes that no two of them share, but that are all alike.
static void pieces_of_odd_sizes_are_used_again(void **state)
{
    (void)state;
    void *v[20];
    size_t has[COUNT(v)];
    for (size_t i = 0; i < COUNT(v); i++) {  // more than are kept, and of no use for what follows
        has[i] = 100 + i;
        assert_ok((v[i] = mem_take(NULL, &has[i], e)));
    }
    for (size_t i = 0; i < COUNT(v); i++)
        mem_give(NULL, v[i], has[i], has[i]);
    for (size_t round = 0; round < 50; round++) {
        size_t held = mem_kept_bytes();
        size_t fresh = 0;
        size_t all = 0;
        for (size_t i = 0; i < 6; i++) {
            has[i] = 4000 + 6000 * i - 7 * round;
            size_t before = mem_kept_bytes();
            assert_ok((v[i] = mem_take(NULL, &has[i], e)));
            fresh += mem_kept_bytes() == before;
            all += has[i];
        }
        if (round > 0) assert_int_equal(fresh, 0);
        if (round > 0) assert_int_equal(mem_kept_bytes(), held - all);
        for (size_t i = 0; i < 6; i++)
            mem_give(NULL, v[i], has[i], has[i]);
        assert_true(mem_kept_bytes() <= MEM_KEPT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_counts_against_its_parents),
        cmocka_unit_test(a_budget_leaves_room_to_others),
        cmocka_unit_test(a_budget_leaves_room_once_it_has_its_share),
        cmocka_unit_test(an_arena_moves_to_another_budget),
        cmocka_unit_test(an_arena_keeps_what_was_put_aside),
        cmocka_unit_test(mem_resize_counts_the_difference_and_zeroes),
        cmocka_unit_test(mem_grow_survives_failures),
        cmocka_unit_test(arena_refuses_at_cap),
        cmocka_unit_test(arena_checks_products_and_sums),
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_runs_deferred_calls_last_first),
        cmocka_unit_test(arena_survives_malloc_failures),
        cmocka_unit_test(buf_fails_once_and_stays_failed),
        cmocka_unit_test(what_is_lent_to_a_buf_stays_as_it_is),
        cmocka_unit_test(what_lacks_memory_names_the_budget_not_the_cap),
        cmocka_unit_test(buf_prints_numbers_and_formats),
        cmocka_unit_test(a_paragraph_is_broken_where_it_means_the_same),
        cmocka_unit_test(buf_survives_malloc_failures),
        cmocka_unit_test(pieces_given_back_come_again_zeroed),
        cmocka_unit_test(a_kept_piece_that_does_not_fit_is_left),
        cmocka_unit_test(pieces_of_odd_sizes_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
