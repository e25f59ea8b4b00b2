// SPDX-License-Identifier: Apache-2.0
//
// The sums of what retention took: no change drops the last block that has them, be it planned or
// not.
#include "sys/log.h"
#include "unit/manifest/bench.h"

#include <stdio.h>

#define DAY (BENCH_HOUR / 24 * 24)

// Blocks by letter: leaves a, b, c of hour 1 of the day, of which a expires; parents with what they
// name in that hour or day, and their packs ('0' all, '1' the lower half, '2' the upper).
struct parent {
    char id;
    enum block_kind kind;
    const char *names;
    char packs;
    uint32_t classes;  // 0: 7
};

struct sums_case {
    const char *name;
    struct parent before[4];
    const char *expired;  // before the change
    const char *remove;   // letters of leaves and parents
    const char *expire;
    struct parent add[2];
    const char *fault;  // NULL: it lands
};

#define HOURS(id_, names_)                                  \
    {                                                       \
        .id = (id_), .kind = BLOCK_HOURS, .names = (names_) \
    }
#define DAYS(id_, names_)                                  \
    {                                                      \
        .id = (id_), .kind = BLOCK_DAYS, .names = (names_) \
    }
#define HALF(id_, names_, half_)                                              \
    {                                                                         \
        .id = (id_), .kind = BLOCK_HOURS, .names = (names_), .packs = (half_) \
    }

static const struct sums_case cases[] = {
    {"hour nodes made anew with all that they had",
     {HOURS('h', "ab")},
     "a",
     "h",
     "",
     {HOURS('i', "abc")},
     NULL},
    {"without what is gone", {HOURS('h', "ab")}, "a", "h", "", {HOURS('i', "b")}, "removes it"},
    {"without what goes with the same change",
     {HOURS('h', "ab")},
     "",
     "h",
     "a",
     {HOURS('i', "b")},
     "removes it"},
    {"without what is still there", {HOURS('h', "ab")}, "", "h", "", {HOURS('i', "b")}, NULL},
    {"another one has it", {HOURS('h', "a"), HOURS('i', "ab")}, "a", "h", "", {{0}}, NULL},
    {"a day has it, but not the hour",
     {HOURS('h', "a"), DAYS('d', "a")},
     "a",
     "h",
     "",
     {{0}},
     "removes it"},
    {"a leaf is replaced beside one that is gone",
     {HOURS('h', "ab")},
     "a",
     "b",
     "",
     {{0}},
     "replaces another leaf"},
    {"the same in the day", {DAYS('d', "ab")}, "a", "b", "", {{0}}, "replaces another leaf"},
    {"a leaf and the parent that names it",
     {HOURS('h', "ab")},
     "a",
     "bh",
     "",
     {HOURS('i', "c")},
     "removes it"},
    {"a leaf of which nobody sums the other",
     {HOURS('h', "a"), HOURS('i', "b")},
     "a",
     "bi",
     "",
     {{0}},
     NULL},
    {"what is stale already and the last to name it",
     {HOURS('h', "ax")},
     "a",
     "h",
     "",
     {HOURS('i', "b")},
     "removes it"},
    {"what is stale and has nothing of it", {HOURS('h', "bx")}, "a", "h", "", {{0}}, NULL},
    {"half of the packs", {HOURS('h', "a")}, "a", "h", "", {HALF('i', "a", '1')}, "removes it"},
    {"both halves",
     {HOURS('h', "a")},
     "a",
     "h",
     "",
     {HALF('i', "a", '1'), HALF('k', "a", '2')},
     NULL},
    {"a gap instead of sums",
     {HOURS('h', "a")},
     "a",
     "h",
     "",
     {{'i', BLOCK_HOURS, "a", '0', 8}},
     "removes it"},
    {"parents whose own time is over", {DAYS('d', "ab")}, "a", "", "d", {{0}}, NULL},
};

static id128 id_of(char c)
{
    return (id128){{1, (uint8_t)c}};
}

static struct manifest_block make(struct bench *b, const struct parent *p)
{
    struct manifest_block block =
        bench_block(p->kind, DAY, p->kind == BLOCK_DAYS ? 24 : 2, id_of(p->id));
    size_t n = strlen(p->names);
    struct manifest_cover *c = ARENA_ARRAY(&b->arena, struct manifest_cover, 1);
    id128 *leaves = ARENA_ARRAY(&b->arena, id128, n + 1);
    for (size_t i = 0; i < n; i++)
        leaves[i] = id_of(p->names[i]);
    bool day = p->kind == BLOCK_DAYS;
    *c = (struct manifest_cover){.hour = day ? DAY : DAY + 1,
                                 .hours = day ? 24 : 1,
                                 .leaves = leaves,
                                 .leaf_count = (uint32_t)n};
    block.covers = c;
    block.cover_count = 1;
    block.classes = p->classes == 8 ? 0 : 7;
    if (block.classes == 0) block.rows = 0;
    if (p->packs == '1') block.pack_hi = UINT32_MAX / 2;
    if (p->packs == '2') block.pack_lo = UINT32_MAX / 2 + 1;
    return block;
}

static size_t ids_of(const char *letters, id128 *v)
{
    size_t n = strlen(letters);
    for (size_t i = 0; i < n; i++)
        v[i] = id_of(letters[i]);
    return n;
}

static void check(const struct sums_case *c)
{
    struct bench b;
    bench_begin(&b);
    struct manifest_block v[8];
    size_t n = 0;
    for (const char *l = "abc"; *l; l++)
        v[n++] = bench_leaf(DAY + 1, id_of(*l), NULL, 0);
    for (size_t i = 0; i < COUNT(c->before) && c->before[i].id; i++)
        v[n++] = make(&b, &c->before[i]);
    assert_ok(bench_add(&b, v, n, e));
    id128 ids[2][8];
    struct manifest_change gone = {.expire = ids[0], .expire_count = ids_of(c->expired, ids[0])};
    if (gone.expire_count) assert_ok(bench_commit(&b, &gone, e));
    struct manifest_change change = {.add = v, .remove = ids[0], .expire = ids[1]};
    change.remove_count = ids_of(c->remove, ids[0]);
    change.expire_count = ids_of(c->expire, ids[1]);
    for (; change.add_count < COUNT(c->add) && c->add[change.add_count].id; change.add_count++) {
        v[change.add_count] = make(&b, &c->add[change.add_count]);
        bench_write_block(&b, &v[change.add_count]);
    }
    err e = {0};
    bool ok = bench_commit(&b, &change, &e);
    if (ok != !c->fault || (!ok && (e.code != ERR_ABORTED || !strstr(e.msg, c->fault))))
        fail_msg("%s: %s: %s", c->name, ok ? "landed" : err_name(e.code), e.msg);
    bench_end(&b);
}

static void the_last_sums_of_what_is_gone_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_sums_of_what_is_gone_stay),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
