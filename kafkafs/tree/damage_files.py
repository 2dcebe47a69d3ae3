"""`damage.jsonl` and `damage/`: the bytes of a log that do not decode.

Finding them takes decoding the log. Where more than `counted_bytes_max` would have to be read for that, the size of
`damage.jsonl` is unknown until it is opened, and a listing is empty until then. What was found is kept for as long as
the files stay the same.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from kafkafs.damage import range_row
from kafkafs.locator.paths import DamagedRangePath
from kafkafs.locator.views import View
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.known_damage import KnownDamage
from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.node import Attributes, Directory, Entry, File
from kafkafs.tree.walking import is_short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import LogPath, PartitionDirectoryPath
    from kafkafs.tree.log_source import LogSource
    from storage.files import ReadableFile
    from storage.log import LogView
    from storage.verify import Finding

logger = logging.getLogger(__name__)


class DamageFile(LogFact):
    """A line of JSON for each range."""

    _own: KnownDamage | None = None

    def text(self, view: LogView) -> bytes:
        """The lines, for which what is not known of the log yet is read."""
        return b"".join(_line(self._source.path, found) for found in self._damage(view).ranges(view))

    def size_bytes(self, view: LogView) -> int | None:
        """Return the size, unless that takes longer than a `stat` may."""
        return super().size_bytes(view) if self._can_look(view) else None

    def takes_long(self) -> bool:
        """True unless all damage is known, or was found in the time of a `stat`."""
        return not self._source.ask(lambda visible: self._can_look(visible.view))

    def _can_look(self, view: LogView) -> bool:
        """True if all damage is known, or was found in the time of a `stat`."""
        if _is_long_to_read(self._source, view):
            return False
        return _looked(self._source, view, self._damage(view))

    def _damage(self, view: LogView) -> KnownDamage:
        """Return what is known. Of a short log this file keeps it, as its size and its text are asked for together."""
        if self._own is None:
            self._own = _damage_of(self._source, view)
        return self._own


class DamageDirectory(Directory):
    """The ranges by the names that `damage.jsonl` gives them."""

    def __init__(self, path: PartitionDirectoryPath, source: LogSource) -> None:
        super().__init__(path, identity=source.identity)
        self._source = source

    def attributes(self) -> Attributes:
        """Report the log's last change."""
        visible = self._source.visible()
        return Attributes(modified_ms=self._source.modified_ms(visible.view), access=self._source.access())

    def names(self) -> Iterator[str]:
        """Yield the names of all ranges. What is not known yet is read, which may take long."""
        source = self._source
        ranges = source.ask(lambda visible: _damage_of(source, visible.view).ranges(visible.view))
        return (_path(source.path, found).name for found in ranges)

    def entries(self) -> Iterator[Entry]:
        """Yield the same, if finding them takes no more than a `stat` may; otherwise none."""
        return self.walked(is_sized=True)

    def walked(self, *, is_sized: bool) -> Iterator[Entry]:
        """Yield the same; nothing is read for a walk that asks for no sizes."""
        source = self._source
        is_long = source.ask(lambda visible: _is_long_to_list(source, visible.view, is_free=not is_sized))
        if is_long:
            if source.is_first("damage"):
                logger.info("%s lists nothing, as the log was not read; reading %s does", self.path, View.DAMAGE_LIST)
            return iter(())
        return map(Entry, self.names())


def _is_long_to_read(source: LogSource, view: LogView, *, is_free: bool = False) -> bool:
    """True if finding the damage takes reading more than a `stat` may, or anything at all if it has to be free."""
    damage = _damage_of(source, view)
    if damage.is_left_alone(view):
        return True
    return damage.unread_bytes(view) > (0 if is_free else source.options.counted_bytes_max)


def _is_long_to_list(source: LogSource, view: LogView, *, is_free: bool) -> bool:
    if _is_long_to_read(source, view, is_free=is_free):
        return True
    return not is_free and not _looked(source, view, _damage_of(source, view))


def _looked(source: LogSource, view: LogView, damage: KnownDamage) -> bool:
    """Look for the damage, unless that takes longer than a `stat` may."""
    if damage.look(view):
        return True
    source.keep_damage(damage)
    return False


def _damage_of(source: LogSource, view: LogView) -> KnownDamage:
    """Return what is known of the log's damage. Of a short log it is kept only if finding it took long."""
    return KnownDamage() if is_short(view) and not source.keeps_damage else source.damage


class DamagedRangeFile(File):
    """The bytes of a range as they are. Raises `NotThereError` if no range begins at the path's position."""

    def __init__(self, path: DamagedRangePath, source: LogSource) -> None:
        found = source.ask(
            lambda visible: _damage_of(source, visible.view).find(visible.view, path.base_offset, path.position)
        )
        if found is None:
            raise NotThereError(f"{path}: no damaged range begins there; {View.DAMAGE_LIST} has the names of all")
        super().__init__(path, identity=source.identity)
        self._source = source
        self._range = found

    def attributes(self) -> Attributes:
        """Report the size of the range."""
        source = self._source
        start, end = _bounds(self._range)
        modified_ms = source.modified_ms(source.visible().view)
        return Attributes(size_bytes=end - start, modified_ms=modified_ms, access=source.access())

    def open(self) -> _RangeReading:
        """Open the log."""
        file = self._source.log.directory.open_reading(self._range.path)
        return _RangeReading(file, *_bounds(self._range))


class _RangeReading:
    """A range of an open file."""

    def __init__(self, file: ReadableFile, start: int, end: int) -> None:
        self._file = file
        self._start = start
        self._end = end

    def size_bytes(self) -> int:
        """Return the size of the range."""
        return self._end - self._start

    def read(self, position: int, size_bytes: int) -> bytes:
        """The bytes of the range."""
        start = self._start + position
        return bytes(self._file.read_at(start, max(min(size_bytes, self._end - start), 0)))

    def read_soon(self, _position: int, _size_bytes: int) -> None:
        """Return None: the disk may take longer."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _path(log: LogPath, found: Finding) -> DamagedRangePath:
    start, _ = _bounds(found)
    return DamagedRangePath(log, int(found.path.partition(".")[0]), start)


def _bounds(found: Finding) -> tuple[int, int]:
    assert found.position is not None
    assert found.end_position is not None
    return found.position, found.end_position


def _line(log: LogPath, found: Finding) -> bytes:
    row = range_row(found, name=f"{View.DAMAGE}/{_path(log, found).name}")
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
