// SPDX-License-Identifier: Apache-2.0
//
//     1. the first get reads the source; later ones take what is kept
//     2. S3_RENEW_NS before the end, one caller reads the source again while the others go on
//
// The source of keys may not answer. While the kept keys are valid that is no fault, and RETRY_NS
// later another caller tries again. After their end each caller is told why.
#include "s3/renew.h"

#include "sys/clock.h"
#include "sys/file.h"

#include <stdlib.h>

#define RETRY_NS   (10 * NS_PER_S)
#define ANSWER_MAX ((size_t)256 << 10)
#define ASK_S      5

// ---- small things

const char *s3_env(const char *name)
{
    const char *v = getenv(name);
    return v ? v : "";
}

bool s3_set_text(char *to, size_t room, str text, const char *what, err *e)
{
    if (text.n >= room)
        return err_set(e, ERR_DATA_LOSS, "%s has %zu bytes, limit %zu", what, text.n, room - 1);
    if (text.n) memcpy(to, text.p, text.n);
    to[text.n] = '\0';
    return true;
}

bool s3_read_file(const char *path, struct buf *b, err *e)
{
    buf_init(b, NULL, S3_SOURCE_MAX);
    if (file_read(path, b, e)) return true;
    buf_release(b);
    return false;
}

bool s3_ask(struct client *client, struct req *r, struct arena *a, const struct s3_question *q,
            str *answer, err *e)
{
    struct http_call call = {.method = q->method,
                             .address = q->address,
                             .path = q->path,
                             .body = q->body,
                             .answer_max = ANSWER_MAX,
                             .stall_s = ASK_S,
                             .tls = q->tls};
    if (q->header[0])
        http_headers_add(&call.headers, a, str_of(q->header[0]), str_of(q->header[1]));
    if (q->body.n)
        http_headers_add(&call.headers, a, S("content-type"),
                         S("application/x-www-form-urlencoded"));
    if (!arena_ok(a, e)) return false;
    http_start(client, r, &call, RANK_DISK);
    bool ok = call_wait(r, &call.call, e);
    *answer = ok ? arena_str(a, buf_view(&call.answer)) : (str){0};
    if (ok && call.status != 200) {
        ok = err_set(e, ERR_UNAVAILABLE, "%.*s answers %u: %.*s", STR(q->address), call.status,
                     STR(str_slice(*answer, 0, 200)));
    }
    http_call_release(&call);
    return ok && arena_ok(a, e);
}

// ---- life

void s3_renewal_init(struct s3_renewal *k, s3_source *source, void *owner, const char *name)
{
    *k = (struct s3_renewal){.source = source, .owner = owner, .name = name};
    lock_init(&k->lock, LOCK_KEYS);
    cond_init(&k->renewed);
}

void s3_renewal_release(struct s3_renewal *k)
{
    assert(!k->renewing);
    cond_release(&k->renewed);
    lock_release(&k->lock);
}

void s3_renewal_fix(struct s3_renewal *k)
{
    k->fixed = k->known = true;
    k->kept.ends_wall_ns = INT64_MAX;
}

void s3_renewal_over(struct s3_renewal *k)
{
    lock_take(&k->lock);
    if (!k->fixed) k->known = false;
    lock_give(&k->lock);
}

static bool is_good(const struct s3_renewal *k)
{
    return k->known && clock_wall_ns() < k->kept.ends_wall_ns;
}

// Is it this thread that renews? With the lock.
static bool takes_turn(const struct s3_renewal *k)
{
    if (k->renewing) return false;
    if (!is_good(k)) return true;
    if (k->kept.ends_wall_ns == INT64_MAX) return false;
    return k->kept.ends_wall_ns - clock_wall_ns() < S3_RENEW_NS &&
           (int64_t)clock_mono_ns() >= k->next_try_ns;
}

static bool read_source(struct s3_renewal *k, struct req *r, struct s3_kept *out, err *e)
{
    struct arena a;
    arena_init(&a, NULL, 4 * S3_SOURCE_MAX);
    *out = (struct s3_kept){0};
    bool ok = k->source(k->owner, r, &a, out, e);
    arena_release(&a);
    if (ok && out->ends_wall_ns == 0) out->ends_wall_ns = clock_wall_ns() + 2 * S3_RENEW_NS;
    return ok || err_wrap(e, "keys of the store (source: %s)", k->name);
}

static bool renew(struct s3_renewal *k, struct req *r, err *e)
{
    struct s3_kept fresh;
    err why = {0};
    k->renewing = true;
    lock_give(&k->lock);
    bool ok = read_source(k, r, &fresh, &why);
    lock_take(&k->lock);
    k->renewing = false;
    if (ok) {
        k->kept = fresh;
        k->known = true;
    }
    k->next_try_ns = ok ? 0 : (int64_t)clock_mono_ns() + RETRY_NS;
    cond_wake_all(&k->renewed);
    if (!ok && !is_good(k)) *e = why;
    return ok || is_good(k);
}

bool s3_renewal_get(struct s3_renewal *k, struct req *r, struct arena *a, struct s3_keys *out,
                    err *e)
{
    bool ok = true;
    lock_take(&k->lock);
    while (ok && !is_good(k) && k->renewing) {
        (void)cond_wait_until(&k->renewed, &k->lock, clock_mono_ns() + 100 * NS_PER_MS);
        ok = req_alive(r, e);
    }
    if (ok && takes_turn(k)) ok = renew(k, r, e);
    if (ok) {
        out->id = arena_str(a, str_of(k->kept.id));
        out->secret = arena_str(a, str_of(k->kept.secret));
        out->token = arena_str(a, str_of(k->kept.token));
    }
    lock_give(&k->lock);
    return ok && arena_ok(a, e);
}
