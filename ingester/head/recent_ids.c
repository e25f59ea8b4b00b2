// SPDX-License-Identifier: Apache-2.0
//
// recent_ids.c - the generations of recent ids in memory. recent_ids.h tells of them.
#include "ingester/head/recent_ids.h"

#include "base/fault.h"
#include "base/hash.h"
#include "base/map.h"
#include "sys/clock.h"

#include <stdlib.h>

#define SIZE_MIN ((size_t)256)

// Slots that are moved with each id that is added: the smaller table is done long before the larger
// one is full. And slots that are moved under one hold of the lock when room is needed at once.
#define MOVED_A_KEY   4
#define MOVED_AT_ONCE 1024

// Tenant and series are one hash. The id holds a hash of 74 bits besides, so two rows are not taken
// for one another.
struct recent_slot {
    uint64_t series;
    id128 id;
    bool used;
    bool saved;
    uint16_t group;
    uint16_t minute;  // when it was added, by the monotonic clock
};
static_assert(sizeof(struct recent_slot) == 32, "the group of a tenant takes no room");

#define GROUP_UNKNOWN RECENT_GROUPS

static uint16_t group_of(uint64_t tenant_hash)
{
    return (uint16_t)(tenant_hash >> 32 & (RECENT_GROUPS - 1));
}

static uint16_t minute_now(void)
{
    return (uint16_t)(clock_mono_ns() / (60 * (uint64_t)NS_PER_S));
}

// The clock of minutes goes round in 45 days; slots go sooner.
static bool is_late(const struct recent_slot *slot, uint16_t minute)
{
    return (uint16_t)(minute - slot->minute) > RECENT_IDS_NS / (60 * (uint64_t)NS_PER_S) + 1;
}

void recent_ids_init(struct recent_ids *p, struct mem_budget *budget)
{
    *p = (struct recent_ids){.budget = budget};
    pthread_rwlock_init(&p->lock, NULL);
}

static void forget(struct recent_ids *p, struct recent_generation *s)
{
    mem_free(p->budget, s->slots, s->size * sizeof *s->slots);
    mem_free(p->budget, s->from, s->from_size * sizeof *s->from);
    *s = (struct recent_generation){0};
}

static void faint_free(struct recent_ids *p, struct recent_faint *f)
{
    mem_free(p->budget, f->words, f->blocks * RECENT_BLOCK * sizeof *f->words);
    *f = (struct recent_faint){0};
}

void recent_ids_release(struct recent_ids *p)
{
    forget(p, &p->young);
    forget(p, &p->old);
    for (size_t i = 0; i < p->faint_count; i++)
        faint_free(p, &p->faint[i]);
    p->faint_count = 0;
    pthread_rwlock_destroy(&p->lock);
}

static struct recent_moment now(void)
{
    return (struct recent_moment){clock_mono_ns(), clock_wall_ns()};
}

// Do ids that were added until then still matter?
static bool matters(const struct recent_moment *m)
{
    return m->mono_ns && clock_mono_ns() - m->mono_ns <= RECENT_IDS_NS;
}

static uint64_t hash_of(uint64_t series, id128 id)
{
    return hash_table_and(hash_table_bytes(id.b, sizeof id.b), series);
}

// The slot of a key, or the free one where it belongs. Terminates because a table is never full.
static struct recent_slot *find(struct recent_slot *slots, size_t size, uint64_t series, id128 id)
{
    size_t at = (size_t)hash_of(series, id) & (size - 1);
    for (; slots[at].used && (slots[at].series != series || !id128_eq(slots[at].id, id));
         at = (at + 1) & (size - 1))
        map_stepped();
    return &slots[at];
}

static bool has(const struct recent_generation *s, uint64_t series, id128 id)
{
    if (s->size && find(s->slots, s->size, series, id)->used) return true;
    return s->moved < s->from_size && find(s->from, s->from_size, series, id)->used;
}

// Each slot of a generation that is used, once; NULL: there is no further one. *at is 0 at first.
static const struct recent_slot *next_slot(const struct recent_generation *s, size_t *at)
{
    while (*at < s->size + s->from_size - s->moved) {
        size_t i = (*at)++;
        const struct recent_slot *slot =
            i < s->size ? &s->slots[i] : &s->from[s->moved + i - s->size];
        if (slot->used) return slot;
    }
    return NULL;
}

