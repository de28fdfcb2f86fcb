# Attempts to get out, one a section: "### name", then "outside" when the same code must succeed in a plain interpreter
# (which shows that the attempt is real), then the reason with which the call must end, "ok" if none is given.
# CANARY is a file of the host that must be neither read nor changed; ABSTRACT the name of an abstract socket of the host.

### read the user table | outside
attempt(read, "/etc/passwd")

### read a file of the host | outside
attempt(read, CANARY)

### read shadow
attempt(read, "/etc/shadow")

### list the root user's home
attempt(os.listdir, "/root")

### list the host's top directories
names = set(os.listdir("/"))
refused(names <= {"py", "lib", "lib64", "dev", "tmp", "usr"}, names)

### climb with dots | outside
attempt(read, "/tmp/../../../../../../.." + CANARY)

### climb from a descriptor
d = os.open("/", os.O_RDONLY)
for _ in range(20):
    d = os.open("..", os.O_RDONLY, dir_fd=d)
attempt(os.open, CANARY.lstrip("/"), os.O_RDONLY, 0o600)
attempt(lambda: os.open("etc/passwd", os.O_RDONLY, dir_fd=d))

### symbolic link in the scratch directory | outside
import tempfile
p = tempfile.mktemp()
os.symlink(CANARY, p)
attempt(read, p)

### hard link to an interpreter file
os.chdir("/tmp")
attempt(os.link, os.__file__, "/tmp/linked")

### rename over an interpreter file
open("/tmp/evil.py", "w").write("x")
attempt(os.replace, "/tmp/evil.py", os.__file__)

### read own environment through proc | outside
attempt(read, "/proc/self/environ")

### read the environment of process 1
attempt(read, "/proc/1/environ")

### list processes | outside
attempt(os.listdir, "/proc")

### open own memory through proc | outside
attempt(lambda: open("/proc/self/mem", "rb"))

### leave through another's root
attempt(os.listdir, "/proc/1/root")

### list sys | outside
attempt(os.listdir, "/sys/kernel")

