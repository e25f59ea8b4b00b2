// SPDX-License-Identifier: Apache-2.0
//
// send_buffer.c - from one profile to records. send_buffer_add, for each group of a split profile:
//
//     1. Its owner and home are asked for, and a batch of that owner is found or made.
//     2. Its stacks become rows of the batch's symbol table, or of its lexicon.
//     3. Its samples are added up by stack, for all sample types at once (type_columns.h).
//     4. Sample types are taken by ascending total. One that is a multiple of an earlier one
//        becomes a factor; the others become vectors.
//     5. Each type becomes a record of the batch, with an id.
//
// Whether all sums fit is checked before 1, so that a profile is added as a whole or not at all. If
// memory runs out later, the send buffer is not sent.
#include "intake/send_buffer.h"

#include "base/hash.h"
#include "intake/text.h"
#include "intake/type_columns.h"
#include "model/vector.h"

#include <endian.h>
#include <stdlib.h>

// A batch that is larger gets no more records; another one of the same service follows. So
// messages between nodes do not grow with the largest push.
#define SEND_BATCH_BYTES_MAX  ((size_t)8 << 20)
#define SEND_BATCH_STACKS_MAX 1000000u

void send_buffer_init(struct send_buffer *o, struct arena *a, send_buffer_owner *owner,
                      void *owner_arg)
{
    *o = (struct send_buffer){.a = a, .owner = owner, .owner_arg = owner_arg};
}

// ---- batches

static void release_batch(void *arg)
{
    struct send_batch *p = arg;
    if (p->lexicon) lexicon_unref(p->lexicon);
    symbols_release(&p->symbols);
    map_release(&p->series);
}

// A new batch with a lexicon, or with a symbol table of its own. Takes l if it succeeds.
static struct send_batch *send_batch_new(struct send_buffer *o, str service, uint32_t owner,
                                         uint64_t hash, struct lexicon *l, err *e)
{
    assert(service.n > 0);  // with_service gave each label set one
    struct send_batch *p = ARENA_NEW(o->a, struct send_batch);
    if (!p || !arena_defer(o->a, release_batch, p) ||
        !arena_grow(o->a, &o->batches, &o->batch_cap, o->batch_count + 1, sizeof(void *))) {
        (void)!arena_ok(o->a, e);
        return NULL;
    }
    map_init(&p->series, o->a->budget);
    p->lexicon = l;
    if (!l && !symbols_init(&p->symbols, o->a->budget, e)) return NULL;
    // From here on nothing fails. Above, the arena's hook releases what is half made.
    p->owner = owner;
    p->labels_hash = hash;
    p->number = o->batch_count;
    p->batch.service = arena_str(o->a, service);
    o->batches[o->batch_count++] = p;
    return p;
}

struct send_batch_probe {
    const struct send_buffer *o;
    str service;
    uint32_t owner;
};

static bool same_batch(const void *ctx, uint32_t row)
{
    const struct send_batch_probe *probe = ctx;
    assert(row < probe->o->batch_count);
    const struct send_batch *p = probe->o->batches[row];
    return p->owner == probe->owner && str_eq(p->batch.service, probe->service);
}

static void release_index(void *arg)
{
    map_release(arg);
}

static bool index_init(struct send_buffer *o, err *e)
{
    if (o->by_owner) return true;
    struct map *m = ARENA_NEW(o->a, struct map);
    if (!m) return arena_fail(o->a, e);
    map_init(m, o->a->budget);
    if (!arena_defer(o->a, release_index, m)) return arena_fail(o->a, e);
    o->by_owner = m;
    return true;
}

