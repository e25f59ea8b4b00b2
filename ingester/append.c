// SPDX-License-Identifier: Apache-2.0
//
// append.c - IngesterService/Append: check, stage, log, publish, answer.
//
//     1. Every batch is decoded and checked. Records that may be repeated ones are made loose, if
//        their ids may have been forgotten (known_ids.h, head/recent_ids.h).
//     2. head_stage takes all memory that the rows need; no query sees them yet.
//     3. wal_append writes the staged rows of all batches of the request with one synced write.
//     4. head_publish cannot fail, so rows that are in the log are seen.
//     5. The answer, for which room was made before 2.
//
// A failure before 3: nothing happened, and the whole request is refused. In 3: unavailable; the
// entries may or may not be in the log, and the distributor tries again with the same ids. If the
// process ends after 3, a replay shows the rows, and a retry is recognised by its ids. In 3,
// out_of_range: the push will never be in the log, because the store takes no object of its size.
// The distributor asks no other ingester, as they have the same store, and the client is told.
#include "base/fault.h"
#include "codec/pb.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "ingester/roll.h"
#include "ingester/streams.h"
#include "manifest/names.h"
#include "model/placings.h"
#include "service/settings.h"
#include "sys/clock.h"

#include <inttypes.h>

// Room for the answer: the bytes of its message, and of its headers in the arena.
#define ANSWER_BYTES  128
#define ANSWER_MEMORY 2048

// The distributor has a limit of age and a clock of its own; this allows for their difference.
#define AGE_SLACK (INT64_C(3600) * NS_PER_S)

struct append {
    struct ingester *in;
    struct req *req;
    str *bytes;
    struct batch *batches;
    struct staged **staged;
    size_t n;
    uint64_t placing;    // of the records
    uint64_t unsure;     // records that were made loose
    const char *reason;  // of a refusal, for the metric
    bool own;            // it is a refusal for what the tenant has already
};

// ---- checking

static bool read_request(struct append *a, str message, err *e)
{
    size_t n = 0;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r))
        n += r.field == 1 && r.type == PB_BYTES;
    if (!pb_done(&r, e)) return err_wrap(e, "AppendRequest");
    // Counted first, so that the arrays are exact: an attacker's message has millions of tiny
    // fields.
    assert(a->n == 0);
    a->bytes = ARENA_ARRAY(&a->req->arena, str, n);
    a->batches = ARENA_ARRAY(&a->req->arena, struct batch, n);
    a->staged = ARENA_ARRAY(&a->req->arena, struct staged *, n);
    if (!arena_ok(&a->req->arena, e)) return false;
    a->placing = PLACING_UNKNOWN;
    r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) a->bytes[a->n++] = r.bytes;
        if (r.field == 2 && r.type == PB_FIXED64 && r.number) a->placing = r.number;
    }
    return true;
}

// The head relies on this besides what batch_decode checks: all series of a batch are of its
// service, so a query that names a service looks at no other.
static bool check_series(const struct batch *b, err *e)
{
    if (b->service.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "a batch names no service");
    for (uint32_t i = 0; i < b->series_count; i++) {
        str named = labels_get(b->series[i], S(LABEL_SERVICE));
        if (str_eq(named, b->service)) continue;
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "series %u has service_name '%.*s' in a batch of service '%.*s'", i,
                       STR(str_slice(named, 0, 200)), STR(str_slice(b->service, 0, 200)));
    }
    return true;
}

static bool check_ages(struct append *a, const struct batch *b, err *e)
{
    int64_t age = ingester_settings(a->in)->head_age;
    // Registrations of streams say how old their profiles are at most (roll.h).
    if (a->in->roll) age = MIN(age, roll_rows_age(a->in->roll));
    int64_t now = clock_wall_ns();
    for (uint32_t i = 0; i < b->record_count; i++) {
        int64_t old = 0;
        // Names of segments have no negative hours.
        if (a->in->flush && b->records[i].time_ns <= 0) {
            return err_set(e, ERR_INVALID_ARGUMENT, "a profile is of %" PRId64 " ns since 1970",
                           b->records[i].time_ns);
        }
        // Times are the client's and may be anything. Far in the past is too old, far ahead is not
        // old.
        if (__builtin_sub_overflow(now, b->records[i].time_ns, &old)) {
            old = b->records[i].time_ns < 0 ? INT64_MAX : 0;
        }
        if (old < age || old - age <= AGE_SLACK) continue;
        a->reason = "age";
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "a profile is %" PRId64 " s old, ingester.head_age is %" PRId64 " s",
                       old / NS_PER_S, age / NS_PER_S);
    }
    return true;
}

