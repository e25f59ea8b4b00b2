// SPDX-License-Identifier: Apache-2.0
//
// head_stage.c - takes a batch into its service in two steps: head_stage, which may fail, and
// head_publish, which cannot. The log is written in between.
//
//     head_stage      symbols, series and vectors go into the service's tables; rows are made of
//                     the records; memory for them and their ids is taken; the ids are in flight
//     head_publish    the rows get their cut and are seen by queries, all at once (turn)
//     head_abandon    instead, if the log refused: rows, room and ids in flight are released.
//                     Symbols and series stay, unless the service has no rows at all: then it goes.
//                     head_compact.c removes those that no row uses
//
// Of two batches with the same row (series and id) the second is refused with aborted while the
// first is in flight. Its caller waits for a turn and stages again: then the row is a duplicate, or
// the first batch was abandoned. A row that the service knows is counted and left out.
//
// Entries of a log are staged in the same way (head_stage_logged): their numbers are translated
// before, so they need no stack mapper.
#include "ingester/head/head_int.h"
#include "ingester/head/head_stacks.h"
#include "model/slot.h"
#include "model/vector.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <inttypes.h>

// What staging one batch works with; all of it under the service's lock.
struct stager {
    struct service_head *service;
    struct arena *arena;
    const struct batch *batch;
    const struct numbers *numbers;  // of a log that the records come from, or NULL: then
    struct stack_mapper mapper;
    uint16_t placing;           // number of the batch's
    uint32_t *series;           // number in the index + 1, by series of the batch
    struct payload **payloads;  // by record; the rows hold the references
    uint32_t *firsts;           // by record: the first row that has its vector
    struct vector_entry *entries;
    size_t entry_cap;
    struct buf bytes;
    struct head_terms terms;  // of a log: none
    struct staged *out;
};

// ---- parts of a row

static bool series_of(struct stager *x, uint32_t row, uint32_t *out, err *e)
{
    struct service_head *s = x->service;
    if (x->numbers) {
        uint32_t number = numbers_get(x->numbers, LOG_SERIES, row);
        *out = number - 1;
        return number || err_set(e, ERR_DATA_LOSS, "the log does not have its series %u", row);
    }
    if (x->series[row] == 0) {
        uint32_t before = s->index.series_count;
        // Room first: a series in the index has its rows.
        if (!mem_grow(service_budget(s), &s->rows, &s->rows_cap, (size_t)before + 1,
                      sizeof *s->rows, e)) {
            return false;
        }
        uint32_t series =
            index_series(&s->index, x->batch->series[row], x->batch->fingerprints[row], e);
        if (series == MAP_NONE) return false;
        atomic_fetch_add_explicit(&s->head->series, s->index.series_count - before,
                                  memory_order_relaxed);
        x->series[row] = series + 1;
    }
    *out = x->series[row] - 1;
    return true;
}

static uint32_t stack_of(struct stager *x, uint32_t stack, err *e)
{
    if (!x->numbers) return mapper_stack(&x->mapper, stack, e);
    uint32_t number = stack ? numbers_get(x->numbers, LOG_STACKS, stack) : 1;
    if (number) return number - 1;
    (void)err_set(e, ERR_DATA_LOSS, "the log does not have its stack %u", stack);
    return MAP_NONE;
}

// Notes which stacks the log may lack.
static bool note_unmarked(struct stager *x, size_t n, err *e)
{
    struct staged *out = x->out;
    const struct marks *m = &x->service->marks;
    for (size_t i = 0; i < n; i++) {
        uint32_t stack = x->entries[i].stack;
        if (stack == 0 || marks_have(m, LOG_STACKS, stack)) continue;
        if (!arena_grow(x->arena, &out->unmarked, &out->unmarked_cap, out->unmarked_n + 1,
                        sizeof *out->unmarked)) {
            return arena_ok(x->arena, e);
        }
        out->unmarked[out->unmarked_n++] = stack;
    }
    return true;
}

// The vector with the service's stack ids, in x->bytes.
static bool encode(struct stager *x, str vector, err *e)
{
    struct vector_reader r;
    size_t n = 0;
    if (!vector_open(&r, vector, e)) return false;
    if (!arena_grow(x->arena, &x->entries, &x->entry_cap, r.left, sizeof *x->entries)) {
        return arena_ok(x->arena, e);
    }
    while (n < x->entry_cap && vector_next(&r, &x->entries[n])) {
        uint32_t stack = stack_of(x, x->entries[n].stack, e);
        if (stack == MAP_NONE) return false;
        x->entries[n++].stack = stack;
    }
    if (!vector_done(&r, e) || !vector_normalise(x->entries, &n, e)) return false;
    if (!x->numbers && !note_unmarked(x, n, e)) return false;
    buf_clear(&x->bytes);
    vector_encode(x->entries, n, &x->bytes);
    return buf_ok(&x->bytes, e);
}