// The newest batch of a service and owner if it has room, or a new one. Found by an index, because
// a request may name as many services as it has profiles. The index has the first batch, which
// knows the newest. `without`: one that has no lexicon, because the lexicon is full.
static struct send_batch *send_batch_of(struct send_buffer *o, str service, uint32_t owner,
                                        uint64_t sent, bool without, err *e)
{
    if (!index_init(o, e)) return NULL;
    uint64_t hash = hash_table_and(hash_table_str(service), owner);
    uint32_t row =
        map_find(o->by_owner, hash, same_batch, &(struct send_batch_probe){o, service, owner});
    struct send_batch *first = row == MAP_NONE ? NULL : o->batches[row];
    struct send_batch *p = first ? first->newest : NULL;
    if (p && p->bytes <= SEND_BATCH_BYTES_MAX &&
        p->symbols.t.stack_count <= SEND_BATCH_STACKS_MAX && !(without && p->lexicon)) {
        return p;
    }
    // A batch without a lexicon follows one whose lexicon is full: this profile's rows found no
    // room there. Batches behind it ask for a lexicon again, which is then another one.
    struct lexicon *l = o->lexicon && !without ? o->lexicon(o->owner_arg, service, owner) : NULL;
    p = send_batch_new(o, service, owner, sent, l, e);
    if (!p && l) lexicon_unref(l);
    if (!p) return NULL;
    if (first) {
        first->newest = p;
        return p;
    }
    p->newest = p;
    return map_put(o->by_owner, hash, (uint32_t)p->number, e) ? p : NULL;
}

struct series_probe {
    const struct batch *b;
    labels wanted;
};

static bool same_series(const void *ctx, uint32_t row)
{
    const struct series_probe *probe = ctx;
    assert(row < probe->b->series_count);
    return labels_eq(probe->b->series[row], probe->wanted);
}

static bool series_row(struct send_buffer *o, struct send_batch *p, labels ls, uint32_t *row,
                       err *e)
{
    struct batch *b = &p->batch;
    uint64_t hash = labels_hash(ls);
    *row = map_find(&p->series, hash, same_series, &(struct series_probe){b, ls});
    if (*row != MAP_NONE) return true;
    *row = b->series_count;
    if (!arena_grow(o->a, &b->series, &p->series_cap, (size_t)*row + 1, sizeof *b->series)) {
        return arena_fail(o->a, e);
    }
    // Copied: the label set is in the scratch arena of one profile, the batch lives until it is
    // sent.
    b->series[b->series_count++] = labels_copy(o->a, ls);
    return arena_ok(o->a, e) && map_put(&p->series, hash, *row, e);
}

// ---- one profile

struct packing {
    struct send_buffer *o;
    struct arena *scratch;
    const struct profile *p;
    const struct split *split;
    const struct send_buffer_source *from;
    uint32_t *types;  // order in which types are written: siblings after their base
    uint64_t body_hash;
    struct send_batch *batch;  // of the group at hand
    uint32_t home;
    struct stack_rows *to;
    struct buf vector;  // scratch
};

// 74 bits of a hash of the series, its labels as sent, the time as sent, the client's id and the
// body. The labels by which the sample types of a profile differ come last and by XOR: then ids of
// siblings differ by bits that depend only on their types, and a block keeps these bits once, not
// for each row.
static bool id_of(const struct packing *x, labels ls, id128 *id, err *e)
{
    static const str of_types[] = {S_INIT(LABEL_PROFILE_TYPE), S_INIT("__type__"),
                                   S_INIT("__unit__")};
    const struct send_buffer_source *f = x->from;
    label *v = ARENA_ARRAY(x->scratch, label, 2 * ls.n);
    if (!v) return arena_fail(x->scratch, e);
    labels type = {v, 0};
    labels rest = {v + ls.n, 0};
    for (size_t i = 0; i < ls.n; i++) {
        if (str_among(ls.v[i].name, of_types, COUNT(of_types)))
            v[type.n++] = ls.v[i];
        else
            v[ls.n + rest.n++] = ls.v[i];
    }
    // With a client's id a repeated upload must get the same id, so nothing of this request goes
    // in. Without one two equal uploads are two profiles, and the nonce keeps them apart.
    uint64_t nonce = f->client_id.n ? 0 : f->nonce;
    uint64_t number = f->client_id.n ? 0 : f->number;
    uint64_t words[] = {
        labels_fingerprint(rest), f->series, (uint64_t)f->time_ns, x->body_hash, nonce, number};
    struct hash_state h;
    hash_begin(&h);
    hash_add(&h, words, sizeof words);
    hash_add(&h, f->client_id.p, f->client_id.n);
    uint64_t first = hash_end(&h);
    // One hash has 64 bits and an id takes 74: the second is that of the same bytes and one more.
    hash_add(&h, "2", 1);
    uint64_t second = hash_end(&h);
    uint64_t of_type = labels_fingerprint(type);
    first ^= of_type;
    second ^= of_type << 32;
    // time_ns is the time that is stored, also where the agent sent none: ids are in its order.
    *id = uuid_profile((uint64_t)(x->p->time_ns / 1000000), first, second);
    return true;
}

