// SPDX-License-Identifier: Apache-2.0
//
// dispatch.c - rounds of Append calls until no batch waits. A round puts the waiting batches
// together by owner (pack), calls all owners at once (attempt), and decides for each batch whether
// it is stored, goes to the same ingester again, goes to the next one, or has failed (decide). It
// ends because a batch is repeated at one ingester only while it has a lexicon, and attempts are
// bounded.
#include "distributor/dispatch.h"

#include "base/fault.h"
#include "cluster/place.h"
#include "cluster/probe.h"
#include "codec/pb.h"
#include "distributor/metrics.h"
#include "loop/call.h"
#include "rpc/peer.h"
#include "sys/clock.h"

#define APPEND_PATH       "/flametree.v1.IngesterService/Append"
#define APPEND_ANSWER_MAX 65536

// One Append call: the encoded batches of one owner.
struct shipment {
    const struct member *member;
    struct send_batch **batches;
    size_t batch_count;
    struct req req;  // of the call: its time limit is that of one attempt
    struct peer_call call;
    struct buf message;
    bool started;
    uint64_t started_mono_ns;
    bool given_up;  // the ingester is silent, or says that it stores nothing now
    bool stored;
    bool store_fails;  // which all ingesters use
    bool final;        // the tenant has too much there, and is not to have it elsewhere
    err fault;
};

// The home of a record that no ingester is: they all get it with attempt 1 at least.
#define HOME_NONE UINT32_MAX

bool dispatch_init(struct dispatch *d, struct client *client, struct members *known,
                   const struct distributor_config *config, struct mem_budget *memory,
                   struct req *req, err *e)
{
    *d = (struct dispatch){
        .client = client, .req = req, .memory = memory, .config = config, .known = known};
    // A snapshot: owners and homes are rows of it, so it must not change while the request runs.
    d->members = members_of(known, &req->arena, MEMBER_INGESTER, &d->member_count);
    d->order = ARENA_ARRAY(&req->arena, uint32_t, d->member_count);
    d->homes = ARENA_ARRAY(&req->arena, struct member, d->member_count);
    if (!arena_ok(&req->arena, e)) return false;
    // A home does not depend on who is alive, or a restart of one ingester would move it.
    for (size_t i = 0; i < d->member_count; i++) {
        d->homes[i] = d->members[i];
        d->homes[i].alive = true;
        d->homes[i].unready = false;
    }
    if (d->member_count > 0) return true;
    return err_set(e, ERR_UNAVAILABLE, "no ingester is known");
}

bool dispatch_settle(struct dispatch *d, struct settle *settle, err *e)
{
    struct arena *a = &d->req->arena;
    if (!settle_use(settle, d->members, d->member_count, clock_mono_ns(), a, &d->past, e))
        return false;
    d->past_order = d->past.most ? ARENA_ARRAY(a, uint32_t, d->past.most) : NULL;
    return arena_ok(a, e);
}

// ---- how many, and which

// Whether measured rates can change anything: not with one ingester, nor with numbers that are set.
static bool measures(const struct dispatch *d)
{
    const struct distributor_config *c = d->config;
    return d->spread && d->member_count > 1 && (!c->tenant_ingesters || !c->service_ingesters);
}

static uint32_t need_of(struct dispatch *d, str service)
{
    if (!measures(d)) return 1;
    assert(d->config->ingester_rate > 0);
    return spread_need(d->spread, spread_key(d->req->tenant, service), d->config->ingester_rate,
                       clock_mono_ns());
}

// As many as make ingesters even.
static uint32_t even_of(struct dispatch *d, str service)
{
    if (!measures(d)) return 1;
    uint64_t now = clock_mono_ns();
    uint64_t per = spread_even(d->spread, d->member_count, (uint64_t)d->config->ingester_rate, now);
    return spread_need(d->spread, spread_even_key(spread_key(d->req->tenant, service)), per, now);
}

// The options that decide a home: the numbers of the settings, or else the tenant's limit (0: all)
// and one. No measured rate is among them, because each distributor measures another one.
static struct place_options home_of(const struct dispatch *d)
{
    const struct distributor_config *c = d->config;
    size_t tenant = (size_t)c->tenant_ingesters;
    return (struct place_options){.tenant_members = tenant ? tenant : d->home_ingesters,
                                  .service_members =
                                      c->service_ingesters ? (size_t)c->service_ingesters : 1};
}

