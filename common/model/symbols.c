// SPDX-License-Identifier: Apache-2.0
//
// symbols.c - unique rows: each add looks its value up in a hash index and appends it if it is new.
#include "model/symbols.h"

// Bytes of strings live in chunks that never move, so that a str stays valid while columns grow. A
// new chunk is a quarter of the bytes of all chunks before it, within these bounds: a small table
// takes little memory, a large one few allocations, and at most a fifth of it is unused.
#define CHUNK_FIRST   1024
#define CHUNK_LARGEST 262144

struct chunk {
    struct chunk *next;
    size_t size;
    size_t used;
    char bytes[];
};

enum table {
    STRINGS,
    FUNCTIONS,
    MAPPINGS,
    FRAMES,
    STACKS,
    TABLES
};

struct symbols_index {
    struct map maps[TABLES];
    size_t caps[TABLES];
    struct chunk *chunks;
    size_t chunk_bytes;  // of all of them
    struct hash_key key;
};

// ---- life

bool symbols_init(struct symbols *s, struct mem_budget *budget, err *e)
{
    *s = (struct symbols){.budget = budget};
    s->index = mem_alloc(budget, sizeof *s->index, e);
    if (!s->index) return false;
    s->index->key = hash_table_key;
    size_t *caps = s->index->caps;
    for (size_t i = 0; i < TABLES; i++)
        map_init(&s->index->maps[i], budget);
    struct symbol_table *t = &s->t;
    if (!mem_grow(budget, &t->strings, &caps[STRINGS], 1, sizeof *t->strings, e) ||
        !mem_grow(budget, &t->functions, &caps[FUNCTIONS], 1, sizeof *t->functions, e) ||
        !mem_grow(budget, &t->mappings, &caps[MAPPINGS], 1, sizeof *t->mappings, e) ||
        !mem_grow(budget, &t->frames, &caps[FRAMES], 1, sizeof *t->frames, e) ||
        !mem_grow(budget, &t->stacks, &caps[STACKS], 1, sizeof *t->stacks, e)) {
        symbols_release(s);
        return false;
    }
    t->strings[0] = S("");
    t->string_count = 1;
    t->function_count = 1;
    t->mapping_count = 1;
    t->frame_count = 1;
    t->stack_count = 1;
    return true;
}

void symbols_seed(struct symbols *s, struct hash_key key)
{
    // Rows that were added under another key would not be found any more.
    assert(s->index);
    for (size_t i = 0; i < TABLES; i++)
        assert(s->index->maps[i].count == 0);
    s->index->key = key;
}

void symbols_release(struct symbols *s)
{
    struct symbols_index *x = s->index;
    if (!x) return;
    struct symbol_table *t = &s->t;
    mem_free(s->budget, t->strings, x->caps[STRINGS] * sizeof *t->strings);
    mem_free(s->budget, t->functions, x->caps[FUNCTIONS] * sizeof *t->functions);
    mem_free(s->budget, t->mappings, x->caps[MAPPINGS] * sizeof *t->mappings);
    mem_free(s->budget, t->frames, x->caps[FRAMES] * sizeof *t->frames);
    mem_free(s->budget, t->stacks, x->caps[STACKS] * sizeof *t->stacks);
    for (struct chunk *c = x->chunks, *next = NULL; c; c = next) {
        next = c->next;
        mem_free(s->budget, c, sizeof *c + c->size);
    }
    for (size_t i = 0; i < TABLES; i++)
        map_release(&x->maps[i]);
    mem_free(s->budget, x, sizeof *x);
    *s = (struct symbols){.budget = s->budget};
}

static bool reserve(struct symbols *s, enum table table, void *column, uint32_t count,
                    uint32_t more, size_t size, err *e)
{
    // A hint only: what does not fit is refused when the row is added (more_room).
    if (more > MAP_NONE - count) more = MAP_NONE - count;
    return mem_grow_bare(s->budget, column, &s->index->caps[table], (size_t)count + more, size,
                         e) &&
           map_reserve(&s->index->maps[table], count + more, e);
}

