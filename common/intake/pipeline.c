// SPDX-License-Identifier: Apache-2.0
//
// pipeline.c - one profile through all checks and changes, in Pyroscope's order (pipeline.h draws
// it).
#include "intake/pipeline.h"

#include "intake/mend.h"
#include "intake/normalise.h"
#include "intake/tenant_rules.h"
#include "intake/text.h"

#define MIB ((double)(1 << 20))

void pipeline_init(struct pipeline *in, struct arena *a, const struct limits *limits,
                   int64_t now_ns, uint64_t nonce)
{
    *in = (struct pipeline){.a = a, .limits = limits, .now_ns = now_ns, .nonce = nonce};
    send_buffer_init(&in->out, a, NULL, NULL);
}

size_t pipeline_size_max(const struct pipeline *in)
{
    int64_t most = in->limits->max_profile_size_bytes;
    return most > 0 ? (size_t)most : 0;
}

void pipeline_fail(struct pipeline *in, enum discard_reason why, const err *e)
{
    if (in->failed) return;
    in->failed = true;
    assert(e->code != ERR_OK);
    in->first = *e;
    in->first_number = in->received;
    in->first_why = why;
    in->first_service = in->service;
}

void pipeline_answer(const struct pipeline *in, err *e)
{
    assert(in->failed);
    *e = in->first;
    if (in->received < 2) return;
    err_set(e, in->first.code, "%s (profile %u of %u; refused: %u, stored: %llu)", in->first.msg,
            in->first_number, in->received, in->refused, (unsigned long long)in->stored);
}

static void lose(struct pipeline *in, enum discard_reason why, size_t bytes)
{
    assert(why < DISCARD_REASON_COUNT);
    discard_add(&in->discards, why, bytes);
    if (in->lost) in->lost(in->lost_arg, why, bytes);
}

void pipeline_refuse(struct pipeline *in, enum discard_reason why, size_t bytes, const err *e)
{
    lose(in, why, bytes);
    in->refused++;
    pipeline_fail(in, why, e);
}

void pipeline_refuse_unread(struct pipeline *in, enum discard_reason why, size_t bytes,
                            const err *e)
{
    in->received++;
    in->received_bytes += bytes;
    if (in->admission && in->admission->received)
        in->admission->received(in->admission->arg, bytes);
    pipeline_refuse(in, why, bytes, e);
}

void pipeline_too_large(struct pipeline *in, const err *e)
{
    // Reasons that were counted so far are replaced.
    in->discards = (struct discards){0};
    in->discards.profiles[DISCARD_BODY_SIZE_LIMIT] = in->received;
    in->discards.bytes[DISCARD_BODY_SIZE_LIMIT] = in->received_bytes;
    in->failed = false;  // the answer is this, whatever was wrong before
    pipeline_fail(in, DISCARD_BODY_SIZE_LIMIT, e);
}

bool pipeline_body_fits(struct pipeline *in, err *e)
{
    double limit = in->limits->ingestion_body_limit_mb * MIB;
    if (limit <= 0 || (double)in->received_bytes <= limit) return true;
    char text[TEXT_MAX];
    err_set(e, ERR_INVALID_ARGUMENT,
            "uncompressed batched profile payload size exceeds limit of %s",
            text_bytes(text, (uint64_t)limit));
    pipeline_too_large(in, e);  // nothing of the request is stored
    return false;
}

// The service that an item names; of several names the first.
static str service_of(const struct pipeline_item *item)
{
    for (size_t i = 0; i < item->label_count; i++) {
        if (str_is(item->labels[i].name, LABEL_SERVICE)) return item->labels[i].value;
    }
    return (str){0};
}

// A label that was sent twice with one value is one label. Sorted, equal names are neighbours; with
// several values they stay, and validate_labels refuses them.
static size_t drop_repeated(label *v, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && label_order(&v[kept - 1], &v[i]) == 0) continue;
        v[kept++] = v[i];
    }
    return kept;
}

