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
//         the column                 for each key the number of its value, from 1; 0: it has none
//
// Form 1, 2 or 4: that many bytes for each key, little-endian. Form 0: the number of runs, then for
// each its length (1 or more) and number, LEB128; neighbours differ. Keys come in order of their
// labels, so most columns are few runs; a label that few keys have is few runs as well.
//
// The columns are the postings: a matcher is tested once for each value, and the keys are then read
// off the column (100,000 keys of 10,000 pods: 0.14 ms for =, 0.9 ms for a regex). Roaring sets for
// each value would say the same a second time. Measured on that service's keys, compressed with
// zstd: 76 kB of columns against 98 kB of sets at 10,000 keys, 0.86 MB against 0.85 MB at 100,000;
// and each container of a set would have to be checked, which the library does not do.
//
// Values are not front-coded: behind zstd that saves nothing up to 1,000 keys and 6 % of an index
// of 100,000, and strings could not borrow from the bytes.
#pragma once

#define KEYS_RUNS 0
