// SPDX-License-Identifier: Apache-2.0
#include "intake/admission.h"
#include "lib/arena.h"
#include "service/limits.h"
#include "sys/clock.h"

#include <stdio.h>

// Limits as a tenant's overrides would give them.
static bool read_limits(const char *text, struct limits *l, err *e)
{
    struct yaml_node *root = NULL;
    *l = (struct limits){0};
    return yaml_node_parse(str_of(text), "x.yaml", &arena, &root, e) &&
           config_defaults(&limits_section, l, &arena, e) &&
           config_read(&limits_section, root, l, &arena, e);
}

static struct limits limits_of(const char *text)
{
    struct limits l;
    err e = {0};
    if (!read_limits(text, &l, &e)) fail_msg("%s", e.msg);
    return l;
}

static const label checkout[] = {{S_INIT("__name__"), S_INIT("process_cpu")},
                                 {S_INIT("namespace"), S_INIT("shop")},
                                 {S_INIT("service_name"), S_INIT("checkout")}};
static const labels ls = {checkout, COUNT(checkout)};

#define GROUPS                                                 \
    "distributor_usage_groups:\n"                              \
    "  all: '{}'\n"                                            \
    "  app/${labels.service_name}: '{namespace=\"shop\"}'\n"   \
    "  shop: '{namespace=~\"sh.*\",service_name!=\"cart\"}'\n" \
    "  no-zone: '{zone!=\"a\"}'\n"                             \
    "  zone/${labels.zone}: '{}'\n"                            \
    "  cart: '{service_name=\"cart\"}'\n"

static void groups_match_labels_that_are_there(void **state)
{
    (void)state;
    struct limits l = limits_of(GROUPS);
    struct usage_matches m;
    assert_ok(usage_find(&arena, &l.usage_groups, ls, &m, e));
    assert_int_equal(m.n, 3);
    assert_true(str_is(m.v[0].resolved, "all"));
    assert_true(str_is(m.v[1].configured, "app/${labels.service_name}"));
    assert_true(str_is(m.v[1].resolved, "app/checkout"));
    assert_true(m.v[1].templated);
    assert_true(str_is(m.v[2].resolved, "shop"));
    assert_ok(usage_find(&arena, &l.usage_groups, (labels){0}, &m, e));
    assert_int_equal(m.n, 1);
}

static void wrong_limits_of_ingestion_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        {"distributor_usage_groups: [a]",
         "x.yaml:1: distributor_usage_groups: must be a map of names to selectors"},
        {"distributor_usage_groups:\n  other: '{}'\n",
         "x.yaml:2: distributor_usage_groups.other: the name other is reserved"},
        {"distributor_usage_groups:\n  a: [1]\n",
         "x.yaml:2: distributor_usage_groups.a: must be a selector"},
        {"distributor_usage_groups:\n  a: '{}'\n  a: '{}'\n",
         "x.yaml:3: distributor_usage_groups.a: given twice"},
        {"distributor_usage_groups:\n  a/${labels.}: '{}'\n",
         "x.yaml:2: distributor_usage_groups.a/${labels.}: a part ${ of a name must be "
         "${labels.NAME}"},
        {"distributor_usage_groups:\n  a/${labels.x: '{}'\n",
         "x.yaml:2: distributor_usage_groups.a/${labels.x: a part ${ of a name must be "
         "${labels.NAME}"},
        {"ingestion_limit: 5", "x.yaml:1: ingestion_limit: expected key: value lines"},
        {"ingestion_limit:\n  limit: 5\n", "x.yaml:2: ingestion_limit.limit: unknown key"},
        {"ingestion_limit:\n  period_limit_mb: -5\n",
         "x.yaml:2: ingestion_limit.period_limit_mb: -5 is below the lowest value, 0"},
        {"ingestion_limit:\n  sampling:\n    period: soon\n",
         "x.yaml:3: ingestion_limit.sampling.period: 'soon' is not a duration such as 250ms, 1h30m "
         "or 31d"},
        {"ingestion_limit:\n  usage_groups:\n    a: {limit_reached: 1}\n",
         "x.yaml:3: ingestion_limit.usage_groups.a.limit_reached: '1' is neither true nor false"},
        {"distributor_sampling:\n  usage_groups:\n    a: {probability: 1.5}\n",
         "x.yaml:3: distributor_sampling.usage_groups.a.probability: 1.5 is above the highest "
         "value, 1"},
        {"distributor_sampling:\n  usage_groups: [a]\n",
         "x.yaml:2: distributor_sampling.usage_groups: must be a map of names to probabilities"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct limits l;
        err e = {0};
        if (read_limits(cases[i].text, &l, &e)) fail_msg("%s is accepted", cases[i].text);
        assert_string_equal(e.msg, cases[i].want);
    }
    struct limits l;
    err e = {0};
    assert_false(read_limits("distributor_usage_groups: {a: '{b=}'}", &l, &e));
    assert_true(str_starts(str_of(e.msg), S("x.yaml:1: distributor_usage_groups.a: ")));
}

