"""Rendered bytes read in any order are the bytes; what cannot be made is an error where it is, and nowhere else."""

from __future__ import annotations

from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.content.descriptor_memory import KeptMemory
from kafkafs.content.patience import Patience
from kafkafs.tree import rendered_run
from kafkafs.tree.rendered_run import AHEAD_BYTES, OVERTAKEN_BYTES, RenderedRun
from storage.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = bytes(index % 251 for index in range(5000))


class Pieces:
    """Pieces of one size from any place that is a multiple of `step`."""

    def __init__(self, data: bytes, step: int, size: int, *, fails_at: int | None = None) -> None:
        self.data = data
        self.made: list[int] = []
        self._step = step
        self._size = size
        self._fails_at = fails_at

    def __call__(self, position: int) -> Iterator[tuple[int, bytes]]:
        at = min(position, len(self.data)) // self._step * self._step
        end = len(self.data) if self._fails_at is None else self._fails_at
        while at < end:
            self.made.append(at)
            data = self.data[at : min(at + self._size, end)]
            yield at, data
            at += len(data)
        if self._fails_at is not None:
            raise ValueError("no further")


READS = st.lists(st.tuples(st.integers(0, 5200), st.integers(0, 700)), max_size=30)


@given(READS, st.integers(1, 2000), st.integers(1, 900))
def test_any_order_gives_the_bytes(reads: list[tuple[int, int]], step: int, size: int) -> None:
    run = RenderedRun(Pieces(DATA, step, size))
    for position, size_bytes in reads:
        soon = run.read_soon(position, size_bytes)
        assert soon is None or bytes(soon) == DATA[position : position + size_bytes]
        assert bytes(run.read(position, size_bytes)) == DATA[position : position + size_bytes]


@given(READS, st.integers(1, 2000), st.integers(1, 900), st.integers(0, 5000))
def test_what_fails_gives_everything_before_it(
    reads: list[tuple[int, int]], step: int, size: int, fails_at: int
) -> None:
    run = RenderedRun(Pieces(DATA, step, size, fails_at=fails_at))
    for position, size_bytes in reads:
        if position < fails_at:
            assert bytes(run.read(position, size_bytes)) == DATA[position : min(position + size_bytes, fails_at)]
        elif size_bytes and position > fails_at:
            with pytest.raises(ValueError, match="no further"):
                run.read(position, size_bytes)


def test_reading_on_makes_every_piece_once_and_some_of_them_ahead() -> None:
    pieces = Pieces(bytes(8 * AHEAD_BYTES), 1000, 100_000)
    run = RenderedRun(pieces, later=lambda work: work())
    position, soon = 0, 0
    while True:
        data = run.read_soon(position, 128 << 10)
        soon += data is not None
        data = run.read(position, 128 << 10) if data is None else data
        if not memoryview(data):
            break
        position += len(memoryview(data))
    assert position == len(pieces.data)
    assert pieces.made == sorted(set(pieces.made))
    assert soon > 48


def test_what_grows_goes_on_where_it_ended() -> None:
    pieces = Pieces(DATA[:1000], 100, 300)
    run = RenderedRun(pieces)
    assert bytes(run.read(900, 200)) == DATA[900:1000]
    assert bytes(run.read(1000, 10)) == b""
    pieces.data = DATA
    assert bytes(run.read(1000, 10)) == DATA[1000:1010]
    assert bytes(run.read(950, 100)) == DATA[950:1050]


@given(READS, st.integers(1, 2000), st.integers(1, 900))
def test_without_patience_a_read_has_some_bytes_unless_it_is_at_the_end(
    reads: list[tuple[int, int]], step: int, size: int
) -> None:
    run = RenderedRun(Pieces(DATA, step, size), later=lambda _: None)
    for position, size_bytes in reads:
        found, expected = bytes(run.read(position, size_bytes, Patience(-1.0))), DATA[position : position + size_bytes]
        assert expected.startswith(found)
        assert bool(found) == bool(expected)


def test_without_patience_a_read_makes_one_piece() -> None:
    pieces = Pieces(DATA, 1, 100)
    run = RenderedRun(pieces, later=lambda _: None)
    assert bytes(run.read(0, 1000, Patience(-1.0))) == DATA[:100]
    assert bytes(run.read(100, 1000, Patience(-1.0))) == DATA[100:200]
    assert bytes(run.read(200, 1000, Patience(60.0))) == DATA[200:1200]
    assert pieces.made == list(range(0, 1200, 100))


def test_what_is_held_stays_small() -> None:
    pieces = Pieces(bytes(32 * AHEAD_BYTES), 1, 64 << 10)
    run = RenderedRun(pieces, later=lambda work: work())
    for position in range(0, len(pieces.data), 128 << 10):
        run.read(position, 128 << 10)
        assert sum(len(chunk.data) for chunk in run._chunks) < OVERTAKEN_BYTES + 2 * AHEAD_BYTES
    run.close()
    assert run._chunks == ()


