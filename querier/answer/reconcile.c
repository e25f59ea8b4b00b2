// SPDX-License-Identifier: Apache-2.0
//
// The rounds of reconcile.h. A round asks the heads (reconcile_ask.c), checks keepers
// (check_keepers) or lists the loose rows that heads name (list_loose), takes a snapshot, checks
// the cuts that leaves absorbed (check_absorbed), drops the segments that heads answer for
// (choose_segments), and searches blocks for loose rows (search_blocks). Each of them may ask for
// another round (again); in the last round they name as missing what they would have repaired.
#include "querier/answer/reconcile_int.h"
#include "querier/block/block_read.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#include <stdlib.h>
#include <unistd.h>

// How often heads are asked one question. While ingesters end, their rows move more often than that
// in the time of six rounds, so there are more rounds with pauses before them, until the question
// is as old as querier.wait_for_streams.
#define ROUNDS      6
#define ROUNDS_FAST 3
#define ROUNDS_MAX  64
#define ROUND_PAUSE ((uint64_t)50 * NS_PER_MS)

// How long heads are told at once that placings differ, which saves a round.
#define DIFFER_NS ((uint64_t)60 * NS_PER_S)

// ---- loose rows of heads

static void forget_loose(struct reconciling *s)
{
    loose_release(&s->loose);
    loose_init(&s->loose, s->a->arena, s->a->querier->memory, (size_t)s->a->config->loose_max);
    s->keeper_count = 0;
    s->listed = false;
}

// Whether a list failed because there are more loose rows than querier.loose_max. The query goes on
// without a list then: each head and each block counts what it has, and the answer says that rows
// may count twice. They are that many only if ids were lost under much load or ingesters were away
// for long, and then nobody is helped by no answer at all.
static bool is_crowd(struct reconciling *s, err *e)
{
    if (e->code != ERR_RESOURCE_EXHAUSTED || s->loose.n < s->loose.most) return false;
    *e = (err){0};
    forget_loose(s);
    // Heads named so many only because placings differed in another answer of a short while ago.
    bool needless = s->identified && !s->differed && !s->last;
    if (needless) s->identified = false;
    s->again |= needless;
    s->crowded = !needless;
    return true;
}

// The loose rows that heads named in a round in which they were told of none. Each is kept by the
// first stream that names it.
static bool list_loose(struct reconciling *s, err *e)
{
    struct fetched *f = &s->a->fetched;
    size_t n = f->partial_count - s->from;
    assert(!s->listed && s->loose.n == 0);
    if (s->crowded) return true;
    if (!fetch_loose(f, s->from, &s->loose, e)) return is_crowd(s, e);
    s->keepers = ARENA_ARRAY(s->a->arena, id128, n + 1);
    if (!s->keepers) return arena_fail(s->a->arena, e);
    if (n) memcpy(s->keepers, f->streams + s->from, n * sizeof *s->keepers);
    s->keeper_count = n;
    s->listed = s->loose.n > 0;
    s->again |= s->listed;
    if (s->listed) metric_add(&querier_loose_rows, s->loose.n);
    return true;
}

// Where rows of several placings meet, rows with a client's id may be at two homes. Heads that were
// not told so are asked anew, without a list: theirs will have more rows.
static void meet_placings(struct reconciling *s)
{
    if (!placings_differ(&s->placings)) return;
    _Atomic uint64_t *at = s->a->querier->differ_mono_ns;
    if (at) atomic_store_explicit(at, clock_mono_ns(), memory_order_relaxed);
    if (!s->differed) metric_add(&querier_differing_lists, 1);
    s->differed = true;
    if (s->identified) return;
    s->unsure = s->last;
    if (s->last) return;
    s->identified = true;
    forget_loose(s);
    s->again = true;
}

// Whether they differed in an answer of a short while ago.
static bool differed_lately(const struct querier_state *q)
{
    if (!q->differ_mono_ns) return false;
    uint64_t at = atomic_load_explicit(q->differ_mono_ns, memory_order_relaxed);
    return at && clock_mono_ns() - at < DIFFER_NS;
}

