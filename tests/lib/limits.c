// SPDX-License-Identifier: Apache-2.0
#include "lib/limits.h"

const struct limits stock_limits = {
    .ingestion_body_limit_mb = 256,
    .max_label_name_length = 1024,
    .max_label_value_length = 2048,
    .max_label_names_per_series = 30,
    .disable_label_sanitization = true,
    .max_profile_size_bytes = 4194304,
    .max_profile_stacktrace_samples = 16000,
    .max_profile_stacktrace_sample_labels = 100,
    .max_profile_stacktrace_depth = 1000,
    .max_profile_symbol_value_length = 65535,
    .faulty_profiles = "refuse",
    .refuses_faulty = true,
    .reject_older_than = INT64_C(3600) * 1000000000,
    .reject_newer_than = INT64_C(600) * 1000000000,
};
