// SPDX-License-Identifier: Apache-2.0
//
// What is in the store is not believed: objects that are gone, cut, flipped or made by somebody
// else are told by name and field.
#include "base/hash.h"
#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "manifest/manifest_int.h"
#include "unit/manifest/bench.h"

#include <stdlib.h>

// Another process over the same objects.
static bool read_anew(struct bench *b, err *e)
{
    err fault = {0};
    struct manifests *ms = manifests_open(b->store, NULL, bench_wall, &fault);
    struct manifest *m = manifest_newest(ms, &b->r, TENANT, e);
    bool read = m != NULL;
    manifest_unref(m);
    manifests_close(ms);
    return read;
}

static void expect(struct bench *b, const char *what, enum err_code code, const char *text)
{
    err e = {0};
    if (read_anew(b, &e)) fail_msg("%s: was read", what);
    if (e.code != code || !strstr(e.msg, text))
        fail_msg("%s: %s: %s; expected %s: %s", what, err_name(e.code), e.msg, err_name(code),
                 text);
}

static const char *first_name(struct bench *b, const char *prefix)
{
    char *names = memstore_names(b->store, prefix);
    str name = arena_str(&b->arena, str_slice(str_of(names), 0, str_find(str_of(names), '\n')));
    free(names);
    return name.p;
}

// Something on the way says that a root, a page or everything is not there. That is no loss.
static void what_is_only_said_not_to_be_there_is_read_or_unavailable(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    for (uint64_t nth = 1; nth <= 2; nth++) {  // the root, the page
        memstore_fail(b.store, MEMSTORE_READ, MEMSTORE_FORGETS, nth, 2);
        assert_ok(read_anew(&b, e));
        memstore_fail(b.store, MEMSTORE_READ, MEMSTORE_FORGETS, nth, UINT64_MAX);
        expect(&b, "it is denied", ERR_UNAVAILABLE, "the store lists it");
        memstore_heal(b.store);
    }
    bench_end(&b);
}

static void what_is_not_there_is_named(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    const char *page = first_name(&b, "v1/bb/acme/page/");
    const char *root = first_name(&b, "v1/bb/acme/live/m/");
    str bytes = arena_str(&b.arena, memstore_bytes(b.store, page));
    memstore_drop(b.store, page);
    expect(&b, "page is gone", ERR_DATA_LOSS, page);
    memstore_set(b.store, page, bytes);
    memstore_cut(b.store, page, bytes.n - 1);
    expect(&b, "page is cut", ERR_DATA_LOSS, page);
    memstore_set(b.store, page, bytes);
    memstore_flip(b.store, page, 7, 3);
    expect(&b, "page is flipped", ERR_DATA_LOSS, page);
    memstore_set(b.store, page, bytes);
    memstore_cut(b.store, root, 20);
    expect(&b, "root is cut", ERR_DATA_LOSS, "manifest version 1 of tenant acme");
    bench_end(&b);
}

static void names_of_others_are_ignored(void **state)
{
    static const char *const foreign[] = {
        "live/a/x",
        "live/a/00",
        "live/m/0000000000000000",
        "live/m/00000000000000g1",
        "live/m/00000000000000002",
        "live/x/y",
        "live/z",
    };
    struct bench b;
    struct snapshot snap;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    bench_write_segment(&b, &s);
    for (size_t i = 0; i < COUNT(foreign); i++) {
        str name = arena_printf(&b.arena, "v1/bb/acme/%s", foreign[i]);
        memstore_set(b.store, name.p, S("?"));
    }
    assert_ok(snapshot_take(b.ms, &b.r, &b.arena, TENANT, &snap, e));
    assert_int_equal(snap.segment_count, 1);
    assert_int_equal(manifest_version(snap.manifest), 1);
    snapshot_release(&snap);
    bench_end(&b);
}

// ---- pages and roots with anything in them

