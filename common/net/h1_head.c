// SPDX-License-Identifier: Apache-2.0
//
// h1_head.c - finds the end of a head, parses it in place, and reads chunked bodies.
#include "net/h1_head.h"

#include "base/search.h"

// Bytes of extensions and trailers of one body. Real clients send none; without a limit they would
// be a body outside the body limit.
#define EXTRA_MAX 8192

enum h1_scan_result h1_scan(struct h1_scan *s, const char *p, size_t n)
{
    while (s->at < n) {
        assert(s->begin <= s->line && s->line <= s->at);
        const char *lf = memchr(p + s->at, '\n', n - s->at);
        size_t stop = lf ? (size_t)(lf - p) : n;
        const char *cr = memchr(p + s->at, '\r', stop - s->at);
        // A CR may only be the byte before LF: here, or as the last byte that has come.
        if (cr && (size_t)(cr - p) + 1 != stop) return H1_BROKEN;
        if (!lf) {
            s->at = cr ? (size_t)(cr - p) : n;
            return H1_MORE;
        }
        // LF alone: some readers take it for the end of a line, others not, and that is how
        // requests are smuggled past a proxy.
        if (!cr) return H1_BROKEN;
        bool empty = stop - 1 == s->line;
        bool first = s->line == s->begin;
        s->at = s->line = stop + 1;
        if (empty && !first) return H1_WHOLE;
        if (empty) s->begin = s->line;  // skips empty lines before a request, RFC 9112 section 2.2
    }
    return H1_MORE;
}

// The line up to the next CRLF, which is taken off *rest as well. False: there is none.
static bool next_line(str *rest, str *line)
{
    size_t end = str_find(*rest, '\r');
    if (rest->n - end < 2 || rest->p[end + 1] != '\n') return false;
    *line = str_slice(*rest, 0, end);
    *rest = str_slice(*rest, end + 2, rest->n);
    return true;
}

struct request_line {
    str method;
    str target;
    char major;
    char minor;
};

// "METHOD target HTTP/d.d" with one space at each place.
static bool split_request_line(str line, struct request_line *l)
{
    str version = {0};
    // Each split takes one space: two in a row make an empty target or a longer version.
    l->method = str_split(line, ' ', &version);
    l->target = str_split(version, ' ', &version);
    if (!http_is_token(l->method) || l->target.n == 0 || version.n != 8) return false;
    l->major = version.p[5];
    l->minor = version.p[7];
    return str_starts(version, S("HTTP/")) && l->major >= '0' && l->major <= '9' &&
           version.p[6] == '.' && l->minor >= '0' && l->minor <= '9';
}

