// SPDX-License-Identifier: Apache-2.0
//
// Writing and reading blocks while allocations and calls fail one by one.
#include "block/keys.h"
#include "block/source.h"
#include "block/spans.h"
#include "block/verify.h"
#include "lib/memstore.h"
#include "lib/torture.h"
#include "store/origin.h"
#include "unit/block/model_read.h"
#include "unit/block/read_all.h"

static struct model *some_model(enum block_kind kind)
{
    struct random r = {0xabc + kind};
    struct model_size z = {.services = 2,
                           .types = 2,
                           .keys = 3,
                           .rows = 20,
                           .stacks = 40,
                           .entries = 10,
                           .spans = true};
    return model_make(&r, kind, &z);
}

static bool write_block(struct torture_bench *b, void *arg, err *e)
{
    struct block_written written = {0};
    return model_write(arg, &b->budget, &b->out, &written, e);
}

static bool read_bytes(struct torture_bench *b, void *arg, err *e)
{
    if (!read_block(&b->arena, *(str *)arg, e)) return false;
    buf_z(&b->out, "all");
    return true;
}

static bool order_symbols(struct torture_bench *b, void *arg, err *e)
{
    const struct symbol_table *t = arg;
    struct symbol_table out = {0};
    uint32_t *map = ARENA_ARRAY(&b->arena, uint32_t, t->stack_count);
    if (!map) return arena_ok(&b->arena, e);
    if (!block_order(&b->arena, t, NULL, &out, map, e)) return false;
    buf_put(&b->out, map, t->stack_count * sizeof *map);
    return true;
}

// ---- keys

static bool keys(struct torture_bench *b, void *arg, err *e)
{
    static const label v[][2] = {{{S_INIT("app"), S_INIT("x")}, {S_INIT("pod"), S_INIT("1")}},
                                 {{S_INIT("app"), S_INIT("x")}, {S_INIT("pod"), S_INIT("2")}},
                                 {{S_INIT("app"), S_INIT("y")}, {S_INIT("zone"), S_INIT("e")}}};
    labels ls[300];
    const struct block_postings *p = NULL;
    labels *back = NULL;
    struct selector sel = {0};
    struct block_set set = {0};
    (void)arg;
    for (size_t i = 0; i < COUNT(ls); i++)
        ls[i] = (labels){v[i / 100], 2};
    if (!block_postings_encode(&b->arena, ls, COUNT(ls), &b->out, e) || !buf_ok(&b->out, e))
        return false;
    str bytes = arena_str(&b->arena, buf_view(&b->out));
    if (!arena_ok(&b->arena, e) ||
        !block_postings_parse(&b->arena, bytes, COUNT(ls), &p, &back, e) ||
        !selector_add(&b->arena, &sel, MATCH_RE, S("pod"), S("[1-9]"), e) ||
        !selector_add(&b->arena, &sel, MATCH_NEQ, S("zone"), S("e"), e) ||
        !block_select(p, &b->arena, &sel, &set, e))
        return false;
    buf_put(&b->out, set.words, (set.n + 63) / 64 * sizeof *set.words);
    return true;
}

// ---- spans

static bool put_spans(struct torture_bench *b, struct block_spans *s, err *e)
{
    static const struct block_span v[] = {{.span_id = 1, .vector = S_INIT("one")},
                                          {.span_id = 2, .has_trace = true}};
    struct block_row_spans *rows = NULL;
    const struct block_blooms *blooms = NULL;
    for (size_t i = 0; i < 300; i++) {
        if (!block_spans_row(s, v, i % 3, e)) return false;
    }
    if (!block_spans_frame(s, &b->out, e)) return false;
    str frame = arena_str(&b->arena, buf_view(&b->out));
    if (!block_spans_blooms(s, &b->out, e)) return false;
    str filter = arena_str(&b->arena, str_slice(buf_view(&b->out), frame.n, b->out.n));
    return arena_ok(&b->arena, e) && block_spans_parse(&b->arena, frame, 300, &rows, e) &&
           block_blooms_parse(&b->arena, filter, 1, &blooms, e);
}

