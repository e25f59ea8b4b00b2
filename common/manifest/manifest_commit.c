// SPDX-License-Identifier: Apache-2.0
//
// Commits: a change of a tenant's manifest, from new blocks in the store to a version that names
// them.
//
//     1. find the newest version with a LIST
//     2. check that all blocks which the change replaces or needs are live (check_inputs), that no
//        other leaf absorbed its segments (check_sources), that the sums of expired leaves stay
//     3. write the pages that change, as an object under a new id (manifest_draft.c,
//        manifest_bundle.c); no version names it yet
//     4. check that the blocks of the change are in the store: a sweep elsewhere whose clock is
//        days ahead may have taken them for orphans
//     5. create root v + 1: the moment at which every reader sees the whole change
//
// What may go wrong:
//
//     v + 1 exists             another writer was first: again from 1; pages of windows that did
//                              not change meanwhile are used again (make_page)
//     the creation fails       it may have happened all the same: manifest_root.c compares the
//                              bytes there with ours, which have our nonce. Until v + 1 is known
//                              to be another's, only the same bytes are sent: it lands once
//     nobody saw how it ended  the change is over, with unavailable (work.unknown). A further try
//                              might be refused before the late root shows, and its caller would
//                              delete blocks that this root names
//     the caller tries again   after unavailable, though the change had landed: is_there finds it
//     the process ends         before 5 it leaves orphans, which a sweep deletes
//     the process stands still between 1 and 5, until v + 1 was made and swept: check_late
//
// aborted is our own verdict: no version has the change or ever will, so the caller may delete its
// blocks. A store's aborted means that a request failed; the caller gets unavailable.
#include "base/fault.h"
#include "base/hash.h"
#include "manifest/manifest_commit_int.h"
#include "sys/rand.h"

#include <inttypes.h>
#include <stdlib.h>

#define ATTEMPTS 64  // races lost in a row before the change is given up

// A check of the change's blocks (step 4) holds so long: attempts after a lost race go without.
#define CHECK_GOOD_NS (60 * NS_PER_S)

