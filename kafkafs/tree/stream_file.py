"""A log as one growing file: `values`, `keys` and `records.jsonl`."""

from __future__ import annotations

from contextlib import closing, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from kafkafs.content.edges import EDGE_BYTES
from kafkafs.content.seen import tail_damage
from kafkafs.render.batch_lines import new_lines
from kafkafs.tree.errors import GoneError, NarrowedError, TreeError, damaged
from kafkafs.tree.log_source import NUMBERS_BITS
from kafkafs.tree.node import Attributes, File
from kafkafs.tree.options import Damage
from kafkafs.tree.rendered_run import RenderedRun, RunReading
from storage.errors import StorageError, UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Buffer

    from kafkafs.content import CountedLog, SizeCache
    from kafkafs.content.patience import Patience
    from kafkafs.content.positions import Positions
    from kafkafs.content.seen import Seen
    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.options import TreeOptions
    from storage.errors import CorruptBatchError

SIZE_XATTR: Final = "user.kafkafs.size"
SKIPPED_XATTR: Final = "user.kafkafs.skipped"

_WAIT_S: Final = 0.5  # for others who are counting
SEEK_WAIT_S: Final = 3.0
"""The longest wait for the size when a program seeks to the end of an open file."""
TAIL_WAIT_S: Final = 10.0
"""The same for a program that is known to do nothing else."""
_QUESTIONS_BEFORE_SEEK: Final = 2  # by the mount, when it opens the file, and by a program's `fstat`


class StreamFile(File):
    """All visible records, one after another, from where the log began when the node was made.

    The identity changes once the log begins elsewhere, or once records were replaced: under one identity a position
    never changes its meaning. Removed records cannot be read any more; the size only grows. The lineage changes if a
    reader that was at the end cannot go on there.
    """

    def __init__(self, path: PartitionFilePath, source: LogSource, sizes: SizeCache) -> None:
        lines = new_lines(path.view, source.topic, source.partition)
        isolation = source.options.isolation
        form = f"{path.view} {source.topic}-{source.partition}"
        self._counted = sizes.log(source.home, source.log, isolation, form, lines)
        self._seen, self._positions = self._counted.look()
        self._source = source
        self._sizes = sizes
        of_source = source.identity << NUMBERS_BITS
        super().__init__(path, identity=of_source | self._positions.number, lineage=of_source | self._positions.lineage)

    def attributes(self) -> Attributes:
        """Report the time of the active segment."""
        seen, _ = self._counted.look()
        source = self._source
        return Attributes(
            size_bytes=self._size(seen), modified_ms=source.modified_ms(seen.view), access=source.access()
        )

    def xattrs(self) -> Mapping[str, bytes]:
        """Report if the size is unknown, and how many damaged batches were left out."""
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

    def contents(self) -> Iterator[Buffer]:
        """Yield the visible records, and count nothing before they are made."""
        with closing(StreamReading(self._counted, self._positions, self._source, self._sizes)) as reading:
            yield from reading.contents()

    def warm(self, is_cancelled: Callable[[], bool]) -> None:
        """Return when the size is known, unless damage keeps it unknown for ever."""
        self._sizes.count(self._counted, is_cancelled)

    def counting(self) -> tuple[int, int]:
        """Return how many bytes of the log were counted, and how many there are."""
        seen, _ = self._counted.look()
        counted_bytes = self._counted.counted_bytes
        return counted_bytes, counted_bytes + self._counted.uncounted_bytes(seen)

    def _size(self, seen: Seen) -> int | None:
        return exact_size(self._counted, self._positions, seen, self._source.options)


def exact_size(counted: CountedLog, positions: Positions, seen: Seen, options: TreeOptions) -> int | None:
    """Return the size, and count some of the log for it if necessary; None while it is unknown.

    It is None if something cannot be read, so that no reader takes that for the end.
    """
    patience = counted.looks.begin()
    while True:
        seen, files = positions.uncounted(seen)
        if patience.is_over or not 0 < counted.uncounted_bytes(seen, files) <= options.counted_bytes_max:
            break
        if not counted.count(seen, patience.is_lost, files=files, wait_s=_WAIT_S, is_keeping=True):
            counted.looks.end(patience)
            break
    size_bytes = positions.size_bytes(seen)
    if options.damage is Damage.STOP and positions.damage(seen) is not None:
        return None
    return None if size_bytes is None else positions.tell(size_bytes)


