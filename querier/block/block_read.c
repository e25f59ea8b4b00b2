// SPDX-License-Identifier: Apache-2.0
//
// A question over the pieces of a plan:
//
//     1. list the objects of the plan and load their footers (block_walk_begin)
//     2. list the units: services of these objects that the selector can mean and a piece touches
//     3. units about which the footer says all that is wanted are done (ask_footers)
//     4. wave by wave (block_walk_waves): load indexes and symbols, let each want read its part,
//        release the sections
//
// So memory follows the answer and a wave, not the range of the question.
//
// What goes wrong with one object (damaged, gone) is noted for that object, and the others are read
// (block_note); the caller plans again without it. What would go wrong with any (no memory, the
// time is over) ends the question. References to what the cache keeps are given back in both cases:
// release_wave, block_walk_end.
#include "querier/block/block_read.h"

#include "base/search.h"
#include "querier/block/block_int.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#include <stdlib.h>

// A wave has so many bytes of sections, unpacked, unless a single unit has more; and so many units,
// so that a list of wants stays small.
#define WAVE_BYTES ((uint64_t)16 << 20)
#define WAVE_UNITS 256u

bool block_no_room(const struct block_walk *w, err *e)
{
    return merged_no_room(w->m, e);
}

// ---- what the question needs

static bool is_filtered(const struct query_tree *t)
{
    return t->span_count || t->trace_count || t->profile_count;
}

// Keys of class ALL have these two labels and no other.
static bool comes_with_all(str name)
{
    return str_is(name, LABEL_SERVICE) || str_is(name, LABEL_PROFILE_TYPE);
}

bool block_hides_types(const struct hide *h)
{
    for (size_t i = 0; i < h->selector.n; i++) {
        if (!comes_with_all(h->selector.v[i].name)) return false;
    }
    return true;
}

struct names {
    const str *v;
    size_t n;
};

// The labels that are matched, grouped by or shown, list by list.
static size_t name_lists(const struct query *q, struct names lists[3])
{
    size_t n = 0;
    if (q->totals.wanted) lists[n++] = (struct names){q->totals.group_by, q->totals.group_by_count};
    if (q->heat.wanted) lists[n++] = (struct names){q->heat.group_by, q->heat.group_by_count};
    if (q->labels.wanted) lists[n++] = (struct names){q->labels.names, q->labels.name_count};
    return n;
}

static bool shows_all_labels(const struct query *q)
{
    return q->labels.wanted && (q->labels.names_only || q->labels.name_count == 0);
}

// Will keys do that have no labels but service and type?
static bool needs_only_all(const struct query *q)
{
    struct names lists[3];
    size_t n = name_lists(q, lists);
    if (shows_all_labels(q) || q->stat_sizes) return false;
    for (size_t i = 0; i < q->hide_count; i++) {
        if (!block_hides_types(&q->hides[i])) return false;
    }
    for (size_t i = 0; i < q->selector.n; i++) {
        if (!comes_with_all(q->selector.v[i].name)) return false;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < lists[i].n; k++) {
            if (!comes_with_all(lists[i].v[k])) return false;
        }
    }
    return true;
}

// Does the question need sampled series? Sampling left them without stacks, so they are in no sums:
// they have keys of class SERIES only. Labels show them, and statistics count them.
static bool needs_sampled(const struct query *q)
{
    return (q->totals.wanted && q->totals.include_sampled) || q->labels.wanted || q->stats;
}

// Will vectors of ALL nodes be wanted?
static bool reads_all(const struct query *q)
{
    return q->tree.wanted && !is_filtered(&q->tree) && needs_only_all(q);
}

// Symbols, or their names where they will do, and what is read beside the index.
static unsigned sections_of(const struct query *q, bool names_only)
{
    bool site = q->totals.call_site_count > 0;
    unsigned sections = reads_all(q) ? BLOCK_WITH_ALL : 0;
    if (!q->tree.wanted && !(q->totals.wanted && site)) return sections;
    bool names = names_only && !site && !q->tree.by_service;
    return sections | (names ? BLOCK_WITH_NAMES : BLOCK_WITH_SYMBOLS);
}

static unsigned totals_of(const struct query *q)
{
    bool reads =
        q->totals.wanted && q->totals.call_site_count == 0 && q->totals.exemplars == EXEMPLAR_NONE;
    return reads ? BLOCK_WITH_TOTALS : 0;
}

