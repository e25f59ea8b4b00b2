// SPDX-License-Identifier: Apache-2.0
//
// Batches are read as they were written, have the bytes of docs/formats/batch.md, and are refused
// if something in them does not hold together.
#include "codec/pb.h"
#include "lib/test.h"
#include "model/batch.h"
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
                                 .identified = true,
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

struct fixture {
    struct arena a;
    struct symbols s;
    struct batch b;
    struct buf out;
};

static void setup(struct fixture *f)
{
    arena_init(&f->a, NULL, 1 << 22);
    buf_init(&f->out, NULL, 1 << 20);
    assert_ok(symbols_init(&f->s, NULL, e));
    assert_ok(small_batch(&f->a, &f->s, &f->b, e));
}

static void teardown(struct fixture *f)
{
    buf_release(&f->out);
    symbols_release(&f->s);
    arena_release(&f->a);
}

static str encode(struct fixture *f)
{
    buf_clear(&f->out);
    assert_ok(batch_encode(&f->b, &f->a, &f->out, e));
    return str_make(tail_guard(f->out.p, f->out.n), f->out.n);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct fixture f;
    struct batch b;
    setup(&f);
    str bytes = encode(&f);
    assert_ok(batch_decode(&f.a, bytes, &b, e));
    assert_true(str_is(b.service, "demo"));
    assert_int_equal(b.series_count, 2);
    assert_true(labels_eq(b.series[1], f.b.series[1]));
    assert_true(b.fingerprints[0] == labels_fingerprint(f.b.series[0]));
    assert_int_equal(b.symbols.stack_count, 4);
    assert_int_equal(b.record_count, 2);
    const struct record *one = &b.records[0];
    assert_true(one->time_ns == -5 && one->duration_ns == 10 && one->period == 100);
    assert_true(id128_eq(one->id, f.b.records[0].id) && one->total == 3);
    assert_true(str_eq(one->vector, f.b.records[0].vector));
    assert_true(one->sibling == RECORD_NO_SIBLING && one->attempt == 0 && !one->has_first_stream);
    assert_int_equal(one->span_count, 1);
    assert_true(one->spans->span_id == 0x1122334455667788 && one->spans->has_trace);
    assert_int_equal(one->spans->trace_id[0], 1);
    assert_true(str_eq(one->spans->vector, f.b.records[0].spans->vector));
    assert_int_equal(one->annotation_count, 1);
    assert_true(str_is(one->annotations->name, "k") && str_is(one->annotations->value, "v"));
    const struct record *two = &b.records[1];
    assert_true(two->series == 1 && two->sibling == 0 && two->factor == -4 && two->total == -12);
    assert_true(two->attempt == 2 && two->has_first_stream && two->first_stream.b[0] == 5);
    assert_true(two->time_ns == 1700000000000000000);
    assert_true(two->identified && !one->identified);
    f.b = b;
    assert_true(str_eq(encode(&f), bytes));
    teardown(&f);
}

static void an_empty_batch_is_one(void **state)
{
    (void)state;
    struct fixture f;
    struct batch b;
    setup(&f);
    assert_ok(batch_decode(&f.a, (str){0}, &b, e));
    assert_true(b.record_count == 0 && b.series_count == 0 && b.symbols.stack_count == 1);
    f.b = b;
    str bytes = encode(&f);
    assert_true(str_eq(bytes, S("\x1a\x00")));
    assert_ok(batch_decode(&f.a, bytes, &b, e));
    teardown(&f);
}

// Tables are found wherever they stand; unknown fields are passed over.
static void fields_come_in_any_order(void **state)
{
    (void)state;
    struct fixture f;
    struct batch b;
    struct buf turned;
    setup(&f);
    buf_init(&turned, NULL, 1 << 20);
    str bytes = encode(&f);
    static const uint32_t order[] = {4, 3, 2, 1};
    pb_put_u64(&turned, 77, 5);
    for (size_t i = 0; i < COUNT(order); i++) {
        struct pb_reader r = pb_reader(bytes);
        while (pb_next(&r)) {
            if (r.field == order[i]) pb_put_bytes(&turned, r.field, r.bytes);
        }
    }
    assert_ok(batch_decode(&f.a, buf_view(&turned), &b, e));
    f.b = b;
    assert_true(str_eq(encode(&f), bytes));
    buf_release(&turned);
    teardown(&f);
}

