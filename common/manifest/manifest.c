// SPDX-License-Identifier: Apache-2.0
//
// The table of tenants, reading the newest version, and lookups in it.
//
// An entry of the table keeps the newest version that this process read (known), or the same in few
// bytes (packed). Both are caches: whoever needs the newest version makes a LIST, and takes from
// the kept one only the pages that did not change. A lack of memory costs such an entry, never a
// request that could do without it.
#include "manifest/manifest.h"

#include "base/hash.h"
#include "base/search.h"
#include "manifest/manifest_int.h"
#include "sys/log.h"

#include <inttypes.h>
#include <stdlib.h>

#define TENANTS_KEPT 4096  // beyond these, a new entry takes the place of an unused one
#define READ_BYTES   ((uint64_t)32 << 20)  // of pages at a time, unless a single page has more
#define INSPECTIONS  4  // tries to read the newest version, while sweeps delete what was listed

// ---- life

struct manifests *manifests_open(struct store *s, struct mem_budget *memory,
                                 int64_t (*wall_ns)(void), err *e)
{
    struct manifests *ms = mem_alloc(memory, sizeof *ms, e);
    if (!ms) return NULL;
    ms->store = s;
    ms->memory = memory;
    mem_budget_init(&ms->kept, "manifests", memory, 0);
    ms->wall_ns = wall_ns ? wall_ns : clock_wall_ns;
    ms->boot_ns = wall_ns ? wall_ns : clock_boot_ns;
    lock_init(&ms->lock, LOCK_MANIFESTS);
    cond_init(&ms->change);
    cond_init(&ms->end);
    metric_register(manifest_metrics, manifest_metric_count);
    return ms;
}

void manifests_set_boot(struct manifests *ms, int64_t (*boot_ns)(void))
{
    ms->boot_ns = boot_ns;
}

void manifests_limit(struct manifests *ms, const char *name, size_t bytes)
{
    const struct mem_budget *t = mem_tightest(ms->memory);
    assert(ms->tenant_count == 0 && atomic_load(&ms->kept.used) == 0);  // nothing is counted yet
    mem_budget_init(&ms->kept, name, ms->memory, bytes);
    if (t) ms->kept.leaves = atomic_load(&t->limit) / 4;
}

struct mem_budget *manifests_budget(struct manifests *ms)
{
    return &ms->kept;
}

void manifests_close(struct manifests *ms)
{
    if (!ms) return;
    manifests_end_rest(ms);
    while (manifests_shrink(ms)) {
    }
    assert(ms->tenant_count == 0);  // else a thread uses one still, or a version was not let go
    cond_release(&ms->end);
    cond_release(&ms->change);
    lock_release(&ms->lock);
    mem_free(ms->memory, ms, sizeof *ms);
}

// ---- tenants, under the lock

static void unlink_use(struct manifests *ms, struct tenant *t)
{
    assert(lock_is_mine(&ms->lock));
    *(t->newer ? &t->newer->older : &ms->newest) = t->older;
    *(t->older ? &t->older->newer : &ms->oldest) = t->newer;
    t->newer = NULL;
    t->older = NULL;
}

static void link_use(struct manifests *ms, struct tenant *t)
{
    assert(lock_is_mine(&ms->lock) && !t->newer && !t->older);
    t->older = ms->newest;
    *(ms->newest ? &ms->newest->newer : &ms->oldest) = t;
    ms->newest = t;
}

static struct tenant *find(struct manifests *ms, str name, uint64_t hash)
{
    assert(lock_is_mine(&ms->lock));
    struct tenant *t = ms->chains[hash % TENANT_CHAINS];
    while (t && !(t->hash == hash && str_eq(str_make(t->name, t->name_n), name)))
        t = t->next;
    return t;
}

