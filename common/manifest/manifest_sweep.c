// SPDX-License-Identifier: Apache-2.0
//
// Cleaning of one tenant. Each step stands alone, so a sweep may end anywhere:
//
//     1. segments   deletes those that a leaf absorbed long enough ago
//     2. garbage    deletes the blocks and pages that the newest version lists as garbage for long
//                   enough
//     3. commit     drops, in one version, the garbage entries whose objects step 2 deleted, and
//                   the sources and expired leaves that nobody needs to know any more
//     4. roots      deletes old versions, oldest first
//     5. orphans    deletes blocks and pages that no version names
//
// What keeps it from deleting something that is needed:
//
//     a named object          stays, whatever the clocks say
//     an object to be named   by a job that runs now: its blocks may seem days old, as the clock of
//                             their writer is behind or ours is ahead. So each object also waits
//                             in the sight of this process (struct sweep_seen), by the clock since
//                             boot: roots and orphans for longer than a job may take
//     readers of old versions segments and garbage stay for their grace, by both clocks
//     clocks that differ      while the newest version shows that they do, no orphan is deleted
//     a segment that is left  would count again if no page named it. So sources are forgotten only
//                             after a LIST of this sweep did not show their segment
#include "base/fault.h"
#include "base/hash.h"
#include "base/search.h"
#include "manifest/manifest_int.h"

#include <stdlib.h>

#define SOURCES_KEPT (7 * SLOT_DAY)     // of a leaf, from its commit or its removal on
#define IMPORTS_KEPT (400 * SLOT_DAY)   // the same of streams of imports
#define PAST_KEPT    SLOT_DAY           // of an expired leaf's id, once no parent names it
#define ORPHAN_SIGHT (6 * JOB_AGE_MAX)  // at least, whatever the age; see orphan_sight
#define ROOT_SIGHT   (2 * JOB_AGE_MAX)  // a commit relies on it: check_late in manifest_commit.c
#define APART_MAX    JOB_AGE_MAX        // of clocks, before orphans stay

#define ERASED_AT_ONCE 64  // objects deleted together; the request may end between two batches

struct sweeping {
    struct manifests *ms;
    struct req *r;
    str tenant;
    str prefix;  // name_of_tenant
    struct manifest_sweep *s;
    struct manifest *m;
    int64_t now_ns;
    int64_t boot_ns;
    struct sweep_seen next;  // what becomes of s->seen if all goes well
    struct arena arena;
    struct segment_name *listed;  // absorbed segments that are there, in order
    size_t listed_count;
    size_t listed_room;
    id128 *named;  // by covers of live parents, in order
    size_t named_count;
};

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

// A time in the future is not old: it comes from a clock that is ahead, and tells nothing.
static bool is_old(int64_t now_ns, int64_t since_ns, int64_t grace_ns)
{
    return since_ns <= now_ns && now_ns - since_ns >= grace_ns;
}

// ---- what was seen before

void sweep_seen_init(struct sweep_seen *s, struct mem_budget *memory)
{
    *s = (struct sweep_seen){.memory = memory};
}

void sweep_seen_release(struct sweep_seen *s)
{
    mem_free(s->memory, s->v, s->cap * sizeof *s->v);
    sweep_seen_init(s, s->memory);
}

