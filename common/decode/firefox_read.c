// SPDX-License-Identifier: Apache-2.0
//
// firefox_read.c - the tables as they are in the text. They refer to each other, in any order, so
// all of them are read first; nothing is checked but that it is JSON of the right kinds.
#include "decode/firefox_int.h"

#define SCHEMA_MAX 32  // columns of a table of Gecko's

// ---- tables

struct fx_column {
    const char *name;
    struct json_ints *ints;  // or
    struct json_doubles *doubles;
    str *text;  // a field that is no column
};

static const struct fx_column *fx_column(const struct fx_column *columns, size_t n, str name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_is(name, columns[i].name)) return &columns[i];
    }
    return NULL;
}

static bool fx_put(struct fx *f, const struct fx_column *c, enum json_token t, err *e)
{
    if (c->ints) return json_item_int(&f->json, t, "a whole number", c->ints, e);
    return !c->doubles || json_item_double(&f->json, t, "a number", c->doubles, e);
}

static void fx_next_row(const struct fx_column *const *order)
{
    for (size_t i = 0; i < SCHEMA_MAX; i++) {
        if (order[i] && order[i]->ints) order[i]->ints->n++;
        if (order[i] && order[i]->doubles) order[i]->doubles->n++;
    }
}

// One row of Gecko's, whose bracket has been read. Columns of the schema that it lacks are null.
static bool fx_row(struct fx *f, const struct fx_column *const *order, err *e)
{
    for (size_t i = 0; i < SCHEMA_MAX; i++) {
        if (order[i] && !fx_put(f, order[i], JSON_NULL, e)) return false;
    }
    for (size_t at = 0;; at++) {
        struct json_reader before = f->json;
        enum json_token t = json_next(&f->json);
        if (t == JSON_ARRAY_END) break;
        if (t == JSON_ARRAY || t == JSON_OBJECT) {
            f->json = before;
            if (!json_pass(&f->json, e)) return false;
            continue;
        }
        if (t == JSON_FAULT) return json_broken(&f->json, "a value", e);
        if (at < SCHEMA_MAX && order[at] && !fx_put(f, order[at], t, e)) return false;
    }
    fx_next_row(order);
    return true;
}

