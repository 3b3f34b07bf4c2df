"""Second half of the boot: reads the carried modules from standard input, makes them importable, starts the agent.

The first half (:data:`tui.collect.payload.BOOT`) has read exactly this file; what follows on the pipe is one record a
module (eight digits of length, then name, LF, zlib source), ``00000000``, and then the monitor's first requests. The
agent's own modules come in one record, ``modules``, as a JSON object of names and sources. So it reads with ``os.read``
alone: a byte too many would be a byte lost. Exit code 98: the payload did not arrive whole.
"""

import json
import os
import signal
import sys
import zlib

PACKAGE = "gputop_hang_agent"
FELL_THROUGH = 98
ARRIVES_WITHIN_S = 30


def fall_through(*_: object):
    os._exit(FELL_THROUGH)


def take(size: int) -> bytes:
    whole = bytearray()
    while len(whole) < size:
        piece = os.read(0, size - len(whole))
        if not piece:
            fall_through()
        whole += piece
    return bytes(whole)


def take_all() -> "dict[str, bytes]":
    records: "dict[str, bytes]" = {}
    try:
        size = int(take(8))
        while size:
            name, _, body = take(size).partition(b"\n")
            records[name.decode()] = zlib.decompress(body)
            size = int(take(8))
        modules: "dict[str, str]" = json.loads(records.pop("modules").decode())
        records.update((name, source.encode()) for name, source in modules.items())
    except (KeyError, ValueError, zlib.error):
        fall_through()
    return records


class Carried:
    """Finds carried modules after all others, so that a module is compiled only when it is really imported."""

    sources: "dict[str, bytes]" = {}

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None):
        if name not in cls.sources:
            return None
        return type(sys.__spec__)(name, cls, origin="<%s>" % name, is_package=name == PACKAGE)

    @classmethod
    def create_module(cls, spec: object):
        return None

    @classmethod
    def exec_module(cls, module: "ModuleType"):
        name = module.__name__
        exec(compile(cls.sources[name], "<%s>" % name, "exec"), module.__dict__)


def start():
    signal.signal(signal.SIGALRM, fall_through)
    signal.alarm(ARRIVES_WITHIN_S)
    Carried.sources = take_all()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    sys.meta_path.append(Carried)
    from gputop_hang_agent.main import main  # pyright: ignore

    main(Carried.sources.pop("options"))


TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

start()
