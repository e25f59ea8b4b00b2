// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "ingester/head/recent_ids.h"
#include "lib/clock.h"
#include "lib/dir.h"
#include "lib/test.h"
#include "sys/file.h"

#include <dirent.h>
#include <stdio.h>

static struct loose_key key_of(uint64_t n)
{
    struct loose_key k = {.series = n % 7};
    memcpy(k.id.b, &n, sizeof n);
    return k;
}

static void add(struct recent_ids *p, struct loose_key key, size_t most)
{
    (void)recent_ids_room(p, 1, most);
    recent_ids_add(p, S("a"), key);
}

static void what_was_added_is_known_by_tenant_series_and_id(void **state)
{
    (void)state;
    struct recent_ids p;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    assert_false(recent_ids_has(&p, S("a"), key_of(1)));
    for (uint64_t i = 0; i < 5000; i++)
        add(&p, key_of(i), SIZE_MAX);
    for (uint64_t i = 0; i < 5000; i++) {
        struct loose_key other = key_of(i);
        assert_true(recent_ids_has(&p, S("a"), key_of(i)));
        assert_false(recent_ids_has(&p, S("b"), key_of(i)));
        other.series += 100;
        assert_false(recent_ids_has(&p, S("a"), other));
    }
    assert_false(recent_ids_has(&p, S("a"), key_of(5000)));
    recent_ids_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
}

static void the_oldest_are_forgotten_when_their_room_is_full(void **state)
{
    (void)state;
    struct recent_ids p;
    struct mem_budget b;
    const size_t most = (size_t)1 << 16;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    for (uint64_t i = 0; i < 100000; i++) {
        add(&p, key_of(i), most);
        // Two generations, half of one while it grows, and filters.
        assert_true(atomic_load(&b.used) <= 3 * most);
        assert_true(recent_ids_has(&p, S("a"), key_of(i)));
        if (i > 1000) assert_true(recent_ids_has(&p, S("a"), key_of(i - 1000)));
    }
    assert_false(recent_ids_has(&p, S("a"), key_of(0)));
    recent_ids_release(&p);
}

// As many as filters have room for are faint: none of them is taken for a new one, and few new ones
// for one of them. What has no room there either is told, with the time until which it came.
static void what_has_no_room_is_faint_and_then_told(void **state)
{
    (void)state;
    static uint64_t came_ns[1 << 18];
    struct recent_ids p;
    struct recent_moment when;
    struct mem_budget b;
    const size_t most = (size_t)1 << 16;
    uint64_t n = 0;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    for (; !recent_ids_lack(&p, S("a"), &when); n++) {
        assert_true(n < COUNT(came_ns));
        clock_pass(NS_PER_S / 100);
        clock_pass_mono(NS_PER_S / 100);
        came_ns[n] = clock_mono_ns();
        uint64_t losses = recent_ids_losses(&p);
        bool had = n > 0 && recent_ids_has(&p, S("a"), key_of(0));
        add(&p, key_of(n), most);
        // Who asked before and after knows that it has to ask again.
        if (had && !recent_ids_has(&p, S("a"), key_of(0)))
            assert_int_not_equal(recent_ids_losses(&p), losses);
        if (n % 64) continue;
        for (uint64_t i = 0; i < n; i += 97)
            assert_true(recent_ids_has(&p, S("a"), key_of(i)) ||
                        recent_ids_may_have(&p, S("a"), key_of(i)) ||
                        recent_ids_lack(&p, S("a"), &when));
    }
    // Ten times as many as without filters, and more.
    assert_true(n > 10 * most / 43);
    assert_true(when.mono_ns < clock_mono_ns());
    int64_t known_ns = (int64_t)(clock_mono_ns() - when.mono_ns);
    assert_true(llabs(clock_wall_ns() - when.wall_ns - known_ns) < 60 * NS_PER_S);
    uint64_t known = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (came_ns[i] <= when.mono_ns) continue;
        known++;
        assert_true(recent_ids_has(&p, S("a"), key_of(i)) ||
                    recent_ids_may_have(&p, S("a"), key_of(i)));
    }
    assert_true(known > n / 2 && known < n);
    unsigned mistaken = 0;
    for (uint64_t i = n; i < n + 10000; i++)
        mistaken += recent_ids_may_have(&p, S("a"), key_of(i));
    assert_true(mistaken < 400);  // one in a thousand for each of some twenty filters
    // After half an hour nothing of it matters, and filters go with the next ids.
    clock_pass(31 * 60 * NS_PER_S);
    clock_pass_mono(31 * 60 * NS_PER_S);
    assert_false(recent_ids_lack(&p, S("a"), &when));
    for (uint64_t i = 0; i < most; i++)
        add(&p, key_of(n + i), most);
    assert_false(recent_ids_may_have(&p, S("a"), key_of(n - 1)));
    recent_ids_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
}

