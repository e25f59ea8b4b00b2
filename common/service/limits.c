// SPDX-License-Identifier: Apache-2.0
//
// limits.c - the rows of limits and their defaults.
#include "service/limits_int.h"

static const struct config_row rows[] = {
#define ROW(...) CONFIG_ROW(struct limits, __VA_ARGS__)
#include "service/limits.def"
#undef ROW
};

// Keys of Pyroscope without effect here: they belong to parts that this system does not have, or
// that work differently.
//
// max_global_series_per_tenant: Pyroscope 1 divides it by the number of ingesters. Here a tenant's
// series need not be on all of them (cluster/place.h), so a part of the number would be a limit far
// below it for most tenants. Pyroscope 2 takes the key without effect, too.
static const struct config_ignored without_effect[] = {
    {"push_max_concurrency", NULL},
    {"enforce_labels_order", NULL},
    {"distributor_aggregation_window", NULL},
    {"distributor_aggregation_period", NULL},
    {"ingestion_tenant_shard_size", "distributor.tenant_ingesters"},
    {"max_global_series_per_tenant", "max_local_series_per_tenant, a limit of each ingester"},
    {"max_query_parallelism", NULL},
    {"query_analysis_enabled", NULL},
    {"query_analysis_series_enabled", NULL},
    {"split_queries_by_interval", NULL},
    {"query_sanitize_on_merge", NULL},
    {"max_async_query_concurrency", NULL},
    {"query_tree_enabled", NULL},
    {"store_gateway_tenant_shard_size", NULL},
    {"compactor_blocks_retention_period", "retention_period"},
    {"compactor_split_and_merge_shards", NULL},
    {"compactor_split_and_merge_stage_size", NULL},
    {"compactor_split_groups", NULL},
    {"compactor_tenant_shard_size", NULL},
    {"compactor_partial_block_deletion_delay", NULL},
    {"compactor_downsampler_enabled", NULL},
    {"write_path", NULL},
    {"write_path_ingester_weight", NULL},
    {"write_path_segment_writer_weight", NULL},
    {"write_path_segment_writer_timeout", NULL},
    {"write_path_compression", NULL},
    {"async_ingest", NULL},
    {"enable_query_backend", NULL},
    {"enable_query_backend_from", NULL},
    {"recording_rules", NULL},
    {"max_recording_rules", NULL},
    {"symbolizer", NULL},
    {"s3_sse_type", NULL},
    {"s3_sse_kms_key_id", NULL},
    {"s3_sse_kms_encryption_context", NULL},
    {NULL, NULL},
};

static bool limits_faulty(struct limits *l, err *e)
{
    l->refuses_faulty = strcmp(l->faulty_profiles, "refuse") == 0;
    if (l->refuses_faulty || strcmp(l->faulty_profiles, "mend") == 0) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "faulty_profiles: \"%.64s\" is neither mend nor refuse",
                   l->faulty_profiles);
}

// All trees of a limits struct, one call each.
static bool limits_finish(void *to, struct arena *a, err *e)
{
    struct limits *l = to;
    return limits_faulty(l, e) && limits_relabel(l, a, e) && limits_ingest(l, a, e) &&
           arena_ok(a, e);
}

const struct config_section limits_section = {
    .name = "limits",
    .rows = rows,
    .row_count = COUNT(rows),
    .size = sizeof(struct limits),
    .finish = limits_finish,
    .without_effect = without_effect,
};
