// SPDX-License-Identifier: Apache-2.0
//
// head_compact.c - replaces a service whose symbols and series are mostly unused by a compact copy.
//
// Tables of a service only grow while rows come. After a drop they may be mostly unused. Then a new
// service is made beside it, with only the symbols and series that rows still refer to, and takes
// its place. Queries and pushes go on all the while:
//
//     1. From now on rows keep their places (service.renewal, rows_add), and each push notes the
//        series that it gives rows to.
//     2. All series are copied, HEAD_RUN rows at a time under the service's lock for reading; then
//        the series that got rows meanwhile; and so on.
//     3. Once a look under the lock for writing finds that everything is copied and nothing is
//        staged, the copy becomes the service's successor, which takes a few steps.
//
// Readers that are in the former service go on in it: no number that they know changes. It is freed
// when they have left (head_tidy).
//
// The copy is given up, and tried again after a later drop, if there is no memory for it, if a log
// is being read into the service, or if each of a hundred looks finds staged rows: these hold
// numbers of the former tables.
#include "base/fault.h"
#include "ingester/head/head_stacks.h"
#include "model/vector.h"
#include "sys/clock.h"

#include <time.h>

#define STACKS_MIN 256
#define SERIES_MIN 64

// So many bytes of vectors count as a row in the length of a run.
#define BYTES_A_ROW 64

// Looks for a moment in which nothing is staged, a millisecond apart. Rows are staged while their
// group commit syncs, which takes a few milliseconds.
#define SWAP_TRIES 100
#define SWAP_NS    1000000

// How far a series is copied.
struct copied {
    size_t n;     // rows of v that are copied
    size_t late;  // late rows that are
    uint32_t to;  // its number in the copy + 1; 0: it had no rows
};

struct copy {
    struct service_head *from;
    struct service_head *to;
    struct renewal renewal;
    struct arena arena;
    struct symbols_remap remap;
    struct symbol_counts room;  // of the remap's arrays
    struct copied *series;
    size_t series_cap;
    struct payload **shared;  // copies of vectors that several rows share
    size_t shared_n;
    size_t shared_cap;
    struct vector_entry *entries;
    size_t entry_cap;
    uint32_t *ends;  // of the vectors of a row's spans
    size_t ends_cap;
    struct buf bytes;
    struct label_room labels;
    size_t left;    // of the run
    uint32_t wide;  // a series of the copy + 1 that needs room, and for how many rows
    size_t wide_n;
    size_t wide_late;
    err fault;
};

// ---- is it worth while?

// A cheap guess, before the stacks in use are counted: they may be mostly unused if they are twice
// as many as were in use at the last count, or if three quarters of the rows of then have gone.
// Without the second rule the table would stay large after a burst.
static bool wants_stacks(const struct service_head *s)
{
    uint32_t count = s->symbols.t.stack_count;
    if (count > 2 * (uint64_t)s->live_stacks + STACKS_MIN) return true;
    return count > STACKS_MIN && s->row_count < s->live_rows / 4;
}

static bool wants_series(uint32_t series, uint32_t live)
{
    return series > 2 * (uint64_t)live + SERIES_MIN;
}

struct marking {
    bool *used;
    uint32_t n;
    uint32_t live;
    uint32_t live_series;
    uint32_t series;  // to go on with
    size_t row;       // of it
    size_t left;      // of the run
};

// Stacks that came after the array was made (at >= m->n) are in use, and few; they are not counted.
static void mark(struct marking *m, const struct symbol_table *t, str vector)
{
    struct vector_reader r;
    struct vector_entry v;
    err e = {0};
    bool ok = vector_open(&r, vector, &e);
    while (ok && vector_next(&r, &v)) {
        for (uint32_t at = v.stack; at != 0 && at < m->n && !m->used[at];
             at = t->stacks[at].parent) {
            m->used[at] = true;
            m->live++;
        }
    }
    assert(ok && vector_done(&r, &e));  // staging wrote it
    m->left -= MIN(m->left, vector.n / BYTES_A_ROW);
}

static void mark_row(struct marking *m, const struct symbol_table *t, const struct row *row)
{
    if (m->left > 0) m->left--;
    mark(m, t, payload_view(row->vector));
    for (uint32_t i = 0; row->spans && i < row->spans->count; i++)
        mark(m, t, row_span_vector(row->spans, i));
}

