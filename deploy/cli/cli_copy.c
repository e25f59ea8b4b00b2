// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_copy.h"

#include "deploy/cli/cli_store.h"
#include "sys/clock.h"

#include <inttypes.h>

#define MEMORY   ((size_t)8 << 30)
#define ROOT_MAX ((size_t)64 << 20)
#define PIECE    ((size_t)4 << 20)
#define ROUNDS   1000                              // snapshots of a tenant
#define TIDY_NS  ((uint64_t)24 * 3600 * NS_PER_S)  // no upload of a run takes that long

// ---- life

bool copying_open(struct copying *k, struct cli *c, const char *from, const char *to, err *e)
{
    *k = (struct copying){.c = c};
    req_init(&k->req, RANK_PUBLIC, NULL, MEMORY, 0);
    arena_init(&k->arena, NULL, MEMORY);
    map_init(&k->there, NULL);
    catalog_init(&k->source, &k->arena);
    catalog_init(&k->catalog, &k->arena);
    cli_progress_begin(&k->progress, c);
    k->tenant = cli_args_get(&c->args, OPT_STORE_TENANT);
    if (!cli_pace_read(c, &k->pace, e) || (to && !cli_store_differs(c, from, to, e))) return false;
    k->from = cli_store_open(c, from, e);
    if (!k->from) return false;
    k->manifests = manifests_open(k->from, NULL, NULL, e);
    if (!k->manifests || !catalog_read(&k->source, k->from, &k->req, e)) return false;
    if (!to) return true;
    k->to = cli_store_make(c, to, e);
    return k->to && catalog_read(&k->catalog, k->to, &k->req, e);
}

void copying_release(struct copying *k)
{
    cli_progress_erase(&k->progress);
    for (size_t i = 0; i < k->root_count; i++)
        buf_release(&k->roots[i].bytes);
    manifests_close(k->manifests);
    store_close(k->to);
    store_close(k->from);
    catalog_release(&k->source);
    catalog_release(&k->catalog);
    map_release(&k->there);
    arena_release(&k->arena);
    req_release(&k->req);
}

// ---- what is there already

static bool has_name(const void *ctx, uint32_t row)
{
    const struct copying *k = ((const void *const *)ctx)[0];
    const str *name = ((const void *const *)ctx)[1];
    return str_eq(k->have[row].name, *name);
}

static struct catalog_entry *there(struct copying *k, str name)
{
    const void *key[] = {k, &name};
    uint32_t row = map_find(&k->there, hash_table_str(name), has_name, key);
    return row == MAP_NONE ? NULL : &k->have[row];
}

static bool see_there(void *arg, str name, uint64_t size, err *e)
{
    struct copying *k = arg;
    if (!arena_grow(&k->arena, &k->have, &k->have_cap, k->have_count + 1, sizeof *k->have))
        return arena_fail(&k->arena, e);
    k->have[k->have_count] = (struct catalog_entry){arena_str(&k->arena, name), size, 0, false};
    return arena_ok(&k->arena, e) &&
           map_put(&k->there, hash_table_str(name), (uint32_t)k->have_count++, e);
}

// ---- an object

static bool read_piece(struct copying *k, struct store *s, str name, uint64_t at, size_t n,
                       char *to, err *e)
{
    return store_read(s, &k->req, name, at, n, to, e);
}

static bool crc_of(struct copying *k, struct store *s, str name, uint64_t size, uint32_t *crc,
                   err *e)
{
    char *piece = mem_try(PIECE);
    bool ok = piece || err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for an object");
    *crc = 0;
    for (uint64_t at = 0; ok && at < size; at += PIECE) {
        size_t n = (size_t)MIN(size - at, PIECE);
        ok = read_piece(k, s, name, at, n, piece, e);
        if (ok) *crc = crc32c(*crc, piece, n);
    }
    mem_try_free(piece);
    // Only of the store that is read may an object go meanwhile.
    if (!ok && s == k->to && e->code == ERR_NOT_FOUND) e->code = ERR_UNAVAILABLE;
    return ok;
}

