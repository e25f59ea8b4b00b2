// SPDX-License-Identifier: Apache-2.0
//
// read.c - IngesterService/HeadRead and Streams.
//
//     1. The request is decoded. Cuts in its `refresh` are compared with the store, and rows that
//        are there leave the head (flush.h).
//     2. The head is held: no row leaves it until 4.
//     3. The rows that match are added up, as trees, totals, heat maps, labels or statistics.
//     4. The cuts and hours that the answer contains are named.
//     5. The answer says what may be missing, and which members this ingester knows.
//
// The first answer is for the open stream. It also contains this node's ended streams: every
// acknowledged row that is in no segment. Each adopted stream has an answer of its own (step 3 and
// 4 once more), because its owner may be there after all: then the querier takes his. model/loose.h
// handles rows that two ingesters may have.
#include "base/fault.h"
#include "cluster/member.h"
#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "ingester/adopt.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "ingester/roll.h"
#include "ingester/streams.h"
#include "model/slot.h"
#include "sys/clock.h"

// Bytes of an answer's symbols or vector before they are copied into it.
#define PART_MAX ((size_t)1 << 30)

struct read {
    struct ingester *in;
    struct req *req;
    const Flametree__V1__HeadReadRequest *ask;
    struct head_query query;
    struct selector_most most;
    struct mem_budget budget;  // of this query, beside its arena
    struct loose_set listed;
    struct loose_set met;
    struct placings placings;    // of the rows of an answer
    struct wal_served *adopted;  // streams that have an answer of their own
    size_t adopted_count;
    struct buf *out;
};

// ---- the request

static bool read_tenants(struct read *r, err *e)
{
    size_t n = 1;
    for (size_t i = 0; i < r->req->tenant.n; i++)
        n += r->req->tenant.p[i] == '|';
    str *tenants = ARENA_ARRAY(&r->req->arena, str, n);
    if (!tenants) return arena_fail(&r->req->arena, e);
    str rest = r->req->tenant;
    // The router has checked the names, so "a|b" has two and none is empty.
    for (size_t i = 0; i < n; i++)
        tenants[i] = str_split(rest, '|', &rest);
    r->query.tenants = tenants;
    r->query.tenant_count = n;
    return true;
}

static bool alive(const void *req, err *e)
{
    return req_alive(req, e);
}

// The number of matchers has no limit here, because the querier has checked it. The deadline is
// checked (alive) while values are matched, because a regex over many values takes long.
static bool read_selector(struct read *r, Flametree__V1__Matcher **v, size_t n, struct selector *to,
                          err *e)
{
    to->most = &r->most;
    for (size_t i = 0; i < n; i++) {
        const Flametree__V1__Matcher *m = v[i];
        if (m->op > MATCH_NRE) {
            return err_set(e, ERR_INVALID_ARGUMENT, "matcher %zu has operation %u", i, m->op);
        }
        if (!selector_add(&r->req->arena, to, (enum matcher_op)m->op, pb_text(m->name),
                          pb_text(m->value), e)) {
            return false;
        }
    }
    return true;
}

static bool read_matchers(struct read *r, err *e)
{
    r->most = (struct selector_most){.alive = alive, .arg = r->req};
    return read_selector(r, r->ask->matchers, r->ask->n_matchers, &r->query.selector, e);
}

static bool read_hides(struct read *r, err *e)
{
    size_t n = r->ask->n_hides;
    struct hide *v = ARENA_ARRAY(&r->req->arena, struct hide, n);
    if (!v) return arena_fail(&r->req->arena, e);
    for (size_t i = 0; i < n; i++) {
        const Flametree__V1__Hide *h = r->ask->hides[i];
        v[i] = (struct hide){.from_ns = h->from_ns, .to_ns = h->to_ns};
        if (!read_selector(r, h->matchers, h->n_matchers, &v[i].selector, e))
            return err_wrap(e, "hide %zu", i);
    }
    r->query.hides = v;
    r->query.hide_count = n;
    return true;
}

