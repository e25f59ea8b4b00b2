// SPDX-License-Identifier: Apache-2.0
#include "s3/answer.h"

#include "s3/xml.h"

#include <string.h>
#include <time.h>

int64_t s3_time(str text)
{
    char z[64];
    struct tm tm = {0};
    if (text.n == 0 || text.n >= sizeof z) return 0;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    if (!strptime(z, "%Y-%m-%dT%H:%M:%S", &tm)) return 0;
    int64_t seconds = (int64_t)timegm(&tm);
    return seconds > 0 && seconds < INT64_MAX / 1000000000 ? seconds * 1000000000 : 0;
}

// Takes a copy of the text if the path is that one.
static bool take(struct arena *a, str path, const char *wanted, str text, str *to)
{
    if (!str_is(path, wanted)) return false;
    *to = arena_str(a, text);
    return true;
}

// Text for which there was no memory is missing, too.
static bool unexpected(const struct arena *a, const char *what, err *e)
{
    if (!arena_ok(a, e)) return false;
    return err_set(e, ERR_DATA_LOSS, "answer of the store: it is no %s", what);
}

// ---- refusals

struct refusal_reading {
    struct arena *a;
    struct s3_refusal *out;
    bool is_refusal;
};

static bool on_refusal(void *arg, str path, str text, err *e)
{
    struct refusal_reading *r = arg;
    (void)e;
    r->is_refusal = r->is_refusal || str_starts(path, S("Error"));
    if (!take(r->a, path, "Error/Code", text, &r->out->code) &&
        !take(r->a, path, "Error/Message", text, &r->out->message)) {
        (void)take(r->a, path, "Error/Region", text, &r->out->region);
    }
    return true;
}

void s3_read_refusal(struct arena *a, str xml, struct s3_refusal *out)
{
    struct refusal_reading r = {.a = a, .out = out};
    err no_xml = {0};
    *out = (struct s3_refusal){0};
    if (!xml_read(xml, on_refusal, &r, &no_xml)) *out = (struct s3_refusal){0};
}

// ---- lists

struct page_reading {
    struct arena *a;
    struct s3_page *out;
    size_t cap;
    struct s3_entry entry;
    bool has_size;
    bool is_list;
    bool tells_end;  // it says whether it goes on
};

static bool end_entry(struct page_reading *r, err *e)
{
    if (!r->entry.key.n || !r->has_size)
        return unexpected(r->a, "list: an object has no key or size", e);
    if (!arena_grow(r->a, &r->out->v, &r->cap, r->out->n + 1, sizeof r->entry))
        return arena_fail(r->a, e);
    r->out->v[r->out->n++] = r->entry;
    r->entry = (struct s3_entry){0};
    r->has_size = false;
    return true;
}

static bool on_page(void *arg, str path, str text, err *e)
{
    struct page_reading *r = arg;
    if (take(r->a, path, "ListBucketResult/Contents/Key", text, &r->entry.key) ||
        take(r->a, path, "ListBucketResult/Prefix", text, &r->out->prefix) ||
        take(r->a, path, "ListBucketResult/NextContinuationToken", text, &r->out->next))
        return true;
    if (str_is(path, "ListBucketResult/Contents/Size")) {
        r->has_size = str_u64(text, &r->entry.size);
        return r->has_size || unexpected(r->a, "list: a size is no number", e);
    }
    if (str_is(path, "ListBucketResult/IsTruncated")) {
        r->out->truncated = str_is(text, "true");
        r->tells_end = r->out->truncated || str_is(text, "false");
    }
    if (str_is(path, "ListBucketResult/Contents")) return end_entry(r, e);
    r->is_list = r->is_list || str_is(path, "ListBucketResult");
    return true;
}

bool s3_read_page(struct arena *a, str xml, struct s3_page *out, err *e)
{
    struct page_reading r = {.a = a, .out = out};
    *out = (struct s3_page){0};
    if (!xml_read(xml, on_page, &r, e)) return false;
    if (!r.is_list) return unexpected(r.a, "list", e);
    if (!r.tells_end) return unexpected(r.a, "list: it does not say whether it goes on", e);
    if (out->truncated && !out->next.n)
        return unexpected(r.a, "list: it goes on, but does not say where", e);
    return arena_ok(a, e);
}

struct pending_reading {
    struct arena *a;
    struct s3_pending_list *out;
    size_t cap;
    struct s3_pending one;
    bool is_list;
};

