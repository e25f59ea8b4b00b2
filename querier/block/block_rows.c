// SPDX-License-Identifier: Apache-2.0
//
// Rows of a wave, for all wants that need them:
//
//     scan      rows of a key within a time range, as a want asks
//     job       a frame of row heads that scans of its unit touch, with the frame of details and of
//               spans that belong to it. Blooms rule out jobs whose frame cannot have the spans
//     chunk     some jobs that are read and parsed together: 8 MB and 32,768 rows at most
//     hit       a row that counts: within a scan, not skipped, with an id that is asked for
//     pending   a hit whose vector has to be read too; sorted by frame at the end of the chunk, so
//               that each frame of vectors is read and unpacked once
#include "base/search.h"
#include "querier/block/block_int.h"
#include "querier/metrics.h"

#include <stdlib.h>

// So much is read and unpacked at a time: memory of a query does not follow its range.
#define CHUNK_BYTES ((uint64_t)8 << 20)
#define CHUNK_GETS  512u
#define CHUNK_ROWS  ((uint64_t)32768)

// A run of rows whose heads, and what else is wanted of them, are read together.
struct job {
    struct block_unit *unit;
    uint32_t frame;  // of heads and details
    uint32_t span;   // of spans, MAP_NONE: no row of it has some
    size_t heads;    // gets
    size_t details;
    size_t spans;
    const struct block_scan *scans;  // of the unit
    size_t scan_count;
};

// A row whose vector is still to be read.
struct pending {
    struct block_hit hit;
    uint32_t frame;
    uint32_t place;
};

struct reading {
    struct block_walk *w;
    const struct block_rows *want;
    struct arena arena;  // of the chunk
    struct job *jobs;
    size_t job_count;
    size_t job_cap;
    struct pending *pending;
    size_t pending_count;
    size_t pending_cap;
};

bool block_add_scan(struct block_walk *w, struct block_scans *s, struct block_scan scan, err *e)
{
    assert(scan.unit && scan.unit->index && scan.key < scan.unit->index->key_count);
    if (!arena_grow(&w->wave, &s->v, &s->cap, s->n + 1, sizeof *s->v)) return block_no_room(w, e);
    s->v[s->n++] = scan;
    return true;
}

bool block_scan_unit(struct block_walk *w, struct block_unit *u, const struct level_piece *p,
                     bool with_sampled, struct block_scans *s, err *e)
{
    if (!block_select_keys(w, u, e)) return false;
    for (uint32_t i = 0; i < u->index->key_count; i++) {
        const struct block_key_ref *k = &u->index->keys[i];
        if (k->row_count == 0 || !block_is_meant(w, u, i, BLOCK_SERIES)) continue;
        if (k->sampled && !with_sampled) continue;
        struct block_scan scan = {.unit = u, .key = i, .from_ns = p->from_ns, .to_ns = p->to_ns};
        if (!block_add_scan(w, s, scan, e)) return false;
    }
    return true;
}

// ---- frames that scans touch

static int by_unit_and_key(const void *a, const void *b)
{
    const struct block_scan *x = a;
    const struct block_scan *y = b;
    if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static bool overlaps(const struct block_frame *f, const struct block_key_ref *k,
                     const struct block_scan *s)
{
    return k->first_row < f->first + f->count && f->first < k->first_row + k->row_count &&
           f->first_ns <= s->to_ns && f->last_ns > s->from_ns;
}

// How many rows a scan has at most: those of its key in the frames that it touches.
static uint64_t rows_of(const struct block_scan *s)
{
    const struct block_index *x = s->unit->index;
    const struct block_key_ref *k = &x->keys[s->key];
    uint64_t rows = 0;
    for (uint32_t i = 0; i < x->heads.n; i++) {
        const struct block_frame *f = &x->heads.v[i];
        if (!overlaps(f, k, s)) continue;
        rows += MIN(k->first_row + k->row_count, f->first + f->count) - MAX(k->first_row, f->first);
    }
    return rows;
}

// What so many rows have of these frames, stored and inflated. An estimate: all rows of a block are
// taken for equally long.
static uint64_t share_of(const struct block_frames *frames, uint64_t rows)
{
    uint64_t all = 0;
    uint64_t count = 0;
    for (uint32_t k = 0; k < frames->n; k++) {
        all += frames->v[k].extent.stored + frames->v[k].extent.raw;
        count += frames->v[k].count;
    }
    return count ? (uint64_t)((double)all * (double)rows / (double)count) : 0;
}

uint64_t block_weigh_rows(const struct block_scan *v, size_t n, const struct block_rows *want)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct block_index *x = v[i].unit->index;
        uint64_t rows = rows_of(&v[i]);
        if (want->vectors) bytes += share_of(&x->vectors, rows);
        if (want->details) bytes += share_of(&x->heads, rows) + share_of(&x->details, rows);
        if (want->spans) bytes += share_of(&x->spans, rows);
    }
    return bytes;
}

