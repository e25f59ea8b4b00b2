// SPDX-License-Identifier: Apache-2.0
//
// check.c - tries out at the start of a process what settings and service are good for.
#include "store/check.h"

#include "s3/engine.h"
#include "sys/rand.h"

#include <stdio.h>

#define RACERS     8
#define ROUNDS     3
#define ANSWER_MAX ((size_t)64 << 10)

// ---- access

static bool ask(struct s3 *s, struct req *r, struct s3_op *o, const char *what, err *e)
{
    err why = {0};
    o->tries_max = 2;  // keys and time are set right after the first
    o->answer_max = ANSWER_MAX;
    s3_run(s, r, o, 1);
    bool ok = s3_is_done(o);
    if (!ok) {
        s3_fault(s, o, what, S("v1/check"), &why);
        *e = why;
        // What has a web server's page for everything is no store at all.
        if (o->answered || o->cause == S3_STRANGE) e->code = ERR_FAILED_PRECONDITION;
    }
    s3_op_release(o);
    return ok;
}

bool s3_check_access(struct store *st, struct req *r, err *e)
{
    struct s3 *s = s3_of(st);
    struct arena *a = &r->arena;
    str key = arena_printf(a, "%s" STORE_CHECK_PREFIX "access.%016llx", s->prefix,
                           (unsigned long long)rand_u64());
    struct buf q;
    buf_init(&q, NULL, ANSWER_MAX);
    s->speech->list(&q, (str){0}, (str){0}, (str){0}, 1);
    str query = s3_text(a, &q);
    if (!arena_ok(a, e)) return false;
    return ask(s, r, &(struct s3_op){.action = S3_LIST, .query = query}, "list", e) &&
           ask(s, r, &(struct s3_op){.action = S3_PUT, .key = key, .body = S("1")}, "create", e) &&
           ask(s, r, &(struct s3_op){.action = S3_GET, .key = key}, "read", e) &&
           ask(s, r, &(struct s3_op){.action = S3_DELETE, .key = key}, "delete", e);
}

// ---- atomic creations

// A service that looks first and writes then keeps the promise to clients that come one after the
// other, and breaks it when two come at once, which is when it matters. So RACERS creations of one
// name begin together. *winners: how many of them the service called successful.
static bool race(struct s3 *s, struct req *r, str name, unsigned *winners, err *e)
{
    struct s3_op ops[RACERS];
    struct arena a;
    memset(ops, 0, sizeof ops);
    arena_init(&a, s->memory, ANSWER_MAX);
    for (unsigned i = 0; i < RACERS; i++) {
        ops[i] = (struct s3_op){.action = S3_PUT,
                                .key = s3_key(s, &a, name),
                                .extra = {{str_of(s->speech->nonce), arena_printf(&a, "%u", i)},
                                          s3_if_free(s)},
                                .extra_n = 2,
                                .body = S("race"),
                                .answer_max = ANSWER_MAX};
    }
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(s, r, ops, RACERS);
    *winners = 0;
    for (unsigned i = 0; ok && i < RACERS; i++) {
        ok = s3_is_done(&ops[i]) || (ops[i].answered && ops[i].cause == S3_TAKEN);
        if (!ok) s3_fault(s, &ops[i], "create", name, e);
        *winners += ok && s3_is_done(&ops[i]);
    }
    for (unsigned i = 0; i < RACERS; i++)
        s3_op_release(&ops[i]);
    arena_release(&a);
    return ok;
}

bool s3_check_races(struct store *st, struct req *r, err *e)
{
    char name[sizeof STORE_CHECK_PREFIX + 40];
    const struct s3 *s = s3_of(st);
    bool ok = true;
    for (unsigned i = 0; ok && i < ROUNDS; i++) {
        unsigned winners = 0;
        err ignored = {0};
        snprintf(name, sizeof name, STORE_CHECK_PREFIX "race.%016llx",
                 (unsigned long long)rand_u64());
        ok = race(s3_of(st), r, str_of(name), &winners, e);
        if (winners > 1) {
            ok = err_set(e, ERR_FAILED_PRECONDITION,
                         "it accepts %u of %u creations of one name at the same time; it must be a "
                         "service whose `%s: %s` is atomic (docs/operations.md, What the "
                         "store must guarantee)",
                         winners, RACERS, s->speech->if_free, s->speech->if_free_value);
        }
        (void)!store_delete(st, r, str_of(name), &ignored);
    }
    return ok;
}
