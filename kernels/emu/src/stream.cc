// Streams: queues of commands that one thread carries out, any of those whose turn has come, when somebody waits for
// something, and now and then when nobody does. What no event orders comes in an order that depends on the seed.
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <algorithm>
#include <chrono>

#include "api.h"
#include "report.h"
#include "settings.h"

namespace emu {

Driver& driver() {
	static Driver* d = new Driver;
	return *d;
}

double now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void carry_out(const Command& c);

static void run_graph(const Graph& g) {
	Driver& d = driver();
	std::vector<bool> over(g.nodes.size());
	for (size_t left = g.nodes.size(); left && reported() == Code::ok; left--) {
		std::vector<int> can;
		for (size_t i = 0; i < g.nodes.size(); i++) {
			bool may = !over[i];
			for (int j : g.after[i]) may = may && over[j];
			if (may) can.push_back(i);
		}
		int i;
		{
			std::lock_guard lock(d.mutex);
			i = can[settings().delay ? d.random.below(can.size()) : 0];
			if (g.nodes[i].work) g.nodes[i].work->number = ++d.launches;
		}
		carry_out(g.nodes[i]);
		over[i] = true;
	}
}

static void carry_out(const Command& c) {
	if (reported() != Code::ok) return;
	switch (c.kind) {
	case Command::launch: run_launch(*c.work); break;
	case Command::copy: memmove(c.dst, c.held ? c.held->data() : c.src, c.bytes); break;
	case Command::fill: fill(c.dst, c.value, c.bytes); break;
	case Command::host: c.call(c.data); break;
	case Command::graph: run_graph(*c.nodes); break;
	case Command::record:
	case Command::wait: break;
	}
}

static bool may_run(Driver& d, const Command& c) {
	for (uint64_t id : c.after)
		if (d.waiting.count(id)) return false;
	return true;
}

// The stream whose first command runs next; null if there is none.
static Stream* choose(Driver& d) {
	std::vector<Stream*> can;
	auto look = [&](Stream* s) {
		if (!s->queue.empty() && may_run(d, s->queue.front())) can.push_back(s);
	};
	look(&d.null);
	for (Stream* s : d.streams) look(s);
	if (can.empty()) return nullptr;
	std::sort(can.begin(), can.end(), [](Stream* a, Stream* b) { return a->queue.front().id < b->queue.front().id; });
	return settings().delay ? can[d.random.below(can.size())] : can[0];
}

static bool wanted(Driver& d) {
	if (d.waiting.empty()) return false;
	return d.budget > 0 || !d.wanted.empty() || !settings().delay || now() - d.heard > 0.1;
}

static void* work(void*) {
	Driver& d = driver();
	std::unique_lock lock(d.mutex);
	for (;;) {
		while (!wanted(d)) {
			if (d.waiting.empty()) d.wake.wait(lock);
			else d.wake.wait_for(lock, std::chrono::milliseconds(50)); // who looks at memory only must not look forever
		}
		if (d.seed != settings().seed) d.random.seed(d.seed = settings().seed, 0);
		Stream* s = choose(d);
		if (!s) { // only what no stream can ever run is left
			d.waiting.clear();
			d.wanted.clear();
			d.done.notify_all();
			continue;
		}
		Command c = std::move(s->queue.front());
		s->queue.pop_front();
		if (c.work) c.work->number = ++d.launches;
		lock.unlock();
		carry_out(c);
		lock.lock();
		if (c.kind == Command::record && c.event->id == c.id) {
			c.event->done = true;
			c.event->when = now();
		}
		d.waiting.erase(c.id);
		d.wanted.erase(c.id);
		if (d.budget > 0) d.budget--;
		d.done.notify_all();
	}
	return nullptr;
}

static void start(Driver& d) {
	if (d.started) return;
	d.started = true;
	sigset_t all, old;
	sigfillset(&all);
	for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, s);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_t t;
	pthread_create(&t, nullptr, work, nullptr);
	pthread_detach(t);
	pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

int enqueue(std::unique_lock<std::mutex>& lock, Stream* s, Command c) {
	Driver& d = driver();
	if (s->capture) {
		Capture& k = *s->capture;
		if (k.invalid) return CAPTURE_INVALIDATED;
		k.graph->nodes.push_back(c);
		k.graph->after.push_back(s->ends);
		s->ends = {(int)k.graph->nodes.size() - 1};
		return SUCCESS;
	}
	start(d);
	c.id = ++d.ids;
	if (s == &d.null) {
		for (Stream* o : d.streams)
			if (o->blocking) c.after.push_back(o->last);
	} else if (s->blocking) {
		c.after.push_back(d.null.last);
	}
	s->last = c.id;
	d.waiting.insert(c.id);
	s->queue.push_back(std::move(c));
	d.heard = now();
	if (!settings().delay) {
		d.wake.notify_one();
	} else if (d.random.one_in(4)) {
		d.budget++;
		d.wake.notify_one();
		d.done.wait(lock, [&] { return d.budget == 0 || d.waiting.empty(); });
	}
	return SUCCESS;
}

void await(std::unique_lock<std::mutex>& lock, uint64_t id) {
	Driver& d = driver();
	d.heard = now();
	if (!d.waiting.count(id)) return;
	d.wanted.insert(id);
	d.wake.notify_one();
	d.done.wait(lock, [&] { return !d.waiting.count(id); });
}

void await_all(std::unique_lock<std::mutex>& lock) {
	Driver& d = driver();
	while (!d.waiting.empty()) await(lock, *d.waiting.rbegin());
}

Stream* stream_of(void* handle) {
	Driver& d = driver();
	if (handle == nullptr || handle == (void*)1 || handle == (void*)2) return &d.null;
	return d.streams.count((Stream*)handle) ? (Stream*)handle : nullptr;
}

bool capturing(std::unique_lock<std::mutex>&) {
	bool any = false;
	for (Stream* s : driver().streams)
		if (s->capture && s->capture->mode == 0) {
			s->capture->invalid = true;
			any = true;
		}
	return any;
}

} // namespace emu

