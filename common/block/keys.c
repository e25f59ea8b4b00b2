// SPDX-License-Identifier: Apache-2.0
//
// Reading the labels of keys, and selecting keys. Every number of a column is checked against its
// values when it is parsed, so that selecting can index without checks.
#include "block/keys.h"

#include "base/search.h"
#include "block/keys_int.h"
#include "codec/varint.h"

// The keys from the end of the run before to its own end - 1 have the same value.
struct run {
    uint32_t end;
    uint32_t number;  // 0: none
};

struct column {
    const str *values;
    uint32_t value_count;
    uint32_t width;  // KEYS_RUNS: runs, else bytes of each number
    const uint8_t *bytes;
    const struct run *runs;
    uint32_t run_count;
};

struct block_postings {
    uint32_t keys;
    uint32_t name_count;
    const str *names;
    const struct column *columns;  // by name
};

// Byte by byte, as columns lie at any address and numbers are little-endian.
static uint32_t number_at(const struct column *c, uint32_t key)
{
    const uint8_t *p = c->bytes + (size_t)key * c->width;
    if (c->width == 1) return p[0];
    if (c->width == 2) return p[0] | (uint32_t)p[1] << 8;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// ---- parsing

struct parser {
    struct arena *arena;
    const uint8_t *at;
    const uint8_t *end;
    uint32_t keys;
    err *e;
};

static bool fault(struct parser *p, const char *what)
{
    return err_set(p->e, ERR_DATA_LOSS, "labels of keys: %s", what);
}

// A number of items, each of which takes `bytes` at least: more than fit into the rest are damage,
// so nobody allocates for a number that was made up.
static bool get_count(struct parser *p, uint64_t bytes, const char *what, uint32_t *v)
{
    uint64_t n = 0;
    if (!varint_get(&p->at, p->end, &n)) return fault(p, what);
    if (n > (uint64_t)(p->end - p->at) / bytes || n >= UINT32_MAX) return fault(p, what);
    *v = (uint32_t)n;
    return true;
}

static bool get_text(struct parser *p, const char *what, str *out)
{
    uint32_t n = 0;
    if (!get_count(p, 1, what, &n)) return false;
    *out = str_make(p->at, n);
    p->at += n;
    return str_utf8(*out) || fault(p, what);
}

static bool get_values(struct parser *p, struct column *c)
{
    if (!get_count(p, 1, "number of values", &c->value_count)) return false;
    if (c->value_count == 0) return fault(p, "a name without values");
    str *values = ARENA_ARRAY(p->arena, str, c->value_count);
    if (!values) return arena_fail(p->arena, p->e);
    for (uint32_t i = 0; i < c->value_count; i++) {
        if (!get_text(p, "a value", &values[i])) return false;
        if (i && str_cmp(values[i - 1], values[i]) >= 0) return fault(p, "values out of order");
    }
    c->values = values;
    return true;
}

static bool get_runs(struct parser *p, struct column *c)
{
    if (!get_count(p, 2, "number of runs", &c->run_count)) return false;
    struct run *runs = ARENA_ARRAY(p->arena, struct run, c->run_count);
    if (!runs) return arena_fail(p->arena, p->e);
    uint32_t key = 0;
    for (uint32_t i = 0; i < c->run_count; i++) {
        uint64_t length = 0;
        uint64_t number = 0;
        if (!varint_get(&p->at, p->end, &length) || !varint_get(&p->at, p->end, &number)) {
            return fault(p, "a run is cut off");
        }
        if (length == 0 || length > p->keys - key) return fault(p, "length of a run");
        if (number > c->value_count) return fault(p, "number of a value");
        key += (uint32_t)length;
        runs[i] = (struct run){key, (uint32_t)number};
    }
    if (key != p->keys) return fault(p, "runs do not cover all keys");
    c->runs = runs;
    return true;
}

static bool get_column(struct parser *p, struct column *c)
{
    if (p->at == p->end) return fault(p, "a column is cut off");
    c->width = *p->at++;
    if (c->width == KEYS_RUNS) return get_runs(p, c);
    if (c->width != 1 && c->width != 2 && c->width != 4) return fault(p, "form of a column");
    if ((uint64_t)(p->end - p->at) / c->width < p->keys) return fault(p, "a column is cut off");
    c->bytes = p->at;
    p->at += (size_t)p->keys * c->width;
    for (uint32_t k = 0; k < p->keys; k++) {
        if (number_at(c, k) > c->value_count) return fault(p, "number of a value");
    }
    return true;
}

// Adds the column's labels to the counts of each key. Every value must be some key's: labels have
// one encoding only, and a value that no key has would break that.
static bool count_column(struct parser *p, const struct column *c, uint32_t *counts, uint64_t *sum)
{
    bool *seen = ARENA_ARRAY(p->arena, bool, (size_t)c->value_count + 1);
    if (!seen) return arena_fail(p->arena, p->e);
    uint32_t key = 0;
    uint32_t run_count = c->width == KEYS_RUNS ? c->run_count : p->keys;
    for (uint32_t i = 0; i < run_count; i++) {
        uint32_t number = c->width == KEYS_RUNS ? c->runs[i].number : number_at(c, i);
        uint32_t end = c->width == KEYS_RUNS ? c->runs[i].end : i + 1;
        seen[number] = true;
        if (number) *sum += end - key;
        for (; key < end; key++)
            counts[key] += number != 0;
    }
    for (uint32_t i = 1; i <= c->value_count; i++) {
        if (!seen[i]) return fault(p, "a value that no key has");
    }
    return true;
}

static void fill_column(const struct column *c, str name, uint32_t keys, label **next)
{
    uint32_t key = 0;
    uint32_t run_count = c->width == KEYS_RUNS ? c->run_count : keys;
    for (uint32_t i = 0; i < run_count; i++) {
        uint32_t number = c->width == KEYS_RUNS ? c->runs[i].number : number_at(c, i);
        uint32_t end = c->width == KEYS_RUNS ? c->runs[i].end : i + 1;
        if (number == 0) {
            key = end;
            continue;
        }
        for (; key < end; key++)
            *next[key]++ = (label){name, c->values[number - 1]};
    }
}

// The labels of all keys, in one array: counted first, then filled name by name. Names are in
// order, so each key's labels come out in order.
static bool make_keys(struct parser *p, const struct block_postings *q, labels **out)
{
    uint32_t *counts = ARENA_ARRAY(p->arena, uint32_t, p->keys);
    if (!counts) return arena_fail(p->arena, p->e);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < q->name_count; i++) {
        if (!count_column(p, &q->columns[i], counts, &sum)) return false;
    }
    labels *keys = ARENA_ARRAY(p->arena, labels, p->keys);
    label *all = ARENA_ARRAY(p->arena, label, sum);
    label **next = ARENA_ARRAY(p->arena, label *, p->keys);
    if (!keys || !all || !next) return arena_fail(p->arena, p->e);
    for (uint32_t k = 0; k < p->keys; k++) {
        keys[k] = (labels){all, counts[k]};
        next[k] = all;
        all += counts[k];
    }
    for (uint32_t i = 0; i < q->name_count; i++)
        fill_column(&q->columns[i], q->names[i], p->keys, next);
    for (uint32_t k = 0; k < p->keys; k++)
        assert(next[k] == keys[k].v + keys[k].n);
    *out = keys;
    return true;
}

