package cuda

import (
	"tandem/kernels"
	"tandem/kernels/cuda/telemetry"
)

// Monitor reads how the card does; it is nil for an emulated one.
func (d *Device) Monitor() (kernels.Monitor, error) {
	if d.card.Emulated {
		return nil, nil
	}
	m, err := telemetry.Open(d.card.Bus)
	if err != nil {
		return nil, err // not m, which would be a Monitor that is not nil
	}
	return m, nil
}
