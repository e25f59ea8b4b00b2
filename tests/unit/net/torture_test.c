// SPDX-License-Identifier: Apache-2.0
//
// A server and a client whose allocations and calls fail, on real sockets. The raw client of the
// test is spared; what it must see is an answer, a refusal or the end of the connection, never
// silence.
#include "lib/dir.h"
#include "lib/torture.h"
#include "sys/file.h"
#include "unit/net/rig.h"

// ---- a server starts

static bool open_and_close(void *arg, err *e)
{
    struct rig *r = arg;
    struct server_app app = {.self = r, .head = rig_head, .run = rig_run, .refuse = rig_refuse};
    struct server *s = server_open(&r->options, app, r->loops, RIG_LOOPS, e);
    server_close(s);
    return s != NULL;
}

static void a_server_opens_or_tells(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char path[DIR_PATH_MAX];
    char listen[DIR_PATH_MAX + 8];
    dir_new(dir);
    snprintf(listen, sizeof listen, "unix:%s", dir_path(path, dir, "socket"));
    struct rig *r = rig_new();
    struct torture_work w = {.name = "net.open", .run = open_and_close, .arg = r, .is_start = true};
    assert_true(torture_work(&w).failed > 4);
    r->options.listen = listen;
    w.name = "net.open_unix";
    assert_true(torture_work(&w).failed > 4);
    rig_free(r);
    dir_remove(dir);
}

// ---- a server serves

struct talk {
    struct rig *rig;
    str bytes;
    bool (*complete)(str said, bool *well);  // is the answer whole, and as it should be?
};

static bool unanswered(err *e, const char *what)
{
    return err_set(e, ERR_UNAVAILABLE, "the server %s", what);
}

