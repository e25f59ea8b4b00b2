// SPDX-License-Identifier: Apache-2.0
//
// config.c - rows and values: defaults, file, environment and arguments, one over the other.
#include "service/config_int.h"
#include "sys/file.h"
#include "sys/lock.h"
#include "sys/log.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_MAX_BYTES     ((size_t)4 << 20)
#define SNAPSHOT_MAX_BYTES ((size_t)64 << 20)
#define PREFIX             "FLAMETREE_"
#define NAME_MAX_BYTES     128

struct snapshot {
    struct snapshot *older;
    struct arena arena;  // strings and structs
    void **structs;      // one a section
};

struct flag {
    size_t row;
    str value;
    const char *where;
};

struct config {
    const struct config_section *const *sections;
    size_t section_count;
    size_t row_count;  // of all sections
    struct arena arena;
    struct flag *flags;
    size_t flag_count;
    size_t flag_cap;
    const char *file;
    struct lock lock;  // one reload at a time
    _Atomic(struct snapshot *) current;
    _Atomic uint64_t version;
    struct tenants *tenants;
};

struct config *config_new(const struct config_section *const *sections, size_t n)
{
    struct config *c = mem_must(sizeof *c);
    c->sections = sections;
    c->section_count = n;
    for (size_t i = 0; i < n; i++)
        c->row_count += sections[i]->row_count;
    arena_init(&c->arena, NULL, SNAPSHOT_MAX_BYTES);
    lock_init(&c->lock, LOCK_CONFIG);
    return c;
}

static void snapshot_free(struct snapshot *s)
{
    arena_release(&s->arena);
    mem_free(NULL, s, sizeof *s);
}

void config_free(struct config *c)
{
    if (!c) return;
    // No reader is left, so old snapshots may go.
    for (struct snapshot *s = c->current, *older; s; s = older) {
        older = s->older;
        snapshot_free(s);
    }
    lock_release(&c->lock);
    arena_release(&c->arena);
    mem_must_free(c);
}

// ---- rows have numbers, counted through all sections

static const struct config_row *row_at(const struct config *c, size_t number, size_t *section)
{
    assert(number < c->row_count);
    for (size_t i = 0; i < c->section_count; i++) {
        if (number < c->sections[i]->row_count) {
            *section = i;
            return &c->sections[i]->rows[number];
        }
        number -= c->sections[i]->row_count;
    }
    abort();
}

static bool section_find(const struct config *c, str name, size_t *section, size_t *first_row)
{
    *first_row = 0;
    for (size_t i = 0; i < c->section_count; i++) {
        if (str_is(name, c->sections[i]->name)) {
            *section = i;
            return true;
        }
        *first_row += c->sections[i]->row_count;
    }
    return false;
}

static bool row_find(const struct config *c, str section, str key, size_t *number)
{
    size_t s = 0;
    if (!section_find(c, section, &s, number)) return false;
    for (size_t i = 0; i < c->sections[s]->row_count; i++, (*number)++) {
        if (str_is(key, c->sections[s]->rows[i].key)) return true;
    }
    return false;
}

// ---- the three sources

struct reading {
    const struct config *config;
    struct config_text *texts;  // one a row
    bool *sections_seen;
};

static bool on_setting(void *ctx, str section, str key, const struct config_text *t, err *e)
{
    struct reading *r = ctx;
    size_t number = 0;
    size_t s = 0;
    if (!section_find(r->config, section, &s, &number))
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: unknown section '%.*s'", t->where,
                       STR(section));
    if (key.n == 0) {
        if (r->sections_seen[s])
            return err_set(e, ERR_INVALID_ARGUMENT, "%s: section '%.*s' is given twice", t->where,
                           STR(section));
        r->sections_seen[s] = true;
        return true;
    }
    if (config_without_effect(r->config->sections[s], key, t->where)) return true;
    if (!row_find(r->config, section, key, &number))
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: unknown key '%.*s' in section '%.*s'",
                       t->where, STR(key), STR(section));
    if (r->texts[number].where)
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: %.*s.%.*s is given twice, first at %s",
                       t->where, STR(section), STR(key), r->texts[number].where);
    // The value is not parsed yet: a later source may replace it, and then it need not be valid.
    r->texts[number] = *t;
    return true;
}

static bool read_file(struct reading *r, struct arena *a, err *e)
{
    const struct config *c = r->config;
    if (!c->file) return true;
    struct buf text;
    buf_init(&text, NULL, FILE_MAX_BYTES);
    r->sections_seen = ARENA_ARRAY(a, bool, c->section_count);
    bool ok = arena_ok(a, e) && file_read(c->file, &text, e) &&
              config_yaml_read(buf_view(&text), c->file, a, on_setting, r, e);
    buf_release(&text);
    return ok;
}

