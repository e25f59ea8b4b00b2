// SPDX-License-Identifier: Apache-2.0
//
// cli_plan_values.c - from what a fleet needs to how many pods of each role, and of what size.
//
// Pods are of few sizes rather than very many in number, since every question asks each ingester.
// Of distributors and ingesters there is one more than the load needs: the others carry it while
// one restarts.
#include "deploy/cli/cli_plan.h"

#include <math.h>

// A pushed profile of ten services costs one process 0.48 core-ms with 5 stacks and 0.86 with 100
// (docs/benchmarks.md, "Pushes", paced); it has 8.7 and 76 KB, and two types. Distributors and
// ingesters get as much each, a quarter more than the 1.6 times that both together were measured to
// take ("A cluster").
#define TYPES_OF_PUSH    2
#define PUSH_MS          0.46
#define PUSH_STACK_MS    0.004
#define PUSH_BYTES       5200
#define PUSH_STACK_BYTES 708

// A flame graph of a month by a matcher that takes every pod ("The month"), the dearest usual one.
#define QUESTION_MS 160
// 142 core-seconds for 586,000 profiles of CPU and memory, with all levels.
#define COMPACT_MS 0.25

// A series with 20 stacks of its own has 9 KB in the head (docs/scaling.md), a row 500 bytes
// ("scale:soak": 10,000 in 5 MB). Rows are there for two cuts of ten minutes.
#define SERIES_STACK_BYTES 450
#define ROW_BYTES          500
#define HEAD_SECONDS       1200

#define FULL 0.7  // of processors and of heads, at which there should be another pod

#define MIB (1024.0 * 1024)
#define GIB (1024 * MIB)

#define POD_CORES     2.0  // most that a pod asks for
#define HEAD_MAX      (4 * GIB)
#define WORKERS_MAX   4
#define ONE_CORES     0.5  // what one process of the preset all-in-one serves at ease
#define ONE_HEAD      (GIB / 2)
#define STAY_SECONDS  14400  // an outage of the store that a log on a volume bridges
#define CACHE_DAYS    2      // querier.disk_cache_age
#define CACHE_MAX_GIB 100    // emptyDirs are on the disks of nodes

void plan_roles(const struct fleet *f, struct sizes *s)
{
    double pushes = s->profiles_s / TYPES_OF_PUSH;
    s->received_s = pushes * (PUSH_BYTES + PUSH_STACK_BYTES * f->stacks);
    s->push_cores = pushes * (PUSH_MS + PUSH_STACK_MS * f->stacks) / 1000;
    s->query_cores = f->questions_s * QUESTION_MS / 1000;
    s->compact_cores = s->profiles_s * COMPACT_MS / 1000;
    s->head = f->pods * f->types * f->stacks * SERIES_STACK_BYTES +
              s->profiles_s * HEAD_SECONDS * ROW_BYTES;
}

static double up_to(double value, double step)
{
    return ceil(value / step) * step;
}

// Pods that carry the load.
static double pods_of(double load, double most, double fewest)
{
    return fmax(fewest, ceil(load / (most * FULL)));
}

static double milli(double cores, double pods)
{
    return fmax(50, up_to(1000 * cores / FULL / pods, 50));
}

static void put_role(struct buf *b, const char *role, double replicas)
{
    buf_printf(b, "%s:\n  replicas: %.0f\n", role, replicas);
}

// Resident memory is at most a quarter above what budgets count (docs/benchmarks.md, "scale:soak").
static void put_resources(struct buf *b, double milli_cores, double limit_mib, double usual_mib)
{
    buf_printf(b,
               "  memoryLimit: %.0fMiB\n"
               "  resources:\n"
               "    requests: {cpu: %.0fm, memory: %.0fMi}\n"
               "    limits: {memory: %.0fMi}\n",
               limit_mib, milli_cores, usual_mib, up_to(limit_mib * 1.25, 64));
}

static void put_distributor(struct buf *b, const struct sizes *s)
{
    double carry = pods_of(s->push_cores, POD_CORES, 1);
    double cpu = milli(s->push_cores, carry);
    double limit = 256 * ceil(cpu / 1000);
    put_role(b, "distributor", carry + 1);
    put_resources(b, cpu, limit, limit / 2);
}

static void put_ingester(struct buf *b, const struct sizes *s)
{
    double carry = fmax(pods_of(s->push_cores, POD_CORES, 2), pods_of(s->head, HEAD_MAX, 2));
    double head = fmax(256, up_to(s->head / FULL / carry / MIB, 256));
    double log = s->log / HEAD_SECONDS * STAY_SECONDS;
    put_role(b, "ingester", carry + 1);
    buf_printf(b, "  headMemory: %.0fMiB\n", head);
    // Beside the head: requests, and what a flush takes (ingester.flush_memory).
    put_resources(b, milli(s->push_cores, carry), up_to(head * 1.5 + 384, 64), head);
    buf_printf(b, "  persistence: {size: %.0fGi}\n", fmax(5, ceil(log / carry / GIB)));
}

static void put_querier(struct buf *b, const struct fleet *f, const struct sizes *s)
{
    double pods = pods_of(s->query_cores, POD_CORES, 2);
    double recent = s->raw / fmin(f->raw_days, f->days_days) * CACHE_DAYS;
    put_role(b, "querier", pods);
    put_resources(b, milli(s->query_cores, pods), 1536, 768);
    buf_printf(b, "  cacheSize: %.0fGi\n", fmin(CACHE_MAX_GIB, fmax(1, ceil(recent / pods / GIB))));
}

static void put_time(struct buf *b, const char *setting, double days)
{
    if (days == floor(days))
        buf_printf(b, "    %s: %.0fd\n", setting, days);
    else
        buf_printf(b, "    %s: %.0fs\n", setting, days * 86400);
}

static void put_compactor(struct buf *b, const struct fleet *f, const struct sizes *s)
{
    double pods = pods_of(s->compact_cores, WORKERS_MAX, 1);
    double workers = fmax(1, ceil(s->compact_cores / FULL / pods));
    double day = s->raw / fmin(f->raw_days, f->days_days);
    put_role(b, "compactor", pods);
    buf_printf(b, "  config:\n    workers: %.0f\n", workers);
    put_time(b, "raw_retention", f->raw_days);
    put_time(b, "hours_retention", f->hours_days);
    put_time(b, "days_retention", f->days_days);
    put_resources(b, milli(s->compact_cores, pods), 512 + 512 * workers, 256 + 256 * workers);
    buf_printf(b, "  scratchSize: %.0fGi\n", fmax(2, ceil(2 * day / GIB)));
}

void plan_put_values(struct buf *b, const struct fleet *f, const struct sizes *s)
{
    buf_printf(
        b,
        "# Values of the chart for %.0f pods with %.3g types, a profile of %.0f stacks every "
        "%.3g s; questions a second: %.3g.\n"
        "# Made by flametree plan --values; docs/sizing.md says how.\n",
        f->pods, f->types, f->stacks, f->interval_s, f->questions_s);
    if (2 * s->push_cores + s->query_cores + s->compact_cores < ONE_CORES && s->head < ONE_HEAD)
        buf_printf(b, "# One process would do as well, if it may be away for the seconds of a "
                      "restart: presets/all-in-one.yaml.\n");
    buf_printf(b, "mode: cluster\n");
    put_distributor(b, s);
    put_ingester(b, s);
    put_querier(b, f, s);
    put_compactor(b, f, s);
}