static void unlink_tenant(struct manifests *ms, struct tenant *t)
{
    struct tenant **at = &ms->chains[t->hash % TENANT_CHAINS];
    while (*at != t) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = t->next;
    unlink_use(ms, t);
    assert(ms->tenant_count > 0);
    ms->tenant_count--;
    // Minus 1. The gauge is not set to tenant_count, as services of one process share it.
    metric_add(&manifest_kept, UINT64_MAX);
}

// One reference is the table's own. A further one can only be made under the lock, or from one that
// exists; so a count of 1 seen under the lock stays 1.
bool tenant_in_use(const struct tenant *t)
{
    return t->users || (t->known && atomic_load(&t->known->refs) > 1);
}

static struct tenant *take_oldest(struct manifests *ms)
{
    assert(lock_is_mine(&ms->lock));
    struct tenant *t = ms->oldest;
    while (t && tenant_in_use(t))
        t = t->newer;
    if (t) unlink_tenant(ms, t);
    return t;
}

static void tenant_free(struct manifests *ms, struct tenant *t)
{
    if (!t) return;
    assert(t->users == 0 && !t->newer && !t->older);  // out of the table
    manifest_unref(t->known);
    packed_unref(t->packed);
    mem_free(ms->memory, t, sizeof *t + t->name_n);
}

bool manifests_shrink(struct manifests *ms)
{
    lock_take(&ms->lock);
    struct tenant *t = take_oldest(ms);
    lock_give(&ms->lock);
    // Out of the table it is ours alone: it is freed without the lock.
    if (t && (t->known || t->packed)) metric_add(&manifest_evictions, 1);
    tenant_free(ms, t);
    return t != NULL;
}

#define TELL_NS ((uint64_t)60 * NS_PER_S)  // one line of the log in this time

void manifests_not_kept(struct manifests *ms, const struct req *r, str tenant)
{
    uint64_t told = atomic_load(&ms->told_mono_ns);
    uint64_t now = clock_mono_ns();
    metric_add(&manifest_not_kept, 1);
    if (told && now - told < TELL_NS) return;
    // Of several threads that come here at once, one writes the line.
    if (!atomic_compare_exchange_strong(&ms->told_mono_ns, &told, now)) return;
    log_warn(&r->log, "manifest.not_kept",
             "of=%.*s budget=%s used=%zu limit=%zu action=\"raise that setting (or memory_limit): "
             "manifests that find no room are read anew for each use\"",
             STR(tenant), ms->kept.name, atomic_load(&ms->kept.used), atomic_load(&ms->kept.limit));
}

// Has the parent budget less left than we are to leave to others? Then what is kept must give way.
static bool is_pressed(const struct manifests *ms)
{
    const struct mem_budget *t = ms->kept.leaves ? mem_tightest(ms->memory) : NULL;
    if (!t) return false;
    size_t limit = atomic_load(&t->limit);
    size_t used = atomic_load(&t->used);
    return used > limit || limit - used < ms->kept.leaves;
}

void manifests_relieve(struct manifests *ms)
{
    while (is_pressed(ms) && manifests_shrink(ms)) {
    }
}

static struct tenant *tenant_new(struct manifests *ms, str name, uint64_t hash, err *e)
{
    struct tenant *t = mem_alloc(ms->memory, sizeof *t + name.n, e);
    while (!t && manifests_shrink(ms))
        t = mem_alloc(ms->memory, sizeof *t + name.n, e);
    if (!t) return NULL;
    t->hash = hash;
    t->name_n = name.n;
    if (name.n) memcpy(t->name, name.p, name.n);
    return t;
}

