// SPDX-License-Identifier: Apache-2.0
//
// exchange.c - the states of a request and who may move them; see the head of exchange.h.
#include "net/exchange.h"

#include "net/metrics.h"
#include "sys/clock.h"

#include <sys/socket.h>

// Refusals are made in memory that counts elsewhere, so that they work when the budget is used up:
// at most this much for each, for as long as it is being written.
#define REFUSAL_MAX ((size_t)64 << 10)

// Answers of workers that send them themselves: an acknowledgement is a few bytes. A larger one
// would hold up a worker, or the loop that wants the connection back, for longer than a switch.
#define SENT_BODY_MAX ((size_t)4 << 10)
#define SENT_HEAD_MAX ((size_t)2 << 10)

#define BIT(state) (1u << (EXCHANGE_##state))

// Which states may follow.
static const unsigned successors[EXCHANGE_STATES] = {
    [EXCHANGE_HEAD] = BIT(BODY) | BIT(ANSWER) | BIT(DONE),
    [EXCHANGE_BODY] = BIT(QUEUED) | BIT(ANSWER) | BIT(DONE),
    [EXCHANGE_QUEUED] = BIT(RUNNING) | BIT(ANSWER),
    [EXCHANGE_RUNNING] = BIT(HELD) | BIT(ANSWER),
    [EXCHANGE_HELD] = BIT(ANSWER),
    [EXCHANGE_ANSWER] = BIT(DONE),
    [EXCHANGE_DONE] = 0,
};

#define OFFER_BIT(offer) (1u << (OFFER_##offer))

static const unsigned offer_successors[OFFER_STATES] = {
    [OFFER_NONE] = OFFER_BIT(OPEN),
    [OFFER_OPEN] = OFFER_BIT(WITHDRAWN) | OFFER_BIT(USED),
    [OFFER_WITHDRAWN] = 0,
    [OFFER_USED] = 0,
};

static const char *state_name(enum exchange_state state)
{
    static const char *const names[EXCHANGE_STATES] = {"head", "body",   "queued", "running",
                                                       "held", "answer", "done"};
    return names[state];
}

static enum exchange_state state_of(const struct exchange *ex)
{
    return atomic_load_explicit(&ex->state, memory_order_relaxed);
}

// Relaxed is enough: the exchange passes from thread to thread under a lock (of the lane, of the
// loop's inbox), and that orders the memory.
static void set_state(struct exchange *ex, enum exchange_state to)
{
    enum exchange_state from = state_of(ex);
    assert(from < EXCHANGE_STATES && (successors[from] & 1u << to));
    atomic_store_explicit(&ex->state, to, memory_order_relaxed);
    metric_add_to(&net_exchanges, str_of(state_name(from)), UINT64_MAX);
    if (to != EXCHANGE_DONE) metric_add_to(&net_exchanges, str_of(state_name(to)), 1);
}

static void link_conn(struct exchange *ex, struct conn *c)
{
    assert(!ex->conn);
    ex->conn = c;
    ex->next = c->exchanges;
    if (ex->next) ex->next->prev = ex;
    c->exchanges = ex;
}

static void unlink_conn(struct exchange *ex)
{
    struct conn *c = ex->conn;
    if (!c) return;
    assert(c->exchanges && (ex->prev || c->exchanges == ex));
    if (ex->prev)
        ex->prev->next = ex->next;
    else
        c->exchanges = ex->next;
    if (ex->next) ex->next->prev = ex->prev;
    ex->conn = NULL;
    ex->next = NULL;
    ex->prev = NULL;
}

struct exchange *exchange_new(struct conn *c, unsigned version)
{
    err e = {0};
    struct server *s = c->shard->server;
    const struct server_options *o = &s->options;
    struct mem_budget *from = o->memory;
    struct exchange *ex = mem_alloc(from, sizeof *ex, &e);
    if (!ex) ex = mem_alloc(from = o->refusals, sizeof *ex, &e);  // to say that memory is used up
    if (!ex) return NULL;
    // Freed to the budget that it came from, whichever that was.
    ex->from = from;
    req_init(&ex->x.req, o->rank, o->memory, o->request_memory_max, o->request_timeout_ns);
    ex->x.req.arena.setting = "server.request_memory";
    ex->x.version = version;
    ex->x.tls = c->tls != NULL;
    ex->x.peer = arena_str(&ex->x.req.arena, str_of(c->peer));
    ex->server = s;
    assert(!c->shard->loop || loop_is_here(c->shard->loop));  // tests have no loop
    ex->reader = reader_share(c->reader);
    ex->loop = c->shard->loop;
    ex->mark_ns = c->shard->now_ns;
    lock_init(&ex->lock, LOCK_ANSWER);
    link_conn(ex, c);
    atomic_fetch_add(&s->exchanges, 1);
    metric_add_to(&net_exchanges, S("head"), 1);
    metric_add_to(&net_requests, str_of(c->ops->protocol), 1);
    return ex;
}

