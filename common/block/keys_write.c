// SPDX-License-Identifier: Apache-2.0
//
// Writing the labels of keys: distinct names and values are numbered in byte order, labels are
// brought into the order of names by a counting sort, and each name's column takes the shorter one
// of its forms.
#include "base/hash.h"
#include "base/map.h"
#include "block/keys.h"
#include "block/keys_int.h"
#include "codec/varint.h"

#include <stdlib.h>

// A distinct name, or a distinct value of a name.
struct word {
    str text;
    uint32_t name;    // of a value: row of its name
    uint32_t number;  // names: place in order, from 0; values: from 1, within the name
};

struct words {
    struct word *v;
    size_t cap;
    uint32_t n;
    struct map index;
};

// A label of a key.
struct entry {
    uint32_t key;
    uint32_t value;  // row of values, later its number
};

struct encoder {
    struct arena *arena;
    const labels *keys;
    uint32_t n;
    struct words names;
    struct words values;
    struct entry *entries;  // by name, then key
    uint32_t *first;        // by name in order: its first entry; one more at the end
    struct buf *out;
};

// ---- distinct words

static uint32_t word_add(struct encoder *x, struct words *w, str text, uint32_t name, err *e)
{
    // A value belongs to its name: equal texts of two names are two words.
    uint64_t hash = hash_table_and(hash_table_str(text), name);
    uint32_t step = 0;
    for (;;) {
        uint32_t row = map_next(&w->index, hash, &step);
        if (row == MAP_NONE) break;
        if (w->v[row].name == name && str_eq(w->v[row].text, text)) return row;
    }
    if (!str_utf8(text)) {
        err_set(e, ERR_INTERNAL, "a label of a key is not valid UTF-8");
        return MAP_NONE;
    }
    if (!arena_grow(x->arena, &w->v, &w->cap, (size_t)w->n + 1, sizeof *w->v)) {
        (void)arena_fail(x->arena, e);
        return MAP_NONE;
    }
    if (!map_put(&w->index, hash, w->n, e)) return MAP_NONE;
    w->v[w->n] = (struct word){.text = text, .name = name};
    return w->n++;
}

static bool is_sorted(labels ls)
{
    for (size_t i = 1; i < ls.n; i++) {
        if (str_cmp(ls.v[i - 1].name, ls.v[i].name) >= 0) return false;
    }
    return true;
}

// The rows of the words of all labels, key after key. Most labels of a key equal the label at the
// same place of the key before; comparing them is cheaper than a look-up.
static bool intern_all(struct encoder *x, uint32_t *values, err *e)
{
    size_t at = 0;
    labels before = {0};
    for (uint32_t k = 0; k < x->n; k++) {
        labels ls = x->keys[k];
        if (!is_sorted(ls)) return err_set(e, ERR_INTERNAL, "labels of key %u are not in order", k);
        for (size_t i = 0; i < ls.n; i++, at++) {
            const label *l = &ls.v[i];
            if (i < before.n && str_eq(l->name, before.v[i].name) &&
                str_eq(l->value, before.v[i].value)) {
                assert(at >= before.n);
                values[at] = values[at - before.n];
                continue;
            }
            uint32_t name = word_add(x, &x->names, l->name, 0, e);
            if (name == MAP_NONE) return false;
            values[at] = word_add(x, &x->values, l->value, name, e);
            if (values[at] == MAP_NONE) return false;
        }
        before = ls;
    }
    return true;
}

// ---- order

static int by_text(const void *a, const void *b)
{
    const struct word *const *x = a;
    const struct word *const *y = b;
    return str_cmp((*x)->text, (*y)->text);
}

static int by_name_then_text(const void *a, const void *b)
{
    const struct word *const *x = a;
    const struct word *const *y = b;
    if ((*x)->name != (*y)->name) return (*x)->name < (*y)->name ? -1 : 1;
    return str_cmp((*x)->text, (*y)->text);
}

static struct word **sorted(struct arena *a, struct words *w,
                            int (*order)(const void *a, const void *b))
{
    struct word **v = ARENA_ARRAY(a, struct word *, w->n);
    if (!v) return NULL;
    for (uint32_t i = 0; i < w->n; i++)
        v[i] = &w->v[i];
    if (w->n) qsort(v, w->n, sizeof *v, order);
    return v;
}

