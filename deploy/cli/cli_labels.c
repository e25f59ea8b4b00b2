// SPDX-License-Identifier: Apache-2.0
//
// labels and types: lists of label names, label values and profile types.
#include "codec/json.h"
#include "codec/pb.h"
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_find.h"
#include "deploy/cli/cli_time.h"
#include "sys/clock.h"

#include <stdlib.h>

#define LIST_BYTES_MAX ((size_t)1 << 30)

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

// One a line, or a JSON array; sorted. Exit status 3 if there are none.
static bool print_list(struct cli *c, str *v, size_t n, const char *what, int *status, err *e)
{
    int64_t from = 0;
    int64_t until = 0;
    assert(what && (v || n == 0));
    bool json = cli_wants_json(c);
    struct buf b;
    buf_init(&b, NULL, LIST_BYTES_MAX);
    if (n) qsort(v, n, sizeof *v, by_text);
    if (json) buf_byte(&b, '[');
    for (size_t i = 0; i < n; i++) {
        if (json) {
            if (i) buf_byte(&b, ',');
            json_put_string(&b, v[i]);
        } else {
            text_put(&b, v[i]);
            buf_byte(&b, '\n');
        }
    }
    if (json) buf_z(&b, "]\n");
    bool ok = cli_write(c, &b, e);
    buf_release(&b);
    // The empty list has been written, so that a program gets valid JSON with this status too.
    if (!ok || n > 0) return ok;
    *status = CLI_NO_DATA;
    struct cli_range_text range;
    // It was read before the request, so this is only for the values.
    if (cli_range(c, &from, &until, e)) {
        struct cli_found_in where = {from / NS_PER_MS, until / NS_PER_MS, NULL, 0};
        cli_hint_service(c, &where, (str){0});
    }
    return err_set(e, ERR_NOT_FOUND, "no %s at %.*s %s", what, STR(c->url.shown),
                   cli_range_say(c, &range));
}

// The selectors of --match and --service as the API takes them.
static bool read_matchers(struct cli *c, char ***matchers, size_t *n, err *e)
{
    size_t at = 0;
    size_t cap = 0;
    assert(matchers && n);
    *matchers = NULL;
    *n = 0;
    const char *service = cli_args_get(&c->args, OPT_SERVICE);
    const char *text = cli_args_next(&c->args, OPT_MATCH, &at);
    if (!text && !service) return true;
    // Once at least: --service alone stands for an empty selector with that service.
    do {
        str selector = {0};
        if (!cli_selector(c, str_of(text ? text : "{}"), &selector, e)) return false;
        if (!arena_grow(&c->arena, matchers, &cap, *n + 1, sizeof **matchers))
            return arena_fail(&c->arena, e);
        (*matchers)[(*n)++] = pb_z(&c->arena, selector);
        text = cli_args_next(&c->args, OPT_MATCH, &at);
    } while (text);
    return true;
}

static bool ask_names(struct cli *c, const char *name, str **list, size_t *n, int *status, err *e)
{
    int64_t from = 0;
    int64_t until = 0;
    char **matchers = NULL;
    size_t count = 0;
    if (!cli_range(c, &from, &until, e) || !read_matchers(c, &matchers, &count, e))
        return cli_wrong(status);
    Types__V1__LabelNamesRequest names = TYPES__V1__LABEL_NAMES_REQUEST__INIT;
    Types__V1__LabelValuesRequest values = TYPES__V1__LABEL_VALUES_REQUEST__INIT;
    names.start = values.start = from / NS_PER_MS;
    names.end = values.end = until / NS_PER_MS;
    names.matchers = values.matchers = matchers;
    names.n_matchers = values.n_matchers = count;
    ProtobufCMessage *answer = NULL;
    bool ok = false;
    if (name) {
        values.name = pb_z(&c->arena, str_of(name));
        ok = cli_ask(c, "LabelValues", &values.base, &types__v1__label_values_response__descriptor,
                     &answer, e);
    } else {
        ok = cli_ask(c, "LabelNames", &names.base, &types__v1__label_names_response__descriptor,
                     &answer, e);
    }
    if (!ok) return false;
    // The two answers are alike: a list in field 1.
    char **texts = name ? ((Types__V1__LabelValuesResponse *)answer)->names
                        : ((Types__V1__LabelNamesResponse *)answer)->names;
    *n = name ? ((Types__V1__LabelValuesResponse *)answer)->n_names
              : ((Types__V1__LabelNamesResponse *)answer)->n_names;
    // Texts of the answer live in the command's arena, so no copies are needed.
    *list = ARENA_ARRAY(&c->arena, str, *n + 1);
    for (size_t i = 0; *list && i < *n; i++)
        (*list)[i] = pb_text(texts[i]);
    return arena_ok(&c->arena, e);
}

bool cli_labels(struct cli *c, int *status, err *e)
{
    const char *name = c->args.operand_count ? c->args.operands[0] : NULL;
    str *list = NULL;
    size_t n = 0;
    if (!ask_names(c, name, &list, &n, status, e)) return false;
    char what[200];
    snprintf(what, sizeof what, name ? "values of label %s" : "labels", name);
    return print_list(c, list, n, what, status, e);
}

bool cli_types(struct cli *c, int *status, err *e)
{
    int64_t from = 0;
    int64_t until = 0;
    char **matchers = NULL;
    size_t count = 0;
    if (!cli_range(c, &from, &until, e) || !read_matchers(c, &matchers, &count, e))
        return cli_wrong(status);
    str *list = NULL;
    size_t n = 0;
    struct cli_found_in where = {from / NS_PER_MS, until / NS_PER_MS, matchers, count};
    if (!cli_find_types(c, &where, &list, &n, e)) return false;
    return print_list(c, list, n, "profile types", status, e);
}
