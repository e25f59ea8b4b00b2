// SPDX-License-Identifier: Apache-2.0
//
// A tenant's manifest for people: what a version says of itself, all versions that are listed, and
// whether roots, pages and objects fit together (flametree manifest verify).
#include "manifest/manifest_int.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX 600

// ---- what a version says of itself

void manifest_tell(const struct manifest *m, struct manifest_about *out)
{
    *out = (struct manifest_about){
        .version = m->version,
        .made_ns = m->made_ns,
        .hash = m->hash,
        .parent_hash = m->parent_hash,
        .pages = m->page_count,
        .blocks = m->block_count,
        .expired = m->expired_count,
        .tombstones = m->tombstone_count,
        .garbage = m->garbage_count,
    };
    for (size_t i = 0; i < m->page_count; i++)
        out->page_bytes += m->refs_of[i].bytes;
    for (size_t i = 0; i < m->garbage_count; i++) {
        const struct garbage *g = &m->garbage[i];
        out->garbage_bytes += g->bytes;
        if (i == 0 || g->removed_ns < out->garbage_since_ns) out->garbage_since_ns = g->removed_ns;
    }
}

bool manifest_page_at(const struct manifest *m, size_t i, struct manifest_page *out)
{
    if (i >= m->page_count) return false;
    const struct page_ref *p = &m->refs_of[i];
    *out = (struct manifest_page){.id = p->id,
                                  .kind = p->kind,
                                  .window = p->window,
                                  .bytes = p->bytes,
                                  .at = p->at,
                                  .object_bytes = p->object_bytes,
                                  .blocks = m->pages[i] ? m->pages[i]->block_count : 0};
    return true;
}

bool manifest_garbage_at(const struct manifest *m, size_t i, struct manifest_garbage *out)
{
    if (i >= m->garbage_count) return false;
    const struct garbage *g = &m->garbage[i];
    *out = (struct manifest_garbage){g->name, g->bytes, g->removed_ns};
    return true;
}

// ---- versions

static bool see_root(void *arg, str name, uint64_t size, err *e)
{
    struct versions *l = arg;
    uint64_t version = 0;
    (void)size;
    if (!name_root_version(str_slice(name, l->prefix, name.n), &version)) return true;
    if (!arena_grow(l->arena, &l->v, &l->room, l->n + 1, sizeof *l->v))
        return arena_fail(l->arena, e);
    l->v[l->n++] = version;
    return true;
}

bool versions_list(struct manifests *ms, struct req *r, struct arena *a, str tenant,
                   struct versions *out, err *e)
{
    str prefix = name_roots(a, tenant);
    *out = (struct versions){.arena = a, .prefix = prefix.n};
    return arena_ok(a, e) && store_list(ms->store, r, prefix, (str){0}, see_root, out, e);
}

struct manifest *root_get(struct manifests *ms, struct req *r, struct arena *a, str tenant,
                          uint64_t version, err *e)
{
    struct buf bytes;
    struct manifest *m = NULL;
    buf_init(&bytes, ms->memory, MANIFEST_ROOT_MAX);
    str name = name_root(a, tenant, version);
    if (arena_ok(a, e) && store_get(ms->store, r, name, &bytes, e))
        m = root_parse(ms->memory, tenant, version, buf_view(&bytes), e);
    buf_release(&bytes);
    return m;
}

static bool tell_root(struct manifests *ms, struct req *r, str tenant, uint64_t version,
                      struct manifest_about *out, err *e)
{
    struct manifest *m = root_get(ms, r, &r->arena, tenant, version, e);
    if (!m) return false;
    manifest_tell(m, out);
    manifest_unref(m);
    return true;
}

