package model

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"tandem/kernels"
	"tandem/model/safetensors"
)

// files is the names in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// constant gives weights that are all v, as saveFrom reads them.
func constant(c Config, v float32) func(io.Writer, Param) error {
	d := weightDType(c.DType)
	return func(w io.Writer, p Param) error {
		x := safetensors.Tensor{Shape: p.Shape}
		_, err := w.Write(as(x, d, v).Data)
		return err
	}
}

// holds checks that dir is a whole model whose weights are all v.
func holds(t *testing.T, dir string, v float32) {
	t.Helper()
	c, err := ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	dev, win := device(t)
	w, err := NewWeights(dev, c, kernels.F32, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Load(win, dir); err != nil {
		t.Fatal(err)
	}
	for name, b := range arena(t, w, win) {
		for i, got := range Float32s(b) {
			if got != v {
				t.Fatalf("%s: element %d is %v, want %v", name, i, got, v)
			}
		}
	}
}

func tiny(t *testing.T) Config {
	t.Helper()
	c, err := Shape("tiny")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSave(t *testing.T) {
	from := t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json": "{}", "chat_template.jinja": "{{x}}", "LICENSE": "free", "notes.txt": "mine",
		generationName: `{"eos_token_id":[3,5],"temperature":0.6}`, "model.safetensors": "not this one",
	} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, g := range goldens(t) {
		d := []kernels.DType{kernels.F32, kernels.BF16}[i%2]
		t.Run(g.Name+"/"+d.String(), func(t *testing.T) {
			dev, win := device(t)
			w, err := NewWeights(dev, g.Config, d, 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Load(win, g.Dir); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "runs", "out")
			card := Card{From: from, Facts: [][2]string{{"base model", "a|b\nc"}, {"steps", "120"}}}
			if err := w.Save(win, dir, card); err != nil {
				t.Fatal(err)
			}
			want := []string{"LICENSE", "README.md", "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
			if diff := cmp.Diff(want, files(t, dir)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"out"}, files(t, filepath.Dir(dir))); diff != "" {
				t.Error("something was left beside the directory: ", diff)
			}
			config, err := ReadConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			wantConfig := g.Config // with the embedding's rows as they were, whatever the tokenizer has
			wantConfig.EOS, wantConfig.DType = []int32{3, 5}, d.String()
			if diff := cmp.Diff(wantConfig, config); diff != "" {
				t.Error(diff)
			}
			again, err := NewWeights(dev, config, d, 1)
			if err != nil {
				t.Fatal(err)
			}
			if notes, err := again.Load(win, dir); err != nil || len(notes) > 0 {
				t.Fatal(notes, err)
			}
			if diff := cmp.Diff(arena(t, w, win), arena(t, again, win)); diff != "" {
				t.Error("weights differ after saving and loading")
			}
			x := open(t, dir)
			if _, stored := x[headName]; stored == config.Tied {
				t.Errorf("tied is %v and lm_head is stored: %v", config.Tied, stored)
			}
			text, err := os.ReadFile(filepath.Join(dir, readmeName))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"# out\n", "| base model | a\\|b c |\n", "| steps | 120 |\n"} {
				if !strings.Contains(string(text), want) {
					t.Errorf("README lacks %q:\n%s", want, text)
				}
			}
		})
	}
}