// Each stream that is to count rows must have answered. If one has not, its ingester has started
// anew, and the rows are in another stream or in blocks by now: they are sought anew. If some
// ingester did not answer at all, the answer is marked anyway and lacks what that one was to count;
// to begin anew would cost further rounds, of which there are few.
static bool check_keepers(struct reconciling *s, err *e)
{
    struct fetched *f = &s->a->fetched;
    static const err why = {ERR_UNAVAILABLE, "its ingester started anew while it was asked"};
    if (fetch_lacking(f)) return true;
    for (size_t i = 0; i < s->keeper_count; i++) {
        if (fetch_has_stream(f, s->from, s->keepers[i])) continue;
        if (s->last) return fetch_miss_stream(s->a->arena, f, s->keepers[i], &why, e);
        forget_loose(s);
        s->again = true;
        return true;
    }
    return true;
}

// ---- cuts that heads name

static int cut_cmp(const struct fetched_cut *c, id128 stream, uint64_t cut, int64_t hour)
{
    int streams = memcmp(c->stream.b, stream.b, sizeof stream.b);
    if (streams) return streams;
    if (c->cut != cut) return c->cut < cut ? -1 : 1;
    return c->hour < hour ? -1 : c->hour > hour;
}

static int by_cut(const void *a, const void *b)
{
    const struct fetched_cut *y = b;
    return cut_cmp(a, y->stream, y->cut, y->hour);
}

// The first part that the head's answer contains. If a leaf absorbed it, both have its rows.
static struct segment_name absorbable(const struct fetched_cut *c)
{
    return (struct segment_name){.hour = c->hour,
                                 .stream = c->stream,
                                 .cut = c->cut,
                                 .part = c->first_part};
}

static bool is_asked(const struct reconciling *s, const struct fetched_cut *c)
{
    for (size_t i = 0; i < s->refresh_count; i++) {
        if (by_cut(&s->refresh[i], c) == 0) return true;
    }
    return false;
}

// In the last round: the head's answer still has a cut that a leaf absorbed, perhaps because it
// cannot reach the store. Its whole answer is dropped and named as missing, so nothing counts
// twice.
static bool leave_out(struct reconciling *s, const struct fetched_cut *c, err *e)
{
    struct fetched *f = &s->a->fetched;
    static const err why = {ERR_UNAVAILABLE,
                            "its ingester does not know that a leaf has a cut of it"};
    size_t partial = c->partial;  // a copy: *c is one of the cuts that move below
    assert(s->last && partial >= s->from && partial < f->partial_count);
    f->partials[partial] = (str){0};
    size_t kept = s->out->cut_from;
    for (size_t i = kept; i < s->out->cut_to; i++) {
        if (f->cuts[i].partial != partial) f->cuts[kept++] = f->cuts[i];
    }
    f->cut_count = s->out->cut_to = kept;
    return fetch_miss_stream(s->a->arena, f, f->streams[partial], &why, e);
}

// A cut that a head names and a leaf absorbed would count twice.
static bool check_absorbed(struct reconciling *s, err *e)
{
    struct fetched *f = &s->a->fetched;
    for (size_t i = s->out->cut_from; i < s->out->cut_to; i++) {
        const struct segment_name name = absorbable(&f->cuts[i]);
        if (!manifest_absorbed(s->out->snapshot.manifest, &name)) continue;
        if (s->last) {
            if (!leave_out(s, &f->cuts[i], e)) return false;
            i = s->out->cut_from - 1;  // leave_out moved the cuts: begin at the first again
            continue;
        }
        // Asked for already: its head could not check coverage, and is asked to do so once more.
        s->again = true;
        if (is_asked(s, &f->cuts[i])) continue;
        if (!arena_grow(s->a->arena, &s->refresh, &s->refresh_cap, s->refresh_count + 1,
                        sizeof *s->refresh)) {
            return arena_fail(s->a->arena, e);
        }
        s->refresh[s->refresh_count++] = f->cuts[i];
    }
    return true;
}

// Drops the segments that are contained in answers of heads.
static void choose_segments(struct answer *a, struct reconciled *s)
{
    assert(s->has_blocks && s->cut_from <= s->cut_to && s->cut_to <= a->fetched.cut_count);
    struct fetched_cut *cuts = a->fetched.cuts + s->cut_from;
    size_t n = s->cut_to - s->cut_from;
    size_t kept = 0;
    if (n) qsort(cuts, n, sizeof *cuts, by_cut);
    for (size_t i = 0; i < s->snapshot.segment_count; i++) {
        const struct segment_name *name = &s->snapshot.segments[i].name;
        const struct fetched_cut key = {.stream = name->stream,
                                        .cut = name->cut,
                                        .hour = name->hour};
        const struct fetched_cut *c = n ? bsearch(&key, cuts, n, sizeof *cuts, by_cut) : NULL;
        if (c && name->part >= c->first_part) continue;
        s->snapshot.segments[kept++] = s->snapshot.segments[i];
    }
    s->snapshot.segment_count = kept;
}

