// SPDX-License-Identifier: Apache-2.0
//
// head.c - the head as a whole: its table of services, their references, services that were
// replaced, and the locks between readers and removals.
#include "ingester/head/head.h"

#include "base/hash.h"
#include "ingester/head/head_stacks.h"
#include "sys/clock.h"

// One generation of recent ids may take 1/32 of the head's memory.
#define PAST_SHARE 32

// ---- life

// Writers first: under a steady stream of queries a push would otherwise never get its turn.
static void rwlock_init(pthread_rwlock_t *l)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(l, &attr);
    pthread_rwlockattr_destroy(&attr);
}

struct head *head_new(struct mem_budget *parent, size_t limit)
{
    struct head *h = mem_must(sizeof *h);
    mem_budget_init(&h->budget, "ingester.head_memory", parent, limit);
    rwlock_init(&h->lock);
    rwlock_init(&h->drops);
    map_init(&h->by_key, &h->budget);
    map_init(&h->by_tenant, &h->budget);
    recent_ids_init(&h->recent_ids, &h->budget);
    translations_init(&h->translations, &h->budget);
    lock_init(&h->turns, LOCK_TURNS);
    lock_init(&h->noting, LOCK_NOTING);
    lock_init(&h->placing, LOCK_PLACINGS);
    rwlock_init(&h->removing);
    cond_init(&h->turned);
    return h;
}

static void text_free(struct mem_budget *b, str *text)
{
    char *p = NULL;
    memcpy(&p, &text->p, sizeof p);  // ours: a str borrows, so its pointer is const
    mem_free(b, p, text->n);
    *text = (str){0};
}

static bool text_copy(struct mem_budget *b, str text, str *out, err *e)
{
    if (text.n == 0) return true;
    char *p = mem_alloc(b, text.n, e);
    if (!p) return false;
    memcpy(p, text.p, text.n);
    *out = (str){p, text.n};
    return true;
}

// Relaxed, because no two numbers may be equal and their order means nothing.
void service_renumbered(struct service_head *s)
{
    marks_release(s);
    s->table = atomic_fetch_add_explicit(&s->head->tables, 1, memory_order_relaxed) + 1;
}

// Frees all but the names: threads that have a reference may still read them.
static void service_empty(struct service_head *s)
{
    struct mem_budget *b = service_budget(s);
    marks_release(s);
    for (uint32_t i = 0; i < s->index.series_count; i++)
        rows_release(&s->rows[i], b);
    mem_free(b, s->rows, s->rows_cap * sizeof *s->rows);
    s->rows = NULL;
    s->rows_cap = 0;
    ids_release(&s->ids, b);
    ids_release(&s->in_flight, b);
    stack_hours_release(s);
    index_release(&s->index);
    symbols_hints_release(&s->hints);
    symbols_release(&s->symbols);
}

static void service_free(struct service_head *s)
{
    struct tenant_head *owner = s->owner;
    service_empty(s);
    text_free(&owner->budget, &s->service);
    pthread_rwlock_destroy(&s->lock);
    mem_free(&owner->budget, s, sizeof *s);
    tenant_head_unref(owner);
}

static struct service_head *service_new(struct tenant_head *owner, str service, err *e)
{
    struct mem_budget *b = &owner->budget;
    struct service_head *s = mem_alloc(b, sizeof *s, e);
    if (!s) return NULL;
    s->head = owner->head;
    s->owner = owner;
    s->tenant = owner->name;
    atomic_fetch_add_explicit(&owner->refs, 1, memory_order_relaxed);
    atomic_init(&s->refs, 1);
    rwlock_init(&s->lock);
    index_init(&s->index, b);
    symbols_hints_init(&s->hints, b);
    service_renumbered(s);
    s->age = translations_age(&s->head->translations);
    if (text_copy(b, service, &s->service, e) && symbols_init(&s->symbols, b, e)) return s;
    service_free(s);
    return NULL;
}

struct service_head *service_like(const struct service_head *s, err *e)
{
    return service_new(s->owner, s->service, e);
}

void service_discard(struct service_head *s)
{
    service_free(s);
}