static bool put_vector(struct packing *x, const struct type_columns *c, uint32_t type, str *out,
                       err *e)
{
    struct buf *b = &x->vector;
    assert(type < c->type_count);
    buf_clear(b);
    x->o->values += vector_encode_column(c->stacks, c->sums + type, c->type_count, c->count, b);
    if (!buf_ok(b, e)) return false;
    *out = arena_str(x->o->a, buf_view(b));
    // The arena has the only copy that lasts; x->vector is used again for the next one.
    x->batch->bytes += out->n;
    return arena_ok(x->o->a, e);
}

// ---- spans

struct span_sample {
    struct split_origin origin;
    uint32_t row;
};

// Eight bytes as a number; numbers are in the order of their bytes.
static uint64_t trace_word(const struct split_origin *o, size_t at)
{
    uint64_t word = 0;
    assert(at + sizeof word <= sizeof o->trace_id);
    memcpy(&word, o->trace_id + at, sizeof word);
    return be64toh(word);
}

static int by_origin(const void *one, const void *two)
{
    const struct span_sample *a = one;
    const struct span_sample *b = two;
    for (size_t i = 0; i < sizeof a->origin.trace_id; i += 8) {
        uint64_t x = trace_word(&a->origin, i);
        uint64_t y = trace_word(&b->origin, i);
        if (x != y) return x < y ? -1 : 1;
    }
    if (a->origin.has_trace != b->origin.has_trace) return a->origin.has_trace ? 1 : -1;
    if (a->origin.span_id != b->origin.span_id) {
        return a->origin.span_id < b->origin.span_id ? -1 : 1;
    }
    return a->row < b->row ? -1 : a->row > b->row;
}

static bool same_origin(const struct span_sample *a, const struct span_sample *b)
{
    return a->origin.span_id == b->origin.span_id && a->origin.has_trace == b->origin.has_trace &&
           memcmp(a->origin.trace_id, b->origin.trace_id, sizeof a->origin.trace_id) == 0;
}

struct spans {
    struct type_columns *columns;
    struct split_origin *origins;
    uint32_t count;
};

// The samples of a group that name a span or a trace, added up for each origin.
static bool collect_spans(struct packing *x, const struct split_group *g, struct spans *out, err *e)
{
    *out = (struct spans){0};
    if (!x->split->origins) return true;
    struct span_sample *v = ARENA_ARRAY(x->scratch, struct span_sample, g->row_count);
    uint32_t *rows = ARENA_ARRAY(x->scratch, uint32_t, g->row_count);
    if (!v || !rows) return arena_fail(x->scratch, e);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->row_count; i++) {
        const struct split_origin *o = &x->split->origins[g->rows[i]];
        if (o->span_id || o->has_trace) v[n++] = (struct span_sample){*o, g->rows[i]};
    }
    if (n == 0) return true;
    // Sorted, not hashed: the order of spans is then that of the profile's content, so that a
    // repeated upload makes the same bytes.
    qsort(v, n, sizeof *v, by_origin);
    struct type_columns_room room;
    if (!type_columns_room_init(&room, x->scratch, x->p->type_count, n, n, e)) return false;
    out->columns = ARENA_ARRAY(x->scratch, struct type_columns, n);
    out->origins = ARENA_ARRAY(x->scratch, struct split_origin, n);
    if (!out->columns || !out->origins) return arena_fail(x->scratch, e);
    for (uint32_t i = 0; i < n;) {
        uint32_t first = i;
        for (; i < n && same_origin(&v[first], &v[i]); i++) {
            rows[i] = v[i].row;
        }
        out->origins[out->count] = v[first].origin;
        struct type_columns *c = &out->columns[out->count++];
        assert(i > first && out->count <= n);
        if (!type_columns_make(c, &room, x->to, rows + first, i - first, e)) return false;
    }
    return true;
}

