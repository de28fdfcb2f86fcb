package trainer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"tandem/trainer/recipes"
)

// A Recipe is everything that decides a run, with the defaults filled in. See recipes/ for the ones that ship.
type Recipe struct {
	Name  string `toml:"name"`
	Base  string `toml:"base,omitempty"`  // a recipe that ships, or a file: what this one does not say is taken from there
	Fetch string `toml:"fetch,omitempty"` // commands, for people, that fetch the files that the recipe names
	Seed  uint64 `toml:"seed"`

	Model      ModelConfig      `toml:"model"`
	Data       DataConfig       `toml:"data"`
	Warmup     WarmupConfig     `toml:"warmup"`
	Rollout    RolloutConfig    `toml:"rollout"`
	Tools      ToolsConfig      `toml:"tools"`
	Algorithm  AlgorithmConfig  `toml:"algorithm"`
	Optimizer  OptimizerConfig  `toml:"optimizer"`
	States     StatesConfig     `toml:"states"`
	Train      TrainConfig      `toml:"train"`
	Teacher    TeacherConfig    `toml:"teacher"`
	Evaluation EvaluationConfig `toml:"evaluation"`
	Checkpoint CheckpointConfig `toml:"checkpoint"`
}

// ModelConfig says what is trained.
type ModelConfig struct {
	Dir       string `toml:"dir"`       // a Hugging Face directory
	Shape     string `toml:"shape"`     // what dir has to hold, and what is planned for where dir is not there; without dir: random weights of that shape
	Tokenizer string `toml:"tokenizer"` // a directory, "demo", or "" for the one in dir
	DType     string `toml:"dtype"`     // bf16 or float32
	Context   int    `toml:"context"`   // tokens of a sequence at most
	Template  string `toml:"template"`  // default, thinking, no-thinking or none
}

// DataConfig says what it is trained on.
type DataConfig struct {
	Task     string `toml:"task"`     // "addition", "multiplication", or "file": problems with answers
	Train    string `toml:"train"`    // file: JSON Lines or Parquet, with a slice: path@[a:b]
	HeldOut  string `toml:"held_out"` // file likewise, for evaluation; problems of a task are its own
	Rollouts string `toml:"rollouts"` // train on rollouts that were sampled elsewhere: JSON Lines; "" samples
	Problem  string `toml:"problem"`  // the column with the question; "" finds problem, question or prompt
	Answer   string `toml:"answer"`   // the column with the answer; "" finds answer, label or the box in solution
	Grader   string `toml:"grader"`   // how a reply is scored
	Reward   string `toml:"reward"`   // score: the grader's; signed: 1 or -1; calls: signed, and less is lost by a wrong reply that calls
	System   string `toml:"system"`   // a system message before every problem
	Suffix   string `toml:"suffix"`   // text after every problem
}

// WarmupConfig is supervised training before the rollouts, with an optimizer of its own.
type WarmupConfig struct {
	Steps     int             `toml:"steps"`
	Samples   int             `toml:"samples"` // of a step
	Data      string          `toml:"data"`    // "" is the task's own demonstrations; a file has prompt and reply
	Loss      Loss            `toml:"loss"`
	Optimizer OptimizerConfig `toml:"optimizer"`
}

// RolloutConfig says how replies are sampled.
type RolloutConfig struct {
	Prompts     int     `toml:"prompts"`     // of a step
	Samples     int     `toml:"samples"`     // of a prompt
	MaxTokens   int     `toml:"max_tokens"`  // sampled, of all turns of a reply
	TurnTokens  int     `toml:"turn_tokens"` // sampled, of one turn; 0 is max_tokens
	Temperature float32 `toml:"temperature"`
	TopP        float32 `toml:"top_p"`
	TopK        int     `toml:"top_k"`

	Dynamic      bool   `toml:"dynamic"`       // keep only prompts whose replies differ in reward
	OverSampling int    `toml:"over_sampling"` // prompts drawn at a time for that; 0 is prompts
	Waves        int    `toml:"waves"`         // times at most; then the others fill up
	Carry        string `toml:"carry"`         // of more of them than a step takes: prompts are drawn again first in the next; groups are trained then, one step old; off
	EarlyStop    int    `toml:"early_stop"`    // samples after which a prompt gets no more of them if all have one reward; 0 is off
	Rest         int    `toml:"rest"`          // times at most that a prompt is passed over since its replies had one reward: 1, 3, 7, ... in a row; 0 is off

	Pages int `toml:"pages"` // of the cache; 0 is what all sequences need, or what fits
	Batch int `toml:"batch"` // sequences decoded together at most; 0 is all of a step
	Rows  int `toml:"rows"`  // rows of one engine step at most
}

