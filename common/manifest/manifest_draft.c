// SPDX-License-Identifier: Apache-2.0
//
// The pages of the next version (step 3 of a commit): which ones a change makes anew, and of what.
// The new ones become one object, with some of those that stay (manifest_bundle.c).
#include "manifest/manifest_commit_int.h"

#include <stdlib.h>

// The kind and window of a page that the change makes anew.
struct touched {
    enum block_kind kind;
    int64_t window;
};

static int by_kind_window(const void *a, const void *b)
{
    const struct touched *x = a;
    const struct touched *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->window < y->window ? -1 : x->window > y->window;
}

static bool touch_all(struct work *w, struct touched **out, size_t *count, err *e)
{
    const struct manifest_change *c = w->change;
    size_t n = 0;
    size_t more = w->cleaning ? w->cleaning->page_count : 0;
    struct touched *v = ARENA_ARRAY(&w->arena, struct touched, c->add_count + w->gone_count + more);
    if (!v) return arena_fail(&w->arena, e);
    for (size_t i = 0; i < c->add_count; i++)
        v[n++] =
            (struct touched){c->add[i].kind, manifest_window(c->add[i].kind, c->add[i].from_hour)};
    for (size_t i = 0; i < w->gone_count; i++) {
        const struct manifest_block *b = manifest_find(w->base, w->gone[i]);
        assert(b);  // check_inputs saw to it
        v[n++] = (struct touched){b->kind, manifest_window(b->kind, b->from_hour)};
    }
    for (size_t i = 0; i < more; i++) {
        const struct page_ref *p = &w->cleaning->pages[i];
        if (manifest_page(w->base, p->kind, p->window))
            v[n++] = (struct touched){p->kind, p->window};
    }
    assert(n <= c->add_count + w->gone_count + more);
    qsort(v, n, sizeof *v, by_kind_window);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_kind_window(&v[i - 1], &v[i]) != 0) v[kept++] = v[i];
    *out = v;
    *count = kept;
    return true;
}

static bool is_cleaned(const struct work *w, const struct touched *t)
{
    for (size_t i = 0; w->cleaning && i < w->cleaning->page_count; i++) {
        const struct page_ref *p = &w->cleaning->pages[i];
        if (p->kind == t->kind && p->window == t->window) return true;
    }
    return false;
}

struct sources {
    const struct segment_run *v;
    size_t n;
};

// Those of a leaf's sources that no block of the change names.
static struct sources unclaimed(struct work *w, struct sources all)
{
    for (size_t i = 0; i < w->change->add_count && all.n; i++) {
        const struct manifest_block *b = &w->change->add[i];
        if (b->source_count)
            all.v =
                segment_runs_minus(&w->arena, all.v, all.n, b->sources, b->source_count, &all.n);
    }
    return all;
}

static struct sources kept(struct work *w, struct sources all, int64_t since_ns)
{
    const struct manifest_cleaning *k = w->cleaning;
    all.v = k->keep_sources(k->arg, &w->arena, all.v, all.n, since_ns, &all.n);
    assert(all.v || all.n == 0);
    return all;
}

// What a page must remember of a block that leaves; NULL: nothing. An expired leaf counts on in its
// parents. Sources of a replaced leaf that no successor names must stay absorbed.
static const struct past_block *past_of(struct work *w, const struct manifest_block *b)
{
    assert(b && ids_have(w->gone, w->gone_count, b->id));
    bool expired = ids_have(w->expired, w->change->expire_count, b->id);
    struct sources left = {b->sources, b->source_count};
    if (b->kind != BLOCK_RAW) return NULL;
    if (!expired) left = unclaimed(w, left);
    if (!expired && left.n == 0) return NULL;
    struct past_block *p = ARENA_NEW(&w->arena, struct past_block);
    if (p) {
        *p = (struct past_block){.id = b->id,
                                 .expired = expired,
                                 .removed_ns = w->now_ns,
                                 .sources = left.v,
                                 .source_count = left.n,
                                 .erased = !expired};
    }
    return p;
}

// The block without sources that nobody needs any more; without memory (draft_page asks the arena
// afterwards) as it is.
static const struct manifest_block *clean_block(struct work *w, const struct manifest_block *b)
{
    struct sources left = kept(w, (struct sources){b->sources, b->source_count}, b->made_ns);
    if (left.v == b->sources) return b;

    struct manifest_block *copy = ARENA_NEW(&w->arena, struct manifest_block);
    if (!copy) return b;
    *copy = *b;
    copy->sources = left.v;
    copy->source_count = (uint32_t)left.n;
    return copy;
}

