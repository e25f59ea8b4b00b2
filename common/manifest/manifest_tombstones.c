// SPDX-License-Identifier: Apache-2.0
//
// manifest_tombstones.c - tombstones of a version: read, added, removed, and what they forbid.
//
// A block is clean of a tombstone if it was made as of a version that has it: then its writer left
// out what the tombstone hides. All other blocks of its range may have hidden profiles, and so may
// every segment. While such a leaf is there, retention must not take it: its sums would be in
// parents only, from which a selector cannot take them.
#include "manifest/manifest_wire_int.h"
#include "model/slot.h"

#include <inttypes.h>

#define MATCHERS_MAX   64
#define TOMBSTONES_MAX 256  // of a tenant
#define ENDED_MAX      256
#define ENDED_KEPT     (400 * SLOT_DAY)  // no shorter than streams of imports (manifest_sweep.c)
#define NEAR_NS        INT64_C(1000000)

static bool wrong(size_t i, const char *what, err *e)
{
    return err_set(e, ERR_DATA_LOSS, "tombstone %zu: %s", i, what);
}

bool tombstone_read(struct arena *a, size_t i, const Flametree__V1__Tombstone *from,
                    struct manifest_tombstone *to, err *e)
{
    *to = (struct manifest_tombstone){.hide = {.from_ns = from->from_ns, .to_ns = from->to_ns},
                                      .made_ns = from->made_ns,
                                      .version = from->version,
                                      .ended_version = from->ended_version,
                                      .ended_ns = from->ended_ns};
    if (!message_id(from->id, "id", &to->id, e)) return err_wrap(e, "tombstone %zu", i);
    if (from->n_matchers > MATCHERS_MAX) return wrong(i, "too many matchers", e);
    if (from->from_ns >= from->to_ns) return wrong(i, "its range is empty", e);
    for (size_t k = 0; k < from->n_matchers; k++) {
        const Flametree__V1__Matcher *m = from->matchers[k];
        if (m->op > MATCH_NRE) return wrong(i, "a matcher has an unknown operation", e);
        if (!selector_add(a, &to->hide.selector, (enum matcher_op)m->op,
                          arena_str(a, pb_text(m->name)), arena_str(a, pb_text(m->value)), e)) {
            if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
            return err_wrap(e, "tombstone %zu", i);
        }
    }
    return arena_ok(a, e);
}

static bool read_all(const str *v, size_t count, struct arena *a, struct manifest_tombstone **out,
                     size_t *n, err *e)
{
    *n = 0;
    *out = ARENA_ARRAY(a, struct manifest_tombstone, count + 1);
    if (!*out) return arena_fail(a, e);
    for (size_t i = 0; i < count; i++) {
        struct arena scratch;
        arena_init(&scratch, a->budget, message_scratch(v[i]));
        ProtobufCMessage *x =
            message_unpack(&scratch, &flametree__v1__tombstone__descriptor, v[i], e);
        bool ok = x && tombstone_read(a, i, (const Flametree__V1__Tombstone *)x, &(*out)[i], e);
        arena_release(&scratch);
        if (!ok) return false;
        *n = i + 1;
    }
    return true;
}

bool manifest_tombstones(const struct manifest *m, struct arena *a, struct manifest_tombstone **out,
                         size_t *n, err *e)
{
    return read_all(m->tombstones, m->tombstone_count, a, out, n, e);
}

bool manifest_ended(const struct manifest *m, struct arena *a, struct manifest_tombstone **out,
                    size_t *n, err *e)
{
    return read_all(m->ended, m->ended_count, a, out, n, e);
}

size_t manifest_tombstone_count(const struct manifest *m)
{
    return m->tombstone_count;
}

