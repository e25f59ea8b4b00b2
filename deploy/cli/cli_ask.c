// SPDX-License-Identifier: Apache-2.0
//
// cli_ask.c - a request from its headers to its answer, and each kind of failure in words.
#include "deploy/cli/cli_ask.h"

#include "codec/base64.h"
#include "codec/compress.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "deploy/cli/cli_explain.h"
#include "service/config.h"
#include "sys/clock.h"
#include "sys/file.h"

#define SECRET_FILE_MAX ((size_t)64 << 10)
#define QUESTION_MAX    ((size_t)1 << 20)
#define CALL_ARENA_MAX  ((size_t)2 << 20)
#define ERROR_BODY_MAX  ((size_t)64 << 10)
#define PIECE_MAX       200  // of an answer that is no error of the API
#define CONNECTIONS     64u

// ---- options

// The value of an option, or for "@FILE" the first line of the file. It is never shown.
static bool secret(struct cli *c, enum cli_option o, str *value, err *e)
{
    const char *text = cli_args_get(&c->args, o);
    *value = str_of(text);
    if (!text || text[0] != '@') return true;
    // A file keeps the secret out of the list of processes, where everyone can read arguments.
    struct buf file;
    buf_init(&file, NULL, SECRET_FILE_MAX);
    bool ok = file_read(text + 1, &file, e);
    if (ok) {
        str rest = {0};
        // An editor ends the file with a newline, which is no part of the secret.
        *value = arena_str(&c->arena, str_trim(str_split(buf_view(&file), '\n', &rest)));
    } else {
        err_wrap(e, "--%s", cli_options[o].name);
    }
    buf_release(&file);
    return ok;
}

// The options by which a server is logged in to.
struct login {
    enum cli_option user;
    enum cli_option bearer;
};

static bool read_authorization(struct cli *c, struct login by, err *e)
{
    str user = {0};
    str bearer = {0};
    if (cli_args_has(&c->args, by.bearer) && (cli_args_has(&c->args, by.user) || c->url.user.n)) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--%s and a user are two ways to log in; give one of them",
                       cli_options[by.bearer].name);
    }
    if (!secret(c, by.user, &user, e) || !secret(c, by.bearer, &bearer, e)) return false;
    if (!arena_ok(&c->arena, e)) return false;  // then they would seem not to be given
    if (bearer.n && cli_args_has(&c->args, by.user)) bearer = (str){0};  // over the environment
    if (bearer.n) {
        c->authorization = arena_printf(&c->arena, "Bearer %.*s", STR(bearer));
    } else {
        // The option is more explicit than what a copied URL happens to have.
        if (!user.n) user = c->url.user;
        if (!user.n) return true;
        if (str_find(user, ':') == user.n)
            return err_set(e, ERR_INVALID_ARGUMENT, "--%s must be NAME:PASSWORD",
                           cli_options[by.user].name);
        struct buf text;
        buf_init(&text, NULL, SECRET_FILE_MAX * 2);
        buf_z(&text, "Basic ");
        base64_put(&text, user, true);
        bool ok = buf_ok(&text, e);
        if (ok) c->authorization = arena_str(&c->arena, buf_view(&text));
        buf_release(&text);
        if (!ok) return false;
    }
    if (http_is_value(c->authorization)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the token has a character that is not allowed in HTTP headers");
}

static bool open_client(struct cli *c, err *e)
{
    c->loop = loop_new("loop.client", e);
    if (!c->loop) return false;
    c->client = client_new(c->loop, NULL, CONNECTIONS, e);
    if (!c->client) return false;
    const char *ca_file = cli_args_get(&c->args, OPT_CA_FILE);
    if (!ca_file) return true;
    // In the environment it stands for all servers, so there it is no contradiction to http.
    if (!c->url.tls && cli_args_has(&c->args, OPT_CA_FILE))
        return err_set(e, ERR_INVALID_ARGUMENT, "--ca-file is for https, and the URL is %.*s",
                       STR(c->url.shown));
    if (!file_exists(ca_file))
        return err_set(e, ERR_NOT_FOUND, "--ca-file %s: there is no such file", ca_file);
    struct client_tls tls = {.ca_file = ca_file};
    return client_set_tls(c->client, &tls, e) || err_wrap(e, "--ca-file %s", ca_file);
}

