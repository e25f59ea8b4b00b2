// SPDX-License-Identifier: Apache-2.0
#include "model/columns.h"

#include "codec/varint.h"

// ---- writing

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

// The greatest common divisor of g and v, where g = 0 is "none yet".
static uint64_t gcd(uint64_t g, uint64_t v)
{
    if (g != 0 && v % g == 0) return g;  // values are mostly multiples of one of them
    while (v != 0) {
        uint64_t rest = g % v;
        g = v;
        v = rest;
    }
    return g;
}

// Numbers are put together in blocks on the stack.
enum {
    BLOCK = 1024
};

struct writer {
    struct buf *out;
    size_t used;
    uint8_t block[BLOCK + VARINT_MAX];
};

static void end_block(struct writer *w)
{
    buf_put(w->out, w->block, w->used);
    w->used = 0;
}

static inline void put(struct writer *w, uint64_t v)
{
    if (w->used >= BLOCK) end_block(w);
    w->used += varint_put(w->block + w->used, v);
}

// The head; the divisor as vector.h has it: 2^62 where it would be 2^63, which is no int64.
static int64_t begin(struct writer *w, struct buf *out, size_t n, uint64_t divisor)
{
    if (divisor == 0) divisor = 1;
    if (divisor > INT64_MAX) divisor /= 2;
    w->out = out;
    w->used = 0;
    put(w, n);
    put(w, divisor);
    return (int64_t)divisor;
}

void columns_encode(const struct vector_entry *v, size_t n, struct buf *out)
{
    uint64_t divisor = 0;
    for (size_t i = 0; i < n && divisor != 1; i++)
        divisor = gcd(divisor, magnitude(v[i].value));
    struct writer w;
    int64_t unit = begin(&w, out, n, divisor);
    for (size_t i = 0; i < n; i++) {
        assert(v[i].value != 0 && (i == 0 || v[i - 1].stack < v[i].stack));
        put(&w, i ? v[i].stack - v[i - 1].stack : v[i].stack);
    }
    for (size_t i = 0; i < n; i++)
        put(&w, zigzag(unit == 1 ? v[i].value : v[i].value / unit));
    end_block(&w);
}

void columns_encode_sums(const int64_t *sums, size_t n, struct buf *out)
{
    uint64_t divisor = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (sums[i] == 0) continue;
        count++;
        if (divisor != 1) divisor = gcd(divisor, magnitude(sums[i]));
    }
    struct writer w;
    int64_t unit = begin(&w, out, count, divisor);
    size_t last = 0;
    for (size_t i = 0; i < n; i++) {
        if (sums[i] == 0) continue;
        put(&w, i - last);
        last = i;
    }
    for (size_t i = 0; i < n; i++) {
        if (sums[i] != 0) put(&w, zigzag(unit == 1 ? sums[i] : sums[i] / unit));
    }
    end_block(&w);
}

bool columns_from_vector(str vector, const uint32_t *map, struct arena *scratch, struct buf *out,
                         err *e)
{
    struct vector_reader r;
    if (!vector_open(&r, vector, e)) return false;
    size_t room = (size_t)r.left;
    struct vector_entry *v = ARENA_ARRAY(scratch, struct vector_entry, room + 1);
    if (!v) return arena_ok(scratch, e);
    size_t n = 0;
    while (n <= room && vector_next(&r, &v[n])) {
        uint32_t stack = v[n].stack;
        if (map) v[n].stack = map[stack];
        if (stack != 0 && v[n].stack == 0) {
            return err_set(e, ERR_INVALID_ARGUMENT, "vector: stack %u has no other number", stack);
        }
        n++;
    }
    if (!vector_done(&r, e) || !vector_normalise(v, &n, e)) return false;
    columns_encode(v, n, out);
    return buf_ok(out, e);
}

// ---- reading

struct reader {
    const uint8_t *deltas;
    const uint8_t *values;
    const uint8_t *middle;  // end of deltas, where values began
    const uint8_t *end;
    uint64_t n;
    uint64_t left;
    int64_t divisor;
    uint64_t stack;
};

static bool refuse(const struct reader *r, const char *fault, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "columns: after stack %llu, %llu entries before the end: %s",
                   (unsigned long long)r->stack, (unsigned long long)r->left, fault);
}

static bool outside(uint64_t stack, size_t n, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "columns: stack %llu is not below %zu",
                   (unsigned long long)stack, n);
}

