// SPDX-License-Identifier: Apache-2.0
//
// creds.h - the keys with which requests to an S3 store are signed, and where they come from.
//
// The first source that is there is used, as by Amazon's own programs:
//
//     settings       s3.access_key and secret_key
//     environment    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//     web identity   AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: a token of Kubernetes is
//                    exchanged for keys at the token service (STS)
//     file           AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, profile AWS_PROFILE
//     container      AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI
//     machine        the metadata service of the instance, with a token (IMDSv2)
//
// Keys that end are renewed before they do, by the thread that needs them; while the old ones are
// good, other threads go on with these, and a renewal that fails is tried again.
#pragma once

#include "net/client.h"
#include "s3/sign.h"

struct s3_key_options {
    const char *access_key;
    const char *secret_key;
    const char *session_token;
};

struct s3_creds;

// Finds the source. The client and the region are borrowed until the end. Fails with
// failed_precondition where half of a pair is missing.
struct s3_creds *s3_creds_open(const struct s3_key_options *o, struct client *client,
                               const char *region, err *e) MUST_CHECK;
void s3_creds_close(struct s3_creds *c);  // NULL is fine

// The keys that are good now, copied into the arena. Fails with unavailable where there are none.
bool s3_creds_get(struct s3_creds *c, struct req *r, struct arena *a, struct s3_keys *out,
                  err *e) MUST_CHECK;

// The store says that the keys are over: the next get renews them, whatever their end says.
void s3_creds_over(struct s3_creds *c);

// How whoever set the keys calls them, such as "AWS_ACCESS_KEY_ID" and "AWS_SECRET_ACCESS_KEY".
// Static.
const char *s3_creds_id_name(const struct s3_creds *c);
const char *s3_creds_secret_name(const struct s3_creds *c);
