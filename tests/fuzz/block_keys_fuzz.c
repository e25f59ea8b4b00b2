// SPDX-License-Identifier: Apache-2.0
//
// Labels of keys with their columns, behind two bytes that say how many keys there are. Properties:
// what parses encodes, and that parses to the same labels and encodes to the same bytes; lists of
// names and values are those of the keys; what matchers select is what they mean for each key.
#include "block/keys.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

static void check_round_trip(struct arena *a, const labels *keys, uint32_t n)
{
    struct buf one;
    struct buf two;
    const struct block_postings *p = NULL;
    labels *back = NULL;
    err e = {0};
    buf_init(&one, NULL, SIZE_MAX);
    buf_init(&two, NULL, SIZE_MAX);
    must(block_postings_encode(a, keys, n, &one, &e));
    must(block_postings_parse(a, buf_view(&one), n, &p, &back, &e));
    for (uint32_t k = 0; k < n; k++)
        must(labels_eq(keys[k], back[k]));
    must(block_postings_encode(a, back, n, &two, &e));
    must(str_eq(buf_view(&one), buf_view(&two)));
    buf_release(&one);
    buf_release(&two);
}

static bool some_key_has(const labels *keys, uint32_t n, str name, str value)
{
    for (uint32_t k = 0; k < n; k++) {
        if (labels_has(keys[k], name) && str_eq(labels_get(keys[k], name), value)) return true;
    }
    return false;
}

static void check_select(struct arena *a, const struct block_postings *p, const labels *keys,
                         uint32_t n, const struct selector *sel)
{
    struct block_set set = {0};
    err e = {0};
    must(block_select(p, a, sel, &set, &e));
    for (uint32_t k = 0; k < n; k++)
        must(block_set_has(&set, k) == selector_matches(sel, keys[k]));
}

// Each of the first names and values under each operator, and two matchers at once.
static void check_names(struct arena *a, const struct block_postings *p, const labels *keys,
                        uint32_t n)
{
    const str *names = NULL;
    const str *values = NULL;
    uint32_t name_count = 0;
    uint32_t value_count = 0;
    err e = {0};
    struct selector both = {0};
    block_names(p, &names, &name_count);
    for (uint32_t i = 0; i < MIN(name_count, 8); i++) {
        block_values(p, names[i], &values, &value_count);
        must(value_count > 0);
        for (uint32_t v = 0; v < MIN(value_count, 4); v++) {
            must(some_key_has(keys, n, names[i], values[v]));
            for (int op = MATCH_EQ; op <= MATCH_NEQ; op++) {
                struct selector sel = {0};
                must(selector_add(a, &sel, (enum matcher_op)op, names[i], values[v], &e));
                check_select(a, p, keys, n, &sel);
            }
        }
        struct selector set = {0};
        must(selector_add(a, &set, i % 2 ? MATCH_RE : MATCH_NRE, names[i], S(".+"), &e));
        check_select(a, p, keys, n, &set);
        must(selector_add(a, &both, i % 2 ? MATCH_NEQ : MATCH_EQ, names[i], values[0], &e));
    }
    must(selector_add(a, &both, MATCH_EQ, S("no such name"), S(""), &e));
    check_select(a, p, keys, n, &both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    uint32_t n = data[0] | (uint32_t)(data[1] & 7) << 8;
    struct arena a;
    const struct block_postings *p = NULL;
    labels *keys = NULL;
    err e = {0};
    arena_init(&a, NULL, 256 << 20);
    if (block_postings_parse(&a, str_make(data + 2, size - 2), n, &p, &keys, &e)) {
        check_round_trip(&a, keys, n);
        check_names(&a, p, keys, n);
    } else {
        must(e.code == ERR_DATA_LOSS);
    }
    arena_release(&a);
    return 0;
}