static int by_hash(const void *a, const void *b)
{
    const struct seen_object *x = a;
    const struct seen_object *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

// Notes that no version needs the object any more. *ripe: that has been so for `sight` since a
// sweep of this process first noted it. An object that is not noted in some sweep begins anew, as
// only what this sweep notes is remembered.
static bool see(struct sweeping *w, str name, int64_t sight, bool *ripe, err *e)
{
    const struct sweep_seen *seen = w->s->seen;
    assert(sight >= 0);
    struct seen_object o = {hash_table_str(name), w->boot_ns};
    const struct seen_object *before =
        seen->n ? bsearch(&o, seen->v, seen->n, sizeof o, by_hash) : NULL;
    if (before) o.boot_ns = before->boot_ns;
    *ripe = w->boot_ns - o.boot_ns >= sight;
    if (!mem_grow(w->next.memory, &w->next.v, &w->next.cap, w->next.n + 1, sizeof o, e))
        return false;
    w->next.v[w->next.n++] = o;
    return true;
}

// How far the clock of the writer of the newest version is ahead of ours (negative: behind); 0 if
// it is near, or if we cannot know. A version that our last sweep saw already may have been made at
// any time before, so only one that is new since then can show that its writer is behind.
//
// So at its first sweep a process cannot tell a clock of its own that is days ahead from a tenant
// that nobody wrote to for days, and to hold orphans then would hold them for ever. It need not
// tell: nothing that it sees for the first time is deleted. Until orphan_sight has passed, either
// another version appears, which shows how far clocks are apart, or nobody commits for longer than
// a job may take, and then no job will name the orphan, whatever the clocks say.
static int64_t clocks_apart(const struct sweeping *w)
{
    const struct sweep_seen *seen = w->s->seen;
    int64_t ahead = w->m->made_ns - w->now_ns;
    if (w->m->version == 0) return 0;
    if (ahead > APART_MAX) return ahead;
    if (!seen->swept) return 0;
    if (w->m->version == seen->version) return seen->apart_ns;
    int64_t behind = -ahead - (w->boot_ns - seen->boot_ns);
    return behind > APART_MAX ? -behind : 0;
}

static void remember(struct sweeping *w)
{
    struct sweep_seen *seen = w->s->seen;
    assert(w->next.memory == seen->memory);  // ownership moves between the two
    if (w->next.n) qsort(w->next.v, w->next.n, sizeof *w->next.v, by_hash);
    w->next.swept = true;
    w->next.boot_ns = w->boot_ns;
    w->next.version = w->m->version;
    w->next.apart_ns = w->s->apart_ns;
    sweep_seen_release(seen);
    *seen = w->next;
    w->next = (struct sweep_seen){.memory = seen->memory};
}

// Objects to be deleted, a batch at a time.
struct erasing {
    struct sweeping *w;
    const char *what;  // kind, a label of the metric
    uint64_t *count;   // of objects deleted
    str *forget;       // NULL, or: the names of those deleted, behind the prefix
    size_t forget_count;
    struct store_removal *v;
    size_t n;
};

// Deletes the batch. One that fails does not keep the others, and only names that are gone for sure
// come to the list of those to be forgotten: an entry that is dropped too early makes its object an
// orphan, whose grace is far longer.
static bool erase_batch(struct erasing *b, err *e)
{
    struct sweeping *w = b->w;
    bool ok = true;
    assert(b->n <= ERASED_AT_ONCE);
    if (!arena_ok(&w->arena, e) || !req_alive(w->r, e)) return false;
    for (size_t i = 0; i < b->n; i++)
        FAULT("manifest.sweep.before");
    store_delete_many(w->ms->store, w->r, b->v, b->n);
    for (size_t i = 0; i < b->n; i++) {
        const struct store_removal *x = &b->v[i];
        if (!x->ok && ok) *e = x->fault;
        ok = ok && x->ok;
        if (!x->ok) continue;
        FAULT("manifest.sweep.after");
        ++*b->count;
        metric_add_to(&manifest_swept, str_of(b->what), 1);
        if (b->forget) b->forget[b->forget_count++] = str_slice(x->name, w->prefix.n, x->name.n);
    }
    assert(!b->forget || b->forget_count <= *b->count);
    b->n = 0;
    return ok;
}

static bool erase_later(struct erasing *b, str name, err *e)
{
    if (!b->v) b->v = ARENA_ARRAY(&b->w->arena, struct store_removal, ERASED_AT_ONCE);
    if (!b->v) return arena_fail(&b->w->arena, e);
    assert(b->n < ERASED_AT_ONCE);
    b->v[b->n++].name = name;
    return b->n < ERASED_AT_ONCE || erase_batch(b, e);
}

static bool erase_rest(struct erasing *b, err *e)
{
    return b->n == 0 || erase_batch(b, e);
}

// Deletes one object at once. Roots go one after the other, oldest first, so that a sweep that ends
// early leaves a chain of versions without a gap.
static bool erase(struct sweeping *w, str name, const char *what, uint64_t *count, err *e)
{
    if (!arena_ok(&w->arena, e) || !req_alive(w->r, e)) return false;
    FAULT("manifest.sweep.before");
    if (!store_delete(w->ms->store, w->r, name, e)) return false;
    FAULT("manifest.sweep.after");
    ++*count;
    metric_add_to(&manifest_swept, str_of(what), 1);
    return true;
}

// ---- segments

// When the last of the leaves that absorbed the segment came, or went if it is a past one; false:
// no leaf absorbed it. The last one counts, as readers of the version before it need the segment.
static bool absorbed_since(const struct manifest *m, const struct segment_name *s, int64_t *since)
{
    const struct page *p = manifest_page(m, BLOCK_RAW, manifest_window(BLOCK_RAW, s->hour));
    const struct segment_run r = segment_run_of(s);
    const struct absorbed *at = p ? page_absorbed(p, &r, NULL) : NULL;
    if (!at) return false;
    *since = INT64_MIN;
    for (; at; at = page_absorbed(p, &r, at)) {
        int64_t ns = at->by < p->block_count ? p->blocks[at->by].made_ns
                                             : p->past[at->by - p->block_count].removed_ns;
        *since = MAX(*since, ns);
    }
    return true;
}

// Collects the absorbed segments that the store still has. They are needed until the end of the
// sweep, as the sources of leaves are compared with them (keep_sources).
static bool see_segment(void *arg, str name, uint64_t size, err *e)
{
    struct sweeping *w = arg;
    struct segment_name s = {0};
    int64_t since = 0;
    (void)size;
    if (!segment_name_parse(str_slice(name, w->prefix.n + S("live/a/").n, name.n), &s)) {
        metric_add(&manifest_foreign, 1);
        return true;
    }
    if (!absorbed_since(w->m, &s, &since)) return true;
    if (!arena_grow(&w->arena, &w->listed, &w->listed_room, w->listed_count + 1, sizeof s))
        return arena_fail(&w->arena, e);
    w->listed[w->listed_count++] = s;
    return true;
}

static bool sweep_segments(struct sweeping *w, err *e)
{
    str prefix = name_segments(&w->arena, w->tenant);
    if (!arena_ok(&w->arena, e)) return false;
    if (!store_list(w->ms->store, w->r, prefix, (str){0}, see_segment, w, e)) return false;
    struct erasing batch = {.w = w, .what = "segment", .count = &w->s->segments_deleted};
    for (size_t i = 0; i < w->listed_count; i++) {
        int64_t since = 0;
        bool ripe = false;
        bool absorbed = absorbed_since(w->m, &w->listed[i], &since);
        assert(absorbed);  // see_segment saw to it, in the same version
        str name = name_segment(&w->arena, w->tenant, &w->listed[i]);
        if (!see(w, name, w->s->segment_grace_ns, &ripe, e)) return false;
        if (!is_old(w->now_ns, since, w->s->segment_grace_ns)) continue;
        w->s->waiting += !ripe;
        if (ripe && !erase_later(&batch, name, e)) return false;
    }
    return erase_rest(&batch, e);
}

// ---- garbage

static bool is_named_page(const struct manifest *m, id128 id)
{
    for (size_t i = 0; i < m->page_count; i++)
        if (id128_eq(m->refs_of[i].id, id)) return true;
    return false;
}

// Deletes the garbage whose grace is over; the names of what was deleted become c->forget.
static bool sweep_garbage(struct sweeping *w, struct manifest_cleaning *c, err *e)
{
    size_t n = w->m->garbage_count;
    struct erasing blocks = {.w = w, .what = "block", .count = &w->s->blocks_deleted};
    struct erasing pages = {.w = w, .what = "page", .count = &w->s->pages_deleted};
    str *forget = ARENA_ARRAY(&w->arena, str, n + 1);
    blocks.forget = forget;
    pages.forget = ARENA_ARRAY(&w->arena, str, n + 1);
    if (!forget || !pages.forget) return arena_fail(&w->arena, e);
    c->forget = forget;
    for (size_t i = 0; i < n; i++) {
        const struct garbage *g = &w->m->garbage[i];
        struct manifest_block b = {0};
        bool page = false;
        bool ripe = false;
        if (!see(w, g->name, w->s->garbage_grace_ns, &ripe, e)) return false;
        if (!is_old(w->now_ns, g->removed_ns, w->s->garbage_grace_ns)) continue;
        w->s->waiting += !ripe;
        if (!ripe) continue;
        bool known = name_garbage_parse(g->name, &b, &page);
        assert(known);  // root_parse saw to it
        // A version that lists as garbage what it also names is wrong (flametree manifest verify
        // says so). What it names counts.
        bool live = page ? is_named_page(w->m, b.id) : manifest_find(w->m, b.id) != NULL;
        if (live) continue;
        str name = arena_printf(&w->arena, "%.*s%.*s", STR(w->prefix), STR(g->name));
        if (!erase_later(page ? &pages : &blocks, name, e)) return false;
    }
    if (!erase_rest(&blocks, e) || !erase_rest(&pages, e)) return false;
    c->forget_count = blocks.forget_count + pages.forget_count;
    assert(c->forget_count <= n);
    if (pages.forget_count)
        memcpy(forget + blocks.forget_count, pages.forget, pages.forget_count * sizeof *forget);
    return true;
}

// ---- what pages need no more

// The row, from `from` on, of the first listed segment that is in the run; listed_count: there is
// none. Names sort by hour, stream, cut and part, runs by part before cut: segments of other parts
// lie in between and are passed over.
static size_t listed_of(const struct sweeping *w, const struct segment_run *r, size_t from)
{
    const struct segment_name key = {r->hour, r->stream, r->cut, r->part};
    size_t low = SEARCH(at, from, w->listed_count, segment_name_cmp(&w->listed[at], &key) < 0);
    for (; low < w->listed_count; low++) {
        const struct segment_name *s = &w->listed[low];
        if (s->hour != r->hour || !id128_eq(s->stream, r->stream) || s->cut > segment_run_last(r))
            break;
        if (s->part == r->part) return low;
    }
    return w->listed_count;
}

// By its stream an import that is made again is recognised, even if its rows have expired.
static bool import_stays(const struct sweeping *w, const struct segment_run *s, int64_t since_ns)
{
    return stream_is_import(s->stream) && !is_old(w->now_ns, since_ns, IMPORTS_KEPT);
}

// The sources whose segments the LIST of this sweep showed, and imports; all of them while the leaf
// is young, and without memory, as the arena's failure ends the commit anyway.
static const struct segment_run *keep_sources(void *arg, struct arena *a,
                                              const struct segment_run *v, size_t n,
                                              int64_t since_ns, size_t *kept)
{
    const struct sweeping *w = arg;
    *kept = n;
    if (!is_old(w->now_ns, since_ns, SOURCES_KEPT)) return v;
    struct segment_run *left = NULL;
    size_t room = 0;
    *kept = 0;
    for (size_t i = 0; i < n; i++) {
        size_t row = listed_of(w, &v[i], 0);
        if (import_stays(w, &v[i], since_ns)) {
            if (!arena_grow(a, &left, &room, *kept + 1, sizeof *left)) {
                *kept = n;
                return v;
            }
            left[(*kept)++] = v[i];
            continue;
        }
        for (; row < w->listed_count; row = listed_of(w, &v[i], row + 1)) {
            if (!arena_grow(a, &left, &room, *kept + 1, sizeof *left)) {
                *kept = n;
                return v;
            }
            left[(*kept)++] = segment_run_of(&w->listed[row]);
        }
    }
    *kept = segment_runs_join(left, *kept);
    return left;
}

// Must the page know still that the leaf counts? While a live parent names it: that parent would be
// stale otherwise.
static bool keep_past(void *arg, const struct past_block *p)
{
    const struct sweeping *w = arg;
    if (!is_old(w->now_ns, p->removed_ns, PAST_KEPT)) return true;
    return w->named_count && bsearch(&p->id, w->named, w->named_count, sizeof(id128), by_id);
}

// The leaves that live parents name, in order.
static bool gather_named(struct sweeping *w, err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < w->m->block_count; i++)
        for (size_t k = 0; k < w->m->blocks[i].cover_count; k++)
            n += w->m->blocks[i].covers[k].leaf_count;
    w->named = ARENA_ARRAY(&w->arena, id128, n);
    if (!w->named) return arena_fail(&w->arena, e);
    for (size_t i = 0; i < w->m->block_count; i++) {
        for (size_t k = 0; k < w->m->blocks[i].cover_count; k++) {
            const struct manifest_cover *c = &w->m->blocks[i].covers[k];
            if (c->leaf_count)
                memcpy(w->named + w->named_count, c->leaves, c->leaf_count * sizeof *c->leaves);
            w->named_count += c->leaf_count;
        }
    }
    assert(w->named_count == n);
    if (n) qsort(w->named, n, sizeof *w->named, by_id);
    return true;
}

