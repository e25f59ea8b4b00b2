// SPDX-License-Identifier: Apache-2.0
//
// The example of docs/formats/manifest.md.
#include "base/hash.h"
#include "manifest/manifest_int.h"
#include "unit/manifest/bench.h"

static const char page_hex[] = "0802"
                               "1002"
                               "18eda101"
                               "224b"
                               "0a10019b1d2e3f40000102030405060708ff"
                               "1002"
                               "18c6ac1e"
                               "2001"
                               "30ffffffff0f"
                               "3807"
                               "408020"
                               "480a"
                               "5101c03be0c95ad718"
                               "5900e8696c9b5bd718"
                               "61007076f4e161d718"
                               "7801"
                               "920104"
                               "00000300"
                               "3210019b1d0000000a0b0c0d0e0f10111213";

// Format 1, which is read for ever.
static const char old_page_hex[] = "0801"
                                   "1002"
                                   "18eda101"
                                   "225e"
                                   "0a10019b1d2e3f40000102030405060708ff"
                                   "1002"
                                   "18c6ac1e"
                                   "2001"
                                   "30ffffffff0f"
                                   "3807"
                                   "408020"
                                   "480a"
                                   "5101c03be0c95ad718"
                                   "5900e8696c9b5bd718"
                                   "61007076f4e161d718"
                                   "7218"
                                   "08c6ac1e"
                                   "1210019b1d0000000a0b0c0d0e0f10111213"
                                   "1803"
                                   "7801";

static const char root_hex[] = "0801"
                               "120461636d65"
                               "1801"
                               "2a1000112233445566778899aabbccddeeff"
                               "31007076f4e161d718"
                               "3a23"
                               "0a10019b1d2e40000908070605040302010f"
                               "1002"
                               "18eda101"
                               "2067"
                               "2999bf503ffa5ac126"
                               "512e4ec316144057b2";

static id128 id_of(const char *hex)
{
    id128 id = {0};
    assert_true(hex_parse(str_of(hex), id.b, sizeof id.b));
    return id;
}

static void expect(const struct buf *b, const char *hex, size_t bytes)
{
    char text[512];
    assert_int_equal(b->n, bytes);
    hex_print((const uint8_t *)b->p, b->n, text);
    assert_string_equal(text, hex);
}

static void the_bytes_are_those_of_the_format(void **state)
{
    struct bench b;
    struct buf page;
    struct buf root;
    (void)state;
    bench_begin(&b);
    buf_init(&page, NULL, 1000);
    buf_init(&root, NULL, 1000);
    struct segment_name source = {.hour = 497222,
                                  .stream = id_of("019b1d0000000a0b0c0d0e0f10111213"),
                                  .cut = 3};
    const struct segment_run run = segment_run_of(&source);
    struct manifest_block leaf = {
        .id = id_of("019b1d2e3f40000102030405060708ff"),
        .kind = BLOCK_RAW,
        .from_hour = 497222,
        .hours = 1,
        .pack_hi = UINT32_MAX,
        .classes = 7,
        .bytes = 4096,
        .rows = 10,
        .first_ns = 1789999200000000001,
        .last_ns = 1790000100000000000,
        .made_ns = 1790007000000000000,
        .sources = &run,
        .source_count = 1,
        .format = 1,
    };
    const struct manifest_block *blocks = &leaf;
    struct page_draft d = {.kind = BLOCK_RAW, .window = 20717, .blocks = &blocks, .block_count = 1};
    page_print(&d, &page);
    expect(&page, page_hex, 103);
    struct page_ref ref = {.id = id_of("019b1d2e40000908070605040302010f"),
                           .kind = BLOCK_RAW,
                           .window = 20717,
                           .bytes = page.n,
                           .hash = hash_str(buf_view(&page)),
                           .object_bytes = page.n};
    struct manifest m = {
        .tenant = TENANT,
        .version = 1,
        .nonce = id_of("00112233445566778899aabbccddeeff"),
        .made_ns = 1790007000000000000,
        .refs_of = &ref,
        .page_count = 1,
    };
    root_print(&m, &root);
    expect(&root, root_hex, 83);
    assert_true(hash_str(buf_view(&root)) == 0xdaf404fbd8c5c66a);

    memstore_set(b.store, "v1/bb/acme/page/01KCEJWG001440E1G50G1G408F", buf_view(&page));
    memstore_set(b.store, "v1/bb/acme/live/m/0000000000000001", buf_view(&root));
    struct manifest *read = bench_newest(&b);
    const struct manifest_block *found = manifest_find(read, leaf.id);
    assert_non_null(found);
    assert_int_equal(found->last_ns, leaf.last_ns);
    assert_true(manifest_absorbed(read, &source));
    manifest_unref(read);
    atomic_store(&bench_now, 1790007000000000000);
    struct manifest_block second = bench_leaf(497222, bench_id(2), NULL, 0);
    assert_ok(bench_add(&b, &second, 1, e));
    str next = memstore_bytes(b.store, "v1/bb/acme/live/m/0000000000000002");
    assert_memory_equal(next.p + 10, "\x21\x6a\xc6\xc5\xd8\xfb\x04\xf4\xda", 9);
    buf_release(&page);
    buf_release(&root);
    bench_end(&b);
}

// What an earlier program wrote is read, and written in the new form when it changes.
static void pages_of_format_1_are_read(void **state)
{
    struct bench b;
    struct buf out;
    err e = {0};
    uint8_t bytes[sizeof old_page_hex / 2];
    (void)state;
    bench_begin(&b);
    buf_init(&out, NULL, 1000);
    assert_true(hex_parse(str_of(old_page_hex), bytes, sizeof bytes));
    struct page_ref ref = {.kind = BLOCK_RAW, .window = 20717};
    struct page *p = page_parse(NULL, TENANT, &ref, str_make(bytes, sizeof bytes), &e);
    assert_non_null(p);
    assert_int_equal(p->block_count, 1);
    assert_int_equal(p->blocks[0].source_count, 1);
    assert_int_equal(p->blocks[0].sources[0].cut, 3);
    assert_int_equal(p->absorbed_count, 1);
    const struct manifest_block *blocks = &p->blocks[0];
    struct page_draft d = {.kind = BLOCK_RAW, .window = 20717, .blocks = &blocks, .block_count = 1};
    page_print(&d, &out);
    expect(&out, page_hex, (sizeof page_hex - 1) / 2);
    page_unref(p);
    buf_release(&out);
    bench_end(&b);
}

// Nobody names the newest root with its hash, so it has one of its own.
static void a_root_with_a_bit_changed_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[128];
    const size_t n = (sizeof root_hex - 1) / 2;
    assert_true(hex_parse(str_of(root_hex), bytes, n));
    for (size_t bit = 0; bit < (n - 9) * 8; bit++) {
        err e = {0};
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_null(root_parse(NULL, TENANT, 1, str_make(bytes, n), &e));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    // Those of earlier versions have none.
    const size_t lengths[] = {n, n - 9};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        err e = {0};
        struct manifest *m = root_parse(NULL, TENANT, 1, str_make(bytes, lengths[i]), &e);
        assert_non_null(m);
        manifest_unref(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(pages_of_format_1_are_read),
        cmocka_unit_test(a_root_with_a_bit_changed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