struct forged {
    Flametree__V1__Root root;
    Flametree__V1__Page page;
    Flametree__V1__PageRef ref;
    Flametree__V1__PageRef *refs[2];
    Flametree__V1__BlockRef block[2];
    Flametree__V1__BlockRef *blocks[2];
    Flametree__V1__Cover cover;
    Flametree__V1__Cover *covers[1];
    Flametree__V1__SegmentRef segment[2];
    Flametree__V1__SegmentRef *segments[2];
    Flametree__V1__PastBlock past;
    Flametree__V1__PastBlock *pasts[1];
    Flametree__V1__Garbage garbage;
    Flametree__V1__Garbage *garbages[1];
    uint8_t ids[4][16];
    uint8_t runs[32];
    uint8_t streams[32];
    uint8_t bad[4];
    ProtobufCBinaryData bad_past;
    bool wrong_hash;
};

static void forge_begin(struct forged *f, enum block_kind kind)
{
    memset(f, 0, sizeof *f);
    flametree__v1__root__init(&f->root);
    flametree__v1__page__init(&f->page);
    flametree__v1__page_ref__init(&f->ref);
    flametree__v1__cover__init(&f->cover);
    flametree__v1__past_block__init(&f->past);
    flametree__v1__garbage__init(&f->garbage);
    int64_t hour = BENCH_HOUR - BENCH_HOUR % 24;
    for (int i = 0; i < 2; i++) {
        Flametree__V1__BlockRef *b = &f->block[i];
        flametree__v1__block_ref__init(b);
        flametree__v1__segment_ref__init(&f->segment[i]);
        f->ids[i][15] = (uint8_t)(i + 1);
        b->id = (ProtobufCBinaryData){16, f->ids[i]};
        b->kind = kind;
        b->from_hour = hour;
        b->hours = 1;
        b->pack_hi = UINT32_MAX;
        b->classes = 1;
        b->bytes = 10;
        b->first_ns = hour * BENCH_HOURS + 1;
        b->last_ns = b->first_ns;
        f->segment[i].hour = hour;
        f->segment[i].stream = (ProtobufCBinaryData){16, f->ids[3]};
        f->segment[i].part = (uint32_t)i;
        f->blocks[i] = b;
        f->segments[i] = &f->segment[i];
    }
    f->cover.hour = hour;
    f->cover.hours = 1;
    f->cover.leaves = (ProtobufCBinaryData){32, f->ids[0]};
    f->covers[0] = &f->cover;
    f->past.id = (ProtobufCBinaryData){16, f->ids[2]};
    f->past.expired = true;
    f->pasts[0] = &f->past;
    f->ids[2][15] = 9;
    if (kind == BLOCK_RAW) {
        f->block[0].sources = f->segments;
        f->block[0].n_sources = 2;
        f->page.past = f->pasts;
        f->page.n_past = 1;
    } else {
        f->block[0].covers = f->covers;
        f->block[0].n_covers = 1;
    }
    f->page.format = 1;
    f->page.kind = kind;
    f->page.window = hour / 24;
    f->page.blocks = f->blocks;
    f->page.n_blocks = 2;
    f->ref.id = (ProtobufCBinaryData){16, f->ids[3]};
    f->ref.kind = kind;
    f->ref.window = hour / 24;
    f->refs[0] = &f->ref;
    f->refs[1] = &f->ref;
    f->garbage.name = (char *)(uintptr_t) "page/00000000000000000000000000";
    f->garbages[0] = &f->garbage;
    f->root.format = 1;
    f->root.tenant = (char *)(uintptr_t) "acme";
    f->root.version = 3;
    f->root.nonce = (ProtobufCBinaryData){16, f->ids[3]};
    f->root.pages = f->refs;
    f->root.n_pages = 1;
    f->root.garbage = f->garbages;
    f->root.n_garbage = 1;
}

// The page in format 2, with these sources of its first block.
static void set_runs(struct forged *f, const char *hex)
{
    f->page.format = 2;
    f->block[0].n_sources = 0;
    assert_true(hex_parse(str_of(hex), f->runs, strlen(hex) / 2));
    f->block[0].runs = (ProtobufCBinaryData){strlen(hex) / 2, f->runs};
    f->page.streams = (ProtobufCBinaryData){16, f->streams};
    memcpy(f->bad, "\x30\x00\x03\x00", 4);  // 24 hours on
    f->bad_past = (ProtobufCBinaryData){4, f->bad};
}

