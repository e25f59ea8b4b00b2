// SPDX-License-Identifier: Apache-2.0
//
// One job:
//
//     1. open the sources, small ones as a whole (open_sources)
//     2. cut the packs, so that an object has about pack_bytes (choose_cuts)
//     3. punch gaps for services that the sources have no sums of (find_gaps, punch)
//     4. merge and create one block for each cut (make_block)
//     5. if a service's sum overflows: delete these blocks, punch a gap for its pack, again from 4
//     6. leaves: compare rows in with rows out (check_rows)
//
// Any failure deletes the blocks that were created: no version ever named them. The commit is a
// step of its own, as several jobs may share it.
#include "compactor/job.h"

#include "base/fault.h"
#include "compactor/job_deletion.h"
#include "store/origin.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <inttypes.h>
#include <stdlib.h>

#define CUTS_MAX  320  // objects of a job
#define PARTS_MAX 64   // of one service
#define GAPS_MAX  32   // of a job; further ones widen the last
#define WIDER_MAX 33   // times that it is widened: it doubles each time, until it is all packs

// A source of at most WHOLE_MAX bytes is read as a whole, and of a job so many of the smallest that
// they have WHOLE_TOGETHER at most; if even those of WHOLE_LEAST have more, none is.
#define WHOLE_MAX      ((uint64_t)4 << 20)
#define WHOLE_TOGETHER ((uint64_t)64 << 20)
#define WHOLE_LEAST    ((uint64_t)4 << 10)

struct cut {
    uint32_t pack_lo;
    uint32_t pack_hi;
    uint32_t part;
    uint32_t parts;
    bool gap;
};

struct doing {
    const struct job_bench *bench;
    struct req *r;
    const struct task *job;
    struct job_report *report;
    struct arena *arena;   // for results: it lives until job_release
    struct arena reading;  // for sources: released when the job is made
    struct block_merge_source *sources;
    struct job_result *result;
    struct cut gaps[GAPS_MAX];
    size_t gap_count;
    struct hide *hides;  // what is left out
    size_t hide_count;
    uint32_t classes;  // classes that the new blocks may have
    bool of_leaves;    // a parent is made of rows
    bool spared;       // a source has no sums because rows are as small: then the result has none

    // the object that is being written
    str name;
    uint64_t about_bytes;
    struct store_upload *upload;
};

#define CLASS(c) (1u << BLOCK_##c)

// The result of each kind of job.
static const struct {
    enum block_kind kind;
    enum merge_what what;
    uint32_t classes;
} result_of[JOB_KINDS] = {
    [JOB_LEAF] = {BLOCK_RAW, MERGE_LEAF, CLASS(ALL) | CLASS(SERIES)},
    [JOB_FOLD] = {BLOCK_RAW, MERGE_LEAF, CLASS(ALL) | CLASS(SERIES)},
    [JOB_HOUR] = {BLOCK_HOURS, MERGE_HOUR, CLASS(ALL) | CLASS(PROJECTION) | CLASS(SERIES)},
    [JOB_PACK] = {BLOCK_HOURS, MERGE_PACK, CLASS(ALL) | CLASS(PROJECTION) | CLASS(SERIES)},
    [JOB_DAY] = {BLOCK_DAYS, MERGE_DAY, CLASS(ALL) | CLASS(PROJECTION) | CLASS(SERIES)},
    [JOB_WINDOW] = {BLOCK_DAYS, MERGE_WINDOW, CLASS(ALL) | CLASS(PROJECTION)},
};

// ---- sources

static str source_name(struct doing *d, const struct job_source *s, uint64_t *bytes)
{
    assert(!s->segment != !s->block);  // a source is one of the two
    *bytes = s->segment ? s->segment->bytes : s->block->bytes;
    return s->segment ? name_segment(d->arena, d->bench->tenant, &s->segment->name)
                      : s->block->name;
}

static void note_damage(struct doing *d, const struct job_source *s)
{
    d->report->damaged_segment = s->segment;
    d->report->damaged_block = s->block;
}

