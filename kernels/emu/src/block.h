// A block of threads on one thread of the host: its fibers, who may run, and what they wait for.
#pragma once

#include <stdint.h>
#include <deque>
#include <memory>
#include <vector>

#include "../emu.h"
#include "memory.h"
#include "mma.h"
#include "random.h"

namespace emu {

struct Block;
struct Warp;
struct Worker;

// What the lanes of a warp meet for.
enum class Meet : uint8_t { none, shfl, vote, redux, syncwarp, bar_sync, bar_arrive, ldmatrix, stmatrix, mma, wgmma, wgmma_sync, setmaxnreg };

// A copy of 16 bytes that has been asked for and has not arrived.
struct Copy {
	char* dst;
	const char* src;
	const void* pc;
	uint64_t when; // its source was found to be an allocation
	int bytes;
};

// In which order the lanes of a warp go.
enum class Lanes : uint8_t { up, down, any };

struct alignas(64) Fiber : Thread {
	Block* of;
	Warp* warp;
	const void* at;            // the instruction it waits at
	uint8_t lane;
	bool done;
	void* waits;               // the mbarrier it waits for
	unsigned parity;           // and its phase
	std::vector<Copy> copies;  // cp.async, oldest first; those before `arrived` have arrived
	std::vector<int> groups;   // how many copies each group holds, likewise
	size_t arrived, waited;
	int open;                  // copies since the last commit
	uint32_t fences;           // fence.proxy.async so far
	char* stack;
};

// An m64nNk16 of one warp: 16 of the 64 rows.
struct Wgmma {
	uint64_t a, b; // descriptors
	uint32_t ra[32][4];
	float* c;      // lane 0's
	int n;
	bool registers, add, a_by_columns, b_by_rows;
	const void* pc;
	Fiber* by;
};

// Accumulators between the first wgmma and the wait: a lane's array holds poison meanwhile.
struct Sums {
	float* c[32];
	int n;
	std::vector<float> value; // [32][n/2]
	int uses;                 // wgmmas that have not been waited for
};

// A left operand in registers, which a lane must not write from the fence on.
struct Held {
	const unsigned* at;
	unsigned value[4];
	bool fenced;
};

struct Warp {
	Fiber* fibers;
	uint32_t runnable, arrived, exited;
	int index;
	Meet meets;
	const void* first;     // where the first lane arrived
	unsigned in[32];       // what lanes bring
	unsigned extra[32];
	const void* place[32]; // addresses
	unsigned* r[32];       // registers that lanes want filled
	Operands mma;
	unsigned shape;        // how many products
	int barrier;           // that it waits at, or -1
	std::deque<Wgmma> pending; // not waited for yet
	int happened;          // how many of them have been computed
	std::vector<int> groups;
	int open;
	std::vector<Sums> sums;
	bool fenced;           // wgmma.fence since the last wait
	std::vector<Held> held[32];
	uint64_t issued;
	int registers;         // as setmaxnreg left it, or as launched
};

struct Barrier {
	unsigned count, expected;
	uint32_t warps; // waiting
	const void* pc;
};

// Registers of a thread at launch are those that the launch bounds leave room for: the emulator has none.
inline int launch_registers(const Entry* e) {
	int blocks = e->blocks > 1 ? e->blocks : 1, most = 65536 / (e->threads * blocks);
	return (most < 255 ? most : 255) & ~7;
}

struct Launch {
	const Entry* entry;
	std::shared_ptr<void> args; // aligned as a tensor map among them wants it
	Dim grid, threads;
	unsigned shared;
	uint64_t number; // of the launch, which seeds its blocks
};

// An mbarrier, in the phase that is under way.
struct Mbarrier {
	char* at;
	unsigned count, pending, phase;
	int64_t bytes; // expected and not yet there
	Fiber* maker;
	bool fenced; // since it was made, so that copies see it
	const void* pc;
	std::vector<uint32_t> clock; // what who waits here comes after
};

// A copy of a box that has been asked for and has not happened.
struct Bulk {
	char* shared;
	const struct TensorMap* map;
	int at[5], rank;
	char* bar;
	bool store;
	const void* pc;
	Fiber* by;
	int group; // of stores: which of the thread's
};

struct BulkGroups {
	int next;
};

struct Block {
	Worker* worker;
	const Launch* launch;
	Dim index;
	unsigned number; // of the block in its grid
	int warps, threads, left;
	std::vector<Warp> warp;
	std::vector<Fiber> fiber;
	uint32_t runnable; // warps with a lane that may run
	Barrier barriers[16];
	std::vector<Mbarrier> mbarriers;
	std::deque<Bulk> bulk;
	std::vector<BulkGroups> bulk_groups; // by thread
	char* shared;
	unsigned shared_bytes;
	Random random;
	Room room; // for mma
	Recent recent;
	Lanes lanes;           // the schedule: see block.cc
	uint8_t sticky;
	int ahead, burst;
	int pending; // copies of boxes and wgmmas that have not happened
	bool failed;
	uint64_t phases, conflicts; // of ldmatrix and stmatrix: 8 rows at a time, and how many more the banks made of them

