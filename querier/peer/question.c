// SPDX-License-Identifier: Apache-2.0
//
// question.c - see question.h. Bytes come from other nodes: what cannot be read is an error, never
// an assertion.
#include "querier/peer/question.h"

#include "codec/pb.h"
#include "codec/varint.h"
#include "flametree/v1/internal.pb-c.h"

// ---- writing

static void put_piece(const struct level_piece *p, struct buf *out)
{
    size_t mark = pb_begin(out, 2);
    pb_put_bytes(out, 1, p->object->name);
    pb_put_u64_opt(out, 2, (uint64_t)p->object->kind);
    pb_put_u64_opt(out, 3, p->object->bytes);
    pb_put_u64_opt(out, 4, (uint64_t)p->use);
    pb_put_u64_opt(out, 5, zigzag(p->from_ns));
    pb_put_u64_opt(out, 6, zigzag(p->to_ns));
    pb_put_u64_opt(out, 7, p->pack_lo);
    pb_put_u64_opt(out, 8, p->pack_hi);
    pb_end(out, mark);
}

void question_put(const struct query *q, bool excluded, const struct level_piece *v, size_t n,
                  struct buf *out)
{
    size_t mark = pb_begin(out, 1);
    query_encode(q, out);
    pb_end(out, mark);
    for (size_t i = 0; i < n; i++)
        put_piece(&v[i], out);
    if (excluded) pb_put_u64_opt(out, 3, 1);
}

// ---- reading

static bool read_selector(struct arena *a, Flametree__V1__Matcher **v, size_t n,
                          const struct selector_most *most, struct selector *to, err *e)
{
    to->most = most;
    for (size_t i = 0; i < n; i++) {
        if (v[i]->op > MATCH_NRE)
            return err_set(e, ERR_INVALID_ARGUMENT, "matcher %zu has operation %u", i, v[i]->op);
        if (!selector_add(a, to, (enum matcher_op)v[i]->op, pb_text(v[i]->name),
                          pb_text(v[i]->value), e)) {
            return false;
        }
    }
    return true;
}

static bool read_ids(struct arena *a, const ProtobufCBinaryData *v, size_t n, id128 **out, err *e)
{
    *out = ARENA_ARRAY(a, id128, n);
    if (!*out) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        if (v[i].len != sizeof(id128))
            return err_set(e, ERR_INVALID_ARGUMENT, "an id of %zu bytes instead of 16", v[i].len);
        memcpy((*out)[i].b, v[i].data, sizeof(id128));
    }
    return true;
}

static const str *read_names(struct arena *a, char *const *v, size_t n)
{
    str *names = ARENA_ARRAY(a, str, n);
    for (size_t i = 0; names && i < n; i++)
        names[i] = pb_text(v[i]);
    return names;
}

static bool read_tree(struct arena *a, const Flametree__V1__WantTree *w, struct query_tree *t,
                      err *e)
{
    t->wanted = true;
    t->full_symbols = w->full_symbols;
    t->by_service = w->wide == 2;
    t->span_count = w->n_span_ids;
    t->trace_count = w->n_trace_ids;
    t->profile_count = w->n_profile_ids;
    t->spans = ARENA_ARRAY(a, uint64_t, w->n_span_ids);
    if (!t->spans) return arena_fail(a, e);
    if (w->n_span_ids) memcpy(t->spans, w->span_ids, w->n_span_ids * sizeof *t->spans);
    return read_ids(a, w->trace_ids, w->n_trace_ids, &t->traces, e) &&
           read_ids(a, w->profile_ids, w->n_profile_ids, &t->profiles, e);
}

static bool read_totals(struct arena *a, const Flametree__V1__WantTotals *w, struct totals_want *t,
                        err *e)
{
    if (w->step_ns <= 0 || w->exemplars > FLAMETREE__V1__EXEMPLAR_KIND__EXEMPLAR_SPAN)
        return err_set(e, ERR_INVALID_ARGUMENT, "totals with a step of %lld ns",
                       (long long)w->step_ns);
    *t = (struct totals_want){.wanted = true,
                              .first_ns = w->first_ns,
                              .step_ns = w->step_ns,
                              .points = w->points,
                              .early_ns = w->early_ns,
                              .spread = w->spread,
                              .group_by = read_names(a, w->group_by, w->n_group_by),
                              .group_by_count = w->n_group_by,
                              .include_sampled = w->include_sampled,
                              .call_site = read_names(a, w->call_site, w->n_call_site),
                              .call_site_count = w->n_call_site,
                              .exemplars = (enum exemplar_kind)w->exemplars};
    return arena_ok(a, e);
}

