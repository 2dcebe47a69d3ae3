"""Lines with much data have room in the memory budget."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from kafkafs.content.pieces import DumpPieces, NamedForm
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.text import TextForm
from storage.budget import MEMORY
from storage.errors import MemoryBudgetError
from storage.record import LeasedBuffer
from storage.testing.batch_codec import OracleRecord, batch_of, encode_batch
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from storage.files import ReadableFile

PATH = "/00000000000000000000.log"
LARGE_BYTES = 3 * 1024 * 1024


def logged(offset: int, *values: bytes) -> bytes:
    records = [OracleRecord(offset=offset + n, timestamp=1, key=b"k", value=value) for n, value in enumerate(values)]
    return encode_batch(batch_of(records))


def file_of(data: bytes) -> ReadableFile:
    files = MemoryFiles()
    with files.open_writing(PATH, create=True) as file:
        file.write_at(0, [data])
    return files.open_reading(PATH)


def test_lines_with_much_data_are_leased_and_given_uncopied_to_readers() -> None:
    value = b"v" * LARGE_BYTES
    data = logged(0, b"first") + logged(1, value, value) + logged(3, b"last")
    left_bytes = MEMORY.left_bytes
    (printed,) = [b"\n".join(itertools.chain.from_iterable(LogDump(file_of(data), NamedForm(), Selection())))]
    assert MEMORY.left_bytes == left_bytes
    pieces = list(DumpPieces().of(file_of(data), 0, len(data), only_sizes=False))
    assert b"".join(piece.data for piece in pieces) == printed + b"\n"
    assert sum(isinstance(piece.data, LeasedBuffer) for piece in pieces) == 2
    assert MEMORY.left_bytes < left_bytes - 2 * LARGE_BYTES
    sizes = list(DumpPieces().of(file_of(data), 0, len(data), only_sizes=True))
    assert sum(piece.size_bytes for piece in sizes) == len(printed) + 1
    del pieces
    assert MEMORY.left_bytes == left_bytes


def test_a_lack_of_memory_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise MemoryBudgetError("other readers have the memory")

    monkeypatch.setattr(MEMORY, "lease", fail)
    data = logged(0, bytes(LARGE_BYTES))
    with pytest.raises(MemoryBudgetError):
        list(LogDump(file_of(data), TextForm(), Selection()))
