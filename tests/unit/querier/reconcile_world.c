// SPDX-License-Identifier: Apache-2.0
#include "unit/querier/reconcile_world.h"

uint32_t roll(struct world *w, uint32_t n)
{
    w->dice = w->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->dice >> 33) % n;
}

// ---- rows

int64_t point_of(uint32_t row)
{
    return row < ROWS / 2 ? row + 1 : 60 + row - ROWS / 2 + 1;
}

static int64_t time_of(uint32_t row)
{
    return BASE_NS + point_of(row) * SLOT_MINUTE;
}

static int64_t hour_of(uint32_t row)
{
    return slot_of(time_of(row), SLOT_HOUR) - BASE_HOUR;
}

static labels labels_of(struct arena *a, uint32_t row)
{
    static const char *const texts[] = {"__profile_type__=" CPU ",pod=a,service_name=s",
                                        "__profile_type__=" CPU ",pod=b,service_name=s",
                                        "__profile_type__=" CPU ",pod=c,service_name=s"};
    return head_labels(a, texts[row % 3]);
}

static id128 id_of(uint32_t row)
{
    return uuid_profile((uint64_t)(time_of(row) / 1000000), row, 0);
}

static struct loose_key key_of(struct arena *a, uint32_t row)
{
    return (struct loose_key){labels_fingerprint(labels_of(a, row)), id_of(row)};
}

static id128 stream_of(uint32_t head)
{
    return (id128){.b = {[15] = (uint8_t)(head + 1)}};
}

// ---- objects

static bool sink(void *arg, str bytes, err *e)
{
    buf_str(arg, bytes);
    return buf_ok(arg, e);
}

struct made {
    struct block_about about;
    const bool *rows;
    const uint32_t *attempts;  // NULL: all 0
};

// As blocks have it.
static uint32_t attempt_of(const struct copy *c)
{
    return c->attempt | (c->placing ? BLOCK_IDENTIFIED : 0);
}

static void put_key(struct block_writer *w, struct arena *a, const struct made *m, uint32_t pod,
                    str columns)
{
    bool any = false;
    for (uint32_t r = pod; r < ROWS; r += 3)
        any |= m->rows[r];
    if (!any) return;
    assert_ok(block_key(w, BLOCK_SERIES, S(CPU), labels_of(a, pod), e));
    bool leaf = m->about.kind == BLOCK_SEGMENT || m->about.kind == BLOCK_RAW;
    struct block_node hours[HOURS] = {{0}};
    for (uint32_t r = pod; r < ROWS; r += 3) {
        if (!m->rows[r]) continue;
        struct block_node *n = &hours[hour_of(r)];
        if (n->profiles++ == 0) n->first_ns = time_of(r);
        n->last_ns = time_of(r);
        n->total += 1 + (int64_t)r;
    }
    for (int64_t h = 0; h < HOURS && !leaf; h++) {
        if (hours[h].profiles == 0) continue;
        const struct vector_entry entry = {1, hours[h].total};
        struct buf b;
        buf_init(&b, NULL, 64);
        columns_encode(&entry, 1, &b);
        hours[h].slot = BASE_HOUR + h;
        hours[h].width = SLOT_HOUR;
        assert_ok(block_node(w, &hours[h], buf_view(&b), e));
        buf_release(&b);
    }
    for (uint32_t r = pod; r < ROWS; r += 3) {
        if (!m->rows[r]) continue;
        int64_t sum = 1 + (int64_t)r;
        if (!leaf) {
            const struct block_total t = {slot_of(time_of(r), SLOT_MINUTE), sum, 1};
            assert_ok(block_total(w, &t, e));
            continue;
        }
        struct block_row row = {.time_ns = time_of(r),
                                .id = id_of(r),
                                .total = sum,
                                .factor = sum,
                                .attempt = m->attempts ? m->attempts[r] : 0};
        assert_ok(block_vector(w, columns, &row.vector, e));
        assert_ok(block_row(w, &row, e));
    }
}

