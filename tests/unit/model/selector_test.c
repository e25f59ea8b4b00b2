// SPDX-License-Identifier: Apache-2.0
//
// Selectors are read, refused and matched as Prometheus does it, and a request ends while many are
// compiled.
#include "lib/selector.h"
#include "lib/test.h"

static const char ops[][3] = {"=", "!=", "=~", "!~"};

// name op "value" of each matcher, separated by blanks.
static void print(const struct selector *sel, struct buf *out)
{
    for (size_t i = 0; i < sel->n; i++) {
        if (i > 0) buf_byte(out, ' ');
        buf_str(out, sel->v[i].name);
        buf_z(out, ops[sel->v[i].op]);
        label_quote(sel->v[i].value, out);
        assert_int_equal(sel->v[i].re != NULL, sel->v[i].op >= MATCH_RE);
    }
}

static const struct {
    const char *name;
    const char *text;
    const char *matchers;
} good[] = {
    {"everything", "{}", ""},
    {"blanks", " \t\r\n{ \n } ", ""},
    {"one", "{a=\"b\"}", "a=\"b\""},
    {"all operators", "{a=\"1\",b!=\"2\",c=~\"3\",d!~\"4\"}", "a=\"1\" b!=\"2\" c=~\"3\" d!~\"4\""},
    {"trailing comma", "{a=\"b\",}", "a=\"b\""},
    {"blanks everywhere", "{ a = \"b\" , c != 'd' , }", "a=\"b\" c!=\"d\""},
    {"metric name", "process_cpu{a=\"b\"}", "__name__=\"process_cpu\" a=\"b\""},
    {"metric name alone", "foo", "__name__=\"foo\""},
    {"type id as metric name", "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
     "__name__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\""},
    {"colon first", ":x{}", "__name__=\":x\""},
    {"blanks after the metric name", "foo {a=\"b\"}", "__name__=\"foo\" a=\"b\""},
    {"quoted label name", "{\"k8s.pod\"=\"p\"}", "k8s.pod=\"p\""},
    {"quoted metric name", "{\"foo.bar\",a=\"b\"}", "__name__=\"foo.bar\" a=\"b\""},
    {"quoted metric name last", "{a=\"b\",'foo'}", "a=\"b\" __name__=\"foo\""},
    {"name label", "{__name__=\"x\"}", "__name__=\"x\""},
    {"backticks are raw", "{a=`b\\n\"'\nc`}", "a=\"b\\\\n\\\"'\\nc\""},
    {"escapes", "{a=\"\\a\\b\\f\\n\\r\\t\\v\\\\\\\"\"}", "a=\"\\a\\b\\f\\n\\r\\t\\v\\\\\\\"\""},
    {"single quotes escape themselves", "{a='\\'\"'}", "a=\"'\\\"\""},
    {"octal and hex", "{a=\"\\101\\x42\\u00e9\\U0001F525\"}", "a=\"AB\u00e9\U0001F525\""},
    {"escape to a byte", "{a=\"\\xff\"}", "a=\"\\xff\""},
    {"empty value", "{a=\"\"}", "a=\"\""},
    {"value with braces", "{a=\"{b=\\\"c\\\"}\"}", "a=\"{b=\\\"c\\\"}\""},
    {"same name twice", "{a=\"b\",a!=\"c\"}", "a=\"b\" a!=\"c\""},
    {"comments", "# of it\nfoo # x\n{a=\"b\" # }\n}#", "__name__=\"foo\" a=\"b\""},
    {"utf-8 in values", "{a=\"gr\u00f6\u00dfe\"}", "a=\"gr\u00f6\u00dfe\""},
    {"keyword as label", "{by=\"x\",offset=\"y\"}", "by=\"x\" offset=\"y\""},
    {"regex with groups", "{a=~\"(?i)x|y{1,2}\"}", "a=~\"(?i)x|y{1,2}\""},
};

static void selectors_are_read_as_prometheus_does(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 10000);
    for (size_t i = 0; i < COUNT(good); i++) {
        struct selector sel = {0};
        err e = {0};
        size_t n = strlen(good[i].text);
        if (!selector_parse(&a, str_make(tail_guard(good[i].text, n), n), &sel, &e)) {
            fail_msg("%s: %s", good[i].name, e.msg);
        }
        buf_clear(&b);
        print(&sel, &b);
        if (!str_is(buf_view(&b), good[i].matchers)) {
            fail_msg("%s: %.*s", good[i].name, STR(buf_view(&b)));
        }
    }
    buf_release(&b);
    arena_release(&a);
}