bool block_postings_parse(struct arena *a, str bytes, uint32_t n, const struct block_postings **out,
                          labels **keys, err *e)
{
    const uint8_t *from = (const uint8_t *)bytes.p;
    struct parser p = {
        .arena = a, .at = from, .end = bytes.n ? from + bytes.n : from, .keys = n, .e = e};
    struct block_postings *q = ARENA_NEW(a, struct block_postings);
    if (!q) return arena_fail(a, e);
    q->keys = n;
    // A name takes four bytes at least: its length, the number of values, a value's length, a form.
    if (!get_count(&p, 4, "number of names", &q->name_count)) return false;
    if (n == 0 && q->name_count) return fault(&p, "names without keys");
    str *names = ARENA_ARRAY(a, str, q->name_count);
    struct column *columns = ARENA_ARRAY(a, struct column, q->name_count);
    if (!names || !columns) return arena_fail(a, e);
    for (uint32_t i = 0; i < q->name_count; i++) {
        if (!get_text(&p, "a name", &names[i])) return false;
        if (i && str_cmp(names[i - 1], names[i]) >= 0) return fault(&p, "names out of order");
        if (!get_values(&p, &columns[i]) || !get_column(&p, &columns[i])) return false;
    }
    if (p.at != p.end) return fault(&p, "bytes after the last column");
    q->names = names;
    q->columns = columns;
    *out = q;
    return make_keys(&p, q, keys);
}

