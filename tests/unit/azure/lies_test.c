// SPDX-License-Identifier: Apache-2.0
//
// Something lies between a store and Azure, and answers in its place: as in s3/lies_test.c, no
// object is taken for gone or for stored because of that. The service here has one blob at most.
#include "azure/azure.h"
#include "codec/url.h"
#include "lib/listener.h"
#include "lib/test.h"
#include "loop/lane.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOB "/acct/box/v1/x"
#define LIST "/acct/box"
#define PAGE "<html>\r\n<head><title>a proxy</title></head></html>\r\n"

enum lie {
    TRUTH,
    PAGE_404,
    PAGE_403,
    PAGE_413,
    PAGE_200,
    PAGE_ETAG,  // 200, and the page has an ETag
    NOTHING,    // 200 and nothing else
    CREATED,    // 201 and nothing else
    ACCEPTED,   // 202 and nothing else
    UPROOTED,   // in the service's words: there is no such container
    FORGETS,    // in the service's words: there is no such blob
};

struct bench {
    struct mem_budget memory;
    struct loop *loop;
    struct lane *lane;
    struct server *server;
    struct store *store;
    struct req r;
    pthread_mutex_t mutex;
    char blob[64];
    size_t n;
    bool there;
    const char *method;  // of the requests that meet the lie, `left` of them
    bool lists;          // only lists do, or no list does
    enum lie lie;
    unsigned left;
    unsigned asked;  // requests of that kind
};

// ---- the service

static void header(struct http_exchange *x, const char *name, str value)
{
    http_headers_add(&x->answer_headers, &x->req.arena, str_of(name), value);
}

static void say(struct http_exchange *x, unsigned status, const char *code)
{
    x->status = status;
    if (code) header(x, "x-ms-error-code", str_of(code));
    header(x, "x-ms-request-id", S("1f2e"));
}

static void tell_lie(struct http_exchange *x, enum lie lie)
{
    static const unsigned statuses[] = {
        [PAGE_404] = 404,  [PAGE_403] = 403, [PAGE_413] = 413, [PAGE_200] = 200,
        [PAGE_ETAG] = 200, [NOTHING] = 200,  [CREATED] = 201,  [ACCEPTED] = 202};
    if (lie == UPROOTED || lie == FORGETS) {
        say(x, 404, lie == UPROOTED ? "ContainerNotFound" : "BlobNotFound");
        return;
    }
    x->status = statuses[lie];
    if (lie == PAGE_ETAG) header(x, "etag", S("\"5f3a-62\""));
    if (lie >= NOTHING) return;
    header(x, "content-type", S("text/html"));
    x->fixed = S(PAGE);
}

static void give_list(struct bench *b, struct http_exchange *x)
{
    say(x, 200, NULL);
    buf_z(&x->out, "<?xml version=\"1.0\"?><EnumerationResults><Blobs>");
    if (b->there)
        buf_printf(&x->out,
                   "<Blob><Name>v1/x</Name><Properties><Content-Length>%zu</Content-Length>"
                   "</Properties></Blob>",
                   b->n);
    buf_z(&x->out, "</Blobs><NextMarker /></EnumerationResults>");
}

static void give_blob(struct bench *b, struct http_exchange *x)
{
    str range = http_headers_get(&x->headers, "x-ms-range");
    unsigned from = 0;
    unsigned to = (unsigned)b->n - 1;
    char text[64];
    if (!b->there) {
        say(x, 404, "BlobNotFound");
        return;
    }
    snprintf(text, sizeof text, "%.*s", STR(range));
    bool part = sscanf(text, "bytes=%u-%u", &from, &to) == 2;  // NOLINT(cert-err34-c): our own
    to = MIN(to, (unsigned)b->n - 1);
    say(x, part ? 206 : 200, NULL);
    header(x, "etag", S("\"0x8D\""));
    header(x, "last-modified", S("Mon, 01 Jan 2024 00:00:00 GMT"));
    header(x, "date", S("Mon, 01 Jan 2024 00:01:00 GMT"));
    if (part)
        header(x, "content-range", arena_printf(&x->req.arena, "bytes %u-%u/%zu", from, to, b->n));
    x->fixed = arena_str(&x->req.arena, str_make(b->blob + from, to - from + 1));
}

static void create_blob(struct bench *b, struct http_exchange *x)
{
    if (b->there) {
        say(x, 409, "BlobAlreadyExists");
        return;
    }
    assert_true(x->body.n <= sizeof b->blob && http_headers_get(&x->headers, "content-md5").n);
    memcpy(b->blob, x->body.p, x->body.n);
    b->n = x->body.n;
    b->there = true;
    say(x, 201, NULL);
    header(x, "etag", S("\"0x8D\""));
}