static bool read_heat(struct arena *a, const Flametree__V1__WantHeat *w, struct query_heat *h,
                      err *e)
{
    if (w->step_ns <= 0 || w->n_lower_bounds > HEAT_BUCKETS ||
        w->kind > FLAMETREE__V1__EXEMPLAR_KIND__EXEMPLAR_SPAN)
        return err_set(e, ERR_INVALID_ARGUMENT, "heat map with a step of %lld ns and %zu bounds",
                       (long long)w->step_ns, w->n_lower_bounds);
    *h = (struct query_heat){.wanted = true,
                             .exemplars = w->exemplars,
                             .kind = (enum exemplar_kind)w->kind,
                             .first_ns = w->first_ns,
                             .step_ns = w->step_ns,
                             .slots = w->slots,
                             .early_ns = w->early_ns,
                             .group_by = read_names(a, w->group_by, w->n_group_by),
                             .group_by_count = w->n_group_by,
                             .bound_count = w->n_lower_bounds,
                             .largest = w->largest};
    if (w->n_lower_bounds)
        memcpy(h->bounds, w->lower_bounds, w->n_lower_bounds * sizeof h->bounds[0]);
    return arena_ok(a, e);
}

static bool read_hides(struct arena *a, const Flametree__V1__HeadReadRequest *m, struct question *x,
                       err *e)
{
    struct hide *v = ARENA_ARRAY(a, struct hide, m->n_hides);
    if (!v) return arena_fail(a, e);
    for (size_t i = 0; i < m->n_hides; i++) {
        const Flametree__V1__Hide *h = m->hides[i];
        v[i] = (struct hide){.from_ns = h->from_ns, .to_ns = h->to_ns};
        if (!read_selector(a, h->matchers, h->n_matchers, &x->most, &v[i].selector, e))
            return err_wrap(e, "hide %zu", i);
    }
    x->q.hides = v;
    x->q.hide_count = m->n_hides;
    return true;
}

static bool read_query(struct arena *a, const Flametree__V1__HeadReadRequest *m, struct question *x,
                       err *e)
{
    struct query *q = &x->q;
    q->from_ns = m->from_ns;
    q->to_ns = m->to_ns;
    if (m->stats) return err_set(e, ERR_INVALID_ARGUMENT, "statistics are not shared");
    x->wide_totals = m->totals && m->totals->wide;
    if (m->labels) {
        q->labels =
            (struct query_labels){.wanted = true,
                                  .names_only = m->labels->names_only,
                                  .names = read_names(a, m->labels->names, m->labels->n_names),
                                  .name_count = m->labels->n_names};
    }
    return arena_ok(a, e) &&
           read_selector(a, m->matchers, m->n_matchers, &x->most, &q->selector, e) &&
           read_hides(a, m, x, e) && (!m->tree || read_tree(a, m->tree, &q->tree, e)) &&
           (!m->totals || read_totals(a, m->totals, &q->totals, e)) &&
           (!m->heat || read_heat(a, m->heat, &q->heat, e));
}

static bool read_pieces(struct arena *a, const Flametree__V1__PartialReadRequest *m,
                        struct level_plan *plan, err *e)
{
    struct level_piece *v = ARENA_ARRAY(a, struct level_piece, m->n_pieces);
    struct level_object *objects = ARENA_ARRAY(a, struct level_object, m->n_pieces);
    if (!v || !objects) return arena_fail(a, e);
    for (size_t i = 0; i < m->n_pieces; i++) {
        const Flametree__V1__ReadPiece *p = m->pieces[i];
        if (p->kind < BLOCK_SEGMENT || p->kind > BLOCK_DAYS || p->use > LEVEL_ROWS ||
            p->from_ns > p->to_ns)
            return err_set(e, ERR_INVALID_ARGUMENT, "piece %zu has kind %u, use %u", i, p->kind,
                           p->use);
        objects[i] = (struct level_object){.kind = (enum block_kind)p->kind,
                                           .name = pb_text(p->object),
                                           .bytes = p->bytes};
        v[i] = (struct level_piece){.object = &objects[i],
                                    .use = (enum level_use)p->use,
                                    .from_ns = p->from_ns,
                                    .to_ns = p->to_ns,
                                    .pack_lo = p->pack_lo,
                                    .pack_hi = p->pack_hi};
    }
    *plan = (struct level_plan){.pieces = v, .n = m->n_pieces};
    return true;
}

bool question_read(struct arena *a, str message, bool (*alive)(const void *arg, err *e),
                   const void *arg, struct question **out, err *e)
{
    ProtobufCMessage *any =
        pb_unpack(a, &flametree__v1__partial_read_request__descriptor, message, e);
    if (!any) return err_wrap(e, "PartialReadRequest");
    const Flametree__V1__PartialReadRequest *m = (const Flametree__V1__PartialReadRequest *)any;
    struct question *x = ARENA_NEW(a, struct question);
    if (!x) return arena_fail(a, e);
    if (!m->question) return err_set(e, ERR_INVALID_ARGUMENT, "there is no question");
    if (m->excluded && !m->question->tree)
        return err_set(e, ERR_INVALID_ARGUMENT, "only a tree excludes keys");
    if (m->excluded && m->question->tree->wide == 2)
        return err_set(e, ERR_INVALID_ARGUMENT, "sums by service are not subtracted");
    x->most = (struct selector_most){.alive = alive, .arg = arg};
    x->excluded = m->excluded;
    *out = x;
    return read_query(a, m->question, x, e) && read_pieces(a, m, &x->plan, e);
}
