// SPDX-License-Identifier: Apache-2.0
//
// The tables of stores and buckets on a real service:
//
//     s3.store ENDPOINT BUCKET [google]
//     s3.store ENDPOINT CONTAINER azure ACCOUNT KEY
//
// With FLAMETREE_TEST_ONLY in the environment only tests whose names it matches, such as *large*.
// Run by tests/s3/test_store.py and test_google.py.
#include "azure/azure.h"
#include "unit/s3/bucket_table.h"

#include <stdlib.h>

static const char *endpoint;
static const char *bucket;
static enum s3_dialect dialect;
static const char *account;  // NULL: it is S3
static const char *key;

static struct store *open_azure(struct bench *b)
{
    struct azure_options o = {.account = account,
                              .endpoint = b->endpoint,
                              .container = bucket,
                              .prefix = b->prefix,
                              .keys = {.account_key = key},
                              .memory = &b->memory};
    struct store *s = NULL;
    assert_ok((s = store_open_azure(&o, e)) != NULL);
    return s;
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    if (account)
        bucket_bench_begin(b, endpoint, open_azure);
    else
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
    const struct CMUnitTest left[] = {LEFT_TABLE(CASE)};
    if (argc != 3 && argc != 4 && argc != 6) return 2;
    endpoint = argv[1];
    bucket = argv[2];
    dialect = argc == 4 && strcmp(argv[3], "google") == 0 ? S3_DIALECT_GOOGLE : S3_DIALECT_AMAZON;
    account = argc == 6 ? argv[4] : NULL;
    key = argc == 6 ? argv[5] : NULL;
    if (getenv("FLAMETREE_TEST_ONLY")) cmocka_set_test_filter(getenv("FLAMETREE_TEST_ONLY"));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return account ? failed : failed + cmocka_run_group_tests(left, NULL, NULL);
}
