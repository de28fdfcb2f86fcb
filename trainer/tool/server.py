# Lives in the jail with every import done, and for each call makes a process in namespaces of its own that locks
# itself in before it reads the program. It never sees a program and never speaks to one: what it tells the runner
# comes from the kernel.
import gc
import importlib
import json
import random
import resource
import select
import shutil
import signal
import socket

HERE = "sandbox"
PROC = 5
RULE_PATH_BENEATH = 1
EXECUTE, WRITE, READ, READ_DIR = 1, 2, 4, 8
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG, MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
REFER, TRUNCATE = 1 << 13, 1 << 14
SCRATCH_RIGHTS = WRITE | READ | READ_DIR | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER | TRUNCATE
FILE_RIGHTS = EXECUTE | WRITE | READ | TRUNCATE


def tell(**event):
    control.send(json.dumps(event).encode())


def load_packages():
    sys.path[:] = config["path"]
    found = {}
    for name in config["packages"]:
        found[name] = str(getattr(importlib.import_module(name), "__version__", ""))
    for name in config["warm"]:
        importlib.import_module(name)
    return found


def address_space():
    with open(os.open("self/statm", os.O_RDONLY, dir_fd=PROC)) as f:
        return int(f.read().split()[0]) * resource.getpagesize()


# A fork copies one page table entry for each 4 KiB page of the heap, or one for each 2 MiB page: half the cost of a call.
def huge_pages():
    size = 2 << 20
    with open(os.open("self/maps", os.O_RDONLY, dir_fd=PROC)) as f:
        lines = f.read().splitlines()
    for line in lines:
        fields = line.split()
        begin, end = (int(x, 16) for x in fields[0].split("-"))
        begin, end = (begin + size - 1) // size * size, end // size * size
        if "w" in fields[1] and (len(fields) == 5 or fields[5] == "[heap]") and begin < end:
            for at in range(begin, end, size):
                libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), MADV_COLLAPSE)  # a refusal only costs time


def serve():
    children = {}  # descriptor of a process: (id, pid)
    poll = select.poll()
    poll.register(control.fileno(), select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready != control.fileno():
                reap(poll, ready, *children.pop(ready))
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 4096, 8)
            if not message:
                os._exit(0)  # the runner is gone
            number = json.loads(message)["id"]
            pid, held = spawn(number, descriptors)
            children[held] = number, pid
            poll.register(held, select.POLLIN)


def reap(poll, held, number, pid):
    _, status, usage = os.wait4(pid, 0)
    poll.unregister(held)
    os.close(held)
    if SCRATCH:
        remove_scratch(number)
    tell(event="exit", id=number, status=status, cpu=usage.ru_utime + usage.ru_stime)


