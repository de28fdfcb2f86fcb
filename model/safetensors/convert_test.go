package safetensors

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestToBF16(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name string
		f    float32
		want uint16
	}{
		{"exact", 1, 0x3f80},
		{"below the middle", 1.001953125, 0x3f80},
		{"above the middle", 1.005859375, 0x3f81},
		{"middle, to the even below", 1.00390625, 0x3f80},
		{"middle, to the even above", 1.01171875, 0x3f82},
		{"negative", -1.01171875, 0xbf82},
		{"minus zero", float32(math.Copysign(0, -1)), 0x8000},
		{"smallest denormal", math.SmallestNonzeroFloat32, 0},
		{"denormal", math.Float32frombits(0x00018000), 0x0002},
		{"largest that stays finite", math.Float32frombits(0x7f7f7fff), 0x7f7f},
		{"rounds to infinity", math.MaxFloat32, 0x7f80},
		{"infinity", inf, 0x7f80},
		{"minus infinity", -inf, 0xff80},
		{"quiet NaN", math.Float32frombits(0x7fc00000), 0x7fc0},
		{"NaN that a carry would make minus zero", math.Float32frombits(0x7fffffff), 0x7fff},
		{"NaN with a low payload", math.Float32frombits(0x7f800001), 0x7fc0},
		{"negative NaN", math.Float32frombits(0xffffffff), 0xffff},
	} {
		if got := ToBF16(c.f); got != c.want {
			t.Errorf("%s: ToBF16(%v) = %#04x, want %#04x", c.name, c.f, got, c.want)
		}
	}
	for u := range 1 << 16 {
		f := FromBF16(uint16(u))
		if f == f && ToBF16(f) != uint16(u) {
			t.Fatalf("%#04x comes back as %#04x", u, ToBF16(f))
		}
	}
}

// pack returns v as little-endian elements of d.
func pack(d DType, v ...float32) []byte {
	var f32 []byte
	for _, x := range v {
		f32 = binary.LittleEndian.AppendUint32(f32, math.Float32bits(x))
	}
	b := make([]byte, len(v)*d.Bits()/8)
	Convert(b, d, f32, F32)
	return b
}

func floats(d DType, b []byte) []float32 {
	f32 := make([]byte, len(b)/(d.Bits()/8)*4)
	Convert(f32, F32, b, d)
	v := make([]float32, len(f32)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(f32[4*i:]))
	}
	return v
}

func TestConvert(t *testing.T) {
	v := []float32{0, 1, -2.5, 0.0001, 65504, -3.140625}
	for i := range 1500 { // past the block that Convert works in
		v = append(v, float32(i)/7)
	}
	for _, from := range []DType{F32, F16, BF16} {
		for _, to := range []DType{F32, F16, BF16} {
			src := floats(from, pack(from, v...)) // what from can hold of v
			dst := make([]byte, len(v)*to.Bits()/8)
			Convert(dst, to, pack(from, v...), from)
			want := floats(to, pack(to, src...))
			for i, got := range floats(to, dst) {
				if got != want[i] {
					t.Errorf("%s to %s: element %d = %v, want %v", from, to, i, got, want[i])
				}
			}
		}
	}
	if got := floats(F16, pack(F16, 1.00048828125, 1.00146484375, 5.960464477539063e-08)); got[0] != 1 || got[1] != 1.001953125 || got[2] != 5.960464477539063e-08 {
		t.Errorf("F16 = %v, want ties to even and denormals", got)
	}
}

func TestNonFinite(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}
	for _, d := range []DType{F32, F16, BF16} {
		for n := range 40 {
			v := make([]float32, n)
			for i := range v {
				v[i] = []float32{0, 65504, -65504, 1, -1, 5.9604645e-08}[r.IntN(6)]
			}
			if got := NonFinite(pack(d, v...), d); got != -1 {
				t.Fatalf("%s, %d finite elements: got %d", d, n, got)
			}
			for i := range v {
				w := append([]float32{}, v...)
				w[i] = bad[r.IntN(3)]
				if i+1 < n {
					w[n-1] = bad[0] // the first counts
				}
				if got := NonFinite(pack(d, w...), d); got != i {
					t.Fatalf("%s, %d elements, %v at %d: got %d", d, n, w[i], i, got)
				}
			}
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	const n = 1 << 20
	for _, c := range []struct{ from, to DType }{{BF16, BF16}, {BF16, F32}, {F32, BF16}, {F16, BF16}} {
		b.Run(string(c.from+"-"+c.to), func(b *testing.B) {
			src, dst := make([]byte, n*c.from.Bits()/8), make([]byte, n*c.to.Bits()/8)
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				Convert(dst, c.to, src, c.from)
			}
		})
	}
}

func BenchmarkNonFinite(b *testing.B) {
	data := make([]byte, 8<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if NonFinite(data, BF16) != -1 {
			b.Fatal("found what is not there")
		}
	}
}
