// SPDX-License-Identifier: Apache-2.0
//
// legacy.c - tells the kinds apart by their first line, and builds the profile.
#include "base/hash.h"
#include "base/utf8.h"
#include "decode/legacy_int.h"
#include "decode/symbol.h"

#define SHOWN 64  // bytes of a line, in a message

// ---- lines

bool legacy_next(struct legacy_lines *r)
{
    r->line = (str){0};
    if (r->rest.n == 0) return false;
    r->line = str_split(r->rest, '\n', &r->rest);
    if (r->line.n && r->line.p[r->line.n - 1] == '\r') r->line.n--;
    r->number++;
    return true;
}

bool legacy_blank(str line)
{
    line = str_trim(line);
    return line.n == 0 || line.p[0] == '#';
}

bool legacy_bad(const struct legacy_lines *r, const char *what, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "line %zu: %s: \"%.*s\"", r->number, what,
                   STR(str_slice(r->line, 0, SHOWN)));
}

static str without_spaces(str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = str_slice(s, 1, s.n);
    return s;
}

bool legacy_take(str *s, const char *literal)
{
    str at = without_spaces(*s);
    str want = str_of(literal);
    if (!str_starts(at, want)) return false;
    *s = str_slice(at, want.n, at.n);
    return true;
}

bool legacy_take_i64(str *s, int64_t *v)
{
    str at = without_spaces(*s);
    size_t n = at.n && at.p[0] == '-';
    while (n < at.n && at.p[n] >= '0' && at.p[n] <= '9')
        n++;
    if (!str_i64(str_slice(at, 0, n), v)) return false;
    *s = str_slice(at, n, at.n);
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool legacy_take_hex(str *s, uint64_t *v)
{
    str at = without_spaces(*s);
    size_t n = str_starts(at, S("0x")) ? 2 : 0;
    size_t first = n;
    uint64_t value = 0;
    for (; n < at.n && hex_digit(at.p[n]) >= 0; n++) {
        if (value >> 60) return false;
        value = value << 4 | (uint64_t)hex_digit(at.p[n]);
    }
    if (n == first) return false;
    *v = value;
    *s = str_slice(at, n, at.n);
    return true;
}

// ---- the profile

void legacy_types(struct legacy *l, const struct profile_type *types, uint32_t n)
{
    struct profile_type *own = ARENA_ARRAY(l->a, struct profile_type, n);
    if (!own) return;  // the first sample fails
    memcpy(own, types, n * sizeof *own);
    l->p->types = own;
    l->p->type_count = n;
}

struct probe {
    const struct profile *p;
    uint64_t address;
    str name;
    str file;
};

static bool same_address(const void *ctx, uint32_t row)
{
    const struct probe *want = ctx;
    return want->p->locations[row].address == want->address;
}

static bool same_function(const void *ctx, uint32_t row)
{
    const struct probe *want = ctx;
    const struct profile_function *f = &want->p->functions[row];
    return str_eq(f->name, want->name) && str_eq(f->filename, want->file);
}

uint32_t legacy_find(const struct legacy *l, uint64_t address)
{
    const struct probe want = {.p = l->p, .address = address};
    return map_find(&l->addresses, hash_table_word(address), same_address, &want);
}

static bool add_location(struct legacy *l, uint64_t address, uint32_t *row, err *e)
{
    struct profile *p = l->p;
    if (!arena_grow(l->a, &p->locations, &l->location_cap, (size_t)p->location_count + 1,
                    sizeof *p->locations)) {
        return arena_fail(l->a, e);
    }
    *row = p->location_count++;
    p->locations[*row] = (struct profile_location){.address = address, .mapping = PROFILE_NONE};
    return true;
}

static bool push_row(struct legacy *l, uint32_t row, err *e)
{
    if (!arena_grow(l->a, &l->stack, &l->stack_cap, l->depth + 1, sizeof *l->stack))
        return arena_fail(l->a, e);
    l->stack[l->depth++] = row;
    return true;
}

bool legacy_push(struct legacy *l, uint64_t address, err *e)
{
    uint32_t row = legacy_find(l, address);
    if (row == MAP_NONE && (!add_location(l, address, &row, e) ||
                            !map_put(&l->addresses, hash_table_word(address), row, e))) {
        return false;
    }
    return push_row(l, row, e);
}

static bool function_row(struct legacy *l, str name, str file, uint32_t *row, err *e)
{
    struct profile *p = l->p;
    const struct probe want = {.p = p, .name = symbol_cut(name, l->symbol_max), .file = file};
    uint64_t hash = hash_table_and(hash_table_str(want.name), hash_table_str(file));
    *row = map_find(&l->functions, hash, same_function, &want);
    if (*row != MAP_NONE) return true;
    if (!arena_grow(l->a, &p->functions, &l->function_cap, (size_t)p->function_count + 1,
                    sizeof *p->functions)) {
        return arena_fail(l->a, e);
    }
    losses_add(&p->losses, LOSS_SYMBOL_LENGTH, symbol_is_long(name, l->symbol_max));
    *row = p->function_count++;
    p->functions[*row] =
        (struct profile_function){.name = want.name, .system_name = want.name, .filename = file};
    return map_put(&l->functions, hash, *row, e);
}

bool legacy_add_line(struct legacy *l, uint32_t location, str name, str file, int64_t line, err *e)
{
    struct profile *p = l->p;
    uint32_t function = 0;
    if (!function_row(l, name, file, &function, e)) return false;
    if (!arena_grow(l->a, &p->lines, &l->line_cap, (size_t)p->line_count + 1, sizeof *p->lines))
        return arena_fail(l->a, e);
    struct profile_location *to = &p->locations[location];
    if (to->line_count == 0) to->first_line = p->line_count;
    assert(to->first_line + to->line_count == p->line_count);
    to->line_count++;
    p->lines[p->line_count++] = (struct profile_line){function, line};
    return true;
}

// Frames that have names only are told apart by function and line. Few are, so each stack has
// locations of its own.
bool legacy_push_named(struct legacy *l, str name, str file, int64_t line, err *e)
{
    uint32_t row = 0;
    return add_location(l, 0, &row, e) && legacy_add_line(l, row, name, file, line, e) &&
           push_row(l, row, e);
}

bool legacy_push_all(struct legacy *l, str text, size_t calls_from, err *e)
{
    uint64_t address = 0;
    for (;;) {
        text = without_spaces(text);
        if (text.n == 0) return true;
        if (!str_starts(text, S("0x")) || !legacy_take_hex(&text, &address))
            return legacy_bad(&l->r, "bad address", e);
        if (!legacy_push(l, l->depth >= calls_from ? address - 1 : address, e)) return false;
    }
}

bool legacy_add_sample(struct legacy *l, const int64_t *values, err *e)
{
    struct profile *p = l->p;
    size_t value = (size_t)p->sample_count * p->type_count;
    size_t depth = l->depth;
    if (!arena_ok(l->a, e)) return false;
    assert(p->type_count > 0);
    if (!arena_grow(l->a, &p->stack_locations, &l->frame_cap, p->stack_location_count + depth,
                    sizeof *p->stack_locations) ||
        !arena_grow(l->a, &p->samples, &l->sample_cap, (size_t)p->sample_count + 1,
                    sizeof *p->samples) ||
        !arena_grow(l->a, &p->values, &l->value_cap, value + p->type_count, sizeof *p->values)) {
        return arena_fail(l->a, e);
    }
    if (depth)
        memcpy(p->stack_locations + p->stack_location_count, l->stack, depth * sizeof *l->stack);
    memcpy(p->values + value, values, p->type_count * sizeof *values);
    p->samples[p->sample_count++] =
        (struct profile_sample){.first_location = p->stack_location_count,
                                .location_count = (uint32_t)depth,
                                .first_label = p->label_count};
    p->stack_location_count += (uint32_t)depth;
    l->depth = 0;
    l->named = 0;
    return true;
}

bool legacy_add_label(struct legacy *l, struct profile_label label, err *e)
{
    struct profile *p = l->p;
    assert(p->sample_count > 0);
    if (!arena_grow(l->a, &p->labels, &l->label_cap, (size_t)p->label_count + 1,
                    sizeof *p->labels)) {
        return arena_fail(l->a, e);
    }
    p->labels[p->label_count++] = label;
    p->samples[p->sample_count - 1].label_count++;
    return true;
}

bool legacy_times(int64_t a, int64_t b, const char *what, int64_t *out, err *e)
{
    if (!__builtin_mul_overflow(a, b, out)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "%s: %lld x %lld, limit 2^63-1", what, (long long)a,
                   (long long)b);
}

// ---- kinds

typedef bool reader(struct legacy *l, err *e);

// "goroutine 1 [running]:"
static bool is_goroutine(str line)
{
    int64_t id = 0;
    return legacy_take(&line, "goroutine ") && legacy_take_i64(&line, &id) &&
           str_find(line, '[') < line.n && str_ends(line, S("]:"));
}

// "goroutine profile: total 9"
static bool is_count(str line)
{
    int64_t total = 0;
    str rest = str_slice(line, str_find(line, ' '), line.n);
    return rest.n < line.n && legacy_take(&rest, "profile: total ") &&
           legacy_take_i64(&rest, &total) && rest.n == 0;
}

static reader *reader_of(str line)
{
    static const struct {
        str start;
        reader *read;
    } kinds[] = {
        {S_INIT("heap profile:"), legacy_read_heap},
        {S_INIT("heap_v2/"), legacy_read_jemalloc},
        {S_INIT("--- heapz "), legacy_read_java_heap},
        {S_INIT("--- contentionz "), legacy_read_contention},
        {S_INIT("--- mutex:"), legacy_read_contention},
        {S_INIT("--- contention:"), legacy_read_contention},
        {S_INIT("--- threadz "), legacy_read_threads},
        {S_INIT("--- Thread "), legacy_read_threads},
    };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (str_starts(line, kinds[i].start)) return kinds[i].read;
    }
    if (is_count(line)) return legacy_read_counts;
    return is_goroutine(line) ? legacy_read_goroutines : NULL;
}