// By which list, and which of these options, the request's records got their homes.
static uint64_t placing_of(struct dispatch *d)
{
    const struct place_options o = home_of(d);
    if (!d->placing) d->placing = place_print(d->homes, d->member_count, &o);
    return d->placing;
}

// The options that decide the owner. Rates are asked for once for each request and service, so that
// a batch that is passed on follows one order.
static struct place_options wide_of(struct dispatch *d, str service, bool identified)
{
    struct place_options o = home_of(d);
    // Asked for again where the service changes; profiles of one request mostly have the same.
    uint64_t key = spread_key(d->req->tenant, service);
    if (!d->service_need || d->service != key) {
        d->service = key;
        d->service_need = need_of(d, service);
        d->service_even = even_of(d, service);
    }
    if (!d->config->service_ingesters)
        o.service_members = identified ? d->service_need : MAX(d->service_need, d->service_even);
    if (d->config->tenant_ingesters || (identified && !d->home_ingesters)) return o;
    // A record with an id follows a narrow order, so that a repeated upload finds the ingester that
    // has it; one without may go to any of the tenant's, one more than its rate needs.
    if (!d->tenant_need) {
        d->tenant_need = need_of(d, (str){0});
        d->tenant_even = even_of(d, (str){0});
    }
    o.tenant_members = identified ? MAX((size_t)d->tenant_need, d->home_ingesters)
                                  : MAX((size_t)d->tenant_need + 1, d->tenant_even);
    return o;
}

static uint32_t *order_of(struct dispatch *d, const struct member *members,
                          const struct place_options *o, str service, uint64_t labels_hash)
{
    place_order(members, d->member_count, o, d->req->tenant, service, labels_hash, d->order);
    return d->order;
}

// Of the service that was asked for last.
static uint64_t series_key(const struct dispatch *d, uint64_t labels_hash)
{
    return spread_series_key(d->service, labels_hash);
}

// How many ingesters a label set needs by itself. A service that needs one has none that needs
// more.
static uint32_t series_need(struct dispatch *d, uint64_t labels_hash)
{
    if (!measures(d) || d->service_need < 2) return 1;
    uint32_t n = spread_need(d->spread, series_key(d, labels_hash), d->config->ingester_rate,
                             clock_mono_ns());
    return MIN(n, (uint32_t)d->member_count);
}

// The order of a record without a client's id: that of its label set, but a hot one begins with
// another of its first ones at each request.
static const uint32_t *turned_order(struct dispatch *d, const struct place_options *o, str service,
                                    uint64_t labels_hash)
{
    uint32_t *order = order_of(d, d->members, o, service, labels_hash);
    uint32_t n = series_need(d, labels_hash);
    if (n < 2) return order;
    if (!d->turn) d->turn = spread_turn(d->spread) + 1;
    size_t first = d->turn % n;
    const struct member *m = &d->members[order[first]];
    if (!m->alive || m->unready) return order;
    uint32_t row = order[first];
    order[first] = order[0];
    order[0] = row;
    return order;
}

// Counts a profile of a service that may have hot label sets. Without memory it is not counted.
static void count_series(struct dispatch *d, uint64_t labels_hash)
{
    d->placed++;
    if (!measures(d) || d->service_need < 2) return;
    uint64_t key = series_key(d, labels_hash);
    if (d->series_count && d->series[d->series_count - 1].key == key) {
        d->series[d->series_count - 1].n++;
        return;
    }
    if (arena_grow(&d->req->arena, &d->series, &d->series_cap, d->series_count + 1,
                   sizeof *d->series))
        d->series[d->series_count++] = (struct dispatch_series){key, 1};
}

// Did the lists of before give the record the same home?
static bool is_settled(const struct dispatch *d, const struct place_options *o, str service,
                       uint64_t labels_hash, str home)
{
    if (d->past.unknown) return false;
    for (size_t i = 0; i < d->past.n; i++) {
        const struct member *v = d->past.lists[i];
        place_order(v, d->past.counts[i], o, d->req->tenant, service, labels_hash, d->past_order);
        if (!str_eq(v[d->past_order[0]].id, home)) return false;
    }
    return true;
}