def unknown_xattr(size_bytes: int | None, *, is_damaged: bool = False) -> dict[str, bytes]:
    """Return the attribute that says why a size is unknown, if it is."""
    return {SIZE_XATTR: b"damaged" if is_damaged else b"pending"} if size_bytes is None else {}


class StreamReading(RunReading):
    """An open stream. Bytes that a reader was told of keep their positions, and new records follow them.

    Where segments are removed, compacted, truncated or moved meanwhile, it goes on as `Positions` says.
    """

    def __init__(self, counted: CountedLog, positions: Positions, source: LogSource, sizes: SizeCache) -> None:
        self.position = 0
        self._counted = counted
        self._positions = positions
        self._sizes = sizes
        self._options = source.options
        self._path = source.path
        self._rights = source.rights
        self._access = source.access
        self._granted = source.access()
        self._report = source.batches.report
        self._rendered = RenderedRun(self._pieces_from)
        self._may_seek = True  # until it reads or has waited
        self._questions = 0  # for the size
        self.is_about_to_seek = False
        """Set to True if the program that asks next reads the file's end alone."""
        counted.enter(positions, self)

    @property
    def is_size_told(self) -> bool:
        """True once a reader of the log was told the size."""
        return self._positions.told_bytes is not None

    def size_bytes(self) -> int | None:
        """Return the size, which never shrinks or becomes unknown again: while it is counted, the last known one.

        A program that asks again and again before it reads is about to seek to the end, and `tail` says by its name
        that it is. It waits for the count for some seconds, since it would read the whole file without a size. Raises
        `DamagedError` if the log was damaged since.
        """
        self._questions += 1
        positions = self._positions
        told_bytes = positions.told_bytes
        try:
            size_bytes = self._size_bytes(told_bytes)
        except (UnknownPartitionError, FileNotFoundError):
            return told_bytes  # the partition has gone away, or is being moved
        if self._is_narrowed():
            return told_bytes
        if told_bytes is not None and positions.edges.end < told_bytes:
            self._make_edge(max(told_bytes - EDGE_BYTES, 0))
        return size_bytes

    def _size_bytes(self, told_bytes: int | None) -> int | None:
        seen, _ = self._counted.look()
        size_bytes = exact_size(self._counted, self._positions, seen, self._options)
        is_seeking = self.is_about_to_seek or self._questions > _QUESTIONS_BEFORE_SEEK
        if size_bytes is None and told_bytes is None and self._may_seek and is_seeking:
            self._may_seek = False
            self._count_for(seen, TAIL_WAIT_S if self.is_about_to_seek else SEEK_WAIT_S)
            size_bytes = exact_size(self._counted, self._positions, self._counted.look()[0], self._options)
        if size_bytes is None and told_bytes is not None:
            damage = self._positions.damage(seen) if self._options.damage is Damage.STOP else None
            if damage is not None:
                self._meet(damage[1])
            self._sizes.begin(self._counted)
            size_bytes = self._positions.tell(self._positions.counted_bytes())
        return size_bytes

    def _count_for(self, seen: Seen, limit_s: float) -> None:
        """Count the log, or wait until another thread has counted it, for so long at most."""
        end_s = monotonic() + limit_s
        self._counted.count(seen, lambda: monotonic() > end_s, wait_s=limit_s)

    def _make_edge(self, position: int) -> None:
        """Keep the last bytes of the stream for a reader that waits at its end while they are removed."""
        begin = self._positions.parts[-1].begin if self._positions.parts else 0
        for start in {position: None, max(position, begin): None}:
            with suppress(StorageError, TreeError, OSError):  # the read that comes there raises it
                for _ in self._pieces_from(start):
                    pass
                return

    def contents(self) -> Iterator[Buffer]:
        """Yield all bytes in order; raises as `read` does."""
        return (data for _, data in self._pieces_from(0))

    def read(self, position: int, size_bytes: int, patience: Patience | None = None) -> Buffer:
        """The bytes from the position; raises `GoneError` for what was removed, `DamagedError` where damage begins.

        Without a limit it is never short before a size that was told: the kernel would show zeros instead.
        """
        self.position = position
        self._may_seek = False
        try:
            return self._read(position, size_bytes, patience)
        except GoneError:
            head = self._positions.edges.before_part(position)
            if not head:
                raise
            rest = self._read(position + len(head), max(size_bytes - len(head), 0), patience)
            return b"".join((head[:size_bytes], rest))

    def _read(self, position: int, size_bytes: int, patience: Patience | None) -> Buffer:
        data = self._rendered.read(position, size_bytes, patience)
        if patience is not None and patience.is_limited:
            return data
        end = min(position + size_bytes, self._positions.told_bytes or 0)
        while (missing_at := position + memoryview(data).nbytes) < end:  # it may have been made of a shorter log
            more = self._rendered.read(missing_at, position + size_bytes - missing_at, patience)
            if not memoryview(more):
                raise self._gone()
            data = b"".join((data, more))
        return data

    def close(self) -> None:
        """Release the decoded bytes and the held files."""
        self._counted.leave(self._positions, self)
        super().close()

    def _pieces_from(self, position: int) -> Iterator[tuple[int, Buffer]]:
        positions = self._positions
        seen = self._look()
        if self._options.damage is Damage.STOP:
            found = positions.damage(seen)
            if found is not None and position >= found[0]:
                self._meet(found[1])
        number = positions.part_at(position)
        while number < len(positions.parts):
            before = position
            for start, data in self._pieces_of(number, position, seen):
                yield start, data
                position = max(position, start + memoryview(data).nbytes)
            if positions.is_end_of(number, position):  # as after most of very many files
                number += 1
                continue
            looked, seen = seen, self._look()  # which requires that this file was counted to its end
            end = positions.parts[number].end
            if end is None or number + 1 == len(positions.parts):
                return
            if position < end and (position > before or looked.number != seen.number):
                continue  # the log was shorter when that began
            number += 1
            if position < end or position < positions.parts[number].begin:
                raise self._gone()

    def _look(self) -> Seen:
        """Return the log as it is now, or as it last was while its partition is away.

        Raises `NarrowedError` if users may have opened the stream who may not read what was added since.
        """
        before: Seen | None = None
        while True:
            try:
                seen = self._counted.look()[0]
            except UnknownPartitionError:
                return self._positions.seen
            if self._is_narrowed():  # asked after the look: the log may be another one since the last
                raise NarrowedError(f"{self._path}: some users may not read the log any more; open it again")
            try:
                return self._positions.extend(seen)
            except FileNotFoundError:
                if seen is before:
                    raise self._gone() from None
                before = seen

    def _is_narrowed(self) -> bool:
        return self._rights.is_narrower(self._access(), self._granted)

    def _pieces_of(self, number: int, position: int, seen: Seen) -> Iterator[tuple[int, Buffer]]:
        """The pieces of one part, from the position on."""
        part = self._positions.parts[number]
        if part.end is not None and position >= part.end:
            return
        seen = self._positions.newest(seen)  # another thread may have added the part since
        file, counted = seen.newest(part.file), part.counted
        mark = counted.before_rendered(max(position - part.start, 0))
        at, rendered = mark
        with self._counted.opened(file) as opened:
            if opened is None:
                raise self._gone()
            for piece in self._counted.rendered(seen, file, opened, at):
                counted.add(at, piece, opened)
                end = self._positions.parts[number].end
                if piece.damage is not None and (end is None or part.start + rendered < end):
                    self._meet(piece.damage)
                found = _between(part.start + rendered, piece.data, part.begin, end)
                if found is not None:
                    self._positions.edges.remember(*found)
                    yield found
                at, rendered = piece.position, rendered + piece.size_bytes
                if end is not None and part.start + rendered >= end:
                    self._positions.edges.part_begins(end)
                    return
        if part.end is None and not self._counted.count_file(seen, file):
            raise self._gone()
        error = tail_damage(file) if part.end is None else None
        if error is not None:
            self._meet(error)

    def _meet(self, error: CorruptBatchError) -> None:
        """Log the damage, and raise it unless damage is skipped."""
        self._report(error)
        if self._options.damage is Damage.STOP:
            raise damaged(error) from error

    def _gone(self) -> GoneError:
        return GoneError(f"{self._path}: what is read here has been removed since it was opened")


def _between(position: int, data: Buffer, begin: int, end: int | None) -> tuple[int, Buffer] | None:
    """Return the part of bytes at a position that lies from `begin` up to `end`, and where it begins."""
    view = memoryview(data)
    if position >= begin and (end is None or position + view.nbytes <= end):
        return position, data
    start = max(position, begin)
    cut = view[start - position : None if end is None else max(end - position, 0)]
    return (start, cut) if cut else None