func TestSaveRefusesNaN(t *testing.T) {
	dev, win := device(t)
	w, err := NewWeights(dev, tiny(t), kernels.F32, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := Params(w.Config)[5]
	at := w.Arena.Ptr + kernels.Ptr(4*(p.Off+3))
	if err := win.Up(at, 4, func(b []byte) error { copy(b, []byte{0, 0, 0xc0, 0x7f}); return nil }); err != nil {
		t.Fatal(err)
	}
	err = w.Save(win, filepath.Join(t.TempDir(), "out"), Card{})
	if err == nil || !strings.Contains(err.Error(), p.Name) || !strings.Contains(err.Error(), "element 3 is NaN") {
		t.Errorf("got %v", err)
	}
}

func TestSaveReplaces(t *testing.T) {
	parent, c := t.TempDir(), tiny(t)
	dir := filepath.Join(parent, "out")
	link := filepath.Join(parent, "latest")
	if err := os.Symlink("out", link); err != nil {
		t.Fatal(err)
	}
	for i, to := range []string{dir, dir, link} {
		if err := saveFrom(to, c, Card{}, constant(c, float32(i))); err != nil {
			t.Fatal(err)
		}
		holds(t, dir, float32(i))
		if diff := cmp.Diff([]string{"latest", "out"}, files(t, parent)); diff != "" {
			t.Error(diff)
		}
	}
	if to, err := os.Readlink(link); err != nil || to != "out" {
		t.Errorf("the link is now %q, %v", to, err)
	}
}

// TestSaveFails holds a failed save to leaving everything as it was.
func TestSaveFails(t *testing.T) {
	c := tiny(t)
	failing := func(w io.Writer, p Param) error {
		if strings.Contains(p.Name, "layers.2") {
			return unix.ENOSPC
		}
		return constant(c, 2)(w, p)
	}
	short := func(w io.Writer, p Param) error { return nil }
	bad := c
	bad.KVHeads = 3
	for _, k := range []struct {
		name string
		file string // put into the directory before
		c    Config
		card Card
		read func(io.Writer, Param) error
		want string
	}{
		{"full disk", "", c, Card{}, failing, "no space left on device"},
		{"weights not given", "", c, Card{}, short, "bytes were not given"},
		{"bad config", "", bad, Card{}, constant(c, 2), "4 query heads cannot share 3"},
		{"no tokenizer directory", "", c, Card{From: "/nonexistent"}, constant(c, 2), "copy the tokenizer"},
		{"somebody's file", "notes.txt", c, Card{}, constant(c, 2), "it holds notes.txt, which saving would remove"},
		{"somebody's safetensors", "other.safetensors", c, Card{}, constant(c, 2), "it holds other.safetensors"},
	} {
		t.Run(k.name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "out")
			if err := saveFrom(dir, c, Card{}, constant(c, 1)); err != nil {
				t.Fatal(err)
			}
			if k.file != "" {
				if err := os.WriteFile(filepath.Join(dir, k.file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := saveFrom(dir, k.c, k.card, k.read)
			if err == nil || !strings.Contains(err.Error(), k.want) || !strings.HasPrefix(err.Error(), "save "+dir) {
				t.Fatalf("got %v, want %q in it", err, k.want)
			}
			holds(t, dir, 1)
			if diff := cmp.Diff([]string{"out"}, files(t, parent)); diff != "" {
				t.Error(diff)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "out")} {
		if err := saveFrom(dir, c, Card{}, constant(c, 1)); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("save to %s: got %v", dir, err)
		}
	}
}

// TestSaveRealDisk saves to a file system that is too small, then to one that is read-only.
func TestSaveRealDisk(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	defer unix.Unmount(mount, unix.MNT_DETACH)
	c, dir := tiny(t), filepath.Join(mount, "out")
	if err := saveFrom(dir, c, Card{}, constant(c, 1)); err != nil {
		t.Fatal(err)
	}
	err := saveFrom(filepath.Join(mount, "second"), c, Card{}, constant(c, 2))
	for i := 3; err == nil && i < 9; i++ {
		err = saveFrom(filepath.Join(mount, fmt.Sprint("more", i)), c, Card{}, constant(c, 3))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("full disk: got %v", err)
	}
	t.Log(err)
	holds(t, dir, 1)
	if names := files(t, mount); slices.ContainsFunc(names, func(n string) bool { return n[0] == '.' }) {
		t.Errorf("left behind: %v", names)
	}
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	err = saveFrom(dir, c, Card{}, constant(c, 3))
	if !errors.Is(err, unix.EROFS) || !strings.HasPrefix(err.Error(), "save "+dir) {
		t.Errorf("read-only: got %v", err)
	}
	holds(t, dir, 1)
}

// TestSaveKilled kills a process in the middle of the second save. What was there stays, and the next save removes what the
// killed one left.
func TestSaveKilled(t *testing.T) {
	c := tiny(t)
	if dir := os.Getenv("TANDEM_TEST_SAVE_AND_HANG"); dir != "" {
		t.Log(saveFrom(dir, c, Card{}, func(w io.Writer, p Param) error {
			if strings.Contains(p.Name, "layers.2") {
				fmt.Println("in the middle")
				time.Sleep(time.Hour)
			}
			return constant(c, 2)(w, p)
		}))
		return
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	if err := saveFrom(dir, c, Card{}, constant(c, 1)); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestSaveKilled$", "-test.v")
	child.Env = append(os.Environ(), "TANDEM_TEST_SAVE_AND_HANG="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	var seen strings.Builder
	for b := make([]byte, 512); !strings.Contains(seen.String(), "in the middle"); {
		n, err := out.Read(b)
		seen.Write(b[:n])
		if err != nil {
			t.Fatalf("the child ended early: %v\n%s", err, seen.String())
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	holds(t, dir, 1)
	if diff := cmp.Diff([]string{"out", "out.part"}, files(t, parent)); diff != "" {
		t.Error(diff)
	}
	if err := saveFrom(dir, c, Card{}, constant(c, 3)); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, 3)
	if diff := cmp.Diff([]string{"out"}, files(t, parent)); diff != "" {
		t.Error(diff)
	}
}