// Do blooms allow that the frame has a span and a trace that are asked for? They may be wrong in
// saying so, never in denying it.
static bool may_have(const struct query_tree *t, const struct block_blooms *b, uint32_t frame)
{
    bool span = t->span_count == 0;
    bool trace = t->trace_count == 0;
    for (size_t i = 0; i < t->span_count && !span; i++)
        span = block_bloom_may_have_span(b, frame, t->spans[i]);
    for (size_t i = 0; i < t->trace_count && !trace; i++)
        trace = block_bloom_may_have_trace(b, frame, t->traces[i]);
    return span && trace;
}

static uint32_t span_frame(const struct block_index *x, const struct block_frame *heads)
{
    const struct block_frame *f = block_frame_of(&x->spans, heads->first);
    return f ? (uint32_t)(f - x->spans.v) : MAP_NONE;
}

static bool add_job(struct reading *r, struct job job, const struct block_blooms *blooms, err *e)
{
    const struct block_index *x = job.unit->index;
    assert(job.frame < x->heads.n);
    job.span = r->want->spans ? span_frame(x, &x->heads.v[job.frame]) : MAP_NONE;
    if (r->want->only_spans &&
        (job.span == MAP_NONE || (blooms && !may_have(&r->w->ask.q->tree, blooms, job.span)))) {
        return true;
    }
    if (!arena_grow(&r->w->wave, &r->jobs, &r->job_cap, r->job_count + 1, sizeof *r->jobs)) {
        return block_no_room(r->w, e);
    }
    r->jobs[r->job_count++] = job;
    return true;
}

static bool read_blooms(struct reading *r, struct block_unit *u, const struct block_blooms **out,
                        err *e)
{
    const struct block_extent *x = &u->index->blooms;
    struct block_get get = {.object = u->object->object, .at = x->at, .n = x->stored};
    struct block_io io = {0};
    err why = {0};
    str bytes;
    *out = NULL;
    if (!r->want->only_spans || x->stored == 0) return true;
    bool ok = block_fetch(r->w, &io, &get, 1, e);
    // Parsed blooms borrow their bytes if the section is not packed, and io goes before them: the
    // wave gets a copy.
    if (ok && !get.why) {
        get.bytes = arena_str(&r->w->wave, get.bytes);
        if (r->w->wave.exhausted) ok = block_no_room(r->w, e);
    }
    if (ok && !(block_contents(r->w, &r->w->wave, x, &get, "blooms", &bytes, &why) &&
                block_blooms_parse(&r->w->wave, bytes, u->index->spans.n, out, &why))) {
        ok = block_note(r->w, u->object, &why, e);
    }
    block_io_release(r->w, &io);
    return ok;
}

static bool add_unit(struct reading *r, const struct block_scan *v, size_t n, err *e)
{
    struct block_unit *u = v->unit;
    const struct block_index *x = u->index;
    const struct block_blooms *blooms = NULL;
    assert(n > 0 && x);
    if (u->object->faulty) return true;
    if (!read_blooms(r, u, &blooms, e)) return false;
    for (uint32_t f = 0; f < x->heads.n && !u->object->faulty; f++) {
        bool any = false;
        for (size_t i = 0; i < n && !any; i++)
            any = overlaps(&x->heads.v[f], &x->keys[v[i].key], &v[i]);
        struct job job = {.unit = u, .frame = f, .scans = v, .scan_count = n};
        if (any && !add_job(r, job, blooms, e)) return false;
    }
    return true;
}