struct exchange *exchange_inside(struct server *s, const struct req *asker,
                                 void (*done)(struct exchange *ex), struct http_call *call, err *e)
{
    struct exchange *ex = mem_alloc(NULL, sizeof *ex, e);
    if (!ex) return NULL;
    assert(done && call && asker);
    const struct server_options *o = &s->options;
    ex->server = s;
    ex->done = done;
    ex->call = call;
    ex->x.version = 11;
    req_init(&ex->x.req, o->rank, o->memory, o->request_memory_max, o->request_timeout_ns);
    ex->x.req.arena.setting = "server.request_memory";
    ex->x.req.asker = asker;
    atomic_fetch_add(&s->exchanges, 1);
    metric_add_to(&net_exchanges, S("head"), 1);
    // After counting: either server_close sees this exchange, or we see here that it drains.
    if (atomic_load(&s->draining)) {
        exchange_end(ex);
        err_set(e, ERR_UNAVAILABLE, "the server is shutting down");
        return NULL;
    }
    metric_add_to(&net_requests, S("inside"), 1);
    return ex;
}

static void free_now(struct exchange *ex)
{
    struct server *s = ex->server;
    unlink_conn(ex);
    held_end(ex);
    req_release(&ex->x.req);
    arena_release(&ex->kept);
    buf_release(&ex->x.body);
    buf_release(&ex->x.out);
    // Exchanges from inside the process have no loop, and no lock was made for them.
    if (ex->loop) lock_release(&ex->lock);
    mem_free(ex->from, ex, sizeof *ex);
    // Sequentially consistent with server_close, which sets `draining` before it looks at the
    // count: one of the two sees the other.
    if (atomic_fetch_sub(&s->exchanges, 1) != 1 || !atomic_load(&s->draining)) return;
    lock_take(&s->lock);
    cond_wake_all(&s->change);
    lock_give(&s->lock);
}

void exchange_spare(struct exchange *ex)
{
    assert(!ex->spare && state_of(ex) == EXCHANGE_HEAD);
    ex->spare = true;
    ex->kept = ex->x.req.arena;
    // Kept, not released: the head that was read so far lies in it.
    const struct server_options *o = &ex->server->options;
    arena_init(&ex->x.req.arena, o->refusals, o->head_max * 4 + REFUSAL_MAX);
}

str exchange_answer(const struct exchange *ex)
{
    return ex->x.fixed.n ? ex->x.fixed : buf_view(&ex->x.out);
}

static void clear_answer(struct exchange *ex)
{
    struct http_exchange *x = &ex->x;
    assert(ex->refused || ex->spare);
    buf_release(&x->out);
    buf_init(&x->out, ex->server->options.refusals, REFUSAL_MAX);
    x->fixed = (str){0};
    x->answer_headers = (struct http_headers){0};
    x->trailers = (struct http_headers){0};
}

// Any thread. The arena is put aside, because it may be the one that is used up. What the app has
// written so far is dropped, because it may be half of an answer.
static void refuse(struct exchange *ex, unsigned status, const err *e, const char *reason)
{
    struct http_exchange *x = &ex->x;
    assert(!ex->refused);
    ex->refused = true;
    assert(status >= 400 && e->code != ERR_OK);
    metric_add_to(&net_refused, str_of(reason), 1);
    buf_release(&x->body);
    if (!ex->spare) {
        ex->kept = x->req.arena;
        arena_init(&x->req.arena, ex->server->options.refusals, REFUSAL_MAX);
    }
    clear_answer(ex);
    x->status = status;
    ex->server->app.refuse(ex->server->app.self, x, e);
    // Not even the refusal had room, or the app made none: the code's name needs no memory.
    if (x->out.failed || x->req.arena.exhausted || x->status == 0) {
        clear_answer(ex);
        x->req.arena.exhausted = false;
        x->status = status;
        x->fixed = str_of(err_name(e->code));
    }
}

