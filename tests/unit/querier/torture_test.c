// SPDX-License-Identifier: Apache-2.0
//
// Every question of the public interface, through the whole querier to invented ingesters in the
// same process. An answer is the true one or none: what is missing for want of memory is an error.
#include "lib/exchange.h"
#include "lib/loopback.h"
#include "lib/torture.h"
#include "querier/querier.h"
#include "unit/querier/heads.h"

#define CPU   "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define TYPED "__profile_type__=" CPU ",__name__=process_cpu,__type__=cpu,service_name=demo"
#define FROM  "1699999999000"
#define TO    "1700000001000"
#define TN    INT64_C(1700000000000000000)
#define ONE   UINT64_C(0x0807060504030201)  // span 0102030405060708

static const struct head_row first_rows[] = {
    {"anonymous", TYPED ",env=prod,pod=a-1", TN, {{"main;a", 1, 0}, {"main;a;x", 2, ONE}}, 1},
    {"anonymous", TYPED ",env=dev,pod=b", TN + 500000, {{"main;b", 4, 0}, {"main;c", 9, 0}}, 2},
};
static const struct head_row second_rows[] = {
    {"anonymous", TYPED ",env=prod,pod=p", TN, {{"main;a", 8, ONE}}, 4},
    {"anonymous", TYPED ",env=prod,pod=a-1", TN + 9000, {{"main;d;e;f", 3, 0}}, 5},
};
static const char *const annotations[] = {"k=v", NULL};

static struct head heads[] = {
    {.member = "one", .rows = first_rows, .row_count = 2, .stream = 1, .annotations = annotations},
    {.member = "two", .rows = second_rows, .row_count = 2, .stream = 2},
};

// The one ingester that is asked answers for both streams.
static bool head_read(void *service, struct http_exchange *x, str in, struct buf *out, err *e)
{
    const struct heads all = {heads, COUNT(heads), NULL};
    struct head_replies replies = {0};
    struct req r;
    (void)service;
    torture_spare(true);
    req_init(&r, RANK_INGESTER, NULL, 1 << 24, 0);
    bool ok = heads_ask(&all, &r, x->req.tenant, in, &replies, e);
    for (size_t i = 0; ok && i < replies.n; i++)
        buf_str(out, replies.v[i].bytes);
    req_release(&r);
    torture_spare(false);
    return ok;
}

static const struct rpc_method head_read_row[] = {
    {.path = "/flametree.v1.IngesterService/HeadRead",
     .run = head_read,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_INGESTER},
};

// ---- questions

struct question {
    const char *name;
    const char *path;   // of querier.v1.QuerierService unless it begins with '/'
    const char *query;  // of plain routes
    const char *body;
};

struct asked {
    struct loopback *loopback;
    const struct question *question;
};

static bool ask(struct torture_bench *b, void *arg, err *e)
{
    const struct asked *k = arg;
    const struct question *q = k->question;
    char path[128];
    torture_spare(true);
    snprintf(path, sizeof path, "%s%s", q->path[0] == '/' ? "" : "/querier.v1.QuerierService/",
             q->path);
    struct ask ask = {.method = q->body ? "POST" : "GET",
                      .path = path,
                      .query = q->query,
                      .headers = "content-type: application/json\naccept: */*; "
                                 "allow-utf8-labelnames=true\n",
                      .budget = &b->budget};
    struct http_exchange *x = exchange_ask(&ask);
    torture_spare(false);
    exchange_go(&k->loopback->app, x, str_of(q->body ? q->body : ""));
    torture_spare(true);
    bool ok = x->status == 200;
    str body = exchange_reply(x);
    if (ok) {
        buf_str(&b->out, body);
    } else {
        enum err_code code = x->status == 429   ? ERR_RESOURCE_EXHAUSTED
                             : x->status == 503 ? ERR_UNAVAILABLE
                                                : ERR_INTERNAL;
        err_set(e, code, "%u %.*s", x->status, STR(body));
    }
    exchange_free(x);
    torture_spare(false);
    return ok;
}

