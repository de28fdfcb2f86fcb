package cuda

// #include "driver.h"
import "C"

import (
	"fmt"

	"tandem/kernels"
)

// A Card is what a driver says of a GPU.
type Card struct {
	Name          string
	Bus           string // PCI address, by which other tools know it
	GPU           kernels.GPU
	Memory        int    // bytes
	Driver        string // the CUDA version that the driver is for, as in "13.0"
	Emulated      bool
	Mode          int // who may use it: see cuDeviceAttribute's COMPUTE_MODE
	number        C.CUdevice
	driverVersion [2]int
}

// Compute modes.
const (
	shared     = 0
	prohibited = 2
	exclusive  = 3
)

// String is the name with what decides how fast it is.
func (c Card) String() string {
	return fmt.Sprintf("%s (compute capability %d.%d, %d multiprocessors, %s)", c.Name, c.GPU.Major, c.GPU.Minor, c.GPU.SMs, gib(c.Memory))
}

// Cards asks a driver for its cards; an error that is ErrNone says why there is none.
func Cards(file string) ([]Card, error) {
	d, err := openDriver(orInstalled(file))
	if err != nil {
		return nil, none(err)
	}
	defer d.free()
	return d.cards()
}

func orInstalled(file string) string {
	if file == "" {
		return Library
	}
	return file
}

func none(why error) error { return fmt.Errorf("%w: %w", ErrNone, why) }

func (d *driver) cards() ([]Card, error) {
	if err := d.check(C.tandem_cuda_init(d.table), "cuInit", "start %s", d.file); err != nil {
		return nil, none(err)
	}
	var n C.int
	if err := d.check(C.tandem_cuda_count(d.table, &n), "cuDeviceGetCount", "count the cards"); err != nil {
		return nil, none(err)
	}
	if n == 0 {
		return nil, none(fmt.Errorf("cuda: %s finds no card; CUDA_VISIBLE_DEVICES may hide it", d.file))
	}
	cards := make([]Card, n)
	for i := range cards {
		if err := d.describe(&cards[i], i); err != nil {
			return nil, err
		}
	}
	return cards, nil
}

func (d *driver) describe(c *Card, index int) error {
	major, minor, err := d.version()
	if err != nil {
		return err
	}
	c.driverVersion, c.Driver, c.Emulated = [2]int{major, minor}, fmt.Sprintf("%d.%d", major, minor), d.emulated()
	if err := d.check(C.tandem_cuda_device(d.table, C.int(index), &c.number), "cuDeviceGet", "take card %d", index); err != nil {
		return err
	}
	var name, bus [256]C.char
	if err := d.check(C.tandem_cuda_device_name(d.table, c.number, &name[0], C.int(len(name))), "cuDeviceGetName", "ask card %d for its name", index); err != nil {
		return err
	}
	if err := d.check(C.tandem_cuda_device_bus(d.table, c.number, &bus[0], C.int(len(bus))), "cuDeviceGetPCIBusId", "ask card %d for its address", index); err != nil {
		return err
	}
	var bytes C.size_t
	if err := d.check(C.tandem_cuda_device_memory(d.table, c.number, &bytes), "cuDeviceTotalMem_v2", "ask card %d for its memory", index); err != nil {
		return err
	}
	c.Name, c.Bus, c.Memory = C.GoString(&name[0]), C.GoString(&bus[0]), int(bytes)
	for attribute, to := range map[C.int]*int{
		C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:          &c.GPU.Major,
		C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:          &c.GPU.Minor,
		C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:              &c.GPU.SMs,
		C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: &c.GPU.Shared,
		C.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:                      &c.Mode,
	} {
		var v C.int
		if err := d.check(C.tandem_cuda_device_attribute(d.table, c.number, attribute, &v), "cuDeviceGetAttribute", "ask card %d for attribute %d", index, attribute); err != nil {
			return err
		}
		*to = int(v)
	}
	c.GPU.Hopper = c.GPU.Major == 9 && c.GPU.Minor == 0
	return nil
}
