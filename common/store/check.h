// SPDX-License-Identifier: Apache-2.0
//
// check.h - does a store keep the promises of store.h to two clients?
//
// All code above relies on them. Because a name is given only once, nodes agree on the newest
// version of a manifest. Because a list shows all objects created before it, answers are exact.
// File systems that several machines share may break them by default: NFS remembers for seconds
// that a name is not there, some FUSE mounts let the second link win.
#pragma once

#include "base/ulid.h"
#include "store/store.h"

#define STORE_CHECK_PREFIX "v1/check/"

// One client creates, reads, lists and deletes objects below STORE_CHECK_PREFIX; the other one must
// see each step at once. Fails with failed_precondition naming the promise that is broken, or with
// an error of the store. `owner` is the data directory, which one process uses at a time: objects
// that an earlier check of it left behind are deleted. Those of others stay, because other
// processes may be checking the store at the same time.
bool store_check(struct store *one, struct store *other, id128 owner, struct req *r,
                 err *e) MUST_CHECK;

// Is the file system of a directory known to break the promises as it is mounted? NULL: no.
// Otherwise a text that names the mount option and how to set it. Static.
const char *store_check_mount(const char *dir);

// The same for a type and its options, as /proc/self/mountinfo has them.
const char *store_check_options(str type, str options);
