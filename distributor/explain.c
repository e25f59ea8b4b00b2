// SPDX-License-Identifier: Apache-2.0
#include "distributor/explain.h"

#include "codec/json.h"
#include "codec/url.h"
#include "distributor/state.h"
#include "model/ptype.h"
#include "rpc/auth.h"
#include "sys/clock.h"

#include <inttypes.h>

#define TYPE       "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define ANSWER_MAX ((size_t)8 << 20)
#define SHOWN      200

struct explanation {
    struct distributor_state *self;
    struct http_exchange *x;
    struct arena *a;
    str tenant;
    struct ptype type;
    bool with_id;
    struct pipeline_item item;
    struct pipeline in;
    struct dispatch dispatch;
    // what the send buffer asked for, of the first series
    bool asked;
    str service;
    struct dispatch_place place;
    err fault;
};

// ---- the question

static bool read_tenant(struct explanation *q, err *e)
{
    q->tenant = S("anonymous");
    (void)url_query(q->a, q->x->query, "tenant", &q->tenant);
    return auth_tenant_check(q->tenant, e) || err_wrap(e, "tenant");
}

static bool read_type(struct explanation *q, err *e)
{
    str text = S(TYPE);
    (void)url_query(q->a, q->x->query, "type", &text);
    return ptype_parse(text, &q->type, e) || err_wrap(e, "type");
}

static bool read_id(struct explanation *q, err *e)
{
    str text = {0};
    bool given = url_query(q->a, q->x->query, "id", &text);
    q->with_id = given && str_is(text, "true");
    if (!given || q->with_id || str_is(text, "false")) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "id is '%.*s', must be true or false",
                   STR(str_slice(text, 0, SHOWN)));
}

// A selector whose matchers are all "=" is a label set.
static bool read_labels(struct explanation *q, err *e)
{
    str text = {0};
    struct selector s = {0};
    if (!url_query(q->a, q->x->query, "labels", &text) || !text.n)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "labels is missing: such as {service_name=\"shop\",pod=\"a\"}");
    if (!selector_parse(q->a, text, &s, e)) return err_wrap(e, "labels");
    label *v = ARENA_ARRAY(q->a, label, s.n + 1);
    if (!v) return arena_fail(q->a, e);
    bool named = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.v[i].op != MATCH_EQ)
            return err_set(e, ERR_INVALID_ARGUMENT, "labels: '%.*s' has no value: only = is one",
                           STR(str_slice(s.v[i].name, 0, SHOWN)));
        named |= str_is(s.v[i].name, LABEL_NAME);
        v[i] = (label){s.v[i].name, s.v[i].value};
    }
    q->item = (struct pipeline_item){.labels = v, .label_count = s.n};
    if (!named) v[q->item.label_count++] = (label){S(LABEL_NAME), q->type.name};
    if (q->with_id) q->item.client_id = S("id");
    return true;
}

// ---- the way of a push

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is send_buffer_owner
static uint32_t owner(void *arg, str service, uint64_t labels_hash, uint32_t *home)
{
    struct explanation *q = arg;
    // All series of a profile go the same way, unless rules of the tenant give them other services.
    if (q->asked || q->fault.code) return 0;
    if (!dispatch_explain(&q->dispatch, service, labels_hash, home != NULL, &q->place, &q->fault))
        return 0;
    q->asked = true;
    q->service = service;
    return q->place.order[0];
}

// A profile of one sample, of the type and nothing else.
static bool make_profile(const struct explanation *q, struct profile *p, err *e)
{
    struct profile_type *type = ARENA_NEW(q->a, struct profile_type);
    struct profile_function *function = ARENA_NEW(q->a, struct profile_function);
    struct profile_line *line = ARENA_NEW(q->a, struct profile_line);
    struct profile_location *location = ARENA_NEW(q->a, struct profile_location);
    struct profile_sample *sample = ARENA_NEW(q->a, struct profile_sample);
    int64_t *value = ARENA_NEW(q->a, int64_t);
    uint32_t *stack = ARENA_NEW(q->a, uint32_t);
    if (!arena_ok(q->a, e)) return false;
    *type = (struct profile_type){q->type.sample_type, q->type.sample_unit};
    *function = (struct profile_function){.name = S("main")};
    *line = (struct profile_line){0};
    *location = (struct profile_location){.mapping = PROFILE_NONE, .line_count = 1};
    *sample = (struct profile_sample){.location_count = 1};
    *value = 1;
    *stack = 0;
    *p = (struct profile){.types = type,
                          .functions = function,
                          .locations = location,
                          .lines = line,
                          .samples = sample,
                          .values = value,
                          .stack_locations = stack,
                          .type_count = 1,
                          .function_count = 1,
                          .location_count = 1,
                          .line_count = 1,
                          .sample_count = 1,
                          .stack_location_count = 1,
                          .period_type = {q->type.period_type, q->type.period_unit},
                          .period = 1};
    return true;
}

