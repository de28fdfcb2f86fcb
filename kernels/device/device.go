// Package device opens a device by name. It is the only place that chooses.
package device

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"tandem/kernels"
	"tandem/kernels/cuda"
	"tandem/kernels/cuda/telemetry"
)

// DriverVariable names a file to use as the CUDA driver, in place of the installed one.
const DriverVariable = "TANDEM_CUDA_DRIVER"

// CheckVariable, set to 1, makes CUDA wait after every launch, so that an error names the kernel that failed, and call
// again what it would replay, so that what differs is found. Slow.
const CheckVariable = "TANDEM_CUDA_CHECK"

// Open opens "cpu", "cuda" or "cuda:1" (by the number of the card), or "auto": CUDA if there is a card that this binary
// can use, else the CPU. A card that is there and cannot be taken, because others have filled it or because its driver is
// too old, is an error for auto too: who has a card does not expect the CPU. workers is the number of threads of the CPU
// device, 0 for one per processor.
func Open(name string, workers int) (kernels.Device, error) {
	kind, number, numbered := strings.Cut(name, ":")
	switch {
	case name == "cpu":
		return kernels.NewCPU(kernels.CPUConfig{Workers: workers})
	case name == "auto":
		dev, err := cuda.Open(CUDA())
		if errors.Is(err, cuda.ErrNone) && os.Getenv(DriverVariable) == "" {
			return kernels.NewCPU(kernels.CPUConfig{Workers: workers})
		}
		if err != nil {
			return nil, fmt.Errorf("%w (--device cpu does without)", err)
		}
		return dev, nil
	case kind == "cuda":
		cfg := CUDA()
		if n, err := strconv.Atoi(number); numbered && (err != nil || n < 0) {
			return nil, fmt.Errorf("device %q: want cuda: and the number of a card", name)
		} else if numbered {
			cfg.Index = n
		}
		dev, err := cuda.Open(cfg)
		if err != nil {
			return nil, err
		}
		return dev, nil
	}
	return nil, fmt.Errorf("device %q: want auto, cpu, cuda or cuda:N", name)
}

// CUDA is how the environment wants CUDA to be opened.
func CUDA() cuda.Config {
	cfg := cuda.Config{Driver: os.Getenv(DriverVariable), Check: os.Getenv(CheckVariable) == "1"}
	if os.Getenv(cuda.FormsVariable) == cuda.PlainForms {
		cfg.Forms = cuda.Plain
	}
	return cfg
}

// Note is what a user should know of a device; "" if there is nothing.
func Note(dev kernels.Device) string {
	if c, ok := dev.(*cuda.Device); ok && c.Forms() != "" {
		return fmt.Sprintf("on %s Hopper's forms of kernels are left alone, and others, which are slower, do their work: %s", c.Name(), c.Forms())
	}
	return ""
}

// Holds refuses a dtype that a device does not store weights and activations in.
func Holds(dev kernels.Device, d kernels.DType) error {
	if c, ok := dev.(*cuda.Device); ok && d != kernels.BF16 {
		return fmt.Errorf("%s stores weights and activations as bf16, not %v; --device cpu does", c.Name(), d)
	}
	return nil
}

// Telemetry reads what the card of a device does. It is nil for the CPU and for cards of which nothing is known; the error
// says why.
func Telemetry(dev kernels.Device) (*telemetry.Monitor, error) {
	c, ok := dev.(*cuda.Device)
	if !ok || c.Card().Emulated {
		return nil, nil
	}
	return telemetry.Open(c.Card().Bus)
}
