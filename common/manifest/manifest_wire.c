// SPDX-License-Identifier: Apache-2.0
//
// Roots: bytes to checked values and back; names of blocks; the checks that a block must pass
// whether it comes from the store or from a change.
#include "base/hash.h"
#include "manifest/manifest_wire_int.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

#define WINDOW_DAYS   28
#define HOURS_MAX     (WINDOW_DAYS * DAY_HOURS)
#define SCRATCH_FLOOR ((size_t)1 << 20)

// ---- kinds, windows and names

static const char *kind_folder(enum block_kind kind)
{
    switch (kind) {
    case BLOCK_RAW:
        return "raw";
    case BLOCK_HOURS:
        return "h";
    case BLOCK_DAYS:
        return "d";
    case BLOCK_SEGMENT:
        break;
    }
    return NULL;
}

int64_t manifest_window(enum block_kind kind, int64_t hour)
{
    int64_t day = hour / DAY_HOURS;
    return kind == BLOCK_DAYS ? day / WINDOW_DAYS : day;
}

int manifest_block_cmp(const struct manifest_block *a, const struct manifest_block *b)
{
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->from_hour != b->from_hour) return a->from_hour < b->from_hour ? -1 : 1;
    if (a->pack_lo != b->pack_lo) return a->pack_lo < b->pack_lo ? -1 : 1;
    return memcmp(a->id.b, b->id.b, sizeof a->id.b);
}

str block_name_behind(struct arena *a, str prefix, const struct manifest_block *b)
{
    char id[ULID_TEXT];

    ulid_print(b->id, id);
    return arena_printf(a, "%.*s%s/%016" PRIx64 "-%04" PRIx32 "/%08" PRIx32 "-%s", STR(prefix),
                        kind_folder(b->kind), (uint64_t)b->from_hour, b->hours, b->pack_lo, id);
}

str manifest_block_name(struct arena *a, str tenant, const struct manifest_block *b)
{
    return block_name_behind(a, name_of_tenant(a, tenant), b);
}

bool manifest_block_name_parse(str text, struct manifest_block *b)
{
    static const enum block_kind kinds[] = {BLOCK_RAW, BLOCK_HOURS, BLOCK_DAYS};
    struct manifest_block out = {0};
    str rest = {0};
    str folder = str_split(text, '/', &rest);
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (str_is(folder, kind_folder(kinds[i]))) out.kind = kinds[i];
    uint64_t hour = 0;
    uint64_t hours = 0;
    uint64_t pack = 0;
    if (!out.kind || !name_hex(&rest, 16, &hour) || hour > MANIFEST_HOUR_MAX) return false;
    if (!name_char(&rest, '-') || !name_hex(&rest, 4, &hours) || !name_char(&rest, '/'))
        return false;
    if (!name_hex(&rest, 8, &pack) || !name_char(&rest, '-') || !name_ulid(&rest, &out.id))
        return false;
    out.from_hour = (int64_t)hour;
    out.hours = (uint32_t)hours;
    out.pack_lo = (uint32_t)pack;
    if (rest.n) return false;
    *b = out;
    return true;
}

bool name_garbage_parse(str text, struct manifest_block *b, bool *page)
{
    str rest = str_slice(text, 5, text.n);
    *page = str_starts(text, S("page/"));
    if (!*page) return manifest_block_name_parse(text, b);
    return name_ulid(&rest, &b->id) && rest.n == 0;
}

// ---- checks of values, wherever they come from

static bool check_times(const struct manifest_block *b, err *e)
{
    int64_t from = slot_start(b->from_hour, SLOT_HOUR);
    int64_t to = slot_start(b->from_hour + b->hours, SLOT_HOUR);
    if (b->first_ns > b->last_ns)
        return err_set(e, ERR_DATA_LOSS, "last_ns %" PRId64 " is before first_ns %" PRId64,
                       b->last_ns, b->first_ns);
    bool empty = b->first_ns == 0 && b->last_ns == 0;
    if (!empty && (b->first_ns <= from || b->last_ns > to)) {
        return err_set(e, ERR_DATA_LOSS,
                       "first_ns %" PRId64 " to last_ns %" PRId64 " are not within (%" PRId64
                       ", %" PRId64 "]",
                       b->first_ns, b->last_ns, from, to);
    }
    return true;
}

