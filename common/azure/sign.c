// SPDX-License-Identifier: Apache-2.0
//
// The text to sign is made of lines:
//
//     1. the method
//     2. eleven headers in a given order, empty where a request has none
//     3. all x-ms- headers in order of their names, as "name:value"
//     4. "/account" and the path; then, in order of their names, the pairs of the query, decoded,
//     as
//        "name:value"
#include "azure/sign.h"

#include "codec/base64.h"
#include "codec/url.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define PAIRS_MAX 32

struct pair {
    str name;
    str value;
};

static int by_name(const void *a, const void *b)
{
    return str_cmp(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

static void put_pairs(struct buf *b, struct pair *v, size_t n, const char *before,
                      const char *behind)
{
    qsort(v, n, sizeof *v, by_name);
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%s%.*s:%.*s%s", before, STR(v[i].name), STR(v[i].value), behind);
}

static void put_service_headers(struct buf *b, const struct http_headers *h)
{
    struct pair v[PAIRS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (!str_starts(h->v[i].name, S("x-ms-"))) continue;
        assert(n < PAIRS_MAX);
        v[n++] = (struct pair){h->v[i].name, h->v[i].value};
    }
    put_pairs(b, v, n, "", "\n");
}

static void put_resource(struct buf *b, struct arena *a, const struct azure_signing *s)
{
    struct pair v[PAIRS_MAX];
    size_t n = 0;
    buf_printf(b, "/%.*s%.*s", STR(s->account), STR(s->path));
    for (str rest = s->query; rest.n;) {
        str value = {0};
        str name = str_split(str_split(rest, '&', &rest), '=', &value);
        assert(n < PAIRS_MAX);
        v[n++] = (struct pair){name, url_decode(a, value, false)};
    }
    put_pairs(b, v, n, "\n", "");
}

void azure_text_to_sign(struct buf *b, struct arena *a, const struct azure_signing *s,
                        const struct http_headers *h)
{
    static const char *const named[] = {
        "content-encoding",
        "content-language",
        NULL,
        "content-md5",
        "content-type",
        "date",
        "if-modified-since",
        "if-match",
        "if-none-match",
        "if-unmodified-since",
        "range",
    };
    buf_printf(b, "%s\n", s->method);
    for (size_t i = 0; i < COUNT(named); i++) {
        if (named[i])
            buf_str(b, http_headers_get(h, named[i]));
        else if (s->body_n)
            buf_printf(b, "%zu", s->body_n);  // the length; of nothing it is empty
        buf_byte(b, '\n');
    }
    put_service_headers(b, h);
    put_resource(b, a, s);
}

void azure_sign(const struct azure_signing *s, struct http_headers *h, struct arena *a)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    struct buf text;
    struct buf signature;
    buf_init(&text, NULL, 32 << 10);
    buf_init(&signature, NULL, 256);
    azure_text_to_sign(&text, a, s, h);
    str signed_text = buf_view(&text);
    bool ok = !text.failed && HMAC(EVP_sha256(), s->key.p, (int)s->key.n,
                                   (const unsigned char *)signed_text.p, signed_text.n, digest, &n);
    if (ok) base64_put(&signature, str_make(digest, n), true);
    if (!ok || signature.failed) a->exhausted = true;
    http_headers_add(h, a, S("authorization"),
                     arena_printf(a, "SharedKey %.*s:%.*s", STR(s->account),
                                  STR(buf_view(&signature))));
    buf_release(&signature);
    buf_release(&text);
}
