// SPDX-License-Identifier: Apache-2.0
#include "unit/compactor/fleet.h"

#include "lib/plain_block.h"
#include "store/origin.h"

#define FLEET_SERVICES 3
#define FLEET_STACKS   40
#define FLEET_SERIES   14
#define FLEET_TYPES    2
#define FLEET_VALUES   (FLEET_STACKS * FLEET_SERVICES)

static const char *const fleet_types[FLEET_TYPES] = {"cpu:nanoseconds", "memory:bytes"};

uint64_t fleet_random(struct fleet *f, uint64_t below)
{
    f->seed = f->seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = f->seed ^ (f->seed >> 33);
    return (x * 0xff51afd7ed558ccdu >> 20) % below;
}

void fleet_init(struct fleet *f, uint64_t seed)
{
    *f = (struct fleet){.seed = seed * 2654435761u + 1};
    mem_budget_init(&f->memory, "test", NULL, 0);
}

void fleet_release(struct fleet *f)
{
    free(f->facts);
    assert_int_equal(f->memory.used, 0);
}

const char *fleet_service(uint32_t i)
{
    static const char *const names[FLEET_SERVICES] = {"api", "batch", "web"};
    return names[i];
}

// Series 0 .. : region, pod (churns by its name), build (churns by its looks), some sampled.
static labels fleet_labels(struct arena *a, const struct fact *x)
{
    label *v = ARENA_ARRAY(a, label, 6);
    size_t n = 0;
    v[n++] = (label){S(LABEL_PROFILE_TYPE), str_of(fleet_types[x->type])};
    if (x->series % 7 == 6) v[n++] = (label){S(LABEL_SAMPLED), S("true")};
    v[n++] = (label){S("build"),
                     arena_printf(a, "%08x-%04x-0000", x->series * 77777u + 5, 4096 + x->series)};
    v[n++] = (label){S("pod"), arena_printf(a, "pod-%u", x->series)};
    v[n++] = (label){S("region"), x->series % 2 ? S("eu") : S("us")};
    v[n++] = (label){S(LABEL_SERVICE), str_of(fleet_service(x->service))};
    labels_sort(v, n);
    return (labels){v, n};
}

bool fact_is_hidden(const struct fact *x, const struct hide *h)
{
    struct arena a;
    bool is = false;
    arena_init(&a, NULL, 1 << 16);
    // As of a block's series, which have the type too.
    assert_ok(hide_is_of(h, fleet_labels(&a, x), &is, e));
    arena_release(&a);
    return is && hide_has_time(h, x->time_ns);
}

uint32_t fact_part(const struct fact *x, uint32_t parts)
{
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    uint32_t part = block_part(fleet_labels(&a, x), parts);
    arena_release(&a);
    return part;
}

static bool fact_sampled(const struct fact *x)
{
    return x->series % 7 == 6;
}

static int64_t fact_total(const struct fact *x)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < x->n; i++)
        sum += x->v[i].value * x->factor;
    return sum;
}

struct fact *fleet_add(struct fleet *f, int64_t time_ns)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 256;
        f->facts = realloc(f->facts, f->cap * sizeof *f->facts);
    }
    struct fact *x = &f->facts[f->n++];
    *x = (struct fact){.time_ns = time_ns,
                       .service = (uint32_t)fleet_random(f, FLEET_SERVICES),
                       .type = (uint32_t)fleet_random(f, FLEET_TYPES),
                       .series = (uint32_t)fleet_random(f, FLEET_SERIES),
                       .factor = fleet_random(f, 4) ? 1 : 10,
                       .attempt = fleet_random(f, 10) == 0,
                       .span = fleet_random(f, 5) == 0};
    x->id = uuid_profile((uint64_t)(time_ns / 1000000), fleet_random(f, UINT64_MAX),
                         fleet_random(f, UINT64_MAX));
    struct vector_entry v[FLEET_ENTRIES];
    size_t n = fleet_random(f, FLEET_ENTRIES + 1);
    for (size_t i = 0; i < n; i++) {
        v[i].stack = (uint32_t)fleet_random(f, FLEET_STACKS);
        v[i].value = (int64_t)fleet_random(f, 1000) * 1000 - 100;
    }
    assert_ok(vector_normalise(v, &n, e));
    memcpy(x->v, v, sizeof v);
    x->n = (uint32_t)n;
    return x;
}

