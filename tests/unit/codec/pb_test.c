// SPDX-License-Identifier: Apache-2.0
//
// The wire format of protobuf: reading, writing, and the scan that bounds what a message makes
// protobuf-c allocate.
#include "codec/pb.h"
#include "lib/sample.h"
#include "lib/test.h"

static void varints_go_there_and_back(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 64; shift++) {
        for (int d = -1; d <= 1; d++) {
            uint64_t v = (1ull << shift) + (uint64_t)d;
            uint8_t bytes[VARINT_MAX];
            size_t n = varint_put(bytes, v);
            const uint8_t *guarded = tail_guard(bytes, n);
            const uint8_t *at = guarded;
            uint64_t back = 0;
            assert_true(varint_get(&at, guarded + n, &back));
            assert_true(back == v && at == guarded + n);
            assert_true(unzigzag(zigzag((int64_t)v)) == (int64_t)v);
            for (size_t cut = 0; cut < n; cut++) {
                at = guarded;
                assert_false(varint_get(&at, guarded + cut, &back));
                assert_ptr_equal(at, guarded);
            }
        }
    }
    static const uint8_t too_large[] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 2};
    const uint8_t *at = too_large;
    uint64_t v = 0;
    assert_false(varint_get(&at, too_large + sizeof too_large, &v));
}

// Numbers of all lengths are passed over as reading them one by one does.
static void varints_are_passed_over(void **state)
{
    (void)state;
    uint8_t bytes[64 * VARINT_MAX];
    size_t ends[64] = {0};
    size_t n = 0;
    for (unsigned i = 0; i < 64; i++) {
        n += varint_put(bytes + n, UINT64_C(1) << (i * 37 % 64 / (1 + i % 5)));
        ends[i] = n;
    }
    const uint8_t *guarded = tail_guard(bytes, n);
    assert_ptr_equal(varint_skip(guarded, guarded + n, 0), guarded);
    for (unsigned i = 0; i < 64; i++) {
        assert_ptr_equal(varint_skip(guarded, guarded + n, i + 1), guarded + ends[i]);
        assert_ptr_equal(varint_skip(guarded, guarded + ends[i], i + 1), guarded + ends[i]);
        assert_null(varint_skip(guarded, guarded + ends[i] - 1, i + 1));
    }
    assert_null(varint_skip(guarded, guarded + n, 65));
    assert_null(varint_skip(guarded, guarded + n, UINT64_MAX));
}

static void reader_walks_every_wire_type(void **state)
{
    (void)state;
    str m = S("\x08\x96\x01"                          // 1: varint 150
              "\x11\x01\x02\x03\x04\x05\x06\x07\x08"  // 2: fixed64
              "\x1a\x03"                              // 3: "abc"
              "abc"
              "\x25\x01\x02\x03\x04"  // 4: fixed32
              "\x2a\x00");            // 5: empty
    struct pb_reader r = pb_reader(m);
    assert_true(pb_next(&r) && r.field == 1 && r.type == PB_VARINT && r.number == 150);
    assert_true(pb_next(&r) && r.field == 2 && r.type == PB_FIXED64);
    assert_true(r.number == 0x0807060504030201u);
    assert_true(pb_next(&r) && r.field == 3 && r.type == PB_BYTES && str_is(r.bytes, "abc"));
    assert_true(pb_next(&r) && r.field == 4 && r.type == PB_FIXED32 && r.number == 0x04030201u);
    assert_true(pb_next(&r) && r.field == 5 && r.bytes.n == 0);
    assert_false(pb_next(&r));
    assert_ok(pb_done(&r, e));
    r = pb_reader((str){0});
    assert_false(pb_next(&r));
    assert_ok(pb_done(&r, e));
}

