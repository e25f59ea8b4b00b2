// SPDX-License-Identifier: Apache-2.0
//
// demangle.h - turns mangled names of functions back into readable ones: Itanium C++, Rust legacy
// and Rust v0.
//
//     _ZN4core3fmt5write17h0123456789abcdefE     core::fmt::write
//     _RNvCs1234_7mycrate4main                   mycrate::main
//     _ZNK3Foo3barEi.cold                        Foo::bar(int) const [clone .cold]
//
// Names come from clients, and in these schemes a few bytes can stand for a text that is too long
// to print. So everything is bounded: bytes of the name, bytes of the text, depth and steps. A name
// that meets a bound stays as it is. libiberty reads C++ and Rust legacy; its output callback jumps
// out once the text is too long. A Rust v0 name may skip billions of lifetimes without any output,
// where no callback could jump out, so these are read here (demangle_v0.c).
//
// Pure and safe for threads. libiberty recurses: 1,019 pointers (`_Z1fPPP…`) take half a megabyte
// of stack, all that a worker has, and its own limit of 1,024 levels may take two.
#pragma once

#include "base/buf.h"

#define DEMANGLE_NAME_MAX    1024  // bytes; libiberty's own limits refuse longer names anyway
#define DEMANGLE_TEXT_MAX    4096
#define DEMANGLE_STACK_BYTES ((size_t)4 << 20)  // stack of a thread that demangles clients' names

// Whether it begins like a mangled name, or like one with the underscore that Mach-O puts before
// it.
static inline bool demangle_maybe(str name)
{
    size_t skip = name.n > 2 && name.p[0] == '_' && name.p[1] == '_' ? 1 : 0;
    return name.n > skip + 2 && name.p[skip] == '_' &&
           (name.p[skip + 1] == 'Z' || name.p[skip + 1] == 'R');
}

// Appends the text of a mangled name: valid UTF-8, without a Rust hash, and with a compiler's
// suffix as " [clone .cold]". False, with nothing appended, if it is not mangled or meets a bound.
bool demangle(str name, struct buf *out);
