"""Sources of views: of logs in memory, and of those that real brokers wrote, with what a plain scan finds in them."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory

from kafkafs.locator.offsets import RecordRange, parse_offset_name
from kafkafs.locator.paths import OffsetPath, PartitionPath, TimePath, TopicPath
from kafkafs.locator.times import TimeRange, parse_time_name
from kafkafs.tree.log_source import LogSource
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.range_file import RangeFile
from kafkafs.tree.record_file import RecordFile
from kafkafs.tree.rights import Rights
from kafkafs.tree.time_views import TimeLink
from storage.clock import Clock
from storage.config import TopicConfig
from storage.errors import FramingError
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.log_dir.log_dir import LogDir
from storage.record.batch import RecordBatch
from storage.record.control import EndTransactionMarker, decode_control
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.content.held_files import HeldFiles
    from kafkafs.tree.node import Reading
    from storage.log.view import LogView
    from storage.record.kernel.decode import Record
    from storage.record.reading import Batch

WHOLE = (
    "kafka-2.2/kafka-2.2",
    "kafka-3.9/kafka-3.9",
    "kafka-3.9-killed/kafka-3.9-killed",
    "kafka-3.9-compaction/kafka-3.9-compaction-before",
    "kafka-3.9-compaction/kafka-3.9-compaction-after",
    "kafka-3.9-recovery/kafka-3.9-recovery/after",
)
DAMAGED = "kafka-3.9-recovery/kafka-3.9-recovery/before"
_offset = attrgetter("offset")


class Scanned(NamedTuple):
    """A batch, and its visible records."""

    batch: Batch
    segment_name: str
    records: list[Record]


class Views:
    """How nodes are made of logs."""

    whole = WHOLE
    damaged = DAMAGED

    def __init__(self, datasets: Callable[[str], Path]) -> None:
        self._datasets = datasets

    def root(self, name: str) -> Path:
        """The directory of a data set."""
        data_set, _, rest = name.partition("/")
        return self._datasets(data_set) / rest

    def partitions(self, name: str) -> list[Path]:
        """The directories of logs in it."""
        found = {log.parent for log in self.root(name).rglob("*.log") if log.stem.isdigit()}
        return sorted(each for each in found if ".dump" not in str(each))

    def follow(self, directory: Path, options: TreeOptions = TreeOptions()) -> LogSource:  # noqa: B008 -- frozen
        """The log of a real directory."""
        config = TopicConfig.resolve({})
        log = FollowedLog(Clock(), Files().directory(directory), config, producer_expiration_ms=10**9)
        topic, _, partition = directory.name.rpartition("-")
        path = PartitionPath(TopicPath(topic), int(partition))
        return LogSource(
            path,
            topic,
            int(partition),
            directory,
            log,
            options,
            files=Files(),
            log_dir=(log_dir := LogDir(Files().directory(directory.parent))),
            identity=1,
            writable=None,
            rights=Rights([log_dir], is_shared=False),
        )

    def memory(self, lab: LogOnMemory, options: TreeOptions = TreeOptions(), *, is_followed: bool = False) -> LogSource:  # noqa: B008 -- frozen
        """A log in memory, as its writer or as somebody else sees it."""
        followed = FollowedLog(lab.clock, lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=10**9)
        return LogSource(
            PartitionPath(TopicPath("topic"), 0),
            "topic",
            0,
            Path(DIRECTORY),
            followed if is_followed else lab.log,
            options,
            files=lab.files,
            log_dir=(log_dir := LogDir(lab.files.directory("/"))),
            identity=1,
            writable=None if is_followed else lab.log,
            rights=Rights([log_dir], is_shared=False),
        )

    def node(
        self, source: LogSource, name: str, now_ms: int = NOW_MS, *, held: HeldFiles | None = None
    ) -> RecordFile | RangeFile:
        """What has a name in `offset/`."""
        parsed = parse_offset_name(name)
        if isinstance(parsed.records, RecordRange):
            return RangeFile(OffsetPath(source.path, parsed), source, now_ms, held)
        return RecordFile(OffsetPath(source.path, parsed), source, now_ms)

    def by_time(self, source: LogSource, name: str, now_ms: int = NOW_MS) -> TimeLink | RangeFile:
        """What has a name in `by-time/`."""
        parsed = parse_time_name(name)
        kind = RangeFile if isinstance(parsed.times, TimeRange) else TimeLink
        return kind(TimePath(source.path, parsed), source, now_ms)

    def read(self, source: LogSource, name: str) -> bytes:
        """All that a file in `offset/` has, which must be as much as it says."""
        node = self.node(source, name)
        data = self.read_all(node.open())
        assert node.attributes().size_bytes == len(data)
        return data

    def read_all(self, reading: Reading, size_bytes: int = 64 * 1024) -> bytes:
        """Everything, until there is nothing more."""
        data = b""
        while piece := bytes(reading.read(len(data), size_bytes)):
            data += piece
        reading.close()
        return data

    def scan(self, directory: Path, view: LogView, *, is_committed: bool = False) -> list[Scanned]:
        """The batches with visible records, found without any index and filtered as Kafka's consumer does it."""
        batches: list[tuple[str, Batch]] = []
        for log in sorted(log for log in directory.glob("*.log") if log.stem.isdigit()):
            with suppress(FramingError):  # the zeros of a preallocated file
                batches.extend(
                    (log.name, batch) for batch in Segment(Files().directory(directory), int(log.stem)).batches()
                )
        end_offset = view.last_stable_offset if is_committed else view.end_offset
        visible = _committed(batches, view) if is_committed else batches
        found = []
        for name, batch in visible:
            if isinstance(batch, RecordBatch) and batch.is_control:
                continue
            records = [record for record in batch.records() if view.start_offset <= record.offset < end_offset]
            if records:
                found.append(Scanned(batch, name, records))
        return found


def _committed(batches: list[tuple[str, Batch]], view: LogView) -> Iterator[tuple[str, Batch]]:
    """Leave out what is aborted, as a consumer does that has fetched everything at once."""
    aborted = view.aborted(view.start_offset, view.last_stable_offset)
    to_come = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    for name, batch in batches:
        if isinstance(batch, RecordBatch):
            while to_come and to_come[-1].first_offset <= batch.last_offset:
                aborting.add(to_come.pop().producer_id)
            if batch.is_control:
                first = next(batch.records(), None)
                control = None if first is None else decode_control(first.key, first.value)
                if isinstance(control, EndTransactionMarker) and not control.committed:
                    aborting.discard(batch.producer_id)
                continue
            if batch.is_transactional and batch.producer_id in aborting:
                continue
        yield name, batch


def between(scanned: list[Scanned], start: int, end: int) -> list[Record]:
    """The records from one offset up to another."""
    records = [record for each in scanned for record in each.records]
    return records[bisect_left(records, start, key=_offset) : bisect_left(records, end, key=_offset)]


@pytest.fixture(scope="session")
def views(datasets: Callable[[str], Path]) -> Views:
    """How nodes are made, and what they ought to have."""
    return Views(datasets)
