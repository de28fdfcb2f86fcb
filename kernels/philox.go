package kernels

import "math/bits"

// Philox is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): 128
// random bits that are a function of a key and a counter. The key's lower half is its first word.
func Philox(key uint64, c0, c1, c2, c3 uint32) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	for range 10 {
		hi0, lo0 := bits.Mul32(0xd2511f53, c0)
		hi1, lo1 := bits.Mul32(0xcd9e8d57, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
		k0 += 0x9e3779b9 // the golden ratio
		k1 += 0xbb67ae85 // √3 - 1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// Seed is the first 64 bits of Philox, its first word the lower half: the key of a stream that has a place of its own.
func Seed(key uint64, c0, c1, c2, c3 uint32) uint64 {
	r := Philox(key, c0, c1, c2, c3)
	return uint64(r[1])<<32 | uint64(r[0])
}

// uniform is the first 53 of the bits, in [0, 1).
func uniform(r [4]uint32) float64 {
	return float64((uint64(r[0])<<32|uint64(r[1]))>>11) * 0x1p-53
}