// Both codes mean that the object is not what was written: its bytes are wrong, or it is gone. Any
// other failure may be the store's or this machine's, and says nothing about the object.
static bool is_damage(const err *e)
{
    return e->code == ERR_DATA_LOSS || e->code == ERR_NOT_FOUND;
}

// Finds the source that a merge failed on: errors of damage name the object.
static void find_damage(struct doing *d, const err *e)
{
    if (!is_damage(e)) return;
    for (size_t i = 0; i < d->job->source_count; i++) {
        if (str_contains(str_of(e->msg), d->sources[i].block.name)) {
            note_damage(d, &d->job->sources[i]);
            return;
        }
    }
}

// The size up to which sources are read as a whole, with their footers: then each costs one read,
// however many services it has. Together they take an eighth of the worker's memory at most, so
// that the merge has the rest. Of many sources only smaller ones are, down to those that are not
// larger than the end that is read of each anyway.
static uint64_t read_whole(const struct doing *d, const struct block_object *v, size_t n)
{
    uint64_t limit = atomic_load(&d->bench->memory->limit);
    uint64_t room = limit ? MIN(limit / 8, WHOLE_TOGETHER) : WHOLE_TOGETHER;
    for (uint64_t most = WHOLE_MAX; most >= WHOLE_LEAST; most /= 2) {
        uint64_t together = 0;
        for (size_t i = 0; i < n; i++)
            together += v[i].size <= most ? v[i].size : 0;
        if (together <= room) return most;
    }
    return 0;
}

// Parents have no more classes than those that they are made of.
static void inspect_sources(struct doing *d)
{
    const struct task *j = d->job;
    d->classes = result_of[j->kind].classes;
    for (size_t i = 0; i < j->source_count; i++) {
        const struct manifest_block *b = j->sources[i].block;
        // A gap has no classes and takes none away: it stays a gap of the result (find_gaps).
        if (b && b->kind != BLOCK_RAW && b->classes) d->classes &= b->classes;
        d->of_leaves = d->of_leaves || (b && b->kind == BLOCK_RAW);
        d->spared = d->spared || (b && b->spared);
    }
    d->of_leaves = d->of_leaves && result_of[j->kind].kind != BLOCK_RAW;
}

static bool open_sources(struct doing *d, err *e)
{
    const struct task *j = d->job;
    const size_t n = j->source_count;
    struct arena tmp;
    d->sources = ARENA_ARRAY(&d->reading, struct block_merge_source, n + 1);
    arena_init(&tmp, d->bench->memory, SIZE_MAX);
    struct block_object *names = ARENA_ARRAY(&tmp, struct block_object, n + 1);
    struct block_source *opened = ARENA_ARRAY(&tmp, struct block_source, n + 1);
    bool ok = arena_ok(&d->reading, e) && arena_ok(&tmp, e);
    for (size_t i = 0; ok && i < n; i++) {
        FAULT("compact.read");
        names[i].name = source_name(d, &j->sources[i], &names[i].size);
        ok = arena_ok(d->arena, e);
    }
    if (ok) {
        struct block_objects many = {.v = names,
                                     .n = n,
                                     .keep = read_whole(d, names, n),
                                     .out = opened};
        ok = block_source_open_many(&d->reading, store_origin(d->bench->store, d->r), &many, e);
        if (!ok && many.failed < n && is_damage(e)) note_damage(d, &j->sources[many.failed]);
    }
    for (size_t i = 0; ok && i < n; i++) {
        const struct job_source *s = &j->sources[i];
        d->sources[i] = (struct block_merge_source){.block = opened[i],
                                                    .spans = s->spans,
                                                    .span_count = s->span_count,
                                                    .mask = s->mask};
        if (!s->mask) d->report->bytes_in += names[i].size;
    }
    if (ok) inspect_sources(d);
    arena_release(&tmp);
    return ok;
}

// ---- packs: services by their place, cut where an object has enough; one service that is more
// than an object is cut by its series

struct weight {
    uint32_t pack;
    double bytes;
    double table;  // of them those of the symbols
};

static int order_weights(const void *a, const void *b)
{
    const struct weight *x = a;
    const struct weight *y = b;
    return x->pack < y->pack ? -1 : x->pack > y->pack;
}