static bool reads_symbols(const struct block_question *ask)
{
    return ask->sections & (BLOCK_WITH_SYMBOLS | BLOCK_WITH_NAMES);
}

// The coarsest sums that answer the question exactly. A piece is read in one way for all wants, so
// a question that mixes wants is answered by rows.
static enum level_use use_of(const struct query *q)
{
    bool tree_of_nodes = q->tree.wanted && !is_filtered(&q->tree);
    if (q->heat.wanted || (q->tree.wanted && !tree_of_nodes)) return LEVEL_ROWS;
    if (!q->totals.wanted) return LEVEL_NODES;
    if (q->totals.exemplars != EXEMPLAR_NONE) return LEVEL_ROWS;
    if (q->tree.wanted || q->labels.wanted || q->stats) return LEVEL_ROWS;
    return q->totals.call_site_count ? LEVEL_NODES : LEVEL_TOTALS;
}

// Timelines of /pyroscope/render have slots that end a nanosecond before a whole second
// (timeline.c), so no slot of totals would end at their borders. Totals that end with that second
// are taken.
static int64_t border_of(int64_t first_ns)
{
    return slot_of(first_ns + 2, SLOT_MINUTE) > slot_of(first_ns + 1, SLOT_MINUTE) ? first_ns + 1
                                                                                   : first_ns;
}

bool block_read_ask(const struct query *q, struct level_ask *ask, err *e)
{
    if (q->totals.wanted && q->totals.step_ns <= 0) {
        return err_set(e, ERR_INVALID_ARGUMENT, "step is %lld ns, least is 1",
                       (long long)q->totals.step_ns);
    }
    ask->use = use_of(q);
    ask->step_ns = q->totals.wanted ? q->totals.step_ns : 0;
    ask->first_ns = border_of(q->totals.first_ns);
    ask->early_ns = q->totals.wanted ? q->totals.early_ns : 0;
    ask->durations = q->totals.wanted && q->totals.spread;
    ask->pack_lo = 0;
    ask->pack_hi = UINT32_MAX;
    for (size_t i = 0; i < q->selector.n; i++) {
        const struct matcher *m = &q->selector.v[i];
        if (m->op != MATCH_EQ || !str_is(m->name, LABEL_SERVICE)) continue;
        ask->pack_lo = block_pack(m->value);
        ask->pack_hi = ask->pack_lo;
    }
    // Over all time footers say enough about what there is, sampled series included.
    bool of_all =
        q->stats && q->hide_count == 0 && q->from_ns == INT64_MIN && q->to_ns == INT64_MAX;
    if (needs_only_all(q) && (of_all || !needs_sampled(q))) {
        ask->classes = 1u << BLOCK_ALL;
    } else if (needs_sampled(q)) {
        ask->classes = 1u << BLOCK_SERIES;
    } else {
        ask->classes = 1u << BLOCK_PROJECTION;
    }
    return true;
}

// ---- faults

// Would the same happen with any other object? Then the question ends.
static bool ends_question(enum err_code code)
{
    return code == ERR_RESOURCE_EXHAUSTED || code == ERR_OUT_OF_RANGE || code == ERR_CANCELED ||
           code == ERR_DEADLINE_EXCEEDED;
}

bool block_note(struct block_walk *w, struct block_object *o, const err *why, err *e)
{
    struct block_reads *out = w->out;
    if (ends_question(why->code)) {
        *e = *why;
        return false;
    }
    assert(why->code);
    if (o->faulty) return true;  // the first reason tells most
    o->faulty = true;
    if (!arena_grow(&w->req->arena, &out->faults, &out->fault_cap, out->fault_count + 1,
                    sizeof *out->faults)) {
        return arena_fail(&w->req->arena, e);
    }
    struct block_fault *f = &out->faults[out->fault_count++];
    *f = (struct block_fault){.object = o->object, .why = *why};
    if (f->why.code == ERR_INVALID_ARGUMENT) f->why.code = ERR_DATA_LOSS;
    err_wrap(&f->why, "%.*s", STR(o->object->name));
    metric_add(&querier_block_faults, 1);
    return true;
}

// ---- objects and their services

