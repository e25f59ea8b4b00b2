// SPDX-License-Identifier: Apache-2.0
//
// op.c - operations, tried until they are answered. A round:
//
//     1. every operation that is not over is signed and started; the client runs `width` at a time
//     2. all are awaited
//     3. those that were answered are over; the others wait for a pause and go into the next round
//
// What ends a try, and what follows:
//
//     no connection, connection lost, no byte for STALL_S    again; it may have been carried out
//     500, 502, 503, 504, 429, SlowDown, RequestTimeout      again
//     409 of two creations at once                           again: one of them may have failed
//     RequestTimeTooSkewed                                   again, with the service's time
//     ExpiredToken                                           again, with new keys
//     404 of an object that the service has just             again, EXPECTED_TRIES times in all:
//     refused to create because it is there                  some refuse before it can be read
//     a whole object whose CRC32C is not its writer's,       again, CRC_TRIES times in all: it was
//     a range of another length than it says                 damaged on its way. Then the bytes go
//                                                            to the reader, who has checks, too
//     any other status                                       over: it is the answer
#include "base/hash.h"
#include "s3/metrics.h"
#include "s3/s3_int.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <stdio.h>
#include <time.h>

#include <curl/curl.h>

#define TRIES_MAX      7
#define CRC_TRIES      3
#define EXPECTED_TRIES 5
#define PAUSE_FIRST    (50 * NS_PER_MS)
#define PAUSE_MAX      (5 * NS_PER_S)
#define PAUSE_STEP     (20 * NS_PER_MS)
#define STALL_S        30
#define TRY_ARENA      ((size_t)64 << 10)

static const struct {
    const char *name;
    const char *method;
    uint64_t nanodollars;  // of a request, at Amazon's list prices
} actions[S3_ACTIONS] = {
    [S3_GET] = {"get", "GET", 400},          [S3_HEAD] = {"head", "HEAD", 400},
    [S3_LIST] = {"list", "GET", 5000},       [S3_PUT] = {"put", "PUT", 5000},
    [S3_DELETE] = {"delete", "DELETE", 0},   [S3_DELETE_MANY] = {"delete_many", "POST", 0},
    [S3_BEGIN] = {"begin", "POST", 5000},    [S3_PART] = {"part", "PUT", 5000},
    [S3_END] = {"end", "POST", 5000},        [S3_DROP] = {"drop", "DELETE", 0},
    [S3_PENDING] = {"pending", "GET", 5000},
};

str s3_key(const struct s3 *s, struct arena *a, str name)
{
    return arena_printf(a, "%s%.*s", s->prefix, STR(name));
}

// ---- one try

static str path_of(const struct s3 *s, struct s3_op *o)
{
    struct buf path;
    buf_init(&path, NULL, 8192);
    buf_z(&path, s->base);
    buf_byte(&path, '/');
    s3_encode_path(&path, o->key);
    str copy = arena_str(&o->arena, buf_view(&path));
    if (path.failed) o->arena.exhausted = true;
    buf_release(&path);
    return copy;
}

static bool sign(struct s3 *s, struct req *r, struct s3_op *o, err *e)
{
    struct s3_signing signing = {.signer = s->speech->signer,
                                 .region = str_of(s->region),
                                 .method = actions[o->action].method,
                                 .query = o->query};
    struct http_call *c = &o->call;
    char hash[S3_HASH_TEXT];
    if (!s3_creds_get(s->creds, r, &o->arena, &signing.keys, e)) return false;
    signing.wall_ns = clock_wall_ns() + atomic_load(&s->clock_off_ns);
    signing.path = path_of(s, o);
    if (!s3_hash(o->body, hash)) return arena_fail(&o->arena, e);
    signing.body_hash = arena_str(&o->arena, str_make(hash, sizeof hash));
    http_headers_add(&c->headers, &o->arena, S("host"), str_of(s->host));
    for (size_t i = 0; i < o->extra_n; i++)
        http_headers_add(&c->headers, &o->arena, o->extra[i].name, o->extra[i].value);
    s3_sign(&signing, &c->headers, &o->arena);
    c->path = o->query.n ? arena_printf(&o->arena, "%.*s?%.*s", STR(signing.path), STR(o->query))
                         : signing.path;
    return arena_ok(&o->arena, e);
}