// The client's labels in order, each once, with a service name.
static labels with_service(struct arena *a, const struct pipeline_item *item)
{
    label *v = ARENA_ARRAY(a, label, item->label_count + 1);
    if (!v) return (labels){0};
    size_t n = 0;
    bool named = false;
    for (size_t i = 0; i < item->label_count; i++) {
        bool service = str_is(item->labels[i].name, LABEL_SERVICE);
        if (service && item->labels[i].value.n == 0) continue;  // as if it were not there
        named |= service;
        v[n++] = item->labels[i];
    }
    if (!named) v[n++] = (label){S(LABEL_SERVICE), S("unknown_service")};
    labels_sort(v, n);
    return (labels){v, drop_repeated(v, n)};
}

// Asks the admission. A profile costs the tenant its uncompressed bytes and its labels.
static bool pass(struct pipeline *in, const struct profile *p, labels ls,
                 struct admission_pass *how, enum discard_reason *why, err *e)
{
    uint64_t bytes = p->encoded_bytes;
    for (size_t i = 0; i < ls.n; i++)
        bytes += ls.v[i].name.n + ls.v[i].value.n;
    *how = (struct admission_pass){0};
    return !in->admission || admission_pass(in->admission, ls, bytes, how, why, e);
}

// Reduces a profile to one sample without stack and labels that has the sums of all values, and
// adds the label that says so (keep_stripped_profiles).
static bool strip(struct arena *scratch, struct profile *p, labels *ls, err *e)
{
    assert(p->type_count > 0);
    int64_t *totals = ARENA_ARRAY(scratch, int64_t, p->type_count);
    struct profile_sample *one = ARENA_NEW(scratch, struct profile_sample);
    label *v = ARENA_ARRAY(scratch, label, ls->n + 1);
    if (!totals || !one || !v) return arena_fail(scratch, e);
    for (size_t i = 0; i < (size_t)p->sample_count * p->type_count; i++) {
        // Values are in rows of type_count.
        int64_t *sum = &totals[i % p->type_count];
        if (__builtin_add_overflow(*sum, p->values[i], sum))
            return err_set(e, ERR_OUT_OF_RANGE, "the sum of the samples exceeds 64 bits");
    }
    memset(one, 0, sizeof *one);
    p->samples = one;
    p->values = totals;
    p->sample_count = 1;
    size_t n = 0;
    for (size_t i = 0; i < ls->n; i++) {
        // The client's own label of this name would say something else.
        if (!str_is(ls->v[i].name, LABEL_SAMPLED)) v[n++] = ls->v[i];
    }
    v[n++] = (label){S(LABEL_SAMPLED), S("true")};
    labels_sort(v, n);
    assert(n <= ls->n + 1);
    *ls = (labels){v, n};
    return true;
}

// A time of 0 is none, and a negative one is no time at which a profile can have been taken. A
// duration that is negative or ends beyond 64 bits says nothing, but the values do not depend on
// it: then it is unknown, as if it had not been sent.
static bool pipeline_check_time(struct arena *scratch, struct profile *p, labels ls,
                                enum discard_reason *why, err *e)
{
    int64_t end = 0;
    if (p->time_ns < 0) {
        *why = DISCARD_MALFORMED_PROFILE;
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "the profile with labels '%s' has the time %lld ns (time_nanos), which is "
                       "before 1970",
                       text_labels(scratch, ls), (long long)p->time_ns);
    }
    if (p->duration_ns < 0 || __builtin_add_overflow(p->time_ns, p->duration_ns, &end))
        p->duration_ns = 0;
    return true;
}

static bool check(struct pipeline *in, struct arena *scratch, struct profile *p, bool text,
                  labels ls, enum discard_reason *why, err *e)
{
    if (!pipeline_check_time(scratch, p, ls, why, e)) return false;
    if (!validate_profile(scratch, p, ls, in->limits, in->now_ns, why, e)) return false;
    bool unread = text || p->losses.count[LOSS_BAD_TEXT];
    return !unread || validate_text(scratch, p, in->limits, why, e);
}

