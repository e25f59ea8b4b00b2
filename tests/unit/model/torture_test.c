// SPDX-License-Identifier: Apache-2.0
//
// The data model while its allocations fail one by one.
#include "lib/torture.h"
#include "model/batch.h"
#include "model/columns.h"
#include "model/dot.h"
#include "model/flamegraph.h"
#include "model/functions.h"
#include "model/loose.h"
#include "model/pprof.h"
#include "model/ptype.h"
#include "model/relabel.h"
#include "model/vector.h"
#include "unit/model/stacks.h"

static const struct text_sum some[] = {
    {"main;run;step@7;in@8!", 30}, {"main;run;step@9", 5},   {"main;run", 1},  {"main;idle", 12},
    {"boot;init;load", 4},         {"boot;init;load;;x", 2}, {"gc;mark", 900}, {"gc;sweep@3", 8},
};

// ---- labels

static bool selector_and_labels(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct arena *a = &b->arena;
    static const label v[] = {{S_INIT("__name__"), S_INIT("up")},
                              {S_INIT("a"), S_INIT("1")},
                              {S_INIT("b c"), S_INIT("x\ny")},
                              {S_INIT("pod"), S_INIT("p-17")}};
    labels ls = {v, COUNT(v)};
    struct selector sel = {0};
    if (!selector_parse(a, S("up{a=\"1\", 'b c'!=\"\", pod=~\"p-[0-9]+\", zone!~`a|b`, x='\\n'}"),
                        &sel, e))
        return false;
    labels copy = labels_copy(a, ls);
    if (!arena_ok(a, e)) return false;
    buf_printf(&b->out, "%zu %d ", sel.n, labels_eq(copy, ls));
    for (size_t i = 0; i < sel.n; i++) {
        const struct matcher *m = &sel.v[i];
        bool yes = false;
        if (!matcher_test(&sel, m, labels_get(copy, m->name), &yes, e)) return false;
        buf_printf(&b->out, "%d", yes);
    }
    labels_print(copy, &b->out);
    struct ptype t;
    if (!ptype_parse(S("cpu:samples:count:cpu:nanoseconds"), &t, e)) return false;
    buf_str(&b->out, ptype_print(a, &t));
    return true;
}

static bool relabelling(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    static const str sources[] = {S_INIT("a"), S_INIT("b")};
    static const label v[] = {{S_INIT("a"), S_INIT("1")}, {S_INIT("b"), S_INIT("\xc3\xa9tude")}};
    const struct relabel_config c[] = {
        {.source_labels = sources,
         .source_count = 2,
         .regex = S("(.);(.*)"),
         .target_label = S("x_$1"),
         .replacement = S("${2}-$1")},
        {.action = S("labelmap"), .regex = S("(.)"), .replacement = S("y_$1")},
        {.action = S("uppercase"),
         .source_labels = &sources[1],
         .source_count = 1,
         .target_label = S("b")},
        {.action = S("hashmod"),
         .source_labels = sources,
         .source_count = 2,
         .has_modulus = true,
         .modulus = 1000,
         .target_label = S("shard")},
        {.action = S("labeldrop"), .regex = S("y_a")},
    };
    struct relabel_rules rules;
    labels out = {0};
    bool keep = false;
    size_t at = 0;
    if (!relabel_compile(&b->arena, c, COUNT(c), &rules, &at, e) ||
        !relabel_with_defaults(&b->arena, &rules, RELABEL_DEFAULTS_FIRST, &rules, e) ||
        !relabel_run(&b->arena, &rules, (labels){v, COUNT(v)}, &out, &keep, e))
        return false;
    if (keep) labels_print(out, &b->out);
    return true;
}