### find a secret in the environment
refused(set(os.environ) <= {"HOME", "TMPDIR", "LANG", "TZ", "PYTHONHASHSEED", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LC_CTYPE"}, dict(os.environ))

### find a secret in the environment of the C library
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ")
seen, i = [], 0
while environ[i]:
    seen.append(environ[i])
    i += 1
refused(not any(b"SECRET" in s or b"HOST" in s for s in seen), seen)

### find host paths in memory
import gc
needles = [n[::-1] for n in BACKWARDS]
mine = {id(needles), id(globals())}
found = []
for o in gc.get_objects():
    items = list(o.values()) if isinstance(o, dict) else o if isinstance(o, (list, tuple)) else ()
    if id(o) not in mine:
        found += [v for v in items if isinstance(v, str) and any(v.startswith(n) for n in needles)]
refused(not found, found[:5])

### devices other than three
refused(set(os.listdir("/dev")) <= {"null", "zero", "urandom", "shm"}, os.listdir("/dev"))

### open devices
for name in ("mem", "kmem", "kmsg", "sda", "vda", "tty", "ptmx", "fuse", "kvm", "loop0", "nvidia0", "nvidiactl", "random"):
    attempt(os.open, "/dev/" + name, os.O_RDONLY)

### make a device
attempt(os.mknod, "/tmp/disk", 0o60000 | 0o600, os.makedev(254, 0))
attempt(os.mknod, "/tmp/null", 0o20000 | 0o600, os.makedev(1, 3))
attempt(os.mkfifo, "/tmp/fifo")

### write to the root
attempt(write, "/x")

### write a file of the host | outside
attempt(write, CANARY, "ab")

### append to the host's name
attempt(write, "/etc/hostname", "ab")

### write into the interpreter
attempt(write, os.__file__, "ab")
attempt(write, os.path.dirname(os.__file__) + "/evil.py")

### write beside the devices
attempt(write, "/dev/evil")
attempt(write, "/lib/evil.so")

### change the mode of an interpreter file
attempt(os.chmod, os.__file__, 0o777)

### truncate an interpreter file
attempt(os.truncate, os.__file__, 0)

### remove an interpreter file
attempt(os.unlink, os.__file__)

### remove a mount point
attempt(os.rmdir, "/tmp")
attempt(os.rename, "/tmp", "/tmp2")

### load a library from the scratch directory
import shutil
source = next(m.__file__ for m in list(sys.modules.values()) if (getattr(m, "__file__", None) or "").endswith(".so"))
shutil.copyfile(source, "/tmp/evil.so")
attempt(ctypes.CDLL, "/tmp/evil.so")

### open by handle
attempt(call, 304 if AMD64 else 265, -100, ctypes.create_string_buffer(128), 0)
attempt(call, 303 if AMD64 else 264, -100, b"/", ctypes.create_string_buffer(128), ctypes.byref(ctypes.c_int()), 0)

### use inherited descriptors
import resource
open_ones = []
for d in range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
    try:
        os.fstat(d)
        open_ones.append(d)
    except OSError:
        pass
refused(not open_ones, open_ones)

### write to every descriptor
import json
for d in list(range(3, 300)):
    try:
        os.write(d, json.dumps({"event": "exit", "id": 1, "status": 0, "cpu": 0}).encode())
        print("ESCAPED: wrote to", d)
    except OSError:
        pass
print("held:")

### standard input leads nowhere
refused(sys.stdin.read() == "", "stdin")

### internet sockets | outside
import socket
attempt(socket.socket, socket.AF_INET, socket.SOCK_STREAM)
attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
attempt(socket.socket, socket.AF_INET6, socket.SOCK_STREAM)

### local sockets | outside
import socket
attempt(socket.socket, socket.AF_UNIX, socket.SOCK_STREAM)
attempt(socket.socket, socket.AF_UNIX, socket.SOCK_DGRAM)

### netlink sockets | outside
import socket
attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0)

### raw, packet, vsock and crypto sockets
import socket
attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
attempt(socket.socket, 17, socket.SOCK_RAW, 3)
attempt(socket.socket, 40, socket.SOCK_STREAM)
attempt(socket.socket, 38, socket.SOCK_SEQPACKET)

### connect a socket pair to an abstract name | outside
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
attempt(a.connect, "\0" + ABSTRACT)

### send from a socket pair to an abstract name | outside
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
attempt(a.sendto, b"got out", "\0" + ABSTRACT)
attempt(a.sendmsg, [b"got out"], [], 0, "\0" + ABSTRACT)

### bind a socket pair to an abstract name | outside
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
attempt(a.bind, "\0evil%d" % os.getpid())

### resolve a name
import socket
attempt(socket.getaddrinfo, "example.org", 80)

### an internet socket pair
import socket
attempt(socket.socketpair, socket.AF_INET, socket.SOCK_STREAM)

### fork | outside
def f():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
attempt(f)

### raw clone and vfork
def f(number, *args):
    pid = call(number, *args)
    if pid == 0:
        os._exit(0)
    return pid
attempt(f, 56 if AMD64 else 220, 17, 0, 0, 0, 0)
if AMD64:
    attempt(f, 57)
    attempt(f, 58)
attempt(f, 435, (ctypes.c_uint64 * 8)(0, 0, 0, 0, 17, 0, 0, 0), 64)

### clone whose flags are numbers of allowed calls
number = 56 if AMD64 else 220
for flags in (17, 72, 16, 157, 0, 1, 9, 0x10000, 0x50000, 0x1003d0f00, 0x3d0f11, 0x103d0f00):
    attempt(call, number, flags, 0, 0, 0, 0)

### double fork to outlive the call
def f():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            import time
            time.sleep(100)
        os._exit(0)
attempt(f)

### shell | outside
import subprocess
attempt(lambda: subprocess.check_output("echo 1", shell=True))

### the interpreter again
import subprocess
attempt(subprocess.check_output, [sys.executable, "-c", "print(1)"])
attempt(os.posix_spawn, sys.executable, [sys.executable, "-c", "1"], {})
attempt(os.execv, sys.executable, [sys.executable, "-c", "print('ESCAPED')"])

### worker processes
import multiprocessing
attempt(lambda: multiprocessing.Pool(2).map(abs, [1]))

### run a file from memory | outside
attempt(os.memfd_create, "evil")

### run a setuid file of its own
open("/tmp/su", "w").write("#!/py/bin/python3\n")
attempt(lambda: os.chmod("/tmp/su", 0o4755) or os.execv("/tmp/su", ["su"]))

### become another user
if os.getuid() == 0 or os.geteuid() == 0:
    print("ESCAPED: user 0")
for f in (os.setuid, os.setgid, os.seteuid, os.setegid):
    attempt(f, 0)
attempt(os.setgroups, [0])
attempt(os.setresuid, 0, 0, 0)

### gain capabilities
attempt(call, 126 if AMD64 else 91, (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6))
attempt(call, 157 if AMD64 else 167, 47, 2, 21, 0, 0)

### change ownership
write("/tmp/f")
attempt(os.chown, "/tmp/f", 0, 0)

### unshare each namespace
for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
    attempt(call, 272 if AMD64 else 97, flag)

### a user namespace by clone
attempt(call, 56 if AMD64 else 220, 0x10000000 | 17, 0, 0, 0, 0)

### enter a namespace
d = os.open("/", os.O_RDONLY)
attempt(call, 308 if AMD64 else 268, d, 0)

### mount
attempt(call, 165 if AMD64 else 40, b"none", b"/tmp", b"tmpfs", 0, None)
attempt(call, 165 if AMD64 else 40, b"proc", b"/tmp", b"proc", 0, None)
attempt(call, 165 if AMD64 else 40, None, b"/", None, 32 | 4096, None)
attempt(call, 165 if AMD64 else 40, b"/", b"/tmp", None, 4096, None)

### unmount
attempt(call, 166 if AMD64 else 39, b"/tmp", 2)
attempt(call, 166 if AMD64 else 39, b"/", 2)

### mount by the newer calls
for number in (428, 429, 430, 432, 433, 442, 467):
    attempt(call, number, -100, b"/", 1, 0, 0)

### chroot and pivot_root
attempt(os.chroot, "/tmp")
attempt(call, 155 if AMD64 else 41, b"/tmp", b"/tmp")

### add a filter or a landlock domain
attempt(call, 317 if AMD64 else 277, 1, 0, None)
attempt(call, 317 if AMD64 else 277, 0, 0, None)
attempt(call, 444, (ctypes.c_uint64 * 1)(1), 8, 0)

### trace
for request in (0, 16, 0x4206):
    attempt(call, 101 if AMD64 else 117, request, 1, 0, 0)

### read another's memory
attempt(call, 310 if AMD64 else 270, os.getpid(), (ctypes.c_uint64 * 2)(), 1, (ctypes.c_uint64 * 2)(), 1, 0)
attempt(call, 311 if AMD64 else 271, os.getpid(), (ctypes.c_uint64 * 2)(), 1, (ctypes.c_uint64 * 2)(), 1, 0)

### processes by descriptor | outside
attempt(call, 434, os.getpid(), 0)

### speak to another call through a shared descriptor
import fcntl
refused(fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND == 0, "flags of descriptor 0")
fcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND)

