// SPDX-License-Identifier: Apache-2.0
//
// objects.c - opens and closes a store in a bucket; sizes, lists, deletions.
#include "s3/engine.h"
#include "s3/metrics.h"
#include "store/metrics.h"

#include <stdio.h>

#define WIDTH      32
#define ANSWER_MAX ((size_t)64 << 10)  // of operations that answer nothing but refusals
#define PAGE_MAX   ((size_t)4 << 20)   // a page of 1,000 keys, each up to 1 KB
#define PAGE_TRIES 3
#define REMOVALS   32
#define LIST_MOST  1000

// ---- sizes

static bool size_of(struct s3 *s, struct s3_op *o, str name, uint64_t *size, err *e)
{
    bool ok = s3_is_done(o);
    if (!ok) s3_fault(s, o, "look at", name, e);
    if (ok && !str_u64(http_headers_get(&o->call.answer_headers, "content-length"), size)) {
        ok =
            err_set(e, ERR_UNAVAILABLE, "look at object %.*s: the answer has no length", STR(name));
    }
    s3_op_release(o);
    return ok;
}

static void s3_size_many(struct store *st, struct req *r, struct store_sizing *v, size_t n)
{
    struct s3 *s = s3_of(st);
    err why = {0};
    const size_t most = MIN(n, (size_t)WIDTH);
    struct s3_op *ops = mem_alloc(r->arena.budget, most * sizeof *ops, &why);
    for (size_t from = 0, to = 0; from < n; from = to) {
        to = MIN(from + WIDTH, n);
        for (size_t i = from; ops && i < to; i++) {
            ops[i - from] = (struct s3_op){.action = S3_HEAD,
                                           .key = s3_key(s, &r->arena, v[i].name),
                                           .answer_max = ANSWER_MAX};
        }
        bool ready = ops && arena_ok(&r->arena, &why);
        if (ready) s3_run(s, r, ops, to - from);
        for (size_t i = from; i < to; i++) {
            if (!ready) v[i].fault = why;
            v[i].ok = ready && size_of(s, &ops[i - from], v[i].name, &v[i].size, &v[i].fault);
        }
    }
    mem_free(r->arena.budget, ops, most * sizeof *ops);
}

static bool s3_size(struct store *st, struct req *r, str name, uint64_t *size, err *e)
{
    struct s3_op o = {.action = S3_HEAD,
                      .key = s3_key(s3_of(st), &r->arena, name),
                      .answer_max = ANSWER_MAX};
    if (!arena_ok(&r->arena, e)) return false;
    s3_run(s3_of(st), r, &o, 1);
    return size_of(s3_of(st), &o, name, size, e);
}

// Both times are in the same answer, and by the same clock.
static bool s3_age(struct store *st, struct req *r, str name, int64_t *age_ns, err *e)
{
    struct s3 *s = s3_of(st);
    struct s3_op o = {.action = S3_HEAD,
                      .key = s3_key(s, &r->arena, name),
                      .answer_max = ANSWER_MAX};
    if (!arena_ok(&r->arena, e)) return false;
    s3_run(s, r, &o, 1);
    bool ok = s3_is_done(&o);
    if (!ok) s3_fault(s, &o, "look at", name, e);
    int64_t made_ns = ok ? s3_time_in(&o.call, "last-modified") : 0;
    int64_t now_ns = ok ? s3_answered_wall_ns(&o.call) : 0;
    if (ok && !made_ns)
        ok = err_set(e, ERR_UNAVAILABLE, "look at object %.*s: the answer has no time", STR(name));
    if (ok) *age_ns = (now_ns ? now_ns : s3_wall_ns(s)) - made_ns;
    s3_op_release(&o);
    return ok;
}

// ---- lists

static bool visit_page(const struct s3 *s, const struct s3_page *page, str after, store_visit *fn,
                       void *arg, err *e)
{
    size_t own = strlen(s->prefix);
    for (size_t i = 0; i < page->n; i++) {
        err strange = {0};
        str name = str_slice(page->v[i].key, own, page->v[i].key.n);
        // Consoles make objects whose names end in '/', to show folders: they are none of ours.
        if (!store_name_check(name, &strange)) continue;
        // A service that does not know start-after begins at the prefix.
        if (after.n && str_cmp(name, after) <= 0) continue;
        if (!fn(arg, name, page->v[i].size, e)) return false;
    }
    return true;
}