// Copies the bytes, and computes their CRC32C.
static bool stream(struct copying *k, struct store_upload *u, str name, uint64_t size,
                   uint32_t *crc, err *e)
{
    char *piece = mem_try(PIECE);
    bool ok = piece || err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for an object");
    *crc = 0;
    for (uint64_t at = 0; ok && at < size; at += PIECE) {
        size_t n = (size_t)MIN(size - at, PIECE);
        cli_pace_bytes(&k->pace, n);
        ok = read_piece(k, k->from, name, at, n, piece, e);
        if (!ok) break;
        *crc = crc32c(*crc, piece, n);
        ok = store_write(u, str_make(piece, n), e);
    }
    mem_try_free(piece);
    return ok;
}

// Is it what the catalog of the store that is read says, if that is a copy?
static bool check_source(struct copying *k, str name, uint64_t size, uint32_t crc, err *e)
{
    const struct catalog_entry *s = catalog_find(&k->source, name);
    if (!s || (s->size == size && s->crc == crc)) return true;
    return err_set(e, ERR_DATA_LOSS,
                   "%.*s is damaged: %" PRIu64 " bytes with CRC32C %08" PRIx32
                   ", the catalog says %" PRIu64 " and %08" PRIx32,
                   STR(name), size, crc, s->size, s->crc);
}

static bool copy_object(struct copying *k, str name, uint64_t size, uint32_t *crc, err *e)
{
    bool existed = false;
    uint32_t written = 0;
    // In no list when the run began: it is of another run at the same time.
    struct store_upload *u = store_begin(k->to, &k->req, name, size, e);
    if (!u) return false;
    if (!stream(k, u, name, size, crc, e) || !check_source(k, name, size, *crc, e)) {
        store_abandon(u);
        return false;
    }
    if (!store_commit(u, &existed, e)) return false;
    // Read again: a disk or a service that changed bytes is found now.
    if (!crc_of(k, k->to, name, size, &written, e)) return false;
    if (written != *crc)
        return err_set(e, ERR_DATA_LOSS, "%.*s was written, and reads otherwise", STR(name));
    k->copied++;
    k->copied_bytes += size;
    struct catalog_entry *had = there(k, name);  // a damaged one, which was deleted
    if (!had) return see_there(k, name, size, e);
    had->size = size;
    return true;
}

// Is the object that the copy has already the right one? *crc is its sum then.
static bool is_right(struct copying *k, str name, uint64_t size, uint32_t *crc, bool *right, err *e)
{
    const struct catalog_entry *known = catalog_find(&k->catalog, name);
    const struct catalog_entry *source = catalog_find(&k->source, name);
    bool noted = known && known->size == size;
    uint32_t should = noted ? known->crc : source ? source->crc : 0;
    *right = true;
    if (noted && !k->verify_kept) {
        *crc = should;
        return true;
    }
    if (!noted && !source && !crc_of(k, k->from, name, size, &should, e)) return false;
    if (!crc_of(k, k->to, name, size, crc, e)) return false;
    *right = *crc == should;
    if (*right) return true;
    cli_progress_erase(&k->progress);
    cli_say(k->c, "%.*s is damaged in the copy, and is copied again", STR(name));
    k->mended++;
    return true;
}

// The copy is to have this object. *gone: the store that is read has it no longer.
static bool want(struct copying *k, str name, uint64_t size, bool *gone, err *e)
{
    uint32_t crc = 0;
    bool right = false;
    char text[TEXT_NUMBER_MAX];
    struct catalog_entry *have = there(k, name);
    const struct catalog_entry *known = catalog_find(&k->catalog, name);
    if (known && known->wanted) return true;  // by an earlier round
    if (have && have->size == size && !is_right(k, name, size, &crc, &right, e)) {
        *gone = e->code == ERR_NOT_FOUND;
        return false;
    }
    if (have && !right && !store_delete(k->to, &k->req, name, e)) return false;
    if (!right && !copy_object(k, name, size, &crc, e)) {
        // It was deleted while it was read.
        *gone = e->code == ERR_NOT_FOUND;
        return false;
    }
    struct catalog_entry *entry = catalog_put(&k->catalog, name, size, crc, e);
    if (!entry) return false;
    have = there(k, name);  // it may be new, and others may have moved
    assert(have);
    have->wanted = entry->wanted = true;
    cli_progress_draw(&k->progress, -1, "%" PRIu64 " objects copied, %s", k->copied,
                      text_value(text, (double)k->copied_bytes, TEXT_BYTES));
    return true;
}

