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
//     busy, or a conflict of two creations at once           again: one of them may have failed
//     our time is wrong                                      again, with the service's time
//     the keys are over                                      again, with new keys
//     not found, of an object that the service has just             again, EXPECTED_TRIES times in
//     all: refused to create because it is there                  some refuse before it can be read
//     a whole object whose CRC32C is not its writer's,       again, CRC_TRIES times in all: it was
//     a range of another length than it says                 damaged on its way. Then the bytes go
//                                                            to the reader, who has checks, too
//     an answer that is not the service's own (own.c)        again; it may have been carried out
//     a HEAD that is refused                                 at once, by a read of one byte, whose
//                                                            refusal has a code. If there is a
//                                                            byte, the HEAD again
//     any other status                                       over: it is the answer
//
// Which refusal means what is told by the speech (engine.h).
#include "base/hash.h"
#include "s3/engine.h"
#include "s3/metrics.h"
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

str s3_text(struct arena *a, struct buf *b)
{
    str copy = arena_str(a, buf_view(b));
    if (b->failed) a->exhausted = true;
    buf_release(b);
    return copy;
}

str s3_path(const struct s3 *s, struct s3_op *o)
{
    struct buf path;
    buf_init(&path, NULL, 8192);
    buf_z(&path, s->base);
    buf_byte(&path, '/');
    s3_encode_path(&path, o->key);
    return s3_text(&o->arena, &path);
}

str s3_target(struct s3_op *o, str path, str query)
{
    return query.n ? arena_printf(&o->arena, "%.*s?%.*s", STR(path), STR(query)) : path;
}

int64_t s3_wall_ns(const struct s3 *s)
{
    return clock_wall_ns() + atomic_load(&s->clock_off_ns);
}

// A HEAD that was refused asks by reading the first byte.
static enum s3_action asked_by(const struct s3_op *o)
{
    return o->by_read ? S3_GET : o->action;
}

