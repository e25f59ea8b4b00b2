// SPDX-License-Identifier: Apache-2.0
//
// What Azure answers, and what people give as a key, whatever it is, is read within its own size.
// The first byte chooses what it is.
#include "azure/answer.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_page(const struct s3_page *p, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        assert(p->v[i].key.n > 0);
        n += p->v[i].key.n;
    }
    assert(n + p->next.n <= size);
    assert(p->truncated == (p->next.n > 0));
}

static void check_secret(const struct azure_connection *c, size_t size)
{
    assert(c->account.n <= size && c->key.n <= size && c->sas.n <= size);
    assert(c->endpoint.n + c->suffix.n <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct s3_page page;
    struct s3_refusal refusal;
    struct azure_token token;
    struct azure_connection connection;
    err e = {0};
    bool ok = true;
    if (size == 0) return 0;
    str text = str_make(data + 1, size - 1);
    arena_init(&a, NULL, 16 << 20);
    switch (data[0] % 4) {
    case 0:
        ok = azure_read_page(&a, text, &page, &e);
        if (ok) check_page(&page, text.n);
        break;
    case 1:
        azure_read_refusal(&a, text, &refusal);
        assert(refusal.code.n + refusal.message.n <= text.n);
        assert(str_find(refusal.message, '\n') == refusal.message.n);
        break;
    case 2:
        ok = azure_read_token(&a, text, &token, &e);
        if (ok) assert(token.token.n > 0 && token.token.n <= text.n && token.seconds >= 0);
        break;
    default:
        azure_read_secret(text, &connection);
        check_secret(&connection, text.n);
        break;
    }
    if (!ok) assert(e.code != ERR_OK);
    arena_release(&a);
    return 0;
}
