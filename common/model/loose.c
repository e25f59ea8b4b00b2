// SPDX-License-Identifier: Apache-2.0
//
// loose.c - the set of loose rows, found by hash; its bytes are the keys one after the other.
#include "model/loose.h"

#include "base/hash.h"

void loose_init(struct loose_set *s, struct arena *a, struct mem_budget *budget, size_t most)
{
    *s = (struct loose_set){.arena = a, .most = MIN(most, (size_t)MAP_NONE - 1)};
    map_init(&s->index, budget);
}

void loose_release(struct loose_set *s)
{
    map_release(&s->index);
    *s = (struct loose_set){0};
}

static uint64_t hash_of(struct loose_key key)
{
    return hash_table_and(hash_table_bytes(key.id.b, sizeof key.id.b), key.series);
}

struct probe {
    const struct loose_set *set;
    struct loose_key key;
};

static bool same(const void *ctx, uint32_t row)
{
    const struct probe *p = ctx;
    const struct loose_key *have = &p->set->v[row].key;
    return have->series == p->key.series && id128_eq(have->id, p->key.id);
}

static uint32_t row_of(const struct loose_set *s, struct loose_key key)
{
    return map_find(&s->index, hash_of(key), same, &(struct probe){s, key});
}

const struct loose_row *loose_find(const struct loose_set *s, struct loose_key key)
{
    uint32_t row = row_of(s, key);
    return row == MAP_NONE ? NULL : &s->v[row];
}

bool loose_add(struct loose_set *s, struct loose_key key, uint32_t keeper, err *e)
{
    assert(s->arena);
    if (row_of(s, key) != MAP_NONE) return true;
    if (s->n >= s->most) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "more than %zu rows of the range may be in two ingesters", s->most);
    }
    if (!arena_grow(s->arena, &s->v, &s->cap, (size_t)s->n + 1, sizeof *s->v)) {
        return arena_fail(s->arena, e);
    }
    if (!map_put(&s->index, hash_of(key), s->n, e)) return false;
    s->v[s->n++] = (struct loose_row){key, keeper};
    return true;
}

void loose_note(struct loose_set *s, struct loose_key key)
{
    if (s->fault.code != ERR_OK) return;
    err e = {0};
    if (!loose_add(s, key, 0, &e)) s->fault = e;
}

void loose_encode(const struct loose_set *s, uint32_t keeper, struct buf *out)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct loose_row *r = &s->v[i];
        if (r->keeper != keeper) continue;
        for (unsigned k = 0; k < 8; k++)
            buf_byte(out, (unsigned char)(r->key.series >> (8 * k)));
        buf_str(out, str_make(r->key.id.b, sizeof r->key.id.b));
    }
}

bool loose_decode(struct loose_set *s, str bytes, uint32_t keeper, err *e)
{
    if (bytes.n % LOOSE_KEY_BYTES) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "keys of loose rows have %zu bytes, not a multiple of %d", bytes.n,
                       LOOSE_KEY_BYTES);
    }
    for (size_t at = 0; at < bytes.n; at += LOOSE_KEY_BYTES) {
        const uint8_t *p = (const uint8_t *)bytes.p + at;
        struct loose_key key = {0};
        for (unsigned k = 0; k < 8; k++)
            key.series |= (uint64_t)p[k] << (8 * k);
        memcpy(key.id.b, p + 8, sizeof key.id.b);
        if (!loose_add(s, key, keeper, e)) return false;
    }
    return true;
}
