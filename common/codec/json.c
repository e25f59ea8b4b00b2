// SPDX-License-Identifier: Apache-2.0
//
// json.c - a state for what may come next, and a bit for each open array or object.
#include "codec/json.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

enum expect {
    VALUE,
    ITEM_OR_END,  // after [
    KEY_OR_END,   // after {
    KEY,          // after a comma in an object
    COMMA_OR_END,
    NOTHING,
};

static enum json_token fault(struct json_reader *r, const char *what)
{
    // The first one stays: what comes behind it is a consequence.
    if (!r->fault.code) {
        err_set(&r->fault, ERR_INVALID_ARGUMENT, "syntax error at byte %zu: %s", r->at, what);
    }
    return JSON_FAULT;
}

static enum json_token unexpected(struct json_reader *r)
{
    if (r->fault.code) return JSON_FAULT;
    if (r->at >= r->all.n) return fault(r, "unexpected end of the text");
    unsigned char c = (unsigned char)r->all.p[r->at];
    char what[40];
    if (c > 0x20 && c < 0x7f) {
        snprintf(what, sizeof what, "unexpected character '%c'", c);
    } else {
        snprintf(what, sizeof what, "unexpected byte 0x%02x", c);
    }
    return fault(r, what);
}

void json_reader_init(struct json_reader *r, struct arena *a, str text)
{
    *r = (struct json_reader){.arena = a, .all = text, .expect = VALUE};
    // Checked once for the whole text, so that strings may borrow from it as they are.
    if (!str_utf8(text)) {
        err_set(&r->fault, ERR_INVALID_ARGUMENT, "syntax error: the text is not valid UTF-8");
    }
}

static bool in_object(const struct json_reader *r)
{
    assert(r->depth > 0 && r->depth <= JSON_DEPTH);
    unsigned level = r->depth - 1;
    return r->is_object[level / 8] >> level % 8 & 1;
}

static void value_done(struct json_reader *r)
{
    r->expect = r->depth ? COMMA_OR_END : NOTHING;
}

static enum json_token open(struct json_reader *r, bool object)
{
    if (r->depth == JSON_DEPTH) return fault(r, "nested too deep");
    // The bit of a level is set anew, because a closed object may have left it.
    uint8_t bit = (uint8_t)(1u << r->depth % 8);
    uint8_t *byte = &r->is_object[r->depth / 8];
    *byte = object ? *byte | bit : *byte & (uint8_t)~bit;
    r->depth++;
    r->at++;
    r->expect = object ? KEY_OR_END : ITEM_OR_END;
    return object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token end(struct json_reader *r)
{
    bool object = in_object(r);
    assert(r->at < r->all.n);
    if (r->all.p[r->at] != (object ? '}' : ']')) return unexpected(r);
    r->at++;
    r->depth--;
    value_done(r);
    return object ? JSON_OBJECT_END : JSON_ARRAY_END;
}

static int hex4(str s)
{
    int v = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = s.p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        v = v << 4 | digit;
    }
    return v;
}

// A \u escape, or two of them that make a surrogate pair; s begins with "\u". Returns its length,
// 0 where it is none.
static size_t unicode(str s, uint32_t *c)
{
    int high = s.n >= 6 ? hex4(str_slice(s, 2, 6)) : -1;
    if (high < 0) return 0;
    *c = (uint32_t)high;
    if (high < 0xd800 || high > 0xdfff) return 6;
    // The first half of a pair must come first, and both must be there: half a pair is no
    // character.
    if (high >= 0xdc00 || s.n < 12 || s.p[6] != '\\' || s.p[7] != 'u') return 0;
    int low = hex4(str_slice(s, 8, 12));
    if (low < 0xdc00 || low > 0xdfff) return 0;
    *c = 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return 12;
}

// Resolves the escapes of raw, which is never shorter than the result.
static bool unescape(struct json_reader *r, str raw)
{
    char *out = arena_new(r->arena, raw.n);
    if (!out) return arena_fail(r->arena, &r->fault);
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    size_t i = 0;
    while (i < raw.n) {
        if (raw.p[i] != '\\') {
            out[n++] = raw.p[i++];
            continue;
        }
        assert(i + 1 < raw.n);  // `string` skips the byte after a backslash
        char c = raw.p[i + 1];
        if (c == 'u') {
            uint32_t code = 0;
            size_t used = unicode(str_slice(raw, i, raw.n), &code);
            if (used == 0) return false;
            n += utf8_put(out + n, code);  // at most 3 bytes for 6, or 4 for 12
            i += used;
            continue;
        }
        const char *at = c ? strchr(from, c) : NULL;
        if (!at) return false;
        out[n++] = to[at - from];
        i += 2;
    }
    assert(n <= raw.n);
    r->text = str_make(out, n);
    return true;
}

static bool string(struct json_reader *r)
{
    size_t at = ++r->at;
    bool escaped = false;
    while (at < r->all.n && r->all.p[at] != '"') {
        unsigned char c = (unsigned char)r->all.p[at];
        if (c < 0x20) {
            r->at = at;
            return unexpected(r) != JSON_FAULT;
        }
        if (c == '\\') {
            escaped = true;
            at++;
        }
        at++;
    }
    if (at >= r->all.n) {
        r->at = r->all.n;
        return unexpected(r) != JSON_FAULT;
    }
    r->text = str_slice(r->all, r->at, at);
    if (escaped && !unescape(r, r->text)) {
        return fault(r, "invalid escape in a string") != JSON_FAULT;
    }
    r->at = at + 1;
    return true;
}

static size_t digits(str s, size_t at)
{
    size_t from = at;
    while (at < s.n && s.p[at] >= '0' && s.p[at] <= '9')
        at++;
    return at - from;
}

