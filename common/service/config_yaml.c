// SPDX-License-Identifier: Apache-2.0
//
// libyaml's events, not libcyaml's schema: libcyaml 1.3.1 reports the place of the event before the
// faulty one (an unknown key on line 3 is said to be on line 2), does not tell the line of a value
// at all, which our bounds need, and ignores further documents.
#include "service/config_int.h"

#include <yaml.h>

#define ITEMS_MAX 4096

// Where in the document the next event stands. A level is never left by skipping: what does not
// belong there is an error, so that depth is bounded by this list.
enum place {
    BEFORE,   // the document
    TOP,      // a section's name, or the end
    SECTION,  // the section's mapping
    KEY,      // a key, or the end of the section
    VALUE,    // a scalar or the beginning of a sequence
    ITEM,     // a scalar, or the end of the sequence
    AFTER,    // the end of the only document
};

struct reader {
    const char *file;
    struct arena *arena;
    config_yaml_fn *fn;
    void *ctx;
    enum place place;
    str section;
    str key;
    struct config_text text;
    str *items;
    size_t item_cap;
};

static unsigned line_of(const yaml_event_t *ev)
{
    return (unsigned)ev->start_mark.line + 1;
}

static bool fail(const struct reader *r, const yaml_event_t *ev, const char *what, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "%s:%u: %s", r->file, line_of(ev), what);
}

static str scalar(struct reader *r, const yaml_event_t *ev)
{
    return arena_str(r->arena, str_make(ev->data.scalar.value, ev->data.scalar.length));
}

// An empty plain scalar is YAML's null: the value was forgotten, or is meant to be a default that
// could be had by leaving the line out. "" says that it is meant to be empty.
static bool is_null(const yaml_event_t *ev)
{
    return ev->data.scalar.length == 0 && ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool tell(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (!r->text.where) {
        str where = arena_printf(r->arena, "%s:%u", r->file, line_of(ev));
        r->text.where = where.p;
    }
    if (!arena_ok(r->arena, e)) return false;
    struct config_text t = r->text;
    r->text = (struct config_text){0};
    return r->fn(r->ctx, r->section, r->key, &t, e);
}

static bool on_top(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (ev->type == YAML_MAPPING_END_EVENT) {
        r->place = AFTER;
        return true;
    }
    if (ev->type != YAML_SCALAR_EVENT) return fail(r, ev, "expected the name of a section", e);
    r->section = scalar(r, ev);
    r->key = (str){0};
    r->place = SECTION;
    return tell(r, ev, e);
}

static bool on_section(struct reader *r, const yaml_event_t *ev, err *e)
{
    r->place = KEY;
    if (ev->type == YAML_MAPPING_START_EVENT) return true;
    r->place = TOP;  // "server:" with nothing below it
    if (ev->type == YAML_SCALAR_EVENT && is_null(ev)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "%s:%u: section %.*s must hold key: value lines",
                   r->file, line_of(ev), STR(r->section));
}

static bool on_key(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (ev->type == YAML_MAPPING_END_EVENT) {
        r->place = TOP;
        return true;
    }
    if (ev->type != YAML_SCALAR_EVENT) return fail(r, ev, "expected a key", e);
    r->key = scalar(r, ev);
    r->place = VALUE;
    r->text.where = arena_printf(r->arena, "%s:%u", r->file, line_of(ev)).p;
    return r->key.n > 0 || fail(r, ev, "empty key", e);
}

static bool on_value(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (ev->type == YAML_SEQUENCE_START_EVENT) {
        r->text.is_sequence = true;
        r->place = ITEM;
        r->items = NULL;
        r->item_cap = 0;
        return true;
    }
    if (ev->type != YAML_SCALAR_EVENT)
        return fail(r, ev, "expected a value or a list of values", e);
    if (is_null(ev))
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: %.*s.%.*s has no value", r->text.where,
                       STR(r->section), STR(r->key));
    r->text.text = scalar(r, ev);
    r->place = KEY;
    return tell(r, ev, e);
}

static bool on_item(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (ev->type == YAML_SEQUENCE_END_EVENT) {
        r->text.items = r->items;
        r->place = KEY;
        return tell(r, ev, e);
    }
    if (ev->type != YAML_SCALAR_EVENT) return fail(r, ev, "a list may hold only plain values", e);
    size_t n = r->text.item_count;
    if (n == ITEMS_MAX) return fail(r, ev, "the list is too long", e);
    if (!arena_grow(r->arena, &r->items, &r->item_cap, n + 1, sizeof *r->items))
        return arena_ok(r->arena, e);
    r->items[n] = scalar(r, ev);
    r->text.item_count++;
    return true;
}

static bool on_event(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (ev->type == YAML_ALIAS_EVENT) return fail(r, ev, "aliases are not allowed", e);
    switch (r->place) {
    case BEFORE:
        if (ev->type == YAML_MAPPING_START_EVENT)
            r->place = TOP;
        else if (ev->type == YAML_SCALAR_EVENT && is_null(ev))
            r->place = AFTER;
        else
            return fail(r, ev, "expected sections", e);
        return true;
    case TOP:
        return on_top(r, ev, e);
    case SECTION:
        return on_section(r, ev, e);
    case KEY:
        return on_key(r, ev, e);
    case VALUE:
        return on_value(r, ev, e);
    case ITEM:
        return on_item(r, ev, e);
    case AFTER:
        break;
    }
    return fail(r, ev, "nothing may follow the settings", e);
}

static bool is_framing(const yaml_event_t *ev, bool first_document)
{
    switch (ev->type) {
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return true;
    case YAML_DOCUMENT_START_EVENT:
        return first_document;
    default:
        return false;
    }
}

bool config_yaml_read(str yaml, const char *file, struct arena *a, config_yaml_fn *fn, void *ctx,
                      err *e)
{
    struct reader r = {.file = file, .arena = a, .fn = fn, .ctx = ctx};
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) return err_set(e, ERR_RESOURCE_EXHAUSTED, "out of memory");
    yaml_parser_set_input_string(&p, (const unsigned char *)yaml.p, yaml.n);
    bool ok = true;
    bool end = false;
    while (ok && !end) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&p, &ev)) {
            ok = err_set(e, ERR_INVALID_ARGUMENT, "%s:%u: %s", file,
                         (unsigned)p.problem_mark.line + 1, p.problem ? p.problem : "not YAML");
            break;
        }
        end = ev.type == YAML_STREAM_END_EVENT;
        if (!is_framing(&ev, r.place == BEFORE)) ok = on_event(&r, &ev, e);
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&p);
    return ok && arena_ok(a, e);
}
