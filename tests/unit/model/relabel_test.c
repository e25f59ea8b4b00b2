// SPDX-License-Identifier: Apache-2.0
//
// Rules as {"action=..", "sources=a,b", ...}, a label set in and one out; what is refused and why.
#include "lib/arena.h"
#include "model/relabel.h"

#include <stdio.h>

#define RULES_MAX   3
#define FIELDS_MAX  6
#define LABELS_MAX  8
#define SOURCES_MAX 20

struct written {
    const char *fields[FIELDS_MAX];
};

static void read_rule(const struct written *w, struct relabel_config *c, str *sources)
{
    *c = (struct relabel_config){.source_labels = sources};
    for (size_t i = 0; i < FIELDS_MAX && w->fields[i]; i++) {
        str value;
        str key = str_split(str_of(w->fields[i]), '=', &value);
        if (!value.p) value = S("");
        if (str_is(key, "action")) c->action = value;
        if (str_is(key, "separator")) c->separator = value;
        if (str_is(key, "regex")) c->regex = value;
        if (str_is(key, "target")) c->target_label = value;
        if (str_is(key, "replacement")) c->replacement = value;
        if (str_is(key, "modulus")) c->has_modulus = str_u64(value, &c->modulus);
        while (str_is(key, "sources") && value.n) {
            assert_in_range(c->source_count, 0, SOURCES_MAX - 1);
            sources[c->source_count++] = str_split(value, ',', &value);
        }
    }
}

static bool compile(const struct written *rules, size_t n, struct relabel_rules *out, size_t *at,
                    err *e)
{
    struct relabel_config c[RULES_MAX];
    str sources[RULES_MAX][SOURCES_MAX];
    for (size_t i = 0; i < n; i++)
        read_rule(&rules[i], &c[i], sources[i]);
    return relabel_compile(&arena, c, n, out, at, e);
}

static size_t rule_count(const struct written *rules)
{
    size_t n = 0;
    while (n < RULES_MAX && rules[n].fields[0]) {
        n++;
    }
    return n;
}

static labels set_of(const char *const *pairs)
{
    label *v = ARENA_ARRAY(&arena, label, LABELS_MAX);
    size_t n = 0;
    for (; n < LABELS_MAX && pairs[2 * n]; n++)
        v[n] = (label){str_of(pairs[2 * n]), str_of(pairs[2 * n + 1])};
    labels_sort(v, n);
    return (labels){v, n};
}

static const char *printed(labels ls)
{
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX / 2);
    labels_print(ls, &b);
    str s = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    return s.p;
}

