// SPDX-License-Identifier: Apache-2.0
//
// perf.c - one pass over the lines. The frames of a sample are kept until the sample ends, because
// the root comes last. Then the stack is printed as one text and looked up, with its process, among
// the earlier ones. A new one becomes a sample of the profile; others add to theirs.
#include "decode/perf.h"

#include "base/hash.h"
#include "decode/stacks.h"

#define SNIFF_LINES 400  // a header has some 40, one of many CPUs more
#define STACK_MAX   ((size_t)64 << 20)
#define LINE_BYTES  ((size_t)60000)  // of a stack, or a hostile text makes as many frames as it has
#define COMMAND_MAX ((size_t)1000)
#define LABELS      2u  // at most, of a sample
#define ANONYMOUS   S("(anonymous namespace)")
#define DELETED     S(" (deleted)")
#define UNKNOWN     "[unknown]"
#define INLINED     "inlined"
#define IS_DIGIT(c) ((c) >= '0' && (c) <= '9')
#define IS_HEX(c)   (IS_DIGIT(c) || ((c) >= 'a' && (c) <= 'f') || ((c) >= 'A' && (c) <= 'F'))

struct event {
    str command;  // or the pid, if there is no command
    str pid;      // "123" or "123/124"
    str name;     // empty: the line has none
    str rest;     // a frame on the same line, or empty
};

struct frame {
    str symbol;
    str file;
};

// The key of a sample: its stack, command and process.
struct origin {
    str stack;    // collapsed
    str command;  // empty: the text has none
    str pid;
};

struct perf {
    struct arena *a;
    struct stacks out;
    struct map known;  // rows of origins and of samples
    struct origin *origins;
    size_t origin_cap;
    size_t label_cap;
    str event;  // of the first sample
    uint64_t samples;
    uint64_t of_others;
    // the current sample
    bool open;
    str command;
    str pid;
    struct frame *frames;  // leaf first
    size_t frame_count;
    size_t frame_cap;
    struct buf line;
};

// ---- lines

static bool next_word(str *rest, str *word)
{
    str s = str_trim(*rest);
    size_t n = 0;
    while (n < s.n && s.p[n] != ' ' && s.p[n] != '\t')
        n++;
    *word = str_slice(s, 0, n);
    *rest = str_slice(s, n, s.n);
    return n > 0;
}

static str first_word(str s)
{
    str word = {0};
    (void)next_word(&s, &word);
    return word;
}

static size_t digits(str s)
{
    size_t n = 0;
    while (n < s.n && IS_DIGIT(s.p[n]))
        n++;
    return n;
}

// "123" or "123/124"
static bool is_pid(str s)
{
    size_t n = digits(s);
    if (n == 0 || n == s.n) return n > 0;
    str thread = str_slice(s, n + 1, s.n);
    return s.p[n] == '/' && thread.n > 0 && digits(thread) == thread.n;
}

// "441995.133575:"
static bool is_time(str s)
{
    size_t n = digits(s);
    str behind = str_slice(s, n + 1, s.n);
    return n > 0 && n < s.n && s.p[n] == '.' && digits(behind) + 1 == behind.n &&
           behind.p[behind.n - 1] == ':';
}

static bool is_hex(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!IS_HEX(s.p[i])) return false;
    }
    return s.n > 0;
}

static bool has_digit(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (IS_DIGIT(s.p[i])) return true;
    }
    return false;
}

// "symbol (file)", where " (deleted)" may follow the file's name.
static bool read_place(str text, struct frame *f)
{
    // From the end: symbols of C++ have parentheses, and the file is in the last ones.
    size_t close = str_rfind(text, ')');
    if (close == text.n) return false;
    str inside = str_slice(text, 0, close);
    if (str_ends(inside, DELETED)) inside = str_slice(inside, 0, inside.n - DELETED.n);
    size_t at = inside.n;
    while (at > 0 && !(inside.p[at - 1] == ' ' && at < inside.n && inside.p[at] == '('))
        at--;
    if (at == 0) return false;
    f->symbol = str_trim(str_slice(inside, 0, at));
    f->file = str_slice(inside, at + 1, inside.n);
    return f->symbol.n > 0;
}

// "address symbol+0xoffset (file)"
static bool is_frame(str line, struct frame *f)
{
    str rest = line;
    str address = {0};
    return next_word(&rest, &address) && is_hex(address) && read_place(rest, f);
}