// Moves to the first line that is not a comment.
static reader *begin(struct legacy_lines *r)
{
    while (legacy_next(r)) {
        if (!legacy_blank(r->line)) return reader_of(str_trim(r->line));
    }
    return NULL;
}

// The names of pprof's raw form: "--- symbol", lines "0x1 inner--outer", "---"; then "--- heap" or
// the like, and the profile. Returns them, and moves the lines behind them.
static str take_symbols(str *bytes)
{
    if (!str_starts(*bytes, S("--- symbol\n"))) return (str){0};
    struct legacy_lines r = {.rest = *bytes};
    bool ok = legacy_next(&r);
    const char *from = r.rest.p;
    size_t n = 0;
    while (ok && legacy_next(&r) && !str_starts(r.line, S("---")))
        n = (size_t)(r.rest.n ? r.rest.p - from : bytes->p + bytes->n - from);
    // "---" closes the section; the next line names the profile.
    if (str_is(r.line, "---")) ok = legacy_next(&r);
    if (ok && str_starts(r.line, S("--- "))) *bytes = r.rest;
    return str_make(from, n);
}

static bool add_symbols(struct legacy *l, str section, err *e)
{
    struct legacy_lines r = {.rest = section};
    while (legacy_next(&r)) {
        str rest = r.line;
        uint64_t address = 0;
        if (!str_starts(rest, S("0x")) || !legacy_take_hex(&rest, &address)) continue;
        uint32_t row = legacy_find(l, address);
        // Written for the return address, which a frame has no longer.
        if (row == MAP_NONE) row = legacy_find(l, address - 1);
        if (row == MAP_NONE || l->p->locations[row].line_count) continue;
        rest = str_trim(rest);
        while (rest.n) {
            size_t n = 0;
            while (n < rest.n && !str_starts(str_slice(rest, n, rest.n), S("--")))
                n++;
            if (n && !legacy_add_line(l, row, str_slice(rest, 0, n), (str){0}, 0, e)) return false;
            rest = str_slice(rest, n + 2, rest.n);
        }
    }
    return true;
}

