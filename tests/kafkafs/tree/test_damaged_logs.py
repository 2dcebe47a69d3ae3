"""Logs that were damaged on purpose: what is sound in them is read, and what is not is never passed over in silence.

What is sound is said by the check of whole logs, which looks at every byte.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import NOW_MS, LogOnMemory, sent

from kafkafs.content import SizeCache
from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.render.envelope import Envelope
from kafkafs.tree.errors import DamagedError
from kafkafs.tree.options import Damage, TreeOptions
from kafkafs.tree.stream_file import StreamFile
from storage.errors import FramingError
from storage.record.batch import RecordBatch
from storage.segment.index.zero_tail import is_zero
from storage.segment.names import Kind
from storage.verify.finding import FindingList
from storage.verify.log_check import LogCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Views

    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.visible_log import VisibleLog
    from storage.files import Files
    from storage.log.view import LogView
    from storage.record.kernel.decode import Record


OFFSETS_MAX = 5000


class Checked(NamedTuple):
    """The sound records of a view, and its damage: the first offset after it, and the number of places."""

    records: list[Record]
    first_lost: int | None
    places: int
    is_in_order: bool


def check(view: LogView, files: Files) -> Checked:
    records: list[Record] = []
    first_lost, places = None, 0
    for segment in view.segments:
        end_position = view.end_position if segment is view.segments[-1] else 2**62
        with files.open_reading(segment.path(Kind.LOG)) as file:
            looked = LogCheck(
                file,
                segment.base_offset,
                FindingList(),
                name="",
                end=file.size_bytes(),
                may_end_in_zeros=True,
                advance=lambda _: None,
            )
            for checked in looked:
                batch = checked.batch
                is_control = isinstance(batch, RecordBatch) and batch.is_control
                if batch.position + batch.size_bytes <= end_position and not is_control:
                    records += batch.records()
            within = [
                start
                for start, end in looked.damaged_ranges
                if start < end_position and not (end == looked.end and is_zero(file, start, end))
            ]
            places += len(within)
            if within and first_lost is None:
                first_lost = looked.lost[0][0]
    if is_damage_at_end(view):
        places += 1
        first_lost = view.end_offset if first_lost is None else first_lost
    offsets = [record.offset for record in records]
    visible = [record for record in records if view.start_offset <= record.offset < view.end_offset]
    return Checked(visible, first_lost, places, all(before < later for before, later in pairwise(offsets)))


def is_damage_at_end(view: LogView) -> bool:
    if not view.segments:
        return False
    try:
        view.segments[-1].check_end(view.end_position)
    except FramingError:
        return True
    return False


@pytest.mark.golden
def test_what_is_sound_is_read_and_what_is_not_is_told(views: Views) -> None:
    damaged = 0
    for directory in views.partitions(views.damaged):
        damaged += check_reading(lambda options, directory=directory: views.follow(directory, options))
    assert damaged == 3


def check_reading(open_source: Callable[[TreeOptions], LogSource]) -> bool:
    """Compare all ways to read a log with its check, and say whether it is damaged."""
    source = open_source(TreeOptions())
    visible = source.visible()
    expected = check(visible.view, source.files)
    if not expected.is_in_order:
        return False  # a base offset has no checksum, and the right value of a wrong one is unknown
    by_offset = {record.offset: record for record in expected.records}
    check_stopping(visible, expected)
    check_skipping(open_source(TreeOptions(damage=Damage.SKIP)).visible(), expected)
    for form in (View.VALUES, View.KEYS, View.RECORDS):
        check_stream(source, form, expected)
        check_stream(open_source(TreeOptions(damage=Damage.SKIP)), form, expected)
    # Nothing checks a base offset, so damage to the last one may have the log end anywhere.
    for offset in range(visible.start_offset, min(visible.end_offset, visible.start_offset + OFFSETS_MAX)):
        try:
            found = visible.find(offset)
        except DamagedError:
            assert offset not in by_offset
            assert expected.places
        else:
            assert (found and found.record) == by_offset.get(offset)
    return expected.places > 0


def check_stopping(visible: VisibleLog, expected: Checked) -> None:
    records = []
    try:
        for record in visible.records(0, 2**62):
            records.append(record)  # noqa: PERF402 -- what comes before an error is wanted
    except DamagedError:
        assert expected.places
    else:
        assert not expected.places
    lost = 2**62 if expected.first_lost is None else expected.first_lost
    assert records == [record for record in expected.records if record.offset < lost]


def check_skipping(visible: VisibleLog, expected: Checked) -> None:
    assert list(visible.records(0, 2**62)) == expected.records
    # Where framing is lost, how many pieces are damaged depends on where one comes from.
    assert (visible.skipped > 0) == (expected.places > 0)
    count = len(expected.records)
    assert visible.from_end(max(count, 1)) == (expected.records[0].offset if count else None)
    if count > 1:
        assert visible.from_end(count // 2) == expected.records[-(count // 2)].offset


def check_stream(source: LogSource, form: View, expected: Checked) -> None:
    """A stream has the records that a range of all has, and ends as that does."""
    lines = {View.VALUES: value_line, View.KEYS: key_line, View.RECORDS: Envelope(source.topic, source.partition).line}
    line = lines[form]
    skips = source.options.damage is Damage.SKIP
    lost = 2**62 if expected.first_lost is None or skips else expected.first_lost
    whole = b"".join(line(record) for record in expected.records if record.offset < lost)
    sizes = SizeCache(source.files, None)
    node = StreamFile(PartitionFilePath(source.path, form), source, sizes)
    assert node.attributes().size_bytes == (None if expected.places and not skips else len(whole))
    reading, found = node.open(), b""
    try:
        while part := bytes(reading.read(len(found), 100_000)):
            found += part
    except DamagedError:
        assert expected.places
        assert not skips
    else:
        assert skips or not expected.places
    sizes.close()
    assert found == whole
    if skips:
        assert (int(node.xattrs()["user.kafkafs.skipped"]) > 0) == (expected.places > 0)


def value_line(record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def key_line(record: Record) -> bytes:
    return (record.key or b"") + b"\n"


batches = st.lists(st.integers(1, 200), min_size=1, max_size=5)


@pytest.mark.property
@given(
    sent_batches=st.lists(batches, min_size=3, max_size=30),
    place=st.floats(0, 1, exclude_max=True),
    size_bytes=st.integers(1, 400),
    kind=st.sampled_from(["flip", "zero", "remove"]),
)
def test_wherever_a_log_is_damaged(views, sent_batches, place, size_bytes, kind):
    lab = LogOnMemory()
    for sizes in sent_batches:
        lab.log.append_as_leader(sent([(NOW_MS, bytes([size]) * size) for size in sizes]), leader_epoch=1)
    lab.log.close()
    logs = [segment.path(Kind.LOG) for segment in lab.log.view.segments if segment.size_bytes]
    position = int(place * sum(len(lab.files.read(log)) for log in logs))
    for log in logs:
        data = lab.files.read(log)
        if position < len(data):
            break
        position -= len(data)
    damaged = {
        "flip": data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :] if kind == "flip" else b"",
        "zero": data[:position] + bytes(min(size_bytes, len(data) - position)) + data[position + size_bytes :],
        "remove": data[:position] + data[position + size_bytes :],
    }[kind]
    with lab.files.open_writing(log) as file:
        file.truncate(0)
        file.write_at(0, [damaged])
    check_reading(lambda options: views.memory(lab, options, is_followed=True))
