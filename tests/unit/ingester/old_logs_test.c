// SPDX-License-Identifier: Apache-2.0
//
// A log that an earlier program left is read at the start: every profile is there once, and what is
// pushed after it goes into a log of today beside it.
#include "log_format_3.h"
#include "segments.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <rocksdb/c.h>

#define PUSHES_OF_OLD 6
#define ROWS_OF_OLD   8  // of each, but of the first

static size_t old_facts(struct fact facts[PUSHES_OF_OLD * ROWS_OF_OLD], size_t from[PUSHES_OF_OLD])
{
    struct dice d = {303};
    size_t n = 0;
    for (unsigned i = 0; i < PUSHES_OF_OLD; i++) {
        from[i] = n;
        for (unsigned k = 0; k < (i == 0 ? 1 : ROWS_OF_OLD); k++) {
            struct fact f = fact_roll(&d, INT64_C(1900000000) * NS_PER_S, 3600 * NS_PER_S);
            f.tenant = i % 2;
            f.service = 0;
            f.sampled = false;
            facts[n++] = f;
        }
    }
    return n;
}

static str unhex(struct arena *a, const char *text)
{
    size_t n = strlen(text) / 2;
    uint8_t *bytes = ARENA_ARRAY(a, uint8_t, n);
    assert_true(hex_parse(str_of(text), bytes, n));
    return str_make((const char *)bytes, n);
}

// Makes the database again, row by row.
static void put_log(const char *dir)
{
    struct arena a;
    char *message = NULL;
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_writeoptions_t *wo = rocksdb_writeoptions_create();
    arena_init(&a, NULL, SIZE_MAX);
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_t *db = rocksdb_open(o, dir, &message);
    assert_null(message);
    rocksdb_column_family_handle_t *cut = NULL;
    for (size_t i = 0; i < log_format_3_rows; i++) {
        const struct old_row *r = &log_format_3[i];
        str key = unhex(&a, r->key);
        str value = unhex(&a, r->value);
        if (strcmp(r->family, "default") == 0) {
            rocksdb_put(db, wo, key.p, key.n, value.p, value.n, &message);
        } else {
            if (!cut) cut = rocksdb_create_column_family(db, o, r->family, &message);
            assert_null(message);
            rocksdb_put_cf(db, wo, cut, key.p, key.n, value.p, value.n, &message);
        }
        assert_null(message);
    }
    rocksdb_column_family_handle_destroy(cut);
    rocksdb_close(db);
    rocksdb_writeoptions_destroy(wo);
    rocksdb_options_destroy(o);
    arena_release(&a);
}

static void check_rows(struct whole *w, const struct fact *facts, const size_t *from, size_t n,
                       const struct fact *more)
{
    for (unsigned tenant = 0; tenant < 2; tenant++) {
        struct lines got;
        struct lines want;
        lines_init(&got);
        lines_init(&want);
        for (size_t i = 0; i < PUSHES_OF_OLD; i++) {
            struct batch b;
            size_t end = i + 1 < PUSHES_OF_OLD ? from[i + 1] : n;
            if (facts[from[i]].tenant != tenant) continue;
            str bytes = fact_batch(&want.arena, &facts[from[i]], end - from[i]);
            assert_ok(batch_decode(&want.arena, bytes, &b, e));
            lines_of_batch(&want, str_of(fact_tenants[tenant]), &b);
        }
        if (more && more->tenant == tenant) {
            struct batch b;
            assert_ok(batch_decode(&want.arena, fact_batch(&want.arena, more, 1), &b, e));
            lines_of_batch(&want, str_of(fact_tenants[tenant]), &b);
        }
        lines_of_head(&got, w->in->head, str_of(fact_tenants[tenant]));
        lines_same(&got, &want);
        lines_release(&got);
        lines_release(&want);
    }
}

static void a_log_of_format_3_is_read_and_gone_on_with(void **state)
{
    (void)state;
    static struct fact facts[PUSHES_OF_OLD * ROWS_OF_OLD];
    size_t from[PUSHES_OF_OLD];
    char dir[DIR_MAX];
    char log[DIR_PATH_MAX];
    struct whole w;
    struct dice d = {5};
    size_t n = old_facts(facts, from);
    dir_new(dir);
    dir_path(log, dir, "ingester");
    assert_ok(dir_make(log, e));
    dir_path(log, dir, "ingester/log");
    assert_ok(dir_make(log, e));
    put_log(log);
    struct fact more = fact_roll(&d, clock_wall_ns(), 1);
    more.sampled = false;
    more.service = 0;
    for (int start = 0; start < 3; start++) {
        whole_start(&w, dir, "");
        whole_await(&w);
        check_rows(&w, facts, from, n, start ? &more : NULL);
        assert_int_equal(wal_count(w.in->wal).lost_entries, 0);
        if (start < 2) assert_ok(whole_push(&w, &more, 1, e));      // the second time it is known
        if (start < 2) assert_ok(whole_push(&w, &facts[5], 1, e));  // so is this
        whole_stop(&w);
    }
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_of_format_3_is_read_and_gone_on_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
