// SPDX-License-Identifier: Apache-2.0
//
// stack_rows.c - rows of a profile's tables are mapped once, and of a stack only what it does not
// share with the one before.
#include "intake/stack_rows.h"

// Counts the frames of all locations; a location without lines is one frame.
static uint32_t place_frames(struct stack_rows *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->p->location_count; i++) {
        s->places[i] = n;
        // The sum fits 32 bits: a body has less than 2 GiB, and each line and location takes some
        // bytes of it.
        n += MAX(s->p->locations[i].line_count, 1u);
    }
    return n;
}

static bool reserve(struct stack_rows *s, uint32_t frames, err *e)
{
    const struct profile *p = s->p;
    uint64_t named = (uint64_t)p->function_count * 3 + (uint64_t)p->mapping_count * 2;
    uint64_t strings = p->string_count ? p->string_count : p->function_count;
    // An estimate: most profiles have fewer stacks, and the table grows if there are more.
    uint64_t stacks = MIN(p->stack_location_count, (uint64_t)frames * 2);
    struct symbols_room room = {
        .strings = (uint32_t)MIN(strings, named),
        .functions = p->function_count,
        .mappings = p->mapping_count,
        .frames = frames,
        .stacks = (uint32_t)stacks,
    };
    return symbols_reserve(s->to, &room, e);
}

static bool string_row(struct symbols *to, str text, uint32_t *row, err *e)
{
    *row = symbols_string(to, text, e);
    return *row != MAP_NONE;
}

// The place in which this text would be remembered. Hashed by address: fast, and only a cache.
static struct stack_rows_text *text_slot(struct stack_rows *s, str text)
{
    uint64_t where = (uint64_t)(uintptr_t)text.p * 0x9e3779b97f4a7c15u;
    // The upper bits: those of a product depend on all bits of the address, the lower ones do not.
    return &s->texts[where >> 56 & (STACKS_TEXTS - 1)];
}

static bool known_string_row(struct stack_rows *s, str text, uint32_t *row, err *e)
{
    struct stack_rows_text *t = text_slot(s, text);
    if (t->p == text.p && t->n == text.n) {
        *row = t->row;
        return true;
    }
    // Another text had the slot, or this one comes for the first time.
    if (!string_row(s->to, text, row, e)) return false;
    if (text.n <= UINT32_MAX) *t = (struct stack_rows_text){text.p, (uint32_t)text.n, *row};
    return true;
}

static uint32_t function_row(struct stack_rows *s, uint32_t function, err *e)
{
    if (s->functions[function]) return s->functions[function] - 1;
    assert(function < s->p->function_count);
    const struct profile_function *f = &s->p->functions[function];
    struct symbol_function row = {.start_line = f->start_line};
    if (!string_row(s->to, f->name, &row.name, e) ||
        !known_string_row(s, f->filename, &row.filename, e)) {
        return MAP_NONE;
    }
    bool same = f->system_name.p == f->name.p && f->system_name.n == f->name.n;
    // Usually both names are one string of the message, so comparing addresses saves a look-up.
    row.system_name = row.name;
    if (!same && !string_row(s->to, f->system_name, &row.system_name, e)) return MAP_NONE;
    uint32_t id = symbols_function(s->to, row, e);
    if (id != MAP_NONE && s->hints && !symbols_hint(s->hints, row.name, id, e)) return MAP_NONE;
    s->functions[function] = id + 1;  // MAP_NONE + 1 is 0: not known
    return id;
}

static uint32_t mapping_row(struct stack_rows *s, uint32_t mapping, err *e)
{
    if (mapping == PROFILE_NONE) return 0;
    assert(mapping < s->p->mapping_count);
    if (s->mappings[mapping]) return s->mappings[mapping] - 1;
    const struct profile_mapping *m = &s->p->mappings[mapping];
    struct symbol_mapping row = {.start = m->start,
                                 .limit = m->limit,
                                 .offset = m->offset,
                                 .flags = m->flags};
    if (!string_row(s->to, m->filename, &row.filename, e) ||
        !string_row(s->to, m->build_id, &row.build_id, e)) {
        return MAP_NONE;
    }
    uint32_t id = symbols_mapping(s->to, row, e);
    // As for functions: after a failure id + 1 is 0, and the mapping is looked up again.
    s->mappings[mapping] = id + 1;
    return id;
}

