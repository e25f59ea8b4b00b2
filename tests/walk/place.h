// SPDX-License-Identifier: Apache-2.0
//
// place.h - where a walk's objects are: in memory (lib/memstore.h), or in a bucket of a real
// service.
//
// In a bucket the same hooks run before and after the same operations: lists go page by page, and
// objects that are read or deleted together have a hook each. What a fault lets happen happens at
// the service. All seats share one client; the walk's clock does not move while a request is under
// way, as the client would take its time for wrong. Requests overlap more than operations in memory
// do: the gate takes one that lasts longer than its silence for nobody's.
#pragma once

#include "lib/memstore.h"

// "s3://bucket/prefix" (s3_options_of_url in s3/s3.h has the rest, of the environment); NULL:
// memory.
void place_set(const char *url);

struct store *place_open(void);                  // owned; its objects go with it
struct store *place_again(struct store *first);  // another over the same objects; owned
void place_set_hooks(struct store *s, memstore_hook *before, memstore_hook *after, void *arg);
void place_set_page(struct store *s, size_t names);

// ---- what is there, past faults and hooks
bool place_has(struct store *s, const char *name);
void place_drop(struct store *s, const char *name);
char *place_names(struct store *s, const char *prefix);  // a line each; free() it

void place_wait(void);  // until no request is under way

// The clock by which objects have an age (store_age); it stands still but for this.
void place_pass(int64_t ns);
