package trainer

import (
	"fmt"
	"math"
)

// An Algorithm turns rewards into advantages, and log-probs into their gradient.
type Algorithm struct {
	// Advantages takes the rewards of a step, [P][G], a NaN for a missing one, to their advantages, [P][G].
	Advantages func(rewards [][]float32) [][]float32

	// Grad writes the gradient of one sample's summed token losses by its new log-probs to dlogp, (tokens). It returns
	// the summed loss and how many tokens were clipped.
	Grad func(t Terms, dlogp []float32) (loss float32, clipped int)

	// Always says that Grad can be other than 0 where every advantage is 0.
	Always bool
}

// Terms are one sample as a loss sees it, per sampled token.
type Terms struct {
	New []float32 // log-probs under the weights being trained
	Old []float32 // under those that sampled, or, where another program did, the step's first; nil in supervised training
	Adv []float32
	Ref []float32 // under the frozen reference; nil without one
}

// Loss says how the token losses of a step become one number.
type Loss string

const (
	LossSample   Loss = "sample"   // mean over samples of the mean over a sample's tokens (GRPO)
	LossToken    Loss = "token"    // mean over all tokens of the step (DAPO)
	LossPrompt   Loss = "prompt"   // mean over prompts of the mean over the tokens of all its samples
	LossConstant Loss = "constant" // sum over tokens / (samples · the largest reply) (Dr. GRPO)
)

// Weigh gives the factor of each sample's summed token losses, and one factor for the whole step, from the number of
// trained tokens of each sample, [P][G]. The first depend on the sample and its group alone, so that a gradient can be
// accumulated before the step is complete. A step without tokens has factor 0.
func (l Loss) Weigh(tokens [][]int, maxTokens int) (sample [][]float32, step float32, err error) {
	samples, prompts, total := 0, 0, 0
	for _, group := range tokens {
		w := make([]float32, len(group))
		inGroup := 0
		for _, n := range group {
			inGroup += n
		}
		for i, n := range group {
			switch {
			case n == 0:
			case l == LossSample:
				w[i] = 1 / float32(n)
			case l == LossPrompt:
				w[i] = 1 / float32(inGroup)
			default:
				w[i] = 1
			}
		}
		sample = append(sample, w)
		samples += len(group)
		total += inGroup
		prompts++
	}
	if total == 0 {
		return sample, 0, nil
	}
	switch l {
	case LossSample:
		return sample, 1 / float32(samples), nil
	case LossToken:
		return sample, 1 / float32(total), nil
	case LossPrompt:
		return sample, 1 / float32(prompts), nil
	case LossConstant:
		return sample, float32(1 / (float64(samples) * float64(maxTokens))), nil
	}
	return nil, 0, fmt.Errorf("trainer: loss %q is not one of sample, token, prompt, constant", l)
}

// isNaN of a float32.
func isNaN(x float32) bool { return math.IsNaN(float64(x)) }
