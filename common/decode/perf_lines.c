// SPDX-License-Identifier: Apache-2.0
//
// perf_lines.c - tells the lines of perf script apart. Which fields they have is chosen by --fields
// and not said in the text, so a line is known by the form of its words.
#include "decode/perf_int.h"
#include "decode/plain.h"

#define SNIFF_LINES 400  // a header has some 40, one of many CPUs more
#define DELETED     S(" (deleted)")
// Digits of an address by which a text without heads is told, where no tab says that it is a frame.
#define HEX_LEAST      5
#define PERIOD_COLUMNS 10

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

// "123" or "123/124"
static bool is_pid(str s)
{
    size_t n = perf_digits(s);
    if (n == 0 || n == s.n) return n > 0;
    str thread = str_slice(s, n + 1, s.n);
    return s.p[n] == '/' && thread.n > 0 && perf_digits(thread) == thread.n;
}

// "441995.133575:"
static bool is_time(str s)
{
    size_t n = perf_digits(s);
    str behind = str_slice(s, n + 1, s.n);
    return n > 0 && n < s.n && s.p[n] == '.' && perf_digits(behind) + 1 == behind.n &&
           behind.p[behind.n - 1] == ':';
}

static bool is_hex(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!perf_is_hex_digit(s.p[i])) return false;
    }
    return s.n > 0;
}

static bool has_digit(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (PERF_IS_DIGIT(s.p[i])) return true;
    }
    return false;
}

// "symbol (file)", where " (deleted)" may follow the file's name.
static bool read_place(str text, struct perf_frame_text *f)
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
bool perf_frame(str line, struct perf_frame_text *f)
{
    str rest = line;
    str address = {0};
    return next_word(&rest, &address) && is_hex(address) && read_place(rest, f);
}

// A number that perf pads as a period: a pid has fewer columns.
static bool is_period(str line, str word)
{
    size_t blanks = 0;
    while (word.p - blanks > line.p && word.p[-(ptrdiff_t)blanks - 1] == ' ')
        blanks++;
    return perf_digits(word) == word.n && blanks + word.n >= PERIOD_COLUMNS;
}

// A frame of a sample of which --fields left out the address, the symbol or the file. Only within a
// sample, because other text looks like this too.
bool perf_part_of_frame(str line, struct perf_frame_text *f)
{
    str rest = line;
    str word = {0};
    if (perf_frame(line, f)) return true;
    if (line.n == 0 || (line.p[0] != ' ' && line.p[0] != '\t')) return false;
    if (read_place(line, f)) {
        // "7f12 (file)" has no symbol, but "add (file)" has: an address without a digit is rare.
        bool address = is_hex(f->symbol) && has_digit(f->symbol);
        if (address) f->symbol = S(PERF_UNKNOWN);
        return true;
    }
    if (!next_word(&rest, &word) || !is_hex(word)) return false;
    str symbol = str_trim(rest);
    // "     250000 cpu-clock:", the head of a sample.
    if (is_period(line, word) && str_ends(symbol, S(":"))) return false;
    // Instructions, which --fields insn and brstackinsn print.
    if (str_starts(symbol, S("insn:"))) return false;
    *f = (struct perf_frame_text){symbol.n ? symbol : S(PERF_UNKNOWN), S(PERF_UNKNOWN)};
    return true;
}

// The event behind the pid: "[cpu] time: period event: rest". CPU, time and period may be missing.
static bool read_event(str rest, struct perf_event *v)
{
    str word = {0};
    while (next_word(&rest, &word)) {
        bool number = perf_digits(word) == word.n;
        if (number) v->period = word;
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
static bool read_timed(str rest, struct perf_event *v)
{
    static const str record = S_INIT("PERF_RECORD_");
    struct perf_frame_text f;
    // Before a frame on the same line: "1 cycles: 12 work (/a)" looks like one as a whole.
    if (read_event(rest, v)) return !str_starts(v->name, record);
    v->rest = rest;
    str words = str_trim(rest);
    return perf_digits(words) == words.n || perf_frame(rest, &f);
}

// Whether a line begins a sample. Perf indents these lines if it prints no stacks; then the line
// must have a time, because a frame may look alike.
bool perf_head(str line, struct perf_event *v)
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
    *v = (struct perf_event){0};
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
    if (!pid.n || indented || !read_event(behind_pid, v)) return false;
    // "shop     250000 cpu-clock:", without a pid.
    if (!v->period.n && is_period(line, first_pid)) {
        v->period = first_pid;
        v->pid = (str){0};
    }
    return true;
}

// A line that begins a sample although --fields left out its event and time, or its pid: the line
// before is empty, and a frame follows. What looks like a pid, an event, a CPU or a time is taken
// for it, and what stands before them for the command.
void perf_loose_head(str line, struct perf_event *v)
{
    str s = str_trim(line);
    str rest = s;
    str word = {0};
    size_t command = s.n;
    *v = (struct perf_event){0};
    for (bool first = true; next_word(&rest, &word); first = false) {
        size_t at = (size_t)(word.p - s.p);
        bool pid = is_pid(word);
        bool event = word.p[word.n - 1] == ':';
        if (pid && is_period(line, word)) {
            v->period = word;
            command = MIN(command, at);
            continue;
        }
        if (!pid && !event && word.p[0] != '[') continue;
        if (first && pid) v->pid = v->command = word;
        if (!first && pid && !v->pid.n) v->pid = word;
        if (event && !is_time(word)) v->name = str_slice(word, 0, word.n - 1);
        command = MIN(command, at);
    }
    if (!v->command.n) v->command = str_trim(str_slice(s, 0, command));
}

bool perf_next_line(str *rest, str *line)
{
    if (rest->n == 0) return false;
    *line = plain_line(str_split(*rest, '\n', rest));
    if (line->n && line->p[line->n - 1] == '\r') line->n--;
    return true;
}

// An indented address with a name: what a sample begins with where --fields left out all else.
bool perf_bare_frame(str line)
{
    str rest = line;
    str word = {0};
    struct perf_frame_text f;
    if (line.n == 0 || (line.p[0] != ' ' && line.p[0] != '\t')) return false;
    size_t least = line.p[0] == '\t' ? 1 : HEX_LEAST;
    return next_word(&rest, &word) && word.n >= least && is_hex(word) && has_digit(word) &&
           perf_part_of_frame(line, &f);
}

bool perf_is_empty(str line)
{
    return str_trim(line).n == 0;
}

bool perf_is_script(str text)
{
    str rest = text;
    str line = {0};
    for (int i = 0; i < SNIFF_LINES && perf_next_line(&rest, &line); i++) {
        struct perf_event v;
        struct perf_frame_text f;
        str next = {0};
        if (perf_is_empty(line) || line.p[0] == '#') continue;
        // The first line that is no comment decides.
        if (perf_head(line, &v)) {
            if (perf_frame(v.rest, &f)) return true;
            bool last = !perf_next_line(&rest, &next);
            if (!last && perf_part_of_frame(next, &f)) return true;
            // Of a sample without a stack, as those of tracepoints often are.
            return v.name.n && (last || perf_is_empty(next) || perf_head(next, &v));
        }
        return perf_bare_frame(line) || (perf_next_line(&rest, &next) && perf_bare_frame(next));
    }
    return false;
}
