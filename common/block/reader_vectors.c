// SPDX-License-Identifier: Apache-2.0
//
// Turns a frame of vectors back into columns, one of three forms: entries vector by vector, stack
// by stack, or stack by stack with each number coded with a model of the numbers before it
// (model_int.h). A frame has the stacks of all its vectors once; entries name stacks by their rank
// among these.
//
// A frame says how many bytes its columns take; that is compared with the bytes it has before
// memory is allocated, and each number is put only if it fits.
//
//     1. the form and the claims: bytes, stacks, sizes of vectors (block_vectors_parse)
//     2. vector by vector: numbers are copied as they come (put_vector)
//        stack by stack: entries are read, turned, and put (read_turned, read_modelled, turn)
//     3. no byte may be left over, neither of the frame nor of what it said
//
// Damage is noted in the wire (wire_fail) and ends each loop; false is for a lack of memory only.
#include "block/model_int.h"

struct vectors {
    struct wire head;    // the part before the deltas
    struct wire deltas;  // of ranks, or of vectors
    struct wire values;
    uint8_t form;
    uint64_t size;  // of all columns
    uint32_t *stacks;
    uint64_t stack_count;
    uint64_t count;
    uint64_t *sizes;  // entries of each vector
    uint64_t *divisors;
    uint64_t entries;
    uint8_t *bytes;
    uint8_t *to;
    uint8_t *to_end;
    uint32_t *ends;
};

static void read_stacks(struct arena *a, struct vectors *x)
{
    struct wire *w = &x->head;
    x->stack_count = wire_count(w, 1);
    x->stacks = ARENA_ARRAY(a, uint32_t, x->stack_count);
    // A delta of 0 would be the same stack again. Only the first may be 0: it is stack 0.
    uint64_t stack = 0;
    for (uint64_t i = 0; x->stacks && i < x->stack_count && !w->fault; i++) {
        uint64_t delta = wire_u64(w);
        if ((i > 0 && delta == 0) || delta > UINT32_MAX - stack) {
            wire_fail(w, "stacks do not ascend or do not fit 32 bits");
            return;
        }
        stack += delta;
        x->stacks[i] = (uint32_t)stack;
    }
}

static void read_sizes(struct arena *a, struct vectors *x)
{
    struct wire *w = &x->head;
    if (x->count > (uint64_t)(w->end - w->at)) wire_fail(w, "there are more vectors than bytes");
    if (w->fault) return;
    x->sizes = ARENA_ARRAY(a, uint64_t, x->count);
    x->divisors = ARENA_ARRAY(a, uint64_t, x->count);
    if (a->exhausted) return;
    for (uint64_t i = 0; i < x->count && !w->fault; i++) {
        x->sizes[i] = wire_u64(w);
        if (x->sizes[i] > (uint64_t)(w->end - w->at)) wire_fail(w, "a vector is cut off");
        x->entries += x->sizes[i];  // fits: sizes and their number are both below the bytes
    }
    for (uint64_t i = 0; i < x->count && !w->fault; i++)
        x->divisors[i] = wire_u64(w);
    if (x->entries > (uint64_t)(w->end - w->at)) wire_fail(w, "there are more entries than bytes");
}

// Where deltas end and values begin.
static void find_values(struct vectors *x)
{
    struct wire *w = &x->head;
    if (w->fault) return;
    const uint8_t *middle = varint_skip(w->at, w->end, x->entries);
    if (!middle) {
        wire_fail(w, "deltas are cut off");
        return;
    }
    x->deltas = (struct wire){.at = w->at, .end = middle};
    x->values = (struct wire){.at = middle, .end = w->end};
    w->at = w->end;
}

static void too_small(struct vectors *x)
{
    wire_fail(&x->head, "vectors are larger than they say");
}

static bool has_room(const struct vectors *x, uint64_t v)
{
    size_t room = (size_t)(x->to_end - x->to);
    return room >= VARINT_MAX || room >= varint_size(v);
}

