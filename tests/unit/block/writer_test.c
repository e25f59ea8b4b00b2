// SPDX-License-Identifier: Apache-2.0
//
// What the writer refuses: each case breaks one rule of a block that is fine otherwise.
#include "block/order.h"
#include "block/writer_int.h"
#include "unit/block/model_read.h"
#include "unit/model/random.h"

#define HOUR INT64_C(488000)
#define FROM (HOUR * SLOT_HOUR)

struct rig {
    struct buf out;
    struct block_writer *w;
    struct symbol_table table;
    str one;  // stack 1: 5
    uint64_t vector;
};

static const label pod_a[] = {{S_INIT("pod"), S_INIT("a")}};
static const label pod_b[] = {{S_INIT("pod"), S_INIT("b")}};

static bool begin(struct rig *g, enum block_kind kind, err *e)
{
    static struct symbol_stack stacks[] = {{0, 0}, {0, 1}, {1, 1}};
    static struct symbol_frame frames[] = {{0}, {.line = 3}};
    static struct symbol_function functions[1];
    static struct symbol_mapping mappings[1];
    static str strings[1];
    static const uint32_t hours[] = {0, 1, 1, 24, 672};
    g->table = (struct symbol_table){strings, functions, mappings, frames, stacks, 1, 1, 1, 2, 3};
    g->one = S("\x01\x05\x01\x02");
    struct block_writer_options o = {
        .about = {.kind = kind, .from_hour = HOUR, .hours = hours[kind], .pack_hi = UINT32_MAX},
        .sink = model_sink,
        .arg = &g->out};
    g->w = block_begin(&o, e);
    return g->w && block_service(g->w, S("m"), &g->table, e) &&
           block_vector(g->w, g->one, &g->vector, e);
}

static struct block_row row_at(const struct rig *g, int64_t time_ns)
{
    return (struct block_row){.time_ns = time_ns, .total = 5, .vector = g->vector, .factor = 1};
}

static struct block_node node_at(int64_t width, int64_t slot)
{
    int64_t start = slot_start(slot, width);
    return (struct block_node){slot, width, 1, 5, start + 1, start + width};
}

static bool key(struct rig *g, enum block_class class, const char *type, labels ls, err *e)
{
    return block_key(g->w, class, str_of(type), ls, e);
}

static bool series(struct rig *g, err *e)
{
    return key(g, BLOCK_SERIES, "t", (labels){pod_a, 1}, e);
}

