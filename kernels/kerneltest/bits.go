package kerneltest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"testing"
)

// Two devices that cannot be in one machine, the emulated card and a real one, are compared by what their kernels write.
// BitsOut names a file to which a test appends, line by line, a hash of everything that it reads from GPUs; BitsIn one that
// such a run has written, to whose hashes this run's must be equal. Inputs must be the same: set SeedVariable for both.
const (
	BitsOut = "TANDEM_BITS_OUT"
	BitsIn  = "TANDEM_BITS_IN"
)

// Bits are the hashes of what one test has read, in order.
type Bits struct {
	Test string   `json:"test"`
	Read []string `json:"read"`
}

// A witness collects what a test reads from one GPU.
type witness struct {
	t    testing.TB
	bits Bits
}

// newWitness is nil unless bits are to be written or compared.
func newWitness(t testing.TB) *witness {
	if os.Getenv(BitsOut) == "" && os.Getenv(BitsIn) == "" {
		return nil
	}
	w := &witness{t: t, bits: Bits{Test: t.Name()}}
	t.Cleanup(w.end)
	return w
}

func (w *witness) saw(b []byte) {
	if w == nil {
		return
	}
	h := fnv.New64a()
	h.Write(b)
	w.bits.Read = append(w.bits.Read, fmt.Sprintf("%016x", h.Sum64()))
}

func (w *witness) end() {
	if name := os.Getenv(BitsOut); name != "" {
		if err := appendLine(name, w.bits); err != nil {
			w.t.Errorf("keep the bits: %v", err)
		}
	}
	if name := os.Getenv(BitsIn); name != "" {
		w.compare(name)
	}
}

// compare fails unless the reads are those of one of the test's devices in the file.
func (w *witness) compare(name string) {
	all, err := findBits(name, w.bits.Test)
	if err != nil {
		w.t.Errorf("compare the bits: %v", err)
		return
	}
	same := 0 // how far the best of them goes
	for _, want := range all {
		if slices.Equal(w.bits.Read, want) {
			return
		}
		n := 0
		for n < min(len(want), len(w.bits.Read)) && want[n] == w.bits.Read[n] {
			n++
		}
		same = max(same, n)
	}
	w.t.Errorf("bits: %d results were read; after %d of them they are not those in %s", len(w.bits.Read), same, name)
}

func appendLine(name string, b Bits) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	line, err := json.Marshal(b)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	return errors.Join(err, f.Close())
}

// findBits is what the test's devices have read, by a file.
func findBits(name, test string) (all [][]string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var b Bits
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if b.Test == test {
			all = append(all, b.Read)
		}
	}
	if all == nil {
		return nil, fmt.Errorf("%s has none of %s", name, test)
	}
	return all, lines.Err()
}
