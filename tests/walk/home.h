// SPDX-License-Identifier: Apache-2.0
//
// home.h - logs whose home is the store: creations that come late or twice, ingesters that come
// back without their disks, and others that adopt what these had.
//
// Whatever an ingester sends to v1/log goes through a store of its own here. Now and then its
// answer is lost on the way, and the creation comes to the store up to 18 minutes later, whatever
// became of the sender; or it comes twice (docs/design.md, 3: twenty minutes).
//
// Ingesters of walks have no identity, so they have no thread that adopts: adoption is an actor.
// It takes any stream of a process that is gone or does not answer, and now and then one whose
// owner is there, as an ingester does that cannot reach him. Several may adopt the same stream.
#pragma once

#include "manifest/stream.h"

struct world;
struct node;
struct actor;
struct home;
struct dice;

#define HOME_ADOPTED 256

struct home_node {  // of a node; under the world's lock
    id128 boot;
    id128 directory;
    uint8_t disks;     // that it had
    int64_t wiped_ns;  // when it lost the last one
    char address[16];
    id128 adopted[HOME_ADOPTED];  // by this process
    size_t adopted_count;
    bool adopts;  // one at a time, as the thread of adopt.h
};

struct home *home_new(struct world *w);  // owned; NULL: logs are on disks
void home_free(struct home *h);

// ---- nodes
const char *home_flags(const struct world *w);
struct store *home_store(struct world *w, struct node *n);  // around the one of its seat

// A new process of the node: what its registrations have in common.
struct registered_stream home_own(struct world *w, struct node *n);

// The process ended. Now and then its disk is gone as well.
void home_crash(struct world *w, struct node *n, struct dice *d);

// Was the row pushed before the node lost its disk? With that went the ids by which it knows what
// is pushed again, so there the row is loose.
bool home_forgot(struct world *w, const struct node *n, int64_t pushed_ns);

// ---- actors
void home_adopt(struct world *w, struct actor *a);  // or clears away logs that nobody needs

// All streams of a node that is down are another one's. False: not all, or nobody is there.
bool home_hand_over(struct world *w, const struct node *from, struct req *r);

// Takes back registrations of adopted streams that are in the store by now.
void home_clear(struct world *w, struct node *n, struct req *r);

// Is an ingester not in the querier's list of members this time? Then it is asked if a registration
// names it.
bool home_forgets(struct world *w);

// ---- time
void home_land(struct world *w);              // one of the late creations arrives
void home_pass(struct world *w, int64_t ns);  // before so much time passes
void home_settle(struct world *w);            // all arrive, and all streams are adopted

// A stream settles for longer than queriers share a list (querier/head/streams.h). Both go by
// different clocks.
#define HOME_SETTLE_NS (3 * NS_PER_S)
void home_wait(void);

// At the very end: registered are only streams that are open, or come next, and of no other one
// there is anything but a seal of the last two days.
void home_check(struct world *w);

// Adopters pause where their process may end.
void home_pause(struct world *w, const char *point);
