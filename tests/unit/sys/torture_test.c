// SPDX-License-Identifier: Apache-2.0
#include "lib/torture.h"
#include "sys/file.h"
#include "sys/log.h"
#include "sys/metric.h"
#include "sys/sampler_names.h"
#include "sys/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static char base[64];
static char deep[96];
static char path[128];

static int make_base(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/flametree-torture-XXXXXX");
    if (!mkdtemp(base)) return -1;
    snprintf(deep, sizeof deep, "%s/a/b", base);
    snprintf(path, sizeof path, "%s/file", deep);
    err e = {0};
    return dir_make(deep, &e) ? 0 : -1;  // for remove_base too, whichever tests run
}

static int remove_base(void **state)
{
    (void)state;
    char dir[96];
    (void)snprintf(dir, sizeof dir, "%s/a", base);
    return rmdir(deep) == 0 && rmdir(dir) == 0 && rmdir(base) == 0 ? 0 : -1;
}

// ---- files

static void files_begin(void *arg)
{
    (void)arg;
    assert_ok(dir_make(deep, e));
    assert_ok(file_write(path, S("old"), e));
}

static bool files_replace(void *arg, err *e)
{
    struct buf *b = arg;
    uint64_t bytes = 0;
    buf_init(b, NULL, 100);
    bool ok = dir_make(deep, e) && file_write(path, S("new, and longer"), e) &&
              file_read(path, b, e) && dir_sync(base, e) && dir_free_bytes(base, &bytes, e);
    buf_release(b);
    return ok;
}

// Whatever failed, the file holds the old or the new bytes.
static void files_check(void *arg, bool done)
{
    struct buf *b = arg;
    buf_init(b, NULL, 100);
    assert_ok(file_read(path, b, e));
    bool is_new = str_eq(buf_view(b), S("new, and longer"));
    assert_true(is_new || (!done && str_eq(buf_view(b), S("old"))));
    buf_release(b);
}

static void files_end(void *arg)
{
    (void)arg;
    char temp[160];
    snprintf(temp, sizeof temp, "%s.tmp", path);  // may stay, the next write replaces it
    assert_ok(file_remove(temp, e));
    assert_ok(file_remove(path, e));
}

static void files_are_old_or_new(void **state)
{
    (void)state;
    struct buf b;
    struct torture_count n = torture_work(&(struct torture_work){.name = "sys.files",
                                                                 .begin = files_begin,
                                                                 .run = files_replace,
                                                                 .check = files_check,
                                                                 .end = files_end,
                                                                 .arg = &b});
    assert_true(n.calls > 15 && n.failed > 10);
}

static bool files_remove(void *arg, err *e)
{
    (void)arg;
    return file_remove(path, e);
}

static void removed(void *arg, bool done)
{
    (void)arg;
    assert_int_equal(file_exists(path), !done);
}

static void a_file_that_cannot_be_removed_stays(void **state)
{
    (void)state;
    torture_work(&(struct torture_work){
        .name = "sys.remove", .begin = files_begin, .run = files_remove, .check = removed});
}

// ---- locks

static bool lock_and_unlock(void *arg, err *e)
{
    (void)arg;
    int fd = -1;
    int second = -1;
    if (!lock_file_open(path, &fd, e)) return false;
    err held = {0};
    bool twice = lock_file_open(path, &second, &held);
    lock_file_close(fd);
    assert_false(twice);
    assert_true(held.msg[0]);
    return true;
}

static void a_lock_has_one_holder(void **state)
{
    (void)state;
    // A system that gives no locks cannot be told from another holder.
    torture_work(&(struct torture_work){.name = "sys.lock",
                                        .begin = files_begin,
                                        .run = lock_and_unlock,
                                        .end = files_end,
                                        .codes = 1u << ERR_FAILED_PRECONDITION});
}

// ---- threads

static void *answer(void *arg)
{
    *(int *)arg = 42;
    return NULL;
}

