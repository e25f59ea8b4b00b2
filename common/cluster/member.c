// SPDX-License-Identifier: Apache-2.0
#include "cluster/member.h"

#include "cluster/metrics.h"
#include "sys/lock.h"

#define FAILURES_MAX 3  // in a row, until a member counts as dead

struct known {
    struct member member;
    unsigned failures;
    char *text;  // behind the strings of the member
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
    lock_take(&m->lock);
    int64_t all = (int64_t)m->n;
    for (size_t i = 0; i < m->n; i++)
        alive += m->v[i].member.alive;
    lock_give(&m->lock);
    metric_set_to(&cluster_members, S("alive"), alive);
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
    if (bare) address = id;
    if (!id.n || !address.n)
        return err_set(e, ERR_INVALID_ARGUMENT, "member '%.*s' is not id=address", STR(entry));

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

struct member *members_of(struct members *m, struct arena *a, enum member_kind kind, size_t *count)
{
    *count = 0;
    lock_take(&m->lock);
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->v[i].member.kind == kind;
    struct member *copy = n ? ARENA_ARRAY(a, struct member, n) : NULL;
    size_t at = 0;
    for (size_t i = 0; copy && i < m->n; i++) {
        const struct member *k = &m->v[i].member;
        if (k->kind != kind) continue;
        copy[at] = *k;
        copy[at].id = arena_str(a, k->id);
        copy[at].address = arena_str(a, k->address);
        at++;
    }
    lock_give(&m->lock);
    if (!copy || a->exhausted) return NULL;
    *count = n;
    return copy;
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

void members_report(struct members *m, str id, bool answered)
{
    if (!answered) metric_add(&cluster_reports_failed, 1);
    lock_take(&m->lock);
    for (size_t i = 0; i < m->n; i++) {
        struct known *k = &m->v[i];
        if (!str_eq(k->member.id, id)) continue;
        k->failures = answered ? 0 : k->failures + 1;
        if (k->failures == 0) k->member.alive = true;
        if (k->failures >= FAILURES_MAX) k->member.alive = false;
    }
    lock_give(&m->lock);
}
