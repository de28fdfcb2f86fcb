package safetensors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// name fills a tensor with the first letter of its name.
func name(w io.Writer, e Entry) error {
	_, err := io.WriteString(w, strings.Repeat(e.Name[:1], int(e.bytes())))
	return err
}

func TestWriteOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	entries := []Entry{
		{"c", "U8", []int{3}},
		{"b<&\"é", BF16, []int{2, 1}},
		{"a", F32, nil},
		{"d", F32, []int{0, 5}},
	}
	if err := Write(path, entries, map[string]string{"step": "7"}, name); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := []Tensor{ // F32 first, so that each is aligned; an empty one before what lies in the same place
		{"a", F32, nil, []byte("aaaa")},
		{"d", F32, []int{0, 5}, []byte{}},
		{"b<&\"é", BF16, []int{2, 1}, []byte("bbbb")},
		{"c", "U8", []int{3}, []byte("ccc")},
	}
	if diff := cmp.Diff(want, f.Tensors); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"format": "pt", "step": "7"}, f.Metadata); diff != "" {
		t.Error(diff)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if start := len(b) - 11; start%8 != 0 {
		t.Errorf("data begins at byte %d, want a multiple of 8", start)
	}
	if err := Write(path, entries, map[string]string{"step": "7"}, name); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(b) {
		t.Error("the same input gave other bytes")
	}
}

func TestWriteRefuses(t *testing.T) {
	a := Entry{"a", F32, []int{2}}
	short := func(w io.Writer, e Entry) error { _, err := w.Write(make([]byte, 7)); return err }
	long := func(w io.Writer, e Entry) error { _, err := w.Write(make([]byte, 9)); return err }
	full := func(w io.Writer, e Entry) error { return syscall.ENOSPC }
	for _, c := range []struct {
		name    string
		entries []Entry
		fill    Fill
		want    string
	}{
		{"name twice", []Entry{a, a}, name, `"a" is listed twice`},
		{"reserved name", []Entry{{metaKey, F32, nil}}, name, "reserved"},
		{"dtype", []Entry{{"a", "F99", nil}}, name, "F99"},
		{"negative", []Entry{{"a", F32, []int{-1}}}, name, "negative"},
		{"overflow", []Entry{{"a", F32, []int{1 << 62, 4}}}, name, "overflows"},
		{"half a byte", []Entry{{"a", "F4", []int{3}}}, name, "whole bytes"},
		{"too few bytes", []Entry{a}, short, `tensor "a": 1 bytes were not given`},
		{"too many bytes", []Entry{a}, long, `tensor "a": 1 bytes too many`},
		{"full disk", []Entry{a}, full, "no space left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.safetensors")
			if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
				t.Fatal(err)
			}
			err := Write(path, c.entries, nil, c.fill)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
			unchanged(t, dir, map[string]string{"x.safetensors": "before"})
		})
	}
}

// unchanged holds a directory's files to want.
func unchanged(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = string(b)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	cutOff := filepath.Join(dir, "cut")
	for path, b := range map[string][]byte{empty: nil, cutOff: file(one, 5)} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		pipe:                         "not a regular file",
		dir:                          "not a regular file",
		empty:                        "0 bytes",
		cutOff:                       "cut off",
		filepath.Join(dir, "absent"): "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("Open(%s): got %v, want %q in it", path, err, want)
		}
	}
}

func TestGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := Write(path, []Entry{{"a", F32, []int{1 << 20}}}, nil, name); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 4<<20)
	err = Guard(func() error { copy(dst, f.Tensors[0].Data); return nil })
	if err == nil || !strings.Contains(err.Error(), "cut off while") {
		t.Errorf("copy from a file that lost its end: got %v", err)
	}
	broken := errors.New("other")
	if err := Guard(func() error { return broken }); err != broken {
		t.Errorf("got %v, want the function's own error", err)
	}
	defer func() {
		if p := recover(); p != "a mistake" {
			t.Errorf("panic %v, want it passed on", p)
		}
	}()
	Guard(func() error { panic("a mistake") })
}