// ---- the snapshot

// Takes the snapshot. If the store does not answer, that is named as missing, and heads alone
// count.
static bool take(struct answer *a, struct reconciled *s, err *e)
{
    struct req *r = &a->x->req;
    uint64_t began = clock_mono_ns();
    uint64_t deadline = r->deadline_mono_ns;
    uint64_t left = req_left_ns(r);
    err why = {0};
    reconciled_release(s);
    // An eighth of the time is kept for the answer of heads alone, if a store hangs.
    if (a->takes == FETCH_ANY && deadline) r->deadline_mono_ns = deadline - left / 8;
    s->has_blocks =
        snapshot_take(a->querier->manifests, r, a->arena, s->tenant, &s->snapshot, &why);
    r->deadline_mono_ns = deadline;
    a->work.ns[WORK_SNAPSHOT] += clock_mono_ns() - began;
    if (s->has_blocks) {
        // Of a tenant that is being deleted segments are left, which may go while they are read.
        if (manifest_is_closed(s->snapshot.manifest)) s->snapshot.segment_count = 0;
        a->fetched.has_blocks = true;
        return true;
    }
    if (!req_alive(r, e) || !arena_ok(a->arena, e)) return false;
    return fetch_miss(a->arena, &a->fetched, S("object store"), &why, e);
}

// ---- tombstones

static bool are_told(const struct reconciling *s, const struct manifest_tombstone *v, size_t n)
{
    if (n != s->tombstone_count) return false;
    for (size_t i = 0; i < n; i++) {
        if (!id128_eq(v[i].id, s->tombstones[i].id)) return false;
    }
    return true;
}

static size_t bytes_of(const struct hide *h)
{
    size_t n = 64;
    for (size_t i = 0; i < h->selector.n; i++)
        n += h->selector.v[i].name.n + h->selector.v[i].value.n + 32;
    return n;
}

// The newest manifest says what is deleted. Heads and blocks must leave out the same, so heads that
// were not told of it are asked again.
static bool check_tombstones(struct reconciling *s, err *e)
{
    static const err why = {ERR_UNAVAILABLE, "profiles are being deleted in each round"};
    struct answer *a = s->a;
    struct manifest_tombstone *v = NULL;
    size_t all = 0;
    size_t n = 0;
    if (manifest_tombstone_count(s->out->snapshot.manifest) == 0 && s->tombstone_count == 0)
        return true;
    if (!manifest_tombstones(s->out->snapshot.manifest, a->arena, &v, &all, e)) return false;
    for (size_t i = 0; i < all; i++) {
        const struct hide *h = &v[i].hide;
        if (hide_meets(h, s->q->from_ns, s->q->to_ns) && hide_may_meet(h, &s->q->selector))
            v[n++] = v[i];
    }
    if (are_told(s, v, n)) return true;
    if (s->last) return fetch_miss(a->arena, &a->fetched, S("heads"), &why, e);
    struct hide *hides = ARENA_ARRAY(a->arena, struct hide, n + 1);
    if (!hides) return arena_fail(a->arena, e);
    s->hide_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        hides[i] = v[i].hide;
        s->hide_bytes += bytes_of(&hides[i]);
    }
    s->tombstones = v;
    s->tombstone_count = n;
    s->out->hides = hides;
    s->out->hide_count = n;
    s->again = true;
    return true;
}

// ---- loose rows of blocks

// A loose row, and a segment or leaf that has it.
struct place {
    struct loose_key key;
    const struct level_object *object;
};

struct search {
    struct reconciling *s;
    struct place *v;
    size_t n;
    size_t cap;
};

static bool is_kept(const struct reconciling *s, struct loose_key key)
{
    const struct loose_row *row = loose_find(&s->loose, key);
    return row && row->keeper == KEPT_BY_BLOCK;
}

