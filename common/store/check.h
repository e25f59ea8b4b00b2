// SPDX-License-Identifier: Apache-2.0
//
// check.h - does a store keep the promises of store.h to two clients?
//
// Everything above relies on them: that a name is given once decides which version of a manifest
// is the newest, and that a list shows what was created before decides that an answer is exact.
// File systems that several machines share may break them by default: NFS remembers for seconds
// that a name is not there, some FUSE mounts let the second link win.
#pragma once

#include "base/ulid.h"
#include "store/store.h"

#define STORE_CHECK_PREFIX "v1/check/"

// One client creates, reads, lists and deletes objects below STORE_CHECK_PREFIX; the other one must
// see each step at once. Fails with failed_precondition naming the promise that is broken, and as
// the store does. `owner` is the data directory, which one process has at a time: what an earlier
// check of it left behind goes, and nothing of others, who may be trying the store just now.
bool store_check(struct store *one, struct store *other, id128 owner, struct req *r,
                 err *e) MUST_CHECK;

// What is known of the file system that a directory is on: NULL, or what is wrong with how it is
// mounted, and what to do about it. Borrowed from the program text.
const char *store_check_mount(const char *dir);

// The same for a type and its options, as /proc/self/mountinfo has them.
const char *store_check_options(str type, str options);
