"""A tree in memory that is mounted as a store's is: what the tests of the mount look at, and can hold up or make fail.

Run as a program it mounts itself at a directory and says `ready` on standard output. Lines appended to `gates/0/append`
are orders: `wait NAME` returns when somebody has written `open NAME`, or at SIGUSR1.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from collections import defaultdict
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from memory_files import Endless, Growing, Held, Lines, MemoryLog, Number, Stuck, Unsized

from kafkafs.locator.descent import child
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.offsets import AtOffset, RecordRange
from kafkafs.locator.paths import (
    ConfigPath,
    ControlPath,
    OffsetPath,
    PartitionDirectoryPath,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    StoreFilePath,
    TimePath,
    TopicPath,
)
from kafkafs.locator.views import CONTROL_VIEWS, PARTITION_VIEWS, Kind, View
from kafkafs.tree import errors as tree_errors
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.node import Attributes, Directory, File, Link, WritableFile
from storage import errors as storage_errors
from storage.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.node import Node, Reading, Writing

MODIFIED_MS = 1_700_000_000_123
REFUSALS: tuple[tuple[Callable[[], Exception], int], ...] = (
    (lambda: tree_errors.InvalidInputError("this line is malformed"), errno.EINVAL),
    (lambda: storage_errors.RecordTooLargeError("this record is too large"), errno.EMSGSIZE),
    (lambda: tree_errors.ReadOnlyTreeError("this store is read-only"), errno.EROFS),
    (lambda: storage_errors.DiskFullError("the disk is full"), errno.ENOSPC),
    (lambda: tree_errors.NotPermittedError("this is forbidden"), errno.EPERM),
    (lambda: tree_errors.NotInThisTreeError("this mount has no such thing"), errno.ENOTSUP),
    (lambda: storage_errors.PoisonedLogError("this log is poisoned"), errno.EIO),
    (lambda: tree_errors.DamagedError("this log is damaged"), errno.EIO),
    (lambda: OSError(errno.EDQUOT, "the quota is used up"), errno.EDQUOT),
    (lambda: ZeroDivisionError("nobody foresaw this"), errno.EIO),
)
"""By the number of the partition of the topic `refusing` whose files fail with them."""


class MemoryDirectory(Directory):
    def __init__(
        self, path: TreePath, names: Callable[[], list[str]], *, identity: int = 0, tree: MemoryTree | None = None
    ) -> None:
        super().__init__(path, identity=identity)
        self._names = names
        self._tree = tree

    def attributes(self) -> Attributes:
        return Attributes(modified_ms=MODIFIED_MS)

    def names(self) -> Iterator[str]:
        yield from self._names()

    def make(self, name: str) -> None:
        if self._tree is None:
            return super().make(name)
        if name.startswith("bad"):
            raise tree_errors.InvalidInputError(f"{name} is no topic's name")
        self._tree.add(name, {0: []})
        return None

    def remove(self, name: str) -> None:
        if self._tree is None:
            return super().remove(name)
        del self._tree.logs[name]
        return None


class MemoryFile(File):
    def __init__(
        self,
        path: TreePath,
        reading: Callable[[], Reading],
        *,
        identity: int = 0,
        is_lasting: bool = False,
        xattrs: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__(path, identity=identity)
        self._reading = reading
        self._is_lasting = is_lasting
        self._xattrs = xattrs or {}

    def attributes(self) -> Attributes:
        return Attributes(self._reading().size_bytes(), MODIFIED_MS, is_lasting=self._is_lasting)

    def xattrs(self) -> Mapping[str, bytes]:
        return self._xattrs

    def open(self) -> Reading:
        return self._reading()


class MemoryWritable(WritableFile):
    def __init__(self, path: TreePath, held: bytes, writing: Callable[[], Writing], *, identity: int) -> None:
        super().__init__(path, identity=identity)
        self._held = held
        self._writing = writing

    def attributes(self) -> Attributes:
        return Attributes(len(self._held), MODIFIED_MS, is_writable=True)

    def open(self) -> Reading:
        return Held(self._held)

    def open_writing(self) -> Writing:
        return self._writing()


class MemoryLink(Link):
    def target(self) -> str:
        return "../offset/1"


class Numbered(GeneratedFile):
    """How often a text was generated so far."""

    def __init__(self, path: TreePath, numbers: Iterator[int], *, identity: int) -> None:
        super().__init__(path, Clock(), identity=identity)
        self._numbers = numbers

    def generate(self) -> Generated:
        return Generated(b"%d\n" % next(self._numbers), MODIFIED_MS)


class MemoryTree:
    """Topics by their names, each with the values of its partitions."""

    def __init__(self) -> None:
        self.logs: dict[str, dict[int, MemoryLog]] = {}
        self.gates: defaultdict[bytes, Event] = defaultdict(Event)
        self.facts: dict[View, Callable[[], bytes]] = {}
        self.numbers = count(1)
        self._identity = 0
        self.add("orders", {0: [b"one", b"two", b"three"], 1: [b"%d" % number for number in range(2000)], 2: []})
        self.add("gates", {0: [], 1: []})
        self.add("refusing", {number: [b"x"] for number in range(len(REFUSALS))})
        for number, log in self.logs["refusing"].items():
            log.refusal = REFUSALS[number][0]

    def add(self, topic: str, partitions: Mapping[int, list[bytes]]) -> None:
        self.logs[topic] = {}
        for number, values in partitions.items():
            self._identity += 1
            self.logs[topic][number] = MemoryLog(self._identity, values)

    def child(self, parent: TreePath, name: str) -> Node:
        try:
            return self.node(child(parent, name, self.logs))
        except BadNameError as error:
            raise tree_errors.NotThereError(str(error)) from None

    def is_narrower(self, *_: object) -> bool:
        return False

    def log(self, path: PartitionPath) -> MemoryLog:
        try:
            return self.logs[path.topic.topic][path.partition]
        except KeyError:
            raise tree_errors.NotThereError(f"there is no {path}") from None

    def footing(self, path: PartitionPath) -> Hashable:
        log = self.log(path)
        return log.identity, log.start_offset

    def node(self, path: TreePath) -> Node:
        match path:
            case RootPath():
                return MemoryDirectory(path, lambda: [".kafkafs", *self.logs], tree=self)
            case TopicPath(topic):
                if topic not in self.logs:
                    raise tree_errors.NotThereError(f"there is no topic {topic}")
                return MemoryDirectory(path, lambda: [*map(str, self.logs[topic]), "config"])
            case ConfigPath(topic):
                return MemoryFile(path, lambda: Held(b"retention.ms=1\n"))
            case PartitionPath():
                return MemoryDirectory(path, lambda: [*PARTITION_VIEWS], identity=self.log(path).identity)
            case ControlPath():
                return MemoryDirectory(
                    path, lambda: [name for name, view in CONTROL_VIEWS.items() if view.kind is Kind.TEXT]
                )
            case StoreFilePath(file):
                return MemoryFile(path, lambda: Held(self.facts[file]()))
            case _:
                return self._of_log(path, self.log(path.log))

    def _of_log(self, path: TreePath, log: MemoryLog) -> Node:
        match path:
            case PartitionDirectoryPath(_, directory):
                offsets = range(log.start_offset, log.start_offset + len(log.values))
                names = [*map(str, offsets)] if directory is View.OFFSET else []
                return MemoryDirectory(path, lambda: names, identity=log.identity)
            case OffsetPath(_, name) if isinstance(name.records, AtOffset):
                return self._record(path, log, name.records.offset)
            case OffsetPath(_, name) if isinstance(name.records, RecordRange):
                return MemoryFile(path, lambda: Held(Growing(log).read(0, 1 << 30)), identity=log.identity)
            case TimePath():
                return MemoryLink(path)
            case PartitionFilePath(_, file):
                return self._file(path, file, log)
        raise tree_errors.NotThereError(str(path))

    def _record(self, path: TreePath, log: MemoryLog, offset: int) -> Node:
        if not log.start_offset <= offset < log.start_offset + len(log.values):
            raise tree_errors.NotThereError(f"there is no record {offset}")
        value = log.values[offset - log.start_offset]
        return MemoryFile(
            path,
            lambda: Held(value),
            identity=log.identity,
            is_lasting=True,
            xattrs={"user.kafka.key": b"k%d" % offset},
        )

    def _file(self, path: TreePath, file: View, log: MemoryLog) -> Node:
        identity = log.identity
        match file:
            case View.VALUES:
                return MemoryFile(path, lambda: Growing(log), identity=identity)
            case View.RECORDS:
                return MemoryFile(path, lambda: Unsized(log), identity=identity)
            case View.KEYS:
                return MemoryFile(path, lambda: Endless(log, self.gates[b"endless"]), identity=identity)
            case View.LEADER_EPOCHS:
                return Numbered(path, self.numbers, identity=identity)
            case View.TRANSACTIONS:
                return MemoryFile(path, Stuck, identity=identity)
            case View.INFO:
                return MemoryFile(path, lambda: Held(b"records=%d\nsyncs=%d\n" % (len(log.values), log.syncs)))
            case View.PRODUCERS:
                return MemoryFile(path, lambda: Held(b"waiting=%d\n" % log.waiting))
            case View.LOG_START_OFFSET:
                return MemoryWritable(path, b"%d\n" % log.start_offset, lambda: Number(log, None), identity=identity)
            case View.APPEND:
                gates = self.gates if path.log.topic.topic == "gates" else None
                return MemoryWritable(path, b"", lambda: Lines(log, gates), identity=identity)
        raise tree_errors.NotThereError(str(path))


def main() -> None:
    from kafkafs.mount.handlers import TreeOperations
    from kafkafs.mount.log import start_logging
    from kafkafs.mount.metrics import Metrics
    from kafkafs.mount.mountpoints.mount_point import mount_point
    from kafkafs.mount.options import DurabilityOption, parse_options
    from kafkafs.mount.session import Session, kernel_options
    from storage.files import Access

    path, store = Path(sys.argv[1]), Path(sys.argv[2])
    options = parse_options(sys.argv[3:])
    log, metrics, tree = start_logging(), Metrics(), MemoryTree()
    tree.facts = {
        View.METRICS: metrics.text,
        View.LOG: log.text,
        View.OPTIONS: lambda: b"pid=%d\n" % os.getpid(),
    }
    signal.signal(signal.SIGUSR1, lambda *_: [gate.set() for gate in tree.gates.values()])
    operations = TreeOperations(
        tree,
        place=store,
        access=lambda: Access(os.getuid(), os.getgid(), 0o755),
        ownership=options.ownership,
        metrics=metrics,
        footing=tree.footing,
        is_durable=options.durability is DurabilityOption.FSYNC,
    )
    with mount_point(path, [store]) as place:
        kernel = kernel_options(options, "memory", is_read_only=options.is_writable is False)
        Session(operations, place, kernel).run(ready=lambda: print("ready", flush=True))
    logging.getLogger("kafkafs").info("the tree is closed")


if __name__ == "__main__":
    main()