// A record's vector, or that of its sibling, with a reference for one row.
static bool payload_of(struct stager *x, uint32_t record, struct payload **out, err *e)
{
    const struct record *rec = &x->batch->records[record];
    if (rec->sibling != RECORD_NO_SIBLING) record = rec->sibling;
    if (x->payloads[record]) {
        x->payloads[record]->refs++;
    } else {
        x->firsts[record] = x->out->n;
        if (!encode(x, x->batch->records[record].vector, e)) return false;
        x->payloads[record] = payload_new(service_budget(x->service), buf_view(&x->bytes), e);
    }
    *out = x->payloads[record];
    return *out != NULL;
}

static bool spans_of(struct stager *x, const struct record *rec, struct row_spans **out, err *e)
{
    *out = NULL;
    if (rec->span_count == 0) return true;
    struct buf all;
    buf_init(&all, x->arena->budget, UINT32_MAX);
    uint32_t *ends = ARENA_ARRAY(x->arena, uint32_t, rec->span_count);
    bool ok = arena_ok(x->arena, e);
    for (uint32_t i = 0; ok && i < rec->span_count; i++) {
        ok = encode(x, rec->spans[i].vector, e);
        if (!ok) break;
        buf_str(&all, buf_view(&x->bytes));
        ends[i] = (uint32_t)all.n;
    }
    ok = ok && buf_ok(&all, e);
    if (ok) {
        *out = row_spans_new(service_budget(x->service), rec->span_count, (uint32_t)all.n, e);
        ok = *out != NULL;
    }
    for (uint32_t i = 0; ok && i < rec->span_count; i++) {
        struct row_span *to = &(*out)->v[i];
        uint32_t at = i ? ends[i - 1] : 0;
        *to = (struct row_span){.span_id = rec->spans[i].span_id,
                                .has_trace = rec->spans[i].has_trace,
                                .at = at,
                                .n = ends[i] - at};
        memcpy(to->trace_id, rec->spans[i].trace_id, sizeof to->trace_id);
    }
    if (ok && all.n) memcpy(row_spans_bytes(*out), all.p, all.n);
    buf_release(&all);
    return ok;
}

static bool notes_of(struct stager *x, const struct record *rec, struct row_notes **out, err *e)
{
    *out = NULL;
    if (rec->annotation_count == 0 && !rec->has_first_stream) return true;
    struct mem_budget *b = service_budget(x->service);
    *out = row_notes_new(b, rec->annotations, rec->annotation_count, e);
    if (!*out) return false;
    (*out)->has_first_stream = rec->has_first_stream;
    (*out)->first_stream = rec->first_stream;
    return true;
}

// ---- rows that are staged already

static bool has_row(const struct staged *s, uint32_t series, id128 id)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->rows[i].series == series && id128_eq(s->rows[i].row.id, id)) return true;
    }
    return false;
}

static bool is_own(const struct stager *x, uint32_t series, id128 id)
{
    for (const struct staged *s = x->service->staging; s; s = s->next) {
        if (s->owner == x->arena && has_row(s, series, id)) return true;
    }
    return false;
}

static void enter(struct service_head *s, struct staged *staged)
{
    for (uint32_t i = 0; i < staged->n; i++)
        (void)ids_put(&s->in_flight, staged->rows[i].series, staged->rows[i].row.id);
    staged->next = s->staging;
    s->staging = staged;
}

static void leave(struct service_head *s, struct staged *staged)
{
    struct staged **at = &s->staging;
    while (*at != staged)
        at = &(*at)->next;
    *at = staged->next;
    for (uint32_t i = 0; i < staged->n; i++)
        ids_remove(&s->in_flight, staged->rows[i].series, staged->rows[i].row.id);
}

static void turn(struct head *h)
{
    lock_take(&h->turns);
    h->turn++;
    cond_wake_all(&h->turned);
    lock_give(&h->turns);
}

uint64_t head_turn(struct head *h)
{
    lock_take(&h->turns);
    uint64_t turn = h->turn;
    lock_give(&h->turns);
    return turn;
}

