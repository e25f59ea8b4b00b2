// SPDX-License-Identifier: Apache-2.0
#include "unit/querier/levels_naive.h"

#define NAIVE_SERIES 6                                // which parts of a service are made of
#define NAIVE_BASE   ((int64_t)(28 * 24) * 700 - 24)  // first hour: the last day of a window

static uint32_t naive_roll(struct naive *w, uint32_t n)
{
    return w->pick(w->arg, n);
}

static id128 naive_id(int kind, size_t number)
{
    return (id128){
        .b = {[0] = (uint8_t)kind, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number}};
}

static int64_t naive_hour(int64_t hour)
{
    return (NAIVE_BASE + hour) * SLOT_HOUR;
}

// A quarter of the packs, two, or all.
static void naive_packs(struct naive *w, struct manifest_block *b)
{
    static const uint32_t borders[] = {0, 0x40000000, 0x80000000, 0xc0000000};
    uint32_t wide = naive_roll(w, 3);
    uint32_t quarter = wide == 0 ? 0 : naive_roll(w, 4) & (wide == 1 ? 2 : 3);
    uint32_t n = wide == 0 ? 4 : wide == 1 ? 2 : 1;
    b->pack_lo = borders[quarter];
    b->pack_hi = quarter + n == 4 ? UINT32_MAX : borders[quarter + n] - 1;
}

// A time within (hour, hour + 1], on and beside borders more often than elsewhere.
static int64_t naive_time(struct naive *w, int64_t hour)
{
    int64_t at = naive_hour(hour);
    switch (naive_roll(w, 6)) {
    case 0:
        return at + SLOT_HOUR;
    case 1:
        return at + 1;
    case 2:
        return at + SLOT_HOUR - 1;
    case 3:
        return at + (int64_t)naive_roll(w, 12) * SLOT_FIVE + 1 + naive_roll(w, 3);
    case 4:
        return at + (int64_t)(1 + naive_roll(w, 60)) * SLOT_MINUTE;
    default:
        return at + 1 + (int64_t)naive_roll(w, 3600) * 1000000000;
    }
}

static void naive_add_row(struct naive *w, int64_t hour, int leaf, int segment)
{
    if (w->row_count == NAIVE_ROWS) return;
    const struct manifest_block *b = leaf >= 0 ? &w->leaves[leaf] : NULL;
    uint32_t lo = b ? b->pack_lo : 0;
    uint32_t hi = b ? b->pack_hi : UINT32_MAX;
    uint32_t pack = (uint32_t)((uint64_t)naive_roll(w, 8) * UINT32_MAX / 7);
    pack = MIN(MAX(pack, lo), hi);
    w->rows[w->row_count++] =
        (struct naive_row){naive_time(w, hour), pack, naive_roll(w, NAIVE_SERIES), leaf, segment};
}

static void naive_leaf(struct naive *w, int64_t hour, uint32_t hours, bool old)
{
    if (w->leaf_count == NAIVE_LEAVES) return;
    size_t i = w->leaf_count++;
    struct manifest_block *b = &w->leaves[i];
    *b = (struct manifest_block){.id = naive_id(BLOCK_RAW, i),
                                 .kind = BLOCK_RAW,
                                 .from_hour = NAIVE_BASE + hour,
                                 .hours = hours,
                                 .classes = naive_roll(w, 8) ? 7 : 4};
    naive_packs(w, b);
    uint32_t fate = naive_roll(w, 8);
    w->state[i] = fate == 0 ? LEVEL_DEAD : LEVEL_LIVE;
    if (old && fate > 1) w->state[i] = LEVEL_EXPIRED;
    uint32_t rows = hours + naive_roll(w, 3);
    for (uint32_t k = 0; k < rows; k++)
        naive_add_row(w, hour + (hours > 1 ? naive_roll(w, hours) : 0), (int)i, -1);
}