// Each 429 and 503, ours or that of a node behind us, tells the client when to come again.
static void add_retry_after(struct http_exchange *x)
{
    if (x->status != 429 && x->status != 503) return;
    if (http_headers_has(&x->answer_headers, "retry-after")) return;
    http_headers_add(&x->answer_headers, &x->req.arena, S("retry-after"), S("1"));
}

// Loop, or any thread without one. The answer is complete.
static void answer(struct exchange *ex)
{
    unsigned status = ex->x.status;
    assert(status >= 200 && status <= 599);
    assert(ex->done || !ex->loop || loop_is_here(ex->loop));
    add_retry_after(&ex->x);
    if (ex->done) {
        set_state(ex, EXCHANGE_ANSWER);
        ex->done(ex);
        return;
    }
    if (!ex->conn || ex->conn->state == CONN_CLOSED) {
        // The client left meanwhile. EXCHANGE_ANSWER is passed through, so that DONE has one
        // predecessor for all that were answered.
        metric_add(&net_gone, 1);
        set_state(ex, EXCHANGE_ANSWER);
        exchange_end(ex);
        return;
    }
    set_state(ex, EXCHANGE_ANSWER);
    ex->mark_ns = ex->conn->shard->now_ns;
    ex->mark_bytes = 0;
    bool head = ex->no_body || str_is(ex->x.method, "HEAD");
    ex->body_only_head = head || status == 204 || status == 304;
    arena_release(&ex->kept);  // a refusal has its own arena, and needs nothing of this one
    // Now, because the time for reading counts from here, not from when the worker was done.
    held_send(ex);
    struct conn *c = ex->conn;
    // From here on ex may be gone: HTTP/1.1 ends an exchange whose small answer was copied.
    c->ops->answer(c, ex);
    conn_dirty(c);
}

void exchange_refuse(struct exchange *ex, unsigned status, const err *e, const char *reason)
{
    refuse(ex, status, e, reason);
    answer(ex);
}

void exchange_reject(struct exchange *ex, unsigned status, const err *e, const char *reason)
{
    metric_add_to(&net_refused, str_of(reason), 1);
    assert(status >= 400 && status <= 599);
    if (!ex->spare) exchange_spare(ex);
    clear_answer(ex);
    ex->x.status = status;
    buf_z(&ex->x.out, e->msg);
    buf_byte(&ex->x.out, '\n');
    if (ex->x.out.failed) ex->x.fixed = str_of(err_name(e->code));
    http_headers_add(&ex->x.answer_headers, &ex->x.req.arena, S("content-type"),
                     S("text/plain; charset=utf-8"));
    answer(ex);
}

// Worker, or loop for exchanges without a lane. If out or the arena failed, the answer may lack
// bytes or headers, so it is replaced by an error.
static void run_handler(struct exchange *ex)
{
    struct http_exchange *x = &ex->x;
    assert(state_of(ex) == EXCHANGE_RUNNING);
    err e = {0};
    ex->server->app.run(ex->server->app.self, x);
    if (!arena_ok(&x->req.arena, &e) || !buf_ok(&x->out, &e)) {
        refuse(ex, 429, &e, "answer_too_large");
    } else if (x->status < 200 || x->status > 599) {
        err_set(&e, ERR_INTERNAL, "the handler gave status %u", x->status);
        refuse(ex, 500, &e, "no_answer");
    }
}

// ---- answers that the worker sends

static void set_offer(struct exchange *ex, enum exchange_offer to)
{
    assert(ex->offer < OFFER_STATES && (offer_successors[ex->offer] & 1u << to));
    ex->offer = to;
}

// The loop. False: the worker has sent already.
static bool withdraw_offer(struct exchange *ex)
{
    assert(ex->offered);
    lock_take(&ex->lock);
    bool sent = ex->offer == OFFER_USED;
    if (ex->offer == OFFER_OPEN) set_offer(ex, OFFER_WITHDRAWN);
    lock_give(&ex->lock);
    return !sent;
}

// Under the lock. Bytes that the socket does not take stay in x.out, for the loop. False: the
// socket takes nothing, or is broken; the loop will find that out as well.
static bool put_on_wire(struct exchange *ex, str bytes)
{
    assert(lock_is_mine(&ex->lock) && bytes.n > 0);
    ssize_t n = send(ex->fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) return false;
    metric_add(&net_bytes_out, (uint64_t)n);
    held_sent(ex);  // now: the loop may sleep, and the next request must not find the share used up
    buf_release(&ex->x.out);
    buf_init(&ex->x.out, NULL, SENT_BODY_MAX + SENT_HEAD_MAX);
    buf_str(&ex->x.out, str_slice(bytes, (size_t)n, bytes.n));
    return true;
}