void fleet_hour(struct fleet *f, int64_t hour, size_t n)
{
    int64_t start = slot_start(hour, SLOT_HOUR);
    for (size_t i = 0; i < n; i++) {
        int64_t at = 1 + (int64_t)fleet_random(f, (uint64_t)SLOT_HOUR);
        if (i == 0) at = SLOT_HOUR;
        if (i == 1) at = SLOT_FIVE;
        if (i == 2) at = SLOT_FIVE + 1;
        fleet_add(f, start + at);
    }
}

// Some clients give ids, and their distributors have two lists of ingesters.
static uint64_t placing_of(const struct fact *x)
{
    static const uint64_t placings[] = {0, 3, 5};
    return x->attempt ? 0 : placings[x->id.b[9] % COUNT(placings)];
}

static uint32_t attempt_of(const struct fact *x)
{
    return x->attempt | (placing_of(x) ? BLOCK_IDENTIFIED : 0);
}

// ---- symbols: stack i of a service is a path of i's digits in base 3

static uint32_t fleet_stack(struct symbols *s, uint32_t service, uint32_t i)
{
    err e = {0};
    uint32_t stack = 0;
    uint32_t path[8];
    size_t n = 0;
    if (i == 0) return 0;
    for (uint32_t k = i; k; k /= 3)
        path[n++] = k;
    while (n) {
        char name[32];
        snprintf(name, sizeof name, "fn%u.%u", service, path[--n]);
        uint32_t text = symbols_string(s, str_of(name), &e);
        uint32_t function = symbols_function(s, (struct symbol_function){.name = text}, &e);
        uint32_t frame =
            symbols_frame(s, (struct symbol_frame){.function = function, .line = 1}, &e);
        stack = symbols_stack(s, stack, frame, &e);
    }
    return stack;
}

// Which of the universe's stacks this is.
static uint32_t fleet_stack_back(const struct symbol_table *t, uint32_t stack)
{
    if (stack == 0) return 0;
    str name = symbols_frame_name(t, t->stacks[stack].frame);
    uint64_t number = UINT64_MAX;
    assert_true(str_u64(str_slice(name, str_find(name, '.') + 1, name.n), &number));
    return (uint32_t)number;
}

// ---- segments

static int order_services(const void *a, const void *b)
{
    const struct fact *const *x = a;
    const struct fact *const *y = b;
    return (int)(*x)->service - (int)(*y)->service;
}

static struct plain_row fleet_row(struct arena *a, const struct fact *x, const uint32_t *map,
                                  bool retried)
{
    struct vector_entry *v = ARENA_ARRAY(a, struct vector_entry, FLEET_ENTRIES);
    struct block_span *span = ARENA_NEW(a, struct block_span);
    size_t n = x->n;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct vector_entry){map[x->v[i].stack], x->v[i].value};
    assert_ok(vector_normalise(v, &n, e));
    *span = (struct block_span){.span_id = x->id.b[9], .vector = plain_columns(a, v, n)};
    return (struct plain_row){.type = str_of(fleet_types[x->type]),
                              .ls = fleet_labels(a, x),
                              .sampled = fact_sampled(x),
                              .v = v,
                              .n = n,
                              .row = {.time_ns = x->time_ns,
                                      .id = x->id,
                                      .total = fact_total(x),
                                      .factor = x->factor,
                                      .duration_ns = 15,
                                      .attempt = retried ? 1 : attempt_of(x),
                                      .spans = span,
                                      .span_count = x->span && x->factor == 1}};
}

