// SPDX-License-Identifier: Apache-2.0
//
// Steps of the deletion of a tenant: it is closed once nobody acknowledges its pushes any more, and
// its name is free once nothing of it was in the store for as long as a late writer may take.
#include "compactor/closing.h"
#include "compactor/compactor.h"
#include "compactor/confirm.h"
#include "compactor/work_int.h"
#include "lib/clock.h"
#include "lib/dir.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/names.h"

#define GONE "gone"

// How long late writers are waited for, with the settings below (closing.c).
#define GRACE_NS CLOSED_LEAST

struct bench {
    char dir[DIR_MAX];
    struct store *store;
    struct config *config;
    struct members *members;
    struct process process;
    struct work *work;
};

static int set_up(void **state)
{
    static const struct config_section *const sections[] = {&compactor_section};
    // No worker: a step is taken when the test says so.
    static const char *const argv[] = {"test", "--compactor.workers=0",
                                       "--compactor.delete_delay=0s", "--compactor.orphan_age=1h"};
    struct config_args args;
    err fault = {0};
    struct bench *b = mem_must(sizeof *b);
    dir_new(b->dir);
    b->store = memstore_open();
    b->config = config_new(sections, 1);
    assert_ok(config_load(b->config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    b->members = members_new(&fault);
    b->process = (struct process){.config = b->config,
                                  .members = b->members,
                                  .data_dir = b->dir,
                                  .store = b->store,
                                  .id = "c0"};
    b->work = work_new(&b->process, &fault);
    assert_non_null(b->work);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    work_drain(b->work);
    work_free(b->work);
    members_free(b->members);
    config_free(b->config);
    store_close(b->store);
    dir_remove(b->dir);
    mem_must_free(b);
    return 0;
}

// All steps that are due; then, is the tenant's name still taken?
static bool step(struct bench *b)
{
    struct req r;
    struct work_done done;
    bool closed = false;
    req_init(&r, RANK_DUTY, NULL, 1 << 22, 0);
    assert_ok(work_run(b->work, &r, false, &done, e));
    assert_ok(tenants_is_closed(b->work->manifests, &r, S(GONE), &closed, e));
    req_release(&r);
    return closed;
}

static void a_late_object_is_deleted_and_the_wait_begins_anew(void **state)
{
    struct bench *b = *state;
    struct req r;
    const struct segment_name late = {.hour = 500000, .stream = {{1}}, .cut = 1};
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    assert_ok(tenants_note_closed(b->work->manifests, &r, S(GONE), e));
    const char *name = name_segment(&r.arena, S(GONE), &late).p;
    assert_true(step(b));  // nothing is left
    clock_pass(GRACE_NS - NS_PER_S);
    assert_true(step(b));
    memstore_set(b->store, name, S("a segment"));
    assert_true(step(b));
    assert_false(memstore_has(b->store, name));
    clock_pass(2 * NS_PER_S);
    assert_true(step(b));
    clock_pass(GRACE_NS - NS_PER_S);
    assert_true(step(b));
    clock_pass(2 * NS_PER_S);
    assert_false(step(b));
    req_release(&r);
}

// ---- who must have confirmed

static struct registered_stream of(uint8_t stream, const char *node, uint8_t boot,
                                   const char *address)
{
    return (struct registered_stream){.stream = {{stream}},
                                      .node = str_of(node),
                                      .boot = {{boot}},
                                      .address = str_of(address),
                                      .directory = {{boot}},
                                      .why = S("403")};
}

static void streams_are_waited_for_whose_own_process_has_not_confirmed(void **state)
{
    (void)state;
    struct arena a;
    struct registered_stream rows[] = {
        of(1, "i1", 1, "h:1"),  // confirmed
        of(2, "i1", 1, "h:0"),  // of the same process, which had another address
        of(3, "i1", 9, "h:1"),  // of an earlier process at this address
        of(4, "i2", 2, "h:2"),  // did not answer
        of(5, "i3", 3, "h:3"),  // answered that it does not know
        of(6, "", 1, ""),       // cannot be read
        of(7, "i4", 4, ""),     // has told no address
    };
    const struct confirm_answer answers[] = {
        {.address = S("h:1"), .boot = {{1}}, .confirmed = true},
        {.address = S("h:2"), .why = S("timed out")},
        {.address = S("h:3"), .boot = {{3}}, .why = S("does not know")},
    };
    static const struct {
        uint8_t stream;
        const char *node;
        const char *why;
    } want[] = {{3, "i1", "another process answers at h:1"},
                {4, "i2", "timed out"},
                {5, "i3", "does not know"},
                {6, "", "its registration cannot be read: 403"},
                {7, "i4", "it was not asked"}};
    struct unconfirmed out[COUNT(rows)];
    const struct registered list = {.v = rows, .n = COUNT(rows)};
    arena_init(&a, NULL, 1 << 16);
    assert_int_equal(confirm_left(&a, &list, answers, COUNT(answers), out), COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(out[i].stream.b[0], want[i].stream);
        assert_true(str_is(out[i].node, want[i].node) && str_is(out[i].why, want[i].why));
    }
    arena_release(&a);
}

static void assert_waits(struct bench *b, struct req *r, const char *says)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 16);
    assert_ok(closing_print(b->work, r, S(GONE), &out, e));
    buf_byte(&out, '\0');
    if (!strstr(out.p, says)) fail_msg("%s is not in %s", says, out.p);
    buf_release(&out);
}

