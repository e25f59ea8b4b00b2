// SPDX-License-Identifier: Apache-2.0
//
// program.h - private to service: a running process with its services.
//
// Two threads matter. The main thread waits for signals and does nothing else, so that it always
// receives a second SIGTERM. The runner brings the process up, waits, and takes it down:
//
//     STARTING   program_open, services' start      listeners answer: /ready says "starting"
//     READY      routers are published              traffic; SIGHUP: certificates are read again
//     DRAINING   program_drain                      /ready says "draining"
//
// A SIGTERM ends a start as well: in order if that takes no more than 2 s, otherwise at once.
//
// Listeners open before services start. So /ready shows a long recovery, and a port that is in use
// is reported at once. Until the routers are published a front answers in their place.
#pragma once

#include "cluster/discover.h"
#include "cluster/probe.h"
#include "net/server.h"
#include "service/datadir.h"
#include "service/notice.h"
#include "service/service.h"
#include "service/settings.h"
#include "sys/clock.h"
#include "sys/lock.h"

#define LOOPS_MAX    64
#define SERVICES_MAX 8
#define DOORS_MAX    4
#define ADDRESS_MAX  300

enum program_state {
    PROGRAM_STARTING,
    PROGRAM_READY,
    PROGRAM_DRAINING
};

struct unit {  // a service in this process
    const struct service *service;
    void *self;
    atomic_bool started;
    struct lane *lanes[RANK_COUNT];
};

struct program;

// The application of a listener: passes requests to a router that may not be there yet.
struct front {
    struct program *program;
    _Atomic(struct router *) router;
    struct server *server;
    struct guard guard;
    str prefix;      // of paths, which is taken away; without '/' at its end
    bool tells_all;  // has the pages that tell about all tenants
};

// A listener of a service (struct service_listener).
struct door {
    const struct service_listener *of;
    struct unit *unit;
    char address[ADDRESS_MAX];
    struct front front;
};

struct program {
    struct config *config;
    struct tenants *tenants;
    struct datadir datadir;
    int run_fd;                  // of the directory of a socket whose path is too long; else -1
    struct mem_budget memory;    // all that is counted
    struct mem_budget requests;  // bodies, arenas and answers
    struct mem_budget pushes;    // the part of requests that pushes may use
    struct mem_budget storage;   // buffers of reads and writes of objects
    struct mem_budget refusals;  // answers to requests that found no room; not part of `memory`
    struct mem_budget answers;   // answers until their clients have read them
    struct mem_budget reserve;   // for /ready and /metrics; not part of `memory` either
    struct loop *loops[LOOPS_MAX];
    size_t loop_count;
    struct loop *client_loop;
    struct client *client;
    struct client *probe_client;
    struct members *members;
    struct prober *prober;                    // or NULL
    _Atomic(struct discoverer *) discoverer;  // or NULL; freed when no handler runs any more
    struct front public;
    struct front internal;
    struct front admin;  // of pages about all tenants; without server: `public` has them
    char internal_address[PATH_MAX + 8];
    char public_address[ADDRESS_MAX];
    char admin_address[ADDRESS_MAX];  // empty: there is no such listener
    struct door doors[DOORS_MAX];     // those that are open
    size_t door_count;
    struct selfprofile *selfprofile;  // or NULL
    char id[256];
    struct node_identity identity;  // changes only before the routers are published
    id128 cluster;                  // of the store, once `cluster_known`
    char cluster_text[ULID_TEXT];
    atomic_bool cluster_known;
    atomic_bool store_unasked;  // the store's cluster could not be read yet
    atomic_bool store_untried;  // whether the store keeps its promises could not be tried yet
    uint64_t sizes_tried_ns;    // mono, when it was tried how large objects may be; 0: it was not.
    size_t size_taken;          // 0: not known. Of the start, and then of the thread that watches
    struct notices *notices;
    struct watch *watch;                   // or NULL
    struct lane *admin_lanes[RANK_COUNT];  // of the process' own pages, and of probes
    struct unit units[SERVICES_MAX];
    size_t unit_count;
    struct process process;
    struct registry *registry;  // for the page; NULL: there is no store

