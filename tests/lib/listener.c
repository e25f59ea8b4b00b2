// SPDX-License-Identifier: Apache-2.0
#include "lib/listener.h"

struct server_options listener_for(const char *name, const char *listen, struct mem_budget *memory,
                                   enum rank rank)
{
    const uint64_t patience = 60 * (uint64_t)NS_PER_S;
    return (struct server_options){.name = name,
                                   .listen = listen,
                                   .memory = memory,
                                   .request_memory_max = 1 << 24,
                                   .head_max = 16384,
                                   .headers_max = 64,
                                   .streams_max = 16,
                                   .connections_max = 16,
                                   .head_timeout_ns = patience,
                                   .body_timeout_ns = patience,
                                   .idle_timeout_ns = patience,
                                   .write_timeout_ns = patience,
                                   .request_timeout_ns = patience,
                                   .rank = rank};
}
