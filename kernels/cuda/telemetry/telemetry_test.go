package telemetry

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
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
			if kind != nvml.MEMORY_ERROR_TYPE_UNCORRECTED || counter != nvml.VOLATILE_ECC {
				return 99, ret
			}
			return 3, ret
		},
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
	if r.String() != "driver 580.65.06" || r.Clock != Unknown || r.ECC != Unknown || r.Throttled == nil {
		t.Errorf("%+v: %s", r, r)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"throttled":[]`) {
		t.Errorf("%s %v", b, err)
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
