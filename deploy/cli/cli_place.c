// SPDX-License-Identifier: Apache-2.0
//
// place: where a distributor sends the profiles of a label set, and why. The distributor decides it
// as for a push; here it is only put into words.
#include "codec/json.h"
#include "codec/url.h"
#include "deploy/cli/cli_ask.h"

#include <inttypes.h>

#define OUTPUT_MAX ((size_t)16 << 20)
#define PATH_BYTES ((size_t)64 << 10)

#define ELSEWHERE                                                                \
    "only a distributor or the all-in-one places series: give its address with " \
    "--url, and if it has admin.listen that one"

struct row {
    str ingester;
    str address;
    str state;
    str of;
    uint64_t weight;
};

struct place {
    str distributor;
    str tenant;
    str service;
    str home;
    uint64_t ingesters;
    uint64_t tenant_ingesters;  // 0: all
    uint64_t tenant_need;
    uint64_t tenant_even;
    uint64_t tenant_set;  // by a setting; 0: it is not
    uint64_t service_ingesters;
    uint64_t service_need;
    uint64_t service_even;
    uint64_t service_set;
    uint64_t series_need;
    uint64_t home_ingesters;
    uint64_t attempts;
    uint64_t past_lists;
    bool settled;
    bool past_unknown;
    bool with_id;
    struct row *rows;
    size_t n;
    size_t cap;
};

// ---- asking

static bool make_path(struct cli *c, struct buf *path, int *status, err *e)
{
    const char *labels = cli_args_get(&c->args, OPT_PLACE_LABELS);
    const char *type = cli_args_get(&c->args, OPT_PLACE_TYPE);
    if (!labels) {
        return cli_wrong(status) ||
               err_set(e, ERR_INVALID_ARGUMENT,
                       "--labels is missing: such as '{service_name=\"shop\",pod=\"a\"}'");
    }
    buf_z(path, "/distributor/place?labels=");
    url_encode(path, str_of(labels));
    buf_z(path, "&tenant=");
    url_encode(path, c->tenant.n ? c->tenant : S("anonymous"));
    if (type) {
        buf_z(path, "&type=");
        url_encode(path, str_of(type));
    }
    if (cli_args_has(&c->args, OPT_WITH_ID)) buf_z(path, "&id=true");
    // For cli_call_start, which takes text that ends with NUL.
    buf_byte(path, '\0');
    return buf_ok(path, e);
}

// ---- reading

static bool read_row(struct json_reader *r, struct row *row)
{
    const struct cli_member members[] = {{.key = "ingester", .text = &row->ingester},
                                         {.key = "address", .text = &row->address},
                                         {.key = "weight", .number = &row->weight},
                                         {.key = "state", .text = &row->state},
                                         {.key = "of", .text = &row->of}};
    return cli_read_members(r, members, COUNT(members));
}

static bool read_rows(struct cli *c, struct json_reader *r, struct place *p)
{
    enum json_token t = JSON_FAULT;
    if (json_next(r) != JSON_ARRAY) return false;
    while ((t = json_next(r)) == JSON_OBJECT) {
        if (!arena_grow(&c->arena, &p->rows, &p->cap, p->n + 1, sizeof *p->rows)) return false;
        p->rows[p->n] = (struct row){0};
        if (!read_row(r, &p->rows[p->n++])) return false;
    }
    return t == JSON_ARRAY_END;
}

// The value of the key that was read.
static bool read_value(struct json_reader *r, struct place *p)
{
    const struct cli_member members[] = {
        {.key = "distributor", .text = &p->distributor},
        {.key = "tenant", .text = &p->tenant},
        {.key = "service", .text = &p->service},
        {.key = "home", .text = &p->home},
        {.key = "ingesters", .number = &p->ingesters},
        {.key = "tenant_ingesters", .number = &p->tenant_ingesters},
        {.key = "tenant_need", .number = &p->tenant_need},
        {.key = "tenant_even", .number = &p->tenant_even},
        {.key = "tenant_ingesters_set", .number = &p->tenant_set},
        {.key = "service_ingesters", .number = &p->service_ingesters},
        {.key = "service_need", .number = &p->service_need},
        {.key = "service_even", .number = &p->service_even},
        {.key = "service_ingesters_set", .number = &p->service_set},
        {.key = "series_need", .number = &p->series_need},
        {.key = "home_ingesters", .number = &p->home_ingesters},
        {.key = "attempts", .number = &p->attempts},
        {.key = "past_lists", .number = &p->past_lists},
        {.key = "settled", .flag = &p->settled},
        {.key = "past_unknown", .flag = &p->past_unknown},
        {.key = "with_id", .flag = &p->with_id},
    };
    return cli_read_member(r, members, COUNT(members));
}

static bool read_place(struct cli *c, str body, struct place *p)
{
    struct json_reader r;
    enum json_token t = JSON_FAULT;
    json_reader_init(&r, &c->arena, body);
    if (json_next(&r) != JSON_OBJECT) return false;
    while ((t = json_next(&r)) == JSON_KEY) {
        bool ok = str_is(r.text, "order") ? read_rows(c, &r, p) : read_value(&r, p);
        if (!ok) return false;
    }
    return t == JSON_OBJECT_END && p->n > 0;
}

// ---- in words

static void put_title(struct buf *b, const char *title)
{
    text_left(b, str_of(title), 9);
}

