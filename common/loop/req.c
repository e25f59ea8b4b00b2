// SPDX-License-Identifier: Apache-2.0
//
// req.c - what a job carries: memory, deadline, cancel flag, and the calls that it waits for.
#include "loop/req.h"

#include "base/ulid.h"
#include "sys/clock.h"
#include "sys/rand.h"

static_assert(sizeof((struct req){0}.request_id) == ULID_TEXT, "a request id is a ULID");

void req_init(struct req *r, enum rank rank, struct mem_budget *memory, size_t cap,
              uint64_t timeout_ns)
{
    assert(rank < RANK_COUNT);
    *r = (struct req){.rank = rank};
    arena_init(&r->arena, memory, cap);
    if (timeout_ns) r->deadline_mono_ns = clock_mono_ns() + timeout_ns;
    uint8_t random[10];
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random), r->request_id);
    r->log.request_id = str_of(r->request_id);
}

void req_release(struct req *r)
{
    arena_release(&r->arena);
    r->tenant = (str){0};
    r->log.tenant = (str){0};
}

bool req_alive(const struct req *r, err *e)
{
    assert(r);
    // Upwards through the calls inside the process: a client that left ends all that is done for
    // it.
    for (const struct req *at = r; at; at = at->asker) {
        if (atomic_load_explicit(&at->canceled, memory_order_relaxed))
            return err_set(e, ERR_CANCELED, "the client went away");
    }
    if (req_left_ns(r) == 0)
        return err_set(e, ERR_DEADLINE_EXCEEDED, "the request's deadline has passed");
    return true;
}

uint64_t req_left_ns(const struct req *r)
{
    if (r->deadline_mono_ns == 0) return UINT64_MAX;
    uint64_t now = clock_mono_ns();
    return r->deadline_mono_ns > now ? r->deadline_mono_ns - now : 0;
}
