// SPDX-License-Identifier: Apache-2.0
//
// Frames of totals, heads and details: columns of numbers, in parts. Each parse allocates by the
// count of the index, which is bounded (is_run), not by numbers of the frame.
#include "block/wire_int.h"

#define SLOTS_MOST (INT64_MAX / SLOT_MINUTE)

// How many rows the next part of a frame has. Parts have one row at least, so a reader gets on; 0
// only after a fault.
static size_t part_of(struct wire *w, uint64_t count, size_t done)
{
    assert(done < count);
    uint64_t n = wire_u64(w);
    if (n >= 1 && n <= count - done) return (size_t)n;
    wire_fail(w, "its parts have other numbers of rows than the frame");
    return 0;
}

static bool is_run(uint64_t count, const char *what, err *e)
{
    if (count <= BLOCK_RUN_MAX) return true;
    return err_set(e, ERR_DATA_LOSS, "%s: %llu in a frame, of which at most %d", what,
                   (unsigned long long)count, BLOCK_RUN_MAX);
}

static bool all_are(const int64_t *v, size_t n, int64_t one)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i] != one) return false;
    }
    return true;
}

bool block_totals_parse(struct arena *a, str contents, uint64_t count, struct block_total **out,
                        err *e)
{
    if (!is_run(count, "totals", e)) return false;
    struct wire w = wire_of(contents);
    struct block_total *v = ARENA_ARRAY(a, struct block_total, count);
    int64_t *columns = ARENA_ARRAY(a, int64_t, 3 * count);
    if (!v || !columns) return arena_fail(a, e);
    for (size_t done = 0; done < count && !w.fault;) {
        size_t n = part_of(&w, count, done);
        // Column after column of this part. `columns` has room for all of a part, however large.
        for (size_t c = 0; c < 3; c++)
            wire_numbers(&w, columns + c * n, n);
        for (size_t i = 0; i < n; i++) {
            if (columns[2 * n + i] < 0) wire_fail(&w, "a number of profiles is negative");
            // Slots of minutes are the narrowest that totals have. Beyond them there is no time,
            // and readers that look at the next slot need room for it.
            if (columns[i] > SLOTS_MOST || columns[i] < -SLOTS_MOST)
                wire_fail(&w, "a slot of totals is of no time");
            v[done + i] =
                (struct block_total){columns[i], columns[n + i], (uint64_t)columns[2 * n + i]};
        }
        done += n;
    }
    *out = v;
    return wire_done(&w, "totals", e);
}

bool block_heads_parse(struct arena *a, str contents, uint64_t count, struct block_heads *out,
                       err *e)
{
    if (!is_run(count, "heads", e)) return false;
    struct wire w = wire_of(contents);
    int64_t *times = ARENA_ARRAY(a, int64_t, count);
    int64_t *totals = ARENA_ARRAY(a, int64_t, count);
    int64_t *numbers = ARENA_ARRAY(a, int64_t, count);
    uint32_t *attempts = ARENA_ARRAY(a, uint32_t, count);
    if (!arena_ok(a, e)) return false;
    for (size_t done = 0; done < count && !w.fault;) {
        size_t n = part_of(&w, count, done);
        wire_numbers(&w, times + done, n);
        wire_numbers(&w, totals + done, n);
        wire_numbers(&w, numbers + done, n);
        done += n;
    }
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] < 0 || numbers[i] > UINT32_MAX) wire_fail(&w, "an attempt is none");
        attempts[i] = (uint32_t)numbers[i];
    }
    *out = (struct block_heads){times, totals, all_are(numbers, count, 0) ? NULL : attempts, count};
    return wire_done(&w, "heads", e);
}

// ---- details

struct details {
    struct arena *a;
    struct wire w;
    const struct block_heads *heads;
    struct block_details *out;
    size_t n;
    int64_t *numbers;  // scratch
};

