// SPDX-License-Identifier: Apache-2.0
//
// sign.h - signatures of requests to an S3 store: AWS Signature Version 4
// (docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html), and
// Google's of the same form (docs.cloud.google.com/storage/docs/authentication/signatures), which
// has other names in the same places.
//
// The signature covers method, path, query, the headers that are given here and the hash of the
// body. So whoever stands between cannot change any of them. It holds for a quarter of an hour
// around the time at which it was made: each try of a request is signed anew.
#pragma once

#include "base/buf.h"
#include "net/http.h"

// Borrowed. The token is empty for keys that do not end.
struct s3_keys {
    str id;
    str secret;
    str token;
};

// What the two kinds of signature call things.
struct s3_signer {
    const char *algorithm;  // "AWS4-HMAC-SHA256"
    const char *key;        // "AWS4": stands before the secret
    const char *suffix;     // "aws4_request": the end of the scope
    const char *service;    // "s3"
    const char *date;       // names of headers
    const char *hash;
    const char *token;  // NULL: keys have none
};
extern const struct s3_signer s3_signer_amazon;
extern const struct s3_signer s3_signer_google;

struct s3_signing {
    const struct s3_signer *signer;
    struct s3_keys keys;
    str region;
    int64_t wall_ns;  // now
    const char *method;
    str path;       // encoded as it is sent (s3_encode_path)
    str query;      // encoded as it is sent, its pairs in order of their names (s3_query_add)
    str body_hash;  // s3_hash, or S3_UNSIGNED
};

#define S3_HASH_TEXT 64
#define S3_UNSIGNED  "UNSIGNED-PAYLOAD"

// SHA-256 in hex, without a NUL. False: OpenSSL got no memory.
bool s3_hash(str bytes, char hex[S3_HASH_TEXT]) MUST_CHECK;

// MD5 in base64, as the header content-md5 has it. The arena's.
str s3_md5(struct arena *a, str bytes);

// MD5 in hex, as ETags have it, without a NUL. False: OpenSSL got no memory, or may not use MD5.
#define S3_MD5_TEXT 32
bool s3_md5_hex(str bytes, char hex[S3_MD5_TEXT]) MUST_CHECK;

// Percent-encodes all but A-Z a-z 0-9 - . _ ~ and, in a path, '/'.
void s3_encode_path(struct buf *b, str path);

// Adds a pair to a query. The caller adds them in order of their names.
void s3_query_add(struct buf *b, const char *name, str value);

// Adds what signs a request to its headers: x-amz-date, x-amz-content-sha256, x-amz-security-token
// (with a token) or Google's names for them, and authorization. The headers must have `host`
// already; all others that they have are signed too. Names are in lower case, values without spaces
// at their ends. Text lives in the arena, whose failure the caller finds with arena_ok.
void s3_sign(const struct s3_signing *s, struct http_headers *h, struct arena *a);
