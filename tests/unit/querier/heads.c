// SPDX-License-Identifier: Apache-2.0
#include "unit/querier/heads.h"

#include "lib/selector.h"

// ---- rows

labels head_labels(struct arena *a, const char *text)
{
    label *v = ARENA_ARRAY(a, label, 16);
    size_t n = 0;
    str rest = str_of(text);
    while (rest.n) {
        str value;
        str pair = str_split(rest, ',', &rest);
        str name = str_split(pair, '=', &value);
        v[n++] = (label){name, value};
    }
    labels_sort(v, n);
    return (labels){v, n};
}

uint32_t head_stack(struct symbols *s, const char *text, err *e)
{
    uint32_t stack = 0;
    str rest = str_of(text);
    while (rest.n) {
        str name = str_split(rest, ';', &rest);
        uint32_t text_row = symbols_string(s, name, e);
        uint32_t f = symbols_function(
            s, (struct symbol_function){.name = text_row, .filename = text_row, .start_line = 3},
            e);
        uint32_t frame = symbols_frame(s, (struct symbol_frame){.function = f, .line = 7}, e);
        stack = symbols_stack(s, stack, frame, e);
    }
    return stack;
}

static bool head_matches(const struct head_query *q, const struct head_row *row)
{
    if (!str_is(q->tenant, row->tenant)) return false;
    if (row->time_ns <= q->m->from_ns || row->time_ns > q->m->to_ns) return false;
    return selector_matches(&q->selector, head_labels(q->arena, row->labels));
}

static bool head_wants_profile(const Flametree__V1__WantTree *t, const struct head_row *row)
{
    if (t->n_profile_ids == 0) return true;
    for (size_t i = 0; i < t->n_profile_ids; i++) {
        if (t->profile_ids[i].data[15] == row->id) return true;
    }
    return false;
}

static bool head_wants_span(const Flametree__V1__WantTree *t, uint64_t span)
{
    if (t->n_span_ids == 0 && t->n_trace_ids == 0) return true;
    for (size_t i = 0; i < t->n_span_ids; i++) {
        if (t->span_ids[i] == span) return true;
    }
    return false;
}

// ---- answers

// The pairs whose names are in `names`.
static labels head_project(struct arena *a, labels ls, const str *names, size_t n)
{
    label *v = ARENA_ARRAY(a, label, ls.n);
    if (!v) return (labels){0};
    size_t count = 0;
    for (size_t i = 0; i < ls.n; i++) {
        if (str_among(ls.v[i].name, names, n)) v[count++] = ls.v[i];
    }
    return (labels){v, count};
}

static str head_service(const struct head_query *q, const struct head_row *row)
{
    return labels_get(head_labels(q->arena, row->labels), S(LABEL_SERVICE));
}

// Of all rows, or of those of one service, behind its name.
static void head_put_sums(const struct head *h, const struct head_query *q, const str *service,
                          struct buf *out)
{
    err e = {0};
    struct symbols s;
    assert_true(symbols_init(&s, NULL, &e));
    struct vector_entry entries[256];
    size_t n = 0;
    uint64_t profiles = 0;
    for (size_t i = 0; i < h->row_count; i++) {
        const struct head_row *row = &h->rows[i];
        if (!head_matches(q, row) || !head_wants_profile(q->m->tree, row)) continue;
        if (service && !str_eq(head_service(q, row), *service)) continue;
        profiles++;
        for (size_t k = 0; k < COUNT(row->samples) && row->samples[k].stack; k++) {
            if (!head_wants_span(q->m->tree, row->samples[k].span)) continue;
            entries[n++] = (struct vector_entry){head_stack(&s, row->samples[k].stack, &e),
                                                 row->samples[k].value};
        }
    }
    assert_true(vector_normalise(entries, &n, &e));
    struct buf bytes;
    buf_init(&bytes, NULL, 1 << 24);
    assert_true(symbols_encode(&s.t, NULL, q->arena, NULL, &bytes, &e));
    if (service) pb_put_bytes(out, 1, *service);
    pb_put_bytes(out, service ? 2 : 1, buf_view(&bytes));
    buf_clear(&bytes);
    vector_encode(entries, n, &bytes);
    pb_put_bytes(out, service ? 3 : 2, buf_view(&bytes));
    pb_put_u64_opt(out, service ? 5 : 3, profiles);
    buf_release(&bytes);
    symbols_release(&s);
}