// *count grows by those that will go one day, without those of imports.
static bool all_may_go(struct sweeping *w, const struct segment_run *v, size_t n, int64_t since,
                       size_t *count)
{
    bool old = is_old(w->now_ns, since, SOURCES_KEPT);
    for (size_t i = 0; i < n; i++) {
        if (import_stays(w, &v[i], since)) continue;
        ++*count;
        if (!old || listed_of(w, &v[i], 0) < w->listed_count) return false;
    }
    return true;
}

// A page is written anew once all that it will ever lose may go, so that it happens once or twice
// in its life: all sources of live and past leaves, or all expired ones.
static bool wants_cleaning(struct sweeping *w, const struct page *p)
{
    size_t sources = 0;
    size_t expired = 0;
    bool sources_go = true;
    bool expired_go = true;
    for (size_t i = 0; i < p->block_count && sources_go; i++) {
        const struct manifest_block *b = &p->blocks[i];
        sources_go = all_may_go(w, b->sources, b->source_count, b->made_ns, &sources);
    }
    for (size_t i = 0; i < p->past_count; i++) {
        const struct past_block *b = &p->past[i];
        expired += b->expired;
        if (sources_go)
            sources_go = all_may_go(w, b->sources, b->source_count, b->removed_ns, &sources);
        if (b->expired && keep_past(w, b)) expired_go = false;
    }
    expired += p->expired_count;
    for (size_t i = 0; i < p->expired_count && expired_go; i++) {
        const struct past_block b = {.id = p->expired[i],
                                     .expired = true,
                                     .removed_ns = page_expired_ns(p, i)};
        expired_go = !keep_past(w, &b);
    }
    return (sources && sources_go) || (expired && expired_go);
}