### steal a descriptor
attempt(call, 438, 3, 0, 0)

### other processes are not there
alive = []
for pid in list(range(2, 5000)):
    try:
        os.kill(pid, 0)
        alive.append(pid)
    except OSError:
        pass
refused(not alive and os.getppid() == 0, alive)

### kill the parent
try:
    os.kill(os.getppid(), 9)
except OSError as e:
    print(e)
print("held:")

### kill everything
import signal
for pid in (-1, 0, 1, -os.getpgrp() if os.getpgrp() else -1):
    for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(pid, sig)
        except OSError as e:
            print(e)
print("held:")

### queue a signal
attempt(call, 129 if AMD64 else 138, 1, 9, ctypes.create_string_buffer(128))

### stop itself | | timeout
import signal, time
print("held:")
os.kill(os.getpid(), signal.SIGSTOP)
while True:
    time.sleep(1)

### ignore every signal | | timeout
import signal, time
for s in range(1, 65):
    try:
        signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("held:")
while True:
    time.sleep(1)

### close everything and spin | | timeout
print("held:")
sys.stdout.flush()
os.closerange(0, 1000)
while True:
    pass

### signal by ownership of a descriptor
import fcntl
r, w = os.pipe()
attempt(fcntl.fcntl, r, fcntl.F_SETOWN, 1)

