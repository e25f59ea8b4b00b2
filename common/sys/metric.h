// SPDX-License-Identifier: Apache-2.0
//
// metric.h - counters, gauges and histograms for Prometheus, declared as rows.
//
// A room or service lists its metrics in a file metrics.def:
//
//     COUNTER(push_profiles, "flametree_distributor_push_profiles_total", "", "Profiles accepted.")
//     COUNTER(discarded, "flametree_distributor_discarded_samples_total", "reason", "...")
//     GAUGE(head_bytes, "flametree_ingester_head_bytes", "", "...")
//     HISTOGRAM(push_seconds, "flametree_distributor_push_seconds", "", "...")
//     SECONDS(cpu, "flametree_x_cpu_seconds_total", "", "...")    a counter, added to in ns
//
//     COUNTER(refused, "flametree_x_refused_total", "reason,tenant", "...")      several labels
//     REAL(limits, "flametree_limits_overrides", "limit_name,tenant", "...")     a gauge of doubles
//
//     FAILURES(reloads, "flametree_x_reloads_total", "result", "refused", "...")    a counter
//
// The values of a row FAILURES exist with 0 from the start, each followed by a space or the end: a
// counter that is born with 1 never rose, as Prometheus sees it, so no alert would tell the first
// event. Values that are known later have metric_expect_to and metric_expect_set.
//
// and the build makes its metrics.h and metrics.c from them (metric_rows.{h,c}.in). Names follow
// flametree_<service>_<thing>_<unit>. A label has at most METRIC_CELLS values; further ones count
// as "other". With several labels each combination of values is a cell, made at first use. When
// there are METRIC_SETS combinations, further ones keep only their first value and have "other" for
// the rest (so the first label should be the one with few values); when those are used up as well,
// all values are "other". Adding is wait-free except for the first use of a value.
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define METRIC_CELLS   64
#define METRIC_BUCKETS 20
#define METRIC_SETS    2048
#define METRIC_LABELS  3  // most labels of a row

// The codes of errors, as the values of a row FAILURES.
#define METRIC_CODE(name, number, text, status) text " "
#define METRIC_CODES                            ERR_CODES(METRIC_CODE)

enum metric_kind {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM,
    METRIC_REAL,    // a gauge of doubles; metric_set_real only
    METRIC_SECONDS  // a counter of nanoseconds, printed in seconds
};

struct metric_cell {
    char value[64];  // of the label
    size_t value_n;  // its bytes
    _Atomic uint64_t count;
    _Atomic int64_t sum;  // counter and gauge value; histogram and seconds: nanoseconds
    _Atomic uint64_t buckets[METRIC_BUCKETS];
};

struct metric {
    const char *name;
    const char *label;     // "" = none
    const char *expected;  // its values that exist from the start; or NULL
    const char *help;
    enum metric_kind kind;
    _Atomic uint32_t cell_count;
    _Atomic(struct metric_sets *) sets;  // of several labels, and of doubles; made at first use
    struct metric_cell *cells;           // METRIC_CELLS of them, or one if there is no label
};

// Makes the metrics known to metric_print. Call once per table, at start-up.
void metric_register(struct metric *const *table, size_t n);

void metric_add(struct metric *m, uint64_t n);  // counters, gauges, seconds
void metric_add_to(struct metric *m, str label_value, uint64_t n);
void metric_set(struct metric *m, int64_t v);
void metric_set_to(struct metric *m, str label_value, int64_t v);

// Rows with several labels: counters and gauges. `values` in the order of the labels. Without
// memory for a new combination it is not counted.
void metric_add_set(struct metric *m, const str *values, uint64_t n);
void metric_set_real(struct metric *m, const str *values, double v);  // also with one label or none

// Makes a value of a counter exist with 0 before it is added to for the first time. A counter that
// is born with 1 never rose, as Prometheus sees it, so no alert would tell the first event. Takes
// at most half of the room for values, so that expected ones cannot turn counted ones into "other".
// True if the value exists now. metric_has_set only looks; neither takes a lock where the value is
// there or the room is used up.
bool metric_expect_to(struct metric *m, str label_value);
bool metric_expect_set(struct metric *m, const str *values);
bool metric_has_set(struct metric *m, const str *values);

// How much a counter has of these values, 0 if nothing was added. False: there is no room of their
// own for them, so what was added counts as "other" (*n is 0).
bool metric_read_set(struct metric *m, const str *values, uint64_t *n);

// No combination of values is printed any more until it is set or added to again.
void metric_forget_sets(struct metric *m);

// Overwrites a counter whose true value is kept elsewhere (by the kernel, a library).
void metric_mirror(struct metric *m, uint64_t total);
void metric_mirror_to(struct metric *m, str label_value, uint64_t total);
void metric_observe_ns(struct metric *m, uint64_t ns);  // buckets from 100 us to 100 s, in seconds
void metric_observe_ns_to(struct metric *m, str label_value, uint64_t ns);

// For values that are computed when needed: fn sets gauges before each metric_print. Take it off
// only when no thread can be printing (after the listeners have drained).
void metric_on_print(void (*fn)(void *arg), void *arg);
void metric_off_print(void (*fn)(void *arg), void *arg);

// Prometheus text format 0.0.4, sorted by name.
void metric_print(struct buf *out);

// The same rows as the table of docs/metrics.md.
void metric_print_markdown(struct buf *out);
