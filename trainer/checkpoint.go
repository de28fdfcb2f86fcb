package trainer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"tandem/durable"
	"tandem/kernels"
	"tandem/model/safetensors"
)

// state is what a full state says beside the masters and moments.
type state struct {
	Step           int     `json:"step"` // steps done
	Drawing        drawing `json:"drawing"`
	OptimizerSteps int     `json:"optimizer_steps"`
	Skipped        int     `json:"skipped"`
	Teacher        uint32  `json:"teacher,omitempty"`  // checksum of its weights
	Rollouts       uint32  `json:"rollouts,omitempty"` // checksum of the imported file
}

const (
	metricsFile     = "metrics.jsonl"
	rolloutsFile    = "rollouts.jsonl"
	evaluationsFile = "evaluations.jsonl"
	stateFile       = "state.json"
	tensorsFile     = "state.safetensors"
)

// record writes a finished step to the run directory, and a full state where one is due.
func (t *Trainer) record(m Metrics) error {
	if t.dir == nil {
		return nil
	}
	if err := t.dir.Append(metricsFile, m); err != nil {
		return err
	}
	if t.step%t.recipe.Checkpoint.Every == 0 || t.step == t.recipe.Steps() {
		return t.Save()
	}
	return nil
}

// Save writes a full state: masters, moments and counters, from which the run goes on with the same bits. Of the others,
// only what checkpoint.keep and checkpoint.best say stay.
func (t *Trainer) Save() error {
	err := t.dir.Checkpoint(t.step, func(dir string) error {
		o := t.learner.opt
		if err := t.learner.writeTensors(filepath.Join(dir, tensorsFile)); err != nil {
			return err
		}
		b, err := json.Marshal(state{t.step, t.drawing, o.steps, o.skipped, t.learner.teacherSum, t.imported.sum()})
		if err == nil {
			err = t.writeCarried(dir)
		}
		if err != nil {
			return err
		}
		return durable.WriteBytes(filepath.Join(dir, stateFile), b)
	})
	if err != nil {
		return err
	}
	best := none
	if t.recipe.Checkpoint.Best {
		b, err := FindBest(t.dir, t.recipe)
		if err != nil {
			return err
		}
		best = b.Step
	}
	return t.dir.Keep(t.recipe.Checkpoint.Keep, best)
}

// A stateTensor is a tensor of a full state.
type stateTensor struct {
	name string
	kernels.Tensor
	x *kernels.Transfer // to and from where it is
}

// masterTensor is the name of the masters, which a file has as float32 however the run keeps them.
const masterTensor = "master"

// stateTensors are those of a full state beside the masters, in the order of the file.
func (l *learner) stateTensors() []stateTensor {
	o := l.opt
	all := []stateTensor{
		{"exp_avg", o.m.Mean, o.memory}, {"exp_avg_sq", o.v.Mean, o.memory},
		{"exp_avg_exponent", o.m.Exponent, o.memory}, {"exp_avg_sq_exponent", o.v.Exponent, o.memory},
	}
	if l.ref != nil {
		all = append(all, stateTensor{"reference", l.ref.w.Arena, l.host})
	}
	return slices.DeleteFunc(all, func(t stateTensor) bool { return t.Ptr == 0 })
}

func fileDType(d kernels.DType) safetensors.DType {
	switch d {
	case kernels.BF16:
		return safetensors.BF16
	case kernels.F16:
		return safetensors.F16
	case kernels.U8:
		return "U8"
	}
	return safetensors.F32
}

func (l *learner) writeTensors(path string) error {
	named := make(map[string]stateTensor)
	entries := []safetensors.Entry{{Name: masterTensor, DType: safetensors.F32, Shape: l.opt.master.Dims()}}
	for _, t := range l.stateTensors() {
		named[t.name] = t
		entries = append(entries, safetensors.Entry{Name: t.name, DType: fileDType(t.DType), Shape: t.Dims()})
	}
	return safetensors.Write(path, entries, nil, func(w io.Writer, e safetensors.Entry) error {
		if e.Name == masterTensor {
			buf := make([]byte, 4*masterPiece)
			return l.opt.readMasters(func(x []float32) error { return writeFloats(w, x, buf) })
		}
		t := named[e.Name]
		return t.x.Down(t.Ptr, t.Bytes(), func(piece []byte) error {
			_, err := w.Write(piece)
			return err
		})
	})
}

// Resume goes back to the last full state, if there is one. The steps logged since are trained again by Step, without
// sampling.
func (t *Trainer) Resume() error {
	all, err := t.dir.Checkpoints()
	if err != nil {
		return err
	}
	if len(all) > 0 {
		if err := t.load(t.dir.CheckpointPath(all[len(all)-1])); err != nil {
			return fmt.Errorf("resume from %s: %w", t.dir.CheckpointPath(all[len(all)-1]), err)
		}
	}
	for _, file := range []string{metricsFile, rolloutsFile} {
		if err := t.dir.Rewind(file, t.step); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) load(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s: %w", stateFile, err)
	}
	if s.Step < 0 || s.Step > t.recipe.Steps() {
		return fmt.Errorf("%s: step %d, but the recipe has %d", stateFile, s.Step, t.recipe.Steps())
	}
	if s.Teacher != t.learner.teacherSum {
		return fmt.Errorf("the teacher in %s has other weights than the one that the run began with", t.recipe.Teacher.Dir)
	}
	if s.Rollouts != t.imported.sum() {
		return fmt.Errorf("%s holds other rollouts than when the run began", t.recipe.Data.Rollouts)
	}
	t.step, t.drawing = s.Step, s.Drawing
	if err := t.readCarried(dir); err != nil {
		return err
	}
	if err := t.settings(); err != nil {
		return err
	}
	if err := t.learner.readTensors(filepath.Join(dir, tensorsFile)); err != nil {
		return err
	}
	o := t.learner.opt
	o.steps, o.skipped = s.OptimizerSteps, s.Skipped
	t.roller.engine.WeightsChanged()
	return nil
}

// readTensors fills masters and moments, and the weights, which are the masters rounded.
func (l *learner) readTensors(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	named := map[string]stateTensor{masterTensor: {Tensor: kernels.NewTensor(l.opt.master.Ptr, kernels.F32, l.opt.master.Len())}}
	for _, t := range l.stateTensors() {
		named[t.name] = t
	}
	return safetensors.Guard(func() error {
		for _, from := range f.Tensors {
			to, ok := named[from.Name]
			if !ok || from.Elems() != to.Len() || from.DType != fileDType(to.DType) {
				return fmt.Errorf("%s: %v is not a tensor of this run", path, from)
			}
			delete(named, from.Name)
			data := from.Data
			if from.Name == masterTensor {
				err = l.opt.writeMasters(func(x []float32) error {
					for i := range x {
						x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
					}
					data = data[4*len(x):]
					return nil
				})
			} else {
				err = to.x.Up(to.Ptr, to.Bytes(), func(piece []byte) error {
					data = data[copy(piece, data):]
					return nil
				})
			}
			if err != nil {
				return err
			}
		}
		for name := range named {
			return fmt.Errorf("%s: there is no %s", path, name)
		}
		return nil
	})
}