// Adds the frames of a location, outermost line first. The first of them is set last, because it
// says that all are there.
static bool make_frames(struct stack_rows *s, const struct profile_location *l, uint32_t *frames,
                        err *e)
{
    struct symbol_frame frame = {.address = l->address, .mapping = mapping_row(s, l->mapping, e)};
    if (frame.mapping == MAP_NONE) return false;
    assert(frames[0] == 0);
    // pprof lists the innermost function of a location first; a stack is built from the outermost.
    for (uint32_t k = 0; k < l->line_count; k++) {
        const struct profile_line *line = &s->p->lines[l->first_line + k];
        frame.function = function_row(s, line->function, e);
        if (frame.function == MAP_NONE) return false;
        frame.line = line->line;
        frame.inlined = k + 1 < l->line_count;
        uint32_t row = symbols_frame(s->to, frame, e);
        if (row == MAP_NONE) return false;
        frames[l->line_count - 1 - k] = row + 1;
    }
    if (l->line_count > 0) return true;
    uint32_t row = symbols_frame(s->to, frame, e);
    frames[0] = row + 1;
    return row != MAP_NONE;
}

// The stack of a location called by `parent`.
static inline uint32_t location_row(struct stack_rows *s, uint32_t parent, uint32_t location,
                                    err *e)
{
    const struct profile_location *l = &s->p->locations[location];
    uint32_t *frames = s->frames + s->places[location];
    if (frames[0] == 0 && !make_frames(s, l, frames, e)) return MAP_NONE;
    uint32_t stack = symbols_child(s->to, parent, frames[0] - 1, e);
    for (uint32_t i = 1; i < l->line_count && stack != MAP_NONE; i++)
        stack = symbols_child(s->to, stack, frames[i] - 1, e);
    return stack;
}

// Locations from the root that a stack shares with the one before it.
static uint32_t shared(const struct stack_rows *s, const uint32_t *leaf, uint32_t n)
{
    uint32_t most = MIN(n, s->last_count);
    uint32_t k = 0;
    while (k < most && leaf[n - 1 - k] == s->last[s->last_count - 1 - k])
        k++;
    return k;
}

uint32_t stack_rows_row(struct stack_rows *s, uint32_t sample, err *e)
{
    assert(sample < s->p->sample_count);
    if (s->rows[sample]) return s->rows[sample] - 1;
    const struct profile_sample *x = &s->p->samples[sample];
    const uint32_t *leaf = s->p->stack_locations + x->first_location;
    uint32_t n = x->location_count;
    uint32_t k = shared(s, leaf, n);
    // Row 0 is the empty stack, the root of all others.
    uint32_t row = k ? s->path[k - 1] : 0;
    s->last_count = 0;  // on a failure below the path is of no stack
    for (; k < n; k++) {
        row = location_row(s, row, leaf[n - 1 - k], e);
        if (row == MAP_NONE) return MAP_NONE;
        s->path[k] = row;
    }
    s->last = leaf;
    s->last_count = n;
    s->rows[sample] = row + 1;
    return row;
}

// ---- looking up several functions and frames at once

// So few that fetched lines are still in the processor's cache when they are used.
#define TOGETHER 32u

// Deeper stacks are rare, and their paths would be more memory than walking side by side saves.
#define WALK_DEEPEST 1024u

// Whether this text is that string of the table.
static bool is_text(struct stack_rows *s, str text, uint32_t there)
{
    struct stack_rows_text *t = text_slot(s, text);
    if (t->p == text.p && t->n == text.n) return t->row == there;
    if (!str_eq(text, s->to->t.strings[there])) return false;
    if (text.n <= UINT32_MAX) *t = (struct stack_rows_text){text.p, (uint32_t)text.n, there};
    return true;
}