struct tenant *tenant_ref(struct manifests *ms, str name, err *e)
{
    uint64_t hash = hash_table_str(name);
    if (!name_tenant_ok(name)) {
        err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is no name of a tenant",
                STR(str_slice(name, 0, NAME_TENANT_MAX)));
        return NULL;
    }
    // A new entry is allocated without the lock, as that may evict others. Another thread may enter
    // the tenant meanwhile, so the table is looked at again before ours goes in.
    struct tenant *made = NULL;
    for (;;) {
        struct tenant *spare = NULL;
        lock_take(&ms->lock);
        struct tenant *t = find(ms, name, hash);
        if (t) {
            unlink_use(ms, t);
        } else if (made) {
            t = made;
            made = NULL;
            if (ms->tenant_count >= TENANTS_KEPT) spare = take_oldest(ms);
            t->next = ms->chains[hash % TENANT_CHAINS];
            ms->chains[hash % TENANT_CHAINS] = t;
            ms->tenant_count++;
            metric_add(&manifest_kept, 1);
        }
        if (t) {
            link_use(ms, t);
            t->used_mono_ns = clock_mono_ns();
            t->users++;
        }
        lock_give(&ms->lock);
        tenant_free(ms, spare);
        if (t) {
            tenant_free(ms, made);
            return t;
        }
        made = tenant_new(ms, name, hash, e);
        if (!made) return NULL;
    }
}

void tenant_unref(struct manifests *ms, struct tenant *t)
{
    lock_take(&ms->lock);
    assert(t->users > 0);
    t->used_mono_ns = clock_mono_ns();
    t->users--;
    lock_give(&ms->lock);
    manifests_relieve(ms);
}

struct manifest *tenant_known(struct manifests *ms, struct tenant *t)
{
    lock_take(&ms->lock);
    struct manifest *m = t->known ? manifest_hold(t->known) : NULL;
    struct packed *p = !m && t->packed ? packed_hold(t->packed) : NULL;
    lock_give(&ms->lock);
    if (!p) return m;
    // Unpacking takes milliseconds, so it happens without the lock; two threads may both do it, and
    // tenant_learn keeps one result. Without memory the caller reads the version from the store, as
    // if it had never been known.
    err ignored = {0};
    m = manifest_unpack(p, str_make(t->name, t->name_n), ms->memory, &ignored);
    if (m) tenant_learn(ms, t, m);
    packed_unref(p);
    return m;
}

uint64_t tenant_version(struct manifests *ms, struct tenant *t)
{
    lock_take(&ms->lock);
    uint64_t version = t->known ? t->known->version : t->packed ? packed_version(t->packed) : 0;
    lock_give(&ms->lock);
    return version;
}

void tenant_learn(struct manifests *ms, struct tenant *t, struct manifest *m)
{
    struct manifest *old = NULL;
    struct packed *packed = NULL;
    if (m->arena.budget != &ms->kept) return;  // it is for one use alone
    assert(m->version > 0);
    lock_take(&ms->lock);
    // A packed form of the same version gives way: this is how a tenant ends its rest.
    bool is_news = t->known    ? t->known->version < m->version
                   : t->packed ? packed_version(t->packed) <= m->version
                               : true;
    if (is_news) {
        old = t->known;
        packed = t->packed;
        t->known = manifest_hold(m);
        t->packed = NULL;
    }
    lock_give(&ms->lock);
    manifest_unref(old);
    packed_unref(packed);
}

void tenant_forget(struct manifests *ms, struct tenant *t)
{
    lock_take(&ms->lock);
    struct manifest *old = t->known;
    struct packed *packed = t->packed;
    t->known = NULL;
    t->packed = NULL;
    lock_give(&ms->lock);
    manifest_unref(old);
    packed_unref(packed);
}

// ---- versions

struct manifest *manifest_hold(struct manifest *m)
{
    unsigned before = atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    assert(before > 0);
    return m;
}

void manifest_unref(struct manifest *m)
{
    if (!m) return;
    unsigned before = atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1) return;
    struct mem_budget *memory = m->arena.budget;
    for (size_t i = 0; i < m->page_count; i++)
        page_unref(m->pages[i]);
    map_release(&m->ids);
    mem_free(memory, m->blocks, m->block_room * sizeof *m->blocks);
    mem_free(memory, m->past_of, m->page_count * sizeof *m->past_of);
    arena_release(&m->arena);
    mem_free(memory, m, sizeof *m);
}

