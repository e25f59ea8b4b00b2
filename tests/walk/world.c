// SPDX-License-Identifier: Apache-2.0
#include "walk/world.h"

#include "flametree/v1/internal.pb-c.h"
#include "lib/clock.h"
#include "manifest/manifest.h"
#include "querier/head/streams.h"
#include "querier/querier.h"
#include "service/limits.h"
#include "walk/clocks.h"
#include "walk/place.h"

#include <stdio.h>
#include <stdlib.h>

const char *const mistake_names[MISTAKES] = {
    [NO_MISTAKE] = "none",
    [MAN_FIRST] = "manfirst",
    [UNNAMED] = "unnamed",
    [LOST_PUT] = "lostput",
    [BLIND] = "blind",
    [OLD_ROOT] = "oldroot",
    [NO_LOOSE] = "noloose",
    [UNRAISED] = "unraised",
    [NO_NAME] = "noname",
    [READY_EARLY] = "readyearly",
    [TOO_EARLY] = "tooearly",
    [DROPPED] = "dropped",
    [UNTOLD] = "untold",
    [SILENT_LOSS] = "silentloss",
    [ULID_ALONE] = "ulidalone",
    [HASTY] = "hasty",
    [NAMED_AGAIN] = "namedagain",
    [STAYS_TAKEN] = "staystaken",
    [ONE_LIST] = "onelist",
    [FORGETFUL] = "forgetful",
    [HURRIED] = "hurried",
    [EARLY_ACK] = "earlyack",
    [NEWEST_GONE] = "newestgone",
    [UNREAD] = "unread",
    [UNSETTLED] = "unsettled",
    [SURE_HOME] = "surehome",
    [LIST_ALONE] = "listalone",
};

// ---- the clock

void world_clock_open(void)
{
    clock_take_over();
}

void world_advance(int64_t ns)
{
    place_wait();
    clock_pass(ns);
    place_pass(ns);
}

void world_fault(struct world *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pthread_mutex_lock(&w->lock);
    if (!w->fault[0]) vsnprintf(w->fault, sizeof w->fault, fmt, ap);
    pthread_mutex_unlock(&w->lock);
    va_end(ap);
}

bool world_failed(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    bool failed = w->fault[0] != '\0';
    pthread_mutex_unlock(&w->lock);
    return failed;
}

// ---- seats: the gate, death, and small faults

static bool is_node_seat(const struct seat *s)
{
    for (unsigned i = 0; i < WALK_INGESTERS; i++)
        if (s == &s->w->nodes[i].seat) return true;
    return false;
}

static enum memstore_fault before(void *arg, const struct memstore_event *ev)
{
    struct seat *s = arg;
    static _Atomic unsigned reads;
    if (atomic_load(&s->dead)) return MEMSTORE_FAILS;
    bool alone = s != &s->w->querier_seat && !is_node_seat(s);
    enum memstore_fault doubt = alone ? clocks_doubt(s, ev, atomic_load(&reads)) : MEMSTORE_FINE;
    if (doubt == MEMSTORE_FAILS) return doubt;
    // Most reads are of objects that never change: an order among them tells nothing new.
    unsigned number = ev->op == MEMSTORE_READ ? atomic_fetch_add(&reads, 1) : 0;
    if (number % 8) return MEMSTORE_FINE;
    gate_wait(&s->w->gate);
    stall_hold(s);
    if (atomic_load(&s->dead)) return MEMSTORE_FAILS;
    // Something on the way says that there is no such object.
    if (number % 24 == 16 && !atomic_load(&s->w->calm)) return MEMSTORE_FORGETS;
    if (ev->op != MEMSTORE_CREATE || atomic_load(&s->w->calm)) return MEMSTORE_FINE;
    if (doubt) return doubt;
    unsigned n = atomic_fetch_add(&reads, 1);
    // An object of a log that is too large is refused to its clients.
    if (n % 23 == 0 && !str_starts(ev->name, S("v1/log/"))) return MEMSTORE_TOO_LARGE;
    if (n % 29 == 0 && str_starts(ev->name, S("v1/log/"))) return MEMSTORE_TOO_LARGE;
    return n % 17 == 0 ? MEMSTORE_LANDS : n % 19 == 0 ? MEMSTORE_FAILS : MEMSTORE_FINE;
}

