"""`--until` on logs with everything: what is revived is, to the byte, what reading every record by brute force says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from compactable_logs import CompactableLog, compactable_logs
from compacting import Compacting
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_logs import NOW_MS, LogOnMemory, StandingClock

from kafkafs.revive import Choice, Making, look, make_plan, plan_lines, read_cluster, read_disks, revive
from storage.files import Files
from storage.internal import offsets
from storage.replicas import compose, scan_replica
from storage.testing.codec import CONTROL, TRANSACTIONAL, OracleBatch, OracleEntry, batch_spans, decode_batches
from storage.testing.control_codec import decode_control_key
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkafs.revive import Plan

DISK: Final = Path("/disk")
NODE: Final = Path("/node")
CLEANED: Final = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}
NO_TIMESTAMP: Final = -1
REAL: Final = ("t-compact", "t-txn", "t-v1", "t-zstd", "__consumer_offsets")
SPREAD_MS: Final = 1100
"""A little more than the times of records differ."""


class Unit(NamedTuple):
    """A batch in a log: its bytes, and what they say."""

    data: bytes
    decoded: OracleBatch | OracleEntry


def disk_of(log: CompactableLog, topic: str, *, is_compacted: bool) -> tuple[MemoryFiles, list[Unit]]:
    """Put the log on a disk, before or after the cleaner has been there; return its batches too."""
    memory = LogOnMemory(CLEANED)
    for name in memory.files.names("/topic-0"):
        memory.files.remove(f"/topic-0/{name}")
    log.write(memory.files)
    memory.recover(allows_offset_gaps=True)
    memory.open()
    if is_compacted:
        compacting = Compacting(memory.clock)
        plan = compacting.plan(memory.log)
        if plan.is_applicable:
            compacting.compact(memory.log, plan)
            for path in compacting.deleted:
                memory.files.remove(path)
    files = MemoryFiles()
    for path in (DISK, DISK / f"{topic}-0"):
        files.make_directory(path)
    units: list[Unit] = []
    for name, data in sorted(memory.contents().items()):
        files.directory(DISK / f"{topic}-0").replace(name, data)
        if name.endswith(".log"):
            units += units_in(data)
    return files, units


def units_in(data: bytes) -> Iterator[Unit]:
    for (begin, end), decoded in zip(batch_spans(data), decode_batches(data), strict=True):
        yield Unit(data[begin:end], decoded)


def before(units: Sequence[Unit], until_ms: int) -> Iterator[Unit]:
    """Yield the batches before the first record that is at or after the time."""
    for unit in units:
        if any(time_ms >= until_ms for time_ms in times_of(unit.decoded)):
            return
        yield unit


def times_of(batch: OracleBatch | OracleEntry) -> Iterator[int]:
    """Yield the times of the records. Those of old version inside an entry with a time have that one."""
    for record in batch.records:
        is_timeless = isinstance(batch, OracleEntry) and record.timestamp == NO_TIMESTAMP
        yield batch.timestamp if is_timeless else record.timestamp


def open_producers(units: Sequence[Unit]) -> dict[int, int]:
    """Return where the transaction of each producer began that no marker ends."""
    found: dict[int, int] = {}
    for batch in (unit.decoded for unit in units):
        if not isinstance(batch, OracleBatch) or not batch.attributes & TRANSACTIONAL:
            continue
        if not batch.attributes & CONTROL:
            found.setdefault(batch.producer_id, batch.base_offset)
        elif batch.records:
            decode_control_key(batch.records[0].key)
            found.pop(batch.producer_id, None)
    return found


def planned(files: Files, paths: Sequence[Path], choice: Choice) -> Plan:
    disks = read_disks(files, paths)
    return make_plan(disks, read_cluster(disks, StandingClock())[0], choice, lambda *_: None)


@settings(max_examples=60 if settings.default.max_examples <= 100 else 2000)
@given(compactable_logs(max_steps=15), st.booleans(), st.integers(-SPREAD_MS, SPREAD_MS))
def test_a_log_is_cut_before_the_first_late_record(log: CompactableLog, is_compacted: bool, from_now_ms: int) -> None:
    files, units = disk_of(log, "t", is_compacted=is_compacted)
    until_ms = NOW_MS + from_now_ms
    expected = list(before(units, until_ms))
    plan = planned(files, [DISK], Choice(until_ms=until_ms))
    making = Making(log_dirs=(NODE,), node_id=1, level=21, links=False, server_properties={})
    revive(plan, making, files, StandingClock(), advance=lambda *_: None)
    made = files.directory(NODE / "t-0")
    logs = sorted(name for name in made.names() if name.endswith(".log"))
    assert b"".join(made.read(name) for name in logs) == b"".join(unit.data for unit in expected)
    (partition,) = plan.partitions
    if expected:
        assert partition.end_offset == expected[-1].decoded.last_offset + 1
    outcome = look([NODE], files, StandingClock())
    hanging = {each.producer_id: each.in_partitions[0].first_offset for each in outcome.open_transactions}
    assert hanging == open_producers(expected)
    cut = [line for line in plan_lines(plan, 21) if line.startswith("    cut ")]
    assert len(cut) == (len(expected) < len(units))


def test_real_brokers_logs_are_cut_before_the_first_late_record(datasets: Callable[[str], Path]) -> None:
    paths = [datasets("kafka-3.9") / "kafka-3.9" / log_dir for log_dir in ("d1", "d2")]
    logs = {each.name: units_of(each) for path in paths for each in path.glob("*-*") if each.name.startswith(REAL)}
    times = sorted({time_ms for units in logs.values() for unit in units for time_ms in times_of(unit.decoded)})
    topics = tuple({name.rpartition("-")[0] for name in logs})
    for until_ms in (times[1], times[len(times) // 3], times[-len(times) // 3], times[-1] + 1):
        for partition in planned(Files(), paths, Choice(topics, until_ms=until_ms)).partitions:
            units = logs["{}-{}".format(*partition.partition)]
            kept = list(before(units, until_ms))
            assert partition.size_bytes == sum(len(unit.data) for unit in kept)
            if kept:
                assert partition.end_offset == kept[-1].decoded.last_offset + 1


def units_of(directory: Path) -> list[Unit]:
    return [unit for path in sorted(directory.glob("*.log")) for unit in units_in(path.read_bytes())]


def test_the_plan_says_that_older_commits_may_be_gone() -> None:
    files, _ = disk_of(CompactableLog({0: []}), offsets.TOPIC, is_compacted=False)
    said = "of groups it has what is left from before that time: older records of theirs may have been compacted away"
    for until_ms in (None, NOW_MS):
        lines = list(plan_lines(planned(files, [DISK], Choice(until_ms=until_ms)), 21))
        assert any(said in line for line in lines) is (until_ms is not None)


@settings(max_examples=60 if settings.default.max_examples <= 100 else 2000)
@given(compactable_logs(max_steps=15))
def test_a_replica_that_a_cleaner_has_been_at_has_the_same_history(log: CompactableLog) -> None:
    disks = [disk_of(log, "t", is_compacted=is_compacted)[0] for is_compacted in (False, True)]
    replicas = [scan_replica(files.directory(DISK / "t-0"), is_compacted=True) for files in disks]
    for each in (replicas, replicas[::-1]):
        assert compose(each).divergences == ()
