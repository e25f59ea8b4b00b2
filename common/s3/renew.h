// SPDX-License-Identifier: Apache-2.0
//
// renew.h - keeps the keys of a store, and renews those that end before they do, by the thread that
// needs them. While the old ones are good other threads go on with these, and a renewal that fails
// is tried again. Where they come from is the owner's: s3 (creds.h) and azure have their sources.
#pragma once

#include "net/client.h"
#include "s3/sign.h"
#include "sys/lock.h"

#define S3_RENEW_NS   (600 * NS_PER_S)  // so long before their end keys are renewed
#define S3_KEY_MAX    256               // with a NUL, of an id or a secret
#define S3_TOKEN_MAX  8192
#define S3_SOURCE_MAX ((size_t)1 << 20)  // of a file with keys or a token

struct s3_kept {
    char id[S3_KEY_MAX];
    char secret[S3_KEY_MAX];
    char token[S3_TOKEN_MAX];
    int64_t ends_wall_ns;  // INT64_MAX: never; 0: not told, so they are read again in a while
};

// Reads the source. Texts that it needs meanwhile may live in the arena.
typedef bool s3_source(void *owner, struct req *r, struct arena *a, struct s3_kept *out, err *e);

struct s3_renewal {
    s3_source *source;
    void *owner;
    const char *name;  // of the source, for errors; static
    bool fixed;        // keys of the settings: they are never read again
    struct lock lock;  // of what follows
    struct cond renewed;
    bool renewing;
    bool known;  // `kept` has keys
    struct s3_kept kept;
    int64_t next_try_ns;  // mono; a renewal before the end failed
};

void s3_renewal_init(struct s3_renewal *k, s3_source *source, void *owner, const char *name);
void s3_renewal_release(struct s3_renewal *k);

// Keys that are known already and never end. Before the first get.
void s3_renewal_fix(struct s3_renewal *k);

// The keys that are good now, copied into the arena. Fails with unavailable where there are none.
bool s3_renewal_get(struct s3_renewal *k, struct req *r, struct arena *a, struct s3_keys *out,
                    err *e) MUST_CHECK;

// The store says that the keys are over: the next get renews them, whatever their end says.
void s3_renewal_over(struct s3_renewal *k);

// Copies a text with a NUL. Fails with data_loss, naming `what`, where it is too long.
bool s3_set_text(char *to, size_t room, str text, const char *what, err *e) MUST_CHECK;

// Of the environment; "" if it has none.
const char *s3_env(const char *name);

// The whole file. The buffer is owned on success.
bool s3_read_file(const char *path, struct buf *b, err *e) MUST_CHECK;

// A question to a service that gives keys. The answer's text lives in the arena; a status other
// than 200 is unavailable.
struct s3_question {
    const char *method;
    str address;
    str path;
    const char *header[2];  // name and value; name NULL: none
    str body;               // of a form
    bool tls;
};
bool s3_ask(struct client *client, struct req *r, struct arena *a, const struct s3_question *q,
            str *answer, err *e) MUST_CHECK;
