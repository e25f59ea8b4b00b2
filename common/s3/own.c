// SPDX-License-Identifier: Apache-2.0
//
// own.c - whose answer it is. Proxies, ingresses, load balancers and firewalls lie between a client
// and its service, and answer in its place: 404 with a page while they load their settings, 403,
// 413, 200 with a page that asks for a password. What follows from an answer, so that an object is
// taken for gone or for stored, follows from the service's own only:
//
//     a refusal    has a code of the service, in XML or in a header
//     a success    has what only the service knows: the ETag of the bytes, the XML that was asked
//                  for, the id of the request where the service gives one
//
// Everything else is S3_STRANGE: nothing is known, and it is asked again.
#include "s3/engine.h"

#include <stdio.h>

#define SHOWN     100  // bytes of an answer that an error shows
#define ROOT_SEEN 400  // the root of an XML text begins within so many bytes

static bool is_head(const struct http_call *c)
{
    return str_is(str_of(c->method), "HEAD");
}

// A body that is refused for what it is. The same one is refused the next time, too.
static bool refuses_body(unsigned status)
{
    return status == 413 || status == 415 || status == 422 || status == 451;
}

enum s3_cause s3_cause_of(const struct http_call *c, bool own)
{
    unsigned status = c->status;
    if (status == 412) return S3_TAKEN;  // whose the object is, is looked at next
    if (refuses_body(status)) return S3_TOO_LARGE;
    if (status == 408 || status == 409 || status == 425 || status == 429) return S3_BUSY;
    if (status >= 500 && status != 501 && status != 505) return S3_BUSY;
    if (own) return S3_REFUSED;
    return is_head(c) ? S3_UNSAID : S3_STRANGE;
}

bool s3_is_whole_xml(str body, const char *root)
{
    char open[80];
    char close[80];
    str text = str_trim(body);
    snprintf(open, sizeof open, "<%s", root);
    snprintf(close, sizeof close, "</%s>", root);
    return str_contains(str_slice(text, 0, ROOT_SEEN), str_of(open)) &&
           (str_ends(text, str_of(close)) || str_ends(text, S("/>")));
}

// ---- ETags

str s3_etag_of(const struct s3_op *o)
{
    return http_headers_get(&o->call.answer_headers, "etag");
}

// The text between the quotes; empty: there are none.
static str unquoted(str etag)
{
    bool quoted = etag.n > 2 && etag.p[0] == '"' && etag.p[etag.n - 1] == '"';
    return quoted ? str_slice(etag, 1, etag.n - 1) : (str){0};
}

bool s3_is_etag(str etag)
{
    return unquoted(etag).n > 0;
}

bool s3_is_etag_of(str etag, str bytes)
{
    char hex[S3_MD5_TEXT];
    str text = unquoted(etag);
    return text.n == sizeof hex && s3_md5_hex(bytes, hex) &&
           str_eq(text, str_make(hex, sizeof hex));
}

bool s3_is_etag_of_parts(str etag, size_t parts)
{
    uint64_t n = 0;
    str text = str_trim(etag);
    if (unquoted(text).n) text = unquoted(text);
    size_t dash = str_rfind(text, '-');
    return dash > 0 && dash < text.n && str_u64(str_slice(text, dash + 1, text.n), &n) &&
           n == parts;
}

// ---- in words

str s3_shown(struct arena *a, str body)
{
    str text = str_trim(str_slice(body, 0, SHOWN));
    char *to = arena_new(a, text.n + 1);
    if (!to) return (str){0};
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        to[i] = c < ' ' || c > '~' ? ' ' : (char)c;
    }
    to[text.n] = '\0';
    return str_make(to, text.n);
}
