// SPDX-License-Identifier: Apache-2.0
#include "walk/home.h"

#include "ingester/adopt.h"
#include "ingester/log/log_object.h"
#include "ingester/log/object_log.h"
#include "ingester/log/wal_int.h"
#include "lib/clock.h"
#include "walk/edges.h"
#include "walk/log.h"
#include "walk/place.h"
#include "walk/world.h"

#include <stdlib.h>
#include <unistd.h>

#define LATE_MOST 16
#define LATE_NS   (18 * SLOT_MINUTE)

// A creation that is still on its way.
struct late_put {
    char name[STORE_NAME_MAX + 1];
    char *bytes;
    size_t n;
    int64_t since_ns;
};

struct home {
    struct dice dice;  // under the world's lock, as all
    struct late_put late[LATE_MOST];
    size_t late_count;
    uint8_t boots;
};

struct home *home_new(struct world *w)
{
    if (!w->in_store) return NULL;
    struct home *h = calloc(1, sizeof *h);
    if (!h) abort();
    h->dice.state = w->seed + 2;
    return h;
}

void home_free(struct home *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->late_count; i++)
        free(h->late[i].bytes);
    free(h);
}

static bool chance(struct world *w, uint64_t sides)
{
    if (atomic_load(&w->calm)) return false;
    pthread_mutex_lock(&w->lock);
    bool is = roll(&w->home->dice, sides) == 0;
    pthread_mutex_unlock(&w->lock);
    return is;
}

bool home_forgets(struct world *w)
{
    return w->home && chance(w, 8);
}

// ---- creations that come late

static bool keep(struct world *w, const char *name, str bytes)
{
    struct home *h = w->home;
    pthread_mutex_lock(&w->lock);
    bool kept = h->late_count < LATE_MOST;
    if (kept) {
        struct late_put *p = &h->late[h->late_count++];
        *p = (struct late_put){.bytes = malloc(bytes.n + 1),
                               .n = bytes.n,
                               .since_ns = clock_wall_ns()};
        if (!p->bytes) abort();
        memcpy(p->bytes, bytes.p, bytes.n);
        snprintf(p->name, sizeof p->name, "%s", name);
        w->counts.late++;
    }
    pthread_mutex_unlock(&w->lock);
    return kept;
}

static bool take(struct world *w, size_t i, struct late_put *out)
{
    struct home *h = w->home;
    pthread_mutex_lock(&w->lock);
    bool is = i < h->late_count;
    if (is) {
        *out = h->late[i];
        h->late[i] = h->late[--h->late_count];
    }
    pthread_mutex_unlock(&w->lock);
    return is;
}

static void land(struct world *w, struct late_put *p)
{
    struct req r;
    err e = {0};
    bool existed = false;
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    bool ok = store_put(w->store, &r, str_of(p->name), str_make(p->bytes, p->n), &existed, &e);
    if (!ok) world_fault(w, "a late creation: %s", e.msg);
    req_release(&r);
    free(p->bytes);
}

void home_land(struct world *w)
{
    struct late_put p;
    size_t i = 0;
    if (!w->home) return;
    pthread_mutex_lock(&w->lock);
    if (w->home->late_count) i = (size_t)roll(&w->home->dice, w->home->late_count);
    pthread_mutex_unlock(&w->lock);
    if (take(w, i, &p)) land(w, &p);
}

void home_pass(struct world *w, int64_t ns)
{
    if (!w->home) return;
    int64_t then = clock_wall_ns() + ns;
    for (size_t i = 0;;) {
        struct late_put p;
        pthread_mutex_lock(&w->lock);
        bool is = i < w->home->late_count;
        bool due = is && then - w->home->late[i].since_ns >= LATE_NS;
        pthread_mutex_unlock(&w->lock);
        if (!is) break;
        if (!due) {
            i++;
        } else if (take(w, i, &p)) {
            land(w, &p);
        }
    }
}

// ---- the store of an ingester

struct home_store {
    struct store store;
    struct node *node;
    struct store *inner;
};

struct home_upload {
    struct store_upload upload;
    struct req *req;
    struct buf bytes;
    char name[STORE_NAME_MAX + 1];
};

static struct home_store *of(struct store *s)
{
    return (struct home_store *)s;
}

static void home_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    store_read_many(of(s)->inner, r, v, n);
}

