// SPDX-License-Identifier: Apache-2.0
//
// directories.c - the data directories that replies named, by ingester; in memory only.
#include "service/directories.h"

#include "base/mem.h"
#include "service/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"

#include <stdio.h>

#define REMEMBER_MAX 256  // directories of all nodes; further ones are not noted

// Clocks of machines differ: a profile may be ahead of this machine's clock by so much.
#define SLACK_NS (INT64_C(3600) * NS_PER_S)

struct remembered {
    char node[256];
    id128 directory;
    int64_t until_ns;  // wall clock when the node was seen with another one; INT64_MAX: it was not
};

struct directories {
    struct notices *notices;
    struct lock lock;  // of what follows
    struct remembered v[REMEMBER_MAX];
    size_t n;
    size_t nodes;
};

struct directories *directories_new(struct notices *n)
{
    struct directories *d = mem_must(sizeof *d);
    d->notices = n;
    lock_init(&d->lock, LOCK_PROCESS);
    return d;
}

void directories_free(struct directories *d)
{
    if (!d) return;
    lock_release(&d->lock);
    mem_must_free(d);
}

// Notes that the node has this directory now and no other. *first is the one that it had first.
static void note(struct directories *d, str node, id128 directory, id128 *first)
{
    struct remembered *own = NULL;
    bool known = false;
    *first = directory;
    assert(lock_is_mine(&d->lock));
    for (size_t i = 0; i < d->n; i++) {
        struct remembered *r = &d->v[i];
        if (!str_is(node, r->node)) continue;
        if (!known) *first = r->directory;
        known = true;
        if (id128_eq(r->directory, directory)) {
            own = r;
        } else {
            // The earliest sight of another directory ends it. It may come back, and then counts
            // again.
            r->until_ns = MIN(r->until_ns, clock_wall_ns());
        }
    }
    if (!own && d->n < REMEMBER_MAX && node.n < sizeof own->node) {
        own = &d->v[d->n++];
        snprintf(own->node, sizeof own->node, "%.*s", STR(node));
        own->directory = directory;
        d->nodes += !known;
    }
    if (own) own->until_ns = INT64_MAX;
    assert(d->n <= REMEMBER_MAX && d->nodes <= d->n);
}

void directories_saw(struct directories *d, str node, id128 directory)
{
    id128 first;
    if (!d || id128_eq(directory, (id128){0})) return;
    lock_take(&d->lock);
    note(d, node, directory, &first);
    metric_set(&service_nodes_remembered, (int64_t)d->nodes);
    lock_give(&d->lock);
    if (id128_eq(first, directory)) {
        notice_end(d->notices, "node.replaced", node);
        return;
    }
    char was[ULID_TEXT];
    char is[ULID_TEXT];
    ulid_print(first, was);
    ulid_print(directory, is);
    notice_raise(d->notices, "node.replaced", node, NOTICE_FOREVER,
                 "it has data directory %s now and had %s: what is in that one is missing in "
                 "answers; is it mounted?",
                 is, was);
}

bool directories_lack(struct directories *d, str node, id128 directory, int64_t from_ns,
                      char text[DIRECTORIES_TEXT])
{
    const struct remembered *lacks = NULL;
    if (!d || id128_eq(directory, (id128){0})) return false;
    lock_take(&d->lock);
    for (size_t i = 0; i < d->n && !lacks; i++) {
        const struct remembered *r = &d->v[i];
        if (!str_is(node, r->node) || id128_eq(r->directory, directory)) continue;
        // Profiles may be ahead of this clock, so the end of a directory's time has some slack.
        bool may_lack = r->until_ns > INT64_MAX - SLACK_NS || from_ns < r->until_ns + SLACK_NS;
        if (may_lack) lacks = r;
    }
    if (lacks) {
        char ulid[ULID_TEXT];
        ulid_print(lacks->directory, ulid);
        snprintf(text, DIRECTORIES_TEXT, "%s: data directory %s is gone", lacks->node, ulid);
    }
    lock_give(&d->lock);
    return lacks != NULL;
}
