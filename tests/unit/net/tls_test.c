// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"
#include "net/tls.h"
#include "sys/file.h"
#include "unit/net/rig.h"

#include <spawn.h>
#include <sys/wait.h>

#include <curl/curl.h>

struct place {
    struct rig *rig;
    char dir[DIR_MAX];
    char cert[DIR_PATH_MAX];
    char key[DIR_PATH_MAX];
};

// A self-signed certificate for 127.0.0.1, which is its own CA.
static void make_certificate(struct place *p)
{
    dir_path(p->cert, p->dir, "cert.pem");
    dir_path(p->key, p->dir, "key.pem");
    const char *const argv[] = {"openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:P-256",
                                "-nodes",
                                "-days",
                                "2",
                                "-subj",
                                "/CN=t",
                                "-addext",
                                "subjectAltName=IP:127.0.0.1",
                                "-out",
                                p->cert,
                                "-keyout",
                                p->key,
                                NULL};
    char *args[COUNT(argv)];
    memcpy((void *)args, (const void *)argv, sizeof argv);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1, 0);
    pid_t child = 0;
    assert_int_equal(posix_spawnp(&child, argv[0], &quiet, NULL, args, environ), 0);
    posix_spawn_file_actions_destroy(&quiet);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    dir_new(p->dir);
    make_certificate(p);
    p->rig = rig_new();
    p->rig->options.tls_cert_file = p->cert;
    p->rig->options.tls_key_file = p->key;
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    rig_free(p->rig);
    dir_remove(p->dir);
    free(p);
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    buf_put(arg, bytes, size * n);
    return size * n;
}

struct want {
    long version;
    const char *scheme;
    const char *path;
    const char *body;
    bool show_certificate;
};

// Its password is "secret".
static const char locked_key[] =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjgo6dZZjtyjAICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEH7A0yMd9mob/Ccet7xnbWAEQDnR\n"
    "MCbfoxTyKy6gzqQKC+P4ES6pSev0Tjw2vL2vkOlsRih/4k7izpy0Ty2V9NERL//B\n"
    "SIYuXtHzaBT3B865hrk=\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";

static const char other_key[] = "-----BEGIN PRIVATE KEY-----\n"
                                "MC4CAQAwBQYDK2VwBCIEIFC3lWxpG4kUqYcHNGxYpuGXHptcuwSRmkhHeyBIu3v/\n"
                                "-----END PRIVATE KEY-----\n";

// The HTTP status, or 0 if there was no answer; *version is what was spoken.
static long fetch(const struct place *p, CURL *easy, const struct want *w, struct buf *body,
                  long *version)
{
    char url[128];
    snprintf(url, sizeof url, "%s://127.0.0.1:%u%s", w->scheme, server_port(p->rig->server),
             w->path);
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_CAINFO, p->cert);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, w->version);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 120L);
    if (w->body) curl_easy_setopt(easy, CURLOPT_POSTFIELDS, w->body);
    if (w->show_certificate) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, p->cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, p->key);
    }
    buf_clear(body);
    long status = 0;
    if (curl_easy_perform(easy) != CURLE_OK) return 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, version);
    return status;
}

static void speaks_both_protocols_under_tls(void **state)
{
    struct place *p = *state;
    rig_open(p->rig);
    struct buf body;
    buf_init(&body, NULL, 1 << 24);
    static const long versions[] = {CURL_HTTP_VERSION_1_1, CURL_HTTP_VERSION_2TLS};
    char *upload = malloc(90001);
    assert_non_null(upload);
    memset(upload, 'u', 90000);
    upload[90000] = '\0';
    for (size_t i = 0; i < COUNT(versions); i++) {
        CURL *easy = curl_easy_init();  // with connections of its own
        long spoken = 0;
        for (int again = 0; again < 3; again++) {  // on the same connection
            struct want w = {versions[i], "https", "/echo", upload, false};
            assert_int_equal(fetch(p, easy, &w, &body, &spoken), 200);
            assert_int_equal(spoken, i ? CURL_HTTP_VERSION_2_0 : CURL_HTTP_VERSION_1_1);
            assert_int_equal(body.n, 90000);
            w.path = "/big";
            w.body = NULL;
            assert_int_equal(fetch(p, easy, &w, &body, &spoken), 200);
            assert_int_equal(body.n, RIG_BIG);
            w.path = "/hello";
            assert_int_equal(fetch(p, easy, &w, &body, &spoken), 200);
            assert_true(str_is(buf_view(&body), "hello\n"));
        }
        curl_easy_cleanup(easy);
    }
    free(upload);
    buf_release(&body);
}