static str make_block(struct world *w, const struct made *m)
{
    struct symbols s;
    struct symbol_table t;
    struct buf out;
    struct buf columns;
    assert_ok(symbols_init(&s, NULL, e));
    assert_ok(head_stack(&s, "main", e) == 1);
    uint32_t *map = ARENA_ARRAY(&w->arena, uint32_t, s.t.stack_count);
    assert_ok(block_order(&w->arena, &s.t, NULL, &t, map, e));
    buf_init(&out, NULL, 1 << 20);
    buf_init(&columns, NULL, 64);
    const struct vector_entry one = {map[1], 1};
    columns_encode(&one, 1, &columns);
    const struct block_writer_options o = {.about = m->about, .sink = sink, .arg = &out};
    struct block_writer *writer = NULL;
    assert_ok((writer = block_begin(&o, e)) != NULL);
    assert_ok(block_service(writer, S("s"), &t, e));
    for (uint32_t pod = 0; pod < 3; pod++)
        put_key(writer, &w->arena, m, pod, buf_view(&columns));
    struct block_written written;
    assert_ok(block_finish(writer, &written, e));
    str bytes = arena_str(&w->arena, buf_view(&out));
    buf_release(&out);
    buf_release(&columns);
    symbols_release(&s);
    return bytes;
}

static struct block_about about(enum block_kind kind, int64_t hour, uint32_t hours)
{
    return (struct block_about){.kind = kind,
                                .tenant = S("t"),
                                .from_hour = BASE_HOUR + hour,
                                .hours = hours,
                                .pack_hi = UINT32_MAX,
                                .classes = 1U << BLOCK_SERIES};
}

static void put(struct world *w, str name, str bytes)
{
    bool existed = false;
    assert_ok(store_put(w->store, &w->req, name, bytes, &existed, e));
    assert_false(existed);
}

// ---- moves

static bool any_row(const bool *rows)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        if (rows[r]) return true;
    }
    return false;
}

void flush(struct world *w, uint32_t head)
{
    uint32_t cut = w->open_cut[head];
    if (cut + 1 == CUTS) return;
    w->open_cut[head]++;
    w->flushed[head][cut] = true;
    for (int64_t hour = 0; hour < HOURS; hour++) {
        bool *rows = w->segment_rows[head][cut][hour];
        uint32_t attempts[ROWS] = {0};
        for (uint32_t r = 0; r < ROWS; r++) {
            const struct copy *c = &w->copies[r][head];
            rows[r] = c->here && c->cut == cut && hour_of(r) == hour;
            attempts[r] = attempt_of(c);
            if (rows[r]) placings_add(&w->placings[head][cut], c->placing);
        }
        if (!any_row(rows)) continue;
        const struct segment_name name = {.hour = BASE_HOUR + hour,
                                          .stream = stream_of(head),
                                          .cut = cut};
        struct made m = {about(BLOCK_SEGMENT, hour, 1), rows, attempts};
        m.about.placings = w->placings[head][cut];
        put(w, name_segment(&w->arena, S("t"), &name), make_block(w, &m));
    }
}

void drop(struct world *w, uint32_t head, uint32_t cut)
{
    w->dropped[head][cut] = true;
    for (uint32_t r = 0; r < ROWS; r++) {
        struct copy *c = &w->copies[r][head];
        if (!c->here || c->cut != cut) continue;
        c->here = false;
        c->was = true;
    }
}

static id128 new_id(struct world *w)
{
    const uint8_t random[10] = {[8] = (uint8_t)(w->ids >> 8), [9] = (uint8_t)w->ids};
    w->ids++;
    return ulid_make((uint64_t)(BASE_NS / 1000000), random);
}

static void commit(struct world *w, struct manifest_block *b, str bytes, const id128 *remove,
                   size_t n)
{
    b->bytes = bytes.n;
    put(w, manifest_block_name(&w->arena, S("t"), b), bytes);
    const struct manifest_change change = {
        .add = b, .add_count = 1, .remove = remove, .remove_count = n, .begun_ns = BASE_NS};
    assert_ok(manifest_commit(w->manifests, &w->req, S("t"), &change, NULL, e));
}