static int by_name(const void *a, const void *b)
{
    const struct level_piece *x = *(const struct level_piece *const *)a;
    const struct level_piece *y = *(const struct level_piece *const *)b;
    return str_cmp(x->object->name, y->object->name);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// The times of the rows to skip, from their profile ids, so that objects of other hours need not
// look at ids (may_skip).
static bool list_skipped(struct block_walk *w)
{
    assert(!w->ask.skip_ms);
    if (!w->ask.skip || w->ask.skip->n == 0) {
        w->ask.skip = NULL;
        return true;
    }
    w->ask.skip_ms = ARENA_ARRAY(&w->arena, int64_t, w->ask.skip->n);
    if (!w->ask.skip_ms) return false;
    w->ask.skip_count = w->ask.skip->n;
    for (uint32_t i = 0; i < w->ask.skip->n; i++)
        w->ask.skip_ms[i] = (int64_t)uuid_ms(w->ask.skip->v[i].key.id);
    qsort(w->ask.skip_ms, w->ask.skip_count, sizeof *w->ask.skip_ms, by_number);
    return true;
}

// May the object have rows to skip? Ids have whole ms, so a ms more on both sides.
static bool has_skipped(const struct block_walk *w, const struct block_about *about)
{
    int64_t first = slot_start(about->from_hour, SLOT_HOUR) / NS_PER_MS - 1;
    int64_t last = slot_start(about->from_hour + about->hours, SLOT_HOUR) / NS_PER_MS + 1;
    size_t lo = SEARCH(at, 0, w->ask.skip_count, w->ask.skip_ms[at] < first);
    return lo < w->ask.skip_count && w->ask.skip_ms[lo] <= last;
}

// Objects of the plan, each once, with its pieces.
static bool list_objects(struct block_walk *w, const struct level_plan *p)
{
    const struct level_piece **order = ARENA_ARRAY(&w->arena, const struct level_piece *, p->n);
    w->objects = ARENA_ARRAY(&w->arena, struct block_object, p->n);
    if (!order || !w->objects) return false;
    for (size_t i = 0; i < p->n; i++)
        order[i] = &p->pieces[i];
    if (p->n) qsort(order, p->n, sizeof *order, by_name);
    for (size_t i = 0; i < p->n; i++) {
        struct block_object *last = w->object_count ? &w->objects[w->object_count - 1] : NULL;
        if (!last || !str_eq(last->object->name, order[i]->object->name)) {
            last = &w->objects[w->object_count++];
            *last = (struct block_object){.object = order[i]->object, .pieces = &order[i]};
        }
        last->piece_count++;
    }
    return true;
}

static bool load_footers(struct block_walk *w, err *e)
{
    assert(w->unit_count == 0);  // units borrow from footers
    struct block_want *v = ARENA_ARRAY(&w->arena, struct block_want, w->object_count);
    if (!v) return block_no_room(w, e);
    for (size_t i = 0; i < w->object_count; i++)
        v[i] = (struct block_want){.object = w->objects[i].object, .part = BLOCK_PART_FOOTER};
    bool ok = true;
    for (size_t i = 0; ok && i < w->object_count; i += WAVE_UNITS)
        ok = blocks_load(w, v + i, MIN(WAVE_UNITS, w->object_count - i), e);
    for (size_t i = 0; i < w->object_count; i++) {
        struct block_object *o = &w->objects[i];
        o->kept = v[i].kept;
        o->footer = o->kept ? &o->kept->footer : NULL;
        if (ok && v[i].why) ok = block_note(w, o, v[i].why, e);
        // After a failure too: block_walk_end gives back what was loaded.
        if (o->footer &&
            (o->footer->about.kind == BLOCK_SEGMENT || o->footer->about.kind == BLOCK_RAW)) {
            o->may_skip = has_skipped(w, &o->footer->about);
        }
    }
    return ok;
}

// Whether a piece can have something of the service that the question means.
static bool concerns(const struct block_walk *w, const struct block_service_ref *s,
                     const struct level_piece *p, bool *does, err *e)
{
    uint32_t pack = block_pack(s->name);
    *does = false;
    // A block may hold more services than the piece is of: others answer for those.
    if (pack < p->pack_lo || pack > p->pack_hi) return true;
    for (uint32_t i = 0; i < s->dataset_count && !*does; i++) {
        const struct block_dataset *d = &s->datasets[i];
        if (!block_touches(p, d->first_ns, d->last_ns)) continue;
        if (!block_asks_type(w->ask.q, s->name, d->type, does, e)) return false;
    }
    return true;
}

static bool add_unit(struct block_walk *w, struct block_object *o,
                     const struct block_service_ref *s, err *e)
{
    const struct level_piece **pieces = NULL;
    size_t n = 0;
    for (size_t i = 0; i < o->piece_count; i++) {
        bool does = false;
        if (!concerns(w, s, o->pieces[i], &does, e)) return false;
        if (!does) continue;
        // Made late: most services of a large object concern nothing.
        if (!pieces) pieces = ARENA_ARRAY(&w->arena, const struct level_piece *, o->piece_count);
        if (!pieces) return block_no_room(w, e);
        pieces[n++] = o->pieces[i];
    }
    if (n == 0) return true;
    if (!arena_grow(&w->arena, &w->units, &w->unit_cap, w->unit_count + 1, sizeof *w->units)) {
        return block_no_room(w, e);
    }
    w->units[w->unit_count++] =
        (struct block_unit){.object = o, .service = s, .pieces = pieces, .piece_count = n};
    return true;
}

// The service that the selector names, if it names one with `=`: found in the footer by a binary
// search. Other selectors look at all services of the object.
static const struct block_service_ref *only_service(const struct query *q,
                                                    const struct block_footer *f, bool *named)
{
    *named = false;
    for (size_t i = 0; i < q->selector.n; i++) {
        const struct matcher *m = &q->selector.v[i];
        if (m->op != MATCH_EQ || !str_is(m->name, LABEL_SERVICE)) continue;
        *named = true;
        return block_find_service(f, m->value);
    }
    return NULL;
}

static bool asks_service(const struct query *q, str service, bool *asked, err *e)
{
    *asked = true;
    for (size_t i = 0; i < q->selector.n && *asked; i++) {
        const struct matcher *m = &q->selector.v[i];
        if (!str_is(m->name, LABEL_SERVICE)) continue;
        if (!matcher_test(&q->selector, m, service, asked, e)) return false;
    }
    return true;
}

static bool list_units(struct block_walk *w, err *e)
{
    for (size_t i = 0; i < w->object_count; i++) {
        struct block_object *o = &w->objects[i];
        if (!o->footer || o->faulty) continue;
        bool named = false;
        const struct block_service_ref *one = only_service(w->ask.q, o->footer, &named);
        w->out->objects++;
        if (named) {
            bool asked = false;
            if (one && !asks_service(w->ask.q, one->name, &asked, e)) return false;
            if (asked && !add_unit(w, o, one, e)) return false;
            continue;
        }
        for (uint32_t k = 0; k < o->footer->service_count; k++) {
            const struct block_service_ref *s = &o->footer->services[k];
            bool asked = false;
            if (!asks_service(w->ask.q, s->name, &asked, e)) return false;
            if (asked && !add_unit(w, o, s, e)) return false;
        }
    }
    return true;
}

// ---- life of a walk

static bool list_needed(struct block_walk *w)
{
    const struct query *q = w->ask.q;
    struct names lists[3];
    size_t n = name_lists(q, lists);
    size_t most = q->selector.n;
    for (size_t i = 0; i < n; i++)
        most += lists[i].n;
    for (size_t i = 0; i < q->hide_count; i++)
        most += q->hides[i].selector.n;
    str *v = ARENA_ARRAY(&w->arena, str, most);
    if (!v) return false;
    assert(w->ask.needed_count == 0);
    for (size_t i = 0; i < q->selector.n; i++) {
        if (!comes_with_all(q->selector.v[i].name))
            v[w->ask.needed_count++] = q->selector.v[i].name;
    }
    for (size_t i = 0; i < q->hide_count; i++) {
        const struct selector *sel = &q->hides[i].selector;
        for (size_t k = 0; k < sel->n; k++) {
            if (!comes_with_all(sel->v[k].name)) v[w->ask.needed_count++] = sel->v[k].name;
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < lists[i].n; k++) {
            if (!comes_with_all(lists[i].v[k])) v[w->ask.needed_count++] = lists[i].v[k];
        }
    }
    assert(w->ask.needed_count <= most);
    w->ask.needed = v;
    w->ask.only_all = needs_only_all(q);
    return true;
}

bool block_walk_begin(struct block_walk *w, const struct level_plan *p, err *e)
{
    assert(w->blocks && w->req && w->m && w->out && w->ask.q && w->object_count == 0);
    arena_init(&w->arena, &w->m->memory, SIZE_MAX);
    arena_init(&w->wave, &w->m->memory, SIZE_MAX);
    if (!list_needed(w) || !list_skipped(w) || !list_objects(w, p)) return block_no_room(w, e);
    return load_footers(w, e) && list_units(w, e);
}

void block_walk_end(struct block_walk *w)
{
    for (size_t i = 0; i < w->object_count; i++)
        blocks_unref(w->blocks, w->objects[i].kept);
    arena_release(&w->wave);
    arena_release(&w->arena);
}

// ---- waves

// Index and symbols must have the same number of stacks: vectors were checked against the first,
// sums are looked up in the second.
static bool is_damaged(const struct block_unit *u, err *why)
{
    uint32_t symbols = u->names_kept ? u->names_kept->stack_count
                       : u->symbols  ? u->symbols->stack_count
                                     : 0;
    if (!u->index || symbols == 0 || u->index->stack_count == symbols) return false;
    err_set(why, ERR_DATA_LOSS, "service %.*s: the index is of %u stacks, the symbols have %u",
            STR(u->service->name), u->index->stack_count, symbols);
    return true;
}

// If the cache has no room for names, the question loads symbols and unites names for itself.
static bool load_symbols(struct block_walk *w, struct block_want *v, size_t n, err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!v[i].no_room) continue;
        v[i].no_room = false;
        v[i].part = BLOCK_PART_SYMBOLS;
        if (!blocks_load(w, &v[i], 1, e)) return false;
    }
    return true;
}