// AlgorithmConfig says what a reward does.
type AlgorithmConfig struct {
	Name     string  `toml:"name"` // grpo, gspo, cispo, rloo or reinforce++
	Std      bool    `toml:"std"`  // advantages over the group's standard deviation (grpo, gspo, cispo, process rewards)
	ClipLow  float32 `toml:"clip_low"`
	ClipHigh float32 `toml:"clip_high"`
	DualClip float32 `toml:"dual_clip"` // 0 is off
	Loss     Loss    `toml:"loss"`
	Updates  int     `toml:"updates"` // optimizer steps per rollout, each on an equal share of the prompts

	KL          float32 `toml:"kl"`           // weight of the penalty for leaving the weights as they were at the start; 0 is off
	KLEstimator string  `toml:"kl_estimator"` // k1, k2 or k3
	KLIn        string  `toml:"kl_in"`        // loss or reward

	TIS     float32 `toml:"tis"`     // imported rollouts: importance weights are truncated here; 0 is off
	Process float32 `toml:"process"` // weight of process rewards, where the environment gives any
	Gamma   float32 `toml:"gamma"`   // discount of process rewards, per token

	OverlongFilter bool `toml:"overlong_filter"` // replies that the limit ended are left out, of their group's mean, too
	OverlongCache  int  `toml:"overlong_cache"`  // the reward falls by up to 1 over this many tokens before the limit; 0 is off
}

// OptimizerConfig is AdamW.
type OptimizerConfig struct {
	LR          float32 `toml:"lr"`
	Schedule    string  `toml:"schedule"` // constant, linear or cosine (both to 0)
	WarmupSteps int     `toml:"warmup_steps"`
	Beta1       float32 `toml:"beta1"`
	Beta2       float32 `toml:"beta2"`
	Eps         float32 `toml:"eps"`
	WeightDecay float32 `toml:"weight_decay"` // of matrices; norms have none
	ClipNorm    string  `toml:"clip_norm"`    // a positive number, or "off"
	MaxSkips    int     `toml:"max_skips"`    // steps in a row with a gradient that is no number before the run stops
}

// StatesConfig says how, and where, the optimizer's states are kept: those of the warm-up's optimizer, too.
type StatesConfig struct {
	Master       string `toml:"master"`        // float32, or "bf16+16": 16 bits beside each bf16 weight, with the same results
	FirstMoment  string `toml:"first_moment"`  // float32, bf16 or float16
	SecondMoment string `toml:"second_moment"` // likewise
	Offload      bool   `toml:"offload"`       // to the host's memory, whose processor then takes the step
}

// TrainConfig says how long and in what pieces.
type TrainConfig struct {
	Steps int `toml:"steps"` // rollouts
	Rows  int `toml:"rows"`  // of one micro-batch

	Layout string `toml:"layout"` // of the memory: overlap, serial (sampling and training share a region) or auto (overlap where it fits)
}

// EvaluationConfig is the held-out score before, during and after.
type EvaluationConfig struct {
	Every    int `toml:"every"`    // steps; 0 is before and after only
	Problems int `toml:"problems"` // at most; 0 is none
	Samples  int `toml:"samples"`  // of a problem
}

// CheckpointConfig says what is kept.
type CheckpointConfig struct {
	Every int  `toml:"every"` // steps between full states
	Keep  int  `toml:"keep"`  // the last full states kept
	Best  bool `toml:"best"`  // keep the best one, too, see Best
}