// Runs after the checks, so that limits count what was sent.
static bool change(struct pipeline *in, struct arena *scratch, struct profile *p, labels *ls,
                   uint64_t *dropped_bytes, enum discard_reason *why, err *e)
{
    // Go first: its repair compares stacks of all samples, those without a value too.
    if (normalise_is_go(p, *ls) && !normalise_go(scratch, p)) return arena_fail(scratch, e);
    if (!mend_types(p, e)) return false;
    uint32_t types = p->type_count;
    assert(types > 0);
    if (!tenant_rules_sample_types(scratch, in->limits->relabel_types, *ls, p, e)) {
        // As for the rules of series (finish): they joined labels of the client that are too long.
        if (e->code == ERR_INVALID_ARGUMENT) *why = DISCARD_LABEL_VALUE_TOO_LONG;
        return false;
    }
    *dropped_bytes = (uint64_t)p->encoded_bytes * (types - p->type_count) / types;
    bool ok = normalise_profile(scratch, p) && normalise_version(scratch, p, *ls) &&
              tenant_rules_session(scratch, ls, in->limits->max_sessions_per_series);
    return ok || arena_fail(scratch, e);
}

// A copy in the request's arena: records keep the annotations until they are sent.
static label *annotations(struct pipeline *in, const struct admission_pass *how)
{
    label *v = ARENA_ARRAY(in->a, label, how->annotation_count);
    if (v && how->annotation_count) memcpy(v, how->annotations, how->annotation_count * sizeof *v);
    return v;
}

struct finishing {
    const struct limits *limits;
    enum discard_reason *why;
    labels own;        // of the profile, without those of its samples
    uint32_t surplus;  // most labels that one of the groups has lost
    uint32_t lengthy;  // most labels of one that were too long
};

// Surplus labels go, and long ones are cut, before the others are checked.
static bool pipeline_shorten(struct finishing *f, struct arena *a, labels *ls, err *e)
{
    if (f->limits->refuses_faulty || mend_labels_fit(*ls, f->limits)) return true;
    label *v = ARENA_ARRAY(a, label, ls->n);
    if (!v) return arena_fail(a, e);
    uint32_t n = mend_series_labels(f->own, ls, v, f->limits);
    f->surplus = MAX(f->surplus, n);
    n = mend_label_lengths(ls, v, f->limits);
    f->lengthy = MAX(f->lengthy, n);
    return true;
}

// Gives a group its final labels: the tenant's relabelling rules run, then the result is validated.
static bool finish(void *arg, struct arena *a, labels *ls, bool *keep, err *e)
{
    struct finishing *f = arg;
    const struct relabel_rules *rules = f->limits->relabel;
    if (rules && !relabel_run(a, rules, *ls, ls, keep, e)) {
        if (e->code == ERR_INVALID_ARGUMENT) *f->why = DISCARD_LABEL_VALUE_TOO_LONG;
        return false;
    }
    return !*keep ||
           (pipeline_shorten(f, a, ls, e) && validate_labels(a, ls, f->limits, f->why, e));
}

// Counts sample types and samples that rules dropped, as their share of the profile's bytes.
// of_types: the share of the types.
static void count_dropped(struct pipeline *in, const struct profile *p, const struct split *split,
                          uint64_t of_types)
{
    uint64_t share = 0;
    assert(split->dropped <= p->sample_count && of_types <= p->encoded_bytes);
    if (split->dropped) share = (p->encoded_bytes - of_types) * split->dropped / p->sample_count;
    if (split->dropped == 0 && of_types == 0) return;
    lose(in, DISCARD_DROPPED_BY_RELABEL_RULES, of_types + share);
    // A profile that is stored in part counts with its bytes only.
    if (split->group_count > 0) in->discards.profiles[DISCARD_DROPPED_BY_RELABEL_RULES]--;
}

// Notes what decoder and limits left out or mended of a profile that was taken.
static void note_losses(struct pipeline *in, const struct profile *p)
{
    if (!losses_any(&p->losses)) return;
    if (!losses_any(&in->losses)) in->losses_service = in->service;
    losses_merge(&in->losses, &p->losses);
}

