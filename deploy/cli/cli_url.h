// SPDX-License-Identifier: Apache-2.0
//
// cli_url.h - the address of a server. Pure.
#pragma once

#include "base/arena.h"

struct cli_url {
    bool tls;
    str address;  // "host:port"
    str prefix;   // "/pyroscope", without the slash at its end; or empty
    str user;     // "name:password" of the URL itself, or empty
    str shown;    // the URL for messages: never with a password
};

// http://host[:port][/prefix] or https://; without a scheme http. Strings are the arena's. Fails
// with invalid_argument.
bool cli_url_parse(struct arena *a, str text, struct cli_url *out, err *e) MUST_CHECK;