bool manifest_versions(struct manifests *ms, struct req *r, str tenant, manifest_visit *fn,
                       void *arg, err *e)
{
    struct arena a;
    struct versions l;
    arena_init(&a, ms->memory, SIZE_MAX / 4);
    bool ok = versions_list(ms, r, &a, tenant, &l, e);
    for (size_t i = 0; ok && i < l.n; i++) {
        struct manifest_about about;
        err fault = {0};
        if (tell_root(ms, r, tenant, l.v[i], &about, &fault)) {
            ok = fn(arg, &about, e);
        } else if (fault.code != ERR_NOT_FOUND) {  // which was swept meanwhile
            *e = fault;
            ok = false;
        }
    }
    arena_release(&a);
    return ok;
}

// ---- is it right?

struct verifying {
    struct manifests *ms;
    struct req *r;
    str tenant;
    str prefix;  // name_of_tenant
    struct arena arena;
    struct manifest_verify *v;
    struct manifest *m;
    bool *seen;  // of each block
};

static void tell(struct verifying *w, bool is_fault, const char *fmt, ...) PRINTF(3, 4);
static void tell(struct verifying *w, bool is_fault, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    w->v->faults += is_fault;
    if (w->v->report) w->v->report(w->v->arg, is_fault, text);
}

// Reports a fault of the data and goes on. False with *e for a fault of store or memory, which says
// nothing about the manifest.
static bool pass_over(struct verifying *w, err *fault, err *e)
{
    if (fault->code == ERR_DATA_LOSS || fault->code == ERR_NOT_FOUND ||
        fault->code == ERR_OUT_OF_RANGE || fault->code == ERR_FAILED_PRECONDITION) {
        tell(w, true, "%s", fault->msg);
        return true;
    }
    *e = *fault;
    return false;
}

// Each version follows the one before it and names its hash. The oldest ones are deleted by sweeps,
// so the chain may begin anywhere.
static bool verify_chain(struct verifying *w, err *e)
{
    struct versions l;
    struct manifest_about last = {0};
    if (!versions_list(w->ms, w->r, &w->arena, w->tenant, &l, e)) return false;
    for (size_t i = 0; i < l.n; i++) {
        struct manifest_about about = {0};
        err fault = {0};
        w->v->versions++;
        if (!tell_root(w->ms, w->r, w->tenant, l.v[i], &about, &fault)) {
            if (!pass_over(w, &fault, e)) return false;
            about = (struct manifest_about){0};
        } else if (last.version && last.version + 1 != about.version) {
            tell(w, true, "versions %" PRIu64 " to %" PRIu64 " are not there", last.version + 1,
                 about.version - 1);
        } else if (last.version && last.hash != about.parent_hash) {
            tell(w, true,
                 "version %" PRIu64 ": parent_hash is %016" PRIx64 ", version %" PRIu64
                 " has %016" PRIx64,
                 about.version, about.parent_hash, last.version, last.hash);
        }
        last = about;
    }
    return true;
}

// A segment counts twice if two live leaves of a page name it and may have series in common.
static void verify_sources(struct verifying *w, const struct page *p)
{
    for (size_t i = 1; i < p->absorbed_count; i++) {
        const struct absorbed *b = &p->absorbed[i];
        for (const struct absorbed *a = page_absorbed(p, b->run, b); a;
             a = page_absorbed(p, b->run, a)) {
            if (a->by >= p->block_count || b->by >= p->block_count) continue;
            const struct manifest_block *x = &p->blocks[MIN(a->by, b->by)];
            const struct manifest_block *y = &p->blocks[MAX(a->by, b->by)];
            if (!manifest_blocks_meet(x, y)) continue;
            char text[SEGMENT_TEXT];
            // b comes later in the index, so its run begins no earlier than a's.
            const struct segment_name shared = segment_run_at(b->run, 0);
            segment_name_print(&shared, text);
            tell(w, true, "segment %s is a source of %.*s and of %.*s", text, STR(x->name),
                 STR(y->name));
        }
    }
}

