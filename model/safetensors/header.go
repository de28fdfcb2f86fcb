package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	lenBytes  = 8
	maxHeader = 100_000_000 // the format's own cap; a header of 32B's 707 tensors is 80 kB
	metaKey   = "__metadata__"
)

// parse checks a whole file and returns its tensors in file order. Their Data are slices of file.
func parse(file []byte) ([]Tensor, map[string]string, error) {
	if len(file) < lenBytes {
		return nil, nil, fmt.Errorf("the file has %d bytes, and the header length alone takes %d", len(file), lenBytes)
	}
	if bytes.HasPrefix(file, []byte("version https://git-lfs")) {
		return nil, nil, errors.New("this is a Git LFS pointer, not the file it points to; fetch it with: git lfs pull")
	}
	n := binary.LittleEndian.Uint64(file)
	rest := file[lenBytes:]
	switch {
	case n > maxHeader:
		return nil, nil, fmt.Errorf("the header claims %d bytes, more than the format's limit of %d", n, maxHeader)
	case n > uint64(len(rest)):
		return nil, nil, fmt.Errorf("the header claims %d bytes, and only %d follow", n, len(rest))
	}
	spans, meta, err := parseHeader(rest[:n])
	if err != nil {
		return nil, nil, err
	}
	tensors, err := place(spans, rest[n:])
	return tensors, meta, err
}

// A span is a tensor as the header describes it, before its byte range is trusted.
type span struct {
	Tensor
	lo, hi uint64 // data_offsets, from the end of the header
}

func parseHeader(header []byte) ([]span, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("the header does not begin with {")
	}
	if !utf8.Valid(header) {
		return nil, nil, errors.New("the header is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(header))
	d.UseNumber()
	var spans []span
	meta := map[string]string{}
	err := object(d, func(key string) error {
		if key == metaKey {
			return parseMetadata(d, meta)
		}
		s, err := parseSpan(d)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", key, err)
		}
		s.Name = key
		spans = append(spans, s)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, errors.New("header: something follows the closing brace")
	}
	return spans, meta, nil
}

func parseMetadata(d *json.Decoder, meta map[string]string) error {
	return object(d, func(key string) error {
		v, err := d.Token()
		if err != nil {
			return err
		}
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s: value of %q is not a string", metaKey, key)
		}
		meta[key] = s
		return nil
	})
}

func parseSpan(d *json.Decoder) (span, error) {
	var s span
	var offsets []uint64
	seen := 0
	err := object(d, func(key string) error {
		switch key {
		case "dtype":
			seen++
			v, err := d.Token()
			if err != nil {
				return err
			}
			name, ok := v.(string)
			if s.DType = DType(name); !ok || s.DType.Bits() == 0 {
				return fmt.Errorf("dtype %v is not one of the format", v)
			}
			return nil
		case "shape":
			seen++
			dims, err := naturals(d, "shape")
			for _, n := range dims {
				s.Shape = append(s.Shape, int(n))
			}
			return err
		case "data_offsets":
			seen++
			var err error
			offsets, err = naturals(d, "data_offsets")
			if err == nil && len(offsets) != 2 {
				err = fmt.Errorf("data_offsets has %d numbers, want 2", len(offsets))
			}
			return err
		}
		var ignored json.RawMessage
		return d.Decode(&ignored)
	})
	if err != nil {
		return s, err
	}
	if seen != 3 {
		return s, errors.New("dtype, shape and data_offsets are all needed")
	}
	s.lo, s.hi = offsets[0], offsets[1]
	return s, s.check()
}

// check holds the shape against the byte range.
func (s span) check() error {
	if s.hi < s.lo {
		return fmt.Errorf("data_offsets [%d %d] end before they begin", s.lo, s.hi)
	}
	total := uint64(s.DType.Bits())
	for _, n := range s.Shape {
		hi, lo := bits.Mul64(total, uint64(n))
		if hi != 0 || lo > math.MaxInt {
			return fmt.Errorf("shape %v of %s overflows", s.Shape, s.DType)
		}
		total = lo
	}
	if total%8 != 0 {
		return fmt.Errorf("shape %v of %s does not fill whole bytes", s.Shape, s.DType)
	}
	if total/8 != s.hi-s.lo {
		return fmt.Errorf("shape %v of %s needs %d bytes, and data_offsets [%d %d] hold %d",
			s.Shape, s.DType, total/8, s.lo, s.hi, s.hi-s.lo)
	}
	return nil
}

// place sorts spans by offset and cuts data into them. They must cover it exactly: an overlap would let one
// tensor change with another's name, a hole could hide anything.
func place(spans []span, data []byte) ([]Tensor, error) {
	slices.SortFunc(spans, func(a, b span) int {
		if a.lo != b.lo {
			return cmpUint(a.lo, b.lo)
		}
		return cmpUint(a.hi, b.hi) // an empty tensor before the one that begins where it lies
	})
	tensors := make([]Tensor, len(spans))
	at := uint64(0)
	for i, s := range spans {
		switch {
		case s.lo < at:
			return nil, fmt.Errorf("tensor %q begins at byte %d, inside %q, which ends at %d", s.Name, s.lo, spans[i-1].Name, at)
		case s.lo > at:
			return nil, fmt.Errorf("bytes %d to %d before tensor %q belong to no tensor", at, s.lo, s.Name)
		case s.hi > uint64(len(data)):
			return nil, fmt.Errorf("tensor %q ends at byte %d, and the file has %d: it is cut off", s.Name, s.hi, len(data))
		}
		s.Data = data[s.lo:s.hi:s.hi]
		tensors[i] = s.Tensor
		at = s.hi
	}
	if at != uint64(len(data)) {
		return nil, fmt.Errorf("the tensors end at byte %d, and the file has %d", at, len(data))
	}
	return tensors, nil
}

func cmpUint(a, b uint64) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// object reads a JSON object and calls value, which must consume the value, for each key. A repeated key is
// an error: encoding/json would keep the last, other readers the first.
func object(d *json.Decoder, value func(key string) error) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("found %v where an object should be", t)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("found %v where a name should be", t)
		}
		if seen[key] {
			return fmt.Errorf("%q appears twice", key)
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// naturals reads a list of whole numbers that fit an int.
func naturals(d *json.Decoder, what string) ([]uint64, error) {
	var list []json.Number
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if list == nil {
		return nil, fmt.Errorf("%s is null", what)
	}
	out := make([]uint64, len(list))
	for i, v := range list {
		n, err := strconv.ParseUint(v.String(), 10, 63)
		if err != nil || n > math.MaxInt {
			return nil, fmt.Errorf("%s: %s is not a whole number that fits", what, v)
		}
		out[i] = n
	}
	return out, nil
}
