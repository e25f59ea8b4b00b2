// SPDX-License-Identifier: Apache-2.0
//
// config_value.c - one value of a setting: from text to the field of its struct, with the bounds of
// its row, and from the field back to text.
//
// Text is whatever flags, environment and YAML scalars hold. What is printed parses to the same
// value (tests/fuzz/config_fuzz.c).
#include "service/config_int.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct unit {
    const char *name;
    uint64_t size;
};

// The first names are those that values are printed with.
static const struct unit byte_units[] = {
    {"TiB", UINT64_C(1) << 40},
    {"GiB", 1 << 30},
    {"MiB", 1 << 20},
    {"KiB", 1 << 10},
    {"TB", 1000000000000},
    {"GB", 1000000000},
    {"MB", 1000000},
    {"kB", 1000},
    {"KB", 1000},
    {"B", 1},
    {"", 1},
};

static const struct unit time_units[] = {
    {"w", 604800000000000}, {"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000},
    {"s", 1000000000},      {"ms", 1000000},       {"us", 1000},         {"ns", 1},
};

// Takes digits with an optional fraction of up to nine digits from *s: whole and billionths.
static bool take_number(str *s, uint64_t *whole, uint64_t *billionths)
{
    size_t n = 0;
    *whole = 0;
    *billionths = 0;
    // Integers, not a double: 0.1GiB must be the same number of bytes on every machine.
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9') {
        if (__builtin_mul_overflow(*whole, 10, whole)) return false;
        if (__builtin_add_overflow(*whole, (uint64_t)(s->p[n] - '0'), whole)) return false;
        n++;
    }
    if (n == 0) return false;
    if (n < s->n && s->p[n] == '.') {
        uint64_t place = 100000000;
        size_t first = ++n;
        for (; n < s->n && s->p[n] >= '0' && s->p[n] <= '9'; n++) {
            *billionths += (uint64_t)(s->p[n] - '0') * place;
            place /= 10;
        }
        if (n == first || n - first > 9) return false;
    }
    *s = str_slice(*s, n, s->n);
    return true;
}

static str take_letters(str *s)
{
    size_t n = 0;
    while (n < s->n && ((s->p[n] >= 'a' && s->p[n] <= 'z') || (s->p[n] >= 'A' && s->p[n] <= 'Z')))
        n++;
    str word = str_slice(*s, 0, n);
    *s = str_slice(*s, n, s->n);
    return word;
}

static const struct unit *unit_of(const struct unit *units, size_t n, str name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_is(name, units[i].name)) return &units[i];
    }
    return NULL;
}

// (whole + billionths / 10^9) x size, rounded down; false if it does not fit.
static bool scale(uint64_t whole, uint64_t billionths, uint64_t size, uint64_t *v)
{
    assert(billionths < 1000000000u);
    unsigned __int128 part = (unsigned __int128)billionths * size / 1000000000u;
    unsigned __int128 all = (unsigned __int128)whole * size + part;
    if (all > UINT64_MAX) return false;
    assert(size > 0);
    *v = (uint64_t)all;
    return true;
}

bool config_bytes(str text, uint64_t *v, err *e)
{
    str rest = str_trim(text);
    uint64_t whole = 0;
    uint64_t billionths = 0;
    if (take_number(&rest, &whole, &billionths)) {
        rest = str_trim(rest);
        const struct unit *u = unit_of(byte_units, COUNT(byte_units), take_letters(&rest));
        if (u && rest.n == 0 && scale(whole, billionths, u->size, v)) return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "'%.*s' is not a number of bytes such as 64MiB, 10MB or 4096", STR(text));
}

