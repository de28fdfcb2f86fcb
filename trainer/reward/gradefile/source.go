package gradefile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// maxLine bounds one line of a JSON Lines file, so that a file that is none is refused
// before it fills memory.
const maxLine = 256 << 20

// A source gives rows one after the other, each with its line (from 1), and io.EOF at
// the end. read is how much of the file has been used up, in bytes or rows of total;
// total is 0 where it is not known.
type source interface {
	next() (text []byte, line int, err error)
	progress() (read, total int64)
}

// open returns the source for a path: standard input for "-", a Parquet file where the
// first bytes say so, JSON Lines otherwise.
func open(path string, stdin io.Reader) (source, func() error, error) {
	if path == "-" {
		return &lines{r: bufio.NewReaderSize(stdin, 1<<20)}, func() error { return nil }, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	magic := make([]byte, 4)
	if n, _ := f.ReadAt(magic, 0); n == 4 && string(magic) == "PAR1" {
		p, err := parquetSource(f, st.Size())
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("open Parquet file %s: %w", path, err), f.Close())
		}
		return p, f.Close, nil
	}
	return &lines{r: bufio.NewReaderSize(f, 1<<20), total: st.Size()}, f.Close, nil
}

type lines struct {
	r           *bufio.Reader
	line        int
	read, total int64
}

func (l *lines) progress() (int64, int64) { return l.read, l.total }

// next skips blank lines but counts them.
func (l *lines) next() ([]byte, int, error) {
	for {
		l.line++
		text, err := l.whole()
		l.read += int64(len(text))
		if err != nil && (err != io.EOF || len(text) == 0) {
			return nil, l.line, err
		}
		for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r' || text[len(text)-1] == ' ') {
			text = text[:len(text)-1]
		}
		if len(text) > 0 {
			return text, l.line, nil
		}
	}
}

func (l *lines) whole() ([]byte, error) {
	var text []byte
	for {
		part, err := l.r.ReadSlice('\n')
		text = append(text, part...)
		if err != bufio.ErrBufferFull {
			return text, err
		}
		if len(text) > maxLine {
			return nil, fmt.Errorf("line %d is longer than %d MiB: not JSON Lines", l.line, maxLine>>20)
		}
	}
}

// parquetRows reads a Parquet file as JSON objects, fields in the order of its schema.
type parquetRows struct {
	r       *parquet.GenericReader[any]
	columns []string
	row     int
	total   int64
}

func parquetSource(f *os.File, size int64) (*parquetRows, error) {
	file, err := parquet.OpenFile(f, size)
	if err != nil {
		return nil, err
	}
	p := &parquetRows{r: parquet.NewGenericReader[any](file, file.Schema()), total: file.NumRows()}
	for _, c := range file.Schema().Fields() {
		p.columns = append(p.columns, c.Name())
	}
	return p, nil
}

func (p *parquetRows) progress() (int64, int64) { return int64(p.row), p.total }

func (p *parquetRows) next() ([]byte, int, error) {
	p.row++
	one := make([]any, 1)
	if n, err := p.r.Read(one); n == 0 {
		return nil, p.row, err
	}
	values, ok := one[0].(map[string]any)
	if !ok {
		return nil, p.row, fmt.Errorf("row %d is a %T, want columns by name", p.row, one[0])
	}
	var r row
	for _, c := range p.columns {
		text, err := json.Marshal(plain(values[c]))
		if err != nil {
			return nil, p.row, fmt.Errorf("row %d, column %q: %w", p.row, c, err)
		}
		r = append(r, member{c, text})
	}
	return r.with(nil), p.row, nil
}

// plain makes text of the byte slices that Parquet strings may arrive as.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}