// ---- cases
static bool service_twice(struct rig *g, err *e)
{
    return block_service(g->w, S("m"), &g->table, e);
}
static bool service_before(struct rig *g, err *e)
{
    return block_service(g->w, S("a"), &g->table, e);
}
static bool stacks_unordered(struct rig *g, err *e)
{
    static struct symbol_stack stacks[] = {{0, 0}, {0, 1}, {0, 1}, {1, 1}};
    g->table.stacks = stacks;
    g->table.stack_count = 4;
    return block_service(g->w, S("n"), &g->table, e);
}
static bool stack_without_frame(struct rig *g, err *e)
{
    static struct symbol_stack stacks[] = {{0, 0}, {0, 0}};
    g->table.stacks = stacks;
    g->table.stack_count = 2;
    return block_service(g->w, S("n"), &g->table, e);
}
static bool vector_far(struct rig *g, err *e)
{
    return block_vector(g->w, S("\x01\x01\x03\x02"), &g->vector, e);
}
static bool vector_malformed(struct rig *g, err *e)
{
    return block_vector(g->w, S("\x01\x01\x01"), &g->vector, e);
}
static bool type_before(struct rig *g, err *e)
{
    return series(g, e) && key(g, BLOCK_SERIES, "s", (labels){pod_a, 1}, e);
}
static bool class_before(struct rig *g, err *e)
{
    return series(g, e) && key(g, BLOCK_ALL, "t", (labels){0}, e);
}
static bool labels_before(struct rig *g, err *e)
{
    return key(g, BLOCK_SERIES, "t", (labels){pod_b, 1}, e) && series(g, e);
}
static bool labels_twice(struct rig *g, err *e)
{
    if (!series(g, e)) return false;
    return series(g, e);
}
static bool dropped_late(struct rig *g, err *e)
{
    return key(g, BLOCK_PROJECTION, "t", (labels){0}, e) &&
           block_dropped(g->w, S("t"), &S("pod"), 1, e);
}
static bool dropped_unordered(struct rig *g, err *e)
{
    static const str names[] = {S_INIT("pod"), S_INIT("ip")};
    return block_dropped(g->w, S("t"), names, 2, e);
}
static bool put_node(struct rig *g, struct block_node n, err *e)
{
    return block_node(g->w, &n, g->one, e);
}
static bool node_of_no_width(struct rig *g, err *e)
{
    return series(g, e) && put_node(g, node_at(SLOT_MINUTE, HOUR * 60), e);
}
static bool node_outside(struct rig *g, err *e)
{
    return series(g, e) && put_node(g, node_at(SLOT_HOUR, HOUR + 1), e);
}
static bool node_before(struct rig *g, err *e)
{
    return series(g, e) && put_node(g, node_at(SLOT_FIVE, HOUR * 12 - 1), e);
}
static bool node_wider(struct rig *g, err *e)
{
    return series(g, e) && put_node(g, node_at(SLOT_DAY, HOUR / 24), e);
}
static bool node_twice(struct rig *g, err *e)
{
    return series(g, e) && put_node(g, node_at(SLOT_FIVE, HOUR * 12), e) &&
           put_node(g, node_at(SLOT_FIVE, HOUR * 12), e);
}
static bool node_narrower(struct rig *g, err *e)
{
    return series(g, e) && put_node(g, node_at(SLOT_HOUR, HOUR), e) &&
           put_node(g, node_at(SLOT_FIVE, HOUR * 12), e);
}
static bool node_without_profiles(struct rig *g, err *e)
{
    struct block_node n = node_at(SLOT_HOUR, HOUR);
    n.profiles = 0;
    return series(g, e) && put_node(g, n, e);
}
static bool node_with_times(struct rig *g, err *e)
{
    struct block_node n = node_at(SLOT_HOUR, HOUR);
    n.last_ns++;
    return series(g, e) && put_node(g, n, e);
}
static bool node_with_time_at_start(struct rig *g, err *e)
{
    struct block_node n = node_at(SLOT_HOUR, HOUR);
    n.first_ns--;
    return series(g, e) && put_node(g, n, e);
}
static bool node_with_total(struct rig *g, err *e)
{
    struct block_node n = node_at(SLOT_HOUR, HOUR);
    n.total = 6;
    return series(g, e) && put_node(g, n, e);
}
static bool total_outside(struct rig *g, err *e)
{
    return series(g, e) && block_total(g->w, &(struct block_total){HOUR * 60 + 60, 1, 1}, e);
}
static bool total_twice(struct rig *g, err *e)
{
    struct block_total t = {HOUR * 60, 1, 1};
    return series(g, e) && block_total(g->w, &t, e) && block_total(g->w, &t, e);
}
static bool put_row(struct rig *g, struct block_row row, err *e)
{
    return block_row(g->w, &row, e);
}
static bool row_of_all(struct rig *g, err *e)
{
    return key(g, BLOCK_ALL, "t", (labels){0}, e) && put_row(g, row_at(g, FROM + 1), e);
}
static bool row_at_start(struct rig *g, err *e)
{
    return series(g, e) && put_row(g, row_at(g, FROM), e);
}
static bool row_behind(struct rig *g, err *e)
{
    return series(g, e) && put_row(g, row_at(g, FROM + SLOT_HOUR + 1), e);
}
static bool row_earlier(struct rig *g, err *e)
{
    return series(g, e) && put_row(g, row_at(g, FROM + 2), e) && put_row(g, row_at(g, FROM + 1), e);
}
static bool row_with_id_before(struct rig *g, err *e)
{
    struct block_row row = row_at(g, FROM + 2);
    row.id.b[15] = 2;
    if (!series(g, e) || !put_row(g, row, e)) return false;
    row.id.b[15] = 1;
    return put_row(g, row, e);
}
static bool row_with_vector(struct rig *g, err *e)
{
    struct block_row row = row_at(g, FROM + 2);
    row.vector++;
    return series(g, e) && put_row(g, row, e);
}
static bool row_with_factor(struct rig *g, err *e)
{
    struct block_row row = row_at(g, FROM + 2);
    row.factor = 0;
    return series(g, e) && put_row(g, row, e);
}
static bool row_with_total(struct rig *g, err *e)
{
    struct block_row row = row_at(g, FROM + 2);
    row.factor = 2;
    return series(g, e) && put_row(g, row, e);
}
static bool row_with_span(struct rig *g, err *e)
{
    struct block_row row = row_at(g, FROM + 2);
    row.spans = &(struct block_span){.span_id = 1, .vector = S("\x01\x01\x09\x02")};
    row.span_count = 1;
    return series(g, e) && put_row(g, row, e);
}

