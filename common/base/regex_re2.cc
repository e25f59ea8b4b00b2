// SPDX-License-Identifier: Apache-2.0
//
// regex_re2.cc - RE2 behind functions of C. No exception leaves this file.
extern "C" {
#include "base/regex_int.h"
}

#include <memory>
#include <re2/re2.h>
#include <string>
#include <vector>

struct program {
    std::unique_ptr<re2::RE2> re;
};

static re2::StringPiece piece(str s)
{
    return re2::StringPiece(s.n ? s.p : "", s.n);
}

static std::unique_ptr<re2::RE2> compile(str pattern, size_t size)
{
    re2::RE2::Options options(re2::RE2::Quiet);
    options.set_dot_nl(true);
    options.set_max_mem(static_cast<int64_t>(size));
    return std::make_unique<re2::RE2>(piece(pattern), options);
}

extern "C" struct program *program_new(str pattern, size_t size, bool *too_large, err *e)
{
    *too_large = false;
    try {
        auto re = compile(pattern, size);
        if (re->ok()) return new program{std::move(re)};
        *too_large = re->error_code() == re2::RE2::ErrorPatternTooLarge;
        err_set(e, ERR_INVALID_ARGUMENT, "error parsing regexp: %s", re->error().c_str());
    } catch (...) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for a regular expression");
    }
    return nullptr;
}

extern "C" void program_free(struct program *p)
{
    delete p;
}

static bool match_groups(const struct program *p, str s, str *groups, size_t n)
{
    std::vector<re2::StringPiece> found(n + 1);
    if (!p->re->Match(piece(s), 0, s.n, re2::RE2::ANCHOR_BOTH, found.data(), (int)found.size())) {
        return false;
    }
    for (size_t i = 0; i < n; i++)
        groups[i] = {found[i + 1].data(), found[i + 1].size()};
    return true;
}

extern "C" enum regex_answer program_match(const struct program *p, str s, str *groups, size_t n)
{
    try {
        bool yes = n ? match_groups(p, s, groups, n) : re2::RE2::FullMatch(piece(s), *p->re);
        return yes ? REGEX_YES : REGEX_NO;
    } catch (...) {
        return REGEX_NO_MEMORY;
    }
}

extern "C" size_t program_size(const struct program *p)
{
    return (size_t)p->re->ProgramSize();
}

extern "C" int program_group_count(const struct program *p)
{
    return p->re->NumberOfCapturingGroups();
}

extern "C" int program_group_number(const struct program *p, str name)
{
    try {
        const auto &named = p->re->NamedCapturingGroups();
        auto at = named.find(std::string(name.n ? name.p : "", name.n));
        return at == named.end() ? -1 : at->second;
    } catch (...) {
        return -1;
    }
}
