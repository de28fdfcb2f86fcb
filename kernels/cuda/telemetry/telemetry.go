// Package telemetry reads from NVIDIA's management library what a card is and does: memory, clocks, power, temperature, why
// it is held back, memory errors. The library is opened at run time; where it is not, or a card does not tell, the answer is
// that it is not known, never a failure.
//
// A card is found by its PCI address, since the library and CUDA number cards differently. In MIG mode, where several share
// a card, that is the whole card: its clocks, power and heat are everybody's, and its memory says nothing of ours.
package telemetry

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"tandem/kernels"
)

// Unknown stands for a number that the card does not tell.
const Unknown = -1

// A Reading is a card at a moment. JSON names are those of the headers of measurements.
type Reading struct {
	Name        string   `json:"name"`
	Driver      string   `json:"driver"`       // version of the driver, as in 580.65.06
	MemoryUsed  int      `json:"memory_used"`  // bytes, of all processes
	MemoryTotal int      `json:"memory_total"` // bytes
	Processes   int      `json:"processes"`    // that compute on the card
	Clock       int      `json:"clock"`        // MHz, of the multiprocessors
	ClockMax    int      `json:"clock_max"`
	MemoryClock int      `json:"memory_clock"`
	Power       float64  `json:"power"`       // W
	PowerLimit  float64  `json:"power_limit"` // W
	Temperature int      `json:"temperature"` // °C
	Busy        int      `json:"busy"`        // % of the last while in which a kernel ran
	ECC         int      `json:"ecc"`         // uncorrected memory errors since the driver was loaded
	Throttled   []string `json:"throttled"`   // what holds the clocks back; idleness is no reason
	Shared      bool     `json:"shared"`      // in MIG mode: all but memory and processes, which are not known, is of the whole card
}

// ErrNone says that there is no management library, or that it does not know the card.
var ErrNone = errors.New("no telemetry")

// A Monitor reads one card. It is a kernels.Monitor.
type Monitor struct {
	lib    nvml.Interface
	card   nvml.Device
	driver string
	shared bool // the card is in MIG mode
}

// Open finds the card at a PCI address; the error is ErrNone where there is nothing to read from.
func Open(bus string) (*Monitor, error) { return open(nvml.New(), bus) }

func open(lib nvml.Interface, bus string) (*Monitor, error) {
	if r := lib.Init(); r != nvml.SUCCESS {
		return nil, fmt.Errorf("%w: start the management library: %s", ErrNone, say(lib, r))
	}
	card, r := lib.DeviceGetHandleByPciBusId(bus)
	if r != nvml.SUCCESS {
		lib.Shutdown()
		return nil, fmt.Errorf("%w: find the card at %s: %s", ErrNone, bus, say(lib, r))
	}
	m := &Monitor{lib: lib, card: card}
	if v, r := lib.SystemGetDriverVersion(); r == nvml.SUCCESS {
		m.driver = v
	}
	if mode, _, r := card.GetMigMode(); r == nvml.SUCCESS {
		m.shared = mode == nvml.DEVICE_MIG_ENABLE
	}
	return m, nil
}

// say is an error in words. The library has them, unless it is what is missing.
func say(lib nvml.Interface, r nvml.Return) string {
	if r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return "libnvidia-ml.so.1 is not there"
	}
	return lib.ErrorString(r)
}

// Close lets go of the library.
func (m *Monitor) Close() { m.lib.Shutdown() }

// Read reads what the card tells.
func (m *Monitor) Read() Reading {
	c, g := m.card, m.Gauges()
	r := Reading{
		Driver: m.driver, MemoryUsed: whole(g.Memory), MemoryTotal: Unknown, Processes: Unknown, Clock: whole(g.Clock), ClockMax: Unknown, MemoryClock: whole(g.MemoryClock),
		Power: g.Power, PowerLimit: Unknown, Temperature: whole(g.Temperature), Busy: Unknown, ECC: whole(m.Counters().Uncorrected), Throttled: []string{}, Shared: m.shared,
	}
	if math.IsNaN(r.Power) {
		r.Power = Unknown
	}
	if name, ret := c.GetName(); ret == nvml.SUCCESS {
		r.Name = name
	}
	if mem, ret := c.GetMemoryInfo(); ret == nvml.SUCCESS && !m.shared {
		r.MemoryTotal = int(mem.Total)
	}
	if all, ret := c.GetComputeRunningProcesses(); ret == nvml.SUCCESS && !m.shared {
		r.Processes = len(all)
	}
	if v, ret := c.GetMaxClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		r.ClockMax = int(v)
	}
	if v, ret := c.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
		r.PowerLimit = float64(v) / 1000
	}
	if v, ret := c.GetUtilizationRates(); ret == nvml.SUCCESS {
		r.Busy = int(v.Gpu)
	}
	if v, ret := c.GetCurrentClocksThrottleReasons(); ret == nvml.SUCCESS {
		r.Throttled = reasons(v)
	}
	return r
}

// whole is a number of a gauge; Unknown for one that is not known.
func whole(v float64) int {
	if math.IsNaN(v) {
		return Unknown
	}
	return int(v)
}

