// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_catalog.h"

#include "base/ulid.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <inttypes.h>
#include <stdlib.h>

#define HEAD        S("flametree backup 1\n")
#define CATALOG_MAX ((size_t)4 << 30)
#define CRC_DIGITS  8

void catalog_init(struct catalog *c, struct arena *a)
{
    *c = (struct catalog){.arena = a};
    map_init(&c->by_name, NULL);
}

void catalog_release(struct catalog *c)
{
    map_release(&c->by_name);
}

struct wanted_name {
    const struct catalog *c;
    str name;
};

static bool has_name(const void *ctx, uint32_t row)
{
    const struct wanted_name *w = ctx;
    return str_eq(w->c->v[row].name, w->name);
}

struct catalog_entry *catalog_find(struct catalog *c, str name)
{
    const struct wanted_name w = {c, name};
    uint32_t row = map_find(&c->by_name, hash_table_str(name), has_name, &w);
    return row == MAP_NONE ? NULL : &c->v[row];
}

struct catalog_entry *catalog_put(struct catalog *c, str name, uint64_t size, uint32_t crc, err *e)
{
    struct catalog_entry *at = catalog_find(c, name);
    if (!at) {
        if (str_find(name, '\n') < name.n) {
            err_set(e, ERR_INVALID_ARGUMENT, "an object's name has a line end: %.*s", STR(name));
            return NULL;
        }
        if (!arena_grow(c->arena, &c->v, &c->cap, c->n + 1, sizeof *c->v)) {
            (void)arena_fail(c->arena, e);
            return NULL;
        }
        at = &c->v[c->n];
        *at = (struct catalog_entry){.name = arena_str(c->arena, name)};
        if (!arena_ok(c->arena, e) ||
            !map_put(&c->by_name, hash_table_str(name), (uint32_t)c->n, e)) {
            return NULL;
        }
        c->n++;
    }
    at->size = size;
    at->crc = crc;
    return at;
}

// ---- reading

static bool see(void *arg, str name, uint64_t size, err *e)
{
    struct catalog *c = arg;
    (void)size;
    c->object = arena_str(c->arena, name);  // the last of them stays
    return arena_ok(c->arena, e);
}

static bool parse_crc(str hex, uint32_t *crc)
{
    uint8_t raw[CRC_DIGITS / 2];
    if (!hex_parse(hex, raw, sizeof raw)) return false;
    *crc = (uint32_t)raw[0] << 24 | (uint32_t)raw[1] << 16 | (uint32_t)raw[2] << 8 | raw[3];
    return true;
}

static bool parse_line(struct catalog *c, str line, bool *ok, err *e)
{
    uint32_t crc = 0;
    uint64_t size = 0;
    str rest = {0};
    str hex = str_split(line, ' ', &rest);
    str number = str_split(rest, ' ', &rest);
    *ok = parse_crc(hex, &crc) && str_u64(number, &size) && rest.n > 0;
    return !*ok || catalog_put(c, rest, size, crc, e);
}

bool catalog_parse(struct catalog *c, str all, err *e)
{
    bool ok = str_starts(all, HEAD);
    bool ended = false;
    str rest = ok ? str_slice(all, HEAD.n, all.n) : (str){0};
    while (ok && rest.n) {
        str before = str_make(all.p, (size_t)(rest.p - all.p));
        str line = str_split(rest, '\n', &rest);
        if (str_starts(line, S("end "))) {
            uint32_t crc = 0;
            ended = parse_crc(str_slice(line, 4, line.n), &crc) && rest.n == 0 &&
                    crc == crc32c(0, before.p, before.n);
            ok = ended;
        } else if (!parse_line(c, line, &ok, e)) {
            return false;
        }
    }
    if (ok && ended) return true;
    return err_set(
        e, ERR_DATA_LOSS,
        "the copy's catalog %.*s is damaged; without it the next backup reads all objects again",
        STR(c->object));
}

bool catalog_read(struct catalog *c, struct store *s, struct req *r, err *e)
{
    struct buf b;
    if (!store_list(s, r, CATALOG_PREFIX, (str){0}, see, c, e)) return false;
    if (c->object.n == 0) return true;
    buf_init(&b, NULL, CATALOG_MAX);
    bool ok = store_get(s, r, c->object, &b, e) && catalog_parse(c, buf_view(&b), e);
    buf_release(&b);
    return ok;
}

// ---- writing

static int by_name(const void *a, const void *b)
{
    const struct catalog_entry *x = *(const struct catalog_entry *const *)a;
    const struct catalog_entry *y = *(const struct catalog_entry *const *)b;
    return str_cmp(x->name, y->name);
}

void catalog_seal(struct buf *lines)
{
    if (lines->failed) return;
    buf_printf(lines, "end %08" PRIx32 "\n", crc32c(0, lines->p, lines->n));
}

bool catalog_print(const struct catalog *c, struct buf *b, err *e)
{
    const struct catalog_entry **v = ARENA_ARRAY(c->arena, const struct catalog_entry *, c->n + 1);
    size_t n = 0;
    if (!v) return arena_fail(c->arena, e);
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].wanted) v[n++] = &c->v[i];
    if (n) qsort(v, n, sizeof *v, by_name);
    buf_str(b, HEAD);
    for (size_t i = 0; i < n; i++) {
        buf_printf(b, "%08" PRIx32 " %" PRIu64 " ", v[i]->crc, v[i]->size);
        buf_str(b, v[i]->name);  // whole, whatever bytes it has
        buf_byte(b, '\n');
    }
    catalog_seal(b);
    return buf_ok(b, e);
}

bool catalog_write(struct catalog *c, struct store *s, struct req *r, err *e)
{
    struct buf b;
    uint8_t random[10];
    char id[ULID_TEXT];
    bool existed = false;
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random), id);
    str name = arena_printf(c->arena, "%.*s%s", STR(CATALOG_PREFIX), id);
    // A copy that was made by a machine whose clock is ahead: the new one must be the newest.
    if (c->object.n && str_cmp(name, c->object) <= 0)
        name = arena_printf(c->arena, "%.*s~", STR(c->object));
    buf_init(&b, NULL, CATALOG_MAX);
    bool ok = arena_ok(c->arena, e) && catalog_print(c, &b, e) &&
              store_put(s, r, name, buf_view(&b), &existed, e);
    buf_release(&b);
    if (ok) c->object = name;
    return ok;
}

bool catalog_tidy(struct catalog *c, struct store *s, struct req *r, err *e)
{
    struct store_names old;
    if (!store_names(s, r, CATALOG_PREFIX, c->arena, &old, e)) return false;
    for (size_t i = 0; i < old.n; i++) {
        if (str_eq(old.v[i].name, c->object)) continue;
        if (!store_delete(s, r, old.v[i].name, e)) return false;
    }
    return true;
}
