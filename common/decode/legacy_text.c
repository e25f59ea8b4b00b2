// SPDX-License-Identifier: Apache-2.0
//
// legacy_text.c - the texts: a head, and a row for each stack.
#include "decode/legacy_int.h"

#include <math.h>

#define JAVA_HEAP_RATE 524288
#define NS_PER_MS      1000000

static const struct profile_type all_types[] = {{S_INIT("alloc_objects"), S_INIT("count")},
                                                {S_INIT("alloc_space"), S_INIT("bytes")},
                                                {S_INIT("inuse_objects"), S_INIT("count")},
                                                {S_INIT("inuse_space"), S_INIT("bytes")}};
static const struct profile_type heap_types[] = {{S_INIT("objects"), S_INIT("count")},
                                                 {S_INIT("space"), S_INIT("bytes")}};

static bool is_map(str line)
{
    return str_contains(line, S("--- Memory map: ---")) ||
           str_contains(line, S("MAPPED_LIBRARIES:"));
}

// ---- heaps

struct pair {
    int64_t count;
    int64_t bytes;
};

// The sum in the head less the rows that were read.
struct missing {
    __int128 count;
    __int128 bytes;
};

struct heap {
    int64_t rate;
    bool scaled;
    bool has_allocs;
    struct missing inuse;
    struct missing alloc;
};

static void missing_take(struct missing *m, struct pair v)
{
    m->count -= v.count;
    m->bytes -= v.bytes;
}

static void missing_of_head(struct heap *h, struct pair inuse, struct pair alloc)
{
    h->inuse = (struct missing){inuse.count, inuse.bytes};
    h->alloc = (struct missing){alloc.count, alloc.bytes};
}

// Rows are gone if the head has more than all of them: the text was cut off between two rows.
static void missing_tell(struct legacy *l, const struct missing *one, const struct missing *two)
{
    __int128 n = MAX(one->count, two ? two->count : 0);
    if (n <= 0) n = one->bytes > 0 || (two && two->bytes > 0);
    losses_add(&l->p->losses, LOSS_CUT_OFF, (uint64_t)n);
}

// "1: 8 [2: 16]"
static bool take_pairs(str *s, struct pair *inuse, struct pair *alloc)
{
    return legacy_take_i64(s, &inuse->count) && legacy_take(s, ":") &&
           legacy_take_i64(s, &inuse->bytes) && legacy_take(s, "[") &&
           legacy_take_i64(s, &alloc->count) && legacy_take(s, ":") &&
           legacy_take_i64(s, &alloc->bytes) && legacy_take(s, "]");
}

// True if v, cut to whole numbers, fits.
static bool cut(double v, int64_t *out)
{
    if (!(v > -0x1p63 && v < 0x1p63)) return false;
    *out = (int64_t)v;
    return true;
}

// Estimates all allocations from those that were sampled, one in `rate` bytes.
static bool scale(const struct heap *h, struct pair *v)
{
    if (!h->scaled || h->rate <= 1 || v->count == 0) return true;
    // Nothing tells how many objects without bytes there were.
    if (v->bytes == 0) return true;
    double size = fabs((double)v->bytes / (double)v->count);
    double factor = 1 / (1 - exp(-size / (double)h->rate));
    return cut((double)v->count * factor, &v->count) && cut((double)v->bytes * factor, &v->bytes);
}

static bool take_value(struct legacy *l, const struct heap *h, struct pair v, int64_t *block,
                       int64_t *to, err *e)
{
    if (v.count == 0 && v.bytes != 0) return legacy_bad(&l->r, "bytes without objects", e);
    if (v.count == -1 && v.bytes == INT64_MIN) return legacy_bad(&l->r, "bytes below 64 bits", e);
    if (v.count) *block = v.bytes / v.count;
    if (!scale(h, &v)) return legacy_bad(&l->r, "scaled to more than 64 bits", e);
    to[0] = v.count;
    to[1] = v.bytes;
    return true;
}

