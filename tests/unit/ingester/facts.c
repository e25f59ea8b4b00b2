// SPDX-License-Identifier: Apache-2.0
#include "unit/ingester/facts.h"

#include "lib/selector.h"

const char *const fact_stacks[FACT_STACKS] = {"main",
                                              "main;work",
                                              "main;work;hash",
                                              "main;work;copy",
                                              "main;idle",
                                              "main;work;hash;mix",
                                              "start;boot",
                                              "start",
                                              "main;a@1;b",
                                              "main;a@2;b",
                                              "main;work;hash;mix;mix",
                                              "gc"};

const char *const fact_services[] = {"api", "web", "db"};
const char *const fact_tenants[] = {"one", "two"};
const char *const fact_types[] = {"cpu:cpu:nanoseconds:cpu:nanoseconds",
                                  "cpu:samples:count:cpu:nanoseconds", "mem:space:bytes::"};
const char *const fact_pods[] = {"p-0", "p-1", "p-2", "q-0", ""};
const char *const fact_notes[FACT_NOTES] = {"", "b", "c", "{\"a\":1}"};

uint64_t roll(struct dice *d, uint64_t sides)
{
    d->state += 0x9e3779b97f4a7c15u;
    uint64_t z = d->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % sides;
}

struct fact fact_roll(struct dice *d, int64_t from_ns, int64_t span_ns)
{
    struct fact f = {.tenant = (unsigned)roll(d, COUNT(fact_tenants)),
                     .service = (unsigned)roll(d, COUNT(fact_services)),
                     .type = (unsigned)roll(d, COUNT(fact_types)),
                     .pod = (unsigned)roll(d, COUNT(fact_pods)),
                     .sampled = roll(d, 8) == 0,
                     .time_ns = from_ns + (int64_t)roll(d, (uint64_t)span_ns)};
    for (size_t i = 0; i < sizeof f.id.b; i++)
        f.id.b[i] = (uint8_t)roll(d, 256);
    f.n = 1 + roll(d, FACT_ENTRIES);
    for (size_t i = 0; i < f.n; i++) {
        f.entries[i].stack = (uint32_t)roll(d, FACT_STACKS);
        f.entries[i].value = (int64_t)roll(d, 1000) - 100;
        f.total += f.entries[i].value;
    }
    if (roll(d, 3) == 0) f.span_id = 1 + roll(d, 4);
    if (roll(d, 4) == 0) f.note = 1 + (unsigned)roll(d, FACT_NOTES - 1);
    return f;
}

labels fact_labels(struct arena *a, const struct fact *f)
{
    label *v = ARENA_ARRAY(a, label, 4);
    size_t n = 0;
    v[n++] = (label){S(LABEL_PROFILE_TYPE), str_of(fact_types[f->type])};
    if (f->sampled) v[n++] = (label){S(LABEL_SAMPLED), S("true")};
    if (fact_pods[f->pod][0]) v[n++] = (label){S("pod"), str_of(fact_pods[f->pod])};
    v[n++] = (label){S(LABEL_SERVICE), str_of(fact_services[f->service])};
    return (labels){v, n};
}

static str fact_vector(struct arena *a, struct symbols *s, const struct vector_entry *v, size_t n)
{
    struct vector_entry mapped[FACT_ENTRIES];
    struct buf b;
    for (size_t i = 0; i < n; i++) {
        mapped[i].value = v[i].value;
        assert_ok((mapped[i].stack = stack_of_text(s, str_of(fact_stacks[v[i].stack]), e)) !=
                  MAP_NONE);
    }
    buf_init(&b, NULL, 1 << 16);
    assert_ok(vector_normalise(mapped, &n, e));
    vector_encode(mapped, n, &b);
    str out = arena_str(a, buf_view(&b));
    buf_release(&b);
    return out;
}

void fact_lexicon_init(struct fact_lexicon *l, struct dice *d)
{
    assert_ok(symbols_init(&l->s, NULL, e));
    l->told = symbols_counts(&l->s.t);
    for (size_t i = 0; i < sizeof l->id.b; i++)
        l->id.b[i] = (uint8_t)roll(d, 256);
}

