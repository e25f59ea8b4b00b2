// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "decode/decode.h"
#include "distributor/ingest_type.h"
#include "lib/test.h"

static struct profile *folded(struct arena *a, const char *text)
{
    static struct profile none;
    struct decoded d = {&none, 0};
    assert_ok(decode_folded(a, str_of(text), &(struct decode_options){0}, &d, e));
    return d.profiles;
}

static const struct {
    const char *app;
    const char *rest;  // NULL: refused
    const char *id;    // name:type:unit:period type:period unit
    int64_t rate;
    int64_t value;  // of a count of 2
} types[] = {
    {"app", "app", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 100, 20000000},
    {"app.cpu", "app", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 100, 20000000},
    {"a.b.itimer", "a.b", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 97, 20618556},
    {"app.cpu", "app", "process_cpu:samples:count::", 0, 2},
    {"app.wall", "app", "wall:wall:nanoseconds:cpu:nanoseconds", 1, 2000000000},
    {"app.microseconds", "app", "wall:wall:nanoseconds:cpu:nanoseconds", 100, 20000000},
    {"app.alloc_space", "app", "memory:alloc_space:bytes::", 100, 2},
    {"app.goroutines", "app", "goroutine:goroutines:count::", 100, 2},
    {"app.lock_duration", "app", "block:delay:nanoseconds::", 100, 2},
    {"app.mutex_count", "app", "mutex:contentions:count::", 100, 2},
    {"app.exceptions", "app", "exceptions:samples:count::", 100, 2},
    {"app.bytes", "app", "memory:samples:bytes::", 100, 2},
    {"shop 2.1", "shop 2.1", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 100, 20000000},
    {"example.org/shop", "example.org/shop", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 100,
     20000000},
    {"Acme.Shop", "Acme.Shop", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 100, 20000000},
    {"shop 2.1.alloc_space", "shop 2.1", "memory:alloc_space:bytes::", 100, 2},
    {"app.none", "app", "samples:samples:count::", 100, 2},
    {"app.cpu", "app", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 2000000000, 2},
    {"app.cpu", "app", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", INGEST_RATE_OF_FILE,
     20000000},
    {"app.foo", NULL, "", 100, 0},
    {"app.", NULL, "", 100, 0},
};

static void check_applied(struct arena *a, size_t i, const struct ingest_type *t)
{
    struct profile *p = folded(a, "x 2\n");
    assert_ok(ingest_type_apply(t, types[i].rate, p, e));
    str id =
        arena_printf(a, "%.*s:%.*s:%.*s:%.*s:%.*s", STR(t->name), STR(p->types[0].type),
                     STR(p->types[0].unit), STR(p->period_type.type), STR(p->period_type.unit));
    bool assumed = types[i].rate == INGEST_RATE_OF_FILE;
    assert_int_equal(p->losses.count[LOSS_ASSUMED_RATE], assumed);
    if (!str_is(id, types[i].id)) fail_msg("%s: %.*s", types[i].app, STR(id));
    assert_true(str_is(t->app, types[i].rest));
    assert_int_equal(p->values[0], types[i].value);
}

static void type_of_text_comes_from_the_suffix(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        struct ingest_type t = {0};
        err why = {0};
        bool ok = ingest_type_of_app(str_of(types[i].app), &t, &why);
        if (ok != (types[i].rest != NULL)) fail_msg("%s: %s", types[i].app, why.msg);
        if (ok) check_applied(&a, i, &t);
        if (!ok) assert_non_null(strstr(why.msg, "unknown profile type: "));
        arena_release(&a);
    }
}

static const struct {
    const char *text;
    const char *values;  // in order; NULL: out of range
} sums[] = {
    {"a;b 1\na;b 2\n", "1 2 "},  // added up when they become vectors
    {"a;b 5\nc 1\na;b -3\n", "2 1 "},
    {"a -1\na;b 2\n", "-1 2 "},
    {"a 9223372036854775807\na 1\nb -1\n", NULL},
};

