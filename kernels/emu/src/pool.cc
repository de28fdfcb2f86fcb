// The threads that run blocks, and how a launch is shared out among them.
#include <pthread.h>
#include <signal.h>
#include <atomic>
#include <numeric>
#include <thread>

#include "api.h"
#include "report.h"
#include "settings.h"
#include "stats.h"
#include "worker.h"

namespace emu {

struct Pool {
	std::mutex mutex;
	std::condition_variable wake, done;
	const Launch* launch = nullptr;
	uint64_t turn = 0;
	int busy = 0, threads = 0;
	std::atomic<uint64_t> next;
	uint64_t blocks, step, first; // block i of the launch is number (first + i·step) mod blocks
};

static Pool& pool() {
	static Pool* p = new Pool;
	return *p;
}

static void share(Pool& p, Worker& w) {
	for (;;) {
		uint64_t i = p.next++;
		if (i >= p.blocks || reported() != Code::ok) return;
		w.run(*p.launch, (unsigned)((p.first + i % p.blocks * p.step) % p.blocks));
	}
}

static void* serve(void*) {
	Pool& p = pool();
	Worker* w = new Worker;
	w->open();
	std::unique_lock lock(p.mutex);
	for (uint64_t seen = 0;;) {
		p.wake.wait(lock, [&] { return p.turn != seen; });
		seen = p.turn;
		if (!p.launch) continue;
		lock.unlock();
		share(p, *w);
		lock.lock();
		if (--p.busy == 0) p.done.notify_one();
	}
	return nullptr;
}

static void grow(Pool& p, int threads) {
	for (; p.threads < threads; p.threads++) {
		pthread_t t;
		pthread_create(&t, nullptr, serve, nullptr);
		pthread_detach(t);
	}
}

// Runs on the thread that carries out commands, which takes blocks too.
void run_launch(const Launch& l) {
	static Worker* own = [] {
		Worker* w = new Worker;
		w->open();
		catch_faults();
		return w;
	}();
	Pool& p = pool();
	Random r;
	r.seed(settings().seed, l.number);
	p.launch = &l;
	p.blocks = (uint64_t)l.grid.x * l.grid.y * l.grid.z;
	p.next = 0;
	p.step = 1;
	p.first = 0;
	if (settings().schedule != Schedule::fixed && p.blocks > 2) {
		p.first = r.next() % p.blocks;
		do p.step = 1 + r.next() % (p.blocks - 1);
		while (std::gcd(p.step, p.blocks) != 1);
	}
	int threads = settings().threads ? settings().threads : (int)std::thread::hardware_concurrency();
	if (threads < 1) threads = 1;
	begin_stats(l);
	if (threads == 1 || p.blocks == 1) {
		share(p, *own);
	} else {
		std::unique_lock lock(p.mutex);
		grow(p, threads - 1);
		p.busy = p.threads;
		p.turn++;
		p.wake.notify_all();
		lock.unlock();
		share(p, *own);
		lock.lock();
		p.done.wait(lock, [&] { return p.busy == 0; });
		p.launch = nullptr;
	}
	std::string which;
	if (reported() == Code::ok && !tails_intact(&which)) report(Code::illegal_address, &l, "out of bounds: a write " + which + ", seen when the kernel had ended");
	end_stats(l);
}

} // namespace emu