uint32_t dispatch_owner(void *arg, str service, uint64_t labels_hash, uint32_t *home)
{
    struct dispatch *d = arg;
    assert(d->member_count > 0);
    const struct place_options wide = wide_of(d, service, home != NULL);
    const struct place_options least = home_of(d);
    if (home) {
        *home = order_of(d, d->homes, &least, service, labels_hash)[0];
        if (!is_settled(d, &least, service, labels_hash, d->homes[*home].id)) *home = HOME_NONE;
    }
    count_series(d, labels_hash);
    if (!home) return turned_order(d, &wide, service, labels_hash)[0];
    return order_of(d, d->members, &wide, service, labels_hash)[0];
}

bool dispatch_explain(struct dispatch *d, str service, uint64_t labels_hash, bool identified,
                      struct dispatch_place *out, err *e)
{
    uint32_t home = HOME_NONE;
    const struct place_options wide = wide_of(d, service, identified);
    const struct place_options least = home_of(d);
    *out = (struct dispatch_place){.tenant_ingesters = wide.tenant_members,
                                   .service_ingesters = wide.service_members,
                                   .tenant_need = need_of(d, (str){0}),
                                   .tenant_even = identified ? 1 : even_of(d, (str){0}),
                                   .service_need = need_of(d, service),
                                   .service_even = identified ? 1 : even_of(d, service),
                                   .series_need = series_need(d, labels_hash)};
    out->order = ARENA_ARRAY(&d->req->arena, uint32_t, d->member_count);
    if (!out->order) return arena_fail(&d->req->arena, e);
    (void)dispatch_owner(d, service, labels_hash, &home);
    out->settled = home != HOME_NONE;
    out->home = order_of(d, d->homes, &least, service, labels_hash)[0];
    memcpy(out->order, order_of(d, d->members, &wide, service, labels_hash),
           d->member_count * sizeof *out->order);
    return true;
}

struct noted {
    const struct dispatch *d;
    uint64_t per;   // that one ingester should take
    uint64_t even;  // that it should take to be even; 0: all that comes is less than that
    uint64_t mono_ns;
};

static void note(const struct noted *n, str service, uint64_t bytes)
{
    uint64_t key = spread_key(n->d->req->tenant, service);
    spread_note(n->d->spread, key, bytes, n->per, n->mono_ns);
    if (n->even) spread_note(n->d->spread, spread_even_key(key), bytes, n->even, n->mono_ns);
}

void dispatch_note(struct dispatch *d, const struct send_buffer *o, uint64_t bytes)
{
    uint64_t now = clock_mono_ns();
    uint64_t records = 0;
    if (!measures(d)) return;
    for (size_t i = 0; i < o->batch_count; i++)
        records += o->batches[i]->batch.record_count;
    if (!records) return;
    // By records, because bytes are those of the request as sent, in which services may be mixed.
    uint64_t per = d->config->ingester_rate;
    spread_note_all(d->spread, bytes, now);
    uint64_t even = spread_even(d->spread, d->member_count, per, now);
    bool busy = spread_all(d->spread, now) >= even;
    const struct noted n = {d, per, busy ? even : 0, now};
    note(&n, (str){0}, bytes);
    for (size_t i = 0; i < o->batch_count; i++) {
        const struct batch *b = &o->batches[i]->batch;
        double part = (double)b->record_count / (double)records;
        note(&n, b->service, (uint64_t)((double)bytes * part));
    }
    for (size_t i = 0; i < d->series_count; i++) {
        double part = (double)d->series[i].n / (double)d->placed;
        spread_note(d->spread, d->series[i].key, (uint64_t)((double)bytes * part), per, now);
    }
}

static struct lexicon_key key_of(const struct dispatch *d, str service, uint32_t owner)
{
    assert(owner < d->member_count);
    return (struct lexicon_key){d->req->tenant, service, d->members[owner].id};
}

struct lexicon *dispatch_lexicon(void *arg, str service, uint32_t owner)
{
    const struct dispatch *d = arg;
    const struct lexicon_key k = key_of(d, service, owner);
    return d->lexicons ? lexicons_take(d->lexicons, &k) : NULL;
}

void dispatch_full(void *arg, str service, uint32_t owner, struct lexicon *l)
{
    const struct dispatch *d = arg;
    assert(d->lexicons && l);  // it came from dispatch_lexicon
    const struct lexicon_key k = key_of(d, service, owner);
    lexicons_full(d->lexicons, &k, l);
}

// ---- one attempt

