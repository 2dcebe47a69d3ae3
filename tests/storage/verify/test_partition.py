"""What a look through a partition's directory finds in its logs: everything that is damaged, and nothing else."""

from __future__ import annotations

import random
import struct

import pytest
from checked_logs import bases, closed_log, damages, filled_log, findings, replace
from memory_logs import DIRECTORY, NOW_MS, SETTINGS, LogOnMemory, sent
from old_indexes import OldIndexes

from storage.record.encoding import BatchForm
from storage.segment.scan import LogScan
from storage.verify.context import PartitionExpectation
from storage.verify.finding import FindingKind, Severity
from storage.verify.partition import verify_partition

TIME_ENTRY = struct.Struct(">qi")
FIRST = "00000000000000000000"


def test_a_closed_log_is_sound() -> None:
    log = closed_log()
    before = log.contents()
    steps = log.files.steps
    looked_at = []
    expected = PartitionExpectation(
        directory=log.files.directory(DIRECTORY), is_clean=True, reached={"high watermark": 310}
    )
    verdict = verify_partition(expected, advance=looked_at.append)
    assert list(verdict.findings) == []
    assert verdict.segments == len(bases(log)) > 4
    assert verdict.batches == sum(
        len(list(LogScan(log.files.open_reading(f"{DIRECTORY}/{name}.log")))) for name in bases(log)
    )
    assert verdict.size_bytes == sum(looked_at) == sum(len(before[f"{name}.log"]) for name in bases(log))
    assert (log.contents(), log.files.steps) == (before, steps)


@pytest.mark.parametrize("preallocate", ["true", "false"])
def test_a_log_that_is_written_or_was_killed_is_sound(preallocate: str) -> None:
    log = filled_log({**SETTINGS, "preallocate": preallocate})
    assert findings(log.files, is_clean=False) == []
    assert findings(log.files.after_process_death(), is_clean=False) == []
    last = bases(log)[-1]
    untrimmed = {(FindingKind.UNTRIMMED_INDEX, f"{last}{suffix}") for suffix in (".index", ".timeindex")}
    incomplete = {(FindingKind.TIME_INDEX_ENTRY, f"{last}.timeindex")}
    zeros = {(FindingKind.ZERO_TAIL, f"{last}.log")} if preallocate == "true" else set()
    assert untrimmed | zeros <= damages(log) <= untrimmed | zeros | incomplete


def test_indexes_of_old_brokers_are_sound() -> None:
    log = LogOnMemory()
    offset = 0
    for number in range(60):
        batches = []
        for _ in range(4):
            form = BatchForm(leader_epoch=1)
            batches.append(sent([(NOW_MS + 100 * number + at, b"v" * 30) for at in (5, 9, 1)], form))
        placed = bytearray()
        for batch in batches:
            placed += offset.to_bytes(8, "big") + batch[8:]
            offset += 3
        log.log.append_as_follower([bytes(placed)])
    log.log.close()
    for name in bases(log):
        with log.files.open_reading(f"{DIRECTORY}/{name}.log") as file:
            found = list(LogScan(file))
        indexes = OldIndexes(int(name), log.config.index_interval_bytes)
        for at in range(0, len(found), 4):
            indexes.add(found[at : at + 4])
        for index, data in indexes.files().items():
            assert data != log.contents()[index]
            replace(log, index, data)
    assert findings(log.files) == []
    # 2.2 wrote the offset of the record that has the largest timestamp.
    for name, data in log.contents().items():
        if name.endswith(".timeindex"):
            entries = [(timestamp, relative - 1) for timestamp, relative in TIME_ENTRY.iter_unpack(data)]
            replace(log, name, b"".join(TIME_ENTRY.pack(*entry) for entry in entries))
    assert findings(log.files) == []