static bool naive_meets(const struct manifest_block *a, const struct manifest_block *b)
{
    return a->pack_lo <= b->pack_hi && b->pack_lo <= a->pack_hi;
}

static bool naive_names(const struct manifest_cover *c, id128 id)
{
    for (size_t i = 0; i < c->leaf_count; i++) {
        if (id128_eq(c->leaves[i], id)) return true;
    }
    return false;
}

// Names leaves of a window: mostly all that are not dead. A leaf of a day is named in all windows
// of a parent or in none, and in more than one hour, as compactors do.
static void naive_cover(struct naive *w, struct manifest_block *p, struct manifest_cover *c,
                        bool careless)
{
    c->leaves = &w->named[w->named_count];
    for (size_t i = 0; i < w->leaf_count; i++) {
        const struct manifest_block *b = &w->leaves[i];
        if (b->from_hour + b->hours <= c->hour || b->from_hour >= c->hour + (int64_t)c->hours)
            continue;
        if (!naive_meets(p, b)) continue;
        bool named = w->state[i] != LEVEL_DEAD;
        if (careless && naive_roll(w, 12) == 0) named = !named;
        if (b->hours > c->hours && p->hours < 2) named = false;
        if (b->hours > c->hours && c != p->covers) named = naive_names(p->covers, b->id);
        if (!named) continue;
        w->named[w->named_count++] = b->id;
        c->leaf_count++;
    }
}

// The other parts of a service that is cut by its series; now and then one is lost.
static void naive_parts(struct naive *w, struct manifest_block *p)
{
    p->parts = 2 + naive_roll(w, 2);
    for (uint32_t part = 1; part < p->parts && w->parent_count < NAIVE_PARENTS; part++) {
        if (naive_roll(w, 8) == 0) continue;
        struct manifest_block *o = &w->parents[w->parent_count];
        *o = *p;
        o->id = naive_id(p->kind, w->parent_count++);
        o->part = part;
    }
}

static void naive_parent(struct naive *w)
{
    if (w->parent_count == NAIVE_PARENTS) return;
    size_t i = w->parent_count++;
    struct manifest_block *p = &w->parents[i];
    bool days = naive_roll(w, 2);
    uint32_t day = naive_roll(w, NAIVE_DAYS);
    uint32_t step = days ? 24 : 1;
    uint32_t from = day * 24;
    uint32_t hours = 24;
    if (days && day == 1) hours = 24 * (1 + naive_roll(w, 2));
    if (!days) {
        uint32_t skip = naive_roll(w, 4) ? 0 : naive_roll(w, 24);
        from += skip;
        hours = naive_roll(w, 2) ? 24 - skip : 1 + naive_roll(w, 24 - skip);
    }
    static const uint32_t classes[] = {1, 3, 7};
    *p = (struct manifest_block){.id = naive_id(days ? BLOCK_DAYS : BLOCK_HOURS, i),
                                 .kind = days ? BLOCK_DAYS : BLOCK_HOURS,
                                 .from_hour = NAIVE_BASE + from,
                                 .hours = hours,
                                 .classes = classes[naive_roll(w, 3)],
                                 .covers = w->covers[i]};
    naive_packs(w, p);
    bool careless = naive_roll(w, 2);
    for (uint32_t h = 0; h < hours; h += step) {
        struct manifest_cover *c = &w->covers[i][p->cover_count++];
        *c = (struct manifest_cover){.hour = p->from_hour + h, .hours = step};
        naive_cover(w, p, c, careless);
    }
    if (naive_roll(w, 4) == 0) naive_parts(w, p);
}

