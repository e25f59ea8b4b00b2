// SPDX-License-Identifier: Apache-2.0
//
// The parameters of /pyroscope/render, as the decoded text of "query" and as the query of a URL.
// Properties: a query that names a type becomes matchers of which the first names that type, is
// also good where a type is not needed, and printed in the plainest form means the same; a timeline
// of any two times has few slots, which hold both.
#include "codec/url.h"
#include "fuzz/bound.h"
#include "querier/request/render_query.h"
#include "querier/request/timeline.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// As the selector alone: programs of regexes.
FUZZ_BOUND_MS(1000);

#define NOW_NS    INT64_C(1790000000123456789)
#define MEMORY    ((size_t)64 << 20)
#define SLOTS_MAX 10501  // a week's interval has slots of a day: 7 times 1500 of them, one begun

// All matchers but the first, which is the type.
static void print(const struct selector *s, struct buf *out)
{
    static const char ops[][3] = {"=", "!=", "=~", "!~"};
    buf_byte(out, '{');
    for (size_t i = 1; i < s->n; i++) {
        if (i > 1) buf_byte(out, ',');
        label_quote(s->v[i].name, out);
        buf_z(out, ops[s->v[i].op]);
        label_quote(s->v[i].value, out);
    }
    buf_byte(out, '}');
}

static bool same(const struct selector *a, const struct selector *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct matcher *x = &a->v[i];
        const struct matcher *y = &b->v[i];
        if (x->op != y->op || !str_eq(x->name, y->name) || !str_eq(x->value, y->value)) {
            return false;
        }
    }
    return true;
}

static void check_code(const err *e)
{
    if (e->code != ERR_INVALID_ARGUMENT && e->code != ERR_RESOURCE_EXHAUSTED) abort();
}

static void check_selector(struct answer *a, str text)
{
    struct query q = {0};
    struct query any = {0};
    struct query again = {0};
    struct ptype type;
    struct ptype type_again;
    err e = {0};
    if (!render_selector(a, text, "query", &q, &type, &e)) {
        check_code(&e);
        err other = {0};
        if (!render_any_selector(a, text, "query", &any, &other)) check_code(&other);
        return;
    }
    str id = ptype_print(a->arena, &type);
    const struct matcher *first = &q.selector.v[0];
    if (q.selector.n == 0 || !str_is(first->name, LABEL_PROFILE_TYPE)) abort();
    if (first->op != MATCH_EQ || !str_eq(first->value, id)) abort();
    if (!render_any_selector(a, text, "query", &any, &e) || !same(&q.selector, &any.selector)) {
        abort();
    }
    struct buf out;
    buf_init(&out, NULL, MEMORY);
    buf_z(&out, "{__name__=");
    label_quote(id, &out);
    buf_z(&out, "}");
    if (!render_selector(a, buf_view(&out), "query", &again, &type_again, &e)) abort();
    if (again.selector.n != 1 || !str_eq(again.selector.v[0].value, id)) abort();
    out.n = 0;
    print(&q.selector, &out);
    struct selector rest = {0};
    if (!selector_parse(a->arena, buf_view(&out), &rest, &e)) abort();
    if (rest.n + 1 != q.selector.n) abort();
    buf_release(&out);
}

static void check_parameters(struct answer *a, str url_query_)
{
    int64_t from = 0;
    int64_t until = 0;
    err e = {0};
    if (!render_time(a, url_query_, "from", &from, &e)) return;
    if (!render_time(a, url_query_, "until", &until, &e)) return;
    struct timeline t = timeline_of(MIN(from, until), MAX(from, until));
    if (t.step_s <= 0 || t.slots > SLOTS_MAX) abort();
    if (timeline_first_ns(&t) > INT64_MAX - timeline_step_ns(&t)) abort();
    (void)render_max_nodes(a, url_query_);
    check_selector(a, render_parameter(a, url_query_, "query"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena, NULL, MEMORY);
    struct answer a = {.arena = &arena,
                       .now_wall_ns = NOW_NS,
                       .selectors = {.regexes = 8, .regexes_setting = "r"}};
    str text = str_make(data, size);
    check_selector(&a, text);
    check_parameters(&a, text);
    arena_release(&arena);
    return 0;
}
