// What a launch did to memory: bytes moved, the fewest that would have done, and conflicts of banks.
#pragma once

#include <stdint.h>

#include "block.h"

namespace emu {

// Counts of a thread of the host since its last add_traffic. Bytes are those that threads asked for: read_least counts
// each byte once however many read it. The plain library counts none.
struct Traffic {
	uint64_t read, written, read_least, written_least;
};

Traffic& traffic();

void begin_stats(const Launch& l);
void count_block(const Block& b); // on the thread that ran it
void end_stats(const Launch& l);

} // namespace emu