// A parent that names replaced leaves is stale: allowed, and a compactor makes it anew.
static void verify_covers(struct verifying *w)
{
    for (size_t i = 0; i < w->m->block_count; i++) {
        const struct manifest_block *b = &w->m->blocks[i];
        size_t stale = 0;
        for (size_t k = 0; k < b->cover_count; k++)
            for (size_t j = 0; j < b->covers[k].leaf_count; j++)
                stale += !manifest_counts(w->m, b->covers[k].leaves[j]);
        if (stale) tell(w, false, "%.*s sums %zu leaves that were replaced", STR(b->name), stale);
    }
}

static bool is_garbage(const struct manifest *m, str name)
{
    for (size_t i = 0; i < m->garbage_count; i++)
        if (str_eq(m->garbage[i].name, name)) return true;
    return false;
}

static bool see_object(void *arg, str name, uint64_t size, err *e)
{
    struct verifying *w = arg;
    struct manifest_block b = {0};
    bool page = false;
    str rest = str_slice(name, w->prefix.n, name.n);
    (void)e;
    if (str_starts(rest, S("live/"))) {
        struct segment_name s;
        w->v->segments +=
            str_starts(rest, S("live/a/")) && segment_name_parse(str_slice(rest, 7, rest.n), &s);
        return true;
    }
    if (!name_garbage_parse(rest, &b, &page)) {
        tell(w, false, "%.*s: not a name of ours", STR(name));
        return true;
    }
    const struct manifest_block *live = page ? NULL : manifest_find(w->m, b.id);
    bool named = live != NULL;
    for (size_t i = 0; page && i < w->m->page_count; i++) {
        const struct page_ref *p = &w->m->refs_of[i];
        if (!id128_eq(p->id, b.id)) continue;
        if (p->object_bytes != size)
            tell(w, true, "%.*s has %" PRIu64 " bytes, the manifest says %" PRIu64, STR(name), size,
                 p->object_bytes);
        named = true;
    }
    if (named && is_garbage(w->m, rest)) tell(w, true, "%.*s: live, and garbage", STR(name));
    if (live && live->bytes != size)
        tell(w, true, "%.*s has %" PRIu64 " bytes, the manifest says %" PRIu64, STR(name), size,
             live->bytes);
    if (live) w->seen[live - w->m->blocks] = true;
    if (!named && !is_garbage(w->m, rest)) {
        w->v->orphans++;
        tell(w, false, "%.*s: nobody names it", STR(name));
    }
    return true;
}

static bool verify_newest(struct verifying *w, err *e)
{
    w->v->pages = w->m->page_count;
    w->v->blocks = w->m->block_count;
    w->seen = ARENA_ARRAY(&w->arena, bool, w->m->block_count);
    if (!w->seen) return arena_fail(&w->arena, e);
    if (!store_list(w->ms->store, w->r, w->prefix, (str){0}, see_object, w, e)) return false;
    for (size_t i = 0; i < w->m->block_count; i++)
        if (!w->seen[i]) tell(w, true, "%.*s is not there", STR(w->m->blocks[i].name));
    for (size_t i = 0; i < w->m->page_count; i++)
        if (w->m->refs_of[i].kind == BLOCK_RAW) verify_sources(w, w->m->pages[i]);
    verify_covers(w);
    return true;
}

bool manifest_verify(struct manifests *ms, struct req *r, str tenant, struct manifest_verify *v,
                     err *e)
{
    struct verifying w = {.ms = ms, .r = r, .tenant = tenant, .v = v};
    err fault = {0};
    arena_init(&w.arena, ms->memory, SIZE_MAX / 4);
    w.prefix = name_of_tenant(&w.arena, tenant);
    bool ok = arena_ok(&w.arena, e) && verify_chain(&w, e);
    if (ok) w.m = manifest_newest(ms, r, tenant, &fault);
    if (ok) ok = w.m ? verify_newest(&w, e) : pass_over(&w, &fault, e);
    manifest_unref(w.m);
    arena_release(&w.arena);
    return ok;
}
