package trainer

import (
	"fmt"
	"runtime"
	"strings"

	"tandem/kernels"
)

// A Card is a GPU by its datasheet: what follows from these numbers is derived, not measured. Memory is decimal, which is
// less than what a driver reports.
type Card struct {
	Name      string  // as --card takes it
	Title     string  // as people call it
	Memory    int     // bytes
	Bandwidth float64 // bytes a second
	Flops     float64 // a second, dense bf16 with float32 sums
	Peer      float64 // bytes a second to other cards, one way
	Host      float64 // bytes a second to the host, one way: PCIe 5 x16 moves about 55 of its 64 GB
}

// Cards are those that a plan can be made for, beside the CPU device.
func Cards() []Card {
	const pcie5 = 55e9
	return []Card{
		{"h100-80g", "H100 SXM 80 GB", 80e9, 3.35e12, 989e12, 450e9, pcie5},
		{"h100-nvl", "H100 NVL 94 GB", 94e9, 3.9e12, 835e12, 300e9, pcie5},
		{"h200", "H200 SXM 141 GB", 141e9, 4.8e12, 989e12, 450e9, pcie5},
		{"b200", "B200 180 GB", 180e9, 8.0e12, 2250e12, 900e9, pcie5},
	}
}

// A Machine is what a run is planned for.
type Machine struct {
	Card    *Card // nil is the CPU device
	GPUs    int   // 0 is 1
	Free    int   // bytes of each device; 0 is not known
	Host    int   // bytes of the host's memory beside a card; 0 is not known
	Workers int   // threads that compute on the host; 0 is not known
	Reserve int   // bytes of each device for others than the arenas; 0 is an estimate
}

// hostBandwidth is that of one socket with eight channels of DDR5-4800, in bytes a second. A slice of a host sees less.
const hostBandwidth = 307e9

// NewMachine is n cards of a name, or the CPU device for "cpu".
func NewMachine(card string, n int) (Machine, error) {
	if n < 1 {
		return Machine{}, fmt.Errorf("%d devices: want at least 1", n)
	}
	var names []string
	for _, c := range Cards() {
		if c.Name == card {
			return Machine{Card: &c, GPUs: n, Free: c.Memory}, nil
		}
		names = append(names, c.Name)
	}
	if card != "cpu" {
		return Machine{}, fmt.Errorf("card %q: want cpu, %s", card, strings.Join(names, ", "))
	}
	if n != 1 {
		return Machine{}, fmt.Errorf("%d devices: there is one CPU device", n)
	}
	return Machine{GPUs: 1}, nil
}

// workers is a device that computes on the host.
type workers interface {
	Workers() int
	Scratch(bytes int) error // of each
}

// MachineOf is the machine that a device is, without limits. Of a card without a datasheet there is its name.
func MachineOf(dev kernels.Device) Machine {
	m := Machine{GPUs: 1}
	if cpu, ok := dev.(workers); ok {
		m.Workers = cpu.Workers()
	}
	if _, ok := dev.(kernels.Sharer); ok {
		m.Card, m.Workers = &Card{Title: dev.Name()}, runtime.GOMAXPROCS(0)
	}
	if card, ok := dev.(kernels.Metered); ok {
		if u, err := card.Usage(); err == nil {
			m.Reserve = max(cardReserve, u.Beyond+laterReserve)
		}
	}
	return m
}

// On is the machine with what is free of a device, which is all that is not others': what the device has taken for us
// already is in the reserve.
func (m Machine) On(dev kernels.Device, free int) Machine {
	m.Free = free
	if card, ok := dev.(kernels.Metered); ok {
		if u, err := card.Usage(); err == nil {
			m.Free = u.Ours()
		}
	}
	return m
}

// known says that there is a datasheet to derive times from.
func (m Machine) known() bool { return m.Card != nil && m.Card.Bandwidth > 0 }

func (m Machine) gpus() int { return max(m.GPUs, 1) }

func (m Machine) String() string {
	if m.Card == nil {
		return "CPU"
	}
	if m.gpus() == 1 {
		return m.Card.Title
	}
	return fmt.Sprintf("each of %d %s", m.GPUs, m.Card.Title)
}

// roomy is the machine with what may be filled to the brim: what is free on a host changes from one moment to the next.
func (m Machine) roomy() Machine {
	if m.Card == nil {
		m.Free -= m.Free / 16
	}
	return m
}

func (m Machine) freeIs() string {
	switch {
	case m.Card == nil:
		return "free"
	case m.known():
		return "on the card"
	}
	return "that others leave on the card"
}

func (m Machine) sliced(n int) string {
	if m.gpus() == 1 {
		return ""
	}
	return fmt.Sprintf(", %d parameters a rank", n)
}

// What a card takes beyond the arenas, as an estimate: in all, and after the context was made and the kernels loaded.
const (
	cardReserve  = 1 << 30
	laterReserve = 512 << 20
)

// reserve is memory of the device that others than the arenas take.
func (m Machine) reserve() int {
	switch {
	case m.Reserve > 0:
		return m.Reserve
	case m.Card == nil:
		return 256 << 20
	}
	return cardReserve
}

func (m Machine) reserveFor() string {
	if m.Card == nil {
		return "the program, its tokenizer and the data; an estimate"
	}
	return "context, kernels and graphs; an estimate, which a run compares with what they take"
}
