"""`log-start-offset` says where a log begins, and writing a number deletes the records below it, for good."""

from __future__ import annotations

import shutil
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest
from memory_logs import SETTINGS, LogOnMemory, StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import InvalidInputError, NotPermittedError, ReadOnlyTreeError
from kafkafs.tree.node import WritableFile
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.start_offset_file import StartOffsetFile
from kafkafs.tree.tree import Tree
from storage.clock import Clock
from storage.errors import DiskFullError, OffsetOutOfRangeError, PoisonedLogError
from storage.files import Files
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets, write_offsets
from storage.log_dir.settings_file import SETTINGS_NAME
from storage.store.store import Mode, Store
from storage.testing.faults import Cut, Effect
from storage.testing.memory_files import MemoryFiles
from storage.topics.checkpointing import PartitionCheckpoints

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Views


def log_of_ten(settings: dict[str, str] = SETTINGS) -> LogOnMemory:
    lab = LogOnMemory(settings)
    for number in range(10):
        lab.log.append_as_leader(sent(b"%d" % number * 300))
    return lab


def node(views: Views, lab: LogOnMemory, *, is_followed: bool = False) -> StartOffsetFile:
    source = views.memory(lab, is_followed=is_followed)
    path = PartitionFilePath(source.path, View.LOG_START_OFFSET)
    return StartOffsetFile(path, source, attrgetter("end_offset"))


def tree_of(store: Store) -> Tree:
    sizes = SizeCache(Files(), None)
    return Tree(store, TreeOptions(), clock=Clock(), sizes=sizes, control=ControlNodes())


def in_tree(tree: Tree, path: str) -> WritableFile:
    found = tree.node(parse_path(path, tree.context.store.topics.inventory.topics))
    assert isinstance(found, WritableFile)
    return found


def text(file: WritableFile) -> bytes:
    found = bytes(file.open().read(0, 1000))
    assert file.attributes().size_bytes == len(found)
    return found


@pytest.mark.parametrize(
    ("written", "start"),
    [
        ([b"4\n"], 4),
        ([b"0\n"], 0),
        ([b"10\n"], 10),
        ([b"-1\n"], 10),
        ([b"00007\n"], 7),
        ([b" 7\r\n"], 7),
        ([b"7"], 7),
        ([b"1", b"0", b"\n"], 10),
        ([b"7\n", b"4\n"], 7),
        ([b"4\n", b"7"], 7),
        ([], 0),
    ],
)
def test_records_below_the_number_are_gone_when_it_is_written(views: Views, written: list[bytes], start: int) -> None:
    lab = log_of_ten()
    file = node(views, lab)
    writing = file.open_writing()
    for data in written:
        writing.write(data)
    if written and not written[-1].endswith(b"\n"):
        assert lab.log.view.start_offset < start
    for _ in range(2):
        writing.flush()
    assert text(file) == b"%d\n" % start
    assert lab.log.view.start_offset == start
    writing.sync()
    assert writing.read(100) == b""
    writing.close()


@pytest.mark.parametrize(
    ("written", "error"),
    [
        (b"11\n", OffsetOutOfRangeError),
        (b"99999999999999999999\n", OffsetOutOfRangeError),
        (b"-2\n", InvalidInputError),
        (b"+2\n", InvalidInputError),
        (b"1_0\n", InvalidInputError),
        ("٣\n".encode(), InvalidInputError),
        (b"four\n", InvalidInputError),
        (b"4.0\n", InvalidInputError),
        (b"\n", InvalidInputError),
        (b"4\n5\n", InvalidInputError),
        (b"\xff\n", InvalidInputError),
        (b"4" * 100_000, InvalidInputError),
        (b"latest\n", InvalidInputError),
    ],
)
def test_what_is_no_offset_of_the_log_deletes_nothing(views: Views, written: bytes, error: type[Exception]) -> None:
    lab = log_of_ten()
    writing = node(views, lab).open_writing()
    with pytest.raises(error):
        writing.write(written)
    assert lab.log.view.start_offset == 0
    writing.write(b"" if written.endswith(b"\n") else b"\n")
    writing.write(b"3\n")
    assert lab.log.view.start_offset == 3


@pytest.mark.parametrize(("policy", "is_allowed"), [("compact", False), ("compact,delete", True), ("delete", True)])
def test_a_topic_that_is_only_compacted_keeps_its_records(views: Views, policy: str, *, is_allowed: bool) -> None:
    lab = log_of_ten({**SETTINGS, "cleanup.policy": policy})
    writing = node(views, lab).open_writing()
    if is_allowed:
        writing.write(b"4\n")
    else:
        with pytest.raises(NotPermittedError, match=r"^/topic/0/log-start-offset: .*cleanup\.policy=compact$"):
            writing.write(b"4\n")
    assert lab.log.view.start_offset == (4 if is_allowed else 0)


