// sample       draws a token per row of logits (V): inverse CDF over tiles of 128 tokens, then within one
// toplogprobs  the most probable tokens of a row with their log-probabilities
//
// A block has a row. A warp takes tiles in turns, four at once: lane l has tokens l, l+32, l+64 and l+96 of each. A tile's maximum and sum are those of
// softmax.cuh, so that a token's log-probability has the bits of logprob.cu. Filters find where their prefix of the tokens in order ends
// by counting digits of logit and id, masses as integers, so that no sum depends on who comes first. The roof is reading
// the logits, 4·V bytes, once and once more where a row is edited; every digit of a filter reads them again, from the L2 cache.
#include "philox.cuh"
#include "softmax.cuh"

struct SampleParams {
	u64 seed;
	float invT, topP, minP;
	int topK, pos, greedy;
	float repetition, presence, frequency;
	int top;
	int first_edit, edits, first_allowed, allowed;
};

struct Edit {
	int id, count;
	float bias;
};

struct SampleArgs {
	int* tokens;                 // (R)
	float* logp;                 // (R)
	const float* logits;         // (R, V)
	const SampleParams* params;  // (R)
	const Edit* edits;           // of all rows
	const int* allowed;          // of all rows
	int R, V;
	int rows;
	int _;
};

struct TopLogProbsArgs {
	int* ids;                    // (R, N)
	float* logp;                 // (R, N)
	const float* logits;         // (R, V)
	const SampleParams* params;  // (R)
	int R, V, N;
	int rows;
};

const int THREADS = 512, WARPS = THREADS / 32, DIGIT = 256;

// Where a token stands in its row, by logit descending, then by id ascending: 32 bits, then 24.
DEVICE u64 place_of(float z, int id) {
	u32 b = float_bits(z + 0.0f);  // -0 is 0
	if (!(b >> 31)) b = ~b & 0x7fffffffu;
	return (u64)b << 24 | (u32)id;
}

const u64 EVERYWHERE = ~(u64)0;

