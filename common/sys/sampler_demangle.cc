// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

extern "C" char *sampler_demangle(const char *linked);

extern "C" char *sampler_demangle(const char *linked)
{
    if (linked[0] != '_' || linked[1] != 'Z') return nullptr;
    int status = 0;
    try {
        return abi::__cxa_demangle(linked, nullptr, nullptr, &status);
    } catch (...) {  // an exception must not reach the sampler, which is C
        return nullptr;
    }
}