// True: the answer is sent, and the exchange is the loop's. The request's memory is freed at once,
// because the loop may not wake for a while.
static bool send_answer(struct exchange *ex)
{
    struct http_exchange *x = &ex->x;
    bool plain = !ex->refused && x->status == 200 && x->trailers.n == 0;
    if (!ex->ops || !plain || x->hold_until_mono_ns) return false;
    // Refusals, held answers, trailers and all but 200 are rare. The loop sends those, which knows
    // all cases.
    str body = exchange_answer(ex);
    if (body.n > SENT_BODY_MAX || atomic_load(&ex->server->draining)) return false;
    struct buf b;
    buf_init(&b, NULL, SENT_BODY_MAX + SENT_HEAD_MAX);
    (void)buf_reserve(&b, body.n + SENT_HEAD_MAX / 4);
    ex->ops->render(ex, &b);  // before the lock is taken: the loop may wait for it
    lock_take(&ex->lock);
    bool sent = !b.failed && ex->offer == OFFER_OPEN && put_on_wire(ex, buf_view(&b));
    if (sent) {
        buf_release(&x->body);
        if (!x->req.arena.hooks) arena_release(&x->req.arena);  // a hook may take any lock
        set_offer(ex, OFFER_USED);
        // "Later": the loop need not wake for it. The next event of this connection finds the
        // exchange.
        loop_post_later(ex->loop, &ex->given_back);
    }
    lock_give(&ex->lock);
    buf_release(&b);
    return sent;
}

void exchange_silence(struct exchange *ex)
{
    if (ex->offered) (void)withdraw_offer(ex);
}

void exchange_recall(struct exchange *ex)
{
    if (!ex->offered) return;
    bool sent = !withdraw_offer(ex);
    ex->offered = false;
    if (sent) loop_catch_up(ex->loop);
}

static void on_sent(struct exchange *ex)
{
    // The worker posted this under the lock and may not have given it back yet. The lock is part of
    // the exchange, which is freed below.
    lock_take(&ex->lock);
    lock_give(&ex->lock);
    assert(ex->offer == OFFER_USED);
    struct conn *c = ex->conn;
    set_state(ex, EXCHANGE_ANSWER);
    if (!c || c->state == CONN_CLOSED) {
        exchange_end(ex);
        return;
    }
    c->ops->sent(c, ex);
    conn_dirty(c);
}

// Before the job is submitted. From here on each event of the connection withdraws the offer.
static void offer(struct exchange *ex)
{
    assert(!ex->offered && state_of(ex) == EXCHANGE_QUEUED);
    const struct conn *c = ex->conn;
    if (!c || !c->ops->offers || !c->ops->offers(c, ex)) return;
    // Copied, because the worker must not touch the connection, which is the loop's.
    ex->ops = c->ops;
    ex->fd = c->fd;
    ex->offered = true;
    set_offer(ex, OFFER_OPEN);
}

static void give_back(struct exchange *ex)
{
    // The last line of a job that touches ex: after the post it is the loop's.
    if (ex->done) return answer(ex);
    if (!send_answer(ex)) loop_post(ex->loop, &ex->given_back);
}

static void on_job_run(struct job *j)
{
    struct exchange *ex = CONTAINER_OF(j, struct exchange, job);
    err e = {0};
    set_state(ex, EXCHANGE_RUNNING);
    bool ok = held_may_begin(ex, &e);
    if (ok) run_handler(ex);
    // Before the answer is counted nothing of it may leave; a refusal has a small arena of its own.
    if (ok && !ex->refused) ok = held_begin(ex, &e);
    if (!ok) refuse(ex, 429, &e, "answers_unread");
    give_back(ex);
}

static void on_job_refuse(struct job *j, const err *e)
{
    struct exchange *ex = CONTAINER_OF(j, struct exchange, job);
    // Not run, but the states of an exchange have one way from QUEUED to an answer by a worker.
    set_state(ex, EXCHANGE_RUNNING);
    refuse(ex, err_http_status(e->code), e, "lane");
    give_back(ex);
}

// ---- answers that are held back