### die with a signal of its choice later
attempt(call, 157 if AMD64 else 167, 1, 9, 0, 0, 0)

### dump itself
attempt(call, 157 if AMD64 else 167, 4, 1, 0, 0, 0)

### 64 threads and more
import threading, time
made = 0
try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        made += 1
except RuntimeError as e:
    print(e)
refused(made < 64, made)

### memory | | out_of_memory
print("held:")
x = []
while True:
    x.append(bytearray(1 << 24))

### shared anonymous memory
import mmap
def f():
    return [mmap.mmap(-1, 1 << 28) for _ in range(40)]
attempt(f)

### one file mapped many times
import mmap
def f():
    with open("/tmp/big", "wb+") as g:
        g.truncate(1 << 25)
        return [mmap.mmap(g.fileno(), 0) for _ in range(400)]
attempt(f)

### shared memory of System V and of POSIX
attempt(call, 29 if AMD64 else 194, 0, 1 << 30, 0o1600)
attempt(call, 64 if AMD64 else 190, 0, 100, 0o1600)
attempt(call, 68 if AMD64 else 186, 0, 0o1600)
attempt(call, 240 if AMD64 else 180, b"evil", 0o102, 0o600, None)

### secret memory
attempt(call, 447, 0)

### lock memory
attempt(call, 149 if AMD64 else 228, ctypes.create_string_buffer(1 << 20), 1 << 20)
attempt(call, 151 if AMD64 else 230, 3)

### fill the scratch directory
def f():
    n = 0
    for i in range(64):
        with open("/tmp/%d" % i, "wb") as g:
            for _ in range(64):
                g.write(bytes(1 << 20))
                g.flush()
attempt(f)

### one huge file
def f():
    with open("/tmp/huge", "wb") as g:
        os.posix_fallocate(g.fileno(), 0, 1 << 30)
attempt(f)

### a sparse huge file
attempt(lambda: (open("/tmp/f", "wb").close(), os.truncate("/tmp/f", 1 << 40)))

### many files
def f():
    for i in range(100000):
        open("/tmp/%d" % i, "w").close()
attempt(f)

### deep directories | | ok or timeout
print("held:")
def f():
    os.chdir("/tmp")
    for i in range(100000):
        os.mkdir("d")
        os.chdir("d")
attempt(f)

### many descriptors
def f():
    return [os.open("/dev/null", os.O_RDONLY) for _ in range(100000)]
attempt(f)

### many wide pipes
import fcntl
def f():
    held = []
    for _ in range(10000):
        r, w = os.pipe()
        held += [r, w]
        fcntl.fcntl(w, 1031, 1 << 20)
attempt(f)

### many locks
import fcntl
g = open("/tmp/locked", "wb")
attempt(fcntl.lockf, g, fcntl.LOCK_EX, 1, 0)

### lock an interpreter file
import fcntl
attempt(fcntl.flock, os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX)

