// SPDX-License-Identifier: Apache-2.0
//
// tidy.c - drops uploads in parts of S3 that were begun long ago and never ended: a process was
// killed meanwhile, or did not hear what became of the end. Nobody sees their parts, but they cost
// what objects cost.
#include "s3/engine.h"

#include <stdio.h>

#define PAGE_MAX   ((size_t)4 << 20)
#define ANSWER_MAX ((size_t)64 << 10)
#define BATCH      32

struct tidying {
    struct s3 *s;
    struct req *r;
    int64_t before_ns;  // uploads that began earlier are dropped
    uint64_t dropped;
    // where the next page begins
    char key[1100];
    char id[600];
};

static str pending_query(const struct tidying *t, struct arena *a)
{
    struct buf q;
    buf_init(&q, NULL, 16 << 10);
    if (t->key[0]) s3_query_add(&q, "key-marker", str_of(t->key));
    s3_query_add(&q, "max-uploads", S("1000"));
    s3_query_add(&q, "prefix", s3_key(t->s, a, S("v1/")));  // others may use the bucket, too
    if (t->id[0]) s3_query_add(&q, "upload-id-marker", str_of(t->id));
    s3_query_add(&q, "uploads", (str){0});
    return s3_text(a, &q);
}

static str id_query(struct arena *a, str id)
{
    struct buf q;
    buf_init(&q, NULL, 4096);
    s3_query_add(&q, "uploadId", id);
    return s3_text(a, &q);
}

// Drops up to BATCH uploads. One that has gone meanwhile is fine.
static bool drop(struct tidying *t, const struct s3_pending *v, size_t n, err *e)
{
    struct s3_op ops[BATCH];
    struct arena a;
    memset(ops, 0, sizeof ops);
    arena_init(&a, t->s->memory, (size_t)256 << 10);
    for (size_t i = 0; i < n; i++) {
        ops[i] = (struct s3_op){.action = S3_DROP,
                                .key = v[i].key,
                                .query = id_query(&a, v[i].id),
                                .answer_max = ANSWER_MAX};
    }
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(t->s, t->r, ops, n);
    for (size_t i = 0; ok && i < n; i++) {
        bool gone = s3_is_done(&ops[i]) || ops[i].cause == S3_NO_UPLOAD;
        if (gone) t->dropped++;
        if (!gone) s3_fault(t->s, &ops[i], "drop the unfinished upload of", v[i].key, e);
        ok = gone;
    }
    for (size_t i = 0; i < n; i++)
        s3_op_release(&ops[i]);
    arena_release(&a);
    return ok;
}

static bool drop_old(struct tidying *t, const struct s3_pending_list *list, err *e)
{
    struct s3_pending batch[BATCH];
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct s3_pending *p = &list->v[i];
        int64_t began_ns = s3_time(p->initiated);
        if (began_ns == 0 || began_ns > t->before_ns) continue;
        batch[n++] = *p;
        if (n < BATCH) continue;
        if (!drop(t, batch, n, e)) return false;
        n = 0;
    }
    return n == 0 || drop(t, batch, n, e);
}

// One page; *more: there is another one.
static bool tidy_page(struct tidying *t, struct arena *a, bool *more, err *e)
{
    struct s3_pending_list list = {0};
    struct s3_op o = {.action = S3_PENDING, .query = pending_query(t, a), .answer_max = PAGE_MAX};
    if (!arena_ok(a, e)) return false;
    s3_run(t->s, t->r, &o, 1);
    bool ok = s3_is_done(&o);
    if (!ok) s3_fault(t->s, &o, "list unfinished uploads of", S("v1/"), e);
    ok = ok && s3_read_pending(a, buf_view(&o.call.answer), &list, e) && drop_old(t, &list, e);
    s3_op_release(&o);
    *more = ok && list.truncated;
    if (*more && (list.next_key.n >= sizeof t->key || list.next_id.n >= sizeof t->id))
        return err_set(e, ERR_DATA_LOSS, "list unfinished uploads: a marker is too long");
    if (*more) {
        snprintf(t->key, sizeof t->key, "%.*s", STR(list.next_key));
        snprintf(t->id, sizeof t->id, "%.*s", STR(list.next_id));
    }
    return ok;
}

bool s3_tidy(struct s3 *s, struct req *r, uint64_t age_ns, uint64_t *dropped, err *e)
{
    int64_t now = s3_wall_ns(s);
    struct tidying t = {.s = s, .r = r, .before_ns = age_ns ? now - (int64_t)age_ns : INT64_MAX};
    bool ok = true;
    for (bool more = true; ok && more;) {
        struct arena a;
        arena_init(&a, s->memory, PAGE_MAX);
        ok = tidy_page(&t, &a, &more, e);
        arena_release(&a);
    }
    *dropped = t.dropped;
    return ok;
}
