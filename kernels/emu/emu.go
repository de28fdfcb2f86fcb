// Package emu steers the emulated GPU of build/emu from a test: the driver of a card that runs the kernels' own source on
// the CPU and looks at everything they do.
//
// The library is a driver like any other: kernels/cuda opens it by its file's name. There are two. The plain one checks
// bounds of allocations and of shared memory, alignment, barriers, waits and poison. In the checked one the compiler also
// reports every access of a kernel, so that it finds races as well, and faults can be switched on to see them found.
//
// A setting is a variable of the environment when the library is opened (TANDEM_EMU_SEED=7), or a call of Set:
//
//	seed             of the schedule: order of threads, blocks and streams
//	schedule         random, ahead (one warp runs ahead of all others) or fixed
//	mma              exact (as the hardware does it) or fast
//	delay            on: work waits for a sync, and streams overtake each other; off
//	races            on or off, in the checked library
//	memory           bytes, as in 8G
//	capability       9.0
//	multiprocessors  132
//	devices          1
//	threads          of the host; 0 is one for each core
//	plant            the name of a fault to switch on
//	skip             a place of the source, as in kernels/gemm.cuh:59, whose barriers, waits, arrivals and fences are left out
package emu

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static int set(void* f, const char* name, const char* value) { return ((int (*)(const char*, const char*))f)(name, value); }
static const char* text(void* f) { return ((const char* (*)(void))f)(); }
static int tensor_map(void* f, void* map, unsigned rank, uint64_t base, const uint64_t* dims, const uint64_t* strides, const uint32_t* box, int swizzle) {
	const uint32_t steps[5] = {1, 1, 1, 1, 1};
	return ((int (*)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int))f)(
		map, 9, rank, (void*)base, dims, strides, box, steps, 0, swizzle, 0, 0);
}
static int mma(void* f, int form, float* c, const uint32_t* a, const uint32_t* b) {
	return ((int (*)(int, float*, const uint32_t*, const uint32_t*))f)(form, c, a, b);
}
static uint64_t wgmma_at(void* f, uint64_t descriptor, int across, int i, int k) {
	return ((uint64_t (*)(uint64_t, int, int, int))f)(descriptor, across, i, k);
}
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"
)

// Plain and Checked are the libraries, under the root of the repository.
const (
	Plain   = "build/emu/libcuda-emu.so"
	Checked = "build/emu/libcuda-emu-checked.so"
)

// Find looks for a library in the folder of work and those above it; "" is nowhere.
func Find(library string) string {
	dir, err := os.Getwd()
	for err == nil {
		if at := filepath.Join(dir, library); exists(at) {
			return at
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// A Library is an emulator that has been opened.
type Library struct {
	set, report, stats, mma, wgmmaAt, tensorMap unsafe.Pointer
}

// Open opens the file of an emulator, which stays open.
func Open(file string) (*Library, error) {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, fmt.Errorf("open the emulator: %s", C.GoString(C.dlerror()))
	}
	var l Library
	for symbol, at := range map[string]*unsafe.Pointer{
		"emu_set": &l.set, "emu_last_report": &l.report, "emu_stats": &l.stats, "emu_mma": &l.mma, "emu_wgmma_at": &l.wgmmaAt, "cuTensorMapEncodeTiled": &l.tensorMap,
	} {
		s := C.CString(symbol)
		*at = C.dlsym(handle, s)
		C.free(unsafe.Pointer(s))
		if *at == nil {
			return nil, fmt.Errorf("open the emulator: %s has no %s", file, symbol)
		}
	}
	return &l, nil
}

// Set changes a setting from the next launch on.
func (l *Library) Set(name, value string) error {
	n, v := C.CString(name), C.CString(value)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(v))
	if C.set(l.set, n, v) != 0 {
		return fmt.Errorf("set %s of the emulator to %q: it means nothing", name, value)
	}
	return nil
}

// Report is what was found since the device was opened, with kernel, block, thread and line; "" is nothing.
func (l *Library) Report() string { return C.GoString(C.text(l.report)) }

// Stats are what launches of a kernel did. Bytes are those of the device's memory that threads asked for, which the
// checked library counts; the least is each byte once, however many asked for it.
type Stats struct {
	Launches, Blocks      int
	Phases, Conflicts     int // 8 rows of ldmatrix or stmatrix, and how often one more access to a bank
	Read, ReadLeast       int
	Written, WrittenLeast int
}

// Stats returns the counts by kernel since the last call.
func (l *Library) Stats() map[string]Stats {
	all := map[string]Stats{}
	for line := range strings.Lines(C.GoString(C.text(l.stats))) {
		f := strings.Fields(line)
		var n [8]int
		for i := range n {
			n[i], _ = strconv.Atoi(f[1+i])
		}
		all[f[0]] = Stats{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]}
	}
	return all
}

// The forms of an MMA.
const (
	FastPlain = iota
	FastAVX2
	ExactPlain
	ExactAVX2
)

// MMA adds a·b to c (16, 8), where a (16, 8) and b (8, 8) hold pairs of bfloat16 of ascending k, a by rows and b by
// columns. It reports false if the CPU has no such form.
func (l *Library) MMA(form int, c *[128]float32, a *[128]uint32, b *[64]uint32) bool {
	return C.mma(l.mma, C.int(form), (*C.float)(unsafe.Pointer(c)), (*C.uint32_t)(unsafe.Pointer(a)), (*C.uint32_t)(unsafe.Pointer(b))) == 0
}

// OperandAt is the byte of shared memory where wgmma reads element k of line i of the matrix that a descriptor tells, whose k runs
// along lines or, if down, down them.
func (l *Library) OperandAt(descriptor uint64, down bool, i, k int) int {
	across := C.int(0)
	if down {
		across = 1
	}
	return int(C.wgmma_at(l.wgmmaAt, C.uint64_t(descriptor), across, C.int(i), C.int(k)))
}

// TensorMap encodes the map of a bfloat16 tensor for copies of boxes. Sizes and the box begin with the innermost
// dimension, strides (in bytes) with the next. Swizzle is 0 to 3: none, 32, 64, 128 bytes.
func (l *Library) TensorMap(base uint64, dims, strides []uint64, box []uint32, swizzle int) ([16]uint64, error) {
	var room [24]uint64 // of which some 16 begin at a multiple of 64
	at := unsafe.Pointer(&room)
	skip := (64 - int(uintptr(at)%64)) % 64 / 8
	if r := C.tensor_map(l.tensorMap, unsafe.Pointer(&room[skip]), C.uint(len(dims)), C.uint64_t(base), (*C.uint64_t)(unsafe.Pointer(&dims[0])),
		(*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(append(strides, 0)))), (*C.uint32_t)(unsafe.Pointer(&box[0])), C.int(swizzle)); r != 0 {
		return [16]uint64{}, fmt.Errorf("encode a tensor map of %v, strides %v, box %v, swizzle %d: CUDA error %d", dims, strides, box, swizzle, r)
	}
	return [16]uint64(room[skip : skip+16]), nil
}
