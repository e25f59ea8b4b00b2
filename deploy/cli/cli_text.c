// SPDX-License-Identifier: Apache-2.0
//
// cli_text.c - characters one by one with their widths; everything that is printed goes through
// here.
#include "deploy/cli/cli_text.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <wchar.h>

#define REPLACEMENT S("\xef\xbf\xbd")
#define ELLIPSIS    S("…")

// ---- characters

// Characters that have an effect instead of a shape: controls, marks of direction, invisible
// joiners.
static bool acts(uint32_t c)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},
        {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
        {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < COUNT(ranges); i++) {
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    }
    return false;
}

bool text_next(str *s, struct text_char *c)
{
    if (s->n == 0) return false;
    // A byte that is no UTF-8 counts as one character, shown as the replacement: so each text ends.
    uint32_t point = 0;
    size_t n = utf8_get(*s, &point);
    c->bytes = str_slice(*s, 0, n ? n : 1);
    c->columns = 1;
    c->shown = n > 0 && !acts(point);
    assert(c->bytes.n > 0);
    *s = str_slice(*s, c->bytes.n, s->n);
    if (!c->shown || point < 0x80) return true;
    int width = wcwidth((wchar_t)point);  // by the locale, which the program sets to UTF-8
    // Negative for what the C library does not know; one column is the best guess.
    if (width >= 0) c->columns = (unsigned)width;
    return true;
}

static void put_char(struct buf *b, const struct text_char *c)
{
    buf_str(b, c->shown ? c->bytes : REPLACEMENT);
}

unsigned text_columns(str s)
{
    unsigned sum = 0;
    struct text_char c;
    while (text_next(&s, &c))
        sum += c.columns;
    return sum;
}

unsigned text_put(struct buf *b, str s)
{
    return text_put_cut(b, s, UINT32_MAX);
}

unsigned text_put_cut(struct buf *b, str s, unsigned columns)
{
    unsigned used = 0;
    unsigned before = 0;  // columns at `mark`, where "…" would still fit
    size_t mark = b->n;
    struct text_char c;
    while (text_next(&s, &c)) {
        if (c.columns > columns - used) {
            // Back to where the sign fitted; a failed buffer is shorter than that already.
            b->n = MIN(mark, b->n);
            if (columns > before) buf_str(b, ELLIPSIS);
            return columns > before ? before + 1 : before;
        }
        assert(used <= columns);
        put_char(b, &c);
        used += c.columns;
        if (used < columns) {
            mark = b->n;
            before = used;
        }
    }
    return used;
}

void text_pad(struct buf *b, unsigned columns)
{
    for (unsigned i = 0; i < columns; i++)
        buf_byte(b, ' ');
}

void text_filter(struct buf *b, str s)
{
    struct text_char c;
    while (text_next(&s, &c)) {
        // The two that lay out text; other controls could move the cursor or change colours.
        bool keep = c.bytes.n == 1 && (c.bytes.p[0] == '\n' || c.bytes.p[0] == '\t');
        if (keep)
            buf_str(b, c.bytes);
        else
            put_char(b, &c);
    }
}

// ---- numbers

struct spelling {
    str name;
    enum text_unit unit;
    double factor;
};

// Other spellings in use, in small letters without a plural's s: those that `go tool pprof`
// understands, and microseconds with the Greek letter as well as with the micro sign.
static enum text_unit other_spelling(str unit, double *factor)
{
    static const struct spelling known[] = {
        {S_INIT("nanosecond"), TEXT_NS, 1},    {S_INIT("nsec"), TEXT_NS, 1},
        {S_INIT("microsecond"), TEXT_NS, 1e3}, {S_INIT("usec"), TEXT_NS, 1e3},
        {S_INIT("\u03bcs"), TEXT_NS, 1e3},     {S_INIT("\u00b5s"), TEXT_NS, 1e3},
        {S_INIT("millisecond"), TEXT_NS, 1e6}, {S_INIT("msec"), TEXT_NS, 1e6},
        {S_INIT("second"), TEXT_NS, 1e9},      {S_INIT("sec"), TEXT_NS, 1e9},
        {S_INIT("s"), TEXT_NS, 1e9},           {S_INIT("minute"), TEXT_NS, 60e9},
        {S_INIT("min"), TEXT_NS, 60e9},        {S_INIT("hour"), TEXT_NS, 3600e9},
        {S_INIT("hr"), TEXT_NS, 3600e9},       {S_INIT("byte"), TEXT_BYTES, 1},
        {S_INIT("b"), TEXT_BYTES, 1},          {S_INIT("kilobyte"), TEXT_BYTES, 0x1p10},
        {S_INIT("kbyte"), TEXT_BYTES, 0x1p10}, {S_INIT("kb"), TEXT_BYTES, 0x1p10},
        {S_INIT("kib"), TEXT_BYTES, 0x1p10},   {S_INIT("megabyte"), TEXT_BYTES, 0x1p20},
        {S_INIT("mbyte"), TEXT_BYTES, 0x1p20}, {S_INIT("mb"), TEXT_BYTES, 0x1p20},
        {S_INIT("mib"), TEXT_BYTES, 0x1p20},   {S_INIT("gigabyte"), TEXT_BYTES, 0x1p30},
        {S_INIT("gbyte"), TEXT_BYTES, 0x1p30}, {S_INIT("gb"), TEXT_BYTES, 0x1p30},
        {S_INIT("gib"), TEXT_BYTES, 0x1p30},
    };
    assert(factor);
    bool plural = unit.n > 3 && str_ends(unit, S("s"));
    for (size_t i = 0; i < COUNT(known); i++) {
        bool same = str_ieq(unit, known[i].name) ||
                    (plural && str_ieq(str_slice(unit, 0, unit.n - 1), known[i].name));
        if (!same) continue;
        *factor = known[i].factor;
        return known[i].unit;
    }
    return TEXT_COUNT;
}

