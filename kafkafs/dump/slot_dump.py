"""The common part of the dumps of indexes: slots of one size, and perhaps bytes after the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kafkafs.dump.entry_dump import EntryDump
from kafkafs.dump.log_dump import RUN_LINES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from struct import Struct

    from kafkafs.dump.entry_dump import EntryForm
    from storage.files import ReadableFile


class SlotDump(EntryDump):
    """One index's dump. Bytes after the last whole slot are damage, which the report names."""

    slot: ClassVar[Struct]

    def __init__(self, file: ReadableFile, form: EntryForm) -> None:
        super().__init__(file, form)
        self._slots_count, self._trailing_bytes = divmod(file.size_bytes(), self.slot.size)
        self.damaged = self._trailing_bytes > 0

    def report(self) -> Iterator[str]:
        """Report the bytes at the end, which the real tool ignores."""
        if self._trailing_bytes:
            yield f"Found {self._trailing_bytes} bytes after the last entry of {self._absolute_path}"

    def _slots(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Each slot's number and fields; fewer than there were if the file is cut meanwhile."""
        size = self.slot.size
        for first in range(0, self._slots_count, RUN_LINES):
            run = self._file.read_at(first * size, min(RUN_LINES, self._slots_count - first) * size)
            for number in range(first, first + len(run) // size):
                self.position = number * size
                yield number, self.slot.unpack_from(run, (number - first) * size)
