package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
	maxIndex   = 100 << 20 // bytes; published ones are under 100 kB
)

// A Dir is the weights of one directory: model.safetensors, or the shards that
// model.safetensors.index.json names.
type Dir struct {
	Path    string
	files   []*File
	tensors map[string]Tensor
}

// OpenDir opens and checks every file of the weights in a directory. Where both layouts are there, the single
// file is the one that counts, as in other readers.
func OpenDir(path string) (*Dir, error) {
	d := &Dir{Path: path, tensors: map[string]Tensor{}}
	shards, err := shardsOf(path)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		if err := d.add(name, shards[name]); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

// Tensor finds a tensor by name.
func (d *Dir) Tensor(name string) (Tensor, bool) {
	t, ok := d.tensors[name]
	return t, ok
}

// Names lists the tensors, sorted.
func (d *Dir) Names() []string { return slices.Sorted(maps.Keys(d.tensors)) }

// Close ends all mappings.
func (d *Dir) Close() error {
	var errs []error
	for _, f := range d.files {
		errs = append(errs, f.Close())
	}
	d.files, d.tensors = nil, nil
	return errors.Join(errs...)
}

// add opens a shard. want holds the tensors that the index expects in it; nil stands for any.
func (d *Dir) add(name string, want map[string]bool) error {
	f, err := Open(filepath.Join(d.Path, name))
	if err != nil {
		return err
	}
	d.files = append(d.files, f)
	for _, t := range f.Tensors {
		if want != nil && !want[t.Name] {
			return fmt.Errorf("open %s: %s holds tensor %q, which the index does not place there", d.Path, name, t.Name)
		}
		delete(want, t.Name)
		d.tensors[t.Name] = t
	}
	for _, t := range slices.Sorted(maps.Keys(want)) {
		return fmt.Errorf("open %s: the index places tensor %q in %s, which does not hold it", d.Path, t, name)
	}
	return nil
}

// shardsOf maps each file of the weights to the tensors expected in it.
func shardsOf(dir string) (map[string]map[string]bool, error) {
	_, err := os.Stat(filepath.Join(dir, singleName))
	if err == nil {
		return map[string]map[string]bool{singleName: nil}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open %s: %w", dir, reason(err))
	}
	path := filepath.Join(dir, indexName)
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, reason(err))
	}
	if st.Size() > maxIndex {
		return nil, fmt.Errorf("open %s: %d bytes are too many for an index", path, st.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, reason(err))
	}
	shards, err := parseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return shards, nil
}

// missing says what is there instead of weights.
func missing(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("open %s: %w", dir, reason(err))
	case !st.IsDir():
		return fmt.Errorf("open %s: it is a file; name the directory that holds it", dir)
	}
	for _, other := range []struct{ pattern, says string }{
		{"adapter_model.safetensors", "this is an adapter (LoRA), not a model; merge it into its base model first"},
		{"pytorch_model*.bin", "the weights are in pytorch_model.bin, which can run code when read; save the model as safetensors"},
		{"*.gguf", "the weights are in GGUF; use the directory the GGUF was made from"},
	} {
		if found, _ := filepath.Glob(filepath.Join(dir, other.pattern)); len(found) > 0 {
			return fmt.Errorf("open %s: %s", dir, other.says)
		}
	}
	return fmt.Errorf("open %s: there is neither %s nor %s", dir, singleName, indexName)
}

// parseIndex reads weight_map. metadata.total_size is not held against the files: published ones are wrong
// where embeddings are tied, and every file is checked by itself.
func parseIndex(text []byte) (map[string]map[string]bool, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, err
	}
	if len(index.WeightMap) == 0 {
		return nil, errors.New("weight_map is missing or empty")
	}
	shards := map[string]map[string]bool{}
	for tensor, file := range index.WeightMap {
		if file != filepath.Base(file) || !filepath.IsLocal(file) || file == "." {
			return nil, fmt.Errorf("tensor %q is in %q, which is not the plain name of a file in the directory", tensor, file)
		}
		if shards[file] == nil {
			shards[file] = map[string]bool{}
		}
		shards[file][tensor] = true
	}
	return shards, nil
}