bool head_await_turn(struct head *h, struct req *r, uint64_t turn, err *e)
{
    bool ok = true;
    lock_take(&h->turns);
    while (ok && h->turn == turn) {
        (void)cond_wait_until(&h->turned, &h->turns, clock_mono_ns() + (uint64_t)(100 * NS_PER_MS));
        ok = !r || req_alive(r, e);
    }
    lock_give(&h->turns);
    return ok;
}

// In a log a vector may have a factor without a sibling: that was known already, and is not there.
static int64_t factor_of(const struct stager *x, const struct record *rec)
{
    return rec->sibling == RECORD_NO_SIBLING && !x->numbers ? 1 : rec->factor;
}

// A loose row needs no placing: copies of it are looked for in any case.
static uint16_t placing_of(const struct stager *x, const struct record *rec)
{
    return rec->identified && rec->attempt == 0 ? x->placing : 0;
}

// Whether a deletion that the log has missed hides the record.
static bool is_filtered(struct stager *x, uint32_t series, const struct record *rec, bool *is,
                        err *e)
{
    struct head_filter *f = x->service->head->filter;
    const struct index *index = &x->service->index;
    const struct hide *v = NULL;
    size_t n = 0;
    *is = false;
    if (f) f->hides(f->arg, x->service->tenant, &v, &n);
    if (n == 0) return true;
    label *room = ARENA_ARRAY(x->arena, label, index->series[series].n + 1);
    if (!room) return arena_fail(x->arena, e);
    labels ls = index_labels(index, series, room);
    for (size_t i = 0; i < n && !*is; i++)
        if (hide_has_time(&v[i], rec->time_ns) && !hide_is_of(&v[i], ls, is, e)) return false;
    f->hidden += *is;
    return true;
}

static bool stage_record(struct stager *x, uint32_t i, err *e)
{
    const struct record *rec = &x->batch->records[i];
    struct mem_budget *b = service_budget(x->service);
    uint32_t series = 0;
    bool filtered = false;
    if (!series_of(x, rec->series, &series, e)) return false;
    if (!is_filtered(x, series, rec, &filtered, e)) return false;
    if (filtered) return true;
    bool staged = ids_has(&x->service->in_flight, series, rec->id);
    if (staged && !is_own(x, series, rec->id)) {
        return err_set(e, ERR_ABORTED, "another push is writing the same profile");
    }
    if (staged || head_knows(x->service, series, rec->id)) {
        x->out->duplicates++;
        return true;
    }
    x->out->unmarked_series |= !marks_have(&x->service->marks, LOG_SERIES, series);
    struct row row = {.time_ns = rec->time_ns,
                      .id = rec->id,
                      .total = rec->total,
                      .factor = factor_of(x, rec),
                      .duration_ns = rec->duration_ns,
                      .period = rec->period,
                      .attempt = (uint16_t)MIN(rec->attempt, UINT16_MAX),
                      .placing = placing_of(x, rec)};
    if (!x->numbers && !mapper_hour(&x->mapper, slot_of(rec->time_ns, SLOT_HOUR), e)) return false;
    if (!payload_of(x, i, &row.vector, e)) return false;
    if (!spans_of(x, rec, &row.spans, e) || !notes_of(x, rec, &row.notes, e)) {
        row_release(b, &row);
        return false;
    }
    uint32_t first = x->firsts[rec->sibling == RECORD_NO_SIBLING ? i : rec->sibling];
    x->out->rows[x->out->n++] = (struct staged_row){series, first, row};
    return true;
}

// ---- room

// How many of these series are not active any more.
static uint32_t forgive(struct service_head *s, const struct staged *staged, uint32_t n)
{
    uint32_t asleep = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct rows *rows = &s->rows[staged->rows[i].series];
        rows_forgive(rows, 1);
        asleep += !rows_is_active(rows);
    }
    return asleep;
}

// Room for the rows one by one; returns for how many there was. *woken: series that are active now.
static uint32_t promise_rows(struct service_head *s, const struct staged *staged, uint32_t *woken,
                             err *e)
{
    for (uint32_t i = 0; i < staged->n; i++) {
        struct rows *rows = &s->rows[staged->rows[i].series];
        bool active = rows_is_active(rows);
        if (!rows_promise(rows, service_budget(s), 1, e)) return i;
        *woken += !active;
    }
    return staged->n;
}

static bool promise_ids(struct service_head *s, const struct staged *staged, err *e)
{
    struct mem_budget *b = service_budget(s);
    if (!ids_promise(&s->ids, b, staged->n, e)) return false;
    if (ids_promise(&s->in_flight, b, staged->n, e)) return true;
    ids_forgive(&s->ids, staged->n);
    return false;
}