static bool read_request(struct read *r, str message, err *e)
{
    ProtobufCMessage *m =
        pb_unpack(&r->req->arena, &flametree__v1__head_read_request__descriptor, message, e);
    if (!m) return err_wrap(e, "HeadReadRequest");
    assert(m->descriptor == &flametree__v1__head_read_request__descriptor);
    r->ask = (const Flametree__V1__HeadReadRequest *)m;
    r->query.from_ns = r->ask->from_ns;
    r->query.to_ns = r->ask->to_ns;
    return read_tenants(r, e) && read_matchers(r, e) && read_hides(r, e);
}

static bool read_ids(struct arena *a, const ProtobufCBinaryData *v, size_t n, const char *what,
                     id128 **out, err *e)
{
    *out = ARENA_ARRAY(a, id128, n);
    if (!*out) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        if (v[i].len != sizeof(id128)) {
            return err_set(e, ERR_INVALID_ARGUMENT, "%s %zu has %zu bytes instead of 16", what, i,
                           v[i].len);
        }
        memcpy((*out)[i].b, v[i].data, sizeof(id128));
    }
    return true;
}

static bool read_names(struct arena *a, char *const *v, size_t n, str **out, err *e)
{
    *out = ARENA_ARRAY(a, str, n);
    if (!*out) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = pb_text(v[i]);
    return true;
}

// ---- what was asked for, as fields of message Partial

// Of a Partial symbols and vector are fields 1 and 2, of ServiceSums 2 and 3, carries behind them.
static bool put_merge(struct read *r, const struct merge *m, uint32_t first, err *e)
{
    struct buf symbols;
    struct buf vector;
    struct buf carries;
    buf_init(&symbols, &r->budget, PART_MAX);
    buf_init(&vector, &r->budget, PART_MAX);
    buf_init(&carries, &r->budget, PART_MAX);
    // Encoded aside, because the lengths of the fields come before their bytes.
    bool ok = merge_encode(m, &r->req->arena, &symbols, &vector, &carries, e);
    if (ok) {
        pb_put_bytes_opt(r->out, first, buf_view(&symbols));
        pb_put_bytes_opt(r->out, first + 1, buf_view(&vector));
        if (m->wide) pb_put_bytes_opt(r->out, first + 2, buf_view(&carries));
    }
    buf_release(&symbols);
    buf_release(&vector);
    buf_release(&carries);
    return ok;
}

static bool put_sums(void *arg, const struct head_sums *sums, err *e)
{
    struct read *r = arg;
    size_t mark = pb_begin(r->out, 16);
    pb_put_bytes_opt(r->out, 1, sums->service);
    bool ok = put_merge(r, sums->stacks, 2, e);
    pb_put_u64_opt(r->out, 5, sums->profiles);
    pb_put_i64_opt(r->out, 6, sums->stacks->period);
    pb_end(r->out, mark);
    return ok;
}

static bool put_services(struct read *r, const struct span_filter *filter, err *e)
{
    const struct head_services to = {.budget = &r->budget,
                                     .names_only = !r->ask->tree->full_symbols,
                                     .fn = put_sums,
                                     .arg = r};
    return head_tree_services(r->in->head, r->req, &r->query, filter, &to, e);
}

static bool put_tree(struct read *r, err *e)
{
    const Flametree__V1__WantTree *want = r->ask->tree;
    struct arena *a = &r->req->arena;
    id128 *profiles = NULL;
    id128 *traces = NULL;
    if (!read_ids(a, want->profile_ids, want->n_profile_ids, "profile id", &profiles, e) ||
        !read_ids(a, want->trace_ids, want->n_trace_ids, "trace id", &traces, e)) {
        return false;
    }
    struct span_filter filter = {.profiles = profiles,
                                 .profile_count = want->n_profile_ids,
                                 .spans = want->span_ids,
                                 .span_count = want->n_span_ids,
                                 .traces = traces,
                                 .trace_count = want->n_trace_ids};
    struct merge m;
    uint64_t count = 0;
    err fault = {0};
    if (want->wide == 2) return put_services(r, &filter, e);
    if (!merge_init(&m, &r->budget, !want->full_symbols, e)) return false;
    bool ok = head_tree(r->in->head, r->req, &r->query, &filter, &m, &count, &fault) &&
              put_merge(r, &m, 1, &fault);
    // Frees what counts against the query's budget; read_run asserts that nothing is left.
    merge_release(&m);
    if (ok) pb_put_u64_opt(r->out, 3, count);
    if (ok) pb_put_i64_opt(r->out, 10, m.period);
    // Sums of one service must not end questions about others.
    if (!ok && fault.code == ERR_OUT_OF_RANGE && want->wide) return put_services(r, &filter, e);
    if (!ok) *e = fault;
    return ok;
}