// ---- vectors

static int by_frame(const void *a, const void *b)
{
    const struct pending *x = a;
    const struct pending *y = b;
    if (x->hit.unit != y->hit.unit) return x->hit.unit < y->hit.unit ? -1 : 1;
    if (x->frame != y->frame) return x->frame < y->frame ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static bool same_frame(const struct pending *a, const struct pending *b)
{
    return a->hit.unit == b->hit.unit && a->frame == b->frame;
}

// Hands the pending rows of one frame of vectors to the want. The unpacked frame goes right after.
static bool use_frame(struct reading *r, const struct pending *v, size_t n,
                      const struct block_get *got, err *e)
{
    struct block_unit *u = v->hit.unit;
    const struct block_frame *f = &u->index->vectors.v[v->frame];
    struct block_vectors vectors;
    struct arena a;
    str bytes;
    err why = {0};
    if (u->object->faulty) return true;
    arena_init(&a, &r->w->m->memory, SIZE_MAX);
    bool ok = block_contents(r->w, &a, &f->extent, got, "vectors of rows", &bytes, &why) &&
              block_vectors_parse(&a, bytes, f->count, &vectors, &why);
    for (size_t i = 0; ok && i < n; i++)
        ok = r->want->fn(r->want->arg, &v[i].hit, block_vector_at(&vectors, v[i].place), &why);
    arena_release(&a);
    return ok || block_note(r->w, u->object, &why, e);
}

static bool use_frames(struct reading *r, const struct pending *v, size_t n, struct block_get *gets,
                       size_t get_count, err *e)
{
    struct block_io io = {0};
    bool ok = block_fetch(r->w, &io, gets, get_count, e);
    size_t get = 0;  // pending rows and gets are in the same order, one get for each frame
    for (size_t i = 0; ok && i < n;) {
        assert(get < get_count);
        size_t to = i + 1;
        while (to < n && same_frame(&v[i], &v[to]))
            to++;
        ok = req_alive(r->w->req, e) && use_frame(r, v + i, to - i, &gets[get++], e);
        i = to;
    }
    block_io_release(r->w, &io);
    return ok;
}

static bool read_vectors(struct reading *r, err *e)
{
    struct block_get gets[CHUNK_GETS];
    const struct pending *v = r->pending;
    size_t n = r->pending_count;
    if (n == 0) return true;
    qsort(r->pending, n, sizeof *v, by_frame);
    size_t from = 0;
    size_t count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > from && same_frame(&v[i - 1], &v[i])) continue;
        const struct block_extent *x = &v[i].hit.unit->index->vectors.v[v[i].frame].extent;
        if (count == CHUNK_GETS || (count && bytes + x->stored > CHUNK_BYTES)) {
            if (!use_frames(r, v + from, i - from, gets, count, e)) return false;
            from = i;
            count = 0;
            bytes = 0;
        }
        assert(count < CHUNK_GETS);
        gets[count++] = (struct block_get){.object = v[i].hit.unit->object->object,
                                           .at = x->at,
                                           .n = x->stored};
        bytes += x->stored;
    }
    return use_frames(r, v + from, n - from, gets, count, e);
}

// ---- rows of a frame

struct frame_rows {
    struct block_heads heads;
    struct block_details details;
    struct block_row_spans *spans;
};

static uint64_t first_after(const int64_t *times, uint64_t from, uint64_t to, int64_t after)
{
    return SEARCH(at, from, to, times[at] <= after);
}

// Does a head or another object count this row?
static bool is_skipped(const struct reading *r, const struct block_hit *h)
{
    if (!r->w->ask.skip || !h->unit->object->may_skip) return false;
    struct loose_key key = {labels_fingerprint(h->unit->index->keys[h->key].ls), h->id};
    return loose_find(r->w->ask.skip, key) != NULL;
}

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

