// SPDX-License-Identifier: Apache-2.0
//
// head_restore.c - reads the entries of a cut back into the head (head_log.h, docs/formats/log.md).
//
//     1. The entry's table number leads to its service, and to the lists that say which row of the
//        service's tables each row of the log has become.
//     2. The rows that the entry brings are added to the service's tables, and to these lists.
//        A row refers only to rows before it. If one of these is missing, the row gets no number.
//     3. The entry's records are staged with the numbers. A record that refers to a row without a
//        number makes the whole entry data_loss.
//
// The bytes come from a disk: every number is checked before it is used. While a service is read
// into, its tables keep their numbers (service.readers).
#include "base/hash.h"
#include "codec/pb.h"
#include "ingester/head/head_int.h"
#include "model/vector.h"

#include <inttypes.h>

struct restored {
    uint64_t table;
    struct service_head *service;  // referenced
    struct numbers numbers;
};

struct restore {
    struct head *head;
    struct mem_budget *memory;
    struct map by_table;
    struct restored *tables;
    uint32_t n;
    size_t cap;
};

// ---- life

// From here to service_read no copy replaces the service. One may have done so since the look-up;
// then it is looked up again.
static struct service_head *service_to_read(struct head *h, str tenant, str service, err *e)
{
    for (;;) {
        struct service_head *s = head_service(h, tenant, service, e);
        if (!s) return NULL;
        pthread_rwlock_wrlock(&s->lock);
        bool current = service_current(s) == s;
        s->readers += current;
        pthread_rwlock_unlock(&s->lock);
        if (current) return s;
        service_unref(s);
    }
}

static void service_read(struct service_head *s)
{
    pthread_rwlock_wrlock(&s->lock);
    assert(s->readers > 0);
    s->readers--;
    pthread_rwlock_unlock(&s->lock);
    service_unref(s);
}

struct restore *restore_new(struct head *h, struct mem_budget *memory, err *e)
{
    struct restore *r = mem_alloc(memory, sizeof *r, e);
    if (!r) return NULL;
    r->head = h;
    r->memory = memory;
    map_init(&r->by_table, memory);
    return r;
}

void restore_free(struct restore *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->n; i++) {
        struct restored *t = &r->tables[i];
        for (int k = 0; k < LOG_TABLES; k++)
            mem_free(r->memory, t->numbers.v[k], t->numbers.cap[k] * sizeof(uint32_t));
        service_read(t->service);
    }
    mem_free(r->memory, r->tables, r->cap * sizeof *r->tables);
    map_release(&r->by_table);
    mem_free(r->memory, r, sizeof *r);
}

// ---- an entry's parts

struct parts {
    str service;
    uint64_t table;
    uint64_t placing;
    str brings[LOG_TABLES];
    uint32_t records;
};

static bool read_parts(str rows, struct parts *p, err *e)
{
    *p = (struct parts){0};
    struct pb_reader r = pb_reader(rows);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field == LOG_TABLE) p->table = r.number;
        if (r.type == PB_FIXED64 && r.field == LOG_PLACING) p->placing = r.number;
        if (r.type != PB_BYTES) continue;
        if (r.field == LOG_SERVICE) p->service = r.bytes;
        if (r.field == LOG_RECORD) p->records++;
        if (r.field >= LOG_BRINGS && r.field < LOG_BRINGS + LOG_TABLES)
            p->brings[r.field - LOG_BRINGS] = r.bytes;
    }
    return pb_done(&r, e) || err_wrap(e, "LogRows");
}

struct table_key {
    const struct restore *r;
    uint64_t table;
};

static bool same_table(const void *ctx, uint32_t row)
{
    const struct table_key *k = ctx;
    return k->r->tables[row].table == k->table;
}

static struct restored *table_of(struct restore *r, str tenant, const struct parts *p, err *e)
{
    struct table_key key = {r, p->table};
    uint64_t hash = hash_table_word(p->table);
    uint32_t row = map_find(&r->by_table, hash, same_table, &key);
    if (row != MAP_NONE) {
        struct restored *t = &r->tables[row];
        if (str_eq(t->service->tenant, tenant) && str_eq(t->service->service, p->service)) return t;
        (void)err_set(e, ERR_DATA_LOSS, "table %" PRIu64 " is of another service", p->table);
        return NULL;
    }
    if (!mem_grow(r->memory, &r->tables, &r->cap, (size_t)r->n + 1, sizeof *r->tables, e))
        return NULL;
    struct service_head *s = service_to_read(r->head, tenant, p->service, e);
    if (!s) return NULL;
    if (!map_put(&r->by_table, hash, r->n, e)) {
        service_read(s);
        return NULL;
    }
    r->tables[r->n] = (struct restored){.table = p->table, .service = s};
    return &r->tables[r->n++];
}