static bool want_any_size(struct copying *k, str name, bool *gone, err *e)
{
    uint64_t size = 0;
    if (store_size(k->from, &k->req, name, &size, e)) return want(k, name, size, gone, e);
    *gone = e->code == ERR_NOT_FOUND;
    return false;
}

// ---- a tenant

static bool want_snapshot(struct copying *k, str tenant, const struct snapshot *s, bool *gone,
                          err *e)
{
    size_t n = 0;
    struct manifest_page page;
    const struct manifest_block *v = manifest_blocks(s->manifest, &n);
    for (size_t i = 0; manifest_page_at(s->manifest, i, &page); i++) {
        if (!want(k, name_page(&k->arena, tenant, page.id), page.object_bytes, gone, e))
            return false;
    }
    for (size_t i = 0; i < n; i++) {
        // The manifest goes before the catalog does.
        if (!want(k, arena_str(&k->arena, v[i].name), v[i].bytes, gone, e)) return false;
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        str name = name_segment(&k->arena, tenant, &s->segments[i].name);
        if (!want(k, name, s->segments[i].bytes, gone, e)) return false;
    }
    return arena_ok(&k->arena, e);
}

// The root is read before anything is copied: it may be swept once newer ones follow.
static bool take_root(struct copying *k, str tenant, const struct snapshot *s,
                      struct copy_root *out, bool *gone, err *e)
{
    uint64_t version = manifest_version(s->manifest);
    *out = (struct copy_root){.tenant = tenant};
    buf_init(&out->bytes, NULL, ROOT_MAX);
    if (version == 0) return true;
    out->name = name_root(&k->arena, tenant, version);
    bool ok = arena_ok(&k->arena, e) && store_get(k->from, &k->req, out->name, &out->bytes, e);
    *gone = !ok && e->code == ERR_NOT_FOUND;
    return ok;
}

// Another snapshot follows. What it does not name is not wanted any more.
static bool forget_round(struct copying *k, str tenant, err *e)
{
    str prefix = name_of_tenant(&k->arena, tenant);
    if (!arena_ok(&k->arena, e)) return false;
    for (size_t i = 0; i < k->catalog.n; i++)
        if (str_starts(k->catalog.v[i].name, prefix)) k->catalog.v[i].wanted = false;
    for (size_t i = 0; i < k->have_count; i++)
        if (str_starts(k->have[i].name, prefix)) k->have[i].wanted = false;
    return true;
}

static bool copy_tenant(struct copying *k, str tenant, err *e)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct snapshot s = {0};
        struct copy_root root = {0};
        bool gone = false;
        *e = (err){0};
        if (!snapshot_take(k->manifests, &k->req, &k->arena, tenant, &s, e)) return false;
        k->snapshots++;
        bool ok =
            take_root(k, tenant, &s, &root, &gone, e) && want_snapshot(k, tenant, &s, &gone, e);
        snapshot_release(&s);
        if (ok) {
            ok = arena_grow(&k->arena, &k->roots, &k->root_cap, k->root_count + 1,
                            sizeof *k->roots) ||
                 arena_fail(&k->arena, e);
            if (ok) k->roots[k->root_count++] = root;
            if (!ok) buf_release(&root.bytes);
            return ok;
        }
        buf_release(&root.bytes);
        if (!gone || !forget_round(k, tenant, e)) return false;
    }
    return err_wrap(e, "tenant %.*s changes faster than it can be copied", STR(tenant));
}

// ---- the whole

static bool see_small(void *arg, str name, uint64_t size, err *e)
{
    struct copying *k = arg;
    bool gone = false;
    if (want(k, arena_str(&k->arena, name), size, &gone, e)) return true;
    if (!gone) return false;
    *e = (err){0};  // a stream that has ended meanwhile
    return true;
}

// ---- logs

