// SPDX-License-Identifier: Apache-2.0
//
// s3.h - a store in a bucket of an S3 service: Amazon S3, Ceph, versitygw and others that know
// conditional creation.
//
// Object v1/x of the store is key <prefix>v1/x of the bucket. A creation is a PUT with
// `If-None-Match: *`, so the service decides who is first; a large object goes up in parts, and
// their end has that condition. Requests that fail for a reason that may pass (no answer, 5xx, too
// many requests, a conflict of two creations) are tried again after a pause that doubles, as long
// as the request that asks has time.
//
// Google Cloud Storage has the same protocol with other names: signatures and headers are its own
// (x-goog-), and it refuses requests that mix both; the condition of a creation is
// `x-goog-if-generation-match: 0`. It has no such condition at the end of an upload in parts, so
// large objects of exclusive names are sent whole, and no deletion of many objects at once.
//
// A try of a creation whose answer got lost may have been carried out. Each creation carries a
// nonce in the object's metadata: if a later try finds the name taken, the nonce tells whether by
// this very creation, which then has succeeded, or by another one.
#pragma once

#include "s3/creds.h"
#include "store/store.h"

enum s3_dialect {
    S3_DIALECT_AUTO,  // Google's if the endpoint's host is storage.googleapis.com or below
    S3_DIALECT_AMAZON,
    S3_DIALECT_GOOGLE,
};

struct s3_options {
    const char *endpoint;  // "https://host:port"; empty: Amazon's of the region
    const char *region;    // empty: us-east-1, at Google's auto
    const char *bucket;
    const char *prefix;  // of keys, such as "flametree/"; may be empty
    enum s3_dialect dialect;
    bool path_style;      // the bucket is in the path, not in the host's name
    const char *ca_file;  // PEM of the authorities to trust; empty: the system's
    struct s3_key_options keys;
    struct mem_budget *memory;  // of answers and of parts that go up; may be NULL
    unsigned width;             // requests under way at once; 0: 32
};

// Options for "s3://bucket/prefix", as a command line gives it; the text lives in the arena. What
// the URL does not say comes from the environment: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL,
// AWS_REGION or AWS_DEFAULT_REGION, and the keys (creds.h). Elsewhere than at Amazon the bucket is
// in the path.
bool s3_options_of_url(str url, struct arena *a, struct s3_options *out, err *e) MUST_CHECK;
const char *s3_region_of_environment(void);  // "": it has none. Static.

// What the service at an endpoint speaks, as far as its host tells: never S3_DIALECT_AUTO.
enum s3_dialect s3_dialect_of(str url);

// Checks the options and begins nothing yet: requests fail with unavailable while the service
// cannot be reached. Returns owned.
struct store *store_open_s3(const struct s3_options *o, err *e) MUST_CHECK;

// Does the service keep its promise of one creation also to creations that come at the same time?
// store_check (store/check.h) tries out the rest. Fails with failed_precondition if it does not.
bool s3_check_races(struct store *s, struct req *r, err *e) MUST_CHECK;

// May these keys list, create, read and delete in this bucket? Soon over. Fails with
// failed_precondition where the service refuses, so that somebody must change keys, rights or
// settings, and with unavailable where it does not answer.
bool s3_check_access(struct store *s, struct req *r, err *e) MUST_CHECK;
