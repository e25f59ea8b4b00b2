// SPDX-License-Identifier: Apache-2.0
#include "net/h1_head.h"

#include <pthread.h>

#include <http_parser.h>

#define EXTRA_MAX 8192  // bytes of extensions and trailers of one body; nobody needs them

enum h1_scan_result h1_scan(struct h1_scan *s, const char *p, size_t n)
{
    while (s->at < n) {
        const char *lf = memchr(p + s->at, '\n', n - s->at);
        size_t stop = lf ? (size_t)(lf - p) : n;
        const char *cr = memchr(p + s->at, '\r', stop - s->at);
        // A CR may only be the byte before LF: here, or as the last byte that has come.
        if (cr && (size_t)(cr - p) + 1 != stop) return H1_BROKEN;
        if (!lf) {
            s->at = cr ? (size_t)(cr - p) : n;
            return H1_MORE;
        }
        if (!cr) return H1_BROKEN;
        bool empty = stop - 1 == s->line;
        bool first = s->line == s->begin;
        s->at = s->line = stop + 1;
        if (empty && !first) return H1_WHOLE;
        if (empty) s->begin = s->line;  // empty lines before a request are skipped
    }
    return H1_MORE;
}

struct parse {
    struct h1_head *head;
    struct arena *arena;
    str target;
    str name;
    bool have_value;
    unsigned headers_max;
    bool too_many;
};

static int on_url(http_parser *parser, const char *at, size_t n)
{
    struct parse *s = parser->data;
    s->target = s->target.p ? str_make(s->target.p, s->target.n + n) : str_make(at, n);
    return 0;
}

static int on_name(http_parser *parser, const char *at, size_t n)
{
    struct parse *s = parser->data;
    if (!s->name.p || s->have_value) {
        s->name = str_make(at, n);
        s->have_value = false;
    } else {
        s->name.n += n;
    }
    return 0;
}

static int on_value(http_parser *parser, const char *at, size_t n)
{
    struct parse *s = parser->data;
    struct http_headers *h = &s->head->headers;
    if (s->have_value) {  // another piece of the same value
        if (h->n > 0) h->v[h->n - 1].value.n = (size_t)(at + n - h->v[h->n - 1].value.p);
        return 0;
    }
    s->have_value = true;
    if (h->n >= s->headers_max) {
        s->too_many = true;
        return 1;
    }
    http_headers_add(h, s->arena, s->name, str_make(at, n));
    return 0;
}

static int on_headers_complete(http_parser *parser)
{
    (void)parser;
    return 1;  // the body is not its business
}

static void lift_parser_limit(void)
{
    http_parser_set_max_header_size(UINT32_MAX);  // heads are limited before they are parsed
}

// "METHOD target HTTP/d.d", one space at each place: http-parser takes more of them, targets with
// tabs, lines without a version and those of other protocols.
static bool is_request_line(str line)
{
    static const char version[] = "HTTP/";
    str rest = {0};
    str target_and_version = {0};
    str method = str_split(line, ' ', &target_and_version);
    str target = str_split(target_and_version, ' ', &rest);
    if (!http_is_token(method) || target.n == 0 || rest.n != sizeof version + 2) return false;
    return str_starts(rest, S("HTTP/")) && rest.p[5] >= '0' && rest.p[5] <= '9' &&
           rest.p[6] == '.' && rest.p[7] >= '0' && rest.p[7] <= '9';
}

// "GET http://host/path?query" and "GET /path?query".
static bool split_target(struct h1_head *h, str target, err *e)
{
    for (size_t i = 0; i < target.n; i++) {
        unsigned char c = (unsigned char)target.p[i];
        if (c <= 0x20 || c == 0x7f || c == '#')
            return err_set(e, ERR_INVALID_ARGUMENT, "request target holds byte 0x%02x", c);
    }
    if (str_starts(target, S("http://")) || str_starts(target, S("https://"))) {
        str rest = str_slice(target, str_find(target, ':') + 3, target.n);
        size_t end = 0;
        while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '?')
            end++;
        h->authority = str_slice(rest, 0, end);
        if (end == 0 || !http_is_authority(h->authority))
            return err_set(e, ERR_INVALID_ARGUMENT, "request target names no valid host");
        target = str_slice(rest, end, rest.n);
        if (target.n == 0) target = S("/");
    } else if (!str_starts(target, S("/")) && !str_is(target, "*")) {
        return err_set(e, ERR_INVALID_ARGUMENT, "request target is not a path");
    }
    h->path = str_split(target, '?', &h->query);
    if (h->path.n == 0) h->path = S("/");
    return true;
}