// ---- rows that an entry brings

struct bringer {
    struct arena *arena;
    struct mem_budget *memory;
    struct service_head *service;
    struct numbers *numbers;
    const uint8_t *at;
    const uint8_t *end;
    bool cut_off;  // the bytes ended within a row: sticky
    bool lacks;    // the current row refers to one that the log does not have
};

static uint64_t number(struct bringer *x)
{
    uint64_t v = 0;
    if (!varint_get(&x->at, x->end, &v)) x->cut_off = true;
    return v;
}

static str text(struct bringer *x)
{
    uint64_t n = number(x);
    if (n > (uint64_t)(x->end - x->at)) x->cut_off = true;
    if (x->cut_off) return (str){0};
    str t = str_make((const char *)x->at, (size_t)n);
    x->at += n;
    return t;
}

// The service's row for a row of the log; row 0 is "none" in both.
static uint32_t known(struct bringer *x, enum log_table table, uint64_t row)
{
    if (row == 0) return 0;
    uint32_t found = numbers_get(x->numbers, table, row);
    if (found == 0) x->lacks = true;
    return found ? found - 1 : 0;
}

static uint32_t bring_string(struct bringer *x, err *e)
{
    str s = text(x);
    return x->cut_off ? MAP_NONE : symbols_string(&x->service->symbols, s, e);
}

static uint32_t bring_function(struct bringer *x, err *e)
{
    struct symbol_function f = {.name = known(x, LOG_STRINGS, number(x))};
    f.system_name = known(x, LOG_STRINGS, number(x));
    f.filename = known(x, LOG_STRINGS, number(x));
    f.start_line = unzigzag(number(x));
    return x->cut_off || x->lacks ? MAP_NONE : symbols_function(&x->service->symbols, f, e);
}

static uint32_t bring_mapping(struct bringer *x, err *e)
{
    struct symbol_mapping m = {.start = number(x)};
    m.limit = number(x);
    m.offset = number(x);
    m.filename = known(x, LOG_STRINGS, number(x));
    m.build_id = known(x, LOG_STRINGS, number(x));
    m.flags = (uint32_t)number(x);
    return x->cut_off || x->lacks ? MAP_NONE : symbols_mapping(&x->service->symbols, m, e);
}

static uint32_t bring_frame(struct bringer *x, err *e)
{
    struct symbol_frame f = {.function = known(x, LOG_FUNCTIONS, number(x))};
    f.line = unzigzag(number(x));
    uint64_t mapping = number(x);
    f.mapping = known(x, LOG_MAPPINGS, mapping >> 1);
    f.inlined = mapping & 1;
    f.address = number(x);
    return x->cut_off || x->lacks ? MAP_NONE : symbols_frame(&x->service->symbols, f, e);
}

static uint32_t bring_stack(struct bringer *x, uint64_t row, err *e)
{
    uint64_t up = number(x);
    uint64_t parent = up <= row ? row - up : 0;
    if (up == 0 || up > row) x->cut_off = true;
    parent = known(x, LOG_STACKS, parent);
    uint32_t frame = known(x, LOG_FRAMES, number(x));
    if (x->cut_off || x->lacks) return MAP_NONE;
    return symbols_stack(&x->service->symbols, (uint32_t)parent, frame, e);
}