static void naive_blocks(struct naive *w)
{
    uint32_t old = naive_roll(w, 2) ? naive_roll(w, NAIVE_HOURS) : 0;
    for (int64_t hour = 0; hour < NAIVE_HOURS; hour++) {
        uint32_t n = naive_roll(w, 4) ? 1 + naive_roll(w, 3) : 0;
        for (uint32_t i = 0; i < n; i++)
            naive_leaf(w, hour, 1, hour < old);
        if (hour % 24 == 0 && naive_roll(w, 2)) naive_leaf(w, hour, 24, hour + 24 < old);
    }
    uint32_t parents = naive_roll(w, NAIVE_PARENTS + 1);
    for (uint32_t i = 0; i < parents; i++)
        naive_parent(w);
    uint32_t segments = naive_roll(w, NAIVE_SEGMENTS);
    for (uint32_t i = 0; i < segments; i++) {
        int64_t hour = naive_roll(w, NAIVE_HOURS);
        w->segments[i].name = (struct segment_name){.hour = NAIVE_BASE + hour, .cut = i};
        for (uint32_t k = 0; k < 3; k++)
            naive_add_row(w, hour, -1, (int)i);
    }
    w->segment_count = segments;
}

static int64_t naive_edge(struct naive *w)
{
    int64_t hour = (int64_t)naive_roll(w, NAIVE_HOURS + 2) - 1;
    int64_t t = naive_time(w, hour);
    switch (naive_roll(w, 6)) {
    case 0:
        return t - 1;
    case 1:
        return t + 1;
    case 2:
        return naive_hour(hour / 24 * 24);
    case 3:
        return naive_hour(hour / 24 * 24) - 1;
    default:
        return t;
    }
}

static void naive_question(struct naive *w)
{
    struct level_ask *k = &w->ask;
    *k = (struct level_ask){.pack_hi = UINT32_MAX};
    int64_t a = naive_edge(w);
    int64_t b = naive_edge(w);
    k->from_ns = MIN(a, b);
    k->to_ns = MAX(a, b);
    if (naive_roll(w, 16) == 0) k->from_ns = INT64_MIN;
    if (naive_roll(w, 16) == 0) k->to_ns = INT64_MAX;
    if (naive_roll(w, 2)) k->pack_lo = k->pack_hi = 0x40000000U * naive_roll(w, 4) + 7;
    k->use = (enum level_use)naive_roll(w, 3);
    k->classes = 1U << naive_roll(w, 3);
    static const int64_t steps[] = {SLOT_MINUTE, SLOT_HOUR,     SLOT_DAY,
                                    15000000000, 90000000000,   7 * SLOT_MINUTE,
                                    SLOT_DAY,    3 * SLOT_HOUR, 2 * SLOT_DAY};
    k->step_ns = steps[naive_roll(w, COUNT(steps))];
    k->first_ns = naive_roll(w, 2) ? naive_hour(0) : naive_edge(w);
    uint32_t n = naive_roll(w, 3) ? 0 : naive_roll(w, 4);
    for (uint32_t i = 0; i < n && w->live_count; i++)
        w->without[w->without_count++] = w->live[naive_roll(w, (uint32_t)w->live_count)].name;
    k->without = w->without;
    k->without_count = w->without_count;
}

static int naive_order(const void *a, const void *b)
{
    const struct manifest_block *x = a;
    const struct manifest_block *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->from_hour != y->from_hour) return x->from_hour < y->from_hour ? -1 : 1;
    if (x->pack_lo != y->pack_lo) return x->pack_lo < y->pack_lo ? -1 : 1;
    return memcmp(x->id.b, y->id.b, 16);
}

void naive_make(struct naive *w, naive_pick *pick, void *arg)
{
    memset(w, 0, sizeof *w);
    w->pick = pick;
    w->arg = arg;
    naive_blocks(w);
    for (size_t i = 0; i < w->leaf_count; i++) {
        snprintf(w->names[i], sizeof w->names[i], "raw %zu", i);
        w->leaves[i].name = str_of(w->names[i]);
        if (w->state[i] == LEVEL_LIVE) w->live[w->live_count++] = w->leaves[i];
    }
    for (size_t i = 0; i < w->parent_count; i++) {
        char *name = w->names[NAIVE_LEAVES + i];
        snprintf(name, sizeof w->names[i], "parent %zu", i);
        w->parents[i].name = str_of(name);
        w->live[w->live_count++] = w->parents[i];
    }
    if (w->live_count) qsort(w->live, w->live_count, sizeof *w->live, naive_order);
    naive_question(w);
}

