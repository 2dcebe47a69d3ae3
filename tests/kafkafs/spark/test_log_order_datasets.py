"""What is out of order in logs of real brokers, against what the real kafka-dump-log printed of them."""

from __future__ import annotations

import re
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkafs.spark.jobs.gap_kinds import Gap, GapKind
from kafkafs.spark.jobs.log_order import LogOrder, Stretch
from storage.clock import Clock
from storage.config import TopicConfig
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.split.batches import BatchReader
from storage.split.splits import PartitionPlace, splits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.golden

BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) .* baseSequence: (-?\d+) lastSequence: (-?\d+) producerId: (-?\d+) "
    r"producerEpoch: (-?\d+) .* isControl: (\w+) "
)
RECORD = re.compile(r"^\| offset: (\d+) (\w+): (-?\d+) ")
SIZES = (1, 3000, 2**40)


class Dumped(NamedTuple):
    """What the tool printed of a log: offsets that are there, records' times, and batches of producers."""

    offsets: list[int]
    times: list[tuple[int, int]]
    sequences: list[tuple[tuple[int, int], int, int, int]]


def dumped(directory: Path) -> Dumped:
    found = Dumped([], [], [])
    for path in sorted(directory.glob("*.log.txt")):
        is_control = False
        for line in path.read_text(errors="replace").splitlines():
            if batch := BATCH.match(line):
                first, _, base, last, producer, epoch = map(int, batch.groups()[:6])
                is_control = batch[7] == "true"
                if producer >= 0 and base >= 0:
                    found.sequences.append(((producer, epoch), base, last, first))
            elif line.startswith("offset: "):
                is_control = False
            elif record := RECORD.match(line):
                found.offsets.append(int(record[1]))
                if record[2] == "CreateTime" and int(record[3]) >= 0 and not is_control:
                    found.times.append((int(record[1]), int(record[3])))
    return found


def due(log: Dumped, start: int, end: int) -> list[tuple[object, ...]]:
    offsets = [start - 1, *(offset for offset in log.offsets if offset >= start), end]
    found: list[tuple[object, ...]] = [
        (GapKind.HOLE, offset) for before, after in pairwise(offsets) for offset in range(before + 1, after)
    ]
    last_sequences: dict[tuple[int, int], int] = {}
    for producer, base, last, offset in log.sequences:
        if last_sequences.get(producer, base - 1) != base - 1:
            found.append((GapKind.SEQUENCE_GAP, offset))
        last_sequences[producer] = last
    times = [time for offset, time in log.times if offset >= start]
    steps = [before - after for before, after in pairwise(times) if after < before]
    return [*found, (GapKind.TIME_REGRESSION, len(steps), max(steps))] if steps else found


def found_in(log: FollowedLog, place: PartitionPlace, start: int, size_bytes: int) -> list[Gap]:
    end = log.view.end_offset
    splits = splits_of(log, place, start, end, size_bytes=size_bytes, checks_end=False, on_loss=_refuse)
    order = LogOrder(start_offset=start, threshold_ms=0)
    found: list[Gap] = []
    for number, split in enumerate(splits):
        stretch = Stretch(start_offset=0 if number else start, threshold_ms=0)
        for run in BatchReader(Files(), Clock(), on_loss=_refuse, on_damage=stretch.lose).read(split):
            found += stretch.add(run)
        found += order.add(stretch.ends)
    return [*found, *order.finish(end)]


def as_due(found: list[Gap]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for gap in found:
        if gap.kind is GapKind.HOLE:
            assert gap.first_offset is not None
            assert gap.last_offset is not None
            rows += [(gap.kind, offset) for offset in range(gap.first_offset, gap.last_offset + 1)]
        elif gap.kind is GapKind.TIME_REGRESSION:
            rows.append((gap.kind, gap.extent, gap.regression_ms))
        else:
            rows.append((gap.kind, gap.first_offset))
    return rows


def _refuse(error: Exception) -> None:
    raise error


def logs(root: Path) -> Iterator[tuple[Path, PartitionPlace, FollowedLog]]:
    paths = sorted(path for path in root.rglob("*.log") if path.stem.isdigit())
    for directory, _ in groupby(paths, key=lambda path: path.parent):
        topic, _, number = directory.name.rpartition("-")
        log = FollowedLog(Clock(), Files().directory(directory), TopicConfig.resolve({}), producer_expiration_ms=2**62)
        yield directory, PartitionPlace(str(directory.parent), topic, int(number)), log


@pytest.mark.parametrize(
    ("name", "store"),
    [
        ("kafka-2.2", "kafka-2.2"),
        ("kafka-3.9", "kafka-3.9"),
        ("kafka-3.9-killed", "kafka-3.9-killed"),
        ("kafka-3.9-compaction", "kafka-3.9-compaction-before"),
        ("kafka-3.9-compaction", "kafka-3.9-compaction-after"),
    ],
)
def test_what_the_real_tool_shows_is_found(name: str, store: str, datasets: Callable[[str], Path]) -> None:
    root = datasets(name) / store
    kinds = set()
    for directory, place, log in logs(root):
        dump = dumped(root.with_name(f"{store}.dump") / directory.relative_to(root))
        first = log.view.start_offset
        for start in {first, min(first + 7, log.view.end_offset)}:
            expected = sorted(due(dump, start, log.view.end_offset), key=repr)
            for size_bytes in SIZES:
                found = as_due(found_in(log, place, start, size_bytes))
                assert sorted(found, key=repr) == expected, (directory, start, size_bytes)
            kinds |= {row[0] for row in expected}
        log.close()
    assert GapKind.TIME_REGRESSION in kinds
    assert (GapKind.HOLE in kinds) is (store != "kafka-3.9-compaction-before")


def test_damage_is_reported_and_hides_nothing_after_it(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9-recovery") / "kafka-3.9-recovery" / "before"
    damages = 0
    for directory, place, log in logs(root):
        once, *others = (
            sorted(found_in(log, place, log.view.start_offset, size_bytes), key=repr) for size_bytes in reversed(SIZES)
        )
        assert all(other == once for other in others), directory
        for gap in once:
            if gap.kind is GapKind.DAMAGE:
                assert gap.place is not None
                assert (directory / gap.place.log_name).is_file()
                assert gap.reason
                damages += 1
        log.close()
    assert damages >= 3