static void counts_of_a_stack_are_summed_if_one_is_negative(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sums); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        struct profile *p = folded(&a, sums[i].text);
        err why = {0};
        bool ok = ingest_text_sums(&a, p, &why);
        assert_true(ok == (sums[i].values != NULL));
        struct buf b;
        buf_init(&b, NULL, 4096);
        for (uint32_t k = 0; ok && k < p->sample_count; k++)
            buf_printf(&b, "%lld ", (long long)p->values[k]);
        if (ok && !str_is(buf_view(&b), sums[i].values))
            fail_msg("%zu: %.*s", i, STR(buf_view(&b)));
        buf_release(&b);
        arena_release(&a);
    }
}

static void type_refuses_values_that_do_not_fit(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct profile *p = folded(&a, "x 9223372036854775807\n");
    struct ingest_type t = {0};
    err why = {0};
    assert_ok(ingest_type_of_app(S("app"), &t, e));
    assert_false(ingest_type_apply(&t, 100, p, &why));
    assert_int_equal(why.code, ERR_OUT_OF_RANGE);
    arena_release(&a);
}

static const struct {
    const char *types[3];
    const char *config;
    const char *name;
} names[] = {
    {{"samples", "cpu"}, "", "process_cpu"},
    {{"alloc_space", "inuse_space"}, "", "memory"},
    {{"objects", "space"}, "", "memory"},
    {{"sample", "wall"}, "", "wall"},
    {{"goroutine"}, "", "goroutines"},
    {{"contentions", "delay"}, "", "mutex"},
    {{"contentions", "delay"},
     "{\"contentions\":{\"display-name\":\"block_count\",\"units\":\"x\",\"cumulative\":true}}",
     "block"},
    {{"gizmos"}, "", "gizmos"},
    {{"gizmos"}, "{\"gizmos\":{\"display-name\":\"widgets\"}}", "widgets"},
    {{"gizmos"}, "{\"gizmos\":{}}", "gizmos"},
    {{"gizmos", "gadgets"}, "", "gadgets"},
    {{"samples"}, "null", "process_cpu"},
    {{"samples"}, "{}", "samples"},
    {{"samples"}, "{\"gizmos\":{\"display-name\":\"widgets\"}}", "samples"},
    {{"gizmos"}, "[]", NULL},
    {{"gizmos"}, "null x", NULL},
    {{"gizmos"}, "{\"gizmos\":3}", NULL},
    {{"gizmos"}, "{\"gizmos\":{\"display-name\":3}}", NULL},
    {{"gizmos"}, "{", NULL},
    {{"gizmos"}, "{} x", NULL},
};

static void name_of_pprof_comes_from_types_and_configuration(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        struct profile_type t[3] = {0};
        struct profile p = {.types = t};
        for (; p.type_count < 3 && names[i].types[p.type_count]; p.type_count++)
            t[p.type_count].type = str_of(names[i].types[p.type_count]);
        struct ingest_config c = {0};
        err why = {0};
        bool ok = ingest_config_parse(&a, str_of(names[i].config), &c, &why);
        str got = ok ? ingest_pprof_name(&p, &c) : str_of(why.msg);
        if (ok != (names[i].name != NULL) || (ok && !str_is(got, names[i].name))) {
            fail_msg("%zu: %.*s", i, STR(got));
        }
        arena_release(&a);
    }
}

static void scripts_show_the_file(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct profile_function f[] = {{.name = S("f"), .filename = S("/abs/x.rb")},
                                   {.name = S("g"), .filename = S("y.py")}};
    struct profile p = {.functions = f, .function_count = 2};
    assert_true(ingest_pprof_scripts(&a, &p, true));
    assert_true(str_is(f[0].name, "f") && str_is(f[1].name, "y.py g"));
    assert_true(ingest_pprof_scripts(&a, &p, false));
    assert_true(str_is(f[0].name, "/abs/x.rb f"));
    struct profile_type t[] = {{S("alloc-size"), S("bytes")}};
    p = (struct profile){.types = t, .type_count = 1};
    assert_true(ingest_pprof_dashes(&a, &p));
    assert_true(str_is(t[0].type, "alloc_size"));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(type_of_text_comes_from_the_suffix),
        cmocka_unit_test(type_refuses_values_that_do_not_fit),
        cmocka_unit_test(counts_of_a_stack_are_summed_if_one_is_negative),
        cmocka_unit_test(name_of_pprof_comes_from_types_and_configuration),
        cmocka_unit_test(scripts_show_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
