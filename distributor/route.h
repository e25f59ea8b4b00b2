// SPDX-License-Identifier: Apache-2.0
//
// route.h - batches to ingesters: who should get what, and what to do when he does not answer.
//
//     owners:   rendezvous order of the label set (cluster/place.h); the first gets the record. A
//               tenant has two ingesters and a service one of them, and as many more as their rates
//               need (spread.h), unless the settings say how many
//     home:     of a record with a client's id: the first in the order that does not depend on what
//               is measured, as every distributor at every time has to agree on it. The tenant has
//               all ingesters, or as many as its limit home_ingesters says, and the service one,
//               unless the settings say how many. Where the rates ask for more of them, what does
//               not go to its home goes out with attempt > 0
//     Append:   all batches of an owner in one call, all owners at the same time
//     failed:   an ingester that does not answer in time or is overloaded is passed over; the next
//               in order gets the batches
//     attempt:  0 in what a record's home gets, > 0 in what others get (send_buffer.h)
//     refused:  an ingester that does not have what a batch's lexicon says it was told gets the
//     batch
//               again, with all its symbols (lexicon.h); whoever else gets it, too
//
// Blocks until every batch is stored or no further ingester can be asked.
#pragma once

#include "cluster/member.h"
#include "distributor/config.h"
#include "distributor/lexicon.h"
#include "distributor/send_buffer.h"
#include "distributor/spread.h"
#include "loop/req.h"
#include "net/client.h"

struct route {
    struct client *client;
    struct req *req;
    struct mem_budget *memory;
    const struct distributor_config *config;
    struct members *known;
    struct lexicons *lexicons;  // NULL: none are used
    struct member *members;     // a snapshot, in the request's arena
    struct member *homes;       // the same, all of them alive
    size_t member_count;
    uint32_t *order;        // scratch, a row for each member
    struct spread *spread;  // NULL: nothing is measured, one ingester is enough
    size_t home_ingesters;  // the tenant's limit
    uint32_t tenant_need;   // of the request's tenant; 0: not asked yet
    str service;            // the last one that was asked for
    uint32_t service_need;
};

// Takes the snapshot; unavailable if there is no ingester.
bool route_init(struct route *r, struct client *client, struct members *known,
                const struct distributor_config *config, struct mem_budget *memory, struct req *req,
                err *e) MUST_CHECK;

// The owner of a label set: the function of send_buffer_init, with a struct route as its argument.
uint32_t route_owner(void *arg, str service, uint64_t labels_hash, uint32_t *home);

// Notes what a sealed send buffer brings: `bytes` of profiles, of its services in proportion to
// their records.
void route_note(struct route *r, const struct send_buffer *o, uint64_t bytes);

// The functions of send buffer.lexicon and send buffer.full, likewise.
struct lexicon *route_lexicon(void *arg, str service, uint32_t owner);
void route_full(void *arg, str service, uint32_t owner, struct lexicon *l);

// Sends a sealed send buffer. True when an ingester has acknowledged every record.
bool route_send(struct route *r, struct send_buffer *o, err *e) MUST_CHECK;
