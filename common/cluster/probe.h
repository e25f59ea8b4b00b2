// SPDX-License-Identifier: Apache-2.0
//
// probe.h - probes every known node in rounds, and notes what other calls show about liveness.
//
// A round asks all members at once and gives them half an interval. The next one comes an interval
// after it began, or half an interval when a member that still counts as alive did not answer or is
// not ready: with the default interval of 2 s a stopped process is dead after 3 to 5 s, one that
// answers again is alive within 2 s, and one that has started gets traffic within 1 s.
//
// Probes use a separate client: in the common one all connections to a node that hangs or is busy
// may be taken by calls that wait for it. The process does not probe itself.
//
// There is no way to switch probes off: without them a dead member would never be asked again. A
// round for which there is no memory is left out, counted and logged.
#pragma once

#include "cluster/member.h"
#include "rpc/peer.h"

struct prober_options {
    struct client *client;  // for probes alone
    struct members *members;
    const struct node_identity *self;
    uint64_t interval_ns;           // not 0
    uint32_t (*weight)(void *arg);  // of this process now, for its own row; NULL: it has none
    void *arg;
};

struct prober;

// The options' pointers are borrowed until prober_stop. Returns owned.
struct prober *prober_start(const struct prober_options *o, err *e) MUST_CHECK;
void prober_stop(struct prober *p);  // cancels a round under way; NULL is fine

// Notes what an ended call shows about the member that was asked. Called after peer_answer, with
// its fault (or ERR_OK). An answer shows that the member lives; but the answer "unavailable" may
// come from a proxy in its place, and shows nothing. A failed connection counts as a failure. A
// call that ended by its own time limit or was canceled shows nothing (member.h).
void members_note_call(struct members *m, enum member_kind kind, str id, const struct peer_call *c,
                       const err *fault);
