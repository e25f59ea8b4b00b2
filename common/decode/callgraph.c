// SPDX-License-Identifier: Apache-2.0
//
// callgraph.c - a walk from each function up to its callers, depth first, with its own stack.
#include "decode/callgraph.h"

#include "base/hash.h"

#define PIECES    16384
#define DEPTH_MAX 256
#define STEPS_MIN ((size_t)1 << 19)  // a step may make a node of the graft: some 30 MB
#define STEPS_OF  ((size_t)4)        // for each byte of the input, all types together
#define NO_CALLER UINT32_MAX
#define BITS_MAX  62

void callgraph_init(struct callgraph *c, struct arena *a, uint32_t types)
{
    *c = (struct callgraph){.a = a, .types = types};
    map_init(&c->known, a->budget);
    map_init(&c->functions, a->budget);
}

void callgraph_release(struct callgraph *c)
{
    map_release(&c->known);
    map_release(&c->functions);
}

struct callgraph_probe {
    const struct callgraph *c;
    uint32_t one;
    uint32_t two;
};

static bool callgraph_same_frame(const void *ctx, uint32_t row)
{
    const struct callgraph_probe *want = ctx;
    return want->c->frames[row] == want->one;
}

static bool callgraph_same_edge(const void *ctx, uint32_t row)
{
    const struct callgraph_probe *want = ctx;
    const struct callgraph_edge *edge = &want->c->edges[row];
    return edge->caller == want->one && edge->callee == want->two;
}

bool callgraph_function(struct callgraph *c, uint32_t frame, uint32_t *function, err *e)
{
    const struct callgraph_probe want = {c, frame, 0};
    uint64_t hash = hash_table_word(frame);
    *function = map_find(&c->functions, hash, callgraph_same_frame, &want);
    if (*function != MAP_NONE) return true;
    size_t n = c->count + 1;
    if (!arena_grow(c->a, &c->frames, &c->frame_cap, n, sizeof *c->frames) ||
        !arena_grow(c->a, &c->self, &c->self_cap, n * c->types, sizeof *c->self))
        return arena_fail(c->a, e);
    *function = (uint32_t)c->count;
    c->frames[c->count++] = frame;
    memset(&c->self[(size_t)*function * c->types], 0, c->types * sizeof *c->self);
    return map_put(&c->functions, hash, *function, e);
}

bool callgraph_self(struct callgraph *c, uint32_t function, uint32_t type, int64_t value, err *e)
{
    assert(function < c->count && type < c->types);
    int64_t *sum = &c->self[(size_t)function * c->types + type];
    if (!__builtin_add_overflow(*sum, value, sum)) return true;
    return err_set(e, ERR_OUT_OF_RANGE, "the values of a function add up to more than 64 bits");
}

bool callgraph_call(struct callgraph *c, uint32_t caller, uint32_t callee, uint32_t *edge, err *e)
{
    const struct callgraph_probe want = {c, caller, callee};
    uint64_t hash = hash_table_word((uint64_t)caller << 32 | callee);
    assert(caller < c->count && callee < c->count);
    *edge = map_find(&c->known, hash, callgraph_same_edge, &want);
    if (*edge != MAP_NONE) return true;
    size_t n = c->edge_count + 1;
    if (!arena_grow(c->a, &c->edges, &c->edge_cap, n, sizeof *c->edges) ||
        !arena_grow(c->a, &c->weights, &c->weight_cap, n * c->types, sizeof *c->weights))
        return arena_fail(c->a, e);
    *edge = (uint32_t)c->edge_count;
    c->edges[c->edge_count++] = (struct callgraph_edge){caller, callee};
    memset(&c->weights[(size_t)*edge * c->types], 0, c->types * sizeof *c->weights);
    return map_put(&c->known, hash, *edge, e);
}

void callgraph_weight(struct callgraph *c, uint32_t edge, uint32_t type, int64_t value)
{
    assert(edge < c->edge_count && type < c->types);
    // Only a ratio: what does not fit is the most, and what is negative says nothing.
    int64_t *sum = &c->weights[(size_t)edge * c->types + type];
    if (value > 0 && __builtin_add_overflow(*sum, value, sum)) *sum = INT64_MAX;
}

// ---- the walk

