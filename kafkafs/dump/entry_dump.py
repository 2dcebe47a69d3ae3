"""What the dumps of files other than logs share: one entry a line, and damage where it is found.

Subclasses say what a file's entries are and what they are compared with. A form, `text` or `json_form`, says how a line
looks.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from kafkafs.dump.file_kinds import as_printed
from kafkafs.dump.log_dump import RUN_LINES
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from struct import Struct

    from storage.files import ReadableFile


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a file: the object's type and fields for machines, and the line for people."""

    type: str
    fields: dict[str, Any]
    text: str


class EntryForm(Protocol):
    """Formats the parts of a dump, as lines without their ends."""

    def heading(self, path: str) -> list[bytes]:
        """Return the lines before the first entry."""

    def entry(self, entry: Entry) -> bytes:
        """Return the line of an entry."""

    def damage(self, error: StorageError) -> bytes:
        """Return a line that says what is wrong, and where."""


class EntryDump(ABC):
    """One file's dump; iterate over it once, for runs of lines.

    Damage is a line, after which the dump goes on if it can. Errors of the operating system pass through. `position` is
    how far the dump has come in the file, and `damaged` whether anything was wrong so far.
    """

    def __init__(self, file: ReadableFile, form: EntryForm) -> None:
        self.damaged = False
        self.position = 0
        self._file = file
        self._form = form

    def __iter__(self) -> Iterator[list[bytes]]:
        lines = chain(self._form.heading(self._file.path), map(self._line, self._parts()))
        while run := list(islice(lines, RUN_LINES)):
            yield run

    def report(self) -> Iterator[str]:
        """Return the lines for standard error at the end of the dump."""
        return iter(())

    @abstractmethod
    def _parts(self) -> Iterator[Entry | StorageError]:
        """Yield the entries in order, and errors where they are found."""

    def _line(self, part: Entry | StorageError) -> bytes:
        if isinstance(part, StorageError):
            self.damaged = True
            return self._form.damage(part.located(path=self._file.path))
        return self._form.entry(part)

    @property
    def _absolute_path(self) -> str:
        return as_printed(os.path.join(os.getcwd(), self._file.path))  # noqa: PTH109, PTH118 -- the JVM resolves no `..` either


class SlotDump(EntryDump):
    """The dump of a file of slots of one size. Bytes after the last whole slot are damage, which the report names."""

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
        """Yield each slot's number and fields; fewer if the file is truncated meanwhile."""
        size = self.slot.size
        for first in range(0, self._slots_count, RUN_LINES):
            run = self._file.read_at(first * size, min(RUN_LINES, self._slots_count - first) * size)
            for number in range(first, first + len(run) // size):
                self.position = number * size
                yield number, self.slot.unpack_from(run, (number - first) * size)
