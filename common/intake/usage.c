// SPDX-License-Identifier: Apache-2.0
//
// usage.c - names like app/${labels.service_name}, resolved with a series' labels.
#include "intake/usage.h"

#define PLACE "${labels."

static bool matches(const struct selector *s, labels ls, bool *yes, err *e)
{
    *yes = true;
    for (size_t i = 0; i < s->n && *yes; i++) {
        const struct matcher *m = &s->v[i];
        *yes = labels_has(ls, m->name);
        if (*yes && !matcher_test(s, m, labels_get(ls, m->name), yes, e)) return false;
    }
    return true;
}

// The name with the values of its placeholders. *has: no label is missing or empty.
static bool resolve(struct arena *a, str name, labels ls, bool *has, str *out, err *e)
{
    struct buf b;
    buf_init(&b, a->budget, 1 << 20);
    *has = true;
    while (*has && name.n > 0) {
        if (!str_starts(name, S(PLACE))) {
            buf_byte(&b, (unsigned char)name.p[0]);
            name = str_slice(name, 1, name.n);
            continue;
        }
        // The configuration refuses a placeholder without an end.
        size_t end = str_find(name, '}');
        str value = labels_get(ls, str_slice(name, sizeof PLACE - 1, end));
        *has = value.n > 0;
        buf_str(&b, value);
        name = str_slice(name, end + 1, name.n);
    }
    bool ok = buf_ok(&b, e);
    if (ok && *has) *out = arena_str(a, buf_view(&b));
    buf_release(&b);
    return ok && arena_ok(a, e);
}

bool usage_find(struct arena *a, const struct usage_groups *g, labels ls, struct usage_matches *out,
                err *e)
{
    size_t n = 0;
    out->n = 0;
    for (size_t i = 0; i < g->n; i++) {
        const struct usage_group *u = &g->v[i];
        struct usage_match m = {u->name, u->name, u->templated};
        bool is = false;
        if (!matches(u->selector, ls, &is, e)) return false;
        if (is && u->templated && !resolve(a, u->name, ls, &is, &m.resolved, e)) return false;
        if (!is) continue;
        assert(n < COUNT(out->v));  // the configuration refuses more groups
        out->v[n++] = m;
    }
    out->n = n;
    return true;
}

static const struct sampling_rule *rule_of(const struct sampling *s, str group)
{
    for (size_t i = 0; i < s->n; i++) {
        if (str_eq(s->v[i].group, group)) return &s->v[i];
    }
    return NULL;
}

struct usage_sampling usage_sampling(const struct sampling *s, const struct usage_matches *groups)
{
    struct usage_sampling best = {NULL, 1};
    for (size_t i = 0; i < groups->n; i++) {
        const struct usage_match *m = &groups->v[i];
        const struct sampling_rule *r = rule_of(s, m->configured);
        if (!r) continue;
        bool better =
            !best.match || r->probability < best.probability ||
            (r->probability == best.probability && best.match->templated && !m->templated);
        assert(r->probability >= 0 && r->probability <= 1);
        if (better) best = (struct usage_sampling){m, r->probability};
    }
    return best;
}
