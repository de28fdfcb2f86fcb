#include "report.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <atomic>
#include <map>
#include <mutex>

#include "worker.h"

namespace emu {

static std::mutex mutex;
static std::atomic<int> code;

static std::string& text() {
	static std::string s;
	return s;
}

const char* name(Meet kind) {
	const char* names[] = {"nothing", "a shuffle", "a vote", "a reduction", "syncwarp", "bar_sync", "bar_arrive", "ldmatrix", "stmatrix", "mma", "wgmma", "a wait for wgmma", "setmaxnreg"};
	return names[(int)kind];
}

static void keep(Code c, const std::string& s) {
	std::lock_guard lock(mutex);
	if (code) return;
	text() = s;
	code = (int)c;
}

void report(Code c, const Launch* l, const std::string& s) { keep(c, l ? s + "\nkernel " + l->entry->name : s); }

void fail(Code c, const void* pc, const char* format, ...) {
	char* said = nullptr;
	va_list args;
	va_start(args, format);
	if (vasprintf(&said, format, args) < 0) said = nullptr;
	va_end(args);
	Fiber* f = running();
	Block* b = f->of;
	char who[200];
	snprintf(who, sizeof who, "\nkernel %s, block (%u, %u, %u), thread %u, at ", b->launch->entry->name, b->index.x, b->index.y, b->index.z, f->thread.x);
	if (!code) keep(c, std::string(said ? said : format) + who + place(pc));
	free(said);
	abandon(b);
}

Code reported() { return (Code)code.load(); }

std::string report_text() {
	std::lock_guard lock(mutex);
	return text();
}

void reset_report() {
	std::lock_guard lock(mutex);
	code = 0;
	text().clear();
}

static bool instruction(const std::string& line) {
	for (const char* file : {"/ptx.cuh:", "/ptx_sm90.cuh:", "/kernel.cuh:", "/emu.h:"})
		if (line.find(file) != std::string::npos) return true;
	return false;
}

static std::string look(const void* pc) {
	Dl_info info;
	if (!dladdr(pc, &info) || !info.dli_fname) return "an unknown place";
	char command[4096];
	snprintf(command, sizeof command, "addr2line -f -C -i -e '%s' %#zx 2>/dev/null", info.dli_fname, (size_t)((const char*)pc - (const char*)info.dli_fbase));
	std::string best;
	if (FILE* p = popen(command, "r")) {
		char function[1024], line[1024];
		while (fgets(function, sizeof function, p) && fgets(line, sizeof line, p)) {
			function[strcspn(function, "\n")] = line[strcspn(line, "\n")] = 0;
			if (char* more = strstr(line, " (disc")) *more = 0;
			const char* l = strstr(line, "/kernels/"); // whatever lies above
			l = l ? l + 1 : line;
			best = std::string(l) + " (" + std::string(function, strcspn(function, "(")) + ")";
			if (!instruction(line)) break;
		}
		pclose(p);
	}
	if (!best.empty() && best[0] != '?') return best;
	return (info.dli_sname ? info.dli_sname : "?") + std::string(" in ") + info.dli_fname;
}

// A report names few places, some of them often.
std::string place(const void* pc) {
	static std::mutex places;
	static auto* known = new std::map<const void*, std::string>;
	std::lock_guard lock(places);
	auto i = known->find(pc);
	return i != known->end() ? i->second : (*known)[pc] = look(pc);
}

} // namespace emu
