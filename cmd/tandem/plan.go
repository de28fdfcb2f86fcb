package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
	"tandem/tokenizer"
	"tandem/trainer"
	"tandem/trainer/recipes"
)

type planOptions struct {
	set     []string
	card    string
	gpus    int
	host    float64
	workers int
	load    trainer.Workload
}

func newPlanCmd() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan RECIPE",
		Short: "Print the memory that a recipe takes, whether it fits, and how fast a step can be at best",
		Long: `Print the memory that a recipe takes on a machine, whether it fits, and how fast a step can be at best.

For a card the times follow from its datasheet: no step can be faster, and how near a run comes to them is for a measurement
to say. On the CPU, which has no datasheet, only the bytes and operations are given.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.set, "set", nil, "key=value: override a key of the recipe")
	f.StringVar(&o.card, "card", "cpu", "cpu, h100-80g, h100-nvl, h200 or b200")
	f.IntVar(&o.gpus, "gpus", 1, "cards of that kind; each holds the weights, the optimizer is sharded")
	f.Float64Var(&o.host, "host-gib", 0, "GiB of the host's memory beside the cards (0: not known, taken to be enough)")
	f.IntVar(&o.workers, "workers", 0, "threads of the CPU device (0: one per processor)")
	f.IntVar(&o.load.Prompt, "prompt-tokens", 0, "length of a prompt for the times (0: what max_tokens leaves of the context)")
	f.IntVar(&o.load.Reply, "reply-tokens", 0, "length of a reply for the times (0: rollout.max_tokens, the longest)")
	return cmd
}

func (o *planOptions) run(name string) error {
	text, err := recipes.Read(name)
	if err != nil {
		return err
	}
	r, err := trainer.ParseRecipe(text, o.set...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	on, err := o.machine()
	if err != nil {
		return err
	}
	m, err := planModel(r)
	if err != nil {
		return err
	}
	defer m.close()
	p, err := trainer.Place(r, m.config, m.dtype, on)
	if err != nil {
		return err
	}
	load := r.Longest()
	if o.load.Prompt > 0 {
		load.Prompt = o.load.Prompt
	}
	if o.load.Reply > 0 {
		load.Reply = o.load.Reply
	}
	if load.Prompt < 0 || load.Reply < 0 || load.Prompt+load.Reply > r.Model.Context {
		return fmt.Errorf("prompts of %d and replies of %d tokens exceed model.context, %d", load.Prompt, load.Reply, r.Model.Context)
	}
	fmt.Printf("%v\n%s\n%s\n", p, p.FloorTable(load), trainer.Decay(m.config, r.Optimizer))
	if m.tok == nil {
		return nil
	}
	if _, err := newTask(r, m.tok, nil); err != nil { // says what is wrong with the data, too, before a run does
		fmt.Fprintln(os.Stderr, "tandem: note: the run would not start:", err)
	}
	return nil
}

// machine is the one that the flags name.
func (o *planOptions) machine() (trainer.Machine, error) {
	on, err := trainer.NewMachine(o.card, o.gpus)
	if err != nil {
		return on, err
	}
	if on.Card != nil {
		on.Host = int(o.host * (1 << 30))
		return on, nil
	}
	if on.Free, err = device.FreeMemory(); err != nil {
		return on, err
	}
	on.Workers = cmp.Or(o.workers, runtime.GOMAXPROCS(0))
	return on, nil
}

// A planned is the model of a recipe as far as a plan needs it.
type planned struct {
	config model.Config
	dtype  kernels.DType
	tok    *tokenizer.Tokenizer // nil where its files are missing
	demo   string               // a directory to remove
}

func planModel(r trainer.Recipe) (p *planned, err error) {
	p = &planned{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.dtype, err = parseDType(r.Model.DType); err != nil {
		return nil, err
	}
	if missing := missingFiles(r); len(missing) > 0 && r.Model.Shape != "" && r.Model.Dir != "" {
		fmt.Fprintf(os.Stderr, "tandem: note: the run would not start: %v\n", missingError(r, missing))
		p.config, err = model.Shape(r.Model.Shape)
		return p, err
	}
	if p.demo, err = os.MkdirTemp("", "tandem-plan-"); err != nil {
		return nil, err
	}
	if p.tok, _, err = openTokenizer(r, p.demo); err != nil {
		return nil, err
	}
	p.config, err = readShape(r, p.tok)
	return p, err
}

func (p *planned) close() {
	if p.tok != nil {
		p.tok.Close()
	}
	if p.demo != "" {
		os.RemoveAll(p.demo)
	}
}

// placeHere plans a run for this machine, or says why it does not fit.
func placeHere(dev kernels.Device, r trainer.Recipe, c model.Config, d kernels.DType) (trainer.Plan, error) {
	free, err := device.Free(dev)
	if err != nil {
		return trainer.Plan{}, err
	}
	on := trainer.MachineOf(dev).On(dev, free)
	if on.Card != nil {
		if on.Host, err = device.FreeMemory(); err != nil {
			return trainer.Plan{}, err
		}
	}
	return trainer.Place(r, c, d, on)
}
