package kernels

// What the grids of row-wise kernels share. A kernel has two entries: one moves 16 bytes at a time, the other, _narrow,
// single elements, for widths and addresses that 16 bytes don't divide. Both give the same bits.

const gpuThreads = 256 // of a block, unless its width asks for fewer

// wide names the entry for rows of n bytes at the given addresses, of which some may be 0.
func wide(name string, n int64, at ...Ptr) string {
	for _, p := range append(at, Ptr(n)) {
		if p%16 != 0 {
			return name + "_narrow"
		}
	}
	return name
}

// copyThreads is the size of a block that copies n bytes: four pieces of 16 bytes a thread.
func copyThreads(n int) int { return min(gpuThreads, 32*blocks(n, 4*16*32)) }

// copyGrid copies a row of n bytes with each of R blocks.
func copyGrid(name string, R, n int, at ...Ptr) Grid {
	return Grid{Kernel: wide(name, int64(n), at...), X: R, Y: 1, Threads: copyThreads(n)}
}

// stridedGrid is for blocks that go through pieces of an array in turns: a few for each multiprocessor.
func stridedGrid(gpu GPU, pieces int) Grid {
	return Grid{X: min(pieces, 8*gpu.SMs), Y: 1, Threads: gpuThreads}
}
