// SPDX-License-Identifier: Apache-2.0
//
// Commands of the client from their arguments to their exit status, against an invented server on
// a socket: well means that all of it was done, anything else comes with a word.
#include "codec/pb.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/cli_files.h"
#include "deploy/cli/cli_upload.h"
#include "lib/dir.h"
#include "lib/listener.h"
#include "lib/torture.h"
#include "querier/v1/querier.pb-c.h"
#include "rpc/route.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>

static char base[DIR_MAX];
static char profiles[DIR_PATH_MAX];
static char output[DIR_PATH_MAX];
static char words[DIR_PATH_MAX];  // what was said on standard error

static struct loop *loop;
static struct router *router;
static struct server *server;
static struct mem_budget memory;
static char url[64];
static atomic_uint pushed;  // bytes that the server was given in this run

// ---- the server

static bool take_upload(void *service, struct http_exchange *x, err *e)
{
    (void)service;
    (void)e;
    atomic_fetch_add(&pushed, (unsigned)x->body.n);
    x->status = 200;
    return true;
}

static bool answer_flame(void *service, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)service;
    (void)x;
    (void)in;
    size_t m = pb_begin(out, 1);
    pb_put_bytes(out, 1, S("total"));
    pb_put_bytes(out, 1, S("main"));
    for (int i = 0; i < 2; i++) {
        size_t level = pb_begin(out, 2);
        size_t values = pb_begin(out, 1);
        const uint64_t bar[] = {0, 7, i ? 7 : 0, (uint64_t)i};
        for (size_t k = 0; k < COUNT(bar); k++)
            pb_put_varint(out, bar[k]);
        pb_end(out, values);
        pb_end(out, level);
    }
    pb_put_u64(out, 3, 7);
    pb_put_u64(out, 4, 7);
    pb_end(out, m);
    return buf_ok(out, e);
}

static const struct http_route uploads[] = {
    {.verbs = "POST",
     .path = "/ingest",
     .run = take_upload,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC,
     .no_gzip = true},
};

