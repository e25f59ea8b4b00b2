// SPDX-License-Identifier: Apache-2.0
//
// A file for import, whatever its bytes are: labels are within its size and in order, and a profile
// to which labels and a time are added has these afterwards, and the sum that it had.
#include "deploy/cli/cli_series_file.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_put(struct arena *a, str pprof, labels ls)
{
    struct buf out;
    labels found = {0};
    bool has = false;
    int64_t before = 0;
    int64_t after = 0;
    err e = {0};
    buf_init(&out, NULL, 64 << 20);
    if (series_file_put(pprof, 1700000000000000000, ls, &out, &e)) {
        bool ok = series_file_labels(a, buf_view(&out), &found, &has, &e);
        assert(ok && has);
        for (size_t i = 0, k = 0; i < ls.n; i++) {
            if (series_file_is_added(ls.v[i].name)) continue;
            assert(k < found.n && str_eq(found.v[k].value, ls.v[i].value));
            k++;
        }
        if (series_file_sum(pprof, &before, &e)) {
            ok = series_file_sum(buf_view(&out), &after, &e);
            assert(ok && before == after);
        }
    }
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static label one[] = {{S_INIT("region"), S_INIT("eu")},
                          {S_INIT("service_name"), S_INIT("a\"b")}};
    struct arena a;
    labels ls = {0};
    bool found = false;
    err e = {0};
    str pprof = str_make(data, size);
    arena_init(&a, NULL, 64 << 20);
    if (series_file_labels(&a, pprof, &ls, &found, &e) && found) {
        for (size_t i = 0; i < ls.n; i++) {
            assert(ls.v[i].name.n + ls.v[i].value.n <= size);
            assert(i == 0 || str_cmp(ls.v[i - 1].name, ls.v[i].name) <= 0);
        }
    }
    check_put(&a, pprof, (labels){one, COUNT(one)});
    arena_release(&a);
    return 0;
}
