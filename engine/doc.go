// Package engine samples from a model: tokens in, tokens and their log-probs out. It batches continuously over a paged
// cache of keys and values, shares the pages of common prefixes, and preempts when pages run out. None of that changes a
// sample: its tokens and log-probs depend on the weights, the tokens before it, the sampling parameters and its seed.
//
// The engine speaks tokens, never text.
package engine
