// SPDX-License-Identifier: Apache-2.0
//
// demangle.h - what compilers made of a function's name, read back: Itanium C++, Rust legacy and
// Rust v0.
//
//     _ZN4core3fmt5write17h0123456789abcdefE     core::fmt::write
//     _RNvCs1234_7mycrate4main                   mycrate::main
//     _ZNK3Foo3barEi.cold                        Foo::bar(int) const [clone .cold]
//
// Names are strangers' input, and both schemes can say in a few bytes what is too long to print, so
// all is bounded: bytes of the name, bytes of the text, depth and steps. A name that meets a bound
// stays as it is. C++ and Rust legacy are read by libiberty, from whose output callback there is a
// jump out once the text is too long. It has no such way out of a Rust v0 name that skips billions
// of lifetimes without printing one, so those are read here (demangle_v0.c).
//
// Pure and safe for threads. libiberty recurses: 1,019 pointers (`_Z1fPPP…`) take half a megabyte
// of stack, all that a worker has, and its own limit of 1,024 levels may take two.
#pragma once

#include "base/buf.h"

#define DEMANGLE_NAME_MAX    1024  // bytes; libiberty reads no longer ones within its own limits
#define DEMANGLE_TEXT_MAX    4096
#define DEMANGLE_STACK_BYTES ((size_t)4 << 20)  // that a thread needs to read strangers' names

// Does it begin as a mangled name does? Also with the underscore that Mach-O puts before.
static inline bool demangle_maybe(str name)
{
    size_t skip = name.n > 2 && name.p[0] == '_' && name.p[1] == '_' ? 1 : 0;
    return name.n > skip + 2 && name.p[skip] == '_' &&
           (name.p[skip + 1] == 'Z' || name.p[skip + 1] == 'R');
}

// Appends the text of a mangled name: valid UTF-8, without a Rust hash, suffixes of compilers
// as " [clone .cold]". False, and nothing is appended, if it is not mangled or meets a bound.
bool demangle(str name, struct buf *out);
