// SPDX-License-Identifier: Apache-2.0
//
// The steps of a merge:
//
//     run_steps       all sources at once; if the memory does not do, half as many at once, in
//                     groups, and the groups' files again, until one step writes the target
//     run_by_hours    rows of several hours: each hour's nodes into a file (run_steps), then these
//                     files into the target; decides whether series, or hours, are worth it
#include "base/fault.h"
#include "compactor/merge_int.h"
#include "store/origin.h"

#include <stdio.h>
#include <stdlib.h>

// Sums of series are made, where rows may answer instead, only if they are so many times smaller.
// Nodes of hours are compared with the rows' vectors by entries, as the tables of symbols are there
// in any case. A day's block of nothing but series needs a table of its own and stays for good, so
// it is compared with the leaves by bytes.
#define HOUR_SAVES_MIN 2
#define DAY_SAVES_MIN  3

// All hour nodes of a day may have so many percent of its leaves' bytes at most. If they have more,
// rows answer for the hours too: a query whose edge cuts the day then costs little more.
#define HOURS_PERCENT_MAX 50

// ---- services

static int order_names(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

// The services of the sources within the packs, in order, each once. A service that only masks have
// is not one of the new block.
static bool list_services(const struct block_merge *m, struct arena *a, str **out, size_t *n,
                          err *e)
{
    size_t most = 0;
    for (size_t i = 0; i < m->source_count; i++)
        most += m->sources[i].block.footer.service_count;
    str *v = *out = ARENA_ARRAY(a, str, most + 1);
    if (!v) return arena_fail(a, e);
    size_t count = 0;
    for (size_t i = 0; i < m->source_count; i++) {
        const struct block_footer *f = &m->sources[i].block.footer;
        for (uint32_t k = 0; !m->sources[i].mask && k < f->service_count; k++) {
            uint32_t pack = block_pack(f->services[k].name);
            if (pack >= m->pack_lo && pack <= m->pack_hi) v[count++] = f->services[k].name;
        }
    }
    if (count) qsort(v, count, sizeof *v, order_names);
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !str_eq(v[i], v[*n - 1])) v[(*n)++] = v[i];
    }
    return true;
}

static bool merge_service(struct block_merge *m, struct block_writer *w, str name, err *e)
{
    struct service_merge s = {.merge = m, .writer = w, .pack = block_pack(name)};
    bool ok = service_open(&s, name, e);
    if (ok && s.empty && merge_writes_rows(m)) {
        m->hidden += s.hidden;
        m->sampled_hidden += s.sampled_hidden;
    }
    if (ok && !s.empty) {
        switch (m->what) {
        case MERGE_ROWS:
        case MERGE_LEAF:
            ok = merge_rows(&s, e);
            break;
        case MERGE_HOUR:
            ok = merge_hour(&s, e);
            break;
        case MERGE_PACK:
        case MERGE_DAY:
        case MERGE_WINDOW:
            ok = merge_nodes(&s, e);
            break;
        }
    }
    service_close(&s);
    if (!ok && e->code == ERR_OUT_OF_RANGE && m->overflow) {
        m->overflow->pack = s.pack;
        snprintf(m->overflow->service, sizeof m->overflow->service, "%.*s", STR(name));
    }
    return ok || err_wrap(e, "service %.*s", STR(name));
}

// Heads and segments may have copies of a leaf's rows that were placed in another way.
static void put_placings(const struct block_merge *m, struct block_writer *w)
{
    for (size_t i = 0; i < m->source_count; i++) {
        const struct placings *p = &m->sources[i].block.footer.about.placings;
        for (uint32_t k = 0; !m->sources[i].mask && k < p->n; k++)
            block_placing(w, p->v[k]);
    }
}