static bool check(struct append *a, str message, err *e)
{
    a->reason = "invalid";
    str tenant = a->req->tenant;  // becomes part of names of objects
    if (tenant.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "there is no tenant");
    if (!name_tenant_ok(tenant)) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "tenant '%.*s' is not one name of 1 to %d characters A-Z a-z 0-9 ! - _ . * "
                       "' ( )",
                       STR(str_slice(tenant, 0, NAME_TENANT_MAX)), NAME_TENANT_MAX);
    }
    a->reason = "closed";
    if (!closings_admits(a->in->closings, tenant, e)) return false;
    a->reason = "invalid";
    // The tenant first: it costs nothing, and a message of gigabytes need not be decoded for it.
    if (!read_request(a, message, e)) return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!batch_decode(&a->req->arena, a->bytes[i], &a->batches[i], e) ||
            !check_series(&a->batches[i], e) || !check_ages(a, &a->batches[i], e)) {
            return false;
        }
        a->batches[i].placing = a->placing;
    }
    return true;
}

// ---- what may have been taken before

// How far ahead of this node's clock a distributor takes profiles; INT64_MAX: no limit.
static int64_t ahead_most(const struct append *a)
{
    const struct config *config = a->in->process->config;
    const struct cluster_settings *cluster = config_section(config, "cluster");
    const struct limits *limits = tenant_limits(config, &a->req->arena, a->req->tenant);
    int64_t ahead = limits->reject_newer_than;
    int64_t clocks = cluster->clock_difference;
    return ahead && clocks && ahead < INT64_MAX - clocks ? ahead + clocks : INT64_MAX;
}

// Which records may be repeated ones that this ingester would not recognise.
struct doubt {
    bool started;  // as it does not know what it took before it started (known_ids.h)
    bool lacks;    // as it has let ids go (head/recent_ids.h)
    int64_t lacks_until_ns;
    int64_t ahead_ns;
};

static bool is_before(int64_t time_ns, int64_t end_ns, int64_t ahead_ns)
{
    return end_ns > INT64_MAX - ahead_ns || time_ns <= end_ns + ahead_ns;
}

static bool may_repeat(const struct append *a, const struct doubt *d, const struct batch *b,
                       const struct record *r)
{
    if (d->lacks && is_before(r->time_ns, d->lacks_until_ns, d->ahead_ns)) return true;
    if (d->started && known_ids_may_repeat(&a->in->known_ids, r->time_ns, d->ahead_ns)) return true;
    return head_may_have_had(a->in->head, a->req->tenant,
                             (struct loose_key){b->fingerprints[r->series], r->id});
}

// A record that is a repeated one perhaps, and would not be recognised, is loose here, although
// this is its home.
static void loosen(struct append *a)
{
    struct doubt d = {.started = known_ids_may_repeat(&a->in->known_ids, INT64_MIN, 0)};
    d.lacks = head_lacks_ids(a->in->head, a->req->tenant, &d.lacks_until_ns);
    if (d.started || d.lacks) d.ahead_ns = ahead_most(a);
    for (size_t i = 0; i < a->n; i++) {
        for (uint32_t k = 0; k < a->batches[i].record_count; k++) {
            struct record *r = &a->batches[i].records[k];
            if (!r->identified || r->attempt > 0 || !may_repeat(a, &d, &a->batches[i], r)) continue;
            r->attempt = 1;
            a->unsure++;
        }
    }
}

// ---- the steps

static void abandon(struct append *a, size_t n)
{
    assert(n <= a->n);
    for (size_t i = 0; i < n; i++)
        head_abandon(a->staged[i]);
}

// What the tenant may have of the head. Where there is one tenant only, it has nobody to share
// with.
static struct head_terms terms_of(const struct append *a)
{
    const struct config *config = a->in->process->config;
    const struct auth_settings *auth = config_section(config, "auth");
    const struct limits *limits = tenant_limits(config, &a->req->arena, a->req->tenant);
    return (struct head_terms){
        .max_stacks = (uint64_t)limits->max_stacks_per_service_hour,
        .max_series = (uint64_t)limits->max_local_series_per_tenant,
        .share = auth->multitenancy_enabled ? limits->ingester_head_share : 0,
    };
}

