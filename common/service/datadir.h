// SPDX-License-Identifier: Apache-2.0
//
// datadir.h - the directory of everything that a process keeps.
//
//     format      one line: "flametree 1"
//     cluster     one line: the cluster of the store when this directory was used first
//     directory   one line: the ULID of this directory, made once
//     lock        held by the process that uses it
//     ingester/   the ingester's logs
//     store/      objects of the local store
//     cache/      may be deleted while nothing runs
//     run/        of the running process: ports.json, sockets
#pragma once

#include "base/ulid.h"

#include <limits.h>

struct datadir {
    char path[PATH_MAX];  // absolute
    int lock;
};

// Makes it if it is not there, and takes its lock. Fails with one line for the user: another
// process has the lock, the format is unknown, no permission.
bool datadir_open(struct datadir *d, const char *path, err *e) MUST_CHECK;
void datadir_close(struct datadir *d);

// The id of the directory. A new one is made if there is none, or if the files `keeps` below the
// directory (NULL: none) are all missing: then the data of a service is gone, and other nodes must
// not take this directory for the old one.
bool datadir_identify(const struct datadir *d, const char *const keeps[2], id128 *directory,
                      err *e) MUST_CHECK;

// The cluster of the store that this directory was used with; *known is false if there was none
// yet.
bool datadir_read_cluster(const struct datadir *d, id128 *cluster, bool *known, err *e) MUST_CHECK;
bool datadir_write_cluster(const struct datadir *d, id128 cluster, err *e) MUST_CHECK;

// Writes run/ports.json, which has the ports of the listeners. admin: "" without such a listener.
// more: members of the JSON object for other listeners, each with a comma before it.
bool datadir_write_ports(const struct datadir *d, unsigned public_port, const char *internal,
                         const char *admin, str more, err *e) MUST_CHECK;
void datadir_remove_ports(const struct datadir *d);
