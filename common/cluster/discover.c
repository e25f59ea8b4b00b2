// SPDX-License-Identifier: Apache-2.0
//
// discover.c - the thread: lists, look-ups, and probes of addresses whose node is not known yet.
#include "cluster/discover.h"

#include "cluster/dns.h"
#include "cluster/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/thread.h"

#define TICK_NS      ((uint64_t)NS_PER_S)
#define LOOK_UP_NS   (2 * (uint64_t)NS_PER_S)
#define PROBE_NS     ((uint64_t)NS_PER_S)
#define ROUND_MEMORY ((size_t)4 << 20)

// A name of the list, with the last answer about it.
struct source {
    const char *entry;  // of the list
    struct dns_name name;
    struct arena memory;  // of the addresses
    str *addresses;
    size_t n;
    bool failing;
    uint64_t answered_mono_ns;
    uint64_t failed_mono_ns;
    err why;  // of the last failure
};

struct kind_list {
    const char *const *entries;
    size_t n;
    bool taken;  // it was read once
    struct source *sources;
    size_t source_count;
    size_t source_cap;
};

struct discoverer {
    struct discover_options options;
    struct buf message;
    struct kind_list
        kinds[MEMBER_KINDS];  // the thread's; changed and read by others under the lock
    uint64_t due_mono_ns;     // the next look-ups
    pthread_t thread;
    struct lock lock;
    struct cond wake;
    atomic_bool stopping;
    struct req *now;  // of the probes under way, under the lock
};

// ---- lists

static void release_list(struct kind_list *k)
{
    for (size_t i = 0; i < k->source_count; i++)
        arena_release(&k->sources[i].memory);
    mem_free(NULL, k->sources, k->source_cap * sizeof *k->sources);
    *k = (struct kind_list){0};
}

static bool add_source(struct kind_list *k, const char *entry, err *e)
{
    struct source s = {.entry = entry};
    if (!dns_parse(str_of(entry), &s.name, e)) return false;
    if (!mem_grow(NULL, &k->sources, &k->source_cap, k->source_count + 1, sizeof s, e))
        return false;
    arena_init(&s.memory, NULL, ROUND_MEMORY);
    k->sources[k->source_count++] = s;
    return true;
}

// Names become sources, the other entries members of the list.
static bool read_list(struct discoverer *d, enum member_kind kind, struct kind_list *k, err *e)
{
    str *plain = NULL;
    size_t n = 0;
    size_t cap = 0;
    bool ok = true;
    for (size_t i = 0; i < k->n && ok; i++) {
        str entry = str_of(k->entries[i]);
        if (dns_is(entry)) {
            ok = add_source(k, k->entries[i], e);
            continue;
        }
        ok = mem_grow(NULL, &plain, &cap, n + 1, sizeof *plain, e);
        if (ok) plain[n++] = entry;
    }
    ok = ok && members_list(d->options.members, kind, plain, n, e);
    mem_free(NULL, plain, cap * sizeof *plain);
    return ok;
}

// Takes over a list that was read anew. Settings were checked when they were read, so that only
// memory may be lacking; then the next tick tries again.
static void take_list(struct discoverer *d, enum member_kind kind)
{
    struct kind_list *k = &d->kinds[kind];
    struct kind_list fresh = {.taken = true};
    char quoted[LOG_QUOTE_MAX];
    err e = {0};
    d->options.entries(d->options.arg, kind, &fresh.entries, &fresh.n);
    if (k->taken && k->entries == fresh.entries && k->n == fresh.n) return;
    if (read_list(d, kind, &fresh, &e)) {
        lock_take(&d->lock);
        release_list(k);
        *k = fresh;
        lock_give(&d->lock);
        d->due_mono_ns = 0;
        return;
    }
    release_list(&fresh);
    log_warn(NULL, "member.list_refused", "kind=%s why=%s", member_kind_names[kind],
             log_quote(quoted, str_of(e.msg)));
}

// ---- names

static void note_found(struct discoverer *d, struct source *s, const struct arena *memory,
                       str *addresses, size_t n)
{
    lock_take(&d->lock);
    arena_release(&s->memory);
    s->memory = *memory;
    s->addresses = addresses;
    s->n = n;
    s->failing = false;
    s->answered_mono_ns = clock_mono_ns();
    lock_give(&d->lock);
}