static bool encode(struct dispatch *d, struct shipment *s, err *e)
{
    struct arena scratch;
    arena_init(&scratch, d->memory, SIZE_MAX / 2);
    buf_init(&s->message, d->memory, SIZE_MAX / 2);
    bool ok = true;
    assert(s->batch_count > 0);
    for (size_t i = 0; ok && i < s->batch_count; i++) {
        send_batch_address(s->batches[i], (uint32_t)(s->member - d->members));
        size_t mark = pb_begin(&s->message, 1);
        ok = send_batch_encode(s->batches[i], &scratch, &s->message, e);
        pb_end(&s->message, mark);
    }
    pb_put_fixed64_opt(&s->message, 2, placing_of(d));
    arena_release(&scratch);
    return ok && buf_ok(&s->message, e);
}

static void ship(struct dispatch *d, struct shipment *s)
{
    if (!encode(d, s, &s->fault)) return;
    // A request of its own, whose deadline is that of one attempt: the push may have time left for
    // the next ingester.
    uint64_t limit = (uint64_t)d->config->append_timeout;
    uint64_t left = req_left_ns(d->req);
    req_init(&s->req, d->req->rank, d->memory, SIZE_MAX / 2, MAX(MIN(limit, left), UINT64_C(1)));
    s->req.tenant = d->req->tenant;
    s->req.log.tenant = d->req->tenant;
    memcpy(s->req.request_id, d->req->request_id, sizeof s->req.request_id);
    s->started_mono_ns = clock_mono_ns();
    // From here on the call borrows s->message and s->req until peer_release (take_answer).
    assert(!s->started);
    peer_start(d->client, &s->req, &s->call, s->member->address, APPEND_PATH, buf_view(&s->message),
               RANK_INGESTER, APPEND_ANSWER_MAX);
    s->started = true;
}

// Field 4 of the answer: whether the ingester takes lexicons.
static bool takes_lexicons(str answer)
{
    bool takes = false;
    struct pb_reader reader = pb_reader(answer);
    while (pb_next(&reader)) {
        if (reader.field == 4 && reader.type == PB_VARINT) takes = reader.number != 0;
    }
    return takes;
}

// Takes the answer of a shipment and frees the call.
static void take_answer(struct dispatch *d, struct shipment *s)
{
    if (s->started) {
        str answer = {0};
        s->stored = peer_answer(&s->call, &answer, &s->fault);
        s->final = peer_is_final(&s->call);
        // The ingester's log is in the object store, and that fails.
        s->store_fails = s->fault.code == ERR_ABORTED;
        if (s->store_fails) s->fault.code = ERR_UNAVAILABLE;
        // An answer of any kind shows that the ingester lives; none makes it one that may be
        // silent.
        members_note_call(d->known, MEMBER_INGESTER, s->member->id, &s->call, &s->fault);
        if (s->stored && d->lexicons)
            lexicons_note_member(d->lexicons, s->member->id, takes_lexicons(answer));
        if (s->given_up && !s->stored)
            err_set(&s->fault, ERR_UNAVAILABLE,
                    "the ingester answers no probes or is not ready, and the time to wait is over");
        metric_add(&distributor_append_bytes, s->message.n);
        // An ingester of another cluster refuses so. The client did nothing wrong and may try
        // again.
        if (s->fault.code == ERR_FAILED_PRECONDITION) s->fault.code = ERR_UNAVAILABLE;
        // In this order: the call uses the request's arena.
        peer_release(&s->call);
        req_release(&s->req);
    }
    buf_release(&s->message);
}

// Whether another ingester may do better: this one was away, slow or full. If its log is in the
// object store, and that fails, the others' logs are no better off. If one tenant has filled its
// part of this one, it must not fill those of the others.
static bool may_pass_over(const struct shipment *s)
{
    const err *fault = &s->fault;
    if (s->store_fails || s->final) return false;
    return fault->code == ERR_UNAVAILABLE || fault->code == ERR_DEADLINE_EXCEEDED ||
           fault->code == ERR_RESOURCE_EXHAUSTED;
}

// ---- all of them