static bool start(struct s3 *s, struct req *r, struct s3_op *o)
{
    if (o->begun) s3_op_release(o);
    o->call = (struct http_call){.method = actions[o->action].method,
                                 .address = str_of(s->address),
                                 .body = o->body,
                                 .answer_max = o->answer_max,
                                 .stall_s = STALL_S,
                                 .tls = s->tls};
    arena_init(&o->arena, s->memory, TRY_ARENA);
    o->begun = true;
    o->fault = (err){0};
    o->tries++;
    if (!req_alive(r, &o->fault) || !sign(s, r, o, &o->fault)) return false;
    o->began_ns = clock_mono_ns();
    http_start(s->client, r, &o->call, RANK_DISK);
    o->running = true;
    if (o->tries > 1) metric_add_to(&s3_retries, str_of(actions[o->action].name), 1);
    return true;
}

void s3_op_release(struct s3_op *o)
{
    if (!o->begun) return;
    http_call_release(&o->call);
    arena_release(&o->arena);
    o->begun = false;
}

// ---- what came of it

static void count(const struct s3_op *o)
{
    const struct http_call *c = &o->call;
    str name = str_of(actions[o->action].name);
    uint64_t dollars = actions[o->action].nanodollars;
    char status[16];
    snprintf(status, sizeof status, "%u", c->status);
    metric_add_set(&s3_requests,
                   (str[]){name,
                           c->call.ok ? str_of(status) : str_of(err_name(c->call.fault.code))},
                   1);
    metric_observe_ns_to(&s3_seconds, name, c->call.ended_mono_ns - o->began_ns);
    metric_add_to(&s3_transfer, S("sent"), c->body.n);
    if (c->call.ok) metric_add_to(&s3_transfer, S("received"), c->answer.n);
    if (dollars) metric_add_to(&s3_cost, dollars < 1000 ? S("read") : S("write"), dollars);
}

// "Wed, 26 Nov 2026 01:02:03 GMT"
static void follow_clock(struct s3 *s, const struct http_call *c)
{
    char text[64];
    str date = http_headers_get(&c->answer_headers, "date");
    if (!date.n || date.n >= sizeof text) return;
    memcpy(text, date.p, date.n);
    text[date.n] = '\0';
    time_t at = curl_getdate(text, NULL);
    if (at > 0) atomic_store(&s->clock_off_ns, (int64_t)at * NS_PER_S - clock_wall_ns());
}

static bool is_busy(const struct s3_op *o, const struct s3_refusal *why)
{
    unsigned status = o->call.status;
    return status == 500 || status == 502 || status == 503 || status == 504 || status == 429 ||
           str_is(why->code, "SlowDown") || str_is(why->code, "RequestTimeout") ||
           str_is(why->code, "InternalError");
}

// Did other bytes arrive than those that were sent up? Of a range only their number tells: the
// checksums of its sections are the reader's.
static bool is_damaged(const struct s3 *s, const struct s3_op *o)
{
    str bytes = buf_view(&o->call.answer);
    char text[S3_CRC_TEXT + 1];
    uint64_t at = 0;
    uint64_t size = 0;
    if (o->action != S3_GET || (o->call.status != 200 && o->call.status != 206)) return false;
    if (!s3_read_place(o, &at, &size)) return true;
    str sent = http_headers_get(&o->call.answer_headers, s->speech->crc);
    if (sent.n != S3_CRC_TEXT || at > 0 || size != bytes.n) return false;
    snprintf(text, sizeof text, "%08x", crc32c(0, bytes.p, bytes.n));
    return !str_is(sent, text);
}

// Is an answer the service's last word? If not, whatever another try needs is done.
static bool is_last(struct s3 *s, struct s3_op *o)
{
    struct s3_refusal why = {0};
    unsigned status = o->call.status;
    if (o->tries < CRC_TRIES && is_damaged(s, o)) {
        metric_add(&s3_damaged, 1);
        return false;
    }
    if (status == 404 && o->expected && o->tries < EXPECTED_TRIES) return false;
    if (status < 400 || status == 404 || status == 412) return true;
    s3_read_refusal(&o->arena, buf_view(&o->call.answer), &why);
    if (is_busy(o, &why) || status == 409) return false;
    if (str_is(why.code, "RequestTimeTooSkewed") && o->tries == 1) {
        follow_clock(s, &o->call);
        return false;
    }
    if (str_is(why.code, "ExpiredToken") && o->tries == 1) {
        s3_creds_over(s->creds);
        return false;
    }
    return true;
}

// Is another try of use after one that got no answer?
static bool may_pass(const err *fault)
{
    return fault->code == ERR_UNAVAILABLE;
}

