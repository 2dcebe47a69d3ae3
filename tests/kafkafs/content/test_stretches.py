"""Looking into batches side by side changes nothing but the time that it takes."""

from __future__ import annotations

import gc
import itertools
from contextlib import nullcontext
from threading import Barrier
from typing import TYPE_CHECKING
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from kafkafs.content import stretches
from kafkafs.content.stretches import (
    STRETCH_BYTES_MAX,
    DamagedBatchFound,
    EndReached,
    RenderedStretches,
    TooLargeBatches,
)
from kafkafs.render.batch_lines import RenderedBatches, ValueLines, Visible
from storage.budget import Budget
from storage.errors import DecompressedTooLargeError, FramingError
from storage.record import BatchForm, Codec, batches_of_rows, read_batches
from storage.segment.scan import LogScan
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.record.reading import Batch
    from storage.segment import Stretch

PATH = "/00000000000000000000.log"
DEADLINE_S = 60
CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])


@pytest.fixture(autouse=True)
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "_THREADS", 3)  # also where there is one processor
    monkeypatch.setattr(stretches, "_APART_BYTES_MIN", 1)


def log_of(codecs: Sequence[Codec], *, count: int = 3) -> bytes:
    """A batch for each."""
    rows = [(1_000 + number, b"key", b"%d of a value " % number * 9, ()) for number in range(count)]
    batches = []
    for number, codec in enumerate(codecs):
        (batch,) = batches_of_rows(rows, form=BatchForm(codec=codec), base_offset=number * count)
        batches.append(bytes(batch))
    return b"".join(batches)


def scanned(data: bytes, *, bytes_max: int = STRETCH_BYTES_MAX) -> Iterator[Stretch]:
    files = MemoryFiles()
    with files.open_writing(PATH, create=True) as file:
        file.write_at(0, [data])
    return LogScan(files.open_reading(PATH)).stretches(bytes_max)


def rendered(
    data: bytes, visible: Visible, *, to_tail: bool, bytes_max: int = STRETCH_BYTES_MAX
) -> list[tuple[int, object]]:
    """The lines up to each position, and what ends them."""
    found: list[tuple[int, object]] = []
    renderer = RenderedStretches(ValueLines(), visible, only_sizes=False, to_tail=to_tail)
    pieces = renderer.of(scanned(data, bytes_max=bytes_max))
    try:
        found.extend((piece.position, bytes(piece.data)) for piece in pieces)
    except (DamagedBatchFound, EndReached, FramingError) as end:
        found.append((-1, str(end.error) if isinstance(end, DamagedBatchFound) else repr(end)))
    return found


def joined(found: list[tuple[int, object]]) -> tuple[bytes, list[tuple[int, object]]]:
    """The lines, and what ends them."""
    return b"".join(data for _, data in found if isinstance(data, bytes)), found[-1:]


@given(
    st.lists(CODECS, max_size=40),
    st.integers(0, 130),
    st.booleans(),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3),
)
def test_it_is_what_one_after_another_comes_to(
    codecs: list[Codec], end_offset: int, to_tail: bool, flips: list[tuple[float, int]]
) -> None:
    data = bytearray(log_of(codecs))
    for place, bits in flips if data else ():
        data[int(place * len(data))] ^= bits
    visible = Visible(end_offset)
    side_by_side = rendered(bytes(data), visible, to_tail=to_tail)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "_THREADS", 1)
        assert rendered(bytes(data), visible, to_tail=to_tail) == side_by_side
        one_by_one = rendered(bytes(data), visible, to_tail=to_tail, bytes_max=1)
        assert joined(one_by_one)[0] == joined(side_by_side)[0]
        assert one_by_one[-1:] == side_by_side[-1:] or isinstance(one_by_one[-1][1], bytes)


class WatchedLines(ValueLines):
    """Says which batches it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:
        self.asked.append(first.last_offset)
        return super().render(first, visible, end_position, only_size=only_size)


def test_a_reader_of_one_batch_waits_for_no_other() -> None:
    lines = WatchedLines()
    pieces = RenderedStretches(lines, Visible(1000), only_sizes=True, to_tail=False).of(
        scanned(log_of([Codec.LZ4] * 40))
    )
    first = next(pieces)
    assert lines.asked == [2]
    assert (first.position, first.last_batch) == (len(log_of([Codec.LZ4])), 0)
    assert [*pieces][-1].position == len(log_of([Codec.LZ4] * 40))


class MeetingLines(ValueLines):
    """Renders the second stretch while it renders the third."""

    def __init__(self) -> None:
        self._meeting = Barrier(2)

    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:
        if first.last_offset in {5, 8}:
            self._meeting.wait(DEADLINE_S)
        return super().render(first, visible, end_position, only_size=only_size)


def test_stretches_are_rendered_at_the_same_time() -> None:
    log = log_of([Codec.ZSTD] * 20)
    pieces = RenderedStretches(MeetingLines(), Visible(1000), only_sizes=True, to_tail=False).of(scanned(log))
    assert [*pieces][-1].position == len(log)


class ManyLines(ValueLines):
    """Makes a million bytes of each batch."""

    def __init__(self) -> None:
        self.count = 0

    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:  # noqa: ARG002
        self.count += 1
        return RenderedBatches(first.size_bytes, 0, 1_000_000, bytes(1_000_000))


def test_what_is_rendered_ahead_of_the_reader_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "_AHEAD_BYTES_MAX", 3_000_000)
    lines = ManyLines()
    pieces = RenderedStretches(lines, Visible(1000), only_sizes=False, to_tail=False).of(
        scanned(log_of([Codec.LZ4] * 63))
    )
    for taken in range(1, 64):
        next(pieces)
        assert lines.count <= taken + 4 * 3  # three for each stretch under way, and one that its reader is at
    assert next(pieces, None) is None


def test_what_takes_long_is_made_when_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a few bytes may take long, and the reader may have stopped or been cancelled meanwhile."""
    seconds = itertools.count()
    monkeypatch.setattr(stretches, "monotonic", lambda: next(seconds))
    lines = ManyLines()
    pieces = RenderedStretches(lines, Visible(1000), only_sizes=True, to_tail=False).of(
        scanned(log_of([Codec.LZ4] * 63))
    )
    for taken in range(1, 64):
        next(pieces)
        assert lines.count <= taken + 2 * 3  # two for each stretch under way
    assert next(pieces, None) is None


