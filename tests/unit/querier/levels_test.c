// SPDX-License-Identifier: Apache-2.0
//
// The planner: at random against levels_naive.h, and tables of plans as they must be.
#include "lib/arena.h"
#include "unit/querier/levels_naive.h"

// ---- at random, against points

static uint32_t roll(void *arg, uint32_t n)
{
    uint64_t *dice = arg;
    *dice = *dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*dice >> 33) % n;
}

static void every_row_counts_once(void **state)
{
    (void)state;
    struct naive *w = calloc(1, sizeof *w);
    assert_non_null(w);
    unsigned with_nodes = 0;
    unsigned rounded = 0;
    unsigned gone = 0;
    unsigned exact_with_expired = 0;
    for (uint64_t seed = 1; seed <= 6000; seed++) {
        uint64_t dice = seed;
        naive_make(w, roll, &dice);
        struct arena a;
        arena_init(&a, NULL, (size_t)64 << 20);
        const struct level_given given = naive_given(w);
        struct level_plan p;
        assert_ok(level_plan_given(&a, &given, &w->ask, &p, e));
        const char *fault = naive_check(w, &p);
        if (fault) {
            struct buf out;
            buf_init(&out, NULL, 1 << 20);
            naive_print(&p, &out);
            fail_msg("seed %llu: %s\n%.*s", (unsigned long long)seed, fault, STR(buf_view(&out)));
        }
        bool nodes = p.n && p.pieces[0].object->kind >= BLOCK_HOURS;
        with_nodes += nodes;
        rounded += p.rounded;
        gone += p.gone;
        exact_with_expired += nodes && !p.rounded && !p.gone;
        arena_release(&a);
    }
    free(w);
    assert_true(with_nodes > 1000);
    assert_true(rounded > 200);
    assert_true(gone > 200);
    assert_true(exact_with_expired > 500);
}

// What a querier subtracts from one another (querier/answer/serve.c).
static void plans_for_two_classes_that_answer_alike_count_the_same_rows(void **state)
{
    (void)state;
    struct naive *w = calloc(1, sizeof *w);
    assert_non_null(w);
    unsigned alike = 0;
    unsigned rounded = 0;
    unsigned other_pieces = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        uint64_t dice = seed;
        naive_make(w, roll, &dice);
        struct arena a;
        arena_init(&a, NULL, (size_t)64 << 20);
        const struct level_given given = naive_given(w);
        struct level_plan p[2];
        w->ask.use = LEVEL_NODES;
        w->ask.step_ns = 0;
        w->ask.classes = 1U << BLOCK_ALL;
        assert_ok(level_plan_given(&a, &given, &w->ask, &p[0], e));
        w->ask.classes = 1U << BLOCK_SERIES;
        assert_ok(level_plan_given(&a, &given, &w->ask, &p[1], e));
        bool complete = !p[0].gone && !p[1].gone && !p[0].missing_count && !p[1].missing_count;
        bool same = p[0].rounded == p[1].rounded && p[0].from_ns == p[1].from_ns &&
                    p[0].to_ns == p[1].to_ns;
        if (complete && same) {
            alike++;
            rounded += p[0].rounded;
            other_pieces += p[0].n != p[1].n;
            for (size_t i = 0; i < w->row_count; i++) {
                const struct naive_row *r = &w->rows[i];
                if (r->pack < w->ask.pack_lo || r->pack > w->ask.pack_hi) continue;
                assert_int_equal(naive_counted(w, &p[0], r), naive_counted(w, &p[1], r));
            }
        }
        arena_release(&a);
    }
    free(w);
    assert_true(alike > 1000);
    assert_true(rounded > 20);
    assert_true(other_pieces > 500);
}

// ---- tables

// A block in hours from the first one of a window; names: the leaves of its cover, hour by hour
// (HOURS) or day by day (DAYS), as bytes of their ids; windows are separated by '/'.
struct row {
    const char *id;  // one letter, the block's name
    enum block_kind kind;
    int from_hour;
    int hours;
    uint32_t pack_lo;
    uint32_t pack_hi;
    uint32_t classes;
    const char *covers;
};

#define BASE ((int64_t)28 * 24 * 700)
#define FULL 0, UINT32_MAX

static const char *expired;  // letters of the leaves that are
static const char *dead;

