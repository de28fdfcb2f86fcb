#include "stats.h"

#include <stdio.h>
#include <map>
#include <mutex>
#include <string>

namespace emu {

struct Stats : Traffic {
	uint64_t launches, blocks, phases, conflicts;
};

static std::mutex mutex;
static const Entry* running_entry;

static std::map<std::string, Stats>& all() {
	static auto* m = new std::map<std::string, Stats>;
	return *m;
}

Traffic& traffic() {
	static thread_local Traffic t;
	return t;
}

void begin_stats(const Launch& l) {
	std::lock_guard lock(mutex);
	running_entry = l.entry;
	all()[l.entry->name].launches++;
}

void count_block(const Block& b) {
	std::lock_guard lock(mutex);
	Stats& s = all()[running_entry->name];
	Traffic& t = traffic();
	s.blocks++;
	s.phases += b.phases;
	s.conflicts += b.conflicts;
	s.read += t.read;
	s.written += t.written;
	s.read_least += t.read_least;
	s.written_least += t.written_least;
	t = {};
}

void end_stats(const Launch&) {}

} // namespace emu

// What kernels did since the last call, one a line: name launches blocks phases conflicts read read_least written
// written_least. A phase is 8 rows of ldmatrix or stmatrix, a conflict one more access to the same bank.
extern "C" EMU_EXPORT const char* emu_stats(void) {
	using namespace emu;
	static thread_local std::string text;
	std::lock_guard lock(mutex);
	text.clear();
	for (auto& [name, s] : all()) {
		char line[512];
		snprintf(line, sizeof line, "%s %lu %lu %lu %lu %lu %lu %lu %lu\n", name.c_str(), s.launches, s.blocks, s.phases, s.conflicts, s.read, s.read_least, s.written,
		         s.written_least);
		text += line;
	}
	all().clear();
	return text.c_str();
}