static bool stage_once(struct append *a, struct head_terms *terms, err *e)
{
    for (size_t i = 0; i < a->n; i++) {
        if (head_stage(a->in->head, &a->req->arena, a->req->tenant, &a->batches[i], terms,
                       &a->staged[i], e)) {
            continue;
        }
        abandon(a, i);
        return false;
    }
    return true;
}

static void blame_tenant(struct append *a, enum head_refusal refusal)
{
    if (refusal == HEAD_NO_SHARE) a->reason = "tenant_memory";
    if (refusal == HEAD_NO_SERIES) a->reason = "series";
    a->own = refusal != HEAD_NO_ROOM;
}

// Waits while another push writes the same profile: afterwards the profile is known, or it is not
// because that push failed. A push that waits has nothing staged, so no other push waits for it.
static bool stage(struct append *a, err *e)
{
    struct head_terms terms = terms_of(a);
    for (;;) {
        a->reason = "memory";
        // Before the try: a turn that passes between a failed try and the wait would be missed
        // otherwise.
        uint64_t turn = head_turn(a->in->head);
        uint64_t losses = head_id_losses(a->in->head);
        loosen(a);
        if (stage_once(a, &terms, e)) {
            if (head_id_losses(a->in->head) == losses) return true;
            // An id that was known, or faint, when it was asked for may be neither by now.
            abandon(a, a->n);
            continue;
        }
        if (e->code == ERR_NOT_FOUND) a->reason = "lexicon";
        if (e->code == ERR_RESOURCE_EXHAUSTED) blame_tenant(a, terms.refusal);
        // ABORTED: another push has staged one of these rows and not yet published or given it up.
        if (e->code != ERR_ABORTED) return false;
        *e = (err){0};
        a->reason = "other";
        if (!head_await_turn(a->in->head, a->req, turn, e)) return false;
    }
}

// Makes room for the answer before anything is stored. If the answer failed afterwards for want of
// memory, the distributor would take the rows for refused.
static bool make_room(struct append *a, struct buf *out, err *e)
{
    a->reason = "memory";
    if (!arena_spare(&a->req->arena, ANSWER_MEMORY)) return arena_fail(&a->req->arena, e);
    return buf_reserve(out, ANSWER_BYTES) != NULL || buf_ok(out, e);
}

// Writes the rows that were staged, which are those that are new; a batch of known rows only is not
// written. So each row is in the log once, and a restart puts it into the cut that it had before.
static bool log_new(struct append *a, struct wal_place *place, err *e)
{
    struct wal_item *items = ARENA_ARRAY(&a->req->arena, struct wal_item, a->n);
    size_t n = 0;
    if (!items) return arena_fail(&a->req->arena, e);
    for (size_t i = 0; i < a->n; i++) {
        struct staged *s = a->staged[i];
        if (staged_rows(s) == 0) continue;
        // The news are asked for by the leader of the commit, who knows which cut they go to.
        items[n] = (struct wal_item){.count = staged_rows(s), .news = head_log_news, .arg = s};
        if (!head_log(s, &items[n].rows, e)) return false;
        n++;
    }
    assert(n <= a->n);
    if (n == 0) return wal_position(a->in->wal, place, e);  // only duplicates: no cut is pinned
    a->reason = "log";
    return wal_append(a->in->wal, a->req->tenant, items, n, place, e);
}

static void publish(struct append *a, struct cut *cut)
{
    for (size_t i = 0; i < a->n; i++) {
        assert(cut || staged_rows(a->staged[i]) == 0);  // a row without a cut would never leave
        metric_add(&ingester_append_profiles, a->batches[i].record_count);
        metric_add(&ingester_append_bytes, a->bytes[i].n);
        head_publish(a->staged[i], cut);
    }
    metric_add(&ingester_unsure, a->unsure);
}

static double share(uint64_t used, uint64_t limit)
{
    return limit ? (double)MIN(used, limit) / (double)limit : 0;
}

static void answer(struct append *a, const struct wal_place *place, struct buf *out)
{
    const struct mem_budget *b = head_budget(a->in->head);
    // Distributors pass over an ingester that is nearly full, so the fuller of both counts.
    double load = MAX(share(b->used, b->limit),
                      share(wal_count(a->in->wal).bytes, ingester_settings(a->in)->log_disk));
    pb_put_bytes(out, 1, str_make(place->stream.b, sizeof place->stream.b));
    pb_put_u64_opt(out, 2, place->last_seq);
    pb_put_double_opt(out, 3, load);
    if (ingester_settings(a->in)->lexicon_memory > 0) pb_put_u64_opt(out, 4, 1);
}