static bool vectors_become_columns(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    static const uint32_t map[] = {0, 3, 1, 2};
    struct vector_entry *v = NULL;
    size_t n = 0;
    if (!columns_from_vector(S("\x03\x01\x01\x02\x01\x04\x01\x06"), map, &b->arena, &b->out, e) ||
        !columns_entries(&b->arena, buf_view(&b->out), 3, &v, &n, e)) {
        return false;
    }
    for (size_t i = 0; i < n; i++)
        buf_printf(&b->out, " %u %lld", v[i].stack, (long long)v[i].value);
    return buf_ok(&b->out, e);
}

// ---- symbols

struct table {
    struct mem_budget budget;
    struct symbols s;
    uint32_t added;  // of `some`, for good
};

static void table_begin(void *arg)
{
    struct table *t = arg;
    *t = (struct table){0};
    mem_budget_init(&t->budget, "table", NULL, 0);
    assert_ok(symbols_init(&t->s, &t->budget, e));
    symbols_seed(&t->s, (struct hash_key){0});
}

static bool table_fill(void *arg, err *e)
{
    struct table *t = arg;
    char text[64];
    if (!symbols_reserve(&t->s, &(struct symbols_room){.stacks = 50, .frames = 20}, e))
        return false;
    while (t->added < 400) {
        snprintf(text, sizeof text, "main;f%u@%u;g%u", t->added % 90, t->added, t->added / 3);
        if (stack_of_text(&t->s, str_of(text), e) == MAP_NONE) return false;
        t->added++;
    }
    struct symbol_mapping m = {.start = 1, .limit = 2};
    return symbols_mapping(&t->s, m, e) != MAP_NONE;
}

// What was added stays; a row that failed left nothing that points nowhere.
static void table_check(void *arg, bool done)
{
    const struct symbol_table *t = &((struct table *)arg)->s.t;
    for (uint32_t i = 1; i < t->stack_count; i++) {
        assert_true(t->stacks[i].parent < i && t->stacks[i].frame < t->frame_count);
        assert_int_equal(symbols_find_stack(&((struct table *)arg)->s, t->stacks[i].parent,
                                            t->stacks[i].frame),
                         i);
    }
    for (uint32_t i = 1; i < t->frame_count; i++)
        assert_true(t->frames[i].function < t->function_count);
    for (uint32_t i = 1; i < t->function_count; i++)
        assert_true(t->functions[i].name < t->string_count);
    if (!done) return;
    assert_int_equal(t->stack_count, 1 + 1 + 400 + 400);
    assert_int_equal(t->mapping_count, 2);
}

static void table_end(void *arg)
{
    struct table *t = arg;
    symbols_release(&t->s);
    assert_int_equal(t->budget.used, 0);
}

static bool symbols_travel(struct torture_bench *b, void *arg, err *e)
{
    const struct symbol_table *from = arg;
    struct symbols to = {0};
    struct symbols_remap remap;
    struct symbol_table back;
    struct buf wire;
    buf_init(&wire, &b->budget, 1 << 20);
    bool *used = ARENA_ARRAY(&b->arena, bool, from->stack_count);
    uint32_t *ids = ARENA_ARRAY(&b->arena, uint32_t, from->stack_count);
    bool ok = arena_ok(&b->arena, e) && symbols_init(&to, &b->budget, e) &&
              symbols_remap_init(&remap, &b->arena, from, &to, e);
    for (uint32_t i = 0; ok && i < from->stack_count; i += 3) {
        used[i] = true;
        ok = symbols_remap_stack(&remap, i, e) != MAP_NONE;
    }
    ok = ok && symbols_encode(from, used, &b->arena, ids, &wire, e) &&
         symbols_encode(&to.t, NULL, &b->arena, NULL, &b->out, e) &&
         symbols_decode(&b->arena, buf_view(&wire), &back, e);
    if (ok) assert_int_equal(back.stack_count, to.t.stack_count);
    symbols_release(&to);
    buf_release(&wire);
    return ok;
}

// ---- batches