static const struct {
    const char *name;
    bool (*run)(struct rig *g, err *e);
    const char *message;
} cases[] = {
    {"service twice", service_twice, "block of service m: it does not come in order"},
    {"service before", service_before, "block of service a: it does not come in order"},
    {"stacks unordered", stacks_unordered, "its stacks are not in depth-first order"},
    {"stack without frame", stack_without_frame, "one of its stacks has no frame"},
    {"vector far", vector_far, "columns: stack 3 is not below 3"},
    {"vector malformed", vector_malformed, "columns: 1 entries do not fit 3 bytes"},
    {"type before", type_before, "types do not come in order"},
    {"class before", class_before, "keys do not come in order"},
    {"labels before", labels_before, "keys do not come in order"},
    {"labels twice", labels_twice, "keys do not come in order"},
    {"dropped late", dropped_late, "what projections leave out comes before them, once"},
    {"dropped unordered", dropped_unordered, "labels that projections leave out are not in order"},
    {"node of no width", node_of_no_width, "the width of a node is none"},
    {"node outside", node_outside, "a node lies outside of the block"},
    {"node before", node_before, "a node lies outside of the block"},
    {"node wider", node_wider, "a node lies outside of the block"},
    {"node twice", node_twice, "nodes do not come in order"},
    {"node narrower", node_narrower, "nodes do not come in order"},
    {"node without profiles", node_without_profiles, "a node has no profiles"},
    {"node with late time", node_with_times, "times of a node are not in its slot"},
    {"node with early time", node_with_time_at_start, "times of a node are not in its slot"},
    {"node with total", node_with_total, "the total of a node is not that of its vector"},
    {"total outside", total_outside, "a total lies outside of the block"},
    {"total twice", total_twice, "totals do not come in order"},
    {"row of all", row_of_all, "a row is of no series"},
    {"row at start", row_at_start, "a row lies outside of the block"},
    {"row behind", row_behind, "a row lies outside of the block"},
    {"row earlier", row_earlier, "rows do not come in order"},
    {"row with id before", row_with_id_before, "rows do not come in order"},
    {"row with vector", row_with_vector, "a row has a vector that was not written"},
    {"row with factor", row_with_factor, "a row has factor 0"},
    {"row with total", row_with_total, "the total of a row is not that of its vector"},
    {"row with span", row_with_span, "a span: columns: stack 9 is not below 3"},
};

static void what_is_out_of_order_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rig g = {0};
        err fault = {0};
        buf_init(&g.out, NULL, SIZE_MAX);
        assert_ok(begin(&g, BLOCK_RAW, e));
        if (cases[i].run(&g, &fault)) fail_msg("%s: accepted", cases[i].name);
        if (fault.code != ERR_INTERNAL || !strstr(fault.msg, cases[i].message)) {
            fail_msg("%s: %s", cases[i].name, fault.msg);
        }
        block_abandon(g.w);
        buf_release(&g.out);
    }
}