bool symbols_reserve(struct symbols *s, const struct symbols_room *more, err *e)
{
    struct symbol_table *t = &s->t;
    return reserve(s, STRINGS, &t->strings, t->string_count, more->strings, sizeof *t->strings,
                   e) &&
           reserve(s, FUNCTIONS, &t->functions, t->function_count, more->functions,
                   sizeof *t->functions, e) &&
           reserve(s, MAPPINGS, &t->mappings, t->mapping_count, more->mappings, sizeof *t->mappings,
                   e) &&
           reserve(s, FRAMES, &t->frames, t->frame_count, more->frames, sizeof *t->frames, e) &&
           reserve(s, STACKS, &t->stacks, t->stack_count, more->stacks, sizeof *t->stacks, e);
}

// ---- adding rows. Each add makes room first and counts the row last, so that a failure in between
// leaves nothing behind but spare room.

// Ends an add: the row is in its column already, and counts once the index has it.
static uint32_t finish(struct symbols *s, enum table table, uint64_t hash, uint32_t *count, err *e)
{
    assert(*count < s->index->caps[table]);
    if (!map_put(&s->index->maps[table], hash, *count, e)) return MAP_NONE;
    return (*count)++;
}

static bool more_room(struct symbols *s, enum table table, void *column, uint32_t count,
                      size_t size, err *e)
{
    // MAP_NONE is no row.
    if (count == MAP_NONE) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "a symbol table has 2^32 rows, its limit");
    }
    return mem_grow_bare(s->budget, column, &s->index->caps[table], (size_t)count + 1, size, e);
}

static inline bool room(struct symbols *s, enum table table, void *column, uint32_t count,
                        size_t size, err *e)
{
    bool fits = count < s->index->caps[table] && count != MAP_NONE;
    return fits || more_room(s, table, column, count, size, e);
}

static struct chunk *chunk_for(struct symbols *s, size_t n, err *e)
{
    struct chunk *first = s->index->chunks;
    if (first && first->size - first->used >= n) return first;
    size_t size = MIN(MAX(s->index->chunk_bytes / 4, (size_t)CHUNK_FIRST), (size_t)CHUNK_LARGEST);
    bool odd = n > size / 4;  // a long string gets a chunk of its own; the first is filled on
    if (odd) size = n;
    struct chunk *c = mem_resize_bare(s->budget, NULL, 0, sizeof *c + size, e);
    if (!c) return NULL;
    c->size = size;
    c->used = 0;
    s->index->chunk_bytes += size;
    // Behind the first, which has room for short strings still.
    struct chunk **at = odd && first ? &first->next : &s->index->chunks;
    c->next = *at;
    *at = c;
    return c;
}

uint32_t symbols_string(struct symbols *s, str text, err *e)
{
    struct symbol_table *t = &s->t;
    if (text.n == 0) return 0;
    uint64_t hash = hash_keyed(&s->index->key, text.p, text.n);
    uint32_t step = 0;
    uint32_t row = 0;
    while ((row = map_next(&s->index->maps[STRINGS], hash, &step)) != MAP_NONE) {
        if (str_eq(t->strings[row], text)) return row;
    }
    if (!room(s, STRINGS, &t->strings, t->string_count, sizeof *t->strings, e)) return MAP_NONE;
    struct chunk *c = chunk_for(s, text.n, e);
    if (!c) return MAP_NONE;
    assert(c->size - c->used >= text.n);
    char *at = c->bytes + c->used;
    memcpy(at, text.p, text.n);
    t->strings[t->string_count] = (str){at, text.n};
    row = finish(s, STRINGS, hash, &t->string_count, e);
    if (row != MAP_NONE) c->used += text.n;
    return row;
}

uint64_t symbols_string_hash(const struct symbols *s, str text)
{
    return hash_keyed(&s->index->key, text.p, text.n);
}

void symbols_string_fetch(const struct symbols *s, uint64_t hash)
{
    map_fetch(&s->index->maps[STRINGS], hash);
}

uint32_t symbols_string_maybe(const struct symbols *s, uint64_t hash)
{
    uint32_t step = 0;
    return map_next(&s->index->maps[STRINGS], hash, &step);
}

static inline bool same_function(const struct symbol_function *a, const struct symbol_function *b)
{
    return a->name == b->name && a->system_name == b->system_name && a->filename == b->filename &&
           a->start_line == b->start_line;
}

