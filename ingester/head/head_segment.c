// SPDX-License-Identifier: Apache-2.0
#include "ingester/head/head_segment.h"

#include "base/hash.h"
#include "block/order.h"
#include "ingester/head/head_int.h"
#include "model/columns.h"

#include <stdlib.h>

// Bytes of the block that gather before the head is unpinned and the sink takes them. The allocator
// has so many at hand; each megabyte of more would be given and cleared by the kernel anew.
#define GATHER ((size_t)64 << 10)

// Rows that are encoded before the head is unpinned for a moment.
#define RUN 256

// Copies of so many rows of a service are kept from the first look at them until it is written: a
// small service has fewer, and finding them again takes as long as using them.
#define ROWS_KEPT 64

// Bytes of scratch after which it begins anew.
#define SCRATCH_KEPT ((size_t)32 << 10)

struct part_series {
    uint32_t number;  // in the index of the service
    bool sampled;
    str type;
    labels ls;
    const struct row *rows;  // copies of all of them, in order; NULL: they are found each time
    size_t row_count;
};

struct shared_vector {
    const struct payload *payload;
    uint64_t number;
};

struct segment {
    struct head *head;
    struct req *req;
    const struct head_segment *ask;
    int64_t after;
    int64_t until;
    struct service_head **services;
    size_t service_count;
    struct block_writer *writer;
    struct buf out;  // what the writer made and the sink has not taken
    // of one service
    struct service_head *service;
    uint32_t shape;
    struct arena arena;
    struct arena scratch;  // of a few rows
    size_t rows_kept;
    struct part_series *series;
    size_t series_count;
    size_t series_cap;
    struct symbol_table table;
    uint32_t *map;         // rows of the head's stacks to those of the table
    uint32_t stack_count;  // how many rows of the head's stacks it has
    int64_t *sums;
    struct shared_vector *shared;
    size_t shared_cap;
    uint32_t shared_count;
    struct map by_payload;
    struct buf columns;
};

static bool gather(void *arg, str bytes, err *e)
{
    struct segment *x = arg;
    buf_str(&x->out, bytes);
    return buf_ok(&x->out, e);
}

// ---- the head, held for a moment. Payloads and the index's strings stay while it is.

static bool enter(struct segment *x, err *e)
{
    head_pin(x->head);
    if (!x->service ||
        (x->service->shape == x->shape && service_current(x->service) == x->service)) {
        return true;
    }
    head_unpin(x->head);
    return err_set(e, ERR_ABORTED, "rows of service %.*s went meanwhile", STR(x->service->service));
}

static bool pour(struct segment *x, err *e)
{
    if (x->out.n == 0) return true;
    bool ok = x->ask->sink(x->ask->arg, buf_view(&x->out), e);
    buf_clear(&x->out);
    return ok;
}

static bool leave(struct segment *x, bool ok, err *e)
{
    head_unpin(x->head);
    return ok && (x->out.n < GATHER || pour(x, e));
}

// Lets others in and passes the bytes to the sink. After false the head is not pinned.
static bool breathe(struct segment *x, err *e)
{
    return leave(x, req_alive(x->req, e), e) && enter(x, e);
}

// ---- rows of a series

// Copies of its rows in the piece, in order; the arena's. What they point to stays while the shape
// does.
static bool collect(struct segment *x, uint32_t series, struct arena *a, struct row **rows,
                    size_t *n, err *e)
{
    size_t cap = 0;
    const struct row *row = NULL;
    *rows = NULL;
    *n = 0;
    pthread_rwlock_rdlock(&x->service->lock);
    assert(series < x->service->index.series_count);
    struct rows_cursor c = rows_within(&x->service->rows[series], x->after, x->until);
    while ((row = rows_next(&c))) {
        if (row->cut != x->ask->cut) continue;
        if (!arena_grow(a, rows, &cap, *n + 1, sizeof **rows)) break;
        (*rows)[(*n)++] = *row;
    }
    pthread_rwlock_unlock(&x->service->lock);
    if (!arena_ok(a, e)) return false;
    if (*n > 1) qsort(*rows, *n, sizeof **rows, rows_order);
    return true;
}

