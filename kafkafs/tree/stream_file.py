"""A log as one growing file: `values` and `records.jsonl`."""

from __future__ import annotations

from contextlib import suppress
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Final

from kafkafs.locator.paths import PartitionFile
from kafkafs.render.batch_lines import EnvelopeLines, ValueLines
from kafkafs.sizes.positions import EDGE_BYTES, tail_damage
from kafkafs.tree.errors import DamagedError, GoneError, TreeError
from kafkafs.tree.log_source import NUMBERS_BITS
from kafkafs.tree.node import Attributes, File
from kafkafs.tree.options import Damage
from kafkafs.tree.rendered_run import RenderedRun
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Buffer

    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.sizes import CountedLog, SizeCache
    from kafkafs.sizes.positions import Part, Positions, Seen
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.options import TreeOptions
    from storage.errors import CorruptBatchError

SIZE_XATTR: Final = "user.kafkafs.size"
SKIPPED_XATTR: Final = "user.kafkafs.skipped"

_WAIT_S: Final = 0.5  # for others who are counting


class StreamFile(File):
    """All visible records, one after another, from where the log began when the node was made.

    Its identity is another one once the log begins elsewhere, or once records were replaced: positions never mean
    something else under one identity. What is removed cannot be read any more, and the size stays as it was but for
    what is appended. Its lineage is another one where who has read to the end cannot go on there.
    """

    def __init__(self, path: PartitionFilePath, source: LogSource, sizes: SizeCache) -> None:
        lines = ValueLines() if path.file is PartitionFile.VALUES else EnvelopeLines(source.topic, source.partition)
        isolation = source.options.isolation
        form = f"{path.file} {source.topic}-{source.partition}"
        self._counted = sizes.log(source.directory, source.log, isolation, form, lines)
        self._seen, self._positions = self._counted.look()
        self._source = source
        self._sizes = sizes
        of_source = source.identity << NUMBERS_BITS
        super().__init__(path, identity=of_source | self._positions.number, lineage=of_source | self._positions.lineage)

    def attributes(self) -> Attributes:
        """As old as the segment that is appended to."""
        seen, _ = self._counted.look()
        source = self._source
        return Attributes(
            size_bytes=self._size(seen), modified_ms=source.modified_ms(seen.view), place=source.directory
        )

    def xattrs(self) -> Mapping[str, bytes]:
        """Whether the size is unknown, and how many damaged batches were left out."""
        seen, _ = self._counted.look()
        found = unknown_xattr(self._size(seen), is_damaged=self._positions.damage(seen) is not None)
        if self._source.options.damage is Damage.SKIP:
            found[SKIPPED_XATTR] = b"%d" % self._positions.damaged(seen)
        return found

    def open(self) -> StreamReading:
        """Open it; if the size is unknown it is counted from now on."""
        seen, _ = self._counted.look()
        if self._size(seen) is None:
            self._sizes.begin(self._counted)
        return StreamReading(self._counted, self._positions, self._source, self._sizes)

    def warm(self, is_cancelled: Callable[[], bool]) -> None:
        """Return when the size is known, unless damage keeps it unknown for ever."""
        self._sizes.count(self._counted, is_cancelled)

    def counting(self) -> tuple[int, int]:
        """How many bytes of the log were counted, and how many there are."""
        seen, _ = self._counted.look()
        counted_bytes = self._counted.counted_bytes
        return counted_bytes, counted_bytes + self._counted.uncounted_bytes(seen)

    def _size(self, seen: Seen) -> int | None:
        return exact_size(self._counted, self._positions, seen, self._source.options)


def exact_size(counted: CountedLog, positions: Positions, seen: Seen, options: TreeOptions) -> int | None:
    """The size, for which some of the log may be counted; None while it is unknown.

    There is none where something cannot be read, so that nobody takes that for the end.
    """
    if 0 < counted.uncounted_bytes(seen) <= options.counted_bytes_max:
        counted.count(seen, wait_s=_WAIT_S, is_keeping=True)
    size_bytes = positions.size_bytes(seen)
    if options.damage is Damage.STOP and positions.damage(seen) is not None:
        return None
    return None if size_bytes is None else positions.tell(size_bytes)


def unknown_xattr(size_bytes: int | None, *, is_damaged: bool = False) -> dict[str, bytes]:
    """What says why a size is unknown, if it is."""
    return {SIZE_XATTR: b"damaged" if is_damaged else b"pending"} if size_bytes is None else {}


