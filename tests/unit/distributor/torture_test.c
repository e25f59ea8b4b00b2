// SPDX-License-Identifier: Apache-2.0
//
// Uploads through the whole distributor to an invented ingester in the same process. What is
// acknowledged must have arrived whole; what failed says so, and the same upload then succeeds.
#include "codec/compress.h"
#include "distributor/distributor.h"
#include "lib/exchange.h"
#include "lib/loopback.h"
#include "lib/pprof.h"
#include "lib/torture.h"
#include "model/batch.h"

struct place {
    struct loopback loopback;
    uint64_t records;  // that the ingesters were given in this run, each row once
    int64_t total;
    struct row {
        uint64_t series;
        id128 id;
    } rows[64];
};

// ---- the ingesters

// A row that was lost on its way back from one ingester goes to the other one as well; queries
// count it once.
static bool is_known(const struct place *p, uint64_t series, id128 id)
{
    for (uint64_t i = 0; i < p->records; i++) {
        if (p->rows[i].series == series && id128_eq(p->rows[i].id, id)) return true;
    }
    return false;
}

static void take_batch(struct place *p, str bytes)
{
    struct arena a;
    struct batch b;
    arena_init(&a, NULL, 1 << 24);
    assert_ok(batch_decode(&a, bytes, &b, e));
    for (uint32_t i = 0; i < b.record_count; i++) {
        uint64_t series = b.fingerprints[b.records[i].series];
        if (is_known(p, series, b.records[i].id)) continue;
        p->rows[p->records++ % COUNT(p->rows)] = (struct row){series, b.records[i].id};
        p->total += b.records[i].total;
    }
    arena_release(&a);
}

static bool append(void *service, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct pb_reader r = pb_reader(in);
    (void)x;
    torture_spare(true);
    while (pb_next(&r)) {
        if (r.field == 1) take_batch(service, r.bytes);
    }
    pb_put_u64(out, 2, 1);
    bool ok = pb_done(&r, e);
    torture_spare(false);
    return ok;
}

static const struct rpc_method append_row[] = {
    {.path = "/flametree.v1.IngesterService/Append",
     .run = append,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_INGESTER},
};

static int set_up(void **state)
{
    static struct place p;
    loopback_open(&p.loopback, &distributor, append_row, COUNT(append_row), &p);
    assert_ok(members_add(p.loopback.members, MEMBER_INGESTER, S("a=loopback"), e));
    assert_ok(members_add(p.loopback.members, MEMBER_INGESTER, S("b=loopback"), e));
    *state = &p;
    return 0;
}

static int tear_down(void **state)
{
    loopback_close(&((struct place *)*state)->loopback);
    return 0;
}

// ---- uploads

struct upload {
    struct place *place;
    struct ask ask;
    uint64_t records;
    int64_t total;
};

static void begin(void *arg)
{
    struct upload *u = arg;
    u->place->records = 0;
    u->place->total = 0;
}

static bool upload(void *arg, err *e)
{
    struct upload *u = arg;
    begin(u);
    torture_spare(true);
    u->ask.budget = &u->place->loopback.memory;
    struct http_exchange *x = exchange_ask(&u->ask);
    x->req.tenant = S("anonymous");
    torture_spare(false);
    exchange_go(&u->place->loopback.app, x, u->ask.body);
    torture_spare(true);
    bool ok = x->status == 200;
    str body = exchange_reply(x);
    if (!ok) {
        enum err_code code = x->status == 429   ? ERR_RESOURCE_EXHAUSTED
                             : x->status == 503 ? ERR_UNAVAILABLE
                                                : ERR_INTERNAL;
        err_set(e, code, "%u %.*s", x->status, STR(body));
    }
    exchange_free(x);
    torture_spare(false);
    return ok;
}

// Acknowledged means that all of it arrived.
static void check(void *arg, bool done)
{
    struct upload *u = arg;
    if (!done) return;
    assert_int_equal(u->place->records, u->records);
    assert_int_equal(u->place->total, u->total);
}

static void end(void *arg)
{
    assert_int_equal(atomic_load(&((struct upload *)arg)->place->loopback.memory.used), 0);
}

static void torture_upload(const char *name, struct upload *u)
{
    struct torture_count n = torture_work(&(struct torture_work){.name = name,
                                                                 .begin = begin,
                                                                 .run = upload,
                                                                 .check = check,
                                                                 .end = end,
                                                                 .arg = u,
                                                                 .most = 120});
    assert_true(n.failed > 20);
}

