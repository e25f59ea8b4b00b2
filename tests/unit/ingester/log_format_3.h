// SPDX-License-Identifier: Apache-2.0
//
// log_format_3.h - a log as the last program of format 3 wrote it: what each family of its database
// had, in hexadecimal digits. Entry 1 is a batch as it came, 2 and 3 are packed, 4 to 6 are packed
// against 2 and 3. The batches are fact_batch of what old_facts (old_logs_test.c) rolls.
#pragma once

#include <stddef.h>

struct old_row {
    const char *family;
    const char *key;
    const char *value;
};

extern const struct old_row log_format_3[];
extern const size_t log_format_3_rows;
