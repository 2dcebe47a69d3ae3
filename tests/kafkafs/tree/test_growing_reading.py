"""Files whose bytes are made as they are read."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

from kafkafs.tree.growing_reading import GrowingReading

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_no_more_is_made_than_is_read() -> None:
    made: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(4):
            made.append(number)
            yield b"%d" % number * 10

    reading = GrowingReading(pieces())
    assert (reading.size_bytes(), reading.read_soon(0, 10)) == (None, None)
    assert reading.read(0, 5) == b"00000"
    assert made == [0]
    assert reading.read_soon(5, 5) == b"00000"
    assert reading.read(8, 8) == b"00" + b"1" * 6
    assert made == [0, 1]
    assert reading.read(35, 100) == b"3" * 5
    assert reading.size_bytes() == 40
    assert reading.read_soon(0, 100) == reading.read(0, 100) == b"".join(b"%d" % number * 10 for number in range(4))
    assert reading.read(40, 1) == b""


def test_a_reader_is_not_kept_waiting_by_one_that_makes_more() -> None:
    is_making, goes_on = Event(), Event()

    def pieces() -> Iterator[bytes]:
        yield b"first"
        is_making.set()
        goes_on.wait()
        yield b"second"

    reading = GrowingReading(pieces())
    assert reading.read(0, 5) == b"first"
    found: list[bytes] = []
    thread = Thread(target=lambda: found.append(reading.read(0, 11)))
    thread.start()
    is_making.wait()
    assert reading.read_soon(0, 5) in {None, b"first"}
    goes_on.set()
    thread.join()
    assert found == [b"firstsecond"]