static int by_str(const void *a, const void *b)
{
    const str *x = a;
    const str *y = b;
    int order = memcmp(x->p, y->p, MIN(x->n, y->n));
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

static bool sort_forget(struct work *w)
{
    const struct manifest_cleaning *k = w->cleaning;
    if (!k || k->forget_count == 0) return true;
    w->forget = ARENA_ARRAY(&w->arena, str, k->forget_count);
    if (!w->forget) return false;
    memcpy(w->forget, k->forget, k->forget_count * sizeof *w->forget);
    qsort(w->forget, k->forget_count, sizeof *w->forget, by_str);
    return true;
}

static bool work_begin(struct work *w, err *e)
{
    const struct manifest_change *c = w->change;
    assert(w->memory && c);
    arena_init(&w->arena, w->ms->memory, SIZE_MAX / 4);
    buf_init(&w->bundle, w->ms->memory, MANIFEST_PAGE_MAX);
    rand_bytes(w->nonce.b, sizeof w->nonce.b);
    if (!manifest_change_check(&w->arena, c, e)) return false;
    w->gone_count = c->remove_count + c->expire_count;
    w->gone = ARENA_ARRAY(&w->arena, id128, w->gone_count);
    if (!w->gone || !ids_sort(&w->arena, c->remove, c->remove_count, &w->removed) ||
        !ids_sort(&w->arena, c->expire, c->expire_count, &w->expired) || !sort_forget(w))
        return arena_fail(&w->arena, e);
    if (c->remove_count) memcpy(w->gone, c->remove, c->remove_count * sizeof *w->gone);
    if (c->expire_count)
        memcpy(w->gone + c->remove_count, c->expire, c->expire_count * sizeof *w->gone);
    qsort(w->gone, w->gone_count, sizeof *w->gone, ids_cmp);
    // A block in both lists would become garbage and count on at the same time.
    for (size_t i = 1; i < w->gone_count; i++)
        if (id128_eq(w->gone[i - 1], w->gone[i]))
            return err_set(e, ERR_INVALID_ARGUMENT, "a block is removed twice");
    return true;
}

static void work_end(struct work *w)
{
    for (size_t i = 0; i < w->made_count; i++)
        page_unref(w->written[i].page);
    buf_release(&w->bundle);
    arena_release(&w->arena);
}

// ---- may it be applied to this version?

// False, with our own verdict: the change is not in any version and never will be.
static bool refuse(struct work *w, err *e)
{
    assert(w->base);
    w->refused = true;
    e->code = ERR_ABORTED;
    return false;
}

static bool gone_by_now(struct work *w, const char *what, id128 id, err *e)
{
    char text[ULID_TEXT];
    ulid_print(id, text);
    err_set(e, ERR_ABORTED, "%s %s is not live in manifest version %" PRIu64, what, text,
            w->base->version);
    return refuse(w, e);
}

// The ids of blocks and pages in the garbage list, in order.
static bool garbage_ids(struct work *w, id128 **out, size_t *n, err *e)
{
    const struct manifest *m = w->base;
    *n = 0;
    *out = ARENA_ARRAY(&w->arena, id128, m->garbage_count);
    if (!*out) return arena_fail(&w->arena, e);
    for (size_t i = 0; i < m->garbage_count; i++) {
        struct manifest_block b = {0};
        bool page = false;
        manifest_step();
        if (name_garbage_parse(m->garbage[i].name, &b, &page)) (*out)[(*n)++] = b.id;
    }
    if (*n) qsort(*out, *n, sizeof **out, ids_cmp);
    return true;
}

static bool check_inputs(struct work *w, err *e)
{
    const struct manifest_change *c = w->change;
    id128 *thrown = NULL;
    size_t thrown_count = 0;
    for (size_t i = 0; i < w->gone_count; i++)
        if (!manifest_find(w->base, w->gone[i]))
            return gone_by_now(w, "replaced block", w->gone[i], e);
    for (size_t i = 0; i < c->need_count; i++)
        if (!manifest_counts(w->base, c->needs[i]))
            return gone_by_now(w, "needed block", c->needs[i], e);
    if (c->needs_all && !manifest_leaves_check(&w->arena, w->base, c, e))
        return e->code == ERR_ABORTED ? refuse(w, e) : false;
    if (!tombstones_calm(w->base, c)) {
        err_set(e, ERR_ABORTED, "a deletion was made or ended since version %" PRIu64, c->calm);
        return refuse(w, e);
    }
    // An added block that is live or garbage came with an earlier try of the change, which others
    // have overtaken since. A second landing would bring a replaced block back.
    if (c->add_count && !garbage_ids(w, &thrown, &thrown_count, e)) return false;
    for (size_t i = 0; i < c->add_count; i++) {
        char text[ULID_TEXT];
        const id128 id = c->add[i].id;
        ulid_print(id, text);
        if (!manifest_counts(w->base, id) && !ids_have(thrown, thrown_count, id)) continue;
        err_set(e, ERR_ABORTED, "block %s is there already, or was removed before", text);
        return refuse(w, e);
    }
    return true;
}

// A segment is absorbed once: of all leaves, living and past, only two may name it besides b. One
// is a leaf that the change replaces. The other is a live leaf that has no series in common with b.
static bool check_source(struct work *w, const struct page *p, const struct manifest_block *b,
                         const struct segment_run *s, err *e)
{
    for (const struct absorbed *at = page_absorbed(p, s, NULL); at; at = page_absorbed(p, s, at)) {
        bool live = at->by < p->block_count;
        const struct manifest_block *by = live ? &p->blocks[at->by] : NULL;
        if (live &&
            (!manifest_blocks_meet(by, b) || ids_have(w->removed, w->change->remove_count, by->id)))
            continue;
        char text[SEGMENT_TEXT];
        char id[ULID_TEXT];
        // Runs that meet share the first segment of the one that begins later.
        const struct segment_name shared = segment_run_at(at->run->cut > s->cut ? at->run : s, 0);
        segment_name_print(&shared, text);
        ulid_print(live ? by->id : p->past[at->by - p->block_count].id, id);
        err_set(e, ERR_ABORTED, "segment %s was absorbed by leaf %s", text, id);
        return refuse(w, e);
    }
    return true;
}

static bool check_sources(struct work *w, err *e)
{
    const struct manifest_change *c = w->change;
    for (size_t i = 0; i < c->add_count; i++) {
        const struct manifest_block *b = &c->add[i];
        const struct page *p =
            b->source_count
                ? manifest_page(w->base, b->kind, manifest_window(b->kind, b->from_hour))
                : NULL;
        for (size_t k = 0; p && k < b->source_count; k++)
            if (!check_source(w, p, b, &b->sources[k], e)) return false;
    }
    return true;
}

static bool check_objects(struct work *w, err *e)
{
    bool gone = false;
    int64_t now_ns = w->ms->boot_ns();
    if (w->checked && now_ns - w->checked_boot_ns < CHECK_GOOD_NS) return true;
    if (!manifest_objects_check(w->ms, w->r, &w->arena, w->change, w->tenant, &gone, e))
        return gone ? refuse(w, e) : false;
    w->checked = true;
    w->checked_boot_ns = now_ns;
    return true;
}

// An earlier try of the change landed, though its caller was told that it failed. A change that
// adds nothing cannot be recognised: made once more it is aborted, as what it takes is not live.
static bool is_there(const struct work *w)
{
    const struct manifest_change *c = w->change;
    for (size_t i = 0; i < c->add_count; i++) {
        const struct manifest_block *b = manifest_find(w->base, c->add[i].id);
        if (!b || b->bytes != c->add[i].bytes) return false;
    }
    for (size_t i = 0; i < w->gone_count; i++)
        if (manifest_find(w->base, w->gone[i])) return false;
    return c->add_count > 0 || tombstones_are_there(w->base, c);
}

// ---- the root

static bool is_forgotten(const struct work *w, str name)
{
    return w->forget && bsearch(&name, w->forget, w->cleaning->forget_count, sizeof name, by_str);
}

static void throw_away(struct work *w, struct manifest *root, str name, uint64_t bytes)
{
    assert(root->garbage && root->version == w->base->version + 1);
    root->garbage[root->garbage_count++] = (struct garbage){name, bytes, w->now_ns};
}

static int by_object(const void *a, const void *b)
{
    const struct page_ref *x = a;
    const struct page_ref *y = b;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

// References of different objects, in the order of these.
static bool sort_objects(struct work *w, const struct manifest *m, struct page_ref **out, size_t *n,
                         err *e)
{
    struct page_ref *v = ARENA_ARRAY(&w->arena, struct page_ref, m->page_count);
    *n = 0;
    *out = v;
    if (!v) return arena_fail(&w->arena, e);
    if (m->page_count) memcpy(v, m->refs_of, m->page_count * sizeof *v);
    if (m->page_count) qsort(v, m->page_count, sizeof *v, by_object);
    for (size_t i = 0; i < m->page_count; i++)
        if (i == 0 || by_object(&v[*n - 1], &v[i]) != 0) v[(*n)++] = v[i];
    return true;
}

// Objects of pages that no page of the next version is in.
static bool throw_pages(struct work *w, struct manifest *root, const struct page_ref *had,
                        size_t had_n, err *e)
{
    struct page_ref *has = NULL;
    size_t n = 0;
    if (!sort_objects(w, root, &has, &n, e)) return false;
    for (size_t i = 0; i < had_n; i++) {
        char id[ULID_TEXT];
        if (n && bsearch(&had[i], has, n, sizeof *has, by_object)) continue;
        ulid_print(had[i].id, id);
        throw_away(w, root, arena_printf(&w->arena, "page/%s", id), had[i].object_bytes);
    }
    return true;
}

// The garbage of the next version: that of the base without what the sweep deleted, the blocks that
// leave, and the objects of pages that are replaced. All stand there with the time of their
// removal.
static bool list_garbage(struct work *w, struct manifest *root, err *e)
{
    str prefix = name_of_tenant(&w->arena, w->tenant);
    struct page_ref *had = NULL;
    size_t n = 0;
    if (!sort_objects(w, w->base, &had, &n, e)) return false;
    size_t room = w->base->garbage_count + w->gone_count + n;
    root->garbage = ARENA_ARRAY(&w->arena, struct garbage, room);
    if (!root->garbage) return arena_fail(&w->arena, e);
    for (size_t i = 0; i < w->base->garbage_count; i++)
        if (!is_forgotten(w, w->base->garbage[i].name))
            root->garbage[root->garbage_count++] = w->base->garbage[i];
    for (size_t i = 0; i < w->gone_count; i++) {
        const struct manifest_block *b = manifest_find(w->base, w->gone[i]);
        assert(b);  // check_inputs saw to it
        throw_away(w, root, str_slice(b->name, prefix.n, b->name.n), b->bytes);
    }
    if (!throw_pages(w, root, had, n, e)) return false;
    assert(root->garbage_count <= room);
    return arena_ok(&w->arena, e);
}

// The root of the next version. Writes the pages that change (step 3).
static bool draft_root(struct work *w, struct manifest *root, err *e)
{
    const struct manifest *base = w->base;
    *root = (struct manifest){
        .tenant = w->tenant,
        .version = base->version + 1,
        .parent_hash = base->version ? base->hash : 0,
        .nonce = w->nonce,
        .made_ns = w->now_ns,
    };
    return tombstones_next(&w->arena, base, w->change, root, e) && draft_pages(w, root, e) &&
           list_garbage(w, root, e);
}

// The version as everybody will read it: a root that could not be read is never created.
static struct manifest *read_back(struct work *w, const struct manifest *root, str bytes, err *e)
{
    struct manifest *m = root_parse(w->memory, w->tenant, root->version, bytes, e);
    if (!m) return NULL;
    assert(m->page_count == root->page_count);
    for (size_t i = 0; i < m->page_count; i++)
        m->pages[i] = page_hold(draft_page_of(w, &m->refs_of[i]));
    if (manifest_finish(m, e)) return m;
    manifest_unref(m);
    return NULL;
}

// ---- attempts

// Steps 3 to 5. The version in memory is complete before the root is created: once the change has
// landed, nothing may fail any more.
static enum outcome put_version(struct work *w, struct manifest **now, err *e)
{
    struct manifest root = {0};
    struct buf bytes;
    if (!draft_root(w, &root, e)) return FAILED;
    assert(root.version == w->base->version + 1);
    buf_init(&bytes, w->ms->memory, MANIFEST_ROOT_MAX);
    root_print(&root, &bytes);
    str name = name_root(&w->arena, w->tenant, root.version);
    struct manifest *m = NULL;
    if (buf_ok(&bytes, e) && arena_ok(&w->arena, e)) m = read_back(w, &root, buf_view(&bytes), e);
    enum outcome out = FAILED;
    if (m && check_objects(w, e)) {
        out = root_create(w->ms, w->r, name, buf_view(&bytes), e);
        w->unknown = out == FAILED;
    }
    buf_release(&bytes);
    if (out == LANDED) {
        assert(m && m->version == w->base->version + 1);
        *now = m;
        return LANDED;
    }
    manifest_unref(m);
    return out;
}

// Did the work on the change begin recently enough, by both clocks (the one on the wall may be set
// back meanwhile)? A sweep takes older blocks for orphans, and sources are forgotten after some
// days, so an old job might absorb a segment again. A cleaning has no blocks: its age is no matter.
static bool is_young(struct work *w, err *e)
{
    int64_t age = w->now_ns - w->change->begun_ns;
    int64_t begun = w->change->begun_boot_ns;
    int64_t most = w->change->age_max_ns ? w->change->age_max_ns : JOB_AGE_MAX;
    if (begun) age = MAX(age, w->ms->boot_ns() - begun);
    if (w->cleaning || age <= most) return true;
    err_set(e, ERR_ABORTED, "the job began %" PRId64 " s ago, allowed %" PRId64, age / NS_PER_S,
            most / NS_PER_S);
    return refuse(w, e);
}

static bool changes_nothing(const struct work *w)
{
    const struct manifest_change *c = w->change;
    const struct manifest_cleaning *k = w->cleaning;
    return c->add_count + w->gone_count == 0 && !tombstones_change(w->base, c) &&
           (!k || k->forget_count + k->page_count == 0);
}

// The time of the next version: that of the base if our clock is up to an hour behind it, so that
// times ascend. A base that is further ahead was made by a wrong clock, which is not followed, or
// all that comes later would seem young until that time.
static int64_t time_of(const struct work *w)
{
    int64_t now_ns = w->ms->wall_ns();
    return w->base->made_ns - now_ns <= JOB_AGE_MAX ? MAX(now_ns, w->base->made_ns) : now_ns;
}

// Steps 2 to 5 for the version in *now, which is the newest one known. LANDED: *now is the version
// that has the change.
static enum outcome attempt(struct work *w, struct manifest **now, err *e)
{
    w->base = *now;
    w->now_ns = time_of(w);
    if (!req_alive(w->r, e)) return FAILED;
    if (is_there(w)) {
        metric_add_to(&manifest_commits, S("found"), 1);
        return LANDED;
    }
    // Or a late writer might create the next version when this one has been deleted already.
    if (manifest_is_closed(w->base)) {
        err_set(e, ERR_FAILED_PRECONDITION, "tenant %.*s is being deleted", STR(w->tenant));
        return FAILED;
    }
    if (!is_young(w, e) || !check_inputs(w, e) || !check_sources(w, e)) return FAILED;
    if (!manifest_keeps_sums(w->r, &w->arena, w->base, w->change, e)) {
        w->refused = e->code == ERR_ABORTED;
        return FAILED;
    }
    if (changes_nothing(w)) return LANDED;
    struct manifest *next = NULL;
    enum outcome out = put_version(w, &next, e);
    if (out != LANDED) return out;
    manifest_unref(*now);
    *now = next;
    metric_add_to(&manifest_commits, S("landed"), 1);
    return LANDED;
}

// A root is deleted ROOT_SIGHT (two hours) after a sweep found it old, at the earliest. If we stood
// still between LIST and creation, others may have made v + 1 and many more, and v + 1 was deleted:
// then our root is below the newest version, where nobody reads it. So a creation an hour or more
// after its LIST counts only if the newest version has the change. LOST: it is applied again.
static enum outcome check_late(struct work *w, struct manifest **now, err *e)
{
    assert(*now && !w->refused);
    struct manifest *newest = manifest_newest(w->ms, w->r, w->tenant, e);
    if (!newest) {
        w->unknown = true;
        err_wrap(e, "manifest root, which was created late");
        return FAILED;
    }
    w->base = newest;
    bool counts = newest->version <= (*now)->version || is_there(w);
    manifest_unref(*now);
    *now = newest;
    return counts ? LANDED : LOST;
}

static bool run_change(struct work *w, struct manifest **now, err *e)
{
    assert(!*now);
    for (int i = 0; i < ATTEMPTS; i++) {
        if (i) manifest_pause(i);  // by chance, or the same writers would meet again
        int64_t listed_ns = w->ms->boot_ns();
        *now = manifest_newest(w->ms, w->r, w->tenant, e);
        if (!*now) return false;
        enum outcome out = attempt(w, now, e);
        if (out == LANDED && w->ms->boot_ns() - listed_ns >= JOB_AGE_MAX)
            out = check_late(w, now, e);
        if (out == LANDED) return true;
        manifest_unref(*now);
        *now = NULL;
        if (out == FAILED) return false;
        metric_add(&manifest_races, 1);
    }
    err_set(e, ERR_ABORTED, "%d other changes of the manifest came first", ATTEMPTS);
    return refuse(w, e);
}

// All attempts, with one nonce; the new version is counted against `memory`. This is where aborted
// and out_of_range (a page or root is too large for the store) become unavailable, as callers have
// other meanings for these, and so does a lack of memory after a root was sent: the caller of this
// function takes resource_exhausted as leave to begin anew with more room.
static bool apply(const struct work *what, struct mem_budget *memory, struct manifest **now, err *e)
{
    struct work w = *what;
    w.memory = memory;
    bool ok = work_begin(&w, e) && run_change(&w, now, e);
    assert(!w.unknown || !w.refused);
    bool untold = !ok && !w.refused && (e->code == ERR_ABORTED || e->code == ERR_OUT_OF_RANGE);
    if (untold || (w.unknown && e->code == ERR_RESOURCE_EXHAUSTED)) e->code = ERR_UNAVAILABLE;
    work_end(&w);
    return ok;
}

// The new version is kept for the next use if there is room for it, at the cost of tenants that
// were used longer ago; else it is counted against the parent budget, for this use alone.
static bool apply_with_room(const struct work *what, struct manifest **now, err *e)
{
    struct manifests *ms = what->ms;
    bool ok = apply(what, &ms->kept, now, e);
    while (!ok && e->code == ERR_RESOURCE_EXHAUSTED && manifests_shrink(ms))
        ok = apply(what, &ms->kept, now, e);
    if (ok || e->code != ERR_RESOURCE_EXHAUSTED) return ok;
    ok = apply(what, ms->memory, now, e);
    if (ok) manifests_not_kept(ms, what->r, what->tenant);
    return ok;
}

bool manifest_apply(struct manifests *ms, struct req *r, str tenant,
                    const struct manifest_change *c, const struct manifest_cleaning *cleaning,
                    struct manifest **now, err *e)
{
    // A cleaning changes no block: is_young does not ask how old it is.
    assert(!cleaning || c->add_count + c->remove_count + c->expire_count == 0);
    struct manifest *m = NULL;
    struct tenant *t = tenant_ref(ms, tenant, e);
    const struct work what = {
        .ms = ms, .r = r, .tenant = tenant, .change = c, .cleaning = cleaning};
    bool ok = t && apply_with_room(&what, &m, e);
    if (ok && m->version) {
        tenant_learn(ms, t, m);
        tenant_saw(ms, t, ms->boot_ns());
    }
    if (t) tenant_unref(ms, t);
    if (ok && now)
        *now = m;
    else
        manifest_unref(m);
    if (ok) return true;
    metric_add_to(&manifest_commits, e->code == ERR_ABORTED ? S("aborted") : S("failed"), 1);
    return err_wrap(e, "commit to the manifest of tenant %.*s", STR(tenant));
}

bool manifest_commit(struct manifests *ms, struct req *r, str tenant,
                     const struct manifest_change *c, struct manifest **now, err *e)
{
    return manifest_apply(ms, r, tenant, c, NULL, now, e);
}