static bool put_totals(struct read *r, err *e)
{
    const Flametree__V1__WantTotals *want = r->ask->totals;
    struct arena *a = &r->req->arena;
    struct cells cells;
    str *names = NULL;
    str *site = NULL;
    if (!read_names(a, want->group_by, want->n_group_by, &names, e) ||
        !read_names(a, want->call_site, want->n_call_site, &site, e)) {
        return false;
    }
    const struct totals_want w = {.wanted = true,
                                  .first_ns = want->first_ns,
                                  .step_ns = want->step_ns,
                                  .points = want->points,
                                  .early_ns = want->early_ns,
                                  .spread = want->spread,
                                  .group_by = names,
                                  .group_by_count = want->n_group_by,
                                  .include_sampled = want->include_sampled,
                                  .call_site = site,
                                  .call_site_count = want->n_call_site,
                                  .exemplars = (enum exemplar_kind)want->exemplars};
    return head_totals(r->in->head, r->req, &r->query, &w, &cells, e) &&
           totals_encode(&cells, want->wide, r->out, 4, e);
}

static bool put_heat(struct read *r, err *e)
{
    const Flametree__V1__WantHeat *want = r->ask->heat;
    struct cells cells;
    struct extent extent;
    str *names = NULL;
    if (!read_names(&r->req->arena, want->group_by, want->n_group_by, &names, e)) return false;
    const struct heat_want w = {.slots = {.first_ns = want->first_ns,
                                          .step_ns = want->step_ns,
                                          .count = want->slots,
                                          .early_ns = want->early_ns},
                                .group_by = names,
                                .group_by_count = want->n_group_by,
                                .kind = (enum exemplar_kind)want->kind,
                                .buckets = {.bounds = want->lower_bounds,
                                            .n = want->n_lower_bounds,
                                            .largest = want->largest},
                                .exemplars = want->exemplars};
    if (!head_heat(r->in->head, r->req, &r->query, &w, &cells, &extent, e)) return false;
    extent_encode(&extent, r->out, 8);
    return heat_encode(&cells, r->out, 9, e);
}

static bool put_labels(struct read *r, err *e)
{
    const Flametree__V1__WantLabels *want = r->ask->labels;
    struct label_sets sets;
    str *names = NULL;
    if (want->names_only) {
        if (!head_label_names(r->in->head, r->req, &r->query, &sets, e)) return false;
        label_sets_encode_names(&sets, r->out, 6);
        return true;
    }
    if (!read_names(&r->req->arena, want->names, want->n_names, &names, e)) return false;
    struct head_labels_want w = {names, want->n_names};
    if (!head_labels(r->in->head, r->req, &r->query, &w, &sets, e)) return false;
    label_sets_encode(&sets, r->out, 5);
    return true;
}

static bool put_stats(struct read *r, err *e)
{
    struct inventory there;
    bool with_sizes = r->ask->stats->sizes;
    if (!head_stat(r->in->head, r->req, &r->query, with_sizes, &there, e)) return false;
    inventory_encode(&there, r->out, 7);
    return true;
}

static bool put_partial(struct read *r, err *e)
{
    size_t mark = pb_begin(r->out, 4);
    if (r->ask->tree && !put_tree(r, e)) return false;
    if (r->ask->totals && !put_totals(r, e)) return false;
    if (r->ask->labels && !put_labels(r, e)) return false;
    if (r->ask->stats && !put_stats(r, e)) return false;
    if (r->ask->heat && !put_heat(r, e)) return false;
    // The head cannot fail at the row where the list of loose rows became full; it is asked here.
    if (r->met.fault.code != ERR_OK) {
        *e = r->met.fault;
        return false;
    }
    if (r->met.n) {
        size_t keys = pb_begin(r->out, 15);
        loose_encode(&r->met, 0, r->out);
        pb_end(r->out, keys);
    }
    placings_put(&r->placings, 17, r->out);
    pb_end(r->out, mark);
    return true;
}

// ---- the answer around it