// Each segment sees the stacks in another order. Its table borrows from *s.
static struct plain_service fleet_service_rows(struct fleet *f, struct arena *a, struct symbols *s,
                                               const struct fact *const *facts, size_t n,
                                               bool retried)
{
    uint32_t rows[FLEET_STACKS];
    uint32_t service = facts[0]->service;
    struct symbol_table *ordered = ARENA_NEW(a, struct symbol_table);
    struct plain_row *v = ARENA_ARRAY(a, struct plain_row, n);
    assert_ok(symbols_init(s, &f->memory, e));
    uint32_t start = (uint32_t)fleet_random(f, FLEET_STACKS);
    for (uint32_t i = 0; i < FLEET_STACKS; i++)
        rows[(start + i) % FLEET_STACKS] = fleet_stack(s, service, (start + i) % FLEET_STACKS);
    uint32_t *map = ARENA_ARRAY(a, uint32_t, s->t.stack_count);
    assert_ok(block_order(a, &s->t, NULL, ordered, map, e));
    for (uint32_t i = 0; i < FLEET_STACKS; i++)
        rows[i] = map[rows[i]];
    for (size_t i = 0; i < n; i++)
        v[i] = fleet_row(a, facts[i], rows, retried);
    return (struct plain_service){str_of(fleet_service(service)), ordered, v, n};
}

void fleet_segment(struct fleet *f, struct store *store, const size_t *which, size_t n,
                   bool retried)
{
    struct arena a;
    struct buf out;
    struct req r;
    struct symbols symbols[FLEET_SERVICES];
    struct plain_service services[FLEET_SERVICES];
    arena_init(&a, &f->memory, 64 << 20);
    buf_init(&out, &f->memory, 64 << 20);
    req_init(&r, RANK_DUTY, &f->memory, 1 << 20, 0);
    const struct fact **facts = ARENA_ARRAY(&a, const struct fact *, n);
    struct placings placings = {0};
    int64_t hour = slot_of(f->facts[which[0]].time_ns, SLOT_HOUR);
    for (size_t i = 0; i < n; i++) {
        facts[i] = &f->facts[which[i]];
        assert_int_equal(slot_of(facts[i]->time_ns, SLOT_HOUR), hour);
        if (!retried) placings_add(&placings, placing_of(facts[i]));
    }
    qsort(facts, n, sizeof *facts, order_services);
    struct plain_block block = {.about = {.kind = BLOCK_SEGMENT,
                                          .tenant = S(FLEET_TENANT),
                                          .from_hour = hour,
                                          .hours = 1,
                                          .pack_hi = UINT32_MAX,
                                          .classes = 1u << BLOCK_ALL | 1u << BLOCK_SERIES,
                                          .placings = placings},
                                .classes = 1u << BLOCK_SERIES,  // a merge reads rows only
                                .services = services,
                                .memory = &f->memory};
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && facts[end]->service == facts[i]->service)
            end++;
        services[block.n] =
            fleet_service_rows(f, &a, &symbols[block.n], facts + i, end - i, retried);
        block.n++;
        i = end;
    }
    assert_ok(plain_block_write(&a, &block, &out, e));
    while (block.n-- > 0)
        symbols_release(&symbols[block.n]);
    struct segment_name name = {.hour = hour, .cut = f->cut++};
    name.stream.b[5] = 1;
    bool existed = false;
    assert_ok(store_put(store, &r, name_segment(&a, S(FLEET_TENANT), &name), buf_view(&out),
                        &existed, e));
    assert_false(existed);
    req_release(&r);
    buf_release(&out);
    arena_release(&a);
}

void fleet_flush(struct fleet *f, struct store *store, size_t first, size_t most)
{
    size_t *which = malloc((f->n + 1) * sizeof *which);
    size_t *again = malloc((f->n + 1) * sizeof *again);
    bool *done = calloc(f->n + 1, 1);
    for (size_t i = first; i < f->n; i++) {
        if (done[i]) continue;
        int64_t hour = slot_of(f->facts[i].time_ns, SLOT_HOUR);
        size_t n = 0;
        size_t copies = 0;
        for (size_t k = i; k < f->n && n < most; k++) {
            if (done[k] || slot_of(f->facts[k].time_ns, SLOT_HOUR) != hour) continue;
            done[k] = true;
            which[n++] = k;
            if (k % 10 == 3) again[copies++] = k;
        }
        fleet_segment(f, store, which, n, false);
        if (copies) fleet_segment(f, store, again, copies, true);
        for (size_t k = 0; k < copies; k++)
            f->facts[again[k]].copies++;
    }
    free(which);
    free(again);
    free(done);
}

