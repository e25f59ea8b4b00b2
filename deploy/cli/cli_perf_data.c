// SPDX-License-Identifier: Apache-2.0
//
// cli_perf_data.c - perf gets the bytes as a file in memory, because they may have come from
// standard input and perf wants to seek in them.
#include "deploy/cli/cli_perf_data.h"

#include "decode/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 10)
#define SAID_MAX   ((size_t)2 << 10)
#define SAID_SHOWN 300
#define PATH_BYTES 32
#define NOT_FOUND  127  // exit status of a child that could not be begun

struct perf_run {
    int file;  // the perf.data
    int out[2];
    int said[2];
    struct buf text;
    struct buf words;  // the end of its standard error
};

static bool perf_fails(const char *what, err *e)
{
    return err_set(e, ERR_UNAVAILABLE, "perf script: %s: %s", what, strerror(errno));
}

static void perf_close(int *fd)
{
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

static bool perf_write(struct perf_run *r, str bytes, err *e)
{
    r->file = memfd_create("perf.data", 0);  // inherited
    if (r->file < 0) return perf_fails("memory for the file", e);
    while (bytes.n) {
        ssize_t n = write(r->file, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR) return perf_fails("memory for the file", e);
        if (n > 0) bytes = str_slice(bytes, (size_t)n, bytes.n);
    }
    return true;
}

// Begins perf; the ends of pipes that are its own are closed here.
static bool perf_begin(struct perf_run *r, pid_t *child, err *e)
{
    char path[PATH_BYTES];
    posix_spawn_file_actions_t actions;
    if (pipe2(r->out, O_CLOEXEC) != 0 || pipe2(r->said, O_CLOEXEC) != 0)
        return perf_fails("pipe", e);
    snprintf(path, sizeof path, "/dev/fd/%d", r->file);
    char perf[] = "perf";
    char script[] = "script";
    char input[] = "-i";
    char fields[] = "-F";
    char pid[] = "+pid";  // without it only the thread is printed
    char *argv[] = {perf, script, input, path, fields, pid, NULL};
    if (posix_spawn_file_actions_init(&actions) != 0) return perf_fails("start", e);
    int failed =
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) ||
        posix_spawn_file_actions_adddup2(&actions, r->out[1], STDOUT_FILENO) ||
        posix_spawn_file_actions_adddup2(&actions, r->said[1], STDERR_FILENO);
    errno = failed ? ENOMEM : posix_spawnp(child, perf, &actions, NULL, argv, environ);
    int reason = errno;
    posix_spawn_file_actions_destroy(&actions);
    perf_close(&r->out[1]);
    perf_close(&r->said[1]);
    if (reason == 0) return true;
    if (reason == ENOENT) {
        return err_set(e, ERR_UNAVAILABLE,
                       "it is perf.data, which only perf reads, and there is "
                       "no `perf` here; " TOOL_PERF_DATA_ADVICE);
    }
    errno = reason;
    return perf_fails("start", e);
}

// Reads the bytes that have come; closes the pipe at its end. Text that does not fit leaves `to`
// failed.
static void perf_read(int *fd, struct buf *to, bool keep_all)
{
    char bytes[READ_BYTES];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EINTR)) perf_close(fd);
    if (n <= 0) return;
    buf_put(to, bytes, (size_t)n);
    if (keep_all || to->n <= SAID_MAX) return;
    memmove(to->p, to->p + to->n - SAID_MAX, SAID_MAX);
    to->n = SAID_MAX;
}

static bool perf_wait(struct perf_run *r, pid_t child, int *status, err *e)
{
    while (r->out[0] >= 0 || r->said[0] >= 0) {
        struct pollfd fds[] = {{.fd = r->out[0], .events = POLLIN},
                               {.fd = r->said[0], .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
        if (fds[0].revents) perf_read(&r->out[0], &r->text, true);
        if (fds[1].revents) perf_read(&r->said[0], &r->words, false);
        if (r->text.failed) {
            kill(child, SIGKILL);
            break;
        }
    }
    while (waitpid(child, status, 0) < 0) {
        if (errno != EINTR) return perf_fails("wait", e);
    }
    return buf_ok(&r->text, e) || err_wrap(e, "the text of perf script");
}

// The last lines say most, and the first are mostly warnings.
static bool perf_refuse(const struct perf_run *r, int status, err *e)
{
    str said = str_trim(buf_view(&r->words));
    said = str_slice(said, said.n > SAID_SHOWN ? said.n - SAID_SHOWN : 0, said.n);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND && said.n == 0)
        said = S("it could not be begun");
    if (said.n == 0 && WIFSIGNALED(status)) said = S("it was killed");
    return err_set(e, ERR_INVALID_ARGUMENT, "`perf script` cannot read this perf.data: %.*s",
                   STR(said));
}

static bool perf_run(struct perf_run *r, str bytes, err *e)
{
    pid_t child = 0;
    int status = 0;
    if (!perf_write(r, bytes, e) || !perf_begin(r, &child, e) || !perf_wait(r, child, &status, e))
        return false;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) || perf_refuse(r, status, e);
}

bool cli_perf_data_text(struct buf *file, bool *was, err *e)
{
    struct perf_run r = {.file = -1, .out = {-1, -1}, .said = {-1, -1}};
    *was = tool_is_perf_data(buf_view(file));
    if (!*was) return true;
    buf_init(&r.text, NULL, file->cap);
    buf_init(&r.words, NULL, SAID_MAX + READ_BYTES);
    bool ok = perf_run(&r, buf_view(file), e);
    perf_close(&r.file);
    for (int i = 0; i < 2; i++) {
        perf_close(&r.out[i]);
        perf_close(&r.said[i]);
    }
    if (ok) {
        size_t cap = file->cap;
        buf_release(file);
        *file = buf_take(&r.text);
        file->cap = cap;
    }
    buf_release(&r.text);
    buf_release(&r.words);
    return ok;
}