### read past the page cache
import fcntl
attempt(os.open, os.__file__, os.O_RDONLY | os.O_DIRECT)
attempt(fcntl.fcntl, os.open(os.__file__, os.O_RDONLY), fcntl.F_SETFL, os.O_DIRECT)
attempt(call, 257 if AMD64 else 56, -100, os.__file__.encode(), os.O_DIRECT, 0)

### extended attributes
write("/tmp/f")
attempt(os.setxattr, "/tmp/f", "user.x", b"y" * 1000)

### many timers
attempt(call, 222 if AMD64 else 107, 0, None, ctypes.byref(ctypes.c_int()))

### raise a limit
import resource
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
attempt(resource.setrlimit, resource.RLIMIT_AS, (hard * 2, hard * 2))
attempt(resource.setrlimit, resource.RLIMIT_NPROC, (10000, 10000))
attempt(resource.setrlimit, resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
attempt(resource.prlimit, 1, resource.RLIMIT_AS)

### take priority
attempt(os.nice, -20)
attempt(os.sched_setaffinity, 0, {0})
attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))

### 10**9 bytes of output | | output_limit
print("held:")
b = b"x" * (1 << 20)
while True:
    os.write(1, b)

### 10**9 bytes of errors | | output_limit
print("held:")
b = b"x" * (1 << 20)
while True:
    os.write(2, b)

### deep recursion in C | | crashed or ok
print("held:")
sys.stdout.flush()
sys.setrecursionlimit(1 << 30)
import ctypes
F = ctypes.CFUNCTYPE(None)
def f():
    F(f)()
f()

### bpf
attempt(call, 321 if AMD64 else 280, 0, (ctypes.c_uint64 * 16)(), 128)

### io_uring
attempt(call, 425, 8, ctypes.create_string_buffer(256))
attempt(call, 426, 3, 1, 0, 0, None, 0)
attempt(call, 427, 3, 0, None, 0)

### userfaultfd
attempt(call, 323 if AMD64 else 282, 1)

### keyrings
attempt(call, 250 if AMD64 else 219, 0, -3, 1, 0, 0)
attempt(call, 248 if AMD64 else 217, b"user", b"x", b"y", 1, -3)
attempt(call, 249 if AMD64 else 218, b"user", b"x", None, -3)

### performance events
attempt(call, 298 if AMD64 else 241, (ctypes.c_uint64 * 16)(), 0, -1, -1, 0)

### kernel modules and images
for number in ((175, 313, 176, 246, 320, 169, 167, 168, 163) if AMD64 else (105, 273, 106, 104, 294, 142, 224, 225, 89)):
    attempt(call, number, 0, 0, 0, 0, 0)

### the kernel's log
attempt(call, 103 if AMD64 else 116, 3, ctypes.create_string_buffer(4096), 4096)

### set the clock
import time
attempt(time.clock_settime, time.CLOCK_REALTIME, 0)
attempt(call, 159 if AMD64 else 171, ctypes.create_string_buffer(512))

### set the host's name
import socket
attempt(socket.sethostname, "evil")

### ports and segment tables
if AMD64:
    attempt(call, 172, 3)
    attempt(call, 173, 0, 1, 1)
    attempt(call, 154, 0, ctypes.create_string_buffer(64), 64)
print("held:")

### change the personality
attempt(call, 135 if AMD64 else 92, 0x0400000)

### watch files
attempt(call, 294 if AMD64 else 26, 0)
attempt(call, 300 if AMD64 else 262, 0, 0)

### move or bind pages
attempt(call, 279 if AMD64 else 239, 0, 1, (ctypes.c_uint64 * 1)(), (ctypes.c_int * 1)(), (ctypes.c_int * 1)(), 0)
attempt(call, 237 if AMD64 else 235, 0, 4096, 0, None, 0, 0)