size_t config_variable_count(const struct config *c)
{
    return c->row_count;
}

bool config_variable(const struct config *c, size_t number, char *name, size_t size)
{
    if (number >= c->row_count) return false;
    size_t s = 0;
    const struct config_row *row = row_at(c, number, &s);
    int n = snprintf(name, size, PREFIX "%s_%s", c->sections[s]->name, row->key);
    assert(n > 0 && (size_t)n < size);
    for (char *p = name; *p; p++) {
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
    }
    return true;
}

// Looks up the names of all rows. Other variables are checked by variables.h.
static bool read_environment(struct reading *r, struct arena *a, err *e)
{
    char name[NAME_MAX_BYTES];
    for (size_t i = 0; config_variable(r->config, i, name, sizeof name); i++) {
        const char *value = getenv(name);
        if (!value) continue;
        str where = arena_printf(a, "environment %s", name);
        // Copied: a library may change the environment while the snapshot lives.
        r->texts[i] = (struct config_text){.text = arena_str(a, str_of(value)), .where = where.p};
    }
    return arena_ok(a, e);
}

// Last, so that flags replace the texts of the environment and of the file.
static void read_flags(struct reading *r)
{
    const struct config *c = r->config;
    for (size_t i = 0; i < c->flag_count; i++) {
        r->texts[c->flags[i].row] =
            (struct config_text){.text = c->flags[i].value, .where = c->flags[i].where};
    }
}

static bool read_all(const struct config *c, struct snapshot *s, err *e)
{
    struct arena *a = &s->arena;
    struct reading r = {.config = c, .texts = ARENA_ARRAY(a, struct config_text, c->row_count)};
    s->structs = ARENA_ARRAY(a, void *, c->section_count);
    for (size_t i = 0; s->structs && i < c->section_count; i++)
        s->structs[i] = arena_new(a, c->sections[i]->size);
    if (!arena_ok(a, e) || !read_file(&r, a, e) || !read_environment(&r, a, e)) return false;
    read_flags(&r);
    for (size_t i = 0; i < c->row_count; i++) {
        size_t at = 0;
        const struct config_row *row = row_at(c, i, &at);
        struct config_text *t = &r.texts[i];
        // The default is text as well, and goes the same way: so a wrong default shows in every
        // test.
        if (!t->where) *t = (struct config_text){.text = str_of(row->fallback), .where = "default"};
        if (!config_value_parse(row, t, (char *)s->structs[at] + row->offset, a, e))
            return err_wrap(e, "%s: %s.%s", t->where, c->sections[at]->name, row->key);
    }
    for (size_t i = 0; i < c->section_count; i++) {
        const struct config_section *section = c->sections[i];
        if (section->finish && !section->finish(s->structs[i], a, e)) return false;
    }
    return arena_ok(a, e);
}

static struct snapshot *snapshot_read(const struct config *c, err *e)
{
    struct snapshot *s = mem_alloc(NULL, sizeof *s, e);
    if (!s) return NULL;
    arena_init(&s->arena, NULL, SNAPSHOT_MAX_BYTES);
    if (read_all(c, s, e)) return s;
    snapshot_free(s);
    return NULL;
}

// Old snapshots stay, because readers hold pointers into them. Release: a thread that loads the
// pointer sees the structs.
static void publish(struct config *c, struct snapshot *s)
{
    s->older = atomic_load_explicit(&c->current, memory_order_relaxed);
    atomic_store_explicit(&c->current, s, memory_order_release);
    atomic_fetch_add_explicit(&c->version, 1, memory_order_release);
}

// ---- command line

struct command {
    struct config *config;
    struct config_args *args;
    int argc;
    char **argv;
    int at;
};

// The value of a flag: after '=' or the next argument.
static bool take_value(struct command *k, str flag, str *value, err *e)
{
    size_t eq = str_find(flag, '=');
    if (eq < flag.n) {
        *value = str_slice(flag, eq + 1, flag.n);
        return true;
    }
    assert(k->at >= 1 && k->at < k->argc);
    if (k->at + 1 >= k->argc)
        return err_set(e, ERR_INVALID_ARGUMENT, "flag %.*s needs a value", STR(flag));
    *value = str_of(k->argv[++k->at]);
    return true;
}

// --section.flag alone means true; true and false may follow.
static bool take_bool(struct command *k, str flag, str *value, err *e)
{
    if (str_find(flag, '=') < flag.n) return take_value(k, flag, value, e);
    *value = S("true");
    if (k->at + 1 >= k->argc) return true;
    str next = str_of(k->argv[k->at + 1]);
    if (!str_is(next, "true") && !str_is(next, "false")) return true;
    return take_value(k, flag, value, e);
}