static uint32_t bring_series(struct bringer *x, err *e)
{
    struct service_head *s = x->service;
    uint64_t n = number(x);
    // Each pair takes two bytes at least: a damaged count must not ask for gigabytes.
    if (n > (uint64_t)(x->end - x->at)) x->cut_off = true;
    if (x->cut_off) return MAP_NONE;
    label *pairs = ARENA_ARRAY(x->arena, label, n);
    if (!arena_ok(x->arena, e)) return MAP_NONE;
    for (uint64_t i = 0; i < n; i++) {
        pairs[i].name = text(x);
        pairs[i].value = text(x);
        if (x->cut_off) return MAP_NONE;
        // The index has room for a series once in each posting list: a name must not come twice.
        if (i > 0 && str_cmp(pairs[i - 1].name, pairs[i].name) >= 0) {
            (void)err_set(e, ERR_DATA_LOSS, "label %" PRIu64 " of a series is out of order", i);
            return MAP_NONE;
        }
    }
    labels ls = {pairs, n};
    uint32_t before = s->index.series_count;
    if (!mem_grow(service_budget(s), &s->rows, &s->rows_cap, (size_t)before + 1, sizeof *s->rows,
                  e))
        return MAP_NONE;
    uint32_t series = index_series(&s->index, ls, labels_fingerprint(ls), e);
    atomic_fetch_add_explicit(&s->head->series, s->index.series_count - before,
                              memory_order_relaxed);
    return series;
}

static uint32_t bring_row(struct bringer *x, enum log_table table, uint64_t row, err *e)
{
    switch (table) {
    case LOG_STRINGS:
        return bring_string(x, e);
    case LOG_FUNCTIONS:
        return bring_function(x, e);
    case LOG_MAPPINGS:
        return bring_mapping(x, e);
    case LOG_FRAMES:
        return bring_frame(x, e);
    case LOG_STACKS:
        return bring_stack(x, row, e);
    case LOG_SERIES:
        return bring_series(x, e);
    case LOG_TABLES:
        break;
    }
    return MAP_NONE;
}

static bool bring_one(struct bringer *x, enum log_table table, uint64_t row, err *e)
{
    struct numbers *n = x->numbers;
    x->lacks = false;
    uint32_t found = bring_row(x, table, row, e);
    if (x->cut_off) return err_set(e, ERR_DATA_LOSS, "row %" PRIu64 " is cut off", row);
    if (x->lacks) return true;
    if (found == MAP_NONE) return false;
    if (row >= n->cap[table] &&
        !mem_grow(x->memory, &n->v[table], &n->cap[table], (size_t)row + 1, sizeof(uint32_t), e)) {
        return false;
    }
    n->v[table][row] = found + 1;
    return true;
}

// Stretches of rows that follow each other: how many numbers lie between, how many rows, the rows.
// A damaged end cannot make this loop for long: each row takes at least a byte, or is cut off.
static bool bring_table(struct bringer *x, enum log_table table, str bytes, err *e)
{
    uint64_t row = 0;
    x->at = (const uint8_t *)bytes.p;
    x->end = x->at + bytes.n;
    while (x->at < x->end) {
        row += number(x);
        uint64_t end = row + number(x);
        if (x->cut_off || end < row || end >= UINT32_MAX)
            return err_set(e, ERR_DATA_LOSS, "rows up to %" PRIu64 " cannot be", end);
        for (; row < end; row++) {
            if (!bring_one(x, table, row, e)) return false;
        }
    }
    return true;
}

static bool bring(struct restore *r, struct arena *a, struct restored *t, const struct parts *p,
                  err *e)
{
    static const char *const names[LOG_TABLES] = {"strings", "functions", "mappings",
                                                  "frames",  "stacks",    "series"};
    struct bringer x = {.arena = a,
                        .memory = r->memory,
                        .service = t->service,
                        .numbers = &t->numbers};
    for (int i = 0; i < LOG_TABLES; i++) {
        if (p->brings[i].n && !bring_table(&x, (enum log_table)i, p->brings[i], e))
            return err_wrap(e, "%s", names[i]);
    }
    return true;
}

// ---- records

static bool read_id(str bytes, uint8_t id[16], err *e)
{
    if (bytes.n != 16) return err_set(e, ERR_DATA_LOSS, "an id has %zu bytes", bytes.n);
    memcpy(id, bytes.p, 16);
    return true;
}

static bool read_span(struct arena *a, str bytes, struct record *rec, size_t *cap, err *e)
{
    if (!arena_grow(a, &rec->spans, cap, (size_t)rec->span_count + 1, sizeof *rec->spans))
        return arena_fail(a, e);
    struct span_part *s = &rec->spans[rec->span_count++];
    *s = (struct span_part){0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_FIXED64) s->span_id = r.number;
        if (r.field == 2 && r.type == PB_BYTES) {
            s->has_trace = true;
            if (!read_id(r.bytes, s->trace_id, e)) return false;
        }
        if (r.field == 3 && r.type == PB_BYTES) s->vector = r.bytes;
    }
    return pb_done(&r, e);
}

