// SPDX-License-Identifier: Apache-2.0
//
// perf.c - one pass over the lines. The frames of a sample are kept until the sample ends, because
// the root comes last. Then the stack is printed as one text and looked up, with its process, among
// the earlier ones. A new one becomes a sample of the profile; others add to theirs.
#include "base/hash.h"
#include "base/utf8.h"
#include "decode/perf_int.h"
#include "decode/rate.h"
#include "decode/stacks.h"

#define STACK_MAX   ((size_t)64 << 20)
#define LINE_BYTES  ((size_t)60000)  // of a stack, or a hostile text makes as many frames as it has
#define COMMAND_MAX ((size_t)1000)
#define LABELS      2u             // at most, of a sample
#define EVENTS_MAX  ((size_t)200)  // a profile each; perf itself records fewer at once
#define RATES_MAX   ((size_t)64)
#define SHOWN       64  // bytes of a line, in a message
#define NS_PER_S    INT64_C(1000000000)
#define ANONYMOUS   S("(anonymous namespace)")
#define INLINED     "inlined"

// The key of a sample: its stack, command and process.
struct origin {
    str stack;    // collapsed
    str command;  // empty: the text has none
    str pid;
};

// The samples of one event, which become a profile.
struct series {
    struct stacks out;
    struct map known;  // rows of origins and of samples
    struct origin *origins;
    size_t origin_cap;
    size_t label_cap;
    str event;
    int64_t period;  // last seen; 0: none
    bool timed;      // its period is a time, which is the second value
    bool is_cpu;     // its samples are of CPU time; else the value is how often it happened
};

// "# event : name = cycles:u, .. { sample_period, sample_freq } = 99, .. freq = 1"
struct stated {
    str event;
    int64_t hz;
};

struct perf {
    struct arena *a;
    const struct decode_options *o;
    size_t bytes;
    struct series **series;
    size_t series_count;
    size_t series_cap;
    struct stated rates[RATES_MAX];
    size_t rate_count;
    struct rate command;  // the rate in the command line of perf record
    str first_odd;        // the first line that is neither a head nor a frame, and its number
    size_t first_odd_number;
    uint64_t bad_lines;
    uint64_t samples;
    // the current sample
    bool open;
    bool bare;  // the text has no heads: an empty line ends a sample
    struct series *at;
    int64_t period;
    str command_name;
    str pid;
    struct perf_frame_text *frames;  // leaf first
    size_t frame_count;
    size_t frame_cap;
    struct buf line;
};

// ---- names

// Without "+0x1f" at the end.
static str without_offset(str s)
{
    size_t n = s.n;
    while (n > 0 && perf_is_hex_digit(s.p[n - 1]))
        n--;
    assert(n <= s.n);
    bool offset = n < s.n && n >= 3 && str_eq(str_slice(s, n - 3, n), S("+0x"));
    return offset ? str_slice(s, 0, n - 3) : s;
}

// Arguments begin at the first parenthesis; but "net/http.(*Client).Do" of Go has none, and
// "(anonymous namespace)" of C++ is a part of the name.
static str without_arguments(str s)
{
    size_t method = str_find_part(s, S(".("));
    if (method < s.n && str_find_part(str_slice(s, method, s.n), S(").")) < s.n - method) return s;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '(' && !str_starts(str_slice(s, i, s.n), ANONYMOUS))
            return str_slice(s, 0, i);
    }
    return s;
}

// perf names code that no map tells of so: "[JIT] tid 77".
static bool is_unmapped_jit(str file)
{
    return str_starts(file, S("[JIT]"));
}

// Maps that a JIT writes for perf, "/tmp/perf-77.map", and the objects that `perf inject --jit`
// makes of a dump, "jitted-77-12.so".
static bool is_jit(str file)
{
    static const struct {
        str before;
        str behind;
    } names[] = {{S_INIT("/tmp/perf-"), S_INIT(".map")}, {S_INIT("/jitted-"), S_INIT("-")}};
    for (size_t i = 0; i < COUNT(names); i++) {
        size_t at = str_find_part(file, names[i].before);
        if (at == file.n) continue;
        str rest = str_slice(file, at + names[i].before.n, file.n);
        size_t n = perf_digits(rest);
        if (n > 0 && str_starts(str_slice(rest, n, rest.n), names[i].behind)) return true;
    }
    return false;
}