bool config_duration(str text, int64_t *ns, err *e)
{
    str rest = str_trim(text);
    if (str_is(rest, "0")) {
        *ns = 0;
        return true;
    }
    // "0" needs no unit; any other number without one is refused, because it may mean seconds or
    // milliseconds.
    uint64_t sum = 0;
    bool ok = rest.n > 0;
    while (ok && rest.n > 0) {
        uint64_t whole = 0;
        uint64_t billionths = 0;
        uint64_t part = 0;
        ok = take_number(&rest, &whole, &billionths);
        const struct unit *u = unit_of(time_units, COUNT(time_units), take_letters(&rest));
        ok = ok && u && scale(whole, billionths, u->size, &part) &&
             !__builtin_add_overflow(sum, part, &sum);
    }
    if (!ok || sum > INT64_MAX)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "'%.*s' is not a duration such as 250ms, 1h30m or 31d", STR(text));
    *ns = (int64_t)sum;
    return true;
}

// ---- one value of a type

union value {
    CONFIG_BOOL flag;
    CONFIG_INT integer;
    CONFIG_FLOAT real;
    CONFIG_BYTES bytes;
    CONFIG_DURATION ns;
    CONFIG_STRING string;
    CONFIG_LIST list;
    CONFIG_NODE node;
};

size_t config_value_size(enum config_type type)
{
    switch (type) {
    case CONFIG_T_BOOL:
        return sizeof(CONFIG_BOOL);
    case CONFIG_T_INT:
        return sizeof(CONFIG_INT);
    case CONFIG_T_FLOAT:
        return sizeof(CONFIG_FLOAT);
    case CONFIG_T_BYTES:
        return sizeof(CONFIG_BYTES);
    case CONFIG_T_DURATION:
        return sizeof(CONFIG_DURATION);
    case CONFIG_T_STRING:
        return sizeof(CONFIG_STRING);
    case CONFIG_T_LIST:
        return sizeof(CONFIG_LIST);
    case CONFIG_T_NODE:
        return sizeof(CONFIG_NODE);
    }
    abort();
}

static bool parse_bool(str text, CONFIG_BOOL *v, err *e)
{
    *v = str_is(text, "true");
    if (*v || str_is(text, "false")) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is neither true nor false", STR(text));
}

static bool parse_float(str text, CONFIG_FLOAT *v, err *e)
{
    char z[64] = "";
    bool ok = text.n > 0 && text.n < sizeof z;
    if (ok) {
        memcpy(z, text.p, text.n);
        char *end = NULL;
        errno = 0;
        // No locale is set, so '.' is the decimal point.
        *v = strtod(z, &end);
        ok = errno == 0 && *end == '\0' && isfinite(*v);
    }
    return ok || err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is not a number", STR(text));
}

static bool parse_string(str text, CONFIG_STRING *v, struct arena *a, err *e)
{
    if (memchr(text.p ? text.p : "", '\0', text.n))
        return err_set(e, ERR_INVALID_ARGUMENT, "a text must not hold a NUL byte");
    // Settings are C strings, so a NUL would cut the value off without a word.
    *v = text.n ? arena_str(a, text).p : "";
    return arena_ok(a, e);
}

static bool parse_list(const struct config_text *t, CONFIG_LIST *v, struct arena *a, err *e)
{
    size_t most = t->item_count;
    str rest = t->text;
    if (!t->is_sequence) {
        for (size_t i = 0; i < rest.n; i++)
            most += rest.p[i] == ',';
        most++;
    }
    const char **items = ARENA_ARRAY(a, const char *, most);
    if (!items) return arena_fail(a, e);
    // From flags and environment a list comes as text with commas, from YAML as a sequence.
    size_t n = 0;
    for (size_t i = 0; i < most; i++) {
        str item = t->is_sequence ? t->items[i] : str_split(rest, ',', &rest);
        item = str_trim(item);
        if (item.n && !parse_string(item, &items[n++], a, e)) return false;
    }
    assert(n <= most);
    *v = (CONFIG_LIST){.v = items, .n = n};
    return true;
}

static bool check_texts(const struct yaml_node *root, err *e)
{
    for (const struct yaml_node *t = root; t; t = yaml_node_after(root, t, NULL)) {
        if (memchr(t->text.p ? t->text.p : "", '\0', t->text.n))
            return err_set(e, ERR_INVALID_ARGUMENT, "a text must not hold a NUL byte");
    }
    return true;
}

