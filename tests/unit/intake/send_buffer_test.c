// SPDX-License-Identifier: Apache-2.0
//
// Random profiles go through the whole pipeline, are encoded, decoded, and added up; the sums are
// compared with those that a plain reading of the samples gives.
#include "intake/pipeline.h"
#include "intake/send_buffer.h"
#include "lib/limits.h"
#include "lib/pprof.h"
#include "lib/test.h"
#include "model/vector.h"
#include "sys/clock.h"

#include <stdio.h>

#define NOW        (INT64_C(1700000000) * NS_PER_S)
#define FRAMES     12
#define SAMPLES    60
#define TYPES      3
#define ENTRIES    4096
#define KEY        160
#define FIRST_NAME 16

static uint64_t dice;

static uint32_t roll(uint32_t n)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % n;
}

// ---- sums by text: "labels|type|span|stack"

struct entry {
    char key[KEY];
    int64_t sum;
};

struct sums {
    struct entry v[ENTRIES];
    size_t n;
};

static void add(struct sums *s, const char *key, int64_t value)
{
    if (value == 0) return;
    size_t i = 0;
    while (i < s->n && strcmp(s->v[i].key, key) != 0)
        i++;
    if (i == s->n) {
        assert_true(s->n < ENTRIES);
        snprintf(s->v[s->n++].key, KEY, "%s", key);
        s->v[i].sum = 0;
    }
    s->v[i].sum += value;
}

static void compare(struct sums *want, const struct sums *got, uint64_t seed)
{
    // A sum of 0 is no entry of a vector.
    for (size_t i = 0; i < want->n;) {
        if (want->v[i].sum == 0)
            want->v[i] = want->v[--want->n];
        else
            i++;
    }
    if (want->n != got->n)
        fail_msg("seed %llu: %zu sums, expected %zu", (unsigned long long)seed, got->n, want->n);
    for (size_t i = 0; i < want->n; i++) {
        size_t k = 0;
        while (k < got->n && strcmp(want->v[i].key, got->v[k].key) != 0)
            k++;
        if (k == got->n || want->v[i].sum != got->v[k].sum) {
            fail_msg("seed %llu: %s: expected %lld", (unsigned long long)seed, want->v[i].key,
                     (long long)want->v[i].sum);
        }
    }
}

// ---- a random profile, and what is to come of it

// Location i holds frames i and, if it is odd, i - 1 inlined into it. Frame f is named 'a' + f.
static void put_tables(struct buf *b)
{
    const char *strings[FIRST_NAME] = {
        "",  "samples", "count", "cpu",     "nanoseconds",      "bytes",
        "k", "v0",      "v1",    "span_id", "0100000000000000", "0200000000000000"};
    for (size_t i = 0; i < FIRST_NAME; i++)
        pp_string(b, strings[i] ? strings[i] : "-");
    pp_type(b, 1, 2);
    pp_type(b, 3, 4);
    pp_type(b, 5, 5);
    for (uint64_t i = 0; i < FRAMES; i++) {
        pp_string(b, (char[]){(char)('a' + i), 0});
        pp_function(b, 100 + i, FIRST_NAME + i, 0);
        struct pp_line lines[] = {{100 + i, 1}, {99 + i, 2}};
        pp_location(b, 500 + 7 * i, 0, 0, lines, i % 2 ? 2 : 1);
    }
}

static void expect(struct sums *want, const uint32_t *leaf, uint32_t depth, const char *ls,
                   const char *span, const int64_t *values)
{
    static const char *const types[] = {"samples", "cpu", "bytes"};
    char stack[64];
    size_t n = 0;
    for (uint32_t k = depth; k-- > 0;) {
        if (leaf[k] % 2) stack[n++] = (char)('a' + leaf[k] - 1);
        stack[n++] = (char)('a' + leaf[k]);
    }
    stack[n] = 0;
    for (size_t t = 0; t < TYPES; t++) {
        char key[KEY];
        snprintf(key, sizeof key, "%s|%s||%s", ls, types[t], stack);
        add(want, key, values[t]);
        if (!span[0]) continue;
        snprintf(key, sizeof key, "%s|%s|%s|%s", ls, types[t], span, stack);
        add(want, key, values[t]);
    }
}