// Values of a row, and the label that tells the size of its blocks.
static bool add_heap_sample(struct legacy *l, const struct heap *h, struct pair inuse,
                            struct pair alloc, err *e)
{
    int64_t values[COUNT(all_types)] = {0};
    int64_t block = 0;
    int64_t *to = values;
    if (h->has_allocs) {
        if (!take_value(l, h, alloc, &block, to, e)) return false;
        to += 2;
    }
    const struct profile_label size = {.key = S("bytes")};
    if (!take_value(l, h, inuse, &block, to, e) || !legacy_add_sample(l, values, e)) return false;
    struct profile_label label = size;
    label.number = block;
    return legacy_add_label(l, label, e);
}

static void set_heap(struct legacy *l, const struct heap *h)
{
    legacy_types(l, h->has_allocs ? all_types : heap_types, h->has_allocs ? 4 : 2);
    l->p->period_type = heap_types[1];
    l->p->period = h->rate;
}

// "heap profile: 1: 8 [2: 16] @ heap/524288"
static bool read_heap_head(struct legacy *l, struct heap *h, err *e)
{
    str rest = l->r.line;
    struct pair inuse;
    struct pair alloc;
    if (!legacy_take(&rest, "heap profile:") || !take_pairs(&rest, &inuse, &alloc) ||
        !legacy_take(&rest, "@")) {
        return legacy_bad(&l->r, "bad head of a heap profile", e);
    }
    rest = str_trim(rest);
    str kind = str_slice(rest, 0, str_find(rest, '/'));
    str rate = str_slice(rest, kind.n + 1, rest.n);
    if (rate.n && !str_i64(rate, &h->rate)) return legacy_bad(&l->r, "bad rate", e);
    if (h->rate < 0) return legacy_bad(&l->r, "negative rate", e);
    bool grown = str_starts(kind, S("growth")) || str_starts(kind, S("fragmentation"));
    h->scaled = str_is(kind, "heap_v2") || str_is(kind, "heapz_v2") || str_is(kind, "heap");
    if (!grown && !h->scaled && !str_is(kind, "heapprofile"))
        return legacy_bad(&l->r, "unknown kind of heap profile", e);
    if (!h->scaled) h->rate = 1;
    if (str_is(kind, "heap")) h->rate /= 2;
    missing_of_head(h, inuse, alloc);
    h->has_allocs = !grown && ((alloc.count != inuse.count && alloc.count != 0) ||
                               (alloc.bytes != inuse.bytes && alloc.bytes != 0));
    return true;
}

bool legacy_read_heap(struct legacy *l, err *e)
{
    struct heap h = {0};
    if (!read_heap_head(l, &h, e)) return false;
    set_heap(l, &h);
    while (legacy_next(&l->r) && !is_map(l->r.line)) {
        str rest = l->r.line;
        struct pair inuse;
        struct pair alloc;
        if (legacy_blank(rest)) {
            if (!legacy_go_comment(l, e)) return false;
            continue;
        }
        if (!take_pairs(&rest, &inuse, &alloc) || !legacy_take(&rest, "@"))
            return legacy_bad(&l->r, "bad row of a heap profile", e);
        if (!legacy_push_all(l, rest, 0, e) || !add_heap_sample(l, &h, inuse, alloc, e))
            return false;
        missing_take(&h.inuse, inuse);
        missing_take(&h.alloc, alloc);
    }
    missing_tell(l, &h.inuse, h.has_allocs ? &h.alloc : NULL);
    return legacy_read_map(l, e);
}

