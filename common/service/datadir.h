// SPDX-License-Identifier: Apache-2.0
//
// datadir.h - the directory of everything that a process keeps.
//
//     format      one line: "flametree 1"
//     lock        held by the process that uses it
//     ingester/   the ingester's logs
//     store/      objects of the local store
//     cache/      may be deleted while nothing runs
//     run/        of the running process: ports.json, sockets
#pragma once

#include "base/err.h"

#include <limits.h>

struct datadir {
    char path[PATH_MAX];  // absolute
    int lock;
};

// Makes it if need be and takes its lock. Fails with one line for a person: somebody else's lock,
// a format that this program does not know, no permission.
bool datadir_open(struct datadir *d, const char *path, err *e) MUST_CHECK;
void datadir_close(struct datadir *d);

// Writes run/ports.json, which says where the process listens.
bool datadir_write_ports(const struct datadir *d, unsigned public_port, const char *internal,
                         err *e) MUST_CHECK;
void datadir_remove_ports(const struct datadir *d);
