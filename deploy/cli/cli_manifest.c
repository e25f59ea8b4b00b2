// SPDX-License-Identifier: Apache-2.0
//
// manifest show and manifest verify: the tenants of a store, the objects that their
// manifests name, and whether these exist.
#include "codec/json.h"
#include "deploy/cli/cli_store.h"
#include "deploy/cli/cli_time.h"
#include "manifest/manifest.h"

#include <inttypes.h>

#define OUTPUT_MAX   ((size_t)1 << 30)
#define MEMORY       ((size_t)8 << 30)
#define COLUMN_BYTES 9u  // "1004 B", "1.02 KiB"
#define COLUMN_AGE   8u  // "9.99 min"
#define COLUMN_KIND  4u
#define GAP          2u  // between columns, however long a value is

// ---- the store

struct shown {
    struct cli *c;
    int *status;
    struct store *store;
    struct manifests *ms;
    struct req req;
    struct buf out;
    bool json;
    bool any;  // a tenant was printed
};

static bool shown_open(struct shown *s, struct cli *c, int *status, err *e)
{
    *s = (struct shown){.c = c, .json = cli_wants_json(c)};
    s->status = status;
    req_init(&s->req, RANK_PUBLIC, NULL, MEMORY, 0);
    buf_init(&s->out, NULL, OUTPUT_MAX);
    assert(c->args.operand_count == 1);  // the rows of both commands demand one
    s->store = cli_store_open(c, c->args.operands[0], e);
    s->ms = s->store ? manifests_open(s->store, NULL, NULL, e) : NULL;
    return s->ms != NULL;
}

static void shown_close(struct shown *s)
{
    // In this order: manifests read from the store. After a failed open some of them are NULL.
    manifests_close(s->ms);
    store_close(s->store);
    buf_release(&s->out);
    req_release(&s->req);
}

// The tenant of --tenant, or all tenants of the store.
static bool shown_tenants(struct shown *s, str **v, size_t *n, int *status, err *e)
{
    const char *one = cli_args_get(&s->c->args, OPT_STORE_TENANT);
    if (one) {
        *v = ARENA_NEW(&s->c->arena, str);
        if (!*v) return arena_fail(&s->c->arena, e);
        // Not looked up in the store: a tenant whose manifest is lost should be shown as damaged,
        // not as unknown.
        **v = str_of(one);
        *n = 1;
        return name_tenant_ok(**v) || cli_wrong(status) ||
               err_set(e, ERR_INVALID_ARGUMENT, "--tenant '%s' cannot be the name of a tenant",
                       one);
    }
    if (!tenants_list(s->ms, &s->req, &s->c->arena, v, n, e)) return false;
    if (*n > 0) return true;
    *status = CLI_NO_DATA;
    return err_set(e, ERR_NOT_FOUND, "no tenant has data in %s", s->c->args.operands[0]);
}

// Fails if the tenant of --tenant has no data: its name may be misspelt.
static bool has_data(struct shown *s, bool any, err *e)
{
    const char *one = cli_args_get(&s->c->args, OPT_STORE_TENANT);
    if (any || !one) return true;
    *s->status = CLI_NO_DATA;
    return err_set(e, ERR_NOT_FOUND, "tenant %s has no data in %s", one, s->c->args.operands[0]);
}

// ---- numbers

static void put_bytes(struct buf *b, uint64_t bytes)
{
    char text[TEXT_NUMBER_MAX];
    text_pad(b, GAP);
    text_right(b, text_value(text, (double)bytes, TEXT_BYTES), COLUMN_BYTES);
}

// "1 block", "2 blocks", "0 leaves"
static void put_count(struct buf *b, uint64_t n, const char *one, const char *many)
{
    assert(one && many);
    buf_printf(b, "%" PRIu64 " %s", n, n == 1 ? one : many);
}

static void put_age(struct shown *s, int64_t ns)
{
    char text[TEXT_NUMBER_MAX];
    int64_t age = s->c->now_wall_ns - ns;
    // Below 0 if the clock of the machine that wrote it is ahead of ours.
    text_pad(&s->out, GAP);
    text_right(&s->out, text_value(text, (double)MAX(age, 0), TEXT_NS), COLUMN_AGE);
}

