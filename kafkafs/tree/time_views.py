"""`by-time/`: links to the first records at or after a time, for times that are asked for or were noted by the log."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkafs.locator.formats import Format
from kafkafs.locator.times import Instant, TimeRange
from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.node import Attributes, Directory, Entry, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import PartitionDirectoryPath, TimePath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.visible_log import VisibleLog

_NAMES_MAX: Final = 1000
_READ_ENTRIES_MAX: Final = 1 << 22  # of time indexes, about 50 MB


class TimeDirectory(Directory):
    """The directory of a log's times."""

    def __init__(self, path: PartitionDirectoryPath, source: LogSource, now_ms: int) -> None:
        self._source = source
        self._visible = source.recent(now_ms)
        super().__init__(path, identity=self._visible.identity)

    def attributes(self) -> Attributes:
        """Report the log's last change, and its directory's owner."""
        return Attributes(modified_ms=self._source.modified_ms(self._visible.view), access=self._source.access())

    def names(self) -> Iterator[str]:
        """Times of the time indexes, ascending: at most a thousand, evenly picked, and each leads to a record."""
        return (entry.name for entry in self._entries(self._source.ask(_times)))

    def walked(self, *, is_sized: bool) -> Iterator[Entry]:  # noqa: ARG002
        """Yield the same names, with the attributes of the links."""
        return self._entries(self._source.ask(_times, self._visible))

    def _entries(self, times: list[tuple[int, int]]) -> Iterator[Entry]:
        for time_ms, offset in times:
            size_bytes = len(_target(offset, Format.VALUE))
            attributes = Attributes(size_bytes=size_bytes, modified_ms=time_ms, access=self._source.access())
            yield Entry(str(Instant(time_ms)), attributes)


class TimeLink(Link):
    """A link from a time to the first visible record at or after it, which is found when the node is made.

    Raises `NotThereError` if there is none.
    """

    def __init__(self, path: TimePath, source: LogSource, now_ms: int) -> None:
        self._source = source
        self._form = path.name.format
        assert not isinstance(path.name.times, TimeRange)
        self._time_ms = path.name.times.resolve(now_ms)
        visible, offset = source.ask(lambda visible: (visible, visible.find_timestamp(self._time_ms)))
        if offset is None:
            raise NotThereError(f"{path}: there is no record at or after that time")
        self._offset = offset
        super().__init__(path, identity=visible.identity)

    def target(self) -> str:
        """The record's file, in the same form."""
        return _target(self._offset, self._form)

    def attributes(self) -> Attributes:
        """Report the time in its name, and the log's directory as owner."""
        return super().attributes()._replace(modified_ms=self._time_ms, access=self._source.access())


def _target(offset: int, form: Format) -> str:
    return f"../offset/{offset}{form}"


def _times(visible: VisibleLog) -> list[tuple[int, int]]:
    """Return times of the time indexes, and the largest of all, each with the offset that it leads to."""
    view = visible.view
    if not view.segments:
        return []
    counts = [part.segment.time_index.entries_count for part in view.slices(visible.start_offset)]
    total = sum(counts)
    # Of indexes that are too large to be read for this, take only the last entry.
    step = -(-total // (_NAMES_MAX - 1)) if total <= _READ_ENTRIES_MAX else None
    times = {view.segments[-1].largest_timestamp[0]}
    slot = 0
    for (segment, _, _), count in zip(view.slices(visible.start_offset), counts, strict=True):
        if step is None:
            times.add(segment.largest_timestamp[0])
        elif count:
            times.update(entry.timestamp for entry in islice(segment.time_index, -slot % step, None, step))
        slot += count
    noted = sorted(time_ms for time_ms in times if time_ms >= 0)
    # A compaction may have removed the records of a noted time, and all that Kafka would find instead.
    found = ((time_ms, _offset(visible, time_ms)) for time_ms in noted[:: -(-len(noted) // _NAMES_MAX) or 1])
    return [(time_ms, offset) for time_ms, offset in found if offset is not None]


def _offset(visible: VisibleLog, time_ms: int) -> int | None:
    try:
        return visible.find_timestamp(time_ms)
    except DamagedError:
        return None
