// SPDX-License-Identifier: Apache-2.0
//
// probe.h - asks every known node, again and again, whether it lives, and says what calls tell.
//
// A round asks all members at once and gives them half an interval. The next one comes an interval
// after it began, or at once when a member that still counts as alive did not answer: with the
// default interval of 2 s a stopped process is dead after 3 to 5 s, and one that answers again is
// alive within 2 s.
//
// Probes have a client of their own, because connections to a node that hangs are taken by the
// calls that wait for it, and those to a busy one may all be. They do not go to the process itself.
#pragma once

#include "cluster/member.h"
#include "rpc/peer.h"

struct prober_options {
    struct client *client;  // for probes alone
    struct members *members;
    const struct node_identity *self;
    uint64_t interval_ns;  // 0: nobody is probed
};

struct prober;

// All of the options is borrowed until prober_stop. Returns owned.
struct prober *prober_start(const struct prober_options *o, err *e) MUST_CHECK;
void prober_stop(struct prober *p);  // a round under way is given up; NULL is fine

// What an ended call says about the member that was asked; after peer_answer, whose fault (or
// ERR_OK) this is. An answer shows that it lives, but "unavailable" may come from whatever stands
// in its place, and says nothing. A connection that failed is a failure. A call that ended by its
// own time limit, or because nobody wanted it any more, says nothing (member.h).
void members_note_call(struct members *m, enum member_kind kind, str id, const struct peer_call *c,
                       const err *fault);