void absorb(struct world *w, int64_t hour)
{
    struct segment_name *sources = ARENA_ARRAY(&w->arena, struct segment_name, HEADS * CUTS);
    bool rows[ROWS] = {0};
    uint32_t attempts[ROWS] = {0};
    struct placings placings = {0};
    size_t n = 0;
    struct snapshot s;
    if (w->leaf_count == LEAVES) return;
    assert_ok(snapshot_take(w->manifests, &w->req, &w->arena, S("t"), &s, e));
    for (size_t i = 0; i < s.segment_count; i++) {
        const struct segment_name *name = &s.segments[i].name;
        if (name->hour != BASE_HOUR + hour) continue;
        sources[n++] = *name;
        uint32_t head = name->stream.b[15] - 1U;
        for (uint32_t r = 0; r < ROWS; r++) {
            if (!w->segment_rows[head][name->cut][hour][r]) continue;
            uint32_t attempt = attempt_of(&w->copies[r][head]);
            bool first = block_attempt(attempt) < block_attempt(attempts[r]);
            if (!rows[r] || first) attempts[r] = attempt;
            rows[r] = true;
        }
        placings_join(&placings, &w->placings[head][name->cut]);
    }
    snapshot_release(&s);
    if (n == 0) return;
    for (size_t i = 0; i < w->leaf_count; i++) {
        for (uint32_t r = 0; r < ROWS; r++)
            rows[r] &= !w->leaves[i].rows[r];
    }
    struct leaf *leaf = &w->leaves[w->leaf_count++];
    *leaf = (struct leaf){.id = new_id(w), .hour = hour};
    memcpy(leaf->rows, rows, sizeof rows);
    str *texts = ARENA_ARRAY(&w->arena, str, n);
    for (size_t i = 0; i < n; i++) {
        char text[SEGMENT_TEXT];
        segment_name_print(&sources[i], text);
        texts[i] = arena_str(&w->arena, str_of(text));
    }
    struct segment_run *runs = ARENA_ARRAY(&w->arena, struct segment_run, n);
    for (size_t i = 0; i < n; i++)
        runs[i] = segment_run_of(&sources[i]);
    struct made m = {about(BLOCK_RAW, hour, 1), rows, attempts};
    m.about.id = leaf->id;
    m.about.sources = texts;
    m.about.source_count = n;
    m.about.placings = placings;
    struct manifest_block b = {.id = leaf->id,
                               .kind = BLOCK_RAW,
                               .from_hour = BASE_HOUR + hour,
                               .hours = 1,
                               .pack_hi = UINT32_MAX,
                               .classes = 1U << BLOCK_SERIES,
                               .rows = 1,
                               .first_ns = BASE_NS + hour * SLOT_HOUR + 1,
                               .last_ns = BASE_NS + (hour + 1) * SLOT_HOUR,
                               .sources = runs,
                               .source_count = (uint32_t)segment_runs_join(runs, n)};
    commit(w, &b, make_block(w, &m), NULL, 0);
}

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

void sum_up(struct world *w)
{
    bool rows[ROWS] = {0};
    id128 *ids = ARENA_ARRAY(&w->arena, id128, (size_t)LEAVES * HOURS);
    struct manifest_cover covers[HOURS];
    for (int64_t h = 0; h < HOURS; h++) {
        covers[h] =
            (struct manifest_cover){.hour = BASE_HOUR + h, .hours = 1, .leaves = ids + h * LEAVES};
        for (size_t i = 0; i < w->leaf_count; i++) {
            const struct leaf *leaf = &w->leaves[i];
            if (leaf->hour != h) continue;
            ids[h * LEAVES + (int64_t)covers[h].leaf_count++] = leaf->id;
            for (uint32_t r = 0; r < ROWS; r++)
                rows[r] |= leaf->rows[r];
        }
        qsort(ids + h * LEAVES, covers[h].leaf_count, sizeof *ids, by_id);
    }
    if (!any_row(rows)) return;
    struct made m = {about(BLOCK_HOURS, 0, HOURS), rows, NULL};
    struct manifest_block b = {.id = new_id(w),
                               .kind = BLOCK_HOURS,
                               .from_hour = BASE_HOUR,
                               .hours = HOURS,
                               .pack_hi = UINT32_MAX,
                               .classes = 1U << BLOCK_SERIES,
                               .rows = 1,
                               .first_ns = BASE_NS + 1,
                               .last_ns = BASE_NS + HOURS * SLOT_HOUR,
                               .covers = covers,
                               .cover_count = HOURS};
    m.about.id = b.id;
    struct manifest *now = NULL;
    assert_ok((now = manifest_newest(w->manifests, &w->req, S("t"), e)) != NULL);
    id128 old[8];
    size_t n = 0;
    size_t count = 0;
    const struct manifest_block *v = manifest_blocks(now, &count);
    for (size_t i = 0; i < count; i++) {
        if (v[i].kind == BLOCK_HOURS && n < COUNT(old)) old[n++] = v[i].id;
    }
    manifest_unref(now);
    commit(w, &b, make_block(w, &m), old, n);
}

static void sweep(struct world *w)
{
    struct sweep_seen seen;
    sweep_seen_init(&seen, NULL);
    struct manifest_sweep s = {.seen = &seen,
                               .version_age_ns = INT64_MAX,
                               .versions = 1000,
                               .orphan_age_ns = INT64_MAX,
                               .garbage_grace_ns = roll(w, 2) ? 0 : INT64_MAX};
    assert_ok(manifest_sweep(w->manifests, &w->req, S("t"), &s, e));
    sweep_seen_release(&seen);
}