str fact_batch_of(struct arena *a, const struct fact *facts, size_t n, struct symbols *s,
                  const struct fact_lexicon *l)
{
    struct buf out;
    struct batch b = {.service = str_of(fact_services[facts->service]),
                      .series = ARENA_ARRAY(a, labels, n),
                      .records = ARENA_ARRAY(a, struct record, n),
                      .series_count = (uint32_t)n,
                      .record_count = (uint32_t)n};
    for (size_t i = 0; i < n; i++) {
        const struct fact *f = &facts[i];
        b.series[i] = fact_labels(a, f);
        b.records[i] = (struct record){.series = (uint32_t)i,
                                       .time_ns = f->time_ns,
                                       .id = f->id,
                                       .duration_ns = 10,
                                       .period = 1,
                                       .sibling = RECORD_NO_SIBLING,
                                       .total = f->total,
                                       .vector = fact_vector(a, s, f->entries, f->n)};
        if (f->note) {
            label *note = ARENA_NEW(a, label);
            *note = (label){S("note"), str_of(fact_notes[f->note])};
            b.records[i].annotations = note;
            b.records[i].annotation_count = 1;
        }
        if (f->span_id == 0) continue;
        struct span_part *p = ARENA_NEW(a, struct span_part);
        *p = (struct span_part){.span_id = f->span_id,
                                .trace_id = {(uint8_t)f->span_id},
                                .has_trace = true,
                                .vector = fact_vector(a, s, f->entries, 1)};
        b.records[i].spans = p;
        b.records[i].span_count = 1;
    }
    b.symbols = s->t;
    if (l) {
        b.has_lexicon = true;
        b.lexicon = l->id;
        b.had = l->told;
        b.symbols = symbols_rest(&s->t, &l->told);
    }
    buf_init(&out, NULL, 1 << 26);
    assert_ok(batch_encode(&b, a, &out, e));
    str bytes = arena_str(a, buf_view(&out));
    buf_release(&out);
    return bytes;
}

str fact_batch(struct arena *a, const struct fact *facts, size_t n)
{
    struct symbols s;
    assert_ok(symbols_init(&s, NULL, e));
    str bytes = fact_batch_of(a, facts, n, &s, NULL);
    symbols_release(&s);
    return bytes;
}

static bool is_hidden(struct arena *a, const struct fact *f, const struct head_query *q)
{
    bool hidden = false;
    for (size_t i = 0; i < q->hide_count && !hidden; i++) {
        bool is = false;
        assert_ok(hide_is_of(&q->hides[i], fact_labels(a, f), &is, e));
        hidden = is && hide_has_time(&q->hides[i], f->time_ns);
    }
    return hidden;
}

bool fact_matches(struct arena *a, const struct fact *f, const struct head_query *q)
{
    bool tenant = false;
    for (size_t i = 0; i < q->tenant_count; i++)
        tenant = tenant || str_is(q->tenants[i], fact_tenants[f->tenant]);
    return tenant && f->time_ns > q->from_ns && f->time_ns <= q->to_ns &&
           selector_matches(&q->selector, fact_labels(a, f)) && !is_hidden(a, f, q);
}

str fact_tree(struct arena *a, const struct fact *facts, size_t n, const struct head_query *q,
              uint64_t span_id, uint64_t *profiles)
{
    struct merge m;
    struct tree t;
    assert_ok(merge_init(&m, NULL, false, e));
    *profiles = 0;
    for (size_t i = 0; i < n; i++) {
        const struct fact *f = &facts[i];
        if (f->sampled || !fact_matches(a, f, q)) continue;
        if (span_id && f->span_id != span_id) continue;
        ++*profiles;
        for (size_t k = 0; k < (span_id ? 1 : f->n); k++) {
            assert_ok(
                sum_stack(&m, str_of(fact_stacks[f->entries[k].stack]), f->entries[k].value, e));
        }
    }
    assert_ok(tree_build(a, &m.symbols.t, m.sums, NULL, 0, &t, e));
    str text = text_of_tree(a, &t);
    merge_release(&m);
    return text;
}

str merge_text(struct arena *a, const struct merge *m)
{
    struct tree t;
    assert_ok(tree_build(a, &m->symbols.t, m->sums, NULL, 0, &t, e));
    return text_of_tree(a, &t);
}

void fact_selector(struct arena *a, struct dice *d, struct selector *sel)
{
    static const struct {
        enum matcher_op op;
        const char *name;
        const char *value;
    } some[] = {
        {MATCH_EQ, LABEL_SERVICE, "api"},
        {MATCH_NEQ, LABEL_SERVICE, "api"},
        {MATCH_RE, LABEL_SERVICE, "api|db"},
        {MATCH_EQ, "pod", "p-0"},
        {MATCH_NEQ, "pod", "p-0"},
        {MATCH_RE, "pod", "p-.*"},
        {MATCH_NRE, "pod", "p-.*"},
        {MATCH_EQ, "pod", ""},
        {MATCH_NEQ, "pod", ""},
        {MATCH_RE, "pod", ".+"},
        {MATCH_RE, "pod", ".*"},
        {MATCH_RE, "pod", "|q-0"},
        {MATCH_EQ, "none", ""},
        {MATCH_EQ, "none", "x"},
        {MATCH_EQ, LABEL_PROFILE_TYPE, "mem:space:bytes::"},
        {MATCH_RE, LABEL_PROFILE_TYPE, "cpu:.*"},
    };
    for (uint64_t n = roll(d, 4); n > 0; n--) {
        size_t i = (size_t)roll(d, COUNT(some));
        assert_ok(selector_add(a, sel, some[i].op, str_of(some[i].name), str_of(some[i].value), e));
    }
}
