"""Real brokers adopt what we compacted, also where a run was cut short, and find in it what we find."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
from compacted_logs import CompactedLog
from compacting import Compacting
from consuming import consumed
from memory_logs import DIRECTORY, StandingClock
from real_brokers import releases

from storage.config import TopicConfig
from storage.errors import CompactionStoppedError
from storage.files import Files
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.view import Isolation
from storage.testing.faults import Cut, CutError, Effect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from consuming import ConsumedRecord
    from real_brokers import JudgedRecord, RealKafka

    Found: TypeAlias = tuple[int, int, dict[Isolation, list[ConsumedRecord]]]
    """The log's end, its last stable offset, and what consumers are given."""

FILES = Files()
NOW_MS = 1_795_300_000_000
DAY_MS = 86_400_000
LOGS = {
    "t-hold-none-0": "kafka-3.9-compaction/kafka-3.9-compaction-before",
    "t-hold-lz4-0": "kafka-3.9-compaction/kafka-3.9-compaction-before",
    "t-txn-compact-0": "kafka-2.2/kafka-2.2/d2",
    "t-compactdelete-0": "kafka-2.2/kafka-2.2/d2",
    "t-v1-compact-0": "kafka-2.2/kafka-2.2/d2",
    "t-txn-0": "kafka-3.9/kafka-3.9/d1",
    "t-gzip-0": "kafka-3.9/kafka-3.9/d1",
}
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "20000", "delete.retention.ms": "1000"}
JUDGED = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**62)}
"""The broker is not to compact anything itself."""


def open_log(directory: Path, clock: StandingClock) -> Log:
    config, rng = TopicConfig.resolve(SETTINGS), random.Random(0)
    parts = open_sound_log(clock, FILES.directory(directory), config, rng=rng, producer_expiration_ms=2**62)
    return Log(clock, FILES.directory(directory), config, parts, rng=rng)


def compact(log: Log, clock: StandingClock, times: int, *, stopped_after: int) -> None:
    """So many rounds over all of it, a day apart; the last one is stopped after it was asked so often whether it is."""
    log.roll()
    for number in range(times):
        clock.ms = NOW_MS + number * DAY_MS
        asked = iter(range(10**9))
        limit = stopped_after if number == times - 1 else 10**9
        compacting = Compacting(clock, is_stopped=lambda asked=asked, limit=limit: next(asked) >= limit)
        try:
            compacting.compact(log, compacting.plan(log))
        except CompactionStoppedError:
            assert limit < 10**9
        for path in compacting.deleted:
            path.unlink()


def told(record: ConsumedRecord | JudgedRecord) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.timestamp_type, record.key, record.value, record.headers


@pytest.mark.parametrize("version", releases("4"))
def test_brokers_find_what_we_find_in_what_we_compacted(
    real_kafka: RealKafka, datasets: Callable[[str], Path], tmp_path: Path, version: str
) -> None:
    clock = StandingClock(NOW_MS)
    found: dict[str, Found] = {}
    freed = 0
    for number, (name, place) in enumerate(LOGS.items()):
        data_set, _, rest = place.partition("/")
        if version == "4" and "v1" in name:
            continue
        for times, stopped_after in ((1, 10**9), (2, 10**9), (2, 40 + 20 * number)):
            directory = tmp_path / f"{name.removesuffix('-0')}-{times}-{stopped_after}-0"
            shutil.copytree(datasets(data_set) / rest / name, directory)
            (directory / "partition.metadata").unlink(missing_ok=True)
            before = sum(path.stat().st_size for path in directory.glob("*.log"))
            log = open_log(directory, clock)
            compact(log, clock, times, stopped_after=stopped_after)
            records = {isolation: list(consumed(log, isolation)) for isolation in Isolation}
            found[directory.name] = (log.view.end_offset, log.view.last_stable_offset, records)
            log.close()
            freed += before - sum(path.stat().st_size for path in directory.glob("*.log"))
    assert freed > 500_000
    check_judged(real_kafka, tmp_path, found, version)


def check_judged(real_kafka: RealKafka, log_dir: Path, found: dict[str, Found], version: str) -> None:
    """Raise `AssertionError` unless a broker finds in the partitions what we do."""
    judged = real_kafka.judge_all([log_dir / name for name in found], settings=JUDGED, version=version)
    for name, (end_offset, last_stable_offset, records) in found.items():
        judgement = judged[name]
        assert (judgement.end_offset, judgement.last_stable_offset) == (end_offset, last_stable_offset), name
        for isolation, theirs in (
            (Isolation.UNCOMMITTED, judgement.read_uncommitted),
            (Isolation.COMMITTED, judgement.read_committed),
        ):
            assert list(map(told, theirs)) == list(map(told, records[isolation])), name


@pytest.mark.parametrize("version", releases("3.9"))
def test_brokers_recover_what_we_recover_where_compaction_was_cut(
    real_kafka: RealKafka, tmp_path: Path, version: str
) -> None:
    """A sample of the places where `tests/crash` cuts it, each after a loss of power or the death of the process."""
    found: dict[str, Found] = {}
    whole = CompactedLog.made(100, 2)
    begun = whole.files.steps
    whole.compact_twice()
    ends = set()
    for step in range(0, whole.files.steps - begun, 9):
        log = CompactedLog.made(100, 2)
        log.files.cut = Cut(log.files.steps + step, Effect.DEATH, seed=step)
        with pytest.raises(CutError):
            log.compact_twice()
        files = log.files.after_power_loss(step) if step % 2 else log.files.after_process_death()
        directory = tmp_path / f"cut-{step}-0"
        directory.mkdir()
        for name in files.names(DIRECTORY):
            (directory / name).write_bytes(files.read(f"{DIRECTORY}/{name}"))
        log.open_after_crash(files)
        view = log.log.view
        records = {isolation: list(log.records(isolation).values()) for isolation in Isolation}
        found[directory.name] = (view.end_offset, view.last_stable_offset, records)
        ends.add(len(records[Isolation.UNCOMMITTED]))
    assert len(ends) > 2
    check_judged(real_kafka, tmp_path, found, version)
