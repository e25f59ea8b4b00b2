// SPDX-License-Identifier: Apache-2.0
//
// The parameters of /ingest: three lines are name, time and sample type configuration. A name that
// is read, printed and read again is the same.
#include "base/buf.h"
#include "codec/attime.h"
#include "distributor/ingest_name.h"
#include "distributor/ingest_type.h"

#include <stdlib.h>

static void print_name(const struct ingest_name *n, struct buf *out)
{
    buf_str(out, n->app);
    buf_byte(out, '{');
    for (size_t i = 0; i < n->count; i++) {
        buf_str(out, n->labels[i].name);
        buf_byte(out, '=');
        buf_str(out, n->labels[i].value);
        buf_byte(out, ',');
    }
    buf_byte(out, '}');
}

static void check_name(struct arena *a, str text)
{
    struct ingest_name n = {0};
    err e = {0};
    if (!ingest_name_parse(a, text, &n, &e)) return;
    struct buf one;
    struct buf two;
    buf_init(&one, NULL, SIZE_MAX / 2);
    buf_init(&two, NULL, SIZE_MAX / 2);
    print_name(&n, &one);
    // A label __name__ may name what is no application.
    bool renamed = str_contains(text, S("__name__"));
    bool again = ingest_name_parse(a, buf_view(&one), &n, &e);
    if (again) print_name(&n, &two);
    if (!renamed && !(again && str_eq(buf_view(&one), buf_view(&two)))) abort();
    buf_release(&one);
    buf_release(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    str rest = str_make(data, size);
    check_name(&a, str_split(rest, '\n', &rest));
    str time = str_split(rest, '\n', &rest);
    int64_t one = 0;  // of now, or of its own
    int64_t two = 0;
    err e = {0};
    bool read = attime_parse(time, 0, &one, &e);
    if (read != attime_parse(time, 1000, &two, &e)) abort();
    bool edge = one > INT64_MAX - 1000 || one == INT64_MIN;
    if (!edge && two != one && two != one + 1000) abort();
    struct ingest_config config;
    struct ingest_type type;
    e = (err){0};
    if (ingest_config_parse(&a, rest, &config, &e)) (void)ingest_config_has(&config, "cpu");
    if (ingest_type_of_app(time, &type, &e) && type.app.n > time.n) abort();
    arena_release(&a);
    return 0;
}
