// SPDX-License-Identifier: Apache-2.0
//
// Codecs while their allocations fail one by one.
#include "codec/base64.h"
#include "codec/compress.h"
#include "codec/json.h"
#include "codec/media.h"
#include "codec/multipart.h"
#include "codec/pb.h"
#include "codec/pbjson.h"
#include "codec/url.h"
#include "lib/sample.h"
#include "lib/torture.h"

// 200 KB that pack well, but not into nothing.
static str much(void)
{
    static char text[200000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i / 97 % 23);
    return str_make(text, sizeof text);
}

static bool to_gzip_and_back(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct buf packed;
    buf_init(&packed, &b->budget, 1 << 20);
    bool ok = compress_gzip(much(), 6, &packed, e) && compress_gzip(S("more"), 1, &packed, e) &&
              compress_gunzip(buf_view(&packed), &b->out, e);
    buf_release(&packed);
    return ok;
}

static bool to_zstd_and_back(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct buf packed;
    buf_init(&packed, &b->budget, 1 << 20);
    bool ok =
        compress_zstd(much(), 3, &packed, e) && compress_unzstd(buf_view(&packed), &b->out, e);
    buf_release(&packed);
    return ok;
}

// A message with every kind of field, as JSON and as wire bytes.
static const str message = S_INIT(
    "{\"i32\":-5,\"u64\":\"18446744073709551615\",\"wide\":1.5,\"yes\":true,"
    "\"color\":\"COLOR_RED\",\"textPart\":\"a\\n\\u00e9\",\"blob\":\"AAECAw==\","
    "\"child\":{\"child\":{\"child\":{\"numbers\":[1,2,3]}}},"
    "\"numbers\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"],"
    "\"texts\":[\"x\\ty\",\"\",\"z\"],\"children\":[{\"texts\":[\"deep\"]},{},{\"u64\":\"7\"}],"
    "\"stamps\":[\"1\",\"2\"],\"blobs\":[\"AA==\",\"\"],\"pickText\":\"picked\","
    "\"sample_typeID\":\"id\",\"doubles\":[0.25,\"NaN\"]}");

static bool message_by_json_and_wire(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct buf wire;
    buf_init(&wire, &b->budget, 1 << 20);
    ProtobufCMessage *m = pbjson_parse(&b->arena, &sample_descriptor, message, e);
    bool ok = m != NULL;
    if (ok) {
        pb_pack(m, &wire);
        ok = buf_ok(&wire, e);
    }
    m = ok ? pb_unpack(&b->arena, &sample_descriptor, buf_view(&wire), e) : NULL;
    if (m) pbjson_print(m, &b->out);
    buf_release(&wire);
    return m != NULL;
}

static bool json_tokens(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct json_reader r;
    json_reader_init(&r, &b->arena,
                     S("{\"a\\n\":[1,\"\\u0041\\\"\",{\"b\":null}],\"c\\\\\":\"\\t\"}"));
    for (;;) {
        enum json_token t = json_next(&r);
        if (t == JSON_FAULT) {
            *e = r.fault;
            return false;
        }
        if (t == JSON_END) return true;
        if (t == JSON_KEY || t == JSON_STRING) json_put_string(&b->out, r.text);
    }
}

static bool form_parts(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct multipart_part *parts = NULL;
    size_t n = 0;
    if (!multipart_parse(
            &b->arena, S("multipart/form-data; boundary=\"x\\-y\""),
            S("--x-y\r\nContent-Disposition: form-data; name=\"pro\\\"file\"; "
              "filename=\"p\\\"\"\r\nContent-Type: text/plain\r\n\r\nbytes\r\n"
              "--x-y\r\nContent-Disposition: form-data; name=other\r\n\r\n\r\n--x-y--"),
            &parts, &n, e))
        return false;
    for (size_t i = 0; i < n; i++)
        buf_printf(&b->out, "%.*s|%.*s|%.*s|%.*s\n", STR(parts[i].name), STR(parts[i].filename),
                   STR(parts[i].content_type), STR(parts[i].bytes));
    return true;
}

static bool query_pairs(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    str rest = S("q=%7Ba%3D%22b%22%7D&from=now-1h&k%2Fey=a+b&q=two");
    str key;
    str value;
    if (!url_query(&b->arena, rest, "k/ey", &value)) return arena_ok(&b->arena, e);
    url_encode(&b->out, value);
    while (url_query_next(&b->arena, &rest, &key, &value))
        buf_printf(&b->out, "%.*s=%.*s\n", STR(key), STR(value));
    return true;
}

static bool to_base64(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    base64_put(&b->out, str_slice(much(), 0, 5000), true);
    return buf_ok(&b->out, e);
}

static void codecs_survive(void **state)
{
    (void)state;
    static const struct torture_maker makers[] = {
        {.name = "codec.gzip", .make = to_gzip_and_back},
        {.name = "codec.zstd", .make = to_zstd_and_back},
        {.name = "codec.message", .make = message_by_json_and_wire},
        {.name = "codec.json", .make = json_tokens},
        {.name = "codec.multipart", .make = form_parts},
        {.name = "codec.url", .make = query_pairs},
        {.name = "codec.base64", .make = to_base64},
    };
    torture_make_all(makers, COUNT(makers));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codecs_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
