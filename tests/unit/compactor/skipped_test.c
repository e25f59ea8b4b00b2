// SPDX-License-Identifier: Apache-2.0
//
// More tenants than a compactor has memory to note: those that are left out are counted, the others
// are compacted, and once there is memory nobody is left out.
#include "compactor/compactor.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "lib/await.h"
#include "lib/clock.h"
#include "lib/dir.h"
#include "unit/compactor/fleet.h"

#define TENANTS 500
#define LITTLE  ((size_t)160 << 10)
#define ENOUGH  ((size_t)64 << 20)

static void note_tenants(struct store *store)
{
    struct req r;
    err fault = {0};
    struct manifests *ms = manifests_open(store, NULL, NULL, &fault);
    for (size_t i = 0; i < TENANTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "tenant-%03zu", i);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
        assert_ok(tenants_note(ms, &r, str_of(name), e));
        req_release(&r);
    }
    manifests_close(ms);
}

static size_t noted(struct work *w)
{
    lock_take(&w->lock);
    size_t n = w->tenant_count;
    lock_give(&w->lock);
    return n;
}

static int64_t skipped(void)
{
    return atomic_load(&compactor_skipped_tenants.cells[0].sum);
}

// The list of tenants is due once a minute at the latest.
static bool list_again(struct work *w)
{
    clock_pass_mono(SLOT_MINUTE);
    lock_take(&w->lock);
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
    return true;
}

static void tenants_without_memory_are_counted_until_there_is_some(void **state)
{
    static const struct config_section *const sections[] = {&compactor_section};
    static const char *const argv[] = {"test", "--compactor.workers=1"};
    static struct mem_budget memory;  // a test that fails leaves its threads
    (void)state;
    struct config_args args;
    char dir[DIR_MAX];
    err fault = {0};
    struct store *store = memstore_open();
    dir_new(dir);
    note_tenants(store);
    struct config *config = config_new(sections, 1);
    assert_ok(config_load(config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    struct members *members = members_new(&fault);
    mem_budget_init(&memory, "test", NULL, LITTLE);
    const struct process process = {.config = config,
                                    .members = members,
                                    .memory = &memory,
                                    .data_dir = dir,
                                    .store = store,
                                    .id = "c0"};
    struct work *w = work_new(&process, &fault);
    assert_non_null(w);
    AWAIT(skipped() > 0);
    assert_true(noted(w) > 0);
    assert_true(noted(w) < TENANTS);
    atomic_store(&memory.limit, ENOUGH);
    AWAIT(list_again(w) && noted(w) == TENANTS && skipped() == 0);
    work_drain(w);
    work_free(w);
    members_free(members);
    config_free(config);
    store_close(store);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_without_memory_are_counted_until_there_is_some)};
    clock_take_over();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