// The past leaf without what nobody needs any more; NULL: it can be forgotten as a whole.
static const struct past_block *clean_past(struct work *w, const struct past_block *p)
{
    assert(p);
    struct past_block *copy = ARENA_NEW(&w->arena, struct past_block);
    if (!copy) return p;
    *copy = *p;
    struct sources left = kept(w, (struct sources){p->sources, p->source_count}, p->removed_ns);
    copy->sources = left.v;
    copy->source_count = left.n;
    copy->expired = p->expired && w->cleaning->keep_past(w->cleaning->arg, p);
    return copy->expired || left.n ? copy : NULL;
}

static int by_block(const void *a, const void *b)
{
    return manifest_block_cmp(*(const struct manifest_block *const *)a,
                              *(const struct manifest_block *const *)b);
}

// What the new page takes over from the old one.
static void draft_old(struct work *w, struct page_draft *d, const struct page *p, bool clean)
{
    size_t n = 0;
    const struct past_block **before = page_past(&w->arena, p, &n);
    for (size_t i = 0; i < p->block_count; i++) {
        const struct manifest_block *b = &p->blocks[i];
        if (ids_have(w->gone, w->gone_count, b->id)) {
            const struct past_block *past = past_of(w, b);
            if (past) d->past[d->past_count++] = past;
        } else {
            d->blocks[d->block_count++] = clean ? clean_block(w, b) : b;
        }
    }
    for (size_t i = 0; before && i < n; i++) {
        const struct past_block *past = clean ? clean_past(w, before[i]) : before[i];
        if (past) d->past[d->past_count++] = past;
    }
}

// The blocks that the change adds to this page, dated by the version.
static bool draft_new(struct work *w, struct page_draft *d, err *e)
{
    for (size_t i = 0; i < w->change->add_count; i++) {
        const struct manifest_block *b = &w->change->add[i];
        if (b->kind != d->kind || manifest_window(b->kind, b->from_hour) != d->window) continue;
        struct manifest_block *copy = ARENA_NEW(&w->arena, struct manifest_block);
        if (!copy) return arena_fail(&w->arena, e);
        *copy = *b;
        copy->made_ns = w->now_ns;
        d->blocks[d->block_count++] = copy;
    }
    return true;
}

static bool draft_page(struct work *w, const struct touched *t, const struct page *old,
                       struct page_draft *d, err *e)
{
    size_t blocks = old ? old->block_count : 0;
    size_t past = old ? old->expired_count + old->past_count : 0;
    *d = (struct page_draft){.kind = t->kind, .window = t->window};
    d->blocks =
        ARENA_ARRAY(&w->arena, const struct manifest_block *, blocks + w->change->add_count);
    d->past = ARENA_ARRAY(&w->arena, const struct past_block *, blocks + past);
    if (!d->blocks || !d->past) return arena_fail(&w->arena, e);
    if (old) draft_old(w, d, old, is_cleaned(w, t));
    if (!arena_ok(&w->arena, e) || !draft_new(w, d, e)) return false;
    assert(d->block_count <= blocks + w->change->add_count && d->past_count <= blocks + past);
    qsort(d->blocks, d->block_count, sizeof *d->blocks, by_block);
    qsort(d->past, d->past_count, sizeof *d->past, past_cmp);
    return arena_ok(&w->arena, e);
}

// Room for one more row of w->written.
static bool row_room(struct work *w, err *e)
{
    return arena_grow(&w->arena, &w->written, &w->made_room, w->made_count + 1,
                      sizeof *w->written) ||
           arena_fail(&w->arena, e);
}

static const struct page_ref *ref_of(const struct manifest *m, const struct touched *t)
{
    return manifest_page_ref(m, t->kind, t->window);
}

// The page of this change for t, as a row of w->written: that of an earlier attempt if it replaces
// the same page.
static bool make_page(struct work *w, const struct touched *t, size_t *row, err *e)
{
    const struct page_ref *old = ref_of(w->base, t);
    struct written made = {.ref = {.kind = t->kind, .window = t->window},
                           .from_hash = old ? old->hash : 0,
                           .from_bytes = old ? old->bytes : 0};
    for (size_t i = 0; i < w->made_count; i++) {
        const struct written *m = &w->written[i];
        *row = i;
        if (!m->moved && m->ref.kind == t->kind && m->ref.window == t->window &&
            m->from_hash == made.from_hash && m->from_bytes == made.from_bytes)
            return true;
    }
    struct page_draft d = {0};
    if (!draft_page(w, t, manifest_page(w->base, t->kind, t->window), &d, e)) return false;
    made.empty = d.block_count == 0 && d.past_count == 0;
    if (!row_room(w, e) || (!made.empty && !bundle_add(w, &d, &made, e))) return false;
    *row = w->made_count;
    w->written[w->made_count++] = made;
    return true;
}

