package kernels_test

import (
	"testing"

	"tandem/kernels"
)

// TestPhilox has the known answers for philox4x32-10 that Random123 publishes (kat_vectors).
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		key     uint64
		counter [4]uint32
		want    [4]uint32
	}{
		{0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			0xffffffff_ffffffff,
			[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			0x299f31d0_a4093822,
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		n := c.counter
		if got := kernels.Philox(c.key, n[0], n[1], n[2], n[3]); got != c.want {
			t.Errorf("key %016x, counter %08x: got %08x, want %08x", c.key, n, got, c.want)
		}
	}
}
