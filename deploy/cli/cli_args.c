// SPDX-License-Identifier: Apache-2.0
//
// cli_args.c - finds the command, then has getopt_long read the rest by the rows that belong to it.
#include "deploy/cli/cli_args.h"

#include "base/mem.h"
#include "deploy/cli/cli_formats.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX ((size_t)200)  // of messages

// The options of getopt_long for one part of a command line, made from rows of cli.def.
#define LONG    256   // + the row: the code of a long option; that of a short one is its letter
#define OPERAND '\1'  // the code of a word that is no option, in order
struct grammar {
    enum cli_option rows[CLI_OPTION_COUNT];
    size_t n;
    struct option longs[CLI_OPTION_COUNT + 1];
    char letters[3 * CLI_OPTION_COUNT + 3];
    bool before_command;
};

// ---- which command

static bool find_command(int argc, char **argv, int at, enum cli_command *c, int *words)
{
    assert(at >= 0 && at < argc);
    str one = str_of(argv[at]);
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (!str_eq(w.first, one)) continue;
        if (w.second.n && (at + 1 >= argc || !str_is(w.second, argv[at + 1]))) continue;
        *c = (enum cli_command)i;
        *words = w.second.n ? 2 : 1;
        return true;
    }
    return false;
}

// Does a word like "--url=x" name the option of a row?
static bool names(str word, const struct cli_option_row *row)
{
    assert(str_starts(word, S("--")));
    return str_is(str_slice(word, 2, str_find(word, '=')), row->name);
}

static bool is_option(str word)
{
    return word.n > 1 && word.p[0] == '-';
}

// May the option come before the command? Only options of a server may, which several commands
// have.
static bool may_come_first(enum cli_option o)
{
    return o != OPT_COMMAND_HELP && cli_option_is_common(o);
}

static bool is_common(str word)
{
    if (!str_starts(word, S("--"))) return false;
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        if (may_come_first((enum cli_option)i) && names(word, &cli_options[i])) return true;
    }
    return false;
}

bool cli_args_are_ours(int argc, char **argv)
{
    if (argc < 2) return false;
    str first = str_of(argv[1]);
    return !is_option(first) || is_common(first);
}

// ---- options

static bool check_choice(const struct cli_option_row *row, str value, err *e)
{
    if (!cli_has_choices(row->argument)) return true;
    str rest = str_of(row->argument);
    str choice = {0};
    while (cli_choice_next(&rest, &choice)) {
        if (str_eq(choice, value)) return true;
    }
    // A format that is known but cannot be read gets its own message, with what to do instead.
    const struct format_row *f = format_named(value);
    if (f && row == &cli_options[OPT_FORMAT_PUSH]) return format_refuse(f, e);
    return err_set(e, ERR_INVALID_ARGUMENT, "--%s is '%.*s'; it must be one of %s", row->name,
                   STR(value), row->argument);
}

// x of "[=x]"
static str optional_value(const struct cli_option_row *row)
{
    str argument = str_of(row->argument);
    assert(argument.n > 3);
    return str_slice(argument, 2, argument.n - 1);
}

// "-" at its beginning: operands are reported in order, and argv stays as it is. "+": the first one
// ends the options. ":": a missing value is reported by a separate code.
static void grammar_begin(struct grammar *g, const char *mode)
{
    assert(strlen(mode) == 1);
    *g = (struct grammar){0};
    snprintf(g->letters, sizeof g->letters, "%s:", mode);
}

static void grammar_add(struct grammar *g, enum cli_option o)
{
    const struct cli_option_row *row = &cli_options[o];
    assert(g->n < CLI_OPTION_COUNT);
    bool optional = cli_is_optional(row->argument);
    int has_arg = optional ? optional_argument : row->argument[0] ? required_argument : no_argument;
    // By row and not by letter: most options have none.
    g->longs[g->n] = (struct option){row->name, has_arg, NULL, LONG + (int)o};
    g->rows[g->n++] = o;
    size_t at = strlen(g->letters);
    if (!row->letter) return;
    snprintf(g->letters + at, sizeof g->letters - at, "%c%s", row->letter,
             optional           ? "::"
             : row->argument[0] ? ":"
                                : "");
}

// Finds the row of an option by getopt_long's code.
static bool grammar_find(const struct grammar *g, int code, enum cli_option *o)
{
    assert(g->n > 0 && g->n <= CLI_OPTION_COUNT);
    for (size_t i = 0; i < g->n; i++) {
        *o = g->rows[i];
        if (code == LONG + (int)*o || (code && code == cli_options[*o].letter)) return true;
    }
    return false;
}

