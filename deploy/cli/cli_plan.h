// SPDX-License-Identifier: Apache-2.0
//
// cli_plan.h - what `flametree plan` knows of a fleet, and the size of the cluster that serves it.
// All of it is arithmetic on figures that docs/benchmarks.md measured and docs/sizing.md explains.
#pragma once

#include "base/buf.h"

struct fleet {
    double pods;
    double types;
    double stacks;
    double hour_stacks;
    double day_stacks;
    double interval_s;
    double raw_days;
    double hours_days;
    double days_days;
    double questions_s;
};

struct sizes {
    double profiles_s;
    double raw;
    double hours;
    double days;
    double all;
    double log;
    // Needs of all pods of a role together. Room for peaks and restarts is not in them.
    double received_s;  // bytes of uncompressed pprof a second
    double push_cores;  // of distributors, and once more of ingesters
    double query_cores;
    double compact_cores;
    double head;  // bytes that ingesters have not flushed yet
};

// The part that is about the roles.
void plan_roles(const struct fleet *f, struct sizes *s);

// Values of the chart deploy/helm/flametree, as YAML.
void plan_put_values(struct buf *b, const struct fleet *f, const struct sizes *s);
