// SPDX-License-Identifier: Apache-2.0
//
// cli.c - what all commands share, and the table of commands.
#include "deploy/cli/cli.h"

#include "codec/attime.h"
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_help.h"
#include "deploy/cli/cli_text.h"
#include "deploy/cli/cli_time.h"
#include "service/config.h"
#include "service/service.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ARENA_MAX   ((size_t)8 << 30)  // --max-answer limits the memory of answers
#define TEXT_MAX    ((size_t)1 << 20)
#define MESSAGE_MAX ((size_t)8 << 10)
#define PRINT_MAX   ((size_t)64 << 20)  // no answer that is printed as it came is larger
#define WIDTH_PLAIN 80u
#define WIDTH_LEAST 20u
#define WIDTH_MOST  1000u
#define STATUS_PIPE (128 + SIGPIPE)  // as if the signal had ended us: shells do not report that

// ---- functions for all commands

bool cli_wrong(int *status)
{
    assert(status);
    *status = CLI_WRONG;
    return false;
}

void cli_hint(struct cli *c, const char *fmt, ...)
{
    assert(c && fmt);
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->hint, sizeof c->hint, fmt, args);
    va_end(args);
}

static void put_message(const char *head, const char *text)
{
    struct buf b;
    buf_init(&b, NULL, MESSAGE_MAX);
    buf_z(&b, head);
    // Messages quote names and answers of servers, which may have characters that act on a
    // terminal.
    text_filter(&b, str_of(text));
    buf_byte(&b, '\n');
    if (!b.failed)
        fwrite(b.p, 1, b.n, stderr);
    else
        fputs("flametree: out of memory\n", stderr);
    buf_release(&b);
}

void cli_say(struct cli *c, const char *fmt, ...)
{
    assert(c->args.command < CLI_COMMAND_COUNT);
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char head[64];
    snprintf(head, sizeof head, "flametree %s: ", cli_commands[c->args.command].name);
    put_message(head, text);
}

bool cli_write(struct cli *c, struct buf *b, err *e)
{
    if (!buf_ok(b, e)) return false;
    // write() may take a part: pipes and terminals have small buffers.
    for (size_t at = 0; at < b->n;) {
        ssize_t n = write(c->out_fd, b->p + at, b->n - at);
        if (n >= 0) {
            at += (size_t)n;
            continue;
        }
        if (errno == EINTR) continue;
        if (errno == EPIPE) _exit(STATUS_PIPE);  // without cleaning up: transfers may be under way
        return err_set(e, ERR_UNAVAILABLE, "write: %s", strerror(errno));
    }
    // Emptied, so that a caller can go on with the same buffer.
    buf_clear(b);
    return true;
}

bool cli_print(struct cli *c, str text, err *e)
{
    struct buf b;
    buf_init(&b, NULL, PRINT_MAX);
    text_filter(&b, text);
    bool ok = cli_write(c, &b, e);
    buf_release(&b);
    return ok;
}

bool cli_range(struct cli *c, int64_t *from_ns, int64_t *until_ns, err *e)
{
    assert(from_ns && until_ns);
    const char *from = cli_args_get(&c->args, OPT_FROM);
    const char *until = cli_args_get(&c->args, OPT_UNTIL);
    if (!attime_parse(str_of(from), c->now_wall_ns, from_ns, e)) return err_wrap(e, "--from");
    if (!attime_parse(str_of(until), c->now_wall_ns, until_ns, e)) return err_wrap(e, "--until");
    if (*from_ns <= *until_ns) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "--from %s is after --until %s", from, until);
}

bool cli_duration(struct cli *c, enum cli_option o, int64_t *ns, err *e)
{
    assert(ns && o < CLI_OPTION_COUNT);
    const char *text = cli_args_get(&c->args, o);
    if (!text) return true;
    if (!config_duration(str_of(text), ns, e)) return err_wrap(e, "--%s", cli_options[o].name);
    if (*ns > 0) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "--%s is %s; it must be more than 0",
                   cli_options[o].name, text);
}

