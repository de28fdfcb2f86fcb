// Package model is Qwen3: its parameters, the forward pass and the backward pass, over packed batches that read their
// keys and values through pages. It knows nothing about sampling, text or training algorithms.
//
// Letters are those of package kernels: T tokens of the packed batch, S sequences, R rows that go to the head, D width,
// F MLP width, V vocabulary, L layers, H query heads, K key/value heads, E head dim.
package model
