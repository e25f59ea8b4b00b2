// SPDX-License-Identifier: Apache-2.0
//
// What an S3 store answers, whatever it is, is read within its own size. The first byte chooses the
// kind of answer.
#include "s3/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t check_page(const struct s3_page *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        assert(p->v[i].key.n > 0);
        n += p->v[i].key.n;
    }
    assert(!p->truncated || p->next.n);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct s3_refusal refusal = {0};
    str etag = {0};
    err e = {0};
    if (size == 0) return 0;
    str xml = str_make(data + 1, size - 1);
    arena_init(&a, NULL, 16 << 20);
    switch (data[0] % 6) {
    case 0: {
        struct s3_page page;
        if (s3_read_page(&a, xml, &page, &e)) assert(check_page(&page) <= xml.n);
        break;
    }
    case 1: {
        str id = {0};
        if (s3_read_upload(&a, xml, &id, &e)) assert(id.n > 0 && id.n <= xml.n);
        break;
    }
    case 2: {
        struct s3_pending_list list;
        if (s3_read_pending(&a, xml, &list, &e)) assert(list.n <= xml.n);
        break;
    }
    case 3:
        if (!s3_read_completed(&a, xml, &refusal, &etag, &e)) assert(e.code != ERR_OK);
        break;
    case 4: {
        struct s3_removals removals;
        if (s3_read_deleted(&a, xml, &removals, &e)) assert(removals.n <= xml.n);
        break;
    }
    default:
        s3_read_refusal(&a, xml, &refusal);
        assert(refusal.code.n + refusal.message.n <= xml.n);
        break;
    }
    arena_release(&a);
    return 0;
}