static bool promise(struct stager *x, err *e)
{
    struct service_head *s = x->service;
    uint32_t woken = 0;
    uint32_t done = promise_rows(s, x->out, &woken, e);
    bool ok = done == x->out->n;
    if (ok && !tenant_wake(s->owner, woken, x->terms.max_series, e)) {
        x->terms.refusal = HEAD_NO_SERIES;
        ok = false;
    } else if (ok && !promise_ids(s, x->out, e)) {
        tenant_sleep(s->owner, woken);
        ok = false;
    }
    if (!ok) (void)forgive(s, x->out, done);
    return ok;
}

// Looks before anything of the batch is in the tables, so that refused pushes do not fill these:
// would its series be too many? Only near the limit they are looked up.
static bool may_have_series(struct stager *x, err *e)
{
    const struct service_head *s = x->service;
    const struct batch *b = x->batch;
    uint64_t most = x->terms.max_series;
    uint64_t active = tenant_active(s->owner);
    uint64_t more = 0;
    if (most == 0 || active + b->series_count <= most) return true;
    for (uint32_t i = 0; i < b->series_count; i++) {
        uint32_t series = index_find(&s->index, b->series[i], b->fingerprints[i]);
        more += series == MAP_NONE || !rows_is_active(&s->rows[series]);
    }
    if (more == 0 || active + more <= most) return true;
    x->terms.refusal = HEAD_NO_SERIES;
    return tenant_refuse_series(s->owner, active + more, most, e);
}

static void release_rows(struct service_head *s, const struct staged *staged)
{
    for (uint32_t i = 0; i < staged->n; i++)
        row_release(service_budget(s), &staged->rows[i].row);
}

// ---- the steps

static bool stage(struct stager *x, err *e)
{
    uint32_t count = x->batch->record_count;
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) {
        ok = stage_record(x, i, e) || err_wrap(e, "record %u", i);
    }
    ok = ok && (x->numbers || marks_room(x->service, e));
    if (ok && promise(x, e)) {
        enter(x->service, x->out);
        return true;
    }
    release_rows(x->service, x->out);
    return false;
}

static bool stager_init(struct stager *x, struct arena *a, const struct batch *b, err *e)
{
    *x = (struct stager){.arena = a,
                         .batch = b,
                         .payloads = ARENA_ARRAY(a, struct payload *, b->record_count),
                         .firsts = ARENA_ARRAY(a, uint32_t, b->record_count),
                         .out = ARENA_NEW(a, struct staged)};
    if (x->out) x->out->rows = ARENA_ARRAY(a, struct staged_row, b->record_count);
    if (!x->out || !arena_ok(a, e)) return arena_ok(a, e);
    x->out->owner = a;
    buf_init(&x->bytes, a->budget, UINT32_MAX);
    buf_init(&x->out->logged, a->budget, SIZE_MAX);
    return true;
}

// With its lock for writing. While it was waited for, a copy may have taken the service's place.
static struct service_head *service_to_fill(struct head *h, str tenant, str service, err *e)
{
    for (;;) {
        struct service_head *s = head_service(h, tenant, service, e);
        if (!s) return NULL;
        pthread_rwlock_wrlock(&s->lock);
        if (service_current(s) == s) return s;
        pthread_rwlock_unlock(&s->lock);
        service_unref(s);
    }
}

static void tell_capped(struct head *h, const struct batch *b, uint64_t capped, uint64_t limit)
{
    char name[LOG_QUOTE_MAX];
    if (!capped) return;
    atomic_fetch_add_explicit(&h->capped, capped, memory_order_relaxed);
    log_warn(NULL, "stacks.capped", "service=%s stacks=%" PRIu64 " limit=%" PRIu64,
             log_quote(name, b->service), capped, limit);
}

// Gives back a service that has no use any more; without rows it leaves the table. `bare`: so it
// was when its lock was given up.
static void let_go(struct service_head *s, bool bare)
{
    if (bare) head_sweep(s->head, &s, 1);
    service_unref(s);
}

static bool is_bare(const struct service_head *s)
{
    return s->row_count == 0 && !s->staging;
}