static uint64_t end_of(const struct block_service_ref *s)
{
    return MAX(MAX(s->symbols.at + s->symbols.stored, s->all.at + s->all.stored),
               s->index.at + s->index.stored);
}

// The bytes of each service of a source. The sections of a service lie together, in the footer's
// order, so a service ends where its last section does.
static size_t weigh(const struct block_merge_source *s, struct weight *to)
{
    const struct block_footer *f = &s->block.footer;
    uint64_t from = 0;
    for (uint32_t i = 0; i < f->service_count; i++) {
        uint64_t end = end_of(&f->services[i]);
        to[i] = (struct weight){.pack = block_pack(f->services[i].name),
                                .bytes = end > from ? (double)(end - from) : 0,
                                .table = f->services[i].symbols.stored};
        from = MAX(from, end);
    }
    return f->service_count;
}

// Adds up the weights of each pack; returns how many packs there are. The sources' tables of
// symbols of a service are much the same, so the largest stands for their union.
static size_t join_weights(struct weight *v, size_t count)
{
    size_t n = 0;
    if (count) qsort(v, count, sizeof *v, order_weights);
    for (size_t i = 0; i < count; i++) {
        double rest = v[i].bytes - v[i].table;
        if (n && v[n - 1].pack == v[i].pack) {
            struct weight *to = &v[n - 1];
            to->bytes += rest + MAX(v[i].table - to->table, 0);
            to->table = MAX(to->table, v[i].table);
        } else {
            v[n++] = v[i];
        }
    }
    return n;
}

// How much smaller sums are than the rows that they are made of: an estimate.
static double shrink_of(const struct doing *d)
{
    return d->of_leaves ? 0.5 : 1;
}

// How many parts the series of a pack are cut into. Each part has the whole table of symbols again,
// so a part holds less of the rows.
static uint32_t parts_of(const struct doing *d, const struct weight *w)
{
    double limit = (double)d->bench->pack_bytes;
    double rows = (w->bytes - w->table) * shrink_of(d);
    // Without series there is nothing that a part could be made of.
    bool series = d->classes >> BLOCK_SERIES & 1;
    if (!series || rows + w->table <= 1.5 * limit) return 1;
    double room = MAX(limit - w->table, limit / 4);
    return (uint32_t)MIN(rows / room + 1, (double)PARTS_MAX);
}

// Begins a further range of packs at this one. The ranges from v[base] on end before it: one, or
// several that are parts of one service. Returns the new range's row.
static size_t cut_at(struct cut *v, size_t base, size_t *n, uint32_t pack)
{
    assert(base < *n);
    assert(*n < CUTS_MAX && pack > v[base].pack_lo);
    for (size_t i = base; i < *n; i++)
        v[i].pack_hi = pack - 1;
    v[*n] = (struct cut){.pack_lo = pack, .pack_hi = UINT32_MAX};
    return (*n)++;
}

static void cut_series(struct cut *v, size_t *n, uint32_t parts)
{
    assert(*n > 0 && parts > 1 && *n - 1 + parts <= CUTS_MAX);
    struct cut whole = v[--*n];
    for (uint32_t i = 0; i < parts; i++) {
        v[*n] = whole;
        v[*n].part = i;
        v[(*n)++].parts = parts;
    }
}

static void cut_weights(const struct doing *d, const struct weight *v, size_t count,
                        struct cut *out, size_t *n)
{
    size_t base = 0;
    double sum = 0;
    bool alone = false;  // the last pack was cut by series: the next one needs a range of its own
    for (size_t i = 0; i < count; i++) {
        // Room for a range and all parts of a service; without it the last range takes the rest.
        bool room = *n + PARTS_MAX < CUTS_MAX;
        uint32_t parts = room ? parts_of(d, &v[i]) : 1;
        if (i && room && (alone || parts > 1 || sum >= (double)d->bench->pack_bytes)) {
            base = cut_at(out, base, n, v[i].pack);
            sum = 0;
        }
        sum += v[i].table + (v[i].bytes - v[i].table) * shrink_of(d);
        if (parts > 1) cut_series(out, n, parts);
        alone = *n > base + 1;
    }
}