static void read_columns(struct details *d)
{
    size_t n = d->n;
    int64_t *columns[4] = {0};
    for (size_t c = 0; c < COUNT(columns); c++)
        columns[c] = ARENA_ARRAY(d->a, int64_t, n);
    uint64_t *vectors = ARENA_ARRAY(d->a, uint64_t, n);
    if (d->a->exhausted) return;
    for (size_t done = 0; done < n && !d->w.fault;) {
        size_t part = part_of(&d->w, n, done);
        for (size_t c = 0; c < COUNT(columns); c++)
            wire_numbers(&d->w, columns[c] + done, part);
        done += part;
    }
    for (size_t i = 0; i < n; i++) {
        if (columns[0][i] < 0) wire_fail(&d->w, "the number of a vector is negative");
        if (columns[1][i] == 0) wire_fail(&d->w, "a factor is 0");
        vectors[i] = (uint64_t)columns[0][i];
    }
    // A column in which all rows have the usual number is left out: readers test for NULL once.
    d->out->vectors = vectors;
    d->out->factors = all_are(columns[1], n, 1) ? NULL : columns[1];
    d->out->durations = all_are(columns[2], n, 0) ? NULL : columns[2];
    d->out->periods = all_are(columns[3], n, 0) ? NULL : columns[3];
}

static labels read_labels(struct details *d)
{
    size_t n = (size_t)wire_count(&d->w, 2);
    label *v = ARENA_ARRAY(d->a, label, n);
    for (size_t i = 0; v && i < n; i++) {
        v[i].name = wire_str(&d->w);
        v[i].value = wire_str(&d->w);
        if (!str_utf8(v[i].name) || !str_utf8(v[i].value)) {
            wire_fail(&d->w, "an annotation is not valid UTF-8");
        }
    }
    return (labels){v, n};
}

static void read_annotations(struct details *d)
{
    size_t sets = (size_t)wire_count(&d->w, 1);
    if (sets == 0 || d->w.fault) return;
    labels *set = ARENA_ARRAY(d->a, labels, sets);
    labels *annotations = ARENA_ARRAY(d->a, labels, d->n);
    if (!set || !annotations) return;
    for (size_t i = 0; i < sets && !d->w.fault; i++)
        set[i] = read_labels(d);
    wire_numbers(&d->w, d->numbers, d->n);
    for (size_t i = 0; i < d->n && !d->w.fault; i++) {
        uint64_t number = (uint64_t)d->numbers[i];
        if (number > sets) {
            wire_fail(&d->w, "annotations of a row are none");
        } else if (number > 0) {
            annotations[i] = set[number - 1];
        }
    }
    d->out->annotations = annotations;
}

static void read_first_streams(struct details *d)
{
    uint64_t n = wire_count(&d->w, 1 + sizeof(id128));
    if (n == 0 || d->w.fault) return;
    id128 *v = ARENA_ARRAY(d->a, id128, d->n);
    if (!v) return;
    uint64_t row = 0;
    for (uint64_t i = 0; i < n && !d->w.fault; i++, row++) {
        uint64_t gap = wire_u64(&d->w);
        id128 id = wire_id(&d->w);
        if (gap >= d->n || row + gap >= d->n) {
            wire_fail(&d->w, "a first stream is of no row");
            return;
        }
        row += gap;
        v[row] = id;
    }
    d->out->first_streams = v;
}

// ---- profile ids: of an id's time only the difference to the row's time is stored. Its other 74
// bits are stored as nine bytes for each row, then two bits for each row. A row that has a sibling
// (another sample type of the same profile) is stored as the bits in which the two differ.
struct ids {
    const struct block_id_bits *bits;
    uint64_t bit_count;
    uint32_t *back;     // by row: how far back its sibling is; 0: it stands in full
    uint32_t *bits_of;  // by row
    uint64_t standing;  // rows that stand in full
};

static void read_bits(struct details *d, struct ids *x)
{
    struct wire *w = &d->w;
    x->bit_count = wire_count(w, sizeof *x->bits);
    str bits = wire_bytes(w, x->bit_count * sizeof *x->bits);
    x->bits = (const struct block_id_bits *)bits.p;
    for (uint64_t i = 0; i < x->bit_count && !w->fault; i++) {
        const uint8_t *b = x->bits[i].b;
        if (b[0] >> 4 || b[2] >> 6) wire_fail(w, "ids of siblings differ in what all ids have");
    }
}

