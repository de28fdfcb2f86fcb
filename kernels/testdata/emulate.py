"""Runs the AVX-512 loops of package kernels in an emulator and compares them with the plain Go bodies, bit for bit.

In a virtual environment with bochscpu-python==0.4.0 and numpy, beside binutils, in the folder of package kernels:

    CGO_ENABLED=0 go test -c -o kernels.test .
    EMULATE=cases ./kernels.test -test.run TestEmulate
    python testdata/emulate.py kernels.test cases

(The wheel wants glibc 2.38 or newer.)

The test binary is laid into the memory of an emulated processor in 64-bit mode, and its function emulate is called once
per case. Every array ends where its page ends and the next page is missing, so that a read or write past it is caught.
"""

import ctypes
import mmap
import re
import struct
import subprocess
import sys
import tempfile

import bochscpu
import bochscpu.cpu
import bochscpu.memory
import numpy as np

PAGE = 4096
RAM = 192 << 20
XCR0 = 0xE7  # x87, SSE, AVX, AVX-512
STACK, G, FS, STOP, ARGS, TABLES, STUBS, HEAP = (
    0x5000000, 0x5100000, 0x5102000, 0x5104000, 0x5106000, 0x5200000, 0x5800000, 0x6000000,
)


class Machine:
    def __init__(self):
        self.ram = mmap.mmap(-1, RAM)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.ram))
        self.next_table = TABLES
        self.known = set()
        self.pml4 = self.table()
        self.fault = None
        self.session = bochscpu.Session()  # one for all: freeing a session fails
        self.session.missing_page_handler = lambda gpa: self.stop(f"missing page {gpa:#x}")
        self.hook = bochscpu.Hook()
        self.hook.hlt = lambda session, cpu: self.stop(None)
        self.hook.exception = lambda session, cpu, vector, error: self.stop(
            f"exception {vector} error {error:#x} at {session.cpu.rip:#x}, address {session.cpu.state.cr2:#x}"
        )

    def know(self, at):
        if at not in self.known:
            bochscpu.memory.page_insert(at, self.base + at)
            self.known.add(at)

    def table(self):
        t = self.next_table
        self.next_table += PAGE
        self.know(t)
        return t

    def entry(self, table, i):
        return struct.unpack_from("<Q", self.ram, table + 8 * i)[0]

    def map(self, va, size):
        """Makes the pages of [va, va+size) present, each at the physical address of its virtual one."""
        for page in range(va & -PAGE, (va + size + PAGE - 1) & -PAGE, PAGE):
            self.know(page)
            table = self.pml4
            for shift in (39, 30, 21):
                i = page >> shift & 511
                if not self.entry(table, i):
                    struct.pack_into("<Q", self.ram, table + 8 * i, self.table() | 7)
                table = self.entry(table, i) & -PAGE
            struct.pack_into("<Q", self.ram, table + 8 * (page >> 12 & 511), page | 7)

    def unmap(self, va, size):
        for page in range(va & -PAGE, (va + size + PAGE - 1) & -PAGE, PAGE):
            table = self.pml4
            for shift in (39, 30, 21):
                table = self.entry(table, page >> shift & 511) & -PAGE
            struct.pack_into("<Q", self.ram, table + 8 * (page >> 12 & 511), 0)

    def write(self, va, data):
        self.ram[va : va + len(data)] = bytes(data)

    def call(self, pc, arg):
        s = bochscpu.State()
        bochscpu.cpu.set_long_mode(s)
        s.cr0 = s.cr0 & ~0xC | 2
        s.cr3 = self.pml4
        s.cr4 = s.cr4 | 1 << 5 | 1 << 9 | 1 << 10 | 1 << 18
        s.xcr0 = XCR0
        s.mxcsr, s.mxcsr_mask = 0x1F80, 0xFFFF
        s.rflags = 2
        for name, attr, selector in (("cs", 0x209B, 0x10), ("ss", 0xC93, 0x18), ("ds", 0xC93, 0x18), ("es", 0xC93, 0x18), ("fs", 0xC93, 0x18)):
            seg = bochscpu.Segment()
            seg.base, seg.limit, seg.selector, seg.attr, seg.present = 0, 0xFFFFFFFF, selector, attr, True
            if name == "fs":
                seg.base = FS
            setattr(s, name, seg)
        s.rip, s.rsp, s.rax, s.r14 = pc, STACK - 8, arg, G
        self.write(STACK - 8, struct.pack("<Q", STOP))
        self.write(FS - 8, struct.pack("<Q", G))
        self.session.cpu.state = s
        self.fault = None
        self.session.run([self.hook])
        mxcsr = self.session.cpu.state.mxcsr
        if mxcsr & 0xFFC0 != 0x1F80:
            self.fault = self.fault or f"MXCSR is left at {mxcsr:#x}"
        return self.fault

    def stop(self, fault):
        self.fault = self.fault or fault
        self.session.stop()