// The rows may be in the log: when the push is repeated they are known by their ids.
static bool refuse_unregistered(struct append *a, err *e)
{
    // A log that is not open says so itself.
    struct wal_place place = {0};
    a->reason = "stream";
    if (!wal_position(a->in->wal, &place, e)) return false;
    if (a->in->streams) return streams_blame(a->in->streams, e);
    return err_set(e, ERR_UNAVAILABLE, "the stream is not registered in the store yet");
}

static bool run_append(struct append *a, str message, struct buf *out, err *e)
{
    struct wal_place place = {0};
    assert(a->n == 0);
    a->reason = "log";
    FAULT("append.stage.before");
    if (!wal_position(a->in->wal, &place, e)) return false;
    // Before any work: nothing is acknowledged in a stream that the store does not know.
    if (a->in->roll && !roll_is_open(a->in->roll)) return refuse_unregistered(a, e);
    if (!check(a, message, e) || !make_room(a, out, e)) return false;
    if (!stage(a, e)) return false;
    stuck_enter(&a->in->appends);  // from here to stuck_leave a disk that hangs is noticed
    FAULT("append.log.before");
    bool stored = log_new(a, &place, e);
    stuck_leave(&a->in->appends);
    assert(!stored || !id128_eq(place.stream, (id128){0}));
    if (!stored) {
        // Rows that may be in the log all the same are known by their ids when the push is
        // repeated.
        if (e->code == ERR_RESOURCE_EXHAUSTED) a->reason = "disk";
        if (e->code == ERR_OUT_OF_RANGE) a->reason = "size";
        abandon(a, a->n);
        if (e->code == ERR_UNAVAILABLE) duty_wake(a->in);  // opens the log again without delay
        return false;
    }
    FAULT("append.apply.before");
    publish(a, place.cut);
    // Asked again: the log may have been opened again meanwhile, in another stream. The pin keeps
    // the stream from ending.
    bool admitted = !a->in->roll || (place.cut ? roll_admits(a->in->roll, place.stream)
                                               : roll_is_open(a->in->roll));
    // After the rows are in the head: a cut without pins may be flushed and dropped.
    if (place.cut) wal_unpin(a->in->wal, place.cut);
    if (!admitted) return refuse_unregistered(a, e);
    arena_use_spare(&a->req->arena);
    // Asked again: a deletion that began meanwhile counts on it that nothing is acknowledged now.
    a->reason = "closed";
    if (!closings_admits(a->in->closings, a->req->tenant, e)) return false;
    // All is stored and seen. Nothing from here on may fail, whatever the budget says.
    answer(a, &place, out);
    FAULT("append.ack.before");
    return buf_ok(out, e);
}

static bool run_and_count(struct append *a, str message, struct buf *out, err *e)
{
    bool ok = run_append(a, message, out, e);
    relief_look(a->in);
    if (ok) return true;
    str reason = str_of(a->reason);
    // Out_of_range says that the log's store takes no push of that size, and nothing else.
    if (e->code == ERR_OUT_OF_RANGE && !str_is(reason, "size")) e->code = ERR_INVALID_ARGUMENT;
    bool full =
        str_is(reason, "memory") || str_is(reason, "tenant_memory") || str_is(reason, "disk");
    if (full && a->in->flush) (void)flush_blame(a->in->flush, e);
    metric_add_to(&ingester_refused, reason, 1);
    return false;
}

bool append_run(struct ingester *in, struct req *r, str message, struct buf *out, err *e)
{
    struct append a = {.in = in, .req = r};
    return run_and_count(&a, message, out, e);
}

bool ingester_append(void *service, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct ingester *self = service;
    struct append a = {.in = self, .req = &x->req};
    if (run_and_count(&a, in, out, e)) return true;
    // What one tenant has too much of is not spread over the other ingesters.
    x->final = a.own;
    // Aborted tells the distributor that other ingesters are no better off: they have the same
    // store.
    bool waits = e->code == ERR_UNAVAILABLE || e->code == ERR_RESOURCE_EXHAUSTED;
    if (waits && wal_store_fails(self->wal)) e->code = ERR_ABORTED;
    return false;
}
