package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tandem/kernels"
	"tandem/model"
	"tandem/trainer"
	"tandem/trainer/env"
	"tandem/trainer/report"
	"tandem/trainer/run"
)

// A loop is a run from where it stands to its end, and what a person sees of it.
type loop struct {
	recipe     trainer.Recipe
	dir        *run.Dir
	setup      *setup
	expectRise float64

	dev     kernels.Device
	board   *report.Board // nil where it could not be written
	t       *trainer.Trainer
	bar     *progress                     // nil between stages
	stage   string                        // the last one announced
	rewards []float64                     // of the steps on rollouts
	evals   map[int][2]trainer.Evaluation // by steps done: greedy, sampled
}

const (
	metricsFile     = "metrics.jsonl"
	evaluationsFile = "evaluations.jsonl"
	shownReplies    = 3
)

// begin takes the device and the memory, and goes back to where the run stands.
func (l *loop) begin(o *trainOptions) (err error) {
	if l.dev, err = openDevice(o.device, o.workers); err != nil {
		return err
	}
	if l.setup, err = openSetup(l.dev, l.recipe, l.dir, o.tools); err != nil {
		return err
	}
	if err := l.setup.keepBase(l.recipe, l.dir.Path()); err != nil {
		return err
	}
	fmt.Printf("%s: %s on %s, %d parameters, run directory %s\n",
		l.recipe.Name, l.setup.source, l.dev.Name(), model.Count(l.setup.weights.Config), l.dir.Path())
	if l.setup.plan.Machine.Card != nil {
		fmt.Printf("memory: %s\n", l.setup.plan.Line())
	}
	if l.t, err = trainer.New(l.dev, l.setup.weights, l.setup.task, l.setup.plan.Chosen(l.recipe), l.dir, l.within); err != nil {
		return err
	}
	l.notes()
	l.evals = make(map[int][2]trainer.Evaluation)
	if o.resume {
		if err := l.resume(); err != nil {
			return err
		}
	}
	if err := l.enter(); err != nil {
		return err
	}
	if l.board, err = report.OpenBoard(l.dir.Path()); err != nil {
		l.watched(err)
	}
	return nil
}

// notes says what the trainer has to say beside figures.
func (l *loop) notes() {
	for _, n := range l.t.Notes() {
		if l.bar != nil {
			l.bar.clear()
		}
		fmt.Fprintln(os.Stderr, "tandem: note:", n)
	}
}

// watched notes what was added to the board, which a run can do without.
func (l *loop) watched(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "tandem: note: %v; it will be written again when the run is resumed\n", err)
		if l.board != nil {
			l.board.Close()
			l.board = nil
		}
	}
}

// close gives back what begin took.
func (l *loop) close() {
	if l.board != nil {
		l.board.Close()
	}
	if l.t != nil {
		l.t.Close()
	}
	if l.setup != nil {
		if err := l.setup.close(); err != nil {
			fmt.Fprintln(os.Stderr, "tandem: note:", err)
		}
	}
	if l.dev != nil {
		l.dev.Close()
	}
}

// within shows how far a step or an evaluation is.
func (l *loop) within(p trainer.Progress) {
	switch {
	case l.bar == nil:
	case p.Phase == "evaluation":
		l.bar.set(p.Done)
	default:
		l.bar.part(p.Phase, p.Done, p.Total)
	}
}

// run trains from where the run stands to its end.
func (l *loop) run(ctx context.Context) error {
	if err := l.steps(ctx); err != nil {
		return l.stopped(ctx, err)
	}
	if err := l.setup.export(filepath.Join(l.dir.Path(), "model"), l.facts()); err != nil {
		return err
	}
	return l.summary()
}

