// SPDX-License-Identifier: Apache-2.0
//
// import_leaf.c - rows of an hour become a leaf: first blocks without names, one for each layer,
// then a merge of them in which the leaves of the hour are masks.
#include "base/fault.h"
#include "block/order.h"
#include "compactor/import_int.h"
#include "model/columns.h"
#include "store/origin.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <inttypes.h>

// A source that is a mask is read as a whole if it is not larger.
#define WHOLE_MAX ((uint64_t)4 << 20)

// ---- a block without a name

struct writing {
    struct importing *m;
    struct block_writer *writer;
    struct arena arena;  // of a service
    struct buf columns;
    const struct batch *batch;
    uint32_t *map;      // its stacks -> those of the block
    uint64_t *vectors;  // of its records: the block's number + 1
    struct arena scratch;
};

static bool mark(bool *used, str vector, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, vector, e)) return false;
    while (vector_next(&r, &v))
        used[v.stack] = true;
    return vector_done(&r, e);
}

static const struct record *base_of(const struct batch *b, const struct record *r, uint32_t *row)
{
    if (r->sibling != RECORD_NO_SIBLING) *row = r->sibling;
    assert(*row < b->record_count && b->records[*row].sibling == RECORD_NO_SIBLING);
    return &b->records[*row];
}

static bool put_symbols(struct writing *w, const struct import_row *v, size_t n, err *e)
{
    const struct batch *b = w->batch;
    struct symbol_table ordered;
    bool *used = ARENA_ARRAY(&w->arena, bool, b->symbols.stack_count);
    w->map = ARENA_ARRAY(&w->arena, uint32_t, b->symbols.stack_count);
    w->vectors = ARENA_ARRAY(&w->arena, uint64_t, b->record_count + 1);
    if (!used || !w->map || !w->vectors) return arena_fail(&w->arena, e);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = v[i].record;
        const struct record *r = &b->records[row];
        if (!mark(used, base_of(b, r, &row)->vector, e)) return false;
        for (uint32_t k = 0; k < r->span_count; k++)
            if (!mark(used, r->spans[k].vector, e)) return false;
    }
    return block_order(&w->arena, &b->symbols, used, &ordered, w->map, e) &&
           block_service(w->writer, b->service, &ordered, e);
}

static bool columns_of(struct writing *w, str vector, err *e)
{
    buf_clear(&w->columns);
    return columns_from_vector(vector, w->map, &w->scratch, &w->columns, e) &&
           buf_ok(&w->columns, e);
}

static bool put_vector(struct writing *w, uint32_t record, uint64_t *number, err *e)
{
    const struct record *base = base_of(w->batch, &w->batch->records[record], &record);
    uint64_t *known = &w->vectors[record];
    if (*known == 0) {
        if (!columns_of(w, base->vector, e) ||
            !block_vector(w->writer, buf_view(&w->columns), number, e)) {
            return false;
        }
        *known = *number + 1;
    }
    *number = *known - 1;
    return true;
}

static bool take_spans(struct writing *w, const struct record *r, struct block_row *to, err *e)
{
    if (r->span_count == 0) return true;
    struct block_span *v = ARENA_ARRAY(&w->scratch, struct block_span, r->span_count);
    for (uint32_t i = 0; v && i < r->span_count; i++) {
        v[i] =
            (struct block_span){.span_id = r->spans[i].span_id, .has_trace = r->spans[i].has_trace};
        memcpy(v[i].trace.b, r->spans[i].trace_id, sizeof v[i].trace.b);
        if (!columns_of(w, r->spans[i].vector, e)) return false;
        v[i].vector = arena_str(&w->scratch, buf_view(&w->columns));
    }
    to->spans = v;
    to->span_count = r->span_count;
    return arena_ok(&w->scratch, e);
}

static bool put_row(struct writing *w, const struct import_row *at, err *e)
{
    const struct record *r = &w->batch->records[at->record];
    struct block_row to = {.time_ns = r->time_ns,
                           .id = r->id,
                           .total = r->total,
                           .factor = r->sibling == RECORD_NO_SIBLING ? 1 : r->factor,
                           .duration_ns = r->duration_ns,
                           .period = r->period};
    bool ok = put_vector(w, at->record, &to.vector, e) && take_spans(w, r, &to, e) &&
              block_row(w->writer, &to, e);
    if (w->scratch.used > ((size_t)64 << 10)) arena_release(&w->scratch);
    return ok;
}