static bool is_kernel(str file)
{
    // "[kernel.kallsyms]", "[module]": but "[unknown]" is a file that perf could not name.
    return (str_starts(file, S("[")) || str_ends(file, S("vmlinux"))) &&
           !str_contains(file, S("unknown")) && !is_unmapped_jit(file);
}

static void put_tidy(struct buf *b, str name)
{
    for (size_t i = 0; i < name.n; i++) {
        // As stackcollapse-perf.pl does: ';' separates frames, and quotes go.
        char c = name.p[i];
        if (c == '"' || c == '\'') continue;
        buf_byte(b, (unsigned char)(c == ';' ? ':' : c));
    }
}

// One function of a frame, which has several where some are inlined.
static void put_function(struct perf *p, const struct perf_frame_text *f, str name, bool inlined)
{
    assert(p->open && name.n > 0);
    struct buf *b = &p->line;
    buf_byte(b, ';');
    if (str_is(name, PERF_UNKNOWN)) {
        // Without the address that --fields dsoff adds, or each one would be a function.
        str file = without_offset(f->file);
        size_t slash = str_rfind(file, '/');
        file = slash < file.n ? str_slice(file, slash + 1, file.n) : file;
        buf_byte(b, '[');
        put_tidy(b, str_is(f->file, PERF_UNKNOWN) ? S("unknown") : file);
        buf_byte(b, ']');
    } else {
        // Names of Java's classes begin with an L that belongs to their signature and not to the
        // name.
        bool java = str_starts(p->command_name, S("java")) && str_starts(name, S("L")) &&
                    str_find(name, '/') < name.n;
        put_tidy(b, java ? str_slice(name, 1, name.n) : name);
    }
    // The suffixes of stackcollapse-perf.pl, which other tools colour by.
    if (inlined || str_is(f->file, INLINED))
        buf_z(b, "_[i]");
    else if (is_kernel(f->file))
        buf_z(b, "_[k]");
    else if (is_unmapped_jit(f->file) || is_jit(f->file))
        buf_z(b, "_[j]");
}

static void put_frame(struct perf *p, const struct perf_frame_text *f)
{
    str rest = without_offset(f->symbol);
    bool inlined = false;
    assert(p->open);
    if (str_starts(rest, S("("))) return;  // the name of a process
    while (rest.n) {
        size_t at = str_find_part(rest, S("->"));
        str name = str_slice(rest, 0, at);
        rest = str_slice(rest, at + 2, rest.n);
        if (!str_is(name, PERF_UNKNOWN)) name = without_arguments(name);
        if (name.n == 0) continue;
        put_function(p, f, name, inlined);
        inlined = true;
    }
}

// ---- events

static size_t modifier_at(str event)
{
    size_t colon = str_rfind(event, ':');
    return colon > 0 ? colon : event.n;
}

// Events whose samples are taken of what the CPU does, as often as it runs. Others, such as page
// faults, are counts of their own.
static bool is_cpu_event(str name)
{
    static const str cpu[] = {S_INIT("cycles"), S_INIT("cpu-clock"), S_INIT("task-clock")};
    if (name.n == 0) return true;
    for (size_t i = 0; i < COUNT(cpu); i++) {
        if (str_contains(name, cpu[i])) return !str_contains(name, S("stalled"));
    }
    return false;
}

// The period of these is in nanoseconds.
static bool is_clock(str name)
{
    return str_contains(name, S("cpu-clock")) || str_contains(name, S("task-clock"));
}