static void note_failed(struct discoverer *d, struct source *s, const err *why)
{
    lock_take(&d->lock);
    s->failing = true;
    s->failed_mono_ns = clock_mono_ns();
    s->why = *why;
    lock_give(&d->lock);
}

static void look_up(struct discoverer *d, struct source *s)
{
    const struct dns_options o = {.servers = d->options.servers,
                                  .timeout_ns = LOOK_UP_NS,
                                  .stop = &d->stopping};
    struct arena fresh;
    char quoted[LOG_QUOTE_MAX];
    str *addresses = NULL;
    size_t n = 0;
    err e = {0};
    arena_init(&fresh, NULL, ROUND_MEMORY);
    bool ok = dns_look_up(&s->name, &o, &fresh, &addresses, &n, &e);
    metric_add_to(&cluster_look_ups, ok ? S("answered") : S("failed"), 1);
    if (ok) {
        if (s->failing)
            log_info(NULL, "member.name_found", "name=%.*s addresses=%zu", STR(s->name.name), n);
        note_found(d, s, &fresh, addresses, n);
        return;
    }
    arena_release(&fresh);
    if (!s->failing && e.code != ERR_CANCELED)
        log_warn(NULL, "member.name_fails", "name=%.*s keeps=%zu why=%s", STR(s->name.name), s->n,
                 log_quote(quoted, str_of(e.msg)));
    note_failed(d, s, &e);
}

// All addresses of a kind; NULL if there is no memory for them.
static str *addresses_of(const struct kind_list *k, struct arena *a, size_t *n)
{
    size_t all = 0;
    for (size_t i = 0; i < k->source_count; i++)
        all += k->sources[i].n;
    str *v = ARENA_ARRAY(a, str, all + 1);
    *n = 0;
    for (size_t i = 0; v && i < k->source_count; i++) {
        for (size_t j = 0; j < k->sources[i].n; j++)
            v[(*n)++] = k->sources[i].addresses[j];
    }
    return v;
}

static struct discover_name name_of(enum member_kind kind, const struct source *s, struct arena *a)
{
    str *addresses = ARENA_ARRAY(a, str, s->n + 1);
    for (size_t i = 0; addresses && i < s->n; i++)
        addresses[i] = arena_str(a, s->addresses[i]);
    return (struct discover_name){.kind = kind,
                                  .name = arena_str(a, str_of(s->entry)),
                                  .addresses = addresses,
                                  .n = addresses ? s->n : 0,
                                  .answered_mono_ns = s->answered_mono_ns,
                                  .failed_mono_ns = s->failed_mono_ns,
                                  .why = arena_str(a, str_of(s->why.msg)),
                                  .failing = s->failing};
}

struct discover_name *discover_names(struct discoverer *d, struct arena *a, size_t *n)
{
    size_t all = 0;
    *n = 0;
    lock_take(&d->lock);
    for (int kind = 0; kind < MEMBER_KINDS; kind++)
        all += d->kinds[kind].source_count;
    struct discover_name *v = all ? ARENA_ARRAY(a, struct discover_name, all) : NULL;
    for (int kind = 0; v && kind < MEMBER_KINDS; kind++) {
        const struct kind_list *k = &d->kinds[kind];
        for (size_t i = 0; i < k->source_count; i++)
            v[(*n)++] = name_of((enum member_kind)kind, &k->sources[i], a);
    }
    lock_give(&d->lock);
    if (v && !a->exhausted) return v;
    *n = 0;
    return NULL;
}

// ---- the nodes at addresses

static bool has_service(const struct node_identity *node, enum member_kind kind)
{
    for (size_t i = 0; i < node->service_count; i++) {
        if (str_is(node->services[i], member_kind_names[kind])) return true;
    }
    return false;
}

static void take_answer(struct discoverer *d, enum member_kind kind, str address, str message)
{
    struct node_answer answer;
    char quoted[LOG_QUOTE_MAX];
    err e = {0};
    bool ok = node_read_answer(message, &answer, &e);
    if (ok && answer.node.node.n == 0) ok = err_set(&e, ERR_INVALID_ARGUMENT, "the node has no id");
    // Behind one address there may be nodes of other services, as in the all-in-one.
    if (ok && !has_service(&answer.node, kind)) return;
    ok = ok && members_found(d->options.members, kind, &answer, address, &e);
    if (!ok)
        log_debug(NULL, "member.not_found", "address=%.*s why=%s", STR(address),
                  log_quote(quoted, str_of(e.msg)));
}

