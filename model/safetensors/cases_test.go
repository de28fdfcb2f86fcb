package safetensors

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestCases opens the files of testdata/cases.jsonl: reports from users of other systems, each made a check.
func TestCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var c struct {
			ID    string `json:"id"`
			Note  string `json:"note"`
			Input struct {
				Header     json.RawMessage `json:"header"`
				HeaderText string          `json:"header_text"`
				Length     string          `json:"header_len_field"`
				Bytes      int             `json:"data_bytes"`
				Hex        string          `json:"hex"`
			} `json:"input"`
			Expect struct {
				Accept bool `json:"accept"`
			} `json:"expect"`
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		header := []byte(c.Input.HeaderText)
		if header = append(header, c.Input.Header...); len(header) == 0 && c.Input.Hex == "" {
			t.Fatalf("%s has no header", c.ID)
		}
		n := uint64(len(header))
		if c.Input.Length != "" {
			if n, err = strconv.ParseUint(c.Input.Length, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		file := append(append(binary.LittleEndian.AppendUint64(nil, n), header...), make([]byte, c.Input.Bytes)...)
		if c.Input.Hex != "" {
			if file, err = hex.DecodeString(c.Input.Hex); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), c.ID)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if (err == nil) != c.Expect.Accept {
			t.Errorf("%s (%s): error %v, to be accepted: %v", c.ID, c.Note, err, c.Expect.Accept)
		}
		if err == nil {
			f.Close()
		}
	}
}