static bool unknown_option(const struct cli_args *a, const struct grammar *g, str word, err *e)
{
    if (g->before_command)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "unknown option %.*s; options of a command stand behind it", STR(word));
    if (!str_starts(word, S("--"))) {
        bool shown = optopt > ' ' && optopt < 0x7f;  // of several letters only this one is unknown
        char letter[] = {'-', (char)optopt, '\0'};
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "unknown option %s; `flametree help %s` lists all options",
                       shown ? letter : word.p, cli_commands[a->command].name);
    }
    str name = str_slice(word, 0, str_find(word, '='));
    const char *near = cli_nearest_option(a->command, str_slice(name, 2, name.n));
    if (near)
        return err_set(e, ERR_INVALID_ARGUMENT, "unknown option %.*s; did you mean --%s?",
                       STR(name), near);
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "unknown option %.*s; `flametree help %s` lists all options", STR(name),
                   cli_commands[a->command].name);
}

static bool take_value(struct cli_args *a, enum cli_option o, bool is_long, err *e)
{
    const struct cli_option_row *row = &cli_options[o];
    assert(o < CLI_OPTION_COUNT);
    const char *value = optarg ? optarg : "";
    if (optarg && cli_is_optional(row->argument) &&
        (!is_long || !str_eq(optional_value(row), str_of(value)))) {
        return err_set(e, ERR_INVALID_ARGUMENT, "--%s takes no value but %s", row->name,
                       row->argument);
    }
    if (!check_choice(row, str_of(value), e)) return false;
    // There is room: each option has at least one byte of the command line, for which an element
    // was allocated.
    a->given[a->given_count++] = (struct cli_given){o, value};
    return true;
}

// Handles one result of getopt_long, for the argument `word`.
static bool take_option(struct cli_args *a, const struct grammar *g, int code, str word, err *e)
{
    bool is_long = str_starts(word, S("--"));
    enum cli_option o = OPT_URL;
    // getopt_long accepts each abbreviation of a name that is unique. They are refused: a script
    // that uses one would fail with a later version that has another option with that beginning.
    bool known = grammar_find(g, code == '?' || code == ':' ? optopt : code, &o);
    if (!known || (is_long && !names(word, &cli_options[o]))) return unknown_option(a, g, word, e);
    const struct cli_option_row *row = &cli_options[o];
    if (code == '?') return err_set(e, ERR_INVALID_ARGUMENT, "--%s takes no value", row->name);
    if (code == ':')
        return err_set(e, ERR_INVALID_ARGUMENT, "--%s needs a value: %s", row->name, row->argument);
    return take_value(a, o, is_long, e);
}

// Reads words from argv[1] on; *end is the index of the first that was not read.
static bool take_words(struct cli_args *a, const struct grammar *g, int argc, char **argv, int *end,
                       err *e)
{
    assert(argc > 0);
    optind = 0;  // glibc: forget the last command line
    // Our messages are better than those that getopt_long prints.
    opterr = 0;
    for (;;) {
        int at = MAX(optind, 1);  // of a word of several letters until its last
        int code = getopt_long(argc, argv, g->letters, g->longs, NULL);
        if (code == -1) break;
        if (code == OPERAND)
            a->operands[a->operand_count++] = optarg;
        else if (!take_option(a, g, code, str_of(argv[at]), e))
            return false;
    }
    *end = optind;
    return true;
}

// ---- operands: "A [B] C..." gives their number

static bool check_operands(const struct cli_args *a, err *e)
{
    size_t least = 0;
    size_t most = 0;
    str rest = str_of(cli_commands[a->command].operands);
    while (rest.n) {
        str one = str_split(rest, ' ', &rest);
        assert(one.n > 0);  // in the table, words have single spaces between them
        least += one.p[0] != '[';
        most = str_contains(one, S("...")) ? SIZE_MAX : most + 1;
    }
    if (cli_args_has(a, OPT_COMMAND_HELP)) return true;
    const char *name = cli_commands[a->command].name;
    if (a->operand_count < least)
        return err_set(e, ERR_INVALID_ARGUMENT, "too few arguments; usage: flametree %s %s", name,
                       cli_commands[a->command].operands);
    if (a->operand_count > most)
        return err_set(e, ERR_INVALID_ARGUMENT, "too many arguments: '%s'; usage: flametree %s %s",
                       a->operands[most], name, cli_commands[a->command].operands);
    return true;
}

// ---- the whole

static bool unknown_command(const char *word, err *e)
{
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.second.n == 0 || !str_is(w.first, word)) continue;
        struct buf b;
        buf_init(&b, NULL, WORDS_MAX);
        cli_put_seconds(&b, w.first, "|");
        err_set(e, ERR_INVALID_ARGUMENT, "usage: flametree %s %.*s %s", word, STR(buf_view(&b)),
                cli_commands[i].operands);
        buf_release(&b);
        return false;
    }
    const char *near = cli_nearest_command(str_of(word));
    if (near)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "unknown command '%s'; did you mean `flametree %s`?", word, near);
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "unknown command '%s'; `flametree help` lists all commands", word);
}

