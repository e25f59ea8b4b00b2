// SPDX-License-Identifier: Apache-2.0
//
// peer_read.h - one reading of blocks, shared by several queriers.
//
// A flame graph, timeline or heat map that needs more than querier.split_bytes of sums and rows is
// read by all queriers that seem alive, this one among them. Each object is read by one of them. An
// object goes to the queriers in an order that depends on its name, so that the same one has it in
// its cache the next time, unless that one has much more to do than its share. Shares are Partial
// messages, which are added up as those of ingesters are: so the answer is the one that this
// querier would give alone.
//
//     a peer fails, or is of a version       its share is read here
//     without this call
//     a peer takes more than twice as long   the call is given up, and its share is read here
//     as this querier took for its own
//     (a second at least)
//     a peer cannot read an object           as if it could not be read here: the caller plans
//                                            again without it
//     the client leaves, its time is over    calls are ended, and with them the peers' work
#pragma once

#include "cluster/member.h"
#include "net/client.h"
#include "net/server.h"
#include "querier/block/block_read.h"

struct peer_readers {
    struct client *client;
    struct members *members;  // NULL: it has no peers
    str self;                 // member id of this querier
    uint64_t split_bytes;     // 0: never
    size_t answer_max;        // bytes of a share
};

// As block_read. r->tenant is that of the pieces.
bool peer_read(const struct peer_readers *p, struct blocks *b, struct req *r,
               const struct block_task *t, struct merged *m, struct block_reads *out,
               err *e) MUST_CHECK;

// The call QuerierService/PartialRead: the share of another querier. Counts against `memory`, and
// within `limit` bytes.
#define PEER_READ_PATH "/flametree.v1.QuerierService/PartialRead"
bool peer_read_answer(struct blocks *b, struct mem_budget *memory, size_t limit, struct req *r,
                      str message, struct buf *out, err *e) MUST_CHECK;