// Is it the first row that is asked for of its service?
static bool head_is_first(const struct head *h, const struct head_query *q, size_t row)
{
    str service = head_service(q, &h->rows[row]);
    if (!head_matches(q, &h->rows[row])) return false;
    for (size_t i = 0; i < row; i++) {
        if (head_matches(q, &h->rows[i]) && str_eq(head_service(q, &h->rows[i]), service))
            return false;
    }
    return true;
}

void head_put_tree(const struct head *h, const struct head_query *q, struct buf *out)
{
    if (q->m->tree->wide < 2) {
        head_put_sums(h, q, NULL, out);
        return;
    }
    for (size_t i = 0; i < h->row_count; i++) {
        if (!head_is_first(h, q, i)) continue;
        str service = head_service(q, &h->rows[i]);
        size_t mark = pb_begin(out, 16);
        head_put_sums(h, q, &service, out);
        pb_end(out, mark);
    }
}

static bool head_under(const char *stack, char *const *site, size_t n)
{
    str rest = str_of(stack);
    for (size_t i = 0; i < n; i++) {
        if (rest.n == 0 || !str_is(str_split(rest, ';', &rest), site[i])) return false;
    }
    return true;
}

// What a row has under a call site, of one span or (0) of all.
static int64_t head_value(const struct head_row *row, char *const *site, size_t n, uint64_t span)
{
    int64_t sum = 0;
    for (size_t k = 0; k < COUNT(row->samples) && row->samples[k].stack; k++) {
        if (span && row->samples[k].span != span) continue;
        if (head_under(row->samples[k].stack, site, n)) sum += row->samples[k].value;
    }
    return sum;
}

static void head_put_exemplar(const struct head_query *q, const struct head_row *row, int64_t value,
                              uint64_t span, char *const *group_by, size_t n, uint32_t field,
                              struct buf *out)
{
    const uint8_t id[16] = {[15] = row->id};
    labels all = head_labels(q->arena, row->labels);
    size_t mark = pb_begin(out, field);
    pb_put_bytes(out, 1, str_make(id, sizeof id));
    pb_put_fixed64_opt(out, 2, (uint64_t)row->time_ns);
    pb_put_u64_opt(out, 3, zigzag(value));
    label kept[16];
    size_t count = 0;
    for (size_t i = 0; i < all.n; i++) {
        bool grouped = false;
        for (size_t k = 0; k < n; k++)
            grouped = grouped || str_is(all.v[i].name, group_by[k]);
        if (!grouped) kept[count++] = all.v[i];
    }
    labels_put_set((labels){kept, count}, out, 4);
    pb_put_fixed64_opt(out, 5, span);
    pb_end(out, mark);
}

// A row alone is a point: adding is the querier's work. Of spans the first one is the exemplar.
static void head_put_point(const struct head_query *q, const struct head_row *row,
                           const char *annotation, int64_t point, struct buf *out)
{
    const Flametree__V1__WantTotals *t = q->m->totals;
    int64_t sum = head_value(row, t->call_site, t->n_call_site, 0);
    uint64_t span = t->exemplars == 2 ? row->samples[0].span : 0;
    size_t p = pb_begin(out, 2);
    pb_put_i64_opt(out, 1, point);
    pb_put_u64_opt(out, 2, zigzag(sum));
    pb_put_u64(out, 3, 1);
    if (annotation) {
        str value;
        str key = str_split(str_of(annotation), '=', &value);
        size_t note = pb_begin(out, 4);
        pb_put_bytes(out, 1, key);
        pb_put_bytes(out, 2, value);
        pb_end(out, note);
    }
    if (t->exemplars == 1 || span) {
        head_put_exemplar(q, row, head_value(row, t->call_site, t->n_call_site, span), span,
                          t->group_by, t->n_group_by, 5, out);
    }
    pb_end(out, p);
}

