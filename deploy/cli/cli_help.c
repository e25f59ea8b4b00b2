// SPDX-License-Identifier: Apache-2.0
//
// cli_help.c - one text for each form: a terminal, man(7) and Markdown.
#include "deploy/cli/cli_help.h"

#include "deploy/cli/cli_formats.h"

#define COLUMNS        80
#define TEXT_COLUMN    26  // where the sentences of options begin
#define CHOICES_COLUMN 15

static const char about[] =
    "A continuous profiling store, and a client for it and for any other server that speaks "
    "Grafana Pyroscope's API. Without a command, or with settings only, it runs the server.";

// ---- plain text

// Wraps words at COLUMNS; `at` is the current column, `indent` that of further lines.
static void put_wrapped(struct buf *b, const char *text, unsigned at, unsigned indent)
{
    assert(at <= COLUMNS && indent < COLUMNS);
    str rest = str_of(text);
    bool first = true;
    while (rest.n) {
        str word = str_split(rest, ' ', &rest);
        // A word that is longer than a line stands on a line of its own, and is not cut.
        if (!first && at + 1 + word.n > COLUMNS) {
            buf_byte(b, '\n');
            for (unsigned i = 0; i < indent; i++)
                buf_byte(b, ' ');
            at = indent;
        } else if (!first) {
            buf_byte(b, ' ');
            at++;
        }
        buf_str(b, word);
        at += (unsigned)word.n;
        first = false;
    }
    buf_byte(b, '\n');
}

static bool has_options(enum cli_command c)
{
    assert(c < CLI_COMMAND_COUNT);
    return c != CLI_SERVE && c != CLI_CONFIG_CHECK;  // theirs are the settings
}

static void put_usage(struct buf *b, enum cli_command c)
{
    buf_printf(b, "flametree %s", cli_commands[c].name);
    if (cli_commands[c].operands[0]) buf_printf(b, " %s", cli_commands[c].operands);
    if (has_options(c)) buf_z(b, " [OPTION...]");
}

// The text between the name of an option and its argument.
static const char *gap(const struct cli_option_row *o)
{
    return o->argument[0] && !cli_is_optional(o->argument) ? " " : "";
}

// "-l, --label KEY=VALUE..."
static void put_names(struct buf *b, const struct cli_option_row *o)
{
    if (o->letter)
        buf_printf(b, "-%c, ", o->letter);
    else
        buf_z(b, "    ");
    buf_printf(b, "--%s", o->name);
    if (o->argument[0]) buf_printf(b, "%s%s", gap(o), o->argument);
}

// The sentence with default and variable behind it, into `out` as text.
static void put_sentence(struct buf *out, const struct cli_option_row *o)
{
    buf_z(out, o->sentence);
    if (o->variable[0]) buf_printf(out, " [%s]", o->variable);
    if (o->fallback[0]) buf_printf(out, " (default %s)", o->fallback);
    // The callers read it as text, up to the NUL.
    buf_byte(out, '\0');
}

// The names with their argument. Choices that do not fit a line go on in the next one.
static unsigned put_left(struct buf *b, const struct cli_option_row *o)
{
    struct buf names;
    buf_init(&names, NULL, 4096);
    buf_z(&names, "  ");
    put_names(&names, o);
    str rest = buf_view(&names);
    size_t room = COLUMNS;
    while (rest.n > room) {
        size_t cut = room;
        while (cut > 0 && rest.p[cut - 1] != '|')
            cut--;
        if (cut == 0) break;
        buf_printf(b, "%.*s\n%*s", STR(str_slice(rest, 0, cut)), CHOICES_COLUMN, "");
        rest = str_slice(rest, cut, rest.n);
        room = COLUMNS - CHOICES_COLUMN;
    }
    buf_str(b, rest);
    unsigned at = (unsigned)names.n;
    buf_release(&names);
    return at;
}

static void put_option(struct buf *b, const struct cli_option_row *o)
{
    unsigned at = put_left(b, o);
    // Long names have a line of their own.
    if (at + 2 > TEXT_COLUMN) {
        buf_byte(b, '\n');
        at = 0;
    }
    for (; at < TEXT_COLUMN; at++)
        buf_byte(b, ' ');
    struct buf sentence;
    buf_init(&sentence, NULL, 4096);
    put_sentence(&sentence, o);
    // Empty if memory was short; cli_write then fails with `b`.
    if (sentence.n) put_wrapped(b, sentence.p, TEXT_COLUMN, TEXT_COLUMN);
    buf_release(&sentence);
}

// The options of a command: those of the command alone, or (common) those of a server.
static void put_options(struct buf *b, enum cli_command c, bool common, const char *title)
{
    bool any = false;
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        const struct cli_option_row *o = &cli_options[i];
        if (!cli_option_is_for(o, c) || cli_option_is_common((enum cli_option)i) != common)
            continue;
        // Whoever reads this text has found the option that prints it.
        if (i == OPT_COMMAND_HELP) continue;
        if (!any) buf_printf(b, "\n%s\n", title);
        any = true;
        put_option(b, o);
    }
}

