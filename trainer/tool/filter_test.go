package tool

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A data is struct seccomp_data.
type data struct {
	call uint32
	arch uint32
	args [6]uint64
}

// evaluate is the kernel's machine, as far as the filters use it.
func evaluate(t *testing.T, program []unix.SockFilter, d data) uint32 {
	t.Helper()
	memory := binary.LittleEndian.AppendUint32(nil, d.call)
	memory = binary.LittleEndian.AppendUint32(memory, d.arch)
	memory = binary.LittleEndian.AppendUint64(memory, 0)
	for _, a := range d.args {
		memory = binary.LittleEndian.AppendUint64(memory, a)
	}
	var a uint32
	jump := func(i unix.SockFilter, yes bool) int {
		if yes {
			return int(i.Jt)
		}
		return int(i.Jf)
	}
	for pc := 0; pc < len(program); pc++ {
		switch i := program[pc]; i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.LittleEndian.Uint32(memory[i.K:])
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(i.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			pc += jump(i, a == i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			pc += jump(i, a >= i.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			pc += jump(i, a&i.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %d: %+v", pc, i)
		}
	}
	t.Fatal("the program ends without a return")
	return 0
}

// meaning is what the lists say of a call, written down without jumps.
func meaning(d data, signals bool, server bool) uint32 {
	const cloneFlags = 0x1234
	switch {
	case d.arch != auditArch, d.call >= x32Bit:
		return unix.SECCOMP_RET_KILL_PROCESS
	case slices.Contains(plainCalls(), d.call), signals && slices.Contains(signalCalls(), d.call):
		return retAllow
	case slices.Contains(serverCalls(), d.call) && server:
		return retAllow
	case slices.Contains(absentCalls(), d.call):
		return retErrno | uint32(unix.ENOSYS)
	case slices.Contains(xattrCalls(), d.call):
		return retErrno | uint32(unix.ENOTSUP)
	case slices.Contains(idleCalls(), d.call):
		return retErrno
	}
	rules := conditionalCalls()
	if server {
		rules = append(rules, serverRules(cloneFlags)...)
	}
	for _, r := range rules {
		matches := r.values == nil || slices.Contains(r.values, d.args[r.arg])
		checked := r.values == nil || d.args[r.arg] == r.flagged
		if r.call == d.call && matches && (!checked || uint32(d.args[r.flagArg])&r.flags == 0) {
			return retAllow
		}
	}
	return retErrno | uint32(unix.EPERM)
}

// The kernel takes the stricter answer of the two filters; of two errors, the later filter's.
func both(server, program uint32) uint32 {
	if program == retAllow || server == unix.SECCOMP_RET_KILL_PROCESS {
		return server
	}
	return program
}

func TestFilterMeansTheLists(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	interesting := []uint64{0, 1, 16, 17, 72, 157, threadFlags, threadFlagsMusl, 0x1234, threadFlags | 1<<32, 1 << 32, unix.O_DIRECT}
	for _, rules := range [][]rule{conditionalCalls(), serverRules(0x1234)} {
		for _, r := range rules {
			interesting = append(interesting, uint64(r.call))
			interesting = append(interesting, r.values...)
		}
	}
	for _, signals := range []bool{false, true} {
		long, short := serverFilter(signals, 0x1234), programFilter()
		for call := uint32(0); call < 600; call++ {
			for range 100 {
				d := data{call: call, arch: auditArch}
				for i := range d.args {
					d.args[i] = interesting[random.IntN(len(interesting))] ^ uint64(random.IntN(3)/2)<<random.IntN(64)
				}
				if random.IntN(50) == 0 {
					d.arch ^= 1 << random.IntN(32)
				}
				if random.IntN(50) == 0 {
					d.call |= x32Bit
				}
				server := evaluate(t, long, d)
				if want := meaning(d, signals, true); server != want {
					t.Fatalf("server, %+v: %#x, want %#x", d, server, want)
				}
				if got, want := both(server, evaluate(t, short, d)), meaning(d, signals, false); got != want {
					t.Fatalf("program, %+v: %#x, want %#x", d, got, want)
				}
			}
		}
	}
}

func TestListsAreDisjoint(t *testing.T) {
	seen := map[uint32]string{}
	for name, calls := range map[string][]uint32{"plain": plainCalls(), "signal": signalCalls(), "server": serverCalls(),
		"absent": absentCalls(), "xattr": xattrCalls(), "idle": idleCalls()} {
		for _, call := range calls {
			if seen[call] != "" {
				t.Errorf("call %d is in %s and in %s", call, seen[call], name)
			}
			seen[call] = name
		}
	}
	for _, r := range conditionalCalls() {
		if seen[r.call] != "" {
			t.Errorf("call %d has a condition and is in %s", r.call, seen[r.call])
		}
	}
}
