// SPDX-License-Identifier: Apache-2.0
//
// A process with one service made for the purpose: each test forks it, talks to it over its port,
// and sends it signals. The service starts and drains when files say so.
#include "cluster/node.h"
#include "lib/await.h"
#include "lib/dir.h"
#include "rpc/peer.h"
#include "service/service.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char base[DIR_MAX];

// ---- in the child

static bool told(const char *what)
{
    char path[DIR_PATH_MAX];
    return file_exists(dir_path(path, base, what));
}

static void tell(const char *what)
{
    char path[DIR_PATH_MAX];
    assert_ok(file_write(dir_path(path, base, what), S("x"), e));
}

static bool test_start(const struct process *process, void **self, err *e)
{
    if (told("fail")) return err_set(e, ERR_DATA_LOSS, "the log is damaged");
    AWAIT(told("start"));
    *self = (void *)(uintptr_t)process;
    return true;
}

static bool test_ready(void *self, struct buf *why)
{
    (void)self;
    if (!told("sick")) return true;
    buf_z(why, "catching up");
    return false;
}

static void test_drain(void *self, uint64_t deadline_mono_ns)
{
    (void)self;
    (void)deadline_mono_ns;
    tell("draining");
    AWAIT(!told("hang"));
}

static void test_stop(void *self)
{
    (void)self;
    tell("stopped");
}

static const struct service test_service = {.name = "test",
                                            .start = test_start,
                                            .ready = test_ready,
                                            .drain = test_drain,
                                            .stop = test_stop};

// ---- in the parent

static pid_t child;
static unsigned port;
static char internal_address[128];

static void begin(char *flag, char *value)
{
    fflush(NULL);
    child = fork();
    assert_int_not_equal(child, -1);
    if (child) return;
    char path[DIR_PATH_MAX];
    char data[128];
    if (!freopen(dir_path(path, base, "log"), "a", stderr)) _exit(90);
    static char program[] = "flametree-test";
    static char data_flag[] = "--server.data_dir";
    static char listen_flag[] = "--server.listen";
    static char listen[] = "127.0.0.1:0";
    static char internal_flag[] = "--internal.listen";
    static char internal[] = "127.0.0.1:0";
    snprintf(data, sizeof data, "%s/data", base);
    char *argv[] = {program,       data_flag, data, listen_flag, listen,
                    internal_flag, internal,  flag, value,       NULL};
    const struct service *services[] = {&test_service};
    int argc = flag ? 9 : 7;
    exit(service_main(services, 1, argc, argv));
}

static void read_port(void)
{
    AWAIT(told("data/run/ports.json"));
    char path[DIR_PATH_MAX];
    struct buf b;
    buf_init(&b, NULL, 4096);
    assert_ok(file_read(dir_path(path, base, "data/run/ports.json"), &b, e));
    buf_byte(&b, 0);
    assert_int_equal(sscanf(b.p, "{\"public\":%u,\"internal\":\"%100[^\"]\"", &port,
                            internal_address),
                     2);
    buf_release(&b);
}

// The whole answer to a GET, NUL-terminated; empty if nobody listens.
static void get(const char *path, char *answer, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    answer[0] = '\0';
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_not_equal(fd, -1);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
        char request[256];
        int n = snprintf(request, sizeof request,
                         "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
        assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
        size_t got = 0;
        ssize_t more = 0;
        while (got + 1 < size && (more = recv(fd, answer + got, size - 1 - got, 0)) > 0)
            got += (size_t)more;
        answer[got] = '\0';
    }
    assert_int_equal(close(fd), 0);
}

static void await_answer(const char *path, const char *status, const char *part)
{
    static char answer[65536];
    AWAIT((get(path, answer, sizeof answer),
           str_starts(str_of(answer), str_of(status)) && strstr(answer, part)));
}

static int code_of_child(void)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    child = 0;
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool logged(const char *part)
{
    char path[DIR_PATH_MAX];
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    assert_ok(file_read(dir_path(path, base, "log"), &b, e));
    bool found = str_contains(buf_view(&b), str_of(part));
    buf_release(&b);
    return found;
}

static int make_base(void **state)
{
    (void)state;
    dir_new(base);
    return 0;
}

static int remove_base(void **state)
{
    (void)state;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        child = 0;
    }
    dir_remove(base);
    return 0;
}

static void a_process_starts_serves_and_stops(void **state)
{
    (void)state;
    begin(NULL, NULL);
    read_port();
    await_answer("/ready", "HTTP/1.1 503", "test not ready: starting");
    await_answer("/metrics", "HTTP/1.1 200", "flametree_ready 0");
    await_answer("/config", "HTTP/1.1 503", "{\"code\":\"unavailable\",\"message\":\"starting\"}");
    tell("start");
    await_answer("/ready", "HTTP/1.1 200", "\r\n\r\nready");
    await_answer("/metrics", "HTTP/1.1 200", "flametree_ready 1");
    await_answer("/config", "HTTP/1.1 200", "server:\n  listen: \"127.0.0.1:0\"\n");
    await_answer("/api/v1/status/buildinfo", "HTTP/1.1 200", service_version);
    tell("sick");
    await_answer("/ready", "HTTP/1.1 503", "test not ready: catching up");
    kill(child, SIGTERM);
    assert_int_equal(code_of_child(), 0);
    assert_true(told("draining") && told("stopped"));
    assert_false(told("data/run/ports.json"));
}