// ---- pages that stay

static bool is_touched(const struct page_ref *p, const struct touched *t, size_t n)
{
    struct touched key = {p->kind, p->window};
    return n && bsearch(&key, t, n, sizeof *t, by_kind_window);
}

// Those of the base that the change does not make anew; none if it closes the tenant: the closed
// version has no blocks, and those of older ones are deleted hours later.
static bool list_staying(struct work *w, const struct touched *t, size_t n, struct page_ref **out,
                         size_t *count, err *e)
{
    *count = 0;
    *out = ARENA_ARRAY(&w->arena, struct page_ref, w->base->page_count);
    if (!*out) return arena_fail(&w->arena, e);
    for (size_t i = 0; !w->change->close && i < w->base->page_count; i++)
        if (!is_touched(&w->base->refs_of[i], t, n)) (*out)[(*count)++] = w->base->refs_of[i];
    return true;
}

// Adds some of them to the object of the new pages (manifest_bundle.c).
static bool move_some(struct work *w, const struct page_ref *v, size_t n, err *e)
{
    bool *moves = ARENA_ARRAY(&w->arena, bool, n);
    if (!moves || !bundle_choose(&w->arena, v, n, w->bundle.n, moves))
        return arena_fail(&w->arena, e);
    for (size_t i = 0; i < n; i++) {
        struct written m = {.moved = true};
        bool moved = false;
        if (!moves[i]) continue;
        const struct page *page = manifest_page(w->base, v[i].kind, v[i].window);
        if (!row_room(w, e) || !bundle_move(w, &v[i], page, &m.ref, &moved, e)) return false;
        if (moved) w->written[w->made_count++] = m;
    }
    return true;
}

// Where such a page lies now.
static const struct page_ref *place_of(const struct work *w, const struct page_ref *ref)
{
    for (size_t i = 0; i < w->made_count; i++) {
        const struct written *m = &w->written[i];
        if (m->moved && m->ref.kind == ref->kind && page_ref_same(&m->ref, ref)) return &m->ref;
    }
    return ref;
}

// ---- all of them

static int by_ref(const void *a, const void *b)
{
    const struct page_ref *x = a;
    const struct page_ref *y = b;
    struct touched s = {x->kind, x->window};
    struct touched t = {y->kind, y->window};
    return by_kind_window(&s, &t);
}

bool draft_pages(struct work *w, struct manifest *root, err *e)
{
    struct touched *t = NULL;
    struct page_ref *staying = NULL;
    size_t n = 0;
    size_t stay = 0;
    // Pages are moved once for a change: another attempt at it takes the places that there are.
    bool first = w->made_count == 0;
    if (!touch_all(w, &t, &n, e) || !list_staying(w, t, n, &staying, &stay, e)) return false;
    size_t *rows = ARENA_ARRAY(&w->arena, size_t, n);
    root->refs_of = ARENA_ARRAY(&w->arena, struct page_ref, stay + n);
    if (!rows || !root->refs_of) return arena_fail(&w->arena, e);
    for (size_t i = 0; i < n; i++)
        if (!make_page(w, &t[i], &rows[i], e)) return false;
    if (first && !move_some(w, staying, stay, e)) return false;
    if (!bundle_flush(w, e)) return false;
    for (size_t i = 0; i < stay; i++)
        root->refs_of[root->page_count++] = *place_of(w, &staying[i]);
    for (size_t i = 0; i < n; i++)
        if (!w->written[rows[i]].empty) root->refs_of[root->page_count++] = w->written[rows[i]].ref;
    assert(root->page_count <= stay + n);
    if (root->page_count) qsort(root->refs_of, root->page_count, sizeof *root->refs_of, by_ref);
    return true;
}

struct page *draft_page_of(const struct work *w, const struct page_ref *ref)
{
    const struct page_ref *old = manifest_page_ref(w->base, ref->kind, ref->window);
    if (old && page_ref_same(old, ref)) return w->base->pages[old - w->base->refs_of];
    for (size_t i = 0; i < w->made_count; i++) {
        const struct written *m = &w->written[i];
        if (m->page && id128_eq(m->ref.id, ref->id) && m->ref.at == ref->at) return m->page;
    }
    abort();  // draft_pages names only pages of the base and those that were made
}