// The mistake: the last object of the stream goes.
static void drop_newest(struct world *w, str prefix)
{
    char folder[STORE_NAME_MAX + 1];
    char last[STORE_NAME_MAX + 1] = "";
    snprintf(folder, sizeof folder, "%.*s", STR(prefix));
    char *names = place_names(w->store, folder);
    str rest = str_of(names);
    while (rest.n) {
        str name = str_split(rest, '\n', &rest);
        if (name.n) snprintf(last, sizeof last, "%.*s", STR(name));
    }
    if (last[0]) place_drop(w->store, last);
    free(names);
}

static bool home_list(struct store *s, struct req *r, str prefix, str past, store_visit *fn,
                      void *arg, err *e)
{
    struct world *w = of(s)->node->seat.w;
    bool of_log = str_starts(prefix, S("v1/log/")) && prefix.n > S("v1/log/").n;
    if (w->mistake == NEWEST_GONE && of_log && chance(w, 4)) drop_newest(w, prefix);
    return store_list(of(s)->inner, r, prefix, past, fn, arg, e);
}

static bool home_remove(struct store *s, struct req *r, str name, err *e)
{
    return store_delete(of(s)->inner, r, name, e);
}

static bool home_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e)
{
    return store_age(of(s)->inner, r, name, age_ns, e);
}

static bool home_size(struct store *s, struct req *r, str name, uint64_t *size, err *e)
{
    return store_size(of(s)->inner, r, name, size, e);
}

static bool home_get(struct store *s, struct req *r, str name, struct buf *out, err *e)
{
    return store_get(of(s)->inner, r, name, out, e);
}

// Other uploads are the inner store's, and go on there.
static struct store_upload *home_begin(struct store *s, struct req *r, str name,
                                       enum store_naming naming, uint64_t about, err *e)
{
    struct store *inner = of(s)->inner;
    if (naming == STORE_UNIQUE) return store_begin_unique(inner, r, name, about, e);
    if (!str_starts(name, S("v1/log/"))) return store_begin(inner, r, name, about, e);
    struct home_upload *u = calloc(1, sizeof *u);
    if (!u) abort();
    u->upload.store = s;
    u->req = r;
    buf_init(&u->bytes, NULL, (size_t)1 << 28);
    snprintf(u->name, sizeof u->name, "%.*s", STR(name));
    return &u->upload;
}

static bool home_write(struct store_upload *u, str bytes, err *e)
{
    struct home_upload *x = (struct home_upload *)u;
    buf_str(&x->bytes, bytes);
    return buf_ok(&x->bytes, e);
}

static void home_abandon(struct store_upload *u)
{
    struct home_upload *x = (struct home_upload *)u;
    buf_release(&x->bytes);
    free(x);
}

static bool is_seal(const char *name, str bytes)
{
    struct log_object_head h;
    id128 stream;
    uint64_t number = 0;
    err e = {0};
    str rest = str_of(name);
    rest = str_slice(rest, S("v1/log/").n, rest.n);
    str ulid = str_split(rest, '/', &rest);
    return ulid_parse(ulid, &stream, &e) && name_log_number(rest, &number) &&
           log_object_decode_head(bytes, stream, number, &h, &e) && h.seal;
}

static void note_met(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    w->counts.met++;
    pthread_mutex_unlock(&w->lock);
}

static bool home_commit(struct store_upload *u, bool *existed, err *e)
{
    struct home_upload *x = (struct home_upload *)u;
    struct home_store *s = of(u->store);
    struct world *w = s->node->seat.w;
    str bytes = buf_view(&x->bytes);
    bool late = chance(w, w->mistake == EARLY_ACK ? 4 : 12);
    bool twice = chance(w, 12);
    bool ok = false;
    *existed = false;
    if (w->mistake == EARLY_ACK && late) {
        ok = keep(w, x->name, bytes) || !err_set(e, ERR_UNAVAILABLE, "too many are late");
    } else if (late) {
        gate_wait(&w->gate);
        stall_hold(&s->node->seat);
        if (!atomic_load(&s->node->seat.dead)) (void)keep(w, x->name, bytes);
        err_set(e, ERR_UNAVAILABLE, "object %s: the walk lets it come later", x->name);
    } else {
        ok = store_put(s->inner, x->req, str_of(x->name), bytes, existed, e);
        if (twice && ok) (void)keep(w, x->name, bytes);
        bool seal = is_seal(x->name, bytes);
        if (ok && !seal && *existed) note_met(w);
    }
    home_abandon(u);
    return ok;
}