static bool use_wants(struct block_walk *w, struct block_unit *u, const struct block_want *index,
                      const struct block_want *symbols, err *e)
{
    err damage = {0};
    assert(!u->index_kept && !u->symbols_kept && !u->names_kept);
    const err *why = index->why ? index->why : symbols->why;
    u->index_kept = index->kept;
    *(symbols->part == BLOCK_PART_NAMES ? &u->names_kept : &u->symbols_kept) = symbols->kept;
    if (u->index_kept) u->index = &u->index_kept->index;
    if (u->symbols_kept) u->symbols = &u->symbols_kept->symbols;
    if (is_damaged(u, &damage)) {
        // The references stay, for release_wave; but nobody reads what does not belong together.
        u->index = NULL;
        u->symbols = NULL;
        why = &damage;
    }
    if (why) return block_note(w, u->object, why, e);
    if (!u->index) return true;  // loading failed, and the question ends
    u->asked = ARENA_ARRAY(&w->wave, bool, u->index->type_count);
    return u->asked ? block_ask_types(w, u, e) : block_no_room(w, e);
}

static bool load_wave(struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    assert(n > 0 && n <= WAVE_UNITS);
    // Indexes first, then symbols, so that a question without symbols loads the first half.
    struct block_want *wants = ARENA_ARRAY(&w->wave, struct block_want, 2 * n);
    if (!wants) return block_no_room(w, e);
    for (size_t i = 0; i < n; i++) {
        const struct block_service_ref *s = v[i].service;
        struct block_want want = {.object = v[i].object->object, .service = s};
        want.part = BLOCK_PART_INDEX;
        want.extent = &s->index;
        wants[i] = want;
        want.part = w->ask.sections & BLOCK_WITH_NAMES ? BLOCK_PART_NAMES : BLOCK_PART_SYMBOLS;
        want.extent = &s->symbols;
        wants[n + i] = want;
    }
    bool ok = blocks_load(w, wants, reads_symbols(&w->ask) ? 2 * n : n, e) &&
              load_symbols(w, wants + n, n, e);
    for (size_t i = 0; i < n; i++) {
        // After a failure too: the unit takes the references, and release_wave gives them back.
        err ignored = {0};
        ok = use_wants(w, &v[i], &wants[i], &wants[n + i], ok ? e : &ignored) && ok;
    }
    return ok;
}