static enum memstore_fault after(void *arg, const struct memstore_event *ev)
{
    struct seat *s = arg;
    char name[STORE_NAME_MAX + 1];
    if (s->w->mistake == ULID_ALONE) clocks_made(ev);
    if (s->w->mistake != LOST_PUT || ev->op != MEMSTORE_CREATE || !ev->done) return MEMSTORE_FINE;
    if (!str_contains(ev->name, S("/live/a/")) || ev->bytes % 3) return MEMSTORE_FINE;
    snprintf(name, sizeof name, "%.*s", STR(ev->name));
    place_drop(s->w->store, name);
    return MEMSTORE_FINE;
}

// ---- wrong stores, around a seat's own

struct wrong {
    struct store store;
    struct seat *seat;
};

static _Thread_local char *frozen;  // names, a line each

void seat_freeze(struct world *w)
{
    if (w->mistake != MAN_FIRST && w->mistake != OLD_ROOT) return;
    frozen = place_names(w->store, "");
    // A leaf is made meanwhile, and its segments go.
    for (int i = 0; i < (w->mistake == OLD_ROOT ? 12 : 1); i++)
        gate_wait(&w->gate);
}

void seat_thaw(void)
{
    free(frozen);
    frozen = NULL;
}

static struct seat *seat_of(struct store *s)
{
    return ((struct wrong *)s)->seat;
}

static bool list_frozen(struct world *w, struct req *r, str prefix, str past, store_visit *fn,
                        void *arg, err *e)
{
    str rest = str_of(frozen);
    while (rest.n) {
        str name = str_split(rest, '\n', &rest);
        if (!str_starts(name, prefix) || (past.n && str_cmp(name, past) <= 0)) continue;
        uint64_t size = 1000;
        (void)!store_size(w->store, r, name, &size, &(err){0});  // it may be gone
        if (!fn(arg, name, size, e)) return false;
    }
    return true;
}

// Segments as they are, roots as they were.
static bool list_mixed(struct seat *seat, struct req *r, str prefix, store_visit *fn, void *arg,
                       err *e)
{
    char name[STORE_NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*sa/", STR(prefix));
    if (!store_list(seat->inner, r, str_of(name), (str){0}, fn, arg, e)) return false;
    snprintf(name, sizeof name, "%.*sm/", STR(prefix));
    return list_frozen(seat->w, r, str_of(name), (str){0}, fn, arg, e);
}

static bool wrong_list(struct store *s, struct req *r, str prefix, str past, store_visit *fn,
                       void *arg, err *e)
{
    struct seat *seat = seat_of(s);
    bool live = str_contains(prefix, S("/live/"));
    if (live && frozen && seat->w->mistake == OLD_ROOT)
        return list_mixed(seat, r, prefix, fn, arg, e);
    if (live && frozen) return list_frozen(seat->w, r, prefix, past, fn, arg, e);
    if (live && seat->w->mistake == BLIND) return true;
    return store_list(seat->inner, r, prefix, past, fn, arg, e);
}

static void wrong_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    store_read_many(seat_of(s)->inner, r, v, n);
}

static bool wrong_size(struct store *s, struct req *r, str name, uint64_t *size, err *e)
{
    if (seat_of(s)->w->mistake == ULID_ALONE && clocks_size(name, size)) return true;
    return store_size(seat_of(s)->inner, r, name, size, e);
}

static bool wrong_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e)
{
    return store_age(seat_of(s)->inner, r, name, age_ns, e);
}

static bool wrong_remove(struct store *s, struct req *r, str name, err *e)
{
    return store_delete(seat_of(s)->inner, r, name, e);
}

// The upload is the inner store's: it goes on there.
static struct store_upload *wrong_begin(struct store *s, struct req *r, str name,
                                        enum store_naming naming, uint64_t about, err *e)
{
    struct seat *seat = seat_of(s);
    char other[STORE_NAME_MAX + 1];
    snprintf(other, sizeof other, "%.*s", STR(name));
    while (seat->w->mistake == BLIND && str_contains(name, S("/live/a/")) &&
           other[name.n - 1] < '9' && place_has(seat->w->store, other))
        other[name.n - 1]++;
    if (naming == STORE_UNIQUE) return store_begin_unique(seat->inner, r, str_of(other), about, e);
    return store_begin(seat->inner, r, str_of(other), about, e);
}

static void wrong_close(struct store *s)
{
    free(s);
}

static const struct store_kind wrong_kind = {.name = "wrong",
                                             .read_many = wrong_read_many,
                                             .list = wrong_list,
                                             .begin = wrong_begin,
                                             .remove = wrong_remove,
                                             .size = wrong_size,
                                             .age = wrong_age,
                                             .close = wrong_close};

