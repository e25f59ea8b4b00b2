// SPDX-License-Identifier: Apache-2.0
//
// A question to all ingesters at once, and the choice among their replies. Messages are read with
// pb_reader, field by field, so that partial answers of megabytes are borrowed and not copied;
// field numbers are those of HeadReadRequest and HeadReadResponse in internal.proto.
#include "querier/head/fetch.h"

#include "base/ulid.h"
#include "cluster/probe.h"
#include "codec/pb.h"
#include "querier/config.h"
#include "querier/head/streams.h"
#include "querier/metrics.h"
#include "rpc/peer.h"
#include "sys/clock.h"

#include <stdlib.h>

#define HEAD_READ "/flametree.v1.IngesterService/HeadRead"

// The time of a node that no list has, once a query has waited for it in vain.
#define UNLISTED_NS ((uint64_t)250 * NS_PER_MS)

// ---- network

struct peer_set {
    struct peer_call *calls;
    size_t n;
};

// Gives up calls to ingesters that have been silent for too long, while others are waited for.
struct patience {
    struct members *known;
    const struct member *members;
    size_t listed;  // the first are in the list of members, which probes look after
    const struct stream_node *unlisted;  // the others
    struct peer_call *calls;
    bool *silent;  // the call was given up: neither it nor a probe was answered for limit_ns
    size_t n;
    uint64_t began_mono_ns;
    uint64_t limit_ns;
};

// Nobody probes a node that is in no list, so its silence says little, and it has less time.
static bool has_waited(const struct patience *p, size_t unlisted)
{
    uint64_t limit = p->unlisted[unlisted].waited ? UNLISTED_NS : p->limit_ns;
    return clock_mono_ns() - p->began_mono_ns > limit;
}

static void give_up_silent(void *arg)
{
    const struct patience *p = arg;
    for (size_t i = 0; i < p->n; i++) {
        struct call *c = &p->calls[i].http.call;
        if (p->silent[i] || call_is_over(c)) continue;
        // A slow ingester answers probes, so it is not silent: its answer is waited for.
        p->silent[i] = i < p->listed
                           ? members_is_silent(p->known, MEMBER_INGESTER, p->members[i].id,
                                               p->began_mono_ns, p->limit_ns)
                           : has_waited(p, i - p->listed);
        if (p->silent[i]) call_stop(c);
    }
}

static void release_calls(void *arg)
{
    struct peer_set *set = arg;
    for (size_t i = 0; i < set->n; i++)
        peer_release(&set->calls[i]);
}

static const err *keep_fault(struct arena *a, const err *fault)
{
    static const err no_memory = {ERR_RESOURCE_EXHAUSTED, "no memory for the reason"};
    err *copy = ARENA_NEW(a, err);
    if (!copy) return &no_memory;
    *copy = *fault;
    return copy;
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

static bool has_text(const str *v, size_t n, str text)
{
    return n && bsearch(&text, v, n, sizeof text, by_text);
}

static bool is_among(const struct member *v, size_t n, const struct stream_node *node)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(v[i].address, node->address)) return true;
    return false;
}

// Is there another process of this id than the one that answered at its address in the list? A pod
// that starts again has registered itself long before the others have its new address of the DNS,
// or take it for dead at its former one. Only the newest process of an id is of interest: what
// others had is served by whoever took it over.
static bool is_successor(const struct member *listed, size_t n, const struct stream_node *nodes,
                         size_t i)
{
    static const id128 none = {{0}};
    for (size_t k = 0; k < i; k++)
        if (str_eq(nodes[k].node, nodes[i].node)) return false;
    for (size_t k = 0; k < n; k++) {
        if (!str_eq(listed[k].id, nodes[i].node)) continue;
        return !id128_eq(listed[k].boot, none) && !id128_eq(listed[k].boot, nodes[i].boot);
    }
    return false;
}

