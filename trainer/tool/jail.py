# Runs once, as process 1 of fresh namespaces, still on the host's root: builds the root that programs see,
# moves into it, gives up every privilege and starts the server in it. No program has been seen yet.
import json
import socket

control = socket.socket(fileno=4)


def mount(what, source, target, kind, flags, options=None):
    encode = lambda s: None if s is None else s.encode()
    call(what, "mount", encode(source), encode(target), encode(kind), flags, encode(options))


def restrict(target, bits, recursive=0):
    attributes = (ctypes.c_uint64 * 4)(bits, 0, 0, 0)
    call("make " + target + " read-only", "mount_setattr", AT_FDCWD, target.encode(), recursive, attributes, 32)


def build_root():
    mount("keep mounts private", None, "/", None, MS_REC | MS_PRIVATE)
    mount("mount a new root", "root", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=512,mode=755")
    os.chdir("/proc")
    os.mkdir("old")
    call("enter the new root", "pivot_root", b".", b"old")
    os.chdir("/")
    for entry in config["mounts"]:
        place(entry)
    proc = open_proc()
    call("leave the host's root", "umount2", b"/old", MNT_DETACH)
    os.rmdir("/old")
    os.mkdir("/tmp")
    os.symlink("/tmp", "/dev/shm")
    restrict("/", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC)
    return proc


def place(entry):
    target = entry["target"]
    if entry["kind"] == "mask":
        mount("hide " + target, "mask", target, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=555")
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if entry["kind"] == "directory":
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))
    mount("mount " + target, "/old" + entry["source"], target, None, MS_BIND | MS_REC)
    device = entry["kind"] == "device"
    restrict(target, ATTR_RDONLY | ATTR_NOSUID | (ATTR_NOEXEC if device else ATTR_NODEV), AT_RECURSIVE)


# The server writes user maps through this descriptor; /proc itself is in no tree that a program sees.
def open_proc():
    os.mkdir("/proc")
    mount("mount proc", "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    call("hide proc", "umount2", b"/proc", MNT_DETACH)
    os.rmdir("/proc")
    return proc


def give_up_privileges():
    for capability in range(config["last_capability"] + 1):
        call("drop capability %d" % capability, "prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    set_secure_bits()
    if config["two_ids"]:  # 0 was only needed to reach an interpreter that others may not read
        os.setgroups([])
        inside = config["inside"]
        os.setresgid(inside, inside, inside)
        os.setresuid(inside, inside, inside)
    clear_capabilities()


def start_server(proc):
    server = config["server"]
    held = os.memfd_create("config")
    os.write(held, json.dumps(server).encode())
    os.lseek(held, 0, os.SEEK_SET)
    held, proc = os.dup(held), os.dup(proc)
    for source, target in ((held, 3), (proc, 5)):
        os.dup2(source, target)
    call("close descriptors", "close_range", 6, 0x7FFFFFFF, 0)
    os.set_inheritable(4, True)
    os.execve(config["python"], config["arguments"], config["environment"])


try:
    socket.sethostname("sandbox")
    root_proc = build_root()
    give_up_privileges()
    start_server(root_proc)
except BaseException as error:
    control.send(json.dumps({"event": "refused", "text": message_of(error)}).encode())
    os._exit(1)