	void run();
	Turn leave();                // the running fiber does not run until somebody wakes it
	void suspend() { after(leave()); }
	Turn turn_to(Fiber* f, Fiber* g);
	int take(Warp& w);           // a lane that may run; it no longer may
	void yield();                // others may go first
	void wake(Warp& w, uint32_t lanes) {
		w.runnable |= lanes;
		runnable |= 1u << w.index;
	}
	Fiber* next();
	[[noreturn]] void leave_block(); // all have returned
	bool late(); // something that was asked for earlier happens now; false if there is nothing
	void deadlock();
};

const uint32_t ALL = 0xffffffffu;

inline Fiber* running() { return static_cast<Fiber*>(self); }

[[noreturn]] void diverged(Fiber* f, Meet kind, const void* pc);

inline int Block::take(Warp& w) {
	int l = lanes == Lanes::up ? __builtin_ctz(w.runnable) : lanes == Lanes::down ? 31 - __builtin_clz(w.runnable) : any_bit(w.runnable, random);
	w.runnable &= ~(1u << l);
	if (!w.runnable) runnable &= ~(1u << w.index);
	return l;
}

inline Turn Block::turn_to(Fiber* f, Fiber* g) {
	if (g == f) return {};
	self = g;
	return {f, g};
}

inline Turn Block::leave() {
	Fiber* f = running();
	Warp& w = *f->warp;
	if (burst-- > 0 && w.runnable) return turn_to(f, &w.fibers[take(w)]); // most often another lane of the warp
	return turn_to(f, next());
}

// Brings the lanes of a warp together. True for the last to arrive, who does what all came for and then calls go; the others
// leave.
inline bool last(Fiber* f, Meet kind, const void* pc) {
	Warp& w = *f->warp;
	f->at = pc;
	if (!w.arrived) {
		w.meets = kind;
		w.first = pc;
	}
	if (__builtin_expect(w.exited || w.meets != kind, 0)) diverged(f, kind, pc);
	w.arrived |= 1u << f->lane;
	if (w.arrived == ALL) {
		w.arrived = 0;
		return true;
	}
	return false;
}

// The same within an instruction: the others have come back when this returns.
inline bool meet(Fiber* f, Meet kind, const void* pc) {
	if (last(f, kind, pc)) return true;
	f->of->suspend();
	return false;
}

// All lanes of the warp run again.
inline void go(Fiber* f) { f->of->wake(*f->warp, ~(1u << f->lane)); }

// The call of an instruction in the .cu file.
#define CALLER ((const void*)((const char*)__builtin_return_address(0) - 1))

// A copy of a box, or a wgmma, that was asked for earlier happens now. False if there is none.
bool bulk_step(Block* b);
bool wgmma_step(Block* b);

// The warps of each warpgroup have come to a wgmma equally often.
void check_warpgroups(Block* b);

} // namespace emu