static enum text_colors terminal_colors(void)
{
    const char *term = getenv("TERM");
    const char *more = getenv("COLORTERM");
    if (!term || strcmp(term, "dumb") == 0) return TEXT_PLAIN;
    if (more && (strcmp(more, "truecolor") == 0 || strcmp(more, "24bit") == 0)) return TEXT_TRUE;
    // terminfo's names for terminals with 24 bits of colour.
    if (strstr(term, "direct")) return TEXT_TRUE;
    return strstr(term, "256color") ? TEXT_256 : TEXT_16;
}

bool cli_width(struct cli *c, err *e)
{
    const char *no_color = getenv("NO_COLOR");
    const char *when = cli_args_get(&c->args, OPT_COLOR);
    assert(when);  // the option has a fallback
    bool always = strcmp(when, "always") == 0;
    bool automatic = strcmp(when, "auto") == 0 && c->out_is_tty && !(no_color && no_color[0]);
    c->look.colors = always || automatic ? terminal_colors() : TEXT_PLAIN;
    if (always && c->look.colors == TEXT_PLAIN) c->look.colors = TEXT_16;  // also without TERM
    struct winsize size = {0};
    uint64_t width = WIDTH_PLAIN;
    // Some terminals report 0 columns, or are too narrow for a table; then it is as in a pipe.
    if (c->out_is_tty && ioctl(c->out_fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_LEAST)
        width = MIN(size.ws_col, WIDTH_MOST);
    if (!cli_args_number(&c->args, OPT_WIDTH, WIDTH_LEAST, WIDTH_MOST, &width, e)) return false;
    assert(width >= WIDTH_LEAST && width <= WIDTH_MOST);
    c->look.width = (unsigned)width;
    return true;
}

bool cli_wants_json(const struct cli *c)
{
    const char *format = cli_args_get(&c->args, OPT_FORMAT_ROWS);
    return format && strcmp(format, "json") == 0;
}

// ---- commands that need no server

static bool run_help(struct cli *c, struct buf *b, err *e)
{
    bool man = cli_args_has(&c->args, OPT_MAN);
    bool markdown = cli_args_has(&c->args, OPT_MARKDOWN);
    if ((man && markdown) || ((man || markdown) && c->args.operand_count > 0))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--man and --markdown print all commands, and only one of them");
    if (man) {
        cli_help_man(b);
        return true;
    }
    if (markdown) {
        cli_help_markdown(b);
        return true;
    }
    if (c->args.operand_count == 0) {
        cli_help_overview(b);
        return true;
    }
    str name = str_of(c->args.operands[0]);
    if (c->args.operand_count == 2)
        name = arena_printf(&c->arena, "%.*s %s", STR(name), c->args.operands[1]);
    // Several may match: "help block" explains each command that begins with this word.
    bool found = false;
    for (size_t i = 0; i < CLI_COMMAND_COUNT; i++) {
        struct cli_words w = cli_command_words((enum cli_command)i);
        if (!str_is(name, cli_commands[i].name) && (w.second.n == 0 || !str_eq(name, w.first)))
            continue;
        if (found) buf_byte(b, '\n');
        cli_help_command(b, (enum cli_command)i);
        found = true;
    }
    if (found) return true;
    const char *near = cli_nearest_command(name);
    return err_set(e, ERR_INVALID_ARGUMENT, "unknown command '%.*s'%s%s%s", STR(name),
                   near ? "; did you mean `flametree help " : "", near ? near : "",
                   near ? "`?" : "; `flametree help` lists all commands");
}

static bool run_text(struct cli *c, struct buf *b, err *e)
{
    // Before the operands are looked at: with --help there may be none.
    if (cli_args_has(&c->args, OPT_COMMAND_HELP)) {
        cli_help_command(b, c->args.command);
        return true;
    }
    if (c->args.command == CLI_VERSION) {
        buf_printf(b, "flametree %s (%s)\n", service_version, service_revision);
        return true;
    }
    if (c->args.command == CLI_HELP) return run_help(c, b, e);
    assert(c->args.command == CLI_COMPLETION);
    assert(c->args.operand_count == 1);  // its row demands one
    if (cli_completion_print(b, str_of(c->args.operands[0]))) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "'%s' must be one of %s", c->args.operands[0],
                   cli_commands[CLI_COMPLETION].operands);
}

// ---- the whole

