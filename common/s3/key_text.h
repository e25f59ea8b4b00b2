// SPDX-License-Identifier: Apache-2.0
//
// key_text.h - the texts in which sources of keys (creds.h) give them. Pure.
//
// All texts of a result are views of the input, or live in the arena. `ends_wall_ns` is 0 where the
// text does not tell when the keys end. A text without keys is no failure: id and secret are empty.
// One that is no JSON or no XML is.
#pragma once

#include "s3/sign.h"

struct s3_key_text {
    struct s3_keys keys;
    int64_t ends_wall_ns;
};

// The answer of a container's or a machine's service:
// {"AccessKeyId": ..., "SecretAccessKey": ..., "Token": ..., "Expiration": ...}
bool s3_keys_of_json(struct arena *a, str text, struct s3_key_text *out, err *e) MUST_CHECK;

// The answer of the token service to AssumeRoleWithWebIdentity.
bool s3_keys_of_xml(struct arena *a, str text, struct s3_key_text *out, err *e) MUST_CHECK;

// Of a profile in a file of credentials; of a name that comes more than once the last one counts.
//
//     [profile]
//     aws_access_key_id = ...
//     aws_secret_access_key = ...
//     aws_session_token = ...
void s3_keys_of_file(str text, str profile, struct s3_key_text *out);
