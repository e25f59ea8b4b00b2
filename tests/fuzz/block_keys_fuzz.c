// SPDX-License-Identifier: Apache-2.0
//
// Labels of keys with their columns, behind two bytes that say how many keys there are. Properties:
// what parses encodes, and that parses to the same labels and encodes to the same bytes; what
// matchers select is what they mean for each key.
#include "block/keys.h"
#include "lib/selector.h"

#include <stdlib.h>

#define LABELS_TRIED 24

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

static void check_select(struct arena *a, const struct block_postings *p, const labels *keys,
                         uint32_t n, const struct selector *sel)
{
    struct block_set set = {0};
    err e = {0};
    must(block_select(p, a, sel, &set, &e));
    for (uint32_t k = 0; k < n; k++)
        must(block_set_has(&set, k) == selector_matches(sel, keys[k]));
}

// Labels of the first keys under each operator, and two matchers at once.
static void check_labels(struct arena *a, const struct block_postings *p, const labels *keys,
                         uint32_t n)
{
    err e = {0};
    struct selector both = {0};
    unsigned tried = 0;
    for (uint32_t k = 0; k < n && tried < LABELS_TRIED; k++) {
        for (size_t i = 0; i < keys[k].n && tried < LABELS_TRIED; i++, tried++) {
            const label *l = &keys[k].v[i];
            for (int op = MATCH_EQ; op <= MATCH_NEQ; op++) {
                struct selector sel = {0};
                must(selector_add(a, &sel, (enum matcher_op)op, l->name, l->value, &e));
                check_select(a, p, keys, n, &sel);
            }
            struct selector set = {0};
            must(selector_add(a, &set, tried % 2 ? MATCH_RE : MATCH_NRE, l->name, S(".+"), &e));
            check_select(a, p, keys, n, &set);
            must(selector_add(a, &both, tried % 2 ? MATCH_NEQ : MATCH_EQ, l->name, l->value, &e));
        }
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
        check_labels(&a, p, keys, n);
    } else {
        must(e.code == ERR_DATA_LOSS);
    }
    arena_release(&a);
    return 0;
}