static bool go_the_way(struct explanation *q, err *e)
{
    const struct process *process = q->self->process;
    const struct distributor_config *config = config_section(process->config, "distributor");
    struct req *req = &q->x->req;
    struct profile p;
    req->tenant = q->tenant;
    const struct limits *limits = tenant_limits(process->config, q->a, q->tenant);
    if (!make_profile(q, &p, e) || !dispatch_init(&q->dispatch, process->client, process->members,
                                                  config, q->a->budget, req, e))
        return false;
    if (q->self->settle && !dispatch_settle(&q->dispatch, q->self->settle, e)) return false;
    q->dispatch.spread = &q->self->spread;
    q->dispatch.home_ingesters = (size_t)limits->home_ingesters;
    pipeline_init(&q->in, q->a, limits, clock_wall_ns(), 0);
    send_buffer_init(&q->in.out, q->a, owner, q);
    pipeline_profile(&q->in, q->a, &p, false, &q->item);
    if (q->fault.code || q->in.failed) {
        *e = q->fault.code ? q->fault : q->in.first;
        return false;
    }
    if (q->asked) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the tenant's relabelling rules drop this series: it goes nowhere");
}

// ---- the answer

static const char *state_of(const struct member *m)
{
    return !m->alive ? "dead" : m->unready ? "unready" : "alive";
}

static void put_number(struct buf *out, const char *key, size_t n)
{
    buf_printf(out, ",\"%s\":%zu", key, n);
}

static void put_order(struct buf *out, const struct explanation *q)
{
    const struct dispatch *d = &q->dispatch;
    size_t live = 0;
    for (size_t i = 0; i < d->member_count; i++)
        live += d->members[i].alive && !d->members[i].unready;
    size_t subset = q->place.tenant_ingesters ? MIN(q->place.tenant_ingesters, live) : live;
    size_t owners = MIN(q->place.service_ingesters ? q->place.service_ingesters : subset, subset);
    buf_z(out, ",\"order\":[");
    for (size_t i = 0; i < d->member_count; i++) {
        const struct member *m = &d->members[q->place.order[i]];
        buf_printf(out, "%s{\"ingester\":", i ? "," : "");
        json_put_string(out, m->id);
        buf_z(out, ",\"address\":");
        json_put_string(out, m->address);
        buf_printf(out, ",\"weight\":%u,\"state\":\"%s\",\"of\":\"%s\"}", member_weight(m),
                   state_of(m),
                   i < owners   ? "service"
                   : i < subset ? "tenant"
                   : i < live   ? "others"
                                : "last");
    }
    buf_byte(out, ']');
}

static void put_labels(struct buf *out, const struct explanation *q)
{
    buf_z(out, ",\"labels\":{");
    for (size_t i = 0; i < q->item.label_count; i++) {
        if (i > 0) buf_byte(out, ',');
        json_put_string(out, q->item.labels[i].name);
        buf_byte(out, ':');
        json_put_string(out, q->item.labels[i].value);
    }
    buf_byte(out, '}');
}

// The subset of the tenant and that of the service, how many they have and by what.
static void put_answer(struct buf *out, const struct explanation *q)
{
    const struct dispatch *d = &q->dispatch;
    const struct distributor_config *c = d->config;
    buf_z(out, "{\"distributor\":");
    json_put_string(out, str_of(q->self->process->id));
    buf_z(out, ",\"tenant\":");
    json_put_string(out, q->tenant);
    buf_z(out, ",\"service\":");
    json_put_string(out, q->service);
    put_labels(out, q);
    buf_printf(out, ",\"with_id\":%s", q->with_id ? "true" : "false");
    put_number(out, "ingesters", d->member_count);
    // Numbers of ingesters: those in use, those that the rates need, those for evenness,
    // those of the settings. 0: all,
    // or not set.
    put_number(out, "tenant_ingesters", q->place.tenant_ingesters);
    put_number(out, "tenant_need", q->place.tenant_need);
    put_number(out, "tenant_even", q->place.tenant_even);
    put_number(out, "tenant_ingesters_set", (size_t)c->tenant_ingesters);
    put_number(out, "service_ingesters", q->place.service_ingesters);
    put_number(out, "service_need", q->place.service_need);
    put_number(out, "service_even", q->place.service_even);
    put_number(out, "service_ingesters_set", (size_t)c->service_ingesters);
    put_number(out, "series_need", q->place.series_need);
    put_number(out, "home_ingesters", d->home_ingesters);
    put_number(out, "attempts", MIN((size_t)c->append_attempts, d->member_count));
    put_order(out, q);
    buf_z(out, ",\"home\":");
    json_put_string(out, d->members[q->place.home].id);
    buf_printf(out, ",\"settled\":%s,\"past_lists\":%zu,\"past_unknown\":%s}\n",
               q->place.settled ? "true" : "false", d->past.n, d->past.unknown ? "true" : "false");
}

bool explain_place(void *self, struct http_exchange *x, err *e)
{
    struct explanation q = {.self = self, .x = x, .a = &x->req.arena};
    if (!read_tenant(&q, e) || !read_type(&q, e) || !read_id(&q, e) || !read_labels(&q, e) ||
        !go_the_way(&q, e))
        return false;
    x->status = 200;
    buf_release(&x->out);
    buf_init(&x->out, q.a->budget, ANSWER_MAX);
    route_header(x, "content-type", S("application/json"));
    put_answer(&x->out, &q);
    return buf_ok(&x->out, e);
}
