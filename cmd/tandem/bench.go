package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	gpubench "tandem/bench"
	"tandem/kernels"
	"tandem/kernels/device"
)

// benchOptions are the flags of tandem bench.
type benchOptions struct {
	device, out, yardsticks string
	models                  []string
	decode                  string
	step                    gpubench.StepSizes
	steps                   bool
	sizes                   gpubench.Sizes
	memory                  int
}

func newBenchCmd() *cobra.Command {
	o := benchOptions{sizes: gpubench.DefaultSizes(), step: gpubench.DefaultStep()}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure every kernel at a model's shapes, and decoding, on a GPU",
		Long: `Measure every kernel at a model's shapes with random data by the card's own clock, decoding of random weights, and a step of GRPO.
The report goes to DIR as report.json and report.md. With --yardsticks FILE, which bench/yardsticks.py writes from a
report on the same card, an existing report is completed instead.

Exit status 2 where there is no GPU: numbers of the CPU would say nothing (--device cpu measures it all the same).`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if o.yardsticks != "" {
				return o.complete()
			}
			return o.run()
		},
	}
	f := c.Flags()
	f.StringVar(&o.device, "device", "cuda", "cuda, cuda:N or cpu")
	f.StringVar(&o.out, "out", "bench/results/last", "folder of the report")
	f.StringSliceVar(&o.models, "models", []string{"8b", "0.6b"}, "shapes of the kernels")
	f.StringVar(&o.decode, "decode", "8b", "shape to decode and train with random weights; empty is none")
	f.BoolVar(&o.steps, "step", true, "take a step of GRPO in the MATH run's shape, with replies cut at --step-tokens")
	f.IntVar(&o.step.Tokens, "step-tokens", o.step.Tokens, "tokens of a reply of the step at most")
	f.IntVar(&o.step.Prompts, "step-prompts", o.step.Prompts, "prompts of the step")
	f.BoolVar(&o.step.Offload, "step-offload", o.step.Offload, "keep the optimizer's states in the host's memory")
	f.StringVar(&o.yardsticks, "yardsticks", "", "complete the report in --out by what yardsticks.py wrote")
	f.IntVar(&o.sizes.Rows, "rows", o.sizes.Rows, "rows of a training batch")
	f.IntVar(&o.sizes.Context, "context", o.sizes.Context, "tokens of a sequence")
	f.IntSliceVar(&o.sizes.Decode, "batch", o.sizes.Decode, "batch sizes of decoding")
	f.IntVar(&o.sizes.Elements, "elements", o.sizes.Elements, "elements of the optimizer's kernels")
	f.IntVar(&o.memory, "memory", 24<<10, "MiB of the device for the kernels' operands")
	return c
}

func (o *benchOptions) run() error {
	r, err := o.kernels()
	if err != nil {
		return err
	}
	r.Facts = append(r.Facts, version())
	if err := o.write(r); err != nil || o.decode == "" {
		return err
	}
	dev, err := device.Open(o.device, 0) // again: memory is given back with the device only
	if err != nil {
		return err
	}
	defer dev.Close()
	return o.decoding(dev, r)
}

func (o *benchOptions) kernels() (*gpubench.Report, error) {
	dev, err := openDevice(o.device, 0)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	fmt.Println(dev.Name())
	r, err := gpubench.Kernels(dev, o.models, o.sizes, o.memory<<20, func(x gpubench.Result) {
		fmt.Printf("%-6s %-20s %-28s %10.1f µs\n", x.Model, x.Kernel, x.Shape, x.Micros)
	})
	if err != nil {
		return nil, err
	}
	if m, err := device.Telemetry(dev); m != nil {
		r.Facts = append(r.Facts, "after the kernels: "+m.Read().String())
		m.Close()
	} else if err != nil {
		r.Facts = append(r.Facts, "clocks and power are not known: "+err.Error())
	}
	return r, nil
}

// decoding measures every batch size with one set of weights. What has been measured is written each time, so that it is kept
// where time or memory ends before the last one.
func (o *benchOptions) decoding(dev kernels.Device, r *gpubench.Report) error {
	const prompt, tokens = 128, 256
	w, err := gpubench.RandomWeights(dev, o.decode, max(prompt+tokens, o.step.Prompt+o.step.Tokens)+1)
	if err != nil {
		return err
	}
	for _, batch := range o.sizes.Decode {
		s, err := gpubench.Decode(dev, w, batch, prompt, tokens)
		if err != nil {
			return err
		}
		s.Name = o.decode + ": " + s.Name
		if err := o.add(r, s); err != nil {
			return err
		}
	}
	if !o.steps {
		return nil
	}
	o.step.Rows = max(o.sizes.Rows, o.step.Prompt+o.step.Tokens)
	s, err := gpubench.Step(dev, w, o.decode, o.step)
	if err != nil {
		return err
	}
	return o.add(r, s)
}

func (o *benchOptions) add(r *gpubench.Report, s gpubench.System) error {
	fmt.Printf("%s: %s\n", s.Name, s.Text)
	r.Systems = append(r.Systems, s)
	return o.write(r)
}

// complete sets the yardsticks beside an existing report.
func (o *benchOptions) complete() error {
	text, err := os.ReadFile(filepath.Join(o.out, "report.json"))
	if err != nil {
		return err
	}
	var r gpubench.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(o.out, "report.json"), err)
	}
	in, err := os.Open(o.yardsticks)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := r.Yardsticks(in); err != nil {
		return err
	}
	return o.write(&r)
}

func (o *benchOptions) write(r *gpubench.Report) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "report.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	table := strings.TrimRight(r.Table(), "\n") + "\n"
	return os.WriteFile(filepath.Join(o.out, "report.md"), []byte(table), 0o644)
}
