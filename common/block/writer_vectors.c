// SPDX-License-Identifier: Apache-2.0
//
// Writes a frame of vectors. Normally stack by stack: each number is coded with probabilities that
// follow from the numbers before it. A frame that is too small or too large for that is written
// vector by vector. Stacks are then ranks among the frame's stacks, so most deltas take one byte.
// Counts, divisors, deltas and values each form a column, packed by itself.
#include "base/hash.h"
#include "block/model_int.h"
#include "block/writer_int.h"

// The next number of columns that were checked.
static uint64_t next(const uint8_t **at, const uint8_t *end)
{
    uint64_t v = 0;
    bool ok = varint_get(at, end, &v);
    assert(ok);
    return v;
}

enum part {
    STACKS,  // marks the stacks in use
    HEADS,   // numbers of entries
    DIVISORS,
    DELTAS,
    VALUES
};

static uint32_t rank_of(const struct writer_service *s, uint64_t stack)
{
    uint64_t below = s->used[stack / 64] & ((UINT64_C(1) << (stack % 64)) - 1);
    return s->ranks[stack / 64] + (uint32_t)__builtin_popcountll(below);
}

// Returns the size of n deltas after a reader has decoded them.
static uint64_t put_deltas(struct writer_service *s, const uint8_t **at, const uint8_t *end,
                           uint64_t n, enum part part, struct buf *out)
{
    uint64_t stack = 0;
    uint64_t size = 0;
    uint32_t last = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t delta = next(at, end);
        stack += delta;
        size += varint_size(delta);
        if (part == STACKS) s->used[stack / 64] |= UINT64_C(1) << (stack % 64);
        if (part != DELTAS) continue;
        uint32_t rank = rank_of(s, stack);
        wire_put_u64(out, rank - last);
        last = rank;
    }
    return size;
}

// Writes one part of all vectors. Returns the size of all vectors after a reader has decoded them.
// It is smaller than the input's if the input encodes numbers in more bytes than needed.
static uint64_t put_part(struct writer_service *s, const struct writer_vectors *v, enum part part,
                         struct buf *out)
{
    const uint8_t *at = (const uint8_t *)v->bytes.p;
    const uint8_t *end = at + v->bytes.n;
    uint64_t size = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t n = next(&at, end);
        uint64_t divisor = next(&at, end);
        if (part == HEADS) wire_put_u64(out, n);
        if (part == DIVISORS) wire_put_u64(out, divisor);
        size += varint_size(n) + varint_size(divisor) + put_deltas(s, &at, end, n, part, out);
        for (uint64_t k = 0; k < n; k++) {
            uint64_t value = next(&at, end);
            size += varint_size(value);
            if (part == VALUES) wire_put_u64(out, value);
        }
    }
    return size;
}

// Counts the stacks in use and fills s->ranks.
static uint32_t rank_stacks(struct writer_service *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i <= s->stack_count / 64; i++) {
        s->ranks[i] = n;
        n += (uint32_t)__builtin_popcountll(s->used[i]);
    }
    return n;
}

// Writes the number of stacks in use, then their ids as differences, ascending.
static void put_stacks(struct writer_service *s, struct buf *out)
{
    wire_put_u64(out, rank_stacks(s));
    uint64_t last = 0;
    for (size_t i = 0; i <= s->stack_count / 64; i++) {
        for (uint64_t bits = s->used[i]; bits; bits &= bits - 1) {
            uint64_t stack = i * 64 + (uint64_t)__builtin_ctzll(bits);
            wire_put_u64(out, stack - last);
            last = stack;
        }
    }
}

// ---- stack by stack: the vectors that have a stack, and its values in them; each number is
// coded with a model of the numbers before it

// How many vectors with equal hashes are compared. More collide only by intent.
#define BASE_TRIES 8

// Fewer entries are not worth tables of how frequent numbers are.
#define MODELLED_LEAST 64

// Vectors written stack by stack are held in memory: at most this many entries.
#define TURNED_ENTRIES_MAX ((uint64_t)1 << 18)

struct turned {
    uint32_t *counts;   // by rank: how many vectors have it
    uint64_t *starts;   // by rank, while placing: where its next entry goes; afterwards the end
    uint32_t *vectors;  // by entry
    uint64_t *values;   // zigzag
    bool negative;      // some are
};

// Sorts entries by stack, and by vector within a stack. The first pass counts them, the second
// (`place`) puts them where they belong.
static void turn(struct writer_service *s, const struct writer_vectors *v, struct turned *t,
                 bool place)
{
    const uint8_t *at = (const uint8_t *)v->bytes.p;
    const uint8_t *end = at + v->bytes.n;
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t n = next(&at, end);
        next(&at, end);
        const uint8_t *values = varint_skip(at, end, n);
        uint64_t stack = 0;
        for (uint64_t k = 0; k < n; k++) {
            stack += next(&at, end);
            uint32_t rank = rank_of(s, stack);
            uint64_t value = next(&values, end);
            if (!place) {
                t->counts[rank]++;
                t->negative = t->negative || value & 1;
                continue;
            }
            uint64_t to = t->starts[rank]++;
            t->vectors[to] = (uint32_t)i;
            t->values[to] = value;
        }
        at = values;
    }
}

