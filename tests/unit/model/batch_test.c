// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "model/batch.h"
#include "model/merge.h"
#include "model/vector.h"

// One service, two types that are multiples of each other, stacks a;b and a;c.
static bool small_batch(struct arena *a, struct symbols *s, struct batch *b, err *e)
{
    uint32_t stacks[3] = {0};
    const str names[3] = {S("a"), S("b"), S("c")};
    for (size_t i = 0; i < 3; i++) {
        uint32_t name = symbols_string(s, names[i], e);
        if (name == MAP_NONE) return false;
        uint32_t f = symbols_function(s, (struct symbol_function){.name = name}, e);
        if (f == MAP_NONE) return false;
        uint32_t frame = symbols_frame(s, (struct symbol_frame){.function = f, .line = 7}, e);
        if (frame == MAP_NONE) return false;
        stacks[i] = symbols_stack(s, i ? stacks[0] : 0, frame, e);
        if (stacks[i] == MAP_NONE) return false;
    }
    static const label cpu[] = {
        {S_INIT("__profile_type__"), S_INIT("process_cpu:cpu:nanoseconds:cpu:nanoseconds")},
        {S_INIT("service_name"), S_INIT("demo")},
    };
    static const label count[] = {
        {S_INIT("__profile_type__"), S_INIT("process_cpu:samples:count:cpu:nanoseconds")},
        {S_INIT("service_name"), S_INIT("demo")},
    };
    struct buf v;
    buf_init(&v, NULL, 1 << 20);
    vector_encode((struct vector_entry[]){{stacks[1], 1}, {stacks[2], 2}}, 2, &v);
    str vector = arena_str(a, buf_view(&v));
    bool ok = buf_ok(&v, e);
    buf_clear(&v);
    vector_encode((struct vector_entry[]){{stacks[2], 1}}, 1, &v);
    str part = arena_str(a, buf_view(&v));
    ok = ok && buf_ok(&v, e);
    buf_release(&v);
    labels *series = ARENA_ARRAY(a, labels, 2);
    struct record *records = ARENA_ARRAY(a, struct record, 2);
    struct span_part *spans = ARENA_NEW(a, struct span_part);
    label *notes = ARENA_NEW(a, label);
    if (!ok || !arena_ok(a, e)) return false;
    series[0] = (labels){cpu, 2};
    series[1] = (labels){count, 2};
    *spans = (struct span_part){.span_id = 0x1122334455667788,
                                .trace_id = {1},
                                .has_trace = true,
                                .vector = part};
    *notes = (label){S("k"), S("v")};
    records[0] = (struct record){.time_ns = -5,
                                 .id = {{9, 8, 7}},
                                 .duration_ns = 10,
                                 .period = 100,
                                 .vector = vector,
                                 .sibling = RECORD_NO_SIBLING,
                                 .total = 3,
                                 .spans = spans,
                                 .span_count = 1,
                                 .annotations = notes,
                                 .annotation_count = 1};
    records[1] = (struct record){.series = 1,
                                 .time_ns = 1700000000000000000,
                                 .sibling = 0,
                                 .factor = -4,
                                 .total = -12,
                                 .attempt = 2,
                                 .has_first_stream = true,
                                 .first_stream = {{5}}};
    *b = (struct batch){.service = S("demo"),
                        .series = series,
                        .symbols = s->t,
                        .records = records,
                        .series_count = 2,
                        .record_count = 2};
    return true;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct symbols s;
    struct batch b;
    struct batch back;
    struct buf one;
    struct buf two;
    buf_init(&one, NULL, 1 << 20);
    buf_init(&two, NULL, 1 << 20);
    assert_ok(symbols_init(&s, NULL, e));
    assert_ok(small_batch(&a, &s, &b, e));
    assert_ok(batch_encode(&b, &a, &one, e));
    assert_ok(batch_decode(&a, buf_view(&one), &back, e));
    assert_ok(batch_encode(&back, &a, &two, e));
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.p, two.p, one.n);
    struct merge m;
    assert_ok(merge_init(&m, NULL, true, e));
    assert_ok(merge_add(&m, &back.symbols, back.records[0].vector, 10, e));
    assert_int_equal(m.symbols.t.stack_count, 4);
    merge_release(&m);
    buf_release(&one);
    buf_release(&two);
    symbols_release(&s);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
