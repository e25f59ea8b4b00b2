// SPDX-License-Identifier: Apache-2.0
//
// Pyroscope's binary trie and tree: stacks, faults, and input that was made to take much memory.
#include "base/buf.h"
#include "codec/varint.h"
#include "decode/decode.h"
#include "lib/test.h"

typedef bool decoder(struct arena *a, str bytes, const struct decode_options *o,
                     struct decoded *out, err *e);

static void put_number(struct buf *b, uint64_t v)
{
    uint8_t bytes[VARINT_MAX];
    buf_put(b, bytes, varint_put(bytes, v));
}

static void put_node(struct buf *b, const char *name, uint64_t value, uint64_t children)
{
    put_number(b, strlen(name));
    buf_z(b, name);
    put_number(b, value);
    put_number(b, children);
}

// "a;b=5 " for each sample, root first.
static void put_stacks(struct buf *b, const struct profile *p)
{
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        for (uint32_t k = s->location_count; k-- > 0;) {
            const struct profile_location *l =
                &p->locations[p->stack_locations[s->first_location + k]];
            buf_str(b, p->functions[p->lines[l->first_line].function].name);
            if (k) buf_byte(b, ';');
        }
        buf_printf(b, "=%lld ", (long long)p->values[i]);
    }
}

static void expect(decoder *decode, str bytes, const struct decode_options *o, const char *stacks,
                   const char *fault)
{
    struct arena a;
    struct buf got;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&got, NULL, 1 << 16);
    struct decoded d = {0};
    err e = {0};
    bool ok = decode(&a, str_make(tail_guard(bytes.p, bytes.n), bytes.n), o, &d, &e);
    if (ok != (stacks != NULL)) fail_msg("%s", e.msg);
    if (ok) put_stacks(&got, d.profiles);
    if (ok && !str_is(buf_view(&got), stacks)) fail_msg("got %.*s", STR(buf_view(&got)));
    if (!ok && !strstr(e.msg, fault)) fail_msg("expected \"%s\", got \"%s\"", fault, e.msg);
    buf_release(&got);
    arena_release(&a);
}

static const struct decode_options any;

// "", with the children "a" = 5 (with the child `second` = 1) and "c;d" = 2
static str sample(struct buf *b, const char *second)
{
    buf_init(b, NULL, 1 << 16);
    put_node(b, "", 0, 2);
    put_node(b, "a", 5, 1);
    put_node(b, second, 1, 0);
    put_node(b, "c;d", 2, 0);
    return buf_view(b);
}

static void names_of_a_trie_are_parts_of_keys(void **state)
{
    (void)state;
    struct buf b;
    expect(decode_trie, sample(&b, ";b"), &any, "a=5 a;b=1 c;d=2 ", NULL);
    buf_clear(&b);
    put_node(&b, "x", 1, 0);  // several roots
    put_node(&b, "y;z", 2, 0);
    expect(decode_trie, buf_view(&b), &any, "x=1 y;z=2 ", NULL);
    buf_release(&b);
    expect(decode_trie, (str){0}, &any, "", NULL);
}

static void names_of_a_tree_are_frames(void **state)
{
    (void)state;
    struct buf b;
    expect(decode_tree, sample(&b, "b"), &any, "a=5 a;b=1 c;d=2 ", NULL);
    put_node(&b, "more", 1, 0);
    expect(decode_tree, buf_view(&b), &any, NULL, "7 bytes follow the tree");
    buf_release(&b);
    expect(decode_tree, (str){0}, &any, "", NULL);
    buf_init(&b, NULL, 1 << 10);
    put_node(&b, "name of the root", 3, 0);
    expect(decode_tree, buf_view(&b), &any, "=3 ", NULL);
    buf_release(&b);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    struct buf b;
    str whole = sample(&b, "b");
    for (size_t n = 1; n < whole.n; n++) {
        expect(decode_tree, str_slice(whole, 0, n), &any, NULL, "byte ");
        expect(decode_trie, str_slice(whole, 0, n), &any, NULL, "byte ");
    }
    buf_release(&b);
}

// Each number of a node set to what does not fit; the fault names the number.
static void numbers_that_are_too_large_are_refused(void **state)
{
    (void)state;
    static const char *const faults[] = {"name length", "value", "children"};
    static const uint64_t large[] = {UINT64_C(1) << 31, UINT64_C(1) << 40, UINT64_MAX};
    for (size_t i = 0; i < COUNT(faults) * COUNT(large); i++) {
        if (i / COUNT(large) == 1 && i % COUNT(large) < 2) continue;  // values may be that large
        struct buf b;
        buf_init(&b, NULL, 1 << 10);
        for (size_t k = 0; k < COUNT(faults); k++)
            put_number(&b, k == i / COUNT(large) ? large[i % COUNT(large)] : 0);
        expect(decode_tree, buf_view(&b), &any, NULL, faults[i / COUNT(large)]);
        expect(decode_trie, buf_view(&b), &any, NULL, faults[i / COUNT(large)]);
        buf_release(&b);
    }
}

static void limits_of_a_tree_are_named(void **state)
{
    (void)state;
    struct buf b;
    struct decode_options o = {.node_children_max = 1};
    sample(&b, "b");
    expect(decode_tree, buf_view(&b), &o, NULL, "tree node children count 2 exceeds maximum 1");
    o = (struct decode_options){.node_name_max = 2};
    expect(decode_tree, buf_view(&b), &o, NULL, "tree node name length 3 exceeds maximum 2");
    expect(decode_trie, buf_view(&b), &o, "a=5 ab=1 c;d=2 ", NULL);
    buf_release(&b);
}

// A chain whose every node has a value is small and has stacks of n * n / 2 frames.
static void a_deep_chain_ends_at_the_cap(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    for (int i = 0; i < 20000; i++)
        put_node(&b, i ? ";" : "", 1, i < 19999);
    decoder *const both[] = {decode_trie, decode_tree};
    for (size_t i = 0; i < COUNT(both); i++) {
        struct arena a;
        struct decoded d = {0};
        err e = {0};
        arena_init(&a, NULL, 4 << 20);
        assert_false(both[i](&a, buf_view(&b), &any, &d, &e));
        assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
        arena_release(&a);
    }
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_a_trie_are_parts_of_keys),
        cmocka_unit_test(names_of_a_tree_are_frames),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(numbers_that_are_too_large_are_refused),
        cmocka_unit_test(limits_of_a_tree_are_named),
        cmocka_unit_test(a_deep_chain_ends_at_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
