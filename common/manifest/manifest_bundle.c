// SPDX-License-Identifier: Apache-2.0
//
// Which pages of a version share an object. A reader that knows nothing of a tenant reads all pages
// of its newest version, and each object costs it a request. So a commit writes its pages into one
// object, a *bundle*, and takes along those that lie in small ones:
//
//     objects in order of the bytes of them that are in use
//         1 KB   3 KB   9 KB       60 KB                400 KB
//     a commit of 5 KB takes each that has no more than it has by then
//         5 +1   6 +3   9 +9   18 | 60 KB > 18 KB       stays
//
// What stays is larger than all that is smaller than it together, so there are few objects: as many
// as the bytes of all pages can be halved until BUNDLE_FLOOR is left. A page is written again when
// what it lies with has doubled, so also seldom.
//
// A page that changed leaves bytes behind that nobody needs. An object of which they are more than
// half is taken along as well. An object goes when no page of the version is in it.
#include "base/fault.h"
#include "base/hash.h"
#include "manifest/manifest_commit_int.h"
#include "sys/rand.h"

#include <stdlib.h>

#define BUNDLE_FLOOR ((uint64_t)16 << 10)  // of an object's bytes in use: below that it is small
#define BUNDLE_MAX   ((uint64_t)8 << 20)   // one page may be larger: then it lies alone

// An object of the version, and its pages: rows of refs, from `first` on in the order of objects.
struct object {
    size_t first;
    size_t n;
    uint64_t used;  // bytes of these pages
    uint64_t bytes;
};

static int by_object(const void *a, const void *b)
{
    const struct page_ref *x = *(const struct page_ref *const *)a;
    const struct page_ref *y = *(const struct page_ref *const *)b;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

static int by_use(const void *a, const void *b)
{
    const struct object *x = a;
    const struct object *y = b;
    if (x->used != y->used) return x->used < y->used ? -1 : 1;
    return x->first < y->first ? -1 : 1;
}

static size_t gather_objects(const struct page_ref **v, size_t n, struct object *out)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || by_object(&v[i - 1], &v[i]) != 0)
            out[count++] = (struct object){.first = i, .bytes = v[i]->object_bytes};
        out[count - 1].n++;
        out[count - 1].used += v[i]->bytes;
    }
    return count;
}

bool bundle_choose(struct arena *a, const struct page_ref *refs, size_t n, uint64_t fresh,
                   bool *moves)
{
    const struct page_ref **v = ARENA_ARRAY(a, const struct page_ref *, n);
    struct object *objects = ARENA_ARRAY(a, struct object, n);
    if (!v || !objects) return false;
    memset(moves, 0, n * sizeof *moves);
    for (size_t i = 0; i < n; i++)
        v[i] = &refs[i];
    if (n) qsort(v, n, sizeof *v, by_object);
    size_t count = gather_objects(v, n, objects);
    if (count) qsort(objects, count, sizeof *objects, by_use);
    uint64_t has = fresh;
    for (size_t i = 0; i < count && fresh; i++) {
        const struct object *o = &objects[i];
        bool small = o->used <= MAX(has, BUNDLE_FLOOR);
        bool stale = o->used < o->bytes / 2;
        if ((!small && !stale) || has + o->used > BUNDLE_MAX) continue;
        has += o->used;
        for (size_t k = o->first; k < o->first + o->n; k++)
            moves[v[k] - refs] = true;
    }
    return true;
}

// ---- writing

static id128 new_id(const struct work *w)
{
    uint8_t random[10];
    rand_bytes(random, sizeof random);
    return ulid_make((uint64_t)(MAX(w->now_ns, 0) / NS_PER_MS), random);
}

bool bundle_flush(struct work *w, err *e)
{
    if (w->bundle.n == 0) return true;
    str name = name_page(&w->arena, w->tenant, w->bundle_id);
    FAULT("manifest.page.before");
    bool ok = arena_ok(&w->arena, e) &&
              store_put_unique(w->ms->store, w->r, name, buf_view(&w->bundle), e);
    FAULT("manifest.page.after");
    if (!ok) return err_wrap(e, "manifest page");
    for (size_t i = w->bundle_first; i < w->made_count; i++)
        w->written[i].ref.object_bytes = w->bundle.n;
    w->bundle_first = w->made_count;
    buf_clear(&w->bundle);
    return true;
}

static bool put(struct work *w, str page, struct page_ref *ref, err *e)
{
    assert(page.n);
    if (w->bundle.n && w->bundle.n + page.n > BUNDLE_MAX && !bundle_flush(w, e)) return false;
    if (w->bundle.n == 0) w->bundle_id = new_id(w);
    ref->id = w->bundle_id;
    ref->bytes = page.n;
    ref->hash = hash_str(page);
    ref->at = w->bundle.n;
    ref->object_bytes = 0;
    buf_str(&w->bundle, page);
    return buf_ok(&w->bundle, e);
}

bool bundle_add(struct work *w, const struct page_draft *d, struct written *m, err *e)
{
    struct buf bytes;
    buf_init(&bytes, w->ms->memory, MANIFEST_PAGE_MAX);
    page_print(d, &bytes);
    bool ok = buf_ok(&bytes, e) && put(w, buf_view(&bytes), &m->ref, e);
    if (ok) {
        m->page = page_parse(w->memory, w->tenant, &m->ref, buf_view(&bytes), e);
        ok = m->page != NULL;
    }
    buf_release(&bytes);
    return ok || err_wrap(e, "manifest page");
}

bool bundle_move(struct work *w, const struct page_ref *from, const struct page *page,
                 struct page_ref *to, bool *moved, err *e)
{
    struct buf bytes;
    struct arena a;
    arena_init(&a, w->ms->memory, SIZE_MAX / 4);
    buf_init(&bytes, w->ms->memory, MANIFEST_PAGE_MAX);
    *to = *from;
    page_print_again(&a, page, from, &bytes);
    bool ok = buf_ok(&bytes, e);
    *moved = ok && bytes.n == from->bytes && hash_str(buf_view(&bytes)) == from->hash;
    if (*moved) ok = put(w, buf_view(&bytes), to, e);
    buf_release(&bytes);
    arena_release(&a);
    return ok;
}
