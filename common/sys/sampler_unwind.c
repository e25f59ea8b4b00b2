// SPDX-License-Identifier: Apache-2.0
//
// sampler_unwind.c - finds the frames that a walk along frame pointers missed, by the unwind
// tables.
#include "sys/sampler_names_int.h"

#include <stdlib.h>

#include <dwarf.h>

// DWARF's numbers of x86-64's registers.
#define FRAME_POINTER 6
#define STACK_POINTER 7
#define WORD          8

// ---- rules

static bool base_and_offset(const Dwarf_Op *op, int *base, int64_t *offset)
{
    if (op->atom == DW_OP_bregx) {
        *base = (int)op->number;
        *offset = (int64_t)op->number2;
        return true;
    }
    if (op->atom < DW_OP_breg0 || op->atom > DW_OP_breg31) return false;
    *base = op->atom - DW_OP_breg0;
    *offset = (int64_t)op->number;
    return true;
}

// Finds the caller's frame pointer: still in the register (0), or saved so many words below the
// caller's frame. False: in another place.
static bool read_saved(Dwarf_Frame *frame, uint32_t *saved)
{
    Dwarf_Op mem[3];
    Dwarf_Op *ops = NULL;
    size_t n = 0;
    *saved = 0;
    if (dwarf_frame_register(frame, FRAME_POINTER, mem, &ops, &n) != 0) return false;
    // No operations: the register keeps the value (NULL), or its value is lost.
    if (n == 0) return ops == NULL;
    if (n != 2 || ops[0].atom != DW_OP_call_frame_cfa) return false;
    int64_t below = 0;
    if (ops[1].atom == DW_OP_plus_uconst) below = -(int64_t)ops[1].number;
    if (below <= 0 || below % WORD || below / WORD > UINT16_MAX) return false;
    *saved = (uint32_t)(below / WORD);
    return true;
}

static struct unwind_rule read_rule(Dwarf_Frame *frame)
{
    struct unwind_rule r = {.kind = RULE_UNKNOWN};
    Dwarf_Op *ops = NULL;
    size_t n = 0;
    int base = 0;
    int64_t offset = 0;
    if (dwarf_frame_cfa(frame, &ops, &n) != 0 || n == 0) return r;
    if (!base_and_offset(&ops[0], &base, &offset)) return r;
    // A frame that is aligned anew is found through a word of it: an expression on the same base.
    if (base == FRAME_POINTER) r.kind = RULE_FRAME;
    if (base != STACK_POINTER || n != 1 || offset <= 0 || offset % WORD) return r;
    if (offset / WORD > UINT16_MAX || !read_saved(frame, &r.saved)) return r;
    r.distance = (uint32_t)(offset / WORD);
    r.kind = RULE_STACK;
    return r;
}

static struct unwind_rule find_rule(struct sampler_names *n, uint64_t pc)
{
    struct unwind_rule r = {.kind = RULE_UNKNOWN};
#if defined(__x86_64__)
    Dwfl_Module *m = names_module(n, pc);
    Dwarf_Addr bias = 0;
    Dwarf_CFI *table = m ? dwfl_module_eh_cfi(m, &bias) : NULL;
    Dwarf_Frame *frame = NULL;
    if (!table || dwarf_cfi_addrframe(table, pc - bias, &frame) != 0) return r;
    r = read_rule(frame);
    assert(r.kind != RULE_STACK || r.distance > 0);
    free(frame);
#else
    (void)n, (void)pc;
#endif
    return r;
}

static struct unwind_rule rule_of(struct sampler_names *n, uint64_t pc)
{
    err ignored;
    struct pc_row *row = names_row(n, pc, &ignored);
    if (!row) return find_rule(n, pc);
    if (!row->ruled) row->rule = find_rule(n, pc);
    row->ruled = true;
    return row->rule;
}

// ---- repair

struct repair {
    struct sampler_names *names;
    const struct sample *sample;
    uint64_t *pcs;
    uint32_t count;
    uint32_t at;  // words of the stack that the frames so far take
    uint64_t fp;  // frame pointer of the outermost frame so far
};

// Steps one frame outward by the stack pointer. False: the caller is beyond the copied words, or
// the word there is no return address.
static bool step(struct repair *r, const struct unwind_rule *rule)
{
    assert(rule->kind == RULE_STACK && rule->distance > 0);
    const struct sample *s = r->sample;
    uint32_t at = r->at + rule->distance;
    if (at > s->top_words || rule->saved > at) return false;
    uint64_t pc = s->top[at - 1] - 1;
    if (!names_module(r->names, pc)) return false;
    if (rule->saved) r->fp = s->top[at - rule->saved];
    assert(r->count < SAMPLER_DEPTH_MAX);
    // - 1 above: a return address points behind the call, maybe into the next function.
    r->pcs[r->count++] = pc;
    r->at = at;
    return true;
}

// Adds frames that are in no chain, from the innermost outward, until one of them has a frame
// pointer. False: no such frame can be reached.
static bool put_hidden(struct repair *r)
{
    while (r->count < SAMPLER_DEPTH_MAX) {
        struct unwind_rule rule = rule_of(r->names, r->pcs[r->count - 1]);
        if (rule.kind != RULE_STACK) return true;
        if (step(r, &rule)) continue;
        // A function that leaves the frame pointer alone hides callers, but not the chain.
        if (rule.saved == 0) r->pcs[r->count++] = SAMPLE_GAP;
        return rule.saved == 0;
    }
    return false;
}

// The index at which the second chain goes on from the frame with this frame pointer; depth: none.
static uint32_t find_frame(const struct sample *s, uint64_t fp)
{
    assert(s->second <= s->depth);
    uint32_t i = s->second;
    while (i < s->depth && s->sp + s->frames[i] != fp)
        i++;
    return i;
}

uint32_t sampler_names_repair(struct sampler_names *n, const struct sample *s, uint64_t *pcs,
                              enum sample_end *end)
{
    struct repair r = {.names = n, .sample = s, .pcs = pcs, .fp = s->fp};
    *end = SAMPLE_LOST;
    if (s->depth == 0 || !names_module(n, s->pcs[0])) return 0;
    pcs[r.count++] = s->pcs[0];
    if (!put_hidden(&r)) return r.count;
    bool first = r.fp == s->fp;
    uint32_t from = first ? 1 : find_frame(s, r.fp);
    uint32_t to = first ? s->second : s->depth;
    // The hidden frames lead to none of the second chain, so nothing is known of further callers.
    if (!first && from == to) return r.count;
    for (uint32_t i = from; i < to; i++) {
        if (!names_module(n, s->pcs[i])) return r.count;
        if (r.count == SAMPLER_DEPTH_MAX) break;
        pcs[r.count++] = s->pcs[i];
    }
    *end = first ? s->end : SAMPLE_WHOLE;
    bool cut = r.count == SAMPLER_DEPTH_MAX || (!first && s->depth == SAMPLER_DEPTH_MAX);
    if (*end == SAMPLE_WHOLE && cut) *end = SAMPLE_DEEP;
    bool drop = *end == SAMPLE_WHOLE && s->rooted && r.count > 1;  // all threads begin there
    return r.count - drop;
}