static void home_close(struct store *s)
{
    free(s);
}

// Over a network a request may be sent again without telling.
static const struct store_kind home_kind = {.name = "home",
                                            .remote = true,
                                            .read_many = home_read_many,
                                            .list = home_list,
                                            .begin = home_begin,
                                            .write = home_write,
                                            .commit = home_commit,
                                            .abandon = home_abandon,
                                            .remove = home_remove,
                                            .size = home_size,
                                            .age = home_age,
                                            .get = home_get,
                                            .close = home_close};

struct store *home_store(struct world *w, struct node *n)
{
    assert(w->home);
    struct home_store *s = calloc(1, sizeof *s);
    if (!s) abort();
    *s = (struct home_store){.store.kind = &home_kind, .node = n, .inner = n->seat.inner};
    return &s->store;
}

// ---- nodes

const char *home_flags(const struct world *w)
{
    return w->home ? "--ingester.log=object --ingester.log_linger=0s" : "";
}

struct registered_stream home_own(struct world *w, struct node *n)
{
    struct home_node *h = &n->home;
    uint8_t number = (uint8_t)(n - w->nodes);
    if (!w->home)
        return (struct registered_stream){.node = str_of(n->name),
                                          .boot = {{1}},
                                          .directory = {{1, number}}};
    pthread_mutex_lock(&w->lock);
    h->boot = (id128){{2, number, ++w->home->boots}};
    h->directory = (id128){{1, number, h->disks}};
    h->adopted_count = 0;
    pthread_mutex_unlock(&w->lock);
    // Once: questions read it at any time.
    if (!h->address[0]) snprintf(h->address, sizeof h->address, "127.0.0.1:%d", 1 + number);
    return (struct registered_stream){.node = str_of(n->name),
                                      .boot = h->boot,
                                      .directory = h->directory,
                                      .address = str_of(h->address),
                                      .log = STREAM_LOG_OBJECT};
}

void home_crash(struct world *w, struct node *n, struct dice *d)
{
    if (!w->home || roll(d, 2)) return;
    dir_remove(n->dir);
    dir_new(n->dir);
    pthread_mutex_lock(&w->lock);
    n->home.disks++;
    n->home.wiped_ns = clock_wall_ns();
    w->counts.wiped++;
    pthread_mutex_unlock(&w->lock);
}

bool home_forgot(struct world *w, const struct node *n, int64_t pushed_ns)
{
    pthread_mutex_lock(&w->lock);
    bool forgot = n->home.wiped_ns && pushed_ns <= n->home.wiped_ns;
    pthread_mutex_unlock(&w->lock);
    return forgot;
}

void home_wait(void)
{
    clock_pass(HOME_SETTLE_NS);
    clock_pass_mono(HOME_SETTLE_NS);
    place_pass(HOME_SETTLE_NS);
}

// ---- adoption

static bool is_there(struct world *w, id128 boot)
{
    bool there = false;
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count && !there; i++) {
        const struct node *n = &w->nodes[i];
        there = n->up && !n->stall.stalled && id128_eq(n->home.boot, boot);
    }
    pthread_mutex_unlock(&w->lock);
    return there;
}

// As adopt.c does it: registered still, when it was chosen.
static bool adopt_one(struct world *w, struct node *n, struct store *s, struct req *r, id128 stream,
                      err *e)
{
    id128 *v = NULL;
    size_t count = 0;
    size_t cuts = 0;
    bool is = false;
    if (!stream_names(s, r, &r->arena, &v, &count, e)) return false;
    for (size_t i = 0; i < count && !is; i++)
        is = id128_eq(v[i], stream);
    if (!is) return true;
    if (!adopt_may(n->whole.in) || wal_has_stream(n->whole.in->wal, stream))
        return err_set(e, ERR_ABORTED, "the ingester may not adopt now, or has the stream");
    bool ok = adopt_take_over(n->whole.in, stream, false, &cuts, e);
    pthread_mutex_lock(&w->lock);
    struct home_node *h = &n->home;
    if (ok && h->adopted_count < HOME_ADOPTED) h->adopted[h->adopted_count++] = stream;
    w->counts.adopted += ok;
    pthread_mutex_unlock(&w->lock);
    if (!ok && !walk_may_fail(w, e) && e->code != ERR_RESOURCE_EXHAUSTED)
        world_fault(w, "adoption: %s: %s", err_name(e->code), e->msg);
    return ok;
}