// Where the request's own memory was short, the tenant's share is not to blame.
static enum head_refusal refusal_of(const struct stager *x, struct head *h, str tenant, err *e)
{
    err ignored = {0};
    bool no_room = e->code == ERR_RESOURCE_EXHAUSTED && x->terms.refusal == HEAD_NO_ROOM;
    if (!no_room || !arena_ok(x->arena, &ignored)) return x->terms.refusal;
    return tenant_blame_share(h, tenant, e) ? HEAD_NO_SHARE : HEAD_NO_ROOM;
}

bool head_stage(struct head *h, struct arena *a, str tenant, const struct batch *b,
                struct head_terms *terms, struct staged **out, err *e)
{
    struct stager x;
    struct head_terms none = {0};
    if (!terms) terms = &none;
    terms->refusal = HEAD_NO_ROOM;
    if (!stager_init(&x, a, b, e)) return false;
    x.terms = *terms;
    x.series = ARENA_ARRAY(a, uint32_t, b->series_count);
    if (!x.series) return arena_ok(a, e);
    x.service = service_to_fill(h, tenant, b->service, e);
    if (!x.service) {
        terms->refusal = refusal_of(&x, h, tenant, e);
        return false;
    }
    tenant_lend(x.service->owner, x.terms.share);
    x.out->service = x.service;
    x.out->run = x.service->marks.run;
    x.placing = head_placing_number(h, b->placing);
    bool ok = may_have_series(&x, e) &&
              mapper_init(&x.mapper, x.service, a, b, x.terms.max_stacks, e) && stage(&x, e);
    mapper_release(&x.mapper);
    bool bare = is_bare(x.service);
    pthread_rwlock_unlock(&x.service->lock);
    buf_release(&x.bytes);
    tell_capped(h, b, x.mapper.capped, x.terms.max_stacks);
    if (ok) {
        *out = x.out;
        return true;
    }
    terms->refusal = refusal_of(&x, h, tenant, e);
    let_go(x.service, bare);
    return err_wrap(e, "service %.*s", STR(b->service));
}

bool head_stage_logged(struct service_head *s, struct arena *a, const struct batch *b,
                       const struct numbers *numbers, struct staged **out, err *e)
{
    struct stager x;
    assert(numbers);
    if (!stager_init(&x, a, b, e)) return false;
    x.service = s;
    x.numbers = numbers;
    x.placing = head_placing_number(s->head, b->placing);
    x.out->service = s;
    bool ok = stage(&x, e);
    buf_release(&x.bytes);
    if (!ok) return false;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    *out = x.out;
    return true;
}

uint32_t staged_rows(const struct staged *s)
{
    return s->n;
}

void head_publish(struct staged *s, struct cut *cut)
{
    struct service_head *service = s->service;
    struct head *h = service->head;
    uint32_t added = 0;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = INT64_MIN;
    pthread_rwlock_wrlock(&service->lock);
    leave(service, s);
    service->turn++;
    for (uint32_t i = 0; i < s->n; i++) {
        struct rows *rows = &service->rows[s->rows[i].series];
        struct row row = s->rows[i].row;
        row.cut = cut;
        row.turn = service->turn;
        if (ids_put(&service->ids, s->rows[i].series, row.id)) {
            cut_note(cut, row.time_ns);
            first_ns = MIN(first_ns, row.time_ns);
            last_ns = MAX(last_ns, row.time_ns);
            service_note_row(service, &row);
            if (service->renewal) {
                rows_add(rows, row);
                renewal_note(service->renewal, s->rows[i].series);
            } else {
                rows_put(rows, row);
            }
            added++;
        } else {  // the batch has it twice
            rows_forgive(rows, 1);
            if (!rows_is_active(rows)) tenant_sleep(service->owner, 1);
            row_release(service_budget(service), &row);
        }
    }
    service->row_count += added;
    if (added) service_note_cut(service, cut, first_ns, last_ns);
    pthread_rwlock_unlock(&service->lock);
    atomic_fetch_add_explicit(&h->rows, added, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->duplicates, s->duplicates + (s->n - added), memory_order_relaxed);
    service_unref(service);
    s->service = NULL;
    buf_release(&s->logged);
    turn(h);
}

void head_abandon(struct staged *s)
{
    struct service_head *service = s->service;
    struct head *h = service->head;
    pthread_rwlock_wrlock(&service->lock);
    leave(service, s);
    tenant_sleep(service->owner, forgive(service, s, s->n));
    ids_forgive(&service->ids, s->n);
    release_rows(service, s);
    bool bare = is_bare(service);
    pthread_rwlock_unlock(&service->lock);
    let_go(service, bare);
    s->service = NULL;
    buf_release(&s->logged);
    turn(h);
}
