"""Files read once from their beginning to their end, as by `kafkafs cat`: nothing is counted for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, sent

from kafkafs.content import CountedLog, SizeCache
from kafkafs.content.counted_text import CountedText
from kafkafs.locator.paths import PartitionFilePath, SegmentPath
from kafkafs.locator.views import View
from kafkafs.tree.errors import DamagedError
from kafkafs.tree.options import Damage, TreeOptions
from kafkafs.tree.record_run import RecordRun
from kafkafs.tree.segment_files import SegmentTextFile
from kafkafs.tree.stream_file import StreamFile
from storage.record import BatchForm, Codec
from storage.segment import Kind

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import File


def filled() -> LogOnMemory:
    lab = LogOnMemory({"segment.bytes": "3000"})
    for number in range(60):
        form = BatchForm(codec=list(Codec)[number % 5])
        lab.log.append_as_leader(sent([(NOW_MS, b"%d of a value " % number * 9)], form), leader_epoch=1)
    return lab


def files_of(views: Views, source: LogSource) -> dict[str, File]:
    sizes = SizeCache(source.files, None)
    log_name = source.log.view.segments[1].name(Kind.LOG)
    return {
        "values": StreamFile(PartitionFilePath(source.path, View.VALUES), source, sizes),
        "keys": StreamFile(PartitionFilePath(source.path, View.KEYS), source, sizes),
        "records.jsonl": StreamFile(PartitionFilePath(source.path, View.RECORDS), source, sizes),
        "3..50": views.node(source, "3..50"),
        "all.jsonl": views.node(source, "all.jsonl"),
        "all.hex": views.node(source, "all.hex"),
        "text": SegmentTextFile(SegmentPath(source.path, log_name, is_text=True), source, sizes),
    }


def read(file: File) -> bytes:
    reading = file.open()
    found = bytearray()
    while part := bytes(reading.read(len(found), 1000)):
        found += part
    reading.close()
    return bytes(found)


def test_contents_are_what_reading_gives_and_count_nothing(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = filled()
    expected = {name: read(file) for name, file in files_of(views, views.memory(lab)).items()}
    assert all(expected.values())
    monkeypatch.setattr(CountedLog, "count", _refused)
    monkeypatch.setattr(CountedText, "size_bytes", _refused)
    monkeypatch.setattr(RecordRun, "count", _refused)
    for name, file in files_of(views, views.memory(lab)).items():
        assert b"".join(map(bytes, file.contents())) == expected[name], name


def _refused(*_: object, **__: object) -> None:
    raise AssertionError("this counts")


def test_contents_end_where_damage_begins(views: Views) -> None:
    lab = filled()
    path = lab.log.view.segments[1].path(Kind.LOG)
    with lab.files.open_writing(path) as file:
        file.write_at(500, [b"damage"])
    for options in (TreeOptions(), TreeOptions(damage=Damage.SKIP)):
        source = views.memory(lab, options)
        for name, file in files_of(views, source).items():
            if name == "text":
                continue  # damage is a line of it
            found = []
            if options.damage is Damage.STOP:
                with pytest.raises(DamagedError):
                    found.extend(map(bytes, file.contents()))
            else:
                found.extend(map(bytes, file.contents()))
            assert b"".join(found)[:20], name
