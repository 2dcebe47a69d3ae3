"""Looking into batches side by side changes nothing but the time that it takes."""

from __future__ import annotations

from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.render.batch_lines import Passed, ValueLines, Visible
from kafkafs.sizes import passing
from kafkafs.sizes.passing import Passing
from storage.errors import CorruptBatchError, FramingError
from storage.record import BatchForm, Codec, batches_of_rows
from storage.segment.scan import LogScan
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.record.reading import Batch

PATH = "/00000000000000000000.log"
DEADLINE_S = 20
CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])


@pytest.fixture(autouse=True)
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "_THREADS", 3)  # also where there is one processor


def log_of(codecs: Sequence[Codec], *, count: int = 3) -> bytes:
    """A batch for each."""
    rows = [(1_000 + number, b"key", b"%d of a value " % number * 9, ()) for number in range(count)]
    batches = []
    for number, codec in enumerate(codecs):
        (batch,) = batches_of_rows(rows, form=BatchForm(codec=codec), base_offset=number * count)
        batches.append(bytes(batch))
    return b"".join(batches)


def scanned(data: bytes) -> LogScan:
    files = MemoryFiles()
    with files.open_writing(PATH, create=True) as file:
        file.write_at(0, [data])
    return LogScan(files.open_reading(PATH))


def told(data: bytes, visible: Visible) -> list[tuple[int, object]]:
    """What is said of each batch, and what ends it."""
    found: list[tuple[int, object]] = []
    try:
        for batch, come_to in Passing(ValueLines(), visible, only_sizes=False).of(scanned(data)):
            try:
                outcome = come_to()
                found.append((batch.position, outcome._replace(lines=bytes(outcome.lines))))
            except CorruptBatchError as error:
                found.append((batch.position, str(error)))
    except FramingError as error:
        found.append((-1, str(error)))
    return found


@given(
    st.lists(CODECS, max_size=40),
    st.integers(0, 130),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3),
)
def test_it_is_what_one_after_another_comes_to(
    codecs: list[Codec], end_offset: int, flips: list[tuple[float, int]]
) -> None:
    data = bytearray(log_of(codecs))
    for place, bits in flips if data else ():
        data[int(place * len(data))] ^= bits
    visible = Visible(end_offset)
    side_by_side = told(bytes(data), visible)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passing, "_THREADS", 1)
        assert told(bytes(data), visible) == side_by_side


class WatchedLines(ValueLines):
    """Says which batches it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def passing(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> Passed:
        self.asked.append(first.last_offset)
        return super().passing(first, visible, end_position, only_size=only_size)


def test_a_reader_of_one_batch_waits_for_no_other() -> None:
    lines = WatchedLines()
    batches = Passing(lines, Visible(1000), only_sizes=True).of(scanned(log_of([Codec.LZ4] * 40)))
    next(batches)
    assert lines.asked == [2]
    assert len(list(batches)) == 39
    assert sorted(lines.asked) == list(range(2, 120, 3))


class MeetingLines(ValueLines):
    """Passes the second batch while it passes the fourth: each is the first of a group."""

    def __init__(self) -> None:
        self._meeting = Barrier(2)

    def passing(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> Passed:
        if first.last_offset in {5, 11}:
            self._meeting.wait(DEADLINE_S)
        return super().passing(first, visible, end_position, only_size=only_size)


def test_batches_are_passed_at_the_same_time() -> None:
    log = log_of([Codec.ZSTD] * 20)
    batches = list(Passing(MeetingLines(), Visible(1000), only_sizes=True).of(scanned(log)))
    assert [come_to().log_bytes for _, come_to in batches] == [batch.size_bytes for batch, _ in batches]