// After a round: true if the operation is over.
static bool conclude(struct s3 *s, const struct req *r, struct s3_op *o)
{
    bool was_last = o->tries == (o->tries_max ? o->tries_max : TRIES_MAX);
    if (o->running) count(o);
    if (o->running && o->call.call.ok) {
        o->answered = is_last(s, o);
        o->running = false;
        return o->answered || was_last;
    }
    if (o->running) {
        // The wait ended it: the request's time is over, or it was canceled.
        if (req_alive(r, &o->fault)) o->fault = o->call.call.fault;
        o->running = false;
    }
    return !may_pass(&o->fault) || was_last;
}

// Longer each time, and different for each caller: all that failed together would come back
// together.
static uint64_t pause_ns(unsigned tries)
{
    uint64_t most = MIN((uint64_t)PAUSE_FIRST << tries, (uint64_t)PAUSE_MAX);
    return most / 2 + rand_u64() % (most / 2);
}

static bool sleep_for(const struct req *r, uint64_t ns, err *e)
{
    uint64_t until = clock_mono_ns() + ns;
    for (uint64_t now = clock_mono_ns(); now < until; now = clock_mono_ns()) {
        if (!req_alive(r, e)) return false;
        nanosleep(&(struct timespec){.tv_nsec = (long)MIN(until - now, (uint64_t)PAUSE_STEP)},
                  NULL);
    }
    return true;
}

static void run_round(struct s3 *s, struct req *r, struct s3_op **v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)!start(s, r, v[i]);
    s3_await(s, r, v, n);
}

void s3_run(struct s3 *s, struct req *r, struct s3_op *v, size_t n)
{
    struct s3_op *round[64];
    for (size_t from = 0; from < n; from += COUNT(round)) {
        size_t left = MIN(n - from, COUNT(round));
        for (size_t i = 0; i < left; i++)
            round[i] = &v[from + i];
        for (unsigned tries = 0; left > 0; tries++) {
            err late = {0};
            if (tries > 0 && !sleep_for(r, pause_ns(tries), &late)) {
                for (size_t i = 0; i < left; i++)
                    if (round[i]->fault.code == ERR_OK) round[i]->fault = late;
                break;
            }
            run_round(s, r, round, left);
            size_t kept = 0;
            for (size_t i = 0; i < left; i++)
                if (!conclude(s, r, round[i])) round[kept++] = round[i];
            left = kept;
        }
    }
}

// ---- in words

static const char *advice(const struct s3_refusal *why, unsigned status)
{
    static const struct {
        const char *code;
        const char *advice;
    } known[] = {
        {"NoSuchBucket", "; make the bucket, or look at s3.bucket"},
        {"InvalidAccessKeyId", "; look at s3.access_key, or where else the keys come from"},
        {"SignatureDoesNotMatch", "; the secret key is wrong, or a proxy changes the request"},
        {"AccessDenied", "; the keys are known, but may not do this"},
        {"RequestTimeTooSkewed", "; set the clock of this machine"},
        {"ExpiredToken", "; the session token is over and could not be renewed"},
        {"InvalidToken", "; the session token is none of this service"},
        {"NotImplemented", "; this service lacks what Flametree needs"},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        if (str_is(why->code, known[i].code)) return known[i].advice;
    }
    if (status == 301 || status == 307 || str_is(why->code, "AuthorizationHeaderMalformed"))
        return "; look at s3.region and s3.endpoint";
    return "";
}

void s3_fault(struct s3 *s, struct s3_op *o, const char *what, str name, err *e)
{
    struct s3_refusal why = {0};
    unsigned status = o->call.status;
    if (!o->answered && o->fault.code != ERR_OK) {
        *e = o->fault;
        (void)err_wrap(e, "%s object %.*s", what, STR(name));
        return;
    }
    s3_read_refusal(&o->arena, buf_view(&o->call.answer), &why);
    if (status == 404 && !str_is(why.code, "NoSuchBucket")) {
        err_set(e, ERR_NOT_FOUND, "%s object %.*s: there is none", what, STR(name));
        return;
    }
    bool elsewhere = why.region.n && !str_is(why.region, s->region);
    err_set(e, ERR_UNAVAILABLE, "%s object %.*s: bucket %s at %s answers %u%s%.*s%s%.*s%s%s%.*s",
            what, STR(name), s->bucket, s->address, status, why.code.n ? " " : "", STR(why.code),
            why.message.n ? ": " : "", STR(str_slice(why.message, 0, 200)), advice(&why, status),
            elsewhere ? "; the bucket is in region " : "", elsewhere ? (int)why.region.n : 0,
            why.region.p);
}
