// SPDX-License-Identifier: Apache-2.0
#include "unit/compactor/plan_case.h"

#include <stdio.h>
#include <stdlib.h>

const struct plan_settings plan_usual = {
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

static id128 id_of(char c)
{
    id128 id = {{0}};
    id.b[15] = (uint8_t)c;
    return id;
}

bool plan_case_counts(void *arg, id128 leaf)
{
    const struct ids *ids = arg;
    char c = (char)leaf.b[15];
    for (const struct case_block *b = ids->blocks; b && b->kind; b++) {
        if (b->kind == 'r' && b->id == c) return true;
    }
    return ids->expired && strchr(ids->expired, c);
}

int64_t plan_case_hours(double h)
{
    return slot_start(PLAN_HOUR_0, SLOT_HOUR) + (int64_t)(h * (double)SLOT_HOUR);
}

static void make_covers(struct arena *a, const struct case_block *m, struct manifest_block *b)
{
    struct manifest_cover *v = ARENA_ARRAY(a, struct manifest_cover, 64);
    const char *at = m->covers;
    while (at && *at) {
        char *end = NULL;
        long hour = strtol(at, &end, 10);
        struct manifest_cover *c = &v[b->cover_count++];
        id128 *leaves = ARENA_ARRAY(a, id128, 16);
        c->hour = PLAN_HOUR_0 + hour;
        c->hours = strchr("hbs", m->kind) ? 1 : 24;
        assert_int_equal(*end, ':');
        for (end++; *end && *end != ' '; end++)
            leaves[c->leaf_count++] = id_of(*end);
        c->leaves = leaves;
        at = *end ? end + 1 : end;
    }
    b->covers = v;
}

static size_t make_blocks(struct arena *a, const struct case_block *m, struct manifest_block *v,
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
                                       .from_hour = PLAN_HOUR_0 + m->from,
                                       .hours = (uint32_t)m->hours,
                                       .pack_hi = UINT32_MAX,
                                       .classes = m->kind == 's' ? 0
                                                  : bare         ? 3
                                                                 : 7,
                                       .spared = m->kind == 's',
                                       .bytes = m->bytes ? m->bytes : 100,
                                       .made_ns = plan_case_hours(m->made)};
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
                              (int)(j->from_hour - PLAN_HOUR_0), j->hours);
        bool by_rows = j->kind == JOB_DAY && j->sources[0].block->kind == BLOCK_RAW;
        if (j->source_count)
            n += (size_t)snprintf(out + n, room - n, "<%s%zu", by_rows ? "r" : "", j->source_count);
        if (j->erase) n += (size_t)snprintf(out + n, room - n, "!");
        if (j->whole) n += (size_t)snprintf(out + n, room - n, "*");
        if (j->remove_count) n += (size_t)snprintf(out + n, room - n, "-%zu", j->remove_count);
        if (j->expire_count) n += (size_t)snprintf(out + n, room - n, "x%zu", j->expire_count);
    }
    if (p->done_count) snprintf(out + n, room - n, "%sdone", n ? " " : "");
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

void plan_case_check(const struct plan_case *c)
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
        segments[n] = (struct snapshot_segment){.name = {.hour = PLAN_HOUR_0 + strtol(at, &end, 10),
                                                         .cut = n},
                                                .bytes = 10};
        at = *end ? end + 1 : end;
    }
    struct ids ids = {c->expired, c->blocks};
    struct plan_state s = {.segments = segments,
                           .segment_count = n,
                           .blocks = blocks,
                           .damaged_blocks = damaged,
                           .block_count = make_blocks(&a, c->blocks, blocks, damaged),
                           .counts = plan_case_counts,
                           .arg = &ids,
                           .now_ns = plan_case_hours(c->now)};
    const struct manifest_tombstone deletion = {.id = id_of('T'),
                                                .hide = {.from_ns = plan_case_hours(c->deleted[0]),
                                                         .to_ns = plan_case_hours(c->deleted[1])},
                                                .version = 5};
    if (c->deleted[1]) {
        s.tombstones = &deletion;
        s.tombstone_count = 1;
    }
    for (size_t i = 0; c->deleted[1] && i < s.block_count; i++) {
        blocks[i].first_ns = slot_start(blocks[i].from_hour, SLOT_HOUR) + 1;
        blocks[i].last_ns = slot_start(blocks[i].from_hour + blocks[i].hours, SLOT_HOUR);
        blocks[i].as_of = blocks[i].made_ns > plan_case_hours(100) ? 5 : 0;
    }
    struct plan_settings settings = plan_usual;
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
