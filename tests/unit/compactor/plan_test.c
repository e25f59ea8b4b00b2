// SPDX-License-Identifier: Apache-2.0
//
// What is due: a table of states and what the plan says of each. Times are hours from the window's
// first; a block's made time is "hours after".
#include "compactor/plan.h"
#include "lib/test.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define H0 (INT64_C(28) * 24 * 700)

static const struct plan_settings usual = {
    .leaf_delay = 75 * SLOT_MINUTE,
    .hour_delay = 2 * SLOT_HOUR,
    .day_delay = 2 * SLOT_HOUR,
    .pack_interval = 6 * SLOT_HOUR,
    .fold_interval = SLOT_DAY,
    .window_interval = SLOT_DAY,
    .leaf_stay = SLOT_DAY,
    .raw_retention = 14 * SLOT_DAY,
    .hours_retention = 90 * SLOT_DAY,
    .days_retention = 400 * SLOT_DAY,
};

// A block: kind, hours, when it was made, which leaves each of its windows names ("a" is leaf a).
struct made {
    char kind;  // 'r' leaf, 'h' hour nodes, 'd' a day, 'w' a window; without series 'b' hour nodes,
                // 'e' a day; 's' hour nodes that are spared; 0: end
    char id;
    int from;
    int hours;
    int made;
    const char *covers;  // "0:ab 5:c": at hour 0 the leaves a, b ...
    bool damaged;
    unsigned bytes;  // 0: 100
};

struct plan_case {
    const char *name;
    double now;                 // hours
    const char *segments;       // hours of them, "1 1 7"
    uint64_t day_leaf;          // bytes below which leaves of a day become one
    const struct made *blocks;  // in the manifest's order
    const char *expired;        // leaves that are gone but count
    bool asked;                 // somebody waits for it
    size_t much;                // so many sources are much
    unsigned much_bytes;        // so many bytes are
    const char *want;           // "leaf@1 hour@0+3 retire@5"
    const char *later;          // kinds of jobs that wait for their interval; NULL: not looked at
};

struct ids {
    const char *expired;
    const struct made *blocks;
};

static id128 id_of(char c)
{
    id128 id = {{0}};
    id.b[15] = (uint8_t)c;
    return id;
}

static bool counts(void *arg, id128 leaf)
{
    const struct ids *ids = arg;
    char c = (char)leaf.b[15];
    for (const struct made *b = ids->blocks; b && b->kind; b++) {
        if (b->kind == 'r' && b->id == c) return true;
    }
    return ids->expired && strchr(ids->expired, c);
}

static int64_t hours(double h)
{
    return slot_start(H0, SLOT_HOUR) + (int64_t)(h * (double)SLOT_HOUR);
}

static void make_covers(struct arena *a, const struct made *m, struct manifest_block *b)
{
    struct manifest_cover *v = ARENA_ARRAY(a, struct manifest_cover, 64);
    const char *at = m->covers;
    while (at && *at) {
        char *end = NULL;
        long hour = strtol(at, &end, 10);
        struct manifest_cover *c = &v[b->cover_count++];
        id128 *leaves = ARENA_ARRAY(a, id128, 16);
        c->hour = H0 + hour;
        c->hours = strchr("hbs", m->kind) ? 1 : 24;
        assert_int_equal(*end, ':');
        for (end++; *end && *end != ' '; end++)
            leaves[c->leaf_count++] = id_of(*end);
        c->leaves = leaves;
        at = *end ? end + 1 : end;
    }
    b->covers = v;
}

static size_t make_blocks(struct arena *a, const struct made *m, struct manifest_block *v,
                          bool *damaged)
{
    size_t n = 0;
    for (; m && m->kind; m++, n++) {
        enum block_kind kind = m->kind == 'r'           ? BLOCK_RAW
                               : strchr("hbs", m->kind) ? BLOCK_HOURS
                                                        : BLOCK_DAYS;
        bool bare = strchr("wbe", m->kind);
        v[n] = (struct manifest_block){.id = id_of(m->id),
                                       .kind = kind,
                                       .from_hour = H0 + m->from,
                                       .hours = (uint32_t)m->hours,
                                       .pack_hi = UINT32_MAX,
                                       .classes = m->kind == 's' ? 0
                                                  : bare         ? 3
                                                                 : 7,
                                       .spared = m->kind == 's',
                                       .bytes = m->bytes ? m->bytes : 100,
                                       .made_ns = hours(m->made)};
        damaged[n] = m->damaged;
        make_covers(a, m, &v[n]);
    }
    return n;
}