def test_every_flipped_bit_of_a_log_is_findings() -> None:
    log = closed_log()
    rng = random.Random(1)
    for name in bases(log):
        path = f"{DIRECTORY}/{name}.log"
        whole = log.files.read(path)
        for _ in range(120):
            bit = rng.randrange(8 * len(whole))
            with log.files.open_writing(path) as file:
                file.write_at(bit // 8, [bytes([whole[bit // 8] ^ 1 << bit % 8])])
                assert damages(log), (name, bit)
                file.write_at(bit // 8, [whole[bit // 8 : bit // 8 + 1]])
    assert damages(log) == set()


def test_damage_is_told_with_what_is_good_around_it() -> None:
    log = closed_log()
    path = f"{DIRECTORY}/{FIRST}.log"
    with log.files.open_reading(path) as file:
        first, second, third, fourth = list(LogScan(file))[:4]
    with log.files.open_writing(path) as file:
        file.write_at(second.position + 80, [b"\xff\xff\xff"])
    (finding,) = findings(log.files)
    assert (finding.severity, finding.kind, finding.path) == (Severity.DAMAGE, FindingKind.CHECKSUM, f"{FIRST}.log")
    assert (finding.position, finding.end_position) == (second.position, third.position)
    assert (finding.last_good_offset, finding.offset, finding.next_good_offset) == (2, 3, 6)
    # With the lengths of two batches gone, the next good one is found by looking for it.
    with log.files.open_writing(path) as file:
        file.write_at(second.position + 8, [b"\x7f\xff\xff\xff"])
        file.write_at(third.position + 8, [b"\0\0\0\0"])
    (finding,) = findings(log.files)
    assert finding.kind is FindingKind.FRAMING
    assert (finding.position, finding.end_position) == (second.position, fourth.position)
    assert (finding.last_good_offset, finding.next_good_offset) == (2, 9)
    assert first.position == 0


@pytest.mark.parametrize("where", [FIRST, "last"])
@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (bytes(9), FindingKind.ZERO_TAIL),
        (bytes(5000), FindingKind.ZERO_TAIL),
        (b"\x01" * 97, FindingKind.TORN_TAIL),
        (b"\0" * 8 + b"\0\0\0\xff" + b"\0" * 30, FindingKind.TORN_TAIL),
    ],
)
def test_what_follows_the_last_batch(where: str, tail: bytes, kind: FindingKind) -> None:
    log = closed_log()
    name = bases(log)[-1] if where == "last" else where
    whole = log.contents()[f"{name}.log"]
    replace(log, f"{name}.log", whole + tail)
    for is_clean in (True, False):
        (finding,) = findings(log.files, is_clean=is_clean)
        assert (finding.kind, finding.path, finding.position, finding.end_position) == (
            kind,
            f"{name}.log",
            len(whole),
            len(whole) + len(tail),
        )


def test_a_torn_batch_and_a_log_that_ends_too_early() -> None:
    log = closed_log()
    last = bases(log)[-1]
    whole = log.contents()[f"{last}.log"]
    replace(log, f"{last}.log", whole[:-5])
    assert {(FindingKind.TORN_TAIL, f"{last}.log"), (FindingKind.LOST_TAIL, f"{last}.log")} <= damages(log)
    replace(log, f"{last}.log", b"")
    assert (FindingKind.LOST_TAIL, f"{last}.log") in damages(log)
    assert (FindingKind.INDEX_ENTRY, f"{last}.index") in damages(log)
    replace(log, f"{last}.log", whole)
    (finding,) = findings(log.files, reached={"some-checkpoint": 1000})
    assert finding.kind is FindingKind.LOST_TAIL
    assert finding.reason.endswith("and some-checkpoint has 1000")


def test_a_segment_that_is_gone_leaves_a_gap_unless_the_log_is_compacted() -> None:
    log = closed_log()
    name = bases(log)[1]
    for suffix in (".log", ".index", ".timeindex"):
        log.files.remove(f"{DIRECTORY}/{name}{suffix}")
    (finding,) = findings(log.files)
    assert (finding.kind, finding.path, finding.offset) == (FindingKind.OFFSET_GAP, f"{bases(log)[1]}.log", int(name))
    assert (finding.last_good_offset, finding.next_good_offset) == (int(name) - 1, int(bases(log)[1]))
    assert findings(log.files, is_compacted=True) == []


def test_a_segment_that_has_replaced_another_shows_that_the_log_is_compacted() -> None:
    """A live broker's cleaner writes its checkpoint later, and removes what it has replaced later still."""
    log = closed_log()
    first, name, _, *_, last = bases(log)
    for suffix in (".log", ".index", ".timeindex"):
        log.files.remove(f"{DIRECTORY}/{name}{suffix}")
    for removed_alone in (name, f"{int(last) + 1000:020}"):  # as retention and truncation leave them
        replace(log, f"{removed_alone}.log.deleted", b"")
        assert FindingKind.OFFSET_GAP in {finding.kind for finding in findings(log.files)}
    replace(log, f"{first}.log.deleted", b"")
    assert [finding.kind for finding in findings(log.files)] == [FindingKind.LEFT_OVER]


def test_segments_that_overlap() -> None:
    log = closed_log()
    first, second = bases(log)[:2]
    middle = f"{int(second) - 3:020d}"
    for suffix in (".log", ".index", ".timeindex"):
        log.files.rename(f"{DIRECTORY}/{second}{suffix}", f"{DIRECTORY}/{middle}{suffix}")
    assert (FindingKind.OFFSETS, f"{middle}.log") in damages(log)
    assert first == FIRST