// Entries of each name, in order of keys: a counting sort of all labels.
static bool sort_entries(struct encoder *x, const uint32_t *values, size_t n, err *e)
{
    x->first = ARENA_ARRAY(x->arena, uint32_t, (size_t)x->names.n + 2);
    x->entries = ARENA_ARRAY(x->arena, struct entry, n);
    if (!x->first || !x->entries) return arena_fail(x->arena, e);
    for (size_t i = 0; i < n; i++)
        x->first[x->names.v[x->values.v[values[i]].name].number + 2]++;
    // Counts stand two places further, so that placing the entries, which advances first[n + 1],
    // leaves the beginning of each name at first[n].
    for (uint32_t i = 2; i < x->names.n + 2; i++)
        x->first[i] += x->first[i - 1];
    size_t at = 0;
    for (uint32_t k = 0; k < x->n; k++) {
        for (size_t i = 0; i < x->keys[k].n; i++, at++) {
            const struct word *value = &x->values.v[values[at]];
            uint32_t place = x->first[x->names.v[value->name].number + 1]++;
            x->entries[place] = (struct entry){k, value->number};
        }
    }
    assert(at == n && x->first[x->names.n] == n);
    return true;
}

// ---- bytes

static void put_number(struct buf *out, uint64_t v)
{
    char *p = buf_reserve(out, VARINT_MAX);
    if (p) out->n += varint_put((uint8_t *)p, v);
}

static void put_text(struct buf *out, str s)
{
    put_number(out, s.n);
    buf_str(out, s);
}

// The runs of a column: their number, and the bytes that they need; written if out is not NULL.
static size_t runs(const struct entry *v, uint32_t n, uint32_t keys, struct buf *out, size_t *bytes)
{
    size_t count = 0;
    *bytes = 0;
    uint32_t i = 0;
    for (uint32_t key = 0; key < keys;) {
        uint32_t number = i < n && v[i].key == key ? v[i].value : 0;
        uint32_t end = number ? key : i < n ? v[i].key : keys;
        while (number && i < n && v[i].key == end && v[i].value == number) {
            i++;
            end++;
        }
        assert(end > key && end <= keys);  // entries ascend by key
        if (out) put_number(out, end - key);
        if (out) put_number(out, number);
        *bytes += varint_size(end - key) + varint_size(number);
        key = end;
        count++;
    }
    assert(i == n);
    return count;
}

static void put_column(struct encoder *x, const struct entry *v, uint32_t n, uint32_t values)
{
    size_t bytes = 0;
    assert(n > 0 && n <= x->n && values > 0 && values <= n);  // every value is some key's
    size_t count = runs(v, n, x->n, NULL, &bytes);
    // Runs win a tie: they are also read faster.
    uint32_t width = values <= UINT8_MAX ? 1 : values <= UINT16_MAX ? 2 : 4;
    if (bytes + varint_size(count) <= (size_t)x->n * width) {
        buf_byte(x->out, KEYS_RUNS);
        put_number(x->out, count);
        (void)runs(v, n, x->n, x->out, &bytes);
        return;
    }
    buf_byte(x->out, (unsigned char)width);
    char *p = buf_reserve(x->out, (size_t)x->n * width);
    if (!p) return;
    memset(p, 0, (size_t)x->n * width);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t b = 0; b < width; b++)
            p[(size_t)v[i].key * width + b] = (char)(v[i].value >> (8 * b));
    x->out->n += (size_t)x->n * width;
}

// ---- few labels: put in order as they come, without tables of distinct words

// Labels and keys up to which that is faster.
#define FEW_LABELS 64
#define FEW_KEYS   16

struct few {
    label l;
    uint32_t key;
};

static int by_label(const struct few *a, const struct few *b)
{
    int order = str_cmp(a->l.name, b->l.name);
    return order ? order : str_cmp(a->l.value, b->l.value);
}

// An insertion sort: labels of a key come in order of their names, which most keys share.
static bool collect_few(const struct encoder *x, struct few *v, size_t *count, err *e)
{
    size_t n = 0;
    for (uint32_t k = 0; k < x->n; k++) {
        labels ls = x->keys[k];
        if (!is_sorted(ls)) return err_set(e, ERR_INTERNAL, "labels of key %u are not in order", k);
        for (size_t i = 0; i < ls.n; i++) {
            struct few one = {ls.v[i], k};
            assert(n < FEW_LABELS);
            size_t to = n++;
            for (; to > 0 && by_label(&v[to - 1], &one) > 0; to--)
                v[to] = v[to - 1];
            v[to] = one;
        }
    }
    *count = n;
    return true;
}

