"""A log that somebody writes while it is looked through."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from checked_logs import append, bases, filled_log, findings, replace
from memory_logs import DIRECTORY, sent
from path_files import PathFiles

from storage.record.encoding import BatchForm
from storage.verify.finding import FindingKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.files import ReadableFile
    from storage.testing.memory_files import MemoryFiles

FIRST = "00000000000000000000"


class BusyFiles(PathFiles):
    """Files some of which are written whenever another is opened or read."""

    def __init__(self, files: MemoryFiles, write: Callable[[], None]) -> None:
        self._files = files
        self._write = write

    def open_reading(self, path: str) -> ReadableFile:
        self._write()
        file = self._files.open_reading(path)
        plain = file.read_at

        def read_at(position: int, size_bytes: int) -> bytes:
            self._write()
            return plain(position, size_bytes)

        file.read_at = read_at
        return file

    def status(self, path: str) -> object:
        return self._files.status(path)

    def names(self, directory: str) -> list[str]:
        return self._files.names(directory)


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_is_written_meanwhile_is_sound(seed: int) -> None:
    log, rng = filled_log(), random.Random(seed)
    numbers = iter(range(100, 10**6))
    written = 0

    def write() -> None:
        nonlocal written
        if rng.random() < 0.2:
            written += 1
            append(log, next(numbers), rng)
            log.clock.ms += 100

    for _ in range(12):
        assert findings(BusyFiles(log.files, write), is_clean=False) == []
    assert written > 50


def test_damage_in_a_log_that_is_written_meanwhile_is_found_all_the_same() -> None:
    log, rng = filled_log(), random.Random(5)
    with log.files.open_writing(f"{DIRECTORY}/{FIRST}.log") as file:
        file.write_at(100, [b"\xff\xff"])
    numbers = iter(range(100, 10**6))
    everything = findings(BusyFiles(log.files, lambda: append(log, next(numbers), rng)), is_clean=False)
    assert [(finding.kind, finding.path) for finding in everything] == [(FindingKind.CHECKSUM, f"{FIRST}.log")]


def test_a_batch_that_is_half_written_is_no_damage_once_it_is_whole() -> None:
    log = filled_log()
    last = bases(log)[-1]
    path = f"{DIRECTORY}/{last}.log"
    whole = log.files.read(path)
    end = log.log.view.end_offset
    batch = end.to_bytes(8, "big") + sent(b"late", BatchForm(leader_epoch=2))[8:]
    steps = iter(range(10**6))

    def write() -> None:
        with log.files.open_writing(path) as file:
            file.write_at(len(whole), [batch[: 20 * next(steps)]])

    with log.files.open_writing(path) as file:
        file.write_at(len(whole), [batch[:20]])
    assert [finding.kind for finding in findings(log.files, is_clean=False)] == [FindingKind.TORN_TAIL]
    assert findings(BusyFiles(log.files, write), is_clean=False) == []


class ChangedFiles(BusyFiles):
    """Files that a broker changes once after the first check of their logs, before the directory is listed again."""

    def __init__(self, files: MemoryFiles, change: Callable[[], None]) -> None:
        super().__init__(files, lambda: None)
        self._change: Callable[[], None] | None = change
        self._is_read = False

    def open_reading(self, path: str) -> ReadableFile:
        self._is_read = self._is_read or path.endswith(".log")
        return super().open_reading(path)

    def names(self, directory: str) -> list[str]:
        if self._is_read and self._change is not None:
            self._change()
            self._change = None
        return super().names(directory)


def test_notices_need_no_second_check() -> None:
    """A check that finds damage while a broker writes is repeated; what only the second one notices is reported."""
    log = filled_log()
    name = f"{bases(log)[-1]}.log"
    whole = log.files.read(f"{DIRECTORY}/{name}")
    replace(log, name, whole[:-10])

    def change() -> None:
        replace(log, name, whole)
        replace(log, f"{FIRST}.index.deleted", b"")

    found = findings(ChangedFiles(log.files, change), is_clean=False)
    assert [finding.kind for finding in found] == [FindingKind.LEFT_OVER]