static void put_stream(struct buf *out, uint32_t field, const struct wal_stream *s,
                       const char *owner)
{
    size_t mark = pb_begin(out, field);
    pb_put_bytes(out, 1, str_make(s->id.b, sizeof s->id.b));
    pb_put_bytes_opt(out, 2, str_of(owner));
    pb_put_bytes_opt(out, 4, str_of(s->state));
    pb_put_u64_opt(out, 5, s->highest_seq);
    pb_end(out, mark);
}

// Rows that other ingesters may have too. If the request has lists, these say which ones count
// here. Without lists all of them count, and the answer names them, so that the querier can ask
// again.
static bool read_loose(struct read *r, const struct wal_stream *own, err *e)
{
    struct arena *a = &r->req->arena;
    size_t n = r->ask->n_loose;
    loose_release(&r->listed);
    loose_release(&r->met);
    r->query.listed = NULL;
    r->query.met = NULL;
    r->placings = (struct placings){0};
    r->query.placings = &r->placings;
    r->query.identified = r->ask->identified;
    loose_init(&r->listed, a, &r->budget, SIZE_MAX);
    loose_init(&r->met, a, &r->budget, SIZE_MAX);
    if (n == 0) {
        r->query.met = &r->met;
        return true;
    }
    r->query.listed = &r->listed;
    for (size_t i = 0; i < n; i++) {
        const Flametree__V1__LooseRows *rows = r->ask->loose[i];
        // Lists of other streams say which rows count there, and so do not count here.
        bool mine = own && rows->stream.len == sizeof own->id.b &&
                    memcmp(rows->stream.data, own->id.b, sizeof own->id.b) == 0;
        str keys = str_make(rows->keys.data, rows->keys.len);
        if (!loose_decode(&r->listed, keys, mine ? LOOSE_MINE : 0, e)) return false;
    }
    return true;
}

// The stream that the answer is for: the open one, or the last one while the log is being opened.
static bool put_own_stream(struct read *r, err *e)
{
    size_t n = wal_streams(r->in->wal, NULL, 0);
    struct wal_stream *v = ARENA_ARRAY(&r->req->arena, struct wal_stream, n + 1);
    if (!v) return arena_fail(&r->req->arena, e);
    // The newest stream comes last. One that begins between the two calls is not named: its rows
    // come too late for this answer anyway.
    n = MIN(n, wal_streams(r->in->wal, v, n));
    if (n == 0) return read_loose(r, NULL, e);
    // Under one name while streams come and go: rounds of one query refer to it.
    id128 begun = wal_begun(r->in->wal);
    if (!id128_eq(begun, (id128){0})) v[n - 1].id = begun;
    put_stream(r->out, 1, &v[n - 1], r->in->process->id);
    return read_loose(r, &v[n - 1], e);
}

