// SPDX-License-Identifier: Apache-2.0
//
// s3_int.h - the inside of a store in a bucket; for the files of this room only.
#pragma once

#include "loop/loop.h"
#include "net/client.h"
#include "s3/answer.h"
#include "s3/s3.h"

#define S3_CRC_TEXT 8  // of all bytes, in hex
#define S3_HEADERS  4

// How long reads take lately, and how many of them may be asked for twice (hedge.c).
struct s3_latency {
    _Atomic uint64_t slow_ns;  // about 95 % are faster; 0: nothing is known yet
    _Atomic int64_t tokens;    // hundredths of a second request
    _Atomic int64_t under_way;
};

// In what Google's service differs from Amazon's (s3.h). Amazon's has many that speak as it does.
struct s3_speech {
    const struct s3_signer *signer;
    const char *region;  // if the settings have none
    const char *nonce;   // names of headers
    const char *crc;
    const char *if_free;  // the condition of an exclusive creation, and its value
    const char *if_free_value;
    bool batches;  // knows the deletion of many objects by one request
    // An upload in parts may end with that condition: not known before it was tried. Otherwise it
    // is known to have none.
    bool parts;
};

enum s3_parts {
    S3_PARTS_UNTRIED,
    S3_PARTS_EXCLUSIVE,
    S3_PARTS_REPLACE,  // the end of an upload replaces the object that has the name
};

struct s3 {
    struct store store;
    struct mem_budget *memory;
    struct loop *loop;
    struct client *client;
    struct s3_creds *creds;
    const struct s3_speech *speech;
    bool tls;
    unsigned width;
    char region[64];
    char bucket[64];
    char prefix[STORE_NAME_MAX];
    char address[320];  // "host:port" to connect to
    char host[320];     // the header: without a port that is the default
    char base[80];      // of paths: "/bucket" or ""
    // Whether an upload in parts ends only if the name is free, which not all services know. It is
    // tried out before the first such upload of an exclusive name.
    _Atomic enum s3_parts parts;
    struct s3_latency latency;
    _Atomic int64_t clock_off_ns;  // the service's clock minus ours, when it refused our time
};

// The header that makes a creation an exclusive one.
static inline struct http_header s3_if_free(const struct s3 *s)
{
    return (struct http_header){str_of(s->speech->if_free), str_of(s->speech->if_free_value)};
}

static inline struct s3 *s3_of(struct store *s)
{
    return CONTAINER_OF(s, struct s3, store);
}

// ---- operations (op.c)

enum s3_action {
    S3_GET,
    S3_HEAD,
    S3_LIST,
    S3_PUT,
    S3_DELETE,
    S3_DELETE_MANY,
    S3_BEGIN,  // of an upload in parts, as the next three
    S3_PART,
    S3_END,
    S3_DROP,
    S3_PENDING,
    S3_ACTIONS
};

// One operation on a key or on the bucket, tried until it is answered.
struct s3_op {
    enum s3_action action;
    str key;    // with the prefix; empty: the bucket itself
    str query;  // encoded, in order of names
    struct http_header extra[S3_HEADERS];
    size_t extra_n;
    str body;            // borrowed
    size_t answer_max;   // bytes of the answer
    bool expected;       // the service has just said that the object is there
    unsigned tries_max;  // 0: many
    // What came of it. `answered`: the service decided, with a status that is no fault of the
    // moment. Otherwise `fault` is why there is no answer, and it may have been carried out.
    bool answered;
    err fault;
    unsigned tries;
    struct http_call call;  // status, answer_headers and answer are the last try's
    // private
    bool running;
    bool begun;
    uint64_t began_ns;
    struct http_call second;  // the same request once more (hedge.c)
    bool hedged;
    struct arena arena;  // of one try
};

// Runs all, `width` at once, until each is answered or its tries or the request's time are over.
// The ops must be zeroed but for the request. Then s3_op_release.
void s3_run(struct s3 *s, struct req *r, struct s3_op *v, size_t n);
void s3_op_release(struct s3_op *o);

// For an operation that is over with a status that its caller does not expect, or without an
// answer: the error in words. Names what was done to which key, never a secret.
void s3_fault(struct s3 *s, struct s3_op *o, const char *what, str name, err *e);

// ---- second requests (hedge.c)

// Waits for all that run; reads that take unusually long are asked for once more meanwhile.
void s3_await(struct s3 *s, struct req *r, struct s3_op *const *v, size_t n);

// Where the answer to a read begins in the object, and how long the object is. False: it does not
// say so, or has another number of bytes than it says.
bool s3_read_place(const struct s3_op *o, uint64_t *at, uint64_t *size);

// The name's key, in the arena.
str s3_key(const struct s3 *s, struct arena *a, str name);

// ---- kinds of operations
void s3_read_many(struct store *st, struct req *r, struct store_read *v, size_t n);  // read.c
bool s3_get(struct store *st, struct req *r, str name, struct buf *out, err *e);
struct store_upload *s3_begin(struct store *st, struct req *r, str name, enum store_naming naming,
                              uint64_t about, err *e);  // upload.c
bool s3_write(struct store_upload *up, str bytes, err *e);
bool s3_commit(struct store_upload *up, bool *existed, err *e);
void s3_abandon(struct store_upload *up);
bool s3_tidy(struct store *st, struct req *r, uint64_t age_ns, uint64_t *dropped,
             err *e);  // tidy.c