static enum level_leaf naive_state(const void *arg, id128 id)
{
    const struct naive *w = arg;
    return w->state[(size_t)id.b[14] << 8 | id.b[15]];
}

struct level_given naive_given(const struct naive *w)
{
    return (struct level_given){.tenant = S("t"),
                                .blocks = w->live,
                                .block_count = w->live_count,
                                .segments = w->segments,
                                .segment_count = w->segment_count,
                                .leaf = naive_state,
                                .arg = w};
}

// ---- what a plan is worth

static bool naive_in(int64_t t, int64_t from, int64_t to)
{
    return t > from && t <= to;
}

// Whether a parent's sums hold a row.
static bool naive_sums(const struct naive *w, const struct manifest_block *p,
                       const struct naive_row *r)
{
    if (r->leaf < 0 || r->pack < p->pack_lo || r->pack > p->pack_hi) return false;
    if (p->parts && r->series * p->parts / NAIVE_SERIES != p->part) return false;
    for (size_t i = 0; i < p->cover_count; i++) {
        const struct manifest_cover *c = &p->covers[i];
        int64_t from = c->hour * SLOT_HOUR;
        if (!naive_in(r->time_ns, from, from + (int64_t)c->hours * SLOT_HOUR)) continue;
        if (naive_names(c, w->leaves[r->leaf].id)) return true;
    }
    return false;
}

unsigned naive_counted(const struct naive *w, const struct level_plan *p, const struct naive_row *r)
{
    unsigned n = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct level_piece *x = &p->pieces[i];
        const struct level_object *o = x->object;
        if (!naive_in(r->time_ns, x->from_ns, x->to_ns)) continue;
        if (r->pack < x->pack_lo || r->pack > x->pack_hi) continue;
        if (o->kind == BLOCK_SEGMENT) {
            n += r->segment >= 0 && o->segment == &w->segments[r->segment];
        } else if (o->kind == BLOCK_RAW) {
            n += r->leaf >= 0 && id128_eq(o->block->id, w->leaves[r->leaf].id);
        } else {
            n += naive_sums(w, o->block, r);
        }
    }
    return n;
}

// Whether anybody can know of a row, and whether its object was said to be missing.
static bool naive_visible(const struct naive *w, const struct naive_row *r)
{
    if (r->leaf < 0 || w->state[r->leaf] == LEVEL_LIVE) return true;
    if (w->state[r->leaf] == LEVEL_DEAD) return false;
    for (size_t i = 0; i < w->parent_count; i++) {
        if (naive_sums(w, &w->parents[i], r)) return true;
    }
    return false;
}

static bool naive_missing(const struct naive *w, const struct level_plan *p,
                          const struct naive_row *r)
{
    for (size_t i = 0; r->leaf >= 0 && i < p->missing_count; i++) {
        const struct manifest_block *b = p->missing[i]->block;
        if (b && id128_eq(b->id, w->leaves[r->leaf].id)) return true;
    }
    return false;
}

static const char *naive_check_row(const struct naive *w, const struct level_plan *p,
                                   const struct naive_row *r)
{
    if (r->pack < w->ask.pack_lo || r->pack > w->ask.pack_hi) return NULL;
    unsigned n = naive_counted(w, p, r);
    bool wanted = naive_in(r->time_ns, p->from_ns, p->to_ns) && naive_visible(w, r);
    if (n > 1) return "a row counts twice";
    if (n == 1 && !wanted) return "a row counts that should not";
    if (n == 1 || !wanted || naive_missing(w, p, r)) return NULL;
    bool expired = r->leaf >= 0 && w->state[r->leaf] == LEVEL_EXPIRED;
    if (expired && p->gone && naive_in(r->time_ns, p->gone_from_ns, p->gone_to_ns)) return NULL;
    return "a row does not count";
}