static bool has_row(struct segment *x, uint32_t series)
{
    const struct row *row = NULL;
    struct rows_cursor c = rows_within(&x->service->rows[series], x->after, x->until);
    while ((row = rows_next(&c)) && row->cut != x->ask->cut) {
    }
    return row != NULL;
}

// With the head held. visit sees every row of a series; it may not keep it.
typedef bool row_visit(struct segment *x, const struct row *row, void *arg, err *e);
static bool visit_rows(struct segment *x, const struct row *rows, size_t n, row_visit *visit,
                       void *arg, bool *held, err *e)
{
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        if (i % RUN == RUN - 1 || x->out.n >= GATHER) *held = ok = breathe(x, e);
        ok = ok && visit(x, &rows[i], arg, e);
    }
    return ok;
}

static bool each_row(struct segment *x, struct part_series *s, row_visit *visit, void *arg,
                     bool *held, err *e)
{
    struct arena a;
    struct row *rows = NULL;
    size_t n = 0;
    if (s->rows) return visit_rows(x, s->rows, s->row_count, visit, arg, held, e);
    arena_init(&a, x->ask->memory, SIZE_MAX);
    bool ok =
        collect(x, s->number, &a, &rows, &n, e) && visit_rows(x, rows, n, visit, arg, held, e);
    arena_release(&a);
    return ok;
}

// With the service's lock. They are good for as long as the service has its shape, which enter()
// asks for each time.
static void keep_rows(struct segment *x, struct part_series *s)
{
    const struct rows *all = &x->service->rows[s->number];
    size_t n = 0;
    const struct row *row = NULL;
    if (x->rows_kept + rows_count(all) > ROWS_KEPT) return;
    struct row *rows = ARENA_ARRAY(&x->arena, struct row, rows_count(all));
    if (!rows) return;
    struct rows_cursor c = rows_within(all, x->after, x->until);
    while ((row = rows_next(&c))) {
        if (row->cut == x->ask->cut) rows[n++] = *row;
    }
    if (n > 1) qsort(rows, n, sizeof *rows, rows_order);
    s->rows = rows;
    s->row_count = n;
    x->rows_kept += n;
}

// ---- series and symbols of a service

static int by_type(const void *a, const void *b)
{
    const struct part_series *p = a;
    const struct part_series *q = b;
    int order = str_cmp(p->type, q->type);
    return order ? order : labels_cmp(p->ls, q->ls);
}

static bool add_series(struct segment *x, uint32_t i)
{
    const struct index *index = &x->service->index;
    if (!has_row(x, i)) return true;
    label *v = ARENA_ARRAY(&x->arena, label, index->series[i].n);
    if (!v || !arena_grow(&x->arena, &x->series, &x->series_cap, x->series_count + 1,
                          sizeof *x->series)) {
        return false;
    }
    labels ls = index_labels(index, i, v);
    struct part_series *s = &x->series[x->series_count++];
    *s = (struct part_series){.number = i,
                              .sampled = index->series[i].sampled,
                              .type = labels_get(ls, S(LABEL_PROFILE_TYPE)),
                              .ls = ls};
    keep_rows(x, s);
    return true;
}

static bool find_series(struct segment *x, err *e)
{
    bool more = true;
    for (uint32_t i = 0; more; i++) {
        pthread_rwlock_rdlock(&x->service->lock);
        more = i < x->service->index.series_count && add_series(x, i);
        pthread_rwlock_unlock(&x->service->lock);
    }
    if (!arena_ok(&x->arena, e)) return false;
    if (x->series_count > 1) qsort(x->series, x->series_count, sizeof *x->series, by_type);
    return true;
}

// The assertion: a vector in memory was checked when it came, and the rows of a closed cut have no
// stacks that came later.
static bool mark_vector(struct segment *x, bool *used, str vector, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, vector, e)) return false;
    while (vector_next(&r, &v)) {
        assert(v.stack < x->stack_count);
        used[v.stack] = true;
    }
    return vector_done(&r, e);
}

static bool mark(struct segment *x, const struct row *row, void *arg, err *e)
{
    bool ok = mark_vector(x, arg, payload_view(row->vector), e);
    for (uint32_t i = 0; ok && row->spans && i < row->spans->count; i++)
        ok = mark_vector(x, arg, row_span_vector(row->spans, i), e);
    return ok;
}

