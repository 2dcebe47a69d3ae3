"""Files whose bytes are made as they are read, and are not kept."""

from __future__ import annotations

import gc
import weakref
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from kafkafs.tree import passing_reading
from kafkafs.tree.passing_reading import PassingReading

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = b"".join(b"%d" % number * 10 for number in range(4))


@pytest.fixture
def made() -> list[int]:
    """The numbers of the pieces that were made."""
    return []


@pytest.fixture
def reading(made: list[int], monkeypatch: pytest.MonkeyPatch) -> PassingReading:
    monkeypatch.setattr(passing_reading, "_KEPT_BYTES", 5)

    def pieces() -> Iterator[bytes]:
        for number in range(4):
            made.append(number)
            yield b"%d" % number * 10

    return PassingReading(pieces)


def test_no_more_is_made_than_is_read(reading: PassingReading, made: list[int]) -> None:
    assert (reading.size_bytes(), reading.read_soon(0, 10)) == (None, None)
    assert reading.read(0, 5) == TEXT[:5]
    assert made == [0]
    assert reading.read_soon(5, 5) == TEXT[5:10]
    assert reading.read(8, 8) == TEXT[8:16]
    assert made == [0, 1]
    assert reading.read(35, 100) == TEXT[35:]
    assert (reading.size_bytes(), made) == (40, [0, 1, 2, 3])
    assert reading.read_soon(38, 100) == TEXT[38:]
    assert reading.read(40, 1) == reading.read(1000, 1) == b""


def test_it_is_made_again_for_a_reader_that_goes_back(reading: PassingReading, made: list[int]) -> None:
    assert reading.read(30, 5) == TEXT[30:35]
    assert reading.read(26, 4) == TEXT[26:30], "which was kept"
    assert made == [0, 1, 2, 3]
    assert reading.read_soon(0, 5) is None
    assert reading.read(0, 25) == TEXT[:25]
    assert made == [0, 1, 2, 3, 0, 1, 2]
    for position in (39, 0, 12, 38, 3):
        assert reading.read(position, 100) == TEXT[position:]


def test_little_is_kept(reading: PassingReading) -> None:
    for position in range(40):
        assert reading.read(position, 1) == TEXT[position : position + 1]
        assert len(reading._window) <= 20


def test_a_reader_is_not_kept_waiting_by_one_that_makes_more() -> None:
    is_making, goes_on = Event(), Event()

    def pieces() -> Iterator[bytes]:
        yield b"first"
        is_making.set()
        goes_on.wait()
        yield b"second"

    reading = PassingReading(pieces)
    assert reading.read(0, 5) == b"first"
    found: list[bytes] = []
    thread = Thread(target=lambda: found.append(reading.read(0, 11)))
    thread.start()
    is_making.wait()
    assert reading.read_soon(0, 5) is None
    goes_on.set()
    thread.join()
    assert found == [b"firstsecond"]


def test_what_it_is_made_from_is_released_by_closing() -> None:
    class Source:
        pass

    source = Source()
    known = weakref.ref(source)

    def pieces(held: Source = source) -> Iterator[bytes]:
        yield repr(held).encode()

    reading = PassingReading(pieces)
    reading.read(0, 1)
    del source, pieces
    reading.close()
    gc.collect()
    assert known() is None
    assert reading.read(0, 1) in {b"<", b""}


def test_it_is_made_again_after_others_kept_too_much(reading: PassingReading, made: list[int]) -> None:
    assert reading.read(10, 5) == TEXT[10:15]
    reading.drop_kept()
    assert len(reading._window) == 0
    assert reading.read_soon(10, 5) is None
    assert reading.read(15, 10) == TEXT[15:25]
    assert made == [0, 1, 0, 1, 2]
