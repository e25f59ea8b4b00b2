// SPDX-License-Identifier: Apache-2.0
//
// Sums and their pprof, and a process that pushes its own profile to a listener which is well,
// refuses, says nothing, or is not there.
#include "codec/compress.h"
#include "codec/pb.h"
#include "decode/decode.h"
#include "service/metrics.h"
#include "service/selfprofile_int.h"
#include "service/settings.h"
#include "sys/thread.h"
#include "unit/net/rig.h"

// ---- sums

static bool add(struct stack_sums *s, const char *component, const uint64_t *pcs, uint32_t depth,
                uint64_t samples, enum stack_end end, err *e)
{
    struct stack_row row = {.component = component,
                            .depth = depth,
                            .samples = samples,
                            .cpu_ns = samples * 10000000,
                            .end = end};
    return stack_sums_add(s, &row, pcs, e);
}

static void equal_stacks_of_a_component_are_one(void **state)
{
    (void)state;
    static const char a[] = "a";
    static const char b[] = "b";
    const uint64_t pcs[] = {1, 2, 3};
    struct stack_sums s;
    stack_sums_init(&s, NULL);
    assert_ok(add(&s, a, pcs, 3, 1, STACK_WHOLE, e));
    assert_ok(add(&s, a, pcs, 3, 4, STACK_WHOLE, e));
    assert_ok(add(&s, b, pcs, 3, 1, STACK_WHOLE, e));
    assert_ok(add(&s, a, pcs, 3, 1, STACK_LOST, e));
    assert_ok(add(&s, a, pcs, 2, 1, STACK_WHOLE, e));
    assert_ok(add(&s, a, pcs + 1, 2, 1, STACK_WHOLE, e));
    assert_int_equal(s.row_count, 5);
    assert_int_equal(s.rows[0].samples, 5);
    stack_sums_release(&s);
    assert_int_equal(s.row_count, 0);
}

static void too_many_stacks_are_counted_by_component(void **state)
{
    (void)state;
    static const char a[] = "a";
    static const char b[] = "b";
    struct stack_sums s;
    stack_sums_init(&s, NULL);
    for (uint64_t i = 0; i < STACKS_MAX + 100; i++)
        assert_ok(add(&s, i % 2 ? a : b, &i, 1, 1, STACK_WHOLE, e));
    uint64_t known = 7;
    assert_ok(add(&s, a, &known, 1, 3, STACK_WHOLE, e));
    assert_int_equal(s.row_count, STACKS_MAX + 2);
    uint64_t total = 0;
    for (size_t i = 0; i < s.row_count; i++) {
        total += s.rows[i].samples;
        if (i >= STACKS_MAX) assert_int_equal(s.rows[i].end, STACK_OVERFLOW);
        if (i >= STACKS_MAX) assert_int_equal(s.rows[i].samples, 50);
    }
    assert_int_equal(total, STACKS_MAX + 103);
    stack_sums_release(&s);
}

// ---- pprof

__attribute__((noinline)) static int known_function(int n)
{
    return n > 0 ? n * 3 : -n;
}

static uint64_t inside(int (*fn)(int n))
{
    return (uint64_t)fn + 1;
}

struct encode_case {
    struct stack_sums sums;
    struct buf out;
};

static bool fill_and_encode(void *arg, err *e)
{
    static const char component[] = "ingester.append";
    static const char other[] = "loop";
    struct encode_case *c = arg;
    const struct selfprofile_span span = {.begin_wall_ns = 1700000000000000000,
                                          .duration_ns = 10 * NS_PER_S,
                                          .period_ns = 10000000};
    const uint64_t pcs[] = {inside(known_function), SAMPLE_GAP, inside(known_function), 4096};
    buf_init(&c->out, NULL, 1 << 20);
    stack_sums_init(&c->sums, NULL);
    struct sampler_names *names = sampler_names_new(NULL, 100, e);
    bool ok = names && add(&c->sums, component, pcs, 4, 2, STACK_WHOLE, e) &&
              add(&c->sums, other, pcs, 1, 1, STACK_LOST, e) &&
              add(&c->sums, other, pcs, 1, 3, STACK_DEEP, e) &&
              add(&c->sums, other, pcs, 0, 4, STACK_OVERFLOW, e) &&
              selfprofile_encode(&c->sums, names, &span, &c->out, e);
    sampler_names_free(names);
    stack_sums_release(&c->sums);
    if (!ok) buf_release(&c->out);
    return ok;
}

static str name_of(const struct profile *p, uint32_t location)
{
    const struct profile_location *l = &p->locations[location];
    return l->line_count ? p->functions[p->lines[l->first_line].function].name : S("");
}