void seat_open(struct seat *s, struct world *w, bool wrong)
{
    *s = (struct seat){.w = w, .inner = place_again(w->store)};
    place_set_hooks(s->inner, before, after, s);
    place_set_page(s->inner, 3);
    s->store = s->inner;
    if (!wrong) return;
    struct wrong *around = calloc(1, sizeof *around);
    *around = (struct wrong){.store.kind = &wrong_kind, .seat = s};
    s->store = &around->store;
}

void seat_close(struct seat *s)
{
    if (s->store != s->inner) store_close(s->store);
    store_close(s->inner);
}

// ---- heads, as the querier asks them: in this process

static bool ask_one(struct world *w, struct node *n, str tenant, str message,
                    struct head_reply *reply, struct req *asker)
{
    struct req r;
    struct buf out;
    err *fault = ARENA_NEW(&asker->arena, err);
    if (w->mistake == NO_NAME && stall_is(w, n)) return true;
    pthread_mutex_lock(&w->lock);
    bool up = n->up && !n->stall.stalled;
    n->users += up;
    pthread_mutex_unlock(&w->lock);
    if (!up) {
        err_set(fault, ERR_UNAVAILABLE, "it is down or says nothing");
        reply->fault = fault;
        reply->away = w->in_store;  // the registrations tell what is missing
        return true;
    }
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    buf_init(&out, NULL, (size_t)1 << 28);
    r.tenant = tenant;
    bool ok = read_run(n->whole.in, &r, message, &out, fault);
    reply->bytes = arena_str(&asker->arena, buf_view(&out));
    reply->fault = ok ? NULL : fault;
    buf_release(&out);
    req_release(&r);
    pthread_mutex_lock(&w->lock);
    n->users--;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    return true;
}

// Answers without the names of the cuts that they contain.
static void forget_names(struct req *r, struct head_reply *reply)
{
    err e = {0};
    Flametree__V1__HeadReadResponse *m =
        (Flametree__V1__HeadReadResponse *)pb_unpack(&r->arena,
                                                     &flametree__v1__head_read_response__descriptor,
                                                     reply->bytes, &e);
    struct buf out;
    if (!m) return;
    for (size_t i = 0; i < m->n_answers; i++)
        m->answers[i]->n_cuts = 0;
    buf_init(&out, NULL, (size_t)1 << 28);
    pb_pack(&m->base, &out);
    reply->bytes = arena_str(&r->arena, buf_view(&out));
    buf_release(&out);
}

// The question without rows that others count.
static str forget_loose(struct req *r, str message)
{
    err e = {0};
    Flametree__V1__HeadReadRequest *m =
        (Flametree__V1__HeadReadRequest *)pb_unpack(&r->arena,
                                                    &flametree__v1__head_read_request__descriptor,
                                                    message, &e);
    struct buf out;
    if (!m) return message;
    m->n_loose = 0;
    buf_init(&out, NULL, (size_t)1 << 28);
    pb_pack(&m->base, &out);
    str bytes = arena_str(&r->arena, buf_view(&out));
    buf_release(&out);
    return bytes;
}

// Does the registration of a stream name the ingester?
static bool is_registered(struct world *w, struct req *r, const struct node *n)
{
    struct stream_node *v = NULL;
    size_t count = 0;
    bool is = false;
    err e = {0};
    if (!w->querier.streams) return false;
    if (!streams_nodes(w->querier.streams, &r->arena, &v, &count, &e)) return false;
    for (size_t i = 0; i < count && !is; i++)
        is = str_is(v[i].node, n->name);
    return is;
}

static bool ask_heads(const void *transport, struct req *r, str tenant, str message,
                      struct head_replies *out, err *e)
{
    struct world *w = *(struct world *const *)transport;
    out->n = 0;
    out->v = ARENA_ARRAY(&r->arena, struct head_reply, w->node_count);
    if (!out->v) return arena_ok(&r->arena, e);
    if (w->mistake == NO_LOOSE) message = forget_loose(r, message);
    for (unsigned i = 0; i < w->node_count; i++) {
        struct node *n = &w->nodes[i];
        struct head_reply *reply = &out->v[out->n];
        reply->member = str_of(n->name);
        reply->address = str_of(n->home.address);
        reply->unlisted = home_forgets(w);
        if (reply->unlisted && !is_registered(w, r, n)) continue;
        out->n++;
        gate_wait(&w->gate);  // much may happen between two heads
        (void)ask_one(w, n, tenant, message, reply, r);
        if (w->mistake == UNNAMED && !reply->fault) forget_names(r, reply);
    }
    return arena_ok(&r->arena, e);
}

