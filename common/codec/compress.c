// SPDX-License-Identifier: Apache-2.0
//
// compress.c - gzip by libdeflate and zstd by its library, into room that grows up to the cap.
#include "codec/compress.h"

#include <libdeflate.h>
#include <zstd.h>
#include <zstd_errors.h>

// The size that an input states is a first guess only up to this multiple of its length, so that a
// short lie costs little.
#define GUESS_MAX 16
#define ROOM_MIN  4096

// 8 MB, which RFC 8878 asks decoders to support; the window is the only memory that is not `out`.
#define ZSTD_WINDOW_LOG_MAX 23

bool compress_is_gzip(str s)
{
    return str_starts(s, S("\x1f\x8b"));
}

bool compress_is_zstd(str s)
{
    return str_starts(s, S("\x28\xb5\x2f\xfd"));
}

static bool over_cap(const struct buf *out, err *e)
{
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "decompressed data is larger than %zu bytes",
                   out->cap);
}

// `out` fails with it, which tells it from reaching the cap.
static bool no_memory(struct buf *out, const char *what, err *e)
{
    buf_starve(out);
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for a %s", what);
}

static size_t first_guess(str in, uint64_t claimed)
{
    size_t most = MAX(in.n, (size_t)ROOM_MIN / GUESS_MAX) * GUESS_MAX;
    assert(most >= ROOM_MIN);
    return claimed > 0 && claimed <= most ? (size_t)claimed : MAX(in.n * 2, (size_t)ROOM_MIN);
}

static uint32_t le32(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

// The length of the zero-terminated text of a header at `at`, with its zero; to the end if it has
// none.
static size_t text_size(str in, size_t at)
{
    const char *end = at < in.n ? memchr(in.p + at, 0, in.n - at) : NULL;
    // Without an end the answer lies behind the input, so the caller stops there.
    return end ? (size_t)(end - in.p) + 1 - at : in.n;
}

// libdeflate passes over the checksum that a member's header may carry (RFC 1952, FHCRC); one that
// is wrong says that the member is damaged. A header that is cut is left to libdeflate.
static bool header_is_sound(str in)
{
    enum {
        FHCRC = 2,
        FEXTRA = 4,
        FNAME = 8,
        FCOMMENT = 16
    };
    if (in.n < 10 || !(in.p[3] & FHCRC)) return true;
    size_t at = 10;
    if (in.p[3] & FEXTRA) {
        if (in.n < at + 2) return true;
        at += 2 + ((uint8_t)in.p[at] | (size_t)(uint8_t)in.p[at + 1] << 8);
    }
    if (in.p[3] & FNAME) at += text_size(in, at);
    if (in.p[3] & FCOMMENT) at += text_size(in, at);
    if (at + 2 > in.n) return true;
    uint32_t said = (uint8_t)in.p[at] | (uint32_t)(uint8_t)in.p[at + 1] << 8;
    return said == (libdeflate_crc32(0, in.p, at) & 0xffff);
}

static bool damaged(err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "gzip data is damaged");
}

// One gzip member at the start of *in. libdeflate wants all the room at once and says only "too
// little"; doubling and starting over costs at most as much again as the last, successful run.
static bool member(struct libdeflate_decompressor *d, str *in, struct buf *out, err *e)
{
    static char nowhere[1];
    if (!header_is_sound(*in)) return damaged(e);
    // The last four bytes of a member are its size modulo 2^32 (RFC 1952). They may be those of
    // another member or a lie, so they are only a guess.
    size_t room = first_guess(*in, in->n >= 18 ? le32(in->p + in->n - 4) : 0);
    for (;;) {
        size_t most = out->cap - out->n;
        if (room > most) room = most;
        char *at = room ? buf_reserve(out, room) : nowhere;
        if (!at) return buf_ok(out, e);
        size_t used = 0;
        size_t made = 0;
        enum libdeflate_result r =
            libdeflate_gzip_decompress_ex(d, in->p, in->n, at, room, &used, &made);
        if (r == LIBDEFLATE_SUCCESS) {
            assert(made <= room && used <= in->n);
            out->n += made;
            *in = str_slice(*in, used, in->n);
            return true;
        }
        if (r != LIBDEFLATE_INSUFFICIENT_SPACE) return damaged(e);
        if (room == most) return over_cap(out, e);
        room = room > SIZE_MAX / 2 ? SIZE_MAX : room * 2;
    }
}

bool compress_gunzip(str in, struct buf *out, err *e)
{
    if (!compress_is_gzip(in)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "gzip data has an invalid header");
    }
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    if (!d) return no_memory(out, "gzip decompressor", e);
    bool ok = true;
    while (ok && in.n > 0) {
        // Members may follow each other; their contents are one.
        ok = compress_is_gzip(in) ? member(d, &in, out, e)
                                  : err_set(e, ERR_INVALID_ARGUMENT,
                                            "gzip data is followed by %zu other bytes", in.n);
    }
    libdeflate_free_decompressor(d);
    return ok;
}