static const struct {
    const char *name;
    str text;
    const char *message;
} bad[] = {
    {"empty", S_INIT(""), "1:1: parse error: no expression found in input"},
    {"blank", S_INIT(" \n\t"), "2:2: parse error: no expression found in input"},
    {"only a comment", S_INIT("# x"), "1:4: parse error: no expression"},
    {"no braces", S_INIT("env=\"x\""), "1:4: parse error: unexpected text"},
    {"no quotes", S_INIT("{env=prod}"), "1:6: parse error: expected a label value in quotes"},
    {"bad regex", S_INIT("{env=~\"[\"}"), "1:7: parse error: error parsing regexp"},
    {"lookahead", S_INIT("{env=~\"(?=x)\"}"), "1:7: parse error: error parsing regexp"},
    {"bad negative regex", S_INIT("{env!~\"*\"}"), "1:7: parse error: error parsing regexp"},
    {"range", S_INIT("{env=\"x\"}[5m]"), "1:10: parse error: unexpected text"},
    {"offset", S_INIT("{env=\"x\"} offset 5m"), "1:11: parse error: unexpected text"},
    {"double comma", S_INIT("{env=\"x\",,a=\"b\"}"), "1:10: parse error: expected a label name"},
    {"only a comma", S_INIT("{,}"), "1:2: parse error: expected a label name"},
    {"text after", S_INIT("{env=\"x\"} foo"), "1:11: parse error: unexpected text"},
    {"two selectors", S_INIT("{}{}"), "1:3: parse error: unexpected text"},
    {"open brace", S_INIT("{"), "1:2: parse error: expected a label name"},
    {"no end", S_INIT("{a=\"b\""), "1:7: parse error: expected \",\" or \"}\""},
    {"no comma", S_INIT("{a=\"b\" c=\"d\"}"), "1:8: parse error: expected \",\" or \"}\""},
    {"no operator", S_INIT("{a}"), "1:3: parse error: expected a label matching operator"},
    {"bad operator", S_INIT("{a!\"b\"}"), "1:3: parse error: expected a label matching operator"},
    {"comparison", S_INIT("{a==\"b\"}"), "1:4: parse error: expected a label value in quotes"},
    {"less", S_INIT("{a<\"b\"}"), "1:3: parse error: expected a label matching operator"},
    {"open quote", S_INIT("{a=\"b}"), "1:4: parse error: unterminated quoted string"},
    {"newline in quotes", S_INIT("{a=\"b\nc\"}"), "1:4: parse error: unterminated quoted string"},
    {"open backtick", S_INIT("{a=`b}"), "1:4: parse error: unterminated raw string"},
    {"backslash at the end", S_INIT("{a=\"\\"), "1:4: parse error: unterminated quoted string"},
    {"unknown escape", S_INIT("{a=\"\\q\"}"), "1:6: parse error: unknown escape"},
    {"other quote escaped", S_INIT("{a=\"\\'\"}"), "1:6: parse error: unknown escape"},
    {"short octal", S_INIT("{a=\"\\12\"}"), "parse error: invalid octal"},
    {"octal too large", S_INIT("{a=\"\\777\"}"), "parse error: invalid octal"},
    {"short hex", S_INIT("{a=\"\\x4\"}"), "parse error: invalid hexadecimal"},
    {"surrogate", S_INIT("{a=\"\\ud800\"}"), "parse error: escape sequence is an invalid Unicode"},
    {"past unicode", S_INIT("{a=\"\\U00110000\"}"), "parse error: escape sequence is an invalid"},
    {"far past unicode", S_INIT("{a=\"\\Uffffffff\"}"), "parse error: escape sequence is an inval"},
    {"dashed metric name", S_INIT("a-b{}"), "1:2: parse error: unexpected text"},
    {"number", S_INIT("5"), "1:1: parse error: expected a metric name or \"{\""},
    {"dashed label", S_INIT("{a-b=\"c\"}"), "1:3: parse error: expected a label matching"},
    {"colon in a label", S_INIT("{a:b=\"c\"}"), "1:3: parse error: expected a label matching"},
    {"not utf-8", S_INIT("{a=\"\xff\"}"), "1:1: parse error: the selector is not valid UTF-8"},
    {"NUL", S_INIT("{a=\"b\"\0}"), "1:7: parse error: expected \",\" or \"}\""},
    {"columns are characters", S_INIT("{\xc3\xa9=\"b\"}"), "1:2: parse error: expected a label"},
    {"second line", S_INIT("{a=\"\xc3\xa9\",\n b}"), "2:3: parse error: expected a label matching"},
};

static void what_prometheus_refuses_is_refused_with_its_place(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct selector sel = {0};
        err e = {0};
        str text = str_make(tail_guard(bad[i].text.p, bad[i].text.n), bad[i].text.n);
        if (selector_parse(&a, text, &sel, &e)) fail_msg("%s: accepted", bad[i].name);
        if (e.code != ERR_INVALID_ARGUMENT || !strstr(e.msg, bad[i].message)) {
            fail_msg("%s: %s", bad[i].name, e.msg);
        }
    }
    arena_release(&a);
}