// ---- life

static void open_querier(struct world *w)
{
    static const struct config_section *sections[2];
    struct config_args args;
    const char *const argv[] = {"walk", "--querier.wait_for_streams=0s",
                                "--querier.incomplete=refuse"};
    sections[0] = querier.config;
    sections[1] = &limits_section;
    w->config = config_new(sections, COUNT(sections));
    assert_ok(config_load(w->config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    seat_open(&w->querier_seat, w, w->mistake == MAN_FIRST || w->mistake == OLD_ROOT);
    static struct world *at;
    at = w;
    w->querier = (struct querier_state){
        .config = w->config,
        .memory = &w->memory,
        .ask = ask_heads,
        .transport = (const void *)&at,
        .blocks = blocks_new(w->querier_seat.store, &w->memory, (size_t)64 << 20),
    };
    assert_ok((w->querier.manifests = manifests_open(w->querier_seat.store, &w->memory, NULL, e)) !=
              NULL);
    if (w->in_store && w->mistake != LIST_ALONE)
        w->querier.streams = streams_new(w->querier_seat.store, &w->memory);
}

void world_start(struct world *w, struct node *n)
{
    whole_start_as(&n->whole, n->dir, home_flags(w), n->seat.store, n->name);
    whole_await(&n->whole);
}

static bool chooses_store(struct world *w)
{
    const char *given = getenv("FLAMETREE_WALK_LOG");
    bool by_seed = roll(&w->dice, 2);
    if (w->mistake) return w->mistake >= FIRST_IN_STORE;
    return given ? strcmp(given, "object") == 0 : by_seed;
}

void world_open(struct world *w, uint64_t seed, enum mistake mistake)
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->dice.state = seed;
    w->log_dice.state = seed + 1;
    w->mistake = mistake;
    w->start_ns = clock_wall_ns() / SLOT_HOUR * SLOT_HOUR;
    mem_budget_init(&w->memory, "walk", NULL, 0);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->taken.lock, NULL);
    pthread_cond_init(&w->change, NULL);
    gate_init(&w->gate);
    w->in_store = chooses_store(w);
    w->home = home_new(w);
    w->store = place_open();
    open_querier(w);
    w->grace_ns = roll(&w->dice, 2) || mistake == OLD_ROOT ? 0 : 2 * SLOT_HOUR;
    bool expires =
        mistake == TOO_EARLY || mistake == DROPPED || mistake == UNTOLD || mistake == HURRIED;
    w->retention_ns = roll(&w->dice, 3) && !expires ? 0 : 24 * SLOT_HOUR;
    clocks_open(w);
    w->copies = copies_new(&w->memory);
    w->node_count = 1 + (unsigned)roll(&w->dice, WALK_INGESTERS);
    // Another ingester would have what is lost; and what is passed over needs another one.
    if (mistake == READY_EARLY) w->node_count = 1;
    if (mistake == HURRIED || mistake == UNSETTLED || mistake == SURE_HOME || mistake == ONE_LIST)
        w->node_count = 2;
    bool drawn = mistake == NO_MISTAKE && roll(&w->dice, 3) == 0;
    w->two_lists = w->node_count == 2 && (drawn || mistake == ONE_LIST);
    w->forgets_ids = mistake == FORGETFUL || (mistake == NO_MISTAKE && roll(&w->dice, 3) == 0);
    for (unsigned i = 0; i < w->node_count; i++) {
        struct node *n = &w->nodes[i];
        dir_new(n->dir);
        snprintf(n->name, sizeof n->name, "ingester-%u", i);
        seat_open(&n->seat, w, mistake == BLIND);
        if (w->in_store) n->seat.store = home_store(w, n);
        world_start(w, n);
        copies_note(w, n);
        n->up = true;
    }
}

void world_close(struct world *w)
{
    for (unsigned i = 0; i < w->node_count; i++) {
        struct node *n = &w->nodes[i];
        atomic_store(&n->seat.dead, true);
        whole_stop(&n->whole);
        copies_end(n);
        seat_close(&n->seat);
        dir_remove(n->dir);
    }
    clocks_close(w);
    copies_free(w->copies);
    manifests_close(w->querier.manifests);
    blocks_free(w->querier.blocks);
    streams_free(w->querier.streams);
    seat_close(&w->querier_seat);
    config_free(w->config);
    assert_int_equal(atomic_load(&w->memory.used), 0);
    store_close(w->store);
    home_free(w->home);
    gate_release(&w->gate);
    pthread_cond_destroy(&w->change);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->taken.lock);
}
