// SPDX-License-Identifier: Apache-2.0
//
// bucket.h - an S3 service in memory behind a real server on loopback, which fails as a test wants
// it to. It has one bucket, "test", and knows the requests of common/s3: objects with conditional
// creation, ranges, lists in pages, batch deletion, uploads in parts. Signatures must be there, but
// are not computed again (tests/s3 does that with services of others).
#pragma once

#include "lib/test.h"
#include "net/server.h"

#define BUCKET "test"

enum bucket_trouble {
    BUCKET_FINE,
    BUCKET_BUSY,      // 503 SlowDown; not carried out
    BUCKET_BREAKS,    // 500; not carried out
    BUCKET_LANDS,     // carried out, and 500
    BUCKET_CONFLICT,  // 409; not carried out
    BUCKET_DENIES,    // 403 AccessDenied; not carried out
    BUCKET_WRONG,     // carried out; a bit of the answer's body is wrong
    BUCKET_HALF,      // carried out; half of the answer's body
    BUCKET_STALLS,    // carried out; the answer is held back until bucket_go_on
    BUCKET_STEALS,    // somebody else has created the object just before
    // Something on the way answers, and the service never hears of it:
    BUCKET_PAGE_404,  // a proxy's page
    BUCKET_PAGE_403,
    BUCKET_PAGE_413,
    BUCKET_PAGE_200,
    BUCKET_PAGE_ETAG,  // 200 as well, and the page has an ETag
    BUCKET_NOTHING,    // 200 and nothing else
    BUCKET_FORGES,     // 200 with an ETag that is not of these bytes
    BUCKET_UPROOTED,   // 404 NoSuchBucket
    BUCKET_FORGETS,    // 404 NoSuchKey of an object that is there
    // The service's own answers, which are not those to the request:
    BUCKET_STRAYS,  // a list of everything
    BUCKET_SKIPS,   // of many deletions the last one is neither carried out nor told
};

struct bucket;

struct bucket *bucket_new(void);
void bucket_free(struct bucket *b);
const char *bucket_url(const struct bucket *b);  // "http://127.0.0.1:PORT"

// The nth request of an action from now on (1: the next) and those after it, `count` in all, meet
// the trouble. Actions are get, head, list, put, delete, delete_many, begin, part, end, drop,
// pending. Replaces what was ordered for the action.
void bucket_fail(struct bucket *b, const char *action, enum bucket_trouble what, unsigned nth,
                 unsigned count);
// The request after those that were ordered last for the action meets this.
void bucket_fail_then(struct bucket *b, const char *action, enum bucket_trouble what);
void bucket_heal(struct bucket *b);
void bucket_go_on(struct bucket *b);

// A service that does not heed the condition of a creation: of whole objects, of the end of an
// upload in parts.
void bucket_ignore_conditions(struct bucket *b, bool whole, bool parts);
// ETags are no MD5, as with some services. `sealed`: and answers say why, as for objects that are
// encrypted by keys of a key store.
void bucket_set_etags(struct bucket *b, bool sealed);
void bucket_look_and_write(struct bucket *b);  // heeds them, but not of requests at the same time
void bucket_ignore_start(struct bucket *b);    // start-after of a list: it begins at the prefix
void bucket_set_page(struct bucket *b, size_t names);           // of a list; 1000 at first
void bucket_set_initiated(struct bucket *b, const char *when);  // the time of later begins

size_t bucket_objects(struct bucket *b);
size_t bucket_uploads(struct bucket *b);  // begun and neither ended nor dropped
unsigned bucket_requests(struct bucket *b, const char *action);
