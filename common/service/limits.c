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
static const char *const without_effect[] = {
    "push_max_concurrency",
    "enforce_labels_order",
    "distributor_aggregation_window",
    "distributor_aggregation_period",
    "ingestion_tenant_shard_size",
    "max_global_series_per_tenant",
    "max_query_parallelism",
    "query_analysis_enabled",
    "query_analysis_series_enabled",
    "split_queries_by_interval",
    "query_sanitize_on_merge",
    "max_async_query_concurrency",
    "query_tree_enabled",
    "store_gateway_tenant_shard_size",
    "compactor_blocks_retention_period",
    "compactor_split_and_merge_shards",
    "compactor_split_and_merge_stage_size",
    "compactor_split_groups",
    "compactor_tenant_shard_size",
    "compactor_partial_block_deletion_delay",
    "compactor_downsampler_enabled",
    "write_path",
    "write_path_ingester_weight",
    "write_path_segment_writer_weight",
    "write_path_segment_writer_timeout",
    "write_path_compression",
    "async_ingest",
    "enable_query_backend",
    "enable_query_backend_from",
    "recording_rules",
    "max_recording_rules",
    "symbolizer",
    "s3_sse_type",
    "s3_sse_kms_key_id",
    "s3_sse_kms_encryption_context",
    NULL,
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