// A block has a loose row. From now on a block counts it: if the heads were not told so, they have
// to be asked again. In the last round they are not, and no block counts it (note_skips).
static bool met_row(void *arg, const struct level_object *o, struct loose_key key, err *e)
{
    struct search *f = arg;
    struct reconciling *s = f->s;
    if (!arena_grow(s->a->arena, &f->v, &f->cap, f->n + 1, sizeof *f->v)) {
        return arena_fail(s->a->arena, e);
    }
    f->v[f->n++] = (struct place){key, o};
    if (is_kept(s, key) || (s->last && s->told)) return true;
    // From now on heads are told the list (reconcile_encode), instead of being asked for theirs.
    s->again = true;
    s->listed = true;
    const struct loose_row *row = loose_find(&s->loose, key);
    if (row) {
        s->loose.v[row - s->loose.v].keeper = KEPT_BY_BLOCK;
        return true;
    }
    metric_add(&querier_loose_rows, 1);
    return loose_add(&s->loose, key, KEPT_BY_BLOCK, e);
}

static bool has_hour(const int64_t *v, size_t n, const struct manifest_block *b)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i] >= b->from_hour && v[i] - b->from_hour < (int64_t)b->hours) return true;
    }
    return false;
}

static int by_hour(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// The hours of which heads or segments have rows, each once, in order.
static int64_t *fresh_hours(struct reconciling *s, size_t *n)
{
    const struct reconciled *o = s->out;
    size_t cuts = o->cut_to - o->cut_from;
    int64_t *v = ARENA_ARRAY(s->a->arena, int64_t, cuts + o->snapshot.segment_count + 1);
    *n = 0;
    if (!v) return NULL;
    for (size_t i = 0; i < cuts; i++)
        v[(*n)++] = s->a->fetched.cuts[o->cut_from + i].hour;
    for (size_t i = 0; i < o->snapshot.segment_count; i++)
        v[(*n)++] = o->snapshot.segments[i].name.hour;
    if (*n) qsort(v, *n, sizeof *v, by_hour);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (kept == 0 || v[kept - 1] != v[i]) v[kept++] = v[i];
    }
    *n = kept;
    return v;
}

// A plan of all rows of the segments and of the leaves of fresh hours. Leaves of other hours need
// no search: no head or segment has rows of these hours, and compaction left one copy of each row.
static bool plan_search(struct reconciling *s, struct level_plan *out, err *e)
{
    struct arena *arena = s->a->arena;
    struct level_ask ask = {0};
    size_t hours = 0;
    const int64_t *fresh = fresh_hours(s, &hours);
    if (!fresh || !block_read_ask(s->q, &ask, e)) return fresh ? false : arena_fail(s->a->arena, e);
    struct level_given given = level_given_of(&s->out->snapshot);
    struct manifest_block *leaves =
        ARENA_ARRAY(arena, struct manifest_block, given.block_count + 1);
    if (!leaves) return arena_fail(s->a->arena, e);
    size_t n = 0;
    for (size_t i = 0; i < given.block_count; i++) {
        const struct manifest_block *b = &given.blocks[i];
        if (b->kind == BLOCK_RAW && has_hour(fresh, hours, b)) leaves[n++] = *b;
    }
    given.blocks = leaves;
    given.block_count = n;
    ask.from_ns = s->q->from_ns;
    ask.to_ns = s->q->to_ns;
    ask.use = LEVEL_ROWS;
    return level_plan_given(arena, &given, &ask, out, e);
}

// By row, and of each row the place that counts it first: a leaf, else the segment with the first
// name. The other places skip the row.
static int by_key(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int keys = memcmp(&x->key, &y->key, sizeof x->key);
    if (keys) return keys;
    if (x->object->kind != y->object->kind) return x->object->kind > y->object->kind ? -1 : 1;
    return str_cmp(x->object->name, y->object->name);
}

static struct reconciled_skip *skips_of(struct reconciling *s, str object)
{
    struct reconciled *o = s->out;
    for (size_t i = 0; i < o->skip_count; i++) {
        if (str_eq(o->skips[i].object, object)) return &o->skips[i];
    }
    assert(o->skips);
    struct reconciled_skip *skip = &o->skips[o->skip_count++];
    skip->object = object;  // the plan's; note_skips made room for each object of it
    loose_init(&skip->rows, s->a->arena, s->a->querier->memory, SIZE_MAX);
    return skip;
}