static bool batch_travels(struct torture_bench *b, void *arg, err *e)
{
    struct symbol_table *t = arg;
    struct buf bytes;
    struct buf vector;
    static const label service[] = {{S_INIT("service_name"), S_INIT("demo")},
                                    {S_INIT("zone"), S_INIT("z")}};
    static const label note[] = {{S_INIT("k"), S_INIT("v")}};
    labels series = {service, 2};
    struct vector_entry v[] = {{3, 5}, {1, 2}, {3, 1}, {4, -1}};
    size_t n = COUNT(v);
    buf_init(&bytes, &b->budget, 1 << 20);
    buf_init(&vector, &b->budget, 1 << 20);
    bool ok = vector_normalise(v, &n, e);
    if (ok) vector_encode(v, n, &vector);
    struct span_part span = {.span_id = 7, .vector = buf_view(&vector)};
    struct record records[] = {{.time_ns = 5,
                                .vector = buf_view(&vector),
                                .sibling = RECORD_NO_SIBLING,
                                .total = 7,
                                .spans = &span,
                                .span_count = 1,
                                .annotations = (label *)(uintptr_t)note,
                                .annotation_count = 1},
                               {.time_ns = 6, .sibling = 0, .factor = 2, .total = 14}};
    struct batch batch = {.service = S("demo"),
                          .series = &series,
                          .symbols = *t,
                          .records = records,
                          .series_count = 1,
                          .record_count = 2};
    struct batch back = {0};
    ok = ok && buf_ok(&vector, e) && batch_encode(&batch, &b->arena, &bytes, e) &&
         batch_decode(&b->arena, buf_view(&bytes), &back, e) &&
         batch_encode(&back, &b->arena, &b->out, e);
    if (ok) assert_true(str_eq(buf_view(&b->out), buf_view(&bytes)));
    buf_release(&bytes);
    buf_release(&vector);
    return ok;
}

// ---- from sums to what people see

// Sums that do not fit, united and sent.
static bool wide_sums(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct merge m[2];
    struct buf parts[3];
    struct symbol_table t;
    struct wide total = {0};
    bool fits = true;
    memset(m, 0, sizeof m);
    for (size_t i = 0; i < COUNT(parts); i++)
        buf_init(&parts[i], &b->budget, 1 << 20);
    bool ok = merge_init(&m[0], &b->budget, false, e) && merge_init(&m[1], &b->budget, true, e);
    m[0].wide = m[1].wide = true;
    ok = ok && sum_stacks(&m[0], some, COUNT(some), e);
    for (int i = 0; ok && i < 63; i++)  // doubled so often that they do not fit
        ok = merge_unite(&m[1], &m[0], e) && merge_unite(&m[0], &m[1], e);
    ok = ok && merge_fits(&m[0], &fits, &total, e);
    if (ok) assert_false(fits);
    ok = ok && merge_encode(&m[0], &b->arena, &parts[0], &parts[1], &parts[2], e) &&
         symbols_decode(&b->arena, buf_view(&parts[0]), &t, e) &&
         merge_add_encoded(&m[1], &t, buf_view(&parts[1]), buf_view(&parts[2]), e);
    for (size_t i = 0; i < COUNT(m); i++)
        merge_release(&m[i]);
    for (size_t i = 0; i < COUNT(parts); i++)
        buf_release(&parts[i]);
    return ok;
}