// The timer of a held answer. It outlives the exchange, because libuv closes handles later.
struct hold {
    uv_timer_t timer;
    struct exchange *ex;
    struct server *server;
};

static void on_hold_closed(uv_handle_t *h)
{
    struct hold *hold = CONTAINER_OF((uv_timer_t *)h, struct hold, timer);
    struct server *s = hold->server;
    mem_free(NULL, hold, sizeof *hold);
    server_handle_closed(s);
}

static void hold_end(struct exchange *ex)
{
    struct hold *hold = ex->hold;
    assert(hold && hold->ex == ex);
    ex->hold = NULL;
    uv_close((uv_handle_t *)&hold->timer, on_hold_closed);
}

static void on_hold_over(uv_timer_t *t)
{
    struct exchange *ex = CONTAINER_OF(t, struct hold, timer)->ex;
    if (ex->conn) shard_tick(ex->conn->shard);
    hold_end(ex);
    answer(ex);
}

static bool hold_begin(struct exchange *ex)
{
    uint64_t now = clock_mono_ns();
    uint64_t until = ex->x.hold_until_mono_ns;
    if (!ex->conn || until <= now || atomic_load(&ex->server->draining)) return false;
    err e = {0};
    struct hold *hold = mem_alloc(NULL, sizeof *hold, &e);
    if (!hold) return false;  // without memory the answer goes out sooner than wanted
    uv_loop_t *uv = loop_uv(ex->loop);
    assert(!ex->hold);
    hold->ex = ex;
    hold->server = ex->server;
    ex->hold = hold;
    atomic_fetch_add(&ex->server->handles, 1);
    set_state(ex, EXCHANGE_HELD);
    uv_update_time(uv);  // libuv counts from its cached time, which may be as old as this turn
    uv_timer_init(uv, &hold->timer);
    uv_timer_start(&hold->timer, on_hold_over, (until - now) / (uint64_t)NS_PER_MS + 1, 0);
    return true;
}

static void on_given_back(struct loop_task *t)
{
    struct exchange *ex = CONTAINER_OF(t, struct exchange, given_back);
    loop_assert(ex->loop);
    // The worker sent it: only the exchange's end is left to do.
    if (ex->offer == OFFER_USED) return on_sent(ex);
    if (hold_begin(ex)) return;
    if (ex->conn) shard_tick(ex->conn->shard);
    answer(ex);
}

bool exchange_is_vital(const struct exchange *ex, uint64_t length)
{
    const struct server_app *app = &ex->server->app;
    return length == 0 && app->vital && app->vital(app->self, &ex->x);
}

bool exchange_head(struct exchange *ex, uint64_t length)
{
    struct http_exchange *x = &ex->x;
    const struct server *s = ex->server;
    assert(state_of(ex) == EXCHANGE_HEAD);
    ex->vital = exchange_is_vital(ex, length);
    // Before the application is asked, so that its look-ups too have room when memory is used up.
    if (ex->vital) arena_move(&x->req.arena, s->options.reserve);
    buf_init(&x->out, s->options.memory, s->options.request_memory_max);
    enum head_verdict verdict = s->app.head(s->app.self, x);
    err e = {0};
    if (!arena_ok(&x->req.arena, &e)) {
        exchange_refuse(ex, 429, &e, "memory");
        return false;
    }
    if (verdict == HEAD_ANSWERED) {
        bool held = !ex->vital || (held_may_begin(ex, &e) && held_begin(ex, &e));
        if (!buf_ok(&x->out, &e) || !held)
            exchange_refuse(ex, 429, &e, "answers_unread");
        else
            answer(ex);
        return false;
    }
    // By the announced length, before a byte of it is read. UINT64_MAX: chunked, so unknown.
    if (length != UINT64_MAX && length > x->body_max) {
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "body is %llu bytes, limit %zu",
                (unsigned long long)length, x->body_max);
        exchange_refuse(ex, 413, &e, "body_too_large");
        return false;
    }
    // The cap is the announced length, so that the last doubling does not go beyond it. Memory is
    // taken only as bytes arrive: otherwise a thousand heads could claim all of it.
    assert(verdict == HEAD_READ_BODY && !ex->refused);
    buf_init(&x->body, x->req.arena.budget, (size_t)MIN(length, (uint64_t)x->body_max));
    set_state(ex, EXCHANGE_BODY);
    return true;
}

