// SPDX-License-Identifier: Apache-2.0
#include "lib/arena.h"
#include "service/config.h"

static struct yaml_node *parse(const char *text)
{
    struct yaml_node *root = NULL;
    assert_ok(yaml_node_parse(str_of(text), "x.yaml", &arena, &root, e));
    return root;
}

static const struct yaml_node *member(const struct yaml_node *map, const char *key)
{
    for (const struct yaml_node *t = map ? map->first : NULL; t; t = t->next) {
        if (str_is(t->key, key)) return t;
    }
    return NULL;
}

static void assert_prints(const struct yaml_node *d, const char *want)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 16);
    yaml_node_print(d, &b);
    buf_byte(&b, 0);
    assert_string_equal(b.p, want);
    buf_release(&b);
}

static void a_document_prints_on_one_line_and_parses_to_the_same(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "\"\""},
        {"a", "a"},
        {"[]", "[]"},
        {"{}", "{}"},
        {"a: 1\nb:\n  - x\n  - {c: '2', d: []}\n  - []\ne: {f: {}}\n",
         "{a: 1, b: [x, {c: \"2\", d: []}, []], e: {f: {}}}"},
        {"- [[1, 2], [3]]\n- 4\n", "[[[1, 2], [3]], 4]"},
        {"a: \"q\\\"\\\\ \\x01\"\nb: '{x=\"y\"}'\n",
         "{a: \"q\\\"\\\\ \\u0001\", b: \"{x=\\\"y\\\"}\"}"},
        {"'a b': ${labels.x}\n", "{\"a b\": \"${labels.x}\"}"},
        {"a: -1\nb: .5\n", "{a: \"-1\", b: \".5\"}"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct yaml_node *d = parse(cases[i][0]);
        assert_prints(d, cases[i][1]);
        struct yaml_node *again = parse(cases[i][1]);
        assert_true(d->kind == YAML_NODE_NULL || yaml_node_eq(d, again));
        assert_prints(again, cases[i][1]);
    }
}

static void maps_are_merged_at_every_level(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"{a: 1}", "{b: 2}", "{a: 1, b: 2}"},
        {"{a: 1, b: 2, c: 3}", "{b: x}", "{a: 1, b: x, c: 3}"},
        {"{a: {b: {c: 1, d: 2}, e: 3}, f: 4}", "{a: {b: {d: x, g: y}}, f: z, h: {i: 1}}",
         "{a: {b: {c: 1, d: x, g: y}, e: 3}, f: z, h: {i: 1}}"},
        {"{a: [1, 2]}", "{a: [3]}", "{a: [3]}"},
        {"{a: {b: 1}}", "{a: 2}", "{a: 2}"},
        {"{a: 1}", "{a: {b: 2}, c: {}}", "{a: {b: 2}, c: {}}"},
        {"{a: {}}", "{a: {b: 1}}", "{a: {b: 1}}"},
        {"[1]", "{a: 1}", "{a: 1}"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct yaml_node *base = parse(cases[i][0]);
        struct yaml_node *over = parse(cases[i][1]);
        assert_prints(yaml_node_merge(&arena, base, over), cases[i][2]);
        assert_prints(base, cases[i][0]);
        assert_prints(over, cases[i][1]);
    }
    assert_prints(yaml_node_merge(&arena, NULL, parse("{a: 1}")), "{a: 1}");
    assert_null(yaml_node_merge(&arena, NULL, NULL));
}

static void what_is_no_document_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        {"a: &x 1\nb: *x\n", "x.yaml:2: aliases are not allowed"},
        {"a: 1\n---\nb: 2\n", "x.yaml:2: nothing may follow the settings"},
        {"? [a]\n: 1\n", "x.yaml:1: expected a key"},
        {"a:\n  '': 1\n", "x.yaml:2: empty key"},
        {"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", "x.yaml:1: lists and maps are nested too deeply"},
        {"a: [1\n", "x.yaml:2: did not find expected ',' or ']'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct yaml_node *root = NULL;
        err e = {0};
        assert_false(yaml_node_parse(str_of(cases[i].text), "x.yaml", &arena, &root, &e));
        assert_string_equal(e.msg, cases[i].want);
    }
}

static void a_fault_is_told_with_its_path(void **state)
{
    (void)state;
    struct yaml_node *root =
        parse("overrides:\n  acme:\n    rules:\n      - a\n      - {regex: (}\n");
    const struct yaml_node *rules = member(member(member(root, "overrides"), "acme"), "rules");
    const struct yaml_node *regex = member(rules->last, "regex");
    err e = {0};
    assert_false(yaml_node_fail(regex, &e, "'%s' is no expression", "("));
    assert_string_equal(e.msg, "x.yaml:5: overrides.acme.rules[1].regex: '(' is no expression");
    assert_false(yaml_node_fail(root, &e, "wrong"));
    assert_string_equal(e.msg, "x.yaml:1: wrong");
}

struct rule {
    CONFIG_STRING action;
    CONFIG_INT modulus;
    CONFIG_LIST source;
};

static const struct config_row rule_rows[] = {
    CONFIG_ROW(struct rule, action, STRING, "replace", "", "", false, "")
        CONFIG_ROW(struct rule, modulus, INT, "7", "1", "", false, "")
            CONFIG_ROW(struct rule, source, LIST, "", "", "", false, "")};

static const struct config_section rule_section = CONFIG_SECTION("rule", rule_rows, struct rule);

static void a_map_is_read_into_a_struct_by_rows(void **state)
{
    (void)state;
    struct rule r = {0};
    assert_ok(config_defaults(&rule_section, &r, &arena, e));
    assert_ok(config_read(&rule_section, parse("{action: drop, source: [a, b]}"), &r, &arena, e));
    assert_string_equal(r.action, "drop");
    assert_int_equal(r.modulus, 7);
    assert_int_equal(r.source.n, 2);
    static const char *const cases[][2] = {
        {"[1]", "x.yaml:1: expected key: value lines"},
        {"action: a\nmodulo: 1\n", "x.yaml:2: modulo: unknown key"},
        {"action: a\naction: b\n", "x.yaml:2: action: given twice"},
        {"action:\n", "x.yaml:1: action: no value"},
        {"modulus: 0\n", "x.yaml:1: modulus: 0 is below the lowest value, 1"},
        {"modulus: [1]\n", "x.yaml:1: modulus: a list is given where one value is expected"},
        {"source: [{a: 1}]\n", "x.yaml:1: source: a list may hold only plain values"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        err e = {0};
        assert_false(config_read(&rule_section, parse(cases[i][0]), &r, &arena, &e));
        assert_string_equal(e.msg, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_document_prints_on_one_line_and_parses_to_the_same),
        ARENA_TEST(maps_are_merged_at_every_level),
        ARENA_TEST(what_is_no_document_is_refused_with_its_line),
        ARENA_TEST(a_fault_is_told_with_its_path),
        ARENA_TEST(a_map_is_read_into_a_struct_by_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
