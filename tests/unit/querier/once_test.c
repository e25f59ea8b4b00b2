// SPDX-License-Identifier: Apache-2.0
//
// Rows that several heads have, walked at random: copies show up before, between and after the
// rounds of a question, heads start anew. What was there when the question was asked counts once,
// what came later at most once.
#include "unit/querier/ask.h"

#define HEADS 4
#define ROWS  24
#define NEVER 99u

static uint64_t dice;

static uint32_t roll(uint32_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice >> 33) % n;
}

// Row r is at head h from moment since[h] on. A head's answers are moments: 0 before the question.
struct model {
    uint32_t since[ROWS][HEADS];
    uint32_t home[ROWS];  // has it with attempt 0
    unsigned rounds;
    uint32_t moment[HEADS];
    uint8_t stream[HEADS];
    bool restarts;
};

static struct loose_key key_of(uint32_t row)
{
    return (struct loose_key){.series = row % 3, .id.b = {[15] = (uint8_t)row}};
}

static bool there(const struct model *m, uint32_t row, uint32_t head)
{
    return m->since[row][head] <= m->moment[head];
}

static void put_row(struct buf *out, uint32_t row)
{
    size_t totals = pb_begin(out, 4);
    pb_end(out, pb_begin(out, 1));
    size_t point = pb_begin(out, 2);
    pb_put_u64_opt(out, 1, row);
    pb_put_u64_opt(out, 2, zigzag(1 + (int64_t)row));
    pb_put_u64(out, 3, 1);
    pb_end(out, point);
    pb_end(out, totals);
}

// The list of a second question: keepers are 1 for this head, 0 for others.
static bool read_list(str message, uint8_t stream, struct loose_set *out)
{
    bool listed = false;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field != 15) continue;
        listed = true;
        str keys = {0};
        bool mine = false;
        struct pb_reader in = pb_reader(r.bytes);
        while (pb_next(&in)) {
            if (in.field == 1) mine = (uint8_t)in.bytes.p[15] == stream;
            if (in.field == 2) keys = in.bytes;
        }
        assert_ok(loose_decode(out, keys, mine, e));
    }
    return listed;
}

static void put_partial(struct model *m, uint32_t head, struct arena *a, str message,
                        struct buf *out)
{
    struct loose_set list;
    struct loose_set met;
    loose_init(&list, a, NULL, SIZE_MAX);
    loose_init(&met, a, NULL, SIZE_MAX);
    bool listed = read_list(message, m->stream[head], &list);
    for (uint32_t row = 0; row < ROWS; row++) {
        if (!there(m, row, head)) continue;
        bool loose = m->home[row] != head;
        const struct loose_row *on = loose_find(&list, key_of(row));
        if (listed && (on ? on->keeper == 0 : loose)) continue;
        put_row(out, row);
        if (loose && !listed) loose_note(&met, key_of(row));
    }
    if (met.n) {
        size_t keys = pb_begin(out, 15);
        loose_encode(&met, 0, out);
        pb_end(out, keys);
    }
    loose_release(&list);
    loose_release(&met);
}

static bool ask_model(const void *transport, struct req *r, str tenant, str message,
                      struct head_replies *out, err *e)
{
    (void)tenant;
    (void)e;
    struct model *m = (struct model *)(uintptr_t)transport;
    m->rounds++;
    struct head_reply *v = ARENA_ARRAY(&r->arena, struct head_reply, HEADS);
    for (uint32_t h = 0; h < HEADS; h++) {
        m->moment[h] += roll(3);
        if (m->restarts && roll(10) == 0) m->stream[h] = (uint8_t)(m->stream[h] + HEADS);
        struct buf b;
        buf_init(&b, NULL, 1 << 20);
        char name[2] = {(char)('a' + h), 0};
        size_t answer = pb_begin(&b, 1);
        head_put_stream(&b, 1, m->stream[h], name);
        pb_put_u64(&b, 2, 1);
        size_t partial = pb_begin(&b, 4);
        put_partial(m, h, &r->arena, message, &b);
        pb_end(&b, partial);
        pb_end(&b, answer);
        v[h] = (struct head_reply){.member = arena_str(&r->arena, str_of(name)),
                                   .bytes = arena_str(&r->arena, buf_view(&b))};
        buf_release(&b);
    }
    *out = (struct head_replies){.v = v, .n = HEADS};
    return true;
}

