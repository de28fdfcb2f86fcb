package trainer

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/model"
)

const goodRecipe = `
[model]
shape = "tiny"
tokenizer = "demo"

[data]
task = "addition"
`

func TestParseRecipeRefuses(t *testing.T) {
	for _, tt := range []struct {
		setting string
		want    []string
	}{
		{"rollout.promts=4", []string{"unknown key rollout.promts"}},
		{"rollout.prompts", []string{"want key=value"}},
		{"=4", []string{"want key=value"}},
		{"rollout.prompts=four", []string{"rollout.prompts"}},
		{"rollout.prompts=0", []string{"rollout.prompts is 0, want at least 1"}},
		{"rollout.prompts=4611686018427387904", []string{"rollout.prompts is 4611686018427387904, want at most 1073741824"}},
		{"rollout.samples=1000000000", []string{"rollout.prompts times samples is 16000000000, want at most 1073741824"}},
		{"model.context=1000000000000", []string{"model.context is 1000000000000, want at most"}},
		{"train.rows=9223372036854775807", []string{"train.rows is 9223372036854775807, want at most"}},
		{"rollout.rows=9000000000000000000", []string{"rollout.rows is", "want at most"}},
		{"rollout.batch=9000000000000000000", []string{"rollout.batch is", "want at most"}},
		{"rollout.pages=9000000000000000000", []string{"rollout.pages is", "want at most"}},
		{"rollout.temperature=0", []string{"rollout.temperature is 0", "greedy replies have no distribution to learn from"}},
		{"rollout.temperature=1e-30", []string{"rollout.temperature is 1e-30"}},
		{"rollout.temperature=inf", []string{"rollout.temperature is +Inf"}},
		{"rollout.temperature=nan", []string{"rollout.temperature is NaN"}},
		{"rollout.top_p=0.9", []string{"rollout.top_p is 0.9", "want 1 and 0"}},
		{"optimizer.lr=nan", []string{"optimizer.lr is NaN"}},
		{"warmup.optimizer.lr=2", []string{"warmup.optimizer.lr is 2"}},
		{"optimizer.eps=inf", []string{"optimizer.eps is +Inf"}},
		{"optimizer.clip_norm=-1", []string{"optimizer.clip_norm"}},
		{"optimizer.clip_norm=none", []string{`optimizer.clip_norm is "none", want a positive number or "off"`}},
		{"states.first_moment=fp8", []string{`states.first_moment is "fp8", want float32, bf16 or float16`}},
		{"states.second_moment=bf16", []string{"states.second_moment is bf16 with a beta of 0.999", "want a beta of 0.99609375 at most"}},
		{"states.master=bf16", []string{`states.master is "bf16", want float32 or bf16+16`}},
		{"algorithm.updates=3", []string{"algorithm.updates is 3, want a divisor of rollout.prompts, 16"}},
		{"checkpoint.keep=0", []string{"checkpoint.every and keep are 20 and 0, want at least 1"}},
		{"model.shape=", []string{"model.dir and model.shape are empty: want one of them"}},
		{"train.layout=both", []string{`train.layout is "both", want one of ["auto" "serial" "overlap"]`}},
		{"model.tokenizer=", []string{"model.tokenizer is empty"}},
		{"data.task=file", []string{"data.train is empty"}},
		{"data.task=multiplication", []string{"tools.name is empty: its demonstrations call"}},
		{"data.reward=calls", []string{"tools.name is empty: no reply can call"}},
		{"data.reward=2", []string{"data.reward"}},
		{"tools.name=browser", []string{`tools.name is "browser", want one of ["" "code_interpreter"]`}},
		{"tools.turns=0", []string{"tools.turns is 0, want at least 1"}},
		{"tools.seconds=nan", []string{"tools.seconds is NaN"}},
		{"rollout.carry=all", []string{`rollout.carry is "all", want prompts, groups or off`}},
		{"rollout.rest=-1", []string{"rollout.rest is -1, want 0 (off)"}},
		{"rollout.early_stop=4", []string{"rollout.early_stop is set without rollout.dynamic"}},
		{"rollout.early_stop=1", []string{"rollout.early_stop is 1, want 2 to less than rollout.samples, 8, or 0 for off"}},
		{"algorithm.tis=0.5", []string{"algorithm.tis is 0.5, want at least 1, or 0 for off"}},
		{"algorithm.tis=nan", []string{"algorithm.tis is NaN"}},
		{"algorithm.process=-1", []string{"algorithm.process is -1, want 0 (off) or more"}},
		{"algorithm.gamma=1.01", []string{"algorithm.gamma is 1.01, want 0 to 1"}},
		{"teacher={dir=\"x\", kl=0}", []string{"teacher.kl is 0, want more than 0"}},
		{"teacher={dir=\"x\", task=-1}", []string{"teacher.task is -1, want 0 (pure distillation) or more"}},
		{"rollout.turn_tokens=1025", []string{"rollout.turn_tokens is 1025, want 0 (no limit of its own) to rollout.max_tokens, 1024"}},
	} {
		_, err := ParseRecipe([]byte(goodRecipe), tt.setting)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q in it", tt.setting, err, want)
			}
		}
	}
}

// TestSettingsTakeText holds values that are no TOML to be text, and what a recipe writes to be read back.
func TestSettingsTakeText(t *testing.T) {
	r, err := ParseRecipe([]byte(goodRecipe), "name=a \"quoted\" name", "data.suffix=\\boxed{}\n", " rollout.prompts = 0x20 ", "optimizer.clip_norm=off", "seed=18446744073709551615", "algorithm.std=false")
	if err == nil {
		t.Errorf("a seed beyond TOML's integers was accepted as %d", r.Seed)
	}
	r, err = ParseRecipe([]byte(goodRecipe), "name=a \"quoted\" name", "data.suffix=\\boxed{}\n", " rollout.prompts = 0x20 ", "optimizer.clip_norm=off", "algorithm.std=false")
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != `a "quoted" name` || r.Data.Suffix != `\boxed{}` || r.Rollout.Prompts != 32 || r.Optimizer.ClipNorm != "off" || r.Algorithm.Std {
		t.Errorf("settings gave %+v", r)
	}
	again, err := ParseRecipe(r.TOML())
	if err != nil || again != r {
		t.Errorf("read back: %+v, %v, want %+v", again, err, r)
	}
}

// TestLargestSizesPlanWithoutOverflow is why sizes are bounded.
func TestLargestSizesPlanWithoutOverflow(t *testing.T) {
	c, err := model.Shape("32b")
	if err != nil {
		t.Fatal(err)
	}
	var set []string
	for _, key := range []string{"model.context", "rollout.pages", "rollout.batch", "rollout.rows", "train.rows"} {
		set = append(set, fmt.Sprintf("%s=%d", key, most))
	}
	r, err := ParseRecipe([]byte(goodRecipe), set...)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlan(r, c, kernels.BF16, Machine{Workers: 64})
	for _, item := range p.Items {
		if item.Bytes <= 0 {
			t.Errorf("%s takes %d bytes", item.Name, item.Bytes)
		}
	}
	if total := p.Total(); total <= 0 || float64(total) > math.MaxInt64/2 {
		t.Errorf("the total is %d", total)
	}
	if _, err := Place(r, c, kernels.BF16, free(1<<30)); err == nil || !strings.Contains(err.Error(), "nothing helps but a smaller model") {
		t.Errorf("%v", err)
	}
}
