package device

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"tandem/kernels"
)

// Free is the number of bytes that can be allocated on a device: what is free on its card, or of host memory.
func Free(dev kernels.Device) (int, error) {
	if d, ok := dev.(interface{ FreeMemory() (int, error) }); ok {
		return d.FreeMemory()
	}
	return FreeMemory()
}

// FreeMemory is the number of bytes of host memory that can be used without swapping: what the CPU device can allocate.
func FreeMemory() (int, error) {
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			var kib int
			if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
				if _, err := fmt.Sscan(rest, &kib); err == nil {
					return kib << 10, nil
				}
			}
		}
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("free memory of this machine: %w", err)
	}
	return int(info.Freeram+info.Bufferram) * int(info.Unit), nil
}
