package model

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"tandem/kernels"
	"tandem/model/safetensors"
)

// Load fills the weights from the tensors of a Hugging Face directory, in the arena's dtype. Every parameter must be there
// once, in its shape, finite; a tensor that is no parameter is an error, since it would be left out of the computation.
// Nothing is copied before all names and shapes are right. The notes are sentences for the user about what was ignored.
func (w *Weights) Load(win *kernels.Transfer, dir string) (notes []string, err error) {
	d, err := safetensors.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ps := Params(w.Config)
	err = safetensors.Guard(func() error {
		if notes, err = match(d, ps); err != nil {
			return err
		}
		for _, p := range ps {
			t, _ := d.Tensor(p.Name)
			if err := w.loadTensor(win, p, t); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", dir, err)
	}
	return notes, nil
}

func (w *Weights) loadTensor(win *kernels.Transfer, p Param, t safetensors.Tensor) error {
	to := weightDType(w.Arena.DType.String())
	size, step := w.Arena.DType.Size(), t.DType.Bits()/8
	at := 0 // elements done
	return win.Up(w.Arena.Ptr+kernels.Ptr(p.Off*size), p.Len()*size, func(piece []byte) error {
		n := len(piece) / size
		src := t.Data[at*step : (at+n)*step]
		safetensors.Convert(piece, to, src, t.DType)
		if i := safetensors.NonFinite(piece, to); i >= 0 {
			return nonFinite(src[i*step:(i+1)*step], t.DType, to, at+i)
		}
		at += n
		return nil
	})
}

// nonFinite says what the element was before it was rounded.
func nonFinite(src []byte, from, to safetensors.DType, i int) error {
	var b [4]byte
	safetensors.Convert(b[:], safetensors.F32, src, from)
	f := math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
	if f-f == 0 {
		return fmt.Errorf("element %d is %g, too large for %s", i, f, to)
	}
	return fmt.Errorf("element %d is %g; the weights are damaged", i, f)
}

// match holds the directory to the table.
func match(d *safetensors.Dir, ps []Param) (notes []string, err error) {
	want := map[string]bool{}
	var missing []string
	for _, p := range ps {
		want[p.Name] = true
		t, ok := d.Tensor(p.Name)
		if !ok {
			missing = append(missing, p.Name)
			continue
		}
		if !safetensors.Convertible(t.DType) {
			return nil, fmt.Errorf("%s is %s; only BF16, F16 and F32 weights are supported", p.Name, t.DType)
		}
		if !slices.Equal(t.Shape, p.Shape) {
			return nil, fmt.Errorf("%s is %s, want %s", p.Name, shape(t.Shape), shape(p.Shape))
		}
	}
	if slices.Equal(missing, []string{headName}) {
		return nil, fmt.Errorf("%s is missing, and config.json says that the embeddings are not tied", headName)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%d of %d tensors are missing: %s", len(missing), len(ps), some(missing))
	}
	var strange []string
	for _, name := range d.Names() {
		switch {
		case want[name]:
		case name == headName: // tied
			if note := strayHead(d); note != "" {
				notes = append(notes, note)
			}
		case strings.HasSuffix(name, ".rotary_emb.inv_freq"): // old files hold the frequencies, which config.json gives
		default:
			strange = append(strange, name)
		}
	}
	if len(strange) > 0 {
		return nil, fmt.Errorf("%d tensors are not part of a dense Qwen3 of this config: %s", len(strange), some(strange))
	}
	return notes, nil
}

const (
	embedName = "model.embed_tokens.weight"
	headName  = "lm_head.weight"
)

// strayHead is about a head that is stored though it is tied: some programs write the embedding twice. It is ignored, as in
// transformers; a note says so where it is not the same.
func strayHead(d *safetensors.Dir) string {
	embed, _ := d.Tensor(embedName)
	head, _ := d.Tensor(headName)
	if head.DType == embed.DType && bytes.Equal(head.Data, embed.Data) {
		return ""
	}
	return headName + " is stored and is not the embedding; it is ignored, since config.json says that the embeddings are tied"
}

// weightDType is how tensors name the dtype that config.json names.
func weightDType(name string) safetensors.DType {
	switch name {
	case "bfloat16":
		return safetensors.BF16
	case "float16":
		return safetensors.F16
	}
	return safetensors.F32
}

// shape is dims as (1024, 2048).
func shape(dims []int) string {
	s := make([]string, len(dims))
	for i, n := range dims {
		s[i] = fmt.Sprint(n)
	}
	return "(" + strings.Join(s, ", ") + ")"
}

// some is the first few names of a list.
func some(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
