// Package telemetry reads from NVIDIA's management library what a card is and does: memory, clocks, power, temperature, why
// it is held back, memory errors. The library is opened at run time; where it is not, or a card does not tell, the answer is
// that it is not known, never a failure.
package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Unknown stands for a number that the card does not tell.
const Unknown = -1

// A Reading is a card at a moment. JSON names are those of metrics and of the headers of measurements.
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
}

// ErrNone says that there is no management library, or that it does not know the card.
var ErrNone = errors.New("no telemetry")

// A Monitor reads one card.
type Monitor struct {
	lib    nvml.Interface
	card   nvml.Device
	driver string
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
	c := m.card
	r := Reading{
		Driver: m.driver, MemoryUsed: Unknown, MemoryTotal: Unknown, Processes: Unknown, Clock: Unknown, ClockMax: Unknown, MemoryClock: Unknown,
		Power: Unknown, PowerLimit: Unknown, Temperature: Unknown, Busy: Unknown, ECC: Unknown, Throttled: []string{},
	}
	if name, ret := c.GetName(); ret == nvml.SUCCESS {
		r.Name = name
	}
	if mem, ret := c.GetMemoryInfo(); ret == nvml.SUCCESS {
		r.MemoryUsed, r.MemoryTotal = int(mem.Used), int(mem.Total)
	}
	if all, ret := c.GetComputeRunningProcesses(); ret == nvml.SUCCESS {
		r.Processes = len(all)
	}
	if v, ret := c.GetClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		r.Clock = int(v)
	}
	if v, ret := c.GetMaxClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		r.ClockMax = int(v)
	}
	if v, ret := c.GetClockInfo(nvml.CLOCK_MEM); ret == nvml.SUCCESS {
		r.MemoryClock = int(v)
	}
	if v, ret := c.GetPowerUsage(); ret == nvml.SUCCESS {
		r.Power = float64(v) / 1000
	}
	if v, ret := c.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
		r.PowerLimit = float64(v) / 1000
	}
	if v, ret := c.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		r.Temperature = int(v)
	}
	if v, ret := c.GetUtilizationRates(); ret == nvml.SUCCESS {
		r.Busy = int(v.Gpu)
	}
	if v, ret := c.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
		r.ECC = int(v)
	}
	if v, ret := c.GetCurrentClocksThrottleReasons(); ret == nvml.SUCCESS {
		r.Throttled = reasons(v)
	}
	return r
}

func reasons(bits uint64) []string {
	list := []string{}
	for _, why := range []struct {
		bit  uint64
		name string
	}{
		{nvml.ClocksEventReasonApplicationsClocksSetting, "clocks set by an administrator"},
		{nvml.ClocksEventReasonSwPowerCap, "power limit"},
		{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"},
		{nvml.ClocksEventReasonSyncBoost, "clocks in step with other cards"},
		{nvml.ClocksEventReasonSwThermalSlowdown, "heat"},
		{nvml.ClocksThrottleReasonHwThermalSlowdown, "heat, by hardware"},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
		{nvml.ClocksEventReasonDisplayClockSetting, "display clocks"},
		{nvml.ClocksEventReasonBoardLimit, "board limit"},
		{nvml.ClocksEventReasonReliability, "reliability limit"},
	} {
		if bits&why.bit != 0 && !slices.Contains(list, why.name) {
			list = append(list, why.name)
		}
	}
	return list
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
	add(len(r.Throttled) > 0, "held back by %s", strings.Join(r.Throttled, ", "))
	return strings.Join(s, ", ")
}