// Notes for each object the rows of it that do not count. Of a row that is left to blocks the first
// place counts, so leaves never skip it: two live leaves do not have the same row. Of a row that
// heads may count no place does.
static bool note_skips(struct reconciling *s, struct search *found, size_t objects, err *e)
{
    struct place *v = found->v;  // sorted by count_lost
    const struct place *first = v;
    assert(s->out->skip_count == 0);
    s->out->skips = ARENA_ARRAY(s->a->arena, struct reconciled_skip, objects + 1);
    if (!s->out->skips) return arena_fail(s->a->arena, e);
    for (size_t i = 0; i < found->n; i++) {
        bool same = i > 0 && memcmp(&v[i].key, &first->key, sizeof v[i].key) == 0;
        bool kept = is_kept(s, v[i].key);
        if (!same) first = &v[i];
        assert(kept || s->last);
        if (!same && !kept) s->left_out++;
        if (kept &&
            (v[i].object->kind != BLOCK_SEGMENT || str_eq(v[i].object->name, first->object->name)))
            continue;
        struct reconciled_skip *skip = skips_of(s, v[i].object->name);
        if (!loose_add(&skip->rows, v[i].key, 0, e)) return false;
    }
    return true;
}

// How many rows that heads were told to leave to blocks are in none now. There are such rows if an
// ingester started anew in between and had not dropped the cut for good: then the head has the row
// again and names the cut, so the segment is left out, and nothing would count the row.
static uint32_t count_lost(const struct reconciling *s, struct search *found)
{
    uint32_t kept = 0;
    uint32_t seen = 0;
    if (found->n) qsort(found->v, found->n, sizeof *found->v, by_key);
    for (uint32_t i = 0; i < s->loose.n; i++)
        kept += s->loose.v[i].keeper == KEPT_BY_BLOCK;
    for (size_t i = 0; i < found->n; i++) {
        const struct place *v = &found->v[i];
        bool first = i == 0 || memcmp(&v->key, &v[-1].key, sizeof v->key) != 0;
        seen += first && is_kept(s, v->key);
    }
    assert(seen <= kept);
    return kept - seen;
}

// Loose rows of these objects are not known, so they may be in heads, or in other objects.
static bool note_faults(struct reconciling *s, const struct block_reads *reads, err *e)
{
    struct answer *a = s->a;
    struct reconciled *o = s->out;
    o->unsearched_count = 0;
    o->unsearched = ARENA_ARRAY(a->arena, str, reads->fault_count + 1);
    if (!o->unsearched) return arena_fail(a->arena, e);
    for (size_t i = 0; i < reads->fault_count; i++) {
        const struct block_fault *f = &reads->faults[i];
        // The segment was absorbed, or the leaf replaced: the next snapshot names its successor.
        if (f->why.code == ERR_NOT_FOUND && !s->last) {
            s->again = true;
            continue;
        }
        if (!fetch_miss(a->arena, &a->fetched, f->object->name, &f->why, e)) return false;
        if (o->unsearched_count == 0) o->unsearched_why = f->why;
        o->unsearched[o->unsearched_count++] = f->object->name;
    }
    return true;
}

static bool search_blocks(struct reconciling *s, err *e)
{
    struct answer *a = s->a;
    struct level_plan plan = {0};
    struct block_reads reads = {0};
    struct search found = {.s = s};
    if (s->crowded) return true;
    if (!plan_search(s, &plan, e)) return false;
    const struct block_loose want = {.wanted = &s->loose,
                                     .placings = &s->placings,
                                     .identified = s->identified,
                                     .anyway = s->last,
                                     .fn = met_row,
                                     .arg = &found};
    if (plan.n &&
        !block_read_loose(a->querier->blocks, &a->x->req, s->q, &plan, &want, &reads, e)) {
        if (!is_crowd(s, e)) return false;
        s->again = !s->last;  // heads that were told a list are asked without one
        return true;
    }
    a->work.reads += reads.reads;
    a->work.bytes += reads.bytes;
    meet_placings(s);
    if (s->again && !s->listed) return true;
    if (!note_faults(s, &reads, e)) return false;
    if (s->again) return true;
    uint32_t lost = count_lost(s, &found);
    if (lost == 0 || s->last) {
        s->left_out += lost;
        return note_skips(s, &found, plan.n, e);
    }
    forget_loose(s);
    s->again = true;
    return true;
}

// A querier without a store has a complete answer only if ingesters do not write to one either.
static bool check_store(struct answer *a, err *e)
{
    static const err why = {
        ERR_UNAVAILABLE,
        "ingesters give profiles to one, but storage.dir of this querier names none"};
    return !a->fetched.stores || fetch_miss(a->arena, &a->fetched, S("object store"), &why, e);
}

