// SPDX-License-Identifier: Apache-2.0
//
// bench.slowstore SEGMENTS MS WIDTH - how long a compactor takes for so many segments of a day over
// a store that takes so many milliseconds for each operation and does so many at once.
//
// Tab-separated: seconds until all are absorbed and nothing is due, seconds until they are deleted,
// operations that were waited for one after the other.
#include "unit/compactor/slow.h"

#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct world w;
    if (argc != 4) {
        fprintf(stderr, "usage: bench.slowstore SEGMENTS MS WIDTH\n");
        return 2;
    }
    uint64_t segments = strtoull(argv[1], NULL, 10);
    world_init(&w, 3);
    slow_fill(&w, segments);
    memstore_set_turns(w.store, strtoull(argv[3], NULL, 10),
                       strtoull(argv[2], NULL, 10) * (uint64_t)NS_PER_MS);
    memstore_reset_totals(w.store);
    double begun = seconds();
    work_until_done(&w);
    double absorbed = seconds();
    uint64_t deleted = slow_sweep(&w);
    double done = seconds();
    if (deleted != segments) {
        fprintf(stderr, "bench.slowstore: %llu of %llu segments were deleted\n",
                (unsigned long long)deleted, (unsigned long long)segments);
        return 1;
    }
    printf("%.1f\t%.1f\t%llu\n", absorbed - begun, done - absorbed,
           (unsigned long long)memstore_totals(w.store).turns);
    world_release(&w);
    return 0;
}