// Publishes the request, so that discover_stop can cancel it, or takes it back (NULL).
static bool is_stopping(struct discoverer *d, struct req *now)
{
    lock_take(&d->lock);
    bool stopping = atomic_load(&d->stopping);
    d->now = stopping ? NULL : now;
    lock_give(&d->lock);
    return stopping;
}

static void ask_all(struct discoverer *d, enum member_kind kind, struct req *r, const str *v,
                    size_t n)
{
    struct peer_call *calls = ARENA_ARRAY(&r->arena, struct peer_call, n);
    struct call **waits = ARENA_ARRAY(&r->arena, struct call *, n);
    err first = {0};
    if (!calls || !waits || is_stopping(d, r)) return;
    for (size_t i = 0; i < n; i++) {
        peer_start(d->options.client, r, &calls[i], v[i], NODE_PROBE, buf_view(&d->message),
                   RANK_INGESTER, NODE_MESSAGE_MAX);
        waits[i] = &calls[i].http.call;
    }
    (void)!call_gather(r, waits, n, n, false, &first);
    bool stopped = is_stopping(d, NULL);
    for (size_t i = 0; i < n; i++) {
        str message = {0};
        err ignored = {0};  // whoever does not answer yet is asked again
        if (!stopped && peer_answer(&calls[i], &message, &ignored))
            take_answer(d, kind, v[i], message);
        peer_release(&calls[i]);
    }
}

static void find_nodes(struct discoverer *d, enum member_kind kind)
{
    struct req r;
    size_t n = 0;
    size_t news = 0;
    req_init(&r, RANK_DUTY, NULL, ROUND_MEMORY, PROBE_NS);
    str *v = addresses_of(&d->kinds[kind], &r.arena, &n);
    if (v) members_keep_found(d->options.members, kind, v, n);
    for (size_t i = 0; v && i < n; i++) {
        if (!members_has_found(d->options.members, kind, v[i])) v[news++] = v[i];
    }
    if (news) ask_all(d, kind, &r, v, news);
    req_release(&r);
}

// ---- the thread

static void tick(struct discoverer *d)
{
    for (int kind = 0; kind < MEMBER_KINDS; kind++)
        take_list(d, (enum member_kind)kind);
    uint64_t now = clock_mono_ns();
    bool due = now >= d->due_mono_ns;
    if (due) d->due_mono_ns = now + d->options.interval_ns;
    for (int kind = 0; kind < MEMBER_KINDS; kind++) {
        struct kind_list *k = &d->kinds[kind];
        for (size_t i = 0; i < k->source_count && due; i++)
            look_up(d, &k->sources[i]);
        find_nodes(d, (enum member_kind)kind);
    }
}

static void *discover_main(void *arg)
{
    struct discoverer *d = arg;
    while (!is_stopping(d, NULL)) {
        tick(d);
        uint64_t next = clock_mono_ns() + TICK_NS;
        lock_take(&d->lock);
        while (!atomic_load(&d->stopping) && clock_mono_ns() < next)
            cond_wait_until(&d->wake, &d->lock, next);
        lock_give(&d->lock);
    }
    return NULL;
}

static void release(struct discoverer *d)
{
    for (int kind = 0; kind < MEMBER_KINDS; kind++)
        release_list(&d->kinds[kind]);
    buf_release(&d->message);
    cond_release(&d->wake);
    lock_release(&d->lock);
    mem_free(NULL, d, sizeof *d);
}

struct discoverer *discover_start(const struct discover_options *o, err *e)
{
    struct discoverer *d = mem_alloc(NULL, sizeof *d, e);
    assert(o->interval_ns > 0);
    if (!d) return NULL;
    d->options = *o;
    lock_init(&d->lock, LOCK_DISCOVERER);
    cond_init(&d->wake);
    buf_init(&d->message, NULL, NODE_MESSAGE_MAX);
    node_put_probe(o->self, &d->message);
    if (buf_ok(&d->message, e) && thread_start(&d->thread, "discoverer", discover_main, d, e))
        return d;
    release(d);
    return NULL;
}

void discover_stop(struct discoverer *d)
{
    if (!d) return;
    lock_take(&d->lock);
    atomic_store(&d->stopping, true);
    if (d->now) atomic_store(&d->now->canceled, true);
    cond_wake_all(&d->wake);
    lock_give(&d->lock);
    thread_join(d->thread);
}

void discover_free(struct discoverer *d)
{
    if (d) release(d);
}
