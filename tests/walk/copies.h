// SPDX-License-Identifier: Apache-2.0
//
// copies.h - second copies of rows in logs, and leaves that are not to expire before they are
// flushed: the registered streams of each ingester, and one watch for all jobs.
//
// Ingesters of walks have no identity, so they have no thread for that: here it is a step of a
// walk, when time has passed.
#pragma once

#include "ingester/roll.h"
#include "store/store.h"

struct world;
struct node;
struct copies;

struct copies_node {  // of a node; one at a time, by `busy` under the world's lock
    struct roll roll;
    bool busy;
};

struct copies *copies_new(struct mem_budget *memory);
void copies_free(struct copies *c);

void copies_note(struct world *w, struct node *n);  // before anything is acknowledged
void copies_end(struct node *n);                    // its process is no more

// Registers the stream of a log that was opened again, if it is not yet.
void copies_open(struct world *w, struct node *n);

// The next stream, if it is due.
void copies_roll(struct world *w, struct node *n, struct req *r);

// ---- jobs: look, snapshot, plan, wish
struct copies_view {
    struct copies *copies;
    uint64_t over;
    bool granted;
};
bool copies_look(struct copies *c, struct store *s, struct req *r, struct copies_view *v,
                 err *e) MUST_CHECK;
bool copies_may_go(void *view, id128 leaf);
void copies_wish(struct copies_view *v, const id128 *leaves, size_t n);