// Appends the nodes that are registered and not in the list, by id or address; *unlisted are the
// same ones. A node of the list that lives is asked there, unless it is another process by now.
static struct member *add_unlisted(const struct fetch_transport *t, struct arena *a,
                                   const struct member *listed, size_t *n,
                                   struct stream_node **unlisted, err *e)
{
    struct stream_node *nodes = NULL;
    size_t count = 0;
    size_t kept = 0;
    if (t->streams && !streams_nodes(t->streams, a, &nodes, &count, e)) return NULL;
    struct member *v = ARENA_ARRAY(a, struct member, *n + count + 1);
    // Addresses and ids of the list, sorted: mostly all nodes are in it.
    str *known = ARENA_ARRAY(a, str, 2 * *n + 1);
    struct stream_node *added = ARENA_ARRAY(a, struct stream_node, count + 1);
    *unlisted = added;
    if (!v || !known || !added) {
        (void)arena_fail(a, e);
        return NULL;
    }
    if (*n) memcpy(v, listed, *n * sizeof *v);
    size_t texts = 0;
    for (size_t i = 0; i < *n; i++) {
        known[texts++] = v[i].address;
        // A node of the list that seems dead may have another address now.
        if (v[i].alive) known[texts++] = v[i].id;
    }
    qsort(known, texts, sizeof *known, by_text);
    for (size_t i = 0; i < count; i++) {
        // A path through this process' own descriptors leads elsewhere in another process.
        if (str_starts(nodes[i].address, S("unix:/proc/self/"))) continue;
        if (has_text(known, texts, nodes[i].address)) continue;
        if (has_text(known, texts, nodes[i].node) && !is_successor(listed, *n, nodes, i)) continue;
        if (is_among(v + *n, kept, &nodes[i])) continue;
        v[*n + kept] = (struct member){.id = nodes[i].node,
                                       .address = nodes[i].address,
                                       .kind = MEMBER_INGESTER};
        added[kept++] = nodes[i];
    }
    *n += kept;
    return v;
}

// The message, with the print of this process' list.
static bool add_print(struct arena *a, const struct member *v, size_t n, str *message, err *e)
{
    struct buf out;
    buf_init(&out, a->budget, SIZE_MAX / 2);
    buf_str(&out, *message);
    pb_put_fixed64_opt(&out, 16, n ? members_print(v, n) : 0);
    str whole = arena_str(a, buf_view(&out));
    bool ok = buf_ok(&out, e) && arena_ok(a, e);
    if (ok) *message = whole;
    buf_release(&out);
    return ok;
}

bool fetch_peers(const void *transport, struct req *r, str tenant, str message,
                 struct head_replies *out, err *e)
{
    const struct fetch_transport *t = transport;
    const struct querier_config *config = config_section(t->config, "querier");
    size_t n = 0;
    struct stream_node *unlisted = NULL;
    const struct member *members = members_of(t->members, &r->arena, MEMBER_INGESTER, &n);
    if (!arena_ok(&r->arena, e)) return false;
    size_t listed = n;
    members = add_unlisted(t, &r->arena, members, &n, &unlisted, e);
    if (!members) return false;
    if (n == 0) return err_set(e, ERR_UNAVAILABLE, "no ingester is known");
    if (!add_print(&r->arena, members, listed, &message, e)) return false;

    // The arena releases the calls, whichever way this function is left: replies borrow their bytes
    // until the request ends.
    struct peer_set *set = ARENA_NEW(&r->arena, struct peer_set);
    struct peer_call *calls = ARENA_ARRAY(&r->arena, struct peer_call, n);
    struct call **waits = ARENA_ARRAY(&r->arena, struct call *, n);
    struct head_reply *replies = ARENA_ARRAY(&r->arena, struct head_reply, n);
    struct patience p = {.known = t->members,
                         .members = members,
                         .listed = listed,
                         .unlisted = unlisted,
                         .calls = calls,
                         .silent = ARENA_ARRAY(&r->arena, bool, n),
                         .n = n,
                         .began_mono_ns = clock_mono_ns(),
                         .limit_ns = (uint64_t)config->wait_for_ingesters};
    const struct call_watch watch = {.look = give_up_silent, .arg = &p};
    // Hooked before any call is started: after that nothing here may fail.
    if (!set || !arena_defer(&r->arena, release_calls, set)) return arena_fail(&r->arena, e);
    if (!arena_ok(&r->arena, e)) return false;