using namespace emu;

#define BEGIN                                  \
	Driver& d = driver();                        \
	std::unique_lock lock(d.mutex);              \
	if (int bad = ready()) return bad;           \
	(void)d

#define STREAM(s, handle)            \
	Stream* s = stream_of(handle);     \
	if (!s) return INVALID_HANDLE

EMU_API cuStreamCreate(void** out, unsigned flags) {
	BEGIN;
	if (!out || flags > 1) return INVALID_VALUE;
	Stream* s = new Stream;
	s->blocking = !(flags & 1);
	d.streams.insert(s);
	*out = s;
	return SUCCESS;
}

EMU_API cuStreamCreateWithPriority(void** out, unsigned flags, int) { return cuStreamCreate(out, flags); }

EMU_API cuStreamDestroy_v2(void* handle) {
	BEGIN;
	STREAM(s, handle);
	if (s == &d.null) return INVALID_HANDLE;
	await(lock, s->last);
	d.streams.erase(s);
	delete s;
	return SUCCESS;
}

EMU_API cuStreamSynchronize(void* handle) {
	BEGIN;
	STREAM(s, handle);
	if (s->capture) {
		s->capture->invalid = true;
		return CAPTURE_UNSUPPORTED;
	}
	await(lock, s->last);
	return (int)reported();
}

EMU_API cuStreamQuery(void* handle) {
	BEGIN;
	STREAM(s, handle);
	if (s->capture) {
		s->capture->invalid = true;
		return CAPTURE_UNSUPPORTED;
	}
	d.budget++;
	d.heard = now();
	d.wake.notify_one();
	d.done.wait(lock, [&] { return d.budget == 0 || d.waiting.empty(); });
	if (reported() != Code::ok) return (int)reported();
	return d.waiting.count(s->last) ? NOT_READY : SUCCESS;
}

EMU_API cuCtxSynchronize(void) {
	BEGIN;
	if (capturing(lock)) return CAPTURE_UNSUPPORTED;
	await_all(lock);
	return (int)reported();
}

EMU_API cuLaunchHostFunc(void* handle, void (*f)(void*), void* data) {
	BEGIN;
	STREAM(s, handle);
	if (!f) return INVALID_VALUE;
	Command c{};
	c.kind = Command::host;
	c.call = f;
	c.data = data;
	return enqueue(lock, s, std::move(c));
}

EMU_API cuEventCreate(void** out, unsigned flags) {
	BEGIN;
	if (!out) return INVALID_VALUE;
	Event* e = new Event;
	e->timed = !(flags & 2);
	d.events.insert(e);
	*out = e;
	return SUCCESS;
}

#define EVENT(e, handle)                         \
	Event* e = (Event*)handle;                     \
	if (!d.events.count(e)) return INVALID_HANDLE

EMU_API cuEventDestroy_v2(void* handle) {
	BEGIN;
	EVENT(e, handle);
	await(lock, e->id);
	d.events.erase(e);
	delete e;
	return SUCCESS;
}

EMU_API cuEventRecord(void* handle, void* stream) {
	BEGIN;
	EVENT(e, handle);
	STREAM(s, stream);
	if (s->capture) {
		if (s->capture->invalid) return CAPTURE_INVALIDATED;
		e->capture = s->capture;
		e->ends = s->ends;
		return SUCCESS;
	}
	e->capture = nullptr;
	Command c{};
	c.kind = Command::record;
	c.event = e;
	e->done = false;
	e->id = d.ids + 1;
	return enqueue(lock, s, std::move(c));
}

EMU_API cuStreamWaitEvent(void* stream, void* handle, unsigned) {
	BEGIN;
	EVENT(e, handle);
	STREAM(s, stream);
	if (e->capture && e->capture->origin) {
		if (s->capture && s->capture != e->capture) return CAPTURE_MERGE;
		s->capture = e->capture;
		s->capture->streams.insert(s);
		s->ends.insert(s->ends.end(), e->ends.begin(), e->ends.end());
		return SUCCESS;
	}
	if (s->capture) {
		s->capture->invalid = true;
		return CAPTURE_ISOLATION;
	}
	Command c{};
	c.kind = Command::wait;
	c.after.push_back(e->id);
	return enqueue(lock, s, std::move(c));
}

EMU_API cuEventSynchronize(void* handle) {
	BEGIN;
	EVENT(e, handle);
	if (e->capture) return CAPTURED_EVENT;
	await(lock, e->id);
	return (int)reported();
}

EMU_API cuEventQuery(void* handle) {
	BEGIN;
	EVENT(e, handle);
	if (e->capture) return CAPTURED_EVENT;
	d.budget++;
	d.heard = now();
	d.wake.notify_one();
	d.done.wait(lock, [&] { return d.budget == 0 || d.waiting.empty(); });
	return e->id && d.waiting.count(e->id) ? NOT_READY : SUCCESS;
}

EMU_API cuEventElapsedTime(float* ms, void* from, void* to) {
	BEGIN;
	EVENT(a, from);
	EVENT(b, to);
	if (!a->timed || !b->timed || !a->id || !b->id) return INVALID_HANDLE;
	if (!a->done || !b->done) return NOT_READY;
	*ms = (float)((b->when - a->when) * 1e3);
	return SUCCESS;
}

EMU_API cuEventElapsedTime_v2(float* ms, void* from, void* to) { return cuEventElapsedTime(ms, from, to); }
