// SPDX-License-Identifier: Apache-2.0
//
// member.c - the table of members under one lock; readers get copies.
#include "cluster/member.h"

#include "base/hash.h"
#include "cluster/metrics.h"
#include "cluster/place.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/log.h"

#include <stdlib.h>

const char *const member_kind_names[MEMBER_KINDS] = {"distributor", "ingester", "querier",
                                                     "compactor"};

// Longer texts are cut: they are for people.
#define WHY_MAX     200
#define VERSION_MAX 64
#define NAMES_MAX   128

// The last answer to a probe.
struct answered {
    uint64_t mono_ns;
    id128 cluster;
    id128 boot;
    id128 directory;
    double load;
    uint64_t list;
    char version[VERSION_MAX];
    char services[NAMES_MAX];
};

struct known {
    struct member member;
    unsigned failures;  // in a row
    bool probe_failed;  // since it was last heard
    uint64_t heard_mono_ns;
    uint64_t failed_mono_ns;  // the last failure
    uint64_t since_mono_ns;   // it is alive, unready or dead
    char why[WHY_MAX];        // it failed
    struct answered answered;
    bool found;  // by name; else it is in the list
    char *text;  // memory of the member's strings
    size_t bytes;
};

struct members {
    struct lock lock;
    struct known *v;  // in order of kind, then id
    size_t n;
    size_t cap;
};

// In order of ids, as members_of has them. With the lock.
static uint64_t print_list(const struct members *m)
{
    const struct place_options all = {0};
    err none = {0};
    size_t n = 0;
    struct member *v = mem_alloc(NULL, (m->n + 1) * sizeof *v, &none);
    if (!v) return 0;
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].member.kind == MEMBER_INGESTER) v[n++] = m->v[i].member;
    uint64_t print = n ? place_print(v, n, &all) : 0;
    mem_free(NULL, v, (m->n + 1) * sizeof *v);
    return print;
}

uint64_t members_list_print(struct members *m)
{
    lock_take(&m->lock);
    uint64_t print = print_list(m);
    lock_give(&m->lock);
    return print;
}

size_t members_lists(struct members *m)
{
    lock_take(&m->lock);
    uint64_t own = print_list(m);
    size_t lists = own != 0;
    for (size_t i = 0; i < m->n; i++) {
        uint64_t list = m->v[i].member.alive ? m->v[i].answered.list : 0;
        bool first = list && list != own;
        for (size_t k = 0; k < i && first; k++)
            first = !m->v[k].member.alive || m->v[k].answered.list != list;
        lists += first;
    }
    lock_give(&m->lock);
    return lists;
}

static void on_print(void *arg)
{
    struct members *m = arg;
    int64_t alive = 0;
    int64_t unready = 0;
    lock_take(&m->lock);
    int64_t all = (int64_t)m->n;
    metric_forget_sets(&cluster_member_alive);  // of members that are gone
    for (size_t i = 0; i < m->n; i++) {
        const struct member *k = &m->v[i].member;
        const str labels[] = {str_of(member_kind_names[k->kind]), k->id};
        metric_set_real(&cluster_member_alive, labels, k->alive ? 1.0 : 0.0);
        (void)metric_expect_set(&cluster_deaths, labels);
        (void)metric_expect_set(&cluster_calls_failed, labels);
        alive += k->alive;
        unready += k->alive && k->unready;
    }
    lock_give(&m->lock);
    metric_set_to(&cluster_members, S("alive"), alive - unready);
    metric_set_to(&cluster_members, S("unready"), unready);
    metric_set_to(&cluster_members, S("dead"), all - alive);
    metric_set(&cluster_lists, (int64_t)members_lists(m));
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

static bool split_entry(str entry, str *id, str *address, err *e)
{
    entry = str_trim(entry);
    *id = str_trim(str_split(entry, '=', address));
    *address = str_trim(*address);
    bool bare = str_find(entry, '=') == entry.n;
    if (bare) *address = *id;  // "=" without an address is not bare, and refused below
    if (id->n && address->n) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "member '%.*s' is not id=address", STR(entry));
}