void head_put_totals(const struct head *h, const struct head_query *q, struct buf *out)
{
    const Flametree__V1__WantTotals *t = q->m->totals;
    str names[16];
    for (size_t i = 0; i < t->n_group_by; i++)
        names[i] = str_of(t->group_by[i]);
    for (size_t i = 0; i < h->row_count; i++) {
        const struct head_row *row = &h->rows[i];
        if (!head_matches(q, row)) continue;
        __int128 after = (__int128)row->time_ns - t->first_ns;
        int64_t point = 0;  // the smallest k with time <= first + k * step
        if (after > 0) point = (int64_t)((after + t->step_ns - 1) / t->step_ns);
        if (after <= t->early_ns) point = 0;
        if (point >= t->points) continue;
        size_t mark = pb_begin(out, 4);
        labels group =
            head_project(q->arena, head_labels(q->arena, row->labels), names, t->n_group_by);
        labels_put_set(group, out, 1);
        head_put_point(q, row, h->annotations ? h->annotations[i] : NULL, point, out);
        pb_end(out, mark);
    }
}

static void head_put_extent(struct buf *out, int64_t value)
{
    size_t mark = pb_begin(out, 8);
    pb_put_u64(out, 1, 1);
    pb_put_u64(out, 2, zigzag(value));
    pb_put_u64(out, 3, zigzag(value));
    pb_end(out, mark);
}

static void head_put_heat_value(const struct head_query *q, const struct head_row *row,
                                int64_t value, uint64_t span, struct buf *out)
{
    const Flametree__V1__WantHeat *w = q->m->heat;
    if (w->n_lower_bounds && (value < w->lower_bounds[0] || value > w->largest)) return;
    head_put_extent(out, value);
    if (w->n_lower_bounds == 0) return;
    str names[16];
    for (size_t i = 0; i < w->n_group_by; i++)
        names[i] = str_of(w->group_by[i]);
    int64_t slot = 0;
    while (slot < w->slots - 1 && row->time_ns > w->first_ns + slot * w->step_ns)
        slot++;
    if (row->time_ns <= w->first_ns + w->early_ns) slot = 0;
    uint64_t bucket = 0;
    for (size_t i = 0; i < w->n_lower_bounds; i++) {
        if (w->lower_bounds[i] <= value) bucket = i;
    }
    size_t mark = pb_begin(out, 9);
    labels_put_set(head_project(q->arena, head_labels(q->arena, row->labels), names, w->n_group_by),
                   out, 1);
    size_t cell = pb_begin(out, 2);
    pb_put_i64_opt(out, 1, slot);
    pb_put_u64_opt(out, 2, bucket);
    pb_put_u64(out, 3, 1);
    if (w->exemplars) {
        head_put_exemplar(q, row, value, span, w->group_by, w->n_group_by, 4, out);
    }
    pb_end(out, cell);
    pb_end(out, mark);
}

static void head_put_heat(const struct head *h, const struct head_query *q, struct buf *out)
{
    for (size_t i = 0; i < h->row_count; i++) {
        const struct head_row *row = &h->rows[i];
        if (!head_matches(q, row)) continue;
        if (q->m->heat->kind == 1) {
            head_put_heat_value(q, row, head_value(row, NULL, 0, 0), 0, out);
            continue;
        }
        for (size_t k = 0; k < COUNT(row->samples) && row->samples[k].stack; k++) {
            uint64_t span = row->samples[k].span;
            bool first = span != 0;
            for (size_t j = 0; j < k; j++)
                first = first && row->samples[j].span != span;
            if (first) head_put_heat_value(q, row, head_value(row, NULL, 0, span), span, out);
        }
    }
}

