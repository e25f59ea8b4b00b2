// SPDX-License-Identifier: Apache-2.0
//
// registry.h - the registered streams (stream.h) as a process knows them.
//
// Each read lists them. Their objects never change, so what was read of one is kept until a LIST
// lacks it, also when the read before had no time for all of them: a process that starts among
// thousands of registrations gets on with each try. Several may read at once, any thread.
//
// The metrics flametree_manifest_registered_streams and their neighbours tell what each reader has,
// and how old it is.
#pragma once

#include "manifest/stream.h"

struct registry;

// reader: a literal, the value of the metrics' label. The store outlives it. Returns owned.
struct registry *registry_new(struct store *s, struct mem_budget *memory, const char *reader);
void registry_free(struct registry *g);  // when nobody reads; NULL is fine

// As registered_read (stream.h); the memory of *out is `memory`'s, until registered_release.
bool registry_read(struct registry *g, struct req *r, struct mem_budget *memory,
                   struct registered *out, err *e) MUST_CHECK;

// The streams of the newest list.
struct registry_about {
    size_t streams;
    size_t unread;           // of them those whose object could not be read
    int64_t listed_wall_ns;  // when the list began; 0: there is none
};
struct registry_about registry_tell(struct registry *g);

// The same as a JSON object.
void registry_print(struct registry *g, struct buf *out);
