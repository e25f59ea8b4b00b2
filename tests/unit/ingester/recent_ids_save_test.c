// SPDX-License-Identifier: Apache-2.0
//
// While the ids of dropped rows are saved no other removal runs: it would add ids, and may replace
// the very table that is being read.
#include "base/fault.h"
#include "ingester/head/head_int.h"
#include "lib/dir.h"
#include "lib/test.h"

static struct head *head;
static int seen;
static int kept_out;

static bool try_to_remove(const char *name)
{
    if (strncmp(name, "flush.past", strlen("flush.past")) != 0) return false;
    seen++;
    if (pthread_rwlock_trywrlock(&head->removing) == 0) {
        pthread_rwlock_unlock(&head->removing);
    } else {
        kept_out++;
    }
    return false;
}

static void a_save_keeps_removals_out(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char recent_ids[DIR_PATH_MAX];
    dir_new(dir);
    head = head_new(NULL, 0);
    head_remember(head);
    fault_on(try_to_remove);
    assert_ok(head_save_recent_ids(head, dir_path(recent_ids, dir, "past"), NULL, e));
    fault_on(NULL);
    assert_int_equal(seen, 2);  // before the file and behind it
    assert_int_equal(kept_out, seen);
    assert_int_equal(pthread_rwlock_trywrlock(&head->removing), 0);
    pthread_rwlock_unlock(&head->removing);
    head_free(head);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_save_keeps_removals_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
