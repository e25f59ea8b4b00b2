// SPDX-License-Identifier: Apache-2.0
//
// settle.c - see settle.h. Services are tried together first (unite): that each fits says nothing
// about all, and that one does not fit says nothing either, as others may be negative.
#include "querier/answer/settle.h"

#include "sys/log.h"

#include <stdlib.h>

static const err too_large = {ERR_OUT_OF_RANGE, "sums exceed 64 bits"};

enum fate {
    FATE_KEPT,
    FATE_TOO_LARGE,  // its own sum does not fit
    FATE_LARGEST,    // it is the largest of those that together do not fit
    FATE_KNOWN,      // it was left out of another question of the request
};

struct settled {
    struct service_sums *sums;
    struct wide total;
    enum fate fate;
};

struct settling {
    struct answer *a;
    struct merged *m;
    struct settled *v;
    size_t n;
};

// ---- sums of those that are kept

// *fits: they are in *all, a merge that the caller releases then; else there is none.
static bool unite(struct settling *s, struct merge *all, bool *fits, err *e)
{
    struct wide total = {0};
    if (!merge_init(all, &s->m->memory, s->m->stacks.names_only, e)) return false;
    all->wide = true;
    // Sums without a service are of nodes that do not know this form yet: they fit.
    bool ok = merge_unite(all, &s->m->stacks, e);
    for (size_t i = 0; ok && i < s->n; i++) {
        if (s->v[i].fate != FATE_KEPT) continue;
        ok = req_alive(&s->a->x->req, e) && merge_unite(all, &s->v[i].sums->stacks, e);
    }
    ok = ok && merge_fits(all, fits, &total, e);
    if (ok && *fits) return true;
    merge_release(all);
    return ok;
}

static bool drop_too_large(struct settling *s, err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        struct settled *x = &s->v[i];
        bool fits = false;
        if (!req_alive(&s->a->x->req, e)) return false;
        if (!merge_fits(&x->sums->stacks, &fits, &x->total, e)) return false;
        if (!fits && x->fate == FATE_KEPT) x->fate = FATE_TOO_LARGE;
    }
    return true;
}

static int largest_first(const void *a, const void *b)
{
    const struct settled *x = a;
    const struct settled *y = b;
    unsigned __int128 x_size = wide_size(x->total);
    unsigned __int128 y_size = wide_size(y->total);
    if (x_size != y_size) return x_size > y_size ? -1 : 1;
    return -str_cmp(x->sums->service, y->sums->service);
}

// The largest that is kept goes; and further ones, as long as the total alone says that the rest
// does not fit. False: none was left.
static bool drop_largest(struct settling *s)
{
    struct wide rest = {0};
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].fate == FATE_KEPT) wide_unite(&rest, s->v[i].total);
    }
    for (size_t i = 0; i < s->n; i++) {
        struct settled *x = &s->v[i];
        if (x->fate != FATE_KEPT) continue;
        if (any && wide_fits(rest)) return true;
        x->fate = FATE_LARGEST;
        any = true;
        // It fits, so its opposite is one number with one carry at most.
        __int128 opposite = -(__int128)x->total.low;
        int64_t low = (int64_t)opposite;
        wide_unite(&rest, (struct wide){low, (int64_t)((opposite - low) >> 64)});
    }
    return any;
}

// Chooses who is kept; their sums are in *all then.
static bool choose(struct settling *s, struct merge *all, err *e)
{
    bool fits = false;
    if (!unite(s, all, &fits, e)) return false;
    if (fits) return true;
    if (!drop_too_large(s, e)) return false;
    qsort(s->v, s->n, sizeof *s->v, largest_first);
    do {
        if (!unite(s, all, &fits, e)) return false;
    } while (!fits && drop_largest(s));
    return fits || err_set(e, ERR_OUT_OF_RANGE, "the sums of older nodes do not fit 64 bits");
}

// ---- telling

static bool note_left_out(struct answer *a, str service, err *e)
{
    if (!arena_grow(a->arena, &a->left_out, &a->left_out_cap, a->left_out_count + 1,
                    sizeof *a->left_out)) {
        return arena_fail(a->arena, e);
    }
    a->left_out[a->left_out_count++] = arena_str(a->arena, service);
    return arena_ok(a->arena, e);
}

static str type_of(const struct query *q)
{
    for (size_t i = 0; i < q->selector.n; i++) {
        const struct matcher *m = &q->selector.v[i];
        if (m->op == MATCH_EQ && str_is(m->name, LABEL_PROFILE_TYPE)) return m->value;
    }
    return S("all types");
}