static void forge_end(struct bench *b, struct forged *f)
{
    struct buf page;
    struct buf root;
    buf_init(&page, NULL, 1 << 20);
    buf_init(&root, NULL, 1 << 20);
    pb_pack(&f->page.base, &page);
    if (!f->ref.bytes) f->ref.bytes = page.n;
    f->ref.hash = hash_str(buf_view(&page)) + f->wrong_hash;
    pb_pack(&f->root.base, &root);
    memstore_set(b->store, "v1/bb/acme/page/00000000000000000000000000", buf_view(&page));
    memstore_set(b->store, "v1/bb/acme/live/m/0000000000000003", buf_view(&root));
    buf_release(&page);
    buf_release(&root);
}

#define FORGERIES(X)                                                                               \
    X(RAW, "format is 3", FAILED_PRECONDITION, f.page.format = 3)                                  \
    X(RAW, "block 0: sources are not those of format 2", DATA_LOSS, f.page.format = 2)             \
    X(RAW, "block 0: sources are not those of format 1", DATA_LOSS, set_runs(&f, "00000300");      \
      f.page.format = 1)                                                                           \
    X(RAW, "streams have 15 bytes", DATA_LOSS, set_runs(&f, ""); f.page.streams.len = 15)          \
    X(RAW, "streams are not in order at 1", DATA_LOSS, set_runs(&f, ""); f.page.streams.len = 32)  \
    X(RAW, "source 0: stream is 0 of 1", DATA_LOSS, set_runs(&f, "00010300"))                      \
    X(RAW, "source 0: it ends within a number", DATA_LOSS, set_runs(&f, "000003"))                 \
    X(RAW, "source 0: hour 49", DATA_LOSS, set_runs(&f, "02000300"))                               \
    X(RAW, "sources are not in order at 1", DATA_LOSS, set_runs(&f, "0000030000000400"))           \
    X(RAW, "sources are not in order at 1", DATA_LOSS, set_runs(&f, "0000040000000200"))           \
    X(RAW, "source 0: 1 cuts from 18446744073709551615 on", DATA_LOSS,                             \
      set_runs(&f, "0000ffffffffffffffffff0100"))                                                  \
    X(RAW, "past 0: source 0: hour", DATA_LOSS, set_runs(&f, ""); f.past.runs = f.bad_past)        \
    X(RAW, "format is 9", FAILED_PRECONDITION, f.root.format = 9)                                  \
    X(RAW, "tenant is 'evil'", DATA_LOSS, f.root.tenant = evil)                                    \
    X(RAW, "version is 4", DATA_LOSS, f.root.version = 4)                                          \
    X(RAW, "nonce has 15 bytes", DATA_LOSS, f.root.nonce.len = 15)                                 \
    X(RAW, "page 0: id has 3 bytes", DATA_LOSS, f.ref.id.len = 3)                                  \
    X(RAW, "page 0: kind is 1", DATA_LOSS, f.ref.kind = 1)                                         \
    X(RAW, "page 0: kind is 77", DATA_LOSS, f.ref.kind = 77)                                       \
    X(RAW, "page 0: window is -1", DATA_LOSS, f.ref.window = -1)                                   \
    X(RAW, "page 0: window is 9223372036854775807", DATA_LOSS, f.ref.window = INT64_MAX)           \
    X(RAW, "page 0: bytes is 18446744073709551615", DATA_LOSS, f.ref.bytes = UINT64_MAX)           \
    X(RAW, "at 1 are not within the ", DATA_LOSS, f.ref.at = 1)                                    \
    X(RAW, "page 0: 7 bytes at 0 are not within the 6 of its object", DATA_LOSS, f.ref.bytes = 7;  \
      f.ref.object_bytes = 6)                                                                      \
    X(RAW, "page 0: 7 bytes at 18446744073709551615", DATA_LOSS, f.ref.bytes = 7;                  \
      f.ref.object_bytes = 9; f.ref.at = UINT64_MAX)                                               \
    X(RAW, "pages are not in order at 1", DATA_LOSS, f.root.n_pages = 2)                           \
    X(RAW, "garbage 0: name is '../x'", DATA_LOSS, f.garbage.name = up)                            \
    X(RAW, "garbage 0: name is 'live/m/0000000000000001'", DATA_LOSS, f.garbage.name = live)       \
    X(RAW, "its hash is", DATA_LOSS, f.wrong_hash = true)                                          \
    X(RAW, "the root says", DATA_LOSS, f.page.window++)                                            \
    X(RAW, "the root says", DATA_LOSS, f.page.kind = 3)                                            \
    X(RAW, "block 0: id has 17 bytes", DATA_LOSS, f.block[0].id.len = 17)                          \
    X(RAW, "block 1: kind is 0", DATA_LOSS, f.block[1].kind = 0)                                   \
    X(RAW, "belong to another page", DATA_LOSS, f.block[1].kind = 3)                               \
    X(RAW, "block 1: from_hour is -5", DATA_LOSS, f.block[1].from_hour = -5)                       \
    X(RAW, "block 1: from_hour is 9223372036854775807", DATA_LOSS,                                 \
      f.block[1].from_hour = INT64_MAX)                                                            \
    X(RAW, "block 0: hours is 4294967295", DATA_LOSS, f.block[0].hours = UINT32_MAX)               \
    X(RAW, "reach into another window", DATA_LOSS, f.block[0].hours = 25)                          \
    X(RAW, "pack_lo ffffffff is above pack_hi 00000000", DATA_LOSS,                                \
      f.block[0].pack_lo = UINT32_MAX;                                                             \
      f.block[0].pack_hi = 0)                                                                      \
    X(RAW, "block 0: classes is 8", DATA_LOSS, f.block[0].classes = 8)                             \
    X(RAW, "block 0: bytes is", DATA_LOSS, f.block[0].bytes = UINT64_MAX)                          \
    X(RAW, "are not within", DATA_LOSS, f.block[0].last_ns += BENCH_HOURS)                         \
    X(RAW, "is before first_ns", DATA_LOSS, f.block[0].last_ns = INT64_MIN)                        \
    X(RAW, "blocks are not in order at 1", DATA_LOSS, f.block[1].id = f.block[0].id)               \
    X(RAW, "source 1: stream has 0 bytes", DATA_LOSS, f.segment[1].stream.len = 0)                 \
    X(RAW, "sources are not in order at 1", DATA_LOSS, f.segment[1].part = 0)                      \
    X(RAW, "source 1: hour", DATA_LOSS, f.segment[1].hour++)                                       \
    X(RAW, "covers: a leaf has 1", DATA_LOSS, f.block[0].covers = f.covers;                        \
      f.block[0].n_covers = 1)                                                                     \
    X(RAW, "past 0: id has 1 bytes", DATA_LOSS, f.past.id.len = 1)                                 \
    X(RAW, "past 0: source 0: hour", DATA_LOSS, f.past.sources = f.segments; f.past.n_sources = 1; \
      f.segment[0].hour -= 24; f.block[0].n_sources = 0)                                           \
    X(RAW, "occurs twice", DATA_LOSS, f.past.id = f.block[1].id)                                   \
    X(HOURS, "sources: a parent has 2", DATA_LOSS, f.block[1].sources = f.segments;                \
      f.block[1].n_sources = 2)                                                                    \
    X(HOURS, "leaves have 31 bytes", DATA_LOSS, f.cover.leaves.len = 31)                           \
    X(HOURS, "leaves are not in order at 1", DATA_LOSS, memcpy(f.ids[1], f.ids[0], 16);            \
      f.block[1].id.data = f.ids[2]; f.ids[2][15] = 3)                                             \
    X(HOURS, "cover 0: hour", DATA_LOSS, f.cover.hour--)                                           \
    X(HOURS, "cover 0: hour", DATA_LOSS, f.cover.hours = 2)                                        \
    X(HOURS, "cover 0: hour", DATA_LOSS, f.cover.hours = UINT32_MAX)                               \
    X(HOURS, "cover 0: hour", DATA_LOSS, f.cover.hour = INT64_MIN)                                 \
    X(HOURS, "spared is 1", DATA_LOSS, f.block[0].spared = true)                                   \
    X(HOURS, "past", DATA_LOSS, f.page.past = f.pasts; f.page.n_past = 1)

