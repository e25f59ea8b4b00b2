// SPDX-License-Identifier: Apache-2.0
//
// bucket_table.h - tests that a store in a bucket passes beside those of every kind
// (store/table.h), with the service in memory (lib/bucket.h) and with real ones (tests/s3/store.c).
#pragma once

#include "s3/s3.h"
#include "unit/store/table.h"

// A bench on a part of the bucket that nobody else uses.
void bucket_bench_init(struct bench *b, const char *endpoint, const char *bucket,
                       enum s3_dialect dialect);
// The same with another way to open a store at the endpoint, in b->prefix.
void bucket_bench_begin(struct bench *b, const char *endpoint,
                        struct store *(*open)(struct bench *));
void bucket_bench_release(struct bench *b);

#define BUCKET_TABLE(TEST)                                                         \
    TEST(large_objects_go_up_in_parts), TEST(many_objects_are_listed_and_deleted), \
        TEST(of_two_large_creations_one_wins)
#define LEFT_TABLE(TEST) \
    TEST(uploads_that_were_left_are_swept)  // where they do not go by themselves

void large_objects_go_up_in_parts(void **state);
void of_two_large_creations_one_wins(void **state);
void many_objects_are_listed_and_deleted(void **state);
void uploads_that_were_left_are_swept(void **state);
