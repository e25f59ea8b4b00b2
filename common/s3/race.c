// SPDX-License-Identifier: Apache-2.0
//
// race.c - is a conditional creation atomic? A service that looks first and writes then keeps the
// promise to clients that come one after the other, and breaks it when two come at once, which is
// when it matters. So RACERS creations of one name begin together; one of them may succeed.
#include "s3/s3_int.h"
#include "store/check.h"
#include "sys/rand.h"

#include <stdio.h>

#define RACERS     8
#define ROUNDS     3
#define ANSWER_MAX ((size_t)64 << 10)

// How many of the creations the service called successful.
static bool race(struct s3 *s, struct req *r, str name, unsigned *winners, err *e)
{
    struct s3_op ops[RACERS];
    struct arena a;
    memset(ops, 0, sizeof ops);
    arena_init(&a, s->memory, ANSWER_MAX);
    for (unsigned i = 0; i < RACERS; i++)
        ops[i] = (struct s3_op){.action = S3_PUT,
                                .key = s3_key(s, &a, name),
                                .extra = {{S(S3_META_NONCE), arena_printf(&a, "%u", i)},
                                          {S("if-none-match"), S("*")}},
                                .extra_n = 2,
                                .body = S("race"),
                                .answer_max = ANSWER_MAX};
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(s, r, ops, RACERS);
    *winners = 0;
    for (unsigned i = 0; ok && i < RACERS; i++) {
        ok = ops[i].answered && (ops[i].call.status == 200 || ops[i].call.status == 412);
        if (!ok) s3_fault(s, &ops[i], "create", name, e);
        *winners += ok && ops[i].call.status == 200;
    }
    for (unsigned i = 0; i < RACERS; i++)
        s3_op_release(&ops[i]);
    arena_release(&a);
    return ok;
}

bool s3_check_races(struct store *st, struct req *r, err *e)
{
    char name[sizeof STORE_CHECK_PREFIX + 40];
    bool ok = true;
    for (unsigned i = 0; ok && i < ROUNDS; i++) {
        unsigned winners = 0;
        err ignored = {0};
        snprintf(name, sizeof name, STORE_CHECK_PREFIX "race.%016llx",
                 (unsigned long long)rand_u64());
        ok = race(s3_of(st), r, str_of(name), &winners, e);
        if (winners > 1)
            ok = err_set(e, ERR_FAILED_PRECONDITION,
                         "it accepts %u of %u creations of one name at the same time; it must be a "
                         "service whose `If-None-Match: *` is atomic (docs/operations.md, What the "
                         "store must guarantee)",
                         winners, RACERS);
        (void)!store_delete(st, r, str_of(name), &ignored);
    }
    return ok;
}
