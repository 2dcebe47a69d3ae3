"""Counts are used as long as the files confirm them; saved ones only save work."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, sent

from kafkafs.content import CountedLog, SizeCache, cache_directory
from kafkafs.content.counted_file import CountedFile
from kafkafs.content.file_places import FilePlaces
from kafkafs.content.held_files import HeldFiles
from kafkafs.content.positions import Positions
from kafkafs.content.saved import SavedSizes
from kafkafs.render.batch_lines import ValueLines
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.stream_file import exact_size
from storage.files import Files, PrivateFiles, ReadableFile
from storage.log.followed_log import FollowedLog
from storage.log.view import Isolation
from storage.record import BatchForm, Codec
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkafs.content.seen import Seen, SeenFile
    from storage.log.readable_log import ReadableLog

CACHE = Path("/cache/kafkafs")
KEY_FILE = ".sizes"


class CountingFiles(MemoryFiles):
    """Counts the bytes that are read of logs."""

    read_bytes = 0

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        opened = super().open_reading(path)
        if str(path).endswith(".log"):
            read_at = opened.read_at

            def counted(position: int, size_bytes: int) -> bytes:
                data = read_at(position, size_bytes)
                self.read_bytes += len(data)
                return data

            opened.read_at = counted  # type: ignore[method-assign]
        return opened


def test_what_is_kept_is_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        SavedSizes(PrivateFiles(), tmp_path / "cache" / "kafkafs").save("key", ())
    finally:
        os.umask(before)
    found = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path).rglob("*")}
    assert len(found) == 3
    assert {mode for path, mode in found.items() if path.suffix} == {0o600}
    assert {mode for path, mode in found.items() if not path.suffix} == {0o700}


@pytest.fixture
def memory() -> LogOnMemory:
    return LogOnMemory(files=CountingFiles())


def followed(memory: LogOnMemory) -> FollowedLog:
    return FollowedLog(
        memory.clock, memory.files.directory(DIRECTORY), memory.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
    )


def counted_by(sizes: SizeCache, log: ReadableLog) -> CountedLog:
    return sizes.log(Path(DIRECTORY), log, Isolation.UNCOMMITTED, "values", ValueLines())


def size(counted: CountedLog) -> int | None:
    seen, positions = counted.look()
    return positions.size_bytes(seen)


def fill(memory: LogOnMemory, batches: int = 30) -> None:
    for number in range(batches):
        memory.log.append_as_leader(sent(b"%d" % number * 100, BatchForm(codec=Codec.LZ4)), leader_epoch=1)


def saved(memory: LogOnMemory) -> list[str]:
    return [name for name in memory.files.names(CACHE) if name.endswith(KEY_FILE)]


def count_and_close(memory: LogOnMemory) -> int:
    sizes = SizeCache(memory.files, CACHE)
    counted = counted_by(sizes, followed(memory))
    sizes.count(counted, lambda: False)
    found = size(counted)
    assert found is not None
    sizes.close()
    return found


@pytest.fixture
def kept(memory: LogOnMemory) -> int:
    """The size of a log that was counted, and is kept."""
    memory.files.make_directory("/cache")
    fill(memory)
    return count_and_close(memory)


def test_only_what_is_new_is_counted(memory: LogOnMemory, kept: int) -> None:
    assert isinstance(memory.files, CountingFiles)
    counted = counted_by(SizeCache(memory.files, CACHE), followed(memory))
    assert size(counted) == kept
    fill(memory, 2)
    memory.files.read_bytes = 0
    assert size(counted) is None
    seen, _ = counted.look()
    assert counted.uncounted_bytes(seen) < 700
    assert counted.count(seen)
    assert size(counted) == kept + 2 * 101
    assert memory.files.read_bytes < 5000


@pytest.mark.usefixtures("kept")
def test_a_start_that_moves_needs_nothing_counted(memory: LogOnMemory) -> None:
    counted = counted_by(SizeCache(memory.files, CACHE), memory.log)
    lines = [b"%d" % number * 100 + b"\n" for number in range(30)]
    for start in (0, 1, 7, 8, 29, 30):
        memory.log.advance_start(start)
        assert size(counted) == sum(map(len, lines[start:]))


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_replaced_segment_is_counted_again(memory: LogOnMemory, kept: int, *, is_restored: bool) -> None:
    log = followed(memory)
    counted = counted_by(SizeCache(memory.files, CACHE), log)
    positions = None if is_restored else counted.look()[1]
    path = f"{DIRECTORY}/{0:020d}.log"
    data = memory.files.read(path)
    first_bytes = int.from_bytes(data[8:12], "big") + 12
    cleaned = f"{path}.cleaned"
    with memory.files.open_writing(cleaned, create=True) as file:
        file.write_at(0, [data[first_bytes:]])  # a compaction that took the first record away
    memory.files.rename(cleaned, path)
    if positions is not None:
        assert counted.look()[1].number == positions.number + 1
    seen, _ = counted.look()
    assert 0 < counted.uncounted_bytes(seen) < len(data)
    assert counted.count(seen)
    assert size(counted) == kept - 101


@pytest.mark.usefixtures("kept")
def test_a_segment_whose_end_was_rewritten_is_counted_again(memory: LogOnMemory) -> None:
    memory.log.truncate_to(29)
    memory.log.append_as_leader(sent(b"another"), leader_epoch=2)
    counted = counted_by(SizeCache(memory.files, CACHE), followed(memory))
    assert size(counted) is None
    counted.count_all(lambda: False)
    assert size(counted) == sum(len(value or b"") + 1 for value in memory.values())


@pytest.mark.parametrize("change", ["cut", "flip", "grow", "version", "empty", "other"])
def test_what_is_kept_is_not_believed_if_it_is_not_whole(memory: LogOnMemory, kept: int, change: str) -> None:
    (name,) = saved(memory)
    path = CACHE / name
    data = bytearray(memory.files.read(path))
    match change:
        case "cut":
            del data[-1]
        case "flip":
            data[len(data) // 2] ^= 4
        case "grow":
            data += b"\0"
        case "version":
            data[14] ^= 3
        case "empty":
            data.clear()
        case "other":
            saving = SavedSizes(memory.files, CACHE)
            saving.save("another", saving.load(f"{DIRECTORY}\0{Isolation.UNCOMMITTED.value}\0values"))
            (other,) = set(saved(memory)) - {name}
            data[:] = memory.files.read(CACHE / other)
    with memory.files.open_writing(path) as file:
        file.truncate(0)
        file.write_at(0, [data])
    counted = counted_by(SizeCache(memory.files, CACHE), followed(memory))
    assert size(counted) is None
    counted.count_all(lambda: False)
    assert size(counted) == kept


@pytest.mark.usefixtures("kept")
def test_every_flipped_byte_is_noticed(memory: LogOnMemory) -> None:
    key = f"{DIRECTORY}\0{Isolation.UNCOMMITTED.value}\0values"
    saving = SavedSizes(memory.files, CACHE)
    (name,) = saved(memory)
    data = memory.files.read(CACHE / name)
    assert saving.load(key)
    for at in range(0, len(data), 7):
        with memory.files.open_writing(CACHE / name) as file:
            file.write_at(at, [bytes([data[at] ^ 1])])
            assert saving.load(key) == []
            file.write_at(at, [data[at : at + 1]])


@pytest.mark.usefixtures("kept")
def test_the_oldest_go_where_there_are_too_many(memory: LogOnMemory) -> None:
    (first,) = saved(memory)
    counted = counted_by(SizeCache(memory.files, CACHE), followed(memory))
    counted.look()
    one_bytes = len(memory.files.read(CACHE / first))
    saving = SavedSizes(memory.files, CACHE, total_bytes_max=3 * one_bytes)
    for number in range(5):
        memory.files.now_ms += 1000
        saving.save(f"key {number}", counted.counted())
    assert len(saved(memory)) == 3
    assert [bool(saving.load(f"key {number}")) for number in range(5)] == [False, False, True, True, True]


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_a_cache_that_cannot_be_written_is_no_error(memory: LogOnMemory, code: int) -> None:
    fill(memory)

    class Refusing(MemoryFiles):
        def make_directory(self, path: str | os.PathLike[str], **_options: object) -> None:
            raise OSError(code, "no", str(path))

    sizes = SizeCache(Refusing(), CACHE)
    counted = counted_by(sizes, followed(memory))
    sizes.count(counted, lambda: False)
    assert size(counted) is not None
    sizes.close()
    sizes.close()


def test_counting_in_the_background_ends_with_the_cache(memory: LogOnMemory) -> None:
    fill(memory)
    sizes = SizeCache(memory.files, None)
    several = [
        sizes.log(Path(DIRECTORY), followed(memory), Isolation.UNCOMMITTED, f"values {number}", ValueLines())
        for number in range(3)
    ]
    for counted in several:
        sizes.begin(counted)
        sizes.begin(counted)
    thread = sizes._worker._thread
    assert thread is not None
    sizes.close()
    assert not thread.is_alive()
    sizes.begin(several[0])  # nothing happens any more


def test_counting_can_be_cancelled_and_goes_on_where_it_was(memory: LogOnMemory) -> None:
    fill(memory, 40)
    counted = counted_by(SizeCache(memory.files, None), memory.log)
    seen, _ = counted.look()
    steps = iter([False] * 2 + [True] * 100)
    assert not counted.count(seen, lambda: next(steps))
    left = counted.uncounted_bytes(seen)
    assert 0 < left < sum(file.end for file in seen.files)
    assert counted.count(seen)
    assert size(counted) == sum(len(value or b"") + 1 for value in memory.values())


def test_caches_are_where_the_user_keeps_them() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/kafkafs")
    assert cache_directory({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/kafkafs")
    assert cache_directory({"HOME": "/h"}) == Path("/h/.cache/kafkafs")
    assert cache_directory({}) is None


COUNT = """
import sys
from pathlib import Path
from kafkafs.render.batch_lines import ValueLines
from kafkafs.content import SizeCache
from storage.clock import Clock
from storage.config import TopicConfig
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.log.view import Isolation