static enum level_leaf state_of(const void *arg, id128 id)
{
    (void)arg;
    if (id.b[0] && strchr(expired, id.b[0])) return LEVEL_EXPIRED;
    return id.b[0] && strchr(dead, id.b[0]) ? LEVEL_DEAD : LEVEL_LIVE;
}

static struct manifest_block block_of(const struct row *r)
{
    struct manifest_block b = {.id.b = {(uint8_t)r->id[0]},
                               .kind = r->kind,
                               .from_hour = BASE + r->from_hour,
                               .hours = (uint32_t)r->hours,
                               .pack_lo = r->pack_lo,
                               .pack_hi = r->pack_hi,
                               .classes = r->classes,
                               .name = str_of(r->id)};
    if (!r->covers) return b;
    struct manifest_cover *covers = ARENA_ARRAY(&arena, struct manifest_cover, 700);
    str rest = str_of(r->covers);
    uint32_t step = r->kind == BLOCK_DAYS ? 24 : 1;
    while (rest.p) {
        str names = str_split(rest, '/', &rest);
        struct manifest_cover *c = &covers[b.cover_count];
        id128 *ids = ARENA_ARRAY(&arena, id128, names.n + 1);
        for (size_t i = 0; i < names.n; i++)
            ids[i].b[0] = (uint8_t)names.p[i];
        *c = (struct manifest_cover){.hour = b.from_hour + (int64_t)b.cover_count * step,
                                     .hours = step,
                                     .leaves = ids,
                                     .leaf_count = (uint32_t)names.n};
        b.cover_count++;
    }
    b.covers = covers;
    return b;
}

static const char *word(enum level_use use)
{
    return use == LEVEL_NODES ? "nodes" : use == LEVEL_TOTALS ? "totals" : "rows";
}

// "d nodes 0+24h; a rows 3600s..." in a short form: name, use, seconds from and to after BASE.
static str short_form(const struct level_plan *p)
{
    str out = S("");
    for (size_t i = 0; i < p->n; i++) {
        const struct level_piece *x = &p->pieces[i];
        bool part = x->pack_lo > 0 || x->pack_hi < UINT32_MAX;
        str name = x->object->kind == BLOCK_SEGMENT ? S("segment") : x->object->name;
        out = arena_printf(&arena, "%.*s%s%.*s %s %g-%g%s", STR(out), i ? ", " : "", STR(name),
                           word(x->use), (double)(x->from_ns - BASE * SLOT_HOUR) / SLOT_HOUR,
                           (double)(x->to_ns - BASE * SLOT_HOUR) / SLOT_HOUR, part ? " part" : "");
    }
    for (size_t i = 0; i < p->missing_count; i++)
        out = arena_printf(&arena, "%.*s, missing %.*s", STR(out), STR(p->missing[i]->name));
    if (p->rounded) {
        out = arena_printf(&arena, "%.*s, rounded %g-%g", STR(out),
                           (double)(p->from_ns - BASE * SLOT_HOUR) / SLOT_HOUR,
                           (double)(p->to_ns - BASE * SLOT_HOUR) / SLOT_HOUR);
    }
    if (p->slot_ns) out = arena_printf(&arena, "%.*s, slots", STR(out));
    if (p->gone) out = arena_printf(&arena, "%.*s, gone", STR(out));
    return out;
}

static const struct row day_rows[] = {
    {"a", BLOCK_RAW, 0, 1, FULL, 7, NULL},   {"b", BLOCK_RAW, 1, 1, FULL, 7, NULL},
    {"c", BLOCK_RAW, 1, 1, FULL, 7, NULL},  // late
    {"e", BLOCK_RAW, 30, 1, FULL, 7, NULL},  {"h", BLOCK_HOURS, 0, 3, FULL, 7, "a/b/"},
    {"d", BLOCK_DAYS, 0, 24, FULL, 7, "ab"}, {"w", BLOCK_DAYS, 0, 672, FULL, 3, "ab/e"},
};

static const struct row pack_rows[] = {
    {"a", BLOCK_RAW, 0, 1, 0, 0x7fffffff, 7, NULL},
    {"b", BLOCK_RAW, 0, 1, 0x80000000, UINT32_MAX, 7, NULL},
    {"h", BLOCK_HOURS, 0, 1, 0, 0x7fffffff, 7, "a"},
};

