// SPDX-License-Identifier: Apache-2.0
//
// object_log_sweep.c - clears away logs that nobody needs: of streams that are not registered.
//
// The folders are listed before the registrations: a stream is registered before it has an object,
// so one that has objects and is not registered is covered, or was given up by a person. Its
// objects go, the oldest first. Its seal stays for two days by the store's clock, so that an owner
// who was asleep meets it. If there is none, one is made.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"
#include "manifest/stream.h"

static bool remove_one(struct store *s, struct req *r, id128 stream, uint64_t number,
                       uint64_t *removed, err *e)
{
    str name = name_log_object(&r->arena, stream, number);
    if (!arena_ok(&r->arena, e) || !store_delete(s, r, name, e)) return false;
    ++*removed;
    return true;
}

static bool sweep_stream(struct store *s, struct req *r, id128 stream,
                         const struct object_log_sealer *by, uint64_t *removed, err *e)
{
    struct numbers x;
    struct log_object_head h;
    char bytes[LOG_OBJECT_HEAD_MAX];
    uint64_t sealed = 0;
    err why = {0};
    if (!object_log_numbers(s, r, name_log(&r->arena, stream), &x, e)) return false;
    if (x.n == 0) return true;
    uint64_t top = x.v[x.n - 1];
    bool read = object_log_head(s, r, stream, top, bytes, &h, &why);
    if (!read && why.code == ERR_NOT_FOUND) return true;  // somebody else is at it
    if (!read && why.code != ERR_DATA_LOSS) {
        *e = why;
        return false;
    }
    // The next sweep finds the seal.
    if (!read || !h.seal) return object_log_seal(s, r, stream, by, &sealed, e);
    for (size_t i = 0; i + 1 < x.n; i++)
        if (!remove_one(s, r, stream, x.v[i], removed, e)) return false;
    int64_t age_ns = 0;
    str seal = name_log_object(&r->arena, stream, top);
    if (!arena_ok(&r->arena, e)) return false;
    if (!store_age(s, r, seal, &age_ns, &why)) {
        if (why.code == ERR_NOT_FOUND) return true;
        *e = why;
        return false;
    }
    return age_ns < OBJECT_LOG_SEAL_NS || remove_one(s, r, stream, top, removed, e);
}

static bool has(const id128 *v, size_t n, id128 stream)
{
    for (size_t i = 0; i < n; i++)
        if (id128_eq(v[i], stream)) return true;
    return false;
}

bool object_log_sweep(struct store *s, struct req *r, const struct object_log_sealer *by,
                      uint64_t *removed, err *e)
{
    id128 *logs = NULL;
    id128 *registered = NULL;
    size_t n = 0;
    size_t count = 0;
    *removed = 0;
    if (!object_log_streams(s, r, &r->arena, &logs, &n, e) ||
        !stream_names(s, r, &r->arena, &registered, &count, e)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (has(registered, count, logs[i])) continue;
        if (!sweep_stream(s, r, logs[i], by, removed, e)) return false;
    }
    return true;
}