// A table of at most so many rows is encoded under the service's lock. A larger one is copied under
// the lock and encoded after it, so that pushes never wait for the packing of a large table.
#define ENCODE_HELD 1024

static bool is_small(const struct symbol_table *t)
{
    return t->stack_count <= ENCODE_HELD && t->frame_count <= ENCODE_HELD &&
           t->function_count <= ENCODE_HELD && t->string_count <= 4 * ENCODE_HELD;
}

// With the service's lock, as additions move the columns of its table; bytes of strings stay.
static bool take_table(struct segment *x, const struct symbol_table *t, const bool *used,
                       bool small, err *e)
{
    if (!small) return block_order(&x->arena, t, used, &x->table, x->map, e);
    x->table = *t;
    return block_order_stacks(&x->arena, t, used, &x->table.stacks, &x->table.stack_count, x->map,
                              e) &&
           block_service(x->writer, x->service->service, &x->table, e);
}

// The table and the numbers in it. Stacks that pushes add meanwhile are behind `count` and in no
// row of a closed cut.
static bool make_table(struct segment *x, bool *held, err *e)
{
    pthread_rwlock_rdlock(&x->service->lock);
    uint32_t count = x->service->symbols.t.stack_count;
    pthread_rwlock_unlock(&x->service->lock);
    bool *used = ARENA_ARRAY(&x->arena, bool, count);
    x->map = ARENA_ARRAY(&x->arena, uint32_t, count);
    x->stack_count = count;
    bool ok = arena_ok(&x->arena, e);
    for (size_t i = 0; ok && i < x->series_count; i++) {
        *held = ok = breathe(x, e);
        ok = ok && each_row(x, &x->series[i], mark, used, held, e);
    }
    if (!ok) return false;
    pthread_rwlock_rdlock(&x->service->lock);
    struct symbol_table t = x->service->symbols.t;
    t.stack_count = count;
    bool small = is_small(&t);
    ok = take_table(x, &t, used, small, e);
    pthread_rwlock_unlock(&x->service->lock);
    return ok && (small || block_service(x->writer, x->service->service, &x->table, e));
}

// ---- the node of a type

struct node {
    struct block_node node;
    bool overflow;
};

static bool sum_vector(struct segment *x, struct node *n, str vector, int64_t factor, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, vector, e)) return false;
    while (vector_next(&r, &v)) {
        int64_t value = 0;
        assert(v.stack < x->stack_count && x->map[v.stack] < x->table.stack_count);
        n->overflow = n->overflow || __builtin_mul_overflow(v.value, factor, &value) ||
                      !sum_add(&x->sums[x->map[v.stack]], value) || !sum_add(&n->node.total, value);
    }
    return vector_done(&r, e);
}

static bool sum_row(struct segment *x, const struct row *row, void *arg, err *e)
{
    struct node *n = arg;
    if (n->overflow) return true;
    struct block_node *b = &n->node;
    if (b->profiles == 0 || row->time_ns < b->first_ns) b->first_ns = row->time_ns;
    if (b->profiles == 0 || row->time_ns > b->last_ns) b->last_ns = row->time_ns;
    assert(row->cut == x->ask->cut && row->time_ns > x->after && row->time_ns <= x->until);
    b->profiles++;
    return sum_vector(x, n, payload_view(row->vector), row->factor, e);
}

static bool put_all(struct segment *x, size_t first, size_t end, bool *held, err *e)
{
    assert(first < end && end <= x->series_count);
    struct node n = {.node = {.slot = x->ask->piece.hour, .width = SLOT_HOUR}};
    memset(x->sums, 0, x->table.stack_count * sizeof *x->sums);
    bool ok = true;
    for (size_t i = first; ok && i < end; i++) {
        *held = ok = breathe(x, e);
        if (ok && !x->series[i].sampled) ok = each_row(x, &x->series[i], sum_row, &n, held, e);
    }
    if (!ok || n.overflow || n.node.profiles == 0) return ok;
    buf_clear(&x->columns);
    columns_encode_sums(x->sums, x->table.stack_count, &x->columns);
    return buf_ok(&x->columns, e) &&
           block_key(x->writer, BLOCK_ALL, x->series[first].type, (labels){0}, e) &&
           block_node(x->writer, &n.node, buf_view(&x->columns), e);
}