static void a_block_of_another_pack_is_refused(void **state)
{
    (void)state;
    struct rig g = {0};
    uint32_t pack = block_pack(S("m"));
    struct block_writer_options o = {
        .about = {.kind = BLOCK_RAW, .from_hour = HOUR, .hours = 1, .pack_lo = pack + 1},
        .sink = model_sink,
        .arg = &g.out};
    o.about.pack_hi = UINT32_MAX;
    err e = {0};
    g.w = block_begin(&o, &e);
    assert_non_null(g.w);
    static struct symbol_stack stacks[1];
    static struct symbol_table none = {.stacks = stacks, .stack_count = 1};
    assert_false(block_service(g.w, S("m"), &none, &e));
    assert_non_null(strstr(e.msg, "it belongs to another pack"));
    block_abandon(g.w);
    o.about.hours = 0;
    assert_null(block_begin(&o, &e));
    assert_non_null(strstr(e.msg, "are no such hours"));
}

// ---- what is written about all
static void datasets_count_what_is_not_sampled(void **state)
{
    (void)state;
    static const label sampled[] = {{S_INIT(LABEL_SAMPLED), S_INIT("true")}};
    struct rig g = {0};
    struct block_written written = {0};
    struct model_block b = {0};
    buf_init(&g.out, NULL, SIZE_MAX);
    assert_ok(begin(&g, BLOCK_RAW, e));
    struct block_row row = row_at(&g, FROM + 7);
    assert_ok(key(&g, BLOCK_SERIES, "cpu", (labels){sampled, 1}, e));
    assert_ok(block_row(g.w, &row, e));
    assert_ok(key(&g, BLOCK_SERIES, "cpu", (labels){pod_a, 1}, e));
    row.time_ns++;
    assert_ok(block_row(g.w, &row, e));
    assert_ok(block_row(g.w, &row, e));
    assert_ok(key(&g, BLOCK_SERIES, "heap", (labels){sampled, 1}, e));
    assert_ok(block_row(g.w, &row, e));
    assert_ok(block_finish(g.w, &written, e));
    assert_int_equal(written.rows, 4);
    assert_int_equal(written.profiles, 2);
    assert_int_equal(written.services, 1);
    assert_int_equal(written.classes, 1 << BLOCK_SERIES);
    assert_true(written.first_ns == FROM + 7 && written.last_ns == FROM + 8);
    model_open(buf_view(&g.out), &b);
    const struct block_service_ref *s = block_find_service(&b.footer, S("m"));
    assert_int_equal(s->dataset_count, 2);
    assert_true(str_is(s->datasets[0].type, "cpu") && s->datasets[0].profiles == 2);
    assert_true(str_is(s->datasets[1].type, "heap") && s->datasets[1].profiles == 0);
    assert_true(s->datasets[1].first_ns == FROM + 8);
    assert_null(block_find_service(&b.footer, S("l")));
    assert_null(block_find_service(&b.footer, S("n")));
    buf_release(&g.out);
}

static void of_nodes_the_narrowest_of_all_count(void **state)
{
    (void)state;
    struct rig g = {0};
    struct block_written written = {0};
    struct model_block b = {0};
    buf_init(&g.out, NULL, SIZE_MAX);
    assert_ok(begin(&g, BLOCK_HOURS, e));
    assert_ok(key(&g, BLOCK_ALL, "cpu", (labels){0}, e));
    assert_ok(put_node(&g, node_at(SLOT_HOUR, HOUR), e));
    assert_ok(put_node(&g, node_at(SLOT_HOUR, HOUR + 3), e));
    assert_ok(key(&g, BLOCK_SERIES, "cpu", (labels){pod_a, 1}, e));
    assert_ok(put_node(&g, node_at(SLOT_HOUR, HOUR), e));
    assert_ok(block_finish(g.w, &written, e));
    assert_int_equal(written.profiles, 2);
    assert_int_equal(written.classes, 1 << BLOCK_ALL | 1 << BLOCK_SERIES);
    model_open(buf_view(&g.out), &b);
    assert_int_equal(b.footer.services[0].datasets[0].profiles, 2);
    assert_int_equal(b.footer.about.classes, written.classes);
    buf_release(&g.out);
}