// The formats that push can send.
static void put_formats(struct buf *b)
{
    buf_z(b, "\nFormats:\n");
    for (size_t i = 0; i < FORMAT_ID_COUNT; i++) {
        const struct format_row *f = &format_rows[i];
        struct buf text;
        buf_init(&text, NULL, 4096);
        buf_printf(&text, "%s%s", f->works ? "" : "not yet; ", f->note);
        buf_byte(&text, '\0');
        buf_printf(b, "  %-*s", (int)TEXT_COLUMN - 2, f->name);
        if (text.n) put_wrapped(b, text.p, TEXT_COLUMN, TEXT_COLUMN);
        buf_release(&text);
    }
}

static void put_examples(struct buf *b, enum cli_command c)
{
    bool any = false;
    for (size_t i = 0; i < cli_example_count; i++) {
        const struct cli_example_row *x = &cli_examples[i];
        if (x->command != c) continue;
        if (!any) buf_z(b, "\nExamples:\n");
        any = true;
        buf_printf(b, "  # %s\n  %s\n", x->what, x->line);
    }
}

void cli_help_overview(struct buf *b)
{
    buf_z(b, "usage: flametree [SETTINGS]\n       flametree COMMAND [OPTION...]\n\n");
    put_wrapped(b, about, 0, 0);
    buf_z(b, "\nCommands:\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        buf_printf(b, "  %-18s%s\n", cli_commands[i].name, cli_commands[i].summary);
    buf_z(b, "\n`flametree help COMMAND` explains a command, `flametree --help` lists the settings "
             "of the\nserver. Those that ask a server find it by --url or FLAMETREE_URL.\n");
    buf_z(b, "\nExit status:\n");
    for (size_t i = 0; i < cli_status_count; i++) {
        buf_printf(b, "  %d  ", cli_statuses[i].number);
        put_wrapped(b, cli_statuses[i].when, 5, 5);
    }
}

void cli_help_command(struct buf *b, enum cli_command c)
{
    assert(c < CLI_COMMAND_COUNT);
    buf_z(b, "usage: ");
    put_usage(b, c);
    buf_z(b, "\n\n");
    if (cli_commands[c].text[0]) put_wrapped(b, cli_commands[c].text, 0, 0);
    put_options(b, c, false, "Options:");
    if (c == CLI_PUSH) put_formats(b);
    put_options(b, c, true, "The server:");
    put_examples(b, c);
}

// ---- the man page (man(7) macros)

// Text of roff: '\' and '-' escaped, a line never begins with a macro.
static void roff(struct buf *b, const char *text)
{
    for (const char *p = text; *p; p++) {
        // A plain '-' is a hyphen in roff: copied from a man page it would not be an option.
        if (*p == '\\')
            buf_z(b, "\\e");
        else if (*p == '-')
            buf_z(b, "\\-");
        else if (p == text && (*p == '.' || *p == '\''))
            buf_printf(b, "\\&%c", *p);
        else if (*p != '`')
            buf_byte(b, (unsigned char)*p);
    }
}

static void roff_option(struct buf *b, const struct cli_option_row *o)
{
    assert(o->name[0]);
    buf_z(b, ".TP\n");
    if (o->letter) buf_printf(b, "\\fB\\-%c\\fR, ", o->letter);
    buf_z(b, "\\fB\\-\\-");
    roff(b, o->name);
    buf_z(b, "\\fR");
    if (o->argument[0]) {
        buf_printf(b, "%s\\fI", gap(o));
        roff(b, o->argument);
        buf_z(b, "\\fR");
    }
    buf_byte(b, '\n');
    struct buf sentence;
    buf_init(&sentence, NULL, 4096);
    put_sentence(&sentence, o);
    if (sentence.n) roff(b, sentence.p);
    buf_byte(b, '\n');
    buf_release(&sentence);
}

static void roff_options(struct buf *b, enum cli_command c)
{
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        bool own =
            cli_option_is_for(&cli_options[i], c) && !cli_option_is_common((enum cli_option)i);
        if (own) roff_option(b, &cli_options[i]);
    }
}

static void roff_command(struct buf *b, enum cli_command c)
{
    buf_z(b, ".SS \"");
    struct buf usage;
    buf_init(&usage, NULL, 4096);
    put_usage(&usage, c);
    buf_byte(&usage, '\0');
    if (usage.n) roff(b, usage.p);
    buf_release(&usage);
    buf_z(b, "\"\n");
    roff(b, cli_commands[c].text[0] ? cli_commands[c].text : cli_commands[c].summary);
    buf_byte(b, '\n');
    roff_options(b, c);
}

