// SPDX-License-Identifier: Apache-2.0
//
// bench.placement TENANTS SERVICES INGESTERS SECONDS - where a distributor with default settings
// places a fleet, by the rates that it measures on a clock of numbers. Tab-separated lines: a name,
// and its figures.
//
// Most tenants are tiny: each of their services pushes 75 bytes a second, once a minute. Each
// twentieth is of the middle, with ten services of a tenth of what one ingester takes; five are
// large, and each of these has services of the rates of large_rates. First all rates are steady for
// so many seconds, then they wobble by a fifth for as long: each second another rate between 0.8
// and 1.2 of its own, and each minute another level between the same.
#include "cluster/place.h"
#include "distributor/dispatch.h"
#include "lib/test.h"
#include "sys/clock.h"
#include "unit/ingester/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MIB        ((double)(1 << 20))
#define PER        ((uint64_t)16 << 20)  // the default of distributor.ingester_rate
#define LARGE      5
#define TINY_BYTES 75
#define SETS       200  // label sets of a service that is not tiny
#define MOST       64   // ingesters

static const double large_rates[] = {1, 12, 20, 40, 80, 160};  // MiB a second

struct source {  // a service that is not tiny
    uint32_t tenant;
    uint32_t service;
    double rate;
    double level;
    uint32_t need;    // ingesters, at the last second
    uint64_t before;  // bits of its ingesters before the rates wobbled
};