// ---- faint generations

// A split-block bloom filter, as in common/block/spans.c: the upper half of the hash picks the
// block, the lower one a bit in each of its words. 16 bits an id: one in a thousand is mistaken.
#define FAINT_ID_BYTES 2

static const uint32_t salts[RECENT_BLOCK] = {0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du,
                                             0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u};

static uint32_t *block_of(const struct recent_faint *f, uint64_t hash)
{
    return f->words + (size_t)((hash >> 32) * f->blocks >> 32) * RECENT_BLOCK;
}

static void faint_put(const struct recent_faint *f, uint64_t hash)
{
    uint32_t *block = block_of(f, hash);
    for (size_t i = 0; i < RECENT_BLOCK; i++)
        block[i] |= UINT32_C(1) << ((uint32_t)hash * salts[i] >> 27);
}

static bool faint_may_have(const struct recent_faint *f, uint64_t hash)
{
    const uint32_t *block = block_of(f, hash);
    bool all = true;
    for (size_t i = 0; i < RECENT_BLOCK && all; i++)
        all = block[i] >> ((uint32_t)hash * salts[i] >> 27) & 1;
    return all;
}

static size_t faint_bytes(const struct recent_faint *f)
{
    return f->blocks * RECENT_BLOCK * sizeof *f->words;
}

// The filter of the old generation's ids but for those of the groups `kept`; without memory it has
// no words. Without the lock: no other thread changes tables, and this one only reads.
static struct recent_faint faint_of_old(struct recent_ids *p, const struct recent_groups *kept)
{
    const struct recent_generation *o = &p->old;
    const size_t block = RECENT_BLOCK * sizeof(uint32_t);
    struct recent_faint f = {.until = o->until};
    size_t ids = 0;
    err none = {0};
    const struct recent_slot *slot = NULL;
    for (size_t at = 0; (slot = next_slot(o, &at));) {
        if (kept->has[slot->group]) continue;
        f.groups.has[slot->group] = true;
        ids++;
    }
    size_t blocks = ids * FAINT_ID_BYTES / block + 1;
    f.words = mem_alloc(p->budget, blocks * block, &none);
    if (!f.words) return f;
    f.blocks = blocks;
    for (size_t at = 0; (slot = next_slot(o, &at));)
        if (!kept->has[slot->group]) faint_put(&f, hash_of(slot->series, slot->id));
    return f;
}

// With the lock.
static void let_go_group(struct recent_ids *p, size_t group, const struct recent_moment *until)
{
    struct recent_moment *m = &p->let_go[group];
    p->losses++;
    m->mono_ns = MAX(m->mono_ns, until->mono_ns);
    m->wall_ns = MAX(m->wall_ns, until->wall_ns);
}

static void let_go(struct recent_ids *p, const struct recent_faint *f)
{
    for (size_t i = 0; i < COUNT(p->let_go); i++)
        if (f->groups.has[i]) let_go_group(p, i, &f->until);
}

// Takes the oldest ones that do not matter any more, and with `bytes` more to come those for which
// there is no room. With the lock; the caller frees them without it.
static size_t drop_faint(struct recent_ids *p, size_t bytes, size_t most, uint32_t **gone,
                         size_t *blocks)
{
    size_t n = 0;
    for (size_t i = 0; i < p->faint_count; i++)
        bytes += faint_bytes(&p->faint[i]);
    while (n < p->faint_count) {
        const struct recent_faint *f = &p->faint[n];
        bool full = bytes > most || p->faint_count - n == RECENT_FAINT_MAX;
        bool late = !matters(&f->until);
        if (!full && !late) break;
        if (!late) let_go(p, f);
        bytes -= faint_bytes(f);
        blocks[n] = f->blocks;
        gone[n++] = f->words;
    }
    memmove(p->faint, p->faint + n, (p->faint_count - n) * sizeof *p->faint);
    p->faint_count -= n;
    return n;
}

