"""Files that are read beside a broker: what they leave in the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

import pytest

from storage.files import Files

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
PAGE_BYTES = 4096
DATA = bytes(range(256)) * (4 * MIB // 256)


def cached_pages(path: Path) -> list[int]:
    """Return where the pages begin that the kernel has in memory. Reading any of them would start reading others."""
    pages = (ctypes.c_ubyte * (len(DATA) // PAGE_BYTES))()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        start = ctypes.c_ubyte.from_buffer(mapped)
        assert (
            ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(DATA)), pages) == 0
        )
        del start
    return [number * PAGE_BYTES for number, page in enumerate(pages) if page & 1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a file of which nothing is in the cache."""
    path = tmp_path / "t-0" / "log"
    path.parent.mkdir()
    path.write_bytes(DATA)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached_pages(path):
        pytest.skip("the file system of temporary files keeps all of them in memory")
    return path


@pytest.mark.parametrize("window", [MIB, 100_001, 5])
def test_what_was_read_is_not_left_in_the_cache(path: Path, window: int) -> None:
    end = min(len(DATA), 400 * window)
    with Files(spares_cache=True).directory(path.parent).open_reading(path.name) as file:
        read = b"".join(file.read_at(position, window) for position in range(0, end, window))
    assert read == DATA[: len(read)]
    assert cached_pages(path) == []


def test_what_was_in_the_cache_stays_there(path: Path) -> None:
    begin, end = MIB + 8192, 2 * MIB + 4096
    with Files().directory(path.parent).open_reading(path.name) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        file.read_at(begin, end - begin)
    due = cached_pages(path)
    assert due == list(range(begin, end, PAGE_BYTES))
    with Files(spares_cache=True).directory(path.parent).open_reading(path.name) as file:
        for position in range(0, len(DATA), MIB // 4):
            assert file.read_at(position, MIB // 4) == DATA[position : position + MIB // 4]
    cached = cached_pages(path)
    assert set(due) <= set(cached)
    assert len(cached) - len(due) < 2 * 32  # the rest of the steps in which the range begins and ends


def test_it_reads_as_any_other_file(path: Path) -> None:
    with Files(spares_cache=True).directory(path.parent).open_reading(path.name) as file:
        for position, size_bytes in (
            (0, 0),
            (0, 1),
            (4095, 2),
            (len(DATA) - 3, 10),
            (len(DATA), 5),
            (len(DATA) + 9, 5),
        ):
            for _ in range(2):
                assert file.read_at(position, size_bytes) == DATA[position : position + size_bytes]