static void put(struct vectors *x, uint64_t v)
{
    assert(x->to <= x->to_end);
    if (!has_room(x, v)) {
        too_small(x);
        return;
    }
    x->to += varint_put(x->to, v);
}

// ---- vector by vector

// The stacks of one vector: ranks become differences. Room is asked for number by number near the
// end only.
static void put_stacks(struct vectors *x, uint64_t n)
{
    // Copies, because bytes are written through `to`: the compiler could not keep the fields in
    // registers, and this is the loop that a query spends its time in.
    struct wire *w = &x->deltas;
    const uint8_t *at = w->at;
    uint8_t *to = x->to;
    uint64_t rank = 0;
    uint32_t last = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t delta = 0;
        if (!varint_get(&at, w->end, &delta) || (i > 0 && delta == 0) ||
            delta >= x->stack_count - rank) {
            wire_fail(&x->head, "stacks of a vector do not ascend or are none");
            return;
        }
        rank += delta;
        uint32_t step = x->stacks[rank] - last;
        last = x->stacks[rank];
        if (x->to_end - to < VARINT_MAX && (size_t)(x->to_end - to) < varint_size(step)) {
            too_small(x);
            return;
        }
        to += varint_put(to, step);
    }
    w->at = at;
    x->to = to;
}

// One vector as columns.
static void put_vector(struct vectors *x, uint64_t n, uint64_t divisor)
{
    put(x, n);
    put(x, divisor);
    if (!x->head.fault) put_stacks(x, n);
    if (x->head.fault) return;
    const uint8_t *end = varint_skip(x->values.at, x->values.end, n);
    if (!end || end - x->values.at > x->to_end - x->to) {
        wire_fail(&x->head, "values are cut off or vectors are larger than they say");
        return;
    }
    if (n > 0) memcpy(x->to, x->values.at, (size_t)(end - x->values.at));
    x->to += end - x->values.at;
    x->values.at = end;
}

// ---- stack by stack

// Scratch for bringing entries by stack into entries by vector.
struct turned {
    uint32_t *counts;   // by rank: vectors that have it
    uint32_t *order;    // ranks as they come
    uint64_t *starts;   // by rank: where its entries are
    uint32_t *vectors;  // by entry, by rank
    uint64_t *values;   // likewise
    uint64_t *ends;     // by vector: where its next entry goes
    uint32_t *ranks;    // by entry, by vector
    uint64_t *sorted;   // values, likewise
};

static void read_counts(struct vectors *x, struct turned *t)
{
    struct wire *w = &x->head;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < x->stack_count && !w->fault; i++) {
        uint64_t n = wire_u64(w);
        if (n == 0 || n > x->count) wire_fail(w, "a stack is in no vector or in too many");
        t->counts[i] = (uint32_t)n;
        t->starts[i] = sum;
        sum += n;
    }
    if (!w->fault && sum != x->entries) wire_fail(w, "stacks have other entries than vectors");
}

// The entries of one stack: vectors ascend.
static void read_stack(struct vectors *x, struct turned *t, uint32_t rank)
{
    uint64_t vector = 0;
    uint64_t at = t->starts[rank];
    for (uint32_t i = 0; i < t->counts[rank]; i++, vector++) {
        uint64_t gap = wire_u64(&x->deltas);
        if (vector >= x->count || gap >= x->count - vector) {
            wire_fail(&x->head, "vectors of a stack do not ascend or are none");
            return;
        }
        vector += gap;
        t->vectors[at + i] = (uint32_t)vector;
        t->values[at + i] = wire_u64(&x->values);
    }
}

