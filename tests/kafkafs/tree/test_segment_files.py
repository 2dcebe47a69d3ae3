"""`segments/`: the real files as they are, and texts that are what the real tool printed of them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hostile.bombs import ZSTD, records_batch
from memory_logs import DIRECTORY, LogOnMemory, sent

from kafkafs.content import SizeCache, patience
from kafkafs.dump.log_dump import LogDump
from kafkafs.locator.paths import PartitionDirectoryPath, SegmentPath
from kafkafs.locator.views import View
from kafkafs.tree import segment_files, segment_text
from kafkafs.tree.errors import GoneError, NotThereError
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.raw_reading import RAW_FILES_MAX
from kafkafs.tree.segment_files import RawSegmentFile, SegmentDirectory, SegmentTextFile, segment_node
from storage.files import Files
from storage.log import ProducerState
from storage.log.producers.snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Views

    from kafkafs.tree.log_source import LogSource

LOG = f"{0:020d}.log"
SETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-compaction", "kafka-3.9-recovery")
INTERNAL_TOPICS = ("__consumer_offsets-", "__transaction_state-", "__cluster_metadata-")
KAFKAFS = [sys.executable, "-c", "from kafkafs.cli import main; main()"]


def segments(source: LogSource) -> SegmentDirectory:
    return SegmentDirectory(PartitionDirectoryPath(source.path, View.SEGMENTS), source, SizeCache(source.files, None))


def text_of(source: LogSource, name: str, sizes: SizeCache | None = None) -> SegmentTextFile:
    sizes = SizeCache(source.files, None) if sizes is None else sizes
    return SegmentTextFile(SegmentPath(source.path, name, is_text=True), source, sizes)


def raw(source: LogSource, name: str) -> RawSegmentFile:
    node = segment_node(SegmentPath(source.path, name), source)
    assert isinstance(node, RawSegmentFile)
    return node


def read_all(node: SegmentTextFile | RawSegmentFile, size_bytes: int = 100_000) -> bytes:
    reading = node.open()
    found = b""
    while part := bytes(reading.read(len(found), size_bytes)):
        found += part
    reading.close()
    return found


def dumped(root: Path) -> Iterator[tuple[Path, bytes, bool]]:
    """The logs that the real tool was asked about, what it printed after its first line, and whether it died."""
    for printed in sorted(root.rglob("*.log.txt")):
        parts = [part.removesuffix(".dump") for part in printed.relative_to(root).parts]
        log = root.joinpath(*parts).with_suffix("")
        if not log.parent.name.startswith(INTERNAL_TOPICS):
            yield log, printed.read_bytes(), Path(f"{printed}.CRASH").exists()


@pytest.mark.golden
def test_a_large_directory_is_listed_in_parts(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    source = views.follow(max(views.partitions("kafka-3.9"), key=lambda each: len(os.listdir(each))))  # noqa: PTH208
    directory = segments(source)
    entries, told = list(directory.entries()), list(directory.walked(is_sized=False))
    monkeypatch.setattr(segment_files, "LARGE_DIRECTORY_BYTES", 0)
    for looks in (1, 2, 1000):
        monkeypatch.setattr(segment_files, "_LOOKS", looks)
        assert list(directory.entries()) == entries
        assert list(directory.walked(is_sized=True)) == told
        assert list(directory.names()) == [entry.name for entry in entries]


@pytest.mark.golden
@pytest.mark.parametrize("name", SETS)
def test_the_texts_of_logs_are_the_real_tools(views: Views, name: str) -> None:
    checked = 0
    sizes = SizeCache(Files(), None)
    for log, printed, is_death in dumped(views.root(name)):
        source = views.follow(log.parent)
        node = text_of(source, log.name, sizes)
        size = node.attributes().size_bytes
        found = read_all(node)
        first_line, _, rest = found.partition(b"\n")
        assert first_line == f"Dumping {log.name}".encode()
        assert rest == printed or (is_death and rest.startswith(printed)), log
        assert size == len(found)
        reading = node.open()
        assert all(bytes(reading.read(at, 700)) == found[at : at + 700] for at in reversed(range(0, len(found), 4999)))
        reading.close()
        checked += 1
    assert checked > 0


@pytest.mark.golden
def test_the_other_texts_are_those_of_the_command(views: Views) -> None:
    source = views.follow(next(each for each in views.partitions(views.whole[1]) if each.name == "t-txn-0"))
    names = list(segments(source).names())
    assert [name for name in names if not name.endswith(".txt")] == sorted(
        each.name for each in source.directory.iterdir()
    )
    kinds = set()
    for name in names:
        if not name.endswith(".txt") or name.endswith(".log.txt"):
            continue
        real = source.directory / name.removesuffix(".txt")
        printed = subprocess.run([*KAFKAFS, "dump", real], capture_output=True, check=False).stdout
        node = text_of(source, real.name)
        found = read_all(node)
        assert found.partition(b"\n")[2] == printed.partition(b"\n")[2]
        assert found.startswith(f"Dumping {real.name}\n".encode())
        assert node.attributes().size_bytes == len(found)
        assert node.xattrs() == {}
        kinds.add(real.suffix or real.name)
    assert kinds >= {".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"}


def test_a_dump_of_many_entries_has_no_size_and_comes_entry_by_entry(views: Views, tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / LOG).write_bytes(sent(b"value"))
    count = 100_000
    lines = "".join(f"{epoch} {epoch}\n" for epoch in range(count))
    (directory / "leader-epoch-checkpoint").write_text(f"0\n{count}\n{lines}")
    (directory / f"{0:020d}.txnindex").write_bytes(bytes(34 * count))
    (directory / f"{1:020d}.snapshot").write_bytes(
        encode_snapshot(ProducerState(each, 0, -1, 0, None, ()) for each in range(count))
    )
    source = views.follow(directory)
    for name in ("leader-epoch-checkpoint", f"{0:020d}.txnindex", f"{1:020d}.snapshot"):
        node = text_of(source, name)
        assert node.attributes().size_bytes is None
        reading = node.open()
        assert bytes(reading.read(0, 8)) == b"Dumping "
        reading.close()
        assert read_all(node).count(b"\n") == count + 1


def test_real_files_are_shown_as_they_are(views: Views, tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / LOG).write_bytes(sent(b"value") + b"a torn tail")
    with (directory / f"{0:020d}.index").open("wb") as index:
        index.truncate(1 << 20)
    source = views.follow(directory)
    for name in (LOG, f"{0:020d}.index"):
        status = (directory / name).stat()
        node = raw(source, name)
        attributes = node.attributes()
        assert attributes.size_bytes == status.st_size
        assert attributes.disk_blocks == status.st_blocks
        assert attributes.modified_ms == status.st_mtime_ns // 1_000_000
        of_directory = directory.stat()
        assert attributes.access is not None
        assert (attributes.access.uid, attributes.access.gid) == (of_directory.st_uid, of_directory.st_gid)
        assert attributes.access.mode & 0o444 == of_directory.st_mode & status.st_mode & 0o444
        assert node.identity == status.st_ino
        assert read_all(node) == (directory / name).read_bytes()
    reading = raw(source, LOG).open()
    (directory / LOG).unlink()
    assert bytes(reading.read(0, 1000)) == sent(b"value") + b"a torn tail", "who has it open keeps it"
    assert bytes(reading.read_soon(3, 4) or reading.read(3, 4)) == sent(b"value")[3:7]
    assert bytes(reading.read(100_000, 1)) == b""
    reading.close()
    assert reading.size_bytes() == len(sent(b"value") + b"a torn tail"), "somebody may ask while it is closed"
    with pytest.raises(NotThereError):
        raw(source, LOG)


def test_very_many_open_files_have_few_descriptors(views: Views, tmp_path: Path) -> None:
    """A user who opened all that a mount may have would keep all others from every partition."""
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / LOG).write_bytes(sent(b"value"))
    node = raw(views.follow(directory), LOG)
    readings = [node.open() for _ in range(2 * RAW_FILES_MAX)]
    open_files = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    assert open_files.count(os.path.realpath(directory / LOG)) == RAW_FILES_MAX
    assert readings[0].read_soon(0, 1000) is None
    assert {bytes(each.read(0, 1000)) for each in readings} == {sent(b"value")}
    (directory / LOG).rename(directory / "moved")
    (directory / LOG).write_bytes(b"another file")
    assert bytes(readings[-1].read(0, 1000)) == sent(b"value")
    assert readings[0].size_bytes() == len(sent(b"value"))
    with pytest.raises(GoneError, match=f"it was removed after {RAW_FILES_MAX} others had been read"):
        readings[0].read(0, 1000)
    for each in readings:
        each.close()
    assert not [each for each in Path("/proc/self/fd").iterdir() if os.path.realpath(each).startswith(str(directory))]


def test_another_file_is_not_opened_for_the_one_that_was_looked_up(views: Views, tmp_path: Path) -> None:
    """The kernel gave rights to that file, and the other may be closed to the reader."""
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / LOG).write_bytes(sent(b"value"))
    node = raw(views.follow(directory), LOG)
    (directory / "secret").write_bytes(b"secret")
    (directory / "secret").replace(directory / LOG)
    with pytest.raises(OSError, match="Stale file handle") as stale:
        node.open()
    assert stale.value.errno == errno.ESTALE


@pytest.mark.parametrize("name", ["partition.metadata", "notes", "x.index", "replication-offset-checkpoint.tmp"])
def test_what_cannot_be_dumped_has_no_twin(views: Views, tmp_path: Path, name: str) -> None:
    directory = tmp_path / "topic-0"
    (directory / "inner").mkdir(parents=True)
    (directory / name).write_text("version: 0\n")
    source = views.follow(directory)
    assert list(segments(source).names()) == [name]
    for wanted in (name, "missing.log", "inner"):
        with pytest.raises(NotThereError):
            text_of(source, wanted)


def test_the_text_of_a_log_that_is_written_grows_with_it(views: Views) -> None:
    memory = LogOnMemory({})
    source = views.memory(memory)
    memory.log.append_as_leader(sent(b"first"), leader_epoch=1)
    sizes = SizeCache(memory.files, None)
    node = text_of(source, LOG, sizes)
    reading = node.open()
    copy = b""
    for number in range(20):
        size = reading.size_bytes()
        assert size is not None
        copy += bytes(reading.read(len(copy), size))
        assert len(copy) == size == node.attributes().size_bytes
        assert read_all(text_of(source, LOG, SizeCache(memory.files, None))) == copy
        memory.log.append_as_leader(sent(b"value %d" % number), leader_epoch=1)
    assert text_of(source, LOG, sizes).identity == node.identity
    memory.log.truncate_to(3)
    memory.log.append_as_leader(sent(b"another"), leader_epoch=2)
    assert read_all(text_of(source, LOG, sizes)).count(b"payload: ") == 4
    assert node.attributes().size_bytes == len(read_all(text_of(source, LOG, SizeCache(memory.files, None))))
    with pytest.raises(GoneError):
        reading.read(len(copy), 10)


def test_the_end_of_a_text_that_is_no_batch_is_counted_again(views: Views) -> None:
    memory = LogOnMemory({})
    source = views.memory(memory)
    node = text_of(source, LOG)
    path = f"{DIRECTORY}/{LOG}"
    tail = sent(b"a batch that is being written")
    memory.log.append_as_leader(sent(b"value"), leader_epoch=1)
    end = memory.log.view.end_position
    with memory.files.open_writing(path) as file:
        for size in (5, 20, len(tail) - 1):
            file.write_at(end, [tail[:size]])
            found = read_all(node)
            assert b"Found %d invalid bytes" % size in found
            assert node.attributes().size_bytes == len(found)
        file.write_at(end, [tail])
    found = read_all(node)
    assert b"invalid bytes" not in found
    assert found.count(b"payload: ") == 2
    assert node.attributes().size_bytes == len(found)


def test_what_takes_too_long_is_unknown_until_it_was_opened(views: Views) -> None:
    memory = LogOnMemory()
    source = views.memory(memory, TreeOptions(counted_bytes_max=500))
    for number in range(20):
        memory.log.append_as_leader(sent(b"value %d" % number), leader_epoch=1)
    sizes = SizeCache(memory.files, Path("/cache"))
    node = text_of(source, LOG, sizes)
    assert node.attributes().size_bytes is None
    assert node.xattrs() == {"user.kafkafs.size": b"pending"}
    node.warm(lambda: False)
    assert node.attributes().size_bytes == len(read_all(node))
    sizes.close()
    node = text_of(source, LOG, SizeCache(memory.files, Path("/cache")))
    assert node.attributes().size_bytes == len(read_all(node)), "what was counted is kept"
    index = text_of(source, f"{0:020d}.index")
    assert index.attributes().size_bytes is None
    with suppress(NotThereError):
        assert read_all(index).startswith(b"Dumping ")


def test_the_text_of_a_batch_of_very_many_records_is_counted_for_a_moment(
    views: Views, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes may hold millions of records, and a stat is not to print them all."""
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / LOG).write_bytes(records_batch(ZSTD, 100_000))
    source = views.follow(directory)
    printed: list[int] = []
    batch = LogDump._batch

    def counted(*arguments: object) -> Iterator[list[bytes]]:
        for lines in batch(*arguments):
            printed.append(len(lines))
            yield lines

    monkeypatch.setattr(LogDump, "_batch", counted)
    for module in (patience, segment_text):
        monkeypatch.setattr(module, "LOOK_S", 0.01)
    assert text_of(source, LOG).attributes().size_bytes is None
    assert sum(printed) < 100_000
    printed.clear()
    assert segment_text.log_text_bytes(source.log.directory, LOG) is None
    assert sum(printed) < 100_000