// ---- bases

// A vector with the same stacks as an earlier one refers to it as its base. Equal stacks have equal
// bytes.
static bool find_bases(const struct block_writer *w, const struct writer_vectors *v,
                       struct model_bases *b, struct arena *a, err *e)
{
    const uint8_t *at = (const uint8_t *)v->bytes.p;
    const uint8_t *end = at + v->bytes.n;
    struct map index;
    str *ids = ARENA_ARRAY(a, str, v->count);
    if (!arena_ok(a, e)) return false;
    map_init(&index, w->memory);
    bool ok = true;
    for (uint32_t i = 0; ok && i < v->count; i++) {
        uint64_t n = next(&at, end);
        next(&at, end);
        const uint8_t *values = varint_skip(at, end, n);
        ids[i] = str_make(at, (size_t)(values - at));
        at = varint_skip(values, end, n);
        b->base[i] = i;
        uint32_t step = 0;
        uint64_t hash = hash_table_str(ids[i]);
        uint32_t row = map_next(&index, hash, &step);
        for (int k = 0; row != MAP_NONE && k < BASE_TRIES && !str_eq(ids[row], ids[i]); k++)
            row = map_next(&index, hash, &step);
        if (row != MAP_NONE && str_eq(ids[row], ids[i])) {
            b->base[i] = row;
        } else {
            ok = map_put(&index, hash, i, e);
        }
    }
    map_release(&index);
    model_bases_link(b);
    return ok;
}

static void put_bases(const struct model_bases *b, struct rans_writer *x)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < b->count; i++) {
        uint64_t back = i - b->base[i];
        rans_put(x, MODEL_BASE, back == last ? 0 : back + 1);
        last = back;
    }
}

// ---- the numbers
struct modelled {
    const struct turned *t;
    const struct model_bases *bases;
    struct rans_writer *x;
    uint64_t *values;  // by vector: of the current stack
};

static void put_value(struct rans_writer *x, unsigned context, const struct model_mean *mean,
                      uint64_t value)
{
    uint64_t expected = model_expected(mean);
    rans_put(x, context, expected ? zigzag((int64_t)(value - expected)) : value);
}

// Writes the values of the vectors whose base is this vector.
static void put_based(struct modelled *m, uint32_t vector, struct model_based *of_kind)
{
    unsigned kind = 0;
    for (uint32_t i = m->bases->first_based[vector]; i; i = m->bases->next_based[i]) {
        struct model_based *b = &of_kind[kind];
        uint64_t guess = 0;
        bool told = model_guess(b, m->values[vector], &guess);
        bool right = told && guess == m->values[i];
        if (told) {
            rans_put(m->x, MODEL_GUESS + b->guess, !right);
            b->guess = right ? 1 : 2;
        }
        if (!right) put_value(m->x, model_based_value(b, kind), &b->mean, m->values[i]);
        model_saw_based(b, m->values[vector], m->values[i]);
        kind = MIN(kind + 1, MODEL_KINDS_OF_BASED - 1);
    }
}

// Writes the entries from .. to - 1, which are one stack's; `have` of them are in vectors without a
// base.
static void put_entries(struct modelled *m, uint64_t from, uint64_t to, uint64_t have)
{
    struct model_based of_kind[MODEL_KINDS_OF_BASED] = {0};
    struct model_mean mean = {0};
    uint64_t place = 0;
    uint64_t left = have;
    for (uint64_t k = from; k < to; k++) {
        uint64_t value = m->t->values[k];
        m->values[m->t->vectors[k]] = m->t->negative ? value : value >> 1;
    }
    for (uint64_t k = from; k < to; k++) {
        uint32_t vector = m->t->vectors[k];
        if (m->bases->base[vector] != vector) continue;
        uint64_t spare = m->bases->free_count - place - left;
        uint64_t gap = m->bases->places[vector] - place;
        if (spare) rans_put(m->x, model_gap(spare, left), gap);
        place += gap + 1;
        left--;
        uint64_t value = m->values[vector];
        put_value(m->x, model_value(&mean, have, m->bases->free_count), &mean, value);
        model_saw(&mean, value);
        put_based(m, vector, of_kind);
    }
}

// Writes for each stack in use: how many unused stacks come before it, how many vectors without a
// base have it, and its entries.
static void put_model(const struct writer_service *s, struct modelled *m)
{
    uint64_t next_stack = 0;
    uint64_t passed = 0;
    uint64_t from = 0;
    uint32_t rank = 0;
    uint64_t last = 1;
    put_bases(m->bases, m->x);
    for (size_t i = 0; i <= s->stack_count / 64; i++) {
        for (uint64_t bits = s->used[i]; bits; bits &= bits - 1, rank++) {
            uint64_t stack = i * 64 + (uint64_t)__builtin_ctzll(bits);
            uint64_t to = from + m->t->counts[rank];
            uint64_t have = 0;
            for (uint64_t k = from; k < to; k++)
                have += m->bases->base[m->t->vectors[k]] == m->t->vectors[k];
            rans_put(m->x, model_stack(passed), stack - next_stack);
            passed = stack - next_stack;
            next_stack = stack + 1;
            if (m->bases->free_count > 1) rans_put(m->x, model_count(last), have - 1);
            last = have;
            put_entries(m, from, to, have);
            from = to;
        }
    }
}