static str frame_of(const struct profile *p, uint32_t sample, uint32_t frame)
{
    const struct profile_sample *s = &p->samples[sample];
    assert_true(frame < s->location_count);
    return name_of(p, p->stack_locations[s->first_location + frame]);
}

static void assert_text(str got, const char *want)
{
    if (!str_is(got, want)) fail_msg("'%.*s' is not '%s'", STR(got), want);
}

static void pprof_holds_names_marks_and_components(void **state)
{
    (void)state;
    struct encode_case c;
    assert_ok(fill_and_encode(&c, e));
    struct arena a;
    arena_init(&a, NULL, (size_t)16 << 20);
    struct decode_options options = {0};
    struct decoded d;
    assert_ok(decode_pprof(&a, buf_view(&c.out), &options, &d, NULL, e));
    const struct profile *p = &d.profiles[0];
    assert_int_equal(d.count, 1);
    assert_int_equal(p->type_count, 2);
    assert_text(p->types[0].type, "samples");
    assert_text(p->types[1].type, "cpu");
    assert_text(p->types[1].unit, "nanoseconds");
    assert_text(p->period_type.type, "cpu");
    assert_int_equal(p->period, 10000000);
    assert_int_equal(p->time_ns, 1700000000000000000);
    assert_int_equal(p->duration_ns, 10 * NS_PER_S);
    assert_int_equal(p->sample_count, 4);
    static const int64_t counts[] = {2, 1, 3, 4};
    for (size_t i = 0; i < p->sample_count; i++) {
        assert_int_equal(p->values[2 * i], counts[i]);
        assert_int_equal(p->values[2 * i + 1], counts[i] * 10000000);
        const struct profile_label *l = &p->labels[p->samples[i].first_label];
        assert_int_equal(p->samples[i].label_count, 1);
        assert_text(l->key, "component");
        assert_text(l->text, i == 0 ? "ingester.append" : "loop");
    }
    assert_text(frame_of(p, 0, 0), "known_function");
    assert_text(frame_of(p, 0, 1), MARK_LOST);
    assert_text(frame_of(p, 0, 2), "known_function");
    assert_text(frame_of(p, 0, 3), "");  // an address outside of all files
    assert_text(frame_of(p, 1, 1), MARK_LOST);
    assert_text(frame_of(p, 2, 1), MARK_DEEP);
    assert_text(frame_of(p, 3, 0), MARK_OVERFLOW);
    const struct profile_location *l = &p->locations[p->stack_locations[0]];
    assert_true(
        str_ends(p->functions[p->lines[l->first_line].function].filename, S("selfprofile_test.c")));
    assert_true(p->lines[l->first_line].line > 0);
    assert_true(str_contains(p->mappings[l->mapping].filename, S("selfprofile")));
    arena_release(&a);
    buf_release(&c.out);
}

static bool encode_quietly(void *arg, err *e)
{
    if (!fill_and_encode(arg, e)) return false;
    buf_release(&((struct encode_case *)arg)->out);
    return true;
}

static void encoding_survives_any_refused_memory(void **state)
{
    (void)state;
    struct encode_case c;
    assert_true(torture(encode_quietly, &c) > 0);
}

// ---- pushes

enum manner {
    TAKE,
    REFUSE,
    WAIT
};

struct sink {
    struct rig *rig;
    enum manner manner;
    pthread_mutex_t mutex;
    unsigned pushes;
    struct buf body;  // of the last one
    char tenant[64];
};

static enum head_verdict sink_head(void *self, struct http_exchange *x)
{
    struct sink *s = self;
    assert_true(str_is(x->path, "/prefix/push.v1.PusherService/Push"));
    x->lane = s->rig->lane;
    x->body_max = (size_t)1 << 20;
    return HEAD_READ_BODY;
}

static void sink_run(void *self, struct http_exchange *x)
{
    struct sink *s = self;
    pthread_mutex_lock(&s->mutex);
    buf_clear(&s->body);
    buf_str(&s->body, buf_view(&x->body));
    str tenant = http_headers_get(&x->headers, "x-scope-orgid");
    snprintf(s->tenant, sizeof s->tenant, "%.*s", STR(tenant));
    s->pushes++;
    pthread_mutex_unlock(&s->mutex);
    if (s->manner == WAIT) rig_wait(s->rig, x);
    x->status = s->manner == REFUSE ? 503 : 200;
    if (s->manner == REFUSE) x->fixed = S("no room");
}

static void sink_refuse(void *self, struct http_exchange *x, const err *e)
{
    (void)self;
    x->status = 500;
    x->fixed = arena_printf(&x->req.arena, "%s", e->msg);
}