func TestWriteDir(t *testing.T) {
	entries := []Entry{{"a", BF16, []int{4, 4}}, {"b", F32, []int{2}}, {"c", F32, []int{2}}, {"d", F32, []int{40}}, {"e", BF16, []int{1}}}
	for _, c := range []struct {
		name  string
		limit int64
		files map[string][]string
	}{
		{"one file", 1000, map[string][]string{"model.safetensors": {"b", "c", "d", "a", "e"}}},
		{"exactly one file", 210, map[string][]string{"model.safetensors": {"b", "c", "d", "a", "e"}}},
		{"three shards", 40, map[string][]string{
			"model-00001-of-00004.safetensors": {"b", "a"},
			"model-00002-of-00004.safetensors": {"c"},
			"model-00003-of-00004.safetensors": {"d"},
			"model-00004-of-00004.safetensors": {"e"},
		}},
		{"each alone", 1, map[string][]string{
			"model-00001-of-00005.safetensors": {"a"},
			"model-00002-of-00005.safetensors": {"b"},
			"model-00003-of-00005.safetensors": {"c"},
			"model-00004-of-00005.safetensors": {"d"},
			"model-00005-of-00005.safetensors": {"e"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := WriteDir(dir, entries, c.limit, nil, name); err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			paths, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range paths {
				f, err := Open(p)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range f.Tensors {
					got[filepath.Base(p)] = append(got[filepath.Base(p)], x.Name)
				}
				f.Close()
			}
			if diff := cmp.Diff(c.files, got); diff != "" {
				t.Error(diff)
			}
			d, err := OpenDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, d.Names()); diff != "" {
				t.Error(diff)
			}
			if x, ok := d.Tensor("a"); !ok || string(x.Data) != strings.Repeat("a", 32) {
				t.Errorf("tensor a is %v", x)
			}
			if err := WriteDir(dir, entries, c.limit, nil, name); err == nil || !strings.Contains(err.Error(), "there already") {
				t.Errorf("second time: got %v", err)
			}
		})
	}
}

func TestIndex(t *testing.T) {
	dir := t.TempDir()
	if err := WriteDir(dir, []Entry{{"a", BF16, []int{4, 4}}, {"b", F32, []int{2}}}, 32, nil, name); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "metadata": {
    "total_size": 40
  },
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "b": "model-00002-of-00002.safetensors"
  }
}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestOpenDirRefuses(t *testing.T) {
	shard := func(names ...string) string {
		h := []string{}
		for i, n := range names {
			h = append(h, fmt.Sprintf(`%q:{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, n, i, i+1))
		}
		return string(file("{"+strings.Join(h, ",")+"}", len(names)))
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, "neither model.safetensors nor"},
		{"torch pickles", map[string]string{"pytorch_model-00001-of-00002.bin": ""}, "save the model as safetensors"},
		{"adapter", map[string]string{"adapter_model.safetensors": shard("a")}, "LoRA"},
		{"GGUF", map[string]string{"x.gguf": ""}, "GGUF"},
		{"shard absent", map[string]string{indexName: `{"weight_map":{"a":"s1"}}`}, "s1: no such file"},
		{"tensor absent", map[string]string{indexName: `{"weight_map":{"a":"s1","b":"s1"}}`, "s1": shard("a")}, `places tensor "b" in s1`},
		{"tensor not in the index", map[string]string{indexName: `{"weight_map":{"a":"s1"}}`, "s1": shard("a", "b")}, `holds tensor "b"`},
		{"tensor in two shards", map[string]string{indexName: `{"weight_map":{"a":"s1","b":"s2"}}`, "s1": shard("a"), "s2": shard("a", "b")}, `s2 holds tensor "a"`},
		{"path upwards", map[string]string{indexName: `{"weight_map":{"a":"../s1"}}`}, "plain name"},
		{"absolute path", map[string]string{indexName: `{"weight_map":{"a":"/etc/passwd"}}`}, "plain name"},
		{"dots", map[string]string{indexName: `{"weight_map":{"a":".."}}`}, "plain name"},
		{"no name", map[string]string{indexName: `{"weight_map":{"a":""}}`}, "plain name"},
		{"empty map", map[string]string{indexName: `{"weight_map":{}}`}, "missing or empty"},
		{"no map", map[string]string{indexName: `{}`}, "missing or empty"},
		{"not JSON", map[string]string{indexName: `{`}, "JSON"},
		{"wrong type", map[string]string{indexName: `{"weight_map":{"a":1}}`}, "number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := OpenDir(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := OpenDir(filepath.Join(t.TempDir(), "absent")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("absent directory: got %v", err)
	}
}
