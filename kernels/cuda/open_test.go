package cuda_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/cuda"
)

// Every way in which a card can't be had ends with a sentence that says why, and with ErrNone if and only if there is
// nothing to be had.
func TestOpenRefused(t *testing.T) {
	nothing := cuda.Images{}
	onlyHopper := images()
	onlyHopper.List = onlyHopper.List[:1]
	for _, c := range []struct {
		name   string
		macros []string
		cfg    cuda.Config
		none   bool
		says   []string
	}{
		{"no card", []string{"COUNT=0"}, cuda.Config{}, true, []string{"finds no card", "CUDA_VISIBLE_DEVICES"}},
		{"the driver does not start", []string{"INIT=100"}, cuda.Config{}, true, []string{"start ", "cuInit", "100"}},
		{"a card of an earlier kind", []string{"MAJOR=8", `NAME="A100"`}, cuda.Config{}, true, []string{"A100 has compute capability 8.0", "9.0 (H100) or later"}},
		{"a card of a later kind without PTX", []string{"MAJOR=10", "MINOR=3", `NAME="B300"`}, cuda.Config{Images: onlyHopper}, true, []string{"no kernels for B300", "compute_90"}},
		{"a card number that is none", nil, cuda.Config{Index: 3}, false, []string{"no card 3", "has 1"}},
		{"a card that others have filled", []string{"RETAIN=2"}, cuda.Config{}, false, []string{"make a context on Fake H200", "CUDA_ERROR_OUT_OF_MEMORY", "other processes have filled the card"}},
		{"a card that another process has to itself", []string{"RETAIN=46", "MODE=3"}, cuda.Config{}, false, []string{"exclusive mode", "another process has it"}},
		{"a card that lets nobody compute", []string{"RETAIN=46", "MODE=2"}, cuda.Config{}, false, []string{"lets no process compute"}},
		{"a driver older than the kernels", []string{"LOAD=222", "VERSION=12040"}, cuda.Config{}, false, []string{"load fake.sm_90a.cubin on Fake H200", "for CUDA 12.4", "compiled by 13.0", "update the driver"}},
		{"an image that is broken", []string{"LOAD=200"}, cuda.Config{}, false, []string{"load fake.sm_90a.cubin on Fake H200", "200"}},
		{"an entry that is missing", nil, cuda.Config{Images: cuda.Images{List: []cuda.Image{{Name: "x.sm_90a.cubin", Entries: []string{"gone"}, Data: []byte("add")}}}}, false, []string{"kernel gone", "not among those for Fake H200"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Driver = compile(t, c.macros...)
			if c.cfg.Images.List == nil {
				c.cfg.Images = images()
			}
			dev, err := cuda.Open(c.cfg)
			if dev != nil {
				t.Error("there is a device")
			}
			says(t, err, c.says...)
			if errors.Is(err, cuda.ErrNone) != c.none {
				t.Errorf("is ErrNone: %v, want %v: %v", !c.none, c.none, err)
			}
		})
	}
	t.Run("no kernels in the binary", func(t *testing.T) {
		if len(cuda.Embedded().List) > 0 {
			t.Skip("there are some")
		}
		file := compile(t)
		_, err := cuda.Open(cuda.Config{Driver: file, Images: nothing})
		says(t, err, "built without CUDA kernels", "make kernels")
		if !errors.Is(err, cuda.ErrNone) {
			t.Errorf("not ErrNone: %v", err)
		}
	})
}

func TestOpenNoDriver(t *testing.T) {
	for name, file := range map[string]string{
		"missing":    filepath.Join(t.TempDir(), "libcuda-gone.so"),
		"no driver":  "libm.so.6",
		"no library": "driver.go",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cuda.Open(cuda.Config{Driver: file})
			says(t, err, "open the driver", filepath.Base(file))
			if !errors.Is(err, cuda.ErrNone) {
				t.Errorf("not ErrNone: %v", err)
			}
			if _, err := cuda.Cards(file); !errors.Is(err, cuda.ErrNone) {
				t.Errorf("cards: %v", err)
			}
		})
	}
}