static void make(struct model *m, uint32_t copies, bool restarts)
{
    *m = (struct model){.restarts = restarts};
    for (uint32_t h = 0; h < HEADS; h++)
        m->stream[h] = (uint8_t)(1 + h);
    for (uint32_t row = 0; row < ROWS; row++) {
        m->home[row] = roll(HEADS);
        for (uint32_t h = 0; h < HEADS; h++)
            m->since[row][h] = NEVER;
        for (uint32_t k = 1 + roll(copies); k > 0; k--) {
            uint32_t at = copies > 1 ? roll(HEADS) : m->home[row];
            m->since[row][at] = roll(2) ? 0 : roll(6);
        }
    }
}

static bool was_there(const struct model *m, uint32_t row)
{
    for (uint32_t h = 0; h < HEADS; h++) {
        if (m->since[row][h] == 0) return true;
    }
    return false;
}

// Returns whether the question was answered.
static bool question(struct model *m, uint64_t seed)
{
    struct ask k;
    ask_open(&k, NULL, 0);
    k.state.ask = ask_model;
    k.state.transport = (const void *)m;
    struct answer a = {.querier = &k.state,
                       .x = &k.x,
                       .arena = &k.x.req.arena,
                       .config = config_section(k.config, "querier")};
    const struct query q = {.from_ns = 0, .to_ns = 1, .totals = {.wanted = true, .step_ns = 1}};
    struct merged *got;
    err e = {0};
    bool ok = answer_read(&a, &q, &got, &e);
    if (!ok && (!m->restarts || e.code != ERR_UNAVAILABLE || !strstr(e.msg, "started anew"))) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
    }
    uint64_t counted[ROWS] = {0};
    for (size_t i = 0; ok && i < got->totals.n; i++) {
        const struct cell *t = &got->totals.v[i];
        counted[t->point] += t->count;
        assert_int_equal(t->sum, (t->point + 1) * (int64_t)t->count);
    }
    for (uint32_t row = 0; ok && row < ROWS; row++) {
        bool right = counted[row] <= 1 && (counted[row] == 1 || !was_there(m, row));
        if (!right) {
            fail_msg("seed %llu: row %u counts %llu times", (unsigned long long)seed, row,
                     (unsigned long long)counted[row]);
        }
    }
    ask_close(&k);
    return ok;
}

static void a_row_counts_once_wherever_it_is(void **state)
{
    (void)state;
    unsigned two_rounds = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct model m;
        dice = seed;
        make(&m, 3, false);
        assert_true(question(&m, seed));
        assert_true(m.rounds <= 2);
        two_rounds += m.rounds == 2;
    }
    assert_true(two_rounds > 1000);
}

static void without_loose_rows_nobody_is_asked_twice(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct model m;
        dice = seed;
        make(&m, 1, false);
        assert_true(question(&m, seed));
        assert_int_equal(m.rounds, 1);
    }
}

static void a_keeper_that_starts_anew_is_asked_anew_or_said(void **state)
{
    (void)state;
    unsigned answered = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct model m;
        dice = seed;
        make(&m, 3, true);
        answered += question(&m, seed);
        assert_true(m.rounds <= 6);
    }
    assert_true(answered > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_counts_once_wherever_it_is),
        cmocka_unit_test(without_loose_rows_nobody_is_asked_twice),
        cmocka_unit_test(a_keeper_that_starts_anew_is_asked_anew_or_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
