// SPDX-License-Identifier: Apache-2.0
//
// Scripts that complete commands, options, choices and names of files. Services, profile types and
// labels are those of the server: the script runs `flametree` to list them. They may be any text,
// so no shell may expand them.
#include "deploy/cli/cli_help.h"

static bool wants_file(const char *argument)
{
    return str_contains(str_of(argument), S("FILE"));
}

// Do all commands' words of this kind complete as files?
static bool takes_files(enum cli_command c)
{
    return wants_file(cli_commands[c].operands);
}

// The commands of `flametree` that completion runs: the arguments that list the words of an option
// or of an operand; NULL: none.
static const char *option_words(enum cli_option o)
{
    switch (o) {
    case OPT_SERVICE:
        return "labels service_name";
    case OPT_TYPE:
        return "types";
    case OPT_GROUP_BY:
        return "labels";
    default:
        return NULL;
    }
}

static const char *operand_words(enum cli_command c)
{
    if (c == CLI_LABELS) return "labels";
    return c == CLI_QUERY || c == CLI_TOP || c == CLI_SERIES || c == CLI_DIFF ? "types" : NULL;
}

static void put_choices(struct buf *b, const char *argument)
{
    assert(argument[0]);
    str rest = str_of(argument);
    str choice = {0};
    for (bool first = true; cli_choice_next(&rest, &choice); first = false) {
        if (!first) buf_byte(b, ' ');
        buf_str(b, choice);
    }
}

// The summary of a command; for a first word of several commands the list of second words.
static void put_summary(struct buf *b, enum cli_command c, void (*put)(struct buf *b, const char *))
{
    assert(c < CLI_COMMAND_COUNT);
    // Commands with the same first word lie side by side, so it is enough to look at the next one.
    bool alone = c + 1 == CLI_COMMAND_COUNT || cli_command_words((enum cli_command)(c + 1)).is_head;
    if (alone) {
        put(b, cli_commands[c].summary);
        return;
    }
    struct buf seconds;
    buf_init(&seconds, NULL, 200);
    cli_put_seconds(&seconds, cli_command_words(c).first, ", ");
    // `put` takes text that ends with NUL, which a buffer has not.
    buf_byte(&seconds, '\0');
    if (seconds.n) put(b, seconds.p);
    buf_release(&seconds);
}

// ---- bash

static void bash_command(struct buf *b, enum cli_command c)
{
    const char *name = cli_commands[c].name;
    buf_printf(b, "    '%s')\n        case $prev in\n", name);
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        const struct cli_option_row *o = &cli_options[i];
        if (!cli_option_is_for(o, c) || !o->argument[0] || cli_is_optional(o->argument)) continue;
        buf_printf(b, "        --%s", o->name);
        if (o->letter) buf_printf(b, " | -%c", o->letter);
        buf_z(b, ") ");
        if (cli_has_choices(o->argument)) {
            buf_z(b, "COMPREPLY=($(compgen -W '");
            put_choices(b, o->argument);
            buf_z(b, "' -- \"$cur\"))");
        } else if (wants_file(o->argument)) {
            buf_z(b, "COMPREPLY=($(compgen -f -- \"$cur\"))");
        } else if (option_words((enum cli_option)i)) {
            buf_printf(b, "_flametree_ask %s", option_words((enum cli_option)i));
        } else if (i == OPT_LABEL) {
            buf_z(b, "_flametree_label");
        } else {
            buf_z(b, ":");
        }
        buf_z(b, "; return ;;\n");
    }
    buf_z(b, "        esac\n        words='");
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        if (cli_option_is_for(&cli_options[i], c)) buf_printf(b, "--%s ", cli_options[i].name);
    }
    buf_z(b, "'\n        operands='");
    if (cli_has_choices(cli_commands[c].operands)) put_choices(b, cli_commands[c].operands);
    // Its operands are the commands, which no row lists.
    if (c == CLI_HELP) {
        for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
            buf_printf(b, "%s ", cli_commands[i].name);
    }
    buf_printf(b, "'\n        ask='%s' files=%s ;;\n", operand_words(c) ? operand_words(c) : "",
               takes_files(c) ? "1" : "");
}

// 'config check' | ...
static void bash_pairs(struct buf *b)
{
    bool any = false;
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_words((enum cli_command)i).second.n == 0) continue;
        buf_printf(b, "%s'%s'", any ? " | " : "", cli_commands[i].name);
        any = true;
    }
}