struct world {
    struct sink sink;
    struct config *config;
    struct loop *loop;
    struct client *client;
    struct mem_budget memory;
    struct process process;
};

static struct world *world_new(enum manner manner, bool on)
{
    struct world *w = mem_must(sizeof *w);
    struct sink *s = &w->sink;
    s->rig = rig_new();
    s->manner = manner;
    pthread_mutex_init(&s->mutex, NULL);
    buf_init(&s->body, NULL, (size_t)1 << 20);
    struct server_app app = {.self = s, .head = sink_head, .run = sink_run, .refuse = sink_refuse};
    assert_ok((s->rig->server = server_open(&s->rig->options, app, s->rig->loops, RIG_LOOPS, e)) !=
              NULL);
    static char url[64];
    static char enabled[] = "--self_profile.enabled=true";
    static char disabled[] = "--self_profile.enabled=false";
    static char interval[] = "--self_profile.interval=1s";
    static char tenant[] = "--self_profile.tenant=observers";
    static char program[] = "flametree";
    snprintf(url, sizeof url, "--self_profile.url=http://127.0.0.1:%u/prefix/",
             server_port(s->rig->server));
    char *argv[] = {program, url, interval, tenant, on ? enabled : disabled, NULL};
    struct config_args args;
    w->config = config_new(settings_sections, settings_section_count);
    assert_ok(config_load(w->config, 5, argv, &args, e));
    mem_budget_init(&w->memory, "process", NULL, (size_t)256 << 20);
    assert_ok((w->loop = loop_new("loop.client", e)) != NULL);
    assert_ok((w->client = client_new(w->loop, &w->memory, 4, e)) != NULL);
    w->process = (struct process){.config = w->config,
                                  .memory = &w->memory,
                                  .client = w->client,
                                  .id = "node-1"};
    return w;
}

static void world_free(struct world *w)
{
    client_free(w->client);
    loop_free(w->loop);
    config_free(w->config);
    rig_free(w->sink.rig);
    buf_release(&w->sink.body);
    pthread_mutex_destroy(&w->sink.mutex);
    assert_int_equal(atomic_load(&w->memory.used), 0);
    mem_must_free(w);
}

static unsigned pushes(struct world *w)
{
    pthread_mutex_lock(&w->sink.mutex);
    unsigned n = w->sink.pushes;
    pthread_mutex_unlock(&w->sink.mutex);
    return n;
}

static atomic_bool enough;

__attribute__((noinline)) static void *burn_cycles(void *arg)
{
    while (!atomic_load(&enough))
        (void)clock_mono_ns();
    return arg;
}

// The process profiles itself, with one busy thread, until it has pushed so often and until `well`
// (NULL: at once).
static void push_busy(struct world *w, const char *thread_name, unsigned at_least,
                      bool (*well)(struct world *w))
{
    pthread_t thread;
    atomic_store(&enough, false);
    struct selfprofile *self = selfprofile_start(&w->process, false);
    assert_non_null(self);
    assert_ok(thread_start(&thread, thread_name, burn_cycles, NULL, e));
    selfprofile_ready(self);
    AWAIT(pushes(w) >= at_least && (!well || well(w)));
    selfprofile_stop(self);
    atomic_store(&enough, true);
    thread_join(thread);
}

struct pushed {
    str labels[3][2];
    unsigned label_count;
    str pprof;
};

static struct pushed read_push(str body)
{
    struct pushed p = {0};
    struct pb_reader request = pb_reader(body);
    assert_true(pb_next(&request));
    struct pb_reader series = pb_reader(request.bytes);
    while (pb_next(&series)) {
        struct pb_reader part = pb_reader(series.bytes);
        assert_true(series.field == 2 || p.label_count < 3);
        while (pb_next(&part)) {
            if (series.field == 1) p.labels[p.label_count][part.field - 1] = part.bytes;
            if (series.field == 2) p.pprof = part.bytes;
        }
        if (series.field == 1) p.label_count++;
    }
    return p;
}

static bool has_function(const struct profile *p, const char *name)
{
    for (uint32_t i = 0; i < p->function_count; i++) {
        if (str_is(p->functions[i].name, name)) return true;
    }
    return false;
}

static bool has_component(const struct profile *p, const char *name)
{
    for (uint32_t i = 0; i < p->label_count; i++) {
        if (str_is(p->labels[i].text, name)) return true;
    }
    return false;
}