// ---- rounds

// One round. *ended: something is missing for which the asker takes no answer, so the rest of the
// work would be in vain.
static bool round_of(struct reconciling *s, bool *ended, err *e)
{
    struct answer *a = s->a;
    str message;
    s->again = false;
    s->told = s->listed;
    s->left_out = 0;
    if (!reconcile_encode(s, &message, e) || !reconcile_ask(s, message, e)) return false;
    *ended = fetch_refuses(&a->fetched, a->takes);
    if (*ended) return true;
    if (!fetch_placings(&a->fetched, s->from, &s->placings, e)) return false;
    meet_placings(s);
    if (s->again) return true;
    if (s->listed) {
        if (!check_keepers(s, e)) return false;
    } else if (!list_loose(s, e)) {
        return false;
    }
    if (!a->querier->manifests) return check_store(a, e);
    // A snapshot now would be dropped: the next round takes one after its answers of heads.
    if (s->again) return true;
    // The snapshot comes after the answers of heads: rows that a head gave up by then, because they
    // are flushed, are in it. Taken before, it could lack rows that no head has any more.
    if (!take(a, s->out, e)) return false;
    if (!s->out->has_blocks) return true;
    if (!check_tombstones(s, e) || !check_absorbed(s, e)) return false;
    choose_segments(a, s->out);
    return s->again || search_blocks(s, e);
}

static bool name_left_out(struct reconciling *s, err *e)
{
    static const err why = {ERR_UNAVAILABLE,
                            "they moved while they were asked for, and are left out"};
    struct answer *a = s->a;
    metric_add(&querier_left_out_rows, s->left_out);
    str name =
        arena_printf(a->arena, "%llu rows of repeated pushes", (unsigned long long)s->left_out);
    return fetch_miss(a->arena, &a->fetched, name, &why, e);
}

static bool name_crowd(struct reconciling *s, err *e)
{
    static const err why = {ERR_RESOURCE_EXHAUSTED, "querier.loose_max"};
    struct answer *a = s->a;
    metric_add(&querier_crowded, 1);
    str name = arena_printf(a->arena, "more than %zu rows of repeated pushes may count twice",
                            s->loose.most);
    return arena_ok(a->arena, e) && fetch_mark(a->arena, &a->fetched, name, &why, e);
}

static bool name_unsure(struct reconciling *s, err *e)
{
    static const err why = {
        ERR_UNAVAILABLE, "they were placed by lists of ingesters that differ, which showed late"};
    return fetch_miss(s->a->arena, &s->a->fetched, S("rows of repeated pushes may count twice"),
                      &why, e);
}

bool reconcile(struct answer *a, const struct query *q, str tenant, str message,
               struct reconciled *out, err *e)
{
    struct reconciling s = {
        .a = a, .q = q, .message = message, .out = out, .from = a->fetched.partial_count};
    *out = (struct reconciled){.tenant = tenant,
                               .cut_from = a->fetched.cut_count,
                               .cut_to = a->fetched.cut_count};
    loose_init(&s.loose, a->arena, a->querier->memory, (size_t)a->config->loose_max);
    bool ok = true;
    bool ended = false;
    assert(!a->querier->manifests || a->querier->blocks);
    s.again = true;
    s.identified = differed_lately(a->querier);
    // A last round asks for one more only if it is the first that lists rows.
    for (unsigned i = 1; ok && s.again && !ended; i++) {
        uint64_t age = clock_mono_ns() - a->began_mono_ns;
        bool patient = i < ROUNDS_MAX && age < (uint64_t)a->config->wait_for_streams;
        assert(!s.last || !s.told);
        s.last = i >= ROUNDS && !patient;
        if (patient && i > ROUNDS_FAST) usleep((useconds_t)(ROUND_PAUSE / 1000));
        ok = round_of(&s, &ended, e);
    }
    if (ok && s.left_out && !ended) ok = name_left_out(&s, e);
    if (ok && s.crowded && !ended) ok = name_crowd(&s, e);
    if (ok && s.unsure && !ended) ok = name_unsure(&s, e);
    loose_release(&s.loose);
    return ok;
}

void reconciled_release(struct reconciled *s)
{
    for (size_t i = 0; i < s->skip_count; i++)
        loose_release(&s->skips[i].rows);
    s->skip_count = 0;
    if (s->has_blocks) snapshot_release(&s->snapshot);
    s->has_blocks = false;
}