// jemalloc's row "t*" has the sum of all threads; those of single threads are parts of it. Rows
// before the first stack are sums of everything.
static bool read_jemalloc_row(struct legacy *l, struct heap *h, bool *open, err *e)
{
    str rest = l->r.line;
    struct pair inuse;
    struct pair alloc;
    if (legacy_take(&rest, "@")) {
        if (*open) return legacy_bad(&l->r, "a stack without a row t*", e);
        if (l->p->type_count == 0) set_heap(l, h);
        *open = true;
        return legacy_push_all(l, rest, 0, e);
    }
    if (!legacy_take(&rest, "t")) return legacy_bad(&l->r, "bad row of a heap profile", e);
    if (!legacy_take(&rest, "*:")) return true;
    if (!take_pairs(&rest, &inuse, &alloc)) return legacy_bad(&l->r, "bad row t*", e);
    if (l->p->type_count == 0) {
        h->has_allocs = alloc.count != 0;
        missing_of_head(h, inuse, alloc);
        return true;
    }
    if (!*open) return legacy_bad(&l->r, "a row t* without a stack", e);
    *open = false;
    missing_take(&h->inuse, inuse);
    missing_take(&h->alloc, alloc);
    return add_heap_sample(l, h, inuse, alloc, e);
}

bool legacy_read_jemalloc(struct legacy *l, err *e)
{
    struct heap h = {.scaled = true};
    str rest = l->r.line;
    bool open = false;
    if (!legacy_take(&rest, "heap_v2/") || !legacy_take_i64(&rest, &h.rate) || h.rate < 0)
        return legacy_bad(&l->r, "bad rate", e);
    while (legacy_next(&l->r) && !is_map(l->r.line)) {
        if (!legacy_blank(l->r.line) && !read_jemalloc_row(l, &h, &open, e)) return false;
    }
    if (open) return legacy_bad(&l->r, "a stack without a row t*", e);
    if (l->p->type_count == 0) set_heap(l, &h);
    missing_tell(l, &h.inuse, h.has_allocs ? &h.alloc : NULL);
    return legacy_read_map(l, e);
}

// ---- contention

struct contention {
    int64_t hz;
    int64_t period;
    bool java;
    str resolution;
};

static bool attribute(struct legacy *l, struct contention *c, str key, str value, err *e)
{
    int64_t n = 0;
    if (str_is(key, "format")) {
        c->java = str_is(value, "java");
        return c->java || legacy_bad(&l->r, "unknown format", e);
    }
    if (str_is(key, "resolution")) {
        c->resolution = value;
        return true;
    }
    if (str_is(key, "discarded samples")) return true;
    if (!str_i64(value, &n) || n < 0) return legacy_bad(&l->r, "bad number", e);
    if (str_is(key, "cycles/second"))
        c->hz = n;
    else if (str_is(key, "sampling period"))
        c->period = n;
    else if (str_is(key, "ms since reset"))
        return legacy_times(n, NS_PER_MS, "ms since reset", &l->p->duration_ns, e);
    else
        return legacy_bad(&l->r, "unknown attribute", e);
    return true;
}

// Lines "key = value"; stands on the first other one. False in *more: there is none.
static bool read_attributes(struct legacy *l, struct contention *c, bool *more, err *e)
{
    while ((*more = legacy_next(&l->r))) {
        str line = str_trim(l->r.line);
        size_t equal = str_find(line, '=');
        if (legacy_blank(line)) continue;
        if (equal == line.n || str_starts(line, S("---"))) return true;
        if (!attribute(l, c, str_trim(str_slice(line, 0, equal)),
                       str_trim(str_slice(line, equal + 1, line.n)), e)) {
            return false;
        }
    }
    return true;
}

// "delay count @ 0x1"
static bool read_contention_row(struct legacy *l, const struct contention *c, err *e)
{
    str rest = l->r.line;
    int64_t delay = 0;
    int64_t values[2] = {0};
    if (!legacy_take_i64(&rest, &delay) || !legacy_take_i64(&rest, &values[0]) ||
        !legacy_take(&rest, "@")) {
        return legacy_bad(&l->r, "bad row of a contention profile", e);
    }
    values[1] = delay;
    if (c->period > 0) {
        bool fits = c->java ? !__builtin_mul_overflow(delay, c->period, &values[1])
                    : c->hz > 0
                        ? cut((double)delay * (double)c->period / ((double)c->hz / 1e9), &values[1])
                        : true;
        if (!fits) return legacy_bad(&l->r, "delay of more than 64 bits", e);
        if (!legacy_times(values[0], c->period, "count x period", &values[0], e)) return false;
    }
    return legacy_push_all(l, rest, c->java ? SIZE_MAX : 0, e) && legacy_add_sample(l, values, e);
}

