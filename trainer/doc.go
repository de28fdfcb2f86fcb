// Package trainer is reinforcement learning and supervised training of a language model on the weights that the engine
// samples from. trainer.go is the loop; grpo.go and its neighbours are the algorithms, plain functions over float32
// slices: log-probs come down from the device, their gradient goes up.
package trainer