// Entries by vector, of each in the order of stacks.
static void turn(struct vectors *x, struct turned *t)
{
    assert(!x->head.fault);  // t->vectors are rows, which the readers checked
    uint64_t end = 0;
    uint64_t at = 0;
    for (uint64_t i = 0; i < x->count; i++) {
        t->ends[i] = end;
        end += x->sizes[i];
    }
    for (uint32_t rank = 0; rank < x->stack_count; rank++) {
        for (uint32_t i = 0; i < t->counts[rank]; i++, at++) {
            uint64_t to = t->ends[t->vectors[at]]++;
            if (to >= x->entries) {
                wire_fail(&x->head, "a vector has more entries than it says");
                return;
            }
            t->ranks[to] = rank;
            t->sorted[to] = t->values[at];
        }
    }
    // A vector that got too many has written into the next one; the ends tell.
    end = 0;
    for (uint64_t i = 0; i < x->count; i++) {
        end += x->sizes[i];
        if (t->ends[i] != end) wire_fail(&x->head, "a vector has other entries than it says");
    }
}

static void put_turned(struct vectors *x, const struct turned *t)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < x->count && !x->head.fault; at += x->sizes[i++]) {
        uint32_t last = 0;
        put(x, x->sizes[i]);
        put(x, x->divisors[i]);
        for (uint64_t k = at; k < at + x->sizes[i]; k++) {
            put(x, x->stacks[t->ranks[k]] - last);
            last = x->stacks[t->ranks[k]];
        }
        for (uint64_t k = at; k < at + x->sizes[i]; k++)
            put(x, t->sorted[k]);
        x->ends[i] = (uint32_t)(x->to - x->bytes);
    }
}

static bool read_turned(struct vectors *x, struct arena *a, err *e)
{
    struct turned t = {.counts = ARENA_ARRAY(a, uint32_t, x->stack_count),
                       .order = ARENA_ARRAY(a, uint32_t, x->stack_count),
                       .starts = ARENA_ARRAY(a, uint64_t, x->stack_count),
                       .vectors = ARENA_ARRAY(a, uint32_t, x->entries),
                       .values = ARENA_ARRAY(a, uint64_t, x->entries),
                       .ends = ARENA_ARRAY(a, uint64_t, x->count),
                       .ranks = ARENA_ARRAY(a, uint32_t, x->entries),
                       .sorted = ARENA_ARRAY(a, uint64_t, x->entries)};
    uint64_t *places = ARENA_ARRAY(a, uint64_t, x->count + 1);
    if (!arena_ok(a, e)) return false;
    read_counts(x, &t);
    find_values(x);
    if (x->head.fault) return true;
    wire_by_count(t.counts, (uint32_t)x->stack_count, (uint32_t)x->count, places, t.order);
    for (uint64_t i = 0; i < x->stack_count && !x->head.fault; i++)
        read_stack(x, &t, t.order[i]);
    if (!x->head.fault) x->head.fault = x->deltas.fault ? x->deltas.fault : x->values.fault;
    if (x->head.fault) return true;
    turn(x, &t);
    put_turned(x, &t);
    return true;
}

// ---- modelled: stack by stack, each number coded with a model of the numbers before it

struct modelled {
    struct vectors *x;
    struct rans_reader r;
    struct turned *t;
    struct model_bases bases;
    bool negative;
    uint64_t at;  // entries so far
};

// Reads which vectors have a base: an earlier vector, which has no base itself.
static void read_bases(struct modelled *m)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < m->bases.count; i++) {
        uint64_t back = rans_get(&m->r, MODEL_BASE);
        if (back) last = back - 1;
        if (last > i || m->bases.base[i - last] != (last ? i - last : 0)) {
            wire_fail(&m->x->head, "the base of a vector is none");
            return;
        }
        m->bases.base[i] = (uint32_t)(i - last);
    }
    model_bases_link(&m->bases);
}

static uint64_t read_value(struct rans_reader *r, unsigned context, const struct model_mean *mean)
{
    uint64_t expected = model_expected(mean);
    uint64_t value = rans_get(r, context);
    return expected ? expected + (uint64_t)unzigzag(value) : value;
}

// False if there are more than entries.
static inline bool add_entry(struct modelled *m, uint32_t vector, uint64_t value)
{
    if (m->at >= m->x->entries) return false;
    // Values are put as columns have them, zigzag; a model of positive ones leaves out the sign.
    m->t->vectors[m->at] = vector;
    m->t->values[m->at++] = m->negative ? value : value << 1;
    m->x->sizes[vector]++;
    return true;
}

