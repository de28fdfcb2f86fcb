package emu_test

import (
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/emu"
)

// The swizzles as a descriptor numbers them.
const (
	unswizzled = iota
	swizzle128
	swizzle64
	swizzle32
)

// descriptor is the PTX ISA's Matrix Descriptor Format.
func descriptor(start, leading, stride uint64, swizzle int) uint64 {
	encode := func(x uint64) uint64 { return x & 0x3ffff >> 4 }
	return encode(start) | encode(leading)<<16 | encode(stride)<<32 | uint64(swizzle)<<62
}

// Where elements of bfloat16 matrices lie, worked out by hand from the PTX ISA's Canonical Layouts and, without a swizzle and
// for those of 32 and 64 bytes, from its examples (MN-major of bf16: figures 168 to 170). A swizzle exchanges chunks of 16 bytes:
// those of 32, 64, 128 bytes put the lowest 1, 2, 3 bits of the number of the line of 128 over that of the chunk.
var operands = []struct {
	name            string
	down            bool
	leading, stride uint64
	swizzle         int
	at              map[[2]int]int // by line and k, from the start on
}{
	{"K-major, no swizzle: ((8,m),(8,2)):((8,SBO),(1,LBO))", false, 128, 256, unswizzled, map[[2]int]int{
		{0, 0}: 0, {0, 7}: 14, {1, 0}: 16, {7, 0}: 112, {0, 8}: 128, {8, 0}: 256, {9, 9}: 256 + 128 + 16 + 2,
	}},
	{"K-major, 32 bytes: ((8,m),(8,2)):((16,SBO),(1,8))", false, 16, 256, swizzle32, map[[2]int]int{
		{0, 8}: 16, {1, 0}: 32, {3, 8}: 112, {4, 0}: 128 + 16, {4, 8}: 128, {8, 0}: 256,
	}},
	{"K-major, 64 bytes: ((8,m),(8,2)):((32,SBO),(1,8))", false, 16, 512, swizzle64, map[[2]int]int{
		{0, 8}: 16, {1, 0}: 64, {2, 0}: 128 + 16, {2, 8}: 128, {4, 0}: 256 + 32, {7, 8}: 384 + 64 + (1^3)*16, {8, 0}: 512,
	}},
	{"K-major, 128 bytes: ((8,m),(8,2)):((64,SBO),(1,8))", false, 16, 1024, swizzle128, map[[2]int]int{
		{0, 8}: 16, {0, 15}: 30, {1, 0}: 128 + 16, {1, 8}: 128, {7, 0}: 7*128 + 7*16, {7, 15}: 7*128 + 6*16 + 14, {8, 0}: 1024, {63, 0}: 7*1024 + 7*128 + 7*16,
	}},
	{"MN-major, no swizzle: ((8,1,2),(8,2)):((1,8,64),(8,128)), LBO 128, SBO 64 elements", true, 256, 128, unswizzled, map[[2]int]int{
		{1, 0}: 2, {7, 0}: 14, {8, 0}: 128, {9, 0}: 130, {0, 1}: 16, {0, 7}: 112, {0, 8}: 256, {15, 15}: 128 + 14 + 256 + 112,
	}},
	{"MN-major, 32 bytes: ((8,2,2),(8,2)):((1,8,128),(16,256)), LBO 128, SBO 256 elements", true, 256, 512, swizzle32, map[[2]int]int{
		{1, 0}: 2, {8, 0}: 16, {16, 0}: 256, {0, 1}: 32, {0, 4}: 128 + 16, {8, 4}: 128, {0, 8}: 512, {24, 15}: 256 + 512 + 128 + 96,
	}},
	{"MN-major, 64 bytes: ((8,4,2),(8,2)):((1,8,256),(32,512)), LBO 256, SBO 512 elements", true, 512, 1024, swizzle64, map[[2]int]int{
		{8, 0}: 16, {31, 0}: 62, {32, 0}: 512, {0, 1}: 64, {0, 2}: 128 + 16, {24, 2}: 128 + 32, {0, 4}: 256 + 32, {0, 8}: 1024, {32, 9}: 512 + 1024 + 64,
	}},
	{"MN-major, 128 bytes: ((8,8,m),(8,k)):((1,8,LBO),(64,SBO))", true, 8192, 1024, swizzle128, map[[2]int]int{
		{1, 0}: 2, {8, 0}: 16, {63, 0}: 126, {64, 0}: 8192, {0, 1}: 128 + 16, {8, 1}: 128, {0, 7}: 7*128 + 7*16, {0, 8}: 1024, {0, 9}: 1024 + 128 + 16,
		{255, 15}: 3*8192 + 1024 + 7*128 + 14, {200, 10}: 3*8192 + 1024 + 2*128 + (1^2)*16,
	}},
	{"MN-major, 128 bytes, the next 8 of k further than the next 64 lines", true, 1024, 8192, swizzle128, map[[2]int]int{
		{64, 0}: 1024, {0, 8}: 8192, {64, 9}: 1024 + 8192 + 128 + 16,
	}},
}

