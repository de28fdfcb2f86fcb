package telemetry

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"tandem/kernels"
)

// card is a card that tells everything, or, where silent, nothing.
func card(silent bool) *mock.Device {
	ret := nvml.SUCCESS
	if silent {
		ret = nvml.ERROR_NOT_SUPPORTED
	}
	return &mock.Device{
		GetNameFunc: func() (string, nvml.Return) { return "NVIDIA H200", ret },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 141 << 30, Free: 41 << 30, Used: 100 << 30}, ret
		},
		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) { return make([]nvml.ProcessInfo, 2), ret },
		GetClockInfoFunc: func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1500, nvml.CLOCK_MEM: 3201}[c], ret
		},
		GetMaxClockInfoFunc:       func(nvml.ClockType) (uint32, nvml.Return) { return 1980, ret },
		GetPowerUsageFunc:         func() (uint32, nvml.Return) { return 650500, ret },
		GetEnforcedPowerLimitFunc: func() (uint32, nvml.Return) { return 700000, ret },
		GetTemperatureFunc:        func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, ret },
		GetUtilizationRatesFunc:   func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97}, ret },
		GetTotalEccErrorsFunc: func(kind nvml.MemoryErrorType, counter nvml.EccCounterType) (uint64, nvml.Return) {
			if counter != nvml.VOLATILE_ECC {
				return 99, ret
			}
			return map[nvml.MemoryErrorType]uint64{nvml.MEMORY_ERROR_TYPE_UNCORRECTED: 3, nvml.MEMORY_ERROR_TYPE_CORRECTED: 20}[kind], ret
		},
		GetTotalEnergyConsumptionFunc: func() (uint64, nvml.Return) { return 1234567, ret },
		GetMigModeFunc:                func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_DISABLE, nvml.DEVICE_MIG_ENABLE, ret },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) {
			return nvml.ClocksEventReasonGpuIdle | nvml.ClocksEventReasonSwPowerCap | nvml.ClocksThrottleReasonHwThermalSlowdown, ret
		},
	}
}

// library knows one card at an address; closed counts how often it was let go.
func library(c nvml.Device, init nvml.Return, closed *int) *mock.Interface {
	return &mock.Interface{
		InitFunc:     func() nvml.Return { return init },
		ShutdownFunc: func() nvml.Return { *closed++; return nvml.SUCCESS },
		DeviceGetHandleByPciBusIdFunc: func(bus string) (nvml.Device, nvml.Return) {
			if bus != "0000:01:00.0" {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return c, nvml.SUCCESS
		},
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "580.65.06", nvml.SUCCESS },
		ErrorStringFunc:            func(r nvml.Return) string { return "words for it" },
	}
}