# The server has one thread, which holds the interpreter's lock over the call: the copy is whole as it is. What the interpreter
# does after its own fork, for threads that are gone and for random seeds, would be a sixth of a call.
def spawn(number, descriptors):
    held = ctypes.c_int(-1)
    pid = libc.syscall(ctypes.c_long(config["calls"]["clone"]), ctypes.c_long(config["clone_flags"]), None, ctypes.byref(held), None, None)
    failure = ctypes.get_errno()
    if pid == 0:
        child(number, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    if pid < 0:
        tell(event="failed", text="start a process: " + os.strerror(failure))
        os._exit(1)
    socket.send_fds(control, [json.dumps({"event": "spawned", "id": number}).encode()], [held.value])
    return pid, held.value


def child(number, descriptors):
    try:
        arrange(number, descriptors)
        lock_in()
        os.write(2, b"R")
        source = read_all(3)
        os.close(3)
    except BaseException as error:
        os.write(2, b"E" + message_of(error).encode())
        os._exit(1)
    random.seed(0)  # the interpreter seeds it anew after a fork
    run_program(source.decode("utf-8", "replace"))


# What still needs privileges over the process's own namespaces, and the descriptors: 0 empty, 1 and 2 out, 3 the program.
def arrange(number, descriptors):
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    for source, target in zip(descriptors, (3, 1, 2)):
        os.dup2(source, target)
    os.setsid()  # else kill(0) reaches the server and the other calls, whatever the process namespace
    write_proc("oom_score_adj", b"1000")
    if config["namespaces"]:
        write_proc("setgroups", b"deny")
        write_proc("uid_map", b"%d %d 1" % (config["inside"], UID))
        write_proc("gid_map", b"%d %d 1" % (config["inside"], GID))
        call("mount the scratch directory", "mount", b"scratch", b"/tmp", b"tmpfs",
             MS_NOSUID | MS_NODEV | MS_NOEXEC, SCRATCH_OPTIONS)
        os.chdir("/tmp")
    else:
        call("die with the server", "prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.mkdir(SCRATCH + str(number), 0o700)
        os.chdir(SCRATCH + str(number))


def write_proc(name, text):
    descriptor = os.open("self/" + name, os.O_WRONLY, dir_fd=PROC)
    os.write(descriptor, text)
    os.close(descriptor)


def lock_in():
    for kind, value in LIMITS:
        resource.setrlimit(kind, (value, value))
    call("hide from tracers", "prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    if config["namespaces"]:
        set_secure_bits()
    clear_capabilities()
    if RULESET:
        RULESET.enter()
    call("close descriptors", "close_range", 4, 0x7FFFFFFF, 0)
    if config["filter"]:
        set_filter(FILTER)


def set_filter(program):
    call("set the system call filter", "seccomp", 1, 0, program)


class PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32)]


class Ruleset:
    """What landlock is asked for: everything that this version of it knows is denied but for the rules."""

    def __init__(self, abi):
        self.rights = (1 << (13, 14, 15, 15, 16)[min(abi, 5) - 1]) - 1
        self.attributes = (ctypes.c_uint64 * 3)(self.rights, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
        self.quiet = 1 if abi >= 7 else 0  # a program must not fill the host's audit log
        self.size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        self.rules = [self.rule(path, READ | READ_DIR) for path in config["readable"]]
        self.rules += [self.rule(path, READ | WRITE) for path in ("/dev/null", "/dev/zero")]
        self.scratch = PathBeneath(SCRATCH_RIGHTS & self.rights, -1)

    def rule(self, path, rights):
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS
        return PathBeneath(rights & self.rights, os.open(path, os.O_PATH))

    def enter(self):
        made = call("make a landlock ruleset", "landlock_create_ruleset", self.attributes, self.size, 0)
        self.scratch.descriptor = os.open(".", os.O_PATH)
        for rule in self.rules + [self.scratch]:
            call("add a landlock rule", "landlock_add_rule", made, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
        call("enter landlock", "landlock_restrict_self", made, self.quiet)


def remove_scratch(number):
    shutil.rmtree(SCRATCH + str(number), ignore_errors=True)


def read_all(descriptor):
    parts = []
    while True:
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


class Program(ctypes.Structure):  # struct sock_fprog
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.c_void_p)]


def filter_program(name):
    code = bytes.fromhex(config[name])
    held = ctypes.create_string_buffer(code, len(code))
    return held, Program(len(code) // 8, ctypes.addressof(held))


def limits():
    memory = config["memory"] + address_space()
    tasks = [(resource.RLIMIT_NPROC, config["tasks"])] if config["namespaces"] else []  # else it counts the user's others
    return tasks + [(resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, config["cpu_seconds"]),
            (resource.RLIMIT_FSIZE, config["scratch"]), (resource.RLIMIT_NOFILE, config["files"]),
            (resource.RLIMIT_CORE, 0), (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0), (resource.RLIMIT_SIGPENDING, 64), (resource.RLIMIT_STACK, 8 << 20)]


def settle():
    os.environ.clear()
    os.environ.update(config["seen"])
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    sys.stdout.reconfigure(line_buffering=True)  # what was printed before a limit struck is not lost
    sys.dont_write_bytecode = True
    random.seed(0)
    os.umask(0o077)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 3)  # keeps 3 taken, so that a call's descriptors come after 5
    gc.collect()
    gc.freeze()
    if len(os.listdir(os.open("self/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=PROC))) > 1:
        raise RuntimeError("a package has started a thread: no copy of this process would be whole")
    huge_pages()


UID, GID = os.geteuid(), os.getegid()
SCRATCH = config["scratch_path"]
SCRATCH_OPTIONS = b"size=%d,nr_inodes=%d,mode=700" % (config["scratch"], config["inodes"])
control = socket.socket(fileno=4)
control.set_inheritable(False)
try:
    versions = load_packages()
    settle()
    LIMITS = limits()
    RULESET = Ruleset(config["landlock"]) if config["landlock"] else None
    CODE, PROGRAM = filter_program("filter")
    FILTER = ctypes.byref(PROGRAM)
    SERVER_CODE, SERVER_PROGRAM = filter_program("server_filter")
    if config["filter"]:
        set_filter(ctypes.byref(SERVER_PROGRAM))
    tell(event="ready", versions=versions)
except BaseException as error:
    tell(event="failed", text="prepare the interpreter: " + message_of(error))
    os._exit(1)
serve()
