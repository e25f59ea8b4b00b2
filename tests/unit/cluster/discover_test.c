// SPDX-License-Identifier: Apache-2.0
//
// Members that are found by name, with a DNS server and a node that answers.
#include "asked.h"
#include "cluster/discover.h"
#include "lib/await.h"
#include "lib/names.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define HOUR_NS (3600 * (uint64_t)NS_PER_S)

struct rig {
    struct asked at;
    struct discoverer *discoverer;
    struct names names;
    char entry[64];           // of the name
    const char *lists[2][2];  // of ingesters, as they are configured
    size_t counts[2];
    atomic_size_t list;  // that of now
};

static bool answer_probe(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct node_identity from;
    (void)self, (void)x;
    if (!node_read_probe(in, &from, e)) return false;
    struct node_answer answer = {.ready = true};
    answer.node.node = S("node");
    answer.node.services[answer.node.service_count++] = S("ingester");
    node_put_answer(&answer, out);
    return buf_ok(out, e);
}

static const struct rpc_method rows[] = {
    {.path = NODE_PROBE, .run = answer_probe, .auth = ROUTE_INTERNAL, .rank = RANK_INGESTER}};

static void entries_of(void *arg, enum member_kind kind, const char *const **v, size_t *n)
{
    struct rig *r = arg;
    size_t list = atomic_load(&r->list);
    *v = kind == MEMBER_INGESTER ? r->lists[list] : NULL;
    *n = kind == MEMBER_INGESTER ? r->counts[list] : 0;
}

static int open_rig(void **state)
{
    static const char *const addresses[] = {"127.0.0.1"};
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    asked_open(&r->at, rows, COUNT(rows), r);
    unsigned port = asked_serve(&r->at, 0);
    names_start(&r->names, "nodes.test", addresses, COUNT(addresses));
    snprintf(r->entry, sizeof r->entry, "dns:nodes.test:%u", port);
    *state = r;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *r = *state;
    discover_stop(r->discoverer);
    discover_free(r->discoverer);
    names_end(&r->names);
    asked_close(&r->at);
    free(r);
    return 0;
}

// Looks names up at the start, and then not within this test.
static void start(struct rig *r)
{
    struct discover_options o = {.client = r->at.client,
                                 .members = r->at.members,
                                 .self = &r->at.self,
                                 .interval_ns = HOUR_NS,
                                 .servers = r->names.server,
                                 .entries = entries_of,
                                 .arg = r};
    assert_ok((r->discoverer = discover_start(&o, e)));
}

// Was the name looked up since then? If so, *at is when.
static bool looked_up(struct rig *r, uint64_t *at)
{
    struct arena a;
    size_t n = 0;
    arena_init(&a, NULL, 1 << 16);
    const struct discover_name *v = discover_names(r->discoverer, &a, &n);
    bool fresh = n == 1 && v->n == 1 && v->answered_mono_ns > *at;
    if (fresh) *at = v->answered_mono_ns;
    arena_release(&a);
    return fresh;
}

static size_t ingesters(struct rig *r)
{
    struct arena a;
    size_t n = 0;
    arena_init(&a, NULL, 1 << 16);
    (void)members_of(r->at.members, &a, MEMBER_INGESTER, &n);
    arena_release(&a);
    return n;
}

static void names_of_a_new_list_are_looked_up_at_once(void **state)
{
    struct rig *r = *state;
    uint64_t at = 0;
    r->lists[0][0] = r->lists[1][0] = r->entry;
    r->lists[1][1] = "other=127.0.0.1:1";
    r->counts[0] = 1;
    r->counts[1] = 2;
    start(r);
    AWAIT(looked_up(r, &at));
    AWAIT(ingesters(r) == 1);
    atomic_store(&r->list, 1);
    AWAIT(looked_up(r, &at));
    AWAIT(ingesters(r) == 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_of_a_new_list_are_looked_up_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