enum text_unit text_unit_of(str unit, double *factor)
{
    static const struct {
        str name;
        enum text_unit unit;
        double factor;
    } units[] = {
        {S_INIT("nanoseconds"), TEXT_NS, 1},    {S_INIT("ns"), TEXT_NS, 1},
        {S_INIT("microseconds"), TEXT_NS, 1e3}, {S_INIT("us"), TEXT_NS, 1e3},
        {S_INIT("μs"), TEXT_NS, 1e3},           {S_INIT("µs"), TEXT_NS, 1e3},
        {S_INIT("milliseconds"), TEXT_NS, 1e6}, {S_INIT("ms"), TEXT_NS, 1e6},
        {S_INIT("seconds"), TEXT_NS, 1e9},      {S_INIT("bytes"), TEXT_BYTES, 1},
    };
    // Exact names first: they are those of the API, and the common case.
    *factor = 1;
    for (size_t i = 0; i < COUNT(units); i++) {
        if (!str_eq(unit, units[i].name)) continue;
        *factor = units[i].factor;
        return units[i].unit;
    }
    return other_spelling(unit, factor);
}

struct step {
    double factor;
    const char *symbol;
};

static const struct step *steps_of(enum text_unit unit)
{
    static const struct step time[] = {{86400e9, " d"}, {3600e9, " h"}, {60e9, " min"}, {1e9, " s"},
                                       {1e6, " ms"},    {1e3, " µs"},   {1, " ns"}};
    static const struct step bytes[] = {{0x1p50, " PiB"}, {0x1p40, " TiB"}, {0x1p30, " GiB"},
                                        {0x1p20, " MiB"}, {0x1p10, " KiB"}, {1, " B"}};
    static const struct step count[] = {
        {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}};
    // From 0.01 on without a prefix: "0.28 cores" reads better than "280 m cores".
    static const struct step ratio[] = {{1e12, " T"}, {1e9, " G"},  {1e6, " M"},  {1e3, " k"},
                                        {1, ""},      {1e-3, " m"}, {1e-6, " µ"}, {1e-9, " n"}};
    switch (unit) {
    case TEXT_NS:
        return time;
    case TEXT_BYTES:
        return bytes;
    case TEXT_RATIO:
        return ratio;
    case TEXT_COUNT:
        break;
    }
    return count;
}

const char *text_value(char out[TEXT_NUMBER_MAX], double v, enum text_unit unit)
{
    const struct step *s = steps_of(unit);
    assert(s && s->factor > 0);
    double size = fabs(v);
    // Just below a unit counts as that unit: 999.95 ms is 1.00 s.
    double last = unit == TEXT_RATIO ? 1e-9 : 1;
    // Ends at the last row, whose factor is `last`; NaN stays at the first, and is a "?" below.
    while (s->factor > last && size < s->factor * (s->factor == 1 ? 0.01 : 0.9995))
        s++;
    double shown = v / s->factor;
    if (v == 0) {
        snprintf(out, TEXT_NUMBER_MAX, "0");
    } else if (!isfinite(v)) {
        snprintf(out, TEXT_NUMBER_MAX, "?");
    } else if (s->factor == 1 && shown == floor(shown)) {
        snprintf(out, TEXT_NUMBER_MAX, "%.0f%s", shown, s->symbol);
    } else if (fabs(shown) >= 1e6) {
        snprintf(out, TEXT_NUMBER_MAX, "%.3g%s", shown, s->symbol);
    } else {
        // Three digits that count; the bounds are those at which rounding adds a digit.
        int decimals = fabs(shown) >= 99.95 ? 0 : fabs(shown) >= 9.995 ? 1 : 2;
        snprintf(out, TEXT_NUMBER_MAX, "%.*f%s", decimals, shown, s->symbol);
    }
    return out;
}

const char *text_percent(char out[TEXT_NUMBER_MAX], double share)
{
    // 0.00 would look like nothing at all.
    if (share > 0 && share < 0.0001)
        snprintf(out, TEXT_NUMBER_MAX, "<0.01 %%");
    else
        snprintf(out, TEXT_NUMBER_MAX, "%.*f %%", fabs(share) >= 0.09995 || share == 0 ? 1 : 2,
                 share * 100);
    return out;
}