static void reader_refuses_what_can_never_be_right(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str bytes;
    } cases[] = {
        {"field number 0", S_INIT("\x00\x01")},
        {"field number beyond 2^29-1", S_INIT("\x80\x80\x80\x80\x10\x01")},
        {"tag of six bytes", S_INIT("\x88\x80\x80\x80\x80\x00\x01")},
        {"cut tag", S_INIT("\x88")},
        {"cut varint", S_INIT("\x08\x96")},
        {"varint of more than 64 bits", S_INIT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")},
        {"cut fixed64", S_INIT("\x09\x01\x02\x03\x04\x05\x06\x07")},
        {"cut fixed32", S_INIT("\x0d\x01\x02\x03")},
        {"length past the end", S_INIT("\x0a\x04"
                                       "abc")},
        {"length of 2^63", S_INIT("\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")},
        {"start of a group", S_INIT("\x0b\x0c")},
        {"wire type 6", S_INIT("\x0e\x01")},
        {"wire type 7", S_INIT("\x0f\x01")},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint8_t *p = tail_guard(cases[i].bytes.p, cases[i].bytes.n);
        struct pb_reader r = pb_reader(str_make(p, cases[i].bytes.n));
        while (pb_next(&r)) {
        }
        err e = {0};
        if (pb_done(&r, &e)) fail_msg("%s", cases[i].name);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_false(pb_next(&r));
    }
}

static void repeated_numbers_are_read_packed_or_not(void **state)
{
    (void)state;
    str m = S("\x0a\x04\x01\x96\x01\x03"
              "\x08\x05"
              "\x0a\x00");
    uint64_t seen[16];
    size_t n = 0;
    struct pb_reader r = pb_reader(m);
    while (pb_next(&r)) {
        const uint8_t *at = NULL;
        uint64_t v = 0;
        while (pb_packed_next(&r, &at, &v))
            seen[n++] = v;
    }
    assert_ok(pb_done(&r, e));
    static const uint64_t want[] = {1, 150, 3, 5};
    assert_int_equal(n, COUNT(want));
    assert_memory_equal(seen, want, sizeof want);

    r = pb_reader(S("\x0a\x01\x80"));  // is cut
    assert_true(pb_next(&r));
    const uint8_t *at = NULL;
    uint64_t v = 0;
    assert_false(pb_packed_next(&r, &at, &v));
    assert_false(pb_next(&r));
    err why = {0};
    assert_false(pb_done(&r, &why));
}

static void writer_leaves_out_zeros_and_nests(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    pb_put_u64_opt(&b, 1, 0);
    pb_put_u64(&b, 1, 0);
    pb_put_i64_opt(&b, 2, -1);
    pb_put_double_opt(&b, 3, 0.0);
    pb_put_double_opt(&b, 3, -0.0);
    pb_put_bytes_opt(&b, 4, (str){0});
    pb_put_bytes(&b, 4, (str){0});
    size_t outer = pb_begin(&b, 5);
    size_t inner = pb_begin(&b, 6);
    for (int i = 0; i < 200; i++)
        pb_put_varint(&b, 7);
    pb_end(&b, inner);
    pb_end(&b, outer);
    assert_ok(buf_ok(&b, e));

    struct pb_reader r = pb_reader(buf_view(&b));
    assert_true(pb_next(&r) && r.field == 1 && r.number == 0);
    assert_true(pb_next(&r) && r.field == 2 && r.number == UINT64_MAX);
    assert_true(pb_next(&r) && r.field == 3 && r.number == 1ull << 63);
    assert_true(pb_next(&r) && r.field == 4 && r.bytes.n == 0);
    assert_true(pb_next(&r) && r.field == 5 && r.bytes.n == 203);
    struct pb_reader in = pb_reader(r.bytes);
    assert_true(pb_next(&in) && in.field == 6 && in.bytes.n == 200);
    assert_false(pb_next(&r));
    assert_ok(pb_done(&r, e));
    buf_release(&b);

    buf_init(&b, NULL, 4);  // failure is sticky, ends included
    outer = pb_begin(&b, 5);
    pb_put_bytes(&b, 6, S("abcdef"));
    pb_end(&b, outer);
    assert_true(b.failed);
    buf_release(&b);
}

