"""What a directory tells a walk of its names: what `stat` says of each, and no size that takes reading a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.content.counted_log import CountedLog
from kafkafs.locator.descent import child, parse_path
from kafkafs.locator.paths import PartitionDirectoryPath
from kafkafs.locator.views import View
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.generated_file import GeneratedFile
from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.node import Directory
from kafkafs.tree.offset_directory import OffsetDirectory
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.record_file import RecordFile
from kafkafs.tree.segment_files import SegmentDirectory, segment_node
from kafkafs.tree.time_views import TimeDirectory, TimeLink
from kafkafs.tree.tree import Tree
from kafkafs.tree.walking import SHORT_BYTES
from storage.files import Files
from storage.log import FollowedLog, Isolation
from storage.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Views

    from kafkafs.tree.log_source import LogSource
    from storage.log import LogView


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
    directory = OffsetDirectory(path, source, NOW_MS)
    walked = list(directory.walked(is_sized=False))
    assert [entry.name for entry in walked] == list(directory.names())
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
    directory = TimeDirectory(path, source, NOW_MS)
    walked = list(directory.walked(is_sized=False))
    assert [entry.name for entry in walked] == list(directory.names())
    for entry in walked:
        assert entry.attributes == TimeLink(child(path, entry.name), source, NOW_MS).attributes()


def test_real_files_and_their_twins(views: Views) -> None:
    source = views.memory(filled())
    path = in_partition(source, View.SEGMENTS)
    directory = SegmentDirectory(path, source, SizeCache(source.files, None))
    walked = list(directory.walked(is_sized=False))
    assert [entry.name for entry in walked] == list(directory.names())
    for entry in walked:
        file = child(path, entry.name)
        if entry.name.endswith(".txt"):
            assert entry.attributes is not None
            assert entry.attributes.size_bytes is None
            found = segment_node(child(path, entry.name.removesuffix(".txt")), source).attributes()
            assert entry.attributes.modified_ms == found.modified_ms
        else:
            assert entry.attributes == segment_node(file, source).attributes()


def in_store(
    path: Path, *, is_writable: bool, value_bytes: int = 60, isolation: Isolation = Isolation.UNCOMMITTED
) -> Tree:
    clock = StandingClock()
    with Store.create([path], files=Files(), clock=clock) as store:
        store.topics.create("t", 1)
        for number in range(40):
            store.log("t", 0).append_as_leader(sent([(NOW_MS + number * 1000, bytes(value_bytes))]))
    mode = Mode.READ_WRITE if is_writable else Mode.READ_ONLY
    store = Store.open([path], mode=mode, files=Files(), clock=clock)
    options = TreeOptions(isolation=isolation)
    return Tree(store, options, clock=clock, sizes=SizeCache(Files(), None), control=ControlNodes())


def directory_at(tree: Tree, path: str) -> Directory:
    node = tree.node(parse_path(path))
    assert isinstance(node, Directory)
    return node


@pytest.fixture
def nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        pytest.fail("this takes more than a walk may")

    monkeypatch.setattr(GeneratedFile, "made", made)
    monkeypatch.setattr(LogFact, "generate", made)
    monkeypatch.setattr(CountedLog, "look", made)


@pytest.mark.parametrize(
    ("is_sized", "is_writable", "value_bytes"),
    [(False, False, 60), (True, False, SHORT_BYTES // 20), (True, True, 60)],
    ids=["no sizes asked for", "a long log", "a log written here"],
)
@pytest.mark.usefixtures("nothing_is_made")
def test_no_view_of_a_partition_is_made(tmp_path: Path, is_sized: bool, is_writable: bool, value_bytes: int) -> None:
    """Counting each log, and making each text, would read the whole store in one walk."""
    tree = in_store(tmp_path / "store", is_writable=is_writable, value_bytes=value_bytes)
    directory = directory_at(tree, "t/0")
    walked = {entry.name: entry.attributes for entry in directory.walked(is_sized=is_sized)}
    assert list(walked) == list(directory.names())
    changed_ms = directory.attributes().modified_ms
    for name, attributes in walked.items():
        assert attributes is not None
        assert attributes.access == directory.attributes().access
        assert attributes.is_writable == (is_writable and (name.startswith("append") or name == "log-start-offset"))
        if name != "segments":
            assert attributes.modified_ms == changed_ms
        is_told = name in {"offset", "by-time", "segments", "damage"} or name.startswith("append")
        assert attributes.size_bytes == (0 if is_told else None)
    for entry in directory_at(tree, "t/0/segments").walked(is_sized=is_sized):
        assert entry.attributes is not None
        is_of_log = entry.name.endswith(".txt")
        assert (entry.attributes.size_bytes is None) == is_of_log


@pytest.mark.parametrize("isolation", Isolation)
def test_sizes_of_a_short_log_are_told_to_a_walk_that_asks_for_them(tmp_path: Path, isolation: Isolation) -> None:
    tree = in_store(tmp_path / "store", is_writable=False, isolation=isolation)
    for path in ("t/0", "t/0/segments"):
        directory = directory_at(tree, path)
        walked = {entry.name: entry.attributes for entry in directory.walked(is_sized=True)}
        assert list(walked) == list(directory.names())
        for name, attributes in walked.items():
            found = tree.node(parse_path(f"{path}/{name}")).attributes()
            assert attributes == found, name
            assert attributes.size_bytes is not None, name


def test_sizes_that_are_told_to_a_walk_are_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts of a walk's logs would be of use to no other request, and their memory that of many logs."""

    def counted(*_: object, **__: object) -> None:
        pytest.fail("a walk's log is counted to be kept")

    monkeypatch.setattr(SizeCache, "log", counted)
    monkeypatch.setattr(SizeCache, "text", counted)
    tree = in_store(tmp_path / "store", is_writable=False)
    for path in ("t/0", "t/0/segments"):
        for entry in directory_at(tree, path).walked(is_sized=True):
            assert entry.attributes is not None
            assert entry.attributes.size_bytes is not None, entry.name


def test_a_damaged_log_has_sizes_where_they_can_be_told(tmp_path: Path) -> None:
    tree = in_store(tmp_path / "store", is_writable=False)
    log = tmp_path / "store" / "t-0" / f"{0:020d}.log"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    log.write_bytes(damaged)
    walked = {entry.name: entry.attributes for entry in directory_at(tree, "t/0").walked(is_sized=True)}
    assert walked["values"] is None or walked["values"].size_bytes is None
    assert walked["info"] == tree.node(parse_path("t/0/info")).attributes()


def test_the_names_of_a_partition_are_told_after_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look lists the directory and reads the end of the log: one for each view would be most of a walk."""
    tree = in_store(tmp_path / "store", is_writable=False)
    list(directory_at(tree, "t/0").walked(is_sized=True))
    looks = []
    newest = FollowedLog._newest

    def counted(log: FollowedLog) -> LogView:
        looks.append(log)
        return newest(log)

    monkeypatch.setattr(FollowedLog, "_newest", counted)
    for path in ("t/0", "t/0/offset", "t/0/by-time", "t/0/segments"):
        assert len(list(directory_at(tree, path).walked(is_sized=True))) > 1
    assert len(looks) == 1