// DefaultRecipe is what a recipe starts from.
func DefaultRecipe() Recipe {
	adam := OptimizerConfig{LR: 1e-6, Schedule: "constant", Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, ClipNorm: "1", MaxSkips: 10}
	warm := adam
	warm.LR = 1e-5
	return Recipe{
		Seed:       1,
		Model:      ModelConfig{DType: "bf16", Context: 4096, Template: "no-thinking"},
		Data:       DataConfig{Task: "file", Grader: "tandem", Reward: "score"},
		Tools:      defaultTools(),
		Warmup:     WarmupConfig{Samples: 64, Loss: LossToken, Optimizer: warm},
		Rollout:    RolloutConfig{Prompts: 16, Samples: 8, MaxTokens: 1024, Temperature: 1, TopP: 1, Rows: 2048, Waves: 4, Carry: "prompts", Rest: 7},
		Algorithm:  AlgorithmConfig{Name: "grpo", Std: true, ClipLow: 0.2, ClipHigh: 0.28, Loss: LossSample, Updates: 1, KLEstimator: "k3", KLIn: "loss", TIS: 2, Process: 1, Gamma: 1},
		Optimizer:  adam,
		States:     StatesConfig{Master: "float32", FirstMoment: "float32", SecondMoment: "float32"},
		Teacher:    TeacherConfig{KL: 1},
		Train:      TrainConfig{Steps: 100, Rows: 4096, Layout: layoutAuto},
		Evaluation: EvaluationConfig{Problems: 256, Samples: 1},
		Checkpoint: CheckpointConfig{Every: 20, Keep: 2, Best: true},
	}
}

// ParseRecipe reads TOML over its base, or over the defaults, then key=value settings over that. An unknown key is an error.
func ParseRecipe(text []byte, settings ...string) (Recipe, error) {
	r := DefaultRecipe()
	if err := decodeOverBase(text, &r, 0); err != nil {
		return Recipe{}, fmt.Errorf("recipe: %w", err)
	}
	for _, s := range settings {
		line, err := settingTOML(s)
		if err == nil {
			err = decodeStrict([]byte(line), &r)
		}
		if err != nil {
			return Recipe{}, fmt.Errorf("setting %q: %w", s, err)
		}
	}
	if err := r.Check(); err != nil {
		return Recipe{}, fmt.Errorf("recipe: %w", err)
	}
	return r, nil
}

// maxBases is more than anybody stacks.
const maxBases = 8

// decodeOverBase reads the recipe's base first, if it names one, and leaves a recipe that stands by itself.
func decodeOverBase(text []byte, r *Recipe, depth int) error {
	var head struct{ Base string }
	if err := toml.Unmarshal(text, &head); err == nil && head.Base != "" { // a fault of the syntax is told below
		if depth == maxBases {
			return fmt.Errorf("base %q: recipes rest on each other in a circle", head.Base)
		}
		below, err := recipes.Read(head.Base)
		if err == nil {
			err = decodeOverBase(below, r, depth+1)
		}
		if err != nil {
			return fmt.Errorf("base %q: %w", head.Base, err)
		}
		r.Name = ""
	}
	err := decodeStrict(text, r)
	r.Base = ""
	return err
}

func decodeStrict(text []byte, r *Recipe) error {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(r)
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		row, _ := unknown.Errors[0].Position()
		return fmt.Errorf("line %d: unknown key %s", row, strings.Join(unknown.Errors[0].Key(), "."))
	}
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		row, _ := syntax.Position()
		return fmt.Errorf("line %d: %s", row, syntax.Error())
	}
	return err
}

// settingTOML is a.b=c as a line of TOML; a value that is no number, boolean, string or list of TOML is taken as text.
func settingTOML(s string) (string, error) {
	key, value, ok := strings.Cut(s, "=")
	if !ok || strings.TrimSpace(key) == "" {
		return "", errors.New("want key=value")
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	var probe map[string]any
	if value == "" || toml.Unmarshal([]byte("x = "+value), &probe) != nil {
		value = fmt.Sprintf("%q", value)
	}
	return key + " = " + value, nil
}

// TOML is the recipe as text that ParseRecipe reads back.
func (r Recipe) TOML() []byte {
	b, err := toml.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("trainer: recipe as TOML: %v", err)) // plain fields only
	}
	return b
}
