package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tandem/trainer/run"
)

// writeFile gives the path of a new file.
func writeFile(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rollouts.jsonl")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// written trains by a recipe and gives the state at the end and what was written of its rollouts.
func written(t *testing.T, r Recipe, env *stepwise) (state [][]float32, text []byte) {
	t.Helper()
	dir, err := run.Create(filepath.Join(t.TempDir(), "run"), r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	tr := newTestTrainer(t, r, dir)
	if env != nil {
		tr.roller.env = env
	}
	steps(t, tr, r.Steps())
	var b bytes.Buffer
	n, err := WriteRollouts(&b, dir, r.Steps())
	if want := r.Train.Steps * r.Rollout.Prompts * r.Rollout.Samples; err != nil || n != want || bytes.Count(b.Bytes(), []byte("\n")) != want {
		t.Fatalf("%d rollouts are written, %v, want %d", n, err, want)
	}
	return weightsOf(t, tr), b.Bytes()
}

// TestImportedRolloutsOfOurOwnTrainToTheSameBits writes a run's rollouts and trains on them.
func TestImportedRolloutsOfOurOwnTrainToTheSameBits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Recipe)
		env    *stepwise
	}{
		{"grpo", func(*Recipe) {}, nil},
		{"no weights", func(r *Recipe) { r.Algorithm.TIS = 0 }, nil},
		{"dynamic, with a reference", func(r *Recipe) { r.Rollout.Dynamic, r.Algorithm.KL, r.Algorithm.Name = true, 0.1, "gspo" }, nil},
		{"process rewards", func(r *Recipe) { r.Algorithm.OverlongFilter = true }, &stepwise{successor{8}, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := shortRecipe()
			r.Warmup.Steps, r.Train.Steps, r.Rollout.Samples = 8, 4, 4
			tt.change(&r)
			want, text := written(t, r, tt.env)
			r.Rollout.Dynamic = false
			for name, text := range map[string][]byte{
				"as written": text, "without steps": regexp.MustCompile(`"step":\d+,`).ReplaceAll(text, nil), "with empty lines": bytes.ReplaceAll(text, []byte("\n"), []byte("\n\n")),
			} {
				r.Data.Rollouts = writeFile(t, text)
				tr := newTestTrainer(t, r, nil)
				for _, m := range steps(t, tr, r.Steps())[r.Warmup.Steps:] {
					if m.Mismatch != 0 || m.Importance != 1 || m.ImportanceCapped != 0 {
						t.Errorf("%s: step %d: mismatch %v, weights %v, truncated %v", name, m.Step, m.Mismatch, m.Importance, m.ImportanceCapped)
					}
				}
				sameState(t, weightsOf(t, tr), want, name)
			}
		})
	}
}