static bool take_setting(struct command *k, str flag, err *e)
{
    struct config *c = k->config;
    str name = str_slice(flag, 2, str_find(flag, '='));
    str key = {0};
    str section = str_split(name, '.', &key);
    size_t number = 0;
    if (!row_find(c, section, key, &number))
        return err_set(e, ERR_INVALID_ARGUMENT, "unknown flag --%.*s", STR(name));
    size_t s = 0;
    const struct config_row *row = row_at(c, number, &s);
    str value = {0};
    bool ok =
        row->type == CONFIG_T_BOOL ? take_bool(k, flag, &value, e) : take_value(k, flag, &value, e);
    if (!ok) return false;
    if (!arena_grow(&c->arena, &c->flags, &c->flag_cap, c->flag_count + 1, sizeof *c->flags))
        return arena_fail(&c->arena, e);
    // Kept for reloads: flags go over the file each time it is read.
    c->flags[c->flag_count++] =
        (struct flag){.row = number,
                      .value = value,
                      .where = arena_printf(&c->arena, "flag --%.*s", STR(name)).p};
    return arena_ok(&c->arena, e);
}

static bool take_argument(struct command *k, err *e)
{
    str flag = str_of(k->argv[k->at]);
    str value = {0};
    if (str_is(flag, "--help") || str_is(flag, "-h")) {
        k->args->help = true;
    } else if (str_is(flag, "--version")) {
        k->args->version = true;
    } else if (str_is(flag, "--check-config")) {
        k->args->check = true;
    } else if (str_is(flag, "--config") || str_starts(flag, S("--config="))) {
        if (!take_value(k, flag, &value, e)) return false;
        k->args->file = value.p;
    } else if (str_is(flag, "--print-config-docs")) {
        k->args->print_config_docs = true;
    } else if (str_is(flag, "--print-metrics-docs")) {
        k->args->print_metrics_docs = true;
    } else if (str_starts(flag, S("--"))) {
        return take_setting(k, flag, e);
    } else {
        return err_set(e, ERR_INVALID_ARGUMENT, "unexpected argument '%.*s'", STR(flag));
    }
    return true;
}

bool config_load(struct config *c, int argc, char **argv, struct config_args *args, err *e)
{
    assert(!c->current && argc > 0);
    *args = (struct config_args){0};
    struct command k = {.config = c, .args = args, .argc = argc, .argv = argv};
    for (k.at = 1; k.at < argc; k.at++) {
        if (!take_argument(&k, e)) return false;
    }
    if (args->help || args->version || args->print_config_docs || args->print_metrics_docs)
        return true;
    // Help and docs must work whatever the file says, so it was not read for them.
    c->file = args->file;
    struct snapshot *s = snapshot_read(c, e);
    if (!s) return false;
    publish(c, s);
    return true;
}

// Rows that cannot change while the process runs keep the value they had.
static void keep_fixed_rows(const struct config *c, const struct snapshot *old, struct snapshot *s)
{
    for (size_t i = 0; i < c->row_count; i++) {
        size_t at = 0;
        const struct config_row *row = row_at(c, i, &at);
        const char *was = (const char *)old->structs[at] + row->offset;
        char *is = (char *)s->structs[at] + row->offset;
        if (row->reload || config_value_eq(row, was, is)) continue;
        // Strings and lists may be copied by pointer, because old snapshots stay.
        assert(row->offset + config_value_size(row->type) <= c->sections[at]->size);
        memcpy(is, was, config_value_size(row->type));
        log_warn(NULL, "config.needs_restart", "key=%s.%s", c->sections[at]->name, row->key);
    }
}

bool config_reload(struct config *c, err *e)
{
    lock_take(&c->lock);
    struct snapshot *old = atomic_load_explicit(&c->current, memory_order_relaxed);
    assert(old);
    struct snapshot *s = snapshot_read(c, e);
    // A file that is wrong changes nothing: the process goes on with what it has.
    if (s) {
        keep_fixed_rows(c, old, s);
        publish(c, s);
    }
    lock_give(&c->lock);
    return s != NULL;
}

const void *config_section(const struct config *c, const char *name)
{
    struct snapshot *s = atomic_load_explicit(&c->current, memory_order_acquire);
    assert(s);
    size_t at = 0;
    size_t row = 0;
    assert(name[0]);
    bool known = section_find(c, str_of(name), &at, &row);
    assert(!known || s->structs[at]);
    return known ? s->structs[at] : NULL;
}