// ---- what blocks say

struct opened {
    struct arena arena;
    struct req req;
    struct block_source source;
};

static void open_block(struct opened *o, struct fleet *f, struct store *s, str name, uint64_t bytes)
{
    arena_init(&o->arena, &f->memory, 256 << 20);
    req_init(&o->req, RANK_DUTY, &f->memory, 1 << 20, 0);
    assert_ok(block_source_open(&o->arena, store_origin(s, &o->req), name, bytes, &o->source, e));
}

static void close_block(struct opened *o)
{
    req_release(&o->req);
    arena_release(&o->arena);
}

static uint32_t fleet_service_of(str name)
{
    for (uint32_t i = 0; i < FLEET_SERVICES; i++) {
        if (str_is(name, fleet_service(i))) return i;
    }
    fail_msg("service %.*s is none of ours", STR(name));
    return 0;
}

// Does a fact count for a key?
static bool fact_is_of(struct arena *a, const struct fact *x, uint32_t service, str type,
                       const struct block_key_ref *k, const struct block_dropped_labels *dropped)
{
    if (x->service != service || !str_is(type, fleet_types[x->type])) return false;
    if (k->class == BLOCK_ALL) return !fact_sampled(x);
    labels ls = fleet_labels(a, x);
    label v[8];
    size_t n = 0;
    for (size_t i = 0; i < ls.n; i++) {
        bool out = k->class == BLOCK_PROJECTION && str_among(ls.v[i].name, dropped->v, dropped->n);
        if (!out) v[n++] = ls.v[i];
    }
    return labels_eq((labels){v, n}, k->ls);
}

struct expected {
    int64_t sums[FLEET_STACKS];
    uint64_t profiles;
    int64_t total;
    int64_t first_ns;
    int64_t last_ns;
};

