// SPDX-License-Identifier: Apache-2.0
//
// A question that a querier takes from another one, written and read again, is the same.
#include "querier/peer/question.h"

#include <stdlib.h>

static bool alive(const void *arg, err *e)
{
    (void)arg;
    (void)e;
    return true;
}

// Reads and writes again, into `out`. False: refused.
static bool pass(struct arena *a, str message, struct buf *out)
{
    struct question *x = NULL;
    err e = {0};
    if (!question_read(a, message, alive, NULL, &x, &e)) {
        if (e.code != ERR_INVALID_ARGUMENT && e.code != ERR_RESOURCE_EXHAUSTED) abort();
        return false;
    }
    question_put(&x->q, x->excluded, x->plan.pieces, x->plan.n, out);
    return !out->failed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct buf one;
    struct buf two;
    arena_init(&a, NULL, 64 << 20);
    buf_init(&one, NULL, 16 << 20);
    buf_init(&two, NULL, 16 << 20);
    if (pass(&a, str_make(data, size), &one)) {
        if (!pass(&a, buf_view(&one), &two) || !str_eq(buf_view(&one), buf_view(&two))) abort();
    }
    buf_release(&two);
    buf_release(&one);
    arena_release(&a);
    return 0;
}
