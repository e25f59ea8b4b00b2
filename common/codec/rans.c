// SPDX-License-Identifier: Apache-2.0
//
// rans.c - tokens are collected first, since their frequencies make the tables, and coded from the
// last to the first, so that they are read from the first to the last.
#include "codec/rans.h"

#define SLOTS     (1u << RANS_BITS)
#define STATE_MIN (1u << 16)

// The size of a table as the writer estimates it when it joins contexts: bits of the table, and
// bits of each frequency.
#define TABLE_BITS     10
#define FREQUENCY_BITS 8

// The table of a context: none (it does not occur), that of the context before, a separate one.
enum table {
    NONE,
    SHARED,
    OWN
};

static_assert(RANS_TOKENS < 256, "a token fits a byte");

// ---- numbers
static unsigned token_of(uint64_t v)
{
    if (v < RANS_DIRECT) return (unsigned)v;
    unsigned e = 63 - (unsigned)__builtin_clzll(v);
    // The exponent and the bit below the highest one choose the token; the bits below are kept as
    // they are.
    return RANS_DIRECT + 2 * (e - 3) + (unsigned)(v >> (e - 1) & 1);
}

static unsigned bits_of(unsigned token)
{
    return token < RANS_DIRECT ? 0 : (token - RANS_DIRECT) / 2 + 2;
}

// ---- writing
static void put_bits(struct buf *out, uint64_t *held, unsigned *held_bits, uint64_t v, unsigned n)
{
    for (; n > 0;) {
        // At most 32 at once, so that with the up to 7 bits that are held they fit 64.
        assert(*held_bits < 8);
        unsigned some = MIN(n, 32);
        *held |= (v & ((UINT64_C(1) << some) - 1)) << *held_bits;
        *held_bits += some;
        v >>= some;
        n -= some;
        for (; *held_bits >= 8; *held_bits -= 8, *held >>= 8)
            buf_byte(out, (uint8_t)*held);
    }
}

static void flush_bits(struct buf *out, uint64_t *held, unsigned *held_bits)
{
    if (*held_bits) buf_byte(out, (uint8_t)*held);
    *held = 0;
    *held_bits = 0;
}

bool rans_begin(struct rans_writer *x, struct arena *a, struct mem_budget *memory, size_t most,
                err *e)
{
    *x = (struct rans_writer){.tokens = ARENA_ARRAY(a, uint16_t, most), .most = most};
    buf_init(&x->bits, memory, SIZE_MAX);
    return arena_ok(a, e);
}

void rans_release(struct rans_writer *x)
{
    buf_release(&x->bits);
}

void rans_put(struct rans_writer *x, unsigned context, uint64_t v)
{
    assert(x->n < x->most && context < RANS_CONTEXTS_MAX);
    unsigned token = token_of(v);
    unsigned bits = bits_of(token);
    x->tokens[x->n++] = (uint16_t)(context << 8 | token);
    if (bits) put_bits(&x->bits, &x->held, &x->held_bits, v, bits);
}

struct counts {
    uint32_t v[RANS_TOKENS];
    uint32_t sum;
    uint32_t distinct;
};

// 256 times the logarithm, linear between powers of two: exact enough to choose by.
static uint64_t log2_256(uint32_t v)
{
    assert(v > 0);
    unsigned e = 31 - (unsigned)__builtin_clz(v);
    return (uint64_t)e * 256 + (((uint64_t)v << 8) >> e) - 256;
}

// 256 times the bits of all tokens and of the table.
static uint64_t cost(const struct counts *c)
{
    assert(c->sum > 0);
    uint64_t bits = (TABLE_BITS + (uint64_t)FREQUENCY_BITS * c->distinct) * 256;
    for (unsigned t = 0; t < RANS_TOKENS; t++) {
        if (c->v[t]) bits += c->v[t] * (log2_256(c->sum) - log2_256(c->v[t]));
    }
    return bits;
}

static void add(struct counts *to, const struct counts *from)
{
    for (unsigned t = 0; t < RANS_TOKENS; t++) {
        to->distinct += from->v[t] && !to->v[t];
        to->v[t] += from->v[t];
    }
    to->sum += from->sum;
}

// How many of SLOTS each token gets: at least one if it occurs.
static void normalise(const struct counts *c, uint16_t *slots)
{
    uint32_t sum = 0;
    unsigned most = 0;
    assert(c->sum > 0);
    for (unsigned t = 0; t < RANS_TOKENS; t++) {
        slots[t] = 0;
        if (!c->v[t]) continue;
        uint64_t share = ((uint64_t)c->v[t] * SLOTS + c->sum / 2) / c->sum;
        slots[t] = (uint16_t)MAX(share, 1);
        sum += slots[t];
        if (c->v[t] > c->v[most]) most = t;
    }
    // Rounding, and the least share of 1, may give too many: the largest share loses least by one
    // less. If they are too few, the most frequent token gets the rest.
    for (; sum > SLOTS; sum--) {
        unsigned largest = 0;
        for (unsigned t = 1; t < RANS_TOKENS; t++) {
            if (slots[t] > slots[largest]) largest = t;
        }
        assert(slots[largest] > 1);  // a token that occurs keeps a slot
        slots[largest]--;
    }
    assert(sum <= SLOTS);
    slots[most] = (uint16_t)(slots[most] + SLOTS - sum);
}

