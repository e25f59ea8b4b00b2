// SPDX-License-Identifier: Apache-2.0
//
// vector.c - sorts, writes, reads and adds up vectors. Queries spend most of their time in
// add_quickly, which reads only the common short form and leaves every other one to the careful
// reader.
#include "model/vector.h"

#include "base/number.h"
#include "base/sort.h"
#include "codec/varint.h"

// ---- sorting entries by stack

static void swap(struct vector_entry *a, struct vector_entry *b)
{
    struct vector_entry t = *a;
    *a = *b;
    *b = t;
}

static inline bool has_later_stack(struct vector_entry a, struct vector_entry b)
{
    return a.stack > b.stack;
}

struct range {
    size_t from;
    size_t to;
    int bit;
};

static void sort_short(struct vector_entry *v, size_t n)
{
    INSERTION_SORT(v, n, has_later_stack);
}

// Puts the stacks without `bit` before those with it; returns where the latter begin.
static size_t part(struct vector_entry *v, size_t low, size_t high, int bit)
{
    while (low < high) {
        if (v[low].stack >> bit & 1)
            swap(&v[low], &v[--high]);
        else
            low++;
    }
    return low;
}

// In-place radix sort from the most significant bit: no scratch memory, and no input makes it worse
// than 32 passes. Of the ranges that wait there is at most one for each bit and one more.
static void radix_sort(struct vector_entry *v, size_t n, uint32_t differ)
{
    struct range waiting[33];
    size_t count = 0;
    assert(differ != 0);  // the bits above the first difference need no pass
    waiting[count++] = (struct range){0, n, 31 - __builtin_clz(differ)};
    while (count > 0) {
        struct range r = waiting[--count];
        if (r.bit < 0) continue;
        if (r.to - r.from <= 24) {
            sort_short(v + r.from, r.to - r.from);
            continue;
        }
        assert(count + 2 <= COUNT(waiting));
        size_t middle = part(v, r.from, r.to, r.bit);
        waiting[count++] = (struct range){middle, r.to, r.bit - 1};
        waiting[count++] = (struct range){r.from, middle, r.bit - 1};
    }
}

static void sort(struct vector_entry *v, size_t n)
{
    bool sorted = true;
    uint32_t differ = 0;
    for (size_t i = 1; i < n; i++) {
        sorted = sorted && v[i - 1].stack <= v[i].stack;
        differ |= v[i].stack ^ v[0].stack;
    }
    if (!sorted) radix_sort(v, n, differ);
}

bool vector_normalise(struct vector_entry *v, size_t *n, err *e)
{
    sort(v, *n);
    size_t count = 0;  // never above i, so sums are written over entries that were added already
    for (size_t i = 0; i < *n;) {
        struct vector_entry sum = v[i++];
        for (; i < *n && v[i].stack == sum.stack; i++) {
            if (!sum_add(&sum.value, v[i].value)) {
                return err_set(e, ERR_OUT_OF_RANGE, "the sum of stack %u does not fit 64 bits",
                               sum.stack);
            }
        }
        if (sum.value != 0) v[count++] = sum;
    }
    *n = count;
    return true;
}

enum {
    ENTRY_MAX = 2 * VARINT_MAX
};  // bytes of one entry

// ---- writing

// Entries are put together in blocks on the stack: a cap of the buf is met to the byte.
enum {
    BLOCK = 64
};

struct writer {
    struct buf *out;
    int64_t divisor;
    uint32_t last;
    uint32_t n;  // entries in the block
    size_t used;
    uint8_t block[BLOCK * ENTRY_MAX];
};

// 2^63, the divisor if all values are INT64_MIN, is no int64: then it is 2^62.
static void begin(struct writer *w, struct buf *out, size_t n, uint64_t divisor)
{
    if (divisor == 0) divisor = 1;
    if (divisor > INT64_MAX) divisor /= 2;
    w->out = out;
    w->divisor = (int64_t)divisor;
    w->last = 0;
    w->n = 0;
    w->used = varint_put(w->block, n);
    w->used += varint_put(w->block + w->used, divisor);
}

static void end_block(struct writer *w)
{
    assert(w->used <= sizeof w->block);
    buf_put(w->out, w->block, w->used);
    w->n = 0;
    w->used = 0;
}