static const char bash_head[] =
    "# bash completion of flametree; printed by: flametree completion bash\n"
    "\n"
    "# Adds what the server at hand lists, between $before and $ending. Readline takes ':' and '=' "
    "for ends\n"
    "# of words, so what stands before them is cut off. It also quotes what a shell would expand.\n"
    "_flametree_ask() {\n"
    "    local word full cut i server=()\n"
    "    for ((i = 1; i < ${#typed[@]}; i++)); do\n"
    "        case ${typed[i]} in\n"
    "        --url=* | --tenant=* | --user=* | --bearer=* | --ca-file=*) server+=(\"${typed[i]}\") "
    ";;\n"
    "        --url | --tenant | --user | --bearer | --ca-file) server+=(\"${typed[i]}\" "
    "\"${typed[i + 1]}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    full=${COMP_LINE:0:COMP_POINT} full=${full##*[[:space:]]} full=${full#--*=}\n"
    "    cut=${full%\"$cur\"}\n"
    "    while IFS= read -r word; do\n"
    "        word=$before$word$ending\n"
    "        [[ $word == \"$full\"* ]] && COMPREPLY+=(\"${word#\"$cut\"}\")\n"
    "    done < <(command \"${typed[0]}\" \"$@\" \"${server[@]}\" --timeout "
    "\"${FLAMETREE_TIMEOUT:-1s}\" 2>/dev/null)\n"
    "}\n"
    "\n"
    "# KEY=VALUE: keys, and behind the '=' values.\n"
    "_flametree_label() {\n"
    "    local before='' ending='' full\n"
    "    full=${COMP_LINE:0:COMP_POINT} full=${full##*[[:space:]]} full=${full#--label=}\n"
    "    case $full in\n"
    "    *=*) before=${full%%=*}=; _flametree_ask labels \"${full%%=*}\" ;;\n"
    "    *) ending==; compopt -o nospace 2>/dev/null; _flametree_ask labels ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_flametree() {\n"
    "    local cur prev command words operands files ask i before='' ending='' typed=()\n"
    "    cur=${COMP_WORDS[COMP_CWORD]} command=\n"
    "    COMPREPLY=()\n"
    "    read -ra typed <<<\"${COMP_LINE:0:COMP_POINT}\"\n"
    "    [[ ${COMP_LINE:0:COMP_POINT} != *[[:space:]] ]] || typed+=('')\n"
    "    # The word that readline may have cut: --option=x, KEY=x, a:b\n"
    "    for ((i = COMP_CWORD; i > 1; i--)); do\n"
    "        [[ ${COMP_WORDS[i]} == [=:] || ${COMP_WORDS[i - 1]} == [=:] ]] || break\n"
    "    done\n"
    "    prev=${COMP_WORDS[i - 1]}\n"
    "    [[ $i == \"$COMP_CWORD\" || ${COMP_WORDS[i]} != --* ]] || prev=${COMP_WORDS[i]}\n"
    "    [[ $cur != [=:] ]] || cur=\n"
    "    for ((i = 1; i + 1 < ${#typed[@]}; i++)); do\n"
    "        case ${typed[i]} in\n"
    "        --url | --tenant | --user | --bearer | --ca-file | --timeout | --max-answer) ((i++)) "
    ";;\n"
    "        -*) ;;\n"
    "        *)\n"
    "            command=${typed[i]}\n"
    "            ((i + 2 < ${#typed[@]})) && case \"$command ${typed[i + 1]}\" in\n"
    "            ";

static void bash(struct buf *b)
{
    buf_z(b, bash_head);
    bash_pairs(b);
    buf_z(b, ") command+=\" ${typed[i + 1]}\" ;;\n"
             "            esac\n"
             "            break ;;\n"
             "        esac\n"
             "    done\n"
             "    case $command in\n"
             "    '') COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head) buf_printf(b, "%.*s ", STR(w.first));
    }
    buf_z(b, "--help --version --config --check-config' -- \"$cur\")); return ;;\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head && w.second.n) {
            buf_printf(b, "    %.*s) COMPREPLY=($(compgen -W '", STR(w.first));
            cli_put_seconds(b, w.first, " ");
            buf_z(b, "' -- \"$cur\")); return ;;\n");
        }
        bash_command(b, (enum cli_command)i);
    }
    buf_z(b, "    *) return ;;\n"
             "    esac\n"
             "    case $cur in\n"
             "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
             "    *)\n"
             "        COMPREPLY=($(compgen -W \"$operands\" -- \"$cur\"))\n"
             "        [ -z \"$ask\" ] || _flametree_ask $ask\n"
             "        [ -z \"$files\" ] || COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
             "    esac\n"
             "}\n"
             "complete -o filenames -F _flametree flametree\n");
}

// ---- zsh