static bool choose(struct world *w, struct node *n, const struct registered *list, struct dice *d,
                   id128 *stream)
{
    size_t from = list->n ? (size_t)roll(d, list->n) : 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct registered_stream *s = &list->v[(from + i) % list->n];
        if (id128_eq(s->boot, n->home.boot) || wal_has_stream(n->whole.in->wal, s->stream))
            continue;
        if (is_there(w, s->boot) && roll(d, 10)) continue;
        *stream = s->stream;
        return true;
    }
    return false;
}

static bool enter(struct world *w, struct node *n)
{
    pthread_mutex_lock(&w->lock);
    bool may = n->up && !n->home.adopts;
    n->users += may;
    n->home.adopts |= may;
    pthread_mutex_unlock(&w->lock);
    return may;
}

static void leave(struct world *w, struct node *n)
{
    pthread_mutex_lock(&w->lock);
    n->users--;
    n->home.adopts = false;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
}

static void sweep(struct world *w, struct store *s, struct req *r, bool must)
{
    const struct object_log_sealer by = {.node = S("sweeper"), .wall_ns = clock_wall_ns()};
    struct object_log_sweep x = {0};
    err e = {0};
    bool ok = object_log_sweep(&x, s, r, &by, UINT64_MAX, &e);
    if (!ok && (must || !walk_may_fail(w, &e)))
        world_fault(w, "sweep of logs: %s: %s", err_name(e.code), e.msg);
    pthread_mutex_lock(&w->lock);
    w->counts.cleared += x.removed;
    pthread_mutex_unlock(&w->lock);
}

void home_adopt(struct world *w, struct actor *a)
{
    struct node *n = &w->nodes[a->node];
    struct registered list;
    err e = {0};
    id128 stream;
    if (!w->home || !enter(w, n)) return;
    if (roll(&a->dice, 6) == 0) sweep(w, n->seat.store, &a->req, false);
    bool ok = registered_read(n->seat.store, &a->req, &w->memory, NULL, &list, &e);
    if (ok && choose(w, n, &list, &a->dice, &stream))
        (void)adopt_one(w, n, n->seat.store, &a->req, stream, &e);
    registered_release(&list);
    leave(w, n);
}

bool home_hand_over(struct world *w, const struct node *from, struct req *r)
{
    struct node *to = &w->nodes[from == w->nodes];
    struct registered list;
    err e = {0};
    assert(w->node_count == 2);
    if (stall_is(w, to) || !enter(w, to)) return false;
    bool ok = registered_read(to->seat.store, r, &w->memory, NULL, &list, &e);
    for (size_t i = 0; ok && i < list.n; i++) {
        const struct registered_stream *s = &list.v[i];
        bool has = id128_eq(s->boot, to->home.boot);
        // Creations fail now and then.
        for (int tries = 0; tries < 3 && !has; tries++)
            has = wal_has_stream(to->whole.in->wal, s->stream) ||
                  adopt_one(w, to, to->seat.store, r, s->stream, &(err){0});
        ok = has;
    }
    registered_release(&list);
    leave(w, to);
    return ok;
}

void home_clear(struct world *w, struct node *n, struct req *r)
{
    struct registered list;
    struct wal *wal = n->whole.in->wal;
    err e = {0};
    if (!w->home) return;
    bool ok = registered_read(n->seat.store, r, &w->memory, NULL, &list, &e);
    for (size_t i = 0; ok && i < list.n; i++) {
        const struct registered_stream *s = &list.v[i];
        bool adopted = false;
        pthread_mutex_lock(&w->lock);
        for (size_t k = 0; k < n->home.adopted_count; k++)
            adopted = adopted || id128_eq(n->home.adopted[k], s->stream);
        pthread_mutex_unlock(&w->lock);
        if (id128_eq(s->boot, n->home.boot)) continue;
        bool left = wal_is_covered(wal, s->stream) || (adopted && !wal_has_stream(wal, s->stream));
        if (left) ok = stream_unregister(n->seat.store, r, s->stream, &e);
    }
    registered_release(&list);
}

