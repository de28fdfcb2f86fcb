package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// file builds a file from its header text and a number of zero bytes.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

// claim overwrites the length field.
func claim(n uint64, b []byte) []byte {
	binary.LittleEndian.PutUint64(b, n)
	return b
}

const one = `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`

func TestParse(t *testing.T) {
	raw, err := hex.DecodeString("0a000000")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		file []byte
		want string // part of the refusal; empty where the file is sound
	}{
		{"one tensor", file(one, 8), ""},
		{"metadata", file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), ""},
		{"padded with spaces", file(one+"     ", 8), ""},
		{"no tensors", file(`{}`, 0), ""},
		{"metadata only", file(`{"__metadata__":{"a":"b"}}`, 0), ""},
		{"empty tensor", file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, 0), ""},
		{"empty tensor between others", file(`{"c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"b":{"dtype":"F32","shape":[3,0],"data_offsets":[1,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2), ""},
		{"scalar", file(`{"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}`, 2), ""},
		{"unaligned", file(`{"u":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"a":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}}`, 7), ""},
		{"out of order", file(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 2), ""},
		{"unknown field", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"note":[{"x":1}]}}`, 8), ""},
		{"half bytes", file(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, 1), ""},

		{"shorter than the length", raw, "4 bytes"},
		{"empty", nil, "0 bytes"},
		{"header over the cap", claim(100_000_001, file(one, 8)), "more than the format's limit"},
		{"header longer than the file", claim(5000, file(one, 8)), "claims 5000 bytes"},
		{"header of 2^63", claim(1<<63, file(one, 8)), "more than the format's limit"},
		{"header of 2^64-1", claim(1<<64-1, file(one, 8)), "more than the format's limit"},
		{"header of none", file("", 8), "begin with {"},
		{"Git LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"), "git lfs pull"},
		{"list", file(`[1,2,3]`, 0), "begin with {"},
		{"space first", file(` {}`, 0), "begin with {"},
		{"not JSON", file(`{"a":`, 0), "header"},
		{"unclosed", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`, 8), "EOF"},
		{"something behind", file(one+`{}`, 8), "follows the closing brace"},
		{"zero bytes behind", file(one+"\x00", 8), "follows the closing brace"},
		{"not UTF-8", file("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), "UTF-8"},
		{"data cut off", file(one, 5), "cut off"},
		{"data too long", file(one, 9), "end at byte 8"},
		{"data and no tensor", file(`{}`, 1), "end at byte 0"},
		{"overlap", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12), "inside"},
		{"same bytes twice", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), "inside"},
		{"hole", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12), "belong to no tensor"},
		{"hole first", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "belong to no tensor"},
		{"empty tensor in a hole", file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}`, 4), "belong to no tensor"},
		{"end before begin", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4), "end before they begin"},
		{"shape and range differ", file(`{"a":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}}`, 4), "needs 4000000 bytes"},
		{"shape overflows to fit", file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4,1],"data_offsets":[0,0]}}`, 0), "overflows"},
		{"shape over 2^63", file(`{"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}}`, 8), "whole number"},
		{"offsets over 2^63", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551624]}}`, 8), "whole number"},
		{"negative dimension", file(`{"a":{"dtype":"F32","shape":[-2,-1],"data_offsets":[0,8]}}`, 8), "whole number"},
		{"fraction", file(`{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}`, 8), "whole number"},
		{"exponent", file(`{"a":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}`, 8), "whole number"},
		{"number as text", file(`{"a":{"dtype":"F32","shape":["x"],"data_offsets":[0,8]}}`, 8), "shape"},
		{"null shape", file(`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4), "null"},
		{"three offsets", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}}`, 8), "want 2"},
		{"no dtype", file(`{"a":{"shape":[2],"data_offsets":[0,8]}}`, 8), "all needed"},
		{"unknown dtype", file(`{"a":{"dtype":"Q4_K","shape":[2],"data_offsets":[0,8]}}`, 8), "Q4_K"},
		{"dtype in lower case", file(`{"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}}`, 8), "f32"},
		{"dtype is a number", file(`{"a":{"dtype":32,"shape":[2],"data_offsets":[0,8]}}`, 8), "dtype 32"},
		{"tensor is a number", file(`{"a":1}`, 0), "an object should be"},
		{"name twice", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `"a" appears twice`},
		{"field twice", file(`{"a":{"dtype":"U8","dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), `"dtype" appears twice`},
		{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, 0), "appears twice"},
		{"metadata with a number", file(`{"__metadata__":{"step":7},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "not a string"},
		{"metadata is text", file(`{"__metadata__":"x"}`, 0), "an object should be"},
		{"half a byte", file(`{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}}`, 1), "whole bytes"},
		{"deep nesting", file(`{"a":{"x":`+strings.Repeat("[", 200_000), 0), "header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := parse(c.file)
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && err == nil:
				t.Fatalf("accepted, want a refusal with %q", c.want)
			case c.want != "" && !strings.Contains(err.Error(), c.want):
				t.Fatalf("refused with %q, want %q in it", err, c.want)
			}
		})
	}
}

func TestParseGivesBytes(t *testing.T) {
	b := file(`{"b":{"dtype":"U8","shape":[1,2],"data_offsets":[3,5]},"__metadata__":{"k":"v"},"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}}`, 5)
	copy(b[len(b)-5:], "AAABB")
	tensors, meta, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []Tensor{{"a", "I8", []int{3}, []byte("AAA")}, {"b", "U8", []int{1, 2}, []byte("BB")}}
	if diff := cmp.Diff(want, tensors); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"k": "v"}, meta); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse holds what is accepted to what the rest of the program relies on.
func FuzzParse(f *testing.F) {
	f.Add(file(one, 8))
	f.Add(file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"b":{"dtype":"F4","shape":[2,0],"data_offsets":[2,2]}}  `, 2))
	f.Add(file(`{"a":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}}`, 4))
	f.Add(claim(1<<63, file(one, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, meta, err := parse(b)
		if err != nil {
			return
		}
		var entries []Entry
		var data []byte
		for _, x := range tensors {
			if got := x.Elems() * x.DType.Bits(); got != 8*len(x.Data) {
				t.Fatalf("%v has %d bytes", x, len(x.Data))
			}
			entries = append(entries, Entry{x.Name, x.DType, x.Shape})
			data = append(data, x.Data...)
		}
		if !bytes.HasSuffix(b, data) {
			t.Fatal("the tensors' bytes are not the end of the file")
		}
		header, err := encodeHeader(entries, meta)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := parse(append(header, data...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fmt.Sprint(tensors), fmt.Sprint(again)); diff != "" {
			t.Fatal(diff)
		}
	})
}