static uint64_t id_hash(id128 id)
{
    return hash_table_bytes(id.b, sizeof id.b);
}

// Rows number all blocks of the version, and behind them page by page the expired leaves and the
// other past ones. Page i's begin at past_of[i].
static id128 id_of_row(const struct manifest *m, uint32_t row)
{
    if (row < m->block_count) return m->blocks[row].id;
    assert(m->page_count > 0 && row >= m->past_of[0]);
    size_t from = SEARCH(at, 1, m->page_count, m->past_of[at] <= row) - 1;
    const struct page *p = m->pages[from];
    row -= m->past_of[from];
    return row < p->expired_count ? p->expired[row] : p->past[row - p->expired_count].id;
}

static uint32_t row_of(const struct manifest *m, id128 id)
{
    uint32_t step = 0;
    uint64_t hash = id_hash(id);
    uint32_t row = map_next(&m->ids, hash, &step);
    while (row != MAP_NONE && !id128_eq(id_of_row(m, row), id))
        row = map_next(&m->ids, hash, &step);
    return row;
}

// One array of the blocks of all pages. Pages are in order of kind and window, blocks within a page
// in order as well, so the whole is in the order that manifest_blocks promises.
static bool gather(struct manifest *m, err *e)
{
    size_t blocks = 0;
    size_t past = 0;
    assert(!m->blocks && !m->past_of && m->block_count == 0);
    for (size_t i = 0; i < m->page_count; i++) {
        assert(m->pages[i]);
        blocks += m->pages[i]->block_count;
        past += m->pages[i]->expired_count + m->pages[i]->past_count;
    }
    if (blocks + past > UINT32_MAX / 2)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "%zu blocks", blocks + past);
    struct mem_budget *memory = m->arena.budget;
    m->blocks = blocks ? mem_alloc(memory, blocks * sizeof *m->blocks, e) : NULL;
    m->block_room = m->blocks ? blocks : 0;
    m->past_of = m->page_count ? mem_alloc(memory, m->page_count * sizeof *m->past_of, e) : NULL;
    if ((blocks && !m->blocks) || (m->page_count && !m->past_of)) return false;
    past = blocks;
    for (size_t i = 0; i < m->page_count; i++) {
        const struct page *p = m->pages[i];
        if (m->blocks && p->block_count)
            memcpy(&m->blocks[m->block_count], p->blocks, p->block_count * sizeof *p->blocks);
        m->block_count += p->block_count;
        m->past_of[i] = (uint32_t)past;
        past += p->expired_count + p->past_count;
        m->expired_count += p->expired_count;
        for (size_t k = 0; k < p->past_count; k++)
            m->expired_count += p->past[k].expired;
    }
    assert(m->block_count == blocks);
    return true;
}

static bool put_id(struct manifest *m, id128 id, size_t row, err *e)
{
    if (row_of(m, id) == MAP_NONE) return map_put(&m->ids, id_hash(id), (uint32_t)row, e);
    char text[ULID_TEXT];
    ulid_print(id, text);
    return err_set(e, ERR_DATA_LOSS,
                   "manifest version %" PRIu64 " of tenant %.*s: id %s occurs twice", m->version,
                   STR(m->tenant), text);
}

// The map has the blocks that count: live ones and expired leaves. A replaced leaf that is only
// remembered for its sources is left out.
bool manifest_finish(struct manifest *m, err *e)
{
    if (!gather(m, e)) return false;
    bool ok = map_reserve(&m->ids, (uint32_t)(m->block_count + m->expired_count), e);
    for (size_t i = 0; ok && i < m->block_count; i++)
        ok = put_id(m, m->blocks[i].id, i, e);
    for (size_t i = 0; ok && i < m->page_count; i++) {
        const struct page *p = m->pages[i];
        size_t row = m->past_of[i];
        for (size_t k = 0; ok && k < p->expired_count; k++)
            ok = put_id(m, p->expired[k], row++, e);
        for (size_t k = 0; ok && k < p->past_count; k++, row++)
            if (p->past[k].expired) ok = put_id(m, p->past[k].id, row, e);
    }
    return ok;
}