// A row within a scan: drops it if it is not asked for or must not count, else hands it to the
// want, or keeps it until its vector is read.
static bool emit(struct reading *r, const struct block_hit *h, err *e)
{
    const struct block_index *x = h->unit->index;
    if (r->want->id_count &&
        !bsearch(&h->id, r->want->ids, r->want->id_count, sizeof h->id, by_id)) {
        return true;
    }
    if (is_skipped(r, h)) return true;
    r->w->out->rows++;
    if (!r->want->vectors) return r->want->fn(r->want->arg, h, (str){0}, e);
    const struct block_frame *f = block_frame_of(&x->vectors, h->vector);
    if (!f) return err_set(e, ERR_DATA_LOSS, "a row names a vector that is not there");
    if (!arena_grow(&r->arena, &r->pending, &r->pending_cap, r->pending_count + 1,
                    sizeof *r->pending)) {
        return block_no_room(r->w, e);
    }
    r->pending[r->pending_count++] = (struct pending){.hit = *h,
                                                      .frame = (uint32_t)(f - x->vectors.v),
                                                      .place = (uint32_t)(h->vector - f->first)};
    return true;
}

static void add_details(const struct block_details *d, uint64_t i, struct block_hit *h)
{
    h->id = d->ids[i];
    h->vector = d->vectors[i];
    if (d->factors) h->factor = d->factors[i];
    if (d->durations) h->duration_ns = d->durations[i];
    if (d->annotations) h->annotations = d->annotations[i];
}

static bool emit_scan(struct reading *r, const struct job *j, const struct frame_rows *rows,
                      const struct block_scan *s, err *e)
{
    const struct block_index *x = j->unit->index;
    const struct block_frame *f = &x->heads.v[j->frame];
    const struct block_key_ref *k = &x->keys[s->key];
    if (!overlaps(f, k, s)) return true;
    // Rows of a key lie together, in order of time: the first one in the range by binary search.
    uint64_t lo = MAX(k->first_row, f->first) - f->first;
    uint64_t hi = MIN(k->first_row + k->row_count, f->first + f->count) - f->first;
    const struct block_heads *heads = &rows->heads;
    const struct block_details *d = &rows->details;
    lo = first_after(heads->times, lo, hi, s->from_ns);
    for (uint64_t i = lo; i < hi && heads->times[i] <= s->to_ns; i++) {
        uint32_t attempt = heads->attempts ? heads->attempts[i] : 0;
        struct block_hit h = {.unit = j->unit,
                              .key = s->key,
                              .attempt = block_attempt(attempt),
                              .identified = attempt & BLOCK_IDENTIFIED,
                              .time_ns = heads->times[i],
                              .total = heads->totals[i],
                              .factor = 1};
        if (s->loose_only && h.attempt == 0 && !(s->identified && h.identified)) continue;
        if (d->n) add_details(d, i, &h);
        if (rows->spans) h.spans = &rows->spans[i];
        if (r->want->only_spans && !(h.spans && h.spans->n)) continue;
        if (!emit(r, &h, e)) return false;
    }
    return true;
}

// ---- chunks

// Details have ids: they are read as well if some row of the object may have to be skipped.
static bool wants_details(const struct reading *r, const struct block_unit *u)
{
    return r->want->details || r->want->vectors || u->object->may_skip;
}

static struct block_get get_frame(const struct block_unit *u, const struct block_frame *f)
{
    return (struct block_get){.object = u->object->object,
                              .at = f->extent.at,
                              .n = f->extent.stored,
                              .of_rows = true};
}

static uint64_t job_bytes(const struct reading *r, const struct job *j)
{
    const struct block_index *x = j->unit->index;
    uint64_t n = x->heads.v[j->frame].extent.raw;
    if (wants_details(r, j->unit)) n += x->details.v[j->frame].extent.raw;
    if (j->span != MAP_NONE) n += x->spans.v[j->span].extent.raw;
    return n;
}

