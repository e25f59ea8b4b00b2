// SPDX-License-Identifier: Apache-2.0
//
// Reading never goes beyond `end`; after a fault `at` is there, so that everything that is read
// then is 0.
#include "base/number.h"
#include "block/wire_int.h"

struct wire wire_of(str contents)
{
    const uint8_t *at = (const uint8_t *)contents.p;
    return (struct wire){.at = at, .end = contents.n ? at + contents.n : at};
}

void wire_fail(struct wire *w, const char *fault)
{
    // The first fault is the cause; those after it may follow from the zeros that are read then.
    if (!w->fault) w->fault = fault;
    w->at = w->end;
}

bool wire_done(struct wire *w, const char *what, err *e)
{
    if (!w->fault && w->at != w->end) w->fault = "bytes follow its end";
    if (!w->fault) return true;
    return err_set(e, ERR_DATA_LOSS, "%s: %s", what, w->fault);
}

uint64_t wire_u64_long(struct wire *w)
{
    uint64_t v = 0;
    if (!varint_get(&w->at, w->end, &v)) wire_fail(w, "a number is cut off or has over 64 bits");
    return v;
}

int64_t wire_i64(struct wire *w)
{
    return unzigzag(wire_u64(w));
}

str wire_bytes(struct wire *w, uint64_t n)
{
    if (n > (uint64_t)(w->end - w->at)) {
        wire_fail(w, "it ends too early");
        return (str){0};
    }
    assert(w->at <= w->end);
    str s = str_make(w->at, (size_t)n);
    if (n) w->at += n;  // (`at` may be NULL if there are no bytes)
    return s;
}

uint8_t wire_byte(struct wire *w)
{
    str s = wire_bytes(w, 1);
    return s.n ? (uint8_t)*s.p : 0;
}