// Numbers with needless bytes are read as what they are.
static void needless_bytes_are_lost(void **state)
{
    (void)state;
    struct rig g = {0};
    struct block_written written = {0};
    struct model_block b = {0};
    struct block_index x = {0};
    uint64_t number = 0;
    buf_init(&g.out, NULL, SIZE_MAX);
    assert_ok(begin(&g, BLOCK_RAW, e));
    assert_ok(block_vector(g.w, S("\x81\x00\x85\x00\x82\x80\x00\x82\x00"), &number, e));
    assert_ok(block_finish(g.w, &written, e));
    model_open(buf_view(&g.out), &b);
    const struct block_service_ref *s = &b.footer.services[0];
    assert_ok(block_index_parse(&arena, model_section(b.bytes, &s->index), s, &x, e));
    assert_true(model_has_vector(&b, &x.vectors.v[0], 0, g.one));
    assert_true(model_has_vector(&b, &x.vectors.v[0], 1, S("\x01\x05\x02\x02")));
    buf_release(&g.out);
}

// Samples and what they are worth, a projection that is one series, ALL of one series: one vector.
static void nodes_share_vectors_that_are_equal_up_to_a_factor(void **state)
{
    (void)state;
    static const str other = S_INIT("\x01\x01\x01\x06");
    static const struct {
        const char *type;
        enum block_class class;
        str columns;
        int64_t factor;
        uint64_t number;  // of the vector, those of ALL behind the others
    } nodes[] = {
        {"cpu", BLOCK_ALL, S_INIT("\x01\x0a\x01\x02"), 10, 1},
        {"cpu", BLOCK_PROJECTION, S_INIT("\x01\x0a\x01\x02"), 10, 1},
        {"cpu", BLOCK_SERIES, S_INIT("\x01\x14\x01\x06"), 20, 0},
        {"samples", BLOCK_ALL, S_INIT("\x01\x03\x01\x02"), 3, 1},
        {"samples", BLOCK_SERIES, S_INIT("\x01\x01\x01\x06"), 1, 0},
        {"space", BLOCK_ALL, S_INIT("\x01\x05\x01\x06"), 5, 2},  // not where series have it
    };
    struct rig g = {0};
    struct block_written written = {0};
    struct model_block b = {0};
    struct block_index x = {0};
    buf_init(&g.out, NULL, SIZE_MAX);
    assert_ok(begin(&g, BLOCK_HOURS, e));
    for (size_t i = 0; i < COUNT(nodes); i++) {
        struct block_node n = node_at(SLOT_HOUR, HOUR);
        n.total = (nodes[i].columns.p[3] == 6 ? 3 : 1) * nodes[i].factor;
        labels ls = {pod_a, nodes[i].class == BLOCK_ALL ? 0 : 1};
        assert_ok(key(&g, nodes[i].class, nodes[i].type, ls, e));
        assert_ok(block_node(g.w, &n, nodes[i].columns, e));
    }
    assert_ok(block_finish(g.w, &written, e));
    model_open(buf_view(&g.out), &b);
    const struct block_service_ref *s = &b.footer.services[0];
    assert_ok(block_index_parse(&arena, model_section(b.bytes, &s->index), s, &x, e));
    assert_int_equal(x.node_count, COUNT(nodes));
    assert_int_equal(x.nodes_at.n, 2);
    assert_int_equal(x.nodes_at.v[0].count, 1);
    assert_int_equal(x.nodes_at.v[1].count, 2);
    for (uint32_t i = 0; i < x.node_count; i++) {
        const struct block_node_ref *n = &x.nodes[i];
        assert_int_equal(n->factor, nodes[i].factor);
        assert_int_equal(x.nodes_at.v[n->frame].first + n->place, nodes[i].number);
        assert_true(model_node_has(&b, &x, n, nodes[i].columns));
    }
    assert_true(model_has_vector(&b, &x.nodes_at.v[0], 0, other));
    buf_release(&g.out);
}