static void put_sample(struct buf *b, struct sums *want)
{
    uint32_t leaf[8];
    uint64_t ids[8];
    uint32_t depth = roll(7);
    for (uint32_t i = 0; i < depth; i++) {
        leaf[i] = roll(FRAMES);
        ids[i] = 500 + 7 * (uint64_t)leaf[i];
    }
    int64_t count = roll(4);
    int64_t values[TYPES] = {count, count * 10000000, roll(3) * (int64_t)roll(100000)};
    if (roll(20) == 0) values[2] = -1;
    uint32_t tag = roll(3);
    uint32_t span = roll(4);
    size_t m = pb_begin(b, 2);
    pp_numbers(b, 1, ids, depth);
    pp_numbers(b, 2, (const uint64_t *)values, TYPES);
    if (tag) {
        size_t inner = pb_begin(b, 3);
        pb_put_u64(b, 1, 6);
        pb_put_u64(b, 2, 6 + tag);
        pb_end(b, inner);
    }
    if (span == 1 || span == 2) {
        size_t inner = pb_begin(b, 3);
        pb_put_u64(b, 1, 9);
        pb_put_u64(b, 2, 9 + span);
        pb_end(b, inner);
    }
    pb_end(b, m);
    const char *sets[] = {"-", "v0", "v1"};
    const char *spans[] = {"", "1", "2", ""};
    expect(want, leaf, depth, sets[tag], spans[span], values);
}

// ---- what came of it

static void text_of_stack(const struct symbol_table *t, uint32_t stack, char *out)
{
    char reversed[64];
    size_t n = 0;
    for (; stack; stack = t->stacks[stack].parent)
        reversed[n++] = symbols_frame_name(t, t->stacks[stack].frame).p[0];
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    out[n] = 0;
}

static void read_vector(struct sums *got, const struct batch *b, const struct record *r, str vector,
                        int64_t factor, const char *span)
{
    labels ls = b->series[r->series];
    str k = labels_get(ls, S("k"));
    struct vector_reader v;
    struct vector_entry entry;
    int64_t total = 0;
    assert_ok(vector_open(&v, vector, e));
    while (vector_next(&v, &entry)) {
        char stack[64];
        char key[KEY];
        text_of_stack(&b->symbols, entry.stack, stack);
        snprintf(key, sizeof key, "%.*s|%.*s|%s|%s", STR(k.n ? k : S("-")),
                 STR(labels_get(ls, S("__type__"))), span, stack);
        add(got, key, entry.value * factor);
        total += entry.value * factor;
    }
    assert_ok(vector_done(&v, e));
    if (!span[0]) assert_int_equal(total, r->total);
}

static void read_batch(struct sums *got, str bytes, unsigned *siblings)
{
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    struct batch b;
    assert_ok(batch_decode(&a, bytes, &b, e));
    for (uint32_t i = 0; i < b.record_count; i++) {
        const struct record *r = &b.records[i];
        bool sibling = r->sibling != RECORD_NO_SIBLING;
        *siblings += sibling;
        read_vector(got, &b, r, sibling ? b.records[r->sibling].vector : r->vector,
                    sibling ? r->factor : 1, "");
        for (uint32_t k = 0; k < r->span_count; k++) {
            assert_false(r->spans[k].has_trace);
            char span[8];
            snprintf(span, sizeof span, "%u", (unsigned)r->spans[k].span_id);
            read_vector(got, &b, r, r->spans[k].vector, 1, span);
        }
    }
    arena_release(&a);
}

static uint32_t owner_of_hash(void *arg, str service, uint64_t hash, uint32_t *home)
{
    if (home) *home = 0;
    (void)arg;
    assert_true(str_is(service, "svc"));
    return (uint32_t)(hash % 2);
}

static unsigned check_sums(uint64_t seed, bool two_owners)
{
    static struct sums want;
    static struct sums got;
    want.n = got.n = 0;
    dice = seed;
    struct arena a;
    arena_init(&a, NULL, 64 << 20);
    struct pipeline in;
    pipeline_init(&in, &a, &stock_limits, NOW, seed);
    send_buffer_init(&in.out, &a, two_owners ? owner_of_hash : NULL, NULL);
    label ls[] = {{S("__name__"), S("x")}, {S("service_name"), S("svc")}};
    uint32_t profiles = 1 + roll(3);
    for (uint32_t i = 0; i < profiles; i++) {
        struct buf b;
        buf_init(&b, NULL, 1 << 20);
        put_tables(&b);
        for (uint32_t k = roll(SAMPLES); k > 0; k--)
            put_sample(&b, &want);
        pipeline_pprof(&in, &(struct pipeline_item){buf_view(&b), {0}, ls, 2});
        buf_release(&b);
    }
    if (in.failed) fail_msg("seed %llu: %s", (unsigned long long)seed, in.first.msg);
    send_buffer_seal(&in.out);
    unsigned siblings = 0;
    for (size_t i = 0; i < in.out.batch_count; i++) {
        struct buf out;
        buf_init(&out, NULL, 1 << 20);
        assert_ok(batch_encode(&in.out.batches[i]->batch, &a, &out, e));
        read_batch(&got, buf_view(&out), &siblings);
        buf_release(&out);
    }
    compare(&want, &got, seed);
    arena_release(&a);
    return siblings;
}

static void records_hold_the_sums_of_the_samples(void **state)
{
    (void)state;
    unsigned siblings = 0;
    for (uint64_t seed = 1; seed <= 200; seed++)
        siblings += check_sums(seed, seed % 2 == 0);
    assert_true(siblings > 100);  // samples and cpu are multiples of each other
}