// A border strictly within a slot of this width in (from, to]?
static bool naive_cut(const struct level_ask *k, int64_t width, int64_t from, int64_t to)
{
    for (int64_t slot = from; slot < to; slot += width) {
        int64_t over = (slot - k->first_ns) % k->step_ns;
        if (over < 0) over += k->step_ns;
        if (slot + (k->step_ns - over) < slot + width) return true;
    }
    return false;
}

static const char *naive_check_piece(const struct naive *w, const struct level_plan *p,
                                     const struct level_piece *x)
{
    const struct level_ask *k = &w->ask;
    enum block_kind kind = x->object->kind;
    bool leaf = kind == BLOCK_RAW || kind == BLOCK_SEGMENT;
    if (x->from_ns >= x->to_ns || x->pack_lo > x->pack_hi) return "an empty piece";
    if (x->from_ns < p->from_ns || x->to_ns > p->to_ns) return "a piece outside the range";
    if (str_among(x->object->name, k->without, k->without_count)) return "a lost object is used";
    if (x->use == LEVEL_ROWS) return leaf ? NULL : "rows of a parent";
    if (x->use != k->use) return "the wrong use";
    if (leaf && (x->use == LEVEL_TOTALS || k->classes != 1)) return "a leaf has none of these";
    if (!leaf && (k->classes & ~x->object->block->classes)) return "a class is not there";
    int64_t width = kind == BLOCK_RAW ? SLOT_FIVE : kind == BLOCK_DAYS ? SLOT_DAY : SLOT_HOUR;
    if (x->use == LEVEL_TOTALS) width = kind == BLOCK_DAYS ? SLOT_HOUR : SLOT_MINUTE;
    if (x->from_ns % width || x->to_ns % width) return "parts of slots";
    bool cut = x->use == LEVEL_TOTALS && naive_cut(k, width, x->from_ns, x->to_ns);
    return cut && p->slot_ns < width ? "a border within a slot" : NULL;
}

void naive_print(const struct level_plan *p, struct buf *out)
{
    for (size_t i = 0; i < p->n; i++) {
        level_print_piece(&p->pieces[i], out);
        buf_byte(out, '\n');
    }
    for (size_t i = 0; i < p->missing_count; i++)
        buf_printf(out, "missing %.*s\n", STR(p->missing[i]->name));
    buf_printf(out, "(%lld, %lld]%s%s\n", (long long)p->from_ns, (long long)p->to_ns,
               p->rounded ? " rounded" : "", p->gone ? " gone" : "");
}

const char *naive_check(const struct naive *w, const struct level_plan *p)
{
    bool expired = false;
    for (size_t i = 0; i < w->leaf_count; i++)
        expired |= w->state[i] == LEVEL_EXPIRED;
    if (!expired && (p->rounded || p->gone)) return "rounded, though every leaf is there";
    if (w->without_count == 0 && p->missing_count) return "nothing is missing";
    if (p->rounded != (level_rounding(p, &w->ask) > 0)) return "rounded or not?";
    if (p->from_ns > w->ask.from_ns && p->from_ns - w->ask.from_ns > 1000000) return "from";
    if (p->to_ns < w->ask.to_ns && w->ask.to_ns - p->to_ns > 1000000) return "to";
    for (size_t i = 0; i < p->n; i++) {
        const char *fault = naive_check_piece(w, p, &p->pieces[i]);
        if (fault) return fault;
        if (i && p->pieces[i - 1].object->kind < p->pieces[i].object->kind) return "order";
    }
    for (size_t i = 0; i < w->row_count; i++) {
        const char *fault = naive_check_row(w, p, &w->rows[i]);
        if (fault) return fault;
    }
    return NULL;
}