static const struct {
    const char *name;
    struct written rules[RULES_MAX];
    const char *in[2 * LABELS_MAX];
    const char *out;  // NULL: dropped
} cases[] = {
    {"groups go into the replacement",
     {{{"sources=a", "regex=f(.*)", "target=d", "replacement=ch${1}-ch${1}"}}},
     {"a", "foo", "b", "bar"},
     "{a=\"foo\", b=\"bar\", d=\"choo-choo\"}"},
    {"values are joined, later rules see earlier ones",
     {{{"sources=a,b", "regex=f(.*);(.*)r", "target=a", "replacement=b${1}${2}m"}},
      {{"sources=c,a", "regex=(b).*b(.*)ba(.*)", "target=d", "replacement=$1$2$2$3"}}},
     {"a", "foo", "b", "bar", "c", "baz"},
     "{a=\"boobam\", b=\"bar\", c=\"baz\", d=\"boooom\"}"},
    {"a separator of its own",
     {{{"sources=a,b", "separator=/", "regex=x/y", "target=d", "replacement=hit"}}},
     {"a", "x", "b", "y"},
     "{a=\"x\", b=\"y\", d=\"hit\"}"},
    {"an empty separator",
     {{{"sources=a,b", "separator=", "target=d"}}},
     {"a", "x", "b", "y"},
     "{a=\"x\", b=\"y\", d=\"xy\"}"},
    {"a match of a part is none",
     {{{"sources=a", "regex=o", "target=d", "replacement=x"}}},
     {"a", "foo"},
     "{a=\"foo\"}"},
    {"an alternative is anchored as a whole",
     {{{"action=drop", "sources=a", "regex=fo|oo"}}},
     {"a", "foo"},
     "{a=\"foo\"}"},
    {"an empty result removes",
     {{{"sources=a", "regex=f.*", "target=b", "replacement="}}},
     {"a", "foo", "b", "bar"},
     "{a=\"foo\"}"},
    {"a group that took no part is empty",
     {{{"sources=a", "regex=(x)|foo", "target=b"}}},
     {"a", "foo", "b", "bar"},
     "{a=\"foo\"}"},
    {"a missing source is empty",
     {{{"sources=no,a", "target=d"}}},
     {"a", "foo"},
     "{a=\"foo\", d=\";foo\"}"},
    {"no sources, a constant",
     {{{"target=d", "replacement=x"}}},
     {"a", "foo"},
     "{a=\"foo\", d=\"x\"}"},
    {"the target may come from the match",
     {{{"sources=a", "regex=(.*)-(.*)", "target=x_${1}", "replacement=$2"}}},
     {"a", "k-v"},
     "{a=\"k-v\", x_k=\"v\"}"},
    {"a target that comes out empty is left alone",
     {{{"sources=a", "regex=(x)?foo", "target=$1", "replacement=v"}}},
     {"a", "foo"},
     "{a=\"foo\"}"},
    {"named groups",
     {{{"sources=a", "regex=(?P<first>.)(?P<rest>.*)", "target=d", "replacement=$rest-${first}"}}},
     {"a", "foo"},
     "{a=\"foo\", d=\"oo-f\"}"},
    {"the longest name is meant",
     {{{"sources=a", "target=d", "replacement=$1x|${1}x"}}},
     {"a", "foo"},
     "{a=\"foo\", d=\"|foox\"}"},
    {"dollars that are no groups",
     {{{"sources=a", "target=d", "replacement=$$1 $ ${1 ${} $9 $01 $0"}}},
     {"a", "v"},
     "{a=\"v\", d=\"$1 $ ${1 ${}   v\"}"},
    {"dot is a line end too",
     {{{"sources=a", "regex=f.*", "target=a", "replacement=x"}}},
     {"a", "f\no"},
     "{a=\"x\"}"},
    {"keep that matches",
     {{{"action=keep", "sources=a", "regex=f.*"}}},
     {"a", "foo"},
     "{a=\"foo\"}"},
    {"keep that does not", {{{"action=keep", "sources=a", "regex=b.*"}}}, {"a", "foo"}, NULL},
    {"drop that matches", {{{"action=DROP", "sources=a", "regex=f.*"}}}, {"a", "foo"}, NULL},
    {"drop that does not",
     {{{"action=drop", "sources=a", "regex=b.*"}}},
     {"a", "foo"},
     "{a=\"foo\"}"},
    {"drop of what is missing", {{{"action=drop", "sources=no", "regex="}}}, {"a", "foo"}, NULL},
    {"nothing runs after a drop",
     {{{"action=drop", "sources=a"}}, {{"target=b", "replacement=x"}}},
     {"a", "foo"},
     NULL},
    {"keepequal that is",
     {{{"action=keepequal", "sources=a", "target=b"}}},
     {"a", "1", "b", "1"},
     "{a=\"1\", b=\"1\"}"},
    {"keepequal that is not",
     {{{"action=keepequal", "sources=a", "target=b"}}},
     {"a", "1", "b", "2"},
     NULL},
    {"dropequal that is",
     {{{"action=dropequal", "sources=a", "target=b"}}},
     {"a", "1", "b", "1"},
     NULL},
    {"dropequal that is not",
     {{{"action=dropequal", "sources=a", "target=b"}}},
     {"a", "1", "b", "2"},
     "{a=\"1\", b=\"2\"}"},
    {"hashmod of one",
     {{{"action=hashmod", "sources=c", "target=d", "modulus=1000"}}},
     {"c", "baz"},
     "{c=\"baz\", d=\"976\"}"},
    {"hashmod of several",
     {{{"action=hashmod", "sources=a,b", "target=d", "modulus=1000"}}},
     {"a", "foo\nbar", "b", "x"},
     "{a=\"foo\\nbar\", b=\"x\", d=\"495\"}"},
    {"lowercase",
     {{{"action=lowercase", "sources=a", "target=l"}}},
     {"a", "ÄbC-Ω Ж\xf0\x90\x90\x80"},
     "{a=\"ÄbC-Ω Ж\xf0\x90\x90\x80\", l=\"äbc-ω ж\xf0\x90\x90\xa8\"}"},
    {"uppercase",
     {{{"action=uppercase", "sources=a", "target=a"}}},
     {"a", "äbC-ÿ ж9"},
     "{a=\"ÄBC-Ÿ Ж9\"}"},
    {"lowercase of nothing removes",
     {{{"action=lowercase", "sources=no", "target=a"}}},
     {"a", "X"},
     "{}"},
    {"labelmap",
     {{{"action=labelmap", "regex=meta_(ng.*)", "replacement=${1}"}}},
     {"a", "foo", "meta_my_bar", "aaa", "meta_ng_bar", "bbb"},
     "{a=\"foo\", meta_my_bar=\"aaa\", meta_ng_bar=\"bbb\", ng_bar=\"bbb\"}"},
    {"labelmap onto what is there, the last wins",
     {{{"action=labelmap", "regex=m_.*", "replacement=a"}}},
     {"a", "0", "m_1", "1", "m_2", "2"},
     "{a=\"2\", m_1=\"1\", m_2=\"2\"}"},
    {"labeldrop",
     {{{"action=labeldrop", "regex=b.*"}}},
     {"a", "1", "b1", "2", "b2", "3", "c", "4"},
     "{a=\"1\", c=\"4\"}"},
    {"labelkeep",
     {{{"action=labelkeep", "regex=b.*"}}},
     {"a", "1", "b1", "2", "b2", "3", "c", "4"},
     "{b1=\"2\", b2=\"3\"}"},
    {"labelkeep of none", {{{"action=labelkeep", "regex=x"}}}, {"a", "1"}, "{}"},
    {"a name that is there twice is set once",
     {{{"target=k", "replacement=x"}}},
     {"k", "1", "k", "2", "z", "3"},
     "{k=\"x\", z=\"3\"}"},
    {"names of UTF-8",
     {{{"sources=größe.x", "target=a.b-c"}}},
     {"größe.x", "1"},
     "{a.b-c=\"1\", größe.x=\"1\"}"},
    {"no rules", {{{0}}}, {"a", "1", "a", "2"}, "{a=\"1\", a=\"2\"}"},
};

