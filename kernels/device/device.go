// Package device opens a device by name. It is the only place that chooses.
package device

import (
	"fmt"

	"tandem/kernels"
)

// Open opens "cpu", or "auto": the best device that answers. workers is the number of threads of the CPU device, 0 for one
// per processor.
func Open(name string, workers int) (kernels.Device, error) {
	switch name {
	case "auto", "cpu":
		return kernels.NewCPU(kernels.CPUConfig{Workers: workers})
	}
	return nil, fmt.Errorf("device %q: want auto or cpu", name)
}
