// SPDX-License-Identifier: Apache-2.0
//
// cli_formats.c - the tables, printed as text, JSON and Markdown.
#include "deploy/cli/cli_formats.h"

#include "codec/json.h"
#include "deploy/cli/cli.h"

#define TABLES_MAX ((size_t)1 << 20)

const struct format_row format_rows[FORMAT_ID_COUNT] = {
#define FORMAT(id, name, endings, works, note) {name, endings, works, note},
#include "decode/formats.def"
};

const struct agent_row agent_rows[] = {
#define AGENT(name, language, works, how, note) {name, language, AGENT_##works, how, note},
#include "decode/formats.def"
};
const size_t agent_row_count = COUNT(agent_rows);

const struct format_row *format_named(str name)
{
    for (size_t i = 0; i < FORMAT_ID_COUNT; i++) {
        if (str_is(name, format_rows[i].name)) return &format_rows[i];
    }
    return NULL;
}

bool format_refuse(const struct format_row *f, err *e)
{
    assert(f && !f->works);
    return err_set(e, ERR_UNIMPLEMENTED, "Flametree cannot read %s yet; %s", f->name, f->note);
}

// ---- text

void formats_put_text(struct buf *b)
{
    buf_z(b, "Formats of files and requests\n");
    for (size_t i = 0; i < FORMAT_ID_COUNT; i++) {
        const struct format_row *f = &format_rows[i];
        buf_printf(b, "  %-8s %-12s %s\n", f->works ? "works" : "not yet", f->name, f->note);
    }
    buf_z(b, "\nAgents\n");
    for (size_t i = 0; i < agent_row_count; i++) {
        const struct agent_row *a = &agent_rows[i];
        static const char *const works[] = {"not yet", "expected", "works"};
        buf_printf(b, "  %-8s %s (%s)\n           %s%s%s\n", works[a->works], a->name, a->language,
                   a->how, a->how[0] ? "; " : "", a->note);
    }
}

// ---- JSON

static void put_field(struct buf *b, const char *name, const char *value)
{
    assert(name && value);
    json_put_string(b, str_of(name));
    buf_z(b, ": ");
    json_put_string(b, str_of(value));
}

static void put_works(struct buf *b, bool works)
{
    buf_printf(b, ", \"works\": %s, ", works ? "true" : "false");
}

void formats_put_json(struct buf *b)
{
    buf_z(b, "{\n  \"formats\": [");
    for (size_t i = 0; i < FORMAT_ID_COUNT; i++) {
        const struct format_row *f = &format_rows[i];
        buf_z(b, i ? ",\n    { " : "\n    { ");
        put_field(b, "name", f->name);
        buf_z(b, ", ");
        put_field(b, "ending", f->endings);
        put_works(b, f->works);
        put_field(b, "note", f->note);
        buf_z(b, " }");
    }
    buf_z(b, "\n  ],\n  \"agents\": [");
    for (size_t i = 0; i < agent_row_count; i++) {
        const struct agent_row *a = &agent_rows[i];
        buf_z(b, i ? ",\n    { " : "\n    { ");
        put_field(b, "name", a->name);
        buf_z(b, ", ");
        put_field(b, "language", a->language);
        put_works(b, a->works != AGENT_NO);
        buf_printf(b, "\"tested\": %s, ", a->works == AGENT_YES ? "true" : "false");
        put_field(b, "how", a->how);
        buf_z(b, ", ");
        put_field(b, "note", a->note);
        buf_z(b, " }");
    }
    buf_z(b, "\n  ]\n}\n");
}

// ---- Markdown

void formats_put_markdown(struct buf *b)
{
    buf_z(b, "| agent | for | works | its setting for the address of the server |\n"
             "|---|---|---|---|\n");
    for (size_t i = 0; i < agent_row_count; i++) {
        const struct agent_row *a = &agent_rows[i];
        static const char *const works[] = {"not yet", "expected", "yes"};
        buf_printf(b, "| %s | %s | %s | %s%s%s |\n", a->name, a->language, works[a->works], a->how,
                   a->how[0] ? "; " : "", a->note);
    }
    buf_z(b, "\n| format | files | works | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < FORMAT_ID_COUNT; i++) {
        const struct format_row *f = &format_rows[i];
        buf_printf(b, "| %s | %s | %s | %s |\n", f->name, f->endings, f->works ? "yes" : "not yet",
                   f->note);
    }
}

// ---- the command

bool cli_formats(struct cli *c, int *status, err *e)
{
    str format = str_of(cli_args_get(&c->args, OPT_FORMAT_FORMATS));
    struct buf b;
    buf_init(&b, NULL, TABLES_MAX);
    if (str_is(format, "json"))
        formats_put_json(&b);
    else if (str_is(format, "markdown"))
        formats_put_markdown(&b);
    else
        formats_put_text(&b);
    bool ok = cli_write(c, &b, e);
    if (!ok) *status = CLI_FAILED;
    buf_release(&b);
    return ok;
}