static void rules_do_what_prometheus_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct relabel_rules rules;
        size_t at = 0;
        err why = {0};
        if (!compile(cases[i].rules, rule_count(cases[i].rules), &rules, &at, &why)) {
            fail_msg("%s: %s", cases[i].name, why.msg);
        }
        labels out;
        bool keep = false;
        assert_ok(relabel_run(&arena, &rules, set_of(cases[i].in), &out, &keep, e));
        const char *got = keep ? printed(out) : "dropped";
        const char *wanted = cases[i].out ? cases[i].out : "dropped";
        if (strcmp(got, wanted) != 0) fail_msg("%s: %s, not %s", cases[i].name, got, wanted);
    }
}

static const struct {
    const char *name;
    struct written rule;
    const char *message;
} refused[] = {
    {"unknown action", {{"action=flip"}}, "action: unknown relabel action \"flip\""},
    {"empty action", {{"action="}}, "action: unknown relabel action \"\""},
    {"replace without target", {{"sources=a"}}, "target_label: replace requires a target label"},
    {"lowercase without target",
     {{"action=lowercase", "sources=a"}},
     "target_label: lowercase requires a target label"},
    {"hashmod without modulus",
     {{"action=hashmod", "target=a"}},
     "modulus: hashmod requires a modulus that is not 0"},
    {"hashmod by 0",
     {{"action=hashmod", "target=a", "modulus=0"}},
     "modulus: hashmod requires a modulus that is not 0"},
    {"target that is not UTF-8",
     {{"target=\xff"}},
     "target_label: replace requires a label name that is UTF-8"},
    {"regex", {{"action=drop", "regex=("}}, "regex: error parsing regexp: missing ): ("},
    {"uppercase with replacement",
     {{"action=uppercase", "target=a", "replacement=x"}},
     "replacement: uppercase takes no replacement"},
    {"labelmap to nothing",
     {{"action=labelmap", "replacement="}},
     "replacement: labelmap requires a replacement that is not empty"},
    {"labeldrop with sources",
     {{"action=labeldrop", "sources=a"}},
     "source_labels: labeldrop requires only 'regex', and no other fields"},
    {"labelkeep with target",
     {{"action=labelkeep", "target=a"}},
     "target_label: labelkeep requires only 'regex', and no other fields"},
    {"keepequal with regex",
     {{"action=keepequal", "target=a", "regex=x"}},
     "regex: keepequal requires only 'source_labels' and 'target_label', and no other fields"},
    {"dropequal with separator",
     {{"action=dropequal", "target=a", "separator=,"}},
     "separator: dropequal requires only 'source_labels' and 'target_label', and no other fields"},
};

static void bad_rules_are_told_by_field_and_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        const struct written rules[] = {{{"action=drop", "regex=x"}}, refused[i].rule};
        struct relabel_rules out;
        size_t at = 0;
        err e = {0};
        if (compile(rules, COUNT(rules), &out, &at, &e)) fail_msg("%s is taken", refused[i].name);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_int_equal(at, 1);
        if (strcmp(e.msg, refused[i].message) != 0) fail_msg("%s: %s", refused[i].name, e.msg);
    }
}

