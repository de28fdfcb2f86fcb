package kernels

import (
	"math"
	"unsafe"
)

// An Edit changes the logit of one token before its row is drawn from: by a bias, and by penalties for tokens that have
// occurred. Penalties apply once for each distinct token:
//
//	z += Bias
//	z  = z/Repetition if z > 0, else z·Repetition   if the token has occurred (Keskar et al. 2019, arXiv 1909.05858)
//	z -= Frequency·Count                            of what was sampled (OpenAI's API)
//	z -= Presence                                   if Count > 0
//
// before the temperature, as in vLLM; bias and repetition as in transformers, too.
type Edit struct {
	ID    int32
	Count int32 // how often it was sampled; 0 if it occurred otherwise, -1 if it has not occurred: a bias only
	Bias  float32
}

// EditBytes is the size of an Edit.
const EditBytes = int(unsafe.Sizeof(Edit{}))

// Apply is the changed logit.
func (e Edit) Apply(z float32, s *SampleParams) float32 {
	z += e.Bias
	if e.Count < 0 {
		return z
	}
	if z > 0 {
		z /= s.Repetition
	} else {
		z = float32(z * s.Repetition)
	}
	if e.Count > 0 {
		z -= float32(s.Frequency * float32(e.Count))
		z -= s.Presence
	}
	return z
}

// edited is a copy of the logits with the row's edits and only its allowed tokens, the others at -Inf.
func (a *sampleArgs) edited(m *Memory, logits []float32, s *SampleParams) []float32 {
	z := m.ScratchF32(len(logits))
	if s.Allowed == 0 {
		copy(z, logits)
	} else {
		for j := range z {
			z[j] = float32(math.Inf(-1))
		}
		for _, id := range m.I32(a.allowed+Ptr(4*int(s.FirstAllowed)), int(s.Allowed)) {
			z[id] = logits[id]
		}
	}
	if s.Edits > 0 {
		words := m.I32(a.edits+Ptr(EditBytes*int(s.FirstEdit)), int(s.Edits)*EditBytes/4)
		for _, e := range unsafe.Slice((*Edit)(unsafe.Pointer(&words[0])), s.Edits) {
			z[e.ID] = e.Apply(z[e.ID], s)
		}
	}
	return z
}