// The rows v[0 .. n) are of one batch.
static bool put_service(struct writing *w, const struct import_row *v, size_t n, err *e)
{
    w->batch = &w->m->in.out.batches[v->batch]->batch;
    if (!put_symbols(w, v, n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        labels ls = w->batch->series[w->batch->records[v[i].record].series];
        bool next = i == 0 || v[i].series != v[i - 1].series;
        if (next &&
            !block_key(w->writer, BLOCK_SERIES, labels_get(ls, S(LABEL_PROFILE_TYPE)), ls, e))
            return false;
        if (!put_row(w, &v[i], e)) return false;
    }
    return true;
}

static bool put_services(struct writing *w, const struct import_row *v, size_t n, err *e)
{
    bool ok = true;
    for (size_t i = 0, end = 0; ok && i < n; i = end) {
        while (end < n && v[end].service == v[i].service)
            end++;
        arena_init(&w->arena, w->m->memory, SIZE_MAX / 4);
        ok = put_service(w, v + i, end - i, e);
        arena_release(&w->arena);
    }
    return ok;
}

// The rows of one layer of an hour.
static bool write_rows(struct importing *m, const struct import_row *v, size_t n,
                       struct scratch *file, struct block_written *written, err *e)
{
    struct block_writer_options o = {.about = {.kind = BLOCK_RAW,
                                               .tenant = m->tenant,
                                               .from_hour = v->hour,
                                               .hours = 1,
                                               .pack_hi = UINT32_MAX,
                                               .classes = 1u << BLOCK_SERIES},
                                     .sink = scratch_sink,
                                     .arg = file,
                                     .memory = m->memory,
                                     .zstd_level = -1};
    struct writing w = {.m = m, .writer = block_begin(&o, e)};
    if (!w.writer) return false;
    arena_init(&w.scratch, m->memory, SIZE_MAX / 4);
    buf_init(&w.columns, m->memory, UINT32_MAX);
    bool ok = put_services(&w, v, n, e);
    if (ok)
        ok = block_finish(w.writer, written, e) && scratch_end(file, e);
    else
        block_abandon(w.writer);
    buf_release(&w.columns);
    arena_release(&w.scratch);
    return ok;
}

// ---- sources of the merge

struct sources {
    struct scratch *files;
    size_t file_count;
    struct block_merge_source *v;
    size_t n;
    uint64_t rows;
};

static void sources_release(struct sources *s)
{
    for (size_t i = 0; i < s->file_count; i++)
        scratch_release(&s->files[i]);
}

static bool write_layers(struct importing *m, const struct import_hour *h, struct sources *s,
                         err *e)
{
    for (size_t i = 0, end = 0; i < h->row_count; i = end) {
        struct block_written written = {0};
        struct scratch *file = &s->files[s->file_count];
        while (end < h->row_count && h->rows[end].layer == h->rows[i].layer)
            end++;
        if (!scratch_init(file, m->scratch, m->memory, e)) return false;
        s->file_count++;  // at once, so that it is closed whatever happens below
        if (!write_rows(m, h->rows + i, end - i, file, &written, e)) return false;
        if (!block_source_open(&m->attempt, store_origin(&file->store, m->req), S("(import)"),
                               file->size, &s->v[s->n].block, e)) {
            return false;
        }
        s->n++;
        s->rows += written.rows;
    }
    return true;
}

static bool has_imports(const struct manifest_block *b)
{
    for (uint32_t i = 0; i < b->source_count; i++)
        if (stream_is_import(b->sources[i].stream)) return true;
    return false;
}

static bool need(struct importing *m, id128 id, err *e)
{
    for (size_t i = 0; i < m->need_count; i++)
        if (id128_eq(m->needs[i], id)) return true;
    if (!arena_grow(&m->attempt, &m->needs, &m->need_cap, m->need_count + 1, sizeof *m->needs))
        return arena_fail(&m->attempt, e);
    m->needs[m->need_count++] = id;
    return true;
}

// Leaves with rows of the hour. Only those of imports can have a copy: the ids of other rows are of
// other clients.
static bool open_masks(struct importing *m, const struct import_hour *h, struct sources *s, err *e)
{
    size_t n = 0;
    size_t masks = 0;
    const struct manifest_block *v = manifest_blocks(m->snapshot.manifest, &n);
    struct block_object *names = ARENA_ARRAY(&m->attempt, struct block_object, n + 1);
    struct block_source *opened = ARENA_ARRAY(&m->attempt, struct block_source, n + 1);
    if (!names || !opened) return arena_fail(&m->attempt, e);
    for (size_t i = 0; i < n && v[i].kind == BLOCK_RAW; i++) {
        if (v[i].from_hour > h->hour || v[i].from_hour + (int64_t)v[i].hours <= h->hour) continue;
        if (!need(m, v[i].id, e)) return false;
        if (has_imports(&v[i])) names[masks++] = (struct block_object){v[i].name, v[i].bytes};
    }
    struct block_objects many = {.v = names, .n = masks, .keep = WHOLE_MAX, .out = opened};
    if (masks && !block_source_open_many(&m->attempt, store_origin(m->store, m->req), &many, e))
        return false;
    struct block_merge_source *all =
        ARENA_ARRAY(&m->attempt, struct block_merge_source, s->n + masks + 1);
    if (!all) return arena_fail(&m->attempt, e);
    memcpy(all, s->v, s->n * sizeof *all);
    for (size_t i = 0; i < masks; i++)
        all[s->n++] = (struct block_merge_source){.block = opened[i], .mask = true};
    s->v = all;
    return true;
}

// ---- the leaf

struct target {
    struct importing *m;
    str name;
    uint64_t about;
    struct store_upload *upload;
};

static bool begin(void *arg, err *e)
{
    struct target *t = arg;
    if (t->m->dry) return true;
    t->upload = store_begin(t->m->store, t->m->req, t->name, t->about, e);
    return t->upload != NULL;
}

static bool sink(void *arg, str bytes, err *e)
{
    struct target *t = arg;
    return t->m->dry || store_write(t->upload, bytes, e);
}

static void abandon(void *arg)
{
    struct target *t = arg;
    store_abandon(t->upload);
    t->upload = NULL;
}

static bool check_rows(const struct sources *s, const struct block_merge *merge,
                       const struct block_written *written, err *e)
{
    if (s->rows == written->rows + merge->duplicates) return true;
    return err_set(e, ERR_INTERNAL,
                   "%" PRIu64 " rows were to be imported, the leaf has %" PRIu64 " and %" PRIu64
                   " were copies",
                   s->rows, written->rows, merge->duplicates);
}

// The merge is done: the object is created, unless nothing is new.
static bool create(struct importing *m, struct target *t, struct manifest_block *b, err *e)
{
    bool existed = false;
    if (b->rows == 0) {
        abandon(t);
        return true;
    }
    m->leaf_bytes += b->bytes;
    if (!m->dry) {
        FAULT("import.create");
        struct store_upload *upload = t->upload;
        t->upload = NULL;  // the commit frees it, whatever becomes of it
        if (!store_commit(upload, &existed, e)) return false;
        if (existed) return err_set(e, ERR_ABORTED, "object %.*s is there already", STR(t->name));
    }
    m->leaf_count++;
    return true;
}

static bool merge(struct importing *m, const struct import_hour *h, const struct sources *s, err *e)
{
    struct manifest_block *b = &m->leaves[m->leaf_count];
    struct segment_run *run = ARENA_NEW(&m->attempt, struct segment_run);
    char text[SEGMENT_TEXT];
    uint8_t random[10];
    const uint32_t classes = 1u << BLOCK_ALL | 1u << BLOCK_SERIES;
    rand_bytes(random, sizeof random);
    segment_name_print(&h->name, text);
    str source = str_of(text);
    if (!run) return arena_fail(&m->attempt, e);
    *run = segment_run_of(&h->name);
    *b = (struct manifest_block){.id = ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random),
                                 .kind = BLOCK_RAW,
                                 .from_hour = h->hour,
                                 .hours = 1,
                                 .pack_hi = UINT32_MAX,
                                 .classes = classes,
                                 .sources = run,
                                 .source_count = 1};
    struct block_about about = {.kind = BLOCK_RAW,
                                .id = b->id,
                                .tenant = m->tenant,
                                .from_hour = h->hour,
                                .hours = 1,
                                .pack_hi = UINT32_MAX,
                                .classes = classes,
                                .sources = &source,
                                .source_count = 1};
    struct block_merge_overflow overflow = {0};
    struct block_merge work = {.what = MERGE_LEAF,
                               .req = m->req,
                               .memory = m->memory,
                               .scratch = m->scratch,
                               .sources = s->v,
                               .source_count = s->n,
                               .pack_hi = UINT32_MAX,
                               .classes = classes,
                               .overflow = &overflow};
    struct target t = {.m = m, .name = manifest_block_name(&m->attempt, m->tenant, b)};
    const struct block_merge_target target = {.begin = begin,
                                              .sink = sink,
                                              .abandon = abandon,
                                              .arg = &t};
    struct block_written written = {0};
    for (size_t i = 0; i < s->file_count; i++)
        t.about += s->files[i].size / 4;
    if (!arena_ok(&m->attempt, e) || !block_merge_run(&work, &about, &target, &written, e))
        return false;
    b->name = t.name;
    b->bytes = written.bytes;
    b->rows = written.rows;
    b->first_ns = written.first_ns;
    b->last_ns = written.last_ns;
    b->classes = work.classes;
    m->rows += written.rows;
    m->rows_there += work.duplicates;
    if (!check_rows(s, &work, &written, e)) {
        abandon(&t);
        return false;
    }
    return create(m, &t, b, e);
}

bool import_leaf(struct importing *m, struct import_hour *h, err *e)
{
    struct sources s = {0};
    uint32_t layers = 1;
    for (size_t i = 0; i < h->row_count; i++)
        layers = MAX(layers, h->rows[i].layer + 1);
    s.files = ARENA_ARRAY(&m->attempt, struct scratch, layers);
    s.v = ARENA_ARRAY(&m->attempt, struct block_merge_source, layers);
    if (!s.files || !s.v) return arena_fail(&m->attempt, e);
    bool ok = write_layers(m, h, &s, e) && open_masks(m, h, &s, e) && merge(m, h, &s, e);
    sources_release(&s);
    return ok;
}