// ---- how services of a segment are packed

// One stack of functions whose names come in no order.
static void deep_symbols(struct symbols *s, uint32_t functions)
{
    uint32_t stack = 0;
    err fault = {0};
    assert_ok(symbols_init(s, NULL, e));
    for (uint32_t i = 0; i < functions; i++) {
        char name[64];
        snprintf(name, sizeof name, "example.org/shop/pkg%04u.Serve", i * 7919 % functions);
        struct symbol_function f = {.name = symbols_string(s, str_of(name), &fault)};
        f.system_name = f.name;
        f.filename = symbols_string(s, i % 2 ? S("/src/b.go") : S("/src/a.go"), &fault);
        struct symbol_frame one = {.function = symbols_function_at(s, &f, &fault), .line = i};
        stack = symbols_stack(s, stack, symbols_frame_at(s, &one, &fault), &fault);
    }
    assert_int_equal(stack, functions);
}

static void put_service(struct rig *g, const struct symbols *s, unsigned number)
{
    char name[32];
    struct block_row row = row_at(g, FROM + 1);
    snprintf(name, sizeof name, "service-%04u", number);
    assert_ok(block_service(g->w, arena_str(&arena, str_of(name)), &s->t, e));
    assert_ok(block_vector(g->w, g->one, &row.vector, e));
    assert_ok(series(g, e));
    assert_ok(block_row(g->w, &row, e));
}

static bool names_are_those_of(const struct symbol_table *t, const struct symbol_table *wanted)
{
    for (uint32_t i = 1; i < t->stack_count; i++) {
        const struct symbol_frame *f = &t->frames[t->stacks[i].frame];
        const struct symbol_frame *w = &wanted->frames[wanted->stacks[i].frame];
        const struct symbol_function *a = &t->functions[f->function];
        const struct symbol_function *b = &wanted->functions[w->function];
        if (!str_eq(t->strings[a->name], wanted->strings[b->name]) || f->line != w->line ||
            !str_eq(t->strings[a->system_name], wanted->strings[b->system_name]) ||
            !str_eq(t->strings[a->filename], wanted->strings[b->filename])) {
            return false;
        }
    }
    return t->stack_count == wanted->stack_count;
}

static uint8_t version_of(str block)
{
    return (uint8_t)block.p[block.n - 12];
}

// What a service costs beyond its bytes: no zstd context of its own, none at all if it is small,
// and nothing is packed that is small.
static void services_of_a_block_keep_one_compressor(void **state)
{
    (void)state;
    static const struct {
        enum block_kind kind;
        uint32_t functions;
        size_t contexts;
        bool packed;
        bool lz4;
        uint8_t version;
    } kinds[] = {
        {BLOCK_SEGMENT, 40, 0, false, false, 3},
        {BLOCK_SEGMENT, 1500, 0, true, true, 4},
        {BLOCK_SEGMENT, 6000, 1, true, false, 3},
        {BLOCK_RAW, 40, 1, true, false, 3},
    };
    for (size_t c = 0; c < COUNT(kinds); c++) {
        struct rig g = {0};
        struct symbols s;
        struct block_written written = {0};
        struct model_block b = {0};
        const unsigned services = 50;
        buf_init(&g.out, NULL, SIZE_MAX);
        deep_symbols(&s, kinds[c].functions);
        assert_ok(begin(&g, kinds[c].kind, e));
        for (unsigned i = 0; i < services; i++)
            put_service(&g, &s, i);
        assert_int_equal(g.w->compressor.made, kinds[c].contexts);
        assert_ok(block_finish(g.w, &written, e));
        assert_int_equal(written.rows, services);
        assert_int_equal(version_of(buf_view(&g.out)), kinds[c].version);
        model_open(buf_view(&g.out), &b);
        assert_int_equal(b.footer.service_count, services + 1);
        for (uint32_t i = 1; i < b.footer.service_count; i++) {
            const struct block_service_ref *of = &b.footer.services[i];
            struct symbol_table t = {0};
            assert_int_equal(of->symbols.packed, kinds[c].packed);
            assert_int_equal(of->symbols.lz4, kinds[c].lz4);
            assert_false(of->index.packed);
            assert_ok(block_symbols_parse(&arena, model_section(b.bytes, &of->symbols), &t, e));
            assert_true(names_are_those_of(&t, &s.t));
        }
        symbols_release(&s);
        buf_release(&g.out);
    }
}

