"""Logs of real brokers, appended again batch by batch: the same files must come of it, byte for byte.

Everything that a broker only appended to is replayed. What else happened to a partition is named in `LEFT_OUT`. The two
brokers differ in what they tell their indexes:

- 3.9 had one batch in each append here, so that it indexed per batch, as we do.
- 2.2 put the offset of the record with the largest timestamp into the time index where a batch is not compressed, and
  indexed a whole set of version 0 or 1 entries at once. Its active segments were rebuilt when it was started again, and
  that is done per batch. Which entries made up one append is not stored: an index entry shows one such set, and what
  lies between two of them is appended together, with the same result. In its producer snapshots the end of a
  transaction does not count for the time of a producer's last batch.
"""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from old_indexes import OldIndexes

from storage.clock import Clock
from storage.config import TopicConfig
from storage.files import Files
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.producers.snapshot import decode_snapshot
from storage.log.producers.state import AppendOrigin, ProducerState
from storage.record import Codec, LegacyBatch, RecordBatch, TimestampType, assign_offset
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from storage.record import Batch

FILES = Files()
DAY_MS = 24 * 60 * 60 * 1000
OFFSET_ENTRY = struct.Struct(">ii")

# Where brokers were stopped and started again in the middle of a log, as 2.2's snapshots tell, and when.
RESTARTS = {"t-none-0": (2000, 2060), "t-zstd-0": (2000, 2060), "t-mixed-0": (2400, 2460), "t-txn-0": (760, 820)}
RESTART_MS = 1_795_227_000_000
RESTARTED_2_2 = "appended to after a restart, at which 2.2 rebuilds indexes and forgets producers by other rules"
LEFT_OUT = {
    "t-compact": "compacted",
    "t-compact-gzip": "compacted",
    "t-compactdelete": "compacted",
    "t-txn-compact": "compacted",
    "t-v0-compact": "compacted",
    "t-v1-compact": "compacted",
    "t-hold-none": "compacted",
    "t-hold-lz4": "compacted",
    "t-delrec": "records deleted",
    "t-retain": "segments deleted by retention",
    "__cluster_metadata": "a quorum's log, which is appended to by rules of its own",
}


class TimeOfBatches(Clock):
    """The time that the batch to be appended was stamped with; where it has none, no time has passed."""

    now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now


class Call(NamedTuple):
    """One append: the batches, and their bytes."""

    batches: Sequence[Batch]
    data: bytes

    @property
    def is_placed(self) -> bool:
        """Whether only a follower would take them as they are."""
        first = self.batches[0]
        return isinstance(first, LegacyBatch) or first.timestamp_type is TimestampType.LOG_APPEND_TIME


def partitions(broker: Path, *, is_2_2: bool) -> Iterator[tuple[Path, str | None]]:
    """The partitions' directories, each with the reason for which it is left out."""
    for directory in sorted(broker.glob("d*/*-*")):
        if directory.is_dir():
            topic = directory.name.rpartition("-")[0]
            is_left_out = is_2_2 and directory.name in RESTARTS
            yield directory, RESTARTED_2_2 if is_left_out else LEFT_OUT.get(topic)


def calls(directory: Path, *, sets_of_entries: bool) -> Iterator[Call]:
    """What was appended, in order; with `sets_of_entries` old entries as rolled segments' indexes show them."""
    logs = sorted(directory.glob("*.log"))
    for log in logs:
        yield from calls_in(log, sets_of_entries=sets_of_entries and log is not logs[-1])


def calls_in(log: Path, *, sets_of_entries: bool) -> Iterator[Call]:
    data = log.read_bytes()
    with FILES.open_reading(log) as file:
        batches = list(LogScan(file))
    starts = {batch.position for batch in batches}
    if sets_of_entries:
        starts -= within_sets(log, batches)
    group: list[Batch] = []
    for batch in batches:
        if batch.position in starts and group:
            yield call_of(group, data)
            group = []
        group.append(batch)
    if group:
        yield call_of(group, data)


def call_of(group: Sequence[Batch], data: bytes) -> Call:
    return Call(group, data[group[0].position : group[-1].position + group[-1].size_bytes])


def within_sets(log: Path, batches: Sequence[Batch]) -> set[int]:
    """The positions of uncompressed old entries that do not begin an append."""
    base_offset = int(log.stem)
    index = OFFSET_ENTRY.iter_unpack(log.with_suffix(".index").read_bytes())
    ends = {position: base_offset + relative for relative, position in index}
    inner = set()
    end = None  # of the set that an entry shows
    for previous, batch in pairwise(batches):
        if batch.position in ends:
            end = ends[batch.position]
        elif is_entry(previous) and is_entry(batch) and previous.last_offset != end:
            inner.add(batch.position)
    return inner


def is_entry(batch: Batch) -> bool:
    return isinstance(batch, LegacyBatch) and batch.codec is Codec.NONE


