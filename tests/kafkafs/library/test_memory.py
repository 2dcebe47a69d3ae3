"""What reading takes of memory: the objects of a record at a time, and nothing once it has ended."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hostile.bombs import LZ4, ZSTD, legacy_records, records_batch

import kafkafs
from storage.budget import LIMIT_BYTES_MIN, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1024 * 1024
HEADERS = 20_000
RECORDS = 20


@pytest.fixture
def budget() -> Iterator[None]:
    """Give reading the smallest budget."""
    limit_bytes, MEMORY.limit_bytes = MEMORY.limit_bytes, LIMIT_BYTES_MIN
    yield
    MEMORY.limit_bytes = limit_bytes


def stored(path: Path, batch: bytes) -> Path:
    (path / "bomb-0").mkdir()
    (path / "bomb-0" / f"{0:020}.log").write_bytes(batch)
    return path


def test_the_headers_of_one_record_are_made_at_a_time(tmp_path: Path) -> None:
    """Those of the whole batch would take a hundred times its bytes, and each batch a gigabyte or many."""
    stored(tmp_path, records_batch(ZSTD, RECORDS, headers=HEADERS))
    with kafkafs.open(tmp_path) as store:
        tracemalloc.start()
        try:
            headers = sum(len(record.headers) for record in store["bomb"][0].records())
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert headers == RECORDS * HEADERS
    assert peak_bytes < 10 * MIB


@pytest.mark.usefixtures("budget")
def test_what_was_decoded_is_given_back_with_the_error(tmp_path: Path) -> None:
    """An error that refers to itself keeps the frames it passed, and their memory, until Python looks for cycles."""
    stored(tmp_path, legacy_records(0, LZ4, 500_000))
    gc.collect()
    gc.disable()
    before = MEMORY.left_bytes
    try:
        with kafkafs.open(tmp_path) as store, pytest.raises(kafkafs.CorruptBatchError, match="of the budget no batch"):
            list(store["bomb"][0].records())
        assert MEMORY.left_bytes == before
    finally:
        gc.enable()