static bool pick_pages(struct sweeping *w, struct manifest_cleaning *c, err *e)
{
    struct page_ref *v = ARENA_ARRAY(&w->arena, struct page_ref, w->m->page_count);
    if (!v) return arena_fail(&w->arena, e);
    if (!gather_named(w, e)) return false;
    for (size_t i = 0; i < w->m->page_count; i++)
        if (w->m->refs_of[i].kind == BLOCK_RAW && wants_cleaning(w, w->m->pages[i]))
            v[c->page_count++] = w->m->refs_of[i];
    c->pages = v;
    return true;
}

// ---- roots

// How many versions, from the oldest on, are old enough. Times grow with versions, so a binary
// search reads few roots. (SEARCH of base/search.h does not serve: each comparison reads a root,
// and may fail.) A version that another sweep deleted meanwhile was old enough. The newest versions
// stay, whatever their age.
static bool count_old(struct sweeping *w, const struct versions *l, size_t *old, err *e)
{
    size_t from = 0;
    size_t to = l->n > w->s->versions ? l->n - w->s->versions : 0;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        int64_t made = INT64_MIN;
        err fault = {0};
        struct manifest *m = root_get(w->ms, w->r, &w->arena, w->tenant, l->v[mid], &fault);
        if (!m && fault.code != ERR_NOT_FOUND) {
            *e = fault;
            return false;
        }
        if (m) made = m->made_ns;
        manifest_unref(m);
        if (made == INT64_MIN || is_old(w->now_ns, made, w->s->version_age_ns))
            from = mid + 1;
        else
            to = mid;
    }
    assert(from == to && from <= l->n);
    *old = from;
    return true;
}