void cli_help_man(struct buf *b)
{
    buf_z(b, ".\\\" printed by: flametree help --man\n"
             ".TH FLAMETREE 1 \"\" \"Flametree\" \"User Commands\"\n"
             ".SH NAME\nflametree \\- continuous profiling: server and command line client\n"
             ".SH SYNOPSIS\n\\fBflametree\\fR [\\fISETTINGS\\fR]\n.br\n"
             "\\fBflametree\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
    roff(b, about);
    buf_z(b, "\n.PP\nThe settings of the server are listed by \\fBflametree \\-\\-help\\fR.\n"
             ".SH COMMANDS\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        roff_command(b, (enum cli_command)i);
    buf_z(b, ".SH OPTIONS OF ALL COMMANDS THAT ASK A SERVER\n");
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        if (cli_option_is_common((enum cli_option)i)) roff_option(b, &cli_options[i]);
    }
    buf_z(b, ".SH EXAMPLES\n");
    for (size_t i = 0; i < cli_example_count; i++) {
        buf_z(b, ".TP\n");
        roff(b, cli_examples[i].what);
        buf_z(b, "\n");
        roff(b, cli_examples[i].line);
        buf_byte(b, '\n');
    }
    buf_z(b, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < cli_status_count; i++) {
        buf_printf(b, ".TP\n\\fB%d\\fR\n", cli_statuses[i].number);
        roff(b, cli_statuses[i].when);
        buf_byte(b, '\n');
    }
    buf_z(b, ".SH ENVIRONMENT\nVariables of options are named with them, in brackets.\n");
    for (size_t i = 0; i < cli_variable_count; i++) {
        buf_printf(b, ".TP\n\\fB%s\\fR\n", cli_variables[i].name);
        roff(b, cli_variables[i].sentence);
        buf_byte(b, '\n');
    }
}

// ---- docs/cli.md

// A cell of a table: '|' would end it.
static void cell(struct buf *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '|') buf_byte(b, '\\');
        buf_byte(b, (unsigned char)*text);
    }
}

static void markdown_options(struct buf *b, uint64_t commands, bool common)
{
    assert(commands);
    bool any = false;
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        const struct cli_option_row *o = &cli_options[i];
        if (!(o->commands & commands) || cli_option_is_common((enum cli_option)i) != common)
            continue;
        if (!any) buf_z(b, "\n| option | default | |\n|---|---|---|\n");
        any = true;
        buf_z(b, "| ");
        if (o->letter) buf_printf(b, "`-%c`, ", o->letter);
        buf_printf(b, "`--%s%s", o->name, gap(o));
        cell(b, o->argument);
        buf_z(b, "` | ");
        if (o->fallback[0]) buf_printf(b, "`%s`", o->fallback);
        buf_z(b, " | ");
        cell(b, o->sentence);
        if (o->variable[0]) buf_printf(b, " Environment: `%s`.", o->variable);
        buf_z(b, " |\n");
    }
}

static void markdown_command(struct buf *b, enum cli_command c)
{
    assert(c < 64);  // as the table says, a command is a bit
    buf_printf(b, "\n## %s\n\n    ", cli_commands[c].name);
    put_usage(b, c);
    buf_z(b, "\n\n");
    buf_paragraph(b, cli_commands[c].text);
    if (c == CLI_FORMATS) {
        buf_byte(b, '\n');
        formats_put_markdown(b);
    }
    markdown_options(b, UINT64_C(1) << c, false);
    bool any = false;
    for (size_t i = 0; i < cli_example_count; i++) {
        if (cli_examples[i].command != c) continue;
        buf_z(b, any ? "" : "\n");
        any = true;
        buf_printf(b, "    # %s\n    %s\n", cli_examples[i].what, cli_examples[i].line);
    }
}

void cli_help_markdown(struct buf *b)
{
    buf_z(b, "# Command line\n\n");
    buf_paragraph(b, "This page is printed by `flametree help --markdown` from the rows that the "
                     "program reads its command line by. The man page "
                     "([flametree.1](../deploy/cli/flametree.1)) and the completions for bash, "
                     "zsh and fish come from the same rows.");
    buf_byte(b, '\n');
    buf_paragraph(b, about);
    buf_byte(b, '\n');
    buf_paragraph(b, "Data go to standard output, messages to standard error. What is drawn for "
                     "people has the terminal's width and colours; a pipe gets plain text of 80 "
                     "columns. Names of functions and labels never reach a terminal with control "
                     "characters in them.");
    buf_z(b, "\n| command | |\n|---|---|\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        buf_printf(b, "| `%s` | %s |\n", cli_commands[i].name, cli_commands[i].summary);
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        markdown_command(b, (enum cli_command)i);
    buf_z(
        b,
        "\n## The server\n\nOptions of all commands that ask a server. They may also stand before "
        "the command.\n");
    markdown_options(b, UINT64_MAX, true);
    buf_z(b, "\n## Exit status\n\n| status | |\n|---|---|\n");
    for (size_t i = 0; i < cli_status_count; i++)
        buf_printf(b, "| %d | %s |\n", cli_statuses[i].number, cli_statuses[i].when);
    buf_z(b, "\n## Environment\n\n| variable | |\n|---|---|\n");
    for (size_t i = 0; i < cli_variable_count; i++)
        buf_printf(b, "| `%s` | %s |\n", cli_variables[i].name, cli_variables[i].sentence);
}