static void print(const struct plan *p, char *out, size_t room)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < p->n; i++) {
        const struct task *j = &p->jobs[i];
        n += (size_t)snprintf(out + n, room - n, "%s%s@%d+%u", i ? " " : "", job_kind_name(j->kind),
                              (int)(j->from_hour - H0), j->hours);
        bool by_rows = j->kind == JOB_DAY && j->sources[0].block->kind == BLOCK_RAW;
        if (j->source_count)
            n += (size_t)snprintf(out + n, room - n, "<%s%zu", by_rows ? "r" : "", j->source_count);
        if (j->whole) n += (size_t)snprintf(out + n, room - n, "*");
        if (j->remove_count) n += (size_t)snprintf(out + n, room - n, "-%zu", j->remove_count);
        if (j->expire_count) n += (size_t)snprintf(out + n, room - n, "x%zu", j->expire_count);
    }
}

static void print_later(const struct plan *p, char *out, size_t room)
{
    size_t n = 0;
    out[0] = '\0';
    for (int k = 0; k < JOB_KINDS; k++) {
        if (p->later[k] == 0) continue;
        n += (size_t)snprintf(out + n, room - n, "%s%s:%zu", n ? " " : "",
                              job_kind_name((enum job_kind)k), p->later[k]);
    }
}

static void check(const struct plan_case *c)
{
    struct arena a;
    struct plan plan;
    struct snapshot_segment segments[32];
    struct manifest_block blocks[64];
    bool damaged[64];
    char got[512];
    size_t n = 0;
    arena_init(&a, NULL, 16 << 20);
    for (const char *at = c->segments; at && *at; n++) {
        char *end = NULL;
        segments[n] =
            (struct snapshot_segment){.name = {.hour = H0 + strtol(at, &end, 10), .cut = n},
                                      .bytes = 10};
        at = *end ? end + 1 : end;
    }
    struct ids ids = {c->expired, c->blocks};
    struct plan_state s = {.segments = segments,
                           .segment_count = n,
                           .blocks = blocks,
                           .damaged_blocks = damaged,
                           .block_count = make_blocks(&a, c->blocks, blocks, damaged),
                           .counts = counts,
                           .arg = &ids,
                           .now_ns = hours(c->now)};
    struct plan_settings settings = usual;
    settings.day_leaf_bytes = c->day_leaf;
    settings.asked = c->asked;
    settings.much_sources = c->much;
    settings.much_bytes = c->much_bytes;
    assert_ok(plan_make(&a, &s, &settings, &plan, e));
    print(&plan, got, sizeof got);
    if (strcmp(got, c->want) != 0) fail_msg("%s: got \"%s\", want \"%s\"", c->name, got, c->want);
    print_later(&plan, got, sizeof got);
    if (c->later && strcmp(got, c->later) != 0)
        fail_msg("%s: later \"%s\", want \"%s\"", c->name, got, c->later);
    arena_release(&a);
}

#define LEAF(id_, from_, made_)                                                \
    {                                                                          \
        .kind = 'r', .id = (id_), .from = (from_), .hours = 1, .made = (made_) \
    }
#define PARENT(kind_, id_, from_, hours_, made_, covers_)                                  \
    {                                                                                      \
        .kind = (kind_), .id = (id_), .from = (from_), .hours = (hours_), .made = (made_), \
        .covers = (covers_)                                                                \
    }
#define DAY_LEAF(id_, from_, made_)                                             \
    {                                                                           \
        .kind = 'r', .id = (id_), .from = (from_), .hours = 24, .made = (made_) \
    }
// Hour nodes of leaf a, in all hours of the day.
#define EVERY_HOUR_OF(kind_)                                                                  \
    PARENT(kind_, 'h', 0, 24, 26,                                                             \
           "0:a 1:a 2:a 3:a 4:a 5:a 6:a 7:a 8:a 9:a 10:a 11:a 12:a 13:a 14:a 15:a 16:a 17:a " \
           "18:a 19:a 20:a 21:a 22:a 23:a")