static bool is_function(struct stack_rows *s, const struct profile_function *f, uint32_t name,
                        uint32_t guess)
{
    const struct symbol_function *g = &s->to->t.functions[guess];
    if (g->name != name || g->start_line != f->start_line) return false;
    bool same = f->system_name.p == f->name.p && f->system_name.n == f->name.n;
    if (same ? g->system_name != name : !str_eq(f->system_name, s->to->t.strings[g->system_name]))
        return false;
    // The file name is compared last, because it is nearly always equal.
    return is_text(s, f->filename, g->filename);
}

static void find_functions(struct stack_rows *s, uint32_t from, uint32_t to)
{
    uint64_t hashes[TOGETHER];
    uint32_t names[TOGETHER];
    uint32_t guesses[TOGETHER];
    const struct symbol_table *t = &s->to->t;
    assert(s->hints && from <= to && to - from <= TOGETHER);
    // Each loop below prefetches what the next one reads, for all functions of this group, so that
    // the waits for memory overlap.
    for (uint32_t i = from; i < to; i++) {
        hashes[i - from] = symbols_string_hash(s->to, s->p->functions[i].name);
        symbols_string_fetch(s->to, hashes[i - from]);
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t row = names[i - from] = symbols_string_maybe(s->to, hashes[i - from]);
        if (row == MAP_NONE) continue;
        __builtin_prefetch(&t->strings[row]);
        symbols_hint_fetch(s->hints, row);
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t row = names[i - from];
        uint32_t guess = guesses[i - from] = row == MAP_NONE ? 0 : symbols_hinted(s->hints, row);
        if (guess == 0) continue;
        __builtin_prefetch(t->strings[row].p);
        __builtin_prefetch(&t->functions[guess]);
    }
    for (uint32_t i = from; i < to; i++) {
        const struct profile_function *f = &s->p->functions[i];
        uint32_t row = names[i - from];
        uint32_t guess = guesses[i - from];
        // A hash or a hint may be another function's, so all is compared. A wrong guess costs only
        // that the function is looked up again by function_row.
        if (guess == 0 || !str_eq(f->name, t->strings[row])) continue;
        if (is_function(s, f, row, guess)) s->functions[i] = guess + 1;
    }
}

// A frame to look for, whose function and mapping are known, and where its row goes.
struct sought {
    struct symbol_frame frame;
    uint64_t hash;
    uint32_t *to;
    uint32_t maybe;
};

static void find_frames(struct stack_rows *s, struct sought *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        v[i].maybe = symbols_frame_maybe(s->to, v[i].hash);
    for (uint32_t i = 0; i < n; i++) {
        if (v[i].maybe == MAP_NONE || !symbols_is_frame(s->to, v[i].maybe, &v[i].frame)) continue;
        *v[i].to = v[i].maybe + 1;
    }
}

// Whether all functions of a location are known, so that its frames can be looked for.
static bool lines_known(const struct stack_rows *s, const struct profile_location *l)
{
    for (uint32_t k = 0; k < l->line_count; k++) {
        if (s->functions[s->p->lines[l->first_line + k].function] == 0) return false;
    }
    return l->line_count > 0;
}

// The first frame of a location says that all are there: cleared where another was not found.
static void keep_whole(struct stack_rows *s)
{
    for (uint32_t i = 0; i < s->p->location_count; i++) {
        uint32_t *frames = s->frames + s->places[i];
        for (uint32_t k = 1; k < s->p->locations[i].line_count; k++) {
            if (frames[k] == 0) frames[0] = 0;
        }
    }
}