bool cli_ask_open(struct cli *c, err *e)
{
    if (c->client) return true;
    const char *url = cli_args_get(&c->args, OPT_URL);
    if (!cli_url_parse(&c->arena, str_of(url), &c->url, e)) return err_wrap(e, "--url");
    if (!read_authorization(c, (struct login){OPT_USER, OPT_BEARER}, e)) return false;
    c->tenant = str_of(cli_args_get(&c->args, OPT_TENANT));
    if (!http_is_value(c->tenant))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--tenant has a character that is not allowed in HTTP headers");
    if (!cli_duration(c, OPT_TIMEOUT, &c->timeout_ns, e)) return false;
    const char *max = cli_args_get(&c->args, OPT_MAX_ANSWER);
    if (!config_bytes(str_of(max), &c->answer_max, e)) return err_wrap(e, "--max-answer");
    c->answer_max = MIN(MAX(c->answer_max, ERROR_BODY_MAX), (uint64_t)1 << 40);  // errors must fit
    return arena_ok(&c->arena, e) && open_client(c, e);
}

bool cli_ask_source(struct cli *c, struct cli *source, err *e)
{
    assert(c->client);
    *source = *c;
    source->authorization = (str){0};
    source->hint[0] = '\0';
    arena_init(&source->arena, NULL, SIZE_MAX / 2);
    const char *url = cli_args_get(&c->args, OPT_SOURCE);
    if (!cli_url_parse(&source->arena, str_of(url), &source->url, e))
        return err_wrap(e, "--source");
    source->tenant = str_of(cli_args_get(&c->args, OPT_SOURCE_TENANT));
    if (!http_is_value(source->tenant))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--source-tenant has a character that is not allowed in HTTP headers");
    return read_authorization(source, (struct login){OPT_SOURCE_USER, OPT_SOURCE_BEARER}, e);
}

void cli_ask_close(struct cli *c)
{
    assert(!c->client || c->loop);
    client_free(c->client);  // in this order: the client's handles are on the loop
    loop_free(c->loop);
    c->client = NULL;
    c->loop = NULL;
}

// ---- calls

static void stop_nothing(struct call *c)
{
    (void)c;
}

// NOLINTNEXTLINE(readability-function-size): six parameters, all of them parts of the request
void cli_call_start(struct cli *c, struct cli_call *call, const char *method, const char *path,
                    const char *content_type, str body)
{
    assert(c->client);  // cli_ask_open was called
    assert(method && path && path[0] == '/' && c->timeout_ns > 0 && c->answer_max > 0);
    *call = (struct cli_call){.path = path};
    req_init(&call->req, RANK_PUBLIC, NULL, CALL_ARENA_MAX, (uint64_t)c->timeout_ns);
    struct arena *a = &call->req.arena;
    struct http_call *h = &call->http;
    h->method = method;
    h->address = c->url.address;
    h->tls = c->url.tls;
    h->path = arena_printf(a, "%.*s%s", STR(c->url.prefix), path);
    h->body = body;
    h->answer_max = c->answer_max;
    if (content_type) http_headers_add(&h->headers, a, S("content-type"), str_of(content_type));
    if (content_type && strcmp(content_type, "application/proto") == 0) {
        http_headers_add(&h->headers, a, S("connect-protocol-version"), S("1"));
        // The protocol allows ten digits.
        uint64_t ms = MIN((uint64_t)(c->timeout_ns / NS_PER_MS), UINT64_C(9999999999));
        http_headers_add(&h->headers, a, S("connect-timeout-ms"),
                         arena_printf(a, "%llu", (unsigned long long)ms));
    }
    if (cli_explains(c, path)) http_headers_add(&h->headers, a, S("flametree-explain"), S("1"));
    http_headers_add(&h->headers, a, S("accept-encoding"), S("gzip"));
    http_headers_add(&h->headers, a, S("user-agent"), S("flametree"));
    // Without it servers hide names with dots, as they must from clients of before.
    http_headers_add(&h->headers, a, S("accept"), S("*/*;allow-utf8-labelnames=true"));
    if (c->tenant.n) http_headers_add(&h->headers, a, S("x-scope-orgid"), c->tenant);
    if (c->authorization.n) http_headers_add(&h->headers, a, S("authorization"), c->authorization);
    // The headers and the path lie in the call's own arena: they live as long as the call, and go
    // with it.
    err e = {0};
    if (arena_ok(a, &e)) {
        http_start(c->client, &call->req, h, RANK_INGESTER);
        return;
    }
    // Headers may be missing, such as the tenant's: the call fails without being sent.
    call_begin(&h->call, RANK_INGESTER, stop_nothing);
    call_finish(&h->call, &e);
}