// A frame of a sample of which --fields left out the address, the symbol or the file. Only within a
// sample, because other text looks like this too.
static bool is_part_of_frame(str line, struct frame *f)
{
    str rest = line;
    str word = {0};
    if (is_frame(line, f)) return true;
    if (line.n == 0 || (line.p[0] != ' ' && line.p[0] != '\t')) return false;
    if (read_place(line, f)) {
        // "7f12 (file)" has no symbol, but "add (file)" has: an address without a digit is rare.
        bool address = is_hex(f->symbol) && has_digit(f->symbol);
        if (address) f->symbol = S(UNKNOWN);
        return true;
    }
    if (!next_word(&rest, &word) || !is_hex(word)) return false;
    str symbol = str_trim(rest);
    // Instructions, which --fields insn and brstackinsn print.
    if (str_starts(symbol, S("insn:"))) return false;
    *f = (struct frame){symbol.n ? symbol : S(UNKNOWN), S(UNKNOWN)};
    return true;
}

// The event behind the pid: "[cpu] time: period event: rest". CPU, time and period may be missing.
static bool read_event(str rest, struct event *v)
{
    str word = {0};
    while (next_word(&rest, &word)) {
        bool number = digits(word) == word.n;
        if (number || word.p[0] == '[') continue;
        assert(word.n > 0);
        if (word.p[word.n - 1] != ':') return false;
        v->name = str_slice(word, 0, word.n - 1);
        v->rest = rest;
        return true;
    }
    return false;
}

// The same behind the time, where the event may be missing too.
static bool read_timed(str rest, struct event *v)
{
    static const str record = S_INIT("PERF_RECORD_");
    struct frame f;
    // Before a frame on the same line: "1 cycles: 12 work (/a)" looks like one as a whole.
    if (read_event(rest, v)) return !str_starts(v->name, record);
    v->rest = rest;
    str words = str_trim(rest);
    return digits(words) == words.n || is_frame(rest, &f);
}

// Whether a line begins a sample. Perf indents these lines if it prints no stacks; then the line
// must have a time, because a frame may look alike.
static bool is_event(str line, struct event *v)
{
    str s = str_trim(line);
    bool indented = s.n > 0 && s.p != line.p;
    str rest = s;
    str word = {0};
    str pid = {0};         // the last word before the time that looks like one
    str first_pid = {0};   // the first such word
    str behind_pid = {0};  // its rest
    // The first word is a part of the command, even if it looks like a pid: commands may be
    // numbers.
    bool first = true;
    *v = (struct event){0};
    while (next_word(&rest, &word)) {
        if (!first && is_time(word)) {
            // The only word is the pid if --fields left out the command.
            if (!pid.n && !is_pid(first_word(s))) return false;
            v->command = pid.n ? str_trim(str_slice(s, 0, (size_t)(pid.p - s.p))) : first_word(s);
            v->pid = pid.n ? pid : v->command;
            return read_timed(rest, v);
        }
        if (!first && is_pid(word)) {
            if (!pid.n) {
                first_pid = word;
                behind_pid = rest;
                v->command = str_trim(str_slice(s, 0, (size_t)(word.p - s.p)));
            }
            pid = word;
        }
        first = false;
    }
    v->pid = first_pid;
    return pid.n && !indented && read_event(behind_pid, v);
}

static bool next_line(str *rest, str *line)
{
    if (rest->n == 0) return false;
    *line = str_split(*rest, '\n', rest);
    if (line->n && line->p[line->n - 1] == '\r') line->n--;
    return true;
}

bool perf_is_script(str text)
{
    str rest = text;
    str line = {0};
    for (int i = 0; i < SNIFF_LINES && next_line(&rest, &line); i++) {
        struct event v;
        struct frame f;
        if (line.n == 0 || line.p[0] == '#') continue;
        // The first line that is no comment decides.
        if (!is_event(line, &v)) return false;
        if (str_trim(v.rest).n) return is_frame(v.rest, &f);
        return next_line(&rest, &line) && is_part_of_frame(line, &f);
    }
    return false;
}

// ---- names

// Without "+0x1f" at the end.
static str without_offset(str s)
{
    size_t n = s.n;
    while (n > 0 && IS_HEX(s.p[n - 1]))
        n--;
    assert(n <= s.n);
    bool offset = n < s.n && n >= 3 && str_eq(str_slice(s, n - 3, n), S("+0x"));
    return offset ? str_slice(s, 0, n - 3) : s;
}