static bool find_locations(struct stack_rows *s, err *e)
{
    struct sought v[TOGETHER];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->p->location_count; i++) {
        const struct profile_location *l = &s->p->locations[i];
        if (!lines_known(s, l)) continue;
        uint32_t mapping = mapping_row(s, l->mapping, e);
        if (mapping == MAP_NONE) return false;
        uint32_t *last = s->frames + s->places[i] + l->line_count - 1;
        for (uint32_t k = 0; k < l->line_count; k++) {
            const struct profile_line *line = &s->p->lines[l->first_line + k];
            v[n].frame = (struct symbol_frame){.address = l->address,
                                               .line = line->line,
                                               .function = s->functions[line->function] - 1,
                                               .mapping = mapping,
                                               .inlined = k + 1 < l->line_count};
            v[n].to = last - k;
            v[n].hash = symbols_frame_fetch(s->to, &v[n].frame);
            // A group may end within a location: keep_whole looks after those that were found in
            // part.
            if (++n < TOGETHER) continue;
            find_frames(s, v, n);
            n = 0;
        }
    }
    find_frames(s, v, n);
    keep_whole(s);
    return true;
}

// ---- looking up several stacks at once. Each step down a stack needs the row of the step before.
// So several samples walk down their stacks side by side, one step each in turn: while one waits
// for memory, the others go on.

enum walk {
    WALK_WAITS,    // for the sample before, to come to the end of their common locations
    WALK_ASKS,     // for the next child
    WALK_FETCHES,  // its place in the index
    WALK_GUESSES,  // the row that the index has there
    WALK_OVER,     // at the leaf, or the table has no such child
};

struct walker {
    enum walk state;
    const uint32_t *leaf;  // the sample's locations
    uint32_t n;
    uint32_t from;   // locations, from the root, in common with the sample before
    uint32_t at;     // locations that are done
    uint32_t line;   // frames of the next location that are done
    uint32_t row;    // the stack of what is done
    uint32_t frame;  // of the child that is looked for
    uint32_t maybe;
    uint64_t hash;
    uint32_t *path;  // stacks of the locations that are done
};

static uint32_t common(const struct walker *a, const struct walker *b)
{
    uint32_t most = MIN(a->n, b->n);
    uint32_t k = 0;
    while (k < most && a->leaf[a->n - 1 - k] == b->leaf[b->n - 1 - k])
        k++;
    return k;
}

// Begins where the common part with the sample before ends. If that sample found no row within the
// common part, this one finds none either.
static void walk_begin(struct walker *w, const struct walker *before)
{
    if (before->at < w->from && before->state != WALK_OVER) return;
    bool led = before->at >= w->from;
    assert(w->state == WALK_WAITS);
    w->at = MIN(w->from, before->at);
    if (w->at) {
        memcpy(w->path, before->path, w->at * sizeof *w->path);
        w->row = w->path[w->at - 1];
    }
    w->state = led ? WALK_ASKS : WALK_OVER;
}

// Goes down as long as a child is the row behind its parent, as it is where stacks were added in
// one go: such a step needs no look into the index.
static void walk_on(const struct stack_rows *s, struct walker *w)
{
    const struct symbol_table *t = &s->to->t;
    for (; w->at < w->n; w->line = 0) {
        uint32_t location = w->leaf[w->n - 1 - w->at];
        const uint32_t *frames = s->frames + s->places[location];
        uint32_t count = MAX(s->p->locations[location].line_count, 1u);
        // A location whose frames are not in the table: no stack through it is either.
        if (frames[0] == 0) break;
        for (; w->line < count; w->line++) {
            w->frame = frames[w->line] - 1;
            // Frame 0 adds nothing to a stack (symbols_child does the same).
            if (w->frame == 0) continue;
            if (!symbols_is_stack(t, w->row + 1, w->row, w->frame)) {
                w->hash = symbols_stack_fetch(s->to, w->row, w->frame);
                w->state = WALK_FETCHES;
                return;
            }
            w->row++;
        }
        w->path[w->at++] = w->row;
        // The walker behind this one may go on from here, so paths are noted location by location.
    }
    w->state = WALK_OVER;
}