// resume reads what the run has done.
func (l *loop) resume() error {
	if err := l.t.Resume(); err != nil {
		return err
	}
	done := l.t.Done()
	if done == l.recipe.Steps() {
		fmt.Printf("all %d steps of the run are done\n", done)
	} else {
		fmt.Printf("resuming after step %d of %d\n", done, l.recipe.Steps())
	}
	if err := l.dir.Rewind(evaluationsFile, done+1); err != nil {
		return err
	}
	err := l.dir.ReadLines(metricsFile, func(line []byte) error {
		var m trainer.Metrics
		err := json.Unmarshal(line, &m)
		if err == nil && m.Step >= l.recipe.Warmup.Steps {
			l.rewards = append(l.rewards, m.Reward)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = l.dir.ReadLines(evaluationsFile, func(line []byte) error {
		var ev trainer.Evaluation
		err := json.Unmarshal(line, &ev)
		if err == nil {
			l.remember(ev)
		}
		return err
	})
	if pair := l.evals[done]; err != nil || pair[0].Problems > 0 && pair[1].Problems > 0 {
		return err
	}
	delete(l.evals, done) // there is none, or the process ended between the two
	return l.dir.Rewind(evaluationsFile, done)
}

func (l *loop) remember(ev trainer.Evaluation) {
	pair := l.evals[ev.Step]
	if ev.Greedy {
		pair[0] = ev
	} else {
		pair[1] = ev
	}
	l.evals[ev.Step] = pair
}

// steps trains to the end of the recipe.
func (l *loop) steps(ctx context.Context) error {
	warm := l.recipe.Warmup.Steps
	for l.t.Done() < l.recipe.Steps() {
		if err := l.evaluate(ctx); err != nil {
			return err
		}
		n, of, name := l.t.Done(), warm, "warm-up"
		if n >= warm {
			n, of, name = n-warm, l.recipe.Train.Steps, "GRPO"
		}
		l.announce(name, n, of)
		m, err := l.t.Step(ctx)
		if err != nil {
			return err
		}
		if l.board != nil {
			l.watched(l.board.Step(m))
		}
		l.show(m, n, of)
		l.notes()
		l.bar.set(n + 1)
	}
	l.endBar()
	return l.evaluate(ctx)
}

// announce begins a stage, or goes on with it after an evaluation.
func (l *loop) announce(name string, n, of int) {
	if l.stage != name {
		l.endBar()
		l.stage = name
		fmt.Printf("\n%s, %d steps\n", name, of)
	}
	if l.bar == nil {
		l.bar = newProgress(os.Stderr, name, n, of, "steps")
	}
}

func (l *loop) endBar() {
	if l.bar != nil {
		l.bar.done()
		l.bar = nil
	}
}

// show prints a step; of a warm-up, one in ten or so.
func (l *loop) show(m trainer.Metrics, n, of int) {
	if m.Stage == "warmup" {
		if every := max(1, of/10); n%every == 0 || n == of-1 {
			l.bar.clear()
			fmt.Printf("step %*d/%d  loss %.4f  grad %6.3f  %6.0f tokens/s\n", digits(of), n+1, of, m.Loss, m.GradNorm, float64(m.Trained)/m.UpdateSeconds)
		}
		return
	}
	l.rewards = append(l.rewards, m.Reward)
	l.bar.clear()
	replay := ""
	if m.Replayed {
		replay = "  (replies from the log)"
	}
	fmt.Printf("step %*d/%d  reward %.3f  passed %3.0f%%  wasted %3.0f%%  length %5.1f%s  entropy %.3f  grad %6.3f  mismatch %g  sampled %5.0f, trained %5.0f tokens/s%s%s\n",
		digits(of), n+1, of, m.Reward, 100*m.PassRate, 100*m.Wasted, m.Length, l.toolUse(m), m.Entropy, m.GradNorm, m.Mismatch,
		rate(m.Sampled, m.RolloutSeconds), rate(m.Trained, m.UpdateSeconds), hardware(m), replay)
}

// hardware shows how the hardware did in a step, as far as it tells.
func hardware(m trainer.Metrics) string {
	s := ""
	if m.Power != nil {
		s += fmt.Sprintf("  %.0f W", *m.Power)
	}
	if m.Clock != nil {
		s += fmt.Sprintf("  %.0f MHz", *m.Clock)
	}
	return s
}

// toolUse shows what the replies of a step did with tools, where the recipe has one.
func (l *loop) toolUse(m trainer.Metrics) string {
	if l.recipe.Tools.Name == "" {
		return ""
	}
	return fmt.Sprintf("  called %3.0f%%, %.2f calls a reply, failed %2.0f%%, %.1f s in tools, engine idle %2.0f%%",
		100*m.Called, m.CallsEach, 100*float64(m.Failed())/float64(max(m.Calls, 1)), m.CallSeconds, 100*m.EngineIdle)
}

func rate(n int, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return float64(n) / seconds
}

func digits(n int) int { return len(fmt.Sprint(n)) }

// evaluate scores the held-out problems where the recipe asks for it: before the first step on rollouts, after the last,
// and every so many in between.
func (l *loop) evaluate(ctx context.Context) error {
	e, n := l.recipe.Evaluation, l.t.Done()-l.recipe.Warmup.Steps
	due := n == 0 || n == l.recipe.Train.Steps || n > 0 && e.Every > 0 && n%e.Every == 0
	if _, done := l.evals[l.t.Done()]; done || !due || e.Problems == 0 || len(l.setup.task.HeldOut) == 0 {
		return nil
	}
	l.endBar()
	problems := min(e.Problems, len(l.setup.task.HeldOut))
	for _, greedy := range []bool{true, false} {
		begun, samples := time.Now(), e.Samples
		if greedy {
			samples = 1
		}
		l.bar = newProgress(os.Stderr, "evaluation", 0, problems*samples, "replies")
		ev, err := l.t.Evaluate(ctx, greedy, shownReplies)
		l.endBar()
		if err != nil {
			return err
		}
		if err := l.t.Record(ev); err != nil {
			return err
		}
		if l.board != nil {
			l.watched(l.board.Evaluation(ev))
		}
		l.remember(ev)
		how := fmt.Sprintf("sampled, %d of each", ev.Samples)
		if greedy {
			how = "greedy"
		}
		fmt.Printf("held out, %d problems, %s: accuracy %.3f, reward %.3f, length %.1f (%.1f s)\n",
			ev.Problems, how, ev.Accuracy, ev.Reward, ev.Length, time.Since(begun).Seconds())
	}
	return nil
}

// stopped ends a run that was interrupted, or whose tool is down: with a full state of the last whole step.
func (l *loop) stopped(ctx context.Context, cause error) error {
	l.endBar()
	down := errors.Is(cause, env.ErrToolDown)
	if ctx.Err() == nil && !down {
		return cause
	}
	if err := l.t.Save(); err != nil {
		return errors.Join(fmt.Errorf("the run stopped, and its state could not be saved: %w", err), cause)
	}
	fmt.Printf("\nstopped after step %d of %d; go on with: tandem train --resume --run %s\n", l.t.Done(), l.recipe.Steps(), l.dir.Path())
	if down {
		return fmt.Errorf("%w; what was sampled of the step is kept", cause)
	}
	return exitCode(interrupted)
}

// facts are about the run, for the model's README.
func (l *loop) facts() [][2]string {
	facts := [][2]string{{"recipe", l.recipe.Name}, {"trained from", l.setup.source}, {"steps", fmt.Sprint(l.recipe.Steps())}}
	if ev, ok := l.evals[l.recipe.Steps()]; ok {
		facts = append(facts, [2]string{"held-out accuracy, greedy", fmt.Sprintf("%.3f", ev[0].Accuracy)},
			[2]string{"held-out reward, sampled", fmt.Sprintf("%.3f", ev[1].Reward)})
	}
	return facts
}