void text_right(struct buf *b, const char *s, unsigned columns)
{
    unsigned n = text_columns(str_of(s));
    if (n < columns) text_pad(b, columns - n);
    buf_z(b, s);
}

void text_left(struct buf *b, str s, unsigned columns)
{
    unsigned n = text_put_cut(b, s, columns);
    assert(n <= columns);
    text_pad(b, columns - n);
}

void text_bar(struct buf *b, double share, unsigned columns)
{
    assert(columns > 0);
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    // In this order NaN becomes 0.
    double clamped = share > 1 ? 1 : share > 0 ? share : 0;
    unsigned n = (unsigned)lround(clamped * columns * 8);
    if (n == 0 && clamped > 0) n = 1;  // a value above 0 must be visible
    assert(n <= columns * 8);
    for (unsigned i = 0; i < n / 8; i++)
        buf_z(b, "█");
    buf_z(b, eighths[n % 8]);
    text_pad(b, columns - n / 8 - (n % 8 != 0));
}

// ---- colours

// 216 colours of the cube 16 .. 231.
static unsigned cube(uint32_t rgb)
{
    // The levels of the cube are 0, 95, 135, 175, 215 and 255: 48 and 115 are the middles of the
    // first three, and above them steps are 40.
    unsigned sum = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        unsigned v = rgb >> shift & 0xff;
        unsigned level = v < 48 ? 0 : v < 115 ? 1 : (v - 35) / 40;
        assert(level < 6);
        sum = sum * 6 + level;
    }
    return 16 + sum;
}

static void put_color(struct buf *b, enum text_colors colors, unsigned layer, uint32_t rgb)
{
    assert((colors == TEXT_TRUE || colors == TEXT_256) && (layer == 38 || layer == 48));
    if (colors == TEXT_TRUE)
        buf_printf(b, "\x1b[%u;2;%u;%u;%um", layer, rgb >> 16, rgb >> 8 & 0xff, rgb & 0xff);
    else
        buf_printf(b, "\x1b[%u;5;%um", layer, cube(rgb));
}

void text_ink(struct buf *b, enum text_colors colors, enum text_ink ink)
{
    // Dim and bold follow the theme of the terminal. The colours of a diff are those of the page,
    // which can be read on light and dark grounds.
    static const struct {
        const char *plain16;
        uint32_t rgb;
    } inks[INK_COUNT] = {
        [INK_DIM] = {"\x1b[2m", 0},          [INK_STRONG] = {"\x1b[1m", 0},
        [INK_BAR] = {"\x1b[33m", 0xdfa068},  [INK_LESS] = {"\x1b[34m", 0x4eb1ff},
        [INK_MORE] = {"\x1b[33m", 0xf68b43}, [INK_FAULT] = {"\x1b[31m", 0},
    };
    assert(ink < INK_COUNT);
    if (colors == TEXT_PLAIN) return;
    if (colors == TEXT_16 || !inks[ink].rgb)
        buf_z(b, inks[ink].plain16);
    else
        put_color(b, colors, 38, inks[ink].rgb);
}

void text_ground(struct buf *b, enum text_colors colors, unsigned hue, unsigned shade)
{
    // Ten hues of equal lightness (OKLCH 0.755 / 0.105), the standard library blue-grey, the
    // runtime grey, as the page has them.
    static const uint32_t grounds[TEXT_HUES] = {
        0xe9987f, 0xdfa068, 0xcbac5d, 0xa0bb70, 0x76c392, 0x53c5b8,
        0x53c0d9, 0xb1a3ed, 0xd298d4, 0xe993a0, 0x8ea6c0, 0x9a9ea6,
    };
    static const unsigned basic[TEXT_HUES] = {43, 47, 46, 42, 45, 47, 46, 45, 43, 42, 46, 47};
    static const int steps[] = {0, 11, -11};
    assert(hue < TEXT_HUES && shade < COUNT(steps));
    if (colors == TEXT_PLAIN) return;
    if (colors == TEXT_16) {
        // 42 to 47, in a ring: without black, and without red, which means a fault.
        buf_printf(b, "\x1b[30;%um", (basic[hue] - 41 + shade) % 6 + 42);
        return;
    }
    uint32_t rgb = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        // The cube of 256 colours is coarse: a small step would fall on the same colour.
        int v = (int)(grounds[hue] >> shift & 0xff) + steps[shade] * (colors == TEXT_256 ? 3 : 1);
        rgb |= (uint32_t)MIN(MAX(v, 0), 255) << shift;
    }
    put_color(b, colors, 38, 0x12151a);
    put_color(b, colors, 48, rgb);
}

void text_reset(struct buf *b, enum text_colors colors)
{
    if (colors != TEXT_PLAIN) buf_z(b, "\x1b[0m");
}