static bool parse_job(struct reading *r, const struct job *j, const struct block_get *gets,
                      struct frame_rows *rows, err *e)
{
    const struct block_index *x = j->unit->index;
    const struct block_frame *f = &x->heads.v[j->frame];
    struct arena *a = &r->arena;
    str bytes;
    if (!block_contents(r->w, a, &f->extent, &gets[j->heads], "heads", &bytes, e) ||
        !block_heads_parse(a, bytes, f->count, &rows->heads, e)) {
        return false;
    }
    if (wants_details(r, j->unit) &&
        (!block_contents(r->w, a, &x->details.v[j->frame].extent, &gets[j->details], "details",
                         &bytes, e) ||
         !block_details_parse(a, bytes, &rows->heads, &rows->details, e))) {
        return false;
    }
    return j->span == MAP_NONE || (block_contents(r->w, a, &x->spans.v[j->span].extent,
                                                  &gets[j->spans], "spans", &bytes, e) &&
                                   block_spans_parse(a, bytes, f->count, &rows->spans, e));
}

static bool use_job(struct reading *r, const struct job *j, const struct block_get *gets, err *e)
{
    struct frame_rows rows = {0};
    err why = {0};
    if (j->unit->object->faulty) return true;
    bool ok = parse_job(r, j, gets, &rows, &why);
    for (size_t i = 0; ok && i < j->scan_count; i++)
        ok = emit_scan(r, j, &rows, &j->scans[i], &why);
    return ok || block_note(r->w, j->unit->object, &why, e);
}

static bool read_chunk(struct reading *r, struct job *jobs, size_t n, err *e)
{
    struct block_io io = {0};
    size_t get_count = 0;
    arena_init(&r->arena, &r->w->m->memory, SIZE_MAX);
    r->pending = NULL;
    r->pending_count = 0;
    r->pending_cap = 0;
    struct block_get *gets = ARENA_ARRAY(&r->arena, struct block_get, 3 * n);
    bool ok = gets || block_no_room(r->w, e);
    for (size_t i = 0; ok && i < n; i++) {
        struct job *j = &jobs[i];
        const struct block_index *x = j->unit->index;
        gets[j->heads = get_count++] = get_frame(j->unit, &x->heads.v[j->frame]);
        if (wants_details(r, j->unit)) {
            gets[j->details = get_count++] = get_frame(j->unit, &x->details.v[j->frame]);
        }
        if (j->span != MAP_NONE) {
            gets[j->spans = get_count++] = get_frame(j->unit, &x->spans.v[j->span]);
        }
    }
    ok = ok && block_fetch(r->w, &io, gets, get_count, e);
    for (size_t i = 0; ok && i < n; i++)
        ok = req_alive(r->w->req, e) && use_job(r, &jobs[i], gets, e);
    ok = ok && read_vectors(r, e);
    block_io_release(r->w, &io);
    arena_release(&r->arena);
    return ok;
}

bool block_scan_rows(struct block_walk *w, struct block_scan *v, size_t n,
                     const struct block_rows *want, err *e)
{
    struct reading r = {.w = w, .want = want};
    if (n == 0) return true;
    assert(want->fn && (!want->only_spans || want->spans));
    uint64_t before = w->out->rows;
    // Unit by unit and in order of keys, so that frames are read in the order in which they lie.
    qsort(v, n, sizeof *v, by_unit_and_key);
    for (size_t i = 0; i < n;) {
        size_t to = i + 1;
        while (to < n && v[to].unit == v[i].unit)
            to++;
        if (!add_unit(&r, v + i, to - i, e)) return false;
        i = to;
    }
    size_t from = 0;
    uint64_t bytes = 0;
    uint64_t rows = 0;
    for (size_t i = 0; i < r.job_count; i++) {
        uint64_t more = job_bytes(&r, &r.jobs[i]);
        uint64_t more_rows = r.jobs[i].unit->index->heads.v[r.jobs[i].frame].count;
        if (i > from && (bytes + more > CHUNK_BYTES || rows + more_rows > CHUNK_ROWS ||
                         i - from == CHUNK_GETS)) {
            if (!read_chunk(&r, r.jobs + from, i - from, e)) return false;
            from = i;
            bytes = 0;
            rows = 0;
        }
        bytes += more;
        rows += more_rows;
    }
    bool ok = r.job_count == from || read_chunk(&r, r.jobs + from, r.job_count - from, e);
    metric_add(&querier_block_rows, w->out->rows - before);
    return ok;
}