void cli_call_release(struct cli_call *call)
{
    // In this order: headers of the answer are in the arena of the request.
    http_call_release(&call->http);
    buf_release(&call->inflated);
    req_release(&call->req);
}

bool cli_fetch(struct cli *c, const char *method, const char *path, const char *elsewhere,
               str *body, err *e)
{
    struct cli_call call;
    str bytes = {0};
    cli_call_start(c, &call, method, path, NULL, (str){0});
    bool ok = cli_call_wait(c, &call, &bytes, e);
    // Copied: the body goes with the call.
    if (ok) *body = arena_str(&c->arena, bytes);
    if (!ok && call.status == 404) cli_hint(c, "%s", elsewhere);
    cli_call_release(&call);
    return ok && arena_ok(&c->arena, e);
}

// "querier.v1.QuerierService/X?..." is called X, "/ready" is called /ready.
static str name_of(const char *path)
{
    str p = str_of(path);
    p = str_slice(p, 0, str_find(p, '?'));
    size_t slash = str_rfind(p, '/');
    return str_find(p, '.') < p.n ? str_slice(p, slash + 1, p.n) : p;
}

// ---- answers

bool cli_read_member(struct json_reader *r, const struct cli_member *v, size_t n)
{
    const struct cli_member *m = NULL;
    for (size_t i = 0; i < n; i++) {
        if (str_is(r->text, v[i].key)) m = &v[i];
    }
    if (!m) return json_skip(r);
    enum json_token t = json_next(r);
    if (m->text) {
        *m->text = r->text;
        return t == JSON_STRING;
    }
    if (m->number) return t == JSON_NUMBER && str_u64(r->text, m->number);
    *m->flag = t == JSON_TRUE;
    return t == JSON_TRUE || t == JSON_FALSE;
}

bool cli_read_members(struct json_reader *r, const struct cli_member *v, size_t n)
{
    enum json_token t = JSON_FAULT;
    while ((t = json_next(r)) == JSON_KEY) {
        if (!cli_read_member(r, v, n)) return false;
    }
    return t == JSON_OBJECT_END;
}

// Reads {"code":"...","message":"..."}; false if it is other JSON. Strings live in the arena.
static bool error_of(struct arena *a, str body, str *code, str *message)
{
    const struct cli_member members[] = {{.key = "code", .text = code},
                                         {.key = "message", .text = message}};
    struct json_reader r;
    json_reader_init(&r, a, body);
    *code = *message = (str){0};
    return json_next(&r) == JSON_OBJECT && cli_read_members(&r, members, COUNT(members)) &&
           (code->n || message->n);
}

// The same of google.rpc.Status, with which requests of OTLP are refused.
static bool status_of(str type, str body, str *code, str *message)
{
    err ignored = {0};
    if (!str_is(type, "application/x-protobuf")) return false;
    struct pb_reader r = pb_reader(body);
    while (pb_next(&r)) {
        bool known = r.field == 1 && r.type == PB_VARINT && r.number <= ERR_UNAUTHENTICATED;
        if (known) *code = str_of(err_name((enum err_code)r.number));
        if (r.field == 2 && r.type == PB_BYTES) *message = r.bytes;
    }
    return pb_done(&r, &ignored) && message->n > 0;
}

