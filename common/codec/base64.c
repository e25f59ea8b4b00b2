// SPDX-License-Identifier: Apache-2.0
//
// base64.c - three bytes to four characters and back.
#include "codec/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buf *out, str bytes, bool padded)
{
    const uint8_t *p = (const uint8_t *)bytes.p;
    size_t left = bytes.n;
    if (left == 0) return;
    // So that the product below cannot overflow.
    if (left > SIZE_MAX / 2) {
        out->failed = true;
        return;
    }
    char *to = buf_reserve(out, (left + 2) / 3 * 4);
    if (!to) return;
    char *from = to;
    for (; left >= 3; left -= 3, p += 3) {
        uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        *to++ = alphabet[v >> 18];
        *to++ = alphabet[v >> 12 & 63];
        *to++ = alphabet[v >> 6 & 63];
        *to++ = alphabet[v & 63];
    }
    if (left > 0) {
        uint32_t v = (uint32_t)p[0] << 16 | (left == 2 ? (uint32_t)p[1] << 8 : 0);
        *to++ = alphabet[v >> 18];
        *to++ = alphabet[v >> 12 & 63];
        if (left == 2) *to++ = alphabet[v >> 6 & 63];
        for (size_t i = left; padded && i < 3; i++)
            *to++ = '=';
    }
    assert((size_t)(to - from) <= (bytes.n + 2) / 3 * 4);
    out->n += (size_t)(to - from);
}

static int value_of(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    if (c == '/' || c == '_') return 63;
    return -1;
}

bool base64_decode(str text, char *out, size_t *n, err *e)
{
    if (text.n % 4 == 0) {
        for (int i = 0; i < 2 && text.n > 0 && text.p[text.n - 1] == '='; i++)
            text.n--;
    }
    // One character alone has 6 bits, less than a byte.
    if (text.n % 4 == 1) return err_set(e, ERR_INVALID_ARGUMENT, "base64 text is cut");
    const size_t room = base64_room(text.n);
    size_t made = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < text.n; i++) {
        int v = value_of((unsigned char)text.p[i]);
        if (v < 0) {
            return err_set(e, ERR_INVALID_ARGUMENT, "illegal base64 data at input byte %zu", i);
        }
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have < 8) continue;
        have -= 8;
        out[made++] = (char)(bits >> have);
    }
    assert(made <= room);
    *n = made;
    return true;
}
