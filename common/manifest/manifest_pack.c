// SPDX-License-Identifier: Apache-2.0
//
// Resting manifests. A manifest that nobody has used for a while is kept as the bytes of its root
// and pages, compressed as one piece. Parents name the leaves of their children again and again, so
// it shrinks to a fifth of what lookups need. The next use makes values of it again, without a
// request to the store.
//
//     known --not used for a minute (manifests_rest)--> packed --used (tenant_known)--> known
//
// The packed form: 8 bytes, the hash of the root in the store; then the root and the pages in the
// order of the root, each with its length before it.
#include "codec/compress.h"
#include "codec/pb.h"
#include "manifest/manifest_int.h"
#include "sys/thread.h"

#include <stdlib.h>

#define LEVEL      3  // of zstd
#define TICKS      4  // the thread looks so often in the time after which a tenant rests,
#define RELIEVE_NS ((uint64_t)NS_PER_S)  // and so often whether others need the memory
#define HASH_SIZE  8

struct packed {
    atomic_uint refs;
    struct mem_budget *memory;
    uint64_t version;
    size_t raw_n;
    size_t n;
    char bytes[];
};

uint64_t packed_version(const struct packed *p)
{
    return p->version;
}

struct packed *packed_hold(struct packed *p)
{
    unsigned before = atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    assert(before > 0);
    return p;
}

void packed_unref(struct packed *p)
{
    if (!p) return;
    unsigned before = atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1) return;
    mem_free(p->memory, p, sizeof *p + p->n);
}

// ---- to bytes

static void put_piece(struct buf *out, str bytes)
{
    pb_put_varint(out, bytes.n);
    buf_str(out, bytes);
}

// The root's hash is taken along: its bytes in the store may be others than ours, because another
// version of the program wrote them, and the next root names the hash of those.
static bool print_all(const struct manifest *m, struct mem_budget *memory, struct buf *out)
{
    struct buf piece;
    buf_init(&piece, memory, MANIFEST_PAGE_MAX);
    buf_put(out, &m->hash, HASH_SIZE);
    root_print(m, &piece);
    put_piece(out, buf_view(&piece));
    bool ok = !piece.failed;
    for (size_t i = 0; i < m->page_count && ok; i++) {
        struct arena a;
        arena_init(&a, memory, SIZE_MAX / 4);  // for one page, so that the peak stays low
        buf_clear(&piece);
        page_print_again(&a, m->pages[i], &m->refs_of[i], &piece);
        ok = !piece.failed;
        put_piece(out, buf_view(&piece));
        arena_release(&a);
    }
    buf_release(&piece);
    return ok && !out->failed;
}

struct packed *manifest_pack(const struct manifest *m, struct mem_budget *scratch, err *e)
{
    struct buf raw;
    struct buf small;
    struct packed *p = NULL;
    buf_init(&raw, scratch, SIZE_MAX / 4);
    buf_init(&small, scratch, SIZE_MAX / 4);
    assert(m->version > 0);
    bool ok = print_all(m, scratch, &raw) || err_set(e, ERR_RESOURCE_EXHAUSTED, "memory");
    if (ok && compress_zstd(buf_view(&raw), LEVEL, &small, e))
        p = mem_alloc(m->arena.budget, sizeof *p + small.n, e);
    if (p) {
        atomic_init(&p->refs, 1);
        p->memory = m->arena.budget;
        p->version = m->version;
        p->raw_n = raw.n;
        p->n = small.n;
        memcpy(p->bytes, small.p, small.n);
    }
    buf_release(&small);
    buf_release(&raw);
    return p;
}

// ---- and back

static bool take_piece(const uint8_t **at, const uint8_t *end, str *out, err *e)
{
    uint64_t n = 0;
    if (!varint_get(at, end, &n) || n > (uint64_t)(end - *at))
        return err_set(e, ERR_DATA_LOSS, "a packed manifest is damaged in memory");
    *out = str_make(*at, (size_t)n);
    *at += n;
    return true;
}

static struct manifest *read_all(struct mem_budget *memory, str tenant, uint64_t version, str raw,
                                 err *e)
{
    const uint8_t *at = (const uint8_t *)raw.p + HASH_SIZE;
    const uint8_t *end = (const uint8_t *)raw.p + raw.n;
    str piece = {0};
    struct manifest *m = NULL;
    bool ok = raw.n >= HASH_SIZE && take_piece(&at, end, &piece, e) &&
              (m = root_parse(memory, tenant, version, piece, e)) != NULL;
    if (ok) memcpy(&m->hash, raw.p, HASH_SIZE);
    for (size_t i = 0; ok && i < m->page_count; i++) {
        ok = take_piece(&at, end, &piece, e) &&
             (m->pages[i] = page_parse(memory, tenant, &m->refs_of[i], piece, e)) != NULL;
    }
    if (ok && manifest_finish(m, e)) return m;
    manifest_unref(m);
    return NULL;
}