void move(struct world *w)
{
    uint32_t head = roll(w, HEADS);
    switch (roll(w, 10)) {
    case 0:
    case 1:
        flush(w, head);
        break;
    case 2: {
        uint32_t cut = roll(w, CUTS);
        if (w->flushed[head][cut] && !w->dropped[head][cut]) drop(w, head, cut);
        break;
    }
    case 3:
    case 4:
        absorb(w, roll(w, HOURS));
        break;
    case 5:
        sum_up(w);
        break;
    case 6:
        sweep(w);
        break;
    default:
        break;
    }
}

static enum memstore_fault hook(void *arg, const struct memstore_event *ev)
{
    struct world *w = arg;
    if (w->asked && (ev->op == MEMSTORE_LIST || ev->op == MEMSTORE_READ) && roll(w, 3) == 0)
        move(w);
    return MEMSTORE_FINE;
}

void arrive(struct world *w, uint32_t head)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        struct copy *c = &w->copies[r][head];
        if (c->here || c->was || c->since > w->moment) continue;
        c->here = true;
        c->cut = w->open_cut[head];
    }
}

// ---- heads

static bool goes_by_ids(str message)
{
    bool does = false;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r))
        does |= r.field == 17 && r.number;
    return does;
}

// The list of a question: keepers are 1 for this head, 0 for others.
static bool read_list(str message, id128 stream, struct loose_set *out)
{
    bool listed = false;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field != 15) continue;
        listed = true;
        str keys = {0};
        bool mine = false;
        struct pb_reader in = pb_reader(r.bytes);
        while (pb_next(&in)) {
            if (in.field == 1) mine = memcmp(in.bytes.p, stream.b, sizeof stream.b) == 0;
            if (in.field == 2) keys = in.bytes;
        }
        assert_ok(loose_decode(out, keys, mine, e));
    }
    return listed;
}

// Cuts that a leaf has leave the head once somebody says so.
static void refresh(struct world *w, str message, uint32_t head)
{
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field != 8) continue;
        uint64_t cut = 0;
        bool mine = false;
        struct pb_reader in = pb_reader(r.bytes);
        while (pb_next(&in)) {
            if (in.field == 1) {
                mine = memcmp(in.bytes.p, stream_of(head).b, sizeof(id128)) == 0;
            }
            if (in.field == 2) cut = in.number;
        }
        // All hours of a cut leave at once here, so they have to be covered: they are written.
        if (mine && w->knows && w->flushed[head][cut]) drop(w, head, (uint32_t)cut);
    }
}

static void put_row(struct buf *out, uint32_t row)
{
    size_t totals = pb_begin(out, 4);
    pb_end(out, pb_begin(out, 1));
    size_t point = pb_begin(out, 2);
    pb_put_i64_opt(out, 1, point_of(row));
    pb_put_u64_opt(out, 2, zigzag(1 + (int64_t)row));
    pb_put_u64(out, 3, 1);
    pb_end(out, point);
    pb_end(out, totals);
}

static void put_cuts(const struct world *w, uint32_t head, struct buf *out)
{
    for (uint32_t cut = 0; cut < CUTS; cut++) {
        for (int64_t hour = 0; hour < HOURS; hour++) {
            bool any = false;
            for (uint32_t r = 0; r < ROWS; r++) {
                const struct copy *c = &w->copies[r][head];
                any |= c->here && c->cut == cut && hour_of(r) == hour;
            }
            if (!any) continue;
            size_t mark = pb_begin(out, 3);
            pb_put_bytes(out, 1, str_make(stream_of(head).b, sizeof(id128)));
            pb_put_u64_opt(out, 2, cut);
            pb_put_i64_opt(out, 4, BASE_HOUR + hour);
            pb_end(out, mark);
        }
    }
}