static bool parse_node(const struct config_text *t, CONFIG_NODE *v, struct arena *a, err *e)
{
    *v = t->node;
    if (!t->node || t->node->kind == YAML_NODE_SCALAR) {  // flags and quotes hold YAML as text
        struct yaml_node *root = NULL;
        if (!yaml_node_parse(t->text, t->where ? t->where : "text", a, &root, e)) return false;
        bool whole = root->kind == YAML_NODE_LIST || root->kind == YAML_NODE_MAP;
        if (t->node) {  // faults are told with the place of the text
            root->key = t->node->key;
            root->parent = t->node->parent;
            root->line = t->node->line;
            root->file = t->node->file;
        }
        *v = root->kind == YAML_NODE_NULL ? NULL : whole || !t->node ? root : t->node;
    }
    return !*v || check_texts(*v, e);
}

static bool is_structured(const struct config_text *t)
{
    if (!t->node || t->node->kind < YAML_NODE_LIST) return false;
    return t->node->kind == YAML_NODE_MAP || t->item_count < t->node->count;
}

static bool parse(enum config_type type, const struct config_text *t, union value *v,
                  struct arena *a, err *e)
{
    str text = str_trim(t->text);
    if (type == CONFIG_T_NODE) return parse_node(t, &v->node, a, e);
    if (is_structured(t) && type == CONFIG_T_LIST && t->is_sequence)
        return err_set(e, ERR_INVALID_ARGUMENT, "a list may hold only plain values");
    if (is_structured(t))
        return err_set(e, ERR_INVALID_ARGUMENT, "expected a value or a list of values");
    if (t->is_sequence && type != CONFIG_T_LIST)
        return err_set(e, ERR_INVALID_ARGUMENT, "a list is given where one value is expected");
    assert(!t->is_sequence || type == CONFIG_T_LIST);
    switch (type) {
    case CONFIG_T_BOOL:
        return parse_bool(text, &v->flag, e);
    case CONFIG_T_INT:
        return str_i64(text, &v->integer) ||
               err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' is not an integer", STR(text));
    case CONFIG_T_FLOAT:
        return parse_float(text, &v->real, e);
    case CONFIG_T_BYTES:
        return config_bytes(text, &v->bytes, e);
    case CONFIG_T_DURATION:
        return config_duration(text, &v->ns, e);
    case CONFIG_T_STRING:
        return parse_string(t->text, &v->string, a, e);
    case CONFIG_T_LIST:
        return parse_list(t, &v->list, a, e);
    case CONFIG_T_NODE:
        break;
    }
    abort();
}

// -1, 0 or 1; only of types that have an order.
static int compare(enum config_type type, const union value *a, const union value *b)
{
    switch (type) {
    case CONFIG_T_INT:
    case CONFIG_T_DURATION:
        return (a->integer > b->integer) - (a->integer < b->integer);
    case CONFIG_T_BYTES:
        return (a->bytes > b->bytes) - (a->bytes < b->bytes);
    case CONFIG_T_FLOAT:
        return (a->real > b->real) - (a->real < b->real);
    case CONFIG_T_BOOL:
    case CONFIG_T_STRING:
    case CONFIG_T_LIST:
    case CONFIG_T_NODE:
        break;
    }
    abort();  // a row of this type must not have bounds
}

static bool in_bounds(const struct config_row *row, const struct config_text *t,
                      const union value *v, struct arena *a, err *e)
{
    union value bound = {0};
    // Bounds are text in the tables, so that docs print them as they were written.
    struct config_text low = {.text = str_of(row->low)};
    struct config_text high = {.text = str_of(row->high)};
    if (low.text.n) {
        if (!parse(row->type, &low, &bound, a, e)) abort();  // the row itself is wrong
        if (compare(row->type, v, &bound) < 0)
            return err_set(e, ERR_INVALID_ARGUMENT, "%.*s is below the lowest value, %s",
                           STR(t->text), row->low);
    }
    if (high.text.n) {
        if (!parse(row->type, &high, &bound, a, e)) abort();
        if (compare(row->type, v, &bound) > 0)
            return err_set(e, ERR_INVALID_ARGUMENT, "%.*s is above the highest value, %s",
                           STR(t->text), row->high);
    }
    return true;
}