// Two values of one label, a Go program's generic, inlined lines, a mapping; 40 samples of 1 .. 40
// in two types, of which the second is a multiple of the first.
static void build_pprof(struct buf *b)
{
    static const char *const strings[] = {"",
                                          "samples",
                                          "count",
                                          "cpu",
                                          "nanoseconds",
                                          "main.go",
                                          "pkg.F[go.shape.int]",
                                          "user",
                                          "ann",
                                          "bob",
                                          "bin",
                                          "id",
                                          "very.long.name.of.a.function"};
    pp_type(b, 1, 2);
    pp_type(b, 3, 4);
    pp_type_field(b, 11, 3, 4);
    pp_mapping(b, 1, 10, 11);
    for (uint64_t i = 1; i <= 6; i++)
        pp_function(b, i, i % 2 ? 6 : 12, 5);
    for (uint64_t i = 1; i <= 12; i++) {
        struct pp_line lines[] = {{1 + i % 6, (int64_t)i}, {1 + i % 3, 1}};
        pp_location(b, i, 1, 4096 + i, lines, 1 + i % 2);
    }
    for (uint64_t i = 1; i <= 40; i++) {
        size_t m = pb_begin(b, 2);
        pp_numbers(b, 1, (uint64_t[]){1 + i % 12, 1 + i % 5, 1}, 3);
        pp_numbers(b, 2, (uint64_t[]){i, i * 100}, 2);
        size_t inner = pb_begin(b, 3);
        pb_put_u64(b, 1, 7);
        pb_put_u64(b, 2, 8 + i % 2);
        pb_end(b, inner);
        pb_end(b, m);
    }
    for (size_t i = 0; i < COUNT(strings); i++)
        pp_string(b, strings[i]);
    pb_put_u64(b, 9, (uint64_t)clock_wall_ns());
    pb_put_u64(b, 12, 100);
}

static void put_label(struct buf *b, const char *name, const char *value)
{
    size_t m = pb_begin(b, 1);
    pb_put_bytes(b, 1, str_of(name));
    pb_put_bytes(b, 2, str_of(value));
    pb_end(b, m);
}

static void a_push_arrives_or_is_told(void **state)
{
    struct place *p = *state;
    struct buf pprof;
    struct buf gzip;
    struct buf message;
    buf_init(&pprof, NULL, 1 << 20);
    buf_init(&gzip, NULL, 1 << 20);
    buf_init(&message, NULL, 1 << 20);
    build_pprof(&pprof);
    assert_ok(compress_gzip(buf_view(&pprof), 6, &gzip, e));
    for (int i = 0; i < 2; i++) {
        size_t series = pb_begin(&message, 1);
        put_label(&message, "__name__", "process_cpu");
        put_label(&message, "service_name", i ? "web" : "api");
        put_label(&message, "zone", "z");
        size_t sample = pb_begin(&message, 2);
        pb_put_bytes(&message, 1, buf_view(&gzip));
        pb_put_bytes(&message, 2, S("7c9e6679-7425-40de-944b-e07fc1f90ae7"));
        pb_end(&message, sample);
        pb_end(&message, series);
    }
    // Two profiles, two values of the label, two types; 820 samples of 1 and of 100 each.
    struct upload u = {.place = p,
                       .ask = {.path = "/push.v1.PusherService/Push",
                               .headers = "content-type: application/proto\n",
                               .body = buf_view(&message)},
                       .records = 8,
                       .total = 2 * INT64_C(820) * 101};
    torture_upload("distributor.push", &u);
    buf_release(&pprof);
    buf_release(&gzip);
    buf_release(&message);
}

static void an_upload_of_text_arrives_or_is_told(void **state)
{
    struct upload u = {.place = *state,
                       .ask = {.path = "/ingest",
                               .headers = "content-type: text/plain\n",
                               .body = S("main;run;step 5\nmain;run 1\nmain;idle 7\n")},
                       .records = 1,
                       .total = 13 * INT64_C(10000000)};
    u.ask.query = "name=app.cpu%7Bzone%3Dz%7D&from=now-1m&until=now&format=folded";
    torture_upload("distributor.text", &u);
}

static void an_upload_of_a_form_arrives_or_is_told(void **state)
{
    struct buf pprof;
    struct buf form;
    buf_init(&pprof, NULL, 1 << 20);
    buf_init(&form, NULL, 1 << 20);
    build_pprof(&pprof);
    buf_z(&form, "--b\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"p\"\r\n\r\n");
    buf_str(&form, buf_view(&pprof));
    buf_z(&form,
          "\r\n--b\r\nContent-Disposition: form-data; name=\"sample_type_config\"\r\n\r\n"
          "{\"cpu\":{\"units\":\"nanoseconds\",\"display-name\":\"c\\u0070u\"}}\r\n--b--\r\n");
    struct upload u = {.place = *state,
                       .ask = {.path = "/ingest",
                               .headers = "content-type: multipart/form-data; boundary=b\n",
                               .body = buf_view(&form)},
                       .records = 4,
                       .total = INT64_C(820) * 101};
    u.ask.query = "name=app&spyName=gospy&from=1";
    torture_upload("distributor.form", &u);
    buf_release(&pprof);
    buf_release(&form);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_arrives_or_is_told),
        cmocka_unit_test(an_upload_of_text_arrives_or_is_told),
        cmocka_unit_test(an_upload_of_a_form_arrives_or_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
