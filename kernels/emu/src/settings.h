// What a test may choose: by the environment when the library is loaded, and by emu_set later.
#pragma once

#include <stdint.h>

namespace emu {

enum class Schedule { random, ahead, fixed };

struct Settings {
	uint64_t seed = 1;
	Schedule schedule = Schedule::random;
	bool exact = true;      // MMA as the hardware does it; else plain fused multiply-adds
	bool delay = true;      // work on streams waits for a sync
	bool races = true;      // look for races (in the library that is built for it)
	int major = 9, minor = 0;
	int multiprocessors = 132;
	uint64_t memory = 8ull << 30;
	int threads = 0;        // of the host; 0 is one for each core
	int devices = 1;
};

extern Settings current_settings; // begins as the environment has it
inline const Settings& settings() { return current_settings; }

// "seed", "mma", "schedule", ...: false if there is no such setting, or no such value.
bool set(const char* name, const char* value);

} // namespace emu
