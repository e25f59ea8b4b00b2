// SPDX-License-Identifier: Apache-2.0
//
// How many ingesters tenants and services get: virtual rates, a clock of numbers.
#include "base/hash.h"
#include "cluster/place.h"
#include "distributor/dispatch.h"
#include "lib/test.h"
#include "sys/clock.h"

#include <stdio.h>

#define SECOND ((uint64_t)NS_PER_S)
#define PER    UINT64_C(1000)

// A push a second of so many bytes.
static uint64_t push_for(struct spread *s, uint64_t key, uint64_t rate, uint64_t from,
                         uint64_t seconds)
{
    for (uint64_t i = 0; i < seconds; i++)
        spread_note(s, key, rate, PER, (from + i) * SECOND);
    return from + seconds;
}

static uint32_t need(struct spread *s, uint64_t key, uint64_t at)
{
    return spread_need(s, key, PER, at * SECOND);
}

static void ingesters_follow_the_rate(void **state)
{
    (void)state;
    static const struct {
        uint64_t rate;
        uint32_t least;
        uint32_t most;
    } cases[] = {{1, 1, 1},    {500, 1, 1},     {980, 1, 2},      {1500, 2, 2},
                 {4500, 5, 5}, {15500, 16, 16}, {99500, 100, 101}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct spread s;
        spread_init(&s);
        uint64_t key = spread_key(S("t"), S("s"));
        assert_int_equal(need(&s, key, 1), 1);
        uint64_t end = push_for(&s, key, cases[i].rate, 1, 900);
        uint32_t n = need(&s, key, end);
        if (n < cases[i].least || n > cases[i].most)
            fail_msg("rate %d needs %u", (int)cases[i].rate, n);
        assert_int_equal(need(&s, spread_key(S("t"), S("r")), end), 1);
        assert_int_equal(need(&s, spread_key(S("t"), (str){0}), end), 1);
        spread_release(&s);
    }
}

// How often it pushes makes no difference.
static void the_rate_is_that_of_any_interval(void **state)
{
    (void)state;
    for (uint64_t every = 1; every <= 30; every++) {
        struct spread s;
        spread_init(&s);
        for (uint64_t t = 1; t < 1200; t += every)
            spread_note(&s, 7, 4000 * every, PER, t * SECOND);
        uint32_t n = need(&s, 7, 1200);
        if (n < 4 || n > 6) fail_msg("every %d s: %u", (int)every, n);
        spread_release(&s);
    }
}

static void it_grows_at_once_and_shrinks_when_it_was_calm(void **state)
{
    (void)state;
    struct spread s;
    spread_init(&s);
    uint64_t t = push_for(&s, 7, 100, 1, 600);
    assert_int_equal(need(&s, 7, t), 1);
    uint64_t began = t;
    while (need(&s, 7, t) < 5)
        t = push_for(&s, 7, 8500, t, 1);
    assert_true(t - began < 60);
    t = push_for(&s, 7, 8500, t, 600);
    assert_int_equal(need(&s, 7, t), 9);
    assert_int_equal(s.wide, 1);
    t = push_for(&s, 7, 2500, t, 300);  // two thirds of it would do, but not for long enough
    assert_int_equal(need(&s, 7, t), 9);
    t = push_for(&s, 7, 8500, t, 300);
    uint64_t changes = s.changes;
    t = push_for(&s, 7, 2500, t, 1000);
    uint32_t n = need(&s, 7, t);
    assert_true(n < 9 && n >= 3);
    t = push_for(&s, 7, 100, t, 3000);
    assert_int_equal(need(&s, 7, t), 1);
    assert_true(s.changes - changes <= 4);
    assert_int_equal(s.wide, 0);
    spread_release(&s);
}

// The end of the calm time is quieter than all of it: what was needed before would be needed again.
static void it_shrinks_to_the_most_of_the_calm_time(void **state)
{
    (void)state;
    struct spread s;
    spread_init(&s);
    uint64_t t = push_for(&s, 7, 15500, 1, 900);
    assert_int_equal(need(&s, 7, t), 16);
    t = push_for(&s, 7, 8500, t, 400);
    assert_int_equal(need(&s, 7, t), 16);
    while (need(&s, 7, t) == 16)
        t = push_for(&s, 7, 100, t, 1);
    assert_true(need(&s, 7, t) >= 13);
    spread_release(&s);
}

