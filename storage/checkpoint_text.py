"""The text of checkpoints: a version, a count, and one entry a line.

The kernel parses the entries of offsets and of epochs; a dump parses any. A file that is absent, empty or ends after
its version has no entries; anything else that a broker would not read is a `CorruptCheckpointError`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from storage.errors import CorruptCheckpointError, NulFilledCheckpointError
from storage.files import CHECKPOINT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from storage.files import Directory

Entry = TypeVar("Entry")
Table = TypeVar("Table", bound="ParsedLines")

_VERSION: Final = 0
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BEGINNING_LINE: Final = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_BEGINNING_LINES: Final = 2
_BLOCK_CHARACTERS: Final = 64 * 1024
"""How much is split at once: a file may have a million lines, and other threads wait while one works on all of them."""
_LINE_CHARACTERS_MAX: Final = 1024  # room for the name of a topic, two numbers and some blanks
_SPACE: Final = " \t\v\f"
_UNUSUAL: Final = re.compile(r"[\t\v\f\r]|  | \n| \Z")  # what brokers and kafkafs do not write
_SPACES: Final = re.compile(f"[{_SPACE}]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_SURE_DIGITS: Final = {32: 9, 64: 18}  # by bits: no number of so many digits is too large


class ParsedLines(Protocol):
    """The lines that the kernel read, up to the first malformed one, which begins at `wrong_at`; -1 without one."""

    @property
    def lines(self) -> int:
        """Return how many were read."""

    @property
    def wrong_at(self) -> int:
        """Return where the malformed one begins."""


def read_checkpoint_data(directory: Directory, name: str) -> bytes:
    """Read the bytes of a checkpoint; none if there is no file."""
    try:
        return directory.read_small(name, CorruptCheckpointError, CHECKPOINT_BYTES_MAX)
    except FileNotFoundError:
        return b""


def parse_checkpoint(data: bytes, path: str, parse: Callable[[list[str]], Entry]) -> Iterator[Entry]:
    """Yield the entries in the bytes of a checkpoint, each parsed from its columns, up to the first wrong line.

    `parse` raises `ValueError` if the columns are too many, too few, or not what they should be.
    """
    declared, start = _beginning(data, path)
    count = 0
    for lines, is_plain in _blocks(data[start:].decode(), path):
        for line in lines:
            try:
                entry = parse(line.split(" ") if is_plain else _SPACES.split(line.rstrip(_SPACE)))
            except ValueError:
                raise _malformed(line, path) from None
            yield entry
        count += len(lines)
    _check_count(count, declared, path)


def _beginning(data: bytes, path: str) -> tuple[int, int]:
    """Return how many entries the bytes of a checkpoint declare, and where the first one begins.

    The lines after that are left to the caller, who parses them as `parse_checkpoint` does.
    """
    if data and not data.strip(b"\0"):
        raise NulFilledCheckpointError("the checkpoint holds nothing but NUL bytes", path=path)
    try:
        data.decode()
    except UnicodeDecodeError:
        raise CorruptCheckpointError("the checkpoint is not UTF-8", path=path) from None
    numbers: list[int] = []
    at = 0
    while at < len(data) and len(numbers) < _BEGINNING_LINES:
        line = _BEGINNING_LINE.match(data, at)
        assert line is not None
        numbers.append(_parsed(line[1].decode(), path))
        at = line.end()
        if numbers[0] != _VERSION:
            raise CorruptCheckpointError(
                f"the checkpoint's version is {line[1].decode()}, known is {_VERSION}", path=path
            )
    return numbers[1] if len(numbers) == _BEGINNING_LINES else 0, at


def read_table(make: Callable[[bytes, int], Table], data: bytes, path: str) -> Table:
    """Return the kernel's table of the entries in the bytes of a checkpoint; raises what `parse_checkpoint` raises."""
    declared, start = _beginning(data, path)
    table = make(data, start)
    if table.wrong_at >= 0:
        line = _BEGINNING_LINE.match(data, table.wrong_at)
        assert line is not None
        raise _malformed(line[1].decode(), path)
    _check_count(table.lines, declared, path)
    return table


def _check_count(lines: int, declared: int, path: str) -> None:
    """Raise an error unless a checkpoint has as many entries as it declares."""
    if lines != declared:
        raise CorruptCheckpointError(f"the checkpoint has {lines} entries and declares {declared}", path=path)


def _blocks(text: str, path: str) -> Iterator[tuple[list[str], bool]]:
    """Yield some lines at a time, and whether their columns have one space between two, as brokers write them."""
    at = 0
    while at < len(text):
        last = _LINE_END.search(text, min(at + _BLOCK_CHARACTERS, len(text)))
        end = len(text) if last is None else last.end()
        block, at = text[at:end], end
        is_plain = not _UNUSUAL.search(block)
        lines = block.split("\n") if is_plain else _LINE_END.split(block)
        if not lines[-1]:
            del lines[-1]
        too_long = next((line for line in lines if len(line) > _LINE_CHARACTERS_MAX), None)
        if too_long is not None:
            raise _malformed(too_long, path)
        yield lines, is_plain


def write_checkpoint(directory: Directory, name: str, entries: Collection[tuple[object, ...]]) -> None:
    """Replace a checkpoint atomically and durably; an entry is its columns."""
    lines = [str(_VERSION), str(len(entries)), *(" ".join(map(str, columns)) for columns in entries)]
    directory.replace(name, "".join(f"{line}\n" for line in lines).encode())


def integer(text: str, *, bits: int) -> int:
    """Parse a column as a number of so many bits; raises `ValueError` if it is none."""
    if len(text) <= _SURE_DIGITS[bits] and text.isdecimal() and text.isascii():  # as nearly all are
        return int(text)
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"{text} is not an integer of {bits} bits")
    return value


def _parsed(line: str, path: str) -> int:
    try:
        return integer(line, bits=32)
    except ValueError:
        raise _malformed(line, path) from None


def _malformed(line: str, path: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(f"the checkpoint has a malformed line {line[:100]!r}", path=path)
