// SPDX-License-Identifier: Apache-2.0
//
// node.h - the identity of a node, and the two messages by which nodes probe each other.
//
// Every process answers NODE_PROBE on its internal listener, in any role. A probe carries the
// identity of the node that asks, the answer that of the node that answers: so both notice when an
// address belongs to another process than the member list says, or to a restarted one. Encoding and
// decoding are pure; decoded strings borrow from the message.
#pragma once

#include "base/buf.h"
#include "base/ulid.h"

#define NODE_PROBE        "/flametree.v1.NodeService/Probe"
#define NODE_MESSAGE_MAX  4096  // bytes of a probe and of its answer
#define NODE_SERVICES_MAX 8

struct node_identity {
    id128 cluster;    // of the store; zeros: none is known
    str node;         // the member id
    id128 boot;       // made at the process' start
    id128 directory;  // made once for a data directory; zeros: none is known
    str services[NODE_SERVICES_MAX];
    size_t service_count;
    str address;  // of the internal listener, as the node itself reaches it
};

struct node_answer {
    struct node_identity node;
    bool ready;       // for traffic, as /ready says
    double load;      // 0 idle .. 1: no room for another request
    str version;      // of its program; empty: one that does not tell
    uint32_t weight;  // for placement (place.h); 0: it does not tell
    int64_t wall_ms;  // its clock; 0: it does not tell
    uint64_t list;    // members_list_print; 0: it does not tell
};

// Is an id known? An unknown one is all zeros.
bool node_knows(id128 id);

void node_put_probe(const struct node_identity *from, struct buf *out);
void node_put_answer(const struct node_answer *answer, struct buf *out);

// Fail with invalid_argument for a message that is malformed or has an id of another length than
// 16, and with out_of_range for more than NODE_SERVICES_MAX services.
bool node_read_probe(str message, struct node_identity *from, err *e) MUST_CHECK;
bool node_read_answer(str message, struct node_answer *answer, err *e) MUST_CHECK;
