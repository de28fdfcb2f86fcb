// Package kernels holds every operation of a Qwen3 sampling and training step, and the device they run on.
//
// An operation is one stem: x.go (the exported functions, the shape checks, the argument struct and the plain Go body),
// x.cu (the CUDA kernel, same arguments) and x_test.go. Exported functions take the queue first, then the destination,
// saved outputs, inputs, weights and scalars. A gradient is d + name. X has its mirror XBackward in the same file.
//
// # Alphabet
//
//	T tokens in the packed batch   S sequences            R rows that go to the head
//	D width                        F MLP width            V vocabulary
//	L layers                       H query heads          K key/value heads
//	E head dim                     P prompts              G samples per prompt
//
// Tensors are row-major unless a comment says otherwise.
//
// # Rounding points
//
// Activations, weights and activation gradients are stored in the model's dtype (BF16 or F32); sums, weight gradients,
// optimizer state, log-probs and logits are float32. A value is rounded to the dtype once, where it is written:
// the embedding row (exact), the residual sum, the norm's output, each linear output, q and k after norm and RoPE (one
// rounding for both), the attention probabilities before they meet V, the attention output, silu(gate)·up, and each
// activation gradient. They are the same for prefill, decode and training.
//
// # Sums on the CPU
//
// A dot product (dots) walks k in groups of 32 (BF16) or 16 (F32) on 16 lanes:
//
//	BF16: acc[j] = fma(x[32g+2j], w[32g+2j], fma(x[32g+2j+1], w[32g+2j+1], acc[j]))   subnormals flush at every step
//	F32:  acc[j] = fma(x[16g+j], w[16g+j], acc[j])
//	fold: r8[j] = acc[j]+acc[j+8]; r4[j] = r8[j]+r8[j+4]; r2[j] = r4[j]+r4[j+2]; y = r2[0]+r2[1]
//
// with the tail filled with zeros. A chain (x·W without transposition, P·V, and every sum over tokens) has one
// accumulator per output that is loaded from the destination and takes k ascending: BF16 in pairs, odd element first,
// by the same step, an odd tail paired with zero; F32 one by one. Neither depends on how many rows are computed together,
// which is why a token's log-prob does not depend on what shares its batch.
//
// # Sums on CUDA
//
// Matrix products are chains of mma steps: one float32 accumulator per output takes k ascending in groups of 16, in
// forward and backward alike; where a product adds to its destination, the accumulator starts there. A tail of k is
// filled with zeros. It follows that an output does not depend on tiles, on the batch or on which operand is on the left.
// A sum over a row (norms) is a function of the row's width alone. A sum over tokens takes leaves of 16 rows, ascending; rows
// of a leaf ascend, too, but the heads of q and k, which groups of threads take in turns and join at the end. Elementwise
// operations, copies, the norms' dw and the embedding's have the CPU's bits.
// Attention walks tiles of 128 keys as the CPU does; a row's sum of probabilities has 16 lanes: key j of a tile belongs to
// lane 4·(j/32) + j%8/2, keys ascending, folded once at the end (the four j%8/2 by a tree, the four j/32 ascending). The head
// takes tiles of 128 tokens, a quarter of 32 at a time on 16 lanes (token j on lane j%16) that are folded as the CPU's
// are; the four quarters are added ascending, and tiles are joined by a fixed tree. exp2 and Philox have the CPU's bits.
//
// # Padding
//
// In training every sequence starts at a multiple of 16 rows, and so do its rows in the head. A padding row has token -1
// (or row index -1): it is zero throughout forward and backward and adds exact zeros to the sums over tokens, so that
// gradients do not depend on how a step is cut into micro-batches.
package kernels