#define EVERY_HOUR EVERY_HOUR_OF('h')
#define BAD(kind_, id_, from_, hours_, made_, covers_)                                     \
    {                                                                                      \
        .kind = (kind_), .id = (id_), .from = (from_), .hours = (hours_), .made = (made_), \
        .covers = (covers_), .damaged = true                                               \
    }
#define BLOCKS(...)       \
    (const struct made[]) \
    {                     \
        __VA_ARGS__,      \
        {                 \
            .kind = 0     \
        }                 \
    }

static void a_plan_says_what_is_due(void **state)
{
    (void)state;
    const struct plan_case cases[] = {
        {.name = "nothing", .now = 10, .want = ""},
        {.name = "an hour that is not over", .now = 1.5, .segments = "1", .want = ""},
        {.name = "just before its time", .now = 3.24, .segments = "1", .want = ""},
        {.name = "its time", .now = 3.25, .segments = "1 1", .want = "leaf@1+1<2"},
        {.name = "oldest first", .now = 9, .segments = "1 3", .want = "leaf@1+1<1 leaf@3+1<1"},
        {.name = "late segments wait for each other",
         .now = 5,
         .segments = "1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = ""},
        {.name = "a delta is merged against the leaf",
         .now = 5.25,
         .segments = "1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = "leaf@1+1<2"},
        {.name = "hour nodes once a leaf has waited",
         .now = 6,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5)),
         .want = "hour@1+2<2"},
        {.name = "not yet", .now = 5.9, .blocks = BLOCKS(LEAF('a', 1, 4)), .want = ""},
        {.name = "only leaves that nobody names",
         .now = 8,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 1, 1, 6, "1:a")),
         .want = "hour@2+1<1"},
        {.name = "a parent whose leaf is gone does not count",
         .now = 9,
         .blocks = BLOCKS(LEAF('b', 1, 5), PARENT('h', 'h', 1, 1, 6, "1:a")),
         .want = "hour@1+1<1"},
        {.name = "an expired leaf counts",
         .now = 9,
         .blocks = BLOCKS(PARENT('h', 'h', 1, 1, 6, "1:a")),
         .expired = "a",
         .want = ""},
        {.name = "two of the same day are packed when the interval is over",
         .now = 12.1,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 1, 1, 6, "1:a"),
                          PARENT('h', 'i', 2, 1, 7, "2:b")),
         .want = "pack@0+3<2-2"},
        {.name = "not before",
         .now = 11.9,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 1, 1, 7, "1:a"),
                          PARENT('h', 'i', 2, 1, 8, "2:b")),
         .want = ""},
        {.name = "a day that is over",
         .now = 26,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "day@0+24<1"},
        {.name = "a day waits for its hours",
         .now = 26,
         .segments = "22",
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "leaf@22+1<1"},
        {.name = "but not for ever",
         .now = 50,
         .segments = "22",
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "day@0+24<1 leaf@22+1<1"},
        {.name = "a day that has everything",
         .now = 60,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a"),
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = ""},
        {.name = "a day that lacks a leaf is made anew the night after",
         .now = 51,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 30), PARENT('h', 'h', 0, 24, 48, "1:a 2:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "day@0+24<1-1"},
        {.name = "leaves of an hour are folded at night",
         .now = 49,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 1, 30)),
         .want = "fold@1+1<2-2"},
        {.name = "in the same night they are not",
         .now = 47,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 1, 30)),
         .want = "hour@1+1<2"},
        {.name = "small leaves of a day that is over become one, and their parents go",
         .now = 26,
         .day_leaf = 1000,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 0, 24, 12, "1:a 2:b")),
         .want = "fold@0+24<2-3"},
        {.name = "not before",
         .now = 25.9,
         .day_leaf = 1000,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 0, 24, 12, "1:a 2:b")),
         .want = ""},
        {.name = "larger ones do not",
         .now = 26,
         .day_leaf = 200,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 0, 24, 12, "1:a 2:b")),
         .want = "day@0+24<1"},
        {.name = "a leaf of a day waits for the first ones of its hours",
         .now = 26,
         .day_leaf = 1000,
         .segments = "22",
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5)),
         .want = "leaf@22+1<1"},
        {.name = "nothing of a day is replaced of which rows are gone",
         .now = 26,
         .day_leaf = 1000,
         .blocks =
             BLOCKS(LEAF('b', 2, 5), LEAF('c', 3, 6), PARENT('h', 'h', 0, 24, 12, "1:a 2:b 3:c")),
         .expired = "a",
         .want = "day@0+24<1"},
        {.name = "nor shortly before they go",
         .now = 14 * 24,
         .day_leaf = 1000,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 0, 24, 12, "1:a 2:b")),
         .want = "day@0+24<1"},
        {.name = "hours of a leaf of a day are made of it at once",
         .now = 26,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26)),
         .want = "hour@0+24<1"},
        {.name = "what comes late to it is summed beside it",
         .now = 34,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), LEAF('b', 2, 31), EVERY_HOUR),
         .want = "hour@2+1<1"},
        {.name = "and joins it at night",
         .now = 49,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), LEAF('b', 2, 31), EVERY_HOUR,
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "fold@0+24<2-4"},
        {.name = "a leaf of a day goes once the day has it",
         .now = 16 * 24,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR, PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "retire@0+1x1"},
        {.name = "and not before",
         .now = 16 * 24,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR),
         .want = "day@0+24<1"},
        {.name = "two days make a window",
         .now = 60,
         .blocks = BLOCKS(PARENT('d', 'd', 0, 24, 26, "0:a"), PARENT('d', 'e', 24, 24, 50, "24:b")),
         .expired = "ab",
         .want = "window@0+48<2"},
        {.name = "a window grows daily",
         .now = 98,
         .blocks =
             BLOCKS(PARENT('w', 'w', 0, 48, 60, "0:a 24:b"), PARENT('d', 'd', 0, 24, 26, "0:a"),
                    PARENT('d', 'e', 24, 24, 50, "24:b"), PARENT('d', 'f', 48, 24, 74, "48:c")),
         .expired = "abc",
         .want = "window@0+72<2-1"},
        {.name = "a window that is over gets its root, with days that have nothing",
         .now = 28 * 24 + 3,
         .blocks = BLOCKS(PARENT('w', 'w', 0, 48, 60, "0:a 24:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:a"), PARENT('d', 'e', 24, 24, 50, "24:b")),
         .expired = "ab",
         .want = "window@0+672<1-1"},
        {.name = "rows go when a day node has them",
         .now = 15 * 24,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 0, 24, 12, "1:a 2:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:ab")),
         .want = "retire@1+1x2"},
        {.name = "rows that no day node has stay",
         .now = 15 * 24,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "day@0+24<1"},
        {.name = "rows that came late stay for a day",
         .now = 15 * 24,
         .blocks = BLOCKS(LEAF('a', 1, 15 * 24 - 23), PARENT('h', 'h', 0, 24, 15 * 24 - 20, "1:a"),
                          PARENT('d', 'd', 0, 24, 15 * 24 - 18, "0:a")),
         .want = ""},
        {.name = "and then go",
         .now = 15 * 24 + 2,
         .blocks = BLOCKS(LEAF('a', 1, 15 * 24 - 23), PARENT('h', 'h', 0, 24, 15 * 24 - 20, "1:a"),
                          PARENT('d', 'd', 0, 24, 15 * 24 - 18, "0:a")),
         .want = "retire@1+1x1"},
        {.name = "and stay while something of their hour waits",
         .now = 15 * 24,
         .segments = "1",
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 0, 24, 12, "1:a 2:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:ab")),
         .want = "leaf@1+1<2 retire@2+1x1"},
        {.name = "not before the hour nodes that have them are one block",
         .now = 15 * 24,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 1, 5), PARENT('h', 'h', 1, 1, 6, "1:a"),
                          PARENT('h', 'i', 1, 1, 7, "1:b"), PARENT('d', 'd', 0, 24, 26, "0:ab")),
         .want = "pack@0+2<2-2"},
        {.name = "nor before there are hour nodes at all",
         .now = 15 * 24,
         .blocks = BLOCKS(LEAF('a', 1, 15 * 24 - 26), PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "hour@1+1<1*"},
        {.name = "nor on the word of a window, which has no series",
         .now = 15 * 24,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a"),
                          PARENT('w', 'w', 0, 48, 60, "0:a 24:b")),
         .expired = "b",
         .want = "day@0+24<1"},
        {.name = "leaves of an hour that lost one are not folded, however long it has been due",
         .now = 14 * 24 + 1,
         .blocks = BLOCKS(LEAF('b', 5, 30), LEAF('c', 5, 31), PARENT('h', 'h', 0, 24, 48, "5:abc"),
                          PARENT('d', 'd', 0, 24, 50, "0:abc")),
         .expired = "a",
         .want = ""},
        {.name = "nor those of another hour of that day",
         .now = 14 * 24 + 3,
         .blocks =
             BLOCKS(LEAF('b', 5, 30), LEAF('c', 5, 31), PARENT('h', 'h', 0, 24, 48, "1:a 5:bc"),
                    PARENT('d', 'd', 0, 24, 50, "0:abc")),
         .expired = "a",
         .want = ""},
        {.name = "nor when they are about to go by now",
         .now = 14 * 24 + 7,
         .blocks = BLOCKS(LEAF('b', 5, 30), LEAF('c', 5, 31), PARENT('h', 'h', 0, 24, 48, "5:bc")),
         .want = "day@0+24<1"},
        {.name = "day nodes that have the last of an expired leaf stay, though they are stale",
         .now = 60,
         .blocks = BLOCKS(LEAF('c', 2, 26), PARENT('h', 'h', 2, 1, 48, "2:c"),
                          PARENT('d', 'd', 0, 24, 26, "0:ab")),
         .expired = "a",
         .want = ""},
        {.name = "so do hour nodes",
         .now = 20,
         .blocks = BLOCKS(LEAF('c', 1, 4), PARENT('h', 'h', 1, 1, 6, "1:ab"),
                          PARENT('h', 'i', 1, 1, 7, "1:c")),
         .expired = "a",
         .want = ""},
        {.name = "they are no copies of what counts",
         .now = 60,
         .blocks = BLOCKS(LEAF('c', 2, 26), PARENT('h', 'h', 2, 1, 48, "2:c"),
                          PARENT('d', 'd', 0, 24, 26, "0:ab"), PARENT('d', 'e', 0, 24, 30, "0:c")),
         .expired = "a",
         .want = ""},
        {.name = "and windows",
         .now = 98,
         .blocks =
             BLOCKS(PARENT('w', 'w', 0, 48, 60, "0:ax 24:b"), PARENT('d', 'd', 0, 24, 26, "0:c"),
                    PARENT('d', 'e', 24, 24, 50, "24:b"), PARENT('d', 'f', 48, 24, 74, "48:c")),
         .expired = "abc",
         .want = ""},
        {.name = "hour nodes go later",
         .now = 92 * 24,
         .blocks = BLOCKS(PARENT('h', 'h', 0, 24, 12, "1:a"), PARENT('d', 'd', 0, 24, 26, "0:a")),
         .expired = "a",
         .want = "retire@0+1x1"},
        {.name = "but not while their day has rows, which may be folded",
         .now = 92 * 24,
         .blocks = BLOCKS(LEAF('b', 3, 92 * 24 - 1), PARENT('h', 'h', 0, 24, 12, "1:a 3:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:ab")),
         .expired = "a",
         .want = ""},
        {.name = "be they damaged",
         .now = 92 * 24,
         .blocks = BLOCKS(BAD('r', 'b', 3, 1, 5, NULL), PARENT('h', 'h', 0, 24, 12, "1:a 3:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:ab")),
         .expired = "a",
         .want = "retire@3+1x1"},
        {.name = "everything goes in the end",
         .now = 402 * 24,
         .blocks = BLOCKS(PARENT('d', 'd', 0, 24, 26, "0:a")),
         .expired = "a",
         .want = "retire@0+1x1"},
        {.name = "of two that say the same one goes",
         .now = 60,
         .blocks = BLOCKS(PARENT('d', 'd', 0, 24, 26, "0:a"), PARENT('d', 'e', 0, 24, 26, "0:a")),
         .expired = "a",
         .want = "retire@0+24-1"},
        {.name = "damaged hour nodes are made anew",
         .now = 20,
         .blocks = BLOCKS(LEAF('a', 1, 4), BAD('h', 'h', 0, 24, 12, "1:a")),
         .want = "hour@1+1<1"},
        {.name = "and then replaced",
         .now = 20,
         .blocks = BLOCKS(LEAF('a', 1, 4), BAD('h', 'h', 0, 24, 12, "1:a"),
                          PARENT('h', 'i', 1, 1, 19, "1:a")),
         .want = "pack@0+2<1-2"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check(&cases[i]);
}