func TestRead(t *testing.T) {
	closed := 0
	m, err := open(library(card(false), nvml.SUCCESS, &closed), "0000:01:00.0")
	if err != nil {
		t.Fatal(err)
	}
	got := m.Read()
	want := Reading{
		Name: "NVIDIA H200", Driver: "580.65.06", MemoryUsed: 100 << 30, MemoryTotal: 141 << 30, Processes: 2, Clock: 1500, ClockMax: 1980,
		MemoryClock: 3201, Power: 650.5, PowerLimit: 700, Temperature: 61, Busy: 97, ECC: 3, Throttled: []string{"power limit", "heat, by hardware"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	const line = "NVIDIA H200, driver 580.65.06, 100.0 of 141.0 GiB used, 2 processes, 1500 of 1980 MHz, memory 3201 MHz, 650 of 700 W, 61 °C, 97% busy, 3 uncorrected memory errors, held back by power limit, heat, by hardware"
	if got.String() != line {
		t.Errorf("got  %s\nwant %s", got, line)
	}
	g := kernels.Gauges{Power: 650.5, Clock: 1500, MemoryClock: 3201, Temperature: 61, Memory: 100 << 30, Held: kernels.HeldByPower | kernels.HeldByHeat | kernels.HeldByHardware, HeldKnown: true}
	if got := m.Gauges(); got != g {
		t.Errorf("gauges are %+v, want %+v", got, g)
	}
	if got, want := m.Counters(), (kernels.Counters{Energy: 1234.567, Uncorrected: 3, Corrected: 20}); got != want {
		t.Errorf("counters are %+v, want %+v", got, want)
	}
	m.Close()
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}

// A card that tells nothing is described by nothing, and its reading is still JSON.
func TestReadSilent(t *testing.T) {
	closed := 0
	m, err := open(library(card(true), nvml.SUCCESS, &closed), "0000:01:00.0")
	if err != nil {
		t.Fatal(err)
	}
	r := m.Read()
	if g := m.Gauges(); !math.IsNaN(g.Power) || !math.IsNaN(g.Clock) || !math.IsNaN(g.Memory) || g.HeldKnown {
		t.Errorf("gauges are %+v", g)
	}
	if c := m.Counters(); !math.IsNaN(c.Energy) || !math.IsNaN(c.Corrected) {
		t.Errorf("counters are %+v", c)
	}
	if r.String() != "driver 580.65.06" || r.Clock != Unknown || r.ECC != Unknown || r.Throttled == nil {
		t.Errorf("%+v: %s", r, r)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"throttled":[]`) {
		t.Errorf("%s %v", b, err)
	}
}

// Every reason has words and a kind, and idleness has neither.
func TestReasons(t *testing.T) {
	for bit := uint64(1); bit < nvml.ClocksEventReasonAll; bit <<= 1 {
		known := bit != nvml.ClocksEventReasonGpuIdle
		if (len(reasons(bit)) == 1) != known || (holds(bit) != 0) != known {
			t.Errorf("reason %#x: %q, %b", bit, reasons(bit), holds(bit))
		}
	}
}

// In MIG mode the card is shared: its memory and processes are not ours to tell, and the line says what the rest is of.
func TestReadShared(t *testing.T) {
	c, closed := card(false), 0
	c.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS }
	m, err := open(library(c, nvml.SUCCESS, &closed), "0000:01:00.0")
	if err != nil {
		t.Fatal(err)
	}
	r := m.Read()
	if r.MemoryUsed != Unknown || r.MemoryTotal != Unknown || r.Processes != Unknown || r.Power != 650.5 || !strings.Contains(r.String(), "MIG mode: these are of the whole card") {
		t.Errorf("%+v: %v", r, r)
	}
	if g := m.Gauges(); !math.IsNaN(g.Memory) || g.Clock != 1500 {
		t.Errorf("%+v", g)
	}
	if n, ok := m.Own(); ok {
		t.Errorf("%d bytes are ours", n)
	}
}

// What of the card is this process's is known where the library lists it, by its number, with a number of bytes.
func TestOwn(t *testing.T) {
	self := uint32(os.Getpid())
	for _, c := range []struct {
		name  string
		procs []nvml.ProcessInfo
		ret   nvml.Return
		want  int
		ok    bool
	}{
		{"beside another", []nvml.ProcessInfo{{Pid: self + 1, UsedGpuMemory: 5}, {Pid: self, UsedGpuMemory: 7 << 30}}, nvml.SUCCESS, 7 << 30, true},
		{"by another number, as in a container", []nvml.ProcessInfo{{Pid: self + 1, UsedGpuMemory: 5}}, nvml.SUCCESS, 0, false},
		{"without bytes", []nvml.ProcessInfo{{Pid: self, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS, 0, false},
		{"not told", nil, nvml.ERROR_NO_PERMISSION, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, closed := card(false), 0
			d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return c.procs, c.ret }
			m, err := open(library(d, nvml.SUCCESS, &closed), "0000:01:00.0")
			if err != nil {
				t.Fatal(err)
			}
			if n, ok := m.Own(); n != c.want || ok != c.ok {
				t.Errorf("%d bytes, %v, want %d, %v", n, ok, c.want, c.ok)
			}
		})
	}
}

func TestOpenRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		init   nvml.Return
		bus    string
		closed int
		says   string
	}{
		{"no library", nvml.ERROR_LIBRARY_NOT_FOUND, "0000:01:00.0", 0, "libnvidia-ml.so.1 is not there"},
		{"no driver", nvml.ERROR_DRIVER_NOT_LOADED, "0000:01:00.0", 0, "start the management library: words for it"},
		{"another card", nvml.SUCCESS, "0000:02:00.0", 1, "find the card at 0000:02:00.0: words for it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			closed := 0
			_, err := open(library(card(false), c.init, &closed), c.bus)
			if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), c.says) || closed != c.closed {
				t.Errorf("%v, closed %d times", err, closed)
			}
		})
	}
	if m, err := Open("0000:01:00.0"); err == nil { // this machine's library, if it has one
		t.Log(m.Read())
		m.Close()
	} else if !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}