// The memory order: release puts all changes to the service before its last unref, acquire lets the
// free see them. A loop, not recursion, because a chain of successors may be long. The series of a
// replaced service do not count any more (succeed).
void service_unref(struct service_head *s)
{
    assert(!s || atomic_load_explicit(&s->refs, memory_order_relaxed) > 0);
    while (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
        struct service_head *next = atomic_load_explicit(&s->successor, memory_order_acquire);
        if (!next) {
            atomic_fetch_sub_explicit(&s->head->series, s->index.series_count,
                                      memory_order_relaxed);
        }
        service_free(s);
        // Before the reference itself: is_read takes refs above `listed` for readers.
        if (next) atomic_fetch_sub_explicit(&next->listed, 1, memory_order_release);
        s = next;
    }
}

void head_free(struct head *h)
{
    if (!h) return;
    cut_services_release(h);
    head_tidy(h);
    assert(!atomic_load(&h->retired));
    for (uint32_t i = 0; i < h->service_count; i++)
        service_unref(h->services[i]);
    mem_free(&h->budget, h->services, h->service_cap * sizeof(struct service_head *));
    map_release(&h->by_key);
    tenants_release(h);
    recent_ids_release(&h->recent_ids);
    translations_release(&h->translations);
    assert(atomic_load(&h->budget.used) == 0);
    pthread_rwlock_destroy(&h->lock);
    pthread_rwlock_destroy(&h->drops);
    cond_release(&h->turned);
    pthread_rwlock_destroy(&h->removing);
    lock_release(&h->noting);
    lock_release(&h->placing);
    lock_release(&h->turns);
    mem_must_free(h);
}

void head_set_filter(struct head *h, struct head_filter *f)
{
    h->filter = f;
}

void head_remember(struct head *h)
{
    h->remembers = true;
}

// What one generation of them may take.
size_t head_recent_ids_most(const struct head *h)
{
    size_t limit = atomic_load_explicit(&h->budget.limit, memory_order_relaxed);
    return limit ? limit / PAST_SHARE : SIZE_MAX;
}

// Recent ids have one writer at a time. A refresh may remove rows at this moment (head_remove),
// which adds ids and may replace their tables; it waits for the file.
bool head_save_recent_ids(struct head *h, const char *dir, struct mem_budget *memory, err *e)
{
    pthread_rwlock_wrlock(&h->removing);
    bool ok = recent_ids_save(&h->recent_ids, dir, memory, e);
    pthread_rwlock_unlock(&h->removing);
    return ok;
}

bool head_load_recent_ids(struct head *h, const char *dir, struct mem_budget *memory, err *e)
{
    return recent_ids_load(&h->recent_ids, dir, head_recent_ids_most(h), memory, e);
}

bool head_may_have_had(struct head *h, str tenant, struct loose_key key)
{
    return h->remembers && recent_ids_may_have(&h->recent_ids, tenant, key);
}

// The wall clock may have been set since; then the later of both times is taken.
bool head_lacks_ids(struct head *h, str tenant, int64_t *wall_ns)
{
    struct recent_moment when;
    if (!recent_ids_lack(&h->recent_ids, tenant, &when)) return false;
    int64_t ago = (int64_t)(clock_mono_ns() - when.mono_ns);
    *wall_ns = MAX(when.wall_ns, clock_wall_ns() - ago);
    return true;
}

uint64_t head_id_losses(struct head *h)
{
    return recent_ids_losses(&h->recent_ids);
}

uint64_t head_knows_ids_ns(struct head *h)
{
    struct recent_moment when;
    if (!recent_ids_lack_any(&h->recent_ids, &when)) return RECENT_IDS_NS;
    return clock_mono_ns() - when.mono_ns;
}

bool head_knows(struct service_head *s, uint32_t series, id128 id)
{
    struct loose_key key = {s->index.series[series].fingerprint, id};
    return ids_has(&s->ids, series, id) ||
           (s->head->remembers && recent_ids_has(&s->head->recent_ids, s->tenant, key));
}

void head_set_limit(struct head *h, size_t limit)
{
    atomic_store_explicit(&h->budget.limit, limit, memory_order_relaxed);
    if (limit == 0) tenants_lend_all(h);
}

void head_leave(struct head *h, size_t bytes)
{
    h->budget.leaves = bytes;
}

void head_set_lexicons(struct head *h, size_t bytes)
{
    translations_limit(&h->translations, bytes);
}

const struct mem_budget *head_budget(const struct head *h)
{
    return &h->budget;
}

