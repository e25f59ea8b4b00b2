// SPDX-License-Identifier: Apache-2.0
//
// damage.c - segments and blocks that cannot be read. Jobs leave them out, and they are checked
// until somebody has put them back, which needs neither a restart nor a job that reads them.
//
// A check asks whether the object is there with its size, and then reads all of it: after a minute,
// two, four ... sixteen minutes, and in a run. If an object passes its check and a job finds it
// damaged again, it waits on from where it was, so the two do not take turns for ever.
#include "block/verify.h"
#include "compactor/work_int.h"
#include "store/origin.h"
#include "sys/clock.h"

#define INSPECT_FIRST_NS ((uint64_t)60 * NS_PER_S)
#define INSPECT_DOUBLES  4

static bool is_same(const struct damage *a, const struct damage *b)
{
    if (a->is_segment != b->is_segment) return false;
    return a->is_segment ? segment_name_cmp(&a->segment, &b->segment) == 0
                         : id128_eq(a->block, b->block);
}

static struct damage *find(struct damage *v, size_t n, const struct damage *d)
{
    for (size_t i = 0; i < n; i++)
        if (is_same(&v[i], d)) return &v[i];
    return NULL;
}

static void set_next(struct damage *d)
{
    d->inspection_mono_ns =
        clock_mono_ns() + (INSPECT_FIRST_NS << MIN(d->inspections, (unsigned)INSPECT_DOUBLES));
}

void damage_note(struct work *w, struct tenant_work *t, const struct damage *d)
{
    err ignored = {0};
    assert(lock_is_mine(&w->lock));
    struct damage *at = find(t->damages, t->damage_count, d);
    const struct damage *before = find(t->tried, MIN(t->tried_count, (size_t)TRIED_MAX), d);
    if (!at &&
        (t->damage_count == DAMAGES_MAX || !mem_grow(&w->memory, &t->damages, &t->damage_cap,
                                                     t->damage_count + 1, sizeof *d, &ignored))) {
        // The oldest makes room; a job that needs it finds it again.
        if (t->damage_count == 0) return;
        memmove(t->damages, t->damages + 1, --t->damage_count * sizeof *d);
    }
    if (!at) at = &t->damages[t->damage_count++];
    *at = *d;
    // Its last check found nothing wrong, and yet a job did: it waits on from there.
    at->inspections = before ? before->inspections + 1 : 0;
    set_next(at);
}

bool damage_has_segment(const struct tenant_work *t, const struct segment_name *s)
{
    const struct damage d = {.is_segment = true, .segment = *s};
    return find(t->damages, t->damage_count, &d) != NULL;
}

bool damage_has_block(const struct tenant_work *t, id128 id)
{
    const struct damage d = {.block = id};
    return find(t->damages, t->damage_count, &d) != NULL;
}

// ---- looking

// The object, as what counts names it; no name: nothing does.
static str object_of(const struct damage *d, const struct snapshot *s, str tenant, struct arena *a,
                     uint64_t *bytes)
{
    if (!d->is_segment) {
        const struct manifest_block *b = manifest_find(s->manifest, d->block);
        if (b) *bytes = b->bytes;
        return b ? b->name : (str){0};
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        if (segment_name_cmp(&s->segments[i].name, &d->segment) != 0) continue;
        *bytes = s->segments[i].bytes;
        return name_segment(a, tenant, &d->segment);
    }
    return (str){0};
}

static void hear(void *arg, str service, const char *text)
{
    (void)arg;
    (void)service;
    (void)text;
}

static bool is_whole(struct worker *me, struct req *r, str name, uint64_t bytes)
{
    struct store *store = me->work->process->store;
    struct block_source source;
    struct block_verified found = {0};
    struct arena a;
    uint64_t size = 0;
    err e = {0};
    const struct block_verify_options o = {.report = hear,
                                           .memory = &me->memory,
                                           .cap = atomic_load(&me->memory.limit) / 2};
    // An error of the store says nothing about the object: it is not called whole, and is checked
    // again in its time.
    if (!store_size(store, r, name, &size, &e) || size != bytes) return false;
    arena_init(&a, &me->memory, SIZE_MAX / 4);
    bool ok = block_source_open(&a, store_origin(store, r), name, bytes, &source, &e) &&
              block_verify(&source, &o, &found, &e) && found.faults == 0;
    arena_release(&a);
    return ok;
}

static void tell_restored(const struct req *r, str name)
{
    char text[LOG_QUOTE_MAX];
    log_info(&r->log, "compactor.restored", "object=%s", log_quote(text, name));
}

// Under the lock.
static void forget(struct tenant_work *t, const struct damage *d, bool tried)
{
    struct damage *at = find(t->damages, t->damage_count, d);
    if (!at) return;
    if (tried) t->tried[t->tried_count++ % TRIED_MAX] = *at;
    assert(t->damage_count > 0);
    *at = t->damages[--t->damage_count];
}

// The damage with this number, if it is to be looked at. Others may note further ones meanwhile.
static bool is_due(struct work *w, const struct tenant_work *t, size_t i, bool all,
                   struct damage *out)
{
    lock_take(&w->lock);
    bool is = i < t->damage_count;
    if (is) *out = t->damages[i];
    lock_give(&w->lock);
    return is && (all || out->inspection_mono_ns <= clock_mono_ns());
}

static void note_inspection(struct work *w, struct tenant_work *t, const struct damage *d,
                            bool named, bool whole)
{
    lock_take(&w->lock);
    struct damage *at = find(t->damages, t->damage_count, d);
    if (whole || !named) {
        forget(t, d, whole);
    } else if (at) {
        at->inspections++;
        set_next(at);
    }
    lock_give(&w->lock);
}

void damage_inspect(struct worker *me, struct tenant_work *t, const struct snapshot *s,
                    struct req *r, bool asked)
{
    struct work *w = me->work;
    lock_take(&w->lock);
    bool all = asked && !t->damage_seen;
    size_t n = t->damage_count;
    t->damage_seen = true;
    lock_give(&w->lock);
    // From the last one on, because a damage that is forgotten is replaced by the last of the list.
    for (size_t i = n; i-- > 0;) {
        struct damage d;
        uint64_t bytes = 0;
        err ignored = {0};
        if (!is_due(w, t, i, all, &d)) continue;
        if (work_is_over(w) || !req_alive(r, &ignored)) return;
        str name = object_of(&d, s, str_of(t->name), &r->arena, &bytes);
        bool whole = name.n && is_whole(me, r, name, bytes);
        if (whole) tell_restored(r, name);
        note_inspection(w, t, &d, name.n > 0, whole);
    }
}
