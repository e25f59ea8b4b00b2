// SPDX-License-Identifier: Apache-2.0
//
// legacy_names.c - what the files say of their addresses: names in comments of Go and in tables of
// Java, and the map of the process's memory.
#include "codec/json.h"
#include "decode/legacy_int.h"

#include <stdlib.h>

#define MAIN_START 0x400000  // where programs that are not relocated begin
#define ATTRIBUTES 32        // "source=/home" in a map, replaced in names as "$source"

// ---- Go

// "#	0x4371a5	main.main+0x25		/src/main.go:12"
static bool go_frame(struct legacy *l, str rest, err *e)
{
    uint64_t address = 0;
    rest = str_trim(rest);
    str text = str_slice(rest, 0, str_find(rest, '\t'));
    if (!legacy_take_hex(&rest, &address)) return true;
    uint32_t row = legacy_find(l, address);
    if (row == MAP_NONE) return true;
    l->go = true;
    // Lines of one address follow one another: the inlined functions. They come again with each
    // stack that has the address.
    const struct profile_location *to = &l->p->locations[row];
    if (to->line_count && l->named != row + 1) return true;
    rest = str_trim(rest);
    str name = str_split(rest, '\t', &rest);
    size_t plus = str_rfind(name, '+');
    if (plus < name.n && str_starts(str_slice(name, plus, name.n), S("+0x")))
        name = str_slice(name, 0, plus);
    if (name.n == 0) name = text;  // of code that is not Go: shown, without a name
    // A function that called itself from this place is another frame, with the same location.
    bool again =
        to->line_count && str_eq(l->p->functions[l->p->lines[to->first_line].function].name, name);
    l->named = again ? 0 : row + 1;
    if (again) return true;
    str place = str_trim(rest);
    size_t colon = str_rfind(place, ':');
    int64_t line = 0;
    if (colon < place.n && !str_i64(str_slice(place, colon + 1, place.n), &line)) line = 0;
    return legacy_add_line(l, row, name, str_slice(place, 0, colon), line, e);
}

// Go prints no lines for the frames that it hides in its pprof too: the runtime's at both ends of a
// stack. Where it printed any, what has none goes. What runs in the runtime alone stays.
void legacy_drop_hidden(struct legacy *l)
{
    struct profile *p = l->p;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        struct profile_sample *s = &p->samples[i];
        uint32_t *stack = p->stack_locations + s->first_location;
        uint32_t n = 0;
        for (uint32_t k = 0; k < s->location_count; k++) {
            uint32_t row = stack[k];
            if (p->locations[row].line_count == 0) continue;
            stack[k] = stack[n];
            stack[n++] = row;
        }
        if (n) s->location_count = n;
    }
}

// {"key":"value"}; broken JSON is a comment like any other.
static bool go_labels(struct legacy *l, str text, err *e)
{
    struct json_reader r;
    json_reader_init(&r, l->a, text);
    if (l->p->sample_count == 0 || json_next(&r) != JSON_OBJECT) return arena_ok(l->a, e);
    while (json_next(&r) == JSON_KEY) {
        struct profile_label label = {.key = r.text};
        if (json_next(&r) != JSON_STRING) break;
        label.text = r.text;
        if (!legacy_add_label(l, label, e)) return false;
    }
    return arena_ok(l->a, e);
}

bool legacy_go_comment(struct legacy *l, err *e)
{
    str rest = l->r.line;
    if (str_starts(rest, S("#\t0x"))) return go_frame(l, str_slice(rest, 1, rest.n), e);
    return !legacy_take(&rest, "# labels: ") || go_labels(l, rest, e);
}

// ---- Java

// "0x7 com.example.f (Source.java:7)", "0x8 f (/usr/lib/libx.so)", "0x9 generated stub/JIT"
static bool java_name(struct legacy *l, str rest, err *e)
{
    uint64_t address = 0;
    int64_t line = 0;
    if (!str_starts(rest, S("0x")) || !legacy_take_hex(&rest, &address)) return true;
    uint32_t row = legacy_find(l, address);
    if (row == MAP_NONE || l->p->locations[row].line_count) return true;
    str name = str_trim(rest);
    str file = {0};
    size_t open = str_rfind(name, '(');
    if (str_ends(name, S(")")) && open > 0 && open < name.n) {
        str inside = str_slice(name, open + 1, name.n - 1);
        size_t colon = str_rfind(inside, ':');
        size_t slash = str_rfind(inside, '/');
        if (colon < inside.n && str_i64(str_slice(inside, colon + 1, inside.n), &line))
            file = str_slice(inside, 0, colon);
        else
            file = slash < inside.n ? str_slice(inside, slash + 1, inside.n) : inside;
        name = str_trim(str_slice(name, 0, open));
    } else if (str_contains(name, S("generated stub/JIT"))) {
        name = S("STUB");
    }
    return name.n == 0 || legacy_add_line(l, row, name, file, MAX(line, 0), e);
}

bool legacy_java_names(struct legacy *l, err *e)
{
    // The caller stands on the first of these lines, or before it.
    do {
        if (!java_name(l, str_trim(l->r.line), e)) return false;
    } while (legacy_next(&l->r));
    return true;
}

// ---- maps