// The facts among `of` (flags for all facts) in a slot, added up.
static struct expected expect(const struct fleet *f, const bool *of, int64_t slot, int64_t width)
{
    struct expected x = {.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    for (size_t i = 0; i < f->n; i++) {
        const struct fact *t = &f->facts[i];
        if (!of[i] || slot_of(t->time_ns, width) != slot) continue;
        for (uint32_t k = 0; k < t->n; k++)
            x.sums[t->v[k].stack] += t->v[k].value * t->factor;
        x.profiles++;
        x.total += fact_total(t);
        x.first_ns = MIN(x.first_ns, t->time_ns);
        x.last_ns = MAX(x.last_ns, t->time_ns);
    }
    return x;
}

static void check_vector(struct arena *a, const struct symbol_table *t, str columns, int64_t factor,
                         const int64_t *sums)
{
    int64_t got[FLEET_STACKS] = {0};
    struct vector_entry *v = NULL;
    size_t n = 0;
    assert_ok(columns_entries(a, columns, t->stack_count, &v, &n, e));
    for (size_t i = 0; i < n; i++) {
        uint32_t stack = fleet_stack_back(t, v[i].stack);
        assert_true(stack < FLEET_STACKS);
        got[stack] += v[i].value * factor;
    }
    assert_memory_equal(got, sums, sizeof got);
}

static size_t slots_with(const struct fleet *f, const bool *of, int64_t width, uint64_t most,
                         uint64_t least)
{
    size_t n = 0;
    (void)most;
    for (size_t i = 0; i < f->n; i++) {
        if (!of[i]) continue;
        int64_t slot = slot_of(f->facts[i].time_ns, width);
        bool first = true;
        uint64_t count = 0;
        for (size_t k = 0; k < f->n; k++) {
            if (!of[k] || slot_of(f->facts[k].time_ns, width) != slot) continue;
            first = first && k >= i;
            count++;
        }
        n += first && count >= least;
    }
    return n;
}

struct block_check {
    struct fleet *fleet;
    struct opened *o;
    const struct block_service_ref *service;
    struct symbol_table symbols;
    struct block_index index;
    uint32_t number;  // of the service
    int64_t width;    // of its nodes
    int64_t total_width;
    const bool *within;  // facts that the block has
    bool *of;            // those of the key
};

static void check_nodes(struct block_check *c, const struct block_key_ref *k)
{
    struct arena *a = &c->o->arena;
    size_t own = 0;
    for (uint32_t i = 0; i < k->node_count; i++) {
        const struct block_node_ref *ref = &c->index.nodes[k->first_node + i];
        const struct block_node *n = &ref->node;
        str contents = {0};
        struct block_vectors v;
        assert_ok(block_source_sections(a, &c->o->source, &c->index.nodes_at.v[ref->frame].extent,
                                        1, &contents, e));
        assert_ok(block_vectors_parse(a, contents, c->index.nodes_at.v[ref->frame].count, &v, e));
        struct expected x = expect(c->fleet, c->of, n->slot, n->width);
        assert_int_equal(n->profiles, x.profiles);
        assert_int_equal(n->total, x.total);
        assert_int_equal(n->first_ns, x.first_ns);
        assert_int_equal(n->last_ns, x.last_ns);
        check_vector(a, &c->symbols, block_vector_at(&v, ref->place), ref->factor, x.sums);
        own += n->width == c->width;
    }
    const bool raw = !c->total_width;
    size_t want = slots_with(c->fleet, c->of, c->width, 0, raw ? 3 : 1);
    // Of five minutes only those that are worth it.
    if (raw) return assert_true(own <= want);
    assert_int_equal(own, want);
}

static void check_totals(struct block_check *c, const struct block_key_ref *k)
{
    struct arena *a = &c->o->arena;
    if (!c->total_width) return assert_int_equal(k->total_count, 0);
    assert_int_equal(k->total_count, slots_with(c->fleet, c->of, c->total_width, 0, 1));
    for (uint32_t i = 0; i < k->total_count; i++) {
        const struct block_frame *f = block_frame_of(&c->index.totals, k->first_total + i);
        struct block_total *v = NULL;
        str contents = {0};
        assert_ok(block_source_sections(a, &c->o->source, &f->extent, 1, &contents, e));
        assert_ok(block_totals_parse(a, contents, f->count, &v, e));
        const struct block_total *t = &v[k->first_total + i - f->first];
        struct expected x = expect(c->fleet, c->of, t->slot, c->total_width);
        assert_int_equal(t->sum, x.total);
        assert_int_equal(t->profiles, x.profiles);
    }
}

// Rows of the key are its facts, each once.
static void check_rows(struct block_check *c, const struct block_key_ref *k)
{
    struct arena *a = &c->o->arena;
    size_t want = 0;
    for (size_t i = 0; i < c->fleet->n; i++)
        want += c->of[i];
    assert_int_equal(k->row_count, want);
    for (uint64_t row = k->first_row; row < k->first_row + k->row_count; row++) {
        const struct block_frame *h = block_frame_of(&c->index.heads, row);
        const struct block_frame *d = block_frame_of(&c->index.details, row);
        const struct block_frame *s = block_frame_of(&c->index.spans, row);
        str contents[2];
        struct block_heads heads;
        struct block_details details;
        const struct block_extent x[] = {h->extent, d->extent};
        assert_ok(block_source_sections(a, &c->o->source, x, 2, contents, e));
        assert_ok(block_heads_parse(a, contents[0], h->count, &heads, e));
        assert_ok(block_details_parse(a, contents[1], &heads, &details, e));
        size_t at = (size_t)(row - h->first);
        const struct fact *fact = NULL;
        for (size_t i = 0; i < c->fleet->n && !fact; i++) {
            if (c->of[i] && id128_eq(c->fleet->facts[i].id, details.ids[at]))
                fact = &c->fleet->facts[i];
        }
        assert_non_null(fact);
        assert_int_equal(heads.times[at], fact->time_ns);
        assert_int_equal(heads.totals[at], fact_total(fact));
        assert_int_equal(heads.attempts ? heads.attempts[at] : 0, attempt_of(fact));
        assert_int_equal(details.factors ? details.factors[at] : 1, fact->factor);
        assert_int_equal(details.durations[at], 15);
        const struct block_frame *vf = block_frame_of(&c->index.vectors, details.vectors[at]);
        struct block_vectors v;
        assert_ok(block_source_sections(a, &c->o->source, &vf->extent, 1, contents, e));
        assert_ok(block_vectors_parse(a, contents[0], vf->count, &v, e));
        int64_t sums[FLEET_STACKS] = {0};
        for (uint32_t i = 0; i < fact->n; i++)
            sums[fact->v[i].stack] += fact->v[i].value;
        str columns = block_vector_at(&v, (uint32_t)(details.vectors[at] - vf->first));
        check_vector(a, &c->symbols, columns, 1, sums);
        bool spans = fact->span && fact->factor == 1;
        if (!s) {
            assert_false(spans);
            continue;
        }
        struct block_row_spans *by_row = NULL;
        assert_ok(block_source_sections(a, &c->o->source, &s->extent, 1, contents, e));
        assert_ok(block_spans_parse(a, contents[0], s->count, &by_row, e));
        assert_int_equal(by_row[row - s->first].n, spans);
        if (!spans) continue;
        assert_int_equal(by_row[row - s->first].v[0].span_id, fact->id.b[9]);
        check_vector(a, &c->symbols, by_row[row - s->first].v[0].vector, 1, sums);
    }
}

void check_block(struct fleet *f, struct store *s, str name, uint64_t bytes, const bool *within)
{
    struct opened o;
    open_block(&o, f, s, name, bytes);
    const struct block_about *about = &o.source.footer.about;
    bool raw = about->kind == BLOCK_RAW;
    bool hours = about->kind == BLOCK_HOURS;
    size_t seen = 0;  // facts, by their series
    for (uint32_t i = 0; i < o.source.footer.service_count; i++) {
        struct block_check c = {.fleet = f,
                                .o = &o,
                                .service = &o.source.footer.services[i],
                                .width = raw     ? SLOT_FIVE
                                         : hours ? SLOT_HOUR
                                                 : SLOT_DAY,
                                .total_width = raw     ? 0
                                               : hours ? SLOT_MINUTE
                                                       : SLOT_HOUR,
                                .within = within};
        struct arena a;
        arena_init(&a, NULL, 256 << 20);
        c.number = fleet_service_of(c.service->name);
        c.of = calloc(f->n + 1, 1);
        assert_ok(block_source_service(&o.arena, &o.source, c.service, &c.symbols, &c.index, e));
        size_t by_class[BLOCK_CLASSES] = {0};
        for (uint32_t k = 0; k < c.index.key_count; k++) {
            const struct block_key_ref *key = &c.index.keys[k];
            str type = c.index.types[key->type];
            const struct block_dropped_labels *dropped = &c.index.dropped[key->type];
            for (size_t n = 0; n < f->n; n++) {
                c.of[n] = within[n] && fact_is_of(&a, &f->facts[n], c.number, type, key, dropped);
                by_class[key->class] += c.of[n];
            }
            if (raw && key->class == BLOCK_ALL) c.width = c.index.nodes[key->first_node].node.width;
            if (!raw || key->class == BLOCK_ALL) check_nodes(&c, key);
            check_totals(&c, key);
            if (raw && key->class == BLOCK_SERIES) check_rows(&c, key);
            if (key->class == BLOCK_PROJECTION) {
                assert_true(labels_get(key->ls, S("pod")).n == 0);
                assert_true(labels_get(key->ls, S("region")).n > 0);
            }
        }
        seen += by_class[about->classes >> BLOCK_SERIES & 1 ? BLOCK_SERIES : BLOCK_PROJECTION];
        free(c.of);
        arena_release(&a);
    }
    size_t want = 0;
    struct placings placings = about->placings;
    for (size_t n = 0; n < f->n; n++) {
        uint32_t pack = block_pack(str_of(fleet_service(f->facts[n].service)));
        bool has = within[n] && pack >= about->pack_lo && pack <= about->pack_hi &&
                   fact_part(&f->facts[n], about->parts) == about->part;
        want += has;
        if (has && raw) placings_add(&placings, placing_of(&f->facts[n]));
    }
    assert_int_equal(seen, want);
    // A leaf has those of its rows, and parents have none.
    assert_int_equal(placings.n, about->placings.n);
    if (!raw) assert_int_equal(placings.n, 0);
    close_block(&o);
}