// The example of docs/formats/batch.md, between its label texts.
static const char example[] =
    "\x0a\x04"
    "demo\x12\x55\x0a\x3d\x0a\x10__profile_type__\x12\x29"
    "process_cpu:samples:count:cpu:nanoseconds\x0a\x14\x0a\x0cservice_name\x12\x04"
    "demo"
    "\x12\x57\x0a\x3f\x0a\x10__profile_type__\x12\x2b"
    "process_cpu:cpu:nanoseconds:cpu:nanoseconds\x0a\x14\x0a\x0cservice_name\x12\x04"
    "demo"
    "\x1a\x1f\x0a\x01"
    "a\x0a\x01"
    "b\x0a\x01"
    "c\x12\x03\x01\x02\x03\x62\x03\x01\x02\x03"
    "\x8a\x01\x03\x01\x01\x02\x92\x01\x03\x01\x02\x03"
    "\x22\x33\x11\xc2\x0c\x96\xdc\x3c\x87\x7f\x96\x19\x00\x00\x2a\x36\xfe\x9c\x97\x17\x22\x10"
    "\x01\x8b\xcf\xe5\x68\x00\x80\x00\x80\x00\x00\x00\x00\x00\x00\x01\x30\x80\xad\xe2\x04\x3a\x06"
    "\x02\x01\x02\x02\x01\x04\x50\x06"
    "\x22\x37\x08\x01\x11\x7b\x49\x7f\x26\xc2\x65\xab\x0d\x19\x00\x00\x2a\x36\xfe\x9c\x97\x17\x22"
    "\x10"
    "\x01\x8b\xcf\xe5\x68\x00\x80\x00\x80\x00\x00\x00\x00\x00\x00\x02\x30\x80\xad\xe2\x04\x40\x01"
    "\x48\x80\xda\xc4\x09\x50\x80\x8e\xce\x1c";

static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    struct fixture f;
    struct batch b;
    setup(&f);
    str bytes = str_make(example, sizeof example - 1);
    assert_int_equal(bytes.n, 325);
    assert_ok(batch_decode(&f.a, bytes, &b, e));
    assert_true(str_is(b.service, "demo") && b.series_count == 2 && b.record_count == 2);
    assert_true(str_is(symbols_frame_name(&b.symbols, b.symbols.stacks[3].frame), "c"));
    assert_int_equal(b.symbols.stacks[3].parent, 1);
    const struct record *cpu = &b.records[1];
    assert_true(cpu->series == 1 && cpu->sibling == 0 && cpu->factor == 10000000);
    assert_true(cpu->total == 30000000 && cpu->time_ns == 1700000000000000000);
    assert_true(b.records[0].period == 10000000 && b.records[0].id.b[15] == 1);
    f.b = b;
    assert_true(str_eq(encode(&f), bytes));
    teardown(&f);
}

// ---- what is refused. Each changes one thing of the good batch.

static const label unsorted[] = {{S_INIT("b"), S_INIT("1")}, {S_INIT("a"), S_INIT("2")}};
static const label twice[] = {{S_INIT("a"), S_INIT("1")}, {S_INIT("a"), S_INIT("2")}};
static const label no_name[] = {{S_INIT(""), S_INIT("1")}};
static const label no_value[] = {{S_INIT("a"), S_INIT("")}};
static const label bad_name[] = {{S_INIT("\xff"), S_INIT("1")}};
static const label bad_value[] = {{S_INIT("a"), S_INIT("\xed\xa0\x80")}};
static label bad_annotation[] = {{S_INIT("a"), S_INIT("\xff")}};

static void set_unsorted(struct batch *b)
{
    b->series[1] = (labels){unsorted, 2};
}
static void set_twice(struct batch *b)
{
    b->series[1] = (labels){twice, 2};
}
static void set_no_name(struct batch *b)
{
    b->series[1] = (labels){no_name, 1};
}
static void set_no_value(struct batch *b)
{
    b->series[1] = (labels){no_value, 1};
}
static void set_bad_name(struct batch *b)
{
    b->series[1] = (labels){bad_name, 1};
}
static void set_bad_value(struct batch *b)
{
    b->series[1] = (labels){bad_value, 1};
}
static void set_no_labels(struct batch *b)
{
    b->series[1] = (labels){0};
}
static void set_bad_service(struct batch *b)
{
    b->service = S("\xc3");
}
static void set_no_vector(struct batch *b)
{
    b->records[0].vector = S("");
}
static void set_far_stack(struct batch *b)
{
    b->records[0].vector = S("\x01\x03\x04\x02");
}
static void set_wrong_total(struct batch *b)
{
    b->records[0].total = 4;
}
static void set_wrong_sibling_total(struct batch *b)
{
    b->records[1].total = 12;
}
static void set_factor_zero(struct batch *b)
{
    b->records[1].factor = 0;
    b->records[1].total = 0;
}
static void set_vector_and_sibling(struct batch *b)
{
    b->records[1].vector = b->records[0].vector;
}
static void set_overflow(struct batch *b)
{
    b->records[1].factor = INT64_MAX;
}
static void set_bad_span(struct batch *b)
{
    b->records[0].spans->vector = S("\x01\x01\x09\x02");
}
static void set_bad_annotation(struct batch *b)
{
    b->records[0].annotations = bad_annotation;
}