static bool put_spans(struct packing *x, const struct spans *s, uint32_t type, struct record *r,
                      err *e)
{
    if (s->count == 0) return true;
    r->spans = ARENA_ARRAY(x->o->a, struct span_part, s->count);
    if (!r->spans) return arena_fail(x->o->a, e);
    for (uint32_t i = 0; i < s->count; i++) {
        // A span need not have a value of each type: such a part would be an empty vector.
        if (type_columns_is_zero(&s->columns[i], type)) continue;
        assert(r->span_count < s->count);
        struct span_part *part = &r->spans[r->span_count++];
        part->span_id = s->origins[i].span_id;
        part->has_trace = s->origins[i].has_trace;
        memcpy(part->trace_id, s->origins[i].trace_id, sizeof part->trace_id);
        if (!put_vector(x, &s->columns[i], type, &part->vector, e)) return false;
    }
    return true;
}

// ---- records

struct type_total {
    int64_t total;
    uint32_t type;
};

static int by_total(const void *a, const void *b)
{
    const struct type_total *x = a;
    const struct type_total *y = b;
    if (x->total != y->total) return x->total < y->total ? -1 : 1;
    return x->type < y->type ? -1 : x->type > y->type;
}

// Types by ascending total, so that a multiple comes after the type that it is a multiple of.
// Sorted by qsort, because a sender may name any number of types.
static bool order_types(struct packing *x, const struct type_columns *c, err *e)
{
    uint32_t n = x->p->type_count;
    struct type_total *v = ARENA_ARRAY(x->scratch, struct type_total, n);
    if (!v) return arena_fail(x->scratch, e);
    for (uint32_t i = 0; i < n; i++)
        v[i] = (struct type_total){c->totals[i], i};
    qsort(v, n, sizeof *v, by_total);
    for (uint32_t i = 0; i < n; i++)
        x->types[i] = v[i].type;
    return true;
}

struct written {
    uint32_t type;
    uint32_t record;
};

// A type is compared with so many earlier ones; no runtime has more. Without a bound a profile with
// thousands of types would cost their square.
#define SIBLINGS_MOST 32

// The record of an earlier type of which this one is a multiple.
static uint32_t sibling_of(const struct type_columns *c, uint32_t type, const struct written *bases,
                           uint32_t n, int64_t *factor)
{
    for (uint32_t i = 0; i < MIN(n, (uint32_t)SIBLINGS_MOST); i++) {
        if (type_columns_multiple(c, type, bases[i].type, factor)) return bases[i].record;
    }
    return RECORD_NO_SIBLING;
}