static void takes_plain_connections_unless_tls_is_required(void **state)
{
    struct place *p = *state;
    struct buf body;
    buf_init(&body, NULL, 1 << 20);
    CURL *easy = curl_easy_init();
    for (int required = 0; required < 2; required++) {
        p->rig->options.tls_required = required;
        rig_open(p->rig);
        long spoken = 0;
        struct want w = {CURL_HTTP_VERSION_1_1, "http", "/hello", NULL, false};
        assert_int_equal(fetch(p, easy, &w, &body, &spoken), required ? 400 : 200);
        w.scheme = "https";
        assert_int_equal(fetch(p, easy, &w, &body, &spoken), 200);
        if (required) break;
        server_close(p->rig->server);
    }
    curl_easy_cleanup(easy);
    buf_release(&body);
}

static void asks_clients_for_their_certificate(void **state)
{
    struct place *p = *state;
    p->rig->options.tls_client_ca_file = p->cert;
    rig_open(p->rig);
    struct buf body;
    buf_init(&body, NULL, 1 << 20);
    CURL *easy = curl_easy_init();
    long spoken = 0;
    struct want w = {CURL_HTTP_VERSION_1_1, "https", "/hello", NULL, true};
    assert_int_equal(fetch(p, easy, &w, &body, &spoken), 200);
    curl_easy_cleanup(easy);
    easy = curl_easy_init();
    w.show_certificate = false;
    assert_int_equal(fetch(p, easy, &w, &body, &spoken), 0);
    curl_easy_cleanup(easy);
    buf_release(&body);
}

static void our_client_speaks_it_too(void **state)
{
    struct place *p = *state;
    p->rig->options.tls_client_ca_file = p->cert;
    rig_open(p->rig);
    struct mem_budget memory;
    mem_budget_init(&memory, "calls", NULL, 1 << 24);
    struct req req;
    req_init(&req, RANK_DUTY, &memory, 1 << 20, 60 * NS_PER_S);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", server_port(p->rig->server));
    for (int trusting = 0; trusting < 2; trusting++) {
        struct client *client = NULL;
        assert_ok((client = client_new(p->rig->loops[0], &memory, 2, e)));
        struct client_tls tls = {.ca_file = p->cert, .cert_file = p->cert, .key_file = p->key};
        if (trusting) assert_ok(client_set_tls(client, &tls, e));
        struct http_call call = {.method = "GET",
                                 .address = str_of(address),
                                 .path = S("/hello"),
                                 .answer_max = 1000,
                                 .tls = true};
        http_start(client, &req, &call, RANK_PUBLIC);
        err e = {0};
        assert_int_equal(call_wait(&req, &call.call, &e), trusting);
        if (!trusting) assert_int_equal(e.code, ERR_UNAVAILABLE);
        if (trusting) assert_true(str_is(buf_view(&call.answer), "hello\n"));
        http_call_release(&call);
        client_free(client);
    }
    req_release(&req);
}

static long fetch_anew(const struct place *p)
{
    struct buf body;
    buf_init(&body, NULL, 1 << 20);
    CURL *easy = curl_easy_init();
    long spoken = 0;
    struct want w = {CURL_HTTP_VERSION_1_1, "https", "/hello", NULL, true};
    long status = fetch(p, easy, &w, &body, &spoken);
    curl_easy_cleanup(easy);
    buf_release(&body);
    return status;
}

static void copy_file(const char *from, const char *to)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    assert_ok(file_read(from, &b, e));
    FILE *f = fopen(to, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    buf_release(&b);
}