static bool fx_rows(struct fx *f, const struct fx_column *const *order, err *e)
{
    bool in = false;
    if (!json_enter(&f->json, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(&f->json);
    for (; t == JSON_ARRAY; t = json_next(&f->json)) {
        if (!fx_row(f, order, e)) return false;
    }
    return t == JSON_ARRAY_END || json_broken(&f->json, "a row of a table", e);
}

// {"name of a column": number of its place in a row}
static bool fx_schema(struct fx *f, const struct fx_column *columns, size_t n,
                      const struct fx_column **order, err *e)
{
    bool in = false;
    if (!json_enter(&f->json, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(&f->json);
    for (; t == JSON_KEY; t = json_next(&f->json)) {
        const struct fx_column *c = fx_column(columns, n, f->json.text);
        str text = {0};
        int64_t at = 0;
        if (!json_want_text(&f->json, &text, e)) return false;
        if (!c || !json_int(text, &at) || at < 0 || at >= SCHEMA_MAX) continue;
        for (size_t i = 0; i < SCHEMA_MAX; i++) {
            if (order[i] == c) order[i] = NULL;  // a column has one place
        }
        order[at] = c;
    }
    return t == JSON_OBJECT_END || json_broken(&f->json, "a schema", e);
}

// A table of either format; the columns that are wanted.
static bool fx_table(struct fx *f, const struct fx_column *columns, size_t n, err *e)
{
    struct json_reader *r = &f->json;
    const struct fx_column *order[SCHEMA_MAX] = {0};
    struct json_reader data = {0};
    bool has_data = false;
    bool in = false;
    if (!json_enter(r, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        const struct fx_column *c = fx_column(columns, n, r->text);
        bool ok = true;
        if (str_is(r->text, "schema")) {
            ok = fx_schema(f, columns, n, order, e);
        } else if (str_is(r->text, "data")) {
            data = *r;  // read below, as the schema may come behind it
            has_data = true;
            ok = json_pass(r, e);
        } else if (c && c->text) {
            ok = json_want_text(r, c->text, e);
        } else if (c) {
            ok = c->ints ? json_read_ints(r, c->name, c->ints, e)
                         : json_read_doubles(r, c->name, c->doubles, e);
        } else {
            ok = json_pass(r, e);
        }
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END) return json_broken(r, "a table", e);
    if (!has_data) return true;
    struct json_reader after = *r;
    *r = data;
    if (!fx_rows(f, order, e)) return false;
    *r = after;
    return true;
}

static bool fx_samples(struct fx *f, struct fx_thread *t, err *e)
{
    const struct fx_column columns[] = {
        {"stack", &t->stacks, NULL, NULL},
        {"weight", NULL, &t->weights, NULL},
        {"threadCPUDelta", NULL, &t->cpu, NULL},
        {"weightType", NULL, NULL, &t->weight_type},
    };
    return fx_table(f, columns, COUNT(columns), e);
}

// A field of a thread or of what threads share that is one of the tables; *known is false if not.
static bool fx_tables_field(struct fx *f, struct fx_tables *t, bool *known, err *e)
{
    const struct fx_column stacks[] = {{"frame", &t->stack_frame, NULL, NULL},
                                       {"prefix", &t->stack_prefix, NULL, NULL}};
    const struct fx_column frames[] = {{"func", &t->frame_func, NULL, NULL},
                                       {"address", &t->frame_address, NULL, NULL},
                                       {"location", &t->frame_location, NULL, NULL}};
    const struct fx_column funcs[] = {{"name", &t->func_name, NULL, NULL},
                                      {"fileName", &t->func_file, NULL, NULL},
                                      {"source", &t->func_source, NULL, NULL},
                                      {"lineNumber", &t->func_line, NULL, NULL},
                                      {"resource", &t->func_resource, NULL, NULL}};
    const struct fx_column resources[] = {{"lib", &t->resource_lib, NULL, NULL},
                                          {"name", &t->resource_name, NULL, NULL}};
    const struct fx_column sources[] = {{"filename", &t->source_file, NULL, NULL}};
    str key = f->json.text;
    *known = true;
    if (str_is(key, "stackTable")) return fx_table(f, stacks, COUNT(stacks), e);
    if (str_is(key, "frameTable")) return fx_table(f, frames, COUNT(frames), e);
    if (str_is(key, "funcTable")) return fx_table(f, funcs, COUNT(funcs), e);
    if (str_is(key, "resourceTable")) return fx_table(f, resources, COUNT(resources), e);
    if (str_is(key, "sources")) return fx_table(f, sources, COUNT(sources), e);
    if (str_is(key, "stringArray") || str_is(key, "stringTable"))
        return json_read_strings(&f->json, "a string", &t->strings, e);
    *known = false;
    return true;
}

// ---- libraries

static bool fx_address(struct json_reader *r, uint64_t *out, err *e)
{
    str text = {0};
    int64_t v = 0;
    double d = 0;
    if (!json_want_text(r, &text, e)) return false;
    *out = 0;
    if (str_u64(text, out)) return true;
    if (json_int(text, &v) && v >= 0)
        *out = (uint64_t)v;
    else if (text.n && json_number_size(text) == text.n && json_double(text, &d) && d > 0 &&
             d < 0x1p64)
        *out = (uint64_t)d;
    return true;
}

static bool fx_lib(struct fx *f, struct fx_libs *libs, err *e)
{
    struct json_reader *r = &f->json;
    struct fx_lib lib = {0};
    str debug = {0};
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool ok = str_is(r->text, "name")        ? json_want_text(r, &lib.name, e)
                  : str_is(r->text, "debugName") ? json_want_text(r, &debug, e)
                  : str_is(r->text, "start")     ? fx_address(r, &lib.start, e)
                  : str_is(r->text, "end")       ? fx_address(r, &lib.end, e)
                                                 : json_pass(r, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END) return json_broken(r, "a library", e);
    if (lib.name.n == 0) lib.name = debug;
    if (!arena_grow(f->a, &libs->v, &libs->cap, libs->n + 1, sizeof *libs->v))
        return arena_fail(f->a, e);
    libs->v[libs->n++] = lib;
    return true;
}

static bool fx_libs_of(struct fx *f, struct fx_libs *libs, err *e)
{
    bool in = false;
    libs->n = 0;
    if (!json_enter(&f->json, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(&f->json);
    for (; t == JSON_OBJECT; t = json_next(&f->json)) {
        if (!fx_lib(f, libs, e)) return false;
    }
    return t == JSON_ARRAY_END || json_broken(&f->json, "a library", e);
}

// ---- threads

static bool fx_thread(struct fx *f, size_t process, err *e)
{
    struct json_reader *r = &f->json;
    if (!arena_grow(f->a, &f->threads, &f->thread_cap, f->thread_count + 1, sizeof *f->threads))
        return arena_fail(f->a, e);
    struct fx_thread *thread = &f->threads[f->thread_count++];
    *thread = (struct fx_thread){.process = process};
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool known = false;
        if (!fx_tables_field(f, &thread->tables, &known, e)) return false;
        if (known) continue;
        bool ok = str_is(r->text, "name")      ? json_want_text(r, &thread->name, e)
                  : str_is(r->text, "pid")     ? json_want_text(r, &thread->pid, e)
                  : str_is(r->text, "samples") ? fx_samples(f, thread, e)
                  : str_is(r->text, "libs")    ? fx_libs_of(f, &thread->libs, e)
                                               : json_pass(r, e);
        if (!ok) return false;
    }
    return t == JSON_OBJECT_END || json_broken(r, "a thread", e);
}

// A profile of another process in a text, as Firefox before 50 wrote it. Other texts say that there
// is none.
static bool fx_note_text(struct fx *f, size_t parent, str text, err *e)
{
    if (!str_starts(str_trim(text), S("{"))) return true;
    if (!arena_grow(f->a, &f->texts, &f->text_cap, f->text_count + 1, sizeof *f->texts))
        return arena_fail(f->a, e);
    f->texts[f->text_count++] = (struct fx_text){text, parent};
    return true;
}

static bool fx_threads(struct fx *f, size_t process, err *e)
{
    bool in = false;
    if (!json_enter(&f->json, JSON_ARRAY, &in, e)) return false;
    if (!in) return true;
    if (f->processes[process].has_threads)
        return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: the threads are there twice",
                       f->json.at);
    enum json_token t = json_next(&f->json);
    for (; t == JSON_OBJECT || t == JSON_STRING; t = json_next(&f->json)) {
        f->processes[process].has_threads = true;
        if (t == JSON_STRING && !fx_note_text(f, process, f->json.text, e)) return false;
        if (t == JSON_OBJECT && !fx_thread(f, process, e))
            return err_wrap(e, "thread %zu", f->thread_count - 1);
    }
    return t == JSON_ARRAY_END || json_broken(&f->json, "a thread", e);
}

// ---- the whole

static bool fx_units(struct fx *f, str *cpu, err *e)
{
    const struct fx_column columns[] = {{"threadCPUDelta", NULL, NULL, cpu}};
    return fx_table(f, columns, COUNT(columns), e);
}

static bool fx_meta(struct fx *f, struct fx_process *p, err *e)
{
    struct json_reader *r = &f->json;
    bool in = false;
    str interval = {0};
    if (!json_enter(r, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool ok = str_is(r->text, "interval")      ? json_want_text(r, &interval, e)
                  : str_is(r->text, "sampleUnits") ? fx_units(f, &p->cpu_unit, e)
                                                   : json_pass(r, e);
        if (!ok) return false;
    }
    if (t != JSON_OBJECT_END) return json_broken(r, "a field of meta", e);
    if (interval.n && (json_number_size(interval) != interval.n ||
                       !json_double(interval, &p->interval_ms) || p->interval_ms < 0))
        return err_set(e, ERR_INVALID_ARGUMENT, "meta.interval is no time");
    return true;
}

static bool fx_shared(struct fx *f, struct fx_tables *shared, err *e)
{
    struct json_reader *r = &f->json;
    bool in = false;
    if (!json_enter(r, JSON_OBJECT, &in, e)) return false;
    if (!in) return true;
    enum json_token t = json_next(r);
    for (; t == JSON_KEY; t = json_next(r)) {
        bool known = false;
        if (!fx_tables_field(f, shared, &known, e) || (!known && !json_pass(r, e))) return false;
    }
    return t == JSON_OBJECT_END || json_broken(r, "what threads share", e);
}

static bool fx_field(struct fx *f, size_t process, err *e)
{
    struct json_reader *r = &f->json;
    struct fx_process *p = &f->processes[process];
    if (str_is(r->text, "meta")) return fx_meta(f, p, e);
    if (str_is(r->text, "libs")) return fx_libs_of(f, &p->libs, e);
    if (str_is(r->text, "shared")) return fx_shared(f, &p->shared, e);
    if (str_is(r->text, "threads")) return fx_threads(f, process, e);
    return json_pass(r, e);
}

static bool fx_begin(struct fx *f, size_t parent, size_t *process, err *e)
{
    if (!arena_grow(f->a, &f->processes, &f->process_cap, f->process_count + 1,
                    sizeof *f->processes))
        return arena_fail(f->a, e);
    *process = f->process_count++;
    f->processes[*process] = (struct fx_process){.parent = parent};
    return true;
}

// Within the list of processes of one, up to the beginning of a process (*begun), or to the end.
static bool fx_in_list(struct fx *f, size_t parent, bool *begun, err *e)
{
    enum json_token t = JSON_NULL;
    // A process that could not be asked is a text or null.
    while (t == JSON_NULL || t == JSON_STRING) {
        t = json_next(&f->json);
        if (t == JSON_STRING && !fx_note_text(f, parent, f->json.text, e)) return false;
    }
    *begun = t == JSON_OBJECT;
    return *begun || t == JSON_ARRAY_END || json_broken(&f->json, "the profile of a process", e);
}

static bool fx_key(struct fx *f, size_t at, size_t root, bool *wrapped, bool *in_list, err *e)
{
    struct json_reader *r = &f->json;
    if (str_is(r->text, "processes")) return json_enter(r, JSON_ARRAY, in_list, e);
    bool wraps = at == root && !*wrapped && str_is(r->text, "profile");
    return wraps ? json_enter(r, JSON_OBJECT, wrapped, e) : fx_field(f, at, e);
}

static bool fx_read_text(struct fx *f, str bytes, size_t parent, err *e)
{
    size_t root = 0;
    size_t at = 0;         // the process that is read,
    bool in_list = false;  // or its list of processes
    bool wrapped = false;  // by the developer tools of Firefox before 80, as {"profile": {..}, ..}
    json_reader_init(&f->json, f->a, bytes);
    if (json_next(&f->json) != JSON_OBJECT) return json_broken(&f->json, "an object", e);
    if (!fx_begin(f, parent, &root, e)) return false;
    at = root;
    for (;;) {
        if (in_list) {
            bool begun = false;
            if (!fx_in_list(f, at, &begun, e)) return false;
            in_list = false;
            if (begun && !fx_begin(f, at, &at, e)) return false;
            continue;
        }
        enum json_token t = json_next(&f->json);
        if (t == JSON_OBJECT_END && at == root && wrapped) {
            wrapped = false;
        } else if (t == JSON_OBJECT_END && at == root) {
            break;
        } else if (t == JSON_OBJECT_END) {
            at = f->processes[at].parent;
            in_list = true;
        } else if (t != JSON_KEY) {
            return json_broken(&f->json, "a field", e);
        } else if (!fx_key(f, at, root, &wrapped, &in_list, e)) {
            return false;
        }
    }
    return json_next(&f->json) == JSON_END || json_broken(&f->json, "one object", e);
}

// Texts that are found in texts come behind them. Each is shorter than the one that has it.
bool fx_read(struct fx *f, str bytes, err *e)
{
    if (!fx_read_text(f, bytes, SIZE_MAX, e)) return false;
    for (size_t i = 0; i < f->text_count; i++) {
        if (!fx_read_text(f, f->texts[i].text, f->texts[i].parent, e))
            return err_wrap(e, "profile %zu that is a text", i);
    }
    return true;
}
