// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_given_labels.h"

#define LABELS_MAX 1000

// The stored labels are to be the given ones.
static bool check_label(const label *v, size_t n, str name, err *e)
{
    assert(n < LABELS_MAX && name.n > 0);
    if (str_starts(name, S("__"))) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--label %.*s: names that begin with __ are the server's own%s", STR(name),
                       str_is(name, LABEL_NAME) ? "; --name sets the first part of the profile type"
                                                : "");
    }
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool later = i > 0 && ((c >= '0' && c <= '9') || c == '.' || c == '-' || c == '/');
        if (letter || later) continue;
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--label: the name '%.*s' must have only letters of ASCII, digits, '_', "
                       "'.', '-' and '/', and begin with a letter or '_'",
                       STR(name));
    }
    for (size_t i = 0; i < n; i++) {
        if (str_eq(v[i].name, name))
            return err_set(e, ERR_INVALID_ARGUMENT, "--label %.*s is given twice", STR(name));
    }
    return true;
}

bool cli_given_labels(struct cli *c, labels *out, err *e)
{
    size_t at = 0;
    size_t n = 0;
    label *v = ARENA_ARRAY(&c->arena, label, LABELS_MAX);
    if (!arena_ok(&c->arena, e)) return false;
    for (const char *text; (text = cli_args_next(&c->args, OPT_LABEL, &at));) {
        str all = str_of(text);
        size_t eq = str_find(all, '=');
        str name = str_slice(all, 0, eq);
        str value = eq < all.n ? str_slice(all, eq + 1, all.n) : (str){0};
        if (eq == all.n || name.n == 0 || value.n == 0)
            return err_set(e, ERR_INVALID_ARGUMENT, "--label is '%s', not KEY=VALUE", text);
        if (!str_utf8(all)) return err_set(e, ERR_INVALID_ARGUMENT, "--label is not UTF-8");
        if (n == LABELS_MAX)
            return err_set(e, ERR_INVALID_ARGUMENT, "--label is given more than %d times",
                           LABELS_MAX);
        if (!check_label(v, n, name, e)) return false;
        v[n++] = (label){name, value};
    }
    *out = (labels){v, n};
    return true;
}
