// SPDX-License-Identifier: Apache-2.0
//
// member.c - the table of members under one lock; readers get copies.
#include "cluster/member.h"

#include "cluster/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/log.h"

const char *const member_kind_names[MEMBER_KINDS] = {"distributor", "ingester", "querier",
                                                     "compactor"};

struct known {
    struct member member;
    unsigned failures;  // in a row
    bool probe_failed;  // since it was last heard
    uint64_t heard_mono_ns;
    uint64_t failed_mono_ns;  // the last failure
    uint64_t dead_mono_ns;    // when it fell
    char *text;               // memory of the member's strings
    size_t bytes;
};

struct members {
    struct lock lock;
    struct known *v;  // in order of kind, then id
    size_t n;
    size_t cap;
};

static void on_print(void *arg)
{
    struct members *m = arg;
    int64_t alive = 0;
    int64_t unready = 0;
    lock_take(&m->lock);
    int64_t all = (int64_t)m->n;
    for (size_t i = 0; i < m->n; i++) {
        const struct member *k = &m->v[i].member;
        const str labels[] = {str_of(member_kind_names[k->kind]), k->id};
        metric_set_real(&cluster_member_alive, labels, k->alive ? 1.0 : 0.0);
        alive += k->alive;
        unready += k->alive && k->unready;
    }
    lock_give(&m->lock);
    metric_set_to(&cluster_members, S("alive"), alive - unready);
    metric_set_to(&cluster_members, S("unready"), unready);
    metric_set_to(&cluster_members, S("dead"), all - alive);
}

struct members *members_new(err *e)
{
    struct members *m = mem_alloc(NULL, sizeof *m, e);
    if (!m) return NULL;
    lock_init(&m->lock, LOCK_MEMBERS);
    metric_register(cluster_metrics, cluster_metric_count);
    metric_on_print(on_print, m);
    return m;
}

void members_free(struct members *m)
{
    if (!m) return;
    metric_off_print(on_print, m);
    for (size_t i = 0; i < m->n; i++)
        mem_free(NULL, m->v[i].text, m->v[i].bytes);
    mem_free(NULL, m->v, m->cap * sizeof *m->v);
    lock_release(&m->lock);
    mem_free(NULL, m, sizeof *m);
}

static int order(const struct known *k, enum member_kind kind, str id)
{
    if (k->member.kind != kind) return k->member.kind < kind ? -1 : 1;
    return str_cmp(k->member.id, id);
}

bool members_add(struct members *m, enum member_kind kind, str entry, err *e)
{
    entry = str_trim(entry);
    str address = {0};
    str id = str_trim(str_split(entry, '=', &address));
    address = str_trim(address);
    bool bare = str_find(entry, '=') == entry.n;
    if (bare) address = id;  // "=" without an address is not bare, and refused below
    if (!id.n || !address.n)
        return err_set(e, ERR_INVALID_ARGUMENT, "member '%.*s' is not id=address", STR(entry));

    assert(kind < MEMBER_KINDS);
    lock_take(&m->lock);
    bool ok = false;
    size_t at = 0;
    while (at < m->n && order(&m->v[at], kind, id) < 0)
        at++;
    if (at < m->n && order(&m->v[at], kind, id) == 0) {
        err_set(e, ERR_INVALID_ARGUMENT, "member id '%.*s' is given twice", STR(id));
        goto out;
    }
    if (!mem_grow(NULL, &m->v, &m->cap, m->n + 1, sizeof *m->v, e)) goto out;
    char *text = mem_alloc(NULL, id.n + address.n, e);
    if (!text) goto out;
    memcpy(text, id.p, id.n);
    memcpy(text + id.n, address.p, address.n);
    // In order, so that all nodes with the same list see the same order.
    memmove(m->v + at + 1, m->v + at, (m->n - at) * sizeof *m->v);
    m->v[at] = (struct known){.member = {.id = {text, id.n},
                                         .address = {text + id.n, address.n},
                                         .kind = kind,
                                         .alive = true},
                              .text = text,
                              .bytes = id.n + address.n};
    m->n++;
    ok = true;
out:
    lock_give(&m->lock);
    return ok;
}

// Copies, so that readers hold no lock while they call the members. kind MEMBER_KINDS: all.
static struct member *copy_of(struct members *m, struct arena *a, enum member_kind kind,
                              size_t *count)
{
    *count = 0;
    lock_take(&m->lock);
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += kind == MEMBER_KINDS || m->v[i].member.kind == kind;
    struct member *copy = n ? ARENA_ARRAY(a, struct member, n) : NULL;
    size_t at = 0;
    for (size_t i = 0; copy && i < m->n; i++) {
        const struct member *k = &m->v[i].member;
        if (kind != MEMBER_KINDS && k->kind != kind) continue;
        copy[at] = *k;
        copy[at].id = arena_str(a, k->id);
        copy[at].address = arena_str(a, k->address);
        at++;
    }
    lock_give(&m->lock);
    if (!copy || a->exhausted) return NULL;  // a copy may have lost strings
    *count = n;
    return copy;
}