struct attributes {
    str keys[ATTRIBUTES];
    str values[ATTRIBUTES];
    size_t count;
};

static str word(str *rest)
{
    str s = str_trim(*rest);
    size_t n = 0;
    while (n < s.n && s.p[n] != ' ' && s.p[n] != '\t')
        n++;
    *rest = str_slice(s, n, s.n);
    return str_slice(s, 0, n);
}

// A file whose beginning is "$key": with its value.
static str expand(struct legacy *l, const struct attributes *t, str file)
{
    for (size_t i = 0; i < t->count && str_starts(file, S("$")); i++) {
        str tail = str_slice(file, 1, file.n);
        if (!str_starts(tail, t->keys[i])) continue;
        tail = str_slice(tail, t->keys[i].n, tail.n);
        return arena_printf(l->a, "%.*s%.*s", STR(t->values[i]), STR(tail));
    }
    return file;
}

static bool is_mode(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (str_find(S("rwxps-"), s.p[i]) == 6) return false;
    }
    return s.n > 0;
}

// Reads the rest of a line behind its range of addresses: of /proc/self/maps "r-xp 00001000 08:02
// 1234 /file", and short
// "/file (@1000) buildid". False if the range is not one of code.
static bool read_place(str rest, struct profile_mapping *m)
{
    str s = word(&rest);
    uint64_t n = 0;
    if (is_mode(s)) {
        if (str_find(s, 'x') == s.n) return false;
        s = word(&rest);
        str hex = s;
        if (legacy_take_hex(&hex, &n) && hex.n == 0) {
            m->offset = n;
            (void)word(&rest);  // device
            (void)word(&rest);  // inode
            m->filename = word(&rest);
            return true;
        }
    }
    m->filename = s;
    s = word(&rest);
    if (str_starts(s, S("(@")) && str_ends(s, S(")"))) {
        str hex = str_slice(s, 2, s.n - 1);
        if (legacy_take_hex(&hex, &n)) m->offset = n;
        s = word(&rest);
    }
    m->build_id = s;
    return true;
}

static bool add_mapping(struct legacy *l, struct attributes *t, err *e)
{
    struct profile *p = l->p;
    struct profile_mapping m = {0};
    str rest = str_trim(l->r.line);
    size_t equal = str_find(rest, '=');
    bool range = legacy_take_hex(&rest, &m.start) && (legacy_take(&rest, "-"), true) &&
                 legacy_take_hex(&rest, &m.limit);
    if (!range) {
        rest = str_trim(l->r.line);
        if (equal < rest.n && equal > 0 && t->count < ATTRIBUTES) {
            t->keys[t->count] = str_trim(str_slice(rest, 0, equal));
            t->values[t->count++] = str_trim(str_slice(rest, equal + 1, rest.n));
        }
        return true;
    }
    (void)legacy_take(&rest, ":");
    if (m.start >= m.limit || !read_place(rest, &m)) return true;
    m.filename = expand(l, t, m.filename);
    if (m.start - m.offset == MAIN_START) {
        m.start = MAIN_START;
        m.offset = 0;
    }
    // Ranges of one file that go on from one another are one.
    struct profile_mapping *before = p->mapping_count ? &p->mappings[p->mapping_count - 1] : NULL;
    if (before && before->limit == m.start && before->filename.n &&
        str_eq(before->filename, m.filename) && str_eq(before->build_id, m.build_id) &&
        (m.offset == 0 || before->offset + (before->limit - before->start) == m.offset)) {
        before->limit = m.limit;
        return true;
    }
    if (!arena_grow(l->a, &p->mappings, &l->mapping_cap, (size_t)p->mapping_count + 1,
                    sizeof *p->mappings)) {
        return arena_fail(l->a, e);
    }
    p->mappings[p->mapping_count++] = m;
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct profile_mapping *x = a;
    const struct profile_mapping *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

// The mapping with the last start that is not above the address, if its limit is.
static uint32_t mapping_of(const struct profile *p, uint64_t address)
{
    uint32_t from = 0;
    uint32_t to = p->mapping_count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (p->mappings[middle].start <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from > 0 && address < p->mappings[from - 1].limit ? from - 1 : PROFILE_NONE;
}

bool legacy_read_map(struct legacy *l, err *e)
{
    struct profile *p = l->p;
    struct attributes t = {0};
    // A binary profile's map has no title, and nothing stands before it.
    bool titled = l->r.number > 0;
    do {
        if (str_contains(l->r.line, S("--- Memory map: ---")) ||
            str_contains(l->r.line, S("MAPPED_LIBRARIES:"))) {
            titled = false;
        } else if (str_starts(l->r.line, S("heap profile:")) ||
                   str_starts(l->r.line, S("heap_v2/"))) {
            return legacy_bad(&l->r, "another profile begins; a file has one", e);
        } else if (!titled && !add_mapping(l, &t, e)) {
            return false;
        }
    } while (legacy_next(&l->r));
    if (p->mapping_count) qsort(p->mappings, p->mapping_count, sizeof *p->mappings, by_start);
    for (uint32_t i = 0; i < p->location_count; i++) {
        if (p->locations[i].address)
            p->locations[i].mapping = mapping_of(p, p->locations[i].address);
    }
    return arena_ok(l->a, e);
}