static bool run_profile(struct pipeline *in, struct arena *scratch, struct profile *p, bool text,
                        const struct pipeline_item *item, enum discard_reason *why, err *e)
{
    // The time as sent, before validate_profile sets a missing one: it is part of the id.
    struct send_buffer_source from = {
        .body = item->bytes,
        .client_id = item->client_id,
        .time_ns = p->time_ns,
        .nonce = in->nonce,
        .number = in->received,
    };
    assert(in->received > 0);
    labels ls = with_service(scratch, item);
    struct admission_pass how;
    if (!arena_ok(scratch, e)) return false;
    from.series = labels_fingerprint(ls);
    if (!in->limits->refuses_faulty && !mend_label_text(scratch, &ls, &p->losses, e)) return false;
    if (!pass(in, p, ls, &how, why, e)) return false;
    if (how.dropped) {
        lose(in, DISCARD_DROPPED_BY_SAMPLING, p->encoded_bytes);
        return true;
    }
    from.annotations = annotations(in, &how);
    from.annotation_count = how.annotation_count;
    uint64_t of_types = 0;
    if (!check(in, scratch, p, text, ls, why, e) || !change(in, scratch, p, &ls, &of_types, why, e))
        return false;
    if (p->sample_count == 0) {  // nothing is left: accepted, not stored
        if (of_types) lose(in, DISCARD_DROPPED_BY_RELABEL_RULES, p->encoded_bytes);
        note_losses(in, p);
        return true;
    }
    // After normalisation, so that the totals are those that the whole profile would have had.
    if (how.stripped && !strip(scratch, p, &ls, e)) return false;
    struct finishing finishing = {.limits = in->limits, .why = why, .own = ls};
    struct split split = {0};
    if (!split_profile(scratch, p, ls, &(struct split_finish){finish, &finishing}, &split, e)) {
        return false;
    }
    losses_add(&p->losses, LOSS_LABELS_LIMIT, finishing.surplus);
    losses_add(&p->losses, LOSS_LABEL_LENGTH, finishing.lengthy);
    count_dropped(in, p, &split, of_types);
    if (split.group_count == 0) return true;  // told with the reason of the rules
    *why = DISCARD_MALFORMED_PROFILE;         // if a sum does not fit
    if (!send_buffer_add(&in->out, scratch, p, &split, &from, e)) {
        in->exhausted |= e->code == ERR_RESOURCE_EXHAUSTED;
        return false;
    }
    assert(!in->exhausted);
    in->stored++;
    note_losses(in, p);
    return true;
}

void pipeline_profile(struct pipeline *in, struct arena *scratch, struct profile *p, bool text,
                      const struct pipeline_item *item)
{
    enum discard_reason why = DISCARD_UNKNOWN;
    err e = {0};
    in->service = service_of(item);
    in->received++;
    in->received_bytes += p->encoded_bytes;
    // The request fails as a whole, so its other profiles are only counted.
    if (in->exhausted) return;
    if (!run_profile(in, scratch, p, text, item, &why, &e)) {
        pipeline_refuse(in, why, p->encoded_bytes, &e);
        if (in->exhausted) in->first = e;  // nothing is stored: the answer must be "try again"
    }
    if (in->admission)
        in->admission->groups.n = 0;  // later losses are not of this profile's usage groups
}

void pipeline_pprof(struct pipeline *in, const struct pipeline_item *item)
{
    // Scratch for one profile, within what the request's arena has left. It is freed before the
    // next profile, so that their scratch does not add up.
    struct arena scratch;
    assert(in->a->used <= in->a->cap);
    arena_init(&scratch, in->a->budget, in->a->cap - in->a->used);
    scratch.setting = in->a->setting;
    in->service = service_of(item);
    struct decode_options o = {
        .inflated_max = pipeline_size_max(in),
        .symbol_max = (uint32_t)MIN(in->limits->max_profile_symbol_value_length, INT32_MAX),
    };
    struct decoded d = {0};
    bool over_cap = false;
    err e = {0};
    if (decode_pprof(&scratch, item->bytes, &o, &d, &over_cap, &e)) {
        pipeline_profile(in, &scratch, d.profiles, false, item);
    } else {
        enum discard_reason why = DISCARD_MALFORMED_PROFILE;
        size_t bytes = over_cap ? o.inflated_max : item->bytes.n;
        // The decoder names its cap; the answer names the limit, in Pyroscope's words.
        if (over_cap) (void)!validate_size(o.inflated_max + 1, in->limits, &why, &e);
        pipeline_refuse_unread(in, why, bytes, &e);
    }
    arena_release(&scratch);
}