static inline void put(struct writer *w, uint32_t stack, int64_t value)
{
    if (w->n == BLOCK - 1) end_block(w);  // the head takes the room of one entry
    assert(stack >= w->last);             // a delta is not negative
    int64_t quotient = w->divisor == 1 ? value : value / w->divisor;
    w->used += varint_put(w->block + w->used, stack - w->last);
    w->used += varint_put(w->block + w->used, zigzag(quotient));
    w->last = stack;
    w->n++;
}

void vector_encode(const struct vector_entry *v, size_t n, struct buf *out)
{
    uint64_t divisor = 0;
    for (size_t i = 0; i < n && divisor != 1; i++)
        divisor = number_gcd(divisor, number_magnitude(v[i].value));
    struct writer w;
    begin(&w, out, n, divisor);
    for (size_t i = 0; i < n; i++) {
        assert(v[i].value != 0 && (i == 0 || v[i - 1].stack < v[i].stack));
        put(&w, v[i].stack, v[i].value);
    }
    end_block(&w);
}

size_t vector_encode_column(const uint32_t *stacks, const int64_t *values, size_t stride, size_t n,
                            struct buf *out)
{
    uint64_t divisor = 0;
    size_t count = 0;
    assert(stride > 0);
    for (size_t i = 0; i < n; i++) {
        int64_t value = values[i * stride];
        if (value == 0) continue;
        count++;
        if (divisor != 1) divisor = number_gcd(divisor, number_magnitude(value));
    }
    struct writer w;
    begin(&w, out, count, divisor);
    for (size_t i = 0; i < n; i++) {
        if (values[i * stride] != 0) put(&w, stacks[i], values[i * stride]);
    }
    end_block(&w);
    return count;
}

void vector_encode_sums(const int64_t *sums, size_t n, const uint32_t *stack_ids, struct buf *out)
{
    uint64_t divisor = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (sums[i] == 0) continue;
        count++;
        if (divisor != 1) divisor = number_gcd(divisor, number_magnitude(sums[i]));
    }
    struct writer w;
    begin(&w, out, count, divisor);
    for (size_t i = 0; i < n; i++) {
        if (sums[i] != 0) put(&w, stack_ids ? stack_ids[i] : (uint32_t)i, sums[i]);
    }
    end_block(&w);
}

// ---- reading

bool vector_open(struct vector_reader *r, str bytes, err *e)
{
    *r = (struct vector_reader){.at = (const uint8_t *)bytes.p, .first = true};
    r->end = bytes.n ? r->at + bytes.n : r->at;
    uint64_t divisor = 0;
    if (!varint_get(&r->at, r->end, &r->left) || !varint_get(&r->at, r->end, &divisor)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "vector: %zu bytes end in its head", bytes.n);
    }
    if (divisor == 0 || divisor > INT64_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "vector: divisor %llu is not a positive int64",
                       (unsigned long long)divisor);
    }
    // An entry takes two bytes at least, so a number that was made up is seen before it is used.
    if (r->left > (uint64_t)(r->end - r->at) / 2) {
        return err_set(e, ERR_INVALID_ARGUMENT, "vector: %llu entries do not fit %zu bytes",
                       (unsigned long long)r->left, bytes.n);
    }
    r->divisor = (int64_t)divisor;
    return true;
}

static bool spoil(struct vector_reader *r, const char *fault)
{
    r->fault = fault;
    return false;
}

bool vector_next(struct vector_reader *r, struct vector_entry *v)
{
    if (r->fault) return false;
    if (r->left == 0) return r->at == r->end ? false : spoil(r, "bytes follow the last entry");
    uint64_t delta = 0;
    uint64_t bits = 0;
    if (!varint_get(&r->at, r->end, &delta) || !varint_get(&r->at, r->end, &bits)) {
        return spoil(r, "an entry is cut off or is no varint");
    }
    if (delta == 0 && !r->first) return spoil(r, "stacks do not ascend");
    if (delta > UINT32_MAX - r->stack) return spoil(r, "a stack does not fit 32 bits");
    if (bits == 0) return spoil(r, "a value is zero");
    v->stack = r->stack + (uint32_t)delta;
    if (__builtin_mul_overflow(unzigzag(bits), r->divisor, &v->value)) {
        return spoil(r, "a value does not fit 64 bits");
    }
    r->stack = v->stack;
    r->first = false;
    r->left--;
    return true;
}

bool vector_done(const struct vector_reader *r, err *e)
{
    if (!r->fault) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "vector: after stack %u, %llu entries before its end: %s", r->stack,
                   (unsigned long long)r->left, r->fault);
}

