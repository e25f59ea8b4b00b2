// SPDX-License-Identifier: Apache-2.0
//
// A prober, a node that answers, and a port behind which nobody takes what the kernel accepts: that
// is what a stopped process looks like.
#include "asked.h"
#include "cluster/probe.h"
#include "lib/await.h"
#include "lib/clock.h"
#include "sys/metric.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define INTERVAL_NS ((uint64_t)200 * (uint64_t)NS_PER_MS)

struct rig {
    struct asked at;
    struct prober *prober;
    atomic_int answer;  // an enum err_code
    atomic_bool ready;
    atomic_uint asked;
};

static bool answer_probe(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct rig *r = self;
    struct node_identity from;
    (void)x;
    if (!node_read_probe(in, &from, e)) return false;
    if (str_is(from.node, "asker")) atomic_fetch_add(&r->asked, 1);
    enum err_code code = (enum err_code)atomic_load(&r->answer);
    if (code != ERR_OK) return err_set(e, code, "as told");
    struct node_answer answer = {.node.node = S("node"), .ready = atomic_load(&r->ready)};
    node_put_answer(&answer, out);
    return buf_ok(out, e);
}

static const struct rpc_method rows[] = {
    {.path = NODE_PROBE, .run = answer_probe, .auth = ROUTE_INTERNAL, .rank = RANK_INGESTER}};

static int open_rig(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    asked_open(&r->at, rows, COUNT(rows), r);
    atomic_store(&r->ready, true);
    *state = r;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *r = *state;
    prober_stop(r->prober);
    asked_close(&r->at);
    free(r);
    return 0;
}

static void start(struct rig *r)
{
    struct prober_options o = {.client = r->at.client,
                               .members = r->at.members,
                               .self = &r->at.self,
                               .interval_ns = INTERVAL_NS};
    assert_ok((r->prober = prober_start(&o, e)));
}

static void add(struct rig *r, const char *id, unsigned port)
{
    char entry[64];
    snprintf(entry, sizeof entry, "%s=127.0.0.1:%u", id, port);
    assert_ok(members_add(r->at.members, MEMBER_INGESTER, str_of(entry), e));
}

static struct member look(struct rig *r, const char *id)
{
    struct arena a;
    size_t n = 0;
    struct member found = {0};
    arena_init(&a, NULL, 1 << 16);
    const struct member *v = members_of(r->at.members, &a, MEMBER_INGESTER, &n);
    for (size_t i = 0; i < n; i++)
        if (str_is(v[i].id, id)) found = v[i];
    arena_release(&a);
    return found;
}

