// SPDX-License-Identifier: Apache-2.0
//
// The names of what an answer lacks (fetch.h): who notes them, how they are told, and whether the
// asker takes such an answer.
#include "base/ulid.h"
#include "querier/head/fetch.h"

#define MISSING_SHOWN 16   // names in a message or header, at most,
#define MISSING_BYTES 256  // and no further one once they have so many bytes

bool fetch_lacks(const struct fetched *f, str name)
{
    for (size_t i = 0; i < f->missing_count; i++)
        if (str_eq(f->missing[i], name)) return true;
    return false;
}

bool fetch_miss(struct arena *a, struct fetched *f, str name, const err *why, err *e)
{
    if (fetch_lacks(f, name)) return true;
    if (!arena_grow(a, &f->missing, &f->missing_cap, f->missing_count + 1, sizeof *f->missing)) {
        return arena_fail(a, e);
    }
    str kept = arena_str(a, name);
    if (!arena_ok(a, e)) return false;
    assert(f->marks <= f->missing_count);
    if (fetch_lacking(f) == 0) f->why = *why;  // the first reason is shown; marks have none
    f->missing[f->missing_count++] = kept;
    return true;
}

bool fetch_mark(struct arena *a, struct fetched *f, str name, const err *why, err *e)
{
    size_t before = f->missing_count;
    err kept = f->why;  // fetch_miss takes the reason if nothing else is missing yet
    if (!fetch_miss(a, f, name, &kept, e)) return false;
    f->why = kept;
    if (f->marks == 0 && f->missing_count > before) f->mark_why = *why;
    f->marks += f->missing_count - before;
    return true;
}

size_t fetch_lacking(const struct fetched *f)
{
    assert(f->marks <= f->missing_count);
    return f->missing_count - f->marks;
}

str fetch_stream_name(struct arena *a, id128 stream)
{
    char ulid[ULID_TEXT];
    ulid_print(stream, ulid);
    return arena_printf(a, "stream %s", ulid);
}

bool fetch_miss_stream(struct arena *a, struct fetched *f, id128 stream, const err *why, err *e)
{
    return fetch_miss(a, f, fetch_stream_name(a, stream), why, e);
}

// Codes that tell the client what to change. All others become unavailable.
static bool is_telling(enum err_code code)
{
    return code == ERR_RESOURCE_EXHAUSTED || code == ERR_OUT_OF_RANGE ||
           code == ERR_INVALID_ARGUMENT || code == ERR_DEADLINE_EXCEEDED;
}

str fetch_missing(struct arena *a, const struct fetched *f)
{
    str list = {0};
    size_t n = 0;
    for (; n < MIN(f->missing_count, MISSING_SHOWN) && list.n < MISSING_BYTES; n++)
        list = arena_printf(a, "%.*s%s%.*s", STR(list), n ? ", " : "", STR(f->missing[n]));
    if (f->missing_count == n) return list;
    return arena_printf(a, "%.*s, and %zu more", STR(list), f->missing_count - n);
}

str fetch_missing_first(struct arena *a, const struct fetched *f)
{
    assert(f->missing_count > 0);
    bool objects = false;
    for (size_t i = 0; i < f->missing_count; i++)
        objects = objects || str_starts(f->missing[i], S("v1/"));
    const char *end = objects ? " could not be read" : " did not answer";
    if (str_ends(f->missing[0], S(" rows of repeated pushes"))) end = " are left out";
    // Marks of streams and data directories say by themselves what it is about; ids of ingesters
    // are one word.
    if (fetch_lacking(f) == 0 && str_contains(f->missing[0], S(" "))) end = "";
    if (f->missing_count < 2) return arena_printf(a, "%.*s%s", STR(f->missing[0]), end);
    return arena_printf(a, "%.*s, and %zu more%s", STR(f->missing[0]), f->missing_count - 1, end);
}

bool fetch_refuses(const struct fetched *f, enum fetch_takes takes)
{
    if (takes == FETCH_ANY) return false;
    return takes == FETCH_EXACT ? f->missing_count > 0 : fetch_lacking(f) > 0;
}

bool fetch_verdict(struct arena *a, const struct fetched *f, enum fetch_takes takes, err *e)
{
    bool nothing = fetch_lacking(f) > 0 && f->partial_count == 0 && !f->has_blocks;
    if (!nothing && !fetch_refuses(f, takes)) return true;
    const err *why = fetch_lacking(f) ? &f->why : &f->mark_why;
    return err_set(e, is_telling(why->code) ? why->code : ERR_UNAVAILABLE,
                   "the answer would be incomplete, missing: %.*s (%s)", STR(fetch_missing(a, f)),
                   why->msg);
}