// Logs hold profiles that are in no segment yet. An ingester deletes the objects of a cut from the
// first one on, so they are copied from the last one on: a cut whose first object is in the copy is
// whole there. The rows of the other cuts are in segments, which are copied later. A copy of one
// tenant has no logs, because each log has profiles of all tenants.
static bool copy_logs(struct copying *k, err *e)
{
    struct store_names logs;
    if (k->tenant) return true;
    if (!store_names(k->from, &k->req, name_logs(), &k->arena, &logs, e)) return false;
    for (size_t i = logs.n; i > 0; i--)
        if (!see_small(k, logs.v[i - 1].name, logs.v[i - 1].size, e)) return false;
    return true;
}

// A store is never copied over that of another cluster.
static bool check_cluster(struct copying *k, err *e)
{
    struct buf a;
    struct buf b;
    buf_init(&a, NULL, ROOT_MAX);
    buf_init(&b, NULL, ROOT_MAX);
    bool ok = store_get(k->from, &k->req, name_cluster(), &a, e) ||
              err_wrap(e, "%s is no store of a server", k->c->args.operands[0]);
    if (ok && there(k, name_cluster())) {
        ok = store_get(k->to, &k->req, name_cluster(), &b, e);
        if (ok && !str_eq(buf_view(&a), buf_view(&b)))
            ok = err_set(e, ERR_FAILED_PRECONDITION, "%s is of another cluster",
                         k->c->args.operands[1]);
    }
    buf_release(&a);
    buf_release(&b);
    return ok;
}

// A restore does not undo what was done since: a store that has a version which the copy does not
// have is not empty.
static bool check_empty(struct copying *k, err *e)
{
    for (size_t i = 0; i < k->have_count; i++) {
        str name = k->have[i].name;
        if (!str_contains(name, S("/live/m/")) || catalog_find(&k->source, name)) continue;
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "%s has data that are not of this copy (%.*s): restore into a new place",
                       k->c->args.operands[1], STR(name));
    }
    return true;
}

// A backup deletes what its source does not name. A store of servers has versions and no catalog:
// STORE and COPY may have been swapped. A first backup that was killed has neither.
static bool check_is_copy(struct copying *k, err *e)
{
    if (k->catalog.object.n || cli_args_has(&k->c->args, OPT_ADOPT)) return true;
    for (size_t i = 0; i < k->have_count; i++) {
        if (!str_contains(k->have[i].name, S("/live/m/"))) continue;
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "%s has data and no catalog, so it is a store that servers use, and nothing "
                       "is deleted there; if it is a copy that lost its catalog, give --adopt",
                       k->c->args.operands[1]);
    }
    return true;
}

static bool put_root(struct copying *k, const struct copy_root *r, err *e)
{
    bool existed = false;
    str bytes = buf_view(&r->bytes);
    struct catalog_entry *have = there(k, r->name);
    if (have) {
        uint32_t crc = 0;
        bool right = have->size == bytes.n;
        have->wanted = true;
        if (right && k->verify_kept) {
            if (!crc_of(k, k->to, r->name, bytes.n, &crc, e)) return false;
            right = crc == crc32c(0, bytes.p, bytes.n);
        }
        if (right) return true;
        k->mended++;
        cli_say(k->c, "%.*s is damaged in the copy, and is copied again", STR(r->name));
        if (!store_delete(k->to, &k->req, r->name, e)) return false;
    }
    if (!store_put(k->to, &k->req, r->name, bytes, &existed, e)) return false;
    if (!existed) return true;
    // In no list when the run began.
    uint32_t crc = 0;
    return crc_of(k, k->to, r->name, bytes.n, &crc, e) &&
           (crc == crc32c(0, bytes.p, bytes.n) ||
            err_set(e, ERR_DATA_LOSS, "%.*s is there already, and reads otherwise", STR(r->name)));
}

static bool put_roots(struct copying *k, bool fresh, err *e)
{
    for (size_t i = 0; i < k->root_count; i++) {
        const struct copy_root *r = &k->roots[i];
        if (r->name.n == 0) continue;
        str bytes = buf_view(&r->bytes);
        struct catalog_entry *entry =
            catalog_put(&k->catalog, r->name, bytes.n, crc32c(0, bytes.p, bytes.n), e);
        if (!entry || !check_source(k, r->name, bytes.n, entry->crc, e)) return false;
        entry->wanted = true;
    }
    for (size_t i = 0; i < k->catalog.n; i++) {
        k->objects += k->catalog.v[i].wanted;
        k->bytes += k->catalog.v[i].wanted ? k->catalog.v[i].size : 0;
    }
    // A store that servers work on is no copy any more.
    if (!fresh && !catalog_write(&k->catalog, k->to, &k->req, e)) return false;
    for (size_t i = 0; i < k->root_count; i++) {
        if (k->roots[i].name.n && !put_root(k, &k->roots[i], e)) return false;
    }
    return true;
}