static const struct row two_rows[] = {
    {"a", BLOCK_RAW, 0, 1, FULL, 7, NULL},
    {"b", BLOCK_RAW, 1, 1, FULL, 7, NULL},
    {"g", BLOCK_HOURS, 0, 1, FULL, 7, "a"},
    {"h", BLOCK_HOURS, 0, 2, FULL, 7, "a/b"},
};

static const struct row wide_rows[] = {
    {"a", BLOCK_RAW, 0, 24, FULL, 7, NULL},
    {"c", BLOCK_RAW, 1, 1, FULL, 7, NULL},  // late
    {"h", BLOCK_HOURS, 0, 3, FULL, 7, "a/a/a"},
    {"d", BLOCK_DAYS, 0, 24, FULL, 7, "a"},
};

// What came late, summed beside the rest until the day is packed; the day's sums are of both.
static const struct row apart_rows[] = {
    {"a", BLOCK_RAW, 0, 1, FULL, 7, NULL},  {"b", BLOCK_RAW, 1, 1, FULL, 7, NULL},
    {"c", BLOCK_RAW, 1, 1, FULL, 7, NULL},  {"h", BLOCK_HOURS, 0, 2, FULL, 7, "a/b"},
    {"k", BLOCK_HOURS, 1, 1, FULL, 7, "c"}, {"d", BLOCK_DAYS, 0, 24, FULL, 7, "abc"},
};

// Ranges in ns after BASE.
#define H SLOT_HOUR
#define M SLOT_MINUTE
struct planned {
    const char *name;
    const struct row *rows;
    size_t n;
    int64_t from;
    int64_t to;
    enum level_use use;
    uint32_t classes;
    int64_t step;
    int64_t first;
    const char *expired;
    const char *dead;
    const char *without;
    const char *wanted;
};

