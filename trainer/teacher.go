package trainer

import (
	"fmt"
	"hash/crc32"

	"tandem/kernels"
	"tandem/model"
)

// DistillAdvantages are those of on-policy distillation (Thinking Machines 2025,
// thinkingmachines.ai/blog/on-policy-distillation): the student samples, and its advantage at a token is minus the sampled
// reverse divergence from the teacher,
//
//	A_t = teacher_t - old_t
//
// of the log-probs of the sampled token. Tokens do not answer for later ones: the discount is 0. In the mean over samples
// the gradient is that of the reverse divergence at every visited prefix.
func DistillAdvantages(old, teacher []float32) []float32 {
	out := make([]float32, len(old))
	for i := range out {
		out[i] = teacher[i] - old[i]
	}
	return out
}

// shape is the config of the teacher of a student.
func (t TeacherConfig) shape(student model.Config, context int) (model.Config, error) {
	c, err := model.ReadConfig(t.Dir)
	if err != nil {
		return c, err
	}
	if c.Vocab < student.Live {
		return c, fmt.Errorf("%s has %d tokens, the model %d: want the same", t.Dir, c.Vocab, student.Live)
	}
	if c.Context() < context {
		return c, fmt.Errorf("%s: its positions end at %d, model.context is %d", t.Dir, c.Context(), context)
	}
	c.Live = student.Live // both distributions are over the same tokens
	return c, nil
}

// teach takes the memory of the teacher and of its forward pass, and loads it.
func (l *learner) teach(dev, pass kernels.Device, r Recipe) error {
	if r.Teacher.Dir == "" {
		return nil
	}
	c, err := r.Teacher.shape(l.w.Config, r.Model.Context)
	if err != nil {
		return err
	}
	w, err := model.NewWeights(dev, c, l.w.Arena.DType, r.Model.Context)
	if err != nil {
		return err
	}
	if l.notes, err = w.Load(l.host, r.Teacher.Dir); err != nil {
		return err
	}
	if l.teacher, err = newPass(pass, w, passLimits(r.Train.Rows, r.Model.Context), false); err != nil {
		return err
	}
	return l.host.Down(w.Arena.Ptr, w.Arena.Bytes(), func(piece []byte) error {
		l.teacherSum = crc32.Update(l.teacherSum, crc32.MakeTable(crc32.Castagnoli), piece)
		return nil
	})
}
