"""Pickles that hold data and nothing else, read by a machine that knows no other opcodes.

``pickle.Unpickler`` with a ``find_class`` that refuses would run no code either, but it reserves what a hostile file
asks for: a memo of 2^32 entries, bytes of any length, integer keys that collide. PyTorch writes its flight recorder
with protocol 2 (``torch/csrc/jit/serialization/pickler.cpp``); what Python's own ``pickle`` writes of plain data is
read too. Opcodes as in ``pickletools``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

from tui.errors import GputopError

MOST_BYTES = 64 << 20
MOST_OPCODES = 8_000_000
"""A recorder of 2000 collectives with their frames has 0.3 million."""

_LONGEST_INT = 32
"""Bytes of an integer; thread ids and nanoseconds need 9."""


class BadPickle(GputopError):
    """It is no pickle of plain data, or one beyond the limits; the sentence says which."""


class _Mark:
    pass


_MARK = _Mark()


def loads(data: bytes) -> object:
    """The value in ``data``: dictionaries with string keys, lists, tuples, strings, numbers, booleans, ``None``.

    Raises: BadPickle, nothing else.
    """
    if len(data) > MOST_BYTES:
        raise BadPickle(f"it has {len(data) >> 20} MiB; no flight recorder is larger than {MOST_BYTES >> 20}")
    try:
        return _Machine(data).run()
    except (IndexError, struct.error, ValueError, OverflowError) as error:
        raise BadPickle("it is cut short, or no pickle") from error
    except (TypeError, AttributeError, KeyError) as error:
        raise BadPickle("it is no pickle of plain data") from error


class _Machine:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> object:
        """The opcodes that make up three quarters of a recorder are carried out here, without a call."""
        data, size, stack, memo, operations = self._data, len(self._data), self._stack, self._memo, _OPERATIONS
        number = int.from_bytes
        for _ in range(MOST_OPCODES):
            at = self._at
            code = data[at]
            if code == 0x58:  # BINUNICODE
                begin = at + 5
                end = begin + number(data[at + 1 : begin], "little")
                if end > size:
                    raise IndexError
                stack.append(data[begin:end].decode("utf-8", "replace"))
                self._at = end
            elif code == 0x72:  # LONG_BINPUT
                memo[number(data[at + 1 : at + 5], "little")] = stack[-1]
                self._at = at + 5
            elif code == 0x4B:  # BININT1
                stack.append(data[at + 1])
                self._at = at + 2
            elif code == 0x2E:  # STOP
                value: object = stack.pop()
                return value
            else:
                operation = operations[code]
                if operation is None:
                    raise BadPickle(f"it holds more than data (opcode {code:#04x}); nothing of it was run")
                self._at = at + 1
                operation(self)
        raise BadPickle(f"it has more than {MOST_OPCODES} opcodes")

    # ------------------------------------------------------------------------------------------------------- reading

    def take(self, n: int) -> bytes:
        start = self._at
        if n < 0 or n > len(self._data) - start:
            raise IndexError
        self._at = start + n
        return self._data[start : start + n]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def push(self, value: object) -> None:
        self._stack.append(value)

    def text(self, size: int) -> None:
        self._stack.append(self.take(self.number(size)).decode("utf-8", "replace"))

    def long(self, size: int) -> None:
        n = self.number(size)
        if n > _LONGEST_INT:
            raise ValueError
        self._stack.append(int.from_bytes(self.take(n), "little", signed=True))

    def to_mark(self) -> list[Any]:
        stack = self._stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        items = stack[at + 1 :]
        del stack[at:]
        return items

    # ---------------------------------------------------------------------------------------------------- containers

    def tuple_of(self, n: int) -> None:
        if n > len(self._stack):
            raise IndexError
        items = tuple(self._stack[-n:])
        del self._stack[-n:]
        self._stack.append(items)

    def append(self) -> None:
        value = self._stack.pop()
        self._list().append(value)

    def appends(self) -> None:
        items = self.to_mark()
        self._list().extend(items)

    def setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value])

    def setitems(self) -> None:
        self._set(self.to_mark())

    def dict_of(self) -> None:
        items = self.to_mark()
        self._stack.append({})
        self._set(items)

    def put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def _list(self) -> list[Any]:
        target: object = self._stack[-1]
        if not isinstance(target, list):
            raise TypeError
        return cast("list[Any]", target)

    def _set(self, items: list[Any]) -> None:
        target: object = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise TypeError
        if not all(isinstance(key, str) for key in items[::2]):
            raise TypeError
        cast("dict[str, Any]", target).update(zip(items[::2], items[1::2], strict=True))


def _operations() -> list[Callable[[_Machine], None] | None]:
    table: dict[bytes, Callable[[_Machine], None]] = {
        b"\x80": lambda m: _pass(m.take(1)),  # PROTO
        b"\x95": lambda m: _pass(m.take(8)),  # FRAME
        b"(": lambda m: m.push(_MARK),
        b"N": lambda m: m.push(None),
        b"\x88": lambda m: m.push(True),
        b"\x89": lambda m: m.push(False),
        b"J": lambda m: m.push(struct.unpack("<i", m.take(4))[0]),
        b"M": lambda m: m.push(m.number(2)),
        b"\x8a": lambda m: m.long(1),
        b"\x8b": lambda m: m.long(4),
        b"G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        b"\x8c": lambda m: m.text(1),
        b"\x8d": lambda m: m.text(8),
        b"]": lambda m: m.push([]),
        b"}": lambda m: m.push({}),
        b")": lambda m: m.push(()),
        b"t": lambda m: m.push(tuple(m.to_mark())),
        b"l": lambda m: m.push(m.to_mark()),
        b"\x85": lambda m: m.tuple_of(1),
        b"\x86": lambda m: m.tuple_of(2),
        b"\x87": lambda m: m.tuple_of(3),
        b"a": _Machine.append,
        b"e": _Machine.appends,
        b"s": _Machine.setitem,
        b"u": _Machine.setitems,
        b"d": _Machine.dict_of,
        b"q": lambda m: m.put(m.number(1)),
        b"\x94": _Machine.memoize,
        b"h": lambda m: m.get(m.number(1)),
        b"j": lambda m: m.get(m.number(4)),
    }
    return [table.get(bytes([code])) for code in range(256)]


def _pass(_: bytes) -> None:
    return None


_OPERATIONS = _operations()