static void fifty_groups_and_no_more(void **state)
{
    (void)state;
    for (int n = 50; n <= 51; n++) {
        char text[2048] = "distributor_usage_groups:\n";
        size_t at = strlen(text);
        for (int i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "  g%d: '{}'\n", i);
        struct limits l;
        err e = {0};
        assert_int_equal(read_limits(text, &l, &e), n == 50);
        if (n == 50) assert_int_equal(l.usage_groups.n, 50);
        if (n == 51)
            assert_string_equal(e.msg,
                                "x.yaml:1: distributor_usage_groups: holds 51 groups, limit 50");
    }
}

struct state_of_test {
    bool rate;
    const char *quota;  // group that may pass
    double chance;
    uint64_t received;
};

static bool take_rate(void *arg, uint64_t bytes)
{
    (void)bytes;
    return ((struct state_of_test *)arg)->rate;
}

static bool take_quota(void *arg, str group)
{
    const struct state_of_test *s = arg;
    return s->quota && str_is(group, s->quota);
}

static double chance(void *arg)
{
    return ((struct state_of_test *)arg)->chance;
}

static void received(void *arg, uint64_t bytes)
{
    ((struct state_of_test *)arg)->received += bytes;
}

static struct admission admission_of(const struct limits *l, struct state_of_test *s)
{
    return (struct admission){.a = &arena,
                              .limits = l,
                              .take_rate = take_rate,
                              .take_quota = take_quota,
                              .chance = chance,
                              .received = received,
                              .arg = s};
}

#define QUOTA                                                                                    \
    "ingestion_limit: {period_type: hour, period_limit_mb: 128, limit_reset_time: 1900000000,\n" \
    "  sampling: {num_requests: 3, period: 1m}, "

static void what_is_over_a_limit_is_refused_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;
        struct state_of_test s;
        enum discard_reason why;
        const char *want;  // NULL: passes
    } cases[] = {
        {"no limits", "{}", {.rate = true}, 0, NULL},
        {"quota not reached", QUOTA "limit_reached: false}", {.rate = true}, 0, NULL},
        {"quota before rate",
         QUOTA "limit_reached: true}",
         {.rate = false},
         DISCARD_INGEST_LIMIT_REACHED,
         "limit of 128 MiB/hour reached, next reset at 2030-03-17T17:46:40Z"},
        {"rate before groups",
         GROUPS QUOTA "usage_groups: {shop: {limit_reached: true}}}",
         {.rate = false},
         DISCARD_RATE_LIMITED,
         "push rate limit (0 B) exceeded while adding 100 B"},
        {"group as configured",
         GROUPS QUOTA "usage_groups: {'app/${labels.service_name}': {limit_reached: true,"
                      "period_limit_mb: 2}}}",
         {.rate = true},
         DISCARD_INGEST_LIMIT_REACHED,
         "limit of 2.0 MiB/hour reached for usage group {configured: app/${labels.service_name}, "
         "resolved: app/checkout}, next reset at 2030-03-17T17:46:40Z"},
        {"group as resolved",
         GROUPS QUOTA "usage_groups: {app/checkout: {limit_reached: true, period_limit_mb: 64}}}",
         {.rate = true},
         DISCARD_INGEST_LIMIT_REACHED,
         "limit of 64 MiB/hour reached for usage group {configured: app/${labels.service_name}, "
         "resolved: app/checkout}, next reset at 2030-03-17T17:46:40Z"},
        {"other group",
         GROUPS QUOTA "usage_groups: {cart: {limit_reached: true}}}",
         {.rate = true},
         0,
         NULL},
        {"resolved goes over configured",
         GROUPS QUOTA "usage_groups: {app/checkout: {limit_reached: false},"
                      "'app/${labels.service_name}': {limit_reached: true}}}",
         {.rate = true},
         0,
         NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct limits l = limits_of(cases[i].text);
        struct state_of_test s = cases[i].s;
        struct admission g = admission_of(&l, &s);
        struct admission_pass pass;
        enum discard_reason why = DISCARD_UNKNOWN;
        err e = {0};
        bool ok = admission_pass(&g, ls, 100, &pass, &why, &e);
        assert_int_equal(s.received, 100);
        if (ok != !cases[i].want) fail_msg("%s: %s", cases[i].name, e.msg);
        if (ok) continue;
        if (strcmp(e.msg, cases[i].want) != 0) fail_msg("%s: %s", cases[i].name, e.msg);
        assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
        assert_int_equal(why, cases[i].why);
    }
}

