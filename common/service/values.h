// SPDX-License-Identifier: Apache-2.0
//
// values.h - checks of values of settings before anything is opened. They use neither network nor
// name server, and are pure except values_directory. They fail with invalid_argument and the value;
// the caller adds the key.
#pragma once

#include "base/err.h"
#include "base/str.h"

#define VALUES_SOCKET_PATH_MAX 107  // bytes, as the kernel has it

// "host:port", "[::1]:port", ":port" or "unix:/path". Only a listener may have port 0 or no host.
bool values_address(str text, bool listener, err *e) MUST_CHECK;

// Whether a process cannot listen at both: one path, or one port of which at least one is of all
// hosts, or both are of one. Names of hosts are compared as they are written.
bool values_collide(str a, str b);

// A name, "*.name" or "*", without a port.
bool values_host_pattern(str text, err *e) MUST_CHECK;

// "", or "/path" of one or more parts, with or without a '/' at its end; nothing that a proxy could
// write in another way.
bool values_path_prefix(str text, err *e) MUST_CHECK;

// "http://host", "https://host:port/path"
bool values_url(str text, err *e) MUST_CHECK;

// A name that may stand before '=' and in lists: no '=', ',', blanks or control characters.
bool values_id(str text, size_t most, err *e) MUST_CHECK;

// A path that is a file, below one, or too long is refused. One that does not exist is fine: a
// start makes it.
bool values_directory(const char *path, err *e) MUST_CHECK;

// Addresses of servers, separated by commas, each with a port or without; names are refused.
bool values_servers(str list, err *e) MUST_CHECK;