static str list_query(const struct s3 *s, struct arena *a, str prefix, str after, str token)
{
    struct buf q;
    buf_init(&q, NULL, 16 << 10);
    s->speech->list(&q, s3_key(s, a, prefix), after.n ? s3_key(s, a, after) : after, token,
                    LIST_MOST);
    return s3_text(a, &q);
}

// Is it a list of what was asked for? What keeps answers on the way may give that of another list.
static bool is_of(const struct s3 *s, struct arena *a, const struct s3_page *page, str prefix,
                  err *e)
{
    str own = s3_key(s, a, prefix);
    if (!arena_ok(a, e)) return false;
    bool fits = !page->prefix.n || str_eq(page->prefix, own);
    for (size_t i = 0; fits && i < page->n; i++)
        fits = str_starts(page->v[i].key, own);
    return fits || err_set(e, ERR_DATA_LOSS, "list %.*s: the answer is another list", STR(prefix));
}

static bool get_page_once(struct s3 *s, struct req *r, struct arena *a, str query, str prefix,
                          struct s3_page *page, err *e)
{
    struct s3_op o = {.action = S3_LIST, .query = query, .answer_max = PAGE_MAX};
    s3_run(s, r, &o, 1);
    bool ok = s3_is_done(&o);
    if (!ok) s3_fault(s, &o, "list", prefix, e);
    ok = ok && s->speech->read_page(a, buf_view(&o.call.answer), page, e) &&
         is_of(s, a, page, prefix, e);
    s3_op_release(&o);
    return ok;
}

// One page; its text lives in `a`. One that is not whole was damaged on its way, and is asked for
// again. No such answer tells what there is, so it is as if there were none.
static bool get_page(struct s3 *s, struct req *r, struct arena *a, str query, str prefix,
                     struct s3_page *page, err *e)
{
    for (unsigned tries = 1;; tries++) {
        if (get_page_once(s, r, a, query, prefix, page, e)) return true;
        if (e->code != ERR_DATA_LOSS) return false;
        if (tries == PAGE_TRIES) break;
        *e = (err){0};
    }
    e->code = ERR_UNAVAILABLE;
    return false;
}

static bool s3_list(struct store *st, struct req *r, str prefix, str after, store_visit *fn,
                    void *arg, err *e)
{
    struct s3 *s = s3_of(st);
    char kept[2048];
    str token = {0};
    bool ok = true;
    for (bool more = true; ok && more;) {
        struct arena a;
        struct s3_page page = {0};
        arena_init(&a, s->memory, PAGE_MAX);
        str query = list_query(s, &a, prefix, after, token);
        ok = arena_ok(&a, e) && get_page(s, r, &a, query, prefix, &page, e) &&
             visit_page(s, &page, after, fn, arg, e);
        more = page.truncated;
        if (ok && more && page.next.n > sizeof kept)
            ok = err_set(e, ERR_DATA_LOSS, "list %.*s: the token of the next page is too long",
                         STR(prefix));
        if (ok && more) {
            memcpy(kept, page.next.p, page.next.n);
            token = str_make(kept, page.next.n);
        }
        arena_release(&a);
    }
    return ok;
}

// ---- deletions

static bool is_removed(struct s3 *s, struct s3_op *o, str name, err *e)
{
    err why = {0};
    bool ok = s3_is_done(o);
    if (!ok) s3_fault(s, o, "delete", name, &why);
    ok = ok || why.code == ERR_NOT_FOUND;
    if (!ok) *e = why;
    s3_op_release(o);
    return ok;
}

static bool s3_remove(struct store *st, struct req *r, str name, err *e)
{
    struct s3 *s = s3_of(st);
    struct s3_op o = {.action = S3_DELETE,
                      .key = s3_key(s, &r->arena, name),
                      .answer_max = ANSWER_MAX};
    if (!arena_ok(&r->arena, e)) return false;
    s3_run(s, r, &o, 1);
    return is_removed(s, &o, name, e);
}

// A request for each, up to REMOVALS of them together.
static void remove_each(struct s3 *s, struct req *r, struct store_removal *v, size_t n)
{
    struct s3_op ops[REMOVALS];
    for (size_t from = 0, to = 0; from < n; from = to) {
        struct arena a;
        err why = {0};
        to = MIN(from + REMOVALS, n);
        memset(ops, 0, sizeof ops);
        arena_init(&a, s->memory, PAGE_MAX);
        for (size_t i = from; i < to; i++) {
            ops[i - from] = (struct s3_op){.action = S3_DELETE,
                                           .key = s3_key(s, &a, v[i].name),
                                           .answer_max = ANSWER_MAX};
        }
        bool ready = arena_ok(&a, &why);
        if (ready) s3_run(s, r, ops, to - from);
        for (size_t i = from; i < to; i++) {
            if (!ready) v[i].fault = why;
            v[i].ok = ready && is_removed(s, &ops[i - from], v[i].name, &v[i].fault);
        }
        arena_release(&a);
    }
}