static bool outside(err *e, uint32_t stack, size_t n)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "vector: stack %u is not below %zu", stack, n);
}

bool vector_check(str bytes, uint32_t stack_count, int64_t *total, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, bytes, e)) return false;
    int64_t sum = 0;
    while (vector_next(&r, &v)) {
        if (v.stack >= stack_count) return outside(e, v.stack, stack_count);
        if (!sum_add(&sum, v.value)) {
            return err_set(e, ERR_OUT_OF_RANGE, "vector: its total does not fit 64 bits");
        }
    }
    if (!vector_done(&r, e)) return false;
    *total = sum;
    return true;
}

// A varint of up to three bytes, which nearly all are; 0 for a longer one. Returns its length.
// Plain branches beat reading eight bytes and finding the end by bit tricks two to three times,
// also where lengths are random (1.7 to 3.9 ns an entry against 5.0 to 7.3).
static inline size_t quick_get(const uint8_t *at, uint64_t *v)
{
    *v = at[0];
    if (at[0] < 0x80) return 1;
    *v = (at[0] & 0x7fu) | (uint64_t)at[1] << 7;
    if (at[1] < 0x80) return 2;
    *v = (*v & 0x3fff) | (uint64_t)at[2] << 14;
    return at[2] < 0x80 ? 3 : 0;
}

// Adds entries that are short and so far from the end that it need not be checked for. Makes the
// reader's checks, but keeps its state in registers: this is where queries spend their time. Stops
// before an entry that is long, invalid or near the end.
static uint64_t add_quickly(struct vector_reader *r, int64_t unit, int64_t *sums, size_t n)
{
    const uint8_t *at = r->at;
    uint64_t left = r->left;
    uint64_t stack = r->stack;
    uint64_t least = r->first ? 0 : 1;  // of the delta: the first entry may be stack 0
    for (; left > 0 && r->end - at >= ENTRY_MAX; left--) {
        uint64_t delta = 0;
        uint64_t bits = 0;
        size_t delta_n = quick_get(at, &delta);
        size_t bits_n = delta_n ? quick_get(at + delta_n, &bits) : 0;
        if (!bits_n || delta < least || bits == 0 || delta >= n - stack) break;
        int64_t value = 0;
        if (__builtin_mul_overflow(unzigzag(bits), unit, &value)) break;
        int64_t sum = 0;
        if (__builtin_add_overflow(sums[stack + delta], value, &sum)) break;
        stack += delta;
        sums[stack] = sum;
        least = 1;
        at += delta_n + bits_n;
    }
    uint64_t done = r->left - left;
    r->at = at;
    r->left = left;
    r->stack = (uint32_t)stack;
    r->first = least == 0;
    return done;
}

// Adds one entry with every check. Divisor times factor may exceed int64 where value times factor
// does not, so they are multiplied in the other order here.
static bool add_one(struct vector_reader *r, int64_t factor, int64_t *sums, size_t n, err *e)
{
    struct vector_entry v;
    if (!vector_next(r, &v)) return vector_done(r, e);
    if (v.stack >= n) return outside(e, v.stack, n);
    int64_t value = 0;
    if (__builtin_mul_overflow(v.value, factor, &value) || !sum_add(&sums[v.stack], value)) {
        return err_set(e, ERR_OUT_OF_RANGE, "the sum of stack %u does not fit 64 bits", v.stack);
    }
    return true;
}

bool vector_add(str bytes, int64_t factor, int64_t *sums, size_t n, err *e)
{
    struct vector_reader r;
    int64_t unit = 0;
    if (!vector_open(&r, bytes, e)) return false;
    // One multiplication for each entry instead of two, if divisor times factor fits.
    bool quick = n > 0 && !__builtin_mul_overflow(r.divisor, factor, &unit);
    while (r.left > 0 || r.at < r.end) {
        if (quick && add_quickly(&r, unit, sums, n) > 0) continue;
        if (!add_one(&r, factor, sums, n, e)) return false;
    }
    return true;
}

bool vector_add_wide(str bytes, int64_t factor, struct wide *sums, size_t n, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, bytes, e)) return false;
    while (vector_next(&r, &v)) {
        if (v.stack >= n) return outside(e, v.stack, n);
        wide_add_product(&sums[v.stack], v.value, factor);
    }
    return vector_done(&r, e);
}
