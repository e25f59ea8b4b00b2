// SPDX-License-Identifier: Apache-2.0
//
// JSON of messages: many spellings come in, one goes out.
#include "codec/pb.h"
#include "codec/pbjson.h"
#include "lib/sample.h"
#include "lib/test.h"

static struct sample *parse(struct arena *a, str json, err *e)
{
    const uint8_t *p = tail_guard(json.p, json.n);
    ProtobufCMessage *m = pbjson_parse(a, &sample_descriptor, str_make(p, json.n), e);
    return (struct sample *)(void *)m;
}

// JSON in, JSON out.
static void texts_come_out_canonical(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;  // want NULL: as it came in
    } cases[] = {
        {"{}", NULL},
        {" { } ", "{}"},
        {"{\"i32\":-7,\"u64\":\"18446744073709551615\",\"s64\":\"-9223372036854775808\"}", NULL},
        {"{\"u64\":18446744073709551615,\"s64\":-1}",
         "{\"u64\":\"18446744073709551615\",\"s64\":\"-1\"}"},
        {"{\"i32\":\"5\",\"f32\":4294967295}", "{\"i32\":5,\"f32\":4294967295}"},
        {"{\"i32\":1.50e1}", "{\"i32\":15}"},
        {"{\"s64\":9223372036854775807.0}", "{\"s64\":\"9223372036854775807\"}"},
        {"{\"s64\":12e17,\"u64\":100e-2}", "{\"u64\":\"1\",\"s64\":\"1200000000000000000\"}"},
        {"{\"i32\":0.0,\"s64\":-0}", "{}"},
        {"{\"wide\":0.5,\"narrow\":0.1}", NULL},
        {"{\"wide\":\"NaN\",\"narrow\":\"-Infinity\"}", NULL},
        {"{\"wide\":\"1.25\",\"yes\":true}", "{\"wide\":1.25,\"yes\":true}"},
        {"{\"color\":\"COLOR_BLUE\"}", NULL},
        {"{\"color\":1}", "{\"color\":\"COLOR_RED\"}"},
        {"{\"color\":\"COLOR_UNHEARD_OF\"}", "{}"},
        {"{\"color\":77}", "{}"},
        {"{\"color\":-3}", "{}"},
        {"{\"color\":-2147483648}", "{}"},
        {"{\"textPart\":\"a\\u00e9\\n\"}", "{\"textPart\":\"a\xc3\xa9\\n\"}"},
        {"{\"text_part\":\"both spellings\"}", "{\"textPart\":\"both spellings\"}"},
        {"{\"sampleTypeID\":\"x\"}", NULL},
        {"{\"sample_typeID\":\"x\"}", "{\"sampleTypeID\":\"x\"}"},
        {"{\"sampletypeid\":\"no such field\"}", "{}"},
        {"{\"blob\":\"AP8=\"}", NULL},
        {"{\"blob\":\"_-8\"}", "{\"blob\":\"/+8=\"}"},
        {"{\"child\":{}}", NULL},
        {"{\"child\":{\"child\":{\"i32\":1}}}", NULL},
        {"{\"numbers\":[\"1\",\"-2\",\"0\"],\"texts\":[\"\",\"a\"]}", NULL},
        {"{\"children\":[{},{\"i32\":1},{\"children\":[{}]}]}", NULL},
        {"{\"stamps\":[1,\"2\"],\"blobs\":[\"\",\"AA==\"],\"doubles\":[1.5,0]}",
         "{\"stamps\":[\"1\",\"2\"],\"blobs\":[\"\",\"AA==\"],\"doubles\":[1.5,0]}"},
        {"{\"pickNumber\":\"0\"}", NULL},  // presence of its own
        {"{\"pickText\":\"\"}", NULL},
        {"{\"pickChild\":{\"pickNumber\":\"1\"}}", NULL},
        {"{\"i32\":null,\"child\":null,\"texts\":null,\"pickText\":null,\"color\":null}", "{}"},
        {"{\"unknown\":{\"deep\":[1,{\"x\":null}]},\"i32\":1}", "{\"i32\":1}"},
        {"{\"i32\":0,\"textPart\":\"\",\"texts\":[],\"blob\":\"\",\"yes\":false}", "{}"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        err e = {0};
        struct sample *m = parse(&a, str_of(cases[i].in), &e);
        if (!m) fail_msg("%s: %s", cases[i].in, e.msg);
        struct buf b;
        buf_init(&b, NULL, 1 << 20);
        pbjson_print(&m->base, &b);
        const char *want = cases[i].want ? cases[i].want : cases[i].in;
        if (!str_is(buf_view(&b), want)) fail_msg("%s: %.*s", cases[i].in, STR(buf_view(&b)));

        buf_clear(&b);  // and by way of the wire
        pb_pack(&m->base, &b);
        ProtobufCMessage *wire = pb_unpack(&a, &sample_descriptor, buf_view(&b), &e);
        assert_non_null(wire);
        buf_release(&b);
        buf_init(&b, NULL, 1 << 20);
        pbjson_print(wire, &b);
        if (!str_is(buf_view(&b), want)) fail_msg("wire %s: %.*s", want, STR(buf_view(&b)));
        buf_release(&b);
        arena_release(&a);
    }
}