static void forgeries_are_found_out(void **state)
{
    static char evil[] = "evil";
    static char up[] = "../x";
    static char live[] = "live/m/0000000000000001";
    struct bench b;
    struct forged f;
    unsigned n = 0;
    err fault = {0};
    (void)state;
    bench_begin(&b);
    static const enum block_kind kinds[] = {BLOCK_RAW, BLOCK_HOURS};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        forge_begin(&f, kinds[i]);
        forge_end(&b, &f);
        if (!read_anew(&b, &fault)) fail_msg("%s", fault.msg);
    }
#define X(kind, text, code, ...)                \
    forge_begin(&f, BLOCK_##kind);              \
    __VA_ARGS__;                                \
    forge_end(&b, &f);                          \
    expect(&b, #__VA_ARGS__, ERR_##code, text); \
    n++;
    FORGERIES(X)
#undef X
    print_message("%u forgeries\n", n);
    bench_end(&b);
}

static void versions_share_what_did_not_change(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block v[8];
    for (uint32_t i = 0; i < 8; i++)
        v[i] = bench_leaf(BENCH_HOUR + 24 * i, bench_id(i), NULL, 0);
    assert_ok(bench_add(&b, v, 8, e));
    struct store *again = memstore_again(b.store);
    err fault = {0};
    struct manifests *other = manifests_open(again, NULL, bench_wall, &fault);
    manifest_unref(manifest_newest(other, &b.r, TENANT, &fault));
    struct manifest_block more = bench_leaf(BENCH_HOUR, bench_id(9), NULL, 0);
    assert_ok(bench_add(&b, &more, 1, e));
    memstore_reset_totals(again);
    struct manifest *m = manifest_newest(other, &b.r, TENANT, &fault);
    assert_int_equal(manifest_version(m), 2);
    struct memstore_totals t = memstore_totals(again);
    assert_int_equal(t.ops[MEMSTORE_LIST], 1);
    assert_int_equal(t.ops[MEMSTORE_READ], 2);  // the root, one page
    struct manifest *known = manifest_known(other, TENANT);
    assert_ptr_equal(known, m);
    manifest_unref(known);
    manifest_unref(m);
    // an emptied store is believed
    memstore_reset_totals(again);
    char *names = memstore_names(b.store, "");
    for (char *at = names, *end = NULL; *at; at = end + 1) {
        end = strchr(at, '\n');
        *end = '\0';
        memstore_drop(b.store, at);
    }
    free(names);
    m = manifest_newest(other, &b.r, TENANT, &fault);
    assert_int_equal(manifest_version(m), 0);
    manifest_unref(m);
    manifests_close(other);
    store_close(again);
    bench_end(&b);
}

static void what_is_kept_gives_way_to_what_is_needed(void **state)
{
    struct bench b;
    err e = {0};
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    size_t empty = atomic_load(&b.budget.used);
    struct manifest_change c = {.add = &leaf, .add_count = 1, .begun_ns = BENCH_START};
    static char zeros[1000];
    str name = manifest_block_name(&b.arena, S("a"), &leaf);
    memstore_set(b.store, name.p, str_make(zeros, sizeof zeros));
    assert_true(manifest_commit(b.ms, &b.r, S("a"), &c, NULL, &e));
    size_t one = atomic_load(&b.budget.used) - empty;
    size_t peak = atomic_load(&b.budget.peak);
    atomic_store(&b.budget.limit, peak + 2 * one);
    for (int i = 0; i < 40; i++) {
        str tenant = arena_printf(&b.arena, "tenant-%d", i);
        name = manifest_block_name(&b.arena, tenant, &leaf);
        memstore_set(b.store, name.p, str_make(zeros, sizeof zeros));
        if (!manifest_commit(b.ms, &b.r, tenant, &c, NULL, &e)) fail_msg("%d: %s", i, e.msg);
    }
    assert_null(manifest_known(b.ms, S("tenant-1")));
    for (int i = 0; i < 40; i++) {
        str tenant = arena_printf(&b.arena, "tenant-%d", i);
        struct manifest *m = manifest_newest(b.ms, &b.r, tenant, &e);
        if (!m) fail_msg("%d: %s", i, e.msg);
        assert_int_equal(manifest_version(m), 1);
        manifest_unref(m);
    }
    atomic_store(&b.budget.limit, atomic_load(&b.budget.used));
    bench_end(&b);
}

// ---- the budget of what is kept

static str nth_tenant(struct bench *b, int i)
{
    return arena_printf(&b->arena, "tenant-%d", i);
}

// A version for each of n tenants.
static void fill_tenants(struct bench *b, int n)
{
    static char zeros[1000];
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    struct manifest_change c = {.add = &leaf, .add_count = 1, .begun_ns = BENCH_START};
    for (int i = 0; i < n; i++) {
        str name = manifest_block_name(&b->arena, nth_tenant(b, i), &leaf);
        memstore_set(b->store, name.p, str_make(zeros, sizeof zeros));
        assert_ok(manifest_commit(b->ms, &b->r, nth_tenant(b, i), &c, NULL, e));
    }
}

static void ask_tenants(struct bench *b, int n)
{
    for (int i = 0; i < n; i++) {
        err e = {0};
        struct manifest *m = manifest_newest(b->ms, &b->r, nth_tenant(b, i), &e);
        if (!m) fail_msg("%d: %s", i, e.msg);
        assert_int_equal(manifest_version(m), 1);
        manifest_unref(m);
    }
}

static size_t kept_bytes(struct bench *b)
{
    return atomic_load(&manifests_budget(b->ms)->used);
}

static void what_is_kept_stays_within_its_budget(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    fill_tenants(&b, 10);
    size_t ten = kept_bytes(&b);
    while (manifests_shrink(b.ms)) {
    }
    assert_int_equal(kept_bytes(&b), 0);
    manifests_limit(b.ms, "cache", 2 * ten);
    fill_tenants(&b, 60);
    ask_tenants(&b, 60);
    assert_true(kept_bytes(&b) > ten && kept_bytes(&b) <= 2 * ten);
    bench_end(&b);
}

static void what_is_larger_than_the_budget_is_answered_all_the_same(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    manifests_limit(b.ms, "cache", 64);
    fill_tenants(&b, 5);
    ask_tenants(&b, 5);
    assert_int_equal(kept_bytes(&b), 0);
    assert_null(manifest_known(b.ms, nth_tenant(&b, 0)));
    struct manifest_sweep s = {.versions = 1, .orphan_age_ns = BENCH_HOURS};
    assert_ok(bench_sweep(&b, &s, e));
    bench_end(&b);
}

static void requests_find_room_beside_what_is_kept(void **state)
{
    struct bench b;
    err e = {0};
    (void)state;
    bench_begin(&b);
    fill_tenants(&b, 10);
    size_t ten = kept_bytes(&b);
    while (manifests_shrink(b.ms)) {
    }
    size_t limit = atomic_load(&b.budget.used) + 10 * ten;
    atomic_store(&b.budget.limit, limit);
    manifests_limit(b.ms, "cache", 0);
    fill_tenants(&b, 300);
    assert_true(mem_reserve(&b.budget, limit / 5, &e));
    // They take more: the next use gives up what others need.
    size_t before = kept_bytes(&b);
    size_t more = limit - atomic_load(&b.budget.used) - 1000;
    assert_true(mem_reserve(&b.budget, more, &e));
    manifests_relieve(b.ms);
    assert_true(kept_bytes(&b) < before);
    mem_unreserve(&b.budget, more);
    mem_unreserve(&b.budget, limit / 5);
    ask_tenants(&b, 300);
    bench_end(&b);
}

static void what_is_in_use_is_not_given_up(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    fill_tenants(&b, 3);
    struct manifest *m = manifest_known(b.ms, nth_tenant(&b, 1));
    assert_non_null(m);
    while (manifests_shrink(b.ms)) {
    }
    struct manifest *again = manifest_known(b.ms, nth_tenant(&b, 1));
    assert_ptr_equal(again, m);
    assert_null(manifest_known(b.ms, nth_tenant(&b, 0)));
    manifest_unref(again);
    manifest_unref(m);
    bench_end(&b);
}

// ---- pages on this machine

#define SHELF_PAGES 8

struct shelf {
    struct {
        char name[STORE_NAME_MAX];
        uint64_t at;
        char bytes[4096];
        size_t n;
    } pages[SHELF_PAGES];
    size_t n;
};

static bool shelf_get(void *arg, str name, uint64_t at, size_t n, char *to)
{
    struct shelf *shelf = arg;
    for (size_t i = 0; i < shelf->n; i++) {
        if (shelf->pages[i].n != n || shelf->pages[i].at != at) continue;
        if (!str_is(name, shelf->pages[i].name)) continue;
        memcpy(to, shelf->pages[i].bytes, n);
        return true;
    }
    return false;
}

static void shelf_put(void *arg, str name, uint64_t at, str bytes)
{
    struct shelf *shelf = arg;
    assert_true(shelf->n < SHELF_PAGES && bytes.n <= sizeof shelf->pages[0].bytes);
    snprintf(shelf->pages[shelf->n].name, STORE_NAME_MAX, "%.*s", STR(name));
    memcpy(shelf->pages[shelf->n].bytes, bytes.p, bytes.n);
    shelf->pages[shelf->n].at = at;
    shelf->pages[shelf->n++].n = bytes.n;
}

// Reads of the store that another process with this shelf needs.
static size_t reads_with(struct bench *b, struct shelf *shelf)
{
    err fault = {0};
    struct manifests *ms = manifests_open(b->store, &b->budget, bench_wall, &fault);
    manifests_keep_pages(ms, &(struct manifest_page_keeper){shelf_get, shelf_put, shelf});
    memstore_reset_totals(b->store);
    struct manifest *m = manifest_newest(ms, &b->r, TENANT, &fault);
    if (!m) fail_msg("%s", fault.msg);
    size_t blocks = 0;
    (void)manifest_blocks(m, &blocks);
    assert_int_equal(blocks, 2);
    size_t n = memstore_totals(b->store).ops[MEMSTORE_READ];
    manifest_unref(m);
    manifests_close(ms);
    return n;
}

static void pages_that_this_machine_has_are_not_read_again(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct shelf *shelf = mem_must(sizeof *shelf);
    struct manifest_block leaves[] = {bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0),
                                      bench_leaf(BENCH_HOUR - 48, bench_id(2), NULL, 0)};
    assert_ok(bench_add(&b, leaves, 2, e));
    assert_int_equal(reads_with(&b, shelf), 3);  // the root and a page for each day
    assert_int_equal(shelf->n, 2);
    assert_int_equal(reads_with(&b, shelf), 1);
    shelf->pages[0].bytes[5] ^= 1;  // damaged: it is read of the store
    assert_int_equal(reads_with(&b, shelf), 2);
    mem_must_free(shelf);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_only_said_not_to_be_there_is_read_or_unavailable),
        cmocka_unit_test(what_is_not_there_is_named),
        cmocka_unit_test(names_of_others_are_ignored),
        cmocka_unit_test(forgeries_are_found_out),
        cmocka_unit_test(versions_share_what_did_not_change),
        cmocka_unit_test(what_is_kept_gives_way_to_what_is_needed),
        cmocka_unit_test(what_is_kept_stays_within_its_budget),
        cmocka_unit_test(what_is_larger_than_the_budget_is_answered_all_the_same),
        cmocka_unit_test(requests_find_room_beside_what_is_kept),
        cmocka_unit_test(what_is_in_use_is_not_given_up),
        cmocka_unit_test(pages_that_this_machine_has_are_not_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