class ClosingLock:
    """A lock under which the run is closed at the last moment before it is released."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.run: RenderedRun | None = None
        self.acquire = self._lock.acquire

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        if self.run is not None:
            self.run.close()
        self._lock.release()


@pytest.mark.parametrize("is_closed_by", ["a read", "pieces made ahead"])
def test_closing_while_pieces_are_made_keeps_none_of_them(is_closed_by: str) -> None:
    ahead: list[Callable[[], None]] = []
    run = RenderedRun(Pieces(bytes(8 * AHEAD_BYTES), 1, 64 << 10), later=ahead.append)
    run._making = lock = ClosingLock()  # type: ignore[assignment]
    run.read(0, 1000)
    assert ahead
    assert run._chunks
    lock.run = run
    if is_closed_by == "a read":
        run.read(1000, AHEAD_BYTES)
    else:
        ahead[0]()
    assert run._chunks == ()


def test_a_read_reaches_what_was_there_when_it_began() -> None:
    """The maker of pieces knows only what existed when it began, perhaps some reads ago."""
    data = bytearray(DATA)

    def pieces_from(position: int) -> Iterator[tuple[int, bytes]]:
        end = len(data)
        for at in range(position // 1000 * 1000, end, 1000):
            yield at, bytes(data[at : min(at + 1000, end)])

    run = RenderedRun(pieces_from)
    assert bytes(run.read(100, 500)) == DATA[100:600]
    data += b"x" * 700
    assert bytes(run.read(600, 5100)) == bytes(data[600:])
    data += b"y" * 5000
    assert bytes(run.read(5700, 5000)) == bytes(data[5700:])


def test_a_read_that_overtakes_others_has_nothing_made_twice() -> None:
    pieces = Pieces(bytes(range(256)) * (8 * AHEAD_BYTES // 256), 1000, 100_000)
    run = RenderedRun(pieces)
    read_bytes = 128 << 10
    for block in range(0, len(pieces.data) // read_bytes, 4):
        for overtaking in (0, 3, 1, 2):
            position = (block + overtaking) * read_bytes
            assert bytes(run.read(position, read_bytes)) == pieces.data[position : position + read_bytes]
    assert pieces.made == sorted(set(pieces.made))


@pytest.mark.parametrize("is_under_way", [False, True])
def test_what_was_removed_before_it_does_not_keep_a_read_from_its_bytes(*, is_under_way: bool) -> None:
    first_left = 0

    def pieces_from(position: int) -> Iterator[tuple[int, bytes]]:
        for at in range(position // 100 * 100, len(DATA), 100):
            if at < first_left:
                raise ValueError("it has been removed")
            yield at, DATA[at : at + 100]

    run = RenderedRun(pieces_from)
    last = 250 if is_under_way else 5100  # at the end nothing is under way
    assert bytes(run.read(100, last - 100)) == DATA[100:last]
    first_left = 4000
    if not is_under_way:
        run.close()
    assert bytes(run.read(4000, 500)) == DATA[4000:4500]
    with pytest.raises(ValueError, match="removed"):
        run.read(3000, 10)


def test_many_runs_keep_a_bounded_number_of_bytes() -> None:
    budget = Budget(64 << 20)
    assert budget.take(64 << 20)
    kept = KeptMemory(4 << 20, budget=budget)
    runs = [RenderedRun(Pieces(DATA * 100, 1, 64 << 10), later=lambda _: None, kept=kept) for _ in range(100)]
    for run in runs:
        assert bytes(run.read(0, 1)) == DATA[:1]
        assert kept.kept_bytes <= 4 << 20
    assert runs[0].read_soon(0, 1) is None, "it was used longest ago"
    assert runs[-1].read_soon(0, 1) is not None
    for run in runs:
        assert bytes(run.read(300, 5000)) == (DATA * 2)[300:5300]
        run.close()
    assert kept.kept_bytes == 0


class Interrupted(Patience):
    """The patience of a reader who gets a signal after the first step."""

    def __init__(self) -> None:
        super().__init__()
        self._checks = 0

    def check(self) -> None:
        self._checks += 1
        if self._checks == 2:  # the first one is before the work begins
            raise InterruptedError


def test_a_read_that_was_interrupted_goes_on_where_it_was() -> None:
    begun = []

    def pieces_from(position: int) -> Iterator[tuple[int, bytes]]:
        begun.append(position)
        yield position, b""
        yield position, b""
        yield position, b"the bytes"

    run = RenderedRun(pieces_from)
    for _ in range(2):
        with pytest.raises(InterruptedError):
            run.read(0, 9, Interrupted())
    assert bytes(run.read(0, 9, Interrupted())) == b"the bytes"
    assert begun == [0]


def test_an_interrupted_read_of_no_bytes_may_be_repeated_and_read_on() -> None:
    run = RenderedRun(lambda position: iter([(position, b"")] * 3))
    with pytest.raises(InterruptedError):
        run.read(0, 9, Interrupted())
    assert [bytes(run.read(0, 9)) for _ in range(3)] == [b"", b"", b""]


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_is_made_ahead_ends_when_it_takes_long_or_has_no_reader(
    monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    ahead: list[Callable[[], None]] = []
    made = []

    def pieces_from(position: int) -> Iterator[tuple[int, bytes]]:
        yield position, b"the bytes"
        for number in count():
            made.append(number)
            if number == 2 and is_closed:
                run.close()
            yield 9, b""

    run = RenderedRun(pieces_from, later=ahead.append)
    assert bytes(run.read(0, 9)) == b"the bytes"
    monkeypatch.setattr(rendered_run, "AHEAD_S_MAX", 60.0 if is_closed else 0.01)
    (make_ahead,) = ahead
    make_ahead()
    assert made, "it ends, and it was begun"