static const struct {
    const char *name;
    void (*change)(struct batch *b);
    const char *message;
} changes[] = {
    {"labels out of order", set_unsorted, "batch: series 1: labels are not in order: a"},
    {"label twice", set_twice, "batch: series 1: labels are not in order: a"},
    {"label without name", set_no_name, "series 1: a label has no name or no value"},
    {"label without value", set_no_value, "series 1: a label has no name or no value"},
    {"name not utf-8", set_bad_name, "series 1: a label is not UTF-8"},
    {"value not utf-8", set_bad_value, "series 1: a label is not UTF-8"},
    {"no labels", set_no_labels, "series 1: there are no labels"},
    {"service not utf-8", set_bad_service, "service is not UTF-8"},
    {"no vector", set_no_vector, "record 0: vector: 0 bytes end in its head"},
    {"stack out of range", set_far_stack, "record 0: vector: stack 4 is not below 4"},
    {"wrong total", set_wrong_total, "record 0: total is 4, the sum of the values 3"},
    {"wrong total of a sibling", set_wrong_sibling_total, "record 1: total is 12, the sum of the"},
    {"factor 0", set_factor_zero, "record 1: a sibling's factor and a vector exclude"},
    {"vector and sibling", set_vector_and_sibling, "record 1: a sibling's factor and a vector"},
    {"factor too large", set_overflow, "record 1: the sibling's total times"},
    {"bad span", set_bad_span, "record 0: a span: vector: stack 9 is not below 4"},
    {"bad annotation", set_bad_annotation, "record 0: a label is not UTF-8"},
};

static void what_does_not_hold_together_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct fixture f;
        struct batch b;
        err fault = {0};
        setup(&f);
        changes[i].change(&f.b);
        if (batch_decode(&f.a, encode(&f), &b, &fault)) fail_msg("%s: accepted", changes[i].name);
        if (fault.code != ERR_INVALID_ARGUMENT || !strstr(fault.msg, changes[i].message)) {
            fail_msg("%s: %s", changes[i].name, fault.msg);
        }
        teardown(&f);
    }
}

// A third record, of series 0, as bytes.
static const struct {
    const char *name;
    str id;
    bool fingerprint;
    str more;
    const char *message;  // NULL: accepted
} records[] = {
    {"good", S_INIT("0123456789abcdef"), true, S_INIT("\x3a\x02\x00\x01"), NULL},
    {"sibling", S_INIT("0123456789abcdef"), true, S_INIT("\x40\x01\x48\x02\x50\x06"), NULL},
    {"empty trace", S_INIT("0123456789abcdef"), true,
     S_INIT("\x3a\x02\x00\x01\x5a\x06\x12\x00\x1a\x02\x00\x01"), NULL},
    {"empty first stream", S_INIT("0123456789abcdef"), true, S_INIT("\x3a\x02\x00\x01\x6a\x00"),
     NULL},
    {"no id", S_INIT(""), true, S_INIT("\x3a\x02\x00\x01"), "record 2: there is no id"},
    {"short id", S_INIT("0123456789abcde"), true, S_INIT(""), "the id has 15 bytes instead of 16"},
    {"no fingerprint", S_INIT("0123456789abcdef"), false, S_INIT("\x3a\x02\x00\x01"),
     "the fingerprint is not that of series 0"},
    {"no such series", S_INIT("0123456789abcdef"), true, S_INIT("\x08\x02\x3a\x02\x00\x01"),
     "series 2 is not below 2"},
    {"series past 32 bits", S_INIT("0123456789abcdef"), true, S_INIT("\x08\x80\x80\x80\x80\x10"),
     "series 4294967296 does not fit 32 bits"},
    {"sibling of itself", S_INIT("0123456789abcdef"), true, S_INIT("\x40\x03\x48\x02\x50\x06"),
     "sibling 2 is no earlier record with a vector"},
    {"sibling of a sibling", S_INIT("0123456789abcdef"), true, S_INIT("\x40\x02\x48\x02\x50\x06"),
     "sibling 1 is no earlier record with a vector"},
    {"sibling past 32 bits", S_INIT("0123456789abcdef"), true, S_INIT("\x40\x80\x80\x80\x80\x10"),
     "sibling 4294967296 does not fit"},
    {"attempt past 32 bits", S_INIT("0123456789abcdef"), true, S_INIT("\x60\x80\x80\x80\x80\x10"),
     "attempt 4294967296 does not fit"},
    {"short trace", S_INIT("0123456789abcdef"), true, S_INIT("\x5a\x03\x12\x01x"),
     "a trace id has 1 bytes instead of 16"},
    {"span without vector", S_INIT("0123456789abcdef"), true, S_INIT("\x5a\x00"),
     "a span: vector: 0 bytes"},
    {"short first stream", S_INIT("0123456789abcdef"), true, S_INIT("\x6a\x01x"),
     "the first stream has 1 bytes"},
    {"cut", S_INIT("0123456789abcdef"), true, S_INIT("\x3a\x03\x00"), "protobuf:"},
};

