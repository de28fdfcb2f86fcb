package reward_test

import (
	"strings"
	"testing"

	"tandem/trainer/reward"
)

func TestTraps(t *testing.T) {
	tests := []struct {
		name, grader string
		labels       []string
		thinking     bool
		want         []string // a part of each sentence
	}{
		{"deepscaler without thinking", "deepscaler", []string{"1"}, false, []string{"every reward is 0"}},
		{"deepscaler with thinking", "deepscaler", []string{"1"}, true, nil},
		{"math without thinking", "math", []string{"1", `\frac{1}{2}`, `\text{Evelyn}`}, false, nil},
		{"math with thinking", "math", []string{"1"}, true, []string{"unfinished thinking part"}},
		{"math with an empty label", "math", []string{"1", ""}, false, []string{`cannot read 1 of 2 labels (the first is "")`}},
		{"dapo on whole numbers", "dapo", []string{"1", "-34", "1,250"}, false, nil},
		{"dapo on expressions", "dapo", []string{"1", `\frac{1}{2}`, "x"}, false, []string{"cannot read 2 of 3 labels"}},
		{"dapo on decimals", "dapo", []string{"0.5", "2"}, false, []string{"does not accept 1 of 2 labels"}},
		{"dapo-strict on long labels", "dapo-strict", []string{strings.Repeat("7", 101)}, false, []string{"does not accept 1 of 1"}},
		{"dapo-strict on numbers", "dapo-strict", []string{"7"}, false, nil},
		{"tandem", "tandem", []string{"7", `\frac{1}{2}`, "so 7.\n#### 7", `thus \boxed{(1,2)}`}, true, nil},
		{"tandem on a broken label", "tandem", []string{`\frac{1`, "7"}, true, []string{"cannot read 1 of 2 labels"}},
		{"unknown grader", "none", []string{"7"}, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := reward.Traps(tt.grader, tt.labels, tt.thinking)
			if len(got) != len(tt.want) {
				t.Fatalf("%d sentences, want %d: %q", len(got), len(tt.want), got)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("sentence %q does not say %q", got[i], tt.want[i])
				}
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, name := range reward.Names() {
		g, err := reward.New(name)
		if err != nil || g.Name() != name {
			t.Errorf("New(%q) = %v, %v", name, g, err)
		}
	}
	if _, err := reward.New("sympy"); err == nil || !strings.Contains(err.Error(), "tandem, math") {
		t.Errorf("an unknown grader gives error %v", err)
	}
}
