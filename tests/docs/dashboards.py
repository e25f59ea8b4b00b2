#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/docs/dashboards.py [--write]: makes the Grafana dashboards of the chart, deploy/helm/flametree/files/dashboards/*.json.

Each dashboard is rows of panels, and a panel is a title, a unit and its queries. `{}` and `{label="x"` behind a metric stand for
the pods that the reader chose, `[rate]` for the interval that Grafana thinks right. tests/helm asks that every metric and label
exists, that Prometheus accepts the queries, and that the files are what this prints.
"""
import json
import os
import re
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/helm/flametree/files/dashboards")


def rate(metric, by=""):
    return ("sum by (%s) (rate(%s{}[rate]))" % (by, metric), "{{%s}}" % "}} {{".join(by.split(", "))) if by else ("sum(rate(%s{}[rate]))" % metric, metric_name(metric))


def sums(metric, by):
    return "sum by (%s) (%s{})" % (by, metric), "{{%s}}" % "}} {{".join(by.split(", "))


def slow(metric, by=""):
    """The time within which 99 of 100 were done."""
    return "histogram_quantile(0.99, sum by (%s) (rate(%s_bucket{}[rate])))" % (", ".join(filter(None, ["le", by])), metric), "{{%s}} p99" % by if by else "p99"


def usual(metric):
    return "histogram_quantile(0.5, sum by (le) (rate(%s_bucket{}[rate])))" % metric, "median"


def share(part, whole, by):
    return "sum by (%s) (%s{}) / sum by (%s) (%s{})" % (by, part, by, whole), "{{%s}}" % by


def hits(cache):
    hit, miss = (("rate(flametree_querier_%s_%s_total{}[rate])" % (cache, what)) for what in ("hits", "misses"))
    return "sum(%s) / (sum(%s) + sum(%s))" % (hit, hit, miss), cache.replace("_", " ")


def metric_name(metric):
    return re.sub(r"^flametree_[a-z0-9]+_|_total$", "", metric).replace("_", " ")


def stat(title, query, bad=None):
    """One number; from `bad` on it is red."""
    return {"kind": "stat", "title": title, "unit": "short", "queries": [(query, "")], "bad": bad}


def graph(title, unit, *queries, about=""):
    return {"kind": "timeseries", "title": title, "unit": unit, "queries": queries, "about": about}


LANES = [
    graph("Jobs in lanes, of their limit", "percentunit", share("flametree_lane_jobs", "flametree_lane_limit", "lane")),
    graph("Wait in lanes", "s", slow("flametree_lane_wait_seconds", "lane")),
    graph("Refused by full lanes", "reqps", rate("flametree_lane_refused_total", "lane"), about="Clients that repeat get through later."),
]

DASHBOARDS = {
    "overview": ("overview", [
        ("State", [
            stat("Ready pods", "sum(flametree_ready{})"),
            stat("Pods not ready", "count(flametree_ready{} == 0) or vector(0)", 1),
            stat("Dead members", "count(min by (kind, member) (flametree_cluster_member_alive{}) == 0) or vector(0)", 1),
            stat("Notices", "sum(flametree_notices{})", 1),
            stat("Ingesters that cannot flush", "sum(flametree_ingester_flush_failing{})", 1),
            stat("Versions in use", "count(count by (version) (flametree_build_info{}))", 2),
        ]),
        ("Traffic", [
            graph("Received profiles", "ops", rate("flametree_distributor_received_profiles_total", "protocol")),
            graph("Time of a push", "s", slow("flametree_distributor_request_seconds", "protocol")),
            graph("Refused profiles", "ops", rate("flametree_distributor_discarded_samples_total", "reason")),
            graph("Queries", "reqps", rate("flametree_querier_queries_total", "method")),
            graph("Time of a query", "s", slow("flametree_querier_query_seconds", "method")),
            graph("Failed queries", "reqps", rate("flametree_querier_query_failures_total", "code")),
        ]),
        ("What fills up", [
            graph("Heads of ingesters, of their limit", "percentunit", share("flametree_ingester_head_bytes", "flametree_ingester_head_limit_bytes", "pod"),
                  about="Add ingesters from 0.7 on."),
            graph("Compaction is behind by", "s", ("max by (level) (flametree_compactor_behind_seconds{})", "{{level}}")),
            graph("Stored bytes", "bytes", ("max by (level) (flametree_compactor_stored_bytes{})", "{{level}}")),
        ]),
        ("Processes", [
            graph("Processors in use", "short", ("rate(process_cpu_seconds_total{}[rate])", "{{pod}}")),
            graph("Resident memory", "bytes", ("process_resident_memory_bytes{}", "{{pod}}")),
            graph("Budgets of memory, of their limit", "percentunit",
                  ("max by (budget) (flametree_memory_bytes{} / (flametree_memory_limit_bytes{} > 0))", "{{budget}}")),
            graph("Refused for lack of memory", "ops", rate("flametree_memory_refused_total", "budget")),
            graph("Open connections", "short", sums("flametree_net_connections", "listener")),
            graph("Open files, of the limit", "percentunit", ("process_open_fds{} / process_max_fds{}", "{{pod}}")),
        ]),
    ]),
    "writes": ("writes", [
        ("Distributors", [
            graph("Received bytes, uncompressed", "Bps", rate("flametree_distributor_received_bytes_total", "protocol")),
            graph("Time of a push", "s", usual("flametree_distributor_request_seconds"), slow("flametree_distributor_request_seconds")),
            graph("Refused profiles by tenant", "ops", rate("flametree_distributor_discarded_samples_total", "tenant, reason")),
            graph("Batches to ingesters", "ops", rate("flametree_distributor_appends_total", "result")),
            graph("Bytes to ingesters", "Bps", rate("flametree_distributor_append_bytes_total")),
            graph("Lexicons", "bytes", sums("flametree_distributor_lexicon_bytes", "pod")),
            graph("Spread over several ingesters", "short", ("max(flametree_distributor_spread_wide{})", "tenants, services and label sets")),
            graph("Received by usage group", "Bps", rate("flametree_distributor_usage_group_received_bytes_total", "tenant, usage_group")),
            graph("Left out or mended parts of stored profiles", "ops", rate("flametree_distributor_discarded_parts_total", "tenant, reason"), rate("flametree_distributor_mended_parts_total", "tenant, reason")),
        ]),
        ("Ingesters", [
            graph("Profiles", "ops", rate("flametree_ingester_append_profiles_total", "pod"), about="Even, if services are many: docs/scaling.md."),
            graph("Heads, of their limit", "percentunit", share("flametree_ingester_head_bytes", "flametree_ingester_head_limit_bytes", "pod")),
            graph("Series in heads", "short", sums("flametree_ingester_head_series", "pod")),
            graph("Refused pushes", "ops", rate("flametree_ingester_refused_total", "reason")),
            graph("Copies of profiles that were there already", "ops", rate("flametree_ingester_duplicate_profiles_total", "pod")),
            graph("Streams", "short", sums("flametree_ingester_streams", "state")),
        ]),
        ("Logs of ingesters", [
            graph("Local log: time of a sync", "s", slow("flametree_ingester_log_sync_seconds", "pod")),
            graph("Log in the store: time of an object", "s", slow("flametree_ingester_log_object_seconds", "pod")),
            graph("Waits for the log, of its limit", "percentunit", share("flametree_ingester_log_waiting_bytes", "flametree_ingester_log_waiting_limit_bytes", "pod")),
            graph("Bytes of local logs", "bytes", sums("flametree_ingester_log_bytes", "pod")),
            graph("Failures of the log", "ops", rate("flametree_ingester_log_failures_total", "pod")),
            graph("Profiles that a damaged log lost", "short", ("sum by (pod) (increase(flametree_ingester_log_lost_profiles_total{}[1h]))", "{{pod}}")),
        ]),
        ("Flushes", [
            graph("Waits to be flushed", "bytes", sums("flametree_ingester_flush_waiting_bytes", "pod")),
            graph("Oldest profile that waits", "s", ("max by (pod) (flametree_ingester_flush_oldest_seconds{})", "{{pod}}")),
            graph("Time of a flush", "s", slow("flametree_ingester_flush_seconds", "pod")),
            graph("Flushed bytes", "Bps", rate("flametree_ingester_flush_bytes_total", "pod")),
            graph("Failed flushes", "ops", rate("flametree_ingester_flush_failures_total", "pod")),
            graph("Streams taken over", "short", ("sum by (pod) (increase(flametree_ingester_adopted_streams_total{}[1h]))", "{{pod}}")),
        ]),
        ("Lanes", LANES),
    ]),
    "reads": ("reads", [
        ("Queries", [
            graph("Queries", "reqps", rate("flametree_querier_queries_total", "method")),
            graph("Time of a query", "s", usual("flametree_querier_query_seconds"), slow("flametree_querier_query_seconds", "method")),
            graph("Failed queries", "reqps", rate("flametree_querier_query_failures_total", "code")),
            graph("Incomplete answers", "ops", rate("flametree_querier_partial_answers_total"), rate("flametree_querier_missing_streams_total")),
            graph("Streams that nobody has answered for", "short", ("max(flametree_querier_lost_streams{})", "lost")),
            graph("Requests for the page", "reqps", rate("flametree_querier_page_requests_total", "pod")),
        ]),
        ("Ingesters", [
            graph("Bytes from ingesters", "Bps", rate("flametree_querier_fetched_bytes_total", "pod")),
            graph("Failed calls of ingesters", "ops", rate("flametree_querier_ingester_failures_total", "pod")),
            graph("Rows that took a second round", "ops", rate("flametree_querier_loose_rows_total", "pod")),
        ]),
        ("Blocks", [
            graph("Reads", "iops", rate("flametree_querier_block_reads_total", "pod")),
            graph("Bytes", "Bps", rate("flametree_querier_block_read_bytes_total", "pod")),
            graph("Found in caches", "percentunit", hits("block_cache"), hits("disk_cache")),
            graph("Cache on disk", "bytes", sums("flametree_querier_disk_cache_bytes", "pod")),
            graph("Sums that were added, rows that were counted", "ops", rate("flametree_querier_block_nodes_total"), rate("flametree_querier_block_rows_total")),
            graph("Damaged or not readable", "ops", rate("flametree_querier_block_faults_total", "pod"), rate("flametree_querier_block_reads_again_total")),
        ]),
        ("Large questions, shared among queriers", [
            graph("Shares", "ops", rate("flametree_querier_split_parts_total", "by")),
            graph("Shares read for others", "ops", rate("flametree_querier_peer_reads_total", "pod")),
            graph("Failed shares", "ops", rate("flametree_querier_peer_read_failures_total", "code")),
        ]),
        ("Lanes", LANES),
    ]),
    "storage": ("storage", [
        ("Store", [
            graph("Operations", "ops", rate("flametree_store_operations_total", "operation, result")),
            graph("Time of an operation", "s", slow("flametree_store_operation_seconds", "operation")),
            graph("Bytes", "Bps", rate("flametree_store_bytes_total", "direction")),
            graph("Requests to the bucket", "reqps", rate("flametree_s3_requests_total", "operation, result")),
            graph("Tried again", "reqps", rate("flametree_s3_retries_total", "operation")),
            graph("Requests at Amazon's list prices, a day", "currencyUSD", ("sum by (class) (increase(flametree_s3_cost_nanodollars_total{}[1d])) / 1e9", "{{class}}")),
        ]),
        ("Compactors", [
            graph("Behind by", "s", ("max by (level) (flametree_compactor_behind_seconds{})", "{{level}}"), about="3 hours are an alert."),
            graph("Due jobs", "short", sums("flametree_compactor_backlog_jobs", "level")),
            graph("Jobs", "ops", rate("flametree_compactor_jobs_total", "level, result")),
            graph("Time of a job", "s", slow("flametree_compactor_job_seconds", "level")),
            graph("Read", "Bps", rate("flametree_compactor_read_bytes_total", "level")),
            graph("Written", "Bps", rate("flametree_compactor_written_bytes_total", "level")),
            graph("Jobs that fail again and again", "short", sums("flametree_compactor_failing_jobs", "pod")),
            graph("Damaged objects that are left out", "short", ("max(flametree_compactor_left_out_objects{})", "objects")),
            graph("Inspections that failed", "ops", rate("flametree_compactor_failed_inspections_total", "pod")),
        ]),
        ("What is kept", [
            graph("Stored bytes", "bytes", ("max by (level) (flametree_compactor_stored_bytes{})", "{{level}}"), ("max(flametree_compactor_store_limit_bytes{}) > 0", "limit")),
            graph("Removed bytes", "Bps", rate("flametree_compactor_retired_bytes_total", "reason")),
            graph("Deleted objects", "ops", rate("flametree_compactor_deleted_objects_total", "kind")),
            graph("Tenants", "short", ("max(flametree_compactor_tenants{})", "with objects"), ("max(flametree_compactor_cut_tenants{})", "kept for a shorter time")),
            graph("Deletions that are not done", "short", ("max(flametree_compactor_deletions_left{})", "deletions")),
            graph("Retention waits for ingesters", "s", ("max(flametree_compactor_held_seconds{})", "waits")),
        ]),
        ("Manifests", [
            graph("Changes", "ops", rate("flametree_manifest_commits_total", "result")),
            graph("LISTs and pages", "ops", rate("flametree_manifest_lists_total"), rate("flametree_manifest_pages_read_total")),
            graph("Read for one use alone, for lack of memory", "ops", rate("flametree_manifest_not_kept_total", "pod")),
        ]),
        ("Streams", [
            graph("Registered streams", "short", sums("flametree_ingester_registered_streams", "pod")),
            graph("Oldest registered stream", "s", ("max by (pod) (flametree_ingester_registered_oldest_seconds{})", "{{pod}}")),
            graph("LISTs of streams", "ops", rate("flametree_querier_stream_lists_total")),
        ]),
    ]),
}


def of_pods(query):
    return query.replace("{}", '{namespace="$namespace",pod=~"$pod"}').replace("[rate]", "[$__rate_interval]")


def panel(p, number, x, y, width, height):
    out = {
        "id": number, "type": p["kind"], "title": p["title"], "gridPos": {"x": x, "y": y, "w": width, "h": height},
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        # Without a series there is nothing to count, so a panel says 0 and not that data is missing.
        "fieldConfig": {"defaults": {"unit": p["unit"], "min": 0, "noValue": "0"}, "overrides": []},
        "targets": [{"refId": chr(ord("A") + i), "expr": of_pods(query), "legendFormat": legend} for i, (query, legend) in enumerate(p["queries"])],
    }
    if p.get("about"):
        out["description"] = p["about"]
    if p["kind"] == "stat":
        steps = [{"color": "green", "value": None}] + ([{"color": "red", "value": p["bad"]}] if p["bad"] is not None else [])
        out["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": steps}
    else:
        out["options"] = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return out


def variable(name, query, **more):
    return {"name": name, "type": "query", "datasource": {"type": "prometheus", "uid": "${datasource}"}, "query": query, "refresh": 2, "sort": 1, **more}


def dashboard(name):
    title, rows = DASHBOARDS[name]
    panels, y = [], 0
    for heading, those in rows:
        panels.append({"id": len(panels) + 1, "type": "row", "title": heading, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "collapsed": False, "panels": []})
        y += 1
        width, height = (4, 4) if those[0]["kind"] == "stat" else (8, 8)
        for i, p in enumerate(those):
            panels.append(panel(p, len(panels) + 1, i * width % 24, y + i * width // 24 * height, width, height))
        y += -(-len(those) * width // 24) * height
    return {
        "uid": "flametree-" + name, "title": "Flametree: " + title, "tags": ["flametree"], "schemaVersion": 39, "editable": True, "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [{"title": "Flametree", "type": "dashboards", "tags": ["flametree"], "asDropdown": True, "keepTime": True, "includeVars": True}],
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            variable("namespace", "label_values(flametree_build_info, namespace)", label="Namespace"),
            variable("pod", 'label_values(flametree_build_info{namespace="$namespace"}, pod)', label="Pod", multi=True, includeAll=True, allValue=".*",
                     current={"text": "All", "value": "$__all"}),
        ]},
        "panels": panels,
    }


def printed(name):
    return json.dumps(dashboard(name), indent=1) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    for each in DASHBOARDS:
        if sys.argv[1:]:
            with open(os.path.join(FOLDER, each + ".json"), "w") as f:
                f.write(printed(each))
        else:
            sys.stdout.write(printed(each))