static const struct {
    const char *name;
    const char *position;
    struct written rule;
    const char *in[2 * LABELS_MAX];
    const char *out;
} positions[] = {
    {"nothing to do", "first", {{0}}, {"a", "b"}, "{a=\"b\"}"},
    {"godeltaprof",
     "",
     {{0}},
     {"__name__", "godeltaprof_memory"},
     "{__delta__=\"false\", __name__=\"memory\", __name_replaced__=\"godeltaprof_memory\"}"},
    {"godeltaprof of nothing",
     "first",
     {{0}},
     {"__name__", "godeltaprof_"},
     "{__delta__=\"false\", __name_replaced__=\"godeltaprof_\"}"},
    {"wall that is cpu",
     "first",
     {{0}},
     {"__name__", "wall", "__type__", "cpu"},
     "{__name__=\"process_cpu\", __name_replaced__=\"wall\", __type__=\"cpu\"}"},
    {"wall that is wall",
     "first",
     {{0}},
     {"__name__", "wall", "__type__", "wall"},
     "{__name__=\"wall\", __type__=\"wall\"}"},
    {"disabled",
     "disabled",
     {{0}},
     {"__name__", "godeltaprof_memory"},
     "{__name__=\"godeltaprof_memory\"}"},
    {"first: own rules see the new name",
     "first",
     {{"sources=__name__", "regex=memory", "target=seen", "replacement=new"}},
     {"__name__", "godeltaprof_memory"},
     "{__delta__=\"false\", __name__=\"memory\", __name_replaced__=\"godeltaprof_memory\", "
     "seen=\"new\"}"},
    {"last: own rules see the old name",
     "last",
     {{"sources=__name__", "regex=godelta.*", "target=__name__", "replacement=mine"}},
     {"__name__", "godeltaprof_memory"},
     "{__name__=\"mine\"}"},
};

static void default_rules_stand_where_they_are_put(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(positions); i++) {
        struct relabel_rules rules;
        enum relabel_position where = RELABEL_DEFAULTS_DISABLED;
        size_t at = 0;
        size_t n = positions[i].rule.fields[0] ? 1 : 0;
        assert_ok(relabel_position_parse(str_of(positions[i].position), &where, e));
        assert_ok(compile(&positions[i].rule, n, &rules, &at, e));
        assert_ok(relabel_with_defaults(&arena, &rules, where, &rules, e));
        labels out;
        bool keep = false;
        assert_ok(relabel_run(&arena, &rules, set_of(positions[i].in), &out, &keep, e));
        assert_true(keep);
        if (strcmp(printed(out), positions[i].out) != 0) {
            fail_msg("%s: %s", positions[i].name, printed(out));
        }
    }
    enum relabel_position where = RELABEL_DEFAULTS_FIRST;
    err e = {0};
    assert_false(relabel_position_parse(S("middle"), &where, &e));
    assert_string_equal(e.msg, "\"middle\" is not first, last or disabled");
}

static void sample_type_rules_only_keep_and_drop(void **state)
{
    (void)state;
    const struct written good[] = {{{"action=keep"}}, {{"action=drop", "regex=x"}}};
    const struct written bad[] = {{{"action=keep"}}, {{"action=keepequal", "target=a"}}};
    struct relabel_rules rules;
    size_t at = 0;
    assert_ok(compile(good, COUNT(good), &rules, &at, e));
    assert_true(relabel_only_filters(&rules, &at));
    assert_ok(compile(bad, COUNT(bad), &rules, &at, e));
    assert_false(relabel_only_filters(&rules, &at));
    assert_int_equal(at, 1);
}

// A hostile set: a square of this many would take minutes.
static void many_labels_cost_no_square(void **state)
{
    (void)state;
    enum {
        MANY = 200000
    };
    label *v = ARENA_ARRAY(&arena, label, MANY);
    char *names = arena_new(&arena, (size_t)MANY * 8);
    assert_non_null(names);
    for (size_t i = 0; i < MANY; i++) {
        int n = snprintf(names + i * 8, 8, "m%06zu", i);
        v[i] = (label){str_make(names + i * 8, (size_t)n), S("v")};
    }
    const struct written written[] = {{{"action=labelmap", "regex=m(.*)", "replacement=n$1"}},
                                      {{"action=labeldrop", "regex=m.*"}},
                                      {{"target=z", "replacement=1"}}};
    struct relabel_rules rules;
    size_t at = 0;
    assert_ok(compile(written, COUNT(written), &rules, &at, e));
    labels out;
    bool keep = false;
    assert_ok(relabel_run(&arena, &rules, (labels){v, MANY}, &out, &keep, e));
    assert_int_equal(out.n, MANY + 1);
    assert_true(str_is(out.v[0].name, "n000000"));
    assert_true(str_is(out.v[MANY].name, "z"));
}