// The text of a page: without tags, and with single spaces.
static str piece_of(struct arena *a, str body, bool is_html)
{
    char *out = arena_new(a, PIECE_MAX + 4);
    if (!out) return (str){0};
    size_t n = 0;
    bool in_tag = false;
    for (size_t i = 0; i < body.n && n < PIECE_MAX; i++) {
        char c = body.p[i];
        if (is_html && c == '<') in_tag = true;
        bool space = in_tag || c == ' ' || c == '\n' || c == '\r' || c == '\t';
        if (is_html && c == '>') in_tag = false;
        if (!space)
            out[n++] = c;
        else if (n && out[n - 1] != ' ')
            out[n++] = ' ';
    }
    assert(n <= PIECE_MAX);
    return str_trim((str){out, n});
}

static void hint_at(struct cli *c, unsigned status, str piece)
{
    if (status == 401 || status == 403) {
        cli_hint(c,
                 "--user NAME:PASSWORD, --bearer TOKEN or --tenant ID identify the user or tenant");
    } else if (status == 404) {
        cli_hint(c, "check the address: if the API is below a path, --url must have that path");
    } else if (status >= 300 && status < 400 && piece.n) {
        cli_hint(c, "the server redirects; give the new address with --url");
    } else if (status == 405 || status == 415) {
        cli_hint(c, "the server there does not speak Pyroscope's API");
    }
}

static bool refuse(struct cli *c, struct cli_call *call, str body, err *e)
{
    assert(call->http.status != 200);
    struct arena *a = &call->req.arena;
    struct http_call *h = &call->http;
    str code = {0};
    str message = {0};
    str type = http_headers_get(&h->answer_headers, "content-type");
    str location = http_headers_get(&h->answer_headers, "location");
    if (status_of(type, body, &code, &message) ||
        error_of(a, str_slice(body, 0, ERROR_BODY_MAX), &code, &message)) {
        if (code.n == 0) code = S("unknown");
        err_set(e, err_code_of(code.p, code.n), "%u %.*s: %.*s", h->status, STR(code),
                STR(message));
    } else {
        // Something before the server has answered, such as a proxy: a piece of its page tells
        // most.
        bool is_html = str_contains(type, S("html"));
        str piece = piece_of(a, body, is_html);
        err_set(e, ERR_UNKNOWN, "%u%s%.*s%s%.*s%s%.*s", h->status, type.n ? " with " : "",
                STR(type), piece.n ? ": " : "", STR(piece), location.n ? " -> " : "",
                STR(location));
    }
    // A 404 with this code is an answer of the API: the address is right then.
    if (!c->hint[0] && !str_is(code, "not_found")) hint_at(c, h->status, location);
    return false;
}

// Does the server at the address speak TLS? Even one with a certificate that we do not trust does.
static bool speaks_tls(struct cli *c)
{
    assert(!c->url.tls);
    struct cli_call call = {0};
    err e = {0};
    bool tls = c->url.tls;
    c->url.tls = true;  // for this call only
    cli_call_start(c, &call, "GET", "/ready", NULL, (str){0});
    bool answers = call_wait(&call.req, &call.http.call, &e);
    c->url.tls = tls;
    cli_call_release(&call);
    return answers || strstr(e.msg, "certificate");
}

// Was http used for an https address, or the other way round? libcurl has only indirect messages.
static bool is_other_scheme(struct cli *c, const struct http_call *h, const char *why)
{
    if (h->tls) return strstr(why, "wrong version number") || strstr(why, "packet length too long");
    static const char *const riddles[] = {"Empty reply", "select/poll returned", "HTTP/0.9",
                                          "Recv failure"};
    for (size_t i = 0; i < COUNT(riddles); i++) {
        if (strstr(why, riddles[i])) return speaks_tls(c);
    }
    return false;
}

