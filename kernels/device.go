package kernels

import "unsafe"

// Device owns memory and makes queues. Memory is taken in a few large arenas before the first launch and is given back
// as a whole by Close.
type Device interface {
	Name() string
	Alloc(bytes int) (Ptr, error)          // zeroed, aligned for any vector
	Pinned(bytes int) (Ptr, []byte, error) // zeroed memory that both sides address: step metadata, sampled tokens
	NewQueue() (Queue, error)
	Close() error
}

// A Sharer is a device whose queues copy from and to memory of the host that another device has, at full speed.
type Sharer interface {
	// Share makes host such memory, and returns where the device sees it. No two that are shared may have a page in common.
	Share(host []byte) (Ptr, error)
	// Unshare ends it, before the memory is given back. What copies from or to it must be over. Close does it, too.
	Unshare(host []byte) error
}

// A Queue runs what it is given in order. One goroutine owns it. The first failure is kept: what follows is skipped and
// Sync reports it.
type Queue interface {
	Launch(Launch)
	Copy(dst, src Ptr, bytes int)
	Mark() Event
	After(Event)              // what follows waits for the mark, on whichever queue of the device it was made
	Host(func())              // a Go function, in order
	Repeat(key int, f func()) // CUDA: captured as a graph the first time, replayed later; CPU: calls f
	Sync() error              // waits; returns the first failure, with the kernel's name
}

// Event is a place in a queue.
type Event any

// An Op says what a kernel is. Its CPU body takes the same argument struct as the .cu file and computes items lo to hi
// of the launch; CUDA says how the kernel runs for given arguments.
type Op struct {
	Name string
	Size uintptr // of the argument struct
	CPU  func(m *Memory, args unsafe.Pointer, lo, hi int)
	CUDA func(gpu GPU, args unsafe.Pointer) Grid
}

// A GPU is what the shape of a launch may depend on. Bits never do.
type GPU struct {
	Major, Minor int  // compute capability
	SMs          int  // multiprocessors
	Shared       int  // bytes of shared memory that a block may have
	Hopper       bool // kernels may take the forms that want TMA and wgmma
}

// A Grid is a launch on a GPU. The zero Grid says that there is no kernel for the arguments (CUDA stores activations as
// BF16 only).
type Grid struct {
	Kernel  string // the entry in the .cu file; "" is the op's name
	X, Y    int    // blocks; Y may be left 0 for 1
	Threads int    // of a block
	Shared  int    // bytes of dynamic shared memory of a block
	Boxes   [2]Box // of kernels that copy whole boxes; the zero Box is none
}

// A Box is how a kernel copies parts of a BF16 matrix: BoxRows rows of 64 elements at a time, lines of 128 bytes swizzled. A
// kernel that takes boxes has a TensorMap for each behind its arguments, from a multiple of 64 bytes on. Ptr and the bytes of
// a row are multiples of 16.
type Box struct {
	Ptr              Ptr
	Rows, Cols, Line int // Line elements lie from one row to the next
	BoxRows          int
}

// BoxBytes is the size of a TensorMap.
const BoxBytes = 128

// A Launch is one run of an op. Args are copied: pointers first, a multiple of 8 bytes. Items is the number of
// independent pieces of output; no sum crosses an item, so who computes which changes no bit.
type Launch struct {
	Op    *Op
	Items int
	Args  []byte
}

// launch hands args to the queue as the bytes that a kernel gets.
func launch[A any](q Queue, op *Op, items int, args A) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	q.Launch(Launch{Op: op, Items: items, Args: b})
}

// blocks is the number of pieces of at most size that cover n.
func blocks(n, size int) int { return (n + size - 1) / size }
