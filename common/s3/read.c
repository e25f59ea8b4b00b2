// SPDX-License-Identifier: Apache-2.0
//
// read.c - reads ranges of objects. Pieces of one object that lie close together are one request:
// a request costs money and tens of milliseconds, in which a service sends a megabyte or two. Very
// long ones are split, since each connection brings a share of the machine's bandwidth only.
#include "s3/engine.h"
#include "store/metrics.h"

#include <stdlib.h>

// Latency times bandwidth of one connection: 10 to 20 ms of about 90 MB/s.
#define GAP_MAX   ((uint64_t)1 << 20)
#define RANGE_MAX ((uint64_t)8 << 20)
#define BATCH     32  // requests of one run; bounds the memory of their answers

// One request: pieces v[first .. first + n), which it covers together; or a part of one piece.
struct range {
    struct store_read **first;
    size_t n;
    uint64_t at;
    uint64_t end;
};

static int by_place(const void *a, const void *b)
{
    const struct store_read *x = *(struct store_read *const *)a;
    const struct store_read *y = *(struct store_read *const *)b;
    int order = str_cmp(x->name, y->name);
    if (order) return order;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool joins(const struct range *g, const struct store_read *v)
{
    const struct store_read *last = g->first[0];
    uint64_t end = MAX(g->end, v->at + v->n);
    return str_eq(last->name, v->name) && v->at <= g->end + GAP_MAX && end - g->at <= RANGE_MAX;
}

static void ends_before(struct store_read *v, uint64_t size)
{
    v->ok = err_set(&v->fault, ERR_OUT_OF_RANGE,
                    "read object %.*s: it has %llu bytes, %zu at %llu are asked for", STR(v->name),
                    (unsigned long long)size, v->n, (unsigned long long)v->at);
}

// "bytes 0-9/1234"; without it the answer is all of the object.
bool s3_read_place(const struct s3_op *o, uint64_t *at, uint64_t *size)
{
    str header = http_headers_get(&o->call.answer_headers, "content-range");
    str rest = str_slice(header, S("bytes ").n, header.n);
    str total = {0};
    str range = str_split(rest, '/', &total);
    str end = {0};
    str begin = str_split(range, '-', &end);
    uint64_t last = 0;
    *at = 0;
    *size = o->call.answer.n;
    if (o->call.status != 206) return true;
    return str_starts(header, S("bytes ")) && str_u64(begin, at) && str_u64(end, &last) &&
           str_u64(total, size) && last >= *at && last - *at + 1 == o->call.answer.n;
}

// Gives each piece its bytes of the answer, which begins at `at` in the object.
static void deal_out(const struct range *g, str bytes, uint64_t at, uint64_t size)
{
    uint64_t gaps = bytes.n;
    for (size_t i = 0; i < g->n; i++) {
        struct store_read *v = g->first[i];
        uint64_t from = MAX(v->at, g->at);
        uint64_t to = MIN(v->at + v->n, g->end);
        if (v->at + v->n > size) {
            ends_before(v, size);
        } else if (from < at || to - at > bytes.n) {
            v->ok = err_set(&v->fault, ERR_UNAVAILABLE,
                            "read object %.*s: the store sent fewer bytes than it should",
                            STR(v->name));
        } else {
            memcpy(v->to + (from - v->at), bytes.p + (from - at), to - from);
            gaps -= MIN(gaps, to - from);
            metric_add_to(&store_bytes, S("read"), to - from);
        }
    }
    metric_add(&store_gaps, gaps);
}

static void all_failed(const struct range *g, const err *e)
{
    for (size_t i = 0; i < g->n; i++) {
        g->first[i]->ok = false;
        g->first[i]->fault = *e;
    }
}

static void take(struct s3 *s, struct s3_op *o, const struct range *g)
{
    err e = {0};
    uint64_t at = 0;
    uint64_t size = 0;
    str bytes = buf_view(&o->call.answer);
    bool has_bytes = o->answered && (o->call.status == 206 || o->call.status == 200);
    if (has_bytes && s3_read_place(o, &at, &size)) {  // 200: the service took the range for all
        deal_out(g, bytes, at, size);
        return;
    }
    if (o->answered && o->call.status == 416) {
        for (size_t i = 0; i < g->n; i++) {
            g->first[i]->ok = err_set(&g->first[i]->fault, ERR_OUT_OF_RANGE,
                                      "read object %.*s: it ends before byte %llu",
                                      STR(g->first[i]->name), (unsigned long long)g->at + 1);
        }
        return;
    }
    s3_fault(s, o, "read", g->first[0]->name, &e);
    all_failed(g, &e);
}

static void run_ranges(struct s3 *s, struct req *r, const struct range *v, size_t n)
{
    struct s3_op ops[BATCH];
    struct arena a;
    err e = {0};
    memset(ops, 0, n * sizeof *ops);
    arena_init(&a, s->memory, (size_t)1 << 20);
    for (size_t i = 0; i < n; i++) {
        ops[i] = (struct s3_op){
            .action = S3_GET,
            .key = s3_key(s, &a, v[i].first[0]->name),
            .extra = {{str_of(s->speech->range),
                       arena_printf(&a, "bytes=%llu-%llu", (unsigned long long)v[i].at,
                                    (unsigned long long)v[i].end - 1)}},
            .extra_n = 1,
            .answer_max = MAX((size_t)(v[i].end - v[i].at), (size_t)64 << 10),
        };
    }
    if (arena_ok(&a, &e)) {
        metric_add(&store_reads, n);
        s3_run(s, r, ops, n);
        for (size_t i = 0; i < n; i++)
            take(s, &ops[i], &v[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            all_failed(&v[i], &e);
    }
    for (size_t i = 0; i < n; i++)
        s3_op_release(&ops[i]);
    arena_release(&a);
}

// A request under construction, and those that are ready to go.
struct plan {
    struct s3 *s;
    struct req *r;
    struct range v[BATCH];
    size_t n;
};

static void add(struct plan *p, struct range g)
{
    if (p->n == BATCH) {
        run_ranges(p->s, p->r, p->v, p->n);
        p->n = 0;
    }
    p->v[p->n++] = g;
}

static void run_all(struct s3 *s, struct req *r, struct store_read **v, size_t n)
{
    struct plan p = {.s = s, .r = r};
    for (size_t i = 0; i < n;) {
        struct range g = {&v[i], 1, v[i]->at, v[i]->at + v[i]->n};
        i++;
        if (g.end - g.at > RANGE_MAX) {
            for (uint64_t at = g.at; at < g.end; at += RANGE_MAX)
                add(&p, (struct range){g.first, 1, at, MIN(at + RANGE_MAX, g.end)});
            continue;
        }
        for (; i < n && joins(&g, v[i]); i++, g.n++)
            g.end = MAX(g.end, v[i]->at + v[i]->n);
        add(&p, g);
    }
    if (p.n) run_ranges(s, r, p.v, p.n);
}

void s3_read_many(struct store *st, struct req *r, struct store_read *v, size_t n)
{
    struct s3 *s = s3_of(st);
    err why = {0};
    size_t sorted_n = 0;
    struct store_read **sorted = mem_alloc(s->memory, n * sizeof *sorted, &why);
    for (size_t i = 0; i < n; i++) {
        v[i].ok = sorted != NULL;
        if (!sorted) v[i].fault = why;
        if (sorted && v[i].at > INT64_MAX - v[i].n)
            ends_before(&v[i], INT64_MAX);
        else if (sorted && v[i].n > 0)
            sorted[sorted_n++] = &v[i];
    }
    if (!sorted) return;
    qsort(sorted, sorted_n, sizeof *sorted, by_place);
    run_all(s, r, sorted, sorted_n);
    mem_free(s->memory, sorted, n * sizeof *sorted);
}

bool s3_get(struct store *st, struct req *r, str name, struct buf *out, err *e)
{
    struct s3 *s = s3_of(st);
    struct arena a;
    arena_init(&a, s->memory, (size_t)16 << 10);
    struct s3_op o = {.action = S3_GET,
                      .key = s3_key(s, &a, name),
                      .answer_max = MAX(out->cap - out->n, (size_t)64 << 10)};
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(s, r, &o, 1);
    if (ok && !(o.answered && o.call.status == 200)) {
        s3_fault(s, &o, "read", name, e);
        ok = false;
    }
    if (ok) {
        metric_add(&store_reads, 1);
        metric_add_to(&store_bytes, S("read"), o.call.answer.n);
        buf_str(out, buf_view(&o.call.answer));
        ok = buf_ok(out, e);
    }
    s3_op_release(&o);
    arena_release(&a);
    return ok;
}