void head_put_sets(const struct head *h, const struct head_query *q, struct buf *out)
{
    const Flametree__V1__WantLabels *w = q->m->labels;
    str names[16];
    for (size_t i = 0; i < w->n_names; i++)
        names[i] = str_of(w->names[i]);
    for (size_t i = 0; i < h->row_count; i++) {
        if (!head_matches(q, &h->rows[i])) continue;
        labels ls = head_labels(q->arena, h->rows[i].labels);
        for (size_t k = 0; w->names_only && k < ls.n; k++)
            pb_put_bytes(out, 6, ls.v[k].name);
        if (w->names_only) continue;
        if (w->n_names) ls = head_project(q->arena, ls, names, w->n_names);
        labels_put_set(ls, out, 5);
    }
}

void head_put_stats(const struct head *h, const struct head_query *q, struct buf *out)
{
    uint64_t n = 0;
    int64_t oldest = INT64_MAX;
    int64_t newest = INT64_MIN;
    for (size_t i = 0; i < h->row_count; i++) {
        if (!head_matches(q, &h->rows[i])) continue;
        n++;
        oldest = MIN(oldest, h->rows[i].time_ns);
        newest = MAX(newest, h->rows[i].time_ns);
    }
    size_t mark = pb_begin(out, 7);
    pb_put_u64_opt(out, 1, n);
    if (n) pb_put_i64_opt(out, 2, oldest);
    if (n) pb_put_i64_opt(out, 3, newest);
    for (uint32_t field = 4; q->m->stats->sizes && field <= 8; field++)
        pb_put_u64_opt(out, field, n * field);
    pb_end(out, mark);
}

void head_put_stream(struct buf *out, uint32_t field, uint8_t id, const char *owner)
{
    const uint8_t stream[16] = {[15] = id};
    size_t mark = pb_begin(out, field);
    pb_put_bytes(out, 1, str_make(stream, sizeof stream));
    pb_put_bytes(out, 2, str_of(owner));
    pb_end(out, mark);
}

static void head_answer(const struct head *h, const struct head_query *q, struct buf *out)
{
    size_t answer = pb_begin(out, 1);
    head_put_stream(out, 1, h->stream, h->member);
    pb_put_u64_opt(out, 2, !h->recovering);
    size_t partial = pb_begin(out, 4);
    if (q->m->tree) head_put_tree(h, q, out);
    if (q->m->totals) head_put_totals(h, q, out);
    if (q->m->labels) head_put_sets(h, q, out);
    if (q->m->stats) head_put_stats(h, q, out);
    if (q->m->heat) head_put_heat(h, q, out);
    pb_end(out, partial);
    pb_end(out, answer);
    if (h->holds_stream) head_put_stream(out, 2, h->holds_stream, "elsewhere");
}

bool heads_ask(const void *transport, struct req *r, str tenant, str message,
               struct head_replies *out, err *e)
{
    const struct heads *heads = transport;
    struct head_query q = {.arena = &r->arena, .tenant = tenant};
    q.m = (const void *)pb_unpack(&r->arena, &flametree__v1__head_read_request__descriptor, message,
                                  e);
    if (!q.m) return false;
    for (size_t i = 0; i < q.m->n_matchers; i++) {
        const Flametree__V1__Matcher *m = q.m->matchers[i];
        if (!selector_add(&r->arena, &q.selector, (enum matcher_op)m->op, str_of(m->name),
                          str_of(m->value), e)) {
            return false;
        }
    }
    out->n = heads->n;
    out->v = ARENA_ARRAY(&r->arena, struct head_reply, heads->n);
    for (size_t i = 0; i < heads->n; i++) {
        const struct head *h = &heads->v[i];
        if (heads->asked) ++*heads->asked;
        out->v[i] = (struct head_reply){.member = str_of(h->member), .fault = h->fault};
        if (h->fault) continue;
        if (h->garbage) {
            out->v[i].bytes = str_of(h->garbage);
            continue;
        }
        struct buf bytes;
        buf_init(&bytes, NULL, 1 << 24);
        head_answer(h, &q, &bytes);
        out->v[i].bytes = arena_str(&r->arena, buf_view(&bytes));
        buf_release(&bytes);
    }
    return arena_ok(&r->arena, e);
}

void heads_heal(struct head *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        v[i].fault = NULL;
        v[i].recovering = false;
    }
}