// Older versions first: what they name goes after them. What an upload to a bucket that was killed
// has left goes as well: no compactor works on a copy.
static bool tidy(struct copying *k, err *e)
{
    uint64_t dropped = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < k->have_count; i++) {
            const struct catalog_entry *h = &k->have[i];
            bool root = str_contains(h->name, S("/live/m/"));
            if (h->wanted || !str_starts(h->name, S("v1/")) || root != (pass == 0)) continue;
            // With --tenant the copy keeps what it has of the others.
            str tenant = arena_printf(&k->arena, "/%s/", k->tenant ? k->tenant : "");
            if (k->tenant && !str_contains(h->name, tenant)) continue;
            if (!store_delete(k->to, &k->req, h->name, e)) return false;
            k->deleted++;
        }
    }
    return catalog_tidy(&k->catalog, k->to, &k->req, e) &&
           store_tidy(k->to, &k->req, TIDY_NS, &dropped, e);
}

// With --tenant: entries of other tenants stay in the catalog.
static void keep_others(struct copying *k)
{
    for (size_t i = 0; k->tenant && i < k->catalog.n; i++) {
        str tenant = arena_printf(&k->arena, "/%s/", k->tenant);
        if (!str_contains(k->catalog.v[i].name, tenant)) k->catalog.v[i].wanted = true;
    }
}

bool copying_run(struct copying *k, bool fresh, err *e)
{
    str *tenants = NULL;
    size_t n = 0;
    bool gone = false;
    if (!store_list(k->to, &k->req, S("v1/"), (str){0}, see_there, k, e) || !check_cluster(k, e) ||
        !(fresh ? check_empty(k, e) : check_is_copy(k, e))) {
        return false;
    }
    keep_others(k);
    // The list of streams before the rows: what a stream that is gone then had is among the rows.
    // The note of a tenant after its rows: nobody looks for them before.
    if (!want_any_size(k, name_cluster(), &gone, e) ||
        !store_list(k->from, &k->req, name_streams(), (str){0}, see_small, k, e) ||
        !copy_logs(k, e) || !tenants_list(k->manifests, &k->req, &k->arena, &tenants, &n, e)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (k->tenant && !str_is(tenants[i], k->tenant)) continue;
        if (!copy_tenant(k, tenants[i], e) ||
            !want_any_size(k, name_tenant(&k->arena, tenants[i]), &gone, e)) {
            return false;
        }
    }
    return put_roots(k, fresh, e) && (fresh || tidy(k, e));
}

bool copying_check(struct copying *k, uint64_t *faults, err *e)
{
    if (k->source.object.n == 0)
        return err_set(e, ERR_NOT_FOUND, "%s has no catalog: it is no copy that backup made",
                       k->c->args.operands[0]);
    for (size_t i = 0; i < k->source.n; i++) {
        const struct catalog_entry *s = &k->source.v[i];
        char text[TEXT_NUMBER_MAX];
        uint64_t size = 0;
        uint32_t crc = 0;
        err fault = {0};
        cli_pace_bytes(&k->pace, s->size);
        bool ok = store_size(k->from, &k->req, s->name, &size, &fault) &&
                  crc_of(k, k->from, s->name, size, &crc, &fault) &&
                  check_source(k, s->name, size, crc, &fault);
        k->objects++;
        k->bytes += s->size;
        if (!ok) {
            cli_progress_erase(&k->progress);
            cli_say(k->c, "%s", fault.msg);
            ++*faults;
        }
        cli_progress_draw(&k->progress, (double)(i + 1) / (double)k->source.n,
                          "%" PRIu64 " objects, %s", k->objects,
                          text_value(text, (double)k->bytes, TEXT_BYTES));
    }
    return true;
}
