package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
	"tandem/tokenizer"
)

// modelFlags are those of every command that reads a model directory.
type modelFlags struct {
	dir, dtype, device string
	workers            int
	context            int
}

func (f *modelFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "model", "", "Hugging Face directory of the model")
	flags.StringVar(&f.dtype, "dtype", "bf16", "bf16 or float32")
	flags.StringVar(&f.device, "device", "auto", "auto, cpu, cuda or cuda:N")
	flags.IntVar(&f.workers, "workers", 0, "threads of the CPU device (0: one per processor)")
	flags.IntVar(&f.context, "context", 4096, "tokens of a sequence at most, prompt included")
}

// An openModel is a loaded model on its device.
type openModel struct {
	dev       kernels.Device
	weights   *model.Weights
	tokenizer *tokenizer.Tokenizer // nil where the directory has none
	context   int
}

func (m *openModel) Close() {
	if m.tokenizer != nil {
		m.tokenizer.Close()
	}
	m.dev.Close()
}

func parseDType(name string) (kernels.DType, error) {
	switch name {
	case "bf16", "bfloat16":
		return kernels.BF16, nil
	case "float32", "f32":
		return kernels.F32, nil
	}
	return 0, fmt.Errorf("dtype %q: want bf16 or float32", name)
}

// loadTokenizer gives nil where a directory has no tokenizer.
func loadTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return tokenizer.Load(dir)
}

// open loads the model that the flags name.
func (f *modelFlags) open() (*openModel, error) {
	if f.dir == "" {
		return nil, errors.New("--model is missing: the Hugging Face directory of a model")
	}
	if f.context < 2 {
		return nil, fmt.Errorf("--context is %d, want at least 2", f.context)
	}
	d, err := parseDType(f.dtype)
	if err != nil {
		return nil, err
	}
	c, err := model.ReadConfig(f.dir)
	if err != nil {
		return nil, err
	}
	tok, err := loadTokenizer(f.dir)
	if err != nil {
		return nil, err
	}
	if tok != nil {
		c.Live = min(c.Live, tok.VocabSize())
	}
	dev, err := openDevice(f.device, f.workers)
	if err != nil {
		return nil, err
	}
	m := &openModel{dev: dev, tokenizer: tok, context: min(f.context, c.Context())}
	if err := hasRoom(dev, c, d, m.context); err != nil {
		m.Close()
		return nil, fmt.Errorf("load %s: %w", f.dir, err)
	}
	x, err := kernels.NewTransfer(dev)
	if err == nil {
		m.weights, err = loadWeights(dev, x, c, d, m.context, f.dir)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// openDevice opens a device and says what is to be known of it.
func openDevice(name string, workers int) (kernels.Device, error) {
	dev, err := device.Open(name, workers)
	if err != nil {
		return nil, err
	}
	if note := device.Note(dev); note != "" {
		fmt.Fprintln(os.Stderr, "tandem: note:", note)
	}
	return dev, nil
}

// hasRoom refuses weights that the device has no memory for, or does not store so.
func hasRoom(dev kernels.Device, c model.Config, d kernels.DType, context int) error {
	if err := device.Holds(dev, d); err != nil {
		return err
	}
	free, err := device.Free(dev)
	if need := model.WeightBytes(c, d, context); err == nil && need > free {
		err = fmt.Errorf("the weights take %.1f GiB of memory, and %.1f GiB are free", float64(need)/(1<<30), float64(free)/(1<<30))
	}
	return err
}

// checkSequence holds tokens to what the model can take.
func (m *openModel) checkSequence(tokens []int32) error {
	if len(tokens) == 0 {
		return errors.New("there are no tokens")
	}
	if len(tokens) > m.context {
		return fmt.Errorf("%d tokens exceed the context of %d; --context raises it, to %d at most", len(tokens), m.context, m.weights.Config.Context())
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= m.weights.Config.Vocab {
			return fmt.Errorf("token %d is %d, want 0 to %d", i, t, m.weights.Config.Vocab-1)
		}
	}
	return nil
}

// loadWeights takes the arena and fills it from a directory.
func loadWeights(dev kernels.Device, x *kernels.Transfer, c model.Config, d kernels.DType, context int, dir string) (*model.Weights, error) {
	w, err := model.NewWeights(dev, c, d, context)
	if err != nil {
		return nil, err
	}
	notes, err := w.Load(x, dir)
	for _, n := range notes {
		fmt.Fprintln(os.Stderr, "tandem: note:", n)
	}
	return w, err
}