// Each rule takes the value four times, or each label once more under a new name.
static void texts_that_grow_from_rule_to_rule_are_refused(void **state)
{
    (void)state;
    enum {
        RULES = 80
    };
    static const struct {
        const char *name;
        struct written rule;
        size_t values;
        const char *message;
    } grown[] = {
        {"value",
         {{"sources=a", "target=a", "replacement=$1$1$1$1"}},
         16,
         "a relabelling rule makes 262144 bytes of text, limit 65536"},
        {"name",
         {{"sources=a", "target=x${1}y", "replacement=$1$1"}},
         40000,
         "a relabelling rule makes 80000 bytes of text, limit 65536"},
        {"joined",
         {{"sources=a,a,a", "action=drop", "regex=x"}},
         30000,
         "a relabelling rule makes 90002 bytes of text, limit 65536"},
        {"case",
         {{"sources=a", "action=uppercase", "target=b"}},
         65537,
         "a relabelling rule makes 65537 bytes of text, limit 65536"},
        {"all",
         {{"sources=a", "action=uppercase", "target=b"}},
         65536,
         "a relabelling rule makes 4259840 bytes of text, limit 4194304"},
        {"map",
         {{"action=labelmap", "replacement=$1$1"}},
         1,
         "a relabelling rule makes 131072 bytes"},
        {"one part", {{"sources=a", "target=b", "replacement=$1"}}, 1 << 20, ""},
    };
    for (size_t i = 0; i < COUNT(grown); i++) {
        struct relabel_config written[RULES];
        str sources[RULES][SOURCES_MAX];
        struct relabel_rules rules;
        labels out;
        bool keep = false;
        size_t at = 0;
        err why = {0};
        for (size_t k = 0; k < RULES; k++)
            read_rule(&grown[i].rule, &written[k], sources[k]);
        char *text = arena_new(&arena, grown[i].values);
        memset(text, 'v', grown[i].values);
        const label in[] = {{S("a"), str_make(text, grown[i].values)}, {S("b"), S("1")}};
        assert_ok(relabel_compile(&arena, written, RULES, &rules, &at, e));
        size_t before = arena.used;
        bool ok = relabel_run(&arena, &rules, (labels){in, COUNT(in)}, &out, &keep, &why);
        if (ok != (grown[i].message[0] == '\0') || !strstr(why.msg, grown[i].message)) {
            fail_msg("%s: %d %s", grown[i].name, ok, why.msg);
        }
        assert_true(arena.used - before < 12 * RELABEL_ALL_MAX);
    }
}

static bool compile_and_run(void *arg, err *e)
{
    (void)arg;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    const str sources[] = {S("a"), S("b")};
    const struct relabel_config c[] = {
        {.action = S("replace"),
         .source_labels = sources,
         .source_count = 2,
         .regex = S("(.);(.)"),
         .target_label = S("x_$1"),
         .replacement = S("$2-$1")},
        {.action = S("labelmap"), .regex = S("(.)"), .replacement = S("y_$1")},
        {.action = S("uppercase"),
         .source_labels = sources,
         .source_count = 1,
         .target_label = S("a")},
    };
    const label in[] = {{S("a"), S("1")}, {S("b"), S("2")}};
    struct relabel_rules rules;
    labels out;
    bool keep = false;
    size_t at = 0;
    bool ok = relabel_compile(&a, c, COUNT(c), &rules, &at, e) &&
              relabel_with_defaults(&a, &rules, RELABEL_DEFAULTS_LAST, &rules, e) &&
              relabel_run(&a, &rules, (labels){in, COUNT(in)}, &out, &keep, e);
    if (ok) assert_int_equal(out.n, 5);
    arena_release(&a);
    return ok;
}

static void want_of_memory_is_told(void **state)
{
    (void)state;
    assert_in_range(torture(compile_and_run, NULL), 1, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(rules_do_what_prometheus_does),
        ARENA_TEST(bad_rules_are_told_by_field_and_value),
        ARENA_TEST(default_rules_stand_where_they_are_put),
        ARENA_TEST(sample_type_rules_only_keep_and_drop),
        ARENA_TEST(many_labels_cost_no_square),
        ARENA_TEST(texts_that_grow_from_rule_to_rule_are_refused),
        cmocka_unit_test(want_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