// Which packs go into which object. Together the cuts are all packs, whatever the sources have: a
// cover must not leave a service out.
static bool choose_cuts(struct doing *d, struct cut *out, size_t *n, err *e)
{
    size_t most = 0;
    double total = 0;
    *n = 1;
    out[0] = (struct cut){.pack_hi = UINT32_MAX, .gap = d->spared};
    if (d->job->erase) {
        const struct manifest_block *b = d->job->sources[0].block;
        out[0] = (struct cut){b->pack_lo, b->pack_hi, b->part, b->parts, false};
    }
    if (d->spared || d->job->erase) return true;
    for (size_t i = 0; i < d->job->source_count; i++) {
        if (d->sources[i].mask) continue;
        most += d->sources[i].block.footer.service_count;
        total += (double)d->sources[i].block.size;
    }
    double limit = (double)d->bench->pack_bytes;
    // Up to half as much again stays in one object: two small ones cost a query two reads.
    if (limit <= 0 || total <= 1.5 * limit) return true;
    struct weight *v = ARENA_ARRAY(d->arena, struct weight, most + 1);
    if (!v) return arena_fail(d->arena, e);
    size_t count = 0;
    for (size_t i = 0; i < d->job->source_count; i++) {
        if (!d->sources[i].mask) count += weigh(&d->sources[i], v + count);
    }
    cut_weights(d, v, join_weights(v, count), out, n);
    assert(*n <= CUTS_MAX && out[0].pack_lo == 0 && out[*n - 1].pack_hi == UINT32_MAX);
    return true;
}

// ---- gaps

// `doubles`: each gap of an overflow costs a round of the whole job, so the last one does not only
// grow by a service: absurd values of thousands of services must not keep the job from its end.
static void add_gap(struct doing *d, uint32_t pack_lo, uint32_t pack_hi, bool doubles)
{
    assert(pack_lo <= pack_hi);
    if (d->gap_count < GAPS_MAX) {
        d->gaps[d->gap_count++] = (struct cut){.pack_lo = pack_lo, .pack_hi = pack_hi, .gap = true};
        return;
    }
    struct cut *last = &d->gaps[GAPS_MAX - 1];
    last->pack_lo = MIN(last->pack_lo, pack_lo);
    last->pack_hi = MAX(last->pack_hi, pack_hi);
    uint32_t more = doubles ? (last->pack_hi - last->pack_lo) / 2 + 1 : 0;
    last->pack_lo -= MIN(last->pack_lo, more);
    last->pack_hi += MIN(UINT32_MAX - last->pack_hi, more);
}

// Gaps of the sources stay gaps of the result.
static void find_gaps(struct doing *d)
{
    for (size_t i = 0; i < d->job->source_count; i++) {
        const struct job_source *s = &d->job->sources[i];
        if (!s->block || s->block->classes || d->spared) continue;
        for (size_t k = 0; k < s->span_count; k++)
            add_gap(d, s->spans[k].pack_lo, s->spans[k].pack_hi, false);
    }
}

// Takes a gap out of the cuts; returns how many there are then. A service that is cut by its series
// becomes a gap as a whole, as its parts count only together: the first part's place is the gap's.
static size_t punch(const struct cut *v, size_t n, const struct cut *gap, struct cut *to)
{
    assert(gap->gap && gap->pack_lo <= gap->pack_hi);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct cut *c = &v[i];
        if (c->gap || c->pack_lo > gap->pack_hi || c->pack_hi < gap->pack_lo) {
            to[count++] = *c;
            continue;
        }
        struct cut at = {.pack_lo = c->pack_lo, .pack_hi = c->pack_hi, .gap = true};
        if (c->part) continue;
        if (c->parts < 2 && c->pack_lo < gap->pack_lo) {
            to[count] = *c;
            to[count++].pack_hi = gap->pack_lo - 1;
            at.pack_lo = gap->pack_lo;
        }
        if (c->parts < 2 && c->pack_hi > gap->pack_hi) {
            to[count] = *c;
            to[count++].pack_lo = gap->pack_hi + 1;
            at.pack_hi = gap->pack_hi;
        }
        to[count++] = at;
    }
    return count;
}

