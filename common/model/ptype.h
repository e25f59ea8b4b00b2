// SPDX-License-Identifier: Apache-2.0
//
// ptype.h - profile type ids: <name>:<sample type>:<sample unit>:<period type>:<period unit>.
#pragma once

#include "base/arena.h"

struct ptype {
    str name;
    str sample_type;
    str sample_unit;
    str period_type;
    str period_unit;
};

// Five parts, or six, of which the last is ignored (":delta"). Parts may be empty. Borrows from
// text. Fails with invalid_argument in Pyroscope's words, which clients show.
bool ptype_parse(str text, struct ptype *t, err *e) MUST_CHECK;

// A colon in a part becomes '_': no question could name the type else.
str ptype_print(struct arena *a, const struct ptype *t);
