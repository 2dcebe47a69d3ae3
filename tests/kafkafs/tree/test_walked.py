"""What a directory tells a walk of its names: what `stat` says of each, and no size that takes reading a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, sent

from kafkafs.content.counted_log import CountedLog
from kafkafs.locator.descent import child
from kafkafs.locator.paths import PartitionDirectoryPath
from kafkafs.locator.views import View
from kafkafs.tree.generated_file import GeneratedFile
from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.offset_directory import OffsetDirectory
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.partition_directory import PartitionNode
from kafkafs.tree.record_file import RecordFile
from kafkafs.tree.segment_files import RawSegmentFile, SegmentDirectory
from kafkafs.tree.time_views import TimeDirectory, TimeLink

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.log_source import LogSource


def filled() -> LogOnMemory:
    lab = LogOnMemory()
    for number in range(40):
        lab.log.append_as_leader(sent([(NOW_MS + number * 1000, bytes(60 + number))]))
    return lab


def in_partition(source: LogSource, directory: View) -> PartitionDirectoryPath:
    return PartitionDirectoryPath(source.path, directory)


@pytest.mark.parametrize("limit", [1000, 30])
def test_records_and_the_names_of_the_first_and_the_last(views: Views, limit: int) -> None:
    source = views.memory(filled(), TreeOptions(list_limit=limit))
    path = in_partition(source, View.OFFSET)
    walked = list(OffsetDirectory(path, source).walked())
    assert [entry.name for entry in walked] == list(OffsetDirectory(path, source).names())
    assert [entry.name for entry in walked[-2:]] == ["earliest", "latest"]
    unknown = {entry.name for entry in walked if entry.attributes is None}
    assert unknown == ({"earliest"} if limit == 30 else set()), "the first record is not among those listed"
    for entry in walked:
        if entry.attributes is not None:
            found = RecordFile(child(path, entry.name), source, NOW_MS).attributes()
            assert entry.attributes._replace(is_lasting=False) == found._replace(is_lasting=False)


def test_links_of_times(views: Views) -> None:
    source = views.memory(filled())
    path = in_partition(source, View.BY_TIME)
    walked = list(TimeDirectory(path, source).walked())
    assert [entry.name for entry in walked] == list(TimeDirectory(path, source).names())
    for entry in walked:
        assert entry.attributes == TimeLink(child(path, entry.name), source, NOW_MS).attributes()


def test_real_files_and_their_twins(views: Views) -> None:
    source = views.memory(filled())
    path = in_partition(source, View.SEGMENTS)
    walked = list(SegmentDirectory(path, source).walked())
    assert [entry.name for entry in walked] == list(SegmentDirectory(path, source).names())
    for entry in walked:
        file = child(path, entry.name)
        if entry.name.endswith(".txt"):
            assert entry.attributes is not None
            assert entry.attributes.size_bytes is None
            found = RawSegmentFile(child(path, entry.name.removesuffix(".txt")), source).attributes()
            assert entry.attributes.modified_ms == found.modified_ms
        else:
            assert entry.attributes == RawSegmentFile(file, source).attributes()


def test_no_view_of_a_partition_is_made(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting each log, and making each text, would read the whole store in one walk."""

    def made(*_: object, **__: object) -> None:
        pytest.fail("this takes more than a walk may")

    source = views.memory(filled())
    directory = PartitionNode(source.path, source)
    monkeypatch.setattr(GeneratedFile, "made", made)
    monkeypatch.setattr(LogFact, "generate", made)
    monkeypatch.setattr(CountedLog, "look", made)
    walked = {entry.name: entry.attributes for entry in directory.walked()}
    assert list(walked) == list(directory.names())
    changed_ms = directory.attributes().modified_ms
    for name, attributes in walked.items():
        assert attributes is not None
        assert attributes.place == source.directory
        assert attributes.is_writable == (name.startswith("append") or name == "log-start-offset")
        if name != "segments":
            assert attributes.modified_ms == changed_ms
        is_sized = name in {"offset", "by-time", "segments"} or name.startswith("append")
        assert attributes.size_bytes == (0 if is_sized else None)