// What rows say of their placing comes back, and the block says so too; one without is as before.
static void placings_are_in_the_footer(void **state)
{
    (void)state;
    for (int placed = 0; placed < 3; placed++) {
        struct rig g = {0};
        struct block_written written = {0};
        struct model_block b = {0};
        buf_init(&g.out, NULL, SIZE_MAX);
        assert_ok(begin(&g, BLOCK_SEGMENT, e));
        assert_ok(series(&g, e));
        for (int64_t i = 1; i <= 3; i++) {
            struct block_row row = row_at(&g, slot_start(HOUR, SLOT_HOUR) + i);
            row.attempt = i == 2;
            if (placed == 1 && i != 2) row.attempt |= BLOCK_IDENTIFIED;
            assert_ok(block_row(g.w, &row, e));
        }
        // A leaf may have placings of rows that turned out to be copies.
        if (placed) block_placing(g.w, 7);
        if (placed) block_placing(g.w, UINT64_MAX / 3);
        if (placed) block_placing(g.w, 7);
        block_placing(g.w, 0);
        assert_ok(block_finish(g.w, &written, e));
        assert_int_equal(version_of(buf_view(&g.out)), placed ? 6 : 3);
        model_open(buf_view(&g.out), &b);
        const struct placings *p = &b.footer.about.placings;
        assert_int_equal(p->n, placed ? 2 : 0);
        if (placed) assert_true(p->v[0] == 7 && p->v[1] == UINT64_MAX / 3);
        const struct block_dataset *d = &b.footer.services[0].datasets[0];
        assert_int_equal(d->loose, 1);
        assert_int_equal(d->placed, placed == 1 ? 2 : 0);
        assert_int_equal(b.footer.about.classes, 1 << BLOCK_SERIES);
        buf_release(&g.out);
    }
}

// Room of a service that is left to the next one has nothing of it: services of any size in any
// order have the bytes that they have alone.
static void a_service_has_the_bytes_that_it_has_alone(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {3, 4000, 1, 2000, 40, 40};
    struct rig all = {0};
    struct block_written written = {0};
    struct model_block b = {0};
    struct symbols s[COUNT(sizes)];
    buf_init(&all.out, NULL, SIZE_MAX);
    assert_ok(begin(&all, BLOCK_RAW, e));
    for (unsigned i = 0; i < COUNT(sizes); i++) {
        deep_symbols(&s[i], sizes[i]);
        put_service(&all, &s[i], i);
    }
    assert_ok(block_finish(all.w, &written, e));
    model_open(buf_view(&all.out), &b);
    for (unsigned i = 0; i < COUNT(sizes); i++) {
        struct rig one = {0};
        struct model_block alone = {0};
        buf_init(&one.out, NULL, SIZE_MAX);
        assert_ok(begin(&one, BLOCK_RAW, e));
        put_service(&one, &s[i], i);
        assert_ok(block_finish(one.w, &written, e));
        model_open(buf_view(&one.out), &alone);
        const struct block_service_ref *x = &b.footer.services[i + 1];
        const struct block_service_ref *y = &alone.footer.services[1];
        assert_true(
            str_eq(model_section(b.bytes, &x->symbols), model_section(alone.bytes, &y->symbols)));
        struct block_index of_all = {0};
        struct block_index of_one = {0};
        assert_ok(block_index_parse(&arena, model_section(b.bytes, &x->index), x, &of_all, e));
        assert_ok(block_index_parse(&arena, model_section(alone.bytes, &y->index), y, &of_one, e));
        assert_int_equal(of_all.stack_count, of_one.stack_count);
        assert_int_equal(of_all.key_count, of_one.key_count);
        assert_int_equal(of_all.node_count, of_one.node_count);
        symbols_release(&s[i]);
        buf_release(&one.out);
    }
    buf_release(&all.out);
}