static const struct rpc_method methods[] = {
    {.path = "/querier.v1.QuerierService/SelectMergeStacktraces",
     .in = &querier__v1__select_merge_stacktraces_request__descriptor,
     .out = &querier__v1__select_merge_stacktraces_response__descriptor,
     .run = answer_flame,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
};

static void put_file(const char *name, const char *text)
{
    char path[DIR_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", profiles, name);
    assert_ok(file_write(path, str_of(text), e));
}

static int set_up(void **state)
{
    (void)state;
    static struct lane *const lanes[RANK_COUNT];
    char deeper[DIR_PATH_MAX + 8];
    dir_new(base);
    dir_path(profiles, base, "profiles");
    dir_path(output, base, "out");
    dir_path(words, base, "words");
    snprintf(deeper, sizeof deeper, "%s/b", profiles);
    assert_ok(dir_make(deeper, e));
    put_file("one.txt", "main;run 5\n");
    put_file("two.txt", "main;idle 7\nmain 1\n");
    put_file("b/three.txt", "gc 1\n");
    mem_budget_init(&memory, "requests", NULL, (size_t)64 << 20);
    struct router_options o = {.body_max = 1 << 20, .answer_max = 1 << 20, .memory = &memory};
    router = router_new(&o);
    router_add_http(router, uploads, COUNT(uploads), NULL, lanes);
    router_add_rpc(router, methods, COUNT(methods), NULL, lanes);
    struct server_options s = listener_for("public", "127.0.0.1:0", &memory, RANK_PUBLIC);
    assert_ok((loop = loop_new("loop", e)));
    assert_ok((server = server_open(&s, router_app(router), &loop, 1, e)));
    snprintf(url, sizeof url, "http://127.0.0.1:%u", server_port(server));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    server_close(server);
    router_free(router);
    loop_free(loop);
    assert_int_equal(atomic_load(&memory.used), 0);
    dir_remove(base);
    return 0;
}

// ---- files

static bool find_and_read(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    const char *operands[] = {profiles};
    struct cli_files files;
    if (!cli_files_find(&b->arena, operands, 1, &files, e)) return false;
    for (size_t i = 0; i < files.n; i++) {
        struct buf bytes;
        buf_init(&bytes, &b->budget, 1 << 16);
        bool ok = cli_files_read(files.v[i], &bytes, e);
        if (ok) buf_printf(&b->out, "%s: %.*s", files.v[i], STR(buf_view(&bytes)));
        buf_release(&bytes);
        if (!ok) return false;
    }
    return true;
}

static bool make_uploads(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    static const str bytes[] = {S_INIT("main;work 12\n"), S_INIT("\x0a\x02\x08\x00\x32\x00")};
    const label labels_given[] = {{S("zone"), S("z")}, {S("k"), S("v w")}};
    for (size_t i = 0; i < COUNT(bytes); i++) {
        struct upload_options o = {.labels = labels_given,
                                   .label_count = 2,
                                   .name = S("wall"),
                                   .time_is_now = true,
                                   .now_ns = INT64_C(1700000000000000000)};
        struct upload u = {0};
        bool ok = upload_make(&b->arena, &o, S("shop.cpu.txt"), bytes[i], &u, e);
        if (ok) buf_printf(&b->out, "%s %s %.*s\n", u.path, u.content_type, STR(u.bytes));
        upload_release(&u);
        if (!ok) return false;
    }
    return true;
}

static void files_are_all_found_or_it_is_told(void **state)
{
    (void)state;
    // An operand that cannot be looked at is taken for a file, and what is said of that is true.
    static const struct torture_maker makers[] = {
        {.name = "cli.files", .make = find_and_read},
        {.name = "cli.uploads", .make = make_uploads},
    };
    torture_make_all(makers, COUNT(makers));
}

// ---- commands

// Runs a command with standard error in a file. A failure without a word is none that a person can
// do something about.
static bool run_command(const char *const *args, int n, err *e)
{
    char *argv[16];
    for (int i = 0; i < n; i++)
        memcpy(&argv[i], &args[i], sizeof argv[i]);
    argv[n] = NULL;
    torture_spare(true);
    int kept = dup(STDERR_FILENO);
    int file = open(words, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(kept >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    torture_spare(false);
    int status = cli_main(n, argv);
    torture_spare(true);
    char said[1000] = "";
    ssize_t got = pread(file, said, sizeof said - 1, 0);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    (void)close(file);
    torture_spare(false);
    if (status == 0) return true;
    bool mute = torture_failed_call("fwrite");  // standard error itself
    if (got <= 0 && !mute) fail_msg("status %d without a word", status);
    return err_set(e, ERR_UNAVAILABLE, "%d %s", status, mute ? "silent" : said);
}

// A server that cannot accept any more leaves its client waiting; only then is time to be saved.
static const char *patience(void)
{
    return torture_disturbs() ? "500ms" : "60s";
}

static void push_begin(void *arg)
{
    (void)arg;
    atomic_store(&pushed, 0);
}

static bool push(void *arg, err *e)
{
    (void)arg;
    const char *const args[] = {"flametree", "push",      "--url",    url,
                                "--user",    "a:b",       "--label",  "zone=z",
                                "--quiet",   "--timeout", patience(), profiles};
    atomic_store(&pushed, 0);
    return run_command(args, COUNT(args), e);
}

static void push_check(void *arg, bool done)
{
    (void)arg;
    unsigned bytes = atomic_load(&pushed);
    if (done) assert_true(bytes >= 11 + 19 + 5);
}

static bool query(void *arg, err *e)
{
    (void)arg;
    const char *const args[] = {"flametree",
                                "query",
                                "--url",
                                url,
                                "--format",
                                "json",
                                "--output",
                                output,
                                "--timeout",
                                patience(),
                                "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}"};
    return run_command(args, COUNT(args), e);
}

static void query_begin(void *arg)
{
    (void)arg;
    assert_ok(file_write(output, S("old"), e));
}

static void query_check(void *arg, bool done)
{
    (void)arg;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    assert_ok(file_read(output, &b, e));
    bool old = str_is(buf_view(&b), "old");
    if (done) assert_true(!old);
    if (!old) assert_true(str_contains(buf_view(&b), S("main")));
    buf_release(&b);
}

static void commands_do_all_or_say_why(void **state)
{
    (void)state;
    struct torture_count n = torture_work(&(struct torture_work){.name = "cli.push",
                                                                 .begin = push_begin,
                                                                 .run = push,
                                                                 .check = push_check,
                                                                 .is_start = true,
                                                                 .lives_on = true,
                                                                 .hurries = true,
                                                                 .most = 30});
    assert_true(n.allocations > 20 && n.calls > 50);
    n = torture_work(&(struct torture_work){.name = "cli.query",
                                            .begin = query_begin,
                                            .run = query,
                                            .check = query_check,
                                            .is_start = true,
                                            .lives_on = true,
                                            .hurries = true,
                                            .most = 30});
    assert_true(n.failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_all_found_or_it_is_told),
        cmocka_unit_test(commands_do_all_or_say_why),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
