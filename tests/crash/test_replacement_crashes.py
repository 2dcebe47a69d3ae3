"""Replacing segments by others is cut at every step: all of the old ones are there, or all of the new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, sent
from promising_logs import PromisingLog

from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind
from storage.segment.replacement import replace_segments
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.testing.memory_files import MemoryFiles

pytestmark = pytest.mark.crash

SETTINGS = {
    "segment.bytes": "1000",
    "segment.index.bytes": "120",
    "index.interval.bytes": "128",
    "cleanup.policy": "compact",
}
# The new segments by their bases, with the offsets that are left, and the old ones that they replace.
REPLACEMENTS = {
    "two by one": ({0: (1, 4, 7)}, (0, 4)),
    "one by two": ({4: (4,), 6: (6,)}, (4,)),
    "three by two": ({0: (0, 3), 8: (8, 11)}, (0, 4, 8)),
    "one by one": ({4: (5, 7)}, (4,)),
    "all by one": ({0: (0, 15)}, (0, 4, 8, 12)),
}


def log_with_replacements(new: dict[int, tuple[int, ...]]) -> PromisingLog:
    """A log of four segments, and the new ones as they are before they replace others."""
    log = PromisingLog(SETTINGS)
    for number in range(16):
        log.append(b"%02d" % number * 80)
    log.close()
    assert log.log.view.bases == (0, 4, 8, 12)
    for base_offset, offsets in new.items():
        batches = [log.log.view.find(offset) for offset in offsets]
        for kind in SEGMENT_KINDS[:3]:
            with log.files.open_writing(path(base_offset, kind), create=True) as file:
                if kind is Kind.LOG:
                    file.write_at(0, [batch.view(0, batch.size_bytes) for batch in batches if batch])
                file.sync()
    log.files.sync_directory(DIRECTORY)
    return log


def segments(log: PromisingLog, bases: tuple[int, ...]) -> list[Segment]:
    return [Segment(log.files.directory(DIRECTORY), base_offset) for base_offset in bases]


def path(base_offset: int, kind: Kind) -> str:
    return f"{DIRECTORY}/{FileName(base_offset, kind, FileSuffix.CLEANED)}"


def left(log: PromisingLog, files: MemoryFiles) -> list[int]:
    """The offsets that are there after recovery, which finds nothing to do the next time."""
    survivor = log.survivor(files)
    survivor.recover()
    assert survivor.recover().steps == []
    survivor.open()
    view = survivor.log.view
    return [batch.last_offset for batch in view.batches(view.start_offset)]


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_segments_are_replaced_all_at_once(crashes, name: str) -> None:
    new, old = REPLACEMENTS[name]
    bounds = [*old, 16 if old[-1] == 12 else old[-1] + 4]
    before = list(range(16))
    after = [offset for offset in before if not bounds[0] <= offset < bounds[-1]]
    after = sorted([*after, *(offset for offsets in new.values() for offset in offsets)])

    def replace(log: PromisingLog) -> None:
        for doomed in replace_segments(log.files.directory(DIRECTORY), list(new), segments(log, old)):
            log.files.directory(DIRECTORY).remove(doomed)

    seen = set()
    for log, later in crashes.of(lambda: log_with_replacements(new), replace):
        for files, _ in later:
            found = left(log, files)
            assert found in (before, after)
            seen.add(tuple(found))
    assert len(seen) == 2

    log = log_with_replacements(new)
    replace_segments(log.files.directory(DIRECTORY), list(new), segments(log, old))
    for seed in range(20):
        assert left(log, log.files.after_power_loss(seed)) == after


@pytest.mark.parametrize("name", ["two by one", "one by two", "three by two", "one by one"])
def test_an_open_log_replaces_segments_all_at_once(crashes, name: str) -> None:
    """The same while the log is open and goes on, with unflushed segments."""
    new, old = REPLACEMENTS[name]

    def prepare() -> PromisingLog:
        log = log_with_replacements(new)
        log.open()
        log.log.append_as_leader(sent(b"16" * 80))
        return log

    def act(log: PromisingLog) -> None:
        replaced = [segment for segment in log.log.view.segments if segment.base_offset in old]
        deleted = log.log.replace(replaced, list(new))
        log.promises.gone_offset = 1  # anything: it has returned
        log.log.append_as_leader(sent(b"17" * 80))
        for doomed in deleted:
            log.files.directory(DIRECTORY).remove(doomed)

    end = old[-1] + 4
    kept = sorted(offset for offsets in new.values() for offset in offsets)
    seen = set()
    for log, later in crashes.of(prepare, act):
        has_returned = log.promises.gone_offset > 0
        if not later.is_dead and log.log.is_poisoned:
            log.abandon()
        for files, _ in later:
            found = left(log, files)
            is_old = found[:end] == [*range(end)]
            before = [*range(old[0]), *(range(old[0], end) if is_old else kept), *range(end, 16)]
            assert found[: len(before)] == before
            assert found[len(before) :] in ([], [16], [16, 17])
            assert not (is_old and has_returned), "what has replaced others is gone"
            seen.add(is_old)
    assert seen == {True, False}


def test_segments_that_go_without_others_in_their_place_go_from_the_first_on(crashes) -> None:
    def prepare() -> PromisingLog:
        log = log_with_replacements({})
        log.open()
        return log

    def act(log: PromisingLog) -> None:
        for doomed in log.log.replace(log.log.view.segments[:3], []):
            log.files.directory(DIRECTORY).remove(doomed)

    seen = set()
    for log, later in crashes.of(prepare, act):
        if not later.is_dead and log.log.is_poisoned:
            log.abandon()
        seen |= {tuple(left(log, files)) for files, _ in later}
    assert seen == {tuple(range(first, 16)) for first in (0, 4, 8, 12)}