class StreamReading:
    """An open stream."""

    def __init__(self, counted: CountedLog, positions: Positions, source: LogSource, sizes: SizeCache) -> None:
        self._counted = counted
        self._opened, _ = counted.look()
        self._positions = positions
        self._sizes = sizes
        self._options = source.options
        self._path = source.path
        self._report = source.batches.report
        self._run = RenderedRun(self._pieces_from)

    def size_bytes(self) -> int | None:
        """The size, which never becomes less or unknown again: while much is yet to be counted, it is that before it.

        Raises `GoneError` where nobody can go on at the end, and `DamagedError` where damage has come there since.
        """
        positions = self._positions
        told_bytes = positions.told_bytes
        seen, newest = self._counted.look()
        size_bytes = exact_size(self._counted, positions, seen, self._options)
        if not positions.go_on_in(seen):
            raise self._gone()
        first = self._first_position(newest)
        if told_bytes is None:
            return size_bytes
        if size_bytes is None:
            damage = positions.damage(seen) if self._options.damage is Damage.STOP else None
            if damage is not None:
                self._meet(damage[1])
            self._sizes.begin(self._counted)
            size_bytes = positions.tell(positions.counted_bytes())
        if positions.edge.end < told_bytes:
            self._make_edge(max(told_bytes - EDGE_BYTES, first))
        return size_bytes

    def _make_edge(self, position: int) -> None:
        """Have the last bytes of the stream at hand, for who waits at its end while they are removed."""
        with suppress(StorageError, TreeError, OSError):  # whoever reads there is told
            for _ in self._pieces_from(position):
                pass

    def read(self, position: int, size_bytes: int) -> Buffer:
        """The bytes from the position; raises `GoneError` for what was removed, `DamagedError` where damage begins.

        None is missing before a size that was told: the kernel would take it for zeros.
        """
        try:
            return self._read(position, size_bytes)
        except GoneError:
            head = self._in_front_of_rest(position)
            if not head:
                raise
            return b"".join((head[:size_bytes], self._read(position + len(head), max(size_bytes - len(head), 0))))

    def _read(self, position: int, size_bytes: int) -> Buffer:
        data = self._run.read(position, size_bytes)
        end = min(position + size_bytes, self._positions.told_bytes or 0)
        while (missing_at := position + memoryview(data).nbytes) < end:  # what it was made from may have ended earlier
            more = self._run.read(missing_at, position + size_bytes - missing_at)
            if not memoryview(more):
                raise self._gone()
            data = b"".join((data, more))
        return data

    def _in_front_of_rest(self, position: int) -> bytes:
        """What was removed between the position, if a page begins there, and what can be read in the same page."""
        _, newest = self._counted.look()
        first = self._first_position(newest)
        kept = self._positions.threshold.between(position, first)
        return b"" if position % PAGESIZE or kept is None else kept.data

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """The same if it was decoded already."""
        return self._run.read_soon(position, size_bytes)

    def close(self) -> None:
        """Let go of what was decoded."""
        self._run.close()

    def _pieces_from(self, position: int) -> Iterator[tuple[int, Buffer]]:
        positions = self._positions
        seen, newest = self._counted.look()
        positions.extend(seen)
        if position < self._first_position(newest):
            raise self._gone()
        if self._options.damage is Damage.STOP:
            found = positions.damage(seen)
            if found is not None and position >= found[0]:
                self._meet(found[1])
        number = positions.part_at(position)
        while number < len(positions.parts):
            part = positions.parts[number]
            yield from self._pieces_of(part, position, seen)
            positions.extend(seen)  # which takes that this file was counted to its end
            number += 1

    def _first_position(self, newest: Positions) -> int:
        """Where what can still be read begins; raises `GoneError` where nothing can."""
        positions = self._positions
        if newest is positions or not newest.parts:
            return 0
        if all(part.counted.is_void for part in positions.parts):
            raise self._gone()
        first = newest.parts[0]
        part = next((part for part in positions.parts if part.counted is first.counted), None)
        if part is None:
            return 0
        positions.begin_at(part.start - first.start)
        return part.start - first.start

    def _pieces_of(self, part: Part, position: int, seen: Seen) -> Iterator[tuple[int, Buffer]]:
        """The pieces of one file, from one on that begins at or before the position."""
        counted = part.counted
        number = seen.number_of(counted)
        if number is None or counted.is_void:
            seen = self._opened  # what has been replaced since stays for a while, for those who have it open
            number = seen.number_of(counted)
            if number is None:
                raise self._gone()
        file = seen.files[number]
        mark = counted.before_rendered(max(position - part.start, 0))
        at, rendered = mark
        try:
            opened = file.segment.open_log()
        except FileNotFoundError:
            raise self._gone() from None
        with opened:
            if not counted.is_still_in(opened):
                raise self._gone()
            for piece in self._counted.rendered(seen, file, opened, at):
                counted.add(at, piece)
                if piece.damage is not None:
                    self._meet(piece.damage)
                if counted.end.position == piece.position:
                    counted.note(opened, piece.last_batch)
                self._positions.remember(part.start + rendered, piece.data)
                yield part.start + rendered, piece.data
                at, rendered = piece.position, rendered + piece.size_bytes
        if not self._counted.count_file(seen, file):
            raise self._gone()
        error = tail_damage(file)
        if error is not None:
            self._meet(error)

    def _meet(self, error: CorruptBatchError) -> None:
        """Tell of damage, and let it end the reading unless it is to be skipped."""
        self._report(error)
        if self._options.damage is Damage.STOP:
            raise DamagedError(str(error)) from error

    def _gone(self) -> GoneError:
        return GoneError(f"{self._path}: what is read here has been removed since it was opened")