// A function on the way up, and how far its value has been divided. The first part is that of no
// caller.
struct callgraph_step {
    uint32_t function;
    uint32_t next;      // caller, in by_callee; from first[function] on
    uint32_t heaviest;  // caller; or NO_CALLER
    bool begun;         // the part of no caller is given
    bool whole;         // too little to divide
    bool done;
    uint64_t value;
    uint64_t given;
    unsigned __int128 sum;  // of the weights of the callers before `next`
    unsigned __int128 all;
};

struct callgraph_walk {
    struct callgraph *c;
    struct graft *g;
    uint32_t root;
    uint32_t type;
    bool negative;
    uint32_t *first;      // of each function, in by_callee
    uint32_t *by_callee;  // edges
    int64_t *uncalled;    // cost of each function that no caller accounts for
    bool *on_path;
    struct callgraph_step *path;
    size_t depth;
    uint64_t least;  // pieces are not smaller
    size_t steps;    // that are left
};

static int64_t callgraph_weight_of(const struct callgraph_walk *w, uint32_t edge)
{
    return w->c->weights[(size_t)edge * w->c->types + w->type];
}

// Edges in the order of what they call.
static bool callgraph_sort(struct callgraph_walk *w, err *e)
{
    const struct callgraph *c = w->c;
    w->first = ARENA_ARRAY(c->a, uint32_t, c->count + 2);
    w->by_callee = ARENA_ARRAY(c->a, uint32_t, c->edge_count);
    w->uncalled = ARENA_ARRAY(c->a, int64_t, c->count);
    w->on_path = ARENA_ARRAY(c->a, bool, c->count);
    w->path = ARENA_ARRAY(c->a, struct callgraph_step, DEPTH_MAX);
    if (!w->first || !w->by_callee || !w->uncalled || !w->on_path || !w->path)
        return arena_fail(c->a, e);
    for (size_t i = 0; i < c->edge_count; i++)
        w->first[c->edges[i].callee + 2]++;
    for (size_t i = 2; i < c->count + 2; i++)
        w->first[i] += w->first[i - 1];
    for (size_t i = 0; i < c->edge_count; i++)
        w->by_callee[w->first[c->edges[i].callee + 1]++] = (uint32_t)i;
    return true;
}

// The cost of each function, its callees included, without the part that its callers account for.
static void callgraph_balance(struct callgraph_walk *w)
{
    const struct callgraph *c = w->c;
    for (size_t i = 0; i < c->count; i++) {
        int64_t self = c->self[i * c->types + w->type];
        w->uncalled[i] = self > 0 ? self : 0;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < c->edge_count; i++) {
            const struct callgraph_edge *edge = &c->edges[i];
            if (edge->caller == edge->callee) continue;
            int64_t *at = &w->uncalled[pass ? edge->callee : edge->caller];
            int64_t weight = callgraph_weight_of(w, (uint32_t)i);
            if (pass)
                *at = *at > weight ? *at - weight : 0;
            else if (__builtin_add_overflow(*at, weight, at))
                *at = INT64_MAX;
        }
    }
}

static bool callgraph_emit(struct callgraph_walk *w, uint64_t value, err *e)
{
    uint32_t node = w->root;
    for (size_t i = w->depth; i-- > 0;) {
        if (!graft_child(w->g, node, w->c->frames[w->path[i].function], &node, e)) return false;
    }
    w->steps -= MIN(w->steps, w->depth);
    assert(value <= INT64_MAX);
    return graft_add(w->g, node, w->type, w->negative ? -(int64_t)value : (int64_t)value, e);
}

static void callgraph_push(struct callgraph_walk *w, uint32_t function, uint64_t value)
{
    struct callgraph_step *s = &w->path[w->depth++];
    uint64_t most = (uint64_t)w->uncalled[function];
    *s = (struct callgraph_step){.function = function,
                                 .next = w->first[function],
                                 .heaviest = NO_CALLER,
                                 .value = value,
                                 .all = most};
    w->on_path[function] = true;
    for (uint32_t i = w->first[function]; i < w->first[function + 1]; i++) {
        uint32_t caller = w->c->edges[w->by_callee[i]].caller;
        uint64_t weight = (uint64_t)callgraph_weight_of(w, w->by_callee[i]);
        if (w->on_path[caller]) continue;
        s->all += weight;
        if (weight <= most) continue;
        most = weight;
        s->heaviest = caller;
    }
    w->steps -= MIN(w->steps, (size_t)(w->first[function + 1] - w->first[function]) + 1);
    s->whole = value / 2 < w->least || s->all == 0 || w->depth == DEPTH_MAX || w->steps == 0;
    if (w->depth == DEPTH_MAX || w->steps == 0) s->heaviest = NO_CALLER;
}