// The mistake: all that was found counts as read, but for its last entry.
static void pass_over(struct world *w)
{
    struct cut *cuts[64];
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count; i++) {
        if (!w->nodes[i].up) continue;
        struct wal *wal = w->nodes[i].whole.in->wal;
        size_t n = MIN(wal_cuts(wal, cuts, COUNT(cuts)), COUNT(cuts));
        lock_take(&wal->lock);
        for (size_t k = 0; k < n; k++)
            if (atomic_load(&cuts[k]->hidden)) cuts[k]->read_seq = cuts[k]->last_seq - 1;
        lock_give(&wal->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

void home_pause(struct world *w, const char *point)
{
    bool found = strcmp(point, "adopt.found") == 0;
    bool adopts = found || strcmp(point, "adopt.read") == 0;
    if (w->mistake == UNREAD && found) pass_over(w);
    for (int i = 0; w->home && adopts && i < 3; i++)
        gate_wait(&w->gate);
}

// ---- the end

static bool is_own(struct world *w, id128 boot)
{
    bool own = false;
    for (unsigned i = 0; i < w->node_count; i++)
        own = own || id128_eq(w->nodes[i].home.boot, boot);
    return own;
}

void home_settle(struct world *w)
{
    struct req r;
    struct registered list;
    struct late_put p;
    if (!w->home) return;
    while (take(w, 0, &p))
        land(w, &p);
    req_init(&r, RANK_DUTY, &w->memory, SIZE_MAX, 0);
    for (unsigned i = 0; i < w->node_count; i++)
        AWAIT(adopt_may(w->nodes[i].whole.in));
    assert_ok(registered_read(w->store, &r, &w->memory, NULL, &list, e));
    for (size_t i = 0; i < list.n; i++) {
        bool has = is_own(w, list.v[i].boot);
        for (unsigned k = 0; k < w->node_count && !has; k++)
            has = wal_has_stream(w->nodes[k].whole.in->wal, list.v[i].stream);
        struct node *n = &w->nodes[i % w->node_count];
        err e = {0};
        if (!has && !adopt_one(w, n, w->store, &r, list.v[i].stream, &e) &&
            w->mistake == NO_MISTAKE)
            world_fault(w, "a stream could not be adopted at the end: %s", e.msg);
    }
    registered_release(&list);
    req_release(&r);
}

static bool is_in_use(struct world *w, id128 stream)
{
    struct wal_served v[WALK_ROWS / 8];
    bool is = false;
    for (unsigned i = 0; i < w->node_count && !is; i++) {
        size_t n = wal_serves(w->nodes[i].whole.in->wal, v, COUNT(v));
        assert_true(n <= COUNT(v));
        for (size_t k = 0; k < n; k++)
            is = is || ((v[k].open || v[k].planned) && id128_eq(v[k].stream, stream));
    }
    return is;
}

// Registered streams that are not in use.
static size_t count_left(struct world *w, struct req *r, id128 *one)
{
    id128 *v = NULL;
    size_t n = 0;
    size_t left = 0;
    assert_ok(stream_names(w->store, r, &r->arena, &v, &n, e));
    for (size_t i = 0; i < n; i++) {
        if (is_in_use(w, v[i])) continue;
        *one = v[i];
        left++;
    }
    return left;
}

// Ended streams are sealed and trimmed by the duty threads.
static size_t await_ends(struct world *w, struct req *r, id128 *one)
{
    size_t left = 1;
    for (int tries = 0; tries < 500 && left; tries++) {
        for (unsigned i = 0; i < w->node_count; i++) {
            duty_wake(w->nodes[i].whole.in);
            copies_roll(w, &w->nodes[i], r);
        }
        left = count_left(w, r, one);
        if (left) usleep(10000);
    }
    return left;
}

void home_check(struct world *w)
{
    struct req r;
    id128 *v = NULL;
    size_t n = 0;
    id128 one = {0};
    char ulid[ULID_TEXT];
    if (!w->home) return;
    req_init(&r, RANK_DUTY, &w->memory, SIZE_MAX, 0);
    size_t left = await_ends(w, &r, &one);
    ulid_print(one, ulid);
    if (left) world_fault(w, "at the end %zu streams are registered for nothing: %s", left, ulid);
    for (int i = 0; i < 3; i++) {
        sweep(w, w->store, &r, true);
        world_advance(50 * SLOT_HOUR);
    }
    assert_ok(object_log_streams(w->store, &r, &r.arena, &v, &n, e));
    for (size_t i = 0; i < n; i++) {
        ulid_print(v[i], ulid);
        if (!is_in_use(w, v[i])) world_fault(w, "at the end there is something of log %s", ulid);
    }
    req_release(&r);
}