static bool sweep_roots(struct sweeping *w, err *e)
{
    struct versions l;
    size_t old = 0;
    if (!versions_list(w->ms, w->r, &w->arena, w->tenant, &l, e)) return false;
    if (!count_old(w, &l, &old, e)) return false;
    for (size_t i = 0; i < old; i++) {
        if (l.v[i] >= w->m->version) break;
        str name = name_root(&w->arena, w->tenant, l.v[i]);
        bool ripe = false;
        if (!see(w, name, MIN(w->s->version_age_ns, ROOT_SIGHT), &ripe, e)) return false;
        w->s->waiting += !ripe;
        if (ripe && !erase(w, name, "root", &w->s->roots_deleted, e)) return false;
    }
    return true;
}

// ---- orphans

struct orphans {
    struct sweeping *w;
    const id128 *named;  // pages and garbage, in order
    size_t named_count;
    str *v;
    size_t n;
    size_t room;
};

// Collects objects that the newest version does not name, neither as live nor as garbage, and that
// are old by the time in their ULID: its first six bytes, in ms.
static bool see_object(void *arg, str name, uint64_t size, err *e)
{
    struct orphans *o = arg;
    struct manifest_block b = {0};
    bool page = false;
    (void)size;
    if (!name_garbage_parse(str_slice(name, o->w->prefix.n, name.n), &b, &page)) {
        metric_add(&manifest_foreign, 1);
        return true;
    }
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | b.id.b[i];
    if (!is_old(o->w->now_ns, (int64_t)ms * NS_PER_MS, o->w->s->orphan_age_ns)) return true;
    if (manifest_find(o->w->m, b.id)) return true;
    if (o->named_count && bsearch(&b.id, o->named, o->named_count, sizeof b.id, by_id)) return true;
    if (!arena_grow(&o->w->arena, &o->v, &o->room, o->n + 1, sizeof *o->v))
        return arena_fail(&o->w->arena, e);
    o->v[o->n++] = arena_str(&o->w->arena, name);
    return arena_ok(&o->w->arena, e);
}