// ---- an object

static bool begin_upload(void *arg, err *e)
{
    struct doing *d = arg;
    assert(!d->upload && d->name.n);  // the upload before was committed or abandoned
    FAULT("compact.upload");
    d->upload = store_begin_unique(d->bench->store, d->r, d->name, d->about_bytes, e);
    return d->upload;
}

static bool write_upload(void *arg, str bytes, err *e)
{
    struct doing *d = arg;
    assert(d->upload);
    if (FAULT_ERRNO("compact.write"))
        return err_set(e, ERR_UNAVAILABLE, "object %.*s cannot be written", STR(d->name));
    return store_write(d->upload, bytes, e);
}

static void abandon_upload(void *arg)
{
    struct doing *d = arg;
    store_abandon(d->upload);
    d->upload = NULL;
}

static int order_texts(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

// Names the segments that a leaf absorbed, for ever, in its footer: its own ones and those of the
// leaves that it replaces, each once.
static bool name_sources(struct doing *d, struct block_about *about, err *e)
{
    const struct task *j = d->job;
    size_t most = 0;
    if (result_of[j->kind].kind != BLOCK_RAW) return true;
    for (size_t i = 0; i < j->source_count; i++)
        most += j->sources[i].segment ? 1 : d->sources[i].block.footer.about.source_count;
    str *v = ARENA_ARRAY(d->arena, str, most + 1);
    if (!v) return arena_fail(d->arena, e);
    size_t n = 0;
    for (size_t i = 0; i < j->source_count; i++) {
        const struct block_about *from = &d->sources[i].block.footer.about;
        char text[SEGMENT_TEXT];
        if (j->sources[i].mask) continue;
        if (j->sources[i].segment) {
            segment_name_print(&j->sources[i].segment->name, text);
            v[n++] = arena_str(d->arena, str_of(text));
            continue;
        }
        for (size_t k = 0; k < from->source_count; k++)
            v[n++] = from->sources[k];
    }
    assert(n <= most);
    qsort(v, n, sizeof *v, order_texts);
    about->sources = v;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !str_eq(v[i], v[about->source_count - 1])) v[about->source_count++] = v[i];
    }
    return arena_ok(d->arena, e);
}

// The same as runs, for the manifest. It has forgotten segments that were absorbed long ago, so it
// names fewer than the footer.
static bool list_sources(struct doing *d, struct manifest_block *b, err *e)
{
    const struct task *j = d->job;
    size_t most = 0;
    if (b->kind != BLOCK_RAW) return true;
    for (size_t i = 0; i < j->source_count; i++)
        most += j->sources[i].segment ? 1 : j->sources[i].block->source_count;
    struct segment_run *v = ARENA_ARRAY(d->arena, struct segment_run, most + 1);
    if (!v) return arena_fail(d->arena, e);
    size_t n = 0;
    for (size_t i = 0; i < j->source_count; i++) {
        const struct job_source *s = &j->sources[i];
        if (s->mask) continue;
        if (s->segment) v[n++] = segment_run_of(&s->segment->name);
        for (size_t k = 0; s->block && k < s->block->source_count; k++)
            v[n++] = s->block->sources[k];
    }
    assert(n <= most);
    b->sources = v;
    b->source_count = (uint32_t)segment_runs_join(v, n);
    return true;
}

static void count_block(struct doing *d, const struct block_merge *m,
                        const struct block_written *written)
{
    d->report->bytes_out += written->bytes;
    d->report->rows += written->rows;
    d->report->profiles += written->profiles;
    d->report->duplicates += m->duplicates;
    d->report->sampled_duplicates += m->sampled_duplicates;
    d->report->hidden += m->hidden;
    d->report->sampled_hidden += m->sampled_hidden;
    d->report->files += m->files;
    d->report->blocks++;
}