def test_what_is_not_known_to_be_replicated_stays(tmp_path: Path) -> None:
    """In a broker's replica, only the checkpoint says how far others have it."""
    with Store.create([tmp_path], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1)
        in_tree(tree_of(store), "orders/0/append").open_writing().write(b"a\nb\nc\nd\n")
    (tmp_path / SETTINGS_NAME).unlink()
    write_offsets(Files().directory(tmp_path), OffsetCheckpoint.HIGH_WATERMARK, {("orders", 0): 3})
    with Store.open([tmp_path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        file = in_tree(tree_of(store), "orders/0/log-start-offset")
        with pytest.raises(InvalidInputError, match="what lies at 3 and after it is not known to be replicated"):
            file.open_writing().write(b"4\n")
        with pytest.raises(OffsetOutOfRangeError):
            file.open_writing().write(b"5\n")
        assert text(file) == b"0\n"
        file.open_writing().write(b"-1\n")
        assert text(file) == b"3\n"


def test_a_log_that_may_not_be_written_refuses_at_the_open(views: Views) -> None:
    lab = log_of_ten()
    followed = node(views, lab, is_followed=True)
    internal = node(views, lab)
    internal.source.topic = "__transaction_state"
    for file, error in ((followed, ReadOnlyTreeError), (internal, NotPermittedError)):
        assert text(file) == b"0\n"
        assert not file.attributes().is_writable
        with pytest.raises(error, match="log-start-offset"):
            file.open_writing()


def test_a_poisoned_log_takes_no_number(views: Views) -> None:
    lab = log_of_ten()
    lab.files.cut = Cut(lab.files.steps, Effect.DISK_ERROR)
    with pytest.raises(PoisonedLogError):
        lab.log.append_as_leader(sent(b"value"))
    with pytest.raises(PoisonedLogError):
        node(views, lab).open_writing().write(b"4\n")
    assert lab.log.view.start_offset == 0


def test_a_full_disk_deletes_nothing() -> None:
    """At every step: the log, what readers see, and the checkpoint are as they were, and with room it is done."""
    refused, step = 0, 0
    while True:
        files = MemoryFiles()
        files.make_directory("/a")
        files.sync_directory("/")
        with Store.create(["/a"], files=files, clock=StandingClock()) as store:
            store.topics.create("orders", 1)
            tree = tree_of(store)
            in_tree(tree, "orders/0/append").open_writing().write(b"a\nb\nc\nd\n")
            store.write_checkpoints()
            file = in_tree(tree, "orders/0/log-start-offset")
            file.open_writing().write(b"1\n")
            writing = file.open_writing()
            files.cut = Cut(files.steps + step, Effect.DISK_FULL, seed=step)
            try:
                writing.write(b"3\n")
            except DiskFullError:
                refused += 1
                assert (text(file), store.log("orders", 0).view.start_offset) == (b"1\n", 1)
                for left in (files, files.after_process_death(), files.after_power_loss(step)):
                    assert read_offsets(left.directory("/a"), OffsetCheckpoint.LOG_START) == {("orders", 0): 1}
                writing.write(b"3\n")
            except PoisonedLogError:
                assert store.log("orders", 0).view.start_offset == 1  # whether the name is on disk is unknown
                store.write_checkpoints()
                assert read_offsets(files.directory("/a"), OffsetCheckpoint.LOG_START) == {("orders", 0): 1}
                step += 1
                continue
            assert text(file) == b"3\n"
            cut, files.cut = files.cut, None
            if cut.step >= files.steps:
                break
            step += 1
    assert (refused, step) == (4, 5)


def test_the_checkpoint_of_a_move_under_way_is_not_taken_back() -> None:
    """A round of checkpoints that comes between the checkpoint and the move keeps what is promised."""
    files = MemoryFiles()
    files.make_directory("/a")
    files.sync_directory("/")
    with Store.create(["/a"], files=files, clock=StandingClock()) as store:
        store.topics.create("orders", 1)
        in_tree(tree_of(store), "orders/0/append").open_writing().write(b"a\nb\nc\nd\n")
        PartitionCheckpoints(store.topics.location("orders", 0)[1], ("orders", 0)).move_start(2)
        store.write_checkpoints()
        assert read_offsets(files.directory("/a"), OffsetCheckpoint.LOG_START) == {("orders", 0): 2}


def test_records_stay_deleted_when_the_process_dies_after_the_write(tmp_path: Path) -> None:
    with Store.create([tmp_path / "a", tmp_path / "b"], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 3)
        tree = tree_of(store)
        for partition in range(3):
            appending = in_tree(tree, f"orders/{partition}/append").open_writing()
            appending.write(b"".join(b"%d\n" % number for number in range(20)))
        in_tree(tree, "orders/1/log-start-offset").open_writing().write(b"7\n")
        in_tree(tree, "orders/2/log-start-offset").open_writing().write(b"-1\n")
        for name in "ab":
            shutil.copytree(tmp_path / name, tmp_path / "left" / name)
    left = [tmp_path / "left" / name for name in "ab"]
    checkpointed = [read_offsets(Files().directory(path), OffsetCheckpoint.LOG_START) for path in left]
    assert checkpointed[0] | checkpointed[1] == {("orders", 1): 7, ("orders", 2): 20}
    with Store.open(left, mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        tree = tree_of(store)
        starts = [text(in_tree(tree, f"orders/{partition}/log-start-offset")) for partition in range(3)]
        assert starts == [b"0\n", b"7\n", b"20\n"]
        in_tree(tree, "orders/2/append").open_writing().write(b"later\n")
        view = store.log("orders", 2).view
        assert (view.start_offset, view.end_offset) == (20, 21)


def test_a_store_that_is_read_shows_where_its_logs_begin(tmp_path: Path) -> None:
    with Store.create([tmp_path / "a"], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1)
        tree = tree_of(store)
        in_tree(tree, "orders/0/append").open_writing().write(b"a\nb\n")
        in_tree(tree, "orders/0/log-start-offset").open_writing().write(b"1\n")
    with Store.open([tmp_path / "a"], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        file = in_tree(tree_of(store), "orders/0/log-start-offset")
        assert text(file) == b"1\n"
        with pytest.raises(ReadOnlyTreeError):
            file.open_writing()
