package model

import (
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/kernels"
	"tandem/model/safetensors"
)

// device is a CPU that is closed with the test, and a transfer to it.
func device(t *testing.T) (kernels.Device, *kernels.Transfer) {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUConfig{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	win, err := kernels.NewTransfer(dev)
	if err != nil {
		t.Fatal(err)
	}
	return dev, win
}

// arena is the bytes of each parameter.
func arena(t *testing.T, w *Weights, win *kernels.Transfer) map[string][]byte {
	t.Helper()
	out, size := map[string][]byte{}, w.Arena.DType.Size()
	for _, p := range Params(w.Config) {
		err := win.Down(w.Arena.Ptr+kernels.Ptr(p.Off*size), p.Len()*size, func(piece []byte) error {
			out[p.Name] = append(out[p.Name], piece...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestLoad(t *testing.T) {
	for _, g := range goldens(t) {
		for _, to := range []kernels.DType{kernels.F32, kernels.BF16} {
			t.Run(g.Name+"/"+to.String(), func(t *testing.T) {
				dev, win := device(t)
				w, err := NewWeights(dev, g.Config, to, 1)
				if err != nil {
					t.Fatal(err)
				}
				notes, err := w.Load(win, g.Dir)
				if err != nil || len(notes) > 0 {
					t.Fatal(notes, err)
				}
				d, err := safetensors.OpenDir(g.Dir)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				for name, got := range arena(t, w, win) {
					x, _ := d.Tensor(name)
					want := make([]byte, x.Elems()*to.Size())
					safetensors.Convert(want, weightDType(to.String()), x.Data, x.DType)
					if string(got) != string(want) {
						t.Errorf("%s differs from the file", name)
					}
				}
			})
		}
	}
}

// tensors is a directory's weights, to be changed and written back.
type tensors map[string]safetensors.Tensor

func open(t *testing.T, dir string) tensors {
	t.Helper()
	d, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	out := tensors{}
	for _, name := range d.Names() {
		x, _ := d.Tensor(name)
		x.Data = slices.Clone(x.Data)
		out[name] = x
	}
	return out
}

func (x tensors) write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var entries []safetensors.Entry
	for _, name := range slices.Sorted(maps.Keys(x)) {
		entries = append(entries, safetensors.Entry{Name: name, DType: x[name].DType, Shape: x[name].Shape})
	}
	err := safetensors.WriteDir(dir, entries, 1<<40, nil, func(w io.Writer, e safetensors.Entry) error {
		_, err := w.Write(x[e.Name].Data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// as is the tensor with all elements v, in dtype d.
func as(x safetensors.Tensor, d safetensors.DType, v float32) safetensors.Tensor {
	one := make([]byte, d.Bits()/8)
	safetensors.Convert(one, d, f32(v), safetensors.F32)
	x.DType, x.Data = d, []byte(strings.Repeat(string(one), x.Elems()))
	return x
}

func f32(v float32) []byte {
	b := math.Float32bits(v)
	return []byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)}
}

const (
	tiedDir   = "testdata/golden/gqa1_e16_tied_f32"
	untiedDir = "testdata/golden/gqa5_e16_untied_train"
	up        = "model.layers.1.mlp.up_proj.weight"
)

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		dir    string
		change func(tensors)
		want   string
	}{
		{"missing", tiedDir, func(x tensors) { delete(x, up) }, "1 of 24 tensors are missing: " + up},
		{"many missing", tiedDir, func(x tensors) {
			maps.DeleteFunc(x, func(n string, _ safetensors.Tensor) bool { return strings.Contains(n, "layers.0") })
		}, "11 of 24 tensors are missing: model.layers.0.input_layernorm.weight, "},
		{"no head and not tied", untiedDir, func(x tensors) { delete(x, headName) }, "lm_head.weight is missing, and config.json says that the embeddings are not tied"},
		{"transposed", tiedDir, func(x tensors) {
			u := x[up]
			u.Shape = []int{u.Shape[1], u.Shape[0]}
			x[up] = u
		}, up + " is (32, 48), want (48, 32)"},
		{"shrunk to the tokenizer", tiedDir, func(x tensors) {
			e := x[embedName]
			e.Shape, e.Data = []int{90, 32}, e.Data[:90*32*4]
			x[embedName] = e
		}, "is (90, 32), want (101, 32)"},
		{"a bias", tiedDir, func(x tensors) {
			x["model.layers.0.self_attn.q_proj.bias"] = x["model.norm.weight"]
		}, "1 tensors are not part of a dense Qwen3 of this config: model.layers.0.self_attn.q_proj.bias"},
		{"a third layer", tiedDir, func(x tensors) {
			for n, v := range maps.Clone(x) {
				x[strings.Replace(n, "layers.1", "layers.2", 1)] = v
			}
		}, "11 tensors are not part of a dense Qwen3"},
		{"quantised", tiedDir, func(x tensors) {
			u := x[up]
			u.DType, u.Data = "F8_E4M3", u.Data[:u.Elems()]
			x[up] = u
		}, up + " is F8_E4M3; only BF16, F16 and F32"},
		{"NaN", tiedDir, func(x tensors) { copy(x[up].Data[4*77:], f32(float32(math.NaN()))) }, up + ": element 77 is NaN; the weights are damaged"},
		{"infinity", tiedDir, func(x tensors) { copy(x[up].Data[4*77:], f32(float32(math.Inf(-1)))) }, up + ": element 77 is -Inf"},
		{"NaN in F16", tiedDir, func(x tensors) { x[up] = as(x[up], safetensors.F16, float32(math.NaN())) }, up + ": element 0 is NaN"},
		{"too large for bfloat16", tiedDir, func(x tensors) { copy(x[up].Data[4*9:], f32(math.MaxFloat32)) }, up + ": element 9 is 3.4028235e+38, too large for BF16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := open(t, c.dir)
			c.change(x)
			dir := x.write(t)
			config, err := ReadConfig(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			dev, win := device(t)
			w, err := NewWeights(dev, config, kernels.BF16, 1)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Load(win, dir)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "load "+dir) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
		})
	}
	_, win := device(t)
	w := &Weights{}
	if _, err := w.Load(win, t.TempDir()); err == nil || !strings.Contains(err.Error(), "neither model.safetensors") {
		t.Errorf("empty directory: got %v", err)
	}
}

func TestLoadTied(t *testing.T) {
	note := "lm_head.weight is stored and is not the embedding; it is ignored, since config.json says that the embeddings are tied"
	for _, c := range []struct {
		name   string
		change func(tensors)
		want   []string
	}{
		{"not stored", func(x tensors) {}, nil},
		{"stored twice", func(x tensors) { x[headName] = x[embedName] }, nil},
		{"stored otherwise", func(x tensors) { x[headName] = as(x[embedName], safetensors.F32, 1) }, []string{note}},
		{"stored in another dtype", func(x tensors) { x[headName] = as(x[embedName], safetensors.BF16, 1) }, []string{note}},
		{"old rotary frequencies", func(x tensors) { x["model.layers.0.self_attn.rotary_emb.inv_freq"] = x["model.norm.weight"] }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := open(t, tiedDir)
			c.change(x)
			config, err := ReadConfig(tiedDir)
			if err != nil {
				t.Fatal(err)
			}
			dev, win := device(t)
			w, err := NewWeights(dev, config, kernels.F32, 1)
			if err != nil {
				t.Fatal(err)
			}
			notes, err := w.Load(win, x.write(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, notes); diff != "" {
				t.Error(diff)
			}
			if w.Head != w.Embed {
				t.Error("the head is not the embedding")
			}
			if got := arena(t, w, win)[embedName]; string(got) != string(x[embedName].Data) {
				t.Error("the embedding is not the file's")
			}
		})
	}
}

// TestLoadCutOff is a file that loses its end between the check and the copy.
func TestLoadCutOff(t *testing.T) {
	dir := open(t, tiedDir).write(t)
	d, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 4096); err != nil {
		t.Fatal(err)
	}
	config, err := ReadConfig(tiedDir)
	if err != nil {
		t.Fatal(err)
	}
	dev, win := device(t)
	w, err := NewWeights(dev, config, kernels.F32, 1)
	if err != nil {
		t.Fatal(err)
	}
	err = safetensors.Guard(func() error {
		for _, p := range Params(config) {
			x, _ := d.Tensor(p.Name)
			if err := w.loadTensor(win, p, x); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "cut off while it was being read") {
		t.Errorf("got %v", err)
	}
}
