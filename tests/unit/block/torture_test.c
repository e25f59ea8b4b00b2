// SPDX-License-Identifier: Apache-2.0
#include "block/keys.h"
#include "block/source.h"
#include "block/spans.h"
#include "block/verify.h"
#include "lib/memstore.h"
#include "lib/torture.h"
#include "unit/block/model.h"

static struct model *models[BLOCK_DAYS + 1];
static str blocks[BLOCK_DAYS + 1];
static struct store *store;

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

// ---- whole blocks

static bool writing(struct torture_bench *b, void *arg, err *e)
{
    struct block_written written = {0};
    return model_write(*(struct model **)arg, &b->budget, &b->out, &written, e);
}

static void count(void *arg, str service, const char *text)
{
    (void)service;
    (void)text;
    ++*(uint64_t *)arg;
}

static bool read_all(struct torture_bench *b, struct req *r, int kind, err *e)
{
    struct block_source src;
    struct block_verified got;
    uint64_t faults = 0;
    struct block_verify_options o = {.report = count,
                                     .arg = &faults,
                                     .memory = &b->budget,
                                     .cap = SIZE_MAX};
    str name = kind == BLOCK_RAW ? S("b/2") : S("b/4");
    if (!block_source_open(&r->arena, store, r, name, blocks[kind].n, &src, e)) return false;
    for (uint32_t i = 0; i < src.footer.service_count; i++) {
        struct symbol_table symbols;
        struct block_index index;
        if (!block_source_service(&b->arena, &src, r, &src.footer.services[i], &symbols, &index, e))
            return false;
        buf_printf(&b->out, "%u %u ", symbols.stack_count, index.key_count);
    }
    if (!block_verify(&src, r, &o, &got, e)) return false;
    buf_printf(&b->out, "%llu %llu", (unsigned long long)got.rows, (unsigned long long)faults);
    return true;
}

static bool reading(struct torture_bench *b, void *arg, err *e)
{
    struct req r;
    req_init(&r, RANK_DUTY, &b->budget, (size_t)1 << 30, 0);
    bool ok = read_all(b, &r, *(int *)arg, e);
    req_release(&r);
    return ok;
}

static void blocks_survive_every_failure(void **state)
{
    (void)state;
    static int kinds[] = {BLOCK_RAW, BLOCK_DAYS};
    const struct torture_maker makers[] = {
        {"keys", keys, NULL, 0, false, 150},
        {"spans", spans, NULL, 0, false, 150},
        {"writing a segment", writing, &models[BLOCK_SEGMENT], 0, false, 150},
        {"writing a leaf", writing, &models[BLOCK_RAW], 0, false, 150},
        {"writing hours", writing, &models[BLOCK_HOURS], 0, false, 150},
        {"reading a leaf", reading, &kinds[0], 0, false, 150},
        {"reading days", reading, &kinds[1], 0, false, 150},
    };
    store = memstore_open();
    for (int kind = BLOCK_SEGMENT; kind <= BLOCK_DAYS; kind++) {
        struct random r = {77 + (uint64_t)kind};
        struct model_size z = {.services = 2,
                               .types = 2,
                               .keys = 3,
                               .rows = kind <= BLOCK_RAW ? 20 : 0,
                               .stacks = 40,
                               .entries = 20,
                               .spans = true};
        struct block_written written = {0};
        struct buf out;
        buf_init(&out, NULL, SIZE_MAX);
        models[kind] = model_make(&r, (enum block_kind)kind, &z);
        assert_ok(model_write(models[kind], NULL, &out, &written, e));
        blocks[kind] = arena_str(&arena, buf_view(&out));
        memstore_set(store, arena_printf(&arena, "b/%d", kind).p, blocks[kind]);
        buf_release(&out);
    }
    torture_make_all(makers, COUNT(makers));
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ARENA_TEST(blocks_survive_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
