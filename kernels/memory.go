package kernels

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A mapping is reserved address space whose pages cost nothing until touched. It is outside the garbage collector's
// heap; a Ptr is an offset into it.
type mapping struct {
	bytes []byte
	used  atomic.Int64 // grows while others launch
}

const (
	firstPtr  = 4096    // so that 0 is no address
	bigArena  = 4 << 20 // from here on an arena starts at a huge page
	hugePage  = 2 << 20
	lineBytes = 64
)

// reserve maps as much address space as the machine gives, starting at 4 TiB.
func reserve() (*mapping, error) {
	var err error
	for size := 1 << 42; size >= 1<<28; size >>= 1 {
		var b []byte
		b, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
		if err == nil {
			m := &mapping{bytes: b}
			m.used.Store(firstPtr)
			return m, nil
		}
	}
	return nil, fmt.Errorf("cpu: reserve address space: %w", err)
}

func (m *mapping) alloc(n int) (Ptr, error) {
	align := lineBytes
	if n >= bigArena {
		align = hugePage
	}
	used := int(m.used.Load())
	at := (used + align - 1) &^ (align - 1)
	if n < 0 || n > len(m.bytes)-at {
		return 0, fmt.Errorf("cpu: allocate %d bytes: %d of %d bytes of address space are left", n, len(m.bytes)-used, len(m.bytes))
	}
	m.used.Store(int64(at + n))
	if n >= bigArena {
		// Advice only: without huge pages everything is slower, not wrong.
		_ = unix.Madvise(m.bytes[at:at+n], unix.MADV_HUGEPAGE)
	}
	return Ptr(at), nil
}

func (m *mapping) close() error {
	b := m.bytes
	m.bytes = nil
	return unix.Munmap(b)
}

// Memory is how a CPU body sees the device: the arenas, the inner loops chosen for this processor, and the worker's own
// scratch.
type Memory struct {
	arenas  *mapping
	vec     *vec
	scratch []byte
	used    int
	before  int // in use in scratch that was outgrown
	peak    int // most that was in use
}

// F32 is n float32 at p. The accessors panic on an address outside what was allocated, as a kernel would fault.
func (m *Memory) F32(p Ptr, n int) []float32 {
	return unsafe.Slice((*float32)(m.at(p, n, 4)), n)
}

// BF16 is n bfloat16, or anything else of 16 bits, at p.
func (m *Memory) BF16(p Ptr, n int) []uint16 {
	return unsafe.Slice((*uint16)(m.at(p, n, 2)), n)
}

// I32 is n int32 at p.
func (m *Memory) I32(p Ptr, n int) []int32 {
	return unsafe.Slice((*int32)(m.at(p, n, 4)), n)
}

// U64 is n uint64 at p.
func (m *Memory) U64(p Ptr, n int) []uint64 {
	return unsafe.Slice((*uint64)(m.at(p, n, 8)), n)
}

// U8 is n bytes at p.
func (m *Memory) U8(p Ptr, n int) []uint8 {
	return unsafe.Slice((*uint8)(m.at(p, n, 1)), n)
}

func (m *Memory) at(p Ptr, n, size int) unsafe.Pointer {
	if p < firstPtr || n < 0 || int(p)+n*size > int(m.arenas.used.Load()) || int(p)%size != 0 {
		m.fault(p, n, size)
	}
	return unsafe.Pointer(&m.arenas.bytes[p])
}

// fault stands apart so that at can be inlined.
func (m *Memory) fault(p Ptr, n, size int) {
	panic(fmt.Sprintf("address %d: %d elements of %d bytes are outside the %d bytes allocated or misaligned", p, n, size, m.arenas.used.Load()))
}

// Load is n elements of dtype d from element off on, as float32: the memory itself for F32, a copy in scratch for BF16.
func (m *Memory) Load(p Ptr, d DType, off, n int) []float32 {
	p += Ptr(off * d.Size())
	if d == F32 {
		return m.F32(p, n)
	}
	x := m.ScratchF32(n)
	m.vec.unpack(x, m.BF16(p, n))
	return x
}

// Store rounds x to dtype d at element off.
func (m *Memory) Store(p Ptr, d DType, off int, x []float32) {
	p += Ptr(off * d.Size())
	if d == F32 {
		copy(m.F32(p, len(x)), x)
		return
	}
	m.vec.pack(m.BF16(p, len(x)), x)
}

// Keep remembers how much scratch is in use; Reset(Keep()) gives back what was taken since. A body that loops over rows
// brackets each row with them.
func (m *Memory) Keep() int { return m.used }

// Reset gives back the scratch taken since Keep returned at.
func (m *Memory) Reset(at int) { m.used = at }

// ScratchF32 is n float32 of the worker's own, not zeroed, valid until the body returns or Reset.
func (m *Memory) ScratchF32(n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(m.take(4*n)), n)
}

// ScratchBF16 is n bfloat16 likewise.
func (m *Memory) ScratchBF16(n int) []uint16 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*uint16)(m.take(2*n)), n)
}

func (m *Memory) take(n int) unsafe.Pointer {
	n = (n + lineBytes - 1) &^ (lineBytes - 1)
	if m.used+n > len(m.scratch) {
		// Slices handed out earlier keep the old block alive.
		m.before += m.used
		m.scratch, m.used = make([]byte, max(2*len(m.scratch), n, 1<<16)), 0
	}
	p := unsafe.Pointer(&m.scratch[m.used])
	m.used += n
	m.peak = max(m.peak, m.before+m.used)
	return p
}