// Each card gets the images that run on it; an emulated one needs none.
func TestOpen(t *testing.T) {
	for _, c := range []struct {
		name   string
		macros []string
		want   string
	}{
		{"H200", nil, "cuda (Fake H200)"},
		{"B200", []string{"MAJOR=10", `NAME="B200"`}, "cuda (B200)"},
		{"later", []string{"MAJOR=12", `NAME="later"`}, "cuda (later)"},
		{"emulated", []string{"EMULATED", "MAJOR=8", `NAME="host"`}, "cuda (emulated: host)"},
		{"a driver of before with kernels that it runs", []string{"VERSION=12090"}, "cuda (Fake H200)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, cuda.Config{}, c.macros...)
			if d.Name() != c.want {
				t.Errorf("name %q, want %q", d.Name(), c.want)
			}
			if g := d.Card().GPU; g.SMs != 132 || g.Shared != 232448 {
				t.Errorf("the card is %+v", g)
			}
		})
	}
}

// Two devices on one card share its context, and one process sees what the other has taken.
func TestTwoOnOneCard(t *testing.T) {
	file := compile(t)
	var devs [2]*cuda.Device
	for i := range devs {
		var err error
		if devs[i], err = cuda.Open(cuda.Config{Driver: file, Images: images()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := devs[0].Alloc(40 << 20); err != nil {
		t.Fatal(err)
	}
	_, err := devs[1].Alloc(40 << 20)
	says(t, err, "allocate 41943040 bytes (40.0 MiB)", "24.0 MiB of 64.0 MiB are free on Fake H200", "this process holds 0.0 MiB", "others may hold some")
	for _, d := range devs {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}

// Where the system tells what is ours, what others take is no part of it; else it can't be told apart.
func TestUsageBesideOthers(t *testing.T) {
	file := compile(t)
	var devs [2]*cuda.Device // the second stands for another process: what it takes is not in the first one's arenas
	for i := range devs {
		var err error
		if devs[i], err = cuda.Open(cuda.Config{Driver: file, Images: images()}); err != nil {
			t.Fatal(err)
		}
		defer devs[i].Close()
	}
	for i, bytes := range []int{10 << 20, 20 << 20} {
		if _, err := devs[i].Alloc(bytes); err != nil {
			t.Fatal(err)
		}
	}
	const free = 34 << 20
	own, ok := 13<<20, false
	devs[0].SetOwn(func() (int, bool) { return own, ok })
	for _, want := range []kernels.Usage{
		{Free: free, Taken: 10 << 20, Beyond: 20 << 20},
		{Free: free, Taken: 10 << 20, Beyond: 3 << 20, Exact: true},
	} {
		if ok = want.Exact; ok && want.Ours() != 47<<20 {
			t.Errorf("ours are %d", want.Ours())
		}
		if u, err := devs[0].Usage(); err != nil || u != want {
			t.Errorf("%+v, %v, want %+v", u, err, want)
		}
	}
	own = 9 << 20 // as a library that counts late may say
	if u, err := devs[0].Usage(); err != nil || u.Beyond != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// What the index lists is there and has code for its card, every entry is for every card but where a file is for Hopper
// alone, and all of it can be loaded.
func TestEmbedded(t *testing.T) {
	m := cuda.Embedded()
	if len(m.List) == 0 {
		t.Skip("this binary has ", m)
	}
	t.Log(m)
	on := map[string][]string{} // entries by architecture
	for _, i := range m.List {
		if len(i.Data) == 0 || len(i.Entries) == 0 {
			t.Errorf("image %s: %d bytes, entries %q", i.Name, len(i.Data), i.Entries)
		}
		arch := strings.Split(i.Name, ".")[1]
		if !strings.Contains(i.Name, "_sm90.") {
			on[arch] = append(on[arch], i.Entries...)
		}
	}
	for arch, entries := range on {
		slices.Sort(entries)
		if !slices.Equal(entries, slices.Sorted(slices.Values(on[cuda.Hopper]))) {
			t.Errorf("%s has entries %q, %s has %q", arch, entries, cuda.Hopper, on[cuda.Hopper])
		}
	}
	if len(on) != 3 {
		t.Errorf("images for %d architectures, want 3", len(on))
	}
	// The driver of these tests takes no images of that size for text that it could understand, but loads them.
	for _, macros := range [][]string{nil, {"MAJOR=10"}, {"MAJOR=12"}} {
		dev, err := cuda.Open(cuda.Config{Driver: compile(t, append(macros, "ANY")...)})
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}
