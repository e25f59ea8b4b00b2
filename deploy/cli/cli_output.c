// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_output_to(struct cli *c, const char *path, cli_output_fn *write, void *arg, err *e)
{
    struct stat st;
    assert(path);
    c->out_is_tty = false;
    bool replace = lstat(path, &st) != 0 || S_ISREG(st.st_mode);  // no link and no device
    // Beside the file and not in a directory for temporary files: rename works within one file
    // system.
    const char *name = replace ? arena_printf(&c->arena, "%s.partial", path).p : path;
    if (!arena_ok(&c->arena, e)) return false;
    c->out_fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (c->out_fd < 0) return err_set(e, ERR_UNAVAILABLE, "open %s: %s", name, strerror(errno));
    bool ok = write(c, arg, e);
    // A disk that is full may show itself only here.
    if (close(c->out_fd) != 0 && ok)
        ok = err_set(e, ERR_UNAVAILABLE, "write %s: %s", name, strerror(errno));
    if (!replace) return ok;
    if (ok && rename(name, path) != 0)
        ok = err_set(e, ERR_UNAVAILABLE, "rename %s: %s", path, strerror(errno));
    if (!ok && unlink(name) != 0) cli_say(c, "%s stays: %s", name, strerror(errno));
    return ok;
}
