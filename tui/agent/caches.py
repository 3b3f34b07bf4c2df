"""Where the known frameworks keep what they build and download, for one process: its environment, its home, its root.

The defaults are those of torch 2.13 (``torch/_appdirs.py``, ``utils/cpp_extension.py``, ``_inductor``), Triton 3.5,
huggingface_hub 1.2, flashinfer 0.5, DeepGEMM 2.1, vLLM 0.33 and SGLang 0.5.23.
"""

import os

from . import procfs
from .procfs import text

ANCESTORS = 8
LINKS = 16

_PLACES = (
    ("torch_extensions", "TORCH_EXTENSIONS_DIR", "{cache}/torch_extensions", 3),
    ("inductor", "TORCHINDUCTOR_CACHE_DIR", "{tmp}/torchinductor_{user}", 2),
    ("triton", "TRITON_CACHE_DIR", "{triton}/.triton/cache", 1),
    ("huggingface", "HF_HUB_CACHE", "{hf}/hub/.locks", 2),
    ("flashinfer", "", "{flashinfer}/.cache/flashinfer", 5),
    ("deep_gemm", "DG_JIT_CACHE_DIR", "{home}/.deep_gemm", 3),
    ("vllm", "VLLM_CACHE_ROOT", "{cache}/vllm", 3),
    ("sglang", "SGLANG_CACHE_DIR", "{cache}/sglang", 3),
    ("aiter", "AITER_JIT_DIR", "{home}/.aiter", 3),
    ("temporary", "", "{tmp}", 1),
)
"""(name, the variable that moves it, where it is otherwise, how deep locks lie in it)"""


class Place:
    """A folder as its processes see it (``path``), as the agent reaches it (``reached``), how deep to look, and whose
    environment leads there (``pids``)."""

    def __init__(self, name: str, path: str, reached: str, depth: int, pid: int):
        self.name, self.path, self.reached, self.depth = name, path, reached, depth
        self.pids = [pid]


def places(pid: int) -> "list[Place]":
    """The cache folders of a process that exist; raises nothing: what cannot be read is left out."""
    env = environment(pid)
    root = root_of(pid)
    home = env.get("HOME") or _home(pid, root)
    tmp = env.get("TMPDIR") or "/tmp"
    cache = env.get("XDG_CACHE_HOME") or home + "/.cache"
    words = {
        "home": home,
        "tmp": tmp,
        "cache": cache,
        "user": env.get("USER") or env.get("LOGNAME") or "root",
        "triton": env.get("TRITON_HOME") or home,
        "hf": env.get("HF_HOME") or cache + "/huggingface",
        "flashinfer": env.get("FLASHINFER_WORKSPACE_BASE") or home,
    }
    found: "list[Place]" = []
    for name, variable, usual, depth in _PLACES:
        moved = env.get(variable) if variable else None
        if moved and name == "huggingface":
            moved += "/.locks"
        path = os.path.normpath(moved or usual.format(**words))
        reached = inside(root, path)
        if path.startswith("/") and os.path.isdir(reached):
            found.append(Place(name, path, reached, depth, pid))
    return found


def environment(pid: int) -> "dict[str, str]":
    """The environment that the process started with or, where its title overwrote it, that of its nearest ancestor."""
    for _ in range(ANCESTORS):
        try:
            raw = procfs.read_all("/proc/%d/environ" % pid, 1 << 18)
        except OSError:
            return {}
        pairs = [text(part).partition("=") for part in raw.split(b"\0") if b"=" in part]
        if pairs:
            return {name: value for name, _, value in pairs}
        now = procfs.stat(pid)
        if now is None or now.ppid <= 1:
            break
        pid = now.ppid
    return {}


def root_of(pid: int) -> str:
    """What to put before a path of the process: nothing where it sees the same files as the agent."""
    folder = "/proc/%d/" % pid
    try:
        if os.readlink(folder + "ns/mnt") == os.readlink("/proc/self/ns/mnt") and os.readlink(folder + "root") == "/":
            return ""
    except OSError:
        return ""
    return folder + "root"


def inside(root: str, path: str) -> str:
    """``path`` as seen below ``root``: the kernel would resolve absolute links in it against the agent's own root."""
    if not root:
        return path
    done, left = "", [part for part in path.split("/") if part]
    for _ in range(LINKS + 64):
        if not left:
            break
        part = left.pop(0)
        try:
            target = os.readlink("%s%s/%s" % (root, done, part))
        except OSError:
            done += "/" + part
            continue
        left = [piece for piece in target.split("/") if piece] + left
        if target.startswith("/"):
            done = ""
    return root + done


def _home(pid: int, root: str) -> str:
    """From the passwd file that the process sees."""
    try:
        uid = str(os.stat("/proc/%d" % pid).st_uid)
        for line in text(procfs.read_all(inside(root, "/etc/passwd"))).split("\n"):
            fields = line.split(":")
            if len(fields) > 5 and fields[2] == uid:
                return fields[5]
    except OSError:
        pass
    return "/root"