static struct sample *unpack(struct arena *a, str bytes)
{
    err e = {0};
    const uint8_t *p = tail_guard(bytes.p, bytes.n);
    ProtobufCMessage *m = pb_unpack(a, &sample_descriptor, str_make(p, bytes.n), &e);
    if (!m) fail_msg("%s: %s", err_name(e.code), e.msg);
    return (struct sample *)(void *)m;
}

static void messages_unpack_and_pack(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    str bytes = S("\x08\x07"           // i32 7
                  "\x42\x02hi"         // text_part
                  "\x4a\x02\x00\xff"   // blob
                  "\x52\x02\x08\x01"   // child {i32 1}
                  "\x5a\x02\x01\x02"   // numbers 1, 2
                  "\x62\x01x\x62\x00"  // texts "x", ""
                  "\x6a\x00"           // children {}
                  "\x8a\x01\x01t");    // pick_text
    struct sample *m = unpack(&a, bytes);
    assert_int_equal(m->i32, 7);
    assert_string_equal(m->text_part, "hi");
    assert_true(str_eq(pb_blob(m->blob), S("\x00\xff")));
    assert_int_equal(m->child->i32, 1);
    assert_int_equal(m->n_numbers, 2);
    assert_int_equal(m->numbers[1], 2);
    assert_int_equal(m->n_texts, 2);
    assert_string_equal(m->texts[1], "");
    assert_int_equal(m->n_children, 1);
    assert_int_equal(m->pick_case, 17);
    assert_string_equal(m->pick_text, "t");
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    pb_pack(&m->base, &b);
    assert_true(str_eq(buf_view(&b), bytes));
    buf_release(&b);
    buf_init(&b, NULL, 3);
    pb_pack(&m->base, &b);
    assert_true(b.failed);
    buf_release(&b);

    m = unpack(&a, (str){0});
    buf_init(&b, NULL, 0);
    pb_pack(&m->base, &b);  // empty: fits even where nothing fits
    assert_ok(buf_ok(&b, e));
    arena_release(&a);
}

static void unknown_fields_survive(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    str bytes = S("\x08\x07\xc2\x3e\x03xyz");
    struct sample *m = unpack(&a, bytes);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    pb_pack(&m->base, &b);
    assert_true(str_eq(buf_view(&b), bytes));
    buf_release(&b);
    arena_release(&a);
}

static void bad_messages_are_refused_with_the_field_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str bytes;
        const char *want;
    } cases[] = {
        {"NUL in a string",
         S_INIT("\x42\x03"
                "a\0b"),
         "protobuf: Sample.text_part: a string holds a NUL byte"},
        {"bad UTF-8", S_INIT("\x62\x01\xff"),
         "protobuf: Sample.texts: a string is not valid UTF-8"},
        {"bad UTF-8 in a child", S_INIT("\x52\x03\x42\x01\xff"),
         "protobuf: Sample.text_part: a string is not valid UTF-8"},
        {"wrong wire type", S_INIT("\x42\x01z\x40\x01"),
         "protobuf: Sample.text_part: has the wrong wire type"},
        {"number where bytes belong", S_INIT("\x0a\x01z"),
         "protobuf: Sample.i32: has the wrong wire type"},
        {"cut pack", S_INIT("\x5a\x01\x80"),
         "protobuf: Sample.numbers: a packed varint is cut or too long"},
        {"cut fixed pack",
         S_INIT("\x72\x03"
                "abc"),
         "protobuf: Sample.stamps: a packed number is cut"},
        {"child in two pieces", S_INIT("\x52\x00\x52\x00"), "protobuf: Sample.child: occurs twice"},
        {"cut message", S_INIT("\x52\x05\x08"), "Sample: protobuf: a length reaches past the end"},
        {"cut child", S_INIT("\x52\x01\x08"), "Sample: protobuf: a varint is cut or too long"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        err e = {0};
        if (pb_unpack(&a, &sample_descriptor, cases[i].bytes, &e)) fail_msg("%s", cases[i].name);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_string_equal(e.msg, cases[i].want);
        arena_release(&a);
    }
}