static void add_of(struct recent_ids *p, str tenant, struct loose_key key, size_t most)
{
    (void)recent_ids_room(p, 1, most);
    recent_ids_add(p, tenant, key);
}

// Adds ids of "a" until some were let go, and one of "modest" with each 200th of them. Returns how
// many of "modest" there are.
static uint64_t flood(struct recent_ids *p, size_t most, struct mem_budget *b)
{
    struct recent_moment when;
    uint64_t modest = 0;
    for (uint64_t n = 0; n < 1 << 18 && !recent_ids_lack_any(p, &when); n++) {
        clock_pass(NS_PER_S / 1000);
        clock_pass_mono(NS_PER_S / 1000);
        add(p, key_of(n), most);
        if (n % 200 == 0) add_of(p, S("modest"), key_of(modest++), most);
        assert_true(atomic_load(&b->used) <= 3 * most);
    }
    assert_true(recent_ids_lack_any(p, &when));
    return modest;
}

// Who has most ids pays for the room that there is not: the others' stay known, and what is said of
// their rows is not changed by it.
static void a_flood_of_one_tenant_takes_no_ids_of_the_others(void **state)
{
    (void)state;
    struct recent_ids p;
    struct recent_moment when;
    struct mem_budget b;
    const size_t most = (size_t)1 << 16;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    uint64_t modest = flood(&p, most, &b);
    assert_true(modest > 50);
    for (uint64_t i = 0; i < modest; i++)
        assert_true(recent_ids_has(&p, S("modest"), key_of(i)));
    for (uint64_t i = modest; i < 20000; i++)
        assert_false(recent_ids_may_have(&p, S("modest"), key_of(i)));
    assert_false(recent_ids_lack(&p, S("modest"), &when));
    assert_false(recent_ids_lack(&p, S("silent"), &when));
    assert_true(recent_ids_lack(&p, S("a"), &when));
    // What is kept is not kept for ever: it goes when it is too old to matter.
    for (unsigned i = 0; i < 4; i++) {
        clock_pass(20 * 60 * NS_PER_S);
        clock_pass_mono(20 * 60 * NS_PER_S);
        for (uint64_t k = 0; k < 20000; k++)
            add(&p, key_of((i + 1) * 1000000 + k), most);
    }
    for (uint64_t i = 0; i < modest; i++)
        assert_false(recent_ids_has(&p, S("modest"), key_of(i)));
    recent_ids_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
}

// Tenants that have as many as each other: no id is passed over silently.
static void ids_of_many_tenants_are_known_or_told(void **state)
{
    (void)state;
    struct recent_ids p;
    struct recent_moment when;
    struct mem_budget b;
    char text[16];
    const size_t most = (size_t)1 << 16;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    for (uint64_t n = 0; n < 60000; n++) {
        snprintf(text, sizeof text, "t%u", (unsigned)(n % 37));
        add_of(&p, str_of(text), key_of(n), most);
        assert_true(atomic_load(&b.used) <= 3 * most);
        for (uint64_t i = 0; n % 1000 == 0 && i <= n; i += 13) {
            snprintf(text, sizeof text, "t%u", (unsigned)(i % 37));
            str t = str_of(text);
            assert_true(recent_ids_has(&p, t, key_of(i)) || recent_ids_may_have(&p, t, key_of(i)) ||
                        recent_ids_lack(&p, t, &when));
        }
    }
    recent_ids_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
}