static bool spans(struct torture_bench *b, void *arg, err *e)
{
    struct block_spans s;
    (void)arg;
    block_spans_init(&s, &b->budget);
    bool ok = put_spans(b, &s, e);
    block_spans_release(&s);
    return ok;
}

// ---- blocks of a store

static struct store *store;

static void count(void *arg, str service, const char *text)
{
    (void)service;
    (void)text;
    ++*(uint64_t *)arg;
}

static bool open_and_verify(struct torture_bench *b, struct req *r, str bytes, err *e)
{
    struct block_source src;
    struct block_verified got;
    uint64_t faults = 0;
    struct block_verify_options o = {.report = count,
                                     .arg = &faults,
                                     .memory = &b->budget,
                                     .cap = SIZE_MAX};
    if (!block_source_open(&r->arena, store_origin(store, r), S("block"), bytes.n, &src, e))
        return false;
    for (uint32_t i = 0; i < src.footer.service_count; i++) {
        struct symbol_table symbols;
        struct block_index index;
        if (!block_source_service(&b->arena, &src, &src.footer.services[i], &symbols, &index, e))
            return false;
        buf_printf(&b->out, "%u %u ", symbols.stack_count, index.key_count);
    }
    if (!block_verify(&src, &o, &got, e)) return false;
    buf_printf(&b->out, "%llu %llu", (unsigned long long)got.rows, (unsigned long long)faults);
    return true;
}

static bool read_store(struct torture_bench *b, void *arg, err *e)
{
    struct req r;
    req_init(&r, RANK_DUTY, &b->budget, (size_t)1 << 30, 0);
    bool ok = open_and_verify(b, &r, *(str *)arg, e);
    req_release(&r);
    return ok;
}

// ---- all

static void a_block_survives(void **state)
{
    (void)state;
    static const char *const names[] = {"", "segment", "raw", "hours", "days"};
    for (enum block_kind kind = BLOCK_RAW; kind <= BLOCK_HOURS; kind++) {
        struct model *m = some_model(kind);
        struct block_written written = {0};
        struct buf out;
        buf_init(&out, NULL, SIZE_MAX);
        assert_ok(model_write(m, NULL, &out, &written, e));
        str bytes = buf_view(&out);
        const struct torture_maker makers[] = {
            {.name = names[kind], .make = write_block, .arg = m, .most = 150},
            {.name = "reading", .make = read_bytes, .arg = &bytes, .most = 150},
        };
        torture_make_all(makers, COUNT(makers));
        buf_release(&out);
    }
}

static void order_survives(void **state)
{
    (void)state;
    struct random r = {99};
    struct symbols s;
    assert_ok(symbols_init(&s, NULL, e));
    random_symbols(&r, &s, 100);
    const struct torture_maker maker = {"order", .make = order_symbols, .arg = &s.t};
    torture_make_all(&maker, 1);
    symbols_release(&s);
}

static void keys_and_spans_survive(void **state)
{
    (void)state;
    static const struct torture_maker makers[] = {
        {.name = "keys", .make = keys},
        {.name = "spans", .make = spans},
    };
    torture_make_all(makers, COUNT(makers));
}

static void reading_a_store_survives(void **state)
{
    (void)state;
    for (enum block_kind kind = BLOCK_RAW; kind <= BLOCK_DAYS; kind += 2) {
        struct block_written written = {0};
        struct buf out;
        buf_init(&out, NULL, SIZE_MAX);
        assert_ok(model_write(some_model(kind), NULL, &out, &written, e));
        str bytes = buf_view(&out);
        const struct torture_maker maker = {.name = "verify",
                                            .make = read_store,
                                            .arg = &bytes,
                                            .most = 150};
        store = memstore_open();
        memstore_set(store, "block", bytes);
        torture_make_all(&maker, 1);
        store_close(store);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_block_survives),
        ARENA_TEST(order_survives),
        ARENA_TEST(keys_and_spans_survive),
        ARENA_TEST(reading_a_store_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
