// SPDX-License-Identifier: Apache-2.0
//
// engine.h - the inside of a store in a bucket, for the files of this room and for rooms that speak
// to another kind of service (azure). Whatever the service is, this is the same: tries and pauses,
// second requests, requests under way, what came of a creation, the trial at the start, metrics.
// All differences between services are in a struct s3_speech.
//
// A speech opens a store with s3_new, sets names, address and keys, and calls s3_connect.
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

// Why a service has refused, as far as that matters for what follows.
enum s3_cause {
    S3_NO_CAUSE,   // it has not refused
    S3_REFUSED,    // its last word, for a reason of its own
    S3_ABSENT,     // there is no such object: its own word, with the code for that
    S3_UNSAID,     // to a HEAD, whose answer has no room for a code: a read tells who said it
    S3_TAKEN,      // the condition of a creation: the name has an object
    S3_NO_UPLOAD,  // it knows no such upload in parts
    S3_GONE,       // the parts of an upload are not there
    S3_TOO_LARGE,  // it, or something on the way, takes no body such as this one
    S3_BUSY,       // or broken for a moment, or in conflict with another request
    S3_STRANGE,    // not its own answer: something on the way has answered in its place
    S3_UNPROVEN,   // it calls a creation done, but not as one that has these bytes
    S3_CLOCK_OFF,  // it does not believe our time
    S3_KEYS_OVER,
};

struct s3;
struct s3_op;

// A part that went up.
#define S3_ETAG_MAX 80
struct s3_part {
    char etag[S3_ETAG_MAX];
};

// How a service wants large objects in parts.
struct s3_multipart {
    bool begins;  // an upload is begun by a request of its own, which answers its id, and whose
                  // headers describe the object; otherwise we choose the id, the end describes the
                  // object, and what was left of an upload goes by itself
    bool etags;   // each part is answered with an ETag, which the end tells
    // The query of a part, from 1, or of the end (0).
    void (*query)(struct buf *q, str id, size_t part);
    void (*put_list)(struct buf *body, str id, const struct s3_part *v, size_t n);  // for the end
    // An end that was answered with 200: refusals in it, and the ETag of the object. NULL: there is
    // nothing to read.
    bool (*read_completed)(struct arena *a, str xml, struct s3_refusal *refusal, str *etag, err *e);
};