// One block: merges the services of the cut and creates the object. The merge begins the upload,
// and abandons it if it has to begin anew in smaller steps.
static bool make_block(struct doing *d, const struct cut *cut, err *e)
{
    assert(cut->pack_lo <= cut->pack_hi && cut->part < MAX(cut->parts, 1u));
    const struct task *j = d->job;
    struct manifest_block *b = &d->result->blocks[d->result->n];
    uint8_t random[10];
    rand_bytes(random, sizeof random);
    *b = (struct manifest_block){.id =
                                     ulid_make((uint64_t)(d->bench->wall_ns() / NS_PER_MS), random),
                                 .kind = result_of[j->kind].kind,
                                 .from_hour = j->from_hour,
                                 .hours = j->hours,
                                 .pack_lo = cut->pack_lo,
                                 .pack_hi = cut->pack_hi,
                                 .part = cut->part,
                                 .parts = cut->parts,
                                 .covers = j->covers,
                                 .cover_count = (uint32_t)j->cover_count,
                                 .classes = cut->gap ? 0 : d->classes,
                                 .as_of =
                                     job_as_of(d->bench, j, result_of[j->kind].kind == BLOCK_RAW)};
    struct block_about about = {.kind = b->kind,
                                .id = b->id,
                                .tenant = d->bench->tenant,
                                .from_hour = j->from_hour,
                                .hours = j->hours,
                                .pack_lo = cut->pack_lo,
                                .pack_hi = cut->pack_hi,
                                .part = cut->part,
                                .parts = cut->parts,
                                .classes = b->classes};
    struct block_merge m = {.what = result_of[j->kind].what,
                            .req = d->r,
                            .memory = d->bench->memory,
                            .scratch = d->bench->scratch,
                            .sources = d->sources,
                            .source_count = cut->gap ? 0 : j->source_count,
                            .pack_lo = cut->pack_lo,
                            .pack_hi = cut->pack_hi,
                            .part = cut->part,
                            .parts = cut->parts,
                            .classes = b->classes,
                            .spare = d->of_leaves && !cut->gap && cut->parts < 2 && !j->whole,
                            .until_hour = j->until_hour,
                            .hides = d->hides,
                            .hide_count = d->hide_count,
                            .overflow = &d->report->overflow};
    const struct block_merge_target target = {.begin = begin_upload,
                                              .sink = write_upload,
                                              .abandon = abandon_upload,
                                              .too_large = &d->report->too_large,
                                              .arg = d};
    struct block_written written = {0};
    bool existed = false;
    if (!name_sources(d, &about, e) || !list_sources(d, b, e)) return false;
    d->name = manifest_block_name(d->arena, d->bench->tenant, b);
    d->about_bytes = j->bytes;
    if (!arena_ok(d->arena, e)) return false;
    if (!block_merge_run(&m, &about, &target, &written, e)) {
        d->report->miscounted = m.miscounted;
        find_damage(d, e);
        return false;
    }
    FAULT("compact.create");
    struct store_upload *upload = d->upload;
    d->upload = NULL;  // the commit frees it, whatever becomes of it
    if (!store_commit(upload, &existed, e)) return merge_unwritten(&target, e);
    // Its ULID is new, so this cannot be; if it is, the object is not ours.
    if (existed) return err_set(e, ERR_ABORTED, "object %.*s is there already", STR(d->name));
    d->result->n++;
    b->name = d->name;
    b->classes = m.classes;
    b->spared = m.spared || d->spared;
    b->bytes = written.bytes;
    b->rows = written.rows;
    b->first_ns = written.first_ns;
    b->last_ns = written.last_ns;
    count_block(d, &m, &written);
    return true;
}

static bool make_cuts(struct doing *d, const struct cut *v, size_t n, err *e)
{
    d->result->blocks = ARENA_ARRAY(d->arena, struct manifest_block, n);
    if (!d->result->blocks) return arena_fail(d->arena, e);
    for (size_t i = 0; i < n; i++) {
        if (!make_block(d, &v[i], e)) return false;
    }
    assert(d->result->n == n);
    return true;
}

