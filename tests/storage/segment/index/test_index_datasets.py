"""Every index that real brokers wrote, read as the real tool reads it, searched, and written again byte for byte."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

import pytest

from storage.errors import CorruptIndexError
from storage.files import Files
from storage.segment.index.entries import AbortedTransaction, OffsetEntry, TimeEntry
from storage.segment.index.offset import OffsetIndexReader, OffsetIndexWriter
from storage.segment.index.time import TimeIndexReader, TimeIndexWriter
from storage.segment.index.txn import TransactionIndexReader, TransactionIndexWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.golden

FILES = Files()
# How many files of each kind there are, so that a set which was not found whole is noticed.
COUNTS = {
    "kafka-2.2": (122, 122, 8),
    "kafka-3.9": (119, 119, 7),
    "kafka-3.9-killed": (119, 119, 7),
    "kafka-3.9-compaction": (36, 36, 0),
    "kafka-3.9-recovery": (236, 236, 14),
}
LINES = {
    ".index": re.compile(r"offset: (-?\d+) position: (-?\d+)"),
    ".timeindex": re.compile(r"timestamp: (-?\d+) offset: (-?\d+)"),
    ".txnindex": re.compile(
        r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    ),
}


class Found(NamedTuple):
    path: Path
    base_offset: int
    lines: list[tuple[int, ...]]  # what the real tool printed
    crashed: bool  # whether it died on the way

    @property
    def contents(self) -> bytes:
        return self.path.read_bytes()


def indexes(root: Path, suffix: str) -> Iterator[Found]:
    for path in sorted(root.rglob(f"*{suffix}")):
        tree = next(parent for parent in path.parents if parent.with_name(f"{parent.name}.dump").is_dir())
        text = tree.with_name(f"{tree.name}.dump") / path.relative_to(tree).with_name(f"{path.name}.txt")
        lines = LINES[suffix].findall(text.read_text()) if text.exists() else []
        found = [tuple(map(int, line)) for line in lines]
        yield Found(path, int(path.name[:20]), found, text.with_name(f"{text.name}.CRASH").exists())


def as_printed(found: Found, entries: Sequence[tuple[int, ...]], slots: int) -> list[tuple[int, ...]]:
    """As the tool goes through a file: it always shows the first slot, and dies where it finds no batch."""
    if not entries and slots:
        entries = [(0, found.base_offset) if found.path.suffix == ".timeindex" else (found.base_offset, 0)]
    return list(entries[: len(found.lines)] if found.crashed else entries)


def around(keys: list[int]) -> set[int]:
    return {near for key in keys for near in (key - 1, key, key + 1)}


@pytest.mark.parametrize("name", COUNTS)
def test_every_set_is_there_whole(datasets: Callable[[str], Path], name: str) -> None:
    root = datasets(name)
    assert tuple(len(list(indexes(root, suffix))) for suffix in LINES) == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_offset_indexes_read_as_the_real_tool_reads_them(datasets: Callable[[str], Path], name: str) -> None:
    for found in indexes(datasets(name), ".index"):
        before = found.path.stat()
        index = OffsetIndexReader.open(*FILES.parent(found.path), found.base_offset)
        entries = list(index)
        assert as_printed(found, entries, before.st_size // 8) == found.lines, found.path
        for offset in around([entry.offset for entry in entries]) | {found.base_offset}:
            expected = max(
                (entry for entry in entries if entry.offset <= offset), default=OffsetEntry(found.base_offset, 0)
            )
            assert index.lookup(offset) == expected, found.path
        after = found.path.stat()
        assert (after.st_mtime_ns, after.st_size, after.st_blocks) == (
            before.st_mtime_ns,
            before.st_size,
            before.st_blocks,
        )


@pytest.mark.parametrize("name", COUNTS)
def test_time_indexes_read_as_the_real_tool_reads_them(datasets: Callable[[str], Path], name: str) -> None:
    for found in indexes(datasets(name), ".timeindex"):
        before = found.path.stat()
        index = TimeIndexReader.open(*FILES.parent(found.path), found.base_offset)
        entries = list(index)
        assert as_printed(found, entries, before.st_size // 12) == found.lines, found.path
        assert index.last_entry == (entries[-1] if entries else (-1, found.base_offset))
        for timestamp in around([entry.timestamp for entry in entries]) | {-1, 0}:
            expected = max(
                (entry for entry in entries if entry.timestamp <= timestamp), default=TimeEntry(-1, found.base_offset)
            )
            assert index.lookup(timestamp) == expected, found.path
        after = found.path.stat()
        assert (after.st_mtime_ns, after.st_size, after.st_blocks) == (
            before.st_mtime_ns,
            before.st_size,
            before.st_blocks,
        )


@pytest.mark.parametrize("name", COUNTS)
def test_transaction_indexes_read_as_the_real_tool_reads_them(datasets: Callable[[str], Path], name: str) -> None:
    for found in indexes(datasets(name), ".txnindex"):
        index = TransactionIndexReader.open(*FILES.parent(found.path), found.base_offset)
        assert list(index) == found.lines, found.path
        assert index.entries_count == len(found.lines)
        index.check()


@pytest.mark.parametrize("name", COUNTS)
def test_offset_indexes_are_written_again_byte_for_byte(
    datasets: Callable[[str], Path], name: str, tmp_path: Path
) -> None:
    for found in indexes(datasets(name), ".index"):
        entries = list(OffsetIndexReader.open(*FILES.parent(found.path), found.base_offset))
        if any(entry.offset < found.base_offset for entry in entries):
            assert (name, found.path.parent.name) == ("kafka-3.9-recovery", "t-none-1")
            continue
        target = tmp_path / "rewritten"
        size_bytes = found.path.stat().st_size // 8 * 8
        index = OffsetIndexWriter.create(*FILES.parent(target), found.base_offset, size_bytes + 15)
        for entry in entries:
            index.append(*entry)
        assert target.stat().st_size == size_bytes + 8
        assert target.read_bytes()[:-8] == found.contents[:size_bytes]
        index.trim()
        assert target.read_bytes() == found.contents[: len(entries) * 8]
        index.close()
        assert target.stat().st_size == len(entries) * 8


@pytest.mark.parametrize("name", COUNTS)
def test_time_indexes_are_written_again_byte_for_byte(
    datasets: Callable[[str], Path], name: str, tmp_path: Path
) -> None:
    for found in indexes(datasets(name), ".timeindex"):
        entries = list(TimeIndexReader.open(*FILES.parent(found.path), found.base_offset))
        target = tmp_path / "rewritten"
        size_bytes = found.path.stat().st_size
        index = TimeIndexWriter.create(*FILES.parent(target), found.base_offset, size_bytes + 23)
        for entry in entries:
            index.maybe_append(*entry)
        assert target.stat().st_size == size_bytes + 12
        assert target.read_bytes()[:-12] == found.contents
        index.close()
        assert target.read_bytes() == found.contents[: len(entries) * 12]


@pytest.mark.parametrize("name", COUNTS)
def test_transaction_indexes_are_written_again_byte_for_byte(
    datasets: Callable[[str], Path], name: str, tmp_path: Path
) -> None:
    for found in indexes(datasets(name), ".txnindex"):
        target = tmp_path / "rewritten"
        target.unlink(missing_ok=True)
        index = TransactionIndexWriter.open(*FILES.parent(target), found.base_offset)
        for transaction in found.lines:
            index.append(AbortedTransaction(*transaction))
        index.close()
        assert (target.read_bytes() if target.exists() else b"") == found.contents


@pytest.mark.parametrize("kind", ["OffsetIndex", "TimeIndex"])
def test_the_tails_that_a_killed_broker_left_are_recognised(
    datasets: Callable[[str], Path], kind: str, tmp_path: Path
) -> None:
    writer: type[OffsetIndexWriter | TimeIndexWriter]
    reader: type[OffsetIndexReader | TimeIndexReader]
    if kind == "OffsetIndex":
        writer, reader, suffix, full_bytes = OffsetIndexWriter, OffsetIndexReader, ".index", 10485760
    else:
        writer, reader, suffix, full_bytes = TimeIndexWriter, TimeIndexReader, ".timeindex", 10485756
    full = 0
    for found in indexes(datasets("kafka-3.9-killed"), suffix):
        contents = found.contents
        entry_bytes = writer.entry_bytes
        # A first slot of zeros is the one line that the tool prints of a tail.
        count = 0 if any(0 in line for line in found.lines[:1]) else len(found.lines)
        target = tmp_path / "copy"
        with target.open("wb") as copy:
            copy.write(contents.rstrip(b"\0"))
            copy.truncate(len(contents))
        index = writer.open(*FILES.parent(target), found.base_offset, full_bytes)
        assert index.entries_count == count, found.path
        assert index.ignored_slots == len(contents) // entry_bytes - count
        assert target.read_bytes() == contents  # opening changed nothing
        reading = reader.open(*FILES.parent(found.path), found.base_offset)
        assert (reading.entries_count, reading.ignored_slots) == (index.entries_count, index.ignored_slots)
        assert list(reading) == list(index)
        full += len(contents) == full_bytes
        index.close()
        assert target.read_bytes() == contents[: count * entry_bytes]
    assert full == 44  # the active segments, less two whose indexes are small


def test_the_checks_find_what_the_real_tool_finds(datasets: Callable[[str], Path]) -> None:
    refused = []
    for name in COUNTS:
        root = datasets(name)
        for found in indexes(root, ".index"):
            try:
                OffsetIndexReader.open(*FILES.parent(found.path), found.base_offset).check()
            except CorruptIndexError as error:
                refused.append(("/".join(found.path.parts[-4:]), error.reason))
        for found in indexes(root, ".timeindex"):
            TimeIndexReader.open(*FILES.parent(found.path), found.base_offset).check()
    # Of the zero tails, which stop the tool's check of a time index, nothing is said: they are known for what they are.
    assert refused == [
        ("before/d1/t-delrec-0/00000000000000000750.index", "the file has 107 bytes, which is not a multiple of 8")
    ]


def test_a_damaged_first_entry_is_shown_as_it_is(datasets: Callable[[str], Path]) -> None:
    path = datasets("kafka-3.9-recovery") / "kafka-3.9-recovery/before/d2/t-none-1/00000000000000000000.index"
    index = OffsetIndexReader.open(*FILES.parent(path), 0)
    entries = list(index)
    assert entries[0] == (-1, -1)
    assert entries[1:] == list(struct.iter_unpack(">ii", path.read_bytes()[8:]))
    assert index.lookup(-1) == (-1, -1)
    assert index.lookup(-2) == (0, 0)
