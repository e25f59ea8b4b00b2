// SPDX-License-Identifier: Apache-2.0
//
// bench.idle DIR TENANTS ACTIVE - makes a local store of so many tenants that were busy for an hour
// three days ago, all done, of which some have segments of this hour.
#include "store/local.h"
#include "unit/compactor/fleet.h"

static struct store *store;
static struct manifests *manifests;

static void put(struct arena *a, struct req *r, const char *tenant, const struct manifest_block *b)
{
    static char zeros[256];
    bool existed = false;
    err e = {0};
    if (store_put(store, r, manifest_block_name(a, str_of(tenant), b),
                  str_make(zeros, (size_t)b->bytes), &existed, &e))
        return;
    fprintf(stderr, "bench.idle: %s\n", e.msg);
    exit(1);
}

// A leaf, its hour nodes and its day: nothing is left to be done.
static void make_idle(const char *tenant, uint32_t number)
{
    struct arena a;
    struct req r;
    struct manifest_block v[3];
    int64_t now = clock_wall_ns();
    int64_t day = slot_of(now, SLOT_DAY) - 3;
    static const enum block_kind kinds[] = {BLOCK_RAW, BLOCK_HOURS, BLOCK_DAYS};
    arena_init(&a, NULL, 1 << 20);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    for (uint32_t i = 0; i < COUNT(v); i++) {
        uint8_t random[10] = {(uint8_t)i, (uint8_t)number, (uint8_t)(number >> 8), 1};
        v[i] = (struct manifest_block){.id = ulid_make((uint64_t)(now / NS_PER_MS), random),
                                       .kind = kinds[i],
                                       .from_hour = day * 24 + (kinds[i] == BLOCK_DAYS ? 0 : 5),
                                       .hours = kinds[i] == BLOCK_DAYS ? 24 : 1,
                                       .pack_hi = UINT32_MAX,
                                       .classes = 7,
                                       .bytes = 200,
                                       .rows = 10,
                                       .first_ns = slot_start(day * 24 + 5, SLOT_HOUR) + 1,
                                       .last_ns = slot_start(day * 24 + 5, SLOT_HOUR) + 2,
                                       .format = 1};
        put(&a, &r, tenant, &v[i]);
    }
    struct manifest_cover hour = {.hour = v[1].from_hour,
                                  .hours = 1,
                                  .leaves = &v[0].id,
                                  .leaf_count = 1};
    struct manifest_cover whole = hour;
    whole.hour = v[2].from_hour;
    whole.hours = 24;
    v[1].covers = &hour;
    v[2].covers = &whole;
    v[1].cover_count = v[2].cover_count = 1;
    const struct manifest_change c = {.add = v, .add_count = COUNT(v), .begun_ns = now};
    assert_ok(manifest_commit(manifests, &r, str_of(tenant), &c, NULL, e));
    assert_ok(tenants_note(manifests, &r, str_of(tenant), e));
    req_release(&r);
    arena_release(&a);
}

// The segments of the fleet's tenant are those of another one as well.
static void make_active(const char *tenant, str bytes, int64_t hour)
{
    struct arena a;
    struct req r;
    bool existed = false;
    struct segment_name name = {.hour = hour, .cut = 1};
    name.stream.b[5] = 1;
    arena_init(&a, NULL, 1 << 20);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    assert_ok(store_put(store, &r, name_segment(&a, str_of(tenant), &name), bytes, &existed, e));
    req_release(&r);
    arena_release(&a);
}

int main(int argc, char **argv)
{
    struct fleet fleet;
    if (argc != 4) {
        fprintf(stderr, "usage: bench.idle DIR TENANTS ACTIVE\n");
        return 2;
    }
    err e = {0};
    store = store_open_local(&(struct store_local_options){.dir = argv[1]}, &e);
    manifests = store ? manifests_open(store, NULL, NULL, &e) : NULL;
    if (!manifests) {
        fprintf(stderr, "bench.idle: %s\n", e.msg);
        return 1;
    }
    // One segment of this hour, as its writer makes it.
    struct store *memory = memstore_open();
    int64_t hour = slot_of(clock_wall_ns(), SLOT_HOUR);
    fleet_init(&fleet, 5);
    fleet_hour(&fleet, hour, 3);
    size_t which[] = {0, 1, 2};
    fleet_segment(&fleet, memory, which, COUNT(which), false);
    char *name = memstore_names(memory, "");
    *strchr(name, '\n') = '\0';
    uint32_t tenants = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t active = (uint32_t)strtoul(argv[3], NULL, 10);
    for (uint32_t i = 0; i < tenants; i++) {
        char tenant[32];
        snprintf(tenant, sizeof tenant, "tenant-%05u", i);
        make_idle(tenant, i);
        if (i < active) make_active(tenant, memstore_bytes(memory, name), hour);
    }
    free(name);
    store_close(memory);
    fleet_release(&fleet);
    manifests_close(manifests);
    store_close(store);
    return 0;
}
