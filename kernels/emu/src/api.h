// The types of the CUDA driver API as far as the emulator has them, and what its functions share.
#pragma once

#include <stdint.h>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "block.h"

namespace emu {

enum Result {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	NOT_READY = 600,
	LAUNCH_OUT_OF_RESOURCES = 701,
	HOST_MEMORY_ALREADY_REGISTERED = 712,
	HOST_MEMORY_NOT_REGISTERED = 713,
	NOT_PERMITTED = 800,
	NOT_SUPPORTED = 801,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_MERGE = 902,
	CAPTURE_UNMATCHED = 903,
	CAPTURE_UNJOINED = 904,
	CAPTURE_ISOLATION = 905,
	CAPTURED_EVENT = 907,
};

struct Function {
	const Entry* entry;
	int dynamic = 48 << 10; // most bytes of dynamic shared memory, until more is asked for
};

struct Module {
	std::map<std::string, Function> functions;
};

struct Context {
	int device = 0;
	int uses = 0;
};

struct Event;
struct Graph;

// One thing that a stream does.
struct Command {
	enum Kind { launch, copy, fill, host, record, wait, graph } kind;
	uint64_t id = 0;              // ascending, of the process
	std::vector<uint64_t> after;  // commands of other streams that come before
	std::shared_ptr<Launch> work;
	char* dst = nullptr;
	const char* src = nullptr;
	size_t bytes = 0;
	int value = 0;
	std::shared_ptr<std::vector<char>> held; // what a copy from memory that is not pinned took when it was asked for
	void (*call)(void*) = nullptr;
	void* data = nullptr;
	Event* event = nullptr;
	std::shared_ptr<Graph> nodes;
};

// A graph, as captured and as it can be run.
struct Graph {
	std::vector<Command> nodes;
	std::vector<std::vector<int>> after; // nodes before each
};

struct Capture {
	std::shared_ptr<Graph> graph;
	struct Stream* origin;
	int mode;
	bool invalid = false;
	std::set<struct Stream*> streams;
};

struct Stream {
	bool blocking = true; // waits for the null stream, and that for it
	std::deque<Command> queue;
	uint64_t last = 0; // command
	std::shared_ptr<Capture> capture;
	std::vector<int> ends; // nodes that the next one comes after
};

struct Event {
	bool timed = true;
	uint64_t id = 0; // of the command that records it last; 0: none
	bool done = false;
	double when = 0;
	std::shared_ptr<Capture> capture; // in which it was recorded last
	std::vector<int> ends;
};

// What is the process's: guarded by its mutex, which is not held while a command runs.
struct Driver {
	std::mutex mutex;
	std::condition_variable wake, done;
	bool started = false, initialized = false;
	std::map<int, Context> contexts; // by device
	std::set<Module*> modules;
	std::set<Stream*> streams;
	std::set<Event*> events;
	std::set<Graph*> plain;
	std::map<void*, std::shared_ptr<Graph>> graphs, execs;
	Stream null;
	uint64_t ids = 0, launches = 0;
	std::set<uint64_t> waiting;  // commands that have not ended
	std::set<uint64_t> wanted;   // commands that somebody waits for
	int budget = 0;              // commands to run though nobody waits
	double heard = 0;            // when somebody last asked for something
	Random random;
	uint64_t seed = 0;           // that random was made of
	std::string stats;           // of the launches since they were last asked for
};

Driver& driver();

// Begins a call that needs a context: the first error that stays, or none.
int ready();

// Hands a command to a stream: at its end, or into what it captures.
int enqueue(std::unique_lock<std::mutex>& lock, Stream* s, Command c);

// Waits until a command has ended; 0 is over already.
void await(std::unique_lock<std::mutex>& lock, uint64_t id);
void await_all(std::unique_lock<std::mutex>& lock);

// The stream of a handle; null if there is none.
Stream* stream_of(void* handle);

// A call that may not come while something is captured: then the capture is void.
bool capturing(std::unique_lock<std::mutex>& lock);

void run_launch(const Launch& l);
double now(); // seconds

} // namespace emu

#define EMU_API extern "C" EMU_EXPORT int
