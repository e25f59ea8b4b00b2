// SPDX-License-Identifier: Apache-2.0
//
// service.c - service_main, from the arguments to a running process: settings, signals, reloads.
#include "service/service.h"

#include "service/metrics.h"
#include "service/process.h"
#include "service/program.h"
#include "service/variables.h"
#include "sys/rand.h"
#include "sys/signal.h"
#include "sys/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXIT_WELL   0
#define EXIT_FAILED 1
#define EXIT_WRONG  2

// A start that is under way may end in order within this time.
#define START_END_NS ((uint64_t)(2 * NS_PER_S))

// ---- the runner

// Waits for work. True: read the certificates again. False: the process ends.
static bool await_reload(struct program *p)
{
    lock_take(&p->lock);
    while (!p->stop_wanted && !p->reload_wanted)
        cond_wait(&p->change, &p->lock);
    // A stop wins over a reload that came at the same time.
    bool reload = !p->stop_wanted;
    p->reload_wanted = false;
    lock_give(&p->lock);
    return reload;
}

static void *runner(void *arg)
{
    struct program *p = arg;
    bool well = program_open(p, &p->fault) && program_start(p, &p->fault);
    if (well) {
        while (await_reload(p))
            program_reload_tls(p);
        program_drain(p);
    }
    // After a failed start as well: it takes what there is.
    program_close(p);
    lock_take(&p->lock);
    p->well = well;
    p->done = true;
    lock_give(&p->lock);
    // The main thread waits in signal_next, which a condition cannot end.
    signal_wake();
    return NULL;
}

// ---- the main thread

static void apply_log_level(const struct config *c)
{
    const struct log_settings *l = config_section(c, "log");
    enum log_level level = LOG_INFO;
    if (log_level_of(str_of(l->level), &level))
        log_set_level(level);
    else
        log_warn(NULL, "config.log_level_unknown", "level=%s", l->level);
}

static void reload_settings(struct program *p)
{
    err e = {0};
    char quoted[LOG_QUOTE_MAX];
    if (config_reload(p->config, &e)) {
        apply_log_level(p->config);
        metric_add_to(&service_config_reloads, S("well"), 1);
        log_info(NULL, "config.reloaded", "%s", "");
        return;
    }
    metric_add_to(&service_config_reloads, S("refused"), 1);
    log_error(NULL, "config.refused", "why=%s", log_quote(quoted, str_of(e.msg)));
}

static void reload(struct program *p)
{
    err e = {0};
    reload_settings(p);
    (void)!tenants_reload(p->tenants, &e);  // logs a fault itself
}

// The runner reads the certificates, because the listeners are the runner's.
static void want_tls_reload(struct program *p)
{
    lock_take(&p->lock);
    p->reload_wanted = true;
    cond_wake_all(&p->change);
    lock_give(&p->lock);
}

// A start may wait for long: for a store that does not answer, or for a large log. Nothing was
// acknowledged yet, and the next start does all of it again.
static void end_start(struct program *p)
{
    uint64_t until = clock_mono_ns() + START_END_NS;
    lock_take(&p->lock);
    while (!p->done && atomic_load(&p->state) == PROGRAM_STARTING && clock_mono_ns() < until)
        (void)cond_wait_until(&p->change, &p->lock, MIN(until, clock_mono_ns() + 50 * NS_PER_MS));
    bool starting = !p->done && atomic_load(&p->state) == PROGRAM_STARTING;
    lock_give(&p->lock);
    if (!starting) return;
    log_info(NULL, "process.stopped", "%s", "reason=\"signal to stop during the start\"");
    // No atexit, no destructors: the runner is in the middle of its work.
    _exit(EXIT_WELL);
}

static void want_stop(struct program *p)
{
    lock_take(&p->lock);
    bool again = p->stop_wanted;
    p->stop_wanted = true;
    cond_wake_all(&p->change);
    lock_give(&p->lock);
    if (!again) {
        end_start(p);
        return;
    }
    // The second signal: the user does not want to wait. The log keeps all that was acknowledged.
    log_warn(NULL, "process.cut", "%s", "reason=\"second signal to stop\"");
    // No atexit, no destructors: other threads are in the middle of their work.
    _exit(EXIT_FAILED);
}