bool recent_ids_may_have(struct recent_ids *p, str tenant, struct loose_key key)
{
    uint64_t whose = hash_str(tenant);
    uint64_t hash = hash_of(hash_mix(whose, key.series), key.id);
    bool may = false;
    pthread_rwlock_rdlock(&p->lock);
    for (size_t i = p->faint_count; i-- > 0 && !may;) {
        const struct recent_groups *g = &p->faint[i].groups;
        may = (g->has[group_of(whose)] || g->has[GROUP_UNKNOWN]) &&
              faint_may_have(&p->faint[i], hash);
    }
    pthread_rwlock_unlock(&p->lock);
    return may;
}

static void take_later(struct recent_moment *to, const struct recent_moment *from)
{
    if (from->mono_ns > to->mono_ns) *to = *from;
}

bool recent_ids_lack(struct recent_ids *p, str tenant, struct recent_moment *when)
{
    pthread_rwlock_rdlock(&p->lock);
    *when = p->let_go[group_of(hash_str(tenant))];
    take_later(when, &p->let_go[GROUP_UNKNOWN]);
    pthread_rwlock_unlock(&p->lock);
    return matters(when);
}

bool recent_ids_lack_any(struct recent_ids *p, struct recent_moment *when)
{
    *when = (struct recent_moment){0};
    pthread_rwlock_rdlock(&p->lock);
    for (size_t i = 0; i < COUNT(p->let_go); i++)
        take_later(when, &p->let_go[i]);
    pthread_rwlock_unlock(&p->lock);
    return matters(when);
}

uint64_t recent_ids_losses(struct recent_ids *p)
{
    pthread_rwlock_rdlock(&p->lock);
    uint64_t losses = p->losses;
    pthread_rwlock_unlock(&p->lock);
    return losses;
}

// ---- room

static bool is_moving(const struct recent_generation *s)
{
    return s->moved < s->from_size;
}

// Copies the next slots to the larger table. They stay in the smaller one as well, because a free
// slot would end the search for keys behind it.
static size_t move(struct recent_generation *s, size_t most)
{
    if (!s->from) return 0;
    size_t steps = MIN(most, s->from_size - s->moved);
    for (size_t i = 0; i < steps; i++) {
        const struct recent_slot *old = &s->from[s->moved++];
        if (old->used) *find(s->slots, s->size, old->series, old->id) = *old;
    }
    return steps;
}

static void note_steps(struct recent_ids *p, size_t steps)
{
    if (steps > atomic_load_explicit(&p->longest, memory_order_relaxed))
        atomic_store_explicit(&p->longest, steps, memory_order_relaxed);
}

size_t recent_ids_longest(const struct recent_ids *p)
{
    return atomic_load_explicit(&p->longest, memory_order_relaxed);
}

// A table is at most three quarters full: beyond that searches become long.
static size_t most_keys(size_t size)
{
    return size / 4 * 3;
}

// The size that holds `keys`, or the largest one that `most` bytes allow.
static size_t size_for(size_t size, size_t keys, size_t most)
{
    size_t slot = sizeof(struct recent_slot);
    if (size == 0) size = SIZE_MIN;
    while (most_keys(size) < keys && size <= MAX(most, SIZE_MIN) / 2 / slot)
        size *= 2;
    return size;
}

// The young generation becomes the old one; *waste gets the former old one. With the lock.
static void turn(struct recent_ids *p, struct recent_generation *waste)
{
    assert(!waste->slots && !waste->from);
    *waste = p->old;
    p->old = p->young;
    p->old.until = now();
    p->young = (struct recent_generation){0};
}

struct group_count {
    size_t ids;
    size_t group;
};

static int fewest_first(const void *a, const void *b)
{
    const struct group_count *x = a;
    const struct group_count *y = b;
    return x->ids != y->ids ? (x->ids > y->ids) - (x->ids < y->ids)
                            : (x->group > y->group) - (x->group < y->group);
}