static bool check_range(const struct manifest_block *b, err *e)
{
    if (b->from_hour < 0 || b->from_hour > MANIFEST_HOUR_MAX)
        return err_set(e, ERR_DATA_LOSS, "from_hour is %" PRId64 ", allowed 0 to %" PRId64,
                       b->from_hour, MANIFEST_HOUR_MAX);
    if (b->hours < 1 || b->hours > HOURS_MAX)
        return err_set(e, ERR_DATA_LOSS, "hours is %" PRIu32 ", allowed 1 to %d", b->hours,
                       HOURS_MAX);
    int64_t last = b->from_hour + b->hours - 1;
    if (manifest_window(b->kind, b->from_hour) != manifest_window(b->kind, last)) {
        return err_set(e, ERR_DATA_LOSS,
                       "hours %" PRIu32 " from_hour %" PRId64 " reach into another window",
                       b->hours, b->from_hour);
    }
    if (b->pack_lo > b->pack_hi)
        return err_set(e, ERR_DATA_LOSS, "pack_lo %08" PRIx32 " is above pack_hi %08" PRIx32,
                       b->pack_lo, b->pack_hi);
    if (b->parts > BLOCK_PARTS_MAX || b->part >= MAX(b->parts, 1u))
        return err_set(e, ERR_DATA_LOSS, "part is %" PRIu32 " of parts %" PRIu32, b->part,
                       b->parts);
    return true;
}

static bool check_cover(const struct manifest_block *b, size_t i, err *e)
{
    const struct manifest_cover *c = &b->covers[i];
    int64_t from = i ? c[-1].hour + c[-1].hours : b->from_hour;
    int64_t to = b->from_hour + b->hours;
    if (c->hours < 1 || c->hours > HOURS_MAX || c->hour < from || c->hour > to - c->hours) {
        return err_set(e, ERR_DATA_LOSS,
                       "cover %zu: hour %" PRId64 " and hours %" PRIu32 " are not within %" PRId64
                       " to %" PRId64,
                       i, c->hour, c->hours, from, to);
    }
    for (size_t k = 1; k < c->leaf_count; k++) {
        if (memcmp(c->leaves[k - 1].b, c->leaves[k].b, sizeof c->leaves[k].b) >= 0)
            return err_set(e, ERR_DATA_LOSS, "cover %zu: leaves are not in order at %zu", i, k);
    }
    return true;
}

bool sources_check(const struct segment_run *v, size_t n, int64_t from, int64_t to, err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].hour < from || v[i].hour >= to) {
            return err_set(e, ERR_DATA_LOSS,
                           "source %zu: hour %" PRId64 " is not within %" PRId64 " to %" PRId64, i,
                           v[i].hour, from, to);
        }
        if (!segment_run_ok(&v[i]))
            return err_set(e, ERR_DATA_LOSS, "source %zu: %" PRIu32 " cuts from %" PRIu64 " on", i,
                           v[i].cuts, v[i].cut);
        if (i && !segment_run_follows(&v[i - 1], &v[i]))
            return err_set(e, ERR_DATA_LOSS, "sources are not in order at %zu", i);
    }
    return true;
}

bool manifest_block_check(const struct manifest_block *b, err *e)
{
    if (!kind_folder(b->kind)) return err_set(e, ERR_DATA_LOSS, "kind is %d", (int)b->kind);
    if (!check_range(b, e) || !check_times(b, e)) return false;
    if ((b->classes == 0 && (b->kind == BLOCK_RAW || b->rows)) || b->classes >> BLOCK_CLASSES)
        return err_set(e, ERR_DATA_LOSS, "classes is %" PRIx32, b->classes);
    if (b->spared && (b->classes || b->kind != BLOCK_HOURS))
        return err_set(e, ERR_DATA_LOSS, "spared is 1, kind %d, classes %" PRIx32, (int)b->kind,
                       b->classes);
    if (b->bytes == 0 || b->bytes > INT64_MAX)
        return err_set(e, ERR_DATA_LOSS, "bytes is %" PRIu64, b->bytes);
    if (b->kind == BLOCK_RAW && b->cover_count)
        return err_set(e, ERR_DATA_LOSS, "covers: a leaf has %" PRIu32, b->cover_count);
    if (b->kind != BLOCK_RAW && b->source_count)
        return err_set(e, ERR_DATA_LOSS, "sources: a parent has %" PRIu32, b->source_count);
    for (size_t i = 0; i < b->cover_count; i++)
        if (!check_cover(b, i, e)) return false;
    return sources_check(b->sources, b->source_count, b->from_hour, b->from_hour + b->hours, e);
}