static void release_wave(struct block_walk *w, struct block_unit *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        blocks_unref(w->blocks, v[i].index_kept);
        blocks_unref(w->blocks, v[i].symbols_kept);
        v[i].index_kept = NULL;
        blocks_unref(w->blocks, v[i].names_kept);
        v[i].symbols_kept = NULL;
        v[i].names_kept = NULL;
        v[i].index = NULL;
        v[i].asked = NULL;
        v[i].symbols = NULL;
    }
    block_io_release(w, &w->prefetch.io);
    w->prefetch = (struct block_prefetch){0};
    arena_release(&w->wave);
}

// Moves units of faulty objects to the end, where the wants do not look. They stay in the wave, as
// release_wave has to give back their sections. Returns the number of the others.
static size_t keep_sound(struct block_unit *v, size_t n)
{
    size_t kept = 0;  // kept <= i: units are swapped, none is lost
    for (size_t i = 0; i < n; i++) {
        if (v[i].object->faulty) continue;
        struct block_unit u = v[kept];
        v[kept++] = v[i];
        v[i] = u;
    }
    return kept;
}

// What the wants of a question keep between waves.
struct wants {
    struct block_tree tree;
    struct block_stats stats;
};

static bool read_wants(void *arg, struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    struct wants *wants = arg;
    const struct query *q = w->ask.q;
    return (!q->tree.wanted || block_read_tree(&wants->tree, w, v, n, e)) &&
           (!q->totals.wanted || block_read_totals(w, v, n, e)) &&
           (!q->heat.wanted || block_read_heat(w, v, n, e)) &&
           (!q->labels.wanted || block_read_labels(w, v, n, e)) &&
           (!q->stats || block_read_stats(&wants->stats, w, v, n, e));
}

