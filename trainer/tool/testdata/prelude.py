# Put before every attempt: attempt(f) prints ESCAPED when f returns, held when the system refuses.
import ctypes, os, sys, platform
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
AMD64 = platform.machine() == "x86_64"


def call(number, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    got = _libc.syscall(ctypes.c_long(number), *args)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


def attempt(f, *args):
    try:
        got = f(*args)
    except (OSError, MemoryError, RuntimeError, ImportError, ValueError) as e:
        print("held:", type(e).__name__, e)
        return
    print("ESCAPED:", repr(got)[:200])


def refused(ok, what=""):
    print("held:" if ok else "ESCAPED:", what)


def read(path):
    with open(path, "rb") as f:
        return f.read(100)


def write(path, how="wb"):
    with open(path, how) as f:
        f.write(b"x")