struct tables {
    enum table kind[RANS_CONTEXTS_MAX];
    uint8_t of[RANS_CONTEXTS_MAX];  // the context whose table it uses
    uint16_t (*slots)[RANS_TOKENS];
};

// Each context that occurs joins the table of the one before, if that is of its kind and costs
// less.
static void choose(struct counts *c, const uint8_t *kinds, unsigned contexts, struct tables *t)
{
    unsigned last = RANS_CONTEXTS_MAX;
    for (unsigned k = 0; k < contexts; k++) {
        t->kind[k] = NONE;
        if (c[k].sum == 0) continue;
        t->kind[k] = OWN;
        if (last < contexts && kinds[last] == kinds[k]) {
            // Tried by cost: two tables, or one for both that fits each of them less well.
            struct counts both = c[last];
            add(&both, &c[k]);
            if (cost(&both) <= cost(&c[last]) + cost(&c[k])) {
                c[last] = both;
                t->kind[k] = SHARED;
            }
        }
        if (t->kind[k] == OWN) last = k;
        t->of[k] = (uint8_t)last;
    }
}

static void put_tables(const struct tables *t, unsigned contexts, struct buf *out)
{
    uint64_t held = 0;
    unsigned held_bits = 0;
    for (unsigned k = 0; k < contexts; k++) {
        put_bits(out, &held, &held_bits, t->kind[k], 2);
        if (t->kind[k] != OWN) continue;
        unsigned n = RANS_TOKENS;
        // A table that a context owns has slots, so this ends.
        while (t->slots[k][n - 1] == 0)
            n--;
        put_bits(out, &held, &held_bits, n, 8);
        for (unsigned i = 0; i < n; i++) {
            unsigned slots = t->slots[k][i];
            unsigned size = slots ? 32 - (unsigned)__builtin_clz(slots) : 0;
            put_bits(out, &held, &held_bits, size, 4);
            if (size > 1) put_bits(out, &held, &held_bits, slots, size - 1);
        }
    }
    flush_bits(out, &held, &held_bits);
}

// Words from the last token to the first, as the states are a stack; then turned round.
static void put_words(const struct rans_writer *x, const struct tables *t,
                      uint16_t (*starts)[RANS_TOKENS], struct arena *a, struct buf *out)
{
    uint16_t *words = ARENA_ARRAY(a, uint16_t, x->n + 4);
    uint32_t states[2] = {STATE_MIN, STATE_MIN};
    size_t n = 0;
    if (!words) return;
    for (size_t i = x->n; i-- > 0;) {
        unsigned k = t->of[x->tokens[i] >> 8];
        unsigned token = x->tokens[i] & 0xff;
        uint32_t f = t->slots[k][token];
        assert(f > 0);  // a token that occurs has a slot: see normalise
        uint32_t *s = &states[i & 1];
        // Before the token would make the state exceed 32 bits, its lower half goes out.
        if (*s >= (uint64_t)f << (32 - RANS_BITS)) {
            words[n++] = (uint16_t)*s;
            *s >>= 16;
        }
        *s = (*s / f << RANS_BITS) + *s % f + starts[k][token];
    }
    assert(n <= x->n);
    // The final states come last, so that the reader, who begins at the end, has them first.
    for (int i = 1; i >= 0; i--) {
        words[n++] = (uint16_t)(states[i] >> 16);
        words[n++] = (uint16_t)states[i];
    }
    uint8_t size[VARINT_MAX];
    buf_put(out, size, varint_put(size, n));
    for (size_t i = n; i-- > 0;) {
        buf_byte(out, (uint8_t)words[i]);
        buf_byte(out, (uint8_t)(words[i] >> 8));
    }
}

bool rans_end(struct rans_writer *x, struct arena *a, const uint8_t *kinds, unsigned contexts,
              struct buf *out, err *e)
{
    assert(contexts <= RANS_CONTEXTS_MAX && x->n <= x->most);
    struct counts *c = ARENA_ARRAY(a, struct counts, contexts);
    struct tables t = {.slots = arena_array(a, sizeof *t.slots, contexts)};
    uint16_t(*starts)[RANS_TOKENS] = arena_array(a, sizeof *starts, contexts);
    if (!arena_ok(a, e)) return false;
    for (size_t i = 0; i < x->n; i++) {
        struct counts *one = &c[x->tokens[i] >> 8];
        one->distinct += one->v[x->tokens[i] & 0xff]++ == 0;
        one->sum++;
    }
    // choose adds counts of contexts that join to those of the first, so tables are made after it.
    choose(c, kinds, contexts, &t);
    for (unsigned k = 0; k < contexts; k++) {
        if (t.kind[k] != OWN) continue;
        normalise(&c[k], t.slots[k]);
        for (unsigned i = 1; i < RANS_TOKENS; i++)
            starts[k][i] = (uint16_t)(starts[k][i - 1] + t.slots[k][i - 1]);
    }
    put_tables(&t, contexts, out);
    put_words(x, &t, starts, a, out);
    flush_bits(&x->bits, &x->held, &x->held_bits);
    buf_str(out, buf_view(&x->bits));
    return arena_ok(a, e) && buf_ok(&x->bits, e) && buf_ok(out, e);
}