static str block_of_table(enum block_kind kind, const struct symbol_table *t)
{
    struct rig g = {0};
    struct block_written written = {0};
    buf_init(&g.out, NULL, SIZE_MAX);
    assert_ok(begin(&g, kind, e));
    assert_ok(block_service(g.w, S("z"), t, e));
    assert_ok(block_service_end(g.w, e));
    assert_ok(block_service_end(g.w, e));  // there is none any more
    assert_ok(block_finish(g.w, &written, e));
    str bytes = arena_str(&arena, buf_view(&g.out));
    buf_release(&g.out);
    return bytes;
}

// Stacks in order over tables that are as they were: the same block as of a copy of what is used.
static void rows_that_no_stack_needs_are_left_out(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        struct random r = {seed * 0x9e3779b97f4a7c15u};
        struct symbols s;
        struct symbol_table copy = {0};
        assert_ok(symbols_init(&s, NULL, e));
        random_symbols(&r, &s, (int)random_below(&r, 150));
        uint32_t *map = ARENA_ARRAY(&arena, uint32_t, s.t.stack_count);
        uint32_t *same = ARENA_ARRAY(&arena, uint32_t, s.t.stack_count);
        bool *used = ARENA_ARRAY(&arena, bool, s.t.stack_count);
        for (uint32_t i = 1; i < s.t.stack_count; i++)
            used[i] = random_below(&r, 4) == 0;
        if (seed % 5 == 0) used = NULL;
        memset(same, 0xff, s.t.stack_count * sizeof *same);
        struct symbol_table view = s.t;
        assert_ok(block_order(&arena, &s.t, used, &copy, map, e));
        assert_ok(block_order_stacks(&arena, &s.t, used, &view.stacks, &view.stack_count, same, e));
        assert_int_equal(view.stack_count, copy.stack_count);
        assert_memory_equal(map, same, s.t.stack_count * sizeof *map);
        assert_true(
            str_eq(block_of_table(BLOCK_SEGMENT, &view), block_of_table(BLOCK_SEGMENT, &copy)));
        assert_true(str_eq(block_of_table(BLOCK_RAW, &view), block_of_table(BLOCK_RAW, &copy)));
        symbols_release(&s);
    }
}

static void a_sink_that_fails_is_told(void **state)
{
    (void)state;
    struct rig g = {0};
    struct block_written written = {0};
    err fault = {0};
    buf_init(&g.out, NULL, 10);
    assert_ok(begin(&g, BLOCK_RAW, e));
    assert_false(block_finish(g.w, &written, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&g.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(what_is_out_of_order_is_refused),
        ARENA_TEST(a_block_of_another_pack_is_refused),
        ARENA_TEST(datasets_count_what_is_not_sampled),
        ARENA_TEST(of_nodes_the_narrowest_of_all_count),
        ARENA_TEST(needless_bytes_are_lost),
        ARENA_TEST(nodes_share_vectors_that_are_equal_up_to_a_factor),
        ARENA_TEST(services_of_a_block_keep_one_compressor),
        ARENA_TEST(placings_are_in_the_footer),
        ARENA_TEST(a_service_has_the_bytes_that_it_has_alone),
        ARENA_TEST(rows_that_no_stack_needs_are_left_out),
        ARENA_TEST(a_sink_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
