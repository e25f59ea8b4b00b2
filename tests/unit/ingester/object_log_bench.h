// SPDX-License-Identifier: Apache-2.0
//
// object_log_bench.h - one stream in a store in memory, its writer and who looks at it, for tests
// of object_log.h.
#pragma once

#include "base/hash.h"
#include "ingester/log/object_log_int.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/stream.h"

#include <stdlib.h>

#define STREAM ((id128){{0, 0, 0, 0, 0, 1, 7}})
#define LATE   OBJECT_LOG_LATE_NS

static const struct object_log_sealer sealer = {.node = S_INIT("other"),
                                                .nonce = {{0x5e}},
                                                .wall_ns = 77};

struct bench {
    struct store *store;
    struct req r;
    struct object_log_writer w;
    struct object_log_shelf shelf;
    uint64_t seq;
    uint64_t cut_first_seq;
    uint64_t cut;
    uint64_t first_seqs[16];  // of the cuts
    uint64_t first_of_cut;    // number of the open cut's first object
    bool unbound;             // objects have format 1
};

static inline int set_up(void **state)
{
    struct bench *b = mem_must(sizeof *b);
    b->store = memstore_open();
    req_init(&b->r, RANK_DUTY, NULL, 1 << 20, 0);
    object_log_init(&b->w, b->store, STREAM, NULL);
    b->seq = b->cut = b->cut_first_seq = b->first_seqs[1] = 1;
    object_log_pause_ns = 1000;
    *state = b;
    return 0;
}

static inline int tear_down(void **state)
{
    struct bench *b = *state;
    object_log_release(&b->w);
    object_log_shelf_release(&b->shelf);
    req_release(&b->r);
    assert_int_equal(memstore_uploads(b->store), 0);
    store_close(b->store);
    mem_must_free(b);
    return 0;
}

static inline str name_of(struct bench *b, uint64_t number)
{
    return name_log_object(&b->r.arena, STREAM, number);
}

// The first cut that is not covered.
static inline struct log_object_bound bound_of(struct bench *b)
{
    if (b->seq == b->cut_first_seq) b->first_of_cut = b->w.number;
    struct log_object_bound x = {b->first_of_cut, b->cut, b->cut_first_seq};
    for (size_t i = b->shelf.n; i > 0; i--) {
        const struct object_log_place *p = &b->shelf.v[i - 1];
        if (!p->covered) x = (struct log_object_bound){p->first, p->cut, b->first_seqs[p->cut]};
    }
    return b->unbound ? (struct log_object_bound){0} : x;
}

static inline void fill(struct bench *b, uint64_t count)
{
    struct log_object_packer p;
    struct log_object_head h = {.nonce = {{(uint8_t)b->seq, 1}},
                                .made_ns = (int64_t)b->seq * 10,
                                .cut = b->cut,
                                .cut_opened_ns = 5,
                                .cut_first_seq = b->cut_first_seq,
                                .first_seq = b->seq,
                                .count = count,
                                .covered = bound_of(b)};
    object_log_fill(&b->w, &p, &h);
    for (uint64_t i = 0; i < count; i++)
        log_object_add(&p, S("acme"), b->seq + i - b->cut_first_seq, S(""), S("r"));
    assert_ok(object_log_filled(&b->w, &p, e));
    b->seq += count;
}

static inline enum object_log_put put(struct bench *b, err *e)
{
    return object_log_put(&b->w, &b->r, e);
}

static inline void landed(struct bench *b, int64_t now)
{
    assert_ok(object_log_shelf_room(&b->shelf, e));
    object_log_landed(&b->shelf, &b->w, b->cut, now);
}

static inline void write_one(struct bench *b, uint64_t count)
{
    err why = {0};
    fill(b, count);
    assert_int_equal(put(b, &why), OBJECT_LOG_LANDED);
    landed(b, 0);
}