static const struct planned cases[] = {
    {"a whole day: the longest object, and what came late", day_rows, 7, 0, 24 * H, LEVEL_NODES, 1,
     0, 0, "", "", NULL, "w nodes 0-24, c nodes 1-2"},
    {"series are up to the day only", day_rows, 7, 0, 24 * H, LEVEL_NODES, 4, 0, 0, "", "", NULL,
     "d nodes 0-24, c rows 1-2"},
    {"parts of a day: hours", day_rows, 7, 0, 2 * H, LEVEL_NODES, 1, 0, 0, "", "", NULL,
     "h nodes 0-2, c nodes 1-2"},
    {"edges within hours: rows and five minutes", day_rows, 7, 7 * M, 2 * H, LEVEL_NODES, 1, 0, 0,
     "", "", NULL, "h nodes 1-2, a rows 0.116667-0.166667, a nodes 0.166667-1, c nodes 1-2"},
    {"the border itself is of the slot that ends there", day_rows, 7, 1 * H - 1, 2 * H, LEVEL_NODES,
     1, 0, 0, "", "", NULL, "h nodes 1-2, a rows 1-1, c nodes 1-2"},
    {"a replaced leaf: parents that name it are not used", day_rows, 7, 0, 24 * H, LEVEL_NODES, 1,
     0, 0, "", "b", NULL, "h nodes 0-1, c nodes 1-2"},
    {"an expired leaf counts", day_rows, 7, 0, 24 * H, LEVEL_NODES, 1, 0, 0, "ab", "", NULL,
     "w nodes 0-24, c nodes 1-2"},
    {"an edge in expired rows moves to the hour", day_rows, 7, 7 * M, 2 * H, LEVEL_NODES, 1, 0, 0,
     "ab", "", NULL, "h nodes 0-2, c nodes 1-2, rounded 0-2"},
    {"... and to the day where hours are no more", day_rows + 5, 2, 7 * M, 2 * H, LEVEL_NODES, 1, 0,
     0, "abe", "", NULL, "w nodes 0-24, rounded 0-24"},
    {"an edge near a border lies on it", day_rows, 7, 1 * H - 1, 2 * H, LEVEL_NODES, 1, 0, 0, "ab",
     "", NULL, "h nodes 1-2, c nodes 1-2, rounded 1-2"},
    {"rows are only in leaves", day_rows, 7, 0, 24 * H, LEVEL_ROWS, 4, 0, 0, "", "", NULL,
     "a rows 0-1, b rows 1-2, c rows 1-2"},
    {"rows that are gone are said", day_rows, 7, 0, 24 * H, LEVEL_ROWS, 4, 0, 0, "a", "", NULL,
     "b rows 1-2, c rows 1-2, gone"},
    {"hourly totals of a day", day_rows, 7, 0, 24 * H, LEVEL_TOTALS, 4, H, 0, "", "", NULL,
     "d totals 0-24, c rows 1-2"},
    {"minutes", day_rows, 7, 0, 2 * H, LEVEL_TOTALS, 4, M, 0, "", "", NULL,
     "h totals 0-2, c rows 1-2"},
    {"seconds: rows", day_rows, 7, 0, 2 * H, LEVEL_TOTALS, 4, M / 4, 0, "", "", NULL,
     "a rows 0-1, b rows 1-2, c rows 1-2"},
    {"seconds, and the rows are gone", day_rows, 7, 0, 2 * H, LEVEL_TOTALS, 4, M / 4, 0, "ab", "",
     NULL, "h totals 0-2, c rows 1-2, rounded 0-2, slots"},
    {"long steps that begin anywhere", day_rows, 7, 0, 4 * H, LEVEL_TOTALS, 4, 2 * H, 90 * M + 1,
     "", "", NULL, "h totals 0-1.5, h totals 1.51667-3, c rows 1-2, b rows 1.5-1.51667"},
    {"an object that cannot be read: the next", day_rows, 7, 0, 24 * H, LEVEL_NODES, 1, 0, 0, "",
     "", "w", "d nodes 0-24, c nodes 1-2"},
    {"a leaf that cannot be read, served by parents", day_rows, 7, 0, 24 * H, LEVEL_NODES, 1, 0, 0,
     "", "", "a", "w nodes 0-24, c nodes 1-2"},
    {"... and not", day_rows, 7, 0, 24 * H, LEVEL_ROWS, 1, 0, 0, "", "", "a",
     "b rows 1-2, c rows 1-2, missing a"},
    {"packs", pack_rows, 3, 0, 1 * H, LEVEL_NODES, 1, 0, 0, "", "", NULL,
     "h nodes 0-1 part, b nodes 0-1 part"},
    {"one object rather than two", two_rows, 4, 0, 2 * H, LEVEL_NODES, 1, 0, 0, "", "", NULL,
     "h nodes 0-2"},
    {"another hour is not read", two_rows, 4, 1 * H, 2 * H, LEVEL_NODES, 1, 0, 0, "", "", NULL,
     "h nodes 1-2"},
    {"a leaf of a day", wide_rows, 4, 0, 24 * H, LEVEL_NODES, 1, 0, 0, "", "", NULL,
     "d nodes 0-24, c nodes 1-2"},
    {"hours of it, and its rows at the edges", wide_rows, 4, 7 * M, 4 * H, LEVEL_NODES, 1, 0, 0, "",
     "", NULL,
     "h nodes 1-3, a rows 0.116667-0.166667, a nodes 0.166667-1, c nodes 1-2, a nodes 3-4"},
    {"only its rows", wide_rows, 4, 90 * M, 3 * H, LEVEL_ROWS, 4, 0, 0, "", "", NULL,
     "a rows 1.5-3, c rows 1.5-2"},
    {"it was where all lie that name it", wide_rows, 4, 7 * M, 4 * H, LEVEL_NODES, 1, 0, 0, "a", "",
     NULL, "d nodes 0-24, c nodes 1-2, rounded 0-24"},
    {"hours that name only a part of what is gone: the day's totals", apart_rows, 6, 0, 24 * H,
     LEVEL_TOTALS, 4, 90 * M, 30 * M, "abc", "", NULL,
     "d totals 1-24, h totals 0-1, rounded 0-24, slots"},
    {"... of whole hours exactly", apart_rows, 6, 0, 24 * H, LEVEL_TOTALS, 4, 2 * H, 0, "abc", "",
     NULL, "d totals 0-24"},
    {"... and while the rows are there", apart_rows, 6, 0, 24 * H, LEVEL_TOTALS, 4, 90 * M, 30 * M,
     "", "", NULL, "h totals 0-2, c rows 1-2"},
    {"nothing there", two_rows, 4, 5 * H, 6 * H, LEVEL_NODES, 1, 0, 0, "", "", NULL, ""},
};