    // The internal header carries one tenant, taken from the request when a call starts.
    str all_tenants = r->tenant;
    r->tenant = tenant;
    for (size_t i = 0; i < n; i++) {
        peer_start(t->client, r, &calls[i], members[i].address, HEAD_READ, message, RANK_INGESTER,
                   config->fetch_max);
        waits[i] = &calls[i].http.call;
    }
    r->tenant = all_tenants;
    *set = (struct peer_set){calls, n};  // only now: a call that was not started has no release
    // Failures are looked at one by one below, so the first is not asked for.
    err first = {0};
    (void)!call_gather_watched(r, waits, n, 0, false, &watch, &first);

    for (size_t i = 0; i < n; i++) {
        err fault = {0};
        replies[i].member = members[i].id;
        replies[i].address = members[i].address;
        replies[i].unlisted = i >= listed;
        replies[i].alone = str_starts(members[i].address, S("unix:"));
        bool ok = peer_answer(&calls[i], &replies[i].bytes, &fault);
        members_note_call(t->members, MEMBER_INGESTER, members[i].id, &calls[i], &fault);
        if (!ok) {
            if (p.silent[i])
                err_set(&fault, ERR_UNAVAILABLE,
                        "it is silent: neither this nor probes were answered");
            replies[i].fault = keep_fault(&r->arena, &fault);
            // One that ends or starts refuses all; if it has rows its streams are registered.
            replies[i].away = !calls[i].http.call.ok || fault.code == ERR_UNAVAILABLE;
            if (i < listed) metric_add(&querier_ingester_failures, 1);
        }
    }
    *out = (struct head_replies){.v = replies, .n = n};
    return true;
}

// ---- which answers count

struct stream_row {
    id128 stream;
    str owner;   // id of the node whose stream it is
    str member;  // whose reply has it
    str partial;
    str bytes;      // of the answer
    size_t reply;   // its number
    bool answered;  // false: only held
    bool complete;
};

struct stream_rows {
    struct stream_row *v;
    size_t n;
    size_t cap;
};

struct texts {
    str *v;
    size_t n;
    size_t cap;
};

// The node behind a reply.
struct speaker {
    str node;   // its own id
    id128 own;  // the stream that it has open
    bool has_own;
    struct texts known;  // ids of ingesters that it was told of
    id128 directory;
    bool stores;
    id128 *served;  // streams and directories that it speaks for
    size_t served_count;
    size_t served_cap;
    struct texts lost;  // data directories that it says are gone
};

// Fields of other numbers or types are passed over: a newer ingester may send them.
static bool read_stream_info(str bytes, struct stream_row *row, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type != PB_BYTES) continue;
        if (r.field == 1 && r.bytes.n == sizeof row->stream.b) {
            memcpy(row->stream.b, r.bytes.p, r.bytes.n);
        }
        if (r.field == 2) row->owner = r.bytes;
    }
    return pb_done(&r, e);
}

static bool read_stream_answer(str bytes, struct stream_row *row, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES && !read_stream_info(r.bytes, row, e)) return false;
        if (r.field == 2 && r.type == PB_VARINT) row->complete = r.number != 0;
        if (r.field == 4 && r.type == PB_BYTES) row->partial = r.bytes;
    }
    return pb_done(&r, e);
}

static bool add_served(struct arena *a, str id, struct speaker *out, err *e)
{
    if (id.n != sizeof(id128)) return true;
    if (!arena_grow(a, &out->served, &out->served_cap, out->served_count + 1, sizeof(id128)))
        return arena_fail(a, e);
    memcpy(out->served[out->served_count++].b, id.p, sizeof(id128));
    return true;
}

static bool add_text(struct arena *a, str text, struct texts *to, err *e)
{
    if (!arena_grow(a, &to->v, &to->cap, to->n + 1, sizeof *to->v)) return arena_fail(a, e);
    to->v[to->n++] = text;
    return true;
}

static bool read_served(struct arena *a, str bytes, struct speaker *out, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES && !add_served(a, r.bytes, out, e)) return false;
    }
    return pb_done(&r, e);
}

