#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>

#include "../emu.h"

namespace emu {

const char* plant;
const char* skip_file = "";
int skip_line;

static bool number(const char* s, uint64_t* out) {
	char* end;
	*out = strtoull(s, &end, 0);
	if (end == s) return false;
	switch (*end) {
	case 'G': *out <<= 30; break;
	case 'M': *out <<= 20; break;
	case 0: return true;
	default: return false;
	}
	return end[1] == 0;
}

static bool choice(const char* s, bool* out, const char* yes, const char* no) {
	*out = !strcmp(s, yes);
	return *out || !strcmp(s, no);
}

static bool set(Settings& t, const std::string& name, const char* v) {
	uint64_t n = 0;
	if (name == "mma") return choice(v, &t.exact, "exact", "fast");
	if (name == "delay") return choice(v, &t.delay, "on", "off");
	if (name == "races") return choice(v, &t.races, "on", "off");
	if (name == "schedule") {
		t.schedule = !strcmp(v, "ahead") ? Schedule::ahead : !strcmp(v, "fixed") ? Schedule::fixed : Schedule::random;
		return t.schedule != Schedule::random || !strcmp(v, "random");
	}
	if (name == "plant") {
		plant = *v ? strdup(v) : nullptr; // kernels that run may still look at the one before
		return true;
	}
	if (name == "skip") {
		const char* colon = strrchr(v, ':');
		if (*v && !colon) return false;
		skip_file = *v ? strndup(v, colon - v) : "";
		skip_line = *v ? atoi(colon + 1) : 0;
		return true;
	}
	if (name == "capability") {
		if (strlen(v) < 3 || v[strlen(v) - 2] != '.') return false;
		t.major = atoi(v);
		t.minor = v[strlen(v) - 1] - '0';
		return true;
	}
	if (!number(v, &n)) return false;
	if (name == "seed") t.seed = n;
	else if (name == "memory") t.memory = n;
	else if (name == "threads") t.threads = (int)n;
	else if (name == "multiprocessors") t.multiprocessors = (int)n;
	else if (name == "devices") t.devices = (int)n;
	else return false;
	return true;
}

static Settings from_environment() {
	Settings t;
	const char* names[] = {"mma", "delay", "races", "schedule", "plant", "skip", "capability", "seed", "memory", "threads", "multiprocessors", "devices"};
	for (const char* name : names) {
		std::string variable = "TANDEM_EMU_";
		for (const char* c = name; *c; c++) variable += *c - 32;
		const char* v = getenv(variable.c_str());
		if (v && !set(t, name, v)) {
			fprintf(stderr, "%s=%s means nothing to the emulator\n", variable.c_str(), v);
			abort();
		}
	}
	return t;
}

Settings current_settings = from_environment();
bool set(const char* name, const char* value) { return set(current_settings, name, value); }

} // namespace emu