static const char *kind_of(enum block_kind kind)
{
    return kind == BLOCK_RAW ? "raw" : kind == BLOCK_HOURS ? "h" : "d";
}

static void put_titles(struct shown *s, const char *titles)
{
    text_ink(&s->out, s->c->look.colors, INK_DIM);
    buf_z(&s->out, titles);
    text_reset(&s->out, s->c->look.colors);
    buf_byte(&s->out, '\n');
}

// ---- blocks

static void put_block(struct shown *s, const struct manifest *m, const struct manifest_block *b)
{
    char id[ULID_TEXT];
    size_t leaves = 0;
    size_t stale = 0;
    ulid_print(b->id, id);
    for (size_t i = 0; i < b->cover_count; i++) {
        leaves += b->covers[i].leaf_count;
        // A leaf that was compacted again: its sum here is out of date until this block is written
        // anew.
        for (size_t k = 0; k < b->covers[i].leaf_count; k++)
            stale += !manifest_counts(m, b->covers[i].leaves[k]);
    }
    text_left(&s->out, str_of(kind_of(b->kind)), COLUMN_KIND);
    cli_time_put(&s->out, slot_start(b->from_hour, SLOT_HOUR));
    buf_printf(&s->out, "  %5" PRIu32 "  %08" PRIx32 "-%08" PRIx32 "  %10" PRIu64, b->hours,
               b->pack_lo, b->pack_hi, b->rows);
    put_bytes(&s->out, b->bytes);
    put_age(s, b->made_ns);
    buf_printf(&s->out, "  %s  ", id);
    if (b->kind == BLOCK_RAW) {
        buf_z(&s->out, "of ");
        put_count(&s->out, segment_runs_count(b->sources, b->source_count), "segment", "segments");
    } else {
        buf_z(&s->out, "sums ");
        put_count(&s->out, leaves, "leaf", "leaves");
        buf_z(&s->out, " of ");
        put_count(&s->out, b->cover_count, "window", "windows");
    }
    if (stale) buf_printf(&s->out, ", %zu of them replaced", stale);
    if (b->parts > 1) buf_printf(&s->out, ", part %" PRIu32 " of %" PRIu32, b->part + 1, b->parts);
    buf_byte(&s->out, '\n');
}

static void put_blocks(struct shown *s, const struct manifest *m)
{
    size_t n = 0;
    const struct manifest_block *v = manifest_blocks(m, &n);
    if (n)
        put_titles(s, "\nkind from                hours  packs                    rows      "
                      "bytes       age  block");
    for (size_t i = 0; i < n; i++)
        put_block(s, m, &v[i]);
    bool first = true;
    for (enum block_kind kind = BLOCK_RAW; kind <= BLOCK_DAYS; kind++) {
        uint64_t count = 0;
        uint64_t bytes = 0;
        for (size_t i = 0; i < n; i++) {
            count += v[i].kind == kind;
            bytes += v[i].kind == kind ? v[i].bytes : 0;
        }
        if (!count) continue;
        buf_printf(&s->out, "%s%-4s %6" PRIu64 " block%c", first ? "\n" : "", kind_of(kind), count,
                   count == 1 ? ' ' : 's');
        put_bytes(&s->out, bytes);
        buf_byte(&s->out, '\n');
        first = false;
    }
}

static void put_garbage(struct shown *s, const struct manifest *m)
{
    struct manifest_garbage g;
    // Without any there are no titles either.
    if (!manifest_garbage_at(m, 0, &g)) return;
    put_titles(s, "\n      bytes   removed  garbage");
    for (size_t i = 0; manifest_garbage_at(m, i, &g); i++) {
        put_bytes(&s->out, g.bytes);
        put_age(s, g.removed_ns);
        buf_printf(&s->out, "  %.*s\n", STR(g.name));
    }
}

