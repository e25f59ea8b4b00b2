// SPDX-License-Identifier: Apache-2.0
//
// Is a change right in itself, whatever the newest version has? What is wrong here is a mistake of
// the caller and is never retried. Does it know all leaves of its hours? And are its blocks in the
// store?
#include "manifest/manifest_int.h"

#include <inttypes.h>

#ifdef FT_FAULTS
_Thread_local uint64_t manifest_steps;
#endif

static bool check_add(const struct manifest_change *c, size_t i, err *e)
{
    const struct manifest_block *b = &c->add[i];
    char id[ULID_TEXT];
    ulid_print(b->id, id);
    if (!manifest_block_check(b, e)) {
        e->code = ERR_INVALID_ARGUMENT;
        return err_wrap(e, "block %s", id);
    }
    return true;
}

static bool check_ids(struct arena *a, const struct manifest_change *c, err *e)
{
    id128 *v = ARENA_ARRAY(a, id128, c->add_count);
    if (!v) return arena_fail(a, e);
    for (size_t i = 0; i < c->add_count; i++)
        v[i] = c->add[i].id;
    if (c->add_count) qsort(v, c->add_count, sizeof *v, ids_cmp);
    for (size_t i = 1; i < c->add_count; i++) {
        char id[ULID_TEXT];
        ulid_print(v[i], id);
        manifest_step();
        if (id128_eq(v[i - 1], v[i]))
            return err_set(e, ERR_INVALID_ARGUMENT, "block %s is added twice", id);
    }
    return true;
}

// Leaves by hour: leaves whose hours are apart have no sources in common, as the sources of a leaf
// lie within its hours. So each is compared with the few that overlap it, not with all.
static int by_hour(const void *a, const void *b)
{
    const struct manifest_block *x = *(const struct manifest_block *const *)a;
    const struct manifest_block *y = *(const struct manifest_block *const *)b;
    return x->from_hour < y->from_hour ? -1 : x->from_hour > y->from_hour;
}

static bool check_pair(const struct manifest_block *a, const struct manifest_block *b, err *e)
{
    struct segment_name which;
    manifest_step();
    if (!manifest_blocks_meet(a, b) ||
        !segment_runs_share(a->sources, a->source_count, b->sources, b->source_count, &which))
        return true;
    char text[SEGMENT_TEXT];
    segment_name_print(&which, text);
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "segment %s is a source of two leaves whose packs overlap", text);
}

static bool check_shared(struct arena *a, const struct manifest_change *c, err *e)
{
    const struct manifest_block **v = ARENA_ARRAY(a, const struct manifest_block *, c->add_count);
    size_t n = 0;
    if (!v) return arena_fail(a, e);
    for (size_t i = 0; i < c->add_count; i++)
        if (c->add[i].source_count) v[n++] = &c->add[i];
    if (n) qsort(v, n, sizeof *v, by_hour);
    for (size_t i = 0; i < n; i++) {
        int64_t end = v[i]->from_hour + (int64_t)v[i]->hours;
        for (size_t k = i + 1; k < n && v[k]->from_hour < end; k++)
            if (!check_pair(v[i], v[k], e)) return false;
    }
    return true;
}

bool manifest_change_check(struct arena *a, const struct manifest_change *c, err *e)
{
    for (size_t i = 0; i < c->add_count; i++)
        if (!check_add(c, i, e)) return false;
    return check_ids(a, c, e) && check_shared(a, c, e);
}

// A caller that compared its rows with those of the leaves that there were has not compared them
// with another one.
static bool check_known(const struct page *p, const struct manifest_block *b, const id128 *needs,
                        size_t n, err *e)
{
    for (size_t i = 0; p && i < p->block_count; i++) {
        const struct manifest_block *o = &p->blocks[i];
        char text[ULID_TEXT];
        bool apart = o->from_hour >= b->from_hour + (int64_t)b->hours ||
                     b->from_hour >= o->from_hour + (int64_t)o->hours;
        if (apart || ids_have(needs, n, o->id)) continue;
        ulid_print(o->id, text);
        return err_set(e, ERR_ABORTED, "leaf %s came meanwhile", text);
    }
    return true;
}

bool manifest_leaves_check(struct arena *a, const struct manifest *base,
                           const struct manifest_change *c, err *e)
{
    id128 *needs = NULL;
    if (!ids_sort(a, c->needs, c->need_count, &needs)) return arena_fail(a, e);
    for (size_t i = 0; i < c->add_count; i++) {
        const struct manifest_block *b = &c->add[i];
        const struct page *p =
            manifest_page(base, BLOCK_RAW, manifest_window(BLOCK_RAW, b->from_hour));
        if (!check_known(p, b, needs, c->need_count, e)) return false;
    }
    return true;
}

// What became of one of the new blocks. *gone: it is not there.
static bool judge(const struct manifest_block *b, const struct store_sizing *o, bool *gone, err *e)
{
    if (!o->ok && o->fault.code != ERR_NOT_FOUND) {
        *e = o->fault;
        return err_wrap(e, "new block");
    }
    if (o->ok && o->size == b->bytes) return true;
    metric_add(&manifest_vanished, 1);
    if (o->ok) {
        return err_set(e, ERR_DATA_LOSS,
                       "new block %.*s has %" PRIu64 " bytes, %" PRIu64 " were written",
                       STR(o->name), o->size, b->bytes);
    }
    *gone = true;
    return err_set(e, ERR_ABORTED,
                   "new block %.*s is gone before a version names it: somebody deleted it, perhaps "
                   "a compactor whose clock is days ahead",
                   STR(o->name));
}

bool manifest_objects_check(struct manifests *ms, struct req *r, struct arena *a,
                            const struct manifest_change *c, str tenant, bool *gone, err *e)
{
    struct store_sizing *v = ARENA_ARRAY(a, struct store_sizing, c->add_count + 1);
    *gone = false;
    if (!v) return arena_fail(a, e);
    for (size_t i = 0; i < c->add_count; i++)
        v[i].name = manifest_block_name(a, tenant, &c->add[i]);
    if (!arena_ok(a, e)) return false;
    store_size_many(ms->store, r, v, c->add_count);
    for (size_t i = 0; i < c->add_count; i++)
        if (!judge(&c->add[i], &v[i], gone, e)) return false;
    return true;
}
