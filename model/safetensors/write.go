package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"tandem/durable"
)

// An Entry is a tensor to be written.
type Entry struct {
	Name  string
	DType DType
	Shape []int
}

func (e Entry) bytes() int64 { return int64(Tensor{Shape: e.Shape}.Elems() * e.DType.Bits() / 8) }

// A Fill writes all bytes of one entry, little-endian and row-major.
type Fill func(w io.Writer, e Entry) error

// Write writes one file. Entries are stored, and asked of fill, in the given order, larger elements before
// smaller ones so that every tensor is aligned. metadata gets "format": "pt" if it names no format, since
// transformers refuses files without one. The same input gives the same bytes.
//
// The file appears at path whole and synced, or not at all; what was there before stays until then.
func Write(path string, entries []Entry, metadata map[string]string, fill Fill) error {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(b.DType.Bits(), a.DType.Bits()) })
	header, err := encodeHeader(entries, metadata)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = durable.Write(path, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		for _, e := range entries {
			c := &counter{w: w, left: e.bytes()}
			if err := fill(c, e); err != nil {
				return fmt.Errorf("tensor %q: %w", e.Name, err)
			}
			if c.left != 0 {
				return fmt.Errorf("tensor %q: %d bytes were not given", e.Name, c.left)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteDir writes the weights of a directory: model.safetensors, or, where that would hold more than
// shardBytes of tensors, numbered shards and their index. A tensor larger than shardBytes has a shard of its
// own. dir must exist and hold no weights yet. The index is written last.
func WriteDir(dir string, entries []Entry, shardBytes int64, metadata map[string]string, fill Fill) error {
	for _, name := range []string{singleName, indexName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write %s: %s is there already", dir, name)
		}
	}
	shards := cut(entries, shardBytes)
	if len(shards) == 1 {
		return Write(filepath.Join(dir, singleName), entries, metadata, fill)
	}
	var index struct {
		Metadata struct {
			TotalSize int64 `json:"total_size"` // bytes of tensors, without headers
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	index.WeightMap = map[string]string{}
	for i, shard := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		for _, e := range shard {
			if index.WeightMap[e.Name] != "" {
				return fmt.Errorf("write %s: tensor %q is listed twice", dir, e.Name)
			}
			index.WeightMap[e.Name] = name
			index.Metadata.TotalSize += e.bytes()
		}
		if err := Write(filepath.Join(dir, name), shard, metadata, fill); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, indexName)
	err := durable.Write(path, func(w io.Writer) error { return encodeJSON(w, index, "  ") })
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// cut splits entries into runs of at most limit bytes. It returns at least one run.
func cut(entries []Entry, limit int64) [][]Entry {
	shards := [][]Entry{nil}
	size := int64(0)
	for _, e := range entries {
		last := len(shards) - 1
		if size+e.bytes() > limit && len(shards[last]) > 0 {
			shards = append(shards, nil)
			last, size = last+1, 0
		}
		shards[last] = append(shards[last], e)
		size += e.bytes()
	}
	return shards
}

// encodeHeader returns the length field and the header, padded with spaces so that the data is aligned.
func encodeHeader(entries []Entry, metadata map[string]string) ([]byte, error) {
	meta := map[string]string{"format": "pt"}
	maps.Copy(meta, metadata)
	var b bytes.Buffer
	b.Write(make([]byte, lenBytes))
	b.WriteString(`{"` + metaKey + `":`)
	if err := encodeJSON(&b, meta, ""); err != nil {
		return nil, err
	}
	seen := map[string]bool{metaKey: true}
	at := int64(0)
	for _, e := range entries {
		if seen[e.Name] {
			return nil, fmt.Errorf("tensor %q is listed twice, or the name is reserved", e.Name)
		}
		seen[e.Name] = true
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.Name, err)
		}
		field := struct {
			DType   DType    `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{e.DType, append([]int{}, e.Shape...), [2]int64{at, at + e.bytes()}} // a scalar's shape is [], not null
		b.WriteByte(',')
		if err := encodeJSON(&b, e.Name, ""); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := encodeJSON(&b, field, ""); err != nil {
			return nil, err
		}
		at += e.bytes()
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-lenBytes > maxHeader {
		return nil, fmt.Errorf("the header takes %d bytes, more than the format's limit of %d", b.Len()-lenBytes, maxHeader)
	}
	header := b.Bytes()
	binary.LittleEndian.PutUint64(header, uint64(len(header)-lenBytes))
	return header, nil
}

func (e Entry) check() error {
	if e.DType.Bits() == 0 {
		return fmt.Errorf("dtype %q is not one of the format", e.DType)
	}
	for _, n := range e.Shape {
		if n < 0 {
			return fmt.Errorf("shape %v is negative", e.Shape)
		}
	}
	s := span{Tensor: Tensor{DType: e.DType, Shape: e.Shape}, hi: uint64(e.bytes())}
	return s.check()
}

// encodeJSON leaves <, > and & as they are, and adds no newline when indent is empty.
func encodeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	text := b.Bytes()
	if indent == "" {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	_, err := w.Write(text)
	return err
}

// A counter refuses more bytes than a tensor has.
type counter struct {
	w    io.Writer
	left int64
}

func (c *counter) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, fmt.Errorf("%d bytes too many were given", int64(len(p))-c.left)
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	return n, err
}