static void check_planned(const struct planned *c, int64_t early, bool durations)
{
    expired = c->expired;
    dead = c->dead;
    struct manifest_block blocks[16];
    size_t n = 0;
    for (size_t k = 0; k < c->n; k++) {
        struct manifest_block b = block_of(&c->rows[k]);
        if (state_of(NULL, b.id) == LEVEL_LIVE) blocks[n++] = b;
    }
    const struct level_given given = {.blocks = blocks, .block_count = n, .leaf = state_of};
    const str without = str_of(c->without);
    const struct level_ask ask = {.from_ns = BASE * SLOT_HOUR + c->from,
                                  .to_ns = BASE * SLOT_HOUR + c->to,
                                  .pack_hi = UINT32_MAX,
                                  .use = c->use,
                                  .classes = c->classes,
                                  .step_ns = c->step,
                                  .first_ns = BASE * SLOT_HOUR + c->first,
                                  .early_ns = early,
                                  .durations = durations,
                                  .without = &without,
                                  .without_count = c->without ? 1 : 0};
    struct level_plan p;
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    str got = short_form(&p);
    if (!str_is(got, c->wanted)) {
        fail_msg("%s:\n got    %.*s\n wanted %s", c->name, STR(got), c->wanted);
    }
}

static void plans_are_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        check_planned(&cases[i], 0, false);
}