struct member *members_of(struct members *m, struct arena *a, enum member_kind kind, size_t *count)
{
    return copy_of(m, a, kind, count);
}

struct member *members_all(struct members *m, struct arena *a, size_t *count)
{
    return copy_of(m, a, MEMBER_KINDS, count);
}

bool members_has(struct members *m, enum member_kind kind)
{
    bool found = false;
    lock_take(&m->lock);
    for (size_t i = 0; i < m->n; i++)
        found = found || m->v[i].member.kind == kind;
    lock_give(&m->lock);
    return found;
}

// ---- liveness

static struct known *find(struct members *m, enum member_kind kind, str id)
{
    for (size_t i = 0; i < m->n; i++) {
        assert(lock_is_mine(&m->lock));
        if (order(&m->v[i], kind, id) == 0) return &m->v[i];
    }
    return NULL;
}

// rise and fall log under the lock, so that the lines of one member are in the order of its
// changes.
static void rise(struct known *k, uint64_t at)
{
    uint64_t now = clock_mono_ns();
    const struct member *x = &k->member;
    char id[LOG_QUOTE_MAX];
    assert(x->kind < MEMBER_KINDS);
    assert(at <= now);
    k->heard_mono_ns = MAX(k->heard_mono_ns, at);
    // An answer to a call that began before the last failure tells nothing of now.
    if (at < k->failed_mono_ns) return;
    k->failures = 0;
    k->probe_failed = false;
    if (x->alive) return;
    k->member.alive = true;
    log_info(NULL, "member.alive", "kind=%s id=%s address=%.*s dead_ms=%llu",
             member_kind_names[x->kind], log_quote(id, x->id), STR(x->address),
             (unsigned long long)((now - k->dead_mono_ns) / (uint64_t)NS_PER_MS));
}

static void fall(struct known *k, str why)
{
    const struct member *x = &k->member;
    char id[LOG_QUOTE_MAX];
    char quoted[LOG_QUOTE_MAX];
    if (!x->alive) return;
    assert(x->kind < MEMBER_KINDS);
    k->member.alive = false;
    k->dead_mono_ns = clock_mono_ns();
    const str labels[] = {str_of(member_kind_names[x->kind]), x->id};
    metric_add_set(&cluster_deaths, labels, 1);
    log_warn(NULL, "member.dead", "kind=%s id=%s address=%.*s failures=%u why=%s",
             member_kind_names[x->kind], log_quote(id, x->id), STR(x->address), k->failures,
             log_quote(quoted, why));
}

void members_heard(struct members *m, enum member_kind kind, str id, uint64_t at_mono_ns)
{
    lock_take(&m->lock);
    struct known *k = find(m, kind, id);
    if (k) rise(k, at_mono_ns);
    lock_give(&m->lock);
}

void members_seen(struct members *m, enum member_kind kind, str id, uint64_t at_mono_ns,
                  const struct node_answer *answer)
{
    lock_take(&m->lock);
    struct known *k = find(m, kind, id);
    if (k) rise(k, at_mono_ns);
    if (k) k->member.unready = !answer->ready;
    lock_give(&m->lock);
}

static void fail(struct members *m, enum member_kind kind, str id, str why, bool probe)
{
    const str labels[] = {str_of(member_kind_names[kind]), id};
    lock_take(&m->lock);
    struct known *k = find(m, kind, id);
    if (k) {
        metric_add_set(&cluster_calls_failed, labels, 1);
        // In a row: rise sets it back.
        k->failures++;
        k->failed_mono_ns = clock_mono_ns();
        if (probe) k->probe_failed = true;
        if (k->failures >= MEMBER_FAILURES_MAX) fall(k, why);
    }
    lock_give(&m->lock);
}

void members_failed(struct members *m, enum member_kind kind, str id, str why)
{
    fail(m, kind, id, why, false);
}

void members_probe_failed(struct members *m, enum member_kind kind, str id, str why)
{
    fail(m, kind, id, why, true);
}

bool members_is_silent(struct members *m, enum member_kind kind, str id, uint64_t since_mono_ns,
                       uint64_t patience_ns)
{
    bool silent = false;
    lock_take(&m->lock);
    struct known *k = find(m, kind, id);
    // Without a failed probe silence means nothing: maybe no probe was due since the last answer.
    if (k && (k->probe_failed || !k->member.alive)) {
        uint64_t waited = clock_mono_ns() - MAX(since_mono_ns, k->heard_mono_ns);
        // A member that counts as dead gets less time to prove that it is back.
        if (!k->member.alive) patience_ns = MIN(patience_ns, MEMBER_RETURN_NS);
        silent = waited >= patience_ns;
        if (waited >= MEMBER_SILENCE_NS)
            fall(k, S("it has said nothing for 3 s, to calls and to probes"));
    }
    lock_give(&m->lock);
    return silent;
}

bool members_is_unready(struct members *m, enum member_kind kind, str id)
{
    lock_take(&m->lock);
    const struct known *k = find(m, kind, id);
    bool unready = k && k->member.unready;
    lock_give(&m->lock);
    return unready;
}
