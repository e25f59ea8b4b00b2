// SPDX-License-Identifier: Apache-2.0
//
// marks.h - names of the frames that end a stack which was cut. The value of such a frame belongs
// to the missing frames: totals are exact, the self values of the missing frames are not known.
#pragma once

#define STACK_CUT_NAME  "[truncated stack]"  // deeper than max_profile_stacktrace_depth
#define STACK_MANY_NAME "[too many stacks]"  // beyond max_stacks_per_service_hour