static bool list_has(str list, str word)
{
    while (list.p) {
        str item = str_split(list, ',', &list);
        if (str_ieq(str_trim(item), word)) return true;
    }
    return false;
}

struct framing {
    unsigned hosts;
    unsigned lengths;
    unsigned codings;
    bool bad_host;
    bool other_host;  // than the target names
    bool close;
    bool keep;
};

// One header's part in where the message ends.
static unsigned look_at(struct h1_head *h, struct framing *f, const struct http_header *at, err *e)
{
    str name = at->name;
    str value = at->value;
    if (str_is(name, "host")) {
        f->hosts++;
        f->bad_host |= !http_is_authority(value);
        f->other_host |= h->authority.p && !http_same_authority(h->authority, value);
        if (!h->authority.p) h->authority = value;
    } else if (str_is(name, "content-length")) {
        f->lengths++;
        h->has_length = true;
        if (!str_u64(value, &h->length) || h->length > INT64_MAX) {
            err_set(e, ERR_INVALID_ARGUMENT, "Content-Length is not a length");
            return 400;
        }
    } else if (str_is(name, "transfer-encoding")) {
        f->codings++;
        h->chunked = true;
        if (!str_ieq(value, S("chunked"))) {
            err_set(e, ERR_UNIMPLEMENTED, "the only Transfer-Encoding here is chunked");
            return 501;
        }
    } else if (str_is(name, "connection")) {
        f->close |= list_has(value, S("close"));
        f->keep |= list_has(value, S("keep-alive"));
    } else if (str_is(name, "expect")) {
        if (!str_ieq(value, S("100-continue"))) {
            err_set(e, ERR_INVALID_ARGUMENT, "the only expectation met here is 100-continue");
            return 417;
        }
        h->expects_continue = !h->http10;
    }
    return 0;
}

static unsigned check_framing(struct h1_head *h, err *e)
{
    struct framing f = {0};
    for (size_t i = 0; i < h->headers.n; i++) {
        unsigned status = look_at(h, &f, &h->headers.v[i], e);
        if (status) return status;
    }
    const char *fault = NULL;
    if (f.lengths > 1) fault = "Content-Length is given more than once";
    if (f.codings > 1) fault = "Transfer-Encoding is given more than once";
    if (f.lengths && f.codings) fault = "both Content-Length and Transfer-Encoding are given";
    if (f.codings && h->http10) fault = "Transfer-Encoding needs HTTP/1.1";
    if (f.other_host) fault = "Host is not the host that the request target names";
    if (f.bad_host) fault = "Host is not a host";
    if (f.hosts > 1) fault = "Host is given more than once";
    if (f.hosts == 0 && !h->http10) fault = "Host is missing";
    if (fault) {
        err_set(e, ERR_INVALID_ARGUMENT, "%s", fault);
        return 400;
    }
    h->keep_alive = !f.close && (!h->http10 || f.keep);
    return 0;
}

static bool tidy_headers(struct http_headers *headers, char *head, err *e)
{
    for (size_t i = 0; i < headers->n; i++) {
        struct http_header *at = &headers->v[i];
        at->value = str_trim(at->value);
        if (!http_is_token(at->name) || !http_is_value(at->value)) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "header %zu has a name or value that no header"
                           " may have",
                           i + 1);
        }
        http_lower(head + (at->name.p - head), at->name.n);
    }
    return true;
}

// A line that begins with a space continues the one before: readers disagree about it.
static bool has_folds(const char *p, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if ((p[i] == ' ' || p[i] == '\t') && p[i - 1] == '\n') return true;
    return false;
}