// The labels v[0 .. n - 1] of one name.
static bool put_few(struct encoder *x, const struct few *v, size_t n, err *e)
{
    uint32_t numbers[FEW_KEYS] = {0};
    struct entry entries[FEW_KEYS];
    uint32_t values = 0;
    uint32_t count = 0;
    assert(n > 0 && x->n <= FEW_KEYS);
    for (size_t i = 0; i < n; i++) {
        values += i == 0 || !str_eq(v[i].l.value, v[i - 1].l.value);
        numbers[v[i].key] = values;
    }
    bool valid = str_utf8(v[0].l.name);
    put_text(x->out, v[0].l.name);
    put_number(x->out, values);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && str_eq(v[i].l.value, v[i - 1].l.value)) continue;
        valid = valid && str_utf8(v[i].l.value);
        put_text(x->out, v[i].l.value);
    }
    if (!valid) return err_set(e, ERR_INTERNAL, "a label of a key is not valid UTF-8");
    for (uint32_t k = 0; k < x->n; k++) {
        if (numbers[k]) entries[count++] = (struct entry){k, numbers[k]};
    }
    put_column(x, entries, count, values);
    return true;
}

static bool encode_few(struct encoder *x, err *e)
{
    struct few v[FEW_LABELS];
    size_t n = 0;
    uint32_t names = 0;
    if (!collect_few(x, v, &n, e)) return false;
    for (size_t i = 0; i < n; i++)
        names += i == 0 || !str_eq(v[i].l.name, v[i - 1].l.name);
    put_number(x->out, names);
    for (size_t from = 0, to = 0; from < n; from = to) {
        while (to < n && str_eq(v[to].l.name, v[from].l.name))
            to++;
        if (!put_few(x, v + from, to - from, e)) return false;
    }
    return buf_ok(x->out, e);
}

// ---- all of it

static bool encode(struct encoder *x, err *e)
{
    size_t total = 0;
    for (uint32_t k = 0; k < x->n; k++)
        total += x->keys[k].n;
    if (total >= UINT32_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "%zu labels of keys, limit %u", total,
                       UINT32_MAX - 1);
    }
    // Both ways write the same bytes.
    if (x->n <= FEW_KEYS && total <= FEW_LABELS) return encode_few(x, e);
    uint32_t *rows = ARENA_ARRAY(x->arena, uint32_t, total);
    if (!rows) return arena_fail(x->arena, e);
    if (!intern_all(x, rows, e)) return false;
    struct word **names = sorted(x->arena, &x->names, by_text);
    if (!names) return arena_fail(x->arena, e);
    for (uint32_t i = 0; i < x->names.n; i++)
        names[i]->number = i;
    struct word **values = sorted(x->arena, &x->values, by_name_then_text);
    // By name in order: where its values begin in `values`, which is in order of rows of names.
    uint32_t *at = ARENA_ARRAY(x->arena, uint32_t, (size_t)x->names.n + 1);
    if (!values || !at) return arena_fail(x->arena, e);
    for (uint32_t i = 0; i < x->values.n; i++) {
        bool next = i == 0 || values[i]->name != values[i - 1]->name;
        if (next) at[values[i]->name] = i;
        values[i]->number = i - at[values[i]->name] + 1;
    }
    at[x->names.n] = x->values.n;
    if (!sort_entries(x, rows, total, e)) return false;
    put_number(x->out, x->names.n);
    for (uint32_t i = 0; i < x->names.n; i++) {
        uint32_t row = (uint32_t)(names[i] - x->names.v);
        uint32_t count = at[row + 1] - at[row];
        put_text(x->out, names[i]->text);
        put_number(x->out, count);
        for (uint32_t v = at[row]; v < at[row + 1]; v++)
            put_text(x->out, values[v]->text);
        put_column(x, x->entries + x->first[i], x->first[i + 1] - x->first[i], count);
    }
    return buf_ok(x->out, e);
}

bool block_postings_encode(struct arena *scratch, const labels *keys, uint32_t n, struct buf *out,
                           err *e)
{
    assert(n == 0 || keys);
    struct encoder x = {.arena = scratch, .keys = keys, .n = n, .out = out};
    map_init(&x.names.index, scratch->budget);
    map_init(&x.values.index, scratch->budget);
    bool ok = encode(&x, e);
    map_release(&x.names.index);
    map_release(&x.values.index);
    return ok;
}