// However many there are: what waits for the lock waits for a few steps. A table that grows is
// moved with the keys that are added, and all are known and saved meanwhile.
static void a_table_grows_step_by_step(void **state)
{
    (void)state;
    struct recent_ids p;
    struct mem_budget b;
    struct buf keys;
    const uint64_t n = 200000;
    uint64_t saved = 0;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    buf_init(&keys, NULL, SIZE_MAX);
    for (uint64_t i = 0; i < n;) {
        size_t used = atomic_load(&b.used);
        size_t room = recent_ids_room(&p, 1000, SIZE_MAX);
        assert_int_equal(room, 1000);
        size_t had = atomic_load(&b.used);
        for (uint64_t end = i + room; i < end; i++)
            recent_ids_add(&p, S("a"), key_of(i));
        assert_int_equal(atomic_load(&b.used), had);  // only recent_ids_room asks for memory
        assert_true(recent_ids_has(&p, S("a"), key_of(i - 1)) &&
                    recent_ids_has(&p, S("a"), key_of(i / 2)));
        if (used == had && i % 7000) continue;
        recent_ids_fresh(&p, &keys);
        recent_ids_note_saved(&p, buf_view(&keys), true);
        saved += keys.n / RECENT_IDS_KEY;
        buf_clear(&keys);
    }
    recent_ids_fresh(&p, &keys);
    assert_int_equal(saved + keys.n / RECENT_IDS_KEY, n);  // each once
    for (uint64_t i = 0; i < n; i++)
        assert_true(recent_ids_has(&p, S("a"), key_of(i)));
    assert_false(recent_ids_has(&p, S("a"), key_of(n)));
    assert_true(recent_ids_longest(&p) <= 1024);
    buf_release(&keys);
    recent_ids_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
}

// A run of more keys than a generation may have is told how many fit.
static void a_generation_has_its_share(void **state)
{
    (void)state;
    struct recent_ids p;
    struct mem_budget b;
    const size_t most = (size_t)1 << 16;
    mem_budget_init(&b, "test", NULL, 0);
    recent_ids_init(&p, &b);
    uint64_t i = 0;
    while (i < 20000) {
        size_t room = recent_ids_room(&p, 5000, most);
        assert_true(room > 0 && room <= 1536);
        for (uint64_t end = i + room; i < end; i++)
            recent_ids_add(&p, S("a"), key_of(i));
        for (uint64_t k = i - MIN(i, 1537); k < i; k++)
            assert_true(recent_ids_has(&p, S("a"), key_of(k)));
        assert_true(atomic_load(&b.used) <= 3 * most);
    }
    recent_ids_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
}

static void without_memory_nothing_is_known_and_nothing_breaks(void **state)
{
    (void)state;
    struct recent_ids p;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 16);
    recent_ids_init(&p, &b);
    struct recent_moment when;
    assert_false(recent_ids_lack(&p, S("a"), &when));
    add(&p, key_of(1), SIZE_MAX);
    assert_false(recent_ids_has(&p, S("a"), key_of(1)));
    assert_true(recent_ids_lack(&p, S("a"), &when));
    recent_ids_release(&p);
}

// ---- files

// The path of the first file there, and how many there are.
static size_t files(const char *dir, char path[DIR_MAX + 300])
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *at = readdir(d); at; at = readdir(d)) {
        if (at->d_name[0] == '.') continue;
        if (n++ == 0) snprintf(path, DIR_MAX + 300, "%s/%s", dir, at->d_name);
    }
    closedir(d);
    return n;
}

