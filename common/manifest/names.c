// SPDX-License-Identifier: Apache-2.0
#include "manifest/names.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>

#define ULID_CHARS 26

// ---- tenants

static bool is_tenant_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!-_.*'()", c));
}

bool name_tenant_ok(str tenant)
{
    if (tenant.n == 0 || tenant.n > NAME_TENANT_MAX) return false;
    for (size_t i = 0; i < tenant.n; i++)
        if (!is_tenant_byte((unsigned char)tenant.p[i])) return false;
    return !str_is(tenant, ".") && !str_is(tenant, "..");
}

// ---- segments

int segment_name_cmp(const struct segment_name *a, const struct segment_name *b)
{
    if (a->hour != b->hour) return a->hour < b->hour ? -1 : 1;
    int order = memcmp(a->stream.b, b->stream.b, sizeof a->stream.b);
    if (order) return order;
    if (a->cut != b->cut) return a->cut < b->cut ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}

#define LAST_MS ((UINT64_C(1) << 48) - 1)

id128 stream_of_import(const uint8_t hash[STREAM_IMPORT_HASH])
{
    return ulid_make(LAST_MS, hash);
}

bool stream_is_import(id128 stream)
{
    for (size_t i = 0; i < 6; i++)
        if (stream.b[i] != 0xff) return false;
    return true;
}

void segment_name_print(const struct segment_name *n, char text[SEGMENT_TEXT])
{
    char stream[ULID_TEXT];
    ulid_print(n->stream, stream);
    snprintf(text, SEGMENT_TEXT, "%016" PRIx64 ".%s.%016" PRIx64 ".%08" PRIx32, (uint64_t)n->hour,
             stream, n->cut, n->part);
}

bool name_hex(str *rest, size_t digits, uint64_t *v)
{
    assert(digits >= 1 && digits <= 16);
    if (rest->n < digits) return false;
    uint64_t sum = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = rest->p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
        sum = sum << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *v = sum;
    *rest = str_slice(*rest, digits, rest->n);
    return true;
}

bool name_char(str *rest, char c)
{
    if (rest->n == 0 || rest->p[0] != c) return false;
    *rest = str_slice(*rest, 1, rest->n);
    return true;
}

// Only in our own spelling: a ULID can be written in lower case too, which would be the name of
// another object.
bool name_ulid(str *rest, id128 *id)
{
    err ignored = {0};
    char text[ULID_TEXT];
    str head = str_slice(*rest, 0, ULID_CHARS);
    if (!ulid_parse(head, id, &ignored)) return false;
    ulid_print(*id, text);
    if (!str_is(head, text)) return false;
    *rest = str_slice(*rest, ULID_CHARS, rest->n);
    return true;
}

bool segment_name_parse(str text, struct segment_name *n)
{
    uint64_t hour = 0;
    uint64_t part = 0;
    struct segment_name out = {0};
    if (!name_hex(&text, 16, &hour) || hour > INT64_MAX || !name_char(&text, '.')) return false;
    if (!name_ulid(&text, &out.stream) || !name_char(&text, '.')) return false;
    if (!name_hex(&text, 16, &out.cut) || !name_char(&text, '.')) return false;
    if (!name_hex(&text, 8, &part) || text.n) return false;
    out.hour = (int64_t)hour;
    out.part = (uint32_t)part;
    *n = out;
    return true;
}

// ---- whole names

str name_cluster(void)
{
    return S("v1/cluster");
}

str name_tenants(void)
{
    return S("v1/tenants/");
}

str name_tenant(struct arena *a, str tenant)
{
    return arena_printf(a, "v1/tenants/%.*s", STR(tenant));
}

str name_all_closed(void)
{
    return S("v1/closed/");
}

str name_closed(struct arena *a, str tenant)
{
    return arena_printf(a, "v1/closed/%.*s", STR(tenant));
}

static unsigned top_byte(str tenant)
{
    return (unsigned)(hash_str(tenant) >> 56);
}

str name_of_tenant(struct arena *a, str tenant)
{
    return arena_printf(a, "v1/%02x/%.*s/", top_byte(tenant), STR(tenant));
}

str name_live(struct arena *a, str tenant)
{
    return arena_printf(a, "v1/%02x/%.*s/live/", top_byte(tenant), STR(tenant));
}

str name_segments(struct arena *a, str tenant)
{
    return arena_printf(a, "v1/%02x/%.*s/live/a/", top_byte(tenant), STR(tenant));
}

