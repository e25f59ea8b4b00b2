// SPDX-License-Identifier: Apache-2.0
#include "deploy/flametree/cli_args.h"

#include "base/mem.h"
#include "deploy/flametree/cli_formats.h"

#include <math.h>
#include <stdlib.h>

#define WORDS_MAX ((size_t)200)  // of messages

struct reading {
    struct cli_args *args;
    char **argv;
    int argc;
    int at;
    bool operands_only;  // after "--"
};

// ---- which command

static bool find_command(int argc, char **argv, int at, enum cli_command *c, int *words)
{
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

// Whether a word like "--url=x" or "-lx" names the option of a row.
static bool names(str word, const struct cli_option_row *row)
{
    if (!str_starts(word, S("--"))) return row->letter && word.p[1] == row->letter;
    return str_is(str_slice(word, 2, str_find(word, '=')), row->name);
}

// The option that it names, of those of a command.
static bool find_option(unsigned commands, str word, enum cli_option *o)
{
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        const struct cli_option_row *row = &cli_options[i];
        if (!(row->commands & commands) || !names(word, row)) continue;
        *o = (enum cli_option)i;
        return true;
    }
    return false;
}

static bool is_option(str word)
{
    return word.n > 1 && word.p[0] == '-';
}

// Before the command only options of a server may stand, which several commands have.
static bool is_common(str word, enum cli_option *o)
{
    if (!str_starts(word, S("--"))) return false;
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        *o = (enum cli_option)i;
        if (*o == OPT_COMMAND_HELP || !cli_option_is_common(*o)) continue;
        if (names(word, &cli_options[i])) return true;
    }
    return false;
}

bool cli_args_are_ours(int argc, char **argv)
{
    if (argc < 2) return false;
    enum cli_option o = OPT_URL;
    str first = str_of(argv[1]);
    return !is_option(first) || is_common(first, &o);
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
    const struct format_row *f = format_named(value);
    if (f && row == &cli_options[OPT_FORMAT_PUSH]) return format_refuse(f, e);
    return err_set(e, ERR_INVALID_ARGUMENT, "--%s is '%.*s'; it must be one of %s", row->name,
                   STR(value), row->argument);
}

// x of "[=x]"
static str optional_value(const struct cli_option_row *row)
{
    str argument = str_of(row->argument);
    return str_slice(argument, 2, argument.n - 1);
}

static bool take_value(struct reading *r, enum cli_option o, str word, err *e)
{
    const struct cli_option_row *row = &cli_options[o];
    bool is_long = str_starts(word, S("--"));
    size_t value_at = is_long ? str_find(word, '=') + 1 : 2;
    bool attached = is_long ? value_at <= word.n : value_at < word.n;
    const char *value = "";
    if (cli_is_optional(row->argument)) {
        if (attached && is_long) value = word.p + value_at;
        if ((attached && !is_long) || (attached && !str_eq(optional_value(row), str_of(value))))
            return err_set(e, ERR_INVALID_ARGUMENT, "--%s takes no value but %s", row->name,
                           row->argument);
    } else if (!row->argument[0]) {
        if (attached) return err_set(e, ERR_INVALID_ARGUMENT, "--%s takes no value", row->name);
    } else if (attached) {
        value = word.p + value_at;
    } else if (r->at + 1 < r->argc) {
        value = r->argv[++r->at];
    } else {
        return err_set(e, ERR_INVALID_ARGUMENT, "--%s needs a value: %s", row->name, row->argument);
    }
    if (cli_has_choices(row->argument) && !check_choice(row, str_of(value), e)) return false;
    r->args->given[r->args->given_count++] = (struct cli_given){o, value};
    return true;
}

static bool take_option(struct reading *r, str word, err *e)
{
    enum cli_command c = r->args->command;
    enum cli_option o = OPT_URL;
    if (find_option(1u << c, word, &o)) return take_value(r, o, word, e);
    str name = str_slice(word, 0, str_find(word, '='));
    const char *near =
        str_starts(word, S("--")) ? cli_nearest_option(c, str_slice(name, 2, name.n)) : NULL;
    if (near)
        return err_set(e, ERR_INVALID_ARGUMENT, "unknown option %.*s; did you mean --%s?",
                       STR(name), near);
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "unknown option %.*s; `flametree help %s` lists all options", STR(name),
                   cli_commands[c].name);
}

static bool take_word(struct reading *r, err *e)
{
    str word = str_of(r->argv[r->at]);
    if (!r->operands_only && str_is(word, "--")) {
        r->operands_only = true;
        return true;
    }
    if (!r->operands_only && is_option(word)) return take_option(r, word, e);
    r->args->operands[r->args->operand_count++] = r->argv[r->at];
    return true;
}

// ---- operands: "A [B] C..." says how many there must be

static bool check_operands(const struct cli_args *a, err *e)
{
    size_t least = 0;
    size_t most = 0;
    str rest = str_of(cli_commands[a->command].operands);
    while (rest.n) {
        str one = str_split(rest, ' ', &rest);
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

static bool unknown_command(const struct reading *r, err *e)
{
    const char *word = r->argv[r->at];
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

bool cli_args_parse(struct cli_args *a, int argc, char **argv, err *e)
{
    *a = (struct cli_args){.command = CLI_HELP};
    a->given = mem_must((size_t)argc * sizeof *a->given);
    a->operands = mem_must((size_t)argc * sizeof *a->operands);
    struct reading r = {.args = a, .argv = argv, .argc = argc, .at = 1};
    enum cli_option o = OPT_URL;
    for (; r.at < argc && is_common(str_of(argv[r.at]), &o); r.at++) {
        if (!take_value(&r, o, str_of(argv[r.at]), e)) return false;
    }
    if (r.at >= argc)
        return err_set(e, ERR_INVALID_ARGUMENT, "no command; `flametree help` lists them");
    int words = 0;
    if (!find_command(argc, argv, r.at, &a->command, &words)) return unknown_command(&r, e);
    for (size_t i = 0; i < a->given_count; i++) {
        const struct cli_option_row *row = &cli_options[a->given[i].option];
        if (!cli_option_is_for(row, a->command))
            return err_set(e, ERR_INVALID_ARGUMENT, "`flametree %s` has no option --%s",
                           cli_commands[a->command].name, row->name);
    }
    for (r.at += words; r.at < argc; r.at++) {
        if (!take_word(&r, e)) return false;
    }
    return check_operands(a, e);
}

void cli_args_release(struct cli_args *a)
{
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
    for (size_t i = a->given_count; i-- > 0;) {
        if (a->given[i].option == o) return a->given[i].value;
    }
    const struct cli_option_row *row = &cli_options[o];
    const char *value = row->variable[0] ? getenv(row->variable) : NULL;
    if (!value || !value[0]) value = row->fallback;
    return value[0] ? value : NULL;
}

const char *cli_args_next(const struct cli_args *a, enum cli_option o, size_t *at)
{
    while (*at < a->given_count) {
        const struct cli_given *g = &a->given[(*at)++];
        if (g->option == o) return g->value;
    }
    return NULL;
}

bool cli_args_number(const struct cli_args *a, enum cli_option o, uint64_t low, uint64_t high,
                     uint64_t *v, err *e)
{
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
    const char *text = cli_args_get(a, o);
    if (!text) return true;
    char *end = NULL;
    double n = strtod(text, &end);
    if (end != text && !*end && isfinite(n) && n >= low && n <= high) {
        *v = n;
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "--%s is '%s', not a number from %g to %g",
                   cli_options[o].name, text, low, high);
}
