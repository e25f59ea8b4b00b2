// SPDX-License-Identifier: Apache-2.0
//
// The creation of a root, the one step of a commit that others see.
//
//     1. create the object; if the store says that it did, and that nothing was there: landed
//     2. else read the name, in a request of its own: our bytes (the nonce in them is this
//        writer's): landed; other bytes: lost
//     3. if nothing is there, the creation failed before it took effect: again from 1 after a
//        pause, with the same bytes
//     4. if the name cannot be read either, nobody knows: failed, and the caller is told that the
//        root may have been created
#include "base/fault.h"
#include "manifest/manifest_int.h"
#include "sys/rand.h"

#include <time.h>

#define PUTS         5  // creations of one root, while the store fails
#define PAUSE_MAX_NS (200 * NS_PER_MS)
#define ASIDE_BYTES  ((size_t)96 << 20)        // to read the name: a root (64 MB at most) and slack
#define ASIDE_NS     ((uint64_t)5 * NS_PER_S)  // the same, in time

// Compares the object at the root's name with our bytes, after a creation that failed or was
// second. FAILED with not_found: there is none. The request is separate from the caller's, which
// has perhaps just run out of time: not to know whether a change landed is worse than to wait a
// little longer.
static enum outcome compare_root(struct manifests *ms, const struct req *r, str name, str bytes,
                                 err *e)
{
    struct req aside;
    struct buf there;
    enum outcome out = FAILED;
    req_init(&aside, r->rank, ms->memory, ASIDE_BYTES, ASIDE_NS);
    buf_init(&there, ms->memory, MANIFEST_ROOT_MAX);
    if (store_get(ms->store, &aside, name, &there, e))
        out = str_eq(buf_view(&there), bytes) ? LANDED : LOST;
    buf_release(&there);
    req_release(&aside);
    return out;
}

void manifest_pause(int attempt)
{
    assert(attempt > 0);
    int64_t most = MIN(NS_PER_MS << MIN(attempt, 10), PAUSE_MAX_NS);
    int64_t ns = (int64_t)(rand_u64() % (uint64_t)most);
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

enum outcome root_create(struct manifests *ms, struct req *r, str name, str bytes, err *e)
{
    assert(bytes.n && bytes.n <= MANIFEST_ROOT_MAX);
    for (int i = 0; i < PUTS; i++) {
        bool existed = false;
        err fault = {0};
        err unseen = {0};
        if (i) manifest_pause(i + 3);
        if (i && !req_alive(r, e)) return FAILED;
        FAULT("manifest.root.before");
        bool ok = store_put(ms->store, r, name, bytes, &existed, &fault);
        FAULT("manifest.root.after");
        bool untold = FAULT_ERRNO("manifest.root.untold");  // it happened, and nobody can say so
        if (ok && untold) ok = err_set(&fault, ERR_ABORTED, "another operation was under way");
        if (ok && !existed) return LANDED;
        enum outcome out = FAILED;
        if (untold)
            err_set(&unseen, ERR_UNAVAILABLE, "it cannot be read");
        else
            out = compare_root(ms, r, name, bytes, &unseen);
        if (out != FAILED) return out;
        // It existed when we tried and is gone now: another writer's root that was swept since.
        // That is certain for the first try only; later a try of ours may have made it.
        if (ok && unseen.code == ERR_NOT_FOUND && i == 0) return LOST;
        *e = ok ? unseen : fault;
        err_wrap(e, "manifest root, which may have been created");
        if (unseen.code != ERR_NOT_FOUND) return FAILED;
    }
    return FAILED;
}
