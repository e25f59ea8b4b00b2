// SPDX-License-Identifier: Apache-2.0
//
// process.h - the process as a whole: its allocator, and gauges of memory, CPU and descriptors.
#pragma once

#include "base/mem.h"

// Before the first thread: few malloc arenas, and large blocks that go back to the system at once,
// so that resident memory follows what budgets count.
void process_tune_malloc(void);

// To be called when so many bytes of long-lived state were freed in small pieces. Each time their
// sum reaches PROCESS_GIVE_BACK, free pages go back to the system. malloc would keep them in the
// arena of the thread that allocated them, and threads of other arenas would take new ones: a head
// whose services come and go would grow to several times the bytes that its budget counts. Takes
// milliseconds, in which other threads may wait for memory. Any thread.
#define PROCESS_GIVE_BACK ((size_t)64 << 20)
void process_freed(size_t bytes);

// As many file descriptors as the system allows us to ask for: connections and RocksDB's files.
void process_raise_files(void);

// Registers the metrics of the process and of the rooms below; call once, at start-up.
void process_metrics_begin(void);
void process_metrics_end(void);

// Shows a budget as flametree_memory_*{budget="name"} until it is unwatched. Any thread.
void process_watch_budget(struct mem_budget *b);
void process_unwatch_budget(struct mem_budget *b);