static void carry_out(struct bench *b, struct http_exchange *x)
{
    if (str_is(x->path, LIST)) {
        give_list(b, x);
    } else if (str_is(x->method, "PUT")) {
        create_blob(b, x);
    } else if (str_is(x->method, "DELETE")) {
        b->there = false;
        say(x, 202, NULL);
    } else {
        give_blob(b, x);
    }
}

static void run(void *self, struct http_exchange *x)
{
    struct bench *b = self;
    pthread_mutex_lock(&b->mutex);
    bool meets = b->method && str_is(x->method, b->method) && str_is(x->path, LIST) == b->lists;
    b->asked += meets;
    if (meets && b->left > 0) {
        b->left--;
        tell_lie(x, b->lie);
    } else {
        carry_out(b, x);
    }
    pthread_mutex_unlock(&b->mutex);
}

static enum head_verdict head(void *self, struct http_exchange *x)
{
    x->lane = ((struct bench *)self)->lane;
    x->body_max = 1 << 16;
    return HEAD_READ_BODY;
}

static void refuse(void *self, struct http_exchange *x, const err *e)
{
    (void)self;
    (void)e;
    if (x->status == 0) x->status = 503;
}

// The next `times` requests of a method, about the blob or lists, meet the lie.
static void lies(struct bench *b, const char *method, bool lists, enum lie lie, unsigned times)
{
    pthread_mutex_lock(&b->mutex);
    b->method = method;
    b->lists = lists;
    b->lie = lie;
    b->left = times;
    b->asked = 0;
    pthread_mutex_unlock(&b->mutex);
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    struct lane_options lane = {.name = "azure", .rank = RANK_DISK, .width = 4, .queue_max = 100};
    char url[80];
    pthread_mutex_init(&b->mutex, NULL);
    mem_budget_init(&b->memory, "azure", NULL, 0);
    assert_ok((b->loop = loop_new("azure", e)));
    assert_ok((b->lane = lane_new(&lane, e)));
    struct server_app app = {.self = b, .head = head, .run = run, .refuse = refuse};
    struct server_options o = listener_for("azure", "127.0.0.1:0", &b->memory, RANK_DISK);
    assert_ok((b->server = server_open(&o, app, &b->loop, 1, e)));
    snprintf(url, sizeof url, "http://127.0.0.1:%u/acct", server_port(b->server));
    struct azure_options azure = {.account = "acct",
                                  .endpoint = url,
                                  .container = "box",
                                  .prefix = "",
                                  .keys = {.account_key = "a2V5"}};
    assert_ok((b->store = store_open_azure(&azure, e)));
    req_init(&b->r, RANK_DUTY, NULL, 1 << 20, 0);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    store_close(b->store);
    req_release(&b->r);
    server_close(b->server);
    lane_drain(b->lane);
    lane_free(b->lane);
    loop_free(b->loop);
    pthread_mutex_destroy(&b->mutex);
    free(b);
    return 0;
}

// ---- tests

static const struct {
    const char *name;
    enum lie lie;
    bool passes;  // it is asked again
} answers[] = {
    {"404 with a page", PAGE_404, true},
    {"403 with a page", PAGE_403, true},
    {"200 with a page", PAGE_200, true},
    {"200 with a page and an ETag", PAGE_ETAG, true},
    {"200 and nothing else", NOTHING, true},
    {"no such container", UPROOTED, false},
    {"no such blob, though there is one", FORGETS, true},
};

static bool read_all(struct bench *b, struct req *r, err *e)
{
    char to[4];
    return store_read(b->store, r, S("v1/x"), 0, 4, to, e) && memcmp(to, "kept", 4) == 0;
}

static bool get_all(struct bench *b, struct req *r, err *e)
{
    struct buf out;
    buf_init(&out, NULL, 100);
    bool ok = store_get(b->store, r, S("v1/x"), &out, e) && str_is(buf_view(&out), "kept");
    buf_release(&out);
    return ok;
}

static bool look(struct bench *b, struct req *r, err *e)
{
    uint64_t size = 0;
    return store_size(b->store, r, S("v1/x"), &size, e) && size == 4;
}

static bool ask_age(struct bench *b, struct req *r, err *e)
{
    int64_t age_ns = 0;
    return store_age(b->store, r, S("v1/x"), &age_ns, e);
}

static const struct {
    const char *name;
    const char *method;
    bool (*run)(struct bench *b, struct req *r, err *e);
} readings[] = {{"read", "GET", read_all},
                {"get", "GET", get_all},
                {"size", "HEAD", look},
                {"age", "HEAD", ask_age}};

static void put_kept(struct bench *b)
{
    bool existed = false;
    assert_ok(store_put(b->store, &b->r, S("v1/x"), S("kept"), &existed, e));
}