// Which groups keep their ids although the old generation goes: those with the fewest in both
// generations. Never all of them, as the room is wanted.
static void choose_kept(const struct recent_ids *p, size_t most, struct recent_groups *kept)
{
    const struct recent_generation *const both[] = {&p->old, &p->young};
    struct group_count counts[RECENT_GROUPS + 1];
    const struct recent_slot *slot = NULL;
    size_t room = MIN(most_keys(size_for(0, SIZE_MAX, most / 2)), (p->old.n + p->young.n) / 2);
    for (size_t i = 0; i < COUNT(counts); i++)
        counts[i] = (struct group_count){.group = i};
    for (size_t k = 0; k < COUNT(both); k++)
        for (size_t at = 0; (slot = next_slot(both[k], &at));)
            counts[slot->group].ids++;
    qsort(counts, COUNT(counts), sizeof counts[0], fewest_first);
    for (size_t i = 0; i < COUNT(counts) && counts[i].ids <= room; i++) {
        room -= counts[i].ids;
        kept->has[counts[i].group] = true;
    }
}

// A young generation with the old one's ids of these groups; without memory none is kept. Without
// the lock.
static struct recent_generation carry(struct recent_ids *p, size_t most, struct recent_groups *kept)
{
    struct recent_generation y = {.since_ns = clock_mono_ns()};
    const struct recent_slot *slot = NULL;
    const uint16_t minute = minute_now();
    size_t ids = 0;
    err none = {0};
    for (size_t at = 0; (slot = next_slot(&p->old, &at));)
        ids += kept->has[slot->group] && !is_late(slot, minute);
    if (ids == 0) return y;
    size_t size = size_for(0, ids, most / 2);
    assert(ids <= most_keys(size));
    y.slots = mem_alloc(p->budget, size * sizeof *y.slots, &none);
    if (!y.slots) {
        *kept = (struct recent_groups){0};
        return y;
    }
    y.size = size;
    for (size_t at = 0; (slot = next_slot(&p->old, &at));) {
        if (!kept->has[slot->group] || is_late(slot, minute)) continue;
        *find(y.slots, y.size, slot->series, slot->id) = *slot;
        y.n++;
    }
    return y;
}

// The old generation leaves behind a filter of its ids, and those of groups that keep theirs, while
// they still matter.
static void turn_early(struct recent_ids *p, size_t most)
{
    struct recent_generation waste = {0};
    struct recent_generation young = {0};
    struct recent_groups kept = {0};
    uint32_t *gone[RECENT_FAINT_MAX];
    size_t gone_blocks[RECENT_FAINT_MAX];
    struct recent_faint f = {0};
    bool early = p->old.n > 0 && matters(&p->old.until);
    if (early) {
        choose_kept(p, most, &kept);
        young = carry(p, most, &kept);
        f = faint_of_old(p, &kept);
    }
    pthread_rwlock_wrlock(&p->lock);
    p->losses++;  // recent_ids_has says less from now on
    // Half as much as a generation may take.
    size_t gone_count = drop_faint(p, faint_bytes(&f), most / 2, gone, gone_blocks);
    bool fits = f.words && faint_bytes(&f) <= most / 2;
    if (fits)
        p->faint[p->faint_count++] = f;
    else if (early)
        let_go(p, &f);
    turn(p, &waste);
    p->young = young;
    pthread_rwlock_unlock(&p->lock);
    if (!fits) faint_free(p, &f);
    forget(p, &waste);
    for (size_t i = 0; i < gone_count; i++)
        mem_free(p->budget, gone[i], gone_blocks[i] * RECENT_BLOCK * sizeof *gone[i]);
}

// What is to be done next.
enum room_step {
    ROOM_AGAIN,
    ROOM_DONE,   // there is room, or a table of *size slots is needed (0: none can be had)
    ROOM_EARLY,  // the generations are to turn before their time
};

// One step towards room for n ids, with the lock. Memory that is not needed any more goes to
// *waste, which the caller frees without the lock.
static enum room_step step_to_room(struct recent_ids *p, size_t n, size_t most, size_t *size,
                                   struct recent_generation *waste)
{
    struct recent_generation *y = &p->young;
    uint64_t mono_ns = clock_mono_ns();
    *size = 0;
    if (y->n && mono_ns - y->since_ns > RECENT_IDS_NS) {
        turn(p, waste);
        return ROOM_AGAIN;
    }
    if (y->n == 0) y->since_ns = mono_ns;
    if (y->from && !is_moving(y)) {
        *waste = (struct recent_generation){.slots = y->from, .size = y->from_size};
        y->from = NULL;
        y->from_size = y->moved = 0;
    }
    if (y->n && !waste->slots && FAULT_ERRNO("flush.ids.early")) return ROOM_EARLY;
    if (y->size && y->n + n <= most_keys(y->size)) return ROOM_DONE;
    size_t wanted = size_for(y->size, y->n + n, most);
    if (wanted > y->size) {
        if (!is_moving(y)) {
            *size = wanted;
            return ROOM_DONE;
        }
        note_steps(p, move(y, MOVED_AT_ONCE));
        return ROOM_AGAIN;
    }
    if (y->n < most_keys(y->size)) return ROOM_DONE;
    return waste->slots ? ROOM_AGAIN : ROOM_EARLY;
}