// The last push is ours in all that it says, and names the burner. A busy machine may not have run
// that for the time of a push: then it is in a later one.
static bool names_the_burner(struct world *w)
{
    struct arena a;
    struct decoded d;
    struct decode_options options = {.inflated_max = (size_t)4 << 20};
    arena_init(&a, NULL, (size_t)16 << 20);
    pthread_mutex_lock(&w->sink.mutex);
    struct pushed got = read_push(arena_str(&a, buf_view(&w->sink.body)));
    pthread_mutex_unlock(&w->sink.mutex);
    assert_int_equal(got.label_count, 3);
    assert_text(got.labels[0][1], "process_cpu");
    assert_text(got.labels[1][1], "flametree");
    assert_text(got.labels[2][0], "instance");
    assert_text(got.labels[2][1], "node-1");
    assert_true(compress_is_gzip(got.pprof));
    assert_ok(decode_pprof(&a, got.pprof, &options, &d, NULL, e));
    bool well = has_function(d.profiles, "burn_cycles") && has_component(d.profiles, "burner");
    arena_release(&a);
    return well;
}

static void busy_thread_is_found_in_a_push(void **state)
{
    (void)state;
    struct world *w = world_new(TAKE, true);
    push_busy(w, "burner.1", 2, names_the_burner);
    assert_string_equal(w->sink.tenant, "observers");
    world_free(w);
}

static void first_push_is_sampled_more_densely(void **state)
{
    (void)state;
    struct world *w = world_new(WAIT, true);  // no second push
    push_busy(w, "burner", 1, NULL);
    rig_await(w->sink.rig, &w->sink.rig->canceled, 1);
    struct arena a;
    arena_init(&a, NULL, (size_t)16 << 20);
    struct decode_options options = {.inflated_max = (size_t)4 << 20};
    struct decoded d;
    assert_ok(decode_pprof(&a, read_push(buf_view(&w->sink.body)).pprof, &options, &d, NULL, e));
    const struct profile *p = &d.profiles[0];
    assert_int_equal(p->period, 2500000);  // four times the rate of the settings
    for (size_t i = 0; i < p->sample_count; i++)
        assert_int_equal(p->values[2 * i + 1], p->values[2 * i] * p->period);
    arena_release(&a);
    assert_ok(sampler_start(100, e));  // it runs no more
    sampler_stop();
    world_free(w);
}

static uint64_t failed_pushes(void)
{
    struct buf b;
    buf_init(&b, NULL, (size_t)1 << 20);
    metric_print(&b);
    str rest = buf_view(&b);
    uint64_t n = 0;
    str key = S("flametree_self_profile_pushes_total{result=\"failed\"} ");
    while (rest.n > 0) {
        str line = str_split(rest, '\n', &rest);
        if (str_starts(line, key)) assert_true(str_u64(str_slice(line, key.n, line.n), &n));
    }
    buf_release(&b);
    return n;
}

static void push_that_is_refused_is_counted_and_followed_by_others(void **state)
{
    (void)state;
    struct world *w = world_new(REFUSE, true);
    uint64_t before = failed_pushes();
    push_busy(w, "burner", 2, NULL);
    assert_true(failed_pushes() > before);  // the second push began after the first one's end
    world_free(w);
}

static void push_on_its_way_does_not_delay_the_end(void **state)
{
    (void)state;
    struct world *w = world_new(WAIT, true);
    push_busy(w, "burner", 1, NULL);
    rig_await(w->sink.rig, &w->sink.rig->canceled, 1);
    world_free(w);
}

static void nothing_is_pushed_before_it_is_ready(void **state)
{
    (void)state;
    struct world *w = world_new(TAKE, true);
    struct selfprofile *self = selfprofile_start(&w->process, false);
    assert_non_null(self);
    selfprofile_stop(self);
    assert_int_equal(pushes(w), 0);
    world_free(w);
}

static void it_is_off_by_its_row(void **state)
{
    (void)state;
    struct world *w = world_new(TAKE, false);
    assert_null(selfprofile_start(&w->process, true));
    selfprofile_stop(NULL);
    world_free(w);
}

int main(void)
{
    metric_register(service_metrics, service_metric_count);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stacks_of_a_component_are_one),
        cmocka_unit_test(too_many_stacks_are_counted_by_component),
        cmocka_unit_test(pprof_holds_names_marks_and_components),
        cmocka_unit_test(encoding_survives_any_refused_memory),
        cmocka_unit_test(busy_thread_is_found_in_a_push),
        cmocka_unit_test(first_push_is_sampled_more_densely),
        cmocka_unit_test(push_that_is_refused_is_counted_and_followed_by_others),
        cmocka_unit_test(push_on_its_way_does_not_delay_the_end),
        cmocka_unit_test(nothing_is_pushed_before_it_is_ready),
        cmocka_unit_test(it_is_off_by_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
