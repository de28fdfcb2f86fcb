package trainer

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/model"
	"tandem/trainer/env"
	"tandem/trainer/run"
)

// newTeacher trains a model for some steps on right demonstrations alone and saves it. It is larger than the student.
func newTeacher(t *testing.T, trained int) string {
	t.Helper()
	dev := cpu(t)
	c := testConfig(t)
	c.Layers, c.Hidden = 3, 48
	w, err := model.NewWeights(dev, c, kernels.BF16, 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Random(transfer(t, dev), w, 77); err != nil {
		t.Fatal(err)
	}
	r := testRecipe()
	r.Warmup.Steps, r.Train.Steps = trained, 0
	s := successor{8}
	task := s.task()
	task.Demonstrate = func(p env.Problem, _ uint64) (d env.Demonstration, err error) {
		d.Write(int32((p.ID+1)%s.n), int32(s.n+1))
		return d, nil
	}
	r.Train.Steps = max(0, 1-trained)
	tr, err := New(dev, w, task, r, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	steps(t, tr, r.Warmup.Steps)
	dir := filepath.Join(t.TempDir(), "teacher")
	if err := w.Save(tr.learner.host, dir, model.Card{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDistillationComesCloser trains on what the student samples, with the teacher's log-probs alone and with the task's
// reward, and resumes such a run.
func TestDistillationComesCloser(t *testing.T) {
	if testing.Short() {
		t.Skip("whole runs")
	}
	r := shortRecipe()
	r.Warmup.Steps, r.Train.Steps, r.Algorithm.Updates, r.Rollout.Samples = 5, 40, 1, 6
	r.Optimizer.LR = 5e-3
	r.Teacher.Dir = newTeacher(t, 60)
	for _, task := range []float32{0, 0.5} {
		r.Teacher.Task = task
		tr := newTestTrainer(t, r, nil)
		steps(t, tr, r.Warmup.Steps)
		var first, last Metrics
		for _, m := range steps(t, tr, 3) {
			first.TeacherKL, first.Reward = first.TeacherKL+m.TeacherKL/3, first.Reward+m.Reward/3
		}
		for _, m := range steps(t, tr, 37)[34:] {
			last.TeacherKL, last.Reward = last.TeacherKL+m.TeacherKL/3, last.Reward+m.Reward/3
		}
		t.Logf("task %v: divergence %.3f to %.3f, reward %.3f to %.3f", task, first.TeacherKL, last.TeacherKL, first.Reward, last.Reward)
		if !(last.TeacherKL < first.TeacherKL/2) || !(last.Reward > first.Reward+0.3) {
			t.Errorf("task %v: the divergence goes from %v to %v, the reward from %v to %v", task, first.TeacherKL, last.TeacherKL, first.Reward, last.Reward)
		}
	}
	r.Train.Steps, r.Checkpoint.Every, r.Algorithm.Updates = 4, 3, 2
	resumeEqualsUninterrupted(t, r, 6, 8)
}

func TestAnotherTeacherIsRefusedOnResume(t *testing.T) {
	r := shortRecipe()
	r.Warmup.Steps, r.Train.Steps, r.Checkpoint.Every = 1, 3, 1
	r.Teacher.Dir = newTeacher(t, 0)
	path := filepath.Join(t.TempDir(), "run")
	dir, err := run.Create(path, r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	steps(t, newTestTrainer(t, r, dir), 2)
	file := filepath.Join(r.Teacher.Dir, "model.safetensors")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-2] ^= 1 // the lowest bit of a weight
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := newTestTrainer(t, r, dir).Resume(); err == nil || !strings.Contains(err.Error(), "the teacher in "+r.Teacher.Dir+" has other weights") {
		t.Errorf("error %v", err)
	}
}

func TestTeachersThatCannotTeachAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	dev := cpu(t)
	c := testConfig(t)
	c.Vocab, c.Live = 9, 9
	w, err := model.NewWeights(dev, c, kernels.BF16, 16)
	if err == nil {
		err = model.Random(transfer(t, dev), w, 1)
	}
	if err == nil {
		err = w.Save(transfer(t, dev), dir, model.Card{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{dir: dir + " has 9 tokens, the model 10", filepath.Join(dir, "none"): "no such file"} {
		r := testRecipe()
		r.Teacher.Dir = where
		_, err := New(cpu(t), newTestTrainer(t, testRecipe(), nil).w, successor{8}.task(), r, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "teacher: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", where, err, want)
		}
		if _, err := Place(r, testConfig(t), kernels.BF16, free(1<<40)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: planned: %v, want %q", where, err, want)
		}
	}
}

// TestGradientOfPureDistillationIgnoresRewards trains a step with other rewards.
func TestGradientOfPureDistillationIgnoresRewards(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps = 0
	r.Teacher.Dir = newTeacher(t, 0)
	var states [][][]float32
	for _, add := range []float32{0, 1} {
		tr := newTestTrainer(t, r, nil)
		log := &StepLog{}
		if err := tr.fill(context.Background(), log); err != nil {
			t.Fatal(err)
		}
		for i, g := range log.Groups {
			for j, ro := range g.Rollouts {
				ro.Reward += add * float32(math.Sin(float64(i+7*j)))
			}
		}
		var m Metrics
		if err := tr.update(context.Background(), tr.algorithm, log.groups(), LossToken, 1e-3, &m); err != nil {
			t.Fatal(err)
		}
		states = append(states, weightsOf(t, tr))
	}
	sameState(t, states[1], states[0], "other rewards")
}
