// SPDX-License-Identifier: Apache-2.0
//
// marks.h - names of frames that stand for others. Those of stacks that were cut end the stack; the
// value of such a frame belongs to the missing frames: totals are exact, the self values of the
// missing frames are not known.
#pragma once

#define STACK_CUT_NAME     "[truncated stack]"   // deeper than max_profile_stacktrace_depth
#define STACK_MANY_NAME    "[too many stacks]"   // beyond max_stacks_per_service_hour
#define STACK_SURPLUS_NAME "[too many samples]"  // beyond max_profile_stacktrace_samples

// A frame or a whole stack that nothing is known of: neither function nor address.
#define STACK_UNKNOWN_NAME "[unknown]"
