"""The lines of a manifest, and each value out of them, which is checked: a user who may write the run can change it.

A line is JSON as `ManifestWriter` writes it, in ASCII and without fractions, and no longer than one of the largest
partition that a broker has: 32,765 segments of five files, each with its damage, come to half of the limit. Python
takes some hundred bytes for a value, so they are counted before any is made.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from storage.log_dir import is_topic_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

T = TypeVar("T")

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
VERSION: Final = 1

_VALUES_MAX: Final = 2_000_000
_PARTITIONS_END: Final = 2**31
_NUMBERS_END: Final = 2**63
_INODES_END: Final = 2**64
_DIGITS_MAX: Final = 20  # of a number of 64 bits
_NAME_BYTES_MAX: Final = 255
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_NO_NAMES: Final = frozenset({"", ".", ".."})


class SourceFile(NamedTuple):
    """What tells whether a file of a store is still the one that was copied: its inode, size and time of change."""

    inode: int
    size_bytes: int
    changed_ns: int


class RunFile(NamedTuple):
    """A file of a run. `source` is None for one that was made for the run, or whose source was changing."""

    name: str
    size_bytes: int
    sha256: str
    source: SourceFile | None = None

    def to_json(self) -> dict[str, object]:
        """Return the file as the manifest has it."""
        said: dict[str, object] = {"name": self.name, "bytes": self.size_bytes, "sha256": self.sha256}
        return said if self.source is None else {**said, "source": list(self.source)}

    @classmethod
    def from_json(cls, said: object) -> Self:
        """Return the file that the manifest describes; raises `ValueError`."""
        file = _of_kind(said, dict, "a file in it is no object")
        sha256 = _text(file, "sha256")
        if not _SHA256.fullmatch(sha256):
            raise ValueError("a checksum in it is none")
        return cls(_file_name(file), _number(file, "bytes"), sha256, _source(file.get("source")))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPartition:
    """A partition of a run: its offsets, its files, and what was found damaged in the source and copied as it is.

    `high_watermark` is what the copy was to go up to; None if it goes to the end of the log. `above_high_watermark` is
    how many offsets of the log were left out for it; 0 in the manifest of a version that did not count them.
    """

    topic: str
    partition: int
    topic_id: str | None
    log_dir: str
    start_offset: int
    end_offset: int
    high_watermark: int | None
    above_high_watermark: int
    first_dirty_offset: int | None
    files: tuple[RunFile, ...]
    damage: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> dict[str, object]:
        """Return the partition as a line of the manifest."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "topicId": self.topic_id,
            "logDir": self.log_dir,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "highWatermark": self.high_watermark,
            "aboveHighWatermark": self.above_high_watermark,
            "firstDirtyOffset": self.first_dirty_offset,
            "damage": list(self.damage),
            "files": [file.to_json() for file in self.files],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Return the partition that a line of the manifest describes; raises `ValueError`."""
        topic = _text(said, "topic")
        if not is_topic_name(topic):
            raise ValueError("a topic in it has no topic's name")
        return cls(
            topic=topic,
            partition=_number(said, "partition", _PARTITIONS_END),
            topic_id=None if said.get("topicId") is None else _text(said, "topicId"),
            log_dir=_text(said, "logDir"),
            start_offset=_number(said, "startOffset"),
            end_offset=_number(said, "endOffset"),
            high_watermark=_number_if_any(said, "highWatermark"),
            above_high_watermark=_number_if_any(said, "aboveHighWatermark") or 0,
            first_dirty_offset=_number_if_any(said, "firstDirtyOffset"),
            damage=_texts(said, "damage"),
            files=_files(said),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTail:
    """What the last line says of the whole run: its size, the partitions that went again, and the files at its top."""

    copied_bytes: int
    linked_bytes: int
    removed: frozenset[str]
    failures: tuple[str, ...]
    files: tuple[RunFile, ...]

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Return what the last line says; raises `ValueError`."""
        return cls(
            copied_bytes=_number(said, "copiedBytes"),
            linked_bytes=_number(said, "linkedBytes"),
            removed=frozenset(_texts(said, "removed")),
            failures=_texts(said, "failures"),
            files=_files(said),
        )


def line_of(said: Mapping[str, object]) -> bytes:
    """Return a line of a manifest."""
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def parse_line(line: bytes) -> dict[str, Any]:
    """Return what a line says, of which each value is still to be checked; raises `ValueError`."""
    if sum(map(line.count, (b",", b"[", b"{"))) > _VALUES_MAX:
        raise ValueError("a line in it has more values than a partition")
    try:
        text = line.decode("ascii")
        said: object = json.loads(text, parse_int=_integer, parse_float=_refused, parse_constant=_refused)
    except (ValueError, RecursionError):
        said = None
    return _of_kind(said, dict, "a line in it is no JSON object")


def check_version(said: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless the first line is one of this version."""
    version = said.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"its version is {str(version)[:20]}, known is {VERSION}")


def _of_kind(value: object, kind: type[T], refusal: str) -> T:
    if isinstance(value, kind):
        return value
    raise ValueError(refusal)


def _integer(text: str) -> int:
    if len(text) > _DIGITS_MAX:
        _refused(text)
    return int(text)


def _refused(_: str) -> NoReturn:
    raise ValueError("no number of 64 bits")


def _number(said: Mapping[str, Any], key: str, end: int = _NUMBERS_END) -> int:
    return _checked(said.get(key), key, 0, end)


def _number_if_any(said: Mapping[str, Any], key: str) -> int | None:
    return None if said.get(key) is None else _number(said, key)


def _checked(value: object, key: str, least: int, end: int) -> int:
    if type(value) is not int or not least <= value < end:
        raise ValueError(f"{key} in it is no number, or out of range")
    return value


def _text(said: Mapping[str, Any], key: str) -> str:
    return _checked_text(said.get(key), key)


def _checked_text(value: object, key: str) -> str:
    """Return a text that can be printed, or be a path: one of a path has a half of a surrogate for each other byte."""
    if isinstance(value, str) and "\0" not in value:
        try:
            value.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise ValueError(f"{key} in it is no text")


def _texts(said: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(_checked_text(each, key) for each in _list(said, key))


def _list(said: Mapping[str, Any], key: str) -> list[Any]:
    return _of_kind(said.get(key, []), list, f"{key} in it is no list")


def _files(said: Mapping[str, Any]) -> tuple[RunFile, ...]:
    if "files" not in said:
        raise ValueError("a line in it lacks its files")
    return tuple(map(RunFile.from_json, _list(said, "files")))


def _file_name(said: Mapping[str, Any]) -> str:
    """Return a name that is one component of a path, and leads nowhere else."""
    name = _text(said, "name")
    if name in _NO_NAMES or "/" in name or not name.isascii() or len(name) > _NAME_BYTES_MAX:
        raise ValueError("a file in it has no file's name")
    return name


def _source(said: object) -> SourceFile | None:
    if said is None:
        return None
    inode, size_bytes, changed_ns = _of_kind(said, list, "a source in it is no list")
    return SourceFile(
        _checked(inode, "a source", 0, _INODES_END),
        _checked(size_bytes, "a source", 0, _NUMBERS_END),
        _checked(changed_ns, "a source", -_NUMBERS_END, _NUMBERS_END),
    )
