// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_series_file.h"

#include "codec/json.h"
#include "codec/pb.h"

// Fields of message Profile.
#define P_SAMPLE  2u
#define P_STRING  6u
#define P_TIME    9u
#define P_COMMENT 13u

bool series_file_is_added(str name)
{
    static const str added[] = {S_INIT(LABEL_PROFILE_TYPE), S_INIT("__type__"),
                                S_INIT("__unit__"),         S_INIT("__period_type__"),
                                S_INIT("__period_unit__"),  S_INIT("__service_name__")};
    return str_among(name, added, COUNT(added));
}

bool series_file_put(str pprof, int64_t time_ns, labels ls, struct buf *out, err *e)
{
    uint64_t strings = 0;
    struct pb_reader r = pb_reader(pprof);
    while (pb_next(&r))
        strings += r.field == P_STRING && r.type == PB_BYTES;
    if (!pb_done(&r, e)) return err_wrap(e, "pprof");
    buf_str(out, pprof);
    // String 0 of a profile is the empty one.
    if (strings == 0) {
        pb_put_bytes(out, P_STRING, (str){0});
        strings = 1;
    }
    size_t mark = pb_begin(out, P_STRING);
    buf_z(out, SERIES_FILE_MARK "{");
    bool first = true;
    for (size_t i = 0; i < ls.n; i++) {
        if (series_file_is_added(ls.v[i].name)) continue;
        if (!first) buf_byte(out, ',');
        first = false;
        json_put_string(out, ls.v[i].name);
        buf_byte(out, ':');
        json_put_string(out, ls.v[i].value);
    }
    buf_byte(out, '}');
    pb_end(out, mark);
    // Of a number that comes more than once the last one counts.
    pb_put_i64_opt(out, P_TIME, time_ns);
    pb_put_u64(out, P_COMMENT, strings);
    return buf_ok(out, e);
}

static bool read_labels(struct arena *a, str text, labels *ls, err *e)
{
    struct json_reader r;
    label *v = NULL;
    size_t n = 0;
    size_t cap = 0;
    json_reader_init(&r, a, text);
    enum json_token t = json_next(&r);
    bool ok = t == JSON_OBJECT;
    while (ok && (t = json_next(&r)) == JSON_KEY) {
        if (!arena_grow(a, &v, &cap, n + 1, sizeof *v)) return arena_fail(a, e);
        v[n].name = r.text;
        ok = json_next(&r) == JSON_STRING;
        v[n++].value = r.text;
    }
    ok = ok && t == JSON_OBJECT_END && json_next(&r) == JSON_END;
    if (!ok)
        return err_set(e, ERR_INVALID_ARGUMENT, "the comment with its series is damaged: %.*s",
                       STR(str_slice(text, 0, 200)));
    labels_sort(v, n);
    *ls = (labels){v, n};
    return true;
}

bool series_file_labels(struct arena *a, str pprof, labels *ls, bool *found, err *e)
{
    // The last comment counts: an export of what an export had made has two.
    str text = {0};
    struct pb_reader r = pb_reader(pprof);
    while (pb_next(&r)) {
        if (r.field == P_STRING && r.type == PB_BYTES && str_starts(r.bytes, S(SERIES_FILE_MARK)))
            text = r.bytes;
    }
    *found = text.n > 0;
    if (!pb_done(&r, e)) return err_wrap(e, "pprof");
    return !*found || read_labels(a, str_slice(text, strlen(SERIES_FILE_MARK), text.n), ls, e);
}

static bool first_value(str sample, int64_t *value, err *e)
{
    struct pb_reader r = pb_reader(sample);
    bool have = false;
    while (pb_next(&r)) {
        const uint8_t *at = NULL;
        uint64_t v = 0;
        if (r.field != 2 || have) continue;
        have = pb_packed_next(&r, &at, &v);
        *value = (int64_t)v;
        while (pb_packed_next(&r, &at, &v)) {
        }
    }
    return pb_done(&r, e);
}

bool series_file_sum(str pprof, int64_t *sum, err *e)
{
    struct pb_reader r = pb_reader(pprof);
    *sum = 0;
    while (pb_next(&r)) {
        int64_t value = 0;
        if (r.field != P_SAMPLE || r.type != PB_BYTES) continue;
        if (!first_value(r.bytes, &value, e)) return err_wrap(e, "pprof");
        if (__builtin_add_overflow(*sum, value, sum))
            return err_set(e, ERR_OUT_OF_RANGE, "the sum of the samples exceeds 64 bits");
    }
    return pb_done(&r, e) || err_wrap(e, "pprof");
}
