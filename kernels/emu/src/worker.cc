#include "worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "report.h"

namespace emu {

const size_t PAGE = 4096;
const size_t STRIDE = STACK + PAGE;
const size_t EMERGENCY = 256 << 10;

static char* map(size_t n) {
	void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		perror("emulator: mmap");
		abort();
	}
	return (char*)p;
}

static void guard(char* page, size_t n = PAGE) {
	if (mprotect(page, n, PROT_NONE)) {
		perror("emulator: mprotect");
		abort();
	}
}

void Worker::open() {
	stacks = map(THREADS_MAX * STRIDE + STACK);
	stacks_end = stacks + THREADS_MAX * STRIDE;
	guard(stacks_end, STACK); // so that what lies less than STACK above a thread's stack pointer is a stack
	for (int i = 0; i < THREADS_MAX; i++) guard(stacks + i * STRIDE);
	char* span = map(SHARED_SPAN + 2 * PAGE);
	guard(span);
	shared_end = span + PAGE + SHARED_SPAN;
	guard(shared_end);
	emergency = map(EMERGENCY) + EMERGENCY;
	stack_t alternate{};
	alternate.ss_sp = map(EMERGENCY);
	alternate.ss_size = EMERGENCY;
	sigaltstack(&alternate, nullptr);
}

// The tops lie on different cache lines modulo a page.
char* Worker::stack(int i) const { return stacks + (i + 1) * STRIDE - (i * 7 % 61) * 64; }

bool Worker::in_guard(const void* p) const {
	const char* c = (const char*)p;
	return c >= stacks && c < stacks + THREADS_MAX * STRIDE && (c - stacks) % STRIDE < PAGE;
}

struct Fault {
	int signal;
	bool general; // no address: misaligned, or not canonical
	const void* address;
	const void* pc;
	bool write;
};

static thread_local Fault fault;

// Where a fiber goes on after a fault, on a stack of its own.
static void land() {
	Fault t = fault;
	Fiber* f = running();
	Block* b = f->of;
	if (b->worker->in_guard(t.address)) fail(Code::launch_failed, t.pc, "a thread's stack of %zu bytes has no more room", STACK);
	if (t.signal == SIGFPE) fail(Code::launch_failed, t.pc, "division by zero");
	if (t.signal == SIGILL) fail(Code::illegal_instruction, t.pc, "trap");
	if (t.general) fail(Code::misaligned_address, t.pc, "misaligned: a vector at an address that is no multiple of its size, or an address past all memory");
	const char* what = t.write ? "write" : "read";
	long at = (const char*)t.address - b->shared;
	if (at >= -(long)(SHARED_SPAN + PAGE) && at < (long)(SHARED_SPAN + PAGE))
		fail(Code::illegal_address, t.pc, "out of bounds: a %s at byte %ld of shared memory of %u bytes", what, at, b->shared_bytes);
	fail(Code::illegal_address, t.pc, "out of bounds: a %s at %p, %s", what, t.address, where(t.address).c_str());
}

const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction before[65];

static void handle(int signal, siginfo_t* info, void* context) {
	if (self) {
		ucontext_t* c = (ucontext_t*)context;
		greg_t* r = c->uc_mcontext.gregs;
		fault = {signal, signal == SIGSEGV && info->si_code == SI_KERNEL, info->si_addr, (const void*)r[REG_RIP], (r[REG_ERR] & 2) != 0};
		r[REG_RIP] = (greg_t)land;
		r[REG_RSP] = (greg_t)(running()->of->worker->emergency - 8);
		return;
	}
	struct sigaction& old = before[signal];
	if (old.sa_flags & SA_SIGINFO) {
		old.sa_sigaction(signal, info, context);
	} else if (old.sa_handler == SIG_DFL) {
		::signal(signal, SIG_DFL);
	} else if (old.sa_handler != SIG_IGN) {
		old.sa_handler(signal);
	}
}

void catch_faults() {
	struct sigaction a {};
	a.sa_sigaction = handle;
	a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	sigfillset(&a.sa_mask);
	for (int s : SIGNALS) sigdelset(&a.sa_mask, s);
	for (int s : SIGNALS) sigaction(s, &a, &before[s]);
}

} // namespace emu