// Such a tombstone has no matchers, and its range is all times: a deletion of profiles ends at the
// time at which it was asked for.
bool manifest_is_closed(const struct manifest *m)
{
    for (size_t i = 0; i < m->tombstone_count; i++) {
        bool matches = false;
        uint64_t to = 0;
        struct pb_reader r = pb_reader(m->tombstones[i]);
        while (pb_next(&r)) {
            matches |= r.field == 2;
            if (r.field == 4 && r.type == PB_FIXED64) to = r.number;
        }
        if (!matches && to == (uint64_t)INT64_MAX) return true;
    }
    return false;
}

// ---- blocks

static bool has_pack(const struct hide *h, uint32_t pack_lo, uint32_t pack_hi)
{
    const str *service = hide_demands(h, S(LABEL_SERVICE));
    if (!service) return true;
    uint32_t pack = block_pack(*service);
    return pack >= pack_lo && pack <= pack_hi;
}

bool manifest_hides_all(const struct hide *h, int64_t hour, int64_t hours)
{
    return h->from_ns <= slot_start(hour, SLOT_HOUR) + NEAR_NS &&
           h->to_ns >= slot_start(hour + hours, SLOT_HOUR) - NEAR_NS;
}

bool manifest_hides_some(const struct hide *h, int64_t hour, int64_t hours)
{
    int64_t from = MAX(h->from_ns, slot_start(hour, SLOT_HOUR));
    int64_t to = MIN(h->to_ns, slot_start(hour + hours, SLOT_HOUR));
    return to > from && to - from > NEAR_NS;
}

bool manifest_is_hiding(const struct manifest_tombstone *t, const struct manifest_block *b)
{
    if (b->kind != BLOCK_RAW && !manifest_hides_some(&t->hide, b->from_hour, b->hours))
        return false;
    if (b->as_of >= t->version || !has_pack(&t->hide, b->pack_lo, b->pack_hi)) return false;
    if (b->first_ns == 0 && b->last_ns == 0) return false;  // it has no profile
    return b->first_ns <= t->hide.to_ns && b->last_ns > t->hide.from_ns;
}

// ---- changes

// The id of a tombstone in its message: its first field, which is always there.
static bool id_of(str message, id128 *id)
{
    if (message.n < 2 + sizeof id->b || message.p[0] != 0x0a || message.p[1] != sizeof id->b)
        return false;
    memcpy(id->b, message.p + 2, sizeof id->b);
    return true;
}

static bool has_tombstone(const struct manifest *m, id128 id)
{
    for (size_t i = 0; i < m->tombstone_count; i++) {
        id128 at;
        if (id_of(m->tombstones[i], &at) && id128_eq(at, id)) return true;
    }
    return false;
}

bool tombstones_are_there(const struct manifest *base, const struct manifest_change *c)
{
    for (size_t i = 0; i < c->bury_count; i++) {
        if (!has_tombstone(base, c->bury[i].id)) return false;
    }
    return c->bury_count > 0;
}

bool tombstones_change(const struct manifest *base, const struct manifest_change *c)
{
    for (size_t i = 0; i < c->forget_count; i++) {
        if (has_tombstone(base, c->forget[i])) return true;
    }
    return c->bury_count > 0;
}

// A number of a tombstone's message; 0: it has none.
static uint64_t number_of(str message, uint32_t field)
{
    uint64_t v = 0;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == field && r.type != PB_BYTES) v = r.number;
    }
    return v;
}

bool tombstones_calm(const struct manifest *base, const struct manifest_change *c)
{
    for (size_t i = 0; c->calm && i < base->tombstone_count; i++) {
        if (number_of(base->tombstones[i], 6) >= c->calm) return false;
    }
    for (size_t i = 0; c->calm && i < base->ended_count; i++) {
        if (number_of(base->ended[i], 7) >= c->calm) return false;
    }
    return true;
}

