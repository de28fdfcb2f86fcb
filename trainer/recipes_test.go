package trainer

import (
	"context"
	"os"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/model"
	"tandem/trainer/recipes"
)

// shipped is a recipe that ships.
func shipped(t *testing.T, name string) Recipe {
	t.Helper()
	text, err := recipes.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRecipe(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// toy is a recipe at the size of the successor task, with the algorithm, the optimizer's states and the ways of sampling that
// it has.
func toy(r Recipe) Recipe {
	small := testRecipe()
	small.Seed, small.Algorithm, small.States = r.Seed, r.Algorithm, r.States
	small.Algorithm.OverlongCache = min(r.Algorithm.OverlongCache, 1)
	small.Rollout.Dynamic, small.Rollout.Waves, small.Rollout.Carry, small.Rollout.Rest = r.Rollout.Dynamic, r.Rollout.Waves, r.Rollout.Carry, r.Rollout.Rest
	small.Optimizer.LR *= r.Optimizer.LR / 1e-4
	return small
}

// TestEveryAlgorithmRaisesTheReward trains the toy task by every recipe of the demo's.
func TestEveryAlgorithmRaisesTheReward(t *testing.T) {
	if testing.Short() {
		t.Skip("whole runs")
	}
	algorithms := make(map[string]bool)
	for _, name := range recipes.Names() {
		if !strings.HasPrefix(name, "demo") || name == "demo-tools" {
			continue
		}
		r := toy(shipped(t, name))
		algorithms[r.Algorithm.Name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.Train.Steps, r.Evaluation.Samples = 30, 32
			tr := newTestTrainer(t, r, nil)
			score := func() float64 { // of all problems, where dynamic sampling keeps what is neither all right nor all wrong
				e, err := tr.Evaluate(context.Background(), false, 0)
				if err != nil {
					t.Fatal(err)
				}
				return e.Reward
			}
			steps(t, tr, r.Warmup.Steps)
			before := score()
			for _, m := range steps(t, tr, r.Train.Steps) {
				if m.Mismatch != 0 {
					t.Fatalf("step %d: the sampler's log-probs differ from the trainer's by %g", m.Step, m.Mismatch)
				}
			}
			after := score()
			t.Logf("mean reward %.3f before, %.3f after", before, after)
			if !(after > before+0.15) {
				t.Errorf("mean reward %.3f before, %.3f after", before, after)
			}
		})
	}
	for _, name := range []string{"grpo", "gspo", "cispo", "rloo", "reinforce++"} {
		if !algorithms[name] {
			t.Errorf("no recipe of the demo's task trains by %s", name)
		}
	}
}

// TestShippedRecipesFitTheirCards plans those that are made for cards.
func TestShippedRecipesFitTheirCards(t *testing.T) {
	for _, c := range []struct {
		recipe, card string
		gpus         int
		shape        string
		fits         bool
	}{
		{"math-8b", "h100-nvl", 1, "8b", true},
		{"math-8b", "h200", 1, "8b", true},
		{"math-8b", "b200", 1, "8b", true},
		{"math-8b", "h100-80g", 1, "8b", false}, // the micro-batch is too large
		{"math-8b", "h100-80g", 8, "8b", false},
		{"tools-4b", "b200", 8, "4b-instruct-2507", true},
		{"tools-4b", "h200", 8, "4b-instruct-2507", true},
		{"gsm8k-0.6b", "h100-80g", 1, "0.6b", true},
	} {
		r := shipped(t, c.recipe)
		if r.Model.Shape != c.shape {
			t.Errorf("%s is for shape %q", c.recipe, r.Model.Shape)
		}
		config, err := model.Shape(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		on, err := NewMachine(c.card, c.gpus)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Place(r, config, kernels.BF16, on)
		if (err == nil) != c.fits {
			t.Errorf("%s on %d %s: %v", c.recipe, c.gpus, c.card, err)
			continue
		}
		if err == nil && (p.Total() > on.Free || p.Recipe.Rollout.Pages < model.PagesFor(r.Model.Context)) {
			t.Errorf("%s on %s: %d of %d bytes, %d pages", c.recipe, c.card, p.Total(), on.Free, p.Recipe.Rollout.Pages)
		}
	}
}

// TestPublishedRuns holds the two recipes to the runs that they repeat.
func TestPublishedRuns(t *testing.T) {
	m := shipped(t, "math-8b")
	if n := m.Rollout.Prompts * m.Rollout.Samples / m.Algorithm.Updates; n != 128 || m.Train.Steps != 120 || m.Rollout.MaxTokens != 4096 || m.Optimizer.LR != 1e-6 ||
		m.Optimizer.Schedule != "constant" || m.Model.Template != "no-thinking" || m.Data.Grader != "math" || m.Algorithm.KL != 0 || !m.Algorithm.Std || !m.States.Offload {
		t.Errorf("math-8b is %+v", m)
	}
	w := shipped(t, "tools-4b")
	if n := w.Rollout.Prompts * w.Rollout.Samples / w.Algorithm.Updates; n != 256 || w.Train.Steps*w.Algorithm.Updates != 1084 || w.Rollout.MaxTokens != 8192 ||
		w.Optimizer.LR != 1e-6 || w.Tools.Name != "code_interpreter" || w.Data.Reward != "signed" || w.Seed != 42 || w.Algorithm.KL != 0 {
		t.Errorf("tools-4b is %+v", w)
	}
}

// TestShrunkRecipesTrain takes steps by those of real models, too.
func TestShrunkRecipesTrain(t *testing.T) {
	for _, name := range []string{"math-8b", "tools-4b", "gsm8k-0.6b"} {
		r := toy(shipped(t, name))
		r.Warmup.Steps, r.Train.Steps = 1, 2
		for _, m := range steps(t, newTestTrainer(t, r, nil), r.Steps()) {
			if m.Mismatch != 0 || m.Skipped != 0 {
				t.Errorf("%s, step %d: mismatch %g, %d skipped", name, m.Step, m.Mismatch, m.Skipped)
			}
		}
	}
}

// TestBaseOfARecipe reads one over another.
func TestBaseOfARecipe(t *testing.T) {
	demo := shipped(t, "demo")
	r, err := ParseRecipe([]byte("base = \"demo\"\n[optimizer]\nlr = 0.5\n"), "rollout.prompts=3")
	if err != nil {
		t.Fatal(err)
	}
	want := demo
	want.Name, want.Optimizer.LR, want.Rollout.Prompts = "", 0.5, 3
	if r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	for text, fault := range map[string]string{
		"base = \"nothing\"\n":                "base \"nothing\"",
		"base = \"demo\"\n[rollout]\nx = 1\n": "line 3: unknown key rollout.x",
		"base = 3\n":                          "line 1",
	} {
		if _, err := ParseRecipe([]byte(text)); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.toml", "base = \"b.toml\"\n")
	write("b.toml", "base = \"a.toml\"\n")
	if _, err := ParseRecipe([]byte("base = \"a.toml\"\n")); err == nil || !strings.Contains(err.Error(), "in a circle") {
		t.Errorf("a circle: %v", err)
	}
}