struct manifest *manifest_empty(struct manifests *ms, str tenant, err *e)
{
    struct manifest *m = mem_alloc(ms->memory, sizeof *m, e);
    if (!m) return NULL;
    arena_init(&m->arena, ms->memory, SIZE_MAX / 4);
    map_init(&m->ids, ms->memory);
    atomic_init(&m->refs, 1);
    m->tenant = arena_str(&m->arena, tenant);
    if (arena_ok(&m->arena, e)) return m;
    manifest_unref(m);
    return NULL;
}

// ---- reading

struct highest {
    str prefix;
    struct listed_root root;
};

static bool see_root(void *arg, str name, uint64_t size, err *e)
{
    struct highest *h = arg;
    uint64_t version = 0;
    (void)e;
    if (!name_root_version(str_slice(name, h->prefix.n, name.n), &version))
        metric_add(&manifest_foreign, 1);
    else if (version > h->root.version)
        h->root = (struct listed_root){version, size};
    return true;
}

void manifests_keep_pages(struct manifests *ms, const struct manifest_page_keeper *keeper)
{
    assert(keeper->get && keeper->put);
    ms->keeper = *keeper;
}

bool manifest_list(struct manifests *ms, struct req *r, str tenant, uint64_t after,
                   struct listed_root *root, err *e)
{
    struct highest h = {.prefix = name_roots(&r->arena, tenant)};
    str from = after ? name_root(&r->arena, tenant, after) : (str){0};
    if (!arena_ok(&r->arena, e)) return false;
    if (!store_list(ms->store, r, h.prefix, from, see_root, &h, e)) return false;
    *root = h.root;
    return true;
}

bool manifest_list_is_new(struct manifests *ms, struct req *r, str tenant, uint64_t listed,
                          uint64_t known, err *e)
{
    uint64_t size = 0;
    err why = {0};
    if (listed >= known) return true;
    str name = name_root(&r->arena, tenant, known);
    if (!arena_ok(&r->arena, e)) return false;
    if (store_size(ms->store, r, name, &size, &why))
        return err_set(e, ERR_UNAVAILABLE, "a list lacks object %.*s, which is there", STR(name));
    if (why.code == ERR_NOT_FOUND) return true;  // the store was emptied or put back
    *e = why;
    return false;
}

// The page, if `base` has it, in whichever object: with a reference. The id says nothing: a store
// that was put back from a backup may have another page under it.
static struct page *page_of(const struct manifest *base, const struct page_ref *ref)
{
    const struct page_ref *b = base ? manifest_page_ref(base, ref->kind, ref->window) : NULL;
    return b && page_ref_same(b, ref) ? page_hold(base->pages[b - base->refs_of]) : NULL;
}

// An object that is shorter than the LIST or the root said is damaged. False.
static bool short_is_damage(err *e)
{
    if (e->code == ERR_OUT_OF_RANGE) e->code = ERR_DATA_LOSS;
    return false;
}

// Checks and parses a page that was read. The hash of the root is checked first: pages of format 1
// and 2 contain none of their own.
static bool take_page(struct manifest *m, size_t i, const struct store_read *read, err *e)
{
    const struct page_ref *ref = &m->refs_of[i];
    if (!read->ok) {
        *e = read->fault;
        (void)short_is_damage(e);
        return err_wrap(e, "manifest version %" PRIu64, m->version);
    }
    str bytes = str_make(read->to, read->n);
    if (hash_str(bytes) != ref->hash) {
        return err_set(e, ERR_DATA_LOSS,
                       "%.*s: its hash is %016" PRIx64 ", manifest version %" PRIu64
                       " says %016" PRIx64,
                       STR(read->name), hash_str(bytes), m->version, ref->hash);
    }
    m->pages[i] = page_parse(m->arena.budget, m->tenant, ref, bytes, e);
    return m->pages[i] != NULL;
}

