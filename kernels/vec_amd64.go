package kernels

// vecs is the sets of inner loops of this processor, fastest first.
func vecs() []*vec { return []*vec{&goVec} }