static void what_was_saved_is_known_to_the_next_process(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char below[DIR_MAX + 8];
    char path[DIR_MAX + 300];
    struct recent_ids p;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 0);
    dir_new(dir);
    snprintf(below, sizeof below, "%s/past", dir);
    recent_ids_init(&p, &b);
    assert_ok(recent_ids_load(&p, below, SIZE_MAX, &b, e));  // there is no directory
    assert_ok(recent_ids_save(&p, below, &b, e));            // and nothing to save
    assert_false(file_exists(below));
    for (uint64_t i = 0; i < 3000; i++) {
        add(&p, key_of(i), SIZE_MAX);
        if (i % 1000 == 999) assert_ok(recent_ids_save(&p, below, &b, e));
        if (i % 1000 == 999) assert_int_equal(files(below, path), i / 1000 + 1);
    }
    assert_ok(recent_ids_save(&p, below, &b, e));
    assert_int_equal(files(below, path), 3);
    add(&p, key_of(3000), SIZE_MAX);
    recent_ids_release(&p);
    recent_ids_init(&p, &b);
    assert_ok(recent_ids_load(&p, below, SIZE_MAX, &b, e));
    for (uint64_t i = 0; i < 3000; i++)
        assert_true(recent_ids_has(&p, S("a"), key_of(i)));
    assert_false(recent_ids_has(&p, S("b"), key_of(0)));
    assert_false(recent_ids_has(&p, S("a"), key_of(3000)));
    // What was read is not written once more.
    assert_ok(recent_ids_save(&p, below, &b, e));
    assert_int_equal(files(below, path), 3);
    recent_ids_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
    dir_remove(dir);
}

static void put_le(struct buf *out, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        buf_byte(out, (uint8_t)(v >> (8 * i)));
}

// Files of the former format do not say whose ids they have. So each tenant is told of those that
// were let go.
static void files_of_the_former_format_are_read(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char path[DIR_MAX + 40];
    struct recent_ids p;
    struct recent_moment when;
    struct mem_budget b;
    struct buf file;
    const uint64_t n = 5000;
    mem_budget_init(&b, "test", NULL, 0);
    dir_new(dir);
    buf_init(&file, NULL, SIZE_MAX);
    buf_put(&file, "FTPAST1\n", 8);
    for (uint64_t i = 0; i < n; i++) {
        struct loose_key key = key_of(i);
        put_le(&file, hash_mix(hash_str(S("a")), key.series), 8);
        buf_put(&file, key.id.b, sizeof key.id.b);
    }
    put_le(&file, crc32c(0, file.p, file.n), 4);
    char name[ULID_TEXT];
    ulid_print(ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), (uint8_t[10]){1}), name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(file_write(path, buf_view(&file), e));
    recent_ids_init(&p, &b);
    assert_ok(recent_ids_load(&p, dir, SIZE_MAX, &b, e));
    for (uint64_t i = 0; i < n; i++)
        assert_true(recent_ids_has(&p, S("a"), key_of(i)));
    recent_ids_release(&p);
    // With hardly any room.
    recent_ids_init(&p, &b);
    assert_ok(recent_ids_load(&p, dir, 8192, &b, e));
    for (uint64_t i = 0; i < n; i++)
        assert_true(recent_ids_has(&p, S("a"), key_of(i)) ||
                    recent_ids_may_have(&p, S("a"), key_of(i)) ||
                    recent_ids_lack(&p, S("a"), &when));
    assert_true(recent_ids_lack(&p, S("a"), &when) && recent_ids_lack(&p, S("b"), &when));
    recent_ids_release(&p);
    buf_release(&file);
    assert_int_equal(atomic_load(&b.used), 0);
    dir_remove(dir);
}

static void files_go_with_what_they_say(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char path[DIR_MAX + 300];
    char half[DIR_MAX + 310];
    struct recent_ids p;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 0);
    dir_new(dir);
    recent_ids_init(&p, &b);
    add(&p, key_of(1), SIZE_MAX);
    assert_ok(recent_ids_save(&p, dir, &b, e));
    assert_int_equal(files(dir, path), 1);
    snprintf(half, sizeof half, "%s.tmp", path);
    assert_ok(file_write(half, S("half"), e));
    clock_pass((int64_t)RECENT_IDS_NS);
    assert_ok(recent_ids_load(&p, dir, SIZE_MAX, &b, e));
    assert_int_equal(files(dir, path), 1);  // nobody goes on with half a file
    clock_pass((int64_t)RECENT_IDS_NS + NS_PER_S);
    recent_ids_release(&p);
    recent_ids_init(&p, &b);
    assert_ok(recent_ids_load(&p, dir, SIZE_MAX, &b, e));
    assert_false(recent_ids_has(&p, S("a"), key_of(1)));
    assert_int_equal(files(dir, path), 0);
    recent_ids_release(&p);
    dir_remove(dir);
}