static uint64_t unit_bytes(const struct block_walk *w, const struct block_unit *u)
{
    const struct block_service_ref *s = u->service;
    uint64_t n = s->index.raw;
    if (reads_symbols(&w->ask)) n += s->symbols.raw + s->all.raw;
    if (w->ask.sections & BLOCK_WITH_TOTALS) n += s->totals.raw;
    return n;
}

// Answers from footers alone, where a question for labels or statistics needs no more; the other
// units stay in the list.
static bool ask_footers(struct block_walk *w, err *e)
{
    const struct query *q = w->ask.q;
    bool others = q->tree.wanted || q->totals.wanted || q->heat.wanted;
    size_t kept = 0;
    if (!w->ask.only_all || others || q->labels.wanted == q->stats || q->hide_count) return true;
    for (size_t i = 0; i < w->unit_count; i++) {
        bool done = false;
        if (q->labels.wanted && !block_labels_by_footer(w, &w->units[i], &done, e)) return false;
        if (q->stats && !block_stats_by_footer(w, &w->units[i], &done, e)) return false;
        if (!done) w->units[kept++] = w->units[i];
    }
    assert(kept <= w->unit_count);
    w->unit_count = kept;
    return true;
}

bool block_walk_waves(struct block_walk *w, block_wave_fn *fn, void *arg, err *e)
{
    // unit_count is asked each time: a wave may end the walk (prefetch_wave).
    for (size_t i = 0; i < w->unit_count;) {
        struct block_unit *v = &w->units[i];
        uint64_t bytes = unit_bytes(w, v);
        size_t n = 1;
        while (i + n < w->unit_count && n < WAVE_UNITS) {
            uint64_t more = unit_bytes(w, &v[n]);
            if (bytes + more > WAVE_BYTES) break;
            bytes += more;
            n++;
        }
        assert(n >= 1 && i + n <= w->unit_count);
        // Once a wave, so that a question whose client left ends soon and not at its end.
        bool ok =
            req_alive(w->req, e) && load_wave(w, v, n, e) && fn(arg, w, v, keep_sound(v, n), e);
        release_wave(w, v, n);
        if (!ok) return false;
        i += n;
    }
    return true;
}

bool block_read(struct blocks *b, struct req *r, const struct block_task *t, struct merged *m,
                struct block_reads *out, err *e)
{
    struct wants wants = {0};
    assert(t->q && t->plan && (!t->excluded || t->q->tree.wanted));
    struct block_walk w = {.blocks = b,
                           .req = r,
                           .m = m,
                           .out = out,
                           .ask = {.q = t->q,
                                   .skip = t->skip,
                                   .excluded = t->excluded,
                                   .sections =
                                       sections_of(t->q, m->stacks.names_only) | totals_of(t->q)}};
    m->totals.group_by = t->q->totals.group_by;
    m->totals.group_by_count = t->q->totals.group_by_count;
    m->heat.group_by = t->q->heat.group_by;
    m->heat.group_by_count = t->q->heat.group_by_count;
    block_stats_init(&wants.stats, &w);
    bool ok = block_walk_begin(&w, t->plan, e) && ask_footers(&w, e) &&
              block_walk_waves(&w, read_wants, &wants, e) && block_tree_finish(&wants.tree, &w, e);
    block_tree_release(&wants.tree, &w);
    block_stats_release(&wants.stats);
    block_walk_end(&w);
    return ok;
}