// Options before the command are those of a server.
static bool take_common(struct cli_args *a, int argc, char **argv, int *end, err *e)
{
    struct grammar g;
    grammar_begin(&g, "+");
    // Only for the message: no command is known that could have the option.
    g.before_command = true;
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        if (may_come_first((enum cli_option)i)) grammar_add(&g, (enum cli_option)i);
    }
    return take_words(a, &g, argc, argv, end, e);
}

// Reads all after the command, whose last word is argv[0]. Words after "--" are operands.
static bool take_rest(struct cli_args *a, int argc, char **argv, err *e)
{
    struct grammar g;
    grammar_begin(&g, "-");
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        if (cli_option_is_for(&cli_options[i], a->command)) grammar_add(&g, (enum cli_option)i);
    }
    int at = 0;
    if (!take_words(a, &g, argc, argv, &at, e)) return false;
    for (; at < argc; at++)
        a->operands[a->operand_count++] = argv[at];
    return true;
}

bool cli_args_parse(struct cli_args *a, int argc, char **argv, err *e)
{
    *a = (struct cli_args){.command = CLI_HELP};
    size_t most = 0;  // "-abc" are three options
    for (int i = 0; i < argc; i++)
        most += MAX(strlen(argv[i]), (size_t)1);
    assert(argc > 0);
    a->given = mem_must(most * sizeof *a->given);
    a->operands = mem_must((size_t)argc * sizeof *a->operands);
    int at = 0;
    int words = 0;
    if (!take_common(a, argc, argv, &at, e)) return false;
    if (at >= argc)
        return err_set(e, ERR_INVALID_ARGUMENT, "no command; `flametree help` lists them");
    if (!find_command(argc, argv, at, &a->command, &words)) return unknown_command(argv[at], e);
    // These were read when the command was not known yet.
    for (size_t i = 0; i < a->given_count; i++) {
        const struct cli_option_row *row = &cli_options[a->given[i].option];
        if (!cli_option_is_for(row, a->command))
            return err_set(e, ERR_INVALID_ARGUMENT, "`flametree %s` has no option --%s",
                           cli_commands[a->command].name, row->name);
    }
    assert(words == 1 || words == 2);
    // getopt_long skips its first word, the program's name: here that is the last word of the
    // command.
    at += words - 1;
    return take_rest(a, argc - at, argv + at, e) && check_operands(a, e);
}

void cli_args_release(struct cli_args *a)
{
    // The words themselves are those of argv.
    mem_must_free(a->given);
    mem_must_free(a->operands);
    *a = (struct cli_args){0};
}

// ---- values

bool cli_args_has(const struct cli_args *a, enum cli_option o)
{
    size_t at = 0;
    return cli_args_next(a, o, &at) != NULL;
}

const char *cli_args_get(const struct cli_args *a, enum cli_option o)
{
    // The last one counts: what is added to the end of a script's command line overrides the
    // script.
    assert(o < CLI_OPTION_COUNT);
    for (size_t i = a->given_count; i-- > 0;) {
        if (a->given[i].option == o) return a->given[i].value;
    }
    const struct cli_option_row *row = &cli_options[o];
    const char *value = row->variable[0] ? getenv(row->variable) : NULL;
    // An empty variable counts as none, since it is the easiest way to switch one off for a
    // command.
    if (!value || !value[0]) value = row->fallback;
    return value[0] ? value : NULL;
}

const char *cli_args_next(const struct cli_args *a, enum cli_option o, size_t *at)
{
    assert(*at <= a->given_count);
    while (*at < a->given_count) {
        const struct cli_given *g = &a->given[(*at)++];
        if (g->option == o) return g->value;
    }
    return NULL;
}

bool cli_args_number(const struct cli_args *a, enum cli_option o, uint64_t low, uint64_t high,
                     uint64_t *v, err *e)
{
    assert(low <= high && v);
    const char *text = cli_args_get(a, o);
    if (!text) return true;
    uint64_t n = 0;
    if (str_u64(str_of(text), &n) && n >= low && n <= high) {
        *v = n;
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "--%s is '%s', not a number from %llu to %llu",
                   cli_options[o].name, text, (unsigned long long)low, (unsigned long long)high);
}

bool cli_args_fraction(const struct cli_args *a, enum cli_option o, double low, double high,
                       double *v, err *e)
{
    assert(low <= high && v);
    const char *text = cli_args_get(a, o);
    if (!text) return true;
    char *end = NULL;
    double n = strtod(text, &end);
    // strtod accepts "nan" and "inf" too.
    if (end != text && !*end && isfinite(n) && n >= low && n <= high) {
        *v = n;
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "--%s is '%s', not a number from %g to %g",
                   cli_options[o].name, text, low, high);
}
