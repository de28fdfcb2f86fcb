package tool

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"golang.org/x/sys/unix"
)

// The filter is an allow list: what is not named below answers EPERM, or ENOSYS where the C library then takes an older
// way. Left out on purpose, beside everything that changes the system: new processes and programs (fork, execve: one
// program is one process, so that one limit on its address space bounds its memory), memory that no address space
// counts (memfd_create, shared memory), file locks (a program could hold millions of them in the kernel, and the
// interpreter's files are the host's), reading past the page cache (it would load the host's disk), moving pages of files
// through pipes (splice, sendfile), out-of-band bytes and rare kinds of futex (where holes were found before), addresses (bind, connect,
// sendto with one), and everything that reaches another process.
//
// It is assembled here rather than by elastic/go-seccomp-bpf: version 1.6.0 compares a later system call number with the
// argument that an earlier rule left in the accumulator, so a call can be let through by choice of its arguments.

// A rule lets a system call through when its argument arg is one of values (any, if there are none; all 64 bits count). Where
// arg is flagged, or there are no values, argument flagArg must have none of the bits in flags besides.
type rule struct {
	call    uint32
	arg     int
	values  []uint64
	flagged uint64
	flagArg int
	flags   uint32
}

// idleCalls answer 0 and do nothing: on memory they have nothing to do, and on the interpreter's files they would have the
// host's disk write its journal or drop its cache.
func idleCalls() []uint32 {
	return []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_MSYNC, unix.SYS_FADVISE64}
}

// Flags of a new thread: what the GNU and the musl C library pass, and nothing else.
const (
	threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM | unix.CLONE_SIGHAND |
		unix.CLONE_THREAD | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
	threadFlagsMusl = threadFlags | unix.CLONE_DETACHED
)

// Numbers of <asm-generic/ioctls.h> that x/sys does not name.
const (
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
)

func conditionalCalls() []rule {
	return append(legacyRules(), []rule{
		{call: unix.SYS_OPENAT, flagArg: 2, flags: unix.O_DIRECT},
		{call: unix.SYS_CLONE, values: []uint64{threadFlags, threadFlagsMusl}},
		{call: unix.SYS_FCNTL, arg: 1, values: []uint64{unix.F_DUPFD, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL,
			unix.F_DUPFD_CLOEXEC, unix.F_GETPIPE_SZ}, flagged: unix.F_SETFL, flagArg: 2, flags: unix.O_DIRECT},
		{call: unix.SYS_IOCTL, arg: 1, values: []uint64{unix.TCGETS, unix.TIOCGWINSZ, unix.TIOCINQ, fionbio, fioclex, fionclex}},
		{call: unix.SYS_PRCTL, values: []uint64{unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_VMA}},
		{call: unix.SYS_PRLIMIT64, values: []uint64{0}}, // of itself; hard limits cannot be raised
		{call: unix.SYS_SOCKETPAIR, values: []uint64{unix.AF_UNIX}},
		{call: unix.SYS_SENDTO, arg: 4, values: []uint64{0}, flagArg: 3, flags: unix.MSG_OOB}, // no address
		{call: unix.SYS_RECVFROM, flagArg: 3, flags: unix.MSG_OOB},
		{call: unix.SYS_FUTEX, arg: 1, values: futexOperations()},
	}...)
}

// futexOperations are what the C libraries' locks do, the frequent ones first. Left out are priority inheritance and
// comparing requeues, which no lock of an interpreter needs.
func futexOperations() []uint64 {
	const wait, wake, requeue, waitBits, wakeBits, private, realtime = 0, 1, 3, 9, 10, 128, 256
	return []uint64{wait | private, wake | private, waitBits | private | realtime, waitBits | private, wakeBits | private,
		requeue | private, wait, wake, waitBits, waitBits | realtime, wakeBits}
}

// Calls that act on processes by number: harmless where the program is alone in its namespace, else withheld.
func signalCalls() []uint32 {
	return []uint32{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL}
}

func plainCalls() []uint32 {
	return append(legacyCalls(),
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64,
		unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_LSEEK, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE,
		unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT, unix.SYS_GETDENTS64,
		unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT,
		unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_UTIMENSAT,
		unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_UMASK, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2, unix.SYS_PSELECT6, unix.SYS_PPOLL, unix.SYS_EVENTFD2,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_SHUTDOWN,
		unix.SYS_GETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
		unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_BRK,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGTIMEDWAIT,
		unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGPENDING, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
		unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
		unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY, unix.SYS_TIMES, unix.SYS_GETRUSAGE, unix.SYS_SYSINFO, unix.SYS_UNAME,
		unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_GETUID,
		unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_GETGROUPS,
		unix.SYS_GETPRIORITY, unix.SYS_GETCPU, unix.SYS_GETRANDOM, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
		unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
		unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SET_ROBUST_LIST,
		unix.SYS_RSEQ, unix.SYS_WAIT4, unix.SYS_WAITID,
		unix.SYS_EXIT, unix.SYS_EXIT_GROUP)
}

