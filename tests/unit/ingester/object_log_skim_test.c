// SPDX-License-Identifier: Apache-2.0
//
// A log with many objects is looked at by the heads of a few of them; what these do not tell is
// found when its cuts are read.
#include "unit/ingester/object_log_bench.h"

static uint64_t drawn(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

static void next_request(struct bench *b)
{
    req_release(&b->r);
    req_init(&b->r, RANK_DUTY, NULL, 1 << 20, 0);
}

static void write_cut(struct bench *b, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++) {
        write_one(b, 1 + i % 3);
        next_request(b);
    }
}

static void write_cuts(struct bench *b, const uint64_t *objects, size_t n)
{
    register_stream(b);
    for (size_t i = 0; i < n; i++) {
        if (i) next_cut(b);
        write_cut(b, objects[i]);
    }
}

// Requests one after the other, and heads: as many for ten times as many objects.
static void a_few_heads_tell_the_cuts_of_many_objects(void **state)
{
    static const uint64_t sizes[] = {40, 400, 4000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const uint64_t cuts[] = {sizes[i] / 4, 1, sizes[i] / 2, sizes[i] / 4 - 1};
        struct bench *b = *state;
        uint64_t number = 1;
        write_cuts(b, cuts, COUNT(cuts));
        assert_int_equal(seal(b), sizes[i] + 1);
        memstore_set_turns(b->store, OBJECT_LOG_WINDOW, 0);
        memstore_set_page(b->store, 10000);
        memstore_reset_totals(b->store);
        struct object_log_survey s = look(b);
        assert_true(s.n == COUNT(cuts) && s.damaged == 0 && s.sealed);
        for (size_t k = 0; k < s.n; k++) {
            struct reading x = {0};
            assert_true(s.cuts[k].whole && s.cuts[k].first == number);
            number += cuts[k];
            assert_int_equal(s.cuts[k].last, number - 1);
            uint64_t turns = memstore_totals(b->store).turns;
            assert_in_range(turns, 1, k ? UINT64_MAX : 10);
            assert_true(read_cut(b, &s.cuts[k], &x) && x.damaged == 0);
            assert_int_equal(x.seqs, s.cuts[k].last_seq - s.cuts[k].first_seq + 1);
        }
        assert_in_range(memstore_totals(b->store).ops[MEMSTORE_READ], 1,
                        sizes[i] + 5 * OBJECT_LOG_WINDOW);
        (void)tear_down(state);
        (void)set_up(state);
    }
}

static void same_cuts(const struct object_log_survey *a, const struct object_log_survey *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->top, b->top);
    assert_int_equal(a->sealed, b->sealed);
    for (size_t i = 0; i < a->n; i++) {
        const struct object_log_cut *x = &a->cuts[i];
        const struct object_log_cut *y = &b->cuts[i];
        assert_true(x->cut == y->cut && x->first == y->first && x->last == y->last);
        assert_true(x->first_seq == y->first_seq && x->last_seq == y->last_seq);
        assert_true(x->bytes == y->bytes && x->whole == y->whole);
        assert_true(x->opened_ns == y->opened_ns && x->newest_ns == y->newest_ns);
    }
}

// As if all heads were read, wherever the borders of cuts and of stretches are.
static void it_finds_what_reading_all_heads_finds(void **state)
{
    uint64_t seed = 7;
    for (unsigned round = 0; round < 40; round++) {
        uint64_t cuts[12];
        struct bench *b = *state;
        size_t n = 1 + round % COUNT(cuts);
        for (size_t i = 0; i < n; i++)
            cuts[i] = 1 + drawn(&seed) % (round % 2 ? 150 : 9);
        write_cuts(b, cuts, n);
        if (round % 3) (void)seal(b);
        object_log_stretch = 65 + drawn(&seed) % 400;
        struct object_log_survey few = look(b);
        object_log_stretch = OBJECT_LOG_WINDOW;
        struct object_log_survey all = look(b);
        object_log_stretch = 4096;
        same_cuts(&few, &all);
        assert_true(few.damaged == 0 && all.damaged == 0);
        (void)tear_down(state);
        (void)set_up(state);
    }
}

