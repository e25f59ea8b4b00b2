// SPDX-License-Identifier: Apache-2.0
#include "unit/ingester/flush_world.h"

#include <stdlib.h>

bool rich_batch_ids = true;

void start(struct world *x)
{
    whole_start_with(&x->w, x->dir, x->flags, x->store);
    whole_await(&x->w);
}

void world_start(struct world *x, uint64_t seed, const char *flags)
{
    *x = (struct world){.dice = {seed}};
    dir_new(x->dir);
    snprintf(x->flags, sizeof x->flags, "%s", flags);
    x->store = memstore_open();
    for (size_t i = 0; i < COUNT(x->want); i++)
        lines_init(&x->want[i]);
    start(x);
}

void world_needs_log_on_disk(void)
{
    const char *log = getenv("FLAMETREE_INGESTER_LOG");
    if (log && strcmp(log, "object") == 0) skip();
}

void world_end(struct world *x)
{
    whole_stop(&x->w);
    assert_int_equal(memstore_uploads(x->store), 0);
    store_close(x->store);
    for (size_t i = 0; i < COUNT(x->want); i++)
        lines_release(&x->want[i]);
    dir_remove(x->dir);
}

void restart(struct world *x)
{
    whole_stop(&x->w);
    start(x);
}

// ---- pushes

str rich_batch(struct arena *a, struct dice *d, const struct fact *facts, size_t n, struct batch *b)
{
    struct batch plain;
    struct buf out;
    assert_ok(batch_decode(a, fact_batch(a, facts, n), &plain, e));
    *b = plain;
    b->records = ARENA_ARRAY(a, struct record, 2 * n);
    b->series = ARENA_ARRAY(a, labels, 2 * n);
    for (uint32_t i = 0; i < n; i++) {
        struct record *r = &b->records[i];
        b->series[i] = plain.series[i];
        *r = plain.records[i];
        r->duration_ns = (int64_t)roll(d, 3) * NS_PER_S;
        r->period = (int64_t)roll(d, 3) * 10000000;
        r->identified = rich_batch_ids && (i + d->state) % 2;
        if (roll(d, 6) == 0) r->attempt = 1 + (uint32_t)roll(d, 2);
        r->has_first_stream = r->attempt > 0 && roll(d, 2);
        if (r->has_first_stream) memset(r->first_stream.b, 1 + (int)roll(d, 200), 16);
        if (roll(d, 3) != 0) continue;
        // The same profile with another type, a multiple of this one.
        uint32_t at = b->record_count++;
        struct record *s = &b->records[at];
        *s = *r;
        s->series = b->series_count++;
        s->vector = (str){0};
        s->sibling = i;
        s->factor = roll(d, 2) ? 10000000 : -3;
        s->total = r->total * s->factor;
        s->spans = NULL;
        s->span_count = 0;
        labels ls = labels_copy(a, plain.series[i]);
        label *v = ARENA_ARRAY(a, label, ls.n);
        memcpy(v, ls.v, ls.n * sizeof *v);
        v[labels_place(ls, S(LABEL_PROFILE_TYPE))].value = S("wall:wall:nanoseconds:wall:n");
        b->series[s->series] = (labels){v, ls.n};
    }
    buf_init(&out, NULL, 1 << 26);
    assert_ok(batch_encode(b, a, &out, e));
    str bytes = arena_str(a, buf_view(&out));
    buf_release(&out);
    return bytes;
}

MUST_CHECK bool push_bytes(struct world *x, str tenant, str batch, err *e)
{
    struct req r;
    struct buf message;
    struct buf answer;
    req_init(&r, RANK_INGESTER, &x->w.memory, SIZE_MAX, 0);
    r.tenant = tenant;
    buf_init(&message, NULL, 1 << 26);
    buf_init(&answer, NULL, 1 << 26);
    pb_put_bytes(&message, 1, batch);
    pb_put_fixed64_opt(&message, 2, TEST_PLACING);
    bool ok = append_run(x->w.in, &r, buf_view(&message), &answer, e);
    buf_release(&message);
    buf_release(&answer);
    req_release(&r);
    return ok;
}

void push(struct world *x, size_t n, int64_t span_ns)
{
    struct arena a;
    struct batch b;
    struct fact facts[8];
    assert_true(n <= COUNT(facts));
    arena_init(&a, NULL, SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        facts[i] = fact_roll(&x->dice, clock_wall_ns() - span_ns, span_ns);
        facts[i].tenant = facts[0].tenant;
        facts[i].service = facts[0].service;
    }
    str bytes = rich_batch(&a, &x->dice, facts, n, &b);
    assert_ok(push_bytes(x, str_of(fact_tenants[facts->tenant]), bytes, e));
    lines_of_batch(&x->want[facts->tenant], str_of(fact_tenants[facts->tenant]), &b);
    x->rows += b.record_count;
    arena_release(&a);
}