static bool put_cuts(struct read *r, err *e)
{
    struct wal_ref *refs = NULL;
    size_t n = 0;
    if (r->query.to_ns <= r->query.from_ns) return true;  // an empty range has no hours
    // Slots are (a, b], so the hour of a nanosecond after `from` is the first that can have rows.
    if (!wal_refs(r->in->wal, &r->req->arena, slot_of(r->query.from_ns + 1, SLOT_HOUR),
                  slot_of(r->query.to_ns, SLOT_HOUR), &refs, &n, e)) {
        return false;
    }
    assert(n == 0 || refs);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (refs[i].adopted == r->query.adopted) refs[kept++] = refs[i];
    n = kept;
    if (r->in->flush) {
        flush_names(r->in->flush, r->query.tenants, r->query.tenant_count, refs, &n);
        if (!flush_sure(r->in->flush, r->query.tenants, r->query.tenant_count, refs, n, e)) {
            return false;
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t mark = pb_begin(r->out, 3);
        pb_put_bytes(r->out, 1, str_make(refs[i].stream.b, sizeof refs[i].stream.b));
        pb_put_u64_opt(r->out, 2, refs[i].cut);
        pb_put_u64_opt(r->out, 3, refs[i].first_part);
        pb_put_i64_opt(r->out, 4, refs[i].hour);
        pb_end(r->out, mark);
    }
    return true;
}

// Names the streams that lack acknowledged entries. The rest of their entries is in the answer, or
// in the store.
static void put_damaged(struct read *r)
{
    id128 streams[WAL_DAMAGED_MAX];
    size_t n = wal_damaged(r->in->wal, streams);
    for (size_t i = 0; i < n; i++) {
        assert(n <= WAL_DAMAGED_MAX);
        struct wal_stream s = {.id = streams[i], .state = "unchecked"};
        put_stream(r->out, 2, &s, r->in->process->id);
    }
}

static void put_served(struct buf *out, id128 stream, int64_t oldest_ns)
{
    size_t mark = pb_begin(out, 19);
    pb_put_bytes(out, 1, str_make(stream.b, sizeof stream.b));
    pb_put_fixed64_opt(out, 2, (uint64_t)oldest_ns);
    pb_end(out, mark);
}

// The streams as wal_serves has them, without those for which there is no memory at this moment.
static bool list_served(struct read *r, struct wal_served **v, size_t *n, err *e)
{
    size_t cap = wal_serves(r->in->wal, NULL, 0) + 2;
    *v = ARENA_ARRAY(&r->req->arena, struct wal_served, cap);
    if (!*v) return arena_fail(&r->req->arena, e);
    *n = wal_serves(r->in->wal, *v, cap);
    // More than two at once: the querier waits and asks again.
    if (*n > cap) *n = 0;
    return true;
}

// An adopted stream is served only if it has an answer here: it may have come since.
static bool is_answered(const struct read *r, const struct wal_served *s)
{
    bool is = s->adopted == 0;
    for (size_t i = 0; i < r->adopted_count && !is; i++)
        is = r->adopted[i].adopted == s->adopted;
    return is;
}

// Names the streams of which nothing is missing in the answer: those of the log, the next one, and
// those that have ended and are still registered, which have nothing that is not in segments.
static bool put_serves(struct read *r, err *e)
{
    struct arena *a = &r->req->arena;
    struct wal_served *v = NULL;
    size_t n = 0;
    if (!list_served(r, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++)
        if (is_answered(r, &v[i])) put_served(r->out, v[i].stream, v[i].oldest_ns);
    id128 *ids = NULL;
    size_t count = 0;
    if (!r->in->roll) return true;
    if (!roll_ids(r->in->roll, a, &ids, &count, e)) return false;
    for (size_t i = 0; i < count; i++) {
        bool named = false;
        for (size_t k = 0; k < n && !named; k++)
            named = id128_eq(v[k].stream, ids[i]);
        if (!named) put_served(r->out, ids[i], 0);
    }
    return true;
}

static bool put_members(struct read *r, err *e)
{
    size_t n = 0;
    struct arena *a = &r->req->arena;
    const struct process *process = r->in->process;
    const struct member *v = NULL;
    pb_put_bytes_opt(r->out, 14, str_of(process->id));
    if (process->members) v = members_of(process->members, a, MEMBER_INGESTER, &n);
    // If the querier has the same list of members, the names need not be sent.
    if (n && r->ask->members_print == members_print(v, n)) n = 0;
    for (size_t i = 0; i < n; i++)
        pb_put_bytes(r->out, 15, v[i].id);
    pb_put_u64_opt(r->out, 16, process->store != NULL);
    if (process->identity && node_knows(process->identity->directory)) {
        const id128 *directory = &process->identity->directory;
        pb_put_bytes(r->out, 18, str_make(directory->b, sizeof directory->b));
    }
    streams_put(r->in->streams, a, &r->query, r->out);
    return arena_ok(a, e);
}

static bool read_refresh(struct read *r, err *e)
{
    size_t n = r->ask->n_refresh;
    if (n == 0 || !r->in->flush) return true;
    struct wal_ref *refs = ARENA_ARRAY(&r->req->arena, struct wal_ref, n);
    if (!refs) return arena_fail(&r->req->arena, e);
    for (size_t i = 0; i < n; i++) {
        const Flametree__V1__CutRef *ref = r->ask->refresh[i];
        if (ref->stream.len != sizeof refs[i].stream.b) {
            return err_set(e, ERR_INVALID_ARGUMENT, "stream of refresh %zu has %zu bytes, not 16",
                           i, ref->stream.len);
        }
        refs[i] = (struct wal_ref){.cut = ref->cut, .hour = ref->hour};
        memcpy(refs[i].stream.b, ref->stream.data, sizeof refs[i].stream.b);
    }
    return flush_refresh(r->in->flush, r->req, r->query.tenants, r->query.tenant_count, refs, n, e);
}

static bool is_damaged(const struct read *r, id128 stream)
{
    id128 v[WAL_DAMAGED_MAX];
    size_t n = wal_damaged(r->in->wal, v);
    bool is = false;
    for (size_t i = 0; i < n && !is; i++)
        is = id128_eq(v[i], stream);
    return is;
}

static bool find_adopted(struct read *r, err *e)
{
    size_t n = 0;
    if (!list_served(r, &r->adopted, &n, e)) return false;
    for (size_t i = 0; i < n; i++)
        if (r->adopted[i].adopted) r->adopted[r->adopted_count++] = r->adopted[i];
    return true;
}

// The answer of one adopted stream.
static bool put_adopted(struct read *r, const struct wal_served *s, err *e)
{
    const struct wal_stream info = {.id = s->stream, .state = "adopted"};
    size_t mark = pb_begin(r->out, 1);
    r->query.adopted = s->adopted;
    put_stream(r->out, 1, &info, r->in->process->id);
    pb_put_u64_opt(r->out, 2, !is_damaged(r, s->stream));
    bool ok = read_loose(r, &info, e) && put_partial(r, e) && put_cuts(r, e);
    r->query.adopted = 0;
    pb_end(r->out, mark);
    return ok;
}

// Cuts are named after their rows were added up. Rows that come meanwhile may be in the answer or
// not, but no row is in it whose cut is not named: the querier takes cuts without a name from
// segments, and would count such a row twice.
static bool answer(struct read *r, err *e)
{
    size_t mark = pb_begin(r->out, 1);
    head_pin(r->in->head);
    // From here to the unpin no cut is dropped or revealed, so a cut's rows are in this answer or
    // were gone before.
    bool ok = find_adopted(r, e) && put_own_stream(r, e);
    pb_put_u64(r->out, 2, 1);
    ok = ok && put_partial(r, e) && put_cuts(r, e);
    pb_end(r->out, mark);
    for (size_t i = 0; ok && i < r->adopted_count; i++)
        ok = put_adopted(r, &r->adopted[i], e);
    head_unpin(r->in->head);
    // Outside the pin, which must be short: readers hold up the drop of flushed rows.
    put_damaged(r);
    return ok && put_serves(r, e) && put_members(r, e) && buf_ok(r->out, e);
}

bool read_run(struct ingester *in, struct req *req, str message, struct buf *out, err *e)
{
    struct read r = {.in = in, .req = req, .out = out};
    uint64_t began = clock_mono_ns();
    FAULT("read.before");
    mem_budget_init(&r.budget, "ingester.query_memory", in->process->memory,
                    ingester_settings(in)->query_memory);
    r.query.memory = &r.budget;
    bool ok = ingester_answers(in, e) && read_request(&r, message, e) && read_refresh(&r, e) &&
              answer(&r, e);
    // Before the assertion: they count against the budget. Both tolerate never having begun.
    loose_release(&r.listed);
    loose_release(&r.met);
    assert(atomic_load(&r.budget.used) == 0);
    metric_observe_ns(&ingester_read_seconds, clock_mono_ns() - began);
    return ok;
}

bool ingester_head_read(void *service, struct http_exchange *x, str in, struct buf *out, err *e)
{
    return read_run(service, &x->req, in, out, e);
}

bool ingester_streams(void *service, struct http_exchange *x, str message, struct buf *out, err *e)
{
    (void)message;
    struct ingester *in = service;
    size_t n = wal_streams(in->wal, NULL, 0);
    struct wal_stream *v = ARENA_ARRAY(&x->req.arena, struct wal_stream, n + 1);
    if (!v) return arena_fail(&x->req.arena, e);
    n = MIN(n, wal_streams(in->wal, v, n));
    for (size_t i = 0; i < n; i++)
        put_stream(out, 1, &v[i], in->process->id);
    adopt_put(in->adopt, out);
    id128 *had = NULL;
    if (!wal_all_streams(in->wal, &x->req.arena, &had, &n, e)) return false;
    for (size_t i = 0; i < n; i++)
        pb_put_bytes(out, 3, str_make(had[i].b, sizeof had[i].b));
    return buf_ok(out, e);
}