bool config_other_duration(const struct config *c, str section, str key, int64_t *ns)
{
    const struct snapshot *s = atomic_load_explicit(&c->current, memory_order_acquire);
    size_t at = 0;
    size_t number = 0;
    size_t first = 0;
    if (!section_find(c, section, &at, &first)) return false;
    bool known = row_find(c, section, key, &number);
    assert(s && known);
    const struct config_row *row = &c->sections[at]->rows[number - first];
    assert(row->type == CONFIG_T_DURATION);
    memcpy(ns, (const char *)s->structs[at] + row->offset, sizeof *ns);
    return true;
}

void config_set_tenants(struct config *c, struct tenants *t)
{
    assert(!t || !c->tenants);
    c->tenants = t;
}

struct tenants *config_tenants(const struct config *c)
{
    return c->tenants;
}

uint64_t config_version(const struct config *c)
{
    return atomic_load_explicit(&c->version, memory_order_acquire);
}

// ---- printing

void config_print(const struct config *c, struct buf *out)
{
    struct snapshot *s = atomic_load_explicit(&c->current, memory_order_acquire);
    assert(s);
    for (size_t i = 0; i < c->section_count; i++) {
        const struct config_section *section = c->sections[i];
        buf_printf(out, "%s:\n", section->name);
        config_print_section(section, s->structs[i], NULL, "  ", out);
    }
}

// Prints sections; leaves out those without a line.
static bool print_by_defaults(const struct config *c, bool diff, struct buf *out, err *e)
{
    const struct snapshot *s = atomic_load_explicit(&c->current, memory_order_acquire);
    assert(s);
    struct arena a;
    arena_init(&a, out->budget, SNAPSHOT_MAX_BYTES);
    bool ok = true;
    for (size_t i = 0; ok && i < c->section_count; i++) {
        const struct config_section *section = c->sections[i];
        void *defaults = arena_new(&a, section->size);
        ok = defaults ? config_defaults(section, defaults, &a, e) : arena_fail(&a, e);
        if (!ok) break;
        size_t before = out->n;
        buf_printf(out, "%s:\n", section->name);
        size_t named = out->n;
        config_print_section(section, diff ? s->structs[i] : defaults, diff ? defaults : NULL, "  ",
                             out);
        // Nothing was printed below it, so its heading goes as well.
        if (out->n == named) out->n = before;
    }
    arena_release(&a);
    return ok && buf_ok(out, e);
}

bool config_print_diff(const struct config *c, struct buf *out, err *e)
{
    return print_by_defaults(c, true, out, e);
}

bool config_print_defaults(const struct config *c, struct buf *out, err *e)
{
    return print_by_defaults(c, false, out, e);
}

static const char *const type_names[] = {
    [CONFIG_T_BOOL] = "bool",         [CONFIG_T_INT] = "integer",   [CONFIG_T_FLOAT] = "number",
    [CONFIG_T_BYTES] = "bytes",       [CONFIG_T_DURATION] = "time", [CONFIG_T_STRING] = "text",
    [CONFIG_T_LIST] = "list of text", [CONFIG_T_NODE] = "YAML",
};

void config_print_help(const struct config *c, struct buf *out)
{
    for (size_t i = 0; i < c->section_count; i++) {
        const struct config_section *section = c->sections[i];
        for (size_t k = 0; k < section->row_count; k++) {
            const struct config_row *row = &section->rows[k];
            buf_printf(out, "  --%s.%s=%s\n        %s (%s%s)\n", section->name, row->key,
                       row->fallback[0] ? row->fallback : "\"\"", row->sentence,
                       type_names[row->type], row->reload ? ", reloadable" : "");
        }
    }
}

static void print_bounds(const struct config_row *row, struct buf *out)
{
    if (row->low[0] && row->high[0])
        buf_printf(out, "%s – %s", row->low, row->high);
    else if (row->low[0])
        buf_printf(out, "≥ %s", row->low);
    else if (row->high[0])
        buf_printf(out, "≤ %s", row->high);
}

void config_print_markdown(const struct config *c, struct buf *out)
{
    for (size_t i = 0; i < c->section_count; i++) {
        const struct config_section *section = c->sections[i];
        buf_printf(out,
                   "\n## %s\n\n| key | type | default | bounds | reload | meaning |\n"
                   "|---|---|---|---|---|---|\n",
                   section->name);
        for (size_t k = 0; k < section->row_count; k++) {
            const struct config_row *row = &section->rows[k];
            buf_printf(out, "| `%s` | %s | ", row->key, type_names[row->type]);
            if (row->fallback[0]) buf_printf(out, "`%s`", row->fallback);
            buf_z(out, " | ");
            print_bounds(row, out);
            buf_printf(out, " | %s | %s |\n", row->reload ? "yes" : "", row->sentence);
        }
    }
}