static bool talk(void *arg, err *e)
{
    struct talk *t = arg;
    bool well = false;
    bool ended = false;
    struct buf said;
    torture_spare(true);
    buf_init(&said, NULL, 1 << 24);
    int fd = rig_connect(t->rig);
    struct timeval slice = {.tv_usec = 200000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    rig_send(fd, t->bytes);
    for (int slices = 0; !ended && !t->complete(buf_view(&said), &well);) {
        char part[65536];
        ssize_t n = recv(fd, part, sizeof part, 0);
        if (n > 0) buf_put(&said, part, (size_t)n);
        ended = n == 0 || (n < 0 && errno != EAGAIN);
        if (n >= 0 || ended) continue;
        // A machine that never again gives a descriptor leaves the connection to the kernel.
        if (torture_disturbs() && torture_failed_call("accept4")) break;
        if (++slices == 300) fail_msg("a minute of silence after %zu bytes", said.n);
    }
    (void)close(fd);
    buf_release(&said);
    return well || unanswered(e, ended ? "closed the connection" : "refused");
}

// A server that had no descriptor for a client turns the next one away, and that may be the first
// one that is not disturbed any more. After it all are served.
static void rest(void *arg, bool done)
{
    err e = {0};
    for (int i = 0; !done && i < 3; i++)
        done = talk(arg, &e);
    assert_true(done);
}

static const char h1_bytes[] =
    "POST /echo?q HTTP/1.1\r\nHost: a\r\nX-Y: z\r\nContent-Length: 5\r\n\r\nhello"
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nabc\r\n0\r\n\r\n"
    "GET /here HTTP/1.1\r\nHost: a\r\n\r\n"
    "GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
    "GET /no HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

// The last answer is a 404; the connection's end ends what is not whole.
static bool h1_complete(str said, bool *well)
{
    *well = said.n > RIG_BIG && str_ends(said, S("404 page not found\n"));
    return *well;
}

static const char h2_bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                               "\0\0\0\x04\0\0\0\0\0"
                               "\0\0\x0c\x01\x04\0\0\0\x01\x83\x86\x04\x05/echo\x01\x01"
                               "a"
                               "\0\0\x05\0\x01\0\0\0\x01hello"
                               "\0\0\x0d\x01\x05\0\0\0\x03\x82\x86\x04\x06/hello\x01\x01"
                               "a"
                               "\0\0\x10\x01\x05\0\0\0\x05\x82\x86\x04\x09/trailers\x01\x01"
                               "a";

// All three streams ended; well if each began with ":status: 200".
static bool h2_complete(str said, bool *well)
{
    unsigned over = 0;
    unsigned good = 0;
    while (said.n >= 9) {
        const uint8_t *p = (const uint8_t *)said.p;
        size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if (said.n < 9 + n) break;
        uint8_t type = p[3];
        if (type == 1 && n > 0 && p[9] == 0x88) good++;
        if (type <= 1 && p[4] & 1) over++;  // END_STREAM
        if (type == 3) over++;              // RST_STREAM
        said = str_slice(said, 9 + n, said.n);
    }
    *well = over == 3 && good == 3;
    return over >= 3;
}

static void a_server_answers_refuses_or_closes(void **state)
{
    (void)state;
    unsigned before = torture_descriptors();
    struct rig *r = rig_new();
    rig_open(r);
    struct talk h1 = {r, {h1_bytes, sizeof h1_bytes - 1}, h1_complete};
    struct talk h2 = {r, {h2_bytes, sizeof h2_bytes - 1}, h2_complete};
    struct torture_count n = torture_work(&(struct torture_work){
        .name = "net.h1", .run = talk, .check = rest, .arg = &h1, .lives_on = true});
    assert_true(n.allocations > 5 && n.calls > 5);
    n = torture_work(&(struct torture_work){
        .name = "net.h2", .run = talk, .check = rest, .arg = &h2, .lives_on = true});
    assert_true(n.allocations > 5 && n.calls > 10);
    rig_free(r);
    assert_int_equal(torture_descriptors(), before);
}

// ---- a client asks

struct caller {
    struct rig *rig;
    struct mem_budget memory;
    struct client *client;
    char address[128];
    bool tls;
};

static bool ask_some(void *arg, err *e)
{
    struct caller *c = arg;
    struct req req;
    bool ok = true;
    // A server that can accept nobody any more leaves its clients waiting.
    req_init(&req, RANK_DUTY, &c->memory, 1 << 20, (torture_disturbs() ? 10 : 60) * NS_PER_S);
    struct http_header extra[] = {{S("x-a"), S("b")}, {S("x-empty"), S("")}};
    struct http_call calls[3];
    struct call *waits[COUNT(calls)];
    for (size_t i = 0; i < COUNT(calls); i++) {
        calls[i] = (struct http_call){.method = i == 2 ? "GET" : "POST",
                                      .address = str_of(c->address),
                                      .path = i == 2 ? S("/big") : S("/echo"),
                                      .body = i == 2 ? (str){0} : S("some bytes"),
                                      .headers = {extra, 2, 2},
                                      .tls = c->tls,
                                      .answer_max = 4 << 20};
        http_start(c->client, &req, &calls[i], RANK_PUBLIC);
        waits[i] = &calls[i].call;
    }
    ok = call_gather(&req, waits, COUNT(calls), COUNT(calls), false, e);
    for (size_t i = 0; i < COUNT(calls); i++) {
        bool well = calls[i].status == 200 && calls[i].answer.n == (i == 2 ? RIG_BIG : 10);
        if (ok && !well) ok = err_set(e, ERR_UNAVAILABLE, "status %u", calls[i].status);
        http_call_release(&calls[i]);
    }
    req_release(&req);
    return ok;
}

static void a_client_gets_the_answer_or_is_told(void **state)
{
    (void)state;
    unsigned before = torture_descriptors();
    struct caller c = {.rig = rig_new()};
    rig_open(c.rig);
    mem_budget_init(&c.memory, "calls", NULL, (size_t)64 << 20);
    assert_ok((c.client = client_new(c.rig->loops[0], &c.memory, 2, e)));
    snprintf(c.address, sizeof c.address, "127.0.0.1:%u", server_port(c.rig->server));
    struct torture_count n =
        torture_work(&(struct torture_work){.name = "net.client",
                                            .run = ask_some,
                                            .arg = &c,
                                            .lives_on = true,
                                            .codes = 1u << ERR_DEADLINE_EXCEEDED});
    assert_true(n.allocations > 10 && n.calls > 10);
    client_loopback(c.client, str_of(c.address), c.rig->server);  // the same without sockets
    n = torture_work(&(struct torture_work){.name = "net.loopback", .run = ask_some, .arg = &c});
    assert_true(n.allocations > 5 && n.calls == 0);
    client_free(c.client);
    rig_free(c.rig);
    assert_int_equal(atomic_load(&c.memory.used), 0);
    assert_int_equal(torture_descriptors(), before);
}

static bool open_client(void *arg, err *e)
{
    struct rig *r = arg;
    struct client *c = client_new(r->loops[0], &r->memory, 2, e);
    client_free(c);
    return c != NULL;
}

static void a_client_starts_or_tells(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    torture_work(&(struct torture_work){
        .name = "net.client_open", .run = open_client, .arg = r, .is_start = true});
    rig_free(r);
}

// ---- TLS: a certificate for 127.0.0.1, its own authority, good until 2126

static const char certificate[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBgDCCASagAwIBAgIUH3ZOrp8x9TtGffdemy+1kRpX5C4wCgYIKoZIzj0EAwIw\n"
    "DDEKMAgGA1UEAwwBdDAgFw0yNjExMjExNjEyMDVaGA8yMTI2MTAyODE2MTIwNVow\n"
    "DDEKMAgGA1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOaOOFBom09w\n"
    "Vei/D3RxSlDSlr1mBbfUZqnOxaG1LKfy4F5UaBqVvJPnUi9LdJKKZP7T8Ky2qLwB\n"
    "DvK58lnl+JWjZDBiMB0GA1UdDgQWBBR2upedQhe0bWVh9wbnJn0kNxqI/zAfBgNV\n"
    "HSMEGDAWgBR2upedQhe0bWVh9wbnJn0kNxqI/zAPBgNVHRMBAf8EBTADAQH/MA8G\n"
    "A1UdEQQIMAaHBH8AAAEwCgYIKoZIzj0EAwIDSAAwRQIgK0QAJjia8S8o4bTZYflN\n"
    "DjU+QVvBAhClNkoz16EstAICIQC126/l6cQIItsHn3gtCjdu9T4YDDiSBmpo8nCU\n"
    "b19Meg==\n"
    "-----END CERTIFICATE-----\n";

static const char private_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/HuzW+UCWfhD+bCH\n"
    "8nG0ACHmADRUYsbyNVr5bG8RJKOhRANCAATmjjhQaJtPcFXovw90cUpQ0pa9ZgW3\n"
    "1GapzsWhtSyn8uBeVGgalbyT51IvS3SSimT+0/Cstqi8AQ7yufJZ5fiV\n"
    "-----END PRIVATE KEY-----\n";

struct files {
    struct caller caller;
    char dir[DIR_MAX];
    char cert[DIR_PATH_MAX];
    char key[DIR_PATH_MAX];
};

static void files_new(struct files *f)
{
    *f = (struct files){0};
    dir_new(f->dir);
    dir_path(f->cert, f->dir, "cert.pem");
    dir_path(f->key, f->dir, "key.pem");
    assert_ok(file_write(f->cert, str_of(certificate), e));
    assert_ok(file_write(f->key, str_of(private_key), e));
    f->caller.rig = rig_new();
    f->caller.rig->options.tls_cert_file = f->cert;
    f->caller.rig->options.tls_key_file = f->key;
    f->caller.rig->options.tls_client_ca_file = f->cert;
    f->caller.tls = true;
}

static void files_free(struct files *f)
{
    rig_free(f->caller.rig);
    dir_remove(f->dir);
}

// Files that cannot be read are the administrator's to mend, so they are an invalid argument.
static void a_server_with_tls_opens_or_tells(void **state)
{
    (void)state;
    struct files f;
    files_new(&f);
    torture_work(&(struct torture_work){.name = "net.open_tls",
                                        .run = open_and_close,
                                        .arg = f.caller.rig,
                                        .is_start = true,
                                        .codes = 1u << ERR_INVALID_ARGUMENT});
    files_free(&f);
}

static bool set_and_ask(void *arg, err *e)
{
    struct files *f = arg;
    struct client_tls tls = {.ca_file = f->cert, .cert_file = f->cert, .key_file = f->key};
    return client_set_tls(f->caller.client, &tls, e) &&
           server_reload_tls(f->caller.rig->server, e) && ask_some(&f->caller, e);
}

static void tls_is_spoken_or_told(void **state)
{
    (void)state;
    struct files f;
    struct caller *c = &f.caller;
    files_new(&f);
    rig_open(c->rig);
    mem_budget_init(&c->memory, "calls", NULL, (size_t)64 << 20);
    assert_ok((c->client = client_new(c->rig->loops[0], &c->memory, 2, e)));
    snprintf(c->address, sizeof c->address, "127.0.0.1:%u", server_port(c->rig->server));
    torture_work(&(struct torture_work){.name = "net.tls",
                                        .run = set_and_ask,
                                        .arg = &f,
                                        .lives_on = true,
                                        .codes = 1u << ERR_INVALID_ARGUMENT,
                                        .most = 24});
    client_free(c->client);
    files_free(&f);
    assert_int_equal(atomic_load(&c->memory.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_opens_or_tells),
        cmocka_unit_test(a_server_answers_refuses_or_closes),
        cmocka_unit_test(a_client_starts_or_tells),
        cmocka_unit_test(a_client_gets_the_answer_or_is_told),
        cmocka_unit_test(a_server_with_tls_opens_or_tells),
        cmocka_unit_test(tls_is_spoken_or_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