static void values_of_the_wrong_kind_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"", "syntax error at byte 0: unexpected end of the text"},
        {"[]", "the JSON value is not an object"},
        {"null", "the JSON value is not an object"},
        {"{\"i32\":1", "syntax error at byte 8: unexpected end of the text"},
        {"{\"invalid json\"", "syntax error at byte 15: unexpected end of the text"},
        {"{} x", "syntax error at byte 3: unexpected character 'x'"},
        {"{\"i32\":2147483648}", "invalid value for field i32: not an int32"},
        {"{\"i32\":1.5}", "invalid value for field i32: not an int32"},
        {"{\"i32\":\"\"}", "invalid value for field i32: not an int32"},
        {"{\"i32\":\" 1\"}", "invalid value for field i32: not an int32"},
        {"{\"i32\":\"+1\"}", "invalid value for field i32: not an int32"},
        {"{\"i32\":\"now\"}", "invalid value for field i32: not an int32"},
        {"{\"i32\":1e1000}", "invalid value for field i32: not an int32"},
        {"{\"i32\":true}", "invalid value for field i32: not a number or a string"},
        {"{\"i32\":[1]}", "invalid value for field i32: not a number or a string"},
        {"{\"u64\":-1}", "invalid value for field u64: not a uint64"},
        {"{\"u64\":18446744073709551616}", "invalid value for field u64: not a uint64"},
        {"{\"s64\":9223372036854775808}", "invalid value for field s64: not an int64"},
        {"{\"s64\":1e30}", "invalid value for field s64: not an int64"},
        {"{\"f32\":4294967296}", "invalid value for field f32: not a uint32"},
        {"{\"wide\":1e999}", "invalid value for field wide: not a number"},
        {"{\"wide\":\"nan\"}", "invalid value for field wide: not a number"},
        {"{\"narrow\":1e300}", "invalid value for field narrow: not a float"},
        {"{\"yes\":1}", "invalid value for field yes: not a boolean"},
        {"{\"yes\":\"true\"}", "invalid value for field yes: not a boolean"},
        {"{\"color\":1.5}", "invalid value for field color: not an enum value"},
        {"{\"color\":2147483648}", "invalid value for field color: not an enum value"},
        {"{\"color\":-2147483649}", "invalid value for field color: not an enum value"},
        {"{\"textPart\":1}", "invalid value for field text_part: not a string"},
        {"{\"textPart\":\"a\\u0000b\"}",
         "invalid value for field text_part: not a string without U+0000"},
        {"{\"blob\":\"?\"}", "invalid value for field blob: base64 text is cut"},
        {"{\"blob\":\"AA?A\"}",
         "invalid value for field blob: illegal base64 data at input byte 2"},
        {"{\"child\":[]}", "invalid value for field child: not an object"},
        {"{\"texts\":\"a\"}", "invalid value for field texts: not an array"},
        {"{\"texts\":{\"0\":\"a\"}}", "invalid value for field texts: not an array"},
        {"{\"texts\":[null]}", "invalid value for field texts: not a string"},
        {"{\"children\":[[]]}", "invalid value for field children: not an object"},
        {"{\"numbers\":[[1]]}", "invalid value for field numbers: not a number or a string"},
        {"{\"i32\":1,\"i32\":2}", "duplicate field i32"},
        {"{\"textPart\":null,\"text_part\":\"x\"}", "duplicate field text_part"},
        {"{\"texts\":[],\"texts\":[]}", "duplicate field texts"},
        {"{\"pickNumber\":5,\"pickText\":\"t\"}", "the oneof of field pick_text is already set"},
        {"{\"textPart\":\"\xff\"}", "syntax error: the text is not valid UTF-8"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        err e = {0};
        if (parse(&a, str_of(cases[i].in), &e)) fail_msg("%s was accepted", cases[i].in);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        if (strcmp(e.msg, cases[i].want) != 0) fail_msg("%s: %s", cases[i].in, e.msg);
        arena_release(&a);
    }
}

static void nest(struct buf *b, int depth)
{
    buf_init(b, NULL, 1 << 20);
    for (int i = 0; i < depth; i++)
        buf_z(b, "{\"child\":");
    buf_z(b, "{}");
    for (int i = 0; i < depth; i++)
        buf_byte(b, '}');
}

static void nesting_is_limited(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct buf b;
    err e = {0};
    nest(&b, 99);
    struct sample *m = parse(&a, buf_view(&b), &e);
    assert_non_null(m);
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    pbjson_print(&m->base, &out);
    assert_true(str_eq(buf_view(&out), buf_view(&b)));
    buf_release(&out);
    buf_release(&b);
    nest(&b, 100);
    assert_null(parse(&a, buf_view(&b), &e));
    assert_string_equal(e.msg, "nested deeper than 100 levels");
    buf_release(&b);
    arena_release(&a);
}

static bool parse_once(void *arg, err *e)
{
    (void)arg;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    ProtobufCMessage *m =
        pbjson_parse(&a, &sample_descriptor,
                     S("{\"children\":[{\"texts\":[\"a\\n\",\"b\"],\"blob\":\"AAAA\"},{},{},{}],"
                       "\"numbers\":[1,2,3,4,5,6,7,8,9,10],\"pickText\":\"x\"}"),
                     e);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    if (m) pbjson_print(m, &b);
    bool ok = m && buf_ok(&b, e);
    buf_release(&b);
    arena_release(&a);
    return ok;
}

static void parsing_and_printing_survive_malloc_failures(void **state)
{
    (void)state;
    assert_true(torture(parse_once, NULL) >= 3);
}

static void arrays_end_at_the_cap(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    buf_z(&b, "{\"children\":[{}");
    for (int i = 0; i < 10000; i++)
        buf_z(&b, ",{}");
    buf_z(&b, "]}");
    struct arena a;
    arena_init(&a, NULL, 1 << 18);
    err e = {0};
    assert_null(parse(&a, buf_view(&b), &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_out_canonical),
        cmocka_unit_test(values_of_the_wrong_kind_are_refused),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(parsing_and_printing_survive_malloc_failures),
        cmocka_unit_test(arrays_end_at_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
