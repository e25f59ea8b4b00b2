// SPDX-License-Identifier: Apache-2.0
//
// dispatch.h - sends batches to ingesters: which one gets a batch, and which one is next if it
// fails.
//
// When all goes well:
//
//     1. A label set has an order of ingesters (rendezvous, cluster/place.h); the first of them is
//        its owner. A tenant has two ingesters and a service one of these, and as many more as
//        their measured rates need, or evenness of the ingesters (spread.h), unless the settings
//        say how many.
//     2. A record with a client's id has a home besides: the first in an order that does not depend
//        on measured rates, so that all distributors agree on it at all times. For this order the
//        tenant has all ingesters, or as many as its limit home_ingesters says, and the service
//        one, unless the settings say how many. Evenness is no reason to send it elsewhere. After a
//        change of the list of ingesters it has none for a while, if that moved it (settle.h).
//        Distributors whose lists differ for longer disagree. So each Append tells by which list
//        its records were placed (model/placings.h), and queries look for copies where lists
//        differ.
//     3. A label set that pushes more than one ingester should take goes to the first ones of its
//        order by turns, if it has no client's id. One with an id stays where a repeated upload
//        finds it.
//     4. All batches of an owner go in one Append, to all owners at the same time. A record has
//        attempt 0 at its home, and attempt > 0 elsewhere (send_buffer.h).
//     5. The ingesters acknowledge.
//
// When not:
//
//     no answer in time, or overloaded    the ingester is passed over; the next one in the batch's
//                                         order gets it, with attempt raised
//     it lacks rows of a lexicon          it gets the batch again, with all its symbols; so does
//     (lexicon.h)                         every later ingester
//     the store of its log takes no       the push fails with out_of_range: all ingesters have the
//     object of that size                 same store
//     the tenant has more than its share  the push fails with resource_exhausted: elsewhere it
//     of the head, or too many series     would only fill one more ingester
//     any other refusal                   the push fails with that
//
// Blocks until every batch is stored or has failed.
#pragma once

#include "cluster/member.h"
#include "distributor/config.h"
#include "distributor/settle.h"
#include "distributor/spread.h"
#include "intake/lexicon.h"
#include "intake/send_buffer.h"
#include "loop/req.h"
#include "net/client.h"

// Profiles of a label set in a request, of a service that needs several ingesters.
struct dispatch_series {
    uint64_t key;  // spread_series_key
    uint64_t n;
};

struct dispatch {
    struct client *client;
    struct req *req;
    struct mem_budget *memory;
    const struct distributor_config *config;
    struct members *known;
    struct lexicons *lexicons;  // NULL: none are used
    struct member *members;     // a snapshot, in the request's arena
    struct member *homes;       // the same members, all marked as alive
    uint64_t placing;           // of homes (place_print); 0: not asked for yet
    struct settle_past past;    // lists of before
    uint32_t *past_order;       // scratch, one for each member of the longest of them
    size_t member_count;
    uint32_t *order;        // scratch, one for each member
    struct spread *spread;  // NULL: rates are not measured, one ingester is enough
    size_t home_ingesters;  // the tenant's limit
    uint32_t tenant_need;   // ingesters that the tenant's rate needs; 0: not asked yet
    uint32_t tenant_even;   // that it is spread over for evenness
    uint64_t service;       // key of the service that was asked for last; its name may be gone
    uint32_t service_need;  // ingesters that its rate needs
    uint32_t service_even;  // that it is spread over for evenness
    uint64_t turn;          // of the request; 0: none was taken yet
    struct dispatch_series *series;
    size_t series_count;
    size_t series_cap;
    uint64_t placed;  // profiles that the owner was asked for
};

// Takes the snapshot; unavailable if there is no ingester.
bool dispatch_init(struct dispatch *d, struct client *client, struct members *known,
                   const struct distributor_config *config, struct mem_budget *memory,
                   struct req *req, err *e) MUST_CHECK;

// Compares the snapshot with the lists of before, where the list may change.
bool dispatch_settle(struct dispatch *d, struct settle *settle, err *e) MUST_CHECK;

// The owner of a label set: the function of send_buffer_init, with a struct dispatch as its
// argument.
uint32_t dispatch_owner(void *arg, str service, uint64_t labels_hash, uint32_t *home);

// Why a record goes where it goes; for people.
struct dispatch_place {
    size_t tenant_ingesters;   // of these is the order; 0: all
    size_t service_ingesters;  // of those
    uint32_t tenant_need;      // ingesters that the measured rate needs
    uint32_t tenant_even;      // that it is spread over for evenness; 1 with a client's id
    uint32_t service_need;
    uint32_t service_even;
    uint32_t series_need;  // more than 1: pushes take turns among the first ones of the order
    uint32_t *order;       // rows of members, in the arena
    uint32_t home;         // row of the home, if it has one
    bool settled;          // it has: the lists of before give it the same
};

// The same decision as dispatch_owner's, for a record with a client's id or without one.
bool dispatch_explain(struct dispatch *d, str service, uint64_t labels_hash, bool identified,
                      struct dispatch_place *out, err *e) MUST_CHECK;

// Adds `bytes` of profiles in a sealed send buffer to the measured rates; each service counts in
// proportion to its records.
void dispatch_note(struct dispatch *d, const struct send_buffer *o, uint64_t bytes);

// The functions of send buffer.lexicon and send buffer.full, likewise.
struct lexicon *dispatch_lexicon(void *arg, str service, uint32_t owner);
void dispatch_full(void *arg, str service, uint32_t owner, struct lexicon *l);

// Sends a sealed send buffer. True when an ingester has acknowledged every record.
bool dispatch_send(struct dispatch *d, struct send_buffer *o, err *e) MUST_CHECK;
