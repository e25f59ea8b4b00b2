// SPDX-License-Identifier: Apache-2.0
#include "querier/request/render_query.h"

#include "codec/attime.h"
#include "codec/url.h"
#include "sys/clock.h"

str render_parameter(struct answer *a, str url_query_, const char *name)
{
    str value = {0};
    return url_query(a->arena, url_query_, name, &value) ? value : (str){0};
}

static const struct matcher *type_matcher(const struct selector *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].op == MATCH_EQ && str_is(s->v[i].name, LABEL_NAME)) return &s->v[i];
    }
    return NULL;
}

// All matchers but the one that names the type, which query_add_type makes another one of. Their
// regexes were compiled and counted with *s.
static bool add_others(struct answer *a, struct query *q, const struct selector *s,
                       const struct matcher *but, err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct matcher *m = &s->v[i];
        if (m == but) continue;
        if (!selector_add_known(a->arena, &q->selector, m, e)) return false;
    }
    q->selector.most = s->most;
    return true;
}

static bool parse(struct answer *a, str text, const char *name, struct selector *s, err *e)
{
    if (selector_parse(a->arena, text, s, e)) return true;
    return err_wrap(e, "failed to parse \"%s\"", name);
}

bool render_selector(struct answer *a, str text, const char *name, struct query *q,
                     struct ptype *type, err *e)
{
    if (text.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "\"%s\" is required", name);
    struct selector s = {.most = &a->selectors};
    if (!parse(a, text, name, &s, e)) return false;
    const struct matcher *m = type_matcher(&s);
    if (!m) {
        return err_set(e, ERR_INVALID_ARGUMENT, "\"%s\" must contain a profile-type selection",
                       name);
    }
    if (!query_add_type(a->arena, q, m->value, type, e)) {
        return err_wrap(e, "failed to parse \"%s\"", name);
    }
    return add_others(a, q, &s, m, e);
}

bool render_any_selector(struct answer *a, str text, const char *name, struct query *q, err *e)
{
    if (text.n == 0) return true;
    struct selector s = {.most = &a->selectors};
    if (!parse(a, text, name, &s, e)) return false;
    const struct matcher *m = type_matcher(&s);
    struct ptype type;
    err no_type = {0};
    if (m && !query_add_type(a->arena, q, m->value, &type, &no_type)) m = NULL;
    return add_others(a, q, &s, m, e);
}

bool render_time(struct answer *a, str url_query_, const char *name, int64_t *ms, err *e)
{
    int64_t ns = a->now_wall_ns;
    str text = render_parameter(a, url_query_, name);
    if (text.n && !attime_parse(text, a->now_wall_ns, &ns, e)) return err_wrap(e, "%s", name);
    *ms = ns / NS_PER_MS - (ns % NS_PER_MS < 0);
    return true;
}

// False if text is no whole number.
static bool whole_number(str text, int64_t *v)
{
    bool negative = text.n > 0 && text.p[0] == '-';
    str digits = str_slice(text, negative, text.n);
    for (size_t i = 0; i < digits.n; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9') return false;
    }
    if (digits.n == 0) return false;
    if (!str_i64(text, v)) *v = negative ? INT64_MIN : INT64_MAX;
    return true;
}

int64_t render_max_nodes(struct answer *a, str url_query_)
{
    int64_t v = 0;
    if (whole_number(render_parameter(a, url_query_, "maxNodes"), &v)) return v;
    if (whole_number(render_parameter(a, url_query_, "max-nodes"), &v)) return v;
    return 0;
}