static size_t find(str s, str part)
{
    const char *at = s.n ? memmem(s.p, s.n, part.p, part.n) : NULL;
    return at ? (size_t)(at - s.p) : s.n;
}

// Arguments begin at the first parenthesis; but "net/http.(*Client).Do" of Go has none, and
// "(anonymous namespace)" of C++ is a part of the name.
static str without_arguments(str s)
{
    size_t method = find(s, S(".("));
    if (method < s.n && find(str_slice(s, method, s.n), S(").")) < s.n - method) return s;
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
        size_t at = find(file, names[i].before);
        if (at == file.n) continue;
        str rest = str_slice(file, at + names[i].before.n, file.n);
        size_t n = digits(rest);
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
static void put_function(struct perf *p, const struct frame *f, str name, bool inlined)
{
    assert(p->open && name.n > 0);
    struct buf *b = &p->line;
    buf_byte(b, ';');
    if (str_is(name, UNKNOWN)) {
        // Without the address that --fields dsoff adds, or each one would be a function.
        str file = without_offset(f->file);
        size_t slash = str_rfind(file, '/');
        file = slash < file.n ? str_slice(file, slash + 1, file.n) : file;
        buf_byte(b, '[');
        put_tidy(b, str_is(f->file, UNKNOWN) ? S("unknown") : file);
        buf_byte(b, ']');
    } else {
        // Names of Java's classes begin with an L that belongs to their signature and not to the
        // name.
        bool java = str_starts(p->command, S("java")) && str_starts(name, S("L")) &&
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

static void put_frame(struct perf *p, const struct frame *f)
{
    str rest = without_offset(f->symbol);
    bool inlined = false;
    assert(p->open);
    if (str_starts(rest, S("("))) return;  // the name of a process
    while (rest.n) {
        size_t at = find(rest, S("->"));
        str name = str_slice(rest, 0, at);
        rest = str_slice(rest, at + 2, rest.n);
        if (!str_is(name, UNKNOWN)) name = without_arguments(name);
        if (name.n == 0) continue;
        put_function(p, f, name, inlined);
        inlined = true;
    }
}

// ---- samples

struct probe {
    const struct perf *p;
    struct origin want;
};

static bool same(const void *ctx, uint32_t row)
{
    const struct probe *probe = ctx;
    const struct origin *o = &probe->p->origins[row];
    return str_eq(o->stack, probe->want.stack) && str_eq(o->pid, probe->want.pid) &&
           str_eq(o->command, probe->want.command);
}

static bool add_labels(struct perf *p, const struct origin *o, err *e)
{
    struct profile *out = p->out.p;
    struct profile_sample *s = &out->samples[out->sample_count - 1];
    if (!arena_grow(p->a, &out->labels, &p->label_cap, (size_t)out->label_count + LABELS,
                    sizeof *out->labels)) {
        return arena_fail(p->a, e);
    }
    s->first_label = out->label_count;
    const struct profile_label both[LABELS] = {{.key = S("comm"), .text = o->command},
                                               {.key = S("pid"), .text = o->pid}};
    for (size_t i = 0; i < LABELS; i++) {
        if (both[i].text.n) out->labels[out->label_count++] = both[i];
    }
    s->label_count = out->label_count - s->first_label;
    assert(out->label_count <= p->label_cap);
    return true;
}

// A sample of the profile that counts 0 so far. The text has the root first, a profile the leaf.
static bool add_sample(struct perf *p, const struct origin *o, err *e)
{
    size_t depth = 1;
    uint32_t *leaf = NULL;
    int64_t *count = NULL;
    for (size_t i = 0; i < o->stack.n; i++)
        depth += o->stack.p[i] == ';';
    if (!stacks_sample(&p->out, depth, &leaf, &count, e)) return false;
    str rest = o->stack;
    for (size_t i = depth; i-- > 0;) {
        str name = str_split(rest, ';', &rest);
        if (!stacks_frame(&p->out, name, (str){0}, 0, &leaf[i], e)) return false;
    }
    return add_labels(p, o, e);
}

static bool count_stack(struct perf *p, const struct origin *want, err *e)
{
    struct probe probe = {p, *want};
    // With the command as it is: in the stack its spaces are the same as '_', so without it a text
    // could have many origins of one hash.
    uint64_t hash = hash_table_and(hash_table_str(want->stack), hash_table_str(want->command));
    hash = hash_table_and(hash, hash_table_str(want->pid));
    uint32_t row = map_find(&p->known, hash, same, &probe);
    if (row == MAP_NONE) {
        row = p->out.p->sample_count;
        if (!arena_grow(p->a, &p->origins, &p->origin_cap, (size_t)row + 1, sizeof *p->origins))
            return arena_fail(p->a, e);
        // Copied, as the stack is in the buffer of the line.
        probe.want.stack = arena_str(p->a, want->stack);
        if (!arena_ok(p->a, e)) return false;
        p->origins[row] = probe.want;
        if (!add_sample(p, &probe.want, e) || !map_put(&p->known, hash, row, e)) return false;
    }
    assert(row < p->out.p->sample_count);
    p->out.p->values[row]++;
    return true;
}

static bool end_sample(struct perf *p, err *e)
{
    if (!p->open) return true;
    buf_clear(&p->line);
    for (size_t i = 0; i < p->command.n; i++) {
        char c = p->command.p[i];
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
        break;
    }
    p->open = false;
    p->frame_count = 0;
    bool named = p->command.p != p->pid.p;
    struct origin origin = {.command = named ? p->command : (str){0},
                            .pid = str_slice(p->pid, 0, digits(p->pid))};
    if (!buf_ok(&p->line, e)) return false;
    assert(origin.pid.n > 0);
    origin.stack = buf_view(&p->line);
    return count_stack(p, &origin, e);
}

static bool add_frame(struct perf *p, const struct frame *f, err *e)
{
    assert(p->open);
    if (!arena_grow(p->a, &p->frames, &p->frame_cap, p->frame_count + 1, sizeof *p->frames))
        return arena_fail(p->a, e);
    assert(p->frame_count < p->frame_cap);
    p->frames[p->frame_count++] = *f;
    return true;
}

static bool begin_sample(struct perf *p, const struct event *v, err *e)
{
    struct frame f;
    if (!end_sample(p, e)) return false;
    if (p->samples == 0) p->event = v->name;
    // Counts of cycles and of page faults must not be added up, so only the first event is kept.
    if (!str_eq(v->name, p->event)) {
        p->of_others++;
        return true;
    }
    p->samples++;
    assert(!p->open && p->frame_count == 0);
    p->open = true;
    p->command = str_slice(v->command, 0, MIN(v->command.n, COMMAND_MAX));
    p->pid = str_slice(v->pid, 0, MIN(v->pid.n, COMMAND_MAX));
    return !is_frame(v->rest, &f) || add_frame(p, &f, e);
}

static bool read_lines(struct perf *p, str text, err *e)
{
    str rest = text;
    str line = {0};
    while (next_line(&rest, &line)) {
        struct event v;
        struct frame f;
        bool ok = true;
        if (line.n && line.p[0] == '#') continue;
        // A sample ends at the next event, not at an empty line: perf may print one within a
        // sample. Outside of one are frames of events that are left out.
        if (is_event(line, &v))
            ok = begin_sample(p, &v, e);
        else if (p->open && is_part_of_frame(line, &f))
            ok = add_frame(p, &f, e);
        if (!ok) return false;
    }
    if (!end_sample(p, e)) return false;
    return p->samples > 0 ||
           err_set(e, ERR_INVALID_ARGUMENT, "there is no sample in this text of perf script");
}

bool decode_perf(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 uint64_t *of_others, err *e)
{
    static const struct profile_type type = {S_INIT("samples"), S_INIT("count")};
    struct perf p = {.a = a};
    map_init(&p.known, a->budget);
    buf_init(&p.line, NULL, STACK_MAX);
    bool ok = stacks_begin(&p.out, a, bytes.n, o, &type, 1, e) && read_lines(&p, bytes, e) &&
              stacks_finish(&p.out, e);
    assert(!ok || !p.open);
    if (ok) {
        // Not the text's size, which has each stack as often as it was met.
        p.out.p->encoded_bytes = decode_pprof_size(p.out.p);
        *out = (struct decoded){p.out.p, 1};
    }
    if (of_others) *of_others = p.of_others;
    stacks_release(&p.out);
    buf_release(&p.line);
    map_release(&p.known);
    return ok;
}