// Walks that add nothing up have a struct merged only for the budget of their scratch memory.
static void begin_inspecting(struct block_walk *w, struct merged *m)
{
    mem_budget_init(&m->memory, "querier.query_memory", w->req->arena.budget, 0);
    w->m = m;
}

static bool weigh_wave(void *arg, struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    const struct query *q = w->ask.q;
    return (!q->tree.wanted || block_tree_weigh(w, v, n, arg, e)) &&
           (!q->totals.wanted || block_totals_weigh(w, v, n, arg, e)) &&
           (!q->heat.wanted || block_heat_weigh(w, v, n, arg, e));
}

bool block_read_weigh(struct blocks *b, struct req *r, const struct block_task *t, uint64_t *bytes,
                      struct block_reads *out, err *e)
{
    struct merged m = {0};
    struct block_walk w = {.blocks = b,
                           .req = r,
                           .out = out,
                           .ask = {.q = t->q, .skip = t->skip, .excluded = t->excluded}};
    begin_inspecting(&w, &m);
    bool ok = block_walk_begin(&w, t->plan, e) && block_walk_waves(&w, weigh_wave, bytes, e);
    block_walk_end(&w);
    return ok;
}

// ---- prefetch

static bool prefetch_wave(void *arg, struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    (void)arg;
    w->unit_count = 0;  // ends the walk after the first wave: the answer has caught up by then
    return !reads_all(w->ask.q) || block_tree_into_cache(w, v, n, e);
}

bool block_read_into_cache(struct blocks *b, struct req *r, const struct block_task *t,
                           struct block_reads *out, err *e)
{
    struct merged m = {0};
    struct block_walk w = {.blocks = b,
                           .req = r,
                           .m = &m,
                           .out = out,
                           .ask = {.q = t->q,
                                   .sections = sections_of(t->q, !t->q->tree.full_symbols)}};
    // ask_footers adds to m, which is thrown away: it tells which units need more than their
    // footer.
    if (!merged_init(&m, r->arena.budget, 0, true, e)) {
        merged_release(&m);
        return false;
    }
    bool ok = block_walk_begin(&w, t->plan, e) && ask_footers(&w, e) &&
              block_walk_waves(&w, prefetch_wave, NULL, e);
    block_walk_end(&w);
    merged_release(&m);
    return ok;
}

// ---- projections

static bool survives_in(const struct block_walk *w, const struct block_unit *u)
{
    for (uint32_t t = 0; t < u->index->type_count; t++) {
        if (u->asked[t] && !block_projection_keeps(w, &u->index->dropped[t])) return false;
    }
    return true;
}

static bool inspect_projections(void *arg, struct block_walk *w, struct block_unit *v, size_t n,
                                err *e)
{
    bool *survives = arg;
    (void)e;
    for (size_t i = 0; i < n; i++)
        *survives = *survives && survives_in(w, &v[i]);
    return true;
}

// Keeps the units whose projections matter: parents that have no keys of series to fall back on.
static void keep_projected(struct block_walk *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->unit_count; i++) {
        const struct block_unit *u = &w->units[i];
        uint32_t classes = u->object->footer->about.classes;
        bool depends = !w->ask.only_all && !block_has_rows(u) && classes & 1u << BLOCK_PROJECTION &&
                       !(classes & 1u << BLOCK_SERIES);
        if (depends) w->units[kept++] = *u;
    }
    w->unit_count = kept;
}

bool block_read_survives(struct blocks *b, struct req *r, const struct query *q,
                         const struct level_plan *p, bool *survives, struct block_reads *out,
                         err *e)
{
    struct merged m = {0};
    struct block_walk w = {.blocks = b, .req = r, .out = out, .ask.q = q};
    begin_inspecting(&w, &m);
    *survives = true;
    bool ok = block_walk_begin(&w, p, e);
    keep_projected(&w);
    ok = ok && block_walk_waves(&w, inspect_projections, survives, e);
    block_walk_end(&w);
    return ok;
}