uint32_t symbols_function_at(struct symbols *s, const struct symbol_function *f, err *e)
{
    struct symbol_table *t = &s->t;
    assert(f->name < t->string_count && f->system_name < t->string_count);
    assert(f->filename < t->string_count);
    // Row 0 is the empty one, and in no index.
    if ((f->name | f->system_name | f->filename) == 0 && f->start_line == 0) return 0;
    const uint64_t words[] = {(uint64_t)f->name << 32 | f->system_name, f->filename,
                              (uint64_t)f->start_line, 0};
    uint64_t hash = hash_words(&s->index->key, words, COUNT(words));
    uint32_t step = 0;
    uint32_t row = 0;
    while ((row = map_next(&s->index->maps[FUNCTIONS], hash, &step)) != MAP_NONE) {
        if (same_function(&t->functions[row], f)) return row;
    }
    if (!room(s, FUNCTIONS, &t->functions, t->function_count, sizeof *f, e)) return MAP_NONE;
    t->functions[t->function_count] = *f;
    return finish(s, FUNCTIONS, hash, &t->function_count, e);
}

static inline bool same_mapping(const struct symbol_mapping *a, const struct symbol_mapping *b)
{
    return a->start == b->start && a->limit == b->limit && a->offset == b->offset &&
           a->filename == b->filename && a->build_id == b->build_id && a->flags == b->flags;
}

// The row, or MAP_NONE and the hash under which it is to be added.
static uint32_t find_mapping(const struct symbols *s, const struct symbol_mapping *m,
                             uint64_t *hash)
{
    assert(m->filename < s->t.string_count && m->build_id < s->t.string_count);
    if ((m->filename | m->build_id | m->flags) == 0 && (m->start | m->limit | m->offset) == 0)
        return 0;
    const uint64_t words[] = {
        (uint64_t)m->filename << 32 | m->build_id, m->flags, m->start, m->limit, m->offset, 0};
    *hash = hash_words(&s->index->key, words, COUNT(words));
    uint32_t step = 0;
    uint32_t row = 0;
    while ((row = map_next(&s->index->maps[MAPPINGS], *hash, &step)) != MAP_NONE) {
        if (same_mapping(&s->t.mappings[row], m)) break;
    }
    return row;
}

uint32_t symbols_find_mapping(const struct symbols *s, const struct symbol_mapping *m)
{
    uint64_t hash = 0;
    return find_mapping(s, m, &hash);
}

uint32_t symbols_mapping_at(struct symbols *s, const struct symbol_mapping *m, err *e)
{
    struct symbol_table *t = &s->t;
    uint64_t hash = 0;
    uint32_t row = find_mapping(s, m, &hash);
    if (row != MAP_NONE) return row;
    if (!room(s, MAPPINGS, &t->mappings, t->mapping_count, sizeof *m, e)) return MAP_NONE;
    t->mappings[t->mapping_count] = *m;
    return finish(s, MAPPINGS, hash, &t->mapping_count, e);
}

static inline bool same_frame(const struct symbol_frame *a, const struct symbol_frame *b)
{
    return a->function == b->function && a->line == b->line && a->address == b->address &&
           a->mapping == b->mapping && a->inlined == b->inlined;
}

static inline uint64_t frame_hash(const struct symbols *s, const struct symbol_frame *f)
{
    const uint64_t words[] = {(uint64_t)f->function << 32 | f->mapping, (uint64_t)f->line,
                              f->address, f->inlined};
    return hash_words(&s->index->key, words, COUNT(words));
}

uint64_t symbols_frame_fetch(const struct symbols *s, const struct symbol_frame *f)
{
    uint64_t hash = frame_hash(s, f);
    map_fetch(&s->index->maps[FRAMES], hash);
    return hash;
}

uint32_t symbols_frame_maybe(const struct symbols *s, uint64_t hash)
{
    uint32_t step = 0;
    uint32_t row = map_next(&s->index->maps[FRAMES], hash, &step);
    if (row != MAP_NONE) __builtin_prefetch(&s->t.frames[row]);
    return row;
}

bool symbols_is_frame(const struct symbols *s, uint32_t row, const struct symbol_frame *f)
{
    assert(row < s->t.frame_count);
    return same_frame(&s->t.frames[row], f);
}