// Puts a larger table in place. False: the young generation changed since step_to_room.
static bool install(struct recent_ids *p, struct recent_slot *slots, size_t size)
{
    struct recent_generation *y = &p->young;
    if (y->from || y->size >= size) return false;
    y->from = y->slots;
    y->from_size = y->size;
    y->moved = 0;
    y->slots = slots;
    y->size = size;
    return true;
}

size_t recent_ids_room(struct recent_ids *p, size_t n, size_t most)
{
    size_t room = 0;
    bool done = n == 0;
    while (!done) {
        struct recent_generation waste = {0};
        struct recent_slot *slots = NULL;
        size_t size = 0;
        err none = {0};
        pthread_rwlock_wrlock(&p->lock);
        enum room_step step = step_to_room(p, n, most, &size, &waste);
        done = step == ROOM_DONE;
        size_t full = most_keys(p->young.size);
        room = full > p->young.n ? full - p->young.n : 0;
        pthread_rwlock_unlock(&p->lock);
        forget(p, &waste);
        if (step == ROOM_EARLY) turn_early(p, most);
        if (!done || size == 0) continue;
        slots = mem_alloc(p->budget, size * sizeof *slots, &none);
        done = slots == NULL;
        if (slots) mem_touch(slots, size * sizeof *slots);
        pthread_rwlock_wrlock(&p->lock);
        if (slots && install(p, slots, size)) slots = NULL;
        pthread_rwlock_unlock(&p->lock);
        mem_free(p->budget, slots, size * sizeof *slots);
    }
    return MIN(room, n);
}

// ---- keys

// With the lock, for writing. An id without room is let go.
static void add(struct recent_ids *p, struct recent_slot slot)
{
    struct recent_generation *y = &p->young;
    if (has(y, slot.series, slot.id)) return;
    if (y->n >= most_keys(y->size)) {
        const struct recent_moment at = now();
        let_go_group(p, slot.group, &at);
        return;
    }
    *find(y->slots, y->size, slot.series, slot.id) = slot;
    y->n++;
    assert(y->n < y->size && y->moved <= y->from_size);
    (void)move(y, MOVED_A_KEY);
    p->fresh = p->fresh || !slot.saved;
}

void recent_ids_add(struct recent_ids *p, str tenant, struct loose_key key)
{
    uint64_t whose = hash_str(tenant);
    const struct recent_slot slot = {.series = hash_mix(whose, key.series),
                                     .id = key.id,
                                     .used = true,
                                     .group = group_of(whose),
                                     .minute = minute_now()};
    pthread_rwlock_wrlock(&p->lock);
    add(p, slot);
    pthread_rwlock_unlock(&p->lock);
}

bool recent_ids_has(struct recent_ids *p, str tenant, struct loose_key key)
{
    uint64_t series = hash_mix(hash_str(tenant), key.series);
    pthread_rwlock_rdlock(&p->lock);
    bool known = has(&p->young, series, key.id) || has(&p->old, series, key.id);
    pthread_rwlock_unlock(&p->lock);
    return known;
}

// ---- for files

static void put_key(struct buf *out, const struct recent_slot *slot)
{
    uint8_t bytes[RECENT_IDS_KEY];
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(slot->series >> (8 * i));
    memcpy(bytes + 8, slot->id.b, sizeof slot->id.b);
    bytes[RECENT_IDS_KEY_1] = (uint8_t)slot->group;
    bytes[RECENT_IDS_KEY_1 + 1] = (uint8_t)(slot->group >> 8);
    buf_put(out, bytes, sizeof bytes);
}