// The node behind a reply: its id and data directory, the ingesters that it knows, the streams that
// it speaks for, whether it writes to a store, the data directories that it misses.
static bool read_node(struct arena *a, str bytes, struct speaker *out, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 16 && r.type == PB_VARINT) out->stores = r.number != 0;
        if (r.type != PB_BYTES) continue;
        if (r.field == 14) out->node = r.bytes;
        if (r.field == 18 && r.bytes.n == sizeof out->directory.b)
            memcpy(out->directory.b, r.bytes.p, r.bytes.n);
        if (r.field == 19 && !read_served(a, r.bytes, out, e)) return false;
        if (r.field == 20 && !add_served(a, r.bytes, out, e)) return false;
        if (r.field == 17 && !add_text(a, r.bytes, &out->lost, e)) return false;
        if (r.field == 15 && !add_text(a, r.bytes, &out->known, e)) return false;
    }
    return pb_done(&r, e);
}

static bool read_reply(struct arena *a, const struct head_replies *replies, size_t i,
                       struct stream_rows *rows, err *e)
{
    const struct head_reply *reply = &replies->v[i];
    struct pb_reader r = pb_reader(reply->bytes);
    while (pb_next(&r)) {
        if (r.type != PB_BYTES || (r.field != 1 && r.field != 2)) continue;
        if (!arena_grow(a, &rows->v, &rows->cap, rows->n + 1, sizeof *rows->v)) {
            return arena_fail(a, e);
        }
        struct stream_row *row = &rows->v[rows->n++];
        *row = (struct stream_row){.member = reply->member,
                                   .bytes = r.bytes,
                                   .reply = i,
                                   .answered = r.field == 1};
        if (r.field == 1 ? !read_stream_answer(r.bytes, row, e)
                         : !read_stream_info(r.bytes, row, e)) {
            return false;
        }
    }
    return pb_done(&r, e);
}

// The better answer of a stream comes first: of those that have its rows a complete one, then that
// of its owner, which has the newest rows; then by name, so that the choice is the same each time.
static int by_stream_and_worth(const void *a, const void *b)
{
    const struct stream_row *x = a;
    const struct stream_row *y = b;
    int streams = memcmp(x->stream.b, y->stream.b, sizeof x->stream.b);
    if (streams) return streams;
    if (x->answered != y->answered) return x->answered ? -1 : 1;
    if (x->complete != y->complete) return x->complete ? -1 : 1;
    bool own_x = str_eq(x->owner, x->member);
    bool own_y = str_eq(y->owner, y->member);
    if (own_x != own_y) return own_x ? -1 : 1;
    return str_cmp(x->member, y->member);
}

static bool read_cut(str bytes, struct fetched_cut *cut, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES && r.bytes.n == sizeof cut->stream.b) {
            memcpy(cut->stream.b, r.bytes.p, r.bytes.n);
        }
        if (r.type != PB_VARINT) continue;
        if (r.field == 2) cut->cut = r.number;
        if (r.field == 3) cut->first_part = (uint32_t)r.number;
        if (r.field == 4) cut->hour = (int64_t)r.number;
    }
    return pb_done(&r, e);
}

static bool add_cuts(struct arena *a, str answer, struct fetched *f, err *e)
{
    struct pb_reader r = pb_reader(answer);
    while (pb_next(&r)) {
        if (r.field != 3 || r.type != PB_BYTES) continue;
        if (!arena_grow(a, &f->cuts, &f->cut_cap, f->cut_count + 1, sizeof *f->cuts)) {
            return arena_fail(a, e);
        }
        struct fetched_cut *cut = &f->cuts[f->cut_count++];
        *cut = (struct fetched_cut){.partial = f->partial_count};
        if (!read_cut(r.bytes, cut, e)) return false;
    }
    return pb_done(&r, e);
}