// A member of which nothing is known but id and address.
static bool make(struct known *k, enum member_kind kind, str id, str address, bool found, err *e)
{
    char *text = mem_alloc(NULL, id.n + address.n, e);
    if (!text) return false;
    memcpy(text, id.p, id.n);
    memcpy(text + id.n, address.p, address.n);
    *k = (struct known){.member = {.id = {text, id.n},
                                   .address = {text + id.n, address.n},
                                   .kind = kind,
                                   .alive = true},
                        .found = found,
                        .since_mono_ns = clock_mono_ns(),
                        .text = text,
                        .bytes = id.n + address.n};
    return true;
}

static void drop(struct known *k)
{
    mem_free(NULL, k->text, k->bytes);
}

// The row of a member, or where it belongs. Rows are in order, and a round of probes looks for
// each.
static size_t row_of(const struct members *m, enum member_kind kind, str id, bool *there)
{
    size_t at = 0;
    size_t end = m->n;
    while (at < end) {
        size_t middle = at + (end - at) / 2;
        if (order(&m->v[middle], kind, id) < 0)
            at = middle + 1;
        else
            end = middle;
    }
    *there = at < m->n && order(&m->v[at], kind, id) == 0;
    return at;
}

// In order, so that all nodes with the same list see the same order.
static bool insert(struct members *m, size_t at, const struct known *k, err *e)
{
    assert(at <= m->n && lock_is_mine(&m->lock));
    if (!mem_grow(NULL, &m->v, &m->cap, m->n + 1, sizeof *m->v, e)) return false;
    memmove(m->v + at + 1, m->v + at, (m->n - at) * sizeof *m->v);
    m->v[at] = *k;
    m->n++;
    return true;
}

static void remove_row(struct members *m, size_t at)
{
    assert(at < m->n && lock_is_mine(&m->lock));
    drop(&m->v[at]);
    memmove(m->v + at, m->v + at + 1, (m->n - at - 1) * sizeof *m->v);
    m->n--;
}

static bool add(struct members *m, enum member_kind kind, str entry, err *e)
{
    str id = {0};
    str address = {0};
    struct known k;
    bool there = false;
    if (!split_entry(entry, &id, &address, e)) return false;
    size_t at = row_of(m, kind, id, &there);
    if (there) return err_set(e, ERR_INVALID_ARGUMENT, "member id '%.*s' is given twice", STR(id));
    if (!make(&k, kind, id, address, false, e)) return false;
    if (insert(m, at, &k, e)) return true;
    drop(&k);
    return false;
}

bool members_add(struct members *m, enum member_kind kind, str entry, err *e)
{
    assert(kind < MEMBER_KINDS);
    lock_take(&m->lock);
    bool ok = add(m, kind, entry, e);
    lock_give(&m->lock);
    return ok;
}

// ---- lists that change

static void log_change(const char *event, const struct member *x)
{
    char id[LOG_QUOTE_MAX];
    assert(x->kind < MEMBER_KINDS);
    log_info(NULL, event, "kind=%s id=%s address=%.*s", member_kind_names[x->kind],
             log_quote(id, x->id), STR(x->address));
}

// The members that the entries name, in no order; the caller drops *n of them.
static bool read_entries(enum member_kind kind, const str *entries, size_t count,
                         struct known *next, size_t *n, err *e)
{
    for (*n = 0; *n < count;) {
        str id = {0};
        str address = {0};
        if (!split_entry(entries[*n], &id, &address, e)) return false;
        for (size_t i = 0; i < *n; i++) {
            if (str_eq(next[i].member.id, id))
                return err_set(e, ERR_INVALID_ARGUMENT, "member id '%.*s' is given twice", STR(id));
        }
        if (!make(&next[*n], kind, id, address, false, e)) return false;
        ++*n;
    }
    return true;
}

static bool is_among(const struct known *v, size_t n, str id)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(v[i].member.id, id)) return true;
    }
    return false;
}