// Fails with libcurl's reason, without the address, which our message has already.
static bool broken(struct cli *c, struct cli_call *call, err *e)
{
    struct http_call *h = &call->http;
    str why = str_of(e->msg);
    assert(e->code);
    char before[400];
    int n =
        snprintf(before, sizeof before, "%s %.*s%.*s: ", h->method, STR(h->address), STR(h->path));
    bool ours = n > 0 && (size_t)n < sizeof before && str_starts(why, str_make(before, (size_t)n));
    char text[sizeof e->msg];
    snprintf(text, sizeof text, "%s", e->msg + (ours ? n : 0));
    if (e->code == ERR_DEADLINE_EXCEEDED) {
        cli_hint(c, "a longer --timeout may help");
        return err_set(e, e->code, "no answer within %s", cli_args_get(&c->args, OPT_TIMEOUT));
    }
    // No server was asked for less than it sent: the limit is ours.
    if (e->code == ERR_RESOURCE_EXHAUSTED) {
        cli_hint(c,
                 "use a larger --max-answer, or ask for less with --max-nodes or a shorter range");
        return err_set(e, e->code, "the answer is larger than %s",
                       cli_args_get(&c->args, OPT_MAX_ANSWER));
    }
    if (is_other_scheme(c, h, text)) {
        cli_hint(c, "--url %s://%.*s", h->tls ? "http" : "https", STR(h->address));
        return err_set(e, e->code, "the server there speaks %s, not %s", h->tls ? "http" : "https",
                       h->tls ? "https" : "http");
    }
    if (e->code == ERR_UNAVAILABLE && !h->tls && strstr(text, "connect to"))
        cli_hint(c, "check that the server is running; --url or FLAMETREE_URL gives its address");
    return err_set(e, e->code, "%s", text);
}

static bool inflate(struct cli *c, struct cli_call *call, str *body, err *e)
{
    str encoding = http_headers_get(&call->http.answer_headers, "content-encoding");
    if (!str_ieq(encoding, S("gzip")) || body->n == 0) return true;
    // The limit holds for the inflated answer too, or a small one could fill the memory.
    buf_init(&call->inflated, NULL, c->answer_max);
    if (!compress_gunzip(*body, &call->inflated, e)) {
        if (e->code == ERR_RESOURCE_EXHAUSTED)
            return err_set(e, e->code, "the answer is larger than %s",
                           cli_args_get(&c->args, OPT_MAX_ANSWER));
        return err_wrap(e, "the answer");
    }
    *body = buf_view(&call->inflated);  // lives until cli_call_release
    return true;
}

bool cli_call_wait(struct cli *c, struct cli_call *call, str *body, err *e)
{
    assert(c->client && body && call->path);
    struct http_call *h = &call->http;
    bool ok = call_wait(&call->req, &h->call, e);
    if (!ok) {
        broken(c, call, e);
    } else {
        // Copied out for callers that retry; of a broken call they stay empty.
        call->status = h->status;
        call->retry_after = http_headers_get(&h->answer_headers, "retry-after");
        call->discarded = http_headers_get(&h->answer_headers, "flametree-discarded");
        *body = buf_view(&h->answer);
        ok = inflate(c, call, body, e) && (h->status == 200 || refuse(c, call, *body, e));
    }
    assert(ok || e->code);
    str name = name_of(call->path);
    return ok || err_wrap(e, "%.*s at %.*s", STR(name), STR(c->url.shown));
}

// ---- unary calls with messages

static bool check_type(struct cli *c, struct cli_call *call, const char *method, err *e)
{
    // A page of a proxy may come with status 200; parsed as a message it could even seem valid.
    str type = http_headers_get(&call->http.answer_headers, "content-type");
    if (str_starts(type, S("application/proto"))) return true;
    cli_hint(c, "the server there does not speak Pyroscope's API");
    str piece =
        piece_of(&call->req.arena, buf_view(&call->http.answer), str_contains(type, S("html")));
    // It is not the answer as sent that is legible then.
    if (call->inflated.n) piece = (str){0};
    return err_set(e, ERR_UNKNOWN, "%s at %.*s: 200 with %.*s instead of application/proto%s%.*s",
                   method, STR(c->url.shown), STR(type.n ? type : S("no content type")),
                   piece.n ? ": " : "", STR(piece));
}

