// SPDX-License-Identifier: Apache-2.0
//
// keys_int.h - the bytes of labels and postings, for keys.c and keys_write.c.
//
//     names                          LEB128
//     for each name, in byte order:
//         length, bytes              of the name
//         values                     1 or more
//         length, bytes              of each value, in byte order; every value is some key's
//         form                       1 byte
//         the column                 for each key the number of its value, from 1; 0: no such label
//
// Form 1, 2 or 4: so many bytes for each key, little-endian. Form 0: the number of runs, then for
// each its length (1 or more) and number, LEB128; neighbours differ. Keys come in order of their
// labels, so most columns are few runs; a label that few keys have is few runs as well.
//
// The columns are the postings: what a matcher means is decided once for each value, then read off
// the column, in a tenth of a millisecond for 100,000 keys. Sets for each value (Roaring) would say
// the same a second time, need more bytes where values are many, and a check of all of their
// containers.
#pragma once

#define KEYS_RUNS 0
