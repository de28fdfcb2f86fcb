package kernels

import "fmt"

// ModelDims are the sizes that a worker's scratch depends on.
type ModelDims struct {
	D, H, K, E, F, V int
	Context          int // tokens of a sequence at most
	DType            DType
}

// ScratchBytes is the memory that a worker of the CPU device needs beside the arenas: the most that any operation of
// forward, backward, sampling from the full distribution and AdamW takes for a model. Only that of AttentionBackward grows
// with the context.
func ScratchBytes(c ModelDims) int {
	need := 0
	for _, op := range []func(ModelDims) sizes{
		attentionScratch, attentionBackwardScratch, linearScratch, linearDXScratch, linearDWScratch, logProbScratch, logProbDZScratch,
		qkNormRopeScratch, rmsNormScratch, swigluScratch, sampleScratch, adamWScratch,
	} {
		need = max(need, op(c).total())
	}
	return need
}

// sizes are the bytes of the pieces that a body takes at once.
type sizes []int

// total is what they take, each from the start of a line.
func (s sizes) total() int {
	n := 0
	for _, b := range s {
		n += blocks(b, lineBytes) * lineBytes
	}
	return n
}

// attend and its softmax.
func attentionScratch(c ModelDims) sizes {
	n := attentionRows * (c.H / c.K) // queries
	return sizes{4 * n * attentionTile, 4 * n * c.E, 4 * n * 16, 4 * n, c.DType.Size() * n * attentionTile, c.DType.Size() * n * c.E, c.DType.Size() * n * c.E}
}

// The gradients of the keys and values of a whole sequence, then attentionGrad.
func attentionBackwardScratch(c ModelDims) sizes {
	n, d := attentionRows*(c.H/c.K), c.DType.Size()
	return sizes{
		4 * c.Context * c.E, 4 * c.Context * c.E,
		4 * 16, 4 * n * c.E, 4 * n * PageTokens, 4 * n * PageTokens, d * PageTokens, d * n * PageTokens, d * n * PageTokens, d * n * PageTokens,
		d * n * c.E, d * n * c.E,
	}
}

// mostRows is the most that linearRows gives.
const mostRows = 64

func linearScratch(c ModelDims) sizes {
	n, k := max((c.H+2*c.K)*c.E, 2*c.F, c.D), min(c.D, c.F, c.H*c.E)
	return sizes{4 * min(mostRows*n, 1<<20/k+mostRows*2*48)}
}

func linearDXScratch(ModelDims) sizes { return sizes{4 * mostRows * 256} }

func linearDWScratch(c ModelDims) sizes { return sizes{c.DType.Size() * 64 * dwStep} }

func logProbScratch(c ModelDims) sizes {
	return sizes{4 * mostRows * vocabTile, 4 * vocabTile, 8 * vocabTile, 64, 64, 16 * blocks(c.V, vocabTile)}
}

func logProbDZScratch(c ModelDims) sizes {
	z := 4 * min(mostRows*wholeLanes(c.V), 1<<20/c.D+mostRows*2*48+mostRows*16)
	return sizes{z, z, 64}
}

func qkNormRopeScratch(c ModelDims) sizes {
	row := 4 * (c.H + c.K) * c.E
	return sizes{4 * c.E, 4 * c.E, 4 * c.E, row, 4 * (c.H + c.K), row, row, row, row}
}

func rmsNormScratch(c ModelDims) sizes {
	row := 4 * c.D
	return sizes{row, row, row, LeafRows * row, row, row, row, 64}
}

func swigluScratch(c ModelDims) sizes { return sizes{8 * c.F, 8 * c.F, 4 * c.F} }

func sampleScratch(c ModelDims) sizes {
	tiles := blocks(c.V, vocabTile)
	return sizes{4 * vocabTile, 8 * tiles, 8 * tiles, 64}
}

// AdamWScratch is the memory that a worker needs beside the arenas where AdamW is all that it runs.
func AdamWScratch() int { return adamWScratch(ModelDims{}).total() }

func adamWScratch(ModelDims) sizes {
	return sizes{4 * adamWTile, 4 * adamWTile, 4 * adamWTile, 4 * adamWTile, 2 * adamWTile}
}

// Workers is the number of threads that compute.
func (c *CPU) Workers() int { return len(c.pool.workers) }

// Scratch gives every worker bytes of scratch, before the first launch, so that none has to be found later.
func (c *CPU) Scratch(bytes int) error {
	bytes = blocks(bytes, lineBytes) * lineBytes
	for _, m := range c.pool.workers {
		_, b, err := c.Pinned(bytes)
		if err != nil {
			return fmt.Errorf("scratch of %d workers: %w", len(c.pool.workers), err)
		}
		m.scratch, m.used = b, 0
	}
	return nil
}

// ScratchPeak is the most that a worker has had in use, in bytes. Call it between launches.
func (c *CPU) ScratchPeak() int {
	n := 0
	for _, m := range c.pool.workers {
		n = max(n, m.peak)
	}
	return n
}
