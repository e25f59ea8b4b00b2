// SPDX-License-Identifier: Apache-2.0
//
// ptype.c - five parts between colons; a sixth is ignored, as Pyroscope does.
#include "model/ptype.h"

#include "model/label.h"

bool ptype_parse(str text, struct ptype *t, err *e)
{
    str parts[6] = {0};
    size_t n = 0;
    str rest = text;
    for (bool more = true; more; n++) {
        more = str_find(rest, ':') < rest.n;
        str part = str_split(rest, ':', &rest);
        if (n < COUNT(parts)) parts[n] = part;
    }
    if (n < 5 || n > 6) {
        struct buf quoted;
        buf_init(&quoted, NULL, 1024);
        label_quote(str_slice(text, 0, 200), &quoted);
        err_set(e, ERR_INVALID_ARGUMENT,
                "profile-type selection must be of the form "
                "<name>:<sample-type>:<sample-unit>:<period-type>:<period-unit>(:delta), "
                "got(%zu): %.*s",
                n, STR(buf_view(&quoted)));
        buf_release(&quoted);
        return false;
    }
    *t = (struct ptype){parts[0], parts[1], parts[2], parts[3], parts[4]};
    return true;
}

str ptype_print(struct arena *a, const struct ptype *t)
{
    const str parts[] = {t->name, t->sample_type, t->sample_unit, t->period_type, t->period_unit};
    size_t n = 0;
    for (size_t i = 0; i < COUNT(parts); i++)
        n += parts[i].n + 1;
    char *text = arena_new(a, n);
    if (!text) return (str){0};
    char *at = text;
    for (size_t i = 0; i < COUNT(parts); i++) {
        for (size_t k = 0; k < parts[i].n; k++)
            *at++ = parts[i].p[k] == ':' ? '_' : parts[i].p[k];
        *at++ = ':';
    }
    text[n - 1] = '\0';
    return (str){text, n - 1};
}
