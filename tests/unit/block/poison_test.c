// SPDX-License-Identifier: Apache-2.0
//
// A service as large as anybody can make it: a million stacks, each with a function of its own.
// Writer and reader stay within a worker's memory.
#include "unit/block/model_read.h"

#define STACKS 1000000
#define HOUR   INT64_C(472222)

// A comb: of every eight stacks seven are below the first, which hangs on the root or, at every
// other tooth, on the tooth before.
static struct symbol_table poison(void)
{
    struct symbol_table t = {.string_count = STACKS,
                             .function_count = STACKS,
                             .mapping_count = 1,
                             .frame_count = STACKS,
                             .stack_count = STACKS};
    t.strings = ARENA_ARRAY(&arena, str, STACKS);
    t.functions = ARENA_ARRAY(&arena, struct symbol_function, STACKS);
    t.mappings = ARENA_ARRAY(&arena, struct symbol_mapping, 1);
    t.frames = ARENA_ARRAY(&arena, struct symbol_frame, STACKS);
    t.stacks = ARENA_ARRAY(&arena, struct symbol_stack, STACKS);
    assert_ok(arena_ok(&arena, e));
    t.strings[0] = S("");
    for (uint32_t i = 1; i < STACKS; i++) {
        t.strings[i] =
            arena_printf(&arena, "com.example.generated.Proxy%08x.invoke%u", i * 2654435761u, i);
        t.functions[i] = (struct symbol_function){i, i, 0, i % 1000};
        t.frames[i] = (struct symbol_frame){.function = i, .line = i % 1000 + 5};
        t.stacks[i] = (struct symbol_stack){i % 8 == 1 && i % 16 != 1 ? 0 : i - 1, i};
    }
    return t;
}

static bool count_sink(void *arg, str bytes, err *e)
{
    (void)e;
    *(uint64_t *)arg += bytes.n;
    return true;
}

static bool write_poison(struct block_writer *w, const struct symbol_table *t, str all, err *e)
{
    int64_t total = 0;
    if (!w || !block_service(w, S("poison"), t, e) || !columns_check(all, STACKS, &total, e) ||
        !block_key(w, BLOCK_ALL, S("cpu"), (labels){0}, e)) {
        return false;
    }
    for (int64_t i = 0; i < 12; i++) {
        int64_t start = slot_start(HOUR * 12 + i, SLOT_FIVE);
        struct block_node n = {HOUR * 12 + i, SLOT_FIVE, 1, total, start + 1, start + 1};
        if (!block_node(w, &n, all, e)) return false;
    }
    return true;
}

static void a_million_stacks_fit_a_worker(void **state)
{
    (void)state;
    struct symbol_table t = poison();
    struct mem_budget budget;
    struct buf columns;
    struct block_written written = {0};
    uint64_t bytes = 0;
    int64_t *sums = ARENA_ARRAY(&arena, int64_t, STACKS);
    for (uint32_t i = 0; i < STACKS; i++)
        sums[i] = i % 90 + 1;
    buf_init(&columns, NULL, SIZE_MAX);
    columns_encode_sums(sums, STACKS, &columns);
    mem_budget_init(&budget, "worker", NULL, (size_t)256 << 20);
    struct block_writer_options o = {
        .about = {.kind = BLOCK_RAW, .from_hour = HOUR, .hours = 1, .pack_hi = UINT32_MAX},
        .sink = count_sink,
        .arg = &bytes,
        .memory = &budget};
    err fault = {0};
    struct block_writer *w = block_begin(&o, &fault);
    if (!write_poison(w, &t, buf_view(&columns), &fault)) fail_msg("%s", fault.msg);
    assert_ok(block_finish(w, &written, e));
    assert_int_equal(budget.used, 0);
    assert_true(written.bytes == bytes);
    print_message("%llu bytes; the writer took %zu MiB\n", (unsigned long long)bytes,
                  budget.peak >> 20);
    buf_release(&columns);
}

static void symbols_of_a_million_stacks_are_read(void **state)
{
    (void)state;
    struct symbol_table t = poison();
    struct symbol_table back = {0};
    struct mem_budget budget;
    struct arena a;
    struct model_block b = {0};
    struct buf out;
    struct block_written written = {0};
    buf_init(&out, NULL, SIZE_MAX);
    struct block_writer_options o = {
        .about = {.kind = BLOCK_RAW, .from_hour = HOUR, .hours = 1, .pack_hi = UINT32_MAX},
        .sink = model_sink,
        .arg = &out};
    err fault = {0};
    struct block_writer *w = block_begin(&o, &fault);
    assert_true(w && block_service(w, S("poison"), &t, &fault));
    assert_ok(block_finish(w, &written, e));
    model_open(buf_view(&out), &b);
    const struct block_extent *x = &b.footer.services[0].symbols;
    str contents = {0};
    mem_budget_init(&budget, "query", NULL, (size_t)256 << 20);
    arena_init(&a, &budget, SIZE_MAX);
    assert_ok(block_section(&a, x, str_slice(b.bytes, x->at, x->at + x->stored), "symbols",
                            &contents, e));
    assert_ok(block_symbols_parse(&a, contents, &back, e));
    print_message("%u bytes stored, %u raw; the reader took %zu MiB\n", x->stored, x->raw,
                  budget.peak >> 20);
    model_same_symbols(&back, &t);
    arena_release(&a);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_million_stacks_fit_a_worker),
        ARENA_TEST(symbols_of_a_million_stacks_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