static inline void next_cut(struct bench *b)
{
    b->cut++;
    b->cut_first_seq = b->seq;
    assert_in_range(b->cut, 1, COUNT(b->first_seqs) - 1);
    b->first_seqs[b->cut] = b->seq;
}

// The object is of a later format now, and not damaged.
static inline void make_foreign(struct bench *b, uint64_t number)
{
    struct buf bytes;
    str is = memstore_bytes(b->store, name_of(b, number).p);
    size_t head = 2 + 2 + (uint8_t)is.p[3];
    buf_init(&bytes, NULL, 4096);
    buf_str(&bytes, is);
    bytes.p[1] = 3;
    uint32_t crc = crc32c(0, bytes.p, head);
    for (int i = 0; i < 4; i++)
        bytes.p[head + 1 + (size_t)i] = (char)(crc >> (8 * i));
    memstore_set(b->store, name_of(b, number).p, buf_view(&bytes));
    buf_release(&bytes);
}

// Two cuts: objects 1, 2 and 3, 4.
static inline void write_two_cuts(struct bench *b)
{
    write_one(b, 2);
    write_one(b, 1);
    next_cut(b);
    write_one(b, 1);
    write_one(b, 3);
}

// Its cuts are the arena's.
static inline struct object_log_survey look(struct bench *b)
{
    struct object_log_survey s;
    assert_ok(object_log_look(b->store, &b->r, STREAM, 0, &s, e));
    struct object_log_cut *cuts = ARENA_ARRAY(&b->r.arena, struct object_log_cut, s.n + 1);
    assert_non_null(cuts);
    if (s.n) memcpy(cuts, s.cuts, s.n * sizeof *cuts);
    size_t n = s.n;
    object_log_survey_release(&s);
    s.cuts = cuts;
    s.n = n;
    return s;
}

// What a reader was given of a cut.
struct reading {
    uint64_t seqs;
    uint64_t sum;
    uint64_t last_seq;
    size_t damaged;
    err why;
    bool covered;
    err fault;
};

static inline bool take(void *arg, const struct log_object *o, err *e)
{
    struct reading *x = arg;
    struct log_object_entry entry;
    str rest = o->entries;
    (void)e;
    while (log_object_next(&rest, &entry)) {
        assert_true(entry.seq > x->last_seq);
        x->last_seq = entry.seq;
        x->seqs++;
        x->sum += entry.seq;
    }
    return true;
}

static inline void take_damage(void *arg, const err *why)
{
    struct reading *x = arg;
    assert_int_equal(why->code, ERR_DATA_LOSS);
    x->damaged++;
    x->why = *why;
}

static inline bool read_cut(struct bench *b, const struct object_log_cut *c, struct reading *x)
{
    const struct object_log_reader to = {take, take_damage, x};
    return object_log_read(b->store, &b->r, STREAM, c, &to, &x->covered, &x->fault);
}

static inline void trim(struct bench *b, int64_t now)
{
    assert_ok(object_log_trim(&b->shelf, b->store, &b->r, STREAM, &b->w.told, now, e));
}

static inline void register_stream(struct bench *b)
{
    const struct registered_stream own = {.stream = STREAM,
                                          .node = S("n"),
                                          .address = S("a:1"),
                                          .log = STREAM_LOG_OBJECT};
    bool existed = false;
    assert_ok(stream_register(b->store, &b->r, &own, &existed, e));
}

static inline void there(struct bench *b, const char *numbers)
{
    char found[64] = "";
    char *names = memstore_names(b->store, "v1/log/");
    str rest = str_of(names);
    while (rest.p && rest.n) {
        str line = str_split(rest, '\n', &rest);
        if (line.n)
            snprintf(found + strlen(found), 8, "%s%c", found[0] ? " " : "", line.p[line.n - 1]);
    }
    free(names);
    assert_string_equal(found, numbers);
}

static inline uint64_t seal(struct bench *b)
{
    uint64_t number = 0;
    assert_ok(object_log_seal(b->store, &b->r, STREAM, &sealer, &number, e));
    return number;
}