// ---- rows

static bool same_payload(const void *ctx, uint32_t row)
{
    const void *const *key = ctx;
    const struct segment *x = key[0];
    return x->shared[row].payload == key[1];
}

static bool put_vector(struct segment *x, struct arena *a, const struct payload *p,
                       uint64_t *number, err *e)
{
    const void *key[] = {x, p};
    uint64_t hash = hash_table_word((uint64_t)(uintptr_t)p);
    uint32_t at = p->refs > 1 ? map_find(&x->by_payload, hash, same_payload, key) : MAP_NONE;
    if (at != MAP_NONE) {
        *number = x->shared[at].number;
        return true;
    }
    buf_clear(&x->columns);
    if (!columns_from_vector(payload_view(p), x->map, a, &x->columns, e) ||
        !buf_ok(&x->columns, e) || !block_vector(x->writer, buf_view(&x->columns), number, e)) {
        return false;
    }
    if (p->refs == 1) return true;
    if (!arena_grow(&x->arena, &x->shared, &x->shared_cap, (size_t)x->shared_count + 1,
                    sizeof *x->shared)) {
        return arena_ok(&x->arena, e);
    }
    x->shared[x->shared_count] = (struct shared_vector){p, *number};
    return map_put(&x->by_payload, hash, x->shared_count++, e);
}

static bool take_spans(struct segment *x, struct arena *a, const struct row_spans *from,
                       struct block_row *to, err *e)
{
    if (!from) return true;
    struct block_span *v = ARENA_ARRAY(a, struct block_span, from->count);
    for (uint32_t i = 0; v && i < from->count; i++) {
        const struct row_span *s = &from->v[i];
        v[i] = (struct block_span){.span_id = s->span_id, .has_trace = s->has_trace};
        memcpy(v[i].trace.b, s->trace_id, sizeof v[i].trace.b);
        buf_clear(&x->columns);
        if (!columns_from_vector(row_span_vector(from, i), x->map, a, &x->columns, e) ||
            !buf_ok(&x->columns, e)) {
            return false;
        }
        v[i].vector = arena_str(a, buf_view(&x->columns));
    }
    to->spans = v;
    to->span_count = from->count;
    return arena_ok(a, e);
}

static bool take_notes(struct arena *a, const struct row_notes *from, struct block_row *to, err *e)
{
    if (!from) return true;
    label *v = ARENA_ARRAY(a, label, from->count);
    for (uint32_t i = 0; v && i < from->count; i++)
        v[i] = row_note(from, i);
    to->annotations = (labels){v, from->count};
    to->has_first_stream = from->has_first_stream;
    to->first_stream = from->first_stream;
    return arena_ok(a, e);
}

static bool put_row(struct segment *x, const struct row *row, void *arg, err *e)
{
    (void)arg;
    struct arena *a = &x->scratch;
    struct block_row to = {.time_ns = row->time_ns,
                           .id = row->id,
                           .total = row->total,
                           .factor = row->factor,
                           .duration_ns = row->duration_ns,
                           .period = row->period,
                           .attempt = row->attempt | (row->placing ? BLOCK_IDENTIFIED : 0)};
    block_placing(x->writer, head_placing(x->head, row->placing));
    bool ok = put_vector(x, a, row->vector, &to.vector, e) &&
              take_spans(x, a, row->spans, &to, e) && take_notes(a, row->notes, &to, e) &&
              block_row(x->writer, &to, e);
    if (a->used > SCRATCH_KEPT) arena_release(a);
    return ok;
}

static bool put_type(struct segment *x, size_t first, size_t end, bool *held, err *e)
{
    bool ok = put_all(x, first, end, held, e);
    for (size_t i = first; ok && i < end; i++) {
        struct part_series *s = &x->series[i];
        *held = ok = breathe(x, e);
        ok = ok && block_key(x->writer, BLOCK_SERIES, s->type, s->ls, e) &&
             each_row(x, s, put_row, NULL, held, e);
    }
    return ok;
}