static bool read_note(struct arena *a, str bytes, struct record *rec, size_t *cap, err *e)
{
    if (!arena_grow(a, &rec->annotations, cap, (size_t)rec->annotation_count + 1,
                    sizeof *rec->annotations)) {
        return arena_fail(a, e);
    }
    label *l = &rec->annotations[rec->annotation_count++];
    *l = (label){0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) l->name = r.bytes;
        if (r.field == 2 && r.type == PB_BYTES) l->value = r.bytes;
    }
    return pb_done(&r, e);
}

static void read_number(const struct pb_reader *r, struct record *rec)
{
    switch (r->field) {
    case 1:
        rec->series = (uint32_t)r->number;
        break;
    case 3:
        rec->time_ns = (int64_t)r->number;
        break;
    case 5:
        rec->duration_ns = (int64_t)r->number;
        break;
    case 6:
        rec->period = (int64_t)r->number;
        break;
    case 8:
        rec->sibling = (uint32_t)(r->number - 1);
        break;
    case 9:
        rec->factor = unzigzag(r->number);
        break;
    case 10:
        rec->total = unzigzag(r->number);
        break;
    case 12:
        rec->attempt = (uint32_t)r->number;
        break;
    case 15:
        rec->identified = r->number != 0;
        break;
    default:
        break;
    }
}

static bool read_record(struct arena *a, str bytes, struct batch *b, err *e)
{
    struct record *rec = &b->records[b->record_count];
    size_t spans = 0;
    size_t notes = 0;
    bool ok = true;
    *rec = (struct record){.sibling = RECORD_NO_SIBLING, .factor = 1};
    struct pb_reader r = pb_reader(bytes);
    while (ok && pb_next(&r)) {
        if (r.type != PB_BYTES) {
            read_number(&r, rec);
        } else if (r.field == 4) {
            ok = read_id(r.bytes, rec->id.b, e);
        } else if (r.field == 7) {
            rec->vector = r.bytes;
        } else if (r.field == 11) {
            ok = read_span(a, r.bytes, rec, &spans, e);
        } else if (r.field == 13) {
            rec->has_first_stream = true;
            ok = read_id(r.bytes, rec->first_stream.b, e);
        } else if (r.field == 14) {
            ok = read_note(a, r.bytes, rec, &notes, e);
        }
    }
    if (!ok || !pb_done(&r, e)) return false;
    // A record may share the vector of an earlier one only.
    if (rec->sibling == RECORD_NO_SIBLING || rec->sibling < b->record_count) return true;
    return err_set(e, ERR_DATA_LOSS, "its vector is that of record %u", rec->sibling);
}

static bool read_records(struct arena *a, str rows, const struct parts *p, struct batch *b, err *e)
{
    *b = (struct batch){.service = p->service,
                        .records = ARENA_ARRAY(a, struct record, p->records),
                        .placing = p->placing};
    if (!b->records) return arena_fail(a, e);
    struct pb_reader r = pb_reader(rows);
    while (pb_next(&r)) {
        if (r.field != LOG_RECORD || r.type != PB_BYTES) continue;
        if (!read_record(a, r.bytes, b, e)) return err_wrap(e, "record %u", b->record_count);
        b->record_count++;
    }
    return pb_done(&r, e);
}

bool restore_entry(struct restore *r, struct arena *a, str tenant, str rows, bool known,
                   struct staged **out, err *e)
{
    struct parts p;
    struct batch b = {0};
    *out = NULL;
    if (!read_parts(rows, &p, e)) return false;
    struct restored *t = table_of(r, tenant, &p, e);
    if (!t) return false;
    pthread_rwlock_wrlock(&t->service->lock);
    bool ok = bring(r, a, t, &p, e);
    if (ok && !known) {
        ok = read_records(a, rows, &p, &b, e) &&
             head_stage_logged(t->service, a, &b, &t->numbers, out, e);
    }
    pthread_rwlock_unlock(&t->service->lock);
    return ok || err_wrap(e, "service %.*s", STR(p.service));
}