// There is room for all of them. Takes over the memory of next[0..n).
static void replace_list(struct members *m, enum member_kind kind, const struct known *next,
                         size_t n)
{
    for (size_t i = m->n; i-- > 0;) {
        const struct known *k = &m->v[i];
        if (k->found || k->member.kind != kind || is_among(next, n, k->member.id)) continue;
        log_change("member.unlisted", &k->member);
        remove_row(m, i);
    }
    for (size_t i = 0; i < n; i++) {
        bool there = false;
        struct known fresh = next[i];
        size_t at = row_of(m, kind, next[i].member.id, &there);
        if (there && str_eq(m->v[at].member.address, next[i].member.address)) {
            m->v[at].found = false;
            drop(&fresh);
            continue;
        }
        err never = {0};
        // The same node elsewhere: without its weight the list would change twice.
        if (there) fresh.member.weight = m->v[at].member.weight;
        if (there) remove_row(m, at);
        if (!insert(m, at, &fresh, &never)) abort();  // there is room
        log_change("member.listed", &m->v[at].member);
    }
}

bool members_list(struct members *m, enum member_kind kind, const str *entries, size_t n, err *e)
{
    size_t made = 0;
    struct known *next = mem_alloc(NULL, MAX(n, (size_t)1) * sizeof *next, e);
    if (!next) return false;
    lock_take(&m->lock);
    bool ok = read_entries(kind, entries, n, next, &made, e) &&
              mem_grow(NULL, &m->v, &m->cap, m->n + n, sizeof *m->v, e);
    if (ok) replace_list(m, kind, next, n);
    lock_give(&m->lock);
    for (size_t i = 0; i < made && !ok; i++)
        drop(&next[i]);
    mem_free(NULL, next, MAX(n, (size_t)1) * sizeof *next);
    return ok;
}

// Puts another address in the place of a member's.
static bool place_anew(struct known *k, str address, err *e)
{
    struct known fresh;
    if (!make(&fresh, k->member.kind, k->member.id, address, true, e)) return false;
    fresh.member.weight = k->member.weight;
    drop(k);
    *k = fresh;
    return true;
}

bool members_found(struct members *m, enum member_kind kind, const struct node_answer *answer,
                   str address, err *e)
{
    struct known fresh;
    str id = answer->node.node;
    bool there = false;
    lock_take(&m->lock);
    size_t at = row_of(m, kind, id, &there);
    bool ok = true;
    bool news = false;
    if (there && m->v[at].found && !str_eq(m->v[at].member.address, address)) {
        ok = news = place_anew(&m->v[at], address, e);
    } else if (!there) {
        ok = make(&fresh, kind, id, address, true, e);
        news = ok && insert(m, at, &fresh, e);
        if (ok && !news) drop(&fresh);
        ok = news;
    }
    // The weight at once: a member that is placed by another one for a moment is two changes.
    if (news) m->v[at].member.weight = answer->weight;
    if (news) log_change("member.found", &m->v[at].member);
    lock_give(&m->lock);
    return ok;
}

void members_weigh(struct members *m, str address, uint32_t weight)
{
    lock_take(&m->lock);
    for (size_t i = 0; i < m->n; i++) {
        struct member *k = &m->v[i].member;
        if (str_eq(k->address, address)) k->weight = weight;
    }
    lock_give(&m->lock);
}

bool members_has_found(struct members *m, enum member_kind kind, str address)
{
    bool has = false;
    lock_take(&m->lock);
    for (size_t i = 0; i < m->n; i++) {
        const struct known *k = &m->v[i];
        has |= k->found && k->member.kind == kind && str_eq(k->member.address, address);
    }
    lock_give(&m->lock);
    return has;
}

void members_keep_found(struct members *m, enum member_kind kind, const str *addresses, size_t n)
{
    lock_take(&m->lock);
    for (size_t i = m->n; i-- > 0;) {
        const struct known *k = &m->v[i];
        if (!k->found || k->member.kind != kind) continue;
        if (str_among(k->member.address, addresses, n)) continue;
        log_change("member.gone", &k->member);
        remove_row(m, i);
    }
    lock_give(&m->lock);
}

