// SPDX-License-Identifier: Apache-2.0
//
// Stores that break one of the promises each, and how the check names it.
#include "lib/memstore.h"
#include "lib/test.h"
#include "store/check.h"

#include <stdio.h>

struct rig {
    struct store *one;
    struct store *other;
    struct req req;
    const char *fault;  // the promise that is broken
    char name[STORE_NAME_MAX];
    char bytes[16];
    size_t n;
    unsigned looks;
    bool hidden;
};

// Takes the object away for the length of one operation.
static void hide(struct rig *r, const struct memstore_event *ev)
{
    char name[STORE_NAME_MAX];
    snprintf(name, sizeof name, "%.*s", STR(ev->name));
    if (ev->op != MEMSTORE_LIST) memcpy(r->name, name, sizeof name);
    if (!r->name[0] || !memstore_has(r->one, r->name)) return;
    str bytes = memstore_bytes(r->one, r->name);
    r->n = MIN(bytes.n, sizeof r->bytes);
    memcpy(r->bytes, bytes.p, r->n);
    memstore_drop(r->one, r->name);
    r->hidden = true;
}

static enum memstore_fault before(void *arg, const struct memstore_event *ev)
{
    struct rig *r = arg;
    bool first = ev->store == r->one;
    if (ev->op == MEMSTORE_CREATE) snprintf(r->name, sizeof r->name, "%.*s", STR(ev->name));
    bool reads = strcmp(r->fault, "negative") == 0 && ev->op == MEMSTORE_READ && first;
    bool lists = strcmp(r->fault, "list") == 0 && ev->op == MEMSTORE_LIST && first;
    bool creates = strcmp(r->fault, "twice") == 0 && ev->op == MEMSTORE_CREATE;
    if (reads || lists || creates) hide(r, ev);
    if (creates) r->hidden = false;  // the second creation stays
    return MEMSTORE_FINE;
}

static enum memstore_fault after(void *arg, const struct memstore_event *ev)
{
    struct rig *r = arg;
    (void)ev;
    if (r->hidden) memstore_set(r->one, r->name, str_make(r->bytes, r->n));
    r->hidden = false;
    return MEMSTORE_FINE;
}

static const id128 mine;

static void a_store_that_keeps_its_promises_passes(void **state)
{
    (void)state;
    struct store *one = memstore_open();
    struct store *other = memstore_again(one);
    struct req r;
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    memstore_set(one, "v1/check/00000000000000000000000000.00000000000000000000000000",
                 S("left by one that died with this data directory"));
    assert_ok(store_check(one, other, mine, &r, e));
    assert_int_equal(memstore_count(one, ""), 0);
    memstore_set(one, "v1/check/00000000000000000000000001.00000000000000000000000000",
                 S("of another process, whose clock may be days behind"));
    assert_ok(store_check(one, other, mine, &r, e));
    assert_int_equal(memstore_count(one, ""), 1);
    req_release(&r);
    store_close(other);
    store_close(one);
}

static void a_broken_promise_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *fault;
        const char *want;
    } cases[] = {
        {"negative", "goes on not to find it"},
        {"list", "a list lacks an object"},
        {"twice", "it accepts two creations of one name"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rig r = {.fault = cases[i].fault};
        err why = {0};
        r.one = memstore_open();
        r.other = memstore_again(r.one);
        memstore_set_hooks(r.one, before, after, &r);
        memstore_set_hooks(r.other, before, after, &r);
        req_init(&r.req, RANK_DUTY, NULL, 1 << 20, 0);
        if (store_check(r.one, r.other, mine, &r.req, &why)) fail_msg("%s passes", cases[i].fault);
        assert_int_equal(why.code, ERR_FAILED_PRECONDITION);
        if (!strstr(why.msg, cases[i].want)) fail_msg("%s: %s", cases[i].fault, why.msg);
        req_release(&r.req);
        store_close(r.other);
        store_close(r.one);
    }
}

static void a_store_that_is_away_is_not_called_broken(void **state)
{
    (void)state;
    for (int op = 0; op < MEMSTORE_OPS; op++) {
        struct store *one = memstore_open();
        struct store *other = memstore_again(one);
        struct req r;
        err why = {0};
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
        memstore_fail(one, (enum memstore_op)op, MEMSTORE_FAILS, 1, UINT64_MAX);
        assert_false(store_check(one, other, mine, &r, &why));
        assert_int_equal(why.code, ERR_UNAVAILABLE);
        req_release(&r);
        store_close(other);
        store_close(one);
    }
}

