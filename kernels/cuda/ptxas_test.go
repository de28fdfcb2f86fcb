package cuda_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// spills are the kernels that may keep registers in memory, by name and card, each with the reason why that is well spent.
var spills = map[string]string{
	"attention_128 sm_90a": "a few words for a tile of 128 keys beside 256 MMAs; on this card only pages where TMA's boxes don't fit come here",
}

// bench/ptxas.txt is what nvcc makes of the sources, with the dynamic shared memory of bench/shared.txt, and no kernel spills
// without a reason. Without the compiler that the file names, only the files are looked at.
func TestPtxas(t *testing.T) {
	want, err := os.ReadFile("../../bench/ptxas.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(want)), "\n")
	shared, err := os.ReadFile("../../bench/shared.txt") // which TestSharedMemory of bench holds to the launches
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[min(2, len(lines)):] {
		words := strings.Fields(l)
		if len(words) < 8 {
			t.Errorf("bench/ptxas.txt: %q", l)
			continue
		}
		if row := fmt.Sprintf("\n%s %s %s\n", words[0], words[1], words[5]); !strings.Contains(string(shared), row) {
			t.Errorf("%s on %s: %s bytes of dynamic shared memory are not what launches ask for: go test ./bench -run Shared -write, then make kernels", words[0], words[1], words[5])
		}
		if reason := spills[words[0]+" "+words[1]]; words[3] == "0" && reason != "" {
			t.Errorf("%s does not spill on %s: the reason why it may can go", words[0], words[1])
		}
		if n, err := strconv.Atoi(words[3]); err != nil || n > 0 && spills[words[0]+" "+words[1]] == "" {
			t.Errorf("%s spills %s bytes on %s: split it or take fewer registers; if it must be, say why in this file", words[0], words[3], words[1])
		}
	}
	cmd := exec.Command("./build.sh", "../../build/cuda")
	cmd.Env = append(os.Environ(), "TANDEM_OFFLINE=1")
	out, err := cmd.CombinedOutput()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) && e.ExitCode() == 3 {
		t.Skip("there is no nvcc; make kernels fetches it")
	}
	if err != nil {
		t.Fatalf("compile the kernels: %v\n%s", err, out)
	}
	got, err := os.ReadFile("../../build/cuda/ptxas.txt")
	if err != nil {
		t.Fatal(err)
	}
	now := strings.Split(strings.TrimSpace(string(got)), "\n")
	if now[0] != lines[0] {
		t.Skipf("another compiler: %s", now[0])
	}
	if d := differ(lines, now); d != "" {
		t.Errorf("bench/ptxas.txt is not what the sources give: run make kernels and commit it\n%s", d)
	}
}

// differ lists the lines that only one of two files has.
func differ(was, is []string) string {
	count := map[string]int{}
	for _, l := range was {
		count[l]--
	}
	for _, l := range is {
		count[l]++
	}
	var b strings.Builder
	for _, l := range was {
		if count[l] < 0 {
			fmt.Fprintf(&b, "- %s\n", l)
		}
	}
	for _, l := range is {
		if count[l] > 0 {
			fmt.Fprintf(&b, "+ %s\n", l)
		}
	}
	return b.String()
}
