package trainer

import (
	"fmt"

	"tandem/kernels"
)

// Layouts of a device's memory. In the serial one, what only sampling needs and what only training needs lie in the same
// place. No bit of a run depends on it.
const (
	layoutAuto    = "auto" // overlap where it fits
	layoutSerial  = "serial"
	layoutOverlap = "overlap"
)

// overlayAlign is where the arenas of a shared region begin.
const overlayAlign = 256

// shared is the size of an arena by the recipe's layout: in a shared region each begins at a multiple of overlayAlign.
func shared(r Recipe, bytes int) int {
	if r.Train.Layout == layoutSerial {
		return (bytes + overlayAlign - 1) / overlayAlign * overlayAlign
	}
	return bytes
}

// An overlay is a device whose arenas are cut from a region that others are cut from, too. They are not zeroed.
type overlay struct {
	kernels.Device
	at, end kernels.Ptr
}

// Alloc takes the next piece of the region.
func (o *overlay) Alloc(bytes int) (kernels.Ptr, error) {
	p := o.at
	o.at += kernels.Ptr((bytes + overlayAlign - 1) / overlayAlign * overlayAlign)
	if o.at > o.end {
		return 0, fmt.Errorf("%d bytes of the shared region are missing", o.at-o.end)
	}
	return p, nil
}

// A layout gives each phase the device that its arenas are taken from.
type layout struct {
	sampling, training, reference, teacher kernels.Device

	region kernels.Tensor // of the serial layout
}

// newLayout takes the shared region, if the plan has one.
func newLayout(dev kernels.Device, p Plan) (layout, error) {
	if p.Recipe.Train.Layout != layoutSerial {
		return layout{sampling: dev, training: dev, reference: dev, teacher: dev}, nil
	}
	bytes := p.region()
	at, err := dev.Alloc(bytes)
	if err != nil {
		return layout{}, fmt.Errorf("region shared by sampling and training: %w", err)
	}
	device := func() kernels.Device { return &overlay{dev, at, at + kernels.Ptr(bytes)} }
	return layout{device(), device(), device(), device(), kernels.NewTensor(at, kernels.U8, bytes)}, nil
}

// region is the size of the shared region.
func (p Plan) region() int {
	var of [reserved + 1]int
	for _, i := range p.Items {
		of[i.Phase] += i.Bytes
	}
	return max(of[sampled], of[trained], of[referred], of[taught])
}