def indexes_of_2_2(directory: Path, config: TopicConfig) -> dict[str, bytes]:
    """The index files that 2.2 has of what was appended; those of the last segment it has rebuilt as we write them."""
    found = {}
    for log in sorted(directory.glob("*.log"))[:-1]:
        indexes = OldIndexes(int(log.stem), config.index_interval_bytes)
        for call in calls_in(log, sets_of_entries=True):
            indexes.add(call.batches, bearer(call.batches))
        found |= indexes.files()
    return found


def bearer(batches: Sequence[Batch]) -> int | None:
    """The offset of the record with the largest timestamp, which 2.2 told of a batch that is not compressed."""
    first, largest = batches[0], max(batch.max_timestamp for batch in batches)
    if not isinstance(first, RecordBatch) or first.codec is not Codec.NONE or first.timestamp_type != 0:
        return None
    return next(record.offset for record in first.records() if record.timestamp == largest)


def replay(stored: Path, target: Path, config: TopicConfig, *, is_2_2: bool) -> None:
    clock = TimeOfBatches()
    rng = random.Random(0)

    def opened() -> Log:
        parts = open_sound_log(clock, FILES.directory(target), config, rng=rng, producer_expiration_ms=DAY_MS)
        return Log(clock, FILES.directory(target), config, parts, rng=rng)

    log = opened()
    for call in calls(stored, sets_of_entries=is_2_2):
        if log.view.end_offset in RESTARTS.get(stored.name, ()):
            log.close()
            clock.now = RESTART_MS
            log = opened()
        first = call.batches[0]
        if first.max_timestamp >= 0:
            clock.now = first.max_timestamp
        if call.is_placed or config.compression is not None:
            log.append_as_follower([call.data])
            continue
        assert isinstance(first, RecordBatch)
        sent = bytearray(call.data)
        assign_offset(sent, base_offset=0, leader_epoch=-1)
        is_internal = stored.name.startswith("__")
        origin = AppendOrigin.COORDINATOR if first.is_control or is_internal else AppendOrigin.CLIENT
        log.append_as_leader(sent, leader_epoch=first.leader_epoch, origin=origin)
    log.close()


def assert_same(stored: Path, made: Path, indexes: Mapping[str, bytes], *, is_2_2: bool) -> int:
    """Raise `AssertionError` unless the files are the same, these indexes in place of ours; gives how many differ."""

    def names(directory: Path, *patterns: str) -> list[str]:
        return sorted(path.name for pattern in patterns for path in directory.glob(pattern))

    segments = ("*.log", "*.index", "*.timeindex", "*.txnindex")
    assert names(made, *segments) == names(stored, *segments), stored
    different = 0
    for name in names(stored, *segments):
        expected = indexes[name] if name in indexes else (made / name).read_bytes()
        assert (stored / name).read_bytes() == expected, stored / name
        different += expected != (made / name).read_bytes()
    snapshots = names(stored, "*.snapshot")
    if is_2_2:  # it removed the older ones
        assert set(snapshots) <= set(names(made, "*.snapshot")), stored
    else:
        assert snapshots == names(made, "*.snapshot"), stored
    for name in snapshots:
        known, ours = (producers(path / name, without_marker_times=is_2_2) for path in (stored, made))
        assert ours == known, stored / name
    return different


def producers(snapshot: Path, *, without_marker_times: bool) -> list[ProducerState]:
    states = sorted(decode_snapshot(snapshot.read_bytes()), key=lambda state: state.producer_id)
    if not without_marker_times:
        return states
    return [
        state._replace(last_timestamp=0, batches=tuple(batch._replace(timestamp=0) for batch in state.batches))
        if state.coordinator_epoch >= 0
        else state
        for state in states
    ]


@pytest.mark.golden
@pytest.mark.parametrize("version", ["3.9", "2.2"])
def test_replayed_logs_are_the_brokers_own(
    version: str,
    datasets: Callable[[str], Path],
    topic_settings: dict[str, dict[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = datasets(f"kafka-{version}") / f"kafka-{version}"
    is_2_2 = version == "2.2"
    left_out: dict[str, int] = {}
    identical = different = 0
    for stored, reason in partitions(broker, is_2_2=is_2_2):
        if reason is not None:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        made = tmp_path / stored.name
        made.mkdir()
        config = TopicConfig.resolve(topic_settings[stored.name.rpartition("-")[0]])
        replay(stored, made, config, is_2_2=is_2_2)
        different += assert_same(stored, made, indexes_of_2_2(stored, config) if is_2_2 else {}, is_2_2=is_2_2)
        identical += 1
    reasons = "; ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
    with capsys.disabled():
        print(f"\nkafka-{version}: {identical} partitions identical, {sum(left_out.values())} left out: {reasons}")
    assert (identical, different) == ((31, 10) if is_2_2 else (35, 0))