static bool put_version(void *arg, const struct manifest_about *a, err *e)
{
    struct shown *s = arg;
    (void)e;
    if (s->json) {
        buf_printf(&s->out,
                   "%s\n    {\"version\":%" PRIu64 ",\"made_ns\":%" PRId64 ",\"hash\":\"%016" PRIx64
                   "\",\"parent_hash\":\"%016" PRIx64 "\",\"pages\":%zu,\"page_bytes\":%" PRIu64
                   ",\"garbage\":%zu}",
                   s->any ? "," : "", a->version, a->made_ns, a->hash, a->parent_hash, a->pages,
                   a->page_bytes, a->garbage);
        s->any = true;
        return true;
    }
    assert(a);
    buf_printf(&s->out, "%10" PRIu64 "  ", a->version);
    cli_time_put(&s->out, a->made_ns);
    buf_printf(&s->out, "  %016" PRIx64 "  %6zu", a->hash, a->pages);
    put_bytes(&s->out, a->page_bytes);
    buf_printf(&s->out, "  %7zu\n", a->garbage);
    return true;
}

static bool show_text(struct shown *s, const struct manifest *m, const struct snapshot *snap,
                      err *e)
{
    struct manifest_about a;
    uint64_t bytes = 0;
    manifest_tell(m, &a);
    for (size_t i = 0; i < snap->segment_count; i++)
        bytes += snap->segments[i].bytes;
    text_ink(&s->out, s->c->look.colors, INK_STRONG);
    text_put(&s->out, manifest_tenant(m));
    text_reset(&s->out, s->c->look.colors);
    buf_printf(&s->out, ": version %" PRIu64, a.version);
    if (a.version) {
        buf_z(&s->out, " of ");
        cli_time_put(&s->out, a.made_ns);
    }
    buf_z(&s->out, "; ");
    put_count(&s->out, a.blocks, "block", "blocks");
    buf_z(&s->out, ", ");
    put_count(&s->out, a.expired, "expired leaf", "expired leaves");
    buf_z(&s->out, ", ");
    put_count(&s->out, a.pages, "page", "pages");
    buf_z(&s->out, ", ");
    put_count(&s->out, a.garbage, "garbage object\n", "garbage objects\n");
    char text[TEXT_NUMBER_MAX];
    put_count(&s->out, snap->segment_count, "segment waits", "segments wait");
    buf_printf(&s->out, " for compaction, %s\n", text_value(text, (double)bytes, TEXT_BYTES));
    put_blocks(s, m);
    put_garbage(s, m);
    if (!cli_args_has(&s->c->args, OPT_VERSIONS)) return true;
    put_titles(s,
               "\n   version  made                 hash               pages      bytes  garbage");
    return manifest_versions(s->ms, &s->req, manifest_tenant(m), put_version, s, e);
}

// ---- JSON

static void json_block(struct shown *s, const struct manifest_block *b)
{
    char id[ULID_TEXT];
    ulid_print(b->id, id);
    buf_printf(&s->out,
               "{\"kind\":\"%s\",\"id\":\"%s\",\"from_hour\":%" PRId64 ",\"hours\":%" PRIu32
               ",\"pack_lo\":%" PRIu32 ",\"pack_hi\":%" PRIu32 ",\"part\":%" PRIu32
               ",\"parts\":%" PRIu32 ",\"classes\":%" PRIu32 ",\"bytes\":%" PRIu64
               ",\"rows\":%" PRIu64 ",\"first_ns\":%" PRId64 ",\"last_ns\":%" PRId64
               ",\"made_ns\":%" PRId64 ",\"name\":",
               kind_of(b->kind), id, b->from_hour, b->hours, b->pack_lo, b->pack_hi, b->part,
               MAX(b->parts, 1u), b->classes, b->bytes, b->rows, b->first_ns, b->last_ns,
               b->made_ns);
    json_put_string(&s->out, b->name);
    buf_z(&s->out, ",\"sources\":[");
    for (size_t i = 0; i < b->source_count; i++) {
        // A damaged manifest may name billions of cuts; the loop ends when the buffer is full.
        for (uint32_t k = 0; k < b->sources[i].cuts && !s->out.failed; k++) {
            char text[SEGMENT_TEXT];
            const struct segment_name name = segment_run_at(&b->sources[i], k);
            segment_name_print(&name, text);
            buf_printf(&s->out, "%s\"%s\"", i + k ? "," : "", text);
        }
    }
    buf_z(&s->out, "],\"covers\":[");
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        buf_printf(&s->out, "%s{\"hour\":%" PRId64 ",\"hours\":%" PRIu32 ",\"leaves\":[",
                   i ? "," : "", c->hour, c->hours);
        for (size_t k = 0; k < c->leaf_count; k++) {
            ulid_print(c->leaves[k], id);
            buf_printf(&s->out, "%s\"%s\"", k ? "," : "", id);
        }
        buf_z(&s->out, "]}");
    }
    buf_z(&s->out, "]}");
}