static bool refuse_all(const struct settling *s, const struct query *q, err *e)
{
    char service[LOG_QUOTE_MAX];
    str type = type_of(q);
    (void)log_quote(service, s->v[0].sums->service);
    if (s->n > 1) {
        return err_set(
            e, ERR_OUT_OF_RANGE,
            "the sums of %zu services, %s among them, exceed 64 bits (%.*s), and no other "
            "service has profiles: ask for a shorter time or for fewer series",
            s->n, service, STR(type));
    }
    return err_set(e, ERR_OUT_OF_RANGE,
                   "the sum of service %s exceeds 64 bits (%.*s): ask for a shorter time or for "
                   "fewer series",
                   service, STR(type));
}

static bool mark_left_out(struct answer *a, const struct settled *x, err *e)
{
    char service[LOG_QUOTE_MAX];
    const char *why = x->fate == FATE_LARGEST
                          ? "left out as the largest: the sum of all exceeds 64 bits"
                          : "left out: its sum exceeds 64 bits";
    str name =
        arena_printf(a->arena, "service %s is %s", log_quote(service, x->sums->service), why);
    return arena_ok(a->arena, e) && note_left_out(a, x->sums->service, e) &&
           fetch_mark(a->arena, &a->fetched, name, &too_large, e);
}

// By names, so that equal questions have equal answers.
static int by_service(const void *a, const void *b)
{
    return str_cmp(((const struct settled *)a)->sums->service,
                   ((const struct settled *)b)->sums->service);
}

static bool tell(struct settling *s, const struct query *q, err *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        kept += s->v[i].fate == FATE_KEPT;
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_service);
    if (s->n && kept == 0 && s->m->profiles == 0) return refuse_all(s, q, e);
    for (size_t i = 0; i < s->n; i++) {
        const struct settled *x = &s->v[i];
        if (x->fate == FATE_KEPT) s->m->profiles += x->sums->profiles;
        if (x->fate == FATE_TOO_LARGE || x->fate == FATE_LARGEST) {
            if (!mark_left_out(s->a, x, e)) return false;
        }
    }
    return true;
}

bool settle_stacks(struct answer *a, const struct query *q, struct merged *m, err *e)
{
    struct settling s = {.a = a, .m = m, .n = m->services.n};
    struct merge all = {0};
    s.v = ARENA_ARRAY(a->arena, struct settled, s.n + 1);
    if (!s.v) return arena_fail(a->arena, e);
    for (size_t i = 0; i < s.n; i++) {
        bool known = str_among(m->services.v[i]->service, a->left_out, a->left_out_count);
        s.v[i] = (struct settled){.sums = m->services.v[i], .fate = known ? FATE_KNOWN : FATE_KEPT};
    }
    if (!choose(&s, &all, e)) return false;
    merge_release(&m->stacks);
    m->stacks = all;
    bool ok = tell(&s, q, e);
    services_release(&m->services);
    return ok;
}

// ---- totals

static bool mark(struct answer *a, str name, err *e)
{
    return arena_ok(a->arena, e) && fetch_mark(a->arena, &a->fetched, name, &too_large, e) &&
           fetch_verdict(a->arena, &a->fetched, a->takes, e);
}

bool settle_mark_functions(struct answer *a, err *e)
{
    return mark(a, S("rows of functions are cut at 64 bits"), e);
}

bool settle_mark_frames(struct answer *a, err *e)
{
    return mark(a, S("sums of frames are cut at 64 bits: ask for more of them (max_nodes)"), e);
}

bool settle_mark_total(struct answer *a, labels group, err *e)
{
    char value[LOG_QUOTE_MAX];
    str name = S("totals");
    for (size_t i = 0; i < group.n; i++) {
        name = arena_printf(a->arena, "%.*s%s%.*s=%s", STR(name), i ? ", " : " of ",
                            STR(group.v[i].name), log_quote(value, group.v[i].value));
    }
    return mark(a, arena_printf(a->arena, "%.*s are cut at 64 bits", STR(name)), e);
}

static bool mark_group(void *arg, labels group, size_t cells, err *e)
{
    assert(cells > 0);
    return settle_mark_total(arg, group, e);
}

bool settle_totals(struct answer *a, struct merged *m, err *e)
{
    return cells_clip(&m->totals, mark_group, a, e);
}