static bool read_head(struct reader *r, str bytes, err *e)
{
    const uint8_t *at = (const uint8_t *)bytes.p;
    const uint8_t *end = bytes.n ? at + bytes.n : at;
    uint64_t divisor = 0;
    *r = (struct reader){0};
    if (!varint_get(&at, end, &r->n) || !varint_get(&at, end, &divisor)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "columns: %zu bytes end in the head", bytes.n);
    }
    if (divisor == 0 || divisor > INT64_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "columns: divisor %llu is not a positive int64",
                       (unsigned long long)divisor);
    }
    if (r->n > (uint64_t)(end - at) / 2) {
        return err_set(e, ERR_INVALID_ARGUMENT, "columns: %llu entries do not fit %zu bytes",
                       (unsigned long long)r->n, bytes.n);
    }
    r->left = r->n;
    r->deltas = at;
    r->middle = varint_skip(at, end, r->n);
    if (!r->middle) return refuse(r, "the stacks are cut off", e);
    r->values = r->middle;
    r->end = end;
    r->divisor = (int64_t)divisor;
    return true;
}

// The next entry with every check.
static bool next(struct reader *r, struct vector_entry *v, err *e)
{
    uint64_t delta = 0;
    uint64_t bits = 0;
    if (!varint_get(&r->deltas, r->middle, &delta) || !varint_get(&r->values, r->end, &bits)) {
        return refuse(r, "an entry is cut off or is no varint", e);
    }
    if (delta == 0 && r->left != r->n) return refuse(r, "stacks do not ascend", e);
    if (delta > UINT32_MAX - r->stack) return refuse(r, "a stack does not fit 32 bits", e);
    if (bits == 0) return refuse(r, "a value is zero", e);
    if (__builtin_mul_overflow(unzigzag(bits), r->divisor, &v->value)) {
        return refuse(r, "a value does not fit 64 bits", e);
    }
    r->stack += delta;
    v->stack = (uint32_t)r->stack;
    r->left--;
    return true;
}

static bool done(const struct reader *r, err *e)
{
    return r->values == r->end ? true : refuse(r, "bytes follow the last entry", e);
}

bool columns_check(str columns, uint32_t stack_count, int64_t *total, err *e)
{
    struct reader r;
    struct vector_entry v;
    if (!read_head(&r, columns, e)) return false;
    int64_t sum = 0;
    while (r.left > 0) {
        if (!next(&r, &v, e)) return false;
        if (v.stack >= stack_count) return outside(v.stack, stack_count, e);
        if (!sum_add(&sum, v.value)) {
            return err_set(e, ERR_OUT_OF_RANGE, "columns: the total does not fit 64 bits");
        }
    }
    *total = sum;
    return done(&r, e);
}

// What the loops below keep in registers: the reader's state is read and written once.
struct run {
    const uint8_t *deltas;
    const uint8_t *values;
    uint64_t left;
    uint64_t stack;
    uint64_t least;  // of the delta: the first entry may be stack 0
};

// Adds one entry, with the checks of next(); false before one that fails any of them. at->stack is
// below n, so the first comparison says that the delta is neither too small nor too large.
static inline bool add_entry(struct run *at, uint64_t delta, uint64_t bits, int64_t unit,
                             int64_t *sums, size_t n)
{
    int64_t value = 0;
    int64_t sum = 0;
    if (delta - at->least >= n - at->stack - at->least || bits == 0) return false;
    if (__builtin_mul_overflow(unzigzag(bits), unit, &value)) return false;
    int64_t *to = &sums[at->stack + delta];
    if (__builtin_add_overflow(*to, value, &sum)) return false;
    *to = sum;
    at->stack += delta;
    at->least = 1;
    at->left--;
    return true;
}

// A varint of up to three bytes; 0 for a longer one. Returns its length.
static inline size_t quick_get(const uint8_t *at, uint64_t *v)
{
    *v = at[0];
    if (at[0] < 0x80) return 1;
    *v = (at[0] & 0x7fu) | (uint64_t)at[1] << 7;
    if (at[1] < 0x80) return 2;
    *v = (*v & 0x3fff) | (uint64_t)at[2] << 14;
    return at[2] < 0x80 ? 3 : 0;
}