// Takes the best answer of a stream, even an incomplete one, of a log that is damaged: then the
// stream is named, and the answer shows what there is.
static bool choose_stream(struct arena *a, const struct stream_row *best, struct fetched *f, err *e)
{
    // streams[i] is the stream of partials[i], so both get room before either gets a row.
    if (best->answered) {
        if (!arena_grow(a, &f->partials, &f->partial_cap, f->partial_count + 1,
                        sizeof *f->partials)) {
            return arena_fail(a, e);
        }
        if (!arena_grow(a, &f->streams, &f->stream_cap, f->partial_count + 1, sizeof *f->streams)) {
            return arena_fail(a, e);
        }
        if (!add_cuts(a, best->bytes, f, e)) return false;
        f->streams[f->partial_count] = best->stream;
        f->partials[f->partial_count++] = best->partial;
        if (best->complete) return true;
    }
    if (fetch_lacks(f, best->owner)) return true;  // the owner did not answer, and is named already
    err why = {0};
    err_set(&why, ERR_UNAVAILABLE,
            best->answered ? "ingester %.*s has not recovered it yet"
                           : "held by ingester %.*s, answered by nobody",
            STR(best->member));
    return fetch_mark(a, f, fetch_stream_name(a, best->stream), &why, e);
}

// ---- member lists that differ

// The open stream of a reply.
struct open_stream {
    id128 stream;
    size_t reply;
};

static int by_open_stream(const void *a, const void *b)
{
    const struct open_stream *x = a;
    const struct open_stream *y = b;
    int order = memcmp(x->stream.b, y->stream.b, sizeof x->stream.b);
    return order ? order : (x->reply > y->reply) - (x->reply < y->reply);
}

// Two members whose replies have the same open stream are one ingester under two names. So some
// ingester was not asked: the one that should be behind the second name.
static bool check_twins(struct arena *a, const struct head_replies *replies,
                        const struct speaker *speakers, struct fetched *f, err *e)
{
    struct open_stream *v = ARENA_ARRAY(a, struct open_stream, replies->n + 1);
    size_t n = 0;
    size_t first = 0;
    if (!v) return arena_fail(a, e);
    for (size_t i = 0; i < replies->n; i++) {
        // One node may answer at an old and a new address: nobody else is behind that.
        if (!speakers[i].has_own || replies->v[i].unlisted) continue;
        v[n++] = (struct open_stream){speakers[i].own, i};
    }
    qsort(v, n, sizeof *v, by_open_stream);
    for (size_t i = 1; i < n; i++) {
        err why = {0};
        if (!id128_eq(v[i].stream, v[first].stream)) {
            first = i;
            continue;
        }
        err_set(&why, ERR_UNAVAILABLE,
                "at its address in cluster.ingesters answers %.*s, as at that of %.*s",
                STR(speakers[v[i].reply].node), STR(replies->v[v[first].reply].member));
        if (!fetch_miss(a, f, replies->v[v[i].reply].member, &why, e)) return false;
    }
    return true;
}

// `asked` has the n members that were asked, sorted.
static bool check_known(struct arena *a, const str *asked, size_t n, const struct speaker *s,
                        struct fetched *f, err *e)
{
    for (size_t i = 0; i < s->known.n; i++) {
        if (has_text(asked, n, s->known.v[i])) continue;
        err why = {0};
        err_set(&why, ERR_UNAVAILABLE,
                "%.*s knows it, but it is not in this querier's cluster.ingesters", STR(s->node));
        if (!fetch_miss(a, f, s->known.v[i], &why, e)) return false;
    }
    return true;
}

// The stream that the node has open itself: the first that it answered for as its owner.
static void find_own(struct speaker *s, const struct stream_rows *rows, size_t from)
{
    assert(from <= rows->n && !s->has_own);
    for (size_t i = from; i < rows->n && !s->has_own; i++) {
        const struct stream_row *row = &rows->v[i];
        s->has_own = row->answered && s->node.n && str_eq(row->owner, s->node);
        if (s->has_own) s->own = row->stream;
    }
}

// Whoever is in no list may be gone for good: then its streams are missed, or nothing. The same of
// a member that is away or starts, where the streams are known: it acknowledges nothing in a stream
// that is not in a list of a second ago, unless it is alone (ingester.stream_settle). An error that
// tells the client something is told.
static bool take_fault(struct arena *a, bool registered, const struct head_reply *reply,
                       struct fetched *out, err *e)
{
    if (reply->unlisted) return true;
    if (!registered || reply->alone || !reply->away)
        return fetch_miss(a, out, reply->member, reply->fault, e);
    out->away[out->away_count++] =
        (struct fetched_away){reply->member, reply->address, reply->fault};
    return true;
}

