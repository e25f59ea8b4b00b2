// SPDX-License-Identifier: Apache-2.0
//
// state.c - begin, send and end of a request, and the admission's functions on the distributor's
// state.
#include "distributor/state.h"

#include "distributor/loss_note.h"
#include "distributor/metrics.h"
#include "sys/clock.h"
#include "sys/rand.h"

#define MIB ((double)(1 << 20))

// Headers of an answer to a push that went well.
#define ANSWER_MEMORY 4096

static size_t distributors(const struct request *q)
{
    size_t n = 0;
    members_of(q->self->process->members, &q->req->arena, MEMBER_DISTRIBUTOR, &n);
    return MAX(n, (size_t)1);
}

static bool take_rate(void *arg, uint64_t bytes)
{
    struct request *q = arg;
    double rate = q->limits->ingestion_rate_mb * MIB;
    if (rate <= 0) return true;
    return rates_take(&q->self->rates, q->req->tenant, rate,
                      q->limits->ingestion_burst_size_mb * MIB, distributors(q), bytes,
                      clock_mono_ns());
}

static double chance(void *arg)
{
    (void)arg;
    // 53 bits, as many as a double holds exactly: never 1.
    return (double)(rand_u64() >> 11) / (double)(UINT64_C(1) << 53);
}

static bool take_quota(void *arg, str group)
{
    struct request *q = arg;
    assert(q->limits->quota);  // admission.c asks only where there is one
    return quota_sample(&q->self->samplers, q->req->tenant, group, q->limits->quota,
                        distributors(q), chance(NULL), clock_mono_ns());
}

// A profile counts for each of its groups, or for "other".
static void received(void *arg, uint64_t bytes)
{
    struct request *q = arg;
    const struct usage_matches *m = &q->admission.groups;
    for (size_t i = 0; i < MAX(m->n, (size_t)1); i++) {
        str values[] = {q->req->tenant, m->n ? m->v[i].resolved : S("other")};
        metric_add_set(&distributor_usage_group_received, values, bytes);
    }
}

static void lost(void *arg, enum discard_reason why, size_t bytes)
{
    struct request *q = arg;
    const struct usage_matches *m = &q->admission.groups;
    for (size_t i = 0; i < MAX(m->n, (size_t)1); i++) {
        str values[] = {str_of(discard_name(why)), q->req->tenant,
                        m->n ? m->v[i].resolved : S("other")};
        metric_add_set(&distributor_usage_group_discarded, values, bytes);
    }
}

// All reasons at a tenant's first request. The last one is there if all are, so a request asks for
// one in general.
void request_expect(str tenant)
{
    str last[] = {str_of(discard_name((enum discard_reason)(DISCARD_REASON_COUNT - 1))), tenant};
    if (metric_has_set(&distributor_discarded_bytes, last)) return;
    for (int i = 0; i < DISCARD_REASON_COUNT; i++) {
        str values[] = {str_of(discard_name((enum discard_reason)i)), tenant};
        if (!metric_expect_set(&distributor_discarded_samples, values)) return;
        if (!metric_expect_set(&distributor_discarded_bytes, values)) return;
    }
    for (int i = 0; i < LOSS_COUNT; i++) {
        str values[] = {str_of(loss_name((enum loss)i)), tenant};
        (void)metric_expect_set(loss_note_metric((enum loss)i), values);
    }
}

bool request_begin(struct request *q, struct distributor_state *self, struct req *req,
                   const char *protocol, err *e)
{
    const struct process *process = self->process;
    *q = (struct request){
        .self = self,
        .req = req,
        .protocol = protocol,
        .limits = tenant_limits(process->config, &req->arena, req->tenant),
        .begun_mono_ns = clock_mono_ns(),
    };
    assert(q->limits && req->tenant.n > 0);
    request_expect(req->tenant);
    pipeline_init(&q->in, &req->arena, q->limits, clock_wall_ns(), rand_u64());
    q->admission = (struct admission){
        .a = &req->arena,
        .limits = q->limits,
        .take_rate = take_rate,
        .take_quota = take_quota,
        .chance = chance,
        .received = received,
        .arg = q,
    };
    q->in.admission = &q->admission;
    q->in.lost = lost;
    q->in.lost_arg = q;
    const struct distributor_config *config = config_section(process->config, "distributor");
    // Last, because it may fail: request_end counts and logs by what was set above.
    if (!dispatch_init(&q->dispatch, process->client, process->members, config, req->arena.budget,
                       req, e)) {
        return false;
    }
    if (self->settle && !dispatch_settle(&q->dispatch, self->settle, e)) return false;
    q->dispatch.spread = &self->spread;
    q->dispatch.home_ingesters = (size_t)q->limits->home_ingesters;
    // Again, now with the owner: pipeline_init made one for tests, which sends everything to owner
    // 0.
    send_buffer_init(&q->in.out, &req->arena, dispatch_owner, &q->dispatch);
    lexicons_limit(&self->lexicons, config->lexicon_memory);
    // The setting may have changed since the last request. With 0 all lexicons go now.
    if (config->lexicon_memory == 0) return true;
    q->dispatch.lexicons = &self->lexicons;
    q->in.out.lexicon = dispatch_lexicon;
    q->in.out.full = dispatch_full;
    return true;
}