static void put_tenant(struct buf *b, const struct place *p)
{
    put_title(b, "tenant");
    text_put(b, p->tenant);
    uint64_t n = p->tenant_ingesters ? MIN(p->tenant_ingesters, p->ingesters) : p->ingesters;
    buf_printf(b, ": %" PRIu64 " of %" PRIu64 " ingesters", n, p->ingesters);
    if (p->tenant_set) {
        buf_printf(b, " (distributor.tenant_ingesters is %" PRIu64 ")", p->tenant_set);
    } else if (!p->with_id && p->tenant_even > p->tenant_need + 1) {
        buf_printf(b, " (its rate needs %" PRIu64 ", even ingesters %" PRIu64 ")", p->tenant_need,
                   p->tenant_even);
    } else if (!p->with_id) {
        buf_printf(b, " (its rate needs %" PRIu64 ", and one more)", p->tenant_need);
    } else if (p->home_ingesters) {
        buf_printf(b, " (its rate needs %" PRIu64 ", limits.home_ingesters is %" PRIu64 ")",
                   p->tenant_need, p->home_ingesters);
    } else {
        buf_z(b, " (all: limits.home_ingesters is 0)");
    }
    buf_byte(b, '\n');
}

static void put_service(struct buf *b, const struct place *p)
{
    put_title(b, "service");
    text_put(b, p->service);
    uint64_t n = p->tenant_ingesters ? MIN(p->tenant_ingesters, p->ingesters) : p->ingesters;
    buf_printf(b, ": %" PRIu64 " of these", MIN(p->service_ingesters, n));
    if (p->service_set) {
        buf_printf(b, " (distributor.service_ingesters is %" PRIu64 ")\n", p->service_set);
    } else if (p->service_even > p->service_need) {
        buf_printf(b, " (its rate needs %" PRIu64 ", even ingesters %" PRIu64 ")\n",
                   p->service_need, p->service_even);
    } else {
        buf_printf(b, " (its rate needs %" PRIu64 ")\n", p->service_need);
    }
    if (p->series_need > 1 && !p->with_id) {
        put_title(b, "series");
        buf_printf(b,
                   "its rate needs %" PRIu64 " ingesters: pushes take turns among the first of "
                   "the list\n",
                   p->series_need);
    }
}

static void put_home(struct buf *b, const struct place *p)
{
    put_title(b, "home");
    text_put(b, p->home);
    if (p->settled) {
        buf_z(b, ": settled");
    } else if (p->past_unknown) {
        buf_z(b, ": not settled, lists of ingesters of before are not known; until it is, queries "
                 "look for second copies");
    } else {
        buf_printf(b,
                   ": not settled, one of %" PRIu64 " lists of ingesters of before has another; "
                   "until it is, queries look for second copies",
                   p->past_lists);
    }
    buf_z(b, p->with_id ? "\n" : " (of profiles with an id of the client)\n");
}

static const char *why_of(str of)
{
    if (str_is(of, "service")) return "of the service";
    if (str_is(of, "tenant")) return "of the tenant";
    if (str_is(of, "others")) return "another one";
    return "tried last";
}

// Says in words how the order came about.
static void put_rule(struct buf *b, const struct place *p)
{
    uint64_t all = 0;
    bool even = true;
    for (size_t i = 0; i < p->n; i++) {
        all += p->rows[i].weight;
        even &= p->rows[i].weight == p->rows[0].weight;
    }
    if (even || !all) return;
    buf_printf(b,
               "\nWeights differ (cluster.weight): of everything that may go to all ingesters, one "
               "gets its weight of %" PRIu64 ".\n",
               all);
}

static void put_rows(struct buf *b, const struct place *p)
{
    unsigned wide = text_columns(S("ingester"));
    unsigned address = text_columns(S("address"));
    for (size_t i = 0; i < p->n; i++) {
        wide = MAX(wide, text_columns(p->rows[i].ingester));
        address = MAX(address, text_columns(p->rows[i].address));
    }
    buf_z(b, "\ntry  ");
    text_left(b, S("ingester"), wide + 2);
    text_left(b, S("address"), address + 2);
    buf_z(b, "weight  state    why\n");
    for (size_t i = 0; i < p->n; i++) {
        const struct row *row = &p->rows[i];
        if (i < p->attempts)
            buf_printf(b, "%3zu  ", i + 1);
        else
            buf_z(b, "  -  ");
        text_left(b, row->ingester, wide + 2);
        text_left(b, row->address, address + 2);
        buf_printf(b, "%6" PRIu64 "  ", row->weight);
        text_left(b, row->state, 9);
        buf_printf(b, "%s\n", why_of(row->of));
    }
}

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is cli_run
bool cli_place(struct cli *c, int *status, err *e)
{
    struct place p = {0};
    struct buf out;
    str body = {0};
    buf_init(&out, NULL, PATH_BYTES);
    bool ok = make_path(c, &out, status, e) && cli_fetch(c, "GET", out.p, ELSEWHERE, &body, e);
    buf_release(&out);
    if (!ok) return false;
    buf_init(&out, NULL, OUTPUT_MAX);
    if (cli_wants_json(c)) {
        text_filter(&out, body);
    } else if (read_place(c, body, &p)) {
        put_tenant(&out, &p);
        put_service(&out, &p);
        put_home(&out, &p);
        put_rows(&out, &p);
        put_rule(&out, &p);
    } else {
        ok = err_set(e, ERR_UNKNOWN, "%.*s/distributor/place: no order of ingesters",
                     STR(c->url.shown));
    }
    ok = ok && buf_ok(&out, e) && cli_write(c, &out, e);
    buf_release(&out);
    return ok;
}
