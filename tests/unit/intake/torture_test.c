// SPDX-License-Identifier: Apache-2.0
//
// Allocations fail while a profile is admitted, and while it becomes records: the answer is that
// memory was short, never another refusal and never a part of the profile.
#include "intake/admission.h"
#include "intake/pipeline.h"
#include "lib/limits.h"
#include "lib/pprof.h"
#include "lib/torture.h"
#include "service/yaml_node.h"
#include "sys/clock.h"

#define NOW (INT64_C(1700000000) * NS_PER_S)

// A quota that is reached and a sampling rule, each of a group with a regex, and a group whose name
// has the value of a label.
static const char regex_groups_limits[] =
    "distributor_usage_groups:\n"
    "  app/${labels.service_name}: '{service_name!=\"\"}'\n"
    "  shop: '{namespace=~\"sh[a-z]+\"}'\n"
    "  batch: '{service_name!~\"check[a-z]+\"}'\n"
    "distributor_sampling: {usage_groups: {shop: {probability: 0.5}}}\n"
    "ingestion_limit: {period_type: hour, period_limit_mb: 128, limit_reset_time: 1900000000,\n"
    "  sampling: {num_requests: 3, period: 1m}, limit_reached: false,\n"
    "  usage_groups: {shop: {limit_reached: true}}}\n";

static bool take_quota(void *arg, str group)
{
    (void)arg;
    return str_is(group, "shop");
}

static double chance(void *arg)
{
    (void)arg;
    return 0.25;
}

static bool admit(struct torture_bench *b, void *arg, err *e)
{
    static const label v[] = {{S_INIT("namespace"), S_INIT("shop")},
                              {S_INIT("service_name"), S_INIT("checkout")}};
    struct admission g = {.a = &b->arena,
                          .limits = arg,
                          .take_quota = take_quota,
                          .chance = chance};
    struct admission_pass pass;
    enum discard_reason why = DISCARD_UNKNOWN;
    if (!admission_pass(&g, (labels){v, COUNT(v)}, 100, &pass, &why, e)) {
        assert_int_equal(why, DISCARD_UNKNOWN);  // and not a limit that was not reached
        return false;
    }
    for (size_t i = 0; i < g.groups.n; i++)
        buf_printf(&b->out, "%.*s ", STR(g.groups.v[i].resolved));
    for (uint32_t i = 0; i < pass.annotation_count; i++)
        buf_printf(&b->out, "%.*s ", STR(pass.annotations[i].value));
    return buf_ok(&b->out, e);
}

static void no_memory_takes_a_profile_out_of_no_usage_group(void **state)
{
    (void)state;
    struct arena a;
    struct yaml_node *root = NULL;
    struct limits l = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_ok(yaml_node_parse(str_of(regex_groups_limits), "x.yaml", &a, &root, e));
    assert_ok(config_defaults(&limits_section, &l, &a, e));
    assert_ok(config_read(&limits_section, root, &l, &a, e));
    const struct torture_maker m = {.name = "intake.admission", .make = admit, .arg = &l};
    struct torture_count n = torture_make(&m);
    assert_true(n.calls >= 2 && n.allocations >= 3);
    arena_release(&a);
}

// ---- a profile

static bool take_in(struct torture_bench *b, void *arg, err *e)
{
    static const label v[] = {{S_INIT("service_name"), S_INIT("shop")},
                              {S_INIT("__name__"), S_INIT("process_cpu")}};
    const struct pipeline_item item = {.bytes = buf_view(arg),
                                       .client_id = S("one"),
                                       .labels = v,
                                       .label_count = COUNT(v)};
    struct pipeline in;
    pipeline_init(&in, &b->arena, &stock_limits, NOW, 1);
    pipeline_pprof(&in, &item);
    if (in.failed) {
        *e = in.first;
        if (!in.exhausted) assert_int_equal(in.stored, 0);
        return false;
    }
    assert_int_equal(in.stored, 1);
    assert_int_equal(in.out.batch_count, 1);
    buf_printf(&b->out, "%llu records of %u stacks", (unsigned long long)in.out.records,
               in.out.batches[0]->symbols.t.stack_count);
    return buf_ok(&b->out, e);
}

static void a_profile_is_taken_whole_or_refused_for_memory(void **state)
{
    (void)state;
    struct buf pprof;
    buf_init(&pprof, NULL, 1 << 20);
    const char *strings[] = {"", "cpu", "nanoseconds", "main", "work"};
    for (size_t i = 0; i < COUNT(strings); i++)
        pp_string(&pprof, strings[i]);
    pp_function(&pprof, 1, 3, 0);
    pp_function(&pprof, 2, 4, 0);
    pp_place(&pprof, 1, 1);
    pp_place(&pprof, 2, 2);
    pp_type(&pprof, 1, 2);
    pb_put_i64_opt(&pprof, 9, NOW);
    pp_sample(&pprof, (uint64_t[]){2, 1}, 2, (int64_t[]){7}, 1);
    const struct torture_maker m = {.name = "intake.pipeline", .make = take_in, .arg = &pprof};
    struct torture_count n = torture_make(&m);
    assert_true(n.allocations >= 10);
    buf_release(&pprof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_takes_a_profile_out_of_no_usage_group),
        cmocka_unit_test(a_profile_is_taken_whole_or_refused_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
