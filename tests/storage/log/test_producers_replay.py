"""Real logs fed batch by batch give the snapshots and the transaction indexes that the brokers wrote.

Kafka 2.2 differs from 3.9 in two ways. Its markers left a producer's timestamp as the last batch of records had set
it, and so producers expired at a restart that 3.9 would have kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING

import pytest
from memory_logs import check

from storage.files import Files
from storage.log.producers.producers import ProducerStates
from storage.log.producers.snapshot import decode_snapshot, encode_snapshot
from storage.log.producers.state import AppendOrigin, ProducerState
from storage.record import RecordBatch
from storage.segment.scan import LogScan
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Datasets = Callable[[str], Path]

pytestmark = pytest.mark.golden

FILES = Files()
ABORTED = Struct(">hqqqq")
NEVER_MS = 2**62
DAY_MS = 86_400_000

AFTER = "kafka-3.9-recovery/after"
# Partitions with producers, except the compacted one, that the broker appended to or recovered.
WHOLE = {
    ("kafka-3.9", "kafka-3.9/d1/t-idem-0"): 1,
    ("kafka-3.9", "kafka-3.9/d1/t-txn-0"): 5,
    ("kafka-3.9", "kafka-3.9/d1/t-txn-open-0"): 1,
    ("kafka-3.9", "kafka-3.9/d2/t-txn-1"): 4,
    ("kafka-3.9-killed", "kafka-3.9-killed/d1/t-txn-0"): 3,
    ("kafka-3.9-killed", "kafka-3.9-killed/d2/t-txn-1"): 3,
    ("kafka-3.9-recovery", f"{AFTER}/d1/t-txn-0"): 4,
    ("kafka-3.9-recovery", f"{AFTER}/d1/t-txn-open-0"): 1,
    ("kafka-3.9-recovery", f"{AFTER}/d2/t-txn-1"): 4,
    # Recovered when it had been compacted already, so the broker saw what we see.
    ("kafka-3.9-recovery", f"{AFTER}/d2/t-txn-compact-0"): 6,
}
OF_2_2 = {
    ("kafka-2.2", "kafka-2.2/d1/t-idem-0"): 1,
    ("kafka-2.2", "kafka-2.2/d1/t-txn-1"): 3,
    ("kafka-2.2", "kafka-2.2/d1/t-txn-open-0"): 1,
    ("kafka-2.2", "kafka-2.2/d2/t-txn-0"): 5,
}


@dataclass
class Replay:
    """A log fed to `producers`, with the states as they were at each of the broker's snapshots."""

    directory: Path
    producers: ProducerStates
    states: dict[int, list[ProducerState]] = field(default_factory=dict)
    aborted: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)

    def run(self, start: int = 0) -> Replay:
        waiting = sorted(snapshots(self.directory))
        for base, batch in batches(self.directory):
            while waiting and waiting[0] <= batch.base_offset:
                self.states[waiting.pop(0)] = self.producers.states()
            if batch.base_offset >= start:
                completed = self.producers.apply(batch)
                if completed and completed.is_aborted:
                    entry = (
                        completed.producer_id,
                        completed.first_offset,
                        completed.last_offset,
                        completed.last_stable_offset,
                    )
                    self.aborted.setdefault(base, []).append(entry)
        self.states |= {offset: self.producers.states() for offset in waiting if offset <= self.producers.end_offset}
        return self


def snapshots(directory: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in directory.glob("*.snapshot")}


def batches(directory: Path) -> Iterator[tuple[int, RecordBatch]]:
    """The batches of a log with the base offsets of their segments."""
    for path in sorted(directory.glob("*.log")):
        with FILES.open_reading(path) as file:
            for batch in LogScan(file):
                assert isinstance(batch, RecordBatch)
                yield int(path.stem), batch


def transaction_indexes(directory: Path) -> dict[int, list[tuple[int, ...]]]:
    return {
        int(path.stem): [entry[1:] for entry in ABORTED.iter_unpack(path.read_bytes())]
        for path in directory.glob("*.txnindex")
    }


def replay(directory: Path) -> Replay:
    return Replay(directory, ProducerStates(MemoryFiles().directory("/"), expiration_ms=NEVER_MS)).run()


@pytest.mark.parametrize(("name", "partition"), WHOLE)
def test_snapshots_are_the_brokers_to_the_byte(datasets: Datasets, name: str, partition: str) -> None:
    directory = datasets(name) / partition
    written = snapshots(directory)
    states = replay(directory).states
    assert {offset: encode_snapshot(states[offset]) for offset in states} == written
    assert len(written) == WHOLE[name, partition]


