// SPDX-License-Identifier: Apache-2.0
//
// verify.c - is a block what its writer wrote? Service by service:
//
//     1. read and parse the index and the symbols (load_service); without them nothing else of the
//        service can be read
//     2. vectors of nodes and of rows, totals, rows, spans
//     3. compare them with each other and with the footer (check_*)
//     4. compare sums with what they are sums of (verify_sums.c)
//
// At the end, all sections together must make up the object without gaps. A section that is damaged
// is a fault; comparisons that would need it are left out (the *_whole flags), so that one damage
// is not reported as many.
#include "block/verify.h"

#include "block/keys.h"
#include "block/verify_int.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>  // lint: allow, for gmtime_r, which reads no clock

#define FAULT_TEXT 2048
#define WHOLE_MAX  ((size_t)1 << 30)

// ---- telling

void verify_fault(struct verify *v, const char *fmt, ...)
{
    char text[FAULT_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    assert(text[0]);
    v->out->faults++;
    v->o->report(v->o->arg, v->service ? v->service->name : (str){0}, text);
}

const char *verify_slot(char text[VERIFY_SLOT_TEXT], int64_t slot, int64_t width)
{
    static const struct {
        int64_t width;
        const char *name;
    } widths[] = {{SLOT_MINUTE, "1m"}, {SLOT_FIVE, "5m"}, {SLOT_HOUR, "1h"},
                  {SLOT_DAY, "1d"},    {SLOT_WEEK, "7d"}, {SLOT_WINDOW, "28d"}};
    const char *name = "?";
    for (size_t i = 0; i < COUNT(widths); i++) {
        if (widths[i].width == width) name = widths[i].name;
    }
    time_t s = slot_start(slot, width) / 1000000000;
    struct tm t;
    if (!gmtime_r(&s, &t)) {
        snprintf(text, VERIFY_SLOT_TEXT, "slot %" PRId64 " of %s", slot, name);
        return text;
    }
    snprintf(text, VERIFY_SLOT_TEXT, "%04d-%02d-%02dT%02d:%02d:%02dZ + %s", t.tm_year + 1900,
             t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, name);
    return text;
}

// Reports damage as a fault, and the check goes on. False for any other error: it ends the check.
static bool is_damage(struct verify *v, err *e)
{
    assert(e->code);  // whoever asks has failed
    if (e->code != ERR_DATA_LOSS) return false;
    verify_fault(v, "%s", e->msg);
    *e = (err){0};
    return true;
}

// ---- sections

static bool note_extent(struct verify *v, const struct block_extent *x, err *e)
{
    if (!arena_grow(&v->whole, &v->extents, &v->extent_cap, v->extent_count + 1,
                    sizeof *v->extents)) {
        return arena_fail(&v->whole, e);
    }
    v->extents[v->extent_count++] = *x;
    v->out->sections++;
    v->out->bytes += x->stored;
    return true;
}

// Reads the contents of a section. *good false: it is damaged, and that was reported.
static bool load(struct verify *v, const struct block_extent *x, const char *what, str *contents,
                 bool *good, err *e)
{
    *good = false;
    *contents = (str){0};
    // Also noted if it turns out to be damaged: its bytes are some section's, and no gap.
    if (!block_source_alive(v->src, e)) return false;
    if (x->stored && !note_extent(v, x, e)) return false;
    if (!block_source_sections(&v->arena, v->src, x, 1, contents, e)) {
        err_wrap(e, "%s", what);
        return is_damage(v, e);
    }
    *good = true;
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct block_extent *x = a;
    const struct block_extent *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

// Do all sections together make up the block? Only if all services could be read: else their
// sections would look like gaps.
static void check_extents(struct verify *v)
{
    uint64_t at = 0;
    qsort(v->extents, v->extent_count, sizeof *v->extents, by_place);
    for (size_t i = 0; i < v->extent_count; i++) {
        const struct block_extent *x = &v->extents[i];
        if (x->at < at) verify_fault(v, "sections overlap at byte %" PRIu64, x->at);
        if (x->at > at) {
            verify_fault(v, "%" PRIu64 " bytes at %" PRIu64 " are of no section", x->at - at, at);
        }
        at = MAX(at, x->at + x->stored);
    }
    if (at + BLOCK_TRAILER != v->src->size) {
        verify_fault(v, "%" PRIu64 " bytes behind the footer, not %d", v->src->size - at,
                     BLOCK_TRAILER);
    }
}

// ---- vectors

// How many items the frames have together: they follow one another, so the last one says.
static uint64_t frames_count(const struct block_frames *f)
{
    return f->n ? f->v[f->n - 1].first + f->v[f->n - 1].count : 0;
}

// The items of frames are held in arrays of frames_count() entries. The parser of the index refused
// frames that do not follow one another.
static void is_within(const struct block_frames *all, const struct block_frame *f)
{
    assert(f->count <= frames_count(all) && f->first <= frames_count(all) - f->count);
}

// The vectors of frames by number; totals may be NULL.
static bool load_vectors(struct verify *v, const struct block_frames *frames, const char *what,
                         str *by_number, int64_t *totals, bool *whole, err *e)
{
    *whole = true;
    for (uint32_t f = 0; f < frames->n; f++) {
        struct block_vectors got;
        str contents = {0};
        bool good = false;
        if (!load(v, &frames->v[f].extent, what, &contents, &good, e)) return false;
        if (good && !block_vectors_parse(&v->arena, contents, frames->v[f].count, &got, e)) {
            good = false;
            if (!is_damage(v, e)) return false;
        }
        *whole = *whole && good;
        if (!good) continue;
        is_within(frames, &frames->v[f]);
        for (uint32_t i = 0; i < frames->v[f].count; i++) {
            uint64_t number = frames->v[f].first + i;
            int64_t total = 0;
            err bad = {0};
            str columns = block_vector_at(&got, i);
            if (!columns_check(columns, v->symbols.stack_count, &total, &bad)) {
                verify_fault(v, "%s: number %" PRIu64 ": %s", what, number, bad.msg);
                *whole = false;
                continue;
            }
            by_number[number] = columns;
            if (totals) totals[number] = total;
        }
    }
    return true;
}

static bool load_row_vectors(struct verify *v, err *e)
{
    v->vector_count = frames_count(&v->index.vectors);
    v->vectors = ARENA_ARRAY(&v->arena, str, v->vector_count);
    v->vector_totals = ARENA_ARRAY(&v->arena, int64_t, v->vector_count);
    v->vector_used = ARENA_ARRAY(&v->arena, bool, v->vector_count);
    if (!arena_ok(&v->arena, e)) return false;
    v->out->vectors += v->vector_count;
    return load_vectors(v, &v->index.vectors, "vectors of rows", v->vectors, v->vector_totals,
                        &v->vectors_whole, e);
}

// The vector of each node, which names its frame and its place there. Every vector must be some
// node's.
static bool load_node_vectors(struct verify *v, err *e)
{
    const struct block_index *x = &v->index;
    uint64_t count = frames_count(&x->nodes_at);
    str *all = ARENA_ARRAY(&v->arena, str, count);
    bool *used = ARENA_ARRAY(&v->arena, bool, count);
    v->node_vectors = ARENA_ARRAY(&v->arena, str, x->node_count);
    if (!arena_ok(&v->arena, e)) return false;
    if (!load_vectors(v, &x->nodes_at, "vectors of nodes", all, NULL, &v->nodes_whole, e))
        return false;
    for (uint32_t i = 0; i < x->node_count; i++) {
        const struct block_node_ref *n = &x->nodes[i];
        if (n->frame >= x->nodes_at.n || n->place >= x->nodes_at.v[n->frame].count) {
            verify_fault(v, "node %u has no vector", i);
            v->nodes_whole = false;
            continue;
        }
        used[x->nodes_at.v[n->frame].first + n->place] = true;
        v->node_vectors[i] = all[x->nodes_at.v[n->frame].first + n->place];
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!used[i]) verify_fault(v, "vector %" PRIu64 " of nodes is no node's", i);
    }
    return true;
}

// ---- nodes and totals of a key

static void check_node(struct verify *v, const struct block_key_ref *k, uint32_t i)
{
    const struct block_node *n = &v->index.nodes[i].node;
    char slot[VERIFY_SLOT_TEXT];
    int64_t total = 0;
    err bad = {0};
    assert(i < v->index.node_count && n->width > 0);
    if (n->profiles == 0) {
        verify_fault(v, "node %u of type %.*s, %s: no profiles", i, STR(v->index.types[k->type]),
                     verify_slot(slot, n->slot, n->width));
    }
    const struct block_about *about = &v->src->footer.about;
    if (slot_start(n->slot, n->width) < slot_start(about->from_hour, SLOT_HOUR) ||
        slot_start(n->slot + 1, n->width) >
            slot_start(about->from_hour + (int64_t)about->hours, SLOT_HOUR)) {
        verify_fault(v, "node %u of type %.*s, %s, is not of the block's hours", i,
                     STR(v->index.types[k->type]), verify_slot(slot, n->slot, n->width));
    }
    if (n->first_ns > n->last_ns || slot_of(n->first_ns, n->width) != n->slot ||
        slot_of(n->last_ns, n->width) != n->slot) {
        verify_fault(v, "node %u of type %.*s, %s: times %" PRId64 " to %" PRId64 " are not in it",
                     i, STR(v->index.types[k->type]), verify_slot(slot, n->slot, n->width),
                     n->first_ns, n->last_ns);
    }
    // A vector that is damaged was reported when it was loaded.
    str columns = v->node_vectors[i];
    if (!columns.p || !columns_check(columns, v->symbols.stack_count, &total, &bad)) return;
    if (__builtin_mul_overflow(total, v->index.nodes[i].factor, &total) || total != n->total) {
        verify_fault(v, "node %u of type %.*s, %s: total %" PRId64 ", its vector's is %" PRId64, i,
                     STR(v->index.types[k->type]), verify_slot(slot, n->slot, n->width), n->total,
                     total);
    }
}

static bool load_totals(struct verify *v, err *e)
{
    const struct block_frames *f = &v->index.totals;
    v->total_count = frames_count(f);
    v->totals = ARENA_ARRAY(&v->arena, struct block_total, v->total_count);
    if (!v->totals) return arena_fail(&v->arena, e);
    v->out->totals += v->total_count;
    v->totals_whole = true;
    for (uint32_t i = 0; i < f->n; i++) {
        struct block_total *got = NULL;
        str contents = {0};
        bool good = false;
        if (!load(v, &f->v[i].extent, "totals", &contents, &good, e)) return false;
        if (good && !block_totals_parse(&v->arena, contents, f->v[i].count, &got, e)) {
            good = false;
            if (!is_damage(v, e)) return false;
        }
        v->totals_whole = v->totals_whole && good;
        if (!good) continue;
        is_within(f, &f->v[i]);
        memcpy(v->totals + f->v[i].first, got, f->v[i].count * sizeof *got);
    }
    return true;
}

static void check_totals(struct verify *v, const struct block_key_ref *k, uint32_t key)
{
    assert(k->first_total + k->total_count <= v->total_count);
    for (uint32_t i = 1; i < k->total_count; i++) {
        const struct block_total *t = &v->totals[k->first_total + i];
        if (t[0].slot > t[-1].slot) continue;
        verify_fault(v, "key %u: its totals are out of order at %u", key, i);
        v->totals_whole = false;
        return;
    }
}

// ---- rows

static bool make_rows(struct verify *v, err *e)
{
    uint64_t n = frames_count(&v->index.heads);
    v->row_count = n;
    v->times = ARENA_ARRAY(&v->arena, int64_t, n);
    v->row_totals = ARENA_ARRAY(&v->arena, int64_t, n);
    v->attempts = ARENA_ARRAY(&v->arena, uint32_t, n);
    v->factors = ARENA_ARRAY(&v->arena, int64_t, n);
    v->row_vectors = ARENA_ARRAY(&v->arena, uint64_t, n);
    v->ids = ARENA_ARRAY(&v->arena, id128, n);
    v->rows_whole = true;
    v->out->rows += n;
    return arena_ok(&v->arena, e);
}

static void keep_rows(struct verify *v, const struct block_frame *f, const struct block_heads *h,
                      const struct block_details *d)
{
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    is_within(&v->index.heads, f);
    assert(h->n == f->count && d->n == f->count);
    for (uint64_t i = 0; i < f->count; i++) {
        uint64_t row = f->first + i;
        v->times[row] = h->times[i];
        v->row_totals[row] = h->totals[i];
        v->attempts[row] = h->attempts ? h->attempts[i] : 0;
        v->factors[row] = d->factors ? d->factors[i] : 1;
        v->row_vectors[row] = d->vectors[i];
        v->ids[row] = d->ids[i];
        first = MIN(first, h->times[i]);
        last = MAX(last, h->times[i]);
    }
    if (f->count && (first != f->first_ns || last != f->last_ns)) {
        verify_fault(v,
                     "rows %" PRIu64 " to %" PRIu64 ": times %" PRId64 " to %" PRId64
                     ", the index says %" PRId64 " to %" PRId64,
                     f->first, f->first + f->count - 1, first, last, f->first_ns, f->last_ns);
    }
}

static bool load_rows(struct verify *v, err *e)
{
    const struct block_frames *heads = &v->index.heads;
    const struct block_frames *details = &v->index.details;
    if (!make_rows(v, e)) return false;
    if (heads->n != details->n) {
        verify_fault(v, "%u sections of heads, %u of details", heads->n, details->n);
        v->rows_whole = false;
    }
    for (uint32_t i = 0; i < MIN(heads->n, details->n); i++) {
        struct block_heads h = {0};
        struct block_details d = {0};
        str contents[2] = {{0}};
        bool good[2] = {false};
        if (!load(v, &heads->v[i].extent, "heads", &contents[0], &good[0], e)) return false;
        if (!load(v, &details->v[i].extent, "details", &contents[1], &good[1], e)) return false;
        bool all = good[0] && good[1];
        if (all && (!block_heads_parse(&v->arena, contents[0], heads->v[i].count, &h, e) ||
                    !block_details_parse(&v->arena, contents[1], &h, &d, e))) {
            all = false;
            if (!is_damage(v, e)) return false;
        }
        v->rows_whole = v->rows_whole && all;
        if (all) keep_rows(v, &heads->v[i], &h, &d);
    }
    return true;
}

static void check_row(struct verify *v, uint64_t row)
{
    int64_t total = 0;
    assert(row < v->row_count);
    uint64_t vector = v->row_vectors[row];
    if (vector >= v->vector_count) {
        verify_fault(v, "row %" PRIu64 " is of vector %" PRIu64 ", there are %" PRIu64, row, vector,
                     v->vector_count);
        v->rows_whole = false;
        return;
    }
    v->vector_used[vector] = true;
    if (!v->vectors[vector].p) return;  // damaged, which was reported
    if (__builtin_mul_overflow(v->vector_totals[vector], v->factors[row], &total) ||
        total != v->row_totals[row]) {
        verify_fault(v,
                     "row %" PRIu64 ": total %" PRId64 ", its vector's %" PRId64 " times %" PRId64,
                     row, v->row_totals[row], v->vector_totals[vector], v->factors[row]);
    }
}

static void check_rows_of(struct verify *v, const struct block_key_ref *k, uint32_t key)
{
    const struct block_about *about = &v->src->footer.about;
    for (uint64_t i = 0; i < k->row_count; i++) {
        uint64_t row = k->first_row + i;
        check_row(v, row);
        int64_t hour = slot_of(v->times[row], SLOT_HOUR);
        if (hour < about->from_hour || hour - about->from_hour >= (int64_t)about->hours) {
            verify_fault(v,
                         "row %" PRIu64 " of key %u at %" PRId64 " ns is not of the block's hours",
                         row, key, v->times[row]);
        }
        if (i == 0) continue;
        int order = (v->times[row - 1] > v->times[row]) - (v->times[row - 1] < v->times[row]);
        if (order == 0) order = memcmp(v->ids[row - 1].b, v->ids[row].b, sizeof(id128));
        // A leaf has no profile twice. A cut has a profile twice if it was pushed twice.
        if (order < 0 || (order == 0 && about->kind == BLOCK_SEGMENT)) continue;
        verify_fault(v, "row %" PRIu64 " of key %u %s", row, key,
                     order ? "is not behind the row before it" : "is the row before it again");
        v->rows_whole = v->rows_whole && v->times[row - 1] <= v->times[row];
    }
}

// ---- spans

static void check_spans(struct verify *v, const struct block_blooms *b, uint32_t frame,
                        const struct block_row_spans *rows)
{
    assert(frame < v->index.spans.n);
    const struct block_frame *f = &v->index.spans.v[frame];
    for (uint64_t i = 0; i < f->count; i++) {
        v->out->spans += rows[i].n;
        for (uint32_t s = 0; s < rows[i].n; s++) {
            const struct block_span *span = &rows[i].v[s];
            int64_t total = 0;
            err bad = {0};
            if (!columns_check(span->vector, v->symbols.stack_count, &total, &bad)) {
                verify_fault(v, "span %016" PRIx64 " of row %" PRIu64 ": %s", span->span_id,
                             f->first + i, bad.msg);
            }
            if (!b) continue;  // the filters are damaged, which was reported
            if (!block_bloom_may_have_span(b, frame, span->span_id) ||
                (span->has_trace && !block_bloom_may_have_trace(b, frame, span->trace))) {
                verify_fault(v, "span %016" PRIx64 " of row %" PRIu64 " is not in the bloom filter",
                             span->span_id, f->first + i);
            }
        }
    }
}

static bool load_spans(struct verify *v, err *e)
{
    const struct block_frames *frames = &v->index.spans;
    const struct block_blooms *b = NULL;
    str contents = {0};
    bool good = false;
    if (frames->n == 0) return true;
    if (!load(v, &v->index.blooms, "bloom filters", &contents, &good, e)) return false;
    if (good && !block_blooms_parse(&v->arena, contents, frames->n, &b, e) && !is_damage(v, e)) {
        return false;
    }
    for (uint32_t f = 0; f < frames->n; f++) {
        struct block_row_spans *rows = NULL;
        if (!load(v, &frames->v[f].extent, "spans", &contents, &good, e)) return false;
        if (!good) continue;
        if (block_spans_parse(&v->arena, contents, frames->v[f].count, &rows, e)) {
            check_spans(v, b, f, rows);
        } else if (!is_damage(v, e)) {
            return false;
        }
    }
    return true;
}

// ---- a service against the footer

// The facts that a dataset of the footer should have.
struct dataset {
    uint64_t profiles;
    uint64_t by_nodes[BLOCK_CLASSES];  // of the narrowest nodes of series that are not sampled
    int64_t narrow[BLOCK_CLASSES];
    uint64_t loose;
    uint64_t placed;
    int64_t first_ns;
    int64_t last_ns;
    bool any;
};

static void add_rows(const struct verify *v, const struct block_key_ref *k, struct dataset *d)
{
    assert(k->first_row + k->row_count <= v->row_count);
    for (uint64_t i = k->first_row; i < k->first_row + k->row_count; i++) {
        d->any = true;
        d->profiles += !k->sampled;
        d->loose += block_attempt(v->attempts[i]) > 0;
        d->placed += (v->attempts[i] & BLOCK_IDENTIFIED) != 0;
        d->first_ns = MIN(d->first_ns, v->times[i]);
        d->last_ns = MAX(d->last_ns, v->times[i]);
    }
}

static void add_nodes(const struct verify *v, const struct block_key_ref *k, struct dataset *d)
{
    uint64_t *profiles = &d->by_nodes[k->class];
    int64_t *narrow = &d->narrow[k->class];
    for (uint32_t i = k->first_node; i < k->first_node + k->node_count; i++) {
        const struct block_node *n = &v->index.nodes[i].node;
        d->any = true;
        d->first_ns = MIN(d->first_ns, n->first_ns);
        d->last_ns = MAX(d->last_ns, n->last_ns);
        // Wider nodes sum the narrowest again, so these alone count each profile once.
        if (k->sampled || (*narrow && *narrow < n->width)) continue;
        if (*narrow != n->width) *profiles = 0;
        *narrow = n->width;
        *profiles += n->profiles;
    }
}

static void check_dataset(struct verify *v, uint32_t type, const struct block_dataset *d)
{
    struct dataset is = {.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    for (uint32_t i = 0; i < v->index.key_count; i++) {
        const struct block_key_ref *k = &v->index.keys[i];
        if (k->type != type) continue;
        if (v->row_count)
            add_rows(v, k, &is);
        else
            add_nodes(v, k, &is);
    }
    // Without rows, the profiles are counted in the first class that has some.
    for (int c = 0; !v->row_count && c < BLOCK_CLASSES && is.profiles == 0; c++)
        is.profiles = is.by_nodes[c];
    if (is.any != (d != NULL)) {
        verify_fault(v, "type %.*s is %s in the footer", STR(v->index.types[type]),
                     d ? "without profiles, but" : "not");
    } else if (d && is.placed != d->placed) {
        verify_fault(v, "type %.*s: %" PRIu64 " rows with a placing; the footer says %" PRIu64,
                     STR(d->type), is.placed, d->placed);
    } else if (d && (is.profiles != d->profiles || is.loose != d->loose ||
                     is.first_ns != d->first_ns || is.last_ns != d->last_ns)) {
        verify_fault(v,
                     "type %.*s: %" PRIu64 " profiles, %" PRIu64 " loose, times %" PRId64
                     " to %" PRId64 "; the footer says %" PRIu64 ", %" PRIu64 ", %" PRId64
                     " to %" PRId64,
                     STR(d->type), is.profiles, is.loose, is.first_ns, is.last_ns, d->profiles,
                     d->loose, d->first_ns, d->last_ns);
    }
}

// The types of the footer are those of the index that have profiles. The index may have types
// without profiles: the index says which of their labels churn.
static void check_datasets(struct verify *v)
{
    const struct block_service_ref *s = v->service;
    uint32_t known = 0;
    assert(s->datasets || s->dataset_count == 0);
    if (v->row_count && !v->rows_whole) return;
    for (uint32_t t = 0; t < v->index.type_count; t++) {
        const struct block_dataset *d = known < s->dataset_count ? &s->datasets[known] : NULL;
        if (d && !str_eq(d->type, v->index.types[t])) d = NULL;
        known += d != NULL;  // both lists are in order, so one pass finds each
        check_dataset(v, t, d);
    }
    if (known < s->dataset_count) {
        verify_fault(v, "type %.*s of the footer is not in the index",
                     STR(s->datasets[known].type));
    }
}

static void check_keys(struct verify *v)
{
    const struct block_index *x = &v->index;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < x->key_count; i++) {
        const struct block_key_ref *k = &x->keys[i];
        if (!(v->src->footer.about.classes >> k->class & 1)) {
            verify_fault(v, "key %u is of a class that the block does not have", i);
        }
        const struct block_about *about = &v->src->footer.about;
        if (k->class == BLOCK_SERIES && block_part(k->ls, about->parts) != about->part)
            verify_fault(v, "key %u is of another part of its service", i);
        const struct block_dropped_labels *dropped = &x->dropped[k->type];
        for (uint32_t d = 0; k->class == BLOCK_PROJECTION && d < dropped->n; d++) {
            if (!labels_has(k->ls, dropped->v[d])) continue;
            verify_fault(v, "key %u is a projection and has label %.*s, which its type leaves out",
                         i, STR(dropped->v[d]));
        }
        for (uint32_t n = k->first_node; n < k->first_node + k->node_count; n++)
            check_node(v, k, n);
        if (v->totals_whole) check_totals(v, k, i);
        if (v->rows_whole) check_rows_of(v, k, i);
        rows += k->row_count;
    }
    if (rows != v->row_count) {
        verify_fault(v, "keys have %" PRIu64 " rows, there are %" PRIu64, rows, v->row_count);
    }
    for (uint64_t i = 0; v->rows_whole && i < v->vector_count; i++) {
        if (!v->vector_used[i]) verify_fault(v, "vector %" PRIu64 " is no row's", i);
    }
}

// Symbols and index; not good: nothing more of this service can be read.
static bool load_service(struct verify *v, bool *good, err *e)
{
    str contents = {0};
    bool index_good = false;
    if (!load(v, &v->service->index, "index", &contents, &index_good, e)) return false;
    if (index_good && !block_index_parse(&v->arena, contents, v->service, &v->index, e)) {
        index_good = false;
        if (!is_damage(v, e)) return false;
    }
    if (!load(v, &v->service->symbols, "symbols", &contents, good, e)) return false;
    if (*good && !block_symbols_parse(&v->arena, contents, &v->symbols, e)) {
        *good = false;
        if (!is_damage(v, e)) return false;
    }
    *good = *good && index_good;
    if (*good && v->index.stack_count != v->symbols.stack_count) {
        verify_fault(v, "the index is of %u stacks, the symbols have %u", v->index.stack_count,
                     v->symbols.stack_count);
        *good = false;
    }
    return true;
}

static bool check_service(struct verify *v, bool *whole, err *e)
{
    bool good = false;
    uint32_t pack = block_pack(v->service->name);
    const struct block_about *about = &v->src->footer.about;
    if (pack < about->pack_lo || pack > about->pack_hi) {
        verify_fault(v, "belongs to pack %08x, the block holds %08x to %08x", pack, about->pack_lo,
                     about->pack_hi);
    }
    if (!load_service(v, &good, e)) return false;
    *whole = *whole && good;
    if (!good) return true;
    v->out->services++;
    v->out->keys += v->index.key_count;
    v->out->nodes += v->index.node_count;
    if (!load_node_vectors(v, e) || !load_row_vectors(v, e) || !load_totals(v, e) ||
        !load_rows(v, e) || !load_spans(v, e)) {
        return false;
    }
    check_keys(v);
    check_datasets(v);
    return verify_sums(v, e);
}

// ---- the whole

static bool check_block(struct verify *v, err *e)
{
    const struct block_footer *f = &v->src->footer;
    bool whole = true;
    for (uint32_t i = 0; i < f->service_count; i++) {
        if (i && str_cmp(f->services[i - 1].name, f->services[i].name) >= 0) {
            verify_fault(v, "service %.*s is out of order", STR(f->services[i].name));
        }
        v->service = &f->services[i];
        bool ok = check_service(v, &whole, e);
        arena_release(&v->arena);  // one service at a time is in memory, however many there are
        if (!ok) return err_wrap(e, "service %.*s", STR(f->services[i].name));
    }
    v->service = NULL;
    if (!note_extent(v, &v->src->footer_at, e)) return false;
    if (whole) check_extents(v);
    return true;
}

bool block_verify(const struct block_source *src, const struct block_verify_options *o,
                  struct block_verified *out, err *e)
{
    struct verify v = {.src = src, .o = o, .out = out};
    *out = (struct block_verified){0};
    assert(o->report);
    arena_init(&v.whole, o->memory, WHOLE_MAX);
    arena_init(&v.arena, o->memory, o->cap);
    bool ok = check_block(&v, e);
    arena_release(&v.whole);
    arena_release(&v.arena);
    return ok;
}