static uint64_t key_series(const char *key)
{
    uint64_t series = 0;
    for (size_t i = 0; i < 8; i++)
        series |= (uint64_t)(uint8_t)key[i] << (8 * i);
    return series;
}

static id128 key_id(const char *key)
{
    id128 id;
    memcpy(id.b, key + 8, sizeof id.b);
    return id;
}

static uint16_t key_group(const char *key, size_t key_bytes)
{
    if (key_bytes == RECENT_IDS_KEY_1) return GROUP_UNKNOWN;
    unsigned group = (uint8_t)key[RECENT_IDS_KEY_1] | (unsigned)(uint8_t)key[RECENT_IDS_KEY_1 + 1]
                                                          << 8;
    return (uint16_t)MIN(group, (unsigned)GROUP_UNKNOWN);
}

// In steps, so that pushes, which ask recent_ids_has, do not wait for a whole table. No other
// thread adds, so the tables stay where they are. Keys that have moved are written from the larger
// table.
static void put_fresh(struct recent_ids *p, const struct recent_slot *slots, size_t from, size_t to,
                      struct buf *out)
{
    for (size_t i = from; i < to; i += MOVED_AT_ONCE) {
        pthread_rwlock_rdlock(&p->lock);
        for (size_t k = i; k < MIN(to, i + MOVED_AT_ONCE); k++) {
            if (slots[k].used && !slots[k].saved) put_key(out, &slots[k]);
        }
        pthread_rwlock_unlock(&p->lock);
    }
}

void recent_ids_fresh(struct recent_ids *p, struct buf *out)
{
    const struct recent_generation *const both[] = {&p->old, &p->young};
    pthread_rwlock_wrlock(&p->lock);
    bool fresh = p->fresh;
    p->fresh = false;
    pthread_rwlock_unlock(&p->lock);
    for (size_t k = 0; fresh && k < COUNT(both); k++) {
        put_fresh(p, both[k]->slots, 0, both[k]->size, out);
        put_fresh(p, both[k]->from, both[k]->moved, both[k]->from_size, out);
    }
}

static void note_saved(struct recent_slot *slots, size_t size, const char *key)
{
    if (!size) return;
    struct recent_slot *slot = find(slots, size, key_series(key), key_id(key));
    if (slot->used) slot->saved = true;
}

void recent_ids_note_saved(struct recent_ids *p, str keys, bool saved)
{
    struct recent_generation *const both[] = {&p->old, &p->young};
    size_t end = saved ? keys.n / RECENT_IDS_KEY : 0;
    for (size_t i = 0; i < end; i += MOVED_AT_ONCE) {
        pthread_rwlock_wrlock(&p->lock);
        for (size_t k = i; k < MIN(end, i + MOVED_AT_ONCE); k++) {
            for (size_t j = 0; j < COUNT(both); j++) {
                note_saved(both[j]->slots, both[j]->size, keys.p + k * RECENT_IDS_KEY);
                note_saved(both[j]->from, both[j]->from_size, keys.p + k * RECENT_IDS_KEY);
            }
        }
        pthread_rwlock_unlock(&p->lock);
    }
    pthread_rwlock_wrlock(&p->lock);
    p->fresh |= !saved;
    pthread_rwlock_unlock(&p->lock);
}

static struct recent_slot slot_of_key(const char *key, size_t key_bytes)
{
    return (struct recent_slot){.series = key_series(key),
                                .id = key_id(key),
                                .used = true,
                                .saved = true,
                                .group = key_group(key, key_bytes),
                                .minute = minute_now()};
}

void recent_ids_add_saved(struct recent_ids *p, str keys, size_t key_bytes, size_t most)
{
    size_t end = keys.n / key_bytes;
    for (size_t i = 0; i < end;) {
        size_t run = recent_ids_room(p, MIN(end - i, (size_t)MOVED_AT_ONCE), most);
        const struct recent_moment at = now();
        pthread_rwlock_wrlock(&p->lock);
        bool none = run == 0;
        for (size_t k = i; none && k < end; k++)
            let_go_group(p, key_group(keys.p + k * key_bytes, key_bytes), &at);
        for (; run > 0; run--, i++)
            add(p, slot_of_key(keys.p + i * key_bytes, key_bytes));
        pthread_rwlock_unlock(&p->lock);
        if (none) return;
    }
}