// "page-faults:u" as the name of a sample type, which has only letters, digits and '_'.
static str type_of_event(struct arena *a, str event)
{
    str s = arena_str(a, event);
    char *to = s.n ? arena_new(a, s.n) : NULL;
    for (size_t i = 0; to && i < s.n; i++) {
        char c = s.p[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || PERF_IS_DIGIT(c);
        to[i] = fine ? c : '_';
    }
    return str_make(to, to ? s.n : 0);
}

static bool add_series(struct perf *p, const struct perf_event *v, err *e)
{
    static const struct profile_type timed[] = {{S_INIT("samples"), S_INIT("count")},
                                                {S_INIT("cpu"), S_INIT("nanoseconds")}};
    if (p->series_count == EVENTS_MAX)
        return err_set(e, ERR_INVALID_ARGUMENT, "more than %zu events", EVENTS_MAX);
    struct series *s = ARENA_NEW(p->a, struct series);
    if (!s ||
        !arena_grow(p->a, &p->series, &p->series_cap, p->series_count + 1, sizeof *p->series)) {
        return arena_fail(p->a, e);
    }
    *s = (struct series){.event = v->name, .is_cpu = is_cpu_event(v->name)};
    s->timed = v->period.n > 0 && is_clock(v->name);
    struct profile_type own = {type_of_event(p->a, v->name), S("count")};
    if (!arena_ok(p->a, e)) return false;
    map_init(&s->known, p->a->budget);
    p->series[p->series_count++] = s;
    p->at = s;
    return stacks_begin(&s->out, p->a, p->bytes, p->o, s->is_cpu ? timed : &own, s->timed ? 2 : 1,
                        e);
}

static bool find_series(struct perf *p, const struct perf_event *v, err *e)
{
    if (p->at && str_eq(p->at->event, v->name)) return true;
    for (size_t i = 0; i < p->series_count; i++) {
        p->at = p->series[i];
        if (str_eq(p->at->event, v->name)) return true;
    }
    return add_series(p, v, e);
}

// ---- the head

static str behind(str line, str word)
{
    size_t at = str_find_part(line, word);
    return str_trim(str_slice(line, at + word.n, line.n));
}

static int64_t number_at(str s)
{
    int64_t n = 0;
    return str_i64(str_slice(s, 0, perf_digits(s)), &n) ? n : 0;
}

// Whether options of perf record without a value stand before the option at `n` of "-agF"; all of
// the word if n is its length.
static bool are_flags(str word, size_t n)
{
    static const str flags = S_INIT("abdginqsvzBINPRTWX");
    for (size_t i = 1; i < n; i++) {
        if (str_find(flags, word.p[i]) == flags.n) return false;
    }
    return n > 1 && word.p[0] == '-';
}

// The rate of an option: "-F199", "-gF199", "--freq=199", or the next word. False: it is another.
static bool rate_of_option(str word, str next, int64_t *hz)
{
    size_t at = str_find(word, 'F');
    str value = {0};
    if (str_starts(word, S("--freq")))
        value = str_slice(word, 6, word.n);
    else if (at < word.n && (at == 1 ? word.p[0] == '-' : are_flags(word, at)))
        value = str_slice(word, at + 1, word.n);
    else
        return false;
    if (str_starts(value, S("="))) value = str_slice(value, 1, value.n);
    *hz = number_at(value.n ? value : next);
    return true;
}

// "# cmdline : /usr/bin/perf record -F 199 -g app -F 7". What follows the name of the program is
// the program's own. That name follows a word that takes no value.
static int64_t hertz_of_command(str line)
{
    str rest = behind(line, S("# cmdline :"));
    str record = behind(rest, S(" record "));
    bool may_begin = true;  // the next word may be the program, and no value
    if (record.n) rest = record;
    while (rest.n) {
        int64_t hz = 0;
        str word = str_split(rest, ' ', &rest);
        rest = str_trim(rest);
        bool option = str_starts(word, S("-"));
        if (str_is(word, "--") || (!option && may_begin && record.n)) break;
        if (option && rate_of_option(word, str_slice(rest, 0, str_find(rest, ' ')), &hz)) return hz;
        may_begin = !option || are_flags(word, word.n) || str_find(word, '=') < word.n;
    }
    return 0;
}

static void read_comment(struct perf *p, str line)
{
    int64_t hz = 0;
    if (str_starts(line, S("# cmdline :"))) hz = hertz_of_command(line);
    if (hz > 0 && hz <= NS_PER_S) p->command.period_ns = NS_PER_S / hz;
    if (!str_starts(line, S("# event :")) || p->rate_count == RATES_MAX) return;
    str name = behind(line, S("name = "));
    hz = number_at(behind(line, S("sample_freq } = ")));
    // Without this, the number is a period.
    if (hz <= 0 || hz > NS_PER_S || str_find_part(line, S(" freq = 1")) == line.n) return;
    p->rates[p->rate_count++] = (struct stated){str_slice(name, 0, str_find(name, ',')), hz};
}

// The time that a sample of an event stands for, as the head says; 0 if it does not.
static int64_t stated_period(const struct perf *p, str event)
{
    str plain = str_slice(event, 0, modifier_at(event));
    for (size_t i = 0; i < p->rate_count; i++) {
        str name = p->rates[i].event;
        bool same = str_eq(name, event) || str_eq(str_slice(name, 0, modifier_at(name)), plain);
        if (same) return NS_PER_S / p->rates[i].hz;
    }
    return p->command.period_ns;
}

// ---- samples

struct probe {
    const struct series *s;
    struct origin want;
};

static bool same(const void *ctx, uint32_t row)
{
    const struct probe *probe = ctx;
    const struct origin *o = &probe->s->origins[row];
    return str_eq(o->stack, probe->want.stack) && str_eq(o->pid, probe->want.pid) &&
           str_eq(o->command, probe->want.command);
}

static bool add_labels(struct perf *p, const struct origin *o, err *e)
{
    struct profile *out = p->at->out.p;
    struct profile_sample *s = &out->samples[out->sample_count - 1];
    if (!arena_grow(p->a, &out->labels, &p->at->label_cap, (size_t)out->label_count + LABELS,
                    sizeof *out->labels)) {
        return arena_fail(p->a, e);
    }
    s->first_label = out->label_count;
    const struct profile_label both[LABELS] = {{.key = S("comm"), .text = o->command},
                                               {.key = S("pid"), .text = o->pid}};
    for (size_t i = 0; i < LABELS; i++) {
        if (both[i].text.n == 0) continue;
        out->labels[out->label_count] = both[i];
        out->labels[out->label_count++].text = utf8_mended(p->a, both[i].text);
    }
    s->label_count = out->label_count - s->first_label;
    assert(out->label_count <= p->at->label_cap);
    return true;
}

// Counts the open sample: of a clock the sample and its time, of another CPU event the sample, and
// otherwise how often the event happened.
static bool add_value(struct perf *p, int64_t *v, err *e)
{
    int64_t often = p->at->is_cpu || p->period <= 0 ? 1 : p->period;
    bool fits = !__builtin_add_overflow(v[0], often, &v[0]);
    if (p->at->timed) fits = fits && !__builtin_add_overflow(v[1], p->period, &v[1]);
    return fits || err_set(e, ERR_OUT_OF_RANGE, "periods add up to more than 64 bits");
}

static bool count_stack(struct perf *p, const struct origin *want, err *e)
{
    struct series *s = p->at;
    struct probe probe = {s, *want};
    // With the command as it is: in the stack its spaces are the same as '_', so without it a text
    // could have many origins of one hash.
    uint64_t hash = hash_table_and(hash_table_str(want->stack), hash_table_str(want->command));
    hash = hash_table_and(hash, hash_table_str(want->pid));
    uint32_t row = map_find(&s->known, hash, same, &probe);
    if (row == MAP_NONE) {
        row = s->out.p->sample_count;
        if (!arena_grow(p->a, &s->origins, &s->origin_cap, (size_t)row + 1, sizeof *s->origins))
            return arena_fail(p->a, e);
        // Copied, as the stack is in the buffer of the line.
        probe.want.stack = arena_str(p->a, want->stack);
        if (!arena_ok(p->a, e)) return false;
        s->origins[row] = probe.want;
        if (!stacks_text(&s->out, probe.want.stack, false, 0, e) ||
            !add_labels(p, &probe.want, e) || !map_put(&s->known, hash, row, e)) {
            return false;
        }
    }
    assert(row < s->out.p->sample_count);
    return add_value(p, &s->out.p->values[(size_t)row * s->out.type_count], e);
}

static bool end_sample(struct perf *p, err *e)
{
    if (!p->open) return true;
    buf_clear(&p->line);
    for (size_t i = 0; i < p->command_name.n; i++) {
        char c = p->command_name.p[i];
        buf_byte(&p->line, (unsigned char)(c == ' ' || c == '\t' ? '_' : c == ';' ? ':' : c));
    }
    // perf prints the leaf first, collapsed text has the root first.
    for (size_t i = p->frame_count; i-- > 0 && !p->line.failed;) {
        size_t before = p->line.n;
        put_frame(p, &p->frames[i]);
        if (p->line.n <= LINE_BYTES) continue;
        assert(before <= LINE_BYTES);
        // The stack loses its leaf's end, so that stacks still share their callers.
        p->line.n = before;
        buf_z(&p->line, ";[truncated stack]");
        losses_add(&p->at->out.p->losses, LOSS_STACK_DEPTH, 1);
        break;
    }
    p->open = false;
    p->frame_count = 0;
    bool named = p->command_name.p != p->pid.p;
    struct origin origin = {.command = named ? p->command_name : (str){0},
                            .pid = str_slice(p->pid, 0, perf_digits(p->pid))};
    if (!buf_ok(&p->line, e)) return false;
    origin.stack = buf_view(&p->line);
    // Without a command the first frame is the root.
    if (!p->command_name.n && origin.stack.n) origin.stack = str_slice(origin.stack, 1, p->line.n);
    return count_stack(p, &origin, e);
}

static bool add_frame(struct perf *p, const struct perf_frame_text *f, err *e)
{
    assert(p->open);
    if (!arena_grow(p->a, &p->frames, &p->frame_cap, p->frame_count + 1, sizeof *p->frames))
        return arena_fail(p->a, e);
    assert(p->frame_count < p->frame_cap);
    p->frames[p->frame_count++] = *f;
    return true;
}

static bool begin_sample(struct perf *p, const struct perf_event *v, err *e)
{
    struct perf_frame_text f;
    int64_t period = 0;
    // Counts of cycles and of page faults must not be added up, so each event has its own profile.
    if (!end_sample(p, e) || !find_series(p, v, e)) return false;
    if (v->period.n && !str_i64(v->period, &period))
        return err_set(e, ERR_OUT_OF_RANGE, "period %.*s of a sample, limit 2^63-1",
                       STR(str_slice(v->period, 0, SHOWN)));
    if (v->period.n) p->at->period = period;
    // perf prints the period in each line or in none; a line that lost it has the one before.
    p->period = p->at->period;
    p->samples++;
    assert(!p->open && p->frame_count == 0);
    p->open = true;
    p->command_name = str_slice(v->command, 0, MIN(v->command.n, COMMAND_MAX));
    p->pid = str_slice(v->pid, 0, MIN(v->pid.n, COMMAND_MAX));
    return !perf_frame(v->rest, &f) || add_frame(p, &f, e);
}

// A frame without a sample begins one, in a text that has only frames: with empty lines between the
// stacks, or, of a recording without stacks, one on each line.
static bool add_line_of_frame(struct perf *p, const struct perf_frame_text *f, bool alone, err *e)
{
    static const struct perf_event none;
    if ((!p->open || (p->bare && alone)) && !begin_sample(p, &none, e)) return false;
    return add_frame(p, f, e);
}

// A line that is neither a head nor a frame. Others that perf prints are indented, or a record, or
// have the code (--fields srccode); what is left may have been the head of a sample.
static void note_odd(struct perf *p, str line, size_t number)
{
    bool known = str_find(S(" \t|"), line.p[0]) < 3 || str_contains(line, S("PERF_RECORD_"));
    p->bad_lines += !known;
    if (p->first_odd_number) return;
    p->first_odd = line;
    p->first_odd_number = number;
}

static bool read_lines(struct perf *p, str text, err *e)
{
    str rest = text;
    str line = {0};
    bool after_gap = true;
    // Stacks begin with a tab, addresses without a stack with spaces.
    bool alone = str_find_part(text, S("\n\n")) == text.n && str_find(text, '\t') == text.n;
    for (size_t number = 1; perf_next_line(&rest, &line); number++) {
        struct perf_event v;
        struct perf_frame_text f;
        bool ok = true;
        if (line.n && line.p[0] == '#') {
            read_comment(p, line);
            continue;
        }
        if (perf_is_empty(line)) {
            if (p->bare && p->open) ok = end_sample(p, e);
            after_gap = true;
        } else if (perf_head(line, &v)) {
            // A sample ends at the next event, not at an empty line: perf may print one within a
            // sample.
            p->bare = false;
            ok = begin_sample(p, &v, e);
        } else if (perf_part_of_frame(line, &f) && (p->open || perf_bare_frame(line))) {
            p->bare = p->bare || !p->open;
            ok = add_line_of_frame(p, &f, alone, e);
        } else if (after_gap && perf_bare_frame(str_slice(rest, 0, str_find(rest, '\n')))) {
            p->bare = false;
            perf_loose_head(line, &v);
            ok = begin_sample(p, &v, e);
        } else {
            note_odd(p, line, number);
        }
        if (!perf_is_empty(line)) after_gap = false;
        if (!ok) return false;
    }
    if (!end_sample(p, e)) return false;
    if (p->samples > 0) return true;
    if (!p->first_odd_number)
        return err_set(e, ERR_INVALID_ARGUMENT, "there is no sample in this text of perf script");
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "there is no sample in this text of perf script: line %zu is neither the head "
                   "nor a frame of one: \"%.*s\"",
                   p->first_odd_number, STR(str_slice(p->first_odd, 0, SHOWN)));
}

