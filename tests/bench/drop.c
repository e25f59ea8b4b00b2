// SPDX-License-Identifier: Apache-2.0
//
// bench.drop ROWS - how long a reader waits while a cut of so many rows leaves the head.
//
// One service and series, in which a cut of ROWS rows goes and one of a quarter as many stays. A
// reader asks for the service's labels again and again. Tab-separated: rows, milliseconds of the
// drop, then the longest that a question took, in milliseconds, before it and while it went on.
#include "codec/varint.h"
#include "ingester/head.h"
#include "sys/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 256

static struct head *head;
static struct cut cuts[2];
static atomic_bool dropping;
static atomic_bool over;
static uint64_t longest[2];  // ns; before, and while it is dropped

static void must(bool ok, const err *e)
{
    if (ok) return;
    fprintf(stderr, "bench.drop: %s\n", e->msg);
    exit(1);
}

static void push(struct cut *cut, const struct symbol_table *t, uint64_t first)
{
    static label pairs[] = {{S_INIT("service_name"), S_INIT("service")}};
    static labels series = {pairs, COUNT(pairs)};
    struct record *v = calloc(BATCH, sizeof *v);
    uint8_t vector[] = {1, 1, 1, 2};  // one entry, divisor, stack, value 1
    struct arena a;
    struct staged *s = NULL;
    err e = {0};
    if (!v) exit(1);
    for (uint64_t i = 0; i < BATCH; i++) {
        v[i] = (struct record){.time_ns = (int64_t)(first + i),
                               .sibling = RECORD_NO_SIBLING,
                               .total = 1,
                               .vector = str_make((char *)vector, sizeof vector)};
        uint64_t id = first + i;
        memcpy(v[i].id.b, &id, sizeof id);
    }
    uint64_t fingerprint = labels_fingerprint(series);
    struct batch b = {.service = S("service"),
                      .series = &series,
                      .fingerprints = &fingerprint,
                      .records = v,
                      .series_count = 1,
                      .record_count = BATCH,
                      .symbols = *t};
    arena_init(&a, NULL, SIZE_MAX);
    must(head_stage(head, &a, S("tenant"), &b, 0, &s, &e), &e);
    head_publish(s, cut);
    arena_release(&a);
    free(v);
}

static void ask(void)
{
    str tenant = S("tenant");
    struct head_query q = {.tenants = &tenant, .tenant_count = 1, .to_ns = INT64_MAX};
    struct head_labels_want all = {0};
    struct label_sets sets;
    struct req r;
    err e = {0};
    req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    head_hold(head);
    must(head_labels(head, &r, &q, &all, &sets, &e), &e);
    head_let_go(head);
    req_release(&r);
}

static void *ask_on(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        bool during = atomic_load(&dropping);
        uint64_t began = clock_mono_ns();
        ask();
        uint64_t took = clock_mono_ns() - began;
        longest[during] = MAX(longest[during], took);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    struct symbols symbols;
    pthread_t thread;
    size_t dropped = 0;
    err e = {0};
    must(symbols_init(&symbols, NULL, &e), &e);
    uint32_t name = symbols_string(&symbols, S("main"), &e);
    uint32_t function = symbols_function(&symbols, (struct symbol_function){.name = name}, &e);
    uint32_t frame = symbols_frame(&symbols, (struct symbol_frame){.function = function}, &e);
    must(symbols_stack(&symbols, 0, frame, &e) == 1, &e);
    head = head_new(NULL, 0);
    head_remember(head);
    for (size_t i = 0; i < COUNT(cuts); i++) {
        cuts[i].number = i + 1;
        lock_init(&cuts[i].lock, LOCK_CUT);
    }
    uint64_t at = 1;
    for (; at < rows; at += BATCH)
        push(&cuts[0], &symbols.t, at);
    for (uint64_t end = at + rows / 4; at < end; at += BATCH)
        push(&cuts[1], &symbols.t, at);
    pthread_create(&thread, NULL, ask_on, NULL);
    struct timespec pause = {.tv_nsec = 200000000};
    nanosleep(&pause, NULL);
    uint64_t began = clock_mono_ns();
    atomic_store(&dropping, true);
    while (!head_drop(head, &cuts[0], true, &dropped)) {
    }
    uint64_t took = clock_mono_ns() - began;
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    printf("%zu\t%.1f\t%.3f\t%.3f\n", dropped, (double)took / 1e6, (double)longest[0] / 1e6,
           (double)longest[1] / 1e6);
    head_free(head);
    symbols_release(&symbols);
    for (size_t i = 0; i < COUNT(cuts); i++)
        lock_release(&cuts[i].lock);
    return 0;
}
