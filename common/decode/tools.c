// SPDX-License-Identifier: Apache-2.0
#include "decode/tools.h"

#include "decode/plain.h"

#define SNIFF_BYTES ((size_t)64 << 10)
#define KEY_SPACES  16  // between a key and its colon

const struct tool_row tool_rows[TOOL_COUNT] = {
#define TOOL(id, name, decoder) [TOOL_##id] = {S_INIT(name), decoder},
#include "decode/tools.def"
};

enum tool tool_named(str name)
{
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        if (str_eq(tool_rows[i].name, name)) return (enum tool)i;
    }
    return TOOL_COUNT;
}

bool tool_decode(enum tool tool, struct arena *a, str bytes, const struct decode_options *o,
                 struct decoded *out, err *e)
{
    assert(tool < TOOL_COUNT);
    struct losses bad = {0};
    str text = {0};
    if (!decode_plain(a, bytes, &text, e)) return false;
    str head = str_trim(str_slice(text, 0, SNIFF_BYTES));
    bool json = str_starts(head, S("{")) || str_starts(head, S("["));
    if (json && !plain_json(a, text, &bad, &text, e)) return false;
    if (!tool_rows[tool].decode(a, text, o, out, e)) return false;
    losses_add(&out->profiles[0].losses, LOSS_BAD_TEXT, bad.count[LOSS_BAD_TEXT]);
    return true;
}

bool tool_is_perf_data(str bytes)
{
    // The second is of the other byte order.
    return str_starts(bytes, S("PERFILE2")) || str_starts(bytes, S("2ELIFREP"));
}

bool tool_has_key(str json, str quoted)
{
    str rest = json;
    for (size_t at = 0; (at = str_find_part(rest, quoted)) < rest.n;) {
        rest = str_slice(rest, at + quoted.n, rest.n);
        if (str_starts(str_trim(str_slice(rest, 0, KEY_SPACES)), S(":"))) return true;
    }
    return false;
}

static enum tool tool_of_json(str bytes)
{
    bool graph =
        tool_has_key(bytes, S("\"flamebearer\"")) || tool_has_key(bytes, S("\"flamegraph\""));
    if (graph && tool_has_key(bytes, S("\"levels\""))) return TOOL_FLAMEBEARER;
    if (tool_has_key(bytes, S("\"stackTable\"")) && tool_has_key(bytes, S("\"frameTable\"")))
        return TOOL_FIREFOX;
    // Writers other than stackprof leave the sums of frames out.
    bool counted = tool_has_key(bytes, S("\"total_samples\"")) ||
                   (tool_has_key(bytes, S("\"mode\"")) && tool_has_key(bytes, S("\"interval\"")) &&
                    tool_has_key(bytes, S("\"samples\"")));
    if (counted && tool_has_key(bytes, S("\"frames\""))) return TOOL_STACKPROF;
    return TOOL_COUNT;
}

enum tool tool_of(str bytes)
{
    str head = str_trim(str_slice(bytes, 0, SNIFF_BYTES));
    if (str_starts(head, S("{"))) return tool_of_json(bytes);
    // A dump of Ruby's, of a table; decode_stackprof says what to do instead.
    if (str_starts(bytes, S("\x04\x08{"))) return TOOL_STACKPROF;
    str first = str_slice(head, 0, str_find(head, '\n'));
    bool tree = str_starts(head, S("Running Time\t")) || str_starts(head, S("Weight\t")) ||
                str_starts(head, S("Bytes Used\t"));
    if ((tree && str_contains(first, S("\tSymbol Name"))) ||
        str_starts(head, S("Analysis of sampling ")) ||
        (str_contains(head, S("\nCall graph:")) && str_contains(head, S("Analysis of sampling "))))
        return TOOL_SAMPLE;
    bool named = str_starts(head, S("fn=")) || str_contains(head, S("\nfn="));
    if (str_starts(head, S("# callgrind format")) ||
        (named && (str_starts(head, S("events:")) || str_contains(head, S("\nevents:")))))
        return TOOL_CALLGRIND;
    return TOOL_COUNT;
}
