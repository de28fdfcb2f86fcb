package kernels

import "math"

// SplitMaster cuts a float32 master into the bfloat16 weight that computes and 16 bits that bring the master back. The
// weight is the master rounded to nearest, and a tie goes away from zero. It cannot go to even: of the 2³² masters 65,537
// would round to an even weight, one more than 16 bits tell apart. Away from zero every weight has 65,536, and
//
//	master = weight·2¹⁶ + low    as bits, low signed: -32,768 (the tie) to 32,767
//
// The carry of a mantissa that rounds up into the exponent, subnormals and infinity (which is what the largest masters
// round to) follow from that sum. A NaN is not rounded but made quiet, and low is then its lower half, unsigned.
func SplitMaster(x float32) (w, low uint16) {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40, uint16(b)
	}
	return uint16((b + 0x8000) >> 16), uint16(b)
}

// JoinMaster is the master that SplitMaster cut.
func JoinMaster(w, low uint16) float32 {
	if w&0x7fff > 0x7f80 {
		return math.Float32frombits(uint32(w)<<16 | uint32(low))
	}
	return math.Float32frombits(uint32(w)<<16 + uint32(int32(int16(low))))
}