// False: there is more. Going to the next series costs as much as a row. Rows may move between two
// runs and be missed or met twice: the count is an estimate, and nothing is removed because of it.
static bool mark_run(struct marking *m, const struct service_head *s)
{
    for (; m->series < s->index.series_count && m->left > 0; m->series++, m->row = 0) {
        const struct rows *r = &s->rows[m->series];
        size_t n = r->n + r->late_n;
        m->left--;
        for (; m->used && m->row < n && m->left > 0; m->row++)
            mark_row(m, &s->symbols.t, m->row < r->n ? &r->v[m->row] : &r->late[m->row - r->n]);
        if (m->used && m->row < n) return false;
        m->live_series += n > 0;
    }
    return m->series >= s->index.series_count;
}

static void mark_all(struct marking *m, struct service_head *s)
{
    bool done = false;
    while (!done) {
        m->left = HEAD_RUN;
        pthread_rwlock_rdlock(&s->lock);
        uint64_t began = clock_thread_ns();
        done = mark_run(m, s);
        pthread_rwlock_unlock(&s->lock);
        head_note_run(s->head, HEAD_RUN - m->left, began);
    }
}

static bool is_worth_it(struct service_head *s, uint32_t *stacks_left)
{
    struct arena a;
    struct marking m = {0};
    pthread_rwlock_rdlock(&s->lock);
    bool may = s->row_count > 0 && s->readers == 0;
    bool stacks = wants_stacks(s);
    bool series = wants_series(s->index.series_count, 0);
    m.n = s->symbols.t.stack_count;
    pthread_rwlock_unlock(&s->lock);
    if (!may || (!stacks && !series)) return false;
    arena_init(&a, service_budget(s), SIZE_MAX);
    if (stacks) m.used = ARENA_ARRAY(&a, bool, m.n);
    mark_all(&m, s);
    stacks = m.used && m.live <= m.n / 2;
    pthread_rwlock_rdlock(&s->lock);
    // Noted even if it is not worth it, so that the next count comes only after the table doubled.
    // The lock for reading is enough: head.removing keeps other compactions out.
    if (m.used) {
        s->live_stacks = m.live;
        s->live_rows = s->row_count;
    }
    series = wants_series(s->index.series_count, m.live_series);
    pthread_rwlock_unlock(&s->lock);
    arena_release(&a);
    *stacks_left = m.used ? m.live : m.n;
    return stacks || series;
}

// ---- a row

// Above 15/16 of the tightest limit no copy is made, so that pushes find room meanwhile.
static bool has_memory(const struct service_head *s)
{
    const struct mem_budget *b = mem_tightest(service_budget(s));
    if (!b) return true;
    size_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
    return atomic_load_explicit(&b->used, memory_order_relaxed) <= limit - limit / 16;
}

// Writes the vector with the copy's stacks to c->bytes.
static bool copy_vector(struct copy *c, str vector)
{
    struct vector_reader r;
    size_t n = 0;
    c->left -= MIN(c->left, vector.n / BYTES_A_ROW);
    if (!vector_open(&r, vector, &c->fault) ||
        !mem_grow_bare(service_budget(c->from), &c->entries, &c->entry_cap, r.left,
                       sizeof *c->entries, &c->fault)) {
        return false;
    }
    while (n < c->entry_cap && vector_next(&r, &c->entries[n])) {
        uint32_t stack = symbols_remap_stack(&c->remap, c->entries[n].stack, &c->fault);
        if (stack == MAP_NONE) return false;
        c->entries[n++].stack = stack;
    }
    if (!vector_done(&r, &c->fault) || !vector_normalise(c->entries, &n, &c->fault)) return false;
    buf_clear(&c->bytes);
    vector_encode(c->entries, n, &c->bytes);
    return buf_ok(&c->bytes, &c->fault);
}

// Rows that share a vector share its copy. `pass` and `place` of the former are changed under the
// lock for reading: only a compaction looks at them, and head.removing admits one.
static struct payload *copy_payload(struct copy *c, struct payload *p)
{
    struct mem_budget *b = service_budget(c->from);
    bool shared = p->refs > 1;
    if (shared && p->pass == c->from->pass) {
        assert(p->place < c->shared_n);
        struct payload *known = c->shared[p->place];
        known->refs++;
        return known;
    }
    if (shared && !mem_grow_bare(b, &c->shared, &c->shared_cap, c->shared_n + 1,
                                 sizeof(struct payload *), &c->fault)) {
        return NULL;
    }
    if (!copy_vector(c, payload_view(p))) return NULL;
    struct payload *copy = payload_new(b, buf_view(&c->bytes), &c->fault);
    if (!copy || !shared) return copy;
    p->pass = c->from->pass;
    p->place = (uint32_t)c->shared_n;
    c->shared[c->shared_n++] = copy;
    return copy;
}

