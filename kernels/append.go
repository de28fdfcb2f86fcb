package kernels

import (
	"fmt"
	"unsafe"
)

// PageTokens is the number of tokens whose keys and values one page of the cache holds.
const PageTokens = 64

// AttentionBatch says which rows of a packed batch form a sequence and where the sequence's keys and values are. The
// rows of a sequence are adjacent and their positions ascend by 1.
type AttentionBatch struct {
	Pos   Tensor // (T) I32: the row's position in its sequence
	Seq   Tensor // (T) I32: the row's sequence, -1 for padding
	First Tensor // (S) I32: the sequence's first row in this batch
	Count Tensor // (S) I32: the sequence's number of rows in this batch, may be 0
	Table Tensor // (S, N) I32: page numbers; entry i holds positions 64·i to 64·i+63
}

// want checks the batch against T, a cache and the letters H and K of its op, and returns the layer's pages.
func (b AttentionBatch) want(d *dims, kv Tensor, layer int, dtype DType) pagesArgs {
	d.want(b.Pos, "Pos", "T", I32)
	d.want(b.Seq, "Seq", "T", I32)
	d.want(b.First, "First", "S", I32)
	d.want(b.Count, "Count", "S", I32)
	d.want(b.Table, "Table", "S N", I32)
	d.want(kv, "kv", "L pages 2K 64E", dtype)
	if layer < 0 || layer >= d.at["L"] {
		panic(fmt.Sprintf("%s: layer %d of a cache of %d", d.op, layer, d.at["L"]))
	}
	plane := kv.Len() / d.at["L"] * dtype.Size()
	return pagesArgs{
		kv: kv.Ptr + Ptr(layer*plane), table: b.Table.Ptr,
		S: int32(d.at["S"]), N: int32(d.at["N"]), pages: int32(d.at["pages"]), K: int32(d.at["K"]), E: int32(d.at["E"]), dtype: int32(dtype),
	}
}

// bindHeads gives the letters of the projections and of the cache their sizes from H, K and E.
func (b *dims) bindHeads(H, K, E int) {
	b.at = map[string]int{"H": H, "K": K, "E": E, "H+K": H + K, "H+2K": H + 2*K, "2K": 2 * K, "64E": PageTokens * E}
}

// pagesArgs is the part of an argument struct that finds keys and values.
type pagesArgs struct {
	kv    Ptr // (pages, 2, K, 64, E): one layer
	table Ptr // (S, N)

	S, N, pages, K, E, dtype int32
}

// plane is the keys (half 0) or values (half 1), (64, E), of head k at positions 64·i to 64·i+63 of sequence s.
func (a *pagesArgs) plane(m *Memory, s, i, half, k int) elems {
	if s >= int(a.S) || i >= int(a.N) {
		panic(fmt.Sprintf("sequence %d, position %d: the page table is %d sequences of %d pages", s, i*PageTokens, a.S, a.N))
	}
	page := int(m.I32(a.table, int(a.S*a.N))[s*int(a.N)+i])
	if page < 0 || page >= int(a.pages) {
		panic(fmt.Sprintf("sequence %d, position %d: page %d of %d", s, i*PageTokens, page, a.pages))
	}
	n := PageTokens * int(a.E)
	return m.elems(a.kv, DType(a.dtype), ((page*2+half)*int(a.K)+k)*n, n)
}

// Append writes the key and value of every row to its slot in the cache, exactly. Padding rows write nothing.
//
//	kv    (L, pages, 2·K, 64·E)  the cache: a page of a layer is (2, K, 64, E), keys before values
//	qk    (T, H+K, E)            q and k after norm and RoPE: the last K heads are the keys
//	qkv   (T, H+2·K, E)          the projection: the last K heads are the values
func Append(q Queue, kv, qk, qkv Tensor, b AttentionBatch, layer int) {
	d := dims{op: "Append"}
	K := kv.Shape[2] / 2
	d.bindHeads(qk.Shape[1]-K, K, qk.Shape[2])
	d.want(qk, "qk", "T H+K E", F32, BF16)
	d.want(qkv, "qkv", "T H+2K E", qk.DType)
	a := appendArgs{pages: b.want(&d, kv, layer, qk.DType)}
	a.qk, a.qkv, a.pos, a.seq = qk.Ptr, qkv.Ptr, b.Pos.Ptr, b.Seq.Ptr
	a.T, a.H = int32(d.at["T"]), int32(d.at["H"])
	launch(q, &appendOp, blocks(int(a.T), appendRows), a)
}

const appendRows = 16 // of an item

type appendArgs struct {
	qk, qkv  Ptr // (T, H+K, E), (T, H+2K, E)
	pos, seq Ptr // (T)
	pages    pagesArgs
	T, H     int32
}

var appendOp = Op{Name: "append", Size: unsafe.Sizeof(appendArgs{}), CPU: appendGo, CUDA: appendGrid}

func appendGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*appendArgs)(args)
	T, H, K, E := int(a.T), int(a.H), int(a.pages.K), int(a.pages.E)
	pos, seq := m.I32(a.pos, T), m.I32(a.seq, T)
	for t := lo * appendRows; t < min(hi*appendRows, T); t++ {
		if seq[t] < 0 {
			continue
		}
		s, page, slot := int(seq[t]), int(pos[t])/PageTokens, int(pos[t])%PageTokens
		for k := range K {
			key := m.elems(a.qk, DType(a.pages.dtype), (t*(H+K)+H+k)*E, E)
			value := m.elems(a.qkv, DType(a.pages.dtype), (t*(H+2*K)+H+K+k)*E, E)
			a.pages.plane(m, s, page, 0, k).from(slot * E).copy(key)
			a.pages.plane(m, s, page, 1, k).from(slot * E).copy(value)
		}
	}
}

func appendGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*appendArgs)(args)
	bytes := int(a.pages.E) * DType(a.pages.dtype).Size()
	name, piece := wide("append", int64(bytes), a.qk, a.qkv, a.pages.kv), 16
	if name != "append" {
		piece = 2
	}
	return Grid{Kernel: name, X: blocks(int(a.T)*int(a.pages.K)*(bytes/piece), gpuThreads), Y: 1, Threads: gpuThreads}
}