func TestImportedRunResumes(t *testing.T) {
	r := shortRecipe()
	_, text := written(t, r, nil)
	r.Data.Rollouts = writeFile(t, foreign(text))
	for _, m := range resumeEqualsUninterrupted(t, r, 6, 8, 10)[r.Warmup.Steps:] {
		if m.Mismatch == 0 || m.Importance == 1 || m.ImportanceCapped == 0 || m.ImportanceCapped == 1 {
			t.Errorf("step %d: mismatch %v, weights %v, truncated %v", m.Step, m.Mismatch, m.Importance, m.ImportanceCapped)
		}
	}
	path := filepath.Join(t.TempDir(), "run")
	dir, err := run.Create(path, r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	steps(t, newTestTrainer(t, r, dir), 9)
	if err := os.WriteFile(r.Data.Rollouts, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := newTestTrainer(t, r, dir).Resume(); err == nil || !strings.Contains(err.Error(), r.Data.Rollouts+" holds other rollouts") {
		t.Errorf("other rollouts: error %v", err)
	}
}

// foreign lowers every other log-prob by 1, as if something else had sampled.
func foreign(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		var row rolloutRow
		if err := json.Unmarshal(line, &row); err != nil {
			panic(err)
		}
		for i := range row.LogProbs {
			row.LogProbs[i] -= float32(i % 2)
		}
		b, err := json.Marshal(row)
		if err != nil {
			panic(err)
		}
		out.Write(append(b, '\n'))
	}
	return out.Bytes()
}

// TestMissingRewardsOfImportedRollouts leaves rewards out of everything that is written.
func TestMissingRewardsOfImportedRollouts(t *testing.T) {
	r := shortRecipe()
	r.Warmup.Steps, r.Train.Steps = 0, 1
	_, text := written(t, r, nil)
	n := 0
	r.Data.Rollouts = writeFile(t, regexp.MustCompile(`"reward":[01]`).ReplaceAllFunc(text, func([]byte) []byte {
		n++
		return fmt.Appendf(nil, `"reward":%s`, []string{"1", "null", "0", "1"}[n%4])
	}))
	path := filepath.Join(t.TempDir(), "run")
	dir, err := run.Create(path, r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	tr := newTestTrainer(t, r, dir)
	tr.task.Text = func(tokens []int32) string { return fmt.Sprint(tokens) }
	m := steps(t, tr, 1)[0]
	if math.Abs(m.Reward-2.0/3) > 1e-9 || !(m.RewardQuarter <= m.RewardHalf && m.RewardHalf <= m.Reward) || m.AdvantageMax == 0 || m.GradNorm == 0 || m.GradNorm-m.GradNorm != 0 {
		t.Errorf("%+v", m)
	}
	for _, file := range []string{metricsFile, rolloutsFile} {
		b, err := os.ReadFile(filepath.Join(path, file))
		if err != nil || !json.Valid(bytes.Split(b, []byte("\n"))[0]) {
			t.Errorf("%s: %s, %v", file, b, err)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(path, rolloutsFile)); !bytes.Contains(b, []byte("the reward is missing")) {
		t.Errorf("%s", b)
	}
}

// TestMismatchOfImportedRollouts knows by how much the log-probs are off, and what the weights are.
func TestMismatchOfImportedRollouts(t *testing.T) {
	r := shortRecipe()
	r.Train.Steps, r.Algorithm.Updates, r.Algorithm.TIS = 1, 1, 2
	_, text := written(t, r, nil)
	r.Data.Rollouts = writeFile(t, foreign(text))
	for _, tis := range []float32{2, 5, 0} {
		r.Algorithm.TIS = tis
		m := steps(t, newTestTrainer(t, r, nil), r.Steps())[r.Warmup.Steps]
		if math.Abs(m.Mismatch-1) > 1e-6 {
			t.Errorf("limit %v: mismatch %v, want 1", tis, m.Mismatch)
		}
		truncated, want := m.ImportanceCapped, 1.0
		if tis == 2 {
			want = 1 + truncated // 2 where they are off
		}
		if tis != 5 && math.Abs(m.Importance-want) > 1e-6 || tis == 5 && !(truncated == 0 && m.Importance > 1.2 && m.Importance < math.E) {
			t.Errorf("limit %v: mean weight %v, %v truncated", tis, m.Importance, truncated)
		}
	}
}

// TestImportedRolloutsTeach trains on replies drawn at random, for which the weights have quite other log-probs.
func TestImportedRolloutsTeach(t *testing.T) {
	if testing.Short() {
		t.Skip("whole runs")
	}
	r := testRecipe()
	r.Warmup.Steps, r.Train.Steps, r.Rollout.Samples = 60, 40, 8
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	at := uint64(7)
	for i := range r.Train.Steps * r.Rollout.Prompts {
		for range r.Rollout.Samples {
			at = at*6364136223846793005 + 1442695040888963407
			problem, guess := i%8, int(at>>33)%8
			reward := float32(0)
			if guess == (problem+1)%8 {
				reward = 1
			}
			row := rolloutRow{
				Group: &i, Problem: problem, Tokens: []int32{8, int32(problem), int32(guess), 9}, Spans: [][2]int{{2, 4}},
				LogProbs: Floats{float32(-math.Log(8)), 0}, Reward: worth{reward, true},
			}
			if err := e.Encode(row); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Data.Rollouts = writeFile(t, text.Bytes())
	tr := newTestTrainer(t, r, nil)
	steps(t, tr, r.Warmup.Steps)
	before, err := tr.Evaluate(context.Background(), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	ms := steps(t, tr, r.Train.Steps)
	after, err := tr.Evaluate(context.Background(), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("reward %.3f to %.3f, mismatch %.2f, mean weight %.3f, truncated %.3f", before.Reward, after.Reward, ms[0].Mismatch, ms[0].Importance, ms[0].ImportanceCapped)
	if !(after.Reward > before.Reward+0.3) {
		t.Errorf("held-out reward %v, was %v", after.Reward, before.Reward)
	}
}

func TestImportedRolloutsAreHeldToTheirForm(t *testing.T) {
	good := `{"group":0,"tokens":[8,1,2,9],"spans":[[2,4]],"logprobs":[-0.5,-1e-7],"reward":1}`
	second := strings.Replace(good, `"group":0`, `"group":1`, 1)
	with := func(old, new string) []string { return []string{good, strings.Replace(good, old, new, 1)} }
	for _, tt := range []struct {
		name  string
		lines []string
		want  string // "" is accepted
	}{
		{"good", []string{good, good, second}, ""},
		{"windows lines and none at the end", []string{good + "\r\n", "\n", second}, ""},
		{"rewards that are missing", with(`"reward":1`, `"reward":null`), ""},
		{"all that a line can say", with(`"reward":1`, `"reward":-1.5,"problem":4,"process":[null,0.5],"stop":"length","reason":"r"`), ""},
		{"tokens of a tool", with(`[8,1,2,9],"spans":[[2,4]]`, `[8,1,2,7,7,9],"spans":[[2,3],[5,6]]`), ""},
		{"no JSON", []string{good, "{oops"}, "line 2: "},
		{"cut off", []string{good, good[:40]}, "line 2: "},
		{"an unknown key", with(`"reward"`, `"rewards":2,"reward"`), `line 2: json: unknown field "rewards"`},
		{"two objects", []string{good, good + " " + good}, "line 2: there is more after the object"},
		{"an array", []string{"[1]"}, "line 1: "},
		{"no group", with(`"group":0,`, ``), "line 2: there is no group"},
		{"no tokens", with(`[8,1,2,9]`, `[]`), "line 2: there are no tokens"},
		{"no spans", with(`"spans":[[2,4]],`, ``), "line 2: there are no spans"},
		{"no reward", with(`,"reward":1`, ``), "line 2: there is no reward"},
		{"a reward in words", with(`"reward":1`, `"reward":"good"`), "line 2: "},
		{"a reward that no float32 holds", with(`"reward":1`, `"reward":1e39`), "line 2: "},
		{"too many tokens", with(`[8,1,2,9]`, `[8,1,2,9`+strings.Repeat(",1", 13)+`]`), "line 2: 17 tokens exceed model.context, 16"},
		{"too many sampled", with(`[8,1,2,9],"spans":[[2,4]],"logprobs":[-0.5`, `[8,1,2,9,1,1],"spans":[[1,6]],"logprobs":[-1,-1,-1,-0.5`), "line 2: 5 sampled tokens exceed rollout.max_tokens, 4"},
		{"a token out of the vocabulary", with(`[8,1,2,9]`, `[8,10,2,9]`), "line 2: token 1 is 10, want 0 to 9"},
		{"a negative token", with(`[8,1,2,9]`, `[8,1,-2,9]`), "line 2: token 2 is -2, want 0 to 9"},
		{"a token that is no number", with(`[8,1,2,9]`, `[8,1.5,2,9]`), "line 2: "},
		{"a span from the first token", with(`[[2,4]]`, `[[0,2]]`), "line 2: span 0 is [0, 2], want at least a token, from 1 to at most 4"},
		{"an empty span", with(`[[2,4]]`, `[[2,2]]`), "line 2: span 0 is [2, 2]"},
		{"a span beyond the tokens", with(`[[2,4]]`, `[[2,5]]`), "line 2: span 0 is [2, 5]"},
		{"spans that overlap", with(`[[2,4]]`, `[[1,3],[2,4]]`), "line 2: span 1 is [2, 4], want at least a token, from 3"},
		{"too few log-probs", with(`[-0.5,-1e-7]`, `[-0.5]`), "line 2: there are 1 logprobs, and 2 tokens in spans"},
		{"no log-probs", with(`"logprobs":[-0.5,-1e-7],`, ``), "line 2: there are 0 logprobs"},
		{"a log-prob that is missing", with(`[-0.5,-1e-7]`, `[-0.5,null]`), "line 2: logprob 1 is NaN, want a number of at most 0"},
		{"a probability", with(`[-0.5,-1e-7]`, `[0.6,0.9]`), "line 2: logprob 0 is 0.6, want a number of at most 0"},
		{"process rewards of other tokens", with(`"reward":1`, `"reward":1,"process":[1]`), "line 2: there are 1 process rewards, and 2 tokens in spans"},
		{"two prompts in a group", with(`[8,1,2,9]`, `[8,3,2,9]`), "line 2: group 0 has another prompt than on line 1"},
		{"a group in two places", []string{good, second, good}, "line 3: group 0 is there again"},
		{"steps in some lines", []string{strings.Replace(good, `{`, `{"step":3,`, 1), good}, "line 2: step is in some lines only"},
		{"steps that fall", []string{strings.Replace(good, `{`, `{"step":3,`, 1), strings.Replace(second, `{`, `{"step":2,`, 1)}, "line 2: step is 2 after 3"},
		{"nothing", []string{"", ""}, "there are 0 steps of rollouts, and train.steps is 1"},
		{"too few steps", []string{good, second}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := testRecipe()
			l := limitsOf(r, testConfig(t))
			l.steps = 1
			if tt.name == "too few steps" {
				l.steps, tt.want = 2, "there are 1 steps of rollouts, and train.steps is 2"
			}
			path := writeFile(t, []byte(strings.Join(tt.lines, "\n")))
			im, err := openImported(path, l)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if groups, err := im.groups(0); err != nil || len(groups) == 0 {
					t.Errorf("%d groups, %v", len(groups), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := openImported(filepath.Join(t.TempDir(), "none"), importLimits{}); err == nil {
		t.Error("a file that is not there was opened")
	}
}

// TestStepsOfAFile cuts a file into steps, by its own numbers or by the recipe's.
func TestStepsOfAFile(t *testing.T) {
	row := func(step string, group string) string {
		return `{` + step + `"group":` + group + `,"tokens":[8,1,2],"spans":[[2,3]],"logprobs":[-1],"reward":0}`
	}
	l := limitsOf(testRecipe(), testConfig(t))
	l.prompts, l.steps = 2, 0
	for _, tt := range []struct {
		name  string
		lines []string
		want  [][]int // samples of the groups of the steps
	}{
		{"by numbers", []string{row(`"step":1,`, "0"), row(`"step":1,`, "0"), row(`"step":1,`, "1"), row(`"step":1,`, "2"), row(`"step":7,`, "2"), row(`"step":7,`, "0")}, [][]int{{2, 1, 1}, {1, 1}}},
		{"by prompts", []string{row("", "0"), row("", "0"), row("", "1"), "", row("", "0"), row("", "5"), row("", "5"), row("", "6")}, [][]int{{2, 1}, {1, 2}, {1}}},
	} {
		im, err := openImported(writeFile(t, []byte(strings.Join(tt.lines, "\n"))), l)
		if err != nil {
			t.Fatal(err)
		}
		if len(im.steps) != len(tt.want) {
			t.Fatalf("%s: %d steps, want %d", tt.name, len(im.steps), len(tt.want))
		}
		for i, want := range tt.want {
			groups, err := im.groups(i)
			if err != nil || len(groups) != len(want) {
				t.Fatalf("%s: step %d has %d groups, %v, want %d", tt.name, i, len(groups), err, len(want))
			}
			for g, n := range want {
				if len(groups[g].Rollouts) != n {
					t.Errorf("%s: step %d, group %d has %d samples, want %d", tt.name, i, g, len(groups[g].Rollouts), n)
				}
			}
		}
	}
}

func TestFloatsReadBackToTheSameBits(t *testing.T) {
	want := Floats{-0.1, 1e-45, math.MaxFloat32, -3.4e-30, float32(math.Copysign(0, -1)), missing}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Floats
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(isNaN(got[i]) && isNaN(want[i])) {
			t.Errorf("%v reads back as %v", want[i], got[i])
		}
	}
}