static void set_contention(struct legacy *l, const struct contention *c)
{
    struct profile_type types[] = {{S("contentions"), S("count")}, {S("delay"), S("nanoseconds")}};
    if (c->resolution.n) types[1].unit = c->resolution;
    legacy_types(l, types, COUNT(types));
    l->p->period_type = types[0];
    l->p->period = c->period;
    l->java = c->java;
}

bool legacy_read_contention(struct legacy *l, err *e)
{
    struct contention c = {.period = 1};
    bool more = false;
    if (!read_attributes(l, &c, &more, e)) return false;
    set_contention(l, &c);
    for (; more && !str_starts(str_trim(l->r.line), S("---")); more = legacy_next(&l->r)) {
        if (legacy_blank(l->r.line)) {
            if (!legacy_go_comment(l, e)) return false;
        } else if (c.java && str_starts(str_trim(l->r.line), S("0x"))) {
            break;
        } else if (!read_contention_row(l, &c, e)) {
            return false;
        }
    }
    return c.java ? legacy_java_names(l, e) : legacy_read_map(l, e);
}

// Java's heap has its columns the other way round: bytes, then objects.
bool legacy_read_java_heap(struct legacy *l, err *e)
{
    const struct heap h = {.rate = JAVA_HEAP_RATE, .scaled = true};
    struct contention c = {0};
    bool more = false;
    if (!read_attributes(l, &c, &more, e)) return false;
    if (!c.java) return legacy_bad(&l->r, "heapz that is not of Java", e);
    legacy_types(l, all_types + 2, 2);
    l->java = true;
    for (; more; more = legacy_next(&l->r)) {
        str rest = l->r.line;
        struct pair v;
        if (legacy_blank(rest)) continue;
        if (str_starts(str_trim(rest), S("0x"))) break;
        if (!legacy_take_i64(&rest, &v.bytes) || !legacy_take_i64(&rest, &v.count) ||
            !legacy_take(&rest, "@")) {
            return legacy_bad(&l->r, "bad row of a heap profile", e);
        }
        if (v.count == 0) return legacy_bad(&l->r, "no objects", e);
        if (!legacy_push_all(l, rest, SIZE_MAX, e) ||
            !add_heap_sample(l, &h, v, (struct pair){0}, e)) {
            return false;
        }
    }
    return legacy_java_names(l, e);
}

// ---- counts

static void set_count(struct legacy *l, str kind)
{
    const struct profile_type type = {kind, S("count")};
    legacy_types(l, &type, 1);
    l->p->period_type = type;
    l->p->period = 1;
}

bool legacy_read_counts(struct legacy *l, err *e)
{
    str head = str_trim(l->r.line);
    struct missing missing = {0};
    int64_t total = 0;
    set_count(l, str_slice(head, 0, str_find(head, ' ')));
    // "goroutine profile: total 9"
    if (str_i64(str_slice(head, str_rfind(head, ' ') + 1, head.n), &total)) missing.count = total;
    while (legacy_next(&l->r) && !str_starts(l->r.line, S("---"))) {
        str rest = l->r.line;
        int64_t n = 0;
        if (legacy_blank(rest)) {
            if (!legacy_go_comment(l, e)) return false;
            continue;
        }
        if (!legacy_take_i64(&rest, &n) || !legacy_take(&rest, "@"))
            return legacy_bad(&l->r, "bad row of counts", e);
        if (!legacy_push_all(l, rest, 0, e) || !legacy_add_sample(l, &n, e)) return false;
        missing.count -= n;
    }
    missing_tell(l, &missing, NULL);
    return legacy_read_map(l, e);
}

