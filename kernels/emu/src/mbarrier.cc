// mbarriers, and the copies of whole boxes (TMA) that announce themselves there.
#include <string.h>

#include "race.h"
#include "report.h"
#include "tensormap.h"
#include "worker.h"

namespace emu {

const uint64_t MBARRIER = 0x7265697272616263; // what memory holds where a barrier has been made

static Mbarrier& the(Fiber* f, void* bar, const void* pc) {
	Block* b = f->of;
	f->at = pc;
	check_shared(f, bar, 8, 8, false, pc);
	for (Mbarrier& m : b->mbarriers)
		if (m.at == bar) {
			uint64_t there;
			memcpy(&there, bar, 8);
			if (there != MBARRIER + (uint64_t)(&m - b->mbarriers.data())) fail(Code::launch_failed, pc, "mbarrier at byte %ld: overwritten", (char*)bar - b->shared);
			return m;
		}
	fail(Code::launch_failed, pc, "mbarrier at byte %ld: not initialised", (char*)bar - b->shared);
}

// The barrier, whose making came before.
static Mbarrier& made(Fiber* f, void* bar, const void* pc) {
	Mbarrier& m = the(f, bar, pc);
	note_shared(f, bar, 8, false, pc);
	return m;
}

void mbarrier_init(void* bar, unsigned count) {
	const void* pc = CALLER;
	Fiber* f = running();
	Block* b = f->of;
	check_shared(f, bar, 8, 8, true, pc);
	if (count == 0 || count >= 1u << 20) fail(Code::illegal_instruction, pc, "mbarrier of %u arrivals", count);
	for (Mbarrier& m : b->mbarriers)
		if (m.at == bar) fail(Code::launch_failed, pc, "mbarrier at byte %ld: initialised twice", (char*)bar - b->shared);
	uint64_t there = MBARRIER + b->mbarriers.size();
	memcpy(bar, &there, 8);
	note_shared(f, bar, 8, true, pc);
	b->mbarriers.push_back({(char*)bar, count, count, 0, 0, f, false, pc, {}});
}

void fence_mbarrier_init() {
	Fiber* f = running();
	for (Mbarrier& m : f->of->mbarriers) m.fenced |= m.maker == f;
}

static void settle(Block* b, Mbarrier& m) {
	if (m.pending || m.bytes) return;
	m.phase++;
	m.pending = m.count;
	for (int i = 0; i < b->threads; i++) {
		Fiber& f = b->fiber[i];
		if (f.waits == m.at && (m.phase & 1) != f.parity) {
			f.waits = nullptr;
			b->wake(*f.warp, 1u << f.lane);
		}
	}
}

static void arrive(Fiber* f, Mbarrier& m, const void* pc) {
	if (!m.pending) fail(Code::launch_failed, pc, "mbarrier at byte %ld: more than %u arrivals in a phase", m.at - f->of->shared, m.count);
	order_release(f, m);
	m.pending--;
	settle(f->of, m);
}

void mbarrier_arrive(void* bar) {
	const void* pc = CALLER;
	Fiber* f = running();
	arrive(f, made(f, bar, pc), pc);
}

void mbarrier_expect_tx(void* bar, unsigned bytes) {
	const void* pc = CALLER;
	Fiber* f = running();
	Mbarrier& m = made(f, bar, pc);
	m.bytes += bytes;
	if (m.bytes >= 1 << 20) fail(Code::launch_failed, pc, "mbarrier at byte %ld: %ld bytes are expected", m.at - f->of->shared, (long)m.bytes);
	arrive(f, m, pc);
}

void mbarrier_wait(void* bar, unsigned parity) {
	const void* pc = CALLER;
	Fiber* f = running();
	Mbarrier& m = made(f, bar, pc);
	size_t i = &m - f->of->mbarriers.data();
	if (parity > 1) fail(Code::illegal_instruction, pc, "mbarrier: parity %u", parity);
	if ((m.phase & 1) == parity) {
		f->waits = bar;
		f->parity = parity;
		f->of->suspend();
	}
	order_acquire(f, f->of->mbarriers[i]);
}

// ---- Boxes

static void check_box(Fiber* f, const void* shared, const TensorMap* map, int rank, bool write, const void* pc) {
	if ((uintptr_t)map % 64) fail(Code::misaligned_address, pc, "misaligned: the tensor map at %p is no multiple of 64", map);
	if (map->magic != TENSOR_MAP) fail(Code::illegal_instruction, pc, "no tensor map at %p", map);
	if (map->rank != rank) fail(Code::illegal_instruction, pc, "a tensor map of %d dimensions is used as one of %d", map->rank, rank);
	size_t n = map->bytes;
	for (int d = 0; d < rank; d++) n *= map->box[d];
	check_shared(f, shared, n, 128, write, pc);
}

static size_t box_bytes(const TensorMap* m) {
	size_t n = m->bytes;
	for (int d = 0; d < m->rank; d++) n *= m->box[d];
	return n;
}

static Bulk& ask(Fiber* f, const void* shared, const void* map, const int* at, int rank, const void* pc) {
	Bulk k{};
	k.shared = (char*)shared;
	k.map = (const TensorMap*)map;
	k.rank = rank;
	for (int d = 0; d < rank; d++) k.at[d] = at[d];
	k.pc = pc;
	k.by = f;
	f->of->bulk.push_back(k);
	f->of->pending++;
	return f->of->bulk.back();
}

void tma_load(void* dst, const void* map, void* bar, const int* at, int rank) {
	const void* pc = CALLER;
	Fiber* f = running();
	if (!made(f, bar, pc).fenced) fail(Code::launch_failed, pc, "mbarrier at byte %ld: a copy of a box counts at it, and no fence came after it was initialised", (char*)bar - f->of->shared);
	const TensorMap* m = (const TensorMap*)map;
	check_box(f, dst, m, rank, true, pc);
	async_begins(f, dst, box_bytes(m), true, true, pc);
	memset(dst, 0xff, box_bytes(m));
	ask(f, dst, map, at, rank, pc).bar = (char*)bar;
}

void tma_store(const void* map, const void* src, const int* at, int rank) {
	const void* pc = CALLER;
	Fiber* f = running();
	f->at = pc;
	const TensorMap* m = (const TensorMap*)map;
	check_box(f, src, m, rank, false, pc);
	async_begins(f, src, box_bytes(m), false, true, pc);
	Bulk& k = ask(f, src, map, at, rank, pc);
	k.store = true;
	k.group = f->of->bulk_groups[f->thread.x].next;
}

void bulk_commit() { running()->of->bulk_groups[self->thread.x].next++; }

// One row of a box: what of it lies within the tensor, and where.
struct Row {
	char* global;
	int from, to; // bytes
};

static Row row(const Bulk& k, const int* i) {
	const TensorMap& m = *k.map;
	int64_t x = k.at[0];
	char* p = m.base;
	bool in = true;
	for (int d = 1; d < k.rank; d++) {
		int64_t y = (int64_t)k.at[d] + (int64_t)i[d] * m.steps[d];
		in = in && y >= 0 && y < m.dims[d];
		p += y * (int64_t)m.strides[d - 1];
	}
	int64_t from = x < 0 ? -x : 0, to = (int64_t)m.dims[0] - x;
	if (to > m.box[0]) to = m.box[0];
	if (!in || from >= to) return {nullptr, 0, 0};
	return {p + (x + from) * m.bytes, (int)from * m.bytes, (int)to * m.bytes};
}

static void move(const Bulk& k) {
	const TensorMap& m = *k.map;
	Block* b = k.by->of;
	int width = m.box[0] * m.bytes;
	alignas(16) char line[256 * 8];
	int i[5] = {};
	uint64_t at = k.shared - b->shared;
	for (;;) {
		Row r = row(k, i);
		auto place = [&](int j) { return b->shared + swizzled(at + j, m.swizzle); };
		if (k.store) {
			for (int j = 0; j < width; j += 16) memcpy(line + j, place(j), 16);
			if (r.to > r.from) {
				global_access(k.by, r.global, r.to - r.from, 1, true, k.pc);
				memcpy(r.global, line + r.from, r.to - r.from);
			}
		} else {
			memset(line, m.nan ? 0xff : 0, width);
			if (r.to > r.from) {
				global_access(k.by, r.global, r.to - r.from, 1, false, k.pc);
				memcpy(line + r.from, r.global, r.to - r.from);
			}
			for (int j = 0; j < width; j += 16) memcpy(place(j), line + j, 16);
		}
		at += width;
		int d = 1;
		while (d < k.rank && ++i[d] == m.box[d]) i[d++] = 0;
		if (d >= k.rank) return;
	}
}

// A copy happens, on behalf of who asked for it.
static void happen(Block* b, size_t i) {
	Bulk k = b->bulk[i];
	b->bulk.erase(b->bulk.begin() + i);
	b->pending--;
	Thread* me = self;
	self = k.by;
	move(k);
	if (k.store) {
		async_ends(k.by, k.shared, box_bytes(k.map), k.pc);
	} else {
		Mbarrier& m = the(k.by, k.bar, k.pc);
		async_arrives(k.by, k.shared, box_bytes(k.map), m, k.pc);
		m.bytes -= (int64_t)box_bytes(k.map);
		settle(b, m);
	}
	self = me;
}

bool bulk_step(Block* b) {
	if (b->bulk.empty()) return false;
	happen(b, b->random.below(b->bulk.size()));
	return true;
}

void bulk_wait(int groups, bool) {
	Fiber* f = running();
	Block* b = f->of;
	int before = b->bulk_groups[f->thread.x].next - groups;
	for (size_t i = 0; i < b->bulk.size();) {
		const Bulk& k = b->bulk[i];
		if (k.store && k.by == f && k.group < before) happen(b, i);
		else i++;
	}
}

void fence_proxy_async() { running()->fences++; }

} // namespace emu
