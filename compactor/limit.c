// SPDX-License-Identifier: Apache-2.0
//
// limit.c - how long each tenant's blocks are kept, and how many bytes it may have: by the
// settings, by the tenant's own limits, and by what the store may have or its disk has room for.
//
// Of a store that has too much each tenant gives the same share: at a moment (limit_share) each
// gets a number of bytes, and keeps to it (keep.h) until the next such moment. What a plan retires
// is deleted hours later, so the next moment comes only when that is over; else a full disk, which
// becomes no emptier meanwhile, would take more and more.
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "service/process.h"
#include "service/settings.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stdio.h>

#define DISK_PART   10  // disk_reserve is this part of the disk at most
#define SHARE_PARTS 10  // tenants give so much that one of these parts of the limit becomes free

static uint64_t least_limit(uint64_t a, uint64_t b)  // 0 is none
{
    return a == 0 ? b : b == 0 ? a : MIN(a, b);
}

struct keep_rule limit_rule(struct work *w, const struct tenant_work *t, struct arena *a)
{
    const struct compactor_config *c = work_settings(w);
    const struct limits *own = NULL;
    if (config_section(w->process->config, "limits"))
        own = tenant_limits(w->process->config, a, str_of(t->name));
    struct keep_rule r = {.raw_ns = c->raw_retention,
                          .hours_ns = c->hours_retention,
                          .days_ns = c->days_retention};
    lock_take(&w->lock);
    r.bytes = t->allowed;
    lock_give(&w->lock);
    if (!own) return r;
    if (own->raw_retention_period) r.raw_ns = own->raw_retention_period;
    if (own->hours_retention_period) r.hours_ns = own->hours_retention_period;
    if (own->retention_period) r.days_ns = own->retention_period;
    r.bytes = least_limit(r.bytes, own->max_stored_bytes);
    return r;
}

// (Not zero, which a tenant has that was never planned for.)
static uint64_t print_of(const struct keep_rule *r)
{
    const uint64_t v[] = {(uint64_t)r->raw_ns, (uint64_t)r->hours_ns, (uint64_t)r->days_ns,
                          r->bytes};
    return hash_table_bytes(v, sizeof v) | 1;
}

bool limit_is_same(struct work *w, const struct tenant_work *t)
{
    struct arena a;
    arena_init(&a, NULL, (size_t)1 << 20);
    const struct keep_rule now = limit_rule(w, t, &a);
    arena_release(&a);
    return print_of(&now) == t->rule_print;
}

void limit_note(struct tenant_work *t, const struct agenda *a)
{
    const int64_t kept[] = {a->keep.raw_ns, a->keep.hours_ns, a->keep.days_ns};
    t->bytes = a->bytes;
    t->rule_print = print_of(&a->rule);
    for (size_t i = 0; i < COUNT(kept); i++)
        t->keep_hours[i] = (uint32_t)MIN((kept[i] + SLOT_HOUR - 1) / SLOT_HOUR, UINT32_MAX);
    t->by_size = a->keep.by_size;
    t->over = a->keep.over > 0;
    t->deletions = (uint16_t)MIN(a->tombstone_count, UINT16_MAX);
}

// ---- all tenants

// The directory of the store, if it is on a disk that can be asked for its room.
static bool store_path(const struct work *w, char *path, size_t room)
{
    const struct process *p = w->process;
    const struct storage_settings *s = config_section(p->config, "storage");
    if (!s || !p->store || strcmp(s->kind, "local") != 0) return false;
    if (!s->dir[0] && !p->all_in_one) return false;
    int n = s->dir[0] ? snprintf(path, room, "%s", s->dir)
                      : snprintf(path, room, "%s/store", p->data_dir);
    return n > 0 && (size_t)n < room;
}

// How many bytes should go so that the disk has its reserve. Of what the newest versions name no
// more, a sweep deletes `swept`.
static uint64_t disk_excess(const struct work *w, uint64_t swept)
{
    char path[PATH_MAX];
    uint64_t have = 0;
    uint64_t size = 0;
    err ignored = {0};  // a disk that cannot be asked is noticed elsewhere, by who writes to it
    uint64_t want = work_settings(w)->disk_reserve;
    if (want == 0 || !store_path(w, path, sizeof path)) return 0;
    if (!dir_free_bytes(path, &have, &ignored) || !dir_size_bytes(path, &size, &ignored)) return 0;
    want = MIN(want, size / DISK_PART);
    have = swept > UINT64_MAX - have ? UINT64_MAX : have + swept;
    return have < want ? want - have : 0;
}

