// SPDX-License-Identifier: Apache-2.0
//
// bench.drop ROWS SERVICES TENANTS - how long a reader waits while a cut of so many rows leaves.
//
// The rows are spread over as many services of as many tenants. The cut that goes has stacks of its
// own, so that a service's tables are mostly dead without it and are copied; a cut of a quarter as
// many rows stays. A reader asks for the labels of one service again and again. Prints, separated
// by tabs: rows, milliseconds of the drop; of the questions before it and of those meanwhile, the
// longest, that of which 99.9 % are shorter, and the longest that one waited, which is its time
// without the processor's; then what one hold of a service's lock took at most: milliseconds of the
// processor, rows, and ids that moved.
#include "codec/varint.h"
#include "ingester/head/head.h"
#include "sys/clock.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 256
#define ASKED ((size_t)1 << 22)

static struct head *head;
static struct cut cuts[2];
static atomic_bool dropping;
static atomic_bool over;
static uint64_t services;
static uint64_t tenants;

// Questions before it and while it is dropped.
static struct asked {
    uint32_t *ns;
    size_t n;
    uint64_t wait_ns;
} asked[2];

static void must(bool ok, const err *e)
{
    if (ok) return;
    fprintf(stderr, "bench.drop: %s\n", e->msg);
    exit(1);
}

static str name_of(char room[32], const char *what, uint64_t i)
{
    snprintf(room, 32, "%s-%llu", what, (unsigned long long)i);
    return str_of(room);
}

// Stacks that no other batch has.
static void own_stacks(struct symbols *s, uint64_t first)
{
    err e = {0};
    char text[32];
    must(symbols_init(s, NULL, &e), &e);
    for (uint64_t i = 0; i < 8; i++) {
        uint32_t name = symbols_string(s, name_of(text, "function", first + i), &e);
        uint32_t function = symbols_function(s, (struct symbol_function){.name = name}, &e);
        uint32_t frame = symbols_frame(s, (struct symbol_frame){.function = function}, &e);
        must(symbols_stack(s, 0, frame, &e) == i + 1, &e);
    }
}

static void push(struct cut *cut, const struct symbols *symbols, uint64_t first, uint64_t n,
                 uint64_t number)
{
    static struct record v[BATCH];
    static uint8_t vectors[8][4] = {{1, 1, 1, 2}, {1, 1, 2, 2}, {1, 1, 3, 2}, {1, 1, 4, 2},
                                    {1, 1, 5, 2}, {1, 1, 6, 2}, {1, 1, 7, 2}, {1, 1, 8, 2}};
    char tenant[32];
    char service[32];
    struct arena a;
    struct staged *s = NULL;
    err e = {0};
    label pair = {S("service_name"), name_of(service, "service", number)};
    labels series = {&pair, 1};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = first + i;
        v[i] = (struct record){.time_ns = (int64_t)id,
                               .sibling = RECORD_NO_SIBLING,
                               .total = 1,
                               .vector = str_make((char *)vectors[i % 8], sizeof vectors[0])};
        memcpy(v[i].id.b, &id, sizeof id);
    }
    uint64_t fingerprint = labels_fingerprint(series);
    struct batch b = {.service = pair.value,
                      .series = &series,
                      .fingerprints = &fingerprint,
                      .records = v,
                      .series_count = 1,
                      .record_count = (uint32_t)n,
                      .symbols = symbols->t};
    arena_init(&a, NULL, SIZE_MAX);
    must(head_stage(head, &a, name_of(tenant, "tenant", number % tenants), &b, NULL, &s, &e), &e);
    head_publish(s, cut);
    arena_release(&a);
}

static uint64_t fill(struct cut *cut, uint64_t first, uint64_t rows, bool own)
{
    uint64_t each = MAX(rows / services, 1);
    struct symbols symbols;
    own_stacks(&symbols, 0);
    for (uint64_t number = 0; number < services; number++) {
        for (uint64_t at = 0; at < each; at += BATCH) {
            uint64_t n = MIN(each - at, (uint64_t)BATCH);
            if (own && services < rows / 1000) {
                symbols_release(&symbols);
                own_stacks(&symbols, first);
            }
            push(cut, &symbols, first, n, number);
            first += n;
        }
    }
    symbols_release(&symbols);
    return first;
}

static void ask(void)
{
    str tenant = S("tenant-0");
    struct matcher one = {.name = S("service_name"), .value = S("service-0"), .op = MATCH_EQ};
    struct head_query q = {.tenants = &tenant,
                           .tenant_count = 1,
                           .to_ns = INT64_MAX,
                           .selector = {.v = &one, .n = 1}};
    struct head_labels_want all = {0};
    struct label_sets sets;
    struct req r;
    err e = {0};
    req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    head_pin(head);
    must(head_labels(head, &r, &q, &all, &sets, &e), &e);
    head_unpin(head);
    req_release(&r);
}

static void *ask_on(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        struct asked *to = &asked[atomic_load(&dropping)];
        uint64_t began = clock_mono_ns();
        uint64_t worked = clock_thread_ns();
        ask();
        worked = clock_thread_ns() - worked;
        uint64_t took = clock_mono_ns() - began;
        to->wait_ns = MAX(to->wait_ns, took > worked ? took - worked : 0);
        if (to->n < ASKED) to->ns[to->n++] = (uint32_t)MIN(took, UINT32_MAX);
    }
    return NULL;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_asked(struct asked *x)
{
    qsort(x->ns, x->n, sizeof *x->ns, by_number);
    double longest = x->n ? x->ns[x->n - 1] : 0;
    double most = x->n ? x->ns[(size_t)((double)x->n * 0.999)] : 0;
    printf("\t%.3f\t%.3f\t%.3f", longest / 1e6, most / 1e6, (double)x->wait_ns / 1e6);
}

int main(int argc, char **argv)
{
    uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    services = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    tenants = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    pthread_t thread;
    size_t dropped = 0;
    if (services == 0 || tenants == 0 || rows < services) return 2;
    mallopt(M_MMAP_THRESHOLD, 1 << 20);  // as service/process.c
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    head = head_new(NULL, 0);
    head_remember(head);
    for (size_t i = 0; i < COUNT(cuts); i++) {
        cuts[i].number = i + 1;
        lock_init(&cuts[i].lock, LOCK_CUT);
        asked[i].ns = calloc(ASKED, sizeof *asked[i].ns);
        if (!asked[i].ns) return 1;
    }
    uint64_t end = fill(&cuts[0], 1, rows, true);
    fill(&cuts[1], end, MAX(rows / 4, services), false);
    pthread_create(&thread, NULL, ask_on, NULL);
    struct timespec pause = {.tv_nsec = 500000000};
    (void)nanosleep(&pause, NULL);
    uint64_t began = clock_mono_ns();
    atomic_store(&dropping, true);
    while (!head_drop(head, &cuts[0], true, &dropped)) {
    }
    uint64_t took = clock_mono_ns() - began;
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    struct head_counts c = head_count(head);
    printf("%zu\t%.1f", dropped, (double)took / 1e6);
    print_asked(&asked[0]);
    print_asked(&asked[1]);
    printf("\t%.3f\t%llu\t%llu\n", (double)c.longest_hold / 1e6, (unsigned long long)c.longest_run,
           (unsigned long long)c.longest_recent_ids);
    head_free(head);
    for (size_t i = 0; i < COUNT(cuts); i++) {
        lock_release(&cuts[i].lock);
        free(asked[i].ns);
    }
    return 0;
}
