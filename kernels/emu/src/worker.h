// A thread of the host that runs blocks: the stacks of their fibers, their shared memory, and what catches a fault.
#pragma once

#include <pthread.h>
#include <stddef.h>

#include "block.h"

namespace emu {

const size_t STACK = 64 << 10;         // bytes of a fiber, with a page below that nobody may touch
const size_t SHARED_MAX = 227 << 10;   // bytes of dynamic shared memory of a block
const size_t SHARED_SPAN = 256 << 10;
const unsigned SHARED_START = 1024;    // where a block's dynamic shared memory begins in its window
const int THREADS_MAX = 1024;

struct Race;

struct Worker {
	char* stacks = nullptr;
	char* shared_end = nullptr; // a page that nobody may touch
	Thread home{};              // where it goes on outside fibers
	char* stacks_end = nullptr;
	char* emergency = nullptr;  // the top of a stack for who has run out of one
	Block block;
	Race* race = nullptr;

	void open(); // on the thread that is to run blocks
	void run(const Launch& l, unsigned number);
	char* stack(int i) const; // its top
	bool in_guard(const void* p) const;
	bool on_stack(const void* p) const { return p >= stacks && p < stacks_end; }
	bool in_window(const void* p) const { return p >= shared_end - SHARED_SPAN && p < shared_end; } // of shared memory
};

// Ends the block: nothing of it runs again.
[[noreturn]] void abandon(Block* b);

// Catches SIGSEGV and SIGFPE on threads that run blocks; others' go to who handled them before.
void catch_faults();

} // namespace emu
