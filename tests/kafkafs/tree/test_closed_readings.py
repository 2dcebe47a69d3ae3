"""What `stat` finds out about a descriptor in one thread while another closes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, sent

from kafkafs.content import SizeCache
from kafkafs.locator.paths import PartitionFilePath, SegmentPath
from kafkafs.locator.views import View
from kafkafs.tree.errors import GoneError
from kafkafs.tree.generated_file import BytesReading
from kafkafs.tree.raw_reading import RawReading
from kafkafs.tree.segment_files import RawSegmentFile, SegmentTextFile
from kafkafs.tree.stream_file import StreamFile
from storage.files import ReadableFile
from storage.record import BatchForm, Codec
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Views

    from kafkafs.tree.node import File


def filled() -> LogOnMemory:
    lab = LogOnMemory({"segment.bytes": "3000"})
    for number in range(20):
        value = b"a large value " * 20_000 if number == 4 else b"%d of a value " % number * 9
        lab.log.append_as_leader(sent([(NOW_MS, value)], BatchForm(codec=Codec.ZSTD)), leader_epoch=1)
    return lab


STREAMS = {"values": View.VALUES, "records.jsonl": View.RECORDS}
RANGES = ("3", "4", "4.json", "4.batch", "3..12", "all.jsonl")


@pytest.mark.parametrize("name", [*RANGES, *STREAMS, "segment", "text", "index text"])
def test_a_closed_descriptor_has_the_size_that_it_had(views: Views, name: str) -> None:
    file = file_of(views, name)
    reading = file.open()
    position = 0
    while part := bytes(reading.read(position, 100_000)):
        position += len(part)
    size_bytes = reading.size_bytes()
    assert size_bytes in {position, None}
    assert (size_bytes is None) == (name == "index text")
    reading.close()
    assert reading.size_bytes() == size_bytes


def file_of(views: Views, name: str) -> File:
    source = views.memory(filled())
    sizes = SizeCache(source.files, None)
    segment = source.log.view.segments[0]
    if name == "segment":
        status = segment.log_status()
        assert status is not None
        return RawSegmentFile(SegmentPath(source.path, segment.name(Kind.LOG)), source, status)
    if name == "text":
        return SegmentTextFile(SegmentPath(source.path, segment.name(Kind.LOG), is_text=True), source, sizes)
    if name == "index text":
        return SegmentTextFile(SegmentPath(source.path, segment.name(Kind.OFFSET_INDEX), is_text=True), source, sizes)
    if name in STREAMS:
        return StreamFile(PartitionFilePath(source.path, STREAMS[name]), source, sizes)
    return views.node(source, name)


class ClosedMeanwhile(ReadableFile):
    """A file whose reading is closed by another thread while it is asked."""

    def __init__(self) -> None:
        self.path = "a file"
        self.reading: RawReading | None = None
        self.is_closed = False

    def size_bytes(self) -> int:
        self._let_close()
        return 6

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._let_close()
        return b"a text"[position : position + size_bytes]

    def close(self) -> None:
        self.is_closed = True

    def _let_close(self) -> None:
        if self.reading is not None:
            self.reading.close()
            assert not self.is_closed, "its descriptor may be another file's by now"


@pytest.mark.parametrize("ask", [RawReading.size_bytes, lambda reading: len(reading.read(0, 10))])
def test_a_file_that_is_closed_while_it_is_asked_answers_first(ask: Callable[[RawReading], int]) -> None:
    file = ClosedMeanwhile()
    reading = RawReading("a file", lambda: file)
    file.reading = reading
    assert ask(reading) == 6
    assert file.is_closed


def test_a_closed_text_is_not_read_as_an_empty_one() -> None:
    reading = BytesReading(b"a text")
    reading.close()
    with pytest.raises(GoneError):
        reading.read(0, 10)