// absentCalls answer ENOSYS, so that the C library falls back to a call whose arguments the filter can see, or to none.
func absentCalls() []uint32 {
	return []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_EPOLL_PWAIT2, unix.SYS_FUTEX_WAITV, unix.SYS_PREADV2,
		unix.SYS_PWRITEV2, unix.SYS_MEMFD_CREATE, unix.SYS_FCHMODAT2}
}

// xattrCalls answer ENOTSUP, which those who copy files with their attributes take for a file system without any.
func xattrCalls() []uint32 {
	return []uint32{unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR,
		unix.SYS_FLISTXATTR, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR}
}

// The server, which locks each process in, needs more than programs do. Its filter is the long one, set once and inherited;
// a process adds a short one that takes these calls away. Together they are as one filter on the lists above.
func serverCalls() []uint32 {
	return []uint32{unix.SYS_MOUNT, unix.SYS_CAPSET, unix.SYS_SETSID, unix.SYS_SECCOMP, unix.SYS_SENDMSG, unix.SYS_RECVMSG,
		unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF}
}

func serverRules(cloneFlags uint64) []rule {
	return []rule{
		{call: unix.SYS_CLONE, values: []uint64{cloneFlags}},
		{call: unix.SYS_PRCTL, values: []uint64{unix.PR_SET_DUMPABLE, unix.PR_SET_SECUREBITS, unix.PR_SET_NO_NEW_PRIVS, unix.PR_SET_PDEATHSIG}},
	}
}

const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retErrno = unix.SECCOMP_RET_ERRNO
	x32Bit   = 0x40000000

	offNumber = 0 // of struct seccomp_data
	offArch   = 4
	offArgs   = 16
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}
func ret(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

// unless skips that many instructions when the accumulator is not value.
func unless(value uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
}

// serverFilter is the program set by the server: the lists above and what it needs itself. Every rule ends in a return on
// every path, so that the accumulator holds the system call's number wherever a number is compared.
func serverFilter(signals bool, cloneFlags uint64) []unix.SockFilter {
	program := []unix.SockFilter{
		load(offArch), unless(auditArch, 1), {Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, ret(unix.SECCOMP_RET_KILL_PROCESS),
		load(offNumber), {Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: x32Bit}, ret(unix.SECCOMP_RET_KILL_PROCESS),
	}
	program = append(program, answer(plainCalls(), retAllow)...)
	if signals {
		program = append(program, answer(signalCalls(), retAllow)...)
	}
	program = append(program, answer(serverCalls(), retAllow)...)
	program = append(program, answer(absentCalls(), retErrno|uint32(unix.ENOSYS))...)
	program = append(program, answer(xattrCalls(), retErrno|uint32(unix.ENOTSUP))...)
	program = append(program, answer(idleCalls(), retErrno)...)
	for _, r := range conditionalCalls() {
		for _, more := range serverRules(cloneFlags) {
			if more.call == r.call {
				r.values = append(r.values, more.values...)
			}
		}
		program = append(program, r.assemble()...)
	}
	return append(program, ret(retErrno|uint32(unix.EPERM)))
}

// programFilter takes away what only the server needs. The machine is checked by the server's filter.
func programFilter() []unix.SockFilter {
	program := append([]unix.SockFilter{load(offNumber)}, answer(serverCalls(), retErrno|uint32(unix.EPERM))...)
	for _, r := range conditionalCalls() {
		for _, more := range serverRules(0) {
			if more.call == r.call {
				program = append(program, r.assemble()...)
			}
		}
	}
	return append(program, ret(retAllow))
}

func answer(calls []uint32, value uint32) []unix.SockFilter {
	var list []unix.SockFilter
	for _, call := range calls {
		list = append(list, unless(call, 1), ret(value))
	}
	return list
}

func (r rule) assemble() []unix.SockFilter {
	low := argument(r.arg)
	refuse := ret(retErrno | uint32(unix.EPERM))
	body := []unix.SockFilter{refuse}
	if r.values == nil {
		body = r.checkFlags()
	}
	for _, v := range slices.Backward(r.values) {
		matched := []unix.SockFilter{ret(retAllow)}
		if v == r.flagged && r.flags != 0 {
			matched = r.checkFlags()
		}
		n := uint8(len(matched))
		one := []unix.SockFilter{load(low), unless(uint32(v), n+2), load(low + 4), unless(uint32(v>>32), n)}
		body = slices.Concat(one, matched, body)
	}
	return slices.Insert(body, 0, unless(r.call, uint8(len(body))))
}

// checkFlags ends the rule by what argument flagArg holds.
func (r rule) checkFlags() []unix.SockFilter {
	return []unix.SockFilter{load(argument(r.flagArg)), {Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: r.flags},
		ret(retErrno | uint32(unix.EPERM)), ret(retAllow)}
}

// argument is where the low half of an argument is: both supported machines are little-endian.
func argument(n int) uint32 { return offArgs + 8*uint32(n) }

// encodeFilter gives the bytes of the program, in hexadecimal, as the kernel takes them.
func encodeFilter(program []unix.SockFilter) string {
	var b []byte
	for _, i := range program {
		b = binary.LittleEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return hex.EncodeToString(b)
}