// sent=N; all=N; share=F: of a server that says how many frames it left out.
static void note_frames(struct cli *c, str frames)
{
    uint64_t sent = 0;
    uint64_t all = 0;
    str first = str_trim(str_split(frames, ';', &frames));
    str second = str_trim(str_split(frames, ';', &frames));
    c->frames_cut |= str_starts(first, S("sent=")) && str_starts(second, S("all=")) &&
                     str_u64(str_slice(first, strlen("sent="), first.n), &sent) &&
                     str_u64(str_slice(second, strlen("all="), second.n), &all) && sent < all;
}

// Notes what the answer lacks, and says it, unless something else of the command does. The two
// answers of a comparison mostly lack the same: it is said once.
static void note_incomplete(struct cli *c, const struct cli_call *call)
{
    str exact = http_headers_get(&call->http.answer_headers, "flametree-exact");
    note_frames(c, http_headers_get(&call->http.answer_headers, "flametree-frames"));
    char before[sizeof c->incomplete];
    memcpy(before, c->incomplete, sizeof before);
    c->incomplete[0] = 0;
    if (!str_starts(exact, S("partial="))) return;
    c->parts_missing = true;
    snprintf(c->incomplete, sizeof c->incomplete, "the answer is incomplete: %.*s",
             STR(str_slice(exact, strlen("partial="), exact.n)));
    bool own = cli_explains(c, call->path) || c->args.command == CLI_TOP;
    if (!own && strcmp(before, c->incomplete) != 0) cli_say(c, "%s", c->incomplete);
}

// Makes a call and waits for its body; the caller must release the call in any case.
static bool call_unary(struct cli *c, struct cli_call *call, const char *method,
                       struct buf *question, const ProtobufCMessage *message, str *body, err *e)
{
    assert(method && message);
    buf_init(question, NULL, QUESTION_MAX);
    pb_pack(message, question);
    if (!buf_ok(question, e)) return err_wrap(e, "the question");
    str path = arena_printf(&c->arena, ASK_QUERIER "%s", method);
    if (!arena_ok(&c->arena, e)) return false;
    // The question is not copied: it must live until the call is released.
    cli_call_start(c, call, "POST", path.p, "application/proto", buf_view(question));
    bool ok = cli_call_wait(c, call, body, e) && check_type(c, call, method, e);
    if (ok) note_incomplete(c, call);
    if (ok && cli_explains(c, path.p)) cli_explain(c, &call->http.answer_headers);
    return ok;
}

bool cli_ask(struct cli *c, const char *method, const ProtobufCMessage *question,
             const ProtobufCMessageDescriptor *kind, ProtobufCMessage **answer, err *e)
{
    struct buf bytes;
    struct cli_call call = {0};
    str body = {0};
    bool ok = call_unary(c, &call, method, &bytes, question, &body, e);
    if (ok) {
        // Into the command's arena, so that the call can be released.
        *answer = pb_unpack(&c->arena, kind, body, e);
        ok = *answer != NULL ||
             err_wrap(e, "%s at %.*s: 200, but the answer is malformed", method, STR(c->url.shown));
    }
    cli_call_release(&call);
    buf_release(&bytes);
    return ok;
}

bool cli_ask_bytes(struct cli *c, const char *method, const ProtobufCMessage *question,
                   const ProtobufCMessageDescriptor *kind, struct buf *out, err *e)
{
    struct buf bytes;
    struct cli_call call = {0};
    str body = {0};
    bool ok = call_unary(c, &call, method, &bytes, question, &body, e);
    if (ok && !pb_check(kind, body, e))
        ok = err_wrap(e, "%s at %.*s: 200, but the answer is malformed", method, STR(c->url.shown));
    // Copied: the body goes with the call.
    if (ok) buf_str(out, body);
    cli_call_release(&call);
    buf_release(&bytes);
    return ok && buf_ok(out, e);
}