// Labels env="prod", pod="a-1", text="line\nbreak".
static const struct {
    const char *selector;
    bool matches;
} matches[] = {
    {"{}", true},
    {"{env=\"prod\"}", true},
    {"{env=\"dev\"}", false},
    {"{env!=\"dev\"}", true},
    {"{env!=\"prod\"}", false},
    {"{env=~\"prod|dev\"}", true},
    {"{env=~\"pro\"}", false},
    {"{env=~\"p.*\"}", true},
    {"{env=~\"(?i)PROD\"}", true},
    {"{env!~\"p.*\"}", false},
    {"{env!~\"pro\"}", true},
    {"{text=~\"line.break\"}", true},
    {"{none=\"\"}", true},
    {"{none!=\"\"}", false},
    {"{none!=\"x\"}", true},
    {"{none=~\".*\"}", true},
    {"{none=~\".+\"}", false},
    {"{none!~\"a.*\"}", true},
    {"{pod=\"\"}", false},
    {"{pod!=\"\"}", true},
    {"{env=\"prod\",pod=~\"a-[0-9]\"}", true},
    {"{env=\"prod\",env=\"dev\"}", false},
};

static void matchers_hold_as_in_prometheus(void **state)
{
    (void)state;
    const label v[] = {{S("env"), S("prod")}, {S("pod"), S("a-1")}, {S("text"), S("line\nbreak")}};
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    for (size_t i = 0; i < COUNT(matches); i++) {
        struct selector sel = {0};
        assert_ok(selector_parse(&a, str_of(matches[i].selector), &sel, e));
        if (selector_matches(&sel, (labels){v, COUNT(v)}) != matches[i].matches) {
            fail_msg("%s", matches[i].selector);
        }
    }
    arena_release(&a);
}

static void selectors_add_up_in_one_list(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct selector sel = {0};
    assert_ok(selector_parse(&a, S("{a=\"1\"}"), &sel, e));
    assert_ok(selector_parse(&a, S("{b=\"2\"}"), &sel, e));
    assert_ok(selector_add(&a, &sel, MATCH_NRE, S("c"), S("3"), e));
    assert_int_equal(sel.n, 3);
    const label v[] = {{S("a"), S("1")}, {S("b"), S("2")}, {S("c"), S("3")}};
    assert_false(selector_matches(&sel, (labels){v, 3}));
    assert_true(selector_matches(&sel, (labels){v, 2}));
    arena_release(&a);
}

static bool parse_some(void *arg, err *e)
{
    (void)arg;
    struct arena a;
    struct selector sel = {0};
    arena_init(&a, NULL, 1 << 20);
    bool ok = selector_parse(&a, S("x{a=~\"b\",c!~\"\\x41\",d=\"e\",f='g'}"), &sel, e);
    if (ok) assert_int_equal(sel.n, 5);
    arena_release(&a);
    return ok;
}

static void parsing_survives_failing_allocations(void **state)
{
    (void)state;
    assert_true(torture(parse_some, NULL) > 0);
}

static void ten_thousand_matchers_are_only_many(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    arena_init(&a, NULL, 16 << 20);
    buf_init(&b, NULL, 1 << 20);
    buf_byte(&b, '{');
    for (int i = 0; i < 10000; i++)
        buf_z(&b, "a!=\"b\",");
    buf_byte(&b, '}');
    struct selector sel = {0};
    assert_ok(selector_parse(&a, buf_view(&b), &sel, e));
    assert_int_equal(sel.n, 10000);
    buf_release(&b);
    arena_release(&a);
}

// ---- what may be asked

struct asker {
    int asked;
    int most;
};

static bool may_go_on(const void *arg, err *e)
{
    struct asker *x = (struct asker *)(uintptr_t)arg;
    if (++x->asked <= x->most) return true;
    return err_set(e, ERR_DEADLINE_EXCEEDED, "late");
}

// {a=~"<pattern>0", a=~"<pattern>1", ...}
static str many_regexes(struct buf *b, const char *pattern, int n, bool alike)
{
    buf_byte(b, '{');
    for (int i = 0; i < n; i++)
        buf_printf(b, "%sa=~\"%s%d\"", i ? "," : "", pattern, alike ? 0 : i);
    buf_byte(b, '}');
    return buf_view(b);
}

static bool parse_limited(struct selector_most *most, struct mem_budget *budget, str text, err *e)
{
    struct arena a;
    arena_init(&a, budget, 64 << 20);
    struct selector sel = {.most = most};
    bool ok = selector_parse(&a, text, &sel, e);
    assert_true(ok || sel.n == 0);
    arena_release(&a);
    return ok;
}