static bool body_fits(struct exchange *ex, size_t n)
{
    struct http_exchange *x = &ex->x;
    assert(state_of(ex) == EXCHANGE_BODY);
    if (n <= x->body_max - x->body.n) return true;
    err e = {0};
    err_set(&e, ERR_RESOURCE_EXHAUSTED, "body is more than %zu bytes", x->body_max);
    exchange_refuse(ex, 413, &e, "body_too_large");
    return false;
}

bool exchange_body_lent(struct exchange *ex, str body)
{
    assert(ex->done);
    if (!body_fits(ex, body.n)) return false;
    // The asking job waits until the answer is there, so its bytes need no copy.
    buf_lend(&ex->x.body, body);
    return true;
}

bool exchange_body(struct exchange *ex, const char *p, size_t n)
{
    struct http_exchange *x = &ex->x;
    err e = {0};
    if (!body_fits(ex, n)) return false;
    buf_put(&x->body, p, n);
    if (!buf_ok(&x->body, &e)) {
        err_wrap(&e, "body");
        exchange_refuse(ex, 429, &e, "memory");
        return false;
    }
    ex->mark_bytes += n;
    if (ex->conn && ex->mark_bytes >= PROGRESS_BYTES) {
        ex->mark_bytes = 0;
        ex->mark_ns = ex->conn->shard->now_ns;
    }
    return true;
}

bool exchange_body_fits(struct exchange *ex, uint64_t more)
{
    const struct http_exchange *x = &ex->x;
    assert(state_of(ex) == EXCHANGE_BODY);
    if (more <= x->body_max - x->body.n) return true;
    err e = {0};
    err_set(&e, ERR_RESOURCE_EXHAUSTED, "body is more than %zu bytes", x->body_max);
    exchange_refuse(ex, 413, &e, "body_too_large");
    return false;
}

void exchange_body_end(struct exchange *ex)
{
    set_state(ex, EXCHANGE_QUEUED);
    struct http_exchange *x = &ex->x;
    int before = 0;
    // A call from within the process runs here if its lane has room: its job would only wait for
    // another thread.
    bool entered = x->lane && ex->done && lane_enter(x->lane, &before);
    if (!x->lane || entered) {
        set_state(ex, EXCHANGE_RUNNING);
        run_handler(ex);
        if (entered) lane_leave(x->lane, before);
        answer(ex);
        return;
    }
    ex->job = (struct job){.req = &x->req, .run = on_job_run, .refuse = on_job_refuse};
    ex->given_back.run = on_given_back;
    // Before the job is in the lane: from then on a worker may be at it.
    offer(ex);
    err e = {0};
    if (!lane_submit(x->lane, &ex->job, &e))
        exchange_refuse(ex, err_http_status(e.code), &e, "lane");
}

void exchange_end(struct exchange *ex)
{
    assert(!ex->hold);  // its timer would fire into freed memory
    set_state(ex, EXCHANGE_DONE);
    free_now(ex);
}

void exchange_cancel(struct exchange *ex)
{
    atomic_store_explicit(&ex->x.req.canceled, true, memory_order_relaxed);
}

bool exchange_withdraw(struct exchange *ex)
{
    exchange_cancel(ex);
    if (!lane_withdraw(ex->x.lane, &ex->job)) return false;
    set_state(ex, EXCHANGE_ANSWER);
    return true;
}

void exchange_abandon(struct exchange *ex)
{
    assert(!ex->done);  // a call from inside has no connection that could leave
    enum exchange_state state = state_of(ex);
    if (state == EXCHANGE_QUEUED || state == EXCHANGE_RUNNING) {
        // The worker has it. Without a connection on_given_back frees it instead of answering.
        exchange_cancel(ex);
        unlink_conn(ex);
        return;
    }
    if (state == EXCHANGE_HELD) {
        hold_end(ex);
        set_state(ex, EXCHANGE_ANSWER);
    }
    metric_add(&net_gone, 1);
    exchange_end(ex);
}

bool exchange_wants_body(const struct exchange *ex)
{
    return state_of(ex) == EXCHANGE_BODY;
}

bool exchange_is_answered(const struct exchange *ex)
{
    return state_of(ex) == EXCHANGE_ANSWER;
}

bool exchange_has_head(const struct exchange *ex)
{
    return state_of(ex) != EXCHANGE_HEAD;
}

bool exchange_body_late(const struct exchange *ex, uint64_t now_ns)
{
    return state_of(ex) == EXCHANGE_BODY &&
           now_ns > ex->mark_ns + ex->server->options.body_timeout_ns;
}
