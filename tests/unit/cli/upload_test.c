// SPDX-License-Identifier: Apache-2.0
#include "codec/pb.h"
#include "deploy/cli/cli_upload.h"
#include "lib/test.h"

static void content_tells_the_format(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *bytes;
        size_t n;
        enum upload_format format;  // AUTO: refused
    } cases[] = {
        {"collapsed", "main;work 12\n", 13, UPLOAD_FOLDED},
        {"names with spaces", "main loop;f (x) 3", 17, UPLOAD_FOLDED},
        {"jfr", "FLR\0\0\2", 6, UPLOAD_JFR},
        {"json", " {\"shared\":1}", 13, UPLOAD_AUTO},
        {"speedscope", "{\"a\":\"https://www.speedscope.app/file-format-schema.json\"}", 58,
         UPLOAD_SPEEDSCOPE},
        {"pprof", "\x0a\x02\x08\x01\x32\x00", 6, UPLOAD_PPROF},
        {"compressed twice", "\x1f\x8b\x08 7\n", 6, UPLOAD_AUTO},
        {"empty", "", 0, UPLOAD_AUTO},
        {"prose", "hello world\n", 12, UPLOAD_AUTO},
        {"field 19", "\x9a\x01\x00", 3, UPLOAD_AUTO},
        {"cut pprof", "\x0a\x09\x08", 3, UPLOAD_AUTO},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        enum upload_format got = UPLOAD_AUTO;
        err e = {0};
        str bytes = str_make(tail_guard(cases[i].bytes, cases[i].n), cases[i].n);
        bool ok = upload_detect(bytes, &got, &e);
        if (ok != (cases[i].format != UPLOAD_AUTO) || (ok && got != cases[i].format))
            fail_msg("%s: %d, %d, %s", cases[i].name, ok, (int)got, e.msg);
    }
}

static void service_is_the_name_up_to_its_dot(void **state)
{
    (void)state;
    assert_true(str_is(upload_service(S("/x.y/checkout.cpu.pb.gz")), "checkout"));
    assert_true(str_is(upload_service(S("checkout")), "checkout"));
    assert_true(str_is(upload_service(S("-")), "stdin"));
    assert_true(str_is(upload_service(S("a/.hidden")), ".hidden"));
}

static void time_is_replaced_wherever_it_stands(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1000);
    // string_table "", time 5, sample type, time 6 again
    str before = S("\x32\x00\x48\x05\x0a\x02\x08\x01\x48\x06");
    assert_ok(upload_set_time(before, 300, &b, e));
    assert_true(str_eq(buf_view(&b), S("\x32\x00\x0a\x02\x08\x01\x48\xac\x02")));
    err e = {0};
    buf_clear(&b);
    assert_false(upload_set_time(S("\x32\x05x"), 300, &b, &e));
    buf_release(&b);
}

static void text_goes_through_ingest(void **state)
{
    (void)state;
    static const struct {
        const char *service;
        const char *key;
        const char *value;
        const char *path;  // NULL: refused
    } cases[] = {
        {"shop", "a", "b",
         "/ingest?name=shop.cpu%7Ba%3Db%7D&format=folded&spyName=flametree"
         "&from=7&until=7&sampleRate=100"},
        {"my shop", "a", "b",
         "/ingest?name=upload.cpu%7Ba%3Db%2Cservice_name%3Dmy%20shop%7D&format=folded"
         "&spyName=flametree&from=7&until=7&sampleRate=100"},
        {"shop", "a", "b,c", NULL},
        {"shop", "a", "b}", NULL},
        {"shop", "a", " b", NULL},
        {"shop", "profile_id", "b", NULL},
        {"shop", "pyroscope_spy", "b", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        label ls[] = {{S("service_name"), str_of(cases[i].service)},
                      {str_of(cases[i].key), str_of(cases[i].value)}};
        struct upload_options o = {.labels = ls,
                                   .label_count = COUNT(ls),
                                   .now_ns = 7,
                                   .sample_rate = 100,
                                   .sample_rate_given = true};
        struct upload u;
        err e = {0};
        bool ok = upload_make(&a, &o, S("x"), S("a;b 1\n"), &u, &e);
        if (ok != (cases[i].path != NULL)) fail_msg("%s: %s", cases[i].value, e.msg);
        if (ok) assert_string_equal(u.path, cases[i].path);
        upload_release(&u);
        arena_release(&a);
    }
}

// The name of a recording has no type behind a dot, so a dot of the service would be taken for one.
static void a_recording_of_a_service_with_a_dot_goes_under_another_name(void **state)
{
    (void)state;
    struct arena a;
    struct upload u;
    arena_init(&a, NULL, 1 << 20);
    label ls[] = {{S("service_name"), S("api.v2")}};
    struct upload_options o = {.labels = ls, .label_count = COUNT(ls), .now_ns = 7};
    assert_ok(upload_make(&a, &o, S("x"), S("FLR\0\0\2\0\0"), &u, e));
    assert_string_equal(u.path, "/ingest?name=upload%7Bservice_name%3Dapi.v2%7D&format=jfr"
                                "&spyName=flametree&from=7&until=7");
    upload_release(&u);
    assert_ok(upload_make(&a, &o, S("x"), S("a;b 1\n"), &u, e));
    assert_string_equal(u.path, "/ingest?name=api.v2.cpu%7B%7D&format=folded"
                                "&spyName=flametree&from=7&until=7");
    upload_release(&u);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_tells_the_format),
        cmocka_unit_test(service_is_the_name_up_to_its_dot),
        cmocka_unit_test(time_is_replaced_wherever_it_stands),
        cmocka_unit_test(text_goes_through_ingest),
        cmocka_unit_test(a_recording_of_a_service_with_a_dot_goes_under_another_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
