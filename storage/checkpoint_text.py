"""The text of checkpoints: a version, a count, and one entry a line.

Each checkpoint's own module parses its entries. A file that is absent, empty or ends after its version has no entries;
anything else that a broker would not read is a `CorruptCheckpointError`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from storage.errors import CorruptCheckpointError, NulFilledCheckpointError
from storage.files import CHECKPOINT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from storage.files import Directory

Entry = TypeVar("Entry")

_VERSION: Final = 0
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_LINE_CHARACTERS_MAX: Final = 1024  # room for the name of a topic, two numbers and some blanks
_SPACE: Final = " \t\v\f"
_SPACES: Final = re.compile(f"[{_SPACE}]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")


def read_checkpoint(directory: Directory, name: str, parse: Callable[[list[str]], Entry]) -> list[Entry]:
    """Read the entries of a checkpoint in the file's order, each parsed from its columns.

    `parse` raises `ValueError` if the columns are too many, too few, or not what they should be.
    """
    try:
        data = directory.read_small(name, CorruptCheckpointError, CHECKPOINT_BYTES_MAX)
    except FileNotFoundError:
        return []
    path = directory.path_of(name)
    if data and not data.strip(b"\0"):
        raise NulFilledCheckpointError("the checkpoint holds nothing but NUL bytes", path=path)
    try:
        lines = _LINE_END.split(data.decode())
    except UnicodeDecodeError:
        raise CorruptCheckpointError("the checkpoint is not UTF-8", path=path) from None
    if not lines[-1]:
        del lines[-1]
    if lines and _parsed(lines[0], _number, path) != _VERSION:
        raise CorruptCheckpointError(f"the checkpoint's version is {lines[0]}, known is {_VERSION}", path=path)
    if len(lines) < 2:
        return []
    count = _parsed(lines[1], _number, path)
    entries = [_parsed(line, lambda line: parse(_SPACES.split(line.rstrip(_SPACE))), path) for line in lines[2:]]
    if len(entries) != count:
        raise CorruptCheckpointError(f"the checkpoint has {len(entries)} entries and declares {count}", path=path)
    return entries


def write_checkpoint(directory: Directory, name: str, entries: Collection[tuple[object, ...]]) -> None:
    """Replace a checkpoint atomically and durably; an entry is its columns."""
    lines = [str(_VERSION), str(len(entries)), *(" ".join(map(str, columns)) for columns in entries)]
    directory.replace(name, "".join(f"{line}\n" for line in lines).encode())


def integer(text: str, *, bits: int) -> int:
    """Parse a column as a number of so many bits; raises `ValueError` if it is none."""
    if not _INTEGER.fullmatch(text) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise ValueError(f"{text} is not an integer of {bits} bits")
    return int(text)


def _number(line: str) -> int:
    return integer(line, bits=32)


def _parsed(line: str, parse: Callable[[str], Entry], path: str) -> Entry:
    if len(line) <= _LINE_CHARACTERS_MAX:
        with suppress(ValueError):
            return parse(line)
    raise CorruptCheckpointError(f"the checkpoint has a malformed line {line[:100]!r}", path=path)