static bool add_record(struct packing *x, const struct split_group *g, const struct type_columns *c,
                       const struct spans *spans, struct record *r, uint32_t type, err *e)
{
    assert(type < x->p->type_count && x->to == x->batch->stacks);
    labels ls = split_series(x->scratch, g->ls, x->p, type);
    if (!arena_ok(x->scratch, e)) return false;
    if (!series_row(x->o, x->batch, ls, &r->series, e)) return false;
    r->time_ns = x->p->time_ns;
    if (!id_of(x, ls, &r->id, e)) return false;
    r->duration_ns = x->p->duration_ns;
    r->period = x->p->period;
    r->identified = x->from->client_id.n > 0;
    r->annotations = x->from->annotations;
    r->annotation_count = x->from->annotation_count;
    r->total = c->totals[type];
    // A sibling's vector is that of its base times the factor, and is not sent.
    if (r->sibling == RECORD_NO_SIBLING && !put_vector(x, c, type, &r->vector, e)) return false;
    if (!put_spans(x, spans, type, r, e)) return false;
    struct batch *b = &x->batch->batch;
    if (!arena_grow(x->o->a, &b->records, &x->batch->record_cap, (size_t)b->record_count + 1,
                    sizeof *b->records)) {
        return arena_fail(x->o->a, e);
    }
    struct send_batch *p = x->batch;
    if (!arena_grow(x->o->a, &p->homes, &p->home_cap, (size_t)b->record_count + 1,
                    sizeof *p->homes)) {
        return arena_fail(x->o->a, e);
    }
    assert(r->sibling == RECORD_NO_SIBLING || r->sibling < b->record_count);
    p->homes[b->record_count] = x->home;
    // Counted last: a record that lacks a part because memory ran out is never seen.
    b->records[b->record_count++] = *r;
    x->o->records++;
    return true;
}

static bool add_group(struct packing *x, const struct split_group *g, err *e)
{
    struct type_columns c;
    struct spans spans;
    struct written *bases = ARENA_ARRAY(x->scratch, struct written, x->p->type_count);
    struct type_columns_room room;
    if (!bases) return arena_fail(x->scratch, e);
    if (!type_columns_room_init(&room, x->scratch, x->p->type_count, g->row_count, 1, e) ||
        !type_columns_make(&c, &room, x->to, g->rows, g->row_count, e) ||
        !collect_spans(x, g, &spans, e) || !order_types(x, &c, e)) {
        return false;
    }
    assert(g->row_count > 0);
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->p->type_count; i++) {
        uint32_t type = x->types[i];
        if (type_columns_is_zero(&c, type)) continue;  // not stored
        struct record r = {0};
        uint32_t row = x->batch->batch.record_count;
        r.sibling = sibling_of(&c, type, bases, n, &r.factor);
        if (r.sibling == RECORD_NO_SIBLING) bases[n++] = (struct written){type, row};
        if (!add_record(x, g, &c, &spans, &r, type, e)) return false;
    }
    return true;
}

// Prepares the mapping of this profile's stacks to the batch's table, once for each profile.
static bool begin_stacks(struct packing *x, struct symbols *to, struct symbols_hints *hints, err *e)
{
    struct send_batch *p = x->batch;
    assert(p->lexicon == NULL || lock_is_mine(&p->lexicon->lock));
    // Row numbers are those of one table, so each batch that gets groups of this profile maps them
    // anew. `profiles` counts from 1, so a fresh batch (0) never seems mapped.
    if (p->stack_rows_of != x->o->profiles) {
        struct stack_rows *s = ARENA_NEW(x->scratch, struct stack_rows);
        if (!s) return arena_fail(x->scratch, e);
        if (!stack_rows_init(s, x->scratch, x->p, to, hints, e)) return false;
        p->stacks = s;
        p->stack_rows_of = x->o->profiles;
    }
    x->to = p->stacks;
    return true;
}