// ---- looking

bool flush(struct world *x, struct flush_totals *done, err *e)
{
    return flush_within(x, 60, done, e);
}

bool flush_within(struct world *x, unsigned seconds, struct flush_totals *done, err *e)
{
    struct req r;
    req_init(&r, RANK_PUBLIC, &x->w.memory, SIZE_MAX, seconds * (uint64_t)NS_PER_S);
    bool ok = flush_now(x->w.in->flush, &r, true, done, e);
    req_release(&r);
    return ok;
}

void check(struct world *x)
{
    for (size_t i = 0; i < COUNT(x->want); i++) {
        struct req r;
        struct lines got;
        req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
        lines_init(&got);
        assert_true(lines_of_question(&got, &x->w, str_of(fact_tenants[i]), &r));
        lines_same(&got, &x->want[i]);
        lines_release(&got);
        req_release(&r);
    }
}

size_t segments(struct world *x)
{
    char *names = memstore_names(x->store, "");
    size_t n = 0;
    for (char *at = names; (at = strstr(at, "/live/a/")); at++)
        n++;
    free(names);
    return n;
}

uint64_t rows_held(struct world *x)
{
    return head_count(x->w.in->head).rows;
}

size_t hours_of(struct world *x)
{
    size_t n = 0;
    for (size_t t = 0; t < COUNT(x->want); t++) {
        int64_t seen[1024];
        size_t hours = 0;
        for (size_t i = 0; i < x->want[t].n; i++) {
            const char *at = strstr(x->want[t].v[i].p, " t=");
            int64_t hour = slot_of(strtoll(at + 3, NULL, 10), SLOT_HOUR);
            size_t k = 0;
            while (k < hours && seen[k] != hour)
                k++;
            if (k == hours) seen[hours++] = hour;
        }
        n += hours;
    }
    return n;
}

uint64_t count_of(struct metric *m)
{
    return (uint64_t)atomic_load(&m->cells[0].sum);
}

void world_absorb(struct world *x, str tenant, int64_t hour, bool sweep)
{
    struct req r;
    struct snapshot s;
    bool existed = true;
    struct manifests *ms = NULL;
    struct store *own = memstore_again(x->store);
    req_init(&r, RANK_DUTY, NULL, SIZE_MAX, 0);
    assert_ok((ms = manifests_open(own, NULL, NULL, e)) != NULL);
    assert_ok(snapshot_take(ms, &r, &r.arena, tenant, &s, e));
    assert_int_equal(s.segment_count, 1);
    str segment = name_segment(&r.arena, tenant, &s.segments[0].name);
    str bytes = memstore_bytes(own, segment.p);
    const struct segment_run source = segment_run_of(&s.segments[0].name);
    struct manifest_block leaf = {.id = ulid_make(77, (const uint8_t *)"0123456789"),
                                  .kind = BLOCK_RAW,
                                  .from_hour = hour,
                                  .hours = 1,
                                  .pack_hi = UINT32_MAX,
                                  .classes = 1u << BLOCK_ALL | 1u << BLOCK_SERIES,
                                  .bytes = bytes.n,
                                  .rows = 1,
                                  .first_ns = slot_start(hour, SLOT_HOUR) + 1,
                                  .last_ns = slot_start(hour + 1, SLOT_HOUR),
                                  .sources = &source,
                                  .source_count = 1};
    struct manifest_change change = {.add = &leaf, .add_count = 1, .begun_ns = clock_wall_ns()};
    str name = manifest_block_name(&r.arena, tenant, &leaf);
    assert_ok(store_put(own, &r, name, bytes, &existed, e));
    assert_ok(manifest_commit(ms, &r, tenant, &change, NULL, e));
    if (sweep) memstore_drop(own, segment.p);
    snapshot_release(&s);
    manifests_close(ms);
    store_close(own);
    req_release(&r);
}

void world_expire(struct world *x, str tenant)
{
    struct req r;
    struct manifests *ms = NULL;
    const id128 leaf = ulid_make(77, (const uint8_t *)"0123456789");
    struct manifest_change change = {.expire = &leaf,
                                     .expire_count = 1,
                                     .begun_ns = clock_wall_ns()};
    struct store *own = memstore_again(x->store);
    req_init(&r, RANK_DUTY, NULL, SIZE_MAX, 0);
    assert_ok((ms = manifests_open(own, NULL, NULL, e)) != NULL);
    assert_ok(manifest_commit(ms, &r, tenant, &change, NULL, e));
    manifests_close(ms);
    store_close(own);
    req_release(&r);
}