// A page that this machine has. NULL: it has none that is whole, or there is no memory; then the
// store has it.
static struct page *kept_page(struct manifests *ms, struct req *r, const struct manifest *m,
                              const struct page_ref *ref)
{
    err ignored = {0};
    str name = name_page(&r->arena, m->tenant, ref->id);
    char *to = name.p ? mem_alloc(ms->memory, ref->bytes, &ignored) : NULL;
    struct page *page = NULL;
    if (!to) return NULL;
    if (ms->keeper.get(ms->keeper.arg, name, ref->at, ref->bytes, to) &&
        hash_str(str_make(to, ref->bytes)) == ref->hash) {
        page = page_parse(m->arena.budget, m->tenant, ref, str_make(to, ref->bytes), &ignored);
    }
    mem_free(ms->memory, to, ref->bytes);
    return page;
}

// Reads those of the pages first .. end - 1 that are missing, all at the same time. Together they
// have `bytes`.
static bool read_pages(struct manifests *ms, struct req *r, struct manifest *m, size_t first,
                       size_t end, uint64_t bytes, err *e)
{
    struct store_read *v = mem_alloc(ms->memory, (end - first) * sizeof *v, e);
    char *room = v ? mem_alloc(ms->memory, bytes, e) : NULL;
    char *at = room;
    size_t n = 0;
    bool ok = room != NULL;
    for (size_t i = first; ok && i < end; i++) {
        if (m->pages[i]) continue;
        v[n++] = (struct store_read){.name = name_page(&r->arena, m->tenant, m->refs_of[i].id),
                                     .at = m->refs_of[i].at,
                                     .n = m->refs_of[i].bytes,
                                     .to = at};
        at += m->refs_of[i].bytes;
        ok = arena_ok(&r->arena, e);
    }
    assert(!ok || at == room + bytes);
    if (ok) store_read_many(ms->store, r, v, n);
    metric_add(&manifest_pages_read, n);
    n = 0;
    for (size_t i = first; ok && i < end; i++) {
        if (m->pages[i]) continue;
        ok = take_page(m, i, &v[n], e);
        if (ok && ms->keeper.put)
            ms->keeper.put(ms->keeper.arg, v[n].name, v[n].at, str_make(v[n].to, v[n].n));
        n++;
    }
    mem_free(ms->memory, room, bytes);
    mem_free(ms->memory, v, (end - first) * sizeof *v);
    return ok;
}

static bool fill_pages(struct manifests *ms, struct req *r, struct manifest *m,
                       const struct manifest *base, err *e)
{
    for (size_t i = 0; i < m->page_count; i++) {
        m->pages[i] = page_of(base, &m->refs_of[i]);
        if (!m->pages[i] && ms->keeper.get) m->pages[i] = kept_page(ms, r, m, &m->refs_of[i]);
    }
    size_t first = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->page_count; i++) {
        if (m->pages[i]) continue;
        uint64_t more = m->refs_of[i].bytes;
        if (bytes && bytes + more > READ_BYTES) {
            if (!read_pages(ms, r, m, first, i, bytes, e)) return false;
            first = i;
            bytes = 0;
        }
        bytes += more;
    }
    return !bytes || read_pages(ms, r, m, first, m->page_count, bytes, e);
}