// ---- the profiles

static bool finish_series(struct perf *p, struct series *s, struct profile *to, err *e)
{
    struct profile *one = s->out.p;
    int64_t period = s->timed ? s->period : s->is_cpu ? stated_period(p, s->event) : 0;
    if (period > 0) {
        one->period = period;
        one->period_type = (struct profile_type){S("cpu"), S("nanoseconds")};
    }
    if (!stacks_finish(&s->out, e)) return false;
    // Not the text's size, which has each stack as often as it was met.
    one->encoded_bytes = decode_pprof_size(one);
    if (p->series_count > 1) one->name = utf8_mended(p->a, s->event);
    *to = *one;
    return arena_ok(p->a, e);
}

static bool finish_all(struct perf *p, struct decoded *out, err *e)
{
    struct profile *all = ARENA_ARRAY(p->a, struct profile, p->series_count);
    if (!all) return arena_fail(p->a, e);
    for (size_t i = 0; i < p->series_count; i++) {
        if (!finish_series(p, p->series[i], &all[i], e)) return false;
    }
    losses_add(&all[0].losses, LOSS_BAD_LINE, p->bad_lines);
    *out = (struct decoded){all, p->series_count};
    return true;
}

bool decode_perf(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e)
{
    struct perf p = {.a = a, .o = o, .bytes = bytes.n};
    str text = {0};
    buf_init(&p.line, NULL, STACK_MAX);
    bool ok = decode_plain(a, bytes, &text, e) && read_lines(&p, text, e) && finish_all(&p, out, e);
    assert(!ok || !p.open);
    for (size_t i = 0; i < p.series_count; i++) {
        stacks_release(&p.series[i]->out);
        map_release(&p.series[i]->known);
    }
    buf_release(&p.line);
    return ok;
}
