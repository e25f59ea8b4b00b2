// SPDX-License-Identifier: Apache-2.0
//
// check_size.c - tries how large an object may be. The largest one first, which is the only try
// where nothing limits it; then the smallest; then sizes between what was taken and what was
// refused, in the middle by powers of two as long as they are far apart.
#include "store/check.h"
#include "sys/clock.h"
#include "sys/rand.h"

// Bytes that no proxy finds worth packing, and that are no text which a filter would look at.
#define PIECE ((size_t)64 << 10)

struct sizing {
    struct store *store;
    struct req *req;
    str name;
    str piece;
    unsigned tries;
    size_t taken;
    size_t refused;
    err *why;
};

static bool create_sized(struct sizing *z, size_t size, bool *existed, err *e)
{
    struct store_upload *u = store_begin(z->store, z->req, z->name, size, e);
    if (!u) return false;
    for (size_t left = size; left > 0;) {
        str part = str_slice(z->piece, 0, MIN(left, z->piece.n));
        if (!store_write(u, part, e)) {
            store_abandon(u);
            return false;
        }
        left -= part.n;
    }
    return store_commit(u, existed, e);
}

// An object of that size. False: the store failed.
static bool try_size(struct sizing *z, size_t size, err *e)
{
    bool existed = false;
    err fault = {0};
    err ignored = {0};
    z->tries++;
    bool ok = create_sized(z, size, &existed, &fault);
    // It has just this trial's name: one that exists was created by a try whose answer was lost.
    // Whatever the answer was, it may be there.
    if (ok) z->taken = size;
    bool gone = store_delete(z->store, z->req, z->name, ok ? e : &ignored);
    if (ok) return gone;
    if (fault.code != ERR_OUT_OF_RANGE) {
        *e = fault;
        return false;
    }
    z->refused = size;
    *z->why = fault;
    return true;
}

// A size between what was taken and what was refused; 0: they are close enough.
static size_t size_between(const struct sizing *z)
{
    size_t times = z->refused / z->taken;
    unsigned doubles = 0;
    while (times >> (doubles + 1))
        doubles++;
    if (doubles > 1) return z->taken << (doubles / 2);
    size_t apart = z->refused - z->taken;
    return apart > z->taken / 8 ? z->taken + apart / 2 : 0;
}

bool store_check_size(struct store *s, id128 owner, struct req *r, size_t most, size_t *taken,
                      err *why, err *e)
{
    uint8_t random[10];
    char ulid[ULID_TEXT];
    char directory[ULID_TEXT];
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random), ulid);
    ulid_print(owner, directory);
    struct sizing z = {.store = s, .req = r, .why = why};
    char *piece = ARENA_ARRAY(&r->arena, char, PIECE);
    z.name = arena_printf(&r->arena, STORE_CHECK_PREFIX "%s.%s", directory, ulid);
    if (!arena_ok(&r->arena, e)) return false;
    rand_bytes(piece, PIECE);
    z.piece = str_make(piece, PIECE);
    assert(most >= STORE_SIZE_LEAST);
    if (!try_size(&z, most, e)) return false;
    if (z.refused && most > STORE_SIZE_LEAST && !try_size(&z, STORE_SIZE_LEAST, e)) return false;
    while (z.taken && z.refused && z.tries < STORE_SIZE_TRIES) {
        size_t size = size_between(&z);
        if (!size) break;
        if (!try_size(&z, size, e)) return false;
    }
    *taken = z.taken;
    return true;
}
