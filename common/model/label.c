// SPDX-License-Identifier: Apache-2.0
//
// label.c - label sets: order, look-ups, hashes, copies.
#include "model/label.h"

#include "base/hash.h"
#include "base/search.h"
#include "base/sort.h"

// Up to here insertion beats merging; a series rarely has more labels than Pyroscope's limit of 30.
#define INSERT_MAX 32

static inline bool has_later_name(label a, label b)
{
    return str_cmp(a.name, b.name) > 0;
}

static void sort_run(label *v, size_t n)
{
    INSERTION_SORT(v, n, has_later_name);
}

static void merge_runs(const label *v, label *out, size_t from, size_t middle, size_t to)
{
    size_t a = from;
    size_t b = middle;
    assert(from <= middle && middle <= to);
    for (size_t i = from; i < to; i++) {
        bool left = a < middle && (b == to || str_cmp(v[a].name, v[b].name) <= 0);
        out[i] = left ? v[a++] : v[b++];
    }
}

void labels_sort(label *v, size_t n)
{
    // A huge label set from a client must not cost n^2, so runs are merged through a copy. Without
    // memory for the copy the slow way is right as well.
    label *copy = n > INSERT_MAX ? mem_try(n * sizeof *v) : NULL;
    if (!copy) {
        sort_run(v, n);
        return;
    }
    for (size_t i = 0; i < n; i += INSERT_MAX)
        sort_run(v + i, MIN((size_t)INSERT_MAX, n - i));
    label *from = v;
    label *to = copy;
    for (size_t run = INSERT_MAX; run < n; run *= 2) {
        for (size_t i = 0; i < n; i += 2 * run)
            merge_runs(from, to, i, MIN(i + run, n), MIN(i + 2 * run, n));
        label *swap = from;
        from = to;
        to = swap;
    }
    if (from != v) memcpy(v, from, n * sizeof *v);
    mem_try_free(copy);
}

static const label *find(labels ls, str name)
{
    for (size_t i = 0; i < ls.n; i++) {
        if (str_eq(ls.v[i].name, name)) return &ls.v[i];
    }
    return NULL;
}

str labels_get(labels ls, str name)
{
    const label *l = find(ls, name);
    return l ? l->value : (str){0};
}

bool labels_has(labels ls, str name)
{
    return find(ls, name) != NULL;
}

size_t labels_place(labels ls, str name)
{
    return SEARCH(at, 0, ls.n, str_cmp(ls.v[at].name, name) < 0);
}

int label_order(const void *a, const void *b)
{
    const label *x = a;
    const label *y = b;
    int names = str_cmp(x->name, y->name);
    return names ? names : str_cmp(x->value, y->value);
}

int labels_cmp(labels a, labels b)
{
    for (size_t i = 0; i < a.n && i < b.n; i++) {
        int c = label_order(&a.v[i], &b.v[i]);
        if (c != 0) return c;
    }
    return a.n < b.n ? -1 : a.n > b.n;
}

bool labels_eq(labels a, labels b)
{
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++) {
        if (!str_eq(a.v[i].name, b.v[i].name) || !str_eq(a.v[i].value, b.v[i].value)) return false;
    }
    return true;
}

#define TEXT_MAX 1024

// The text of a small set in one piece. Nearly all sets are small, and hashing many pieces takes
// longer. SIZE_MAX: it does not fit.
static size_t put_text(labels ls, char text[TEXT_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < ls.n; i++) {
        const str parts[2] = {ls.v[i].name, ls.v[i].value};
        for (size_t k = 0; k < COUNT(parts); k++) {
            if (parts[k].n >= TEXT_MAX - n) return SIZE_MAX;
            if (parts[k].n) memcpy(text + n, parts[k].p, parts[k].n);
            n += parts[k].n;
            text[n++] = (char)0xff;
        }
    }
    return n;
}

uint64_t labels_fingerprint(labels ls)
{
    static const char separator = (char)0xff;
    char text[TEXT_MAX];
    size_t n = put_text(ls, text);
    if (n != SIZE_MAX) return hash_bytes(text, n);
    struct hash_state h;
    hash_begin(&h);
    for (size_t i = 0; i < ls.n; i++) {
        hash_add(&h, ls.v[i].name.p, ls.v[i].name.n);
        hash_add(&h, &separator, 1);
        hash_add(&h, ls.v[i].value.p, ls.v[i].value.n);
        hash_add(&h, &separator, 1);
    }
    return hash_end(&h);
}

uint64_t labels_hash(labels ls)
{
    uint64_t h = hash_table_word(ls.n);
    for (size_t i = 0; i < ls.n; i++) {
        h = hash_table_and(h, hash_table_str(ls.v[i].name));
        h = hash_table_and(h, hash_table_str(ls.v[i].value));
    }
    return h;
}

void labels_print(labels ls, struct buf *out)
{
    buf_byte(out, '{');
    for (size_t i = 0; i < ls.n; i++) {
        if (i > 0) buf_z(out, ", ");
        buf_str(out, ls.v[i].name);
        buf_byte(out, '=');
        label_quote(ls.v[i].value, out);
    }
    buf_byte(out, '}');
}

labels labels_copy(struct arena *a, labels ls)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ls.n; i++)
        bytes += ls.v[i].name.n + ls.v[i].value.n;
    // One allocation for all strings: sets have some ten labels, and an allocation has its
    // overhead.
    label *v = ARENA_ARRAY(a, label, ls.n);
    char *at = arena_new(a, bytes);
    if (!v || !at) return (labels){0};
    const char *end = at + bytes;
    for (size_t i = 0; i < ls.n; i++) {
        const str parts[2] = {ls.v[i].name, ls.v[i].value};
        str copies[2];
        for (size_t k = 0; k < COUNT(parts); k++) {
            if (parts[k].n) memcpy(at, parts[k].p, parts[k].n);
            copies[k] = (str){at, parts[k].n};
            at += parts[k].n;
        }
        v[i] = (label){copies[0], copies[1]};
    }
    assert(at == end);
    return (labels){v, ls.n};
}

bool label_name_is_legacy(str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9')) return false;
    }
    return name.n > 0;
}