// How to put requests to one kind of service, and how to read its answers. Static.
struct s3_speech {
    const char *container;  // what it calls the place of objects
    const char *nonce;      // names of headers
    const char *crc;
    const char *range;
    const char *if_free;  // the condition of an exclusive creation, and its value
    const char *if_free_value;
    // An upload in parts may end with that condition: not known before it was tried. Otherwise it
    // is known to have none.
    bool parts;
    struct s3_multipart multipart;
    // Completes o->call: path and headers, with those of o->extra, and method where it is another
    // one than S3's. Signs it. Text lives in o->arena.
    bool (*prepare)(struct s3 *s, struct req *r, struct s3_op *o, err *e);
    void (*keys_over)(struct s3 *s);  // the next request needs new ones
    void (*close)(struct s3 *s);      // frees s->keys, which may be NULL
    // The query of one page of a list. Keys have the prefix; `after` or `token` may be empty.
    void (*list)(struct buf *q, str prefix, str after, str token, unsigned most);
    bool (*read_page)(struct arena *a, str xml, struct s3_page *out, err *e);
    void (*read_refusal)(struct arena *a, const struct http_call *c, struct s3_refusal *out);
    enum s3_cause (*cause)(const struct s3 *s, const struct http_call *c,
                           const struct s3_refusal *why);  // of a status from 300
    // Is a success the service's own? S3_NO_CAUSE, S3_STRANGE or S3_UNPROVEN.
    enum s3_cause (*vouch)(const struct s3 *s, const struct s3_op *o);
    // Advice to the operator about a refusal, beginning with "; ", or empty: which setting or
    // variable to look at, never its value. Static, or in the arena.
    str (*advice)(const struct s3 *s, struct arena *a, const struct s3_refusal *why,
                  unsigned status);
    // Deletes many by one request; NULL: it knows no such thing.
    void (*remove_batch)(struct s3 *s, struct req *r, struct store_removal *v, size_t n);
    // Drops uploads in parts that were left; NULL: they go by themselves.
    bool (*tidy)(struct s3 *s, struct req *r, uint64_t age_ns, uint64_t *dropped, err *e);
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
    const struct s3_speech *speech;
    void *keys;  // of the speech
    bool tls;
    unsigned width;
    char region[64];
    char bucket[64];
    char prefix[STORE_NAME_MAX];
    char address[320];  // "host:port" to connect to
    char host[320];     // the header: without a port that is the default
    char base[160];     // of paths: "/bucket" or ""
    // Whether an upload in parts ends only if the name is free, which not all services know. It is
    // tried out before the first such upload of an exclusive name.
    _Atomic enum s3_parts parts;
    _Atomic size_t body_refused;  // bytes of the last body that was too large; 0: none was
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

// ---- opening (objects.c)

// Begins with nothing but the speech and the budget.
struct s3 *s3_new(const struct s3_speech *speech, struct mem_budget *memory, unsigned width,
                  err *e) MUST_CHECK;
// The client. ca_file NULL or empty: the authorities of the system; `setting` names it in errors.
bool s3_connect(struct s3 *s, const char *setting, const char *ca_file, err *e) MUST_CHECK;
void s3_free(struct s3 *s);  // at any time after s3_new

// The prefix of keys. `setting` names it in errors.
bool s3_set_prefix(struct s3 *s, const char *setting, const char *prefix, err *e) MUST_CHECK;

// The parts of "https://host:port/path"; the path has no '/' at its end, and may be empty.
// Borrowed.
struct s3_place {
    bool tls;
    str host;
    str path;
};
bool s3_read_place_url(str url, const char *setting, bool path_allowed, struct s3_place *out,
                       err *e) MUST_CHECK;

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

// One operation on a key or on the bucket, tried until it is answered. (HEAD has no extra headers.)
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
    // The result. `answered`: the service decided, with a status that is no fault of the moment.
    // Otherwise `fault` is why there is no answer, and the operation may have been carried out.
    bool answered;
    enum s3_cause cause;  // of the last try, if the service has refused it
    err fault;
    unsigned tries;
    struct http_call call;  // status, answer_headers and answer are the last try's
    // private
    bool running;
    bool begun;
    bool by_read;  // a HEAD that asks by reading a byte, after S3_UNSAID
    bool at_once;  // the next try follows without a pause
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

// Was it done, with a status from 200?
static inline bool s3_is_done(const struct s3_op *o)
{
    return o->answered && o->call.status / 100 == 2;
}

// ---- whose answer it is (own.c)

// What a status from 300 says; `own`: the answer has a code of the service.
enum s3_cause s3_cause_of(const struct http_call *c, bool own);
// Is it a text with that root element from its beginning to its end?
bool s3_is_whole_xml(str body, const char *root);
str s3_etag_of(const struct s3_op *o);    // of the answer, with its quotes; empty: it has none
bool s3_is_etag(str etag);                // with quotes, and something between them
bool s3_is_etag_of(str etag, str bytes);  // their MD5
bool s3_is_etag_of_parts(str etag, size_t parts);  // "...-N", with quotes or without
// The beginning of a body that is not the service's, fit for an error. The arena's.
str s3_shown(struct arena *a, str body);

// For a speech's `prepare`: the path without a query, and "path?query"; both in o->arena.
str s3_path(const struct s3 *s, struct s3_op *o);
str s3_target(struct s3_op *o, str path, str query);
int64_t s3_wall_ns(const struct s3 *s);  // by the service's clock, once it has refused ours
// When the service answered by its clock; 0: it does not say so.
int64_t s3_answered_wall_ns(const struct http_call *c);
// A header of an answer that has a time; 0: it has none.
int64_t s3_time_in(const struct http_call *c, const char *header);

// Text that a function puts together, as the arena's.
str s3_text(struct arena *a, struct buf *b);

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

// ---- for S3's services only
bool s3_tidy(struct s3 *s, struct req *r, uint64_t age_ns, uint64_t *dropped, err *e);  // tidy.c
