// SPDX-License-Identifier: Apache-2.0
//
// cli.h - the command line client: one command, from its arguments to its exit status.
//
// main.c hands over the command lines that are the client's (cli_args.h). A command is a function
// that reads its arguments, asks the server (cli_ask.h), writes data to standard output and errors
// to standard error. It runs in the main thread; transfers run on a loop thread, which starts with
// the first request.
#pragma once

#include "deploy/cli/cli_args.h"
#include "deploy/cli/cli_text.h"
#include "deploy/cli/cli_url.h"

enum cli_status {
    CLI_WELL = 0,
    CLI_FAILED = 1,
    CLI_WRONG = 2,
    CLI_NO_DATA = 3,
    CLI_ABOVE = 4
};

#define CLI_HINT_MAX 300

struct cli {
    struct cli_args args;
    struct arena arena;  // of the whole command
    struct text_look look;
    int out_fd;
    bool out_is_tty;
    bool err_is_tty;
    int64_t now_wall_ns;
    // the server; set by cli_ask_open
    struct cli_url url;
    str authorization;  // value of the header, or empty
    str tenant;
    int64_t timeout_ns;
    uint64_t answer_max;
    struct loop *loop;
    struct client *client;
    char hint[CLI_HINT_MAX];        // advice on the error, or empty
    bool frames_cut;                // an answer had not all frames (Flametree-Frames)
    char incomplete[CLI_HINT_MAX];  // parts that the last answer lacks (Flametree-Exact), or empty
    bool parts_missing;             // an answer lacked some
};

// argv[0] is the program. Returns the exit status.
int cli_main(int argc, char **argv);

// The commands of the client. On failure *e has the error, and *status its kind.
typedef bool cli_run(struct cli *c, int *status, err *e);
cli_run cli_push;
cli_run cli_formats;
cli_run cli_query;
cli_run cli_top;
cli_run cli_flame;
cli_run cli_convert;
cli_run cli_series;
cli_run cli_labels;
cli_run cli_types;
cli_run cli_diff;
cli_run cli_ready;
cli_run cli_block_ls;
cli_run cli_block_show;
cli_run cli_block_verify;
cli_run cli_manifest_show;
cli_run cli_manifest_verify;
cli_run cli_stream_ls;
cli_run cli_stream_show;
cli_run cli_stream_forget;
cli_run cli_stream_forgotten;
cli_run cli_stream_recover;
cli_run cli_stream_remove;
cli_run cli_place;
cli_run cli_delete;
cli_run cli_deletions;
cli_run cli_tenant_delete;
cli_run cli_plan;
cli_run cli_export;
cli_run cli_import;
cli_run cli_backup;
cli_run cli_restore;

// Options that several commands have. Fail with *status CLI_WRONG.
bool cli_wrong(int *status);  // false
bool cli_range(struct cli *c, int64_t *from_ns, int64_t *until_ns, err *e) MUST_CHECK;
bool cli_duration(struct cli *c, enum cli_option o, int64_t *ns, err *e) MUST_CHECK;
bool cli_width(struct cli *c, err *e) MUST_CHECK;  // --width and --color, into c->look
bool cli_wants_json(const struct cli *c);          // --format json

// Sets the advice that is shown below the error.
void cli_hint(struct cli *c, const char *fmt, ...) PRINTF(2, 3);

// Writes b to the output and empties it. If the reader has closed the pipe, the program ends
// quietly.
bool cli_write(struct cli *c, struct buf *b, err *e) MUST_CHECK;
// The same with text of a server, without the control characters in it (text_filter).
bool cli_print(struct cli *c, str text, err *e) MUST_CHECK;

// Prints the warning "flametree: message" to standard error.
void cli_say(struct cli *c, const char *fmt, ...) PRINTF(2, 3);