static void a_rate_that_swings_does_not_move_it(void **state)
{
    (void)state;
    for (uint64_t period = 2; period <= 400; period = period * 3 / 2 + 1) {
        struct spread s;
        spread_init(&s);
        uint64_t t = 1;
        while (t < 1200) {
            t = push_for(&s, 7, 8500, t, period);
            t = push_for(&s, 7, 1500, t, period);
        }
        uint64_t changes = s.changes;
        uint32_t n = need(&s, 7, t);
        while (t < 12000) {
            t = push_for(&s, 7, 8500, t, period);
            t = push_for(&s, 7, 1500, t, period);
        }
        if (s.changes > changes + 1) fail_msg("period %d: %d", (int)period, (int)s.changes);
        assert_true(need(&s, 7, t) >= n);
        spread_release(&s);
    }
}

// About any border between two numbers: it grows to what the highest rate needs, and stays there.
static void a_rate_that_wobbles_by_a_fifth_never_shrinks(void **state)
{
    (void)state;
    for (uint64_t mean = 900; mean < 20000; mean = mean * 11 / 10) {
        struct spread s;
        uint64_t x = mean;
        uint32_t n = 1;
        spread_init(&s);
        for (uint64_t t = 1; t < 7200; t++) {
            x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
            // A level for a minute or so, and each second something else besides.
            uint64_t level = t / 67 % 2 ? 1200 : 800;
            uint64_t rate = mean * level / 1000 * (800 + (x >> 33) % 401) / 1000;
            (void)push_for(&s, 7, rate, t, 1);
            uint32_t now = need(&s, 7, t);
            if (now < n) fail_msg("%d: %u after %u, at %d", (int)mean, now, n, (int)t);
            n = now;
        }
        // Each change was one more at least, so there are as many as it has more than one at most.
        assert_true(s.changes < n);
        assert_true(n >= 1 + mean / PER && n <= 2 + mean * 6 / 5 / PER);
        spread_release(&s);
    }
}

// More keys than there are places: what is large is known, and nothing of it is lost to what is
// tiny.
static void large_ones_are_found_among_many(void **state)
{
    (void)state;
    struct spread s;
    spread_init(&s);
    for (uint64_t t = 1; t < 240; t++) {
        for (uint64_t i = 0; i < 4000; i++)
            spread_note(&s, (t * 4000 + i) * UINT64_C(0x9e3779b97f4a7c15) | 1, 90, PER, t * SECOND);
        for (uint64_t i = 0; i < 50; i++)
            spread_note(&s, i * 2 * 1300 + 1, 3500, PER, t * SECOND);
    }
    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(need(&s, i * 2 * 1300 + 1, 240), 4);
    assert_int_equal(s.wide, 50);
    // Nothing is pushed under them any more: their places are free again.
    for (uint64_t t = 240; t < 2400; t += 60) {
        for (uint64_t i = 0; i < SPREAD_KEYS * 2; i += 4)
            spread_note(&s, i * 2 + 1, 1, PER, t * SECOND);
    }
    assert_int_equal(s.wide, 0);
    spread_release(&s);
}

// ---- where they go

#define TENANTS   1000
#define SERVICES  200  // a thousand have the same shares: tenants decide them
#define INGESTERS 20

static void tiny_tenants_share_the_ingesters(void **state)
{
    (void)state;
    static struct member members[INGESTERS];
    static char ids[INGESTERS][16];
    static uint64_t heads[INGESTERS];
    for (size_t i = 0; i < INGESTERS; i++) {
        int n = snprintf(ids[i], sizeof ids[i], "ingester-%zu", i);
        members[i] = (struct member){.id = str_make(ids[i], (size_t)n), .alive = true};
    }
    // What a distributor that has measured nothing, or little, places by.
    struct place_options o = {.tenant_members = 2, .service_members = 1};
    for (size_t t = 0; t < TENANTS; t++) {
        char tenant[16];
        uint32_t used = 0;
        snprintf(tenant, sizeof tenant, "t-%zu", t);
        for (size_t k = 0; k < SERVICES; k++) {
            char service[16];
            uint32_t order[INGESTERS];
            snprintf(service, sizeof service, "s-%zu", k);
            place_order(members, INGESTERS, &o, str_of(tenant), str_of(service), k % 3, order);
            heads[order[0]]++;
            used |= 1u << order[0];
        }
        assert_int_equal(__builtin_popcount(used), 2);
    }
    const double share = (double)TENANTS * SERVICES / INGESTERS;
    for (size_t i = 0; i < INGESTERS; i++) {
        if ((double)heads[i] < 0.7 * share || (double)heads[i] > 1.3 * share)
            fail_msg("%zu has %llu heads of %.0f", i, (unsigned long long)heads[i], share);
    }
}

