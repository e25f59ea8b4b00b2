// SPDX-License-Identifier: Apache-2.0
//
// quota.h - lets a few profiles pass although a quota is reached, so that people still see
// something: at most `sampled` in a period for each tenant or usage group. Each distributor lets
// its share pass, by chance, so that about as many pass in all. Thread-safe; time and chance are
// arguments.
#pragma once

#include "base/str.h"
#include "service/limits.h"
#include "sys/lock.h"

#define QUOTA_WINDOWS 4096

struct quota_window;

struct quota_samplers {
    struct lock lock;
    struct quota_window *windows;  // hash table of QUOTA_WINDOWS, by tenant and group
};

void quota_init(struct quota_samplers *s);
void quota_release(struct quota_samplers *s);

// Whether one more passes. chance: uniform in [0, 1).
bool quota_sample(struct quota_samplers *s, str tenant, str group, const struct quota *q,
                  size_t distributors, double chance, uint64_t mono_ns);