// ---- reading: values of messages

bool message_id(ProtobufCBinaryData d, const char *what, id128 *id, err *e)
{
    if (d.len != sizeof id->b)
        return err_set(e, ERR_DATA_LOSS, "%s has %zu bytes, not 16", what, d.len);
    memcpy(id->b, d.data, sizeof id->b);
    return true;
}

bool message_format(uint32_t format, uint32_t newest, err *e)
{
    if (format >= 1 && format <= newest) return true;
    return err_set(e, ERR_FAILED_PRECONDITION,
                   "format is %" PRIu32 ", this program knows 1 to %" PRIu32
                   "; a newer one wrote it",
                   format, newest);
}

ProtobufCMessage *message_unpack(struct arena *scratch, const ProtobufCMessageDescriptor *desc,
                                 str bytes, err *e)
{
    ProtobufCMessage *m = pb_unpack(scratch, desc, bytes, e);
    if (!m && e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
    return m;
}

// Unpacked messages are larger than their bytes by a bounded factor: an empty message of two bytes
// takes a pointer, a struct and what malloc adds. The bound keeps a damaged object from taking
// more.
size_t message_scratch(str bytes)
{
    return SCRATCH_FLOOR + bytes.n * 512;
}

size_t message_room(size_t n)
{
    const size_t align = alignof(max_align_t);
    return (MAX(n, 1) + align - 1) & ~(align - 1);
}

// ---- reading: roots

static bool read_refs(struct manifest *m, const Flametree__V1__Root *from, err *e)
{
    m->refs_of = ARENA_ARRAY(&m->arena, struct page_ref, from->n_pages);
    m->pages = ARENA_ARRAY(&m->arena, struct page *, from->n_pages);
    if (!m->refs_of || !m->pages) return arena_fail(&m->arena, e);
    for (size_t i = 0; i < from->n_pages; i++) {
        const Flametree__V1__PageRef *p = from->pages[i];
        struct page_ref *to = &m->refs_of[i];
        *to = (struct page_ref){
            .kind = (enum block_kind)p->kind,
            .window = p->window,
            .bytes = p->bytes,
            .hash = p->hash,
            .at = p->at,
            .object_bytes = p->object_bytes ? p->object_bytes : p->bytes,
        };
        if (!message_id(p->id, "id", &to->id, e)) return err_wrap(e, "page %zu", i);
        if (!kind_folder(to->kind))
            return err_set(e, ERR_DATA_LOSS, "page %zu: kind is %" PRIu32, i, p->kind);
        if (to->window < 0 || to->window > manifest_window(to->kind, MANIFEST_HOUR_MAX))
            return err_set(e, ERR_DATA_LOSS, "page %zu: window is %" PRId64, i, p->window);
        if (to->bytes == 0 || to->bytes > MANIFEST_PAGE_MAX) {
            return err_set(e, ERR_DATA_LOSS,
                           "page %zu: bytes is %" PRIu64 ", allowed 1 to %" PRIu64, i, to->bytes,
                           MANIFEST_PAGE_MAX);
        }
        if (to->object_bytes > MANIFEST_PAGE_MAX || to->bytes > to->object_bytes ||
            to->at > to->object_bytes - to->bytes) {
            return err_set(e, ERR_DATA_LOSS,
                           "page %zu: %" PRIu64 " bytes at %" PRIu64 " are not within the %" PRIu64
                           " of its object",
                           i, to->bytes, to->at, to->object_bytes);
        }
        if (i &&
            (to[-1].kind > to->kind || (to[-1].kind == to->kind && to[-1].window >= to->window)))
            return err_set(e, ERR_DATA_LOSS, "pages are not in order at %zu", i);
    }
    m->page_count = from->n_pages;
    return true;
}

static bool read_garbage(struct manifest *m, const Flametree__V1__Root *from, err *e)
{
    m->garbage = ARENA_ARRAY(&m->arena, struct garbage, from->n_garbage);
    if (!m->garbage) return arena_fail(&m->arena, e);
    for (size_t i = 0; i < from->n_garbage; i++) {
        const Flametree__V1__Garbage *g = from->garbage[i];
        struct manifest_block block = {0};
        bool page = false;
        str name = pb_text(g->name);
        if (!name_garbage_parse(name, &block, &page))
            return err_set(e, ERR_DATA_LOSS, "garbage %zu: name is '%.*s'", i,
                           STR(str_slice(name, 0, 200)));
        m->garbage[i] = (struct garbage){arena_str(&m->arena, name), g->bytes, g->removed_ns};
    }
    m->garbage_count = from->n_garbage;
    return arena_ok(&m->arena, e);
}

static bool read_tombstones(struct manifest *m, Flametree__V1__Tombstone *const *from, size_t count,
                            str **out, err *e)
{
    *out = ARENA_ARRAY(&m->arena, str, count);
    if (!*out) return arena_fail(&m->arena, e);
    for (size_t i = 0; i < count; i++) {
        size_t n = flametree__v1__tombstone__get_packed_size(from[i]);
        // As bytes: those of a newer program are handed on as they are.
        uint8_t *bytes = arena_new(&m->arena, n);
        if (!bytes) return arena_fail(&m->arena, e);
        (*out)[i] = str_make(bytes, flametree__v1__tombstone__pack(from[i], bytes));
    }
    return true;
}

static bool read_deletions(struct manifest *m, const Flametree__V1__Root *from, err *e)
{
    m->tombstone_count = from->n_tombstones;
    m->ended_count = from->n_ended;
    return read_tombstones(m, from->tombstones, from->n_tombstones, &m->tombstones, e) &&
           read_tombstones(m, from->ended, from->n_ended, &m->ended, e);
}

#define CHECK_FIELD 10
#define CHECK_BYTES 9  // with its tag

// A page's hash stands in its root, a root's hash in the next one. No object has the hash of the
// newest root, so a root ends with a hash of the bytes before it.
static bool check_root(const Flametree__V1__Root *from, str bytes, err *e)
{
    if (from->check == 0) return true;  // earlier versions of the program wrote none
    uint64_t hash = hash_str(str_slice(bytes, 0, bytes.n - MIN(bytes.n, CHECK_BYTES)));
    if (hash == from->check) return true;
    return err_set(e, ERR_DATA_LOSS, "check is %016" PRIx64 ", its bytes give %016" PRIx64,
                   from->check, hash);
}

static size_t tombstones_room(Flametree__V1__Tombstone *const *v, size_t n)
{
    size_t room = message_room(n * sizeof(str));
    for (size_t i = 0; i < n; i++)
        room += message_room(flametree__v1__tombstone__get_packed_size(v[i]));
    return room;
}

static size_t root_room(const Flametree__V1__Root *from)
{
    size_t room = message_room(from->n_pages * sizeof(struct page_ref)) +
                  message_room(from->n_pages * sizeof(struct page *)) +
                  message_room(from->n_garbage * sizeof(struct garbage)) +
                  tombstones_room(from->tombstones, from->n_tombstones) +
                  tombstones_room(from->ended, from->n_ended);
    for (size_t i = 0; i < from->n_garbage; i++)
        room += message_room(pb_text(from->garbage[i]->name).n + 1);
    return room;
}

static bool fill_root(struct manifest *m, struct arena *scratch, str bytes, err *e)
{
    const Flametree__V1__Root *from =
        (const Flametree__V1__Root *)message_unpack(scratch, &flametree__v1__root__descriptor,
                                                    bytes, e);
    if (!from || !message_format(from->format, ROOT_FORMAT, e)) return false;
    if (!str_eq(pb_text(from->tenant), m->tenant))
        return err_set(e, ERR_DATA_LOSS, "tenant is '%.*s'",
                       STR(str_slice(pb_text(from->tenant), 0, NAME_TENANT_MAX)));
    if (from->version != m->version)
        return err_set(e, ERR_DATA_LOSS, "version is %" PRIu64, from->version);
    if (!message_id(from->nonce, "nonce", &m->nonce, e)) return false;
    m->parent_hash = from->parent_hash;
    m->made_ns = from->made_ns;
    if (m->version == 1 && m->parent_hash)
        return err_set(e, ERR_DATA_LOSS, "parent_hash of version 1 is %016" PRIx64, m->parent_hash);
    if (!arena_spare(&m->arena, root_room(from))) return arena_fail(&m->arena, e);
    arena_use_spare(&m->arena);
    return read_refs(m, from, e) && read_garbage(m, from, e) && read_deletions(m, from, e) &&
           check_root(from, bytes, e);
}

struct manifest *root_parse(struct mem_budget *memory, str tenant, uint64_t version, str bytes,
                            err *e)
{
    struct manifest *m = mem_alloc(memory, sizeof *m, e);
    if (!m) return NULL;
    struct arena scratch;
    arena_init(&scratch, memory, message_scratch(bytes));
    arena_init(&m->arena, memory, SIZE_MAX / 4);
    map_init(&m->ids, memory);
    atomic_init(&m->refs, 1);
    m->tenant = arena_str(&m->arena, tenant);
    m->version = version;
    m->hash = hash_str(bytes);
    bool ok = arena_ok(&m->arena, e) && fill_root(m, &scratch, bytes, e);
    arena_release(&scratch);
    if (ok) return m;
    manifest_unref(m);
    err_wrap(e, "manifest version %" PRIu64 " of tenant %.*s", version, STR(tenant));
    return NULL;
}

// ---- writing

str id_bytes(const id128 *id)
{
    return str_make(id->b, sizeof id->b);
}

static bool is_alone(const struct page_ref *p)
{
    return p->object_bytes == p->bytes;
}

// The lowest that is enough: programs that know no higher one read it too. One that does not know
// of deletions that ended would lose them with its next commit.
static uint64_t format_of(const struct manifest *m)
{
    if (m->ended_count) return ROOT_FORMAT;
    for (size_t i = 0; i < m->page_count; i++)
        if (!is_alone(&m->refs_of[i])) return 2;
    return 1;
}

void root_print(const struct manifest *m, struct buf *out)
{
    const size_t begin = out->n;
    assert(m->version > 0);  // version 0 is that of no root
    pb_put_u64_opt(out, 1, format_of(m));
    pb_put_bytes_opt(out, 2, m->tenant);
    pb_put_u64_opt(out, 3, m->version);
    pb_put_fixed64_opt(out, 4, m->parent_hash);
    pb_put_bytes(out, 5, id_bytes(&m->nonce));
    pb_put_fixed64_opt(out, 6, (uint64_t)m->made_ns);
    for (size_t i = 0; i < m->page_count; i++) {
        const struct page_ref *p = &m->refs_of[i];
        size_t mark = pb_begin(out, 7);
        pb_put_bytes(out, 1, id_bytes(&p->id));
        pb_put_u64_opt(out, 2, p->kind);
        pb_put_i64_opt(out, 3, p->window);
        pb_put_u64_opt(out, 4, p->bytes);
        pb_put_fixed64_opt(out, 5, p->hash);
        pb_put_u64_opt(out, 6, p->at);
        pb_put_u64_opt(out, 7, is_alone(p) ? 0 : p->object_bytes);
        pb_end(out, mark);
    }
    for (size_t i = 0; i < m->garbage_count; i++) {
        const struct garbage *g = &m->garbage[i];
        size_t mark = pb_begin(out, 8);
        pb_put_bytes_opt(out, 1, g->name);
        pb_put_u64_opt(out, 2, g->bytes);
        pb_put_fixed64_opt(out, 3, (uint64_t)g->removed_ns);
        pb_end(out, mark);
    }
    for (size_t i = 0; i < m->tombstone_count; i++)
        pb_put_bytes(out, 9, m->tombstones[i]);
    for (size_t i = 0; i < m->ended_count; i++)
        pb_put_bytes(out, 11, m->ended[i]);
    // Last, so that it is a hash of all bytes before it (check_root).
    str bytes = buf_view(out);
    pb_put_fixed64_opt(out, CHECK_FIELD, hash_str(str_slice(bytes, begin, bytes.n)));
}