static void read_runs(struct details *d, struct ids *x)
{
    struct wire *w = &d->w;
    uint64_t runs = wire_count(w, 2);
    uint64_t row = 0;
    for (uint64_t r = 0; r < runs && !w->fault; r++) {
        uint64_t rows = wire_u64(w);
        uint64_t back = wire_u64(w);
        uint64_t bits = back ? wire_u64(w) : 0;
        // back <= row: the sibling is an earlier row, whose id is known when this one is read.
        if (rows == 0 || rows > d->n - row || back > row || (back && bits >= x->bit_count)) {
            wire_fail(w, "a run of ids has no rows, or siblings that are none");
            return;
        }
        for (uint64_t i = row; i < row + rows; i++) {
            x->back[i] = (uint32_t)back;
            x->bits_of[i] = (uint32_t)bits;
        }
        row += rows;
        if (!back) x->standing += rows;
    }
    if (row != d->n) wire_fail(w, "runs of ids have other rows than the frame");
}

// The first 48 bits of a profile's id: milliseconds, the most significant byte first.
static void put_ms(id128 *id, uint64_t ms)
{
    for (int b = 0; b < BLOCK_ID_TIME; b++)
        id->b[b] = (uint8_t)(ms >> (8 * (BLOCK_ID_TIME - 1 - b)));
}

static void read_uuids(struct details *d, const struct ids *x, id128 *v)
{
    struct wire *w = &d->w;
    assert(d->numbers && x->standing <= d->n);
    str most = wire_bytes(w, x->standing * 9);
    str bits = wire_bytes(w, (x->standing + 3) / 4);
    size_t done = 0;
    for (size_t i = 0; i < d->n && !w->fault; i++) {
        put_ms(&v[i], block_ms_of(d->heads->times[i]) + (uint64_t)d->numbers[i]);
        if (x->back && x->back[i]) {
            const struct block_id_bits *differ = &x->bits[x->bits_of[i]];
            for (size_t b = 0; b < sizeof differ->b; b++)
                v[i].b[BLOCK_ID_TIME + b] = v[i - x->back[i]].b[BLOCK_ID_TIME + b] ^ differ->b[b];
            continue;
        }
        const uint8_t *from = (const uint8_t *)most.p + 9 * done;
        unsigned two = (uint8_t)bits.p[done / 4] >> (2 * (done % 4)) & 3;
        v[i].b[6] = (uint8_t)(0x80 | two << 2 | from[0] >> 6);
        v[i].b[7] = from[1];
        v[i].b[8] = (uint8_t)(0x80 | (from[0] & 0x3f));
        memcpy(v[i].b + 9, from + 2, 7);
        done++;
    }
    assert(w->fault || done == x->standing);
}

static void read_ids(struct details *d)
{
    struct wire *w = &d->w;
    struct ids x = {.standing = d->n};
    id128 *v = ARENA_ARRAY(d->a, id128, d->n);
    d->out->ids = v;
    if (!v) return;
    uint8_t form = wire_byte(w);
    if (form == BLOCK_IDS_ANY) {
        for (size_t i = 0; i < d->n && !w->fault; i++)
            v[i] = wire_id(w);
        return;
    }
    if (form > BLOCK_IDS_SIBLINGS) wire_fail(w, "ids have a form that is none");
    wire_numbers(w, d->numbers, d->n);
    if (form == BLOCK_IDS_SIBLINGS) {
        x.standing = 0;
        x.back = ARENA_ARRAY(d->a, uint32_t, d->n);
        x.bits_of = ARENA_ARRAY(d->a, uint32_t, d->n);
        if (d->a->exhausted) return;
        read_bits(d, &x);
        read_runs(d, &x);
    }
    read_uuids(d, &x, v);
}

bool block_details_parse(struct arena *a, str contents, const struct block_heads *heads,
                         struct block_details *out, err *e)
{
    if (!is_run(heads->n, "details", e)) return false;
    struct details d = {a, wire_of(contents), heads, out, (size_t)heads->n, NULL};
    *out = (struct block_details){.n = heads->n};
    d.numbers = ARENA_ARRAY(a, int64_t, d.n);
    if (!d.numbers) return arena_fail(a, e);
    read_columns(&d);
    read_annotations(&d);
    read_first_streams(&d);
    read_ids(&d);
    return arena_ok(a, e) && wire_done(&d.w, "details", e);
}