// How long an orphan waits in our sight: longer than any job may take from its first block to its
// commit, which is four hours at most. A short age of orphans does not shorten it, because a job of
// another process may go by another setting.
static int64_t orphan_sight(const struct manifest_sweep *s)
{
    return MAX(ORPHAN_SIGHT, s->orphan_age_ns / 2 + 2 * JOB_AGE_MAX);
}

static bool sweep_orphans(struct sweeping *w, err *e)
{
    static const char *const folders[] = {"raw/", "h/", "d/", "page/"};
    id128 *named = ARENA_ARRAY(&w->arena, id128, w->m->page_count + w->m->garbage_count);
    if (!named) return arena_fail(&w->arena, e);
    struct orphans o = {.w = w, .named = named};
    for (size_t i = 0; i < w->m->page_count; i++)
        named[o.named_count++] = w->m->refs_of[i].id;
    for (size_t i = 0; i < w->m->garbage_count; i++) {
        struct manifest_block b = {0};
        bool page = false;
        if (name_garbage_parse(w->m->garbage[i].name, &b, &page)) named[o.named_count++] = b.id;
    }
    assert(o.named_count <= w->m->page_count + w->m->garbage_count);
    if (o.named_count) qsort(named, o.named_count, sizeof *named, by_id);
    for (size_t i = 0; i < COUNT(folders); i++) {
        str prefix = arena_printf(&w->arena, "%.*s%s", STR(w->prefix), folders[i]);
        if (!arena_ok(&w->arena, e)) return false;
        if (!store_list(w->ms->store, w->r, prefix, (str){0}, see_object, &o, e)) return false;
    }
    struct erasing batch = {.w = w, .what = "orphan", .count = &w->s->orphans_deleted};
    for (size_t i = 0; i < o.n; i++) {
        bool ripe = false;
        if (!see(w, o.v[i], orphan_sight(w->s), &ripe, e)) return false;
        ripe = ripe && w->s->apart_ns == 0;
        w->s->waiting += !ripe;
        if (ripe && !erase_later(&batch, o.v[i], e)) return false;
    }
    return erase_rest(&batch, e);
}

