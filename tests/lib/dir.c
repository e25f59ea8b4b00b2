// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"

void dir_new(char dir[DIR_MAX])
{
    const char *top = getenv("TMPDIR");
    int n = snprintf(dir, DIR_MAX, "%s/flametree-XXXXXX", top && *top ? top : "/tmp");
    if (n < 0 || n >= DIR_MAX) fail_msg("TMPDIR is too long: %s", top);
    if (!mkdtemp(dir)) fail_msg("%s cannot be made", dir);
}

const char *dir_path(char path[DIR_PATH_MAX], const char *dir, const char *name)
{
    assert_in_range(snprintf(path, DIR_PATH_MAX, "%s/%s", dir, name), 1, DIR_PATH_MAX - 1);
    return path;
}

static int dir_remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

void dir_remove(const char *dir)
{
    assert_int_equal(nftw(dir, dir_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