static void put_partial(struct world *w, uint32_t head, struct arena *a, str message,
                        struct buf *out)
{
    struct loose_set list;
    struct loose_set met;
    loose_init(&list, a, NULL, SIZE_MAX);
    loose_init(&met, a, NULL, SIZE_MAX);
    struct placings placings = {0};
    bool by_ids = goes_by_ids(message);
    bool listed = read_list(message, stream_of(head), &list);
    for (uint32_t r = 0; r < ROWS; r++) {
        const struct copy *c = &w->copies[r][head];
        if (!c->here) continue;
        const struct loose_row *on = loose_find(&list, key_of(a, r));
        bool loose = c->attempt || (by_ids && c->placing);
        placings_add(&placings, c->placing);
        if (listed && (on ? on->keeper == 0 : loose)) continue;
        put_row(out, r);
        if (loose && !listed) loose_note(&met, key_of(a, r));
    }
    if (met.n) {
        size_t keys = pb_begin(out, 15);
        loose_encode(&met, 0, out);
        pb_end(out, keys);
    }
    placings_put(&placings, 17, out);
    loose_release(&list);
    loose_release(&met);
}

bool ask_world(const void *transport, struct req *r, str tenant, str message,
               struct head_replies *out, err *e)
{
    (void)tenant;
    (void)e;
    struct world *w = (struct world *)(uintptr_t)transport;
    struct head_reply *v = ARENA_ARRAY(&r->arena, struct head_reply, HEADS);
    w->rounds++;
    for (uint32_t h = 0; h < HEADS; h++) {
        for (uint32_t i = w->still ? 0 : roll(w, 3); i > 0; i--)
            move(w);
        if (!w->still) w->moment += roll(w, 2);
        arrive(w, h);
        refresh(w, message, h);
        struct buf b;
        buf_init(&b, NULL, 1 << 20);
        const char name[2] = {(char)('a' + h), 0};
        size_t answer = pb_begin(&b, 1);
        head_put_stream(&b, 1, (uint8_t)(h + 1), name);
        pb_put_u64(&b, 2, 1);
        put_cuts(w, h, &b);
        size_t partial = pb_begin(&b, 4);
        put_partial(w, h, &r->arena, message, &b);
        pb_end(&b, partial);
        pb_end(&b, answer);
        pb_put_u64(&b, 16, 1);
        v[h] = (struct head_reply){.member = arena_str(&r->arena, str_of(name)),
                                   .bytes = arena_str(&r->arena, buf_view(&b))};
        buf_release(&b);
    }
    *out = (struct head_replies){.v = v, .n = HEADS};
    return true;
}

// ---- a walk

static int64_t wall(void)
{
    return BASE_NS + 1;
}

void open_world(struct world *w, uint64_t seed, uint32_t copies)
{
    *w = (struct world){.store = memstore_open(), .dice = seed, .knows = true};
    mem_budget_init(&w->memory, "process", NULL, 0);
    arena_init(&w->arena, NULL, (size_t)1 << 30);
    req_init(&w->req, RANK_DUTY, NULL, (size_t)1 << 30, 0);
    assert_ok((w->manifests = manifests_open(w->store, &w->memory, wall, e)) != NULL);
    w->asked_store = memstore_again(w->store);
    assert_ok((w->asked_manifests = manifests_open(w->asked_store, &w->memory, wall, e)) != NULL);
    w->blocks = blocks_new(w->asked_store, &w->memory, 1 << 20);
    memstore_set_hooks(w->asked_store, hook, NULL, w);
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t home = roll(w, HEADS);
        for (uint32_t h = 0; h < HEADS; h++) {
            w->copies[r][h] = (struct copy){.since = NEVER, .attempt = h != home};
        }
        for (uint32_t k = 1 + roll(w, copies); k > 0; k--) {
            uint32_t at = copies > 1 ? roll(w, HEADS) : home;
            w->copies[r][at].since = roll(w, 2) ? 0 : roll(w, 20);
        }
    }
}

void differ(struct world *w)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t home = 0;
        while (w->copies[r][home].attempt)
            home++;
        w->copies[r][home].placing = 3;
        if (roll(w, 2)) continue;
        struct copy *second = &w->copies[r][(home + 1 + roll(w, HEADS - 1)) % HEADS];
        second->attempt = 0;
        second->placing = 5;
        if (second->since == NEVER) second->since = roll(w, 2) ? 0 : roll(w, 20);
    }
}

void close_world(struct world *w)
{
    blocks_free(w->blocks);
    manifests_close(w->asked_manifests);
    manifests_close(w->manifests);
    req_release(&w->req);
    arena_release(&w->arena);
    assert_int_equal(w->memory.used, 0);
    store_close(w->asked_store);
    store_close(w->store);
}

bool was_there(const struct world *w, uint32_t row, uint32_t moment)
{
    for (uint32_t h = 0; h < HEADS; h++) {
        if (w->copies[row][h].since <= moment) return true;
    }
    return false;
}