static uint64_t limit_of_all(const struct work *w, uint64_t all, uint64_t swept)
{
    uint64_t excess = disk_excess(w, swept);
    uint64_t limit = work_settings(w)->store_bytes;
    if (excess == 0) return limit;
    return least_limit(limit, excess < all ? all - excess : 1);
}

static uint64_t next_moment(const struct compactor_config *c)
{
    uint64_t rest = (uint64_t)c->delete_delay + (uint64_t)c->sweep_interval;
    return clock_mono_ns() + 2 * rest + (uint64_t)c->interval;
}

void limit_share(struct work *w)
{
    uint64_t all = 0;
    uint64_t swept = 0;
    bool known = w->tenant_count > 0;
    assert(lock_is_mine(&w->lock));
    for (size_t i = 0; i < w->tenant_count; i++) {
        all += keep_total(&w->tenants[i]->bytes);
        swept += w->tenants[i]->garbage_bytes;
        known = known && w->tenants[i]->inspected;
    }
    // Before each tenant was looked at, nobody knows what all have.
    if (!known || clock_mono_ns() < w->share_mono_ns) return;
    const uint64_t limit = limit_of_all(w, all, swept);
    const bool over = limit && all > limit;
    if (!over && !w->shared) return;
    for (size_t i = 0; i < w->tenant_count; i++) {
        struct tenant_work *t = w->tenants[i];
        uint64_t part = limit - limit / SHARE_PARTS;
        t->allowed = over ? keep_share(part, keep_total(&t->bytes), all) : 0;
    }
    w->shared = over;
    w->settings_number++;  // plans of idle tenants are made anew
    if (!over) return;
    w->share_mono_ns = next_moment(work_settings(w));
    log_warn(NULL, "compactor.store_full",
             "bytes=%" PRIu64 " limit=%" PRIu64 " tenants=%zu action=\"the oldest single profiles "
             "of all tenants go, then hours, then days; raise compactor.store_bytes, free room on "
             "the disk, or shorten the retention\"",
             all, limit, w->tenant_count);
}

// ---- what is said

static const char *period(char text[32], int64_t ns)
{
    if (ns == 0) return "for_ever";
    if (ns % SLOT_DAY == 0)
        snprintf(text, 32, "%" PRId64 "d", ns / SLOT_DAY);
    else
        snprintf(text, 32, "%" PRId64 "s", ns / NS_PER_S);
    return text;
}

void limit_say(const struct work *w)
{
    const struct compactor_config *c = work_settings(w);
    char raw[32];
    char hours[32];
    char days[32];
    log_info(NULL, "compactor.keeps",
             "raw=%s hours=%s days=%s store_bytes=%" PRIu64 " disk_reserve=%" PRIu64,
             period(raw, c->raw_retention), period(hours, c->hours_retention),
             period(days, c->days_retention), c->store_bytes, c->disk_reserve);
}

void limit_gauges(struct work *w)
{
    static const char *const names[KEEP_KINDS] = {"segment", "raw", "h", "d"};
    uint64_t sum[KEEP_KINDS] = {0};
    int64_t by_size = 0;
    int64_t over = 0;
    int64_t deletions = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        for (size_t k = 0; k < KEEP_KINDS; k++)
            sum[k] += t->bytes.v[k];
        by_size += t->by_size;
        over += t->over;
        deletions += t->deletions;
    }
    lock_give(&w->lock);
    for (size_t k = 0; k < KEEP_KINDS; k++)
        metric_set_to(&compactor_stored, str_of(names[k]), (int64_t)sum[k]);
    metric_set(&compactor_cut_tenants, by_size);
    metric_set(&compactor_over_tenants, over);
    metric_set(&compactor_deletions_left, deletions);
    metric_set(&compactor_store_limit, (int64_t)MIN(work_settings(w)->store_bytes, INT64_MAX));
}

void limit_retired(const struct agenda *a, const struct task *j)
{
    assert(j->kind == JOB_RETIRE || j->expire_count == 0);
    for (size_t i = 0; i < j->expire_count; i++) {
        const struct manifest_block *b = manifest_find(a->snapshot.manifest, j->expire[i]);
        if (!b) continue;
        int64_t keep = b->kind == BLOCK_RAW     ? a->rule.raw_ns
                       : b->kind == BLOCK_HOURS ? a->rule.hours_ns
                                                : a->rule.days_ns;
        int64_t age = a->begun_ns - slot_start(b->from_hour + (int64_t)b->hours, SLOT_HOUR);
        bool old = (keep && age >= keep) || (a->rule.days_ns && age >= a->rule.days_ns);
        metric_add_to(&compactor_retired, old ? S("age") : S("size"), b->bytes);
    }
}