// All services into a writer, which is finished. On failure the writer is abandoned, but what its
// sink took stays: the caller abandons the target.
static bool write_block(struct block_merge *m, const struct block_about *about, block_sink *sink,
                        void *arg, struct block_written *written, err *e)
{
    struct arena a;
    str *names = NULL;
    size_t n = 0;
    const struct block_writer_options o = {.about = *about,
                                           .sink = sink,
                                           .arg = arg,
                                           .memory = m->memory};
    struct block_writer *w = block_begin(&o, e);
    if (!w) return false;
    if (about->kind == BLOCK_RAW) put_placings(m, w);
    arena_init(&a, m->memory, SIZE_MAX);
    bool ok = list_services(m, &a, &names, &n, e);
    for (size_t i = 0; ok && i < n; i++) {
        FAULT("compact.service");
        if (FAULT_ERRNO("compact.service.lost")) continue;
        ok = req_alive(m->req, e) && merge_service(m, w, names[i], e);
    }
    arena_release(&a);
    if (ok) return block_finish(w, written, e);
    block_abandon(w);
    return false;
}

// ---- in groups

// Blocks of groups of sources, and the files that they are in.
struct groups {
    struct arena arena;
    struct scratch *files;
    size_t file_count;
    struct block_merge_source *sources;
    size_t n;
};

static void groups_release(struct groups *g)
{
    for (size_t i = 0; i < g->file_count; i++)
        scratch_release(&g->files[i]);
    arena_release(&g->arena);
    *g = (struct groups){0};
}

static enum merge_what step_of(enum merge_what what)
{
    switch (what) {
    case MERGE_ROWS:
    case MERGE_LEAF:
    case MERGE_HOUR:
        return MERGE_ROWS;
    case MERGE_PACK:
        return MERGE_PACK;
    case MERGE_DAY:
    case MERGE_WINDOW:
        return MERGE_DAY;
    }
    return what;
}

static bool merge_group(struct block_merge *m, const struct block_about *about, struct groups *to,
                        const struct block_merge_source *v, size_t n, err *e)
{
    struct block_merge part = *m;
    struct block_about said = *about;
    struct block_written written;
    assert(n > 0 && to->file_count < m->source_count && to->n < m->source_count);
    struct scratch *file = &to->files[to->file_count];
    part.what = step_of(m->what);
    part.sources = v;
    part.source_count = n;
    part.duplicates = part.sampled_duplicates = 0;
    part.hidden = part.sampled_hidden = 0;
    if (part.what == MERGE_ROWS) {
        said.kind = BLOCK_RAW;
        said.classes = 1u << BLOCK_SERIES;
    }
    said.source_count = 0;
    if (!scratch_init(file, m->scratch, m->memory, e)) return false;
    to->file_count++;  // at once, so that groups_release closes it whatever happens below
    m->files++;
    bool ok = write_block(&part, &said, scratch_sink, file, &written, e) && scratch_end(file, e);
    m->miscounted = part.miscounted;
    if (!ok) return false;
    m->duplicates += part.duplicates;
    m->sampled_duplicates += part.sampled_duplicates;
    m->hidden += part.hidden;
    m->sampled_hidden += part.sampled_hidden;
    struct block_merge_source *made = &to->sources[to->n];
    *made = (struct block_merge_source){0};
    if (!block_source_open(&to->arena, store_origin(&file->store, m->req), S("(intermediate)"),
                           file->size, &made->block, e)) {
        return false;
    }
    to->n++;
    return true;
}

// The sources in groups of at most `fan`; masks stay as they are.
static bool merge_groups(struct block_merge *m, const struct block_about *about, size_t fan,
                         struct groups *to, err *e)
{
    assert(fan >= 2);
    arena_init(&to->arena, m->memory, SIZE_MAX);
    to->files = ARENA_ARRAY(&to->arena, struct scratch, m->source_count);
    to->sources = ARENA_ARRAY(&to->arena, struct block_merge_source, m->source_count);
    struct block_merge_source *plain =
        ARENA_ARRAY(&to->arena, struct block_merge_source, m->source_count);
    if (!to->files || !to->sources || !plain) return arena_fail(&to->arena, e);
    size_t n = 0;
    for (size_t i = 0; i < m->source_count; i++) {
        if (!m->sources[i].mask) plain[n++] = m->sources[i];
    }
    for (size_t at = 0; at < n; at += fan) {
        if (!merge_group(m, about, to, plain + at, MIN(fan, n - at), e)) return false;
    }
    for (size_t i = 0; i < m->source_count; i++) {
        if (m->sources[i].mask) to->sources[to->n++] = m->sources[i];
    }
    return true;
}

