"""Real brokers adopt partitions that we wrote, of every kind, and find in them what we find.

A store with every specimen is handed over four times: as it lay when its writer was killed, as it was closed, and the
same again after it was opened once more and every producer went on. Killed, it has no clean marker; then the broker
recovers all of it.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
from consuming import consumed
from memory_logs import StandingClock
from partition_writer import PartitionWriter, open_closed_log
from real_brokers import releases
from specimens import SPECIMENS

from storage.files import Files
from storage.log.view import Isolation
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from consuming import ConsumedRecord
    from real_brokers import RealKafka

    from storage.log.log import Log

READ_BYTES = 20_000  # so that most logs take many fetches
FILES_MAX = 400  # their names are one argument of the real tool's
LAST_SEQUENCE = 2**31 - 1

RECOVERED = re.compile(r"INFO \[LogLoader partition=(\S+)-0, dir=logs\] Recovering unflushed segment (\d+)\. .*")
# All that the real tool prints of files that it has nothing against.
SOUND_DUMP = re.compile(
    r"Dumping \S+"
    r"|\S+ passed sanity check\."
    r"|offset: \d+ position: \d+"
    r"|timestamp: \d+ offset: \d+"
    r"|version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+"
    r"|producerId: \d+ producerEpoch: \d+ coordinatorEpoch: -?\d+ currentTxnFirstOffset: \S+ lastTimestamp: \d+ .*"
)


class Reading(NamedTuple):
    """What we find in a partition."""

    segments: tuple[int, ...]
    log_start_offset: int
    end_offset: int
    last_stable_offset: int
    read_uncommitted: list[ConsumedRecord]
    read_committed: list[ConsumedRecord]


class State(NamedTuple):
    """A log directory, and what is in its partitions, by their topics."""

    log_dir: Path
    is_closed: bool
    readings: dict[str, Reading]


def reading(log: Log) -> Reading:
    view = log.view
    uncommitted, committed = (list(consumed(log, isolation, max_bytes=READ_BYTES)) for isolation in Isolation)
    offsets = (view.start_offset, view.end_offset, view.last_stable_offset)
    return Reading(view.bases, *offsets, uncommitted, committed)


def go_on(writer: PartitionWriter) -> None:
    """End what is open, and have everybody write something more."""
    for state in writer.log.producers.states():
        producer_id, epoch = state.producer_id, state.epoch
        if state.transaction_offset is not None:
            writer.end_transaction(producer_id, committed=producer_id == 1, epoch=epoch)
        writer.begin_at(producer_id, (state.last_sequence + 1) % (LAST_SEQUENCE + 1), epoch=epoch)
        writer.produce(producer_id, 2, epoch=epoch)
    writer.send(writer.rows(3))


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, State]:
    """The store as it was left each time."""
    root = tmp_path_factory.mktemp("states")
    live = root / "live"
    clock = StandingClock()
    given = {"files": Files(), "clock": clock, "open_log": open_closed_log}
    left: dict[str, State] = {}
    writers: dict[str, PartitionWriter] = {}

    def leave(store: Store, name: str) -> None:
        """Copy the store, and close it and copy it again."""
        readings = {topic: reading(writer.log) for topic, writer in writers.items()}
        for topic, writer in writers.items():
            contents = {record.offset: (record.key, record.value, record.headers) for record in readings[topic][4]}
            assert contents == writer.contents, topic
        for is_closed in (False, True):
            if is_closed:
                store.close()
            else:
                store.write_checkpoints()
            state = f"{name}{'closed' if is_closed else 'killed'}"
            left[state] = State(root / state, is_closed, readings)
            shutil.copytree(live, root / state)

    store = Store.create([live], **given)
    for topic, specimen in SPECIMENS.items():
        store.topics.create(topic, 1, dict(specimen.settings))
        writers[topic] = PartitionWriter(store.log(topic, 0), clock, seed=topic)
        specimen.fill(writers[topic])
    leave(store, "")
    store = Store.open([live], mode=Mode.READ_WRITE, **given)
    for topic, writer in writers.items():
        writer.log = store.log(topic, 0)
        go_on(writer)
    leave(store, "reopened-")
    return left


def complaints_of_zeros(closed: State) -> list[str]:
    """A broker's messages about a preallocated log that was not closed, and so has zeros after its last batch.

    It says that of its own logs as well. There is nothing else that it may complain of. A log that is opened again is
    not preallocated any more.
    """
    ours = closed.readings["preallocated"]
    base = ours.segments[-1]
    name = f"preallocated-0/{base:020}.log"
    end_position = (closed.log_dir / name).stat().st_size
    loader = "[LogLoader partition=preallocated-0, dir=logs]"
    return [
        f"WARN Found invalid messages in log segment logs/{name} at byte offset {end_position}.",
        f"WARN {loader} Corruption found in segment {base}, truncating to offset {ours.end_offset}",
    ]


@pytest.mark.parametrize(
    ("state", "version"),
    [
        ("killed", "3.9"),
        ("closed", "3.9"),
        *(("reopened-killed", release) for release in releases("4")),
        *(("reopened-closed", release) for release in releases("3.9")),
    ],
)
def test_a_broker_finds_what_we_find(real_kafka: RealKafka, states: dict[str, State], state: str, version: str) -> None:
    log_dir, is_closed, readings = states[state]
    judged = real_kafka.judge_all([log_dir / f"{topic}-0" for topic in readings], clean=is_closed, version=version)
    for topic, ours in readings.items():
        theirs = judged[f"{topic}-0"]
        assert (theirs.log_start_offset, theirs.end_offset, theirs.last_stable_offset) == ours[1:4], topic
        assert theirs.read_uncommitted == ours.read_uncommitted, topic
        assert theirs.read_committed == ours.read_committed, topic
        recovered = [(match[1], int(match[2])) for line in theirs.broker_log if (match := RECOVERED.fullmatch(line))]
        assert recovered == ([] if is_closed else [(topic, base) for base in ours.segments])
        complaints = [line for line in theirs.broker_log if not RECOVERED.fullmatch(line)]
        expected = complaints_of_zeros(states["closed"]) if (state, topic) == ("killed", "preallocated") else []
        assert complaints == expected, topic


@pytest.mark.parametrize("state", ["closed", "reopened-closed"])
def test_the_real_tool_has_nothing_against_our_indexes(
    real_kafka: RealKafka, states: dict[str, State], state: str
) -> None:
    files = sorted(
        file
        for kind in ("index", "timeindex", "txnindex", "snapshot")
        for file in states[state].log_dir.glob(f"*/*.{kind}")
    )
    empty = {f"{file} is empty." for file in files if file.stat().st_size == 0}
    checked = 0
    for options in ([], ["--index-sanity-check"]):
        for start in range(0, len(files), FILES_MAX):
            printed = real_kafka.dump(*files[start : start + FILES_MAX], options=options).splitlines()
            printed = [line for line in printed if line not in empty]
            assert [line for line in printed if not SOUND_DUMP.fullmatch(line)] == []
            checked += sum(line.startswith("Dumping ") for line in printed)
    assert checked == 2 * len(files)