static void matchers_are_counted_before_a_regex_is_compiled(void **state)
{
    (void)state;
    static const struct {
        int64_t matchers, regexes;
        const char *why;
    } cases[] = {
        {256, 0, "the query asks for 400 matchers, which exceeds the limit (m, limit: 256)"},
        {0, 64,
         "the query asks for 400 regular expressions, which exceeds the limit (r, limit: 64)"},
    };
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    str text = many_regexes(&b, "\\\\pL{300}", 400, false);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct asker x = {.most = INT32_MAX};
        struct selector_most most = {cases[i].matchers, cases[i].regexes, "m", "r", may_go_on, &x};
        struct mem_budget budget;
        mem_budget_init(&budget, "request", NULL, 0);
        err e = {0};
        assert_false(parse_limited(&most, &budget, text, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_string_equal(e.msg, cases[i].why);
        assert_int_equal(x.asked, 0);
        assert_true(atomic_load(&budget.peak) < 1 << 20);
    }
    buf_release(&b);
}

static void whether_to_go_on_is_asked_between_regexes(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    str text = many_regexes(&b, "x.*", 40, false);
    struct asker x = {.most = 7};
    struct selector_most most = {.alive = may_go_on, .arg = &x};
    err e = {0};
    assert_false(parse_limited(&most, NULL, text, &e));
    assert_int_equal(e.code, ERR_DEADLINE_EXCEEDED);
    assert_int_equal(x.asked, 8);
    buf_release(&b);
}

static void equal_patterns_are_compiled_once_and_counted_against_the_request(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    str text = many_regexes(&b, "x.*", 40, true);
    struct asker x = {.most = INT32_MAX};
    struct selector_most most = {.alive = may_go_on, .arg = &x};
    struct mem_budget budget;
    mem_budget_init(&budget, "request", NULL, 0);
    assert_ok(parse_limited(&most, &budget, text, e));
    assert_int_equal(x.asked, 1);
    assert_true(atomic_load(&budget.peak) > 128 << 10);
    assert_true(atomic_load(&budget.peak) < 2 << 20);
    assert_int_equal(atomic_load(&budget.used), 0);
    buf_clear(&b);
    text = many_regexes(&b, "x.*", 40, false);
    atomic_store(&budget.limit, (size_t)4 << 20);
    err e = {0};
    assert_false(parse_limited(&most, &budget, text, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(atomic_load(&budget.used), 0);
    buf_release(&b);
}

static void whether_to_go_on_is_asked_between_values(void **state)
{
    (void)state;
    static const char *const texts[] = {"{a=~\"x.*y\"}", "{a=~\"x|y|z\"}", "{a!=\"x\"}"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        struct asker x = {.most = 3};
        struct selector_most most = {.alive = may_go_on, .arg = &x};
        struct selector sel = {.most = &most};
        assert_ok(selector_parse(&a, str_of(texts[i]), &sel, e));
        err e = {0};
        bool yes = false;
        int values = 0;
        while (values < 1 << 20 && matcher_test(&sel, &sel.v[0], S("xxxxxxxy"), &yes, &e))
            values++;
        assert_int_equal(e.code, ERR_DEADLINE_EXCEEDED);
        assert_true(values < 1 << 14);
        arena_release(&a);
    }
}

static void a_list_of_hundreds_of_pods_selects_them(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1 << 20);
    buf_z(&b, "{pod=~\"");
    for (int i = 0; i < 400; i++)
        buf_printf(&b, "%scheckout-api-%08x-%05d", i ? "|" : "", (unsigned)i * 2654435761u, i);
    buf_z(&b, "\"}");
    assert_true(b.n > 10000);
    struct selector sel = {0};
    assert_ok(selector_parse(&a, buf_view(&b), &sel, e));
    static const label pods[] = {{S_INIT("pod"), S_INIT("checkout-api-00000000-00000")},
                                 {S_INIT("pod"), S_INIT("checkout-api-00000000-00001")}};
    assert_true(selector_matches(&sel, (labels){&pods[0], 1}));
    assert_false(selector_matches(&sel, (labels){&pods[1], 1}));
    buf_release(&b);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selectors_are_read_as_prometheus_does),
        cmocka_unit_test(what_prometheus_refuses_is_refused_with_its_place),
        cmocka_unit_test(matchers_hold_as_in_prometheus),
        cmocka_unit_test(selectors_add_up_in_one_list),
        cmocka_unit_test(parsing_survives_failing_allocations),
        cmocka_unit_test(ten_thousand_matchers_are_only_many),
        cmocka_unit_test(matchers_are_counted_before_a_regex_is_compiled),
        cmocka_unit_test(whether_to_go_on_is_asked_between_regexes),
        cmocka_unit_test(equal_patterns_are_compiled_once_and_counted_against_the_request),
        cmocka_unit_test(whether_to_go_on_is_asked_between_values),
        cmocka_unit_test(a_list_of_hundreds_of_pods_selects_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
