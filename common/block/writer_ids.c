// SPDX-License-Identifier: Apache-2.0
//
// Profile ids of a frame of rows. The time in an id nearly always is its row's. The other 74 bits
// are a hash, which no compression makes smaller. But the ids of a profile's sample types differ by
// bits that depend on the types alone (intake/send_buffer.c), and the rows of both types have
// the same order. So a run of rows names once how far back its siblings are and which bits differ,
// and only one type's ids stand in full. For two types this halves the bytes.
#include "block/writer_int.h"

// Rows around the place where a sibling should be that are looked at: one type may have a few
// profiles that the other has not.
#define NEAR 64

struct run {
    uint32_t rows;
    uint32_t back;  // to the sibling of each; 0: its ids stand in full
    uint32_t bits;  // number of the difference, among ids.bits
};

struct ids {
    const struct block_row *rows;
    uint32_t count;
    const struct writer_parts *parts;
    struct run *runs;
    uint32_t run_count;
    struct block_id_bits *bits;  // differences; equal neighbours are one
    uint32_t bit_count;
    uint32_t standing;  // rows whose ids stand in full
};

static struct block_id_bits between(id128 a, id128 b)
{
    struct block_id_bits x;
    for (size_t i = 0; i < sizeof x.b; i++)
        x.b[i] = a.b[BLOCK_ID_TIME + i] ^ b.b[BLOCK_ID_TIME + i];
    return x;
}

static bool differ_by(const struct ids *x, uint32_t a, uint32_t b, const struct block_id_bits *bits)
{
    struct block_id_bits is = between(x->rows[a].id, x->rows[b].id);
    return memcmp(&is, bits, sizeof is) == 0;
}

// How far back the sibling of row i is, a row of the same time in the part that begins at `begin`
// and ends at or before `end`. Two rows in a row must have the same difference. 0: there is no
// sibling.
static uint32_t sibling_in(const struct ids *x, uint32_t i, uint32_t place, uint32_t begin,
                           uint32_t end, struct block_id_bits *bits)
{
    uint32_t from = MAX(begin, place > NEAR ? place - NEAR : 0);
    for (uint32_t k = from; k + 1 < MIN(end, place + NEAR) && i + 1 < x->count; k++) {
        if (x->rows[k].time_ns != x->rows[i].time_ns) continue;
        *bits = between(x->rows[i].id, x->rows[k].id);
        if (differ_by(x, i + 1, k + 1, bits)) return i - k;
    }
    return 0;
}

// The same among all parts before `begin`, where that of row i begins.
static uint32_t first_sibling(const struct ids *x, uint32_t i, uint32_t begin,
                              struct block_id_bits *bits)
{
    uint32_t from = 0;
    for (size_t p = 0; p < x->parts->n && from < begin; p++) {
        uint32_t end = MIN((uint32_t)x->parts->ends[p], begin);
        uint32_t back = sibling_in(x, i, from + (i - begin), from, end, bits);
        if (back) return back;
        from = end;
    }
    return 0;
}

// The sibling of row i by bits that are known, where the last one was or near to that.
static uint32_t next_sibling(const struct ids *x, uint32_t i, uint32_t begin, uint32_t back)
{
    const struct block_id_bits *bits = &x->bits[x->bit_count - 1];
    if (differ_by(x, i, i - back, bits)) return back;
    uint32_t place = i - back;
    for (uint32_t k = place > NEAR ? place - NEAR : 0; k < MIN(begin, place + NEAR); k++) {
        if (differ_by(x, i, k, bits)) return i - k;
    }
    return 0;
}

static void add_row(struct ids *x, uint32_t back)
{
    struct run *last = x->run_count ? &x->runs[x->run_count - 1] : NULL;
    uint32_t bits = back ? x->bit_count - 1 : 0;
    if (last && last->back == back && last->bits == bits) {
        last->rows++;
    } else {
        x->runs[x->run_count++] = (struct run){1, back, bits};
    }
    x->standing += back == 0;
}

// The rows begin .. end - 1, which are of one type.
static void find_runs(struct ids *x, uint32_t begin, uint32_t end)
{
    uint32_t back = 0;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t here = 0;
        if (back) {
            here = next_sibling(x, i, begin, back);
        } else if (i - begin < NEAR) {
            here = first_sibling(x, i, begin, &x->bits[x->bit_count]);
            x->bit_count += here > 0;
        }
        if (here) back = here;
        add_row(x, here);
    }
}