static bool copy_spans(struct copy *c, const struct row_spans *from, struct row_spans **out)
{
    struct buf all;
    struct mem_budget *b = service_budget(c->from);
    buf_init(&all, b, UINT32_MAX);
    bool ok = mem_grow_bare(b, &c->ends, &c->ends_cap, from->count, sizeof *c->ends, &c->fault);
    for (uint32_t i = 0; ok && i < from->count; i++) {
        ok = copy_vector(c, row_span_vector(from, i));
        if (!ok) break;
        buf_str(&all, buf_view(&c->bytes));
        c->ends[i] = (uint32_t)all.n;
    }
    ok = ok && buf_ok(&all, &c->fault);
    if (ok) {
        *out = row_spans_new(b, from->count, (uint32_t)all.n, &c->fault);
        ok = *out != NULL;
    }
    for (uint32_t i = 0; ok && i < from->count; i++) {
        uint32_t at = i ? c->ends[i - 1] : 0;
        (*out)->v[i] = from->v[i];
        (*out)->v[i].at = at;
        (*out)->v[i].n = c->ends[i] - at;
    }
    if (ok && all.n) memcpy(row_spans_bytes(*out), all.p, all.n);
    buf_release(&all);
    return ok;
}

// A row of the copy's series.
static bool copy_row(struct copy *c, uint32_t series, const struct row *from)
{
    struct service_head *to = c->to;
    struct mem_budget *b = service_budget(to);
    struct row row = *from;
    row.spans = NULL;
    row.notes = NULL;
    if (c->left > 0) c->left--;
    row.vector = copy_payload(c, from->vector);
    bool ok = row.vector && (!from->spans || copy_spans(c, from->spans, &row.spans));
    if (ok && from->notes) ok = (row.notes = row_notes_copy(b, from->notes, &c->fault)) != NULL;
    ok = ok && rows_promise(&to->rows[series], b, 1, &c->fault);
    if (ok && !ids_promise(&to->ids, b, 1, &c->fault)) {
        rows_forgive(&to->rows[series], 1);
        ok = false;
    }
    if (!ok) {
        row_release(b, &row);
        return false;
    }
    bool new = ids_put(&to->ids, series, row.id);  // ids of a series are distinct
    assert(new);
    (void)new;
    rows_add(&to->rows[series], row);
    to->row_count++;
    return true;
}

// ---- series, with the lock of the former service

static bool add_series(struct copy *c, uint32_t series)
{
    struct service_head *to = c->to;
    labels ls;
    if (!mem_grow(service_budget(to), &to->rows, &to->rows_cap, (size_t)to->index.series_count + 1,
                  sizeof *to->rows, &c->fault) ||
        !walk_labels(&c->labels, c->from, series, NULL, 0, &ls, &c->fault)) {
        return false;
    }
    uint64_t fingerprint = c->from->index.series[series].fingerprint;
    uint32_t number = index_series(&to->index, ls, fingerprint, &c->fault);
    if (number == MAP_NONE) return false;
    c->series[series].to = number + 1;
    return true;
}

// A large allocation may take long, so it is not made under the lock: false if one is needed first.
// Then make_room makes it between two runs.
static bool has_room(struct copy *c, const struct rows *from, const struct copied *at)
{
    const struct rows *to = &c->to->rows[at->to - 1];
    size_t n = from->n - at->n;
    size_t late = from->late_n - at->late;
    if (n + late < HEAD_RUN / 8) return true;
    if (to->cap >= to->n + to->late_n + n + late && to->late_cap >= to->late_n + late) return true;
    c->wide = at->to;
    c->wide_n = n;
    c->wide_late = late;
    return false;
}

static bool make_room(struct copy *c)
{
    uint32_t series = c->wide;
    c->wide = 0;
    return series == 0 || rows_reserve(&c->to->rows[series - 1], service_budget(c->to),
                                       c->wide_n + HEAD_RUN, c->wide_late + HEAD_RUN, &c->fault);
}

