// SPDX-License-Identifier: Apache-2.0
//
// When tenants have to give profiles because the store has too many bytes, or its disk too little
// room. The disk is the one that the test runs on, whatever it has: what a sweep will delete counts
// as room, and of that there is more than any disk has.
#include "compactor/compactor.h"
#include "compactor/work_int.h"
#include "lib/dir.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "service/settings.h"

#define HAVE ((uint64_t)1000)  // bytes of each of two tenants

struct limit_case {
    const char *name;
    const char *flag;
    uint64_t swept;    // what a sweep will delete
    uint64_t allowed;  // to each tenant; 0: any number
};

static void check(const struct limit_case *c)
{
    const struct config_section *sections[SETTINGS_MAX + 1] = {&compactor_section};
    size_t n = 1;
    char dir[DIR_MAX];
    char storage[DIR_MAX + 32];
    struct config_args args;
    err fault = {0};
    for (size_t i = 0; i < settings_section_count; i++)
        sections[n++] = settings_sections[i];
    dir_new(dir);
    snprintf(storage, sizeof storage, "--storage.dir=%s", dir);
    const char *const argv[] = {"test", "--compactor.workers=0", storage, c->flag};
    struct config *config = config_new(sections, n);
    assert_ok(config_load(config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    struct members *members = members_new(&fault);
    struct store *store = memstore_open();
    const struct process process = {
        .config = config, .members = members, .data_dir = dir, .store = store, .id = "c0"};
    struct work *w = work_new(&process, &fault);
    assert_non_null(w);
    lock_take(&w->lock);
    struct tenant_work *tenants[] = {work_tenant(w, S("a")), work_tenant(w, S("b"))};
    for (size_t i = 0; i < COUNT(tenants); i++) {
        tenants[i]->inspected = true;
        tenants[i]->bytes.v[0] = HAVE;
    }
    tenants[0]->garbage_bytes = c->swept;
    limit_share(w);
    for (size_t i = 0; i < COUNT(tenants); i++) {
        if (tenants[i]->allowed != c->allowed)
            fail_msg("%s: tenant %zu may have %llu bytes", c->name, i,
                     (unsigned long long)tenants[i]->allowed);
    }
    lock_give(&w->lock);
    work_drain(w);
    work_free(w);
    members_free(members);
    config_free(config);
    store_close(store);
    dir_remove(dir);
}

static void tenants_give_when_there_is_too_much(void **state)
{
    (void)state;
    static const struct limit_case cases[] = {
        {"the store may have as much", "--compactor.store_bytes=2000", UINT64_MAX, 0},
        {"it may not", "--compactor.store_bytes=1000", UINT64_MAX, 450},
        {"a disk has more than its reserve", "--compactor.disk_reserve=1", 0, 0},
        // Of exbibytes that will be free, less than the reserve, but more than a tenth of the disk.
        {"a tenth of the disk is enough", "--compactor.disk_reserve=8000000000000000000",
         (uint64_t)6 << 60, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tenants_give_when_there_is_too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