static bool read_root(struct manifests *ms, struct req *r, str tenant,
                      const struct listed_root *root, struct buf *out, err *e)
{
    str name = name_root(&r->arena, tenant, root->version);
    if (!arena_ok(&r->arena, e)) return false;
    char *to = root->bytes ? buf_reserve(out, root->bytes) : NULL;
    if (!to && root->bytes) return buf_ok(out, e);  // which it is not
    if (to && !store_read(ms->store, r, name, 0, root->bytes, to, e)) return short_is_damage(e);
    out->n += root->bytes;
    return true;
}

static struct manifest *load(struct manifests *ms, struct mem_budget *memory, struct req *r,
                             str tenant, const struct listed_root *root,
                             const struct manifest *base, err *e)
{
    struct buf bytes;
    buf_init(&bytes, ms->memory, MANIFEST_ROOT_MAX);
    struct manifest *m = NULL;
    if (read_root(ms, r, tenant, root, &bytes, e))
        m = root_parse(memory, tenant, root->version, buf_view(&bytes), e);
    buf_release(&bytes);
    if (m && fill_pages(ms, r, m, base, e) && manifest_finish(m, e)) return m;
    manifest_unref(m);
    return NULL;
}

struct manifest *manifest_load(struct manifests *ms, struct req *r, str tenant,
                               const struct listed_root *root, const struct manifest *base, err *e)
{
    struct manifest *m = load(ms, &ms->kept, r, tenant, root, base, e);
    while (!m && e->code == ERR_RESOURCE_EXHAUSTED && manifests_shrink(ms))
        m = load(ms, &ms->kept, r, tenant, root, base, e);
    if (m || e->code != ERR_RESOURCE_EXHAUSTED) return m;
    m = load(ms, ms->memory, r, tenant, root, base, e);
    if (m) manifests_not_kept(ms, r, tenant);
    return m;
}

// One inspection of the store. NULL with not_found if a sweep deleted what the LIST showed before
// it was read. The LIST begins at the version before the known one, so that it shows the known one
// too: if it shows nothing, the store was emptied or put back, and all that is known of it is
// wrong.
static struct manifest *inspect_store(struct manifests *ms, struct req *r, struct tenant *t,
                                      str tenant, err *e)
{
    int64_t began_ns = ms->boot_ns();
    struct manifest *known = tenant_known(ms, t);
    struct listed_root root = {0};
    struct manifest *m = NULL;
    bool ok = manifest_list(ms, r, tenant, known ? known->version - 1 : 0, &root, e);
    if (ok && known && root.version == 0) {
        tenant_forget(ms, t);
        ok = manifest_list(ms, r, tenant, 0, &root, e);
    }
    ok = ok && manifest_list_is_new(ms, r, tenant, root.version, known ? known->version : 0, e);
    bool sure = tenant_is_sure(ms, t);
    if (ok && known && known->version == root.version && sure)
        m = manifest_hold(known);
    else if (ok && root.version)
        m = manifest_load(ms, r, tenant, &root, known, e);
    else if (ok)
        m = manifest_empty(ms, tenant, e);
    if (m && m->version) {
        if (!sure) tenant_forget(ms, t);
        tenant_learn(ms, t, m);
        tenant_saw(ms, t, began_ns);
    }
    manifest_unref(known);
    return m;
}

struct manifest *manifest_newest(struct manifests *ms, struct req *r, str tenant, err *e)
{
    struct tenant *t = tenant_ref(ms, tenant, e);
    if (!t) return NULL;
    struct manifest *m = inspect_store(ms, r, t, tenant, e);
    for (int i = 1; !m && e->code == ERR_NOT_FOUND && i < INSPECTIONS; i++)
        m = inspect_store(ms, r, t, tenant, e);
    tenant_unref(ms, t);
    // Sweeps leave the newest versions for a day. What is gone after four LISTs is lost.
    if (!m && e->code == ERR_NOT_FOUND) e->code = ERR_DATA_LOSS;
    return m;
}

