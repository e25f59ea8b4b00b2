// SPDX-License-Identifier: Apache-2.0
//
// rand.c - a buffer of random bytes for each thread.
#include "sys/rand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void kernel_bytes(void *p, size_t n)
{
    unsigned char *at = p;
    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            // Ids made of anything else could repeat, and a repeated id loses data.
            fprintf(stderr, "flametree: the kernel gives no random bytes: %s\n", strerror(errno));
            abort();
        }
        assert((size_t)got <= n);
        at += got;
        n -= (size_t)got;
    }
}

// Small pieces come from a store of the thread, so that ids and keys do not cost a system call
// each. Bytes that were given out are wiped: a leak of the store must not reveal keys.
void rand_bytes(void *p, size_t n)
{
    static _Thread_local unsigned char store[512];
    static _Thread_local size_t left;
    if (n > sizeof store / 8) {
        kernel_bytes(p, n);
        return;
    }
    if (n > left) {
        kernel_bytes(store, sizeof store);
        left = sizeof store;
    }
    assert(n <= left);
    left -= n;
    memcpy(p, store + left, n);
    memset(store + left, 0, n);
}

uint64_t rand_u64(void)
{
    uint64_t v = 0;
    rand_bytes(&v, sizeof v);
    return v;
}

struct hash_key rand_key(void)
{
    struct hash_key key;
    rand_bytes(&key, sizeof key);
    return key;
}