directory, cache, counts = sys.argv[1:]
log = FollowedLog(Clock(), Files().directory(directory), TopicConfig.resolve({}), producer_expiration_ms=1000)
sizes = SizeCache(Files(), Path(cache))
counted = sizes.log(Path(directory), log, Isolation.UNCOMMITTED, "values", ValueLines())
if counts == "yes":
    sizes.count(counted, lambda: False)
seen, positions = counted.look()
print(positions.size_bytes(seen))
"""


def test_one_process_knows_what_another_has_counted(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(sent([(0, b"one"), (1, b"three")]))
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.iterdir()}
    cache = tmp_path / "cache" / "kafkafs"

    def run(counts: str) -> str:
        command = [sys.executable, "-c", COUNT, directory, cache, counts]
        return subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout.strip()

    assert [run("no"), run("yes"), run("no")] == ["None", "10", "10"]
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.iterdir()} == before
    assert Files().status(cache) is not None


class CountedMeanwhile(CountedFile):
    """A file that another thread counts on in, each time that it is asked how far that has come."""

    asked = 0

    @property
    def next_offset(self) -> int:
        self.asked += 1
        return self.asked


def test_counting_that_goes_on_is_no_truncation(memory: LogOnMemory) -> None:
    memory.log.append_as_leader(sent([(0, b"value")] * 10))
    counted_log = CountedLog(memory.log, ValueLines(), Isolation.UNCOMMITTED)
    seen, _ = counted_log.look()
    [file] = seen.files
    meanwhile = CountedMeanwhile(0, file.counted.identity)
    seen = seen._replace(files=(file._replace(counted=meanwhile),))
    places = FilePlaces(memory.log, counted_log.aborted, HeldFiles(), counted_log.count_to, lambda: "the log")
    positions = Positions(0, 0, seen, places)
    positions.extend(seen)
    assert [(part.begin, part.counted) for part in positions.parts] == [(0, meanwhile)]
    assert not meanwhile.is_sealed


class ReadMeanwhile(CountedLog):
    """Another reader finds new records each time the size is looked for, before it is."""

    positions: Positions
    memory: LogOnMemory
    times = 3

    def uncounted_bytes(self, seen: Seen, files: Iterable[SeenFile] | None = None) -> int:
        found = super().uncounted_bytes(seen, files)
        if self.times:
            self.times -= 1
            fill(self.memory, 1)
            self.positions.extend(self.look()[0])
        return found


def test_a_size_is_that_of_one_view_while_others_read(memory: LogOnMemory) -> None:
    fill(memory, 1)
    counted_log = ReadMeanwhile(memory.log, ValueLines(), Isolation.UNCOMMITTED)
    seen, counted_log.positions = counted_log.look()
    counted_log.memory = memory
    size_bytes = exact_size(counted_log, counted_log.positions, seen, TreeOptions())
    newest, positions = counted_log.look()
    assert size_bytes == positions.size_bytes(newest)
    assert positions.damage(newest) is None


def test_asking_with_an_older_view_gives_the_view_of_the_files(memory: LogOnMemory) -> None:
    fill(memory, 1)
    counted_log = CountedLog(memory.log, ValueLines(), Isolation.UNCOMMITTED)
    older, positions = counted_log.look()
    fill(memory, 1)
    newer, _ = counted_log.look()
    positions.extend(newer)
    assert positions.newest(older) is newer
    assert positions.uncounted(older) == (newer, newer.files)
