package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestGeneratedIsCommitted(t *testing.T) {
	dir := t.TempDir()
	for stem, emit := range files {
		if err := write(dir, stem, emit); err != nil {
			t.Fatalf("generate %s: %v", stem, err)
		}
		for _, ext := range []string{"_amd64.s", "_amd64.go"} {
			got, err := os.ReadFile(filepath.Join(dir, stem+ext))
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("..", stem+ext))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s%s is not what the generator writes: run go generate ./kernels", stem, ext)
			}
		}
	}
}

// TestDPBF16Bytes has a disassembler read what the Go assembler cannot write.
func TestDPBF16Bytes(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed (apt-get install binutils)")
	}
	var code []byte
	var want []string
	for acc := range 32 {
		for i := range 32 {
			a, b := (acc*7+i*5)%32, i
			bs := dpbf16Bytes(b, a, acc)
			code = append(code, bs[:]...)
			want = append(want, fmt.Sprintf("vdpbf16ps %%zmm%d,%%zmm%d,%%zmm%d", b, a, acc))
		}
	}
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "i386:x86-64", file).Output()
	if err != nil {
		t.Fatalf("objdump: %v", err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 {
			got = append(got, f[2])
		}
	}
	if len(got) != len(want) {
		t.Skipf("this objdump sees %d instructions, want %d: it may be too old for AVX512_BF16", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("instruction %d is %q, want %q", i, got[i], want[i])
		}
	}
}