void tombstone_print(const struct manifest_tombstone *t, int64_t made_ns, uint64_t version,
                     struct buf *out)
{
    pb_put_bytes(out, 1, id_bytes(&t->id));
    for (size_t i = 0; i < t->hide.selector.n; i++) {
        const struct matcher *m = &t->hide.selector.v[i];
        size_t mark = pb_begin(out, 2);
        pb_put_u64_opt(out, 1, (uint64_t)m->op);
        pb_put_bytes_opt(out, 2, m->name);
        pb_put_bytes_opt(out, 3, m->value);
        pb_end(out, mark);
    }
    pb_put_fixed64_opt(out, 3, (uint64_t)t->hide.from_ns);
    pb_put_fixed64_opt(out, 4, (uint64_t)t->hide.to_ns);
    pb_put_fixed64_opt(out, 5, (uint64_t)made_ns);
    pb_put_u64_opt(out, 6, version);
}

// ---- those that are over

// Has an hour that the tombstone has something of rows of imports, live or expired?
static bool has_imports(const struct manifest *m, str message)
{
    int64_t from_ns = (int64_t)number_of(message, 3);
    int64_t to_ns = (int64_t)number_of(message, 4);
    const struct hide h = {.from_ns = from_ns, .to_ns = to_ns};
    for (size_t i = 0; i < m->page_count; i++) {
        const struct page *p = m->pages[i];
        for (size_t k = 0; m->refs_of[i].kind == BLOCK_RAW && k < p->absorbed_count; k++) {
            const struct segment_run *r = p->absorbed[k].run;
            if (stream_is_import(r->stream) &&
                hide_meets(&h, slot_start(r->hour, SLOT_HOUR), slot_start(r->hour + 1, SLOT_HOUR)))
                return true;
        }
    }
    return false;
}

static bool add_ended(struct arena *a, const struct manifest *base, struct manifest *root,
                      str message, err *e)
{
    struct buf b;
    if (!has_imports(base, message)) return true;
    buf_init(&b, a->budget, (size_t)1 << 20);
    buf_str(&b, message);
    pb_put_u64_opt(&b, 7, root->version);
    pb_put_fixed64_opt(&b, 8, (uint64_t)root->made_ns);
    bool ok = buf_ok(&b, e);
    if (ok) root->ended[root->ended_count++] = arena_str(a, buf_view(&b));
    buf_release(&b);
    return ok;
}

// Those of the version before, but for old ones, and what ends now. Of a tenant that is closed
// nothing is imported again: its manifest goes.
static bool ended_next(struct arena *a, const struct manifest *base,
                       const struct manifest_change *c, struct manifest *root, err *e)
{
    root->ended = ARENA_ARRAY(a, str, base->ended_count + base->tombstone_count + 1);
    root->ended_count = 0;
    if (!root->ended) return arena_fail(a, e);
    for (size_t i = 0; !c->close && i < base->ended_count; i++) {
        int64_t age = root->made_ns - (int64_t)number_of(base->ended[i], 8);
        if (age < ENDED_KEPT) root->ended[root->ended_count++] = base->ended[i];
    }
    for (size_t i = 0; !c->close && c->forget_count && i < base->tombstone_count; i++) {
        id128 id;
        if (id_of(base->tombstones[i], &id) && id128_among(id, c->forget, c->forget_count) &&
            !add_ended(a, base, root, base->tombstones[i], e))
            return false;
    }
    if (root->ended_count > ENDED_MAX) {  // the oldest go
        root->ended += root->ended_count - ENDED_MAX;
        root->ended_count = ENDED_MAX;
    }
    return true;
}