static void walk_guess(const struct stack_rows *s, struct walker *w)
{
    // The index had one row for this hash at hand. If that is another stack, the slow look-up
    // decides.
    assert(w->state == WALK_GUESSES && w->maybe != MAP_NONE);
    if (!symbols_is_stack(&s->to->t, w->maybe, w->row, w->frame))
        w->maybe = symbols_find_stack(s->to, w->row, w->frame);
    if (w->maybe == MAP_NONE) {
        w->state = WALK_OVER;
        return;
    }
    w->row = w->maybe;
    w->line++;
    walk_on(s, w);
}

// True while there is more to do.
static bool walk_step(const struct stack_rows *s, struct walker *w, const struct walker *before)
{
    if (w->state == WALK_WAITS) walk_begin(w, before);
    if (w->state == WALK_ASKS) {
        walk_on(s, w);
    } else if (w->state == WALK_FETCHES) {
        w->maybe = symbols_stack_maybe(s->to, w->hash);
        w->state = w->maybe == MAP_NONE ? WALK_OVER : WALK_GUESSES;
    } else if (w->state == WALK_GUESSES) {
        walk_guess(s, w);
    }
    return w->state != WALK_OVER;
}

void stack_rows_find(struct stack_rows *s, const uint32_t *samples, uint32_t n)
{
    struct walker v[STACKS_WALKERS] = {{0}};
    if (!s->paths) return;
    // The first walker follows the last one of the round before. There is none in the first round:
    // an ended walker with no locations stands for it.
    assert(s->hints && s->deepest <= WALK_DEEPEST);
    struct walker *before = &v[STACKS_WALKERS - 1];
    before->state = WALK_OVER;
    for (uint32_t from = 0; from < n; from += STACKS_WALKERS) {
        uint32_t many = MIN(n - from, STACKS_WALKERS);
        for (uint32_t i = 0; i < many; i++) {
            const struct profile_sample *x = &s->p->samples[samples[from + i]];
            struct walker w = {.leaf = s->p->stack_locations + x->first_location,
                               .n = x->location_count,
                               .path = s->paths + (size_t)i * s->deepest};
            w.from = common(&w, before);
            walk_begin(&w, before);
            v[i] = w;
            before = &v[i];
        }
        bool more = true;
        while (more) {
            more = false;
            for (uint32_t i = 0; i < many; i++)
                more |= walk_step(s, &v[i], &v[(i + STACKS_WALKERS - 1) % STACKS_WALKERS]);
        }
        for (uint32_t i = 0; i < many; i++) {
            // Those that stopped early are not in the table; stack_rows_row adds them.
            if (v[i].at == v[i].n) s->rows[samples[from + i]] = v[i].row + 1;
        }
    }
}

// ---- life

bool stack_rows_init(struct stack_rows *s, struct arena *a, const struct profile *p,
                     struct symbols *to, struct symbols_hints *hints, err *e)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < p->sample_count; i++)
        deepest = MAX(deepest, p->samples[i].location_count);
    *s = (struct stack_rows){
        .p = p,
        .to = to,
        .hints = hints,
        .rows = ARENA_ARRAY(a, uint32_t, p->sample_count),
        .functions = ARENA_ARRAY(a, uint32_t, p->function_count),
        .mappings = ARENA_ARRAY(a, uint32_t, p->mapping_count),
        .places = ARENA_ARRAY(a, uint32_t, p->location_count),
        .path = ARENA_ARRAY(a, uint32_t, deepest),
    };
    if (!arena_ok(a, e)) return false;
    uint32_t frames = place_frames(s);
    s->frames = ARENA_ARRAY(a, uint32_t, frames);
    if (!arena_ok(a, e)) return false;
    // Only the root: a new table. In it nothing can be found, so there is nothing to look for.
    if (to->t.stack_count == 1) return reserve(s, frames, e);
    if (!hints) return true;
    if (deepest <= WALK_DEEPEST) {
        s->deepest = deepest;
        s->paths = ARENA_ARRAY(a, uint32_t, (size_t)STACKS_WALKERS * deepest);
        if (!arena_ok(a, e)) return false;
    }
    for (uint32_t i = 0; i < p->function_count; i += TOGETHER)
        find_functions(s, i, MIN(i + TOGETHER, p->function_count));
    return find_locations(s, e);
}