// ---- all of it

static bool run_sweep(struct sweeping *w, err *e)
{
    struct manifest_cleaning c = {.keep_sources = keep_sources, .keep_past = keep_past, .arg = w};
    struct manifest_change none = {.begun_ns = w->now_ns};
    if (!sweep_segments(w, e) || !sweep_garbage(w, &c, e) || !pick_pages(w, &c, e)) return false;
    FAULT("manifest.swept");
    if (c.forget_count + c.page_count) {
        struct manifest *now = NULL;
        // The steps that follow go by the version that has this: roots below it may be deleted now.
        if (!manifest_apply(w->ms, w->r, w->tenant, &none, &c, &now, e)) return false;
        manifest_unref(w->m);
        w->m = now;
    }
    if (!sweep_roots(w, e)) return false;
    return w->s->orphan_age_ns <= 0 || sweep_orphans(w, e);
}

bool manifest_sweep(struct manifests *ms, struct req *r, str tenant, struct manifest_sweep *s,
                    err *e)
{
    struct sweeping w = {.ms = ms, .r = r, .tenant = tenant, .s = s};
    assert(s->versions > 0 && s->seen);
    w.m = manifest_newest(ms, r, tenant, e);
    if (!w.m) return err_wrap(e, "sweep of tenant %.*s", STR(tenant));
    if (manifest_is_closed(w.m)) {  // erased as a whole (manifest_closed.c)
        manifest_unref(w.m);
        return true;
    }
    arena_init(&w.arena, ms->memory, SIZE_MAX / 4);
    w.now_ns = ms->wall_ns();
    w.boot_ns = ms->boot_ns();
    w.next.memory = s->seen->memory;
    s->apart_ns = clocks_apart(&w);
    if (s->apart_ns) metric_add(&manifest_held_sweeps, 1);
    w.prefix = name_of_tenant(&w.arena, tenant);
    bool ok = arena_ok(&w.arena, e) && run_sweep(&w, e);
    if (ok)
        remember(&w);  // a sweep that failed halfway did not see everything: the last one's holds
    sweep_seen_release(&w.next);
    arena_release(&w.arena);
    manifest_unref(w.m);
    return ok || err_wrap(e, "sweep of tenant %.*s", STR(tenant));
}