    _Atomic enum program_state state;
    struct lock lock;
    struct cond change;
    bool stop_wanted;
    bool reload_wanted;  // of certificates
    bool done;
    bool well;
    err fault;
};

// ---- program.c; all in the runner

str program_path_prefix(const struct server_settings *s);
bool program_open(struct program *p, err *e) MUST_CHECK;   // everything but the services
bool program_start(struct program *p, err *e) MUST_CHECK;  // the services; then it is READY
void program_reload_tls(struct program *p);                // logs the results
void program_drain(struct program *p);
void program_close(struct program *p);  // also after a start that failed half-way

// ---- doors.c: listeners of services; without one that cannot be opened the process goes on

void doors_open(struct program *p, const struct server_options *common);
void doors_publish(struct program *p, const struct router_options *o);
void doors_reload_tls(struct program *p, void (*tell)(const char *of, bool ok, const err *e));
void doors_drain(struct program *p, uint64_t timeout_ns);  // tells all, then waits
void doors_close(struct program *p);
void doors_free(struct program *p);                          // their routers, once no handler runs
void doors_print(const struct program *p, struct buf *out);  // for ports.json

// ---- storage.c: the store of objects, open while services run

// Checks what the client of a bucket would say of its settings: names, addresses, files. Asks
// nobody.
bool storage_check_client(struct program *p, err *e) MUST_CHECK;
bool storage_open(struct program *p, err *e) MUST_CHECK;  // sets process.store, or leaves it NULL
void storage_close(struct program *p);

// Does what the store did not let be done at the start: tries it out, reads its cluster. If it
// breaks its promises or is not this node's, the process ends.
void storage_ask(struct program *p);

// ---- front.c

struct server_app front_app(struct front *f);
void front_publish(struct front *f, struct router *r);  // takes r
void front_print_routes(struct front *f, struct buf *out);

// ---- admin.c: pages of the process itself

extern const struct http_route admin_routes[];  // all listeners; of a struct front
extern const size_t admin_route_count;
extern const struct http_route admin_public_routes[];  // not the internal one
extern const size_t admin_public_route_count;

// Is the process ready for traffic? Otherwise a line for each reason is appended to *why.
bool admin_is_ready(struct program *p, struct buf *why);

// The answer to /ready. Reasons and notices name nodes, addresses and directories: a page of
// another site gets the bare status.
void admin_ready(struct front *f, struct http_exchange *x);

// The bare status: one word, for which no memory is needed.
void admin_ready_bare(struct program *p, struct http_exchange *x);
void admin_metrics(struct http_exchange *x);

// ---- cluster.c: GET /cluster

bool cluster_get(void *self, struct http_exchange *x, err *e);  // self: struct program

// ---- node.c: the identity of this process, and its answers to probes

bool node_identify(struct program *p, err *e) MUST_CHECK;  // once its listeners are open

// The cluster of the store, once it is known; from then on calls to other nodes carry it, and nodes
// of another one are refused.
void node_joins(struct program *p, id128 cluster);
bool node_cluster(const struct program *p, id128 *cluster);  // false: zeros, it is not known
double node_load(const struct program *p);                   // of node_answer
bool node_admit(void *arg, const struct http_headers *h, err *e);

#define NODE_DIFFERENCE 40

// Is a node's clock too far from this process'? Then a notice is raised; `text` says how far.
bool node_clock_differs(struct program *p, str node, int64_t wall_ms, char text[NODE_DIFFERENCE]);
void node_differs(struct program *p, str node, id128 mine, str theirs);  // raises the notice

#define NODE_TOLD_NS ((uint64_t)(40 * NS_PER_S))  // how long such a notice stays

extern const struct rpc_method node_rpc[];  // the internal listener
extern const size_t node_rpc_count;

// grpc.health.v1 (health.c), on both.
extern const struct rpc_method health_rpc[];
extern const size_t health_rpc_count;

// ---- watch.c: a thread that compares identities of other nodes, and that of the store

struct watch *watch_start(struct program *p, err *e) MUST_CHECK;
void watch_stop(struct watch *w);  // NULL is fine