static bool sums_to_answers(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct arena *a = &b->arena;
    struct merge one = {0};
    struct merge both = {0};
    struct buf symbols;
    struct buf vector;
    struct symbol_table t;
    struct tree tree;
    struct tree cut;
    struct merge_source source;
    static const str site[] = {S_INIT("main")};
    const struct tree *sides[] = {&tree, &cut};
    struct function_table functions;
    struct dot_options dot = {.sample_type = S("cpu"),
                              .sample_unit = S("nanoseconds"),
                              .max_nodes = 9};
    struct pprof_options pprof = {.header = {.sample_type = S("cpu")},
                                  .max_nodes = 7,
                                  .call_site = site,
                                  .call_site_count = 1};
    buf_init(&symbols, &b->budget, 1 << 20);
    buf_init(&vector, &b->budget, 1 << 20);
    bool ok = merge_init(&one, &b->budget, false, e) && merge_init(&both, &b->budget, true, e) &&
              sum_stacks(&one, some, COUNT(some), e) &&
              merge_encode(&one, a, &symbols, &vector, NULL, e) &&
              symbols_decode(a, buf_view(&symbols), &t, e) &&
              merge_add(&both, &t, buf_view(&vector), 2, e) &&
              merge_add_sums(&both, &one.symbols.t, one.sums, e) &&
              merge_from(&both, a, &t, &source, e) &&
              merge_source_add(&source, buf_view(&vector), 1, e) &&
              tree_build(a, &both.symbols.t, both.sums, NULL, 0, &tree, e) &&
              tree_truncate(a, &tree, 5, &cut, e) && tree_bytes(&cut, &b->out, e) &&
              tree_flamegraph(a, &cut, &b->out, e) &&
              tree_flamegraph_diff(a, &tree, &cut, 6, NULL, &b->out, e) &&
              functions_build(a, sides, COUNT(sides), &functions, e) &&
              dot_print(a, &tree, &dot, &b->out, e) &&
              pprof_encode(a, &one.symbols.t, one.sums, &pprof, &b->out, e);
    merge_release(&one);
    merge_release(&both);
    buf_release(&symbols);
    buf_release(&vector);
    return ok;
}

static bool loose_rows(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct loose_set s = {0};
    struct loose_set back = {0};
    loose_init(&s, &b->arena, &b->budget, 500);
    loose_init(&back, &b->arena, &b->budget, 500);
    bool ok = true;
    for (uint32_t i = 0; ok && i < 100; i++)
        ok = loose_add(&s, (struct loose_key){.series = i}, i % 3, e);
    for (uint32_t i = 100; i < 200; i++)
        loose_note(&s, (struct loose_key){.series = i});
    if (ok && s.fault.code != ERR_OK) {
        *e = s.fault;
        ok = false;
    }
    if (ok) loose_encode(&s, 0, &b->out);
    ok = ok && buf_ok(&b->out, e) && loose_decode(&back, buf_view(&b->out), 1, e);
    if (ok) assert_true(back.n == 134 && loose_find(&back, (struct loose_key){.series = 150}));
    loose_release(&s);
    loose_release(&back);
    return ok;
}

static void the_model_survives(void **state)
{
    (void)state;
    struct mem_budget none;
    mem_budget_init(&none, "none", NULL, 0);
    struct symbols s = {0};
    assert_ok(symbols_init(&s, &none, e));
    err e = {0};
    for (size_t i = 0; i < COUNT(some); i++)
        assert_int_not_equal(stack_of_text(&s, str_of(some[i].stack), &e), MAP_NONE);
    // A digest that fails does not say why, so it is internal.
    const struct torture_maker makers[] = {
        {.name = "model.selector", .make = selector_and_labels},
        {.name = "model.relabel", .make = relabelling, .codes = 1u << ERR_INTERNAL},
        {.name = "model.symbols_wire", .make = symbols_travel, .arg = &s.t},
        {.name = "model.batch", .make = batch_travels, .arg = &s.t},
        {.name = "model.answers", .make = sums_to_answers},
        {.name = "model.wide", .make = wide_sums},
        {.name = "model.loose", .make = loose_rows},
        {.name = "model.columns", .make = vectors_become_columns},
    };
    torture_make_all(makers, COUNT(makers));
    symbols_release(&s);
}

static void tables_keep_what_they_have(void **state)
{
    (void)state;
    struct table t;
    struct torture_count n = torture_work(&(struct torture_work){.name = "model.symbols",
                                                                 .begin = table_begin,
                                                                 .run = table_fill,
                                                                 .check = table_check,
                                                                 .end = table_end,
                                                                 .arg = &t});
    assert_true(n.failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_survives),
        cmocka_unit_test(tables_keep_what_they_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