// ---- what a distributor asks for

struct fleet {
    struct member members[INGESTERS];
    struct distributor_config config;
    struct spread spread;
    struct req req;
    uint32_t order[INGESTERS];
    struct dispatch dispatch;
};

static void fleet_begin(struct fleet *f)
{
    *f = (struct fleet){.config = {.ingester_rate = 1 << 20}};
    spread_init(&f->spread);
    req_init(&f->req, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    f->req.tenant = S("tenant");
    for (size_t i = 0; i < INGESTERS; i++) {
        f->members[i] =
            (struct member){.id = arena_printf(&f->req.arena, "ingester-%zu", i), .alive = true};
    }
    f->dispatch = (struct dispatch){.req = &f->req,
                                    .config = &f->config,
                                    .members = f->members,
                                    .homes = f->members,
                                    .member_count = INGESTERS,
                                    .order = f->order,
                                    .spread = &f->spread};
}

static void fleet_end(struct fleet *f)
{
    req_release(&f->req);
    spread_release(&f->spread);
}

// Of 200 label sets: bits of those who get them, and how many are no home.
static uint32_t owners(struct fleet *f, str service, bool identified, unsigned *away)
{
    uint32_t used = 0;
    *away = 0;
    f->dispatch.service_need = f->dispatch.tenant_need = 0;  // another request
    for (uint64_t set = 0; set < 200; set++) {
        uint32_t home = 0;
        uint32_t owner = dispatch_owner(&f->dispatch, service, set, identified ? &home : NULL);
        used |= 1u << owner;
        *away += identified && owner != home;
    }
    return used;
}

static void a_record_with_an_id_has_one_home_at_any_rate(void **state)
{
    (void)state;
    struct fleet f;
    unsigned away = 0;
    fleet_begin(&f);
    uint64_t key = spread_key(f.req.tenant, S("large"));
    uint32_t before = owners(&f, S("large"), true, &away);
    assert_int_equal(__builtin_popcount(before), 1);
    assert_int_equal(away, 0);
    assert_int_equal(__builtin_popcount(owners(&f, S("large"), false, &away)), 1);
    for (int i = 0; i < 60; i++)  // all at once: 60 s of 5.5 MiB
        spread_note(&f.spread, key, 5767168, f.config.ingester_rate, clock_mono_ns());
    uint32_t n = spread_need(&f.spread, key, f.config.ingester_rate, clock_mono_ns());
    assert_true(n > 4 && n < 8);
    uint32_t after = owners(&f, S("large"), true, &away);
    assert_int_equal(__builtin_popcount(after), n);
    assert_int_equal(after & before, before);  // who had it keeps it
    assert_true(away > 200 - 200 * 2 / n && away < 200);
    // The settings have the last word, and are a home that all agree on.
    f.config.service_ingesters = 3;
    uint32_t set = owners(&f, S("large"), true, &away);
    assert_int_equal(__builtin_popcount(set), 3);
    assert_int_equal(away, 0);
    f.config.service_ingesters = 1000;
    assert_int_equal(__builtin_popcount(owners(&f, S("large"), true, &away)), INGESTERS);
    assert_int_equal(away, 0);
    fleet_end(&f);
}

static uint32_t of_tenant(struct fleet *f)
{
    uint32_t used = 0;
    for (size_t i = 0; i < 300; i++) {
        unsigned away = 0;
        used |= owners(f, arena_printf(&f->req.arena, "s-%zu", i), false, &away);
    }
    return used;
}

// Where records with ids of its services go, one label set each: bits of the ingesters, how many
// are no home, and heads of each ingester if they are counted.
static uint32_t identified(struct fleet *f, unsigned services, unsigned *away, uint64_t *heads)
{
    uint32_t used = 0;
    *away = 0;
    f->dispatch.tenant_need = 0;  // another request
    for (unsigned k = 0; k < services; k++) {
        char service[16];
        uint32_t home = 0;
        snprintf(service, sizeof service, "s-%u", k);
        f->dispatch.service_need = 0;  // it borrows the name
        uint32_t owner = dispatch_owner(&f->dispatch, str_of(service), k % 3, &home);
        used |= 1u << owner;
        *away += owner != home;
        if (heads) heads[owner]++;
    }
    return used;
}

// By the tenant's limit; without it on all of them.
static void tiny_tenants_with_ids_share_the_ingesters(void **state)
{
    (void)state;
    for (size_t limit = 0; limit <= 2; limit++) {
        struct fleet f;
        uint64_t heads[INGESTERS] = {0};
        fleet_begin(&f);
        f.dispatch.home_ingesters = limit;
        for (size_t t = 0; t < TENANTS; t++) {
            unsigned away = 0;
            char tenant[16];
            snprintf(tenant, sizeof tenant, "t-%zu", t);
            f.req.tenant = str_of(tenant);
            uint32_t used = identified(&f, SERVICES, &away, heads);
            assert_int_equal(away, 0);
            assert_int_equal(__builtin_popcount(used), limit ? limit : INGESTERS);
        }
        const double share = (double)TENANTS * SERVICES / INGESTERS;
        for (size_t i = 0; i < INGESTERS; i++) {
            if ((double)heads[i] < 0.7 * share || (double)heads[i] > 1.3 * share)
                fail_msg("%zu has %llu heads of %.0f", i, (unsigned long long)heads[i], share);
        }
        fleet_end(&f);
    }
}

// With the limit it goes beyond its homes as far as its rate needs, and what does is loose; without
// it nothing is, however large it is.
static void a_large_tenant_with_ids_goes_beyond_its_homes(void **state)
{
    (void)state;
    struct fleet f;
    unsigned away = 0;
    fleet_begin(&f);
    f.dispatch.home_ingesters = 2;
    uint32_t before = identified(&f, 300, &away, NULL);
    assert_int_equal(__builtin_popcount(before), 2);
    const uint64_t key = spread_key(f.req.tenant, (str){0});
    for (int i = 0; i < 60; i++)
        spread_note(&f.spread, key, 5767168, f.config.ingester_rate, clock_mono_ns());
    uint32_t n = spread_need(&f.spread, key, f.config.ingester_rate, clock_mono_ns());
    assert_true(n > 4 && n < 8);
    uint32_t after = identified(&f, 300, &away, NULL);
    assert_int_equal(__builtin_popcount(after), n);
    assert_int_equal(after & before, before);
    assert_true(away > 300 * (n - 2) / n / 2 && away < 300);
    // A limit of the tenant's own that says what it needs: they are homes, and all agree on them.
    f.dispatch.home_ingesters = 8;
    assert_int_equal(__builtin_popcount(identified(&f, 300, &away, NULL)), 8);
    assert_int_equal(away, 0);
    f.dispatch.home_ingesters = 0;
    assert_int_equal(__builtin_popcount(identified(&f, 300, &away, NULL)), INGESTERS);
    assert_int_equal(away, 0);
    // The setting has the last word.
    f.dispatch.home_ingesters = 8;
    f.config.tenant_ingesters = 3;
    assert_int_equal(__builtin_popcount(identified(&f, 300, &away, NULL)), 3);
    assert_int_equal(away, 0);
    fleet_end(&f);
}

// Distributors that measured something else, or nothing, agree on homes.
static void homes_are_the_same_for_all_distributors(void **state)
{
    (void)state;
    struct fleet f[2];
    fleet_begin(&f[0]);
    fleet_begin(&f[1]);
    const uint64_t keys[] = {spread_key(S("tenant"), (str){0}), spread_key(S("tenant"), S("s-7"))};
    for (size_t i = 0; i < COUNT(keys); i++)
        spread_note(&f[1].spread, keys[i], UINT64_C(1) << 30, f[1].config.ingester_rate,
                    clock_mono_ns());
    for (size_t limit = 0; limit <= 4; limit += 2) {
        for (unsigned k = 0; k < 50; k++) {
            uint32_t home[2] = {0};
            for (size_t i = 0; i < COUNT(f); i++) {
                char service[16];
                snprintf(service, sizeof service, "s-%u", k);
                f[i].dispatch.home_ingesters = limit;
                f[i].dispatch.service_need = 0;
                (void)dispatch_owner(&f[i].dispatch, str_of(service), k, &home[i]);
            }
            assert_int_equal(home[0], home[1]);
        }
    }
    fleet_end(&f[0]);
    fleet_end(&f[1]);
}

static void a_tenant_gets_more_ingesters_as_it_grows(void **state)
{
    (void)state;
    struct fleet f;
    fleet_begin(&f);
    uint32_t before = of_tenant(&f);
    assert_int_equal(__builtin_popcount(before), 2);
    struct send_batch batches[2] = {{.batch = {.service = S("s-1"), .record_count = 3}},
                                    {.batch = {.service = S("s-2"), .record_count = 1}}};
    struct send_batch *v[] = {&batches[0], &batches[1]};
    struct send_buffer o = {.batches = v, .batch_count = 2};
    dispatch_note(&f.dispatch, &o, 800 << 20);
    uint64_t now = clock_mono_ns();
    uint32_t tenant = spread_need(&f.spread, spread_key(f.req.tenant, (str){0}), 1 << 20, now);
    uint32_t first = spread_need(&f.spread, spread_key(f.req.tenant, S("s-1")), 1 << 20, now);
    uint32_t second = spread_need(&f.spread, spread_key(f.req.tenant, S("s-2")), 1 << 20, now);
    assert_true(tenant > first && first > second && second > 1);
    assert_true(first >= second * 2 && first <= second * 4);
    f.dispatch.tenant_need = 0;
    uint32_t after = of_tenant(&f);
    assert_int_equal(after & before, before);
    // It is all that comes, so it makes the ingesters even.
    assert_true(tenant + 1 < INGESTERS);
    assert_int_equal(__builtin_popcount(after), INGESTERS);
    f.config.tenant_ingesters = 4;
    assert_int_equal(__builtin_popcount(of_tenant(&f)), 4);
    fleet_end(&f);
}

// ---- hot label sets

// Pushes of one label set by so many requests: bits of the ingesters that got them.
static uint32_t takers(struct fleet *f, uint64_t set, bool with_id, unsigned requests)
{
    uint32_t used = 0;
    for (unsigned i = 0; i < requests; i++) {
        uint32_t home = 0;
        struct send_batch batch = {.batch = {.service = S("s"), .record_count = 1}};
        struct send_batch *v[] = {&batch};
        struct send_buffer o = {.batches = v, .batch_count = 1};
        struct dispatch *d = &f->dispatch;
        d->service_need = d->tenant_need = 0;
        d->turn = d->placed = d->series_count = 0;
        used |= 1u << dispatch_owner(d, S("s"), set, with_id ? &home : NULL);
        dispatch_note(d, &o, 4 << 20);
    }
    return used;
}

static void a_hot_label_set_goes_to_the_next_of_its_order_too(void **state)
{
    (void)state;
    struct fleet f;
    fleet_begin(&f);
    // As long as the service needs one ingester nothing is asked of its label sets.
    uint32_t first = takers(&f, 7, false, 1);
    assert_int_equal(__builtin_popcount(first), 1);
    (void)takers(&f, 7, false, 99);  // 400 MiB
    const uint64_t service = spread_key(f.req.tenant, S("s"));
    uint32_t n = spread_need(&f.spread, spread_series_key(service, 7), f.config.ingester_rate,
                             clock_mono_ns());
    assert_true(n > 4 && n < INGESTERS);
    assert_true(__builtin_popcount(takers(&f, 7, false, 100)) >= (int)n);  // it grows meanwhile
    // Another label set of the service is not hot, and one with ids stays where it is.
    assert_int_equal(__builtin_popcount(takers(&f, 8, false, 1)), 1);
    assert_int_equal(__builtin_popcount(takers(&f, 7, true, 5)), 1);
    struct dispatch_place place;
    assert_ok(dispatch_explain(&f.dispatch, S("s"), 7, false, &place, e));
    assert_true(place.series_need >= n);
    // An ingester that is dead has no turn.
    f.members[place.order[1]].alive = false;
    assert_int_equal(takers(&f, 7, false, 50) & 1u << place.order[1], 0);
    fleet_end(&f);
}

// ---- 10,000 label sets of 50 services on ten ingesters

enum {
    FIGURE_SERVICES = 50,
    FIGURE_SETS = 200,
    TEN = 10
};

// The owner of each, as ids, among the first `members` ingesters.
static void place_figure(struct fleet *f, size_t members, str owners[FIGURE_SERVICES][FIGURE_SETS])
{
    f->dispatch.member_count = members;
    for (unsigned s = 0; s < FIGURE_SERVICES; s++) {
        char service[16];
        snprintf(service, sizeof service, "s-%u", s);
        f->dispatch.service_need = f->dispatch.tenant_need = 0;
        for (uint64_t set = 0; set < FIGURE_SETS; set++) {
            char text[32];
            int n = snprintf(text, sizeof text, "pod=%u-%u", s, (unsigned)set);
            uint64_t hash = hash_str(str_make(text, (size_t)n));
            uint32_t row = dispatch_owner(&f->dispatch, str_of(service), hash, NULL);
            owners[s][set] = f->members[row].id;
        }
    }
}

static double imbalance(const struct fleet *f, str owners[FIGURE_SERVICES][FIGURE_SETS])
{
    unsigned count[TEN] = {0};
    unsigned most = 0;
    for (size_t i = 0; i < (size_t)FIGURE_SERVICES * FIGURE_SETS; i++) {
        for (size_t m = 0; m < TEN; m++)
            count[m] += str_eq(f->members[m].id, owners[i / FIGURE_SETS][i % FIGURE_SETS]);
    }
    for (size_t m = 0; m < TEN; m++)
        most = MAX(most, count[m]);
    return (double)most * TEN / FIGURE_SERVICES / FIGURE_SETS;
}

// Rates at which each service needs so many ingesters, measured by the distributor.
static void push_figure(struct fleet *f, uint32_t need)
{
    const uint64_t per = (uint64_t)f->config.ingester_rate;
    spread_release(&f->spread);
    spread_init(&f->spread);
    for (unsigned s = 0; s < FIGURE_SERVICES; s++) {
        char service[16];
        snprintf(service, sizeof service, "s-%u", s);
        // A byte at once counts like ln 2 / 40 s of it.
        uint64_t bytes = (uint64_t)((need - 0.5) * (double)per * 57.7);
        spread_note(&f->spread, spread_key(f->req.tenant, str_of(service)), bytes, per,
                    clock_mono_ns());
        spread_note(&f->spread, spread_key(f->req.tenant, (str){0}), bytes, per, clock_mono_ns());
    }
}

static void ten_thousand_label_sets_are_spread_evenly(void **state)
{
    (void)state;
    static str before[FIGURE_SERVICES][FIGURE_SETS];
    static str after[FIGURE_SERVICES][FIGURE_SETS];
    // docs/scaling.md has these figures. The limits of a row are those of its spread: few services
    // of few ingesters each are never even, and a new ingester takes the place of another in some
    // services' sets, whose label sets move besides its own.
    static const struct {
        uint32_t need;
        double uneven;  // max / mean, at most
        double moved;   // at most
    } cases[] = {{1, 2.5, 0.20}, {2, 1.8, 0.20}, {5, 1.25, 0.20}, {TEN + 1, 1.25, 0.12}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fleet f;
        size_t moved = 0;
        fleet_begin(&f);
        push_figure(&f, cases[i].need);
        place_figure(&f, TEN, before);
        place_figure(&f, TEN + 1, after);
        for (size_t k = 0; k < (size_t)FIGURE_SERVICES * FIGURE_SETS; k++)
            moved += !str_eq(before[k / FIGURE_SETS][k % FIGURE_SETS],
                             after[k / FIGURE_SETS][k % FIGURE_SETS]);
        double uneven = imbalance(&f, before);
        double part = (double)moved / FIGURE_SERVICES / FIGURE_SETS;
        print_message("services on %u of 10: max/mean %.2f, one more moves %.1f %%\n",
                      MIN(cases[i].need, (uint32_t)TEN), uneven, part * 100);
        if (uneven > cases[i].uneven || part > cases[i].moved)
            fail_msg("services on %u: %.2f, %.3f", cases[i].need, uneven, part);
        fleet_end(&f);
    }
}

// A push of each service, as dispatch_note measures it.
static void push_services(struct fleet *f, uint64_t bytes)
{
    for (unsigned s = 0; s < FIGURE_SERVICES; s++) {
        char service[16];
        snprintf(service, sizeof service, "s-%u", s);
        struct send_batch batch = {.batch = {.service = str_of(service), .record_count = 1}};
        struct send_batch *v[] = {&batch};
        struct send_buffer o = {.batches = v, .batch_count = 1};
        dispatch_note(&f->dispatch, &o, bytes);
    }
}

// With the settings of every installation: services that are far from needing a second ingester,
// but are a good part of what each has.
static void busy_ingesters_are_even(void **state)
{
    (void)state;
    static str owner[FIGURE_SERVICES][FIGURE_SETS];
    struct fleet f;
    unsigned away = 0;
    fleet_begin(&f);
    f.config.ingester_rate = 16 << 20;
    f.dispatch.member_count = TEN;
    push_services(&f, 57700);  // at once, which is 1 KB a second: nobody is busy
    assert_int_equal(__builtin_popcount(owners(&f, S("s-7"), false, &away)), 1);
    push_services(&f, 57700000);
    place_figure(&f, TEN, owner);
    double uneven = imbalance(&f, owner);
    print_message("50 services of 1 MB/s, 10 ingesters: max/mean %.2f\n", uneven);
    assert_true(uneven <= 1.25);
    assert_int_equal(spread_need(&f.spread, spread_key(f.req.tenant, S("s-7")), 16 << 20,
                                 clock_mono_ns()),
                     1);
    // With ids they stay at their homes.
    assert_int_equal(__builtin_popcount(owners(&f, S("s-7"), true, &away)), 1);
    assert_int_equal(away, 0);
    fleet_end(&f);
}

// A service that is nearly all there is has all ingesters, and one beside it that is nothing one.
static void evenness_asks_nothing_of_small_services(void **state)
{
    (void)state;
    struct fleet f;
    unsigned away = 0;
    fleet_begin(&f);
    f.config.ingester_rate = 16 << 20;
    struct send_batch batches[2] = {{.batch = {.service = S("s-1"), .record_count = 999}},
                                    {.batch = {.service = S("s-2"), .record_count = 1}}};
    struct send_batch *v[] = {&batches[0], &batches[1]};
    struct send_buffer o = {.batches = v, .batch_count = 2};
    dispatch_note(&f.dispatch, &o, 300 << 20);  // 5 MiB a second
    assert_true(__builtin_popcount(owners(&f, S("s-1"), false, &away)) >= INGESTERS - 1);
    assert_int_equal(__builtin_popcount(owners(&f, S("s-2"), false, &away)), 1);
    struct dispatch_place place;
    assert_ok(dispatch_explain(&f.dispatch, S("s-1"), 7, false, &place, e));
    assert_int_equal(place.service_need, 1);
    assert_true(place.service_even > INGESTERS);
    fleet_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ingesters_follow_the_rate),
        cmocka_unit_test(the_rate_is_that_of_any_interval),
        cmocka_unit_test(it_grows_at_once_and_shrinks_when_it_was_calm),
        cmocka_unit_test(it_shrinks_to_the_most_of_the_calm_time),
        cmocka_unit_test(a_rate_that_swings_does_not_move_it),
        cmocka_unit_test(a_rate_that_wobbles_by_a_fifth_never_shrinks),
        cmocka_unit_test(large_ones_are_found_among_many),
        cmocka_unit_test(tiny_tenants_share_the_ingesters),
        cmocka_unit_test(a_record_with_an_id_has_one_home_at_any_rate),
        cmocka_unit_test(a_tenant_gets_more_ingesters_as_it_grows),
        cmocka_unit_test(tiny_tenants_with_ids_share_the_ingesters),
        cmocka_unit_test(a_large_tenant_with_ids_goes_beyond_its_homes),
        cmocka_unit_test(homes_are_the_same_for_all_distributors),
        cmocka_unit_test(a_hot_label_set_goes_to_the_next_of_its_order_too),
        cmocka_unit_test(ten_thousand_label_sets_are_spread_evenly),
        cmocka_unit_test(busy_ingesters_are_even),
        cmocka_unit_test(evenness_asks_nothing_of_small_services),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