static bool read_based(struct modelled *m, uint32_t vector, uint64_t base,
                       struct model_based *of_kind)
{
    unsigned kind = 0;
    for (uint32_t i = m->bases.first_based[vector]; i; i = m->bases.next_based[i]) {
        struct model_based *b = &of_kind[kind];
        uint64_t value = 0;
        bool right = false;
        if (model_guess(b, base, &value)) {
            right = rans_get(&m->r, MODEL_GUESS + b->guess) == 0;
            b->guess = right ? 1 : 2;
        }
        if (!right) value = read_value(&m->r, model_based_value(b, kind), &b->mean);
        if (!add_entry(m, i, value)) return false;
        model_saw_based(b, base, value);
        kind = MIN(kind + 1, MODEL_KINDS_OF_BASED - 1);
    }
    return true;
}

// The entries of a stack that `have` of the vectors without a base have, and of the vectors based
// on these. False: damage.
static bool read_entries(struct modelled *m, uint64_t have)
{
    struct model_based of_kind[MODEL_KINDS_OF_BASED] = {0};
    struct model_mean mean = {0};
    uint64_t place = 0;
    for (uint64_t left = have; left > 0; left--, place++) {
        uint64_t spare = m->bases.free_count - place - left;
        uint64_t gap = spare ? rans_get(&m->r, model_gap(spare, left)) : 0;
        if (gap > spare) return false;
        place += gap;
        uint32_t vector = m->bases.free[place];
        uint64_t value = read_value(&m->r, model_value(&mean, have, m->bases.free_count), &mean);
        model_saw(&mean, value);
        if (!add_entry(m, vector, value) || !read_based(m, vector, value, of_kind)) return false;
    }
    return true;
}

static void read_model(struct modelled *m)
{
    struct wire *w = &m->x->head;
    uint64_t next = 0;
    uint64_t passed = 0;
    uint64_t last = 1;
    read_bases(m);
    for (uint64_t i = 0; i < m->x->stack_count && !w->fault; i++) {
        uint64_t from = m->at;
        passed = rans_get(&m->r, model_stack(passed));
        uint64_t have = m->bases.free_count > 1 ? rans_get(&m->r, model_count(last)) : 0;
        if (rans_is_bad(&m->r) || passed >= UINT32_MAX - next || have >= m->bases.free_count) {
            wire_fail(w, "stacks are none, or are in too many vectors");
            return;
        }
        next += passed;
        m->x->stacks[i] = (uint32_t)next++;
        last = ++have;
        if (!read_entries(m, have)) wire_fail(w, "entries of a stack are none");
        m->t->counts[i] = (uint32_t)(m->at - from);
    }
    if (m->at != m->x->entries) wire_fail(w, "stacks have other entries than vectors");
    if (!rans_done(&m->r)) wire_fail(w, "numbers are cut off or bytes follow them");
}

static bool read_modelled(struct vectors *x, struct arena *a, bool negative, err *e)
{
    struct wire *w = &x->head;
    struct turned t = {.counts = ARENA_ARRAY(a, uint32_t, x->stack_count),
                       .vectors = ARENA_ARRAY(a, uint32_t, x->entries),
                       .values = ARENA_ARRAY(a, uint64_t, x->entries),
                       .ends = ARENA_ARRAY(a, uint64_t, x->count),
                       .ranks = ARENA_ARRAY(a, uint32_t, x->entries),
                       .sorted = ARENA_ARRAY(a, uint64_t, x->entries)};
    struct modelled m = {.x = x, .t = &t, .negative = negative};
    str rest = wire_bytes(w, (uint64_t)(w->end - w->at));
    if (!model_bases_init(&m.bases, a, x->count) || !rans_open(&m.r, a, rest, MODEL_CONTEXTS))
        return arena_fail(a, e);
    if (m.r.bad) wire_fail(w, "tables of numbers are damaged");
    if (!w->fault) read_model(&m);
    if (w->fault) return true;
    turn(x, &t);
    put_turned(x, &t);
    return true;
}