static cli_run *const runs[CLI_COMMAND_COUNT] = {
    [CLI_PUSH] = cli_push,
    [CLI_FORMATS] = cli_formats,
    [CLI_QUERY] = cli_query,
    [CLI_TOP] = cli_top,
    [CLI_FLAME] = cli_flame,
    [CLI_CONVERT] = cli_convert,
    [CLI_SERIES] = cli_series,
    [CLI_LABELS] = cli_labels,
    [CLI_TYPES] = cli_types,
    [CLI_DIFF] = cli_diff,
    [CLI_READY] = cli_ready,
    [CLI_BLOCK_LS] = cli_block_ls,
    [CLI_BLOCK_SHOW] = cli_block_show,
    [CLI_BLOCK_VERIFY] = cli_block_verify,
    [CLI_MANIFEST_SHOW] = cli_manifest_show,
    [CLI_MANIFEST_VERIFY] = cli_manifest_verify,
    [CLI_STREAM_LS] = cli_stream_ls,
    [CLI_STREAM_SHOW] = cli_stream_show,
    [CLI_STREAM_FORGET] = cli_stream_forget,
    [CLI_STREAM_FORGOTTEN] = cli_stream_forgotten,
    [CLI_STREAM_RECOVER] = cli_stream_recover,
    [CLI_STREAM_REMOVE] = cli_stream_remove,
    [CLI_PLACE] = cli_place,
    [CLI_DELETE] = cli_delete,
    [CLI_TENANT_DELETE] = cli_tenant_delete,
    [CLI_DELETIONS] = cli_deletions,
    [CLI_PLAN] = cli_plan,
    [CLI_EXPORT] = cli_export,
    [CLI_IMPORT] = cli_import,
    [CLI_BACKUP] = cli_backup,
    [CLI_RESTORE] = cli_restore,
};

static bool run_command(struct cli *c, int *status, err *e)
{
    assert(c->args.command < CLI_COMMAND_COUNT && !c->client);
    cli_run *fn = runs[c->args.command];
    if (fn && !cli_args_has(&c->args, OPT_COMMAND_HELP)) {
        // Commands that only read files need no client, whose loop has a thread.
        bool remote = cli_option_is_for(&cli_options[OPT_URL], c->args.command);
        return !remote || cli_ask_open(c, e) ? fn(c, status, e) : cli_wrong(status);
    }
    struct buf b;
    buf_init(&b, NULL, TEXT_MAX);
    bool ok = run_text(c, &b, e) || cli_wrong(status);
    if (ok && !cli_write(c, &b, e)) ok = false;
    buf_release(&b);
    return ok;
}

static void print_fault(const struct cli *c, const err *e, bool named)
{
    assert(e->code);
    char head[64];
    snprintf(head, sizeof head,
             named ? "flametree %s: " : "flametree: ", cli_commands[c->args.command].name);
    put_message(head, e->msg);
    if (c->hint[0]) put_message("  hint: ", c->hint);
}

int cli_main(int argc, char **argv)
{
    assert(argc > 0);
    // First of all: no map may be made before the seed is there.
    hash_seed(rand_key());
    // libcurl over TLS writes to sockets without MSG_NOSIGNAL. And if the reader of our output ends
    // early (`head`), that is no error.
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    // For wcwidth. C.UTF-8 and not that of the environment, which may have another encoding than
    // ours.
    setlocale(LC_CTYPE, "C.UTF-8");
    // The rooms below log for servers; here only what a command says is for people.
    log_set_level(LOG_ERROR);
    struct cli c = {.out_fd = STDOUT_FILENO,
                    .out_is_tty = isatty(STDOUT_FILENO) == 1,
                    .err_is_tty = isatty(STDERR_FILENO) == 1,
                    .now_wall_ns = clock_wall_ns()};
    arena_init(&c.arena, NULL, ARENA_MAX);
    err e = {0};
    int status = CLI_FAILED;
    if (!cli_args_parse(&c.args, argc, argv, &e)) {
        status = CLI_WRONG;
        print_fault(&c, &e, false);
    } else if (run_command(&c, &status, &e)) {
        status = CLI_WELL;
    } else if (e.code) {
        print_fault(&c, &e, true);
    }
    // In this order: transfers may still read the arena until the client is closed.
    cli_ask_close(&c);
    cli_args_release(&c.args);
    arena_release(&c.arena);
    return status;
}