// Objects are damaged, or lost, or changed their place. Whatever the look tells of that, it has the
// cuts, and each entry that can be read is read.
static void what_it_passes_over_is_told_when_it_is_read(void **state)
{
    uint64_t seed = 11;
    for (unsigned round = 0; round < 40; round++) {
        const uint64_t cuts[] = {90, 1, 200, 2, 90};
        struct bench *b = *state;
        uint64_t seqs = 0;
        size_t damaged = 0;
        write_cuts(b, cuts, COUNT(cuts));
        uint64_t top = seal(b);
        uint64_t bad[3] = {1 + drawn(&seed) % (top - 1), 1 + drawn(&seed) % (top - 1),
                           1 + drawn(&seed) % (top - 1)};
        for (size_t i = 0; i < COUNT(bad); i++) {
            const char *name = name_of(b, bad[i]).p;
            if (memstore_has(b->store, name)) memstore_flip(b->store, name, 20 + i, 3);
            if (round % 2 && memstore_has(b->store, name)) memstore_drop(b->store, name);
        }
        struct object_log_survey s = look(b);
        size_t distinct = 1 + (bad[1] != bad[0]) + (bad[2] != bad[0] && bad[2] != bad[1]);
        for (size_t i = 0; i < s.n; i++) {
            struct reading x = {0};
            assert_true(s.cuts[i].whole);
            assert_true(read_cut(b, &s.cuts[i], &x));
            seqs += x.seqs;
            damaged += x.damaged;
        }
        assert_in_range(damaged, distinct - s.cutless, distinct);
        uint64_t lost = 0;
        for (size_t i = 0; i < COUNT(bad); i++) {
            uint64_t at = bad[i] - 1;
            bool again = (i > 0 && bad[0] == bad[i]) || (i > 1 && bad[1] == bad[i]);
            for (size_t k = 0; k < COUNT(cuts) && at >= cuts[k]; k++)
                at -= cuts[k];
            if (!again) lost += 1 + at % 3;
        }
        assert_int_equal(seqs + lost, b->seq - 1);
        (void)tear_down(state);
        (void)set_up(state);
    }
}

static void one_that_is_in_another_s_place_is_damage(void **state)
{
    const uint64_t cuts[] = {300, 20};
    struct bench *b = *state;
    struct reading x = {0};
    write_cuts(b, cuts, COUNT(cuts));
    // Its name is part of what is checked, so only a writer that lost count could make it.
    struct buf bytes;
    struct log_object o;
    struct log_object_packer p;
    buf_init(&bytes, NULL, SIZE_MAX);
    str old = memstore_bytes(b->store, name_of(b, 101).p);
    assert_ok(log_object_decode(old, STREAM, 101, &o, e));
    struct log_object_head h = o.head;
    h.first_seq -= 1;  // it repeats the last entry of the one before it
    log_object_begin(&p, &bytes, &h);
    for (uint64_t i = 0; i < h.count; i++)
        log_object_add(&p, S("acme"), h.first_seq + i - h.cut_first_seq, S(""), S("r"));
    assert_ok(log_object_end(&p, e));
    memstore_set(b->store, name_of(b, 101).p, buf_view(&bytes));
    struct object_log_survey s = look(b);
    assert_true(s.n == 2 && s.damaged == 0);
    assert_true(read_cut(b, &s.cuts[0], &x) && x.damaged == 1);
    assert_non_null(strstr(x.why.msg, name_of(b, 101).p));
    buf_release(&bytes);
}

static void one_of_a_later_format_fails_the_reading(void **state)
{
    const uint64_t cuts[] = {300, 20};
    struct bench *b = *state;
    struct reading x = {0};
    write_cuts(b, cuts, COUNT(cuts));
    str old = arena_str(&b->r.arena, memstore_bytes(b->store, name_of(b, 101).p));
    make_foreign(b, 101);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 2);
    assert_false(read_cut(b, &s.cuts[0], &x));
    assert_true(x.damaged == 0 && x.fault.code == ERR_DATA_LOSS);
    // Where its head is read, the look fails.
    memstore_set(b->store, name_of(b, 101).p, old);
    make_foreign(b, 1);
    err why = {0};
    assert_false(object_log_look(b->store, &b->r, STREAM, 0, &s, &why));
    object_log_survey_release(&s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_few_heads_tell_the_cuts_of_many_objects),
        TEST(it_finds_what_reading_all_heads_finds),
        TEST(what_it_passes_over_is_told_when_it_is_read),
        TEST(one_that_is_in_another_s_place_is_damage),
        TEST(one_of_a_later_format_fails_the_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
