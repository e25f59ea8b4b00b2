// SPDX-License-Identifier: Apache-2.0
//
// answer.h - what an S3 store says in XML: lists, refusals, uploads, batch deletions
// (docs.aws.amazon.com/AmazonS3/latest/API/API_Operations.html).
//
// All text is the arena's. Elements that are not known are passed over: stores add some of their
// own. Everything fails with data_loss where the answer is not what the request asks for.
#pragma once

#include "base/arena.h"

// <Error>; fields are empty where the answer has none. Also true for text that is no XML at all, as
// a proxy sends: the code is empty then.
struct s3_refusal {
    str code;     // "NoSuchKey"
    str message;  // of the store
    str region;   // where the bucket is, of some redirects
};
void s3_read_refusal(struct arena *a, str xml, struct s3_refusal *out);

struct s3_entry {
    str key;
    uint64_t size;
};

// One page of ListObjectsV2.
struct s3_page {
    struct s3_entry *v;
    size_t n;
    bool truncated;
    str next;    // token of the next page, if truncated
    str prefix;  // of which it is a list; empty: it does not say so
};
bool s3_read_page(struct arena *a, str xml, struct s3_page *out, err *e) MUST_CHECK;

// The id of a multipart upload that was begun.
bool s3_read_upload(struct arena *a, str xml, str *id, err *e) MUST_CHECK;

// Uploads that were begun and not ended.
struct s3_pending {
    str key;
    str id;
    str initiated;  // "2026-11-26T01:02:03.000Z"
};
struct s3_pending_list {
    struct s3_pending *v;
    size_t n;
    bool truncated;
    str next_key;  // where the next page begins, if truncated
    str next_id;
};
bool s3_read_pending(struct arena *a, str xml, struct s3_pending_list *out, err *e) MUST_CHECK;

// "2026-11-26T01:02:03.000Z" or without the fraction, in ns since 1970. 0 for all other
// texts, and for times before 1970 and after 2262.
int64_t s3_time(str text);

// The end of a multipart upload, and a batch deletion, may be answered with 200 and a refusal. The
// ETag of the object is empty where there is none.
bool s3_read_completed(struct arena *a, str xml, struct s3_refusal *refusal, str *etag,
                       err *e) MUST_CHECK;

// What a batch deletion says of each key, in the order of the answer. A key without a code was
// deleted; of one that is not among them nothing is known.
struct s3_removed {
    str key;
    struct s3_refusal why;
};
struct s3_removals {
    struct s3_removed *v;
    size_t n;
};
bool s3_read_deleted(struct arena *a, str xml, struct s3_removals *out, err *e) MUST_CHECK;