// Of all jobs together. What cannot be deleted is found by the sweep, as nothing names it.
static void delete_blocks(const struct job_bench *b, struct req *r, struct job_result *const *v,
                          size_t n)
{
    struct arena a;
    size_t most = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        most += v[i]->n;
    if (most == 0) return;
    arena_init(&a, b->memory, SIZE_MAX);
    struct store_removal *names = ARENA_ARRAY(&a, struct store_removal, most);
    for (size_t i = 0; names && i < n; i++) {
        for (size_t k = 0; k < v[i]->n; k++)
            names[count++].name = v[i]->blocks[k].name;
    }
    FAULT("compact.discard");
    if (names) store_delete_many(b->store, r, names, count);
    arena_release(&a);
}

// Makes all blocks; and again from the first, with a gap more, for each service with a sum that
// does not fit 64 bits. A leaf has no sums of long times, so there an overflow is a failure.
static bool make_blocks(struct doing *d, err *e)
{
    // A gap adds two cuts at most, one at each of its ends, and each time that it is widened.
    struct cut cuts[2][CUTS_MAX + 2 * (GAPS_MAX + WIDER_MAX)];
    size_t n = 0;
    if (d->job->kind == JOB_RETIRE) return true;
    if (!open_sources(d, e) ||
        !job_hides(d->bench, d->job, result_of[d->job->kind].kind == BLOCK_RAW, d->arena, &d->hides,
                   &d->hide_count, e) ||
        !choose_cuts(d, cuts[0], &n, e))
        return false;
    find_gaps(d);
    for (size_t punched = 0;;) {
        err fault = {0};
        for (; punched < d->gap_count; punched++) {
            assert(n + 2 <= COUNT(cuts[0]));
            n = punch(cuts[0], n, &d->gaps[punched], cuts[1]);
            memcpy(cuts[0], cuts[1], n * sizeof *cuts[0]);
        }
        if (make_cuts(d, cuts[0], n, &fault)) return true;
        const struct block_merge_overflow *over = &d->report->overflow;
        bool gap = fault.code == ERR_OUT_OF_RANGE && result_of[d->job->kind].kind != BLOCK_RAW &&
                   over->service[0];
        if (!gap || n + 2 > COUNT(cuts[0])) {
            *e = fault;
            return false;
        }
        // Whole blocks are made anew as well: an overflow is rare, and so each list of cuts has one
        // list of blocks.
        delete_blocks(d->bench, d->r, &d->result, 1);
        d->result->n = 0;
        d->report->bytes_out = d->report->rows = d->report->duplicates = 0;
        d->report->profiles = d->report->sampled_duplicates = 0;
        d->report->hidden = d->report->sampled_hidden = 0;
        d->report->blocks = 0;
        d->report->overflows++;
        if (d->gap_count == GAPS_MAX) punched--;
        add_gap(d, over->pack, over->pack, true);
    }
}

static uint64_t profiles_of(const struct block_footer *f)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->service_count; i++) {
        for (uint32_t k = 0; k < f->services[i].dataset_count; k++)
            n += f->services[i].datasets[k].profiles;
    }
    return n;
}

// Rows in = rows out + copies, of all services and packs together. Footers count the rows that are
// not sampled, of segments and blocks alike. The manifest counts all rows of blocks, so jobs
// without segments compare these too. (merge_rows.c counts service by service.)
static bool check_rows(struct doing *d, err *e)
{
    const struct task *j = d->job;
    struct job_report *r = d->report;
    uint64_t profiles = 0;
    uint64_t rows = 0;
    bool all_blocks = true;
    if (result_of[j->kind].what != MERGE_LEAF || j->kind == JOB_RETIRE) return true;
    for (size_t i = 0; i < j->source_count; i++) {
        if (j->sources[i].mask) continue;
        profiles += profiles_of(&d->sources[i].block.footer);
        if (j->sources[i].block)
            rows += j->sources[i].block->rows;
        else
            all_blocks = false;
    }
    assert(r->sampled_duplicates <= r->duplicates);
    uint64_t out =
        r->profiles + r->duplicates - r->sampled_duplicates + r->hidden - r->sampled_hidden;
    r->miscounted = profiles != out || (all_blocks && rows != r->rows + r->duplicates + r->hidden);
    if (!r->miscounted) return true;
    return err_set(e, ERR_INTERNAL,
                   "the sources have %" PRIu64 " profiles, the new blocks %" PRIu64 " and %" PRIu64
                   " were copies; of %" PRIu64 " rows of blocks, sampled ones included, %" PRIu64
                   " and %" PRIu64,
                   profiles, r->profiles, r->duplicates - r->sampled_duplicates,
                   all_blocks ? rows : 0, all_blocks ? r->rows : 0, all_blocks ? r->duplicates : 0);
}