struct fleet {
    uint32_t tenants;
    uint32_t services;
    uint32_t ingesters;
    struct dice dice;
    struct spread spread;
    struct member *members;
    uint32_t *order;
    struct source *v;
    size_t n;
    struct distributor_config config;
    struct req req;
    struct dispatch dispatch;
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static bool is_middle(uint32_t tenant)
{
    return tenant >= LARGE && tenant % 20 == 0;
}

static str name_of(char text[24], char letter, uint32_t number)
{
    return str_make(text, (size_t)snprintf(text, 24, "%c-%u", letter, number));
}

static void add_source(struct fleet *f, uint32_t tenant, uint32_t service, double rate)
{
    f->v[f->n++] = (struct source){.tenant = tenant, .service = service, .rate = rate, .level = 1};
}

static void fleet_init(struct fleet *f)
{
    f->dice.state = 1;
    spread_init(&f->spread);
    req_init(&f->req, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    f->members = ARENA_ARRAY(&f->req.arena, struct member, f->ingesters);
    f->order = ARENA_ARRAY(&f->req.arena, uint32_t, f->ingesters);
    f->v = ARENA_ARRAY(&f->req.arena, struct source,
                       LARGE * COUNT(large_rates) + (size_t)f->tenants * 10);
    for (uint32_t i = 0; i < f->ingesters; i++) {
        f->members[i] =
            (struct member){.id = arena_printf(&f->req.arena, "ingester-%u", i), .alive = true};
    }
    for (uint32_t t = 0; t < f->tenants; t++) {
        for (uint32_t i = 0; t < LARGE && i < COUNT(large_rates); i++)
            add_source(f, t, i, large_rates[i] * MIB);
        for (uint32_t i = 0; is_middle(t) && i < 10; i++)
            add_source(f, t, i, (double)PER / 10);
    }
    f->config = (struct distributor_config){.ingester_rate = (int64_t)PER};
    f->dispatch = (struct dispatch){.req = &f->req,
                                    .config = &f->config,
                                    .members = f->members,
                                    .homes = f->members,
                                    .member_count = f->ingesters,
                                    .order = f->order,
                                    .spread = &f->spread};
}

// ---- rates

static void note(struct fleet *f, uint32_t tenant, uint32_t service, uint64_t bytes, uint64_t at_ns)
{
    char t[24];
    char s[24];
    str name = name_of(t, 't', tenant);
    spread_note(&f->spread, spread_key(name, (str){0}), bytes, PER, at_ns);
    spread_note(&f->spread, spread_key(name, name_of(s, 's', service)), bytes, PER, at_ns);
}

// In (-1, 1).
static double any(struct fleet *f)
{
    return (double)roll(&f->dice, 2001) / 1000 - 1;
}

// One second of the fleet: of the tiny services a sixtieth pushes.
static void push_second(struct fleet *f, uint64_t second, double wobble)
{
    for (uint32_t t = 0; t < f->tenants; t++) {
        for (uint32_t s = (uint32_t)(second % 60); s < f->services; s += 60)
            note(f, t, s, 60 * TINY_BYTES, second * NS_PER_S);
    }
    for (size_t i = 0; i < f->n; i++) {
        struct source *x = &f->v[i];
        if (second % 60 == 0) x->level = 1 + wobble * any(f);
        double bytes = x->rate * x->level * (1 + wobble * any(f));
        note(f, x->tenant, x->service, (uint64_t)bytes, second * NS_PER_S);
    }
}

// ---- places

// The dispatch of a push of the tenant: what its rates need is asked for at this time.
static void aim(struct fleet *f, str tenant, str service, uint64_t at_ns)
{
    struct dispatch *d = &f->dispatch;
    f->req.tenant = tenant;
    d->tenant_need = spread_need(&f->spread, spread_key(tenant, (str){0}), PER, at_ns);
    d->service = spread_key(tenant, service);
    d->service_need = spread_need(&f->spread, spread_key(tenant, service), PER, at_ns);
}

static uint64_t ingesters_of(struct fleet *f, uint32_t tenant, uint32_t service, uint32_t sets,
                             uint64_t at_ns)
{
    char t[24];
    char s[24];
    str name = name_of(s, 's', service);
    uint64_t used = 0;
    aim(f, name_of(t, 't', tenant), name, at_ns);
    for (uint32_t i = 0; i < sets; i++)
        used |= UINT64_C(1) << dispatch_owner(&f->dispatch, name, i * UINT64_C(7919) + 1, NULL);
    return used;
}

static uint32_t bits(uint64_t v)
{
    return (uint32_t)__builtin_popcountll(v);
}

static void place_all(struct fleet *f, uint64_t at_ns)
{
    uint64_t heads[MOST] = {0};
    uint64_t most = 0;
    uint64_t all = 0;
    uint64_t tiny = 0;
    uint32_t most_of_tiny = 0;
    uint32_t tenants = 0;
    for (uint32_t t = 0; t < f->tenants; t++) {
        uint64_t used = 0;
        for (uint32_t s = 0; s < f->services; s++) {
            uint64_t at = ingesters_of(f, t, s, 1, at_ns);
            used |= at;
            heads[__builtin_ctzll(at)]++;
        }
        if (t < LARGE || is_middle(t)) continue;
        tiny += bits(used);
        most_of_tiny = MAX(most_of_tiny, bits(used));
        tenants++;
    }
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < f->ingesters; i++) {
        least = MIN(least, heads[i]);
        most = MAX(most, heads[i]);
        all += heads[i];
    }
    printf("tiny\t%.3f\t%u\n", (double)tiny / tenants, most_of_tiny);
    printf("heads\t%llu\t%.0f\t%llu\n", (unsigned long long)least, (double)all / f->ingesters,
           (unsigned long long)most);
}

// Services of the large tenants by their rates: the fewest and the most ingesters that one has.
static void place_large(struct fleet *f, uint64_t at_ns)
{
    for (size_t k = 0; k < COUNT(large_rates); k++) {
        uint32_t least = UINT32_MAX;
        uint32_t most = 0;
        for (uint32_t t = 0; t < LARGE; t++) {
            uint32_t n = bits(ingesters_of(f, t, (uint32_t)k, SETS, at_ns));
            least = MIN(least, n);
            most = MAX(most, n);
        }
        printf("service\t%.0f\t%u\t%u\n", large_rates[k], least, most);
    }
}

// A tiny tenant whose profiles have ids of its agents: their homes, by the limit home_ingesters.
static void place_homes(struct fleet *f, uint64_t at_ns, size_t limit)
{
    uint64_t sum = 0;
    uint32_t most = 0;
    uint32_t tenants = 0;
    f->dispatch.home_ingesters = limit;
    for (uint32_t t = LARGE + 1; t < f->tenants; t += 20) {
        uint64_t used = 0;
        for (uint32_t i = 0; i < f->services; i++) {
            char tenant[24];
            char service[24];
            uint32_t home = 0;
            str name = name_of(service, 's', i);
            aim(f, name_of(tenant, 't', t), name, at_ns);
            used |= UINT64_C(1) << dispatch_owner(&f->dispatch, name, 1, &home);
        }
        sum += bits(used);
        most = MAX(most, bits(used));
        tenants++;
    }
    f->dispatch.home_ingesters = 0;
    printf("homes\t%zu\t%.3f\t%u\n", limit, (double)sum / tenants, most);
}

// Counts services that need fewer ingesters than a second ago.
static uint64_t count_fewer(struct fleet *f, uint64_t at_ns)
{
    uint64_t fewer = 0;
    for (size_t i = 0; i < f->n; i++) {
        char t[24];
        char s[24];
        struct source *x = &f->v[i];
        aim(f, name_of(t, 't', x->tenant), name_of(s, 's', x->service), at_ns);
        fewer += f->dispatch.service_need < x->need;
        x->need = f->dispatch.service_need;
    }
    return fewer;
}

static void wobble(struct fleet *f, uint64_t from, uint64_t seconds)
{
    uint64_t fewer = 0;
    uint64_t settled = 0;
    uint64_t moved = 0;
    for (size_t i = 0; i < f->n; i++)
        f->v[i].before = ingesters_of(f, f->v[i].tenant, f->v[i].service, SETS, from * NS_PER_S);
    uint64_t began = f->spread.changes;
    for (uint64_t s = from; s < from + seconds; s++) {
        push_second(f, s, 0.2);
        fewer += count_fewer(f, s * NS_PER_S);
        if (s == from + seconds / 2) settled = f->spread.changes;
    }
    for (size_t i = 0; i < f->n; i++) {
        const struct source *x = &f->v[i];
        moved +=
            x->before != ingesters_of(f, x->tenant, x->service, SETS, (from + seconds) * NS_PER_S);
    }
    printf("changes\t%llu\t%llu\t%llu\t%llu\t%zu\n", (unsigned long long)(settled - began),
           (unsigned long long)(f->spread.changes - settled), (unsigned long long)fewer,
           (unsigned long long)moved, f->n);
}

static void measure(struct fleet *f, uint64_t at_ns)
{
    enum {
        TIMES = 200000
    };
    double begun = now_ns();
    for (uint32_t i = 0; i < TIMES; i++)
        (void)ingesters_of(f, i % f->tenants, i % f->services, 1, at_ns);
    double place = (now_ns() - begun) / TIMES;
    begun = now_ns();
    for (uint32_t i = 0; i < TIMES; i++)
        note(f, i % f->tenants, i % f->services, TINY_BYTES, at_ns);
    printf("cpu\t%.0f\t%.0f\n", place, (now_ns() - begun) / TIMES);
}

int main(int argc, char **argv)
{
    static struct fleet f;
    if (argc != 5) {
        fprintf(stderr, "usage: bench.placement TENANTS SERVICES INGESTERS SECONDS\n");
        return 2;
    }
    f.tenants = (uint32_t)strtoul(argv[1], NULL, 10);
    f.services = (uint32_t)strtoul(argv[2], NULL, 10);
    f.ingesters = (uint32_t)strtoul(argv[3], NULL, 10);
    uint64_t seconds = strtoull(argv[4], NULL, 10);
    if (f.tenants <= LARGE || f.services < COUNT(large_rates) || f.ingesters > MOST) return 2;
    fleet_init(&f);
    for (uint64_t s = 1; s <= seconds; s++)
        push_second(&f, s, 0);
    place_all(&f, seconds * NS_PER_S);
    place_large(&f, seconds * NS_PER_S);
    place_homes(&f, seconds * NS_PER_S, 0);
    place_homes(&f, seconds * NS_PER_S, 2);
    wobble(&f, seconds + 1, seconds);
    measure(&f, 2 * seconds * NS_PER_S);
    req_release(&f.req);
    spread_release(&f.spread);
    return fflush(stdout) != 0;
}