static size_t plain_count(const struct block_merge *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->source_count; i++)
        n += !m->sources[i].mask;
    return n;
}

bool merge_unwritten(const struct block_merge_target *t, err *e)
{
    if (e->code != ERR_OUT_OF_RANGE) return false;
    e->code = ERR_UNAVAILABLE;
    if (t->too_large) *t->too_large = true;
    return false;
}

static bool write_on(void *arg, str bytes, err *e)
{
    const struct block_merge_target *t = arg;
    return t->sink(t->arg, bytes, e) || merge_unwritten(t, e);
}

static bool write_target(struct block_merge *m, const struct block_about *about,
                         const struct block_merge_target *t, struct block_written *written, err *e)
{
    struct block_merge_target to = *t;
    if (!t->begin(t->arg, e)) return false;
    if (write_block(m, about, write_on, &to, written, e)) return true;
    t->abandon(t->arg);
    return false;
}

// All sources at once; each time the memory does not do, half as many. It ends: each round merges
// groups, which leaves fewer sources, or halves their size. Files of groups take the
// place of their sources and are merged again, in groups if need be. Counts of an attempt that
// failed are taken back.
static bool run_steps(struct block_merge *m, const struct block_about *about,
                      const struct block_merge_target *target, struct block_written *written,
                      err *e)
{
    size_t fan = plain_count(m);
    struct block_merge now = *m;
    struct groups held = {0};
    bool ok = false;
    err fault = {0};
    for (;;) {
        size_t n = plain_count(&now);
        const struct block_merge before = now;
        struct groups next = {0};
        if (n <= fan || n < 2) {
            ok = write_target(&now, about, target, written, &fault);
        } else if (merge_groups(&now, about, fan, &next, &fault)) {
            groups_release(&held);  // files of the round before, which are merged into `next` now
            held = next;
            now.sources = held.sources;
            now.source_count = held.n;
            continue;
        } else {
            groups_release(&next);
        }
        // Two sources at once are the least that can be merged.
        if (ok || fault.code != ERR_RESOURCE_EXHAUSTED || fan <= 2) break;
        now.duplicates = before.duplicates;
        now.sampled_duplicates = before.sampled_duplicates;
        now.hidden = before.hidden;
        now.sampled_hidden = before.sampled_hidden;
        now.row_entries = before.row_entries;
        now.node_entries = before.node_entries;
        fan = MAX((MIN(fan, n) + 1) / 2, 2);
    }
    if (!ok) *e = fault;
    m->duplicates = now.duplicates;
    m->sampled_duplicates = now.sampled_duplicates;
    m->hidden = now.hidden;
    m->sampled_hidden = now.sampled_hidden;
    m->miscounted = now.miscounted;
    m->files = now.files;
    m->row_entries = now.row_entries;
    m->node_entries = now.node_entries;
    groups_release(&held);
    return ok;
}

// ---- several hours of rows: each hour's nodes into a file, then all of them

static bool into_file(void *arg, err *e)
{
    struct scratch *file = arg;
    scratch_restart(file);
    (void)e;
    return true;
}

static void leave_file(void *arg)
{
    (void)arg;  // it is begun anew, or released
}

// May the leaf have rows in an hour? One with rows of a few hours of a day then costs only so many
// passes.
static bool may_have(const struct block_footer *f, int64_t hour)
{
    for (uint32_t i = 0; i < f->service_count; i++) {
        for (uint32_t k = 0; k < f->services[i].dataset_count; k++) {
            const struct block_dataset *d = &f->services[i].datasets[k];
            if (slot_of(d->first_ns, SLOT_HOUR) <= hour && slot_of(d->last_ns, SLOT_HOUR) >= hour)
                return true;
        }
    }
    return false;
}

