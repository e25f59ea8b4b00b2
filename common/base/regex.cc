// SPDX-License-Identifier: Apache-2.0
extern "C" {
#include "base/regex.h"
}

#include <memory>
#include <new>
#include <re2/re2.h>
#include <string>
#include <vector>

struct regex {
    std::unique_ptr<re2::RE2> re;
};

// Memory of one compiled program: enough for long alternations of names, small enough that hostile
// repetitions (x{1000}{1000}) are refused instead of compiled.
static const int64_t max_program_bytes = 8 << 20;

extern "C" struct regex *regex_new(str pattern, err *e)
{
    re2::RE2::Options options(re2::RE2::Quiet);
    options.set_dot_nl(true);
    options.set_max_mem(max_program_bytes);
    std::unique_ptr<re2::RE2> re(new (
        std::nothrow) re2::RE2(re2::StringPiece(pattern.n ? pattern.p : "", pattern.n), options));
    if (!re) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for a regular expression");
        return nullptr;
    }
    if (!re->ok()) {
        err_set(e, ERR_INVALID_ARGUMENT, "error parsing regexp: %s", re->error().c_str());
        return nullptr;
    }
    auto *r = new (std::nothrow) regex{std::move(re)};
    if (!r) err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for a regular expression");
    return r;
}

extern "C" void regex_free(struct regex *r)
{
    delete r;
}

extern "C" bool regex_match(const struct regex *r, str s)
{
    return re2::RE2::FullMatch(re2::StringPiece(s.n ? s.p : "", s.n), *r->re);
}

extern "C" bool regex_groups(const struct regex *r, str s, str *groups, size_t n)
{
    std::vector<re2::StringPiece> found(n + 1);
    if (!r->re->Match(re2::StringPiece(s.n ? s.p : "", s.n), 0, s.n, re2::RE2::ANCHOR_BOTH,
                      found.data(), (int)found.size())) {
        return false;
    }
    for (size_t i = 0; i < n; i++)
        groups[i] = {found[i + 1].data(), found[i + 1].size()};
    return true;
}

extern "C" int regex_group_count(const struct regex *r)
{
    return r->re->NumberOfCapturingGroups();
}

extern "C" int regex_group_number(const struct regex *r, str name)
{
    const auto &named = r->re->NamedCapturingGroups();
    auto at = named.find(std::string(name.n ? name.p : "", name.n));
    return at == named.end() ? -1 : at->second;
}
