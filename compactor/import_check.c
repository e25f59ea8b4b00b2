// SPDX-License-Identifier: Apache-2.0
//
// import_check.c - which rows of an hour are there already, by what the manifest knows.
//
//     a deletion hides some       refused: they would be imported only to go with it
//     the stream is absorbed      all rows are there, but for those that a deletion hid which ended
//                                 after that: of these nothing was left when it ended
//     leaves of imports expired   rows cannot be compared any more. A row that a deletion hid is
//     new
//                                 if nothing was imported into the hour since that ended; of others
//                                 nobody knows (docs/decisions/0018-imports-make-leaves.md)
//     else                        the merge compares all rows with those of the leaves
//
// What is imported after a deletion gets the generation of that (manifest/names.h).
#include "compactor/deletion.h"
#include "compactor/import_int.h"
#include "sys/clock.h"

#include <inttypes.h>

#define TEXT_MAX 2000

static labels labels_of(const struct importing *m, const struct import_row *v)
{
    const struct batch *b = &m->in.out.batches[v->batch]->batch;
    return b->series[b->records[v->record].series];
}

static bool reaches(const struct manifest_tombstone *t, int64_t hour)
{
    return hide_meets(&t->hide, slot_start(hour, SLOT_HOUR), slot_start(hour + 1, SLOT_HOUR));
}

static bool hides(const struct importing *m, const struct manifest_tombstone *t,
                  const struct import_row *v, bool *is, err *e)
{
    *is = false;
    return !hide_has_time(&t->hide, v->time_ns) || hide_is_of(&t->hide, labels_of(m, v), is, e);
}

// ---- deletions that stand

static bool refuse_hidden(const struct importing *m, const struct manifest_tombstone *t, err *e)
{
    char id[ULID_TEXT];
    char soonest[CLOCK_TEXT];
    struct buf match;
    ulid_print(t->id, id);
    clock_text(soonest, t->made_ns + m->deletion_stay);
    buf_init(&match, NULL, TEXT_MAX);
    deletion_put_match(&t->hide.selector, &match);
    err_set(
        e, ERR_FAILED_PRECONDITION,
        "deletion %s of %.*s hides profiles of this import, so they would be deleted too: import "
        "them once it has ended. That is not before %s (compactor.deletion_stay), and when "
        "nothing in the store has what it hides any more; until then `flametree deletions` shows "
        "it",
        id, STR(str_slice(buf_view(&match), 0, 300)), soonest);
    buf_release(&match);
    return false;
}

static bool check_hidden(const struct importing *m, const struct import_hour *h, err *e)
{
    for (size_t i = 0; i < m->standing_count; i++) {
        const struct manifest_tombstone *t = &m->standing[i];
        bool is = false;
        for (size_t k = 0; reaches(t, h->hour) && k < h->n && !is; k++)
            if (!hides(m, t, &h->v[k], &is, e)) return false;
        if (is) return refuse_hidden(m, t, e);
    }
    return true;
}

// ---- deletions that ended

static uint64_t generation_of(const struct importing *m, int64_t hour)
{
    uint64_t generation = 0;
    for (size_t i = 0; i < m->ended_count; i++)
        if (reaches(&m->ended[i], hour)) generation = MAX(generation, m->ended[i].ended_version);
    return generation;
}

// The version in which the last deletion that hid the row was over; 0: none did.
static bool gone_since(const struct importing *m, const struct import_row *v, uint64_t *version,
                       err *e)
{
    *version = 0;
    for (size_t i = 0; i < m->ended_count; i++) {
        const struct manifest_tombstone *t = &m->ended[i];
        bool is = false;
        if (t->ended_version <= *version) continue;
        if (!hides(m, t, v, &is, e)) return false;
        if (is) *version = t->ended_version;
    }
    return true;
}

static bool refuse_unknown(int64_t hour, err *e)
{
    return err_set(e, ERR_FAILED_PRECONDITION,
                   "profiles of the hour that begins at %" PRId64
                   " s were imported before, and have expired as single profiles: which of these "
                   "are there already cannot be known",
                   slot_start(hour, SLOT_HOUR) / NS_PER_S);
}

// The facts about an hour.
struct known {
    bool absorbed;    // the stream,
    uint64_t as;      // under this generation at last
    bool expired;     // leaves of imports,
    uint64_t latest;  // of this generation at last
};

// The rows that are not there for certain.
static bool keep_new(struct importing *m, struct import_hour *h, const struct known *k, err *e)
{
    struct import_row *rows = ARENA_ARRAY(&m->attempt, struct import_row, h->n + 1);
    if (!rows) return arena_fail(&m->attempt, e);
    h->rows = rows;
    h->row_count = 0;
    for (size_t i = 0; i < h->n; i++) {
        uint64_t gone = 0;
        if (!gone_since(m, &h->v[i], &gone, e)) return false;
        if (k->absorbed && gone <= k->as) continue;
        if (k->expired && gone <= k->latest && !m->again) return refuse_unknown(h->hour, e);
        rows[h->row_count++] = h->v[i];
    }
    h->there = h->row_count == 0;
    return true;
}

bool import_check(struct importing *m, struct import_hour *h, err *e)
{
    const struct manifest *now = m->snapshot.manifest;
    struct known k = {0};
    if (!check_hidden(m, h, e)) return false;
    enum import_state state = manifest_import_of(now, h->hour, h->name.stream, &k.as);
    k.absorbed = state == IMPORT_HELD;
    k.expired = manifest_import_expired(now, h->hour, &k.latest);
    h->there = false;
    h->name.cut = generation_of(m, h->hour);
    // Deleted before the manifest remembered deletions: the name must be another one all the same.
    if (state == IMPORT_ERASED) h->name.cut = MAX(h->name.cut, k.as + 1);
    return keep_new(m, h, &k, e);
}