// Adds the rows of reply i; a reply that cannot be read is a member missed.
static bool take_reply(struct arena *a, const struct head_replies *replies, size_t i,
                       struct speaker *speaker, struct stream_rows *rows, struct fetched *out,
                       err *e)
{
    const struct head_reply *reply = &replies->v[i];
    size_t before = rows->n;
    err why = {0};
    out->bytes += reply->bytes.n;
    if (reply->fault) return take_fault(a, replies->registered, reply, out, e);
    if (read_reply(a, replies, i, rows, &why) && read_node(a, reply->bytes, speaker, &why)) {
        find_own(speaker, rows, before);
        out->stores |= speaker->stores;
        return true;
    }
    // Half a reply must not count: its streams are dropped, and the member is missing. That is a
    // fault of the node, not of the client who asked.
    rows->n = before;
    if (!arena_ok(a, e)) return false;
    why.code = ERR_INTERNAL;
    return fetch_miss(a, out, reply->member, &why, e);
}

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static bool gather_served(struct arena *a, const struct speaker *v, size_t n, struct fetched *out,
                          err *e)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += v[i].served_count;
    out->served_count = 0;
    out->served = ARENA_ARRAY(a, id128, count + 1);
    if (!out->served) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        if (v[i].served_count == 0) continue;
        memcpy(&out->served[out->served_count], v[i].served, v[i].served_count * sizeof(id128));
        out->served_count += v[i].served_count;
    }
    if (count) qsort(out->served, count, sizeof(id128), by_id);
    return true;
}

bool fetch_serves(const struct fetched *f, id128 id)
{
    return f->served_count && bsearch(&id, f->served, f->served_count, sizeof id, by_id) != NULL;
}

// ---- streams that were adopted

static bool names_cut_of(str answer, id128 stream)
{
    struct pb_reader r = pb_reader(answer);
    struct fetched_cut cut;
    err ignored = {0};  // such an answer has been read before
    while (pb_next(&r)) {
        cut = (struct fetched_cut){0};
        if (r.field != 3 || r.type != PB_BYTES || !read_cut(r.bytes, &cut, &ignored)) continue;
        if (id128_eq(cut.stream, stream)) return true;
    }
    return false;
}

static bool speaks_for(const struct speaker *s, id128 stream)
{
    for (size_t i = 0; i < s->served_count; i++)
        if (id128_eq(s->served[i], stream)) return true;
    return false;
}

// An answer for a stream that its ingester has adopted does not count if the owner is there after
// all: the answer for the owner's open stream has these rows as well, or they are in segments.
static bool is_needless(const struct stream_row *row, const struct stream_rows *rows,
                        const struct speaker *speakers, size_t n)
{
    if (!row->answered || id128_eq(row->stream, speakers[row->reply].own)) return false;
    for (size_t k = 0; k < n; k++) {
        bool adopts = false;
        bool has = speaks_for(&speakers[k], row->stream);
        for (size_t i = 0; i < rows->n; i++) {
            const struct stream_row *o = &rows->v[i];
            if (o->reply != k || !o->answered) continue;
            adopts |= id128_eq(o->stream, row->stream);
            has |= names_cut_of(o->bytes, row->stream);
        }
        if (has && !adopts) return true;
    }
    return false;
}

// Of each stream the best answer: it sorts first, the others do not count.
static bool choose_streams(struct arena *a, const struct stream_rows *rows,
                           const struct head_replies *replies, const struct speaker *speakers,
                           struct fetched *out, err *e)
{
    if (rows->n) qsort(rows->v, rows->n, sizeof *rows->v, by_stream_and_worth);
    for (size_t i = 0; i < rows->n; i++) {
        bool first = i == 0 || !id128_eq(rows->v[i].stream, rows->v[i - 1].stream);
        if (!first || is_needless(&rows->v[i], rows, speakers, replies->n)) continue;
        if (!choose_stream(a, &rows->v[i], out, e)) return false;
    }
    return true;
}

