// SPDX-License-Identifier: Apache-2.0
#include "model/hide.h"

bool hide_is_of(const struct hide *h, labels ls, bool *is, err *e)
{
    *is = true;
    for (size_t i = 0; i < h->selector.n && *is; i++) {
        const struct matcher *m = &h->selector.v[i];
        if (!matcher_test(&h->selector, m, labels_get(ls, m->name), is, e)) return false;
    }
    return true;
}

static const str *demanded(const struct selector *sel, str name)
{
    for (size_t i = 0; i < sel->n; i++) {
        if (sel->v[i].op == MATCH_EQ && str_eq(sel->v[i].name, name)) return &sel->v[i].value;
    }
    return NULL;
}

const str *hide_demands(const struct hide *h, str name)
{
    return demanded(&h->selector, name);
}

bool hide_may_meet(const struct hide *h, const struct selector *sel)
{
    for (size_t i = 0; i < h->selector.n; i++) {
        const struct matcher *m = &h->selector.v[i];
        const str *other = m->op == MATCH_EQ ? demanded(sel, m->name) : NULL;
        if (other && !str_eq(*other, m->value)) return false;
    }
    return true;
}
