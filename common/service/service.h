// SPDX-License-Identifier: Apache-2.0
//
// service.h - the description of a service, and the program around one or several of them.
//
// A service is described by rows (its settings, metrics, routes on the public and on the internal
// listener) and by a few functions. service_main runs any set of them in one process: it reads the
// configuration, opens the data directory, makes loops, lanes, client and listeners, starts the
// services, serves, and on SIGTERM or SIGINT drains: stop accepting, finish what runs, drain the
// services, stop. A second such signal ends the process at once with code 1.
//
//     start:  settings -> data directory -> loops, lanes, client -> listeners (they answer
//             "starting") -> services' start, in order -> routes -> ready
//     stop:   public listeners drain -> services' retire -> the internal listener drains ->
//             services' drain, stop, in reverse -> lanes, loops -> exit 0
//
// Services talk to each other only through the internal listener's protocol, also within one
// process (there without a socket: net/loopback.h).
#pragma once

#include "cluster/member.h"
#include "cluster/node.h"
#include "net/client.h"
#include "rpc/route.h"
#include "service/config.h"
#include "service/notice.h"
#include "service/tenant.h"
#include "store/store.h"
#include "sys/metric.h"

// The parts of a process that its services use. Borrowed for their whole life.
struct process {
    const struct config *config;
    struct mem_budget *memory;  // the whole process
    struct client *client;      // to other nodes
    struct members *members;
    const char *data_dir;  // absolute; subdirectories are the services' own
    struct store *store;   // objects; NULL: none is configured, and heads keep everything
    size_t store_takes;    // bytes of the largest object that it takes; 0: a limit is not known
    const char *id;        // this process' member id
    const struct node_identity *identity;  // cluster: only if the store was read at the start
    bool all_in_one;
    unsigned public_port;             // the real one
    const char *public_address;       // by which this process reaches its own public listener
    const char *internal_address;     // by which this process reaches its own internal listener
    struct notices *notices;          // or NULL (notice.h)
    struct directories *directories;  // of ingesters; NULL: there is a store (directories.h)
    struct program *program;          // private to this room; NULL: none, in tests
};

// The cluster of the process' store; false, and zeros, as long as it is not known.
bool process_cluster(const struct process *process, id128 *cluster);

// Is `other` a second process with the id of `me`? node_tell_twin raises the notice node.twin.
bool node_is_twin(const struct node_identity *me, const struct node_identity *other);
void node_tell_twin(const struct process *process, const struct node_identity *other);

// One more listener for clients, at the port that a protocol's clients know. It has the TLS files,
// limits and tenants of the public one. If it cannot be opened, that is logged and the process goes
// on without it.
struct service_listener {
    const char *name;     // in logs and metrics
    const char *setting;  // that has its address
    // The address; empty: no such listener. Without a host (":4317") the host is that of
    // server.listen.
    const char *(*address)(const struct config *c);
    const struct rpc_method *rpc;  // rows that it answers, all of them rows of the service
    size_t rpc_count;
    const struct http_route *http;
    size_t http_count;
};

#define SERVICE_BACKLOG_MAX 4

struct service_backlog {
    const char *what;  // "bytes_in_log": in words, with '_' for blanks
    uint64_t n;
};

struct service {
    const char *name;
    const struct config_section *config;  // or NULL
    struct metric *const *metrics;
    const size_t *metric_count;
    const struct rpc_method *public_rpc;
    size_t public_rpc_count;
    const struct http_route *public_http;
    size_t public_http_count;
    const struct rpc_method *internal_rpc;
    size_t internal_rpc_count;
    const struct service_listener *listeners;
    size_t listener_count;

    // Files below the data directory of which one exists once the service has stored data there;
    // none: it stores none. If all are gone, the directory was replaced (datadir.h).
    const char *keeps[2];

    bool writes_objects;  // large ones: the start tries whether the store takes them

    // Checks of the service's settings that bounds of single rows cannot express; NULL: none.
    bool (*check)(const struct config *c, err *e);

    // Returns owned state in *self. May block (recovery); /ready says "starting" meanwhile.
    bool (*start)(const struct process *process, void **self, err *e);

    // Is it ready for traffic? Otherwise one line with the reason. Cheap; any thread.
    bool (*ready)(void *self, struct buf *why);

    // The process is about to drain: requests that wait for a long event should end now. Must be
    // short; NULL: there are none.
    void (*draining)(void *self);

    // Nobody outside of the cluster asks any more, and other nodes still do: give away what they
    // would miss. NULL: they miss nothing.
    void (*retire)(void *self, uint64_t deadline_mono_ns);

    // No new work comes any more; finish what must be finished before `deadline_mono_ns`.
    // NULL: nothing is left when the last request has ended.
    void (*drain)(void *self, uint64_t deadline_mono_ns);
    void (*stop)(void *self);  // frees self

    // The backlog of the service, for GET /cluster: fills rows and returns their number. Any
    // thread. NULL: nothing ever does.
    size_t (*backlog)(void *self, struct service_backlog rows[SERVICE_BACKLOG_MAX]);

    // Width of the service's lanes by rank where the settings leave it open; 0: four a processor.
    unsigned lane_width[RANK_COUNT];
};

// Runs services until a signal. Returns the exit code: 0 after a clean stop, 1 when start failed
// (the reason is one line on stderr), 2 for wrong usage or configuration.
int service_main(const struct service *const *services, size_t n, int argc, char **argv);

// Version and revision of the build, for --version and buildinfo.
extern const char service_version[];
extern const char service_revision[];