// Numbers of up to three bytes, nearly all of one length, that are not among the last. Deltas are
// followed by values, so only those need room behind them; the last few are taken if they are one
// byte.
static void add_alike(struct run *at, const uint8_t *end, int64_t unit, int64_t *sums, size_t n)
{
    struct run r = *at;
    while (r.left > 0 && end - r.values >= 3) {
        uint64_t delta = 0;
        uint64_t bits = 0;
        size_t delta_n = quick_get(r.deltas, &delta);
        size_t bits_n = quick_get(r.values, &bits);
        if (!delta_n || !bits_n || !add_entry(&r, delta, bits, unit, sums, n)) break;
        r.deltas += delta_n;
        r.values += bits_n;
    }
    while (r.left > 0 && r.values < end && (*r.deltas | *r.values) < 0x80 &&
           add_entry(&r, *r.deltas, *r.values, unit, sums, n)) {
        r.deltas++;
        r.values++;
    }
    *at = r;
}

// A number of one or two bytes without a branch on which, as mixed lengths are guessed wrong too
// often. Its second byte has the top bit set if it is longer.
struct pair {
    uint64_t value;
    uint64_t more;    // 1: two bytes
    uint64_t longer;  // not 0: more than two
};

static inline struct pair pair_get(const uint8_t *at)
{
    uint64_t more = at[0] >> 7;
    uint64_t second = at[1] & (0 - more);
    return (struct pair){(at[0] & 0x7fu) | second << 7, more, second & 0x80};
}

// Numbers of one or two bytes that are not among the last.
static void add_pairs(struct run *at, const uint8_t *end, int64_t unit, int64_t *sums, size_t n)
{
    struct run r = *at;
    const uint8_t *last = end - 1;
    while (r.left > 0 && r.values < last) {
        struct pair delta = pair_get(r.deltas);
        struct pair bits = pair_get(r.values);
        if ((delta.longer | bits.longer) != 0) break;
        if (!add_entry(&r, delta.value, bits.value, unit, sums, n)) break;
        r.deltas += 1 + delta.more;
        r.values += 1 + bits.more;
    }
    *at = r;
}

// Do few of n numbers in so many bytes have another length than the rest? Wrong for those that have
// three bytes and more, which is no harm.
static bool are_alike(uint64_t bytes, uint64_t n)
{
    uint64_t longer = bytes - n;
    uint64_t shorter = longer < n ? n - longer : 0;
    return MIN(longer, shorter) <= n / 16;
}

// The entries that are short, without the reader's state in memory: this is where queries spend
// their time. Stops before whatever it does not understand.
static bool add_quickly(struct reader *r, int64_t unit, int64_t *sums, size_t n)
{
    struct run at = {r->deltas, r->values, r->left, r->stack, r->left == r->n ? 0 : 1};
    if (!are_alike((uint64_t)(r->middle - r->deltas), r->left) ||
        !are_alike((uint64_t)(r->end - r->values), r->left)) {
        add_pairs(&at, r->end, unit, sums, n);
    }
    add_alike(&at, r->end, unit, sums, n);
    bool any = at.left != r->left;
    r->deltas = at.deltas;
    r->values = at.values;
    r->left = at.left;
    r->stack = at.stack;
    return any;
}

bool columns_add(str columns, int64_t factor, int64_t *sums, size_t n, err *e)
{
    struct reader r;
    struct vector_entry v;
    int64_t unit = 0;
    if (!read_head(&r, columns, e)) return false;
    bool quick = n > 0 && !__builtin_mul_overflow(r.divisor, factor, &unit);
    while (r.left > 0) {
        if (quick && add_quickly(&r, unit, sums, n)) continue;
        if (!next(&r, &v, e)) return false;
        if (v.stack >= n) return outside(v.stack, n, e);
        int64_t value = 0;
        int64_t sum = sums[v.stack];
        if (__builtin_mul_overflow(v.value, factor, &value) || !sum_add(&sum, value)) {
            return err_set(e, ERR_OUT_OF_RANGE, "the sum of stack %u does not fit 64 bits",
                           v.stack);
        }
        sums[v.stack] = sum;
    }
    return done(&r, e);
}

bool columns_entries(struct arena *a, str columns, size_t most, struct vector_entry **v, size_t *n,
                     err *e)
{
    struct reader r;
    if (!read_head(&r, columns, e)) return false;
    if (r.n > most) {
        return err_set(e, ERR_INVALID_ARGUMENT, "columns: %llu entries, of which at most %zu",
                       (unsigned long long)r.n, most);
    }
    struct vector_entry *list = ARENA_ARRAY(a, struct vector_entry, r.n + 1);
    if (!list) return arena_ok(a, e);
    for (size_t i = 0; i < r.n; i++) {
        if (!next(&r, &list[i], e)) return false;
    }
    *v = list;
    *n = (size_t)r.n;
    return done(&r, e);
}