static bool on_pending(void *arg, str path, str text, err *e)
{
    struct pending_reading *r = arg;
    if (take(r->a, path, "ListMultipartUploadsResult/Upload/Key", text, &r->one.key) ||
        take(r->a, path, "ListMultipartUploadsResult/Upload/UploadId", text, &r->one.id) ||
        take(r->a, path, "ListMultipartUploadsResult/Upload/Initiated", text, &r->one.initiated) ||
        take(r->a, path, "ListMultipartUploadsResult/NextKeyMarker", text, &r->out->next_key) ||
        take(r->a, path, "ListMultipartUploadsResult/NextUploadIdMarker", text, &r->out->next_id))
        return true;
    if (str_is(path, "ListMultipartUploadsResult/IsTruncated"))
        r->out->truncated = str_is(text, "true");
    r->is_list = r->is_list || str_is(path, "ListMultipartUploadsResult");
    if (!str_is(path, "ListMultipartUploadsResult/Upload")) return true;
    if (!arena_grow(r->a, &r->out->v, &r->cap, r->out->n + 1, sizeof r->one))
        return arena_fail(r->a, e);
    r->out->v[r->out->n++] = r->one;
    r->one = (struct s3_pending){0};
    return true;
}

bool s3_read_pending(struct arena *a, str xml, struct s3_pending_list *out, err *e)
{
    struct pending_reading r = {.a = a, .out = out};
    *out = (struct s3_pending_list){0};
    if (!xml_read(xml, on_pending, &r, e)) return false;
    if (!r.is_list) return unexpected(r.a, "list of uploads", e);
    // Without a marker the next page would be this one again.
    if (out->truncated && !out->next_key.n)
        return unexpected(r.a, "list of uploads: it goes on, but does not say where", e);
    return arena_ok(a, e);
}

// ---- uploads

struct upload_reading {
    struct arena *a;
    str id;
    str etag;
    struct s3_refusal refusal;
    bool completed;
};

static bool on_upload(void *arg, str path, str text, err *e)
{
    struct upload_reading *r = arg;
    (void)e;
    (void)take(r->a, path, "InitiateMultipartUploadResult/UploadId", text, &r->id);
    (void)take(r->a, path, "CompleteMultipartUploadResult/ETag", text, &r->etag);
    (void)take(r->a, path, "Error/Code", text, &r->refusal.code);
    (void)take(r->a, path, "Error/Message", text, &r->refusal.message);
    r->completed = r->completed || str_is(path, "CompleteMultipartUploadResult");
    return true;
}

bool s3_read_upload(struct arena *a, str xml, str *id, err *e)
{
    struct upload_reading r = {.a = a};
    if (!xml_read(xml, on_upload, &r, e)) return false;
    *id = r.id;
    return r.id.n ? arena_ok(a, e) : unexpected(r.a, "begin of an upload", e);
}

bool s3_read_completed(struct arena *a, str xml, struct s3_refusal *refusal, str *etag, err *e)
{
    struct upload_reading r = {.a = a};
    if (!xml_read(xml, on_upload, &r, e)) return false;
    *refusal = r.refusal;
    *etag = r.etag;
    return r.completed || r.refusal.code.n ? arena_ok(a, e)
                                           : unexpected(r.a, "end of an upload", e);
}

// ---- deletions

struct deleted_reading {
    struct arena *a;
    struct s3_removals *out;
    size_t cap;
    struct s3_removed one;
    bool is_result;
};

static bool on_deleted(void *arg, str path, str text, err *e)
{
    struct deleted_reading *r = arg;
    if (take(r->a, path, "DeleteResult/Deleted/Key", text, &r->one.key) ||
        take(r->a, path, "DeleteResult/Error/Key", text, &r->one.key) ||
        take(r->a, path, "DeleteResult/Error/Code", text, &r->one.why.code) ||
        take(r->a, path, "DeleteResult/Error/Message", text, &r->one.why.message))
        return true;
    r->is_result = r->is_result || str_is(path, "DeleteResult");
    bool deleted = str_is(path, "DeleteResult/Deleted");
    if (!deleted && !str_is(path, "DeleteResult/Error")) return true;
    // A refusal without a code is one all the same.
    if (!deleted && !r->one.why.code.n) r->one.why.code = S("Error");
    if (!arena_grow(r->a, &r->out->v, &r->cap, r->out->n + 1, sizeof r->one))
        return arena_fail(r->a, e);
    r->out->v[r->out->n++] = r->one;
    r->one = (struct s3_removed){0};
    return true;
}

bool s3_read_deleted(struct arena *a, str xml, struct s3_removals *out, err *e)
{
    struct deleted_reading r = {.a = a, .out = out};
    *out = (struct s3_removals){0};
    if (!xml_read(xml, on_deleted, &r, e)) return false;
    return r.is_result ? arena_ok(a, e) : unexpected(r.a, "result of a deletion", e);
}