// Maps all stacks of a group to rows of the batch's lexicon under one hold of its lock. False if
// the lexicon has no room for them; the rows that were added stay, unused.
static bool tell_stacks(struct packing *x, const struct split_group *g)
{
    err e = {0};
    struct lexicon *l = x->batch->lexicon;
    lexicon_lock(l);
    // Another push may have ended the lexicon since it was taken. That is no harm, but each row
    // that is added to it would be sent in vain.
    bool ok = !atomic_load_explicit(&l->ended, memory_order_relaxed) &&
              begin_stacks(x, &l->symbols, &l->hints, &e);
    // Found first, all at once (stack_rows.h); the loop below adds those that are new one by one.
    if (ok) stack_rows_find(x->to, g->rows, g->row_count);
    for (uint32_t i = 0; ok && i < g->row_count; i++)
        ok = stack_rows_row(x->to, g->rows[i], &e) != MAP_NONE;
    l->asked += g->row_count;
    ok = ok && l->symbols.t.stack_count <= SEND_BATCH_STACKS_MAX;
    lexicon_unlock(l);
    return ok;
}

static bool choose_batch(struct packing *x, const struct split_group *g, err *e)
{
    struct send_buffer *o = x->o;
    str service = labels_get(g->ls, S(LABEL_SERVICE));
    uint32_t owner = 0;
    x->home = 0;
    uint32_t *home = x->from->client_id.n ? &x->home : NULL;
    // The hash is that of the labels as sent, not of the group: all series of a profile go to one
    // ingester, so that no query sees a part of a profile.
    if (o->owner) owner = o->owner(o->owner_arg, service, x->split->sent, home);
    if (!home) x->home = owner;
    assert(labels_get(g->ls, S(LABEL_SERVICE)).n > 0);
    x->batch = send_batch_of(o, service, owner, x->split->sent, false, e);
    if (!x->batch) return false;
    if (x->batch->lexicon && !tell_stacks(x, g)) {
        assert(o->full);
        o->full(o->owner_arg, service, owner, x->batch->lexicon);
        x->batch = send_batch_of(o, service, owner, x->split->sent, true, e);
        if (!x->batch) return false;
    }
    if (x->batch->batch.record_count == 0) x->batch->identified = home != NULL;
    return x->batch->lexicon || begin_stacks(x, &x->batch->symbols, NULL, e);
}

// Whether the values of all samples have a sum in 64 bits: those above 0 and those below each by
// themselves, so that those of every series and stack have one too.
static bool sums_fit(const struct profile *p, err *e)
{
    for (uint32_t t = 0; t < p->type_count; t++) {
        int64_t sums[2] = {0};
        for (uint32_t i = 0; i < p->sample_count; i++) {
            int64_t value = p->values[(size_t)i * p->type_count + t];
            if (sum_add(&sums[value < 0], value)) continue;
            return err_set(e, ERR_OUT_OF_RANGE,
                           "the sum of the values of %.*s does not fit 64 bits",
                           STR(text_shown(p->types[t].type)));
        }
    }
    return true;
}

bool send_buffer_add(struct send_buffer *o, struct arena *scratch, const struct profile *p,
                     const struct split *split, const struct send_buffer_source *from, err *e)
{
    struct packing x = {
        .o = o,
        .scratch = scratch,
        .p = p,
        .split = split,
        .from = from,
        .body_hash = hash_str(from->body),
        .types = ARENA_ARRAY(scratch, uint32_t, p->type_count),
    };
    assert(p->type_count > 0);  // validate.c refuses such a profile
    if (!x.types) return arena_fail(scratch, e);
    o->profiles++;
    // Before the check of sums: the number says which profile this is, stored or not.
    if (!sums_fit(p, e)) return false;
    buf_init(&x.vector, scratch->budget, SIZE_MAX / 2);
    bool ok = true;
    for (uint32_t i = 0; i < split->group_count && ok; i++)
        ok = choose_batch(&x, &split->groups[i], e) && add_group(&x, &split->groups[i], e);
    buf_release(&x.vector);
    return ok;
}

void send_buffer_seal(struct send_buffer *o)
{
    for (size_t i = 0; i < o->batch_count; i++) {
        struct send_batch *p = o->batches[i];
        if (!p->lexicon) p->batch.symbols = p->symbols.t;
    }
}