// Text inside '...[...]': quotes end the word, brackets and colons the part.
static void zsh_text(struct buf *b, const char *text)
{
    for (; *text; text++) {
        // A quote cannot be escaped within quotes: they end, an escaped one follows, and they begin
        // anew.
        if (*text == '\'')
            buf_z(b, "'\\''");
        else if (strchr("[]:\\", *text))
            buf_printf(b, "\\%c", *text);
        else
            buf_byte(b, (unsigned char)*text);
    }
}

static void zsh_option(struct buf *b, enum cli_option id)
{
    const struct cli_option_row *o = &cli_options[id];
    assert(id < CLI_OPTION_COUNT);
    const char *repeat = cli_is_repeated(o->argument) ? "*" : "";
    if (o->letter)
        buf_printf(b, " '%s'{-%c,--%s}'[", repeat, o->letter, o->name);
    else
        buf_printf(b, " '%s--%s[", repeat, o->name);
    zsh_text(b, o->sentence);
    buf_byte(b, ']');
    if (o->argument[0] && !cli_is_optional(o->argument)) {
        buf_z(b, ":");
        // The choices are listed anyway, so the title above them is the option's name.
        zsh_text(b, cli_has_choices(o->argument) ? o->name : o->argument);
        buf_z(b, ":");
    }
    if (cli_has_choices(o->argument)) {
        buf_z(b, "(");
        put_choices(b, o->argument);
        buf_z(b, ")");
    } else if (wants_file(o->argument)) {
        buf_z(b, "_files");
    } else if (option_words(id)) {
        buf_printf(b, "_flametree_ask %s", option_words(id));
    } else if (id == OPT_LABEL) {
        buf_z(b, "_flametree_label");
    }
    buf_byte(b, '\'');
}

static void zsh_command(struct buf *b, enum cli_command c)
{
    buf_printf(b, "    '%s') _arguments", cli_commands[c].name);
    for (size_t k = 0; k < CLI_OPTION_COUNT; k++) {
        if (cli_option_is_for(&cli_options[k], c)) zsh_option(b, (enum cli_option)k);
    }
    if (takes_files(c)) buf_z(b, " '*:file:_files'");
    if (operand_words(c)) buf_printf(b, " '*:query:_flametree_ask %s'", operand_words(c));
    if (cli_has_choices(cli_commands[c].operands)) {
        buf_z(b, " '1:which:(");
        put_choices(b, cli_commands[c].operands);
        buf_z(b, ")'");
    }
    buf_z(b, " ;;\n");
}

static const char zsh_head[] =
    "#compdef flametree\n"
    "# zsh completion of flametree; printed by: flametree completion zsh\n"
    "\n"
    "_flametree_ask() {\n"
    "    local -a found server\n"
    "    server=(${(M)words:#--(url|tenant|user|bearer|ca-file)=*})\n"
    "    found=(${(f)\"$(flametree $* $server --timeout ${FLAMETREE_TIMEOUT:-1s} "
    "2>/dev/null)\"})\n"
    "    compadd \"${ending[@]}\" -a found\n"
    "}\n"
    "\n"
    "# KEY=VALUE: keys, and behind the '=' values.\n"
    "_flametree_label() {\n"
    "    if compset -P 1 '*='; then\n"
    "        _flametree_ask labels ${${IPREFIX#--label=}%=}\n"
    "    else\n"
    "        local -a ending=(-S =)\n"
    "        _flametree_ask labels\n"
    "    fi\n"
    "}\n"
    "\n"
    "_flametree() {\n"
    "    local -a commands ending\n"
    "    commands=(";

static void zsh(struct buf *b)
{
    buf_z(b, zsh_head);
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (!w.is_head) continue;
        buf_printf(b, " '%.*s:", STR(w.first));
        put_summary(b, (enum cli_command)i, zsh_text);
        buf_z(b, "'");
    }
    buf_z(b, ")\n    if ((CURRENT == 2)); then _describe command commands; return; fi\n"
             "    local command=${words[2]}\n    shift words; ((CURRENT--))\n"
             "    case $command in\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head && w.second.n) {
            buf_printf(b, "    %.*s)\n        if ((CURRENT == 2)); then compadd ", STR(w.first));
            cli_put_seconds(b, w.first, " ");
            buf_printf(b,
                       "; return; fi\n        command=\"%.*s ${words[2]}\"\n"
                       "        shift words; ((CURRENT--)) ;;\n",
                       STR(w.first));
        }
    }
    buf_z(b, "    esac\n    case $command in\n");
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++)
        zsh_command(b, (enum cli_command)i);
    buf_z(b, "    esac\n}\n_flametree \"$@\"\n");
}

// ---- fish