// A port that takes connections and bytes for ever, and never says a word.
static int open_mute(unsigned *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof at;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_not_equal(fd, -1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void a_node_that_answers_stays_alive(void **state)
{
    struct rig *r = *state;
    add(r, "node", asked_serve(&r->at, 0));
    start(r);
    AWAIT(atomic_load(&r->asked) >= 4);
    assert_true(look(r, "node").alive && !look(r, "node").unready);
    atomic_store(&r->ready, false);
    AWAIT(look(r, "node").unready);
    assert_true(look(r, "node").alive);
    atomic_store(&r->ready, true);
    AWAIT(!look(r, "node").unready);
}

static void a_node_that_takes_probes_and_says_nothing_is_dead_until_it_answers(void **state)
{
    struct rig *r = *state;
    unsigned port = 0;
    int mute = open_mute(&port);
    add(r, "node", port);
    start(r);
    AWAIT(!look(r, "node").alive);
    assert_int_equal(close(mute), 0);
    asked_serve(&r->at, port);
    AWAIT(look(r, "node").alive);
}

static void a_node_that_is_gone_is_dead_until_it_answers(void **state)
{
    struct rig *r = *state;
    unsigned port = asked_serve(&r->at, 0);
    add(r, "node", port);
    start(r);
    AWAIT(atomic_load(&r->asked) > 0);
    asked_serve_no_more(&r->at);
    AWAIT(!look(r, "node").alive);
    asked_serve(&r->at, port);
    AWAIT(look(r, "node").alive);
}

// What stands before a process that starts says "unavailable"; any other refusal is an answer.
static void a_node_that_starts_is_not_alive_and_one_that_refuses_is(void **state)
{
    struct rig *r = *state;
    add(r, "node", asked_serve(&r->at, 0));
    atomic_store(&r->answer, ERR_UNAVAILABLE);
    start(r);
    AWAIT(!look(r, "node").alive);
    atomic_store(&r->answer, ERR_RESOURCE_EXHAUSTED);
    AWAIT(look(r, "node").alive);
}

static void one_that_hangs_does_not_hide_another(void **state)
{
    struct rig *r = *state;
    unsigned port = 0;
    int mute = open_mute(&port);
    add(r, "mute", port);
    add(r, "node", asked_serve(&r->at, 0));
    start(r);
    AWAIT(!look(r, "mute").alive);
    unsigned asked = atomic_load(&r->asked);
    assert_true(asked >= MEMBER_FAILURES_MAX);
    AWAIT(atomic_load(&r->asked) >= asked + 3);
    AWAIT(look(r, "node").alive);
    assert_false(look(r, "mute").alive);
    assert_int_equal(close(mute), 0);
}

static unsigned metric_of(const char *name)
{
    struct buf out;
    unsigned n = 0;
    buf_init(&out, NULL, (size_t)64 << 20);
    metric_print(&out);
    buf_byte(&out, 0);
    const char *row = strstr(out.p, name);
    if (row) assert_int_equal(sscanf(row + strlen(name), " %u", &n), 1);
    buf_release(&out);
    return n;
}

static unsigned failed_probes(void)
{
    return metric_of("\nflametree_cluster_probes_total{result=\"failed\"}");
}

// It sees its own time limits pass all at once: that says nothing about the others.
static void a_process_that_stood_still_takes_nobody_for_dead(void **state)
{
    struct rig *r = *state;
    unsigned port = 0;
    int mute = open_mute(&port);
    add(r, "node", port);
    unsigned before = failed_probes();
    start(r);
    AWAIT((clock_pass_mono(10 * NS_PER_S), failed_probes() >= before + 2 * MEMBER_FAILURES_MAX));
    assert_true(look(r, "node").alive);
    AWAIT(!look(r, "node").alive);
    assert_int_equal(close(mute), 0);
}

static void a_process_does_not_probe_itself(void **state)
{
    struct rig *r = *state;
    unsigned port = asked_serve(&r->at, 0);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    r->at.self.address = str_of(address);
    add(r, "itself", port);
    unsigned other = 0;
    int mute = open_mute(&other);
    add(r, "mute", other);
    start(r);
    AWAIT(!look(r, "mute").alive);
    assert_int_equal(atomic_load(&r->asked), 0);
    assert_true(look(r, "itself").alive);
    assert_int_equal(close(mute), 0);
}

static void a_round_without_memory_is_counted(void **state)
{
    struct rig *r = *state;
    static char entry[(size_t)1 << 20];
    memset(entry, 'x', sizeof entry);
    for (char id = 'a'; id < 'g'; id++) {  // more than a round may hold
        entry[0] = id;
        assert_ok(members_add(r->at.members, MEMBER_INGESTER, str_make(entry, sizeof entry), e));
    }
    start(r);
    AWAIT(metric_of("\nflametree_cluster_skipped_rounds_total") >= 2);
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_that_answers_stays_alive, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(
            a_node_that_takes_probes_and_says_nothing_is_dead_until_it_answers, open_rig,
            close_rig),
        cmocka_unit_test_setup_teardown(a_node_that_is_gone_is_dead_until_it_answers, open_rig,
                                        close_rig),
        cmocka_unit_test_setup_teardown(a_node_that_starts_is_not_alive_and_one_that_refuses_is,
                                        open_rig, close_rig),
        cmocka_unit_test_setup_teardown(one_that_hangs_does_not_hide_another, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_process_that_stood_still_takes_nobody_for_dead, open_rig,
                                        close_rig),
        cmocka_unit_test_setup_teardown(a_process_does_not_probe_itself, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_round_without_memory_is_counted, open_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