// Reads the counts that stand before the numbers. An entry may cost no byte, so counts are bounded
// as sizes of packed contents are.
static void read_claims(struct arena *a, struct vectors *x, size_t contents, bool *negative)
{
    struct wire *w = &x->head;
    x->stack_count = wire_u64(w);
    x->entries = wire_u64(w);
    if (!block_raw_is_sane(contents, x->size) || x->entries > x->size / 2 ||
        x->stack_count > x->entries || x->count > x->size / 2) {
        wire_fail(w, "vectors say that they are larger than they can be");
    }
    if (w->fault) return;
    x->stacks = ARENA_ARRAY(a, uint32_t, x->stack_count);
    x->sizes = ARENA_ARRAY(a, uint64_t, x->count);
    x->divisors = ARENA_ARRAY(a, uint64_t, x->count);
    if (a->exhausted) return;
    wire_numbers(w, (int64_t *)x->divisors, x->count);
    uint8_t flags = wire_byte(w);
    if (flags > MODEL_SIGNED) wire_fail(w, "vectors have a flag that is none");
    *negative = flags & MODEL_SIGNED;
}

// ---- a frame

static bool put_all(struct vectors *x, bool negative, struct mem_budget *memory, size_t room,
                    err *e)
{
    if (x->form == BLOCK_BY_VECTOR) {
        find_values(x);
        for (uint64_t i = 0; i < x->count && !x->head.fault; i++) {
            put_vector(x, x->sizes[i], x->divisors[i]);
            x->ends[i] = (uint32_t)(x->to - x->bytes);
        }
    } else {
        struct arena a;
        arena_init(&a, memory, room);
        // Scratch memory of its own: only the columns live as long as the caller's arena.
        bool ok =
            x->form == BLOCK_MODELLED ? read_modelled(x, &a, negative, e) : read_turned(x, &a, e);
        arena_release(&a);
        if (!ok) return false;
    }
    if (!x->head.fault && (x->to != x->to_end || x->values.at != x->values.end)) {
        wire_fail(&x->head, "vectors are smaller than they say");
    }
    return true;
}

bool block_vectors_parse(struct arena *a, str contents, uint64_t count, struct block_vectors *out,
                         err *e)
{
    struct vectors x = {.head = wire_of(contents), .count = count};
    struct wire *w = &x.head;
    bool negative = false;
    x.form = wire_byte(w);
    x.size = wire_u64(w);
    if (x.form > BLOCK_MODELLED) wire_fail(w, "vectors have a form that is none");
    if (count > UINT32_MAX) wire_fail(w, "there are too many vectors");
    if (x.form == BLOCK_MODELLED) {
        read_claims(a, &x, contents.n, &negative);
    } else {
        if (x.size > BLOCK_SECTION_MAX || x.size > VARINT_MAX * contents.n) {
            wire_fail(w, "vectors say that they are larger than they can be");
        }
        read_stacks(a, &x);
        read_sizes(a, &x);
    }
    x.ends = w->fault ? NULL : ARENA_ARRAY(a, uint32_t, count);
    x.bytes = w->fault ? NULL : arena_new(a, x.size);
    if (!arena_ok(a, e)) return false;
    if (w->fault) return wire_done(w, "vectors", e);
    x.to = x.bytes;
    x.to_end = x.bytes + x.size;
    if (!put_all(&x, negative, a->budget, a->cap - a->used, e)) return false;
    assert(x.to >= x.bytes && x.to <= x.to_end);
    *out = (struct block_vectors){x.ends, (uint32_t)count, str_make(x.bytes, (size_t)x.size)};
    return wire_done(w, "vectors", e);
}

str block_vector_at(const struct block_vectors *v, uint32_t place)
{
    assert(place < v->n);
    uint32_t from = place ? v->ends[place - 1] : 0;
    return str_slice(v->bytes, from, v->ends[place]);
}
