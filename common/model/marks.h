// SPDX-License-Identifier: Apache-2.0
//
// marks.h - names of the frames that end a stack which was cut when it was pushed. The value of
// such a frame belongs to the frames that are missing: totals are exact, the self time of the
// frames below the mark is not.
#pragma once

#define STACK_CUT_NAME  "[truncated stack]"  // deeper than max_profile_stacktrace_depth
#define STACK_MANY_NAME "[too many stacks]"  // beyond max_stacks_per_service_hour