bool request_send(struct request *q, err *e)
{
    struct pipeline *in = &q->in;
    if (in->exhausted) {
        // Some records are missing, and an answer "stored" would hide that.
        assert(in->failed);
        *e = in->first;
        return false;
    }
    send_buffer_seal(&in->out);
    q->sent = in->out.batch_count == 0;
    if (q->sent) return true;
    dispatch_note(&q->dispatch, &in->out, in->received_bytes);
    // What is stored must not be refused afterwards for want of memory: its sender would send it
    // again, and without an id both would count.
    if (!arena_spare(&q->req->arena, ANSWER_MEMORY)) return arena_fail(&q->req->arena, e);
    if (!dispatch_send(&q->dispatch, &in->out, e)) {
        q->too_large = e->code == ERR_OUT_OF_RANGE;
        if (!q->too_large) return false;
        e->code = ERR_INVALID_ARGUMENT;
        pipeline_too_large(in, e);
        return false;
    }
    // All is stored. From here on nothing may fail.
    q->sent = true;
    arena_use_spare(&q->req->arena);
    metric_add(&distributor_records, in->out.records);
    metric_add(&distributor_values, in->out.values);
    return true;
}

void request_delay(const struct request *q, struct http_exchange *x)
{
    double delay = (double)q->limits->ingestion_artificial_delay * (0.9 + 0.2 * chance(NULL));
    assert(x->status < 400);
    uint64_t until = q->begun_mono_ns + (uint64_t)delay;
    uint64_t now = clock_mono_ns();
    if (until <= now) return;
    str text = arena_printf(&x->req.arena, "artificial_delay;dur=%llu",
                            (unsigned long long)((until - now) / (uint64_t)NS_PER_MS));
    route_header(x, "server-timing", text);
    x->hold_until_mono_ns = until;
}

// The router logs failures on our side; refusals are logged here.
static bool is_refusal(const err *fault, bool answered)
{
    if (fault->code == ERR_CANCELED) return false;
    return answered || err_http_status(fault->code) < 500 || fault->code == ERR_UNIMPLEMENTED;
}

static void log_refusal(struct request *q, const err *fault, bool answered)
{
    const struct pipeline *in = &q->in;
    bool counted = in->failed && in->first_why != DISCARD_UNKNOWN;
    str reason = counted ? str_of(discard_name(in->first_why)) : (str){0};
    // The first failure of a profile, without what the handler wrapped around it for its client.
    if (in->failed) fault = &in->first;
    if (!fault || !is_refusal(fault, answered)) return;
    str service = in->failed ? in->first_service : in->service;
    refusals_log(&q->self->refusals, &q->req->log, reason, q->protocol, service, fault);
}

// A body that cannot be read as a whole has an unknown number of profiles, and counts as one. Where
// there is no tenant yet, whose it is cannot be told.
static str count_refused(const struct http_exchange *x, const char *protocol, const err *e)
{
    bool large = x->status == 413;
    bool unread = large || e->code == ERR_INVALID_ARGUMENT || e->code == ERR_UNIMPLEMENTED;
    if (!unread || x->req.tenant.n == 0) return (str){0};
    request_expect(x->req.tenant);
    enum discard_reason why = large ? DISCARD_BODY_SIZE_LIMIT : DISCARD_MALFORMED_PROFILE;
    size_t bytes = large ? x->body_max : x->body.n;
    str values[] = {str_of(discard_name(why)), x->req.tenant};
    metric_add_to(&distributor_received_profiles, str_of(protocol), 1);
    metric_add_to(&distributor_received_bytes, str_of(protocol), bytes);
    metric_add_set(&distributor_discarded_samples, values, 1);
    if (bytes) metric_add_set(&distributor_discarded_bytes, values, bytes);
    return values[0];
}

void request_refused(struct distributor_state *self, const struct http_exchange *x,
                     const char *protocol, const err *e)
{
    str reason = count_refused(x, protocol, e);
    refusals_log(&self->refusals, &x->req.log, reason, protocol, (str){0}, e);
}

void request_end(struct request *q, const err *fault, bool answered)
{
    assert(q->self && q->protocol);
    log_refusal(q, fault, answered);
    loss_note_end(q);
    str protocol = str_of(q->protocol);
    metric_add_to(&distributor_received_profiles, protocol, q->in.received);
    metric_add_to(&distributor_received_bytes, protocol, q->in.received_bytes);
    for (int i = 0; i < DISCARD_REASON_COUNT; i++) {
        str values[] = {str_of(discard_name((enum discard_reason)i)), q->req->tenant};
        uint64_t profiles = q->in.discards.profiles[i];
        uint64_t bytes = q->in.discards.bytes[i];
        if (profiles) metric_add_set(&distributor_discarded_samples, values, profiles);
        if (bytes) metric_add_set(&distributor_discarded_bytes, values, bytes);
    }
    metric_observe_ns_to(&distributor_request_seconds, protocol,
                         clock_mono_ns() - q->begun_mono_ns);
}