static void a_failed_start_tells_why(void **state)
{
    (void)state;
    tell("fail");
    begin(NULL, NULL);
    assert_int_equal(code_of_child(), 1);
    assert_true(logged("flametree: test: the log is damaged\n"));
    assert_false(told("stopped"));  // what did not start is not stopped
}

static void a_stop_during_start_is_heeded(void **state)
{
    (void)state;
    begin(NULL, NULL);
    read_port();
    kill(child, SIGTERM);
    tell("start");
    assert_int_equal(code_of_child(), 0);
    assert_true(told("stopped"));
}

static void a_second_signal_ends_a_drain_that_hangs(void **state)
{
    (void)state;
    tell("start");
    tell("hang");
    begin(NULL, NULL);
    read_port();
    await_answer("/ready", "HTTP/1.1 200", "ready");
    kill(child, SIGTERM);
    AWAIT(told("draining"));
    kill(child, SIGINT);
    assert_int_equal(code_of_child(), 1);
    assert_false(told("stopped"));
}

static void a_taken_port_is_told(void **state)
{
    (void)state;
    tell("start");
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    char flag[] = "--server.listen";
    char value[64];
    snprintf(value, sizeof value, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    begin(flag, value);
    assert_int_equal(code_of_child(), 1);
    assert_true(logged(value));
    assert_int_equal(close(fd), 0);
}

static void wrong_settings_are_told_before_anything_starts(void **state)
{
    (void)state;
    char flag[] = "--server.loops";
    char value[] = "1000";
    begin(flag, value);
    assert_int_equal(code_of_child(), 2);
    assert_true(logged("flametree: flag --server.loops: server.loops: 1000 is above the highest "
                       "value, 64\n"));
    assert_false(told("data"));
}

// Asks the process as another node does. The message's bytes are copied into `bytes`.
static bool probe(struct client *cl, char bytes[NODE_MESSAGE_MAX], struct node_answer *answer,
                  err *e)
{
    struct req r;
    struct peer_call c;
    struct buf message;
    struct node_identity from = {.node = S("another")};
    req_init(&r, RANK_DUTY, NULL, 1 << 16, (uint64_t)10 * NS_PER_S);
    buf_init(&message, NULL, NODE_MESSAGE_MAX);
    node_put_probe(&from, &message);
    peer_start(cl, &r, &c, str_of(internal_address), NODE_PROBE, buf_view(&message), RANK_INGESTER,
               NODE_MESSAGE_MAX);
    err ignored = {0};
    (void)!call_wait(&r, &c.http.call, &ignored);
    str got = {0};
    bool ok = peer_answer(&c, &got, e);
    if (ok) memcpy(bytes, got.p, got.n);
    ok = ok && node_read_answer(str_make(bytes, got.n), answer, e);
    peer_release(&c);
    buf_release(&message);
    req_release(&r);
    return ok;
}

static void a_process_tells_other_nodes_who_it_is(void **state)
{
    (void)state;
    char flag[] = "--server.id";
    char value[] = "here";
    begin(flag, value);
    read_port();
    struct loop *l = NULL;
    struct client *cl = NULL;
    assert_ok((l = loop_new("loop", e)));
    assert_ok((cl = client_new(l, NULL, 4, e)));
    char bytes[NODE_MESSAGE_MAX];
    struct node_answer answer;
    err fault = {0};
    assert_false(probe(cl, bytes, &answer, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    assert_string_equal(fault.msg, "starting");

    tell("start");
    await_answer("/ready", "HTTP/1.1 200", "ready");
    assert_ok(probe(cl, bytes, &answer, e));
    assert_true(str_is(answer.node.node, "here"));
    assert_true(str_is(answer.node.address, internal_address));
    assert_int_equal(answer.node.service_count, 1);
    assert_true(str_is(answer.node.services[0], "test"));
    assert_true(node_knows(answer.node.boot) && !node_knows(answer.node.cluster));
    assert_true(answer.ready && answer.load >= 0.0 && answer.load < 1.0);
    id128 boot = answer.node.boot;
    tell("sick");
    assert_ok(probe(cl, bytes, &answer, e));
    assert_false(answer.ready);
    assert_true(id128_eq(answer.node.boot, boot));
    client_free(cl);
    loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_starts_serves_and_stops, make_base, remove_base),
        cmocka_unit_test_setup_teardown(a_process_tells_other_nodes_who_it_is, make_base,
                                        remove_base),
        cmocka_unit_test_setup_teardown(a_failed_start_tells_why, make_base, remove_base),
        cmocka_unit_test_setup_teardown(a_stop_during_start_is_heeded, make_base, remove_base),
        cmocka_unit_test_setup_teardown(a_second_signal_ends_a_drain_that_hangs, make_base,
                                        remove_base),
        cmocka_unit_test_setup_teardown(a_taken_port_is_told, make_base, remove_base),
        cmocka_unit_test_setup_teardown(wrong_settings_are_told_before_anything_starts, make_base,
                                        remove_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