bool compress_gzip(str in, int level, struct buf *out, err *e)
{
    assert(level >= 1 && level <= 12);
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
    if (!c) return no_memory(out, "gzip compressor", e);
    size_t room = MIN(libdeflate_gzip_compress_bound(c, in.n), out->cap - out->n);
    char *at = buf_reserve(out, room);
    size_t n = at ? libdeflate_gzip_compress(c, in.n ? in.p : "", in.n, at, room) : 0;
    libdeflate_free_compressor(c);
    out->n += n;
    // libdeflate says only that it did not fit, which the cap decides.
    if (n == 0) out->failed = true;
    return buf_ok(out, e);
}

static bool zstd_damaged(struct buf *out, size_t code, err *e)
{
    ZSTD_ErrorCode what = ZSTD_getErrorCode(code);
    if (what == ZSTD_error_memory_allocation) return no_memory(out, "zstd decompressor", e);
    return err_set(e, ERR_INVALID_ARGUMENT, "zstd data is damaged: %s", ZSTD_getErrorName(code));
}

static bool unzstd(ZSTD_DCtx *d, str in, struct buf *out, err *e)
{
    static char nowhere[1];
    ZSTD_inBuffer from = {in.p, in.n, 0};
    unsigned long long claimed = ZSTD_getFrameContentSize(in.p, in.n);
    size_t room = first_guess(in, claimed < ZSTD_CONTENTSIZE_ERROR ? claimed : 0);
    for (;;) {
        room = MIN(room, out->cap - out->n);
        char *at = room ? buf_reserve(out, room) : nowhere;
        if (!at) return buf_ok(out, e);
        ZSTD_outBuffer to = {at, room, 0};
        size_t read = from.pos;
        size_t left = ZSTD_decompressStream(d, &to, &from);
        if (ZSTD_isError(left)) return zstd_damaged(out, left, e);
        assert(to.pos <= room && from.pos <= from.size);
        out->n += to.pos;
        bool all_read = from.pos == from.size;
        if (left == 0 && all_read) return true;
        if (all_read && to.pos < room) {
            return err_set(e, ERR_INVALID_ARGUMENT, "zstd data is cut");
        }
        // Without room the decoder may still take input, such as a checksum; if it takes none, it
        // has output that does not fit.
        if (room == 0 && from.pos == read) return over_cap(out, e);
        room = MAX(out->n, (size_t)ROOM_MIN);
    }
}

bool compress_unzstd(str in, struct buf *out, err *e)
{
    if (!compress_is_zstd(in)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "zstd data has an invalid header");
    }
    ZSTD_DCtx *d = ZSTD_createDCtx();
    if (!d) return no_memory(out, "zstd decompressor", e);
    ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
    bool ok = unzstd(d, in, out, e);
    ZSTD_freeDCtx(d);
    return ok;
}

bool compress_unzstd_to(str in, void *out, size_t n, err *e)
{
    ZSTD_DCtx *d = ZSTD_createDCtx();
    if (!d) return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for a zstd decompressor");
    size_t made = ZSTD_decompressDCtx(d, out, n, in.p, in.n);
    ZSTD_freeDCtx(d);
    if (ZSTD_isError(made)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "zstd data is damaged: %s",
                       ZSTD_getErrorName(made));
    }
    if (made == n) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "zstd data has %zu bytes instead of %zu", made, n);
}

void compressor_release(struct compressor *z)
{
    ZSTD_freeCCtx(z->context);
    z->context = NULL;
}

bool compressor_zstd(struct compressor *z, str in, int level, struct buf *out, err *e)
{
    size_t room = MIN(ZSTD_compressBound(in.n), out->cap - out->n);
    char *at = buf_reserve(out, room);
    if (!at) return buf_ok(out, e);
    if (!z->context) {
        z->context = ZSTD_createCCtx();
        z->made++;
    }
    if (!z->context) return no_memory(out, "zstd compressor", e);
    size_t n = ZSTD_compressCCtx(z->context, at, room, in.n ? in.p : "", in.n, level);
    // A context keeps what its largest input needed.
    if (ZSTD_sizeof_CCtx(z->context) > COMPRESSOR_KEPT) compressor_release(z);
    if (!ZSTD_isError(n)) {
        out->n += n;
        return true;
    }
    out->failed = true;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "zstd cannot compress %zu bytes: %s", in.n,
                   ZSTD_getErrorName(n));
}

bool compress_zstd(str in, int level, struct buf *out, err *e)
{
    struct compressor z = {0};
    bool ok = compressor_zstd(&z, in, level, out, e);
    compressor_release(&z);
    return ok;
}