static bool put_modelled(struct block_writer *w, const struct writer_vectors *v, uint32_t stacks,
                         uint64_t entries, struct buf *out, err *e)
{
    struct arena a;
    struct rans_writer x = {0};
    struct model_bases bases;
    arena_init(&a, w->memory, SIZE_MAX);
    struct turned t = {.counts = ARENA_ARRAY(&a, uint32_t, stacks),
                       .starts = ARENA_ARRAY(&a, uint64_t, stacks),
                       .vectors = ARENA_ARRAY(&a, uint32_t, entries),
                       .values = ARENA_ARRAY(&a, uint64_t, entries)};
    struct modelled m = {&t, &bases, &x, ARENA_ARRAY(&a, uint64_t, v->count)};
    bool ok = model_bases_init(&bases, &a, v->count) && find_bases(w, v, &bases, &a, e) &&
              rans_begin(&x, &a, w->memory, (size_t)(2 * (entries + stacks) + v->count), e);
    if (ok) {
        uint64_t start = 0;
        turn(&w->s, v, &t, false);
        for (uint32_t i = 0; i < stacks; i++) {
            t.starts[i] = start;
            start += t.counts[i];
        }
        turn(&w->s, v, &t, true);
        buf_byte(out, t.negative ? MODEL_SIGNED : 0);
        put_model(&w->s, &m);
        ok = rans_end(&x, &a, model_kinds, MODEL_CONTEXTS, out, e);
    }
    rans_release(&x);
    ok = arena_ok(&a, e) && ok;
    arena_release(&a);
    return ok;
}

// Divisors as a column: mostly all the same.
static bool put_divisors(struct block_writer *w, const struct writer_vectors *v, struct buf *out,
                         err *e)
{
    const uint8_t *at = (const uint8_t *)v->bytes.p;
    const uint8_t *end = at + v->bytes.n;
    int64_t *column = mem_alloc(w->memory, v->count * sizeof *column, e);
    if (!column) return false;
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t n = next(&at, end);
        column[i] = (int64_t)next(&at, end);
        at = varint_skip(at, end, 2 * n);
    }
    wire_put_numbers(out, column, (size_t)v->count);
    mem_free(w->memory, column, v->count * sizeof *column);
    return true;
}

static uint64_t entries_of(const struct writer_vectors *v)
{
    const uint8_t *at = (const uint8_t *)v->bytes.p;
    const uint8_t *end = at + v->bytes.n;
    uint64_t entries = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t n = next(&at, end);
        at = varint_skip(at, end, 1 + 2 * n);
        entries += n;
    }
    return entries;
}

// Vectors one after the other: for a frame with few entries, and for one with too many to hold them
// twice.
static void put_by_vector(struct writer_service *s, const struct writer_vectors *v, struct buf *out,
                          struct writer_contents *c)
{
    buf_byte(out, BLOCK_BY_VECTOR);
    wire_put_u64(out, put_part(s, v, STACKS, out));
    put_stacks(s, out);
    put_part(s, v, HEADS, out);
    put_part(s, v, DIVISORS, out);
    c->splits[0] = out->n;
    put_part(s, v, DELTAS, out);
    c->splits[1] = out->n;
    put_part(s, v, VALUES, out);
}

bool writer_vectors(struct block_writer *w, const struct writer_vectors *v, struct buf *out,
                    struct writer_contents *c, err *e)
{
    struct writer_service *s = &w->s;
    uint64_t entries = entries_of(v);
    memset(s->used, 0, (s->stack_count / 64 + 1) * sizeof *s->used);
    if (entries >= MODELLED_LEAST && entries <= TURNED_ENTRIES_MAX) {
        uint64_t size = put_part(s, v, STACKS, NULL);
        uint32_t stacks = rank_stacks(s);
        buf_byte(out, BLOCK_MODELLED);
        wire_put_u64(out, size);
        wire_put_u64(out, stacks);
        wire_put_u64(out, entries);
        if (!put_divisors(w, v, out, e) || !put_modelled(w, v, stacks, entries, out, e)) {
            return false;
        }
        c->bytes = buf_view(out);
        c->packed = true;
        if (!buf_ok(out, e)) return false;
        if (block_raw_is_sane(out->n, size)) return true;
        buf_clear(out);
    }
    put_by_vector(s, v, out, c);
    c->packed = false;
    c->bytes = buf_view(out);
    c->level = 1;  // nothing repeats: level 3 finds a few matches that cost 3 % more than literals
    return buf_ok(out, e);
}
