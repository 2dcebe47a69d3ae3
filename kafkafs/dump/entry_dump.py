"""The common part of the dumps of files other than logs: one entry a line, and damage where it is found.

What a file's entries are, and what they are compared with, is said by the subclasses; how a line looks is left to a
form: `text`, `json_form`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from kafkafs.dump.log_dump import RUN_LINES
from kafkafs.dump.log_names import as_printed
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import ReadableFile


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a file says: the object's type and fields for machines, and the line for people."""

    type: str
    fields: dict[str, Any]
    text: str


class EntryForm(Protocol):
    """Formats the parts of a dump, as lines without their ends."""

    def heading(self, path: str) -> list[bytes]:
        """Return the lines before the first entry."""

    def entry(self, entry: Entry) -> bytes:
        """The entry."""

    def damage(self, error: StorageError) -> bytes:
        """Say what is wrong, and where."""


class EntryDump(ABC):
    """One file's dump; iterate over it once, for runs of lines.

    Damage is a line, and ends nothing that can go on. Errors of the operating system pass through. `position` is where
    in the file the dump has come to, and `damaged` whether anything was wrong so far.
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
        """The entries in order, and what is wrong where it is found."""

    def _line(self, part: Entry | StorageError) -> bytes:
        if isinstance(part, StorageError):
            self.damaged = True
            return self._form.damage(part.located(path=self._file.path))
        return self._form.entry(part)

    @property
    def _absolute_path(self) -> str:
        return as_printed(os.path.join(os.getcwd(), self._file.path))  # noqa: PTH109, PTH118 -- the JVM resolves no `..` either