static unsigned parser_fault(const http_parser *parser, const struct parse *s, str head, err *e)
{
    enum http_errno fault = HTTP_PARSER_ERRNO(parser);
    if (s->too_many) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u headers", s->headers_max);
        return 431;
    }
    str rest = {0};
    if (fault == HPE_INVALID_METHOD && http_is_token(str_split(head, ' ', &rest))) {
        err_set(e, ERR_UNIMPLEMENTED, "unknown method");
        return 501;
    }
    err_set(e, ERR_INVALID_ARGUMENT, "%s",
            fault == HPE_OK ? "head ends too early" : http_errno_description(fault));
    return 400;
}

unsigned h1_head_parse(struct h1_head *h, char *p, size_t n, unsigned headers_max, struct arena *a,
                       err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, lift_parser_limit);
    *h = (struct h1_head){0};
    if (has_folds(p, n)) {
        err_set(e, ERR_INVALID_ARGUMENT, "a header line begins with a space");
        return 400;
    }
    const char *line_end = memchr(p, '\r', n);
    if (!is_request_line(str_make(p, line_end ? (size_t)(line_end - p) : n))) {
        err_set(e, ERR_INVALID_ARGUMENT, "request line is not \"METHOD target HTTP/1.1\"");
        return 400;
    }
    struct parse s = {.head = h, .arena = a, .headers_max = headers_max};
    http_parser parser;
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &s;
    http_parser_settings settings;
    http_parser_settings_init(&settings);
    settings.on_url = on_url;
    settings.on_header_field = on_name;
    settings.on_header_value = on_value;
    settings.on_headers_complete = on_headers_complete;
    size_t used = http_parser_execute(&parser, &settings, p, n);
    if (HTTP_PARSER_ERRNO(&parser) != HPE_OK || used != n)
        return parser_fault(&parser, &s, str_make(p, n), e);
    if (!arena_ok(a, e)) return 429;

    if (parser.http_major != 1) {
        err_set(e, ERR_UNIMPLEMENTED, "HTTP version is not 1.0 or 1.1");
        return 505;
    }
    h->http10 = parser.http_minor == 0;
    str rest = {0};
    h->method = str_split(str_make(p, n), ' ', &rest);
    if (parser.method == HTTP_CONNECT) {
        err_set(e, ERR_UNIMPLEMENTED, "CONNECT is for proxies");
        return 405;
    }
    if (!http_is_token(h->method) || !tidy_headers(&h->headers, p, e) ||
        !split_target(h, s.target, e))
        return 400;
    return check_framing(h, e);
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Text of extensions and trailers is skipped, but only text.
static bool is_text(struct h1_chunks *k, unsigned char c)
{
    return ++k->extra <= EXTRA_MAX && (c >= 0x20 || c == '\t') && c != 0x7f;
}

// Between a chunk's size and its extensions: some readers take "5 7" for 5, others for 57.
static enum h1_chunk_state space_byte(struct h1_chunks *k, unsigned char c)
{
    if (++k->extra > EXTRA_MAX) return H1_CHUNKS_BROKEN;
    if (c == ';') return H1_CHUNK_EXTENSION;
    return c == ' ' || c == '\t' ? H1_CHUNK_SPACE : H1_CHUNKS_BROKEN;
}

// RFC 9112 section 7.1.1. A line end within quotes is the end to some readers, text to others.
static enum h1_chunk_state extension_byte(struct h1_chunks *k, unsigned char c)
{
    if (c == '\r') return k->quoted ? H1_CHUNKS_BROKEN : H1_CHUNK_SIZE_END;
    if (!is_text(k, c)) return H1_CHUNKS_BROKEN;
    bool escaped = k->escaped;
    k->escaped = k->quoted && c == '\\' && !escaped;
    if (c == '"' && !escaped) k->quoted = !k->quoted;
    if (k->quoted || c == '"' || strchr(";= \t", c)) return H1_CHUNK_EXTENSION;
    char byte = (char)c;
    return http_is_token(str_make(&byte, 1)) ? H1_CHUNK_EXTENSION : H1_CHUNKS_BROKEN;
}