struct manifest *manifest_unpack(const struct packed *p, str tenant, struct mem_budget *scratch,
                                 err *e)
{
    char *raw = mem_alloc(scratch, p->raw_n, e);
    struct manifest *m = NULL;
    if (raw && compress_unzstd_to(str_make(p->bytes, p->n), raw, p->raw_n, e))
        m = read_all(p->memory, tenant, p->version, str_make(raw, p->raw_n), e);
    mem_free(scratch, raw, p->raw_n);
    return m;
}

// ---- when

// Of the tenants not used since then, the longest unused one that has values and that nobody uses
// now; it is held as by tenant_ref, without becoming newer. NULL: there is none.
static struct tenant *tired(struct manifests *ms, uint64_t before_mono_ns)
{
    lock_take(&ms->lock);
    struct tenant *t = ms->oldest;
    while (t && t->used_mono_ns <= before_mono_ns && (!t->known || tenant_in_use(t)))
        t = t->newer;
    if (t && t->used_mono_ns > before_mono_ns) t = NULL;
    if (t) t->users++;
    lock_give(&ms->lock);
    return t;
}

// Puts the packed form in the place of the values `m`, unless another thread uses them or learned a
// newer version meanwhile. Takes the caller's references of m and p, and ends the hold of t. The
// two references of m that are expected are the table's and the caller's.
static bool swap(struct manifests *ms, struct tenant *t, struct manifest *m, struct packed *p)
{
    lock_take(&ms->lock);
    assert(t->users > 0);
    bool ok = p && t->known == m && t->users == 1 && atomic_load(&m->refs) == 2;
    if (ok) {
        t->known = NULL;
        t->packed = p;
    }
    t->users--;
    lock_give(&ms->lock);
    manifest_unref(m);
    if (ok)
        manifest_unref(m);
    else
        packed_unref(p);
    return ok;
}

size_t manifests_rest(struct manifests *ms, uint64_t idle_ns)
{
    uint64_t now = clock_mono_ns();
    size_t n = 0;
    for (bool more = now >= idle_ns; more;) {
        struct tenant *t = tired(ms, now - idle_ns);
        if (!t) break;
        err e = {0};
        struct manifest *m = tenant_known(ms, t);
        struct packed *p = m ? manifest_pack(m, ms->memory, &e) : NULL;
        // Where it did not work, the same tenant would be the next one again: so this round ends.
        more = swap(ms, t, m, p);
        n += more;
    }
    if (n) metric_add(&manifest_rests, n);
    return n;
}

// Packs four times in the time after which a tenant rests. In between it looks once a second
// whether others find too little memory: a process that refuses pushes for lack of memory uses no
// manifest, and nobody else would give those up that lie idle.
static void *run_packer(void *arg)
{
    struct manifests *ms = arg;
    uint64_t pack_at = clock_mono_ns() + ms->rest_ns / TICKS;
    lock_take(&ms->lock);
    while (!ms->ending) {
        uint64_t next = MIN(pack_at, clock_mono_ns() + RELIEVE_NS);
        while (!ms->ending && cond_wait_until(&ms->end, &ms->lock, next)) {
        }
        if (ms->ending) break;
        lock_give(&ms->lock);
        manifests_relieve(ms);
        if (clock_mono_ns() >= pack_at) {
            (void)manifests_rest(ms, ms->rest_ns);
            pack_at = clock_mono_ns() + ms->rest_ns / TICKS;
        }
        lock_take(&ms->lock);
    }
    lock_give(&ms->lock);
    return NULL;
}

bool manifests_rest_after(struct manifests *ms, uint64_t idle_ns, err *e)
{
    assert(!ms->rests && !ms->ending);
    ms->rest_ns = idle_ns;
    ms->rests = thread_start(&ms->thread, "manifests", run_packer, ms, e);
    return ms->rests;
}

void manifests_end_rest(struct manifests *ms)
{
    if (!ms->rests) return;
    lock_take(&ms->lock);
    ms->ending = true;
    cond_wake_all(&ms->end);
    lock_give(&ms->lock);
    thread_join(ms->thread);
}