bool job_make(const struct job_bench *b, struct req *r, const struct task *j,
              struct job_result *out, err *e)
{
    assert(j->kind < JOB_KINDS && j->hours > 0);
    *out = (struct job_result){.task = j};
    arena_init(&out->arena, b->memory, SIZE_MAX);
    struct doing d = {
        .bench = b, .r = r, .job = j, .report = &out->report, .arena = &out->arena, .result = out};
    arena_init(&d.reading, b->memory, SIZE_MAX);
    bool ok = make_blocks(&d, e) && check_rows(&d, e);
    arena_release(&d.reading);
    if (!ok) delete_blocks(b, r, &out, 1);  // no change of the manifest has been sent for them
    return ok;
}

void job_release(struct job_result *m)
{
    arena_release(&m->arena);
}

// Commits are all or nothing, so one block that is named says that the change was made after all.
static bool is_named(const struct manifest *newest, struct job_result *const *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < v[i]->n; k++)
            if (manifest_names(newest, v[i]->blocks[k].id)) return true;
    }
    return false;
}

void job_discard(const struct job_bench *b, struct req *r, struct job_result *const *v, size_t n)
{
    err ignored = {0};
    struct manifest *newest = manifest_newest(b->manifests, r, b->tenant, &ignored);
    // Without a version to ask, the blocks are taken for named.
    if (newest && !is_named(newest, v, n)) delete_blocks(b, r, v, n);
    manifest_unref(newest);
}

// ---- the commit

struct list {
    id128 *v;
    size_t n;
};

static void append(struct list *l, const id128 *v, size_t n)
{
    if (n) memcpy(l->v + l->n, v, n * sizeof *v);
    l->n += n;
}

// The changes of all jobs as one.
static bool join(struct arena *a, struct job_result *const *v, size_t n, struct manifest_change *c,
                 err *e)
{
    size_t blocks = 0;
    size_t ids = 0;
    for (size_t i = 0; i < n; i++) {
        blocks += v[i]->n;
        ids += v[i]->task->remove_count + v[i]->task->expire_count + v[i]->task->need_count;
    }
    struct manifest_block *add = ARENA_ARRAY(a, struct manifest_block, blocks + 1);
    struct list remove = {ARENA_ARRAY(a, id128, ids + 1), 0};
    struct list expire = {ARENA_ARRAY(a, id128, ids + 1), 0};
    struct list needs = {ARENA_ARRAY(a, id128, ids + 1), 0};
    if (!add || !remove.v || !expire.v || !needs.v) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        const struct task *j = v[i]->task;
        if (v[i]->n) memcpy(add + c->add_count, v[i]->blocks, v[i]->n * sizeof *add);
        c->add_count += v[i]->n;
        append(&remove, j->remove, j->remove_count);
        append(&expire, j->expire, j->expire_count);
        append(&needs, j->needs, j->need_count);
    }
    assert(c->add_count == blocks && remove.n + expire.n + needs.n == ids);
    c->add = add;
    c->remove = remove.v;
    c->remove_count = remove.n;
    c->expire = expire.v;
    c->expire_count = expire.n;
    c->needs = needs.v;
    c->need_count = needs.n;
    return true;
}

bool job_commit(const struct job_bench *b, struct req *r, struct job_result *const *v, size_t n,
                err *e)
{
    assert(n > 0);
    struct arena a;
    struct manifest_change c = {.begun_ns = b->begun_ns,
                                .begun_boot_ns = b->begun_boot_ns,
                                .age_max_ns = b->age_ns};
    arena_init(&a, b->memory, SIZE_MAX);
    FAULT("compact.commit");
    bool ok = join(&a, v, n, &c, e) && manifest_commit(b->manifests, r, b->tenant, &c, NULL, e);
    FAULT("compact.committed");
    arena_release(&a);
    return ok;
}