// What has no sums of series is as good as what has them, as long as there are rows.
static void series_are_needed_once_rows_go(void **state)
{
    (void)state;
    const struct plan_case cases[] = {
        {.name = "a day is made of rows where hours have no series",
         .now = 26,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('b')),
         .want = "day@0+24<r1"},
        {.name = "and where they have nothing",
         .now = 26,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('s')),
         .want = "day@0+24<r1"},
        {.name = "where one hour has series and one has not",
         .now = 26,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('b', 'h', 1, 1, 25, "1:a"),
                          PARENT('h', 'i', 2, 1, 25, "2:b")),
         .want = "day@0+24<r2"},
        {.name = "of hours if a leaf cannot be read",
         .now = 26,
         .blocks = BLOCKS(LEAF('a', 1, 4), BAD('r', 'b', 2, 1, 5, NULL),
                          PARENT('b', 'h', 0, 24, 12, "1:a 2:b")),
         .want = "day@0+24<1"},
        {.name = "hours without anything are made anew of the leaves that can be read",
         .now = 26,
         .blocks = BLOCKS(LEAF('a', 1, 4), BAD('r', 'b', 2, 1, 5, NULL),
                          PARENT('s', 'h', 0, 24, 12, "1:a 2:b")),
         .want = "hour@1+1<1"},
        {.name = "a day without series is not made again",
         .now = 60,
         .blocks =
             BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('s'), PARENT('e', 'd', 0, 24, 27, "0:a")),
         .want = ""},
        {.name = "it goes once its window has it",
         .now = 60,
         .blocks =
             BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('s'),
                    PARENT('w', 'w', 0, 48, 59, "0:a 24:b"), PARENT('e', 'd', 0, 24, 27, "0:a")),
         .expired = "b",
         .want = "retire@0+24-1"},
        {.name = "and stays in that",
         .now = 60,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('s'),
                          PARENT('w', 'w', 0, 48, 59, "0:a 24:b")),
         .expired = "b",
         .want = ""},
        {.name = "what comes late to it makes it anew",
         .now = 60,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 31), PARENT('b', 'h', 0, 24, 50, "1:a 2:b"),
                          PARENT('w', 'w', 0, 48, 40, "0:a 24:c")),
         .expired = "c",
         .want = "day@0+24<r2"},
        {.name = "just before the last day of its rows nothing happens",
         .now = 13 * 24 - 1,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('b'),
                          PARENT('w', 'w', 0, 48, 59, "0:a 24:b")),
         .expired = "b",
         .want = ""},
        {.name = "then hours get series, and take the place of those without",
         .now = 13 * 24,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('b'),
                          PARENT('w', 'w', 0, 48, 59, "0:a 24:b")),
         .expired = "b",
         .want = "hour@0+24<1*-1"},
        {.name = "those without anything, too",
         .now = 13 * 24,
         .blocks =
             BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('s'), PARENT('e', 'd', 0, 24, 27, "0:a")),
         .want = "hour@0+24<1*-1"},
        {.name = "then the day gets them",
         .now = 13 * 24,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR, PARENT('e', 'd', 0, 24, 27, "0:a")),
         .want = "day@0+24<1-1"},
        {.name = "rows stay while only hours have them",
         .now = 16 * 24,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR, PARENT('e', 'd', 0, 24, 27, "0:a")),
         .want = "day@0+24<1-1"},
        {.name = "or only the day",
         .now = 16 * 24,
         .blocks =
             BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR_OF('b'), PARENT('d', 'd', 0, 24, 27, "0:a")),
         .want = "hour@0+24<1*-1"},
        {.name = "what is late to a day of which rows are gone has series at once",
         .now = 40,
         .blocks = BLOCKS(LEAF('b', 2, 31), PARENT('h', 'h', 0, 24, 12, "1:a"),
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .expired = "a",
         .want = "hour@2+1<1*"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check(&cases[i]);
}

#define NINE_DAYS_LATE                                                                       \
    BLOCKS(PARENT('w', 'w', 0, 48, 241, "0:a 24:b"), PARENT('d', 'd', 0, 24, 240, "0:a"),    \
           PARENT('d', 'e', 24, 24, 240, "24:b"), PARENT('d', 'f', 48, 24, 241, "48:c"),     \
           PARENT('d', 'g', 72, 24, 241, "72:c"), PARENT('d', 'h', 96, 24, 241, "96:c"),     \
           PARENT('d', 'i', 120, 24, 241, "120:c"), PARENT('d', 'j', 144, 24, 241, "144:c"), \
           PARENT('d', 'k', 168, 24, 241, "168:c"), PARENT('d', 'l', 192, 24, 241, "192:c"))

#define SIZED(kind_, id_, from_, hours_, made_, covers_, bytes_)                           \
    {                                                                                      \
        .kind = (kind_), .id = (id_), .from = (from_), .hours = (hours_), .made = (made_), \
        .covers = (covers_), .bytes = (bytes_)                                             \
    }
// A window's block of two days, and the third day.
#define ONE_DAY_LATE(day_bytes, window_bytes)                    \
    BLOCKS(SIZED('w', 'd', 0, 48, 74, "0:a 24:b", window_bytes), \
           SIZED('d', 'e', 48, 24, 75, "48:c", day_bytes))

static void what_came_to_much_or_is_asked_for_does_not_wait_for_its_interval(void **state)
{
    (void)state;
    const struct plan_case cases[] = {
        {.name = "days outside the window's block wait for the night",
         .now = 242,
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "not if somebody asks",
         .now = 242,
         .asked = true,
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "window@0+216<8-1",
         .later = ""},
        {.name = "nor if they are many",
         .now = 242,
         .much = 8,
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "window@0+216<8-1"},
        {.name = "a day outside the window's block waits for the night",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = ONE_DAY_LATE(900, 200),
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "not if it has many bytes",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = ONE_DAY_LATE(1000, 200),
         .expired = "abc",
         .want = "window@0+72<2-1"},
        {.name = "but few beside those of the window's block",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = ONE_DAY_LATE(1000, 5000),
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "of a day that grew only what the window's block lacks counts",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = BLOCKS(PARENT('w', 'd', 0, 48, 74, "0:a 24:b"),
                          SIZED('d', 'e', 24, 24, 75, "24:bc", 1900)),
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "a window waits for what is due below it",
         .now = 242,
         .asked = true,
         .segments = "170",
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "leaf@170+1<1"},
        {.name = "the first block of a window does, too",
         .now = 60,
         .segments = "30",
         .blocks = BLOCKS(PARENT('d', 'd', 0, 24, 59, "0:a"), PARENT('d', 'e', 24, 24, 59, "24:b")),
         .expired = "ab",
         .want = "leaf@30+1<1",
         .later = "window:1"},
        {.name = "but not for ever",
         .now = 84,
         .segments = "30",
         .blocks = BLOCKS(PARENT('d', 'd', 0, 24, 59, "0:a"), PARENT('d', 'e', 24, 24, 59, "24:b")),
         .expired = "ab",
         .want = "window@0+48<2 leaf@30+1<1"},
        {.name = "an hour that is just over waits for what still comes, however much it got",
         .now = 3,
         .much = 1,
         .segments = "1",
         .want = "",
         .later = "leaf:1"},
        {.name = "not if somebody asks",
         .now = 3,
         .asked = true,
         .segments = "1",
         .want = "leaf@1+1<1",
         .later = ""},
        {.name = "the hour under way is never made",
         .now = 3.5,
         .asked = true,
         .segments = "2 3",
         .want = "leaf@2+1<1",
         .later = ""},
        {.name = "what is late to an hour does not wait if somebody asks",
         .now = 5,
         .asked = true,
         .segments = "1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = "leaf@1+1<2"},
        {.name = "nor if it is much",
         .now = 5,
         .much = 3,
         .segments = "1 1 1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = "leaf@1+1<4"},
        {.name = "two are not",
         .now = 5,
         .much = 3,
         .segments = "1 1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = "",
         .later = "leaf:1 hour:1"},
        {.name = "hour nodes of much are made at once",
         .now = 5.5,
         .much = 2,
         .blocks = BLOCKS(LEAF('a', 1, 5), LEAF('b', 2, 5)),
         .want = "hour@1+2<2"},
        {.name = "and of anything if somebody asks",
         .now = 5.5,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 5)),
         .want = "hour@1+1<1"},
        {.name = "so are the first of a day that lies back",
         .now = 505.5,
         .much = 8,
         .blocks = BLOCKS(LEAF('a', 1, 505)),
         .want = "hour@1+1<1*"},
        {.name = "once its leaves are there",
         .now = 505.5,
         .much = 8,
         .segments = "2",
         .blocks = BLOCKS(LEAF('a', 1, 505)),
         .want = "leaf@2+1<1",
         .later = "hour:1"},
        {.name = "many leaves of an hour are folded at once",
         .now = 31,
         .much = 2,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 1, 30), LEAF('c', 1, 30)),
         .want = "fold@1+1<3-3"},
        {.name = "two if somebody asks",
         .now = 31,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 1, 30)),
         .want = "fold@1+1<2-2"},
        {.name = "and join the leaf of their day",
         .now = 34,
         .asked = true,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), LEAF('b', 2, 31), EVERY_HOUR,
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "fold@0+24<2-4"},
        {.name = "which without waits for the night",
         .now = 32,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), LEAF('b', 2, 31), EVERY_HOUR,
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "",
         .later = "fold:1 hour:1"},
        {.name = "blocks of hours are packed at once",
         .now = 9,
         .much = 1,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 1, 1, 7, "1:a"),
                          PARENT('h', 'i', 2, 1, 8, "2:b")),
         .want = "pack@0+3<2-2"},
        {.name = "a day that is just over is made if somebody asks",
         .now = 24.5,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "day@0+24<1"},
        {.name = "and one that is not is not",
         .now = 23.5,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "",
         .later = ""},
        {.name = "a day that lacks much is made anew",
         .now = 40,
         .much = 1,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 30), PARENT('h', 'h', 0, 24, 39, "1:a 2:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "day@0+24<1-1"},
        {.name = "a day far back waits for its hours for a day since its first leaf came",
         .now = 501,
         .segments = "22",
         .blocks = BLOCKS(LEAF('a', 1, 500), PARENT('h', 'h', 0, 24, 500, "1:a")),
         .want = "leaf@22+1<1"},
        {.name = "nothing is left to do",
         .now = 60,
         .asked = true,
         .much = 1,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR, PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "",
         .later = ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check(&cases[i]);
}

// "open" of a plan: segments that become a block only once their hour is over, asked for or not.
static void a_plan_tells_of_segments_whose_hour_is_not_over(void **state)
{
    (void)state;
    const struct snapshot_segment segments[] = {{.name = {.hour = H0 + 1}},
                                                {.name = {.hour = H0 + 3}},
                                                {.name = {.hour = H0 + 3, .cut = 1}},
                                                {.name = {.hour = H0 + 5}}};
    for (int asked = 0; asked < 2; asked++) {
        struct arena a;
        struct plan plan;
        struct ids ids = {0};
        struct plan_state s = {.segments = segments,
                               .segment_count = COUNT(segments),
                               .counts = counts,
                               .arg = &ids,
                               .now_ns = hours(3.5)};
        struct plan_settings settings = usual;
        settings.asked = asked;
        arena_init(&a, NULL, 16 << 20);
        assert_ok(plan_make(&a, &s, &settings, &plan, e));
        assert_int_equal(plan.n, 1);
        assert_int_equal(plan.open_segments, 3);
        assert_int_equal(plan.open_until_ns, hours(4));
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_says_what_is_due),
        cmocka_unit_test(series_are_needed_once_rows_go),
        cmocka_unit_test(what_came_to_much_or_is_asked_for_does_not_wait_for_its_interval),
        cmocka_unit_test(a_plan_tells_of_segments_whose_hour_is_not_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