bool config_value_parse(const struct config_row *row, const struct config_text *t, void *to,
                        struct arena *a, err *e)
{
    union value v = {0};
    assert(!t->item_count || (t->is_sequence && t->items));
    if (!parse(row->type, t, &v, a, e) || !in_bounds(row, t, &v, a, e)) return false;
    memcpy(to, &v, config_value_size(row->type));
    return true;
}

static bool list_eq(CONFIG_LIST a, CONFIG_LIST b)
{
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++) {
        if (strcmp(a.v[i], b.v[i]) != 0) return false;
    }
    return true;
}

bool config_value_eq(const struct config_row *row, const void *a, const void *b)
{
    union value x = {0};
    union value y = {0};
    memcpy(&x, a, config_value_size(row->type));
    memcpy(&y, b, config_value_size(row->type));
    switch (row->type) {
    case CONFIG_T_STRING:
        return strcmp(x.string, y.string) == 0;
    case CONFIG_T_LIST:
        return list_eq(x.list, y.list);
    case CONFIG_T_NODE:
        return yaml_node_eq(x.node, y.node);
    case CONFIG_T_BOOL:
        return x.flag == y.flag;
    case CONFIG_T_INT:
    case CONFIG_T_FLOAT:
    case CONFIG_T_BYTES:
    case CONFIG_T_DURATION:
        return compare(row->type, &x, &y) == 0;
    }
    abort();
}

// ---- printing

static void print_bytes(struct buf *out, uint64_t v)
{
    for (size_t i = 0; i < 4; i++) {
        if (v == 0 || v % byte_units[i].size != 0) continue;
        buf_printf(out, "%" PRIu64 "%s", v / byte_units[i].size, byte_units[i].name);
        return;
    }
    buf_u64(out, v);
}

static void print_duration(struct buf *out, int64_t ns)
{
    assert(ns >= 0);  // config_duration reads no others
    uint64_t left = (uint64_t)ns;
    if (left == 0) buf_byte(out, '0');
    for (size_t i = 1; i < COUNT(time_units); i++) {  // from days on: "31d", not "4w3d"
        uint64_t n = left / time_units[i].size;
        if (n) buf_printf(out, "%" PRIu64 "%s", n, time_units[i].name);
        left %= time_units[i].size;
    }
}

void config_value_print(const struct config_row *row, const void *p, struct buf *out)
{
    union value v = {0};
    memcpy(&v, p, config_value_size(row->type));
    switch (row->type) {
    case CONFIG_T_BOOL:
        buf_z(out, v.flag ? "true" : "false");
        return;
    case CONFIG_T_INT:
        buf_i64(out, v.integer);
        return;
    case CONFIG_T_FLOAT:
        buf_printf(out, "%.15g", v.real);
        return;
    case CONFIG_T_BYTES:
        print_bytes(out, v.bytes);
        return;
    case CONFIG_T_DURATION:
        print_duration(out, v.ns);
        return;
    case CONFIG_T_STRING:
        yaml_node_print_text(str_of(v.string), out);
        return;
    case CONFIG_T_LIST:
        buf_byte(out, '[');
        for (size_t i = 0; i < v.list.n; i++) {
            if (i) buf_z(out, ", ");
            yaml_node_print_text(str_of(v.list.v[i]), out);
        }
        buf_byte(out, ']');
        return;
    case CONFIG_T_NODE:
        if (v.node)
            yaml_node_print(v.node, out);
        else
            buf_z(out, "\"\"");
        return;
    }
    abort();
}

bool config_row_is_secret(const struct config_row *row)
{
    // By name, so that a new setting of this kind is hidden without further thought.
    str key = str_of(row->key);
    return str_ends(key, S("_secret")) || str_ends(key, S("_password")) ||
           str_ends(key, S("_key")) || str_ends(key, S("_token"));
}