size_t json_number_size(str s)
{
    size_t at = s.n > 0 && s.p[0] == '-';
    size_t n = digits(s, at);
    if (n == 0) return 0;
    // A 0 stands alone: "01" is 0 followed by something else, which the caller refuses.
    at += s.p[at] == '0' ? 1 : n;
    if (at < s.n && s.p[at] == '.') {
        n = digits(s, at + 1);
        if (n == 0) return 0;
        at += 1 + n;
    }
    if (at < s.n && (s.p[at] == 'e' || s.p[at] == 'E')) {
        at++;
        if (at < s.n && (s.p[at] == '+' || s.p[at] == '-')) at++;
        n = digits(s, at);
        if (n == 0) return 0;
        at += n;
    }
    return at;
}

static enum json_token number(struct json_reader *r)
{
    str rest = str_slice(r->all, r->at, r->all.n);
    size_t n = json_number_size(rest);
    if (n == 0) return fault(r, "invalid number");
    r->text = str_slice(rest, 0, n);
    r->at += n;
    value_done(r);
    return JSON_NUMBER;
}

static enum json_token word(struct json_reader *r, str text, enum json_token token)
{
    if (!str_starts(str_slice(r->all, r->at, r->all.n), text)) return unexpected(r);
    r->at += text.n;
    value_done(r);
    return token;
}

static enum json_token value(struct json_reader *r, char c)
{
    assert(r->expect != NOTHING && r->expect != COMMA_OR_END);
    switch (c) {
    case '{':
        return open(r, true);
    case '[':
        return open(r, false);
    case '"':
        if (!string(r)) return JSON_FAULT;
        value_done(r);
        return JSON_STRING;
    case 't':
        return word(r, S("true"), JSON_TRUE);
    case 'f':
        return word(r, S("false"), JSON_FALSE);
    case 'n':
        return word(r, S("null"), JSON_NULL);
    default:
        return c == '-' || (c >= '0' && c <= '9') ? number(r) : unexpected(r);
    }
}

// The next byte that is no white space; 0 at the end, a byte that no valid text has there.
static char peek(struct json_reader *r)
{
    while (r->at < r->all.n) {
        char c = r->all.p[r->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c;
        r->at++;
    }
    return 0;
}

static enum json_token key(struct json_reader *r, char c)
{
    if (c != '"') return unexpected(r);
    if (!string(r)) return JSON_FAULT;
    if (peek(r) != ':') return unexpected(r);
    r->at++;
    r->expect = VALUE;
    return JSON_KEY;
}

enum json_token json_next(struct json_reader *r)
{
    if (r->fault.code) return JSON_FAULT;
    char c = peek(r);
    if (r->at >= r->all.n) return r->expect == NOTHING ? JSON_END : unexpected(r);
    if (r->expect == COMMA_OR_END) {
        if (c != ',') return end(r);
        assert(r->depth > 0);
        r->at++;
        r->expect = in_object(r) ? KEY : VALUE;
        c = peek(r);
        if (r->at >= r->all.n) return unexpected(r);
    }
    switch ((enum expect)r->expect) {
    case VALUE:
        return value(r, c);
    case ITEM_OR_END:
        return c == ']' ? end(r) : value(r, c);
    case KEY_OR_END:
        return c == '}' ? end(r) : key(r, c);
    case KEY:
        return key(r, c);
    case COMMA_OR_END:
    case NOTHING:
        break;
    }
    return unexpected(r);
}

bool json_skip(struct json_reader *r)
{
    unsigned depth = r->depth;
    // No recursion: an array or object is over when the depth is back. A key alone is no value yet.
    enum json_token t = JSON_END;
    do {
        t = json_next(r);
    } while (t != JSON_FAULT && (r->depth > depth || t == JSON_KEY));
    return t != JSON_FAULT;
}

// ---- writing

// Bytes of the valid UTF-8 character at the start of s, 0 if there is none.
static size_t character(str s)
{
    assert(s.n > 0);
    for (size_t n = 1; n <= MIN((size_t)4, s.n); n++) {
        if (str_utf8(str_slice(s, 0, n))) return n;
    }
    return 0;
}

static void put_escape(struct buf *b, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        buf_byte(b, '\\');
        buf_byte(b, (unsigned char)to[at - from]);
    } else {
        buf_printf(b, "\\u%04x", c);
    }
}

void json_put_string(struct buf *b, str s)
{
    // Text that is UTF-8, nearly all, is copied in long pieces; otherwise character by character,
    // with U+FFFD for what is none.
    bool valid = str_utf8(s);
    size_t from = 0;
    buf_byte(b, '"');
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        bool plain = c >= 0x20 && c != '"' && c != '\\';
        size_t n = valid || c < 0x80 ? 1 : character(str_slice(s, i, s.n));
        if (plain && n > 0) {
            i += n;
            continue;
        }
        buf_put(b, s.p + from, i - from);
        if (n > 0) {
            put_escape(b, c);
        } else {
            buf_str(b, S("\xef\xbf\xbd"));
        }
        from = ++i;
    }
    if (s.n > from) buf_put(b, s.p + from, s.n - from);
    buf_byte(b, '"');
}

void json_put_double(struct buf *b, double v)
{
    if (__builtin_isnan(v)) return buf_z(b, "\"NaN\"");
    if (__builtin_isinf(v)) return buf_z(b, v < 0 ? "\"-Infinity\"" : "\"Infinity\"");
    char text[40];
    if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v) {
        snprintf(text, sizeof text, "%.0f", v);
        return buf_z(b, text);
    }
    // 15 digits are always exact in decimal, 17 always read back equal; most values need 15.
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v) break;
    }
    buf_z(b, text);
}
