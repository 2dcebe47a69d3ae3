"""A tree in memory: files that are fixed, that grow, that cannot be read, and that take lines."""

from __future__ import annotations

from threading import Event, Lock
from typing import TYPE_CHECKING

from kafkafs.tree import errors as tree_errors
from kafkafs.tree.rendered_run import RenderedRun, RunReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class MemoryLog:
    """The records of a partition."""

    def __init__(self, identity: int, values: list[bytes], refusal: Callable[[], Exception] | None = None) -> None:
        self.identity = identity
        self.values = values
        self.start_offset = 0
        self.refusal = refusal
        self.lock = Lock()
        self.syncs = 0
        self.waiting = 0  # writers for a gate, or readers that began to wait

    def refuse(self) -> None:
        if self.refusal is not None:
            raise self.refusal()


class Held:
    """What a file held when it was opened."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size_bytes(self) -> int | None:
        return len(self._data)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self._data[position : position + size_bytes]

    def read_soon(self, position: int, size_bytes: int) -> bytes | None:
        return self.read(position, size_bytes)

    def close(self) -> None:
        pass


class Growing:
    """All the values of a log, as far as it has come."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def _data(self) -> bytes:
        return b"".join(value + b"\n" for value in self._log.values)

    def size_bytes(self) -> int | None:
        return len(self._data())

    def read(self, position: int, size_bytes: int) -> bytes:
        self._log.refuse()
        return self._data()[position : position + size_bytes]

    def read_soon(self, position: int, size_bytes: int) -> bytes | None:
        return None if position == 0 else self.read(position, size_bytes)

    def close(self) -> None:
        pass


class Unsized(Growing):
    def size_bytes(self) -> int | None:
        return None


class Stuck(Held):
    """A file that cannot be read."""

    def __init__(self) -> None:
        super().__init__(b"never")

    def read(self, position: int, size_bytes: int) -> bytes:
        Event().wait()
        return super().read(position, size_bytes)

    def read_soon(self, position: int, size_bytes: int) -> bytes | None:
        return super().read(position, size_bytes) if position else None


class Endless(RunReading):
    """A file of which no byte is ever made: each step comes to another offset, until `ended`."""

    def __init__(self, log: MemoryLog, ended: Event) -> None:
        self._log = log
        self._ended = ended
        self._steps = 0
        self._rendered = RenderedRun(self._pieces_from)

    def size_bytes(self) -> int | None:
        return None

    def reached(self) -> int | None:
        return self._steps

    def _pieces_from(self, position: int) -> Iterator[tuple[int, bytes]]:
        self._log.waiting += 1
        while not self._ended.wait(0.01):
            self._steps += 1
            yield position, b""


class Lines:
    """Appending lines: whole ones at once, the last one when it is flushed."""

    def __init__(self, log: MemoryLog, gates: Mapping[bytes, Event] | None) -> None:
        self._log = log
        self._gates = gates
        self._rest = b""
        self._receipts = b""

    def write(self, data: bytes) -> None:
        *lines, rest = (self._rest + bytes(data)).split(b"\n")
        if self._gates is not None:
            for line in lines:
                order, name, *_ = line.split(b" ")
                if order == b"open":
                    self._gates[name].set()
                else:
                    self._log.waiting += 1
                    self._gates[name].wait()
        self._log.refuse()
        self._rest = rest
        self._append(lines)

    def _append(self, lines: list[bytes]) -> None:
        if lines:
            with self._log.lock:
                base = self._log.start_offset + len(self._log.values)
                self._log.values += lines
            self._receipts += b"%d..%d\n" % (base, base + len(lines) - 1)

    def read(self, size_bytes: int) -> bytes:
        data, self._receipts = self._receipts[:size_bytes], self._receipts[size_bytes:]
        return data

    def flush(self) -> None:
        rest, self._rest = self._rest, b""
        if rest:
            self._append([rest])

    def sync(self) -> None:
        self._log.syncs += 1

    def close(self) -> None:
        pass


class Number(Lines):
    """Writing a number deletes the records below it."""

    def write(self, data: bytes) -> None:
        try:
            offset = int(data)
        except ValueError:
            raise tree_errors.InvalidInputError("this is no number") from None
        with self._log.lock:
            del self._log.values[: max(offset - self._log.start_offset, 0)]
            self._log.start_offset = max(offset, self._log.start_offset)