// The index of id in an ascending list of n, stride apart, or -1.
template <class Get>
DEVICE int find(int n, int id, Get get) {
	int lo = 0, hi = n;
	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (get(mid) < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && get(lo) == id ? lo : -1;
}

// A row's logits, as they are or as its lists leave them.
struct Logits {
	const float* z;
	const SampleParams* params;
	const Edit* edits;   // or 0
	const int* allowed;  // or 0
	int V;
	float invT;

	DEVICE float at(int id) const {
		if (id >= V) return minus_infinity();
		float x = z[id];
		if (allowed && find(params->allowed, id, [&](int i) { return allowed[i]; }) < 0) x = minus_infinity();
		if (edits) {
			int i = find(params->edits, id, [&](int i) { return edits[i].id; });
			if (i >= 0) x = apply(edits[i], x);
		}
		return x;
	}

	DEVICE float apply(const Edit& e, float x) const {
		x += e.bias;
		if (e.count < 0) return x;
		x = x > 0 ? x / params->repetition : x * params->repetition;
		if (e.count > 0) {
			x -= params->frequency * (float)e.count;
			x -= params->presence;
		}
		return x;
	}
};

// What a block knows of a row.
struct Row {
	Logits l;
	float2* parts;  // (tiles): top and sum, in shared memory
	int tiles;
	float top, sum;

	// All threads call it.
	DEVICE void reduce() {
		tiles = blocks(l.V, VOCAB_TILE);
		for (int first = threadIdx.x / 32 * 4; first < tiles; first += WARPS * 4) {
			float u[4][4];
#pragma unroll
			for (int i = 0; i < 4; i++)
#pragma unroll
				for (int k = 0; k < 4; k++) u[i][k] = l.at(id(first + i, k)) * l.invT;
			float2 p = tile_sums(u);
			int t = first + threadIdx.x % 32 / 8;
			if (threadIdx.x % 8 == 0 && t < tiles) parts[t] = p;
		}
		sync_block();  // parts
		join_tiles(tiles, [&](int t) { return parts[t]; }, top, sum);
	}

	DEVICE static int id(int t, int k) { return t * VOCAB_TILE + 32 * k + threadIdx.x % 32; }

	// What a unit of the tile's p is worth; 0 if nothing in it can be drawn.
	DEVICE float weight(int t) const { return parts[t].y == 0 ? 0 : tile_weight(parts[t].x, top); }

	DEVICE float p(int t, float z) const { return exp2_small(below(z * l.invT, parts[t].x) * LOG2E); }
};

// What a row's filters leave: the tokens up to a place whose u is at least `least`.
struct Cut {
	u64 last;
	float least;
	DEVICE bool keeps(float z, float u, int id) const { return u >= least && place_of(z, id) <= last; }
};

struct Sampler {
	Row row;        // what is drawn from
	u64* masses;    // (DIGIT)
	u32* counts;    // (DIGIT)
	double* kept;   // (tiles): masses of what is left of each tile
	u64* found;     // (2): what one thread tells the others

	// Sums masses in units of 2^-40.
	DEVICE static u64 units(float weight, float p) { return (u64)((double)weight * (double)p * 0x1p40); }

	// The last place of the shortest prefix of the tokens in order that has k of them or the mass `goal`, and its mass. It has
	// one token at least, and all that can be drawn if neither is reached.
	DEVICE u64 prefix(u32 k, u64 goal, u64& mass) {
		u64 high = 0;
		mass = 0;
		for (int shift = 48; shift >= 0; shift -= 8) {
			count(high, shift);
			if (threadIdx.x == 0) {
				u64 before = mass;
				u32 left = k;
				int d = 0;
				while (d < DIGIT && (counts[d] == 0 || (counts[d] < left && before + masses[d] < goal))) left -= counts[d], before += masses[d], d++;
				found[0] = d == DIGIT ? EVERYWHERE : high << 8 | (u64)d;
				found[1] = before;
				counts[0] = left;
			}
			sync_block();  // found
			high = found[0], mass = found[1], k = counts[0];
			sync_block();  // found is read
			if (high == EVERYWHERE) return high;
		}
		if (threadIdx.x == 0) found[1] = mass + mass_at((int)(high & 0xffffff));
		sync_block();  // found
		mass = found[1];
		return high;
	}

	DEVICE u64 mass_at(int id) const {
		int t = id / VOCAB_TILE;
		return units(row.weight(t), row.p(t, row.l.at(id)));
	}

	// Counts the digit at `shift` of the places whose higher digits are `high`, of tokens that can be drawn.
	DEVICE void count(u64 high, int shift) {
		for (int i = threadIdx.x; i < DIGIT; i += THREADS) counts[i] = 0, masses[i] = 0;
		sync_block();  // zeros
		for (int t = threadIdx.x / 32; t < row.tiles; t += WARPS) {
			float weight = row.weight(t);
			if (weight == 0) continue;
			for (int k = 0; k < 4; k++) {
				float z = row.l.at(Row::id(t, k)), p = row.p(t, z);
				u64 place = place_of(z, Row::id(t, k));
				if (p == 0 || place >> shift >> 8 != high) continue;
				atom_add(&counts[place >> shift & 255], 1u);
				atom_add(&masses[place >> shift & 255], units(weight, p));
			}
		}
		sync_block();  // counts and masses
	}

	DEVICE Cut cut() {
		const SampleParams& s = *row.l.params;
		Cut c = {EVERYWHERE, minus_infinity()};
		bool some = s.topK > 0 && s.topK < row.l.V;
		if (some || s.topP < 1) {
			u32 k = some ? s.topK : 0xffffffffu;
			u64 mass = 0;
			c.last = prefix(k, EVERYWHERE, mass);
			if (s.topP < 1) {
				double goal = (double)mass * ((double)s.topP - 1e-6);
				c.last = prefix(k, goal > 0 ? (u64)goal : 0, mass);
			}
		}
		if (s.minP > 0) {
			float least = (float)((double)row.top + ln64((double)s.minP) - 1e-6);
			c.least = least < row.top ? least : row.top;
		}
		return c;
	}

	// p of what c leaves of the lane's tokens of a tile.
	DEVICE void fill(int t, const Cut& c, float (&p)[4]) const {
		for (int k = 0; k < 4; k++) {
			int id = Row::id(t, k);
			float z = row.l.at(id);
			p[k] = c.keeps(z, z * row.l.invT, id) ? row.p(t, z) : 0;
		}
	}

	DEVICE int draw(double u) {
		Cut c = cut();
		bool whole = c.last == EVERYWHERE && c.least == minus_infinity();
		for (int t = threadIdx.x / 32; t < row.tiles; t += WARPS) {
			double mass = 0;
			float weight = row.weight(t);
			if (whole)
				mass = row.parts[t].y;
			else if (weight > 0) {
				float p[4];
				fill(t, c, p);
				for (int k = 0; k < 4; k++) mass += (double)p[k];
				mass = sum_warp(mass);
			}
			if (threadIdx.x % 32 == 0) kept[t] = weight == 0 ? 0 : weight * mass;
		}
		sync_block();  // kept
		if (threadIdx.x < 32) choose(u, c);
		sync_block();  // found
		return (int)found[0];
	}

	// One warp: the tile in which the cumulated mass exceeds u of the total, then the token.
	DEVICE void choose(double u, const Cut& c) {
		int lane = threadIdx.x, n = blocks(row.tiles, 32), first = min(lane * n, row.tiles), end = min(first + n, row.tiles);
		double own = 0;
		for (int t = first; t < end; t++) own += kept[t];
		double total = 0, before = 0;
		for (int i = 0; i < 32; i++) {
			if (i == lane) before = total;
			total += shfl(own, i);
		}
		double goal = u * total;
		// The first lane whose tiles reach the goal; if rounding lets none, the last that has any mass.
		u32 reach = vote_ballot(goal < before + own), any = vote_ballot(own > 0);
		int who = reach & any ? lowest_bit(reach & any) : highest_bit(any);
		double left = reach & any ? goal - before : 1e300;
		int tile = -1;
		bool found_tile = false;
		for (int t = first; t < end && !found_tile; t++) {
			if (kept[t] > 0) tile = t;
			found_tile = left < kept[t];
			if (!found_tile) left -= kept[t];
		}
		if (!found_tile) left = 1e300;
		tile = (int)shfl((u32)tile, who);
		left = shfl(left, who);
		float p[4];
		fill(tile, c, p);
		left /= (double)row.weight(tile);
		int token = -1;
		double sum = 0;
		for (int k = 0; k < 4; k++)
			for (int i = 0; i < 32; i++) {
				float x = shfl(p[k], i);
				if (x == 0 || sum > left) continue;
				token = tile * VOCAB_TILE + 32 * k + i;
				sum += (double)x;
			}
		if (lane == 0) found[0] = (u64)token;
	}

	// The smallest place behind `after`, of tokens that are not -Inf.
	DEVICE u64 next(u64 after, bool any) {
		u64 best = EVERYWHERE;
		for (int t = threadIdx.x / 32; t < row.tiles; t += WARPS)
			for (int k = 0; k < 4; k++) {
				float z = row.l.at(Row::id(t, k));
				u64 place = place_of(z, Row::id(t, k));
				if (z > minus_infinity() && (any || place > after) && place < best) best = place;
			}
		for (int d = 16; d > 0; d /= 2) {
			u64 other = (u64)shfl_xor((u32)(best >> 32), d) << 32 | shfl_xor((u32)best, d);
			if (other < best) best = other;
		}
		if (threadIdx.x % 32 == 0) masses[threadIdx.x / 32] = best;
		sync_block();  // every warp's best
		for (int w = 0; w < WARPS; w++)
			if (masses[w] < best) best = masses[w];
		sync_block();  // they are read
		return best;
	}
};

// Shared memory: found (2), masses (DIGIT), counts (DIGIT), then kept, parts and the edited row's parts (tiles each).
DEVICE Sampler sampler(char* shared, Logits l, int which) {
	Sampler s = {Row{l, 0, 0, 0, 0}, (u64*)shared + 2, 0, 0, (u64*)shared};
	s.counts = (u32*)(s.masses + DIGIT);
	s.kept = (double*)(s.counts + DIGIT);
	s.row.parts = (float2*)(s.kept + blocks(l.V, VOCAB_TILE)) + which * blocks(l.V, VOCAB_TILE);
	return s;
}

KERNEL(sample, SampleArgs, a, THREADS, 2) {
	SHARED(shared);
	int r = blockIdx.x;
	const SampleParams& s = a.params[r];
	int token = -1;
	float logp = 0;
	if (s.pos >= 0) {
		Logits plain = {a.logits + (i64)r * a.V, &s, 0, 0, a.V, s.greedy ? 1 : s.invT};
		Sampler whole = sampler(shared, plain, 0);
		whole.row.reduce();
		Sampler from = whole;
		if (s.edits > 0 || s.allowed > 0) {
			if (s.edits > 0) plain.edits = a.edits + s.first_edit;
			if (s.allowed > 0) plain.allowed = a.allowed + s.first_allowed;
			from = sampler(shared, plain, 1);
			from.row.reduce();
		}
		if (whole.row.sum != whole.row.sum)
			logp = whole.row.sum;
		else if (from.row.sum != from.row.sum)
			logp = minus_infinity();
		else {
			token = s.greedy ? (int)(from.next(0, true) & 0xffffff) : from.draw(uniform(philox(s.seed, (u32)s.pos, 0, 0, 0)));
			logp = (whole.row.l.at(token) * whole.row.l.invT - whole.row.top) - ln_once(whole.row.sum);
		}
	}
	if (threadIdx.x == 0) a.tokens[r] = token, a.logp[r] = logp;
}

KERNEL(toplogprobs, TopLogProbsArgs, a, THREADS, 2) {
	SHARED(shared);
	int r = blockIdx.x, n = 0;
	const SampleParams& s = a.params[r];
	if (s.pos >= 0 && s.top > 0) {
		Sampler whole = sampler(shared, Logits{a.logits + (i64)r * a.V, &s, 0, 0, a.V, s.greedy ? 1 : s.invT}, 0);
		whole.row.reduce();
		const Row& row = whole.row;
		u64 place = 0;
		for (; n < min(a.N, s.top) && row.sum == row.sum; n++) {
			place = whole.next(place, n == 0);
			if (place == EVERYWHERE) break;
			int id = (int)(place & 0xffffff);
			if (threadIdx.x == 0) {
				a.ids[(i64)r * a.N + n] = id;
				a.logp[(i64)r * a.N + n] = (row.l.at(id) * row.l.invT - row.top) - ln_once(row.sum);
			}
		}
	}
	if (threadIdx.x == 0)
		for (; n < a.N; n++) a.ids[(i64)r * a.N + n] = -1, a.logp[(i64)r * a.N + n] = 0;
}