static void every_field_of_a_record_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(records); i++) {
        struct fixture f;
        struct batch b;
        err fault = {0};
        setup(&f);
        encode(&f);
        size_t mark = pb_begin(&f.out, 4);
        if (records[i].fingerprint) {
            pb_put_fixed64_opt(&f.out, 2, labels_fingerprint(f.b.series[0]));
        }
        if (records[i].id.n) pb_put_bytes(&f.out, 4, records[i].id);
        buf_str(&f.out, records[i].more);
        pb_end(&f.out, mark);
        str bytes = str_make(tail_guard(f.out.p, f.out.n), f.out.n);
        bool ok = batch_decode(&f.a, bytes, &b, &fault);
        if (ok != !records[i].message) fail_msg("%s: %d %s", records[i].name, ok, fault.msg);
        if (!ok && (fault.code != ERR_INVALID_ARGUMENT || !strstr(fault.msg, records[i].message))) {
            fail_msg("%s: %s", records[i].name, fault.msg);
        }
        teardown(&f);
    }
}

static void symbols_occur_once(void **state)
{
    (void)state;
    struct fixture f;
    struct batch b;
    err fault = {0};
    setup(&f);
    encode(&f);
    pb_put_bytes(&f.out, 3, S(""));
    assert_false(batch_decode(&f.a, buf_view(&f.out), &b, &fault));
    assert_string_equal(fault.msg, "batch: symbols occur twice");
    teardown(&f);
}

