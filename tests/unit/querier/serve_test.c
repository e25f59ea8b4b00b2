// SPDX-License-Identifier: Apache-2.0
//
// The range of time that a question gives to the planner.
#include "base/ulid.h"
#include "lib/test.h"
#include "querier/answer/serve.h"
#include "sys/clock.h"

#define MS       INT64_C(1700000000000)
#define IDS_MOST 3

// The id of a profile has its time, cut to the millisecond.
static void for_ids_no_other_time_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t ids_ms[IDS_MOST];  // 0: no more
        int64_t from_ns;           // of the question, (from, to]
        int64_t to_ns;
        int64_t first_ns;  // the first and the last time that is read
        int64_t last_ns;
    } rows[] = {
        {"no id", {0}, 5, 100, 6, 100},
        {"one", {MS}, 0, INT64_MAX, MS * NS_PER_MS, (MS + 1) * NS_PER_MS - 1},
        {"several", {MS + 5, MS, MS + 7}, 0, INT64_MAX, MS * NS_PER_MS, (MS + 8) * NS_PER_MS - 1},
        {"within the range",
         {MS, MS + 9},
         (MS + 2) * NS_PER_MS,
         (MS + 4) * NS_PER_MS,
         (MS + 2) * NS_PER_MS + 1,
         (MS + 4) * NS_PER_MS},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        id128 ids[IDS_MOST];
        struct level_ask ask;
        struct query q = {.from_ns = rows[i].from_ns, .to_ns = rows[i].to_ns, .tree.wanted = true};
        q.tree.profiles = ids;
        for (; q.tree.profile_count < IDS_MOST && rows[i].ids_ms[q.tree.profile_count];
             q.tree.profile_count++)
            ids[q.tree.profile_count] =
                uuid_profile((uint64_t)rows[i].ids_ms[q.tree.profile_count], 1, 2);
        assert_ok(serve_ask(&q, &ask, e));
        if (ask.from_ns + 1 != rows[i].first_ns || ask.to_ns != rows[i].last_ns)
            fail_msg("%s: (%lld, %lld]", rows[i].name, (long long)ask.from_ns,
                     (long long)ask.to_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(for_ids_no_other_time_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