static void s3_remove_many(struct store *st, struct req *r, struct store_removal *v, size_t n)
{
    struct s3 *s = s3_of(st);
    if (n == 1) {
        v[0].ok = s3_remove(st, r, v[0].name, &v[0].fault);
        return;
    }
    if (s->speech->remove_batch)
        s->speech->remove_batch(s, r, v, n);
    else
        remove_each(s, r, v, n);
}

// ---- what was left
static bool tidy(struct store *st, struct req *r, uint64_t age_ns, uint64_t *dropped, err *e)
{
    struct s3 *s = s3_of(st);
    *dropped = 0;
    return !s->speech->tidy || s->speech->tidy(s, r, age_ns, dropped, e);
}

// ---- open and close

void s3_free(struct s3 *s)
{
    s->speech->close(s);
    client_free(s->client);
    if (s->loop) loop_free(s->loop);
    mem_free(NULL, s, sizeof *s);
}

static void s3_close(struct store *st)
{
    s3_free(s3_of(st));
}

static const struct store_kind kind = {
    .name = "s3",
    .remote = true,
    .read_many = s3_read_many,
    .list = s3_list,
    .begin = s3_begin,
    .write = s3_write,
    .commit = s3_commit,
    .abandon = s3_abandon,
    .remove = s3_remove,
    .remove_many = s3_remove_many,
    .size = s3_size,
    .size_many = s3_size_many,
    .age = s3_age,
    .get = s3_get,
    .tidy = tidy,
    .close = s3_close,
};

struct s3 *s3_new(const struct s3_speech *speech, struct mem_budget *memory, unsigned width, err *e)
{
    struct s3 *s = mem_alloc(NULL, sizeof *s, e);
    if (!s) return NULL;
    metric_register(store_metrics, store_metric_count);
    metric_register(s3_metrics, s3_metric_count);
    s->store.kind = &kind;
    s->memory = memory;
    s->speech = speech;
    if (!speech->parts) atomic_store(&s->parts, S3_PARTS_REPLACE);
    s->width = width ? width : WIDTH;
    return s;
}

bool s3_connect(struct s3 *s, const char *setting, const char *ca_file, err *e)
{
    struct client_tls tls = {.ca_file = ca_file && ca_file[0] ? ca_file : NULL};
    s->loop = loop_new("s3", e);
    if (!s->loop) return false;
    s->client = client_new(s->loop, s->memory, s->width, e);
    if (!s->client) return false;
    return !tls.ca_file || client_set_tls(s->client, &tls, e) || err_wrap(e, "%s", setting);
}

bool s3_set_prefix(struct s3 *s, const char *setting, const char *prefix, err *e)
{
    const char *given = prefix ? prefix : "";
    if (given[0] && (!store_prefix_check(str_of(given), e) || strlen(given) > 512))
        return err_wrap(e, "%s", setting);
    snprintf(s->prefix, sizeof s->prefix, "%s%s", given,
             given[0] && !str_ends(str_of(given), S("/")) ? "/" : "");
    return true;
}

// Whether the port, if the address has one, is a number that a port can have.
static bool has_port(str authority)
{
    size_t colon = str_rfind(authority, ':');
    str port = str_slice(authority, colon + 1, authority.n);
    uint64_t n = 0;
    if (colon == authority.n || str_ends(authority, S("]"))) return true;
    return str_u64(port, &n) && n > 0 && n < 65536;
}

bool s3_read_place_url(str url, const char *setting, bool path_allowed, struct s3_place *out,
                       err *e)
{
    out->tls = str_starts(url, S("https://"));
    if (!out->tls && !str_starts(url, S("http://")))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "%s: '%.*s' begins with neither https:// nor http://", setting, STR(url));
    str rest = str_slice(url, out->tls ? S("https://").n : S("http://").n, url.n);
    if (str_ends(rest, S("/"))) rest.n--;
    size_t slash = path_allowed ? str_find(rest, '/') : rest.n;
    out->host = str_slice(rest, 0, slash);
    out->path = str_slice(rest, slash, rest.n);
    if (!out->host.n || !http_is_authority(out->host) || !has_port(out->host)) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "%s: '%.*s' is no address; it is written https://host:port%s", setting,
                       STR(url), path_allowed ? "" : ", without a path");
    }
    return true;
}