static bool start_thread(void *arg, err *e)
{
    (void)arg;
    int given = 0;
    pthread_t t;
    assert_true(thread_cpus() > 0);
    if (!thread_start(&t, "torture", answer, &given, e)) return false;
    thread_join(t);
    assert_int_equal(given, 42);
    return true;
}

static void threads_start_or_tell(void **state)
{
    (void)state;
    torture_work(&(struct torture_work){.name = "sys.thread", .run = start_thread});
}

// ---- metrics and logs have nobody to tell: they go on

static struct metric pairs[64];
static unsigned metrics_used;

// A fresh metric each time, because combinations stay for good.
static bool count_and_print(void *arg, err *e)
{
    (void)arg;
    torture_spare(true);
    static struct metric *table[1];
    struct metric *m = &pairs[metrics_used++ % COUNT(pairs)];
    bool fresh = m->name == NULL;
    if (fresh)
        *m = (struct metric){.name = "t_pairs", .label = "a,b", .help = "", .kind = METRIC_COUNTER};
    table[0] = m;
    if (fresh) metric_register(table, 1);
    torture_spare(false);

    const str first[] = {S("x"), S("y")};
    const str second[] = {S("x"), S("z")};
    metric_add_set(m, first, 1);
    metric_add_set(m, second, 1);
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    metric_print(&out);
    bool ok = buf_ok(&out, e);
    buf_release(&out);
    return ok;
}

static void metrics_are_printed_or_refused(void **state)
{
    (void)state;
    struct torture_count n = torture_work(
        &(struct torture_work){.name = "sys.metric", .run = count_and_print, .most = 25});
    assert_true(n.allocations > 3);
}

static bool tell(void *arg, err *e)
{
    (void)arg;
    (void)e;
    static struct log_site site;
    char quoted[LOG_QUOTE_MAX];
    atomic_store(&site.count, 0);
    log_write(&site, NULL, LOG_INFO, "torture", "text=%s", log_quote(quoted, S("a b")));
    return true;
}

static void a_line_that_cannot_be_written_is_left_out(void **state)
{
    (void)state;
    assert_int_equal(torture_work(&(struct torture_work){.name = "sys.log", .run = tell}).calls, 1);
}

// ---- the sampler

static void count_sample(void *ctx, const struct sample *s)
{
    (*(unsigned *)ctx) += s->weight > 0;
}

static bool take_samples(void *arg, err *e)
{
    (void)arg;
    unsigned n = 0;
    sampler_scan();
    if (!sampler_start(1000, e)) return false;
    sampler_scan();
    (void)sampler_read(count_sample, &n);
    sampler_stop();
    return true;
}

static void the_sampler_starts_or_tells(void **state)
{
    (void)state;
    torture_work(
        &(struct torture_work){.name = "sys.sampler", .run = take_samples, .is_start = true});
}

static bool name_places(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct sampler_place p;
    const uint64_t pcs[] = {(uint64_t)name_places, (uint64_t)file_read, (uint64_t)strtoul, 1};
    struct sampler_names *n = sampler_names_new(&b->budget, 100, e);
    bool ok = n != NULL;
    for (size_t i = 0; ok && i < COUNT(pcs); i++) {
        ok = sampler_names_find(n, pcs[i], &p, e);
        if (ok && p.count) buf_str(&b->out, sampler_names_function(n, p.lines[0].function)->name);
    }
    if (ok) sampler_names_trim(n, true);
    sampler_names_free(n);
    return ok;
}

static void names_are_found_or_not(void **state)
{
    (void)state;
    const struct torture_maker m = {.name = "sys.names", .make = name_places};
    torture_make_all(&m, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_old_or_new),
        cmocka_unit_test(a_file_that_cannot_be_removed_stays),
        cmocka_unit_test(a_lock_has_one_holder),
        cmocka_unit_test(threads_start_or_tell),
        cmocka_unit_test(metrics_are_printed_or_refused),
        cmocka_unit_test(a_line_that_cannot_be_written_is_left_out),
        cmocka_unit_test(the_sampler_starts_or_tells),
        cmocka_unit_test(names_are_found_or_not),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