func TestDescriptors(t *testing.T) {
	l := library(t)
	for _, o := range operands {
		for _, start := range []uint64{0x400, 0x2000} {
			for at, want := range o.at {
				d := descriptor(start, o.leading, o.stride, o.swizzle)
				if got := l.OperandAt(d, o.down, at[0], at[1]); got != int(start)+want {
					t.Errorf("%s: k %d of line %d is %d bytes from the start on, want %d", o.name, at[1], at[0], got-int(start), want)
				}
			}
		}
	}
	// 16 values of k further: 32 bytes along lines of 128, 16 lines down them. The swizzle goes by addresses, not by the start.
	along, down := descriptor(0x400, 16, 1024, swizzle128)+2, descriptor(0x400, 8192, 1024, swizzle128)+128
	for _, c := range []struct {
		descriptor uint64
		down       bool
		i, k, want int
	}{
		{along, false, 0, 0, 0x400 + 32}, {along, false, 1, 0, 0x400 + 128 + (2^1)*16}, {along, false, 6, 8, 0x400 + 6*128 + (3^6)*16},
		{down, true, 0, 0, 0x400 + 2048}, {down, true, 70, 3, 0x400 + 2048 + 8192 + 3*128 + (0^3)*16 + 12}, {down, true, 0, 8, 0x400 + 3072},
	} {
		if got := l.OperandAt(c.descriptor, c.down, c.i, c.k); got != c.want {
			t.Errorf("descriptor %x: k %d of line %d is at %d, want %d", c.descriptor, c.k, c.i, got, c.want)
		}
	}
}

var descriptorsOp = kernels.Op{Name: "descriptors", Size: unsafe.Sizeof(descriptorsArgs{}), CUDA: func(kernels.GPU, unsafe.Pointer) kernels.Grid {
	return kernels.Grid{X: 1, Y: 1, Threads: 32, Shared: 4096}
}}

type descriptorsArgs struct{ y kernels.Ptr }

// What ptx.cuh makes of an address, bit by bit.
func TestShippedDescriptors(t *testing.T) {
	c := open(t, emu.Plain)
	y, err := c.dev.Alloc(3 * 8)
	if err != nil {
		t.Fatal(err)
	}
	launch(c.q, &descriptorsOp, descriptorsArgs{y})
	got, err := fetch[uint64](t, c, y, 3)
	if err != nil {
		t.Fatal(err)
	}
	start := got[0]
	if start%1024 != 0 {
		t.Errorf("a matrix at %d", start)
	}
	if want := descriptor(start, 16, 1024, swizzle128); got[1] != want {
		t.Errorf("with k along lines: %x, want %x", got[1], want)
	}
	if want := descriptor(start, 8192, 1024, swizzle128); got[2] != want {
		t.Errorf("with k down lines: %x, want %x", got[2], want)
	}
}