struct head_counts head_count(struct head *h)
{
    pthread_rwlock_rdlock(&h->lock);
    uint64_t services = h->service_count;
    pthread_rwlock_unlock(&h->lock);
    struct translation_counts t = translations_count(&h->translations);
    return (struct head_counts){
        .services = services,
        .series = atomic_load_explicit(&h->series, memory_order_relaxed),
        .active_series = atomic_load_explicit(&h->active, memory_order_relaxed),
        .rows = atomic_load_explicit(&h->rows, memory_order_relaxed),
        .duplicates = atomic_load_explicit(&h->duplicates, memory_order_relaxed),
        .capped = atomic_load_explicit(&h->capped, memory_order_relaxed),
        .visited_services = atomic_load_explicit(&h->visited_services, memory_order_relaxed),
        .visited_rows = atomic_load_explicit(&h->visited_rows, memory_order_relaxed),
        .asked_services = atomic_load_explicit(&h->asked_services, memory_order_relaxed),
        .longest_run = atomic_load_explicit(&h->longest_run, memory_order_relaxed),
        .longest_hold = atomic_load_explicit(&h->longest_hold, memory_order_relaxed),
        .longest_recent_ids = recent_ids_longest(&h->recent_ids),
        .runs = atomic_load_explicit(&h->runs, memory_order_relaxed),
        .lexicons = t.count,
        .lexicon_bytes = t.bytes,
        .lexicons_refused = t.refused,
    };
}

// ---- the table of services

struct service_key {
    const struct head *head;
    str tenant;
    str service;
};

static bool same_service(const void *ctx, uint32_t row)
{
    const struct service_key *k = ctx;
    const struct service_head *s = k->head->services[row];
    return str_eq(s->tenant, k->tenant) && str_eq(s->service, k->service);
}

static uint64_t key_hash(str tenant, str service)
{
    return hash_table_and(hash_table_str(tenant), hash_table_str(service));
}

