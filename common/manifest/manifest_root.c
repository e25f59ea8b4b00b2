// SPDX-License-Identifier: Apache-2.0
//
// The creation of a root. A store may fail and have created it all the same, so what is there is
// compared with what was sent, which has its writer's nonce in it.
#include "base/fault.h"
#include "manifest/manifest_int.h"
#include "sys/rand.h"

#include <time.h>

#define PUTS         5  // of one root, while the store fails
#define PAUSE_MAX_NS (200 * NS_PER_MS)
#define ASIDE_BYTES  ((size_t)96 << 20)  // memory of the look at a root whose creation failed
#define ASIDE_NS     ((uint64_t)5 * NS_PER_S)

// What is at the root's name, after a creation that failed or was second: with a time limit of its
// own, since not to know is worse than to wait a little longer. FAILED with not_found: nothing.
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
    int64_t most = MIN(NS_PER_MS << MIN(attempt, 10), PAUSE_MAX_NS);
    int64_t ns = (int64_t)(rand_u64() % (uint64_t)most);
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

enum outcome root_create(struct manifests *ms, struct req *r, str name, str bytes, err *e)
{
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
        // It was another's and is swept since, unless an earlier one of our tries made it.
        if (ok && unseen.code == ERR_NOT_FOUND && i == 0) return LOST;
        *e = ok ? unseen : fault;
        err_wrap(e, "manifest root, which may have been created");
        if (unseen.code != ERR_NOT_FOUND) return FAILED;
    }
    return FAILED;
}