// Copies as many of its rows as the run has left.
static bool copy_series(struct copy *c, uint32_t series, bool *done)
{
    const struct rows *r = &c->from->rows[series];
    struct copied *at = &c->series[series];
    *done = false;
    assert(!r->gap && at->n <= r->n && at->late <= r->late_n);  // rows keep their places
    bool ok = at->to || rows_count(r) == 0 || add_series(c, series);
    if (ok && at->to && !has_room(c, r, at)) return true;
    for (; ok && at->n < r->n && c->left > 0; at->n += ok)
        ok = copy_row(c, at->to - 1, &r->v[at->n]);
    for (; ok && at->late < r->late_n && c->left > 0; at->late += ok)
        ok = copy_row(c, at->to - 1, &r->late[at->late]);
    *done = at->n == r->n && at->late == r->late_n;
    return ok;
}

// ---- rounds

// Makes room for the tables of the former service as they are now, and some to spare: without its
// lock they may have grown by the next look.
static bool widen(struct copy *c, const struct symbol_counts *have, uint32_t series)
{
    struct arena *a = &c->arena;
    struct symbols_remap *m = &c->remap;
    struct {
        uint32_t **v;
        uint32_t *cap;
        uint32_t need;
    } all[] = {{&m->strings, &c->room.strings, have->strings},
               {&m->functions, &c->room.functions, have->functions},
               {&m->mappings, &c->room.mappings, have->mappings},
               {&m->frames, &c->room.frames, have->frames},
               {&m->stacks, &c->room.stacks, have->stacks}};
    for (size_t i = 0; i < COUNT(all); i++) {
        size_t cap = *all[i].cap;
        if (all[i].need <= cap) continue;
        if (!arena_grow(a, all[i].v, &cap, (size_t)all[i].need + HEAD_RUN, sizeof(uint32_t)))
            return arena_fail(a, &c->fault);
        *all[i].cap = (uint32_t)MIN(cap, UINT32_MAX);
    }
    return mem_grow(service_budget(c->from), &c->series, &c->series_cap, (size_t)series + HEAD_RUN,
                    sizeof *c->series, &c->fault);
}

// Takes the lock for reading, once there is room for all that the tables have.
static bool enter(struct copy *c, uint64_t *began)
{
    struct service_head *s = c->from;
    for (;;) {
        if (!has_memory(s)) return err_set(&c->fault, ERR_RESOURCE_EXHAUSTED, "little memory");
        pthread_rwlock_rdlock(&s->lock);
        *began = clock_thread_ns();
        struct symbol_counts have = symbols_counts(&s->symbols.t);
        uint32_t series = s->index.series_count;
        if (have.strings <= c->room.strings && have.functions <= c->room.functions &&
            have.mappings <= c->room.mappings && have.frames <= c->room.frames &&
            have.stacks <= c->room.stacks && series <= c->series_cap) {
            c->left = HEAD_RUN;
            return true;
        }
        pthread_rwlock_unlock(&s->lock);
        if (!widen(c, &have, series)) return false;
    }
}

static void leave(struct copy *c, uint64_t began)
{
    pthread_rwlock_unlock(&c->from->lock);
    head_note_run(c->from->head, HEAD_RUN - c->left, began);
}

// The series of a round: those that got rows since the last one, or all.
struct round {
    bool all;
    uint32_t n;
    uint32_t series[HEAD_RUN];
};

// With the lock for reading, which is enough: pushes note series under the lock for writing.
static void round_begin(struct copy *c, struct round *r)
{
    struct renewal *noted = &c->renewal;
    r->all |= noted->more;
    r->n = r->all ? c->from->index.series_count : noted->n;
    if (!r->all) memcpy(r->series, noted->series, noted->n * sizeof *noted->series);
    noted->n = 0;
    noted->more = false;
}

// One round; *nothing says that there was nothing to copy.
static bool copy_round(struct copy *c, bool all, bool *nothing)
{
    struct round r = {.all = all};
    uint64_t began = 0;
    uint32_t at = 0;
    bool begun = false;
    bool ok = true;
    do {
        if (!enter(c, &began)) return false;
        if (!begun) round_begin(c, &r);
        begun = true;
        for (bool done = true; ok && done && at < r.n && c->left > 0; at += done) {
            c->left--;
            ok = copy_series(c, r.all ? at : r.series[at], &done);
        }
        leave(c, began);
        ok = ok && make_room(c);
    } while (ok && at < r.n);
    *nothing = r.n == 0;
    return ok;
}

// ---- the copy takes its place

