// SPDX-License-Identifier: Apache-2.0
//
// The last step of the deletion of a tenant: its name is free once nothing of it was in the store
// for as long as a late writer may take.
#include "compactor/compactor.h"
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

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_late_object_is_deleted_and_the_wait_begins_anew, set_up,
                                        tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