#define RANGE  "\"start\":" FROM ",\"end\":" TO
#define CHOICE RANGE ",\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"{env=~\\\"p.*\\\"}\""
#define RENDER                                                                                   \
    "query=process_cpu%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds%7Benv%3D%22prod%22%7D&from=" FROM \
    "&until=" TO

static const struct question questions[] = {
    {"types", "ProfileTypes", NULL, "{" RANGE "}"},
    {"label_names", "LabelNames", NULL, "{" RANGE ",\"matchers\":[\"{env=\\\"prod\\\"}\"]}"},
    {"label_values", "LabelValues", NULL, "{" RANGE ",\"name\":\"pod\"}"},
    {"series", "Series", NULL, "{" RANGE ",\"labelNames\":[\"pod\",\"env\"]}"},
    {"flamegraph", "SelectMergeStacktraces", NULL, "{" CHOICE ",\"maxNodes\":3}"},
    {"tree", "SelectMergeStacktraces", NULL, "{" CHOICE ",\"format\":\"PROFILE_FORMAT_TREE\"}"},
    {"dot", "SelectMergeStacktraces", NULL, "{" CHOICE ",\"format\":\"PROFILE_FORMAT_DOT\"}"},
    {"pprof", "SelectMergeStacktraces", NULL, "{" CHOICE ",\"format\":\"PROFILE_FORMAT_PPROF\"}"},
    {"spans", "SelectMergeSpanProfile", NULL,
     "{" CHOICE ",\"spanSelector\":[\"0102030405060708\"]}"},
    {"profile", "SelectMergeProfile", NULL, "{" CHOICE ",\"maxNodes\":4}"},
    {"select_series", "SelectSeries", NULL,
     "{" CHOICE ",\"step\":1,\"groupBy\":[\"pod\"],\"exemplarType\":\"EXEMPLAR_TYPE_INDIVIDUAL\"}"},
    {"heatmap", "SelectHeatmap", NULL,
     "{" CHOICE ",\"step\":1,\"groupBy\":[\"pod\"],\"queryType\":\"HEATMAP_QUERY_TYPE_INDIVIDUAL\","
     "\"exemplarType\":\"EXEMPLAR_TYPE_INDIVIDUAL\"}"},
    {"diff", "Diff", NULL, "{\"left\":{" CHOICE "},\"right\":{" CHOICE "}}"},
    {"stats", "GetProfileStats", NULL, "{}"},
    {"analyze", "AnalyzeQuery", NULL, "{" RANGE ",\"query\":\"" CPU "{env=\\\"prod\\\"}\"}"},
    {"flags", "/capabilities.v1.FeatureFlagsService/GetFeatureFlags", NULL, "{}"},
    {"render", "/pyroscope/render", RENDER "&groupBy=pod", NULL},
    {"render_dot", "/pyroscope/render", RENDER "&format=dot", NULL},
    {"render_diff", "/pyroscope/render-diff",
     "leftQuery=process_cpu%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds%7B%7D&leftFrom=" FROM
     "&leftUntil=" TO
     "&rightQuery=process_cpu%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds%7B%7D&rightFrom=" FROM
     "&rightUntil=" TO,
     NULL},
    {"render_values", "/pyroscope/label-values", "label=pod&from=" FROM "&until=" TO, NULL},
};

static void questions_are_answered_truly_or_not_at_all(void **state)
{
    (void)state;
    struct loopback n;
    loopback_open(&n, &querier, head_read_row, COUNT(head_read_row), NULL);
    assert_ok(members_add(n.members, MEMBER_INGESTER, S("one=loopback"), e));
    for (size_t i = 0; i < COUNT(questions); i++) {
        char name[64];
        struct asked asked = {&n, &questions[i]};
        snprintf(name, sizeof name, "querier.%s", questions[i].name);
        const struct torture_maker m = {.name = name, .make = ask, .arg = &asked, .most = 60};
        torture_make_all(&m, 1);
    }
    loopback_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_are_answered_truly_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
