package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"tandem/trainer/run"
)

// A Run is what a run directory holds, as read at one moment: the run may be going on.
type Run struct {
	Path        string
	Name        string // of the directory
	Recipe      string
	Settings    map[string]string // of the recipe: a.b is the key
	Steps       []Step
	Evaluations []Evaluation
	Replies     []Reply
	Processes   []Process
}

// A Step is a line of metrics.jsonl.
type Step struct {
	Step     int
	Stage    string
	Replayed bool
	Values   map[string]float64   // figures; one that is null is NaN
	Lists    map[string][]float64 // figures of several numbers
}

// An Evaluation is a line of evaluations.jsonl.
type Evaluation struct {
	Step      int     `json:"step"`
	Problems  int     `json:"problems"`
	Samples   int     `json:"samples"`
	Greedy    bool    `json:"greedy"`
	Reward    float64 `json:"reward"`
	Accuracy  float64 `json:"accuracy"`
	Length    float64 `json:"length"`
	Truncated float64 `json:"truncated"`
	Replies   []Reply `json:"replies"`
}

// A Reply is an episode as text.
type Reply struct {
	Step    int     `json:"step"`
	Shown   string  `json:"shown"`
	ID      int     `json:"id"`
	Problem string  `json:"problem"`
	Prompt  string  `json:"prompt"`
	Reply   string  `json:"reply"`
	Answer  string  `json:"answer"`
	Reward  float64 `json:"reward"`
	Reason  string  `json:"reason"`
	Stop    string  `json:"stop"`
	End     string  `json:"end"`
	Tokens  int     `json:"tokens"`

	Conversation []Said `json:"conversation"`
}

// Said is an entry of a conversation: what the model wrote, or what a tool or the task answered.
type Said struct {
	Who     string `json:"who"`
	Text    string `json:"text"`
	Failure string `json:"failure"`
}

// A Process is one that worked on the run.
type Process struct {
	Step       int       `json:"step"`
	Began      time.Time `json:"began"`
	Version    string    `json:"version"`
	Device     string    `json:"device"`
	Machine    string    `json:"machine"`
	Processors int       `json:"processors"`
	System     string    `json:"system"`
}

// Load reads a run directory.
func Load(path string) (*Run, error) {
	dir, recipe, err := run.Read(path)
	if err != nil {
		return nil, err
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	r := &Run{Path: path, Name: filepath.Base(full), Recipe: string(recipe), Settings: make(map[string]string)}
	var tables map[string]any
	if err := toml.Unmarshal(recipe, &tables); err != nil {
		return nil, fmt.Errorf("report: %s: recipe.toml: %w", path, err)
	}
	flatten(r.Settings, "", tables)
	err = errors.Join(
		dir.ReadLines("metrics.jsonl", func(line []byte) error {
			s, err := parseStep(line)
			r.Steps = append(r.Steps, s)
			return err
		}),
		lines(dir, "evaluations.jsonl", &r.Evaluations), lines(dir, "rollouts.jsonl", &r.Replies), lines(dir, "processes.jsonl", &r.Processes),
	)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("report: %s: %w", path, err)
	}
	return r, nil
}

func lines[T any](dir *run.Dir, file string, to *[]T) error {
	return dir.ReadLines(file, func(line []byte) error {
		var v T
		err := json.Unmarshal(line, &v)
		*to = append(*to, v)
		return err
	})
}

func flatten(to map[string]string, prefix string, table map[string]any) {
	for key, v := range table {
		if inner, ok := v.(map[string]any); ok {
			flatten(to, prefix+key+".", inner)
			continue
		}
		to[prefix+key] = fmt.Sprint(v)
	}
}

// parseStep takes every number of a line, whatever its name.
func parseStep(line []byte) (Step, error) {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(&fields); err != nil {
		return Step{}, err
	}
	s := Step{Values: make(map[string]float64), Lists: make(map[string][]float64)}
	s.Stage, _ = fields["stage"].(string)
	s.Replayed, _ = fields["replayed"].(bool)
	if n, ok := fields["step"].(float64); ok {
		s.Step = int(n)
	}
	for _, key := range []string{"step", "stage", "replayed"} {
		delete(fields, key)
	}
	s.take("", fields)
	if s.Values["trained"] == 0 { // a mean over nothing is no number, whatever the line says
		for _, name := range []string{"entropy", "ratio", "ratio_min", "ratio_max", "loss", "clipped"} {
			if _, ok := s.Values[name]; ok {
				s.Values[name] = math.NaN()
			}
		}
	}
	return s, nil
}