// "\t/src/main.go:12 +0x1d", behind the function's own line; nothing if there is none.
static void take_place(str line, str *file, int64_t *number)
{
    str place = str_trim(line);
    size_t space = str_rfind(place, ' ');
    if (space < place.n && str_starts(str_slice(place, space, place.n), S(" +0x")))
        place = str_slice(place, 0, space);
    size_t colon = str_rfind(place, ':');
    if (colon < place.n && str_i64(str_slice(place, colon + 1, place.n), number))
        place = str_slice(place, 0, colon);
    *file = place;
}

// A stack: two lines a frame, up to an empty one. Who created the goroutine is not on its stack.
static bool read_goroutine(struct legacy *l, err *e)
{
    static const int64_t one = 1;
    bool more = legacy_next(&l->r);
    while (more && l->r.line.n) {
        str name = l->r.line;
        str file = {0};
        int64_t line = 0;
        more = legacy_next(&l->r);
        bool placed = more && str_starts(l->r.line, S("\t"));
        if (placed) take_place(l->r.line, &file, &line);
        if (placed) more = legacy_next(&l->r);
        // Not frames: "...additional frames elided...", "created by main.main in goroutine 1".
        if (str_starts(name, S("...")) || str_starts(name, S("created by "))) continue;
        if (str_ends(name, S(")"))) name = str_slice(name, 0, str_rfind(name, '('));
        if (name.n && !legacy_push_named(l, name, file, line, e)) return false;
    }
    return legacy_add_sample(l, &one, e);
}

bool legacy_read_goroutines(struct legacy *l, err *e)
{
    set_count(l, S("goroutine"));
    do {
        if (l->r.line.n == 0) continue;
        if (!str_starts(l->r.line, S("goroutine ")) || !str_ends(l->r.line, S("]:")))
            return legacy_bad(&l->r, "not the head of a goroutine", e);
        if (!read_goroutine(l, e)) return false;
    } while (legacy_next(&l->r));
    return true;
}

// ---- threads

// All addresses of a line, whatever stands between them.
static bool push_thread_line(struct legacy *l, bool *same, err *e)
{
    str line = l->r.line;
    *same = *same || str_contains(line, S("same as previous thread"));
    for (size_t i = 0; i + 2 <= line.n; i++) {
        str rest = str_slice(line, i, line.n);
        uint64_t address = 0;
        if (!str_starts(rest, S("0x"))) continue;
        if (!legacy_take_hex(&rest, &address)) continue;
        if (!legacy_push(l, l->depth ? address - 1 : address, e)) return false;
        i += line.n - i - rest.n - 1;
    }
    return true;
}

static bool read_thread(struct legacy *l, bool *more, err *e)
{
    static const int64_t one = 1;
    struct profile *p = l->p;
    bool same = false;
    while ((*more = legacy_next(&l->r)) && !str_starts(str_trim(l->r.line), S("---"))) {
        if (!is_map(l->r.line) && !push_thread_line(l, &same, e)) return false;
    }
    if (!same && l->depth) return legacy_add_sample(l, &one, e);
    l->depth = 0;
    if (p->sample_count) p->values[p->sample_count - 1]++;
    return true;
}

bool legacy_read_threads(struct legacy *l, err *e)
{
    set_count(l, S("thread"));
    if (!arena_ok(l->a, e)) return false;
    bool more = true;
    if (str_starts(str_trim(l->r.line), S("--- threadz "))) more = legacy_next(&l->r);
    while (more && !is_map(l->r.line)) {
        str line = str_trim(l->r.line);
        if (str_starts(line, S("---- no stack trace for"))) break;
        if (str_starts(line, S("--- Thread "))) {
            if (!read_thread(l, &more, e)) return false;
        } else if (legacy_blank(line)) {
            more = legacy_next(&l->r);
        } else {
            return legacy_bad(&l->r, "not the head of a thread", e);
        }
    }
    return legacy_read_map(l, e);
}