// Whether rows of a leaf in an hour are to be summed.
static bool has_hour(const struct block_merge_source *s, int64_t hour)
{
    const struct block_about *about = &s->block.footer.about;
    if (hour < about->from_hour || hour - about->from_hour >= (int64_t)about->hours) return false;
    if (about->hours > 1 && !may_have(&s->block.footer, hour)) return false;
    for (size_t i = 0; i < s->span_count; i++) {
        int64_t from = s->spans[i].from_hour;
        if (hour >= from && hour - from < (int64_t)s->spans[i].hours) return true;
    }
    return s->span_count == 0;
}

static bool merge_one_hour(struct block_merge *m, const struct block_about *about,
                           struct groups *to, int64_t hour, err *e)
{
    struct block_merge part = *m;
    struct block_about said = *about;
    struct block_written written;
    struct block_merge_source *v =
        ARENA_ARRAY(&to->arena, struct block_merge_source, m->source_count + 1);
    if (!v) return arena_fail(&to->arena, e);
    part.sources = v;
    part.source_count = 0;
    for (size_t i = 0; i < m->source_count; i++) {
        if (has_hour(&m->sources[i], hour)) v[part.source_count++] = m->sources[i];
    }
    if (part.source_count == 0) return true;  // an hour without rows has no file
    assert(to->file_count < about->hours && to->n < about->hours);
    struct scratch *file = &to->files[to->file_count];
    part.what = MERGE_HOUR;
    said.kind = BLOCK_HOURS;
    part.from_hour = said.from_hour = hour;
    part.hours = said.hours = 1;
    if (!scratch_init(file, m->scratch, m->memory, e)) return false;
    to->file_count++;
    const struct block_merge_target target = {.begin = into_file,
                                              .sink = scratch_sink,
                                              .abandon = leave_file,
                                              .arg = file};
    bool ok = run_steps(&part, &said, &target, &written, e) && scratch_end(file, e);
    m->duplicates = part.duplicates;
    m->miscounted = part.miscounted;
    m->files = part.files + 1;
    m->row_entries = part.row_entries;
    m->node_entries = part.node_entries;
    if (!ok) return false;
    struct block_merge_source *made = &to->sources[to->n];
    *made = (struct block_merge_source){0};
    to->n++;
    return block_source_open(&to->arena, store_origin(&file->store, m->req), S("(intermediate)"),
                             file->size, &made->block, e);
}

static bool merge_hours(struct block_merge *m, const struct block_about *about, struct groups *to,
                        err *e)
{
    arena_init(&to->arena, m->memory, SIZE_MAX);
    to->files = ARENA_ARRAY(&to->arena, struct scratch, about->hours);
    to->sources = ARENA_ARRAY(&to->arena, struct block_merge_source, about->hours);
    if (!to->files || !to->sources) return arena_fail(&to->arena, e);
    for (uint32_t i = 0; i < about->hours; i++) {
        if (!merge_one_hour(m, about, to, about->from_hour + i, e)) return false;
    }
    return true;
}

// ---- whether series are worth their bytes

static bool ready(void *arg, err *e)
{
    (void)arg;
    (void)e;
    return true;
}

static bool forget(void *arg, str bytes, err *e)
{
    (void)arg;
    (void)bytes;
    (void)e;
    return true;
}

// The bytes that a block of the sources' series alone would have: it is made, and thrown away.
static bool weigh_series(const struct block_merge *m, const struct block_about *about,
                         uint64_t *bytes, err *e)
{
    struct block_merge only = *m;
    struct block_about said = *about;
    struct block_written written;
    const struct block_merge_target target = {.begin = ready,
                                              .sink = forget,
                                              .abandon = leave_file};
    only.classes = said.classes = 1u << BLOCK_SERIES;
    *bytes = 0;
    if (!run_steps(&only, &said, &target, &written, e)) return false;
    *bytes = written.bytes;
    return true;
}

