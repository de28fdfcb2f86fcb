package trainer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"tandem/model"
	"tandem/trainer/env"
)

// imported is a file of rollouts that were sampled elsewhere, held to what the run can take. A step reads its part of it.
type imported struct {
	path   string
	crc    uint32
	limits importLimits
	steps  []part
}

// A part is the lines of one step.
type part struct {
	offset      int64
	first, last int // lines, from 1
}

// importLimits are what a run can take.
type importLimits struct {
	vocab, live int // token ids are below; sampled ones below live
	context     int // tokens of a sequence
	maxTokens   int // sampled tokens of one
	prompts     int // groups of a step where the file does not say
	steps       int // that the run wants
}

func limitsOf(r Recipe, c model.Config) importLimits {
	return importLimits{vocab: c.Vocab, live: c.Live, context: r.Model.Context, maxTokens: r.Rollout.MaxTokens, prompts: r.Rollout.Prompts, steps: r.Train.Steps}
}

// sum is the checksum of the file; 0 without one.
func (im *imported) sum() uint32 {
	if im == nil {
		return 0
	}
	return im.crc
}

// Sums tell the file of imported rollouts and the teacher's weights apart from others; "" where there is none.
func (t *Trainer) Sums() (rollouts, teacher string) {
	if t.imported != nil {
		rollouts = fmt.Sprintf("checksum %08x", t.imported.crc)
	}
	if t.learner.teacher != nil {
		teacher = fmt.Sprintf("checksum %08x", t.learner.teacherSum)
	}
	return rollouts, teacher
}

// openImported reads the whole file once and notes where its steps begin.
func openImported(path string, l importLimits) (*imported, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("rollouts: %w", err)
	}
	defer f.Close()
	im := &imported{path: path, limits: l}
	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	at := grouping{limits: l}
	offset := int64(0)
	err = eachRow(io.TeeReader(f, hash), 1, func(n int, row *rolloutRow) error {
		begins, err := at.add(n, row)
		if err != nil {
			return err
		}
		if begins {
			im.steps = append(im.steps, part{offset: offset, first: n})
		}
		im.steps[len(im.steps)-1].last = n
		return nil
	}, func(size int) { offset += int64(size) })
	if err != nil {
		return nil, fmt.Errorf("rollouts %s: %w", path, err)
	}
	if len(im.steps) < l.steps {
		return nil, fmt.Errorf("rollouts %s: there are %d steps of rollouts, and train.steps is %d", path, len(im.steps), l.steps)
	}
	im.crc = hash.Sum32()
	return im, nil
}

// eachRow decodes line by line, the first of which is line n; empty ones count and are passed over. past is told the bytes
// of every line, after row.
func eachRow(r io.Reader, n int, row func(n int, row *rolloutRow) error, past func(size int)) error {
	br := bufio.NewReaderSize(r, 1<<20)
	for ; ; n++ {
		line, err := br.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			v, e := parseRow(line)
			if e == nil {
				e = row(n, v)
			}
			if e != nil {
				return fmt.Errorf("line %d: %w", n, e)
			}
		}
		past(len(line))
		if err != nil {
			return nil
		}
	}
}

func parseRow(line []byte) (*rolloutRow, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	row := &rolloutRow{}
	if err := d.Decode(row); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("there is more after the object")
	}
	return row, nil
}

// A grouping follows the rows of a file: which group and step each belongs to.
type grouping struct {
	limits importLimits
	rows   int
	step   *int         // of the last row
	group  int          // of the last row
	prompt []int32      // of its group
	begun  int          // the line on which the group begins
	seen   map[int]bool // groups of the step
}

// add takes row n; begins says that a step begins with it.
func (g *grouping) add(n int, row *rolloutRow) (begins bool, err error) {
	if err := row.check(g.limits); err != nil {
		return false, err
	}
	first := g.rows == 0
	g.rows++
	if !first && (g.step == nil) != (row.Step == nil) {
		return false, errors.New("step is in some lines only: want it in all or in none")
	}
	switch {
	case first:
		begins = true
	case row.Step != nil && *row.Step < *g.step:
		return false, fmt.Errorf("step is %d after %d: want them ascending", *row.Step, *g.step)
	case row.Step != nil:
		begins = *row.Step > *g.step
	default:
		begins = *row.Group != g.group && len(g.seen) == g.limits.prompts
	}
	if begins {
		g.seen = make(map[int]bool)
	}
	prompt := row.Tokens[:row.Spans[0][0]]
	switch {
	case begins || *row.Group != g.group:
		if g.seen[*row.Group] {
			return false, fmt.Errorf("group %d is there again: want the lines of a group together", *row.Group)
		}
		g.seen[*row.Group] = true
		g.prompt, g.begun = prompt, n
	case !slices.Equal(prompt, g.prompt):
		return false, fmt.Errorf("group %d has another prompt than on line %d", *row.Group, g.begun)
	}
	g.step, g.group = row.Step, *row.Group
	return begins, nil
}

// groups are those of the i-th step.
func (im *imported) groups(i int) ([]Group, error) {
	if i >= len(im.steps) {
		return nil, fmt.Errorf("rollouts %s: there is no step %d", im.path, i)
	}
	f, err := os.Open(im.path)
	if err != nil {
		return nil, fmt.Errorf("rollouts: %w", err)
	}
	defer f.Close()
	p := im.steps[i]
	if _, err := f.Seek(p.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rollouts %s: %w", im.path, err)
	}
	var out []Group
	last := 0
	done := errors.New("the step is read")
	err = eachRow(f, p.first, func(n int, row *rolloutRow) error {
		if n > p.last {
			return done
		}
		if err := row.check(im.limits); err != nil {
			return fmt.Errorf("%w (it has changed since the start)", err)
		}
		if len(out) == 0 || *row.Group != last {
			out, last = append(out, Group{Problem: env.Problem{ID: row.Problem}}), *row.Group
		}
		out[len(out)-1].Rollouts = append(out[len(out)-1].Rollouts, row.rollout())
		return nil
	}, func(int) {})
	if err != nil && !errors.Is(err, done) {
		return nil, fmt.Errorf("rollouts %s: %w", im.path, err)
	}
	return out, nil
}

// take fills a step from the file.
func (t *Trainer) take(log *StepLog) (err error) {
	log.Groups, err = t.imported.groups(t.step - t.recipe.Warmup.Steps)
	for _, g := range log.Groups {
		log.Outcomes = append(log.Outcomes, g.outcome(draw{}))
	}
	return err
}