// With the lock for writing. The reference that the copy was made with becomes that of the link
// `successor`, which counts as listed.
static void succeed(struct copy *c)
{
    struct service_head *from = c->from;
    struct service_head *to = c->to;
    assert(from->row_count == to->row_count);
    assert(!atomic_load_explicit(&from->successor, memory_order_relaxed));
    to->turn = from->turn;
    to->has_loose = from->has_loose;
    to->placing = from->placing;
    to->mixed = from->mixed;
    to->noted = from->noted;
    to->live_stacks = to->symbols.t.stack_count - 1;
    to->live_rows = to->row_count;
    from->renewal = NULL;
    atomic_fetch_add_explicit(&to->head->series, to->index.series_count, memory_order_relaxed);
    atomic_fetch_sub_explicit(&to->head->series, from->index.series_count, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->listed, 1, memory_order_relaxed);
    atomic_store_explicit(&from->successor, to, memory_order_release);
}

static bool try_to_succeed(struct copy *c)
{
    struct service_head *s = c->from;
    service_lock_politely(s);
    uint64_t began = clock_thread_ns();
    bool ok = !s->staging && s->ids.promised == 0 && s->readers == 0 && c->renewal.n == 0 &&
              !c->renewal.more;
    if (ok) succeed(c);
    pthread_rwlock_unlock(&s->lock);
    head_note_run(s->head, 1, began);
    return ok;
}

static bool copy_all(struct copy *c)
{
    const struct timespec pause = {.tv_nsec = SWAP_NS};
    bool nothing = false;
    bool ok = copy_round(c, true, &nothing);
    for (unsigned i = 0; ok && i < SWAP_TRIES; i++) {
        do {
            ok = copy_round(c, false, &nothing);
        } while (ok && !nothing);
        FAULT("head.compact");
        if (ok && try_to_succeed(c)) return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

// Asks for most of the memory in advance and touches it, so that later, under the lock, tables do
// not grow in large steps.
static bool reserve(struct copy *c, uint32_t stacks)
{
    struct service_head *s = c->from;
    struct ids *ids = &c->to->ids;
    pthread_rwlock_rdlock(&s->lock);
    size_t rows = s->row_count + MIN(s->row_count / 8, HEAD_RUN);
    struct symbol_counts have = symbols_counts(&s->symbols.t);
    pthread_rwlock_unlock(&s->lock);
    struct symbols_room room = {.strings = MIN(have.strings, stacks),
                                .functions = MIN(have.functions, stacks),
                                .mappings = MIN(have.mappings, stacks),
                                .frames = MIN(have.frames, stacks),
                                .stacks = stacks};
    if (!ids_promise(ids, service_budget(s), rows, &c->fault)) return false;
    ids_forgive(ids, rows);
    mem_touch(ids->slots, ids->size * sizeof *ids->slots);
    return symbols_reserve(&c->to->symbols, &room, &c->fault);
}

static bool copy_begin(struct copy *c, uint32_t stacks)
{
    struct service_head *s = c->from;
    buf_init(&c->bytes, service_budget(s), UINT32_MAX);
    arena_init(&c->arena, service_budget(s), SIZE_MAX);
    c->labels.arena = &c->arena;
    c->to = service_like(s, &c->fault);
    if (!c->to) return false;
    if (!reserve(c, stacks)) {
        service_discard(c->to);
        return false;
    }
    c->remap = (struct symbols_remap){.from = &s->symbols.t, .to = &c->to->symbols};
    pthread_rwlock_wrlock(&s->lock);
    s->pass++;
    s->renewal = &c->renewal;
    pthread_rwlock_unlock(&s->lock);
    return true;
}

static void copy_end(struct copy *c)
{
    struct mem_budget *b = service_budget(c->from);
    mem_free(b, c->series, c->series_cap * sizeof *c->series);
    mem_free(b, c->shared, c->shared_cap * sizeof(struct payload *));
    mem_free(b, c->entries, c->entry_cap * sizeof *c->entries);
    mem_free(b, c->ends, c->ends_cap * sizeof *c->ends);
    buf_release(&c->bytes);
    arena_release(&c->arena);
}

void service_compact(struct service_head *s)
{
    struct copy c = {.from = s};
    uint32_t stacks = 0;
    if (!is_worth_it(s, &stacks)) return;
    if (copy_begin(&c, stacks)) {
        if (copy_all(&c)) {
            head_retire(s->head, s);
        } else {
            pthread_rwlock_wrlock(&s->lock);
            s->renewal = NULL;
            pthread_rwlock_unlock(&s->lock);
            service_discard(c.to);
        }
    }
    copy_end(&c);
    head_tidy(s->head);
}