// Puts the waiting batches together by their owners.
static struct shipment *pack(struct dispatch *d, struct send_buffer *o, size_t *count)
{
    struct shipment *v = ARENA_ARRAY(&d->req->arena, struct shipment, d->member_count);
    struct send_batch **all = ARENA_ARRAY(&d->req->arena, struct send_batch *, o->batch_count);
    *count = 0;
    assert(d->member_count > 0);
    if (!v || !all) return NULL;
    for (size_t m = 0; m < d->member_count; m++) {
        // One array for all shipments, in which each takes the next piece: a batch has one owner,
        // so they fit. A member without batches leaves its place to the next one.
        struct shipment *s = &v[*count];
        *s = (struct shipment){.member = &d->members[m], .batches = all};
        for (size_t i = 0; i < o->batch_count; i++) {
            struct send_batch *p = o->batches[i];
            assert(p->owner < d->member_count);
            if (p->state == SEND_BATCH_WAITING && p->owner == m) all[s->batch_count++] = p;
        }
        all += s->batch_count;
        *count += s->batch_count > 0;
    }
    return v;
}

static bool is_over(const struct send_buffer *o)
{
    for (size_t i = 0; i < o->batch_count; i++) {
        if (o->batches[i]->state == SEND_BATCH_WAITING) return false;
    }
    return true;
}

static void keep_first(err *first, const struct shipment *s, uint32_t asked)
{
    if (first->code != ERR_OK) return;
    // The first failure is the answer; later ones are of batches that went the same way.
    assert(!s->stored && s->fault.code != ERR_OK);
    *first = s->fault;
    (void)!err_wrap(first, "none of %u ingesters asked stored them; %.*s", asked,
                    STR(s->member->id));
}

// The next ingester in the batch's order. The order may have changed if members did; that is no
// harm, because any ingester is right.
static uint32_t next_of(struct dispatch *d, const struct send_batch *p)
{
    assert(p->attempt < d->member_count);
    const struct place_options wide = wide_of(d, p->batch.service, p->identified);
    if (!p->identified) return turned_order(d, &wide, p->batch.service, p->labels_hash)[p->attempt];
    return order_of(d, d->members, &wide, p->batch.service, p->labels_hash)[p->attempt];
}

// Whether the fault names this lexicon.
static bool names(const err *fault, const struct lexicon *l)
{
    // The ingester writes the id into its message, because an error has no field for it.
    char hex[2 * sizeof l->id.b + 1];
    hex_print(l->id.b, sizeof l->id.b, hex);
    return str_contains(str_of(fault->msg), str_of(hex));
}

// Whether the same ingester gets the batches once more, with all their symbols. It stored nothing,
// because it lacks rows of a lexicon (not_found), or because it is of a version without lexicons
// and refused the message. A fault that names no lexicon is meant for all of them.
static bool tell_all(struct dispatch *d, struct shipment *s)
{
    bool any = false;
    bool named = false;
    bool knows = s->fault.code == ERR_NOT_FOUND;
    if (s->stored || !s->started) return false;
    if (!knows && s->fault.code != ERR_INVALID_ARGUMENT && s->fault.code != ERR_UNIMPLEMENTED)
        return false;
    for (size_t i = 0; i < s->batch_count; i++) {
        const struct lexicon *l = s->batches[i]->lexicon;
        any |= l != NULL;
        named |= l && names(&s->fault, l);
    }
    // An older ingester: it gets no lexicons until one of its answers says that it takes them.
    if (any && !knows) lexicons_note_member(d->lexicons, s->member->id, false);
    // All of them or those that are named; the batches are sent whole in any case (decide).
    for (size_t i = 0; any && i < s->batch_count; i++) {
        struct send_batch *p = s->batches[i];
        const struct lexicon_key k = {d->req->tenant, p->batch.service, s->member->id};
        if (p->lexicon && (!named || names(&s->fault, p->lexicon)))
            lexicons_refused(d->lexicons, &k, p->lexicon);
    }
    return any;
}

enum next {
    NEXT_NONE,   // stored
    NEXT_WHOLE,  // the same ingester, all symbols
    NEXT_OTHER,
    NEXT_FAILED
};

static void apply_next(struct dispatch *d, struct send_batch *p, enum next next)
{
    assert(p->state == SEND_BATCH_WAITING);
    switch (next) {
    case NEXT_NONE:
        if (p->lexicon) lexicon_stored(p->lexicon, &p->sent);
        p->state = SEND_BATCH_STORED;
        break;
    case NEXT_WHOLE:
        assert(!p->lexicon);  // or it could be refused for ever
        break;
    case NEXT_OTHER:
        // A higher attempt marks rows that another ingester may have stored without our knowing.
        assert(!p->lexicon);
        p->attempt++;
        p->owner = next_of(d, p);
        break;
    case NEXT_FAILED:
        p->state = SEND_BATCH_FAILED;
        break;
    }
}