bool tombstones_next(struct arena *a, const struct manifest *base, const struct manifest_change *c,
                     struct manifest *root, err *e)
{
    root->tombstones = ARENA_ARRAY(a, str, base->tombstone_count + c->bury_count + 1);
    root->tombstone_count = 0;
    if (!root->tombstones) return arena_fail(a, e);
    // (One that hides everything makes all others needless, however many they are.)
    for (size_t i = 0; !c->close && i < base->tombstone_count; i++) {
        id128 id;
        bool gone = c->forget_count && id_of(base->tombstones[i], &id) &&
                    id128_among(id, c->forget, c->forget_count);
        if (!gone) root->tombstones[root->tombstone_count++] = base->tombstones[i];
    }
    for (size_t i = 0; i < c->bury_count; i++) {
        struct buf b;
        buf_init(&b, a->budget, (size_t)1 << 20);
        tombstone_print(&c->bury[i], root->made_ns, root->version, &b);
        bool ok = buf_ok(&b, e);
        if (ok) root->tombstones[root->tombstone_count++] = arena_str(a, buf_view(&b));
        buf_release(&b);
        if (!ok) return false;
    }
    return ended_next(a, base, c, root, e) && arena_ok(a, e);
}

// Does the tombstone cut a day of which an expired leaf is in a window of the parent? Sums of such
// a day are of all of it or of whole hours, and nothing finer is left.
static bool cuts_expired(const struct manifest *m, const struct manifest_tombstone *t,
                         const struct manifest_block *b, int64_t *day)
{
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        *day = c->hour / DAY_HOURS;
        if (!manifest_hides_some(&t->hide, c->hour, c->hours) ||
            manifest_hides_all(&t->hide, *day * DAY_HOURS, DAY_HOURS))
            continue;
        for (size_t k = 0; k < c->leaf_count; k++) {
            if (manifest_counts(m, c->leaves[k]) && !manifest_find(m, c->leaves[k])) return true;
        }
    }
    return false;
}

static bool may_bury(const struct manifest *base, const struct manifest_tombstone *t, err *e)
{
    int64_t day = 0;
    for (size_t i = 0; i < base->block_count; i++) {
        const struct manifest_block *b = &base->blocks[i];
        if (b->kind == BLOCK_RAW || !has_pack(&t->hide, b->pack_lo, b->pack_hi)) continue;
        if (!cuts_expired(base, t, b, &day)) continue;
        return err_set(
            e, ERR_FAILED_PRECONDITION,
            "single profiles of Unix day %" PRId64 " (from %" PRId64
            " ms on) are not kept any more, only their sums: a deletion must have all of "
            "that day, or nothing of it",
            day, day * (SLOT_DAY / 1000000));
    }
    return true;
}

// Sums of such a day can be made anew without its rows.
static bool has_whole_day(const struct manifest_tombstone *t, const struct manifest_block *leaf)
{
    int64_t day = slot_after(slot_start(leaf->from_hour, SLOT_HOUR), SLOT_DAY);
    return manifest_hides_all(&t->hide, day * (SLOT_DAY / SLOT_HOUR), SLOT_DAY / SLOT_HOUR);
}

bool tombstones_allow(struct arena *a, const struct manifest *base, const struct manifest_change *c,
                      err *e)
{
    struct manifest_tombstone *v = NULL;
    size_t n = 0;
    if (c->close) return true;
    if (base->tombstone_count + c->bury_count > TOMBSTONES_MAX) {
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "the tenant has %zu deletions that are not done yet, which is as many as "
                       "there may be: wait for them",
                       base->tombstone_count);
    }
    for (size_t i = 0; i < c->bury_count; i++) {
        if (!may_bury(base, &c->bury[i], e)) return false;
    }
    if (c->expire_count == 0 || base->tombstone_count == 0) return true;
    if (!manifest_tombstones(base, a, &v, &n, e)) return false;
    for (size_t i = 0; i < c->expire_count; i++) {
        const struct manifest_block *b = manifest_find(base, c->expire[i]);
        for (size_t k = 0; b && b->kind == BLOCK_RAW && k < n; k++) {
            if (!manifest_is_hiding(&v[k], b) || has_whole_day(&v[k], b)) continue;
            return err_set(e, ERR_ABORTED,
                           "leaf %.*s has profiles that were deleted: it is rewritten first",
                           STR(b->name));
        }
    }
    return true;
}
