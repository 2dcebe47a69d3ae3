"""A run of records as one file: `offset/100..200`, `offset/all`, `by-time/-1h..`, in every form.

A range of times is the range of offsets from the first record that is not before the one time up to the first that is
not before the other, each found as `by-time/<time>` is. Where times are out of order records of other times are among
them, and some of its own may lie outside. A range that is open at its start begins with the log, times or none.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from kafkafs.content.held_files import HeldFiles
from kafkafs.locator.offsets import RecordRange
from kafkafs.locator.paths import OffsetPath
from kafkafs.locator.times import TimeRange
from kafkafs.tree.node import Attributes, File
from kafkafs.tree.options import Damage
from kafkafs.tree.record_run import RecordRun
from kafkafs.tree.rendered_run import RenderedRun, RunReading
from storage.errors import UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer

    from kafkafs.content.patience import Patience
    from kafkafs.locator.paths import TimePath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.visible_log import VisibleLog
    from storage.record import Record

_SIZE_XATTR: Final = "user.kafkafs.size"
_SKIPPED_XATTR: Final = "user.kafkafs.skipped"


class RangeFile(File):
    """The records of a range, cut to what exists. An open end is where the log ends when the file is opened.

    The size is exact, or unknown: while more is to be counted than `stat` may count, and where the range has damage, so
    that no reader takes the damage for the end. Relative times are resolved when the node is made.
    """

    def __init__(
        self, path: OffsetPath | TimePath, source: LogSource, now_ms: int, held: HeldFiles | None = None
    ) -> None:
        self._source = source
        self._held = HeldFiles() if held is None else held
        self._format = path.name.format
        asked = path.name.records if isinstance(path, OffsetPath) else path.name.times
        assert isinstance(asked, RecordRange | TimeRange)
        self._range = asked
        self._now_ms = now_ms
        super().__init__(path, identity=source.visible().identity)

    def attributes(self) -> Attributes:
        """Report the time of the segment with the last record."""
        run = self._source.ask(self._sized)
        segment = self._source.visible().view.segment_of(max(run.end - 1, run.start))
        status = None if segment is None else segment.log_status()
        return Attributes(
            size_bytes=None if run.size is None else run.size.size_bytes,
            modified_ms=0 if status is None else status.modified_ms,
            access=self._source.access(),
        )

    def xattrs(self) -> Mapping[str, bytes]:
        """Report why the size is unknown, if it is, and how many damaged places were left out."""
        size = self._source.ask(self._sized).size
        if size is None:
            return {_SIZE_XATTR: b"pending"}
        if size.size_bytes is None:
            return {_SIZE_XATTR: b"damaged"}
        return {_SKIPPED_XATTR: b"%d" % size.skipped} if self._source.options.damage is Damage.SKIP else {}

    def open(self) -> RangeReading:
        """Open the range as it is now."""
        return RangeReading(self._source.ask(self._sized), self._source, self._held)

    def contents(self) -> Iterator[Buffer]:
        """Yield the records of the range as it is now, and count nothing before they are made."""
        with closing(RangeReading(self._source.ask(self._run), self._source, self._held)) as reading:
            yield from reading.contents()

    def records(self) -> Iterator[Record]:
        """The records as they are now; raises `DamagedError` where damage lies within, unless it is to be skipped."""
        visible = self._source.visible()
        return visible.fresh_copy().records(*self._resolved(visible))

    def _sized(self, visible: VisibleLog) -> RecordRun:
        """The range as it is, with its size if that can be told at once."""
        run = self._run(visible)
        patience = self._source.range_sizes.looks.begin()
        if run.size is None and not patience.is_over and run.log_bytes() <= self._source.options.counted_bytes_max:
            run.count(patience)
            if run.size is None:
                self._source.range_sizes.looks.end(patience)
        return run

    def _run(self, visible: VisibleLog) -> RecordRun:
        return RecordRun(visible, *self._resolved(visible), self._format, self._source)

    def _resolved(self, visible: VisibleLog) -> tuple[int, int]:
        if isinstance(self._range, RecordRange):
            return self._range.resolve(visible.start_offset, visible.end_offset, visible.from_end)
        start_ms, end_ms = self._range.resolve(self._now_ms)
        start = visible.start_offset if self._range.start is None else _first_from(visible, start_ms)
        return start, visible.end_offset if end_ms is None else max(start, _first_from(visible, end_ms))


def _first_from(visible: VisibleLog, time_ms: int) -> int:
    offset = visible.find_timestamp(time_ms)
    return visible.end_offset if offset is None else offset


class RangeReading(RunReading):
    """An open range. It keeps what it had when it was opened."""

    def __init__(self, run: RecordRun, source: LogSource, held: HeldFiles) -> None:
        self._run = run
        self._source = source
        run.hold(held)
        self._known_bytes = None if run.size is None else run.size.size_bytes
        self._rendered = RenderedRun(self._pieces_from)

    def size_bytes(self) -> int | None:
        """The size, which is known from the beginning or once all has been read."""
        return None if self._run.size is None else self._run.size.size_bytes

    def contents(self) -> Iterator[Buffer]:
        """Yield all bytes in order; raises as `read` does."""
        return (data for _, data in self._pieces_from(0))

    def read(self, position: int, size_bytes: int, patience: Patience | None = None) -> Buffer:
        """The bytes from the position; raises `DamagedError` where damage begins, `GoneError` for what was removed."""
        if self._known_bytes is None:
            return self._rendered.read(position, size_bytes, patience)
        size_bytes = min(size_bytes, self._known_bytes - position)
        if size_bytes <= 0:
            return b""
        data = self._rendered.read(position, size_bytes, patience)
        missing_at = position + memoryview(data).nbytes
        if missing_at < position + size_bytes:
            self._rendered.read(missing_at, 1)  # raises the error that the rest has
            raise self._run.gone()
        return data

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """Return the same if it is made already."""
        if self._known_bytes is not None:
            size_bytes = min(size_bytes, self._known_bytes - position)
        return self._rendered.read_soon(position, size_bytes) if size_bytes > 0 else b""

    def reached(self) -> int | None:
        """Return the offset up to which the range was read last."""
        return self._run.reached

    def close(self) -> None:
        """Release the bytes and the files that they are made from."""
        self._run.let_go()
        super().close()

    def _pieces_from(self, position: int) -> Iterator[tuple[int, Buffer]]:
        missing_at = -1
        while True:
            try:
                for start, data in self._run.pieces_from(position):
                    yield start, data
                    position = max(position, start + memoryview(data).nbytes)
            except FileNotFoundError:
                if position == missing_at:
                    raise self._run.gone() from None
                missing_at = position
                self._find_files()
            else:
                return

    def _find_files(self) -> None:
        """Find the files in the directory to which the partition was moved."""
        try:
            _ = self._source.log.view
        except UnknownPartitionError:
            raise self._run.gone() from None
