"""What is written to `append` and its sisters is in the log: all of a write or nothing, and no record twice."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import DIRECTORY, NOW_MS, SETTINGS, LogOnMemory, sent

from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.tree.append_file import AppendFile
from storage.errors import RecordTooLargeError
from storage.record.batch import RecordBatch
from storage.record.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Views

    from kafkafs.tree.append_file import Appending

    Seen: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

LINES = (View.APPEND, View.APPEND_KV, View.APPEND_JSONL)
WRITTEN = {
    View.APPEND: b"one\n\ntwo\r\n" + b"long" * 40 + b"\nlast",
    View.APPEND_KV: b"k\tv\n\tv\nk\t\nno key\nlast\tone",
    View.APPEND_JSONL: b'{"value":"a"}\n{"key":null,"value_base64":"AP8=","headers":[{"key":"h","value":"x"}]}'
    b'\n{"value":null,"key":"k","timestamp":5}',
    View.APPEND_RAW: b"one\ntwo\n\0",
    View.APPEND_BATCH: b"".join(sent([(NOW_MS, b"a"), (NOW_MS, b"%d" % number)]) for number in range(3)),
}
ONE_MESSAGE = {**SETTINGS, "max.message.bytes": "300"}


def node(views: Views, lab: LogOnMemory, form: View = View.APPEND) -> AppendFile:
    source = views.memory(lab)
    return AppendFile(PartitionFilePath(source.path, form), source, lab.clock)


def opened(views: Views, lab: LogOnMemory, form: View = View.APPEND) -> Appending:
    return node(views, lab, form).open_writing()


def records(lab: LogOnMemory) -> list[Seen]:
    view = lab.log.view
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for batch in view.batches(view.start_offset)
        for record in batch.records()
    ]


def pieces(data: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


# What becomes a record, and when


@pytest.mark.property
@pytest.mark.parametrize("form", WRITTEN)
@given(places=st.lists(st.integers(0, 1000), max_size=8))
def test_where_writes_are_cut_makes_no_difference(views: Views, form: View, places: list[int]) -> None:
    found = []
    for writes in ([WRITTEN[form]], pieces(WRITTEN[form], places)):
        lab = LogOnMemory(SETTINGS)
        writing = opened(views, lab, form)
        for data in writes:
            writing.write(data)
        writing.flush()
        found.append(records(lab))
    assert found[0] == found[1]
    assert [offset for offset, *_ in found[0]] == list(range(len(found[0])))


@pytest.mark.parametrize("form", LINES)
def test_a_line_is_a_record_when_the_write_returns_that_completes_it(views: Views, form: View) -> None:
    lab = LogOnMemory(SETTINGS)
    writing = opened(views, lab, form)
    line = b'{"value":"v"}' if form is View.APPEND_JSONL else b"v"
    writing.write(line + b"\n" + line[:-1])
    assert lab.values() == [b"v"]
    writing.write(line[-1:])
    assert lab.values() == [b"v"]
    writing.write(b"\n")
    assert lab.values() == [b"v", b"v"]


def test_a_flush_takes_what_has_no_newline_and_nothing_twice(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    writing = opened(views, lab)
    for _ in range(2):
        writing.flush()
    writing.write(b"a\nb")
    for _ in range(3):
        writing.flush()
    writing.write(b"c\n")
    writing.write(b"never flushed")
    writing.close()
    assert lab.values() == [b"a", b"b", b"c"]


def test_raw_is_a_record_for_each_run_of_writes(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    writing = opened(views, lab, View.APPEND_RAW)
    for run in ((b"a\n", b"b\n"), (), (b"",), (b"\0",)):
        for data in run:
            writing.write(data)
        writing.flush()
    assert lab.values() == [b"a\nb\n", b"\0"]


def test_records_have_the_time_of_the_write_that_completes_them(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    writing = opened(views, lab)
    writing.write(b"a\nb")
    lab.clock.ms += 5
    writing.write(b"\n")
    assert [timestamp for _, timestamp, *_ in records(lab)] == [NOW_MS, NOW_MS + 5]


def test_each_open_has_a_line_in_progress_of_its_own(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    file = node(views, lab)
    first, second = file.open_writing(), file.open_writing()
    first.write(b"fir")
    second.write(b"sec")
    first.write(b"st\n")
    second.write(b"ond\n")
    assert lab.values() == [b"first", b"second"]


def test_writers_in_parallel_lose_nothing_and_mix_nothing(views: Views) -> None:
    lab = LogOnMemory({**SETTINGS, "segment.bytes": "200000"})
    file = node(views, lab)
    writers, count = 8, 2000

    def write(number: int) -> None:
        data = b"".join(b"%d:%d\n" % (number, line) for line in range(count))
        writing = file.open_writing()
        for start in range(0, len(data), 97 + number):
            writing.write(data[start : start + 97 + number])
        writing.flush()

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    values = [value for value in lab.values() if value is not None]
    assert len(values) == writers * count
    for number in range(writers):
        begin = b"%d:" % number
        assert [value for value in values if value.startswith(begin)] == [b"%d:%d" % (number, i) for i in range(count)]


# How it is stored


@pytest.mark.parametrize("codec", Codec)
def test_batches_are_stored_as_the_topic_says_and_clients_read_them(views: Views, codec: Codec) -> None:
    name = "uncompressed" if codec is Codec.NONE else codec.label
    lab = LogOnMemory({**SETTINGS, "compression.type": name, "segment.bytes": "100000"})
    lines = [b"%d" % number * 50 for number in range(40)]
    opened(views, lab).write(b"\n".join(lines) + b"\n")
    stored = MemoryRecords(lab.files.read(f"{DIRECTORY}/00000000000000000000.log"))
    found = []
    while (batch := stored.next_batch()) is not None:
        assert batch.validate_crc()
        assert batch.compression_type == codec
        found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    assert found == [(offset, NOW_MS, None, line) for offset, line in enumerate(lines)]


def test_what_compression_makes_larger_is_split_and_not_refused(views: Views) -> None:
    lab = LogOnMemory({**SETTINGS, "compression.type": "zstd", "max.message.bytes": "200"})
    line = bytes(byte for byte in range(256) if byte != ord("\n"))
    lines = [line[start : start + 60] for start in range(0, 240, 60)]
    opened(views, lab).write(b"\n".join(lines) + b"\n")
    assert lab.values() == lines
    assert all(batch.size_bytes <= 200 for batch in lab.log.view.batches(0))


def test_no_batch_is_larger_than_a_message_or_a_segment_may_be(views: Views) -> None:
    for setting in ("max.message.bytes", "segment.bytes"):
        lab = LogOnMemory({**SETTINGS, setting: "500"})
        opened(views, lab).write(b"x" * 60 + b"\n" + b"y" * 60 + b"\n" * 50)
        assert max(batch.size_bytes for batch in lab.log.view.batches(0)) <= 500
        assert len(lab.values()) == 51


@pytest.mark.parametrize(("earlier", "stamped"), [(None, 0), (0, 0), (7, 7)])
def test_the_epoch_is_that_of_the_last_leader(views: Views, earlier: int | None, stamped: int) -> None:
    lab = LogOnMemory(SETTINGS)
    if earlier is not None:
        lab.log.append_as_leader(sent(b"before"), leader_epoch=earlier)
    opened(views, lab).write(b"line\n")
    *_, last = lab.log.view.batches(0)
    assert isinstance(last, RecordBatch)
    assert last.leader_epoch == stamped
    assert lab.log.epochs.latest_epoch == stamped


# Reading


def test_receipts_say_where_the_records_of_each_write_are(views: Views) -> None:
    lab = LogOnMemory(ONE_MESSAGE)
    writing = opened(views, lab)
    assert writing.read(100) == b""
    for data in (b"a\n", b"half", b" line\nc\nd", b"x" * 400):
        try:
            writing.write(data)
        except RecordTooLargeError:
            break
    writing.write(b"\n" + b"".join(b"%d" % number * 60 + b"\n" for number in range(10)))
    writing.write(b"last")
    writing.flush()
    assert [writing.read(3), writing.read(4), writing.read(100), writing.read(100)] == [
        b"0..",
        b"0\n1.",
        b".2\n3..12\n13..13\n",
        b"",
    ]


def test_receipts_of_batches_that_were_there_say_where(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    for sequence in range(3):
        lab.produce(b"value", sequence)
    again = [batch.view(0, batch.size_bytes) for batch in lab.log.view.batches(0)]
    fresh = sent(b"fresh")
    writing = opened(views, lab, View.APPEND_BATCH)
    as_sent = [bytes(8) + bytes(each)[8:12] + b"\xff\xff\xff\xff" + bytes(each)[16:] for each in (again[1], again[2])]
    writing.write(as_sent[1] + fresh + as_sent[0] + as_sent[1] + fresh)
    assert writing.read(100) == b"2..3\n1..2\n4..4\n"


def test_it_is_empty_to_readers(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    file = node(views, lab)
    file.open_writing().write(b"line\n")
    assert bytes(file.open().read(0, 100)) == b""
    attributes = file.attributes()
    assert (attributes.size_bytes, attributes.is_writable, attributes.is_lasting) == (0, True, False)
    assert attributes.modified_ms == lab.files.now_ms
    assert attributes.access == file.source.access()
