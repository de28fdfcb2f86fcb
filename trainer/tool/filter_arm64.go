package tool

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

func legacyCalls() []uint32 { return []uint32{unix.SYS_FSTATAT} }

func legacyRules() []rule { return nil }
