package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"
)

// ToBF16 rounds to the nearest bfloat16, ties to even. NaN stays NaN: its quiet bit is set, since rounding
// could carry its payload into infinity.
func ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBF16 is exact.
func FromBF16(u uint16) float32 { return math.Float32frombits(uint32(u) << 16) }

// Convertible reports whether Convert knows a dtype.
func Convertible(d DType) bool { return d == BF16 || d == F16 || d == F32 }

// Convert writes the elements of src, which are from, as to. Each is rounded at most once, to nearest, ties
// to even. dst and src are little-endian bytes of the same number of elements; neither need be aligned, and
// they must not overlap. It panics on sizes that differ and on dtypes that Convertible refuses.
func Convert(dst []byte, to DType, src []byte, from DType) {
	if !Convertible(to) || !Convertible(from) {
		panic(fmt.Sprintf("safetensors.Convert: %s to %s", from, to))
	}
	n := len(src) / (from.Bits() / 8)
	if len(dst) != n*to.Bits()/8 || len(src) != n*from.Bits()/8 {
		panic(fmt.Sprintf("safetensors.Convert: %d bytes of %s into %d bytes of %s", len(src), from, len(dst), to))
	}
	switch {
	case from == to:
		copy(dst, src)
		return
	case from == BF16 && to == F32: // what loading a published model in float32 spends its time on
		widen(dst, src)
		return
	}
	var buf [512]float32
	from8, to8 := from.Bits()/8, to.Bits()/8
	for lo := 0; lo < n; lo += len(buf) {
		hi := min(lo+len(buf), n)
		decode(buf[:hi-lo], src[lo*from8:], from)
		encode(dst[lo*to8:], buf[:hi-lo], to)
	}
}

// widen puts two zero bytes below each element, four elements at a time.
func widen(dst, src []byte) {
	for len(src) >= 8 && len(dst) >= 16 {
		w := binary.LittleEndian.Uint64(src)
		binary.LittleEndian.PutUint64(dst, w&0xffff<<16|w&0xffff0000<<32)
		binary.LittleEndian.PutUint64(dst[8:], w>>32&0xffff<<16|w>>48<<48)
		src, dst = src[8:], dst[16:]
	}
	for len(src) >= 2 && len(dst) >= 4 {
		binary.LittleEndian.PutUint32(dst, uint32(binary.LittleEndian.Uint16(src))<<16)
		src, dst = src[2:], dst[4:]
	}
}

func decode(dst []float32, src []byte, from DType) {
	switch from {
	case BF16:
		for i := range dst {
			dst[i] = FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = float16.Frombits(binary.LittleEndian.Uint16(src[2*i:])).Float32()
		}
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
}

func encode(dst []byte, src []float32, to DType) {
	switch to {
	case BF16:
		for i, f := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], ToBF16(f))
		}
	case F16:
		for i, f := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], float16.Fromfloat32(f).Bits())
		}
	case F32:
		for i, f := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
		}
	}
}

// NonFinite returns the index of the first NaN or infinity among little-endian elements, or -1.
func NonFinite(data []byte, d DType) int {
	var exponent, one uint64 // an element's exponent bits, and the lowest of them, in every lane of a word
	switch d {
	case BF16:
		exponent, one = 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080
	case F16:
		exponent, one = 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400
	case F32:
		exponent, one = 0x7f80_0000_7f80_0000, 0x0080_0000_0080_0000
	default:
		panic(fmt.Sprintf("safetensors.NonFinite: %s", d))
	}
	size := d.Bits() / 8
	// Adding one to an exponent of all ones, and to no other, carries into the sign bit, which was masked out.
	sign := exponent + one
	i := 0
	for ; i+32 <= len(data); i += 32 {
		d := data[i : i+32 : i+32]
		a := binary.LittleEndian.Uint64(d)&exponent + one
		b := binary.LittleEndian.Uint64(d[8:])&exponent + one
		c := binary.LittleEndian.Uint64(d[16:])&exponent + one
		e := binary.LittleEndian.Uint64(d[24:])&exponent + one
		if (a|b|c|e)&sign != 0 {
			break
		}
	}
	for ; i+size <= len(data); i += size {
		var w uint64
		if size == 2 {
			w = uint64(binary.LittleEndian.Uint16(data[i:]))
		} else {
			w = uint64(binary.LittleEndian.Uint32(data[i:]))
		}
		if (w&exponent+one)&sign&(1<<(8*size)-1) != 0 {
			return i / size
		}
	}
	return -1
}