// ---- sizes

struct sized {
    size_t most;
    unsigned tries;
};

static enum memstore_fault is_over(void *arg, const struct memstore_event *ev)
{
    struct sized *z = arg;
    if (ev->op != MEMSTORE_CREATE) return MEMSTORE_FINE;
    z->tries++;
    return ev->bytes > z->most ? MEMSTORE_TOO_LARGE : MEMSTORE_FINE;
}

static void the_size_that_is_taken_is_found_in_some_tries(void **state)
{
    (void)state;
    static const size_t tried = (size_t)8 << 20;
    static const struct {
        const char *name;
        size_t most;
        unsigned tries;  // at most
    } cases[] = {
        {"no limit", SIZE_MAX, 1},
        {"just that", (size_t)8 << 20, 1},
        {"a byte less", ((size_t)8 << 20) - 1, STORE_SIZE_TRIES},
        {"nginx", (size_t)1 << 20, STORE_SIZE_TRIES},
        {"200 kB", 200000, STORE_SIZE_TRIES},
        {"very little", STORE_SIZE_LEAST + 1, STORE_SIZE_TRIES},
        {"nothing", STORE_SIZE_LEAST - 1, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sized z = {.most = cases[i].most};
        struct store *s = memstore_open();
        struct req r;
        err why = {0};
        size_t taken = 1;
        memstore_set_hooks(s, is_over, NULL, &z);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
        assert_ok(store_check_size(s, mine, &r, tried, &taken, &why, e));
        size_t most = MIN(cases[i].most, tried);
        if (most < STORE_SIZE_LEAST) most = 0;
        if (taken > most || taken < most - most / 8)
            fail_msg("%s: %zu is taken", cases[i].name, taken);
        if (z.tries > cases[i].tries) fail_msg("%s: %u tries", cases[i].name, z.tries);
        assert_int_equal(why.code, taken < tried ? ERR_OUT_OF_RANGE : ERR_OK);
        assert_int_equal(memstore_count(s, ""), 0);
        req_release(&r);
        store_close(s);
    }
}

static void a_size_that_cannot_be_tried_is_no_limit(void **state)
{
    (void)state;
    static const enum memstore_fault faults[] = {MEMSTORE_FAILS, MEMSTORE_LANDS};
    for (size_t i = 0; i < COUNT(faults); i++) {
        struct store *s = memstore_open();
        struct req r;
        err why = {0};
        err fault = {0};
        size_t taken = 0;
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
        memstore_fail(s, MEMSTORE_CREATE, faults[i], 1, 1);
        assert_false(store_check_size(s, mine, &r, 4096, &taken, &why, &fault));
        assert_int_equal(fault.code, ERR_UNAVAILABLE);
        assert_int_equal(memstore_count(s, ""), 0);
        req_release(&r);
        store_close(s);
    }
}

static void mounts_that_cache_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        const char *options;
        const char *want;  // NULL: fine
    } cases[] = {
        {"ext4", "rw", NULL},
        {"xfs", "rw,noquota", NULL},
        {"nfs4", "rw,vers=4.2,hard", "lookupcache=positive,actimeo=0"},
        {"nfs", "rw,lookupcache=pos", "mount it with actimeo=0"},
        {"nfs", "rw,lookupcache=none,actimeo=0", NULL},
        {"nfs4", "rw,lookupcache=positive,acdirmin=0,acdirmax=0", NULL},
        {"nfs4", "rw,lookupcache=all,noac", "lookupcache=positive"},
        {"cifs", "rw,cache=strict", "cache=none"},
        {"fuse.sshfs", "rw", "entry_timeout"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *why = store_check_options(str_of(cases[i].type), str_of(cases[i].options));
        if (!why != !cases[i].want) fail_msg("%s %s", cases[i].type, cases[i].options);
        if (why && !strstr(why, cases[i].want)) fail_msg("%s: %s", cases[i].type, why);
    }
    assert_null(store_check_mount("/proc"));
    assert_null(store_check_mount("/not/there"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_keeps_its_promises_passes),
        cmocka_unit_test(a_broken_promise_is_named),
        cmocka_unit_test(a_store_that_is_away_is_not_called_broken),
        cmocka_unit_test(the_size_that_is_taken_is_found_in_some_tries),
        cmocka_unit_test(a_size_that_cannot_be_tried_is_no_limit),
        cmocka_unit_test(mounts_that_cache_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