static void what_passes_a_reached_quota_is_marked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *quota;
        const char *want;
    } cases[] = {
        {QUOTA "limit_reached: true}", "",
         "{\"body\":{\"periodType\":\"hour\",\"periodLimitMb\":128,\"limitResetTime\":1900000000,"
         "\"samplingPeriodSec\":60,\"samplingRequests\":3,\"usageGroup\":\"\"}}"},
        {GROUPS QUOTA "usage_groups: {app/checkout: {limit_reached: true}}}", "app/checkout",
         "{\"body\":{\"periodType\":\"hour\",\"periodLimitMb\":128,\"limitResetTime\":1900000000,"
         "\"samplingPeriodSec\":60,\"samplingRequests\":3,\"usageGroup\":\"app/checkout\"}}"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct limits l = limits_of(cases[i].text);
        struct state_of_test s = {.rate = true, .quota = cases[i].quota};
        struct admission g = admission_of(&l, &s);
        struct admission_pass pass;
        enum discard_reason why = DISCARD_UNKNOWN;
        assert_ok(admission_pass(&g, ls, 100, &pass, &why, e));
        assert_int_equal(pass.annotation_count, 1);
        assert_true(str_is(pass.annotations[0].name, "pyroscope.ingest.throttled"));
        if (!str_is(pass.annotations[0].value, cases[i].want))
            fail_msg("%.*s", STR(pass.annotations[0].value));
    }
}

static void sampling_takes_the_lowest_probability(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        const char *group;  // NULL: no rule
        double probability;
    } cases[] = {
        {"{}", NULL, 1},
        {"{cart: {probability: 0}}", NULL, 1},
        {"{all: {probability: 0.5}}", "all", 0.5},
        {"{all: {probability: 0.5}, shop: {probability: 0.25}}", "shop", 0.25},
        {"{'app/${labels.service_name}': {probability: 0.25}, shop: {probability: 0.25}}", "shop",
         0.25},
        {"{'app/${labels.service_name}': {probability: 0.1}, shop: {probability: 0.25}}",
         "app/checkout", 0.1},
        {"{app/checkout: {probability: 0.1}}", NULL, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[1024];
        snprintf(text, sizeof text, GROUPS "distributor_sampling: {usage_groups: %s}\n",
                 cases[i].rules);
        struct limits l = limits_of(text);
        for (int kept = 0; kept < 2; kept++) {
            struct state_of_test s = {.rate = true};
            s.chance = kept ? cases[i].probability - 0.01 : cases[i].probability;
            struct admission g = admission_of(&l, &s);
            struct admission_pass pass;
            enum discard_reason why = DISCARD_UNKNOWN;
            assert_ok(admission_pass(&g, ls, 100, &pass, &why, e));
            assert_int_equal(pass.dropped, cases[i].group && !kept);
            assert_int_equal(pass.annotation_count, cases[i].group ? 1 : 0);
            if (!cases[i].group) continue;
            char want[200];
            snprintf(want, sizeof want,
                     "{\"body\":{\"source\":{\"usageGroup\":\"%s\",\"probability\":%g}}}",
                     cases[i].group, cases[i].probability);
            assert_true(str_is(pass.annotations[0].name, "pyroscope.ingest.sampled"));
            if (!str_is(pass.annotations[0].value, want))
                fail_msg("%.*s", STR(pass.annotations[0].value));
        }
    }
}

static void stripped_profiles_are_kept_if_wished(void **state)
{
    (void)state;
    struct limits l = limits_of(GROUPS "distributor_sampling: {usage_groups: {all: {probability: "
                                       "0}}}\nkeep_stripped_profiles: true\n");
    struct state_of_test s = {.rate = true};
    struct admission g = admission_of(&l, &s);
    struct admission_pass pass;
    enum discard_reason why = DISCARD_UNKNOWN;
    assert_ok(admission_pass(&g, ls, 100, &pass, &why, e));
    assert_true(pass.stripped);
    assert_false(pass.dropped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(groups_match_labels_that_are_there),
        ARENA_TEST(wrong_limits_of_ingestion_are_refused),
        ARENA_TEST(fifty_groups_and_no_more),
        ARENA_TEST(what_is_over_a_limit_is_refused_in_order),
        ARENA_TEST(what_passes_a_reached_quota_is_marked),
        ARENA_TEST(sampling_takes_the_lowest_probability),
        ARENA_TEST(stripped_profiles_are_kept_if_wished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
