// SPDX-License-Identifier: Apache-2.0
//
// ulid.c - ULIDs and UUIDs: made, printed, read.
#include "base/ulid.h"

static const char crockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static void put_ms(id128 *id, uint64_t unix_ms)
{
    for (int i = 0; i < 6; i++)
        id->b[i] = (uint8_t)(unix_ms >> (40 - 8 * i));
}

id128 ulid_make(uint64_t unix_ms, const uint8_t random[10])
{
    id128 id = {0};
    put_ms(&id, unix_ms);
    memcpy(id.b + 6, random, 10);
    return id;
}

// 128 bits as 26 digits of 5 bits: the first digit has only 3.
void ulid_print(id128 id, char text[ULID_TEXT])
{
    for (int i = 0; i < 26; i++) {
        int bit = i * 5 - 2;  // position of the digit's first bit; two virtual zero bits lead
        unsigned v = 0;
        for (int k = bit; k < bit + 5; k++) {
            v = v << 1 | (k < 0 ? 0 : id.b[k / 8] >> (7 - k % 8) & 1u);
        }
        text[i] = crockford[v];
    }
    text[26] = '\0';
}

static int digit_of(char c)
{
    if (c >= 'a' && c <= 'z') c = (char)(c - 'a' + 'A');
    // Crockford's alphabet lacks I, L, O and U, which look like digits or make words.
    const char *at = c ? strchr(crockford, c) : NULL;
    return at ? (int)(at - crockford) : -1;
}

bool ulid_parse(str text, id128 *id, err *e)
{
    if (text.n != 26) {
        return err_set(e, ERR_INVALID_ARGUMENT, "ULID has %zu characters, not 26", text.n);
    }
    id128 out = {0};
    for (int i = 0; i < 26; i++) {
        int v = digit_of(text.p[i]);
        if (v < 0 || (i == 0 && v > 7)) {  // 26 digits have 130 bits: a larger first one overflows
            return err_set(e, ERR_INVALID_ARGUMENT, "ULID %.*s: bad character at %d", STR(text), i);
        }
        for (int k = 0; k < 5; k++) {
            int bit = i * 5 - 2 + k;
            if (bit >= 0 && v >> (4 - k) & 1) out.b[bit / 8] |= (uint8_t)(1u << (7 - bit % 8));
        }
    }
    *id = out;
    return true;
}

id128 uuid_profile(uint64_t unix_ms, uint64_t h1, uint64_t h2)
{
    id128 id = {0};
    put_ms(&id, unix_ms);
    // Version 8 (free use) in the upper half of byte 6, variant 10 in the top bits of byte 8.
    id.b[6] = (uint8_t)(0x80 | h2 >> 60);
    id.b[7] = (uint8_t)(h2 >> 52);
    for (int i = 0; i < 8; i++)
        id.b[8 + i] = (uint8_t)(h1 >> (56 - 8 * i));
    id.b[8] = (uint8_t)((id.b[8] & 0x3f) | 0x80);
    return id;
}

uint64_t uuid_ms(id128 id)
{
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id.b[i];
    return ms;
}

void hex_print(const uint8_t *bytes, size_t n, char *hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * n] = '\0';
}

// The value of a hex digit plus 1; 0 of other characters.
static const uint8_t hex_digits[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

bool hex_parse(str hex, uint8_t *bytes, size_t n)
{
    if (hex.n != 2 * n) return false;
    for (size_t i = 0; i < n; i++) {
        // By a table: ids come with each sample of a profile with spans.
        unsigned high = hex_digits[(unsigned char)hex.p[2 * i]];
        unsigned low = hex_digits[(unsigned char)hex.p[2 * i + 1]];
        if (high == 0 || low == 0) return false;
        bytes[i] = (uint8_t)((high - 1) << 4 | (low - 1));
    }
    return true;
}

void uuid_print(id128 id, char text[UUID_TEXT])
{
    char hex[33];
    hex_print(id.b, 16, hex);
    size_t at = 0;
    for (size_t i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20) text[at++] = '-';
        text[at++] = hex[i];
    }
    text[at] = '\0';
}

bool uuid_parse(str text, id128 *id, err *e)
{
    char hex[32];
    size_t n = 0;
    for (size_t i = 0; i < text.n && n <= sizeof hex; i++) {
        bool hyphen = text.n == 36 && (i == 8 || i == 13 || i == 18 || i == 23);
        if (hyphen && text.p[i] == '-') continue;
        if (n < sizeof hex) hex[n] = text.p[i];
        n++;  // counts one too many, so that longer texts are refused
    }
    id128 out = {0};
    if (n != sizeof hex || !hex_parse(str_make(hex, n), out.b, 16)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "invalid UUID \"%.*s\" of length %zu", STR(text),
                       text.n);
    }
    *id = out;
    return true;
}