// ---- all of it

static bool put_service(struct segment *x, bool *held, err *e)
{
    if (!find_series(x, e)) return false;
    if (x->series_count == 0) return true;
    if (!make_table(x, held, e)) return false;
    x->sums = ARENA_ARRAY(&x->arena, int64_t, x->table.stack_count);
    bool ok = arena_ok(&x->arena, e);
    for (size_t first = 0, end = 0; ok && first < x->series_count; first = end) {
        while (end < x->series_count && str_eq(x->series[end].type, x->series[first].type))
            end++;
        ok = put_type(x, first, end, held, e);
    }
    return ok && block_service_end(x->writer, e);
}

static bool do_service(struct segment *x, struct service_head *s, err *e)
{
    bool held = false;
    x->service = NULL;
    if (!enter(x, e)) return false;
    x->service = s;
    x->shape = s->shape;
    x->rows_kept = 0;
    x->series = NULL;
    x->series_count = x->series_cap = 0;
    x->shared = NULL;
    x->shared_count = 0;
    x->shared_cap = 0;
    arena_init(&x->arena, x->ask->memory, SIZE_MAX);
    map_init(&x->by_payload, x->ask->memory);
    held = true;
    bool ok = put_service(x, &held, e);
    if (held) ok = leave(x, ok, e);
    map_release(&x->by_payload);
    arena_release(&x->arena);
    return ok;
}

// Those of the piece, in order. One of which no row is left may be gone.
static bool find_services(struct segment *x, struct arena *a, err *e)
{
    const struct head_piece *piece = &x->ask->piece;
    x->services = ARENA_ARRAY(a, struct service_head *, piece->service_count);
    if (!x->services) return arena_ok(a, e);
    for (size_t i = 0; i < piece->service_count; i++) {
        struct service_head *s = head_find(x->head, piece->tenant, piece->services[i]);
        if (s) x->services[x->service_count++] = s;
    }
    atomic_fetch_add_explicit(&x->head->visited_services, x->service_count, memory_order_relaxed);
    return true;
}

static bool write_block(struct segment *x, struct block_written *out, err *e)
{
    struct block_writer_options o = {.about = {.kind = BLOCK_SEGMENT,
                                               .tenant = x->ask->piece.tenant,
                                               .from_hour = x->ask->piece.hour,
                                               .hours = 1,
                                               .pack_hi = UINT32_MAX,
                                               .classes = 1u << BLOCK_ALL | 1u << BLOCK_SERIES},
                                     .sink = gather,
                                     .arg = x,
                                     .memory = x->ask->memory};
    x->writer = block_begin(&o, e);
    if (!x->writer) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < x->service_count; i++) {
        ok = do_service(x, x->services[i], e) ||
             err_wrap(e, "service %.*s", STR(x->services[i]->service));
    }
    if (!ok) {
        block_abandon(x->writer);
        return false;
    }
    return block_finish(x->writer, out, e) && pour(x, e);
}

bool head_segment(struct head *h, struct req *r, const struct head_segment *ask,
                  struct block_written *out, err *e)
{
    struct segment x = {.head = h,
                        .req = r,
                        .ask = ask,
                        .after = slot_start(ask->piece.hour, SLOT_HOUR),
                        .until = slot_start(ask->piece.hour + 1, SLOT_HOUR)};
    struct arena a;
    assert(ask->cut && ask->sink && slot_start(ask->piece.hour, SLOT_HOUR) >= 0);
    arena_init(&a, ask->memory, SIZE_MAX);
    arena_init(&x.scratch, ask->memory, SIZE_MAX);
    buf_init(&x.out, ask->memory, SIZE_MAX);
    buf_init(&x.columns, ask->memory, UINT32_MAX);
    bool ok = find_services(&x, &a, e) && write_block(&x, out, e);
    for (size_t i = 0; i < x.service_count; i++)
        service_unref(x.services[i]);
    buf_release(&x.columns);
    buf_release(&x.out);
    arena_release(&x.scratch);
    arena_release(&a);
    return ok;
}