// take puts numbers, and lists of them, into the step; what is inside an object has the object's name before its own.
func (s *Step) take(prefix string, fields map[string]any) {
	for key, v := range fields {
		name := prefix + key
		switch v := v.(type) {
		case float64:
			s.Values[name] = v
		case bool:
			s.Values[name] = 0
			if v {
				s.Values[name] = 1
			}
		case nil:
			s.Values[name] = math.NaN()
		case map[string]any:
			s.take(name+".", v)
		case []any:
			if list, ok := numbers(v); ok {
				s.Lists[name] = list
			}
		}
	}
}

func numbers(v []any) ([]float64, bool) {
	var out []float64
	for _, x := range v {
		f, ok := x.(float64)
		if !ok {
			return nil, false
		}
		out = append(out, f)
	}
	return out, true
}

// Figures are the names of all figures of the run, known ones first, in the order of Figures, then the others by name.
func (r *Run) Figures() []string {
	seen := make(map[string]bool)
	for _, s := range r.Steps {
		for name := range s.Values {
			seen[name] = true
		}
	}
	var names []string
	for _, f := range figures {
		if seen[f.Name] {
			names = append(names, f.Name)
			delete(seen, f.Name)
		}
	}
	var rest []string
	for name := range seen {
		rest = append(rest, name)
	}
	slices.Sort(rest)
	return append(names, rest...)
}

// Curve is a figure over the steps of a stage, "" for all. Steps count from 1, warm-up included.
func (r *Run) Curve(name, stage string) (x, y []float64) {
	for _, s := range r.Steps {
		v, ok := s.Values[name]
		if stage != "" && s.Stage != stage {
			continue
		}
		if !ok {
			v = math.NaN()
		}
		x, y = append(x, float64(s.Step+1)), append(y, v)
	}
	return x, y
}

// stage is the one whose figures count: that of the rollouts, or of the warm-up where there are none.
func (r *Run) stage() string {
	for _, s := range r.Steps {
		if s.Stage != "warmup" {
			return s.Stage
		}
	}
	return "warmup"
}

// planned is the number of steps of the recipe.
func (r *Run) planned() int {
	n := 0
	for _, key := range []string{"warmup.steps", "train.steps"} {
		var k int
		if _, err := fmt.Sscan(r.Settings[key], &k); err == nil {
			n += k
		}
	}
	return n
}

// values of a figure over the steps that count, without those that are no numbers.
func (r *Run) values(name string) []float64 {
	_, y := r.Curve(name, r.stage())
	return slices.DeleteFunc(y, func(v float64) bool { return v-v != 0 })
}

// ends are means of a figure over the first and last few steps that count.
func (r *Run) ends(name string) (first, last float64) {
	const few = 5
	v := r.values(name)
	n := min(few, len(v))
	return mean(v[:n]), mean(v[len(v)-n:])
}

func mean(v []float64) float64 { return sum(v) / float64(len(v)) }

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

// eval is the first or last evaluation of a kind.
func (r *Run) eval(greedy, last bool) (Evaluation, bool) {
	var found Evaluation
	ok := false
	for _, e := range r.Evaluations {
		if e.Greedy == greedy && (!ok || last) {
			found, ok = e, true
		}
	}
	return found, ok
}

// interval is the 95 % Wilson interval of a share. The samples of a problem say the same, more or less, so that a problem
// counts once: the interval is rather too wide.
func (e Evaluation) interval() (low, high float64) {
	const z = 1.959964
	n := float64(e.Problems)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	p := min(max(e.Accuracy, 0), 1)
	middle := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, middle-half), min(1, middle+half)
}

func title(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "_", " "), ".", " ")
}
