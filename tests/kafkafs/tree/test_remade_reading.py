"""Open files give their bytes to work that needs memory, and make them again."""

from __future__ import annotations

import pytest

from kafkafs.tree.remade_reading import RemadeReading
from storage.budget import MEMORY

pytestmark = pytest.mark.usefixtures("settled_memory")

DATA = bytes(range(256)) * 4096


@pytest.fixture
def made() -> list[int]:
    return []


@pytest.fixture
def reading(made: list[int]) -> RemadeReading:
    def make() -> bytes:
        made.append(1)
        return DATA

    return RemadeReading(make, DATA)


def test_what_was_made_once_is_read(reading: RemadeReading, made: list[int]) -> None:
    assert reading.read(0, 10) == DATA[:10]
    assert reading.read_soon(len(DATA) - 3, 10) == DATA[-3:]
    assert reading.read(len(DATA), 10) == b""
    assert (reading.size_bytes(), made) == (len(DATA), [])


def test_it_is_made_again_after_others_needed_the_memory(reading: RemadeReading, made: list[int]) -> None:
    left_bytes = MEMORY.left_bytes
    MEMORY.shrink_caches()
    assert MEMORY.left_bytes >= left_bytes + len(DATA)
    assert reading.read_soon(5, 10) is None
    assert reading.read(5, 10) == DATA[5:15]
    assert reading.read_soon(5, 10) == DATA[5:15]
    assert len(made) == 1


def test_nothing_is_kept_of_a_closed_file(reading: RemadeReading) -> None:
    left_bytes = MEMORY.left_bytes
    reading.close()
    assert MEMORY.left_bytes == left_bytes + len(DATA)