static void json_lists(struct shown *s, const struct manifest *m)
{
    struct manifest_page p;
    struct manifest_garbage g;
    size_t n = 0;
    const struct manifest_block *v = manifest_blocks(m, &n);
    buf_z(&s->out, ",\n  \"pages\":[");
    for (size_t i = 0; manifest_page_at(m, i, &p); i++) {
        char id[ULID_TEXT];
        ulid_print(p.id, id);
        buf_printf(&s->out,
                   "%s\n    {\"id\":\"%s\",\"kind\":\"%s\",\"window\":%" PRId64
                   ",\"bytes\":%" PRIu64 ",\"at\":%" PRIu64 ",\"object_bytes\":%" PRIu64
                   ",\"blocks\":%zu}",
                   i ? "," : "", id, kind_of(p.kind), p.window, p.bytes, p.at, p.object_bytes,
                   p.blocks);
    }
    buf_z(&s->out, "],\n  \"blocks\":[");
    for (size_t i = 0; i < n; i++) {
        buf_z(&s->out, i ? ",\n    " : "\n    ");
        json_block(s, &v[i]);
    }
    buf_z(&s->out, "],\n  \"garbage\":[");
    for (size_t i = 0; manifest_garbage_at(m, i, &g); i++) {
        buf_z(&s->out, i ? ",\n    {\"name\":" : "\n    {\"name\":");
        json_put_string(&s->out, g.name);
        buf_printf(&s->out, ",\"bytes\":%" PRIu64 ",\"removed_ns\":%" PRId64 "}", g.bytes,
                   g.removed_ns);
    }
    buf_byte(&s->out, ']');
}

static bool show_json(struct shown *s, const struct manifest *m, const struct snapshot *snap,
                      err *e)
{
    struct manifest_about a;
    manifest_tell(m, &a);
    buf_z(&s->out, "{\"tenant\":");
    json_put_string(&s->out, manifest_tenant(m));
    buf_printf(&s->out,
               ",\n  \"version\":%" PRIu64 ",\"made_ns\":%" PRId64 ",\"hash\":\"%016" PRIx64
               "\",\"parent_hash\":\"%016" PRIx64 "\",\"expired\":%zu",
               a.version, a.made_ns, a.hash, a.parent_hash, a.expired);
    json_lists(s, m);
    buf_z(&s->out, ",\n  \"segments\":[");
    for (size_t i = 0; i < snap->segment_count; i++) {
        char text[SEGMENT_TEXT];
        segment_name_print(&snap->segments[i].name, text);
        buf_printf(&s->out, "%s\n    {\"name\":\"%s\",\"bytes\":%" PRIu64 "}", i ? "," : "", text,
                   snap->segments[i].bytes);
    }
    buf_byte(&s->out, ']');
    bool ok = true;
    if (cli_args_has(&s->c->args, OPT_VERSIONS)) {
        // put_version sets the commas by it.
        s->any = false;
        buf_z(&s->out, ",\n  \"versions\":[");
        ok = manifest_versions(s->ms, &s->req, manifest_tenant(m), put_version, s, e);
        buf_byte(&s->out, ']');
    }
    buf_byte(&s->out, '}');
    return ok;
}

static bool show_tenant(struct shown *s, str tenant, err *e)
{
    assert(s->ms && tenant.n > 0);
    struct snapshot snap;
    if (!snapshot_take(s->ms, &s->req, &s->req.arena, tenant, &snap, e)) return false;
    bool any = manifest_version(snap.manifest) || snap.segment_count > 0;
    bool ok = !has_data(s, any, e) ? false
              : s->json            ? show_json(s, snap.manifest, &snap, e)
                                   : show_text(s, snap.manifest, &snap, e);
    snapshot_release(&snap);
    return ok;
}