// Decides for each batch of a shipment: stored, failed, or waiting for another try with the same
// ingester or with the next. A batch that is tried again brings all its symbols: other ingesters
// have other lexicons.
static void decide(struct dispatch *d, struct shipment *s, err *first)
{
    const str results[] = {S("stored"), S("told again"), S("passed"), S("failed")};
    size_t most = MIN((size_t)d->config->append_attempts, d->member_count);
    bool whole = tell_all(d, s);
    for (size_t i = 0; i < s->batch_count; i++) {
        struct send_batch *p = s->batches[i];
        err fault = {0};
        bool again = !s->stored && may_pass_over(s) && p->attempt + 1 < most;
        enum next next = s->stored ? NEXT_NONE
                         : whole   ? NEXT_WHOLE
                         : again   ? NEXT_OTHER
                                   : NEXT_FAILED;
        // Without memory for its symbols the batch cannot go anywhere.
        if ((whole || again) && !send_batch_make_whole(p, &d->req->arena, &fault)) {
            s->fault = fault;
            next = NEXT_FAILED;
        }
        apply_next(d, p, next);
        if (next == NEXT_FAILED) keep_first(first, s, p->attempt + 1);
        metric_add_to(&distributor_appends, results[next], 1);
    }
}

// While calls are under way, those to ingesters that stopped answering are given up before
// append_timeout.
struct patience {
    struct dispatch *dispatch;
    struct shipment *v;
    size_t n;
};

static bool is_hopeless(struct members *known, const struct shipment *s)
{
    const enum member_kind kind = MEMBER_INGESTER;
    const uint64_t patience = MEMBER_SILENCE_NS;
    bool late = clock_mono_ns() - s->started_mono_ns >= patience;
    return members_is_silent(known, kind, s->member->id, s->started_mono_ns, patience) ||
           (late && members_is_unready(known, kind, s->member->id));
}

static void give_up(void *arg)
{
    const struct patience *p = arg;
    for (size_t i = 0; i < p->n; i++) {
        struct shipment *s = &p->v[i];
        if (!s->started || call_is_over(&s->call.http.call)) continue;
        if (!is_hopeless(p->dispatch->known, s)) continue;
        s->given_up = true;
        call_stop(&s->call.http.call);
    }
}

static bool attempt(struct dispatch *d, struct shipment *v, size_t n, err *first, err *e)
{
    struct patience p = {d, v, n};
    const struct call_watch watch = {.look = give_up, .arg = &p};
    struct call **calls = ARENA_ARRAY(&d->req->arena, struct call *, n);
    if (!calls) return arena_fail(&d->req->arena, e);
    assert(n > 0 && n <= d->member_count);
    size_t started = 0;
    // All calls are started before any is waited for: an attempt takes as long as its slowest call.
    for (size_t i = 0; i < n; i++) {
        ship(d, &v[i]);
        // One that could not be encoded has its fault already, and decide() treats it like the
        // others.
        if (v[i].started) calls[started++] = &v[i].call.http.call;
    }
    err fault = {0};
    FAULT("dispatch.started");
    if (started) (void)!call_gather_watched(d->req, calls, started, started, false, &watch, &fault);
    for (size_t i = 0; i < n; i++) {
        // After the gather, whatever it said: calls that did not end were stopped there, so each
        // call is over and may be released.
        take_answer(d, &v[i]);
        decide(d, &v[i], first);
    }
    return true;
}

bool dispatch_send(struct dispatch *d, struct send_buffer *o, err *e)
{
    err first = {0};
    FAULT("dispatch.send");
    while (!is_over(o)) {
        size_t n = 0;
        struct shipment *v = pack(d, o, &n);
        if (!v) return arena_fail(&d->req->arena, e);
        assert(n > 0);  // a batch waits, so a member owns it
        if (!attempt(d, v, n, &first, e)) return false;
        // Asked between rounds only: a round that stored everything has succeeded, however late.
        if (!is_over(o) && !req_alive(d->req, e)) return false;
    }
    FAULT("dispatch.send.after");
    if (first.code == ERR_OK) return true;
    *e = first;
    return err_wrap(e, "storing profiles");
}