void send_batch_address(struct send_batch *p, uint32_t member)
{
    // An ingester that is not the home gets at least 1, also in the first round: another ingester
    // may have the record from an earlier upload.
    assert(p->state == SEND_BATCH_WAITING);
    for (uint32_t i = 0; i < p->batch.record_count; i++)
        p->batch.records[i].attempt = p->homes[i] == member ? 0 : MAX(p->attempt, 1u);
}

bool send_batch_encode(struct send_batch *p, struct arena *scratch, struct buf *out, err *e)
{
    struct lexicon *l = p->lexicon;
    assert(p->state == SEND_BATCH_WAITING);
    if (!l) return batch_encode(&p->batch, scratch, out, e);
    // Under the lock, because columns move when rows are added. Rows that other pushes have added
    // go along; usually the ingester has nearly all rows, and there are few to encode.
    lexicon_lock(l);
    assert(p->symbols.t.stack_count == 0);  // a batch has a lexicon or a table, never both
    p->batch.has_lexicon = true;
    p->batch.lexicon = l->id;
    p->batch.had = l->told;
    p->batch.symbols = symbols_rest(&l->symbols.t, &l->told);
    p->sent = symbols_counts(&l->symbols.t);
    // `told` may be raised by another push before this answer comes, never lowered: what is sent
    // here from `had` on is then sent twice, and the ingester compares such rows.
    bool ok = batch_encode(&p->batch, scratch, out, e);
    lexicon_unlock(l);
    p->batch.symbols = (struct symbol_table){0};  // it borrowed from the lexicon
    return ok;
}

// ---- from a lexicon to symbols of its own

static bool renumber(str *vector, struct symbols_remap *m, struct arena *a, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    struct vector_entry *all = NULL;
    size_t n = 0;
    struct buf b;
    if (vector->n == 0) return true;  // a sibling's
    if (!vector_open(&r, *vector, e)) return false;
    struct arena scratch;
    arena_init(&scratch, a->budget, SIZE_MAX / 2);
    buf_init(&b, a->budget, SIZE_MAX / 2);
    all = ARENA_ARRAY(&scratch, struct vector_entry, r.left);
    bool ok = all || arena_ok(&scratch, e);
    while (ok && vector_next(&r, &v)) {
        v.stack = symbols_remap_stack(m, v.stack, e);
        ok = v.stack != MAP_NONE;
        all[n++] = v;
    }
    ok = ok && vector_done(&r, e) && vector_normalise(all, &n, e);
    if (ok) vector_encode(all, n, &b);
    ok = ok && buf_ok(&b, e);
    if (ok) *vector = arena_str(a, buf_view(&b));
    buf_release(&b);
    arena_release(&scratch);
    return ok && arena_ok(a, e);
}

static bool renumber_all(struct batch *b, struct symbols_remap *m, struct arena *a, err *e)
{
    for (uint32_t i = 0; i < b->record_count; i++) {
        struct record *r = &b->records[i];
        if (!renumber(&r->vector, m, a, e)) return false;
        for (uint32_t k = 0; k < r->span_count; k++) {
            if (!renumber(&r->spans[k].vector, m, a, e)) return false;
        }
    }
    return true;
}

bool send_batch_make_whole(struct send_batch *p, struct arena *a, err *e)
{
    struct lexicon *l = p->lexicon;
    if (!l) return true;
    struct arena scratch;
    struct symbols_remap m;
    arena_init(&scratch, a->budget, SIZE_MAX / 2);
    lexicon_lock(l);
    bool ok = symbols_init(&p->symbols, a->budget, e) &&
              symbols_remap_init(&m, &scratch, &l->symbols.t, &p->symbols, e) &&
              renumber_all(&p->batch, &m, a, e);
    lexicon_unlock(l);
    arena_release(&scratch);
    if (!ok) return false;  // some vectors are of the old table, some of the new: it is not sent
    lexicon_unref(l);
    p->lexicon = NULL;
    p->batch.has_lexicon = false;
    p->batch.symbols = p->symbols.t;
    return true;
}