uint32_t symbols_frame_at(struct symbols *s, const struct symbol_frame *f, err *e)
{
    struct symbol_table *t = &s->t;
    assert(f->function < t->function_count && f->mapping < t->mapping_count);
    if ((f->function | f->mapping) == 0 && (f->address | (uint64_t)f->line) == 0) return 0;
    uint64_t hash = frame_hash(s, f);
    uint32_t step = 0;
    uint32_t row = 0;
    while ((row = map_next(&s->index->maps[FRAMES], hash, &step)) != MAP_NONE) {
        if (same_frame(&t->frames[row], f)) return row;
    }
    if (!room(s, FRAMES, &t->frames, t->frame_count, sizeof *f, e)) return MAP_NONE;
    t->frames[t->frame_count] = *f;
    return finish(s, FRAMES, hash, &t->frame_count, e);
}

static inline uint64_t stack_hash(const struct symbols *s, uint32_t parent, uint32_t frame)
{
    return hash_word(&s->index->key, (uint64_t)parent << 32 | frame);
}

uint64_t symbols_stack_fetch(const struct symbols *s, uint32_t parent, uint32_t frame)
{
    uint64_t hash = stack_hash(s, parent, frame);
    map_fetch(&s->index->maps[STACKS], hash);
    return hash;
}

uint32_t symbols_stack_maybe(const struct symbols *s, uint64_t hash)
{
    uint32_t step = 0;
    uint32_t row = map_next(&s->index->maps[STACKS], hash, &step);
    if (row != MAP_NONE) __builtin_prefetch(&s->t.stacks[row]);
    return row;
}

// The row, or MAP_NONE and the hash under which it is to be added.
static inline uint32_t find_stack(const struct symbols *s, uint32_t parent, uint32_t frame,
                                  uint64_t *hash)
{
    const struct symbol_stack *rows = s->t.stacks;
    *hash = stack_hash(s, parent, frame);
    uint32_t step = 0;
    uint32_t row = 0;
    while ((row = map_next(&s->index->maps[STACKS], *hash, &step)) != MAP_NONE) {
        if (rows[row].parent == parent && rows[row].frame == frame) break;
    }
    return row;
}

uint32_t symbols_stack(struct symbols *s, uint32_t parent, uint32_t frame, err *e)
{
    struct symbol_table *t = &s->t;
    assert(parent < t->stack_count && frame < t->frame_count);
    if (frame == 0) return parent;  // the empty frame adds no row
    uint64_t hash = 0;
    uint32_t row = find_stack(s, parent, frame, &hash);
    if (row != MAP_NONE) return row;
    if (!room(s, STACKS, &t->stacks, t->stack_count, sizeof *t->stacks, e)) return MAP_NONE;
    t->stacks[t->stack_count] = (struct symbol_stack){parent, frame};
    return finish(s, STACKS, hash, &t->stack_count, e);
}

uint32_t symbols_find_stack(const struct symbols *s, uint32_t parent, uint32_t frame)
{
    assert(parent < s->t.stack_count && frame < s->t.frame_count);
    uint64_t hash = 0;
    return frame == 0 ? parent : find_stack(s, parent, frame, &hash);
}

// ---- reading

struct symbol_table symbols_rest(const struct symbol_table *t, const struct symbol_counts *had)
{
    assert(had->strings >= 1 && had->strings <= t->string_count);
    assert(had->functions >= 1 && had->functions <= t->function_count);
    assert(had->mappings >= 1 && had->mappings <= t->mapping_count);
    assert(had->frames >= 1 && had->frames <= t->frame_count);
    assert(had->stacks >= 1 && had->stacks <= t->stack_count);
    return (struct symbol_table){
        .strings = t->strings + had->strings - 1,
        .functions = t->functions + had->functions - 1,
        .mappings = t->mappings + had->mappings - 1,
        .frames = t->frames + had->frames - 1,
        .stacks = t->stacks + had->stacks - 1,
        .string_count = t->string_count - had->strings + 1,
        .function_count = t->function_count - had->functions + 1,
        .mapping_count = t->mapping_count - had->mappings + 1,
        .frame_count = t->frame_count - had->frames + 1,
        .stack_count = t->stack_count - had->stacks + 1,
    };
}

str symbols_frame_name(const struct symbol_table *t, uint32_t frame)
{
    assert(frame < t->frame_count);
    return t->strings[t->functions[t->frames[frame].function].name];
}

void symbols_mark_ancestors(const struct symbol_table *t, bool *used)
{
    // From the last row on: parents come before children, so a mark is passed on to the root.
    for (uint32_t i = t->stack_count; i-- > 1;) {
        if (used[i]) used[t->stacks[i].parent] = true;
    }
}