void members_moved(struct members *m, enum member_kind kind, str id)
{
    bool there = false;
    lock_take(&m->lock);
    size_t at = row_of(m, kind, id, &there);
    if (there && m->v[at].found) {
        log_change("member.moved", &m->v[at].member);
        remove_row(m, at);
    }
    lock_give(&m->lock);
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
        copy[at].boot = m->v[i].answered.boot;
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

static struct member_facts facts_of(const struct known *k, struct arena *a)
{
    const struct answered *x = &k->answered;
    struct member_facts f = {.member = k->member,
                             .found = k->found,
                             .failures = k->failures,
                             .since_mono_ns = k->since_mono_ns,
                             .heard_mono_ns = k->heard_mono_ns,
                             .failed_mono_ns = k->failed_mono_ns,
                             .why = arena_str(a, str_of(k->why)),
                             .answered_mono_ns = x->mono_ns,
                             .cluster = x->cluster,
                             .boot = x->boot,
                             .directory = x->directory,
                             .version = arena_str(a, str_of(x->version)),
                             .services = arena_str(a, str_of(x->services)),
                             .load = x->load,
                             .list = x->list};
    f.member.id = arena_str(a, k->member.id);
    f.member.address = arena_str(a, k->member.address);
    return f;
}

struct member_facts *members_facts(struct members *m, struct arena *a, size_t *count)
{
    *count = 0;
    lock_take(&m->lock);
    size_t n = m->n;
    struct member_facts *v = n ? ARENA_ARRAY(a, struct member_facts, n) : NULL;
    for (size_t i = 0; v && i < n; i++)
        v[i] = facts_of(&m->v[i], a);
    lock_give(&m->lock);
    if (!v || a->exhausted) return NULL;
    *count = n;
    return v;
}

uint64_t members_print(const struct member *v, size_t n)
{
    struct hash_state h;
    hash_begin(&h);
    for (size_t i = 0; i < n; i++) {
        assert(i == 0 || str_cmp(v[i - 1].id, v[i].id) < 0);
        hash_add(&h, v[i].id.p, v[i].id.n);
        hash_add(&h, "\xff", 1);
    }
    return hash_end(&h) | 1;
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
    bool there = false;
    assert(lock_is_mine(&m->lock));
    size_t at = row_of(m, kind, id, &there);
    return there ? &m->v[at] : NULL;
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
    uint64_t dead_ns = now - k->since_mono_ns;
    k->member.alive = true;
    k->since_mono_ns = now;
    log_info(NULL, "member.alive", "kind=%s id=%s address=%.*s dead_ms=%llu",
             member_kind_names[x->kind], log_quote(id, x->id), STR(x->address),
             (unsigned long long)(dead_ns / (uint64_t)NS_PER_MS));
}

// Appends as much of the text as there is room for, and the NUL.
static void append(char *to, size_t room, str text)
{
    size_t n = strlen(to);
    assert(n < room);
    text.n = MIN(text.n, room - 1 - n);
    if (text.n) memcpy(to + n, text.p, text.n);
    to[n + text.n] = '\0';
}

static void fall(struct known *k, str why)
{
    const struct member *x = &k->member;
    char id[LOG_QUOTE_MAX];
    char quoted[LOG_QUOTE_MAX];
    if (!x->alive) return;
    assert(x->kind < MEMBER_KINDS);
    k->member.alive = false;
    k->since_mono_ns = clock_mono_ns();
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

static void take_answer(struct known *k, uint64_t at, const struct node_answer *answer)
{
    const struct node_identity *n = &answer->node;
    struct answered x = {.mono_ns = at,
                         .cluster = n->cluster,
                         .boot = n->boot,
                         .directory = n->directory,
                         .load = answer->load,
                         .list = answer->list};
    append(x.version, sizeof x.version, answer->version);
    for (size_t i = 0; i < n->service_count; i++) {
        if (i > 0) append(x.services, sizeof x.services, S(" "));
        append(x.services, sizeof x.services, n->services[i]);
    }
    k->answered = x;
    if (k->member.alive && k->member.unready == answer->ready) k->since_mono_ns = at;
    k->member.unready = !answer->ready;
    k->member.weight = answer->weight;
}

void members_seen(struct members *m, enum member_kind kind, str id, uint64_t at_mono_ns,
                  const struct node_answer *answer)
{
    lock_take(&m->lock);
    struct known *k = find(m, kind, id);
    if (k) rise(k, at_mono_ns);
    if (k) take_answer(k, at_mono_ns, answer);
    lock_give(&m->lock);
}

static void note_why(struct known *k, str why)
{
    k->why[0] = '\0';
    append(k->why, sizeof k->why, why);
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
        note_why(k, why);
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
        if (waited >= MEMBER_SILENCE_NS && k->member.alive) {
            static const str why = S_INIT("it has said nothing for 3 s, to calls and to probes");
            note_why(k, why);
            fall(k, why);
        }
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