// ---- reading
uint64_t rans_bits_slow(struct rans_reader *r, unsigned n)
{
    while (r->held_bits <= 56 && r->bits < r->bits_end) {
        r->held |= (uint64_t)*r->bits++ << r->held_bits;
        r->held_bits += 8;
    }
    if (r->held_bits < n) {
        r->bad = true;
        r->held_bits = 64;  // zeros from here on, without a way back here
        r->held = 0;
    }
    return rans_bits(r, n);
}

// A table's slots from its frequencies, which must make SLOTS together.
static void read_table(struct rans_reader *r, uint32_t *table)
{
    unsigned n = (unsigned)rans_bits(r, 8);
    unsigned at = 0;
    if (n > RANS_TOKENS) r->bad = true;
    for (unsigned token = 0; token < n && !r->bad; token++) {
        unsigned size = (unsigned)rans_bits(r, 4);
        unsigned f = size ? 1u << (size - 1) : 0;
        if (size > 1) f |= (unsigned)rans_bits(r, size - 1);
        if (f > SLOTS - at) {  // before the loop below, which would write past the table
            r->bad = true;
            return;
        }
        for (unsigned i = 0; i < f; i++)
            table[at++] = token | f << 8 | i << 19;
    }
    // Fewer would leave slots without a token, through which a state could be read.
    if (at != SLOTS) r->bad = true;
}

// A table for contexts that do not occur: 1024 times token 0. So damaged bytes that use one give a
// number instead of a read through NULL.
static uint32_t *no_table(struct arena *a)
{
    uint32_t *table = ARENA_ARRAY(a, uint32_t, SLOTS);
    for (uint32_t i = 0; table && i < SLOTS; i++)
        table[i] = SLOTS << 8 | i << 19;  // frequency SLOTS: the state does not change
    return table;
}

static bool read_tables(struct rans_reader *r, struct arena *a, unsigned contexts)
{
    uint32_t *none = no_table(a);
    const uint32_t *last = NULL;
    if (!none) return false;
    for (unsigned k = 0; k < RANS_CONTEXTS_MAX; k++)
        r->tables[k] = none;
    for (unsigned k = 0; k < contexts && !r->bad; k++) {
        unsigned kind = (unsigned)rans_bits(r, 2);
        if (kind == NONE) continue;
        if (kind > OWN || (kind == SHARED && !last)) {
            r->bad = true;
        } else if (kind == OWN) {
            uint32_t *table = ARENA_ARRAY(a, uint32_t, SLOTS);
            if (!table) return false;
            read_table(r, table);
            last = table;
        }
        if (last) r->tables[k] = last;
    }
    return true;
}

static uint32_t read_state(struct rans_reader *r)
{
    const uint8_t *w = r->words;
    uint32_t low = (uint32_t)w[0] | (uint32_t)w[1] << 8;
    uint32_t high = (uint32_t)w[2] | (uint32_t)w[3] << 8;
    r->words += 4;
    return low | high << 16;
}

bool rans_open(struct rans_reader *r, struct arena *a, str bytes, unsigned contexts)
{
    const uint8_t *at = (const uint8_t *)bytes.p;
    uint64_t words = 0;
    assert(contexts <= RANS_CONTEXTS_MAX);
    *r = (struct rans_reader){.bits = at, .bits_end = at + bytes.n};
    if (!read_tables(r, a, contexts)) return false;
    at = r->bits - r->held_bits / 8;  // the tables end with a byte
    if (r->bad || !varint_get(&at, r->bits_end, &words) || words < 4 ||
        words > (uint64_t)(r->bits_end - at) / 2) {
        r->bad = true;
        return true;
    }
    r->words = at;
    r->words_last = at + 2 * words - 2;
    r->bits = at + 2 * words;
    r->held = 0;
    r->held_bits = 0;
    r->states[0] = read_state(r);
    r->states[1] = read_state(r);
    return true;
}

bool rans_done(const struct rans_reader *r)
{
    return !r->bad && r->words == r->words_last + 2 && r->bits == r->bits_end && r->held == 0 &&
           r->held_bits < 8 && r->states[0] == STATE_MIN && r->states[1] == STATE_MIN;
}
