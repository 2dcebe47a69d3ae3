"""`info`: a partition in a few lines, without reading its log.

`key=value` lines, in this order. A value that is unknown or unreadable has no line.

    topic, partition, topic.id
    directory               of the partition, in the log directory that holds it
    start.offset            of the first record, or where it was before it was deleted
    end.offset              after the last record
    high.watermark          before which all is replicated, as it was last written down, but not beyond the log's end
    last.stable.offset      before which all transactions are decided; has no line where finding that takes reading
                            much of the log, until somebody has read `transactions` or `producers`
    segments                how many there are
    active.segment          the file that is appended to
    size.bytes              of the segments' batches, with those before the start that are not removed yet
    index.bytes             of their indexes' files
    first.timestamp, first.time     of the first record, in milliseconds since 1970 and as ISO 8601
    last.timestamp, last.time       the largest of all
    leader.epoch            of the last leader that wrote
    is.writable             whether it can be appended to here
    is.poisoned             whether writing failed, so that it takes nothing more until it is recovered
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkafs.locator.paths import PartitionPath
from kafkafs.locator.times import Instant
from kafkafs.tree.log_fact import LOOKED_AT_MAX, LogFact, is_long_to_read
from storage.errors import MemoryBudgetError, StorageError
from storage.files import as_uri
from storage.ids import format_id
from storage.log import read_topic_id
from storage.log_dir import OffsetCheckpoint
from storage.segment import SEGMENT_KINDS, Kind, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.log import LogView

    T = TypeVar("T")


class InfoFile(LogFact):
    """The file `info` of a log."""

    checkpoints = (OffsetCheckpoint.HIGH_WATERMARK,)

    def text(self, view: LogView) -> bytes:
        """The lines whose values are known."""
        lines = (f"{key}={value}\n" for key, value in self._values(view) if value is not None)
        return "".join(lines).encode()

    def _values(self, view: LogView) -> Iterator[tuple[str, object]]:
        view.check_may_go_through()
        source, log = self._source, self._source.log
        yield "topic", source.topic
        yield "partition", source.partition
        yield "topic.id", _if_readable(self._topic_id)
        yield "directory", as_uri(str(source.directory))
        yield "start.offset", view.start_offset
        yield "end.offset", view.end_offset
        yield "high.watermark", self._high_watermark(view)
        yield "last.stable.offset", None if is_long_to_read(source) else view.last_stable_offset
        yield "segments", len(view.segments)
        yield "active.segment", view.segments[-1].name(Kind.LOG) if view.segments else None
        yield "size.bytes", sum(segment.size_bytes for segment in view.segments[:-1]) + view.end_position
        yield "index.bytes", self._index_bytes(view)
        yield from _time("first", _if_readable(lambda: _first_timestamp(view)))
        yield from _time("last", _if_readable(lambda: _largest_timestamp(view)))
        yield "leader.epoch", _if_readable(lambda: log.epochs.latest_epoch)
        yield "is.writable", _text(source.writable is not None)
        yield "is.poisoned", _text(log.is_poisoned)

    def _topic_id(self) -> str | None:
        topic_id = read_topic_id(self._source.log.directory)
        return None if topic_id is None else format_id(topic_id)

    def _high_watermark(self, view: LogView) -> int | None:
        source = self._source
        if not isinstance(source.path, PartitionPath):
            return None  # what is written down is another directory's
        written = source.log_dir.offsets(OffsetCheckpoint.HIGH_WATERMARK).get((source.topic, source.partition))
        # The broker wrote it down seconds ago: a truncation since may have cut the log below.
        return None if written is None else min(written, view.end_offset)

    def _index_bytes(self, view: LogView) -> int:
        kinds = [kind for kind in SEGMENT_KINDS if kind is not Kind.LOG]
        files = ((segment, kind) for segment in view.segments for kind in kinds)
        if len(view.segments) > LOOKED_AT_MAX:  # most of so many lack an index
            names = set(map(str, parsed(self._source.log.directory.names())))
            files = ((segment, kind) for segment, kind in files if segment.name(kind) in names)
        looks = (segment.own_files.status(kind) for segment, kind in files)
        return sum(status.size_bytes for status in looks if status is not None)


def _first_timestamp(view: LogView) -> int:
    offset = view.start_offset
    while (batch := view.find(offset)) is not None:
        for record in batch.records():
            if record.offset >= offset:
                return record.timestamp
        offset = batch.last_offset + 1
    return -1


def _largest_timestamp(view: LogView) -> int:
    return max((segment.largest_timestamp[0] for segment in view.segments), default=-1)


def _time(name: str, timestamp_ms: int | None) -> Iterator[tuple[str, object]]:
    if timestamp_ms is not None and timestamp_ms >= 0:
        yield f"{name}.timestamp", timestamp_ms
        yield f"{name}.time", Instant(timestamp_ms)


def _if_readable(ask: Callable[[], T]) -> T | None:
    """Return the answer, or None if its source is damaged, so that the other lines are shown."""
    try:
        return ask()
    except MemoryBudgetError:
        raise
    except StorageError:
        return None


def _text(is_so: bool) -> str:
    return "true" if is_so else "false"