class FailingLines(ValueLines):
    """Runs out of memory at a batch."""

    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:
        if first.last_offset == 14:
            raise MemoryError
        return super().render(first, visible, end_position, only_size=only_size)


@pytest.mark.parametrize("apart_bytes_min", [1, 1 << 20])
def test_nothing_is_given_after_a_stretch_that_fails(monkeypatch: pytest.MonkeyPatch, apart_bytes_min: int) -> None:
    monkeypatch.setattr(stretches, "_APART_BYTES_MIN", apart_bytes_min)
    log, budget = log_of([Codec.LZ4] * 20), Budget(1 << 30)
    renderer = RenderedStretches(FailingLines(), Visible(1000), only_sizes=False, to_tail=False, budget=budget)
    found = []
    with pytest.raises(MemoryError):
        found.extend(piece.last_batch for piece in renderer.of(scanned(log, bytes_max=1)))
    assert [batch.last_offset for batch in read_batches(log) if batch.position in found] == [2, 5, 8, 11]
    assert budget.left_bytes == 1 << 30


def test_a_reader_without_memory_goes_on_with_one_stretch_at_a_time() -> None:
    log, budget = log_of([Codec.LZ4] * 20), Budget(stretches._AHEAD_BYTES_MAX - 1)
    lines = WatchedLines()
    renderer = RenderedStretches(lines, Visible(1000), only_sizes=False, to_tail=False, budget=budget)
    for number, _ in enumerate(renderer.of(scanned(log, bytes_max=1))):
        assert lines.asked == [3 * each + 2 for each in range(number + 1)]
    assert len(lines.asked) == 20


def test_a_reader_that_stops_gives_its_memory_back() -> None:
    budget = Budget(1 << 30)
    renderer = RenderedStretches(ValueLines(), Visible(1000), only_sizes=False, to_tail=False, budget=budget)
    pieces = renderer.of(scanned(log_of([Codec.LZ4] * 20), bytes_max=1))
    taken = [budget.left_bytes for _ in zip(range(5), pieces, strict=False)]
    assert min(taken) < 1 << 30
    pieces.close()
    assert budget.left_bytes == 1 << 30


class TooLargeLines(WatchedLines):
    """Takes more memory for a batch than one is given, unless only its size is wanted."""

    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:
        end_position = min(end_position, first.position + first.size_bytes)
        rendered = super().render(first, visible, end_position, only_size=only_size)
        if first.last_offset == 5 and not only_size:
            raise DecompressedTooLargeError("more than one is given")
        return rendered


def test_a_batch_that_is_too_large_is_known_to_be_until_another_has_its_place() -> None:
    lines, too_large = TooLargeLines(), TooLargeBatches()

    def asked(log: bytes, *, only_sizes: bool) -> list[int]:
        renderer = RenderedStretches(
            lines, Visible(1000), only_sizes=only_sizes, to_tail=False, too_large=too_large, budget=Budget(0)
        )
        with pytest.raises(DamagedBatchFound, match="more than one is given") if not only_sizes else nullcontext():
            list(renderer.of(scanned(log, bytes_max=1)))
        before, lines.asked = lines.asked, []
        return before

    log = log_of([Codec.LZ4] * 3)
    assert asked(log, only_sizes=False) == [2, 5]
    assert asked(log, only_sizes=False) == [2]
    assert asked(log, only_sizes=True) == [2, 5, 8]
    assert asked(log_of([Codec.LZ4, Codec.GZIP, Codec.LZ4]), only_sizes=False) == [2, 5]


def test_a_number_of_batches_are_known_to_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "_TOO_LARGE_MAX", 2)
    too_large, batches = TooLargeBatches(), list(read_batches(log_of([Codec.NONE] * 3)))
    for batch in batches:
        too_large.add(batch, DecompressedTooLargeError("too large"), only_sizes=True)
    known = [too_large.error_of(batch, only_sizes=True) is not None for batch in batches]
    assert known == [True, True, False]


@pytest.mark.parametrize("apart_bytes_min", [1, 1 << 20])
@pytest.mark.parametrize("lines", [FailingLines, TooLargeLines])
def test_nothing_is_kept_of_a_reading_that_has_failed(
    monkeypatch: pytest.MonkeyPatch, lines: type[WatchedLines], apart_bytes_min: int
) -> None:
    monkeypatch.setattr(stretches, "_APART_BYTES_MIN", apart_bytes_min)

    def fail() -> Iterator[ref[RenderedStretches]]:
        renderer = RenderedStretches(lines(), Visible(1000), only_sizes=False, to_tail=False)
        yield ref(renderer)
        with pytest.raises((MemoryError, DamagedBatchFound)):
            list(renderer.of(scanned(log_of([Codec.LZ4] * 20), bytes_max=1)))

    gc.disable()
    try:
        (failed,) = fail()
        until(lambda: failed() is None, "the pool lets go of the last stretches")
    finally:
        gc.enable()