static bool is_done(struct program *p)
{
    lock_take(&p->lock);
    bool done = p->done;
    lock_give(&p->lock);
    return done;
}

static int run_program(struct program *p)
{
    pthread_t thread;
    lock_init(&p->lock, LOCK_PROCESS);
    cond_init(&p->change);
    if (!thread_start(&thread, "runner", runner, p, &p->fault)) {
        fprintf(stderr, "flametree: %s\n", p->fault.msg);
        return EXIT_FAILED;
    }
    assert(p->tenants);
    while (!is_done(p)) {
        switch (signal_next()) {
        case SIGNAL_STOP:
            want_stop(p);
            break;
        case SIGNAL_RELOAD:
            reload(p);
            want_tls_reload(p);
            break;
        case SIGNAL_WAKE:
            break;
        }
    }
    // Its last lines may still run: the lock is released below.
    thread_join(thread);
    cond_release(&p->change);
    lock_release(&p->lock);
    if (!p->well)
        fprintf(stderr, "flametree: %s\n", p->fault.msg);
    else
        log_info(NULL, "process.stopped", "%s", "");
    return p->well ? EXIT_WELL : EXIT_FAILED;
}

// ---- texts

static int print(struct buf *out)
{
    err e = {0};
    bool ok = buf_ok(out, &e) && fwrite(out->p, 1, out->n, stdout) == out->n && fflush(stdout) == 0;
    buf_release(out);
    return ok ? EXIT_WELL : EXIT_FAILED;
}

static int print_help(const struct config *c)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    buf_z(&out, "usage: flametree [--config FILE] [--section.key=value ...]\n\n"
                "  --config FILE     settings in YAML: sections of key: value\n"
                "  --check-config    read the settings, say whether they are valid, and end\n"
                "  --version         print the version and end\n"
                "  --help            print this and end\n"
                "  --print-config-docs, --print-metrics-docs\n"
                "                    print docs/config.md or docs/metrics.md and end\n\n"
                "Each setting is also read from the environment as FLAMETREE_SECTION_KEY; a flag "
                "goes over\nthe environment, that over the file, that over the default shown "
                "here.\n\n");
    config_print_help(c, &out);
    return print(&out);
}

static int print_config_docs(const struct config *c)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    buf_z(&out, "# Settings\n\n");
    buf_paragraph(&out, "This page is printed by `flametree --print-config-docs` from the rows "
                        "that the program reads its settings by.");
    buf_byte(&out, '\n');
    buf_paragraph(&out, "A setting `section.key` is a line `key: value` under `section:` in the "
                        "YAML file that `--config` names, a flag `--section.key=value`, or the "
                        "environment variable `FLAMETREE_SECTION_KEY`. A flag goes over the "
                        "environment, that over the file, that over the default. An unknown or "
                        "repeated key is an error with file and line; `--check-config` looks "
                        "without starting anything: also at addresses, lists of members, "
                        "directories, buckets (names, addresses, keys) and files of "
                        "certificates, and for variables "
                        "`FLAMETREE_…` that nothing reads. A start only warns of those "
                        "(`config.unknown_variable`), with the nearest that is known. Bytes take "
                        "units (`64MiB`, `10MB`), times too (`250ms`, `1h30m`, `31d`). SIGHUP "
                        "reads the file again: rows marked so take effect at once, others need a "
                        "restart and say so in the log. It also reads the files of certificates, "
                        "keys and authorities again, for connections to come; if they cannot be "
                        "used, the ones before stay and the log says why. A value of type YAML "
                        "is a list or map; flags and environment give it as YAML text. "
                        "`runtime_config.file` names files with limits of single tenants, by the "
                        "keys of section `limits`.");
    config_print_markdown(c, &out);
    return print(&out);
}

static int print_metrics_docs(void)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    buf_z(&out, "# Metrics\n\n");
    buf_paragraph(&out, "This page is printed by `flametree --print-metrics-docs`. `/metrics` on "
                        "the public and on the internal listener gives them in Prometheus' text "
                        "format. A label takes at most 64 values; further ones count as `other`. "
                        "Several labels take at most 2048 combinations of values; in further "
                        "ones all but the first are `other`. Histograms are in seconds.");
    buf_byte(&out, '\n');
    metric_print_markdown(&out);
    return print(&out);
}

