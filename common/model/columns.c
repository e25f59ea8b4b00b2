// SPDX-License-Identifier: Apache-2.0
//
// columns.c - writes and reads vectors in columns. columns_add has three ways: four entries at a
// time in a vector register (x86-64 with SSE 4.1), one short entry at a time, and one with every
// check. Each of the first two stops before an entry that it cannot read, and the next way takes
// that.
#include "model/columns.h"

#include "base/number.h"
#include "codec/varint.h"

#include <string.h>
#if defined(__x86_64__)
#include <smmintrin.h>
#endif

// ---- writing

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

// Writes the head. The divisor is as in vector.h: 2^62 where it would be 2^63, which is no int64.
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
        divisor = number_gcd(divisor, number_magnitude(v[i].value));
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
        if (divisor != 1) divisor = number_gcd(divisor, number_magnitude(sums[i]));
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
    if (!v) return arena_fail(scratch, e);
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

// The reader's state in the loops below, which the compiler keeps in registers.
struct run {
    const uint8_t *deltas;
    uint64_t left;
    const uint8_t *values;
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

// Adds up to `most` entries one by one, of numbers of up to three bytes. Three bytes are read at
// once: deltas are followed by values, but values need three bytes before the end; the last few
// entries are added if delta and value are one byte each.
static inline void add_ones(struct run *at, const uint8_t *end, uint64_t most, int64_t unit,
                            int64_t *sums, size_t n)
{
    struct run r = *at;
    uint64_t until = r.left - MIN(most, r.left);
    while (r.left > until && end - r.values >= 3) {
        uint64_t delta = 0;
        uint64_t bits = 0;
        size_t delta_n = quick_get(r.deltas, &delta);
        size_t bits_n = quick_get(r.values, &bits);
        if (!delta_n || !bits_n || !add_entry(&r, delta, bits, unit, sums, n)) break;
        r.deltas += delta_n;
        r.values += bits_n;
    }
    while (r.left > until && r.values < end && (*r.deltas | *r.values) < 0x80 &&
           add_entry(&r, *r.deltas, *r.values, unit, sums, n)) {
        r.deltas++;
        r.values++;
    }
    *at = r;
}

// Where the next entries are added.
struct rest {
    int64_t *to;  // of the last stack
    uint64_t n;   // sums from there on
    int64_t unit;
};

#if defined(__x86_64__)
// Four numbers of up to four bytes, all within eight, become the 32-bit lanes of a register: which
// of the eight bytes have the top bit set tells where each number lies. Neither lengths that cannot
// be guessed nor the time of a load for each number are in the way then.

// Of the bytes of `more` with the top bit: where the numbers end. Those behind the eight bytes are
// taken for ends, which makes numbers that are not used.
#define LESS(ends)    ((ends) & ((ends)-1))
#define END0(more)    (~(more))
#define END1(more)    LESS(END0(more))
#define END2(more)    LESS(END1(more))
#define END3(more)    LESS(END2(more))
#define AT(ends)      __builtin_ctz(ends)
#define BYTE(at, end) ((at) <= (end) ? (at) : 0x80)
#define LANE(at, end) BYTE(at, end), BYTE((at) + 1, end), BYTE((at) + 2, end), BYTE((at) + 3, end)
#define PLAN(more)                                                                             \
    {                                                                                          \
        LANE(0, AT(END0(more))), LANE(AT(END0(more)) + 1, AT(END1(more))),                     \
            LANE(AT(END1(more)) + 1, AT(END2(more))), LANE(AT(END2(more)) + 1, AT(END3(more))) \
    }
#define SHORT(more)                                                \
    (AT(END0(more)) < 4 && AT(END1(more)) - AT(END0(more)) <= 4 && \
     AT(END2(more)) - AT(END1(more)) <= 4 && AT(END3(more)) - AT(END2(more)) <= 4)
#define PAIR(more) \
    (AT(END0(more)) < 4 && AT(END1(more)) - AT(END0(more)) <= 4 ? AT(END1(more)) + 1 : 0)
#define USED(more)   (AT(END3(more)) < 8 && SHORT(more) ? AT(END3(more)) + 1 : 0)
#define FOUR(of, m)  of((m)), of((m) + 1u), of((m) + 2u), of((m) + 3u)
#define FOUR2(of, m) FOUR(of, m), FOUR(of, (m) + 4u), FOUR(of, (m) + 8u), FOUR(of, (m) + 12u)
#define FOUR3(of, m) FOUR2(of, m), FOUR2(of, (m) + 16u), FOUR2(of, (m) + 32u), FOUR2(of, (m) + 48u)
#define ALL(of)      FOUR3(of, 0u), FOUR3(of, 64u), FOUR3(of, 128u), FOUR3(of, 192u)

// By the bytes with the top bit: which of the eight bytes go where, 0x80 for none.
static const uint8_t plans[256][16] = {ALL(PLAN)};
static const uint8_t plan_used[256] = {ALL(USED)};  // bytes of the four; 0: they do not fit
static const uint8_t pair_used[256] = {ALL(PAIR)};  // of the first two; 0: one is longer

#define BY_LANES __attribute__((target("sse4.1")))
#define INLINE   static inline __attribute__((always_inline))  // or no register is kept

struct four {
    __m128i lanes;
    unsigned used;
};

BY_LANES INLINE struct four four_of(__m128i eight)
{
    unsigned more = (unsigned)_mm_movemask_epi8(eight) & 0xff;
    __m128i plan = _mm_loadu_si128((const __m128i *)plans[more]);
    __m128i x = _mm_shuffle_epi8(_mm_and_si128(eight, _mm_set1_epi8(0x7f)), plan);
    x = _mm_maddubs_epi16(_mm_set1_epi16((short)0x8001), x);  // 7 bits and 7 bits
    x = _mm_madd_epi16(x, _mm_set1_epi32(0x40000001));        // 14 and 14
    return (struct four){x, plan_used[more]};
}

BY_LANES INLINE __m128i eight_at(const uint8_t *at)
{
    return _mm_loadl_epi64((const __m128i *)at);
}

// The one to seven bytes before `end`, and zeros; eight may be read before it.
BY_LANES INLINE __m128i eight_before(const uint8_t *at, const uint8_t *end)
{
    uint64_t w = 0;
    memcpy(&w, end - sizeof w, sizeof w);
    return _mm_cvtsi64_si128((int64_t)(w >> 8 * (at + sizeof w - end)));
}

// Four that do not fit eight bytes, out of sixteen: two and two.
BY_LANES INLINE struct four four_of_pairs(const uint8_t *at)
{
    __m128i eight = eight_at(at);
    unsigned used = pair_used[_mm_movemask_epi8(eight) & 0xff];
    __m128i more = eight_at(at + used);
    unsigned more_used = pair_used[_mm_movemask_epi8(more) & 0xff];
    __m128i lanes = _mm_unpacklo_epi64(four_of(eight).lanes, four_of(more).lanes);
    return (struct four){lanes, used && more_used ? used + more_used : 0};
}

// Subtracts the entries up to `lane` again: the sum of that lane wrapped.
BY_LANES __attribute__((noinline, cold)) static bool take_back(int64_t *to, __m128i places,
                                                               __m128i values, int64_t unit,
                                                               int lane)
{
    uint32_t place[4];
    int32_t value[4];
    _mm_storeu_si128((__m128i *)place, places);
    _mm_storeu_si128((__m128i *)value, values);
    for (; lane >= 0; lane--) {
        int64_t *sum = &to[place[lane]];
        *sum = (int64_t)((uint64_t)*sum - (uint64_t)(value[lane] * unit));
    }
    return false;
}

// Adds four entries; adds none and says false if any fails a check. The products fit, as unit is
// not large.
BY_LANES INLINE bool add_four(struct rest *r, __m128i deltas, __m128i values)
{
    __m128i zero = _mm_cmpeq_epi32(_mm_min_epu32(deltas, values), _mm_setzero_si128());
    if (_mm_movemask_epi8(zero) != 0) return false;
    __m128i places = _mm_add_epi32(deltas, _mm_slli_si128(deltas, 4));
    places = _mm_add_epi32(places, _mm_slli_si128(places, 8));
    uint32_t step = (uint32_t)_mm_extract_epi32(places, 3);
    if (step >= r->n) return false;
    __m128i sign = _mm_sub_epi32(_mm_setzero_si128(), _mm_and_si128(values, _mm_set1_epi32(1)));
    values = _mm_xor_si128(_mm_srli_epi32(values, 1), sign);
#define ADD_LANE(i)                                              \
    if (!sum_add(&r->to[(uint32_t)_mm_extract_epi32(places, i)], \
                 r->unit * _mm_extract_epi32(values, i))) {      \
        return take_back(r->to, places, values, r->unit, i);     \
    }
    ADD_LANE(0)
    ADD_LANE(1)
    ADD_LANE(2)
    ADD_LANE(3)
    r->to += step;
    r->n -= step;
    return true;
}

// `at` is behind the first entry: those left may not be stack 0. Eight bytes may be read of deltas,
// as four of them are left and four bytes of values. (deltas and values apart in struct run: else
// GCC adds to both in one register and takes them out of it again each time.)
BY_LANES static void add_fours(struct run *at, const uint8_t *end, struct rest rest)
{
    struct run r = *at;
    uint64_t before = rest.n;
    while (r.left >= 4 && end - r.values >= 8) {
        struct four deltas = four_of(eight_at(r.deltas));
        struct four values = four_of(eight_at(r.values));
        if (!values.used && end - r.values >= 16) values = four_of_pairs(r.values);
        if (!deltas.used || !values.used) break;
        if (!add_four(&rest, deltas.lanes, values.lanes)) break;
        r.left -= 4;
        r.deltas += deltas.used;
        r.values += values.used;
    }
    while (r.left >= 4 && end - r.values >= 4 && end - r.values < 8) {
        struct four deltas = four_of(eight_at(r.deltas));
        struct four values = four_of(eight_before(r.values, end));
        if (!deltas.used || !values.used || values.used > end - r.values) break;
        if (!add_four(&rest, deltas.lanes, values.lanes)) break;
        r.left -= 4;
        r.deltas += deltas.used;
        r.values += values.used;
    }
    r.stack += before - rest.n;
    *at = r;
}

// Four bytes are 28 bits.
static bool can_add_fours(int64_t unit)
{
    const int64_t most = INT64_MAX >> 28;
    return unit >= -most && unit <= most && __builtin_cpu_supports("sse4.1");
}
#else
static void add_fours(struct run *at, const uint8_t *end, struct rest rest)
{
    (void)at;
    (void)end;
    (void)rest;
}

static bool can_add_fours(int64_t unit)
{
    (void)unit;
    return false;
}
#endif

// Adds short entries, with the reader's state in registers: this is where queries spend their time.
// Stops before an entry that it cannot read.
static bool add_quickly(struct reader *r, int64_t unit, int64_t *sums, size_t n)
{
    assert(n > 0 && r->stack < n);
    struct run at = {r->deltas, r->left, r->values, r->stack, r->left == r->n ? 0 : 1};
    if (can_add_fours(unit)) {
        if (!at.least) add_ones(&at, r->end, 1, unit, sums, n);
        if (at.least) add_fours(&at, r->end, (struct rest){&sums[at.stack], n - at.stack, unit});
        add_ones(&at, r->end, 4, unit, sums, n);
    } else {
        add_ones(&at, r->end, at.left, unit, sums, n);
    }
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
    assert(n == 0 || sums);
    if (!read_head(&r, columns, e)) return false;
    // Divisor times factor may not fit where each value times both does: then entries are added one
    // by one, with the two products checked in turn.
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

bool columns_add_wide(str columns, int64_t factor, struct wide *sums, size_t n, err *e)
{
    struct reader r;
    struct vector_entry v;
    if (!read_head(&r, columns, e)) return false;
    while (r.left > 0) {
        if (!next(&r, &v, e)) return false;
        if (v.stack >= n) return outside(v.stack, n, e);
        wide_add_product(&sums[v.stack], v.value, factor);
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
    if (!list) return arena_fail(a, e);
    for (size_t i = 0; i < r.n; i++) {
        if (!next(&r, &list[i], e)) return false;
    }
    assert(r.left == 0);
    *v = list;
    *n = (size_t)r.n;
    return done(&r, e);
}