static void fish_text(struct buf *b, const char *text)
{
    buf_byte(b, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') buf_byte(b, '\\');
        buf_byte(b, (unsigned char)*text);
    }
    buf_byte(b, '\'');
}

// The condition that this command has been typed.
static void fish_given(struct buf *b, struct cli_words w)
{
    buf_printf(b, "__fish_seen_subcommand_from %.*s", STR(w.first));
    if (w.second.n) buf_printf(b, "; and __fish_seen_subcommand_from %.*s", STR(w.second));
}

static void fish_option(struct buf *b, struct cli_words w, enum cli_option id)
{
    const struct cli_option_row *o = &cli_options[id];
    assert(id < CLI_OPTION_COUNT && w.first.n > 0);
    buf_z(b, "complete -c flametree -n '");
    fish_given(b, w);
    buf_printf(b, "' -l %s", o->name);
    if (o->letter) buf_printf(b, " -s %c", o->letter);
    bool flag = !o->argument[0] || cli_is_optional(o->argument);
    if (!flag) buf_z(b, " -r");
    // -r: a value must follow; -f: it is not a file.
    if (!flag && !wants_file(o->argument)) buf_z(b, " -f");
    if (cli_has_choices(o->argument)) {
        buf_z(b, " -a '");
        put_choices(b, o->argument);
        buf_byte(b, '\'');
    }
    if (option_words(id)) buf_printf(b, " -a '(__flametree_ask %s)'", option_words(id));
    if (id == OPT_LABEL) buf_z(b, " -a '(__flametree_label)'");
    buf_z(b, " -d ");
    fish_text(b, o->sentence);
    buf_byte(b, '\n');
}

// The first word of a command, and of a command of two words those that may follow.
static void fish_head(struct buf *b, enum cli_command c)
{
    struct cli_words w = cli_command_words(c);
    buf_printf(b, "complete -c flametree -f -n __fish_use_subcommand -a %.*s -d ", STR(w.first));
    put_summary(b, c, fish_text);
    buf_byte(b, '\n');
    if (w.second.n == 0) return;
    buf_printf(b,
               "complete -c flametree -f -n '__fish_seen_subcommand_from %.*s; and not "
               "__fish_seen_subcommand_from ",
               STR(w.first));
    cli_put_seconds(b, w.first, " ");
    buf_z(b, "' -a '");
    cli_put_seconds(b, w.first, " ");
    buf_z(b, "'\n");
}

static const char fish_begin[] =
    "# fish completion of flametree; printed by: flametree completion fish\n"
    "\n"
    "function __flametree_ask\n"
    "    set -l server (commandline -opc | string match -r -- "
    "'^--(?:url|tenant|user|bearer|ca-file)=.*')\n"
    "    set -q FLAMETREE_TIMEOUT; or set -l FLAMETREE_TIMEOUT 1s\n"
    "    flametree $argv $server --timeout $FLAMETREE_TIMEOUT 2>/dev/null\n"
    "end\n"
    "\n"
    "# KEY=VALUE: keys, and behind the '=' values.\n"
    "function __flametree_label\n"
    "    set -l key (commandline -ct | string match -r -- '^[^=]+(?==)')\n"
    "    if set -q key[1]\n"
    "        __flametree_ask labels $key | string replace -r -- '^' $key=\n"
    "    else\n"
    "        __flametree_ask labels | string replace -r -- '$' =\n"
    "    end\n"
    "end\n"
    "\n"
    "";

static void fish(struct buf *b)
{
    buf_z(b, fish_begin);
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (w.is_head) fish_head(b, (enum cli_command)i);
        for (size_t k = 0; k < CLI_OPTION_COUNT; k++) {
            if (cli_option_is_for(&cli_options[k], (enum cli_command)i))
                fish_option(b, w, (enum cli_option)k);
        }
        const char *words = operand_words((enum cli_command)i);
        if (words) {
            buf_z(b, "complete -c flametree -f -n '");
            fish_given(b, w);
            buf_printf(b, "' -a '(__flametree_ask %s)'\n", words);
        }
        if (!cli_has_choices(cli_commands[i].operands)) continue;
        buf_z(b, "complete -c flametree -f -n '");
        fish_given(b, w);
        buf_z(b, "' -a '");
        put_choices(b, cli_commands[i].operands);
        buf_z(b, "'\n");
    }
}

bool cli_completion_print(struct buf *b, str shell)
{
    assert(b);
    if (str_is(shell, "bash"))
        bash(b);
    else if (str_is(shell, "zsh"))
        zsh(b);
    else if (str_is(shell, "fish"))
        fish(b);
    else
        return false;
    return true;
}