// Rows less than a ms behind the first border.
static void early_rows_are_not_of_the_slot_that_begins_before_them(void **state)
{
    (void)state;
    static const struct planned rows[] = {
        {"of hours", day_rows, 7, -1, 24 * H, LEVEL_TOTALS, 4, H, 0, "", "", NULL,
         "d totals 1-24, h totals 0.0166667-1, a rows 0-0.0166667, c rows 1-2"},
        {"unless they are gone", day_rows, 7, -1, 24 * H, LEVEL_TOTALS, 4, H, 0, "ab", "", NULL,
         "d totals 0-24, c rows 1-2, rounded -2.77778e-13-24, slots"},
        {"where no slot begins", day_rows, 7, M / 2 - 1, 3 * H, LEVEL_TOTALS, 4, 2 * H, M / 2, "",
         "", NULL, "h totals 0.0166667-2, a rows 0.00833333-0.0166667, c rows 1-2"},
        {"of rows", day_rows, 7, -1, 2 * H, LEVEL_ROWS, 4, H, 0, "", "", NULL,
         "a rows 0-1, b rows 1-2, c rows 1-2"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_planned(&rows[i], 999999, false);
}

static void short_steps_of_durations_are_read_of_rows(void **state)
{
    (void)state;
    static const struct planned rows[] = {
        {"short steps", day_rows, 7, 0, 2 * H, LEVEL_TOTALS, 4, M, 0, "", "", NULL,
         "a rows 0-1, b rows 1-2, c rows 1-2"},
        {"where rows are gone", day_rows, 7, 0, 2 * H, LEVEL_TOTALS, 4, M, 0, "ab", "", NULL,
         "h totals 0-2, c rows 1-2"},
        {"long steps", day_rows, 7, 0, 2 * H, LEVEL_TOTALS, 4, 5 * M, 0, "", "", NULL,
         "h totals 0-2, c rows 1-2"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_planned(&rows[i], 0, true);
}

static enum level_leaf always_live(const void *arg, id128 id)
{
    (void)arg;
    (void)id;
    return LEVEL_LIVE;
}

static void segments_are_nodes_where_their_hour_is_whole(void **state)
{
    (void)state;
    const struct snapshot_segment segments[] = {{.name.hour = BASE}, {.name.hour = BASE + 1}};
    const struct level_given given = {.tenant = S("t"),
                                      .segments = segments,
                                      .segment_count = 2,
                                      .leaf = always_live};
    struct level_ask ask = {.from_ns = BASE * SLOT_HOUR,
                            .to_ns = BASE * SLOT_HOUR + 90 * M,
                            .pack_hi = UINT32_MAX,
                            .classes = 1};
    struct level_plan p;
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    assert_true(str_is(short_form(&p), "segment nodes 0-1, segment rows 1-1.5"));

    const str row_by_row[] = {name_segment(&arena, S("t"), &segments[0].name)};
    ask.row_by_row = row_by_row;
    ask.row_by_row_count = 1;
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    assert_true(str_is(short_form(&p), "segment rows 0-1, segment rows 1-1.5"));

    ask.without = row_by_row;
    ask.without_count = 1;
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    assert_int_equal(p.n, 1);
    assert_int_equal(p.missing_count, 1);
}

// A parent has the rows of its leaves summed up, those that do not count too.
static void a_leaf_that_is_read_by_rows_is_in_no_sum(void **state)
{
    (void)state;
    expired = "";
    dead = "";
    const struct row rows[] = {{"a", BLOCK_RAW, 0, 1, FULL, 7, NULL},
                               {"b", BLOCK_RAW, 1, 1, FULL, 7, NULL},
                               {"h", BLOCK_HOURS, 0, 2, FULL, 7, "a/b"}};
    const struct manifest_block blocks[] = {block_of(&rows[0]), block_of(&rows[1]),
                                            block_of(&rows[2])};
    const struct level_given given = {.blocks = blocks, .block_count = 3, .leaf = state_of};
    struct level_ask ask = {.from_ns = BASE * SLOT_HOUR,
                            .to_ns = BASE * SLOT_HOUR + 2 * H,
                            .pack_hi = UINT32_MAX,
                            .classes = 1};
    struct level_plan p;
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    assert_true(p.n == 1 && p.pieces[0].object->block == &blocks[2]);
    ask.row_by_row = &blocks[1].name;
    ask.row_by_row_count = 1;
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    assert_int_equal(p.n, 2);
    for (size_t i = 0; i < p.n; i++) {
        bool whole = p.pieces[i].object->block == &blocks[2];
        bool by_row = p.pieces[i].object->block == &blocks[1];
        assert_true(whole ? p.pieces[i].to_ns == BASE * SLOT_HOUR + H
                          : by_row && p.pieces[i].use == LEVEL_ROWS);
    }
    // If it cannot be read either, it is missing.
    ask.without = &blocks[1].name;
    ask.without_count = 1;
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    assert_true(p.n == 1 && p.pieces[0].object->block == &blocks[2]);
    assert_true(p.missing_count == 1 && p.missing[0]->block == &blocks[1]);
}

static void a_printed_plan_is_for_people(void **state)
{
    (void)state;
    expired = "a";
    dead = "";
    const struct row rows[] = {{"b", BLOCK_RAW, 1, 1, FULL, 7, NULL},
                               {"h", BLOCK_HOURS, 0, 3, 0, 0x7fffffff, 7, "a/b/"}};
    const struct manifest_block blocks[] = {block_of(&rows[0]), block_of(&rows[1])};
    const struct level_given given = {.blocks = blocks, .block_count = 2, .leaf = state_of};
    const struct level_ask ask = {.from_ns = BASE * SLOT_HOUR + M,
                                  .to_ns = BASE * SLOT_HOUR + 2 * H,
                                  .pack_hi = UINT32_MAX,
                                  .classes = 1};
    struct level_plan p;
    struct buf out;
    buf_init(&out, NULL, 1 << 16);
    assert_ok(level_plan_given(&arena, &given, &ask, &p, e));
    naive_print(&p, &out);
    buf_byte(&out, 0);
    assert_string_equal(
        out.p,
        "hours   nodes  (2023-08-31T00:00:00Z, 2023-08-31T02:00:00Z] packs 00000000-7fffffff h\n"
        "raw     nodes  (2023-08-31T01:00:00Z, 2023-08-31T02:00:00Z] packs 80000000-ffffffff b\n"
        "(1693440000000000000, 1693447200000000000] rounded\n");
    buf_release(&out);
}

static bool plan_world(void *arg, err *e)
{
    const struct naive *w = arg;
    struct arena a;
    arena_init(&a, NULL, (size_t)64 << 20);
    const struct level_given given = naive_given(w);
    struct level_plan p;
    bool ok = level_plan_given(&a, &given, &w->ask, &p, e);
    arena_release(&a);
    return ok;
}

static void want_of_memory_is_an_error(void **state)
{
    (void)state;
    struct naive *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t dice = seed;
        naive_make(w, roll, &dice);
        torture(plan_world, w);
    }
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_counts_once),
        cmocka_unit_test(plans_for_two_classes_that_answer_alike_count_the_same_rows),
        ARENA_TEST(plans_are_as_written),
        ARENA_TEST(early_rows_are_not_of_the_slot_that_begins_before_them),
        ARENA_TEST(short_steps_of_durations_are_read_of_rows),
        ARENA_TEST(segments_are_nodes_where_their_hour_is_whole),
        ARENA_TEST(a_leaf_that_is_read_by_rows_is_in_no_sum),
        ARENA_TEST(a_printed_plan_is_for_people),
        cmocka_unit_test(want_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