// Something on the way keeps answers: each second list of streams is one of before.
static enum memstore_fault list_old_streams(void *arg, const struct memstore_event *ev)
{
    unsigned *lists = arg;
    if (ev->op != MEMSTORE_LIST || !str_eq(ev->name, name_streams())) return MEMSTORE_FINE;
    return ++*lists % 2 ? MEMSTORE_FINE : MEMSTORE_OLD;
}

// The process of a registered stream cannot be asked: nothing is hidden before the stream is gone.
static void a_tenant_is_not_closed_before_all_streams_have_confirmed_or_ended(void **state)
{
    struct bench *b = *state;
    struct req r;
    struct req brief;
    struct manifest_tombstone t;
    bool existed = false;
    err why = {0};
    unsigned lists = 0;
    const struct registered_stream s = of(1, "unlisted-7", 1, "");
    memstore_remember(b->store);
    req_init(&r, RANK_PUBLIC, NULL, 1 << 22, 0);
    req_init(&brief, RANK_PUBLIC, NULL, 1 << 22, 3 * NS_PER_S);  // half of it is waited for
    assert_ok(stream_register(b->store, &r, &s, &existed, e));
    assert_false(closing_begin(b->work, &brief, S(GONE), &t, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(why.msg, "unlisted-7"));
    assert_waits(b, &r, "\"state\":\"noted\"");
    assert_waits(b, &r, "\"node\":\"unlisted-7\"");
    assert_true(step(b));  // a compactor tries again
    assert_waits(b, &r, "\"state\":\"noted\"");
    assert_waits(b, &r, "\"node\":\"unlisted-7\"");
    memstore_set_hooks(b->store, list_old_streams, NULL, &lists);
    (void)step(b);
    assert_in_range(lists, 2, 10);
    memstore_set_hooks(b->store, NULL, NULL, NULL);
    assert_waits(b, &r, "\"state\":\"noted\"");
    assert_waits(b, &r, "\"node\":\"unlisted-7\"");
    assert_ok(stream_unregister(b->store, &r, s.stream, e));
    assert_ok(closing_begin(b->work, &r, S(GONE), &t, e));
    assert_waits(b, &r, "\"state\":\"waiting\"");
    assert_waits(b, &r, "\"waits_for\":[]");
    req_release(&brief);
    req_release(&r);
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_waited_for_whose_own_process_has_not_confirmed),
        cmocka_unit_test_setup_teardown(
            a_tenant_is_not_closed_before_all_streams_have_confirmed_or_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_late_object_is_deleted_and_the_wait_begins_anew, set_up,
                                        tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