@pytest.mark.parametrize(("name", "partition"), OF_2_2)
def test_snapshots_say_what_2_2_knew(datasets: Datasets, name: str, partition: str) -> None:
    """Ours as 2.2 would have had them: no timestamps of markers, and no producer that a restart has found expired."""
    directory = datasets(name) / partition
    written = snapshots(directory)
    states = replay(directory).states
    assert len(written) == len(states) == OF_2_2[name, partition]
    restarted_ms = max(state.last_timestamp for each in states.values() for state in each)
    expired = 0
    for offset, data in written.items():
        of_2_2 = {
            state.producer_id: state._replace(last_timestamp=state.batches[-1].timestamp, batches=state.batches[-1:])
            for state in states[offset]
        }
        found = {state.producer_id: state for state in decode_snapshot(data)}
        missing = of_2_2.keys() - found.keys()
        assert all(of_2_2[producer_id].is_expired(restarted_ms, DAY_MS) for producer_id in missing)
        assert found == {producer_id: state for producer_id, state in of_2_2.items() if producer_id not in missing}
        expired += len(missing)
    assert expired == (4 if partition.endswith("t-txn-0") else 0)


@pytest.mark.parametrize(("name", "partition"), [*WHOLE, *OF_2_2])
def test_aborted_transactions_are_those_of_the_index(datasets: Datasets, name: str, partition: str) -> None:
    directory = datasets(name) / partition
    assert replay(directory).aborted == {base: found for base, found in transaction_indexes(directory).items() if found}


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_the_open_transaction(datasets: Datasets, name: str) -> None:
    producers = replay(datasets(name) / name / "d1" / "t-txn-open-0").producers
    producers.on_high_watermark(producers.end_offset)
    assert producers.end_offset == 40
    assert producers.first_unstable_offset == producers.last_stable_offset(0, 40) == 0
    (state,) = producers.states()
    assert (state.producer_id, state.transaction_offset) == (3, 0)


@pytest.mark.parametrize(("name", "partition"), WHOLE)
def test_every_snapshot_is_a_place_to_go_on_from(datasets: Datasets, name: str, partition: str) -> None:
    """The log truncated to each snapshot, reloaded and fed the rest, has the later snapshots again."""
    directory = datasets(name) / partition
    written = snapshots(directory)
    for start in written:
        files = MemoryFiles()
        for offset, data in written.items():
            with files.open_writing(f"/{offset:020}.snapshot", create=True) as file:
                file.write_at(0, [data])
        producers = ProducerStates(files.directory("/"), expiration_ms=NEVER_MS)
        producers.truncate_and_reload(0, start, now_ms=0)
        assert producers.end_offset == start
        states = Replay(directory, producers).run(start).states
        later = {offset: encode_snapshot(states[offset]) for offset in states if offset >= start}
        assert later == {offset: data for offset, data in written.items() if offset >= start}


def test_a_compacted_log_goes_on_from_what_is_not_compacted(datasets: Datasets) -> None:
    """Its cleaner had come to 1048; before that the log no longer has what the snapshots say."""
    directory = datasets("kafka-3.9") / "kafka-3.9" / "d2" / "t-txn-compact-0"
    written = snapshots(directory)
    files = MemoryFiles()
    with files.open_writing(f"/{1048:020}.snapshot", create=True) as file:
        file.write_at(0, [written[1048]])
    producers = ProducerStates(files.directory("/"), expiration_ms=NEVER_MS)
    producers.truncate_and_reload(0, 1310, now_ms=0)
    rest = Replay(directory, producers).run(1048)
    assert producers.take_snapshot() == 1310
    assert files.read(f"/{1310:020}.snapshot") == written[1310]
    assert rest.aborted == {1048: transaction_indexes(directory)[1048]}


@pytest.mark.parametrize(("name", "partition"), [case for case in (*WHOLE, *OF_2_2) if "compact" not in case[1]])
def test_what_a_leader_took_is_taken(datasets: Datasets, name: str, partition: str) -> None:
    """Every batch passes the checks of its origin, and repeats itself once it is in."""
    producers = ProducerStates(MemoryFiles().directory("/"), expiration_ms=NEVER_MS)
    checked = 0
    for _, batch in batches(datasets(name) / partition):
        origin = AppendOrigin.COORDINATOR if batch.is_control else AppendOrigin.CLIENT
        assert check(producers, batch, origin=origin) is None
        producers.apply(batch)
        if batch.producer_id >= 0 and not batch.is_control:
            repeated = check(producers, batch, origin=origin)
            assert repeated is not None
            assert (repeated.first_offset, repeated.last_offset) == (batch.base_offset, batch.last_offset)
            assert (repeated.first_sequence, repeated.last_sequence) == (batch.base_sequence, batch.last_sequence)
            checked += 1
    assert checked > 0