// number is what a call of the library gave.
func number[N uint32 | uint64](v N, ret nvml.Return) float64 {
	if ret != nvml.SUCCESS {
		return math.NaN()
	}
	return float64(v)
}

// Gauges reads what changes from moment to moment, in a few cheap calls. Since Ampere, power is the mean of a second.
func (m *Monitor) Gauges() kernels.Gauges {
	c := m.card
	g := kernels.Gauges{
		Power: number(c.GetPowerUsage()) / 1000, Clock: number(c.GetClockInfo(nvml.CLOCK_SM)), MemoryClock: number(c.GetClockInfo(nvml.CLOCK_MEM)),
		Temperature: number(c.GetTemperature(nvml.TEMPERATURE_GPU)), Memory: math.NaN(),
	}
	if mem, ret := c.GetMemoryInfo(); ret == nvml.SUCCESS && !m.shared {
		g.Memory = float64(mem.Used)
	}
	if bits, ret := c.GetCurrentClocksThrottleReasons(); ret == nvml.SUCCESS {
		g.Held, g.HeldKnown = holds(bits), true
	}
	return g
}

// Counters reads what is counted since the driver was loaded.
func (m *Monitor) Counters() kernels.Counters {
	return kernels.Counters{
		Energy:      number(m.card.GetTotalEnergyConsumption()) / 1000,
		Uncorrected: number(m.card.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)),
		Corrected:   number(m.card.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)),
	}
}

// Own is the bytes of the card that this process has taken, context and all; ok is false where the library does not tell:
// in a container it may know the process by another number, and in MIG mode it is not asked.
func (m *Monitor) Own() (bytes int, ok bool) {
	all, ret := m.card.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS || m.shared {
		return 0, false
	}
	for _, p := range all {
		if int(p.Pid) == os.Getpid() && p.UsedGpuMemory != notAvailable {
			return int(p.UsedGpuMemory), true
		}
	}
	return 0, false
}

// notAvailable is the library's word for a number of bytes that it does not know.
const notAvailable = math.MaxUint64

// A reason holds the clocks back.
type reason struct {
	bit  uint64
	name string
	kind kernels.Holds
}

func allReasons() []reason {
	return []reason{
		{nvml.ClocksEventReasonApplicationsClocksSetting, "clocks set by an administrator", kernels.HeldByOthers},
		{nvml.ClocksEventReasonSwPowerCap, "power limit", kernels.HeldByPower},
		{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown", kernels.HeldByHardware},
		{nvml.ClocksEventReasonSyncBoost, "clocks in step with other cards", kernels.HeldByOthers},
		{nvml.ClocksEventReasonSwThermalSlowdown, "heat", kernels.HeldByHeat},
		{nvml.ClocksThrottleReasonHwThermalSlowdown, "heat, by hardware", kernels.HeldByHeat | kernels.HeldByHardware},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake", kernels.HeldByPower | kernels.HeldByHardware},
		{nvml.ClocksEventReasonDisplayClockSetting, "display clocks", kernels.HeldByOthers},
		{nvml.ClocksEventReasonBoardLimit, "board limit", kernels.HeldByPower},
		{nvml.ClocksEventReasonReliability, "reliability limit", kernels.HeldByOthers},
	}
}

func reasons(bits uint64) []string {
	list := []string{}
	for _, why := range allReasons() {
		if bits&why.bit != 0 && !slices.Contains(list, why.name) {
			list = append(list, why.name)
		}
	}
	return list
}

func holds(bits uint64) kernels.Holds {
	var h kernels.Holds
	for _, why := range allReasons() {
		if bits&why.bit != 0 {
			h |= why.kind
		}
	}
	return h
}

// String is the reading in a line; what is not known is left out.
func (r Reading) String() string {
	var s []string
	add := func(known bool, format string, args ...any) {
		if known {
			s = append(s, fmt.Sprintf(format, args...))
		}
	}
	const gib = 1 << 30
	add(r.Name != "", "%s", r.Name)
	add(r.Driver != "", "driver %s", r.Driver)
	add(r.MemoryUsed >= 0, "%.1f of %.1f GiB used", float64(r.MemoryUsed)/gib, float64(r.MemoryTotal)/gib)
	add(r.Processes > 0, "%d processes", r.Processes)
	add(r.Clock >= 0, "%d of %d MHz", r.Clock, r.ClockMax)
	add(r.MemoryClock >= 0, "memory %d MHz", r.MemoryClock)
	add(r.Power >= 0, "%.0f of %.0f W", r.Power, r.PowerLimit)
	add(r.Temperature >= 0, "%d °C", r.Temperature)
	add(r.Busy >= 0, "%d%% busy", r.Busy)
	add(r.ECC > 0, "%d uncorrected memory errors", r.ECC)
	add(r.Shared, "in MIG mode: these are of the whole card")
	add(len(r.Throttled) > 0, "held back by %s", strings.Join(r.Throttled, ", "))
	return strings.Join(s, ", ")
}
