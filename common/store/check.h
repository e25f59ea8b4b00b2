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

// How large an object may be. A service takes gigabytes in one request, but what stands before it
// may not: nginx refuses bodies of more than 1 MB unless it is told otherwise. Objects of different
// sizes are created below STORE_CHECK_PREFIX and deleted again, the first one of `most` bytes, and
// STORE_SIZE_TRIES at most.
//
//     *taken == most    all is well
//     *taken == 0       not even STORE_SIZE_LEAST bytes are taken
//     otherwise         that many are, and an eighth more is not
//
// Unless all is well, *why is the refusal of the smallest object that was refused. Fails as the
// store does if that cannot be found out now. `owner` as above.
#define STORE_SIZE_LEAST ((size_t)1 << 10)
#define STORE_SIZE_TRIES 12
bool store_check_size(struct store *s, id128 owner, struct req *r, size_t most, size_t *taken,
                      err *why, err *e) MUST_CHECK;

// Is the file system of a directory known to break the promises as it is mounted? NULL: no.
// Otherwise a text that names the mount option and how to set it. Static.
const char *store_check_mount(const char *dir);

// The same for a type and its options, as /proc/self/mountinfo has them.
const char *store_check_options(str type, str options);