static void reloaded_certificates_are_for_new_connections(void **state)
{
    struct place *p = *state;
    struct buf body;
    buf_init(&body, NULL, 1 << 20);
    char old_cert[128];
    snprintf(old_cert, sizeof old_cert, "%s/old.pem", p->dir);
    p->rig->options.tls_client_ca_file = p->cert;
    rig_open(p->rig);
    CURL *easy = curl_easy_init();
    struct want w = {CURL_HTTP_VERSION_1_1, "https", "/hello", NULL, true};
    long spoken = 0;
    assert_int_equal(fetch(p, easy, &w, &body, &spoken), 200);
    copy_file(p->cert, old_cert);

    make_certificate(p);
    assert_int_equal(fetch_anew(p), 0);  // it still has the one before
    assert_ok(server_reload_tls(p->rig->server, e));
    assert_int_equal(fetch_anew(p), 200);
    long connections = 1;
    assert_int_equal(fetch(p, easy, &w, &body, &spoken), 200);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connections);
    assert_int_equal(connections, 0);  // the open one is as good as it was

    copy_file(old_cert, p->cert);  // does not fit the key
    err e = {0};
    assert_false(server_reload_tls(p->rig->server, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    if (!str_contains(str_of(e.msg), str_of(p->cert))) fail_msg("%s", e.msg);
    assert_int_equal(fetch_anew(p), 0);  // trusts the one that is not served
    assert_int_equal(unlink(old_cert), 0);
    curl_easy_cleanup(easy);
    buf_release(&body);
}

static bool call_hello(struct client *client, struct mem_budget *memory, const char *address)
{
    struct req req;
    req_init(&req, RANK_DUTY, memory, 1 << 20, 60 * NS_PER_S);
    struct http_call call = {.method = "GET",
                             .address = str_of(address),
                             .path = S("/hello"),
                             .answer_max = 1000,
                             .tls = true};
    http_start(client, &req, &call, RANK_PUBLIC);
    err e = {0};
    bool ok = call_wait(&req, &call.call, &e);
    if (!ok) assert_int_equal(e.code, ERR_UNAVAILABLE);
    http_call_release(&call);
    req_release(&req);
    return ok;
}

static void our_client_takes_new_certificates_when_told(void **state)
{
    struct place *p = *state;
    p->rig->options.tls_client_ca_file = p->cert;
    rig_open(p->rig);
    struct mem_budget memory;
    mem_budget_init(&memory, "calls", NULL, 1 << 24);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", server_port(p->rig->server));
    struct client *client = NULL;
    assert_ok((client = client_new(p->rig->loops[0], &memory, 2, e)));
    struct client_tls tls = {.ca_file = p->cert, .cert_file = p->cert, .key_file = p->key};
    assert_ok(client_set_tls(client, &tls, e));
    make_certificate(p);  // what is in the files is none of its business yet
    assert_true(call_hello(client, &memory, address));
    assert_ok(server_reload_tls(p->rig->server, e));
    assert_ok(client_set_tls(client, &tls, e));
    for (int i = 0; i < 2; i++) {
        assert_true(call_hello(client, &memory, address));
        const char *const keys[] = {p->cert, "/nowhere.pem", NULL};
        for (size_t k = 0; k < COUNT(keys); k++) {
            struct client_tls bad = {.cert_file = p->cert, .key_file = keys[k]};
            err e = {0};
            assert_false(client_set_tls(client, &bad, &e));
            str named = keys[k] ? str_of(keys[k]) : S("(none)");
            if (!str_contains(str_of(e.msg), named)) fail_msg("%s", e.msg);
        }
    }
    assert_true(client_has_certificate(client));
    client_free(client);
}

static void unusable_keys_are_refused_without_a_question(void **state)
{
    struct place *p = *state;
    rig_open(p->rig);
    static const struct {
        const char *key;
        const char *why;
    } cases[] = {{locked_key, "key.pem"}, {other_key, "is not that of"}, {"", "key.pem"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        FILE *f = fopen(p->key, "w");
        assert_non_null(f);
        assert_true(fputs(cases[i].key, f) >= 0);
        assert_int_equal(fclose(f), 0);
        err e = {0};
        assert_false(server_reload_tls(p->rig->server, &e));
        if (!str_contains(str_of(e.msg), str_of(cases[i].why))) fail_msg("%s", e.msg);
        struct tls_pem pem;
        assert_false(tls_pem_read(&pem, NULL, p->cert, p->key, &e));
        if (!str_contains(str_of(e.msg), str_of(cases[i].why))) fail_msg("%s", e.msg);
    }
}

static void survives_broken_handshakes(void **state)
{
    struct place *p = *state;
    p->rig->options.head_timeout_ns = 30 * NS_PER_MS;
    rig_open(p->rig);
    static const str texts[] = {
        S_INIT("\x16"),  // and then silence
        S_INIT("\x16\x03\x01\x00\x05hello"),
        S_INIT("\x16\xff\xff\xff\xff"),
        S_INIT("\x16GET / HTTP/1.1\r\n\r\n"),
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct buf b = rig_exchange(p->rig, texts[i], false);
        buf_release(&b);
        b = rig_exchange(p->rig, texts[i], true);
        buf_release(&b);
    }
}

static void names_the_file_it_cannot_use(void **state)
{
    struct place *p = *state;
    struct rig *r = p->rig;
    struct server_app app = {.self = r, .head = rig_head, .run = rig_run, .refuse = rig_refuse};
    const struct {
        const char *cert;
        const char *key;
        const char *ca;
        const char *named;
    } cases[] = {
        {"/nowhere.pem", p->key, NULL, "/nowhere.pem"},
        {p->cert, p->cert, NULL, p->cert},
        {p->cert, NULL, NULL, "(none)"},
        {p->cert, p->key, p->key, p->key},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct server_options o = r->options;
        o.tls_cert_file = cases[i].cert;
        o.tls_key_file = cases[i].key;
        o.tls_client_ca_file = cases[i].ca;
        err e = {0};
        assert_null(server_open(&o, app, r->loops, RIG_LOOPS, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        if (!str_contains(str_of(e.msg), str_of(cases[i].named))) fail_msg("%s", e.msg);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(speaks_both_protocols_under_tls),
        TEST(takes_plain_connections_unless_tls_is_required),
        TEST(asks_clients_for_their_certificate),
        TEST(our_client_speaks_it_too),
        TEST(reloaded_certificates_are_for_new_connections),
        TEST(our_client_takes_new_certificates_when_told),
        TEST(unusable_keys_are_refused_without_a_question),
        TEST(survives_broken_handshakes),
        TEST(names_the_file_it_cannot_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