// Milliseconds from the row's time to the time in its id, modulo 2^48.
static int64_t ms_beyond(const struct block_row *r)
{
    return (int64_t)((uuid_ms(r->id) - block_ms_of(r->time_ns)) & ((UINT64_C(1) << 48) - 1));
}

static void put_runs(const struct ids *x, struct buf *out)
{
    wire_put_u64(out, x->bit_count);
    for (uint32_t i = 0; i < x->bit_count; i++)
        buf_put(out, x->bits[i].b, sizeof x->bits[i].b);
    wire_put_u64(out, x->run_count);
    for (uint32_t i = 0; i < x->run_count; i++) {
        wire_put_u64(out, x->runs[i].rows);
        wire_put_u64(out, x->runs[i].back);
        if (x->runs[i].back) wire_put_u64(out, x->runs[i].bits);
    }
}

// The rows that stand in full, one after the other.
struct standing {
    const struct ids *ids;
    uint32_t run;
    uint32_t row;   // the next one,
    uint32_t left;  // and how many of the run from it on
};

static const uint8_t *next_standing(struct standing *s)
{
    while (s->left == 0) {
        if (s->run == s->ids->run_count) return NULL;
        const uint32_t rows = s->ids->runs[s->run].rows;
        if (s->ids->runs[s->run++].back) {
            s->row += rows;
        } else {
            s->left = rows;
        }
    }
    s->left--;
    return s->ids->rows[s->row++].id.b;
}

// Nine bytes of each row that stands in full, then two bits of each.
static void put_standing(const struct ids *x, struct buf *out)
{
    uint32_t done = 0;
    uint8_t bits = 0;
    struct standing s = {.ids = x};
    for (const uint8_t *b; (b = next_standing(&s));) {
        uint8_t nine[9] = {(uint8_t)((b[6] & 3) << 6 | (b[8] & 0x3f)), b[7]};
        memcpy(nine + 2, b + 9, 7);
        buf_put(out, nine, sizeof nine);
    }
    s = (struct standing){.ids = x};
    for (const uint8_t *b; (b = next_standing(&s));) {
        bits = (uint8_t)(bits | (b[6] >> 2 & 3) << (2 * (done % 4)));
        if (++done % 4 && done < x->standing) continue;
        buf_byte(out, bits);
        bits = 0;
    }
}

static bool are_uuids(const struct block_writer *w)
{
    for (uint32_t i = 0; i < w->row_count; i++) {
        const uint8_t *b = w->rows[i].id.b;
        if (b[6] >> 4 != 8 || b[8] >> 6 != 2) return false;
    }
    return true;
}

bool writer_ids(struct block_writer *w, struct buf *out, size_t *split, err *e)
{
    struct arena *a = &w->row_arena;  // which goes with the rows, when their frame is cut
    struct ids x = {.rows = w->rows,
                    .count = w->row_count,
                    .parts = &w->row_parts,
                    .runs = ARENA_ARRAY(a, struct run, w->row_count),
                    .bits = ARENA_ARRAY(a, struct block_id_bits, w->row_parts.n + 2)};
    bool ok = arena_ok(a, e);
    bool uuids = are_uuids(w);
    uint32_t begin = 0;
    for (size_t p = 0; ok && uuids && begin < w->row_count; p++) {
        uint32_t end = p < w->row_parts.n ? (uint32_t)w->row_parts.ends[p] : w->row_count;
        find_runs(&x, begin, end);
        begin = end;
    }
    for (uint32_t i = 0; i < w->row_count; i++)
        w->column[i] = ms_beyond(&w->rows[i]);
    buf_byte(out, !uuids ? BLOCK_IDS_ANY : x.bit_count ? BLOCK_IDS_SIBLINGS : BLOCK_IDS_UUID);
    if (uuids) wire_put_numbers(out, w->column, w->row_count);
    if (ok && x.bit_count) put_runs(&x, out);
    *split = out->n;
    if (ok && uuids) put_standing(&x, out);
    for (uint32_t i = 0; !uuids && i < w->row_count; i++)
        buf_put(out, w->rows[i].id.b, sizeof w->rows[i].id.b);
    return ok;
}
