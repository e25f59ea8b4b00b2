// SPDX-License-Identifier: Apache-2.0
//
// admission.c - quotas, rate and sampling of one profile, with Pyroscope's messages and
// annotations.
#include "intake/admission.h"

#include "codec/json.h"
#include "intake/text.h"
#include "sys/clock.h"

#define MIB           ((double)(1 << 20))
#define KEY_THROTTLED "pyroscope.ingest.throttled"
#define KEY_SAMPLED   "pyroscope.ingest.sampled"

// Releases the body.
static bool annotate(struct admission *g, struct admission_pass *pass, str key, struct buf *body,
                     err *e)
{
    assert(pass->annotation_count < COUNT(pass->annotations));
    bool ok = buf_ok(body, e);
    str value = ok ? arena_str(g->a, buf_view(body)) : (str){0};
    buf_release(body);
    if (!ok) return false;
    if (!value.p) return arena_fail(g->a, e);
    pass->annotations[pass->annotation_count++] = (label){key, value};
    return true;
}

static bool mark_throttled(struct admission *g, struct admission_pass *pass, str group, err *e)
{
    const struct quota *q = g->limits->quota;
    struct buf b;
    // One is enough, the tenant's before that of a group.
    if (pass->annotation_count > 0) return true;
    assert(q && q->period_type);
    buf_init(&b, g->a->budget, 1 << 20);
    buf_z(&b, "{\"body\":{\"periodType\":");
    json_put_string(&b, str_of(q->period_type));
    buf_z(&b, ",\"periodLimitMb\":");
    buf_i64(&b, q->period_limit_mb);
    buf_z(&b, ",\"limitResetTime\":");
    buf_i64(&b, q->limit_reset_s);
    buf_z(&b, ",\"samplingPeriodSec\":");
    buf_i64(&b, q->sample_period_ns / NS_PER_S);
    buf_z(&b, ",\"samplingRequests\":");
    buf_i64(&b, q->sampled);
    buf_z(&b, ",\"usageGroup\":");
    json_put_string(&b, group);
    buf_z(&b, "}}");
    return annotate(g, pass, S(KEY_THROTTLED), &b, e);
}

static bool mark_sampled(struct admission *g, struct admission_pass *pass,
                         const struct usage_sampling *s, err *e)
{
    struct buf b;
    buf_init(&b, g->a->budget, 1 << 20);
    buf_z(&b, "{\"body\":{\"source\":{\"usageGroup\":");
    json_put_string(&b, s->match->resolved);
    buf_printf(&b, ",\"probability\":%.15g}}}", s->probability);
    return annotate(g, pass, S(KEY_SAMPLED), &b, e);
}

static bool pass_quota(struct admission *g, struct admission_pass *pass, enum discard_reason *why,
                       err *e)
{
    const struct quota *q = g->limits->quota;
    if (!q || !q->limit_reached) return true;
    if (g->take_quota && g->take_quota(g->arg, (str){0}))
        return mark_throttled(g, pass, (str){0}, e);
    char limit[TEXT_MAX];
    char reset[TEXT_MAX];
    *why = DISCARD_INGEST_LIMIT_REACHED;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "limit of %s/%s reached, next reset at %s",
                   text_ibytes(limit, (uint64_t)q->period_limit_mb << 20), q->period_type,
                   text_rfc3339(reset, q->limit_reset_s));
}

static bool pass_rate(struct admission *g, uint64_t bytes, enum discard_reason *why, err *e)
{
    if (!g->take_rate || g->take_rate(g->arg, bytes)) return true;
    char limit[TEXT_MAX];
    char more[TEXT_MAX];
    *why = DISCARD_RATE_LIMITED;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "push rate limit (%s) exceeded while adding %s",
                   text_ibytes(limit, (uint64_t)(g->limits->ingestion_rate_mb * MIB)),
                   text_ibytes(more, bytes));
}

// The quota of a group: by its resolved name, else by its configured one.
static const struct quota_group *quota_of(const struct quota *q, const struct usage_match *m)
{
    const struct quota_group *found = NULL;
    for (size_t i = 0; i < q->group_count; i++) {
        if (str_eq(q->groups[i].name, m->resolved)) return &q->groups[i];
        // A resolved name is the narrower one, so the search goes on for it.
        if (str_eq(q->groups[i].name, m->configured)) found = &q->groups[i];
    }
    return found;
}

static bool pass_groups(struct admission *g, struct admission_pass *pass, enum discard_reason *why,
                        err *e)
{
    const struct quota *q = g->limits->quota;
    for (size_t i = 0; q && i < g->groups.n; i++) {
        const struct usage_match *m = &g->groups.v[i];
        const struct quota_group *limit = quota_of(q, m);
        if (!limit || !limit->limit_reached) continue;
        if (g->take_quota && g->take_quota(g->arg, m->resolved)) {
            if (!mark_throttled(g, pass, m->resolved, e)) return false;
            continue;
        }
        char size[TEXT_MAX];
        char reset[TEXT_MAX];
        str configured = text_shown(m->configured);
        str resolved = text_shown(m->resolved);
        *why = DISCARD_INGEST_LIMIT_REACHED;
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "limit of %s/%s reached for usage group {configured: %.*s, resolved: %.*s}, "
                       "next reset at %s",
                       text_ibytes(size, (uint64_t)limit->period_limit_mb << 20), q->period_type,
                       STR(configured), STR(resolved), text_rfc3339(reset, q->limit_reset_s));
    }
    return true;
}

static bool sample(struct admission *g, struct admission_pass *pass, err *e)
{
    struct usage_sampling s = usage_sampling(&g->limits->sampling, &g->groups);
    if (!s.match) return true;
    assert(s.probability >= 0 && g->chance);
    if (!mark_sampled(g, pass, &s, e)) return false;
    if (g->chance(g->arg) < s.probability) return true;
    pass->stripped = g->limits->keep_stripped_profiles;
    pass->dropped = !pass->stripped;
    return true;
}

bool admission_pass(struct admission *g, labels ls, uint64_t bytes, struct admission_pass *pass,
                    enum discard_reason *why, err *e)
{
    *pass = (struct admission_pass){0};
    // Received bytes count for the usage groups even if the profile is refused.
    bool found = usage_find(g->a, &g->limits->usage_groups, ls, &g->groups, e);
    if (g->received) g->received(g->arg, bytes);
    if (!found) return false;
    // The tenant's quota and rate before those of its groups: a refused push must take nothing from
    // them. The rate is taken even if a group refuses afterwards.
    if (!pass_quota(g, pass, why, e) || !pass_rate(g, bytes, why, e)) return false;
    return pass_groups(g, pass, why, e) && sample(g, pass, e) && arena_ok(g->a, e);
}
