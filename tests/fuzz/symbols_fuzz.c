// SPDX-License-Identifier: Apache-2.0
//
// Message Symbols. Properties: what decodes encodes, and that decodes and encodes to the same
// bytes; pruning to all stacks keeps every stack; interning the table and building a tree of it
// (both walk every reference) work, and the tree of the interned table is the same. An export as
// pprof, read by the pprof decoder, has the frames of every stack.
#include "decode/decode.h"
#include "model/merge.h"
#include "model/pprof.h"
#include "model/tree.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

static void check_round_trip(struct arena *a, const struct symbol_table *t)
{
    struct buf one;
    struct buf two;
    struct symbol_table back;
    err e = {0};
    buf_init(&one, NULL, SIZE_MAX);
    buf_init(&two, NULL, SIZE_MAX);
    must(symbols_encode(t, NULL, a, NULL, &one, &e));
    must(symbols_decode(a, buf_view(&one), &back, &e));
    must(back.stack_count == t->stack_count && back.frame_count == t->frame_count);
    must(back.function_count == t->function_count && back.mapping_count == t->mapping_count);
    must(back.string_count == t->string_count);
    must(symbols_encode(&back, NULL, a, NULL, &two, &e));
    must(str_eq(buf_view(&one), buf_view(&two)));
    bool *used = ARENA_ARRAY(a, bool, t->stack_count);
    uint32_t *ids = ARENA_ARRAY(a, uint32_t, t->stack_count);
    must(used && ids);
    memset(used, true, t->stack_count);
    buf_clear(&one);
    must(symbols_encode(t, used, a, ids, &one, &e));
    must(symbols_decode(a, buf_view(&one), &back, &e));
    must(back.stack_count == t->stack_count);
    must(ids[t->stack_count - 1] == t->stack_count - 1);
    buf_release(&one);
    buf_release(&two);
}

static void bytes_of(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                     struct buf *out)
{
    struct tree tree;
    err e = {0};
    must(tree_build(a, t, sums, NULL, 0, &tree, &e));
    must(tree_bytes(&tree, out, &e));
}

static void check_trees(struct arena *a, const struct symbol_table *t)
{
    struct merge m;
    struct merge names;
    struct buf out[3];
    err e = {0};
    int64_t *sums = ARENA_ARRAY(a, int64_t, t->stack_count);
    must(sums != NULL);
    for (uint32_t i = 0; i < t->stack_count; i++)
        sums[i] = i % 5;
    must(merge_init(&m, NULL, false, &e) && merge_init(&names, NULL, true, &e));
    must(merge_add_sums(&m, t, sums, &e) && merge_add_sums(&names, t, sums, &e));
    const struct symbol_table *tables[] = {t, &m.symbols.t, &names.symbols.t};
    const int64_t *values[] = {sums, m.sums, names.sums};
    for (size_t i = 0; i < COUNT(out); i++) {
        buf_init(&out[i], NULL, SIZE_MAX);
        bytes_of(a, tables[i], values[i], &out[i]);
        must(str_eq(buf_view(&out[i]), buf_view(&out[0])));
    }
    for (size_t i = 0; i < COUNT(out); i++)
        buf_release(&out[i]);
    merge_release(&m);
    merge_release(&names);
}

// Walks one sample's lines and the stack's frames from the leaf side by side; a frame without
// function has no line.
static void compare_sample(const struct profile *p, const struct profile_sample *s,
                           const struct symbol_table *t, uint32_t stack)
{
    for (uint32_t i = 0; i < s->location_count; i++) {
        const struct profile_location *l = &p->locations[p->stack_locations[s->first_location + i]];
        uint32_t line = 0;
        bool inlined = true;
        for (; inlined; stack = t->stacks[stack].parent) {
            must(stack != 0);
            const struct symbol_frame *f = &t->frames[t->stacks[stack].frame];
            inlined = f->inlined && t->stacks[stack].parent != 0;
            if (!inlined) must(l->address == f->address);
            if (!inlined) must((l->mapping == PROFILE_NONE) == (f->mapping == 0));
            if (!f->function) continue;
            must(line < l->line_count);
            const struct profile_line *got = &p->lines[l->first_line + line++];
            const struct symbol_function *g = &t->functions[f->function];
            must(got->line == f->line);
            must(str_eq(p->functions[got->function].name, t->strings[g->name]));
            must(str_eq(p->functions[got->function].filename, t->strings[g->filename]));
            must(p->functions[got->function].start_line == g->start_line);
        }
        must(line == l->line_count);
    }
    must(stack == 0);
}

static void check_export(struct arena *a, const struct symbol_table *t)
{
    struct buf out;
    struct decoded d;
    err e = {0};
    buf_init(&out, NULL, 64 << 20);
    int64_t *sums = ARENA_ARRAY(a, int64_t, t->stack_count);
    must(sums != NULL);
    for (uint32_t i = 0; i < t->stack_count; i++)
        sums[i] = (int64_t)i + 1;
    const struct pprof_options o = {.header = {.sample_type = S("cpu"), .sample_unit = S("ns")}};
    const struct decode_options options = {0};
    must(pprof_encode(a, t, sums, &o, &out, &e));
    must(decode_pprof(a, buf_view(&out), &options, &d, NULL, &e));
    must(d.count == 1 && d.profiles->sample_count == t->stack_count);
    for (uint32_t i = 0; i < t->stack_count; i++) {
        must(d.profiles->values[i] == sums[i]);
        compare_sample(d.profiles, &d.profiles->samples[i], t, i);
    }
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct symbol_table t;
    err e = {0};
    arena_init(&a, NULL, SIZE_MAX);
    if (symbols_decode(&a, str_make(data, size), &t, &e)) {
        check_round_trip(&a, &t);
        check_trees(&a, &t);
        check_export(&a, &t);
    } else {
        must(e.code == ERR_INVALID_ARGUMENT);
    }
    arena_release(&a);
    return 0;
}