// The next piece: the part up to this weight, in multiples of the least, less what was given.
static uint64_t callgraph_piece(const struct callgraph_walk *w, struct callgraph_step *s,
                                uint64_t weight)
{
    s->sum += weight;
    uint64_t up_to = s->value;
    if (s->sum < s->all) {
        unsigned __int128 sum = s->sum;
        unsigned __int128 all = s->all;
        while (all >> BITS_MAX) {
            all >>= 1;
            sum >>= 1;
        }
        up_to = (uint64_t)(s->value * sum / all);
        up_to -= up_to % w->least;
        if (up_to > s->value) up_to = s->value;
    }
    uint64_t piece = up_to > s->given ? up_to - s->given : 0;
    s->given += piece;
    return piece;
}

// One step: gives a piece to a caller, or to none, or ends the function on top of the path.
static bool callgraph_step(struct callgraph_walk *w, err *e)
{
    struct callgraph_step *s = &w->path[w->depth - 1];
    if (s->whole && !s->done) {
        s->done = true;
        if (s->heaviest == NO_CALLER) return callgraph_emit(w, s->value, e);
        callgraph_push(w, s->heaviest, s->value);
        return true;
    }
    if (!s->done && !s->begun) {
        s->begun = true;
        uint64_t piece = callgraph_piece(w, s, (uint64_t)w->uncalled[s->function]);
        return piece == 0 || callgraph_emit(w, piece, e);
    }
    while (!s->done && s->next < w->first[s->function + 1]) {
        uint32_t edge = w->by_callee[s->next++];
        uint32_t caller = w->c->edges[edge].caller;
        if (w->on_path[caller]) continue;
        uint64_t piece = callgraph_piece(w, s, (uint64_t)callgraph_weight_of(w, edge));
        if (piece == 0) continue;
        callgraph_push(w, caller, piece);
        return true;
    }
    assert(s->whole || s->given == s->value);
    w->on_path[s->function] = false;
    w->depth--;
    return true;
}

static uint64_t callgraph_size(int64_t v)
{
    // The least number of all has no positive one.
    return v >= 0 ? (uint64_t)v : v == INT64_MIN ? (uint64_t)INT64_MAX : (uint64_t)-v;
}

static bool callgraph_put_type(struct callgraph_walk *w, err *e)
{
    const struct callgraph *c = w->c;
    unsigned __int128 all = 0;
    for (size_t i = 0; i < c->count; i++)
        all += callgraph_size(c->self[i * c->types + w->type]);
    w->least = MAX((uint64_t)1, (uint64_t)MIN(all / PIECES, (unsigned __int128)INT64_MAX));
    callgraph_balance(w);
    for (uint32_t i = 0; i < c->count; i++) {
        int64_t self = c->self[(size_t)i * c->types + w->type];
        if (self == 0) continue;
        if (self == INT64_MIN)
            return err_set(e, ERR_OUT_OF_RANGE, "the value of a function does not fit 64 bits");
        w->negative = self < 0;
        callgraph_push(w, i, callgraph_size(self));
        while (w->depth) {
            if (!callgraph_step(w, e)) return false;
        }
    }
    return true;
}

bool callgraph_put(struct callgraph *c, struct graft *g, uint32_t root, size_t bytes, err *e)
{
    struct callgraph_walk w = {.c = c, .g = g, .root = root};
    if (!callgraph_sort(&w, e)) return false;
    size_t left = STEPS_MIN + STEPS_OF * bytes;
    for (w.type = 0; w.type < c->types; w.type++) {
        size_t own = left / (c->types - w.type);  // what one does not need is for those after it
        w.steps = own;
        if (!callgraph_put_type(&w, e)) return false;
        left -= own - w.steps;
    }
    return true;
}