struct manifest *manifest_known(struct manifests *ms, str tenant)
{
    // No entry is made for it, and the order of eviction stays: a prefetch is no use yet.
    lock_take(&ms->lock);
    struct tenant *t = find(ms, tenant, hash_table_str(tenant));
    if (t) t->users++;
    lock_give(&ms->lock);
    struct manifest *m = t ? tenant_known(ms, t) : NULL;
    if (t) tenant_unref(ms, t);
    return m;
}

// ---- lookups

uint64_t manifest_version(const struct manifest *m)
{
    return m->version;
}

str manifest_tenant(const struct manifest *m)
{
    return m->tenant;
}

const struct manifest_block *manifest_blocks(const struct manifest *m, size_t *n)
{
    *n = m->block_count;
    return m->blocks;
}

const struct manifest_block *manifest_find(const struct manifest *m, id128 id)
{
    uint32_t row = row_of(m, id);
    return row < m->block_count ? &m->blocks[row] : NULL;
}

bool manifest_counts(const struct manifest *m, id128 leaf)
{
    return row_of(m, leaf) != MAP_NONE;
}

bool manifest_names(const struct manifest *m, id128 block)
{
    char text[ULID_TEXT];
    if (manifest_counts(m, block)) return true;
    ulid_print(block, text);
    for (size_t i = 0; i < m->garbage_count; i++)
        if (str_ends(m->garbage[i].name, str_of(text))) return true;
    return false;
}

struct wanted_page {
    enum block_kind kind;
    int64_t window;
};

static int by_window(const void *key, const void *at)
{
    const struct wanted_page *a = key;
    const struct page_ref *b = at;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return a->window < b->window ? -1 : a->window > b->window;
}

const struct page_ref *manifest_page_ref(const struct manifest *m, enum block_kind kind,
                                         int64_t window)
{
    struct wanted_page key = {kind, window};
    if (m->page_count == 0) return NULL;
    return bsearch(&key, m->refs_of, m->page_count, sizeof *m->refs_of, by_window);
}

const struct page *manifest_page(const struct manifest *m, enum block_kind kind, int64_t window)
{
    const struct page_ref *at = manifest_page_ref(m, kind, window);
    return at ? m->pages[at - m->refs_of] : NULL;
}

// Entries below `to` begin no later than the run ends. From there downwards: `reach` is the highest
// cut of an entry and all before it, so where it lies below the run, no earlier entry meets the
// run.
const struct absorbed *page_absorbed(const struct page *p, const struct segment_run *r,
                                     const struct absorbed *after)
{
    struct segment_run last = *r;
    assert(!after || (after >= p->absorbed && after < p->absorbed + p->absorbed_count));
    last.cut = segment_run_last(r);
    size_t to =
        after ? (size_t)(after - p->absorbed)
              : SEARCH(at, 0, p->absorbed_count, segment_run_cmp(p->absorbed[at].run, &last) <= 0);
    while (to-- > 0) {
        const struct absorbed *at = &p->absorbed[to];
        if (segment_run_lane_cmp(at->run, r) != 0 || at->reach < r->cut) return NULL;
        if (segment_runs_meet(at->run, r)) return at;
    }
    return NULL;
}

bool manifest_absorbed(const struct manifest *m, const struct segment_name *segment)
{
    const struct page *p = manifest_page(m, BLOCK_RAW, manifest_window(BLOCK_RAW, segment->hour));
    const struct segment_run r = segment_run_of(segment);
    return p && page_absorbed(p, &r, NULL);
}

bool manifest_absorbed_expired(const struct manifest *m, const struct segment_name *segment)
{
    const struct page *p = manifest_page(m, BLOCK_RAW, manifest_window(BLOCK_RAW, segment->hour));
    const struct segment_run r = segment_run_of(segment);
    const struct absorbed *at = p ? page_absorbed(p, &r, NULL) : NULL;
    for (; at; at = page_absorbed(p, &r, at))
        if (at->by >= p->block_count && p->past[at->by - p->block_count].expired) return true;
    return false;
}
