// SPDX-License-Identifier: Apache-2.0
//
// values.h - do values of settings make sense, before anything is opened? Nothing is asked of a
// network or a name server. Pure, but for values_directory. Failures are invalid_argument with the
// value in them; the caller adds the key.
#pragma once

#include "base/err.h"
#include "base/str.h"

#define VALUES_SOCKET_PATH_MAX 107  // bytes, as the kernel has it

// "host:port", "[::1]:port", ":port" or "unix:/path". Port 0 only for listeners, which may also
// leave out the host; `listener` says that it is one.
bool values_address(str text, bool listener, err *e) MUST_CHECK;

// A name, "*.name" or "*", without a port.
bool values_host_pattern(str text, err *e) MUST_CHECK;

// "http://host", "https://host:port/path"
bool values_url(str text, err *e) MUST_CHECK;

// Something that may stand before '=' and in lists: no '=', ',', blanks or control characters.
bool values_id(str text, size_t most, err *e) MUST_CHECK;

// A path that is no directory but something else is refused; one that is not there may come.
bool values_directory(const char *path, err *e) MUST_CHECK;
