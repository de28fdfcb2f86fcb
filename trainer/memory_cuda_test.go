package trainer

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/cuda"
	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// A witnessed card counts what is taken from it, and notes what is launched.
type witnessed struct {
	*cuda.Device
	times   int
	entries map[string]map[string]bool // launched, as each kind of card would
}

func (w *witnessed) Alloc(n int) (kernels.Ptr, error) {
	w.times++
	return w.Device.Alloc(n)
}

func (w *witnessed) Pinned(n int) (kernels.Ptr, []byte, error) {
	w.times++
	return w.Device.Pinned(n)
}

func (w *witnessed) NewQueue() (kernels.Queue, error) {
	w.times++
	q, err := w.Device.NewQueue()
	return witnessedQueue{q, w}, err
}

type witnessedQueue struct {
	kernels.Queue
	w *witnessed
}

func (q witnessedQueue) Launch(l kernels.Launch) {
	for _, gpu := range []kernels.GPU{{Major: 9}, {Major: 9, Hopper: true}, {Major: 10}} {
		card := fmt.Sprintf("sm_%d0a", gpu.Major)
		for _, gpu.SMs = range []int{1, 132, 1 << 20} { // shapes are chosen by how many multiprocessors there are
			gpu.Shared = 227 << 10
			g := l.Op.CUDA(gpu, unsafe.Pointer(&l.Args[0]))
			name := g.Kernel
			if name == "" {
				name = l.Op.Name
			}
			if q.w.entries[card] == nil {
				q.w.entries[card] = map[string]bool{}
			}
			q.w.entries[card][name] = true
		}
	}
	q.Queue.Launch(l)
}

// sized is the emulated card with so many bytes.
func sized(t *testing.T, bytes int) (*emu.Library, *witnessed) {
	t.Helper()
	dev := emulated(t)
	lib, err := emu.Open(kerneltest.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	whole := dev.Card().Memory
	set := func(bytes int) {
		if err := lib.Set("memory", strconv.Itoa(bytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	set(bytes) // before it is opened, as it looks at what is free then
	t.Cleanup(func() { set(whole) })
	return lib, &witnessed{Device: emulated(t), entries: map[string]map[string]bool{}}
}

// cudaRecipe is a short run with everything that takes memory late, if it does: warm-up, a reference, several batch sizes.
func cudaRecipe() Recipe {
	r := testRecipe()
	r.Warmup.Steps, r.Warmup.Samples = 1, 4
	r.Rollout.Prompts, r.Rollout.Samples, r.Rollout.Waves = 3, 4, 1
	r.Algorithm.KL = 0.1
	r.Train.Steps = 3
	r.Evaluation = EvaluationConfig{Problems: 2, Samples: 1}
	return r
}

// TestStepTakesNothingCUDA trains on the emulated card: what the plan says is taken at the start, nothing after it, neither
// from the device nor by it, and no kernel is launched but those of the images, all of which are loaded when a card is opened.
// What others take then is not said to be the run's.
func TestStepTakesNothingCUDA(t *testing.T) {
	const memory = 4 << 30
	lib, dev := sized(t, memory)
	r := cudaRecipe()
	tr := newTestTrainerOn(t, dev, r, nil)
	defer tr.Close()
	start, err := dev.Usage()
	if err != nil {
		t.Fatal(err)
	}
	plan := NewPlan(r, testConfig(t), kernels.BF16, MachineOf(dev.Device))
	if start.Taken != plan.Taken() || start.Free != memory-start.Taken {
		t.Errorf("the run takes %+v, the plan says %d:\n%v", start, plan.Taken(), plan)
	}
	times := dev.times
	for range r.Steps() - 1 {
		m, err := tr.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.Memory != plan.Taken() || m.MemoryPlanned != m.Memory || m.MemoryBeyond == nil || *m.MemoryBeyond != 0 {
			t.Errorf("step %d: %d bytes are taken, %d were planned, %v beside them", m.Step, m.Memory, m.MemoryPlanned, m.MemoryBeyond)
		}
	}
	if _, err := tr.Evaluate(t.Context(), true, 0); err != nil {
		t.Fatal(err)
	}
	if now, err := dev.Usage(); err != nil || now != start || dev.times != times {
		t.Errorf("%d pieces were taken after the start: %+v, then %+v, %v", dev.times-times, start, now, err)
	}
	remarks(tr.Notes()).are(t, "after a first step of everything: "+size(plan.Taken())+" in arenas, as planned, and 0.0 KiB beside them")
	if err := lib.Set("memory", strconv.Itoa(memory/2)); err != nil { // others take the rest
		t.Fatal(err)
	}
	if _, err := tr.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	remarks(tr.Notes()).are(t, "2.00 GiB of the card are gone beside the run's arenas (kernels, graphs, and what other processes took since this one began), which can't be told apart")
	facts, err := os.ReadFile(filepath.Join("..", "bench", "ptxas.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for card, entries := range dev.entries {
		if len(entries) < 20 {
			t.Errorf("only %d kernels were launched on %s", len(entries), card)
		}
		for name := range entries {
			if !regexp.MustCompile(`(?m)^` + name + ` +` + card + ` `).Match(facts) {
				t.Errorf("kernel %s is launched on %s, and no image has it", name, card)
			}
		}
	}
}

// TestPlaceOnACardCUDA plans by what is free on the card: what does not fit is refused with both figures and the largest
// setting that does, which does.
func TestPlaceOnACardCUDA(t *testing.T) {
	r := cudaRecipe()
	r.Model.Context, r.Train.Rows, r.Rollout.Rows = 64, 1<<14, 64
	c := testConfig(t)
	small := r
	small.Train.Rows = 1024
	memory := NewPlan(small, c, kernels.BF16, Machine{Card: &Card{}}).Total()
	_, dev := sized(t, memory)
	if _, err := dev.Alloc(1 << 20); err != nil { // as the weights of another device would
		t.Fatal(err)
	}
	free, err := dev.FreeMemory()
	if err != nil || free != memory-1<<20 {
		t.Fatalf("%d bytes are free, %v", free, err)
	}
	_, err = Place(r, c, kernels.BF16, MachineOf(dev).On(dev, free))
	if err == nil {
		t.Fatal("it fits")
	}
	for _, s := range []string{"the run needs ", size(memory) + " are free", "--set train.rows="} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in: %v", s, err)
		}
	}
	setting := regexp.MustCompile(`train\.rows=\d+`).FindString(err.Error())
	fits, err := ParseRecipe(r.TOML(), setting)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Place(fits, c, kernels.BF16, MachineOf(dev).On(dev, free))
	if err != nil {
		t.Fatalf("%s: %v", setting, err)
	}
	chosen := plan.Chosen(fits)
	chosen.Warmup.Steps, chosen.Train.Steps = 1, 0
	tr := newTestTrainerOn(t, dev, chosen, nil)
	defer tr.Close()
	if _, err := tr.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}
