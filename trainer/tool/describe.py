# Run by the machine's interpreter as its user: says where its own files and the offered packages are.
import importlib.util
import json
import os
import re
import sys


def paths_of(name):
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None or not spec.origin or not os.path.exists(spec.origin):
        return []
    if not spec.submodule_search_locations:
        return [spec.origin]
    place = list(spec.submodule_search_locations)[0]
    beside = place + ".libs"  # shared libraries that a wheel brings along
    return [place] + ([beside] if os.path.isdir(beside) else [])


def requirements(name):
    try:
        from importlib.metadata import requires
        wanted = requires(name) or []
    except Exception:
        return []
    return [re.match(r"[A-Za-z0-9_.-]+", w).group().replace("-", "_") for w in wanted if "extra ==" not in w]


def packages(names):
    found, missing, queue = {}, [], list(names)
    while queue:
        name = queue.pop(0)
        if name in found:
            continue
        found[name] = paths_of(name)
        if not found[name] and name in names:
            missing.append(name)
        queue += requirements(name) if found[name] else []
    return {n: p for n, p in found.items() if p}, missing


def lacking():
    for name in ("ctypes", "resource", "select", "socket"):
        try:
            importlib.import_module(name)
        except ImportError:
            return name
    return ""


stdlib = os.path.dirname(os.path.realpath(os.__file__))
dynload = [p for p in sys.path if os.path.basename(p) == "lib-dynload" and os.path.isdir(p)]
found, missing = packages(sys.argv[1:])
print(json.dumps({
    "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "version": list(sys.version_info[:3]),
    "name": "python%d.%d" % sys.version_info[:2],
    "lib": getattr(sys, "platlibdir", "lib"),
    "stdlib": stdlib,
    "dynload": os.path.realpath(dynload[0]) if dynload else "",
    "packages": found,
    "missing": missing,
    "lacking": lacking(),
}))