### splice and tee
r, w = os.pipe()
attempt(call, 275 if AMD64 else 76, r, None, w, None, 1, 0)
attempt(call, 278 if AMD64 else 75, w, (ctypes.c_uint64 * 2)(), 1, 0)

### move pages of a file through a pipe
r, w = os.pipe()
attempt(os.sendfile, w, os.open(os.__file__, os.O_RDONLY), 0, 100)

### out-of-band bytes
import socket
a, b = socket.socketpair()
attempt(a.send, b"x", socket.MSG_OOB)
attempt(b.recv, 1, socket.MSG_OOB)

### futexes with priority inheritance
word = ctypes.c_uint32(0)
for operation in (6, 7, 8, 11, 12, 13, 4, 5):
    attempt(call, 202 if AMD64 else 98, ctypes.byref(word), operation, 1, None, None, 0)

### type into a terminal
import fcntl, termios
attempt(fcntl.ioctl, 1, termios.TIOCSTI, b"x")
attempt(fcntl.ioctl, 0, 0x541C, b"x")

### every system call with zeros, none reaches the host
# 335 and 336 belong to the kernel's probes: no filter is asked, and they are fatal by themselves
skip = {0, 15, 34, 35, 7, 23, 270, 271, 230, 60, 231, 61, 247, 202, 232, 281, 130, 128, 1, 3, 11, 12, 9, 10, 219, 24, 335, 336} if AMD64 else {93, 94, 63, 64, 139, 98, 222, 215, 214, 226, 133, 137, 72, 73, 101, 115, 95, 260, 57, 436, 128, 22}
allowed = []
for number in range(0, 600):
    if number in skip or number == 436:
        continue
    try:
        call(number, 0, 0, 0, 0, 0, 0)
        allowed.append(number)
    except OSError:
        pass
dangerous = ({101, 165, 166, 155, 161, 175, 176, 246, 272, 308, 310, 311, 313, 321, 323, 425, 428, 430, 438, 56, 57, 58, 59, 41, 42, 49} if AMD64 else {117, 40, 39, 41, 51, 105, 97, 268, 220, 221, 198})
refused(not dangerous & set(allowed), sorted(allowed))

### system calls of 32 bits | | crashed
import mmap
print("held:")
sys.stdout.flush()
if not AMD64:
    os.kill(os.getpid(), 9)
    ctypes.string_at(0)
m = mmap.mmap(-1, 4096, prot=7)
m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
print("ESCAPED:", ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())

### system calls of x32 | | crashed
print("held:")
sys.stdout.flush()
if not AMD64:
    ctypes.string_at(0)
attempt(call, 0x40000000 + 39)

### forge the end
print("held:")
print('{"event": "exit", "id": 1, "status": 0}')
print("killed: it ran longer than 1s", file=sys.stderr)
sys.stdout.flush()
os._exit(0)

### reach the runner from the frames
seen = []
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_globals.items()):
        if type(value).__name__ in ("socket", "FileIO", "SocketIO"):
            try:
                value.send(b'{"event": "failed", "text": "forged"}')
                seen.append(name)
            except (OSError, AttributeError):
                pass
    frame = frame.f_back
refused(not seen, seen)

### reach the runner from every object
import gc, socket
seen = []
for o in gc.get_objects():
    if isinstance(o, socket.socket):
        try:
            o.send(b'{"event": "failed", "text": "forged"}')
            seen.append(o)
        except OSError:
            pass
refused(not seen, seen)

### replace what runs at the end
os._exit = lambda code: None
sys.excepthook = None
import traceback
traceback.print_exception = None
print("held:")

### change the interpreter for the next call
import math, builtins
builtins.print("held:")
math.pi = 3
builtins.len = None
open("/tmp/left", "w").write("x")
sys.modules["json"] = None

### keep a thread beyond the end
import threading, time
threading.Thread(target=lambda: [time.sleep(1) for _ in iter(int, 1)], daemon=True).start()
print("held:")
