package kernels_test

import (
	"strings"
	"testing"

	"tandem/kernels/cuda"
	"tandem/kernels/emu"
)

// TestFormsCUDA opens cards whose Hopper forms keep their promise of bits, and cards on which one of them does not, or fails.
func TestFormsCUDA(t *testing.T) {
	file := emu.Find(emu.Checked)
	if file == "" {
		t.Skipf("there is no %s, which make emu builds", emu.Checked)
	}
	for _, c := range []struct {
		name, setting, value, usual string
		forms                       cuda.Forms
		hopper                      bool
		says                        string
	}{
		{"as it is", "plant", "", "", cuda.Proved, true, ""},
		{"without being asked", "plant", "attention_sm90_mask", "", cuda.Trusted, true, ""},
		{"not wanted", "plant", "", "", cuda.Plain, false, ""},
		{"another card", "capability", "10.0", "9.0", cuda.Proved, false, ""},
		{"other bits", "plant", "attention_sm90_mask", "", cuda.Proved, false, "attention gives other bits"},
		{"a fault", "skip", place(t, "gemm_sm90.cuh: wgmma_fence();"), "", cuda.Proved, false, "cuda: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, set := steer(t, file)
			set(c.setting, c.value)
			defer set(c.setting, c.usual)
			d, err := cuda.Open(cuda.Config{Driver: file, Forms: c.forms})
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Card().GPU.Hopper; got != c.hopper || !strings.Contains(d.Forms(), c.says) || (c.says == "") != (d.Forms() == "") {
				t.Errorf("Hopper's forms: %t, %q", got, d.Forms())
			}
			t.Log(d.Forms())
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// place is where a line of a kernel stands.
func place(t *testing.T, key string) string {
	for _, s := range sites(t) {
		if s.key == key {
			return s.place
		}
	}
	t.Fatalf("there is no %q", key)
	return ""
}