static void every_cut_is_refused_or_has_fewer_records(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    str bytes = encode(&f);
    for (size_t n = 0; n < bytes.n; n++) {
        struct batch b;
        err fault = {0};
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        bool ok = batch_decode(&a, str_make(tail_guard(bytes.p, n), n), &b, &fault);
        if (ok) assert_true(b.record_count < 2);
        if (!ok) assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
    teardown(&f);
}

// No flipped bit makes the decoder read past the end or accept a dangling reference.
static void flipped_bits_are_refused_or_consistent(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    str bytes = encode(&f);
    uint8_t *copy = arena_new(&f.a, bytes.n);
    for (size_t bit = 0; bit < bytes.n * 8; bit++) {
        struct batch b;
        err fault = {0};
        struct arena a;
        memcpy(copy, bytes.p, bytes.n);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        arena_init(&a, NULL, 1 << 20);
        if (batch_decode(&a, str_make(copy, bytes.n), &b, &fault)) {
            struct buf again;
            buf_init(&again, NULL, 1 << 20);
            assert_ok(batch_encode(&b, &a, &again, e));
            assert_ok(batch_decode(&a, buf_view(&again), &b, e));
            buf_release(&again);
        } else {
            assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
        }
        arena_release(&a);
    }
    teardown(&f);
}

// ---- lexicons

// The rows behind the first `had` of each table, as a message of their own.
static void tell(struct fixture *f, struct symbol_counts had, struct buf *out)
{
    struct batch b = f->b;
    b.has_lexicon = true;
    b.lexicon = (id128){{1, 2, 3}};
    b.had = had;
    b.symbols = symbols_rest(&f->b.symbols, &had);
    buf_clear(out);
    assert_ok(batch_encode(&b, &f->a, out, e));
}

static void rows_of_a_lexicon_keep_their_numbers(void **state)
{
    (void)state;
    struct fixture f;
    struct buf out;
    setup(&f);
    buf_init(&out, NULL, 1 << 20);
    const struct symbol_table *t = &f.b.symbols;
    const struct symbol_counts all = symbols_counts(t);
    const struct symbol_counts cases[] = {
        {1, 1, 1, 1, 1},
        {all.strings - 1, all.functions - 1, 1, all.frames - 1, all.stacks - 1},
        {all.strings, all.functions, all.mappings, all.frames, all.stacks - 1},
        all,
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct batch b;
        tell(&f, cases[i], &out);
        assert_ok(batch_decode(&f.a, buf_view(&out), &b, e));
        assert_true(b.has_lexicon && b.lexicon.b[2] == 3);
        assert_memory_equal(&b.had, &cases[i], sizeof b.had);
        assert_int_equal(batch_stacks(&b), all.stacks);
        for (uint32_t k = 1; k < b.symbols.stack_count; k++) {
            struct symbol_stack want = t->stacks[cases[i].stacks + k - 1];
            assert_int_equal(b.symbols.stacks[k].parent, want.parent);
            assert_int_equal(b.symbols.stacks[k].frame, want.frame);
        }
        for (uint32_t k = 1; k < b.symbols.string_count; k++)
            assert_true(str_eq(b.symbols.strings[k], t->strings[cases[i].strings + k - 1]));
    }
    buf_release(&out);
    teardown(&f);
}

static void a_lexicon_that_does_not_hold_together_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct buf out;
    struct buf bad;
    struct batch b;
    err fault = {0};
    setup(&f);
    buf_init(&out, NULL, 1 << 20);
    buf_init(&bad, NULL, 1 << 20);
    const struct symbol_counts all = symbols_counts(&f.b.symbols);
    static const struct symbol_counts none = {1, 1, 1, 1, 1};
    // The stacks of its vectors are not told, nor before.
    struct symbol_counts few = {all.strings, all.functions, all.mappings, all.frames, 1};
    tell(&f, few, &out);
    struct batch less = f.b;
    less.has_lexicon = true;
    less.had = few;
    less.symbols = symbols_rest(&f.b.symbols, &all);
    assert_ok(batch_encode(&less, &f.a, &bad, e));
    assert_false(batch_decode(&f.a, buf_view(&bad), &b, &fault));
    assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    // Rows that name others which nobody has.
    less.symbols = symbols_rest(&f.b.symbols, &few);
    less.had = none;
    buf_clear(&bad);
    assert_ok(batch_encode(&less, &f.a, &bad, e));
    assert_false(batch_decode(&f.a, buf_view(&bad), &b, &fault));
    assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    // Beside symbols, twice, without an id, with too many rows.
    static const uint8_t id[16] = {9};
    for (unsigned i = 0; i < 5; i++) {
        tell(&f, none, &bad);
        if (i == 0) pb_put_bytes(&bad, 3, S(""));
        if (i == 1) pb_put_bytes(&bad, 5, S(""));
        if (i > 1) {
            buf_clear(&bad);
            size_t m = pb_begin(&bad, 5);
            if (i != 2) pb_put_bytes(&bad, 1, str_make(id, i == 3 ? 15 : 16));
            pb_put_u64(&bad, 6, i == 4 ? UINT32_MAX : 1);
            pb_end(&bad, m);
        }
        assert_false(batch_decode(&f.a, buf_view(&bad), &b, &fault));
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    }
    buf_release(&out);
    buf_release(&bad);
    teardown(&f);
}

static bool round_trip(void *arg, err *e)
{
    const struct batch *b = arg;
    struct arena a;
    struct buf out;
    struct batch back;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    bool ok = batch_encode(b, &a, &out, e) && batch_decode(&a, buf_view(&out), &back, e);
    buf_release(&out);
    arena_release(&a);
    return ok;
}

static void coding_survives_failing_allocations(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    assert_true(torture(round_trip, &f.b) > 3);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(an_empty_batch_is_one),
        cmocka_unit_test(fields_come_in_any_order),
        cmocka_unit_test(what_does_not_hold_together_is_refused),
        cmocka_unit_test(every_field_of_a_record_is_checked),
        cmocka_unit_test(symbols_occur_once),
        cmocka_unit_test(every_cut_is_refused_or_has_fewer_records),
        cmocka_unit_test(flipped_bits_are_refused_or_consistent),
        cmocka_unit_test(rows_of_a_lexicon_keep_their_numbers),
        cmocka_unit_test(a_lexicon_that_does_not_hold_together_is_refused),
        cmocka_unit_test(coding_survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