// ---- start

static size_t collect_sections(const struct service *const *services, size_t n,
                               const struct config_section **sections)
{
    size_t count = 0;
    for (size_t i = 0; i < settings_section_count; i++)
        sections[count++] = settings_sections[i];
    sections[count++] = &limits_section;
    // A process has only the sections of its own services; others are unknown keys there.
    for (size_t i = 0; i < n; i++) {
        if (services[i]->config) sections[count++] = services[i]->config;
    }
    return count;
}

// All that --check-config says, a start says too, and the other way round as far as it depends on
// settings: both come through here.
static bool check_settings(struct program *p, err *e)
{
    bool ok = settings_check(p->config, e) && storage_check_client(p, e);
    for (size_t i = 0; ok && i < p->unit_count; i++) {
        const struct service *s = p->units[i].service;
        ok = !s->check || s->check(p->config, e);
    }
    return ok;
}

// An unknown variable is as wrong as an unknown key. But the environment may not be the user's to
// change: so --check-config fails, and a start only warns.
static bool check_variables(const struct program *p, bool refuse, err *e)
{
    const char *const *all = (const char *const *)environ;
    struct variable_fault f;
    char name[LOG_QUOTE_MAX];
    for (size_t at = 0; variables_next_unknown(p->config, all, &at, &f);) {
        bool near = f.nearest[0] != '\0';
        if (refuse)
            return err_set(e, ERR_INVALID_ARGUMENT, "environment %.*s: unknown variable%s%s",
                           STR(f.name), near ? "; the nearest is " : "", f.nearest);
        log_warn(NULL, "config.unknown_variable", "name=%s nearest=%s", log_quote(name, f.name),
                 near ? f.nearest : "none");
    }
    return true;
}

static int run_with_settings(struct program *p, const struct config_args *args)
{
    err e = {0};
    if (args->help) return print_help(p->config);
    if (args->print_config_docs) return print_config_docs(p->config);
    if (args->print_metrics_docs) return print_metrics_docs();
    if (args->version) {
        printf("flametree %s (%s)\n", service_version, service_revision);
        return EXIT_WELL;
    }
    if (!check_settings(p, &e) || !check_variables(p, args->check, &e)) {
        fprintf(stderr, "flametree: %s\n", e.msg);
        return EXIT_WRONG;
    }
    p->tenants = tenants_open(p->config, &e);
    if (!p->tenants) {
        fprintf(stderr, "flametree: %s\n", e.msg);
        return EXIT_WRONG;
    }
    int code = EXIT_WELL;
    if (args->check) {
        printf("the settings are valid\n");
    } else {
        apply_log_level(p->config);
        code = run_program(p);
    }
    tenants_close(p->tenants);
    return code;
}

int service_main(const struct service *const *services, size_t n, int argc, char **argv)
{
    // First: tables that are made from here on use the key.
    hash_seed(rand_key());
    assert(n > 0 && n <= SERVICES_MAX);
    signal_begin();  // before any thread: signals are blocked in all, and wait for signal_next
    process_tune_malloc();
    process_raise_files();
    process_metrics_begin();
    // The order of metrics and sections is that of docs/metrics.md and docs/config.md.
    const struct config_section *sections[SETTINGS_MAX + SERVICES_MAX];
    assert(settings_section_count < SETTINGS_MAX);
    size_t section_count = collect_sections(services, n, sections);
    assert(section_count <= COUNT(sections));
    struct program *p = mem_must(sizeof *p);
    p->config = config_new(sections, section_count);
    p->unit_count = n;
    for (size_t i = 0; i < n; i++) {
        p->units[i].service = services[i];
        if (services[i]->metrics) metric_register(services[i]->metrics, *services[i]->metric_count);
    }
    struct config_args args;
    int code = EXIT_WRONG;
    if (config_load(p->config, argc, argv, &args, &p->fault)) {
        code = run_with_settings(p, &args);
    } else {
        fprintf(stderr, "flametree: %s\n", p->fault.msg);
    }
    config_free(p->config);
    mem_must_free(p);
    process_metrics_end();
    return code;
}