uint32_t wire_fixed32(struct wire *w)
{
    str s = wire_bytes(w, 4);
    const uint8_t *b = (const uint8_t *)s.p;
    if (!s.n) return 0;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

str wire_str(struct wire *w)
{
    return wire_bytes(w, wire_u64(w));
}

str wire_text(struct wire *w)
{
    str s = wire_str(w);
    if (!str_utf8(s)) wire_fail(w, "a text is not valid UTF-8");
    return s;
}

id128 wire_id(struct wire *w)
{
    id128 id = {0};
    str s = wire_bytes(w, sizeof id.b);
    if (s.n) memcpy(id.b, s.p, sizeof id.b);
    return id;
}

uint64_t wire_count(struct wire *w, size_t size)
{
    assert(size > 0);
    uint64_t n = wire_u64(w);
    if (n <= (uint64_t)(w->end - w->at) / size) return n;
    wire_fail(w, "there are fewer bytes than a number asks for");
    return 0;
}

struct block_extent wire_extent(struct wire *w, uint64_t at, uint64_t *end, bool several)
{
    struct block_extent x = {.at = at};
    uint8_t form = wire_byte(w);
    *end = at;
    if (form == WIRE_NONE) return x;
    uint64_t stored = wire_u64(w);
    if (__builtin_add_overflow(at, stored, end) || *end > INT64_MAX) {
        *end = at;
        wire_fail(w, "a section lies outside of any object");
    }
    if (form == WIRE_SEVERAL && several) return x;
    uint64_t raw = form == WIRE_PACKED || form == WIRE_LZ4 ? wire_u64(w) : stored;
    x.crc = wire_fixed32(w);
    x.packed = form == WIRE_PACKED || form == WIRE_LZ4;
    x.lz4 = form == WIRE_LZ4;
    if (form != WIRE_PLAIN && !x.packed) wire_fail(w, "a section has a form that is none");
    if (stored == 0 || stored > BLOCK_SECTION_MAX || raw > BLOCK_SECTION_MAX ||
        (x.packed && !block_raw_is_sane(stored, raw))) {
        wire_fail(w, "the size of a section is no such size");
        return x;
    }
    x.stored = (uint32_t)stored;
    x.raw = (uint32_t)raw;
    return x;
}

// A counting sort, largest counts first; equal ones keep their order.
void wire_by_count(const uint32_t *counts, uint32_t n, uint32_t most, uint64_t *places,
                   uint32_t *order)
{
    memset(places, 0, ((size_t)most + 1) * sizeof *places);
    for (uint32_t i = 0; i < n; i++) {
        assert(counts[i] <= most);
        places[counts[i]]++;
    }
    uint64_t at = 0;
    for (uint32_t c = most + 1; c-- > 0;) {
        uint64_t here = places[c];
        places[c] = at;
        at += here;
    }
    for (uint32_t i = 0; i < n; i++)
        order[places[counts[i]]++] = i;
}

void wire_put_u64(struct buf *out, uint64_t v)
{
    // Mostly there is room: then bytes are put in place, without a copy and a call.
    if (!out->failed && out->room >= out->n + VARINT_MAX) {
        out->n += varint_put((uint8_t *)out->p + out->n, v);
        return;
    }
    uint8_t bytes[VARINT_MAX];
    buf_put(out, bytes, varint_put(bytes, v));
}

void wire_put_i64(struct buf *out, int64_t v)
{
    wire_put_u64(out, zigzag(v));
}

void wire_put_fixed32(struct buf *out, uint32_t v)
{
    uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    buf_put(out, b, sizeof b);
}

void wire_put_str(struct buf *out, str s)
{
    wire_put_u64(out, s.n);
    buf_str(out, s);
}

void wire_put_extent(struct buf *out, const struct block_extent *x)
{
    enum wire_extent form = !x->packed ? WIRE_PLAIN : x->lz4 ? WIRE_LZ4 : WIRE_PACKED;
    buf_byte(out, (unsigned char)(x->stored == 0 ? WIRE_NONE : form));
    if (x->stored == 0) return;
    wire_put_u64(out, x->stored);
    if (x->packed) wire_put_u64(out, x->raw);
    wire_put_fixed32(out, x->crc);
}

// ---- columns of numbers
//
// Form 0: all are 0. Form 1: all are the number that follows (zigzag). Else base (zigzag; the
// least) and divisor, then for each its quotient q = (number - base) / divisor:
//
//     form 2    q
//     form 3    q - the one before           zigzag, modulo 2^64
//     form 4    the same of these differences
//
// The writer takes the form with the fewest bytes. Times at nearly equal intervals are form 4.
enum form {
    ZERO,
    SAME,
    PLAIN,
    DELTA,
    DELTA_OF_DELTA,
    FORMS
};

struct column {
    int64_t base;
    uint64_t divisor;
    uint64_t odd;    // the divisor is that, shifted:
    unsigned shift;  // addresses are multiples of powers of two, and a division takes long
    uint64_t last;   // quotient
    uint64_t delta;  // last difference
};

// Unsigned throughout: numbers may lie up to 2^64 - 1 apart.
static inline uint64_t quotient(const struct column *c, int64_t v)
{
    uint64_t q = ((uint64_t)v - (uint64_t)c->base) >> c->shift;
    return c->odd > 1 ? q / c->odd : q;
}

static inline uint64_t in_form(struct column *c, enum form form, int64_t v)
{
    uint64_t q = quotient(c, v);
    if (form == PLAIN) return q;
    uint64_t delta = q - c->last;
    c->last = q;
    if (form == DELTA) return zigzag((int64_t)delta);
    uint64_t second = delta - c->delta;
    c->delta = delta;
    return zigzag((int64_t)second);
}

// The first of the forms of differences whose numbers all take one byte; FORMS: neither. Found
// without counting sizes, which takes three times as long.
static enum form all_short(struct column c, const int64_t *v, size_t n)
{
    uint64_t deltas = 0;
    uint64_t seconds = 0;
    for (size_t i = 0; i < n && (deltas < 0x80 || seconds < 0x80); i++) {
        uint64_t q = quotient(&c, v[i]);
        uint64_t delta = q - c.last;
        deltas |= zigzag((int64_t)delta);
        seconds |= zigzag((int64_t)(delta - c.delta));
        c.last = q;
        c.delta = delta;
    }
    return deltas < 0x80 ? DELTA : seconds < 0x80 ? DELTA_OF_DELTA : FORMS;
}

// The form with the fewest bytes, of several the first; all of them are counted in one pass. None
// takes less than a byte for each number, and so many the first takes where all are small.
static enum form best_form(struct column c, const int64_t *v, size_t n, int64_t most, size_t *least)
{
    size_t sizes[FORMS] = {0};
    *least = n;
    if (quotient(&c, most) < 0x80) return PLAIN;
    enum form short_form = all_short(c, v, n);
    if (short_form != FORMS) return short_form;
    for (size_t i = 0; i < n; i++) {
        uint64_t q = quotient(&c, v[i]);
        uint64_t delta = q - c.last;
        sizes[PLAIN] += varint_size(q);
        sizes[DELTA] += varint_size(zigzag((int64_t)delta));
        sizes[DELTA_OF_DELTA] += varint_size(zigzag((int64_t)(delta - c.delta)));
        c.last = q;
        c.delta = delta;
    }
    enum form best = PLAIN;
    if (sizes[DELTA] < sizes[best]) best = DELTA;
    if (sizes[DELTA_OF_DELTA] < sizes[best]) best = DELTA_OF_DELTA;
    *least = sizes[best];
    return best;
}

// Whether the divisor so far is a power of two that divides v: found without a division.
static inline bool is_multiple_of_power(uint64_t divisor, uint64_t v)
{
    return divisor && !(divisor & (divisor - 1)) && !(v & (divisor - 1));
}

// In line with a form that the compiler knows, so that the loop does not ask for it.
static inline uint8_t *put_column(struct column c, enum form form, const int64_t *v, size_t n,
                                  uint8_t *to)
{
    for (size_t i = 0; i < n; i++)
        to += varint_put(to, in_form(&c, form, v[i]));
    return to;
}

void wire_put_numbers(struct buf *out, const int64_t *v, size_t n)
{
    struct column c = {.base = n ? v[0] : 0};
    int64_t most = c.base;
    for (size_t i = 1; i < n; i++) {
        c.base = MIN(c.base, v[i]);
        most = MAX(most, v[i]);
    }
    if (c.base == most) {
        buf_byte(out, c.base ? SAME : ZERO);
        if (c.base) wire_put_i64(out, c.base);
        return;
    }
    // The divisor of all distances. For random numbers it is 1 after a few, which ends the loop.
    for (size_t i = 0; i < n && c.divisor != 1; i++) {
        uint64_t above = (uint64_t)v[i] - (uint64_t)c.base;
        if (!is_multiple_of_power(c.divisor, above)) c.divisor = number_gcd(c.divisor, above);
    }
    assert(c.divisor > 0);  // not all numbers are the same
    c.shift = (unsigned)__builtin_ctzll(c.divisor);
    c.odd = c.divisor >> c.shift;
    size_t least = 0;
    enum form best = best_form(c, v, n, most, &least);
    buf_byte(out, (unsigned char)best);
    wire_put_i64(out, c.base);
    wire_put_u64(out, c.divisor);
    uint8_t *to = (uint8_t *)buf_reserve(out, least);
    if (!to) return;
    uint8_t *end = to + n;
    if (best == PLAIN && least == n) {
        for (size_t i = 0; i < n; i++)
            to[i] = (uint8_t)quotient(&c, v[i]);
    } else if (best == PLAIN) {
        end = put_column(c, PLAIN, v, n, to);
    } else if (best == DELTA) {
        end = put_column(c, DELTA, v, n, to);
    } else {
        end = put_column(c, DELTA_OF_DELTA, v, n, to);
    }
    assert(end == to + least);  // as many bytes as best_form counted
    out->n += least;
}

static void fill(int64_t *to, size_t n, int64_t v)
{
    for (size_t i = 0; i < n; i++)
        to[i] = v;
}

void wire_numbers(struct wire *w, int64_t *to, size_t n)
{
    uint8_t form = wire_byte(w);
    if (form <= SAME) {
        fill(to, n, form == SAME ? wire_i64(w) : 0);
        return;
    }
    if (form >= FORMS) wire_fail(w, "a column has a form that is none");
    int64_t base = wire_i64(w);
    uint64_t divisor = wire_u64(w);
    uint64_t most = (uint64_t)INT64_MAX - (uint64_t)base;  // how far above base a number may be
    if (divisor == 0) wire_fail(w, "the divisor of a column is 0");
    if (n > (uint64_t)(w->end - w->at)) wire_fail(w, "a column ends too early");
    const uint8_t *at = w->at;
    uint64_t last = 0;
    uint64_t delta = 0;
    for (size_t i = 0; i < n && !w->fault; i++) {
        uint64_t q = 0;
        uint64_t above = 0;
        if (!varint_get(&at, w->end, &q)) {
            wire_fail(w, "a column is cut off or a number of it has over 64 bits");
            return;
        }
        if (form != PLAIN) {
            delta = (uint64_t)unzigzag(q) + (form == DELTA_OF_DELTA ? delta : 0);
            last += delta;
            q = last;
        }
        if (__builtin_mul_overflow(q, divisor, &above) || above > most) {
            wire_fail(w, "a number of a column does not fit 64 bits");
            return;
        }
        to[i] = (int64_t)((uint64_t)base + above);
    }
    if (!w->fault) w->at = at;
}
