// SPDX-License-Identifier: Apache-2.0
#include "ingester/presence.h"

#include "rpc/peer.h"
#include "service/service.h"
#include "sys/clock.h"

#define ASK_NS    ((uint64_t)NS_PER_S)
#define ASK_BYTES ((size_t)64 << 20)

static void take_answer(struct arena *a, struct peer_call *c, struct presence *out)
{
    struct node_answer answer;
    str bytes = {0};
    err ignored = {0};
    // arena_str copies what the answer lends, which goes with the call.
    if (!peer_answer(c, &bytes, &ignored) ||
        !node_read_answer(arena_str(a, bytes), &answer, &ignored)) {
        return;
    }
    // Another process may have that address by now.
    out->there = id128_eq(answer.node.directory, out->directory);
    if (out->there) out->who = answer.node;
}

void presence_ask(const struct process *p, struct arena *a, struct presence *v, size_t n)
{
    struct req r;
    struct buf message;
    size_t asked = 0;
    err ignored = {0};
    struct peer_call *calls = ARENA_ARRAY(a, struct peer_call, n + 1);
    struct call **waits = ARENA_ARRAY(a, struct call *, n + 1);
    struct presence **of = ARENA_ARRAY(a, struct presence *, n + 1);
    for (size_t i = 0; i < n; i++)
        v[i].there = false;
    if (!p->client || !calls || !waits || !of) return;
    // A request of its own: the caller's may have less time.
    buf_init(&message, NULL, NODE_MESSAGE_MAX);
    req_init(&r, RANK_DUTY, NULL, ASK_BYTES, ASK_NS);
    node_put_probe(p->identity, &message);
    for (size_t i = 0; i < n; i++) {
        if (v[i].address.n == 0) continue;
        peer_start(p->client, &r, &calls[asked], v[i].address, NODE_PROBE, buf_view(&message),
                   RANK_INGESTER, NODE_MESSAGE_MAX);
        waits[asked] = &calls[asked].http.call;
        of[asked++] = &v[i];
    }
    // Of all, answers are looked at one by one.
    if (asked) (void)!call_gather(&r, waits, asked, 0, false, &ignored);
    for (size_t i = 0; i < asked; i++) {
        take_answer(a, &calls[i], of[i]);
        peer_release(&calls[i]);
    }
    req_release(&r);
    buf_release(&message);
}
