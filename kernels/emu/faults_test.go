package emu_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tandem/kernels/emu"
)

// Faults that are planted in kernels, each with the words of the report that must name it; "wrong" is a fault that only
// changes results.
var faults = []struct{ plant, says string }{
	{"product_barrier", "race|wrong"},
	{"product_barrier_few", "race|wrong"},
	{"product_barrier_count", "divergent barrier"},
	{"product_divergent", "divergent|race"},
	{"product_wait", "race|wrong"},
	{"product_stage", "race|wrong"},
	{"product_ragged_rows", "out of bounds"},
	{"product_ragged_depth", "out of bounds|wrong"},
	{"product_swizzle_read", "wrong"},
	{"product_lanes_a", "wrong"},
	{"product_lanes_b", "wrong"},
	{"product_lanes_c", "wrong"},
	{"product_accumulator", "uninitialised"},
	{"product_misaligned", "misaligned"},
	{"product_shared_end", "out of bounds|race|wrong"},

	{"rows_barrier", "race"},
	{"rows_second_barrier", "race"},
	{"rows_syncwarp", "race"},
	{"rows_uninitialised", "wrong"},
	{"rows_past_end", "out of bounds"},
	{"rows_before", "out of bounds"},
	{"rows_misaligned", "misaligned"},
	{"rows_shared_end", "out of bounds"},
	{"rows_write_end", "out of bounds|race"},
	{"rows_host", "out of bounds"},
	{"rows_lane_returns", "divergent"},
	{"rows_mixed", "divergent"},
	{"rows_other_barrier", "deadlock"},
	{"rows_divergent", "divergent barrier"},
	{"rows_warp_returns", "deadlock"},
	{"rows_two_blocks", "race"},
	{"rows_neighbour", "race"},
	{"far_rows_index32", "overflow"},

	{"hopper_barrier", "not initialised|race"},
	{"hopper_init", "not initialised"},
	{"hopper_empty", "race|wrong|mbarrier"},
	{"hopper_expect", "deadlock|wrong|race"},
	{"hopper_full", "race|wrong|deadlock"},
	{"hopper_parity", "race|wrong|deadlock"},
	{"hopper_arrivals", "mbarrier|race|wrong"},
	{"hopper_swizzle", "wrong|out of bounds|race"},
	{"hopper_stride", "wrong"},
	{"hopper_fence", "fence"},
	{"hopper_registers", "wgmma.fence since"},
	{"hopper_pool", "deadlock"},
	{"hopper_commit", "wrong|deadlock|accumulator|race"},
	{"hopper_wait", "wrong|race|accumulator"},
	{"hopper_release", "race"},
	{"hopper_accumulator", "uninitialised"},
	{"hopper_proxy", "fence.proxy.async"},
}

// run runs the kernel that a fault is in.
func run(t *testing.T, c *card, plant string, r *rand.Rand) error {
	switch kernel, _, _ := strings.Cut(plant, "_"); kernel {
	case "product":
		return product(t, c, 65, 66, 104, r)
	case "rows":
		return rows(t, c, 6, 520, r)
	case "far":
		return far(t, c, r)
	default:
		form := sharedBoth
		switch plant {
		case "hopper_proxy":
			form = aStored
		case "hopper_registers":
			form = aRegisters
		}
		return hopper(t, c, 65, 136, 520, form, r)
	}
}

// Every planted fault is found under one of five schedules (mostly the first), and named by kernel, block, thread and line.
func TestFaults(t *testing.T) {
	where := regexp.MustCompile(`kernel (product|rows|hopper), block \(\d+, \d+, \d+\), thread \d+, at kernels/emu/testdata/(product|rows|hopper)\.cu:\d+ \(`)
	for _, f := range faults {
		t.Run(f.plant, func(t *testing.T) {
			says := regexp.MustCompile(f.says)
			found := 0
			for range 5 {
				seed := rand.Uint64()
				c := open(t, emu.Checked, "plant", strings.TrimPrefix(f.plant, "far_"), "seed", strconv.FormatUint(seed, 10), "memory", "32G")
				err := run(t, c, f.plant, rand.New(rand.NewPCG(seed, 0)))
				report := c.lib.Report()
				c.dev.Close()
				if err == nil {
					continue
				}
				found++
				said := report
				if said == "" {
					said = "wrong: " + err.Error()
				} else if !where.MatchString(report) {
					t.Errorf("the report does not say where: %s", report)
				}
				if !says.MatchString(said) {
					t.Errorf("seed %d: want %q in: %s", seed, f.says, said)
				}
				if found == 1 {
					t.Log(said)
				}
				if !long() {
					break
				}
			}
			if found == 0 {
				t.Error("was not found")
			}
			if long() {
				t.Logf("found under %d of 5 schedules", found)
			}
		})
	}
}