bool fetch_choose(struct arena *a, const struct head_replies *replies, struct fetched *out, err *e)
{
    static const err lost = {ERR_UNAVAILABLE,
                             "what was acknowledged there and not flushed is gone"};
    struct stream_rows rows = {0};
    struct speaker *speakers = ARENA_ARRAY(a, struct speaker, replies->n);
    out->nodes = ARENA_ARRAY(a, struct fetched_node, replies->n);
    out->node_count = 0;
    out->away = ARENA_ARRAY(a, struct fetched_away, replies->n);
    out->away_count = 0;
    str *asked = ARENA_ARRAY(a, str, replies->n + 1);
    if (!speakers || !out->nodes || !out->away || !asked) return arena_fail(a, e);
    for (size_t i = 0; i < replies->n; i++) {
        const struct speaker *s = &speakers[i];
        asked[i] = replies->v[i].member;
        if (!take_reply(a, replies, i, &speakers[i], &rows, out, e)) return false;
        if (s->node.n) out->nodes[out->node_count++] = (struct fetched_node){s->node, s->directory};
    }
    if (!check_twins(a, replies, speakers, out, e)) return false;
    if (!gather_served(a, speakers, replies->n, out, e)) return false;
    if (!choose_streams(a, &rows, replies, speakers, out, e)) return false;
    qsort(asked, replies->n, sizeof *asked, by_text);
    for (size_t i = 0; i < replies->n && !replies->registered; i++)
        if (!check_known(a, asked, replies->n, &speakers[i], out, e)) return false;
    for (size_t i = 0; i < replies->n; i++) {
        for (size_t k = 0; k < speakers[i].lost.n; k++) {
            if (!fetch_mark(a, out, speakers[i].lost.v[k], &lost, e)) return false;
        }
    }
    return true;
}

// ---- rows that may be elsewhere as well

bool fetch_loose(const struct fetched *f, size_t from, struct loose_set *out, err *e)
{
    for (size_t i = from; i < f->partial_count; i++) {
        struct pb_reader r = pb_reader(f->partials[i]);
        while (pb_next(&r)) {
            if (r.field != 15 || r.type != PB_BYTES) continue;
            if (!loose_decode(out, r.bytes, (uint32_t)(i - from), e)) return false;
        }
        if (!pb_done(&r, e)) return false;
    }
    return true;
}

bool fetch_placings(const struct fetched *f, size_t from, struct placings *out, err *e)
{
    for (size_t i = from; i < f->partial_count; i++) {
        struct pb_reader r = pb_reader(f->partials[i]);
        while (pb_next(&r)) {
            if (r.field == 17 && r.type == PB_BYTES && !placings_read(out, r.bytes, e))
                return false;
        }
        if (!pb_done(&r, e)) return false;
    }
    return true;
}

static void put_keys(id128 stream, const struct loose_set *s, uint32_t keeper, struct buf *out)
{
    size_t mark = pb_begin(out, 15);
    pb_put_bytes(out, 1, str_make(stream.b, sizeof stream.b));
    size_t keys = pb_begin(out, 2);
    loose_encode(s, keeper, out);
    pb_end(out, keys);
    pb_end(out, mark);
}

void fetch_put_loose(const id128 *keepers, size_t n, const struct loose_set *s, struct buf *out)
{
    // Rows that no head counts go under the stream of zeros, which no ingester has.
    static const id128 nobody;
    for (size_t i = 0; i < n; i++)
        put_keys(keepers[i], s, (uint32_t)i, out);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->v[i].keeper < n) continue;
        put_keys(nobody, s, s->v[i].keeper, out);
        return;
    }
}

void fetch_put_refresh(const struct fetched_cut *v, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t mark = pb_begin(out, 8);
        pb_put_bytes(out, 1, str_make(v[i].stream.b, sizeof v[i].stream.b));
        pb_put_u64_opt(out, 2, v[i].cut);
        pb_put_u64_opt(out, 3, v[i].first_part);
        pb_put_i64_opt(out, 4, v[i].hour);
        pb_end(out, mark);
    }
}

bool fetch_has_stream(const struct fetched *f, size_t from, id128 stream)
{
    for (size_t i = from; i < f->partial_count; i++)
        if (id128_eq(f->streams[i], stream)) return true;
    return false;
}