// The bytes that the merge's services have in the sources: each lies in one piece.
static uint64_t weigh_sources(const struct block_merge *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->source_count; i++) {
        const struct block_footer *f = &m->sources[i].block.footer;
        uint64_t from = 0;
        for (uint32_t k = 0; k < f->service_count; k++) {
            const struct block_service_ref *s = &f->services[k];
            uint32_t pack = block_pack(s->name);
            uint64_t end = MAX(s->index.at + s->index.stored, s->symbols.at + s->symbols.stored);
            end = MAX(end, s->all.at + s->all.stored);
            if (pack >= m->pack_lo && pack <= m->pack_hi && end > from) bytes += end - from;
            from = MAX(from, end);
        }
    }
    return bytes;
}

// Do sums of series save bytes? `m` is the merge as it was asked for, with its counts of entries;
// `hours` is the merge of the files of its hours.
static bool save_bytes(const struct block_merge *m, const struct block_merge *hours,
                       const struct block_about *about, bool *do_save, err *e)
{
    *do_save = true;
    if (!m->spare) return true;
    if (m->what == MERGE_HOUR) {
        *do_save = m->node_entries * HOUR_SAVES_MIN <= m->row_entries;
        return true;
    }
    uint64_t bytes = 0;
    if (!weigh_series(hours, about, &bytes, e)) return false;
    *do_save = bytes * DAY_SAVES_MIN <= weigh_sources(m);
    return true;
}

static bool are_leaves_of_days(const struct block_merge *m)
{
    bool are = m->source_count > 0;
    for (size_t i = 0; i < m->source_count; i++)
        are = are && m->sources[i].block.footer.about.hours > 1;
    return are;
}

// If the hours are too large to be worth it: abandons the block that was written, and writes one
// without sums in its place.
static bool spare_hours(struct block_merge *m, const struct block_about *about,
                        const struct block_merge_target *target, struct block_written *written,
                        err *e)
{
    // Only now is it known how large they are, so a block that is too large was written for
    // nothing.
    bool large = written->bytes * 100 > weigh_sources(m) * HOURS_PERCENT_MAX;
    if (!m->spare || m->what != MERGE_HOUR || !are_leaves_of_days(m) || !large) return true;
    struct block_merge none = *m;
    struct block_about said = *about;
    none.source_count = 0;
    none.classes = said.classes = m->classes = 0;
    m->spared = true;
    target->abandon(target->arg);
    return write_target(&none, &said, target, written, e);
}

static bool run_by_hours(struct block_merge *m, const struct block_about *about,
                         const struct block_merge_target *target, struct block_written *written,
                         err *e)
{
    struct groups hours = {0};
    struct block_about said = *about;
    bool with_series = true;
    bool ok = merge_hours(m, about, &hours, e);
    struct block_merge last = *m;
    last.what = m->what == MERGE_DAY ? MERGE_DAY : MERGE_PACK;
    last.sources = hours.sources;
    last.source_count = hours.n;
    ok = ok && save_bytes(m, &last, about, &with_series, e);
    if (!with_series) last.classes &= ~(1u << BLOCK_SERIES);
    m->classes = said.classes = last.classes;
    ok = ok && run_steps(&last, &said, target, written, e) &&
         spare_hours(m, about, target, written, e);
    m->files = last.files;
    groups_release(&hours);
    return ok;
}

static bool is_of_leaves(const struct block_merge *m)
{
    return m->source_count && m->sources[0].block.footer.about.kind == BLOCK_RAW;
}

bool block_merge_run(struct block_merge *m, const struct block_about *about,
                     const struct block_merge_target *target, struct block_written *written, err *e)
{
    assert(m->pack_lo <= m->pack_hi && m->part < MAX(m->parts, 1u) && about->hours > 0);
    assert(m->req && m->scratch && target->begin && target->sink && target->abandon);
    m->from_hour = about->from_hour;
    m->hours = about->hours;
    // A block whose series may be spared goes by way of files even if it is of one hour: whether
    // series save bytes must be known before the block is begun.
    bool by_hours = m->what == MERGE_HOUR ? about->hours > 1 || m->spare
                                          : m->what == MERGE_DAY && is_of_leaves(m);
    return by_hours ? run_by_hours(m, about, target, written, e)
                    : run_steps(m, about, target, written, e);
}