bool cli_manifest_show(struct cli *c, int *status, err *e)
{
    struct shown s;
    str *tenants = NULL;
    size_t n = 0;
    if (!cli_width(c, e)) return cli_wrong(status);
    bool ok = shown_open(&s, c, status, e) && shown_tenants(&s, &tenants, &n, status, e);
    if (ok && s.json) buf_byte(&s.out, '[');
    for (size_t i = 0; ok && i < n; i++) {
        if (i) buf_z(&s.out, s.json ? ",\n" : "\n");
        // Written tenant by tenant: a store may have thousands, and memory is that of one.
        ok = show_tenant(&s, tenants[i], e) && cli_write(c, &s.out, e);
    }
    if (ok && s.json) {
        buf_z(&s.out, "]\n");
        ok = cli_write(c, &s.out, e);
    }
    shown_close(&s);
    return ok;
}

// ---- verify

static void report(void *arg, bool is_fault, const char *text)
{
    struct shown *s = arg;
    if (s->json) {
        buf_printf(&s->out, "%s\n    {\"fault\":%s,\"text\":", s->any ? "," : "",
                   is_fault ? "true" : "false");
        json_put_string(&s->out, str_of(text));
        buf_byte(&s->out, '}');
        s->any = true;
        return;
    }
    assert(text);
    text_ink(&s->out, s->c->look.colors, is_fault ? INK_FAULT : INK_DIM);
    buf_z(&s->out, is_fault ? "  wrong: " : "  note: ");
    text_filter(&s->out, str_of(text));
    text_reset(&s->out, s->c->look.colors);
    buf_byte(&s->out, '\n');
}

static bool verify_tenant(struct shown *s, str tenant, uint64_t *faults, err *e)
{
    struct manifest_verify v = {.report = report, .arg = s};
    s->any = false;
    if (s->json) {
        buf_z(&s->out, "{\"tenant\":");
        json_put_string(&s->out, tenant);
        buf_z(&s->out, ",\"found\":[");
    } else {
        text_put(&s->out, tenant);
        buf_byte(&s->out, '\n');
    }
    if (!manifest_verify(s->ms, &s->req, tenant, &v, e) ||
        !has_data(s, v.versions || v.segments || v.orphans || v.faults, e))
        return false;
    *faults += v.faults;
    buf_printf(&s->out,
               s->json ? "],\"versions\":%" PRIu64 ",\"pages\":%" PRIu64 ",\"blocks\":%" PRIu64
                         ",\"segments\":%" PRIu64 ",\"orphans\":%" PRIu64 ",\"faults\":%" PRIu64 "}"
                       : "  %" PRIu64 " versions, %" PRIu64 " pages, %" PRIu64 " blocks, %" PRIu64
                         " segments, %" PRIu64 " that nobody names; %" PRIu64 " wrong\n",
               v.versions, v.pages, v.blocks, v.segments, v.orphans, v.faults);
    return true;
}

bool cli_manifest_verify(struct cli *c, int *status, err *e)
{
    struct shown s;
    str *tenants = NULL;
    size_t n = 0;
    uint64_t faults = 0;
    if (!cli_width(c, e)) return cli_wrong(status);
    bool ok = shown_open(&s, c, status, e) && shown_tenants(&s, &tenants, &n, status, e);
    if (ok && s.json) buf_byte(&s.out, '[');
    for (size_t i = 0; ok && i < n; i++) {
        if (i && s.json) buf_z(&s.out, ",\n");
        ok = verify_tenant(&s, tenants[i], &faults, e) && cli_write(c, &s.out, e);
    }
    if (ok && s.json) {
        buf_z(&s.out, "]\n");
        ok = cli_write(c, &s.out, e);
    }
    // Faults are an error only at the end: all tenants are looked at, and the array is complete.
    shown_close(&s);
    if (!ok || faults == 0) return ok;
    return err_set(e, ERR_DATA_LOSS, "%" PRIu64 " things are wrong", faults);
}