static void an_object_is_not_taken_for_gone_because_of_what_others_say(void **state)
{
    struct bench *b = *state;
    put_kept(b);
    for (size_t i = 0; i < COUNT(readings) * COUNT(answers); i++) {
        const size_t at = i / COUNT(answers);
        const size_t a = i % COUNT(answers);
        err once = {0};
        err always = {0};
        struct req r;
        lies(b, readings[at].method, false, answers[a].lie, 1);
        bool ok = readings[at].run(b, &b->r, &once);
        if (ok != answers[a].passes)
            fail_msg("%s, once %s: %d %s", readings[at].name, answers[a].name, ok, once.msg);
        lies(b, readings[at].method, false, answers[a].lie, 1000);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 150 * (uint64_t)NS_PER_MS);
        ok = readings[at].run(b, &r, &always);
        req_release(&r);
        lies(b, NULL, false, TRUTH, 0);
        if (ok || (always.code != ERR_UNAVAILABLE && always.code != ERR_DEADLINE_EXCEEDED))
            fail_msg("%s, always %s: %s %s", readings[at].name, answers[a].name,
                     err_name(always.code), always.msg);
    }
}

static void what_is_not_there_is_not_found_by_each_way_to_ask(void **state)
{
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(readings); i++) {
        err why = {0};
        assert_false(readings[i].run(b, &b->r, &why));
        if (why.code != ERR_NOT_FOUND) fail_msg("%s: %s", readings[i].name, why.msg);
    }
}

static void a_creation_counts_if_the_service_says_so(void **state)
{
    static const struct {
        const char *name;
        enum lie lie;
        unsigned times;
        enum err_code code;  // ERR_OK: it succeeds
    } cases[] = {
        {"200 with a page", PAGE_200, 2, ERR_OK},
        {"200 with a page and an ETag", PAGE_ETAG, 1, ERR_OK},
        {"200 and nothing else", NOTHING, 1, ERR_OK},
        {"201 and nothing else", CREATED, 1, ERR_OK},
        {"404 with a page", PAGE_404, 1, ERR_OK},
        {"403 with a page", PAGE_403, 1, ERR_OK},
        {"201 and nothing else, always", CREATED, 1000, ERR_UNAVAILABLE},
        {"too large", PAGE_413, 1, ERR_OUT_OF_RANGE},
        {"no such container", UPROOTED, 1, ERR_UNAVAILABLE},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool existed = false;
        err why = {0};
        lies(b, "PUT", false, cases[i].lie, cases[i].times);
        bool ok = store_put(b->store, &b->r, S("v1/x"), S("mine"), &existed, &why);
        if ((ok ? ERR_OK : why.code) != cases[i].code || existed || b->there != ok)
            fail_msg("%s: %s, existed %d, there %d", cases[i].name, why.msg, existed, b->there);
        lies(b, NULL, false, TRUTH, 0);
        assert_ok(store_delete(b->store, &b->r, S("v1/x"), e));
    }
}

static void a_deletion_counts_if_the_service_says_so(void **state)
{
    static const enum lie told[] = {PAGE_200, NOTHING, ACCEPTED, PAGE_404, PAGE_403};
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(told); i++) {
        put_kept(b);
        lies(b, "DELETE", false, told[i], 1);
        assert_ok(store_delete(b->store, &b->r, S("v1/x"), e));
        if (b->there || b->asked != 2) fail_msg("lie %zu: %u requests", i, b->asked);
    }
}

static void a_list_is_the_services_or_none(void **state)
{
    static const enum lie told[] = {PAGE_200, PAGE_ETAG, NOTHING, PAGE_404, PAGE_403, FORGETS};
    struct bench *b = *state;
    put_kept(b);
    for (size_t i = 0; i < COUNT(told); i++) {
        struct req r;
        bool lacks = true;
        err why = {0};
        if (told[i] != FORGETS) {
            lies(b, "GET", true, told[i], 1);
            assert_ok(store_lacks(b->store, &b->r, S("v1/x"), &lacks, e));
            assert_false(lacks);
        }
        lies(b, "GET", true, told[i], 1000);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 150 * (uint64_t)NS_PER_MS);
        if (store_lacks(b->store, &r, S("v1/x"), &lacks, &why)) fail_msg("lie %zu, always", i);
        req_release(&r);
        assert_false(lacks);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_object_is_not_taken_for_gone_because_of_what_others_say),
        CASE(what_is_not_there_is_not_found_by_each_way_to_ask),
        CASE(a_creation_counts_if_the_service_says_so),
        CASE(a_deletion_counts_if_the_service_says_so),
        CASE(a_list_is_the_services_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