// ---- asking

static const struct column *find_column(const struct block_postings *p, str name)
{
    size_t i = SEARCH(at, 0, p->name_count, str_cmp(p->names[at], name) < 0);
    return i < p->name_count && str_eq(p->names[i], name) ? &p->columns[i] : NULL;
}

// Takes keys from .. end - 1 out of the set, a word at a time where it can.
static void drop_run(struct block_set *s, uint32_t from, uint32_t end)
{
    assert(from <= end && end <= s->n);
    for (; from < end && from % 64; from++)
        s->words[from / 64] &= ~(UINT64_C(1) << (from % 64));
    for (; end - from >= 64; from += 64)
        s->words[from / 64] = 0;
    for (; from < end; from++)
        s->words[from / 64] &= ~(UINT64_C(1) << (from % 64));
}

// Takes out the keys for whose value the matcher does not hold.
static void keep(const struct column *c, uint32_t keys, const bool *holds, struct block_set *s)
{
    if (c->width == KEYS_RUNS) {
        uint32_t from = 0;
        for (uint32_t i = 0; i < c->run_count; i++) {
            if (!holds[c->runs[i].number]) drop_run(s, from, c->runs[i].end);
            from = c->runs[i].end;
        }
        return;
    }
    for (uint32_t k = 0; k < keys; k += 64) {
        uint64_t word = 0;
        uint32_t n = MIN(64, keys - k);
        for (uint32_t i = 0; i < n; i++)
            word |= (uint64_t)holds[number_at(c, k + i)] << i;
        s->words[k / 64] &= word;
    }
}

static bool apply(const struct block_postings *p, struct arena *a, const struct selector *sel,
                  const struct matcher *m, struct block_set *out, err *e)
{
    const struct column *c = find_column(p, m->name);
    bool without = false;
    assert(out->n == p->keys);
    // A key without the label is treated as if its value were empty, as in Prometheus.
    if (!matcher_test(sel, m, (str){0}, &without, e)) return false;
    if (!c) {
        if (!without) drop_run(out, 0, p->keys);
        return true;
    }
    // Each distinct value is tested once, however many keys have it.
    bool *holds = ARENA_ARRAY(a, bool, (size_t)c->value_count + 1);
    if (!holds) return arena_fail(a, e);
    holds[0] = without;  // keys without the label: their number is 0
    for (uint32_t i = 0; i < c->value_count; i++) {
        if (!matcher_test(sel, m, c->values[i], &holds[i + 1], e)) return false;
    }
    keep(c, p->keys, holds, out);
    return true;
}

bool block_select(const struct block_postings *p, struct arena *a, const struct selector *sel,
                  struct block_set *out, err *e)
{
    size_t words = ((size_t)p->keys + 63) / 64;
    *out = (struct block_set){ARENA_ARRAY(a, uint64_t, words), p->keys};
    if (!out->words) return arena_fail(a, e);
    if (words) memset(out->words, 0xff, words * sizeof *out->words);
    // No bit beyond the last key: words are also read as a whole.
    if (p->keys % 64) out->words[words - 1] = (UINT64_C(1) << (p->keys % 64)) - 1;
    for (size_t i = 0; i < sel->n; i++) {
        if (!apply(p, a, sel, &sel->v[i], out, e)) return false;
    }
    return true;
}