static void a_file_that_is_damaged_is_told_and_believed_in_nothing(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char path[DIR_MAX + 300];
    struct recent_ids p;
    struct mem_budget b;
    struct buf good;
    mem_budget_init(&b, "test", NULL, 0);
    dir_new(dir);
    recent_ids_init(&p, &b);
    buf_init(&good, NULL, SIZE_MAX);
    for (uint64_t i = 0; i < 3; i++)
        add(&p, key_of(i), SIZE_MAX);
    assert_ok(recent_ids_save(&p, dir, &b, e));
    recent_ids_release(&p);
    assert_int_equal(files(dir, path), 1);
    assert_ok(file_read(path, &good, e));
    for (size_t i = 0; i < 2 * good.n; i++) {
        err fault = {0};
        struct buf bad;
        buf_init(&bad, NULL, SIZE_MAX);
        buf_put(&bad, good.p, i < good.n ? i : good.n);  // cut, or one bit is wrong
        if (i >= good.n) bad.p[i - good.n] ^= (char)(1 << i % 8);
        assert_ok(file_write(path, buf_view(&bad), e));
        buf_release(&bad);
        recent_ids_init(&p, &b);
        assert_false(recent_ids_load(&p, dir, SIZE_MAX, &b, &fault));
        assert_int_equal(fault.code, ERR_DATA_LOSS);
        assert_non_null(strstr(fault.msg, path));
        for (uint64_t k = 0; k < 3; k++)
            assert_false(recent_ids_has(&p, S("a"), key_of(k)));
        recent_ids_release(&p);
    }
    buf_release(&good);
    dir_remove(dir);
}

static void what_could_not_be_saved_is_saved_by_the_next_try(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char below[DIR_MAX + 8];
    char path[DIR_MAX + 300];
    struct recent_ids p;
    struct mem_budget b;
    err fault = {0};
    mem_budget_init(&b, "test", NULL, 0);
    dir_new(dir);
    snprintf(below, sizeof below, "%s/past", dir);
    assert_ok(file_write(below, S("a file is in the way"), e));
    recent_ids_init(&p, &b);
    add(&p, key_of(1), SIZE_MAX);
    assert_false(recent_ids_save(&p, below, &b, &fault));
    assert_ok(file_remove(below, e));
    assert_ok(recent_ids_save(&p, below, &b, e));
    assert_int_equal(files(below, path), 1);
    recent_ids_release(&p);
    recent_ids_init(&p, &b);
    assert_ok(recent_ids_load(&p, below, SIZE_MAX, &b, e));
    assert_true(recent_ids_has(&p, S("a"), key_of(1)));
    recent_ids_release(&p);
    dir_remove(dir);
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_known_by_tenant_series_and_id),
        cmocka_unit_test(the_oldest_are_forgotten_when_their_room_is_full),
        cmocka_unit_test(what_has_no_room_is_faint_and_then_told),
        cmocka_unit_test(a_flood_of_one_tenant_takes_no_ids_of_the_others),
        cmocka_unit_test(ids_of_many_tenants_are_known_or_told),
        cmocka_unit_test(a_table_grows_step_by_step),
        cmocka_unit_test(a_generation_has_its_share),
        cmocka_unit_test(without_memory_nothing_is_known_and_nothing_breaks),
        cmocka_unit_test(what_was_saved_is_known_to_the_next_process),
        cmocka_unit_test(files_of_the_former_format_are_read),
        cmocka_unit_test(files_go_with_what_they_say),
        cmocka_unit_test(a_file_that_is_damaged_is_told_and_believed_in_nothing),
        cmocka_unit_test(what_could_not_be_saved_is_saved_by_the_next_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