static void deep_stacks_need_no_recursion(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 8 << 20);
    put_tables(&b);
    size_t m = pb_begin(&b, 2);
    size_t inner = pb_begin(&b, 1);
    for (uint64_t i = 0; i < 300000; i++)
        pb_put_varint(&b, 500 + 7 * (i % FRAMES));
    pb_end(&b, inner);
    pp_numbers(&b, 2, (uint64_t[]){1, 2, 3}, 3);
    pb_end(&b, m);
    struct limits l = stock_limits;
    l.max_profile_stacktrace_depth = 0;
    struct arena a;
    arena_init(&a, NULL, (size_t)256 << 20);
    struct pipeline in;
    pipeline_init(&in, &a, &l, NOW, 1);
    label ls[] = {{S("__name__"), S("x")}, {S("service_name"), S("svc")}};
    pipeline_pprof(&in, &(struct pipeline_item){buf_view(&b), {0}, ls, 2});
    assert_false(in.failed);
    send_buffer_seal(&in.out);
    assert_int_equal(in.out.batches[0]->batch.symbols.stack_count, 450001);
    arena_release(&a);
    buf_release(&b);
}

static void services_get_a_batch_each(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    put_tables(&b);
    struct sums *want = mem_must(sizeof *want);
    dice = 7;
    for (int i = 0; i < 20; i++)
        put_sample(&b, want);
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    struct pipeline in;
    pipeline_init(&in, &a, &stock_limits, NOW, 1);
    const char *services[] = {"one", "two", "one"};
    for (size_t i = 0; i < COUNT(services); i++) {
        label ls[] = {{S("__name__"), S("x")}, {S("service_name"), str_of(services[i])}};
        pipeline_pprof(&in, &(struct pipeline_item){buf_view(&b), {0}, ls, 2});
    }
    send_buffer_seal(&in.out);
    assert_int_equal(in.out.batch_count, 2);
    assert_int_equal(in.out.batches[0]->batch.record_count,
                     2 * in.out.batches[1]->batch.record_count);
    assert_int_equal(in.out.batches[0]->batch.series_count, in.out.batches[1]->batch.series_count);
    assert_int_equal(in.out.batches[0]->batch.symbols.stack_count,
                     in.out.batches[1]->batch.symbols.stack_count);
    arena_release(&a);
    mem_must_free(want);
    buf_release(&b);
}

static uint32_t away(void *arg, str service, uint64_t hash, uint32_t *home)
{
    (void)arg;
    (void)service;
    if (home) *home = (uint32_t)(hash % 3);
    return 3;  // who gets all while the others are away
}

// Attempt 0 goes to the home only; without a client's id that is who gets the record first.
static void only_the_home_gets_attempt_0(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    put_tables(&b);
    struct sums *sums = mem_must(sizeof *sums);
    dice = 7;
    for (int i = 0; i < 60; i++)
        put_sample(&b, sums);
    for (int with_id = 0; with_id < 2; with_id++) {
        struct arena a;
        arena_init(&a, NULL, 16 << 20);
        struct pipeline in;
        pipeline_init(&in, &a, &stock_limits, NOW, 1);
        send_buffer_init(&in.out, &a, away, NULL);
        for (unsigned i = 0; i < 20; i++) {
            char pod[4];
            int n = snprintf(pod, sizeof pod, "%u", i);
            label ls[] = {{S("__name__"), S("x")},
                          {S("pod"), str_make(pod, (size_t)n)},
                          {S("service_name"), S("svc")}};
            str id = with_id ? S("id") : (str){0};
            pipeline_pprof(&in, &(struct pipeline_item){buf_view(&b), id, ls, COUNT(ls)});
        }
        assert_false(in.failed);
        send_buffer_seal(&in.out);
        assert_int_equal(in.out.batch_count, 1);
        struct send_batch *p = in.out.batches[0];
        uint32_t at_home[4] = {0};
        for (uint32_t member = 0; member < COUNT(at_home); member++) {
            send_batch_address(p, member);
            for (uint32_t i = 0; i < p->batch.record_count; i++)
                at_home[member] += p->batch.records[i].attempt == 0;
        }
        assert_int_equal(at_home[0] + at_home[1] + at_home[2] + at_home[3], p->batch.record_count);
        assert_int_equal(at_home[3], with_id ? 0 : p->batch.record_count);
        if (with_id) assert_true(at_home[0] && at_home[1] && at_home[2]);
        p->attempt = 2;
        send_batch_address(p, 9);
        assert_int_equal(p->batch.records[0].attempt, 2);
        arena_release(&a);
    }
    mem_must_free(sums);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_hold_the_sums_of_the_samples),
        cmocka_unit_test(deep_stacks_need_no_recursion),
        cmocka_unit_test(services_get_a_batch_each),
        cmocka_unit_test(only_the_home_gets_attempt_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
