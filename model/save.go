package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tandem/durable"
	"tandem/kernels"
	"tandem/model/safetensors"
)

// A Card is what goes into a saved directory beside config and weights.
type Card struct {
	From  string      // a directory whose tokenizer files, generation_config.json and LICENSE go along; "" is none
	Facts [][2]string // name and value, in README.md in this order
}

// shardBytes is the most that one file of weights holds, as transformers has it.
const shardBytes = 5_000_000_000

// Save writes the weights, in the arena's dtype, as a directory that AutoModelForCausalLM.from_pretrained loads. Weights
// that are not finite are refused. See saveFrom.
func (w *Weights) Save(win *kernels.Transfer, dir string, card Card) error {
	c := w.Config
	c.DType = w.Arena.DType.String()
	d, size := weightDType(c.DType), w.Arena.DType.Size()
	return saveFrom(dir, c, card, func(out io.Writer, p Param) error {
		at := 0
		return win.Down(w.Arena.Ptr+kernels.Ptr(p.Off*size), p.Len()*size, func(piece []byte) error {
			if i := safetensors.NonFinite(piece, d); i >= 0 {
				return nonFinite(piece[i*size:(i+1)*size], d, d, at/size+i)
			}
			at += len(piece)
			_, err := out.Write(piece)
			return err
		})
	})
}

// SaveMasters writes the same directory from the masters of a run: float32, little-endian, in the layout of an arena. They
// become weights of c.DType, float32 or bfloat16, as in training.
func SaveMasters(dir string, c Config, card Card, arena []byte) error {
	if want := 4 * ArenaLen(Params(c)); len(arena) != want {
		return fmt.Errorf("save %s: the weights take %d bytes, want %d", dir, len(arena), want)
	}
	d := weightDType(c.DType)
	piece := make([]byte, 1<<20)
	return saveFrom(dir, c, card, func(out io.Writer, p Param) error {
		for at := 0; at < p.Len(); {
			n := min(p.Len()-at, len(piece)/4)
			src, dst := arena[4*(p.Off+at):4*(p.Off+at+n)], piece[:n*d.Bits()/8]
			if d == safetensors.BF16 {
				roundMasters(dst, src)
			} else {
				safetensors.Convert(dst, d, src, safetensors.F32)
			}
			if i := safetensors.NonFinite(dst, d); i >= 0 {
				return nonFinite(src[4*i:4*i+4], safetensors.F32, d, at+i)
			}
			if _, err := out.Write(dst); err != nil {
				return err
			}
			at += n
		}
		return nil
	})
}

func roundMasters(dst, src []byte) {
	for i := range len(dst) / 2 {
		w, _ := kernels.SplitMaster(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
		binary.LittleEndian.PutUint16(dst[2*i:], w)
	}
}

// SaveText writes what a saved directory has beside its weights and README: config.json, generation_config.json, and the
// tokenizer's files and LICENSE from the first of the directories that has each.
func SaveText(dir string, c Config, from ...string) error {
	err := c.Check()
	if err == nil {
		err = durable.Dir(dir, func(partial string) error {
			if err := c.Write(partial); err != nil {
				return err
			}
			for _, f := range slices.Backward(from) {
				if err := copyAlong(partial, f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", dir, err)
	}
	return nil
}

// saveFrom writes a directory whose parameters, in c.DType, come from read. It is written aside, synced and renamed, so
// that dir is at any moment whole: what was there, or what is saved. A directory that holds anything that Save does not
// write is not replaced.
func saveFrom(dir string, c Config, card Card, read func(w io.Writer, p Param) error) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("save %s: %w", dir, err)
	}
	dir, err := target(dir)
	if err != nil {
		return fmt.Errorf("save %s: %w", dir, err)
	}
	err = os.MkdirAll(filepath.Dir(dir), 0o777)
	if err == nil {
		err = durable.Dir(dir, func(partial string) error { return fill(partial, dir, c, card, read) })
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", dir, err)
	}
	return nil
}

// fill writes everything into partial.
func fill(partial, dir string, c Config, card Card, read func(w io.Writer, p Param) error) error {
	if err := c.Write(partial); err != nil {
		return err
	}
	if card.From != "" {
		if err := copyAlong(partial, card.From); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(partial, readmeName), readme(filepath.Base(dir), c, card.Facts)); err != nil {
		return err
	}
	d := weightDType(c.DType)
	params := map[string]Param{}
	var entries []safetensors.Entry
	for _, p := range Params(c) {
		params[p.Name] = p
		entries = append(entries, safetensors.Entry{Name: p.Name, DType: d, Shape: p.Shape})
	}
	return safetensors.WriteDir(partial, entries, shardBytes, nil, func(w io.Writer, e safetensors.Entry) error {
		return read(w, params[e.Name])
	})
}

const readmeName = "README.md"

// along lists the files that describe a model's text side.
func along() []string {
	return []string{
		"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json",
		"added_tokens.json", "chat_template.jinja", generationName, "LICENSE",
	}
}

func copyAlong(dir, from string) error {
	if _, err := os.Stat(from); err != nil {
		return fmt.Errorf("copy the tokenizer: %w", err)
	}
	for _, name := range along() {
		text, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("copy the tokenizer: %w", err)
		}
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

// target resolves dir and checks that what is there may be replaced.
func target(dir string) (string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return dir, err
	}
	list, err := os.ReadDir(full)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return full, err
	}
	for _, e := range list {
		if name := e.Name(); e.IsDir() || !ours(name) {
			return full, fmt.Errorf("it holds %s, which saving would remove; choose another directory", name)
		}
	}
	return full, nil
}

// ours reports whether a saved directory may hold a file of this name.
func ours(name string) bool {
	return name == configName || name == readmeName || slices.Contains(along(), name) ||
		strings.HasPrefix(name, "model") && (strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".safetensors.index.json"))
}
