// SPDX-License-Identifier: Apache-2.0
//
// The tables of stores and buckets on a real service: s3.store ENDPOINT BUCKET [google].
// Run by tests/s3/test_store.py and test_google.py.
#include "unit/s3/bucket_table.h"

#include <stdlib.h>

static const char *endpoint;
static const char *bucket;
static enum s3_dialect dialect;

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    bucket_bench_init(b, endpoint, bucket, dialect);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    bucket_bench_release(*state);
    free(*state);
    return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {STORE_TABLE(CASE), BUCKET_TABLE(CASE)};
    if (argc != 3 && argc != 4) return 2;
    endpoint = argv[1];
    bucket = argv[2];
    dialect = argc == 4 && strcmp(argv[3], "google") == 0 ? S3_DIALECT_GOOGLE : S3_DIALECT_AMAZON;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
