# System calls by number, for jail.py and server.py: every failure raises, naming what was being done.
import ctypes
import os

libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL keeps the interpreter lock, as os.fork does
libc.syscall.restype = ctypes.c_long

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 28, 38
SECUREBITS_LOCKED = 0xEF  # no root fix-ups, no kept and no ambient capabilities, all locked
MADV_COLLAPSE = 25


def call(what, name, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    got = libc.syscall(ctypes.c_long(config["calls"][name]), *words)
    if got < 0:
        number = ctypes.get_errno()
        raise OSError(number, what + ": " + os.strerror(number))
    return got


def set_secure_bits():
    call("set the secure bits", "prctl", PR_SET_SECUREBITS, SECUREBITS_LOCKED, 0, 0, 0)


def clear_capabilities():
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    call("clear capabilities", "capset", header, (ctypes.c_uint32 * 6)())
    call("set no_new_privs", "prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def message_of(error):
    return repr(error) if not isinstance(error, OSError) else error.strerror + (": %s" % error.filename if error.filename else "")