str name_segment(struct arena *a, str tenant, const struct segment_name *n)
{
    char text[SEGMENT_TEXT];
    segment_name_print(n, text);
    return arena_printf(a, "v1/%02x/%.*s/live/a/%s", top_byte(tenant), STR(tenant), text);
}

str name_roots(struct arena *a, str tenant)
{
    return arena_printf(a, "v1/%02x/%.*s/live/m/", top_byte(tenant), STR(tenant));
}

str name_root(struct arena *a, str tenant, uint64_t version)
{
    return arena_printf(a, "v1/%02x/%.*s/live/m/%016" PRIx64, top_byte(tenant), STR(tenant),
                        version);
}

bool name_root_version(str text, uint64_t *version)
{
    uint64_t v = 0;
    // 0 stands for a tenant without a manifest; no root has that number.
    if (!name_hex(&text, 16, &v) || text.n || v == 0) return false;
    *version = v;
    return true;
}

str name_page(struct arena *a, str tenant, id128 id)
{
    char text[ULID_TEXT];
    ulid_print(id, text);
    return arena_printf(a, "v1/%02x/%.*s/page/%s", top_byte(tenant), STR(tenant), text);
}

// ---- streams

str name_streams(void)
{
    return S("v1/streams/");
}

str name_stream(struct arena *a, id128 stream)
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    return arena_printf(a, "v1/streams/%s", text);
}

str name_all_forgotten(void)
{
    return S("v1/forgotten/");
}

str name_all_deleted(void)
{
    return S("v1/deleted/");
}

static str named_below(struct arena *a, str prefix, id128 id)
{
    char text[ULID_TEXT];
    ulid_print(id, text);
    return arena_printf(a, "%.*s%s", STR(prefix), text);
}

str name_forgotten(struct arena *a, id128 stream)
{
    return named_below(a, name_all_forgotten(), stream);
}

str name_deleted(struct arena *a, id128 deletion)
{
    return named_below(a, name_all_deleted(), deletion);
}

// ---- former programs

#define NODE_PLAIN_MAX 200

// Can the node's id be a part of a name as it is? The bytes that a tenant may have are safe there.
static bool is_plain(str node)
{
    for (size_t i = 0; i < node.n; i++)
        if (!is_tenant_byte((unsigned char)node.p[i])) return false;
    return node.n > 0 && node.n <= NODE_PLAIN_MAX && !str_is(node, ".") && !str_is(node, "..");
}

str name_former(struct arena *a, str node)
{
    if (is_plain(node)) return arena_printf(a, "v1/nodes/ingester/%.*s/", STR(node));
    return arena_printf(a, "v1/nodes/ingester/~%016" PRIx64 "/", hash_str(node));
}

// ---- logs

str name_logs(void)
{
    return S("v1/log/");
}

static str folder_of(struct arena *a, const char *kind, id128 stream)
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    return arena_printf(a, "v1/%s/%s/", kind, text);
}

static str object_of(struct arena *a, const char *kind, id128 stream, uint64_t number)
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    return arena_printf(a, "v1/%s/%s/%016" PRIx64, kind, text, number);
}

str name_log(struct arena *a, id128 stream)
{
    return folder_of(a, "log", stream);
}

str name_log_object(struct arena *a, id128 stream, uint64_t number)
{
    return object_of(a, "log", stream, number);
}

str name_all_damaged(void)
{
    return S("v1/damaged/");
}

str name_damaged(struct arena *a, id128 stream)
{
    return folder_of(a, "damaged", stream);
}

str name_damaged_object(struct arena *a, id128 stream, uint64_t number)
{
    return object_of(a, "damaged", stream, number);
}

bool name_log_number(str text, uint64_t *number)
{
    uint64_t v = 0;
    if (!name_hex(&text, 16, &v) || text.n || v == 0) return false;
    *number = v;
    return true;
}

// ---- all of them

bool name_is_beside_tenants(str rest)
{
    static const str folders[] = {S_INIT("tenants/"),   S_INIT("closed/"),  S_INIT("streams/"),
                                  S_INIT("forgotten/"), S_INIT("deleted/"), S_INIT("nodes/"),
                                  S_INIT("log/"),       S_INIT("damaged/"), S_INIT("check/")};
    for (size_t i = 0; i < COUNT(folders); i++)
        if (str_starts(rest, folders[i])) return true;
    return str_is(rest, "cluster");
}
