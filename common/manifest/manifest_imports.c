// SPDX-License-Identifier: Apache-2.0
//
// manifest_imports.c - which imports a version knows, by the streams that their leaves name.
#include "base/search.h"
#include "manifest/manifest_int.h"

// The first entry of an hour in the page's index: runs are in order of hours.
static size_t first_of(const struct page *p, int64_t hour)
{
    return SEARCH(at, 0, p->absorbed_count, p->absorbed[at].run->hour < hour);
}

// Has a leaf that is there no more, and that retention took? Its `expired` is forgotten once no
// parent names it, while rows of it are in parents still. So of leaves that programs before this
// one removed nobody knows, and they count as expired.
static bool is_of_expired(const struct page *p, const struct absorbed *at)
{
    return at->by >= p->block_count && !p->past[at->by - p->block_count].erased;
}

enum import_state manifest_import_of(const struct manifest *m, int64_t hour, id128 stream,
                                     uint64_t *generation)
{
    enum import_state state = IMPORT_NEVER;
    const struct page *p = manifest_page(m, BLOCK_RAW, manifest_window(BLOCK_RAW, hour));
    *generation = 0;
    if (!p) return state;
    size_t row = first_of(p, hour);
    for (; row < p->absorbed_count && p->absorbed[row].run->hour == hour; row++) {
        const struct absorbed *at = &p->absorbed[row];
        if (!id128_eq(at->run->stream, stream)) continue;
        bool held = at->by < p->block_count || is_of_expired(p, at);
        state = MAX(state, held ? IMPORT_HELD : IMPORT_ERASED);
        *generation = MAX(*generation, segment_run_last(at->run));
    }
    return state;
}

bool manifest_import_expired(const struct manifest *m, int64_t hour, uint64_t *generation)
{
    bool expired = false;
    const struct page *p = manifest_page(m, BLOCK_RAW, manifest_window(BLOCK_RAW, hour));
    *generation = 0;
    if (!p) return false;
    size_t row = first_of(p, hour);
    for (; row < p->absorbed_count && p->absorbed[row].run->hour == hour; row++) {
        const struct absorbed *at = &p->absorbed[row];
        if (!stream_is_import(at->run->stream) || !is_of_expired(p, at)) continue;
        expired = true;
        *generation = MAX(*generation, segment_run_last(at->run));
    }
    return expired;
}