// Nobody asks for trailers, so all are dropped; but one that frames or routes messages was meant
// for a reader that does not drop it.
static bool may_trail(str name)
{
    static const char *const heads[] = {
        "content-length", "transfer-encoding", "host", "connection", "upgrade", "te", "trailer",
        "expect",         "content-encoding"};
    for (size_t i = 0; i < COUNT(heads); i++)
        if (str_ieq(name, str_of(heads[i]))) return false;
    return name.n > 0;
}

static enum h1_chunk_state trailer_byte(struct h1_chunks *k, unsigned char c)
{
    if (c == '\r' && (k->in_line == 0 || k->in_value)) return H1_CHUNK_TRAILER_END;
    if (!is_text(k, c)) return H1_CHUNKS_BROKEN;
    if (k->in_value) return H1_CHUNK_TRAILER;
    if (c == ':') {
        k->in_value = true;
        bool whole = k->in_line <= sizeof k->name;  // no name that matters is longer
        bool good = whole ? may_trail(str_make(k->name, k->in_line)) : true;
        return good ? H1_CHUNK_TRAILER : H1_CHUNKS_BROKEN;
    }
    char byte = (char)c;
    if (!http_is_token(str_make(&byte, 1))) return H1_CHUNKS_BROKEN;
    if (k->in_line < sizeof k->name) k->name[k->in_line] = byte;
    k->in_line++;
    return H1_CHUNK_TRAILER;
}

static enum h1_chunk_state size_byte(struct h1_chunks *k, unsigned char c)
{
    int v = hex_value(c);
    if (v >= 0) {
        k->left = k->left << 4 | (unsigned)v;
        return ++k->digits > 15 ? H1_CHUNKS_BROKEN : H1_CHUNK_SIZE;
    }
    if (k->digits == 0) return H1_CHUNKS_BROKEN;
    if (c == '\r') return H1_CHUNK_SIZE_END;
    return c == ';' || c == ' ' || c == '\t' ? space_byte(k, c) : H1_CHUNKS_BROKEN;
}

static enum h1_chunk_state framing_byte(struct h1_chunks *k, unsigned char c)
{
    switch (k->state) {
    case H1_CHUNK_SIZE:
        return size_byte(k, c);
    case H1_CHUNK_SPACE:
        return space_byte(k, c);
    case H1_CHUNK_EXTENSION:
        return extension_byte(k, c);
    case H1_CHUNK_SIZE_END:
        k->digits = 0;
        k->in_line = 0;
        if (c != '\n') return H1_CHUNKS_BROKEN;
        return k->left ? H1_CHUNK_DATA : H1_CHUNK_TRAILER;
    case H1_CHUNK_DATA_CR:
        return c == '\r' ? H1_CHUNK_DATA_LF : H1_CHUNKS_BROKEN;
    case H1_CHUNK_DATA_LF:
        return c == '\n' ? H1_CHUNK_SIZE : H1_CHUNKS_BROKEN;
    case H1_CHUNK_TRAILER:
        return trailer_byte(k, c);
    case H1_CHUNK_TRAILER_END:
        if (c != '\n') return H1_CHUNKS_BROKEN;
        if (k->in_line == 0) return H1_CHUNKS_DONE;
        k->in_line = 0;
        k->in_value = false;
        return H1_CHUNK_TRAILER;
    case H1_CHUNK_DATA:
    case H1_CHUNKS_DONE:
    case H1_CHUNKS_BROKEN:
        break;
    }
    return k->state;
}

size_t h1_chunks_feed(struct h1_chunks *k, const char *p, size_t n, str *data)
{
    *data = (str){0};
    size_t at = 0;
    while (at < n && k->state != H1_CHUNKS_DONE && k->state != H1_CHUNKS_BROKEN) {
        if (k->state != H1_CHUNK_DATA) {
            k->state = framing_byte(k, (unsigned char)p[at++]);
            continue;
        }
        size_t take = (size_t)MIN(k->left, (uint64_t)(n - at));
        *data = str_make(p + at, take);
        k->left -= take;
        if (k->left == 0) k->state = H1_CHUNK_DATA_CR;
        return at + take;
    }
    return at;
}

const char *h1_reason(unsigned status)
{
    if (status == 499) return "Client Closed Request";  // not registered; what Connect maps to
    const char *text = http_status_str((enum http_status)status);
    return text[0] == '<' ? "Unknown" : text;
}