static bool start(struct s3 *s, struct req *r, struct s3_op *o)
{
    enum s3_action by = asked_by(o);
    if (o->begun) s3_op_release(o);
    if (o->action == S3_HEAD) {
        o->extra[0] = (struct http_header){str_of(s->speech->range), S("bytes=0-0")};
        o->extra_n = o->by_read ? 1 : 0;
    }
    if (!o->at_once) o->tries++;  // the read belongs to the HEAD before it
    o->at_once = false;
    o->call = (struct http_call){.method = actions[by].method,
                                 .address = str_of(s->address),
                                 .body = o->body,
                                 .answer_max = o->answer_max,
                                 .stall_s = STALL_S,
                                 .tls = s->tls};
    arena_init(&o->arena, s->memory, TRY_ARENA);
    o->begun = true;
    o->fault = (err){0};
    o->cause = S3_NO_CAUSE;
    if (!req_alive(r, &o->fault) || !s->speech->prepare(s, r, o, &o->fault)) return false;
    o->began_ns = clock_mono_ns();
    http_start(s->client, r, &o->call, RANK_DISK);
    o->running = true;
    if (o->tries > 1 && !o->by_read) metric_add_to(&s3_retries, str_of(actions[o->action].name), 1);
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
    enum s3_action by = asked_by(o);
    str name = str_of(actions[by].name);
    uint64_t dollars = actions[by].nanodollars;
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
int64_t s3_time_in(const struct http_call *c, const char *header)
{
    char text[64];
    str date = http_headers_get(&c->answer_headers, header);
    if (!date.n || date.n >= sizeof text) return 0;
    memcpy(text, date.p, date.n);
    text[date.n] = '\0';
    time_t at = curl_getdate(text, NULL);
    return at > 0 ? (int64_t)at * NS_PER_S : 0;
}

int64_t s3_answered_wall_ns(const struct http_call *c)
{
    return s3_time_in(c, "date");
}

static void follow_clock(struct s3 *s, const struct http_call *c)
{
    int64_t at_ns = s3_answered_wall_ns(c);
    if (at_ns) atomic_store(&s->clock_off_ns, at_ns - clock_wall_ns());
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

// The byte was read, or there is none in an object without bytes: what refused the HEAD was wrong.
static bool denies_refusal(const struct s3_op *o)
{
    return o->by_read && (o->call.status / 100 == 2 || o->call.status == 416);
}

// Is an answer the service's last word? If not, whatever another try needs is done.
static bool is_last(struct s3 *s, struct s3_op *o)
{
    struct s3_refusal why = {0};
    if (o->tries < CRC_TRIES && is_damaged(s, o)) {
        metric_add(&s3_damaged, 1);
        return false;
    }
    if (o->call.status / 100 == 2) {
        o->cause = s->speech->vouch(s, o);
    } else {
        s->speech->read_refusal(&o->arena, &o->call, &why);
        o->cause = s->speech->cause(s, &o->call, &why);
    }
    if (o->cause != S3_STRANGE && denies_refusal(o)) {
        o->by_read = false;
        o->cause = S3_STRANGE;
    }
    switch (o->cause) {
    case S3_ABSENT:
        return !o->expected || o->tries >= EXPECTED_TRIES;
    case S3_UNSAID:
        o->by_read = o->at_once = true;
        return false;
    case S3_STRANGE:
        metric_add_to(&s3_strange, str_of(actions[asked_by(o)].name), 1);
        return false;
    case S3_BUSY:
        return false;
    case S3_CLOCK_OFF:
        if (o->tries > 1) return true;
        follow_clock(s, &o->call);
        return false;
    case S3_KEYS_OVER:
        if (o->tries > 1) return true;
        s->speech->keys_over(s);
        return false;
    case S3_NO_CAUSE:
    case S3_REFUSED:
    case S3_TAKEN:
    case S3_NO_UPLOAD:
    case S3_GONE:
    case S3_TOO_LARGE:
    case S3_UNPROVEN:
        break;
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

// One try of each. How many are not over, which come first then; *at_once: none of them waits for a
// pause.
static size_t run_round(struct s3 *s, struct req *r, struct s3_op **v, size_t n, bool *at_once)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        (void)!start(s, r, v[i]);
    s3_await(s, r, v, n);
    *at_once = true;
    for (size_t i = 0; i < n; i++) {
        if (conclude(s, r, v[i])) continue;
        *at_once = *at_once && v[i]->at_once;
        v[kept++] = v[i];
    }
    return kept;
}

void s3_run(struct s3 *s, struct req *r, struct s3_op *v, size_t n)
{
    struct s3_op *round[64];
    for (size_t from = 0; from < n; from += COUNT(round)) {
        size_t left = MIN(n - from, COUNT(round));
        for (size_t i = 0; i < left; i++)
            round[i] = &v[from + i];
        bool at_once = true;
        for (unsigned tries = 0; left > 0; tries++) {
            err late = {0};
            if (!at_once && !sleep_for(r, pause_ns(tries), &late)) {
                for (size_t i = 0; i < left; i++)
                    if (round[i]->fault.code == ERR_OK) round[i]->fault = late;
                break;
            }
            left = run_round(s, r, round, left, &at_once);
        }
    }
}

// ---- in words

static bool is_creation(enum s3_action action)
{
    return action == S3_PUT || action == S3_BEGIN || action == S3_PART || action == S3_END;
}

// The answer of something else, or one from which nothing follows.
static void strange_fault(const struct s3 *s, struct s3_op *o, const char *what, str name, err *e)
{
    str shown = s3_shown(&o->arena, buf_view(&o->call.answer));
    bool large = o->cause == S3_TOO_LARGE && is_creation(o->action);
    err_set(e, large ? ERR_OUT_OF_RANGE : ERR_UNAVAILABLE,
            "%s object %.*s: %s %s at %s answers %u%s%s%.*s%s", what, STR(name),
            s->speech->container, s->bucket, s->address, o->call.status,
            large ? ", so what is sent is too large for it or for a proxy before it"
                  : ", which does not look like its own answer (of a proxy?)",
            shown.n ? ": '" : "", STR(shown), shown.n ? "'" : "");
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
    if (o->cause == S3_STRANGE || o->cause == S3_UNSAID || o->cause == S3_UNPROVEN ||
        o->cause == S3_TOO_LARGE) {
        strange_fault(s, o, what, name, e);
        return;
    }
    s->speech->read_refusal(&o->arena, &o->call, &why);
    if (o->cause == S3_ABSENT) {
        err_set(e, ERR_NOT_FOUND, "%s object %.*s: there is none", what, STR(name));
        return;
    }
    str advice = s->speech->advice(s, &o->arena, &why, status);
    bool elsewhere = why.region.n && !str_is(why.region, s->region);
    err_set(e, ERR_UNAVAILABLE, "%s object %.*s: %s %s at %s answers %u%s%.*s%s%.*s%.*s%s%.*s",
            what, STR(name), s->speech->container, s->bucket, s->address, status,
            why.code.n ? " " : "", STR(why.code), why.message.n ? ": " : "",
            STR(str_slice(why.message, 0, 200)), STR(advice),
            elsewhere ? "; the bucket is in region " : "", elsewhere ? (int)why.region.n : 0,
            why.region.p);
}