def replace_dots(machine, path):
    """The emulated processor has no vdpbf16ps: each becomes a call of a stub that does what Intel's manual says, by two
    FMAs, the odd elements first, with subnormals flushed. What each instruction is, objdump says. zmm30 and zmm31 are
    free in the loops that have it."""
    text = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*vdpbf16ps %zmm(\d+),%zmm(\d+),%zmm(\d+)$", text, re.M)
    stubs = sorted({f[2:] for f in found})
    source = ".text\n"
    for b, a, acc in stubs:
        source += "ldmxcsr flush(%rip)\n"
        for split in ("vpandd high(%rip){1to16}, %zmm", "vpslld $16, %zmm"):
            source += f"{split}{a}, %zmm30\n{split}{b}, %zmm31\nvfmadd231ps %zmm31, %zmm30, %zmm{acc}\n"
        source += "ldmxcsr plain(%rip)\nret\n.balign 128\n"
    source += "flush: .long 0x9fc0\nplain: .long 0x1f80\nhigh: .long 0xffff0000\n"
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["as", "-o", f"{d}/stubs.o", "-"], input=source, text=True, check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", f"{d}/stubs.o", f"{d}/stubs"], check=True)
        code = open(f"{d}/stubs", "rb").read()
    machine.map(STUBS, len(code))
    machine.write(STUBS, code)
    for at, raw, b, a, acc in found:
        at, stub = int(at, 16), STUBS + 128 * stubs.index((b, a, acc))
        assert len(raw.split()) == 6
        machine.write(at, b"\xe8" + struct.pack("<i", stub - at - 5) + b"\x90")
    return len(found)


def load(machine, path):
    """Lays the binary's segments into memory and returns its symbols."""
    elf = open(path, "rb").read()
    phoff, shoff = struct.unpack_from("<QQ", elf, 32)
    phsize, phnum, shsize, shnum = struct.unpack_from("<HHHH", elf, 54)
    for i in range(phnum):
        kind, _, off, va, _, filesz, memsz, _ = struct.unpack_from("<IIQQQQQQ", elf, phoff + i * phsize)
        if kind == 1:
            machine.map(va, min(memsz, filesz + (1 << 20)))
            machine.write(va, elf[off : off + filesz])
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, shoff + i * shsize) for i in range(shnum)]
    symbols = {}
    for _, kind, _, _, off, size, link, *_ in sections:
        if kind == 2:
            names = sections[link][4]
            for at in range(off, off + size, 24):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
                end = elf.index(b"\0", names + name)
                symbols[elf[names + name : end].decode()] = value
    return symbols


def main(binary, cases):
    m = Machine()
    entry = load(m, binary)["tandem/kernels.emulate"]
    print(f"{replace_dots(m, binary)} vdpbf16ps")
    for va, size in ((STACK - (1 << 19), 1 << 19), (G, PAGE), (FS - PAGE, PAGE), (STOP, PAGE), (ARGS, PAGE)):
        m.map(va, size)
    m.write(STOP, b"\xf4")
    data, at, n, bad = open(cases, "rb").read(), 0, 0, 0
    while at < len(data):
        head = struct.unpack_from("<13q", data, at)
        at += 13 * 8
        kind, chain, ldd, lda, ldb, M, N, K, *lens = head
        slices, place, mapped = b"", HEAP, []
        for size, length in zip((4, 4, 4, 2, 2), lens):
            pages = -(-size * length // PAGE)
            start = place + pages * PAGE - size * length
            if length:
                m.map(place, pages * PAGE)
                m.write(place, bytes(pages * PAGE))
                m.write(start, data[at : at + size * length])
                mapped.append((place, pages * PAGE))
            slices += struct.pack("<QQQ", start, length, length)
            at += size * length
            place += (pages + 1) * PAGE
        want = np.frombuffer(data, np.uint32, lens[0], at)
        at += 4 * lens[0]
        m.write(ARGS, struct.pack("<qq", kind, chain) + slices + struct.pack("<6q", ldd, lda, ldb, M, N, K))
        dst = struct.unpack_from("<Q", slices)[0]
        fault = m.call(entry, ARGS)
        got = np.frombuffer(m.ram[dst : dst + 4 * lens[0]], np.uint32)
        nan = lambda x: (x & 0x7FFFFFFF) > 0x7F800000
        wrong = np.flatnonzero((got != want) & ~(nan(got) & nan(want)))
        if fault or len(wrong):
            bad += 1
            i = wrong[0] if len(wrong) else 0
            print(
                f"case {n}: loops {kind} {'chain' if chain else 'dots'} M {M} N {N} K {K}: {fault or ''} "
                f"{len(wrong)} of {lens[0]} wrong, the first at {i}: {got[i]:#010x}, want {want[i]:#010x}"
            )
        for va, size in mapped:
            m.unmap(va, size)
        n += 1
    print(f"{n} cases, {bad} wrong")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