// Names that are not UTF-8 are mended; so are texts of labels and names of files.
static bool mend_texts(struct legacy *l, err *e)
{
    struct profile *p = l->p;
    for (uint32_t i = 0; i < p->function_count; i++) {
        struct profile_function *f = &p->functions[i];
        if (utf8_is_text(f->name) && utf8_is_text(f->filename)) continue;
        losses_add(&p->losses, LOSS_BAD_TEXT, 1);
        f->name = f->system_name = utf8_mended(l->a, f->name);
        f->filename = utf8_mended(l->a, f->filename);
    }
    for (uint32_t i = 0; i < p->mapping_count; i++) {
        struct profile_mapping *m = &p->mappings[i];
        if (utf8_is_text(m->filename) && utf8_is_text(m->build_id)) continue;
        losses_add(&p->losses, LOSS_BAD_TEXT, 1);
        m->filename = utf8_mended(l->a, m->filename);
        m->build_id = utf8_mended(l->a, m->build_id);
    }
    return arena_ok(l->a, e);
}

bool legacy_is(str bytes)
{
    if (str_starts(bytes, S("--- symbol\n"))) return true;
    struct legacy_lines r = {.rest = str_slice(bytes, 0, 4096)};
    return legacy_cpu_is(bytes) || begin(&r) != NULL;
}

static bool read_any(struct legacy *l, str bytes, err *e)
{
    str symbols = take_symbols(&bytes);
    l->r.rest = bytes;
    bool ok = false;
    if (legacy_cpu_is(bytes)) {
        ok = legacy_read_cpu(l, bytes, e);
    } else {
        reader *read = begin(&l->r);
        ok = read ? read(l, e) : legacy_bad(&l->r, "not the beginning of a profile", e);
    }
    if (!ok || !add_symbols(l, symbols, e)) return false;
    if (l->go) legacy_drop_hidden(l);
    for (uint32_t i = 0; l->java && i < l->p->location_count; i++) {
        if (l->p->locations[i].line_count) l->p->locations[i].address = 0;
    }
    return mend_texts(l, e);
}

bool decode_legacy(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e)
{
    struct legacy l = {.a = a, .symbol_max = o->symbol_max};
    if (o->inflated_max && bytes.n > o->inflated_max)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "profile of %zu bytes, limit %zu", bytes.n,
                       o->inflated_max);
    if (bytes.n > INT32_MAX)  // so that no count of rows overflows
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "profile of %zu bytes, limit 2 GiB", bytes.n);
    if (!decode_plain(a, bytes, &bytes, e)) return false;
    l.p = ARENA_NEW(a, struct profile);
    if (!l.p) return arena_fail(a, e);
    map_init(&l.addresses, a->budget);
    map_init(&l.functions, a->budget);
    bool ok = read_any(&l, bytes, e);
    map_release(&l.addresses);
    map_release(&l.functions);
    if (!ok) return false;
    // Not the text's size, which has memory maps and spaces.
    l.p->encoded_bytes = decode_pprof_size(l.p);
    *out = (struct decoded){l.p, 1};
    return true;
}
