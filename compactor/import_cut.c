// SPDX-License-Identifier: Apache-2.0
//
// import_cut.c - records in the order of blocks: by hour, then batch by batch of a service (a layer
// has one of each service), then service, type, labels, time and id.
#include "base/hash.h"
#include "base/search.h"
#include "compactor/import_int.h"

#include <stdlib.h>

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

// ---- services and series

static bool name_services(struct importing *m, err *e)
{
    const struct send_buffer *o = &m->in.out;
    size_t n = 0;
    m->services = ARENA_ARRAY(&m->arena, str, o->batch_count + 1);
    m->layers = ARENA_ARRAY(&m->arena, uint32_t, o->batch_count + 1);
    m->service_of = ARENA_ARRAY(&m->arena, uint32_t, o->batch_count + 1);
    uint32_t *seen = ARENA_ARRAY(&m->arena, uint32_t, o->batch_count + 1);
    if (!m->services || !m->layers || !m->service_of || !seen) return arena_fail(&m->arena, e);
    for (size_t i = 0; i < o->batch_count; i++)
        m->services[n++] = o->batches[i]->batch.service;
    if (n) qsort(m->services, n, sizeof *m->services, by_text);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !str_eq(m->services[i], m->services[m->service_count - 1]))
            m->services[m->service_count++] = m->services[i];
    }
    for (size_t i = 0; i < o->batch_count; i++) {
        str name = o->batches[i]->batch.service;
        size_t row = SEARCH(at, 0, m->service_count, str_cmp(m->services[at], name) < 0);
        assert(row < m->service_count && str_eq(m->services[row], name));
        m->service_of[i] = (uint32_t)row;
        m->layers[i] = seen[row]++;
    }
    return true;
}

struct ranked {
    str type;
    labels ls;
    uint32_t series;
};

static int by_type(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;
    int order = str_cmp(x->type, y->type);
    return order ? order : labels_cmp(x->ls, y->ls);
}

static bool rank_series(struct importing *m, err *e)
{
    const struct send_buffer *o = &m->in.out;
    m->ranks = ARENA_ARRAY(&m->arena, uint32_t *, o->batch_count + 1);
    if (!m->ranks) return arena_fail(&m->arena, e);
    for (size_t i = 0; i < o->batch_count; i++) {
        const struct batch *b = &o->batches[i]->batch;
        struct ranked *v = ARENA_ARRAY(&m->arena, struct ranked, b->series_count + 1);
        m->ranks[i] = ARENA_ARRAY(&m->arena, uint32_t, b->series_count + 1);
        if (!v || !m->ranks[i]) return arena_fail(&m->arena, e);
        for (uint32_t k = 0; k < b->series_count; k++)
            v[k] =
                (struct ranked){labels_get(b->series[k], S(LABEL_PROFILE_TYPE)), b->series[k], k};
        if (b->series_count) qsort(v, b->series_count, sizeof *v, by_type);
        for (uint32_t k = 0; k < b->series_count; k++)
            m->ranks[i][v[k].series] = k;
    }
    return true;
}

// ---- rows

static int by_block(const void *a, const void *b)
{
    const struct import_row *x = a;
    const struct import_row *y = b;
    if (x->hour != y->hour) return x->hour < y->hour ? -1 : 1;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    if (x->service != y->service) return x->service < y->service ? -1 : 1;
    if (x->series != y->series) return x->series < y->series ? -1 : 1;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

static bool is_copy(const struct import_row *a, const struct import_row *b)
{
    return a->batch == b->batch && a->series == b->series && id128_eq(a->id, b->id);
}

// The records of all batches in order. The same profile twice in a request is one row.
static bool order_rows(struct importing *m, struct import_row **out, size_t *n, err *e)
{
    const struct send_buffer *o = &m->in.out;
    struct import_row *v = ARENA_ARRAY(&m->arena, struct import_row, o->records + 1);
    if (!v) return arena_fail(&m->arena, e);
    *n = 0;
    for (size_t i = 0; i < o->batch_count; i++) {
        const struct batch *b = &o->batches[i]->batch;
        for (uint32_t k = 0; k < b->record_count; k++) {
            const struct record *r = &b->records[k];
            v[(*n)++] = (struct import_row){.hour = slot_of(r->time_ns, SLOT_HOUR),
                                            .layer = m->layers[i],
                                            .service = m->service_of[i],
                                            .batch = (uint32_t)i,
                                            .series = m->ranks[i][r->series],
                                            .record = k,
                                            .time_ns = r->time_ns,
                                            .id = r->id};
        }
    }
    assert(*n == o->records);
    if (*n) qsort(v, *n, sizeof *v, by_block);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (i == 0 || !is_copy(&v[kept - 1], &v[i])) v[kept++] = v[i];
    }
    m->rows_there += *n - kept;
    *n = kept;
    *out = v;
    return true;
}

// ---- streams

struct print {
    uint64_t series;
    id128 id;
};

static int by_print(const void *a, const void *b)
{
    const struct print *x = a;
    const struct print *y = b;
    if (x->series != y->series) return x->series < y->series ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

// 80 bits of a hash of the rows' series and ids, whatever the order in which they were sent.
static bool name_hour(struct importing *m, struct import_hour *h, err *e)
{
    struct arena a;
    arena_init(&a, m->memory, SIZE_MAX / 4);
    struct print *v = ARENA_ARRAY(&a, struct print, h->n);
    bool ok = arena_ok(&a, e);
    for (size_t i = 0; ok && i < h->n; i++) {
        const struct batch *b = &m->in.out.batches[h->v[i].batch]->batch;
        v[i].series = labels_fingerprint(b->series[b->records[h->v[i].record].series]);
        v[i].id = h->v[i].id;
    }
    if (ok) {
        uint8_t hash[STREAM_IMPORT_HASH];
        struct hash_state s;
        qsort(v, h->n, sizeof *v, by_print);
        hash_begin(&s);
        for (size_t i = 0; i < h->n; i++) {
            if (i && by_print(&v[i - 1], &v[i]) == 0) continue;  // copies in two batches
            hash_add(&s, &v[i].series, sizeof v[i].series);
            hash_add(&s, v[i].id.b, sizeof v[i].id.b);
        }
        uint64_t first = hash_end(&s);
        hash_add(&s, "2", 1);
        uint64_t second = hash_end(&s);
        memcpy(hash, &first, sizeof first);
        memcpy(hash + sizeof first, &second, sizeof hash - sizeof first);
        h->name = (struct segment_name){.hour = h->hour, .stream = stream_of_import(hash)};
    }
    arena_release(&a);
    return ok;
}

bool import_cut(struct importing *m, err *e)
{
    struct import_row *v = NULL;
    size_t n = 0;
    if (!name_services(m, e) || !rank_series(m, e) || !order_rows(m, &v, &n, e)) return false;
    size_t cap = 0;
    for (size_t i = 0, end = 0; i < n; i = end) {
        while (end < n && v[end].hour == v[i].hour)
            end++;
        if (!arena_grow(&m->arena, &m->hours, &cap, m->hour_count + 1, sizeof *m->hours))
            return arena_fail(&m->arena, e);
        struct import_hour *h = &m->hours[m->hour_count++];
        *h = (struct import_hour){.hour = v[i].hour, .v = v + i, .n = end - i};
        if (!name_hour(m, h, e)) return false;
    }
    return true;
}
