// SPDX-License-Identifier: Apache-2.0
#include "model/frame_name.h"

#include "base/utf8.h"
#include "model/marks.h"

// The last part of a path: behind the last slash, of a path without one behind the last backslash.
static str last_part(str path)
{
    for (const char *separator = "/\\"; *separator; separator++) {
        for (size_t i = path.n; i-- > 0;) {
            if (path.p[i] == *separator) return str_slice(path, i + 1, path.n);
        }
    }
    return path;
}

static size_t frame_name_put(char *room, size_t at, str s)
{
    assert(at + s.n <= FRAME_NAME_MAX);
    if (s.n) memcpy(room + at, s.p, s.n);
    return at + s.n;
}

static size_t put_hex(char *room, size_t at, uint64_t v)
{
    char digits[16];
    size_t n = sizeof digits;
    do {
        digits[--n] = "0123456789abcdef"[v & 15];
        v >>= 4;
    } while (v);
    return frame_name_put(room, frame_name_put(room, at, S("0x")),
                          str_make(digits + n, sizeof digits - n));
}

str frame_name_made(str mapping_file, uint64_t address, char room[static FRAME_NAME_MAX])
{
    str file = utf8_head(last_part(mapping_file), FRAME_NAME_FILE_MAX);
    size_t n = 0;
    if (address) {
        if (file.n) n = frame_name_put(room, frame_name_put(room, 0, file), S("!"));
        return str_make(room, put_hex(room, n, address));
    }
    if (file.n == 0) return S(STACK_UNKNOWN_NAME);
    if (file.p[0] == '[') return str_make(room, frame_name_put(room, 0, file));
    n = frame_name_put(room, frame_name_put(room, frame_name_put(room, 0, S("[")), file), S("]"));
    return str_make(room, n);
}

str frame_name(const struct symbol_table *t, uint32_t frame, char room[static FRAME_NAME_MAX])
{
    assert(frame < t->frame_count);
    uint32_t row = frame_name_row(t, frame);
    if (row) return t->strings[row];
    const struct symbol_frame *f = &t->frames[frame];
    return frame_name_made(t->strings[t->mappings[f->mapping].filename], f->address, room);
}

bool frame_name_is(const struct symbol_table *t, uint32_t frame, str name)
{
    char room[FRAME_NAME_MAX];
    return str_eq(frame_name(t, frame, room), name);
}