// RFC 9110 section 9.3 and RFC 5789. A method on this list that the route does not take gets 405;
// any other gets 501.
static bool is_known_method(str method)
{
    static const char *const known[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                        "CONNECT", "OPTIONS", "TRACE", "PATCH"};
    for (size_t i = 0; i < COUNT(known); i++)
        if (str_is(method, known[i])) return true;
    return false;
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
    // "http://host" and "http://host?query" have an empty path, which means "/".
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

// Notes what one header says about the message's end and its host.
static unsigned look_at(struct h1_head *h, struct framing *f, const struct http_header *at, err *e)
{
    str name = at->name;
    str value = at->value;
    assert(name.n > 0);
    if (str_is(name, "host")) {
        f->hosts++;
        f->bad_host |= !http_is_authority(value);
        f->other_host |= h->authority.p && !http_same_authority(h->authority, value);
        if (!h->authority.p) h->authority = value;
    } else if (str_is(name, "content-length")) {
        f->lengths++;
        // A length twice is refused even if both agree: proxies differ in which one they follow.
        h->has_length = true;
        if (!str_u64(value, &h->length) || h->length > INT64_MAX) {
            err_set(e, ERR_INVALID_ARGUMENT, "Content-Length is not a length");
            return 400;
        }
    } else if (str_is(name, "transfer-encoding")) {
        f->codings++;
        // "gzip, chunked" too: we would have to inflate before the limit of the body is known.
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
    // HTTP/1.1 keeps the connection unless told otherwise; 1.0 only if it is asked to.
    h->keep_alive = !f.close && (!h->http10 || f.keep);
    return 0;
}

// "name: value" lines up to an empty one. `head` is the same bytes, where names become lower case.
static unsigned read_headers(struct h1_head *h, char *head, str rest, unsigned headers_max,
                             struct arena *a, err *e)
{
    const char *begin = rest.p;
    str line = {0};
    bool whole = false;
    while (!whole && next_line(&rest, &line)) {
        whole = line.n == 0;
        if (whole) continue;
        if (h->headers.n >= headers_max) {
            err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u headers", headers_max);
            return 431;
        }
        // Some readers take it for a continuation of the line before.
        if (line.p[0] == ' ' || line.p[0] == '\t') {
            err_set(e, ERR_INVALID_ARGUMENT, "a header line begins with a space");
            return 400;
        }
        size_t colon = str_find(line, ':');
        str name = str_slice(line, 0, colon);
        str value = str_slice(line, colon + 1, line.n);
        if (colon == line.n || !http_is_token(name) || !http_is_value(value)) {
            err_set(e, ERR_INVALID_ARGUMENT,
                    "header %zu has a name or value that no header may have", h->headers.n + 1);
            return 400;
        }
        assert(name.p >= begin);
        http_lower(head + (name.p - begin), name.n);
        http_headers_add(&h->headers, a, name, str_trim(value));
    }
    if (!arena_ok(a, e)) return 429;
    if (whole && rest.n == 0) return 0;
    err_set(e, ERR_INVALID_ARGUMENT, "head does not end with its first empty line");
    return 400;
}

unsigned h1_head_parse(struct h1_head *h, char *p, size_t n, unsigned headers_max, struct arena *a,
                       err *e)
{
    *h = (struct h1_head){0};
    str rest = str_make(p, n);
    str line = {0};
    struct request_line l = {0};
    if (!next_line(&rest, &line) || !split_request_line(line, &l)) {
        err_set(e, ERR_INVALID_ARGUMENT, "request line is not \"METHOD target HTTP/1.1\"");
        return 400;
    }
    if (!is_known_method(l.method)) {
        err_set(e, ERR_UNIMPLEMENTED, "unknown method");
        return 501;
    }
    // The headers first: a head that is too large or not whole is told as that, whatever its
    // version.
    unsigned status = read_headers(h, p + (n - rest.n), rest, headers_max, a, e);
    if (status) return status;
    if (l.major != '1') {
        err_set(e, ERR_UNIMPLEMENTED, "HTTP version is not 1.0 or 1.1");
        return 505;
    }
    if (str_is(l.method, "CONNECT")) {
        err_set(e, ERR_UNIMPLEMENTED, "CONNECT is for proxies");
        return 405;
    }
    h->http10 = l.minor == '0';
    h->method = l.method;
    if (!split_target(h, l.target, e)) return 400;
    return check_framing(h, e);
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Extensions and trailers are skipped, but they must be text.
static bool is_text(struct h1_chunks *k, unsigned char c)
{
    return ++k->extra <= EXTRA_MAX && (c >= 0x20 || c == '\t') && c != 0x7f;
}

// Between a chunk's size and its extensions only spaces may stand: some readers take "5 7" for 5,
// others for 57, and the two would disagree about where the message ends.
static enum h1_chunk_state space_byte(struct h1_chunks *k, unsigned char c)
{
    if (++k->extra > EXTRA_MAX) return H1_CHUNKS_BROKEN;
    if (c == ';') return H1_CHUNK_EXTENSION;
    return c == ' ' || c == '\t' ? H1_CHUNK_SPACE : H1_CHUNKS_BROKEN;
}

// RFC 9112 section 7.1.1. A line end within quotes is refused: some readers take it for the end of
// the line, others for text.
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

// All trailers are dropped, as no handler reads them. But a trailer that frames or routes messages
// is an attack on a reader that merges trailers into the head, so the message is refused.
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
        bool whole = k->in_line <= sizeof k->name;  // the forbidden names are all shorter
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
        return ++k->digits > 15 ? H1_CHUNKS_BROKEN : H1_CHUNK_SIZE;  // so `left` cannot overflow
    }
    assert(k->state == H1_CHUNK_SIZE);
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
        // A chunk of size 0 is the last one; trailers may follow it.
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
        assert(take > 0);
        k->left -= take;
        if (k->left == 0) k->state = H1_CHUNK_DATA_CR;
        return at + take;
    }
    return at;
}

// RFC 9110 section 15, RFC 6585, and the statuses of Connect errors. Sorted.
const char *h1_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {205, "Reset Content"},
        {206, "Partial Content"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Payload Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Entity"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},  // not registered
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    size_t i = SEARCH(at, 0, COUNT(reasons), reasons[at].status < status);
    return i < COUNT(reasons) && reasons[i].status == status ? reasons[i].text : "Unknown";
}