static struct service_head *lookup(struct head *h, str tenant, str service)
{
    struct service_key key = {h, tenant, service};
    uint32_t row = map_find(&h->by_key, key_hash(tenant, service), same_service, &key);
    if (row == MAP_NONE) return NULL;
    struct service_head *s = service_current(h->services[row]);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

static struct service_head *add(struct head *h, str tenant, str service, err *e)
{
    if (!mem_grow(&h->budget, &h->services, &h->service_cap, (size_t)h->service_count + 1,
                  sizeof(struct service_head *), e)) {
        return NULL;
    }
    struct tenant_head *owner = tenant_head_ref(h, tenant, e);
    if (!owner) return NULL;
    struct service_head *s = service_new(owner, service, e);
    tenant_head_unref(owner);  // the service has a reference of its own
    if (!s) return NULL;
    if (!tenant_add(h, s, e)) {
        service_free(s);
        return NULL;
    }
    if (!map_put(&h->by_key, key_hash(tenant, service), h->service_count, e)) {
        tenant_remove(h, s);
        service_free(s);
        return NULL;
    }
    h->services[h->service_count++] = s;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

// Nearly all calls find the service, so the lock for writing is taken only if there is none;
// another thread may have added it in between.
struct service_head *head_service(struct head *h, str tenant, str service, err *e)
{
    pthread_rwlock_rdlock(&h->lock);
    struct service_head *s = lookup(h, tenant, service);
    pthread_rwlock_unlock(&h->lock);
    if (s) return s;
    pthread_rwlock_wrlock(&h->lock);
    s = lookup(h, tenant, service);
    if (!s) s = add(h, tenant, service, e);
    pthread_rwlock_unlock(&h->lock);
    return s;
}

struct service_head *head_find(struct head *h, str tenant, str service)
{
    pthread_rwlock_rdlock(&h->lock);
    struct service_head *s = lookup(h, tenant, service);
    pthread_rwlock_unlock(&h->lock);
    return s;
}

// The last service of the table takes its place. False: it is a copy that is not in the table yet,
// because the service that it replaces still is.
static bool take_out(struct head *h, struct service_head *s)
{
    struct service_key key = {h, s->tenant, s->service};
    uint64_t hash = key_hash(s->tenant, s->service);
    uint32_t place = map_find(&h->by_key, hash, same_service, &key);
    uint32_t last = h->service_count - 1;
    if (place == MAP_NONE || h->services[place] != s) return false;
    assert(h->service_count > 0 && s->row_count == 0);
    map_remove(&h->by_key, hash, place);
    tenant_remove(h, s);
    if (place != last) {
        const struct service_head *moved = h->services[last];
        map_renumber(&h->by_key, key_hash(moved->tenant, moved->service), last, place);
        h->services[place] = h->services[last];
    }
    h->service_count--;
    return true;
}

// References are given out under the table's lock. So while it is held for writing, a service with
// two references (the table's and the caller's) has no other user and gets none; row_count can be
// read without the service's lock.
void head_sweep(struct head *h, struct service_head *const *v, size_t n)
{
    for (size_t i = 0; i < n; i += HEAD_RUN) {
        size_t end = MIN(n, i + HEAD_RUN);
        struct service_head *doomed[HEAD_RUN];
        size_t count = 0;
        pthread_rwlock_wrlock(&h->lock);
        for (size_t k = i; k < end; k++) {
            uint32_t refs = atomic_load_explicit(&v[k]->refs, memory_order_acquire);
            if (refs > 2 || v[k]->row_count > 0 || !take_out(h, v[k])) continue;
            doomed[count++] = v[k];
        }
        pthread_rwlock_unlock(&h->lock);
        for (size_t k = 0; k < count; k++)
            service_unref(doomed[k]);
    }
}

struct service_head *head_service_at(struct head *h, uint32_t i)
{
    pthread_rwlock_rdlock(&h->lock);
    struct service_head *s = i < h->service_count ? service_current(h->services[i]) : NULL;
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&h->lock);
    return s;
}

size_t head_next_services(struct head *h, struct service_head **v, size_t max)
{
    pthread_rwlock_wrlock(&h->lock);
    size_t n = MIN(max, (size_t)h->service_count);
    for (size_t i = 0; i < n; i++) {
        if (h->hand >= h->service_count) h->hand = 0;
        v[i] = service_current(h->services[h->hand++]);
        atomic_fetch_add_explicit(&v[i]->refs, 1, memory_order_relaxed);
    }
    pthread_rwlock_unlock(&h->lock);
    return n;
}

// ---- services that were replaced

// Pushes onto the list without a lock: several threads may retire or tidy at once.
static void keep_retired(struct head *h, struct service_head *s)
{
    struct service_head *first = atomic_load_explicit(&h->retired, memory_order_relaxed);
    do {
        s->next_retired = first;
    } while (!atomic_compare_exchange_weak_explicit(&h->retired, &first, s, memory_order_release,
                                                    memory_order_relaxed));
}

// The list of the retired takes over the table's reference.
void head_retire(struct head *h, struct service_head *from)
{
    struct service_head *to = service_current(from);
    struct service_key key = {h, from->tenant, from->service};
    atomic_fetch_add_explicit(&to->refs, 1, memory_order_relaxed);
    pthread_rwlock_wrlock(&h->lock);
    uint32_t place =
        map_find(&h->by_key, key_hash(from->tenant, from->service), same_service, &key);
    assert(place != MAP_NONE && h->services[place] == from);
    h->services[place] = to;
    tenant_replace(from, to);
    pthread_rwlock_unlock(&h->lock);
    keep_retired(h, from);
}

// Whether a retired service may have readers: it has references beyond that of the list of retired
// services and those of lists of cuts (`listed`), which only lead to its successor. No reader comes
// any more. A list lowers `listed` before it gives its reference back; so refs is read first, and
// an error is on the safe side.
static bool is_read(const struct service_head *s)
{
    uint32_t refs = atomic_load_explicit(&s->refs, memory_order_acquire);
    return refs > 1 + atomic_load_explicit(&s->listed, memory_order_acquire);
}

void head_tidy(struct head *h)
{
    struct service_head *list = atomic_exchange_explicit(&h->retired, NULL, memory_order_acquire);
    while (list) {
        struct service_head *s = list;
        list = s->next_retired;
        if (is_read(s)) {
            keep_retired(h, s);
        } else {
            service_empty(s);
            service_unref(s);
        }
    }
}

// ---- readers

void head_pin(struct head *h)
{
    pthread_rwlock_rdlock(&h->drops);
}

void head_unpin(struct head *h)
{
    pthread_rwlock_unlock(&h->drops);
}
