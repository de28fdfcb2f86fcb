package tool

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// legacyCalls have a newer form on other machines; the C library still uses these here.
func legacyCalls() []uint32 {
	return []uint32{unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_ACCESS, unix.SYS_READLINK,
		unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_CHMOD,
		unix.SYS_DUP2, unix.SYS_PIPE, unix.SYS_SELECT, unix.SYS_POLL, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT,
		unix.SYS_GETPGRP, unix.SYS_GETRLIMIT, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_TIME, unix.SYS_GETDENTS}
}

func legacyRules() []rule { return []rule{{call: unix.SYS_OPEN, flagArg: 1, flags: unix.O_DIRECT}} }
