// SPDX-License-Identifier: Apache-2.0
//
// A frame of vectors. Stacks are told as ranks among those that the frame has, because a vector has
// few of a table's stacks and most deltas are then one byte; and what is alike stands together:
// numbers of entries and divisors, then deltas, then values, each packed by itself.
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
    STACKS,  // marks those that there are
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

// Returns the bytes of n deltas as a reader will write them.
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

// One part of all vectors. Returns the bytes of all of them as a reader will put them back, which
// are fewer than there are if numbers have needless bytes.
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

// The stacks that there are, ascending, after their number, which is returned; their ranks from
// here on.
static uint32_t put_stacks(struct writer_service *s, struct buf *out)
{
    uint32_t n = 0;
    for (size_t i = 0; i <= s->stack_count / 64; i++) {
        s->ranks[i] = n;
        n += (uint32_t)__builtin_popcountll(s->used[i]);
    }
    wire_put_u64(out, n);
    uint64_t last = 0;
    for (size_t i = 0; i <= s->stack_count / 64; i++) {
        for (uint64_t bits = s->used[i]; bits; bits &= bits - 1) {
            uint64_t stack = i * 64 + (uint64_t)__builtin_ctzll(bits);
            wire_put_u64(out, stack - last);
            last = stack;
        }
    }
    return n;
}

// ---- stack by stack: of 1,440 profiles with 50 of 2,000 stacks a tenth less than vector by
// vector, as stacks that are as frequent have gaps and values that are alike.

// So few vectors have few stacks twice; and what is turned round is held in memory.
#define TURNED_LEAST       8
#define TURNED_ENTRIES_MAX ((uint64_t)1 << 18)

// Gaps and values are packed in parts of stacks that are alike, if a part has so many entries.
#define PARTS      4
#define PART_LEAST 4096
static_assert(PARTS == COUNT(((struct writer_contents *)0)->splits) / 2, "a split for each part");

struct turned {
    uint32_t *counts;   // by rank: vectors that have it
    uint64_t *starts;   // by rank: where its next entry goes; then where they ended
    uint32_t *order;    // ranks as they are written
    uint64_t *places;   // scratch
    uint32_t *vectors;  // by entry
    uint64_t *values;
};

// Entries by stack, of each in the order of vectors. First counted, then placed.
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
                continue;
            }
            uint64_t to = t->starts[rank]++;
            t->vectors[to] = (uint32_t)i;
            t->values[to] = value;
        }
        at = values;
    }
}

// Gaps or values of all stacks, in parts.
static void put_parts(const struct turned *t, uint32_t stacks, uint64_t entries, bool gaps,
                      struct buf *out, size_t *splits)
{
    uint64_t parts = MAX(1, MIN(PARTS, entries / PART_LEAST));
    uint64_t done = 0;
    size_t part = 0;
    splits[part++] = out->n;
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t rank = t->order[i];
        uint64_t end = t->starts[rank];
        uint64_t vector = 0;
        if (done >= entries * part / parts && part < parts) splits[part++] = out->n;
        for (uint64_t at = end - t->counts[rank]; at < end; at++) {
            wire_put_u64(out, gaps ? t->vectors[at] - vector : t->values[at]);
            vector = (uint64_t)t->vectors[at] + 1;
        }
        done += t->counts[rank];
    }
}

static bool put_turned(struct block_writer *w, const struct writer_vectors *v, uint32_t stacks,
                       uint64_t entries, struct buf *out, size_t *splits, err *e)
{
    struct arena a;
    arena_init(&a, w->memory, SIZE_MAX);
    struct turned t = {.counts = ARENA_ARRAY(&a, uint32_t, stacks),
                       .starts = ARENA_ARRAY(&a, uint64_t, stacks),
                       .order = ARENA_ARRAY(&a, uint32_t, stacks),
                       .places = ARENA_ARRAY(&a, uint64_t, v->count + 1),
                       .vectors = ARENA_ARRAY(&a, uint32_t, entries),
                       .values = ARENA_ARRAY(&a, uint64_t, entries)};
    bool ok = arena_ok(&a, e);
    if (ok) {
        uint64_t start = 0;
        turn(&w->s, v, &t, false);
        for (uint32_t i = 0; i < stacks; i++) {
            t.starts[i] = start;
            start += t.counts[i];
            wire_put_u64(out, t.counts[i]);
        }
        turn(&w->s, v, &t, true);
        wire_by_count(t.counts, stacks, (uint32_t)v->count, t.places, t.order);
        put_parts(&t, stacks, entries, true, out, splits);
        put_parts(&t, stacks, entries, false, out, splits + PARTS);
    }
    arena_release(&a);
    return ok;
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

bool writer_vectors(struct block_writer *w, const struct writer_vectors *v, struct buf *out,
                    struct writer_contents *c, err *e)
{
    struct writer_service *s = &w->s;
    uint64_t entries = entries_of(v);
    bool by_stack = v->count >= TURNED_LEAST && entries <= TURNED_ENTRIES_MAX;
    memset(s->used, 0, (s->stack_count / 64 + 1) * sizeof *s->used);
    buf_byte(out, by_stack ? BLOCK_BY_STACK : BLOCK_BY_VECTOR);
    wire_put_u64(out, put_part(s, v, STACKS, out));
    uint32_t stacks = put_stacks(s, out);
    put_part(s, v, HEADS, out);
    put_part(s, v, DIVISORS, out);
    if (by_stack) {
        if (!put_turned(w, v, stacks, entries, out, c->splits, e)) return false;
    } else {
        c->splits[0] = out->n;
        put_part(s, v, DELTAS, out);
        c->splits[1] = out->n;
        put_part(s, v, VALUES, out);
    }
    c->bytes = buf_view(out);
    c->level = 1;  // nothing repeats: level 3 finds a few matches that cost 3 % more than literals
    return buf_ok(out, e);
}