static str nested(struct buf *b, int depth)
{
    buf_init(b, NULL, 1 << 24);
    size_t marks[200];
    for (int i = 0; i < depth; i++)
        marks[i] = pb_begin(b, 10);
    for (int i = depth; i-- > 0;)
        pb_end(b, marks[i]);
    return buf_view(b);
}

static void nesting_is_limited(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct buf b;
    err e = {0};
    assert_non_null(pb_unpack(&a, &sample_descriptor, nested(&b, 99), &e));
    buf_release(&b);
    assert_null(pb_unpack(&a, &sample_descriptor, nested(&b, 100), &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    assert_string_equal(e.msg, "protobuf: nested deeper than 100 messages");
    buf_release(&b);
    arena_release(&a);
}

static void amplification_is_refused_before_memory_is_taken(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    for (int i = 0; i < 100000; i++)
        buf_str(&b, S("\x6a\x00"));  // 200 KB of empty children
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    err e = {0};
    assert_null(pb_unpack(&a, &sample_descriptor, buf_view(&b), &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(a.used, 0);
    arena_release(&a);
    buf_release(&b);
}

// The scan counts what unpacking takes at least; the rest ends at the arena's cap.
static void every_cap_holds(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 16);
    for (int i = 0; i < 20; i++) {
        size_t child = pb_begin(&b, 13);
        pb_put_bytes(&b, 8, S("text"));
        pb_put_bytes(&b, 12, S("text"));
        pb_put_bytes(&b, 15, S("blob"));
        pb_put_bytes(&b, 99, S("unknown"));
        for (int k = 0; k < 20; k++)
            pb_put_u64(&b, 11, 5);
        pb_end(&b, child);
    }
    int fitted = 0;
    for (size_t cap = 0; cap < 60000; cap += 16) {
        struct arena a;
        arena_init(&a, NULL, cap);
        err e = {0};
        if (pb_unpack(&a, &sample_descriptor, buf_view(&b), &e)) {
            fitted++;
        } else {
            assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
            assert_int_equal(fitted, 0);
        }
        arena_release(&a);
    }
    assert_int_not_equal(fitted, 0);
    buf_release(&b);
}

static bool unpack_once(void *arg, err *e)
{
    str *bytes = arg;
    struct arena a;
    arena_init(&a, NULL, 1 << 24);
    bool ok = pb_unpack(&a, &sample_descriptor, *bytes, e) != NULL;
    arena_release(&a);
    return ok;
}

static void unpacking_survives_malloc_failures(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    for (int i = 0; i < 40; i++) {
        size_t child = pb_begin(&b, 13);
        pb_put_bytes(&b, 8, S("text"));
        pb_put_bytes(&b, 12, S("text"));
        pb_put_bytes(&b, 9, S("blob"));
        pb_put_bytes(&b, 99, S("unknown"));
        for (int k = 0; k < 30; k++)
            pb_put_u64(&b, 11, 5);
        pb_end(&b, child);
        pb_put_bytes(&b, 13, S("\x42\x01x"));
    }
    str bytes = buf_view(&b);
    assert_true(torture(unpack_once, &bytes) >= 2);
    buf_release(&b);
}

static void strings_for_messages_are_never_null(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 16);
    assert_string_equal(pb_z(&a, S("abc")), "abc");
    assert_string_equal(pb_z(&a, S("abcdefghijklmnop")), "");
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints_go_there_and_back),
        cmocka_unit_test(varints_are_passed_over),
        cmocka_unit_test(reader_walks_every_wire_type),
        cmocka_unit_test(reader_refuses_what_can_never_be_right),
        cmocka_unit_test(repeated_numbers_are_read_packed_or_not),
        cmocka_unit_test(writer_leaves_out_zeros_and_nests),
        cmocka_unit_test(messages_unpack_and_pack),
        cmocka_unit_test(unknown_fields_survive),
        cmocka_unit_test(bad_messages_are_refused_with_the_field_named),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(amplification_is_refused_before_memory_is_taken),
        cmocka_unit_test(every_cap_holds),
        cmocka_unit_test(unpacking_survives_malloc_failures),
        cmocka_unit_test(strings_for_messages_are_never_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
