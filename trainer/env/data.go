package env

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"tandem/trainer/reward"
)

// Columns name those of a data set; "" finds the usual ones.
type Columns struct {
	Problem string // problem, question or prompt: text, or a conversation whose last user message counts
	Answer  string // answer, label, reward_model.ground_truth, or the box in solution
	Reply   string // a demonstration
}

// A Data is what a file gave.
type Data struct {
	Problems []Problem
	Dropped  int // rows without a readable answer, such as a solution with no box
}

// ReadData reads problems from JSON Lines or, by its name, Parquet. A slice may follow the path: file.jsonl@[10:20],
// @[:100], @[-50:].
func ReadData(spec string, c Columns) (Data, error) {
	path, lo, hi, err := parseSlice(spec)
	if err != nil {
		return Data{}, fmt.Errorf("read problems: %w", err)
	}
	var rows []map[string]any
	if strings.HasSuffix(path, ".parquet") {
		rows, err = parquetRows(path)
	} else {
		rows, err = jsonRows(path)
	}
	if err != nil {
		return Data{}, fmt.Errorf("read problems from %s: %w", path, err)
	}
	first, rows := cutRows(rows, lo, hi)
	var d Data
	for i, row := range rows {
		p, ok, err := c.problem(row)
		if err != nil {
			return Data{}, fmt.Errorf("read problems from %s: row %d: %w", path, first+i+1, err)
		}
		if !ok {
			d.Dropped++
			continue
		}
		p.ID = first + i
		d.Problems = append(d.Problems, p)
	}
	if len(d.Problems) == 0 {
		return d, fmt.Errorf("read problems from %s: %d rows, none with a problem and an answer", spec, len(rows))
	}
	return d, nil
}

var sliced = regexp.MustCompile(`^(.*)@\[(-?\d*):(-?\d*)\]$`)

// DataPath is the file of what ReadData takes.
func DataPath(spec string) string {
	path, _, _ := strings.Cut(spec, "@[")
	return path
}

// parseSlice takes path@[lo:hi] apart; an open end is the largest int.
func parseSlice(spec string) (path string, lo, hi int, err error) {
	m := sliced.FindStringSubmatch(spec)
	if m == nil {
		if strings.Contains(spec, "@[") {
			return "", 0, 0, fmt.Errorf("%q: want path@[from:to]", spec)
		}
		return spec, 0, math.MaxInt, nil
	}
	hi = math.MaxInt
	for i, to := range []*int{&lo, &hi} {
		if s := m[2+i]; s != "" {
			if *to, err = strconv.Atoi(s); err != nil {
				return "", 0, 0, fmt.Errorf("%q: %w", spec, err)
			}
		}
	}
	return m[1], lo, hi, nil
}

// cutRows is Python's rows[lo:hi], with the number of the first row.
func cutRows(rows []map[string]any, lo, hi int) (int, []map[string]any) {
	bound := func(i int) int {
		if i < 0 {
			i += len(rows)
		}
		return min(max(i, 0), len(rows))
	}
	lo, hi = bound(lo), bound(hi)
	return lo, rows[lo:max(lo, hi)]
}

func jsonRows(path string) ([]map[string]any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []map[string]any
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var row map[string]any
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&row); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			rows = append(rows, row)
		}
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func parquetRows(path string) ([]map[string]any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, st.Size())
	if err != nil {
		return nil, err
	}
	r := parquet.NewReader(file)
	defer r.Close()
	var rows []map[string]any
	for {
		row := map[string]any{}
		err := r.Read(&row)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", len(rows)+1, err)
		}
		rows = append(rows, row)
	}
}

// problem reads a row; ok is false where it has no readable answer.
func (c Columns) problem(row map[string]any) (p Problem, ok bool, err error) {
	if p.Text, err = c.text(row); err != nil {
		return p, false, err
	}
	if c.Reply != "" {
		if p.Reply, ok = scalar(row[c.Reply]); !ok {
			return p, false, fmt.Errorf("column %q is missing", c.Reply)
		}
	}
	if p.Answer, ok, err = c.answer(row); err != nil || !ok && c.Reply == "" {
		return p, false, err
	}
	return p, true, nil
}

func (c Columns) text(row map[string]any) (string, error) {
	names := []string{"problem", "question", "prompt"}
	if c.Problem != "" {
		names = []string{c.Problem}
	}
	for _, name := range names {
		switch v := row[name].(type) {
		case nil:
		case []any:
			return lastUser(v)
		default:
			if s, ok := scalar(v); ok && s != "" {
				return s, nil
			}
			return "", fmt.Errorf("column %q is empty or not text", name)
		}
	}
	return "", fmt.Errorf("there is no column %s", strings.Join(names, ", "))
}

// lastUser is the user's last message of a conversation.
func lastUser(messages []any) (string, error) {
	for i := len(messages) - 1; i >= 0; i-- {
		m, _ := messages[i].(map[string]any)
		if s, ok := scalar(m["content"]); ok && m["role"] == "user" {
			return s, nil
		}
	}
	return "", errors.New("the conversation has no message of a user")
}

func (c Columns) answer(row map[string]any) (string, bool, error) {
	if c.Answer != "" {
		v, there := row[c.Answer]
		s, ok := scalar(v)
		if !there {
			return "", false, fmt.Errorf("there is no column %q", c.Answer)
		}
		return finalAnswer(s), ok, nil
	}
	for _, name := range []string{"answer", "label"} {
		if s, ok := scalar(row[name]); ok {
			return finalAnswer(s), true, nil
		}
	}
	if m, ok := row["reward_model"].(map[string]any); ok {
		s, ok := scalar(m["ground_truth"])
		return s, ok, nil
	}
	if s, ok := scalar(row["solution"]); ok {
		box, found := reward.Boxed(s)
		return box, found, nil
	}
	return "", false, nil
}

// finalAnswer is what follows the #### of a worked answer, as GSM8K writes them.
func finalAnswer(s string) string {
	if _, after, ok := strings.Cut(s, "####"); ok {
		return strings.TrimSpace(after)
	}
	return s
}

// scalar is a text or a number as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case int32:
		return strconv.FormatInt(int64(v), 10), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}
